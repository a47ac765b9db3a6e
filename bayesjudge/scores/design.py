"""What a table can identify: levels, nesting, balance, missing cells, connectedness."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from bayesjudge.scores.nesting import (
    cells_of,
    find_nesting,
    is_generation_balanced,
    kind_of_generation,
    nested_generation,
)
from bayesjudge.scores.problems import Problem
from bayesjudge.scores.table import Facet, Role, Scores

type Ints = NDArray[np.int64]

LOST_WITH_ONE_LEVEL = {
    "judge": "how lenient judges are, and how far they disagree, cannot be estimated",
    "language": "effects of language cannot be estimated",
    "scenario": "how far results hold for other scenarios cannot be estimated",
    "generation": "what varies between generations cannot be told from the residual",
}


@dataclass(frozen=True)
class FacetCounts:
    """Levels of one facet, and how many rows a level has.

    Attributes
    ----------
    name : str
    role : {"panel", "random"}
    n_levels : int
    min_rows, max_rows : int
        Rows of the rarest and of the most frequent level.
    """

    name: str
    role: Role
    n_levels: int
    min_rows: int
    max_rows: int


@dataclass(frozen=True)
class Design:
    """The shape of a table.

    Attributes
    ----------
    facets : tuple of FacetCounts
        In the table's order.
    nested : tuple of (inner, outer)
        Each level of ``inner`` occurs with one level of ``outer`` only. Pairs
        that follow from others are left out, and so are facets of one level.
    aliased : tuple of (facet, facet)
        Facets whose levels go one to one, so that no data tell them apart.
    generation : {"explicit", "implicit", None}
        Explicit: a label belongs to one scenario and backbone. Implicit: labels
        recur, and a generation is a label within its scenario and backbone.
    n_generations : int
        Number of true generations; 0 where the table has no such facet.
    crossed : tuple of str
        Facets whose crossing makes the cells: without ``generation``, and
        without those that another facet determines.
    n_cells, n_missing : int
        Cells of the crossing, and those without a score.
    rows_per_cell : (min, max)
        Scores in a cell that has any.
    replicates : (min, max)
        Scores that share every facet, generation included.
    balanced : bool
        No cell is missing and all hold the same number of scores, over the
        same number of generations.
    components : tuple of (facet, groups)
        For each panel facet beside the backbone, the groups of backbones that
        its levels connect; one group where all can be compared.
    scenarios_shared : int or None
        Scenarios scored for two backbones or more; None without scenarios.
    """

    facets: tuple[FacetCounts, ...]
    nested: tuple[tuple[str, str], ...]
    aliased: tuple[tuple[str, str], ...]
    generation: str | None
    n_generations: int
    crossed: tuple[str, ...]
    n_cells: int
    n_missing: int
    rows_per_cell: tuple[int, int]
    replicates: tuple[int, int]
    balanced: bool
    components: tuple[tuple[str, tuple[tuple[str, ...], ...]], ...]
    scenarios_shared: int | None

    def facet(self, name: str) -> FacetCounts | None:
        """Return the counts of a facet, or None where the table has no such facet."""
        return next((facet for facet in self.facets if facet.name == name), None)


def describe_design(scores: Scores, rows: Ints | None = None) -> Design:
    """Find the design of a table from its data.

    Parameters
    ----------
    scores : Scores
        At least one row.
    rows : (N,) int array, optional
        Where a row stands for several equal ones: their number.

    Returns
    -------
    Design
    """
    counts = tuple(_count_levels(facet, rows) for facet in scores.facets)
    generations = nested_generation(scores)
    kind = None if generations is None else kind_of_generation(scores)
    # a label that recurs is no facet by itself, so what it seems nested in means nothing
    nested, aliased = find_nesting(
        [facet for facet in scores.facets if facet.name != "generation" or kind == "explicit"]
    )
    determined = {other for facet, other in (*nested, *aliased) if facet != "generation"}
    crossed = tuple(
        facet for facet in scores.facets if facet.name not in {*determined, "generation"}
    )
    n_cells = prod(facet.n_levels for facet in crossed)
    cells = _rows_by_cell(crossed, rows)
    n_present = int(cells.size)
    everything = _rows_by_cell(scores.facets, rows)
    return Design(
        facets=counts,
        nested=nested,
        aliased=aliased,
        generation=kind,
        n_generations=0 if generations is None else int(generations.max()) + 1,
        crossed=tuple(facet.name for facet in crossed),
        n_cells=n_cells,
        n_missing=n_cells - n_present,
        rows_per_cell=(int(cells.min()), int(cells.max())),
        replicates=(int(everything.min()), int(everything.max())),
        balanced=(
            n_cells == n_present
            and bool(cells.min() == cells.max())
            and (generations is None or is_generation_balanced(scores, generations, crossed))
        ),
        components=tuple(
            (facet.name, _components(scores.facet("backbone"), facet))
            for facet in scores.facets
            if facet.role == "panel" and facet.name != "backbone"
        ),
        scenarios_shared=_count_shared(scores),
    )


def problems_of_design(
    scores: Scores, design: Design, rows: Ints | None = None
) -> tuple[Problem, ...]:
    """Say what the design makes impossible, and refuse what it leaves no answer to.

    Parameters
    ----------
    scores : Scores
    design : Design
        Of the same table.
    rows : (N,) int array, optional
        As in ``describe_design``.

    Returns
    -------
    tuple of Problem
        Errors: backbone confounded with the residual, backbones that no level
        of a panel facet connects. The rest are warnings and notes.
    """
    n_scores = len(scores) if rows is None else int(rows.sum())
    problems: list[Problem] = []
    problems.extend(_confounded(n_scores, design))
    problems.extend(_unconnected(design))
    for facet in design.facets:
        if facet.n_levels == 1 and facet.name != "backbone":
            problems.append(one_level(facet.name, scores.levels(facet.name)[0], n_scores))
    problems.extend(_lone_judges(scores, rows))
    problems.extend(_extrapolated(scores))
    problems.extend(_unshared(scores, design, n_scores))
    if design.n_missing:
        share = 100 * design.n_missing / design.n_cells
        problems.append(
            Problem(
                "note",
                f"{design.n_missing:,} of {design.n_cells:,} cells of "
                f"{' x '.join(design.crossed)} have no score ({share:.3g} %)",
                " x ".join(design.crossed),
            )
        )
    return tuple(problems)


def one_level(facet: str, level: str, n_scores: int) -> Problem:
    """Say what is lost where a facet has one level."""
    lost = LOST_WITH_ONE_LEVEL.get(facet, f"effects of {facet} are not estimable")
    what = f"{facet} has one level, {level!r}, so {lost}"
    return Problem("note", what, f"facet {facet}", n_scores)


def _rows_by_cell(facets: Sequence[Facet], rows: Ints | None) -> Ints:
    key, n_cells = cells_of(facets)
    return np.bincount(key, rows, n_cells).astype(np.int64)


def _count_levels(facet: Facet, rows: Ints | None) -> FacetCounts:
    n = np.bincount(facet.codes, rows, facet.n_levels)
    return FacetCounts(facet.name, facet.role, facet.n_levels, int(n.min()), int(n.max()))


def _components(backbone: Facet, other: Facet) -> tuple[tuple[str, ...], ...]:
    """Group the backbones that are joined by the levels of another facet."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    _, first = np.unique(cells_of([backbone, other])[0], return_index=True)
    n = backbone.n_levels + other.n_levels
    ends = (backbone.codes[first], other.codes[first] + backbone.n_levels)
    graph = coo_array((np.ones(first.size), ends), shape=(n, n))
    n_groups, group = connected_components(graph, directed=False)
    group = group[: backbone.n_levels]
    groups = [
        tuple(backbone.levels[i] for i in np.flatnonzero(group == number))
        for number in range(n_groups)
    ]
    return tuple(sorted(group for group in groups if group))


