"""AlpacaEval annotations: a judge's preference between a model and a reference."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from bayesjudge.scores.formats.cells import (
    failed,
    label,
    name_of,
    number,
    shown,
    text_label,
)
from bayesjudge.scores.formats.findings import Cell, Finding, Row
from bayesjudge.scores.formats.records import Record, fields_of, read_records, rows_of
from bayesjudge.scores.problems import Problem

DRAWS = (0.0, 1.5)
"""Both say that neither output is better; which one depends on the annotator's age."""


def read_alpaca_eval(path: Path) -> Iterator[Finding]:
    """Read annotations: one row an instruction, the second model's score against the first.

    The score is ``preference - 1``: 0 where the reference is preferred, 1 where
    the model is, so that its mean is AlpacaEval's win rate.
    """
    document = read_records(path, [()])
    yield from document.asides
    yield from rows_of(document.records, _rows, "annotation", "annotations")
    references = sorted(
        {
            name
            for record in document.records
            if isinstance(record.value, dict) and (name := name_of(record.value.get("generator_1")))
        }
    )
    told = f"scores are preferences against {', '.join(references[:4]) or 'a reference unnamed'}"
    if len(references) > 1:
        yield Problem(
            "warning",
            f"{told}{', ...' if references[4:] else ''}: against several references they are "
            "no one scale",
            "column 'reference'",
            remedy="Keep one with --where reference=NAME",
        )
    else:
        yield Problem("note", f"{told}: 1 where the model is preferred, 0 where the reference is")


def _rows(record: Record) -> Iterator[Row]:
    fields = fields_of(record, "annotation")
    index = fields.get("instruction")
    cells: dict[str, Cell] = {
        "backbone": label(fields.get("generator_2"), "generator_2"),
        "scenario": text_label(index, "instruction") or label(None, "instruction"),
        "judge": name_of(fields.get("annotator")),
        "reference": name_of(fields.get("generator_1")),
    }
    if name_of(fields.get("dataset")):
        cells["dataset"] = name_of(fields.get("dataset"))
    preference = fields.get("preference")
    value = number(preference) if not isinstance(preference, bool) else None
    if value in DRAWS:
        yield Row({**cells, "score": 0.5, "verdict": "draw"})
    elif value is None:
        yield Row({**cells, **failed("judge: no preference in its reply")})
    elif not 1 <= value <= 2:
        yield Row({**cells, **failed(f"no preference from 1 to 2: {shown(preference)}")})
    else:
        yield Row({**cells, "score": value - 1})
