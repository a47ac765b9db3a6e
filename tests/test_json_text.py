"""JSON walked piece by piece: as Python's own decoder where it is whole, and on where it is not."""

from __future__ import annotations

import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayesjudge.scores.formats import json_text
from bayesjudge.scores.formats.json_text import (
    Damage,
    Element,
    Field,
    decode_json,
    walk_json,
    walk_json_lines,
)

SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(max_size=8)
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)


@pytest.fixture(params=[1, 7, 1 << 20])
def block(request, monkeypatch):
    monkeypatch.setattr(json_text, "_BLOCK", request.param)


def walk(text, *paths):
    data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    return list(walk_json(io.BytesIO(data), paths))


@given(
    st.lists(VALUES, max_size=5),
    st.dictionaries(st.text(max_size=4), VALUES, max_size=3),
    st.sampled_from([None, 1]),
    st.integers(1, 40),
)
def test_whole_documents_come_back(records, beside, indent, size):
    before, json_text._BLOCK = json_text._BLOCK, size
    try:
        beside.pop("records", None)
        text = json.dumps({**beside, "records": records}, indent=indent)
        pieces = walk(text, ("records",))
    finally:
        json_text._BLOCK = before
    assert [p.value for p in pieces if isinstance(p, Element)] == records
    assert {p.path[0]: p.value for p in pieces if isinstance(p, Field)} == beside
    assert not any(isinstance(p, Damage) for p in pieces)


@given(st.lists(VALUES, min_size=1, max_size=5), st.integers(0, 200))
def test_what_is_whole_before_a_cut_survives(records, at):
    text = json.dumps(records)
    cut = text[: at % len(text)]
    ends, whole = 1, 0
    for record in records:
        ends += len(json.dumps(record))
        # A number may go on behind the cut, so it counts once its comma is there.
        whole += ends < len(cut)
        ends += 2
    found = [p.value for p in walk(cut, ()) if isinstance(p, Element)]
    assert found[:whole] == records[:whole]
    assert len(found) <= whole + 1


def test_lines_and_places(block):
    pieces = walk('{"a": [\n1,\n\n{"x":\n 2}, 3],\n"b": 4}', ("a",))
    assert [(p.place, p.line, p.value) for p in pieces if isinstance(p, Element)] == [
        (1, 2, 1),
        (2, 4, {"x": 2}),
        (3, 5, 3),
    ]
    assert pieces[-1] == Field(("b",), 4)


def test_repeats_are_marked(block):
    pieces = walk('[{"a":1}, {"a":2}, {"a":1}]', ())
    assert [p.repeated for p in pieces] == [False, False, True]


def test_a_broken_record_is_passed_over(block):
    text = '[{"a": 1}, {"a": nope, "b": "]\\"}"}, {"a": 3}, oops, 5]'
    pieces = walk(text, ())
    assert [(type(p), p.place) for p in pieces] == [
        (Element, 1),
        (Damage, 2),
        (Element, 3),
        (Damage, 4),
        (Element, 5),
    ]
    assert "not valid JSON" in pieces[1].why


@pytest.mark.parametrize(
    "text",
    ["[1, 2", '[1, {"a": "', '{"a": [1, 2}, "b": 3}', '{"a": 1, b', "[1, 2] 3", "", "[1}", '{"a"'],
)
def test_damage_is_told(text, block):
    assert any(isinstance(piece, Damage) for piece in walk(text, (), ("a",)))


def test_numbers_and_names_that_python_would_refuse(block):
    huge = "9" * 5000
    assert decode_json(f'{{"id": {huge}, "x": NaN, "y": -Infinity}}')["id"] == huge
    assert walk(f"[{huge}, 12]", ())[0].value == huge
    assert decode_json(' "\\ud800" ') == "\ud800"
    with pytest.raises(ValueError, match="something follows"):
        decode_json("1 2")


def test_nesting_too_deep_for_python_costs_one_record():
    deep = "[" * 100_000 + "]" * 100_000
    pieces = walk(f"[1, {deep}, 2]", ())
    assert [type(p) for p in pieces] == [Element, Damage, Element]
    lines = f"1\n{deep}\n2\n".encode()
    assert [type(p) for p in walk_json_lines(io.BytesIO(lines))] == [Element, Damage, Element]


def test_bytes_that_are_no_utf8_cost_no_more_than_their_record():
    pieces = walk(b'\xef\xbb\xbf[{"a": "\xff"}, {"a": "\xd8\xb3"}]', ())
    assert pieces[0].value == {"a": "\udcff"}
    assert pieces[1].value == {"a": "س"}


def test_a_file_that_fails_while_it_is_read():
    class Failing(io.BytesIO):
        def read(self, *_):
            if self.tell() > 0:
                raise EOFError("cut")
            return super().read(4)

        def readline(self, *_):
            raise EOFError("cut")

    assert "ends early" in list(walk_json(Failing(b"[1, 2, 3]"), [()]))[-1].why
    assert "ends early" in next(walk_json_lines(Failing(b"1\n"))).why
