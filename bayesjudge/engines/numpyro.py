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
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpy.typing import NDArray
from numpyro.infer import MCMC, NUTS, init_to_value

from bayesjudge.engines.cross_products import (
    CrossProducts,
    Layout,
    cross_products,
    lay_out,
    sd_offsets,
)
from bayesjudge.engines.marginal import Moments, draw_effects, moments
from bayesjudge.engines.protocol import Draws, Settings
from bayesjudge.engines.scales import (
    Data,
    Frame,
    ScaleSite,
    choose_frame,
    constrain,
    sample_scale,
    scale_sites,
    scales_potential,
    unit_scale,
)
from bayesjudge.errors import ModelError
from bayesjudge.resolution import Resolved, ResolvedTerm

type Array = Any

# Beyond this many operations an evaluation, sampling every effect is cheaper.
_MOST_OPERATIONS = 3e8


def sample(resolved: Resolved, settings: Settings) -> Draws:
    """Sample the posterior of a gaussian model with NUTS.

    Raises
    ------
    ModelError
        For a family other than gaussian.
    """
    if resolved.spec.family != "gaussian":
        raise ModelError(
            f"family {resolved.spec.family!r} cannot be fitted yet",
            f"model {resolved.spec.name}",
            "Use a gaussian model",
        )
    started = time.perf_counter()
    with jax.enable_x64(True):
        layout = lay_out(resolved) if settings.integrate else None
        products = None if layout is None else cross_products(resolved, layout)
        if layout is None or products is None or products.cost > _MOST_OPERATIONS:
            return _sample_effects(resolved, settings, started)
        return _sample_scales(resolved, settings, layout, products, started)


def effects_model(
    sites: tuple[ScaleSite, ...],
    terms: tuple[ResolvedTerm, ...],
    resolved: Resolved,
) -> None:
    """Gaussian model with every effect sampled at unit scale (``<term>_z``)."""
    unit = resolved.unit
    intercept_width = _intercept_sd(resolved)
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


def sample_unit_effects(term: ResolvedTerm) -> Array:
    """Sample a term's effects at unit scale inside a NumPyro model, shape ``term.shape``."""
    name = f"{term.variable}_z"
    axes = range(len(term.shape))
    zeros = [a for a in axes if term.centred[a]]
    free = [a for a in axes if not term.centred[a]]
    if not zeros:
        unit = dist.Normal(0.0, 1.0).expand(term.shape).to_event(len(term.shape))
        return numpyro.sample(name, unit)
    centred = dist.ZeroSumNormal(1.0, tuple(term.shape[a] for a in zeros))
    unit = centred.expand([term.shape[a] for a in free]).to_event(len(free))
    return jnp.transpose(numpyro.sample(name, unit), np.argsort([*free, *zeros]))


def _intercept_sd(resolved: Resolved) -> float:
    if resolved.spec.intercept is None:
        raise ModelError(f"model {resolved.spec.name!r} has no intercept")
    return resolved.spec.intercept.parameters[0] * resolved.unit


@lru_cache(maxsize=8)
def _scales_sampler(sites: tuple[ScaleSite, ...], settings: Settings) -> MCMC:
    """Return a sampler that is compiled once for all tables of one shape."""
    potential, size = scales_potential(sites)
    flat = dist.ImproperUniform(dist.constraints.real_vector, (), (size,))

    def model(frame: Frame, data: Data) -> None:
        q = numpyro.sample("q", flat)
        with numpyro.handlers.block():
            energy = potential(frame.origin + frame.axes @ q, data)
        numpyro.factor("density", -energy)

    return _mcmc(model, {"q": np.zeros(size)}, settings, jit_model_args=True)


def _mcmc(
    model: Callable[..., None],
    initial: dict[str, Any],
    settings: Settings,
    jit_model_args: bool,
) -> MCMC:
    kernel = NUTS(
        model,
        max_tree_depth=(6, 10),
        target_accept_prob=settings.target_accept,
        dense_mass=False,
        init_strategy=init_to_value(values=initial),
    )
    # Chains run side by side in one program: on separate CPU devices the many
    # small operations of two chains wait for one another (twice as slow).
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


