"""The strata of a balanced table: sums of squares, and what they expect.

A balanced table is a full grid of facets, some nested in others, with as many
scores in every cell. Its scores fall apart into orthogonal strata, one a set of
facets that holds, with every facet, those it is nested in. The covariance of a
mixed model is constant on each stratum, so mean squares are all there is to know.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import chain, combinations
from math import prod

import numpy as np
from numpy.typing import NDArray

from bayesjudge.errors import DataError
from bayesjudge.scores.keys import cell_keys

type Floats = NDArray[np.float64]
type Ints = NDArray[np.int64]

REPLICATE = "replicate"
"""What stands for the scores within one cell among a stratum's facets."""

EXACT_ENGINE = "Use the exact engine, which takes any table: bayesjudge rank SOURCE --engine exact"

# A cell mean is off by a few roundings of the largest score.
_ROUNDING = 16 * np.finfo(float).eps


@dataclass(frozen=True)
class Component:
    """One term of a model, as its covariance sees it.

    Attributes
    ----------
    name : str
    facets : tuple of str
    centred : tuple of str
        The facets over which its effects sum to zero; the covariance is
        sigma^2 (I - J/L) over each of them, I over the others.
    """

    name: str
    facets: tuple[str, ...]
    centred: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Grid:
    """Scores as an array of cell means.

    Attributes
    ----------
    names : tuple of F str
        Facets, one an axis.
    sizes : tuple of F int
        Levels within one combination of the facets it is nested in.
    levels : tuple of F int
        Levels in all.
    nested_in : tuple of F frozenset of str
        Facets whose level follows from this one's.
    other_names : tuple of (str, str)
        Facets whose levels go one to one with those of an axis: (name, axis).
    mean : array of shape ``sizes``
        Cell means.
    cell : (N,) int array
        Flat position of each score in ``mean``; of moments of each line.
    n_scores : int
    replicates : int
        Scores a cell.
    within_ss : float
        Sum of squares about the cell means.
    rounding_ss : float
        What rounding can make of a sum of squares that is zero.
    unseen : mapping of frozenset of str to float
        Sums of squares of strata with an axis that is one long in ``mean``, though it
        has more levels: of moments, generations.
    """

    names: tuple[str, ...]
    sizes: tuple[int, ...]
    levels: tuple[int, ...]
    nested_in: tuple[frozenset[str], ...]
    other_names: tuple[tuple[str, str], ...]
    mean: Floats
    cell: Ints
    n_scores: int
    replicates: int
    within_ss: float
    rounding_ss: float
    unseen: Mapping[frozenset[str], float] = field(default_factory=dict)

    def axis(self, facet: str) -> int:
        """Return the axis of a facet, or of the facet it is another name of."""
        return self.names.index(dict(self.other_names).get(facet, facet))

    def closure(self, facets: Iterable[str]) -> frozenset[str]:
        """Return the facets with all that they are nested in."""
        axes = [self.axis(f) for f in facets]
        return frozenset(chain([self.names[a] for a in axes], *(self.nested_in[a] for a in axes)))

    def scores_a_cell(self, facets: Collection[str]) -> int:
        """Return N / prod L_f: scores that share a level of each of these facets."""
        return self.n_scores // prod(self.sizes[self.axis(f)] for f in facets)


@dataclass(frozen=True)
class Stratum:
    """One line of an analysis of variance before terms are laid on it.

    Attributes
    ----------
    facets : tuple of str
        In the order of the grid's axes.
    df : int
    sum_of_squares : float
    """

    facets: tuple[str, ...]
    df: int
    sum_of_squares: float

    @property
    def name(self) -> str:
        """Facets joined by colons."""
        return ":".join(self.facets)


