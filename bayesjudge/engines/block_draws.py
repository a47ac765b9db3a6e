"""Effects of an unbalanced table drawn from their exact conditional, the dense ones first."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from bayesjudge.engines.block_levels import (
    Solved,
    coordinates_of_inner,
    coordinates_of_outer,
    level_of,
    solve,
)
from bayesjudge.engines.cells import Cells, CommonAndOwn, Coordinates, Eliminated, Grid, Local
from bayesjudge.engines.effects import INTERCEPT
from bayesjudge.engines.streams import Streams

type Floats = NDArray[np.float64]
type Ints = NDArray[np.int64]

# What random numbers are for; the last one and those after it for a term each.
_DENSE, _SCENARIO, _SCENARIO_PARTS, _BLOCK, _BLOCK_PARTS, _WITHOUT_SCORES = range(6)


def draw_effects(
    streams: Streams,
    sd: Floats,
    noise: Floats,
    cells: Cells,
    names: set[str],
) -> dict[str, Floats]:
    """Draw effects from their exact conditional, the dense ones first.

    Parameters
    ----------
    streams : Streams
        Of the m draws.
    sd, noise : (m, n_sd), (m, V)
        Rows that are alike are solved once where they follow one another.
    cells : Cells
    names : set of str
        Which variables to return.
    """
    m = len(sd)
    wanted = {t.term.variable for t in cells.inner} & names
    new = np.ones(m, bool)
    new[1:] = (sd[1:] != sd[:-1]).any(axis=1) | (noise[1:] != noise[:-1]).any(axis=1)
    found = _repeated(solve(sd[new], noise[new], cells), np.cumsum(new) - 1, bool(wanted))
    unit = found.rhs + streams.normal(_DENSE, found.rhs.shape[1:])
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
    mean = (dense @ cells.dense_design.T).reshape(m, cells.n_backbones, -1)
    outer, inner = level_of(cells.outer), level_of(cells.inner)
    by_cell = mean[:, cells.backbone]
    if outer is not None and found.outer is not None and found.across is not None:
        left = (
            np.stack(found.outer.rhs, axis=2) - (found.across @ mean.reshape(m, 1, -1, 1))[..., 0]
        )
        noise_of = streams.normal(_SCENARIO, left.shape[1:])
        draws = _back(found.outer.factor, np.moveaxis(left + noise_of, 2, 0))
        above = coordinates_of_outer(outer, sd)
        values = _parts(streams, _SCENARIO_PARTS, draws, above)
        _name(effects, values, cells.outer, cells, names)
        by_cell = by_cell + (values @ outer.basis.T)[:, cells.scenario]
    if inner is not None and found.inner is not None and wanted:
        left = np.stack(found.inner.rhs)
        for a, row in enumerate(found.inner.gain):
            for c, entry in enumerate(row):
                left[a] -= entry * by_cell[:, :, c]
        noise_of = streams.normal(_BLOCK, (left.shape[0], left.shape[2]))
        draws = _back(found.inner.factor, left + noise_of.swapaxes(0, 1))
        within = coordinates_of_inner(inner, sd, cells)
        values = _parts(streams, _BLOCK_PARTS, draws, within)
        _name(effects, values, cells.inner, cells, names, streams, sd)
    return effects


def _repeated(found: Solved, row: Ints, with_inner: bool) -> Solved:
    """Return what was solved at each distinct row at all rows, the inner level where wanted."""
    if row.size == len(found.factor):
        return found

    def grid(entries: Grid) -> Grid:
        return [[entry[row] for entry in line] for line in entries]

    def level(one: Eliminated | None) -> Eliminated | None:
        if one is None:
            return None
        return Eliminated(grid(one.factor), grid(one.gain), [part[row] for part in one.rhs])

    return replace(
        found,
        inner=level(found.inner) if with_inner else None,
        outer=level(found.outer),
        across=None if found.across is None else found.across[row],
        factor=found.factor[row],
        rhs=found.rhs[row],
        dense_sd=found.dense_sd[row],
    )


def _back(factor: Grid, left: Floats) -> list[Floats]:
    """Return q draws (m, K) of unit coordinates: inverse transposed factor times (q, m, K)."""
    q = len(factor)
    out: list[Floats] = [left[0]] * q
    for a in reversed(range(q)):
        value = left[a]
        for k in range(a + 1, q):
            value = value - factor[k][a] * out[k]
        out[a] = value / factor[a][a]
    return out


def _parts(
    streams: Streams,
    purpose: int,
    draws: list[Floats],
    coordinates: Coordinates | CommonAndOwn,
) -> Floats:
    """Return the effects of every term's coordinates, (m, K, q), from draws of unit ones."""
    if isinstance(coordinates, Coordinates):
        return np.stack([draw * sd for draw, sd in zip(draws, coordinates.sd, strict=True)], axis=2)
    own, common_sd = coordinates.own, coordinates.common_sd
    total = draws[0] + draws[1]
    for draw in draws[2:]:
        total = total + draw
    # Given the sum of the two in each cell the common part is normal.
    whole_sd = np.maximum(own + coordinates.size * coordinates.common, np.finfo(float).tiny)
    common = (
        common_sd / whole_sd * (common_sd * total + own * streams.normal(purpose, total.shape[1:]))
    )
    shared = coordinates.common * total - common
    return np.stack([common, *(draw * own + shared for draw in draws)], axis=2)


def _name(
    effects: dict[str, Floats],
    values: Floats,
    terms: tuple[Local, ...],
    cells: Cells,
    names: set[str],
    streams: Streams | None = None,
    sd: Floats | None = None,
) -> None:
    """Give coordinates of scenarios (m, S, q) or blocks (m, K, q) their terms' shapes."""
    m, start = len(values), 0
    for number, local in enumerate(terms):
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
        if streams is None or sd is None:
            whole = levels.reshape(m, n_scenarios, *others)
            front = [cells.scenario_facet]
        else:
            # Blocks without a score know their prior only.
            width = local.basis.shape[1]
            shape = (n_scenarios, cells.n_backbones, width)
            prior = streams.normal(_WITHOUT_SCORES + number, shape)
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
