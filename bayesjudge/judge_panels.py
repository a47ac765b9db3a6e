"""CyclicJudge's analysis of a table: a panel of judges, and what its calls are worth."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bayesjudge.closed_form.allocation import (
    all_judges_beat_random,
    one_generation_is_best,
    pool_constants,
    strategy_variances,
    subsampled_means,
)
from bayesjudge.closed_form.complete import CompleteScores, complete_scores
from bayesjudge.closed_form.cyclic import (
    MeanEstimates,
    PanelComponents,
    PanelMeanSquares,
    checked_panel_size,
    estimate_components,
    mean_contributions,
    mean_variance,
    means_by_judge,
    offset_error,
    panel_mean_squares,
    panel_means,
)
from bayesjudge.closed_form.intervals import t_interval
from bayesjudge.errors import DataError, UsageError
from bayesjudge.ranking import check_probability
from bayesjudge.scores.table import Scores

if TYPE_CHECKING:
    import pandas as pd

type Floats = NDArray[np.float64]
type Columns = dict[str, list[Any]]
type Pairs = Mapping[str, str] | Iterable[tuple[str, str]]

STRATEGIES = ("all_judges", "random_judge", "cyclic")
_TERMS = {
    "scenario": "scenario",
    "generation": "generation",
    "judge": "judge",
    "judge_scenario": "judge:scenario",
    "residual": "residual",
}


@dataclass(frozen=True, eq=False)
class PanelAnalysis:
    """CyclicJudge's analysis, each backbone by itself.

    Attributes
    ----------
    scores : Scores
    panel_size : int
        Judges in the whole panel, of whom those of the table may be a part.
    judge_scenario : bool
        Whether judges' offsets may differ by scenario; if not, the paper's equation 1.
    ci_prob : float
    judges : DataFrame
        backbone, judge, mean, se, ci_lower, ci_upper: what a leaderboard of that judge
        alone would say (table 1); offset, offset_se: about the mean of the judges of the
        table (figure 2); own: whether the backbone is the judge itself.
    means : DataFrame
        backbone, mean, se, df, ci_lower, ci_upper: of the whole panel.
    components : DataFrame
        backbone, term, variance, untruncated (equations 20 to 25; for a part of the
        panel STATISTICS section 7).
    self_preference : DataFrame
        backbone, judge, offset, others, estimate, se, df, ci_lower, ci_upper: the judge's
        offset on the backbone that is its own, its mean offset on the others, and the
        difference, its error from the spread over scenarios. A last row without
        backbone and judge is the mean of all.
    contributions : DataFrame
        backbone, n, m, k, a column a component, variance, sd: what each adds to the
        variance of a mean on designs in which each of k judges of the panel scores every
        generation (equation 2).
    strategies : DataFrame
        backbone, budget, all_judges, random_judge, cyclic: V_A, V_B and V_C at so many
        calls a scenario, scenarios' own part left out (equations 3 to 5); pool_...: what
        subsampling this very table gives (equations 36 to 38); subsampled_...: what it
        gave. Null where not known.
    comparison : DataFrame
        backbone, ratio (judge + judge:scenario) / generation, threshold K - 1, second
        (which of the other two comes after taking turns), saving_over_all,
        saving_over_random (at a budget of K), one_generation_best.
    notes : tuple of str
    """

    scores: Scores
    panel_size: int
    judge_scenario: bool
    ci_prob: float
    judges: pd.DataFrame
    means: pd.DataFrame
    components: pd.DataFrame
    self_preference: pd.DataFrame
    contributions: pd.DataFrame
    strategies: pd.DataFrame
    comparison: pd.DataFrame
    notes: tuple[str, ...]

    def __repr__(self) -> str:
        return (
            f"PanelAnalysis of {len(self.scores.levels('backbone'))} backbones, "
            f"{len(self.scores.levels('judge'))} of {self.panel_size} judges"
        )


@dataclass(frozen=True)
class _Question:
    panel_size: int
    ci_prob: float
    designs: tuple[tuple[int, int, int], ...]
    budgets: tuple[int, ...]
    subsamples: int
    random_seed: int


def panel_analysis(
    scores: Scores,
    *,
    panel_size: int | None = None,
    judge_scenario: bool | None = None,
    own: Pairs | None = None,
    designs: Sequence[tuple[int, int, int]] = (),
    budgets: Sequence[int] = (),
    subsamples: int = 0,
    random_seed: int = 0,
    ci_prob: float = 0.95,
) -> PanelAnalysis:
    """Decompose each backbone's scores by itself, and compare ways of asking the panel.

    Parameters
    ----------
    scores : Scores
        Every generation scored once by every judge.
    panel_size : int, optional
        Judges in the panel whose mean is wanted; those of the table unless told otherwise.
    judge_scenario : bool, optional
        Whether judges' offsets may differ by scenario. By default they may where
        several generations can show it; ``False`` is the paper's equation 1.
    own : mapping or pairs of str, optional
        Judge and the backbone that is itself, or of its family; by default those of
        one name.
    designs : sequence of (n, m, k)
        Beside the table's own.
    budgets : sequence of int
        Judge calls a scenario; by default one, two, five and as many turns of
        the panel as there are generations.
    subsamples : int
        Subsamples of the table drawn for each strategy and budget; none by default.
    random_seed : int
        Of these.
    ci_prob : float

    Returns
    -------
    PanelAnalysis

    Raises
    ------
    DataError
        Where the table has gaps or facets that the paper's model lacks.
    UsageError
        Where what is asked for is not possible.
    """
    if not isinstance(scores, Scores):
        raise UsageError(
            f"panel_analysis takes Scores, not {type(scores).__name__}",
            remedy="Read the table first: bayesjudge.read_scores(table)",
        )
    check_probability(ci_prob, "ci_prob")
    table = complete_scores(scores)
    _, n, m, k = table.values.shape
    if k == 1:
        raise DataError(
            "one judge is no panel: nothing tells the residual from the scenario",
            "facet judge",
            "Take a table with several judges",
        )
    split = m > 1 if judge_scenario is None else judge_scenario
    asked = _Question(
        panel_size=checked_panel_size(panel_size, k),
        ci_prob=ci_prob,
        designs=((n, m, k), *designs),
        budgets=_checked_budgets(budgets, m, checked_panel_size(panel_size, k)),
        subsamples=_checked_subsamples(subsamples, budgets, k, panel_size),
        random_seed=random_seed,
    )
    pairs = _own_pairs(scores, own)
    squares = panel_mean_squares(table.values)
    raw = estimate_components(squares, asked.panel_size, judge_scenario=split)
    backbones = scores.levels("backbone")
    return PanelAnalysis(
        scores=scores,
        panel_size=asked.panel_size,
        judge_scenario=split,
        ci_prob=ci_prob,
        judges=_judges(scores, table, squares, pairs, ci_prob),
        means=_means(scores, panel_means(squares, asked.panel_size), ci_prob),
        components=_components(backbones, raw, split),
        self_preference=_self_preference(scores, table, pairs, ci_prob),
        contributions=_contributions(backbones, raw.truncated, asked),
        strategies=_strategies(backbones, raw.truncated, table, asked),
        comparison=_comparison(backbones, raw.truncated, asked.panel_size, n),
        notes=_notes(scores, table, asked, split),
    )


def _checked_budgets(budgets: Sequence[int], m: int, size: int) -> tuple[int, ...]:
    wrong = [b for b in budgets if b < 1]
    if wrong:
        raise UsageError(f"a budget of {wrong[0]} calls a scenario", "budgets", "At least 1")
    return tuple(budgets) or tuple(size * turns for turns in sorted({1, 2, 5, m}) if turns <= m)


def _checked_subsamples(
    subsamples: int, budgets: Sequence[int], k: int, panel_size: int | None
) -> int:
    if subsamples < 0 or subsamples == 1:
        raise UsageError(f"{subsamples} subsamples have no variance", "subsamples", "At least 2")
    uneven = [b for b in budgets if b % k]
    if subsamples and uneven:
        raise UsageError(
            f"a budget of {uneven[0]} calls is no multiple of {k} judges",
            "budgets",
            "Subsamples take whole turns of the panel",
        )
    if subsamples and panel_size not in (None, k):
        raise UsageError(
            f"the table has {k} of {panel_size} judges: its subsamples are not the panel's",
            "subsamples",
            "Leave out panel_size, or the subsamples",
        )
    return subsamples


def _own_pairs(scores: Scores, own: Pairs | None) -> tuple[tuple[int, int], ...]:
    """Return (judge code, backbone code) of judges and what is their own."""
    judges, backbones = scores.levels("judge"), scores.levels("backbone")
    if own is None:
        return tuple((judges.index(b), at) for at, b in enumerate(backbones) if b in judges)
    given = list(own.items()) if isinstance(own, Mapping) else list(own)
    for judge, backbone in given:
        for label, levels, what in ((judge, judges, "judge"), (backbone, backbones, "backbone")):
            if label not in levels:
                raise UsageError(f"no {what} is called {label!r}", "own", f"{what} labels only")
    return tuple(dict.fromkeys((judges.index(j), backbones.index(b)) for j, b in given))


def _judges(
    scores: Scores,
    table: CompleteScores,
    squares: PanelMeanSquares,
    pairs: Sequence[tuple[int, int]],
    ci_prob: float,
) -> pd.DataFrame:
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


def _means(scores: Scores, found: MeanEstimates, ci_prob: float) -> pd.DataFrame:
    columns = {"backbone": list(scores.levels("backbone"))}
    columns |= _spread(found, ci_prob, "mean", df=True)
    order = np.argsort(found.estimate if scores.lower_is_better else -found.estimate, kind="stable")
    return _frame({name: [values[i] for i in order] for name, values in columns.items()})


def _components(backbones: Sequence[str], raw: PanelComponents, split: bool) -> pd.DataFrame:
    kept = {name: term for name, term in _TERMS.items() if split or name != "judge_scenario"}
    shown = raw.truncated
    rows = [
        (b, term, float(getattr(shown, name)[at]), float(getattr(raw, name)[at]))
        for at, b in enumerate(backbones)
        for name, term in kept.items()
    ]
    return _frame_of(rows, ("backbone", "term", "variance", "untruncated"))


def _self_preference(
    scores: Scores, table: CompleteScores, pairs: Sequence[tuple[int, int]], ci_prob: float
) -> pd.DataFrame:
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


def _contributions(
    backbones: Sequence[str], parts: PanelComponents, asked: _Question
) -> pd.DataFrame:
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


def _strategies(
    backbones: Sequence[str], parts: PanelComponents, table: CompleteScores, asked: _Question
) -> pd.DataFrame:
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


def _comparison(
    backbones: Sequence[str], parts: PanelComponents, size: int, n: int
) -> pd.DataFrame:
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


def _notes(scores: Scores, table: CompleteScores, asked: _Question, split: bool) -> tuple[str, ...]:
    _, n, m, k = table.values.shape
    said = [
        f"each backbone by itself: {n} scenarios x {m} generations x {k} judges, of a panel of "
        f"{asked.panel_size}; "
        + (
            "judges' offsets may differ by scenario"
            if split
            else "that judges' offsets differ by scenario is left to the residual (equation 1)"
        )
    ]
    if m == 1:
        said.append(
            "one generation a scenario: its variance is in the scenario's, strategies that take "
            "several generations cannot be compared"
        )
    if asked.panel_size > k:
        said.append(
            "offsets and means by judge are about the judges at hand; components, means and "
            "strategies about the whole panel"
        )
    if not table.shared:
        said.append("backbones have scenarios of their own: no standard error of self-preference")
    if scores.lower_is_better:
        said.append("lower is better: a judge favours its own where the estimate is negative")
    return tuple(said)


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

    labels = ("backbone", "judge", "term", "second")
    return pd.DataFrame(
        {
            name: pd.Series(values, dtype=object) if name in labels else pd.Series(values)
            for name, values in columns.items()
        }
    )
