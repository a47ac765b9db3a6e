"""A latent family's likelihood given its scales, effects integrated out.

Leaves are integrated by Gauss-Hermite nodes about where each lies, to an error far
below that of any draw. What is left, effects of scenarios (z_s) and those they share
(z_0), all at unit scale, has a normal approximation at its mode (nested Laplace:
Tierney and Kadane 1986; Rue, Martino and Chopin 2009). It is not
taken for the truth: :mod:`bayesjudge.engines.unbiased` draws from it, and weighs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from bayesjudge.engines.cell_likelihoods import Categories, Verdicts
from bayesjudge.engines.latent_blocks import LatentBlocks
from bayesjudge.engines.leaf_integrals import (
    Leaves,
    integrate_leaves,
    log_integrals,
    third_cumulants,
)
from bayesjudge.engines.leaf_tables import LeafTables, leaf_curves

type Floats = NDArray[np.float64]
type Ints = NDArray[np.int64]

# Newton stops where the next step would gain less than this.
NEAR = 1e-3
_MOST_STEPS = 15

# How far nodes may lie from their leaf, in its sds, where they are believed.
_STRAYED = 0.7

# No step moves a predictor further.
_LONGEST = 3.0


@dataclass(frozen=True, eq=False)
class Point:
    """Where Newton begins: unit-scale effects (T, ...) and the nodes of leaves (T, L)."""

    shared: Floats
    own: Floats
    center: Floats
    spread: Floats


def parts_of(point: Point) -> tuple[Floats, Floats, Floats, Floats]:
    """Return a point's arrays."""
    return point.shared, point.own, point.center, point.spread


@dataclass(frozen=True, eq=False)
class Approximation:
    """The normal approximation at T sets of scales.

    Attributes
    ----------
    mode : Point
    point : Point
        The mean of all effects but leaves', nearly; the Hessian is the one there.
    value : (T,)
        Laplace's log-likelihood.
    scales
    eta : (T, S, E)
        Predictors at ``point``.
    follow : (T, L, J)
        How a leaf's center follows the predictors of its observations.
    system
    tables : LeafTables or None
        Of leaves' integrals.
    n_steps : int
        Newton's, of the slowest.
    """

    mode: Point
    point: Point
    value: Floats
    scales: _Scales
    eta: Floats
    follow: Floats
    system: _System
    tables: LeafTables | None
    n_steps: int


