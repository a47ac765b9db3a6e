"""Scores read from text, and what is wrong with them: counted, named, never swallowed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from math import nan
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayesjudge.scores.problems import Problem, Severity
from bayesjudge.scores.raw import Labels, RawTable, is_valid_text, text_of

SENTINELS = (-1.0, -9.0, -99.0, -999.0)
"""Numbers that pipelines write where a judge's answer could not be parsed."""

# Share of negative scores up to which one of these among them is suspect.
_FEW_NEGATIVE = 0.05

MOST_TEXTS = 6
_DECIMAL_COMMA = re.compile(r"'[+-]?[0-9]+,[0-9]+'")
VERDICTS = {"true": 1.0, "false": 0.0}


@dataclass(frozen=True, eq=False)
class Parsed:
    """The score column as numbers.

    Attributes
    ----------
    score : (N,) float array
        nan where the row is to be left out.
    named : (N,) bool array
        Rows left out because the user named their value as missing.
    problems : tuple of Problem
        What was left out, and what was read otherwise than it was written.
    """

    score: NDArray[np.float64]
    named: NDArray[np.bool_]
    problems: tuple[Problem, ...]


def parse_number(value: object) -> float:
    """Read a value as Python's ``float`` does, nan where it is no number.

    Truth values count as 1 and 0, in any case; underscores make no number.
    """
    try:
        # No truth value is a number as well, and nearly all scores are numbers.
        number = float(value)  # type: ignore[arg-type]
    except OverflowError:
        return float("inf")
    except (TypeError, ValueError):
        return VERDICTS.get(value.strip().lower(), nan) if isinstance(value, str) else nan
    return nan if isinstance(value, str) and "_" in value else number


def parse_scores(
    table: RawTable,
    name: str,
    rows: NDArray[np.int64],
    missing: Sequence[str] = (),
    strict: bool = False,
) -> Parsed:
    """Read the score column, telling which rows hold no usable number.

    Parameters
    ----------
    table : RawTable
        The source.
    name : str
        The score column.
    rows : (N,) int array
        Rows of the table to look at.
    missing : sequence of str
        Values that the user named as standing for no score; compared as
        numbers where both are numbers, otherwise as exact text.
    strict : bool
        Unusable scores are errors, other than those named in ``missing``.

    Returns
    -------
    Parsed
    """
    coded = table.columns[name].coded.of(rows)
    codes = coded.codes
    # true nulls have the code -1, so what holds for them stands last
    numbers = np.array([*map(parse_number, coded.values), np.nan])
    is_named = np.zeros(numbers.size, dtype=bool)
    if missing:
        is_named[:-1] = [_is_named(value, missing) for value in coded.values]
    named = is_named[codes]
    unusable = ~np.isfinite(numbers)[codes] & ~named
    score = numbers[codes]
    score[named | unusable] = np.nan
    problems: list[Problem] = []
    if unusable.any():
        problems.append(
            Problem(
                "error" if strict else "warning",
                f"{count(unusable.sum(), 'score is', 'scores are')} missing, not a number, "
                f"NaN or infinite{'' if strict else left_out(unusable.sum())}: "
                f"{tally(codes[unusable], coded.values)}",
                f"column {name!r}, {table.name_rows(rows[unusable])}",
                int(unusable.sum()),
                _remedy_for_unusable(_texts(codes[unusable], coded.values), strict),
            )
        )
    if missing:
        wanted = ", ".join(map(repr, missing))
        what = (
            f"{count(named.sum(), 'score was', 'scores were')} left out, named as missing: "
            f"{tally(codes[named], coded.values)}"
            if named.any()
            else f"no score is {wanted}, which was named as missing"
        )
        problems.append(Problem("note", what, f"column {name!r}", int(named.sum())))
    is_verdict = np.zeros(numbers.size, dtype=bool)
    for code in np.flatnonzero(np.isin(numbers[:-1], list(VERDICTS.values()))):
        is_verdict[code] = _is_verdict(coded.values[code])
    verdicts = is_verdict[codes] & ~named
    if verdicts.any():
        problems.append(
            Problem(
                "note",
                f"{count(verdicts.sum(), 'score is', 'scores are')} true or false, read as 1 and 0",
                f"column {name!r}",
                int(verdicts.sum()),
            )
        )
    return Parsed(score, named, tuple(problems))


def parse_human(
    table: RawTable, name: str, rows: NDArray[np.int64]
) -> tuple[NDArray[np.float64], tuple[Problem, ...]]:
    """Read the gold column: nan where it is empty, an error where it is text.

    Returns
    -------
    (N,) float array
    tuple of Problem
    """
    coded = table.columns[name].coded.of(rows)
    codes = coded.codes
    numbers = np.array([*map(parse_number, coded.values), np.nan])
    blank = [(text_of(value) or "").strip().lower() in ("", "nan") for value in coded.values]
    wrong = (~np.isfinite(numbers) & ~np.array([*blank, True], dtype=bool))[codes]
    if not wrong.any():
        return numbers[codes], ()
    problem = Problem(
        "error",
        f"{count(wrong.sum(), 'human score is', 'human scores are')} no number: "
        f"{tally(codes[wrong], coded.values)}",
        f"column {name!r}, {table.name_rows(rows[wrong])}",
        int(wrong.sum()),
        f"Leave unlabelled rows empty, or say --ignore {name}",
    )
    return numbers[codes], (problem,)


