"""Leaves' integrals from tables, where each leaf has one observation.

Such an integral depends on the leaf's predictor, its scale and what was counted: many
leaves share the last two, and to each of those belongs one smooth curve in the predictor.
A set of scales has its curves worked out at a grid, between whose points they are
quintics that keep value, slope and curvature (Hermite's); values alone are looked up in
cubics of a finer grid, which are faster.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import perm

import numpy as np
from numpy.typing import NDArray

from bayesjudge.engines.cell_likelihoods import Categories, Verdicts
from bayesjudge.engines.latent_blocks import LatentBlocks
from bayesjudge.engines.leaf_integrals import Leaves, gauss_hermite

type Floats = NDArray[np.float64]
type Ints = NDArray[np.int64]

# The grid of predictors; beyond it curves go on at their slope.
_REACH, _STEP = 48.0, 0.4
_GRID = np.arange(-_REACH, _REACH + _STEP / 2, _STEP)
_INSIDE = _REACH - 1e-6

# Intervals of the finer grid in one of the grid.
_FINER = 4

# Nodes that find where a leaf lies, and those of its integral: evenly spaced, for wide
# leaves are not normal and a sum over an analytic function's even nodes converges fast.
_FINDING = gauss_hermite(9)
_NODES = np.linspace(-6.5, 6.5, 41)
_LOG_WEIGHT = np.log((_NODES[1] - _NODES[0]) / np.sqrt(2 * np.pi))

# Predictors looked up at once: what they need fits the processor's cache.
_AT_ONCE = 60_000

# From value and slope at both ends to the coefficients of a cubic.
_CUBIC = np.array([[1, 0, 0, 0], [0, 1, 0, 0], [-3, -2, 3, -1], [2, 1, -2, 1]])

# Points of a table that are worth one leaf's.
_WORTH = 2.0

# From value, slope and curvature at both ends of an interval of length 1 to the
# coefficients of its quintic, lowest first.
_QUINTIC = np.array(
    [
        [1, 0, 0, 0, 0, 0],
        [0, 1, 0, 0, 0, 0],
        [0, 0, 0.5, 0, 0, 0],
        [-10, -6, -1.5, 10, -4, 0.5],
        [15, 8, 1.5, -15, 7, -1],
        [-6, -3, -0.5, 6, -3, 0.5],
    ]
)


@dataclass(frozen=True, eq=False)
class LeafCurves:
    """Which leaves share a curve.

    Attributes
    ----------
    curve : (L,) int array
        Of C curves.
    example : (C,) int array
        A leaf of each.
    likelihood : Verdicts or Categories
        Of C times the grid's points, a curve's one after another.
    """

    curve: Ints
    example: Ints
    likelihood: Verdicts | Categories

    def tables(self, leaf_sd: Floats, stops: Floats | None) -> LeafTables:
        """Work the curves out for T sets of leaves' scales (T, L)."""
        n, width = len(leaf_sd), _GRID.size
        sd = np.repeat(leaf_sd[:, self.example], width, axis=1)
        eta = np.tile(_GRID, (n, self.example.size))
        # The mode x of the predictor, leaf and all, has eta = x - sd^2 slope(x) below it.
        none = np.zeros((*sd.shape, 1))
        _, first, second, _ = self.likelihood.slopes(eta[..., None], none, stops)
        below = eta - sd**2 * first[..., 0, 0]
        shape = (n * self.example.size, width)
        of_mode = second.reshape(shape)
        found = [
            (np.interp(_GRID, x, _GRID), np.interp(_GRID, x, own))
            for x, own in zip(below.reshape(shape), of_mode, strict=True)
        ]
        mode, bend = (np.concatenate(part).reshape(sd.shape) for part in zip(*found, strict=True))
        center = (mode - eta) / np.maximum(sd, 1e-12) * (sd > 0)
        spread = 1.0 / np.sqrt(1.0 + sd**2 * np.maximum(bend, 0.0))
        nodes = center[..., None] + spread[..., None] * _FINDING[0]
        value = self.likelihood.values(eta[..., None], sd[..., None] * nodes, stops)
        share = np.exp(_normalized(value - 0.5 * nodes**2 + _FINDING[1]))
        center = (share * nodes).sum(axis=-1)
        spread = np.sqrt((share * (nodes - center[..., None]) ** 2).sum(axis=-1))
        nodes = center[..., None] + spread[..., None] * _NODES
        value, first, second, _ = self.likelihood.slopes(
            eta[..., None], sd[..., None] * nodes, stops
        )
        log_f = value - 0.5 * nodes**2 + _LOG_WEIGHT
        top = log_f.max(axis=-1)
        share = np.exp(log_f - top[..., None])
        total = share.sum(axis=-1)
        share /= total[..., None]
        first, second = first[..., 0, :], second[..., 0, :]
        slope = (share * first).sum(axis=-1)
        curved = (share * (second - (first - slope[..., None]) ** 2)).sum(axis=-1)
        ends = np.stack([np.log(total * spread) + top, _STEP * slope, -(_STEP**2) * curved], -1)
        ends = ends.reshape(*shape, 3)
        pieces = np.concatenate([ends[:, :-1], ends[:, 1:]], axis=-1) @ _QUINTIC.T
        fine = _refined(pieces).reshape(n, -1, 4).transpose(0, 2, 1)
        pieces = pieces.reshape(n, -1, 6).transpose(0, 2, 1)
        pieces, fine = (np.ascontiguousarray(part) for part in (pieces, fine))
        return LeafTables(self.curve, pieces, fine, leaf_sd)


