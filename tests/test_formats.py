"""Each tool's log: every cell against the log's own numbers, and the tool's quirks."""

from __future__ import annotations

import copy
import gzip
import json

import pytest

from bayesjudge.errors import DataError, UsageError
from bayesjudge.scores.formats import NAMES as FORMATS
from bayesjudge.scores.formats import check_format, detecting, find_format
from bayesjudge.scores.formats.promptfoo import says_no_reply
from bayesjudge.scores.reading import read_raw
from tests.formats import builders as b
from tests.formats.builders import CASES, JUDGES, NAMES, SCORES
from tests.formats.reading import project, read_rows, rows_of, said

ITEMS = range(len(NAMES))


def inspect_cells():
    for i in ITEMS:
        letter = "CIPN"[i % 4]
        worth = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}[letter]
        yield (NAMES[i], "model/x", "judge-a", "model_graded_qa", worth)
        yield (NAMES[i], "model/x", "rubric", "clarity", float(SCORES[i, 0]))
        yield (NAMES[i], "model/x", "rubric", "depth", float(SCORES[i, 1]))


def by_judge(model, criterion, scale=1.0):
    for i in ITEMS:
        for j, judge in enumerate(JUDGES):
            yield (NAMES[i], model, judge, criterion, SCORES[i, j] / scale)


EXPECTED = {
    "inspect-eval": lambda: inspect_cells(),
    "inspect-json": lambda: inspect_cells(),
    "lm-eval": lambda: (
        (NAMES[i], "org/model-x", None, metric, score)
        for i in ITEMS
        for metric, score in (("acc", float(i % 2)), ("f1", SCORES[i, 0] / 10))
    ),
    "helm": lambda: (
        (NAMES[i], "org/x", judge, "wildbench_score", None if (i, j) == (2, 1) else SCORES[i, j])
        for i in ITEMS
        for j, judge in enumerate(("gpt", "claude"))
    ),
    "promptfoo": lambda: by_judge("model-x", "right", 10),
    "promptfoo-jsonl": lambda: by_judge("model-x", "right", 10),
    "promptfoo-csv": lambda: (
        (NAMES[i], model, None, "right", round(SCORES[i, j] / 10, 2))
        for i in ITEMS
        for j, model in enumerate(("model-x", "model-y"))
    ),
    "deepeval": lambda: by_judge(None, "Correctness [GEval]", 10),
    "mlflow": lambda: by_judge(None, "correct"),
    "mlflow-csv": lambda: ((NAMES[i], None, "right", "right", SCORES[i, 0]) for i in ITEMS),
    "openai-evals": lambda: (
        (NAMES[i], "model-x", None, "match", float(i % 3 == 0)) for i in ITEMS
    ),
    "alpaca-eval": lambda: (
        (NAMES[i], "model-x", "judge-a", None, (0.0, 1.0, 0.5, 0.5, 0.25)[i % 5]) for i in ITEMS
    ),
    "mt-bench": lambda: (
        (NAMES[i], "model-x", "gpt-4", None, None if i == 3 else SCORES[i, 0]) for i in ITEMS
    ),
    "reward-bench": lambda: reward_cells(),
    "reward-bench-csv": lambda: reward_cells(),
}


def reward_cells():
    for i in ITEMS:
        yield (NAMES[i], "model-x", "reward-a", None, float(SCORES[i, 0]))
        yield (NAMES[i], "model-y", "reward-a", None, SCORES[i, 1] - 0.5)


@pytest.mark.parametrize("name", CASES)
def test_every_cell_of_a_log(name, tmp_path):
    case = CASES[name]
    path = case.write(tmp_path)
    assert find_format(path) == case.format
    rows = read_rows(path)
    found = project(rows, "scenario", "backbone", "judge", "criterion", "score")
    expected = list(EXPECTED[name]())
    assert sorted(map(repr, found)) == sorted(
        repr((*cell[:4], None if cell[4] is None else float(cell[4]))) for cell in expected
    )
    # Where there is no score there is a reason, and nowhere else.
    assert all(("score" in row) != ("failure" in row) for row in rows)
    assert {row["log"] for row in rows} == {case.file}


