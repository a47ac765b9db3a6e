"""What is said beside the results: on stderr, safe to show, with an exit code."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import typer

from bayesjudge.errors import BayesjudgeError, UsageError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from bayesjudge.scores import Problem

INTERRUPTED = 130
BROKEN_PIPE = 141

_PATIENCE = 2.0


@contextmanager
def answering() -> Iterator[None]:
    """Turn errors into one message on stderr and an exit code."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError as error:
        # Whoever read has gone; what is still in the buffer must not fail again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(BROKEN_PIPE) from error
    except BayesjudgeError as error:
        say(f"error: {error}")
        raise typer.Exit(2 if isinstance(error, UsageError) else 1) from error
    except KeyboardInterrupt as error:
        raise typer.Exit(INTERRUPTED) from error


def say(text: str) -> None:
    """Write lines to stderr, control characters made visible."""
    from bayesjudge.text import visible

    for line in text.split("\n"):
        typer.echo(visible(line), err=True)


def say_notes(lines: Iterable[str], quiet: bool, level: str | None = None) -> None:
    """Write notes, unless quiet; each with the level it is about."""
    if not quiet:
        for line in lines:
            say(f"{_about(level)}{line}")


def say_problems(problems: Iterable[Problem], quiet: bool, level: str | None = None) -> None:
    """Write findings; when quiet, warnings and errors only."""
    for problem in problems:
        if not (quiet and problem.severity == "note"):
            # One finding is one line, whatever a label holds.
            told = str(problem).replace("\n", "\\n")
            say(f"{_about(level)}{problem.severity}: {told}")


def print_json(obj: object) -> None:
    """Write one JSON object to stdout, as UTF-8."""
    from bayesjudge.report.json_text import to_json

    typer.echo((to_json(obj) + "\n").encode(), nl=False)


def print_tables(*tables: RenderableType) -> None:
    """Draw tables on stdout."""
    from rich.console import Console

    console = Console(emoji=False, markup=False, highlight=False)
    for table in tables:
        console.print(table)


@contextmanager
def working(what: str, shown: bool) -> Iterator[None]:
    """Show on a terminal's stderr that something takes its time."""
    if not shown or not sys.stderr.isatty():
        yield
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    from bayesjudge.text import visible

    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    started = time.perf_counter()
    with Progress(*columns, console=Console(stderr=True, emoji=False), transient=True) as progress:
        progress.add_task(visible(what), total=None)
        yield
    if time.perf_counter() - started > _PATIENCE:
        say(f"{what}: {time.perf_counter() - started:.1f} s")


@dataclass(frozen=True, eq=False)
class Count:
    """What is told while many things are done one after another.

    Attributes
    ----------
    advance : function of bool
        One more is done, or failed where it is True.
    say : function of str
        Write lines to stderr, above the bar where there is one.
    """

    advance: Callable[[bool], None]
    say: Callable[[str], None]


@contextmanager
def counting(what: str, total: int, shown: bool) -> Iterator[Count]:
    """Show on a terminal's stderr how many of many are done, and how long the rest will take."""
    if not shown or not sys.stderr.isatty():
        yield Count(lambda _: None, say)
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    from bayesjudge.text import visible

    console = Console(stderr=True, emoji=False, markup=False, highlight=False)
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[lost]} failed", markup=False),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(visible(what), total=total, lost=0)
        lost = 0

        def advance(failed: bool) -> None:
            nonlocal lost
            lost += failed
            progress.update(task, advance=1, lost=lost)

        def above(text: str) -> None:
            for line in text.split("\n"):
                console.out(visible(line), highlight=False)

        yield Count(advance, above)


def _about(level: str | None) -> str:
    return "" if level is None else f"[{level}] "
