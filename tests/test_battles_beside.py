"""What stands beside a leaderboard, asked of battles."""

import json
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import bayesjudge as bj
from bayesjudge import sampling
from bayesjudge.anchoring.means import human_anchored
from bayesjudge.cli.app import app
from bayesjudge.engines import Settings
from bayesjudge.engines.protocol import Draws
from bayesjudge.fitted import Fit
from bayesjudge.judge_agreement import human_agreement
from bayesjudge.panel_readings import panel_means
from bayesjudge.panel_reliability import judge_matrix, krippendorff_alpha
from bayesjudge.planning.components import components_of_fit
from bayesjudge.planning.reliabilities import reliability
from bayesjudge.resolution import resolve
from bayesjudge.scores import read_scores
from bayesjudge.simulation import simulate, simulate_scores
from bayesjudge.spec import read_model


def battles():
    """Two judges who agree on all of x-y and x-z, of which x wins one and loses the other."""
    rows = [
        (f"s{i}", "x", other, judge, "a" if (other == "y") == (i < 6) else "b")
        for i in range(8)
        for other in ("y", "z")
        for judge in ("j", "k")
    ]
    frame = pd.DataFrame(rows, columns=["scenario", "model_a", "model_b", "judge", "winner"])
    return frame.assign(human_score=(frame["winner"] == "a").astype(float))


def test_answers_are_battles_not_first_models():
    scores = read_scores(battles())
    matrix, pair, _, human = judge_matrix(scores)
    assert matrix.shape == (16, 2)
    assert set(np.unique(matrix)) == {0.0, 1.0}
    assert np.unique(pair).size == 2
    np.testing.assert_array_equal(human, matrix[:, 0])
    assert krippendorff_alpha(scores) == pytest.approx(1.0)


def test_agreement_with_a_human_orders_no_first_models():
    table = human_agreement(read_scores(battles())).set_index(["judge", "measure"])["estimate"]
    assert table["j", "equal"] == 1.0
    assert np.isnan(table["j", "pairs"])


def test_human_outcomes_anchor_no_means():
    with pytest.raises(bj.DataError, match="two backbones at once"):
        human_anchored(SimpleNamespace(scores=read_scores(battles())))


def prior_fit(model, scores, monkeypatch, draws=25):
    """A fit whose draws are the prior's: enough to ask it everything."""
    spec = read_model(model)

    def engine(resolved, settings):
        rng = np.random.default_rng(3)
        truths = [simulate_scores(resolved, rng)[1] for _ in range(2 * draws)]

        def stacked(of):
            return {
                name: np.array([of(t)[name] for t in truths], float).reshape(
                    2, draws, *np.shape(of(truths[0])[name])
                )
                for name in of(truths[0])
            }

        intercept = np.array([t.get("intercept", 0.0) for t in truths]).reshape(2, draws)
        parts = [stacked(lambda t, k=k: t[k]) for k in ("scales", "hyper", "effects", "parameters")]
        return Draws(parts[0], parts[1], intercept, parts[2], parameters=parts[3])

    monkeypatch.setattr(sampling, "load_engine", lambda _: engine)
    resolved = resolve(spec, scores)
    settings = Settings(draws=draws, chains=2, nested_effects=True)
    return Fit(spec, scores, sampling.sampled_tree(resolved, scores, "numpyro", settings, spec))


def test_the_page_of_battles_with_languages_and_human_outcomes(tmp_path, monkeypatch):
    frame = pd.concat([battles().assign(language=name) for name in ("en", "de")])
    fit = prior_fit("pairwise", read_scores(frame), monkeypatch)
    saved, out = fit.save(tmp_path / "fit.nc"), tmp_path / "out"
    # Position cannot be told here; the model that is kept has it all the same.
    assert fit.resolved.spec.intercept is None
    assert bj.load(saved).spec == fit.spec
    words = ["rank", str(saved), "--reliability", "--allow-unconverged", "--out", str(out)]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    page = (out / "index.html").read_text()
    assert "Battles are of two backbones" in page
    assert "chance to win" in page
    assert not (out / "languages.csv").exists()
    result = json.loads((out / "result.json").read_text())
    assert result["human"]["anchored"] is None
    assert "two backbones at once" in result["human"]["notes"][0]
    assert result["reliability"]["krippendorff_alpha"] == pytest.approx(1.0)
    assert not result["human"]["notes"][0].endswith(".")


def test_judge_scale_on_the_page_beside_human_labels_and_a_random_language(tmp_path, monkeypatch):
    table = simulate(
        "judge_scale", backbones=2, scenarios=6, judges=3, languages=3, random_seed=2
    ).table
    table["human_score"] = table["score"].where(table.index % 2 == 0)
    fit = prior_fit("judge_scale", read_scores(table, random=["language"]), monkeypatch)
    saved, out = fit.save(tmp_path / "fit.nc"), tmp_path / "out"
    words = ["report", str(saved), "--reliability", "--allow-unconverged", "--out", str(out)]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    assert "judge_worth.csv" in {path.name for path in out.iterdir()}
    factor = fit.posterior["posterior"]["discrimination"].to_numpy().reshape(50, -1).mean(axis=1)
    language, pair = fit.effect_draws("language"), fit.effect_draws("backbone:language")
    own = fit.effect_draws("judge:language").mean(axis=(1, 2))[:, None]
    expected = (
        fit.means() + own + factor[:, None] * (language.mean(axis=1)[:, None] + pair.mean(axis=2))
    )
    np.testing.assert_allclose(panel_means(fit), expected)


def test_variances_of_what_answers_are_worth_count_by_the_panels_factor(monkeypatch):
    table = simulate("judge_scale", backbones=2, scenarios=6, judges=3, random_seed=2).table
    fit = prior_fit("judge_scale", read_scores(table), monkeypatch)
    parts = {part.name: part for part in components_of_fit(fit).parts}
    posterior = fit.posterior["posterior"]
    factor = posterior["discrimination"].to_numpy().reshape(50, -1).mean(axis=1)
    sd = posterior["scenario_sd"].to_numpy().ravel()
    np.testing.assert_allclose(parts["scenario"].variance[:, 0], (factor * sd) ** 2)
    own = posterior["judge_scenario_sd"].to_numpy().ravel()
    np.testing.assert_allclose(parts["judge:scenario"].variance[:, 0], own**2)
    assert reliability(fit)["estimate"].between(0, 1).all()
    with pytest.raises(bj.ModelError, match="differ in discrimination"):
        bj.plan_next(fit, 3)


def test_analyses_of_single_answers_refuse_battles_and_name_the_way(tmp_path, monkeypatch):
    battles().drop(columns="human_score").to_csv(tmp_path / "battles.csv", index=False)
    for command in (["anova"], ["plan", "--budget", "9"], ["calibrate"]):
        done = CliRunner().invoke(app, [*command, str(tmp_path / "battles.csv")])
        assert done.exit_code == 1
        assert "takes scores of single answers" in done.output
        assert "crossed" not in done.output
    fit = prior_fit("pairwise", read_scores(battles()), monkeypatch)
    with pytest.raises(bj.ModelError, match="Battles are ranked, not planned"):
        bj.plan(fit, budget=9)
