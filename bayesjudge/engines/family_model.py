"""The model of any family, every effect sampled, as a NumPyro program."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpy.typing import NDArray

from bayesjudge.engines.coordinates import scale_sites
from bayesjudge.engines.likelihoods import (
    Cutpoints,
    bernoulli_log_likelihood,
    continuous_log_likelihood,
    cumulative_log_likelihood,
    davidson_log_likelihood,
)
from bayesjudge.engines.nuts import sample_prior, sample_scale, sample_unit_effects
from bayesjudge.engines.observations import (
    Observations,
    filled_up,
    information,
    observe,
)
from bayesjudge.errors import ModelError
from bayesjudge.resolution import Resolved, ResolvedTerm

type Array = Any
type Ints = NDArray[np.int64]

# The crossing of all facets is added up before rows are looked up in it, unless
# it has so many more cells than there are rows.
_MOST_CELLS_A_ROW = 4

# Where a layout keeps what is known of the logs of discrimination.
_DISCRIMINATION = "discrimination"


class StopLogits(dist.Distribution):  # type: ignore[misc]
    """Log-odds of stopping at each category that is not yet passed, of a Dirichlet(1).

    The k-th of T (from 1) is the logit of a Beta(1, T + 1 - k), independent of
    the others: see :mod:`bayesjudge.engines.observations`.
    """

    support = dist.constraints.real_vector

    def __init__(self, n_cutpoints: int) -> None:
        """Have T coordinates."""
        self.passes = np.arange(n_cutpoints, 0.0, -1.0)
        super().__init__(event_shape=(n_cutpoints,))

    def sample(self, key: Array, sample_shape: tuple[int, ...] = ()) -> Array:
        """Draw (..., T) values."""
        u = jax.random.uniform(key, sample_shape + self.event_shape, minval=1e-12)
        # 1 - Beta(1, b) is a uniform to the power 1/b.
        log_pass = jnp.log(u) / self.passes
        return jnp.log(-jnp.expm1(log_pass)) - log_pass

    def log_prob(self, value: Array) -> Array:
        """Return the density, normalized."""
        each = jax.nn.log_sigmoid(value) + self.passes * jax.nn.log_sigmoid(-value)
        return jnp.sum(each + np.log(self.passes), axis=-1)


@dataclass(frozen=True, eq=False)
class Layout:
    """How effects come to rows.

    Attributes
    ----------
    seen : Observations
    facets, shape : tuples
        The crossing in which most terms are added up first; empty for none.
    cell : (P,) int array or None
        Of each row in it.
    information : dict of float or array of the term's shape
        By the term's variable: roughly what the scores say of an effect. It
        chooses the coordinates sampled in; empty for unit scale.
    """

    seen: Observations
    facets: tuple[str, ...]
    shape: tuple[int, ...]
    cell: Ints | None
    information: dict[str, Any]


def lay_out(resolved: Resolved, aggregate: bool = True, adapt: bool = True) -> Layout:
    """Count the scores and choose coordinates.

    Parameters
    ----------
    aggregate : bool
        Count scores that share a predictor together.
    adapt : bool
        Choose coordinates by what the scores say of each effect; False leaves
        every effect at unit scale.
    """
    seen = observe(resolved, aggregate)
    if resolved.spec.family == "cumulative" and len(resolved.categories) > 1:
        seen = filled_up(seen)
    crossed = [t for t in resolved.terms if _crosses(t)]
    if resolved.spec.is_paired:
        # A battle takes two levels of a term: they are looked up row by row.
        crossed = []
    codes: dict[str, Ints] = {}
    sizes: dict[str, int] = {}
    for term in crossed:
        flat = seen.codes[resolved.terms.index(term)]
        for dim, size, code in zip(
            term.dims, term.shape, np.unravel_index(flat, term.shape), strict=True
        ):
            codes[dim], sizes[dim] = code, size
    facets = tuple(name for name, _ in resolved.labels if name in codes)
    shape = tuple(sizes[name] for name in facets)
    cell = None
    if crossed and np.prod(shape, dtype=float) <= _MOST_CELLS_A_ROW * seen.n_predictors:
        cell = np.ravel_multi_index(tuple(codes[name] for name in facets), shape)
    known: dict[str, Any] = {}
    if adapt:
        guess = information(resolved)
        for term in resolved.terms:
            levels = guess[term.variable]
            centred = any(term.centred)
            # Zero-sum normals take one scale, and one a level of a free axis would
            # not keep them so: scales by a facet stay at unit scale there.
            if not centred:
                known[term.variable] = levels.reshape(term.shape)
            elif term.by_codes is None:
                known[term.variable] = float(levels.mean())
        if resolved.discrimination is not None:
            # Of the log of a factor, where what answers are worth varies as much as noise.
            known[_DISCRIMINATION] = resolved.score.size / len(resolved.discrimination.labels)
    return Layout(seen, facets, shape, cell, known)


def _crosses(term: ResolvedTerm) -> bool:
    return "generation" not in term.dims


def family_model(resolved: Resolved, layout: Layout) -> None:
    """Sample the parameters of any family; sites as :mod:`observations` names them.

    An effect e with ``information`` h is sampled as ``<term>_w`` = z sqrt(1 + h
    sd^2), e = sd z, z standard normal: were the likelihood of the effect normal
    with precision h about zero, w would be independent of the sd. Few scores leave
    it at unit scale (non-centred), many make it the effect itself (centred).
    """
    unit, spec = resolved.unit, resolved.spec
    size = layout.seen.n_predictors
    # What an answer is worth, which counts by discrimination, stands apart.
    grids: list[Array] = [jnp.zeros(layout.shape), jnp.zeros(layout.shape)]
    parts: list[Array] = [jnp.zeros(size), jnp.zeros(size)]
    cutpoints = None
    if spec.intercept is not None:
        width = resolved.intercept_sd
        parts[0] = parts[0] + numpyro.sample("intercept", dist.Normal(resolved.location, width))
    elif len(resolved.categories) > 1:
        cutpoints = _sample_cutpoints(resolved)
    for i, covariate in enumerate(resolved.covariates):
        width = covariate.prior.parameters[0] * unit
        slope = numpyro.sample(f"{covariate.name}_slope", dist.Normal(0.0, width))
        parts[0] = parts[0] + slope * layout.seen.covariates[:, i]
    sds = {
        term.variable: sample_scale(site, unit)
        for site, term in zip(scale_sites(resolved), resolved.terms, strict=False)
    }
    rows_of = zip(layout.seen.codes, layout.seen.against, strict=True)
    for term, (codes, against) in zip(resolved.terms, rows_of, strict=True):
        name, scaled = term.variable, int(resolved.is_scaled(term))
        effect = _sample_effect(term, sds[name], layout.information.get(name))
        numpyro.deterministic(f"{name}_effect", effect)
        if layout.cell is not None and _crosses(term):
            aligned = [
                term.shape[term.dims.index(facet)] if facet in term.dims else 1
                for facet in layout.facets
            ]
            part = jnp.reshape(_in_order(effect, term, layout.facets), aligned)
            grids[scaled] = grids[scaled] + part
        else:
            parts[scaled] = parts[scaled] + effect.ravel()[codes]
        if against is not None:
            parts[scaled] = parts[scaled] - effect.ravel()[against]
    numpyro.deterministic("all_sd", jnp.concatenate(list(sds.values())))
    if layout.cell is not None:
        parts = [part + grid.ravel()[layout.cell] for part, grid in zip(parts, grids, strict=True)]
    rows = parts[0]
    if resolved.discrimination is not None:
        factors = _sample_discrimination(resolved, layout.information.get(_DISCRIMINATION))
        rows = rows + factors[layout.seen.discrimination_codes] * parts[1]
    numpyro.factor("scores", _log_likelihood(resolved, layout.seen, rows, cutpoints))


def _in_order(effect: Array, term: ResolvedTerm, facets: tuple[str, ...]) -> Array:
    """Put an effect's axes in the order of the crossing."""
    order = sorted(range(len(term.dims)), key=lambda i: facets.index(term.dims[i]))
    return jnp.transpose(effect, order)


