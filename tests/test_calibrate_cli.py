"""``bayesjudge calibrate`` as scripts and people use it."""

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
from bayesjudge.cli.app import app
from bayesjudge.report.calibration_report import CALIBRATION_FILES
from bayesjudge.report.results_folder import INDEX_FILES
from tests.cbc_tables import BACKBONES, LANGUAGES, cell_scores, frame

QUICK = ("--splits", "20", "--resamples", "499")
CLOSED = (*QUICK, "--closed-form")
SAID = ("label-free consistency is not correctness", "is reproducible")


def run(*words):
    return CliRunner().invoke(app, ["calibrate", *map(str, words)])


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """One criterion is complete with gold, the other falls into two parts."""
    y = cell_scores(noise=0.1)
    gold = cell_scores(noise=0.0, gamma=np.zeros((4, 3)))
    parted = y.copy()
    parted[:, :2, 1:] = parted[:, 2:, :1] = np.nan
    path = tmp_path_factory.mktemp("calibrate") / "scores.csv"
    parts = [
        frame(y, criterion="Whole/..", human_score=gold.ravel()),
        frame(parted, criterion="parted"),
    ]
    pd.concat(parts).to_csv(path, index=False)
    return path


WHOLE = ("--where", "criterion=Whole/..")


def test_json_has_the_keys_of_the_contract(table):
    result = run(table, *WHOLE, *QUICK, "--json", "--rope", "0.1", "--scale", "0", "10")
    assert result.exit_code == 0, result.stderr
    found = json.loads(result.stdout)
    assert list(found) == [
        "interaction", "adjusted", "reversals", "held_out", "agreement", "meta",
    ]  # fmt: skip
    assert {"language", "backbone", "estimate", "se", "bound"} <= set(found["interaction"][0])
    assert {"language", "backbone", "mean", "adjusted"} <= set(found["adjusted"][0])
    assert len(found["interaction"]) == len(found["adjusted"]) == 12
    four = ("raw_tau", "adjusted_tau", "raw_oracle_agreement", "adjusted_oracle_agreement")
    assert set(four) <= set(found["held_out"])
    assert {"raw_tau_between_halves", "rmse_with_interaction", "rmse_without_interaction"} <= set(
        found["held_out"]
    )
    meta = found["meta"]
    assert SAID[0] in meta["label_free"]
    assert SAID[1] in meta["reproducible"]
    assert (meta["model"], meta["engine"], meta["n_tasks"]) == ("language_backbone", "exact", 24)
    assert meta["posterior"]["converged"]
    assert meta["posterior"]["largest_difference_in_se"] > 0
    assert found["agreement"][0]["measure"] == "pairs"
    assert found["reversals"][0]["p_posterior_rope"] is not None
    assert found["interaction"][0]["bound_range"] > 0
    assert found["interaction"][0]["bound_proxy"] is None
    assert "interaction of language and backbone, as --between was not given" in result.stderr
    assert SAID[0] not in result.stderr  # it is in the answer itself


def test_people_see_tables_and_no_escape_sequence(table):
    result = run(table, *WHOLE, *CLOSED, "--quiet")
    assert result.exit_code == 0
    assert not result.stderr
    told = " ".join(result.stdout.split())
    for text in (*SAID, "Ranks of backbone", "Rank reversals", "held-out tasks", "human_score"):
        assert text in told
    assert "[red]x[/red]" in result.stdout
    assert "\x1b" not in result.stdout


def test_the_posterior_is_shown_to_people_too(table):
    result = run(table, *WHOLE, *QUICK)
    assert result.exit_code == 0, result.stderr
    assert "posterior converged; it differs from the closed form by at most" in result.stderr
    assert "apart in" in " ".join(result.stdout.split())


def test_long_tables_are_left_to_files(tmp_path):
    y = np.random.default_rng(0).normal(size=(5, 8, 9))
    labels = [f"b{i}" for i in range(9)]
    path = tmp_path / "t.csv"
    frame(y, languages=[f"l{i}" for i in range(8)], backbones=labels).to_csv(path, index=False)
    result = run(path, *CLOSED)
    shown, elsewhere = result.stdout.split("In --json and --out only")
    assert "Interaction of" not in shown
    assert "Interaction of" in elsewhere


