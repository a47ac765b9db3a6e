"""An unbalanced table's levels eliminated: generations, blocks, scenarios, the dense rest."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bayesjudge.engines.cells import (
    Cells,
    CommonAndOwn,
    Coordinates,
    Eliminated,
    Grid,
    Local,
    coordinates_of_level,
    downdate,
    eliminate,
    information,
    log_density_of,
    subtract_product,
)

type Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Level:
    """All coordinates of one level: design (C, q), and their scales' entries (A, q)."""

    basis: Floats
    sd_index: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Solved:
    """All levels eliminated at m sets of scales.

    Attributes
    ----------
    log_density : (m,)
    inner, outer : Eliminated or None
    across : (m, S, q, A * C) or None
        What each scenario's coordinates know of the cells of all backbones.
    factor : (m, p, p)
        Lower Cholesky factor of the dense system.
    rhs : (m, p)
    dense_sd : (m, p)
    """

    log_density: Floats
    inner: Eliminated | None
    outer: Eliminated | None
    across: Floats | None
    factor: Floats
    rhs: Floats
    dense_sd: Floats


def level_of(terms: tuple[Local, ...]) -> Level | None:
    """Return all coordinates of these terms; None where there are none."""
    if not terms:
        return None
    return Level(np.hstack([t.basis for t in terms]), np.hstack([t.sd_index for t in terms]))


def solve(sd: Floats, noise: Floats, cells: Cells) -> Solved:
    """Eliminate level by level: generations, blocks, scenarios, the dense rest.

    Parameters
    ----------
    sd : (m, n_sd), noise : (m, V)
    """
    m = len(sd)
    matrix, vector, log_density = information(sd**2, noise, cells)
    inner, outer, across = level_of(cells.inner), level_of(cells.outer), None
    first: Eliminated | None = None
    if inner is not None:
        within = coordinates_of_inner(inner, sd, cells)
        first = eliminate(matrix, vector, within)
        log_density = log_density + log_density_of(first)
        matrix, vector = downdate(matrix, vector, first)
    size = cells.n_backbones * cells.n_cells
    total, right = _cells_of_backbones(matrix, vector, cells, m)
    second: Eliminated | None = None
    if outer is not None:
        above = coordinates_of_outer(outer, sd)
        summed = [[np.add.reduceat(e, cells.first, axis=1) for e in row] for row in matrix]
        right_summed = [np.add.reduceat(e, cells.first, axis=1) for e in vector]
        second = eliminate(summed, right_summed, above, with_gain=False)
        log_density = log_density + log_density_of(second)
        across = _across(matrix, second, above, cells, m)
        flat = across.reshape(m, -1, size)
        total -= flat.swapaxes(1, 2) @ flat
        known = np.stack(second.rhs, axis=2).reshape(m, -1, 1)
        right -= (flat.swapaxes(1, 2) @ known)[..., 0]
    design, dense_sd = cells.dense_design, sd[:, cells.dense_index]
    system = (design.T @ total @ design) * dense_sd[:, :, None] * dense_sd[:, None, :]
    factor = np.linalg.cholesky(system + np.eye(design.shape[1]))
    rhs = np.linalg.solve(factor, ((right @ design) * dense_sd)[..., None])[..., 0]
    log_det = np.log(np.diagonal(factor, axis1=1, axis2=2)).sum(axis=1)
    log_density = log_density + 0.5 * np.einsum("mp,mp->m", rhs, rhs) - log_det
    log_density = log_density - 0.5 * cells.rows.sum() * np.log(2 * np.pi)
    return Solved(log_density, first, second, across, factor, rhs, dense_sd)


def coordinates_of_inner(inner: Level, sd: Floats, cells: Cells) -> Coordinates | CommonAndOwn:
    """Return the coordinates within blocks at m sets of scales."""
    index = inner.sd_index[cells.backbone]
    return coordinates_of_level(inner.basis, scales_by_block(sd, index))


def coordinates_of_outer(outer: Level, sd: Floats) -> Coordinates | CommonAndOwn:
    """Return the coordinates within scenarios at m sets of scales."""
    return coordinates_of_level(outer.basis, scales_by_block(sd, outer.sd_index[:1]))


def scales_by_block(sd: Floats, index: NDArray[np.int64]) -> list[Floats]:
    """Return each coordinate's scale by block, (m, K) or, where all are one, (m, 1).

    Coordinates that share their scales share the array.
    """
    alike = (index == index[:1]).all(axis=0)
    out: list[Floats] = []
    for q in range(index.shape[1]):
        if q and (index[:, q] == index[:, q - 1]).all():
            out.append(out[-1])
        else:
            out.append(sd[:, index[:1, q] if alike[q] else index[:, q]])
    return out


def _cells_of_backbones(
    matrix: Grid, vector: list[Floats], cells: Cells, m: int
) -> tuple[Floats, Floats]:
    """Sum H and h over scenarios: (m, A * C, A * C), block diagonal, and (m, A * C)."""
    n_backbones, n_cells = cells.n_backbones, cells.n_cells
    size = n_backbones * n_cells
    total, right = np.zeros((m, size, size)), np.zeros((m, size))
    belongs = (cells.backbone[:, None] == np.arange(n_backbones)).astype(float)
    at = np.arange(n_backbones) * n_cells
    for i in range(n_cells):
        right[:, at + i] = vector[i] @ belongs
        for j in range(i + 1):
            value = matrix[i][j] @ belongs
            total[:, at + i, at + j] = value
            total[:, at + j, at + i] = value
    return total, right


def _across(
    matrix: Grid,
    found: Eliminated,
    coordinates: Coordinates | CommonAndOwn,
    cells: Cells,
    m: int,
) -> Floats:
    """Return each scenario's inverse factor times F'H of its blocks, (m, S, q, A * C)."""
    n_cells, q = cells.n_cells, coordinates.size
    shape = (m, cells.first.size, cells.n_backbones)
    out = np.zeros((m, cells.first.size, q, cells.n_backbones, n_cells), cells.count.dtype)
    whole = cells.backbone.size == shape[1] * shape[2]
    factor = [[entry[:, cells.scenario] for entry in row] for row in found.factor]
    inverse = [1.0 / row[-1] for row in factor]
    scratch = np.empty_like(matrix[0][0])
    for c in range(n_cells):
        solved: list[Floats] = []
        entries = [matrix[max(i, c)][min(i, c)] for i in range(n_cells)]
        for a, value in enumerate(coordinates.times(entries, q)):
            for k in range(a):
                subtract_product(value, factor[a][k], solved[k], scratch)
            value *= inverse[a]
            solved.append(value)
            if whole:
                out[:, :, a, :, c] = value.reshape(shape)
            else:
                out[:, cells.scenario, a, cells.backbone, c] = value
    return out.reshape(m, cells.first.size, q, -1)
