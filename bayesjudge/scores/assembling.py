"""Rows and a mapping of columns put together to ``Scores``, gathering problems on the way."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from bayesjudge.errors import DataError, UsageError
from bayesjudge.scores.battles import OPPONENT, problems_of_battles, sides_of
from bayesjudge.scores.checking import (
    check_labels,
    check_scale,
    parse_covariate,
    parse_human,
    parse_numbers,
    parse_scores,
    warn_of_emptied,
)
from bayesjudge.scores.columns import Resolved, Wishes
from bayesjudge.scores.design import Design, describe_design, problems_of_design
from bayesjudge.scores.duplicates import check_duplicates
from bayesjudge.scores.keys import cell_keys
from bayesjudge.scores.problems import Problem
from bayesjudge.scores.raw import Labels, RawTable
from bayesjudge.scores.scales import check_scales
from bayesjudge.scores.table import Facet, Failed, Scores, Tag

MAX_GROUP_LEVELS = 200
"""Unused columns of more levels are not searched for a second scale."""


@dataclass(frozen=True)
class Reading:
    """What was found in a source.

    Attributes
    ----------
    scores : Scores or None
        None where some problem is an error.
    problems : tuple of Problem
        Errors first, then warnings, then notes.
    mapping : tuple of (role, column)
        Which column serves as what.
    unused_columns : tuple of str
        Columns that serve nothing.
    n_rows : int
        Data rows that were looked at: all, or those that ``where`` and the level keep.
    design : Design or None
        None where errors kept the table from being put together, or where not
        backbones are measured.
    rows : (N,) int array or None
        Row of the source, from 0, that each score came from; None without scores.
    """

    scores: Scores | None
    problems: tuple[Problem, ...]
    mapping: tuple[tuple[str, str], ...]
    unused_columns: tuple[str, ...]
    n_rows: int
    design: Design | None = None
    rows: NDArray[np.int64] | None = field(default=None, compare=False, repr=False)

    @property
    def errors(self) -> tuple[Problem, ...]:
        """The problems that refuse the table."""
        return tuple(problem for problem in self.problems if problem.severity == "error")

    def require(self, source: str = "table") -> Scores:
        """Return the scores.

        Raises
        ------
        DataError
            Listing every error, where there is one.
        """
        if self.scores is not None:
            return self.scores
        errors = self.errors
        if len(errors) == 1:
            raise DataError(errors[0].what, errors[0].where, errors[0].remedy)
        listed = "\n".join(f"- {error}" for error in errors)
        raise DataError(f"{len(errors)} things are wrong with {source}:\n{listed}".rstrip("."))


@dataclass(frozen=True)
class Options:
    """Arguments of ``scan`` that say how rows are read, checked for contradictions.

    A ``part`` is put together with others before it is answered: whether it could be
    answered by itself is not asked.
    """

    where: tuple[tuple[str, str], ...]
    scale: tuple[float, float] | None
    lower_is_better: bool
    missing: tuple[str, ...]
    strict: bool
    replicates: bool
    part: bool = False

    def __post_init__(self) -> None:
        if self.scale is None:
            return
        low, high = self.scale
        if not (math.isfinite(low) and math.isfinite(high) and low < high):
            raise UsageError(
                f"the scale {low:g} to {high:g} is no scale",
                "--scale",
                "Give the lowest score and then the highest, as in --scale 1 10",
            )


def filter_rows(
    table: RawTable, resolved: Resolved, where: tuple[tuple[str, str], ...]
) -> tuple[NDArray[np.int64], tuple[Problem, ...]]:
    """Keep the rows asked for, naming what there is where none is left."""
    keep = np.ones(table.n_rows, dtype=bool)
    for column in dict.fromkeys(column for column, _ in where):
        wanted = [label for name, label in where if name == column]
        name = column if column in table.columns else resolved.column(column)
        if name is None:
            return np.empty(0, dtype=np.int64), (no_column(column, wanted[0], table.columns),)
        labels = table.columns[name].labels
        here = np.unique(labels.codes[keep])
        known = [labels.levels[code] for code in here if code >= 0]
        for label in wanted:
            if label not in known:
                return np.empty(0, dtype=np.int64), (no_label(column, name, label, known),)
        keep &= np.isin(labels.codes, [labels.levels.index(label) for label in wanted])
    return np.flatnonzero(keep), ()


def no_column(column: str, label: str, names: Iterable[str]) -> Problem:
    """Say that there is no column to filter by."""
    return Problem(
        "error",
        f"there is no column {column!r} to filter by",
        f"--where {column}={label}",
        remedy=f"Columns are {listed(names)}",
    )


def no_label(column: str, name: str, label: str, known: Iterable[str]) -> Problem:
    """Say that no row has the label to filter by."""
    return Problem(
        "error",
        f"no row has {label!r} in the column {name!r}",
        f"--where {column}={label}",
        remedy=f"Its labels are {listed(known)}",
    )


def assemble(
    table: RawTable,
    resolved: Resolved,
    wishes: Wishes,
    options: Options,
    rows: NDArray[np.int64],
    found: tuple[Problem, ...],
    by: str | None = None,
) -> Reading:
    """Put rows together to ``Scores``, gathering problems on the way."""
    problems = [*resolved.problems, *found]
    candidate, used = None, None
    if rows.size and resolved.column("score") and resolved.column(wishes.measured):
        candidate, used = _build(table, resolved, wishes, options, rows, problems, by)
    design = None
    if candidate is not None and wishes.measured == "backbone" and not options.part:
        design = describe_design(candidate if candidate.opponent is None else sides_of(candidate))
        problems.extend(
            problems_of_design(candidate, design)
            if candidate.opponent is None
            else problems_of_battles(candidate)
        )
    ordered = in_order(problems)
    if any(problem.severity == "error" for problem in ordered):
        candidate, used = None, None
    if candidate is not None:
        candidate = replace(candidate, problems=ordered)
    unused = tuple(name for name in resolved.unused if name != by)
    return Reading(candidate, ordered, resolved.mapping, unused, int(rows.size), design, used)


def in_order(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """Put errors first, then warnings, then notes."""
    rank = {"error": 0, "warning": 1, "note": 2}
    return tuple(sorted(problems, key=lambda problem: rank[problem.severity]))


def _build(
    table: RawTable,
    resolved: Resolved,
    wishes: Wishes,
    options: Options,
    rows: NDArray[np.int64],
    problems: list[Problem],
    by: str | None,
) -> tuple[Scores, NDArray[np.int64]] | tuple[None, None]:
    """Read and check the columns in use, with the rows that are; None where none is left."""
    columns = dict(resolved.mapping)
    parsed = parse_scores(table, columns["score"], rows, options.missing, options.strict)
    problems.extend(parsed.problems)
    keep = np.isfinite(parsed.score)
    labels = {}
    for name in resolved.facets:
        labels[name], more = check_labels(table, name, columns[name], rows, options.strict)
        problems.extend(more)
        keep &= labels[name].codes >= 0
    others = None
    if OPPONENT in columns and "backbone" in labels:
        others, more = check_labels(table, OPPONENT, columns[OPPONENT], rows, options.strict)
        problems.extend(more)
        keep &= others.codes >= 0
        labels["backbone"], others = _of_one_set(labels["backbone"], others)
    covariates = {}
    for name in resolved.covariates:
        if name in columns:
            covariates[name], more = parse_covariate(
                table, name, columns[name], rows, options.strict
            )
            problems.extend(more)
            keep &= np.isfinite(covariates[name])
    numbers = {
        name: parse_numbers(table, columns[name], rows)
        for name in resolved.numbers
        if name in columns
    }
    for _, more in numbers.values():
        problems.extend(more)
    tags = {name: table.columns[columns[name]].labels for name in resolved.tags if name in columns}
    human = None
    if "human_score" in columns:
        human, more = parse_human(table, columns["human_score"], rows)
        problems.extend(more)
    if not keep.any():
        problems.append(no_usable_row(rows.size, columns["score"]))
        return None, None
    used, score = rows[keep], parsed.score[keep]
    without_score = np.flatnonzero(~np.isfinite(parsed.score))
    facets, lost = [], []
    opponent = None
    for name, column in labels.items():
        every, codes = column.codes, column.codes[keep]
        if others is not None and name == "backbone":
            every = np.concatenate([every, others.codes])
            codes = np.concatenate([codes, others.codes[keep]])
        problems.extend(warn_of_emptied(name, column.levels, every, codes))
        present, compact = np.unique(codes, return_inverse=True)
        levels = tuple(column.levels[code] for code in present)
        lost.append(_codes_among(column.codes[without_score], present))
        compact = compact.astype(np.int64)
        if others is not None and name == "backbone":
            compact, opponent = compact[: used.size], compact[used.size :]
        facets.append(Facet(name, wishes.role_of(name), levels, compact))
    measured = next(facet for facet in facets if facet.name == wishes.measured)
    if measured.n_levels < 2 and not options.part:
        problems.append(
            one_level_only(measured.name, measured.levels[0], columns[measured.name], used.size)
        )
    unused = [name for name in resolved.unused if name != by]
    # The same two models meet again and again where no scenario tells battles apart.
    if not options.replicates and (opponent is None or "scenario" in labels):
        cells = [(facet.name, facet.levels, facet.codes) for facet in facets]
        if opponent is not None:
            cells.append((OPPONENT, measured.levels, opponent))
        problems.extend(check_duplicates(table, used, cells, unused))
    problems.extend(check_scale(table, columns["score"], used, score, options.scale))
    if opponent is None:
        problems.extend(_check_scales(table, used, score, facets, unused, measured))
    scores = Scores(
        score=score,
        facets=tuple(facets),
        human_score=None if human is None else human[keep],
        scale=options.scale,
        lower_is_better=options.lower_is_better,
        replicates=options.replicates,
        n_excluded=int(rows.size - used.size),
        mapping=resolved.mapping,
        source=table.source,
        covariates=tuple((name, values[keep]) for name, values in covariates.items()),
        numbers=tuple((name, values[keep]) for name, (values, _) in numbers.items()),
        tags=tuple(Tag(n, tag.levels, tag.codes[rows][keep]) for n, tag in tags.items()),
        # Of a battle without a winner neither backbone's score is known to fail.
        failed=None
        if opponent is not None
        else Failed(tuple(labels), np.array(lost, np.int64).reshape(len(labels), -1).T),
        opponent=opponent,
    )
    return scores, used


def no_usable_row(n_rows: int, column: str) -> Problem:
    """Say that no row is left."""
    return Problem(
        "error",
        f"none of the {n_rows:,} rows has a usable score and all its labels",
        f"column {column!r}",
        n_rows,
        "Check that the right column is the score, with --column score=COLUMN",
    )


def one_level_only(measured: str, level: str, column: str, n_rows: int) -> Problem:
    """Say that nothing can be compared with the only backbone, or language."""
    verb = "rank" if measured == "backbone" else "compare"
    return Problem(
        "error",
        f"there is one {measured} only, {level!r}, and nothing to {verb}",
        f"column {column!r}",
        n_rows,
        f"Give scores of two {measured}s or more",
    )


def _codes_among(codes: NDArray[np.int64], present: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return where codes stand among those present; -1 where they do not."""
    at = np.minimum(np.searchsorted(present, codes), present.size - 1)
    return np.where(present[at] == codes, at, -1).astype(np.int64)


