"""Results as JSON: strict, and read back as they were."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayesjudge.report.json_text import to_json


def refuse(constant):
    raise AssertionError(constant)


def read(text):
    return json.loads(text, parse_constant=refuse)


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=15,
)


@settings(deadline=None)
@given(values)
def test_round_trip(value):
    assert read(to_json(value)) == value
    assert read(to_json(value, indent=2)) == value


@settings(deadline=None)
@given(st.text(st.characters()))
def test_any_text_can_be_encoded(label):
    text = to_json({label: label})
    text.encode("utf-8")
    if not any(0xD800 <= ord(character) < 0xE000 for character in label):
        assert read(text) == {label: label}


def test_a_lone_surrogate_comes_back():
    assert read(to_json("a\ud800")) == "a\ud800"
    assert read(to_json("\\\ud800")) == "\\\ud800"


def test_text_is_not_escaped():
    assert to_json("模型 é") == '"模型 é"'


@pytest.mark.parametrize(
    "value",
    [math.nan, math.inf, -math.inf, np.float64("nan"), np.float32("inf"), pd.NA, pd.NaT, None],
)
def test_what_is_no_number_is_null(value):
    assert read(to_json([value])) == [None]


@dataclass(frozen=True)
class Inner:
    score: float


@dataclass(frozen=True)
class Outer:
    inner: tuple[Inner, ...]
    array: np.ndarray


def test_dataclasses_arrays_and_scalars():
    value = Outer((Inner(math.nan), Inner(2.0)), np.array([[1.5, np.inf], [2.0, 3.0]]))
    assert read(to_json(value)) == {
        "inner": [{"score": None}, {"score": 2.0}],
        "array": [[1.5, None], [2.0, 3.0]],
    }
    assert read(to_json([np.int64(3), np.bool_(True), np.str_("x"), Path("a/b")])) == [
        3,
        True,
        "x",
        "a/b",
    ]
    assert read(to_json({1: "a", np.int64(2): "b"})) == {"1": "a", "2": "b"}


def test_a_frame_is_a_list_of_rows():
    frame = pd.DataFrame(
        {"backbone": ["NA", "01"], "mean": [1.5, np.nan], "tier": [1, 2], "ok": [True, False]}
    )
    assert read(to_json(frame)) == [
        {"backbone": "NA", "mean": 1.5, "tier": 1, "ok": True},
        {"backbone": "01", "mean": None, "tier": 2, "ok": False},
    ]
    assert read(to_json(frame.iloc[:0])) == []
    assert read(to_json(frame["mean"])) == [1.5, None]
    assert read(to_json(pd.DataFrame({1: [2]}))) == [{"1": 2}]


@pytest.mark.parametrize(
    "value",
    [
        {1, 2},
        object(),
        Inner,
        b"x",
        {1.5: 2},
        {True: 1},
        {None: 1},
        pd.DataFrame([[1, 2]], columns=["a", "a"]),
        1j,
    ],
)
def test_what_has_no_form_is_refused(value):
    with pytest.raises(TypeError):
        to_json(value)
