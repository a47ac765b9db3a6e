"""Sufficient statistics of a gaussian crossed model, block by block.

With y = X d + Z b + leaves + noise, three sorts of effects are told apart:

- *dense* effects d: the intercept and all terms without the block facet;
- *block* effects b: terms with the block facet (the random facet with most
  levels, usually scenario), independent between its levels given d;
- *leaves*: one nested random facet (generation), independent given d and b.

Given the scales everything the likelihood needs is a weighted sum, over slices
e, of cross-products that never change: one slice a level of the residual
scale, and one for each way a leaf can be composed. After this pass the cost of
an evaluation does not depend on the number of scores.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bayesjudge.engines.effects import sd_offsets
from bayesjudge.resolution import Resolved, ResolvedTerm

type Floats = NDArray[np.float64]
type Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Columns:
    """Coordinates of one term: levels = basis @ coordinates.

    Attributes
    ----------
    term : ResolvedTerm
    basis : (L, p) float array
        Orthonormal contrasts over centred facets, identity over the others. For a
        block term L and p are the numbers within one level of the block facet.
    local : (N,) int array
        Row of ``basis`` of each score.
    sd_index : (p,) int array
        Entry of the vector of all scales that each coordinate has.
    """

    term: ResolvedTerm
    basis: Floats
    local: Ints
    sd_index: Ints


@dataclass(frozen=True, eq=False)
class Layout:
    """Which term is integrated out how.

    Attributes
    ----------
    dense, block : tuple of Columns
    leaf : ResolvedTerm or None
    leaf_sd_index : (G,) int array
        Entry of the vector of scales of each leaf.
    block_facet : str or None
    block_codes : (N,) int array
        Level of the block facet of each score; zeros without one.
    n_blocks : int
    n_sd : int
        Length of the vector of scales; its last entry is the intercept's.
    """

    dense: tuple[Columns, ...]
    block: tuple[Columns, ...]
    leaf: ResolvedTerm | None
    leaf_sd_index: Ints
    block_facet: str | None
    block_codes: Ints
    n_blocks: int
    n_sd: int

    @property
    def dense_sd_index(self) -> Ints:
        """Scale of each dense coordinate, the intercept first."""
        return np.concatenate([[self.n_sd - 1], *[c.sd_index for c in self.dense]])

    @property
    def block_sd_index(self) -> Ints:
        """Scale of each block coordinate; one idle coordinate where there is none."""
        if not self.block:
            return np.array([self.n_sd - 1])
        return np.concatenate([c.sd_index for c in self.block])


@dataclass(frozen=True, eq=False)
class CrossProducts:
    """Arrays of the pass. P patterns, S blocks, E slices, q and p coordinates.

    Attributes
    ----------
    n_rows : (V,) floats
        Scores at each level of the residual scale.
    leaf_rows : (k, V) floats
        Scores at each level within a leaf of composition k.
    leaf_count : (k,) floats
        Number of leaves of this composition.
    leaf_sd : (k,) ints
        Entry of the vector of scales.
    pair_key, pair_left, pair_right : (E - V,) ints
        Composition and two residual levels of each leaf slice.
    pattern : (S,) ints
        Pattern of each block; pattern_count : (P,) floats.
    zz : (P, E, q, q), zx : (P, E, q, p), zy : (S, E, q)
    xx : (E, p, p), xy : (E, p), yy : (E,)
        Cross-products; y is taken about the location c.
    """

    n_rows: Floats
    leaf_rows: Floats
    leaf_count: Floats
    leaf_sd: Ints
    pair_key: Ints
    pair_left: Ints
    pair_right: Ints
    pattern: Ints
    pattern_count: Floats
    zz: Floats
    zx: Floats
    zy: Floats
    xx: Floats
    xy: Floats
    yy: Floats

    @property
    def cost(self) -> float:
        """Floating-point operations of one evaluation, roughly."""
        p_, e, q, p = self.zx.shape
        s = self.zy.shape[0]
        blocks = p_ * (e * q * (q + p) + q**3 / 3 + q**2 * p + q * p**2)
        return float(blocks + s * q * (e + q) + p**3)


def contrasts(n: int) -> Floats:
    """Return n - 1 orthonormal columns that sum to zero (Helmert), shape (n, n - 1)."""
    basis = np.zeros((n, n - 1))
    for k in range(1, n):
        basis[:k, k - 1] = 1.0
        basis[k, k - 1] = -k
        basis[:, k - 1] /= np.sqrt(k * (k + 1))
    return basis


def lay_out(resolved: Resolved) -> Layout | None:
    """Choose dense, block and leaf terms; None where the model cannot be split so.

    It cannot where a scale is by the block facet itself (the blocks would have no
    common pattern) or where generations interact with another facet.
    """
    offsets = sd_offsets(resolved.terms)
    n_sd = int(offsets[-1]) + 1
    leaf = _leaf(resolved)
    if leaf is None and any("generation" in t.dims for t in resolved.terms):
        return None
    facet = block_facet(resolved, leaf)
    dense: list[Columns] = []
    block: list[Columns] = []
    block_codes = np.zeros(resolved.n_lines, np.int64)
    n_blocks = 1
    if facet is not None:
        block_codes, n_blocks = facet_codes(resolved, facet)
    for term, offset in zip(resolved.terms, offsets, strict=False):
        if term is leaf:
            continue
        if facet is not None and facet in term.dims:
            if term.scale.by == facet:
                return None
            block.append(_block_columns(term, facet, int(offset)))
        else:
            dense.append(dense_columns(term, int(offset)))
    leaf_sd_index = np.zeros(0, np.int64)
    if leaf is not None:
        if facet is not None and leaf.scale.by == facet:
            return None
        start = int(offsets[resolved.terms.index(leaf)])
        by = leaf.by_codes if leaf.by_codes is not None else np.zeros(leaf.n_levels, np.int64)
        leaf_sd_index = start + by
    return Layout(
        tuple(dense), tuple(block), leaf, leaf_sd_index, facet, block_codes, n_blocks, n_sd
    )


def cross_products(resolved: Resolved, layout: Layout) -> CrossProducts:
    """Run the pass: every sum over scores that the marginal likelihood needs."""
    y = resolved.score - resolved.location
    v = resolved.residual_by if resolved.residual_by is not None else np.zeros(y.size, np.int64)
    n_v = max(len(resolved.residual_labels), 1)
    leaf_codes = None if layout.leaf is None else layout.leaf.codes
    compositions = compositions_of(leaf_codes, layout.leaf_sd_index, v, n_v)

    def of_block(rows: Ints, columns: Floats) -> Floats:
        return _slices(np.hstack([columns, y[rows, None]]), rows, v, n_v, leaf_codes, compositions)

    n_rows = np.bincount(v, minlength=n_v).astype(float)
    return add_blocks(layout, compositions, n_rows, of_block)


def add_blocks(
    layout: Layout,
    compositions: Compositions,
    n_rows: Floats,
    of_block: Callable[[Ints, Floats], Floats],
) -> CrossProducts:
    """Add blocks up, those of one pattern kept once.

    Parameters
    ----------
    layout : Layout
    compositions : Compositions
    n_rows : (V,) float array
        Scores at each residual level.
    of_block : function of rows (n,) and their columns (n, q + p)
        Cross-products (E, q + p + 1, q + p + 1) of these columns and the scores, which
        come last.
    """
    order = np.argsort(layout.block_codes, kind="stable")
    bounds = np.searchsorted(layout.block_codes[order], np.arange(layout.n_blocks + 1))
    q, p = layout.block_sd_index.size, layout.dense_sd_index.size
    n_slices = n_rows.size + compositions.pair_key.size
    seen: dict[bytes, int] = {}
    patterns: list[tuple[Floats, Floats]] = []
    pattern = np.zeros(layout.n_blocks, np.int64)
    zy = np.zeros((layout.n_blocks, n_slices, q))
    xx, xy, yy = np.zeros((n_slices, p, p)), np.zeros((n_slices, p)), np.zeros(n_slices)
    for s in range(layout.n_blocks):
        rows = order[bounds[s] : bounds[s + 1]]
        products = of_block(
            rows, np.hstack([block_rows(layout, rows, q), dense_rows(layout, rows)])
        )
        xx += products[:, q:-1, q:-1]
        xy += products[:, q:-1, -1]
        yy += products[:, -1, -1]
        zy[s] = products[:, :q, -1]
        zz, zx = products[:, :q, :q].copy(), products[:, :q, q:-1].copy()
        pattern[s] = pattern_of(zz, zx, seen, patterns)
    return CrossProducts(
        n_rows=n_rows,
        leaf_rows=compositions.rows,
        leaf_count=compositions.count,
        leaf_sd=compositions.sd,
        pair_key=compositions.pair_key,
        pair_left=compositions.pair_left,
        pair_right=compositions.pair_right,
        pattern=pattern,
        pattern_count=np.bincount(pattern, minlength=len(patterns)).astype(float),
        zz=np.stack([zz for zz, _ in patterns]),
        zx=np.stack([zx for _, zx in patterns]),
        zy=zy,
        xx=xx,
        xy=xy,
        yy=yy,
    )


def pattern_of(
    zz: Floats, zx: Floats, seen: dict[bytes, int], patterns: list[tuple[Floats, Floats]]
) -> int:
    """Return which pattern a block's cross-products are, adding a new one to those seen."""
    # Contrast coordinates are irrational: round (and turn -0 into 0), or equal
    # patterns would differ and every block get a factor of its own.
    key = (np.round(zz, 9) + 0.0).tobytes() + (np.round(zx, 9) + 0.0).tobytes()
    if key not in seen:
        seen[key] = len(patterns)
        patterns.append((zz, zx))
    return seen[key]


