"""The model of battles: what stands on a table, what is estimated, and who agrees."""

import json
from dataclasses import replace

import choix
import jax
import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize
from typer.testing import CliRunner

import bayesjudge as bj
from bayesjudge.cli.app import app
from bayesjudge.engines.families import flatten
from bayesjudge.engines.family_model import lay_out
from bayesjudge.engines.observations import observe
from bayesjudge.expectations import expected_wins
from bayesjudge.outcomes import expected_outcome, tie_weight
from bayesjudge.resolution import resolve
from bayesjudge.scores import read_scores
from bayesjudge.scores.identification import Pattern, gram
from bayesjudge.simulation import simulate, simulate_scores
from bayesjudge.spec import Prior, override_prior, read_model

SPEC = read_model("pairwise")


def battles(n=120, seed=0, judges=3, scenarios=40, ties=True, position=0.4):
    rng = np.random.default_rng(seed)
    strength = {"w": 1.0, "x": 0.4, "y": -0.4, "z": -1.0}
    rows = []
    for i in range(n):
        a, b = rng.choice(list(strength), 2, replace=False)
        eta = strength[a] - strength[b] + position
        weight = np.array([np.exp(eta / 2), 0.6 if ties else 0.0, np.exp(-eta / 2)])
        winner = rng.choice(["model_a", "tie", "model_b"], p=weight / weight.sum())
        rows.append((f"q{i % scenarios}", a, b, f"j{(i // scenarios) % judges}", winner))
    return pd.DataFrame(rows, columns=["question_id", "model_a", "model_b", "judge", "winner"])


def without_scenarios(**options):
    return read_scores(battles(**options).drop(columns=["question_id", "judge"]))


# What stands on a table


def test_terms_that_battles_cannot_tell_are_dropped():
    resolved = resolve(SPEC, read_scores(battles()))
    assert {t.name for t in resolved.terms} == {
        "backbone", "judge", "backbone:judge", "backbone:scenario",
    }  # fmt: skip
    why = {lost.name: lost.reason for lost in resolved.dropped}
    assert why["backbone:judge:scenario"] == "the table cannot tell it from residual"
    assert resolved.ties == Prior("beta", (1.0, 2.0))
    plain = resolve(SPEC, without_scenarios(ties=False))
    assert [t.name for t in plain.terms] == ["backbone"]
    assert plain.ties is None
    assert ("ties", "no battle was tied") in {(d.name, d.reason) for d in plain.dropped}


def test_position_is_dropped_where_the_order_is_that_of_strength():
    # One baseline that is always first: its strength and its place are one.
    frame = battles(n=60).query("model_a == 'w' or model_b == 'w'")
    sides = frame[["model_a", "model_b"]].to_numpy()
    rival = np.where(sides[:, 0] == "w", sides[:, 1], sides[:, 0])
    fixed = frame.assign(model_a="w", model_b=rival)
    resolved = resolve(SPEC, read_scores(fixed, replicates=True))
    why = {lost.name: lost.reason for lost in resolved.dropped}
    assert "cannot be told from their strengths" in why["position"]
    assert why["judge"] == why["position"]
    assert resolved.spec.intercept is None
    # A winner that is always written first says nothing of places.
    ordered = frame.assign(winner="model_a")
    sorted_out = resolve(SPEC, read_scores(ordered, replicates=True))
    assert any("sorted by outcome" in lost.reason for lost in sorted_out.dropped)
    # Two models in one order are ranked all the same.
    two = frame.query("model_a == 'w'").assign(model_b="x")
    assert resolve(SPEC, read_scores(two, replicates=True)).terms[0].name == "backbone"


def test_battles_and_scores_go_to_their_own_models():
    with pytest.raises(bj.DataError, match="--model pairwise"):
        bj.fit(read_scores(battles()))
    with pytest.raises(bj.DataError, match="takes battles"):
        bj.fit(read_scores(simulate(scenarios=4).table), "pairwise")
    odd = replace(read_scores(battles()), score=np.full(120, 0.7))
    with pytest.raises(bj.DataError, match="120 outcomes are neither"):
        resolve(SPEC, odd)
    with pytest.raises(bj.DataError, match="--model pairwise"):
        bj.anova(read_scores(battles()))


