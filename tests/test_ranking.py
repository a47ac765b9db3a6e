"""Ranks from draws, against slow twins that read like the definitions."""

from __future__ import annotations

import itertools
import math
import time
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.stats import rankdata

from bayesjudge import ranking
from bayesjudge.errors import ModelError, UsageError

COLUMNS = [
    "backbone",
    "mean",
    "sd",
    "ci_lower",
    "ci_upper",
    "expected_rank",
    "rank_lower",
    "rank_upper",
    "rank_lower_sim",
    "rank_upper_sim",
    "p_best",
    "sucra",
    "sucra_lower",
    "sucra_upper",
    "tier",
]

shapes = st.tuples(st.integers(1, 40), st.integers(1, 6))
# Quarters: sums and products stay exact, and small ranges make ties common.
quarters = st.integers(-6, 6).map(lambda n: n / 4)
tables = hnp.arrays(float, shapes, elements=quarters)
probabilities = st.sampled_from([0.5, 0.8, 0.89, 0.9, 0.95, 0.99])


def slow_midranks(draws, lower_is_better=False):
    ranks = np.empty(draws.shape)
    for s, draw in enumerate(draws):
        for b, mine in enumerate(draw):
            better = sum(other < mine if lower_is_better else other > mine for other in draw)
            ranks[s, b] = better + (sum(other == mine for other in draw) + 1) / 2
    return ranks


def slow_rank_probabilities(draws):
    n, k = draws.shape
    total = [[Fraction(0)] * k for _ in range(k)]
    for draw in draws:
        for b, mine in enumerate(draw):
            better = sum(other > mine for other in draw)
            tied = sum(other == mine for other in draw)
            for rank in range(better, better + tied):
                total[b][rank] += Fraction(1, int(tied))
    return np.array([[float(p / n) for p in row] for row in total])


def inverted_cdf(values, p):
    """The smallest value at which the empirical distribution reaches p, an exact fraction."""
    ordered = sorted(values)
    for at, value in enumerate(ordered, start=1):
        if Fraction(at, len(ordered)) >= p:
            return value
    raise AssertionError


def slow_simultaneous(draws, ci_prob):
    """Every tail mass at which something can change, from the widest to the narrowest."""
    ranks = slow_midranks(draws)
    n, k = ranks.shape
    wanted = Fraction(str(ci_prob))
    tails = sorted({Fraction(step, 4 * n) for step in range(2 * n + 1)})
    answer = None
    for tail in tails:
        low = np.array([inverted_cdf(ranks[:, b], tail) for b in range(k)])
        high = np.array([inverted_cdf(ranks[:, b], 1 - tail) for b in range(k)])
        joint = sum(bool(np.all((low <= r) & (r <= high))) for r in ranks)
        if Fraction(joint, n) >= wanted:
            answer = low, high
    return answer


def slow_tiers(draws, rope, level):
    untiered = list(range(draws.shape[1]))
    tier = [0] * draws.shape[1]
    number = 0
    while untiered:
        number += 1
        leader = max(untiered, key=lambda b: draws[:, b].mean())
        members = [b for b in untiered if np.mean([d[leader] - d[b] > rope for d in draws]) < level]
        for b in members:
            tier[b] = number
            untiered.remove(b)
    return tier


@settings(deadline=None)
@given(tables)
def test_midranks_are_those_of_the_definition(draws):
    np.testing.assert_array_equal(ranking.midranks(draws), slow_midranks(draws))
    np.testing.assert_array_equal(ranking.midranks(draws, True), slow_midranks(draws, True))


@settings(deadline=None)
@given(tables)
def test_rank_probabilities_are_those_of_the_definition(draws):
    p = ranking.rank_probabilities(draws)
    np.testing.assert_allclose(p, slow_rank_probabilities(draws), atol=1e-12)
    np.testing.assert_allclose(p.sum(axis=0), 1)
    np.testing.assert_allclose(p.sum(axis=1), 1)
    ranks = np.arange(1, draws.shape[1] + 1)
    np.testing.assert_allclose(p @ ranks, ranking.midranks(draws).mean(axis=0))


@pytest.mark.parametrize("k", [1, 2, 12, 13, 30])
def test_few_columns_are_ranked_as_many_are(k):
    draws = np.random.default_rng(k).integers(0, 6, (50, k)).astype(float)
    expected = np.array([rankdata(-row) for row in draws])
    np.testing.assert_array_equal(ranking.midranks(draws), expected)


