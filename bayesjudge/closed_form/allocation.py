"""How to spend a budget of judge calls: CyclicJudge's three strategies.

A: all judges score each of B / K generations. B: a judge drawn at random, with
replacement, scores each of B generations. C: judges take turns, one a generation, the
turn going on from scenario to scenario. B is the budget of one scenario, K the panel.

Variances are of a backbone's mean about the mean over the panel, without the
scenarios' own part, which is the same for all three. The variance of scenario:judge counts
where judges of a scenario are not balanced (STATISTICS section 7): always in B, never in A,
in C with a budget that is no multiple of K.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bayesjudge.closed_form.complete import complete_array
from bayesjudge.closed_form.panel_variance import PanelComponents
from bayesjudge.errors import UsageError

type Floats = NDArray[np.float64]
type Truths = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class StrategyVariances:
    """Variances of the three strategies, arrays of one shape.

    Attributes
    ----------
    all_judges, random_judge, cyclic : float array
        V_A, V_B, V_C. V_A is nan where the budget is no multiple of K.
    """

    all_judges: Floats
    random_judge: Floats
    cyclic: Floats

    @property
    def all_over_cyclic(self) -> Floats:
        """V_A - V_C (equation 32)."""
        return self.all_judges - self.cyclic

    @property
    def random_over_cyclic(self) -> Floats:
        """V_B - V_C (equation 33)."""
        return self.random_judge - self.cyclic

    @property
    def all_over_random(self) -> Floats:
        """V_A - V_B (equation 34)."""
        return self.all_judges - self.random_judge


@dataclass(frozen=True, eq=False)
class PoolConstants:
    """C_A, C_B and C_C: subsamples of a complete table have the variance C / (nB)."""

    all_judges: Floats
    random_judge: Floats
    cyclic: Floats


def strategy_variances(
    parts: PanelComponents, n: int, budget: ArrayLike, k: int
) -> StrategyVariances:
    """Return V_A, V_B and V_C (equations 3 to 5).

    Parameters
    ----------
    parts : PanelComponents
        Arrays that broadcast with ``budget``.
    n : int
        Scenarios.
    budget : int array
        Judge calls a scenario.
    k : int
        Judges of the panel.

    Returns
    -------
    StrategyVariances
        Of any budget. Incomplete turns: r = B mod K judges of a scenario are drawn
        without replacement, which adds scenario:judge times r (K - r) / ((K - 1) n B^2);
        and of all nB calls the last nB mod K add the same of the offsets, once.

    Raises
    ------
    UsageError
        Where there is nothing to spend, no scenario or no judge.
    """
    b = np.asarray(budget)
    if n < 1 or k < 1 or b.size == 0 or (b < 1).any():
        raise UsageError(
            f"{n} scenarios, {k} judges, a budget of {b.tolist()} calls a scenario",
            remedy="Each is at least 1",
        )
    calls = n * b
    noise = (parts.generation + parts.residual) / calls
    every = np.where(b % k == 0, (k * parts.generation + parts.residual) / calls, math.nan)
    within = parts.judge_scenario * _left_over(b, k) / n
    between = parts.judge * _left_over(calls, k)
    return StrategyVariances(
        all_judges=np.asarray(every),
        random_judge=np.asarray(noise + (parts.judge + parts.judge_scenario) / calls),
        cyclic=np.asarray(noise + within + between),
    )


def all_judges_beat_random(parts: PanelComponents, k: int) -> Truths:
    """Say whether A has a smaller variance than B: judges apart by more than generations.

    judge + scenario:judge > (K - 1) generation (section 3.3; STATISTICS section 7).
    """
    return np.asarray(parts.judge + parts.judge_scenario > (k - 1) * parts.generation)


def one_generation_is_best(parts: PanelComponents, k: int) -> Truths:
    """Say whether taking turns is best with one generation a scenario.

    scenario:judge < (K - 1) scenario; always so in the paper, which has none
    (appendix F; STATISTICS section 7).
    """
    return np.asarray(parts.judge_scenario <= (k - 1) * parts.scenario)


def scenario_coverage(
    parts: PanelComponents,
    generations: int,
    per_scenario: ArrayLike,
    k: int,
    *,
    available: int | None = None,
    finite: bool = False,
) -> Floats:
    """Return the variance of taking turns, scenarios included, by generations a scenario.

    Parameters
    ----------
    parts : PanelComponents
        Of one backbone.
    generations : int
        To be spread, n m in all, one judge each.
    per_scenario : int array
        m. Scenarios n = ``generations`` / m.
    k : int
        Judges of the panel.
    available : int, optional
        Scenarios there are, N.
    finite : bool
        Whether the question is about these N only: their variance is then times
        1 - n/N.

    Returns
    -------
    float array
        Equation 35; nan where m does not divide the generations, or more scenarios
        are needed than there are.

    Raises
    ------
    UsageError
        Where ``finite`` without ``available``.
    """
    if finite and available is None:
        raise UsageError("finite scenarios, but not how many", "available")
    m = np.atleast_1d(np.asarray(per_scenario))
    found = np.full(m.shape, math.nan)
    for at, each in enumerate(m):
        n = generations // int(each)
        if n * each != generations or (available is not None and n > available):
            continue
        part = 1 - n / available if finite and available is not None else 1.0
        turns = strategy_variances(parts, n, each, k).cyclic
        found[at] = float(parts.scenario * part / n + turns)
    return found


def pool_constants(scores: ArrayLike) -> PoolConstants:
    """Return what subsampling a complete table predicts (equations 36 to 38).

    Parameters
    ----------
    scores : (..., n, m, K) float array
        One backbone's: scenarios, generations, judges.

    Returns
    -------
    PoolConstants
        Arrays of the leading axes. Draws are with replacement, independent per
        judge, the budget a multiple of K. C_C is never above C_B; it is above C_A
        exactly where the table's own estimate of the generation variance (scenario:judge
        taken out) is negative.

    Raises
    ------
    DataError
        Where there are fewer than three axes, or one is empty.
    """
    x = complete_array(scores)
    k = x.shape[-1]
    item = x.mean(axis=-1)
    centre = item.mean(axis=-1, keepdims=True)
    return PoolConstants(
        all_judges=k * np.mean((item - centre) ** 2, axis=(-2, -1)),
        random_judge=np.mean((x - centre[..., None]) ** 2, axis=(-3, -2, -1)),
        cyclic=np.mean((x - x.mean(axis=-2, keepdims=True)) ** 2, axis=(-3, -2, -1)),
    )


def subsampled_means(
    scores: ArrayLike, strategy: str, budget: int, repetitions: int, rng: np.random.Generator
) -> Floats:
    """Return the means of subsamples of a complete table.

    Parameters
    ----------
    scores : (n, m, K) float array
        One backbone's: scenarios, generations, judges.
    strategy : {"all_judges", "random_judge", "cyclic"}
        A, B and C.
    budget : int
        Judge calls a scenario, a multiple of K.
    repetitions : int
    rng : numpy Generator

    Returns
    -------
    (repetitions,) float array
        Generations are drawn with replacement, by each judge independently in C, as
        appendix G has it. Time and memory go with repetitions times budget.

    Raises
    ------
    UsageError
        Where the strategy is not known or the budget is no multiple of K.
    """
    x = np.asarray(scores, dtype=float)
    n, m, k = x.shape
    if budget < 1 or budget % k:
        raise UsageError(
            f"a budget of {budget} calls is no multiple of {k} judges", "budget",
            f"Take {k}, {2 * k}, {3 * k}, ...",
        )  # fmt: skip
    if strategy == "all_judges":
        pools, draws = x.mean(axis=2), budget // k
    elif strategy == "random_judge":
        pools, draws = x.reshape(n, m * k), budget
    elif strategy == "cyclic":
        pools, draws = x.transpose(0, 2, 1).reshape(n * k, m), budget // k
    else:
        raise UsageError(f"no strategy {strategy!r}", remedy="all_judges, random_judge or cyclic")
    total = np.zeros(repetitions)
    # Small integers are drawn faster.
    kind = np.uint8 if pools.shape[1] <= 256 else np.int64
    for pool in pools:
        drawn = rng.integers(0, pool.size, size=(draws, repetitions), dtype=kind)
        total += pool[drawn].sum(axis=0)
    return np.asarray(total / (pools.shape[0] * draws))


def _left_over(calls: NDArray[np.int64], k: int) -> Floats:
    """Return r (K - r) / ((K - 1) calls^2), r = calls mod K; 0 for one judge."""
    r = calls % k
    return np.asarray(r * (k - r) / (max(k - 1, 1) * calls.astype(float) ** 2))
