"""MLflow evaluation tables: ``result_df`` of ``genai.evaluate``, tables of ``evaluate``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from bayesjudge.scores.files import JSON_SUFFIXES, PARQUET_SUFFIXES, suffix
from bayesjudge.scores.formats.cells import (
    Unreadable,
    failed,
    first_line,
    kind_of,
    label,
    many,
    maybe,
    name_of,
    number,
    optional_text,
    shown,
    text_label,
)
from bayesjudge.scores.formats.findings import Cell, Finding, Lost, Row
from bayesjudge.scores.formats.json_text import decode_json
from bayesjudge.scores.formats.records import (
    Document,
    Record,
    as_mappings,
    fields_of,
    read_csv_records,
    read_records,
    rows_of,
)
from bayesjudge.scores.formats.row_tables import records_of_table
from bayesjudge.scores.problems import Problem
from bayesjudge.scores.tabular import read_table_file

VALUE = re.compile(r"(?P<name>.+?)(?:/v\d+)?/(?:value|score)")
_EXPECTED = re.compile(r"expected_\w+|expectations?|guidelines|ground_truth")
_WORDS = {"yes": 1.0, "no": 0.0, "true": 1.0, "false": 0.0, "pass": 1.0, "fail": 0.0}
_REQUESTS = ("request", "inputs", "input", "question", "prompt", "client_request_id")


def read_mlflow(path: Path) -> Iterator[Finding]:
    """Read a table of evaluations: one row a request and assessment."""
    document = _document(path)
    yield from document.asides
    words = 0
    for finding in rows_of(document.records, _rows, "request", "requests"):
        words += isinstance(finding, Row) and finding.cells.get("verdict") is not None
        yield finding
    if words:
        told = f"{words:,} values are words: yes, true and pass are read as 1; no, false, fail as 0"
        yield Problem("note", told, "column 'verdict'", words)


def _document(path: Path) -> Document:
    if suffix(path) in JSON_SUFFIXES:
        document = read_records(path, [(), ("data",)])
        names = many(document.field("columns"))
        if not names:
            return document
        records, lost = [], list(document.lost)
        for record in document.records:
            if len(many(record.value)) == len(names):
                cells = dict(zip(map(str, names), record.value, strict=True))
                records.append(Record(record.name, cells))
            else:
                lost.append(Lost(record.name, "it has another number of fields than columns"))
        return replace(document, records=records, lost=lost)
    if suffix(path) in PARQUET_SUFFIXES:
        return Document({}, records_of_table(read_table_file(path)), [], [])
    header, document = read_csv_records(path)
    return replace(document, records=as_mappings(header, document.records))


def _rows(record: Record) -> Iterator[Finding]:
    fields = fields_of(record, "request")
    trace = maybe(_nested(fields.get("trace")))
    info = maybe(trace.get("info"))
    own: dict[str, Cell] = {"scenario": _scenario(fields, info)}
    run = maybe(info.get("trace_metadata") or _nested(fields.get("trace_metadata"))).get(
        "mlflow.sourceRun"
    )
    if name_of(run):
        own["mlflow_run"] = name_of(run)
    given = _nested(fields.get("assessments"))
    assessments = given if isinstance(given, list) else many(info.get("assessments"))
    if assessments:
        for place, assessment in enumerate(assessments, start=1):
            try:
                cells = _assessment(maybe(assessment))
            except Unreadable as error:
                yield Lost(record.name, f"assessment {place}: {error}")
                continue
            if cells is not None:
                yield Row({**own, **cells})
        return
    found = _columns(fields)
    if not found:
        raise Unreadable("no assessment in it")
    for cells in found:
        yield Row({**own, **cells})


def _nested(value: Any) -> Any:
    """Return a value that a table may keep as JSON text; text that is none stays text."""
    if not isinstance(value, str) or not value.lstrip().startswith(("{", "[")):
        return value
    try:
        return decode_json(value)
    except (ValueError, RecursionError):
        return value


def _scenario(fields: Mapping[str, Any], info: Mapping[str, Any]) -> str:
    """Label the request, so that the same one in another run is the same scenario."""
    asked = _nested(info.get("request_preview"))
    for value in (asked, *(_nested(fields.get(name)) for name in _REQUESTS)):
        found = text_label(value, "request") if value not in (None, "") else None
        if found:
            return found
    return label(fields.get("trace_id"), "request and no trace_id")


def _assessment(assessment: Mapping[str, Any]) -> dict[str, Cell] | None:
    """Return the cells of one judgment; None for what is no judgment, or was replaced."""
    if "feedback" not in assessment or assessment.get("valid") is False:
        if "feedback" not in assessment and "expectation" not in assessment:
            raise Unreadable("neither feedback nor expectation")
        return None
    feedback = assessment["feedback"]
    if not isinstance(feedback, Mapping):
        raise Unreadable(f"its feedback is {kind_of(feedback)}")
    name = label(assessment.get("assessment_name") or assessment.get("name"), "name")
    source = maybe(assessment.get("source"))
    cells: dict[str, Cell] = {
        "judge": name_of(source.get("source_id")) or name,
        "criterion": name,
        "judge_kind": name_of(source.get("source_type")),
    }
    error = feedback.get("error") or assessment.get("error")
    if error:
        why = maybe(error).get("error_message") or maybe(error).get("error_code") or error
        return {**cells, **failed(f"judge: {first_line(why)}")}
    return {**cells, **_value(feedback.get("value"))}


def _columns(fields: Mapping[str, Any]) -> list[dict[str, Cell]]:
    """Return the cells of ``<name>/value`` and ``<name>/v1/score`` columns."""
    found = []
    for column, value in fields.items():
        match = VALUE.fullmatch(column)
        if match is None or _EXPECTED.fullmatch(match.group("name")):
            continue
        name = label(match.group("name"), "name")
        error = fields.get(f"{name}/error_message")
        cells: dict[str, Cell] = {"judge": name, "criterion": name}
        if error not in (None, ""):
            cells |= failed(f"judge: {first_line(error)}")
        else:
            cells |= _value(None if value == "" else value)
        found.append(cells)
    return found


def _value(value: Any) -> dict[str, Cell]:
    if value is None or value != value:
        return failed("judge: no value")
    word = optional_text(value)
    if isinstance(value, str | bool) and word is not None and word.lower() in _WORDS:
        return {"score": _WORDS[word.lower()], "verdict": word}
    found = number(value)
    if found is None:
        return {
            **failed(f"no number: {shown(value)}"),
            "verdict": word if word and len(word) < 40 else None,
        }
    return {"score": found}


def looks_like_mlflow(names: Sequence[str]) -> bool:
    """Whether a table's columns are those of an MLflow evaluation."""
    values = [name for name in names if VALUE.fullmatch(name)]
    beside = any(
        name.endswith(("/rationale", "/justification", "/error_message")) for name in names
    )
    return (bool(values) and ("trace_id" in names or beside)) or {"trace_id", "assessments"} <= set(
        names
    )