def test_formats_can_be_forced(tmp_path):
    case = CASES["mt-bench"]
    path = case.write(tmp_path)
    assert read_raw(path, "mt-bench").n_rows == len(NAMES)
    assert "user_prompt" in read_raw(path, "table").columns
    with pytest.raises(UsageError, match="no format 'nonsense'"):
        check_format("nonsense")
    assert all(check_format(name) == name for name in FORMATS)
    # Forced upon another tool's log nothing is understood, and nothing invented.
    with pytest.raises(DataError, match="no record of the log could be read"):
        read_raw(path, "helm")


def write(tmp_path, name, text):
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text if isinstance(text, str) else json.dumps(text))
    return path


def test_lm_eval_filters_repeats_and_pooled_metrics(tmp_path):
    def record(doc, chosen, **metrics):
        return {
            "doc_id": doc,
            "doc": {"lang": "ar", "text": "long " * 50},
            "resps": [["4", "5"]],
            "filtered_resps": ["4"],
            "filter": chosen,
            "metrics": list(metrics),
            **metrics,
        }

    rows = [
        record(0, "strict", exact=1.0, each=[1, 0], pooled=[0.5, 7, 9]),
        record(0, "flexible", exact=0.0, each=[0, 0], pooled=[0.5, 7, 9]),
    ]
    folder = tmp_path / "org__model"
    path = write(folder, "samples_t_2026-01-01T00-00-00.1.jsonl", "\n".join(map(json.dumps, rows)))
    table = read_raw(path)
    found = project(rows_of(table), "filter", "criterion", "generation", "score")
    assert found == [
        ("strict", "exact", None, 1.0),
        ("strict", "each", "0", 1.0),
        ("strict", "each", "1", 0.0),
        ("strict", "pooled", None, None),
        ("flexible", "exact", None, 0.0),
        ("flexible", "each", "0", 0.0),
        ("flexible", "each", "1", 0.0),
        ("flexible", "pooled", None, None),
    ]
    assert {row["backbone"] for row in rows_of(table)} == {"org/model"}
    assert "is read from the name of the folder" in said(table)
    assert "up to 2 answers were drawn" in said(table)
    assert {row["doc.lang"] for row in rows_of(table)} == {"ar"}
    assert "doc.text" not in table.columns


def test_older_lm_eval_files_name_no_metrics(tmp_path):
    record = {
        "doc_id": 3,
        "doc": {},
        "target": 4,
        "resps": [["x"]],
        "filtered_resps": ["x"],
        "bleu_max": 2.5,
        "bleu_acc": 1,
        "doc_hash": "00",
    }
    path = write(tmp_path, "samples_t_2024-01-01T00-00-00.1.jsonl", record)
    write(
        tmp_path,
        "results_2024-01-01T00-00-00.1.json",
        {"config": {"model_args": "pretrained=org/model,dtype=x"}, "results": {}},
    )
    rows = read_rows(path)
    assert project(rows, "criterion", "filter", "score", "backbone") == [
        ("bleu_max", "none", 2.5, "org/model"),
        ("bleu_acc", "none", 1.0, "org/model"),
    ]


def test_helm_judges_of_annotations_and_empty_outputs(tmp_path):
    folder = tmp_path / "wildbench:subset=v2,model=openai_gpt"
    stats = [b.helm_record(0), b.helm_record(1)]
    stats[1]["perturbation"] = {"name": "typos"}
    stats[0]["stats"].append(b.helm_stat("exact_match", 1))
    notes = [
        {
            "instance_id": NAMES[i],
            "train_trial_index": 0,
            "annotations": {
                "wildbench": {"gpt_score": 3, "claude_score": 2}
                if i
                else {"empty_output_score": 1.0}
            },
        }
        for i in (0, 1)
    ]
    path = write(folder, "per_instance_stats.json", stats)
    write(folder, "display_predictions.json", notes)
    table = read_raw(folder)
    rows = rows_of(table)
    assert {row["judge"] for row in rows if "judge" in row} == {"gpt", "claude"}
    assert [row["criterion"] for row in rows if "judge" not in row] == ["exact_match"]
    assert {row["scenario"] for row in rows if row.get("empty_output")} == {NAMES[0]}
    assert "scores by rule without asking a judge" in said(table)
    assert "1 statistics on tokens" in said(table)
    assert {row["backbone"] for row in rows} == {"openai_gpt"}
    assert {row["task_name"] for row in rows} == {"wildbench:subset=v2"}
    assert {row.get("perturbation") for row in rows} == {None, "typos"}
    assert read_raw(path).n_rows == table.n_rows


