"""Unbalanced tables: cross-products by scenario and backbone, eliminated level by level.

Within one scenario s and one backbone a (a *block*) all rows of one cell c, a
combination of the other facets (judge, language, ...), have the same effects,
generations apart. With the generations eliminated a block is what its cells
know, a C x C matrix H and a vector h. Terms of s and a are then eliminated
within each block, terms of s within each scenario, and what is left is a dense
system in the cells of the other terms. Every step is written out for all blocks
and many sets of scales at once: the matrices are too small for libraries.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayesjudge.resolution import ResolvedTerm

type Floats = NDArray[np.float64]
type Ints = NDArray[np.int64]
type Grid = list[list[Floats]]


@dataclass(frozen=True, eq=False)
class Local:
    """Coordinates of one term within a block or a scenario.

    Attributes
    ----------
    term : ResolvedTerm
    basis : (C, q) float array
        Effect of each coordinate on each cell.
    sd_index : (A, q) int array
        Entry of the vector of scales of each coordinate, by the block's backbone.
    levels : (L, q) float array
        Levels of the term within its block or scenario, from coordinates.
    """

    term: ResolvedTerm
    basis: Floats
    sd_index: Ints
    levels: Floats


@dataclass(frozen=True, eq=False)
class Dense:
    """Coordinates of a term without the scenario.

    Attributes
    ----------
    term : ResolvedTerm or None
        None is the intercept.
    design : (A, C, p) float array
    sd_index : (p,) int array
    levels : (L, p) float array
    """

    term: ResolvedTerm | None
    design: Floats
    sd_index: Ints
    levels: Floats


@dataclass(frozen=True, eq=False)
class Cells:
    """The sums over scores that the likelihood needs. K blocks, S scenarios, A, C cells.

    Attributes
    ----------
    backbone, scenario : (K,) int arrays
        Of each block, sorted by scenario.
    first : (S,) int array
        First block of each scenario.
    count, total : (C, K) float arrays
        Number and sum of scores in each cell, the location taken off.
    sizes : (R,) float array
        Scores behind a generation, the sizes that occur.
    pairs : (R, C, C, K), sums : (R, C, K) float arrays
        Over a block's generations of size r: outer products of their counts by
        cell, and counts times their sum of scores.
    rows, squares : (A,) float arrays
        Number of scores of each backbone, and their sum of squares.
    generations, generation_squares : (A, R) float arrays
        Number of generations, and sum of their squared sums.
    inner, outer : tuple of Local
        Terms of scenario and backbone, terms of the scenario.
    dense : tuple of Dense
    noise_index, leaf_index : (A,) int arrays
        Residual variance and scale of generations of each backbone.
    n_sd : int
    scenario_facet : str
    along : str
    """

    backbone: Ints
    scenario: Ints
    first: Ints
    count: Floats
    total: Floats
    sizes: Floats
    pairs: Floats
    sums: Floats
    rows: Floats
    squares: Floats
    generations: Floats
    generation_squares: Floats
    inner: tuple[Local, ...]
    outer: tuple[Local, ...]
    dense: tuple[Dense, ...]
    noise_index: Ints
    leaf_index: Ints
    n_sd: int
    scenario_facet: str
    along: str

    @property
    def n_cells(self) -> int:
        """Number of cells of a block, C."""
        return int(self.count.shape[0])

    @property
    def n_backbones(self) -> int:
        """Number of backbones, A."""
        return int(self.rows.size)

    @cached_property
    def entries_of_backbones(self) -> tuple[tuple[slice | Ints, Floats], ...]:
        """Return each backbone's blocks, and what its weights multiply, (1 + R, entries * blocks).

        Entries are the lower triangle of H, then h; weights the precision of a
        score, then what each size of generation takes off.
        """
        lower = np.tril_indices(self.n_cells)
        n_pairs = lower[0].size
        shape = (self.sizes.size + 1, n_pairs + self.n_cells, self.backbone.size)
        known = np.zeros(shape, self.count.dtype)
        known[0, np.flatnonzero(lower[0] == lower[1])] = self.count
        known[0, n_pairs:] = self.total
        known[1:, :n_pairs] = self.pairs[:, *lower]
        known[1:, n_pairs:] = self.sums
        out: list[tuple[slice | Ints, Floats]] = []
        for a in range(self.n_backbones):
            blocks = np.flatnonzero(self.backbone == a)
            out.append((_evenly(blocks), known[:, :, blocks].reshape(len(known), -1)))
        return tuple(out)

    @cached_property
    def dense_design(self) -> Floats:
        """Effect of each dense coordinate on the cells of all backbones, (A * C, p)."""
        return np.concatenate([d.design for d in self.dense], axis=2).reshape(
            self.n_backbones * self.n_cells, -1
        )

    @cached_property
    def dense_index(self) -> Ints:
        """Entry of the vector of scales of each dense coordinate, (p,)."""
        return np.concatenate([d.sd_index for d in self.dense])


def _evenly(index: Ints) -> slice | Ints:
    """Return the slice that an ascending index is, which is quicker to write to, or itself."""
    if index.size < 2 or (np.diff(index) != index[1] - index[0]).any():
        return index
    return slice(int(index[0]), int(index[-1]) + 1, int(index[1] - index[0]))


def single_precision(cells: Cells) -> Cells:
    """Return the same sums as 32-bit floats: half the memory to go through."""

    def short(values: Floats) -> Any:
        return values.astype(np.float32)

    return replace(
        cells,
        count=short(cells.count),
        total=short(cells.total),
        sizes=short(cells.sizes),
        pairs=short(cells.pairs),
        sums=short(cells.sums),
        inner=tuple(replace(t, basis=short(t.basis)) for t in cells.inner),
        outer=tuple(replace(t, basis=short(t.basis)) for t in cells.outer),
    )


# Elimination. A Grid is a small matrix whose entries are arrays over sets of
# scales and blocks; of symmetric ones only the lower triangle is used.


@dataclass(frozen=True, eq=False)
class Eliminated:
    """What one level leaves: factor, right-hand side, and what goes on upwards.

    Attributes
    ----------
    factor : Grid, (q, q)
        Lower Cholesky factor of the identity plus F'HF.
    gain : Grid, (q, C)
        Its inverse times F'H.
    rhs : list of q arrays
        Its inverse times F'h.
    """

    factor: Grid
    gain: Grid
    rhs: list[Floats]


def information(sd2: Floats, noise: Floats, cells: Cells) -> tuple[Grid, list[Floats], Floats]:
    """Eliminate the generations: H and h of each block, and the log density so far.

    Parameters
    ----------
    sd2 : (n, n_sd)
        Squared scales.
    noise : (n, V)

    Returns
    -------
    h_matrix : Grid of (n, K), (C, C) lower triangle
    h_vector : list of (n, K), C
    log_density : (n,)
        Minus half of log determinant and quadratic form.
    """
    variance = noise[:, cells.noise_index]
    precision = 1.0 / variance
    leaf = sd2[:, cells.leaf_index] if cells.sizes.size else np.zeros_like(variance)
    stretch = 1.0 + cells.sizes * (leaf * precision)[..., None]
    shrink = (leaf * precision**2)[..., None] / stretch
    h_matrix, h_vector = _known_by_blocks(precision, shrink, cells)
    log_det = np.log(variance) @ cells.rows
    log_det = log_det + np.einsum("nar,ar->n", np.log(stretch), cells.generations)
    quadratic = precision @ cells.squares
    quadratic = quadratic - np.einsum("nar,ar->n", shrink, cells.generation_squares)
    return h_matrix, h_vector, -0.5 * (log_det + quadratic)


def _known_by_blocks(precision: Floats, shrink: Floats, cells: Cells) -> tuple[Grid, list[Floats]]:
    """Return H and h of each block: one matrix product a backbone, which shares its weights."""
    n, n_cells = len(precision), cells.n_cells
    n_entries = n_cells * (n_cells + 1) // 2 + n_cells
    weight = np.concatenate([precision[..., None], -shrink], axis=2)
    whole = np.empty((n_entries, n, cells.backbone.size), cells.count.dtype)
    for a, (where, entries) in enumerate(cells.entries_of_backbones):
        product = (weight[:, a] @ entries).reshape(n, n_entries, -1)
        whole[:, :, where] = product.swapaxes(0, 1)
    entry = iter(whole)
    h_matrix = [[next(entry) for _ in range(i + 1)] for i in range(n_cells)]
    return h_matrix, list(entry)


@dataclass(frozen=True, eq=False)
class Coordinates:
    """All coordinates of a level, at some scales: their effects on the cells are F, (C, q).

    Attributes
    ----------
    basis : (C, q) float array
    sd : list of q arrays
        Scale of each coordinate, broadcast against the entries of H.
    """

    basis: Floats
    sd: list[Floats]

    @property
    def size(self) -> int:
        """Number of coordinates, q."""
        return int(self.basis.shape[1])

    def times(self, entries: list[Floats], first: int) -> list[Floats]:
        """Return the first rows of F' times C arrays."""
        return [combine(entries, self.basis[:, a], self.sd[a]) for a in range(first)]


