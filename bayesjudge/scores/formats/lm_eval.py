"""lm-evaluation-harness samples: ``samples_<task>_<date>.jsonl`` beside ``results_<date>.json``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from bayesjudge.scores.formats.cells import (
    Unreadable,
    failed,
    label,
    many,
    maybe,
    name_of,
    number,
    own_fields,
    scored,
)
from bayesjudge.scores.formats.findings import Cell, Finding, Row
from bayesjudge.scores.formats.records import (
    Document,
    Record,
    fields_of,
    read_document,
    read_lines,
    rows_of,
)
from bayesjudge.scores.problems import Problem

_OTHERS = frozenset(
    (
        *("doc_id", "doc", "target", "arguments", "resps", "filtered_resps", "filter", "metrics"),
        *("doc_hash", "prompt_hash", "target_hash", "task_hash", "schema_version"),
    )
)
_NAME = re.compile(r"samples_(?P<task>.+?)(?:_(?P<date>\d{4}-\d\d-\d\dT[\d.:-]+))?\.jsonl(\.gz)?")
_RESULTS = ("results_*.json", "results.json")


def read_lm_eval(path: Path) -> Iterator[Finding]:
    """Read the samples of one task: one row a document, filter and metric."""
    document = read_lines(path)
    match = _NAME.fullmatch(path.name)
    task = match.group("task") if match else None
    results = _results_beside(path, match.group("date") if match else None)
    model, problems = _model(path, results)
    common: dict[str, Cell] = {} if model is None else {"backbone": model}
    if task is not None:
        common["task_name"] = task
    yield from document.asides
    yield from rows_of(document.records, lambda record: _rows(record, common), "sample", "samples")
    yield from problems
    yield from _remarks(document, task, results)


def _results_beside(path: Path, date: str | None) -> Mapping[str, Any]:
    """Read the run's summary: the one of the same date, or the only one there is."""
    found = sorted({p for pattern in _RESULTS for p in path.parent.glob(pattern)})
    same = [p for p in found if date is not None and date in p.name]
    if len(same or found) != 1:
        return {}
    document = read_document((same or found)[0], [()])
    # Its outermost value is an object, so nothing of it is a record.
    return maybe(document.field())


def _model(path: Path, results: Mapping[str, Any]) -> tuple[str | None, list[Finding]]:
    for found in (results.get("model_name"), maybe(results.get("config")).get("model_name")):
        if name_of(found):
            return name_of(found), []
    arguments = maybe(results.get("config")).get("model_args")
    given = maybe(arguments).get("pretrained") or maybe(arguments).get("model")
    if isinstance(arguments, str):
        match = re.search(r"(?:^|,)(?:pretrained|model)=([^,]+)", arguments)
        given = match.group(1) if match else None
    if name_of(given):
        return name_of(given), []
    folder = path.resolve().parent.name
    if "__" in folder:
        name = folder.replace("__", "/")
        told = f"no results file names the model: {name!r} is read from the name of the folder"
        return name, [Problem("note", told, str(path))]
    return None, []


def _rows(record: Record, common: Mapping[str, Cell]) -> Iterator[Row]:
    fields = fields_of(record, "sample")
    chosen = fields.get("filter")
    answers = max((len(r) for r in many(fields.get("resps")) if isinstance(r, list)), default=1)
    own: dict[str, Cell] = {
        **common,
        "scenario": label(fields.get("doc_id"), "doc_id"),
        "filter": label("none" if chosen is None else chosen, "filter"),
        **own_fields(fields.get("doc"), "doc"),
    }
    metrics = _metrics(fields)
    if not metrics:
        raise Unreadable("no metric in it")
    for metric in metrics:
        cells = {**own, "criterion": metric}
        value = fields.get(metric)
        if isinstance(value, list) and len(value) == answers > 1:
            for place, item in enumerate(value):
                yield Row({**cells, "generation": str(place), **scored(item)})
        elif isinstance(value, list):
            yield Row({**cells, **failed(f"{len(value)} numbers, which the harness pools itself")})
        else:
            yield Row({**cells, **scored(value)})


def _metrics(fields: Mapping[str, Any]) -> list[str]:
    """Name the metrics: those the record lists, or in older files those that are numbers."""
    listed = fields.get("metrics")
    if isinstance(listed, list):
        return [name for name in listed if name_of(name)]
    return [
        name
        for name, value in fields.items()
        if name not in _OTHERS
        and name_of(name)
        and (number(value) is not None or isinstance(value, list | float))
    ]


def _remarks(document: Document, task: str | None, results: Mapping[str, Any]) -> Iterator[Finding]:
    drawn = max(
        (
            len(answers)
            for record in document.records
            for answers in many(maybe(record.value).get("resps"))
            if isinstance(answers, list)
        ),
        default=1,
    )
    if drawn > 1:
        yield Problem(
            "note",
            f"up to {drawn} answers were drawn for each document, of which the log keeps one score "
            "a filter",
        )
    better = maybe(maybe(results.get("higher_is_better")).get(task or ""))
    lower = sorted(name for name, higher in better.items() if higher is False)
    if lower:
        yield Problem("note", f"lower is better for {', '.join(lower)}, as the harness says")
