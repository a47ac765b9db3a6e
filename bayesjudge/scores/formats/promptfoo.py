"""promptfoo results: ``--output out.json`` or ``out.jsonl``."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from bayesjudge.scores.formats.cells import (
    Unreadable,
    failed,
    first_line,
    label,
    many,
    maybe,
    name_of,
    number,
    own_fields,
    scored,
    text_label,
)
from bayesjudge.scores.formats.findings import Cell, Finding, Row
from bayesjudge.scores.formats.records import (
    Record,
    fields_of,
    read_records,
    rows_of,
)
from bayesjudge.scores.problems import Problem

_ARRAYS = [(), ("results",), ("results", "results")]
PROVIDER_ERROR = 2
"""``failureReason`` of a result whose model gave no answer."""

_ASKS_A_MODEL = re.compile(
    r"(not-)?(llm-rubric|model-graded-.*|factuality|g-eval|answer-relevance|context-.*|"
    r"conversation-relevance|select-best|pi|agent-rubric|search-rubric|moderation|classifier)"
)
NO_REPLY = re.compile(
    r"could not extract json from \S+ response|\S+ produced malformed response|no output\Z|"
    r"api (call )?error\b|error parsing (output|response)\b|invalid option: ",
    re.IGNORECASE,
)
"""How promptfoo itself begins the reason of a 0 where the judge gave no verdict.

