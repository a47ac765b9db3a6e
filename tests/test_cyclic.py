"""CyclicJudge's closed form: against loops, the general analysis, and simulation."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import bayesjudge as bj
from bayesjudge.closed_form.cyclic import (
    estimate_components,
    judge_test,
    judge_variance,
    means_by_judge,
    offset_error,
    panel_mean_squares,
    panel_means,
)
from bayesjudge.closed_form.intervals import t_interval
from bayesjudge.closed_form.panel_variance import (
    finite_correction,
    mean_contributions,
    mean_variance,
    panel_components,
)

TERMS = ("scenario", "generation", "judge", "residual")


def draw(rng, tables, n, m, offsets, sd, crossed=None):
    """Tables (tables, n, m, K) of equation 1: offsets (K,) or (tables, K) as they are."""
    k = offsets.shape[-1]
    shape = (tables, n, m, k)
    x = np.broadcast_to(np.reshape(offsets, (-1, 1, 1, k)), shape).copy()
    x += sd["scenario"] * rng.standard_normal((tables, n, 1, 1))
    x += sd["generation"] * rng.standard_normal((tables, n, m, 1))
    x += sd["residual"] * rng.standard_normal(shape)
    if crossed is not None:
        x += crossed
    return x


def centred(*values):
    return np.array(values) - np.mean(values)


def within_three(estimates, truth):
    """|z| < 3 of the mean over tables, for two dozen components and fixed seeds."""
    z = (estimates.mean() - truth) / (estimates.std(ddof=1) / np.sqrt(estimates.size))
    assert abs(z) < 3, (estimates.mean(), truth)


# Against loops ---------------------------------------------------------------------------


@given(st.integers(1, 4), st.integers(1, 3), st.integers(1, 4), st.integers(0, 99))
@settings(max_examples=60, deadline=None)
def test_mean_squares_equal_sums_over_cells(n, m, k, seed):
    x = np.random.default_rng(seed).normal(size=(2, n, m, k)) + 5
    found = panel_mean_squares(x)
    for t in range(2):
        y = x[t]
        total = {"scenario": 0.0, "generation": 0.0, "judge": 0.0, "crossed": 0.0, "within": 0.0}
        for i, j, h in itertools.product(range(n), range(m), range(k)):
            s, g, b, c = y[i].mean(), y[i, j].mean(), y[:, :, h].mean(), y[i, :, h].mean()
            total["scenario"] += (s - y.mean()) ** 2
            total["generation"] += (g - s) ** 2
            total["judge"] += (b - y.mean()) ** 2
            total["crossed"] += (c - s - b + y.mean()) ** 2
            total["within"] += (y[i, j, h] - g - c + s) ** 2
        assert sum(total.values()) == pytest.approx(np.sum((y - y.mean()) ** 2))
        lines = [
            (found.scenario, total["scenario"], n - 1),
            (found.generation, total["generation"], n * (m - 1)),
            (found.judge, total["judge"], k - 1),
            (found.judge_scenario, total["crossed"], (n - 1) * (k - 1)),
            (found.within, total["within"], n * (m - 1) * (k - 1)),
            (found.pooled, total["crossed"] + total["within"], (n * m - 1) * (k - 1)),
        ]
        for value, ss, df in lines:
            if df:
                assert value[t] == pytest.approx(ss / df)
            else:
                assert np.isnan(value[t])
    np.testing.assert_allclose(found.mean, x.mean(axis=(1, 2, 3)))
    np.testing.assert_allclose(found.offset.sum(axis=-1), 0, atol=1e-12)


def table_of(x):
    places = np.indices(x.shape).reshape(4, -1)
    names = ("backbone", "scenario", "generation", "judge")
    columns = {n: [f"{n}{i}" for i in p] for n, p in zip(names, places, strict=True)}
    return {**columns, "score": x.ravel()}


@pytest.mark.parametrize("model", ["cyclicjudge", "crossed"])
def test_the_general_analysis_of_a_backbone_gives_the_same(model):
    import pandas as pd

    x = np.random.default_rng(1).normal(size=(2, 5, 3, 4)) + np.arange(4)
    general = bj.anova(bj.read_scores(pd.DataFrame(table_of(x))), model)
    squares = panel_mean_squares(x)
    ours = estimate_components(squares, judge_scenario=model == "crossed")
    for b in range(2):
        rows = general.backbone_components.query(f"backbone == 'backbone{b}'")
        theirs = rows.set_index("term")["untruncated"]
        for name in TERMS:
            # There scenario:judge is exchangeable, and its mean over the judges is its own.
            extra = theirs["judge:scenario"] / 4 if (name, model) == ("scenario", "crossed") else 0
            assert getattr(ours, name)[b] == pytest.approx(theirs[name] + extra)
        if model == "crossed":
            assert ours.judge_scenario[b] == pytest.approx(theirs["judge:scenario"] * 3 / 4)
            offsets = general.backbone_offsets.query(f"backbone == 'backbone{b}'")
            own = offset_error(squares)
            np.testing.assert_allclose(own.estimate[b], offsets["estimate"].astype(float))
            np.testing.assert_allclose(own.se[b], offsets["se"].astype(float))
            np.testing.assert_allclose(own.df[b], offsets["df"].astype(float))
        tests = general.backbone_f_tests.query(f"backbone == 'backbone{b}'").set_index("term")
        pooled = judge_test(squares.judge_mean, squares.pooled, 15, 14 * 3)
        assert pooled.f[b] == pytest.approx(tests.loc["judge (assumes no scenario:judge)", "f"])
        assert pooled.p_value[b] == pytest.approx(
            tests.loc["judge (assumes no scenario:judge)", "p_value"]
        )
        if model == "crossed":
            right = judge_test(squares.judge_mean, squares.judge_scenario, 15, 4 * 3)
            assert right.f[b] == pytest.approx(tests.loc["judge", "f"])
        means = general.means.set_index("backbone").loc[f"backbone{b}"]
        assert panel_means(squares).se[b] == pytest.approx(means["se_own"])


def test_each_judge_has_the_mean_and_error_of_a_table_of_its_own():
    x = np.random.default_rng(2).normal(size=(6, 3, 2))
    found = means_by_judge(x)
    by_scenario = x.mean(axis=1)
    np.testing.assert_allclose(found.estimate, by_scenario.mean(axis=0))
    np.testing.assert_allclose(found.se, by_scenario.std(axis=0, ddof=1) / np.sqrt(6))
    assert found.df.tolist() == [5, 5]
    assert np.isnan(means_by_judge(x[:1]).se).all()


# Edges -----------------------------------------------------------------------------------


def test_one_generation_leaves_its_variance_with_the_scenario():
    squares = panel_mean_squares(np.random.default_rng(3).normal(size=(8, 1, 3)))
    found = estimate_components(squares)
    assert np.isnan(found.generation)
    assert float(found.scenario) == pytest.approx(float(squares.scenario - squares.pooled) / 3)
    known = mean_variance(found, 8, 1, 3, 3)
    assert float(known) == pytest.approx(float(squares.scenario) / 24)
    assert np.isnan(mean_variance(found, 8, 2, 3, 3))
    assert np.isnan(found.truncated.generation)
    with pytest.raises(bj.DataError, match="one generation"):
        estimate_components(squares, judge_scenario=True)


def test_one_scenario_one_judge_and_equal_scores():
    one = panel_mean_squares(np.random.default_rng(4).normal(size=(1, 4, 3)))
    assert np.isnan(estimate_components(one).scenario)
    assert np.isnan(panel_means(one).se)
    assert offset_error(one).df.tolist() == [6, 6, 6]
    alone = panel_mean_squares(np.random.default_rng(5).normal(size=(4, 2, 1)))
    assert np.isnan(estimate_components(alone).residual)
    assert float(panel_means(alone).se) == pytest.approx(np.sqrt(float(alone.scenario) / 8))
    assert np.isnan(judge_test(alone.judge_mean, alone.pooled, 8, 0).f)
    assert np.isnan(panel_means(alone, 4).se)
    assert np.isnan(panel_means(one, 5).se)
    flat = panel_mean_squares(np.full((4, 2, 3), 0.1))
    assert [float(getattr(estimate_components(flat), t)) for t in TERMS] == [0, 0, 0, 0]
    assert np.isnan(judge_test(flat.judge_mean, flat.pooled, 8, 14).f)
    assert float(panel_means(flat).se) == 0
    with pytest.raises(bj.DataError, match="no scenarios"):
        panel_mean_squares(np.zeros((2, 2)))
    with pytest.raises(bj.DataError, match="no scenarios"):
        panel_mean_squares(np.zeros((2, 0, 2)))


def test_what_is_impossible_is_refused():
    parts = panel_components(1.0, 1.0, 1.0, 1.0)
    with pytest.raises(bj.UsageError, match="cannot hold 3 judges"):
        judge_variance(np.zeros(3), 1.0, 5, panel_size=2)
    with pytest.raises(bj.UsageError, match="n=0"):
        mean_contributions(parts, 0, 1, 1, 1)
    with pytest.raises(bj.UsageError, match="out of a pool of 5"):
        mean_contributions(parts, 6, 1, 1, 1, scenario_pool=5)
    with pytest.raises(bj.UsageError, match="judge variance"):
        panel_components(1.0, 1.0, -1.0, 1.0)
    with pytest.raises(bj.UsageError, match="scenario variance"):
        panel_components(np.nan, np.nan, 1.0, 1.0)
    with pytest.raises(bj.UsageError, match="generation variance"):
        panel_components(1.0, -1.0, 1.0, 1.0)


@given(st.integers(1, 9), st.integers(0, 9))
def test_the_correction_runs_from_one_to_none(k, more):
    value = finite_correction(k, k + more)
    assert 0 <= value <= 1
    assert value == (1 if k == 1 and more else 0 if not more else (more / (k + more - 1)))


def test_a_finite_pool_of_scenarios():
    parts = panel_components(1.0, 0.5, 0.3, 0.8, 0.2)
    whole = mean_contributions(parts, 20, 2, 2, 5, scenario_pool=20)
    assert (whole.scenario, whole.judge_scenario) == (0, 0)
    part = mean_contributions(parts, 5, 2, 2, 5, scenario_pool=20)
    assert part.scenario == pytest.approx(1 / 5 * 3 / 4)
    assert part.generation == pytest.approx(0.05)
    assert mean_variance(parts, 5, 2, 2, 5, 20) < mean_variance(parts, 5, 2, 2, 5)


# Unbiased --------------------------------------------------------------------------------

SD = {"scenario": 0.9, "generation": 0.5, "residual": 0.8}


@pytest.mark.parametrize(("n", "m", "k"), [(20, 4, 5), (40, 2, 3), (8, 6, 2)])
def test_components_are_unbiased_on_three_designs(n, m, k):
    rng = np.random.default_rng(10 + n)
    offsets = centred(*rng.normal(0, 0.6, k))
    found = estimate_components(panel_mean_squares(draw(rng, 2000, n, m, offsets, SD)))
    for name in ("scenario", "generation", "residual"):
        within_three(getattr(found, name), SD[name] ** 2)
    within_three(found.judge, np.mean(offsets**2))


@pytest.mark.parametrize("k", [2, 3, 5])
def test_components_are_unbiased_where_the_panel_has_more_judges(k):
    rng = np.random.default_rng(20 + k)
    panel = centred(-1.0, -0.6, -0.4, -0.1, 0.2, 0.4, 0.6, 0.9)
    chosen = np.argsort(rng.random((2000, 8)), axis=1)[:, :k]
    x = draw(rng, 2000, 12, 3, panel[chosen], SD)
    squares = panel_mean_squares(x)
    found = estimate_components(squares, 8)
    for name in ("scenario", "generation", "residual"):
        within_three(getattr(found, name), SD[name] ** 2)
    truth = np.mean(panel**2)
    within_three(found.judge, truth)
    within_three(judge_variance(squares.judge_mean, squares.pooled, 36, 8), truth)
    # Equation 25 taken literally, K_tot in place of K, is far off.
    literal = np.sum(squares.offset**2, axis=1) / 8 - squares.pooled / 36 * 7 / 8
    assert literal.mean() < 0.6 * truth
    # The error of the panel's mean is that of equation 2.
    parts = panel_components(SD["scenario"] ** 2, SD["generation"] ** 2, truth, SD["residual"] ** 2)
    target = float(mean_variance(parts, 12, 3, k, 8))
    means = panel_means(squares, 8)
    # The cut at zero for judges who hardly differ lifts it a little with two of them.
    assert np.mean(means.se**2) == pytest.approx(target, rel=0.06)
    # Four standard errors of a variance from 2,000 tables.
    assert squares.mean.var() == pytest.approx(target, rel=0.13)


def test_scenario_by_judge_is_told_apart_without_bias():
    rng = np.random.default_rng(30)
    reps, n, m, k, size = 2000, 15, 3, 3, 6
    panel = centred(-0.8, -0.3, 0.0, 0.1, 0.4, 0.6)
    crossed = rng.normal(0, 0.7, (reps, n, size))
    crossed -= crossed.mean(axis=2, keepdims=True)
    crossed *= 0.6 / np.sqrt(5 / 6) / 0.7
    chosen = np.argsort(rng.random((reps, size)), axis=1)[:, :k]
    of_chosen = np.take_along_axis(crossed, chosen[:, None, :], axis=2)[:, :, None, :]
    x = draw(rng, reps, n, m, panel[chosen], SD, of_chosen)
    found = estimate_components(panel_mean_squares(x), size, judge_scenario=True)
    for name in ("scenario", "generation", "residual"):
        within_three(getattr(found, name), SD[name] ** 2)
    within_three(found.judge, np.mean(panel**2))
    within_three(found.judge_scenario, 0.36)
    # Beside it the pooled F rejects too often when no judge has an offset.
    even = draw(rng, reps, n, m, np.zeros(k), SD, crossed[:, :, None, :k])
    squares = panel_mean_squares(even)
    right = judge_test(squares.judge_mean, squares.judge_scenario, n * m, (n - 1) * (k - 1))
    pooled = judge_test(squares.judge_mean, squares.pooled, n * m, (n * m - 1) * (k - 1))
    # Binomial standard error of the right one: 0.005.
    assert 0.03 < np.mean(right.p_value < 0.05) < 0.07
    assert np.mean(pooled.p_value < 0.05) > 0.12


@pytest.mark.parametrize(
    ("n", "m", "k", "size"), [(6, 2, 2, 5), (10, 1, 1, 5), (4, 3, 3, 3), (8, 2, 4, 8), (3, 4, 2, 3)]
)
def test_the_variance_of_the_mean_is_equation_2(n, m, k, size):
    rng = np.random.default_rng(40 + n)
    tables = 50_000
    panel = centred(*rng.normal(0, 0.5, size))
    chosen = np.argsort(rng.random((tables, size)), axis=1)[:, :k]
    x = draw(rng, tables, n, m, panel[chosen], SD)
    parts = panel_components(
        SD["scenario"] ** 2, SD["generation"] ** 2, np.mean(panel**2), SD["residual"] ** 2
    )
    found = x.mean(axis=(1, 2, 3)).var()
    # 3 % is nearly five standard errors of a variance from 50,000 tables.
    assert found == pytest.approx(float(mean_variance(parts, n, m, k, size)), rel=0.03)


# Taking turns ----------------------------------------------------------------------------


def test_a_cyclic_part_of_a_complete_table_misses_its_mean_by_the_residuals_only():
    rng = np.random.default_rng(50)
    tables, n, m, k = 10_000, 10, 4, 4
    x = draw(rng, tables, n, m, centred(-1.0, 0.2, 0.5, 0.3), SD)
    start = rng.integers(0, k, (tables, n, 1))
    judge = (start + np.arange(m)) % k
    part = np.take_along_axis(x, judge[..., None], axis=3)[..., 0]
    missed = part.mean(axis=(1, 2)) - x.mean(axis=(1, 2, 3))
    expected = SD["residual"] * np.sqrt((1 - 1 / k) / (n * m))
    # 5 % is seven standard errors of an sd from 10,000 tables.
    assert missed.std() == pytest.approx(expected, rel=0.05)
    # And about the panel's own mean by V_C and the scenarios.
    about = np.sqrt(
        SD["scenario"] ** 2 / n + (SD["generation"] ** 2 + SD["residual"] ** 2) / (n * m)
    )
    assert part.mean(axis=(1, 2)).std() == pytest.approx(about, rel=0.05)


def test_intervals_of_whole_turns_cover_the_panels_mean_and_those_of_one_judge_do_not():
    rng = np.random.default_rng(51)
    tables, n, m, k = 1000, 12, 4, 4
    offsets = centred(-1.0, 0.2, 0.5, 0.3)
    x = draw(rng, tables, n, m, offsets, SD)
    judge = (rng.integers(0, k, (tables, n, 1)) + np.arange(m)) % k
    turn = np.take_along_axis(x, judge[..., None], axis=3)
    one = np.take_along_axis(x, rng.integers(0, k, (tables, 1, 1, 1)), axis=3)
    covered = []
    for scores in (turn, one):
        found = means_by_judge(scores)
        lower, upper = t_interval(found.estimate, found.se, n - 1, 0.95)
        covered.append(np.mean((lower <= 0) & (upper >= 0)))
    # Binomial standard error 0.007.
    assert 0.93 < covered[0] < 0.97
    assert covered[1] < 0.75
