"""The exact engine for gaussian models: importance draws of the scales, exact effects.

Given the scales every effect is Gaussian and integrates out. What is left has
some ten to a hundred dimensions, and in the coordinates of
:mod:`bayesjudge.engines.coordinates` nearly the shape of a normal density.
Pareto-smoothed weights say how well the proposal fits. Where they say it does
not, many short Markov chains start from its draws, and where those do not mix
NUTS samples the same density.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from bayesjudge.engines.convergence import ESS_LIMIT, PARETO_K_LIMIT
from bayesjudge.engines.coordinates import (
    Scales,
    blocks,
    constants,
    groups,
    scale_sites,
    scales_at,
    size,
)
from bayesjudge.engines.effects import Integrated
from bayesjudge.engines.importance import (
    Floats,
    Ints,
    Proposal,
    adapt,
    first_proposal,
    kish_ess,
    pareto_smooth,
    resample,
    weighted_sizes,
)
from bayesjudge.engines.integrating import finish_at, finish_with, integrate
from bayesjudge.engines.modes import Start, Target, settle
from bayesjudge.engines.moving import move
from bayesjudge.engines.protocol import Draws, Settings
from bayesjudge.errors import ModelError
from bayesjudge.resolution import Resolved

# Draws of an adapting round, a squared dimension: what a covariance matrix takes, within
# limits; and the effective share of them that is good enough.
_ADAPTING, _LEAST_ADAPTING, _MOST_ADAPTING = 2.5, 750, 2000
_GOOD_SHARE = 0.5
_LEAST_ROUNDS, _MOST_ROUNDS = 4, 16
_ATTEMPTS = 2

# Weights of which fewer count are adapted further, not drawn more of.
_LEAST_EFFICIENCY = 0.05
_DRAWS_AT_ONCE, _CHEAP_DRAWS_AT_ONCE = 4000, 8000
_MOST_DRAWS = 96_000
_WANTED_ESS, _WANTED_DISTINCT = 1500, 2000

# Share of the weights' effective size that every scale's mean and spread must keep.
# Below it few heavy weights make up a scale's tail, which the proposal hardly
# reaches: more of its draws would mend that too slowly, and Pareto k not see it.
_LEAST_SHARE = 0.25


def sample(resolved: Resolved, settings: Settings) -> Draws:
    """Draw from the posterior of a gaussian model.

    Raises
    ------
    ModelError
        For a family other than gaussian, covariates or discrimination.
    """
    if resolved.spec.family != "gaussian":
        raise ModelError(
            f"the exact engine does not fit family {resolved.spec.family!r}",
            f"model {resolved.spec.name}",
            "It integrates Gaussian effects out; use a gaussian model",
        )
    if resolved.covariates:
        raise ModelError(
            "the exact engine takes no covariates",
            f"model {resolved.spec.name}",
            "Use --engine numpyro, or leave the engine to be chosen",
        )
    if resolved.discrimination is not None:
        raise ModelError(
            "the exact engine takes no discrimination, by which effects are multiplied",
            f"model {resolved.spec.name}",
            "Use --engine numpyro, or leave the engine to be chosen",
        )
    started = time.perf_counter()
    integrated = integrate(resolved)
    passed = time.perf_counter() - started
    if integrated is None:
        from bayesjudge.engines.nuts import sample as sample_nuts

        return sample_nuts(resolved, replace(settings, integrate=False))
    draws = _sample_scales(resolved, integrated, settings)
    return replace(draws, seconds=time.perf_counter() - started, pass_seconds=passed)


def _sample_scales(resolved: Resolved, integrated: Integrated, settings: Settings) -> Draws:
    sites, fixed = scale_sites(resolved), constants(resolved)
    rng = np.random.default_rng(settings.random_seed)
    start = settle(sites, fixed, integrated)
    if size(sites) == 0:
        # Every scale is fixed: the effects' conditional is the posterior.
        x = np.zeros((settings.chains * settings.draws, 0))
        return replace(
            finish_at(resolved, integrated, start.target, x, settings), method="conjugate"
        )
    scales = scales_at(_about(rng, start), sites, start.target.frame, fixed)
    integrated = integrated.near(scales.sd, scales.noise)
    start = replace(start, target=replace(start.target, likelihood=integrated))
    n = settings.chains * settings.draws
    rough = replace(start.target, likelihood=integrated.rough(scales.sd, scales.noise))
    found = _weighted_draws(rng, start, rough, n)
    if not found.fits:
        return _moved_draws(rng, resolved, integrated, start.target, found, settings)
    chosen = resample(rng, found.log_weight, n)
    draws = finish_with(resolved, integrated, _some_of(found.scales, chosen), settings)
    stats = {"lp": found.log_density[chosen].reshape(settings.chains, settings.draws)}
    return replace(
        draws,
        sample_stats=stats,
        method="importance",
        pareto_k=found.pareto_k,
        weighted_ess=found.ess,
    )


def _moved_draws(
    rng: np.random.Generator,
    resolved: Resolved,
    integrated: Integrated,
    target: Target,
    found: _Weighted,
    settings: Settings,
) -> Draws:
    """Let chains from the weighted draws do what weights cannot, else NUTS."""
    shape = (settings.chains, settings.draws)
    start = found.y[resample(rng, found.log_weight, settings.chains * settings.draws)]
    moved = move(
        rng,
        target.log_density,
        partial(_reported, target),
        found.proposal,
        start,
        groups(target.sites),
        blocks(target.sites),
        shape,
    )
    if not moved.mixed:
        from bayesjudge.engines.nuts import sample_scales

        return sample_scales(resolved, integrated, target, found.proposal, settings)
    draws = finish_at(
        resolved, integrated, target, moved.y.reshape(-1, moved.y.shape[-1]), settings
    )
    return replace(draws, sample_stats={"lp": moved.log_density}, method="resample-move")


def _about(rng: np.random.Generator, start: Start) -> Floats:
    """Return draws from the normal approximation, for where the posterior lies."""
    unit = rng.standard_normal((500, start.mean.size))
    return np.asarray(start.mean + unit @ np.linalg.cholesky(start.covariance).T)


@dataclass(frozen=True, eq=False)
class _Weighted:
    """Draws y (n, D) of a proposal, the target and the scales there, their weights, and their fit.

    ``ess`` is the effective size of the draws that will be kept, ``least_known`` that of
    all weighted draws for the scale whose mean or spread they know least.
    """

    proposal: Proposal
    y: Floats
    log_density: Floats
    scales: Scales
    log_weight: Floats
    pareto_k: float
    ess: float
    least_known: float

    @property
    def efficiency(self) -> float:
        return self.least_known / len(self.y)

    @property
    def fits(self) -> bool:
        size = kish_ess(self.log_weight)
        return (
            self.pareto_k <= PARETO_K_LIMIT
            and size >= ESS_LIMIT
            and self.least_known >= _LEAST_SHARE * size
        )


def _weighted_draws(rng: np.random.Generator, start: Start, rough: Target, n: int) -> _Weighted:
    """Return draws whose weights pass their checks, or those of the last proposal tried.

    The proposal is adapted to a rough target; the weights are those of the target.
    """
    target, proposal = start.target, first_proposal(start.mean, start.covariance)
    d = start.mean.size
    n_adapting = int(np.clip(_ADAPTING * d**2, _LEAST_ADAPTING, _MOST_ADAPTING))
    rounds = (min(_LEAST_ROUNDS + d // 6, _MOST_ROUNDS), _MOST_ROUNDS)
    apart = blocks(target.sites)
    for attempt in range(1, _ATTEMPTS + 1):
        # One that did not do is fitted for as long as that helps.
        enough = _GOOD_SHARE if attempt == 1 else 1.0
        proposal = adapt(rng, rough.log_density, proposal, apart, n_adapting, rounds, enough)
        found = _final_draws(rng, target, proposal, n, last=attempt == _ATTEMPTS)
        if found.fits and found.efficiency >= _LEAST_EFFICIENCY:
            break
    return found


def _final_draws(
    rng: np.random.Generator, target: Target, proposal: Proposal, n: int, last: bool
) -> _Weighted:
    """Draw until the weights carry the effective size wanted, or more would be a waste."""
    parts: list[tuple[Floats, Floats, Floats, Scales]] = []
    n_done = 0
    at_once = _DRAWS_AT_ONCE if target.likelihood.costly else _CHEAP_DRAWS_AT_ONCE
    while True:
        more, own = proposal.draw_known(rng, n_done // 2 or at_once)
        value, known = target.known_at(more)
        parts.append((more, value, value - own, known))
        n_done += len(more)
        log_ratio = np.concatenate([part[2] for part in parts])
        scales = _together([part[3] for part in parts])
        log_weight, pareto_k = pareto_smooth(log_ratio)
        ess, least_known = weighted_sizes(log_weight, _columns(scales), (n, None))
        # More draws of a proposal that does not fit would not mend it.
        wanted = _WANTED_ESS / 2 if target.likelihood.costly else _WANTED_ESS
        distinct = float(np.minimum(1.0, n * np.exp(log_weight)).sum())
        enough = ess >= min(wanted, 0.6 * n) and distinct >= min(_WANTED_DISTINCT, 0.5 * n)
        enough = enough or n_done >= _MOST_DRAWS
        wasted = least_known < _LEAST_EFFICIENCY * n_done and not last
        if enough or wasted or pareto_k > PARETO_K_LIMIT:
            y = np.concatenate([part[0] for part in parts])
            density = np.concatenate([part[1] for part in parts])
            return _Weighted(proposal, y, density, scales, log_weight, pareto_k, ess, least_known)


def _reported(target: Target, y: Floats) -> Floats:
    """Return the scales that users see, and the spreads of those by a facet, by columns."""
    return _columns(scales_at(y, target.sites, target.frame, target.fixed))


def _columns(scales: Scales) -> Floats:
    """Return scales as columns, (n, D), the numbers of one of them together."""
    return np.vstack([scales.sd.T, np.sqrt(scales.noise.T), *scales.hyper.values()]).T


def _together(parts: list[Scales]) -> Scales:
    """Put draws under one another."""
    return Scales(
        np.concatenate([part.sd for part in parts]),
        np.concatenate([part.noise for part in parts]),
        np.concatenate([part.log_prior for part in parts]),
        {name: np.concatenate([part.hyper[name] for part in parts]) for name in parts[0].hyper},
    )


def _some_of(scales: Scales, rows: Ints) -> Scales:
    """Return the scales of some draws."""
    hyper = {name: value[rows] for name, value in scales.hyper.items()}
    return Scales(scales.sd[rows], scales.noise[rows], scales.log_prior[rows], hyper)
