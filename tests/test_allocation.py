"""Strategies of allocation: equations, simulation of each, subsampling of complete tables."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import bayesjudge as bj
from bayesjudge.closed_form.allocation import (
    all_judges_beat_random,
    one_generation_is_best,
    pool_constants,
    scenario_coverage,
    strategy_variances,
    subsampled_means,
)
from bayesjudge.closed_form.cyclic import estimate_components, panel_mean_squares
from bayesjudge.closed_form.panel_variance import panel_components
from bayesjudge.examples.published import published, simulated_scores

variances = st.floats(0, 9)
STRATEGIES = ("all_judges", "random_judge", "cyclic")


@given(variances, variances, variances, variances, variances, st.integers(1, 9), st.integers(1, 6))
def test_the_equations_and_their_differences(scenario, gen, judge, residual, crossed, k, turns):
    parts = panel_components(scenario, gen, judge, residual, crossed)
    n, budget = 7, turns * k
    v = strategy_variances(parts, n, budget, k)
    calls = n * budget
    assert v.all_judges == pytest.approx((k * gen + residual) / calls)
    assert v.random_judge == pytest.approx((gen + judge + crossed + residual) / calls)
    assert v.cyclic == pytest.approx((gen + residual) / calls)
    assert v.all_over_cyclic == pytest.approx((k - 1) * gen / calls, abs=1e-12)
    assert v.random_over_cyclic == pytest.approx((judge + crossed) / calls, abs=1e-12)
    difference = ((k - 1) * gen - judge - crossed) / calls
    assert v.all_over_random == pytest.approx(difference, abs=1e-12)
    assert v.cyclic <= min(v.all_judges, v.random_judge) + 1e-12
    if abs(difference) > 1e-9:
        assert all_judges_beat_random(parts, k) == (difference < 0)


@given(variances, variances, variances, variances, st.integers(2, 6))
def test_one_generation_a_scenario_is_best_unless_judges_turn_on_scenarios(s, g, e, x, k):
    parts = panel_components(s, g, 0.5, e, x)
    spread = scenario_coverage(parts, 120 * k, [1, k], k)
    assert spread[0] == pytest.approx((s + g + e + x) / (120 * k))
    assert spread[1] == pytest.approx((k * s + g + e) / (120 * k))
    if abs(x - (k - 1) * s) > 1e-6:
        assert one_generation_is_best(parts, k) == (spread[0] < spread[1])


def test_coverage_of_scenarios():
    parts = panel_components(1.0, 0.2, 0.4, 0.6)
    found = scenario_coverage(parts, 60, [1, 2, 4, 7], 3, available=30)
    assert np.isnan(found[[0, 3]]).all()
    # Equation 35, and the offsets that are left when 60 calls are not whole turns: none.
    assert found[1] == pytest.approx((2 * 1.0 + 0.2 + 0.6) / 60)
    assert found[1] < found[2]
    these = scenario_coverage(parts, 60, 2, 3, available=30, finite=True)
    assert these[0] == pytest.approx(0.8 / 60)
    with pytest.raises(bj.UsageError, match="not how many"):
        scenario_coverage(parts, 60, 2, 3, finite=True)
    with pytest.raises(bj.UsageError, match="at least 1"):
        strategy_variances(parts, 10, [0, 5], 5)


def test_published_components_can_be_typed_in():
    # MT-Bench, llama (tables 2 and 3): a random judge beats all judges, taking turns both.
    parts = bj.panel_components(0.882, 0.238, 0.5025, 1.130)
    v = bj.strategy_variances(parts, n=80, budget=5, k=5)
    found = [1000 * float(x) for x in (v.all_judges, v.random_judge, v.cyclic)]
    assert found == pytest.approx([5.8, 4.67625, 3.42])


def simulate_strategies(rng, reps, n, budget, panel, sds, crossed_sd):
    """Means about the panel's, scenarios' own part left out, under A, B and C."""
    k = panel.size
    crossed = rng.normal(0, 1, (reps, n, k))
    crossed -= crossed.mean(axis=2, keepdims=True)
    crossed *= crossed_sd / np.sqrt(1 - 1 / k)
    generation = sds["generation"] * rng.standard_normal((reps, n, budget))
    noise = sds["residual"] * rng.standard_normal((reps, n, budget))

    def one_judge(judge):
        at = np.broadcast_to(judge, (reps, n, budget))
        own = panel[at] + np.take_along_axis(crossed, at, axis=2)
        return (generation + own + noise).mean(axis=(1, 2))

    start = rng.integers(0, k, (reps, 1, 1))
    turns = (start + np.arange(n * budget).reshape(n, budget)) % k
    found = {"random": one_judge(rng.integers(0, k, (reps, n, budget))), "cyclic": one_judge(turns)}
    if budget % k == 0:
        few = generation[..., : budget // k].mean(axis=(1, 2))
        found["all"] = few + noise.mean(axis=(1, 2))
    return found


@pytest.mark.parametrize(("n", "budget"), [(6, 4), (8, 1), (5, 6), (7, 3)])
def test_each_strategy_has_its_variance(n, budget):
    rng = np.random.default_rng(60 + n)
    panel = np.array([-0.7, -0.1, 0.2, 0.6])
    sds = {"generation": 0.6, "residual": 0.8}
    found = simulate_strategies(rng, 20_000, n, budget, panel, sds, 0.5)
    parts = panel_components(0.0, 0.36, np.mean(panel**2), 0.64, 0.25)
    v = strategy_variances(parts, n, budget, 4)
    # 5 % is five standard errors of a variance from 20,000 tables.
    assert found["random"].var() == pytest.approx(float(v.random_judge), rel=0.05)
    assert found["cyclic"].var() == pytest.approx(float(v.cyclic), rel=0.05)
    if "all" in found:
        assert found["all"].var() == pytest.approx(float(v.all_judges), rel=0.05)
    else:
        assert np.isnan(v.all_judges)


# Pools -----------------------------------------------------------------------------------


@given(st.integers(1, 4), st.integers(1, 4), st.integers(1, 4), st.integers(0, 99))
@settings(max_examples=60, deadline=None)
def test_pool_constants_are_the_variances_of_draws(n, m, k, seed):
    x = np.random.default_rng(seed).normal(size=(n, m, k))
    found = pool_constants(x)
    assert found.all_judges == pytest.approx(
        k * np.mean([np.var(x[i].mean(axis=1)) for i in range(n)])
    )
    assert found.random_judge == pytest.approx(np.mean([np.var(x[i]) for i in range(n)]))
    assert found.cyclic == pytest.approx(
        np.mean([np.var(x[i, :, h]) for i in range(n) for h in range(k)])
    )
    assert found.cyclic <= found.random_judge + 1e-12
    if m > 1 and k > 1:
        generation = (panel_mean_squares(x).generation - panel_mean_squares(x).within) / k
        gap = (k - 1) * (m - 1) / m * generation
        assert found.all_judges - found.cyclic == pytest.approx(gap, abs=1e-12)


def test_pool_constants_tend_to_the_strategies():
    rng = np.random.default_rng(70)
    assert pool_constants(simulated_scores(published("mindeval"), rng)).cyclic.shape == (5,)
    wide = rng.normal(size=(40, 400, 3)) + rng.normal(size=(40, 400, 1)) + np.array([-1, 0, 1])
    found, parts = pool_constants(wide), panel_components(0.0, 1.0, 2 / 3, 1.0)
    v = strategy_variances(parts, 40, 3, 3)
    for pool, variance in (
        (found.all_judges, v.all_judges),
        (found.random_judge, v.random_judge),
        (found.cyclic, v.cyclic),
    ):
        # 16,000 generations give a variance to about 1 %.
        assert pool / (40 * 3) == pytest.approx(float(variance), rel=0.05)
    with pytest.raises(bj.DataError, match="no scenarios"):
        pool_constants(np.zeros((2, 2)))


def test_subsamples_that_are_not_possible():
    x, rng = np.zeros((2, 3, 2)), np.random.default_rng(0)
    for budget in (0, 3):
        with pytest.raises(bj.UsageError, match="no multiple of 2 judges"):
            subsampled_means(x, "cyclic", budget, 5, rng)
    with pytest.raises(bj.UsageError, match="no strategy"):
        subsampled_means(x, "best", 2, 5, rng)
    # Pools beyond small integers.
    wide = np.arange(600.0).reshape(1, 300, 2)
    assert subsampled_means(wide, "random_judge", 2, 2000, rng).max() > 500


BUDGETS = {"mt_bench": (5, 10, 25), "mindeval": (5, 10, 25)}


@pytest.mark.parametrize("benchmark", ["mt_bench", "mindeval"])
def test_subsamples_of_simulated_tables_have_the_predicted_variance(benchmark):
    figures, rng = published(benchmark), np.random.default_rng(80)
    n = figures.n_scenarios
    tables = simulated_scores(figures, rng)
    for at, backbone in enumerate(figures.backbones):
        predicted = pool_constants(tables[at])
        for budget in BUDGETS[benchmark]:
            empirical = {
                s: subsampled_means(tables[at], s, budget, 20_000, rng).var() for s in STRATEGIES
            }
            for strategy, value in empirical.items():
                # 5 % is five standard errors of a variance from 20,000 subsamples.
                expected = getattr(predicted, strategy) / (n * budget)
                assert value == pytest.approx(expected, rel=0.05), (backbone, strategy, budget)
            assert empirical["cyclic"] < empirical["random_judge"]
            if figures.components.generation[at] > 0:
                # 4 %: four standard errors of a ratio of two such variances, one of which
                # may be larger by nothing where generations hardly differ.
                assert empirical["cyclic"] < 1.04 * empirical["all_judges"]


def test_taking_turns_is_never_worse_on_average_over_tables():
    rng = np.random.default_rng(81)
    for benchmark in ("mt_bench", "mindeval"):
        figures = published(benchmark)
        pools = [pool_constants(simulated_scores(figures, rng)) for _ in range(60)]
        cyclic, every, random = (
            np.array([getattr(p, s) for p in pools])
            for s in ("cyclic", "all_judges", "random_judge")
        )
        assert (cyclic <= random).all()
        gap = every - cyclic
        z = gap.mean(axis=0) / (gap.std(axis=0, ddof=1) / np.sqrt(60))
        # Without generation variance A and C are one in expectation: five backbones, |z| < 3.3.
        assert (z > -3.3).all()
        assert (z[figures.components.generation > 0.01] > 5).all()
        # What the pool's estimate of the generation variance says, table by table.
        one = simulated_scores(figures, rng)
        split = estimate_components(panel_mean_squares(one), judge_scenario=True)
        pool = pool_constants(one)
        assert ((pool.cyclic > pool.all_judges) == (split.generation < 0)).all()
