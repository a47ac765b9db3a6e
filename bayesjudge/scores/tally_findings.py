"""What is wrong with a table that was passed over, in the words of a table that was read.

The moments tell whether there is anything to look for; rows are fetched only where
they are left out or refused, and no more of them than ``MOST_ROWS``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayesjudge.errors import DataError
from bayesjudge.scores.assembling import (
    Options,
    no_column,
    no_label,
    one_level_only,
)
from bayesjudge.scores.checking import (
    SENTINELS,
    VERDICTS,
    check_labels,
    check_scale,
    count,
    parse_number,
    parse_scores,
    warn_of_emptied,
    warn_of_marks,
)
from bayesjudge.scores.columns import Resolved, Wishes
from bayesjudge.scores.design import describe_design, one_level, problems_of_design
from bayesjudge.scores.duplicates import check_duplicates
from bayesjudge.scores.frames import part_of
from bayesjudge.scores.grouping import collect, count_distinct, distinct_levels, usable_rows
from bayesjudge.scores.moments import Moments, owners_of_generation
from bayesjudge.scores.opening import Opened
from bayesjudge.scores.problems import Problem
from bayesjudge.scores.raw import Column, RawTable, text_of
from bayesjudge.scores.table import Facet, Scores

type Ints = NDArray[np.int64]

MOST_ROWS = 2_000_000
"""Rows left out that are fetched to be told apart."""

MOST_CELLS = 1000
"""Cells of several scores that are fetched to say in what they differ."""


@dataclass(frozen=True, eq=False)
class Pass:
    """A source, its columns, and the moments by all of its facets.

    Attributes
    ----------
    opened : Opened
        Of the rows to keep, with the number that each score is.
    resolved : Resolved
    roles : mapping of str to str
        As ``take_moments`` was given them.
    moments : Moments
    wishes, options
        What the user said.
    """

    opened: Opened
    resolved: Resolved
    roles: Mapping[str, str]
    moments: Moments
    wishes: Wishes
    options: Options

    @property
    def score(self) -> str:
        """The source's column of scores."""
        return dict(self.resolved.mapping)["score"]


def keep_rows(
    opened: Opened, resolved: Resolved, where: Sequence[tuple[str, str]]
) -> tuple[Opened, tuple[Problem, ...]]:
    """Do as ``assembling.filter_rows``, where the rows are."""
    import narwhals as nw

    for column in dict.fromkeys(column for column, _ in where):
        wanted = [label for name, label in where if name == column]
        name = column if column in opened.names else resolved.column(column)
        if name is None:
            return opened, (no_column(column, wanted[0], opened.names),)
        frame: Any = nw.from_native(opened.frame)
        found = collect(frame.select(name).group_by(name).agg(nw.len().alias("n")))
        values = Column((part_of(found.get_column(name)),)).coded.values
        texts = {value: text_of(value) for value in values}
        known = sorted(text for text in texts.values() if text is not None)
        for label in wanted:
            if label not in known:
                return opened, (no_label(column, name, label, known),)
        kept = [value for value, text in texts.items() if text in wanted]
        frame = frame.filter(nw.col(name).is_in(kept))
        opened = replace(opened, frame=frame.to_native())
    return opened, ()


def score_to_sum(opened: Opened, resolved: Resolved, missing: Sequence[str]) -> tuple[Opened, str]:
    """Find the column of numbers that is summed: null where a score is named as missing.

    Returns
    -------
    Opened
    str
        Name of the column.
    """
    import narwhals as nw

    column = dict(resolved.mapping)["score"]
    named = [n for n in map(_named_number, missing) if np.isfinite(n)]
    if opened.is_text(column):
        return opened.with_number(column, missing, named)
    if not missing:
        return opened, column
    frame: Any = nw.from_native(opened.frame)
    if frame.collect_schema()[column] == nw.Boolean:
        values: list[Any] = [value for value in (True, False) if text_of(value) in missing]
    else:
        values = named
    if not values:
        return opened, column
    name = opened.free_name(f"{column} unless missing")
    number = nw.col(column).cast(nw.Float64)
    frame = frame.with_columns(nw.when(~number.is_in(values)).then(number).alias(name))
    return replace(opened, frame=frame.to_native(), names=(*opened.names, name)), name


def _named_number(wanted: str) -> float:
    if "_" in wanted or wanted.strip().lower() in VERDICTS:
        return float("nan")
    return parse_number(wanted)


