"""promptfoo results as CSV: a block of columns for each model and prompt."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bayesjudge.errors import DataError
from bayesjudge.scores.formats.cells import (
    Unreadable,
    failed,
    label,
    own_fields,
    scored,
    shown,
    text_label,
)
from bayesjudge.scores.formats.findings import Cell, Finding, Row
from bayesjudge.scores.formats.promptfoo import named_scores, says_no_reply
from bayesjudge.scores.formats.records import Record, read_csv_records, rows_of
from bayesjudge.scores.problems import Problem

_BLOCK = re.compile(r"\[(?P<model>[^\]]*)\] ?(?P<prompt>.*)", re.DOTALL)
_METRIC = "Metric: "
_STATES = ("PASS", "FAIL", "ERROR")


@dataclass(frozen=True)
class Block:
    """The columns of one model and prompt."""

    model: str
    prompt: str
    at: int
    columns: dict[str, int]


def blocks_of(header: Sequence[str]) -> list[Block]:
    """Find the blocks: a column named ``[model] prompt`` that a ``Status`` follows."""
    starts = [
        at
        for at, name in enumerate(header[:-1])
        if _BLOCK.fullmatch(name) and header[at + 1] == "Status"
    ]
    found: list[Block] = []
    for at, end in zip(starts, [*starts[1:], len(header)][: len(starts)], strict=True):
        match = _BLOCK.fullmatch(header[at])
        assert match is not None  # noqa: S101
        columns = {header[i]: i for i in range(at + 1, end)}
        found.append(Block(match.group("model"), match.group("prompt"), at, columns))
    return found


def read_promptfoo_csv(path: Path) -> Iterator[Finding]:
    """Read results: one row a test, model, prompt and metric; judges are pooled in it.

    Raises
    ------
    DataError
        Where no block of columns can be found.
    """
    header, document = read_csv_records(path)
    blocks = blocks_of(header)
    if not blocks:
        raise DataError(
            "the header has no columns of a model's results, '[model] prompt' before 'Status'",
            str(path),
            "Export the results again with promptfoo, best as JSON",
        )
    yield from document.asides
    variables = {name: at for at, name in enumerate(header[: blocks[0].at])}
    repeats: dict[tuple[str, str, str], int] = defaultdict(int)
    yield from rows_of(
        document.records, lambda record: _rows(record, blocks, variables, repeats), "test", "tests"
    )
    yield Problem(
        "warning",
        "promptfoo's CSV pools the judges of a metric and rounds to two decimals",
        str(path),
        remedy="Give its JSON output, which keeps each judge's score",
    )


def _rows(
    record: Record,
    blocks: Sequence[Block],
    variables: dict[str, int],
    repeats: dict[tuple[str, str, str], int],
) -> Iterator[Row]:
    cells: list[str] = record.value
    given = {name: cells[at] for name, at in variables.items() if name != "Description"}
    described = cells[variables["Description"]] if "Description" in variables else ""
    scenario = described or text_label(given, "variables")
    if scenario is None:
        raise Unreadable("neither a description nor variables")
    scenario = label(scenario, "scenario")
    own: dict[str, Cell] = {"scenario": scenario, **own_fields(given, "vars", ("language",))}
    for block in blocks:
        key = (scenario, block.model, block.prompt)
        about: dict[str, Cell] = {
            **own,
            "backbone": label(block.model, "model"),
            "prompt": text_label(block.prompt, "prompt"),
            "generation": str(repeats[key]),
        }
        repeats[key] += 1
        for criterion, score in _scores(cells, block).items():
            yield Row({**about, "criterion": criterion, **score})


def _scores(cells: Sequence[str], block: Block) -> dict[str, dict[str, Cell]]:
    """Return the score of each metric, or the test's own where it has none."""
    names = {
        name.removeprefix(_METRIC): at
        for name, at in block.columns.items()
        if name.startswith(_METRIC)
    }
    state = cells[block.columns["Status"]]
    reason = cells[block.columns["Grader Reason"]] if "Grader Reason" in block.columns else ""
    exact = named_scores(
        cells[block.columns["Named Scores"]] if "Named Scores" in block.columns else ""
    )
    values = {name: exact.get(name, cells[at]) for name, at in names.items()}
    if not values:
        at = block.columns.get("Score")
        values = {"score": "" if at is None else cells[at]}
    if state == "ERROR":
        return {name: failed("provider error") for name in values}
    if state not in _STATES:
        return {name: failed(f"unknown status {shown(state)}") for name in values}
    if says_no_reply(reason):
        # Its 0 is pooled with the other judges' scores, in which metric is not said.
        return {name: failed("judge: no verdict, pooled with other scores") for name in values}
    return {
        name: scored(value or None) if value == "" else scored(value)
        for name, value in values.items()
    }
