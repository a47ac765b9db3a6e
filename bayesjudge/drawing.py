"""Draws from priors, and scores drawn at predictors."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayesjudge.resolution import Resolved, ResolvedTerm
from bayesjudge.response import cutpoints_of, spaced_cutpoints
from bayesjudge.spec import Prior, Scale

type Floats = NDArray[np.float64]


def draw_scale(
    name: str,
    scale: Scale,
    n_by: int,
    unit: float,
    rng: np.random.Generator,
    hyper: dict[str, float],
    fixed: Floats | None,
) -> Floats:
    """Draw one sd, or one a level, and note the hyperparameters."""
    if fixed is not None:
        return fixed
    center = draw_prior(scale.center, rng) * unit
    if not n_by:
        return np.array([center])
    spread = 0.0 if scale.spread is None else draw_prior(scale.spread, rng)
    hyper[f"{name}_center"], hyper[f"{name}_spread"] = center, spread
    return np.asarray(center * np.exp(spread * rng.standard_normal(n_by)))


def draw_prior(prior: Prior, rng: np.random.Generator) -> float:
    """Draw a positive number from its prior, or return what it is fixed at."""
    numbers = prior.parameters
    if prior.distribution == "half_normal":
        return float(abs(rng.standard_normal()) * numbers[0])
    if prior.distribution == "beta":
        return float(rng.beta(numbers[0], numbers[1]))
    if prior.distribution == "gamma":
        return float(rng.gamma(numbers[0], 1.0 / numbers[1]))
    if prior.distribution == "lognormal":
        return float(np.exp(numbers[0] + numbers[1] * rng.standard_normal()))
    return numbers[0]


def unit_effects(term: ResolvedTerm, rng: np.random.Generator) -> Floats:
    """Draw with covariance I, or I - J/L over every facet that is centred."""
    effect = rng.standard_normal(term.shape)
    for axis, centred in enumerate(term.centred):
        if centred:
            effect -= effect.mean(axis=axis, keepdims=True)
    return effect


def draw_cutpoints(resolved: Resolved, rng: np.random.Generator) -> dict[str, Any]:
    """Draw the cutpoints of a cumulative model from their prior.

    Returns
    -------
    dict
        ``cutpoints``, (T,) or one row a level of the facet they are by, and with
        these ``cutpoints_sd``; empty for models without cutpoints.
    """
    n_cutpoints = len(resolved.categories) - 1
    if resolved.spec.thresholds is None or not n_cutpoints:
        return {}
    shared = cutpoints_of(rng.dirichlet(np.ones(n_cutpoints + 1)), resolved.spec.link)
    if resolved.thresholds is None:
        return {"cutpoints": shared}
    sd = draw_prior(resolved.thresholds.deviation, rng)
    z = rng.standard_normal((len(resolved.thresholds.labels), n_cutpoints - 1))
    own = spaced_cutpoints(shared, sd * (z - z.mean(axis=0)))
    return {"cutpoints": own, "cutpoints_sd": sd}


def draw_discrimination(resolved: Resolved, rng: np.random.Generator) -> dict[str, Any]:
    """Draw the factors of what an answer is worth from their prior.

    Returns
    -------
    dict
        ``discrimination`` (levels,), with a geometric mean of 1, and
        ``discrimination_sd``; empty for models without.
    """
    given = resolved.discrimination
    if given is None:
        return {}
    sd = draw_prior(given.spread, rng)
    z = rng.standard_normal(len(given.labels))
    return {"discrimination": np.exp(sd * (z - z.mean())), "discrimination_sd": sd}


def answer_scores(
    resolved: Resolved, eta: Floats, cutpoints: Floats | None, rng: np.random.Generator
) -> Floats:
    """Draw verdicts or categories at latent predictors.

    Parameters
    ----------
    eta : (N,)
    cutpoints : (T,), (levels, T) or None
        None for verdicts, which are 1 above zero, or for a single category.

    Returns
    -------
    (N,) float array
        Of the model's categories.
    """
    noise = rng.logistic(size=eta.size) if resolved.spec.link == "logit" else None
    above = eta + (rng.standard_normal(eta.size) if noise is None else noise)
    if cutpoints is None:
        cutpoints = np.zeros(len(resolved.categories) - 1)
    if resolved.thresholds is not None:
        cutpoints = cutpoints[resolved.thresholds.codes]
    passed = np.sum(above[:, None] > cutpoints, axis=1)
    return np.asarray(resolved.categories, dtype=float)[passed]


def continuous_scores(
    resolved: Resolved,
    eta: Floats,
    truth: dict[str, Any],
    rng: np.random.Generator,
    fixed: Floats | None,
) -> Floats:
    """Add residuals to predictors, and note their scale in the truth."""
    n_by = len(resolved.residual_labels)
    sigma = draw_scale(
        "sigma", resolved.residual_scale, n_by, resolved.unit, rng, truth["hyper"], fixed
    )
    if fixed is None:
        sigma = np.sqrt(sigma**2 + resolved.noise_floor**2)
    truth["scales"]["sigma"] = sigma if n_by else float(sigma[0])
    of_row = np.zeros(eta.size, np.int64) if resolved.residual_by is None else resolved.residual_by
    residual = rng.standard_normal(eta.size)
    prior = resolved.spec.degrees_of_freedom
    if prior is not None:
        degrees = draw_prior(prior, rng)
        truth["parameters"]["degrees_of_freedom"] = degrees
        residual /= np.sqrt(rng.chisquare(degrees, eta.size) / degrees)
    return np.asarray(eta + sigma[of_row] * residual)
