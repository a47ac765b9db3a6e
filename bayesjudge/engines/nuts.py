"""NUTS on JAX.

Gaussian models sample only their scales: the effects are integrated out
(:mod:`bayesjudge.engines.marginal`) and drawn afterwards from their exact
conditional. The same model with every effect sampled, in unit-scale
coordinates, is the readable twin and serves models that cannot be split into
blocks.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpy.typing import NDArray
from numpyro.infer import MCMC, NUTS, init_to_value

from bayesjudge.engines.collapsed import Collapsed, collapse
from bayesjudge.engines.coordinates import (
    Constants,
    Frame,
    ScaleSite,
    constants,
    scale_sites,
    scales_at,
    size,
)
from bayesjudge.engines.devices import double_precision
from bayesjudge.engines.effects import Integrated
from bayesjudge.engines.importance import Curves, Proposal
from bayesjudge.engines.integrating import finish_at, integrate
from bayesjudge.engines.marginal import Moments, log_likelihood
from bayesjudge.engines.modes import Target, settle
from bayesjudge.engines.protocol import Draws, Settings
from bayesjudge.engines.sampled import draws_of_samples, kept_terms
from bayesjudge.errors import ModelError
from bayesjudge.resolution import Resolved, ResolvedTerm
from bayesjudge.scores.lines import READ_ROWS
from bayesjudge.spec import Prior

type Array = Any

# Of warm-up, whose first steps are small, and of sampling.
MAX_TREE_DEPTH = (6, 10)


def sample(resolved: Resolved, settings: Settings) -> Draws:
    """Sample the posterior of a gaussian model without covariates with NUTS."""
    if settings.integrate:
        return sample_integrated(resolved, settings)
    started = time.perf_counter()
    with double_precision(settings.platform) as note:
        draws = _sample_effects(resolved, settings)
    seconds = time.perf_counter() - started
    return replace(draws, seconds=seconds, notes=(note,) if note else ())


class ScalesData(NamedTuple):
    """What the model of the scales is conditioned on, and its coordinates.

    ``curves`` bend ``origin + axes @ q``; none for coordinates as they are.
    """

    origin: Array
    axes: Array
    curves: Curves | None
    frame: Frame
    fixed: Constants
    moments: Moments


def sample_integrated(resolved: Resolved, settings: Settings) -> Draws:
    """Sample the scales with NUTS about their mode, and draw the effects given them."""
    integrated = integrate(resolved)
    if integrated is None:
        return sample(resolved, replace(settings, integrate=False))
    start = settle(scale_sites(resolved), constants(resolved), integrated, signed=True)
    factor = np.linalg.cholesky(start.covariance)
    return _sample_scales(resolved, integrated, start.target, (start.mean, factor, None), settings)


def sample_scales(
    resolved: Resolved,
    integrated: Integrated,
    target: Target,
    proposal: Proposal,
    settings: Settings,
) -> Draws:
    """Sample the scales with NUTS in the coordinates of a proposal that nearly fits them."""
    frame = (proposal.mean, proposal.factor, proposal.curves)
    return _sample_scales(resolved, integrated, target, frame, settings)


def _sample_scales(
    resolved: Resolved,
    integrated: Integrated,
    target: Target,
    coordinates: tuple[NDArray[np.float64], NDArray[np.float64], Curves | None],
    settings: Settings,
) -> Draws:
    started = time.perf_counter()
    # What goes by JAX anyway has its cross-products already.
    collapsed = integrated if isinstance(integrated, Collapsed) else collapse(resolved)
    if collapsed is None and resolved.moments is not None:
        raise ModelError(
            "neither weighted draws nor chains of moves fit this posterior, and NUTS needs "
            "every score, of which only counts and sums by cell were kept",
            f"model {resolved.spec.name}",
            READ_ROWS,
        )
    if collapsed is None:
        return sample(resolved, replace(settings, integrate=False))
    mean, factor, curves = coordinates
    stats: dict[str, Any] = {}
    note = ""
    q = np.zeros((settings.chains, settings.draws, mean.size))
    if mean.size:
        with double_precision(settings.platform) as note:
            data = jax.tree.map(
                jnp.asarray,
                ScalesData(mean, factor, curves, target.frame, target.fixed, collapsed.moments),
            )
            run = _scales_sampler(
                target.sites, replace(settings, random_seed=0), curves is not None
            )
            samples, stats = run(jax.random.key(settings.random_seed), data)
        q, stats = np.asarray(samples["q"]), named_statistics(stats)
    x = (mean + q @ factor.T).reshape(-1, mean.size)
    if curves is not None:
        x = np.asarray(curves.bend(x)[0])
    draws = finish_at(resolved, integrated, target, x, settings)
    return replace(
        draws,
        sample_stats=stats,
        method="collapsed nuts" if stats else "conjugate",
        seconds=time.perf_counter() - started,
        notes=(note,) if note else (),
    )


def effects_model(
    sites: tuple[ScaleSite, ...],
    terms: tuple[ResolvedTerm, ...],
    resolved: Resolved,
) -> None:
    """Gaussian model with every effect sampled at unit scale (``<term>_z``)."""
    unit = resolved.unit
    intercept_width = resolved.intercept_sd
    mean = numpyro.sample("intercept", dist.Normal(resolved.location, intercept_width))
    all_sd = []
    for site, term in zip(sites, terms, strict=False):
        sd = sample_scale(site, unit)
        all_sd.append(sd)
        by = 0 if term.by_codes is None else term.by_codes
        effect = sd[by] * sample_unit_effects(term).ravel()
        numpyro.deterministic(f"{term.variable}_effect", effect.reshape(term.shape))
        mean = mean + effect[term.codes]
    numpyro.deterministic("all_sd", jnp.concatenate([*all_sd, jnp.reshape(intercept_width, (1,))]))
    sigma = sample_scale(sites[-1], unit)
    noise = numpyro.deterministic("noise_variance", sigma**2 + resolved.noise_floor**2)
    by = 0 if resolved.residual_by is None else resolved.residual_by
    numpyro.sample("scores", dist.Normal(mean, jnp.sqrt(noise)[by]).to_event(1), obs=resolved.score)


def sample_unit_effects(term: ResolvedTerm, name: str = "", wide: Array = 1.0) -> Array:
    """Sample a term's effects at unit scale inside a NumPyro model, shape ``term.shape``.

    Parameters
    ----------
    name : str
        Of the site; ``<term>_z`` by default.
    wide : array
        The scale instead of 1: one number for effects that sum to zero, or else
        one for each.
    """
    name = name or f"{term.variable}_z"
    axes = range(len(term.shape))
    zeros = [a for a in axes if term.centred[a]]
    free = [a for a in axes if not term.centred[a]]
    if not zeros:
        unit = dist.Normal(0.0, wide).expand(term.shape).to_event(len(term.shape))
        return numpyro.sample(name, unit)
    centred = dist.ZeroSumNormal(wide, tuple(term.shape[a] for a in zeros))
    unit = centred.expand([term.shape[a] for a in free]).to_event(len(free))
    return jnp.transpose(numpyro.sample(name, unit), np.argsort([*free, *zeros]).tolist())


def sample_scale(site: ScaleSite, unit: Array) -> Array:
    """Sample one scale inside a NumPyro model; shape (1,) or (n_by,)."""
    center = sample_prior(
        f"{site.name}_center" if site.n_by else site.name, site.scale.center, unit
    )
    if not site.n_by:
        return jnp.reshape(center, (1,))
    spread = sample_prior(f"{site.name}_spread", site.spread, 1.0)
    z = numpyro.sample(f"{site.name}_z", dist.Normal(0.0, 1.0).expand([site.n_by]).to_event(1))
    return center * jnp.exp(spread * z)


def sample_prior(name: str, prior: Prior, unit: Array) -> Array:
    """Sample a positive number inside a NumPyro model, or return what it is fixed at."""
    if prior.distribution == "fixed":
        return jnp.asarray(prior.parameters[0] * unit)
    if prior.distribution == "lognormal":
        mu, spread = prior.parameters
        return numpyro.sample(name, dist.LogNormal(mu + jnp.log(unit), spread))
    return numpyro.sample(name, dist.HalfNormal(prior.parameters[0] * unit))


def scales_density(q: Array, data: ScalesData, sites: tuple[ScaleSite, ...], bent: bool) -> Array:
    """Return the log density of the scales' coordinates q (D,), effects integrated out."""
    x, log_slope = data.origin + data.axes @ q, jnp.zeros(())
    if bent and data.curves is not None:
        x, log_slope = data.curves.bend(x, jnp)
    scales = scales_at(x, sites, data.frame, data.fixed, jnp)
    value = scales.log_prior + log_likelihood(scales.sd, scales.noise, data.moments)
    return value + log_slope


