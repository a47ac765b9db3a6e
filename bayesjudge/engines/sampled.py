"""Models whose effects are all sampled: where chains start, and draws from samples.

What a sampler of any library gives back goes by the sites' names; the functions
here know no library.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logit, ndtri

from bayesjudge.engines.coordinates import ScaleSite, scale_sites
from bayesjudge.engines.effects import is_kept, name_scales
from bayesjudge.engines.observations import category_counts
from bayesjudge.engines.protocol import Draws, Settings
from bayesjudge.resolution import Resolved, ResolvedTerm
from bayesjudge.response import cutpoints_from_stops, spaced_cutpoints

type Floats = NDArray[np.float64]

_HYPER = ("center", "spread")


def kept_terms(resolved: Resolved, settings: Settings) -> tuple[ResolvedTerm, ...]:
    """Return the terms whose effects are part of the draws, all where that is asked for."""
    every = settings.nested_effects
    return tuple(t for t in resolved.terms if every or is_kept(t, resolved.panel))


def starting_values(resolved: Resolved) -> dict[str, Any]:
    """Return where chains start, by site: the table's own frequencies, middling scales."""
    values: dict[str, Any] = {"degrees_of_freedom": np.asarray(10.0)}
    spec = resolved.spec
    if resolved.ties is not None:
        tied = float((resolved.score == 0.5).sum()) + 1.0
        values["tie_chance"] = np.asarray(tied / (resolved.score.size + 3.0))
    if resolved.discrimination is not None:
        values["discrimination_sd"] = np.asarray(resolved.discrimination.spread.parameters[0] / 2)
    if spec.intercept is not None:
        values["intercept"] = np.asarray(_middle(resolved))
    elif len(resolved.categories) > 1:
        seen = category_counts(resolved) + 1.0
        values["cutpoints_x"] = np.log(seen[:-1]) - np.log(np.cumsum(seen[::-1])[::-1][1:])
    for site in scale_sites(resolved):
        values |= _middling(site, resolved.unit)
    if resolved.thresholds is not None:
        values["cutpoints_sd"] = np.asarray(resolved.thresholds.deviation.parameters[0] / 2)
    return values


def _middle(resolved: Resolved) -> float:
    """Return roughly where the intercept will lie."""
    if not resolved.spec.is_latent:
        return resolved.location
    if resolved.spec.is_paired:
        share = (float(resolved.score.sum()) + 1.0) / (resolved.score.size + 2.0)
        return float(logit(share))
    rejected, accepted = category_counts(resolved) + 1.0
    share = accepted / (rejected + accepted)
    return float(logit(share) if resolved.spec.link == "logit" else ndtri(share))


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


def draws_of_samples(resolved: Resolved, samples: dict[str, Any], stats: dict[str, Any]) -> Draws:
    """Return draws of samples by site.

    Parameters
    ----------
    resolved : Resolved
    samples : dict of (chain, draw, ...) arrays
        ``all_sd``, the scales of all terms in a row; ``noise_variance`` with its
        floor, of families that have it; ``intercept``, ``<term>_effect`` of the
        terms that are kept, ``<scale>_center`` and ``<scale>_spread``,
        ``degrees_of_freedom``, ``<covariate>_slope``, ``tie_chance``,
        ``discrimination`` and ``discrimination_sd``, ``cutpoints_x``,
        ``cutpoints_sd`` and ``log_spacing`` (level of the facet, distance), where
        the model has them. Others are not looked at.
    stats : dict of (chain, draw) arrays
        The sampler's, as :class:`Draws` names them.
    """
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
            if f"{t.variable}_effect" in samples
        },
        sample_stats=stats,
        method="nuts",
        parameters=_parameters(resolved, samples),
    )


def _parameters(resolved: Resolved, samples: dict[str, Any]) -> dict[str, Floats]:
    names = ["degrees_of_freedom", "cutpoints_sd"]
    names += ["discrimination", "discrimination_sd", "tie_chance"]
    names += [f"{c.name}_slope" for c in resolved.covariates]
    found = {name: np.asarray(samples[name]) for name in names if name in samples}
    if "cutpoints_x" in samples:
        shared = cutpoints_from_stops(np.asarray(samples["cutpoints_x"]), resolved.spec.link)
        found["cutpoints"] = shared
        if "log_spacing" in samples:
            found["cutpoints"] = spaced_cutpoints(shared, np.asarray(samples["log_spacing"]))
    return found
