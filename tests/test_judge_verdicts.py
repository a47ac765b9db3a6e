"""Items from multiple choice, semantic entropy, and SEMJ's score tables."""

from __future__ import annotations

import asyncio
import io
import json
import math
from collections import Counter

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import bayesjudge as bj
from bayesjudge.errors import DataError, UsageError
from bayesjudge.judges.entropy import entropy_columns, semantic_entropy
from bayesjudge.judges.items import Item, read_items
from bayesjudge.judges.multiple_choice import (
    RIGHT,
    WRONG,
    Question,
    balanced_items,
    item_lines,
    read_questions,
    truth_of,
)
from bayesjudge.judges.semj import Settings, refine
from bayesjudge.judges.semj_simulator import SimulatedJudge
from bayesjudge.judges.verdict_table import language_offsets, round_columns, stage_columns
from bayesjudge.resolution import resolve
from bayesjudge.spec import read_model
from tests.scripted_judge import Scripted

QUESTIONS = tuple(
    Question(f"q{n}", f"{one} question {n}?", tuple(f"{one}{n}{c}" for c in "abcd"), n % 4, one)
    for n in range(21)
    for one in ("en", "he")
)


# Items from multiple choice.


def test_half_of_the_items_are_correct_and_languages_go_together():
    items = balanced_items(QUESTIONS)
    assert len(items) == len(QUESTIONS)
    by_scenario: dict[str, set] = {}
    for item, question in zip(items, QUESTIONS, strict=True):
        right = question.options[question.right]
        assert (item.response == right) is truth_of(item)
        assert item.response in question.options
        assert (item.scenario, item.prompt, item.language) == (
            question.scenario,
            question.text,
            question.language,
        )
        # The same kind of answer, and the same wrong option, in both languages.
        by_scenario.setdefault(item.scenario, set()).add((item.backbone, item.response[-1]))
    assert all(len(kinds) == 1 for kinds in by_scenario.values())
    counts = Counter(truth_of(item) for item in items)
    assert sorted(counts.values()) == [20, 22]
    assert balanced_items(QUESTIONS) == items
    assert balanced_items(QUESTIONS, seed=1) != items


def test_an_odd_one_is_right_or_wrong_by_chance():
    three = QUESTIONS[:6]
    counts = {sum(map(truth_of, balanced_items(three, seed=seed))) for seed in range(20)}
    assert counts == {2, 4}


def test_every_wrong_option_is_taken():
    seen = {
        item.response
        for seed in range(60)
        for item in balanced_items(QUESTIONS[:1], seed=seed)
        if not truth_of(item)
    }
    assert seen == {"en0b", "en0c", "en0d"}


def test_both_answers_of_each_question():
    items = balanced_items(QUESTIONS, answers="both")
    assert Counter(item.backbone for item in items) == {RIGHT: 42, WRONG: 42}
    with pytest.raises(UsageError, match="answers cannot be"):
        balanced_items(QUESTIONS, answers="none")


def test_items_go_through_a_file(tmp_path):
    items = balanced_items(QUESTIONS)
    path = tmp_path / "items.jsonl"
    path.write_text(item_lines(items), encoding="utf-8")
    assert read_items(str(path)).items == items


def test_parallel_questions_have_to_be_parallel():
    other = Question("q0", "x?", ("a", "b"), 1, "de")
    with pytest.raises(DataError, match="q0 has other options"):
        balanced_items([QUESTIONS[0], other])
    with pytest.raises(DataError, match="does not say whether the answer is correct"):
        truth_of(Item("s", "gpt", "p", "r"))


def questions_of(tmp_path, *lines, **more):
    path = tmp_path / "q.jsonl"
    text = "\n".join(one if isinstance(one, str) else json.dumps(one) for one in lines)
    path.write_text(text, encoding="utf-8")
    return read_questions(str(path), **more)


Q = {"question": "2 + 2?", "choices": ["3", "4", "5"]}


