"""How good and how consistent verdicts are: pure functions of arrays.

Verdicts are 1 (the answer is called correct), 0, or nan where there is none. A missing
verdict is not a right one, and never a vote. Standard errors are clustered: rows of one
item, in several languages, are one observation.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

type Floats = NDArray[np.float64]
type Ints = NDArray[np.int64]
type Bools = NDArray[np.bool_]

EDGES = (0.0, 0.25, 0.5, 0.75, 1.0)
"""Buckets of agreement: (0.75, 1], (0.5, 0.75], ... as in SEMJ's table 3; the lowest holds 0."""


@dataclass(frozen=True)
class Share:
    """A share of right verdicts, or the difference of two.

    Attributes
    ----------
    value, se : float
        ``se`` is nan where there are fewer than two items.
    n, n_missing : int
        Verdicts, and how many of them are missing; those count as not right.
    of_valid : float
        The share among valid verdicts; nan where there are none, or of a difference.
    """

    value: float
    se: float
    n: int
    n_missing: int
    of_valid: float


@dataclass(frozen=True)
class Kappa:
    """Fleiss's kappa, or the difference of two.

    Attributes
    ----------
    value : float
        nan where it is not defined; ``reason`` says why.
    se : float
        Jackknife over items.
    n_items, n_left_out : int
        Items used, and items with fewer than two valid verdicts.
    reason : str
    """

    value: float
    se: float
    n_items: int
    n_left_out: int
    reason: str = ""


@dataclass(frozen=True)
class Curve:
    """What K further verdicts could give, and what their majority does give, K = 0, 1, ...

    Attributes
    ----------
    oracle, oracle_se : (L,) float array
        Share of rows in which the first verdict or one of K others is right.
    vote, vote_se : (L,) float array
        Share of rows in which the majority of these K + 1 is right.
    """

    oracle: Floats
    oracle_se: Floats
    vote: Floats
    vote_se: Floats


@dataclass(frozen=True)
class Bucket:
    """What reconsidering did to verdicts of one range of agreement.

    Attributes
    ----------
    above, up_to : float
        The range: above the one, up to and including the other; the lowest holds its lower
        end too.
    n : int
        Verdicts valid before and after.
    flip_rate, repair_rate, spoil_rate : float
        Shares of these that changed, from wrong to right, and from right to wrong; the last
        two add up to the first. nan where n is 0.
    repaired_of_wrong : float
        Share of the wrong ones that became right.
    n_missing : int
        Verdicts missing before or after.
    """

    above: float
    up_to: float
    n: int
    flip_rate: float
    repair_rate: float
    spoil_rate: float
    repaired_of_wrong: float
    n_missing: int


def accuracy(verdicts: Floats, truth: Bools, item: Ints | None = None) -> Share:
    """Return the share of right verdicts.

    Parameters
    ----------
    verdicts : (N,) float array
        1, 0 or nan.
    truth : (N,) bool array
    item : (N,) int array, optional
        Codes of the items that rows are about; by default each row is one.
    """
    right = _right(verdicts, truth)
    value, se = clustered_mean(right, item)
    valid = ~np.isnan(verdicts)
    of_valid = float(right[valid].mean()) if valid.any() else math.nan
    return Share(value, se, right.size, int((~valid).sum()), of_valid)


def accuracy_gain(
    verdicts: Floats, baseline: Floats, truth: Bools, item: Ints | None = None
) -> Share:
    """Return by how much verdicts are right more often than a baseline's on the same rows.

    ``n_missing`` counts rows in which either is missing.
    """
    difference = _right(verdicts, truth) - _right(baseline, truth)
    value, se = clustered_mean(difference, item)
    missing = int((np.isnan(verdicts) | np.isnan(baseline)).sum())
    return Share(value, se, difference.size, missing, math.nan)