def findings(passed: Pass) -> list[Problem]:
    """Find what reading the table would have found, but for a second scale.

    Raises
    ------
    DataError
        Where a score is a number to Python and none to the engine.
    """
    moments, resolved, options = passed.moments, passed.resolved, passed.options
    problems = [*_left_out(passed), *_verdicts(passed)]
    measured = passed.wishes.measured
    if moments.n_levels(measured) < 2:
        level = moments.levels[moments.facets.index(measured)][0]
        column = dict(resolved.mapping)[measured]
        problems.append(one_level_only(measured, level, column, moments.n_scores))
    if moments.n_repeated and not options.replicates:
        problems.extend(_repeats(passed))
    problems.extend(_scale(passed))
    problems.append(
        Problem(
            "note",
            "no second scale among the scores was looked for, which takes the rows themselves",
            f"column {passed.score!r}",
        )
    )
    if measured == "backbone":
        problems.extend(_design(passed))
    return problems


class _Fetched(RawTable):
    """Some rows of a source, whose numbers there nobody knows."""

    def name_rows(self, rows: Any, most: int = 5) -> str:  # noqa: ARG002
        """Count rows instead of naming them."""
        return count(len(list(rows)), "row", "rows")


def _fetch(passed: Pass, frame: Any, names: Sequence[str]) -> tuple[RawTable, Ints]:
    found = collect(frame.select(*names))
    columns = {name: Column((part_of(found.get_column(name)),)) for name in names}
    table = _Fetched(passed.opened.name, columns, ((passed.opened.name, len(found)),))
    return table, np.arange(len(found))


def _left_out(passed: Pass) -> list[Problem]:
    """Tell why rows were left out, by the rows themselves."""
    columns, options = dict(passed.resolved.mapping), passed.options
    n_excluded = passed.moments.n_excluded
    if not n_excluded and not options.missing:
        return []
    names = list(dict.fromkeys([passed.score, *(columns[f] for f in passed.resolved.facets)]))
    out = usable_rows(passed.opened.frame, passed.roles, usable=False)
    table, rows = _fetch(passed, out.head(MOST_ROWS), names)
    parsed = parse_scores(table, passed.score, rows, options.missing, options.strict)
    problems = [p for p in parsed.problems if "read as 1 and 0" not in p.what]
    labelled = np.ones(rows.size, bool)
    for facet in passed.resolved.facets:
        labels, more = check_labels(table, facet, columns[facet], rows, options.strict)
        problems.extend(more)
        labelled &= labels.codes >= 0
        kept = set(_kept_levels(passed, facet, table.columns[columns[facet]]))
        after = np.flatnonzero([level in kept for level in labels.levels])
        problems.extend(warn_of_emptied(facet, labels.levels, labels.codes, after))
    if (np.isfinite(parsed.score) & labelled).any():
        at = int(np.flatnonzero(np.isfinite(parsed.score) & labelled)[0])
        value = table.columns[passed.score].coded.values[
            table.columns[passed.score].coded.codes[at]
        ]
        raise DataError(
            f"the score {value!r} is a number to Python but none to DuckDB",
            f"column {passed.score!r}",
            "Write it in digits 0-9, or read the table with read_scores",
        )
    if n_excluded > MOST_ROWS:
        what = f"of {n_excluded:,} rows left out, the first {MOST_ROWS:,} were told apart"
        problems.append(Problem("note", what, passed.opened.name, n_excluded))
    return problems


def _kept_levels(passed: Pass, facet: str, column: Column) -> tuple[str, ...]:
    """Return the labels of a facet that have a usable score, of generations those asked for."""
    import narwhals as nw

    if facet != "generation":
        return passed.moments.levels[passed.moments.facets.index(facet)]
    name = passed.roles[facet]
    kept = usable_rows(passed.opened.frame, passed.roles, usable=True)
    kept = kept.select(name).filter(nw.col(name).is_in(list(column.coded.values)))
    return distinct_levels(kept.to_native(), name)[0] if column.coded.values else ()


def _verdicts(passed: Pass) -> list[Problem]:
    """Say how many scores are truth values."""
    import narwhals as nw

    score, frame = passed.score, nw.from_native(passed.opened.frame)
    boolean = frame.collect_schema()[score] == nw.Boolean
    n = 0
    if boolean:
        n = passed.moments.n_scores
    elif passed.opened.is_text(score):
        n = passed.opened.count_verdicts(score, passed.options.missing)
    if not n:
        return []
    what = f"{count(n, 'score is', 'scores are')} true or false, read as 1 and 0"
    return [Problem("note", what, f"column {score!r}", n)]


