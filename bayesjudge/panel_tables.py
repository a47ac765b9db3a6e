"""The tables of a panel's analysis: arrays in, labelled frames out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from bayesjudge.closed_form.allocation import (
    all_judges_beat_random,
    one_generation_is_best,
    pool_constants,
    strategy_variances,
    subsampled_means,
)
from bayesjudge.closed_form.complete import CompleteScores
from bayesjudge.closed_form.cyclic import (
    MeanEstimates,
    PanelMeanSquares,
    means_by_judge,
    offset_error,
)
from bayesjudge.closed_form.intervals import t_interval
from bayesjudge.closed_form.panel_variance import (
    PanelComponents,
    mean_contributions,
    mean_variance,
)
from bayesjudge.scores.table import Scores

if TYPE_CHECKING:
    import pandas as pd

type Columns = dict[str, list[Any]]

STRATEGIES = ("all_judges", "random_judge", "cyclic")
_TERMS = {
    "scenario": "scenario",
    "generation": "generation",
    "judge": "judge",
    "judge_scenario": "judge:scenario",
    "residual": "residual",
}


@dataclass(frozen=True)
class PanelQuestion:
    """What is asked of a panel, checked."""

    panel_size: int
    ci_prob: float
    designs: tuple[tuple[int, int, int], ...]
    budgets: tuple[int, ...]
    subsamples: int
    random_seed: int


def judges_frame(
    scores: Scores,
    table: CompleteScores,
    squares: PanelMeanSquares,
    pairs: Sequence[tuple[int, int]],
    ci_prob: float,
) -> pd.DataFrame:
    """Return each judge's mean and offset by backbone."""
    judges, backbones = scores.levels("judge"), scores.levels("backbone")
    alone, offset = means_by_judge(table.values), offset_error(squares)
    return _frame(
        {
            "backbone": [b for b in backbones for _ in judges],
            "judge": [j for _ in backbones for j in judges],
            **_spread(alone, ci_prob, "mean"),
            "offset": offset.estimate.ravel().tolist(),
            "offset_se": offset.se.ravel().tolist(),
            "own": [(j, b) in pairs for b in range(len(backbones)) for j in range(len(judges))],
        }
    )


def means_frame(scores: Scores, found: MeanEstimates, ci_prob: float) -> pd.DataFrame:
    """Return the means over the panel, best first."""
    columns = {"backbone": list(scores.levels("backbone"))}
    columns |= _spread(found, ci_prob, "mean", df=True)
    order = np.argsort(found.estimate if scores.lower_is_better else -found.estimate, kind="stable")
    return _frame({name: [values[i] for i in order] for name, values in columns.items()})


def components_frame(backbones: Sequence[str], raw: PanelComponents, split: bool) -> pd.DataFrame:
    """Return the variance components by backbone, truncated and not."""
    kept = {name: term for name, term in _TERMS.items() if split or name != "judge_scenario"}
    shown = raw.truncated
    rows = [
        (b, term, float(getattr(shown, name)[at]), float(getattr(raw, name)[at]))
        for at, b in enumerate(backbones)
        for name, term in kept.items()
    ]
    return _frame_of(rows, ("backbone", "term", "variance", "untruncated"))


def self_preference_frame(
    scores: Scores, table: CompleteScores, pairs: Sequence[tuple[int, int]], ci_prob: float
) -> pd.DataFrame:
    """Return what a judge gives its own beyond others, from the contrasts of scenarios.

    ``pairs`` are (judge code, backbone code).
    """
    judges, backbones = scores.levels("judge"), scores.levels("backbone")
    by_scenario = table.values.mean(axis=2)
    offset = by_scenario - by_scenario.mean(axis=2, keepdims=True)
    n = offset.shape[1]
    names: list[tuple[str | None, str | None]] = []
    beside, contrasts = [], []
    for judge, backbone in pairs:
        own = {b for j, b in pairs if j == judge}
        other = [b for b in range(len(backbones)) if b not in own]
        # Without another backbone nothing tells a preference from leniency.
        rest = offset[other, :, judge].mean(axis=0) if other else np.full(n, np.nan)
        names.append((backbones[backbone], judges[judge]))
        beside.append((float(offset[backbone, :, judge].mean()), float(rest.mean())))
        contrasts.append(offset[backbone, :, judge] - rest)
    if len(pairs) > 1:
        names.append((None, None))
        beside.append(tuple(np.mean(beside, axis=0).tolist()))
        contrasts.append(np.mean(contrasts, axis=0))
    each = np.array(contrasts).reshape(-1, n)
    known = n > 1 and table.shared
    nothing = np.full(len(each), np.nan)
    se = each.std(axis=1, ddof=1) / np.sqrt(n) if known else nothing
    df = np.full(len(each), n - 1.0) if known else nothing
    found = MeanEstimates(each.mean(axis=1), se, df)
    return _frame(
        {
            "backbone": [b for b, _ in names],
            "judge": [j for _, j in names],
            "offset": [a for a, _ in beside],
            "others": [b for _, b in beside],
            **_spread(found, ci_prob, "estimate", df=True),
        }
    )


