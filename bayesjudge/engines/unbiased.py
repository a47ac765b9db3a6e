"""Estimates without bias of a latent family's likelihood, about its normal approximation.

What scenarios share is drawn once, near the approximation's mean; given that, each
scenario's integral is the mean of M importance weights. Their product is without bias, so
that draws of the scales weighted by it have the exact posterior (importance sampling
squared: Tran, Scharth, Pitt and Kohn 2013), and each scenario's effects are those of one
of its M draws, by their weights.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from bayesjudge.engines.leaf_integrals import N_NODES, log_integrals, mean_slopes
from bayesjudge.engines.nested import Approximation, Nested

type Floats = NDArray[np.float64]

# Numbers worked on at once: they fit the processor's cache.
_AT_ONCE = 250_000

# Natural coordinates further out move shared effects no more, in their sds.
_REACH = 3.0

# Prior sds of how slopes rise: with natural coordinates, and with the shared effects.
_BY_SCALES, _BY_EFFECTS = 0.3, 0.05

# Bends of the log density of shared effects that are believed, at most.
_NARROWER, _WIDER = -3.0, 0.3


@dataclass(frozen=True, eq=False)
class SharedDraws:
    """Where shared effects are drawn, standardized by their normal approximation.

    Attributes
    ----------
    mean : (G,) float array
    origin, width : (D,) float arrays
        What natural coordinates of scales are standardized by.
    rise : (D, G) float array
        How the mean rises with those.
    factor : (G, G) float array
        Of draws about the mean.
    """

    mean: Floats
    origin: Floats
    width: Floats
    rise: Floats
    factor: Floats

    def means(self, natural: Floats) -> Floats:
        """Return means (n, G) at natural coordinates (n, D)."""
        away = np.clip((natural - self.origin) / self.width, -_REACH, _REACH)
        return np.asarray(self.mean + away @ self.rise)


def as_approximated(n_shared: int, n_natural: int) -> SharedDraws:
    """Return draws from the normal approximation itself."""
    flat = np.zeros((n_natural, n_shared))
    return SharedDraws(
        np.zeros(n_shared), np.zeros(n_natural), np.ones(n_natural), flat, np.eye(n_shared)
    )


def learned_draws(natural: Floats, unit: Floats, slope: Floats) -> SharedDraws:
    """Fit draws of shared effects to slopes of their log weights.

    Were log weights quadratic in the standardized effects, their slopes would be linear:
    where they begin and how they turn are what the approximation's mean and covariance
    lack. Slopes say it with far less noise than the weights.

    Parameters
    ----------
    natural : (n, D)
        Natural coordinates of scales.
    unit : (n, G)
        Shared effects, standardized by the normal approximation.
    slope : (n, G)
        Of the logarithm of their density over the approximation's.
    """
    origin, width = natural.mean(axis=0), np.maximum(natural.std(axis=0), 1e-3)
    away = np.clip((natural - origin) / width, -_REACH, _REACH)
    design = np.hstack([away, unit])
    center, level = design.mean(axis=0), slope.mean(axis=0)
    d = natural.shape[1]
    prior = np.concatenate([np.full(d, _BY_SCALES), np.full(unit.shape[1], _BY_EFFECTS)])
    tall = design - center
    # All that slopes vary by is taken for noise: few rows must not bend many effects.
    noise = max(float(slope.var(axis=0).mean()), 1e-6)
    system = tall.T @ tall + np.diag(noise / prior**2)
    found = np.linalg.solve(system, tall.T @ (slope - level))
    bend = 0.5 * (found[d:] + found[d:].T)
    values, vectors = np.linalg.eigh(bend)
    variance = 1.0 / (1.0 - np.clip(values, _NARROWER, _WIDER))
    covariance = (vectors * variance) @ vectors.T
    first = level - center[:d] @ found[:d] - center[d:] @ bend
    return SharedDraws(
        first @ covariance,
        origin,
        width,
        found[:d] @ covariance,
        vectors * np.sqrt(variance),
    )


@dataclass(frozen=True, eq=False)
class Estimate:
    """Estimates without bias of T likelihoods, and the draws that they chose.

    Attributes
    ----------
    log_likelihood : (T,)
    unit : (T, G)
        Shared effects, standardized by the normal approximation.
    slope : (T, G) or None
        Of the log weight in ``unit``, noise and all.
    shared : (T, G)
        Unit-scale effects.
    own : (T, S, m)
    center, spread : (T, L)
        Of the leaves' nodes at the chosen effects.
    predictor : (T, S * E)
    """

    log_likelihood: Floats
    unit: Floats
    slope: Floats | None
    shared: Floats
    own: Floats
    center: Floats
    spread: Floats
    predictor: Floats


def estimate(
    nested: Nested,
    at: Approximation,
    stops: Floats | None,
    rng: np.random.Generator,
    n_draws: int,
    mean: Floats | float = 0.0,
    factor: Floats | None = None,
    still: bool = False,
    sloped: bool = False,
) -> Estimate:
    """Estimate the likelihoods without bias, by M draws of each scenario's effects.

    Parameters
    ----------
    n_draws : int
        M, even.
    mean : (T, G) float array or 0
    factor : (G, G) float array or None
        Of shared effects, standardized by the approximation; the identity for None.
    still : bool
        Draw those at their mean: for what other draws vary by, alone.
    sloped : bool
        Work out slopes too.
    """
    n, blocks = len(at.value), nested.blocks
    away = rng.standard_normal((n, nested.n_shared)) * (not still)
    unit = mean + (away if factor is None else away @ factor.T)
    turned = at.system.shared_factor.transpose(0, 2, 1)
    shared = at.point.shared + np.linalg.solve(turned, unit[..., None])[..., 0]
    about = at.point.own - (at.system.pull @ (shared - at.point.shared)[:, None, :, None])[..., 0]
    draws = spread_out(rng, n, n_draws, nested.n_scenarios, nested.n_own)
    own = about[..., None] + at.system.root.transpose(0, 1, 3, 2) @ draws
    by_shared = (at.scales.shared * shared) @ blocks.shared.T
    eta = by_shared[:, None, :, None] + blocks.own @ (at.scales.own[..., None] * own)
    eta = np.ascontiguousarray(eta.reshape(n, -1, n_draws).transpose(0, 2, 1))
    log_block = _scenarios(nested, eta, at, stops)
    log_block -= 0.5 * ((own**2).sum(axis=2) - (draws**2).sum(axis=2)).transpose(0, 2, 1)
    best = log_block.max(axis=1, keepdims=True)
    weight = np.exp(log_block - best)
    log_mean = best[:, 0] + np.log(weight.mean(axis=1))
    value = log_mean.sum(axis=1) - 0.5 * at.system.log_volume
    value += 0.5 * (away**2).sum(axis=1) - 0.5 * (shared**2).sum(axis=1)
    if factor is not None:
        value += np.linalg.slogdet(factor)[1]
    slope = None
    if sloped:
        rise = at.scales.shared * _shared_slope(nested, eta, at, stops, weight) - shared
        slope = np.linalg.solve(at.system.shared_factor, rise[..., None])[..., 0] + unit
    cumulative = np.cumsum(weight, axis=1)
    point = rng.random((n, 1, nested.n_scenarios)) * cumulative[:, -1:]
    chosen = (cumulative < point).sum(axis=1)
    own = np.take_along_axis(own, chosen[:, :, None, None], axis=3)[..., 0]
    by_draw = eta.reshape(n, n_draws, nested.n_scenarios, -1)
    eta = np.take_along_axis(by_draw, chosen[:, None, :, None], axis=1)[:, 0].reshape(n, -1)
    center, spread = nested.nodes(eta, at)
    return Estimate(value, unit, slope, shared, own, center, spread, eta)


def spread_out(
    rng: np.random.Generator, n: int, n_draws: int, n_scenarios: int, width: int
) -> Floats:
    """Return standard normal draws (n, S, m, M), spread evenly within each scenario.

    Sobol's points, moved at random for each scenario, and their mirror images: what is
    odd in them cancels.
    """
    points = sobol_points(n_draws // 2, width).T
    moved = points + rng.random((n, n_scenarios, width, 1))
    draws = ndtri(np.clip(moved % 1.0, 1e-12, 1.0 - 1e-12))
    return np.concatenate([draws, -draws], axis=-1)


@cache
def sobol_points(n: int, width: int) -> Floats:
    """Return n points of Sobol's sequence, (n, width)."""
    from scipy.stats import qmc

    return np.asarray(qmc.Sobol(width, scramble=False).random_base2(int(np.ceil(np.log2(n))))[:n])