def _backbones_by(scores: Scores, name: str) -> Ints:
    """Count the backbones that occur with each level of a facet."""
    facet, backbone = scores.facet(name), scores.facet("backbone")
    _, first = np.unique(cells_of([facet, backbone])[0], return_index=True)
    return np.bincount(facet.codes[first], minlength=facet.n_levels)


def _count_shared(scores: Scores) -> int | None:
    if not scores.has("scenario"):
        return None
    return int((_backbones_by(scores, "scenario") > 1).sum())


def _confounded(n_scores: int, design: Design) -> list[Problem]:
    backbone = design.facet("backbone")
    if backbone is None or backbone.max_rows > 1:
        return []
    return [
        Problem(
            "error",
            "each backbone has one score only, so backbones cannot be told from chance",
            "facet backbone",
            n_scores,
            "Give at least one backbone several scores",
        )
    ]


def _unconnected(design: Design) -> list[Problem]:
    problems = []
    for name, groups in design.components:
        if len(groups) < 2:
            continue
        shown = "; ".join(
            ", ".join(map(repr, group[:4])) + (", ..." if len(group) > 4 else "")
            for group in groups[:4]
        )
        problems.append(
            Problem(
                "error",
                f"the backbones fall into {len(groups)} groups that share no {name}, "
                f"so they cannot be compared: {shown}{'; ...' if len(groups) > 4 else ''}",
                f"facets backbone and {name}",
                remedy=f"Score a backbone of each group with a {name} of another, "
                "or rank one group with --where",
            )
        )
    return problems


