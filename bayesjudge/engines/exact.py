"""The exact engine for gaussian models: importance draws of the scales, exact effects.

Given the scales every effect is Gaussian and integrates out. What is left has
some ten to a hundred dimensions, and in the coordinates of
:mod:`bayesjudge.engines.coordinates` nearly the shape of a normal density.
Pareto-smoothed weights say how well the proposal fits; where they say it does
not, NUTS samples the same density instead.
"""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np

from bayesjudge.engines.convergence import ESS_LIMIT, PARETO_K_LIMIT
from bayesjudge.engines.coordinates import blocks, constants, scale_sites, scales_at, size
from bayesjudge.engines.effects import Integrated
from bayesjudge.engines.importance import (
    Floats,
    Proposal,
    adapt,
    first_proposal,
    kish_ess,
    pareto_smooth,
    resample,
    weighted_ess,
)
from bayesjudge.engines.integrating import finish, integrate
from bayesjudge.engines.modes import Start, Target, settle
from bayesjudge.engines.protocol import Draws, Settings
from bayesjudge.errors import ModelError
from bayesjudge.resolution import Resolved

_ADAPTING_DRAWS = 2000
_DRAWS_A_DIMENSION = 60
_ROUNDS = (3, 12)
_ATTEMPTS = 3
_FIRST_DRAWS = 10_000
_MOST_DRAWS = 80_000
_WANTED_ESS = 2000


def sample(resolved: Resolved, settings: Settings) -> Draws:
    """Draw from the posterior of a gaussian model.

    Raises
    ------
    ModelError
        For a family other than gaussian.
    """
    if resolved.spec.family != "gaussian":
        raise ModelError(
            f"the exact engine does not fit family {resolved.spec.family!r}",
            f"model {resolved.spec.name}",
            "It integrates Gaussian effects out; use a gaussian model",
        )
    started = time.perf_counter()
    integrated = integrate(resolved)
    if integrated is None:
        from bayesjudge.engines.nuts import sample as sample_nuts

        return sample_nuts(resolved, replace(settings, integrate=False))
    draws = _sample_scales(resolved, integrated, settings)
    return replace(draws, seconds=time.perf_counter() - started)


def _sample_scales(resolved: Resolved, integrated: Integrated, settings: Settings) -> Draws:
    sites, fixed = scale_sites(resolved), constants(resolved)
    rng = np.random.default_rng(settings.random_seed)
    if size(sites) == 0:
        # Every scale is fixed: the effects' conditional is the posterior.
        start = settle(sites, fixed, integrated)
        x = np.zeros((settings.chains * settings.draws, 0))
        return replace(_finish(resolved, integrated, start.target, x, settings), method="conjugate")
    start = settle(sites, fixed, integrated)
    found = _importance_draws(rng, start, settings.chains * settings.draws)
    if found is None:
        from bayesjudge.engines.nuts import sample_integrated

        return sample_integrated(resolved, settings)
    x, log_density, pareto_k, ess = found
    draws = _finish(resolved, integrated, start.target, x, settings)
    return replace(
        draws,
        sample_stats={"lp": log_density.reshape(settings.chains, settings.draws)},
        method="importance",
        pareto_k=pareto_k,
        weighted_ess=ess,
    )


def _importance_draws(
    rng: np.random.Generator, start: Start, n: int
) -> tuple[Floats, Floats, float, float] | None:
    """Return n draws, the target there, Pareto k and ESS; None where they fail."""
    target, proposal = start.target, first_proposal(start.mean, start.covariance)
    n_adapting = max(_ADAPTING_DRAWS, _DRAWS_A_DIMENSION * start.mean.size)
    for _ in range(_ATTEMPTS):
        proposal = adapt(
            rng, target.log_density, proposal, blocks(target.sites), n_adapting, _ROUNDS
        )
        y, log_density, log_weight, pareto_k = _final_draws(rng, target, proposal)
        ess = weighted_ess(log_weight, y)
        if pareto_k <= PARETO_K_LIMIT and ess >= ESS_LIMIT:
            chosen = resample(rng, log_weight, n)
            return y[chosen], log_density[chosen], pareto_k, ess
    return None


def _final_draws(
    rng: np.random.Generator, target: Target, proposal: Proposal
) -> tuple[Floats, Floats, Floats, float]:
    """Draw until the weights carry the effective size wanted, or the budget is spent."""
    y = proposal.draw(rng, _FIRST_DRAWS)
    log_density = target.log_density(y)
    log_ratio = log_density - proposal.log_density(y)
    while True:
        log_weight, pareto_k = pareto_smooth(log_ratio)
        enough = kish_ess(log_weight) >= _WANTED_ESS or len(y) >= _MOST_DRAWS
        # More draws of a proposal that does not fit would not mend it.
        if enough or pareto_k > PARETO_K_LIMIT:
            return y, log_density, log_weight, pareto_k
        more = proposal.draw(rng, len(y))
        value = target.log_density(more)
        y, log_density = np.vstack([y, more]), np.concatenate([log_density, value])
        log_ratio = np.concatenate([log_ratio, value - proposal.log_density(more)])


def _finish(
    resolved: Resolved, integrated: Integrated, target: Target, x: Floats, settings: Settings
) -> Draws:
    scales = scales_at(x, target.sites, target.frame, target.fixed)
    return finish(
        resolved,
        integrated,
        scales.sd,
        scales.noise,
        scales.hyper,
        (settings.chains, settings.draws),
        settings.random_seed,
        settings.nested_effects,
    )
