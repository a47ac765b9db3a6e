"""Moments of two tables put together, where no generation has scores in both."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from bayesjudge.errors import DataError
from bayesjudge.scores.keys import cell_keys, row_of_each
from bayesjudge.scores.moments import Generations, Moments, join_patterns, relocate

type Floats = NDArray[np.float64]
type Ints = NDArray[np.int64]


def add_moments(a: Moments, b: Moments) -> Moments:
    """Return the moments of two tables together.

    Generations are already summed by pattern, so the two tables must hold whole ones:
    one of which either holds a part would count as two. Where that can happen keep the
    sums of each generation instead (``KeySums``, or a store).

    Parameters
    ----------
    a, b : Moments
        By the same blocks and cells; each may have levels that the other lacks. One
        of no cells changes nothing.

    Returns
    -------
    Moments
        About the location of both, or else the mean of theirs weighted by scores: that
        of all scores where both are about their own means.

    Raises
    ------
    DataError
        Where the facets differ, or one table has generations and the other has none.
    """
    if (a.blocks, a.cells) != (b.blocks, b.cells):
        raise DataError(
            f"moments by {_by(a)} cannot be added to moments by {_by(b)}",
            remedy="Take both by the same blocks and cells",
        )
    if not b.n_scores and a.n_scores:
        a, b = b, a
    if (a.generations is None) != (b.generations is None) and a.n_scores:
        raise DataError(
            "one table has generations and the other has none, so what was sampled twice "
            "cannot be told",
            remedy="Give both a column of generations, or neither",
        )
    location = _location(a, b)
    a, b = relocate(a, location), relocate(b, location)
    levels, moved = unite_levels(a.levels, b.levels)
    codes = np.concatenate([_recode(a.codes, moved[0]), _recode(b.codes, moved[1])])
    key, n = cell_keys(list(codes.T), [max(len(own), 1) for own in levels])
    low, high = np.full((2, n), [[np.inf], [-np.inf]])
    np.minimum.at(low, key, np.concatenate([a.low, b.low]))
    np.maximum.at(high, key, np.concatenate([a.high, b.high]))
    first = row_of_each(key, n)
    count = np.zeros(n, np.int64)
    np.add.at(count, key, np.concatenate([a.count, b.count]))
    generations = b.generations
    if a.generations is not None and b.generations is not None:
        k = len(a.blocks)
        generations = _add_generations(
            _moved(a.generations, moved[0], k), _moved(b.generations, moved[1], k)
        )
    return Moments(
        location=location,
        n_excluded=a.n_excluded + b.n_excluded,
        blocks=a.blocks,
        cells=a.cells,
        levels=levels,
        codes=codes[first],
        count=count,
        total=np.bincount(key, np.concatenate([a.total, b.total]), n),
        squares=np.bincount(key, np.concatenate([a.squares, b.squares]), n),
        low=low,
        high=high,
        generations=generations,
    )


def unite_levels(
    *several: Sequence[Sequence[str]],
) -> tuple[tuple[tuple[str, ...], ...], tuple[tuple[Ints, ...], ...]]:
    """Unite the labels of tables, facet by facet.

    Parameters
    ----------
    *several : sequences of F sequences of str
        Labels of each facet of each table.

    Returns
    -------
    levels : tuple of F tuples of str
        Those of all tables, sorted by code point.
    moved : a tuple a table, of F int arrays
        Where each of its codes has gone.
    """
    levels = tuple(tuple(sorted(set().union(*own))) for own in zip(*several, strict=True))
    at = [{label: code for code, label in enumerate(own)} for own in levels]
    moved = tuple(
        tuple(
            np.array([place[label] for label in own], np.int64)
            for place, own in zip(at, table, strict=True)
        )
        for table in several
    )
    return levels, moved


def _by(moments: Moments) -> str:
    return f"{', '.join(moments.blocks)} | {', '.join(moments.cells) or 'nothing'}"


def _location(a: Moments, b: Moments) -> float:
    if a.location == b.location or not a.n_scores:
        return b.location
    weighted = a.n_scores * a.location + b.n_scores * b.location
    return weighted / (a.n_scores + b.n_scores)


def _recode(codes: Ints, moved: Sequence[Ints]) -> Ints:
    return np.column_stack([own[codes[:, f]] for f, own in enumerate(moved)])


def _moved(found: Generations, moved: Sequence[Ints], n_blocks: int) -> Generations:
    columns = found.columns
    if columns.shape[1]:
        columns = _recode(columns, moved[n_blocks:])
    return Generations(
        columns,
        _recode(found.blocks, moved[:n_blocks]),
        found.pattern,
        found.number,
        found.totals,
        found.cell_squares,
        found.squares,
    )


def _add_generations(a: Generations, b: Generations) -> Generations:
    """Put patterns together over the columns of both."""
    columns, at = np.unique(np.concatenate([a.columns, b.columns]), axis=0, return_inverse=True)
    at = at.ravel()
    parts = ((a, at[: len(a.columns)]), (b, at[len(a.columns) :]))

    def widened(name: str) -> Floats:
        wide = [np.zeros((len(part.number), len(columns))) for part, _ in parts]
        for out, (part, place) in zip(wide, parts, strict=True):
            out[:, place] = getattr(part, name)
        return np.concatenate(wide)

    every = Generations(
        columns=columns,
        blocks=np.concatenate([a.blocks, b.blocks]),
        pattern=widened("pattern").astype(np.int64),
        number=np.concatenate([a.number, b.number]),
        totals=widened("totals"),
        cell_squares=widened("cell_squares"),
        squares=np.concatenate([a.squares, b.squares]),
    )
    return join_patterns(every)