def _sample_effect(term: ResolvedTerm, sd: Array, information: Any) -> Array:
    by = 0 if term.by_codes is None else term.by_codes.reshape(term.shape)
    if information is None:
        return sd[by] * sample_unit_effects(term)
    wide = jnp.sqrt(1.0 + information * sd[by] ** 2)
    return sd[by] / wide * sample_unit_effects(term, f"{term.variable}_w", wide)


def _sample_cutpoints(resolved: Resolved) -> Cutpoints:
    n_cutpoints = len(resolved.categories) - 1
    x = numpyro.sample("cutpoints_x", StopLogits(n_cutpoints))
    return Cutpoints(x, resolved.spec.link, _log_spacing(resolved, n_cutpoints))


def _log_likelihood(
    resolved: Resolved, seen: Observations, eta: Array, cutpoints: Cutpoints | None
) -> Array:
    spec, unit = resolved.spec, resolved.unit
    if spec.is_paired:
        return davidson_log_likelihood(eta, _sample_tie_chance(resolved), seen)
    if spec.family == "bernoulli":
        return bernoulli_log_likelihood(eta, spec.link, seen)
    if spec.family == "cumulative":
        if cutpoints is None:
            # One category is certain whatever the parameters.
            return jnp.zeros(())
        return cumulative_log_likelihood(eta, cutpoints, spec.link, seen)
    sigma = sample_scale(scale_sites(resolved)[-1], unit)
    variance = numpyro.deterministic("noise_variance", sigma**2 + resolved.noise_floor**2)
    degrees = None
    prior = spec.degrees_of_freedom
    if prior is not None and prior.distribution == "fixed":
        degrees = numpyro.deterministic("degrees_of_freedom", jnp.asarray(prior.parameters[0]))
    elif prior is not None:
        degrees = numpyro.sample("degrees_of_freedom", dist.Gamma(*prior.parameters))
    return continuous_log_likelihood(eta, variance, degrees, seen)


