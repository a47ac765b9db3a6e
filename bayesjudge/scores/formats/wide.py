"""Wide tables: a column for each judge, or for each judge and criterion."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np

from bayesjudge.errors import UsageError
from bayesjudge.scores.checking import parse_number
from bayesjudge.scores.columns import ROLES, SYNONYMS
from bayesjudge.scores.problems import Problem
from bayesjudge.scores.raw import Column, RawTable, plain_name, text_of

WIDE = "wide"
_PLACES = ("judge", "criterion")
_NAMED = re.compile(r"(?P<first>score)[_\-. :/](?P<a>.+)|(?P<b>.+)[_\-. :/]score", re.IGNORECASE)
_TEXTS = frozenset({"", "na", "n/a", "nan", "none", "null", "error"})


def is_wide(name: str | None) -> bool:
    """Whether this is the name of a wide format, with or without a pattern."""
    return name is not None and (name == WIDE or name.startswith(f"{WIDE}:"))


def lengthen(
    table: RawTable,
    name: str,
    kept: Collection[str] = (),
    left_out: Collection[str] = (),
) -> RawTable:
    """Turn a wide table into one row a score.

    Parameters
    ----------
    table : RawTable
        One row an answer.
    name : str
        ``wide``: every column of numbers that serves no role is a judge's.
        ``wide:PATTERN``: columns whose names fit it, as ``score_{judge}`` or
        ``{judge}/{criterion}``; the first place takes as much as it can.
    kept, left_out : collection of str
        Columns that the user named for roles, or wants ignored: no judges.

    Returns
    -------
    RawTable
        Columns ``judge``, ``criterion`` where the pattern has one, and ``score``
        in place of the judges'; one part a judge, so that rows are found again.

    Raises
    ------
    UsageError
        Where no column fits, or one of those names is taken.
    """
    pattern = name.partition(":")[2]
    fitting = _fitting(table, pattern, {*kept, *left_out}) if pattern else None
    if fitting is None:
        fitting = {c: (c, None) for c in _of_numbers(table, {*kept, *left_out})}
    if not fitting:
        raise UsageError(
            "no column fits" if pattern else "no column of numbers could be a judge's scores",
            f"--format {name}",
            f"Columns are {', '.join(map(repr, list(table.columns)[:20]))}; "
            "say --format 'wide:PATTERN', as in 'wide:score_{judge}' or 'wide:{judge}/{criterion}'",
        )
    others = [column for column in table.columns if column not in fitting]
    with_criterion = any(criterion is not None for _, criterion in fitting.values())
    made = ("judge", *(("criterion",) if with_criterion else ()), "score")
    for column in made:
        if column in others and column not in left_out:
            raise UsageError(
                f"the table has a column {column!r} of its own, which a wide table cannot have",
                f"--format {name}",
                f"Rename it, or say --ignore {column}",
            )
    n_rows = table.n_rows
    columns = {
        column: Column(table.columns[column].parts * len(fitting))
        for column in others
        if column not in made
    }
    judges = [judge for judge, _ in fitting.values()]
    columns["judge"] = Column(tuple([judge] * n_rows for judge in judges))
    if with_criterion:
        columns["criterion"] = Column(tuple([c] * n_rows for _, c in fitting.values()))
    columns["score"] = Column(
        tuple(part for column in fitting for part in table.columns[column].parts)
    )
    parts = tuple(
        (f"{part} column {column!r}", rows) for column in fitting for part, rows in table.parts
    )
    named = ", ".join(map(repr, list(fitting)[:12])) + (", ..." if len(fitting) > 12 else "")
    told = f"a wide table: {len(fitting)} columns of scores are one judge's each: {named}"
    if with_criterion:
        told = f"a wide table: {len(fitting)} columns of scores by judge and criterion: {named}"
    note = Problem("note", told, table.source, remedy="Leave one out with --ignore COLUMN")
    return replace(table, columns=columns, parts=parts, problems=(*table.problems, note))


def guess_pattern(names: Sequence[str]) -> str | None:
    """Say how a table may be wide: two columns or more are ``score_X`` or ``X_score``.

    None where a column is known to be the score, or a single one has such a name.
    """
    if any(plain_name(name) in ("score", *SYNONYMS["score"]) for name in names):
        return None
    patterns: dict[str, int] = {}
    for name in names:
        match = _NAMED.fullmatch(name)
        if match is None or plain_name(name) in ROLES:
            continue
        rest = match.group("a") or match.group("b")
        patterns[name.replace(rest, "{judge}", 1)] = (
            patterns.get(name.replace(rest, "{judge}", 1), 0) + 1
        )
    found = [pattern for pattern, times in patterns.items() if times > 1]
    return f"{WIDE}:{found[0]}" if len(found) == 1 else None


def _fitting(
    table: RawTable, pattern: str, others: Collection[str]
) -> dict[str, tuple[str, str | None]]:
    places = re.findall(r"\{(.*?)\}", pattern)
    if sorted(places) not in (["judge"], ["criterion", "judge"]):
        raise UsageError(
            f"the pattern {pattern!r} needs {{judge}} once, and may have {{criterion}} once",
            f"--format wide:{pattern}",
            "As in 'wide:score_{judge}' or 'wide:{judge}/{criterion}'",
        )
    pieces = re.split(r"\{(?:judge|criterion)\}", pattern)
    expression = re.escape(pieces[0]) + "".join(
        f"(?P<{place}>.+){re.escape(piece)}"
        for place, piece in zip(places, pieces[1:], strict=True)
    )
    found: dict[str, tuple[str, str | None]] = {}
    for column in table.columns:
        match = re.fullmatch(expression, column)
        if match and column not in others:
            groups = match.groupdict()
            found[column] = (groups["judge"], groups.get("criterion"))
    return found


def _of_numbers(table: RawTable, others: Collection[str]) -> list[str]:
    """List the columns that hold numbers, empty cells aside, and bear no role's name."""
    known = {*ROLES, *(name for names in SYNONYMS.values() for name in names)}
    found = []
    for name, column in table.columns.items():
        if name in others or plain_name(name) in known or plain_name(name) in ("id", "index"):
            continue
        values = [v for v in column.coded.values if not _is_empty(v)]
        numbers = np.array([parse_number(value) for value in values])
        if numbers.size and np.isfinite(numbers).all():
            found.append(name)
    return found


def _is_empty(value: object) -> bool:
    text = text_of(value)
    return text is None or text.strip().lower() in _TEXTS
