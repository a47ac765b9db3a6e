"""Coordinates in which a posterior of many effects is nearly round.

What scenarios do not share, effects of one scenario and of its generations, is
independent given the rest: the Hessian of the log density is an arrow, a block a
scenario and a border. Its factor at the mode is a linear map; what is sampled in
the map's coordinates has the density of the model and, by volume, a constant.
The ridges of crossed effects (cutpoints against the mean of the scenarios) are
gone there, and trajectories of NUTS are short.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from bayesjudge.resolution import Resolved, ResolvedTerm

type Array = Any
type Floats = NDArray[np.float64]
type Ints = NDArray[np.int64]
type Slopes = Callable[[Floats], tuple[Array, Array]]

# A border that is wider, or a map of more numbers, costs more than it saves.
_WIDEST = 800
_MOST_NUMBERS = 8_000_000

# Directions in which the Hessian is flatter than this, its diagonal being 1, or
# curved the wrong way are taken for as flat as this.
_FLATTEST = 0.02

# The mode is a place to look from: it need not be found to the last digit.
_SEARCH: Any = {"maxiter": 2000, "maxcor": 30, "gtol": 1e-2, "ftol": 1e-11}

# Of differences of slopes, in widths of the coordinates.
_STEP = 1e-5


@dataclass(frozen=True, eq=False)
class Arrow:
    """Which coordinates of a vector (D,) are a scenario's own.

    Attributes
    ----------
    shared : (G,) int array
    own : (S, m) int array
        Filled up with D where a scenario has fewer.
    """

    shared: Ints
    own: Ints

    @property
    def n_numbers(self) -> int:
        """How many numbers a map holds."""
        blocks, size = self.own.shape
        width = int(self.shared.size)
        return width**2 + int(blocks) * int(size) * (int(size) + width)


class Map(NamedTuple):
    """A linear map from (D,) near-standard coordinates to those of a density.

    Attributes
    ----------
    origin : (D,)
        Where zero goes.
    shared : (G, G)
    own : (S, m, m)
    border : (S, m, G)
        What a scenario's own coordinates follow of the shared ones.
    entries : (D,) int array or None
        Place of each near-standard coordinate among shared and own ones in a row,
        blanks included; None where there are no blanks.
    places : (D,) int array
        Where each coordinate of the density stands in that row.
    """

    origin: Floats
    shared: Floats
    own: Floats
    border: Floats
    entries: Ints | None
    places: Ints

    def __call__(self, z: Array) -> Array:
        """Return the coordinates of the density, (D,)."""
        width = self.shared.shape[0]
        blocks, size, _ = self.own.shape
        if self.entries is not None:
            z = jnp.zeros(width + blocks * size).at[self.entries].set(z)
        shared = self.shared @ z[:width]
        own = jnp.einsum("sij,sj->si", self.own, z[width:].reshape(blocks, size))
        own = own - jnp.einsum("sig,g->si", self.border, shared)
        return self.origin + jnp.concatenate([shared, own.ravel()])[self.places]


def find_map(
    resolved: Resolved, shapes: dict[str, tuple[int, ...]], slopes: Slopes, start: Floats
) -> Map | None:
    """Look for the mode from a start (D,), and factor the Hessian there.

    Parameters
    ----------
    resolved : Resolved
    shapes : dict
        Of the sites that the vector holds in a row, effects as ``<term>_z`` or
        ``<term>_w``, the facets that sum to zero last.
    slopes : function
        From a vector (D,) to minus the log density and its slopes.
    start : (D,)

    Returns
    -------
    Map or None
        None where it would cost more than it saves.
    """
    arrow = find_arrow(resolved, shapes)
    if arrow.shared.size > _WIDEST or arrow.n_numbers > _MOST_NUMBERS:
        return None
    # All is at unit scale but what is in the unit of the scores.
    widths = [
        np.full(
            int(np.prod(shape)),
            resolved.unit if name == "intercept" or name.endswith("_slope") else 1.0,
        )
        for name, shape in shapes.items()
    ]
    mode = find_mode(slopes, start)
    return factor(mode, arrow, *hessian(slopes, mode, np.concatenate(widths), arrow))


def find_arrow(resolved: Resolved, shapes: dict[str, tuple[int, ...]]) -> Arrow:
    """Tell the coordinates of single scenarios from those that scenarios share."""
    terms = {f"{t.variable}{kind}": t for t in resolved.terms for kind in ("_z", "_w")}
    owner = np.concatenate(
        [_owners(resolved, terms.get(name), shape).ravel() for name, shape in shapes.items()]
    )
    order = np.argsort(owner, kind="stable")
    sizes = np.bincount(owner + 1)
    shared, rest = order[: sizes[0]], order[sizes[0] :]
    own = np.full((sizes.size - 1, sizes[1:].max(initial=0)), owner.size)
    own[np.arange(own.shape[1]) < sizes[1:, None]] = rest
    return Arrow(shared, own)


def _owners(resolved: Resolved, term: ResolvedTerm | None, shape: tuple[int, ...]) -> Ints:
    """Return the scenario of each coordinate of a site, -1 for what is shared."""
    if term is None:
        return np.full(shape, -1)
    centred = dict(zip(term.dims, term.centred, strict=True))
    order = sorted(term.dims, key=centred.__getitem__)
    scenarios = next((t for t in resolved.terms if t.dims == ("scenario",)), None)
    if "scenario" in order and not centred["scenario"]:
        return np.asarray(np.indices(shape)[order.index("scenario")])
    if "generation" in order and not centred["generation"] and scenarios is not None:
        names = term.n_levels // term.shape[term.dims.index("generation")]
        of = np.zeros(term.n_levels // names, np.int64)
        generation = np.unravel_index(term.codes, term.shape)[term.dims.index("generation")]
        of[generation] = scenarios.codes
        return np.asarray(of[np.indices(shape)[order.index("generation")]])
    return np.full(shape, -1)


def find_mode(slopes: Slopes, start: Floats) -> Floats:
    """Return where a potential is lowest, or nearly so, (D,)."""

    def value(q: Floats) -> tuple[float, Floats]:
        found, slope = slopes(q)
        return float(found), np.asarray(slope)

    return np.asarray(minimize(value, start, jac=True, method="L-BFGS-B", options=_SEARCH).x)


def hessian(
    slopes: Slopes, at: Floats, widths: Floats, arrow: Arrow
) -> tuple[Floats, Floats, Floats]:
    """Return the Hessian of a potential at (D,): shared (G, G), own, border (S, m, G).

    By central differences of slopes: compiling more than these would take longer.
    Of own coordinates one of each scenario is moved at once: they do not meet.

    Parameters
    ----------
    slopes : function
        From a vector (D,) to the potential and its slopes.
    at, widths : (D,)
        Where, and roughly how far each coordinate ranges.
    arrow : Arrow
    """
    shared, own = arrow.shared, arrow.own
    moved = np.zeros((own.shape[1] + shared.size, at.size + 1), bool)
    moved[np.arange(own.shape[1])[None, :], own] = True
    moved[own.shape[1] + np.arange(shared.size), shared] = True
    found = np.zeros(moved.shape)
    for i, which in enumerate(moved[:, :-1]):
        step = _STEP * widths * which
        change = np.asarray(slopes(at + step)[1]) - np.asarray(slopes(at - step)[1])
        found[i, :-1] = change / (2.0 * _STEP)
    by_own, by_shared = found[: own.shape[1]], found[own.shape[1] :]
    # Each row holds products with a move of the coordinate's own width.
    width = np.append(widths, 1.0)
    blank = own == at.size
    inside = by_own[:, own].transpose(1, 2, 0) / width[own][:, None, :]
    inside = np.where(blank[:, :, None] | blank[:, None, :], 0.0, inside)
    inside = inside + blank[:, :, None] * np.eye(own.shape[1])
    border = by_shared[:, own].transpose(1, 2, 0) / width[shared]
    return by_shared[:, shared] / width[shared][:, None], inside, border


def factor(origin: Floats, arrow: Arrow, shared: Floats, own: Floats, border: Floats) -> Map:
    """Return the map whose inverse, times its transpose, is a Hessian."""
    follow = np.zeros_like(border)
    width = arrow.shared.size
    if own.size:
        roots = _inverse_root(own)
        follow = roots @ (roots.transpose(0, 2, 1) @ border)
        shared = shared - np.tensordot(border, follow, axes=([0, 1], [0, 1]))
    else:
        roots = own
    row = np.concatenate([arrow.shared, arrow.own.ravel()])
    entries = np.flatnonzero(row < origin.size)
    places = np.empty(origin.size, np.int64)
    places[row[entries]] = entries
    return Map(
        origin=origin,
        shared=_inverse_root(shared) if width else shared,
        own=roots,
        border=follow,
        entries=None if entries.size == row.size else entries,
        places=places,
    )


def _inverse_root(matrix: Floats) -> Floats:
    """Return R with R R' the inverse of symmetric matrices (..., n, n), made definite.

    The symmetric root of the scaled matrix: what is apart in it, as blanks are,
    is apart in R.
    """
    diagonal = np.abs(np.diagonal(matrix, axis1=-2, axis2=-1))
    scale = 1.0 / np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
    symmetric = 0.5 * (matrix + np.swapaxes(matrix, -1, -2))
    values, vectors = np.linalg.eigh(symmetric * scale[..., :, None] * scale[..., None, :])
    values = np.maximum(np.abs(values), _FLATTEST)
    turned = vectors / np.sqrt(values)[..., None, :]
    return np.asarray(scale[..., :, None] * (turned @ np.swapaxes(vectors, -1, -2)))
