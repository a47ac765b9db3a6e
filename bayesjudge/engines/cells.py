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

from dataclasses import dataclass

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
    of_block = precision[:, cells.backbone]
    shrink_of_block = [shrink[:, cells.backbone, r] for r in range(cells.sizes.size)]
    h_matrix: Grid = []
    h_vector: list[Floats] = []
    for i in range(cells.n_cells):
        row = []
        for j in range(i + 1):
            value = of_block * cells.count[i] if i == j else np.zeros_like(of_block)
            for r, c in enumerate(shrink_of_block):
                value = value - c * cells.pairs[r, i, j]
            row.append(value)
        h_matrix.append(row)
        vector = of_block * cells.total[i]
        for r, c in enumerate(shrink_of_block):
            vector = vector - c * cells.sums[r, i]
        h_vector.append(vector)
    log_det = np.log(variance) @ cells.rows
    log_det = log_det + np.einsum("nar,ar->n", np.log(stretch), cells.generations)
    quadratic = precision @ cells.squares
    quadratic = quadratic - np.einsum("nar,ar->n", shrink, cells.generation_squares)
    return h_matrix, h_vector, -0.5 * (log_det + quadratic)


def eliminate(
    h_matrix: Grid, h_vector: list[Floats], basis: Floats, sd: list[Floats]
) -> Eliminated:
    """Eliminate coordinates with unit prior variance and design ``basis`` times their sd.

    Parameters
    ----------
    basis : (C, q) float array
    sd : list of q arrays
        Scale of each coordinate, broadcast against the entries of H.
    """
    n_cells, q = basis.shape
    gain: Grid = []
    for a in range(q):
        row = []
        for c in range(n_cells):
            total: Floats | None = None
            for i in np.flatnonzero(basis[:, a]).tolist():
                entry = h_matrix[max(i, c)][min(i, c)]
                part = entry if basis[i, a] == 1.0 else entry * basis[i, a]
                total = part if total is None else total + part
            row.append(np.zeros_like(h_vector[0]) if total is None else total * sd[a])
        gain.append(row)
    factor: Grid = []
    rhs: list[Floats] = []
    for a in range(q):
        row = []
        for b in range(a + 1):
            value = _combine(gain[a], basis[:, b]) * sd[b]
            if a == b:
                value = value + 1.0
            for k in range(b):
                value -= row[k] * (factor[b][k] if b < a else row[k])
            row.append(np.sqrt(value) if a == b else value / factor[b][b])
        factor.append(row)
        vector = _combine(h_vector, basis[:, a]) * sd[a]
        for k in range(a):
            vector -= row[k] * rhs[k]
        rhs.append(vector / row[a])
    for c in range(n_cells):
        for a in range(q):
            value = gain[a][c]
            for k in range(a):
                value = value - factor[a][k] * gain[k][c]
            gain[a][c] = value / factor[a][a]
    return Eliminated(factor, gain, rhs)


def _combine(entries: list[Floats], weights: Floats) -> Floats:
    total: Floats | None = None
    for i in np.flatnonzero(weights).tolist():
        part = entries[i] * weights[i]
        total = part if total is None else total + part
    return np.zeros_like(entries[0]) if total is None else total


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
    for i in range(len(h_vector)):
        row = []
        for j in range(i + 1):
            value = h_matrix[i][j].copy()
            for part in found.gain:
                value -= part[i] * part[j]
            row.append(value)
        matrix.append(row)
        rest = h_vector[i].copy()
        for part, own in zip(found.gain, found.rhs, strict=True):
            rest -= part[i] * own
        vector.append(rest)
    return matrix, vector
