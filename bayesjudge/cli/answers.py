"""The road that rank, anova, calibrate and audit share: read, answer, write, print, exit.

With ``--by`` each part of the table is answered by itself, and one that fails does
not keep the others from theirs.
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
from bayesjudge.errors import BayesjudgeError, DataError
from bayesjudge.report.files import Content, OutputFolder, checked_folder
from bayesjudge.report.results_folder import INDEX_FILES, folder_name, index_files
from bayesjudge.report.sentences import reading_sentences
from bayesjudge.scores import Problem, Reading, Tally, scan, split_by

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
    names : tuple of str
        Of the files that an answer is written to.
    output : OutputOptions
    distrust : str
        What is said where an answer has an alarm: what cannot be relied on, and the remedy.
    index : function of column, rows and result objects by level, returning contents
        The files over the parts of a table.
    index_names : tuple of str
        Of these.
    """

    command: str
    answer: Callable[[Part], Answered]
    names: tuple[str, ...]
    output: OutputOptions
    distrust: str = ""
    index: Index = index_files
    index_names: tuple[str, ...] = INDEX_FILES


def answer_tables(
    sources: Sequence[str], keywords: Mapping[str, Any], by: str | None, road: Road
) -> None:
    """Read a table and answer it, or each part of it.

    Parameters
    ----------
    sources : sequence of str
    keywords : mapping
        Of ``bayesjudge.scan``.
    by : str or None
        Column whose labels part the table.
    road : Road

    Raises
    ------
    DataError
        Where the table, or some parts of it, cannot be answered.
    """
    refuse_stores(sources)
    source = named_together(sources)
    if by is not None:
        readings = split_by(one_or_many(sources), by, **keywords)
        _answer_parts(readings, by, source, road)
        return
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
    say_problems(_worth_saying(reading.problems), output.quiet)
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
    _exit_if_distrusted([""] if found.alarm else [], road)


def _answer_parts(readings: Mapping[str, Reading], by: str, source: str, road: Road) -> None:
    output = road.output
    folders = {level: folder_name(level) for level in readings}
    names = [f"{folder}/{name}" for folder in folders.values() for name in road.names]
    folder = checked_folder(output.out, (*names, *road.index_names))
    first, *others = readings.values()
    common = [p for p in first.problems if all(p in other.problems for other in others)]
    say_notes(reading_sentences(first.mapping, first.unused_columns), output.quiet)
    say_problems(_worth_saying(common), output.quiet)
    groups: dict[str, object] = {}
    index: list[dict[str, str]] = []
    tables: list[RenderableType] = []
    files: dict[str, Content] = {}
    for number, (level, reading) in enumerate(readings.items(), start=1):
        row = {"level": level, "folder": folders[level], "status": "done", "message": ""}
        own = [p for p in reading.problems if p not in common]
        say_problems(_worth_saying(own), output.quiet, level)
        step = f"{level} ({number} of {len(readings)})"
        part = Part(reading, f"{source}, {by} {level}", level, f"{by} {level}", step)
        try:
            found = road.answer(part)
        except BayesjudgeError as error:
            say(f"[{level}] error: {error}")
            groups[level] = {
                "error": {"what": error.what, "where": error.where, "remedy": error.remedy}
            }
            index.append(row | {"folder": "", "status": "failed", "message": str(error)})
            continue
        groups[level] = found.json()
        if not output.json:
            tables += found.tables()
        if found.alarm:
            row |= {"status": "not converged", "message": found.alarm}
        index.append(row)
        if folder is not None:
            files |= {f"{folders[level]}/{name}": text for name, text in found.files().items()}
    if folder is not None:
        folder.write({**files, **road.index(by, index, groups)}, road.command)
        say_notes([f"results written to {folder.path}, listed in index.csv"], output.quiet)
    if output.json:
        print_json({"by": by, "groups": groups})
    else:
        print_tables(*tables)
    failed = [row["level"] for row in index if row["status"] == "failed"]
    if failed:
        raise DataError(f"{len(failed)} of {len(readings)} groups failed: {', '.join(failed)}")
    _exit_if_distrusted([r["level"] for r in index if r["status"] == "not converged"], road)


def _worth_saying(problems: Sequence[Problem]) -> list[Problem]:
    return [p for p in problems if p.severity != "error"]


def _exit_if_distrusted(levels: list[str], road: Road) -> None:
    if not levels or road.output.allow_unconverged:
        return
    about = f" ({', '.join(levels)})" if levels != [""] else ""
    say(f"error: {road.distrust.format(about=about)}")
    raise typer.Exit(1)
