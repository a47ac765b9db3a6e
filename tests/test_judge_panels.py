"""The panel of judges in a table: what is answered, what is refused, what it costs to skip it."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import bayesjudge as bj
from bayesjudge.cli.app import app
from bayesjudge.closed_form.allocation import strategy_variances
from bayesjudge.closed_form.complete import CompleteScores
from bayesjudge.closed_form.cyclic import estimate_components, panel_mean_squares
from bayesjudge.closed_form.panel_variance import panel_components
from bayesjudge.examples.published import published
from bayesjudge.panel_tables import self_preference_frame
from bayesjudge.report.panel_report import PANEL_FILES

FRAMES = (
    "judges", "means", "components", "self_preference", "contributions", "strategies", "comparison",
)  # fmt: skip


def frame(x, backbones=None, judges=None):
    """A table of scores (B, n, m, K), rows in no order."""
    names = {"backbone": backbones, "scenario": None, "generation": None, "judge": judges}
    places = np.indices(x.shape).reshape(4, -1)
    columns = {
        name: [labels[i] if labels else f"{name}{i:02d}" for i in place]
        for (name, labels), place in zip(names.items(), places, strict=True)
    }
    table = pd.DataFrame({**columns, "score": x.ravel()})
    return table.sample(frac=1, random_state=1, ignore_index=True)


def some(seed=0, shape=(3, 8, 3, 4)):
    return np.random.default_rng(seed).normal(size=shape) + np.linspace(-1, 1, shape[3])


def read(x, **labels):
    return bj.read_scores(frame(x, **labels))


# Answers ---------------------------------------------------------------------------------


def test_means_and_offsets_by_judge():
    x = some()
    found = bj.panel_analysis(read(x))
    rows = found.judges.set_index(["backbone", "judge"])
    for b, j in ((0, 0), (2, 3)):
        row = rows.loc[(f"backbone{b:02d}", f"judge{j:02d}")]
        by_scenario = x[b, :, :, j].mean(axis=1)
        assert row["mean"] == pytest.approx(by_scenario.mean())
        assert row["se"] == pytest.approx(by_scenario.std(ddof=1) / np.sqrt(8))
        # Student's t with 7 degrees of freedom.
        assert row["ci_upper"] - row["mean"] == pytest.approx(2.364624 * row["se"], rel=1e-6)
        assert row["offset"] == pytest.approx(x[b, :, :, j].mean() - x[b].mean())
    assert not found.judges["own"].any()
    assert found.self_preference.empty
    assert "PanelAnalysis of 3 backbones, 4 of 4 judges" in repr(found)
    general = bj.anova(read(x)).means
    assert found.means["backbone"].tolist() == general["backbone"].tolist()
    np.testing.assert_allclose(found.means["se"], general["se_own"])


def test_components_and_designs_of_a_part_of_the_panel():
    x = some(1)
    found = bj.panel_analysis(read(x), panel_size=10, designs=[(50, 1, 2)], judge_scenario=False)
    raw = estimate_components(panel_mean_squares(x), 10)
    wide = found.components.pivot_table(index="backbone", columns="term", values="untruncated")
    assert set(wide) == {"scenario", "generation", "judge", "residual"}
    for name in wide:
        np.testing.assert_allclose(wide[name], getattr(raw, name))
    assert (found.components["variance"] >= 0).all()
    rows = found.contributions
    assert rows[["n", "m", "k"]].drop_duplicates().to_numpy().tolist() == [[8, 3, 4], [50, 1, 2]]
    assert (rows["judge:scenario"] == 0).all()
    other = rows[rows["n"] == 50].set_index("backbone")
    judge = np.maximum(raw.judge, 0)
    np.testing.assert_allclose(other["judge"], judge / 2 * 8 / 9)
    parts = ["scenario", "generation", "judge", "judge:scenario", "residual"]
    np.testing.assert_allclose(other["variance"], other[parts].sum(axis=1))
    np.testing.assert_allclose(other["sd"] ** 2, other["variance"])
    # Judges are missing, so the mean is less sure than that of the judges at hand.
    own = bj.panel_analysis(read(x)).means.set_index("backbone")["se"]
    assert (found.means.set_index("backbone")["se"] > own).all()
    assert found.strategies["pool_cyclic"].isna().all()
    assert any("about the whole panel" in note for note in found.notes)


def test_self_preference_is_found_and_leniency_is_not_taken_for_it():
    rng = np.random.default_rng(2)
    names = ["a", "b", "c"]
    lenient = np.array([0.8, -0.3, 0.1, -0.6])
    x = rng.normal(0, 0.3, (3, 60, 2, 4)) + rng.normal(0, 1, (3, 60, 1, 1)) + lenient
    for b in range(3):
        x[b, :, :, b] += 0.5
    found = bj.panel_analysis(read(x, backbones=names, judges=[*names, "d"]))
    rows = found.self_preference
    assert list(rows) == [
        "backbone", "judge", "offset", "others", "estimate", "se", "df", "ci_lower", "ci_upper",
    ]  # fmt: skip
    assert rows["judge"].tolist() == ["a", "b", "c", None]
    assert (np.abs(rows["estimate"] - 0.5) < 4 * rows["se"]).all()
    assert (rows["df"] == 59).all()
    assert rows["se"].iloc[3] < rows["se"].iloc[:3].min()
    np.testing.assert_allclose(rows["offset"] - rows["others"], rows["estimate"])
    own = found.judges[found.judges["own"]]
    assert list(zip(own["backbone"], own["judge"], strict=True)) == [(n, n) for n in names]


def test_the_error_of_self_preference_is_its_spread_over_tables():
    rng = np.random.default_rng(3)
    estimates, errors = [], []
    scores = read(np.zeros((3, 20, 1, 3)))
    for _ in range(400):
        x = rng.normal(0, 1, (3, 20, 1, 3)) + rng.normal(0, 0.7, (1, 20, 1, 3))
        row = self_preference_frame(scores, CompleteScores(x, True), ((0, 0),), 0.95).iloc[0]
        estimates.append(row["estimate"])
        errors.append(row["se"])
    # 400 tables give a standard deviation to 3.5 %; four of these.
    assert np.std(estimates) == pytest.approx(np.mean(errors), rel=0.14)


def test_judges_and_backbones_are_matched_by_a_mapping():
    x = some(4)
    pairs = [("judge00", "backbone01"), ("judge00", "backbone02")]
    family = bj.panel_analysis(read(x), own=pairs).self_preference
    offset = x.mean(axis=(1, 2)) - x.mean(axis=(1, 2, 3))[:, None]
    # Others are those that are not of the family.
    np.testing.assert_allclose(family["estimate"][:2], offset[1:, 0] - offset[0, 0])
    everything = [(j, f"backbone{b:02d}") for b in range(3) for j in ["judge00"]]
    alone = bj.panel_analysis(read(x), own=everything).self_preference
    assert alone["estimate"].isna().all()
    assert alone["offset"].notna().all()
    for wrong, what in (({"x": "backbone00"}, "no judge"), ({"judge00": "x"}, "no backbone")):
        with pytest.raises(bj.UsageError, match=what):
            bj.panel_analysis(read(x), own=wrong)


def test_strategies_of_a_table():
    x = some(5)
    found = bj.panel_analysis(read(x), subsamples=4000, random_seed=3)
    rows = found.strategies
    assert rows["budget"].tolist() == [4, 8, 12] * 3
    parts = estimate_components(panel_mean_squares(x), judge_scenario=True).truncated
    v = strategy_variances(
        panel_components(*(getattr(parts, f)[0] for f in (
            "scenario", "generation", "judge", "residual", "judge_scenario"
        ))), 8, np.array([4, 8, 12]), 4,
    )  # fmt: skip
    np.testing.assert_allclose(rows["cyclic"][:3], v.cyclic)
    np.testing.assert_allclose(rows["random_judge"][:3], v.random_judge)
    np.testing.assert_allclose(rows["all_judges"][:3], v.all_judges)
    for name in ("all_judges", "random_judge", "cyclic"):
        # 4,000 subsamples give a variance to 2.2 %; four and a half of these.
        np.testing.assert_allclose(rows[f"subsampled_{name}"], rows[f"pool_{name}"], rtol=0.1)
    again = bj.panel_analysis(read(x), subsamples=4000, random_seed=3)
    pd.testing.assert_frame_equal(again.strategies, rows)
    comparison = found.comparison
    assert (comparison["threshold"] == 3).all()
    cheaper = (comparison["ratio"] > 3).map({True: "all judges", False: "random judge"})
    assert comparison["second"].tolist() == cheaper.tolist()
    uneven = bj.panel_analysis(read(x), budgets=[1, 6]).strategies
    assert uneven[["all_judges", "pool_cyclic"]].isna().all(axis=None)
    assert (uneven["cyclic"] < uneven["random_judge"]).iloc[1]


def test_one_generation_and_scenarios_of_their_own():
    x = some(6, (2, 9, 1, 3))
    found = bj.panel_analysis(read(x, judges=["backbone00", "y", "z"]))
    assert not found.judge_scenario
    assert found.strategies[["all_judges", "random_judge", "cyclic"]].isna().all(axis=None)
    assert found.comparison["second"].tolist() == [None, None]
    assert found.contributions["variance"].notna().all()
    assert any("one generation" in note for note in found.notes)
    table = frame(x, judges=["backbone00", "y", "z"])
    table["scenario"] += table["backbone"]
    apart = bj.panel_analysis(bj.read_scores(table.drop(columns="generation")))
    pd.testing.assert_frame_equal(apart.judges, found.judges)
    assert apart.self_preference["se"].isna().all()
    assert any("scenarios of their own" in note for note in apart.notes)
    lower = bj.panel_analysis(bj.read_scores(table, lower_is_better=True))
    assert lower.means["mean"].is_monotonic_increasing
    assert any("favours its own" in note for note in lower.notes)
    single = bj.panel_analysis(read(some(7, (2, 1, 3, 3)), judges=["backbone00", "y", "z"]))
    assert single.self_preference["se"].isna().all()


def test_equal_scores_are_answered():
    found = bj.panel_analysis(read(np.full((2, 4, 2, 3), 0.1)), subsamples=5)
    assert (found.components["variance"] == 0).all()
    assert (found.judges["se"] < 1e-15).all()


# Refusals --------------------------------------------------------------------------------


def drop_row(table):
    return table.iloc[1:]


def other_judge(table):
    swapped = (table["backbone"] == "backbone00") & (table["judge"] == "judge03")
    return table.assign(judge=table["judge"].mask(swapped, "x"))


def fewer_generations(table):
    first = (table["backbone"] == "backbone00") & (table["generation"] == "generation00")
    return table[~first]


def with_language(table):
    return pd.concat([table.assign(language=name) for name in ("en", "de")])


@pytest.mark.parametrize(
    ("change", "what", "remedy"),
    [
        (drop_row, "not every generation of backbone", "--engine exact"),
        (other_judge, "not every generation of backbone", "--engine exact"),
        (fewer_generations, "backbones have 8 x 2, 8 x 3", "--engine exact"),
        (with_language, "the table also has language", "--by language"),
        (lambda t: t[t["judge"] == "judge00"], "one judge is no panel", "several judges"),
        (lambda t: t[(t["judge"] == "judge00")].drop(columns="judge"), "needs a judge", "--column"),
        (
            lambda t: t[(t["scenario"] == "scenario00")].drop(columns="scenario"),
            "needs a scenario",
            "--column",
        ),
    ],
)
def test_tables_that_the_paper_does_not_know(change, what, remedy):
    with pytest.raises(bj.DataError, match=what) as caught:
        bj.panel_analysis(bj.read_scores(change(frame(some()))))
    assert remedy in caught.value.remedy


def test_a_population_of_judges_is_no_panel():
    with pytest.raises(bj.DataError, match="draws from a population"):
        bj.panel_analysis(bj.read_scores(frame(some()), random=("judge",)))


@pytest.mark.parametrize(
    ("asked", "what"),
    [
        ({"panel_size": 3}, "cannot hold 4 judges"),
        ({"budgets": [0]}, "a budget of 0"),
        ({"budgets": [6], "subsamples": 10}, "no multiple of 4"),
        ({"panel_size": 6, "subsamples": 10}, "not the panel's"),
        ({"subsamples": 1}, "no variance"),
        ({"subsamples": 2.5}, "no variance"),
        ({"subsamples": 5, "random_seed": -1}, "the seed is -1"),
        ({"panel_size": np.nan}, "size of the panel is nan"),
        ({"budgets": [2.5]}, "a budget of 2.5"),
        ({"designs": [(80, 1)]}, "is no design"),
        ({"designs": [(80, 1, 2.5)]}, "is no design"),
        ({"designs": [80]}, "is no design"),
        ({"own": [("j1",)]}, "is no pair"),
        ({"own": ["ab"]}, "is no pair"),
        ({"designs": [(8, 1, 5)]}, "cannot hold 5 judges"),
        ({"ci_prob": 2.0}, "ci_prob"),
    ],
)
def test_questions_that_cannot_be_asked(asked, what):
    with pytest.raises(bj.UsageError, match=what):
        bj.panel_analysis(read(some()), **asked)
    with pytest.raises(bj.UsageError, match="takes Scores"):
        bj.panel_analysis([1.0])


# Command line ----------------------------------------------------------------------------


def run(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    file = tmp_path_factory.mktemp("panel") / "scores.csv"
    frame(some(8), judges=["backbone00", "[red]j[/red]", "a|b", "\x1b[31m"]).to_csv(
        file, index=False
    )
    return file


def test_json_has_the_panel(path):
    told = json.loads(run("anova", path, "--json", "--quiet").stdout)["meta"]["cyclicjudge"]
    assert set(told) == {"panel_size", "judge_scenario", "notes", *FRAMES}
    assert (told["panel_size"], told["judge_scenario"]) == (4, True)
    assert told["self_preference"][0]["judge"] == "backbone00"
    found = bj.panel_analysis(bj.read_scores(path))
    assert [row["offset"] for row in told["judges"]] == pytest.approx(
        found.judges["offset"].tolist()
    )
    paper = json.loads(run("anova", path, "--json", "--model", "cyclicjudge").stdout)
    assert not paper["meta"]["cyclicjudge"]["judge_scenario"]


def test_people_see_what_they_asked_for(path, tmp_path):
    plain = run("anova", path)
    assert plain.exit_code == 0
    assert "Judges by backbone" in plain.stdout
    assert "beyond others" in plain.stdout
    assert "Strategies" not in plain.stdout
    assert "\x1b" not in plain.stdout
    out = tmp_path / "out"
    words = ["--strategies", "--subsamples", 50, "--design", "n=20,m=1,k=2", "--panel-size", 4]
    words += ["--self", "a|b=backbone01", "--self", "backbone00=backbone00", "--budget", 8]
    asked = run("anova", path, *words, "--out", out)
    assert asked.exit_code == 0, asked.stderr
    for heading in ("Strategies", "Subsamples of this table, cyclic", "Which strategy",
                    "x 1000", "20/1/2", "Means over the panel of 4"):  # fmt: skip
        assert heading in asked.stdout
    assert "judges take turns" in asked.stderr
    report = (out / "report.md").read_text("utf-8")
    assert "Which strategy" in report
    assert "a\\|b" in report
    assert "--self 'a|b=backbone01'" in report
    assert "--budget 8" in report
    assert {p.name for p in out.iterdir()} >= set(PANEL_FILES)
    assert len(pd.read_csv(out / "panel_strategies.csv")) == 3


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["--design", "n=20,m=1"], 2, "lacks k"),
        (["--design", "n=20,m=1,n=3"], 2, "not a design"),
        (["--design", "n=20,m=-1,k=3"], 2, "not a design"),
        (["--self", "x"], 2, "JUDGE=BACKBONE"),
        (["--self", "x=y"], 2, "no judge"),
        (["--panel-size", "2"], 2, "cannot hold"),
        (["--subsamples", "5", "--seed", "-1"], 2, "the seed is -1"),
        (["--subsamples", "9", "--budget", "3"], 2, "no multiple"),
    ],
)
def test_what_goes_wrong_is_said(path, words, code, message):
    result = run("anova", path, *words)
    assert result.exit_code == code, result.stderr
    assert message in result.stderr
    assert "Traceback" not in result.stderr
    assert not result.stdout


def test_where_there_is_no_panel_it_is_said_and_an_error_if_asked_for(tmp_path):
    file, out = tmp_path / "t.csv", tmp_path / "out"
    with_language(frame(some(9))).to_csv(file, index=False)
    result = run("anova", file, "--json", "--out", out)
    assert result.exit_code == 0
    assert json.loads(result.stdout)["meta"]["cyclicjudge"] is None
    assert "no analysis of the panel of judges" in result.stderr
    assert (out / "panel_judges.csv").read_text() == "backbone\n"
    assert run("anova", file, "--seed", 3).exit_code == 0
    refused = run("anova", file, "--strategies")
    assert refused.exit_code == 1
    assert "also has language" in refused.stderr
    each = run("anova", file, "--strategies", "--by", "language", "--ignore", "language", "--json")
    assert each.exit_code == 0
    groups = json.loads(each.stdout)["groups"]
    assert groups["en"]["meta"]["cyclicjudge"]["comparison"]


# Tables that taking turns makes ----------------------------------------------------------

MEANS = {"b0": 6.8, "b1": 7.2}
OFFSETS = np.array([-0.9, 0.1, 0.3, 0.5])


def turns(rng, n, m, *, rotate):
    """One judge a generation, in turn; ``rotate`` from another judge in each scenario."""
    rows = []
    for b, (backbone, mean) in enumerate(MEANS.items()):
        scenario = rng.normal(0, 0.6, n)
        for i in range(n):
            for g in range(m):
                judge = (g + (i * m + b if rotate else 0)) % 4
                score = mean + scenario[i] + OFFSETS[judge] + rng.normal(0, 0.7)
                rows.append((backbone, f"s{i:02d}", f"g{g}", f"j{judge}", score))
    return pd.DataFrame(rows, columns=["backbone", "scenario", "generation", "judge", "score"])


@pytest.mark.parametrize(("m", "rotate"), [(1, True), (5, True), (6, False)])
def test_anova_sends_tables_of_turns_to_the_exact_engine_which_answers(tmp_path, m, rotate):
    rng = np.random.default_rng(90 + m)
    table = turns(rng, 12, m, rotate=rotate)
    if m == 1:
        table = table.drop(columns="generation")
    file = tmp_path / "turns.csv"
    table.to_csv(file, index=False)
    refused = run("anova", file)
    assert refused.exit_code == 1
    assert "not balanced" in refused.stderr
    assert "bayesjudge rank SOURCE --engine exact" in refused.stderr
    ranked = run("rank", file, "--engine", "exact", "--json", "--quiet")
    assert ranked.exit_code == 0, ranked.stderr
    told = {row["backbone"]: row for row in json.loads(ranked.stdout)["leaderboard"]}
    for backbone, mean in MEANS.items():
        assert abs(told[backbone]["mean"] - mean) < 4 * told[backbone]["sd"]


def test_whole_turns_are_a_balanced_table_which_anova_answers_without_the_panel(tmp_path):
    table = turns(np.random.default_rng(95), 12, 4, rotate=False)
    found = bj.anova(bj.read_scores(table))
    dropped = {lost.name for lost in found.resolved.dropped}
    assert "generation" in dropped
    own = table.pivot_table(index="backbone", columns="scenario", values="score")
    se = found.means.set_index("backbone")["se_own"]
    np.testing.assert_allclose(se, own.std(axis=1, ddof=1)[se.index] / np.sqrt(12))
    with pytest.raises(bj.DataError, match="not every generation"):
        bj.panel_analysis(bj.read_scores(table))


# What a single judge costs ---------------------------------------------------------------


def rank_by(figures, rng, tables, judging):
    """Means (tables, B) by one generation a scenario; ``judging`` gives (tables, B, n) codes."""
    n, parts = figures.n_scenarios, figures.components
    means = figures.means.mean(axis=1)[:, None]
    shape = (tables, means.size, n)
    sd = np.sqrt(parts.scenario + parts.generation + parts.residual)[:, None]
    judge = np.broadcast_to(judging(shape), shape)
    backbone = np.arange(means.size)[:, None]
    return (means + figures.offsets[backbone, judge] + sd * rng.standard_normal(shape)).mean(axis=2)


@pytest.mark.parametrize(("benchmark", "gain"), [("mt_bench", 0.09), ("mindeval", 0.07)])
def test_taking_turns_ranks_better_than_single_judges_at_the_same_cost(benchmark, gain):
    figures, rng = published(benchmark), np.random.default_rng(96)
    k, tables = len(figures.judges), 2000
    truth = figures.means.mean(axis=1)
    order = np.sign(truth[:, None] - truth)

    def concordance(scores):
        found = np.sign(scores[:, :, None] - scores[:, None, :])
        return float((found * order).sum() / (tables * np.abs(order).sum()))

    def error(scores):
        return float(np.sqrt(np.mean((scores - truth) ** 2)))

    def cyclic(shape):
        return (rng.integers(0, k, (tables, 1, 1)) + np.arange(shape[2])) % k

    turn = rank_by(figures, rng, tables, cyclic)
    single = [rank_by(figures, rng, tables, lambda _, j=j: j) for j in range(k)]
    # Pairs in the right order less those in the wrong one. Which judge alone would do as well
    # (one does on MindEval) nobody knows beforehand.
    assert concordance(turn) > np.mean([concordance(s) for s in single]) + gain
    # In points: no judge alone comes near the panel's mean, however many scenarios.
    assert error(turn) < min(error(s) for s in single) / 2
