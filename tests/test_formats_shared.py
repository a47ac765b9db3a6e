"""The samples beside the project, where they are there: real logs, by their own numbers."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from bayesjudge.scores import scan
from bayesjudge.scores.reading import read_raw
from tests.formats.reading import project, rows_of, said
from tests.golden.reml.cases import Absent, shared_data


def sample(*parts: str) -> Path:
    try:
        return shared_data("formats", *parts)
    except Absent as error:
        pytest.skip(str(error))


def read(*parts):
    table = read_raw(sample(*parts))
    return rows_of(table), said(table)


def mean(rows):
    scores = [row["score"] for row in rows if "score" in row]
    return math.fsum(scores) / len(scores)


INSPECT = "inspect/raw"


@pytest.mark.parametrize(
    "name",
    [
        "2024-11-05T13-31-45-05-00_input-task_8zXjbRzCWrL9GXiXo2vus9.json",
        "2024-11-05T13-32-37-05-00_input-task_hxs4q9azL3ySGkjJirypKZ.eval",
        "2025-02-11T15-18-04-05-00_popularity_mj7khqpMM4GBCfVQozKgzB.eval",
        "2025-05-12T20-28-13-04-00_popularity.json",
        "2025-05-12T20-28-26-04-00_security-guide.json",
        "log_formats.eval",
        "log_message_deduplication.eval",
        "log_read_sample.eval",
        "log_streaming.eval",
        "mmlu-summary-choices.eval",
    ],
)
def test_accuracies_of_inspect_logs(name):
    path = sample(INSPECT, name)
    if path.suffix == ".json":
        results = json.loads(path.read_text())["results"]
    else:
        import zipfile

        with zipfile.ZipFile(path) as archive:
            results = json.loads(archive.read("header.json"))["results"]
    rows = rows_of(read_raw(path))
    # One epoch, or the mean over epochs of as many scores an item.
    assert len(rows) == results["total_samples"]
    assert mean(rows) == pytest.approx(results["scores"][0]["metrics"]["accuracy"]["value"])


def test_the_demo_log_of_inspect():
    rows, told = read("inspect/generated/demo_model-x_trimmed.json")
    log = json.loads(sample("inspect/generated/demo_model-x_trimmed.json").read_text())
    assert len({(r["scenario"], r["generation"]) for r in rows}) == 12
    for result in log["results"]["scores"]:
        own = [r for r in rows if result["name"] in (r["scorer"], r["criterion"])]
        own = [r for r in own if r["scorer"] == result["scorer"]]
        items = {r["scenario"] for r in own if "score" in r}
        means = [mean([r for r in own if r["scenario"] == item]) for item in items]
        (value,) = (m["value"] for k, m in result["metrics"].items() if k in ("accuracy", "mean"))
        assert math.fsum(means) / len(means) == pytest.approx(value)
    judges = {r["scorer"]: r["judge"] for r in rows}
    assert judges["model_graded_qa"] == "mockllm/judge-a"
    assert judges["model_graded_qa1"] == "mockllm/judge-b"
    assert judges["rubric_1_10"] == "mockllm/judge-c"
    assert {r["language"] for r in rows} == {"hi", "en", "ar"}
    assert "sample error: RuntimeError('simulated provider failure') 5" in told


def test_lm_eval_against_its_results():
    for name, task in (("samples_demo_gen", "demo_gen"), ("samples_demo_mc", "demo_mc")):
        path = next(sample("lm_eval/raw").glob(f"{name}_*.jsonl"))
        (results,) = sample("lm_eval/raw").glob("results_*.json")
        summary = json.loads(results.read_text())
        rows = rows_of(read_raw(path))
        for key, value in summary["results"][task].items():
            metric, _, chosen = key.partition(",")
            if chosen and not metric.endswith("_stderr"):
                own = [r for r in rows if (r["criterion"], r["filter"]) == (metric, chosen)]
                assert len(own) == 3
                assert mean(own) == pytest.approx(value)
        assert {r["backbone"] for r in rows} == {summary["model_name"]}
    rows, _ = read("lm_eval/raw/real")
    assert {r["backbone"] for r in rows} == {"google/gemma-2-9b-it"}
    assert len(rows) == 60


def test_helm_failures_and_empty_outputs():
    rows, told = read("helm/raw/per_instance_stats.json")
    found = project(rows, "scenario", "generation", "judge", "score")
    assert len(found) == 18
    assert ("id1", "0", "llama", None) in found
    assert ("id1", "1", "claude", 3.0) in found
    assert ("id0", "0", "gpt", 8.0) in found
    assert "2 instances had an empty output" in told


def test_promptfoo_against_its_totals():
    rows, _ = read("promptfoo/raw/out.json")
    log = json.loads(sample("promptfoo/raw/out.json").read_text())
    errors = [r for r in rows if r.get("failure", "").startswith("provider error")]
    assert len(errors) == 3 * log["results"]["stats"]["errors"]
    assert sum(r.get("failure", "").startswith("judge:") for r in rows) == 3
    scores = {r["judge"]: {x.get("score") for x in rows if x["judge"] == r["judge"]} for r in rows}
    assert scores == {
        "file://judgeA.js": {0.8, None},
        "file://judgeB.js": {0.35, None},
        "javascript": {0.13, None},
    }
    assert {r["generation"] for r in rows} == {"0", "1"}
    lines, _ = read("promptfoo/raw/out.jsonl")
    assert sorted(map(repr, project(lines, "scenario", "judge", "score"))) == sorted(
        map(repr, project(rows, "scenario", "judge", "score"))
    )
    table, _ = read("promptfoo/raw/out.csv")
    assert sum("score" in row for row in table) == 18


def test_the_others():
    rows, _ = read("deepeval/raw/latest_test_run.json")
    assert project(rows, "scenario", "judge", "score") == [
        ("Q001", "judge-a", 0.9),
        ("Q001", "judge-b", 1.0),
        ("Q002", "judge-a", 0.3),
        ("Q002", "judge-b", 0.0),
    ]
    rows, _ = read("openai_evals/raw")
    assert mean(rows) == pytest.approx(1 / 3)
    rows, _ = read("mlflow/raw/result_df.json")
    found = project(rows, "scenario", "judge", "score")
    assert ("Capital of Jordan?", "judge-b", 1.0) in found
    assert ("ما عاصمة الأردن؟", "broken", None) in found
    assert len(found) == 6
    table, _ = read("mlflow/raw/result_df.csv")
    assert project(table, "scenario", "judge", "score") == found


def test_mt_bench_forks_are_a_table_still():
    try:
        path = shared_data("mt_bench_forks", "scores.csv")
    except Absent as error:
        pytest.skip(str(error))
    assert scan(path, replicates=True).n_rows == 2570
