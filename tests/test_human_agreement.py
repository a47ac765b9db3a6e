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
from bayesjudge.closed_form.human_labels import MEASURES, group_agreement, share_interval
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
        **more,
    )


def test_measures_by_hand():
    found = compared([1, 2, 2, 5], [1, 3, 2, 4])
    equal, difference, correlation, concordance, pairs = found.estimate[0]
    assert concordance == pytest.approx(1 - 2 / (9 + 5))
    assert (equal, difference) == (0.5, 0.0)
    assert correlation == pytest.approx(np.corrcoef([1, 2, 2, 5], [1, 3, 2, 4])[0, 1])
    # of six pairs five are ordered as by the human, one the judge ties
    assert pairs == pytest.approx(5.5 / 6)
    np.testing.assert_array_equal(found.n[0], [4, 4, 4, 4, 6])
    assert np.isnan(found.ci_lower).all()


def test_a_judge_that_never_varies_has_no_correlation_and_ties_count_half():
    found = compared([3, 3, 3], [1, 2, 2])
    equal, difference, correlation, concordance, pairs = found.estimate[0]
    assert np.isnan(correlation)
    assert np.isnan(concordance)
    assert pairs == 0.5
    assert found.n[0, 4] == 2
    assert difference == pytest.approx(4 / 3)
    assert equal == 0


def test_pairs_are_of_different_backbones_in_one_block():
    found = compared(
        [1, 2, 3, 9], [1, 2, 3, 0], scenario=[0, 0, 0, 1], backbone=[0, 0, 1, 2], block=[0, 0, 0, 1]
    )
    assert found.n[0, 4] == 2
    assert found.estimate[0, 4] == 1.0


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
    equal, difference, correlation, concordance, pairs = found.estimate[0]
    assert np.isnan(concordance) or abs(concordance) <= abs(correlation) + 1e-9
    assert equal == np.mean(score == human)
    assert difference == pytest.approx(np.mean(score - human))
    assert np.isnan(correlation) or -1 <= correlation <= 1
    assert np.isnan(pairs) or 0 <= pairs <= 1
    for low, value, high in zip(
        found.ci_lower[0], found.estimate[0], found.ci_upper[0], strict=True
    ):
        assert np.isnan(low) == np.isnan(high)
        assert np.isnan(low) or low - 1e-9 <= value <= high + 1e-9
    order = np.random.default_rng(1).permutation(n)
    again = compared(score[order], human[order], scenario=scenario[order], backbone=order)
    np.testing.assert_allclose(again.estimate, found.estimate, atol=1e-12)
    # scores that are the human's agree in everything
    same = compared(human, human, scenario=scenario).estimate[0]
    assert same[0] == 1
    assert same[1] == 0
    for value in same[2:]:
        assert np.isnan(value) or value == pytest.approx(1)


def clustered(seed, n=40, p=0.7):
    """n scenarios of three answers that share their luck, and two scores that correlate."""
    rng = np.random.default_rng([seed, 3])
    scenario = np.repeat(np.arange(n), 3)
    luck = np.repeat(rng.random(n) < p, 3)
    shared = np.repeat(rng.standard_normal(n), 3)
    x, y = (shared + 0.75 * rng.standard_normal(3 * n) for _ in range(2))
    return scenario, luck.astype(float), x, y


def test_intervals_know_that_scenarios_share_their_luck():
    # 300 tables: fewer than 270 covered has probability 0.0003 at 0.95. Rows taken for
    # independent would give intervals of shares half as wide.
    covered = np.zeros(3)
    for seed in range(300):
        scenario, luck, x, y = clustered(seed)
        shares = compared(luck, np.ones(120), scenario=scenario)
        moments = compared(x, y, scenario=scenario)
        low = [shares.ci_lower[0, 0], moments.ci_lower[0, 1], moments.ci_lower[0, 2]]
        high = [shares.ci_upper[0, 0], moments.ci_upper[0, 1], moments.ci_upper[0, 2]]
        # of x and y: shared variance 1 of 1 + 0.75**2
        covered += (low <= np.array([0.7, 0.0, 0.64])) & (np.array([0.7, 0.0, 0.64]) <= high)
    assert (covered >= 270).all()


def test_concordance_of_verdicts_is_cohens_kappa():
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 2, 50), rng.integers(0, 2, 50)
    chance = x.mean() * y.mean() + (1 - x.mean()) * (1 - y.mean())
    kappa = (np.mean(x == y) - chance) / (1 - chance)
    assert compared(x, y).estimate[0, 3] == pytest.approx(kappa)


