"""Sufficient statistics: all that a gaussian likelihood needs to know of the scores.

Scores are counted and summed by cell of the facets. Where answers were sampled
several times (generations), these are summed within each generation and then put
together by *pattern*, the generation's number of scores in each cell of the
panel: generations of one block and one pattern share every coefficient of the
likelihood, so their sums and sums of squares are all there is to know.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from bayesjudge.errors import DataError, UsageError
from bayesjudge.scores.keys import cell_keys, row_of_each
from bayesjudge.scores.nesting import GENERATION_OF, nested_generation
from bayesjudge.scores.table import Scores

type Floats = NDArray[np.float64]
type Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Generations:
    """Generations put together by block and pattern. P patterns, C columns.

    Attributes
    ----------
    columns : (C, number of cell facets) int array
        Codes of the combinations of cell facets that occur, in row-major order.
    blocks : (P, number of block facets) int array
        Codes of the block of each pattern.
    pattern : (P, C) int array
        Scores of each of its generations in each column.
    number : (P,) int array
        Generations of this block and pattern.
    totals, cell_squares : (P, C) float arrays
        Over these generations: sums of their scores in a column, and sums of
        the squares of each generation's own sum there. About the location.
    squares : (P,) float array
        Over these generations: sum of the squares of each one's sum of scores.
    """

    columns: Ints
    blocks: Ints
    pattern: Ints
    number: Ints
    totals: Floats
    cell_squares: Floats
    squares: Floats

    @property
    def n_generations(self) -> int:
        """Number of generations."""
        return int(self.number.sum())


@dataclass(frozen=True, eq=False)
class Moments:
    """Counts and sums of scores by cell. K cells that occur, F facets.

    Attributes
    ----------
    location : float
        What is taken off every score before it is summed, in the unit of scores.
    n_excluded : int
        Rows without a finite score or without one of their labels.
    blocks, cells : tuple of str
        Facets that hold whole generations; the others.
    levels : tuple of F tuples of str
        Labels of each facet, blocks first, sorted by code point.
    codes : (K, F) int array
        Codes of each cell, in row-major order.
    count : (K,) int array
    total, squares : (K,) float arrays
        Sums of scores and of their squares, both about the location.
    low, high : (K,) float arrays
        Lowest and highest score, as given.
    generations : Generations or None
        None where the table has no generations.
    """

    location: float
    n_excluded: int
    blocks: tuple[str, ...]
    cells: tuple[str, ...]
    levels: tuple[tuple[str, ...], ...]
    codes: Ints
    count: Ints
    total: Floats
    squares: Floats
    low: Floats
    high: Floats
    generations: Generations | None

    @property
    def facets(self) -> tuple[str, ...]:
        """Names of the facets, in the order of ``codes``."""
        return self.blocks + self.cells

    @property
    def n_scores(self) -> int:
        """Number of scores."""
        return int(self.count.sum())

    @property
    def mean(self) -> float:
        """Mean of all scores."""
        return self.location + float(self.total.sum()) / self.n_scores

    @property
    def variance(self) -> float:
        """Variance of all scores, divisor N."""
        about = float(self.total.sum()) / self.n_scores
        return max(float(self.squares.sum()) / self.n_scores - about**2, 0.0)

    @property
    def n_repeated(self) -> int:
        """Cells, within one generation where there are any, of more than one score."""
        if self.generations is None:
            return int((self.count > 1).sum())
        return int(((self.generations.pattern > 1).sum(axis=1) * self.generations.number).sum())

    def codes_of(self, facet: str) -> Ints:
        """Return the (K,) codes of a facet.

        Raises
        ------
        DataError
            Where the moments were not taken by this facet.
        """
        return np.asarray(self.codes[:, self._axis(facet)])

    def n_levels(self, facet: str) -> int:
        """Return the number of levels of a facet.

        Raises
        ------
        DataError
            Where the moments were not taken by this facet.
        """
        return len(self.levels[self._axis(facet)])

    def ranges(self, facet: str) -> tuple[Floats, Floats]:
        """Return the lowest and the highest score of each level of a facet, (L,) each.

        Raises
        ------
        DataError
            Where the moments were not taken by this facet.
        """
        low, high = np.full((2, self.n_levels(facet)), [[np.inf], [-np.inf]])
        np.minimum.at(low, self.codes_of(facet), self.low)
        np.maximum.at(high, self.codes_of(facet), self.high)
        return low, high

    def _axis(self, facet: str) -> int:
        if facet not in self.facets:
            raise DataError(
                f"the moments were not taken by {facet!r}",
                remedy=f"They were by {', '.join(self.facets)}",
            )
        return self.facets.index(facet)


def relocate(moments: Moments, location: float) -> Moments:
    """Move moments to another location, without another pass.

    Parameters
    ----------
    moments : Moments
    location : float
        In the unit of the scores. Digits are kept where it lies within a few
        standard deviations of the scores from the old one.

    Returns
    -------
    Moments
    """
    by = location - moments.location
    found = moments.generations
    if found is not None:
        scores = found.number[:, None] * found.pattern
        size = found.pattern.sum(axis=1)
        sums = found.totals.sum(axis=1)
        found = replace(
            found,
            totals=found.totals - by * scores,
            cell_squares=found.cell_squares + found.pattern * by * (by * scores - 2 * found.totals),
            squares=found.squares + size * by * (by * found.number * size - 2 * sums),
        )
    return replace(
        moments,
        location=location,
        total=moments.total - by * moments.count,
        squares=moments.squares + by * (by * moments.count - 2 * moments.total),
        generations=found,
    )


def split_facets(
    names: Sequence[str], blocks: Sequence[str] | None, cells: Sequence[str] | None
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Part the facets of a table into those of blocks and those of cells.

    Parameters
    ----------
    names : sequence of str
        Facets of the table.
    blocks : sequence of str, optional
        Default: scenario and backbone, as far as the table has them.
    cells : sequence of str, optional
        Default: all others but the generation.

    Returns
    -------
    (blocks, cells) : tuples of str

    Raises
    ------
    UsageError
        Where a facet is named twice or is not one of the table's, or no block is left.
    """
    own = [n for n in names if n != "generation"]
    if blocks is None:
        blocks = [n for n in ("scenario", "backbone") if n in own and n not in (cells or ())]
    if cells is None:
        cells = [n for n in own if n not in blocks]
    every = [*blocks, *cells]
    unknown = [n for n in every if n not in own]
    if not blocks or unknown or len(set(every)) < len(every):
        raise UsageError(
            f"moments cannot be taken by {', '.join(every) or 'nothing'}",
            remedy=f"Name each facet once, of {', '.join(own)}, one at least for the blocks",
        )
    return tuple(blocks), tuple(cells)


