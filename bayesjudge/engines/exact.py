"""The exact engine for gaussian models: importance draws of the scales, exact effects.

Given the scales every effect is Gaussian and integrates out. What is left has
some ten to thirty dimensions and, in signed coordinates about its mode, nearly
the shape of a t density: the proposal, adapted over a few rounds to all draws
so far. Pareto-smoothed weights say how well it fits; where they say it does
not, NUTS samples the same density instead.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular
from scipy.special import gammaln, logsumexp

from bayesjudge.engines.collapsed import Collapsed, collapse, finish
from bayesjudge.engines.convergence import ESS_LIMIT, PARETO_K_LIMIT
from bayesjudge.engines.nuts import sample as sample_nuts
from bayesjudge.engines.nuts import sample_collapsed
from bayesjudge.engines.protocol import Draws, Settings
from bayesjudge.engines.scales import ScaleSite, initial_values, scales_potential
from bayesjudge.errors import ModelError
from bayesjudge.resolution import Resolved

type Floats = NDArray[np.float64]

# Tails of the proposal, and how much wider than the draws so far it is made.
_DEGREES_OF_FREEDOM = 5.0
_INFLATION = 1.1

_ADAPTING_ROUNDS = 5
_ATTEMPTS = 2
_ADAPTING_DRAWS = 3000
_BATCH = 1000
_FIRST_DRAWS = 10_000
_MOST_DRAWS = 64_000
_WANTED_ESS = 1000

# A scale whose mode lies this many sds from zero is proposed on the logarithm.
_CLEAR_OF_ZERO = 2.5


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
    with jax.enable_x64(True):
        collapsed = collapse(resolved)
        if collapsed is None:
            return sample_nuts(resolved, replace(settings, integrate=False))
        draws = _sample_scales(collapsed, settings)
    return replace(draws, seconds=time.perf_counter() - started)


@dataclass(frozen=True, eq=False)
class Proposal:
    """A multivariate t density: mean (D,) and lower Cholesky factor (D, D) of its scale."""

    mean: Floats
    factor: Floats

    def draw(self, rng: np.random.Generator, n: int) -> Floats:
        """Return n draws, (n, D)."""
        df = _DEGREES_OF_FREEDOM
        normal = rng.standard_normal((n, self.mean.size))
        radius = np.sqrt(rng.chisquare(df, (n, 1)) / df)
        return self.mean + (normal / radius) @ self.factor.T

    def log_density(self, y: Floats) -> Floats:
        """Return the log density of rows of y, (n,)."""
        df, d = _DEGREES_OF_FREEDOM, self.mean.size
        z = solve_triangular(self.factor, (y - self.mean).T, lower=True)
        constant = gammaln((df + d) / 2) - gammaln(df / 2) - 0.5 * d * np.log(df * np.pi)
        log_det = np.log(np.diag(self.factor)).sum()
        return np.asarray(constant - log_det - 0.5 * (df + d) * np.log1p(np.sum(z**2, axis=0) / df))


@dataclass(frozen=True, eq=False)
class Target:
    """The density of the scales in the coordinates of the proposal.

    Attributes
    ----------
    collapsed : Collapsed
    logged : (D,) bool array
        Signed scales that are clear of zero, taken on the logarithm.
    mirrored : (D,) bool array
        Signed scales near zero: the density is even in each, its mean zero.
    """

    collapsed: Collapsed
    logged: NDArray[np.bool_]
    mirrored: NDArray[np.bool_]

    def coordinates(self, y: Floats) -> Floats:
        """Map rows of y to free parameters of the scales."""
        x = y.copy()
        x[:, self.logged] = np.exp(y[:, self.logged])
        return x

    def log_density(self, y: Floats) -> Floats:
        """Return the log density of rows of y, minus infinity where it is not finite."""
        x = self.coordinates(y)
        padded = np.vstack([x, np.repeat(x[:1], -len(x) % _BATCH, axis=0)])
        energy = _energies(self.collapsed.sites)
        parts = [
            np.asarray(energy(jnp.asarray(padded[i : i + _BATCH]), self.collapsed.data))
            for i in range(0, len(padded), _BATCH)
        ]
        value = y[:, self.logged].sum(axis=1) - np.concatenate(parts)[: len(x)]
        return np.where(np.isfinite(value), value, -np.inf)


@lru_cache(maxsize=8)
def _energies(sites: tuple[ScaleSite, ...]) -> Any:
    potential, _ = scales_potential(sites)
    return jax.jit(jax.vmap(potential, in_axes=(0, None)))


def _sample_scales(collapsed: Collapsed, settings: Settings) -> Draws:
    shape = (settings.chains, settings.draws)
    if collapsed.size == 0:
        # Every scale is fixed: the effects' conditional is the posterior.
        draws = finish(collapsed, np.zeros((*shape, 0)), settings, {})
        return replace(draws, method="conjugate")
    rng = np.random.default_rng(settings.random_seed)
    target, proposal = _start(collapsed)
    rounds = Rounds((), (), ())
    for _ in range(_ATTEMPTS):
        rounds, proposal = _adapt(rng, target, rounds, proposal)
        y, log_density, log_weight, pareto_k = _final_draws(rng, target, proposal)
        ess = kish_ess(log_weight)
        if pareto_k <= PARETO_K_LIMIT and ess >= ESS_LIMIT:
            break
    else:
        return sample_collapsed(collapsed, settings)
    chosen = _resample(rng, log_weight, settings.chains * settings.draws)
    x = target.coordinates(y[chosen])
    frame = collapsed.frame
    q = np.linalg.solve(np.asarray(frame.axes), (x - np.asarray(frame.origin)).T).T
    stats = {"lp": log_density[chosen].reshape(shape)}
    draws = finish(collapsed, q.reshape(*shape, -1), settings, stats)
    return replace(draws, method="importance", pareto_k=pareto_k, kish_ess=ess)


def _start(collapsed: Collapsed) -> tuple[Target, Proposal]:
    """Lay a proposal on the mode: a Laplace approximation, mirrored near zero."""
    origin, axes = np.asarray(collapsed.frame.origin), np.asarray(collapsed.frame.axes)
    covariance = axes @ axes.T
    sd = np.sqrt(np.diag(covariance))
    signed = _ending(collapsed.sites, "_signed")
    # A spread's sign goes with those of its levels' deviations: never mirrored.
    spread = _ending(collapsed.sites, "_spread_signed")
    logged = spread | (signed & (np.abs(origin) > _CLEAR_OF_ZERO * sd))
    mirrored = signed & ~logged
    mean = origin.copy()
    mean[logged] = np.log(np.abs(origin[logged]))
    mean[mirrored] = 0.0
    stretch = np.ones_like(origin)
    stretch[logged] = np.minimum(1.0, sd[logged] / np.abs(origin[logged])) / sd[logged]
    # Covers the modes on both sides of zero.
    stretch[mirrored] = np.sqrt(1.0 + (origin[mirrored] / sd[mirrored]) ** 2)
    covariance = covariance * np.outer(stretch, stretch) * _INFLATION
    return Target(collapsed, logged, mirrored), Proposal(mean, np.linalg.cholesky(covariance))


def _ending(sites: tuple[ScaleSite, ...], ending: str) -> NDArray[np.bool_]:
    """Return which free parameters have a name with this ending."""
    from jax.flatten_util import ravel_pytree

    values = initial_values(sites)
    flags = {k: np.full(np.shape(v), float(k.endswith(ending))) for k, v in values.items()}
    return np.asarray(ravel_pytree(flags)[0]) > 0.5


@dataclass(frozen=True, eq=False)
class Rounds:
    """All proposals so far, their draws and the target's log density there."""

    proposals: tuple[Proposal, ...]
    draws: tuple[Floats, ...]
    log_density: tuple[Floats, ...]


