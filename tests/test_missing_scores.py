"""Failed scores: rates, bounds, and what they could do to ranks."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import bayesjudge as bj
from bayesjudge.closed_form.worst_cases import missing_score_bounds
from bayesjudge.missing_scores import missing_bounds


def table(**missing):
    rows = [
        (f"m{b}", f"i{i}", f"j{k}", float(3 + b + k))
        for b in range(3)
        for i in range(4)
        for k in range(2)
    ]
    frame = pd.DataFrame(rows, columns=["backbone", "scenario", "judge", "score"])
    frame["score"] = frame["score"].astype(object)
    for at, value in missing.items():
        frame.loc[int(at[1:]), "score"] = value
    return frame


def test_bounds_by_hand():
    # one backbone: judge a gave 4 and 6 and failed twice, judge b gave 5
    total, n, lost = np.array([[10.0, 5.0]]), np.array([[2, 1]]), np.array([[2, 0]])
    found = missing_score_bounds(total, n, lost, (0.0, 10.0))
    assert found.mean[0] == 5.0
    assert found.lower[0] == (10 / 4 + 5) / 2
    assert found.upper[0] == (30 / 4 + 5) / 2


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_any_values_of_the_missing_scores_stay_inside(data):
    B, C = data.draw(st.integers(2, 4)), data.draw(st.integers(1, 3))
    rng = np.random.default_rng(data.draw(st.integers(0, 10_000)))
    low, high = 1.0, 5.0
    n, lost = rng.integers(1, 4, (B, C)), rng.integers(0, 3, (B, C))
    total = rng.uniform(low, high, (B, C)) * n
    worse = data.draw(st.booleans())
    found = missing_score_bounds(total, n, lost, (low, high), worse)
    for _ in range(5):
        filled = total + rng.uniform(low, high, (B, C)) * lost
        mean = (filled / (n + lost)).mean(axis=1)
        assert (found.lower - 1e-9 <= mean).all()
        assert (mean <= found.upper + 1e-9).all()
        rank = 1 + (
            (mean[None, :] < mean[:, None]) if worse else (mean[None, :] > mean[:, None])
        ).sum(axis=1)
        assert (found.best_rank <= rank).all()
        assert (rank <= found.worst_rank).all()
    without = missing_score_bounds(total, n, np.zeros_like(lost), (low, high), worse)
    np.testing.assert_allclose(without.lower, without.upper)
    np.testing.assert_allclose(without.mean, without.lower)


def test_failures_are_counted_where_they_happened():
    scores = bj.read_scores(table(r1=None, r3="error", r9=""), scale=(1, 10))
    found = missing_bounds(scores)
    assert found.n_failed == 3
    rates = found.rates.set_index(["facet", "level"])
    assert rates.loc[("judge", "j1"), "failed"] == 3
    assert rates.loc[("judge", "j0"), "failed"] == 0
    assert rates.loc[("backbone", "m0"), "share"] == 2 / 8
    assert rates.loc[("judge", "j1"), "n"] == 12
    bounds = found.bounds.set_index("backbone")
    assert bounds.loc["m0", "mean_lower"] == (3 + (4 + 4 + 1 + 1) / 4) / 2
    assert bounds.loc["m0", "mean_upper"] == (3 + (4 + 4 + 10 + 10) / 4) / 2
    assert bounds.loc["m2", "mean_lower"] == bounds.loc["m2", "mean_upper"]
    assert "the scale given" in found.notes[0]
    assert "failed by judge: j1 25.0%, j0 0.0%" in found.notes
    # m0 could pass m1, the ranking of m2 could change too
    assert bounds.loc["m0", "best_rank"] < bounds.loc["m0", "worst_rank"]
    assert "m0 ranks" in str(found.findings[0])


def test_named_sentinels_are_failures_and_the_range_is_the_observed_one():
    scores = bj.read_scores(table(r1=-1), missing=[-1])
    found = missing_bounds(scores)
    assert found.n_failed == 1
    assert not found.from_scale
    assert found.scale == (3.0, 6.0)
    assert "observed" in found.notes[0]
    assert found.findings == ()


def test_a_judge_of_whom_nothing_is_left_is_said():
    frame = table()
    frame = pd.concat([frame, frame.iloc[:2].assign(judge="j9", score=None)], ignore_index=True)
    found = missing_bounds(bj.read_scores(frame))
    assert found.n_unplaced == 2
    assert any("2 of them bear no" in note for note in found.notes)


def test_whole_tables_have_no_bounds():
    assert missing_bounds(bj.read_scores(table())) is None


def test_failures_survive_saving(tmp_path):
    scores = bj.read_scores(table(r1=None))
    fit = bj.fit(scores, "crossed_common", draws=50)
    again = bj.load(fit.save(tmp_path / "fit.nc"))
    assert again.scores == scores
    assert missing_bounds(again.scores).bounds.equals(missing_bounds(scores).bounds)
    whole = bj.fit(bj.read_scores(table()), "crossed_common", draws=50)
    assert bj.load(whole.save(tmp_path / "whole.nc")).scores.failed == whole.scores.failed


def test_lower_is_better_turns_ranks():
    found = missing_bounds(bj.read_scores(table(r1=None), lower_is_better=True, scale=(1, 7)))
    ranks = found.bounds.set_index("backbone")
    assert ranks.loc["m0", "best_rank"] == 1
    assert ranks.loc["m2", "worst_rank"] == 3


@pytest.mark.parametrize("name", ["language", "judge"])
def test_facets_that_are_not_there_are_left_out(name):
    frame = table(r1=None).drop(columns="judge").assign(generation=np.tile([0, 1], 12))
    found = missing_bounds(bj.read_scores(frame))
    assert name not in set(found.rates["facet"])
