"""NUTS for gaussian models with discrimination: effects integrated out, scenario by scenario.

Where a judge's noise and what answers are worth can trade places, the density of all
effects together has no bound as that noise goes to nothing, and a sampler of effects
is caught there. With effects integrated out there is nothing of the kind: what is left
to sample are scales and factors. Effects are then drawn given both.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import solve_triangular
from numpy.typing import NDArray
from numpyro.infer import NUTS

from bayesjudge.engines.coordinates import (
    Frame,
    ScaleSite,
    constants,
    plain_frame,
    scale_sites,
    scales_at,
    size,
    slots,
)
from bayesjudge.engines.cross_products import contrasts
from bayesjudge.engines.devices import double_precision
from bayesjudge.engines.effects import name_scales
from bayesjudge.engines.nuts import MAX_TREE_DEPTH, chains_of, run_mcmc
from bayesjudge.engines.protocol import Draws, Settings
from bayesjudge.engines.sampled import kept_terms
from bayesjudge.engines.scaled_blocks import Blocks, Stats, lay_blocks, stats_of
from bayesjudge.engines.scaled_effects import draw_effects
from bayesjudge.errors import ModelError
from bayesjudge.resolution import Resolved

type Array = Any
type Floats = NDArray[np.float64]

# Chains start this far from middling scales and equal factors.
_SCATTER = 0.3


class Placed(NamedTuple):
    """Scales and factors at some coordinates, and the prior density of these.

    Attributes
    ----------
    sd, noise : (..., n_sd) and (..., V)
        As of :class:`bayesjudge.engines.coordinates.Scales`.
    factors : (..., levels)
    spread : (...)
    log_prior : (...)
    hyper : dict
    """

    sd: Array
    noise: Array
    factors: Array
    spread: Array
    log_prior: Array
    hyper: dict[str, Array]


class Coordinates:
    """Scales, then the log of the factors' spread unless it is fixed, then contrasts of their logs.

    Logs of factors are sampled as w = log(factor) sqrt(1 + h sd^2) / sd, which with h
    scores a factor is near their own scale, and without any at unit scale.
    """

    def __init__(self, resolved: Resolved) -> None:
        """Count them for a model on a table."""
        given = resolved.discrimination
        if given is None:
            raise ModelError("the model has no discrimination")
        self.sites: tuple[ScaleSite, ...] = scale_sites(resolved)
        self.frame: Frame = plain_frame(self.sites)
        self.fixed = constants(resolved)
        self.prior = given.spread
        self.n_scales = size(self.sites)
        self.n_free = int(self.prior.distribution != "fixed")
        self.basis = contrasts(len(given.labels))
        self.information = resolved.score.size / len(given.labels)

    @property
    def width(self) -> int:
        """Number of coordinates."""
        return self.n_scales + self.n_free + int(self.basis.shape[1])

    def place(self, q: Array, xp: Any = np) -> Placed:
        """Return what coordinates (..., D) stand for."""
        scales = scales_at(q[..., : self.n_scales], self.sites, self.frame, self.fixed, xp)
        log_prior = scales.log_prior
        width = self.prior.parameters[0]
        spread = xp.full(q.shape[:-1], width)
        if self.n_free:
            log_spread = q[..., self.n_scales]
            spread = xp.exp(log_spread)
            log_prior = log_prior + log_spread - 0.5 * (spread / width) ** 2
        w = q[..., self.n_scales + self.n_free :]
        wide = xp.sqrt(1.0 + self.information * spread**2)[..., None]
        log_prior = log_prior - xp.sum(0.5 * (w / wide) ** 2 + xp.log(wide), axis=-1)
        factors = xp.exp((spread[..., None] / wide * w) @ self.basis.T)
        return Placed(scales.sd, scales.noise, factors, spread, log_prior, scales.hyper)

    def start(self, rng: np.random.Generator, chains: int) -> Floats:
        """Return where chains start, (chains, D)."""
        middle = np.zeros(self.width)
        for slot in slots(self.sites):
            if slot.prior is not None:
                numbers = slot.prior.parameters
                lognormal = slot.prior.distribution == "lognormal"
                middle[slot.start : slot.stop] = numbers[0] if lognormal else np.log(numbers[0] / 2)
        if self.n_free:
            middle[self.n_scales] = np.log(self.prior.parameters[0] / 2)
        return middle + rng.uniform(-_SCATTER, _SCATTER, (chains, self.width))


def log_likelihood(blocks: Blocks, stats: Stats, sd: Array, noise: Array, factors: Array) -> Array:
    """Return the log density of the scores, effects integrated out.

    Parameters
    ----------
    blocks : Blocks
    stats : Stats
        Of the scores.
    sd : (n_sd,)
        Scales of the terms, the intercept's last.
    noise : (V,)
        Residual variances.
    factors : (levels,)
    """
    factor = factors[blocks.level]
    own = jnp.where(blocks.there > 0, noise[blocks.noise], 1.0)
    covariance = own[:, :, None] * np.eye(own.shape[1])
    for term in blocks.local:
        scale = sd[term.sd_index] * (factor if term.scaled else 1.0)
        covariance = covariance + term.alike * scale[:, :, None] * scale[:, None, :]
    columns = blocks.columns * sd[blocks.column_sd]
    columns = columns * jnp.where(blocks.column_scaled, factor[:, :, None], 1.0)
    root = jnp.linalg.cholesky(covariance)
    every = jnp.concatenate([columns, stats.total[:, :, None], stats.root], axis=2)
    solved = solve_triangular(root, every, lower=True)
    n_columns = columns.shape[2]
    shared, total, rest = jnp.split(solved, [n_columns, n_columns + 1], axis=2)
    inner = jnp.eye(n_columns) + jnp.einsum("p,pig,pih->gh", blocks.count, shared, shared)
    known = jnp.einsum("pig,pij->g", shared, total)
    inner_root = jnp.linalg.cholesky(inner)
    explained = solve_triangular(inner_root, known, lower=True)
    logs = jnp.sum(jnp.log(jnp.diagonal(root, axis1=1, axis2=2)), axis=1)
    return -(
        jnp.sum(blocks.count * logs)
        + jnp.sum(jnp.log(jnp.diagonal(inner_root)))
        + 0.5 * (jnp.sum(rest**2) - jnp.sum(explained**2))
        + 0.5 * float(blocks.count @ blocks.there.sum(axis=1)) * np.log(2 * np.pi)
    )


def potential_of(coordinates: Coordinates, blocks: Blocks) -> Callable[[Array, Stats], Array]:
    """Return minus the log density of coordinates (D,), given what the scores are."""

    def potential(q: Array, stats: Stats) -> Array:
        at = coordinates.place(q, jnp)
        return -(at.log_prior + log_likelihood(blocks, stats, at.sd, at.noise, at.factors))

    return potential


def sample_scaled(resolved: Resolved, settings: Settings) -> Draws | None:
    """Sample a gaussian model with discrimination; None where its blocks are too large.

    Parameters
    ----------
    resolved : Resolved
    settings : Settings
        ``integrate`` is not looked at.
    """
    started = time.perf_counter()
    blocks = lay_blocks(resolved)
    if blocks is None:
        return None
    stats = stats_of(blocks, resolved.score, resolved.location)
    passed = time.perf_counter() - started
    coordinates = Coordinates(resolved)
    potential = potential_of(coordinates, blocks)
    rng = np.random.default_rng(settings.random_seed)
    starts = coordinates.start(rng, settings.chains)
    with double_precision(settings.platform) as note:
        kernel = NUTS(
            potential_fn=lambda q: potential(q, stats),
            max_tree_depth=MAX_TREE_DEPTH,
            target_accept_prob=settings.target_accept,
            dense_mass=True,
        )
        first = jnp.asarray(starts if settings.chains > 1 else starts[0])
        q, sampled = run_mcmc(chains_of(kernel, settings), settings, init_params=first)
    wanted = {t.variable for t in kept_terms(resolved, settings)}
    draws = finish(resolved, coordinates, blocks, np.asarray(q), rng, wanted)
    return replace(
        draws,
        sample_stats=sampled,
        seconds=time.perf_counter() - started,
        pass_seconds=passed,
        notes=(note,) if note else (),
    )


def finish(
    resolved: Resolved,
    coordinates: Coordinates,
    blocks: Blocks,
    q: Floats,
    rng: np.random.Generator,
    wanted: set[str],
) -> Draws:
    """Draw the effects of terms wanted at coordinates (chain, draw, D)."""
    shape = (q.shape[0], q.shape[1])
    at = coordinates.place(q.reshape(shape[0] * shape[1], -1))
    effects, intercept = draw_effects(resolved, blocks, at.sd, at.noise, at.factors, rng)
    return Draws(
        scales=name_scales(resolved, at.sd, at.noise, shape),
        hyper={name: value.reshape(shape) for name, value in at.hyper.items()},
        intercept=intercept.reshape(shape),
        effects={
            t.variable: effects[t.variable].reshape(*shape, *t.shape)
            for t in resolved.terms
            if t.variable in wanted
        },
        method="nuts",
        parameters={
            "discrimination": at.factors.reshape(*shape, -1),
            "discrimination_sd": at.spread.reshape(shape),
        },
    )