def _repeats(passed: Pass) -> tuple[Problem, ...]:
    """Fetch some of the cells of several scores, and say in what their rows differ."""
    import narwhals as nw

    keys = [passed.roles[f] for f in passed.resolved.facets]
    kept = usable_rows(passed.opened.frame, passed.roles, usable=True)
    n = passed.opened.free_name("n")
    cells = kept.group_by(*keys).agg(nw.len().alias(n)).filter(nw.col(n) > 1)
    totals = collect(cells.select(nw.len().alias("cells"), nw.col(n).sum().alias("rows")))
    total = tuple(int(totals.get_column(name).to_numpy()[0]) for name in ("cells", "rows"))
    some = cells.sort(*keys).head(MOST_CELLS).select(*keys)
    rows = kept.join(some, on=keys, how="inner")
    columns = dict(passed.resolved.mapping)
    added = {passed.roles["score"]} - {passed.score}
    table, at = _fetch(passed, rows, [x for x in passed.opened.names if x not in added])
    facets = [
        (f, table.columns[columns[f]].labels.levels, table.columns[columns[f]].labels.codes)
        for f in passed.resolved.facets
    ]
    return check_duplicates(table, at, facets, passed.resolved.unused, (total[0], total[1]))


def _scale(passed: Pass) -> tuple[Problem, ...]:
    """Find scores outside the scale, or marks of a failure where none was stated."""
    import narwhals as nw

    moments, scale = passed.moments, passed.options.scale
    low, high = float(moments.low.min()), float(moments.high.max())
    kept = usable_rows(passed.opened.frame, passed.roles, usable=True)
    value = nw.col(passed.roles["score"])
    if scale is not None:
        if scale[0] <= low and high <= scale[1]:
            return ()
        outside = kept.filter((value < scale[0]) | (value > scale[1]))
        table, rows = _fetch(passed, outside.head(MOST_ROWS), [passed.roles["score"]])
        coded = table.columns[passed.roles["score"]].coded
        score = np.array([*map(parse_number, coded.values), np.nan])[coded.codes]
        return check_scale(table, passed.score, rows, score, scale)
    if low >= 0:
        return ()
    names = [f"mark{i}" for i in range(len(SENTINELS))]
    flags = kept.select(
        (value < 0).cast(nw.Int64).alias("below"),
        *(
            (value == mark).cast(nw.Int64).alias(n)
            for n, mark in zip(names, SENTINELS, strict=True)
        ),
    )
    sums = collect(flags.select(*(nw.col(n).sum() for n in ("below", *names))))
    below, *marked = (int(sums.get_column(n).to_numpy()[0]) for n in ("below", *names))
    values = sorted(mark for mark, n in zip(SENTINELS, marked, strict=True) if n)
    where = f"column {passed.score!r}, {count(sum(marked), 'row', 'rows')}"
    return warn_of_marks(where, values, sum(marked), below, moments.n_scores)


def _design(passed: Pass) -> list[Problem]:
    """Say what the design leaves open, from the cells and their counts."""
    moments = passed.moments
    names = [name for name in passed.resolved.facets if name != "generation"]
    cells = Scores(
        score=moments.total / moments.count,
        facets=tuple(
            Facet(
                name,
                passed.wishes.role_of(name),
                moments.levels[moments.facets.index(name)],
                moments.codes_of(name),
            )
            for name in names
        ),
    )
    design = describe_design(cells, moments.count)
    problems = list(problems_of_design(cells, design, moments.count))
    lone = _only_generation(passed)
    if lone is not None:
        problems.append(one_level("generation", lone, moments.n_scores))
    return problems


def _only_generation(passed: Pass) -> str | None:
    """Return the label of the generation where there is one label only."""
    moments = passed.moments
    if moments.generations is None:
        return None
    owners = owners_of_generation(passed.resolved.facets, moments.blocks)
    answers = np.unique(np.column_stack([moments.codes_of(f) for f in owners]), axis=0)
    if moments.generations.n_generations > len(answers):
        return None
    kept = usable_rows(passed.opened.frame, passed.roles, usable=True)
    column = passed.roles["generation"]
    native = kept.select(column).to_native()
    return distinct_levels(native, column)[0][0] if count_distinct(native, [column]) == 1 else None
