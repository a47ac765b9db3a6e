"""Derivatives of the density of an unbalanced table, at the price of a few densities.

For a standardized effect z = e / s the derivative of the log density by log s is
the sum of E[z^2 | scores] - 1 (Fisher's identity), and that by what a block's
cells know, H and h, follows from the mean and covariance of its cells' values.
Both come from going down the levels again that :func:`block_levels.solve` went up:
dense terms, scenarios, blocks.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bayesjudge.engines.block_levels import level_of
from bayesjudge.engines.cells import Cells, Local, information

type Floats = NDArray[np.float64]
type Ints = NDArray[np.int64]

# In place of a scale of zero, where the density is flat.
_TINY = 1e-150


@dataclass(frozen=True, eq=False)
class _Posterior:
    """Cells' values given the scores: mean (K, C) and covariance (K, C, C) of each block.

    ``by_log_sd`` (n_sd,) is the derivative by the logs of the scales so far.
    """

    mean: Floats
    covariance: Floats
    by_log_sd: Floats
    log_density: float


def slope_of_blocks(sd: Floats, noise: Floats, cells: Cells) -> tuple[float, Floats, Floats]:
    """Return the log density and its derivatives by scales and residual variances.

    Parameters
    ----------
    sd : (n_sd,), noise : (V,)
    """
    matrix, vector, start = information(sd[None] ** 2, noise[None], cells)
    c = cells.n_cells
    h_matrix = np.empty((cells.backbone.size, c, c))
    for i in range(c):
        for j in range(i + 1):
            h_matrix[:, i, j] = h_matrix[:, j, i] = matrix[i][j][0]
    h_vector = np.stack([v[0] for v in vector], axis=1)
    found = _posterior(sd, h_matrix, h_vector, cells)
    d_sd, d_noise = found.by_log_sd / np.maximum(sd, _TINY), np.zeros(noise.size)
    _add_information(d_sd, d_noise, sd, noise, found, cells)
    value = start[0] + found.log_density - 0.5 * cells.rows.sum() * np.log(2 * np.pi)
    return float(value), d_sd, d_noise


def _posterior(sd: Floats, h_matrix: Floats, h_vector: Floats, cells: Cells) -> _Posterior:
    c = h_vector.shape[1]
    n_scenarios, n_backbones = cells.first.size, cells.n_backbones
    by_log_sd = np.zeros(sd.size)
    # Up: blocks. Without inner terms the matrices have no rows, and add nothing.
    inner, inner_index = _basis(cells.inner, c, n_backbones)
    f = inner * sd[inner_index][cells.backbone][:, None]
    fh = f.swapaxes(1, 2) @ h_matrix
    known = np.linalg.inv(np.eye(f.shape[2]) + fh @ f)
    left = (f.swapaxes(1, 2) @ h_vector[..., None])[..., 0]
    log_density = 0.5 * _quadratic(left, known) + 0.5 * _log_det(known)
    matrix = h_matrix - fh.swapaxes(1, 2) @ known @ fh
    vector = h_vector - (fh.swapaxes(1, 2) @ known @ left[..., None])[..., 0]
    # Up: scenarios.
    outer, outer_index = _basis(cells.outer, c, 1)
    g = outer * sd[outer_index[0]]
    of_scenario = np.add.reduceat(matrix, cells.first, axis=0)
    scenario_known = np.linalg.inv(np.eye(g.shape[1]) + g.T @ of_scenario @ g)
    scenario_left = np.add.reduceat(vector, cells.first, axis=0) @ g
    log_density += 0.5 * _quadratic(scenario_left, scenario_known) + 0.5 * _log_det(scenario_known)
    across = np.zeros((n_scenarios, g.shape[1], n_backbones, c))
    across[cells.scenario, :, cells.backbone] = g.T @ matrix
    across = across.reshape(n_scenarios, g.shape[1], n_backbones * c)
    total = np.zeros((n_backbones, c, n_backbones, c))
    right = np.zeros((n_backbones, c))
    np.add.at(right, cells.backbone, vector)
    sums = np.zeros((n_backbones, c, c))
    np.add.at(sums, cells.backbone, matrix)
    total[np.arange(n_backbones), :, np.arange(n_backbones)] = sums
    weighted = scenario_known @ across
    flat = total.reshape(n_backbones * c, -1) - np.tensordot(across, weighted, ([0, 1], [0, 1]))
    flat_right = right.ravel() - np.tensordot(scenario_left, weighted, ([0, 1], [0, 1]))
    # The dense rest, up and down.
    dense_index = cells.dense_index
    x = cells.dense_design * sd[dense_index]
    covariance = np.linalg.inv(np.eye(x.shape[1]) + x.T @ flat @ x)
    mean = covariance @ (x.T @ flat_right)
    log_density += 0.5 * float((x.T @ flat_right) @ mean) + 0.5 * _log_det(covariance[None])
    np.add.at(by_log_sd, dense_index, mean**2 + np.diag(covariance) - 1)
    cell_mean, cell_covariance = x @ mean, x @ covariance @ x.T
    # Down: scenarios.
    pull = weighted @ cell_covariance
    z = (scenario_known @ scenario_left[..., None])[..., 0] - weighted @ cell_mean
    z_covariance = scenario_known + pull @ weighted.swapaxes(1, 2)
    each = z**2 + np.diagonal(z_covariance, axis1=1, axis2=2) - 1
    np.add.at(by_log_sd, outer_index[0], each.sum(axis=0))
    # Down: blocks.
    own = np.arange(n_backbones)
    of_backbone = cell_covariance.reshape(n_backbones, c, n_backbones, c)[own, :, own]
    shared = pull.reshape(n_scenarios, -1, n_backbones, c)[cells.scenario, :, cells.backbone]
    cross = g @ shared
    around = (
        (g @ z_covariance @ g.T)[cells.scenario]
        + of_backbone[cells.backbone]
        - cross
        - cross.swapaxes(1, 2)
    )
    center = (z @ g.T)[cells.scenario] + cell_mean.reshape(n_backbones, c)[cells.backbone]
    gain = known @ fh
    z = (known @ left[..., None])[..., 0] - (gain @ center[..., None])[..., 0]
    z_covariance = known + gain @ around @ gain.swapaxes(1, 2)
    each = z**2 + np.diagonal(z_covariance, axis1=1, axis2=2) - 1
    np.add.at(by_log_sd, inner_index[cells.backbone], each)
    rest = np.eye(c) - f @ gain
    return _Posterior(
        mean=center + (f @ z[..., None])[..., 0],
        covariance=rest @ around @ rest.swapaxes(1, 2) + f @ known @ f.swapaxes(1, 2),
        by_log_sd=by_log_sd,
        log_density=log_density,
    )


def _basis(terms: tuple[Local, ...], n_cells: int, n_backbones: int) -> tuple[Floats, Ints]:
    """Return all coordinates of a level, (C, q), and their scales' entries, (A, q)."""
    level = level_of(terms)
    if level is None:
        return np.zeros((n_cells, 0)), np.zeros((n_backbones, 0), np.int64)
    return level.basis, level.sd_index


