"""Files that are tables already: CSV, JSONL, Parquet and Arrow, read into raw columns."""

from __future__ import annotations

import csv
import gzip
import io
import json
from pathlib import Path
from typing import Any

from bayesjudge.errors import DataError
from bayesjudge.scores.files import (
    GZIP,
    JSON_SUFFIXES,
    PARQUET_SUFFIXES,
    READ_ERRORS,
    TEXT_SUFFIXES,
    suffix,
    unreadable,
)
from bayesjudge.scores.raw import RawTable, make_table

DELIMITERS = (",", "\t", ";")
MAX_BLOCK = 1 << 30


def read_table_file(path: Path) -> RawTable:
    """Read a table's file into raw columns.

    Raises
    ------
    DataError
        Where it is missing, empty, corrupt, ragged, in another encoding than
        UTF-8, or has a column name twice.
    """
    source = str(path)
    try:
        with path.open("rb") as file:
            magic = file.read(8)
    except OSError as error:
        raise unreadable(source, error) from error
    if not magic:
        raise DataError("the file is empty", source, "Give it a header and one row per score")
    if magic.startswith(b"PAR1"):
        return _read_parquet(source, source)
    if magic.startswith((b"ARROW1", b"\xff\xff\xff\xff")):
        return _read_arrow(source, file_format=magic.startswith(b"ARROW1"))
    try:
        data = path.read_bytes()
        if magic.startswith(GZIP):
            data = gzip.decompress(data)
    except READ_ERRORS as error:
        raise unreadable(source, error) from error
    if data.startswith(b"PAR1"):
        import pyarrow as pa

        return _read_parquet(source, pa.BufferReader(data))
    if suffix(path) in PARQUET_SUFFIXES:
        raise DataError("the file is not a Parquet file", source, "Write it again")
    return _read_text(source, data, suffix(path))


def _read_parquet(source: str, file: Any) -> RawTable:
    import pyarrow as pa
    from pyarrow import parquet

    try:
        table = parquet.ParquetFile(file).read()
        # a damaged file may hold text that is no UTF-8, found only on looking
        table.validate(full=True)
    except (OSError, ValueError, pa.ArrowException) as error:
        raise unreadable(source, error) from error
    return make_table(source, table.column_names, table.columns, table.num_rows)


def _read_arrow(source: str, *, file_format: bool) -> RawTable:
    import pyarrow as pa

    try:
        # Mapped, as data sets write it, and unpacked by column only when asked for.
        mapped = pa.memory_map(source)
        reader = pa.ipc.open_file(mapped) if file_format else pa.ipc.open_stream(mapped)
        table = reader.read_all()
        table.validate(full=True)
    except (OSError, ValueError, pa.ArrowException) as error:
        raise unreadable(source, error) from error
    return make_table(source, table.column_names, table.columns, table.num_rows)


def _read_text(source: str, data: bytes, ending: str) -> RawTable:
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise DataError("the file is in UTF-16", source, "Save it as UTF-8")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise DataError(
            "the file is not text in UTF-8", f"{source}, line {line}", "Save it as UTF-8"
        ) from error
    if not text.strip():
        raise DataError("the file is empty", source, "Give it a header and one row per score")
    if ending in JSON_SUFFIXES or (ending not in TEXT_SUFFIXES and text.lstrip()[0] in "{["):
        return _read_jsonl(source, text)
    return _read_csv(source, text)


def _read_jsonl(source: str, text: str) -> RawTable:
    names: dict[str, None] = {}
    rows: list[dict[str, object]] = []
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        row = _parse_line(source, number, line)
        names.update(dict.fromkeys(row))
        rows.append(row)
    parts = [[row.get(name) for row in rows] for name in names]
    return make_table(source, list(names), parts, len(rows))