def test_the_folder_holds_every_file_and_is_not_written_over_others(table, tmp_path):
    out = tmp_path / "out"
    result = run(table, *WHOLE, *QUICK, "--json", "--out", out)
    assert result.exit_code == 0, result.stderr
    assert {p.name for p in out.iterdir() if not p.name.startswith(".")} == set(CALIBRATION_FILES)
    told = json.loads(result.stdout)
    assert json.loads((out / "result.json").read_text("utf-8")) == told
    assert bj.load(out / "posterior.nc").convergence.converged
    with (out / "adjusted_scores.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    raw = pd.read_csv(table, dtype={"language": str}, keep_default_na=False)
    assert len(rows) == (raw["criterion"] == "Whole/..").sum()
    off = {(r["language"], r["backbone"]): r["estimate"] for r in told["interaction"]}
    for row in rows[::7]:
        source = raw.iloc[int(row["row"]) - 1]
        assert (source["scenario"], source["language"]) == (row["scenario"], row["language"])
        assert float(row["score"]) == source["score"]
        expected = source["score"] - off[row["language"], row["backbone"]]
        assert float(row["adjusted_score"]) == pytest.approx(expected)
    report = (out / "report.md").read_text("utf-8")
    for text in (*SAID, "bayesjudge calibrate", "a\\|b", "Consistency on held-out tasks"):
        assert text in report
    assert "\x1b" not in report
    (out / "report.md").write_text("mine")
    refused = run(table, *WHOLE, *CLOSED, "--out", out)
    assert refused.exit_code == 1
    assert "report.md" in refused.stderr
    assert not refused.stdout


def test_rows_left_out_do_not_shift_the_others(tmp_path):
    made = frame(cell_scores(n=5)).astype({"score": object})
    made.loc[0, "score"] = "n/a"
    path, out = tmp_path / "t.csv", tmp_path / "o`ut"
    made.to_csv(path, index=False)
    result = run(path, *CLOSED, "--out", out)
    assert result.exit_code == 0, result.stderr
    assert "1 rows excluded" in result.stderr
    found = pd.read_csv(out / "adjusted_scores.csv")
    assert found["row"].tolist() == list(range(2, len(made) + 1))
    assert "agreement.csv" not in {p.name for p in out.iterdir()}
    assert "What was found in the table" in (out / "report.md").read_text("utf-8")


def test_by_answers_what_it_can(table, tmp_path):
    out = tmp_path / "groups"
    result = run(table, "--by", "criterion", *CLOSED, "--json", "--out", out)
    assert result.exit_code == 1
    found = json.loads(result.stdout)
    assert found["by"] == "criterion"
    assert "interaction" in found["groups"]["Whole/.."]
    assert "share no language" in found["groups"]["parted"]["error"]["what"]
    assert set(INDEX_FILES) <= {p.name for p in out.iterdir()}
    with (out / "index.csv").open(newline="", encoding="utf-8") as file:
        rows = {row["level"]: row for row in csv.DictReader(file)}
    assert rows["parted"]["status"] == "failed"
    assert (out / rows["Whole/.."]["folder"] / "adjusted_scores.csv").is_file()
    shown = run(table, *WHOLE, "--by", "criterion", *CLOSED)
    assert shown.exit_code == 0
    assert "criterion Whole/.." in shown.stdout


def test_any_two_facets(table):
    result = run(table, *WHOLE, *CLOSED, "--between", "backbone", "language", "--json")
    assert result.exit_code == 0, result.stderr
    found = json.loads(result.stdout)
    assert list(found["interaction"][0])[:2] == ["backbone", "language"]
    assert "--between was not given" not in result.stderr


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_posterior_that_did_not_converge_is_said_and_exits_1(table, tmp_path, monkeypatch):
    from bayesjudge.engines import convergence

    monkeypatch.setattr(convergence, "ESS_LIMIT", 1e9)
    out = tmp_path / "out"
    result = run(table, *WHOLE, *QUICK, "--out", out)
    assert result.exit_code == 1
    assert "did not converge" in result.stderr
    assert "NOT CONVERGED" in result.stdout
    assert "NOT CONVERGED" in (out / "report.md").read_text("utf-8")
    allowed = run(table, *WHOLE, *QUICK, "--allow-unconverged", "--json")
    assert allowed.exit_code == 0
    assert not json.loads(allowed.stdout)["meta"]["posterior"]["converged"]
    grouped = run(table, *WHOLE, *QUICK, "--by", "criterion")
    assert grouped.exit_code == 1
    assert "(Whole/..)" in grouped.stderr


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["nothing.csv"], 1, "no such file"),
        (["{table}", "--where", "criterion=parted"], 1, "share no language"),
        (["{table}", *WHOLE, "--between", "judge", "backbone"], 1, "no facet 'judge'"),
        (["{table}", *WHOLE, "--between", "language", "language"], 2, "interact with itself"),
        (["{table}", *WHOLE, "--model", "none"], 1, "no model"),
        (["{table}", *WHOLE, "--model", "verdict"], 1, "gaussian"),
        (["{table}", *WHOLE, "--ci-prob", "2"], 2, "ci_prob"),
        (["{table}", *WHOLE, "--splits", "0"], 2, "splits"),
        (["{table}", *WHOLE, "--closed-form", "--draws", "9"], 2, "--closed-form"),
        (["{table}", *WHOLE, "--engine", "none"], 2, "no engine"),
        ([], 2, "SOURCE"),
    ],
)
def test_what_goes_wrong_is_said_with_its_code(table, words, code, message):
    result = run(*(word.format(table=table) for word in words))
    assert result.exit_code == code, result.stderr
    assert message in result.stderr
    assert "Traceback" not in result.stderr
    assert not result.stdout


def test_python_and_the_command_agree_and_the_seed_decides(table):
    told = json.loads(run(table, *WHOLE, *CLOSED, "--seed", "3", "--json", "--quiet").stdout)
    rows = pd.read_csv(table, keep_default_na=False, dtype={"language": str})
    scores = bj.read_scores(rows, where={"criterion": "Whole/.."})
    found = bj.calibrate(scores, model=None, splits=20, resamples=499, random_seed=3)
    for column in ("estimate", "se", "bound"):
        ours = found.interaction[column].tolist()
        assert [row[column] for row in told["interaction"]] == pytest.approx(ours)
    assert [r["p_holm"] for r in told["reversals"]] == found.reversals["p_holm"].tolist()
    assert told["held_out"]["raw_tau"] == found.held_out.raw_tau
    assert set(BACKBONES) == {row["backbone"] for row in told["adjusted"]}
    assert set(LANGUAGES) == {row["language"] for row in told["adjusted"]}


def test_nothing_of_the_samplers_is_loaded_by_the_closed_form(table):
    code = (
        "import sys\nfrom bayesjudge.cli import main\n"
        f"sys.argv = ['bayesjudge', 'calibrate', {str(table)!r}, *{[*WHOLE, *CLOSED]!r}]\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert not end.code\n"
        "print([m for m in ('jax', 'numpyro', 'xarray', 'arviz_base', 'arviz_stats', 'pymc',"
        " 'scipy.stats') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
