"""Log densities of scores given their predictors, in PyTensor: stable far into the tails.

The functions of :mod:`bayesjudge.engines.likelihoods` a second time, from the
same formulas and bounds: where a bound is reached both engines give one density.
Every branch that is not taken is given harmless arguments, for a slope of nought
times infinity is no number.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytensor.tensor as pt
from numpy.typing import NDArray

from bayesjudge.engines.observations import CLOSE, MOST_LOG, TINY, Observations
from bayesjudge.errors import ModelError

type Tensor = Any
type Ints = NDArray[np.int64]
# Below it the normal distribution function is taken by its scaled complement.
_FAR = -1.0


def log_sigmoid(x: Tensor) -> Tensor:
    """Return log(1 / (1 + exp(-x)))."""
    return -pt.softplus(-x)


def log_ndtr(x: Tensor) -> Tensor:
    """Return the log of the standard normal distribution function."""
    far = x < _FAR
    low, high = pt.where(far, x, _FAR), pt.where(far, 0.0, x)
    below = pt.log(0.5 * pt.erfcx(-low / np.sqrt(2.0))) - 0.5 * low**2
    return pt.where(far, below, pt.log1p(-0.5 * pt.erfc(high / np.sqrt(2.0))))


def log_one_minus_exp(a: Tensor) -> Tensor:
    """Return log(1 - exp(a)) for a < 0, with finite derivatives."""
    near_zero = a > -0.6931
    small, large = pt.where(near_zero, a, -1.0), pt.where(near_zero, -1.0, a)
    return pt.where(near_zero, pt.log(-pt.expm1(small)), pt.log1p(-pt.exp(large)))


def stop_logits_density(x: Tensor, passes: Tensor) -> Tensor:
    """Return the log density of log-odds of stopping, of a flat simplex.

    Parameters
    ----------
    x : (T,)
        As ``cutpoints_x`` of :mod:`bayesjudge.engines.observations`.
    passes : (T,)
        T, T - 1, ..., 1: how many categories lie above each.

    Returns
    -------
    scalar
        Normalized.
    """
    return pt.sum(log_sigmoid(x) + passes * log_sigmoid(-x) + pt.log(passes))


def draw_stop_logits(
    passes: NDArray[np.float64], rng: np.random.Generator, size: Any
) -> NDArray[np.float64]:
    """Draw what :func:`stop_logits_density` is the density of, (*size, T)."""
    shape = (*(() if size is None else tuple(size)), *np.shape(passes))
    # 1 - Beta(1, b) is a uniform to the power 1/b.
    log_pass = np.log(rng.uniform(1e-12, 1.0, shape)) / passes
    return np.asarray(np.log(-np.expm1(log_pass)) - log_pass)


class Cutpoints:
    """Cutpoints with what lies between them, which no difference of them tells as well.

    Attributes
    ----------
    cuts : (T,) or (L, T)
    log_gaps : (T - 1,) or (L, T - 1)
        Logs of the distances between neighbours.
    log_shares : same shape
        Of logit: log(1 - exp(-distance)).
    """

    def __init__(self, x: Tensor, link: str, log_spacing: Tensor | None = None) -> None:
        """Build them from log-odds of stopping x (T,), and (L, T - 1) stretchings."""
        log_above = pt.cumsum(log_sigmoid(-x))
        # A stop so sure that nothing is left above would end the logarithm.
        log_below = log_one_minus_exp(pt.minimum(log_above, -TINY))
        if link == "logit":
            self.cuts = log_below - log_above
            # P(k) / (P(<= k) P(>= k)): no difference of numbers that are nearly equal.
            log_shares = pt.minimum(log_sigmoid(x[1:]) - log_below[1:], -TINY)
            gaps = -log_one_minus_exp(log_shares)
        else:
            lower = log_below < log_above
            chance = pt.maximum(pt.exp(pt.where(lower, log_below, log_above)), TINY)
            # The normal quantile of a chance below one half.
            self.cuts = pt.where(lower, -1.0, 1.0) * np.sqrt(2.0) * pt.erfcinv(2.0 * chance)
            gaps = pt.maximum(self.cuts[1:] - self.cuts[:-1], TINY)
            log_shares = pt.zeros_like(gaps)
        self.log_gaps = pt.log(pt.maximum(gaps, TINY))
        self.log_shares = log_shares
        if log_spacing is None:
            return
        self.log_gaps = self.log_gaps + pt.clip(log_spacing, -MOST_LOG, MOST_LOG)
        gaps = pt.exp(self.log_gaps)
        steps = pt.concatenate([pt.zeros_like(gaps[:, :1]), pt.cumsum(gaps, axis=1)], axis=1)
        self.cuts = pt.mean(self.cuts) + steps - pt.mean(steps, axis=1, keepdims=True)
        self.log_shares = log_one_minus_exp(-pt.maximum(gaps, TINY))


def cumulative_log_likelihood(
    eta: Tensor, cutpoints: Cutpoints, last: int, link: str, seen: Observations
) -> Tensor:
    """Return the log-likelihood of category counts, a scalar.

    Parameters
    ----------
    eta : (P,)
        Predictors.
    last : int
        The highest category, from 0: the number of cutpoints.
    """
    if seen.cell is None or seen.category is None or seen.count is None:
        raise ModelError("a cumulative model is given no category counts")
    log_cdf = _log_cdf(link)
    level = None if seen.threshold_codes is None else seen.threshold_codes[seen.cell]

    def at(values: Tensor, index: Ints, pairs: Any) -> Tensor:
        return values[index] if level is None else values[level[pairs], index]

    total: Tensor = pt.zeros(())
    first, top = seen.category == 0, seen.category == last
    for pairs, cut, sign in ((first, 0, 1.0), (top, last - 1, -1.0)):
        if pairs.any():
            index = np.full(int(pairs.sum()), cut)
            distance = sign * (at(cutpoints.cuts, index, pairs) - eta[seen.cell[pairs]])
            total = total + pt.sum(seen.count[pairs] * log_cdf(distance))
    between = ~(first | top)
    if not between.any():
        return total
    k = seen.category[between]
    here = eta[seen.cell[between]]
    upper = at(cutpoints.cuts, k, between) - here
    lower = at(cutpoints.cuts, k - 1, between) - here
    if link == "logit":
        # s(b) - s(a) = s(b) s(-a) (1 - exp(a - b)), and b - a does not depend on eta.
        share = at(cutpoints.log_shares, k - 1, between)
        value = log_sigmoid(upper) + log_sigmoid(-lower) + share
    else:
        value = _log_normal_interval(lower, upper, at(cutpoints.log_gaps, k - 1, between))
    return total + pt.sum(seen.count[between] * value)


def _log_cdf(link: str) -> Any:
    return log_sigmoid if link == "logit" else log_ndtr


def _log_normal_interval(lower: Tensor, upper: Tensor, log_gap: Tensor) -> Tensor:
    """Return log(Phi(upper) - Phi(lower)), from whichever tail is the nearer."""
    flip = lower + upper > 0
    a, b = pt.where(flip, -upper, lower), pt.where(flip, -lower, upper)
    middle = 0.5 * (a + b)
    close = log_gap < np.log(CLOSE) - pt.log1p(pt.abs(middle))
    density = -0.5 * middle**2 - 0.5 * np.log(2 * np.pi) + log_gap
    # What is not used must have derivatives all the same.
    a = pt.where(close, b - 1.0, a)
    top = log_ndtr(b)
    return pt.where(close, density, top + log_one_minus_exp(log_ndtr(a) - top))


def davidson_log_likelihood(eta: Tensor, tie_chance: Tensor | None, seen: Observations) -> Tensor:
    """Return the log-likelihood of outcomes between two models, a scalar."""
    if seen.trials is None or seen.successes is None or seen.ties is None:
        raise ModelError("a model of battles is given no counts")
    half = 0.5 * eta
    total = pt.softplus(eta) - half
    gained = 2.0 * seen.successes + seen.ties - seen.trials
    tied: Tensor = pt.zeros(())
    if tie_chance is not None:
        log_weight = pt.log(2.0 * tie_chance) - pt.log1p(-tie_chance)
        total = total + pt.softplus(log_weight - total)
        tied = pt.sum(seen.ties) * log_weight
    return tied + pt.sum(gained * half - seen.trials * total)


def bernoulli_log_likelihood(eta: Tensor, link: str, seen: Observations) -> Tensor:
    """Return the log-likelihood of verdicts, without the binomial coefficients."""
    if seen.trials is None or seen.successes is None:
        raise ModelError("a bernoulli model is given no counts")
    log_cdf = _log_cdf(link)
    failures = seen.trials - seen.successes
    return pt.sum(seen.successes * log_cdf(eta) + failures * log_cdf(-eta))
