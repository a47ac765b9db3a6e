"""Log-likelihoods of verdicts and categories in NumPy, with their slopes, at many leaves.

A score's predictor is eta + g: eta of its cell, g of its leaf, at several nodes of
g at once. Of a logit, exp(eta + g) is a product of few exponentials.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_expit, log_ndtr

from bayesjudge.errors import ModelError
from bayesjudge.response import cutpoints_from_stops

type Floats = NDArray[np.float64]
type Ints = NDArray[np.int64]

# Predictors further out are as certain as these.
_FAR = 150.0
_LOG_ROOT_2PI = 0.5 * np.log(2 * np.pi)


@dataclass(frozen=True, eq=False)
class Verdicts:
    """Counts of verdicts, (L, J).

    Attributes
    ----------
    trials, successes : (L, J) float arrays
    link : {"logit", "probit"}
    """

    trials: Floats
    successes: Floats
    link: str

    def values(self, eta: Floats, leaf: Floats, stops: Floats | None) -> Floats:  # noqa: ARG002
        """Return log-likelihoods by leaf and node, (R, L, Q), of eta (R, L, J), leaf (R, L, Q)."""
        k, n = self.successes[..., None], self.trials[..., None]
        if self.link == "logit":
            eta, leaf = _near(eta), _near(leaf)
            odds = _odds(eta, leaf)
            sums = (self.successes * eta).sum(axis=-1)[..., None]
            sums = sums + self.successes.sum(axis=-1)[:, None] * leaf
            return np.asarray(sums - (n * np.log1p(odds)).sum(axis=2))
        x = eta[..., None] + leaf[:, :, None, :]
        return np.asarray((k * log_ndtr(x) + (n - k) * log_ndtr(-x)).sum(axis=2))

    def slopes(
        self,
        eta: Floats,
        leaf: Floats,
        stops: Floats | None,  # noqa: ARG002
    ) -> tuple[Floats, Floats, Floats, Floats]:
        """Return values (R, L, Q), and first, minus second, third derivatives (R, L, J, Q)."""
        k, n = self.successes[..., None], self.trials[..., None]
        if self.link == "logit":
            odds = _odds(eta, leaf)
            p = odds / (1.0 + odds)
            sums = (self.successes * eta).sum(axis=-1)[..., None]
            sums = sums + self.successes.sum(axis=-1)[:, None] * leaf
            value = sums - (n * np.log1p(odds)).sum(axis=2)
            expected = n * p
            second = expected * (1.0 - p)
            return value, k - expected, second, second * (2.0 * p - 1.0)
        x = eta[..., None] + leaf[:, :, None, :]
        up, down = log_ndtr(x), log_ndtr(-x)
        density = -0.5 * x**2 - _LOG_ROOT_2PI
        a, b = np.exp(density - up), np.exp(density - down)
        first = k * a - (n - k) * b
        second = k * a * (a + x) + (n - k) * b * (b - x)
        # Derivatives of a(x): a' = -a (a + x); of b: b' = b (b - x).
        third = k * a * ((a + x) * (2 * a + x) - 1) + (n - k) * b * (1 - (b - x) * (2 * b - x))
        return (k * up + (n - k) * down).sum(axis=2), first, second, third


@dataclass(frozen=True, eq=False)
class Categories:
    """Counts of categories, (L, J).

    Attributes
    ----------
    category : (L, J) int array
        From 0.
    count : (L, J) float array
    link : {"logit", "probit"}
    """

    category: Ints
    count: Floats
    link: str

    def values(self, eta: Floats, leaf: Floats, stops: Floats | None) -> Floats:
        """Return log-likelihoods by leaf and node, (R, L, Q), of stops (R, T)."""
        lower, upper, log_share = self._ends(stops)
        if self.link == "logit":
            odds = _odds(eta, leaf)
            each = (1.0 + odds * np.exp(-upper)[..., None]) * (
                1.0 + np.exp(lower)[..., None] / odds
            )
            total = (self.count * log_share).sum(axis=-1)[..., None]
            return np.asarray(total - (self.count[..., None] * np.log(each)).sum(axis=2))
        x = eta[..., None] + leaf[:, :, None, :]
        value = _normal_interval(lower[..., None] - x, upper[..., None] - x)[0]
        return np.asarray((self.count[..., None] * value).sum(axis=2))

    def slopes(
        self, eta: Floats, leaf: Floats, stops: Floats | None
    ) -> tuple[Floats, Floats, Floats, Floats]:
        """Return values (R, L, Q), and first, minus second, third derivatives (R, L, J, Q)."""
        lower, upper, log_share = self._ends(stops)
        count = self.count[..., None]
        if self.link == "logit":
            odds = _odds(eta, leaf)
            over, under = odds * np.exp(-upper)[..., None], np.exp(lower)[..., None] / odds
            above, below = over / (1.0 + over), under / (1.0 + under)
            total = (self.count * log_share).sum(axis=-1)[..., None]
            value = total - (count * np.log((1.0 + over) * (1.0 + under))).sum(axis=2)
            one, two = above * (1.0 - above), below * (1.0 - below)
            third = one * (2.0 * above - 1.0) - two * (2.0 * below - 1.0)
            return value, count * (below - above), count * (one + two), count * third
        x = eta[..., None] + leaf[:, :, None, :]
        value, *slopes = _normal_interval(lower[..., None] - x, upper[..., None] - x)
        first, second, third = (count * slope for slope in slopes)
        return (count * value).sum(axis=2), first, second, third

    def _ends(self, stops: Floats | None) -> tuple[Floats, Floats, Floats]:
        """Return where each observation's category begins and ends, and its log share."""
        if stops is None:
            raise ModelError("categories are given no cutpoints")
        lower, upper, log_share = category_ends(stops, self.link)
        return lower[:, self.category], upper[:, self.category], log_share[:, self.category]


