"""A store of scores named where a table could be: what answers from it, and what cannot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bayesjudge.cli.messages import say_notes
from bayesjudge.cli.options import OutputOptions
from bayesjudge.errors import DataError, UsageError
from bayesjudge.score_store import is_store, open_store
from bayesjudge.scores import Tally

_OF_A_SOURCE = ("columns", "ignore", "strict", "format")


def names_store(sources: Sequence[str], wanted: bool | None, needs: Sequence[str]) -> bool:
    """Whether the source is a store, which holds sums and no rows.

    Parameters
    ----------
    sources : sequence of str
    wanted : bool or None
        Whether the user wants moments or rows; None where nothing was said.
    needs : sequence of str
        Options in use that need every score.

    Raises
    ------
    UsageError
        Where rows are wanted or needed, or something else is named beside the store.
    """
    stores = [source for source in sources if is_store(source)]
    if not stores:
        return False
    if len(sources) > 1:
        raise UsageError("a store of scores is answered by itself", stores[0], "Name it alone")
    lacking = [*needs, *(["--no-moments"] if wanted is False else [])]
    if lacking:
        raise UsageError(
            f"{', '.join(lacking)} needs every score by itself, and a store holds sums",
            stores[0],
            "Leave it out, or name the files that were appended",
        )
    return True


def stored_tally(path: str, keywords: Mapping[str, Any], output: OutputOptions) -> Tally:
    """Tally a store for a command that was given reading options.

    Raises
    ------
    DataError
        Where it is damaged, or cannot be answered.
    UsageError
        Where options would read sources otherwise than they were read.
    """
    given = {n: v for n, v in keywords.items() if n not in ("covariates", "random")}
    told = [name for name in _OF_A_SOURCE if given.get(name)]
    if told:
        raise UsageError(
            f"{', '.join(told)} can be said when scores are appended, and these were",
            path,
            "Leave it out",
        )
    store = open_store(path, **given)
    manifest = store.manifest
    say_notes(
        [f"store: {manifest.n_scores:,} scores of {len(manifest.appends):,} appends"], output.quiet
    )
    return store.tally(random=tuple(keywords.get("random", ())))


def refuse_stores(sources: Sequence[str]) -> None:
    """Refuse a store where rows are read.

    Raises
    ------
    DataError
        Naming it.
    """
    for source in sources:
        if is_store(source):
            raise DataError(
                "this takes the scores themselves, and a store of scores holds sums",
                source,
                "Name the files that were appended; `bayesjudge store` lists them",
            )
