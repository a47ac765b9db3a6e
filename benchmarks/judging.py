"""Calls a second of ``bayesjudge judge``, beside Inspect's bare ``generate``:

    uv run python -m benchmarks.judging

Writes ``benchmarks/results/judging.json`` and ``.md``. Both ask the same server for the same
500 scores, with as many calls in flight; ours also keeps the ledger and Inspect's log. They
take turns in one process, and the median of the ratios counts. On a busy machine the ratio of
processor seconds is the one to read: against a server that answers at once both are bound by it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

from inspect_ai.model import (
    ChatMessage,
    ChatMessageSystem,
    ChatMessageUser,
    GenerateConfig,
    ResponseSchema,
    get_model,
)
from inspect_ai.util import JSONSchema
from typer.testing import CliRunner

from bayesjudge.cli.app import app
from bayesjudge.judges.calls import Call
from bayesjudge.judges.items import read_items
from bayesjudge.judges.panel import Judge
from bayesjudge.judges.pointwise import Rubric, Turn, call_of

RESULTS = Path(__file__).parent / "results"
MODEL = "openai-api/rule/mild"
LEAST = 0.6
PER_SCENARIO = 10


def write_items(path: Path, n: int) -> None:
    """Write answers to score, ten a scenario."""
    rows = [
        {
            "scenario": f"s{number // PER_SCENARIO}",
            "backbone": f"b{number % PER_SCENARIO}",
            "prompt": "What is it?",
            "response": f"It is. <<scenario={number} quality=5.5>>",
        }
        for number in range(n)
    ]
    path.write_text("\n".join(json.dumps(row) for row in rows), encoding="utf-8")


async def ask_bare(calls: list[Call], url: str, connections: int) -> None:
    """Ask Inspect's model for every call at once, and keep nothing."""
    model = get_model(MODEL, base_url=url, memoize=False)

    async def ask(call: Call) -> None:
        messages: list[ChatMessage] = [
            ChatMessageSystem(content=call.system),
            ChatMessageUser(content=call.user),
        ]
        shape = JSONSchema.model_validate(call.schema)
        config = GenerateConfig(
            max_connections=connections,
            max_retries=3,
            temperature=0.0,
            max_tokens=call.max_tokens,
            response_schema=ResponseSchema(name="judge", json_schema=shape, strict=True),
        )
        await model.generate(messages, config=config)

    await asyncio.gather(*(ask(call) for call in calls))
    await model.api.aclose()


def bare(calls: list[Call], url: str, connections: int) -> tuple[float, float]:
    """Return calls a second, and a second of processor, of bare ``generate``."""
    started, used = time.perf_counter(), time.process_time()
    asyncio.run(ask_bare(calls, url, connections))
    n = len(calls)
    return n / (time.perf_counter() - started), n / (time.process_time() - used)


def ours(items: Path, out: Path, n: int, url: str, connections: int) -> tuple[float, float]:
    """Return the same of the whole command, from reading items to the tables."""
    words = ["judge", str(items), "--judge", f"mild={MODEL}", "--out", str(out)]
    words += ["--max-connections", str(connections), "--quiet", "--json"]
    started, used = time.perf_counter(), time.process_time()
    done = CliRunner().invoke(app, words, env={"RULE_BASE_URL": url})
    seconds, processor = time.perf_counter() - started, time.process_time() - used
    if done.exit_code or json.loads(done.stdout)["scores"] != n:
        raise SystemExit(done.stderr)
    return n / seconds, n / processor


def measure(n: int, repeats: int, connections: int) -> dict[str, Any]:
    """Let both ask in turn, after a short run of each that is not counted."""
    os.environ["RULE_API_KEY"] = "none-needed"
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "rule.json").write_text('{"scale": [1, 10], "broken_models": []}')
        server = subprocess.Popen(
            [sys.executable, "-m", "tests.rule_judge", str(folder / "rule.json"), os.devnull],
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            port = server.stdout.readline().strip() if server.stdout else ""
            url = f"http://127.0.0.1:{port}/v1"
            os.environ["RULE_BASE_URL"] = url
            for repeat, size in enumerate([20] + [n] * repeats):
                items = folder / f"items{repeat}.jsonl"
                write_items(items, size)
                judge = Judge("mild", MODEL)
                read = read_items(str(items)).items
                calls = [call_of(Turn(item, judge), Rubric()) for item in read]
                one = bare(calls, url, connections)
                two = ours(items, folder / f"run{repeat}", size, url, connections)
                if repeat:
                    rows.append(
                        {
                            "bare": one[0],
                            "ours": two[0],
                            "ratio": two[0] / one[0],
                            "ratio_processor": two[1] / one[1],
                        }
                    )
                    print(rows[-1], file=sys.stderr, flush=True)
        finally:
            server.kill()
            server.communicate()
    return {
        "calls": n,
        "connections": connections,
        "versions": {"inspect-ai": version("inspect-ai"), "openai": version("openai")},
        "repeats": rows,
        "ratio": statistics.median(row["ratio"] for row in rows),
        "ratio_processor": statistics.median(row["ratio_processor"] for row in rows),
        "load": os.getloadavg()[0],
        "least": LEAST,
    }


def markdown(found: dict[str, Any]) -> str:
    """Return the committed report."""
    lines = [
        "# Calls a second against a server that answers at once",
        "",
        *(f"{name}: {number}  " for name, number in found["versions"].items()),
        "",
        f"{found['calls']} calls, {found['connections']} at once, one process. Ours is the whole "
        "command: reading items, ledger, Inspect's log, tables.",
        "",
        "| bare generate | bayesjudge judge | ratio | ratio of processor seconds |",
        "| --- | --- | --- | --- |",
        *(
            f"| {r['bare']:.1f} | {r['ours']:.1f} | {r['ratio']:.2f} | {r['ratio_processor']:.2f} |"
            for r in found["repeats"]
        ),
        "",
        f"Median ratio {found['ratio']:.2f}, of processor seconds {found['ratio_processor']:.2f}; "
        f"at least {found['least']:.2f} is wanted. Load of the machine at the end: "
        f"{found['load']:.1f}.",
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=500)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--connections", type=int, default=20)
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    found = measure(given.calls, given.repeats, given.connections)
    given.out.mkdir(parents=True, exist_ok=True)
    (given.out / "judging.json").write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    (given.out / "judging.md").write_text(markdown(found), encoding="utf-8")
    print(markdown(found))


if __name__ == "__main__":
    main()
