"""Simulated tables follow the model, hold the truth asked for, and repeat by seed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import bayesjudge as bj
from bayesjudge.errors import ModelError, UsageError
from bayesjudge.examples import demo_table
from bayesjudge.resolution import resolve
from bayesjudge.scores import read_scores
from bayesjudge.simulation import simulate, simulate_scores
from bayesjudge.spec import (
    Prior,
    Thresholds,
    override_prior,
    parse_model,
    read_model,
    shipped_models,
)


def test_shape_and_columns_of_the_default_table():
    made = bj.simulate(backbones=3, scenarios=4, judges=2)
    assert list(made.table.columns) == ["backbone", "scenario", "judge", "score"]
    assert len(made.table) == 24
    assert not made.table.drop(columns="score").duplicated().any()


def test_judge_and_scenario_stay_where_they_have_one_level():
    made = simulate(backbones=2, scenarios=1, judges=1, generations=3, languages=2)
    expected = ["backbone", "scenario", "language", "generation", "judge", "score"]
    assert list(made.table.columns) == expected
    assert len(made.table) == 12


def test_same_seed_same_table_and_another_seed_another():
    tables = [simulate(scenarios=3, missing=0.2, random_seed=s).table for s in (4, 4, 5)]
    pd.testing.assert_frame_equal(tables[0], tables[1])
    assert not tables[0].equals(tables[2])


def test_fixed_truth_is_in_the_truth_and_in_the_table():
    means = {"b": 8.0, "a": 6.5, "c": 7.0}
    made = simulate(
        "crossed",
        backbones=["b", "a", "c"],
        scenarios=2000,
        judges=3,
        sd={
            "scenario": 0.0,
            "scenario:backbone": 0.0,
            "judge": 0.7,
            "judge:scenario": 0.0,
            "residual": [0.1, 0.5, 0.9],
        },
        means=means,
    )
    assert made.truth["labels"]["backbone"] == ["a", "b", "c"]
    np.testing.assert_allclose(made.truth["backbone_mean"], [6.5, 8.0, 7.0])
    assert made.truth["scales"]["judge_sd"] == 0.7
    np.testing.assert_array_equal(made.truth["scales"]["sigma"], [0.1, 0.5, 0.9])
    cells = made.table.groupby(["backbone", "judge"])["score"]
    np.testing.assert_allclose(cells.std().groupby("backbone").mean(), [0.1, 0.5, 0.9], rtol=0.05)
    got = cells.mean().groupby("backbone").mean()
    np.testing.assert_allclose(got, [6.5, 8.0, 7.0], atol=0.05)


def test_panel_effects_sum_to_zero_and_others_do_not():
    effects = simulate(scenarios=6, generations=2).truth["effects"]
    assert abs(effects["judge"].sum()) < 1e-12
    np.testing.assert_allclose(effects["backbone_judge"].sum(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(effects["backbone_judge"].sum(axis=1), 0, atol=1e-12)
    assert abs(effects["scenario"].sum()) > 1e-6
    assert effects["generation"].shape == (5 * 6 * 2,)


def resolved_of(**sizes):
    return resolve(read_model("crossed"), read_scores(simulate(**sizes).table), 1.0, 0.0)


def test_draws_follow_the_priors():
    resolved = resolved_of(backbones=3, scenarios=5, judges=3)
    rng = np.random.default_rng(1)
    truths = [simulate_scores(resolved, rng)[1] for _ in range(4000)]
    intercept = np.array([t["intercept"] for t in truths])
    judge = np.array([t["scales"]["judge_sd"] for t in truths])
    # Four standard errors: sd 2 for the intercept, half-normal(1) for the judge.
    assert abs(intercept.mean()) < 4 * 2 / np.sqrt(4000)
    assert abs(judge.mean() - np.sqrt(2 / np.pi)) < 4 * 0.603 / np.sqrt(4000)
    unit = np.array([t["effects"]["judge"] / t["scales"]["judge_sd"] for t in truths])
    covariance = unit.T @ unit / len(unit)
    np.testing.assert_allclose(covariance, np.eye(3) - 1 / 3, atol=0.08)
    ratio = np.array([np.log(t["scales"]["sigma"] / t["hyper"]["sigma_center"]) for t in truths])
    # log s_b = log s + tau z with tau half-normal(0.5): variance 0.25; the floor adds a little.
    assert abs(np.median(ratio)) < 0.02
    assert abs(ratio.var() - 0.25) < 0.05


def test_scores_are_the_sum_of_their_parts():
    resolved = resolved_of(backbones=2, scenarios=4, judges=2, generations=2)
    scores, truth = simulate_scores(resolved, np.random.default_rng(0), sd={"residual": 0.0})
    expected = truth["intercept"] + sum(
        truth["effects"][t.variable].ravel()[t.codes] for t in resolved.terms
    )
    np.testing.assert_allclose(scores, expected)
    assert "generation" in truth["effects"]


def test_one_judge_takes_turns_and_judges_all_backbones():
    table = simulate(backbones=3, scenarios=10, judges=3, one_judge=True).table
    assert len(table) == 30
    assert len(table.drop_duplicates(["scenario", "judge"])) == 10
    loads = table.drop_duplicates("scenario")["judge"].value_counts()
    assert loads.max() - loads.min() <= 1
    again = simulate(backbones=3, scenarios=10, judges=3, one_judge=True, random_seed=1).table
    assert list(table["judge"]) != list(again["judge"])


def test_missing_takes_out_the_fraction_asked():
    table = simulate(backbones=2, scenarios=10, judges=5, missing=0.25).table
    assert len(table) == 75


def test_a_scenario_that_lost_every_score_is_no_level():
    made = simulate(backbones=2, scenarios=30, judges=1, missing=0.8, random_seed=2)
    assert made.truth["labels"].get("scenario", []) == sorted(set(made.table["scenario"]))


def test_a_users_model_is_simulated():
    data = read_model("crossed_common").to_data()
    own = parse_model({**data, "name": "own", "term": data["term"][:2]})
    assert set(simulate(own, scenarios=3).truth["effects"]) == {"backbone", "judge"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"backbones": 1}, "one backbone"),
        ({"judges": 0}, "at least one"),
        ({"judges": ["x", "x"]}, "repeat"),
        ({"missing": 1.0}, "below 1"),
        ({"missing": 0.99, "scenarios": 2, "judges": 1}, "without a score"),
        ({"sd": {"judge": -1}}, "0 or positive"),
        ({"sd": {"residual": [1.0, 2.0]}}, "one a level"),
        ({"sd": {"judge": [1.0, 2.0]}}, "one number"),
        ({"means": {"nobody": 1.0}}, "one for each"),
        ({"random_seed": -1}, "at least 0"),
    ],
)
def test_what_is_out_of_range_is_refused(arguments, message):
    with pytest.raises(UsageError, match=message):
        simulate(**arguments)


@pytest.mark.parametrize("name", shipped_models())
def test_every_shipped_model_is_simulated_the_same_for_the_same_seed(name):
    one, other = (simulate(name, scenarios=6, languages=2, random_seed=5) for _ in range(2))
    pd.testing.assert_frame_equal(one.table, other.table)
    last = one.table.columns[-1]
    again = simulate(name, scenarios=6, languages=2, random_seed=6)
    assert not one.table[last].equals(again.table[last])


@pytest.mark.parametrize(("model", "scale"), [("verdict", None), ("ordinal", (2, 6))])
def test_expected_scores_are_the_means_of_many_simulated_ones(model, scale):
    # One panel, very many new scenarios: their mean is the estimand.
    made = simulate(
        model, backbones=3, judges=3, scenarios=20_000, scale=scale, random_seed=8, sd=FIXED
    )
    scores = made.table.groupby("backbone")["score"]
    per_scenario = made.table.groupby(["backbone", "scenario"])["score"].mean()
    error = per_scenario.groupby("backbone").std() / np.sqrt(20_000)
    gap = np.abs(scores.mean() - made.truth["backbone_mean"])
    assert (gap < 4.5 * error).all()
    categories = range(scale[0], scale[1] + 1) if scale else range(2)
    assert set(made.table["score"]) <= set(map(float, categories))


FIXED = {"scenario": 1.2, "backbone:scenario": 0.8, "judge:scenario": 0.6}


def test_robust_scores_have_the_tails_of_their_degrees_of_freedom():
    spec = override_prior(read_model("robust"), "degrees_of_freedom=fixed:4")
    terms = {t.name: 0.0 for t in resolved_terms(spec)}
    made = simulate(spec, scenarios=8000, random_seed=1, sd={**terms, "residual": 2.0})
    residual = (made.table["score"] - made.truth["intercept"]) / 2.0
    assert stats.kstest(residual, stats.t(4).cdf).pvalue > 1e-3
    assert stats.kstest(residual, stats.norm.cdf).pvalue < 1e-6


def resolved_terms(spec):
    made = simulate(spec, scenarios=3)
    return resolve(spec, read_scores(made.table)).terms


def test_covariates_are_columns_and_move_scores_by_their_slope():
    made = simulate("uncertainty", scenarios=400, languages=3, random_seed=2)
    table, truth = made.table, made.truth
    assert table["nll"].dtype == float
    slope = truth["parameters"]["nll_slope"]
    centred = (table["nll"] - table["nll"].mean()) / table["nll"].std(ddof=0)
    found = np.mean(centred * table["score"])
    # The rest of a score is independent of the covariate.
    assert abs(found - slope) < 4.5 * table["score"].std() / np.sqrt(len(table))


def test_cutpoints_by_judge_keep_their_mean():
    thresholds = Thresholds("judge", Prior("half_normal", (0.5,)))
    spec = replace(read_model("ordinal"), name="own", thresholds=thresholds)
    truth = simulate(spec, scenarios=3, judges=4, scale=(1, 6), random_seed=3).truth
    cuts = truth["parameters"]["cutpoints"]
    assert cuts.shape == (4, 5)
    np.testing.assert_allclose(cuts.mean(axis=1), cuts.mean())
    assert np.ptp(cuts, axis=0).max() > 1e-6
    # Log distances deviate by sums of zero: their geometric mean is shared.
    assert truth["parameters"]["cutpoints_sd"] > 0


@pytest.mark.parametrize(
    ("model", "arguments", "message"),
    [
        ("verdict", {"means": {}}, "means cannot be fixed"),
        ("verdict", {"unit": 2.0}, "in units of its link"),
        ("verdict", {"scale": (0, 1)}, "no categories"),
        ("crossed", {"scale": (1, 5)}, "no categories"),
        ("verdict", {"sd": {"residual": 1.0}}, "no residual scale"),
    ],
)
def test_what_a_family_does_not_have_is_refused(model, arguments, message):
    with pytest.raises(ModelError, match=message):
        simulate(model, scenarios=4, **arguments)


def test_a_term_that_is_not_there_is_named():
    with pytest.raises(ModelError, match="language"):
        simulate(sd={"language": 1.0})


def test_the_demo_has_the_published_means_and_shape():
    table = demo_table(generations=10, random_seed=3)
    assert len(table) == 5 * 80 * 10 * 5
    assert list(table.columns) == ["backbone", "scenario", "generation", "judge", "score"]
    cells = table.groupby(["backbone", "judge"])["score"].mean()
    # Scenario effects move all judges of a backbone together: sd sqrt(1.53 / 80).
    assert abs(cells["gemini", "llama"] - 8.98) < 4 * np.sqrt(0.408 / 80)
    assert abs(cells["qwen", "claude"] - 5.99) < 4 * np.sqrt(1.53 / 80)
    spread = cells["qwen"] - cells["qwen"].mean()
    published = np.array([5.99, 7.16, 6.09, 8.39, 8.02])
    np.testing.assert_allclose(spread, published - published.mean(), atol=0.15)


def test_the_demo_without_generations_and_with_bad_numbers():
    assert "generation" not in demo_table(generations=1)
    for arguments in ({"generations": 0}, {"random_seed": -1}):
        with pytest.raises(UsageError):
            demo_table(**arguments)