@pytest.mark.parametrize(
    ("answer", "first", "right"),
    [(1, 0, 1), (1, 1, 0), ("B", 0, 1), ("b", 0, 1), (" C ", 0, 2), ("4", 0, 1), ("0", 0, 0)],
)
def test_an_answer_is_a_number_a_letter_or_a_text(tmp_path, answer, first, right):
    (found,) = questions_of(tmp_path, Q | {"answer": answer}, first=first)
    assert (found.right, found.scenario, found.language) == (right, "1", None)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "not valid JSON"),
        ("[1]", "no JSON object"),
        (Q, "there is no answer"),
        (Q | {"answer": 3}, "names none"),
        (Q | {"answer": -1}, "names none"),
        (Q | {"answer": True}, "names none"),
        (Q | {"answer": "D"}, "names none"),
        (Q | {"answer": "six"}, "names none"),
        ({"question": "?", "choices": ["B", "A"], "answer": "A"}, "could name two"),
        ({"question": "?", "choices": ["1", "0"], "answer": "0"}, "could name two"),
        ({"question": " ", "choices": ["B", "A"], "answer": 0}, "question is no text"),
        ({"question": "?", "choices": ["A"], "answer": 0}, "two different texts"),
        ({"question": "?", "choices": ["A", "A", "B"], "answer": 0}, "two different texts"),
        ({"question": "?", "choices": ["A", 3], "answer": 0}, "two different texts"),
        ({"question": "?", "choices": "AB", "answer": 0}, "two different texts"),
        (Q | {"answer": 0, "scenario": 1.5}, "are labels"),
        ({"prompt": "?", "input": "?", "choices": ["A", "B"], "answer": 0}, "could both be"),
    ],
)
def test_a_line_that_is_no_question_is_named(tmp_path, line, message):
    with pytest.raises(DataError, match=message) as error:
        questions_of(tmp_path, "", line)
    assert "line 2" in error.value.where


def test_files_that_hold_no_questions(tmp_path):
    with pytest.raises(DataError, match="no such file"):
        read_questions(str(tmp_path / "none.jsonl"))
    with pytest.raises(DataError, match="cannot be read"):
        read_questions(str(tmp_path))
    with pytest.raises(DataError, match="holds no questions"):
        questions_of(tmp_path, "", " ")
    twice = Q | {"answer": 1, "id": "a"}
    with pytest.raises(DataError, match="there twice"):
        questions_of(tmp_path, twice, twice)
    assert len(questions_of(tmp_path, twice, twice | {"language": "he"})) == 2
    with pytest.raises(UsageError, match="numbered from 2"):
        questions_of(tmp_path, twice, first=2)
    (tmp_path / "q.jsonl").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(DataError, match="not UTF-8"):
        read_questions(str(tmp_path / "q.jsonl"))


# Semantic entropy.


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([4, 4, 4], 0),
        ([1, 2], math.log(2)),
        ([True, True, True, True, False], -(0.8 * math.log(0.8) + 0.2 * math.log(0.2))),
        ([1, 2, 3, 4, 5], math.log(5)),
        ([1, 1, None, None], 0),
    ],
)
def test_entropy_by_hand(values, expected):
    assert semantic_entropy(values) == pytest.approx(expected)


@given(st.lists(st.sampled_from([1, 2, 3, None]), max_size=10))
def test_entropy_is_between_nothing_and_the_log_of_the_number(values):
    valid = [v for v in values if v is not None]
    found = semantic_entropy(values)
    if len(valid) < 2:
        assert math.isnan(found)
    else:
        assert 0 <= found <= math.log(len(valid)) + 1e-12
        assert found == pytest.approx(semantic_entropy(values[::-1]))
        assert (found == 0) is (len(set(valid)) == 1)


def sampled():
    rng = np.random.default_rng(3)
    rows = [
        (f"s{s:02d}", language, call, None if rng.random() < 0.1 else int(rng.integers(1, 4 + at)))
        for s in range(30)
        for at, language in enumerate(("en", "hi"))
        for call in range(1, 6)
    ]
    names = ("scenario", "language", "call", "score")
    columns = {name: list(part) for name, part in zip(names, zip(*rows, strict=True), strict=True)}
    columns["nll"] = [1.0] * len(rows)
    return columns


