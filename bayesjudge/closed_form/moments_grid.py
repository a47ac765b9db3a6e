"""The grid of a balanced table from its moments: cell means, and what lies within cells."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod

import numpy as np
from numpy.typing import NDArray

from bayesjudge.closed_form.strata import (
    EXACT_ENGINE,
    Axes,
    Grid,
    axes_of,
    fill_cells,
    rounding_of,
    strata_within,
)
from bayesjudge.errors import DataError
from bayesjudge.scores.lines import READ_ROWS, lines_of_moments, totals_of_lines
from bayesjudge.scores.moments import Generations, Moments
from bayesjudge.scores.regrouping import regroup

type Floats = NDArray[np.float64]
type Ints = NDArray[np.int64]

GENERATION = "generation"

# Sums of squares from moments are differences of sums: what a few roundings leave of them.
_ROUNDING = 64 * np.finfo(float).eps


def grid_of_moments(moments: Moments, codes: Mapping[str, Ints], order: tuple[str, ...]) -> Grid:
    """Arrange a table's moments as :func:`bayesjudge.closed_form.strata.make_grid` its scores.

    Parameters
    ----------
    moments : Moments
    codes : mapping of str to (N,) int array
        Of every line, as ``lines_of_moments`` has them, facets that a model uses; with
        or without the generation.
    order : tuple of str
        In which facets are axes.

    Returns
    -------
    Grid

    Raises
    ------
    DataError
        Where the table is not balanced, or where scores within generations would be told
        apart by a facet that the model does not use: that takes the rows.
    """
    weight = lines_of_moments(moments)[1]
    axes = axes_of({name: codes[name] for name in order if name in codes and name != GENERATION})
    n = moments.n_scores
    cell, each = fill_cells(axes.places, axes.sizes, axes.names, n, weight)
    total = np.bincount(cell, totals_of_lines(moments), prod(axes.sizes))
    between_cells = float(total @ total) / each
    squares = float(moments.squares.sum())
    largest = float(np.abs([moments.low, moments.high]).max())
    rounding = max(rounding_of(n, largest), _ROUNDING * squares)
    grid = Grid(
        names=axes.names,
        sizes=axes.sizes,
        levels=axes.levels,
        nested_in=axes.nested_in,
        other_names=axes.other_names,
        mean=(total / each).reshape(axes.sizes) + moments.location,
        cell=cell,
        n_scores=n,
        replicates=each,
        within_ss=_above(squares - between_cells, rounding) if each > 1 else 0.0,
        rounding_ss=rounding,
    )
    if GENERATION not in codes:
        return grid
    return _with_generations(grid, _parted(moments, axes, order), total, order)


@dataclass(frozen=True, eq=False)
class _Parted:
    """Generations of a balanced table.

    ``own`` are the axes within whose levels they lie; ``number`` how many there are,
    ``each`` the scores of one in a cell. The sums of squares are those of scores, of
    generations' sums in a cell and of generations' sums, each by its number of scores.
    """

    own: tuple[str, ...]
    number: int
    each: int
    scores: float
    in_cells: float
    whole: float


def _parted(moments: Moments, axes: Axes, order: tuple[str, ...]) -> _Parted:
    used = {*axes.names, *dict(axes.other_names)}
    kept = regroup(
        moments,
        tuple(n for n in moments.blocks if n in used),
        tuple(n for n in moments.cells if n in used),
    )
    found = None if kept is None else kept.generations
    if kept is None or found is None or np.isnan(found.cell_squares).any():
        raise DataError(
            "scores of a generation lie in facets that the model does not use, and sums by "
            "cell do not put them together",
            ", ".join(n for n in order if n in moments.facets and n not in used),
            READ_ROWS,
        )
    own = tuple(n for n in axes.names if n in kept.blocks or _holds(found, kept, n))
    n_others = prod(s for n, s in zip(axes.names, axes.sizes, strict=True) if n not in own)
    scored = found.pattern > 0
    counts = found.pattern[scored]
    if counts.min() != counts.max() or (scored.sum(axis=1) != n_others).any():
        raise _unbalanced()
    each = int(counts[0])
    return _Parted(
        own=own,
        number=found.n_generations,
        each=each,
        scores=float(kept.squares.sum()),
        in_cells=float(found.cell_squares.sum()) / each,
        whole=float(found.squares.sum()) / (each * n_others),
    )


def _with_generations(grid: Grid, found: _Parted, total: Floats, order: tuple[str, ...]) -> Grid:
    sizes = dict(zip(grid.names, grid.sizes, strict=True))
    n_owners = prod(sizes[n] for n in found.own)
    m, rest = divmod(found.number, n_owners)
    if rest or m * found.each != grid.replicates:
        raise _unbalanced()
    away = tuple(i for i, n in enumerate(grid.names) if n not in found.own)
    owner = total.reshape(grid.sizes).sum(axis=away)
    owners = float((owner**2).sum()) / (grid.n_scores / n_owners)
    cells = float(total @ total) / grid.replicates
    at = sum(n in grid.names for n in order[: order.index(GENERATION)])

    def insert(values: tuple, value: object) -> tuple:  # type: ignore[type-arg]
        return (*values[:at], value, *values[at:])

    made = replace(
        grid,
        names=insert(grid.names, GENERATION),
        sizes=insert(grid.sizes, m),
        levels=insert(grid.levels, found.number),
        nested_in=insert(grid.nested_in, frozenset(found.own)),
        mean=np.expand_dims(grid.mean, at),
        replicates=found.each,
        within_ss=_above(found.scores - found.in_cells, grid.rounding_ss)
        if found.each > 1
        else 0.0,
    )
    # What lies between generations of a cell beyond their own means is one sum: all its
    # strata expect the same of a model whose only term of generations is theirs alone.
    between = found.whole - owners
    beyond = found.in_cells - found.whole - cells + owners
    unseen: dict[frozenset[str], float] = {}
    for facets in strata_within(made, made.names):
        if GENERATION in facets:
            crossed = set(facets) - {GENERATION, *found.own}
            unseen[frozenset(facets)] = max(beyond if crossed else between, 0.0)
            beyond = 0.0 if crossed else beyond
    return replace(made, unseen=unseen)


def _holds(found: Generations, moments: Moments, facet: str) -> bool:
    """Whether each generation lies within one level of a facet of the cells."""
    code = found.columns[:, moments.cells.index(facet)]
    return all(len(np.unique(code[row])) < 2 for row in np.unique(found.pattern > 0, axis=0))


def _above(value: float, rounding: float) -> float:
    return value if value > rounding else 0.0


def _unbalanced() -> DataError:
    return DataError(
        "the table is not balanced: generations differ in number, or in who scored them",
        GENERATION,
        EXACT_ENGINE,
    )
