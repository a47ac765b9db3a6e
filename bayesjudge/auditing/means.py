"""Scores by language: means, one-way tests, agreement of judges, resource level."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bayesjudge.auditing.influence import Influence

type Floats = NDArray[np.float64]
type Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Averages:
    """Averages over cells of a language x judge x cell array of means.

    Attributes
    ----------
    overall : (L,) float array
        Over all judges and cells.
    by_cell : (L, S) float array
        Over judges.
    by_judge : (L, J) float array
        Over cells.
    """

    overall: Floats
    by_cell: Floats
    by_judge: Floats


def normalize(means: Floats) -> Floats:
    """Return z within judge: over all of a judge's cell means, divided by their sd (ddof 1).

    That is what the language-bias paper's table 5 holds (../shared/golden, identity 15).

    Parameters
    ----------
    means : (L, J, S) float array
        nan where a cell is missing.

    Returns
    -------
    (L, J, S) float array
        nan for a judge whose means are all equal.
    """
    J = means.shape[1]
    flat = np.moveaxis(means, 1, 0).reshape(J, -1)
    out = np.full_like(flat, np.nan)
    for j in range(J):
        held = flat[j][np.isfinite(flat[j])]
        if held.size > 1 and held.std(ddof=1) > 0:
            out[j] = (flat[j] - held.mean()) / held.std(ddof=1)
    return np.moveaxis(out.reshape(J, means.shape[0], means.shape[2]), 0, 1)


def average(means: Floats) -> Averages:
    """Average cell means, each cell counting alike (the paper's tables 4 and 5).

    Parameters
    ----------
    means : (L, J, S) float array
        A missing cell is left out of its averages.
    """
    return Averages(
        nan_mean(means.reshape(len(means), -1), 1), nan_mean(means, 1), nan_mean(means, 2)
    )


def nan_mean(values: Floats, axis: int) -> Floats:
    """Return means of what is there, nan where nothing is."""
    held = np.isfinite(values)
    with np.errstate(invalid="ignore"):
        return np.asarray(np.where(held, values, 0.0).sum(axis=axis) / held.sum(axis=axis))


@dataclass(frozen=True, eq=False)
class Offsets:
    """Languages against the mean of all, by judge and over the panel.

    Attributes
    ----------
    mean, mean_se, offset, offset_se : (J, L) float array
        On the scale of the scores.
    panel, panel_se : (L,) float array
        Mean over judges of the offsets in units of the judge's own sd of scores.
    df : int
    """

    mean: Floats
    mean_se: Floats
    offset: Floats
    offset_se: Floats
    panel: Floats
    panel_se: Floats
    df: int


def offsets(found: Influence, squares: Influence) -> Offsets:
    """Return each language's offset with its standard error, scenarios independent.

    The offset of a language is its mean less the mean over the judge's languages; the
    error of the difference is taken scenario by scenario, so what scenarios share
    between languages cancels. Over the panel, offsets are divided by the sd of the
    judge's scores, whose own error counts.

    Parameters
    ----------
    found : Influence
        Of the scores.
    squares : Influence
        Of the squared distances from the judge's mean.
    """
    held = np.isfinite(found.mean)
    share = held / held.sum(axis=1, keepdims=True)
    offset = found.mean - nan_mean(found.mean, 1)[:, None]
    psi = found.psi - (found.psi * share[:, None, :]).sum(axis=2, keepdims=True)
    mean_se = np.stack([found.se(one) for one in found.psi])
    offset_se = np.stack([found.se(one) for one in psi])
    variance = nan_mean(squares.mean, 1)
    scale = np.where(variance > 0, np.sqrt(variance), np.nan)
    # The influence on log sd, of each scenario: (J, C).
    log_psi = (squares.psi * share[:, None, :]).sum(axis=2) / (2 * scale[:, None] ** 2)
    inside = held & np.isfinite(scale)[:, None]
    with np.errstate(invalid="ignore"):
        weight = np.where(inside, 1.0 / np.maximum(inside.sum(axis=0), 1), 0.0)
        scaled = np.where(inside, offset / scale[:, None], 0.0)
        panel = np.where(inside.any(axis=0), (weight * scaled).sum(axis=0), np.nan)
        parts = psi / scale[:, None, None] - scaled[:, None, :] * log_psi[:, :, None]
        parts = np.where(inside[:, None, :], parts, 0.0)
    panel_psi = (weight[:, None, :] * parts).sum(axis=0)
    return Offsets(
        mean=found.mean,
        mean_se=np.where(held, mean_se, np.nan),
        offset=offset,
        offset_se=np.where(held, offset_se, np.nan),
        panel=panel,
        panel_se=np.where(inside.any(axis=0), found.se(panel_psi), np.nan),
        df=found.df,
    )


def squared_distances(score: Floats, judge: Ints, n_judges: int) -> Floats:
    """Return squared distances of scores from the plain mean of their judge, (N,)."""
    n = np.bincount(judge, minlength=n_judges)
    mean = np.bincount(judge, weights=score, minlength=n_judges) / np.maximum(n, 1)
    return np.asarray((score - mean[judge]) ** 2)


@dataclass(frozen=True)
class OneWay:
    """A one-way analysis of variance: F, its degrees of freedom and p."""

    f: float
    df1: int
    df2: int
    p_value: float


NO_TEST = OneWay(math.nan, 0, 0, math.nan)


def one_way(mean: Floats, n: Floats | Ints, ss_within: float) -> OneWay:
    """Return the one-way F of groups from their means and sizes.

    Parameters
    ----------
    mean, n : (L,) float array
        Groups without a row are left out.
    ss_within : float
        Sum of squares about the group means.
    """
    from scipy.special import fdtrc

    held = n > 0
    m, size = mean[held], n[held]
    df1, df2 = int(m.size - 1), int(size.sum() - m.size)
    if df1 < 1 or df2 < 1 or not math.isfinite(ss_within):
        return NO_TEST
    grand = float((size * m).sum() / size.sum())
    between = float((size * (m - grand) ** 2).sum()) / df1
    within = ss_within / df2
    if within <= 0:
        return OneWay(math.inf if between > 0 else math.nan, df1, df2, math.nan)
    f = between / within
    return OneWay(f, df1, df2, float(fdtrc(df1, df2, f)))


def correlation_p(r: float, n: int) -> float:
    """Return the two-sided p of a Pearson or Spearman correlation by t with n - 2 df."""
    from scipy.special import stdtr

    if n < 3 or not math.isfinite(r):
        return math.nan
    if abs(r) >= 1:
        return 0.0
    t = abs(r) * math.sqrt((n - 2) / (1 - r * r))
    return 2 * float(stdtr(n - 2, -t))


def pearson(x: Floats, y: Floats) -> tuple[float, int]:
    """Return Pearson's correlation over pairs that are both there, and their number."""
    both = np.isfinite(x) & np.isfinite(y)
    a, b = x[both], y[both]
    if a.size < 3 or np.ptp(a) == 0 or np.ptp(b) == 0:
        return math.nan, int(a.size)
    a, b = a - a.mean(), b - b.mean()
    return float(a @ b / math.sqrt(float(a @ a) * float(b @ b))), int(a.size)


def spearman(x: Floats, y: Floats) -> tuple[float, int]:
    """Return Spearman's correlation, ties at their midranks, and the number of pairs."""
    both = np.isfinite(x) & np.isfinite(y)
    return pearson(midranks(x[both]), midranks(y[both]))


def midranks(values: Floats) -> Floats:
    """Return ranks from 1, ties at their mean."""
    _, at, counts = np.unique(values, return_inverse=True, return_counts=True)
    return np.asarray((np.cumsum(counts) - (counts - 1) / 2)[at], dtype=float)


def correlations(by_judge: Floats) -> Floats:
    """Return Pearson's correlation between the judges' language means, (J, J).

    Parameters
    ----------
    by_judge : (L, J) float array
    """
    J = by_judge.shape[1]
    return np.array(
        [[pearson(by_judge[:, a], by_judge[:, b])[0] for b in range(J)] for a in range(J)]
    ).reshape(J, J)


@dataclass(frozen=True, eq=False)
class Extremes:
    """How many judges put a language at either end.

    Attributes
    ----------
    size : int
        Languages at each end: a quarter of them, at least one.
    top, bottom : (L,) int array
        Judges that have the language among their highest, their lowest.
    """

    size: int
    top: Ints
    bottom: Ints


def extremes(by_judge: Floats) -> Extremes:
    """Count the judges that agree on which languages are scored highest and lowest.

    Parameters
    ----------
    by_judge : (L, J) float array
        Ties at the border all count.
    """
    L, J = by_judge.shape
    size = max(1, round(L / 4))
    top, bottom = np.zeros(L, dtype=np.int64), np.zeros(L, dtype=np.int64)
    for j in range(J):
        column = by_judge[:, j]
        held = np.sort(column[np.isfinite(column)])
        if held.size < 2 or held[0] == held[-1]:
            continue
        k = min(size, held.size)
        top += column >= held[-k]
        bottom += column <= held[k - 1]
    return Extremes(size, top, bottom)