@dataclass(frozen=True, eq=False)
class Compositions:
    """How leaves are made up: scores at each residual level, and the leaf's scale."""

    key: Ints
    rows: Floats
    count: Floats
    sd: Ints
    pair_key: Ints
    pair_left: Ints
    pair_right: Ints


def compositions_of(
    codes: Ints | None,
    sd_index: Ints,
    v: Ints,
    n_v: int,
    weight: Ints | None = None,
    number: Ints | None = None,
) -> Compositions:
    """Return how leaves are made up.

    From moments with the scores of each line, and how many generations each leaf is.
    """
    none = np.zeros(0, np.int64)
    if codes is None:
        return Compositions(none, np.zeros((0, n_v)), np.zeros(0), none, none, none, none)
    size = sd_index.size
    rows = np.bincount(codes * n_v + v, weight, size * n_v).astype(np.int64).reshape(size, n_v)
    if number is not None:
        rows = rows // number[:, None]
    table, key = np.unique(np.column_stack([sd_index, rows]), axis=0, return_inverse=True)
    count = np.bincount(key.ravel(), number, len(table))
    present = table[:, 1:] > 0
    pair_key, left, right = np.nonzero(present[:, :, None] & present[:, None, :])
    return Compositions(
        key.ravel(),
        table[:, 1:].astype(float),
        count.astype(float),
        table[:, 0],
        pair_key,
        left,
        right,
    )


