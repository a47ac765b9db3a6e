"""What simulation-based calibration ranks, for a model of any family."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, ndtr, softmax
from scipy.stats import norm, t

from bayesjudge.engines.posterior import backbone_means
from bayesjudge.engines.protocol import Draws
from bayesjudge.resolution import Resolved, ResolvedTerm
from tests.calibration.sbc import truth_as_draws

type Floats = NDArray[np.float64]

LIKELIHOOD = "log likelihood"
EFFECTS = "squared effects over scales"

# Functions of many unknowns at once: ranked, and no interval is given of them.
OF_MANY = ("top-two difference", EFFECTS, LIKELIHOOD)


def truths_as_draws(resolved: Resolved, truths: Sequence[Mapping[str, Any]]) -> Draws:
    """Return truths of ``simulate_scores`` as the draws of one chain, any family's."""
    intercepts = [{"intercept": 0.0, **truth} for truth in truths]
    drawn = truth_as_draws(intercepts)
    for name in truths[0]["parameters"]:
        values = np.asarray([truth["parameters"][name] for truth in truths], dtype=float)
        drawn.parameters[name] = values[None]
    return drawn


def ranked_quantities(resolved: Resolved, draws: Draws) -> dict[str, Floats]:
    """Return what is ranked by name, each (draws,)."""
    n = draws.intercept.size

    def flat(values: Floats) -> Floats:
        return np.reshape(values, (n, *np.shape(values)[2:]))

    means = flat(backbone_means(resolved, draws))
    best_first = -np.sort(-means, axis=1)
    found = {
        "first mean": means[:, 0],
        "first difference": means[:, 0] - means[:, 1],
        "top-two difference": best_first[:, 0] - best_first[:, 1],
    }
    if resolved.spec.intercept is not None:
        found["intercept"] = draws.intercept.ravel()
    judge = "judge" if "judge" in draws.effects else "backbone_judge"
    found[f"first {judge} offset"] = flat(draws.effects[judge]).reshape(n, -1)[:, 0]
    for name, value in draws.scales.items():
        found[name] = flat(value).reshape(n, -1)[:, 0]
    for name, value in draws.hyper.items():
        if name.endswith("_spread"):
            found[name] = value.ravel()
    for name, value in draws.parameters.items():
        own = flat(value).reshape(n, -1)
        found[name if own.shape[1] == 1 else f"first of {name}"] = own[:, 0]
        if own.shape[1] > 1:
            found[f"last of {name}"] = own[:, -1]
    # Chi-square of known degrees before any data: it tells scales that do not go with effects.
    found[EFFECTS] = np.zeros(n)
    for term in resolved.terms:
        sd = flat(draws.scales[f"{term.variable}_sd"])
        found[EFFECTS] += _squares(term, flat(draws.effects[term.variable]), sd)
    found[LIKELIHOOD] = log_likelihood(resolved, draws)
    return found


def _squares(term: ResolvedTerm, effect: Floats, sd: Floats) -> Floats:
    """Return the sum of squares of a term's effects in units of their scales, (n,)."""
    by = np.zeros(term.n_levels, int) if term.by_codes is None else term.by_codes
    sds = sd.reshape(len(sd), -1)[:, by]
    return np.asarray(np.sum((effect.reshape(len(sd), -1) / sds) ** 2, axis=1))


def log_likelihood(resolved: Resolved, draws: Draws) -> Floats:
    """Return the log density of the scores given every effect, (n,), by SciPy alone."""
    return np.asarray(np.sum(log_chances(resolved, draws), axis=1))


def log_chances(resolved: Resolved, draws: Draws) -> Floats:
    """Return the log density of each score given every effect, (n, N)."""
    n = draws.intercept.size
    eta = np.broadcast_to(draws.intercept.reshape(n, 1), (n, resolved.score.size))
    factor = np.ones((n, 1))
    if resolved.discrimination is not None:
        own = draws.parameters["discrimination"].reshape(n, -1)
        factor = own[:, resolved.discrimination.codes]
    for term in resolved.terms:
        effect = draws.effects[term.variable].reshape(n, -1)
        part = effect[:, term.codes]
        if resolved.spec.is_paired and "backbone" in term.dims:
            part = part - effect[:, term.against]
        eta = eta + (part * factor if "judge" not in term.dims else part)
    for covariate in resolved.covariates:
        eta = eta + draws.parameters[f"{covariate.name}_slope"].reshape(n, 1) * covariate.values
    if resolved.spec.is_paired:
        chance = draws.parameters["tie_chance"].reshape(n, 1)
        weights = np.stack([0.0 * eta, np.log(2 * chance / (1 - chance)) + eta / 2, eta])
        outcome = np.round(2 * resolved.score).astype(int)
        return np.asarray(np.log(softmax(weights, axis=0))[outcome, :, np.arange(outcome.size)].T)
    if resolved.spec.is_latent:
        return _log_chance(resolved, draws, eta)
    by = 0 if resolved.residual_by is None else resolved.residual_by
    sigma = draws.scales["sigma"].reshape(n, -1)[:, by].reshape(n, -1)
    if resolved.spec.family == "gaussian":
        each = norm.logpdf(resolved.score, eta, sigma)
    else:
        degrees = draws.parameters["degrees_of_freedom"].reshape(n, 1)
        each = t.logpdf(resolved.score, degrees, eta, sigma)
    return np.asarray(each)


def _log_chance(resolved: Resolved, draws: Draws, eta: Floats) -> Floats:
    """Return the log probability of verdicts or categories at predictors, (n, N)."""
    n = len(eta)
    cdf = expit if resolved.spec.link == "logit" else ndtr
    cuts = np.zeros((n, 1, 1))
    if "cutpoints" in draws.parameters:
        own = draws.parameters["cutpoints"]
        cuts = own.reshape(n, -1, own.shape[-1])
    level = np.zeros(resolved.score.size, int)
    if resolved.thresholds is not None:
        level = resolved.thresholds.codes
    ends = np.full((n, cuts.shape[1], 1), np.inf)
    edges = np.concatenate([-ends, cuts, ends], axis=2)
    category = (resolved.score - resolved.categories[0]).astype(np.int64)
    lower, upper = edges[:, level, category] - eta, edges[:, level, category + 1] - eta
    # From the tail that is nearer, so that no chance is lost to rounding.
    flip = lower > 0
    chance = cdf(np.where(flip, -lower, upper)) - cdf(np.where(flip, -upper, lower))
    return np.asarray(np.log(np.maximum(chance, 1e-300)))