def _run(mcmc: MCMC, settings: Settings, *args: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    key = jax.random.key(settings.random_seed)
    mcmc.run(key, *args, extra_fields=_STATS)
    samples = jax.block_until_ready(mcmc.get_samples(group_by_chain=True))
    stats = mcmc.get_extra_fields(group_by_chain=True)
    return samples, {
        "diverging": np.asarray(stats["diverging"], bool),
        "n_steps": np.asarray(stats["num_steps"]),
        "acceptance_rate": np.asarray(stats["accept_prob"]),
        "lp": -np.asarray(stats["potential_energy"]),
        "energy": np.asarray(stats["energy"]),
    }


def _sample_scales(
    resolved: Resolved,
    settings: Settings,
    layout: Layout,
    products: CrossProducts,
    started: float,
) -> Draws:
    sites = scale_sites(resolved)
    m = moments(products, layout)
    data = Data(
        jnp.asarray(resolved.unit),
        jnp.asarray(_intercept_sd(resolved)),
        jnp.asarray(resolved.noise_floor),
        m,
        unit_scale(sites),
    )
    frame, data = choose_frame(sites, data)
    mcmc = _scales_sampler(sites, replace(settings, random_seed=0))
    coordinates, stats = _run(mcmc, settings, frame, data)
    samples = constrain(sites)(coordinates["q"], frame, data)
    sd = samples["all_sd"].reshape(-1, layout.n_sd)
    noise = samples["noise_variance"].reshape(sd.shape[0], -1)
    keys = jax.random.split(jax.random.key(settings.random_seed + 1), sd.shape[0])
    dense, block = _draw_all(keys, sd, noise, m)
    intercept, effects = _effects_of_coordinates(
        np.asarray(dense), np.asarray(block), layout, resolved, samples["all_sd"].shape[:2]
    )
    if settings.nested_effects and layout.leaf is not None:
        effects[layout.leaf.variable] = _leaf_effects(
            resolved, layout, intercept, effects, np.asarray(sd), np.asarray(noise), settings
        )
    scales, hyper = _named_scales(resolved, samples)
    seconds = time.perf_counter() - started
    return Draws(scales, hyper, intercept, effects, stats, seconds, "collapsed nuts")


@jax.jit
def _draw_all(keys: Array, sd: Array, noise: Array, m: Moments) -> tuple[Array, Array]:
    return jax.lax.map(lambda args: draw_effects(args[0], args[1], args[2], m), (keys, sd, noise))


def _effects_of_coordinates(
    dense: NDArray[np.float64],
    block: NDArray[np.float64],
    layout: Layout,
    resolved: Resolved,
    draws: tuple[int, int],
) -> tuple[NDArray[np.float64], dict[str, NDArray[np.float64]]]:
    effects: dict[str, NDArray[np.float64]] = {}
    intercept = (resolved.location + dense[:, 0]).reshape(draws)
    start = 1
    for columns in layout.dense:
        width = columns.basis.shape[1]
        values = dense[:, start : start + width] @ columns.basis.T
        effects[columns.term.variable] = values.reshape(*draws, *columns.term.shape)
        start += width
    start = 0
    for columns in layout.block:
        width = columns.basis.shape[1]
        values = block[:, :, start : start + width] @ columns.basis.T
        axis = columns.term.dims.index(layout.block_facet or "")
        others = [n for i, n in enumerate(columns.term.shape) if i != axis]
        values = values.reshape(*draws, layout.n_blocks, *others)
        effects[columns.term.variable] = np.moveaxis(values, 2, 2 + axis)
        start += width
    return intercept, effects


def _leaf_effects(
    resolved: Resolved,
    layout: Layout,
    intercept: NDArray[np.float64],
    effects: dict[str, NDArray[np.float64]],
    sd: NDArray[np.float64],
    noise: NDArray[np.float64],
    settings: Settings,
) -> NDArray[np.float64]:
    """Draw the nested effects given everything else, one draw at a time."""
    leaf = layout.leaf
    if leaf is None:
        raise ModelError("the model has no nested facet")
    rng = np.random.default_rng(settings.random_seed + 2)
    by = resolved.residual_by if resolved.residual_by is not None else 0
    flat = {
        t.variable: effects[t.variable].reshape(len(sd), -1)
        for t in resolved.terms
        if t is not leaf
    }
    out = np.empty((len(sd), leaf.n_levels))
    for i in range(len(sd)):
        rest = resolved.score - intercept.ravel()[i]
        for term in resolved.terms:
            if term is not leaf:
                rest = rest - flat[term.variable][i, term.codes]
        precision = np.broadcast_to(1.0 / noise[i][by], rest.shape)
        weight = np.bincount(leaf.codes, precision, leaf.n_levels)
        total = np.bincount(leaf.codes, precision * rest, leaf.n_levels)
        width = sd[i, layout.leaf_sd_index]
        # Conditional of a unit-scale effect, so that a zero scale stays exact.
        shrink = 1.0 / (1.0 + width**2 * weight)
        unit = width * total * shrink + np.sqrt(shrink) * rng.standard_normal(leaf.n_levels)
        out[i] = width * unit
    return out.reshape(*intercept.shape, leaf.n_levels)


def _named_scales(
    resolved: Resolved, samples: dict[str, Any]
) -> tuple[dict[str, NDArray[np.float64]], dict[str, NDArray[np.float64]]]:
    all_sd = np.asarray(samples["all_sd"])
    scales: dict[str, NDArray[np.float64]] = {}
    for term, start in zip(resolved.terms, sd_offsets(resolved.terms), strict=False):
        width = len(term.by_labels)
        scales[f"{term.variable}_sd"] = (
            all_sd[..., start : start + width] if width else all_sd[..., start]
        )
    # What the residual sd is, its floor included.
    noise = np.sqrt(np.asarray(samples["noise_variance"]))
    scales["sigma"] = noise if resolved.residual_labels else noise[..., 0]
    hyper = {
        name: np.asarray(value)
        for name, value in samples.items()
        if name.endswith(("_center", "_spread"))
    }
    return scales, hyper


def _sample_effects(resolved: Resolved, settings: Settings, started: float) -> Draws:
    sites = scale_sites(resolved)

    def model() -> None:
        effects_model(sites, resolved.terms, resolved)

    mcmc = _mcmc(model, {}, settings, jit_model_args=False)
    samples, stats = _run(mcmc, settings)
    effects = {
        t.variable: np.asarray(samples[f"{t.variable}_effect"])
        for t in resolved.terms
        if settings.nested_effects or "generation" not in t.dims
    }
    scales, hyper = _named_scales(resolved, samples)
    seconds = time.perf_counter() - started
    return Draws(scales, hyper, np.asarray(samples["intercept"]), effects, stats, seconds)