def _parse_line(source: str, number: int, line: str) -> dict[str, object]:
    where = f"{source}, line {number}"
    try:
        row = json.loads(line, object_pairs_hook=_unique_keys)
    except (ValueError, RecursionError) as error:
        reason = str(error).split(":")[0]
        raise DataError(
            f"the line is not valid JSON: {reason}", where, "Write one JSON object a line"
        ) from error
    if not isinstance(row, dict):
        raise DataError("the line is not a JSON object", where, "Write one JSON object a line")
    return row


def _unique_keys(pairs: list[tuple[str, object]]) -> dict[str, object]:
    row = dict(pairs)
    if len(row) < len(pairs):
        raise ValueError("a key occurs more than once")
    return row


def _read_csv(source: str, text: str) -> RawTable:
    import pyarrow as pa
    from pyarrow import csv as pyarrow_csv

    delimiter, width = header_shape(source, text)
    _check_quotes(source, text, delimiter)
    # pyarrow takes a single line without an end for no line at all
    data = text.encode() if text.endswith("\n") else text.encode() + b"\n"
    ragged: list[Any] = []

    def remember(row: Any) -> str:
        ragged.append(row)
        return "skip"

    try:
        table = pyarrow_csv.read_csv(
            pa.BufferReader(data),
            # the header is read as a row like any other: its names may occur twice
            read_options=pyarrow_csv.ReadOptions(
                autogenerate_column_names=True,
                use_threads=False,
                block_size=min(len(data) + 1, MAX_BLOCK),
            ),
            parse_options=pyarrow_csv.ParseOptions(
                delimiter=delimiter, newlines_in_values=True, invalid_row_handler=remember
            ),
            convert_options=pyarrow_csv.ConvertOptions(
                column_types={f"f{i}": pa.string() for i in range(width)},
                null_values=[],
                strings_can_be_null=False,
            ),
        )
    except (ValueError, pa.ArrowException) as error:
        raise unreadable(source, error) from error
    if ragged:
        raise _ragged(source, ragged)
    if table.num_columns != width:
        # columns beyond those foreseen would have been read as numbers, not as text
        raise DataError(
            "the quotes in the header do not pair", source, "Quote a column name as a whole"
        )
    header = [str(column[0].as_py()) for column in table.columns]
    body = table.slice(1)
    return make_table(source, header, body.columns, body.num_rows)


def _ragged(source: str, rows: list[Any]) -> DataError:
    first = rows[0]
    others = f", and {len(rows) - 1} other rows likewise" if len(rows) > 1 else ""
    return DataError(
        f"the header names {first.expected_columns} columns but row {first.number - 1} "
        f"has {first.actual_columns}{others}",
        source,
        "Give every row as many fields as the header, and quote fields that hold the delimiter",
    )


def _check_quotes(source: str, text: str, delimiter: str) -> None:
    """Refuse a quote that is never closed, which would swallow rows in silence.

    Raises
    ------
    DataError
        Where the last quoted field runs to the end of the file.
    """
    if text.count('"') % 2 == 0:
        return
    # a strict reader tells an open quote from one inside an unquoted field
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    start = 1
    try:
        for _ in reader:
            start = reader.line_num + 1
    except csv.Error as error:
        if "unexpected end of data" in str(error):
            raise DataError(
                "a quoted field is never closed",
                f"{source}, the row that begins at line {start}",
                'Close the quote, and write a quote inside a field as ""',
            ) from error


def header_shape(source: str, text: str) -> tuple[str, int]:
    """Find the delimiter that parts the header into most fields, and their number."""
    lines = io.StringIO(text.lstrip("\r\n"), newline="")
    widths: dict[str, int] = {}
    try:
        for delimiter in DELIMITERS:
            lines.seek(0)
            widths[delimiter] = len(next(csv.reader(lines, delimiter=delimiter)))
    except csv.Error as error:
        raise unreadable(source, error) from error
    delimiter = max(DELIMITERS, key=widths.__getitem__)
    return delimiter, widths[delimiter]
