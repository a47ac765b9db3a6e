"""Agreement of judges with human scores: shares, orders, intervals."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import bayesjudge as bj
from bayesjudge.closed_form.human_agreement import MEASURES, group_agreement
from bayesjudge.judge_agreement import ALL, human_agreement

DATA = Path(os.environ.get("BAYESJUDGE_DATA", Path(__file__).parents[2] / "shared/data"))


def compared(score, human, scenario=None, backbone=None, block=None, group=None, n=1, **more):
    size = len(score)
    zeros = np.zeros(size, np.int64)
    scenario = zeros if scenario is None else np.asarray(scenario)
    return group_agreement(
        np.asarray(score, float),
        np.asarray(human, float),
        zeros if group is None else np.asarray(group),
        scenario,
        np.arange(size) if backbone is None else np.asarray(backbone),
        scenario if block is None else np.asarray(block),
        n,
        more.get("resamples", 50),
        np.random.default_rng(0),
    )


def test_measures_by_hand():
    found = compared([1, 2, 2, 5], [1, 3, 2, 4])
    equal, difference, correlation, pairs = found.estimate[0]
    assert (equal, difference) == (0.5, 0.0)
    assert correlation == pytest.approx(np.corrcoef([1, 2, 2, 5], [1, 3, 2, 4])[0, 1])
    # of six pairs five are ordered as by the human, one the judge ties
    assert pairs == pytest.approx(5.5 / 6)
    np.testing.assert_array_equal(found.n[0], [4, 4, 4, 6])
    assert np.isnan(found.ci_lower).all()


def test_a_judge_that_never_varies_has_no_correlation_and_ties_count_half():
    found = compared([3, 3, 3], [1, 2, 2])
    equal, difference, correlation, pairs = found.estimate[0]
    assert np.isnan(correlation)
    assert pairs == 0.5
    assert found.n[0, 3] == 2
    assert difference == pytest.approx(4 / 3)
    assert equal == 0


def test_pairs_are_of_different_backbones_in_one_block():
    found = compared(
        [1, 2, 3, 9], [1, 2, 3, 0], scenario=[0, 0, 0, 1], backbone=[0, 0, 1, 2], block=[0, 0, 0, 1]
    )
    assert found.n[0, 3] == 2
    assert found.estimate[0, 3] == 1.0


def test_an_empty_group_is_null():
    found = compared([1.0, 2.0], [1.0, 2.0], group=[1, 1], n=2)
    assert np.isnan(found.estimate[0]).all()
    assert found.n_scenarios.tolist() == [0, 1]


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_properties(data):
    n = data.draw(st.integers(2, 30))
    number = st.integers(-5, 5)
    score = np.array(data.draw(st.lists(number, min_size=n, max_size=n)), float)
    human = np.array(data.draw(st.lists(number, min_size=n, max_size=n)), float)
    scenario = np.array(data.draw(st.lists(st.integers(0, 4), min_size=n, max_size=n)))
    found = compared(score, human, scenario=scenario)
    equal, difference, correlation, pairs = found.estimate[0]
    assert equal == np.mean(score == human)
    assert difference == pytest.approx(np.mean(score - human))
    assert np.isnan(correlation) or -1 <= correlation <= 1
    assert np.isnan(pairs) or 0 <= pairs <= 1
    low, high = found.ci_lower[0, :2], found.ci_upper[0, :2]
    assert np.isnan(low).all() or (low <= high).all()
    order = np.random.default_rng(1).permutation(n)
    again = compared(score[order], human[order], scenario=scenario[order], backbone=order)
    np.testing.assert_allclose(again.estimate, found.estimate, atol=1e-12)
    # scores that are the human's agree in everything
    same = compared(human, human, scenario=scenario).estimate[0]
    assert same[0] == 1
    assert same[1] == 0
    for value in same[2:]:
        assert np.isnan(value) or value == pytest.approx(1)


def test_intervals_resample_scenarios_and_cover():
    # 200 tables, 40 scenarios of three answers that share their luck; P(cover) of the
    # percentile interval is near 0.93 there: fewer than 170 has probability below 0.001.
    covered = 0
    for seed in range(200):
        rng = np.random.default_rng([seed, 3])
        scenario = np.repeat(np.arange(40), 3)
        luck = np.repeat(rng.random(40) < 0.7, 3)
        found = group_agreement(
            luck.astype(float),
            np.ones(120),
            np.zeros(120, np.int64),
            scenario,
            np.tile(np.arange(3), 40),
            scenario,
            1,
            300,
            rng,
        )
        covered += found.ci_lower[0, 0] <= 0.7 <= found.ci_upper[0, 0]
    assert covered >= 170


def table(**more):
    rng = np.random.default_rng(0)
    rows = [
        (f"m{b}", f"i{i}", f"j{k}", lang, float(rng.integers(1, 6)), float(rng.integers(1, 6)))
        for b in range(3)
        for i in range(8)
        for k in range(2)
        for lang in ("de", "fr")
    ]
    names = ["backbone", "scenario", "judge", "language", "score", "human_score"]
    return pd.DataFrame(rows, columns=names).assign(**more)


def test_by_judge_and_language():
    frame = table()
    frame.loc[frame["scenario"] > "i4", "human_score"] = None
    scores = bj.read_scores(frame)
    found = human_agreement(scores, resamples=50)
    assert set(found["language"]) == {ALL, "de", "fr"}
    assert set(found["measure"]) == set(MEASURES)
    kept = frame.dropna()
    for judge in ("j0", "j1"):
        for language in (ALL, "de", "fr"):
            own = kept[(kept["judge"] == judge)]
            own = own if language == ALL else own[own["language"] == language]
            row = found[(found["judge"] == judge) & (found["language"] == language)]
            row = row.set_index("measure").loc["equal"]
            assert row["estimate"] == np.mean(own["score"] == own["human_score"])
            assert row["n"] == len(own)
            assert row["n_scenarios"] == 5
            assert row["ci_lower"] <= row["estimate"] <= row["ci_upper"]


def test_agreement_is_refused_without_labels():
    scores = bj.read_scores(table().drop(columns="human_score"))
    with pytest.raises(bj.DataError, match="no score has a human score"):
        human_agreement(scores)
    empty = bj.read_scores(table(human_score=None))
    with pytest.raises(bj.DataError, match="no score has a human score"):
        human_agreement(empty)
    with pytest.raises(bj.UsageError, match="resamples"):
        human_agreement(bj.read_scores(table()), resamples=1)


def test_a_table_of_one_judge_without_scenarios():
    frame = table().query("judge == 'j0' and language == 'de'")
    frame = frame.drop(columns=["judge", "language"]).rename(columns={"scenario": "generation"})
    found = human_agreement(bj.read_scores(frame), resamples=20)
    assert set(found["judge"]) == {ALL}
    assert found.set_index("measure").loc["pairs", "n"] == 0


def test_audit_tells_agreement_by_language():
    frame = table()
    frame.loc[frame["scenario"] > "i5", "human_score"] = None
    found = bj.audit(bj.read_languages(frame), only=["human_agreement"], draws=100)
    by_judge = found["human_agreement"]["by_judge"]
    assert set(by_judge["judge"]) == {"j0", "j1"}
    assert set(found["human_agreement"]["by_language"]["language"]) == {"de", "fr"}
    without = bj.audit(
        bj.read_languages(frame.drop(columns="human_score")), only=["human_agreement"], draws=100
    )
    assert "human_score" in without.not_computed["human_agreement"]
    none = bj.audit(
        bj.read_languages(frame.assign(human_score=None)), only=["human_agreement"], draws=100
    )
    assert "beside" in none.not_computed["human_agreement"]


@pytest.mark.skipif(not (DATA / "llmbar").is_dir(), reason="needs ../shared/data/llmbar")
def test_agreement_on_llmbar_equals_the_published_accuracies():
    # SOURCE.md: the authors' accuracies are the share of last-pass verdicts that equal the
    # label, unparsed ones wrong; and 0.57082 is the mean of the eight prompts' parsed verdicts.
    raw = pd.read_parquet(DATA / "llmbar/verdicts.parquet")
    raw = raw[raw["final"] & ~raw["prompt"].str.startswith("Rating")]
    shared = raw.groupby("prompt")["judge"].nunique()
    raw = raw[raw["prompt"].isin(shared[shared == 6].index)].reset_index(drop=True)
    frame = pd.DataFrame(
        {
            "scenario": raw["scenario"],
            "judge": raw["judge"],
            # both orders of an item are the two answers that are told apart here
            "backbone": raw["order"],
            "prompt": raw["prompt"],
            "score": raw["winner"].astype(float).fillna(0.0),
            "human_score": raw["label"].astype(float),
        }
    )
    scores = bj.read_scores(frame, facets=["prompt"])
    found = human_agreement(scores, resamples=20)
    own = found[found["measure"] == "equal"].set_index("judge")["estimate"]
    accuracy = (raw["winner"].astype(float) == raw["label"]).groupby(raw["judge"]).mean()
    np.testing.assert_allclose(own.sort_index(), accuracy.sort_index(), atol=1e-12)
    assert len(own) == 6
    parsed = raw["winner"].notna()
    rate = np.average(own.loc[raw["judge"]].to_numpy()) * len(raw) / parsed.sum()
    assert rate == pytest.approx(0.57082, abs=1e-4)
    one = frame[(frame["judge"] == "GPT-4") & (frame["prompt"] == "Vanilla")]
    told = human_agreement(bj.read_scores(one.drop(columns="prompt")), resamples=20)
    gpt4 = told[told["measure"] == "equal"]["estimate"].item()
    assert gpt4 == np.mean(one["score"] == one["human_score"])
