"""Tables written to a file: CSV, JSONL or Parquet, whole or not at all."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bayesjudge.errors import DataError, UsageError
from bayesjudge.report.json_text import to_json

SUFFIXES = (".csv", ".jsonl", ".parquet")

type Columns = Mapping[str, Sequence[Any]]


def checked_target(file: str, force: bool) -> Path:
    """Return the path of a table to be written.

    Raises
    ------
    UsageError
        Where its name says no kind of table.
    DataError
        As ``check_free``.
    """
    path = Path(file)
    if path.suffix.lower() not in SUFFIXES:
        raise UsageError(
            f"no table is written to {path.name!r}", file, f"End the name in {', '.join(SUFFIXES)}"
        )
    check_free(path, force)
    return path


def check_free(path: Path, force: bool) -> None:
    """Refuse a path that cannot be written, or is taken.

    Raises
    ------
    DataError
        Where it is a folder, lies in none, or is there and not to be overwritten.
    """
    if path.is_dir() or not path.parent.is_dir():
        raise DataError("the file cannot be written there", str(path), "Name a file in a folder")
    if path.exists() and not force:
        raise DataError("the file is there already", str(path), "Name another, or say --force")


def table_bytes(columns: Columns, suffix: str) -> bytes:
    """Return a table as the content of a file of this kind; None is an empty cell or null."""
    if suffix == ".csv":
        text = io.StringIO(newline="")
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
        return text.getvalue().encode()
    if suffix == ".jsonl":
        rows = zip(*columns.values(), strict=True)
        return "".join(
            to_json(dict(zip(columns, row, strict=True))) + "\n" for row in rows
        ).encode()
    return _parquet(columns)


def write_file(path: Path, content: bytes) -> None:
    """Write a file whole, or leave what was there.

    Raises
    ------
    DataError
        Where the disk does not take it.
    """
    partial = path.with_name(f".{path.name}.partial")
    try:
        partial.write_bytes(content)
        partial.replace(path)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise DataError(f"the file cannot be written: {error.strerror}", str(path)) from error


def write_pieces(
    path: Path,
    labels: Mapping[str, Sequence[str]],
    pieces: Iterable[tuple[Mapping[str, Any], Any]],
) -> int:
    """Write a Parquet file of scores piece by piece, a row group each; whole or not at all.

    Parameters
    ----------
    path : Path
    labels : mapping of str to sequence of str
        Columns of labels and what their codes stand for.
    pieces : iterable of (codes by column, scores)
        Arrays of one length.

    Returns
    -------
    int
        Number of rows.

    Raises
    ------
    DataError
        Where the disk does not take it.
    """
    import pyarrow as pa
    from pyarrow import parquet

    words = {name: pa.array(list(own), pa.string()) for name, own in labels.items()}
    kind = pa.dictionary(pa.int32(), pa.string())
    schema = pa.schema([*((name, kind) for name in words), ("score", pa.float64())])
    partial = path.with_name(f".{path.name}.partial")
    n_rows = 0
    try:
        with parquet.ParquetWriter(partial, schema, compression="zstd") as file:
            for codes, score in pieces:
                columns = [
                    pa.DictionaryArray.from_arrays(pa.array(codes[name], pa.int32()), own)
                    for name, own in words.items()
                ]
                file.write_table(pa.table([*columns, pa.array(score)], schema=schema), len(score))
                n_rows += len(score)
        partial.replace(path)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise DataError(f"the file cannot be written: {error.strerror}", str(path)) from error
    return n_rows


def _parquet(columns: Columns) -> bytes:
    import pyarrow as pa
    from pyarrow import parquet

    arrays = {name: pa.array(column) for name, column in columns.items()}
    sink = pa.BufferOutputStream()
    parquet.write_table(pa.table(arrays), sink)
    return bytes(sink.getvalue().to_pybytes())
