"""Files too large for memory, opened where they are by DuckDB; frames as they come."""

from __future__ import annotations

import csv
import io
import os
import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any

from bayesjudge.errors import DataError, UsageError
from bayesjudge.scores.files import (
    JSON_SUFFIXES,
    PARQUET_SUFFIXES,
    READ_ERRORS,
    TEXT_SUFFIXES,
    find_paths,
    open_bytes,
    suffix,
    tables_of_folder,
    unreadable,
)
from bayesjudge.scores.formats import READERS, find_format
from bayesjudge.scores.frames import library_errors
from bayesjudge.scores.raw import check_names
from bayesjudge.scores.tabular import header_shape

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
_HEAD = 1 << 20

MEMORY = "1500MB"
"""What DuckDB may hold before it goes to the disk."""

_NUMBER = r"\s*[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?\s*"
_BLANK = r"' ' || chr(9) || chr(10) || chr(11) || chr(12) || chr(13)"


@dataclass(frozen=True, eq=False)
class Opened:
    """A source that stays where it is.

    Attributes
    ----------
    frame : frame
        One that Narwhals knows.
    name : str
        For messages.
    names : tuple of str
        Its columns.
    connection : duckdb connection or None
        Of a source that DuckDB reads for us.
    """

    frame: Any
    name: str
    names: tuple[str, ...]
    connection: Any = None

    def is_text(self, column: str) -> bool:
        """Whether a column of a file holds text."""
        if self.connection is None:
            return False
        return str(self.frame.types[self.frame.columns.index(column)]) == "VARCHAR"

    def free_name(self, wanted: str) -> str:
        """Return a name that no column bears."""
        while wanted in self.names:
            wanted += "'"
        return wanted

    def with_number(
        self, column: str, missing: Sequence[str], numbers: Sequence[float]
    ) -> tuple[Opened, str]:
        """Add the number that a column of text writes, as reading a table finds it.

        Parameters
        ----------
        column : str
        missing, numbers : sequence of str, of float
            Texts and numbers that stand for no score.

        Returns
        -------
        Opened
        str
            Name of the new column: null where the text is no number or stands for none.
        """
        name = self.free_name(f"{column} as a number")
        text, plain = _quoted(column), _plain(column)
        value = f"TRY_CAST({plain} AS DOUBLE)"
        for number in numbers:
            value = f"nullif({value}, {number!r}::DOUBLE)"
        cases = f"WHEN {text} IN ({', '.join(map(_text, missing))}) THEN NULL " if missing else ""
        cases += (
            f"WHEN regexp_full_match({text}, '{_NUMBER}') THEN {value} "
            f"WHEN lower({plain}) = 'true' THEN 1.0 WHEN lower({plain}) = 'false' THEN 0.0"
        )
        frame = self.frame.project(f"*, CASE {cases} END AS {_quoted(name)}")
        return replace(self, frame=frame, names=(*self.names, name)), name

    def count_verdicts(self, column: str, missing: Sequence[str]) -> int:
        """Count the texts of a column that are a truth value and stand for one."""
        which = f"lower({_plain(column)}) IN ('true', 'false')"
        if missing:
            which += f" AND {_quoted(column)} NOT IN ({', '.join(map(_text, missing))})"
        ((found,),) = self.frame.filter(which).aggregate("count(*)").fetchall()
        return int(found)


def open_source(source: Any) -> Opened:
    """Open a source without reading its rows.

    Parameters
    ----------
    source : path, sequence of paths, or frame
        Parquet, CSV or JSONL files of one kind, by path, glob, folder or list;
        ``scheme://`` paths go to DuckDB as they are. Or any frame that Narwhals knows.

    Returns
    -------
    Opened

    Raises
    ------
    DataError
        Where the source is missing, corrupt, a tool's log, or of several kinds.
    UsageError
        Where it is no frame.
    """
    if isinstance(source, str | PathLike):
        return _open_files(str(source), [source])
    if isinstance(source, Sequence) and all(isinstance(s, str | PathLike) for s in source):
        if not source:
            raise UsageError("no file was named", "", "Name at least one")
        return _open_files(str(source[0]) if len(source) == 1 else f"{len(source)} files", source)
    return _open_frame(source)


def _open_frame(source: Any) -> Opened:
    import narwhals as nw

    name = f"{type(source).__module__.split('.')[0]} {type(source).__name__}"
    try:
        names = tuple(map(str, nw.from_native(source).collect_schema().names()))
    except TypeError as error:
        raise UsageError(
            f"a {type(source).__name__} is no frame that moments can be taken of",
            "",
            "Give a path, or a pandas, Polars, PyArrow, DuckDB, Dask or PySpark frame",
        ) from error
    except library_errors() as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise DataError(f"the frame cannot be read: {reason.rstrip('.')}", name) from error
    check_names(name, names)
    return Opened(source, name, names)


