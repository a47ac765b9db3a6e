"""The model of the scales alone, and coordinates in which NUTS samples it well."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from jax.flatten_util import ravel_pytree
from numpy.typing import NDArray
from numpyro.infer.util import constrain_fn, potential_energy
from scipy.optimize import minimize

from bayesjudge.engines.marginal import Moments, log_likelihood
from bayesjudge.resolution import Resolved
from bayesjudge.spec import Prior, Scale

type Array = Any

# Keeps logarithms finite where a signed scale passes through zero.
_TINY = 1e-12

# What is kept of the named scales; single sds are read off the vector of all.
_REPORTED = ("all_sd", "noise_variance", "_center", "_spread")


@dataclass(frozen=True)
class ScaleSite:
    """One term's scale as the sampler sees it; hashable, so kernels can be reused."""

    name: str
    scale: Scale
    n_by: int

    @property
    def spread(self) -> Prior:
        """Prior of the spread of a scale by levels; none at all is a spread of zero."""
        return self.scale.spread or Prior("fixed", (0.0,))


def scale_sites(resolved: Resolved) -> tuple[ScaleSite, ...]:
    """Return the scales of all terms, then the residual's, as the sampler names them."""
    terms = [ScaleSite(f"{t.variable}_sd", t.scale, len(t.by_labels)) for t in resolved.terms]
    return (*terms, ScaleSite("sigma", resolved.residual, len(resolved.residual_labels)))


def sample_scale(site: ScaleSite, unit: Array) -> Array:
    """Sample one scale inside a NumPyro model; shape (1,) or (n_by,)."""
    if site.n_by == 0:
        return jnp.reshape(_sample_prior(site.name, site.scale.center, unit), (1,))
    center = _sample_prior(f"{site.name}_center", site.scale.center, unit)
    spread = _sample_prior(f"{site.name}_spread", site.spread, 1.0)
    z = numpyro.sample(f"{site.name}_z", dist.Normal(0.0, 1.0).expand([site.n_by]).to_event(1))
    return center * jnp.exp(spread * z)


def _sample_signed_scale(site: ScaleSite, unit: Array, centring: Array) -> Array:
    """Sample one scale with a sign that the likelihood does not see.

    A half-normal scale is the size of a normal one. On the logarithm a scale
    near zero has a long tail that NUTS walks slowly; signed, its density is
    smooth through zero and nearly normal.

    ``centring`` (n_by,) mixes the two parameterizations of levels: 0 samples
    their deviations at unit scale, 1 the log scales themselves.
    """
    if site.n_by == 0:
        return jnp.reshape(_sample_signed_prior(site.name, site.scale.center, unit), (1,))
    center = _sample_signed_prior(f"{site.name}_center", site.scale.center, unit)
    spread = _sample_signed_prior(f"{site.name}_spread", site.spread, 1.0)
    log_center = jnp.log(jnp.maximum(jnp.abs(center), _TINY * unit))
    shift = centring * log_center
    width = jnp.maximum(jnp.abs(spread), _TINY) ** centring
    z = numpyro.sample(f"{site.name}_z", dist.Normal(shift, width).to_event(1))
    return center * jnp.exp(spread / width * (z - shift))


class Data(NamedTuple):
    """What the model of the scales is conditioned on."""

    unit: Array
    intercept_sd: Array
    floor: Array
    moments: Moments
    centring: tuple[Array, ...]


def scales_model(sites: tuple[ScaleSite, ...], data: Data) -> None:
    """Gaussian model of the scales alone, the effects integrated out."""
    values = [
        _sample_signed_scale(site, data.unit, centring)
        for site, centring in zip(sites, data.centring, strict=True)
    ]
    sd = jnp.concatenate([*values[:-1], jnp.reshape(data.intercept_sd, (1,))])
    noise = numpyro.deterministic("noise_variance", values[-1] ** 2 + data.floor**2)
    numpyro.deterministic("all_sd", jnp.abs(sd))
    numpyro.factor("scores", log_likelihood(sd, noise, data.moments))


def _sample_prior(name: str, prior: Prior, unit: Array) -> Array:
    if prior.distribution == "fixed":
        return jnp.asarray(prior.parameters[0] * unit)
    if prior.distribution == "lognormal":
        mu, spread = prior.parameters
        return numpyro.sample(name, dist.LogNormal(mu + jnp.log(unit), spread))
    return numpyro.sample(name, dist.HalfNormal(prior.parameters[0] * unit))


def _sample_signed_prior(name: str, prior: Prior, unit: Array) -> Array:
    """Sample a scale on the real line, in units of u, and return it in the scores' unit."""
    if prior.distribution == "fixed":
        return jnp.asarray(prior.parameters[0] * unit)
    if prior.distribution == "lognormal":
        value = jnp.exp(numpyro.sample(f"{name}_log", dist.Normal(*prior.parameters)))
    else:
        value = numpyro.sample(f"{name}_signed", dist.Normal(0.0, prior.parameters[0]))
    numpyro.deterministic(name, jnp.abs(value) * unit)
    return value * unit


