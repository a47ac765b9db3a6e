"""The ways in: from a source to ``Scores``, or to what is wrong with it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from bayesjudge.errors import DataError, UsageError
from bayesjudge.scores.assembling import Options, Reading, assemble, filter_rows, listed
from bayesjudge.scores.battles import battle_columns, read_outcomes
from bayesjudge.scores.columns import Wishes, resolve_columns
from bayesjudge.scores.formats.wide import guess_pattern, is_wide, lengthen
from bayesjudge.scores.problems import Problem
from bayesjudge.scores.raw import RawTable
from bayesjudge.scores.reading import read_raw
from bayesjudge.scores.table import Scores

type Pairs = Mapping[str, str] | Sequence[tuple[str, str]]


def read_scores(
    source: Any,
    *,
    columns: Pairs | None = None,
    where: Pairs = (),
    facets: Iterable[str] = (),
    random: Iterable[str] = (),
    ignore: Iterable[str] = (),
    scale: tuple[float, float] | None = None,
    lower_is_better: bool = False,
    missing: Iterable[object] = (),
    strict: bool = False,
    replicates: bool = False,
    covariates: Iterable[str] = (),
    measured: str = "backbone",
    numbers: Iterable[str] = (),
    tags: Iterable[str] = (),
    format: str | None = None,  # noqa: A002
) -> Scores:
    """Read a table of scores.

    Parameters
    ----------
    source : path, glob, folder, list of paths, or data frame
        CSV, TSV, JSONL or Parquet files (also ``.gz``); logs of Inspect AI and
        other tools; or a pandas, Polars, PyArrow or DuckDB table, eager or lazy.
    columns : mapping of str to str, optional
        Role to column, as ``{"backbone": "model"}``. Other roles take the one
        column that bears their name or a synonym.
    where : mapping or pairs of (column, label)
        Rows to keep. Several labels of one column keep rows of any of them.
    facets, random : str or iterable of str
        Panel facets to add; random facets to add, or ``judge`` or ``language``
        to be taken as random.
    ignore : str or iterable of str
        Columns to take out of consideration.
    scale : (low, high), optional
        What scores can be; scores outside are an error.
    lower_is_better : bool
        Rank 1 is the lowest mean.
    missing : value or iterable of values
        Values that stand for no score: numbers, or exact text.
    strict : bool
        Rows that would be left out are errors, other than those in ``missing``.
    replicates : bool
        Rows that share a cell are repeated calls.
    covariates : str or iterable of str
        Numeric columns that the model takes; rows without a number are left out.
    measured : {"backbone", "language"}
        What is compared, and so required: ``language`` reads a table for
        :func:`bayesjudge.audit`, which may have no backbones.
    numbers, tags : str or iterable of str
        Columns of numbers and of text that are taken along where they are
        there; rows without are kept.
    format : str, optional
        The source's format: a tool's (``inspect``, ``promptfoo``, ...), ``wide``
        or ``wide:PATTERN`` for a column a judge, ``table``. Otherwise it is
        told by the content.

    Returns
    -------
    Scores
        Rows in the source's order; warnings and notes in ``problems``.

    Raises
    ------
    DataError
        Listing every error found; also where the source cannot be read.
    UsageError
        Where arguments contradict one another.
    """
    wishes, options = take_arguments(
        columns, where, facets, random, ignore, scale, lower_is_better, missing, strict,
        replicates, covariates, measured, numbers, tags,
    )  # fmt: skip
    table = read_source(source, format, wishes)
    return _scan(table, wishes, options).require(table.source)


def scan(
    source: Any,
    *,
    columns: Pairs | None = None,
    where: Pairs = (),
    facets: Iterable[str] = (),
    random: Iterable[str] = (),
    ignore: Iterable[str] = (),
    scale: tuple[float, float] | None = None,
    lower_is_better: bool = False,
    missing: Iterable[object] = (),
    strict: bool = False,
    replicates: bool = False,
    covariates: Iterable[str] = (),
    measured: str = "backbone",
    numbers: Iterable[str] = (),
    tags: Iterable[str] = (),
    format: str | None = None,  # noqa: A002
) -> Reading:
    """Read a table and say what is wrong with it, without raising for its content.

    Parameters
    ----------
    source, columns, where, facets, random, ignore, scale, lower_is_better, \