@lru_cache(maxsize=8)
def _scales_sampler(
    sites: tuple[ScaleSite, ...], settings: Settings, bent: bool
) -> Callable[[Array, ScalesData], tuple[Any, Any]]:
    """Return a function of a key and data that runs the chains; samples and statistics.

    It is compiled once for all tables of one shape: NumPyro's own loop would be
    compiled in each run. With a progress bar it is.
    """
    n = size(sites)
    flat = dist.ImproperUniform(dist.constraints.real_vector, (), (n,))

    def model(data: ScalesData) -> None:
        q = numpyro.sample("q", flat)
        numpyro.factor("density", scales_density(q, data, sites, bent))

    def run(key: Array, data: ScalesData) -> tuple[Any, Any]:
        mcmc = _mcmc(model, {"q": np.zeros(n)}, settings, jit_model_args=True)
        return run_chains(mcmc, key, data)

    return run if settings.progress else jax.jit(run)


def _mcmc(
    model: Callable[..., None],
    initial: dict[str, Any],
    settings: Settings,
    jit_model_args: bool,
) -> MCMC:
    kernel = NUTS(
        model,
        max_tree_depth=MAX_TREE_DEPTH,
        target_accept_prob=settings.target_accept,
        dense_mass=False,
        init_strategy=init_to_value(values=initial),
    )
    return chains_of(kernel, settings, jit_model_args)


