"""The records of a log's file, and what is said of those that could not be read."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path as FilePath
from typing import Any

from bayesjudge.scores.files import MOST_RECORD, READ_ERRORS, open_bytes, suffix
from bayesjudge.scores.formats.cells import Unreadable, first_line
from bayesjudge.scores.formats.findings import Counted, Finding, Lost, Repeated, Row
from bayesjudge.scores.formats.json_text import (
    Damage,
    Element,
    Field,
    Path,
    Piece,
    decode_json,
    walk_json,
    walk_json_lines,
)
from bayesjudge.scores.problems import Problem

LINE_SUFFIXES = (".jsonl", ".ndjson")
MOST_LINE = 1 << 26
MOST_FIELD = 1 << 28
"""Characters in one field of a CSV file."""


@dataclass(frozen=True)
class Record:
    """One record of a log: what messages call it, and its content."""

    name: str
    value: Any


@dataclass(frozen=True)
class Document:
    """A log's file as records, beside what else it holds.

    Attributes
    ----------
    fields : dict of tuple of str to value
        By the keys that lead to them.
    records : list of Record
        Intact ones, repeats left out.
    lost, repeated : list
        Those that are not valid JSON; those that were there twice.
    problems : list of Problem
        What else is to be said of the file.
    """

    fields: dict[Path, Any]
    records: list[Record]
    lost: list[Lost]
    repeated: list[Repeated]
    problems: list[Problem] = field(default_factory=list)

    def field(self, *path: str) -> Any:
        """Return a field, None where the document has none."""
        return self.fields.get(path)

    @property
    def asides(self) -> list[Finding]:
        """What is to be said of records that were left out."""
        return [*self.lost, *self.repeated, *self.problems]


def read_document(
    path: FilePath,
    records: Collection[Path],
    keep: Callable[[Any], Any] = lambda value: value,
) -> Document:
    """Read a JSON document whose records lie in arrays at these keys.

    Parameters
    ----------
    keep : callable
        Takes from each record what is wanted, so that large ones do not stay in memory.
    """
    with open_bytes(path) as file:
        return _document(walk_json(file, records), keep)


def read_lines(path: FilePath) -> Document:
    """Read a file of one JSON record a line."""
    with open_bytes(path) as file:
        return _document(walk_json_lines(file), lambda value: value)


def read_records(path: FilePath, records: Collection[Path]) -> Document:
    """Read records from a file of one a line, or from a document that holds an array of them."""
    if _is_lines(path):
        return read_lines(path)
    return read_document(path, records)


def _is_lines(path: FilePath) -> bool:
    """Whether the file has one value a line, rather than being one document."""
    with open_bytes(path) as file:
        try:
            first = file.readline(MOST_LINE).removeprefix(b"\xef\xbb\xbf").strip()
            more = file.read(1 << 10).strip()
        except READ_ERRORS:
            return suffix(path) in LINE_SUFFIXES
    if suffix(path) in LINE_SUFFIXES:
        # A document may bear the wrong suffix; its first line then opens a bracket only.
        return first not in (b"{", b"[")
    return first.startswith(b"{") and bool(more) and _is_whole(first)


def _is_whole(line: bytes) -> bool:
    try:
        decode_json(line.decode("utf-8", "surrogateescape"))
    except (ValueError, RecursionError):
        return False
    return True


def _document(pieces: Iterable[Piece], keep: Callable[[Any], Any]) -> Document:
    found = Document({}, [], [], [])
    for piece in pieces:
        match piece:
            case Field():
                found.fields[piece.path] = piece.value
            case Damage():
                found.lost.append(Lost(_name(piece), piece.why))
            case Element(repeated=True):
                found.repeated.append(Repeated(_name(piece)))
            case Element():
                found.records.append(Record(_name(piece), keep(piece.value)))
    return found


def _name(piece: Element | Damage) -> str:
    if not piece.place:
        return f"the rest from line {piece.line}"
    return f"record {piece.place} at line {piece.line}"


def rows_of(
    records: Iterable[Record],
    rows: Callable[[Record], Iterable[Finding]],
    one: str = "record",
    many: str = "records",
) -> Iterator[Finding]:
    """Make rows of each record; one that is not as its format says is lost and named."""
    intact = 0
    for record in records:
        try:
            made = list(rows(record))
        except Unreadable as error:
            yield Lost(record.name, first_line(error))
            continue
        if any(isinstance(finding, Row) for finding in made):
            intact += 1
        yield from made
    yield Counted(intact, one, many)


def read_csv_records(path: FilePath) -> tuple[list[str], Document]:
    """Read a log that is CSV: its header, which may name a column twice, and lists of fields.

    Rows of another length than the header are lost, and so is what follows a
    quote that is never closed.
    """
    data, damage = b"", ""
    with open_bytes(path) as file:
        try:
            data = file.read(MOST_RECORD)
            damage = "it is too large" if file.read(1) else ""
        except READ_ERRORS as error:
            damage = str(error)
    text = data.decode("utf-8-sig", "surrogateescape")
    found = Document({}, [], [], [])
    if damage:
        found.lost.append(Lost("the rest of the file", damage))
    header: list[str] = []
    seen: set[tuple[str, ...]] = set()
    before = csv.field_size_limit(MOST_FIELD)
    try:
        for place, line, row in _csv_rows(text):
            name = f"row {place} at line {line}"
            if isinstance(row, str):
                found.lost.append(Lost(name, row))
            elif not header:
                header = row
            elif len(row) != len(header):
                found.lost.append(Lost(name, f"{len(row)} fields, the header has {len(header)}"))
            elif tuple(row) in seen:
                found.repeated.append(Repeated(name))
            else:
                seen.add(tuple(row))
                found.records.append(Record(name, row))
    finally:
        csv.field_size_limit(before)
    if text and not text.endswith(("\n", "\r")):
        found.problems.append(
            Problem(
                "warning",
                "the file does not end in a line break: it may be cut short, its last row too",
                remedy="Compare the number of rows with the tool's own",
            )
        )
    return header, found


def _csv_rows(text: str) -> Iterator[tuple[int, int, list[str] | str]]:
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    place = 0
    line = 1
    while True:
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            yield place, line, f"{error}; nothing after it was read"
            return
        if row:
            yield place, line, row
            place += 1
        line = reader.line_num + 1


def as_mappings(header: list[str], records: Iterable[Record]) -> list[Record]:
    """Name the fields of CSV rows by a header in which no name occurs twice."""
    return [Record(record.name, dict(zip(header, record.value, strict=True))) for record in records]


def fields_of(record: Record, what: str) -> Mapping[str, Any]:
    """Return a record's fields.

    Raises
    ------
    Unreadable
        Where the record is no JSON object.
    """
    if isinstance(record.value, Mapping):
        return record.value
    raise Unreadable(f"the {what} is not an object")