def moments_of_scores(
    scores: Scores,
    blocks: Sequence[str] | None = None,
    cells: Sequence[str] | None = None,
    location: float | None = None,
) -> Moments:
    """Take the moments of a table in memory.

    Parameters
    ----------
    scores : Scores
    blocks, cells : sequence of str, optional
        As in ``split_facets``. Facets in neither are summed over.
    location : float, optional
        Default: the mean.

    Returns
    -------
    Moments

    Raises
    ------
    UsageError
        Where a facet is named twice or is not one of the table's.
    """
    blocks, cells = split_facets(scores.facet_names, blocks, cells)
    if location is None:
        location = float(scores.score.sum() / len(scores))
    names = (*blocks, *cells)
    sizes = [scores.facet(n).n_levels for n in names]
    key, n_cells = cell_keys([scores.codes(n) for n in names], sizes)
    first = row_of_each(key, n_cells)
    y = scores.score - location
    low, high = np.full((2, n_cells), [[np.inf], [-np.inf]])
    np.minimum.at(low, key, scores.score)
    np.maximum.at(high, key, scores.score)
    return Moments(
        location=location,
        n_excluded=scores.n_excluded,
        blocks=blocks,
        cells=cells,
        levels=tuple(scores.levels(n) for n in names),
        codes=np.column_stack([scores.codes(n)[first] for n in names]),
        count=np.bincount(key, minlength=n_cells),
        total=np.bincount(key, y, n_cells),
        squares=np.bincount(key, y * y, n_cells),
        low=low,
        high=high,
        generations=_generations(scores, blocks, cells, y),
    )


