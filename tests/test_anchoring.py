"""Human-anchored means: the regression's density, what is refused, coverage, PPI++."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import bayesjudge as bj
from bayesjudge.anchoring.answers import answers_of
from bayesjudge.anchoring.calibrating import Block, Labels, _Marginal, calibrate_to_labels
from bayesjudge.cli.app import app
from bayesjudge.closed_form.prediction_powered import powered_mean
from bayesjudge.fitted import Fit
from bayesjudge.report.results_folder import BESIDE_FILES
from tests.calibration import anchoring as study


def labels(seed=0, B=3, S=6, L=2, two=True):
    rng = np.random.default_rng(seed)
    b, s, t = (x.ravel() for x in np.indices((B, S, L)))
    kept = rng.random(b.size) < 0.7
    b, s, t = b[kept], s[kept], t[kept]
    panel = rng.standard_normal((b.size, 2 if two else 1))
    return Labels(
        human=rng.standard_normal(b.size),
        panel=panel,
        blocks=(Block(b, B, 0.5), Block(t, L, 1.0), Block(b * L + t, B * L, 0.5)),
        scenario=s,
        group=s * B + b,
        unit=0.8,
        location=0.3,
        slope=1.2,
    )


def dense_log_density(given, theta):
    """The same density from the covariance of all answers: coefficients are part of it."""
    width = np.array([1.0, 1.0, 1.0] + [b.width for b in given.blocks]) * given.unit
    sd = width * np.hypot(np.exp(theta), 1e-4)
    N = given.human.size
    V = sd[0] ** 2 * np.eye(N)
    V += sd[1] ** 2 * (given.scenario[:, None] == given.scenario)
    V += sd[2] ** 2 * (given.group[:, None] == given.group)
    for block, scale in zip(given.blocks, sd[3:], strict=True):
        V += scale**2 * (block.codes[:, None] == block.codes)
    V += (2 * given.unit) ** 2
    V += given.slope**2 * given.panel @ given.panel.T
    r = given.human - given.location - given.slope * given.panel.sum(axis=1)
    value = -0.5 * (np.linalg.slogdet(V)[1] + r @ np.linalg.solve(V, r))
    return value + np.sum(theta - 0.5 * np.exp(2 * theta))


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 1000), st.booleans())
def test_the_density_equals_the_dense_one_up_to_a_constant(seed, two):
    given_ = labels(seed, two=two)
    model = _Marginal(given_)
    if model.names != ("residual", "scenario", "backbone:scenario"):
        return
    theta = np.random.default_rng(seed).normal(-0.5, 0.7, (4, model.dim))
    own = model.log_density(theta)
    told = np.array([dense_log_density(given_, row) for row in theta])
    np.testing.assert_allclose(own - own[0], told - told[0], atol=1e-8)


def test_terms_that_the_labels_cannot_tell_are_left_out():
    given_ = labels(L=1)
    assert _Marginal(given_).names == ("residual", "scenario")
    rows = np.unique(given_.scenario, return_index=True)[1]
    alone = replace(
        given_,
        human=given_.human[rows],
        panel=given_.panel[rows],
        scenario=given_.scenario[rows],
        group=given_.group[rows],
        blocks=(Block(given_.blocks[0].codes[rows], 3, 0.5),),
    )
    assert _Marginal(alone).names == ("residual",)


def test_draws_are_those_of_the_dense_posterior():
    given_ = labels(3, S=8)
    found = calibrate_to_labels(given_, 8000, np.random.default_rng(0))
    assert found.pareto_k < 0.7
    assert found.ess > 400
    # importance by hand: prior draws of scales weighed by the dense density, offsets by
    # regression given each
    model = _Marginal(given_)
    rng = np.random.default_rng(1)
    theta = np.log(np.abs(rng.standard_normal((20000, model.dim))))
    prior = np.sum(theta - 0.5 * np.exp(2 * theta), axis=1)
    weight = model.log_density(theta) - prior
    weight = np.exp(weight - weight.max())
    kept = theta[rng.choice(len(theta), 8000, p=weight / weight.sum())]
    told = model.draw_coefficients(kept, rng)
    own = np.column_stack([found.offset - 0.3, found.slope - 1.2, *found.blocks])
    error = np.sqrt(told.var(axis=0)) * np.sqrt(1 / 400 + weight.var() / weight.mean() ** 2 / 20000)
    assert (np.abs(own.mean(axis=0) - told.mean(axis=0)) < 4 * error).all()
    np.testing.assert_allclose(own.std(axis=0), told.std(axis=0), rtol=0.2)


# --- prediction-powered means -----------------------------------------------------------


def test_ppi_is_the_formula():
    rng = np.random.default_rng(0)
    f, rest = rng.normal(0, 1, 12), rng.normal(0.2, 1, 30)
    y = f + rng.normal(0, 0.5, 12)
    found = powered_mean(y, f, rest)
    every = np.concatenate([f, rest])
    power = np.cov(y, f)[0, 1] / ((1 + 12 / 30) * every.var(ddof=1))
    assert found.power == pytest.approx(min(1.0, power))
    estimate = np.mean(y) + found.power * (rest.mean() - f.mean())
    assert found.estimate == pytest.approx(estimate)
    se = np.sqrt((y - found.power * f).var(ddof=1) / 12 + found.power**2 * every.var(ddof=1) / 30)
    assert found.se == pytest.approx(se)
    assert found.ci_lower < found.estimate < found.ci_upper


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_ppi_properties(data):
    n, N = data.draw(st.integers(2, 12)), data.draw(st.integers(0, 12))
    number = st.integers(-20, 20).map(float)
    y, f = (np.array(data.draw(st.lists(number, min_size=n, max_size=n))) for _ in range(2))
    rest = np.array(data.draw(st.lists(number, min_size=N, max_size=N)))
    found = powered_mean(y, f, rest)
    assert 0 <= found.power <= 1
    assert found.ci_lower <= found.estimate <= found.ci_upper
    if N == 0:
        assert found.power == 0
    if found.power == 0:
        assert found.estimate == pytest.approx(y.mean())
        assert found.se == pytest.approx(y.std(ddof=1) / np.sqrt(n))
    moved = powered_mean(y + 3, f - 5, rest - 5)
    assert moved.estimate == pytest.approx(found.estimate + 3)
    assert moved.se == pytest.approx(found.se)


def test_one_label_has_no_standard_error():
    with pytest.raises(bj.DataError, match="1 labelled"):
        powered_mean(np.ones(1), np.ones(1), np.ones(3))


# --- from a fit -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def simulated():
    scores, human, truth = study.simulated(np.random.default_rng(4))
    fit = bj.fit(scores, "crossed_common", unit=1.0, location=7.0, draws=250)
    return fit, human, truth


def labelled(simulated, n, only=None):
    fit, human, _ = simulated
    chosen = np.random.default_rng(1).permutation(study.N_SCENARIOS)[:n]
    scores = study.with_labels(fit.scores, human, chosen)
    if only is not None:
        gold = np.where(np.isin(scores.codes("backbone"), only), scores.human_score, np.nan)
        scores = replace(scores, human_score=gold)
    return Fit(fit.spec, scores, fit.posterior)


def test_anchored_means_follow_the_human_and_not_the_panel(simulated):
    _, human, truth = simulated
    found = bj.human_anchored(labelled(simulated, 100))
    board = found.leaderboard().set_index("backbone").sort_index()
    # every answer is labelled: the anchored mean is the human's own
    np.testing.assert_allclose(board["mean"], human.mean(axis=1), atol=0.06)
    width = board["ci_upper"] - board["ci_lower"]
    np.testing.assert_allclose(width, 4 * human.std(axis=1) / 10, rtol=0.25)
    np.testing.assert_allclose(found.offsets["estimate"], truth - study.MEANS, atol=0.35)
    few = bj.human_anchored(labelled(simulated, 10)).leaderboard().set_index("backbone")
    few = few.sort_index()
    assert (few["sd"] > board["sd"]).all()
    again = bj.human_anchored(labelled(simulated, 10)).leaderboard().set_index("backbone")
    assert few.equals(again.sort_index())


def test_extrapolation_is_refused_aloud(simulated):
    found = bj.human_anchored(labelled(simulated, 30, only=[0, 1, 3]))
    assert "backbone002" in found.refused
    assert "backbone002" not in found.labels
    assert "backbone002" not in set(found.leaderboard()["backbone"])
    assert any("extrapolation" in str(p) and "backbone002" in str(p) for p in found.findings)
    assert np.isnan(found.powered.set_index("backbone").loc["backbone002", "estimate"])
    fit = labelled(simulated, 100)
    panel = fit.scores.score.reshape(-1, study.JUDGES.size).mean(axis=1)
    lowest = np.repeat(panel < np.quantile(panel, 0.2), study.JUDGES.size)
    gold = np.where(lowest, fit.scores.human_score, np.nan)
    far = bj.human_anchored(Fit(fit.spec, replace(fit.scores, human_score=gold), fit.posterior))
    assert len(far.refused) == 4
    assert any("outside" in why for why in far.refused.values())
    with pytest.raises(bj.DataError, match="no backbone"):
        far.leaderboard()


def test_too_few_labels_and_none_are_refused(simulated):
    fit = simulated[0]
    with pytest.raises(bj.DataError, match="no human scores"):
        bj.human_anchored(fit)
    with pytest.raises(bj.DataError, match="anchor nothing"):
        bj.human_anchored(labelled(simulated, 1))
    with pytest.raises(bj.UsageError, match="ci_prob"):
        bj.human_anchored(labelled(simulated, 9), ci_prob=2)
    with pytest.raises(bj.UsageError, match="unit"):
        bj.human_anchored(labelled(simulated, 9), unit=0)


def frame(seed=0, B=3, n=14, K=2, languages=("de", "fr"), drop=0.0, verdicts=False):
    rng = np.random.default_rng(seed)
    rows = []
    s, offset = rng.normal(0, 1, n), rng.normal(0, 0.2, (B, 2))
    for b in range(B):
        for i in range(n):
            for at, lang in enumerate(languages):
                worth = s[i] + 0.4 * b + 0.3 * rng.standard_normal()
                human = worth - 1 + offset[b, at] + 0.4 * rng.standard_normal()
                for k in range(K):
                    if rng.random() < drop:
                        continue
                    score = worth + 0.3 * k + 0.4 * rng.standard_normal()
                    gold = human if i % 2 == 0 else None
                    if verdicts:
                        score, gold = float(score > 0), None if gold is None else float(gold > 0)
                    rows.append((f"m{b}", f"i{i:02d}", f"j{k}", lang, score, gold))
    names = ["backbone", "scenario", "judge", "language", "score", "human_score"]
    table = pd.DataFrame(rows, columns=names)
    return table if len(languages) > 1 else table.drop(columns="language")


def test_languages_have_offsets_of_their_own_and_must_all_be_labelled():
    table = frame()
    fit = bj.fit(bj.read_scores(table), "crossed_common", draws=100)
    found = bj.human_anchored(fit)
    assert found.labels == ("m0", "m1", "m2")
    assert [block.shape[1] for block in found.calibrated.blocks] == [3, 2, 6]
    assert any("language" in note for note in found.notes)
    answers = found.answers
    by_cell = table.drop_duplicates(["backbone", "scenario", "language"])
    assert answers.panel.size == len(by_cell)
    # every answer has both judges: what they differ by cancels
    key = ["backbone", "scenario", "language"]
    np.testing.assert_allclose(
        np.sort(answers.panel), np.sort(table.groupby(key)["score"].mean()), atol=1e-9
    )
    gold = np.where(fit.scores.codes("language") == 0, fit.scores.human_score, np.nan)
    bare = Fit(fit.spec, replace(fit.scores, human_score=gold), fit.posterior)
    refused = bj.human_anchored(bare)
    assert set(refused.refused) == {"m0", "m1", "m2"}
    assert "language fr" in refused.refused["m0"]


def test_answers_that_not_all_judges_scored_have_their_leniency_taken_off():
    table = frame(drop=0.3, languages=("de",))
    fit = bj.fit(bj.read_scores(table), "crossed_common", draws=100)
    answers = answers_of(fit)
    assert answers.n_judges.min() == 1
    raw = table.groupby(["backbone", "scenario"])["score"].mean().to_numpy()
    leniency = fit.effects("judge")["estimate"].to_numpy()
    assert np.ptp(leniency) > 0.1
    assert np.abs(answers.panel - raw)[answers.n_judges == 2].max() < 0.2
    assert np.abs(answers.panel - raw)[answers.n_judges == 1].max() > 0.02


def test_several_human_scores_of_an_answer_are_averaged_aloud():
    table = frame(languages=("de",))
    table["human_score"] += np.where(table["judge"] == "j0", 0.5, -0.5)
    fit = bj.fit(bj.read_scores(table), "crossed_common", draws=100)
    found = bj.human_anchored(fit)
    assert found.answers.n_uneven > 0
    assert any("several human scores" in note for note in found.notes)


def test_without_scenarios_each_row_is_an_answer():
    table = frame(languages=("de",)).rename(columns={"scenario": "generation"})
    fit = bj.fit(bj.read_scores(table), "crossed_common", draws=100)
    found = bj.human_anchored(fit)
    assert found.answers.panel.size == len(table)
    assert found.calibrated.slope.shape[1] == 1


def test_a_human_on_another_scale_is_calibrated_to():
    table = frame(languages=("de",))
    table["human_score"] = 50 + 10 * table["human_score"]
    fit = bj.fit(bj.read_scores(table), "crossed_common", draws=100)
    board = bj.human_anchored(fit).leaderboard().set_index("backbone").sort_index()
    told = table.groupby("backbone")["human_score"].mean()
    assert (np.abs(board["mean"] - told) < 6).all()


def test_behind_a_link_only_whole_answers_count(simulated):
    table = frame(languages=("de",), drop=0.2, verdicts=True)
    scores = bj.read_scores(table)
    # A posterior of the right shape is enough: the regression sees means and scores only.
    tree = bj.fit(scores, "crossed_common", draws=100, unit=1.0, location=0.0).posterior
    found = bj.human_anchored(Fit(bj.read_model("verdict"), scores, tree))
    assert found.n_labelled < answers_of(Fit(bj.read_model("verdict"), scores, tree)).labelled.sum()
    assert any("not every judge" in note for note in found.notes)


def test_rank_reports_what_humans_say(tmp_path):
    source = tmp_path / "scores.csv"
    table = frame(languages=("de",))
    table.loc[3, "score"] = None
    table.to_csv(source, index=False)
    out = tmp_path / "out"
    words = ["rank", str(source), "--draws", "250", "--model", "crossed_common", "--json"]
    done = CliRunner().invoke(app, [*words, "--reliability", "--out", str(out)])
    assert done.exit_code == 0, done.stderr
    found = json.loads(done.stdout)
    human = found["human"]
    assert len(human["anchored"]) == len(human["prediction_powered"]) == 3
    assert {row["measure"] for row in human["agreement"]} == {
        "equal",
        "difference",
        "correlation",
        "concordance",
        "pairs",
    }
    assert human["refused"] == {}
    assert found["missing_bounds"]["n_failed"] == 1
    assert found["reliability"]["coefficients"][0]["coefficient"] == "generalizability"
    assert "human-anchored" in done.stderr
    assert "generalizability (relative decisions)" in done.stderr
    assert "agreement of j0 with human_score: equal 0.000" in done.stderr
    assert "failed by judge: j" in done.stderr
    for name in BESIDE_FILES:
        assert (out / name).is_file()
    assert "Human-anchored means" in (out / "report.md").read_text()
    shown = CliRunner().invoke(app, words[:-1])
    assert "Human-anchored means" in shown.stdout
    assert "Prediction-powered means" in shown.stdout
    assert "missing not at random" in shown.stdout
    assert "Krippendorff" not in shown.stderr


def test_a_human_who_ranks_another_way_is_said(tmp_path):
    table = frame(n=30, languages=("de",))
    best = table.groupby("backbone")["score"].mean().idxmax()
    for name, less in (("agrees", 0.0), ("differs", 6.0)):
        told = table["score"] - np.where(table["backbone"] == best, less, 0.0)
        path = tmp_path / f"{name}.csv"
        table.assign(human_score=told).to_csv(path, index=False)
        done = CliRunner().invoke(app, ["rank", str(path), "--json"])
        assert done.exit_code == 0, done.stderr
        assert ("do not rank alike" in done.stderr) == (name == "differs")


def test_nothing_is_called_human_anchored_without_labels(tmp_path):
    source = tmp_path / "scores.csv"
    frame(languages=("de",)).drop(columns="human_score").to_csv(source, index=False)
    words = ["rank", str(source), "--draws", "50", "--model", "crossed_common", "--json"]
    done = CliRunner().invoke(app, words)
    found = json.loads(done.stdout)
    assert found["human"] is None
    assert found["reliability"] is None
    assert found["readings"] is None
    assert found["missing_bounds"] is None
    assert "human-anchored" not in done.stderr.replace("not human-anchored", "")


def test_too_few_labels_are_said_and_the_ranking_stands(tmp_path):
    source = tmp_path / "scores.csv"
    table = frame(languages=("de",))
    table.loc[2:, "human_score"] = None
    table.to_csv(source, index=False)
    words = ["rank", str(source), "--draws", "250", "--model", "crossed_common", "--json"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.stderr
    found = json.loads(done.stdout)["human"]
    assert found["anchored"] is None
    assert found["agreement"] is not None
    assert "anchor nothing" in found["notes"][0]
    assert "no human-anchored mean" in done.stderr


# --- the study --------------------------------------------------------------------------


@pytest.mark.parametrize("truths", study.TRUTHS)
def test_anchored_means_cover_and_those_of_the_panel_do_not(truths):
    found = {
        (row["labelled"], row["way"]): row
        for row in study.summarize([o for i in range(12) for o in study.run_table(i, truths)])
    }
    for share in study.SHARES:
        # With coverage of 0.95, fewer than 8 of 12 has probability 0.0002.
        assert found[share, "anchored"]["covered"] >= 8 / 12
        assert found[share, "panel"]["covered"] <= 4 / 12
    width = [found[share, "anchored"]["width"] for share in study.SHARES]
    assert width[0] > width[1] > width[2]


def test_the_report_of_the_study():
    own = {"truths": "fixed", "share": 0.05, "anchored_width": 1.0}
    rows = study.summarize([{**own, "seed": i, "anchored_covered": i < 19} for i in range(20)])
    text = study.markdown({"versions": {"python": "3"}, "rows": rows})
    assert "| 5% | human-anchored | 20 | 0 | 0.950 | 1 | 1.00 |" in text
