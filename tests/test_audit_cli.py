"""``bayesjudge audit``: what it prints, writes and refuses."""

from __future__ import annotations

import csv
import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import bayesjudge as bj
from bayesjudge.auditing.answer import TITLES
from bayesjudge.cli.app import app
from bayesjudge.report.audit_report import AUDIT_FILES, TABLES
from bayesjudge.report.results_folder import INDEX_FILES

LANGUAGES = ["English", "हिन्दी", "[red]x[/red]", "a|b"]
FEW = ("--permutations", "49", "--draws", "100", "--posterior", "items")


def run(*words):
    return CliRunner().invoke(app, ["audit", *map(str, words)])


@pytest.fixture
def table(tmp_path):
    rng = np.random.default_rng(0)
    rows = [
        (task, language, judge, split, base + noise - 2.0 * (language == "English"))
        for split in ("whole", "single")
        for task, base in enumerate(rng.normal(size=20))
        for judge in ("j1", "j2")
        for language, noise in zip(LANGUAGES, 0.5 * rng.normal(size=4), strict=True)
        if split == "whole" or language == "English"
    ]
    path = tmp_path / "scores.csv"
    columns = ["task", "language", "judge", "split", "score"]
    pd.DataFrame(rows, columns=columns).to_csv(path, index=False)
    return path


WHOLE = ("--where", "split=whole")


def test_json_has_one_key_an_analysis(table):
    result = run(table, *WHOLE, *FEW, "--json")
    assert result.exit_code == 0, result.stderr
    found = json.loads(result.stdout)
    assert list(found) == [*TITLES, "flags", "not_computed", "meta"]
    assert [key for key in TITLES if found[key] is None] == list(found["not_computed"])
    gap = found["acceptance"]["gaps"][0]
    assert {"judge", "threshold", "gap", "null", "excess", "p_value"} <= set(gap)
    assert {r["language"] for r in found["means"]["by_language"]} == set(LANGUAGES)
    assert {"severity", "what", "where", "rows", "remedy"} == set(found["flags"][0])
    meta = found["meta"]
    assert (meta["quantile"], meta["margin"], meta["target"], meta["seed"]) == (0.5, 0.05, 0.5, 0)
    assert meta["n_scores"] == 160
    assert all(isinstance(section["notes"], list) for section in found.values()
               if isinstance(section, dict) and "notes" in section)  # fmt: skip
    assert "threshold: quantile 0.5" in result.stderr
    assert "not computed: pairwise_accuracy" in result.stderr


def test_people_see_tables_and_no_escape_sequence(table):
    result = run(table, *WHOLE, *FEW, "--quiet")
    assert result.exit_code == 0
    for title in ("Scores by language", "Acceptance under one threshold", "What one offset"):
        assert title in result.stdout
    assert "[red]x[/red]" in result.stdout
    assert "हिन्दी" in result.stdout
    assert "\x1b" not in result.stdout
    assert "In --json" in result.stdout or "in --json" in result.stdout
    assert result.stderr
    assert all(line.startswith("warning: ") for line in result.stderr.splitlines())


def test_the_folder_holds_tables_and_a_report(table, tmp_path):
    out = tmp_path / "out"
    result = run(table, *WHOLE, *FEW, "--json", "--out", out)
    assert result.exit_code == 0, result.stderr
    names = {p.name for p in out.iterdir() if not p.name.startswith(".")}
    assert names <= set(AUDIT_FILES)
    assert {"acceptance_gaps.csv", "posterior_shared.csv", "result.json", "report.md"} <= names
    assert json.loads((out / "result.json").read_text("utf-8")) == json.loads(result.stdout)
    with (out / "means_by_language.csv").open(newline="", encoding="utf-8") as file:
        assert {row["language"] for row in csv.DictReader(file)} == set(LANGUAGES)
    report = (out / "report.md").read_text("utf-8")
    for text in ("# Language audit", "What stands out", "a\\|b", "bayesjudge audit", "cannot"):
        assert text in report
    assert "--permutations 49" in report
    assert run(table, *WHOLE, *FEW, "--quiet", "--out", out).exit_code == 0
    (out / "report.md").write_text("mine")
    refused = run(table, *WHOLE, *FEW, "--out", out)
    assert refused.exit_code == 1
    assert not refused.stdout
    assert (out / "report.md").read_text() == "mine"


