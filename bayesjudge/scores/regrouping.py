"""Moments by fewer facets, or by others of those they were taken by, without another pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from bayesjudge.scores.keys import cell_keys, row_of_each
from bayesjudge.scores.lines import lines_of_moments
from bayesjudge.scores.moments import Generations, Moments, join_patterns
from bayesjudge.scores.tallying import Tally

type Ints = NDArray[np.int64]

# A table of patterns by columns beyond this many entries is not made.
_MOST_ENTRIES = 50_000_000


def regroup(moments: Moments, blocks: Sequence[str], cells: Sequence[str]) -> Moments | None:
    """Return moments by these blocks and cells; facets in neither are summed over.

    Parameters
    ----------
    moments : Moments
    blocks, cells : sequence of str
        Facets by which the moments were taken, each once.

    Returns
    -------
    Moments or None
        None where a generation lies in several of the blocks, or in so many columns
        that no table of them is made. Where columns were put together the sums of
        squares of each generation's own sums there are not known: ``cell_squares``
        is nan.

    Raises
    ------
    DataError
        Where the moments were not taken by one of them.
    """
    if set(blocks) == set(moments.blocks) and set(cells) == set(moments.cells):
        return moments
    names = (*blocks, *cells)
    codes = [moments.codes_of(n) for n in names]
    sizes = [moments.n_levels(n) for n in names]
    key, n_cells = _keys(codes, sizes, moments.count.size)
    first = row_of_each(key, n_cells)
    low, high = np.full((2, n_cells), [[np.inf], [-np.inf]])
    np.minimum.at(low, key, moments.low)
    np.maximum.at(high, key, moments.high)
    found = moments.generations
    generations = None
    if found is not None:
        generations = _regrouped(moments, found, blocks, cells)
        if generations is None:
            return None
    return replace(
        moments,
        blocks=tuple(blocks),
        cells=tuple(cells),
        levels=tuple(moments.levels[moments.facets.index(n)] for n in names),
        codes=np.column_stack([c[first] for c in codes]).reshape(n_cells, len(names)),
        count=np.bincount(key, moments.count, n_cells).astype(np.int64),
        total=np.bincount(key, moments.total, n_cells),
        squares=np.bincount(key, moments.squares, n_cells),
        low=low,
        high=high,
        generations=generations,
    )


def keep_level(tally: Tally, facet: str, code: int) -> Tally:
    """Return the part of a tally that lies in one level of a facet.

    Parameters
    ----------
    tally : Tally
    facet : str
        One of the facets of blocks: a generation lies in one of its levels.
    code : int
        The level, of which there are scores.

    Returns
    -------
    Tally
        Levels that have no score there are left out.
    """
    moments = tally.moments
    kept = moments.codes_of(facet) == code
    codes, labels = (
        moments.codes[kept].copy(),
        dict(zip(moments.facets, moments.levels, strict=True)),
    )
    number: dict[str, Ints] = {}
    for at, name in enumerate(moments.facets):
        present, codes[:, at] = np.unique(codes[:, at], return_inverse=True)
        number[name] = np.zeros(len(labels[name]), np.int64)
        number[name][present] = np.arange(present.size)
        labels[name] = tuple(labels[name][i] for i in present)
    found, generations = moments.generations, None
    if found is not None:
        here = found.blocks[:, moments.blocks.index(facet)] == code
        used = (found.pattern[here] > 0).any(axis=0)
        blocks, columns = found.blocks[here].copy(), found.columns[used].copy()
        for at, name in enumerate(moments.blocks):
            blocks[:, at] = number[name][blocks[:, at]]
        for at, name in enumerate(moments.cells):
            columns[:, at] = number[name][columns[:, at]]
        generations = Generations(
            columns=columns,
            blocks=blocks,
            pattern=found.pattern[here][:, used],
            number=found.number[here],
            totals=found.totals[here][:, used],
            cell_squares=found.cell_squares[here][:, used],
            squares=found.squares[here],
        )
    part = replace(
        moments,
        levels=tuple(labels[name] for name in moments.facets),
        codes=codes,
        count=moments.count[kept],
        total=moments.total[kept],
        squares=moments.squares[kept],
        low=moments.low[kept],
        high=moments.high[kept],
        generations=generations,
    )
    facets = tuple(replace(f, levels=labels.get(f.name, f.levels)) for f in tally.facets)
    return replace(tally, moments=part, facets=facets, problems=())


def _regrouped(
    moments: Moments, found: Generations, blocks: Sequence[str], cells: Sequence[str]
) -> Generations | None:
    codes, _ = lines_of_moments(moments)
    pattern = codes["generation"]
    old = np.nonzero(found.pattern)[1]
    n_patterns = len(found.number)
    block: Ints = np.zeros((n_patterns, len(blocks)), np.int64)
    for i, name in enumerate(blocks):
        block[pattern, i] = codes[name]
        if (block[pattern, i] != codes[name]).any():
            return None
    column, n_columns = _keys(
        [codes[n] for n in cells], [moments.n_levels(n) for n in cells], pattern.size
    )
    if n_patterns * n_columns > _MOST_ENTRIES:
        return None
    at = row_of_each(column, n_columns)
    columns = np.column_stack([codes[n][at] for n in cells] or [np.zeros((n_columns, 0), np.int64)])
    flat, shape = pattern * n_columns + column, (n_patterns, n_columns)
    together = np.bincount(flat, minlength=n_patterns * n_columns)

    def by_column(values: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.bincount(flat, values[pattern, old], together.size).reshape(shape)

    counts = by_column(found.pattern.astype(float)).astype(np.int64)
    squares = by_column(found.cell_squares)
    squares[together.reshape(shape) > 1] = np.nan
    moved = Generations(
        columns=columns.astype(np.int64),
        blocks=block,
        pattern=counts,
        number=found.number,
        totals=by_column(found.totals),
        cell_squares=squares,
        squares=found.squares,
    )
    return join_patterns(moved)


def _keys(codes: list[Ints], sizes: list[int], n: int) -> tuple[Ints, int]:
    """Return the cell of each of n lines, and how many there are: one where there is no facet."""
    return cell_keys(codes, sizes) if codes else (np.zeros(n, np.int64), min(n, 1))
