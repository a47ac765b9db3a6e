"""Plans: the best of what a budget buys, with its error as simulated tables have it."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import bayesjudge as bj
from bayesjudge.errors import DataError, ModelError, UsageError
from bayesjudge.planning.budgeting import design_cost, make_prices, optimal_calls
from bayesjudge.planning.choosing import plan
from bayesjudge.planning.components import components_of_fit, typed_components
from bayesjudge.planning.designs import (
    Component,
    Components,
    Design,
    design_variance,
    mean_contrasts,
    pair_contrasts,
)
from bayesjudge.planning.goals import order_probability
from bayesjudge.planning.options import describe, on_frontier
from bayesjudge.planning.reliabilities import panel_mean_weights, reliability
from bayesjudge.spec import read_model
from tests.test_designs import CROSSED, VARIANCES, simulated_errors

JUDGES = ("v", "w", "x", "y", "z")
PRICES = [
    (1.0, 1.0, 1.0, 1.0, 1.0),
    (1.0, 2.0, 4.0, 8.0, 16.0),
    (0.3, 0.3, 0.3, 0.3, 6.0),
    (0.002, 0.01, 0.015, 0.03, 0.06),
    (5.0, 1.0, 7.0, 2.0, 3.0),
]


def components(judges=JUDGES, variances=VARIANCES, random=()):
    return typed_components(CROSSED, variances, backbones=3, judges=judges, random=random)


def random_plan(rng, price, generation, budget, pool):
    """Any design that costs all of the budget but what buys no further call."""
    k = int(rng.integers(1, 6))
    judges = tuple(sorted(rng.choice(5, k, replace=False).tolist()))
    own = price[list(judges)] + generation
    if own.sum() * 3 > budget:
        return None
    if rng.random() < 0.4:
        q = int(rng.integers(1, k + 1))
        slots = int(budget / 3 / (q * price[list(judges)].mean() + generation)) - k
        if slots < k:
            return None
        n = int(rng.integers(1, min(pool or slots, slots) + 1))
        return Design(n, slots, judges, q)
    share = rng.dirichlet(np.full(k, float(rng.choice([0.5, 2.0, 20.0]))))
    calls = np.maximum((share * (budget / 3 - own.sum()) / own).astype(int), 1)
    left = budget / 3 - calls @ own
    for j in rng.permutation(k):
        more = int(max(left, 0) / own[j])
        calls[j] += more
        left -= more * own[j]
    slots = int(calls.sum())
    n = int(rng.integers(1, min(pool or slots, slots) + 1))
    return Design(n, slots, judges, 1, tuple(calls.tolist()))


@pytest.mark.parametrize("target", ["mean", "difference"])
@pytest.mark.parametrize("at", range(len(PRICES)))
def test_no_random_plan_of_equal_cost_is_better(at, target):
    price = np.array(PRICES[at])
    generation = [0.0, 0.5, 0.0, 0.004, 1.0][at]
    pool = [None, 40, 60, None, 25][at]
    budget = 3 * 60 * (price.mean() + generation)
    parts = components()
    costs = dict(zip(JUDGES, price.tolist(), strict=True))
    found = plan(parts, budget, costs=costs, generation_cost=generation, pool=pool, target=target)
    contrasts = mean_contrasts(3) if target == "mean" else pair_contrasts(3)
    best = design_variance(parts, found.design, contrasts, pool)[0]
    prices = make_prices(JUDGES, costs, generation)
    assert design_cost(found.design, prices, 3) <= budget * (1 + 1e-9)
    rng = np.random.default_rng(at)
    tried = 0
    while tried < 200:
        other = random_plan(rng, price, generation, budget, pool)
        if other is None or design_cost(other, prices, 3) > budget:
            continue
        tried += 1
        assert design_variance(parts, other, contrasts, pool)[0] >= best * (1 - 1e-9), other


@pytest.mark.parametrize("at", range(len(PRICES)))
def test_simulated_tables_confirm_the_recommended_variance(at):
    """4,000 tables, within 4 standard errors of a variance (each sqrt(2/4000))."""
    costs = dict(zip(JUDGES, PRICES[at], strict=True))
    pool = [None, 40, 60, None, 25][at]
    parts = components()
    found = plan(parts, 3 * 60 * float(np.mean(PRICES[at])), costs=costs, pool=pool)
    errors = simulated_errors(parts, found.design, pool, 4000, seed=at)
    for contrast in (*mean_contrasts(3)[:1], *pair_contrasts(3)[:1]):
        told = design_variance(parts, found.design, contrast[None], pool)[0]
        assert (errors @ contrast).var() == pytest.approx(told, rel=4 * np.sqrt(2 / 4000))


positive = st.floats(0.1, 20.0)


@given(st.lists(st.tuples(positive, positive), min_size=1, max_size=6), st.floats(1.0, 200.0))
def test_calls_are_near_the_bound_that_fractions_would_reach(judges, rounds):
    variance, price = np.array(judges).T
    budget = rounds * price.sum()
    calls = optimal_calls(variance, price, budget)
    assert calls.min() >= 1
    assert calls @ price <= budget * (1 + 1e-8)
    assert (price > budget - calls @ price - 1e-6 * budget).all()
    bound = np.sqrt(variance * price).sum() ** 2 / budget
    reached = (variance / calls).sum()
    assert reached >= bound * (1 - 1e-9)
    # Against rounding every judge's number down, which any sensible answer beats.
    ideal = budget * np.sqrt(variance / price) / np.sqrt(variance * price).sum()
    down = np.maximum(np.floor(ideal), 1)
    if down @ price <= budget:
        assert reached <= (variance / down).sum() * (1 + 1e-9)


@settings(max_examples=30)
@given(st.lists(st.integers(1, 40), min_size=2, max_size=3), st.integers(3, 14))
def test_calls_of_one_price_are_the_best_of_all(variances, budget):
    variance = np.array(variances, float)
    calls = optimal_calls(variance, np.ones(len(variance)), float(budget))
    every = (
        (variance / np.array(c)).sum()
        for c in itertools.product(range(1, budget + 1), repeat=len(variance))
        if sum(c) <= budget
    )
    assert (variance / calls).sum() == pytest.approx(min(every))


def test_shares_follow_the_square_root_of_variance_over_price():
    """STATISTICS 7: N proportional to sqrt((generation + residual of the judge) / price)."""
    calls = optimal_calls(np.array([1.2, 1.2, 2.7]), np.array([1.0, 4.0, 1.0]), 1e5)
    assert calls / calls[0] == pytest.approx([1.0, 0.5, 1.5], rel=1e-3)
    assert optimal_calls(np.ones(2), np.ones(2), 1.5).tolist() == [0, 0]


def test_one_judge_a_scenario_wins_where_scenarios_are_to_be_had():
    found = plan(components(), 1500, target="difference")
    assert (found.design.n, found.design.slots, found.design.per_generation) == (500, 500, 1)
    assert found.design.k == 5
    assert "all judges on every generation" in found.reason
    row = found.options.iloc[found.recommended]
    assert row["calls"] == row["cost"] == 1500
    assert row["recommended"]
    assert np.isnan(row["ci_lower"])
    crossed = found.options.query("assignment == 'crossed' and k == 5")
    assert (crossed["expected_sd"] > row["expected_sd"]).all()


def test_dear_answers_are_scored_by_several_judges():
    cheap = plan(components(), 3000, generation_cost=0.0).design
    dear = plan(components(), 3000, generation_cost=20.0).design
    assert cheap.per_generation == 1
    assert dear.per_generation > 1


def test_a_pool_is_used_up_and_not_exceeded():
    found = plan(components(), 3000, pool=50)
    assert found.design.n == 50
    assert found.design.slots == 1000
    assert (found.options["n"] <= 50).all()


def test_the_frontier_falls_and_nothing_lies_below_it():
    options = plan(components(), 2000, costs=dict(zip(JUDGES, PRICES[1], strict=True))).options
    frontier = options[options["frontier"]].sort_values("cost")
    assert len(frontier) > 5
    assert (np.diff(frontier["expected_sd"]) < 0).all()
    for cost, sd in zip(options["cost"], options["expected_sd"], strict=True):
        assert (frontier.loc[frontier["cost"] <= cost, "expected_sd"].min()) <= sd * (1 + 1e-9)
    assert on_frontier(np.array([1.0, 1.0, 2.0]), np.array([3.0, 2.0, 2.0])).tolist() == [
        False,
        True,
        False,
    ]


def test_the_cheapest_that_reaches_the_target():
    found = plan(components(), target="difference", sd=0.1)
    row = found.options.iloc[found.recommended]
    assert found.reached is True
    assert row["expected_sd"] <= 0.1
    less = plan(components(), row["cost"] * 0.97, target="difference", sd=0.1)
    assert less.reached is False
    assert "not reached" in less.reason
    more = plan(components(), row["cost"] * 4, target="difference", sd=0.1)
    assert more.options.iloc[more.recommended]["cost"] <= row["cost"] * 1.5


def test_an_order_of_two_with_a_known_gap():
    found = plan(components(), 1500, target="order", gap=0.2, pair=("backbone1", "backbone2"))
    row = found.options.iloc[found.recommended]
    rng = np.random.default_rng(0)
    right = np.mean(0.2 + row["expected_sd"] * rng.standard_normal(200_000) > 0)
    assert row["p_order"] == pytest.approx(right, abs=4 * np.sqrt(0.25 / 200_000))
    enough = plan(components(), target="order", gap=0.2, probability=0.99)
    assert enough.options.iloc[enough.recommended]["p_order"] >= 0.99


def test_latencies_are_side_by_side_and_limit():
    seconds = dict.fromkeys(JUDGES, 1.0) | {"z": 30.0}
    free = plan(components(), 1500, latencies=seconds)
    row = free.options.iloc[free.recommended]
    assert row["seconds"] == pytest.approx(300 * 30.0)
    bound = plan(components(), 1500, latencies=seconds, max_seconds=1000.0)
    chosen = bound.options.iloc[bound.recommended]
    assert chosen["seconds"] <= 1000.0
    assert chosen["expected_sd"] > row["expected_sd"]


def test_random_judges_are_never_few_enough_to_leave_out():
    parts = components(random=("judge",))
    found = plan(parts, 1500)
    assert found.design.k == 5
    assert found.options["expected_sd"].min() ** 2 > 0.4 / 5
    with pytest.raises(DataError, match="out of reach"):
        plan(parts, sd=0.1)


def test_noise_by_judge_gives_unequal_shares_at_equal_prices():
    every = ("backbone", "judge", "scenario", "generation")
    own = Component("residual", every, (), np.array([[0.1, 0.1, 4.0]]), "judge")
    # Judges who differ, so that the noisy one cannot be left out.
    bias = Component("judge", ("judge",), ("judge",), np.array([[2.0]]))
    parts = Components((bias, own), ("a", "b"), ("x", "y", "z"), ("backbone", "judge"))
    found = plan(parts, 600)
    assert found.design.calls[2] > 4 * found.design.calls[0]


def test_probability_of_an_order_at_the_ends():
    sd = np.array([[0.0, 1.0]])
    assert order_probability(np.array([0.5]), sd)[0] == 1.0
    assert order_probability(np.array([0.0]), sd).tolist() == [0.5, 0.5]
    assert np.isnan(order_probability(None, sd)).all()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"budget": None}, "nothing to plan"),
        ({"budget": -1.0}, "budget is -1"),
        ({"target": "glory"}, "target is 'glory'"),
        ({"pair": ("backbone1", "backbone2")}, "a pair is two"),
        ({"target": "difference", "pair": ("backbone1", "nobody")}, "called nobody"),
        ({"target": "order"}, "nothing is known"),
        ({"sd": -1.0}, "sd to reach"),
        ({"pair": "ab", "target": "difference"}, "the pair is 'ab'"),
        *(({"gap": gap}, "gap must be a number above 0") for gap in (np.nan, np.inf, -1.0, 0.0)),
        ({"pool": 2.5}, "pool of scenarios is 2.5"),
        ({"budget": 1e12}, "more than 1,000,000 answers"),
        ({"probability": 0.9}, "reached by an order"),
        ({"target": "order", "gap": 1.0, "probability": 1.5}, "probability"),
        ({"costs": {"v": 1.0}}, "no price for w"),
        ({"costs": {"nobody": 1.0}}, "no judge is called"),
        ({"costs": dict.fromkeys(JUDGES, 0.0)}, "above 0"),
        ({"generation_cost": -1.0}, "at least 0"),
        ({"pool": 0}, "pool of scenarios is 0"),
        ({"max_seconds": 3.0}, "latency of each judge"),
        ({"ci_prob": 1.0}, "ci_prob"),
    ],
)
def test_what_cannot_be_planned_is_refused(changes, message):
    with pytest.raises(UsageError, match=message):
        plan(components(), **({"budget": 100.0} | changes))


def test_generations_that_differ_by_one_are_said():
    assert "3 scenarios, 1 or 2 generations (1.33 on average)" in describe(Design(3, 4, (0,), 1))
    assert "2 scenarios, 2 generations each" in describe(Design(2, 4, (0,), 1))


def test_the_recommended_calls_of_each_judge_are_said():
    found = plan(components(), 100.0)
    calls = found.options.iloc[found.recommended]["calls_per_judge"]
    told = ", ".join(f"{judge} {n}" for judge, n in zip(JUDGES, calls, strict=True))
    assert f"recommended calls by judge, all backbones together: {told}" in found.notes


def test_a_budget_that_buys_nothing_is_refused():
    with pytest.raises(DataError, match="buys no design"):
        plan(components(), 2.0)
    latencies = dict.fromkeys(JUDGES, 5.0)
    with pytest.raises(DataError, match="out of reach"):
        plan(components(), sd=0.02, latencies=latencies, max_seconds=100.0)


@pytest.fixture(scope="module")
def fit():
    made = bj.simulate(
        "crossed_common",
        backbones=["a", "b", "c", "d"],
        scenarios=25,
        judges=["x", "y", "z"],
        generations=2,
        means={"a": 6.0, "b": 6.5, "c": 7.0, "d": 7.2},
        sd={"residual": 0.8, "generation": 0.4, "scenario": 0.7, "backbone:scenario": 0.5},
        random_seed=3,
    )
    return bj.fit(bj.read_scores(made.table), "crossed_common", draws=300, tune=300, chains=2)


def test_options_of_a_fit_have_intervals(fit):
    found = plan(fit, 900, target="order")
    row = found.options.iloc[found.recommended]
    assert row["ci_lower"] < row["expected_sd"] < row["ci_upper"]
    assert 0.5 < row["p_order"] < 1
    assert row["generalizability_ci_lower"] < row["generalizability"] < 1
    assert row["dependability"] < row["generalizability"]
    assert any("the plan needs" in note for note in found.notes)
    # The two with the highest means.
    assert found.goal.pair == ()
    same = plan(fit, 900, target="order", pair=("d", "c"))
    assert same.options["expected_sd"].tolist() == pytest.approx(found.options["expected_sd"])


def test_lower_is_better_turns_the_order_around(fit):
    from dataclasses import replace

    low = replace(fit, scores=replace(fit.scores, lower_is_better=True))
    means = components_of_fit(low).means
    assert means.mean(axis=0).argmax() == 0


def test_reliability_is_that_of_the_textbook(fit):
    """Brennan: s2_sb/n + s2_g/(nm) + s2_e/(nmK); absolute adds s2_s/n + s2_sj/(nK)."""
    draws = {
        name: fit.posterior["posterior"][name].to_numpy().ravel() ** 2
        for name in (
            "backbone_scenario_sd",
            "scenario_sd",
            "judge_scenario_sd",
            "generation_sd",
            "sigma",
            "backbone_judge_scenario_sd",
        )
    }
    n, m, k = 25, 2, 3
    relative = (
        draws["backbone_scenario_sd"] / n
        + draws["backbone_judge_scenario_sd"] / (n * k)
        + draws["generation_sd"] / (n * m)
        + draws["sigma"] / (n * m * k)
    )
    absolute = relative + draws["scenario_sd"] / n + draws["judge_scenario_sd"] / (n * k)
    universe = fit.means().var(axis=1, ddof=1)
    found = reliability(fit).set_index("coefficient")
    for name, error in (("generalizability", relative), ("dependability", absolute)):
        told = universe / (universe + error)
        assert found.loc[name, "estimate"] == pytest.approx(told.mean())
        assert found.loc[name, "ci_lower"] == pytest.approx(np.quantile(told, 0.025))
    assert found["decision"].tolist() == ["relative", "absolute"]
    design = reliability(fit, Design(25, 50, (0, 1, 2), 3)).set_index("coefficient")
    assert design["estimate"].tolist() == pytest.approx(found["estimate"].tolist())
    pool = reliability(fit, pool=30)["estimate"]
    designed = reliability(fit, Design(25, 50, (0, 1, 2), 3), pool=30)["estimate"]
    assert pool.tolist() == pytest.approx(designed.tolist())
    assert (pool.to_numpy() > found["estimate"].to_numpy()).all()
    with pytest.raises(UsageError, match="pool of 3"):
        reliability(fit, pool=3)


def test_the_table_as_it_is_need_not_be_balanced(fit):
    """Half of a table's judges' calls away: the coefficients of a round-robin's design."""
    from dataclasses import replace

    from bayesjudge.scores.table import Facet

    scores = fit.scores
    keep = (scores.codes("scenario") + scores.codes("generation")) % 3 == scores.codes("judge")
    facets = tuple(Facet(f.name, f.role, f.levels, f.codes[keep]) for f in scores.facets)
    part = replace(scores, score=scores.score[keep], facets=facets)
    weight = panel_mean_weights(part)
    for b in range(4):
        own = part.codes("backbone") == b
        by_judge = np.bincount(part.codes("judge")[own], weight[own])
        assert by_judge == pytest.approx([1 / 3] * 3)
    thin = bj.fit(part, "crossed_common", draws=200, tune=200, chains=2)
    table = reliability(thin)["estimate"].tolist()
    # A whole round-robin over 50 generations, up to which scenario a turn falls on.
    design = reliability(thin, Design(25, 50, (0, 1, 2), 1))["estimate"].tolist()
    assert table == pytest.approx(design, rel=0.01)