def parse_covariate(
    table: RawTable, role: str, name: str, rows: NDArray[np.int64], strict: bool = False
) -> tuple[NDArray[np.float64], tuple[Problem, ...]]:
    """Read a covariate's column, telling which rows hold no usable number.

    Returns
    -------
    (N,) float array
        nan where it is unusable.
    tuple of Problem
    """
    coded = table.columns[name].coded.of(rows)
    codes = coded.codes
    values = np.array([*map(parse_number, coded.values), np.nan])[codes]
    unusable = ~np.isfinite(values)
    if not unusable.any():
        return values, ()
    values[unusable] = np.nan
    problem = Problem(
        "error" if strict else "warning",
        f"{count(unusable.sum(), 'value', 'values')} of the covariate {role} "
        f"{'is' if unusable.sum() == 1 else 'are'} missing, not a number, NaN or infinite"
        f"{'' if strict else left_out(unusable.sum())}: {tally(codes[unusable], coded.values)}",
        f"column {name!r}, {table.name_rows(rows[unusable])}",
        int(unusable.sum()),
        "Fill it in, or use a model without the covariate",
    )
    return values, (problem,)


def parse_numbers(
    table: RawTable, name: str, rows: NDArray[np.int64]
) -> tuple[NDArray[np.float64], tuple[Problem, ...]]:
    """Read a column of numbers that is taken along: nan where there is none, and a note.

    Returns
    -------
    (N,) float array
    tuple of Problem
    """
    coded = table.columns[name].coded.of(rows)
    codes = coded.codes
    values = np.array([*map(parse_number, coded.values), np.nan])[codes]
    unusable = ~np.isfinite(values)
    values[unusable] = np.nan
    if not unusable.any():
        return values, ()
    problem = Problem(
        "note",
        f"{count(unusable.sum(), 'row has', 'rows have')} no number in {name!r} and "
        "are left out where it is needed",
        f"column {name!r}, {table.name_rows(rows[unusable])}",
        int(unusable.sum()),
    )
    return values, (problem,)


def check_labels(
    table: RawTable, facet: str, name: str, rows: NDArray[np.int64], strict: bool = False
) -> tuple[Labels, tuple[Problem, ...]]:
    """Read a facet's column as labels, telling which rows have none.

    Returns
    -------
    Labels
        Of the rows asked for.
    tuple of Problem
    """
    labels = table.columns[name].labels.of(rows)
    codes = labels.codes
    problems: list[Problem] = []
    where = f"column {name!r}"
    if labels.nested:
        problems.append(
            Problem(
                "error",
                f"the {facet} column holds lists or mappings, which cannot be labels",
                where,
                remedy="Write each label as text, or name another column",
            )
        )
    for code, level in enumerate(labels.levels):
        if is_valid_text(level):
            continue
        at = rows[codes == code]
        if at.size:
            problems.append(
                Problem(
                    "error",
                    f"the {facet} label {level!a} holds a NUL or is not valid Unicode text",
                    f"{where}, {table.name_rows(at)}",
                    int(at.size),
                    "Write the label as text",
                )
            )
    lacking = codes < 0
    if lacking.any():
        problems.append(
            Problem(
                "error" if strict else "warning",
                f"{count(lacking.sum(), 'row has', 'rows have')} no {facet}"
                f"{'' if strict else left_out(lacking.sum())}",
                f"{where}, {table.name_rows(rows[lacking])}",
                int(lacking.sum()),
                "Fill in the label",
            )
        )
    return labels, tuple(problems)


def check_scale(
    table: RawTable,
    name: str,
    rows: NDArray[np.int64],
    score: NDArray[np.float64],
    scale: tuple[float, float] | None,
) -> tuple[Problem, ...]:
    """Find scores outside the stated scale, or sentinels where none was stated.

    Parameters
    ----------
    score : (N,) float array
        Finite scores of the table's ``rows``.
    scale : (low, high) or None
        What ``--scale`` said.

    Returns
    -------
    tuple of Problem
    """
    if scale is not None:
        outside = (score < scale[0]) | (score > scale[1])
        if not outside.any():
            return ()
        values, counts = np.unique(score[outside], return_counts=True)
        listed = ", ".join(
            f"{value:g} {count}" for value, count in zip(values[:6], counts[:6], strict=True)
        )
        return (
            Problem(
                "error",
                f"{count(outside.sum(), 'score is', 'scores are')} outside the scale "
                f"{scale[0]:g} to {scale[1]:g}: {listed}{', ...' if values.size > 6 else ''}",
                f"column {name!r}, {table.name_rows(rows[outside])}",
                int(outside.sum()),
                f"Correct --scale, or leave a value out with --missing {values[0]:g}",
            ),
        )
    n_below = int((score < 0).sum())
    marks = [mark for mark in sorted(SENTINELS) if n_below and (score == mark).any()]
    marked = np.isin(score, marks)
    where = f"column {name!r}, {table.name_rows(rows[marked])}"
    return warn_of_marks(where, marks, int(marked.sum()), n_below, score.size)


