"""The peer of verdicts and categories: plain NumPyro, one likelihood term a score.

NumPyro's own distributions, nothing counted together, every effect sampled at
unit scale or, centred, on its own.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.infer import MCMC, NUTS

from bayesjudge.engines import Draws, Settings
from bayesjudge.engines.coordinates import scale_sites
from bayesjudge.engines.family_model import StopLogits
from bayesjudge.engines.likelihoods import Cutpoints
from bayesjudge.engines.nuts import sample_scale, sample_unit_effects
from bayesjudge.engines.sampled import draws_of_samples
from bayesjudge.resolution import Resolved, ResolvedTerm

type Array = Any


def plain_model(resolved: Resolved, centred: bool) -> None:
    """Sample a model of verdicts or categories with shared thresholds."""
    mean: Array = jnp.zeros(resolved.score.size)
    if resolved.spec.intercept is not None:
        mean = mean + numpyro.sample(
            "intercept", dist.Normal(resolved.location, resolved.intercept_sd)
        )
    every = []
    for site, term in zip(scale_sites(resolved), resolved.terms, strict=True):
        sd = sample_scale(site, resolved.unit)
        every.append(sd)
        effect = _sample_effect(term, sd, centred)
        numpyro.deterministic(f"{term.variable}_effect", effect)
        mean = mean + effect.ravel()[term.codes]
    numpyro.deterministic("all_sd", jnp.concatenate(every))
    if resolved.spec.family == "bernoulli":
        scores = dist.Bernoulli(logits=mean)
    else:
        x = numpyro.sample("cutpoints_x", StopLogits(len(resolved.categories) - 1))
        scores = dist.OrderedLogistic(mean, Cutpoints(x, "logit").cuts)
    category = (resolved.score - resolved.categories[0]).astype(np.int64)
    numpyro.sample("scores", scores.to_event(1), obs=category)


def _sample_effect(term: ResolvedTerm, sd: Array, centred: bool) -> Array:
    by = 0 if term.by_codes is None else term.by_codes.reshape(term.shape)
    if not centred:
        return sd[by] * sample_unit_effects(term)
    # Effects that sum to zero take one scale.
    wide = sd[0] if any(term.centred) else sd[by]
    return sample_unit_effects(term, f"{term.variable}_own", wide)


def sample_plain(resolved: Resolved, settings: Settings, centred: bool) -> Draws:
    """Run NUTS, as NumPyro has it, on :func:`plain_model`."""
    kernel = NUTS(plain_model, target_accept_prob=settings.target_accept)
    mcmc = MCMC(
        kernel,
        num_warmup=settings.tune,
        num_samples=settings.draws,
        num_chains=settings.chains,
        chain_method="vectorized",
        progress_bar=False,
    )
    fields = ("diverging", "num_steps")
    mcmc.run(jax.random.key(settings.random_seed), resolved, centred, extra_fields=fields)
    kept = {f"{t.variable}_effect" for t in resolved.terms if set(t.dims) <= set(resolved.panel)}
    samples = {
        name: np.asarray(value)
        for name, value in mcmc.get_samples(group_by_chain=True).items()
        if name in kept or not name.endswith(("_effect", "_z", "_own"))
    }
    stats = mcmc.get_extra_fields(group_by_chain=True)
    return draws_of_samples(
        resolved,
        samples,
        {
            "diverging": np.asarray(stats["diverging"], bool),
            "n_steps": np.asarray(stats["num_steps"]),
        },
    )