def _generations(
    scores: Scores, blocks: tuple[str, ...], cells: tuple[str, ...], y: Floats
) -> Generations | None:
    nested = nested_generation(scores)
    if nested is None:
        return None
    owners = owners_of_generation(scores.facet_names, blocks)
    codes = [nested, *(scores.codes(n) for n in owners)]
    sizes = [int(nested.max()) + 1, *(scores.facet(n).n_levels for n in owners)]
    generation, _ = cell_keys(codes, sizes)
    panel = [(scores.codes(n), scores.facet(n).n_levels) for n in cells]
    return sum_by_pattern(generation, [scores.codes(n) for n in blocks], panel, y)


def sum_by_pattern(
    generation: Ints,
    blocks: Sequence[Ints],
    cells: Sequence[tuple[Ints, int]],
    total: Floats,
    count: Ints | None = None,
) -> Generations:
    """Sum within generations, then put those of one block and pattern together.

    Parameters
    ----------
    generation : (N,) int array
        Codes 0 to G - 1, each occurring.
    blocks : sequence of (N,) int array
        Codes of each block facet, constant within a generation.
    cells : sequence of ((N,) int array, int)
        Codes and number of levels of each cell facet.
    total : (N,) float array
        Sums of scores, about the location.
    count : (N,) int array, optional
        Scores in each sum. Default: one.

    Returns
    -------
    Generations
    """
    n_generations = int(generation.max()) + 1
    column, n_columns = np.zeros(generation.size, np.int64), 1
    columns: Ints = np.zeros((1, 0), np.int64)
    if cells:
        column, n_columns = cell_keys([codes for codes, _ in cells], [size for _, size in cells])
        at = row_of_each(column, n_columns)
        columns = np.column_stack([codes[at] for codes, _ in cells])
    flat, shape = generation * n_columns + column, (n_generations, n_columns)
    counts = np.bincount(flat, count, n_generations * n_columns).astype(np.int64).reshape(shape)
    sums = np.bincount(flat, total, n_generations * n_columns).reshape(shape)
    first = row_of_each(generation, n_generations)
    own = np.column_stack([codes[first] for codes in blocks])
    each = Generations(
        columns=columns,
        blocks=own,
        pattern=counts,
        number=np.ones(n_generations, np.int64),
        totals=sums,
        cell_squares=sums**2,
        squares=sums.sum(axis=1) ** 2,
    )
    return join_patterns(each)


def join_patterns(found: Generations) -> Generations:
    """Put rows of one block and pattern together."""
    n_blocks = found.blocks.shape[1]
    rows, which = np.unique(
        np.column_stack([found.blocks, found.pattern]), axis=0, return_inverse=True
    )
    which = which.ravel()
    number = np.zeros(len(rows), np.int64)
    np.add.at(number, which, found.number)
    totals, cell_squares = np.zeros((2, len(rows), found.pattern.shape[1]))
    np.add.at(totals, which, found.totals)
    np.add.at(cell_squares, which, found.cell_squares)
    return Generations(
        columns=found.columns,
        blocks=rows[:, :n_blocks],
        pattern=rows[:, n_blocks:],
        number=number,
        totals=totals,
        cell_squares=cell_squares,
        squares=np.bincount(which, found.squares, len(rows)),
    )


def owners_of_generation(names: Sequence[str], blocks: Sequence[str]) -> tuple[str, ...]:
    """Name the facets that tell equal labels of generations apart.

    A label that recurs is another generation in each scenario, backbone and
    language. One that does not recur lies in one scenario and backbone anyway,
    so that both are told apart by the same key.
    """
    return (*blocks, *(n for n in GENERATION_OF if n in names and n not in blocks))
