"""Failures as missing and as stored, side by side, as tables with names."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayesjudge.auditing.answer import Section, Settings
from bayesjudge.auditing.describing import LEVEL, frame
from bayesjudge.auditing.failures import SideBySide, side_by_side
from bayesjudge.auditing.means import spearman
from bayesjudge.auditing.table import AuditTable
from bayesjudge.closed_form.multiplicity import holm
from bayesjudge.scores.problems import Problem

type Bools = NDArray[np.bool_]


def describe_failures(
    table: AuditTable, failed: Bools | None, settings: Settings, rng: np.random.Generator
) -> Section | str:
    """Return language means with failures as stored and as missing, by judge.

    Parameters
    ----------
    table : AuditTable
        With the failures among its rows.
    failed : (N,) bool array or None
    """
    if failed is None:
        return (
            "the table does not say which answers failed: a column parse_ok does, or verdict_tag "
            "with --failure TAG for each tag that means failure"
        )
    L = len(table.languages)
    found: dict[str, SideBySide] = {}
    for j, name in enumerate(table.judges):
        rows = table.judge == j
        found[name] = side_by_side(table.keep(rows), failed[rows], settings.permutations, rng)
    columns: dict[str, Any] = {
        "judge": np.repeat(list(found), L),
        "language": np.tile(table.languages, len(found)),
        "n": np.concatenate([f.n for f in found.values()]),
        "failed": np.concatenate([f.failed for f in found.values()]),
        "stored": np.concatenate([f.stored for f in found.values()]),
        "missing": np.concatenate([f.missing for f in found.values()]),
        "units_stored": np.concatenate([f.units_stored for f in found.values()]),
        "units_missing": np.concatenate([f.units_missing for f in found.values()]),
        "se": np.concatenate([f.se for f in found.values()]),
        "differs": np.concatenate([f.differs for f in found.values()]),
    }
    summary = {
        "judge": list(found),
        "failed": [int(f.failed.sum()) for f in found.values()],
        "share": [f.failed.sum() / f.n.sum() for f in found.values()],
        "p_unequal": [f.p_unequal for f in found.values()],
        "range_stored": [_range(f.stored) for f in found.values()],
        "range_missing": [_range(f.missing) for f in found.values()],
        "rank_correlation": [spearman(f.stored, f.missing)[0] for f in found.values()],
        "differ": [int(f.differs.sum()) for f in found.values()],
    }
    notes = (
        "stored: failed answers count with the score that was written for them; missing: they are "
        "left out, as in all other analyses here",
        "differs: the mean moves by more than its standard error",
        "units: means over scenarios (and backbones) of their own means, as of per-task fractions",
        "answers that fail in one language and not in another are not missing at random: neither "
        "figure is what the judge would have said",
    )
    return Section(
        "failures",
        {"summary": frame(summary), "by_language": frame(columns)},
        notes,
        tuple(_flags(table, found)),
        ("summary",),
    )


def _range(values: NDArray[np.float64]) -> float:
    held = values[np.isfinite(values)]
    return float(np.ptp(held)) if held.size else np.nan


def _flags(table: AuditTable, found: dict[str, SideBySide]) -> list[Problem]:
    flags = []
    adjusted = holm(np.array([f.p_unequal for f in found.values()]))
    for (name, one), p in zip(found.items(), adjusted, strict=True):
        moved = np.flatnonzero(one.differs)
        told = [
            f"{table.languages[i]} {one.stored[i]:.4g} -> {one.missing[i]:.4g} "
            f"(of units {one.units_stored[i]:.4g} -> {one.units_missing[i]:.4g}; "
            f"{one.failed[i]:,} of {one.n[i]:,} failed)"
            for i in moved
        ]
        if told:
            flags.append(
                Problem(
                    "warning",
                    "failed answers stored as scores move language means by more than their "
                    f"standard error: {'; '.join(told)}",
                    f"judge {name}",
                    int(one.failed.sum()),
                    "Repeat the calls that failed; until then compare languages with care",
                )
            )
        if p < LEVEL:
            share = np.where(one.n > 0, one.failed / np.maximum(one.n, 1), np.nan)
            high, low = int(np.nanargmax(share)), int(np.nanargmin(share))
            flags.append(
                Problem(
                    "warning",
                    f"answers fail more often in some languages, from {share[low]:.1%} "
                    f"({table.languages[low]}) to {share[high]:.1%} ({table.languages[high]}): "
                    "not missing at random",
                    f"judge {name}",
                    int(one.failed.sum()),
                )
            )
    shares = {name: one.failed.sum() / one.n.sum() for name, one in found.items() if one.n.sum()}
    if len(shares) > 1 and max(shares.values()) > 0:
        worst = max(shares, key=lambda name: shares[name])
        others = np.mean([s for name, s in shares.items() if name != worst])
        if shares[worst] - others > 0.01:
            flags.append(
                Problem(
                    "warning",
                    f"answers of {worst} failed in {shares[worst]:.1%} of its calls, those of the "
                    f"other judges in {others:.1%}",
                    "judges",
                )
            )
    return flags
