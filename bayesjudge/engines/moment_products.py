"""The cross-products of a model from moments: what its scores would give, line by line."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from bayesjudge.engines.cross_products import (
    Compositions,
    CrossProducts,
    Layout,
    add_blocks,
    compositions_of,
    in_one,
)
from bayesjudge.resolution import Resolved
from bayesjudge.scores.lines import lines_of_moments, totals_of_lines
from bayesjudge.scores.moments import Generations, Moments, relocate

type Floats = NDArray[np.float64]
type Ints = NDArray[np.int64]


def products_of_moments(
    resolved: Resolved, layout: Layout, moments: Moments
) -> CrossProducts | None:
    """Do as ``cross_products``, from moments.

    Parameters
    ----------
    resolved : Resolved
        On these moments: its codes are those of their lines.
    layout : Layout
    moments : Moments

    Returns
    -------
    CrossProducts or None
        None where scores of one generation have residual scales of several levels: what
        its sums at one have to do with those at another is not known.
    """
    moments = relocate(moments, resolved.location)
    weight, total = lines_of_moments(moments)[1], totals_of_lines(moments)
    v = resolved.residual_by if resolved.residual_by is not None else np.zeros_like(weight)
    n_v = max(len(resolved.residual_labels), 1)
    found = None if layout.leaf is None else moments.generations
    leaf = None if layout.leaf is None else layout.leaf.codes
    if leaf is not None and not in_one(leaf, v):
        return None
    number = None if found is None else found.number
    compositions = compositions_of(leaf, layout.leaf_sd_index, v, n_v, weight, number)

    def of_block(lines: Ints, columns: Floats) -> Floats:
        return _slices(columns, lines, weight, total, v, n_v, leaf, number, compositions)

    added = add_blocks(layout, compositions, np.bincount(v, weight, n_v), of_block)
    return replace(added, yy=_squares(resolved, moments, found, compositions, n_v))


def _slices(
    columns: Floats,
    lines: Ints,
    weight: Ints,
    total: Floats,
    v: Ints,
    n_v: int,
    leaf: Ints | None,
    number: Ints | None,
    compositions: Compositions,
) -> Floats:
    """Return cross-products of the columns and, last, of these with the scores, whose own are 0."""
    n_slices, width = n_v + compositions.pair_key.size, columns.shape[1]
    out = np.zeros((n_slices, width + 1, width + 1))
    pairs, sums = out[:, :-1, :-1], out[:, :-1, -1]
    for level in np.unique(v[lines]):
        here = v[lines] == level
        part = columns[here]
        pairs[level] = (part * weight[lines[here], None]).T @ part
        sums[level] = part.T @ total[lines[here]]
    if leaf is None or number is None:
        return out
    leaves, of_line = np.unique(leaf[lines], return_inverse=True)
    own = np.zeros((leaves.size, width))
    # The scores of one generation on a line, and the sum of all of its level's.
    np.add.at(own, of_line, columns * (weight[lines] / number[leaf[lines]])[:, None])
    scores = np.bincount(of_line, total[lines], leaves.size)
    keys = compositions.key[leaves]
    for e, key in enumerate(compositions.pair_key):
        mine = keys == key
        if mine.any():
            pairs[n_v + e] = (own[mine] * number[leaves[mine], None]).T @ own[mine]
            sums[n_v + e] = own[mine].T @ scores[mine]
    return out


def _squares(
    resolved: Resolved,
    moments: Moments,
    found: Generations | None,
    compositions: Compositions,
    n_v: int,
) -> Floats:
    facet = resolved.residual_facet
    by = np.zeros_like(moments.count) if facet is None else moments.codes_of(facet)
    squares = np.bincount(by, moments.squares, n_v)
    if found is None:
        return squares
    of_key = np.bincount(compositions.key, found.squares, compositions.count.size)
    return np.concatenate([squares, of_key[compositions.pair_key]])