def clustered_mean(values: Floats, item: Ints | None = None) -> tuple[float, float]:
    """Return a mean over rows, and its standard error over items.

    Parameters
    ----------
    values : (N,) float array
    item : (N,) int array, optional

    Returns
    -------
    float, float
        The error is nan where there are fewer than two items; nan and nan of no rows.
    """
    if values.size == 0:
        return math.nan, math.nan
    mean = float(values.mean())
    codes = np.arange(values.size) if item is None else np.unique(item, return_inverse=True)[1]
    n = int(codes.max()) + 1
    if n < 2:
        return mean, math.nan
    sums = np.bincount(codes, values - mean, n)
    return mean, float(np.sqrt(n / (n - 1) * (sums**2).sum()) / values.size)


def fleiss_kappa(verdicts: Floats) -> Kappa:
    """Return Fleiss's kappa of items judged several times, as in SEMJ's tables.

    Parameters
    ----------
    verdicts : (N, R) float array
        A row an item, a column a language (or sample); nan where there is no verdict.

    Returns
    -------
    Kappa
        Items with fewer than two valid verdicts are left out; an item's agreement is that
        of its valid pairs, and categories are weighed item by item. Undefined where all
        verdicts are the same, or no item is left.
    """
    value, without, used, reason = _kappa_parts(verdicts)
    return Kappa(value, _jackknife(without), int(used.sum()), int((~used).sum()), reason)


def kappa_gain(verdicts: Floats, baseline: Floats) -> Kappa:
    """Return by how much kappa is above a baseline's on the same items, in the same order.

    ``n_left_out`` counts items that either leaves out.
    """
    one, one_without, one_used, one_reason = _kappa_parts(verdicts)
    two, two_without, two_used, two_reason = _kappa_parts(baseline)
    used = one_used & two_used
    both = one_used | two_used
    return Kappa(
        one - two,
        _jackknife((one_without - two_without)[both]),
        int(used.sum()),
        int((~used).sum()),
        one_reason or two_reason,
    )


def oracle_curve(verdicts: Floats, own: Ints, truth: Bools, item: Ints | None = None) -> Curve:
    """Return what the first verdict and K others could tell together (SEMJ, figure 2).

    K others are a random choice of all others; the mean over choices is exact.

    Parameters
    ----------
    verdicts : (N, L) float array
        A column a language; or a column a sample, for the monolingual curve.
    own : (N,) int array
        Column of the row's own language, which is in every panel.
    truth : (N,) bool array
    item : (N,) int array, optional

    Returns
    -------
    Curve
        For K = 0 to L - 1. Ties of the vote go by the own verdict; where that one is
        missing, a tie is not right.
    """
    n, columns = verdicts.shape
    right = np.where(np.isnan(verdicts), np.nan, verdicts == truth[:, None])
    first = right[np.arange(n), own]
    others = right.copy()
    others[np.arange(n), own] = np.nan
    keys = np.column_stack(
        [np.nan_to_num(first, nan=-1), (others == 1).sum(axis=1), (others == 0).sum(axis=1)]
    ).astype(np.int64)
    kinds, which = np.unique(keys, axis=0, return_inverse=True)
    chances = np.array(
        [
            [_chances(int(f), int(c), int(w), columns - 1, k) for k in range(columns)]
            for f, c, w in kinds
        ]
    )[which.ravel()]
    found = [
        [clustered_mean(chances[:, k, which], item) for k in range(columns)] for which in (0, 1)
    ]
    (oracle, oracle_se), (vote, vote_se) = (np.array(one).T for one in found)
    return Curve(oracle, oracle_se, vote, vote_se)


