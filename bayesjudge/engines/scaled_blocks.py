"""Scores of scenarios laid out as blocks, for models whose effects count by discrimination.

Given scales and factors the model is linear and normal. Scenarios are independent
given the effects that they share, so a block's covariance is small, and blocks of one
design have one: its pattern. Of the scores of a pattern only their number, sum and
cross-products are looked at.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bayesjudge.engines.cross_products import dense_columns
from bayesjudge.engines.effects import sd_offsets
from bayesjudge.resolution import Resolved, ResolvedTerm

type Floats = NDArray[np.float64]
type Ints = NDArray[np.int64]

# More numbers than this are too many to be worth it.
_MOST_NUMBERS = 60_000_000


class Stats(NamedTuple):
    """What a density is conditioned on: of each pattern's scores, location taken off.

    Attributes
    ----------
    total : (P, n)
        Their sum over blocks.
    root : (P, n, r)
        R with R R' the sum of their cross-products.
    """

    total: Floats
    root: Floats


@dataclass(frozen=True, eq=False)
class LocalTerm:
    """A term whose levels lie within blocks.

    Attributes
    ----------
    term : ResolvedTerm
    alike : (P, n, n)
        Covariance of two scores' effects in units of their scales.
    sd_index : (P, n)
        Where each score's scale stands in the vector of scales.
    scaled : bool
        Whether the effects count by discrimination.
    """

    term: ResolvedTerm
    alike: Floats
    sd_index: Ints
    scaled: bool


@dataclass(frozen=True, eq=False)
class Blocks:
    """Scores by block and pattern.

    Attributes
    ----------
    rows : (S, n) int array
        The scores of each block, padded with N.
    pattern : (S,) int array
    count : (P,) float array
        Blocks of each pattern.
    there : (P, n) float array
        1 for a score, 0 for padding.
    level, noise : (P, n) int arrays
        Level of discrimination, and of the residual scale.
    local : tuple of LocalTerm
    shared : tuple of (term or None, basis (L, p), columns)
        Terms that blocks share, and the intercept, as columns of ``columns``.
    columns : (P, n, G)
        Of shared effects in units of their scales.
    column_sd : (G,) int array
    column_scaled : (G,) bool array
    """

    rows: Ints
    pattern: Ints
    count: Floats
    there: Floats
    level: Ints
    noise: Ints
    local: tuple[LocalTerm, ...]
    shared: tuple[tuple[ResolvedTerm | None, Floats, slice], ...]
    columns: Floats
    column_sd: Ints
    column_scaled: NDArray[np.bool_]


def lay_blocks(resolved: Resolved) -> Blocks | None:
    """Lay a gaussian model with discrimination on blocks; None where they are too large."""
    given = resolved.discrimination
    if given is None:
        return None
    size = resolved.score.size
    facets = _facet_codes(resolved)
    block = _block_codes(facets, size)
    local = [t for t in resolved.terms if _is_local(t, block, _block_name(facets))]
    by_row = {
        "discrimination": given.codes,
        "residual": np.zeros(size, np.int64)
        if resolved.residual_by is None
        else resolved.residual_by,
    }
    for term in resolved.terms:
        if term.by_codes is not None:
            by_row[f"{term.variable} by"] = term.by_codes[term.codes]
    name = _block_name(facets)
    keys = [codes for facet, codes in facets.items() if facet not in (name, "generation")]
    keys += [facets["generation"]] if "generation" in facets else []
    order = np.lexsort((*reversed(keys), block)) if keys else np.argsort(block, kind="stable")
    n_blocks = int(block.max()) + 1
    per_block = np.bincount(block, minlength=n_blocks)
    width = int(per_block.max())
    if n_blocks * width**2 * (len(local) + 1) > _MOST_NUMBERS:
        return None
    rows = np.full((n_blocks, width), size)
    rows[np.arange(width) < per_block[:, None]] = order
    described = [c for f, c in facets.items() if f not in (name, "generation")]
    described += list(by_row.values())
    pattern, first = _patterns(rows, described, [t.codes for t in local], size)
    at = rows[first]
    there = (at < size).astype(float)
    safe = np.minimum(at, size - 1)
    offsets = sd_offsets(resolved.terms)
    start = dict(zip((t.variable for t in resolved.terms), offsets, strict=False))
    locals_ = tuple(
        LocalTerm(
            t,
            _alike(t, safe) * there[:, :, None] * there[:, None, :],
            _sd_index(t, int(start[t.variable]))[t.codes][safe],
            resolved.is_scaled(t),
        )
        for t in local
    )
    shared: list[tuple[ResolvedTerm | None, Floats, slice]] = [(None, np.ones((1, 1)), slice(0, 1))]
    parts, sds, scaled = [np.ones((size, 1))], [np.array([offsets[-1]])], [np.zeros(1, bool)]
    for term in resolved.terms:
        if term in local:
            continue
        columns = dense_columns(term, int(start[term.variable]))
        begin = shared[-1][2].stop
        shared.append((term, columns.basis, slice(begin, begin + columns.basis.shape[1])))
        parts.append(columns.basis[term.codes])
        sds.append(columns.sd_index)
        scaled.append(np.full(columns.basis.shape[1], resolved.is_scaled(term)))
    column = np.hstack(parts)
    if column.shape[1] * width * len(first) > _MOST_NUMBERS:
        return None
    return Blocks(
        rows=rows,
        pattern=pattern,
        count=np.bincount(pattern, minlength=len(first)).astype(float),
        there=there,
        level=given.codes[safe],
        noise=by_row["residual"][safe],
        local=locals_,
        shared=tuple(shared),
        columns=column[safe] * there[:, :, None],
        column_sd=np.concatenate(sds).astype(np.int64),
        column_scaled=np.concatenate(scaled),
    )


def stats_of(blocks: Blocks, score: Floats, location: float) -> Stats:
    """Sum the scores (N,) of blocks by pattern."""
    y = np.append(score - location, 0.0)[blocks.rows]
    n_patterns, width = blocks.there.shape
    total = np.zeros((n_patterns, width))
    np.add.at(total, blocks.pattern, y)
    most = min(int(blocks.count.max()), width)
    root = np.zeros((n_patterns, width, most))
    for p in range(n_patterns):
        own = y[blocks.pattern == p].T
        if own.shape[1] > most:
            values, vectors = np.linalg.eigh(own @ own.T)
            own = vectors * np.sqrt(np.maximum(values, 0.0))
        root[p, :, : own.shape[1]] = own
    return Stats(total, root)


def _facet_codes(resolved: Resolved) -> dict[str, Ints]:
    found: dict[str, Ints] = {}
    for term in resolved.terms:
        for dim, codes in zip(term.dims, np.unravel_index(term.codes, term.shape), strict=True):
            found[dim] = codes.astype(np.int64)
    return found


def _block_name(facets: dict[str, Ints]) -> str:
    return next((name for name in ("scenario", "generation") if name in facets), "")


def _block_codes(facets: dict[str, Ints], size: int) -> Ints:
    name = _block_name(facets)
    codes = facets[name] if name else np.arange(size)
    return np.asarray(np.unique(codes, return_inverse=True)[1].ravel(), dtype=np.int64)


def _is_local(term: ResolvedTerm, block: Ints, name: str) -> bool:
    centred = dict(zip(term.dims, term.centred, strict=True))
    if any(term.centred) and centred.get(name, True):
        return False
    of_level = np.full(term.n_levels, -1)
    of_level[term.codes] = block
    return bool((of_level[term.codes] == block).all())


def _patterns(
    rows: Ints, described: list[Ints], nested: list[Ints], size: int
) -> tuple[Ints, Ints]:
    """Return the pattern of each block (S,), and the first block of each."""
    there = rows < size
    safe = np.minimum(rows, size - 1)
    parts = [np.where(there, codes[safe], -1) for codes in described]
    for codes in nested:
        own = np.where(there, codes[safe], -1)
        # Alike where the same scores of a block share a level.
        parts.append((own[:, :, None] == own[:, None, :]).argmax(axis=2) * there)
    key = np.ascontiguousarray(np.concatenate([*parts, there], axis=1).astype(np.int64))
    _, first, pattern = np.unique(key, axis=0, return_index=True, return_inverse=True)
    return np.asarray(pattern.ravel(), dtype=np.int64), np.asarray(first, dtype=np.int64)


def _alike(term: ResolvedTerm, rows: Ints) -> Floats:
    alike: Floats = np.ones((*rows.shape, rows.shape[1]))
    codes = np.unravel_index(term.codes[rows], term.shape)
    for own, n_levels, zero in zip(codes, term.shape, term.centred, strict=True):
        same = (own[:, :, None] == own[:, None, :]).astype(float)
        alike = alike * (same - 1.0 / n_levels if zero else same)
    return alike


def _sd_index(term: ResolvedTerm, start: int) -> Ints:
    """Return the place of each level's scale, (L,)."""
    by = np.zeros(term.n_levels, np.int64) if term.by_codes is None else term.by_codes
    return start + by
