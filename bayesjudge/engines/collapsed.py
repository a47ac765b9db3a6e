"""A gaussian model with its effects integrated out: set up once, finished from draws."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from bayesjudge.engines.cross_products import Layout, cross_products, lay_out, sd_offsets
from bayesjudge.engines.marginal import Moments, draw_effects, moments
from bayesjudge.engines.protocol import Draws, Settings
from bayesjudge.engines.scales import (
    Data,
    Frame,
    ScaleSite,
    choose_frame,
    constrain,
    scale_sites,
    unit_scale,
)
from bayesjudge.errors import ModelError
from bayesjudge.resolution import Resolved

type Array = Any

# Beyond this many operations an evaluation, sampling every effect is cheaper.
_MOST_OPERATIONS = 3e8


@dataclass(frozen=True, eq=False)
class Collapsed:
    """What is left to sample: the scales, in coordinates that suit them."""

    resolved: Resolved
    layout: Layout
    sites: tuple[ScaleSite, ...]
    frame: Frame
    data: Data

    @property
    def size(self) -> int:
        """Number of free coordinates."""
        return int(self.frame.origin.size)


def collapse(resolved: Resolved) -> Collapsed | None:
    """Integrate the effects out; None where the model or its size do not allow it."""
    layout = lay_out(resolved)
    if layout is None:
        return None
    products = cross_products(resolved, layout)
    if products.cost > _MOST_OPERATIONS:
        return None
    sites = scale_sites(resolved)
    data = Data(
        jnp.asarray(resolved.unit),
        jnp.asarray(resolved.intercept_sd),
        jnp.asarray(resolved.noise_floor),
        moments(products, layout),
        unit_scale(sites),
    )
    frame, data = choose_frame(sites, data)
    return Collapsed(resolved, layout, sites, frame, data)


def finish(
    collapsed: Collapsed,
    coordinates: Array,
    settings: Settings,
    stats: dict[str, NDArray[np.float64]],
) -> Draws:
    """Turn draws of the coordinates into named scales, and draw the effects.

    Parameters
    ----------
    collapsed : Collapsed
    coordinates : (chain, draw, D)
    settings : Settings
    stats : dict of (chain, draw) arrays
    """
    resolved, layout = collapsed.resolved, collapsed.layout
    samples = constrain(collapsed.sites)(jnp.asarray(coordinates), collapsed.frame, collapsed.data)
    shape = coordinates.shape[:2]
    sd = samples["all_sd"].reshape(-1, layout.n_sd)
    noise = samples["noise_variance"].reshape(sd.shape[0], -1)
    keys = jax.random.split(jax.random.key(settings.random_seed + 1), sd.shape[0])
    dense, block = _draw_all(keys, sd, noise, collapsed.data.moments)
    intercept, effects = _effects_of_coordinates(
        np.asarray(dense), np.asarray(block), layout, resolved, shape
    )
    if settings.nested_effects and layout.leaf is not None:
        effects[layout.leaf.variable] = _leaf_effects(
            resolved, layout, intercept, effects, np.asarray(sd), np.asarray(noise), settings
        )
    scales, hyper = named_scales(resolved, samples)
    return Draws(scales, hyper, intercept, effects, stats)


def named_scales(
    resolved: Resolved, samples: dict[str, Any]
) -> tuple[dict[str, NDArray[np.float64]], dict[str, NDArray[np.float64]]]:
    """Split sampled scales by name into those of terms and their centres and spreads."""
    all_sd = np.asarray(samples["all_sd"])
    scales: dict[str, NDArray[np.float64]] = {}
    for term, start in zip(resolved.terms, sd_offsets(resolved.terms), strict=False):
        width = len(term.by_labels)
        scales[f"{term.variable}_sd"] = (
            all_sd[..., start : start + width] if width else all_sd[..., start]
        )
    # What the residual sd is, its floor included.
    noise = np.sqrt(np.asarray(samples["noise_variance"]))
    scales["sigma"] = noise if resolved.residual_labels else noise[..., 0]
    hyper = {
        name: np.asarray(value)
        for name, value in samples.items()
        if name.endswith(("_center", "_spread"))
    }
    return scales, hyper


@jax.jit
def _draw_all(keys: Array, sd: Array, noise: Array, m: Moments) -> tuple[Array, Array]:
    dense, block = jax.lax.map(
        lambda args: draw_effects(args[0], args[1], args[2], m), (keys, sd, noise)
    )
    return dense, block


def _effects_of_coordinates(
    dense: NDArray[np.float64],
    block: NDArray[np.float64],
    layout: Layout,
    resolved: Resolved,
    draws: tuple[int, int],
) -> tuple[NDArray[np.float64], dict[str, NDArray[np.float64]]]:
    effects: dict[str, NDArray[np.float64]] = {}
    intercept = (resolved.location + dense[:, 0]).reshape(draws)
    start = 1
    for columns in layout.dense:
        width = columns.basis.shape[1]
        values = dense[:, start : start + width] @ columns.basis.T
        effects[columns.term.variable] = values.reshape(*draws, *columns.term.shape)
        start += width
    start = 0
    for columns in layout.block:
        width = columns.basis.shape[1]
        values = block[:, :, start : start + width] @ columns.basis.T
        axis = columns.term.dims.index(layout.block_facet or "")
        others = [n for i, n in enumerate(columns.term.shape) if i != axis]
        values = values.reshape(*draws, layout.n_blocks, *others)
        effects[columns.term.variable] = np.moveaxis(values, 2, 2 + axis)
        start += width
    return intercept, effects


def _leaf_effects(
    resolved: Resolved,
    layout: Layout,
    intercept: NDArray[np.float64],
    effects: dict[str, NDArray[np.float64]],
    sd: NDArray[np.float64],
    noise: NDArray[np.float64],
    settings: Settings,
) -> NDArray[np.float64]:
    """Draw the nested effects given everything else, one draw at a time."""
    leaf = layout.leaf
    if leaf is None:
        raise ModelError("the model has no nested facet")
    rng = np.random.default_rng(settings.random_seed + 2)
    by = resolved.residual_by if resolved.residual_by is not None else 0
    flat = {
        t.variable: effects[t.variable].reshape(len(sd), -1)
        for t in resolved.terms
        if t is not leaf
    }
    out = np.empty((len(sd), leaf.n_levels))
    for i in range(len(sd)):
        rest = resolved.score - intercept.ravel()[i]
        for term in resolved.terms:
            if term is not leaf:
                rest = rest - flat[term.variable][i, term.codes]
        precision = np.broadcast_to(1.0 / noise[i][by], rest.shape)
        weight = np.bincount(leaf.codes, precision, leaf.n_levels)
        total = np.bincount(leaf.codes, precision * rest, leaf.n_levels)
        width = sd[i, layout.leaf_sd_index]
        # Conditional of a unit-scale effect, so that a zero scale stays exact.
        shrink = 1.0 / (1.0 + width**2 * weight)
        unit = width * total * shrink + np.sqrt(shrink) * rng.standard_normal(leaf.n_levels)
        out[i] = width * unit
    return out.reshape(*intercept.shape, leaf.n_levels)
