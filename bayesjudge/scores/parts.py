"""A table that is one of several: a day's scores, to be put together with those before."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from bayesjudge.errors import UsageError
from bayesjudge.scores.assembling import Reading, assemble, filter_rows, in_order
from bayesjudge.scores.battles import battle_columns
from bayesjudge.scores.building import Pairs, read_problems, read_source, take_arguments
from bayesjudge.scores.columns import resolve_columns
from bayesjudge.scores.problems import Problem


def scan_part(
    source: Any,
    *,
    columns: Pairs | None = None,
    where: Pairs = (),
    facets: tuple[str, ...] = (),
    random: tuple[str, ...] = (),
    ignore: tuple[str, ...] = (),
    scale: tuple[float, float] | None = None,
    lower_is_better: bool = False,
    missing: tuple[object, ...] = (),
    strict: bool = False,
    replicates: bool = False,
    format: str | None = None,  # noqa: A002
) -> Reading:
    """Read a table as ``scan`` does, but do not ask whether it could be answered by itself.

    It may hold one backbone only, or backbones that nothing connects.

    Parameters
    ----------
    source, columns, where, facets, random, ignore, scale, lower_is_better, \
missing, strict, replicates, format
        As in ``read_scores``.

    Returns
    -------
    Reading
        Without a design.

    Raises
    ------
    DataError
        Where the source cannot be read at all.
    UsageError
        Where arguments contradict one another, or the table holds battles.
    """
    wishes, options = take_arguments(
        columns, where, facets, random, ignore, scale, lower_is_better, missing, strict,
        replicates, (), "backbone", (), (),
    )  # fmt: skip
    table = read_source(source, format, wishes)
    if battle_columns(tuple(table.columns), wishes.columns) is not None:
        raise UsageError(
            "battles cannot be put together part by part",
            table.source,
            "Keep their files and rank them together",
        )
    resolved = resolve_columns(tuple(table.columns), wishes)
    rows, problems = filter_rows(table, resolved, options.where)
    problems += read_problems(table, options.strict)
    part = replace(options, part=True)
    found = assemble(table, resolved, wishes, part, rows, problems)
    if found.scores is None or found.scores.human_score is None:
        return found
    column = resolved.column("human_score")
    note = Problem(
        "note",
        f"the human scores in {column!r} are not kept: they are compared row by row",
        f"column {column!r}",
    )
    every = in_order([*found.problems, note])
    return replace(found, scores=replace(found.scores, problems=every), problems=every)
