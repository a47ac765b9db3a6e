"""Log densities of scores given their predictors, in JAX: stable far into the tails."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jax.nn import log_sigmoid
from jax.scipy.special import log_ndtr, ndtri
from jax.scipy.stats import norm, t

from bayesjudge.engines.observations import CLOSE, MOST_LOG, TINY, Observations
from bayesjudge.errors import ModelError

type Array = Any


def log_one_minus_exp(a: Array) -> Array:
    """Return log(1 - exp(a)) for a < 0, with finite derivatives."""
    near_zero = a > -0.6931
    small = jnp.where(near_zero, a, -1.0)
    large = jnp.where(near_zero, -1.0, a)
    return jnp.where(near_zero, jnp.log(-jnp.expm1(small)), jnp.log1p(-jnp.exp(large)))


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

    def __init__(self, x: Array, link: str, log_spacing: Array | None = None) -> None:
        """Build them from log-odds of stopping x (T,), and (L, T - 1) stretchings."""
        log_above = jnp.cumsum(log_sigmoid(-x))
        # A stop so sure that nothing is left above would end the logarithm.
        log_below = log_one_minus_exp(jnp.minimum(log_above, -TINY))
        if link == "logit":
            self.cuts = log_below - log_above
            # P(k) / (P(<= k) P(>= k)): no difference of numbers that are nearly equal.
            log_shares = log_sigmoid(x[1:]) - log_below[1:]
            log_shares = jnp.minimum(log_shares, -TINY)
            gaps = -log_one_minus_exp(log_shares)
        else:
            lower = log_below < log_above
            chance = jnp.exp(jnp.where(lower, log_below, log_above))
            self.cuts = jnp.where(lower, 1.0, -1.0) * ndtri(jnp.maximum(chance, TINY))
            gaps = jnp.maximum(self.cuts[1:] - self.cuts[:-1], TINY)
            log_shares = jnp.zeros_like(gaps)
        self.log_gaps = jnp.log(jnp.maximum(gaps, TINY))
        self.log_shares = log_shares
        if log_spacing is None:
            return
        self.log_gaps = self.log_gaps + jnp.clip(log_spacing, -MOST_LOG, MOST_LOG)
        gaps = jnp.exp(self.log_gaps)
        steps = jnp.concatenate(
            [jnp.zeros((*gaps.shape[:-1], 1)), jnp.cumsum(gaps, axis=-1)], axis=-1
        )
        self.cuts = jnp.mean(self.cuts) + steps - jnp.mean(steps, axis=-1, keepdims=True)
        self.log_shares = log_one_minus_exp(-jnp.maximum(gaps, TINY))


def cumulative_log_likelihood(
    eta: Array, cutpoints: Cutpoints, link: str, seen: Observations
) -> Array:
    """Return the log-likelihood of category counts.

    Parameters
    ----------
    eta : (P,)
        Predictors.
    """
    if seen.cell is None or seen.category is None or seen.count is None:
        raise ModelError("a cumulative model is given no category counts")
    last = cutpoints.cuts.shape[-1]
    codes = seen.threshold_codes
    level = None if codes is None else jnp.asarray(codes)[seen.cell]

    def at(values: Array, index: Array) -> Array:
        return values[index] if level is None else values[level, index]

    # Of the lowest and the highest category one side is looked up and not used.
    category = jnp.asarray(seen.category)
    low, top = category == 0, category == last
    above, below = jnp.minimum(category, last - 1), jnp.maximum(category - 1, 0)
    here = eta[seen.cell]
    upper, lower = at(cutpoints.cuts, above) - here, at(cutpoints.cuts, below) - here
    between = jnp.clip(category - 1, 0, max(last - 2, 0))
    if link == "logit":
        value = jnp.where(top, 0.0, log_sigmoid(upper)) + jnp.where(low, 0.0, log_sigmoid(-lower))
        if last > 1:
            # s(b) - s(a) = s(b) s(-a) (1 - exp(a - b)), and b - a does not depend on eta.
            value = value + jnp.where(low | top, 0.0, at(cutpoints.log_shares, between))
    else:
        value = log_ndtr(jnp.where(low, upper, -lower))
        if last > 1:
            # What is not used must have derivatives all the same.
            outer = low | top
            known = jnp.where(outer, -1.0, lower), jnp.where(outer, 0.0, upper)
            gap = at(cutpoints.log_gaps, between)
            value = jnp.where(outer, value, _log_normal_interval(*known, gap))
    return jnp.sum(seen.count * value)


def _log_normal_interval(lower: Array, upper: Array, log_gap: Array) -> Array:
    """Return log(Phi(upper) - Phi(lower)), from whichever tail is the nearer."""
    flip = lower + upper > 0
    a, b = jnp.where(flip, -upper, lower), jnp.where(flip, -lower, upper)
    middle = 0.5 * (a + b)
    close = log_gap < jnp.log(CLOSE) - jnp.log1p(jnp.abs(middle))
    density = norm.logpdf(middle) + log_gap
    # What is not used must have derivatives all the same.
    a = jnp.where(close, b - 1.0, a)
    top = log_ndtr(b)
    return jnp.where(close, density, top + log_one_minus_exp(log_ndtr(a) - top))


def bernoulli_log_likelihood(eta: Array, link: str, seen: Observations) -> Array:
    """Return the log-likelihood of verdicts, without the binomial coefficients."""
    if seen.trials is None or seen.successes is None:
        raise ModelError("a bernoulli model is given no counts")
    log_cdf = log_sigmoid if link == "logit" else log_ndtr
    failures = seen.trials - seen.successes
    return jnp.sum(seen.successes * log_cdf(eta) + failures * log_cdf(-eta))


def davidson_log_likelihood(eta: Array, tie_chance: Array | None, seen: Observations) -> Array:
    """Return the log-likelihood of outcomes between two models.

    Parameters
    ----------
    eta : (P,)
    tie_chance : scalar or None
        Of equals; None where there are no ties.
    """
    if seen.trials is None or seen.successes is None or seen.ties is None:
        raise ModelError("a model of battles is given no counts")
    half = 0.5 * eta
    total = jnp.logaddexp(half, -half)
    gained = 2.0 * seen.successes + seen.ties - seen.trials
    tied = jnp.zeros(())
    if tie_chance is not None:
        log_weight = jnp.log(2.0 * tie_chance) - jnp.log1p(-tie_chance)
        total = jnp.logaddexp(total, log_weight)
        tied = jnp.sum(seen.ties) * log_weight
    return tied + jnp.sum(gained * half - seen.trials * total)


def continuous_log_likelihood(
    eta: Array, variance: Array, degrees: Array | None, seen: Observations
) -> Array:
    """Return the log-likelihood of scores, normal or Student t of this squared scale.

    Parameters
    ----------
    eta : (P,)
    variance : (V,)
        Squared residual scales, one a level of the facet they are by.
    degrees : scalar or None
        Degrees of freedom; None for normal.
    """
    if seen.score is None:
        raise ModelError("a model of continuous scores is given none")
    scale = jnp.sqrt(variance)[seen.residual_codes]
    if degrees is None:
        return jnp.sum(norm.logpdf(seen.score, eta, scale))
    return jnp.sum(t.logpdf(seen.score, degrees, eta, scale))
