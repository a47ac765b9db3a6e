"""From draws to the labelled posterior that users and ArviZ take."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bayesjudge.engines.protocol import Draws
from bayesjudge.expectations import expected_means
from bayesjudge.resolution import Resolved, ResolvedTerm

if TYPE_CHECKING:
    import xarray as xr

type Floats = NDArray[np.float64]


def backbone_means(resolved: Resolved, draws: Draws) -> Floats:
    """Return the estimand: expected score averaged over the panel, (chain, draw, backbone).

    On the score scale: of verdicts the acceptance probability, and like the
    expected score of categories marginal over the random facets.
    """
    if not resolved.spec.is_latent:
        return backbone_latent(resolved, draws)
    shape = draws.intercept.shape
    n = shape[0] * shape[1]

    def flat(values: Floats) -> Floats:
        return values.reshape(n, *values.shape[2:])

    found = expected_means(
        resolved,
        flat(draws.intercept),
        {name: flat(v) for name, v in draws.effects.items()},
        {name: flat(v) for name, v in draws.scales.items()},
        {name: flat(v) for name, v in draws.parameters.items()},
    )
    return found.reshape(*shape, -1)


def backbone_latent(resolved: Resolved, draws: Draws) -> Floats:
    """Return the mean predictor over the panel, (chain, draw, backbone).

    Every term of panel facets alone contributes its mean over all facets but
    backbone; where the effects sum to zero that mean is zero. What counts by
    discrimination counts by its mean over the panel. Of battles it is the strength
    alone, without what a place is worth.
    """
    paired = resolved.spec.is_paired
    total = np.zeros_like(draws.intercept)[..., None] if paired else draws.intercept[..., None]
    for term in resolved.terms:
        if set(term.dims) <= set(resolved.panel) and not (paired and "backbone" not in term.dims):
            mean = panel_average(term, draws.effects[term.variable])
            total = total + mean * panel_factor(resolved, draws.parameters, term)
    return total


def panel_factor(
    resolved: Resolved, parameters: Mapping[str, Floats], term: ResolvedTerm
) -> Floats | float:
    """Return the mean discrimination that a term counts by, (chain, draw, 1); 1 without."""
    if not resolved.is_scaled(term):
        return 1.0
    return np.asarray(parameters["discrimination"].mean(axis=-1, keepdims=True))


def panel_average(term: ResolvedTerm, effect: Floats) -> Floats:
    """Average an effect (chain, draw, ...) over all its facets but backbone.

    Returns (chain, draw, B), or (chain, draw, 1) for a term without backbone.
    """
    axes = tuple(2 + i for i, dim in enumerate(term.dims) if dim != "backbone")
    mean = effect.mean(axis=axes) if axes else effect
    return mean if "backbone" in term.dims else mean[..., None]


def panel_sd(term: ResolvedTerm, effect: Floats) -> Floats:
    """Return the root mean square effect over the panel, one a level of the scale's ``by``."""
    axes = tuple(2 + i for i, dim in enumerate(term.dims) if dim != term.scale.by)
    return np.sqrt(np.mean(effect**2, axis=axes))


def posterior_tree(resolved: Resolved, draws: Draws) -> xr.DataTree:
    """Label draws as ``posterior``, ``sample_stats`` and ``constant_data`` groups.

    ``backbone_mean`` is on the score scale; of latent families ``backbone_latent``
    stands beside it.
    """
    import xarray as xr

    variables: dict[str, tuple[tuple[str, ...], Floats]] = {}
    if resolved.spec.intercept is not None:
        variables["intercept"] = (("chain", "draw"), draws.intercept)
    for term in resolved.terms:
        name = f"{term.variable}_sd"
        by = (term.scale.by,) if term.scale.by is not None else ()
        variables[name] = (("chain", "draw", *by), draws.scales[name])
        effect = draws.effects.get(term.variable)
        if effect is None:
            continue
        variables[f"{term.variable}_effect"] = (("chain", "draw", *term.dims), effect)
        if set(term.dims) <= set(resolved.panel):
            variables[f"{term.variable}_sd_panel"] = (
                ("chain", "draw", *by),
                panel_sd(term, effect),
            )
    if resolved.residual is not None:
        by = (resolved.residual.by,) if resolved.residual.by is not None else ()
        variables["sigma"] = (("chain", "draw", *by), draws.scales["sigma"])
    for name, values in draws.parameters.items():
        variables[name] = (("chain", "draw", *_parameter_dims(resolved, name)), values)
    for name, values in draws.hyper.items():
        variables[name] = (("chain", "draw"), values)
    variables["backbone_mean"] = (("chain", "draw", "backbone"), backbone_means(resolved, draws))
    if resolved.spec.is_latent:
        latent = backbone_latent(resolved, draws)
        variables["backbone_latent"] = (("chain", "draw", "backbone"), latent)
    used = {dim for dims, _ in variables.values() for dim in dims}
    labels = {n: np.asarray(v, dtype=object) for n, v in resolved.labels if n in used}
    if "threshold" in used:
        labels["threshold"] = np.asarray(threshold_labels(resolved), dtype=object)
    n_chains, n_draws = draws.intercept.shape
    axes = {"chain": np.arange(n_chains), "draw": np.arange(n_draws)}
    stats = {name: (("chain", "draw"), value) for name, value in draws.sample_stats.items()}
    weights = {"pareto_k": draws.pareto_k, "weighted_ess": draws.weighted_ess}
    attrs = {name: value for name, value in weights.items() if value is not None}
    return xr.DataTree.from_dict(
        {
            "posterior": xr.Dataset(variables, coords={**axes, **labels}),
            "sample_stats": xr.Dataset(stats, coords=axes, attrs=attrs),
            "constant_data": _constant_data(resolved),
        }
    )


def threshold_labels(resolved: Resolved) -> tuple[str, ...]:
    """Name each cutpoint by the categories that it parts: ``1|2``."""
    pairs = zip(resolved.categories[:-1], resolved.categories[1:], strict=True)
    return tuple(f"{lower}|{upper}" for lower, upper in pairs)


def _parameter_dims(resolved: Resolved, name: str) -> tuple[str, ...]:
    if name == "discrimination" and resolved.discrimination is not None:
        return (resolved.discrimination.by,)
    if name != "cutpoints":
        return ()
    return ("threshold",) if resolved.thresholds is None else (resolved.thresholds.by, "threshold")


def _constant_data(resolved: Resolved) -> xr.Dataset:
    import xarray as xr

    variables: dict[str, tuple[tuple[str, ...], object]] = {
        "unit": ((), resolved.unit),
        "location": ((), resolved.location),
        "noise_floor": ((), resolved.noise_floor),
    }
    if resolved.moments is None:
        variables["score"] = (("observation",), resolved.score)
    return xr.Dataset(variables)