def contributions_frame(
    backbones: Sequence[str], parts: PanelComponents, asked: PanelQuestion
) -> pd.DataFrame:
    """Return what each component adds to the variance of a mean, by design."""
    columns: Columns = {"backbone": list(backbones) * len(asked.designs)}
    columns |= {name: [] for name in ("n", "m", "k", *_TERMS.values(), "variance", "sd")}
    for n, m, k in asked.designs:
        added = mean_contributions(parts, n, m, k, asked.panel_size)
        total = mean_variance(parts, n, m, k, asked.panel_size)
        for name, value in (("n", n), ("m", m), ("k", k)):
            columns[name] += [value] * len(backbones)
        for name, term in _TERMS.items():
            columns[term] += getattr(added, name).tolist()
        columns["variance"] += total.tolist()
        columns["sd"] += np.sqrt(total).tolist()
    return _frame(columns)


def strategies_frame(
    backbones: Sequence[str], parts: PanelComponents, table: CompleteScores, asked: PanelQuestion
) -> pd.DataFrame:
    """Return the variances of the strategies, predicted by model and pool, and drawn."""
    _, n, _, k = table.values.shape
    budgets = np.array(asked.budgets)
    wide = PanelComponents(*(getattr(parts, f.name)[:, None] for f in fields(parts)))
    v = strategy_variances(wide, n, budgets, asked.panel_size)
    columns: Columns = {
        "backbone": [b for b in backbones for _ in budgets],
        "budget": [int(b) for _ in backbones for b in budgets],
    }
    shape = (len(backbones), budgets.size)
    for name in STRATEGIES:
        columns[name] = np.broadcast_to(getattr(v, name), shape).ravel().tolist()
    pools = pool_constants(table.values)
    known = (budgets % k == 0) & (k == asked.panel_size)
    for name in STRATEGIES:
        expected = getattr(pools, name)[:, None] / (n * budgets)
        columns[f"pool_{name}"] = np.where(known, expected, np.nan).ravel().tolist()
    if asked.subsamples:
        rng = np.random.default_rng(asked.random_seed)
        for name in STRATEGIES:
            columns[f"subsampled_{name}"] = [
                float(subsampled_means(x, name, int(b), asked.subsamples, rng).var(ddof=1))
                if fits
                else np.nan
                for x in table.values
                for b, fits in zip(budgets, known, strict=True)
            ]
    return _frame(columns)


def comparison_frame(
    backbones: Sequence[str], parts: PanelComponents, size: int, n: int
) -> pd.DataFrame:
    """Return which strategy comes second, and what taking turns saves, by backbone."""
    v = strategy_variances(parts, n, size, size)
    known = ~np.isnan(parts.generation)
    second = np.where(all_judges_beat_random(parts, size), "all judges", "random judge")
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = (parts.judge + parts.judge_scenario) / parts.generation
        over_all = v.all_over_cyclic / v.all_judges
        over_random = v.random_over_cyclic / v.random_judge
    return _frame(
        {
            "backbone": list(backbones),
            "ratio": ratio.tolist(),
            "threshold": [size - 1] * len(backbones),
            "second": [str(s) if ok else None for s, ok in zip(second, known, strict=True)],
            "saving_over_all": over_all.tolist(),
            "saving_over_random": over_random.tolist(),
            "one_generation_best": one_generation_is_best(parts, size).tolist(),
        }
    )


def _spread(found: MeanEstimates, ci_prob: float, name: str, *, df: bool = False) -> Columns:
    estimate, se, freedom = (
        np.asarray(v, float).ravel() for v in (found.estimate, found.se, found.df)
    )
    limits = [
        t_interval(estimate[i : i + 1], se[i : i + 1], float(freedom[i]), ci_prob)
        for i in range(estimate.size)
    ]
    return {
        name: estimate.tolist(),
        "se": se.tolist(),
        **({"df": freedom.tolist()} if df else {}),
        "ci_lower": [float(lower[0]) for lower, _ in limits],
        "ci_upper": [float(upper[0]) for _, upper in limits],
    }


def _frame_of(rows: Sequence[tuple[Any, ...]], names: Sequence[str]) -> pd.DataFrame:
    return _frame({name: [row[at] for row in rows] for at, name in enumerate(names)})


def _frame(columns: Mapping[str, list[Any]]) -> pd.DataFrame:
    import pandas as pd

    return pd.DataFrame(
        {
            name: pd.Series(values, dtype=object)
            if name == "backbone" or any(isinstance(value, str) for value in values)
            else pd.Series(values)
            for name, values in columns.items()
        }
    )