def test_scales_by_backbone_are_each_backbone_s_own():
    made = bj.simulate(backbones=3, scenarios=15, judges=2, random_seed=2)
    own = bj.fit(bj.read_scores(made.table), draws=200, tune=200, chains=2)
    parts = components_of_fit(own)
    residual = parts.parts[-1]
    assert residual.by == "backbone"
    assert residual.variance.shape == (400, 3)
    table = reliability(own)["estimate"].tolist()
    design = reliability(own, Design(15, 15, (0, 1), 2))["estimate"].tolist()
    assert table == pytest.approx(design)
    assert plan(own, 300).design.n == 100


def test_a_table_without_judges_has_one():
    made = bj.simulate(backbones=3, scenarios=15, judges=1, generations=2, random_seed=2)
    scores = bj.read_scores(made.table.drop(columns="judge"))
    own = bj.fit(scores, "crossed_common", draws=200, tune=200, chains=2)
    found = plan(own, 300)
    assert found.design.k == 1
    assert reliability(own)["estimate"].between(0, 1).all()


def test_languages_multiply_the_calls():
    made = bj.simulate(
        "crossed_common", backbones=3, scenarios=12, judges=2, languages=2, random_seed=2
    )
    own = bj.fit(bj.read_scores(made.table), "crossed_common", draws=200, tune=200, chains=2)
    found = plan(own, 600)
    row = found.options.iloc[found.recommended]
    assert row["calls"] == 3 * 2 * found.design.slots == 600
    assert any("language (2)" in note for note in found.notes)
    table = reliability(own)["estimate"].tolist()
    assert table == pytest.approx(reliability(own, Design(12, 12, (0, 1), 2))["estimate"].tolist())


def test_effects_behind_a_link_are_not_planned_with(fit):
    from dataclasses import replace

    with pytest.raises(ModelError, match="gaussian"):
        plan(replace(fit, spec=read_model("robust")), 100)