def _open_files(name: str, sources: Sequence[str | PathLike[str]]) -> Opened:
    paths: list[str] = []
    kinds: dict[str, str] = {}
    for source in sources:
        for path in _files_of(source):
            paths.append(path)
            kinds.setdefault(_kind(path), path)
    if len(kinds) > 1:
        raise DataError(
            f"the files are of several kinds ({', '.join(sorted(kinds))})",
            name,
            "Name files of one kind",
        )
    (kind,) = kinds
    connection = _connect()
    try:
        if kind == "csv":
            frame = connection.sql(_csv_query(paths))
        elif kind == "parquet":
            frame = connection.sql(f"FROM read_parquet({_list(paths)}, union_by_name = false)")
        else:
            frame = connection.sql(_json_query(connection, paths))
        names = tuple(frame.columns)
    except library_errors() as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise DataError(
            f"the file cannot be read: {reason.rstrip('.')}", name, "Check the file"
        ) from error
    check_names(name, names)
    return Opened(frame, name, names, connection)


def _connect() -> Any:
    """Open a database in memory that spills to the disk beyond ``MEMORY``."""
    try:
        import duckdb
    except ImportError as error:
        raise UsageError(
            "files are passed over by DuckDB, which is not installed",
            remedy="Install it: pip install duckdb; or give a frame",
        ) from error
    connection = duckdb.connect()
    folder = f"{tempfile.gettempdir()}/bayesjudge-duckdb-{os.getpid()}"
    connection.execute(f"SET temp_directory = {_text(folder)}")
    connection.execute(f"SET memory_limit = '{MEMORY}'")
    connection.execute("SET preserve_insertion_order = false")
    return connection


def _files_of(source: str | PathLike[str]) -> list[str]:
    if _URL.match(str(source)):
        return [str(source)]
    found: list[str] = []
    for path in find_paths(source):
        for file in tables_of_folder(path) if path.is_dir() else [path]:
            kind = find_format(file)
            if kind in READERS:
                raise DataError(
                    f"the file is a log of {READERS[kind][0]}, of which no moments can be taken",
                    str(file),
                    "Convert it first with `bayesjudge convert`, or read it with read_scores",
                )
            found.append(str(file))
    return found


def _kind(path: str) -> str:
    """Tell the kind of a file by its content, or by its name where it is elsewhere."""
    ending = suffix(Path(path.split("?")[0]))
    head = b"" if _URL.match(path) else _head(Path(path), 8)
    if head.startswith(b"PAR1") or (not head and ending in PARQUET_SUFFIXES):
        return "parquet"
    if ending in JSON_SUFFIXES:
        return "jsonl"
    if ending in TEXT_SUFFIXES and not head.startswith(b"ARROW1"):
        return "csv"
    raise DataError(
        "of this kind of file no moments can be taken",
        path,
        "Give Parquet, CSV or JSONL files, or read it with read_scores",
    )


def _head(path: Path, size: int) -> bytes:
    try:
        with open_bytes(path) as file:
            return file.read(size)
    except READ_ERRORS as error:
        raise unreadable(str(path), error) from error


def _csv_query(paths: Sequence[str]) -> str:
    """Read every field as the text it is, an empty one too."""
    shapes = set()
    for path in paths:
        if _URL.match(path):
            raise DataError(
                "CSV files elsewhere cannot be opened",
                path,
                "Write them as Parquet, or copy them here",
            )
        text = _head(Path(path), _HEAD).decode("utf-8-sig", "replace")
        if not text.strip():
            raise DataError("the file is empty", path, "Give it a header and one row per score")
        delimiter, _ = header_shape(path, text)
        header = next(csv.reader(io.StringIO(text.lstrip("\r\n"), newline=""), delimiter=delimiter))
        check_names(path, header)
        shapes.add((delimiter, tuple(header)))
    if len(shapes) > 1:
        raise DataError(
            "the columns or delimiters of the files differ",
            f"{len(paths)} files",
            "Give files of the same columns in the same order, or name fewer files",
        )
    ((delimiter, names),) = shapes
    types = ", ".join(f"{_text(name)}: 'VARCHAR'" for name in names)
    return (
        f"FROM read_csv({_list(paths)}, auto_detect = false, header = true, "
        f"delim = {_text(delimiter)}, quote = '\"', escape = '\"', columns = {{{types}}}, "
        f"force_not_null = {_list(names)})"
    )


def _json_query(connection: Any, paths: Sequence[str]) -> str:
    """Give each field the one type that its values have in all the lines."""
    read = f"read_json({_list(paths)}, format = 'newline_delimited', records = true, "
    read += "sample_size = -1, maximum_depth = 1)"
    names = connection.sql(f"FROM {read}").columns
    kinds = ", ".join(f"list(DISTINCT json_type({_quoted(name)}))" for name in names)
    (types,) = connection.sql(" ".join(["SELECT", kinds, "FROM", read])).fetchall()
    return " ".join(["SELECT", ", ".join(map(_json_field, names, types)), "FROM", read])


def _json_field(name: str, types: Sequence[str] | None) -> str:
    column = _quoted(name)
    found = {t for t in types or () if t not in (None, "NULL")}
    found = {"BIGINT" if t == "UBIGINT" else t for t in found}
    if not found or found == {"VARCHAR"}:
        return f"{column} ->> '$' AS {column}"
    if found <= {"BIGINT", "DOUBLE", "BOOLEAN"} and len(found) == 1:
        return f"CAST({column} AS {found.pop()}) AS {column}"
    # Several types: refused where the column is used.
    return f"[{column}] AS {column}"


def _plain(column: str) -> str:
    return f"trim({_quoted(column)}, {_BLANK})"


def _list(values: Sequence[str]) -> str:
    return f"[{', '.join(map(_text, values))}]"


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
