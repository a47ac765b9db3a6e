"""Agreement of judges with a human: shares, differences, correlations, orders.

Every measure is a function of sums over rows, so one pass gathers the sums of each
scenario; leaving scenarios out one by one gives a standard error that knows of what the
rows of a scenario share. Intervals have as many degrees of freedom as scenarios, less one:

- shares: Clopper and Pearson's on the number of independent rows that would have the
  share's variance (Korn and Graubard 1998), so a judge that was always right is not
  called infallible;
- differences: t;
- correlation and concordance: t on the scale of Fisher's z.

Concordance is Lin's (1989): 1 - E(x - y)^2 / (var x + var y + (Ex - Ey)^2). On any codes
it is Cohen's kappa with quadratic weights, on verdicts of 0 and 1 Cohen's kappa itself.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

type Floats = NDArray[np.float64]
type Ints = NDArray[np.int64]

EQUAL, DIFFERENCE, CORRELATION, CONCORDANCE, PAIRS = MEASURES = (
    "equal",
    "difference",
    "correlation",
    "concordance",
    "pairs",
)
_SHARES, _CORRELATIONS = (0, 4), (2, 3)
_SAME = 1e-9


@dataclass(frozen=True, eq=False)
class GroupAgreement:
    """Agreement of groups of rows (judges, or judges in a language).

    Attributes
    ----------
    estimate, ci_lower, ci_upper : (n_groups, 5) float array
        Of ``MEASURES``: share of scores equal to the human's; mean of score less human;
        Pearson correlation; Lin's concordance; share of pairs of backbones of a scenario
        that the judge orders as the human does, ties half, pairs that the human ties left
        out. nan where undefined; limits also with one scenario, or a perfect correlation.
    n : (n_groups, 5) int array
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
    n_groups : int
    ci_prob : float
    """
    shape = (n_groups, len(MEASURES))
    estimate, low, high = (np.full(shape, np.nan) for _ in range(3))
    counts = np.zeros(shape, np.int64)
    n_scenarios = np.zeros(n_groups, np.int64)
    order = np.argsort(group, kind="stable")
    edges = np.searchsorted(group[order], np.arange(n_groups + 1))
    for g in range(n_groups):
        rows = order[edges[g] : edges[g + 1]]
        if not rows.size:
            continue
        sums = _sums(score[rows], human[rows], scenario[rows], backbone[rows], block[rows])
        total = sums.sum(axis=0)
        n_scenarios[g] = len(sums)
        estimate[g] = _measures(total[None])[0]
        counts[g] = [total[0]] * 4 + [total[-1]]
        if len(sums) > 1:
            low[g], high[g] = _limits(sums, total, estimate[g], ci_prob)
    return GroupAgreement(estimate, low, high, counts, n_scenarios)


def share_interval(
    share: float, variance: float, n: float, units: int, prob: float
) -> tuple[float, float]:
    """Return Korn and Graubard's interval of a share.

    Parameters
    ----------
    share, variance : float
        The share, and the square of its standard error over units.
    n : float
        Rows that it is a share of.
    units : int
        Scenarios that hold them, at least two.
    prob : float
    """
    from scipy.special import betaincinv, stdtrit

    tail = (1 - prob) / 2
    if 0 < share < 1:
        wider = 1.0 if n < 2 else float(stdtrit(n - 1, tail) / stdtrit(units - 1, tail)) ** 2
        own = share * (1 - share) / variance * wider if variance > 0 else n
        size = min(float(n), own)
    else:
        # No two rows differ: nothing says that those of a scenario are independent.
        size = float(units)
    hits = share * size
    low = 0.0 if share <= 0 else float(betaincinv(hits, size - hits + 1, tail))
    high = 1.0 if share >= 1 else float(betaincinv(hits + 1, size - hits, 1 - tail))
    return low, high


def _limits(sums: Floats, total: Floats, estimate: Floats, ci_prob: float) -> tuple[Floats, Floats]:
    """Return limits of each measure, (5,) each, from scenarios left out one by one."""
    from scipy.special import stdtrit

    low, high = np.full((2, estimate.size), np.nan)
    without = _measures(total - sums)
    t = float(stdtrit(len(sums) - 1, (1 + ci_prob) / 2))
    for m, value in enumerate(estimate):
        # Scenarios without pairs say nothing of pairs.
        counted = sums[:, -1] > 0 if m == _SHARES[1] else np.ones(len(sums), bool)
        held = without[counted, m]
        units = held.size
        if np.isnan(value) or units < 2 or np.isnan(held).any():
            continue
        if m in _CORRELATIONS:
            if abs(value) >= 1 - _SAME or (np.abs(held) >= 1 - _SAME).any():
                continue
            z, held = np.arctanh(value), np.arctanh(held)
        else:
            z = value
        variance = (units - 1) / units * float(np.sum((held - held.mean()) ** 2))
        if m in _SHARES:
            n = total[-1] if m == _SHARES[1] else total[0]
            low[m], high[m] = share_interval(float(value), variance, n, units, ci_prob)
            continue
        half = t * np.sqrt(variance)
        low[m], high[m] = z - half, z + half
        if m in _CORRELATIONS:
            low[m], high[m] = np.tanh(low[m]), np.tanh(high[m])
    return low, high


def _sums(score: Floats, human: Floats, scenario: Ints, backbone: Ints, block: Ints) -> Floats:
    """Return each scenario's sums: n, equal, difference, its square, moments, pairs won, pairs."""
    difference = score - human
    x, y = score - score.mean(), human - human.mean()
    unit, at = np.unique(scenario, return_inverse=True)
    equal = (np.abs(difference) <= _SAME * np.maximum(1.0, np.abs(human))).astype(float)
    columns = [np.ones(x.size), equal, difference, difference**2, x, y, x * x, y * y, x * y]
    out = np.zeros((unit.size, len(columns) + 2))
    for i, column in enumerate(columns):
        out[:, i] = np.bincount(at, column, unit.size)
    first, second = _pairs(block, backbone)
    truth = np.sign(human[first] - human[second])
    told = np.sign(score[first] - score[second])
    counted = truth != 0
    won = np.where(counted, (1 + told * truth) / 2, 0.0)
    out[:, -2] = np.bincount(at[first], won, unit.size)
    out[:, -1] = np.bincount(at[first], counted.astype(float), unit.size)
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
    """Return the measures of each row of sums, (n, 5)."""
    n, equal, difference, squares, x, y, xx, yy, xy, won, pairs = sums.T
    with np.errstate(invalid="ignore", divide="ignore"):
        sx, sy = xx - x * x / n, yy - y * y / n
        flat = (sx <= _SAME * np.maximum(xx, 1e-300)) | (sy <= _SAME * np.maximum(yy, 1e-300))
        correlation = np.where(flat, np.nan, (xy - x * y / n) / np.sqrt(np.abs(sx * sy)))
        mean = difference / n
        spread = np.maximum(sx, 0) + np.maximum(sy, 0) + n * mean**2
        concordance = np.where(flat, np.nan, 1 - squares / spread)
        both = np.clip([correlation, concordance], -1, 1)
        return np.array([equal / n, mean, *both, won / pairs]).T
