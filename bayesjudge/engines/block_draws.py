"""Effects of an unbalanced table drawn from their exact conditional, the dense ones first."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bayesjudge.engines.block_levels import level_of, scales_by_block, solve
from bayesjudge.engines.cells import Cells, Grid, Local
from bayesjudge.engines.effects import INTERCEPT

type Floats = NDArray[np.float64]


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
    mean = (dense @ cells.dense_design.T).reshape(m, cells.n_backbones, -1)
    outer, inner = level_of(cells.outer), level_of(cells.inner)
    by_cell = mean[:, cells.backbone]
    if outer is not None and found.outer is not None and found.across is not None:
        left = (
            np.stack(found.outer.rhs, axis=2) - (found.across @ mean.reshape(m, 1, -1, 1))[..., 0]
        )
        own = scales_by_block(sd, outer.sd_index[:1])
        values = _back(rngs[1], found.outer.factor, np.moveaxis(left, 2, 0), own)
        _name(effects, values, cells.outer, cells, names)
        by_cell = by_cell + (values @ outer.basis.T)[:, cells.scenario]
    if inner is not None and found.inner is not None and wanted:
        left = np.stack(found.inner.rhs)
        for a, row in enumerate(found.inner.gain):
            for c, entry in enumerate(row):
                left[a] -= entry * by_cell[:, :, c]
        index = inner.sd_index[cells.backbone]
        own = scales_by_block(sd, index)
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
