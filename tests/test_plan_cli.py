"""``bayesjudge plan`` and ``bayesjudge assign`` as scripts and people use them."""

from __future__ import annotations

import csv
import io
import json

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import bayesjudge as bj
from bayesjudge.cli.app import app
from bayesjudge.report.plan_report import NEXT_FILES, PLAN_FILES

ODD = ["[red]x[/red]", "\x1b[31mesc", "a|b"]
TYPED = (
    "--component", "scenario=0.5", "--component", "residual=1.0,1.2,0.9",
    "--component", "judge=0.3", "--component", "scenario:backbone=0.2",
    "--backbones", 3,
)  # fmt: skip
PRICES = ("--cost", "dear=0.02", "--cost", "fair=0.004", "--cost", "cheap=0.001")
FAST = ("--draws", 200, "--tune", 200, "--chains", 2)


def run(*words):
    return CliRunner().invoke(app, [*map(str, words)])


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    made = bj.simulate(
        "crossed_common", backbones=ODD, scenarios=14, judges=["j1", "j2"], generations=2,
        random_seed=1,
    )  # fmt: skip
    path = tmp_path_factory.mktemp("plan") / "scores.csv"
    made.table.to_csv(path, index=False)
    return path


@pytest.fixture(scope="module")
def saved(table):
    scores = bj.read_scores(table)
    fit = bj.fit(scores, "crossed_common", draws=200, tune=200, chains=2)
    return fit.save(table.with_name("fit.nc"))


def test_json_of_a_plan_has_the_keys_of_the_contract():
    result = run("plan", *TYPED, *PRICES, "--budget", 3, "--json", "--scenario-pool", 200)
    assert result.exit_code == 0, result.stderr
    found = json.loads(result.stdout)
    assert set(found) == {"options", "recommended", "meta"}
    assert {"n", "m", "k", "cost", "expected_sd", "ci_lower"} <= set(found["options"][0])
    assert found["options"][0]["ci_lower"] is None
    assert found["recommended"] in found["options"]
    assert found["recommended"]["cost"] <= 3
    assert found["recommended"]["assignment"] == "unequal shares"
    meta = found["meta"]
    assert (meta["unit"], meta["budget"], meta["scenario_pool"]) == ("money", 3.0, 200)
    assert meta["judges"] == ["dear", "fair", "cheap"]
    assert meta["reason"].startswith(f"{found['recommended']['n']} scenarios")
    assert "finite-population" in result.stderr


def test_people_see_options_the_frontier_and_a_reason():
    result = run("plan", *TYPED, "--judges", 3, "--budget", 300)
    assert result.exit_code == 0, result.stderr
    for said in ("Options", "->", "Frontier", "100 scenarios", "smallest error within 300 calls"):
        assert said in result.stdout
    assert "cost" not in result.stdout.split("Frontier")[0]
    assert not run("plan", *TYPED, "--judges", 3, "--budget", 300, "--quiet").stderr


def test_a_target_without_a_budget():
    result = run("plan", *TYPED, "--judges", 2, "--reach-sd", 0.2, "--json")
    found = json.loads(result.stdout)
    assert found["meta"]["reached"] is True
    assert found["recommended"]["expected_sd"] <= 0.2
    gap = run("plan", *TYPED, "--judges", 2, "--gap", 0.5, "--reach-probability", 0.9, "--json")
    assert json.loads(gap.stdout)["recommended"]["p_order"] >= 0.9


def test_random_judges_and_latencies_are_passed_on():
    words = ("plan", *TYPED, "--judges", 2, "--budget", 300, "--json")
    fixed, random = run(*words), run(*words, "--random", "judge")
    sds = [json.loads(r.stdout)["recommended"]["expected_sd"] for r in (fixed, random)]
    assert sds[1] ** 2 == pytest.approx(sds[0] ** 2 + 0.3 / 2, rel=0.05)
    timed = run(*words, "--latency", "judge1=1", "--latency", "judge2=3", "--max-seconds", 200)
    assert json.loads(timed.stdout)["recommended"]["seconds"] <= 200


def test_a_plan_from_a_table_and_from_its_fit(table, saved, tmp_path):
    out = tmp_path / "out"
    words = ("--budget", 200, "--json", "--allow-unconverged")
    own = run("plan", table, "--model", "crossed_common", *FAST, *words, "--out", out)
    assert own.exit_code == 0, own.stderr
    found = json.loads(own.stdout)
    assert json.loads((out / "result.json").read_text("utf-8")) == found
    assert {p.name for p in out.iterdir() if not p.name.startswith(".")} == set(PLAN_FILES)
    reliabilities = {r["coefficient"]: r for r in found["meta"]["reliability"]}
    for row in reliabilities.values():
        assert 0 <= row["ci_lower"] <= row["estimate"] <= row["ci_upper"] <= 1
    assert found["recommended"]["generalizability_ci_lower"] is not None
    assert "generalizability of the table as it is" in own.stderr
    report = (out / "report.md").read_text("utf-8")
    assert "## Frontier" in report
    assert "\x1b" not in report
    again = run("plan", "--fit", saved, *words)
    assert json.loads(again.stdout)["recommended"]["n"] == found["recommended"]["n"]
    shown = run("plan", saved, "--target", "difference", "--pair", *ODD[:2], "--budget", 200,
                "--allow-unconverged")  # fmt: skip
    assert shown.exit_code == 0, shown.stderr
    assert "\x1b" not in shown.stdout


