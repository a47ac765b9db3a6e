"""Whether two columns change their order from one row to another (STATISTICS section 8).

H0 of a pair: its differences are all >= 0, or all <= 0. Two tests of it: t-tests row by
row, nothing adjusted for, as in the CBC paper; and the larger of two one-sided
max-studentized p values over all rows, resampling whole tasks, Holm over pairs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bayesjudge.closed_form.multiplicity import holm
from bayesjudge.errors import DataError

type Floats = NDArray[np.float64]
type Ints = NDArray[np.int64]

# Numbers of resampled statistics held at once.
_CHUNK = 2_000_000
_ROUNDING = 1e-12


@dataclass(frozen=True, eq=False)
class Reversals:
    """Tests of every pair of columns.

    Attributes
    ----------
    pairs : (P, 2) int array
        Columns, first minus second.
    difference : (m, P) float array
        Mean over the tasks that have both, by row; null where there are none.
    p_t : (P,) float array
        Largest of the smallest one-sided t-test p upward and downward over rows:
        below alpha / 2 where two-sided tests at alpha find both directions. Not
        adjusted for rows or pairs.
    p_bootstrap : (P,) float array
        Max-studentized over rows, whole tasks resampled; null where no row has two
        tasks with both.
    p_holm : (P,) float array
        The same, adjusted over pairs.
    n_resamples : int
    """

    pairs: Ints
    difference: Floats
    p_t: Floats
    p_bootstrap: Floats
    p_holm: Floats
    n_resamples: int


def rank_reversals(tasks: Floats, n_resamples: int, rng: np.random.Generator) -> Reversals:
    """Test every pair of columns for a reversal between rows.

    Parameters
    ----------
    tasks : (n, m, k) float array
        Mean score of each task in each cell; nan where there is none.
    n_resamples : int
        Bootstrap samples of n tasks; p values are no smaller than 1 / (n_resamples + 1).
    rng : numpy.random.Generator

    Returns
    -------
    Reversals

    Raises
    ------
    DataError
        Where there are fewer than two tasks.
    """
    n, m, k = tasks.shape
    if n < 2:
        raise DataError("a reversal needs two tasks or more")
    pairs = np.column_stack(np.triu_indices(k, 1)).astype(np.int64)
    d = (tasks[:, :, pairs[:, 0]] - tasks[:, :, pairs[:, 1]]).reshape(n, -1)
    seen = ~np.isnan(d)
    # Averaging equal scores leaves roundings that are no differences.
    rounding = _ROUNDING * np.max(np.abs(tasks), where=~np.isnan(tasks), initial=0.0)
    d = np.where(seen & (np.abs(d) > rounding), d, 0.0)
    # Centred and scaled by what they are, sums of squares lose no digits.
    centre = d.sum(axis=0) / np.maximum(seen.sum(axis=0), 1)
    d = np.where(seen, d - centre, 0.0)
    size = np.sqrt(np.mean(d**2, axis=0))
    size = np.where(size > rounding, size, 0.0)
    d = np.where(size > 0, d, 0.0)
    d = d / np.where(size > 0, size, 1.0)
    scaled = centre / np.where(size > 0, size, 1.0)
    _, se, count = _moments(np.ones((1, n)), d, seen)
    usable = (count[0] > 1).reshape(m, -1)
    statistic = np.where(count[0] > 1, _ratio(scaled, se[0]), np.nan).reshape(m, -1)
    exceed_up, exceed_down = np.zeros(len(pairs)), np.zeros(len(pairs))
    top, bottom = _largest(statistic, usable), _largest(-statistic, usable)
    step = max(1, _CHUNK // d.shape[1])
    for start in range(0, n_resamples, step):
        times = rng.multinomial(n, np.full(n, 1 / n), min(step, n_resamples - start))
        shift, spread, _ = _moments(times.astype(float), d, seen)
        noise = _ratio(shift, spread).reshape(-1, m, len(pairs))
        exceed_up += np.sum(_largest(noise, usable) >= top, axis=0)
        exceed_down += np.sum(_largest(-noise, usable) >= bottom, axis=0)
    p = (1 + np.maximum(exceed_up, exceed_down)) / (n_resamples + 1)
    p = np.where(usable.any(axis=0), p, np.nan)
    difference = np.where(seen.any(axis=0), centre, np.nan).reshape(m, -1)
    p_t = _t_tests(statistic, count[0].reshape(m, -1) - 1)
    return Reversals(pairs, difference, p_t, p, holm(p), n_resamples)


def posterior_reversals(draws: Floats, rope: float) -> Floats:
    """Return P(max over rows of D > rope and min < -rope) of every pair, (P,).

    Parameters
    ----------
    draws : (S, m, k) float array
        Cell means; pairs as in :func:`rank_reversals`.
    rope : float
        At 0 the probability is positive by construction.
    """
    first, second = np.triu_indices(draws.shape[2], 1)
    found = []
    for a, b in zip(first, second, strict=True):
        d = draws[:, :, a] - draws[:, :, b]
        found.append(np.mean((d.max(axis=1) > rope) & (d.min(axis=1) < -rope)))
    return np.array(found, dtype=float)


def _moments(times: Floats, d: Floats, seen: NDArray[np.bool_]) -> tuple[Floats, Floats, Floats]:
    """Return means, standard errors and counts of resampled differences, each (B, m P)."""
    count = times @ seen
    some, more = np.maximum(count, 1.0), np.maximum(count - 1, 1.0)
    mean = times @ d / some
    square = np.maximum(times @ d**2 / some - mean**2, 0.0)
    # What rounding leaves of a spread of zero is none.
    square = np.where(square > 1e-12, square, 0.0)
    return mean, np.sqrt(square / more), count


def _ratio(value: Floats, spread: Floats) -> Floats:
    """Return value / spread: 0 of nothing over nothing, else infinite over nothing."""
    with np.errstate(divide="ignore", invalid="ignore"):
        found = value / spread
    return np.where((spread == 0) & (value == 0), 0.0, found)


def _largest(statistic: Floats, usable: NDArray[np.bool_]) -> Floats:
    return np.asarray(np.where(usable, statistic, -np.inf).max(axis=-2))


def _t_tests(statistic: Floats, df: Floats) -> Floats:
    from scipy.special import stdtr

    with np.errstate(invalid="ignore"):
        up = stdtr(np.maximum(df, 1), -statistic)
        down = stdtr(np.maximum(df, 1), statistic)
    up, down = (np.where(np.isnan(p), 1.0, p).min(axis=0) for p in (up, down))
    return np.where(np.isnan(statistic).all(axis=0), np.nan, np.maximum(up, down))