missing, strict, replicates, covariates, measured, numbers, tags, format
        As in ``read_scores``.

    Returns
    -------
    Reading

    Raises
    ------
    DataError
        Where the source cannot be read at all.
    UsageError
        Where arguments contradict one another.
    """
    wishes, options = take_arguments(
        columns, where, facets, random, ignore, scale, lower_is_better, missing, strict,
        replicates, covariates, measured, numbers, tags,
    )  # fmt: skip
    return _scan(read_source(source, format, wishes), wishes, options)


def split_by(
    source: Any,
    by: str,
    *,
    columns: Pairs | None = None,
    where: Pairs = (),
    facets: Iterable[str] = (),
    random: Iterable[str] = (),
    ignore: Iterable[str] = (),
    scale: tuple[float, float] | None = None,
    lower_is_better: bool = False,
    missing: Iterable[object] = (),
    strict: bool = False,
    replicates: bool = False,
    covariates: Iterable[str] = (),
    measured: str = "backbone",
    numbers: Iterable[str] = (),
    tags: Iterable[str] = (),
    format: str | None = None,  # noqa: A002
) -> dict[str, Reading]:
    """Read one table for each label of a column.

    Parameters
    ----------
    by : str
        A column that serves as no facet.
    source, columns, where, facets, random, ignore, scale, lower_is_better, \
