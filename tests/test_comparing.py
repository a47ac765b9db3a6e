"""Pairs of backbones, against a slow twin."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from bayesjudge import comparing, ranking
from bayesjudge.errors import ModelError, UsageError

quarters = st.integers(-6, 6).map(lambda n: n / 4)
tables = hnp.arrays(float, st.tuples(st.integers(2, 30), st.integers(1, 6)), elements=quarters)


def slow_beats(draws):
    k = draws.shape[1]
    beats = np.full((k, k), np.nan)
    for a in range(k):
        for b in range(k):
            if a != b:
                won = np.mean([d[a] > d[b] for d in draws])
                beats[a, b] = won + np.mean([d[a] == d[b] for d in draws]) / 2
    return beats


@pytest.fixture(params=[4_000_000, 7])
def chunk(request, monkeypatch):
    monkeypatch.setattr(comparing, "_CHUNK", request.param)


@pytest.mark.usefixtures("chunk")
def test_beats_is_that_of_the_definition():
    @settings(deadline=None, max_examples=50)
    @given(tables)
    def check(draws):
        beats = comparing.pairwise_beats(draws)
        np.testing.assert_allclose(beats, slow_beats(draws), atol=1e-12)
        off = ~np.eye(len(beats), dtype=bool)
        np.testing.assert_allclose((beats + beats.T)[off], 1)
        np.testing.assert_allclose(comparing.pairwise_beats(-draws, True), beats)

    check()


@pytest.mark.usefixtures("chunk")
def test_differences_are_those_of_numpy():
    draws = np.random.default_rng(4).normal([0.0, 2.0, 1.0], 0.7, size=(301, 3))
    labels = ("a", "b", "c")
    table = comparing.pairwise_differences(draws, labels, ci_prob=0.9, rope=0.5)
    assert list(table.columns) == [
        "backbone",
        "other",
        "difference",
        "sd",
        "ci_lower",
        "ci_upper",
        "p_beats",
        "p_within_rope",
    ]
    assert list(zip(table["backbone"], table["other"], strict=True)) == [
        ("b", "c"),
        ("b", "a"),
        ("c", "a"),
    ]
    for row in table.itertuples():
        difference = draws[:, labels.index(row.backbone)] - draws[:, labels.index(row.other)]
        assert row.difference == pytest.approx(difference.mean())
        assert row.sd == pytest.approx(difference.std(ddof=1))
        assert row.ci_lower == pytest.approx(np.quantile(difference, 0.05))
        assert row.ci_upper == pytest.approx(np.quantile(difference, 0.95))
        assert row.p_beats == pytest.approx(np.mean(difference > 0))
        assert row.p_within_rope == pytest.approx(np.mean(np.abs(difference) < 0.5))


def test_without_a_rope_its_probability_is_null():
    draws = np.random.default_rng(4).normal(size=(50, 3))
    table = comparing.pairwise_differences(draws, ("a", "b", "c"))
    assert table["p_within_rope"].isna().all()
    assert not table.drop(columns="p_within_rope").isna().to_numpy().any()


def test_labels_are_kept_byte_for_byte():
    labels = ["\ud800", "nan", "01", " ", "", "NA"]
    draws = np.random.default_rng(1).normal(size=(9, 6))
    assert set(ranking.leaderboard(draws, labels)["backbone"]) == set(labels)
    table = comparing.pairwise_differences(draws, labels)
    assert set(table["backbone"]) | set(table["other"]) == set(labels)


def test_one_backbone_has_no_pairs():
    assert len(comparing.pairwise_differences([[1.0], [2.0]], ["a"])) == 0
    assert np.isnan(comparing.pairwise_beats([[1.0]])).all()


def test_lower_is_better_keeps_the_sign_and_turns_the_order():
    draws = np.random.default_rng(5).normal([0.0, 2.0], 0.1, size=(50, 2))
    row = comparing.pairwise_differences(draws, ("a", "b"), lower_is_better=True).iloc[0]
    assert (row["backbone"], row["other"]) == ("a", "b")
    assert row["difference"] < 0
    assert row["p_beats"] == 1


@given(tables)
@settings(deadline=None, max_examples=50)
def test_the_order_is_that_of_the_leaderboard(draws):
    labels = [f"b{at}" for at in reversed(range(draws.shape[1]))]
    order = comparing.ranked_order(draws, labels)
    assert [labels[b] for b in order] == list(ranking.leaderboard(draws, labels)["backbone"])


def test_neighbours_and_their_sds():
    draws = np.random.default_rng(5).normal([0.0, 2.0, 1.0], 0.1, size=(50, 3))
    pairs = comparing.adjacent_pairs(draws, ("a", "b", "c"))
    assert pairs.tolist() == [[1, 2], [2, 0]]
    table = comparing.pairwise_differences(draws, ("a", "b", "c"))
    np.testing.assert_allclose(comparing.difference_sd(draws, pairs), table["sd"].iloc[[0, 2]])
    assert comparing.adjacent_pairs(draws[:, :1], ("a",)).shape == (0, 2)
    assert comparing.difference_sd(draws, []).shape == (0,)


def test_refusals():
    draws = np.ones((4, 2))
    with pytest.raises(UsageError, match="ci_prob"):
        comparing.pairwise_differences(draws, ["a", "b"], ci_prob=1.5)
    with pytest.raises(UsageError, match="rope"):
        comparing.pairwise_differences(draws, ["a", "b"], rope=-1)
    with pytest.raises(ModelError, match="not finite"):
        comparing.pairwise_beats([[np.nan, 1.0]])
