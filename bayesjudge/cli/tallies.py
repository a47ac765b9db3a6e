"""Tables that are answered from their moments: which, and the road there."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bayesjudge.cli.answers import Part, Road, Tallied, finish, worth_saying
from bayesjudge.cli.messages import say_notes, say_problems, working
from bayesjudge.cli.options import OutputOptions, named_together, one_or_many
from bayesjudge.cli.store_sources import names_store, stored_tally
from bayesjudge.errors import BayesjudgeError, UsageError
from bayesjudge.report.files import checked_folder
from bayesjudge.report.sentences import reading_sentences
from bayesjudge.score_store import is_store
from bayesjudge.scores import Tally, read_tally
from bayesjudge.scores.files import (
    JSON_SUFFIXES,
    PARQUET_SUFFIXES,
    TEXT_SUFFIXES,
    find_paths,
    suffix,
    tables_of_folder,
)
from bayesjudge.scores.formats import READERS, find_format

# Memory that a byte of a file takes as rows, and the share of memory that they may take.
_PARQUET, _TEXT = 20, 5
_SHARE = 0.5

TAKEN = (
    "read as counts and sums by cell: as rows these files would take more than half of the "
    "memory (--no-moments reads rows)"
)


def takes_moments(
    sources: Sequence[str], wanted: bool | None, by: str | None, needs: Sequence[str] = ()
) -> bool:
    """Whether a table is passed over where it is, and answered from its moments.

    Parameters
    ----------
    sources : sequence of str
    wanted : bool or None
        What the user said. None: where the files are too large to be read as rows.
    by : str or None
        Column that parts the table.
    needs : sequence of str
        Options in use that need every score.

    Raises
    ------
    UsageError
        Where moments are asked for together with what needs rows.
    """
    needs = [*needs, *(["--by"] if by is not None else [])]
    if names_store(sources, wanted, needs):
        return True
    if wanted and needs:
        raise UsageError(
            f"{', '.join(needs)} needs every score, and moments hold none",
            "--moments",
            "Leave one of the two out; a part of the table can be kept with --where",
        )
    if wanted is not None or needs:
        return bool(wanted)
    memory = memory_of_machine()
    size = size_as_rows(sources)
    return memory is not None and size is not None and size > _SHARE * memory


def size_as_rows(sources: Sequence[str]) -> int | None:
    """Return about how many bytes files take as rows; None where no moments are taken of them."""
    size = 0
    try:
        for file in _files(sources):
            kind = suffix(file)
            if kind not in (*PARQUET_SUFFIXES, *JSON_SUFFIXES, *TEXT_SUFFIXES):
                return None
            size += file.stat().st_size * (_PARQUET if kind in PARQUET_SUFFIXES else _TEXT)
    except (BayesjudgeError, OSError):
        # Whoever reads it says what is wrong.
        return None
    return size


def memory_of_machine() -> int | None:
    """Return the machine's memory in bytes; None where the system does not say."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return None


def answer_tally(
    sources: Sequence[str], keywords: Mapping[str, Any], chosen: bool, road: Road
) -> None:
    """Pass over a table where it is, and answer it from its moments.

    Parameters
    ----------
    sources : sequence of str
    keywords : mapping
        Of ``bayesjudge.read_scores``.
    chosen : bool
        The user asked for it: otherwise it is said why.
    road : Road

    Raises
    ------
    DataError
        Where the table cannot be passed over, or be answered.
    """
    folder = checked_folder(road.output.out, road.names)
    tallied = read_tallied(sources, keywords, road.output, chosen)
    finish(road.answer(Part(tallied, named_together(sources))), road, folder)


def read_tallied(
    sources: Sequence[str], keywords: Mapping[str, Any], output: OutputOptions, chosen: bool
) -> Tallied:
    """Pass over a table, and say what was taken for what and what is wrong but for errors.

    Where the user did not choose it, it is said why; of a store there is no choice.

    Raises
    ------
    UsageError
        Where a format is named: other tools' logs are read as rows.
    """
    if is_store(sources[0]):
        return _aloud(stored_tally(sources[0], keywords, output), output)
    if not chosen:
        say_notes([TAKEN], output.quiet)
    if keywords.get("format") is not None:
        raise UsageError(
            "moments are taken of CSV, JSONL and Parquet tables, not of other tools' logs",
            f"--format {keywords['format']}",
            "Convert them first with `bayesjudge convert`, or use --no-moments",
        )
    asked = {name: value for name, value in keywords.items() if name != "format"}
    with working("passing over the table", output.shows_progress):
        tally = read_tally(one_or_many(sources), **asked)
    return _aloud(tally, output)


def _aloud(tally: Tally, output: OutputOptions) -> Tallied:
    say_notes(reading_sentences(tally.mapping, ()), output.quiet)
    say_problems(worth_saying(tally.problems), output.quiet)
    return Tallied(tally)


def _files(sources: Sequence[str]) -> list[Path]:
    found: list[Path] = []
    for source in sources:
        for path in find_paths(source):
            found += tables_of_folder(path) if path.is_dir() else [path]
    if any(find_format(file) in READERS for file in found):
        raise UsageError("a tool's log is read as rows")
    return found
