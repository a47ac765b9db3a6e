"""Unbalanced tables: one pass over the scores, then JAX on their cross-products."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from bayesjudge.engines.cross_products import Layout, cross_products, lay_out
from bayesjudge.engines.effects import INTERCEPT, Integrated, is_kept
from bayesjudge.engines.marginal import Moments, draw_effects, log_likelihood, moments
from bayesjudge.engines.moment_products import products_of_moments
from bayesjudge.engines.streams import Streams
from bayesjudge.resolution import Resolved

type Array = Any
type Floats = NDArray[np.float64]

# Beyond this many operations an evaluation, sampling every effect is cheaper.
_MOST_OPERATIONS = 3e8

# Sets of scales evaluated by one call: one shape is compiled once.
_BATCH = 500


@dataclass(frozen=True, eq=False)
class Collapsed(Integrated):
    """A model on a table as its cross-products (:class:`effects.Integrated`)."""

    resolved: Resolved
    layout: Layout
    moments: Moments

    def values(self, sd: Floats, noise: Floats) -> Floats:
        """Return log densities (n,) of scales (n, n_sd) and residual variances (n, V)."""
        rest = -len(sd) % _BATCH
        sd = np.vstack([sd, np.repeat(sd[:1], rest, axis=0)])
        noise = np.vstack([noise, np.repeat(noise[:1], rest, axis=0)])
        with jax.enable_x64(True):
            parts = [
                np.asarray(_values(sd[i : i + _BATCH], noise[i : i + _BATCH], self.moments))
                for i in range(0, len(sd), _BATCH)
            ]
        return np.concatenate(parts)[: len(sd) - rest]

    def slope(self, sd: Floats, noise: Floats) -> tuple[float, Floats, Floats]:
        """Return the log density and its derivatives for one set of scales."""
        with jax.enable_x64(True):
            value, (d_sd, d_noise) = _slope(sd, noise, self.moments)
            return float(value), np.asarray(d_sd), np.asarray(d_noise)

    def kept_effects(self, sd: Floats, noise: Floats, streams: Streams) -> dict[str, Floats]:
        """Draw the effects that are kept, (n, *shape) by variable, and the intercept."""
        names = {t.variable for t in self.resolved.terms if is_kept(t, self.resolved.panel)}
        return self._draw(sd, noise, streams, names | {INTERCEPT})

    def other_effects(
        self, sd: Floats, noise: Floats, streams: Streams, kept: dict[str, Floats]
    ) -> dict[str, Floats]:
        """Draw the others but generations: the same draws as gave those that are kept."""
        names = {t.variable for t in self.resolved.terms} - set(kept)
        return self._draw(sd, noise, streams, names)

    def _draw(
        self, sd: Floats, noise: Floats, streams: Streams, names: set[str]
    ) -> dict[str, Floats]:
        with jax.enable_x64(True):
            key = jax.random.key(streams.seed + 1)
            keys = jax.vmap(jax.random.fold_in, in_axes=(None, 0))(key, streams.rows)
            dense, block = _draw_all(keys, sd, noise, self.moments)
        return {
            name: value
            for name, value in _named(np.asarray(dense), np.asarray(block), self.layout).items()
            if name in names
        }


def collapse(resolved: Resolved) -> Collapsed | None:
    """Integrate the effects out; None where the model or its size do not allow it."""
    layout = lay_out(resolved)
    if layout is None:
        return None
    products = (
        cross_products(resolved, layout)
        if resolved.moments is None
        else products_of_moments(resolved, layout, resolved.moments)
    )
    if products is None or products.cost > _MOST_OPERATIONS:
        return None
    with jax.enable_x64(True):
        return Collapsed(resolved, layout, moments(products, layout))


_values = jax.jit(jax.vmap(log_likelihood, in_axes=(0, 0, None)))
_slope = jax.jit(jax.value_and_grad(log_likelihood, argnums=(0, 1)))


@jax.jit
def _draw_all(keys: Array, sd: Array, noise: Array, m: Moments) -> tuple[Array, Array]:
    dense, block = jax.lax.map(
        lambda args: draw_effects(args[0], args[1], args[2], m), (keys, sd, noise)
    )
    return dense, block


def _named(dense: Floats, block: Floats, layout: Layout) -> dict[str, Floats]:
    """Return intercept (n,) and effects (n, *shape) of coordinates (n, p) and (n, S, q)."""
    n = len(dense)
    effects: dict[str, Floats] = {INTERCEPT: dense[:, 0]}
    start = 1
    for columns in layout.dense:
        width = columns.basis.shape[1]
        values = dense[:, start : start + width] @ columns.basis.T
        effects[columns.term.variable] = values.reshape(n, *columns.term.shape)
        start += width
    start = 0
    for columns in layout.block:
        width = columns.basis.shape[1]
        values = block[:, :, start : start + width] @ columns.basis.T
        axis = columns.term.dims.index(layout.block_facet or "")
        others = [size for i, size in enumerate(columns.term.shape) if i != axis]
        values = values.reshape(n, layout.n_blocks, *others)
        effects[columns.term.variable] = np.moveaxis(values, 1, 1 + axis)
        start += width
    return effects
