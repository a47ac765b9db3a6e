"""Reading a table for the audit: languages are compared, backbones need not be there."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from os import PathLike
from typing import Any

from bayesjudge.auditing.table import NUMBERS, PAIR, TAGS, tells_pairs
from bayesjudge.errors import BayesjudgeError
from bayesjudge.scores.assembling import Reading
from bayesjudge.scores.building import scan
from bayesjudge.scores.problems import Problem
from bayesjudge.scores.reading import read_raw
from bayesjudge.scores.table import Scores

_DIFFER = "; the rows differ in "


def language_keywords(keywords: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments of ``read_scores`` with those that the audit adds.

    A column mapped to ``pair`` is a facet: both answers of a pair stand in the table.
    """
    given = dict(keywords)
    columns = given.get("columns") or ()
    roles = columns if isinstance(columns, Mapping) else [role for role, _ in columns]
    facets = given.get("facets") or ()
    facets = (facets,) if isinstance(facets, str) else tuple(facets)
    if PAIR in roles and PAIR not in facets:
        facets = (*facets, PAIR)
    return given | {"facets": facets, "measured": "language", "numbers": NUMBERS, "tags": TAGS}


def read_languages(
    source: Any,
    *,
    columns: Mapping[str, str] | Iterable[tuple[str, str]] | None = None,
    **keywords: Any,
) -> Scores:
    """Read a table of scores for :func:`bayesjudge.audit`.

    Parameters
    ----------
    source : path, glob, folder, list of paths, or data frame
        With a column ``language``; a column of items is the scenario. Taken along
        where they are there: numbers ``nll``, ``n_tokens``, ``web_share``, and ``n`` and
        ``sd`` of cell means; text ``verdict_tag``, ``parse_ok``, ``lid_language``,
        ``text``, ``resource``.
    columns : mapping of str to str, optional
        Role to column; ``pair`` tells preferred answers from the others.
    **keywords
        As :func:`bayesjudge.read_scores` takes them.

    Returns
    -------
    Scores

    Raises
    ------
    DataError, UsageError
        As :func:`bayesjudge.read_scores`.
    """
    named = columns if columns is None or isinstance(columns, Mapping) else list(columns)
    given = language_keywords({"columns": named, **keywords})
    return explained(scan(source, **given), source, given.get("format")).require(
        str(source) if isinstance(source, str | PathLike) else "table"
    )


def explained(reading: Reading, source: Any, format_name: str | None = None) -> Reading:
    """Say of a table that was refused what it would need to be audited.

    Parameters
    ----------
    reading : Reading
        As ``scan`` gave it with :func:`language_keywords`.
    source : path, glob, folder, list of paths, or data frame
        Where it was read from: looked at again where cells hold several scores, for a
        column of two labels that tells the answers of pairs apart.
    format_name : str or None
    """
    told = tuple(_explain(p, reading, source, format_name) for p in reading.problems)
    return reading if told == reading.problems else replace(reading, problems=told)


def _explain(problem: Problem, reading: Reading, source: Any, format_name: str | None) -> Problem:
    if problem.severity != "error":
        return problem
    if problem.what == "no column is known to be the language":
        return replace(
            problem,
            what="the audit compares languages, and no column of this table is known to be the "
            "language",
            remedy="If one of these is it say --column language=COLUMN; without languages there "
            "is nothing to audit, and bayesjudge rank compares what was judged",
        )
    if _DIFFER not in problem.what:
        return problem
    differing = problem.what.split(_DIFFER, 1)[1]
    try:
        table = read_raw(source, format_name)
    except BayesjudgeError:
        return problem
    for name in reading.unused_columns:
        if name not in table.columns or repr(name) not in differing:
            continue
        labels = table.columns[name].labels.levels
        sure = tells_pairs(labels)
        if sure is False:
            continue
        say = _quoted(f"{PAIR}={name}")
        pair = f"If {name!r} tells the preferred answer of a pair from the other say --column {say}"
        if sure is None:
            return replace(problem, remedy=f"{pair}. {problem.remedy}")
        one = _quoted(f"{name}={labels[0]}")
        return replace(
            problem,
            remedy=f"{pair} (as a facet both answers would count alike), to keep one answer only "
            f"--where {one}",
        )
    return problem


def _quoted(text: str) -> str:
    return text if re.fullmatch(r"[\w=.-]+", text) else f"'{text}'"
