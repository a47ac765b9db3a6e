"""Intervals of variance components, from mean squares.

A mean square with f degrees of freedom and expectation lambda is lambda chi2_f / f,
independent of the others.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

type Floats = NDArray[np.float64]
type Interval = tuple[float, float]

NO_INTERVAL: Interval = (math.nan, math.nan)

# Beyond, the square root of a noncentral chi-squared is normal to six digits, and
# scipy's series are no longer to be trusted.
_NORMAL_FROM = 1e5
# Tails as far out as this cannot be told from 0 and 1 in double precision.
_FAR_TAIL = 7.0


def satterthwaite_df(weights: Floats, mean_squares: Floats, df: Floats) -> float:
    """Return the degrees of freedom of a weighted sum of mean squares.

    Parameters
    ----------
    weights, mean_squares, df : (G,) float array

    Returns
    -------
    float
        (sum w M)^2 / sum (w M)^2 / f (Satterthwaite 1946); nan where the sum is zero.
    """
    parts = weights * mean_squares
    below = float(np.sum(parts**2 / df))
    return float(parts.sum()) ** 2 / below if below > 0 else math.nan


def t_interval(estimate: Floats, se: Floats, df: float, prob: float) -> tuple[Floats, Floats]:
    """Return equal-tailed t-intervals, of no width where the standard error is zero."""
    from scipy.special import stdtrit

    half = np.where(se == 0, 0.0, float(stdtrit(df, (1 + prob) / 2)) * se)
    return estimate - half, estimate + half


def chi_squared_interval(value: float, df: float, prob: float) -> Interval:
    """Return the exact interval of the expectation of one mean square."""
    from scipy.special import chdtri

    tail = (1 - prob) / 2
    return value * df / float(chdtri(df, tail)), value * df / float(chdtri(df, 1 - tail))


def large_sample_interval(
    weights: Floats, mean_squares: Floats, df: Floats, prob: float
) -> Interval:
    """Return the modified large-sample interval of a sum of mean squares' expectations.

    Parameters
    ----------
    weights : (G,) float array
        Of either sign.
    mean_squares, df : (G,) float array
    prob : float

    Returns
    -------
    (float, float)
        Exact where all but one mean square vanish; never below zero. Ting, Burdick,
        Graybill, Jeyaratnam and Lu (1990); the cross terms of two mean squares of
        one sign, which narrow it a little, are left out.
    """
    from scipy.special import chdtri, fdtri

    tail = (1 - prob) / 2
    size = np.abs(weights) * mean_squares
    lower_g = 1 - df / chdtri(df, tail)
    upper_h = df / chdtri(df, 1 - tail) - 1
    plus, minus = np.flatnonzero(weights > 0), np.flatnonzero(weights < 0)
    estimate = float(np.sum(weights * mean_squares))
    below = np.sum((lower_g * size)[plus] ** 2) + np.sum((upper_h * size)[minus] ** 2)
    above = np.sum((upper_h * size)[plus] ** 2) + np.sum((lower_g * size)[minus] ** 2)
    for q in plus:
        for r in minus:
            high = fdtri(df[q], df[r], 1 - tail)
            low = fdtri(df[q], df[r], tail)
            cross = size[q] * size[r]
            g = ((high - 1) ** 2 - (lower_g[q] * high) ** 2 - upper_h[r] ** 2) / high
            h = ((1 - low) ** 2 - (upper_h[q] * low) ** 2 - lower_g[r] ** 2) / low
            below, above = below + g * cross, above + h * cross
    lower = estimate - math.sqrt(max(float(below), 0.0))
    upper = estimate + math.sqrt(max(float(above), 0.0))
    return max(lower, 0.0), max(upper, 0.0)


def panel_interval(ss: float, df: float, error: float, error_df: float, prob: float) -> Interval:
    """Return the interval of the sum of squares of fixed effects.

    Parameters
    ----------
    ss : float
        Sum of squares of the estimates, with error.
    df : float
        Its degrees of freedom.
    error, error_df : float
        Mean square that measures the error, and its degrees of freedom.
    prob : float

    Returns
    -------
    (float, float)
        Limits d at which SS / error, noncentral chi-squared about d / error, is at
        the tails of the interval. The tails are those of a normal as far out as
        Student's t is at ``prob``, which allows for the error being estimated: for
        one degree of freedom and large effects it is the t-interval, squared.
    """
    from scipy.special import ndtr, stdtrit

    if not error > 0:
        return (ss, ss) if error == 0 else NO_INTERVAL
    reach = float(stdtrit(error_df, (1 + prob) / 2))
    tail = float(ndtr(-reach))
    ratio = ss / error
    if ratio > _NORMAL_FROM or reach > _FAR_TAIL:
        root = math.sqrt(max(ratio - (df - 1), 0.0))
        return max(root - reach, 0.0) ** 2 * error, (root + reach) ** 2 * error
    return (
        _noncentrality(ratio, df, 1 - tail) * error,
        _noncentrality(ratio, df, tail) * error,
    )


def _noncentrality(value: float, df: float, p: float) -> float:
    """Return the noncentrality at which a chi-squared is below ``value`` with probability p."""
    from scipy.optimize import brentq
    from scipy.special import chdtr, chndtr

    if float(chdtr(df, value)) <= p or value == 0:
        return 0.0
    # 60 sds of the square root beyond it the probability is zero to the last digit.
    top = (math.sqrt(value) + 60.0) ** 2
    return float(brentq(lambda nc: float(chndtr(value, df, nc)) - p, 0.0, top))
