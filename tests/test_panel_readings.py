"""Panel or new judge: two functionals of one all-random fit, and separate fits."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import bayesjudge as bj
from bayesjudge.cli.app import app
from bayesjudge.fitted import Fit
from bayesjudge.panel_readings import new_level_means, panel_means, panel_or_new
from bayesjudge.report.answers import what_is_answered
from bayesjudge.scores.table import Facet, Scores
from tests.calibration import new_judge
from tests.calibration.new_judge import QUICK, table

# With these scales known, two readings differ in what is averaged and nothing else; a flat
# backbone scale takes away what judges' interactions would add to the prior of means.
MATCHED = (
    "backbone.scale=flat",
    "judge.scale=fixed:0.5",
    "backbone:judge.scale=fixed:0.3",
    "scenario.scale=fixed:0.5",
    "judge:scenario.scale=fixed:0.1",
)


@pytest.fixture(scope="module")
def random_fit():
    return bj.fit(table(role="random"), "crossed_common", priors=MATCHED, draws=2000, **QUICK)


def test_both_readings_of_one_fit_agree_with_separate_fits(random_fit):
    panel = bj.fit(table(), "crossed_common", priors=MATCHED, draws=2000, **QUICK)
    own, told = panel_means(random_fit), panel.means()
    # Differences of backbones: the intercept's prior, sd 2, pulls both fits' levels alike.
    own, told = own - own.mean(axis=1, keepdims=True), told - told.mean(axis=1, keepdims=True)
    error = np.sqrt(own.var(axis=0) / 2000 + told.var(axis=0) / 2000)
    # Six comparisons at level 0.001 in all: 3.8 errors, draws counted as a quarter of theirs.
    assert (np.abs(own.mean(axis=0) - told.mean(axis=0)) < 3.8 * error).all()
    np.testing.assert_allclose(own.std(axis=0), told.std(axis=0), rtol=0.1)
    # level: the panel's own judges, not the population's
    np.testing.assert_allclose(
        panel_means(random_fit).mean(axis=0), panel.means().mean(axis=0), atol=0.03
    )


def test_a_fit_of_the_panel_reads_as_its_leaderboard():
    panel = bj.fit(table(n=12), "crossed_common", draws=100, **QUICK)
    np.testing.assert_array_equal(panel_means(panel), panel.means())
    with pytest.raises(bj.ModelError, match="judge is not random"):
        panel_or_new(panel)


def test_the_population_is_wider_than_the_panel_and_a_new_judge_wider_still(random_fit):
    found = panel_or_new(random_fit)
    sd = found.groupby("question")["sd"].mean()
    assert sd["panel"] < sd["population"] < sd["new"]
    # the scales are fixed, so the variance that a new judge adds is known to Monte Carlo error:
    # of 8,000 draws 1.6 %, and judges' averages are not quite independent of the means
    added = new_level_means(random_fit).var(axis=0) - random_fit.means().var(axis=0)
    np.testing.assert_allclose(added, 0.5**2 + 0.3**2, rtol=0.1)
    assert list(found.columns) == ["question", "backbone", "mean", "sd", "ci_lower", "ci_upper"]
    again = panel_or_new(random_fit)
    assert found.equals(again)


def test_the_leaderboard_says_which_question_it_answers(random_fit):
    assert "new judge" in what_is_answered(random_fit, None)["judges"]
    panel = bj.fit(table(n=12), "crossed_common", draws=100, **QUICK)
    assert "panel" in what_is_answered(panel, None)["judges"]


def test_refusals(random_fit):
    with pytest.raises(bj.UsageError, match="judge or language"):
        panel_or_new(random_fit, "scenario")
    with pytest.raises(bj.ModelError, match="language is not random"):
        panel_or_new(random_fit, "language")


def test_random_languages_are_read_the_same_way():
    scores = table(role="random")
    renamed = [
        Facet("language", f.role, f.levels, f.codes) if f.name == "judge" else f
        for f in scores.facets
    ]
    fit = bj.fit(Scores(scores.score, tuple(renamed)), "crossed_common", draws=200, **QUICK)
    sd = panel_or_new(fit, "language").groupby("question")["sd"].mean()
    assert sd["panel"] < sd["population"] < sd["new"]


def with_languages(K=4, n=6):
    rng = np.random.default_rng(0)
    b, j, g, s = np.indices((2, K, 2, n)).reshape(4, -1)
    names = {"backbone": (b, 2), "judge": (j, K), "language": (g, 2), "scenario": (s, n)}
    role = {"judge": "random", "scenario": "random"}
    facets = tuple(
        Facet(name, role.get(name, "panel"), tuple(f"{name}{i}" for i in range(size)), codes)
        for name, (codes, size) in names.items()
    )
    return Scores(rng.normal(7, 1, b.size), facets)


def test_what_a_new_judge_does_in_each_language_is_averaged_over_them():
    known = (*MATCHED, "judge:language.scale=fixed:0.4")
    fit = bj.fit(with_languages(), "crossed_common", priors=known, draws=2000, **QUICK)
    assert fit.resolved.term("judge:language").dims == ("judge", "language")
    added = new_level_means(fit).var(axis=0) - fit.means().var(axis=0)
    # two languages; Monte Carlo error as above
    np.testing.assert_allclose(added, 0.5**2 + 0.3**2 + 0.4**2 / 2, rtol=0.1)


def test_both_may_be_random():
    scores = with_languages(K=3)
    facets = tuple(
        Facet(f.name, "random", f.levels, f.codes) if f.name == "language" else f
        for f in scores.facets
    )
    fit = bj.fit(Scores(scores.score, facets), "crossed_common", draws=200, **QUICK)
    for facet in ("judge", "language"):
        sd = panel_or_new(fit, facet).groupby("question")["sd"].mean()
        assert sd["panel"] < sd["population"] < sd["new"]
    about = what_is_answered(fit, None)
    assert "new judge" in about["judges"]
    assert "new language" in about["languages"]


@pytest.mark.parametrize("facet", ["judge", "language"])
def test_rank_answers_both_questions_of_a_random_facet(facet, tmp_path):
    scores = table(n=10)
    names = {"backbone": "backbone", "judge": facet, "scenario": "scenario"}
    columns = {names[f.name]: np.array(f.levels, object)[f.codes].tolist() for f in scores.facets}
    source = tmp_path / "scores.csv"
    pd.DataFrame({**columns, "score": scores.score}).to_csv(source, index=False)
    words = ["rank", str(source), "--random", facet, "--draws", "250"]
    done = CliRunner().invoke(app, [*words, "--model", "crossed_common", "--json"])
    assert done.exit_code == 0, done.stderr
    found = json.loads(done.stdout)
    rows = found["readings"][facet]
    assert [row["question"] for row in rows] == ["panel"] * 3 + ["population"] * 3 + ["new"] * 3
    board = {row["backbone"]: row["mean"] for row in found["leaderboard"]}
    for row in rows[3:6]:
        assert row["mean"] == pytest.approx(board[row["backbone"]])
    assert f"a new {facet}" in found["meta"]["question"][f"{facet}s"]
    assert f"a new {facet}" in done.stderr
    shown = CliRunner().invoke(app, [*words, "--model", "crossed_common"])
    assert f"Panel, population or a new {facet}" in shown.stdout
    assert f"Under a new {facet}" in shown.stdout


def test_a_link_is_refused():
    rng = np.random.default_rng(0)
    random_fit = bj.fit(table(n=8, role="random"), "crossed_common", draws=50, unit=1, location=0)
    verdicts = Scores(rng.integers(0, 2, len(random_fit.scores)) * 1.0, random_fit.scores.facets)
    fit = Fit(bj.read_model("verdict"), verdicts, random_fit.posterior)
    with pytest.raises(bj.ModelError, match="behind its link"):
        panel_means(fit)
    with pytest.raises(bj.ModelError, match="behind its link"):
        new_level_means(fit)


def test_means_under_a_judge_held_out_are_covered():
    # The study at reduced size: fewer than 25 of 30 covered has probability 0.003 at 0.95.
    found = new_judge.study(30)
    assert found["covered"] >= 25 / 30
    # Of the panel alone nothing is said about a judge who is not in it.
    assert found["panel_covered"] < 0.8
    text = new_judge.markdown({"versions": {"python": "3"}, "found": found})
    assert f"| a new judge | 30 | {found['covered']:.3f}" in text