def _scenarios(nested: Nested, eta: Floats, at: Approximation, stops: Floats | None) -> Floats:
    """Return log-likelihoods by draw and scenario, (T, M, S), of predictors (T, M, S * E)."""
    n, n_draws = eta.shape[:2]
    out = np.empty((n, n_draws, nested.n_scenarios))
    for t, rows in _parts(nested, n, n_draws):
        cell = eta[t, rows][:, nested.blocks.predictor]
        if at.tables is not None:
            log_f = at.tables.log_integrals(t, cell[..., 0])
        else:
            log_f = log_integrals(nested.likelihood, cell, *_of_leaves(nested, t, cell, at, stops))
        out[t, rows] = nested.sum_leaves(log_f)
    return out


def _shared_slope(
    nested: Nested, eta: Floats, at: Approximation, stops: Floats | None, weight: Floats
) -> Floats:
    """Return slopes (T, G) of log-likelihoods in what scenarios share, by weighted draws."""
    n, n_draws = eta.shape[:2]
    share = weight / weight.sum(axis=1, keepdims=True)
    by_cell = np.zeros((n, nested.n_scenarios * nested.n_places))
    for t, rows in _parts(nested, n, n_draws):
        cell = eta[t, rows][:, nested.blocks.predictor]
        if at.tables is not None:
            slope = at.tables.slopes(t, cell[..., 0])[..., None]
        else:
            slope = mean_slopes(nested.likelihood, cell, *_of_leaves(nested, t, cell, at, stops))
        held = share[t, rows][:, nested.blocks.leaf_scenario, None]
        by_cell[t] += nested.add_to_cells((slope * held).sum(axis=0))
    by_place = by_cell.reshape(n, nested.n_scenarios, -1).sum(axis=1)
    return np.asarray(by_place @ nested.blocks.shared)


def _parts(nested: Nested, n: int, n_draws: int) -> list[tuple[int, slice]]:
    """Part n times M draws into slices that are worked on at once."""
    some = max(1, _AT_ONCE // (nested.n_leaves * nested.n_seen * N_NODES))
    return [(t, slice(i, i + some)) for t in range(n) for i in range(0, n_draws, some)]


def _of_leaves(
    nested: Nested, t: int, cell: Floats, at: Approximation, stops: Floats | None
) -> tuple[Floats, Floats, Floats, Floats | None]:
    """Return scales, centers and spreads of leaves, and cutpoints, for rows of one t."""
    change = cell - at.eta[t].ravel()[nested.blocks.predictor]
    center = at.point.center[t] + (at.follow[t] * change).sum(axis=-1)
    shape = center.shape
    leaf, spread = (np.broadcast_to(v[t], shape) for v in (at.scales.leaf, at.point.spread))
    own = None if stops is None else np.repeat(stops[t : t + 1], len(cell), axis=0)
    return leaf, center, spread, own
