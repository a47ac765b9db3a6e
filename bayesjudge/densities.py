"""Scores given all parameters: predictors, log densities, replicated scores. NumPy only.

Everything is by draw and score, (n, N): callers take so many rows or draws at
once as their memory holds.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, log_expit, log_ndtr

from bayesjudge.outcomes import draw_outcomes, log_outcomes, tie_weight
from bayesjudge.resolution import Resolved

type Floats = NDArray[np.float64]
type Rows = slice | NDArray[np.int64]

EVERY = slice(None)

# Closer cutpoints than this have a density between them, no difference of
# distribution functions that has any digits left.
_CLOSE = 1e-6


@dataclass(frozen=True, eq=False)
class Parameters:
    """All that the distribution of a score depends on, by draw.

    Attributes
    ----------
    intercept : (n,) float array
        Zeros where the model has none.
    effects : dict of (n, L) float arrays
        Of every term of the model, by its variable, levels flat.
    slopes : dict of (n,) float arrays
        By the covariate's name.
    sigma : (n, V) float array or None
        Residual scales, one a level of the facet that they are by.
    degrees : (n,) float array or None
        Of Student's t.
    cutpoints : (n, levels or 1, T) float array or None
    discrimination : (n, levels) float array or None
        Factors of what an answer is worth, one a level of the facet that they are by.
    tie_chance : (n,) float array or None
        Of equals; None where there are no ties.
    """

    intercept: Floats
    effects: dict[str, Floats]
    slopes: dict[str, Floats]
    sigma: Floats | None = None
    degrees: Floats | None = None
    cutpoints: Floats | None = None
    discrimination: Floats | None = None
    tie_chance: Floats | None = None

    @property
    def n_draws(self) -> int:
        """Number of draws, n."""
        return len(self.intercept)

    def some(self, draws: Rows) -> Parameters:
        """Return a part of the draws."""

        def part(values: Floats | None) -> Floats | None:
            return None if values is None else values[draws]

        return replace(
            self,
            intercept=self.intercept[draws],
            effects={name: values[draws] for name, values in self.effects.items()},
            slopes={name: values[draws] for name, values in self.slopes.items()},
            sigma=part(self.sigma),
            degrees=part(self.degrees),
            cutpoints=part(self.cutpoints),
            discrimination=part(self.discrimination),
            tie_chance=part(self.tie_chance),
        )


def predictors(resolved: Resolved, given: Parameters, rows: Rows = EVERY) -> Floats:
    """Return the predictor of each score, (n, N); of a battle first model less second."""
    size = resolved.score[rows].size
    total = np.repeat(given.intercept[:, None], size, axis=1)
    worth = np.zeros_like(total) if resolved.discrimination is not None else total
    for term in resolved.terms:
        part = worth if resolved.is_scaled(term) else total
        part += given.effects[term.variable][:, term.codes[rows]]
        if term.against is not None:
            part -= given.effects[term.variable][:, term.against[rows]]
    for covariate in resolved.covariates:
        total += given.slopes[covariate.name][:, None] * covariate.values[rows]
    if resolved.discrimination is not None:
        total += np.asarray(given.discrimination)[:, resolved.discrimination.codes[rows]] * worth
    return total


def residual_scales(resolved: Resolved, given: Parameters, rows: Rows = EVERY) -> Floats:
    """Return the residual scale of each score, (n, N), or (n, 1) where it is common.

    Raises
    ------
    ModelError
        For a family that has none.
    """
    if given.sigma is None:
        # Raises with the family's name.
        _ = resolved.residual_scale
    sigma = np.asarray(given.sigma)
    return sigma if resolved.residual_by is None else sigma[:, resolved.residual_by[rows]]


def log_densities(resolved: Resolved, given: Parameters, rows: Rows = EVERY) -> Floats:
    """Return the log density, or probability, of each score given all effects, (n, N).

    In the unit of the scores: of verdicts and categories a log probability.
    """
    eta = predictors(resolved, given, rows)
    score = resolved.score[rows]
    family, link = resolved.spec.family, resolved.spec.link
    if family == "bernoulli":
        sign = 2.0 * score - 1.0
        return np.asarray((log_expit if link == "logit" else log_ndtr)(sign * eta))
    if family == "davidson":
        return log_outcomes(eta, score, _tie_weight(given))
    if family == "cumulative":
        category = (score - resolved.categories[0]).astype(np.int64)
        return _log_categories(eta, category, _cutpoints_of_rows(resolved, given, rows), link)
    sigma = residual_scales(resolved, given, rows)
    z = (score - eta) / sigma
    if given.degrees is None:
        return np.asarray(-0.5 * z**2 - np.log(sigma) - 0.5 * np.log(2 * np.pi))
    nu = given.degrees[:, None]
    constant = gammaln((nu + 1) / 2) - gammaln(nu / 2) - 0.5 * np.log(nu * np.pi)
    return np.asarray(constant - np.log(sigma) - (nu + 1) / 2 * np.log1p(z**2 / nu))


def replicated_scores(
    resolved: Resolved, given: Parameters, rng: np.random.Generator, rows: Rows = EVERY
) -> Floats:
    """Draw a new score at every predictor, effects and all else as they are, (n, N)."""
    eta = predictors(resolved, given, rows)
    link = resolved.spec.link
    if resolved.spec.family == "davidson":
        return draw_outcomes(eta, _tie_weight(given), rng)
    if resolved.spec.is_latent:
        noise = rng.logistic(size=eta.shape) if link == "logit" else rng.standard_normal(eta.shape)
        eta += noise
        low = float(resolved.categories[0])
        if resolved.spec.family == "bernoulli":
            return np.asarray(low + (eta > 0.0))
        cuts = _cutpoints_of_rows(resolved, given, rows)
        above = np.full(eta.shape, low)
        for k in range(cuts.shape[-1]):
            above += eta > cuts[..., k]
        return above
    noise = rng.standard_normal(eta.shape)
    if given.degrees is not None:
        nu = given.degrees[:, None]
        noise /= np.sqrt(rng.chisquare(np.broadcast_to(nu, eta.shape)) / nu)
    return np.asarray(eta + residual_scales(resolved, given, rows) * noise)


def _tie_weight(given: Parameters) -> Floats | None:
    return None if given.tie_chance is None else tie_weight(given.tie_chance)[:, None]


def _cutpoints_of_rows(resolved: Resolved, given: Parameters, rows: Rows) -> Floats:
    """Return (n, N or 1, T) cutpoints; T = 0 where there is one category only."""
    if given.cutpoints is None:
        return np.zeros((given.n_draws, 1, 0))
    if resolved.thresholds is None:
        return given.cutpoints
    return given.cutpoints[:, resolved.thresholds.codes[rows]]


def _log_categories(eta: Floats, category: NDArray[np.int64], cuts: Floats, link: str) -> Floats:
    log_cdf = log_expit if link == "logit" else log_ndtr
    last = cuts.shape[-1]
    out = np.zeros(eta.shape)
    for k in np.unique(category):
        at = category == k
        own = cuts if cuts.shape[1] == 1 else cuts[:, at]
        here = eta[:, at]
        if last == 0:
            continue
        if k == 0:
            out[:, at] = log_cdf(own[..., 0] - here)
        elif k == last:
            out[:, at] = log_cdf(here - own[..., last - 1])
        else:
            lower, upper = own[..., k - 1] - here, own[..., k] - here
            out[:, at] = _log_between(lower, upper, link)
    return out


def _log_between(lower: Floats, upper: Floats, link: str) -> Floats:
    """Return log(F(upper) - F(lower)) of the link's distribution, whichever tail is near."""
    gap = upper - lower
    if link == "logit":
        # F(b) - F(a) = F(b) F(-a) (1 - exp(a - b)).
        with np.errstate(divide="ignore"):
            share = np.log(-np.expm1(-gap))
        return np.asarray(log_expit(upper) + log_expit(-lower) + share)
    flip = lower + upper > 0
    a, b = np.where(flip, -upper, lower), np.where(flip, -lower, upper)
    middle = 0.5 * (a + b)
    close = gap < _CLOSE * (1 + np.abs(middle))
    top = log_ndtr(b)
    with np.errstate(divide="ignore"):
        density = -0.5 * middle**2 - 0.5 * np.log(2 * np.pi) + np.log(gap)
        between = top + np.log1p(-np.exp(np.where(close, -1.0, log_ndtr(a) - top)))
    return np.asarray(np.where(close, density, between))
