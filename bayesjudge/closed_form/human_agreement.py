"""Agreement of each judge with a human: shares, differences, orders; intervals over scenarios.

Every measure is a ratio or a correlation of sums over rows, so one pass gathers the sums of
each scenario and a bootstrap draws whole scenarios.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

type Floats = NDArray[np.float64]
type Ints = NDArray[np.int64]

EQUAL, DIFFERENCE, CORRELATION, PAIRS = "equal", "difference", "correlation", "pairs"
MEASURES = (EQUAL, DIFFERENCE, CORRELATION, PAIRS)
_SAME = 1e-9
_CHUNK = 4_000_000


@dataclass(frozen=True, eq=False)
class GroupAgreement:
    """Agreement of groups of rows (judges, or judges in a language).

    Attributes
    ----------
    estimate, ci_lower, ci_upper : (n_groups, 4) float array
        Of ``MEASURES``: share of scores equal to the human's; mean of score less human;
        Pearson correlation; share of pairs of backbones of a scenario that the judge
        orders as the human does, ties half, pairs that the human ties left out. nan where
        undefined.
    n : (n_groups, 4) int array
        Scores compared; for pairs, pairs.
    n_scenarios : (n_groups,) int array
    """

    estimate: Floats
    ci_lower: Floats
    ci_upper: Floats
    n: Ints
    n_scenarios: Ints


def group_agreement(
    score: Floats,
    human: Floats,
    group: Ints,
    scenario: Ints,
    backbone: Ints,
    block: Ints,
    n_groups: int,
    n_resamples: int,
    rng: np.random.Generator,
    ci_prob: float = 0.95,
) -> GroupAgreement:
    """Compare scores with human scores in each group.

    Parameters
    ----------
    score, human : (N,) float array
        Labelled rows only.
    group, scenario, backbone : (N,) int array
    block : (N,) int array
        Rows of one group and block are answers of backbones to the same question (and
        language): those are paired.
    n_groups, n_resamples : int
    rng : numpy.random.Generator
    ci_prob : float
        Percentile bootstrap; nan with fewer than two scenarios.
    """
    shape = (n_groups, len(MEASURES))
    estimate, low, high = (np.full(shape, np.nan) for _ in range(3))
    counts = np.zeros(shape, np.int64)
    n_scenarios = np.zeros(n_groups, np.int64)
    for g in range(n_groups):
        rows = group == g
        if not rows.any():
            continue
        sums = _sums(score[rows], human[rows], scenario[rows], backbone[rows], block[rows])
        n_scenarios[g] = len(sums)
        total = sums.sum(axis=0, keepdims=True)
        estimate[g] = _measures(total)[0]
        counts[g] = [total[0, 0], total[0, 0], total[0, 0], total[0, -1]]
        if len(sums) < 2:
            continue
        drawn = _resampled(sums, n_resamples, rng)
        tail = (1 - ci_prob) / 2
        for m in range(shape[1]):
            values = drawn[:, m][~np.isnan(drawn[:, m])]
            if values.size > 1 and not np.isnan(estimate[g, m]):
                low[g, m], high[g, m] = np.quantile(values, [tail, 1 - tail])
    return GroupAgreement(estimate, low, high, counts, n_scenarios)


def _sums(score: Floats, human: Floats, scenario: Ints, backbone: Ints, block: Ints) -> Floats:
    """Return each scenario's sums: n, equal, moments about the mean, pairs won, pairs."""
    x, y = score - score.mean(), human - human.mean()
    unit, at = np.unique(scenario, return_inverse=True)
    equal = np.abs(score - human) <= _SAME * np.maximum(1.0, np.abs(human))
    columns = [np.ones(x.size), equal, score - human, x, y, x * x, y * y, x * y]
    out = np.zeros((unit.size, len(columns) + 2))
    for i, column in enumerate(columns):
        out[:, i] = np.bincount(at, column, unit.size)
    first, second = _pairs(block, backbone)
    truth = np.sign(human[first] - human[second])
    told = np.sign(score[first] - score[second])
    counted = truth != 0
    won = np.where(counted, (1 + told * truth) / 2, 0.0)
    out[:, -2] = np.bincount(at[first], won, unit.size)
    out[:, -1] = np.bincount(at[first], counted, unit.size)
    return out


def _pairs(block: Ints, backbone: Ints) -> tuple[Ints, Ints]:
    """Return the rows of every pair of different backbones in a block."""
    order = np.argsort(block, kind="stable")
    sizes = np.unique(block[order], return_counts=True)[1]
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    first, second = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for size in np.unique(sizes):
        if size > 1:
            a, b = np.triu_indices(size, 1)
            begin = starts[sizes == size][:, None]
            first.append(order[(begin + a).ravel()])
            second.append(order[(begin + b).ravel()])
    i, j = np.concatenate(first), np.concatenate(second)
    differ = backbone[i] != backbone[j]
    return i[differ], j[differ]


def _measures(sums: Floats) -> Floats:
    """Return the measures of each row of sums, (n, 4)."""
    n, equal, difference, x, y, xx, yy, xy, won, pairs = sums.T
    with np.errstate(invalid="ignore", divide="ignore"):
        sx, sy = xx - x * x / n, yy - y * y / n
        flat = (sx <= _SAME * np.maximum(xx, 1e-300)) | (sy <= _SAME * np.maximum(yy, 1e-300))
        correlation = np.where(flat, np.nan, (xy - x * y / n) / np.sqrt(np.abs(sx * sy)))
        return np.array([equal / n, difference / n, np.clip(correlation, -1, 1), won / pairs]).T


def _resampled(sums: Floats, n_resamples: int, rng: np.random.Generator) -> Floats:
    n = len(sums)
    step = max(1, _CHUNK // n)
    parts = []
    for start in range(0, n_resamples, step):
        size = min(step, n_resamples - start)
        parts.append(_measures(rng.multinomial(n, np.full(n, 1 / n), size) @ sums))
    return np.concatenate(parts)
