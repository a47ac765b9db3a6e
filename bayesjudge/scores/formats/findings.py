"""What a reader finds in a log: rows of the score table, and what was lost on the way."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from bayesjudge.scores.problems import Problem

type Cell = str | int | float | bool | None
type Finding = Row | Lost | Repeated | Counted | Problem


@dataclass(frozen=True, slots=True)
class Row:
    """One row of the score table.

    Attributes
    ----------
    cells : mapping of str to cell
        Labels are text; ``score`` is a number, or None with a ``failure`` that
        says why there is none.
    """

    cells: Mapping[str, Cell]


@dataclass(frozen=True, slots=True)
class Lost:
    """A record of which nothing, or not all, could be read: what it is and why."""

    name: str
    why: str

    def __str__(self) -> str:
        return f"{self.name} ({self.why})"


@dataclass(frozen=True, slots=True)
class Repeated:
    """A record that says byte for byte what an earlier one says; counted once."""

    name: str


@dataclass(frozen=True, slots=True)
class Counted:
    """How many intact records were read, and what they are called."""

    number: int
    one: str
    many: str


@dataclass(frozen=True)
class Log:
    """What one file holds.

    Attributes
    ----------
    source, tool : str
        The file, and the tool that wrote it, as messages name them.
    columns : dict of str to list
        One cell a row, None where a row has none.
    n_rows : int
        Length of each column.
    counted : Counted or None
        The intact records.
    lost, repeated : tuple
        Records that gave no row, or not all of theirs; records that were there twice.
    problems : tuple of Problem
        What else is to be said.
    """

    source: str
    tool: str
    columns: dict[str, list[Cell]]
    n_rows: int
    counted: Counted | None
    lost: tuple[Lost, ...]
    repeated: tuple[Repeated, ...]
    problems: tuple[Problem, ...]


def gather(source: str, tool: str, findings: Iterable[Finding]) -> Log:
    """Sort what a reader found into columns, losses and messages."""
    columns: dict[str, list[Cell]] = {}
    kept: dict[str, str] = {}
    n_rows = 0
    counted: Counted | None = None
    lost: list[Lost] = []
    repeated: list[Repeated] = []
    problems: list[Problem] = []
    for finding in findings:
        match finding:
            case Row():
                for name, value in finding.cells.items():
                    column = columns.setdefault(name, [])
                    if len(column) < n_rows:
                        column.extend([None] * (n_rows - len(column)))
                    # Labels repeat; one copy of each is kept.
                    column.append(kept.setdefault(value, value) if type(value) is str else value)
                n_rows += 1
            case Lost():
                lost.append(finding)
            case Repeated():
                repeated.append(finding)
            case Counted():
                counted = finding
            case Problem():
                problems.append(finding)
    for column in columns.values():
        column.extend([None] * (n_rows - len(column)))
    return Log(
        source, tool, columns, n_rows, counted, tuple(lost), tuple(repeated), tuple(problems)
    )