def _normalized(log_f: Floats) -> Floats:
    top = log_f.max(axis=-1, keepdims=True)
    return np.asarray(log_f - top - np.log(np.exp(log_f - top).sum(axis=-1, keepdims=True)))


def _refined(pieces: Floats) -> Floats:
    """Return cubics (n, finer, 4) with values and slopes of quintics (n, intervals, 6)."""
    ends = np.linspace(0.0, 1.0, _FINER + 1)
    k = np.arange(6)
    powers = ends[:, None] ** k
    slopes = np.hstack([np.zeros((ends.size, 1)), k[1:] * ends[:, None] ** k[:-1]]) / _FINER
    value, slope = pieces @ powers.T, pieces @ slopes.T
    both = [value[..., :-1], slope[..., :-1], value[..., 1:], slope[..., 1:]]
    return np.asarray((np.stack(both, axis=-1) @ _CUBIC.T).reshape(len(pieces), -1, 4))


@dataclass(frozen=True, eq=False)
class LeafTables:
    """The curves of T sets of scales.

    Attributes
    ----------
    curve : (L,) int array
    pieces : (T, 6, C * intervals) float array
        Coefficients of quintics, lowest first.
    fine : (T, 4, C * intervals * finer) float array
        Of cubics.
    leaf_sd : (T, L) float array
    """

    curve: Ints
    pieces: Floats
    fine: Floats
    leaf_sd: Floats

    def of(self, rows: Ints) -> LeafTables:
        """Return those of some sets of scales."""
        return LeafTables(self.curve, self.pieces[rows], self.fine[rows], self.leaf_sd[rows])

    def log_integrals(self, row: int, eta: Floats) -> Floats:
        """Return logarithms of leaves' integrals of one set of scales at predictors (n, L)."""
        return self._looked_up(row, eta, 0)

    def slopes(self, row: int, eta: Floats) -> Floats:
        """Return their slopes."""
        return self._looked_up(row, eta, 1)

    def _looked_up(self, row: int, eta: Floats, order: int) -> Floats:
        """Return values or slopes by the cubics."""
        # As few passes as can be, over what fits the processor's cache: an estimate's time.
        out, last = np.empty(eta.shape), (_GRID.size - 1) * _FINER
        step = _STEP / _FINER
        first = _REACH / step + self.curve * last
        table = [perm(k, order) * part for k, part in enumerate(self.fine[row])]
        some = max(1, _AT_ONCE // eta.shape[1])
        for start in range(0, len(eta), some):
            rows = slice(start, start + some)
            inside = np.clip(eta[rows], -_REACH, _INSIDE)
            place = inside / step
            place += first
            piece = place.astype(np.int64)
            place -= piece
            value = table[3].take(piece)
            for k in range(2, order - 1, -1):
                value *= place
                value += table[k].take(piece)
            far = inside != eta[rows]
            if order == 0 and far.any():
                at = piece[far], place[far]
                slope = sum(k * self.fine[row, k][at[0]] * at[1] ** (k - 1) for k in (1, 2, 3))
                value[far] += (eta[rows][far] - inside[far]) * slope / step
            out[rows] = value if order == 0 else value / step**order
        return out

    def leaves(self, eta: Floats) -> Leaves:
        """Return leaves' integrals, slopes and curvatures at predictors (T, L).

        One node takes the place of many: it has the derivatives of the integral's logarithm.
        """
        parts = [
            self._polynomial(pieces, *self._find(row), (0, 1, 2, 3))
            for pieces, row in zip(self.pieces, eta, strict=True)
        ]
        value, slope, bend, third = (np.stack(part) for part in zip(*parts, strict=True))
        # Integration by parts: the mean is sd times the slope, and the variance likewise.
        curved = np.maximum(-bend, 0.0)
        center = self.leaf_sd * slope
        spread = np.sqrt(np.clip(1.0 - self.leaf_sd**2 * curved, 1e-6, 1.0))
        return Leaves(
            log_value=value.sum(axis=1),
            slope=slope[..., None],
            curved=curved[..., None],
            off=np.zeros((*eta.shape, 1, 1)),
            share=np.ones((*eta.shape, 1)),
            second=curved[..., None, None],
            third=third[..., None, None],
            center=center,
            spread=spread,
            follow=-(self.leaf_sd * curved)[..., None],
            strayed=np.zeros(len(eta)),
        )

    def _find(self, eta: Floats) -> tuple[Floats, Ints, Floats]:
        """Return where predictors lie in their interval, which that is, and how far beyond all."""
        place = (eta + _REACH) / _STEP
        last = _GRID.size - 1
        inside = np.clip(place, 0.0, last)
        interval = np.minimum(inside.astype(np.int64), last - 1)
        return inside - interval, interval + self.curve * last, place - inside

    def _polynomial(
        self, pieces: Floats, t: Floats, piece: Ints, beyond: Floats, orders: tuple[int, ...]
    ) -> list[Floats]:
        """Return derivatives of some orders, straight on beyond the grid."""
        out = []
        for order in orders:
            value = np.zeros(t.shape)
            for k in range(5, order - 1, -1):
                value *= t
                value += (perm(k, order) * pieces[k]).take(piece)
            out.append(value / _STEP**order)
        if 0 in orders and beyond.any():
            far = beyond != 0
            out[0][far] += (
                _STEP
                * beyond[far]
                * self._polynomial(pieces, t[far], piece[far], np.zeros(1), (1,))[0]
            )
        return out


def leaf_curves(blocks: LatentBlocks, link: str) -> LeafCurves | None:
    """Find which leaves share a curve; none where there are too few of them to be worth it."""
    if blocks.predictor.shape[1] != 1:
        return None
    kind = blocks.successes if blocks.category is None else blocks.category
    if kind is None:
        return None
    columns = np.column_stack([blocks.leaf_sd, blocks.count, kind])
    _, example, curve = np.unique(columns, axis=0, return_index=True, return_inverse=True)
    if example.size * _GRID.size > _WORTH * len(curve):
        return None
    every = np.repeat(example, _GRID.size)
    likelihood: Verdicts | Categories
    if blocks.category is None:
        likelihood = Verdicts(blocks.count[every], kind[every].astype(np.float64), link)
    else:
        likelihood = Categories(blocks.category[every], blocks.count[every], link)
    return LeafCurves(curve.ravel().astype(np.int64), example.astype(np.int64), likelihood)