def test_entropy_becomes_a_column_of_the_score_table():
    columns = sampled()
    found = entropy_columns(columns)
    assert list(found) == ["scenario", "language", "score", "n_samples", "semantic_entropy"]
    assert len(found["score"]) == 60
    frame = pd.DataFrame(columns)
    first = frame[(frame["scenario"] == "s00") & (frame["language"] == "en")]["score"].dropna()
    assert found["score"][0] == pytest.approx(first.mean())
    assert found["n_samples"][0] == len(first)
    assert found["semantic_entropy"][0] == pytest.approx(semantic_entropy(first))


def test_the_audit_takes_entropy_as_its_uncertainty():
    table = pd.DataFrame(entropy_columns(sampled()))
    scores = bj.read_languages(table, columns={"nll": "semantic_entropy"})
    found = bj.audit(scores, only="uncertainty", permutations=19)
    level = found["uncertainty"]["language_level"]
    assert len(level)


def test_the_model_uncertainty_takes_entropy_as_its_covariate():
    columns = sampled()
    columns["backbone"] = [("a", "b")[int(s[1:]) % 2] for s in columns["scenario"]]
    columns["scenario"] = [f"s{int(s[1:]) // 2}" for s in columns["scenario"]]
    table = pd.DataFrame(entropy_columns(columns)).dropna()
    named = {"nll": "semantic_entropy"}
    spec = read_model("uncertainty")
    scores = bj.read_scores(table, covariates="nll", columns=named)
    resolved = resolve(spec, scores, None, None)
    assert {"backbone", "language", "scenario"} <= {term.name for term in resolved.terms}
    assert scores.covariate("nll").tolist() == table["semantic_entropy"].tolist()


def test_entropy_without_samples_is_refused():
    with pytest.raises(DataError, match="no column 'call'"):
        entropy_columns({"score": [1, 2]})
    with pytest.raises(DataError, match="two valid scores"):
        entropy_columns({"score": [1, None], "call": [1, 2], "scenario": ["a", "a"]})


# SEMJ's score tables.

SCRIPT = {
    "en": [True, False],
    "de": [False, "?"],
    "fr": ["?", True],
    "hi": [False],
    "zh": [False],
}
SETTINGS = Settings("m", candidates=("de", "fr", "hi", "zh"), rounds=1)


def results(**changes):
    items = [
        Item("s1", "gpt", "p", "r", language="en", facets=(("topic", "sums"),)),
        Item("s1", "aya", "p", "r", generation="2", language="en", facets=(("topic", "sums"),)),
    ]
    return [asyncio.run(refine(one, SETTINGS, Scripted(SCRIPT))) for one in items]


def test_every_verdict_of_every_round_is_a_row():
    table = pd.DataFrame(round_columns(results(), "judge-1"))
    assert len(table) == 2 * 5 * 2
    assert set(table["judge"]) == {"judge-1"}
    assert set(table["own_language"]) == {"en"}
    assert set(table["topic"]) == {"sums"}
    first = table[(table["backbone"] == "gpt") & (table["round"] == 0)].set_index("language")
    assert first["score"].to_dict() == pytest.approx(
        {"en": 1, "de": 0, "fr": math.nan, "hi": 0, "zh": 0}, nan_ok=True
    )
    assert "no JSON object" in first.loc["fr", "failure"]
    assert first.loc["en", "rationale"] == "en round 0 True"
    assert set(first["agreement"]) == {0.5}