def _slices(
    columns: Floats,
    rows: Ints,
    v: Ints,
    n_v: int,
    leaf_codes: Ints | None,
    compositions: Compositions,
) -> Floats:
    width = columns.shape[1]
    out = np.zeros((n_v + compositions.pair_key.size, width, width))
    for level in np.unique(v[rows]):
        part = columns[v[rows] == level]
        out[level] = part.T @ part
    if leaf_codes is None:
        return out
    leaves, leaf = np.unique(leaf_codes[rows], return_inverse=True)
    sums = np.zeros((leaves.size, n_v, width))
    np.add.at(sums, (leaf, v[rows]), columns)
    keys = compositions.key[leaves]
    for e, (key, left, right) in enumerate(
        zip(compositions.pair_key, compositions.pair_left, compositions.pair_right, strict=True)
    ):
        mine = keys == key
        if mine.any():
            out[n_v + e] = sums[mine, left].T @ sums[mine, right]
    return out


def _leaf(resolved: Resolved) -> ResolvedTerm | None:
    involved = [t for t in resolved.terms if "generation" in t.dims]
    return involved[0] if len(involved) == 1 and involved[0].dims == ("generation",) else None


def block_facet(resolved: Resolved, leaf: ResolvedTerm | None) -> str | None:
    """Return the random facet with most levels whose levels hold whole generations."""
    sizes: dict[str, int] = {}
    for term in resolved.terms:
        if term is leaf or "generation" in term.dims:
            continue
        for dim, size, centred in zip(term.dims, term.shape, term.centred, strict=True):
            if dim in resolved.random:
                sizes[dim] = 0 if centred else min(size, sizes.get(dim, size))
    for facet in sorted(sizes, key=lambda f: -sizes[f]):
        if sizes[facet] == 0:
            continue
        codes = facet_codes(resolved, facet)[0]
        if leaf is None or in_one(leaf.codes, codes):
            return facet
    return None


