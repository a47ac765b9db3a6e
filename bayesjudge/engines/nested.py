"""A latent family's likelihood given its scales, effects integrated out.

Leaves are integrated by Gauss-Hermite nodes about where each lies, to an error far
below that of any draw. What is left, effects of scenarios (z_s) and those they share
(z_0), all at unit scale, has a normal approximation at its mode (nested Laplace:
Tierney and Kadane 1986; Rue, Martino and Chopin 2009). It is not taken for the truth:
z_0 is drawn from it, and given that draw each scenario's integral is the mean of M
importance weights. Their product is without bias, so that draws of the scales weighted
by it have the exact posterior (importance sampling squared: Tran, Scharth, Pitt and
Kohn 2013), and each scenario's effects are those of one of its M draws, by their
weights.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.special import ndtri

from bayesjudge.engines.cell_likelihoods import Categories, Verdicts
from bayesjudge.engines.latent_blocks import LatentBlocks
from bayesjudge.engines.leaf_integrals import (
    N_NODES,
    Leaves,
    integrate_leaves,
    log_integrals,
    third_cumulants,
)

type Floats = NDArray[np.float64]
type Ints = NDArray[np.int64]

# Newton stops where the next step would gain less than this.
NEAR = 1e-3
_MOST_STEPS = 15

# How far nodes may lie from their leaf, in its sds, where they are believed.
_STRAYED = 0.7

# No step moves a predictor further.
_LONGEST = 3.0

# Numbers worked on at once: they fit the processor's cache.
_AT_ONCE = 250_000


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
    n_steps: int


@dataclass(frozen=True, eq=False)
class Estimate:
    """Estimates without bias of T likelihoods, and the draws that they chose.

    Attributes
    ----------
    log_likelihood : (T,)
    away : (T, G)
        Standard normal draws that shared effects were made of.
    shared : (T, G)
        Unit-scale effects.
    own : (T, S, m)
    center, spread : (T, L)
        Of the leaves' nodes at the chosen effects.
    predictor : (T, S * E)
    """

    log_likelihood: Floats
    away: Floats
    shared: Floats
    own: Floats
    center: Floats
    spread: Floats
    predictor: Floats


def sobol_points(n: int, width: int) -> Floats:
    """Return n points of Sobol's sequence, (n, width)."""
    from scipy.stats import qmc

    return np.asarray(qmc.Sobol(width, scramble=False).random_base2(int(np.ceil(np.log2(n))))[:n])


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
        self._points: dict[int, Floats] = {}
        size = self.n_scenarios * self.n_places
        flat = blocks.predictor.ravel()
        self._add = csr_array(
            (np.ones(flat.size), (flat, np.arange(flat.size))), shape=(size, flat.size)
        )
        self._diagonal = blocks.is_diagonal
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
        shared, own, center, spread = (p.copy() for p in parts_of(start))
        value, n = np.empty(len(sd)), len(sd)
        left, look, step = np.arange(n), None, 0
        while left.size and step < _MOST_STEPS:
            step += 1
            here = scales.of(left)
            point = Point(shared[left], own[left], center[left], spread[left])
            look = self._look(here, point, None if stops is None else stops[left])
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
        look = look or self._look(scales, point, stops)
        if to_mean:
            move = self._step(scales, look.system, look.gradient + self._third(look), point)
            point = self._moved(scales, look, point, move)
            look = self._look(scales, point, stops)
        return Approximation(
            mode, point, value, scales, look.eta, look.leaves.follow, look.system, step
        )

    def _look(self, scales: _Scales, point: Point, stops: Floats | None) -> _Look:
        """Integrate leaves at a point, and factor the Hessian."""
        eta = self._predictor(scales.shared * point.shared, scales.own * point.own)
        cell = eta.reshape(len(eta), -1)[:, self.blocks.predictor]
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

    def estimate(
        self,
        at: Approximation,
        stops: Floats | None,
        rng: np.random.Generator,
        n_draws: int,
        tilt: Floats | float = 0.0,
        still: bool = False,
    ) -> Estimate:
        """Estimate the likelihoods without bias, by M draws of each scenario's effects.

        Parameters
        ----------
        n_draws : int
            M, even.
        tilt : (G,) float array or 0
            How far shared effects are drawn from the approximation's mean, standardized.
        still : bool
            Draw them at no distance from there: for what other draws vary by, alone.
        """
        n = len(at.value)
        away = rng.standard_normal((n, self.n_shared)) * (not still)
        unit = tilt + away
        off = np.linalg.solve(at.system.shared_factor.transpose(0, 2, 1), unit[..., None])[..., 0]
        shared = at.point.shared + off
        about = at.point.own - (at.system.pull @ off[:, None, :, None])[..., 0]
        draws = self._spread_out(rng, n, n_draws)
        own = (
            about[:, None]
            + (at.system.root.transpose(0, 1, 3, 2)[:, None] @ draws[..., None])[..., 0]
        )
        by_shared = (at.scales.shared * shared) @ self.blocks.shared.T
        scaled = at.scales.own[:, None] * own
        eta = by_shared[:, None, None] + (self.blocks.own @ scaled[..., None])[..., 0]
        log_block = self._scenarios(eta, at, stops)
        log_block -= 0.5 * ((own**2).sum(axis=-1) - (draws**2).sum(axis=-1))
        best = log_block.max(axis=1, keepdims=True)
        weight = np.exp(log_block - best)
        log_mean = best[:, 0] + np.log(weight.mean(axis=1))
        value = log_mean.sum(axis=1) - 0.5 * at.system.log_volume
        value += 0.5 * (away**2).sum(axis=1) - 0.5 * (shared**2).sum(axis=1)
        cumulative = np.cumsum(weight, axis=1)
        point = rng.random((n, 1, self.n_scenarios)) * cumulative[:, -1:]
        chosen = (cumulative < point).sum(axis=1)
        index = chosen[:, None, :, None]
        own = np.take_along_axis(own, index, axis=1)[:, 0]
        eta = np.take_along_axis(eta, index, axis=1)[:, 0]
        center = at.point.center + self._shift(eta, at)
        return Estimate(value, away, shared, own, center, at.point.spread, eta.reshape(n, -1))

    def _spread_out(self, rng: np.random.Generator, n: int, n_draws: int) -> Floats:
        """Return standard normal draws (T, M, S, m), spread evenly within each scenario.

        Sobol's points, moved at random for each scenario, and their mirror images: what
        is odd in them cancels.
        """
        half = n_draws // 2
        if half not in self._points:
            self._points[half] = sobol_points(half, self.n_own)
        moved = self._points[half][:, None] + rng.random((n, 1, self.n_scenarios, self.n_own))
        draws = ndtri(np.clip(moved % 1.0, 1e-12, 1.0 - 1e-12))
        return np.concatenate([draws, -draws], axis=1)

    def leaves_value(self, at: Approximation, stops: Floats) -> Floats:
        """Return log-likelihoods at rows of cutpoints (n, T), effects but leaves' as they are."""
        n = len(stops)
        row = np.zeros(n, np.int64)
        eta = self._predictor(at.scales.shared * at.point.shared, at.scales.own * at.point.own)
        cell = eta.reshape(1, -1)[:, self.blocks.predictor][row]
        leaf, center, spread = (v[row] for v in (at.scales.leaf, at.point.center, at.point.spread))
        found = log_integrals(self.likelihood, cell, leaf, center, spread, stops)
        return np.asarray(found.sum(axis=1))

    def _shift(self, eta: Floats, at: Approximation) -> Floats:
        """Return how far leaves' centers have moved with their predictors, (T, L)."""
        return self._follow(at.follow, eta - at.eta)

    def _follow(self, follow: Floats, change: Floats) -> Floats:
        moved = change.reshape(len(change), -1)[:, self.blocks.predictor]
        return np.asarray((follow * moved).sum(axis=-1))

    def _scenarios(self, eta: Floats, at: Approximation, stops: Floats | None) -> Floats:
        """Return log-likelihoods by draw and scenario, (T, M, S), of predictors (T, M, S, E)."""
        n, n_draws = eta.shape[:2]
        out = np.empty((n, n_draws, self.n_scenarios))
        each = self.n_leaves * self.n_seen * N_NODES
        some = max(1, _AT_ONCE // each)
        rows = np.arange(n * n_draws)
        flat = eta.reshape(n * n_draws, -1)
        base = at.eta.reshape(n, -1)
        target = out.reshape(n * n_draws, -1)
        for start in range(0, rows.size, some):
            here = rows[start : start + some]
            which = here // n_draws
            cell = flat[here][:, self.blocks.predictor]
            change = cell - base[which][:, self.blocks.predictor]
            center = at.point.center[which] + (at.follow[which] * change).sum(axis=-1)
            spread = at.point.spread[which]
            own = None if stops is None else stops[which]
            log_f = log_integrals(self.likelihood, cell, at.scales.leaf[which], center, spread, own)
            target[here] = self._sum_leaves(log_f)
        return out

    def _sum_leaves(self, values: Floats) -> Floats:
        if not self._in_order:
            values = values[:, self._leaf_order]
        return np.add.reduceat(values, self._leaf_starts, axis=1)

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
        outside -= flat.transpose(0, 2, 1) @ flat
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