def category_ends(stops: Floats, link: str) -> tuple[Floats, Floats, Floats]:
    """Return lower and upper cutpoints of the categories and log(1 - exp(-distance)), (R, C).

    The ends of the scale are infinite. Of a logit s(b) - s(a) = s(b) s(-a) (1 -
    exp(a - b)), s the logistic function; the last factor comes from the log-odds of
    stopping (R, C - 1), no difference of numbers that are nearly equal.
    """
    cuts = cutpoints_from_stops(stops, link)
    end = np.full((len(cuts), 1), np.inf)
    lower, upper = np.hstack([-end, cuts]), np.hstack([cuts, end])
    log_share = np.zeros(lower.shape)
    if link == "logit" and cuts.shape[1] > 1:
        log_above = np.cumsum(log_expit(-stops), axis=-1)
        log_below = np.log(-np.expm1(np.minimum(log_above, -1e-300)))
        log_share[:, 1:-1] = np.minimum(log_expit(stops[:, 1:]) - log_below[:, 1:], 0.0)
    return lower, upper, log_share


def _odds(eta: Floats, leaf: Floats) -> Floats:
    return np.asarray(np.exp(_near(eta))[..., None] * np.exp(_near(leaf))[:, :, None, :])


def _near(x: Floats) -> Floats:
    return np.clip(x, -_FAR, _FAR)


def _normal_interval(a: Floats, b: Floats) -> tuple[Floats, Floats, Floats, Floats]:
    """Return log(Phi(b) - Phi(a)); its slope, minus curvature and third as both move down."""
    flip = a + b > 0
    low, high = np.where(flip, -b, a), np.where(flip, -a, b)
    top = log_ndtr(high)
    # Cutpoints so close that nothing is left between them are told apart no more.
    value = top + np.log(-np.expm1(np.minimum(log_ndtr(low) - top, -1e-15)))
    inside_a, inside_b = np.isfinite(a), np.isfinite(b)
    a, b = np.where(inside_a, a, 0.0), np.where(inside_b, b, 0.0)
    with np.errstate(over="ignore"):
        at_a, at_b = (np.exp(-0.5 * end**2 - _LOG_ROOT_2PI - value) for end in (a, b))
    # The ends of the scale have no density.
    at_a, at_b = np.where(inside_a, at_a, 0.0), np.where(inside_b, at_b, 0.0)
    slope = at_a - at_b
    ends, squares = b * at_b - a * at_a, b**2 * at_b - a**2 * at_a
    third = slope * (3.0 * ends + 2.0 * slope**2 - 1.0) - squares
    return value, slope, ends + slope**2, third
