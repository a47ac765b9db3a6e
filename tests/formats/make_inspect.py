"""Make Inspect logs of known scores with Inspect itself, offline:

    uv run --no-project --with inspect-ai python tests/formats/make_inspect.py

Writes ``tests/formats/inspect/``: two models under four judges, with every kind
of value, a panel, epochs, and a sample that fails; as ``.eval`` and as ``.json``.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import inspect_ai
from inspect_ai import Task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.log import read_eval_log, write_eval_log
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from inspect_ai.scorer import Score, mean, model_graded_qa, scorer
from inspect_ai.solver import generate, solver
from make_inspect_grades import GRADES, ITEMS

HERE = Path(__file__).parent / "inspect"


def answered(model, text):
    output = ModelOutput.from_content(model, text)
    # Without it Inspect would fetch a tokenizer to count by.
    output.usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)
    return output


def judge(name):
    def reply(messages, *_):
        text = messages[-1].text
        item = next(i for i in range(5) if f"item {i}" in text)
        grade = GRADES[name][item]
        said = "I cannot say." if grade == "X" else f"Well.\n\nGRADE: {grade}"
        return answered(f"mockllm/judge-{name}", said)

    return get_model(f"mockllm/judge-{name}", custom_outputs=reply, memoize=False)


@scorer(metrics={"*": [mean()]})
def rubric():
    async def score(state, target):
        number = int(str(state.sample_id).split("-")[-1])
        value = {"clarity": number + 1, "safety": None if number == 2 else 5}
        return Score(value=value, metadata={"judge_model": "mockllm/judge-d"})

    return score


@scorer(metrics=[mean()])
def thrice():
    async def score(state, target):
        number = int(str(state.sample_id).split("-")[-1])
        return Score(value=[number, number + 0.5, float(state.epoch)])

    return score


@scorer(metrics=[mean()])
def bare():
    async def score(state, target):
        number = int(str(state.sample_id).split("-")[-1])
        return Score(value=float("nan") if number == 3 else number * 2.5)

    return score


@solver
def fails_once():
    async def solve(state, generate):
        if state.sample_id == "سؤال-4" and state.epoch == 2:
            raise RuntimeError("the provider is gone")
        return state

    return solve


def task():
    return Task(
        dataset=MemoryDataset(
            [
                Sample(
                    input=f"This is item {i}.",
                    target="yes",
                    id=name,
                    metadata={"language": "ar" if i == 4 else "en", "topic": f"t{i % 2}"},
                )
                for i, name in enumerate(ITEMS)
            ]
        ),
        solver=[fails_once(), generate()],
        scorer=[
            model_graded_qa(partial_credit=True, model=judge("a")),
            model_graded_qa(partial_credit=True, model=judge("b")),
            model_graded_qa(partial_credit=True, model=[judge("a"), judge("b"), judge("c")]),
            rubric(),
            thrice(),
            bare(),
        ],
        epochs=2,
        fail_on_error=False,
        name="items",
    )


if __name__ == "__main__":
    HERE.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        for name in ("x", "y"):
            model = get_model(
                f"mockllm/model-{name}",
                custom_outputs=lambda *_: answered("mockllm/model", "an answer"),
                memoize=False,
            )
            (log,) = inspect_ai.eval(task(), model=model, log_dir=folder, display="none")
            whole = read_eval_log(log.location)
            # Events repeat every prompt many times over, and nobody scores them.
            for sample in whole.samples:
                sample.events, sample.attachments, sample.error_retries = [], {}, []
                if sample.error:
                    sample.error.traceback = sample.error.traceback_ansi = ""
            write_eval_log(whole, HERE / f"model-{name}.eval")
            if name == "x":
                write_eval_log(whole, HERE / "model-x.json")
