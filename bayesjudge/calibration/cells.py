"""Scores as one mean for each task, condition and object: what calibration works on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bayesjudge.closed_form.double_centering import bipartite_components
from bayesjudge.errors import DataError, UsageError
from bayesjudge.scores.keys import combine_codes
from bayesjudge.scores.lines import Table, cells_of_table
from bayesjudge.scores.problems import Problem
from bayesjudge.scores.table import Facet, Scores

type Floats = NDArray[np.float64]
type Ints = NDArray[np.int64]

_TASK = "scenario"
_MOST_NAMED = 8
# Cells of one table that fit in memory as numbers.
_MOST_CELLS = 10**8


@dataclass(frozen=True, eq=False)
class Cells:
    """A table of tasks by condition by object.

    Attributes
    ----------
    conditions, objects : str
        Facets: m levels that each rank (language), k levels that are ranked (backbone).
    condition_labels, object_labels, task_labels : tuple of str
    tasks : (n, m, k) float array
        Mean score; nan where there is none. n = 1 without scenarios.
    gold : (n, m, k) float array or None
        Mean human score; nan where there is none.
    condition_codes, object_codes : (N,) int array
        Of every score; of a tally of every cell.
    averaged : tuple of str
        Facets over which the scores of a task's cell were averaged.
    findings : tuple of Problem
        What makes the answer doubtful.
    """

    conditions: str
    objects: str
    condition_labels: tuple[str, ...]
    object_labels: tuple[str, ...]
    task_labels: tuple[str, ...]
    tasks: Floats
    gold: Floats | None
    condition_codes: Ints
    object_codes: Ints
    averaged: tuple[str, ...]
    findings: tuple[Problem, ...]

    @property
    def n_tasks(self) -> int:
        """Number of tasks; 1 where the table has no scenarios."""
        return len(self.tasks)

    @property
    def has_tasks(self) -> bool:
        """Whether there are tasks to tell chance from interaction by."""
        return self.n_tasks > 1


def usual_facets(scores: Table) -> tuple[str, str]:
    """Return the facets to ask about where the user names none.

    Raises
    ------
    UsageError
        Where there is neither a language nor a judge of two levels or more.
    """
    for name in ("language", "judge"):
        if scores.has(name) and scores.facet(name).n_levels > 1:
            return name, "backbone"
    raise UsageError(
        "there is no language and no judge to hold the backbones against",
        scores.source,
        "Name two facets with --between, as --between criterion backbone; a column of your own "
        "also needs --facet",
    )


def cells_of_scores(scores: Table, conditions: str, objects: str) -> Cells:
    """Average scores to one a task, condition and object.

    Parameters
    ----------
    scores : Scores or Tally
    conditions, objects : str
        Two facets of two levels or more, neither scenario nor generation.

    Returns
    -------
    Cells

    Raises
    ------
    UsageError
        Where the two are one, or are what is averaged over.
    DataError
        Where a facet is absent or has one level, or the two fall into parts that no
        cell joins, which are named.
    """
    means = cells_of_table(scores)
    rows, columns = (_facet(scores, means.facets, name) for name in (conditions, objects))
    if conditions == objects:
        raise UsageError(
            f"{conditions!r} cannot interact with itself", "--between", "Name two facets"
        )
    task = means.facets.get(_TASK)
    shape = (1 if task is None else task.n_levels, rows.n_levels, columns.n_levels)
    if np.prod(shape, dtype=float) > _MOST_CELLS:
        raise DataError(
            f"{shape[0]:,} scenarios x {shape[1]:,} x {shape[2]:,} are too many cells to hold",
            scores.source,
            "Keep part of the table with --where",
        )
    task_codes = np.zeros_like(rows.codes) if task is None else task.codes
    key = combine_codes([task_codes, rows.codes, columns.codes], shape)
    tasks = _means(means.mean, key, shape, means.weight)
    gold = None
    if isinstance(scores, Scores) and scores.human_score is not None:
        labelled = ~np.isnan(scores.human_score)
        if labelled.any():
            gold = _means(scores.human_score[labelled], key[labelled], shape)
    there = ~np.isnan(tasks)
    _check_connected(there.any(axis=0), rows, columns, scores.source)
    asked = (_TASK, conditions, objects)
    others = [f for f in means.facets.values() if f.name not in asked and f.n_levels > 1]
    findings = [
        *_holes(there, rows, columns, has_tasks=task is not None),
        *(p for f in others if f.role == "panel" for p in _uneven(f, rows, columns, means.weight)),
    ]
    return Cells(
        conditions=conditions,
        objects=objects,
        condition_labels=rows.levels,
        object_labels=columns.levels,
        task_labels=("",) if task is None else task.levels,
        tasks=tasks,
        gold=gold,
        condition_codes=rows.codes,
        object_codes=columns.codes,
        averaged=means.averaged(asked),
        findings=tuple(findings),
    )


def _facet(scores: Table, facets: Mapping[str, Facet], name: str) -> Facet:
    if name in ("scenario", "generation"):
        raise UsageError(
            f"{name!r} is what cells are averaged over",
            f"--between {name}",
            "Name facets such as language, judge and backbone",
        )
    if name not in facets:
        raise DataError(
            f"the table has no facet {name!r}",
            scores.source,
            f"It has {', '.join(scores.facet_names)}; a column of your own also needs --facet",
        )
    facet = facets[name]
    if facet.n_levels < 2:
        raise DataError(
            f"{name} has one level only, {facet.levels[0]!r}, and so no interaction",
            scores.source,
            "Name other facets with --between",
        )
    return facet


def _means(
    values: Floats, key: Ints, shape: tuple[int, int, int], weight: Ints | None = None
) -> Floats:
    size = int(np.prod(shape))
    count = np.bincount(key, weight, size)
    total = np.bincount(key, values if weight is None else values * weight, size)
    means = np.where(count > 0, total / np.maximum(count, 1), np.nan)
    return np.asarray(means.reshape(shape))


def _check_connected(present: NDArray[np.bool_], rows: Facet, columns: Facet, source: str) -> None:
    parts = bipartite_components(present)
    if len(parts) < 2:
        return
    named = "; ".join(
        f"{_listed(rows, own)} with {_listed(columns, others)}" for own, others in parts[:4]
    )
    raise DataError(
        f"{rows.name} and {columns.name} fall into {len(parts)} parts that no cell joins, so "
        f"their interaction cannot be told from their effects: {named}"
        f"{'; ...' if len(parts) > 4 else ''}",
        source,
        f"Score a {columns.name} of each part with a {rows.name} of another, or calibrate one "
        "part with --where",
    )


def _listed(facet: Facet, codes: Ints) -> str:
    shown = ", ".join(repr(facet.levels[i]) for i in codes[:_MOST_NAMED])
    return shown + (", ..." if codes.size > _MOST_NAMED else "")


def _holes(there: NDArray[np.bool_], rows: Facet, columns: Facet, has_tasks: bool) -> list[Problem]:
    where = f"facets {rows.name} and {columns.name}"
    found = []
    missing = np.argwhere(~there.any(axis=0))
    if len(missing):
        named = ", ".join(
            f"{rows.levels[i]!r} x {columns.levels[j]!r}" for i, j in missing[:_MOST_NAMED]
        )
        more = ", ..." if len(missing) > _MOST_NAMED else ""
        found.append(
            Problem(
                "warning",
                f"{len(missing)} of {there[0].size} cells have no score: {named}{more}. Least "
                "squares over the others; what is said of these is extrapolated",
                where,
            )
        )
    if has_tasks and not there.all():
        lost = int(there[:, there.any(axis=0)].size - there.sum())
        if lost:
            found.append(
                Problem(
                    "note",
                    f"{lost:,} of {there.size:,} task cells have no score: cell means are freed "
                    "from which tasks they hold by least squares, and every cell counts once",
                    where,
                )
            )
    return found


def _uneven(other: Facet, rows: Facet, columns: Facet, weight: Ints | None = None) -> list[Problem]:
    """Warn where cells hold unlike shares of a facet that is averaged over."""
    shape = (rows.n_levels * columns.n_levels, other.n_levels)
    cell = rows.codes * columns.n_levels + columns.codes
    count = np.bincount(cell * other.n_levels + other.codes, weight, shape[0] * shape[1])
    table = count.reshape(shape)
    table = table[table.sum(axis=1) > 0]
    share = table / table.sum(axis=1, keepdims=True)
    if np.ptp(share, axis=0).max() < 1e-9:
        return []
    return [
        Problem(
            "warning",
            f"cells hold unlike shares of {other.name}, over which they are averaged: part of "
            f"the interaction may be {other.name}'s",
            f"facet {other.name}",
            remedy="Keep one with --where, or answer once for each with --by and --ignore",
        )
    ]