def make_grid(score: Floats, codes: Mapping[str, Ints]) -> Grid:
    """Arrange scores by their facets, finding which are nested in which.

    Parameters
    ----------
    score : (N,) float array
    codes : mapping of str to (N,) int array
        Codes 0 to L - 1 of each facet, all of them present. Facets of one level
        say nothing and are left out. A nested facet has a code of its own for
        every level in all.

    Returns
    -------
    Grid

    Raises
    ------
    DataError
        Where the table is not balanced; the message names the exact engine.
    """
    axes = axes_of(codes)
    sizes = axes.sizes
    cell, replicates = fill_cells(axes.places, sizes, axes.names, score.size)
    # Sums about one of the scores keep digits that a large common part would take.
    shift = float(score[0])
    flat = np.bincount(cell, weights=score - shift, minlength=prod(sizes)) / replicates
    about = (score - shift) - flat[cell]
    rounding = rounding_of(score.size, float(np.max(np.abs(score))))
    within = float(about @ about) if replicates > 1 else 0.0
    return Grid(
        names=axes.names,
        sizes=sizes,
        levels=axes.levels,
        nested_in=axes.nested_in,
        other_names=axes.other_names,
        mean=flat.reshape(sizes) + shift,
        cell=cell,
        n_scores=score.size,
        replicates=replicates,
        within_ss=within if within > rounding else 0.0,
        rounding_ss=rounding,
    )


def rounding_of(n: int, largest: float) -> float:
    """Return what rounding can make of a sum of squares of n scores of this size."""
    return n * (_ROUNDING * largest) ** 2


@dataclass(frozen=True, eq=False)
class Axes:
    """The facets of a table as axes of a grid; attributes as of ``Grid``.

    Attributes
    ----------
    places : tuple of F (N,) int arrays
        Level of each score, or line, within what the facet is nested in.
    """

    names: tuple[str, ...]
    sizes: tuple[int, ...]
    levels: tuple[int, ...]
    nested_in: tuple[frozenset[str], ...]
    other_names: tuple[tuple[str, str], ...]
    places: tuple[Ints, ...]


def axes_of(codes: Mapping[str, Ints]) -> Axes:
    """Find the axes of a grid; arguments and errors as of :func:`make_grid`."""
    levels = {name: int(code.max()) + 1 for name, code in codes.items()}
    names = [name for name in codes if levels[name] > 1]
    below = {
        (a, b)
        for a in names
        for b in names
        if a != b and cell_keys([codes[a], codes[b]], [levels[a], levels[b]])[1] == levels[a]
    }
    others: dict[str, str] = {}
    for i, a in enumerate(names):
        for b in names[i + 1 :]:
            if a not in others and (a, b) in below and (b, a) in below:
                others[b] = a
    names = [name for name in names if name not in others]
    nested_in = {a: frozenset(b for b in names if (a, b) in below) for a in names}
    places = {name: _place_within(name, nested_in[name], codes, levels) for name in names}
    return Axes(
        names=tuple(names),
        sizes=tuple(int(places[name].max()) + 1 for name in names),
        levels=tuple(levels[name] for name in names),
        nested_in=tuple(nested_in[name] for name in names),
        other_names=tuple(others.items()),
        places=tuple(places[name] for name in names),
    )


def strata_of(grid: Grid) -> tuple[Stratum, ...]:
    """Return every stratum but the mean: degrees of freedom and sum of squares.

    Returns
    -------
    tuple of Stratum
        Small sets of facets first; last, where cells hold several scores, the
        scores within cells. Sums of squares within rounding error of zero are zero.
    """
    found = []
    for facets in strata_within(grid, grid.names)[1:]:
        known = grid.unseen.get(frozenset(facets))
        if known is None:
            effects = stratum_effects(grid, facets)
            known = grid.scores_a_cell(facets) * float(np.sum(effects * effects))
        ss = known
        ss = ss if ss > grid.rounding_ss else 0.0
        found.append(Stratum(facets, stratum_df(grid, facets), ss))
    if grid.replicates > 1:
        df = grid.n_scores - prod(grid.sizes)
        found.append(Stratum((*grid.names, REPLICATE), df, grid.within_ss))
    return tuple(found)


def strata_within(grid: Grid, facets: Collection[str]) -> list[tuple[str, ...]]:
    """Return the facets of every stratum within a set of facets, the mean's (none) first."""
    inside = [name for name in grid.names if name in facets]
    return [part for part in _subsets(inside) if grid.closure(part) == frozenset(part)]


def stratum_df(grid: Grid, facets: Collection[str]) -> int:
    """Return the degrees of freedom: L - 1 a facet, L where another is nested in it."""
    inner = _innermost(grid, facets)
    return prod(grid.sizes[grid.axis(f)] - (f in inner) for f in facets)


