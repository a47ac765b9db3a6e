"""Two large crossed random facets, students and lecturers say, and small terms beside them.

The larger facet is eliminated level by level: its levels meet in no score. What
is left of the other is one dense Cholesky factor, as long as the facet is large,
and then a small system in the other terms. That factor depends on three scales
only, and what it leaves is so smooth in them that a polynomial through some
dozens of factors stands for all others; its error is checked.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import combinations_with_replacement
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import cholesky, solve_triangular

from bayesjudge.engines.cross_products import block_facet, dense_columns
from bayesjudge.engines.effects import INTERCEPT, Integrated, forward_slope, is_kept, sd_offsets
from bayesjudge.engines.streams import Streams
from bayesjudge.resolution import Resolved, ResolvedTerm

type Floats = NDArray[np.float64]

# What random numbers are for.
_SMALL, _SECOND, _FIRST = range(3)
type Ints = NDArray[np.int64]

# Polynomial in the three log scales: its degree, factors it is fitted to and
# checked at, how far out they lie (in sds), and the error in the log density allowed.
_DEGREE = 4
_NODES, _CHECKS = 70, 8
_RADIUS = 5.0
_TOLERANCE = 1e-3

# Beyond these the dense systems are not small.
_MOST_COORDINATES = 200
_MOST_LEVELS = 4000


@dataclass(frozen=True, eq=False)
class Sums:
    """The sums over scores that the likelihood needs. S and D levels, C cells of the rest.

    Attributes
    ----------
    counts : (S, D + C) sparse
        Scores of each level of the larger facet, by level of the other and by cell.
    products : (D + C, D + C) sparse
        Scores by level and cell.
    totals : (D + C,), block_totals, block_counts : (S,) float arrays
        Sums of scores about the location, and numbers.
    squares, n_scores : float
    design : (C, p) float array
        Effects on cells of the coordinates of all other terms, the intercept first.
    sd_index : (p,) int array
    first_index, second_index : int
        Entries of the two facets' scales.
    """

    counts: Any
    products: Any
    totals: Floats
    block_totals: Floats
    block_counts: Floats
    squares: float
    n_scores: int
    design: Floats
    sd_index: Ints
    first_index: int
    second_index: int

    @property
    def n_second(self) -> int:
        """Levels of the smaller of the two facets."""
        return int(self.totals.size - self.design.shape[0])


@dataclass(frozen=True, eq=False)
class Remainder:
    """What eliminating both facets leaves at m sets of scales.

    Attributes
    ----------
    matrix : (m, p, p)
    vector : (m, p)
    constant : (m,)
        Log density so far.
    """

    matrix: Floats
    vector: Floats
    constant: Floats


@dataclass(frozen=True, eq=False)
class Polynomial:
    """A remainder as a polynomial in standardized log scales.

    Attributes
    ----------
    center : (3,), axes : (3, 3) float arrays
        log scales = center + axes @ t.
    coefficients : (terms, p (p + 1) / 2 + p + 1) float array
    """

    center: Floats
    axes: Floats
    coefficients: Floats


@dataclass(frozen=True, eq=False)
class LargeModel(Integrated):
    """A model with two large facets (:class:`effects.Integrated`)."""

    resolved: Resolved
    terms: tuple[ResolvedTerm, ResolvedTerm]
    others: tuple[ResolvedTerm, ...]
    sums: Sums
    polynomial: Polynomial | None = None

    @property
    def costly(self) -> bool:
        """Always: each draw takes a dense factor of its own, in memory too."""
        return True

    def values(self, sd: Floats, noise: Floats) -> Floats:
        """Return log densities (n,) of scales (n, n_sd) and residual variances (n, 1)."""
        left = self._remainder(sd, noise)
        factor, rhs = _dense(left, sd[:, self.sums.sd_index])
        log_det = np.log(np.diagonal(factor, axis1=1, axis2=2)).sum(axis=1)
        return np.asarray(left.constant + 0.5 * np.einsum("np,np->n", rhs, rhs) - log_det)

    def slope(self, sd: Floats, noise: Floats) -> tuple[float, Floats, Floats]:
        """Return the log density and its derivatives, by forward differences."""
        return forward_slope(self.values, sd, noise)

    def near(self, sd: Floats, noise: Floats) -> LargeModel:
        """Return the model with a polynomial for what is slow, good about these scales.

        Itself where the polynomial's error is too large.
        """
        logs = _logs(sd, noise, self.sums)
        center = logs.mean(axis=0)
        axes = np.linalg.cholesky(np.cov(logs.T) + 1e-12 * np.eye(3))
        rng = np.random.default_rng(0)
        t = rng.standard_normal((_NODES + _CHECKS, 3))
        t *= _RADIUS * rng.random((len(t), 1)) ** (1 / 3) / np.linalg.norm(t, axis=1, keepdims=True)
        scales = np.exp(center + t @ axes.T)
        known = _stack([eliminate(row, self.sums) for row in scales])
        flat = _flatten(known)
        basis = _powers(t)
        coefficients = np.linalg.lstsq(basis[:_NODES], flat[:_NODES], rcond=None)[0]
        found = replace(self, polynomial=Polynomial(center, axes, coefficients))
        at = np.repeat(sd[:1], _CHECKS, axis=0)
        at[:, [self.sums.first_index, self.sums.second_index]] = scales[_NODES:, :2]
        at_noise = scales[_NODES:, 2:] ** 2
        exact = self.values(at, at_noise)
        error = np.abs(found.values(at, at_noise) - exact).max()
        return found if error < _TOLERANCE else self

    def kept_effects(self, sd: Floats, noise: Floats, streams: Streams) -> dict[str, Floats]:
        """Draw the effects that are kept, (n, *shape) by variable, and the intercept."""
        effects = self._small_effects(sd, noise, streams)
        if any(is_kept(t, self.resolved.panel) for t in self.terms):
            effects |= self._large_effects(sd, noise, streams)
        names = {t.variable for t in self.resolved.terms if is_kept(t, self.resolved.panel)}
        return {n: v for n, v in effects.items() if n in names | {INTERCEPT}}

    def other_effects(
        self, sd: Floats, noise: Floats, streams: Streams, kept: dict[str, Floats]
    ) -> dict[str, Floats]:
        """Draw the two large facets: one factor a draw."""
        effects = self._small_effects(sd, noise, streams) | self._large_effects(sd, noise, streams)
        return {n: v for n, v in effects.items() if n not in kept}

    def _remainder(self, sd: Floats, noise: Floats) -> Remainder:
        logs = _logs(sd, noise, self.sums)
        if self.polynomial is None:
            different, where = np.unique(logs, axis=0, return_inverse=True)
            known = _stack([eliminate(row, self.sums) for row in np.exp(different)])
            where = where.ravel()
            return Remainder(known.matrix[where], known.vector[where], known.constant[where])
        found = self.polynomial
        t = np.linalg.solve(found.axes, (logs - found.center).T).T
        flat = _powers(t) @ found.coefficients
        left = _unflatten(flat, self.sums.sd_index.size)
        # Nothing is known out there but that the density is negligible.
        outside = np.linalg.norm(t, axis=1) > _RADIUS
        return replace(left, constant=np.where(outside, -np.inf, left.constant))

    def _coordinates(self, sd: Floats, noise: Floats, streams: Streams) -> Floats:
        own = sd[:, self.sums.sd_index]
        factor, rhs = _dense(self._remainder(sd, noise), own)
        unit = rhs + streams.normal(_SMALL, rhs.shape[1:])
        return np.asarray(np.linalg.solve(factor.swapaxes(1, 2), unit[..., None])[..., 0] * own)

    def _small_effects(self, sd: Floats, noise: Floats, streams: Streams) -> dict[str, Floats]:
        drawn = self._coordinates(sd, noise, streams)
        effects, start = {INTERCEPT: drawn[:, 0]}, 1
        for term in self.others:
            basis = dense_columns(term, 0).basis
            stop = start + basis.shape[1]
            effects[term.variable] = (drawn[:, start:stop] @ basis.T).reshape(-1, *term.shape)
            start = stop
        return effects

    def _large_effects(self, sd: Floats, noise: Floats, streams: Streams) -> dict[str, Floats]:
        cells = self._coordinates(sd, noise, streams) @ self.sums.design.T
        scales = np.exp(_logs(sd, noise, self.sums))
        first = np.empty((len(sd), self.terms[0].n_levels))
        second = np.empty((len(sd), self.terms[1].n_levels))
        for i, (row, mean) in enumerate(zip(scales, cells, strict=True)):
            own = streams.of(slice(i, i + 1))
            first[i], second[i] = _draw_large(own, row, mean, self.sums)
        return {self.terms[0].variable: first, self.terms[1].variable: second}


def large_model(resolved: Resolved) -> LargeModel | None:
    """Run the pass; None where the model is not of two large facets and small terms."""
    facet = block_facet(resolved, None)
    if facet is None or resolved.residual_by is not None:
        return None
    if any("generation" in t.dims for t in resolved.terms):
        return None
    alone = [
        t
        for t in resolved.terms
        if len(t.dims) == 1
        and t.dims[0] in resolved.random
        and not t.centred[0]
        and t.scale.by is None
    ]
    alone.sort(key=lambda t: -t.n_levels)
    if len(alone) < 2 or alone[0].dims != (facet,) or alone[1].n_levels > _MOST_LEVELS:
        return None
    first, second = alone[:2]
    others = tuple(t for t in resolved.terms if t not in (first, second))
    if any({*first.dims, *second.dims} & {*t.dims, t.scale.by} for t in others):
        return None
    sums = _sum(resolved, first, second, others)
    if sums.sd_index.size > _MOST_COORDINATES:
        return None
    return LargeModel(resolved, (first, second), others, sums)


def _sum(
    resolved: Resolved,
    first: ResolvedTerm,
    second: ResolvedTerm,
    others: tuple[ResolvedTerm, ...],
) -> Sums:
    y = resolved.score - resolved.location
    n = y.size
    offsets = dict(
        zip([t.variable for t in resolved.terms], sd_offsets(resolved.terms), strict=False)
    )
    columns = [dense_columns(t, int(offsets[t.variable])) for t in others]
    codes = np.stack([t.codes for t in others]) if others else np.zeros((1, n), np.int64)
    _, at, cell = np.unique(codes, axis=1, return_index=True, return_inverse=True)
    design = np.hstack([np.ones((at.size, 1)), *(c.basis[c.local[at]] for c in columns)])
    rows, ones = np.arange(n), np.ones(n)
    width = second.n_levels + at.size
    levels = sparse.csr_array((ones, (rows, second.codes)), shape=(n, width))
    levels = levels + sparse.csr_array(
        (ones, (rows, second.n_levels + cell.ravel())), shape=(n, width)
    )
    blocks = sparse.csr_array((ones, (first.codes, rows)), shape=(first.n_levels, n))
    n_sd = int(sd_offsets(resolved.terms)[-1])
    return Sums(
        counts=(blocks @ levels).tocsr(),
        products=(levels.T @ levels).tocsr(),
        totals=levels.T @ y,
        block_totals=np.bincount(first.codes, y, first.n_levels),
        block_counts=np.bincount(first.codes, minlength=first.n_levels).astype(float),
        squares=float(y @ y),
        n_scores=n,
        design=design,
        sd_index=np.concatenate([[n_sd], *(c.sd_index for c in columns)]).astype(np.int64),
        first_index=int(offsets[first.variable]),
        second_index=int(offsets[second.variable]),
    )


def _logs(sd: Floats, noise: Floats, sums: Sums) -> Floats:
    scales = np.column_stack([sd[:, [sums.first_index, sums.second_index]], np.sqrt(noise[:, :1])])
    return np.asarray(np.log(np.maximum(scales, 1e-150)))


def _without_blocks(first: float, noise_sd: float, sums: Sums) -> tuple[Floats, Floats, float]:
    """Eliminate the larger facet: information (D + C, D + C), vector, log density so far."""
    precision = noise_sd**-2
    stretch = 1.0 + sums.block_counts * precision * first**2
    shrink = precision**2 * first**2 / stretch
    scaled = sums.counts.multiply(np.sqrt(shrink)[:, None]).tocsr()
    matrix = (precision * sums.products - scaled.T @ scaled).toarray()
    vector = precision * sums.totals - sums.counts.T @ (shrink * sums.block_totals)
    log_det = 2 * sums.n_scores * np.log(noise_sd) + np.log(stretch).sum()
    quadratic = precision * sums.squares - shrink @ sums.block_totals**2
    constant = log_det + quadratic + sums.n_scores * np.log(2 * np.pi)
    return matrix, vector, float(-0.5 * constant)


def _factor(second: float, matrix: Floats, d: int) -> Floats:
    system = matrix[:d, :d] * second**2
    system[np.diag_indices(d)] += 1.0
    return np.asarray(cholesky(system, lower=True, overwrite_a=True, check_finite=False))


def eliminate(scales: Floats, sums: Sums) -> tuple[Floats, Floats, float]:
    """Eliminate both facets: information (p, p) and vector (p,) of the rest, log density so far.

    Parameters
    ----------
    scales : (3,) float array
        Of the larger facet, the other and the residual.
    """
    first, second, noise_sd = scales.tolist()
    matrix, vector, constant = _without_blocks(first, noise_sd, sums)
    d = sums.n_second
    factor = _factor(second, matrix, d)
    right = second * np.column_stack([matrix[:d, d:], vector[:d]])
    solved = solve_triangular(factor, right, lower=True, check_finite=False)
    gain, known = solved[:, :-1], solved[:, -1]
    constant += float(0.5 * known @ known - np.log(np.diag(factor)).sum())
    inner = matrix[d:, d:] - gain.T @ gain
    rest = vector[d:] - gain.T @ known
    return sums.design.T @ inner @ sums.design, sums.design.T @ rest, constant


def _draw_large(
    streams: Streams, scales: Floats, mean: Floats, sums: Sums
) -> tuple[Floats, Floats]:
    """Draw both facets' effects given the cells' means, of one draw."""
    first, second, noise_sd = scales.tolist()
    matrix, vector, _ = _without_blocks(first, noise_sd, sums)
    d = sums.n_second
    factor = _factor(second, matrix, d)
    right = second * (vector[:d] - matrix[:d, d:] @ mean)
    unit = solve_triangular(factor, right, lower=True) + streams.normal(_SECOND, (d,))[0]
    of_second = second * solve_triangular(factor, unit, lower=True, trans=1)
    precision = noise_sd**-2
    rest = sums.block_totals - sums.counts @ np.concatenate([of_second, mean])
    stretch = 1.0 + sums.block_counts * precision * first**2
    unit = first * precision * rest / stretch
    unit += streams.normal(_FIRST, unit.shape)[0] / np.sqrt(stretch)
    return first * unit, of_second


def _stack(rows: list[tuple[Floats, Floats, float]]) -> Remainder:
    matrix, vector, constant = zip(*rows, strict=True)
    return Remainder(np.array(matrix), np.array(vector), np.array(constant))


def _dense(left: Remainder, sd: Floats) -> tuple[Floats, Floats]:
    """Return factors (n, p, p) and right-hand sides (n, p) of the small systems."""
    system = left.matrix * sd[:, :, None] * sd[:, None, :] + np.eye(sd.shape[1])
    factor = np.linalg.cholesky(system)
    return factor, np.linalg.solve(factor, (left.vector * sd)[..., None])[..., 0]


def _powers(t: Floats) -> Floats:
    columns = [np.ones(len(t))]
    for degree in range(1, _DEGREE + 1):
        for axes in combinations_with_replacement(range(3), degree):
            columns.append(np.prod(t[:, axes], axis=1))
    return np.column_stack(columns)


def _flatten(left: Remainder) -> Floats:
    upper = np.triu_indices(left.vector.shape[1])
    return np.column_stack([left.matrix[:, *upper], left.vector, left.constant])


def _unflatten(flat: Floats, p: int) -> Remainder:
    upper = np.triu_indices(p)
    matrix = np.zeros((len(flat), p, p))
    n = upper[0].size
    matrix[:, *upper] = flat[:, :n]
    matrix[:, upper[1], upper[0]] = flat[:, :n]
    return Remainder(matrix, flat[:, n : n + p], flat[:, -1])
