"""OpenAI evals logs: a specification, a final report, and events, one a line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

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
    scored,
)
from bayesjudge.scores.formats.findings import Cell, Finding, Row
from bayesjudge.scores.formats.records import Record, fields_of, read_lines, rows_of
from bayesjudge.scores.problems import Problem

_CARRIERS = ("sampling", "raw_sample", "embedding", "extra", "cond_logp", "pick_option")
"""Events that say what was asked and answered, and score nothing."""


def read_openai_evals(path: Path) -> Iterator[Finding]:
    """Read a run: one row an event that scores a sample."""
    document = read_lines(path)
    yield from document.asides
    spec: Mapping[str, Any] = {}
    events = []
    for record in document.records:
        if isinstance(record.value, Mapping) and "spec" in record.value:
            spec = maybe(record.value["spec"])
        elif not (isinstance(record.value, Mapping) and "final_report" in record.value):
            events.append(record)
    asked = [n for n in map(name_of, many(spec.get("completion_fns"))) if n is not None]
    common: dict[str, Cell] = {}
    if asked:
        common["backbone"] = asked[0]
    task = name_of(spec.get("eval_name")) or name_of(spec.get("base_eval"))
    if task is not None:
        common["task_name"] = task
    grader = asked[-1] if asked else None
    scored_samples = {_sample(e) for e in events if _is_score(e)}
    others: dict[str, Record] = {}
    chosen = []
    for event in events:
        sample = _sample(event)
        if _is_score(event) or not isinstance(event.value, Mapping) or sample is None:
            chosen.append(event)
        elif sample not in scored_samples:
            others[sample] = event
    yield from rows_of(
        [*chosen, *others.values()], lambda event: _rows(event, common, grader), "event", "events"
    )
    if len(asked) > 1:
        told = f"{asked[-1]!r}, the last of the completion functions, is taken as the grader"
        yield Problem("note", told, str(path))


def _sample(event: Record) -> str | None:
    return optional_text(maybe(event.value).get("sample_id"))


def _is_score(event: Record) -> bool:
    fields = maybe(event.value)
    data = maybe(fields.get("data"))
    kind = fields.get("type")
    return (
        kind not in _CARRIERS
        and kind != "error"
        and any(key in data for key in ("correct", "score", "choice"))
    )


def _rows(event: Record, common: Mapping[str, Cell], grader: str | None) -> Iterator[Row]:
    fields = fields_of(event, "event")
    own: dict[str, Cell] = {**common, "scenario": label(fields.get("sample_id"), "sample_id")}
    data = fields.get("data")
    if not isinstance(data, Mapping):
        raise Unreadable(f"its data is {kind_of(data)}")
    kind = label(fields.get("type"), "type")
    if kind == "error":
        message = first_line(data.get("message") or data.get("error") or "no message")
        yield Row({**own, **failed(f"sample error: {message}")})
        return
    if not _is_score(event):
        yield Row({**own, **failed("the sample was answered and not scored")})
        return
    choice = optional_text(data.get("choice"))
    cells: dict[str, Cell] = {**own, "criterion": kind}
    if choice is not None:
        cells |= {"judge": grader, "verdict": choice}
        if choice == "__invalid__":
            yield Row({**cells, **failed("judge: its reply held none of the choices")})
            return
    value = data.get("correct") if "correct" in data else data.get("score")
    if value is None and choice is not None:
        value = number(choice)
    yield Row({**cells, **scored(value, "no number for this choice")})
