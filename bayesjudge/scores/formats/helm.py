"""HELM runs: ``per_instance_stats.json``, with the files that lie beside it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from bayesjudge.scores.formats.cells import (
    failed,
    label,
    many,
    mapping,
    maybe,
    name_of,
    optional_label,
    scored,
    text_label,
)
from bayesjudge.scores.formats.findings import Cell, Finding, Lost, Row
from bayesjudge.scores.formats.records import Record, fields_of, read_document, rows_of
from bayesjudge.scores.problems import Problem

_BOOKKEEPING = re.compile(
    r"num_\w+|estimated_num_tokens_cost|\w*runtime|batch_size|prompt_truncated|logprob\w*|"
    r"bits_per_byte|perplexity|max_prob|finish_reason_\w+|training_\w+|predicted_index"
)
"""Statistics on tokens, times and probabilities, which score no answer."""

_JUDGED = re.compile(r"(?P<criterion>\w+_(?:score|accuracy))_(?P<judge>\w+)")
_MODEL_IN_NAME = re.compile(r"(?:^|[:,])model=(?P<model>[^,]+)")

type Judges = Mapping[str, tuple[str, str]]
type Unasked = frozenset[tuple[str, str]]


def read_helm(path: Path) -> Iterator[Finding]:
    """Read the statistics of one run: one row an instance, trial and statistic."""
    document = read_document(path, [()])
    yield from document.asides
    beside = path.with_name("display_predictions.json")
    predictions: list[Record] = []
    if beside != path and beside.is_file():
        other = read_document(beside, [()])
        predictions = other.records
        yield from (Lost(f"{lost.name} of {beside.name}", lost.why) for lost in other.lost)
    elif beside == path:
        predictions = document.records
    common, problems = _run(path)
    yield from problems
    judges = _judges(document.records, predictions)
    unasked = _unasked(predictions)
    set_aside: Counter[str] = Counter()
    yield from rows_of(
        document.records,
        lambda record: _rows(record, common, judges, unasked, set_aside),
        "instance",
        "instances",
    )
    yield from _remarks(judges, unasked, set_aside)


def _run(path: Path) -> tuple[dict[str, Cell], list[Finding]]:
    """Name the run's model and task, from its specification or its folder's name."""
    spec: Mapping[str, Any] = {}
    beside = path.with_name("run_spec.json")
    if beside.is_file():
        spec = maybe(read_document(beside, [()]).field())
    name = name_of(spec.get("name")) or path.resolve().parent.name
    model = name_of(maybe(spec.get("adapter_spec")).get("model"))
    problems: list[Finding] = []
    match = _MODEL_IN_NAME.search(name)
    if model is None and match:
        model = match.group("model")
        told = f"no run_spec.json names the model: {model!r} is read from the name of the folder"
        problems.append(Problem("note", told, str(path)))
    cells: dict[str, Cell] = {} if model is None else {"backbone": model}
    if spec or match:
        cells["task_name"] = _MODEL_IN_NAME.sub("", name).strip(":,") or name
    return cells, problems


def _judges(records: list[Record], predictions: list[Record]) -> Judges:
    """Part the names of statistics into criterion and judge.

    Annotations say which judges there were. Without them HELM's own habit of
    ending a judged statistic's name in the judge is followed where at least two
    names differ in nothing else.
    """
    named: dict[str, tuple[str, str]] = {}
    for record in predictions:
        for annotator, notes in maybe(maybe(record.value).get("annotations")).items():
            for key in maybe(notes):
                if key.endswith("_score") and key != "empty_output_score":
                    judge = key.removesuffix("_score")
                    named[f"{annotator}_score_{judge}"] = (f"{annotator}_score", judge)
    if named:
        return named
    matches = {
        name: match
        for record in records
        for name in _names(record.value)
        if (match := _JUDGED.fullmatch(name))
    }
    shared = Counter(match.group("criterion") for match in matches.values())
    return {
        name: (match.group("criterion"), match.group("judge"))
        for name, match in matches.items()
        if shared[match.group("criterion")] > 1
    }


def _names(value: Any) -> list[str]:
    stats = maybe(value).get("stats")
    if isinstance(stats, Mapping):
        return list(stats)
    found = [name_of(maybe(maybe(stat).get("name")).get("name")) for stat in many(stats)]
    return [name for name in found if name is not None]


def _unasked(predictions: list[Record]) -> Unasked:
    """List the instances whose empty output was scored by rule, with no judge asked."""
    return frozenset(
        (str(fields.get("instance_id")), str(fields.get("train_trial_index")))
        for fields in (maybe(record.value) for record in predictions)
        for notes in maybe(fields.get("annotations")).values()
        if "empty_output_score" in maybe(notes)
    )


def _rows(
    record: Record,
    common: Mapping[str, Cell],
    judges: Judges,
    unasked: Unasked,
    set_aside: Counter[str],
) -> Iterator[Finding]:
    fields = fields_of(record, "instance")
    instance = label(fields.get("instance_id"), "instance_id")
    trial = optional_label(fields.get("train_trial_index"), "train_trial_index")
    own: dict[str, Cell] = {**common, "scenario": instance, "generation": trial}
    changed = fields.get("perturbation")
    if changed is not None:
        own["perturbation"] = text_label(maybe(changed).get("name", changed), "perturbation")
    if (instance, str(fields.get("train_trial_index"))) in unasked:
        own["empty_output"] = "true"
    stats = fields.get("stats")
    if isinstance(stats, Mapping):
        stats = [{"name": {"name": key}, "mean": value} for key, value in stats.items()]
    for place, stat in enumerate(many(stats) or [None], start=1):
        named = maybe(maybe(stat).get("name"))
        name = name_of(named.get("name"))
        if name is None:
            yield Lost(record.name, f"statistic {place} has no name")
            continue
        if _BOOKKEEPING.fullmatch(name):
            set_aside[name] += 1
            continue
        criterion, judge = judges.get(name, (name, None))
        cells = {**own, "criterion": criterion, "judge": judge}
        for key in ("split", "sub_split"):
            if name_of(named.get(key)):
                cells[key] = name_of(named.get(key))
        yield Row({**cells, **_score(mapping(stat, "statistic"))})


def _score(stat: Mapping[str, Any]) -> dict[str, Cell]:
    if stat.get("count") == 0 or ("count" in stat and "mean" not in stat):
        return failed("judge: no value (count 0)")
    return scored(stat.get("mean"), "judge: no value")


def _remarks(judges: Judges, unasked: Unasked, set_aside: Counter[str]) -> Iterator[Finding]:
    if judges:
        criteria = sorted({criterion for criterion, _ in judges.values()})
        names = sorted({judge for _, judge in judges.values()})
        told = f"judges {', '.join(names)} are read from the names of {', '.join(criteria)}_*"
        yield Problem("note", told)
    if set_aside:
        names = sorted(set_aside)
        shown = ", ".join(names[:6]) + (", ..." if names[6:] else "")
        told = f"{len(names)} statistics on tokens, times and probabilities are no scores: {shown}"
        yield Problem("note", told)
    if unasked:
        yield Problem(
            "warning",
            f"{len(unasked):,} instances had an empty output, which HELM scores by rule without "
            "asking a judge; kept",
            "column 'empty_output'",
            len(unasked),
        )
