"""A table as its moments and what it says of itself beside its rows.

What answers from moments need of a table, whether it was in memory or never came
there: ``read_tally`` passes over a source where it is, ``tally_of_scores`` over
scores that were read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from bayesjudge.errors import DataError, UsageError
from bayesjudge.scores.assembling import Reading, in_order, no_usable_row
from bayesjudge.scores.battles import battle_columns
from bayesjudge.scores.building import Pairs, ask_whether_wide, take_arguments
from bayesjudge.scores.columns import Resolved, Wishes, resolve_columns
from bayesjudge.scores.grouping import NoUsableRowError, take_moments
from bayesjudge.scores.moments import Moments, moments_of_scores, split_facets
from bayesjudge.scores.opening import Opened, open_source
from bayesjudge.scores.problems import Problem
from bayesjudge.scores.table import Faceted, Role, Scores
from bayesjudge.scores.tally_findings import Pass, findings, keep_rows, score_to_sum


@dataclass(frozen=True)
class FacetLabels:
    """One facet of a table, by its labels.

    Attributes
    ----------
    name : str
    role : {"panel", "random"}
    levels : tuple of str
        Sorted by code point. Empty for the generation, whose labels are not kept.
    """

    name: str
    role: Role
    levels: tuple[str, ...]

    @property
    def n_levels(self) -> int:
        """Number of levels; 0 for the generation."""
        return len(self.levels)


@dataclass(frozen=True, eq=False)
class Tally(Faceted[FacetLabels]):
    """A table of scores by its moments.

    Attributes
    ----------
    moments : Moments
    facets : tuple of FacetLabels
        Of the table, in the order of ``Scores.facets``; moments are taken by those
        of ``moments.facets``.
    scale : (low, high) or None
        What the user said that scores can be.
    lower_is_better : bool
        Rank 1 is the lowest mean.
    replicates : bool
        Rows that share a cell were declared to be repeated calls.
    n_repeated : int
        Cells of all facets, the generation's among them, that hold more than one score;
        0 unless ``replicates``.
    mapping : tuple of (role, column)
        Which column of the source serves as what.
    problems : tuple of Problem
        Warnings and notes, in order.
    source : str
        Where the table came from, for messages.
    """

    moments: Moments
    facets: tuple[FacetLabels, ...]
    scale: tuple[float, float] | None = None
    lower_is_better: bool = False
    replicates: bool = False
    n_repeated: int = 0
    mapping: tuple[tuple[str, str], ...] = ()
    problems: tuple[Problem, ...] = ()
    source: str = "table"

    def __len__(self) -> int:
        return self.moments.n_scores

    def __repr__(self) -> str:
        facets = ", ".join(f"{f.name} {f.n_levels:,}" if f.levels else f.name for f in self.facets)
        excluded = f", {self.n_excluded:,} rows excluded" if self.n_excluded else ""
        return f"Tally: {len(self):,} scores; {facets}{excluded}"

    @property
    def n_excluded(self) -> int:
        """Rows left out, each accounted for in ``problems``."""
        return self.moments.n_excluded


def tally_of_scores(
    scores: Scores,
    blocks: Sequence[str] | None = None,
    cells: Sequence[str] | None = None,
    location: float | None = None,
) -> Tally:
    """Tally a table in memory.

    Parameters
    ----------
    scores : Scores
    blocks, cells, location
        As in ``moments_of_scores``.

    Returns
    -------
    Tally

    Raises
    ------
    UsageError
        Where the table is one of battles or has covariates, or facets are named wrongly.
    """
    if scores.opponent is not None:
        raise _no_battles(scores.source)
    if scores.covariates:
        raise UsageError(
            "covariates are numbers of each row, which moments do not hold",
            scores.source,
            "Use the scores themselves, or read them without covariates",
        )
    blocks, cells = _parted(scores.facet_names, blocks, cells)
    every = moments = moments_of_scores(scores, blocks, cells, location)
    if set(every.facets) | {"generation"} != {*scores.facet_names, "generation"}:
        every = moments_of_scores(scores, *_parted(scores.facet_names, None, None))
    return Tally(
        moments=moments,
        facets=tuple(
            FacetLabels(f.name, f.role, () if f.name == "generation" else f.levels)
            for f in scores.facets
        ),
        scale=scores.scale,
        lower_is_better=scores.lower_is_better,
        replicates=scores.replicates,
        n_repeated=every.n_repeated,
        mapping=tuple(pair for pair in scores.mapping if pair[0] != "human_score"),
        problems=scores.problems,
        source=scores.source,
    )


def read_tally(
    source: Any,
    *,
    columns: Pairs | None = None,
    where: Pairs = (),
    facets: Iterable[str] = (),
    random: Iterable[str] = (),
    ignore: Iterable[str] = (),
    scale: tuple[float, float] | None = None,
    lower_is_better: bool = False,
    missing: Iterable[object] = (),
    strict: bool = False,
    replicates: bool = False,
    covariates: Iterable[str] = (),
    measured: str = "backbone",
    blocks: Sequence[str] | None = None,
    cells: Sequence[str] | None = None,
    location: float | None = None,
) -> Tally:
    """Pass over a table of scores where it is, keeping its moments only.

    Parameters
    ----------
    source : path, glob, folder, list of paths, or frame
        Parquet, CSV or JSONL files, which DuckDB reads (``scheme://`` paths of
        Parquet too); or a pandas, Polars, PyArrow, DuckDB, Dask or PySpark
        frame, eager or lazy.
    columns, where, facets, random, ignore, scale, lower_is_better, missing, \
