"""MT-Bench judgments: ``<judge>_single.jsonl``, one answer and turn a line."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from bayesjudge.errors import DataError
from bayesjudge.scores.formats.cells import (
    failed,
    label,
    many,
    name_of,
    number,
    optional_label,
    scored,
)
from bayesjudge.scores.formats.findings import Cell, Finding, Row
from bayesjudge.scores.formats.records import Record, fields_of, read_records, rows_of

UNPARSED = -1


def read_mt_bench(path: Path) -> Iterator[Finding]:
    """Read judgments of single answers; −1 marks a reply without a rating.

    Raises
    ------
    DataError
        Where they are of pairs, in which no answer has a score of its own.
    """
    document = read_records(path, [()])
    pairs = [
        record
        for record in document.records
        if isinstance(record.value, dict) and "model_1" in record.value
    ]
    if pairs:
        raise DataError(
            f"{len(pairs):,} judgments are of pairs, in which no answer has a score of its own",
            str(path),
            "Give judgments of single answers (FastChat's --mode single)",
        )
    yield from document.asides
    yield from rows_of(document.records, _rows, "judgment", "judgments")


def _rows(record: Record) -> Iterator[Row]:
    fields = fields_of(record, "judgment")
    judge = fields.get("judge")
    names = [name_of(name) for name in many(judge)] or [name_of(judge)]
    cells: dict[str, Cell] = {
        "scenario": label(fields.get("question_id"), "question_id"),
        "backbone": label(fields.get("model"), "model"),
        "judge": names[0],
        "turn": optional_label(fields.get("turn"), "turn"),
    }
    if len(names) > 1:
        cells["judge_prompt"] = names[1]
    stamp = fields.get("tstamp")
    if isinstance(stamp, int | float | str):
        cells["tstamp"] = optional_label(stamp, "tstamp")
    score = fields.get("score")
    if number(score) == UNPARSED and not isinstance(score, bool):
        yield Row({**cells, **failed("judge: no rating in its reply (-1)")})
    else:
        yield Row({**cells, **scored(score)})
