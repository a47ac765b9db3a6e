"""The Laplace engine: importance draws of a latent family's scales, effects with them.

For verdicts and categories, as the exact engine is for gaussian scores. The effects'
normal approximation proposes, and unbiased estimates of the likelihood weigh
(:mod:`bayesjudge.engines.nested`): weighted draws have the exact posterior, and
Pareto k and effective sizes say whether there are enough of them. Where they do not
pass, or the model has no blocks of scenarios, NUTS samples it.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from bayesjudge.engines.convergence import ESS_LIMIT, PARETO_K_LIMIT
from bayesjudge.engines.coordinates import blocks as blocks_of
from bayesjudge.engines.coordinates import scales_at
from bayesjudge.engines.effects import name_scales
from bayesjudge.engines.importance import (
    Proposal,
    adapt,
    first_proposal,
    kish_ess,
    pareto_smooth,
    resample,
    weighted_sizes,
)
from bayesjudge.engines.latent_blocks import LatentBlocks, lay_blocks
from bayesjudge.engines.latent_effects import effects_of
from bayesjudge.engines.latent_target import LatentStart, LatentTarget, chunks, settle_latent
from bayesjudge.engines.protocol import Draws, Settings
from bayesjudge.engines.sampled import kept_terms
from bayesjudge.engines.unbiased import SharedDraws, learned_draws
from bayesjudge.errors import ModelError
from bayesjudge.resolution import Resolved
from bayesjudge.response import cutpoints_from_stops

type Floats = NDArray[np.float64]

FAMILIES = ("bernoulli", "cumulative")

# Variance of a log-likelihood's estimate that is worth no more draws of the effects.
_VARIANCE = 0.6
_LEAST_DRAWS, _MOST_DRAWS, _MOST_TABULATED = 4, 32, 64
_PILOTS = 12

# Estimates that the surrogate learns from at a time, of tables whose leaves and
# scenarios have few numbers in all and of others, and how often.
_CHEAP = 20_000
_LESSONS, _COSTLY_LESSONS = 500, 250
_LEAST_LESSONS, _MOST_LESSONS = 2, 6

# Share of estimates that count, weighted as final draws will be: the surrogate knows enough.
_LEARNED = 0.3

# Past so many the next lesson must be worth this many times the best before, or they end;
# estimates above this quantile count no more than it.
_PATIENT_LESSONS, _BETTER, _OUTLYING = 4, 1.1, 0.98

# Estimates whose slopes say where shared effects are drawn to begin with.
_SLOPES = 60

# Draws of a lesson's estimates, at most, and how far below, for each coordinate, those lie
# that tell of shared effects.
_LESSON_DRAWS, _NEAR = 32, 2.0

# Weighted draws: at once, and at most.
_AT_ONCE, _COSTLY_AT_ONCE = 2000, 500
_MOST, _MOST_COSTLY = 24_000, 12_000
_WANTED_ESS, _WANTED_COSTLY = 1000, 600

# Added to scales before their logarithm is looked at.
_SMALL = 0.05

# Where fewer draws than this count, more would not mend it.
_LEAST_EFFICIENCY = 0.01

# Share of the effective size, or of that wanted, that every scale must keep.
_LEAST_SHARE = 0.25


def sample(resolved: Resolved, settings: Settings) -> Draws:
    """Draw from the posterior of a model of verdicts or categories.

    Raises
    ------
    ModelError
        For a family other than bernoulli or cumulative.
    """
    if resolved.spec.family not in FAMILIES:
        raise ModelError(
            f"the laplace engine does not fit family {resolved.spec.family!r}",
            f"model {resolved.spec.name}",
            "It is for verdicts and categories; leave the engine to be chosen",
        )
    started = time.perf_counter()
    blocks = lay_blocks(resolved)
    if isinstance(blocks, str):
        return _by_nuts(resolved, settings, started, f"it does not take {blocks}")
    passed = time.perf_counter() - started
    rng = np.random.default_rng(settings.random_seed)
    try:
        start = settle_latent(resolved, blocks)
        found = _weighted(rng, resolved, blocks, start, settings)
    except np.linalg.LinAlgError:
        return _by_nuts(resolved, settings, started, "no normal density was like the posterior")
    if not found.fits:
        reason = f"weights did not fit (Pareto k {found.pareto_k:.2f}, ESS {found.ess:.0f})"
        return _by_nuts(resolved, settings, started, reason)
    draws = _finish(rng, resolved, start, found, settings)
    return replace(draws, seconds=time.perf_counter() - started, pass_seconds=passed)


def _by_nuts(resolved: Resolved, settings: Settings, started: float, reason: str) -> Draws:
    from bayesjudge.engines.families import sample_family

    draws = sample_family(resolved, settings)
    note = f"the laplace engine left this fit to NUTS: {reason}"
    seconds = time.perf_counter() - started
    return replace(draws, notes=(*draws.notes, note), seconds=seconds)


@dataclass(frozen=True, eq=False)
class _Weighted:
    """Draws x (n, D), their estimated densities, log weights and effects.

    ``ess`` is the effective size of the draws that will be kept, ``least_known`` that of
    all weighted draws for the quantity whose mean or spread they know least.
    """

    x: Floats
    log_density: Floats
    log_weight: Floats
    pareto_k: float
    ess: float
    least_known: float
    intercept: Floats
    effects: dict[str, Floats]

    @property
    def fits(self) -> bool:
        size = kish_ess(self.log_weight)
        return (
            self.pareto_k <= PARETO_K_LIMIT
            and size >= ESS_LIMIT
            and self.ess >= ESS_LIMIT
            and self.least_known >= _LEAST_SHARE * min(size, _WANTED_ESS)
        )


def _weighted(
    rng: np.random.Generator,
    resolved: Resolved,
    blocks: LatentBlocks,
    start: LatentStart,
    settings: Settings,
) -> _Weighted:
    target = start.target
    costly = blocks.predictor.size + blocks.own.size > _CHEAP
    n_draws = _enough_draws(rng, target, start.mean)
    coordinates = np.zeros(start.mean.size, np.int64)
    of_scales = blocks_of(target.sites)
    coordinates[: of_scales.size] = of_scales

    n_lessons = _COSTLY_LESSONS if costly else _LESSONS
    d = start.mean.size
    lessons: list[_Lesson] = []
    proposal, best = first_proposal(start.mean, start.covariance), 0.0
    for done in range(1, _MOST_LESSONS + 1):
        proposal = adapt(
            rng,
            target.log_density,
            proposal,
            coordinates,
            int(np.clip(d**2, 750, 2000)),
            (min(4 + d // 4, 16), 16),
        )
        if not lessons:
            # Noise of first estimates is mostly of shared effects drawn in the wrong place.
            pilot = _lesson(rng, target, proposal.draw(rng, _SLOPES), n_draws)
            target = replace(target, shared=_shared_draws([pilot]))
        lessons.append(_lesson(rng, target, proposal.draw(rng, n_lessons), n_draws))
        log_ratio = lessons[-1].value - proposal.log_density(lessons[-1].y)
        target = _taught(target, lessons)
        # A few outliers, which the next lesson will know, are not to say that it is all in vain.
        log_ratio = np.minimum(log_ratio, np.quantile(log_ratio, _OUTLYING))
        count = kish_ess(log_ratio - logsumexp(log_ratio))
        if done >= _LEAST_LESSONS and count >= _LEARNED * n_lessons:
            break
        if done >= _PATIENT_LESSONS and count < _BETTER * best:
            break
        best = max(best, count)
    proposal = adapt(rng, target.log_density, proposal, coordinates, 2000, (4, 12))
    return _final(rng, resolved, blocks, target, proposal, n_draws, settings, costly)


@dataclass(frozen=True, eq=False)
class _Lesson:
    """Log densities (n,) at y (n, D), estimates and by Laplace, and slopes of shared effects."""

    y: Floats
    value: Floats
    laplace: Floats
    natural: Floats
    unit: Floats
    slope: Floats


def _lesson(rng: np.random.Generator, target: LatentTarget, y: Floats, n_draws: int) -> _Lesson:
    found = [
        target.estimate(y[rows], rng, min(n_draws, _LESSON_DRAWS), sloped=True)
        for rows in chunks(target.nested, len(y))
    ]
    parts = [
        (one.value, one.laplace, one.natural, one.drawn.unit, one.drawn.slope) for one in found
    ]
    return _Lesson(y, *(np.concatenate(part) for part in zip(*parts, strict=True)))


def _taught(target: LatentTarget, lessons: list[_Lesson]) -> LatentTarget:
    """Let the surrogate and the draws of shared effects learn from estimates of the density."""
    y, value, laplace = (
        np.concatenate([getattr(one, name) for one in lessons])
        for name in ("y", "value", "laplace")
    )
    prior, sd, stops = target.parts(y)
    # What lies far below says little of where the posterior is.
    below = np.maximum(value.max() - value - y.shape[1], 0.0)
    known = np.isfinite(value) & np.isfinite(laplace)
    surrogate = target.surrogate.taught(
        sd[known],
        None if stops is None else stops[known],
        (laplace - prior)[known],
        (value - prior)[known],
        below[known],
    )
    return replace(target, surrogate=surrogate, shared=_shared_draws(lessons))


def _shared_draws(lessons: list[_Lesson]) -> SharedDraws:
    """Fit draws of shared effects to lessons, but for those far from where the posterior is."""
    natural, unit, slope = (
        np.concatenate([getattr(one, name) for one in lessons])
        for name in ("natural", "unit", "slope")
    )
    near = np.concatenate(
        [one.value > np.median(one.value) - _NEAR * one.y.shape[1] for one in lessons]
    )
    near &= np.isfinite(slope).all(axis=1)
    return learned_draws(natural[near], unit[near], slope[near])


def _enough_draws(rng: np.random.Generator, target: LatentTarget, mean: Floats) -> int:
    """Return how many draws of the effects make estimates vary little enough, a power of 2."""
    n_draws = _LEAST_DRAWS
    rows = np.repeat(mean[None], _PILOTS, axis=0)
    most = _MOST_DRAWS if target.nested.curves is None else _MOST_TABULATED
    while n_draws < most:
        found = [
            target.estimate(rows[some], rng, n_draws, still=True).value
            for some in chunks(target.nested, len(rows))
        ]
        if np.var(np.concatenate(found)) <= _VARIANCE:
            break
        n_draws *= 2
    return n_draws


def _final(
    rng: np.random.Generator,
    resolved: Resolved,
    blocks: LatentBlocks,
    target: LatentTarget,
    proposal: Proposal,
    n_draws: int,
    settings: Settings,
    costly: bool,
) -> _Weighted:
    """Draw until the weights carry the effective size wanted, or more would be a waste."""
    terms, n = kept_terms(resolved, settings), settings.chains * settings.draws
    at_once, most = (_COSTLY_AT_ONCE, _MOST_COSTLY) if costly else (_AT_ONCE, _MOST)
    wanted = min(_WANTED_COSTLY if costly else _WANTED_ESS, 0.6 * n)
    ys, values, ratios, intercepts = [], [], [], []
    effects: dict[str, list[Floats]] = {t.variable: [] for t in terms}
    while True:
        y = proposal.draw(rng, at_once)
        value = np.empty(len(y))
        for rows in chunks(target.nested, len(y)):
            one = target.estimate(y[rows], rng, n_draws)
            value[rows] = one.value
            stops = y[rows, -target.n_stops :] if target.n_stops else None
            intercept, drawn = effects_of(
                resolved, blocks, target.nested, one.sd, stops, one.drawn, terms, rng
            )
            intercepts.append(intercept)
            for name, effect in drawn.items():
                effects[name].append(effect)
        ys.append(y)
        values.append(value)
        ratios.append(value - proposal.log_density(y))
        every, log_ratio = np.vstack(ys), np.concatenate(ratios)
        log_weight, pareto_k = pareto_smooth(log_ratio)
        reported = _reported(target, every)
        ess, least_known = weighted_sizes(log_weight, reported, (n, None))
        hopeless = least_known < _LEAST_EFFICIENCY * len(every)
        if ess >= wanted or len(every) >= most or hopeless:
            break
    return _Weighted(
        every,
        np.concatenate(values),
        log_weight,
        pareto_k,
        ess,
        least_known,
        np.concatenate(intercepts),
        {name: np.concatenate(parts) for name, parts in effects.items()},
    )


def _reported(target: LatentTarget, y: Floats) -> Floats:
    """Return what users see by columns: scales, spreads of those by a facet, cutpoints' log-odds.

    On the logarithm: the tails of scales by a facet are so heavy that their mean squares
    settle in no number of draws, and quantiles do.
    """
    _, sd, stops = target.parts(y)
    hyper = scales_at(y, target.sites, target.frame, target.fixed).hyper.values()
    logs = [np.log(value + _SMALL) for value in hyper]
    return np.column_stack([target.surrogate.natural(sd, stops), *logs])


def _finish(
    rng: np.random.Generator,
    resolved: Resolved,
    start: LatentStart,
    found: _Weighted,
    settings: Settings,
) -> Draws:
    """Keep draws by their weights, and name what they hold."""
    target, shape = start.target, (settings.chains, settings.draws)
    chosen = resample(rng, found.log_weight, settings.chains * settings.draws)
    x = found.x[chosen]
    scales = scales_at(x, target.sites, target.frame, target.fixed)
    parameters = {}
    if target.n_stops:
        cuts = cutpoints_from_stops(x[:, -target.n_stops :], resolved.spec.link)
        parameters["cutpoints"] = cuts.reshape(*shape, -1)
    return Draws(
        scales=name_scales(resolved, scales.sd, None, shape),
        hyper={name: value.reshape(shape) for name, value in scales.hyper.items()},
        intercept=found.intercept[chosen].reshape(shape),
        effects={
            name: value[chosen].reshape(*shape, *value.shape[1:])
            for name, value in found.effects.items()
        },
        sample_stats={"lp": found.log_density[chosen].reshape(shape)},
        method="importance",
        pareto_k=found.pareto_k,
        weighted_ess=found.ess,
        parameters=parameters,
    )
