"""The likelihoods of both paths from moments: no score is looked at.

Of a ``Resolved`` only the terms, their shapes and scales count here, none of its
rows. The location is the resolved one: moments about another are moved there.
"""

from __future__ import annotations

from math import prod

import numpy as np
from numpy.typing import NDArray

from bayesjudge.engines.arranging import ALONG, MOST_CELLS, cell_facets, lay_terms, scale_indices
from bayesjudge.engines.axes import Part, facet_along, generation_alone, part_of, sd_indices
from bayesjudge.engines.cells import Cells
from bayesjudge.engines.cross_products import block_facet
from bayesjudge.engines.effects import sd_offsets
from bayesjudge.engines.strata import Balanced, StratumSums, assemble, between_generations
from bayesjudge.resolution import Resolved, ResolvedTerm
from bayesjudge.scores.moments import Generations, Moments, relocate

type Floats = NDArray[np.float64]
type Ints = NDArray[np.int64]


def moments_wanted(resolved: Resolved) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the facets of blocks and of cells by which a model's moments are to be taken.

    Parameters
    ----------
    resolved : Resolved
        Its codes say which facets hold whole generations.

    Returns
    -------
    (blocks, cells) : tuples of str
    """
    leaf = generation_alone(resolved)
    facets = dict.fromkeys(d for t in resolved.terms for d in t.dims if d != "generation")
    facet = block_facet(resolved, leaf)
    blocks = tuple(f for f in facets if f in (facet, ALONG))
    return blocks, tuple(f for f in facets if f not in blocks)


def balance_moments(resolved: Resolved, moments: Moments) -> Balanced | None:
    """Do as ``strata.balance``, from moments.

    Parameters
    ----------
    resolved : Resolved
    moments : Moments
        By the facets of ``moments_wanted``.

    Returns
    -------
    Balanced or None
        None where the table is not balanced, scales vary by two facets, or the
        moments are of other facets than the terms.
    """
    along, leaf = facet_along(resolved), generation_alone(resolved)
    if along is None or (leaf is None and any("generation" in t.dims for t in resolved.terms)):
        return None
    terms = [t for t in resolved.terms if t is not leaf]
    facets = dict.fromkeys(d for t in terms for d in t.dims)
    by_others = any(t.scale.by not in (None, *t.dims) for t in terms)
    if along not in facets or set(facets) != set(moments.facets) or by_others:
        return None
    moments = relocate(moments, resolved.location)
    names = (along, *(f for f in facets if f != along))
    shape = tuple(moments.n_levels(f) for f in names)
    if moments.count.size < prod(shape) or moments.count.min() < moments.count.max():
        return None
    per_cell = int(moments.count[0])
    at = tuple(moments.codes_of(f) for f in names)
    means = np.zeros(shape)
    means[at] = moments.total / per_cell
    parts = _crossed_parts(resolved, terms, names, shape)
    if parts is None:
        return None
    if leaf is None:
        about = moments.squares - moments.total**2 / per_cell
        within = _by_level(about, at[0], shape[0])
        df = prod(shape[1:]) * (per_cell - 1)
        strata = [StratumSums(float(df), np.diag(within), ())]
        return assemble(resolved, None, names, means, per_cell, parts, strata)
    if moments.generations is None:
        return None
    found = _split_generations(leaf, moments, moments.generations, names)
    if found is None:
        return None
    owners, m, strata = found
    return assemble(resolved, leaf, names, means, per_cell, parts, strata, (owners, m))


def _crossed_parts(
    resolved: Resolved, terms: list[ResolvedTerm], names: tuple[str, ...], shape: tuple[int, ...]
) -> tuple[Part, ...] | None:
    """Lay terms on a complete crossing of all facets."""
    along, *others = names
    index = sd_indices(resolved, shape[0], along)
    axis = {n: i for i, n in enumerate(others)}
    codes = dict(zip(names, np.indices(shape).reshape(len(shape), -1), strict=True))
    alone: dict[str, tuple[str, ...]] = dict.fromkeys(names, ())
    parts: tuple[Part, ...] = ()
    for term in terms:
        flat = np.ravel_multi_index(tuple(codes[d] for d in term.dims), term.shape)
        part = part_of(term, along, axis, index[term.variable], codes, alone, flat)
        if part is None:
            return None
        parts += (part,)
    return parts


def _split_generations(
    leaf: ResolvedTerm, moments: Moments, generations: Generations, names: tuple[str, ...]
) -> tuple[tuple[str, ...], int, list[StratumSums]] | None:
    """Split the sums of squares within cells as ``strata`` does, from the patterns."""
    scored = generations.pattern > 0
    own = [n for n in names if n in moments.blocks or _holds(generations, moments, n)]
    if names[0] not in own:
        return None
    others = [n for n in names if n not in own]
    n_others = prod(moments.n_levels(n) for n in others)
    counts = generations.pattern[scored]
    if counts.min() < counts.max() or (scored.sum(axis=1) != n_others).any():
        return None
    if np.isnan(generations.cell_squares).any():
        # Columns were put together: what lies between a generation's own sums is lost.
        return None
    each = int(counts[0])
    # As many scores in each cell and of each generation there: as many generations.
    m = int(moments.count[0]) // each
    shape = tuple(moments.n_levels(n) for n in own)
    n_along, cell_along = shape[0], moments.codes_of(names[0])
    if names[0] in moments.blocks:
        along = generations.blocks[:, moments.blocks.index(names[0])]
    else:
        # It lies in one level of its owners: that of any cell it was scored in.
        column = generations.columns[np.argmax(scored, axis=1)]
        along = column[:, moments.cells.index(names[0])]
    cell_squares = _by_level(generations.cell_squares.sum(axis=1) / each, along, n_along)
    squares = _by_level(generations.squares / (each * n_others), along, n_along)
    scores = _by_level(moments.squares, cell_along, n_along)
    cell_means = _by_level(moments.total**2 / moments.count, cell_along, n_along)
    place = np.ravel_multi_index(tuple(moments.codes_of(n) for n in own), shape)
    total = np.bincount(place, moments.total, prod(shape)).reshape(n_along, -1)
    owner_means = (total**2).sum(axis=1) / (m * each * n_others)
    per_level = prod(shape[1:]) * (m - 1)
    n_each = generations.n_generations / n_along * n_others * (each - 1)
    strata = [
        StratumSums(float(n_each), np.diag(_positive(scores - cell_squares)), ()),
        between_generations(
            leaf, float(per_level), _positive(squares - owner_means), n_others * each
        ),
        StratumSums(
            float(per_level * (n_others - 1)),
            np.diag(_positive(cell_squares - squares - cell_means + owner_means)),
            (),
        ),
    ]
    return tuple(own[1:]), m, strata


def _holds(generations: Generations, moments: Moments, facet: str) -> bool:
    """Whether each generation lies within one level of a facet of the cells."""
    code = generations.columns[:, moments.cells.index(facet)]
    scored = generations.pattern > 0
    low = np.where(scored, code, code.max()).min(axis=1)
    return bool((low == np.where(scored, code, 0).max(axis=1)).all())


def _by_level(values: Floats, along: Ints, n_levels: int) -> Floats:
    return _positive(np.bincount(along, values, n_levels))


def _positive(values: Floats) -> Floats:
    """Take what rounding left below zero of a sum of squares for zero."""
    return np.maximum(values, 0.0)


def arrange_moments(resolved: Resolved, moments: Moments) -> Cells | None:
    """Do as ``arranging.arrange``, from moments.

    Parameters
    ----------
    resolved : Resolved
    moments : Moments
        By the facets of ``moments_wanted``.

    Returns
    -------
    Cells or None
        None where the model does not fall into blocks of few cells, or the
        moments are not by its blocks and cells.
    """
    leaf = next((t for t in resolved.terms if "generation" in t.dims), None)
    by = {resolved.residual_facet} | ({leaf.scale.by} if leaf is not None else set())
    if (leaf is not None and leaf.dims != ("generation",)) or not by <= {None, ALONG}:
        return None
    if len(moments.blocks) != 2 or ALONG not in moments.blocks:
        return None
    facet = next(f for f in moments.blocks if f != ALONG)
    centred = {f for t in resolved.terms for f, zero in zip(t.dims, t.centred, strict=True) if zero}
    if facet not in resolved.random or facet in centred:
        return None
    names = cell_facets([t for t in resolved.terms if t is not leaf], facet)
    if set(names) != set(moments.cells) or (leaf is not None and moments.generations is None):
        return None
    moments = relocate(moments, resolved.location)
    n_scenarios, n_backbones = moments.n_levels(facet), moments.n_levels(ALONG)
    sizes = [moments.n_levels(n) for n in names]
    codes = [moments.codes_of(n) for n in names]
    cell = _flat(codes, sizes, moments.count.size)
    present, cell = np.unique(cell, return_inverse=True)
    n_cells = present.size
    if n_cells > MOST_CELLS:
        return None
    levels = dict(zip(names, np.unravel_index(present, sizes), strict=True)) if names else {}
    terms = lay_terms(resolved, leaf, facet, levels, n_backbones, n_cells)
    if terms is None:
        return None
    backbone = moments.codes_of(ALONG)
    key, block = np.unique(moments.codes_of(facet) * n_backbones + backbone, return_inverse=True)
    count, total = np.zeros((2, n_cells, key.size))
    count[cell, block], total[cell, block] = moments.count, moments.total
    of_block, of_scenario = key % n_backbones, key // n_backbones
    size, pairs = np.zeros(0), np.zeros((0, n_cells, n_cells, key.size))
    sums = np.zeros((0, n_cells, key.size))
    number = squares = np.zeros((n_backbones, 0))
    if leaf is not None and moments.generations is not None:
        found = moments.generations
        own = [found.columns[:, moments.cells.index(n)] for n in names]
        order = np.argsort(_flat(own, sizes, len(found.columns)))
        pattern = found.pattern[:, order].astype(float)
        size, which = np.unique(pattern.sum(axis=1), return_inverse=True)
        axis = {f: i for i, f in enumerate(moments.blocks)}
        place = found.blocks[:, axis[facet]] * n_backbones + found.blocks[:, axis[ALONG]]
        at = np.searchsorted(key, place)
        weighted = pattern[:, :, None] * pattern[:, None, :] * found.number[:, None, None]
        pairs = np.zeros((size.size, key.size, n_cells, n_cells))
        np.add.at(pairs, (which, at), weighted)
        pairs = np.moveaxis(pairs, 1, 3).copy()
        sums = np.zeros((size.size, key.size, n_cells))
        np.add.at(sums, (which, at), pattern * found.totals.sum(axis=1)[:, None])
        sums = np.moveaxis(sums, 1, 2).copy()
        number, squares = np.zeros((2, n_backbones, size.size))
        np.add.at(number, (of_block[at], which), found.number)
        np.add.at(squares, (of_block[at], which), found.squares)
    noise_index, leaf_index = scale_indices(resolved, leaf, n_backbones)
    return Cells(
        backbone=of_block,
        scenario=of_scenario,
        first=np.searchsorted(of_scenario, np.arange(n_scenarios)),
        count=count,
        total=total,
        sizes=size,
        pairs=pairs,
        sums=sums,
        rows=np.bincount(backbone, moments.count, n_backbones),
        squares=np.bincount(backbone, moments.squares, n_backbones),
        generations=number,
        generation_squares=squares,
        inner=terms[0],
        outer=terms[1],
        dense=terms[2],
        noise_index=noise_index,
        leaf_index=leaf_index,
        n_sd=int(sd_offsets(resolved.terms)[-1]) + 1,
        scenario_facet=facet,
        along=ALONG,
    )


def _flat(codes: list[Ints], sizes: list[int], n: int) -> Ints:
    if not codes:
        return np.zeros(n, np.int64)
    return np.asarray(np.ravel_multi_index(tuple(codes), sizes), np.int64)
