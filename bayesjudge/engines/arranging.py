"""Unbalanced tables: the one pass over the scores, and the terms laid on its cells."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bayesjudge.engines.cells import Cells, Dense, Local
from bayesjudge.engines.cross_products import block_facet, dense_columns, facet_codes, kron_basis
from bayesjudge.engines.effects import sd_offsets
from bayesjudge.resolution import Resolved, ResolvedTerm

type Floats = NDArray[np.float64]
type Ints = NDArray[np.int64]
type Terms = tuple[tuple[Local, ...], tuple[Local, ...], tuple[Dense, ...]]

# Beyond this many cells the steps are too many to write out.
MOST_CELLS = 16

ALONG = "backbone"
"""The facet that, with another, makes up a block."""


def arrange(resolved: Resolved) -> Cells | None:
    """Run the pass; None where the model does not fall into blocks of few cells."""
    leaf = next((t for t in resolved.terms if "generation" in t.dims), None)
    if leaf is not None and leaf.dims != ("generation",):
        return None
    facet = block_facet(resolved, leaf)
    by = {resolved.residual_facet} | ({leaf.scale.by} if leaf is not None else set())
    if facet is None or facet == ALONG or not by <= {None, ALONG}:
        return None
    terms = [t for t in resolved.terms if t is not leaf]
    scenario, n_scenarios = facet_codes(resolved, facet)
    backbone, n_backbones = facet_codes(resolved, ALONG)
    names = cell_facets(terms, facet)
    sizes = [facet_codes(resolved, n)[1] for n in names]
    codes = [facet_codes(resolved, n)[0] for n in names]
    cell = np.ravel_multi_index(tuple(codes), sizes) if names else np.zeros(scenario.size, np.int64)
    present, cell = np.unique(cell, return_inverse=True)
    if present.size > MOST_CELLS:
        return None
    levels = dict(zip(names, np.unravel_index(present, sizes), strict=True)) if names else {}
    terms_of = lay_terms(resolved, leaf, facet, levels, n_backbones, present.size)
    if terms_of is None:
        return None
    return _sum(
        resolved,
        leaf,
        (scenario, n_scenarios),
        (backbone, n_backbones),
        cell.ravel(),
        terms_of,
        facet,
    )


def lay_terms(
    resolved: Resolved,
    leaf: ResolvedTerm | None,
    facet: str,
    levels: dict[str, Ints],
    n_backbones: int,
    n_cells: int,
) -> Terms | None:
    """Lay the terms on blocks of a facet and the backbone; None where one does not fit.

    Parameters
    ----------
    leaf : ResolvedTerm or None
        The generations.
    levels : dict of (C,) int arrays
        Level of each cell, by facet.
    """
    inner: list[Local] = []
    outer: list[Local] = []
    dense: list[Dense] = []
    offsets = sd_offsets(resolved.terms)
    ones = np.ones((n_backbones, n_cells, 1))
    dense.append(Dense(None, ones, np.array([offsets[-1]]), np.ones((1, 1))))
    for term, offset in zip(resolved.terms, offsets, strict=False):
        if term is leaf:
            continue
        if term.scale.by == facet:
            return None
        if facet not in term.dims:
            dense.append(_dense(term, int(offset), levels, ALONG, n_backbones, n_cells))
            continue
        local = _local(term, int(offset), levels, facet, ALONG, n_backbones, n_cells)
        if local is None:
            return None
        (inner if ALONG in term.dims else outer).append(local)
    return tuple(inner), tuple(outer), tuple(dense)


def cell_facets(terms: list[ResolvedTerm], facet: str) -> list[str]:
    """Return the facets that make up the cells of a block, in the order of the terms."""
    names: list[str] = []
    for term in terms:
        names += [d for d in term.dims if d not in (facet, ALONG, *names)]
    return names


def _local(
    term: ResolvedTerm,
    offset: int,
    levels: dict[str, Ints],
    facet: str,
    along: str,
    n_backbones: int,
    n_cells: int,
) -> Local | None:
    kept = [i for i, d in enumerate(term.dims) if d not in (facet, along)]
    if along in term.dims and term.centred[term.dims.index(along)]:
        return None
    shape = tuple(term.shape[i] for i in kept)
    basis = kron_basis(shape, tuple(term.centred[i] for i in kept))
    local = np.zeros(n_cells, np.int64)
    if kept:
        local = np.ravel_multi_index(tuple(levels[term.dims[i]] for i in kept), shape)
    index = np.full((n_backbones, basis.shape[1]), offset)
    if term.scale.by == along:
        index = offset + np.repeat(np.arange(n_backbones)[:, None], basis.shape[1], axis=1)
    elif term.scale.by is not None:
        # A by facet is never centred: each coordinate belongs to one of its levels.
        own = np.unravel_index(np.argmax(np.abs(basis) > 0, axis=0), shape)
        by = own[[term.dims[i] for i in kept].index(term.scale.by)]
        index = offset + np.repeat(by[None], n_backbones, axis=0)
    return Local(term, basis[local], index, basis)


def _dense(
    term: ResolvedTerm,
    offset: int,
    levels: dict[str, Ints],
    along: str,
    n_backbones: int,
    n_cells: int,
) -> Dense:
    columns = dense_columns(term, offset)
    at = np.indices((n_backbones, n_cells))
    parts = tuple(at[0] if d == along else levels[d][at[1]] for d in term.dims)
    row = np.ravel_multi_index(parts, term.shape)
    return Dense(term, columns.basis[row], columns.sd_index, columns.basis)


def _sum(
    resolved: Resolved,
    leaf: ResolvedTerm | None,
    scenarios: tuple[Ints, int],
    backbones: tuple[Ints, int],
    cell: Ints,
    terms: Terms,
    facet: str,
) -> Cells | None:
    (scenario, n_scenarios), (backbone, n_backbones) = scenarios, backbones
    n_cells = int(cell.max()) + 1
    y = resolved.score - resolved.location
    key, block = np.unique(scenario * n_backbones + backbone, return_inverse=True)
    block = block.ravel()
    n_blocks = key.size
    flat = cell * n_blocks + block
    count = np.bincount(flat, minlength=n_cells * n_blocks).reshape(n_cells, n_blocks)
    total = np.bincount(flat, y, n_cells * n_blocks).reshape(n_cells, n_blocks)
    of_block = (key % n_backbones).astype(np.int64)
    sizes = np.zeros(0)
    pairs, sums = np.zeros((0, n_cells, n_cells, n_blocks)), np.zeros((0, n_cells, n_blocks))
    generations, generation_squares = np.zeros((n_backbones, 0)), np.zeros((n_backbones, 0))
    if leaf is not None:
        block_of = np.zeros(leaf.n_levels, np.int64)
        block_of[leaf.codes] = block
        if not np.array_equal(block_of[leaf.codes], block):
            return None
        by_cell = np.zeros((leaf.n_levels, n_cells))
        np.add.at(by_cell, (leaf.codes, cell), 1.0)
        sum_of = np.bincount(leaf.codes, y, leaf.n_levels)
        sizes, which = np.unique(by_cell.sum(axis=1), return_inverse=True)
        pairs = np.zeros((sizes.size, n_blocks, n_cells, n_cells))
        outer = by_cell[:, :, None] * by_cell[:, None, :]
        np.add.at(pairs, (which, block_of), outer)
        pairs = np.moveaxis(pairs, 1, 3).copy()
        sums = np.zeros((sizes.size, n_blocks, n_cells))
        np.add.at(sums, (which, block_of), by_cell * sum_of[:, None])
        sums = np.moveaxis(sums, 1, 2).copy()
        own = of_block[block_of] * sizes.size + which
        shape = (n_backbones, sizes.size)
        generations = np.bincount(own, np.ones(own.size), sizes.size * n_backbones).reshape(shape)
        generation_squares = np.bincount(own, sum_of**2, sizes.size * n_backbones).reshape(shape)
    noise_index, leaf_index = scale_indices(resolved, leaf, n_backbones)
    of_scenario = (key // n_backbones).astype(np.int64)
    return Cells(
        backbone=of_block,
        scenario=of_scenario,
        first=np.searchsorted(of_scenario, np.arange(n_scenarios)),
        count=count.astype(float),
        total=total,
        sizes=sizes,
        pairs=pairs,
        sums=sums,
        rows=np.bincount(backbone, minlength=n_backbones).astype(float),
        squares=np.bincount(backbone, y**2, n_backbones),
        generations=generations.astype(float),
        generation_squares=generation_squares,
        inner=terms[0],
        outer=terms[1],
        dense=terms[2],
        noise_index=noise_index,
        leaf_index=leaf_index,
        n_sd=int(sd_offsets(resolved.terms)[-1]) + 1,
        scenario_facet=facet,
        along=ALONG,
    )


def scale_indices(
    resolved: Resolved, leaf: ResolvedTerm | None, n_backbones: int
) -> tuple[Ints, Ints]:
    """Return the residual variance and the scale of generations of each backbone."""
    noise_index = leaf_index = np.zeros(n_backbones, np.int64)
    if resolved.residual_by is not None:
        noise_index = np.arange(n_backbones)
    if leaf is not None:
        leaf_index = np.full(n_backbones, sd_offsets(resolved.terms)[resolved.terms.index(leaf)])
        if leaf.scale.by is not None:
            leaf_index = leaf_index + np.arange(n_backbones)
    return noise_index, leaf_index