def test_a_rank_never_held_has_probability_exactly_zero():
    draws = np.array([[3.0, 3.0, 3.0, 1.0]] * 7)
    p = ranking.rank_probabilities(draws)
    assert p[0, 3] == 0
    assert list(p[3]) == [0, 0, 0, 1]


@settings(deadline=None)
@given(tables, probabilities)
def test_rank_intervals_are_inverted_cdf_quantiles(draws, ci_prob):
    low, high = ranking.rank_intervals(draws, ci_prob)
    ranks = slow_midranks(draws)
    tail = (1 - Fraction(str(ci_prob))) / 2
    assert list(low) == [inverted_cdf(column, tail) for column in ranks.T]
    assert list(high) == [inverted_cdf(column, 1 - tail) for column in ranks.T]


def test_rank_interval_does_not_slip_by_a_draw_where_the_count_is_whole():
    # Rank 2 in exactly 200 of 8,000 draws: the 0.025 quantile of the other is still 1.
    first = np.where(np.arange(8000) < 200, 1.0, 0.0)
    low, high = ranking.rank_intervals(np.column_stack([first, np.full(8000, 0.5)]))
    assert (low[0], high[0]) == (1, 2)
    assert (low[1], high[1]) == (1, 1)


@settings(max_examples=60, deadline=None)
@given(hnp.arrays(float, st.tuples(st.integers(1, 24), st.integers(1, 4)), elements=quarters))
def test_simultaneous_intervals_are_those_of_the_definition(draws):
    for ci_prob in (0.5, 0.8, 0.95):
        fast = ranking.simultaneous_rank_intervals(draws, ci_prob)
        np.testing.assert_array_equal(fast, slow_simultaneous(draws, ci_prob))


@settings(deadline=None)
@given(tables, probabilities)
def test_simultaneous_intervals_hold_jointly(draws, ci_prob):
    low, high = ranking.simultaneous_rank_intervals(draws, ci_prob)
    ranks = ranking.midranks(draws)
    inside = np.all((low <= ranks) & (ranks <= high), axis=1)
    assert inside.mean() >= ci_prob - 1e-12
    assert np.all(low <= high)


def test_simultaneous_intervals_of_many_backbones_are_wider_than_marginal_ones():
    draws = np.random.default_rng(3).normal(size=(4000, 12))
    low, high = ranking.rank_intervals(draws, 0.8)
    low_sim, high_sim = ranking.simultaneous_rank_intervals(draws, 0.8)
    assert np.all(low_sim <= low)
    assert np.all(high_sim >= high)
    assert np.any(high_sim - low_sim > high - low)


def test_sucra_and_its_limits():
    np.testing.assert_allclose(ranking.sucra([1, 2, 4], 4), [1, 2 / 3, 0])
    assert np.isnan(ranking.sucra([1.0], 1)).all()


@settings(deadline=None)
@given(tables, st.sampled_from([0.0, 0.5]), st.sampled_from([0.6, 0.95]))
def test_tiers_are_those_of_the_definition(draws, rope, level):
    assert list(ranking.tiers(draws, rope, level)) == slow_tiers(draws, rope, level)


def test_tiers_are_not_transitive():
    # b is not beaten by a, c not by b, but c by a: c founds a tier of its own.
    draws = np.random.default_rng(0).normal([2.0, 1.0, 0.0], 0.5, size=(4000, 3))
    assert list(ranking.tiers(draws)) == [1, 1, 2]
    assert list(ranking.tiers(draws, rope=5.0)) == [1, 1, 1]


def test_best_set():
    labels = ["c", "b", "a", "d"]
    assert ranking.best_set([0.3, 0.3, 0.3, 0.1], labels) == ("a", "b", "c", "d")
    assert ranking.best_set([0.3, 0.3, 0.3, 0.1], labels, level=0.9) == ("a", "b", "c")
    assert ranking.best_set([0.0, 0.96, 0.04, 0.0], labels) == ("b",)
    assert ranking.best_set([0.1, 0.1, 0.1, 0.1], labels) == ("a", "b", "c", "d")
    with pytest.raises(ModelError, match="finite"):
        ranking.best_set([0.5, math.nan], ["a", "b"])
    with pytest.raises(ModelError, match="2 finite"):
        ranking.best_set([1.0], ["a", "b"])
    with pytest.raises(UsageError, match="level"):
        ranking.best_set([1.0], ["a"], level=1.0)