def test_patterns_of_differences_are_those_written_out():
    rng = np.random.default_rng(3)
    n = 14
    patterns, written = [], []
    for shape, centred, paired in (
        ((4,), (True,), True), ((4, 3), (True, True), True), ((3,), (True,), False),
        ((4, 5), (False, False), True), ((n,), (False,), False),
    ):  # fmt: skip
        size = int(np.prod(shape))
        one, other = rng.integers(0, size, (2, n))
        if size == n:
            one = np.arange(n)
        z = np.eye(size)[one] - (np.eye(size)[other] if paired else 0)
        own = np.ones((1, 1))
        for levels, zero in zip(shape, centred, strict=True):
            own = np.kron(own, np.eye(levels) - (1 / levels if zero else 0))
        written.append(z @ own @ z.T)
        patterns.append(Pattern("t", one, shape, centred, 1, other if paired else None))
    for intercept in (True, False):
        m = np.eye(n) - (1 / n if intercept else 0)
        exact = [[np.trace(m @ u @ m @ v) for v in written] for u in written]
        np.testing.assert_allclose(gram(tuple(patterns), intercept), exact, atol=1e-9)


# Agreement with others


def test_in_the_flat_limit_it_is_bradley_terry_as_choix_has_it():
    # No position, no ties, nothing but strengths on a flat scale: the mode of our density.
    spec = override_prior(replace(SPEC, name="own"), "backbone.scale=flat")
    scores = without_scenarios(n=300, ties=False, position=0.0)
    resolved = resolve(spec, scores)
    resolved = replace(resolved, spec=replace(resolved.spec, intercept=None))
    with jax.enable_x64(True):
        program = flatten(resolved, lay_out(resolved))
        slopes = jax.jit(jax.value_and_grad(program.potential))
        found = minimize(
            lambda q: tuple(map(np.asarray, slopes(q))), np.zeros(3), jac=True,
            options={"gtol": 1e-10},
        )  # fmt: skip
        ours = np.asarray(program.sites(found.x, {"backbone_effect"})["backbone_effect"])
    wins = [
        (a, b) if won == 1.0 else (b, a)
        for a, b, won in zip(
            scores.codes("backbone").tolist(), scores.opponent.tolist(), scores.score, strict=True
        )
    ]
    theirs = choix.ilsr_pairwise(4, wins, alpha=0.0, tol=1e-12)
    assert np.ptp(theirs) > 1
    np.testing.assert_allclose(ours, theirs - theirs.mean(), atol=1e-4)


# What is estimated


def test_means_are_chances_against_the_other_models():
    # One judge of no bias and one with it, averaged over both places: written out by hand.
    resolved = resolve(SPEC, read_scores(battles()))
    n_judges = 3
    strength = np.array([1.0, 0.3, -0.2, -1.1])
    own = np.array([[0.2, -0.2, 0.0], [0.0, 0.1, -0.1], [-0.3, 0.0, 0.3], [0.1, 0.1, -0.2]])
    place, judge = 0.5, np.array([0.4, -0.4, 0.0])
    effects = {"backbone": strength[None], "backbone_judge": own[None], "judge": judge[None]}
    scales = {"backbone_scenario_sd": np.array([0.0])}
    chance = np.array([0.3])
    found = expected_wins(resolved, np.array([place]), effects, scales, chance)[0]
    nu = tie_weight(chance)
    wanted = np.zeros(4)
    for a in range(4):
        for b in set(range(4)) - {a}:
            for j in range(n_judges):
                ahead = strength[a] + own[a, j] - strength[b] - own[b, j]
                first = expected_outcome(ahead + place + judge[j], nu)
                second = 1 - expected_outcome(-ahead + place + judge[j], nu)
                wanted[a] += (first + second)[0] / 2 / n_judges / 3
    np.testing.assert_allclose(found, wanted, rtol=1e-12)
    assert found.mean() == pytest.approx(0.5)
    # What scenarios add is integrated out: as many draws of both sides say.
    scales = {"backbone_scenario_sd": np.array([0.9])}
    found = expected_wins(resolved, np.array([place]), effects, scales, chance)[0]
    rng = np.random.default_rng(0)
    drawn = np.concatenate(
        [
            expected_wins(
                resolved, np.array([place]),
                {**effects, "backbone": (strength + 0.9 * rng.standard_normal(4))[None]},
                {"backbone_scenario_sd": np.array([0.0])}, chance,
            )
            for _ in range(4000)
        ]
    )  # fmt: skip
    # Four standard errors of a mean of 4,000 numbers whose sd is below 0.3.
    np.testing.assert_allclose(found, drawn.mean(axis=0), atol=4 * 0.3 / np.sqrt(4000))


def test_simulated_battles_are_read_back():
    made = simulate("pairwise", backbones=["b", "a", "c"], scenarios=5, judges=2, random_seed=1)
    assert len(made.table) == 3 * 5 * 2
    scores = read_scores(made.table)
    resolved = resolve(SPEC, scores)
    assert resolved.labels[0] == ("backbone", ("a", "b", "c"))
    assert made.truth["labels"]["backbone"] == ["a", "b", "c"]
    assert made.truth["backbone_mean"].mean() == pytest.approx(0.5)
    assert made.truth["backbone_latent"].sum() == pytest.approx(0.0, abs=1e-12)
    assert 0 < made.truth["parameters"]["tie_chance"] < 1
    with pytest.raises(bj.ModelError, match="no generations"):
        simulate("pairwise", generations=2)
    with pytest.raises(bj.ModelError, match="means cannot be fixed"):
        simulate("pairwise", means={"a": 0.5})