class Nested:
    """The likelihood of one table.

    Parameters
    ----------
    blocks : LatentBlocks
    likelihood : Verdicts or Categories
    """

    def __init__(self, blocks: LatentBlocks, likelihood: Verdicts | Categories) -> None:
        self.blocks, self.likelihood = blocks, likelihood
        self.n_scenarios, self.n_places, self.n_own = blocks.own.shape
        self.n_shared = blocks.shared.shape[1]
        self.n_leaves, self.n_seen = blocks.predictor.shape
        size = self.n_scenarios * self.n_places
        flat = blocks.predictor.ravel()
        self._add = csr_array(
            (np.ones(flat.size), (flat, np.arange(flat.size))), shape=(size, flat.size)
        )
        self._diagonal = blocks.is_diagonal
        self.curves = leaf_curves(blocks, likelihood.link)
        scenario, row = np.divmod(blocks.predictor, self.n_places)
        pairs = (
            (scenario * self.n_places + row)[:, :, None] * self.n_places + row[:, None, :]
        ).ravel()
        self._add_pairs = csr_array(
            (np.ones(pairs.size), (pairs, np.arange(pairs.size))),
            shape=(size * self.n_places, pairs.size),
        )
        order = np.argsort(blocks.leaf_scenario, kind="stable")
        self._in_order = bool((order == np.arange(order.size)).all())
        self._leaf_order = order
        self._leaf_starts = np.searchsorted(
            blocks.leaf_scenario[order], np.arange(self.n_scenarios)
        )

    def origin(self, n: int) -> Point:
        """Return n points where every effect is zero."""
        leaves = (n, self.n_leaves)
        own = np.zeros((n, self.n_scenarios, self.n_own))
        return Point(np.zeros((n, self.n_shared)), own, np.zeros(leaves), np.ones(leaves))

    def approximate(
        self,
        sd: Floats,
        stops: Floats | None,
        start: Point,
        near: float = NEAR,
        to_mean: bool = False,
    ) -> Approximation:
        """Find the mode of all effects but leaves' at T sets of scales.

        Parameters
        ----------
        sd : (T, n_sd)
            Of all terms, the intercept's last.
        stops : (T, C - 1) or None
        start : Point
        near : float
            What a step may gain at most where Newton's steps end.
        to_mean : bool
            Go on to the mean, where :meth:`estimate` is to draw.
        """
        blocks, n = self.blocks, len(sd)
        scales = _Scales(sd[:, blocks.shared_sd], sd[:, blocks.own_sd], sd[:, blocks.leaf_sd])
        tables = None if self.curves is None else self.curves.tables(scales.leaf, stops)
        shared, own, center, spread = (p.copy() for p in parts_of(start))
        value, n = np.empty(len(sd)), len(sd)
        left, look, step = np.arange(n), None, 0
        while left.size and step < _MOST_STEPS:
            step += 1
            here = scales.of(left)
            point = Point(shared[left], own[left], center[left], spread[left])
            look = self._look(
                here,
                point,
                None if stops is None else stops[left],
                None if tables is None else tables.of(left),
            )
            move = self._step(here, look.system, look.gradient, point)
            squares = (point.shared**2).sum(axis=1) + (point.own**2).sum(axis=(1, 2))
            value[left] = look.leaves.log_value - 0.5 * squares + 0.5 * move.gain
            value[left] -= 0.5 * look.system.log_volume
            point = self._moved(here, look, point, move)
            shared[left], own[left], center[left], spread[left] = parts_of(point)
            far = (move.gain >= near) | (look.leaves.strayed > _STRAYED)
            # The last look serves all where all come to an end together.
            look = look if left.size == n and not far.any() else None
            left = left[far]
        mode = point = Point(shared, own, center, spread)
        look = look or self._look(scales, point, stops, tables)
        if to_mean:
            move = self._step(scales, look.system, look.gradient + self._third(look), point)
            point = self._moved(scales, look, point, move)
            look = self._look(scales, point, stops, tables)
        follow, system = look.leaves.follow, look.system
        return Approximation(mode, point, value, scales, look.eta, follow, system, tables, step)

    def _look(
        self, scales: _Scales, point: Point, stops: Floats | None, tables: LeafTables | None
    ) -> _Look:
        """Integrate leaves at a point, and factor the Hessian."""
        eta = self._predictor(scales.shared * point.shared, scales.own * point.own)
        cell = eta.reshape(len(eta), -1)[:, self.blocks.predictor]
        if tables is not None:
            found = tables.leaves(cell[..., 0])
        else:
            found = integrate_leaves(
                self.likelihood, cell, scales.leaf, point.center, point.spread, stops
            )
        gradient = (self._add @ found.slope.reshape(len(eta), -1).T).T.reshape(eta.shape)
        return _Look(eta, found, gradient, self._system(found, scales))

    def _moved(self, scales: _Scales, look: _Look, point: Point, move: _Move) -> Point:
        """Return the point after a move, or as much of it as moves no predictor too far."""
        change = self._predictor(scales.shared * move.shared, scales.own * move.own)
        share = np.minimum(1.0, _LONGEST / np.abs(change).max(axis=(1, 2), initial=1e-12))
        return Point(
            point.shared + share[:, None] * move.shared,
            point.own + share[:, None, None] * move.own,
            look.leaves.center + share[:, None] * self._follow(look.leaves.follow, change),
            look.leaves.spread,
        )

    def leaves_value(self, at: Approximation, stops: Floats) -> Floats:
        """Return log-likelihoods at rows of cutpoints (n, T), effects but leaves' as they are."""
        n = len(stops)
        row = np.zeros(n, np.int64)
        eta = self._predictor(at.scales.shared * at.point.shared, at.scales.own * at.point.own)
        cell = eta.reshape(1, -1)[:, self.blocks.predictor][row]
        leaf, center, spread = (v[row] for v in (at.scales.leaf, at.point.center, at.point.spread))
        found = log_integrals(self.likelihood, cell, leaf, center, spread, stops)
        return np.asarray(found.sum(axis=1))

    def nodes(self, eta: Floats, at: Approximation) -> tuple[Floats, Floats]:
        """Return centers and spreads of leaves' nodes (T, L) at predictors (T, S * E)."""
        if at.tables is not None:
            found = at.tables.leaves(eta[:, self.blocks.predictor[:, 0]])
            return found.center, found.spread
        change = eta - at.eta.reshape(len(eta), -1)
        return at.point.center + self._follow(at.follow, change), at.point.spread

    def _follow(self, follow: Floats, change: Floats) -> Floats:
        moved = change.reshape(len(change), -1)[:, self.blocks.predictor]
        return np.asarray((follow * moved).sum(axis=-1))

    def sum_leaves(self, values: Floats) -> Floats:
        """Return sums over each scenario's leaves, (n, S), of values (n, L)."""
        if not self._in_order:
            values = values[:, self._leaf_order]
        return np.add.reduceat(values, self._leaf_starts, axis=1)

    def add_to_cells(self, values: Floats) -> Floats:
        """Return sums over observations of each predictor, (S * E,), of values (L, J)."""
        return np.asarray(self._add @ values.ravel())

    def _predictor(self, shared: Floats, own: Floats) -> Floats:
        by_shared = shared @ self.blocks.shared.T
        return np.asarray(by_shared[:, None] + (self.blocks.own @ own[..., None])[..., 0])

    def _system(self, found: Leaves, scales: _Scales) -> _System:
        """Factor Newton's matrix, scenarios first."""
        shared_sd, own_sd = scales.shared, scales.own
        n, s, (e, g) = len(own_sd), self.n_scenarios, self.blocks.shared.shape
        design = self.blocks.own * own_sd[:, :, None, :]
        turned = design.transpose(0, 1, 3, 2)
        outside: Floats
        if self._diagonal:
            curved = found.curved - (found.off**2 @ found.share[..., None])[..., 0]
            if self.n_seen > 1:
                # One predictor a leaf: what is seen of it varies together.
                joint = (found.off.sum(axis=2) ** 2 * found.share).sum(axis=-1)
                curved = found.curved.copy()
                curved[..., 0] -= joint
            weight = (self._add @ curved.reshape(n, -1).T).T.reshape(n, s, e)
            weighed = turned * weight[:, :, None, :]
            outside = (self.blocks.shared.T * weight.sum(axis=1)[:, None, :]) @ self.blocks.shared
        else:
            weighted = found.off * found.share[:, :, None, :]
            matrix = np.empty((*found.curved.shape, self.n_seen))
            for j in range(self.n_seen):
                matrix[..., j, :] = -(weighted[:, :, j, None] * found.off).sum(axis=-1)
                matrix[..., j, j] += found.curved[..., j]
            dense = (self._add_pairs @ matrix.reshape(n, -1).T).T.reshape(n, s, e, e)
            weighed = turned @ dense
            outside = self.blocks.shared.T @ dense.sum(axis=1) @ self.blocks.shared
        inside = weighed @ design
        i = np.arange(self.n_own)
        inside[..., i, i] += 1.0
        border = weighed.reshape(-1, e) @ self.blocks.shared
        border = border.reshape(n, s, self.n_own, g) * shared_sd[:, None, None, :]
        outside *= shared_sd[:, :, None] * shared_sd[:, None, :]
        outside[:, np.arange(g), np.arange(g)] += 1.0
        factor = np.linalg.cholesky(inside)
        root = np.linalg.inv(factor)
        half = root @ border
        flat = half.reshape(n, -1, g)
        # Row by row: a product of a matrix and its own transpose takes half the work.
        for one, column in zip(outside, flat, strict=True):
            one -= column.T @ column
        shared_factor = np.linalg.cholesky(outside)
        log_volume = 2 * np.log(np.diagonal(factor, axis1=-2, axis2=-1)).sum(axis=(1, 2))
        log_volume += 2 * np.log(np.diagonal(shared_factor, axis1=-2, axis2=-1)).sum(axis=1)
        pull = root.transpose(0, 1, 3, 2) @ half
        return _System(design, root, half, pull, shared_factor, log_volume)

    def _step(self, scales: _Scales, system: _System, gradient: Floats, point: Point) -> _Move:
        """Return Newton's step, and twice what it gains."""
        n = len(gradient)
        d_own = (system.design.transpose(0, 1, 3, 2) @ gradient[..., None])[..., 0]
        d_own -= point.own
        d_shared = scales.shared * (gradient.sum(axis=1) @ self.blocks.shared) - point.shared
        reduced = (system.root @ d_own[..., None])[..., 0]
        border = system.half.reshape(n, -1, self.n_shared).transpose(0, 2, 1)
        right = d_shared - (border @ reduced.reshape(n, -1, 1))[..., 0]
        step_shared = _solve(system.shared_factor, right)
        step_own = (system.root.transpose(0, 1, 3, 2) @ reduced[..., None])[..., 0]
        step_own -= (system.pull @ step_shared[:, None, :, None])[..., 0]
        gain = (d_shared * step_shared).sum(axis=1) + (d_own * step_own).sum(axis=(1, 2))
        return _Move(step_shared, step_own, gain)

    def _third(self, look: _Look) -> Floats:
        """Return half the third derivatives' product with the predictors' covariance, (T, S, E).

        Added to the slopes it moves the mode to the mean, to first order: where verdicts
        are mostly 0, the mean of many scenarios' effects is lower than their mode, and
        what they share is higher than at theirs.
        """
        system = look.system
        n, s, e = len(look.eta), self.n_scenarios, self.n_places
        spread = system.root @ system.design.transpose(0, 1, 3, 2)
        scenario, place = np.divmod(self.blocks.predictor, e)
        if self.n_seen == 1:
            v = (spread**2).sum(axis=2)[:, scenario, place][..., None]
        else:
            v = (spread.transpose(0, 1, 3, 2) @ spread).reshape(n, s, e * e)[
                :, scenario[:, :1, None], place[:, :, None] * e + place[:, None, :]
            ]
        pull = 0.5 * third_cumulants(look.leaves, v)
        return (self._add @ pull.reshape(n, -1).T).T.reshape(n, s, e)


@dataclass(frozen=True, eq=False)
class _Scales:
    """Of shared effects (T, G), scenarios' own (T, S, m) and leaves (T, L)."""

    shared: Floats
    own: Floats
    leaf: Floats

    def of(self, rows: Ints) -> _Scales:
        return _Scales(self.shared[rows], self.own[rows], self.leaf[rows])


@dataclass(frozen=True, eq=False)
class _Move:
    shared: Floats
    own: Floats
    gain: Floats


@dataclass(frozen=True, eq=False)
class _Look:
    """A point's predictors, leaves and Hessian."""

    eta: Floats
    leaves: Leaves
    gradient: Floats
    system: _System


@dataclass(frozen=True, eq=False)
class _System:
    design: Floats
    root: Floats
    half: Floats
    pull: Floats
    shared_factor: Floats
    log_volume: Floats


def _solve(factor: Floats, right: Floats) -> Floats:
    """Solve with lower Cholesky factors (T, G, G)."""
    half = np.linalg.solve(factor, right[..., None])
    return np.asarray(np.linalg.solve(factor.transpose(0, 2, 1), half)[..., 0])
