"""The PyMC engine: every effect sampled at unit scale, by nutpie or PyMC's own NUTS.

The models of every family, written a second time from
:class:`bayesjudge.resolution.Resolved` and :class:`Observations` alone, with the
sites that :mod:`bayesjudge.engines.observations` names: the log density and
NumPyro's differ by a constant (``tests/test_parity.py``). Nothing is integrated
out, so a gaussian model takes far longer here than with the exact engine; this is
its witness.

With nutpie the chains run side by side in threads. PyMC's own sampler, where
nutpie is missing, runs them in turn: its worker processes would be forked from a
process in which JAX may have threads, or start the caller's script again.
"""

from __future__ import annotations

import contextlib
import re
import sys
import time
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from numpy.typing import NDArray

from bayesjudge.engines.coordinates import ScaleSite, scale_sites
from bayesjudge.engines.observations import Observations, observe
from bayesjudge.engines.protocol import Draws, Settings
from bayesjudge.engines.pymc_likelihoods import (
    Cutpoints,
    bernoulli_log_likelihood,
    cumulative_log_likelihood,
    davidson_log_likelihood,
    draw_stop_logits,
    stop_logits_density,
)
from bayesjudge.engines.sampled import draws_of_samples, kept_terms, starting_values
from bayesjudge.errors import ModelError
from bayesjudge.resolution import Resolved, ResolvedTerm
from bayesjudge.spec import Prior

if TYPE_CHECKING:
    import xarray as xr

type Floats = NDArray[np.float64]
type Tensor = Any

# PyMC 6 refuses older ones.
_NUTPIE_LEAST = (0, 16, 10)

# Facets cannot bear this name: it is a role of the table.
_SCORES = "score"


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
        In the unit of the scores; ``method`` says which sampler ran. Effects of
        generations only where ``nested_effects`` asks for them.
    """
    started = time.perf_counter()
    sampler = choose_sampler()
    model = effects_model(resolved)
    kept = {f"{t.variable}_effect" for t in kept_terms(resolved, settings)}
    names = [
        name
        for name in model.named_vars
        if name in kept or (not name.endswith(("_effect", "_z")) and name != _SCORES)
    ]
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
            model=model,
        )
    samples = {name: _floats(tree["posterior"][name]) for name in names}
    samples |= _packed(resolved, samples)
    draws = draws_of_samples(resolved, samples, _sample_stats(tree["sample_stats"].to_dataset()))
    return replace(
        draws,
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
    dims are the facets. ``sigma`` is without the floor of :func:`floored`, and
    cutpoints are the log-odds ``cutpoints_x``.
    """
    seen = observe(resolved)
    # The transforms keep every value within its bounds; checking them costs time.
    with pm.Model(coords=dict(resolved.labels), check_bounds=False) as model:
        cutpoints = _sample_cutpoints(resolved)
        _observe_scores(resolved, seen, linear_predictor(resolved, seen), cutpoints)
    values = starting_values(resolved)
    for variable in model.free_RVs:
        if variable.name in values:
            model.set_initval(variable, values[variable.name])
    return model


def linear_predictor(resolved: Resolved, seen: Observations) -> Tensor:
    """Sample intercept, slopes, scales and effects inside a model; return their sum (P,)."""
    unit = resolved.unit
    mean: Tensor = pt.zeros(seen.n_predictors)
    # What an answer is worth, which counts by discrimination, stands apart.
    worth: Tensor = pt.zeros(seen.n_predictors)
    if resolved.spec.intercept is not None:
        mean = mean + pm.Normal("intercept", resolved.location, resolved.intercept_sd)
    for covariate, values in zip(resolved.covariates, seen.covariates.T, strict=True):
        width = covariate.prior.parameters[0] * unit
        mean = mean + pm.Normal(f"{covariate.name}_slope", 0.0, width) * values
    sites = scale_sites(resolved)
    terms = zip(resolved.terms, seen.codes, seen.against, strict=True)
    for site, (term, codes, against) in zip(sites, terms, strict=False):
        sd = sample_scale(site, unit)
        effect = sample_unit_effects(term) * _sd_of_levels(sd, term)
        pm.Deterministic(f"{term.variable}_effect", effect, dims=term.dims)
        part = effect.ravel()[codes]
        if against is not None:
            part = part - effect.ravel()[against]
        if resolved.is_scaled(term):
            worth = worth + part
        else:
            mean = mean + part
    if resolved.discrimination is None:
        return mean
    return mean + _sample_discrimination(resolved)[seen.discrimination_codes] * worth


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