@dataclass(frozen=True, eq=False)
class CommonAndOwn:
    """C coordinates that do for C + 1: an effect common to all cells, and one of each.

    Their covariance s^2 I + t^2 11' has the symmetric root F = s I + r 11'. Only the
    sum of the two is known of an effect in these coordinates.

    Attributes
    ----------
    size : int
        C.
    own, common : arrays
        s, and r = (sqrt(s^2 + C t^2) - s) / C.
    common_sd : array
        t.
    """

    size: int
    own: Floats
    common: Floats
    common_sd: Floats

    def times(self, entries: list[Floats], first: int) -> list[Floats]:
        """Return the first rows of F' times C arrays."""
        total = entries[0] + entries[1]
        for entry in entries[2:]:
            total += entry
        total *= self.common
        out = []
        for entry in entries[:first]:
            value = entry * self.own
            value += total
            out.append(value)
        return out


def coordinates_of_level(basis: Floats, sd: list[Floats]) -> Coordinates | CommonAndOwn:
    """Return the coordinates of a level, the fewest that do."""
    c = basis.shape[0]
    alike = basis.shape[1] == c + 1 > 2 and all(part is sd[1] for part in sd[2:])
    if not alike or (basis[:, 0] != 1).any() or (basis[:, 1:] != np.eye(c)).any():
        return Coordinates(basis, sd)
    own = np.abs(sd[1])
    return CommonAndOwn(c, own, (np.sqrt(own**2 + c * sd[0] ** 2) - own) / c, np.abs(sd[0]))