def test_a_judge_that_was_always_right_is_not_called_infallible():
    found = compared(np.tile([1.0, 2.0], 10), np.tile([1.0, 2.0], 10), np.repeat(np.arange(10), 2))
    assert found.estimate[0, 0] == 1
    assert found.ci_upper[0, 0] == 1
    # ten scenarios without an error: (0.05 / 2) ** (1 / 10)
    assert found.ci_lower[0, 0] == pytest.approx(0.025**0.1)
    assert np.isnan(found.ci_lower[0, 2])


def test_a_share_of_independent_rows_has_the_exact_interval():
    # 7 of 10, each a scenario of its own; Clopper and Pearson: 0.348 to 0.933
    low, high = share_interval(0.7, 0.21 / 10, 10, 10, 0.95)
    assert (low, high) == (pytest.approx(0.3475, abs=1e-4), pytest.approx(0.9333, abs=1e-4))
    assert share_interval(0.0, 0.0, 30, 10, 0.95) == (0.0, pytest.approx(1 - 0.025**0.1))
    # no variance between scenarios: no wider than rows that are independent
    assert share_interval(0.5, 0.0, 20, 10, 0.95) == share_interval(0.5, 0.25 / 40, 20, 20, 0.95)


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
    found = human_agreement(scores)
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
    with pytest.raises(bj.UsageError, match="ci_prob"):
        human_agreement(bj.read_scores(table()), ci_prob=1)


def test_a_table_of_one_judge_without_scenarios():
    frame = table().query("judge == 'j0' and language == 'de'")
    frame = frame.drop(columns=["judge", "language"]).rename(columns={"scenario": "generation"})
    found = human_agreement(bj.read_scores(frame))
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


# Accuracy of the prompt Vanilla on LLMBar's Natural set, as its authors publish it
# (princeton-nlp/LLMBar, Dataset/LLMBar/Natural/evaluators/*/Vanilla/statistics.json,
# correct_False, correct_True, correct_average: one order, the other, both).
PUBLISHED = {
    "ChatGPT": (0.80, 0.83, 0.815),
    "ChatGPT-0301": (0.84, 0.84, 0.84),
    "Falcon": (0.71, 0.77, 0.74),
    "GPT-4": (0.95, 0.96, 0.955),
    "LLaMA2": (0.79, 0.82, 0.805),
    "PaLM2": (0.78, 0.88, 0.83),
}


@pytest.fixture(scope="module")
def llmbar():
    """Last-pass verdicts of LLMBar: which of two answers, and the label; unparsed are wrong."""
    if not (DATA / "llmbar").is_dir():
        pytest.skip("needs ../shared/data/llmbar")
    raw = pd.read_parquet(DATA / "llmbar/verdicts.parquet")
    raw = raw[raw["final"] & ~raw["prompt"].str.startswith("Rating")]
    return pd.DataFrame(
        {
            "scenario": raw["scenario"],
            "subset": raw["subset"],
            "judge": raw["judge"],
            # both orders of an item are the two answers that are told apart here
            "backbone": raw["order"],
            "prompt": raw["prompt"],
            "score": raw["winner"].astype(float).fillna(0.0),
            "human_score": raw["label"].astype(float),
        }
    ).reset_index(drop=True)


def test_agreement_on_llmbar_equals_the_published_accuracies(llmbar):
    part = llmbar[(llmbar["prompt"] == "Vanilla") & (llmbar["subset"] == "Natural")]
    part = part.drop(columns=["prompt", "subset"])
    found = human_agreement(bj.read_scores(part))
    equal = found[found["measure"] == "equal"].set_index("judge")["estimate"]
    for judge, (first, second, average) in PUBLISHED.items():
        assert equal[judge] == pytest.approx(average, abs=1e-12)
        own = part[part["judge"] == judge]
        hits = (own["score"] == own["human_score"]).groupby(own["backbone"]).mean()
        assert sorted(hits) == pytest.approx(sorted((first, second)))


def test_agreement_on_llmbar_has_the_mean_that_its_source_gives(llmbar):
    # SOURCE.md: 0.57082, the mean verdict of the eight prompts that all six judges have,
    # unparsed ones left out.
    shared = llmbar.groupby("prompt")["judge"].nunique()
    part = llmbar[llmbar["prompt"].isin(shared[shared == 6].index)].drop(columns="subset")
    parsed = part[part["score"] > 0]
    found = human_agreement(bj.read_scores(parsed, facets=["prompt"]))
    own = found[found["measure"] == "equal"]
    assert np.average(own["estimate"], weights=own["n"]) == pytest.approx(0.57082, abs=1e-5)
