"""Logs in each tool's format, made of records whose scores are known.

Every record has a scenario of its own, or shares it only with records that stand beside it,
so that tests know which rows a damaged record may cost.
"""

from __future__ import annotations

import csv
import io
import json
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

NAMES = ("q-0", "سؤال-1", "题目 2", "प्रश्न-3", "q/4", "05", "q-6", "nan", "q,8", "q-9")
JUDGES = ("judge-a", "judge-b")
SCORES = {(i, j): (i * 3 + 5 * j) % 10 + 1 for i in range(len(NAMES)) for j in range(len(JUDGES))}


@dataclass(frozen=True)
class Case:
    """A log: its records, how they become a file, and what lies beside it."""

    file: str
    format: str
    records: list[Any]
    pack: Callable[[list[Any]], tuple[bytes, list[int]]]
    scenario_of: Callable[[Any], str]
    beside: dict[str, bytes] = field(default_factory=dict)

    @property
    def tells_its_end(self):
        """Whether a file cut between two records is known to be cut."""
        return self.file.endswith((".json", ".eval"))

    def write(self, folder, data=None):
        """Write the log to a folder and return its path."""
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in self.beside.items():
            folder.joinpath(name).write_bytes(content)
        path = folder / self.file
        path.write_bytes(self.pack(self.records)[0] if data is None else data)
        return path