def test_leaderboard_has_the_columns_of_the_contract():
    draws = np.random.default_rng(1).normal([1.0, 3.0, 2.0], 0.1, size=(500, 3))
    table = ranking.leaderboard(draws, ("low", "high", "mid"))
    assert list(table.columns) == COLUMNS
    assert list(table["backbone"]) == ["high", "mid", "low"]
    assert list(table["expected_rank"]) == [1, 2, 3]
    assert list(table["tier"]) == [1, 2, 3]
    assert table["tier"].dtype.kind == "i"
    np.testing.assert_allclose(table["mean"], draws.mean(axis=0)[[1, 2, 0]])
    np.testing.assert_allclose(table["sd"], draws.std(axis=0, ddof=1)[[1, 2, 0]])
    np.testing.assert_allclose(table["ci_lower"], np.quantile(draws, 0.025, axis=0)[[1, 2, 0]])
    assert not table.isna().to_numpy().any()


def test_leaderboard_takes_each_column_from_its_function():
    draws = np.random.default_rng(2).normal([0.0, 0.5, 1.0], 0.6, size=(300, 3))
    table = ranking.leaderboard(draws, ("a", "b", "c"), ci_prob=0.8).set_index("backbone")
    low, high = ranking.rank_intervals(draws, 0.8)
    low_sim, high_sim = ranking.simultaneous_rank_intervals(draws, 0.8)
    expected = {
        "rank_lower": low,
        "rank_upper": high,
        "rank_lower_sim": low_sim,
        "rank_upper_sim": high_sim,
        "p_best": ranking.rank_probabilities(draws)[:, 0],
        "sucra": (3 - ranking.midranks(draws).mean(axis=0)) / 2,
        "sucra_lower": (3 - high) / 2,
        "sucra_upper": (3 - low) / 2,
    }
    for name, values in expected.items():
        np.testing.assert_allclose(table.loc[["a", "b", "c"], name], values)
    assert (high > low).any()


two_or_more = hnp.arrays(float, st.tuples(st.integers(2, 30), st.integers(1, 6)), elements=quarters)


@settings(deadline=None)
@given(two_or_more, st.randoms(use_true_random=False))
def test_permuting_backbones_permutes_the_leaderboard(draws, random):
    labels = [f"b{at}" for at in range(draws.shape[1])]
    order = list(range(len(labels)))
    random.shuffle(order)
    one = ranking.leaderboard(draws, labels)
    other = ranking.leaderboard(draws[:, order], [labels[at] for at in order])
    assert one.equals(other)


@settings(deadline=None)
@given(two_or_more, st.integers(-8, 8), st.sampled_from([0.25, 1.0, 8.0]))
def test_shifting_and_stretching_the_scale_changes_no_rank(draws, shift, factor):
    labels = [f"b{at}" for at in range(draws.shape[1])]
    one = ranking.leaderboard(draws, labels)
    other = ranking.leaderboard(shift + factor * draws, labels)
    ranked = [name for name in COLUMNS if name not in {"mean", "sd", "ci_lower", "ci_upper"}]
    assert one[ranked].equals(other[ranked])
    np.testing.assert_allclose(other["mean"], shift + factor * one["mean"], atol=1e-9)


@settings(deadline=None)
@given(two_or_more)
def test_lower_is_better_mirrors(draws):
    labels = [f"b{at}" for at in range(draws.shape[1])]
    one = ranking.leaderboard(draws, labels, lower_is_better=True)
    other = ranking.leaderboard(-draws, labels)
    ranked = [name for name in COLUMNS if name not in {"mean", "sd", "ci_lower", "ci_upper"}]
    assert one[ranked].equals(other[ranked])
    np.testing.assert_allclose(one["mean"], -other["mean"], atol=1e-12)
    np.testing.assert_allclose(one["ci_lower"], -other["ci_upper"], atol=1e-12)


def test_one_backbone():
    table = ranking.leaderboard([[1.0], [2.0]], ["only"])
    row = table.iloc[0]
    assert (row["expected_rank"], row["p_best"], row["tier"]) == (1, 1, 1)
    assert np.isnan([row["sucra"], row["sucra_lower"], row["sucra_upper"]]).all()


def test_equal_backbones_share_everything():
    table = ranking.leaderboard(np.ones((10, 2)), ["b", "a"])
    assert list(table["backbone"]) == ["a", "b"]
    assert list(table["expected_rank"]) == [1.5, 1.5]
    assert list(table["p_best"]) == [0.5, 0.5]
    assert list(table["tier"]) == [1, 1]


