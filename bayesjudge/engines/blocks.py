"""The likelihood of an unbalanced table from its cells, and its effects, without JAX."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from bayesjudge.engines.arranging import arrange
from bayesjudge.engines.block_slopes import slope_of_blocks
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
    single_precision,
    subtract_product,
)
from bayesjudge.engines.effects import INTERCEPT, is_kept
from bayesjudge.resolution import Resolved

type Floats = NDArray[np.float64]

# Blocks times squared cells beyond which a density takes half a millisecond.
_COSTLY = 6000

# Blocks times sets of scales handled at once: more would leave the cache, and
# with less two threads wait for one another between array operations.
_AT_ONCE, _DRAWN_AT_ONCE = 18_000, 12_000


# The largest block from which glibc learns.
_LARGE_BLOCK = 32_000_000

# Single precision is taken where its error varies by less at this many sets of scales.
_CHECKS, _ROUGHLY = 100, 0.1


@dataclass(frozen=True, eq=False)
class _Level:
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


@dataclass(frozen=True, eq=False)
class BlocksModel:
    """A model on an unbalanced table (:class:`effects.Integrated`)."""

    resolved: Resolved
    cells: Cells

    @property
    def costly(self) -> bool:
        """Whether a density takes so long that draws are to be spared."""
        return self.cells.backbone.size * self.cells.n_cells**2 > _COSTLY

    def values(self, sd: Floats, noise: Floats) -> Floats:
        """Return log densities (n,) of scales (n, n_sd) and residual variances (n, V)."""
        step = self._step(len(sd))
        precision = self.cells.count.dtype
        sd, noise = sd.astype(precision), noise.astype(precision)

        def part(i: int) -> Floats:
            # Each thread has warning switches of its own.
            with np.errstate(all="ignore"):
                return _log_densities(sd[i : i + step], noise[i : i + step], self.cells)

        return np.concatenate(list(self._pool.map(part, range(0, len(sd), step))))

    @cached_property
    def _pool(self) -> ThreadPoolExecutor:
        """Threads that share the work: array operations leave the interpreter lock.

        They stay as long as the model: new ones would ask for their memory anew,
        and the first touch of a page takes as long as the arithmetic on it.
        """
        return ThreadPoolExecutor(os.cpu_count())

    def _step(self, n: int) -> int:
        """Return how many of n sets of scales a thread handles at once."""
        share = -(-n // (os.cpu_count() or 1))
        return max(1, min(share, _AT_ONCE // self.cells.backbone.size))

    def slope(self, sd: Floats, noise: Floats) -> tuple[float, Floats, Floats]:
        """Return the log density and its derivatives, in closed form."""
        with np.errstate(all="ignore"):
            return slope_of_blocks(sd, noise, self.cells)

    def near(self, sd: Floats, noise: Floats) -> BlocksModel:  # noqa: ARG002
        """Return itself: it is fast everywhere."""
        return self

    def rough(self, sd: Floats, noise: Floats) -> BlocksModel:
        """Return the model in single precision, or itself where that does not do."""
        fast = BlocksModel(self.resolved, single_precision(self.cells))
        few = slice(0, _CHECKS)
        change = fast.values(sd[few], noise[few]) - self.values(sd[few], noise[few])
        return fast if np.ptp(change) < _ROUGHLY else self

    def kept_effects(self, sd: Floats, noise: Floats, seed: int) -> dict[str, Floats]:
        """Draw the effects that are kept, (n, *shape) by variable, and the intercept."""
        names = {t.variable for t in self.resolved.terms if is_kept(t, self.resolved.panel)}
        return self._draw(sd, noise, seed, names | {INTERCEPT})

    def other_effects(
        self, sd: Floats, noise: Floats, seed: int, kept: dict[str, Floats]
    ) -> dict[str, Floats]:
        """Draw the others but generations: the same draws as gave those that are kept."""
        return self._draw(sd, noise, seed, {t.variable for t in self.resolved.terms} - set(kept))

    def _draw(self, sd: Floats, noise: Floats, seed: int, names: set[str]) -> dict[str, Floats]:
        step = max(1, _DRAWN_AT_ONCE // self.cells.backbone.size)

        def part(i: int) -> dict[str, Floats]:
            # A stream for each part and level: what is drawn of one moves no other.
            rngs = [np.random.default_rng([seed, level, i]) for level in (11, 12, 13)]
            return draw_effects(rngs, sd[i : i + step], noise[i : i + step], self.cells, names)

        parts = list(self._pool.map(part, range(0, len(sd), step)))
        return {name: np.concatenate([p[name] for p in parts]) for name in parts[0]}


def blocks_model(resolved: Resolved) -> BlocksModel | None:
    """Return the model by blocks; None where it does not fall into any."""
    cells = arrange(resolved)
    if cells is None:
        return None
    _keep_freed_memory()
    return BlocksModel(resolved, cells)


def _keep_freed_memory() -> None:
    """Let the allocator keep what it is given back, for the next array of that size.

    glibc returns freed blocks to the system until it has seen a larger one freed;
    their pages are then cleared again for every array, a quarter of a density's
    time. This block is never touched, so that it costs no memory.
    """
    np.empty(_LARGE_BLOCK, np.uint8)


def _log_densities(sd: Floats, noise: Floats, cells: Cells) -> Floats:
    """Return log densities, minus infinity where a factor does not exist in floating point."""
    try:
        return solve(sd, noise, cells).log_density
    except np.linalg.LinAlgError:
        if len(sd) == 1:
            return np.full(1, -np.inf)
        half = len(sd) // 2
        return np.concatenate(
            [
                _log_densities(sd[:half], noise[:half], cells),
                _log_densities(sd[half:], noise[half:], cells),
            ]
        )


def _level(terms: tuple[Local, ...]) -> _Level | None:
    if not terms:
        return None
    return _Level(np.hstack([t.basis for t in terms]), np.hstack([t.sd_index for t in terms]))


def solve(
    sd: Floats,
    noise: Floats,
    cells: Cells,
    inner_parts: bool = False,
    outer_parts: bool = False,
) -> Solved:
    """Eliminate level by level: generations, blocks, scenarios, the dense rest.

    Parameters
    ----------
    sd : (m, n_sd), noise : (m, V)
    inner_parts, outer_parts : bool
        Whether effects of the level will be drawn: each term then has coordinates
        of its own.
    """
    m = len(sd)
    matrix, vector, log_density = information(sd**2, noise, cells)
    inner, outer, across = _level(cells.inner), _level(cells.outer), None
    first: Eliminated | None = None
    if inner is not None:
        index = inner.sd_index[cells.backbone]
        within = coordinates_of_level(inner.basis, _by_block(sd, index), inner_parts)
        first = eliminate(matrix, vector, within)
        log_density = log_density + log_density_of(first)
        matrix, vector = downdate(matrix, vector, first)
    size = cells.n_backbones * cells.n_cells
    total, right = _cells_of_backbones(matrix, vector, cells, m)
    second: Eliminated | None = None
    if outer is not None:
        above = coordinates_of_level(outer.basis, _by_block(sd, outer.sd_index[:1]), outer_parts)
        summed = [[np.add.reduceat(e, cells.first, axis=1) for e in row] for row in matrix]
        right_summed = [np.add.reduceat(e, cells.first, axis=1) for e in vector]
        second = eliminate(summed, right_summed, above)
        log_density = log_density + log_density_of(second)
        across = _across(matrix, second, above, cells, m)
        flat = across.reshape(m, -1, size)
        total -= flat.swapaxes(1, 2) @ flat
        known = np.stack(second.rhs, axis=2).reshape(m, -1, 1)
        right -= (flat.swapaxes(1, 2) @ known)[..., 0]
    design = np.concatenate([d.design for d in cells.dense], axis=2).reshape(size, -1)
    dense_sd = sd[:, np.concatenate([d.sd_index for d in cells.dense])]
    system = (design.T @ total @ design) * dense_sd[:, :, None] * dense_sd[:, None, :]
    factor = np.linalg.cholesky(system + np.eye(design.shape[1]))
    rhs = np.linalg.solve(factor, ((right @ design) * dense_sd)[..., None])[..., 0]
    log_det = np.log(np.diagonal(factor, axis1=1, axis2=2)).sum(axis=1)
    log_density = log_density + 0.5 * np.einsum("mp,mp->m", rhs, rhs) - log_det
    log_density = log_density - 0.5 * cells.rows.sum() * np.log(2 * np.pi)
    return Solved(log_density, first, second, across, factor, rhs, dense_sd)


def _by_block(sd: Floats, index: NDArray[np.int64]) -> list[Floats]:
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
    scratch = np.empty((m, cells.backbone.size))
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


def draw_effects(
    rngs: list[np.random.Generator],
    sd: Floats,
    noise: Floats,
    cells: Cells,
    names: set[str],
) -> dict[str, Floats]:
    """Draw effects from their exact conditional, the dense ones first.

    Parameters
    ----------
    rngs : list of numpy.random.Generator
        One each for dense, scenario and block coordinates.
    sd, noise : (m, n_sd), (m, V)
    cells : Cells
    names : set of str
        Which variables to return.
    """
    m = len(sd)
    wanted = {t.term.variable for t in cells.inner} & names
    found = solve(sd, noise, cells, inner_parts=bool(wanted), outer_parts=True)
    unit = found.rhs + rngs[0].standard_normal(found.rhs.shape)
    upper = found.factor.swapaxes(1, 2)
    dense = np.linalg.solve(upper, unit[..., None])[..., 0] * found.dense_sd
    effects: dict[str, Floats] = {}
    start = 0
    for term in cells.dense:
        stop = start + term.sd_index.size
        name = INTERCEPT if term.term is None else term.term.variable
        if name in names:
            shape = () if term.term is None else term.term.shape
            effects[name] = (dense[:, start:stop] @ term.levels.T).reshape(m, *shape)
        start = stop
    design = np.concatenate([d.design for d in cells.dense], axis=2)
    mean = (dense @ design.reshape(-1, design.shape[2]).T).reshape(m, cells.n_backbones, -1)
    outer, inner = _level(cells.outer), _level(cells.inner)
    by_cell = mean[:, cells.backbone]
    if outer is not None and found.outer is not None and found.across is not None:
        left = (
            np.stack(found.outer.rhs, axis=2) - (found.across @ mean.reshape(m, 1, -1, 1))[..., 0]
        )
        own = [sd[:, [i]] for i in outer.sd_index[0]]
        values = _back(rngs[1], found.outer.factor, np.moveaxis(left, 2, 0), own)
        _name(effects, values, cells.outer, cells, names)
        by_cell = by_cell + (values @ outer.basis.T)[:, cells.scenario]
    if inner is not None and found.inner is not None and wanted:
        left = np.stack(found.inner.rhs)
        for a, row in enumerate(found.inner.gain):
            for c, entry in enumerate(row):
                left[a] -= entry * by_cell[:, :, c]
        index = inner.sd_index[cells.backbone]
        own = _by_block(sd, index)
        values = _back(rngs[2], found.inner.factor, left, own)
        _name(effects, values, cells.inner, cells, names, rngs[2], sd)
    return effects


def _back(rng: np.random.Generator, factor: Grid, left: Floats, sd: list[Floats]) -> Floats:
    """Return draws of coordinates (m, K, q): inverse transposed factor times left plus noise."""
    left = left + rng.standard_normal(left.shape)
    q = len(factor)
    out: list[Floats] = [left[0]] * q
    for a in reversed(range(q)):
        value = left[a]
        for k in range(a + 1, q):
            value = value - factor[k][a] * out[k]
        out[a] = value / factor[a][a]
    return np.stack([value * sd[a] for a, value in enumerate(out)], axis=2)


def _name(
    effects: dict[str, Floats],
    values: Floats,
    terms: tuple[Local, ...],
    cells: Cells,
    names: set[str],
    rng: np.random.Generator | None = None,
    sd: Floats | None = None,
) -> None:
    """Give coordinates of scenarios (m, S, q) or blocks (m, K, q) their terms' shapes."""
    m, start = len(values), 0
    for local in terms:
        term = local.term
        stop = start + local.basis.shape[1]
        levels = values[..., start:stop] @ local.levels.T
        start = stop
        if term.variable not in names:
            continue
        n_scenarios = term.shape[term.dims.index(cells.scenario_facet)]
        others = [
            size
            for dim, size in zip(term.dims, term.shape, strict=True)
            if dim not in (cells.scenario_facet, cells.along)
        ]
        if rng is None or sd is None:
            whole = levels.reshape(m, n_scenarios, *others)
            front = [cells.scenario_facet]
        else:
            # Blocks without a score know their prior only.
            width = local.basis.shape[1]
            prior = rng.standard_normal((m, n_scenarios, cells.n_backbones, width))
            whole = np.zeros((m, n_scenarios, cells.n_backbones, levels.shape[-1]))
            own = sd[:, local.sd_index]
            whole[:] = (prior * own[:, None]) @ local.levels.T
            whole[:, cells.scenario, cells.backbone] = levels
            whole = whole.reshape(m, n_scenarios, cells.n_backbones, *others)
            front = [cells.scenario_facet, cells.along]
        have = [*front, *(d for d in term.dims if d not in front)]
        effects[term.variable] = np.ascontiguousarray(
            np.transpose(whole, [0, *(1 + have.index(d) for d in term.dims)])
        )
