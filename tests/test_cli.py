"""The command line as scripts and people use it."""

from __future__ import annotations

import csv
import io
import json
import os
import signal
import subprocess
import sys

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import bayesjudge as bj
from bayesjudge.cli.app import app
from bayesjudge.report.page.names import TABLE_FILES
from bayesjudge.report.results_folder import INDEX_FILES, RESULT_FILES, folder_name
from bayesjudge.simulation import simulate

FAST = ["--draws", "40", "--tune", "40", "--chains", "2", "--allow-unconverged"]
LABELS = ["[red]x[/red]", "\x1b[31mesc", "01", "NA", "नमस्ते", "نموذج"]

TINY = """
name = "tiny"
summary = "Backbones and judges."
family = "gaussian"
intercept = { normal = 2.0 }
term = [
  { facets = ["backbone"], scale = { half_normal = 2.0 } },
  { facets = ["judge"], scale = { half_normal = 1.0 } },
  { facets = ["scenario"], scale = { half_normal = 1.0 } },
]
residual = { scale = { half_normal = 1.0 } }
"""


def run(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("cli")


@pytest.fixture(scope="module")
def model(folder):
    path = folder / "tiny.toml"
    path.write_text(TINY)
    return path


@pytest.fixture(scope="module")
def table(folder):
    """Six backbones with awkward labels, two criteria of which one cannot be ranked."""
    made = simulate(
        backbones=LABELS, scenarios=4, judges=2, sd={"residual": 0.4}, random_seed=1
    ).table
    good = made.assign(criterion="Good one/..", note="x")
    alone = made[made["backbone"] == "01"].assign(criterion="alone", note="y")
    path = folder / "scores.csv"
    pd.concat([good, alone]).to_csv(path, index=False)
    return path


@pytest.fixture(scope="module")
def ranked(folder, table, model):
    """One run with everything written, used by many tests."""
    words = ("--where", "criterion=Good one/..", "--model", model, *FAST)
    return run("rank", table, *words, "--json", "--out", folder / "out"), folder / "out"


def test_json_has_the_keys_of_the_contract(ranked):
    result, _ = ranked
    assert result.exit_code == 0, result.stderr
    found = json.loads(result.stdout)
    assert set(found) == {
        "leaderboard",
        "best_set",
        "rank_probabilities",
        "pairwise",
        "diagnostics",
        "human",
        "readings",
        "reliability",
        "missing_bounds",
        "meta",
    }
    assert " ".join(found["leaderboard"][0]) == (
        "backbone mean sd ci_lower ci_upper expected_rank rank_lower rank_upper rank_lower_sim "
        "rank_upper_sim p_best sucra sucra_lower sucra_upper tier"
    )
    assert {row["backbone"] for row in found["leaderboard"]} == set(LABELS)
    assert set(found["rank_probabilities"]) == set(LABELS)
    assert all(abs(sum(row) - 1) < 1e-9 for row in found["rank_probabilities"].values())
    assert found["pairwise"]["01"]["01"] is None
    diagnostics = {"r_hat_max", "ess_bulk_min", "ess_tail_min", "divergences", "converged"}
    assert diagnostics <= set(found["diagnostics"])
    meta = found["meta"]
    named = (
        "model engine family ci_prob ci_kind n_scores n_excluded dropped_terms panel random "
        "seed seconds"
    )
    assert set(named.split()) <= set(meta)
    assert (meta["model"], meta["n_scores"], meta["ci_kind"]) == ("tiny", 48, "eti")
    assert "note" in meta["unused_columns"]
    assert meta["question"]["judges"].startswith("the panel")


def test_messages_say_what_was_assumed(ranked):
    said = ranked[0].stderr
    for part in ("columns: score <- score", "columns not used: criterion, note", "seed 0"):
        assert part in said
    for part in ("priors in units of", "judges: the panel", "scenarios: new scenarios"):
        assert part in said
    assert "\x1b" not in said


def test_the_folder_holds_every_file(ranked):
    _, out = ranked
    names = {p.name for p in out.iterdir() if not p.name.startswith(".")}
    assert set(RESULT_FILES) <= names <= {*RESULT_FILES, *TABLE_FILES}
    with (out / "leaderboard.csv").open(newline="", encoding="utf-8") as file:
        assert {row["backbone"] for row in csv.DictReader(file)} == set(LABELS)
    stored = json.loads((out / "result.json").read_text(encoding="utf-8"))
    assert stored == json.loads(ranked[0].stdout)
    report = (out / "report.md").read_text(encoding="utf-8")
    assert "bayesjudge rank" in report
    assert "\x1b" not in report
    offsets = pd.read_csv(out / "offsets.csv", keep_default_na=False)
    assert set(offsets["term"]) == {"backbone", "judge"}


def test_a_saved_fit_gives_the_same_answer_and_takes_no_table_options(ranked):
    result, out = ranked
    again = run("rank", out / "posterior.nc", "--json", "--allow-unconverged")
    assert again.exit_code == 0, again.stderr
    first, second = json.loads(result.stdout), json.loads(again.stdout)
    for key in ("leaderboard", "rank_probabilities", "pairwise", "diagnostics"):
        assert first[key] == second[key]
    assert bj.load(out / "posterior.nc").labels == tuple(sorted(LABELS))
    refused = run("rank", out / "posterior.nc", "--seed", 1)
    assert refused.exit_code == 2
    assert "--seed" in refused.stderr


def test_the_folder_is_written_again_but_not_over_what_others_wrote(ranked):
    _, out = ranked
    fit = out / "posterior.nc"
    assert run("rank", fit, "--allow-unconverged", "--out", out).exit_code == 0
    other = out.parent / "other"
    other.mkdir()
    (other / "report.md").write_text("mine")
    result = run("rank", fit, "--allow-unconverged", "--out", other)
    assert result.exit_code == 1
    assert "report.md" in result.stderr
    assert not result.stdout
    assert (other / "report.md").read_text() == "mine"


def test_the_leaderboard_for_people_shows_labels_and_an_alarm(ranked):
    result = run("rank", ranked[1] / "posterior.nc", "--quiet")
    converged = json.loads(ranked[0].stdout)["diagnostics"]["converged"]
    assert result.exit_code == (0 if converged else 1)
    assert ("NOT CONVERGED" in result.stdout) is not converged
    assert "[red]x[/red]" in result.stdout
    assert "\x1b" not in result.stdout
    assert "नमस्ते" in result.stdout


def test_unconverged_exits_1_with_its_leaderboard(table, model):
    words = ["--where", "criterion=Good one/..", "--model", model, *FAST[:-1]]
    result = run("rank", table, *words, "--engine", "numpyro")
    assert result.exit_code == 1
    assert "NOT CONVERGED" in result.stdout
    assert "--allow-unconverged" in result.stderr
    assert "Traceback" not in result.stderr


def test_by_answers_what_it_can(table, model, folder):
    out = folder / "groups"
    result = run(
        "rank", table, "--by", "criterion", "--model", model, *FAST, "--json", "--out", out
    )
    assert result.exit_code == 1
    found = json.loads(result.stdout)
    assert found["by"] == "criterion"
    assert set(found["groups"]) == {"Good one/..", "alone"}
    assert "leaderboard" in found["groups"]["Good one/.."]
    assert "one backbone" in found["groups"]["alone"]["error"]["what"]
    assert set(INDEX_FILES) <= {p.name for p in out.iterdir()}
    with (out / "index.csv").open(newline="", encoding="utf-8") as file:
        rows = {row["level"]: row for row in csv.DictReader(file)}
    assert rows["alone"]["status"] == "failed"
    assert (out / rows["Good one/.."]["folder"] / "leaderboard.csv").is_file()


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["rank", "nothing.csv"], 1, "no such file"),
        (["rank", "nothing.nc"], 1, "does not exist"),
        (["validate", "nothing.csv"], 1, "no such file"),
        (["rank", "{table}"], 1, "criterion"),
        (["rank", "{table}", "--model", "none"], 1, "no model"),
        (["rank", "{table}", "--prior", "judge"], 1, "--prior"),
        (["rank", "{table}", "--engine", "magic"], 2, "no engine"),
        (["rank", "{table}", "--ci-prob", "2"], 2, "ci_prob"),
        (["rank", "{table}", "--rope", "-1"], 2, "rope"),
        (["rank", "{table}", "--draws", "0"], 2, "draws"),
        (["rank", "{table}", "--column", "backbone"], 2, "ROLE=COLUMN"),
        (["rank", "{table}", "--by", "backbone"], 2, "serves as backbone"),
        (["rank", "{table}", "--scale", "9", "1"], 2, "--scale"),
        (["rank", "{table}", "--finite-scenarios", "--scenario-pool", "9"], 2, "--scenario-pool"),
        (["rank"], 2, "SOURCE"),
        (["rank", "{table}", "--no-such-option"], 2, "--no-such-option"),
        (["models", "none"], 1, "no model"),
        (["models", "--toml"], 2, "Name a model"),
        (["simulate", "x.txt"], 2, ".csv"),
        (["demo", "--generations", "0"], 2, "generations"),
    ],
)
def test_what_goes_wrong_is_said_with_its_code(table, words, code, message):
    result = run(*(word.format(table=table) for word in words))
    assert result.exit_code == code, result.stderr
    assert message in result.stderr
    assert "Traceback" not in result.stderr
    assert not result.stdout


