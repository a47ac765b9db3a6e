"""CyclicJudge's analysis of a table: a panel of judges, and what its calls are worth."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bayesjudge.closed_form.complete import CompleteScores, complete_scores
from bayesjudge.closed_form.cyclic import estimate_components, panel_mean_squares, panel_means
from bayesjudge.closed_form.panel_variance import checked_panel_size
from bayesjudge.errors import DataError, UsageError
from bayesjudge.pairing import refuse_battles
from bayesjudge.panel_tables import (
    PanelQuestion,
    comparison_frame,
    components_frame,
    contributions_frame,
    judges_frame,
    means_frame,
    self_preference_frame,
    strategies_frame,
)
from bayesjudge.planning.whole import check_whole, is_whole
from bayesjudge.ranking import check_probability
from bayesjudge.scores.table import Scores

if TYPE_CHECKING:
    import pandas as pd

type Pairs = Mapping[str, str] | Iterable[tuple[str, str]]


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
    refuse_battles(scores, "panel_analysis")
    check_probability(ci_prob, "ci_prob")
    check_whole(random_seed, "the seed", 0)
    if panel_size is not None:
        check_whole(panel_size, "the size of the panel")
    table = complete_scores(scores)
    _, n, m, k = table.values.shape
    if k == 1:
        raise DataError(
            "one judge is no panel: nothing tells the residual from the scenario",
            "facet judge",
            "Take a table with several judges",
        )
    split = m > 1 if judge_scenario is None else judge_scenario
    asked = PanelQuestion(
        panel_size=checked_panel_size(panel_size, k),
        ci_prob=ci_prob,
        designs=((n, m, k), *_checked_designs(designs)),
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
        judges=judges_frame(scores, table, squares, pairs, ci_prob),
        means=means_frame(scores, panel_means(squares, asked.panel_size), ci_prob),
        components=components_frame(backbones, raw, split),
        self_preference=self_preference_frame(scores, table, pairs, ci_prob),
        contributions=contributions_frame(backbones, raw.truncated, asked),
        strategies=strategies_frame(backbones, raw.truncated, table, asked),
        comparison=comparison_frame(backbones, raw.truncated, asked.panel_size, n),
        notes=_notes(scores, table, asked, split),
    )


def _checked_designs(designs: Sequence[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    for design in designs:
        if not (_is_row(design, 3) and all(is_whole(number) for number in design)):
            raise UsageError(
                f"{design!r} is no design", "designs", "Give (n, m, k), whole numbers of at least 1"
            )
    return [(n, m, k) for n, m, k in designs]


def _is_row(given: object, length: int) -> bool:
    return isinstance(given, Sequence) and not isinstance(given, str) and len(given) == length


def _checked_budgets(budgets: Sequence[int], m: int, size: int) -> tuple[int, ...]:
    wrong = [b for b in budgets if not is_whole(b)]
    if wrong:
        raise UsageError(
            f"a budget of {wrong[0]} calls a scenario", "budgets", "A whole number of at least 1"
        )
    return tuple(budgets) or tuple(size * turns for turns in sorted({1, 2, 5, m}) if turns <= m)


def _checked_subsamples(
    subsamples: int, budgets: Sequence[int], k: int, panel_size: int | None
) -> int:
    if not is_whole(subsamples, 0) or subsamples == 1:
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
    odd = [pair for pair in given if not _is_row(pair, 2)]
    if odd:
        raise UsageError(f"{odd[0]!r} is no pair", "own", "Give a judge and the backbone it is")
    for judge, backbone in given:
        for label, levels, what in ((judge, judges, "judge"), (backbone, backbones, "backbone")):
            if label not in levels:
                raise UsageError(f"no {what} is called {label!r}", "own", f"{what} labels only")
    return tuple(dict.fromkeys((judges.index(j), backbones.index(b)) for j, b in given))


def _notes(
    scores: Scores, table: CompleteScores, asked: PanelQuestion, split: bool
) -> tuple[str, ...]:
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