def in_one(inner: Ints, outer: Ints) -> bool:
    """Whether each level of one facet lies in one level of another."""
    first = np.unique(inner, return_index=True, return_inverse=True)
    return bool(np.array_equal(outer[first[1]][first[2]], outer))


def facet_codes(resolved: Resolved, facet: str) -> tuple[Ints, int]:
    """Return the level of each score of a facet among the terms, and their number."""
    term = next(t for t in resolved.terms if facet in t.dims)
    axis = term.dims.index(facet)
    return np.unravel_index(term.codes, term.shape)[axis], term.shape[axis]


def kron_basis(shape: tuple[int, ...], centred: tuple[bool, ...]) -> Floats:
    """Return contrasts over centred axes crossed with the identity over others, (L, p)."""
    basis: Floats = np.ones((1, 1))
    for size, zero in zip(shape, centred, strict=True):
        basis = np.asarray(np.kron(basis, contrasts(size) if zero else np.eye(size)))
    return basis


def _by_index(by: Ints | None, basis: Floats, offset: int) -> Ints:
    if by is None:
        return np.full(basis.shape[1], offset)
    # A by facet is never centred, so all levels of one coordinate share theirs.
    return offset + by[np.argmax(np.abs(basis) > 0, axis=0)]


def dense_columns(term: ResolvedTerm, offset: int) -> Columns:
    """Return the coordinates of a term as a whole."""
    basis = kron_basis(term.shape, term.centred)
    return Columns(term, basis, term.codes, _by_index(term.by_codes, basis, offset))


def _block_columns(term: ResolvedTerm, facet: str, offset: int) -> Columns:
    axis = term.dims.index(facet)
    shape = tuple(n for i, n in enumerate(term.shape) if i != axis)
    centred = tuple(c for i, c in enumerate(term.centred) if i != axis)
    parts = np.unravel_index(term.codes, term.shape)
    others = tuple(part for i, part in enumerate(parts) if i != axis)
    local = np.ravel_multi_index(others, shape) if others else np.zeros(term.codes.size, np.int64)
    by = None
    if term.by_codes is not None:
        by = np.moveaxis(term.by_codes.reshape(term.shape), axis, 0)[0].ravel()
    basis = kron_basis(shape, centred)
    return Columns(term, basis, local.astype(np.int64), _by_index(by, basis, offset))


def dense_rows(layout: Layout, rows: Ints) -> Floats:
    """Return the dense coordinates of some rows, (n, p)."""
    ones = np.ones((rows.size, 1))
    return np.hstack([ones, *[c.basis[c.local[rows]] for c in layout.dense]])


def block_rows(layout: Layout, rows: Ints, q: int) -> Floats:
    """Return the block coordinates of some rows, (n, q)."""
    if not layout.block:
        return np.zeros((rows.size, q))
    return np.hstack([c.basis[c.local[rows]] for c in layout.block])