def test_validate_speaks_json(table):
    result = run("validate", table, "--json")
    assert result.exit_code == 1
    found = json.loads(result.stdout)
    assert {"facets", "design", "problems"} <= set(found)
    assert set(found["problems"][0]) == {"severity", "what", "where", "rows", "remedy"}
    assert found["problems"][0]["severity"] == "error"
    good = run("validate", table, "--json", "--where", "criterion=Good one/..")
    assert good.exit_code == 0
    found = json.loads(good.stdout)
    assert [facet["name"] for facet in found["facets"]] == ["backbone", "judge", "scenario"]
    assert found["design"]["balanced"] is True
    assert "language" in found["model"]["dropped_terms"]


def test_validate_for_people_and_by_level(table):
    result = run("validate", table, "--by", "criterion")
    assert result.exit_code == 1
    assert "criterion Good one/.." in result.stdout
    assert "there is one" in result.stdout
    assert set(json.loads(run("validate", table, "--by", "criterion", "--json").stdout)) == {
        "by",
        "groups",
    }


def test_models():
    listed = json.loads(run("models", "--json").stdout)["models"]
    assert [m["name"] for m in listed] == list(bj.shipped_models())
    assert "crossed_common" in run("models").stdout
    shown = run("models", "crossed").stdout
    assert "half_normal:2" in shown
    assert 'name = "crossed"' in run("models", "crossed", "--toml").stdout
    assert json.loads(run("models", "crossed", "--json").stdout)["family"] == "gaussian"


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
def test_simulate_writes_what_read_scores_reads(tmp_path, suffix):
    path, truth = tmp_path / f"t.{suffix}", tmp_path / "truth.json"
    words = ["simulate", path, "--backbones", 2, "--scenarios", 3, "--sd", "residual=0.5"]
    result = run(*words, "--truth", truth, "--json")
    assert result.exit_code == 0, result.stderr
    assert json.loads(result.stdout)["n_rows"] == 30
    expected = simulate(backbones=2, scenarios=3, sd={"residual": 0.5})
    assert bj.read_scores(path).score.tolist() == bj.read_scores(expected.table).score.tolist()
    stored = json.loads(truth.read_text())
    assert stored["backbone_mean"] == expected.truth["backbone_mean"].tolist()
    again = run(*words)
    assert again.exit_code == 1
    assert "--force" in again.stderr
    assert run(*words, "--force").exit_code == 0


