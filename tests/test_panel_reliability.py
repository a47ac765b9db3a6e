"""Effective number of judges and Krippendorff's alpha."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import bayesjudge as bj
from bayesjudge.closed_form.judge_errors import effective_number, error_correlations
from bayesjudge.panel_reliability import (
    effective_judges,
    krippendorff_alpha,
    panel_reliability,
)
from bayesjudge.scores.table import Facet, Scores


def panel(seed=0, copies=0, K=6, B=3, n=60, shared=0.0, human=None, digits=None):
    """K judges of whom the first ``copies`` make the same errors; ``shared``: errors of all."""
    rng = np.random.default_rng([seed, 17])
    quality = rng.standard_normal((B, n, 1)) + np.arange(B)[:, None, None]
    errors = rng.standard_normal((B, n, K))
    errors[:, :, 1:copies] = errors[:, :, :1]
    y = quality + errors + shared * rng.standard_normal((B, n, 1)) + np.linspace(-1, 1, K)
    gold = None
    if human is not None:
        told = quality + human * rng.standard_normal((B, n, 1))
        gold = np.broadcast_to(told, y.shape).ravel()
    b, s, j = np.indices(y.shape).reshape(3, -1)

    def facet(name, role, size, codes):
        return Facet(name, role, tuple(f"{name}{i:02d}" for i in range(size)), codes)

    facets = (
        facet("backbone", "panel", B, b),
        facet("judge", "panel", K, j),
        facet("scenario", "random", n, s),
    )
    score = y.ravel() if digits is None else np.round(y.ravel(), digits)
    return Scores(score, facets, human_score=gold)


def test_copies_count_once():
    # Three of six are copies: r is 3 pairs of 15, so 6 / (1 + 5 / 5) = 3, in every draw but noise.
    found = effective_judges(panel(copies=3))
    assert found.effective["ci_upper"] < 4.3
    assert found.effective["estimate"] == pytest.approx(3.0, abs=0.5)
    assert not found.human_anchored
    pairs = found.pairs.set_index(["judge", "other"])["estimate"]
    assert pairs["judge00", "judge01"] > 0.95
    assert abs(pairs["judge03", "judge04"]) < 0.3


def test_intervals_hold_the_number_of_independent_judges():
    # Twelve panels with copies (3 judges' worth) and twelve without (6). At 0.95 fewer than 19
    # of 24 has probability 0.001; means of the estimates are 0.25 off at most, as the median
    # of pairs leans on the copies, and no panel counts for more than its judges.
    found = {3: [], 6: []}
    for seed in range(12):
        for worth, copies in ((3, 3), (6, 0)):
            found[worth].append(effective_judges(panel(seed, copies=copies)).effective)
    held = [
        own["ci_lower"] <= worth <= own["ci_upper"] for worth, all_ in found.items() for own in all_
    ]
    assert sum(held) >= 19
    for worth, all_ in found.items():
        assert np.mean([own["estimate"] for own in all_]) == pytest.approx(worth, abs=0.25)


def test_independent_judges_count_each():
    found = effective_judges(panel())
    assert found.effective["estimate"] > 5
    assert found.effective["ci_upper"] <= 6


def test_errors_that_all_share_are_seen_by_a_human_only():
    alone = effective_judges(panel(shared=1.0))
    anchored = effective_judges(panel(shared=1.0, human=0.5))
    assert alone.effective["estimate"] > 4.5
    # Of errors with variance 2 one half is shared: 6 / (1 + 5 / 2) = 1.7.
    assert anchored.effective["estimate"] == pytest.approx(1.7, abs=0.5)
    assert anchored.human_anchored
    assert "human-anchored" in anchored.note


def test_the_human_anchors_independent_judges_too():
    found = effective_judges(panel(human=1.0))
    assert found.effective["estimate"] > 4.5


def test_an_incomplete_table_is_answered():
    scores = panel(copies=3)
    kept = np.random.default_rng(0).random(len(scores)) < 0.6
    facets = tuple(Facet(f.name, f.role, f.levels, f.codes[kept]) for f in scores.facets)
    found = effective_judges(Scores(scores.score[kept], facets))
    assert found.effective["estimate"] == pytest.approx(3.0, abs=0.8)


def test_what_cannot_be_told_is_refused():
    with pytest.raises(bj.DataError, match="two judges"):
        effective_judges(panel(K=2))
    assert effective_judges(panel(K=2, human=0.3)).human_anchored
    one = panel(K=1)
    with pytest.raises(bj.DataError, match="one judge only"):
        effective_judges(one)
    with pytest.raises(bj.DataError, match="two judges"):
        krippendorff_alpha(one)
    with pytest.raises(bj.DataError, match="too many to correlate"):
        effective_judges(panel(K=61, n=2))
    apart = panel(K=3, n=30)
    kept = apart.codes("judge") == apart.codes("scenario") % 3
    facets = tuple(Facet(f.name, f.role, f.levels, f.codes[kept]) for f in apart.facets)
    taking_turns = Scores(apart.score[kept], facets)
    with pytest.raises(bj.DataError, match="share too few"):
        effective_judges(taking_turns)
    with pytest.raises(bj.DataError, match="two judges scored"):
        krippendorff_alpha(Scores(np.round(taking_turns.score), facets))
    same = panel(K=3)
    with pytest.raises(bj.DataError, match="differ in nothing"):
        effective_judges(Scores(same.codes("scenario") * 1.0, same.facets))


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 50), st.floats(-1, 1))
def test_the_effective_number_lies_between_one_and_all(K, r):
    found = float(effective_number(K, np.array([r]))[0])
    assert 1 - 1e-12 <= found <= K
    if r <= 0:
        assert found == K


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 500), st.integers(3, 6))
def test_correlations_do_not_know_units_locations_or_order(seed, K):
    rng = np.random.default_rng(seed)
    y = rng.standard_normal((40, 1)) + rng.standard_normal((40, K))
    y -= y.mean(axis=0)
    scenario = rng.integers(0, 10, 40)
    found = error_correlations(y, scenario, 20, np.random.default_rng(1))
    scaled = error_correlations(-3 * y, scenario, 20, np.random.default_rng(1))
    np.testing.assert_allclose(found.mean, scaled.mean, atol=1e-9)
    order = rng.permutation(K)
    turned = error_correlations(y[:, order], scenario, 20, np.random.default_rng(1))
    np.testing.assert_allclose(found.mean, turned.mean, atol=1e-9)
    assert (np.abs(found.by_pair) <= 1).all()


def test_alpha_by_hand():
    # Krippendorff (2011), computing alpha, example B: two coders, ten units, 0/1; alpha 0.095.
    one = [0, 1, 0, 0, 0, 0, 0, 0, 1, 0]
    two = [1, 1, 1, 0, 0, 1, 0, 0, 0, 0]
    scenario, judge = np.tile(np.arange(10), 2), np.repeat([0, 1], 10)
    names = tuple(f"s{i}" for i in range(10))
    scores = Scores(
        np.array(one + two, float),
        (
            Facet("judge", "panel", ("a", "b"), judge),
            Facet("scenario", "random", names, scenario),
            Facet("backbone", "panel", ("m",), np.zeros(20, np.int64)),
        ),
    )
    assert krippendorff_alpha(scores) == pytest.approx(0.095, abs=5e-4)


def test_alpha_of_intervals_is_a_ratio_of_mean_squared_differences():
    scores = panel(K=3, n=12, digits=0)
    y = scores.score.reshape(-1, 3)
    within = np.mean([(a - b) ** 2 for u in y for i, a in enumerate(u) for b in u[i + 1 :]])
    flat = y.ravel()
    every = ((flat[:, None] - flat) ** 2).sum() / (flat.size * (flat.size - 1))
    assert krippendorff_alpha(scores) == pytest.approx(1 - within / every)


def test_alpha_says_what_it_lacks(monkeypatch):
    scores = panel(K=3, n=12, digits=0)
    with pytest.raises(bj.DataError, match="distinct scores"):
        krippendorff_alpha(panel(K=6, n=200))
    with pytest.raises(bj.DataError, match="all scores are equal"):
        krippendorff_alpha(Scores(np.ones(len(scores)), scores.facets))
    monkeypatch.setitem(sys.modules, "krippendorff", None)
    with pytest.raises(bj.DataError, match="needs the package"):
        krippendorff_alpha(scores)


def test_a_fit_tells_all_three():
    scores = panel(K=3, n=20, digits=0)
    fit = bj.fit(scores, "crossed_common", draws=100)
    found = panel_reliability(fit)
    assert list(found.coefficients["coefficient"]) == ["generalizability", "dependability"]
    assert found.effective_judges.judges == scores.levels("judge")
    assert found.krippendorff_alpha == krippendorff_alpha(scores)
    assert found.alpha_level == "interval"
    two = panel(K=2, n=20, digits=0)
    told = panel_reliability(bj.fit(two, "crossed_common", draws=100))
    assert told.effective_judges is None
    assert any("no effective number" in note for note in told.notes)