def test_next_calls_are_a_table_that_rank_reads(saved, table, tmp_path):
    words = ("plan", "--next", 7, "--fit", saved, "--allow-unconverged")
    result = run(*words)
    assert result.exit_code == 0, result.stderr
    rows = list(csv.DictReader(io.StringIO(result.stdout)))
    assert list(rows[0]) == ["scenario", "generation", "backbone", "judge", "score"]
    assert len(rows) == 7
    assert "expected pairs in the wrong order" in result.stderr
    out = tmp_path / "next"
    found = json.loads(run(*words, "--json", "--out", out, "--top", 1).stdout)
    assert len(found["next_calls"]) == 7
    assert found["recommended"] is None
    assert found["meta"]["n_pairs"] == 2
    assert {p.name for p in out.iterdir() if not p.name.startswith(".")} == set(NEXT_FILES)
    filled = pd.read_csv(out / "next_calls.csv", dtype=str).assign(score="7.1")
    both = pd.concat([pd.read_csv(table, dtype=str), filled])
    assert len(bj.read_scores(both)) == 3 * 14 * 2 * 2 + 7
    new = run(*words, "--new-scenario", "fresh", "--cost", "j1=1", "--cost", "j2=9")
    assert new.exit_code == 0, new.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "nothing to plan from"),
        (("x.csv", "--fit", "y.nc"), "a table and a fit"),
        (("x.csv", *TYPED), "from a table, a fit or typed"),
        (("x.csv", "--judges", 2), "go with --component"),
        ((*TYPED, "--budget", 10, "--top", 2), "go with --next"),
        ((*TYPED, "--next", 3), "from a table or a fit"),
        ((*TYPED, *PRICES, "--judges", 2, "--budget", 9), "--judges says 2"),
        ((*TYPED, "--cost", "a=1,2", "--budget", 9), "has 2 numbers"),
        (("--component", "residual=x", "--budget", 9), "not a number"),
        ((*TYPED, "--budget", "1e12"), "more than 1,000,000 answers"),
        ((*TYPED, "--budget", 9, "--gap", "nan"), "gap must be a number above 0"),
        ((*TYPED, "--budget", 9, "--judges", 0), "judges is 0"),
        ((*TYPED, "--budget", 9, "--judges", -2), "judges is -2"),
        ((*TYPED, "--budget", 9, "--scale", 0, 10), "--scale 0.0 10.0"),
        ((*TYPED, "--budget", 9, "--where", "a=b", "--draws", 9), "--where a=b --draws 9"),
    ],
)
def test_usage_errors_exit_2(words, message):
    result = run("plan", *words)
    assert result.exit_code == 2
    assert message in result.stderr
    assert "Traceback" not in result.stderr


def test_other_errors_exit_1(saved):
    assert run("plan", "missing.csv", "--budget", 9).exit_code == 1
    refused = run("plan", *TYPED, "--budget", 1)
    assert refused.exit_code == 1
    assert "buys no design" in refused.stderr
    assert run("plan", saved, "--budget", 9, "--model", "crossed").exit_code == 2


NAMES = ("--backbone", "m1", "--backbone", "m2", "--judge", "m1", "--judge", "g", "--judge", "h")


def read(path):
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_an_assignment_is_written_and_extended(tmp_path):
    first, second = tmp_path / "a.csv", tmp_path / "b.csv"
    result = run("assign", first, "--scenarios", 6, *NAMES, "--no-self", "--json")
    assert result.exit_code == 0, result.stderr
    found = json.loads(result.stdout)
    assert (found["n_calls"], found["connected"]) == (12, True)
    assert found["self_cells"] == [{"backbone": "m1", "judge": "m1"}]
    assert "extrapolates" in result.stderr
    rows = read(first)
    assert list(rows[0]) == ["scenario", "generation", "backbone", "judge", "score"]
    labels = tmp_path / "labels.txt"
    labels.write_text("नमस्ते\nNA\nx, y\n", encoding="utf-8")
    longer = run("assign", second, "--scenarios", labels, *NAMES, "--no-self", "--extend", first)
    assert longer.exit_code == 0, longer.stderr
    assert "Calls of each judge" in longer.stdout
    assert second.read_bytes().startswith(first.read_bytes())
    assert {r["scenario"] for r in read(second)[12:]} == {"नमस्ते", "NA", "x, y"}
    other = run("assign", tmp_path / "c.csv", "--scenarios", labels, *NAMES, "--extend", first)
    assert other.exit_code == 1
    assert "other settings" in other.stderr