def test_every_table_that_is_made_has_its_place(table):
    found = json.loads(run(table, *WHOLE, *FEW, "--json", "--quiet").stdout)
    for key, names in TABLES.items():
        if found[key] is not None:
            assert set(found[key]) - {"notes"} <= set(names)
            assert set(found[key]) - {"notes"}


def test_by_answers_what_it_can(table, tmp_path):
    out = tmp_path / "groups"
    result = run(table, "--by", "split", *FEW, "--only", "means", "--json", "--out", out)
    assert result.exit_code == 1
    found = json.loads(result.stdout)
    assert found["by"] == "split"
    assert found["groups"]["whole"]["means"]
    assert found["groups"]["whole"]["acceptance"] is None
    assert "one language only" in found["groups"]["single"]["error"]["what"]
    assert set(INDEX_FILES) <= {p.name for p in out.iterdir()}
    assert (out / "whole" / "means_by_judge.csv").is_file()
    shown = run(table, *WHOLE, "--by", "split", *FEW, "--only", "means")
    assert shown.exit_code == 0
    assert "split whole. Scores by language" in shown.stdout


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["nothing.csv"], 1, "no such file"),
        (["{table}", "--column", "language=split"], 1, "more than one score"),
        (["{table}", "--ignore", "language"], 1, "--column language=COLUMN"),
        (["{table}", *WHOLE, "--failure", "x"], 1, "verdict_tag=COLUMN"),
        (["{table}", *WHOLE, "--column", "pair=split"], 1, "'whole'"),
        (["{table}", *WHOLE, "--quantile", "2"], 2, "quantile"),
        (["{table}", *WHOLE, "--posterior", "yes"], 2, "posterior"),
        (["{table}", *WHOLE, "--only", "mean"], 2, "no analysis"),
        (["{table}", *WHOLE, "--column", "colour=split"], 2, "verdict_tag"),
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
    told = json.loads(run(table, *WHOLE, *FEW, "--json", "--quiet").stdout)
    scores = bj.read_languages(table, where={"split": "whole"})
    found = bj.audit(scores, permutations=49, draws=100, posterior="items")
    for key, name, column in (
        ("acceptance", "gaps", "excess"), ("means", "by_language", "offset"),
        ("posterior", "thresholds", "threshold"), ("dispersion", "by_language", "ratio"),
    ):  # fmt: skip
        assert [r[column] for r in told[key][name]] == pytest.approx(
            found[key][name][column].tolist()
        )


def test_help_lists_what_the_audit_takes():
    result = run("--help")
    assert result.exit_code == 0
    for option in ("--failure", "--quantile", "--margin", "--posterior", "--only"):
        assert option in result.stdout


def test_nothing_heavy_is_loaded_without_a_model(table):
    code = (
        "import sys\nfrom bayesjudge.cli import main\n"
        f"sys.argv = ['bayesjudge', 'audit', {str(table)!r}, '--where', 'split=whole', "
        "'--posterior', 'items', '--permutations', '19', '--quiet']\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert not end.code\n"
        "print([m for m in ('jax', 'numpyro', 'arviz_stats', 'pymc', 'statsmodels', 'scipy.stats')"
        " if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_differences_of_pairs_are_shown_by_language(tmp_path):
    rows = [
        (language, judge, answer, k + (answer == "chosen") * (2.25 + k))
        for k, language in enumerate(["zz", "English", "Hindi"])
        for judge in ("j1", "j2")
        for answer in ("chosen", "rejected")
    ]
    path = tmp_path / "pairs.csv"
    columns = ["language", "judge", "response", "score"]
    pd.DataFrame(rows, columns=columns).to_csv(path, index=False)
    refused = run(path)
    assert refused.exit_code == 1
    assert "--column pair=response" in refused.stderr
    assert "--facet" not in refused.stderr
    result = run(path, "--column", "pair=response")
    assert result.exit_code == 0
    shown = result.stdout.split()
    assert " ".join(shown).startswith("12 scores of 2 judges in 3 languages as cell means; single")
    assert "the rejected answer" in " ".join(shown)
    assert "preferred less other answer" in " ".join(shown)
    assert shown.index("2.25") < shown.index("3.25") < shown.index("4.25")


def test_a_table_without_languages_is_told_what_an_audit_needs(tmp_path):
    path = tmp_path / "means.csv"
    path.write_text("judge,model,score\nj,a,1\nj,b,2\n")
    result = run(path)
    assert result.exit_code == 1
    assert "the audit compares languages" in result.stderr
    assert "'model'" in result.stderr
    assert "--column language=COLUMN" in result.stderr