def test_promptfoo_failures_are_no_zeros(tmp_path):
    def result(index, prompt=0, provider="x", **changes):
        record = b.promptfoo_record(0)
        record |= {"testIdx": index, "provider": {"id": f"custom:{provider}"}}
        record["prompt"]["label"] = f"prompt {prompt}"
        record["testCase"]["assert"] = [{"type": "llm-rubric", "metric": "right"}]
        return record | changes

    gone = result(1, failureReason=2, score=0, gradingResult=None)
    gone["response"] = {"error": "HTTP 500\nbody"}
    speechless = result(2)
    parts = speechless["gradingResult"]["componentResults"]
    parts[0] |= {
        "score": 0,
        "pass": False,
        "reason": "Could not extract JSON from llm-rubric response",
    }
    parts[1] |= {"score": 0, "pass": False, "reason": "The answer is wrong"}
    parts.append({"pass": False, "score": 0, "reason": "No", "assertion": {"type": "javascript"}})
    nested = result(3)
    nested["gradingResult"]["componentResults"] = [
        {
            "pass": True,
            "score": 1,
            "componentResults": speechless["gradingResult"]["componentResults"],
        }
    ]
    default = result(4)
    del default["gradingResult"]["componentResults"][0]["assertion"]["provider"]
    path = write(
        tmp_path,
        "out.json",
        {
            "evalId": "e",
            "results": {"version": 3, "results": [result(0), gone, speechless, nested, default]},
        },
    )
    table = read_raw(path)
    rows = rows_of(table)
    by_generation = {}
    for row in rows:
        by_generation.setdefault(row["generation"], []).append(row)
    assert project(by_generation["0"], "judge", "score") == [("judge-a", 0.1), ("judge-b", 0.6)]
    assert project(by_generation["1"], "score", "failure") == [(None, "provider error: HTTP 500")]
    assert project(by_generation["2"], "judge", "score") == [
        ("judge-a", None),
        ("judge-b", 0.0),
        ("javascript", 0.0),
    ]
    assert project(by_generation["3"], "judge", "score") == project(
        by_generation["2"], "judge", "score"
    )
    # The default grader is not named by the log, so that the assertion stands for it.
    assert [row["judge"] for row in by_generation["4"]] == ["llm-rubric", "judge-b"]
    assert "1 results were graded by promptfoo's default model" in said(table)


@pytest.mark.parametrize(
    ("reason", "failed"),
    [
        ("Could not extract JSON from llm-rubric response", True),
        ("llm-rubric produced malformed response: SyntaxError", True),
        ("No output", True),
        ("API call error: timeout", True),
        ("Error parsing output: x", True),
        ("No output of the model names the capital", False),
        ("The JSON of the answer could not be parsed", False),
        ("Invalid JSON", False),
        ("An error: the answer names Rome", False),
        (None, False),
    ],
)
def test_a_judges_own_words_are_no_failure(reason, failed):
    assert says_no_reply(reason) == failed


