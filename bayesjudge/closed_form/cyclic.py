"""CyclicJudge's analysis of one backbone: its equations on arrays of scores.

Scores of one backbone are an array ``(..., n, m, K)``: scenarios, generations and
judges last, every generation scored by every judge. Axes before them are tables of
their own, so that thousands are analysed at once.

Variances of judges are those of a panel of ``panel_size`` judges, of whom K are at
hand: the mean square of the offsets, not that of a population (STATISTICS section 7).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bayesjudge.closed_form.complete import complete_array
from bayesjudge.closed_form.intervals import satterthwaite_df
from bayesjudge.closed_form.panel_variance import (
    PanelComponents,
    checked_panel_size,
    finite_correction,
)
from bayesjudge.errors import DataError

type Floats = NDArray[np.float64]

# A mean is off by a few roundings of the largest score.
_ROUNDING = 16 * np.finfo(float).eps


@dataclass(frozen=True, eq=False)
class PanelMeanSquares:
    """Mean squares and means of scores ``(..., n, m, K)``; nan where none is measured.

    Attributes
    ----------
    n, m, k : int
    mean : (...) float array
    judge_mean : (..., K) float array
    scenario, generation, judge : (...) float array
        Equations 21 and 22, and appendix H.
    pooled : (...) float array
        The residual of equation 20, scenario:judge in it.
    judge_scenario, within : (...) float array
        The two parts of it: scenarios x judges, and generations x judges within
        scenarios.
    """

    n: int
    m: int
    k: int
    mean: Floats
    judge_mean: Floats
    scenario: Floats
    generation: Floats
    judge: Floats
    pooled: Floats
    judge_scenario: Floats
    within: Floats

    @property
    def offset(self) -> Floats:
        """Offsets of the K judges from their mean, (..., K)."""
        return judge_offsets(self.judge_mean)


@dataclass(frozen=True, eq=False)
class JudgeTest:
    """F-test that no judge has an offset; nan where there is no error to divide by."""

    f: Floats
    df1: int
    df2: int
    p_value: Floats


@dataclass(frozen=True, eq=False)
class MeanEstimates:
    """Means with standard errors and their degrees of freedom, arrays of one shape."""

    estimate: Floats
    se: Floats
    df: Floats


def panel_mean_squares(scores: ArrayLike) -> PanelMeanSquares:
    """Return the mean squares of complete scores.

    Parameters
    ----------
    scores : (..., n, m, K) float array
        Scenarios, generations, judges.

    Returns
    -------
    PanelMeanSquares
        CyclicJudge, equations 20 to 22 and appendix H.

    Raises
    ------
    DataError
        Where there are fewer than three axes, or one is empty.
    """
    x = complete_array(scores)
    n, m, k = x.shape[-3:]
    item, scenario_judge = x.mean(axis=-1), x.mean(axis=-2)
    scenario, judge = item.mean(axis=-1), scenario_judge.mean(axis=-2)
    mean = judge.mean(axis=-1)
    rounding = n * m * k * (_ROUNDING * np.abs(x).max(axis=(-3, -2, -1))) ** 2

    def sum_of_squares(effect: Floats, copies: int, axes: int) -> Floats:
        ss = copies * np.sum(effect * effect, axis=tuple(range(-axes, 0)))
        return np.asarray(np.where(ss > rounding, ss, 0.0))

    centre = mean[..., None]
    ss_scenario = sum_of_squares(scenario - centre, m * k, 1)
    ss_generation = sum_of_squares(item - scenario[..., None], k, 2)
    ss_judge = sum_of_squares(judge - centre, n * m, 1)
    crossed = scenario_judge - scenario[..., None] - judge[..., None, :] + centre[..., None]
    ss_crossed = sum_of_squares(crossed, m, 2)
    rest = x - item[..., None] - (scenario_judge - scenario[..., None])[..., None, :]
    ss_within = sum_of_squares(rest, 1, 3)
    return PanelMeanSquares(
        n=n,
        m=m,
        k=k,
        mean=mean,
        judge_mean=judge,
        scenario=_over(ss_scenario, n - 1),
        generation=_over(ss_generation, n * (m - 1)),
        judge=_over(ss_judge, k - 1),
        pooled=_over(ss_crossed + ss_within, (n * m - 1) * (k - 1)),
        judge_scenario=_over(ss_crossed, (n - 1) * (k - 1)),
        within=_over(ss_within, n * (m - 1) * (k - 1)),
    )


def estimate_components(
    squares: PanelMeanSquares, panel_size: int | None = None, *, judge_scenario: bool = False
) -> PanelComponents:
    """Estimate the variance components without bias, untruncated.

    Parameters
    ----------
    squares : PanelMeanSquares
    panel_size : int, optional
        Judges in the panel; those at hand unless told otherwise.
    judge_scenario : bool
        Whether judges' offsets may differ by scenario. If not, equation 1 of the
        paper: that is left to the residual.

    Returns
    -------
    PanelComponents
        Equations 20 and 23 to 25, with the estimator for a part of the panel of
        STATISTICS section 7. With one generation a scenario, ``generation`` is nan and its
        variance is in ``scenario``, and ``judge_scenario`` cannot be told from the
        residual.

    Raises
    ------
    UsageError
        Where the panel is smaller than the judges at hand.
    DataError
        Where ``judge_scenario`` is asked for with one generation a scenario.
    """
    n, m, k = squares.n, squares.m, squares.k
    size = checked_panel_size(panel_size, k)
    if judge_scenario and m == 1:
        raise DataError(
            "one generation a scenario cannot tell judge:scenario from the residual",
            remedy="Leave it in the residual, or take a table with several generations",
        )
    residual = squares.within if judge_scenario else squares.pooled
    error = squares.judge_scenario if judge_scenario else squares.pooled
    share = (size - 1) / size
    crossed = (
        share * (squares.judge_scenario - squares.within) / m
        if judge_scenario
        else np.zeros_like(residual)
    )
    inner = residual if m == 1 else squares.generation
    drawn = crossed * finite_correction(k, size) / k
    return PanelComponents(
        scenario=(squares.scenario - inner) / (m * k) - drawn,
        generation=(squares.generation - residual) / k,
        judge=share * (squares.judge - error) / (n * m),
        residual=residual,
        judge_scenario=crossed,
    )


def judge_offsets(judge_means: ArrayLike) -> Floats:
    """Return the offsets of judges, last axis, from their mean."""
    means = np.asarray(judge_means, dtype=float)
    return np.asarray(means - means.mean(axis=-1, keepdims=True))


def judge_variance(
    judge_means: ArrayLike, residual: ArrayLike, items: int, panel_size: int | None = None
) -> Floats:
    """Estimate the mean square of the panel's offsets from the means of K of its judges.

    Parameters
    ----------
    judge_means : (..., K) float array
    residual : (...) float array
        Variance of a score within judge and item.
    items : int
        Scenarios times generations behind each mean.
    panel_size : int, optional
        K unless told otherwise: then equation 25.

    Returns
    -------
    (...) float array
        Unbiased, so it can be negative.
    """
    offset = judge_offsets(judge_means)
    k = offset.shape[-1]
    size = checked_panel_size(panel_size, k)
    spread = np.sum(offset**2, axis=-1) / max(k - 1, 1)
    return np.asarray((size - 1) / size * (spread - np.asarray(residual, float) / items))


def judge_test(judge_means: ArrayLike, error: ArrayLike, items: int, error_df: int) -> JudgeTest:
    """Test that no judge has an offset (appendix H).

    Parameters
    ----------
    judge_means : (..., K) float array
    error : (...) float array
        The pooled residual, as in the paper, which assumes no scenario:judge; or the mean
        square of scenario x judge, which does not.
    items : int
        Scenarios times generations.
    error_df : int
        (nm - 1)(K - 1), or (n - 1)(K - 1).
    """
    from scipy.special import fdtrc

    offset = judge_offsets(judge_means)
    df1 = offset.shape[-1] - 1
    below = np.asarray(error, dtype=float)
    top = items * np.sum(offset**2, axis=-1)
    f = np.full(np.broadcast_shapes(top.shape, below.shape), math.nan)
    np.divide(top, df1 * below, out=f, where=below * df1 > 0)
    p = np.maximum(fdtrc(df1, error_df, f), np.finfo(float).tiny)
    return JudgeTest(f, df1, error_df, np.asarray(np.where(np.isnan(f), math.nan, p)))


def offset_error(squares: PanelMeanSquares) -> MeanEstimates:
    """Return the offsets of the judges at hand with their standard errors, (..., K).

    The error is the mean square of scenario x judge, which is right whether judges
    differ by scenario or not; with one scenario, what is left within it.
    """
    n, m, k = squares.n, squares.m, squares.k
    several = n > 1
    error = squares.judge_scenario if several else squares.within
    df = (n - 1) * (k - 1) if several else (m - 1) * (k - 1)
    se = np.sqrt(error * (1 - 1 / k) / (n * m))[..., None]
    offset = squares.offset
    return MeanEstimates(
        offset,
        np.broadcast_to(se, offset.shape).copy(),
        np.full(offset.shape, float(df) if df else math.nan),
    )


def means_by_judge(scores: ArrayLike) -> MeanEstimates:
    """Return each judge's mean score, (..., K), its error from the spread of scenarios.

    What a leaderboard of that judge alone would print (the paper's table 1): the
    standard error is about new scenarios, and knows nothing of other judges.
    """
    x = np.asarray(scores, dtype=float)
    by_scenario = x.mean(axis=-2)
    n = by_scenario.shape[-2]
    mean = by_scenario.mean(axis=-2)
    nothing = np.full(mean.shape, math.nan)
    se = by_scenario.std(axis=-2, ddof=1) / math.sqrt(n) if n > 1 else nothing
    return MeanEstimates(mean, se, np.full(mean.shape, n - 1.0 if n > 1 else math.nan))


def panel_means(squares: PanelMeanSquares, panel_size: int | None = None) -> MeanEstimates:
    """Estimate the mean over the whole panel from the judges at hand, (...).

    Returns
    -------
    MeanEstimates
        The variance is unbiased for equation 2: MS(scenario) / (nmK) and, where judges
        of the panel are missing, (1/K - 1/K_tot) times the excess of MS(judge). Degrees
        of freedom are Satterthwaite's. Nan for one scenario, and for one judge of
        several.
    """
    n, m, k = squares.n, squares.m, squares.k
    size = checked_panel_size(panel_size, k)
    if n == 1 or (k == 1 and size > 1):
        unknown = np.full(squares.mean.shape, math.nan)
        return MeanEstimates(squares.mean, unknown, unknown)
    missing = (1 / k - 1 / size) / (n * m)
    lines = np.stack(
        np.broadcast_arrays(squares.scenario, squares.judge, squares.judge_scenario), axis=-1
    )
    df = np.array([n - 1.0, k - 1.0, (n - 1.0) * (k - 1.0)])
    weights = np.array([1 / (n * m * k), missing, -missing])
    # Judges who differ less than their error add nothing, rather than take away.
    apart = lines[..., 1] > lines[..., 2]
    used = weights * np.stack([np.ones_like(apart), apart, apart], axis=-1)
    used = np.where(used == 0, 0.0, used)
    parts = np.where(used == 0, 0.0, lines)
    variance = np.sum(used * parts, axis=-1)
    flat = [
        satterthwaite_df(w[w != 0], line[w != 0], df[w != 0])
        for w, line in zip(used.reshape(-1, 3), parts.reshape(-1, 3), strict=True)
    ]
    return MeanEstimates(squares.mean, np.sqrt(variance), np.reshape(flat, variance.shape))


def _over(ss: Floats, df: int) -> Floats:
    return np.asarray(ss / df) if df else np.full(ss.shape, math.nan)
