"""``bayesjudge anova`` as scripts and people use it."""

from __future__ import annotations

import csv
import json
import subprocess
import sys

import pandas as pd
import pytest
from typer.testing import CliRunner

import bayesjudge as bj
from bayesjudge.cli.app import app
from bayesjudge.report.results_folder import INDEX_FILES
from bayesjudge.report.variance_report import ANOVA_FILES
from bayesjudge.simulation import simulate

LABELS = ["[red]x[/red]", "\x1b[31mesc", "01", "NA", "नमस्ते", "a|b"]


def run(*words):
    return CliRunner().invoke(app, ["anova", *map(str, words)])


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """Six backbones with awkward labels; one criterion is balanced, the other is not."""
    made = simulate(
        backbones=LABELS, scenarios=4, judges=2, sd={"residual": 0.4}, random_seed=1
    ).table
    path = tmp_path_factory.mktemp("anova") / "scores.csv"
    parts = [made.assign(criterion="Whole/.."), made.iloc[:-1].assign(criterion="holed")]
    pd.concat(parts).to_csv(path, index=False)
    return path


WHOLE = ("--where", "criterion=Whole/..")


def test_json_has_the_keys_of_the_contract(table):
    result = run(table, *WHOLE, "--json")
    assert result.exit_code == 0, result.stderr
    found = json.loads(result.stdout)
    assert set(found) == {"components", "f_tests", "offsets", "coefficients", "meta"}
    assert {"term", "f", "df1", "df2", "p_value"} <= set(found["f_tests"][0])
    assert {"judge", "backbone", "estimate", "se"} <= set(found["offsets"][0])
    components = "term variance sd ci_lower ci_upper share df mean_square untruncated"
    assert set(found["components"][0]) == set(components.split())
    assert [row["term"] for row in found["f_tests"]][-1].endswith("(assumes no scenario:judge)")
    meta = found["meta"]
    named = "model engine family ci_prob ci_kind n_scores n_excluded dropped_terms panel random"
    assert set(named.split()) <= set(meta)
    assert (meta["engine"], meta["n_scores"]) == ("anova", 48)
    assert {row["backbone"] for row in meta["means"]} == set(LABELS)
    assert set(meta["by_backbone"]) == {"components", "f_tests", "offsets", "coefficients"}
    assert "left out, as the table has no language" in result.stderr


def test_people_see_tables_and_no_escape_sequence(table):
    result = run(table, *WHOLE, "--quiet")
    assert result.exit_code == 0
    assert not result.stderr
    for heading in ("Backbone means", "Variance components", "F-tests", "Offsets"):
        assert heading in result.stdout
    assert "[red]x[/red]" in result.stdout
    assert "नमस्ते" in result.stdout
    assert "\x1b" not in result.stdout


def test_long_analyses_by_backbone_are_left_to_files(tmp_path):
    path = tmp_path / "many.csv"
    simulate(backbones=24, scenarios=3, judges=3, random_seed=2).table.to_csv(path, index=False)
    result = run(path)
    assert result.exit_code == 0
    shown, elsewhere = result.stdout.split("In --json and --out only")
    assert "by backbone" not in shown
    assert "by backbone" in elsewhere


def test_the_folder_holds_every_file_and_is_not_written_over_others(table, tmp_path):
    out = tmp_path / "out"
    result = run(table, *WHOLE, "--json", "--out", out)
    assert result.exit_code == 0, result.stderr
    assert {p.name for p in out.iterdir() if not p.name.startswith(".")} == set(ANOVA_FILES)
    assert json.loads((out / "result.json").read_text("utf-8")) == json.loads(result.stdout)
    with (out / "means.csv").open(newline="", encoding="utf-8") as file:
        assert {row["backbone"] for row in csv.DictReader(file)} == set(LABELS)
    report = (out / "report.md").read_text("utf-8")
    assert "bayesjudge anova" in report
    assert "a\\|b" in report
    assert "\x1b" not in report
    assert run(table, *WHOLE, "--quiet", "--out", out).exit_code == 0
    (out / "report.md").write_text("mine")
    refused = run(table, *WHOLE, "--out", out)
    assert refused.exit_code == 1
    assert "report.md" in refused.stderr
    assert not refused.stdout
    assert (out / "report.md").read_text() == "mine"


def test_findings_of_the_table_are_in_the_report(tmp_path):
    made = simulate(backbones=2, scenarios=3, judges=2, random_seed=1).table
    made["score"] = made["score"].astype(object)
    extra = made.iloc[:1].assign(score="n/a", scenario="other`")
    path, out = tmp_path / "t.csv", tmp_path / "o`ut"
    pd.concat([made, extra]).to_csv(path, index=False)
    result = run(path, "--out", out)
    assert result.exit_code == 0, result.stderr
    assert "1 rows excluded" in result.stderr
    assert "What was found in the table" in (out / "report.md").read_text("utf-8")


def test_by_answers_what_it_can(table, tmp_path):
    out = tmp_path / "groups"
    result = run(table, "--by", "criterion", "--json", "--out", out)
    assert result.exit_code == 1
    found = json.loads(result.stdout)
    assert found["by"] == "criterion"
    assert "components" in found["groups"]["Whole/.."]
    error = found["groups"]["holed"]["error"]
    assert "not balanced" in error["what"]
    assert "--engine exact" in error["remedy"]
    assert set(INDEX_FILES) <= {p.name for p in out.iterdir()}
    with (out / "index.csv").open(newline="", encoding="utf-8") as file:
        rows = {row["level"]: row for row in csv.DictReader(file)}
    assert rows["holed"]["status"] == "failed"
    assert (out / rows["Whole/.."]["folder"] / "f_tests.csv").is_file()
    shown = run(table, *WHOLE, "--by", "criterion")
    assert shown.exit_code == 0
    assert "criterion Whole/.." in shown.stdout


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["nothing.csv"], 1, "no such file"),
        (["{table}", "--where", "criterion=holed"], 1, "--engine exact"),
        (["{table}", *WHOLE, "--model", "none"], 1, "no model"),
        (["{table}", *WHOLE, "--ci-prob", "2"], 2, "ci_prob"),
        (["{table}", "--prior", "judge.scale=half_normal:1"], 2, "--prior"),
        ([], 2, "SOURCE"),
    ],
)
def test_what_goes_wrong_is_said_with_its_code(table, words, code, message):
    result = run(*(word.format(table=table) for word in words))
    assert result.exit_code == code, result.stderr
    assert message in result.stderr
    assert "Traceback" not in result.stderr
    assert not result.stdout


def test_python_and_the_command_agree(table):
    told = json.loads(run(table, *WHOLE, "--json", "--quiet").stdout)
    rows = pd.read_csv(table, keep_default_na=False, dtype={"backbone": str})
    found = bj.anova(bj.read_scores(rows, where={"criterion": "Whole/.."}))
    assert [row["f"] for row in told["f_tests"]] == pytest.approx(found.f_tests["f"].tolist())


def test_nothing_of_the_samplers_is_loaded(table):
    code = (
        "import sys\nfrom bayesjudge.cli import main\n"
        f"sys.argv = ['bayesjudge', 'anova', {str(table)!r}, '--where', 'criterion=Whole/..']\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert not end.code\n"
        "print([m for m in ('jax', 'numpyro', 'xarray', 'arviz_base', 'arviz_stats', 'pymc')"
        " if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