def test_a_table_made_by_following_an_assignment_is_ranked(tmp_path):
    plan, filled = tmp_path / "plan.csv", tmp_path / "scores.csv"
    done = run("assign", plan, "--scenarios", 12, *NAMES, "--generations", 3)
    assert done.exit_code == 0
    rng = np.random.default_rng(0)
    table = pd.read_csv(plan, dtype=str, keep_default_na=False)
    table["score"] = 5 + (table["backbone"] == "m1") + 0.3 * rng.standard_normal(len(table))
    table.to_csv(filled, index=False)
    found = json.loads(run("rank", filled, "--json", *FAST, "--allow-unconverged").stdout)
    assert found["leaderboard"][0]["backbone"] == "m1"
    assert found["meta"]["n_scores"] == 72
    empty = run("rank", plan)
    assert empty.exit_code == 1
    assert "Traceback" not in empty.stderr


def test_scenarios_come_from_a_column(tmp_path):
    items = tmp_path / "items.csv"
    items.write_text("category,question_id\na,q1\na,q2\nb,q1\n", encoding="utf-8")
    path = tmp_path / "a.csv"
    words = ("--share", "m1=2", "--share", "g=1", "--share", "h=1", "--generations", 2)
    assert run("assign", path, "--scenarios", items, *NAMES, *words).exit_code == 0
    assert {r["scenario"] for r in read(path)} == {"q1", "q2"}
    assert sum(r["judge"] == "m1" for r in read(path)) == 4
    assert run("assign", path, "--scenarios", 3, *NAMES).exit_code == 1
    crossed = run("assign", path, "--scenarios", 3, *NAMES, "--all-judges", "--force", "--quiet")
    assert crossed.exit_code == 0
    assert not crossed.stderr
    assert len(read(path)) == 18


SHARES = ("--share", "g=1", "--share", "h=1")


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("a.txt", "--scenarios", 3), 2, "End it in .csv"),
        (("a.csv", "--scenarios", "missing.txt"), 1, "cannot be read"),
        (("a.csv", "--scenarios", 3, "--all-judges", "--per-generation", 2), 2, "--all-judges"),
        (("a.csv", "--scenarios", 3, "--share", "m1=1.5"), 2, "whole number"),
        (("a.csv", "--scenarios", 3, "--self", "m1"), 2, "not of the form"),
        (("a.csv", "--scenarios", 3, "--share", "m1=inf"), 2, "whole number"),
        (("a.csv", "--scenarios", 3, "--share", "m1=nan"), 2, "whole number"),
        (("a.csv", "--scenarios", 3, *SHARES, "--share", "m1=1000000000"), 2, "too long a round"),
        (("a.csv", "--scenarios", "99999999999999999999"), 2, "too many"),
        (("a.csv", "--scenarios", 10_000_001), 2, "too many"),
        (("a.csv", "--scenarios", -4), 2, "a number of at least 1"),
        (("a.csv", "--scenarios", "empty.csv"), 1, "the file is empty"),
        (("a.csv", "--scenarios", "header.csv"), 1, "has no scenarios"),
        (("a.csv", "--scenarios", "bad.csv"), 1, "Call the column scenario"),
        (("a.csv", "--scenarios", 3, "--extend", "bad.csv"), 1, "has the columns"),
    ],
)
def test_what_assign_refuses(tmp_path, monkeypatch, words, code, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad.csv").write_text("a,b\n1,2\n")
    (tmp_path / "empty.csv").write_text("")
    (tmp_path / "header.csv").write_text("scenario\n")
    result = run("assign", *words, *NAMES)
    assert result.exit_code == code
    assert message in result.stderr
    assert not (tmp_path / "a.csv").exists()


def test_a_judge_may_be_called_backbone(tmp_path):
    names = ("--backbone", "m1", "--backbone", "m2", "--judge", "backbone", "--judge", "h")
    result = run("assign", tmp_path / "a.csv", "--scenarios", 4, *names, "--json")
    assert result.exit_code == 0, result.stderr
    half = {"backbone": 2, "h": 2}
    assert json.loads(result.stdout)["counts"] == {"m1": half, "m2": half}
    shown = run("assign", tmp_path / "b.csv", "--scenarios", 4, *names)
    assert shown.exit_code == 0, shown.stderr


def test_one_backbone_is_warned_of(tmp_path):
    names = ("--backbone", "m1", "--judge", "g", "--judge", "h")
    result = run("assign", tmp_path / "a.csv", "--scenarios", 4, *names, "--quiet")
    assert result.exit_code == 0, result.stderr
    assert "rank needs two" in result.stderr


def test_a_format_is_passed_on(table):
    refused = run("plan", table, "--format", "nonsense", "--budget", 9)
    assert refused.exit_code in (1, 2)
    assert "nonsense" in refused.stderr


def test_backbones_that_no_judge_connects_are_warned_of(tmp_path):
    path = tmp_path / "a.csv"
    names = ("--backbone", "m1", "--backbone", "m2", "--judge", "m1", "--judge", "m2")
    result = run("assign", path, "--scenarios", 4, *names, "--no-self", "--quiet")
    assert result.exit_code == 0
    assert "warning" in result.stderr
