"""Rows of a table that was read, for tests to compare."""

from __future__ import annotations

from bayesjudge.scores.raw import RawTable
from bayesjudge.scores.reading import read_raw


def rows_of(table: RawTable) -> list[dict]:
    """Return rows as mappings, without the cells that a row lacks."""
    columns = {
        name: [cell for part in column.parts for cell in part]
        for name, column in table.columns.items()
    }
    return [
        {name: cell for name, cell in zip(columns, row, strict=True) if cell is not None}
        for row in zip(*columns.values(), strict=True)
    ]


def read_rows(path, format_name=None) -> list[dict]:
    return rows_of(read_raw(path, format_name))


def project(rows: list[dict], *names: str) -> list[tuple]:
    return [tuple(row.get(name) for name in names) for row in rows]


def said(table: RawTable) -> str:
    return "\n".join(f"{problem.severity}: {problem}" for problem in table.problems)