def test_battles_that_share_a_predictor_are_counted_together():
    resolved = resolve(SPEC, without_scenarios())
    seen = observe(resolved)
    # Twelve ordered pairs at most.
    assert seen.n_predictors <= 12
    assert seen.trials.sum() == 120
    assert seen.ties.sum() == (resolved.score == 0.5).sum()
    apart = observe(resolved, aggregate=False)
    assert apart.n_predictors == 120


# Fits


@pytest.fixture(scope="module")
def fit():
    scores = read_scores(battles(n=150, scenarios=50).drop(columns="question_id"))
    return bj.fit(scores, "pairwise", draws=400, tune=300, chains=2, random_seed=1)


def test_a_fit_answers_everything(fit, tmp_path):
    board = fit.leaderboard()
    assert board["backbone"].iloc[0] == "w"
    assert board["backbone"].iloc[-1] == "z"
    assert board["mean"].mean() == pytest.approx(0.5, abs=1e-6)
    assert fit.leaderboard(latent=True)["mean"].sum() == pytest.approx(0.0, abs=1e-9)
    assert fit.pairwise().loc["w", "z"] > 0.99
    assert fit.differences()["clustered_se"].isna().all()
    assert not fit.unpaired
    assert fit.standard_error_findings() == ()
    again = fit.posterior_predictive(draws=20)["score"].to_numpy()
    assert set(np.unique(again)) <= {0.0, 0.5, 1.0}
    assert (fit.log_likelihood(draws=20)["score"] < 0).all()
    assert set(np.unique(fit.prior_predictive(draws=3)["score"])) <= {0.0, 0.5, 1.0}
    kept = bj.load(fit.save(tmp_path / "fit.nc"))
    assert kept == fit
    pd.testing.assert_frame_equal(kept.leaderboard(), board)


def test_position_bias_comes_with_intervals(fit):
    table = bj.position_bias(fit)
    assert table["facet"].tolist() == ["panel", "judge", "judge", "judge"]
    assert table["level"].tolist() == ["", "j0", "j1", "j2"]
    assert (table["ci_lower"] < table["bias"]).all()
    assert (table["bias"] < table["ci_upper"]).all()
    # Truth 0.4 in log odds, with ties weighing 0.6: four posterior sds about it.
    truth = expected_outcome(np.array(0.4), np.array(0.6))
    assert abs(table["bias"].iloc[0] - truth) < 4 * table["sd"].iloc[0]
    crossed = bj.fit(read_scores(simulate(scenarios=6, random_seed=1).table), draws=50)
    with pytest.raises(bj.ModelError, match="knows no position"):
        bj.position_bias(crossed)
    with pytest.raises(bj.ModelError, match="discriminate alike"):
        bj.judge_worth(fit)


def test_the_command_line_ranks_battles(fit, tmp_path):
    saved = str(fit.save(tmp_path / "fit.nc"))
    runner = CliRunner()
    found = runner.invoke(app, ["rank", saved, "--json", "--allow-unconverged"])
    assert found.exit_code == 0, found.output
    answer = json.loads(found.stdout)
    assert {"leaderboard", "best_set", "pairwise", "diagnostics", "meta"} <= set(answer)
    assert answer["meta"]["family"] == "davidson"
    assert "the chance to win" in answer["meta"]["question"]["mean"]
    assert answer["position_bias"][0]["facet"] == "panel"
    out = tmp_path / "out"
    found = runner.invoke(app, ["rank", saved, "--out", str(out), "--allow-unconverged"])
    assert found.exit_code == 0, found.output
    assert "What the first place is worth" in (out / "report.md").read_text()
    assert (out / "position_bias.csv").is_file()
    path = tmp_path / "battles.csv"
    battles().to_csv(path, index=False)
    refused = runner.invoke(app, ["rank", str(path)])
    assert refused.exit_code == 1
    assert "--model pairwise" in refused.output
    assert runner.invoke(app, ["validate", str(path)]).exit_code == 0


def test_truths_are_drawn_from_the_priors():
    resolved = resolve(SPEC, read_scores(battles()))
    rng = np.random.default_rng(5)
    chances = [simulate_scores(resolved, rng)[1]["parameters"]["tie_chance"] for _ in range(400)]
    # Beta(1, 2): mean 1/3, sd 0.236; four standard errors.
    assert abs(np.mean(chances) - 1 / 3) < 4 * 0.236 / 20
