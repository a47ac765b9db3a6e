"""``bayesjudge append`` and ``store``, and what answers from a store."""

from __future__ import annotations

import json

import pandas as pd
import pytest
from typer.testing import CliRunner

import bayesjudge as bj
from bayesjudge.cli.app import app
from bayesjudge.scores import tally_of_scores
from bayesjudge.simulation import simulate

LABELS = ["[red]x[/red]", "\x1b[31mesc", "01", "NA"]


def run(*words):
    return CliRunner().invoke(app, [*map(str, words)])


@pytest.fixture(scope="module")
def days(tmp_path_factory):
    """A balanced table in three files, by judge."""
    folder = tmp_path_factory.mktemp("days")
    made = simulate(
        backbones=LABELS, scenarios=6, judges=3, generations=2, sd={"residual": 0.4}, random_seed=2
    ).table.rename(columns={"backbone": "model"})
    for number, (_, part) in enumerate(made.groupby("judge")):
        part.to_csv(folder / f"day{number}.csv", index=False)
    # In the order of its keys a table is summed as a store is, to the last digit.
    made = made.sort_values(["model", "judge", "scenario", "generation"])
    made.to_csv(folder / "whole.csv", index=False)
    return folder


@pytest.fixture(scope="module")
def store(days, tmp_path_factory):
    path = tmp_path_factory.mktemp("store") / "scores"
    first = run("append", path, days / "day0.csv", "--scale", 0, 20)
    assert first.exit_code == 0, first.stderr
    assert f"store begun: {path}; all its sources are read with scale (0.0, 20.0)" in first.stderr
    assert "columns: score <- score, backbone <- model" in first.stderr
    assert "append 1: 48 scores from" in first.stdout
    rest = run("append", path, days / "day1.csv", days / "day2.csv", "--json")
    assert rest.exit_code == 0, rest.stderr
    found = json.loads(rest.stdout)
    assert set(found) == {"append", "store"}
    assert (found["append"]["number"], found["append"]["n_scores"]) == (2, 96)
    assert (found["store"]["n_scores"], found["store"]["n_appends"]) == (144, 2)
    return path


def test_what_was_appended_is_listed(store, days):
    found = json.loads(run("store", store, "--json").stdout)
    assert [a["n_scores"] for a in found["appends"]] == [48, 96]
    assert found["appends"][0]["source"] == str(days / "day0.csv")
    assert [f["n_levels"] for f in found["facets"]] == [4, 3, 6, 2]
    assert found["options"]["scale"] == [0, 20]
    shown = run("store", store).stdout
    assert "144 scores of 2 appends, 0 rows left out" in shown
    assert "read with scale (0.0, 20.0)" in shown
    gone = run("store", store / "no")
    assert gone.exit_code == 1
    assert "there is no store of scores here" in gone.stderr


def test_what_is_not_appended_says_why(store, days, tmp_path):
    again = run("append", store, days / "day0.csv")
    assert again.exit_code == 1
    assert "the same 48 scores were appended on" in again.stderr
    other = run("append", store, days / "day0.csv", "--scale", 1, 5)
    assert other.exit_code == 2
    assert "the store was begun with (0.0, 20.0)" in other.stderr
    wrong = tmp_path / "wrong.csv"
    frame = pd.read_csv(days / "day0.csv", keep_default_na=False).assign(judge="new")
    frame.assign(score=99).to_csv(wrong, index=False)
    outside = run("append", store, wrong)
    assert outside.exit_code == 1
    assert "48 scores are outside the scale 0 to 20" in outside.stderr
    assert run("append", days, wrong).exit_code == 1
    assert json.loads(run("store", store, "--json").stdout)["n_appends"] == 2
    warned = tmp_path / "warned.csv"
    frame.assign(score=["x", *frame["score"][1:]]).to_csv(warned, index=False)
    fresh = tmp_path / "fresh"
    assert run("append", fresh, warned, "--quiet").exit_code == 0
    shown = run("store", fresh).stdout
    assert "all its sources" not in shown
    assert "its sources are read by default" in shown
    assert "not a number" in " ".join(shown.split())


def test_rank_answers_from_a_store_as_from_the_table(store, days):
    words = ("--seed", 4, "--json", "--draws", 200, "--allow-unconverged")
    result = run("rank", store, *words)
    assert result.exit_code == 0, result.stderr
    assert "store: 144 scores of 2 appends" in result.stderr
    found = json.loads(result.stdout)
    scores = bj.read_scores(days / "whole.csv", scale=(0, 20))
    fit = bj.fit(tally_of_scores(scores), draws=200, random_seed=4)
    board = fit.leaderboard().set_index("backbone")
    assert [row["backbone"] for row in found["leaderboard"]] == list(board.index)
    for row in found["leaderboard"]:
        for name in ("mean", "sd", "p_best", "ci_lower"):
            assert row[name] == pytest.approx(board.loc[row["backbone"], name], rel=1e-10)
    assert found["meta"]["n_scores"] == 144


def test_anova_answers_from_a_store_as_from_the_table(store, days):
    one = json.loads(run("anova", store, "--json").stdout)
    other = json.loads(run("anova", days / "whole.csv", "--scale", 0, 20, "--json").stdout)
    ours, theirs = (
        pd.DataFrame(found["components"]).set_index("term")["variance"] for found in (one, other)
    )
    pd.testing.assert_series_equal(ours, theirs, rtol=1e-9)


def test_a_store_says_what_it_cannot_answer(store, days):
    for words, code, message in (
        (("rank", store, days / "day0.csv"), 2, "a store of scores is answered by itself"),
        (("rank", store, "--by", "judge"), 2, "--by needs every score by itself"),
        (("rank", store, "--no-moments"), 2, "--no-moments needs every score"),
        (("rank", store, "--model", "ordinal"), 2, "needs every score by itself"),
        (("rank", store, "--column", "judge=grader"), 2, "can be said when scores are appended"),
        (("rank", store, "--scale", 1, 5), 2, "the store was begun with (0.0, 20.0)"),
        (("rank", store, "--random", "region"), 2, "no facet 'region' that could be random"),
        (("validate", store), 1, "this takes the scores themselves"),
        (("audit", store), 1, "this takes the scores themselves"),
    ):
        result = run(*words)
        assert (result.exit_code, message in result.stderr) == (code, True), result.stderr
    asked = bj.open_store(store).tally(random=("judge",))
    assert asked.facet("judge").role == "random"
