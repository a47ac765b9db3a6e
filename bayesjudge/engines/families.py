"""NUTS for every family, all effects sampled: verdicts, categories, Student t, covariates."""

from __future__ import annotations

import time
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray
from numpyro.infer import init_to_uniform
from scipy.special import logit, ndtri

from bayesjudge.engines.coordinates import ScaleSite, scale_sites
from bayesjudge.engines.effects import name_scales
from bayesjudge.engines.family_model import family_model, lay_out
from bayesjudge.engines.nuts import build_mcmc, run_mcmc
from bayesjudge.engines.observations import category_counts
from bayesjudge.engines.protocol import Draws, Settings
from bayesjudge.resolution import Resolved
from bayesjudge.response import cutpoints_from_stops, spaced_cutpoints

type Floats = NDArray[np.float64]

# Chains start this far from the values below, on the unconstrained scale.
_SCATTER = 0.5

_HYPER = ("center", "spread")


def sample_family(resolved: Resolved, settings: Settings) -> Draws:
    """Sample the posterior of a model of any family, every effect a parameter.

    Parameters
    ----------
    resolved : Resolved
    settings : Settings
        ``integrate`` is not looked at: effects are sampled.

    Returns
    -------
    Draws
        Effects of generations only where ``nested_effects`` asks for them.
    """
    started = time.perf_counter()
    layout = lay_out(resolved)
    passed = time.perf_counter() - started
    with jax.enable_x64(True):
        start = partial(_start, values=starting_values(resolved))

        def model() -> None:
            family_model(resolved, layout)

        mcmc = build_mcmc(model, {}, settings, jit_model_args=False, start=start)
        samples, stats = run_mcmc(mcmc, settings)
    draws = _draws(resolved, settings, samples, stats)
    return replace(draws, seconds=time.perf_counter() - started, pass_seconds=passed)


def starting_values(resolved: Resolved) -> dict[str, Any]:
    """Return where chains start, by site: the table's own frequencies, middling scales."""
    values: dict[str, Any] = {"degrees_of_freedom": np.asarray(10.0)}
    spec = resolved.spec
    if spec.intercept is not None:
        middle = resolved.location
        if spec.is_latent:
            rejected, accepted = category_counts(resolved) + 1.0
            share = accepted / (rejected + accepted)
            middle = float(logit(share) if spec.link == "logit" else ndtri(share))
        values["intercept"] = np.asarray(middle)
    elif len(resolved.categories) > 1:
        seen = category_counts(resolved) + 1.0
        values["cutpoints_x"] = np.log(seen[:-1]) - np.log(np.cumsum(seen[::-1])[::-1][1:])
    for site in scale_sites(resolved):
        values |= _middling(site, resolved.unit)
    if resolved.thresholds is not None:
        values["cutpoints_sd"] = np.asarray(resolved.thresholds.deviation.parameters[0] / 2)
    return values


def _middling(site: ScaleSite, unit: float) -> dict[str, Any]:
    prior = site.scale.center
    center = prior.parameters[0] / 2
    if prior.distribution == "lognormal":
        center = float(np.exp(prior.parameters[0]))
    if not site.n_by:
        return {site.name: np.asarray(center * unit)}
    return {
        f"{site.name}_center": np.asarray(center * unit),
        f"{site.name}_spread": np.asarray(site.spread.parameters[0] / 2),
    }


def _start(site: dict[str, Any] | None = None, values: dict[str, Any] | None = None) -> Any:
    """Start a site where it is known, else near zero: a strategy as NumPyro takes it."""
    if site is None:
        return partial(_start, values=values)
    if values and site["type"] == "sample" and site["name"] in values:
        return values[site["name"]]
    return init_to_uniform(site, radius=_SCATTER)


def _draws(
    resolved: Resolved, settings: Settings, samples: dict[str, Any], stats: dict[str, Any]
) -> Draws:
    all_sd = np.asarray(samples["all_sd"])
    shape = (all_sd.shape[0], all_sd.shape[1])
    noise = samples.get("noise_variance")
    flat_noise = None if noise is None else np.asarray(noise).reshape(shape[0] * shape[1], -1)
    scales = name_scales(resolved, all_sd.reshape(shape[0] * shape[1], -1), flat_noise, shape)
    hyper = {f"{site.name}_{part}" for site in scale_sites(resolved) for part in _HYPER}
    intercept = samples.get("intercept")
    return Draws(
        scales=scales,
        hyper={name: np.asarray(value) for name, value in samples.items() if name in hyper},
        intercept=np.zeros(shape) if intercept is None else np.asarray(intercept),
        effects={
            t.variable: np.asarray(samples[f"{t.variable}_effect"])
            for t in resolved.terms
            if settings.nested_effects or "generation" not in t.dims
        },
        sample_stats=stats,
        method="nuts",
        parameters=_parameters(resolved, samples),
    )


def _parameters(resolved: Resolved, samples: dict[str, Any]) -> dict[str, Floats]:
    names = ["degrees_of_freedom", "cutpoints_sd"]
    names += [f"{c.name}_slope" for c in resolved.covariates]
    found = {name: np.asarray(samples[name]) for name in names if name in samples}
    if "cutpoints_x" in samples:
        shared = cutpoints_from_stops(np.asarray(samples["cutpoints_x"]), resolved.spec.link)
        found["cutpoints"] = shared
        if "log_spacing" in samples:
            found["cutpoints"] = spaced_cutpoints(shared, np.asarray(samples["log_spacing"]))
    return found