def _sample_discrimination(resolved: Resolved) -> Tensor:
    """Sample factors whose logs sum to zero inside a model, (levels,)."""
    given = resolved.discrimination
    if given is None:
        raise ModelError("the model has no discrimination")
    sd = _sample_prior("discrimination_sd", given.spread, 1.0)
    z = pm.ZeroSumNormal("discrimination_z", 1.0, n_zerosum_axes=1, dims=given.by)
    return pm.Deterministic("discrimination", pt.exp(sd * z), dims=given.by)


def _sample_tie_chance(resolved: Resolved) -> Tensor | None:
    prior = resolved.ties
    if prior is None:
        return None
    if prior.distribution == "fixed":
        return _sample_prior("tie_chance", prior, 1.0)
    alpha, beta = prior.parameters
    return pm.Beta("tie_chance", alpha=alpha, beta=beta)


def _sample_cutpoints(resolved: Resolved) -> Cutpoints | None:
    """Sample the cutpoints inside a model; None for a family or table without any."""
    n_cutpoints = len(resolved.categories) - 1
    if resolved.spec.family != "cumulative" or not n_cutpoints:
        return None
    x = pm.CustomDist(
        "cutpoints_x",
        np.arange(n_cutpoints, 0.0, -1.0),
        logp=stop_logits_density,
        random=draw_stop_logits,
        signature="(t)->(t)",
    )
    spacing = None
    if resolved.thresholds is not None:
        sd = _sample_prior("cutpoints_sd", resolved.thresholds.deviation, 1.0)
        # The zero-sum axis comes last here; the facet comes first in the posterior.
        shape = (n_cutpoints - 1, len(resolved.thresholds.labels))
        z = pm.ZeroSumNormal("cutpoints_z", 1.0, n_zerosum_axes=1, shape=shape)
        spacing = pm.Deterministic("log_spacing", sd * z.T)
    return Cutpoints(x, resolved.spec.link, spacing)


def _observe_scores(
    resolved: Resolved, seen: Observations, mean: Tensor, cutpoints: Cutpoints | None
) -> None:
    """Lay the scores on their predictors inside a model."""
    spec = resolved.spec
    if spec.is_paired:
        log_p = davidson_log_likelihood(mean, _sample_tie_chance(resolved), seen)
        pm.Potential(_SCORES, log_p)
        return
    if spec.family == "bernoulli":
        pm.Potential(_SCORES, bernoulli_log_likelihood(mean, spec.link, seen))
        return
    if spec.family == "cumulative":
        # One category alone is certain whatever the parameters.
        if cutpoints is not None:
            last = len(resolved.categories) - 1
            log_p = cumulative_log_likelihood(mean, cutpoints, last, spec.link, seen)
            pm.Potential(_SCORES, log_p)
        return
    sigma = sample_scale(scale_sites(resolved)[-1], resolved.unit)
    scale = pt.sqrt(floored(sigma, resolved.noise_floor))
    if resolved.residual_by is not None:
        scale = scale[seen.residual_codes]
    prior = spec.degrees_of_freedom
    if prior is None:
        pm.Normal(_SCORES, mean, scale, observed=seen.score)
        return
    if prior.distribution == "fixed":
        degrees = _sample_prior("degrees_of_freedom", prior, 1.0)
    else:
        shape, rate = prior.parameters
        degrees = pm.Gamma("degrees_of_freedom", alpha=shape, beta=rate)
    pm.StudentT(_SCORES, nu=degrees, mu=mean, sigma=scale, observed=seen.score)


# From PyMC's draws to ours


def _packed(resolved: Resolved, samples: dict[str, Floats]) -> dict[str, Floats]:
    """Return the scales of all terms in a row, and residual variances with their floor."""
    shape = next(iter(samples.values())).shape[:2]
    sites = scale_sites(resolved)
    columns = [samples[s.name].reshape(*shape, -1) for s in sites if s.name != "sigma"]
    packed = {"all_sd": np.concatenate(columns, axis=2)}
    if "sigma" in samples:
        packed["noise_variance"] = floored(samples["sigma"], resolved.noise_floor)
    return packed


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
