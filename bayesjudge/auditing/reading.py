"""Reading a table for the audit: languages are compared, backbones need not be there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from bayesjudge.auditing.table import NUMBERS, PAIR, TAGS
from bayesjudge.scores.building import read_scores
from bayesjudge.scores.table import Scores


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
    return read_scores(source, **language_keywords({"columns": named, **keywords}))
