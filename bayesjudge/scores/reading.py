"""From a source to raw columns: tables, data frames, and the logs of tools."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import Any

from bayesjudge.errors import DataError, UsageError
from bayesjudge.scores.checking import count
from bayesjudge.scores.files import files_below, find_paths, tables_of_folder, unreadable
from bayesjudge.scores.formats import (
    READERS,
    TABLE,
    check_format,
    find_format,
    is_wide,
    merge_logs,
    read_log,
)
from bayesjudge.scores.formats.datasets import read_shards, shards_of
from bayesjudge.scores.formats.detecting import is_beside_a_log, is_never_a_table
from bayesjudge.scores.problems import Problem
from bayesjudge.scores.raw import RawTable, concatenate
from bayesjudge.scores.tabular import read_table_file

MOST_NAMED = 5


def read_raw(source: Any, format_name: str | None = None) -> RawTable:
    """Read a source into raw columns.

    Parameters
    ----------
    source : path, sequence of paths, or data frame
        A file (CSV, TSV, JSONL, Parquet, Arrow; the first three also as
        ``.gz``), a tool's log, a glob or a folder of such files, a dataset
        folder, a list of them; or a pandas, Polars, PyArrow or DuckDB table,
        eager or lazy.
    format_name : str, optional
        One of ``formats.NAMES``; told by the content where it is not given.

    Returns
    -------
    RawTable
        Nothing is interpreted yet: text files give text.

    Raises
    ------
    DataError
        Where the source is missing, empty, corrupt, ragged, in another
        encoding than UTF-8, or has a column name twice.
    UsageError
        Where the source is no kind of table that can be read.
    """
    check_format(format_name)
    if isinstance(source, str | PathLike):
        return _read(str(source), [source], format_name)
    if isinstance(source, Sequence) and all(isinstance(s, str | PathLike) for s in source):
        if not source:
            raise UsageError("no file was named", "", "Name at least one")
        return _read("", source, format_name)
    from bayesjudge.scores.frames import read_frame

    if format_name in READERS:
        raise UsageError(
            f"a {type(source).__name__} is no log of {READERS[format_name][0]}",
            f"format {format_name}",
            "Give the path of the log",
        )
    return read_frame(source)


@dataclass(frozen=True)
class _Files:
    """Files of a source, by what they are; logs by where they really lie, once each."""

    logs: dict[Path, tuple[Path, str]] = field(default_factory=dict)
    tables: list[RawTable | Path] = field(default_factory=list)
    passed_over: list[Path] = field(default_factory=list)


def _read(name: str, sources: Sequence[str | PathLike[str]], format_name: str | None) -> RawTable:
    files = _Files()
    for source in sources:
        for path in find_paths(source):
            if path.is_dir():
                _sort_folder(path, format_name, files)
            else:
                _sort_file(path, format_name, files)
    n_files = len(files.logs) + len(files.tables)
    source_name = name or f"{n_files} files"
    if not files.logs:
        tables = [read_table_file(t) if isinstance(t, Path) else t for t in files.tables]
        return concatenate(source_name, tables)
    if files.tables:
        one, (other, _) = files.tables[0], next(iter(files.logs.values()))
        table = str(one) if isinstance(one, Path) else one.source
        raise DataError(
            f"the sources hold {count(len(files.logs), 'log', 'logs')} ({other}) and "
            f"{count(len(files.tables), 'table', 'tables')} ({table})",
            source_name,
            "Convert the logs first with `bayesjudge convert`, or say --format for all of them",
        )
    logs = [read_log(path, kind) for path, kind in files.logs.values()]
    return _say_what_was_not_read(merge_logs(source_name, logs), files.passed_over)


def _sort_file(path: Path, format_name: str | None, files: _Files) -> None:
    kind = format_name or find_format(path)
    if kind in READERS:
        files.logs.setdefault(path.resolve(), (path, kind))
    elif kind is None and is_never_a_table(path):
        raise DataError(
            "the file lies beside a log, and holds no scores by itself",
            str(path),
            "Name the log, or the folder of both; to read it as a table say --format table",
        )
    else:
        files.tables.append(path)


def _sort_folder(folder: Path, format_name: str | None, files: _Files) -> None:
    """Take a folder for a dataset, for logs with other files beside them, or for tables."""
    try:
        shards = shards_of(folder)
    except OSError as error:
        raise unreadable(str(folder), error) from error
    if shards:
        kind = format_name or find_format(shards[0][1])
        if kind in READERS:
            files.logs.update({path.resolve(): (path, kind) for _, path in shards})
        else:
            files.tables.append(read_shards(folder, shards))
        return
    found = [] if format_name == TABLE or is_wide(format_name) else files_below(folder)
    told = {path: find_format(path) for path in found}
    kinds = {
        path: kind
        for path, kind in told.items()
        if kind is not None and kind in READERS and format_name in (None, kind)
    }
    # Predictions of a run whose statistics are there as well say nothing new.
    logs = {
        path: kind
        for path, kind in kinds.items()
        if not (
            path.name == "display_predictions.json"
            and path.with_name("per_instance_stats.json") in kinds
        )
    }
    if not logs:
        files.tables.extend(tables_of_folder(folder))
        return
    for path, kind in logs.items():
        files.logs.setdefault(path.resolve(), (path, kind))
    files.passed_over.extend(p for p in found if p not in kinds and not is_beside_a_log(p))


def _say_what_was_not_read(table: RawTable, paths: Sequence[Path]) -> RawTable:
    if not paths:
        return table
    shown = ", ".join(str(path) for path in paths[:MOST_NAMED])
    more = f" and {len(paths) - MOST_NAMED:,} more" if len(paths) > MOST_NAMED else ""
    n_files = count(
        len(paths), "file beside the logs is no log and was", "files are no logs and were"
    )
    problem = Problem(
        "warning", f"{n_files} not read: {shown}{more}", table.source, remedy="Name it by itself"
    )
    return replace(table, problems=(*table.problems, problem))