def warn_of_marks(
    where: str, values: Sequence[float], n_marked: int, n_below: int, n_scores: int
) -> tuple[Problem, ...]:
    """Warn of negative scores that are marks of a failure among scores of 0 or more.

    Parameters
    ----------
    where : str
        Column and rows.
    values : sequence of float
        Those of ``SENTINELS`` that occur.
    n_marked, n_below, n_scores : int
        Scores that are one of them; scores below 0; all scores.
    """
    others = n_below - n_marked
    # A few other negative values may be averages with a mark among them.
    few = n_below <= _FEW_NEGATIVE * n_scores
    if not values or n_below == n_scores or not (others == 0 or few):
        return ()
    told = f"all others but {others} are" if others else "all others are"
    listed = " and ".join(f"{value:g}" for value in values)
    return (
        Problem(
            "warning",
            f"{count(n_marked, 'score is', 'scores are')} {listed} while {told} "
            "0 or more: perhaps a mark for an answer that could not be parsed; kept",
            where,
            n_marked,
            f"Leave it out with {' '.join(f'--missing {value:g}' for value in values)}, "
            "or say with --scale that it is a score",
        ),
    )


def warn_of_emptied(
    facet: str, levels: Sequence[str], before: NDArray[np.int64], after: NDArray[np.int64]
) -> tuple[Problem, ...]:
    """Name the levels that vanish because all their rows were left out."""
    kept = np.bincount(after, minlength=len(levels)) > 0
    had = np.bincount(before[before >= 0], minlength=len(levels)) > 0
    gone = [levels[int(i)] for i in np.flatnonzero(had & ~kept)]
    if not gone:
        return ()
    lost = int(np.isin(before, np.flatnonzero(had & ~kept)).sum())
    severity: Severity = "note" if facet in ("scenario", "generation") else "warning"
    shown = ", ".join(map(repr, gone[:5])) + (", ..." if len(gone) > 5 else "")
    return (
        Problem(
            severity,
            f"{count(len(gone), f'{facet} has', f'levels of {facet} have')} no usable score "
            f"left: {shown}",
            f"facet {facet}",
            lost,
            "They are not in the answer",
        ),
    )


def _is_verdict(value: object) -> bool:
    return isinstance(value, bool) or (isinstance(value, str) and value.strip().lower() in VERDICTS)


def _is_named(value: object, missing: Sequence[str]) -> bool:
    if not missing:
        return False
    text = text_of(value)
    number = parse_number(value) if not _is_verdict(value) else float("nan")
    return any(
        text == wanted
        or (not _is_verdict(wanted) and "_" not in wanted and number == parse_number(wanted))
        for wanted in missing
    )


def _shown(value: object) -> str:
    text = text_of(value)
    return "NaN" if text is None else repr(text if len(text) <= 40 else text[:39] + "…")


def _texts(codes: NDArray[np.int64], values: Sequence[object]) -> list[str]:
    """Write the distinct values of these codes for a message."""
    return ["(null)" if code < 0 else _shown(values[int(code)]) for code in np.unique(codes)]


def tally(codes: NDArray[np.int64], values: Sequence[object]) -> str:
    """Tally the values, most frequent first: ``'N/A' 12, '' 3``."""
    counts = np.unique(codes, return_counts=True)[1].tolist()
    ranked = sorted(
        zip(_texts(codes, values), counts, strict=True), key=lambda pair: (-pair[1], pair[0])
    )
    shown = ", ".join(f"{text} {number:,}" for text, number in ranked[:MOST_TEXTS])
    return f"{shown}, ..." if len(ranked) > MOST_TEXTS else shown


def _remedy_for_unusable(texts: Sequence[str], strict: bool) -> str:
    if any(_DECIMAL_COMMA.fullmatch(text) for text in texts):
        return "Write decimals with a point, not a comma"
    if strict:
        return "Correct them, or name the values that stand for no score with --missing"
    return "Name values that stand for no score with --missing; --strict makes this an error"


def count(number: int | np.integer[Any], one: str, many: str) -> str:
    """Write a number with the noun and verb that agree with it."""
    return f"{int(number):,} {one if number == 1 else many}"


def left_out(number: int | np.integer[Any]) -> str:
    """Write that rows were left out, in the number that agrees."""
    return " and was left out" if number == 1 else " and were left out"