def eliminate(
    h_matrix: Grid,
    h_vector: list[Floats],
    coordinates: Coordinates | CommonAndOwn,
    with_gain: bool = True,
) -> Eliminated:
    """Eliminate coordinates with unit prior variance.

    Parameters
    ----------
    with_gain : bool
        Whether the gain is wanted: it is left empty otherwise.
    """
    n_cells, q = len(h_vector), coordinates.size
    scratch = np.empty_like(h_vector[0])
    columns = [
        coordinates.times([h_matrix[max(i, c)][min(i, c)] for i in range(n_cells)], q)
        for c in range(n_cells)
    ]
    gain: Grid = [[columns[c][a] for c in range(n_cells)] for a in range(q)]
    vectors = coordinates.times(h_vector, q)
    factor: Grid = []
    rhs: list[Floats] = []
    inverse: list[Floats] = []
    for a in range(q):
        row: list[Floats] = []
        for b, value in enumerate(coordinates.times(gain[a], a + 1)):
            if a == b:
                value += 1.0
            for k in range(b):
                subtract_product(value, row[k], factor[b][k] if b < a else row[k], scratch)
            if a == b:
                np.sqrt(value, out=value)
            else:
                value *= inverse[b]
            row.append(value)
        factor.append(row)
        inverse.append(1.0 / row[a])
        vector = vectors[a]
        for k in range(a):
            subtract_product(vector, row[k], rhs[k], scratch)
        vector *= inverse[a]
        rhs.append(vector)
    if not with_gain:
        return Eliminated(factor, [], rhs)
    for a in range(q):
        for c in range(n_cells):
            for k in range(a):
                subtract_product(gain[a][c], factor[a][k], gain[k][c], scratch)
            gain[a][c] *= inverse[a]
    return Eliminated(factor, gain, rhs)


def subtract_product(value: Floats, x: Floats, y: Floats, scratch: Floats) -> None:
    """Take x times y off in place: making new arrays takes longer than the arithmetic."""
    np.multiply(x, y, out=scratch)
    np.subtract(value, scratch, out=value)


def combine(entries: list[Floats], weights: Floats, scale: Floats) -> Floats:
    """Return the weighted sum times ``scale`` as a new array, in as few passes as it takes."""
    used = np.flatnonzero(weights).tolist()
    if not used:
        return np.zeros(np.broadcast_shapes(entries[0].shape, np.shape(scale)))
    first, *others = used
    if others and (weights[used] == 1.0).all():
        total = entries[first] + entries[others[0]]
        for i in others[1:]:
            total += entries[i]
        total *= scale
        return total
    total = np.asarray(entries[first] * (scale * weights[first]))
    for i in others:
        total += entries[i] * (scale * weights[i])
    return total


def log_density_of(found: Eliminated) -> Floats:
    """Return what a level adds to the log density, over sets of scales (n,)."""
    total: Floats = np.zeros(found.rhs[0].shape[0])
    for a, value in enumerate(found.rhs):
        total += 0.5 * np.einsum("nk,nk->n", value, value) - np.log(found.factor[a][a]).sum(axis=1)
    return total


def downdate(
    h_matrix: Grid, h_vector: list[Floats], found: Eliminated
) -> tuple[Grid, list[Floats]]:
    """Return H and h without the coordinates that were eliminated."""
    matrix: Grid = []
    vector: list[Floats] = []
    scratch = np.empty_like(h_vector[0])
    for i in range(len(h_vector)):
        row = []
        for j in range(i + 1):
            value = h_matrix[i][j].copy()
            for part in found.gain:
                subtract_product(value, part[i], part[j], scratch)
            row.append(value)
        matrix.append(row)
        rest = h_vector[i].copy()
        for part, own in zip(found.gain, found.rhs, strict=True):
            subtract_product(rest, part[i], own, scratch)
        vector.append(rest)
    return matrix, vector
