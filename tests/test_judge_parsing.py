"""Replies read: a failed parse is missing, a cut-off one is read and flagged."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayesjudge.judges.calls import Reply
from bayesjudge.judges.parsing import read_judgment, read_translation, read_verdict


def read(text, scale=(1, 5), **more):
    return read_judgment(Reply(text, **more), scale)


@pytest.mark.parametrize(
    ("text", "score", "rationale"),
    [
        ('{"score": 4, "rationale": "good"}', 4, "good"),
        ('{"rationale": "good", "score": 4}', 4, "good"),
        ('```json\n{"score": 4, "rationale": "good"}\n```', 4, "good"),
        ('Here you are: {"score": 4} Bye.', 4, None),
        ('{"Score ": "4"}', 4, None),
        ('{"score": 4.0}', 4, None),
        ('<think>{"score": 1}</think>{"score": 4}', 4, None),
        ('{"score": 4} {"score": 4, "rationale": "again"}', 4, "again"),
        ('{"score": 4, "rationale": "two\nlines"}', 4, "two\nlines"),
        ('{"score": 5, "rationale": "a } { b \\" c"}', 5, 'a } { b " c'),
        ('{"score": 4, "rationale": 7}', 4, None),
        ('{"score": 4, "rationale": "half \\ud800 nul \\u0000"}', 4, "half ? nul \ufffd"),
        ('{"score": 4, "score": 4}', 4, None),
    ],
)
def test_a_score_is_read(text, score, rationale):
    found = read(text)
    assert (found.score, found.rationale) == (score, rationale)
    assert found.parse_ok
    assert not found.truncated
    assert found.reason is None


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"score": 0}', "no whole number from 1 to 5"),
        ('{"score": 6}', "no whole number from 1 to 5"),
        ('{"score": 4.5}', "4.5 is no whole"),
        ('{"score": "4/5"}', "'4/5' is no whole"),
        ('{"score": true}', "True is no whole"),
        ('{"score": null}', "None is no whole"),
        ('{"score": [4]}', "is no whole"),
        ('{"score": NaN}', "nan is no whole"),
        ('{"score": Infinity}', "inf is no whole"),
        ('{"score": 1e400}', "inf is no whole"),
        ('{"score": 4} {"score": 5}', "different values"),
        ('{"score": 4, "score": 5}', "given twice"),
        ('{"note": 4}', 'no JSON object with the key "score"'),
        ("4", "no JSON object: '4'"),
        ("I would say " + "x" * 200, "…"),
        ("", "empty"),
        ("  \n", "empty"),
        ("<think>so long", "no JSON object"),
        ("<think>so long</think>", "empty"),
        ('{"score":', "cut off before"),
        ('{"score": 1', "cut off before"),
        ('{"score": "4', "cut off before"),
        ('{"sco', "cut off before"),
        ('{"rationale": "because', "cut off before"),
        ('{"score": 9, "rationale": "cut', "9 is no whole"),
        ("{" * 5000, "cut off before"),
        ('{"a":' * 5000, "cut off before"),
    ],
)
def test_what_cannot_be_read_is_missing_and_says_why(text, reason):
    found = read(text)
    assert found.score is None
    assert not found.parse_ok
    assert reason in found.reason


def test_a_failed_call_is_missing():
    assert "the call failed: 503" in read_judgment(Reply(None, error="503"), (1, 5)).reason
    assert "(content_filter)" in read(None, stop_reason="content_filter").reason
    assert read_verdict(Reply(None, error="gone")).correct is None


@pytest.mark.parametrize(
    ("text", "rationale"),
    [
        ('{"score": 4, "rationale": "the answ', "the answ"),
        ('{"score": 4, "rationale": "the \\"answer\\', 'the "answer'),
        ('{"score": 4, "rationale": "caf\\u00e9 \\u00e', "café "),
        ('{"score": 4, "rationale": "', ""),
        ('{"score": 4, "rationale": "whole"', "whole"),
        ('{"score": 4, "rational', None),
        ('{"score": 4,', None),
        ('```json\n{ "score" : 4 , "rationale": "the', "the"),
    ],
)
def test_a_reply_cut_off_after_its_score_is_read_and_flagged(text, rationale):
    found = read(text, stop_reason="max_tokens")
    assert (found.score, found.rationale) == (4, rationale)
    assert found.parse_ok
    assert found.truncated


def test_a_number_that_may_go_on_is_not_read():
    found = read('{"score": 1', scale=(0, 10), stop_reason="max_tokens")
    assert found.score is None
    assert found.truncated


@given(st.integers(1, 5), st.text(max_size=60), st.data())
def test_a_reply_cut_anywhere_gives_its_own_score_or_none(score, rationale, data):
    text = json.dumps(
        {"score": score, "rationale": rationale}, ensure_ascii=data.draw(st.booleans())
    )
    cut = text[: data.draw(st.integers(0, len(text)))]
    found = read(cut)
    assert found.score in {float(score), None}
    assert found.parse_ok is (found.score is not None)
    assert (found.reason is None) is found.parse_ok
    if len(cut) > len(f'{{"score": {score},') and cut != text:
        assert found.score == score
        assert found.truncated
    if cut == text:
        assert found.score == score
        assert not found.truncated


@given(st.text(max_size=200))
def test_any_text_is_read_without_an_error(text):
    found = read(text)
    assert found.parse_ok is (found.score is not None)
    assert read_verdict(Reply(text)).correct in {True, False, None}


@pytest.mark.parametrize(
    ("text", "correct", "truncated"),
    [
        ('{"correct": true, "rationale": "yes"}', True, False),
        ('{"correct": false}', False, False),
        ('{"correct": "False"}', False, False),
        ('{"correct": true, "rationale": "y', True, True),
        ('{"correct": true', None, True),
        ('{"correct": 1}', None, False),
        ('{"correct": 0.0}', None, False),
        ('{"correct": null}', None, False),
        ('{"correct": true} {"correct": false}', None, False),
        ("true", None, False),
    ],
)
def test_a_verdict_is_read(text, correct, truncated):
    found = read_verdict(Reply(text))
    assert found.correct is correct
    assert found.parse_ok is (correct is not None)
    assert found.truncated is truncated


def test_a_translation_is_read():
    names = ("task", "answer")
    good = '{"task": "Aufgabe", "answer": "Antwort", "note": "x"}'
    assert read_translation(Reply(good), names) == ({"task": "Aufgabe", "answer": "Antwort"}, "")
    for text, reason in [
        ('{"task": "Aufgabe"}', "keys that were sent"),
        ('{"task": "Aufgabe", "answer": " "}', '"answer" is no text'),
        ('{"task": 3, "answer": "b"}', '"task" is no text'),
        ("Aufgabe", "keys that were sent"),
    ]:
        found, why = read_translation(Reply(text), names)
        assert found is None
        assert reason in why
    assert read_translation(Reply(None, error="429"), names)[1] == "the call failed: 429"
