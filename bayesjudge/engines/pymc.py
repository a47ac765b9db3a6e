"""The PyMC engine: every effect sampled at unit scale, by nutpie or PyMC's own NUTS.

The same models as NumPyro's with every effect sampled, written a second time
from :class:`bayesjudge.resolution.Resolved` alone: the two log densities differ
by a constant (``tests/test_parity.py``). Nothing is integrated out, so a gaussian
model takes far longer here than with the exact engine; this is its witness.

With nutpie the chains run side by side in threads. PyMC's own sampler, where
nutpie is missing, runs them in turn: its worker processes would be forked from a
process in which JAX may have threads, or start the caller's script again.
"""

from __future__ import annotations

import contextlib
import re
import sys
import time
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from numpy.typing import NDArray

from bayesjudge.engines.coordinates import ScaleSite, scale_sites
from bayesjudge.engines.effects import name_scales
from bayesjudge.engines.protocol import Draws, Settings
from bayesjudge.errors import ModelError
from bayesjudge.resolution import Resolved, ResolvedTerm
from bayesjudge.spec import Prior

if TYPE_CHECKING:
    import xarray as xr

type Floats = NDArray[np.float64]
type Tensor = Any

# PyMC 6 refuses older ones.
_NUTPIE_LEAST = (0, 16, 10)


def sample(resolved: Resolved, settings: Settings) -> Draws:
    """Sample the posterior with NUTS, every effect included.

    ``settings.integrate`` is not heeded: effects are sampled either way.

    Parameters
    ----------
    resolved : Resolved
    settings : Settings
        The same seed gives the same draws, from one sampler.

    Returns
    -------
    Draws
        In the unit of the scores; ``method`` says which sampler ran.

    Raises
    ------
    ModelError
        For a family that PyMC cannot fit yet.
    """
    started = time.perf_counter()
    sampler = choose_sampler()
    kept = [t for t in resolved.terms if settings.nested_effects or "generation" not in t.dims]
    names = ["intercept", *(f"{t.variable}_effect" for t in kept), *_names_of_scales(resolved)]
    # PyMC draws its progress on stdout, where results go.
    to_stderr = contextlib.redirect_stdout(sys.stderr)
    # A trajectory that flies off beyond all numbers is rejected as divergent, and
    # counted: no news in the overflow.
    unheard = np.errstate(over="ignore", invalid="ignore")
    with to_stderr if settings.progress else contextlib.nullcontext(), unheard:
        tree = pm.sample(
            draws=settings.draws,
            tune=settings.tune,
            chains=settings.chains,
            cores=None if sampler == "nutpie" else 1,
            random_seed=settings.random_seed,
            nuts_sampler=sampler,
            nuts={"target_accept": settings.target_accept},
            var_names=names,
            progressbar=settings.progress,
            quiet=not settings.progress,
            compute_convergence_checks=False,
            model=effects_model(resolved),
        )
    posterior = {name: _floats(tree["posterior"][name]) for name in names}
    shape = (settings.chains, settings.draws)
    flat = {name: value.reshape(shape[0] * shape[1], -1) for name, value in posterior.items()}
    sites = scale_sites(resolved)
    columns = [flat[site.name] for site in sites[:-1]]
    sd = np.hstack(columns) if columns else np.empty((shape[0] * shape[1], 0))
    return Draws(
        scales=name_scales(resolved, sd, floored(flat["sigma"], resolved.noise_floor), shape),
        hyper={name: posterior[name] for name in names if name.endswith(("_center", "_spread"))},
        intercept=posterior["intercept"],
        effects={t.variable: posterior[f"{t.variable}_effect"] for t in kept},
        sample_stats=_sample_stats(tree["sample_stats"].to_dataset()),
        seconds=time.perf_counter() - started,
        method="nuts by nutpie" if sampler == "nutpie" else "nuts",
    )


def choose_sampler() -> str:
    """Return ``nutpie`` where a version that PyMC takes is installed, else ``pymc``."""
    try:
        found = version("nutpie")
    except PackageNotFoundError:
        return "pymc"
    numbers = tuple(int(n) for n in re.findall(r"\d+", found)[:3])
    return "nutpie" if numbers >= _NUTPIE_LEAST else "pymc"


# The model


def effects_model(resolved: Resolved) -> pm.Model:
    """Return the model with every effect sampled at unit scale (``<term>_z``).

    Its variables are those of the posterior and their unit-scale deviations; its
    dims are the facets. ``sigma`` is without the floor of :func:`floored`.

    Raises
    ------
    ModelError
        For a family that PyMC cannot fit yet.
    """
    family = resolved.spec.family
    if family not in _LIKELIHOODS:
        raise ModelError(
            f"the pymc engine cannot fit family {family!r} yet",
            f"model {resolved.spec.name}",
            f"Use engine numpyro, or a model of family {' or '.join(_LIKELIHOODS)}",
        )
    # The transforms keep every value within its bounds; checking them costs time.
    with pm.Model(coords=dict(resolved.labels), check_bounds=False) as model:
        _LIKELIHOODS[family](resolved, linear_predictor(resolved))
    return model


