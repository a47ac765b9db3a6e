"""What a model is laid on: the rows of a table, or what its moments keep of them.

A line is one score, or, of a table that is there as moments, all scores of one cell
(with generations: of one pattern and column). Which effects a table can tell apart
depends on its lines and on how many scores each holds, never on a score.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from bayesjudge.errors import DataError
from bayesjudge.scores.identification import Pattern
from bayesjudge.scores.moments import Moments
from bayesjudge.scores.nesting import GENERATION_OF, nested_generation
from bayesjudge.scores.table import Facet, Scores
from bayesjudge.scores.tallying import Tally

type Ints = NDArray[np.int64]
type Table = Scores | Tally

READ_ROWS = "Read the rows themselves (read_scores, or --no-moments), or a sample of them"
"""What to do where moments do not answer."""


def need_rows(table: Table, asked: str) -> Scores:
    """Return a table's rows, for what cannot do without.

    Parameters
    ----------
    table : Scores or Tally
    asked : str
        What needs them, in the plural: the subject of the message.

    Raises
    ------
    DataError
        Where the table is there as moments.
    """
    if isinstance(table, Scores):
        return table
    raise DataError(
        f"{asked} need every score, and only counts and sums by cell were kept",
        table.source,
        READ_ROWS,
    )


@dataclass(frozen=True, eq=False)
class Lines:
    """A table's lines. N of them.

    Attributes
    ----------
    facets : dict of str to Facet
        By name, in the table's order. Generations are told apart as what they are:
        each lies within one scenario, backbone and language. Of moments a level is a
        pattern: all generations that share it.
    size : int
        N.
    weight : (N,) int array or None
        Scores of each line; None for one each.
    generations : (P,) int array or None
        Of moments: how many generations each level of that facet stands for.
    """

    facets: dict[str, Facet]
    size: int
    weight: Ints | None = None
    generations: Ints | None = None

    @property
    def labelled(self) -> dict[str, Facet]:
        """Facets whose levels have labels: of moments all but the generation."""
        unnamed = () if self.generations is None else ("generation",)
        return {n: f for n, f in self.facets.items() if n not in unnamed}

    def n_levels(self, name: str) -> int:
        """Return the number of levels of a facet, every generation its own."""
        if name == "generation" and self.generations is not None:
            return int(self.generations.sum())
        return self.facets[name].n_levels


def lines_of(table: Table) -> Lines:
    """Return the lines of a table: its rows, or those that its moments keep."""
    return _lines_of_scores(table) if isinstance(table, Scores) else _lines_of_tally(table)


def _lines_of_scores(scores: Scores) -> Lines:
    facets = {f.name: f for f in scores.facets}
    codes = nested_generation(scores)
    if codes is not None:
        first = np.unique(codes, return_index=True)[1]
        owners = [n for n in (*GENERATION_OF, "generation") if n in facets]
        columns = [np.asarray(facets[n].levels, object)[facets[n].codes[first]] for n in owners]
        labels = tuple(" | ".join(parts) for parts in zip(*columns, strict=True))
        facets["generation"] = replace(facets["generation"], levels=labels, codes=codes)
    return Lines(facets, len(scores))


def _lines_of_tally(tally: Tally) -> Lines:
    moments = tally.moments
    codes, weight = lines_of_moments(moments)
    facets = {
        f.name: Facet(f.name, f.role, f.levels, codes[f.name])
        for f in tally.facets
        if f.name in codes
    }
    if moments.generations is None:
        return Lines(facets, weight.size, weight)
    number = moments.generations.number
    whole = {f.name: f.role for f in tally.facets}
    # Their labels are no longer known, and nothing that asks for one is answered.
    facets["generation"] = Facet(
        "generation", whole["generation"], ("",) * number.size, codes["generation"]
    )
    in_order = {f.name: facets[f.name] for f in tally.facets if f.name in facets}
    return Lines(in_order, weight.size, weight, number)


def lines_of_moments(moments: Moments) -> tuple[dict[str, Ints], Ints]:
    """Return the codes of each facet by line, (N,) each, and the scores of each line."""
    found = moments.generations
    if found is None:
        return {n: moments.codes_of(n) for n in moments.facets}, moments.count
    pattern, column = np.nonzero(found.pattern)
    codes = {n: found.blocks[pattern, i] for i, n in enumerate(moments.blocks)}
    codes |= {n: found.columns[column, i] for i, n in enumerate(moments.cells)}
    weight = found.number[pattern] * found.pattern[pattern, column]
    return codes | {"generation": pattern}, weight


def totals_of_lines(moments: Moments) -> NDArray[np.float64]:
    """Return the sum of the scores of each line about the location, (N,)."""
    found = moments.generations
    if found is None:
        return moments.total
    return np.asarray(found.totals[np.nonzero(found.pattern)])


@dataclass(frozen=True, eq=False)
class CellMeans:
    """A table as means: of single scores, or of the cells of a tally. N of them.

    Attributes
    ----------
    facets : dict of str to Facet
        By name, in the table's order, generations apart from a tally's.
    mean : (N,) float array
        In the unit of the scores.
    weight : (N,) int array or None
        Scores behind each; None for one each.
    generations : bool
        Means of a tally are over several generations.
    """

    facets: dict[str, Facet]
    mean: NDArray[np.float64]
    weight: Ints | None = None
    generations: bool = False

    def averaged(self, kept: Collection[str]) -> tuple[str, ...]:
        """Return the facets of two levels or more that means by some others are over."""
        names = [f.name for f in self.facets.values() if f.name not in kept and f.n_levels > 1]
        return tuple([*names, "generation"] if self.generations else names)


def cells_of_table(table: Table) -> CellMeans:
    """Return a table as means: its scores, or those of a tally's cells."""
    if isinstance(table, Scores):
        return CellMeans({f.name: f for f in table.facets}, table.score)
    moments = table.moments
    facets = {
        f.name: Facet(f.name, f.role, f.levels, moments.codes_of(f.name))
        for f in table.facets
        if f.name in moments.facets
    }
    found = moments.generations
    several = found is not None and bool((found.number > 1).any())
    mean = moments.location + moments.total / moments.count
    return CellMeans(facets, mean, moments.count, several)


def term_pattern(
    lines: Lines,
    name: str,
    dims: tuple[str, ...],
    codes: Ints,
    shape: tuple[int, ...],
    centred: tuple[bool, ...],
    against: Ints | None = None,
) -> Pattern:
    """Return the covariance pattern of a term of these facets; arguments as of ``Pattern``."""
    copies = None
    if "generation" in dims and lines.generations is not None:
        levels = np.unravel_index(np.arange(int(np.prod(shape))), shape)
        copies = lines.generations[levels[dims.index("generation")]]
    order = sum(3 if d == "generation" else 1 for d in dims)
    return Pattern(name, codes, shape, centred, order, against, lines.weight, copies)


def residual_pattern(lines: Lines, name: str) -> Pattern:
    """Return the pattern in which every score has a level of its own."""
    every, weight = np.arange(lines.size), lines.weight
    return Pattern(name, every, (lines.size,), (False,), lines.size, weight=weight, copies=weight)