@lru_cache(maxsize=8)
def scales_potential(sites: tuple[ScaleSite, ...]) -> tuple[Callable[..., Array], int]:
    """Return minus the log density of the free scales on the real line, and their number."""

    def model(data: Data) -> None:
        scales_model(sites, data)

    names = initial_values(sites)
    _, unravel = ravel_pytree(names)

    def potential(x: Array, data: Data) -> Array:
        return potential_energy(model, (data,), {}, unravel(x))

    return potential, int(ravel_pytree(names)[0].size)


class Frame(NamedTuple):
    """Coordinates in which the posterior of the scales is nearly standard normal."""

    origin: Array
    axes: Array


def choose_frame(sites: tuple[ScaleSite, ...], data: Data) -> tuple[Frame, Data]:
    """Choose coordinates in which warm-up starts well conditioned.

    Returns
    -------
    frame : Frame
        Mode and principal axes of the curvature there.
    data : Data
        With the centring that suits each level: in unit-scale coordinates the
        prior's part of a level's curvature is 1 and the data's share of the
        whole is what should be centred.
    """
    evaluate = _evaluator(sites)
    values = initial_values(sites)
    start, unravel = ravel_pytree(values)
    spreads = np.asarray(
        ravel_pytree({k: np.full(np.shape(v), "_spread" in k) for k, v in values.items()})[0]
    ).astype(bool)
    mode = _mode(evaluate, np.asarray(start), np.zeros_like(spreads), data)
    curvatures = unravel(jnp.asarray(np.diag(_curvature(evaluate, mode, data))))
    values = {k: np.asarray(v) for k, v in unravel(jnp.asarray(mode)).items()}
    centring = []
    spread_sds: dict[str, float] = {}
    for site, none in zip(sites, data.centring, strict=True):
        name = f"{site.name}_spread_signed"
        if not site.n_by or name not in values:
            centring.append(none)
            continue
        at_mode = float(np.abs(values[name])) + _TINY
        # In unit-scale coordinates the prior adds 1 to a level's curvature.
        information = np.maximum(np.asarray(curvatures[f"{site.name}_z"]) - 1.0, 0) / at_mode**2
        deviations = at_mode * values[f"{site.name}_z"]
        spread, spread_sds[name] = typical_spread(
            deviations, information, site.spread.parameters[0]
        )
        # Centred coordinates suit levels that the data know better than the
        # prior does, but have a pole at a spread of zero: stay away from it.
        clear_of_zero = spread > 1.9 * spread_sds[name]
        share = np.where(clear_of_zero & (spread**2 * information > 1.0), 1.0, 0.0)
        values[f"{site.name}_z"] = deviations / spread
        values[name] = np.array(spread)
        centring.append(jnp.asarray(share))
    data = data._replace(centring=tuple(centring))
    # In centred coordinates the density has no mode unless the spreads are held.
    start_centred = _recentred(sites, {k: jnp.asarray(v) for k, v in values.items()}, data)
    mode = _mode(evaluate, start_centred, spreads, data)
    curvature = _curvature(evaluate, mode, data)
    widths = {k: np.full(np.shape(v), spread_sds.get(k, np.inf)) for k, v in values.items()}
    width = np.asarray(ravel_pytree(widths)[0])[spreads]
    curvature[spreads, :] = curvature[:, spreads] = 0.0
    curvature[spreads, spreads] = 1.0 / width**2
    curvature, vectors = np.linalg.eigh(curvature)
    # All coordinates have prior sds near one: the best guess where the density is flat.
    axes = vectors / np.sqrt(np.maximum(curvature, 1.0))
    return Frame(jnp.asarray(mode), jnp.asarray(axes)), data


def typical_spread(
    deviations: NDArray[np.float64], information: NDArray[np.float64], width: float
) -> tuple[float, float]:
    """Posterior mean and sd of a spread from estimates of log scales.

    Parameters
    ----------
    deviations : (B,) float array
        Estimates of log s_b about a common value.
    information : (B,) float array
        One over the variance of each; zero where the data say nothing.
    width : float
        Of the spread's half-normal prior.
    """
    spread = width * np.geomspace(1e-3, 4.0, 400)[:, None]
    weight = information / (1.0 + spread**2 * information)
    total = weight.sum(axis=1, keepdims=True) + 1e-12
    center = (weight * deviations).sum(axis=1, keepdims=True) / total
    log_density = (
        -0.5 * (spread[:, 0] / width) ** 2
        - 0.5 * np.log1p(spread**2 * information).sum(axis=1)
        - 0.5 * (weight * (deviations - center) ** 2).sum(axis=1)
        - 0.5 * np.log(total[:, 0])
        + np.log(spread[:, 0])
    )
    density = np.exp(log_density - log_density.max())
    density /= density.sum()
    mean = float(spread[:, 0] @ density)
    return mean, float(np.sqrt((spread[:, 0] - mean) ** 2 @ density))


