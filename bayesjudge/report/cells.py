"""What tables say, as plain text in cells: one source for terminal and Markdown.

Text in cells is raw: whoever shows it escapes it (`bayesjudge.text`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bayesjudge.report import numbers
from bayesjudge.scores.problems import Problem

if TYPE_CHECKING:
    import pandas as pd

_MAX_NAMED = 12
_SCORE_COLUMNS = frozenset(
    {"mean", "difference", "estimate", "ci_lower", "ci_upper", "offset", "offset_se", "others"}
)
_SD_COLUMNS = ("sd", "se")
# Headings that can wrap at a space; data keep the names of the contract.
_HEADINGS = {
    "p_beats": "P(beats)",
    "p_within_rope": "P(within ROPE)",
    "p_best": "P(best)",
    "mean_square": "mean square",
    "n_scenarios": "n scenarios",
    "judge:scenario": "judge: scenario",
    "saving_over_all": "saving over all",
    "saving_over_random": "saving over random",
    "one_generation_best": "one generation best",
    "expected_sd": "expected sd",
    "p_order": "P(order)",
    "generalizability": "general- izability",
    "dependability": "depend- ability",
}


@dataclass(frozen=True)
class Cells:
    """A table ready to be drawn.

    Attributes
    ----------
    headers : tuple of str
        One a column.
    numeric : tuple of bool
        Whether a column is set flush right.
    rows : tuple of tuple of str
        Raw text.
    breaks : tuple of int
        Rows before which a group begins (a tier); never the first.
    notes : tuple of str
        Sentences beneath the table, raw text.
    """

    headers: tuple[str, ...]
    numeric: tuple[bool, ...]
    rows: tuple[tuple[str, ...], ...]
    breaks: tuple[int, ...] = ()
    notes: tuple[str, ...] = ()


def leaderboard_cells(
    table: pd.DataFrame,
    *,
    best_set: Sequence[str] = (),
    ci_prob: float = 0.95,
    level: float = 0.95,
    pairwise: pd.DataFrame | None = None,
    wide: bool = False,
) -> Cells:
    """Return the cells of a leaderboard.

    Parameters
    ----------
    table : DataFrame
        As `bayesjudge.ranking.leaderboard` returns it.
    best_set : sequence of str
        Backbones to mark as in the best set.
    ci_prob : float
        Probability of the intervals, for the heading.
    level : float
        Probability of the best set, and P(beats) from which neighbours are told
        apart.
    pairwise : DataFrame or None
        P(row beats column), labelled; for the note on neighbours.
    wide : bool
        Adds sd, simultaneous ranks, expected rank and SUCRA.

    Returns
    -------
    Cells
        A break where the tier changes.
    """
    decimals = numbers.decimals_for(table["sd"])
    said = numbers.percent(ci_prob)
    columns: list[tuple[str, bool, list[str]]] = [
        ("rank", True, _each(numbers.rank_range, table, "rank_lower", "rank_upper")),
        ("backbone", False, [str(label) for label in table["backbone"]]),
        ("mean", True, [numbers.number(v, decimals) for v in table["mean"]]),
        (
            f"{said} interval",
            True,
            _each(lambda a, b: numbers.interval(a, b, decimals), table, "ci_lower", "ci_upper"),
        ),
        (
            "P(best)",
            True,
            [
                numbers.probability(p) + ("*" if label in best_set else " ")
                for p, label in zip(table["p_best"], table["backbone"], strict=True)
            ],
        ),
        ("tier", True, [f"{tier:g}" for tier in table["tier"]]),
    ]
    if wide:
        columns[3:3] = [("sd", True, [numbers.number(v, decimals) for v in table["sd"]])]
        simultaneous = _each(numbers.rank_range, table, "rank_lower_sim", "rank_upper_sim")
        columns[1:1] = [("joint rank", True, simultaneous)]
        columns[-1:-1] = [
            ("E(rank)", True, [numbers.number(v, 2) for v in table["expected_rank"]]),
            ("SUCRA", True, [numbers.number(v, 2) for v in table["sucra"]]),
        ]
    tiers = list(table["tier"])
    notes = [f"rank: {said} credible interval of the rank"]
    if wide:
        notes[0] += "; joint rank: all of these hold at once with that probability"
    if best_set:
        notes.append(f"* best set: holds the best backbone with probability {level:g} or more")
    if pairwise is not None and len(table) > 1:
        notes.append(_neighbours(list(table["backbone"]), pairwise, level))
    return Cells(
        headers=tuple(name for name, _, _ in columns),
        numeric=tuple(flush for _, flush, _ in columns),
        rows=tuple(zip(*(cells for _, _, cells in columns), strict=True)),
        breaks=tuple(at for at in range(1, len(tiers)) if tiers[at] != tiers[at - 1]),
        notes=tuple(notes),
    )


def frame_cells(table: pd.DataFrame) -> Cells:
    """Return the cells of any table of results.

    Parameters
    ----------
    table : DataFrame
        Estimates take their digits from a column ``sd`` or ``se``; columns named
        ``p_...`` are probabilities; other floats show four digits. ``ci_lower``
        and ``ci_upper`` are shown as one interval.

    Returns
    -------
    Cells
        Every row, without the index.
    """
    names = [str(name) for name in table.columns]
    driver = next((names.index(name) for name in _SD_COLUMNS if name in names), None)
    decimals = None if driver is None else numbers.decimals_for(table.iloc[:, driver].astype(float))
    columns: list[tuple[str, bool, list[str]]] = []
    for at, name in enumerate(names):
        values = table.iloc[:, at]
        shown = [_cell(value, name, decimals) for value in values]
        if name == "ci_upper" and names[at - 1] == "ci_lower":
            _, _, lower = columns.pop()
            columns.append(("interval", True, _joined(lower, shown)))
        else:
            columns.append((_HEADINGS.get(name, name), values.dtype.kind in "iuf", shown))
    return Cells(
        headers=tuple(name for name, _, _ in columns),
        numeric=tuple(numeric for _, numeric, _ in columns),
        rows=tuple(zip(*(shown for _, _, shown in columns), strict=True)),
    )


def problems_cells(problems: Sequence[Problem]) -> Cells:
    """Return the cells of a table of findings.

    Parameters
    ----------
    problems : sequence of Problem
        In the order given.

    Returns
    -------
    Cells
        ``severity, what, where, rows, remedy``; columns that are empty
        throughout are left out.
    """
    rows = [(p.severity, p.what, p.where, str(p.rows or ""), p.remedy) for p in problems]
    names = ("severity", "what", "where", "rows", "remedy")
    kept = [at for at in range(len(names)) if at < 2 or any(row[at] for row in rows)]
    return Cells(
        headers=tuple(names[at] for at in kept),
        numeric=tuple(names[at] == "rows" for at in kept),
        rows=tuple(tuple(row[at] for at in kept) for row in rows),
    )


def _neighbours(labels: Sequence[str], pairwise: pd.DataFrame, level: float) -> str:
    beats = pairwise.loc[list(labels), list(labels)].to_numpy(dtype=float)
    close = [
        f"{better} ~ {worse} ({numbers.probability(p)})"
        for better, worse, p in zip(labels[:-1], labels[1:], beats.diagonal(1), strict=True)
        if p < level
    ]
    if not close:
        return f"Every backbone beats the next with probability {level:g} or more."
    more = f", and {len(close) - _MAX_NAMED} more" if len(close) > _MAX_NAMED else ""
    return (
        f"Neighbours that cannot be told apart (P(beats) below {level:g}): "
        + ", ".join(close[:_MAX_NAMED])
        + more
    )


def _each(show: Any, table: pd.DataFrame, lower: str, upper: str) -> list[str]:
    return [show(a, b) for a, b in zip(table[lower], table[upper], strict=True)]


def _joined(lower: Sequence[str], upper: Sequence[str]) -> list[str]:
    return [
        numbers.NULL if numbers.NULL in {a, b} else f"[{a}, {b}]"
        for a, b in zip(lower, upper, strict=True)
    ]


def _cell(value: Any, name: str, decimals: int | None) -> str:
    if isinstance(value, str):
        return value
    if value is None:
        return numbers.NULL
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, bool):
        return "yes" if value else "no"
    if not isinstance(value, float):
        return str(value)
    if name.startswith("p_") and (math.isnan(value) or 0 <= value <= 1):
        return numbers.probability(value)
    if decimals is not None and (name in _SCORE_COLUMNS or name in _SD_COLUMNS):
        return numbers.number(value, decimals)
    return numbers.significant(value)
