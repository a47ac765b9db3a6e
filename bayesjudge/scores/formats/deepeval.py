"""DeepEval test runs: ``test_run_*.json`` and ``.latest_test_run.json``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from bayesjudge.scores.formats.cells import (
    Unreadable,
    failed,
    label,
    many,
    maybe,
    name_of,
    scored,
    text_label,
)
from bayesjudge.scores.formats.findings import Cell, Finding, Lost, Row
from bayesjudge.scores.formats.records import Record, fields_of, read_document, rows_of

_ARRAYS = [
    (*outer, cases)
    for outer in ((), ("testRunData",))
    for cases in ("testCases", "conversationalTestCases", "test_cases")
]


def read_deepeval(path: Path) -> Iterator[Finding]:
    """Read a test run: one row a test case and metric.

    The model under test is nowhere in it, unless hyperparameters were logged
    that name one.
    """
    document = read_document(path, _ARRAYS)
    yield from document.asides
    given = maybe(document.field("testRunData", "hyperparameters")) or maybe(
        document.field("hyperparameters")
    )
    model = name_of(given.get("model"))
    common: dict[str, Cell] = {} if model is None else {"backbone": model}
    yield from rows_of(
        document.records, lambda record: _rows(record, common), "test case", "test cases"
    )


def _rows(record: Record, common: Mapping[str, Cell]) -> Iterator[Finding]:
    fields = fields_of(record, "test case")
    name = fields.get("name")
    own = dict(common)
    own["scenario"] = (
        label(name, "name") if name not in (None, "") else text_label(fields.get("input"), "input")
    )
    if own["scenario"] is None:
        raise Unreadable("neither name nor input")
    metrics = fields.get("metricsData", fields.get("metrics_data"))
    for place, metric in enumerate(many(metrics), start=1):
        try:
            yield Row({**own, **_cells(maybe(metric))})
        except Unreadable as error:
            yield Lost(record.name, f"metric {place}: {error}")
    if not many(metrics):
        yield Row({**own, **failed("no metric was measured")})


def _cells(metric: Mapping[str, object]) -> dict[str, Cell]:
    name = label(metric.get("name"), "name")
    judge = name_of(metric.get("evaluationModel") or metric.get("evaluation_model"))
    error = metric.get("error")
    # A metric that failed may leave a 0 behind, which is no verdict.
    score = failed(f"metric error: {error}") if error else scored(metric.get("score"))
    return {"judge": judge or name, "criterion": name, **score}
