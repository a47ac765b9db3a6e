"""Tables of chosen and rejected answers with a score each, as RewardBench writes them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from bayesjudge.scores.files import JSON_SUFFIXES, suffix
from bayesjudge.scores.formats.cells import (
    Unreadable,
    label,
    name_of,
    optional_label,
    scored,
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

PAIRS = (
    ("scores_chosen", "scores_rejected"),
    ("score_chosen", "score_rejected"),
    ("chosen_score", "rejected_score"),
    ("chosen_scores", "rejected_scores"),
    ("chosen_reward", "rejected_reward"),
    ("reward_chosen", "reward_rejected"),
)
_SIDES = ("chosen", "rejected")
_JUDGES = ("judge", "reward_model", "model")
_CARRIED = ("subset", "section", "split", "language", "category")


def read_reward_bench(path: Path) -> Iterator[Finding]:
    """Read a table wide in chosen and rejected: one row an answer."""
    document = _document(path)
    yield from document.asides
    yield from rows_of(document.records, _rows, "pair", "pairs")
    models = {
        name_of(fields.get(f"{side}_model"))
        for record in document.records
        if isinstance(fields := record.value, Mapping)
        for side in _SIDES
    }
    if not models - {None}:
        yield Problem(
            "note",
            "the table does not say which models wrote the answers",
            "column 'response'",
            remedy="To rank chosen against rejected answers say --column backbone=response",
        )


def _document(path: Path) -> Document:
    if suffix(path) in JSON_SUFFIXES:
        document = read_records(path, [()])
        whole = document.field()
        return _from_columns(whole, document) if isinstance(whole, Mapping) else document
    if suffix(path) == ".csv":
        header, document = read_csv_records(path)
        return replace(document, records=as_mappings(header, document.records))
    return Document({}, records_of_table(read_table_file(path)), [], [])


def _from_columns(whole: Mapping[str, Any], document: Document) -> Document:
    """Turn a mapping of columns into records; single values hold for all of them."""
    lists = {name: column for name, column in whole.items() if isinstance(column, list)}
    single = {name: value for name, value in whole.items() if not isinstance(value, list)}
    if not lists:
        # One record by itself.
        return replace(document, records=[Record("the record", whole)])
    lengths = sorted(map(len, lists.values()))
    n_rows = lengths[len(lengths) // 2]
    lost = [
        Lost(f"the column {name!r}", f"it has {len(column):,} values where others have {n_rows:,}")
        for name, column in lists.items()
        if len(column) != n_rows
    ]
    whole_ones = {name: column for name, column in lists.items() if len(column) == n_rows}
    records = [
        Record(f"pair {i + 1}", {**single, **{name: c[i] for name, c in whole_ones.items()}})
        for i in range(n_rows)
    ]
    return replace(document, records=records, lost=[*document.lost, *lost])


def _rows(record: Record) -> Iterator[Row]:
    fields = fields_of(record, "pair")
    columns = pair_of(list(fields))
    if columns is None:
        raise Unreadable("no scores of a chosen and a rejected answer")
    own: dict[str, Cell] = {"scenario": _scenario(fields)}
    judge = next((n for key in _JUDGES if (n := name_of(fields.get(key)))), None)
    own["judge"] = judge
    for key in _CARRIED:
        if key in fields:
            own[key] = optional_label(fields[key], key)
    for side, column in zip(_SIDES, columns, strict=True):
        model = name_of(fields.get(f"{side}_model"))
        values = _several(fields.get(column))
        for place, value in enumerate(values):
            cells = {**own, "response": side, "backbone": model}
            if len(values) > 1:
                cells["answer"] = str(place)
            yield Row({**cells, **scored(value)})


def _several(value: Any) -> list[Any]:
    """List the scores of one side: RewardBench 2 has several rejected answers."""
    if isinstance(value, str) and value.lstrip().startswith("["):
        try:
            value = decode_json(value)
        except (ValueError, RecursionError):
            return [value]
    if isinstance(value, list) and value:
        return value
    return [None if value == "" else value]


def _scenario(fields: Mapping[str, Any]) -> str:
    for key in ("id", "scenario", "prompt_id", "prompt"):
        value = fields.get(key)
        if value not in (None, ""):
            found = text_label(value, key)
            if found:
                return found
    return label(None, "id or prompt")


def pair_of(names: Sequence[str]) -> tuple[str, str] | None:
    """Name the two columns of scores, None where there are none."""
    return next((pair for pair in PAIRS if pair[0] in names and pair[1] in names), None)