strict, replicates, measured
        As in ``read_scores``.
    covariates : str or iterable of str
        Refused: no moments hold them.
    blocks, cells, location
        As in ``moments_of_scores``.

    Returns
    -------
    Tally
        Of the same moments and problems as ``tally_of_scores(read_scores(...))``,
        but that rows have no numbers and that no second scale was looked for.

    Raises
    ------
    DataError
        Listing every error found; also where the source cannot be read.
    UsageError
        Where arguments contradict one another or ask for what moments do not hold.
    """
    wishes, options = take_arguments(
        columns, where, facets, random, ignore, scale, lower_is_better, missing, strict,
        replicates, covariates, measured, (), (),
    )  # fmt: skip
    _refuse_wishes(wishes)
    opened = open_source(source)
    resolved, problems = _resolve(opened, wishes)
    if any(p.severity == "error" for p in problems):
        raise _refusal(opened, problems)
    opened, more = keep_rows(opened, resolved, options.where)
    if more:
        raise _refusal(opened, [*problems, *more])
    summed, number = score_to_sum(opened, resolved, options.missing)
    roles = {"score": number, **{f: dict(resolved.mapping)[f] for f in resolved.facets}}
    parted = _parted(resolved.facets, blocks, cells)
    try:
        moments = take_moments(summed.frame, roles, *parted, location)
    except NoUsableRowError as error:
        if error.n_rows == 0:
            raise DataError(
                "the table has a header but no rows", opened.name, "Give it one row per score"
            ) from error
        empty = no_usable_row(error.n_rows, dict(resolved.mapping)["score"])
        raise _refusal(opened, [*problems, empty]) from error
    every = moments
    if {*every.facets, "generation"} != {*resolved.facets, "generation"}:
        every = take_moments(summed.frame, roles, *_parted(resolved.facets, None, None), location)
    passed = Pass(summed, resolved, roles, every, wishes, options)
    problems = [*problems, *findings(passed)]
    if any(p.severity == "error" for p in problems):
        raise _refusal(opened, problems)
    return Tally(
        moments=moments,
        facets=_labelled(every, resolved, wishes),
        scale=options.scale,
        lower_is_better=options.lower_is_better,
        replicates=options.replicates,
        n_repeated=every.n_repeated,
        mapping=resolved.mapping,
        problems=in_order(problems),
        source=opened.name,
    )


def _refuse_wishes(wishes: Wishes) -> None:
    if wishes.covariates:
        raise UsageError(
            "covariates are numbers of each row, which moments do not hold",
            "covariates",
            "Read the table with read_scores, or use a model without covariates",
        )
    if "human_score" in wishes.columns:
        raise UsageError(
            "human scores are compared row by row, which moments do not allow",
            f"--column human_score={wishes.columns['human_score']}",
            "Read the table with read_scores",
        )


def _resolve(opened: Opened, wishes: Wishes) -> tuple[Resolved, list[Problem]]:
    """Find the columns; one of human scores that nobody named is passed over."""
    if battle_columns(opened.names, wishes.columns):
        raise _no_battles(opened.name)
    resolved = resolve_columns(opened.names, wishes)
    problems = list(resolved.problems)
    if not wishes.columns.get("score"):
        problems.extend(ask_whether_wide(opened.names))
    gold = resolved.column("human_score")
    if gold is not None:
        resolved = replace(
            resolved,
            mapping=tuple(pair for pair in resolved.mapping if pair[0] != "human_score"),
        )
        what = f"the human scores in {gold!r} were not read: they are compared row by row"
        problems.append(Problem("note", what, f"column {gold!r}"))
    return resolved, problems


def _parted(
    names: Sequence[str], blocks: Sequence[str] | None, cells: Sequence[str] | None
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Part facets as ``split_facets``; a table without its usual blocks has the first for one."""
    if blocks is None and not {"scenario", "backbone"} & ({*names} - {*(cells or ())}):
        blocks = [n for n in names if n != "generation" and n not in (cells or ())][:1]
    return split_facets(names, blocks, cells)


def _labelled(moments: Moments, resolved: Resolved, wishes: Wishes) -> tuple[FacetLabels, ...]:
    levels: Mapping[str, tuple[str, ...]] = dict(zip(moments.facets, moments.levels, strict=True))
    return tuple(
        FacetLabels(name, wishes.role_of(name), levels.get(name, ())) for name in resolved.facets
    )


def _refusal(opened: Opened, problems: Sequence[Problem]) -> DataError:
    try:
        Reading(None, in_order(problems), (), (), 0).require(opened.name)
    except DataError as error:
        return error
    raise AssertionError("no problem is an error")


def _no_battles(source: str) -> UsageError:
    return UsageError(
        "of battles no moments are taken: an outcome lies between two backbones",
        source,
        "Read the table with read_scores",
    )