def linear_predictor(resolved: Resolved) -> Tensor:
    """Sample intercept, scales and effects inside a model; return their sum (N,)."""
    mean = pm.Normal("intercept", resolved.location, resolved.intercept_sd)
    for site, term in zip(scale_sites(resolved), resolved.terms, strict=False):
        sd = sample_scale(site, resolved.unit)
        effect = sample_unit_effects(term) * _sd_of_levels(sd, term)
        pm.Deterministic(f"{term.variable}_effect", effect, dims=term.dims)
        mean = mean + effect.ravel()[term.codes]
    return mean


def sample_unit_effects(term: ResolvedTerm) -> Tensor:
    """Sample a term's effects at unit scale inside a model, shape ``term.shape``.

    PyMC centres the last axes: ``<term>_z`` has the free facets first.
    """
    name = f"{term.variable}_z"
    axes = range(len(term.shape))
    zeros = [a for a in axes if term.centred[a]]
    free = [a for a in axes if not term.centred[a]]
    order = [*free, *zeros]
    dims = tuple(term.dims[a] for a in order)
    if not zeros:
        return pm.Normal(name, 0.0, 1.0, dims=dims)
    unit = pm.ZeroSumNormal(name, 1.0, n_zerosum_axes=len(zeros), dims=dims)
    return unit.transpose(*np.argsort(order).tolist())


def sample_scale(site: ScaleSite, unit: float) -> Tensor:
    """Sample one scale inside a model, in the unit of the scores; shape () or (n_by,)."""
    if not site.n_by:
        return _sample_prior(site.name, site.scale.center, unit)
    center = _sample_prior(f"{site.name}_center", site.scale.center, unit)
    spread = _sample_prior(f"{site.name}_spread", site.spread, 1.0)
    z = pm.Normal(f"{site.name}_z", 0.0, 1.0, dims=site.scale.by)
    return pm.Deterministic(site.name, center * pt.exp(spread * z), dims=site.scale.by)


def floored(sigma: Tensor, floor: float) -> Tensor:
    """Return residual variances: no residual sd is below the floor."""
    return sigma**2 + floor**2


def _sample_prior(name: str, prior: Prior, unit: float) -> Tensor:
    if prior.distribution == "fixed":
        # A plain float would become a float32 where that loses no digit.
        return pm.Deterministic(name, pt.as_tensor(np.float64(prior.parameters[0] * unit)))
    if prior.distribution == "lognormal":
        mu, spread = prior.parameters
        return pm.LogNormal(name, mu + np.log(unit), spread)
    return pm.HalfNormal(name, prior.parameters[0] * unit)


def _sd_of_levels(sd: Tensor, term: ResolvedTerm) -> Tensor:
    return sd if term.by_codes is None else sd[term.by_codes].reshape(term.shape)


def _gaussian(resolved: Resolved, mean: Tensor) -> None:
    sigma = sample_scale(scale_sites(resolved)[-1], resolved.unit)
    noise = floored(sigma, resolved.noise_floor)
    if resolved.residual_by is not None:
        noise = noise[resolved.residual_by]
    # Facets cannot bear this name: it is a role of the table.
    pm.Normal("score", mean, pt.sqrt(noise), observed=resolved.score)


_LIKELIHOODS: dict[str, Callable[[Resolved, Tensor], None]] = {"gaussian": _gaussian}


# From PyMC's draws to ours


def _names_of_scales(resolved: Resolved) -> list[str]:
    names: list[str] = []
    for site in scale_sites(resolved):
        names.append(site.name)
        if site.n_by:
            names += [f"{site.name}_center", f"{site.name}_spread"]
    return names


# nutpie calls two of them otherwise.
_STATS = {
    "diverging": ("diverging",),
    "n_steps": ("n_steps",),
    "acceptance_rate": ("acceptance_rate", "mean_tree_accept"),
    "lp": ("lp", "logp"),
    "energy": ("energy",),
}


def _sample_stats(stats: xr.Dataset) -> dict[str, Any]:
    found = {
        name: stats[next(n for n in names if n in stats)].transpose("chain", "draw").to_numpy()
        for name, names in _STATS.items()
    }
    return {**found, "n_steps": found["n_steps"].astype(np.int64)}


def _floats(values: xr.DataArray) -> Floats:
    return values.transpose("chain", "draw", ...).to_numpy().astype(np.float64)
