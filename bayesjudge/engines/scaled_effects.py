"""Effects given scales and factors: exact draws, scenario by scenario. NumPy only.

Shared effects come from their normal conditional. Those within blocks are drawn by
conditioning: with e* and y* drawn from the model itself, e* + Cov(e, y) V^-1 (y - y*)
is a draw given y (Matheron's rule).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bayesjudge.engines.effects import sd_offsets
from bayesjudge.engines.scaled_blocks import Blocks
from bayesjudge.resolution import Resolved, ResolvedTerm

type Floats = NDArray[np.float64]
type Ints = NDArray[np.int64]

# Numbers that are worked on at once.
_AT_ONCE = 4_000_000


def draw_effects(
    resolved: Resolved,
    blocks: Blocks,
    sd: Floats,
    noise: Floats,
    factors: Floats,
    rng: np.random.Generator,
) -> tuple[dict[str, Floats], Floats]:
    """Draw every effect, (n, L) by variable, and the intercept (n,).

    Parameters
    ----------
    sd : (n, n_sd)
        The intercept's last.
    noise : (n, V)
    factors : (n, levels)
    """
    n, size = len(sd), resolved.score.size
    effects = {t.variable: np.empty((n, t.n_levels)) for t in resolved.terms}
    intercept = np.empty(n)
    n_patterns, width = blocks.there.shape
    each = max(n_patterns * width * (width + blocks.columns.shape[2]), size, 1)
    step = max(_AT_ONCE // each, 1)
    for begin in range(0, n, step):
        here = slice(begin, begin + step)
        found, middle = _draw(resolved, blocks, sd[here], noise[here], factors[here], rng)
        intercept[here] = middle
        for name, values in found.items():
            effects[name][here] = values
    return effects, intercept


def _draw(
    resolved: Resolved,
    blocks: Blocks,
    sd: Floats,
    noise: Floats,
    factors: Floats,
    rng: np.random.Generator,
) -> tuple[dict[str, Floats], Floats]:
    n = len(sd)
    factor = factors[:, blocks.level]
    width = blocks.there.shape[1]
    own = np.where(blocks.there > 0, noise[:, blocks.noise], 1.0)
    covariance = own[..., None] * np.eye(width)
    for local in blocks.local:
        scale = sd[:, local.sd_index] * (factor if local.scaled else 1.0)
        covariance += local.alike * scale[..., :, None] * scale[..., None, :]
    precision = np.linalg.inv(covariance)
    columns = blocks.columns * sd[:, None, None, blocks.column_sd]
    columns = columns * np.where(blocks.column_scaled, factor[..., None], 1.0)
    weighed = precision @ columns
    inner = np.eye(columns.shape[-1]) + np.einsum(
        "p,dpig,dpih->dgh", blocks.count, columns, weighed
    )
    y = np.append(resolved.score - resolved.location, 0.0)[blocks.rows]
    total = np.zeros(blocks.there.shape)
    np.add.at(total, blocks.pattern, y)
    known = np.einsum("dpig,pi->dg", weighed, total)
    root = np.linalg.cholesky(inner)
    unit = rng.standard_normal(known.shape)
    shared = np.linalg.solve(inner, known[..., None]) + np.linalg.solve(
        np.swapaxes(root, 1, 2), unit[..., None]
    )
    shared = shared[..., 0]
    effects: dict[str, Floats] = {}
    for term, basis, part in blocks.shared:
        values = (shared[:, part] * sd[:, blocks.column_sd[part]]) @ basis.T
        if term is not None:
            effects[term.variable] = values
    intercept = resolved.location + shared[:, 0] * sd[:, -1]
    if not blocks.local:
        return effects, intercept
    fitted = np.einsum("dpig,dg->dpi", columns, shared)
    given = resolved.discrimination
    of_row = factors if given is None else factors[:, given.codes]
    by = 0 if resolved.residual_by is None else resolved.residual_by
    residual_sd = np.sqrt(noise[:, by]).reshape(n, -1)
    drawn = residual_sd * rng.standard_normal((n, resolved.score.size))
    for local in blocks.local:
        term = local.term
        effects[term.variable] = _levels_sd(term, resolved, sd) * _unit(term, n, rng)
        part_of = effects[term.variable][:, term.codes]
        drawn += part_of * of_row if local.scaled else part_of
    padded = np.concatenate([drawn, np.zeros((n, 1))], axis=1)
    gap = y - fitted[:, blocks.pattern] - padded[:, blocks.rows]
    solved = np.einsum("dsij,dsj->dsi", precision[:, blocks.pattern], gap)
    by_row = np.zeros((n, resolved.score.size + 1))
    by_row[:, blocks.rows.ravel()] = solved.reshape(n, -1)
    by_row = by_row[:, :-1]
    for local in blocks.local:
        term = local.term
        scale = _levels_sd(term, resolved, sd)
        told = (by_row * of_row if local.scaled else by_row) * scale[:, term.codes]
        effects[term.variable] += scale * _centre(term, _sum_levels(told, term))
    return effects, intercept


def _levels_sd(term: ResolvedTerm, resolved: Resolved, sd: Floats) -> Floats:
    """Return the scale of each level, (n, L)."""
    start = sd_offsets(resolved.terms)[resolved.terms.index(term)]
    by = np.zeros(term.n_levels, np.int64) if term.by_codes is None else term.by_codes
    return sd[:, start + by]


def _unit(term: ResolvedTerm, n: int, rng: np.random.Generator) -> Floats:
    return _centre(term, rng.standard_normal((n, term.n_levels)))


def _centre(term: ResolvedTerm, values: Floats) -> Floats:
    """Take off the mean over each centred facet, (n, L)."""
    shaped = values.reshape(-1, *term.shape)
    for axis, centred in enumerate(term.centred):
        if centred:
            shaped = shaped - shaped.mean(axis=1 + axis, keepdims=True)
    return shaped.reshape(values.shape)


def _sum_levels(values: Floats, term: ResolvedTerm) -> Floats:
    """Sum (n, N) by level, (n, L)."""
    n = len(values)
    at = (np.arange(n)[:, None] * term.n_levels + term.codes).ravel()
    return np.bincount(at, values.ravel(), n * term.n_levels).reshape(n, term.n_levels)