def _sample_tie_chance(resolved: Resolved) -> Array | None:
    prior = resolved.ties
    if prior is None:
        return None
    if prior.distribution == "fixed":
        return numpyro.deterministic("tie_chance", jnp.asarray(prior.parameters[0]))
    return numpyro.sample("tie_chance", dist.Beta(*prior.parameters))


def _sample_discrimination(resolved: Resolved, information: Any) -> Array:
    """Sample factors whose logs sum to zero; coordinates as those of effects."""
    given = resolved.discrimination
    if given is None:
        raise ModelError("the model has no discrimination")
    shape = (len(given.labels),)
    sd = sample_prior("discrimination_sd", given.spread, 1.0)
    if given.spread.distribution == "fixed":
        numpyro.deterministic("discrimination_sd", sd)
    if information is None:
        logs = sd * numpyro.sample("discrimination_z", dist.ZeroSumNormal(1.0, shape))
    else:
        wide = jnp.sqrt(1.0 + information * sd**2)
        logs = sd / wide * numpyro.sample("discrimination_w", dist.ZeroSumNormal(wide, shape))
    return numpyro.deterministic("discrimination", jnp.exp(logs))


def _log_spacing(resolved: Resolved, n_cutpoints: int) -> Array | None:
    if resolved.thresholds is None:
        return None
    sd = sample_prior("cutpoints_sd", resolved.thresholds.deviation, 1.0)
    shape = (n_cutpoints - 1, len(resolved.thresholds.labels))
    zero_sum = dist.ZeroSumNormal(1.0, (shape[1],)).expand([shape[0]]).to_event(1)
    # The zero-sum axis comes last in NumPyro; the facet comes first in the posterior.
    z = jnp.transpose(numpyro.sample("cutpoints_z", zero_sum))
    return numpyro.deterministic("log_spacing", sd * z)
