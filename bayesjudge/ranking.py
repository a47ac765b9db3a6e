"""Who ranks where, and how sure that is: pure functions of posterior draws.

Draws are ``(n_draws, K)`` arrays of backbone means on the user's scale, one
column a backbone. Rank 1 is best: the highest mean, or the lowest where
``lower_is_better``. Definitions are those of STATISTICS §3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bayesjudge.errors import ModelError, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd

type Floats = NDArray[np.float64]
type Ints = NDArray[np.int64]

# A count of draws such as 0.025 x 8000 must not be pushed over the next integer
# by the last bit of a float; no real count is that close to an integer by chance.
_COUNT_SLACK = 1e-9

# Columns up to which every two are compared to rank them.
_FEW = 12


def midranks(draws: ArrayLike, lower_is_better: bool = False) -> Floats:
    """Rank the backbones within every draw; tied backbones share their midrank.

    Parameters
    ----------
    draws : (n_draws, K) array
        Backbone means on the user's scale.
    lower_is_better : bool
        Rank 1 is the lowest mean.

    Returns
    -------
    (n_draws, K) array
        Ranks from 1 (best) to K, in steps of a half.

    Raises
    ------
    ModelError
        Where the draws are not a finite table with a draw and a backbone.
    """
    first, after = _tied_ranks(_oriented(draws, lower_is_better))
    return np.asarray((first + after + 1) / 2, dtype=float)


def _tied_ranks(values: Floats) -> tuple[Ints, Ints]:
    """Return how many of a row are smaller, and how many not larger, (n, K) each.

    As ``scipy.stats.rankdata`` by rows; importing scipy.stats takes half a second.
    """
    if values.shape[1] <= _FEW:
        return _ranks_of_few(values)
    order = np.argsort(values, axis=1, kind="stable")
    ascending = np.take_along_axis(values, order, axis=1)
    place = np.arange(values.shape[1])
    edge = np.ones((len(values), 1), bool)
    differs = ascending[:, 1:] != ascending[:, :-1]
    starts = np.where(np.hstack([edge, differs]), place, 0)
    stops = np.where(np.hstack([differs, edge]), place + 1, values.shape[1])
    first, after = np.empty_like(order), np.empty_like(order)
    np.put_along_axis(first, order, np.maximum.accumulate(starts, axis=1), axis=1)
    ends = np.minimum.accumulate(stops[:, ::-1], axis=1)[:, ::-1]
    np.put_along_axis(after, order, ends, axis=1)
    return first, after


def _ranks_of_few(values: Floats) -> tuple[Ints, Ints]:
    """Compare every two columns: of few that takes less than sorting every row."""
    columns = np.ascontiguousarray(values.T)
    first, after = np.zeros(columns.shape, np.int64), np.ones(columns.shape, np.int64)
    for i in range(1, len(columns)):
        over, under = columns[:i] < columns[i], columns[:i] > columns[i]
        first[i] += over.sum(axis=0)
        after[i] += (~under).sum(axis=0)
        first[:i] += under
        after[:i] += ~over
    return first.T, after.T


def rank_probabilities(draws: ArrayLike, lower_is_better: bool = False) -> Floats:
    """Return the probability of every backbone to have every rank.

    Parameters
    ----------
    draws : (n_draws, K) array
        Backbone means on the user's scale.
    lower_is_better : bool
        Rank 1 is the lowest mean.

    Returns
    -------
    (K, K) array
        Row: backbone, column: rank from 1 to K. A tied group is split equally
        over the ranks that it occupies, so rows and columns sum to 1. Column 0
        is the probability of being best.

    Raises
    ------
    ModelError
        As `midranks`.
    """
    oriented = _oriented(draws, lower_is_better)
    n_draws, k = oriented.shape
    first, after = _tied_ranks(oriented)
    size = after - first
    row = np.broadcast_to(np.arange(k) * (k + 1), size.shape)
    total = np.zeros((k, k))
    for tied in np.unique(size):
        here = size == tied
        starts = np.bincount((row + first)[here], minlength=k * (k + 1))
        stops = np.bincount((row + after)[here], minlength=k * (k + 1))
        # Integer counts until the division: a rank never held gets exactly 0.
        held = np.cumsum((starts - stops).reshape(k, k + 1), axis=1)[:, :k]
        total += held / tied
    return np.asarray(total / n_draws, dtype=float)


def rank_intervals(
    draws: ArrayLike, ci_prob: float = 0.95, lower_is_better: bool = False
) -> tuple[Floats, Floats]:
    """Return equal-tailed credible intervals of each backbone's rank, one at a time.

    Parameters
    ----------
    draws : (n_draws, K) array
        Backbone means on the user's scale.
    ci_prob : float
        Probability of each interval, in (0, 1).
    lower_is_better : bool
        Rank 1 is the lowest mean.

    Returns
    -------
    lower, upper : (K,) arrays
        Inverted-CDF quantiles of the midranks: values that occurred.

    Raises
    ------
    ModelError
        As `midranks`.
    UsageError
        Where `ci_prob` is not in (0, 1).
    """
    check_probability(ci_prob, "ci_prob")
    return _intervals(np.sort(midranks(draws, lower_is_better), axis=0), ci_prob)


def _intervals(ordered: Floats, ci_prob: float) -> tuple[Floats, Floats]:
    tail = len(ordered) * (1 - ci_prob) / 2
    return ordered[_position(tail) - 1], ordered[_position(len(ordered) - tail) - 1]


def simultaneous_rank_intervals(
    draws: ArrayLike, ci_prob: float = 0.95, lower_is_better: bool = False
) -> tuple[Floats, Floats]:
    """Return rank intervals that hold for all backbones at once.

    Simultaneous credible ranks (STATISTICS §3): with [q(a/2), q(1 - a/2)] the
    inverted-CDF interval of a backbone's midrank, the largest a at which all K
    intervals hold jointly in at least `ci_prob` of the draws. Exact on the draws.

    Parameters
    ----------
    draws : (n_draws, K) array
        Backbone means on the user's scale.
    ci_prob : float
        Joint probability of the K intervals, in (0, 1).
    lower_is_better : bool
        Rank 1 is the lowest mean.

    Returns
    -------
    lower, upper : (K,) arrays
        Midranks.

    Raises
    ------
    ModelError
        As `midranks`.
    UsageError
        Where `ci_prob` is not in (0, 1).

    Notes
    -----
    As t = n a/2 grows, the interval runs from order statistic ceil(t) to
    n - floor(t) and changes only where t reaches or leaves an integer. Number
    these steps by m (2t at an integer, 2 floor(t) + 1 between). A midrank with
    `below` draws under it and `upto` draws not over it lies inside the interval
    up to step min(2 upto, 2 (n - below) - 1), so a draw is covered jointly up to
    its minimum over the backbones, and the answer is an order statistic of those.

    Because midranks are discrete, such an interval can be shorter than the
    marginal one at the same probability (two backbones, P(first) = 0.96).
    """
    check_probability(ci_prob, "ci_prob")
    ranks = midranks(draws, lower_is_better)
    return _simultaneous(ranks, np.sort(ranks, axis=0), ci_prob)


def _simultaneous(ranks: Floats, ordered: Floats, ci_prob: float) -> tuple[Floats, Floats]:
    n_draws, k = ranks.shape
    doubled = np.rint(2 * ranks).astype(np.int64)
    width = 2 * k + 1
    flat = doubled + np.arange(k) * width
    counts = np.bincount(flat.ravel(), minlength=k * width).reshape(k, width)
    upto = np.cumsum(counts, axis=1)
    below = upto - counts
    last_step = np.minimum(2 * upto, 2 * (n_draws - below) - 1).ravel()[flat].min(axis=1)
    needed = _position(n_draws * ci_prob)
    step = min(int(np.sort(last_step)[n_draws - needed]), n_draws)
    return ordered[max(-(-step // 2), 1) - 1], ordered[n_draws - step // 2 - 1]


def sucra(rank: ArrayLike, n_backbones: int) -> Floats:
    """Return the surface under the cumulative ranking curve, (K - rank) / (K - 1).

    Parameters
    ----------
    rank : (K,) array
        Expected ranks for SUCRA itself; upper ranks for its lower limit, lower
        ranks for its upper limit.
    n_backbones : int
        K.

    Returns
    -------
    (K,) array
        1 for surely best, 0 for surely last; null (nan) at K = 1.
    """
    ranks = np.asarray(rank, dtype=float)
    if n_backbones == 1:
        return np.full_like(ranks, np.nan)
    return np.asarray((n_backbones - ranks) / (n_backbones - 1), dtype=float)


def tiers(
    draws: ArrayLike, rope: float = 0.0, level: float = 0.95, lower_is_better: bool = False
) -> NDArray[np.int64]:
    """Sort the backbones into tiers that their leaders do not clearly beat.

    The untiered backbone with the best posterior mean leads; its tier is every
    untiered backbone b with P(leader better than b by more than `rope`) < `level`;
    repeat (STATISTICS §3). Not transitive, and not a set that holds the best:
    that is `best_set`.

    Parameters
    ----------
    draws : (n_draws, K) array
        Backbone means on the user's scale.
    rope : float
        Half-width of the region of practical equivalence, on the user's scale.
    level : float
        Probability from which a lead counts, in (0, 1).
    lower_is_better : bool
        The leader has the lowest mean.

    Returns
    -------
    (K,) int array
        Tiers from 1. Equal posterior means: the earlier column leads.

    Raises
    ------
    ModelError
        As `midranks`.
    UsageError
        Where `rope` is negative or not finite, or `level` is not in (0, 1).
    """
    check_rope(rope)
    check_probability(level, "level")
    badness = _oriented(draws, lower_is_better)
    mean = badness.mean(axis=0)
    tier = np.zeros(badness.shape[1], dtype=np.int64)
    for number in range(1, tier.size + 1):
        untiered = np.flatnonzero(tier == 0)
        if untiered.size == 0:
            break
        leader = untiered[np.argmin(mean[untiered])]
        lead = np.mean(badness[:, untiered] - badness[:, [leader]] > rope, axis=0)
        tier[untiered[lead < level]] = number
    return tier


def best_set(p_best: ArrayLike, labels: Sequence[str], level: float = 0.95) -> tuple[str, ...]:
    """Return the smallest set of backbones that holds the best one.

    Parameters
    ----------
    p_best : (K,) array
        Probability of being best; sums to 1.
    labels : sequence of K str
        Names of the backbones.
    level : float
        Probability that the set must reach, in (0, 1).

    Returns
    -------
    tuple of str
        By falling probability, ties by label.

    Raises
    ------
    ModelError
        Where the probabilities are not finite or do not fit the labels.
    UsageError
        Where `level` is not in (0, 1).
    """
    check_probability(level, "level")
    p = np.asarray(p_best, dtype=float)
    if p.shape != (len(labels),) or not np.isfinite(p).all():
        raise ModelError(f"P(best) must be {len(labels)} finite numbers, one a backbone")
    order = sorted(range(len(labels)), key=lambda b: (-p[b], labels[b]))
    reached = np.cumsum(p[order]) >= level - _COUNT_SLACK
    size = int(np.argmax(reached)) + 1 if reached.any() else len(order)
    return tuple(labels[b] for b in order[:size])


def leaderboard(
    draws: ArrayLike,
    labels: Sequence[str],
    *,
    ci_prob: float = 0.95,
    rope: float = 0.0,
    lower_is_better: bool = False,
) -> pd.DataFrame:
    """Return the leaderboard of DESIGN §7.

    Parameters
    ----------
    draws : (n_draws, K) array, n_draws at least 2
        Backbone means on the user's scale.
    labels : sequence of K str
        Names of the backbones.
    ci_prob : float
        Probability of the equal-tailed intervals, in (0, 1).
    rope : float
        Half-width of the region of practical equivalence used for tiers.
    lower_is_better : bool
        Rank 1 is the lowest mean.

    Returns
    -------
    pandas.DataFrame
        A row a backbone, by expected rank, ties by label. ``mean``, ``sd`` and
        the interval are on the user's scale; ``sucra*`` are null at K = 1.

    Raises
    ------
    ModelError
        Where the draws are not finite, fewer than two, or do not fit the labels.
    UsageError
        Where `ci_prob` is not in (0, 1), `rope` negative or a label repeated.
    """
    import pandas as pd

    check_probability(ci_prob, "ci_prob")
    check_rope(rope)
    values = check_labelled_draws(draws, labels)
    # By label first, so that no tie is settled by the order of the columns.
    by_label = np.array(sorted(range(len(labels)), key=lambda b: labels[b]))
    values = values[:, by_label]
    k = values.shape[1]
    ranks = midranks(values, lower_is_better)
    ordered, expected = np.sort(ranks, axis=0), ranks.mean(axis=0)
    low, high = _intervals(ordered, ci_prob)
    low_sim, high_sim = _simultaneous(ranks, ordered, ci_prob)
    ci_lower, ci_upper = np.quantile(values, [(1 - ci_prob) / 2, (1 + ci_prob) / 2], axis=0)
    columns = {
        "mean": values.mean(axis=0),
        "sd": values.std(axis=0, ddof=1),
        "ci_lower": ci_lower,
        "ci_upper": ci_upper,
        "expected_rank": expected,
        "rank_lower": low,
        "rank_upper": high,
        "rank_lower_sim": low_sim,
        "rank_upper_sim": high_sim,
        "p_best": rank_probabilities(values, lower_is_better)[:, 0],
        "sucra": sucra(expected, k),
        "sucra_lower": sucra(high, k),
        "sucra_upper": sucra(low, k),
        "tier": tiers(values, rope=rope, lower_is_better=lower_is_better),
    }
    order = np.argsort(expected, kind="stable")
    return pd.DataFrame(
        {
            "backbone": label_column(labels, by_label[order]),
            **{name: column[order] for name, column in columns.items()},
        }
    )


def check_draws(draws: ArrayLike) -> Floats:
    """Return the draws as a finite ``(n_draws, K)`` float array.

    Raises
    ------
    ModelError
        Where they are none.
    """
    values = np.asarray(draws, dtype=float)
    if values.ndim != 2 or 0 in values.shape:
        raise ModelError(
            f"draws must be a table of draws by backbones, not of shape {values.shape}"
        )
    bad = int(np.count_nonzero(~np.isfinite(values)))
    if bad:
        raise ModelError(
            f"{bad} of {values.size} draws of the backbone means are not finite",
            remedy="The fit failed; look at its diagnostics",
        )
    return values


def check_labelled_draws(draws: ArrayLike, labels: Sequence[str]) -> Floats:
    """Return at least two finite draws that have one column a label.

    Raises
    ------
    ModelError
        Where the draws are not finite, fewer than two, or do not fit the labels.
    UsageError
        Where a label is repeated.
    """
    values = check_draws(draws)
    if values.shape[1] != len(labels):
        raise ModelError(f"draws of {values.shape[1]} backbones for {len(labels)} labels")
    if values.shape[0] < 2:
        raise ModelError("one draw has no standard deviation", remedy="Ask for more draws")
    if len(set(labels)) != len(labels):
        raise UsageError("two backbones have the same label")
    return values


def label_column(labels: Sequence[str], codes: NDArray[np.int64]) -> pd.Series[str]:
    """Return the labels of codes as a column for a frame.

    Objects, because pandas 3 otherwise turns text into Arrow strings, which
    cannot hold every label (a lone surrogate) and differ from pandas 2.
    """
    import pandas as pd

    return pd.Series([labels[b] for b in codes], dtype=object)


def check_probability(value: float, name: str) -> None:
    """Raise a UsageError unless `value` is strictly between 0 and 1."""
    if not 0 < value < 1:
        raise UsageError(f"{name} must be between 0 and 1, both excluded, not {value}")


def check_rope(rope: float) -> None:
    """Raise a UsageError unless `rope` is a finite number of at least 0."""
    if not 0 <= rope < np.inf:
        raise UsageError(f"rope must be a finite number of at least 0, not {rope}")


def _oriented(draws: ArrayLike, lower_is_better: bool) -> Floats:
    """Return the checked draws with the sign that makes lower better."""
    values = check_draws(draws)
    return values if lower_is_better else -values


def _position(count: float) -> int:
    """Return the 1-based order statistic at which the empirical CDF reaches `count` draws."""
    return max(int(np.ceil(count - _COUNT_SLACK)), 1)