@given(st.lists(st.text(st.characters(exclude_characters="\0")), unique=True, max_size=20))
@settings(deadline=None)
def test_folder_names_are_safe_and_apart(labels):
    names = [folder_name(label) for label in labels]
    assert len({name.casefold() for name in names}) == len(labels)
    assert all(
        name.isascii() and name.replace("-", "").replace("_", "").isalnum() for name in names
    )


def command(*words, **keywords):
    return subprocess.run(
        [sys.executable, "-c", "from bayesjudge.cli import main; main()", *map(str, words)],
        capture_output=True,
        text=True,
        check=False,
        **keywords,
    )


def test_a_real_run_is_repeatable_and_ascii_terminals_do_not_stop_it(table, model, ranked):
    words = ("--where", "criterion=Good one/..", "--model", model, *FAST)
    real = command("rank", table, *words, env={**os.environ, "PYTHONIOENCODING": "ascii"})
    assert real.returncode == 0, real.stderr
    assert "\\u0928" in real.stdout
    assert "Traceback" not in real.stderr
    missing = command("rank", "nothing.csv")
    assert (missing.returncode, missing.stdout) == (1, "")
    assert missing.stderr.startswith("error: ")
    assert len(missing.stderr.splitlines()) == 1


def test_a_reader_that_goes_away_hears_nothing(table):
    reader, writer = os.pipe()
    os.close(reader)
    code = "from bayesjudge.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, "validate", str(table), "--json"],
        stdout=writer,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    os.close(writer)
    assert "Traceback" not in done.stderr
    assert "Broken" not in done.stderr
    assert done.returncode in {1, 141}


def test_an_interrupt_is_quiet(monkeypatch, table):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("bayesjudge.cli.validating.run_validate", interrupt)
    result = run("validate", table)
    assert result.exit_code == 128 + signal.SIGINT
    assert "Traceback" not in result.stderr


def test_demo_says_that_it_is_simulated(monkeypatch, model):
    from bayesjudge.cli import ranks

    monkeypatch.setattr(ranks, "read_model", lambda _: bj.read_model(model))
    result = run("demo", "--generations", 1, "--json", *FAST)
    assert result.exit_code == 0, result.stderr
    assert "Simulated" in result.stderr
    found = json.loads(result.stdout)
    assert found["meta"]["simulated"] is True
    assert len(found["leaderboard"]) == 5
    assert pd.read_json(io.StringIO(json.dumps(found["leaderboard"]))).shape[0] == 5


@pytest.mark.parametrize(
    ("words", "meaning"),
    [
        (["--finite-scenarios"], "the table's 4 scenarios only"),
        (["--scenario-pool", 9], "a pool of 9 scenarios, of which the table holds 4"),
        ([], "new scenarios like the table's 4"),
    ],
)
def test_the_question_about_scenarios_is_named(ranked, words, meaning):
    fit = ranked[1] / "posterior.nc"
    result = run("rank", fit, "--json", "--allow-unconverged", *words)
    assert result.exit_code == 0, result.stderr
    assert json.loads(result.stdout)["meta"]["question"]["scenarios"] == meaning


def test_a_pool_smaller_than_the_table_is_refused(ranked):
    result = run("rank", ranked[1] / "posterior.nc", "--scenario-pool", 3)
    assert result.exit_code == 2
    assert "smaller than" in result.stderr
