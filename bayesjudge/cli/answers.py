"""The road that rank, anova, calibrate and audit share: read, answer, write, print, exit.

Parts of a table take it in :mod:`bayesjudge.cli.groups`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import typer

from bayesjudge.cli.messages import (
    print_json,
    print_tables,
    say,
    say_notes,
    say_problems,
    working,
)
from bayesjudge.cli.options import OutputOptions, named_together, one_or_many
from bayesjudge.cli.store_sources import refuse_stores
from bayesjudge.report.files import Content, OutputFolder, checked_folder
from bayesjudge.report.results_folder import INDEX_FILES, index_files
from bayesjudge.report.sentences import reading_sentences
from bayesjudge.scores import Problem, Reading, Tally, scan

if TYPE_CHECKING:
    from rich.console import RenderableType


type Index = Callable[[str, Sequence[Mapping[str, str]], Mapping[str, Any]], Mapping[str, Content]]


@dataclass(frozen=True, eq=False)
class Tallied:
    """A table that was passed over where it is, in the place of one that was read.

    Attributes
    ----------
    tally : Tally
    """

    tally: Tally

    @property
    def rows(self) -> None:
        """Of no row is it known which it was."""
        return None

    def require(self, source: str) -> Tally:  # noqa: ARG002
        """Return the tally: a table with errors never becomes one."""
        return self.tally


@dataclass(frozen=True, eq=False)
class Part:
    """One table, or a part of one, that is to be answered.

    Attributes
    ----------
    reading : Reading or Tallied
    source : str
        As messages name it.
    level : str or None
        Label of the part.
    title : str
        Of the part; empty for a whole table.
    step : str
        Which part of how many, for progress.
    """

    reading: Reading | Tallied
    source: str
    level: str | None = None
    title: str = ""
    step: str = ""

    @property
    def rows(self) -> Reading:
        """The reading of rows, where the command takes nothing else."""
        if isinstance(self.reading, Tallied):
            raise TypeError("a table that was passed over has no rows")
        return self.reading

    @property
    def extra(self) -> dict[str, Any]:
        """What metadata say of the reading."""
        if isinstance(self.reading, Tallied):
            return {"unused_columns": None, "moments": True}
        return {"unused_columns": list(self.reading.unused_columns)}


@dataclass(frozen=True, eq=False)
class Answered:
    """One answer, as it leaves the program; what is not asked for is not made.

    Attributes
    ----------
    json : function without arguments, returning an object
    tables : function without arguments, returning renderables
    files : function without arguments, returning contents by name of file
    alarm : str
        Why it cannot be relied on; empty where it can.
    notes : sequence of str
        Said once the files are written.
    """

    json: Callable[[], object]
    tables: Callable[[], Sequence[RenderableType]]
    files: Callable[[], Mapping[str, Content]]
    alarm: str = ""
    notes: Sequence[str] = ()


@dataclass(frozen=True)
class Road:
    """What a command does with tables.

    Attributes
    ----------
    command : str
        Its name.
    answer : function of Part, returning Answered
        A function of a module, or a ``partial`` of one: other processes call it too.
    asked : sequence of object
        All that the answer rests on beside the table (``bayesjudge.fingerprints``).
    names : tuple of str
        Of the files that an answer is written to.
    output : OutputOptions
    distrust : str
        What is said where an answer has an alarm: what cannot be relied on, and the remedy.
    index : function of column, rows and result objects by level, returning contents
        The files over the parts of a table.
    index_names : tuple of str
        Of these.
    by_row : bool
        The answer names rows of the source.
    """

    command: str
    answer: Callable[[Part], Answered]
    asked: Sequence[object]
    names: tuple[str, ...]
    output: OutputOptions
    distrust: str = ""
    index: Index = index_files
    index_names: tuple[str, ...] = INDEX_FILES
    by_row: bool = False


def answer_table(sources: Sequence[str], keywords: Mapping[str, Any], road: Road) -> None:
    """Read a table and answer it.

    Parameters
    ----------
    sources : sequence of str
    keywords : mapping
        Of ``bayesjudge.scan``.
    road : Road

    Raises
    ------
    DataError
        Where the table cannot be answered.
    """
    source = named_together(sources)
    folder = checked_folder(road.output.out, road.names)
    reading = read_aloud(sources, keywords, road.output)
    finish(road.answer(Part(reading, source)), road, folder)


def read_aloud(
    sources: Sequence[str], keywords: Mapping[str, Any], output: OutputOptions
) -> Reading:
    """Read a table, and say what was taken for what and what is wrong but for errors."""
    refuse_stores(sources)
    with working("reading", output.shows_progress):
        reading = scan(one_or_many(sources), **keywords)
    say_notes(reading_sentences(reading.mapping, reading.unused_columns), output.quiet)
    say_problems(worth_saying(reading.problems), output.quiet)
    return reading


def finish(found: Answered, road: Road, folder: OutputFolder | None) -> None:
    """Write and print one answer, then exit 1 where it cannot be relied on."""
    if folder is not None:
        folder.write(found.files(), road.command)
        say_notes([*found.notes, f"results written to {folder.path}"], road.output.quiet)
    if road.output.json:
        print_json(found.json())
    else:
        print_tables(*found.tables())
    exit_if_distrusted([""] if found.alarm else [], road)


def worth_saying(problems: Sequence[Problem]) -> list[Problem]:
    """Return problems but errors, which are said where they stop something."""
    return [p for p in problems if p.severity != "error"]


def exit_if_distrusted(levels: list[str], road: Road) -> None:
    """Exit 1 where answers cannot be relied on, unless that is allowed."""
    if not levels or road.output.allow_unconverged:
        return
    about = f" ({', '.join(levels)})" if levels != [""] else ""
    say(f"error: {road.distrust.format(about=about)}")
    raise typer.Exit(1)
