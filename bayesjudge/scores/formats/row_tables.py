"""Tables of which each row is a record to be taken apart: wide ones, and tools' exports."""

from __future__ import annotations

from bayesjudge.scores.formats.records import Record
from bayesjudge.scores.raw import RawTable


def records_of_table(table: RawTable) -> list[Record]:
    """Turn a table into records, one a row, of plain values by column."""
    columns = [_values(column.parts) for column in table.columns.values()]
    names = list(table.columns)
    return [
        Record(f"row {place}", dict(zip(names, row, strict=True)))
        for place, row in enumerate(zip(*columns, strict=True), start=1)
    ]


def _values(parts: tuple[object, ...]) -> list[object]:
    found: list[object] = []
    for part in parts:
        # A chunked array of pyarrow, or a list of plain values.
        found += part if isinstance(part, list) else part.to_pylist()  # type: ignore[attr-defined]
    return found
