"""``report``: rank, write the page and what lies beside it, and again when scores come in."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import sleep

import typer

from bayesjudge.cli.messages import say, say_notes
from bayesjudge.cli.options import (
    ByOptions,
    OutputOptions,
    ReadingOptions,
    SamplingOptions,
    arguments_of,
    pairs_of,
)
from bayesjudge.cli.ranks import Presentation, run_rank
from bayesjudge.errors import BayesjudgeError, DataError, UsageError
from bayesjudge.report.answers import Question
from bayesjudge.report.figures import has_matplotlib
from bayesjudge.scores.files import files_below, find_paths

type Signature = tuple[tuple[str, int, int], ...]

NO_FIGURES = (
    "no figures as PNG and SVG: matplotlib is not installed (extra report); the page has its own"
)


@dataclass(frozen=True)
class PageOptions:
    """What is asked of a page.

    Attributes
    ----------
    title : str
    own : tuple of str
        As ``JUDGE=BACKBONE``.
    figures : bool
    watch : bool
    every : float
        Seconds between looks at the source.
    """

    title: str
    own: tuple[str, ...]
    figures: bool
    watch: bool
    every: float

    def words(self) -> tuple[str, ...]:
        """Return the options as they are typed, those that change what is written."""
        typed = arguments_of({"title": self.title or None, "self": list(self.own)})
        return tuple(typed if self.figures else [*typed, "--no-figures"])


def run_report(
    sources: Sequence[str],
    reading: ReadingOptions,
    groups: ByOptions,
    sampling: SamplingOptions,
    question: Question,
    output: OutputOptions,
    page: PageOptions,
) -> None:
    """Write the page of a table, of each part of it, or of a saved fit."""
    if not (math.isfinite(page.every) and page.every > 0):
        raise UsageError(f"{page.every:g} seconds between looks", "--every", "Give more than 0")
    if page.watch and output.json:
        raise UsageError(
            "--json prints one object, and --watch answers again and again",
            "--json, --watch",
            "Read feed.json in the folder instead",
        )
    figures = page.figures and has_matplotlib()
    if page.figures and not figures:
        say_notes([NO_FIGURES], output.quiet)
    shown = Presentation(
        command="report",
        title=page.title,
        own=tuple(pairs_of(page.own, "--self", "JUDGE=BACKBONE")),
        figures=figures,
        live=True,
        words=page.words(),
    )

    def make() -> None:
        run_rank(sources, reading, groups, sampling, question, output, shown)

    if page.watch:
        watch(make, lambda: signature(sources), page.every, output.quiet)
    else:
        make()


def signature(sources: Sequence[str]) -> Signature:
    """Return name, time and size of every file that sources stand for; none where there is none."""
    found = []
    for source in sources:
        try:
            paths = find_paths(source)
        except DataError:
            continue
        for path in paths:
            found += [_state(file) for file in (files_below(path) if path.is_dir() else [path])]
    return tuple(found)


def _state(path: Path) -> tuple[str, int, int]:
    try:
        state = path.stat()
    except OSError:
        return str(path), 0, -1
    return str(path), state.st_mtime_ns, state.st_size


def watch(
    make: Callable[[], None], look: Callable[[], Signature], every: float, quiet: bool
) -> None:
    """Call `make`, and again whenever what `look` returns has changed and settled.

    A table that cannot be answered any more, as one that is being written, is said and the
    last page stands; the first answer must succeed. Ends when interrupted.

    Parameters
    ----------
    make : function without arguments
    look : function without arguments, returning a signature
    every : float
        Seconds between looks.
    quiet : bool
    """
    seen = look()
    _make_even_if_distrusted(make)
    while True:
        say_notes(["waiting for changes; interrupt to stop"], quiet)
        now = look()
        while now == seen:
            sleep(every)
            now = look()
        settled = False
        while not settled:
            sleep(every)
            before, now = now, look()
            settled = now == before
        seen = now
        try:
            _make_even_if_distrusted(make)
        except BayesjudgeError as error:
            say(f"error: {error}")


def _make_even_if_distrusted(make: Callable[[], None]) -> None:
    """Make a page; that its fit did not converge is on it, and ends no watch."""
    try:
        make()
    except typer.Exit:
        return