def flips_and_repairs(
    before: Floats, after: Floats, agreement: Floats, truth: Bools, edges: tuple[float, ...] = EDGES
) -> tuple[Bucket, ...]:
    """Return what one round of reconsidering did, by the agreement before it (SEMJ, table 3).

    Parameters
    ----------
    before, after : (N, V) float array
        Verdicts of V variants in two rounds.
    agreement : (N,) float array
        Of the round before; rows of nan are in no bucket.
    truth : (N,) bool array
    edges : tuple of float
        Ends of the buckets, rising.

    Returns
    -------
    tuple of Bucket
        The most consistent first. Only rows that were reconsidered belong in here: judging
        that ends at tau = 0.8 reconsiders none of the first bucket.
    """
    right_before = before == truth[:, None]
    right_after = after == truth[:, None]
    valid = ~(np.isnan(before) | np.isnan(after))
    found = []
    for above, up_to in zip(edges[-2::-1], edges[:0:-1], strict=True):
        inside = (agreement > above) & (agreement <= up_to)
        if above == edges[0]:
            inside |= agreement == above
        counted = valid & inside[:, None]
        n = int(counted.sum())
        wrong = int((counted & ~right_before).sum())
        repaired = int((counted & ~right_before & right_after).sum())
        spoiled = int((counted & right_before & ~right_after).sum())
        found.append(
            Bucket(
                above,
                up_to,
                n,
                _over(repaired + spoiled, n),
                _over(repaired, n),
                _over(spoiled, n),
                _over(repaired, wrong),
                int((~valid & inside[:, None]).sum()),
            )
        )
    return tuple(found)


def _right(verdicts: Floats, truth: Bools) -> Floats:
    return np.asarray(verdicts == truth, dtype=np.float64)


def _over(part: int, whole: int) -> float:
    return part / whole if whole else math.nan


def _kappa_parts(verdicts: Floats) -> tuple[float, Floats, Bools, str]:
    """Return kappa, kappa without each item (N,), the items used, why it is undefined."""
    valid = ~np.isnan(verdicts)
    n = valid.sum(axis=1)
    used = n >= 2
    count = int(used.sum())
    without = np.full(len(verdicts), np.nan)
    if not count:
        return math.nan, without, used, "no item has two valid verdicts"
    positive = np.nansum(verdicts, axis=1)[used]
    m = n[used]
    agreeing = (positive * (positive - 1) + (m - positive) * (m - positive - 1)) / (m * (m - 1))
    share = positive / m
    value = _kappa(float(agreeing.mean()), float(share.mean()))
    reason = "" if not math.isnan(value) else "all verdicts are the same"
    if count > 1:
        left = np.array([agreeing.sum() - agreeing, share.sum() - share]) / (count - 1)
        without[:] = value
        without[used] = [_kappa(a, p) for a, p in left.T]
    return value, without, used, reason


def _kappa(agreeing: float, share: float) -> float:
    expected = share**2 + (1 - share) ** 2
    # Sums leave rounding of 1e-16 where every verdict is the same.
    return math.nan if 1 - expected < 1e-12 else (agreeing - expected) / (1 - expected)


def _jackknife(without: Floats) -> float:
    known = without[~np.isnan(without)]
    if known.size < 2:
        return math.nan
    spread = float(((known - known.mean()) ** 2).sum())
    return math.sqrt((known.size - 1) / known.size * spread)


def _chances(first: int, right: int, wrong: int, others: int, k: int) -> tuple[float, float]:
    """Return the chances that one of K + 1 verdicts is right, and that their majority is.

    ``first`` is 1, 0, or -1 where it is missing; of the others so many are right and wrong,
    and the rest is missing.
    """
    total = math.comb(others, k)
    oracle = 1.0 if first == 1 else 1 - math.comb(others - right, k) / total
    missing = others - right - wrong
    ways = 0
    for i in range(min(right, k) + 1):
        for j in range(min(wrong, k - i) + 1):
            balance = i - j + {1: 1, 0: -1, -1: 0}[first]
            if balance > 0 or (balance == 0 and first == 1):
                ways += math.comb(right, i) * math.comb(wrong, j) * math.comb(missing, k - i - j)
    return oracle, ways / total