missing, strict, replicates, covariates, measured, numbers, tags, format
        As in ``read_scores``.

    Returns
    -------
    dict of str to Reading
        Label to what was found, sorted by label; each stands or fails alone.

    Raises
    ------
    DataError
        Where the source cannot be read, has no such column, or no row is left.
    UsageError
        Where the column serves as a facet, or arguments contradict one another.
    """
    wishes, options = take_arguments(
        columns, where, facets, random, ignore, scale, lower_is_better, missing, strict,
        replicates, covariates, measured, numbers, tags,
    )  # fmt: skip
    table = _with_outcomes(read_source(source, format, wishes), wishes)
    resolved = resolve_columns(tuple(table.columns), wishes)
    for role, column in resolved.mapping:
        if by in (role, column):
            raise UsageError(
                f"the table cannot be split by {by!r}, which serves as {role}",
                f"--by {by}",
                f"Split by another column, or say --ignore {column} as well",
            )
    if by not in table.columns:
        raise DataError(
            f"there is no column {by!r} to split by",
            table.source,
            f"Columns are {listed(table.columns)}",
        )
    rows, problems = filter_rows(table, resolved, options.where)
    if not rows.size:
        raise DataError(problems[0].what, problems[0].where, problems[0].remedy)
    problems += read_problems(table, options.strict)
    labels = table.columns[by].labels
    codes = labels.codes[rows]
    if (codes < 0).any():
        problems += (
            Problem(
                "error" if options.strict else "warning",
                f"{int((codes < 0).sum()):,} rows have no {by!r} and belong to no group",
                f"column {by!r}, {table.name_rows(rows[codes < 0])}",
                int((codes < 0).sum()),
                "Fill in the label",
            ),
        )
    if (codes < 0).all():
        raise DataError(f"no row has a label in the column {by!r}", table.source, "Fill it in")
    order = np.argsort(codes, kind="stable")
    bounds = np.searchsorted(codes[order], np.arange(len(labels.levels) + 1))
    return {
        level: assemble(table, resolved, wishes, options, rows[order[start:stop]], problems, by)
        for level, start, stop in zip(labels.levels, bounds[:-1], bounds[1:], strict=True)
        if stop > start
    }


def take_arguments(
    columns: Pairs | None,
    where: Pairs,
    facets: Iterable[str],
    random: Iterable[str],
    ignore: Iterable[str],
    scale: tuple[float, float] | None,
    lower_is_better: bool,
    missing: Iterable[object],
    strict: bool,
    replicates: bool,
    covariates: Iterable[str],
    measured: str,
    numbers: Iterable[str],
    tags: Iterable[str],
) -> tuple[Wishes, Options]:
    """Bring the arguments into one form."""
    if measured not in ("backbone", "language"):
        raise UsageError(
            f"{measured!r} is nothing that can be measured", "measured", "backbone or language"
        )
    named = columns.items() if isinstance(columns, Mapping) else columns or ()
    for role, column in named:
        others = [other for name, other in named if name == role and other != column]
        if others:
            raise UsageError(
                f"the {role} is to be both {column!r} and {others[0]!r}",
                f"--column {role}={column}, --column {role}={others[0]}",
                "Name one column for each role",
            )
    wishes = Wishes(
        dict(named), _several(facets), _several(random), _several(ignore), _several(covariates),
        measured, _several(numbers), _several(tags),
    )  # fmt: skip
    pairs = where.items() if isinstance(where, Mapping) else where
    options = Options(
        tuple((str(column), str(label)) for column, label in pairs),
        None if scale is None else (float(scale[0]), float(scale[1])),
        lower_is_better,
        tuple(map(str, _several(missing))),
        strict,
        replicates,
    )
    return wishes, options


def _several(given: object) -> tuple[Any, ...]:
    """Take a single string or number for the only one of its kind."""
    if isinstance(given, Iterable) and not isinstance(given, str):
        return tuple(given)
    return (given,)


def _scan(table: RawTable, wishes: Wishes, options: Options) -> Reading:
    table = _with_outcomes(table, wishes)
    resolved = resolve_columns(tuple(table.columns), wishes)
    rows, problems = filter_rows(table, resolved, options.where)
    problems += read_problems(table, options.strict)
    return assemble(table, resolved, wishes, options, rows, problems)


def read_source(source: Any, format_name: str | None, wishes: Wishes) -> RawTable:
    """Read a source into one row a score, a wide table made long.

    Raises
    ------
    DataError, UsageError
        As ``read_raw`` and ``wide.lengthen``.
    """
    table = read_raw(source, format_name)
    if battle_columns(tuple(table.columns), wishes.columns) and not is_wide(format_name):
        return table
    if format_name is None and not wishes.columns.get("score"):
        return _ask_whether_wide(table)
    if format_name is not None and is_wide(format_name):
        return lengthen(table, format_name, tuple(wishes.columns.values()), wishes.ignore)
    return table


def _with_outcomes(table: RawTable, wishes: Wishes) -> RawTable:
    """Read a table of battles, if it is one, as outcomes."""
    battle = battle_columns(tuple(table.columns), wishes.columns)
    if battle is None:
        return table
    return read_outcomes(table, battle, "score" in wishes.columns or battle.winner == "score")


def _ask_whether_wide(table: RawTable) -> RawTable:
    return replace(table, problems=(*table.problems, *ask_whether_wide(tuple(table.columns))))


def ask_whether_wide(names: Sequence[str]) -> tuple[Problem, ...]:
    """Ask where names look like a column of scores each: of judges, or else of criteria."""
    pattern = guess_pattern(names)
    if pattern is None:
        return ()
    other = pattern.replace("{judge}", "COLUMN").removeprefix("wide:")
    return (
        Problem(
            "error",
            "several columns look like scores of one answer, by judges or by criteria",
            f"columns {other}",
            remedy=f"If each is a judge's say --format '{pattern}'; "
            "otherwise name one as the score",
        ),
    )


def read_problems(table: RawTable, strict: bool) -> tuple[Problem, ...]:
    """Return what was found on reading; where nothing may be left out, losses are errors."""
    return tuple(
        replace(problem, severity="error")
        if strict and problem.severity == "warning" and problem.rows
        else problem
        for problem in table.problems
    )