def _of_one_set(one: Labels, other: Labels) -> tuple[Labels, Labels]:
    """Return two columns of labels with the levels of both."""
    levels = tuple(sorted({*one.levels, *other.levels}))
    position = {level: i for i, level in enumerate(levels)}

    def moved(labels: Labels) -> Labels:
        lookup = np.array([*(position[level] for level in labels.levels), -1], dtype=np.int64)
        return replace(labels, codes=lookup[labels.codes], levels=levels)

    return moved(one), moved(other)


def _check_scales(
    table: RawTable,
    rows: NDArray[np.int64],
    score: NDArray[np.float64],
    facets: Sequence[Facet],
    unused: Sequence[str],
    measured: Facet,
) -> tuple[Problem, ...]:
    """Look for a second scale in each facet, and in columns of few levels."""
    named = {facet.name: facet for facet in facets}
    answer = [facet for facet in facets if facet.name not in (measured.name, "judge")]
    codes, sizes = [f.codes for f in answer], [f.n_levels for f in answer]
    same = cell_keys(codes, sizes)[0] if answer else np.zeros(rows.size, dtype=np.int64)
    groups = [(facet.name, facet.codes) for facet in answer]
    for name in unused:
        labels = table.columns[name].labels
        if 2 <= len(labels.levels) <= MAX_GROUP_LEVELS:
            groups.append((name, labels.codes[rows]))
    judge = named.get("judge")
    return check_scales(
        score,
        None if judge is None else (judge.levels, judge.codes),
        measured.codes,
        same,
        groups,
    )


def listed(names: Iterable[str]) -> str:
    """Write names for a message, the first twenty of them."""
    names = list(names)
    return ", ".join(map(repr, names[:20])) + (", ..." if len(names) > 20 else "")