def _lone_judges(scores: Scores, rows: Ints | None) -> list[Problem]:
    if not scores.has("judge"):
        return []
    lone = np.flatnonzero(_backbones_by(scores, "judge") == 1)
    judge = scores.facet("judge")
    if not lone.size or scores.facet("backbone").n_levels < 2:
        return []
    names = ", ".join(repr(judge.levels[i]) for i in lone[:5]) + (", ..." if lone.size > 5 else "")
    return [
        Problem(
            "warning",
            f"{'judge' if lone.size == 1 else 'each of the judges'} {names} scored one backbone "
            "only, so its leniency cannot be told from that backbone's quality",
            "facet judge",
            int(np.bincount(judge.codes, rows)[lone].sum()),
            "Let it score other backbones, or leave it out",
        )
    ]


def _extrapolated(scores: Scores) -> list[Problem]:
    """Name the judges who never scored a backbone: their part of its mean is no datum."""
    if not scores.has("judge"):
        return []
    backbone, judge = scores.facet("backbone"), scores.facet("judge")
    seen = np.zeros((backbone.n_levels, judge.n_levels), bool)
    seen[backbone.codes, judge.codes] = True
    # A judge of one backbone is spoken of already, and connects nothing.
    seen[:, seen.sum(axis=0) <= 1] = True
    lacking = np.argwhere(~seen)
    if not len(lacking):
        return []
    shown = ", ".join(f"{judge.levels[j]!r} for {backbone.levels[b]!r}" for b, j in lacking[:5])
    return [
        Problem(
            "note",
            f"{len(lacking):,} of {seen.size:,} backbone x judge cells were never scored, so "
            f"panel means extrapolate them additively from the others: {shown}"
            + (", ..." if len(lacking) > 5 else ""),
            "facets backbone and judge",
        )
    ]


def _unshared(scores: Scores, design: Design, n_scores: int) -> list[Problem]:
    scenario = design.facet("scenario")
    shared = design.scenarios_shared
    if scenario is None or shared is None or scores.facet("backbone").n_levels < 2:
        return []
    if shared == 0:
        return [
            Problem(
                "warning",
                "no scenario was scored for two backbones, so differences between backbones "
                "are not paired and include differences between scenarios",
                "facet scenario",
                n_scores,
                "Score the same scenarios for all backbones",
            )
        ]
    if shared < scenario.n_levels:
        return [
            Problem(
                "note",
                f"{scenario.n_levels - shared:,} of {scenario.n_levels:,} scenarios were scored "
                "for one backbone only and add little to comparisons",
                "facet scenario",
            )
        ]
    return []
