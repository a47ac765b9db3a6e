"""Backbones two at a time: who beats whom, by how much. Pure functions of draws."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bayesjudge.ranking import (
    Floats,
    check_draws,
    check_labelled_draws,
    check_probability,
    check_rope,
    label_column,
    midranks,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd

# Numbers held at once while pairs are compared: 32 MB of float64.
_CHUNK = 4_000_000


def pairwise_beats(draws: ArrayLike, lower_is_better: bool = False) -> Floats:
    """Return the probability that the row's backbone beats the column's.

    Parameters
    ----------
    draws : (n_draws, K) array
        Backbone means on the user's scale.
    lower_is_better : bool
        The lower mean beats the higher.

    Returns
    -------
    (K, K) array
        Ties count half, so opposite entries sum to 1; the diagonal is null (nan).

    Raises
    ------
    ModelError
        Where the draws are not a finite table with a draw and a backbone.
    """
    values = check_draws(draws)
    n_draws, k = values.shape
    # Twice the number of draws won, ties once: integers, so the halves are exact.
    score = np.zeros((k, k), dtype=np.int64)
    step = max(_CHUNK // k, 1)
    for start in range(0, n_draws, step):
        block = np.ascontiguousarray(values[start : start + step].T)
        for row in range(k - 1):
            rest = block[row + 1 :]
            won = np.count_nonzero(block[row] > rest, axis=1)
            not_lost = np.count_nonzero(block[row] >= rest, axis=1)
            score[row, row + 1 :] += won + not_lost
    lower = np.tril_indices(k, -1)
    score[lower] = 2 * n_draws - score.T[lower]
    beats = score / (2 * n_draws)
    if lower_is_better:
        beats = beats.T.copy()
    np.fill_diagonal(beats, np.nan)
    return np.asarray(beats, dtype=float)


def ranked_order(
    draws: ArrayLike, labels: Sequence[str], lower_is_better: bool = False
) -> NDArray[np.int64]:
    """Return the columns by expected rank, ties by label: the leaderboard's order.

    Parameters
    ----------
    draws : (n_draws, K) array
        Backbone means on the user's scale.
    labels : sequence of K str
        Names of the backbones.
    lower_is_better : bool
        Rank 1 is the lowest mean.

    Returns
    -------
    (K,) int array
        Neighbours in it are the leaderboard's neighbours.
    """
    expected = midranks(draws, lower_is_better).mean(axis=0)
    order = sorted(range(len(labels)), key=lambda b: (expected[b], labels[b]))
    return np.array(order, dtype=np.int64)


def adjacent_pairs(
    draws: ArrayLike, labels: Sequence[str], lower_is_better: bool = False
) -> NDArray[np.int64]:
    """Return the leaderboard's neighbours, the better-ranked first.

    Parameters
    ----------
    draws : (n_draws, K) array
        Backbone means on the user's scale.
    labels : sequence of K str
        Names of the backbones.
    lower_is_better : bool
        Rank 1 is the lowest mean.

    Returns
    -------
    (K - 1, 2) int array
        Columns of the draws.
    """
    order = ranked_order(draws, labels, lower_is_better)
    return np.column_stack([order[:-1], order[1:]])


def difference_sd(draws: ArrayLike, pairs: ArrayLike) -> Floats:
    """Return the posterior sd of paired differences.

    Parameters
    ----------
    draws : (n_draws, K) array, n_draws at least 2
        Backbone means on the user's scale.
    pairs : (P, 2) int array
        Columns of the draws.

    Returns
    -------
    (P,) array
        On the user's scale; what `closed_form.paired.se_ratio_findings` compares.

    Raises
    ------
    ModelError
        Where the draws are not a finite table with a draw and a backbone.
    """
    values = check_draws(draws)
    pair = np.asarray(pairs, dtype=np.int64).reshape(-1, 2)
    return np.array([np.std(values[:, a] - values[:, b], ddof=1) for a, b in pair], dtype=float)


def pairwise_differences(
    draws: ArrayLike,
    labels: Sequence[str],
    *,
    ci_prob: float = 0.95,
    rope: float | None = None,
    lower_is_better: bool = False,
) -> pd.DataFrame:
    """Return the posterior of every paired difference, ``backbone`` minus ``other``.

    Parameters
    ----------
    draws : (n_draws, K) array, n_draws at least 2
        Backbone means on the user's scale.
    labels : sequence of K str
        Names of the backbones.
    ci_prob : float
        Probability of the equal-tailed intervals, in (0, 1).
    rope : float or None
        Half-width of the region of practical equivalence, on the user's scale.
    lower_is_better : bool
        The lower mean beats the higher; the sign of differences stays as it is.

    Returns
    -------
    pandas.DataFrame
        ``backbone, other, difference, sd, ci_lower, ci_upper, p_beats,
        p_within_rope``: every pair once, the better-ranked backbone first, in the
        order of the leaderboard. ``p_beats`` counts ties half; ``p_within_rope``
        is P(abs(difference) < rope), null without a `rope`.

    Raises
    ------
    ModelError
        Where the draws are not finite, fewer than two, or do not fit the labels.
    UsageError
        Where `ci_prob` is not in (0, 1), `rope` negative or a label repeated.
    """
    import pandas as pd

    check_probability(ci_prob, "ci_prob")
    if rope is not None:
        check_rope(rope)
    values = check_labelled_draws(draws, labels)
    n_draws, k = values.shape
    order = ranked_order(values, labels, lower_is_better)
    first, second = (order[side] for side in np.triu_indices(k, 1))
    columns = np.ascontiguousarray(values.T)
    tails = [(1 - ci_prob) / 2, (1 + ci_prob) / 2]
    mean, sd, low, high, within = (np.full(first.size, np.nan) for _ in range(5))
    step = max(_CHUNK // n_draws, 1)
    for start in range(0, first.size, step):
        here = slice(start, start + step)
        difference = columns[first[here]] - columns[second[here]]
        mean[here] = difference.mean(axis=1)
        sd[here] = difference.std(axis=1, ddof=1)
        if rope is not None:
            within[here] = np.mean(np.abs(difference) < rope, axis=1)
        low[here], high[here] = np.quantile(difference, tails, axis=1, overwrite_input=True)
    return pd.DataFrame(
        {
            "backbone": label_column(labels, first),
            "other": label_column(labels, second),
            "difference": mean,
            "sd": sd,
            "ci_lower": low,
            "ci_upper": high,
            "p_beats": pairwise_beats(values, lower_is_better)[first, second],
            "p_within_rope": within,
        }
    )