@pytest.mark.parametrize("ci_prob", [0.0, 1.0, -0.5, 95, math.nan])
def test_refuses_a_probability_outside_0_1(ci_prob):
    draws = np.ones((3, 2))
    for call in (ranking.rank_intervals, ranking.simultaneous_rank_intervals):
        with pytest.raises(UsageError, match="ci_prob"):
            call(draws, ci_prob)
    with pytest.raises(UsageError, match="ci_prob"):
        ranking.leaderboard(draws, ["a", "b"], ci_prob=ci_prob)
    with pytest.raises(UsageError, match="level"):
        ranking.tiers(draws, level=ci_prob)


@pytest.mark.parametrize("rope", [-0.1, math.nan, math.inf])
def test_refuses_a_rope_that_is_no_width(rope):
    with pytest.raises(UsageError, match="rope"):
        ranking.tiers(np.ones((3, 2)), rope=rope)
    with pytest.raises(UsageError, match="rope"):
        ranking.leaderboard(np.ones((3, 2)), ["a", "b"], rope=rope)


def test_refuses_draws_that_are_none():
    bad = np.ones((4, 3))
    bad[1, 2], bad[2, 0] = np.nan, np.inf
    with pytest.raises(ModelError, match="2 of 12 draws"):
        ranking.midranks(bad)
    with pytest.raises(ModelError, match="not of shape"):
        ranking.midranks(np.ones(3))
    with pytest.raises(ModelError, match="not of shape"):
        ranking.rank_probabilities(np.ones((0, 3)))
    with pytest.raises(ModelError, match="2 backbones for 3 labels"):
        ranking.leaderboard(np.ones((4, 2)), ["a", "b", "c"])
    with pytest.raises(ModelError, match="one draw"):
        ranking.leaderboard(np.ones((1, 2)), ["a", "b"])
    with pytest.raises(UsageError, match="same label"):
        ranking.leaderboard(np.ones((4, 2)), ["a", "a"])


def test_rank_probabilities_are_calibrated():
    """STATISTICS §6: Z of P(best) over tables with exact normal posteriors."""
    rng = np.random.default_rng(20)
    k, tables_, prior_sd, noise_sd = 6, 400, 1.0, 0.8
    shrink = prior_sd**2 / (prior_sd**2 + noise_sd**2)
    surprise = variance = 0.0
    for _ in range(tables_):
        truth = rng.normal(0, prior_sd, k)
        seen = rng.normal(truth, noise_sd)
        draws = rng.normal(shrink * seen, noise_sd * math.sqrt(shrink), size=(2000, k))
        p = ranking.rank_probabilities(draws)[:, 0]
        best = np.arange(k) == truth.argmax()
        surprise += np.sum(p * (best - p))
        variance += np.sum(p**3) - np.sum(p**2) ** 2
    assert abs(surprise / math.sqrt(variance)) < 3.3


def test_the_calibration_test_catches_overconfidence():
    """The same statistic on posteriors that are half as wide as they should be."""
    rng = np.random.default_rng(20)
    k, shrink, noise_sd = 6, 1 / 1.64, 0.8
    surprise = variance = 0.0
    for _ in range(400):
        truth = rng.normal(0, 1, k)
        seen = rng.normal(truth, noise_sd)
        draws = rng.normal(shrink * seen, 0.5 * noise_sd * math.sqrt(shrink), size=(2000, k))
        p = ranking.rank_probabilities(draws)[:, 0]
        surprise += np.sum(p * ((np.arange(k) == truth.argmax()) - p))
        variance += np.sum(p**3) - np.sum(p**2) ** 2
    assert surprise / math.sqrt(variance) < -3.3


def test_a_hundred_backbones_take_seconds_at_most():
    draws = np.random.default_rng(0).normal(size=(8000, 100))
    start = time.process_time()
    ranking.leaderboard(draws, [f"b{at:03}" for at in range(100)])
    assert time.process_time() - start < 5


def test_every_ordering_of_three_is_ranked():
    for order in itertools.permutations([1.0, 2.0, 3.0]):
        assert list(ranking.midranks([order])[0]) == [4 - value for value in order]


@given(st.integers(1, 30), st.integers(1, 9), st.integers(0, 10**6))
def test_midranks_are_scipys(n, k, seed):
    # Few values: many ties.
    draws = np.random.default_rng(seed).integers(0, 4, (n, k)).astype(float)
    np.testing.assert_array_equal(
        ranking.midranks(draws, lower_is_better=True), rankdata(draws, axis=1)
    )
    np.testing.assert_array_equal(ranking.midranks(draws), rankdata(-draws, axis=1))
