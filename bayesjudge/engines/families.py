"""NUTS for every family, all effects sampled: verdicts, categories, Student t, covariates."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray
from numpyro import handlers
from numpyro.distributions import biject_to
from numpyro.distributions.transforms import ExpTransform
from numpyro.infer import NUTS
from numpyro.infer.util import constrain_fn, potential_energy
from scipy.special import logit, ndtri

from bayesjudge.engines.coordinates import ScaleSite, scale_sites
from bayesjudge.engines.effects import name_scales
from bayesjudge.engines.family_model import Layout, family_model, lay_out
from bayesjudge.engines.nuts import MAX_TREE_DEPTH, chains_of, run_mcmc
from bayesjudge.engines.observations import category_counts
from bayesjudge.engines.protocol import Draws, Settings
from bayesjudge.resolution import Resolved, ResolvedTerm
from bayesjudge.response import cutpoints_from_stops, spaced_cutpoints

type Floats = NDArray[np.float64]

# Chains start this far from the values below, on the unconstrained scale.
_SCATTER = 0.5

# Draws of which effects are worked out together.
_AT_ONCE = 100

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
        program = flatten(resolved, layout)
        rng = np.random.default_rng(settings.random_seed)
        start = program.start(starting_values(resolved), settings.chains, rng)
        kernel = NUTS(
            potential_fn=program.potential,
            max_tree_depth=MAX_TREE_DEPTH,
            target_accept_prob=settings.target_accept,
            dense_mass=False,
        )
        q, stats = run_mcmc(chains_of(kernel, settings), settings, init_params=start)
        wanted = {t.variable for t in resolved.terms if _is_kept(t, settings)}
        samples = program.constrain(q, {f"{name}_effect" for name in wanted})
    draws = _draws(resolved, samples, stats)
    return replace(draws, seconds=time.perf_counter() - started, pass_seconds=passed)


def _is_kept(term: ResolvedTerm, settings: Settings) -> bool:
    return settings.nested_effects or "generation" not in term.dims


@dataclass(frozen=True, eq=False)
class Program:
    """A NumPyro model as functions of one vector, which compile several times faster.

    Attributes
    ----------
    model : function
    transforms, shapes : dict
        Of each parameter: from the real line, and its shape there.
    """

    model: Callable[[], None]
    transforms: dict[str, Any]
    shapes: dict[str, tuple[int, ...]]

    def unpack(self, q: Any) -> dict[str, Any]:
        """Return the parameters, on the real line, that a vector (D,) holds."""
        out, at = {}, 0
        for name, shape in self.shapes.items():
            size = int(np.prod(shape))
            out[name] = q[at : at + size].reshape(shape)
            at += size
        return out

    def potential(self, q: Any) -> Any:
        """Return minus the log density of a vector (D,)."""
        return potential_energy(self.model, (), {}, self.unpack(q))

    def start(self, values: dict[str, Any], chains: int, rng: np.random.Generator) -> Floats:
        """Return a vector for each chain, (chains, D), about what is known."""
        parts = []
        for name, shape in self.shapes.items():
            part = rng.uniform(-_SCATTER, _SCATTER, (chains, int(np.prod(shape))))
            if name in values:
                positive = isinstance(self.transforms[name], ExpTransform)
                known = np.log(values[name]) if positive else values[name]
                part = part * _SCATTER + np.reshape(known, (1, -1))
            parts.append(part)
        return np.concatenate(parts, axis=1)

    def constrain(self, q: Any, effects: set[str]) -> dict[str, Any]:
        """Return every site of (chain, draw, D) vectors, of effects those named.

        Unit-scale effects themselves are left out.
        """

        def sites(one: Any) -> dict[str, Any]:
            found = constrain_fn(self.model, (), {}, self.unpack(one), return_deterministic=True)
            return {
                name: value
                for name, value in found.items()
                if name in effects or not name.endswith(("_effect", "_z", "_w"))
            }

        flat = q.reshape(-1, q.shape[-1])
        found = jax.jit(lambda rows: jax.lax.map(sites, rows, batch_size=_AT_ONCE))(flat)
        return {
            name: np.asarray(v).reshape(*q.shape[:2], *v.shape[1:]) for name, v in found.items()
        }


def flatten(resolved: Resolved, layout: Layout) -> Program:
    """Find the parameters of a model, without running it."""
    transforms: dict[str, Any] = {}
    shapes: dict[str, tuple[int, ...]] = {}

    def model() -> None:
        family_model(resolved, layout)

    def look() -> int:
        sites = handlers.trace(handlers.seed(model, jax.random.key(0))).get_trace()
        for name, site in sites.items():
            if site["type"] == "sample" and not site["is_observed"]:
                transforms[name] = biject_to(site["fn"].support)
                shapes[name] = transforms[name].inverse_shape(site["fn"].shape())
        return 0

    jax.eval_shape(look)
    return Program(model, transforms, shapes)


def starting_values(resolved: Resolved) -> dict[str, Any]:
    """Return where chains start, by site: the table's own frequencies, middling scales."""
    values: dict[str, Any] = {"degrees_of_freedom": np.asarray(10.0)}
    spec = resolved.spec
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


def _draws(resolved: Resolved, samples: dict[str, Any], stats: dict[str, Any]) -> Draws:
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
    names += [f"{c.name}_slope" for c in resolved.covariates]
    found = {name: np.asarray(samples[name]) for name in names if name in samples}
    if "cutpoints_x" in samples:
        shared = cutpoints_from_stops(np.asarray(samples["cutpoints_x"]), resolved.spec.link)
        found["cutpoints"] = shared
        if "log_spacing" in samples:
            found["cutpoints"] = spaced_cutpoints(shared, np.asarray(samples["log_spacing"]))
    return found