def test_promptfoo_csv_pools_failures_with_scores(tmp_path):
    rows = [b.promptfoo_row(0), b.promptfoo_row(1), b.promptfoo_row(0)]
    rows[0][7] = "Could not extract JSON from llm-rubric response"
    rows[1][3:7] = ["ERROR", "0.00", "", ""]
    data, _ = b.csv_lines(b.PROMPTFOO_HEADER)(rows)
    path = tmp_path / "out.csv"
    path.write_bytes(data)
    table = read_raw(path)
    found = project(rows_of(table), "scenario", "backbone", "generation", "score", "failure")
    assert found == [
        (NAMES[0], "model-x", "0", None, "judge: no verdict, pooled with other scores"),
        (NAMES[0], "model-y", "0", 0.6, None),
        (NAMES[1], "model-x", "0", None, "provider error"),
        (NAMES[1], "model-y", "0", 0.9, None),
        (NAMES[0], "model-x", "1", 0.1, None),
        (NAMES[0], "model-y", "1", 0.6, None),
    ]
    assert "pools the judges of a metric and rounds" in said(table)


def test_deepeval_names_no_model_and_its_errors_are_no_zeros(tmp_path):
    cases = [b.deepeval_record(0), b.deepeval_record(1)]
    cases[0]["metricsData"][0] |= {"score": 0, "error": "Timeout\nmore"}
    cases[1]["metricsData"][1]["score"] = None
    cases[1]["name"] = None
    path = write(tmp_path, "run.json", {"testCases": cases})
    table = read_raw(path)
    assert project(rows_of(table), "scenario", "score", "failure") == [
        (NAMES[0], None, "metric error: Timeout"),
        (NAMES[0], 0.6, None),
        ("?", 0.4, None),
        ("?", None, "no value"),
    ]
    assert "backbone" not in table.columns
    assert "--column backbone=log" in said(table)
    named = {"testRunData": {"testCases": cases, "hyperparameters": {"model": "m"}}}
    assert {r["backbone"] for r in read_rows(write(tmp_path, "named.json", named))} == {"m"}


def test_mlflow_words_errors_expectations_and_replaced_assessments(tmp_path):
    record = b.mlflow_record(0)
    source = {"source_type": "LLM_JUDGE", "source_id": "judge-c"}

    def assessment(name="correct", **fields):
        return {"assessment_name": name, "source": source, **fields}

    record["assessments"] = [
        assessment(feedback={"value": "yes"}),
        assessment("safe", feedback={"value": False}),
        assessment("broken", feedback={"value": None, "error": {"error_message": "no reply"}}),
        assessment("tone", feedback={"value": "warm"}),
        assessment("old", feedback={"value": 1}, valid=False),
        assessment("expected_response", expectation={"value": "x"}),
        assessment("odd"),
    ]
    table = read_raw(write(tmp_path, "r.json", [record]))
    assert project(rows_of(table), "criterion", "score", "verdict", "failure") == [
        ("correct", 1.0, "yes", None),
        ("safe", 0.0, "false", None),
        ("broken", None, None, "judge: no reply"),
        ("tone", None, "warm", "no number: 'warm'"),
    ]
    assert "record 1 at line 1 (assessment 7: neither feedback nor expectation)" in said(table)
    assert "3 values are words" in said(table)


def test_mlflow_tables_of_the_older_evaluate(tmp_path):
    columns = ["inputs", "outputs", "toxicity/v1/score", "toxicity/v1/justification"]
    data = [["q1", "a", 0.25, "fine"], ["q2", "a", None, ""], ["q3", "a"]]
    table = read_raw(write(tmp_path, "eval_results_table.json", {"columns": columns, "data": data}))
    assert project(rows_of(table), "scenario", "criterion", "score") == [
        ("q1", "toxicity", 0.25),
        ("q2", "toxicity", None),
    ]
    assert "another number of fields" in said(table)


def test_openai_evals_choices_errors_and_unscored_samples(tmp_path):
    def event(sample, kind, **data):
        return {"event_id": 0, "sample_id": sample, "type": kind, "data": data}

    records = [
        {"spec": {"completion_fns": ["model", "grader"], "eval_name": "e"}},
        event("s1", "sampling", sampled="x"),
        event("s1", "metrics", choice="Y", score=1.0),
        event("s2", "metrics", choice="__invalid__", score=0),
        event("s3", "error", message="boom"),
        event("s4", "sampling", sampled="x"),
        event("s5", "match", correct=False),
    ]
    path = write(tmp_path, "run.jsonl", "\n".join(map(json.dumps, records)))
    table = read_raw(path)
    found = project(rows_of(table), "scenario", "judge", "score", "failure")
    assert sorted(found, key=str) == [
        ("s1", "grader", 1.0, None),
        ("s2", "grader", None, "judge: its reply held none of the choices"),
        ("s3", None, None, "sample error: boom"),
        ("s4", None, None, "the sample was answered and not scored"),
        ("s5", None, 0.0, None),
    ]
    assert "'grader', the last of the completion functions" in said(table)


