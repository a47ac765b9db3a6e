"""``convert``, and logs read by the other commands: one leaderboard in one command."""

from __future__ import annotations

import json

import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet
from typer.testing import CliRunner

from bayesjudge.cli.app import app
from bayesjudge.cli.table_files import table_bytes
from bayesjudge.scores import read_scores
from bayesjudge.scores.reading import read_raw
from tests.formats.builders import CASES, NAMES, make, mt_bench_record

MODELS = ("amber", "बर्च", "[red]cedar[/red]")


def run(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


def judgments(model, judge, shift):
    records = make(mt_bench_record)
    for i, record in enumerate(records):
        score = min(10, 3 + shift + (i * 7 + len(judge)) % 5)
        record |= {"model": model, "judge": [judge, "single-v1"], "score": score}
    return records


@pytest.fixture
def logs(tmp_path):
    """Write a log for each of three models and two judges, in folders of their own."""
    folder = tmp_path / "logs"
    case = CASES["mt-bench"]
    for shift, model in enumerate(MODELS):
        for judge in ("gpt", "claude-3"):
            data, _ = case.pack(judgments(model, judge, shift))
            place = folder / f"run{shift}" / judge
            place.mkdir(parents=True)
            (place / "judgments.jsonl").write_bytes(data)
    return folder


def test_a_folder_of_logs_is_one_leaderboard_in_one_command(logs):
    result = run("rank", logs, "--json")
    assert result.exit_code == 0, result.stderr
    found = json.loads(result.stdout)
    assert [row["backbone"] for row in found["leaderboard"]] == list(reversed(MODELS))
    assert found["meta"]["n_scores"] == 60
    assert "6 logs of MT-Bench: 60 judgments read, 60 rows" in result.stderr


def test_several_sources_in_one_command(logs, tmp_path):
    words = [logs / "run0", f"{logs}/run1/*/*.jsonl", logs / "run2/gpt/judgments.jsonl"]
    result = run("validate", *words, "--json")
    assert result.exit_code == 0, result.stderr
    found = json.loads(result.stdout)
    assert found["n_scores"] == 50
    levels = {facet["name"]: facet["n_levels"] for facet in found["facets"]}
    assert (levels["backbone"], levels["judge"], levels["scenario"]) == (3, 2, 10)
    assert run("anova", logs / "run0", logs / "run1", "--json").exit_code == 0
    result = run("rank", tmp_path / "a.nc", logs)
    assert result.exit_code == 2
    assert "a saved fit is ranked by itself" in result.stderr


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
def test_a_converted_table_reads_as_its_logs_do(logs, tmp_path, suffix):
    out = tmp_path / f"table.{suffix}"
    result = run("convert", logs, "--out", out, "--json")
    assert result.exit_code == 0, result.stderr
    told = json.loads(result.stdout)
    assert (told["n_rows"], told["n_scores"], len(told["sources"])) == (60, 60, 6)
    direct, read = read_scores(logs), read_scores(out)
    assert (direct.score == read.score).all()
    assert direct.facets == read.facets
    assert set(read_raw(out).columns["log"].labels.levels) == {
        f"run{i}/{judge}/judgments.jsonl" for i in range(3) for judge in ("gpt", "claude-3")
    }


def test_convert_writes_over_nothing_unless_told(logs, tmp_path):
    out = tmp_path / "table.csv"
    out.write_text("mine")
    result = run("convert", logs, "--out", out)
    assert result.exit_code == 1
    assert "is there already" in result.stderr
    assert out.read_text() == "mine"
    assert run("convert", logs, "--out", out, "--force", "--quiet").exit_code == 0
    assert run("convert", logs, "--out", tmp_path / "table.txt").exit_code == 2
    assert run("convert", logs, "--out", tmp_path / "no/table.csv").exit_code == 1


def test_what_a_log_does_not_hold_is_asked_for(tmp_path):
    case = CASES["deepeval"]
    for model in ("x", "y"):
        case.write(tmp_path / "runs" / model)
    result = run("validate", tmp_path / "runs", "--json")
    assert result.exit_code == 1
    problems = json.loads(result.stdout)["problems"]
    assert problems[0]["what"] == "no column is known to be the backbone"
    (asked,) = [p for p in problems if "do not name the model" in p["what"]]
    assert "--column backbone=log" in asked["remedy"]
    found = run("validate", tmp_path / "runs", "--column", "backbone=log", "--json")
    facets = json.loads(found.stdout)["facets"]
    assert {f["name"]: f["n_levels"] for f in facets}["backbone"] == 2
    out = tmp_path / "x.csv"
    words = ("convert", tmp_path / "runs/x", "--out", out)
    assert run(*words, "--constant", "backbone=model x").exit_code == 0
    assert set(pd.read_csv(out)["backbone"]) == {"model x"}
    for constant in ("score=1", "scenario=q", "nonsense"):
        assert run(*words, "--force", "--constant", constant).exit_code == 2


def test_a_missing_label_is_no_empty_one(tmp_path):
    case = CASES["lm-eval"]
    case.write(tmp_path / "logs/a")
    CASES["mt-bench"].write(tmp_path / "logs/b")
    result = run("convert", tmp_path / "logs", "--out", tmp_path / "t.csv")
    assert result.exit_code == 1
    assert "CSV cannot tell from an empty label" in result.stderr
    assert run("convert", tmp_path / "logs", "--out", tmp_path / "t.parquet").exit_code == 0
    table = parquet.read_table(tmp_path / "t.parquet")
    assert table["judge"].null_count == 2 * len(NAMES)
    words = ("convert", tmp_path / "logs", "--out", tmp_path / "t.csv")
    assert run(*words, "--constant", "judge=the metric").exit_code == 0
    assert set(pd.read_csv(tmp_path / "t.csv")["judge"]) == {"the metric", "gpt-4"}


def test_losses_are_told_and_refused_when_strict(tmp_path):
    case = CASES["mt-bench"]
    data, ends = case.pack(case.records)
    path = case.write(tmp_path, data[: ends[5] + 9])
    out = tmp_path / "t.csv"
    result = run("convert", path, "--out", out)
    assert result.exit_code == 0
    assert "1 record or part of one was lost: record 7 at line 7 (not valid JSON" in result.stderr
    result = run("convert", path, "--out", out, "--force", "--strict")
    assert result.exit_code == 1
    assert "with --strict" in result.stderr
    assert run("rank", path, "--strict").exit_code == 1


def test_wide_tables_are_converted(tmp_path):
    path = tmp_path / "wide.csv"
    path.write_text("item,model,gpt,claude,tokens\nq1,a,1,2,99\nq1,b,3,,98\n")
    out = tmp_path / "long.csv"
    words = ("convert", path, "--format", "wide", "--ignore", "tokens", "--out", out)
    result = run(*words)
    assert result.exit_code == 0, result.stderr
    frame = pd.read_csv(out)
    assert list(frame.columns) == ["item", "model", "judge", "score"]
    assert frame["score"].tolist()[:3] == [1, 3, 2]
    assert "4 rows, 3 of them with a score" in result.stderr
    assert run("convert", path, "--format", "nonsense", "--out", out, "--force").exit_code == 2


def test_a_split_by_criterion_keeps_what_was_said_on_reading(logs):
    result = run("rank", logs, "--by", "turn", "--json")
    assert result.exit_code == 0, result.stderr
    assert "6 logs of MT-Bench" in result.stderr


def test_tables_of_nothing_but_labels_and_numbers():
    columns = {"a": ["x", None, "é,\n"], "score": [1.0, None, 0.1]}
    assert table_bytes(columns, ".csv").decode() == 'a,score\nx,1.0\n,\n"é,\n",0.1\n'
    assert table_bytes(columns, ".jsonl").decode().splitlines()[1] == '{"a": null, "score": null}'
    table = parquet.read_table(pa.BufferReader(table_bytes(columns, ".parquet")))
    assert table.to_pydict() == columns
