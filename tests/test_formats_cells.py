"""Cells, packed files and merged logs: properties of the pieces that readers share."""

from __future__ import annotations

import gzip
import io
import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayesjudge.errors import DataError
from bayesjudge.scores.files import Unpacked
from bayesjudge.scores.formats import cells
from bayesjudge.scores.formats.cells import Unreadable
from bayesjudge.scores.formats.findings import Counted, Lost, Repeated, Row, gather
from bayesjudge.scores.formats.merging import merge_logs
from bayesjudge.scores.problems import Problem
from bayesjudge.scores.raw import is_valid_text
from tests.formats.reading import rows_of, said

ANY = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(exclude_categories=()), max_size=6),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2)
    ),
    max_leaves=4,
)


def label_or_refusal(read, value):
    try:
        return read(value, "it"), ""
    except Unreadable as error:
        return None, str(error)


@given(ANY)
def test_a_label_is_text_that_can_be_one_or_nothing(value):
    for read in (cells.optional_label, cells.text_label):
        found, refusal = label_or_refusal(read, value)
        assert found is None or is_valid_text(found)
        assert not refusal or refusal.startswith("it ")
        if isinstance(value, str) and not refusal:
            assert found == value


@given(ANY)
def test_a_score_is_a_number_or_a_reason(value):
    found = cells.scored(value)
    if found["score"] is None:
        assert found["failure"]
        assert is_valid_text(found["failure"])
    else:
        assert math.isfinite(found["score"])
        assert "failure" not in found


@given(st.dictionaries(st.text(max_size=3), st.text(max_size=300), min_size=2, max_size=4))
def test_equal_requests_share_a_label_and_others_do_not(request_):
    turned = dict(reversed(request_.items()))
    first = cells.text_label(request_, "it") if is_valid_text(json.dumps(request_)) else None
    try:
        assert cells.text_label(turned, "it") == cells.text_label(request_, "it")
        other = {**request_, next(iter(request_)): "something else altogether"}
        assert cells.text_label(other, "it") != cells.text_label(request_, "it")
    except Unreadable:
        assert first is not None


@given(st.binary(max_size=4000), st.integers(0, 4000), st.integers(1, 700))
def test_packed_files_give_all_that_comes_before_a_cut(data, cut, size):
    packed = gzip.compress(data) + gzip.compress(b"more\n")
    whole = data + b"more\n"
    assert Unpacked(io.BytesIO(packed)).read() == whole
    lines = Unpacked(io.BytesIO(packed))
    assert list(iter(lines.readline, b"")) == whole.splitlines(keepends=True) or b"\r" in data
    alone = gzip.compress(data)
    part = Unpacked(io.BytesIO(alone[: cut % len(alone)]))
    found, damage = read_to_the_damage(part, size)
    assert isinstance(damage, EOFError)
    assert data.startswith(found)


def read_to_the_damage(file, size):
    found = b""
    while True:
        try:
            block = file.read(size)
        except (EOFError, OSError) as error:
            return found, error
        if not block:
            return found, None
        found += block


ROWS = st.lists(
    st.fixed_dictionaries(
        {},
        optional={
            "score": st.none() | st.floats(0, 1),
            "scenario": st.sampled_from("abc"),
            "extra": st.sampled_from("xy"),
        },
    ),
    min_size=1,
    max_size=5,
)


@given(st.lists(ROWS, min_size=1, max_size=3))
def test_merging_keeps_every_cell(logs):
    merged = merge_logs(
        "all", [gather(f"f{i}/log", "T", map(Row, rows)) for i, rows in enumerate(logs)]
    )
    found = [{k: v for k, v in row.items() if k != "log"} for row in rows_of(merged)]
    assert found == [
        {k: v for k, v in row.items() if v is not None} for rows in logs for row in rows
    ]
    assert merged.n_rows == sum(map(len, logs))
    assert ("score" in merged.columns) == any("score" in row for rows in logs for row in rows)


def test_what_readers_find_is_sorted_and_said():
    findings = [
        Row({"score": 1.0, "backbone": "m", "scenario": "1", "task_name": "t"}),
        Lost("record 2", "why"),
        Repeated("record 3"),
        Counted(1, "record", "records"),
        Problem("warning", "mind this"),
    ]
    one = gather("a/x.json", "Tool", findings)
    two = gather("b/x.json", "Tool", [Row({"score": 0.0, "scenario": "1", "task_name": "u"})])
    table = merge_logs("both", [one, two])
    told = said(table)
    assert "2 logs of Tool: 1 record read, 2 rows" in told
    assert "1 record or part of one was lost: record 2 (why) of a/x.json" in told
    assert "1 record says what an earlier one says, and counts once: record 3 of a/x.json" in told
    assert "warning: mind this (a/x.json)" in told
    assert "1 log does not name the model whose answers were scored: b/x.json" in told
    assert [row["scenario"] for row in rows_of(table)] == ["t/1", "u/1"]
    with pytest.raises(DataError, match="no record of the log could be read"):
        merge_logs("x", [gather("x", "Tool", [Lost("record 1", "why")])])


def test_own_fields_are_short_scalars_under_a_prefix():
    fields = {
        "a": 1,
        "b": "x" * 65,
        "c": [1],
        "language": "ar",
        "weight": 0.5,
        "d": "a\0",
        "e": True,
    }
    assert cells.own_fields(fields, "metadata", ("language",)) == {
        "metadata.a": "1",
        "language": "ar",
        "metadata.weight": "0.5",
        "metadata.e": "true",
    }
    assert cells.own_fields([1], "metadata") == {}
