"""A judge whose rule is known: an OpenAI-compatible server for tests, a process of its own.

What is to be scored says so itself: ``<<scenario=s1 backbone=amber language=de quality=6.2>>``
somewhere in the messages. The score is that quality, plus the judge's severity, plus the
language's offset, plus noise that depends on nothing but judge and mark (so a table is the same
in whatever order it is asked for), rounded and kept on the scale.

    python -m tests.rule_judge RULE.json LOG.jsonl     # prints its port, then serves

``GET /stats`` says how many requests were in flight at most, and how many succeeded.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import hashlib
import json
import math
import re
import statistics
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

MARK = re.compile(r"<<([^<>]*)>>")
STATUS = {200: "OK", 400: "Bad Request", 401: "Unauthorized", 429: "Too Many", 500: "Error"}


@dataclass(frozen=True)
class Rule:
    """How it judges, and what goes wrong with it; shares are of 1."""

    severity: dict[str, float] = field(default_factory=dict)
    language: dict[str, float] = field(default_factory=dict)
    noise: float = 0.0
    scale: tuple[int, int] = (1, 10)
    seed: int = 0
    latency: float = 0.0
    faults: float = 0.0
    truncated: float = 0.0
    invalid: float = 0.0
    broken_models: tuple[str, ...] = ()
    echo: int = 0
    logprobs: bool = False


def mark(**parts: object) -> str:
    return "<<" + " ".join(f"{name}={value}" for name, value in parts.items()) + ">>"


def chance(*parts: object) -> float:
    """Return a number of [0, 1) that depends on these alone."""
    digest = hashlib.sha256("\x1f".join(str(part) for part in parts).encode()).digest()
    return int.from_bytes(digest[:8]) / 2**64


def normal(*parts: object) -> float:
    return statistics.NormalDist().inv_cdf(min(max(chance(*parts), 1e-12), 1 - 1e-12))


def score(rule: Rule, model: str, parts: dict[str, str]) -> int:
    raw = (
        float(parts["quality"])
        + rule.severity.get(model, 0.0)
        + rule.language.get(parts.get("language", ""), 0.0)
        + rule.noise * normal(rule.seed, model, sorted(parts.items()))
    )
    low, high = rule.scale
    return min(max(round(raw), low), high)


def parts_of(text: str) -> dict[str, str]:
    found = MARK.findall(text)
    return dict(part.split("=", 1) for part in found[-1].split()) if found else {}


def answer(rule: Rule, request: dict[str, object], times: int) -> tuple[str, str]:
    """Return what the judge says and why it stopped."""
    text = "\n".join(str(message["content"]) for message in request["messages"])
    schema = (request.get("response_format") or {}).get("json_schema", {}).get("schema")
    if schema is None:
        return str(request["messages"][-1]["content"]), "stop"
    parts = parts_of(text)
    if not {"score", "correct"} & set(schema["properties"]):
        # A translation: the mark stays as it is, so the rule does too.
        return str(request["messages"][-1]["content"]), "stop"
    given = score(rule, str(request["model"]), parts)
    high_enough = given > sum(rule.scale) / 2
    filled = {"score": given, "correct": high_enough, "rationale": f"The rule gives {given}."}
    said = json.dumps({name: filled[name] for name in schema["properties"]})
    draw = chance(rule.seed, "damage", request["model"], sorted(parts.items()), times)
    if draw < rule.truncated:
        return said[
            : math.ceil(len(said) * chance(rule.seed, "cut", sorted(parts.items())))
        ], "length"
    if draw < rule.truncated + rule.invalid:
        return "I would rather not say.", "stop"
    return said, "stop"


class RuleJudge:
    def __init__(self, rule: Rule, log: Path) -> None:
        self.rule = rule
        self.log = log.open("a", encoding="utf-8")
        self.in_flight = self.peak = 0
        self.asked: Counter[str] = Counter()
        self.statuses: Counter[int] = Counter()

    async def serve(self) -> None:
        server = await asyncio.start_server(self.talk, "127.0.0.1", 0, limit=1 << 22)
        print(server.sockets[0].getsockname()[1], flush=True)
        async with server:
            await server.serve_forever()

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                verb, path, *_ = head.split(" ", 2)
                headers = dict(
                    line.lower().split(": ", 1) for line in head.split("\r\n")[1:] if ": " in line
                )
                body = await reader.readexactly(int(headers.get("content-length", 0)))
                if verb == "GET":
                    status, reply = 200, self.stats()
                else:
                    status, reply = await self.judge(path, headers, json.loads(body))
                content = json.dumps(reply).encode()
                writer.write(
                    f"HTTP/1.1 {status} {STATUS[status]}\r\ncontent-type: application/json\r\n"
                    f"content-length: {len(content)}\r\n\r\n".encode()
                    + content
                )
                await writer.drain()
        writer.close()

    def stats(self) -> dict[str, object]:
        return {
            "peak": self.peak,
            "requests": self.statuses.total(),
            "successes": self.statuses[200],
            "in_flight": self.in_flight,
        }

    async def judge(
        self, path: str, headers: dict[str, str], request: dict[str, object]
    ) -> tuple[int, dict[str, object]]:
        self.in_flight += 1
        self.peak = max(self.peak, self.in_flight)
        try:
            if self.rule.latency:
                await asyncio.sleep(self.rule.latency)
            status, reply = self.decide(headers, request)
        finally:
            self.in_flight -= 1
        self.statuses[status] += 1
        text = str(request["messages"][-1]["content"])
        line = {"time": time.time(), "status": status, "model": request["model"]}
        line |= {"mark": parts_of(text), "path": path, "seed": request.get("seed")}
        self.log.write(json.dumps(line) + "\n")
        self.log.flush()
        return status, reply

    def decide(
        self, headers: dict[str, str], request: dict[str, object]
    ) -> tuple[int, dict[str, object]]:
        model = str(request["model"])
        what = json.dumps([model, request["messages"]])
        self.asked[what] += 1
        if self.rule.echo:
            return self.rule.echo, {
                "error": {"message": f"no such key: {headers.get('authorization')}"}
            }
        if model in self.rule.broken_models:
            return 400, {"error": {"message": "this model answers nothing"}}
        if chance(self.rule.seed, "fault", what, self.asked[what]) < self.rule.faults:
            return 500, {"error": {"message": "a planted fault"}}
        said, stopped = answer(self.rule, request, self.asked[what])
        words = sum(len(str(m["content"]).split()) for m in request["messages"])
        choice: dict[str, object] = {
            "index": 0,
            "message": {"role": "assistant", "content": said},
            "finish_reason": stopped,
        }
        if request.get("logprobs") and self.rule.logprobs:
            tokens = [{"token": t, "logprob": -0.25, "bytes": None, "top_logprobs": []}
                      for t in said.split()]  # fmt: skip
            choice["logprobs"] = {"content": tokens}
        n_out = len(said.split())
        return 200, {
            "id": f"rule-{self.statuses.total()}",
            "object": "chat.completion",
            "created": int(time.time()),
            "model": model,
            "choices": [choice],
            "usage": {
                "prompt_tokens": words,
                "completion_tokens": n_out,
                "total_tokens": words + n_out,
            },
        }


@dataclass(frozen=True)
class Serving:
    """A rule judge at work."""

    port: int
    log: Path

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def stats(self) -> dict[str, int]:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/stats", timeout=30) as answer:
            return json.loads(answer.read())

    def requests(self) -> list[dict[str, object]]:
        return [json.loads(line) for line in self.log.read_text(encoding="utf-8").splitlines()]


@contextlib.contextmanager
def serving(rule: Rule, folder: Path) -> Iterator[Serving]:
    """Start a rule judge on a free port, and end it."""
    config, log = folder / "rule.json", folder / "requests.jsonl"
    config.write_text(json.dumps(dataclasses.asdict(rule)), encoding="utf-8")
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.rule_judge", str(config), str(log)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parent.parent,
    )
    try:
        yield Serving(int(process.stdout.readline()), log)
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def main() -> None:
    given = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    given |= {name: tuple(given[name]) for name in ("scale", "broken_models")}
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(RuleJudge(Rule(**given), Path(sys.argv[2])).serve())


if __name__ == "__main__":
    main()