def _adapt(
    rng: np.random.Generator, target: Target, rounds: Rounds, proposal: Proposal
) -> tuple[Rounds, Proposal]:
    """Fit the proposal's mean and covariance to all weighted draws so far, in rounds."""
    d = proposal.mean.size
    for _ in range(_ADAPTING_ROUNDS):
        y = proposal.draw(rng, _ADAPTING_DRAWS)
        rounds = Rounds(
            (*rounds.proposals, proposal),
            (*rounds.draws, y),
            (*rounds.log_density, target.log_density(y)),
        )
        every = np.vstack(rounds.draws)
        mixture = logsumexp([p.log_density(every) for p in rounds.proposals], axis=0)
        log_weight = np.concatenate(rounds.log_density) - mixture
        weight = np.exp(log_weight - logsumexp(log_weight))
        # A handful of large weights must not decide the shape.
        weight = np.minimum(weight, np.partition(weight, -20)[-20])
        weight /= weight.sum()
        mean = weight @ every
        mean[target.mirrored] = 0.0
        centred = every - mean
        covariance = centred.T @ (centred * weight[:, None])
        trust = 1.0 / (1.0 + 2 * d * np.sum(weight**2))
        old = proposal.factor @ proposal.factor.T
        covariance = trust * _INFLATION * covariance + (1 - trust) * old
        mean = trust * mean + (1 - trust) * proposal.mean
        proposal = Proposal(mean, np.linalg.cholesky(covariance))
    return rounds, proposal


def _final_draws(
    rng: np.random.Generator, target: Target, proposal: Proposal
) -> tuple[Floats, Floats, Floats, float]:
    """Draw until the weights carry the effective size wanted, or the budget is spent."""
    y = proposal.draw(rng, _FIRST_DRAWS)
    log_density = target.log_density(y)
    while True:
        log_ratio = log_density - proposal.log_density(y)
        log_weight, pareto_k = smooth_weights(log_ratio)
        enough = kish_ess(log_weight) >= _WANTED_ESS or len(y) >= _MOST_DRAWS
        # More draws of a proposal that does not fit would not mend it.
        if enough or pareto_k > PARETO_K_LIMIT:
            return y, log_density, log_weight, pareto_k
        more = proposal.draw(rng, len(y))
        y = np.vstack([y, more])
        log_density = np.concatenate([log_density, target.log_density(more)])


def smooth_weights(log_ratio: Floats) -> tuple[Floats, float]:
    """Return Pareto-smoothed, normalized log weights and the Pareto k (ArviZ)."""
    from arviz_stats import base

    # ArviZ takes minus the log ratio, as leave-one-out does.
    finite = np.maximum(log_ratio, np.max(log_ratio) - 700.0)
    log_weight, pareto_k = cast(Any, base).array_stats.psislw(-finite)
    return log_weight - logsumexp(log_weight), float(pareto_k)


def kish_ess(log_weight: Floats) -> float:
    """Return the effective size of normalized log weights, 1 / sum of squares."""
    return float(np.exp(-logsumexp(2 * log_weight)))


def _resample(rng: np.random.Generator, log_weight: Floats, n: int) -> NDArray[np.int64]:
    """Draw n rows by their weights, evenly spread (systematic), in random order."""
    cumulative = np.cumsum(np.exp(log_weight))
    points = (np.arange(n) + rng.random()) / n * cumulative[-1]
    return rng.permutation(np.searchsorted(cumulative, points)).astype(np.int64)
