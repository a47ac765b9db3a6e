"""The peer with every effect sampled: NumPyro's NUTS, centred or not.

``python -m benchmarks.every_effect NAME TABLE.csv PARAMETERIZATION ...``
"""

from __future__ import annotations

import argparse
import json
import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.infer import MCMC, NUTS

from bayesjudge.engines import Draws, Settings, load_engine
from bayesjudge.engines.convergence import diagnose
from bayesjudge.engines.posterior import posterior_tree
from bayesjudge.resolution import Resolved, ResolvedTerm, resolve
from bayesjudge.spec import Prior, Scale, read_model
from benchmarks.ours import read
from benchmarks.plain import sample_plain
from benchmarks.workloads import workload

type Array = Any

PARAMETERIZATIONS = ("centred", "non-centred")
_TREE_DEPTH = 10


def centred_model(resolved: Resolved) -> None:
    """The model with effects, and levels of by-scales, sampled on their own scale."""
    mean = numpyro.sample("intercept", dist.Normal(resolved.location, resolved.intercept_sd))
    for term in resolved.terms:
        sd = _sample_scale(f"{term.variable}_sd", term.scale, len(term.by_labels), resolved.unit)
        effect = _sample_effects(term, sd)
        mean = mean + jnp.ravel(effect)[term.codes]
    sigma = _sample_scale(
        "sigma", resolved.residual_scale, len(resolved.residual_labels), resolved.unit
    )
    noise = jnp.sqrt(sigma**2 + resolved.noise_floor**2)
    by = noise if resolved.residual_by is None else noise[resolved.residual_by]
    numpyro.sample("scores", dist.Normal(mean, by).to_event(1), obs=resolved.score)


def _sample_scale(name: str, scale: Scale, n_by: int, unit: float) -> Array:
    if not n_by or scale.spread is None:
        return _sample_prior(name, scale.center, unit)
    center = _sample_prior(f"{name}_center", scale.center, unit)
    spread = _sample_prior(f"{name}_spread", scale.spread, 1.0)
    levels = dist.LogNormal(jnp.log(center), spread).expand([n_by]).to_event(1)
    return numpyro.sample(name, levels)


def _sample_prior(name: str, prior: Prior, unit: float) -> Array:
    if prior.distribution == "fixed":
        return jnp.asarray(prior.parameters[0] * unit)
    if prior.distribution == "lognormal":
        mu, width = prior.parameters
        return numpyro.sample(name, dist.LogNormal(mu + jnp.log(unit), width))
    return numpyro.sample(name, dist.HalfNormal(prior.parameters[0] * unit))


def _sample_effects(term: ResolvedTerm, sd: Array) -> Array:
    """Sample the effects of a term, shape ``term.shape``."""
    name = f"{term.variable}_effect"
    zeros = [axis for axis, centred in enumerate(term.centred) if centred]
    if not zeros:
        width = sd if term.by_codes is None else jnp.reshape(sd[term.by_codes], term.shape)
        return numpyro.sample(
            name, dist.Normal(0.0, width).expand(term.shape).to_event(len(term.shape))
        )
    if len(zeros) < len(term.shape):
        raise NotImplementedError(f"{term.name} sums to zero over some of its facets only")
    return numpyro.sample(name, dist.ZeroSumNormal(sd, term.shape))


def sample_centred(resolved: Resolved, settings: Settings) -> Draws:
    """Run NUTS on :func:`centred_model`."""
    kernel = NUTS(
        centred_model,
        target_accept_prob=settings.target_accept,
        max_tree_depth=_TREE_DEPTH,
    )
    mcmc = MCMC(
        kernel,
        num_warmup=settings.tune,
        num_samples=settings.draws,
        num_chains=settings.chains,
        chain_method="vectorized",
        progress_bar=False,
    )
    mcmc.run(
        jax.random.key(settings.random_seed), resolved, extra_fields=("diverging", "num_steps")
    )
    samples = {k: np.asarray(v) for k, v in mcmc.get_samples(group_by_chain=True).items()}
    stats = mcmc.get_extra_fields(group_by_chain=True)
    shape = (settings.chains, settings.draws)
    scales = {
        f"{t.variable}_sd": _scale_draws(samples, f"{t.variable}_sd", t.scale, resolved.unit, shape)
        for t in resolved.terms
    }
    sigma = _scale_draws(samples, "sigma", resolved.residual_scale, resolved.unit, shape)
    # What the residual sd is, its floor included.
    scales["sigma"] = np.sqrt(sigma**2 + resolved.noise_floor**2)
    return Draws(
        scales,
        {k: v for k, v in samples.items() if k.endswith(("_center", "_spread"))},
        samples["intercept"],
        {
            t.variable: samples[f"{t.variable}_effect"]
            for t in resolved.terms
            if "generation" not in t.dims
        },
        {
            "diverging": np.asarray(stats["diverging"], bool),
            "n_steps": np.asarray(stats["num_steps"]),
        },
        method="nuts, centred",
    )


def _scale_draws(
    samples: dict[str, Any], name: str, scale: Scale, unit: float, shape: tuple[int, int]
) -> Any:
    if name in samples:
        return samples[name]
    return np.full(shape, scale.center.parameters[0] * unit)


class CompileClock:
    """Adds up the seconds that XLA spends on compiling; they are taken off the peer's time."""

    def __init__(self) -> None:
        self.seconds = 0.0
        jax.monitoring.register_event_duration_secs_listener(self._listen)

    def _listen(self, event: str, duration_secs: float, **_: str | int) -> None:
        if event.endswith("backend_compile_duration"):
            self.seconds += duration_secs


def measure(name: str, path: str, parameterization: str, settings: Settings) -> dict[str, Any]:
    """Sample one workload and return its ESS per second."""
    which = workload(name)
    resolved = resolve(read_model(which.model), read(which, path))
    clock = CompileClock()
    started = time.perf_counter()
    with jax.enable_x64(True):
        if which.is_sampled:
            draws = sample_plain(resolved, settings, parameterization == "centred")
        elif parameterization == "centred":
            draws = sample_centred(resolved, settings)
        else:
            draws = load_engine("numpyro")(resolved, settings)
    seconds = time.perf_counter() - started
    found = diagnose(posterior_tree(resolved, draws), resolved.panel)
    warm = seconds - clock.seconds
    return {
        "seconds": seconds,
        "compile_s": clock.seconds,
        "warm_s": warm,
        "draws": settings.draws,
        "tune": settings.tune,
        "chains": settings.chains,
        "steps_per_draw": float(np.mean(draws.sample_stats["n_steps"])),
        "ess_min": found.ess_bulk_min,
        "ess_tail_min": found.ess_tail_min,
        "worst": found.worst,
        "r_hat_max": found.r_hat_max,
        "divergences": found.divergences,
        "ess_per_s": found.ess_bulk_min / warm,
    }


def main() -> None:
    """Print one JSON object."""
    parser = argparse.ArgumentParser()
    parser.add_argument("name")
    parser.add_argument("path")
    parser.add_argument("parameterization", choices=PARAMETERIZATIONS)
    for option in ("draws", "tune", "chains"):
        parser.add_argument(f"--{option}", type=int, required=True)
    asked = parser.parse_args()
    settings = Settings(draws=asked.draws, tune=asked.tune, chains=asked.chains, integrate=False)
    print(json.dumps(measure(asked.name, asked.path, asked.parameterization, settings)))


if __name__ == "__main__":
    main()