def test_stages_are_the_first_and_the_last_valid_verdict():
    columns = stage_columns(results(), "j")
    table = pd.DataFrame(columns)
    after = table[(table["stage"] == "after") & (table["backbone"] == "gpt")]
    scores = dict(zip(after["language"], after["score"], strict=True))
    # German became invalid: its last valid verdict stands. French became valid.
    assert scores == {"en": 0, "de": 0, "fr": 1, "hi": 0, "zh": 0}
    assert after["failure"].isna().all()
    before = table[(table["stage"] == "before") & (table["backbone"] == "gpt")]
    assert before["score"].isna().sum() == 1
    own = pd.DataFrame(stage_columns(results(), "j", "own"))
    assert set(own["language"]) == {"en"}
    assert len(own) == 4


def test_a_stage_is_read_as_a_table_of_verdicts():
    text = pd.DataFrame(stage_columns(results(), "j")).to_csv(index=False)
    table = pd.read_csv(io.StringIO(text), dtype=str, keep_default_na=False)
    scores = bj.read_scores(
        table[["scenario", "backbone", "judge", "language", "stage", "score"]],
        where={"stage": "after"},
    )
    assert scores.levels("language") == ("de", "en", "fr", "hi", "zh")
    assert sorted(scores.score.tolist()) == [0] * 8 + [1] * 2


def test_offsets_are_asked_of_the_verdict_model_stage_by_stage():
    fits = []

    class Fitted:
        def __init__(self, scores):
            self.languages = scores.levels("language")

        def effects(self, term, *, ci_prob):
            assert (term, ci_prob) == ("language", 0.9)
            return pd.DataFrame({"language": list(self.languages), "estimate": 0.0})

    def fit(scores, model, **keywords):
        fits.append((scores, model, keywords))
        return Fitted(scores)

    found = language_offsets(results(), "j", ci_prob=0.9, fit=fit, draws=7)
    assert [model for _, model, _ in fits] == ["verdict", "verdict"]
    assert fits[0][2] == {"draws": 7}
    assert [len(scores.score) for scores, _, _ in fits] == [8, 10]
    assert found["stage"].tolist() == ["before"] * 4 + ["after"] * 5
    assert found.attrs["variants"] == "all"
    with pytest.raises(DataError, match="in one language"):
        language_offsets(results(), "j", variants="own", fit=fit)


def test_parallel_items_count_in_their_own_languages():
    items = [Item("s1", who, "p", "r", language=one) for who in "ab" for one in ("en", "de")]
    settings = Settings("m", candidates=("en", "de", "fr"), others=2, rounds=0)
    made = [asyncio.run(refine(one, settings, Scripted(SCRIPT))) for one in items]
    seen = []

    def fit(scores, model):
        seen.append(scores)
        raise DataError("enough")

    with pytest.raises(DataError, match="enough"):
        language_offsets(made, "j", fit=fit)
    assert len(seen[0].score) == 4


SIMULATED = {
    "skill": 0.9,
    "resource": 0.0,
    "shared": 0.5,
    "leniency": {"he": 1.0, "it": -1.0},
    "repairs": 0.5,
    "spoils": 0.05,
}


async def lenient(call):
    """Judge as a simulator that is told by the backbone whether the answer is right."""
    return await SimulatedJudge({call.key[0]: call.key[2] == RIGHT}, **SIMULATED)(call)


def test_planted_leniency_is_found_before_and_shrinks_after_refinement():
    questions = [Question(f"q{n:03d}", "?", ("a", "b"), 0, "en") for n in range(40)]
    items = balanced_items(questions, answers="both")
    settings = Settings("m", candidates=("he", "hi", "it", "zh"))
    made = [asyncio.run(refine(item, settings, lenient)) for item in items]
    # Compiling takes longer than sampling: few draws tell one log odds from two.
    found = language_offsets(made, "j", draws=100, tune=100, chains=1, random_seed=1)
    before, after = (
        found[found["stage"] == stage].set_index("language") for stage in ("before", "after")
    )
    assert before.loc["he", "ci_lower"] > 0
    assert before.loc["it", "ci_upper"] < 0
    assert (before["n"] == 80).all()
    assert np.ptp(after["estimate"]) < np.ptp(before["estimate"])