def dump(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    try:
        text.encode()
    except UnicodeEncodeError:
        return json.dumps(value)
    return text


def array(before: str = "[", after: str = "]"):
    """Pack records as an array inside a document; say where each of them ends."""

    def pack(records):
        data, ends = before.encode(), []
        for number, record in enumerate(records):
            data += (",\n " if number else "").encode() + dump(record).encode()
            ends.append(len(data))
        return data + after.encode(), ends

    return pack


def lines(*heads: Any):
    def pack(records):
        data, ends = b"", []
        for number, record in enumerate([*heads, *records]):
            data += dump(record).encode() + b"\n"
            if number >= len(heads):
                ends.append(len(data))
        return data, ends

    return pack


def csv_lines(header: list[str]):
    def pack(records):
        data, ends = b"", []
        for number, record in enumerate([header, *records]):
            text = io.StringIO(newline="")
            cells = record if isinstance(record, list) else [record]
            csv.writer(text, lineterminator="\n").writerow(cells)
            data += text.getvalue().encode("utf-8", "surrogatepass")
            if number:
                ends.append(len(data))
        return data, ends

    return pack


HEADER = {
    "version": 2,
    "status": "success",
    "eval": {
        "task": "items",
        "model": "model/x",
        "scorers": [
            {"name": "model_graded_qa", "options": {"model": {"model": "judge-a"}}},
            {"name": "rubric", "options": {}},
        ],
        "config": {"epochs": 1},
        "dataset": {"sample_ids": list(NAMES)},
    },
}


def archive(records):
    """Pack samples as an ``.eval`` archive; a sample ends where its member does."""
    out, ends = io.BytesIO(), []
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as zipped:
        zipped.writestr("_journal/start.json", json.dumps(HEADER))
        for number, record in enumerate(records):
            zipped.writestr(f"samples/{number}_epoch_1.json", dump(record))
            ends.append(zipped.start_dir)
        zipped.writestr("header.json", json.dumps(HEADER))
    return out.getvalue(), ends


def inspect_sample(i: int) -> dict[str, Any]:
    grading = [{"role": "user", "content": "?"}, {"role": "assistant", "model": "judge-a"}]
    return {
        "id": NAMES[i],
        "epoch": 1,
        "scores": {
            "model_graded_qa": {"value": "CIPN"[i % 4], "metadata": {"grading": grading}},
            "rubric": {"value": {"clarity": SCORES[i, 0], "depth": SCORES[i, 1]}},
        },
        "metadata": {"language": "en", "topic": f"t{i % 2}"},
        "events": [{"noise": "x" * 50}],
    }


def lm_eval_record(i: int) -> dict[str, Any]:
    return {
        "doc_id": NAMES[i],
        "doc": {"qid": f"d{i}", "lang": "en"},
        "target": "4",
        "arguments": {},
        "resps": [["lol"]],
        "filtered_resps": ["lol"],
        "filter": "none",
        "metrics": ["acc", "f1"],
        "acc": float(i % 2),
        "f1": SCORES[i, 0] / 10,
    }


def helm_stat(name: str, value: float | None) -> dict[str, Any]:
    stat: dict[str, Any] = {"name": {"name": name, "split": "test"}, "count": 1}
    return stat | ({"count": 0} if value is None else {"sum": value, "mean": value})


def helm_record(i: int) -> dict[str, Any]:
    return {
        "instance_id": NAMES[i],
        "train_trial_index": 0,
        "stats": [
            helm_stat("wildbench_score_gpt", SCORES[i, 0]),
            helm_stat("wildbench_score_claude", None if i == 2 else SCORES[i, 1]),
            helm_stat("num_prompt_tokens", 60),
        ],
    }


def promptfoo_record(i: int) -> dict[str, Any]:
    def component(j):
        return {
            "pass": True,
            "score": SCORES[i, j] / 10,
            "reason": "well",
            "assertion": {"type": "llm-rubric", "metric": "right", "provider": JUDGES[j]},
        }

    return {
        "testIdx": i,
        "promptIdx": 0,
        "provider": {"id": "custom:x", "label": "model-x"},
        "prompt": {"raw": "?", "label": "Say {{q}}"},
        "vars": {"q": f"question {i}"},
        "testCase": {"description": NAMES[i], "vars": {"q": f"question {i}"}},
        "score": 0.5,
        "success": True,
        "failureReason": 0,
        "gradingResult": {
            "pass": True,
            "score": 0.5,
            "componentResults": [component(0), component(1)],
        },
    }


PROMPTFOO_HEADER = [
    *("Description", "q", "[model-x] Say {{q}}", "Status", "Score", "Named Scores"),
    *("Metric: right", "Grader Reason", "Comment", "[model-y] Say {{q}}", "Status", "Score"),
    *("Named Scores", "Metric: right", "Grader Reason", "Comment"),
]


def promptfoo_row(i: int) -> list[str]:
    def block(j):
        score = f"{SCORES[i, j] / 10:.2f}"
        return ["an answer", "PASS", score, dump({"right": float(score)}), score, "fine", ""]

    return [NAMES[i], f"question {i}", *block(0), *block(1)]


def deepeval_record(i: int) -> dict[str, Any]:
    metrics = [
        {
            "name": "Correctness [GEval]",
            "score": SCORES[i, j] / 10,
            "success": True,
            "evaluationModel": JUDGES[j],
        }
        for j in range(2)
    ]
    return {"name": NAMES[i], "input": "?", "actualOutput": "!", "metricsData": metrics}


def mlflow_record(i: int) -> dict[str, Any]:
    assessments = [
        {
            "assessment_name": "correct",
            "source": {"source_type": "LLM_JUDGE", "source_id": JUDGES[j]},
            "feedback": {"value": SCORES[i, j]},
            "valid": True,
        }
        for j in range(2)
    ]
    return {
        "trace_id": f"tr-{i}",
        "request": {"q": NAMES[i]},
        "response": "!",
        "correct/value": 1,
        "assessments": assessments,
    }


def openai_event(i: int) -> dict[str, Any]:
    return {
        "run_id": "run",
        "event_id": i,
        "sample_id": NAMES[i],
        "type": "match",
        "data": {"correct": i % 3 == 0, "expected": "15", "picked": None},
    }


OPENAI_HEADS = (
    {"spec": {"completion_fns": ["model-x"], "eval_name": "match.s1", "run_id": "run"}},
    {"final_report": {"accuracy": 0.4}},
)


def alpaca_record(i: int) -> dict[str, Any]:
    return {
        "instruction": NAMES[i],
        "output_1": "a",
        "generator_1": "reference",
        "output_2": "b",
        "generator_2": "model-x",
        "annotator": "judge-a",
        "preference": (1, 2, 1.5, 0, 1.25)[i % 5],
    }


def mt_bench_record(i: int) -> dict[str, Any]:
    return {
        "question_id": NAMES[i],
        "model": "model-x",
        "judge": ["gpt-4", "single-v1"],
        "user_prompt": "?",
        "judgment": "Rating: [[5]]",
        "score": -1 if i == 3 else SCORES[i, 0],
        "turn": 1,
        "tstamp": 1700000000.5 + i,
    }


def reward_record(i: int) -> dict[str, Any]:
    return {
        "id": NAMES[i],
        "subset": "chat",
        "chosen_model": "model-x",
        "rejected_model": "model-y",
        "model": "reward-a",
        "scores_chosen": SCORES[i, 0],
        "scores_rejected": SCORES[i, 1] - 0.5,
        "results": 1,
    }


def _at(key: str) -> Callable[[Any], str]:
    return lambda record: record[key]


def make(record: Callable[[int], Any]) -> list[Any]:
    return [record(i) for i in range(len(NAMES))]


CASES = {
    "inspect-eval": Case("log.eval", "inspect", make(inspect_sample), archive, _at("id")),
    "inspect-json": Case(
        "log.json",
        "inspect",
        make(inspect_sample),
        array(json.dumps(HEADER)[:-1] + ', "samples": [', '], "reductions": []}'),
        _at("id"),
    ),
    "lm-eval": Case(
        "samples_items_2026-11-30T03-35-57.702929.jsonl",
        "lm-eval",
        make(lm_eval_record),
        lines(),
        _at("doc_id"),
        {
            "results_2026-11-30T03-35-57.702929.json": json.dumps(
                {
                    "results": {},
                    "configs": {},
                    "model_name": "org/model-x",
                    "higher_is_better": {"items": {"acc": True, "f1": False}},
                },
                indent=1,
            ).encode()
        },
    ),
    "helm": Case(
        "per_instance_stats.json",
        "helm",
        make(helm_record),
        array(),
        _at("instance_id"),
        {
            "run_spec.json": json.dumps(
                {"name": "wild:subset=v2,model=org_x", "adapter_spec": {"model": "org/x"}}
            ).encode()
        },
    ),
    "promptfoo": Case(
        "out.json",
        "promptfoo",
        make(promptfoo_record),
        array(
            '{"evalId": "eval-1", "results": {"version": 3, "results": [',
            '], "stats": {}}, "config": {"description": "d"}}',
        ),
        lambda record: record["testCase"]["description"],
    ),
    "promptfoo-jsonl": Case(
        "out.jsonl",
        "promptfoo",
        make(promptfoo_record),
        lines(),
        lambda record: record["testCase"]["description"],
    ),
    "promptfoo-csv": Case(
        "out.csv",
        "promptfoo-csv",
        make(promptfoo_row),
        csv_lines(PROMPTFOO_HEADER),
        lambda record: record[0],
    ),
    "deepeval": Case(
        "test_run.json",
        "deepeval",
        make(deepeval_record),
        array('{"testRunData": {"testCases": [', '], "testPassed": 3}}'),
        _at("name"),
    ),
    "mlflow": Case(
        "result_df.json",
        "mlflow",
        make(mlflow_record),
        array(),
        lambda record: record["request"]["q"],
    ),
    "mlflow-csv": Case(
        "result_df.csv",
        "mlflow",
        [[f"tr-{i}", NAMES[i], f"{SCORES[i, 0]}", "", "fine"] for i in range(len(NAMES))],
        csv_lines(["trace_id", "request", "right/value", "right/error_message", "right/rationale"]),
        lambda record: record[1],
    ),
    "openai-evals": Case(
        "run.jsonl", "openai-evals", make(openai_event), lines(*OPENAI_HEADS), _at("sample_id")
    ),
    "alpaca-eval": Case(
        "annotations.json", "alpaca-eval", make(alpaca_record), array(), _at("instruction")
    ),
    "mt-bench": Case(
        "gpt-4_single.jsonl", "mt-bench", make(mt_bench_record), lines(), _at("question_id")
    ),
    "reward-bench": Case("scores.jsonl", "reward-bench", make(reward_record), lines(), _at("id")),
    "reward-bench-csv": Case(
        "scores.csv",
        "reward-bench",
        [[*map(str, reward_record(i).values())] for i in range(len(NAMES))],
        csv_lines(list(reward_record(0))),
        lambda record: record[0],
    ),
}