def test_alpaca_eval_draws_failures_and_references(tmp_path):
    records = [b.alpaca_record(i) for i in range(4)]
    records[0] |= {"preference": None}
    records[1] |= {"preference": 1.75, "generator_1": "another"}
    records[2] |= {"preference": 3}
    table = read_raw(write(tmp_path, "annotations.json", records))
    assert project(rows_of(table), "score", "failure", "reference") == [
        (None, "judge: no preference in its reply", "reference"),
        (0.75, None, "another"),
        (None, "no preference from 1 to 2: 3", "reference"),
        (0.5, None, "reference"),
    ]
    assert "against several references they are no one scale" in said(table)


def test_mt_bench_pairs_are_refused(tmp_path):
    pair = {
        "question_id": 1,
        "model_1": "a",
        "model_2": "b",
        "g1_winner": "tie",
        "judge": ["g", "p"],
    }
    path = write(tmp_path, "pairs.jsonl", pair)
    with pytest.raises(DataError, match="of pairs, in which no answer has a score of its own"):
        read_raw(path)


def test_reward_bench_as_columns_with_several_rejected(tmp_path):
    whole = {
        "text_chosen": ["a", "b"],
        "text_rejected": ["c", "d"],
        "scores_chosen": [1.5, None],
        "scores_rejected": [[0.5, -2], [3]],
        "id": [7, 8],
        "subset": ["chat", "math"],
        "short": [1],
        "model": "reward-a",
        "model_type": "Seq. Classifier",
    }
    table = read_raw(write(tmp_path, "reward-a.json", whole))
    found = project(rows_of(table), "scenario", "judge", "response", "answer", "score", "subset")
    assert found == [
        ("7", "reward-a", "chosen", None, 1.5, "chat"),
        ("7", "reward-a", "rejected", "0", 0.5, "chat"),
        ("7", "reward-a", "rejected", "1", -2.0, "chat"),
        ("8", "reward-a", "chosen", None, None, "math"),
        ("8", "reward-a", "rejected", None, 3.0, "math"),
    ]
    assert "--column backbone=response" in said(table)
    assert "the column 'short'" in said(table)


def test_a_folder_of_logs_of_several_tools_is_one_table(tmp_path):
    for name in ("lm-eval", "helm", "mt-bench"):
        CASES[name].write(tmp_path / name)
    write(tmp_path, "notes.json", {"a": 1})
    table = read_raw(tmp_path)
    rows = rows_of(table)
    assert len(rows) == 2 * len(NAMES) + 2 * len(NAMES) + len(NAMES)
    assert {row["log"] for row in rows} == {
        "lm-eval/samples_items_2026-11-30T03-35-57.702929.jsonl",
        "helm/per_instance_stats.json",
        "mt-bench/gpt-4_single.jsonl",
    }
    assert "notes.json" in said(table)
    # lm-eval and HELM label other items alike; MT-Bench names no task.
    assert {row["scenario"] for row in rows if row["log"].startswith("helm")} == {
        f"wild:subset=v2/{name}" for name in NAMES
    }
    with pytest.raises(DataError, match=r"1 log \(.*\) and 1 table"):
        read_raw([tmp_path / "mt-bench", write(tmp_path, "t.csv", "model,score\na,1\n")])


def test_files_beside_a_log_are_no_logs(tmp_path):
    CASES["lm-eval"].write(tmp_path)
    with pytest.raises(DataError, match="lies beside a log"):
        read_raw(next(tmp_path.glob("results_*")))
    mine = write(tmp_path, "results.json", '{"model": "a", "score": 1}\n{"model": "b", "score": 2}')
    assert read_raw(mine).n_rows == 2