def chains_of(kernel: NUTS, settings: Settings, jit_model_args: bool = False) -> MCMC:
    """Return the chains that the settings ask for.

    They run side by side in one program: on separate CPU devices the many small
    operations of two chains wait for one another (twice as slow).
    """
    return MCMC(
        kernel,
        num_warmup=settings.tune,
        num_samples=settings.draws,
        num_chains=settings.chains,
        chain_method="vectorized",
        progress_bar=settings.progress,
        jit_model_args=jit_model_args,
    )


_STATS = ("diverging", "num_steps", "accept_prob", "potential_energy", "energy")


def run_mcmc(
    mcmc: MCMC, settings: Settings, *args: Any, init_params: Any = None
) -> tuple[Any, dict[str, Any]]:
    """Run the chains; samples by site and statistics, (chain, draw, ...)."""
    key = jax.random.key(settings.random_seed)
    samples, stats = run_chains(mcmc, key, *args, init_params=init_params)
    return samples, named_statistics(stats)


def run_chains(mcmc: MCMC, key: Array, *args: Any, init_params: Any = None) -> tuple[Any, Any]:
    """Run the chains from a key; NumPyro's samples and statistics, (chain, draw, ...)."""
    mcmc.run(key, *args, extra_fields=_STATS, init_params=init_params)
    return mcmc.get_samples(group_by_chain=True), mcmc.get_extra_fields(group_by_chain=True)


def named_statistics(stats: Any) -> dict[str, Any]:
    """Return NumPyro's statistics by the names that draws have them by."""
    return {
        "diverging": np.asarray(stats["diverging"], bool),
        "n_steps": np.asarray(stats["num_steps"]),
        "acceptance_rate": np.asarray(stats["accept_prob"]),
        "lp": -np.asarray(stats["potential_energy"]),
        "energy": np.asarray(stats["energy"]),
    }


def _sample_effects(resolved: Resolved, settings: Settings) -> Draws:
    sites = scale_sites(resolved)

    def model() -> None:
        effects_model(sites, resolved.terms, resolved)

    samples, stats = run_mcmc(_mcmc(model, {}, settings, jit_model_args=False), settings)
    kept = {f"{t.variable}_effect" for t in kept_terms(resolved, settings)}
    samples = {n: v for n, v in samples.items() if n in kept or not n.endswith("_effect")}
    return draws_of_samples(resolved, samples, stats)