Kept narrow: a judge may well write that an answer's JSON could not be parsed.
"""


def read_promptfoo(path: Path) -> Iterator[Finding]:
    """Read results: one row a result and assertion, by judge and metric."""
    document = read_records(path, _ARRAYS)
    yield from document.asides
    default = _provider(
        maybe(maybe(maybe(document.field("config")).get("defaultTest")).get("options")).get(
            "provider"
        )
    )
    repeats = _repeats(document.records)
    yield from rows_of(
        document.records, lambda record: _rows(record, default, repeats), "result", "results"
    )
    lent = sum(_is_lent(record.value, default) for record in document.records)
    if lent:
        yield Problem(
            "note",
            f"{lent:,} results were graded by promptfoo's default model, which the log does not "
            "name: the kind of assertion stands for the judge",
            "column 'judge'",
            lent,
        )


def _is_lent(result: Any, default: str | None) -> bool:
    """Whether some assertion was graded by a model that the log does not name."""
    return any(
        _asks_a_model(part) and _judge(maybe(maybe(part).get("assertion")), result, default) is None
        for part in _components(maybe(result))
    )


def _rows(
    record: Record, default: str | None, repeats: Mapping[tuple[str, ...], list[float]]
) -> Iterator[Row]:
    fields = fields_of(record, "result")
    key = _key(fields)
    scenario, backbone, prompt = key
    own: dict[str, Cell] = {"scenario": scenario, "backbone": backbone, "prompt": prompt}
    index = number(fields.get("testIdx"))
    if index is not None:
        own["generation"] = str(repeats[key].index(index))
    own |= own_fields(fields.get("vars"), "vars", ("language",))
    own |= own_fields(
        {k: v for k, v in maybe(fields.get("metadata")).items() if not k.startswith("_")},
        "metadata",
    )
    why = _no_answer(fields)
    if why is not None:
        asserted = many(maybe(fields.get("testCase")).get("assert"))
        for place, assertion in enumerate(_flat(asserted) or [{}]):
            cells = _instrument(maybe(assertion), place, fields, default)
            yield Row({**own, **cells, **failed(why)})
        return
    components = _components(fields)
    if not components:
        yield Row({**own, **failed("nothing was asserted")})
    for place, component in enumerate(components):
        part = maybe(component)
        cells = _instrument(maybe(part.get("assertion")), place, fields, default)
        yield Row({**own, **cells, **_score(part)})


def _key(fields: Mapping[str, Any]) -> tuple[str, str, str]:
    """Name the scenario, the model and the prompt of a result."""
    case = maybe(fields.get("testCase"))
    given = fields.get("vars") or case.get("vars")
    scenario = name_of(case.get("description")) or name_of(fields.get("description"))
    if scenario is None and isinstance(given, Mapping) and given:
        scenario = text_label(given, "vars")
    if scenario is None:
        scenario = f"test {label(fields.get('testIdx'), 'testIdx')}"
    provider = fields.get("provider")
    named = maybe(provider)
    backbone = (
        name_of(provider) or name_of(named.get("label")) or label(named.get("id"), "provider")
    )
    prompt = maybe(fields.get("prompt"))
    text = text_label(prompt.get("label") or prompt.get("raw"), "prompt")
    return scenario, backbone, text or label(fields.get("promptIdx", 0), "promptIdx")


def _repeats(records: list[Record]) -> dict[tuple[str, ...], list[float]]:
    """List the test numbers that stand for one and the same test: ``--repeat`` gives new ones."""
    found: dict[tuple[str, ...], set[float]] = defaultdict(set)
    for record in records:
        fields = maybe(record.value)
        index = number(fields.get("testIdx"))
        try:
            if index is not None:
                found[_key(fields)].add(index)
        except Unreadable:
            continue
    return {key: sorted(indexes) for key, indexes in found.items()}


def _no_answer(fields: Mapping[str, Any]) -> str | None:
    """Say why the model gave nothing to score, None where it did."""
    error = maybe(fields.get("response")).get("error")
    if fields.get("failureReason") == PROVIDER_ERROR or error:
        return f"provider error: {first_line(error or fields.get('error') or 'no message')}"
    if not isinstance(fields.get("gradingResult"), Mapping):
        return first_line(f"not graded: {fields.get('error') or 'no gradingResult'}")
    return None


def _components(fields: Mapping[str, Any]) -> list[Any]:
    """List the results of single assertions, those of sets of assertions taken apart."""
    result = maybe(fields.get("gradingResult"))
    parts = many(result.get("componentResults"))
    if not parts and maybe(result.get("assertion")):
        return [result]
    found: list[Any] = []
    for part in parts:
        inner = many(maybe(part).get("componentResults"))
        found += inner if inner and not maybe(maybe(part).get("assertion")) else [part]
    return found


def _flat(assertions: list[Any]) -> list[Any]:
    return [one for a in assertions for one in (many(maybe(a).get("assert")) or [a])]


def _instrument(
    assertion: Mapping[str, Any], place: int, fields: Any, default: str | None
) -> dict[str, Cell]:
    kind = name_of(assertion.get("type")) or "assertion"
    metric = assertion.get("metric")
    return {
        "judge": _judge(assertion, fields, default) or kind,
        "criterion": name_of(metric) or kind,
        "assertion": str(place),
    }


def _judge(assertion: Mapping[str, Any], fields: Any, default: str | None) -> str | None:
    """Find the model that graded; None where none did, or the log does not name it."""
    if not _ASKS_A_MODEL.fullmatch(name_of(assertion.get("type")) or ""):
        return None
    own = maybe(maybe(maybe(fields).get("testCase")).get("options")).get("provider")
    return _provider(assertion.get("provider")) or _provider(own) or default


def _provider(given: Any) -> str | None:
    if isinstance(given, Mapping):
        inner = given.get("text") or given.get("id")
        return name_of(given.get("label")) or (_provider(inner) if inner is not None else None)
    return name_of(given)


def _asks_a_model(component: Any) -> bool:
    kind = name_of(maybe(maybe(component).get("assertion")).get("type"))
    return bool(kind and _ASKS_A_MODEL.fullmatch(kind))


def _score(part: Mapping[str, Any]) -> dict[str, Cell]:
    reason = part.get("reason")
    by_judge = _asks_a_model(part)
    error = maybe(part.get("metadata")).get("graderError")
    if by_judge and (error or (part.get("score") == 0 and says_no_reply(reason))):
        return failed(f"judge: {first_line(reason or 'grader error')}")
    return scored(part.get("score"))


def says_no_reply(reason: object) -> bool:
    """Whether the reason of a 0 is that the judge gave no verdict that could be read."""
    return isinstance(reason, str) and NO_REPLY.match(reason.strip()) is not None


def named_scores(text: str) -> Mapping[str, Any]:
    """Read the JSON that a CSV export keeps scores by metric in; empty where it is none."""
    try:
        return maybe(json.loads(text))
    except ValueError:
        return {}