def test_labels_that_are_none_cost_their_record(tmp_path):
    records = make_bad()
    table = read_raw(write(tmp_path, "gpt-4_single.jsonl", "\n".join(map(json.dumps, records))))
    assert {row["scenario"] for row in rows_of(table)} == set(NAMES[3:])
    told = said(table)
    assert "record 1 at line 1 (question_id holds a NUL" in told
    assert "record 2 at line 2 (no question_id)" in told
    assert "record 3 at line 3 (model is a mapping)" in told


def make_bad():
    records = [copy.deepcopy(b.mt_bench_record(i)) for i in ITEMS]
    records[0]["question_id"] = "a\0b"
    records[1]["question_id"] = None
    records[2]["model"] = {"name": "x"}
    return records


@pytest.mark.parametrize("name", ["mt-bench", "helm", "mlflow-csv", "inspect-json"])
def test_packed_logs_whole_and_cut_short(name, tmp_path):
    case = CASES[name]
    rows = read_rows(case.write(tmp_path / "plain"))
    packed = gzip.compress(case.pack(case.records)[0])
    path = case.write(tmp_path / "packed").with_name(f"{case.file}.gz")
    path.write_bytes(packed)
    names = ("scenario", "backbone", "judge", "criterion", "score")
    assert find_format(path) == case.format
    assert project(read_rows(path), *names) == project(rows, *names)
    # The checksum is cut off: every record is there, and the damage is told all the same.
    path.write_bytes(packed[:-9])
    told = said(read_raw(path, case.format))
    assert "cut short" in told
    assert len(read_rows(path, case.format)) >= len(rows) - 3
    path.write_bytes(packed[:30])
    with pytest.raises(DataError):
        read_raw(path, case.format)


def test_forms_that_are_not_understood(tmp_path):
    table = write(tmp_path, "t.csv", "model,score\na,1\nb,2\n")
    with pytest.raises(DataError, match="no columns of a model's results"):
        read_raw(table, "promptfoo-csv")
    for name in ("mlflow", "reward-bench"):
        with pytest.raises(DataError, match="no record of the log could be read"):
            read_raw(table, name)
    with pytest.raises(UsageError, match="is no log of Inspect"):
        read_raw([1], "inspect")
    assert find_format(tmp_path / "gone") is None
    assert (
        find_format(write(tmp_path, "a.json", '{"eval": "x", "status": "ok", "score": 1}')) is None
    )
    assert find_format(write(tmp_path, "b.csv", '"never closed')) is None
    broken = tmp_path / "x.zip"
    broken.write_bytes(b"PK nonsense")
    assert find_format(broken) is None
    assert detecting.is_beside_a_log(tmp_path / "run_spec.json")


def test_a_model_named_by_arguments_or_by_nothing(tmp_path):
    path = CASES["lm-eval"].write(tmp_path)
    (results,) = tmp_path.glob("results_*")
    results.write_text(json.dumps({"config": {"model_args": {"pretrained": "org/z"}}}))
    assert {row["backbone"] for row in read_rows(path)} == {"org/z"}
    results.write_text("{}")
    assert "1 log does not name the model" in said(read_raw(path))
    results.unlink()
    assert "backbone" not in read_raw(path).columns


def test_logs_without_scores(tmp_path):
    header = b.HEADER | {"samples": []}
    with pytest.raises(DataError, match="the log holds no scores"):
        read_raw(write(tmp_path, "log.json", header))
    unscored = [{"id": i, "epoch": 1, "scores": {}} for i in range(3)]
    rows = read_rows(write(tmp_path, "log2.json", b.HEADER | {"samples": unscored}))
    assert project(rows, "scenario", "failure") == [(str(i), "sample not scored") for i in range(3)]


def test_a_log_given_twice_counts_once(tmp_path):
    path = CASES["mt-bench"].write(tmp_path)
    link = tmp_path / "again.jsonl"
    link.symlink_to(path)
    assert read_raw([path, tmp_path, link]).n_rows == len(NAMES)