def _recentred(
    sites: tuple[ScaleSite, ...], values: dict[str, Array], data: Data
) -> NDArray[np.float64]:
    """Move a point from unit-scale coordinates to those of ``data.centring``."""
    named = _constrain_point(sites)(values, data._replace(centring=unit_scale(sites)))
    moved = dict(values)
    for site, centring in zip(sites, data.centring, strict=True):
        if site.n_by:
            center = named.get(f"{site.name}_center", site.scale.center.parameters[0] * data.unit)
            spread = named.get(f"{site.name}_spread", site.spread.parameters[0])
            log_center = jnp.log(jnp.maximum(center, _TINY * data.unit))
            width = jnp.maximum(spread, _TINY) ** centring
            moved[f"{site.name}_z"] = centring * log_center + width * values[f"{site.name}_z"]
    return np.asarray(ravel_pytree(moved)[0])


def unit_scale(sites: tuple[ScaleSite, ...]) -> tuple[Array, ...]:
    """Return the centring that samples every deviation at unit scale."""
    return tuple(jnp.zeros(max(site.n_by, 1)) for site in sites)


type _Evaluator = Callable[..., tuple[Array, Array]]


@lru_cache(maxsize=8)
def _evaluator(sites: tuple[ScaleSite, ...]) -> _Evaluator:
    return jax.jit(jax.value_and_grad(scales_potential(sites)[0]))


def _mode(
    evaluate: _Evaluator, start: NDArray[np.float64], held: NDArray[np.bool_], data: Data
) -> NDArray[np.float64]:
    free = ~held

    def whole(x: NDArray[np.float64]) -> NDArray[np.float64]:
        full = start.copy()
        full[free] = x
        return full

    def objective(x: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        value, slope = evaluate(whole(x), data)
        return float(value), np.asarray(slope)[free]

    def hessian(x: NDArray[np.float64]) -> NDArray[np.float64]:
        return _curvature(evaluate, whole(x), data)[np.ix_(free, free)]

    near = minimize(objective, start[free], jac=True, method="L-BFGS-B").x
    options = {"gtol": 1e-3, "maxiter": 50}
    found = cast(Any, minimize)(
        objective, near, jac=True, hess=hessian, method="trust-exact", options=options
    )
    return whole(found.x)


def _curvature(
    evaluate: _Evaluator, x: NDArray[np.float64], data: Data, step: float = 1e-3
) -> NDArray[np.float64]:
    rows = [
        np.asarray(evaluate(x + step * e, data)[1]) - np.asarray(evaluate(x - step * e, data)[1])
        for e in np.eye(x.size)
    ]
    hessian = np.array(rows) / (2 * step)
    return (hessian + hessian.T) / 2


def initial_values(sites: tuple[ScaleSite, ...]) -> dict[str, NDArray[np.float64]]:
    """Return the free parameters of the scales at their starting values, all on the real line."""
    values: dict[str, NDArray[np.float64]] = {}
    for site in sites:
        parts = {"": site.scale.center}
        if site.n_by:
            values[f"{site.name}_z"] = np.zeros(site.n_by)
            parts = {"_center": site.scale.center, "_spread": site.spread}
        for part, prior in parts.items():
            if prior.distribution == "half_normal":
                values[f"{site.name}{part}_signed"] = np.array(0.5 * prior.parameters[0])
            elif prior.distribution == "lognormal":
                values[f"{site.name}{part}_log"] = np.array(prior.parameters[0])
    return values


def _constrain_point(sites: tuple[ScaleSite, ...]) -> Callable[..., dict[str, Array]]:
    """Return the map from free parameters to named scales."""

    def model(data: Data) -> None:
        scales_model(sites, data)

    def named(values: dict[str, Array], data: Data) -> dict[str, Array]:
        named = constrain_fn(model, (data,), {}, values, return_deterministic=True)
        return dict(named)

    return named


@lru_cache(maxsize=8)
def constrain(sites: tuple[ScaleSite, ...]) -> Callable[..., dict[str, Array]]:
    """Return the map from sampled coordinates to named scales, over chains and draws."""
    _, unravel = ravel_pytree(initial_values(sites))
    named = _constrain_point(sites)

    def every(q: Array, frame: Frame, data: Data) -> dict[str, Array]:
        def one(x: Array) -> dict[str, Array]:
            values = named(unravel(frame.origin + frame.axes @ x), data)
            wanted = ("all_sd", "noise_variance")
            return {
                k: v for k, v in values.items() if k in wanted or k.endswith(("_center", "_spread"))
            }

        flat = jax.lax.map(one, q.reshape(-1, q.shape[-1]))
        return {k: v.reshape(*q.shape[:2], *v.shape[1:]) for k, v in flat.items()}

    return jax.jit(every)