def _quadratic(vector: Floats, matrix: Floats) -> float:
    return float(np.einsum("ki,kij,kj->", vector, matrix, vector))


def _log_det(matrix: Floats) -> float:
    return float(np.linalg.slogdet(matrix)[1].sum())


def _add_information(
    d_sd: Floats, d_noise: Floats, sd: Floats, noise: Floats, found: _Posterior, cells: Cells
) -> None:
    """Add what goes through H and h, and through what :func:`information` says itself."""
    squares = found.covariance + found.mean[:, :, None] * found.mean[:, None, :]

    def by_backbone(values: Floats) -> Floats:
        return np.bincount(cells.backbone, values, cells.n_backbones)

    variance = noise[cells.noise_index]
    d_precision = -0.5 * cells.squares + by_backbone(
        np.einsum("ck,kc->k", cells.total, found.mean)
        - 0.5 * np.einsum("ck,kcc->k", cells.count, squares)
    )
    d_variance = -0.5 * cells.rows / variance - d_precision / variance**2
    if cells.sizes.size:
        leaf = sd[cells.leaf_index] ** 2
        v, s2 = variance[:, None], leaf[:, None]
        stretch = 1.0 + cells.sizes * s2 / v
        d_shrink = 0.5 * cells.generation_squares + np.stack(
            [
                by_backbone(
                    0.5 * np.einsum("ijk,kij->k", pairs, squares)
                    - np.einsum("ck,kc->k", sums, found.mean)
                )
                for pairs, sums in zip(cells.pairs, cells.sums, strict=True)
            ],
            axis=1,
        )
        # shrink = s2 / (v^2 stretch), and stretch depends on both.
        d_stretch = -0.5 * cells.generations / stretch - d_shrink * s2 / (v * stretch) ** 2
        direct = d_shrink / (v**2 * stretch)
        d_variance += (-2 * direct * s2 / v - d_stretch * cells.sizes * s2 / v**2).sum(axis=1)
        d_leaf = (direct + d_stretch * cells.sizes / v).sum(axis=1)
        np.add.at(d_sd, cells.leaf_index, 2 * sd[cells.leaf_index] * d_leaf)
    np.add.at(d_noise, cells.noise_index, d_variance)