def stratum_effects(grid: Grid, facets: Collection[str]) -> Floats:
    """Return the part of the cell means that lies in a stratum.

    Parameters
    ----------
    grid : Grid
    facets : collection of str
        Of a stratum; none for the mean.

    Returns
    -------
    float array
        Of the grid's shape but for axes of length one where ``facets`` lacks one.
    """
    part = grid.mean
    for axis, name in enumerate(grid.names):
        if name not in facets:
            part = part.mean(axis=axis, keepdims=True)
    # In the grid's order: a set's is another in each process, and so is what is rounded.
    inner = _innermost(grid, facets)
    for axis, name in enumerate(grid.names):
        if name in inner:
            part = part - part.mean(axis=axis, keepdims=True)
    return part


def ems_coefficient(grid: Grid, component: Component, facets: Collection[str]) -> float:
    """Return the coefficient of a term's variance in a stratum's expected mean square.

    Parameters
    ----------
    grid : Grid
    component : Component
    facets : collection of str
        Of the stratum; none for the mean.

    Returns
    -------
    float
        For crossed facets (N / prod L_f) 1[S in u and (u minus S) has no centred
        facet] (STATISTICS section 1). Derived for nested ones too: the covariance is
        a signed sum, over the sets D of centred facets, of "same level of u minus
        D" / prod L_D, and such a pattern has the eigenvalue N / prod L_f on the
        strata within its facets, those they are nested in included, 0 elsewhere.
    """
    total = Fraction(0)
    for dropped in _subsets(component.centred):
        kept = grid.closure(f for f in component.facets if f not in dropped)
        if kept.issuperset(facets):
            share = prod(grid.levels[grid.axis(f)] for f in dropped)
            sign = -1 if len(dropped) % 2 else 1
            total += Fraction(sign * grid.scores_a_cell(kept), share)
    return float(total)


def panel_factor(grid: Grid, component: Component) -> float:
    """Return the mean square of a term's effects in units of its sigma^2: prod (1 - 1/L)."""
    return float(prod(1 - 1 / grid.levels[grid.axis(f)] for f in component.centred))


def _subsets(names: Collection[str]) -> Iterable[tuple[str, ...]]:
    return chain.from_iterable(combinations(names, size) for size in range(len(names) + 1))


def _innermost(grid: Grid, facets: Collection[str]) -> frozenset[str]:
    outer = frozenset[str]().union(*(grid.nested_in[grid.names.index(f)] for f in facets))
    return frozenset(facets) - outer


def _place_within(
    name: str, outer: frozenset[str], codes: Mapping[str, Ints], levels: Mapping[str, int]
) -> Ints:
    """Count a facet's levels from 0 within each combination of what it is nested in."""
    code = codes[name]
    if not outer:
        return code
    parent, n_parents = cell_keys([codes[o] for o in outer], [levels[o] for o in outer])
    parent_of_level = np.zeros(levels[name], np.int64)
    parent_of_level[code] = parent
    counts = np.bincount(parent_of_level, minlength=n_parents)
    if counts.min() != counts.max():
        raise DataError(
            f"the table is not balanced: there are {counts.min()} to {counts.max()} levels "
            f"of {name} within one {' x '.join(sorted(outer))}",
            f"facet {name}",
            EXACT_ENGINE,
        )
    order = np.argsort(parent_of_level, kind="stable")
    place = np.empty(levels[name], np.int64)
    place[order] = np.arange(levels[name]) % counts[0]
    return np.asarray(place[code])


def fill_cells(
    places: Sequence[Ints],
    sizes: tuple[int, ...],
    names: Sequence[str],
    n: int,
    weight: Ints | None = None,
) -> tuple[Ints, int]:
    """Return each line's cell and the scores of every cell, which must be as many."""
    if not places:
        return np.zeros(n if weight is None else weight.size, np.int64), n
    where = " x ".join(names)
    n_cells = prod(sizes)
    if n_cells > n:
        raise DataError(
            f"the table is not balanced: {n:,} scores cannot fill {n_cells:,} cells",
            where,
            EXACT_ENGINE,
        )
    cell = np.ravel_multi_index(tuple(places), sizes).astype(np.int64)
    counts = np.bincount(cell, weight, n_cells)
    if counts.min() != counts.max():
        empty = int((counts == 0).sum())
        what = (
            f"{empty:,} of {n_cells:,} cells have no score"
            if empty
            else f"cells hold {counts.min():g} to {counts.max():g} scores"
        )
        raise DataError(f"the table is not balanced: {what}", where, EXACT_ENGINE)
    return cell, int(counts[0])
