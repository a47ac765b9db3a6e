"""Does `bayesjudge judge` bring back what judges do? A panel whose rule is known, end to end.

A server of our own plays five judges with set severities, offsets of six languages, noise and
faults. ``judge`` asks it, is killed (SIGKILL) half way and resumed; ``rank`` and ``audit`` read
the table as it is. How many answers were paid for, is every score the rule's, do intervals hold
what was planted? The test at reduced size also runs without a stop, with faults, and compares.

Full size: ``uv run python -m tests.calibration.rule_judges --scenarios 60``
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from typer.testing import CliRunner

from bayesjudge.cli.app import app
from tests.calibration.reporting import versions, write
from tests.rule_judge import Rule, Serving, mark, parts_of, score, serving

SEVERITY = {"ash": 0.9, "elm": 0.4, "fir": 0.0, "oak": -0.5, "yew": -0.8}
LANGUAGE = {"de": 0.6, "en": 0.3, "fr": 0.0, "hi": -0.7, "ja": -0.4, "pl": 0.2}
BACKBONE = {"amber": 11.0, "birch": 10.6, "cedar": 10.0, "delta": 9.4}
SCALE = (1, 20)
NOISE, SCENARIO_SD, CELL_SD = 0.7, 1.2, 0.5
CONNECTIONS = 8
KEY = "sk-planted-0123456789"


def rule(**more: Any) -> Rule:
    """Return how the panel judges."""
    return Rule(severity=SEVERITY, language=LANGUAGE, noise=NOISE, scale=SCALE, **more)


def write_items(path: Path, n_scenarios: int, languages: Sequence[str], seed: int = 0) -> int:
    """Write answers of four backbones in some languages, and return how many there are."""
    rng = np.random.default_rng(seed)
    lines = []
    for number in range(n_scenarios):
        scenario = rng.normal(0, SCENARIO_SD)
        for backbone, mean in BACKBONE.items():
            worth = mean + scenario + rng.normal(0, CELL_SD)
            for language in languages:
                # What an answer is worth does not depend on its language; judges' scores do.
                said = mark(
                    scenario=number, backbone=backbone, language=language, quality=f"{worth:.4f}"
                )
                fields = {"scenario": f"q{number:02d}", "backbone": backbone, "language": language}
                fields |= {"prompt": f"Question {number}?", "response": f"An answer. {said}"}
                lines.append(json.dumps(fields))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return len(lines)


def environment(server: Serving) -> dict[str, str]:
    """Return the environment in which the panel is reached."""
    return dict(os.environ) | {"RULE_API_KEY": KEY, "RULE_BASE_URL": server.url}


def judge_words(items: Path, out: Path, *more: str) -> list[str]:
    """Return the command that runs the whole panel."""
    panel = [w for name in SEVERITY for w in ("--judge", f"{name}=openai-api/rule/{name}")]
    scale = ["--scale", *map(str, SCALE), "--max-connections", str(CONNECTIONS)]
    return ["judge", str(items), *panel, *scale, "--out", str(out), *more]


def bayesjudge(words: Sequence[str], env: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Run a command of ours, and return its JSON."""
    done = CliRunner().invoke(app, [*words, "--json"], env=env)
    assert done.exit_code == 0, done.stderr
    return dict(json.loads(done.stdout))


def run_until_killed(words: Sequence[str], server: Serving, answers: int) -> None:
    """Start a run, and kill it as soon as so many answers were given."""
    command = [sys.executable, "-c", "from bayesjudge.cli import main; main()", *words]
    process = subprocess.Popen(
        command,
        env=environment(server),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    while server.stats()["successes"] < answers and process.poll() is None:
        time.sleep(0.02)
    assert process.poll() is None, "the run ended before it was killed"
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@dataclass(frozen=True)
class Interval:
    """An estimate beside the planted value."""

    what: str
    level: str
    planted: float
    estimate: float
    lower: float
    upper: float

    @property
    def inside(self) -> bool:
        """Whether the interval holds the planted value."""
        return self.lower <= self.planted <= self.upper


def centred(planted: Mapping[str, float]) -> dict[str, float]:
    """Return planted values as offsets from their mean."""
    mean = sum(planted.values()) / len(planted)
    return {name: value - mean for name, value in planted.items()}


def recovered(scores: Path, folder: Path, languages: Sequence[str]) -> list[Interval]:
    """Return offsets of judges and languages by ``rank``, and of languages by ``audit``.

    ``audit`` gives languages in units of a judge's sd of scores; so is the planted value.
    """
    planted = {
        "judge": centred(SEVERITY),
        "language": centred({name: LANGUAGE[name] for name in languages}),
    }
    bayesjudge(["rank", str(scores), "--out", str(folder / "ranked")])
    found = []
    for row in rows_of(folder / "ranked" / "offsets.csv"):
        if row["term"] in planted:
            level = row[row["term"]]
            numbers = [float(row[name]) for name in ("estimate", "ci_lower", "ci_upper")]
            what = f"rank, {row['term']}"
            found.append(Interval(what, level, planted[row["term"]][level], *numbers))
    by_judge: dict[str, list[float]] = {}
    for row in rows_of(scores):
        if row["score"]:
            by_judge.setdefault(row["judge"], []).append(float(row["score"]))
    per_sd = float(np.mean([1 / np.std(values) for values in by_judge.values()]))
    audited = bayesjudge(["audit", str(scores), "--posterior", "none", "--permutations", "99"])
    for row in audited["means"]["by_language"]:
        planted_sds = planted["language"][row["language"]] * per_sd
        numbers = [row[name] for name in ("offset", "ci_lower", "ci_upper")]
        found.append(Interval("audit, language (sds)", row["language"], planted_sds, *numbers))
    return found


def rows_of(path: Path) -> list[dict[str, str]]:
    """Return the rows of a CSV file."""
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def run_whole(folder: Path, n_scenarios: int, languages: Sequence[str]) -> dict[str, Any]:
    """Run the panel without a stop; the server counts calls and connections."""
    items = folder / "items.jsonl"
    n = write_items(items, n_scenarios, languages) * len(SEVERITY)
    with serving(rule(latency=0.02, faults=0.02), folder) as server:
        started = time.perf_counter()
        said = bayesjudge(judge_words(items, folder / "run"), environment(server))
        seconds = time.perf_counter() - started
        stats = server.stats()
    return {
        "calls": n,
        "made": said["calls"]["made"],
        "scores": said["scores"],
        "requests": stats["requests"],
        "answered": stats["successes"],
        "connections": CONNECTIONS,
        "peak": stats["peak"],
        "seconds": seconds,
    }


def as_the_rule_says(items: Path, scores: Path) -> bool:
    """Whether the table has every score that the rule gives, and no other."""
    given = rule()
    wanted = {}
    for line in items.read_text(encoding="utf-8").splitlines():
        item = json.loads(line)
        cell = (item["scenario"], item["backbone"], item["language"])
        for judge in SEVERITY:
            wanted[*cell, judge] = float(score(given, judge, parts_of(item["response"])))
    found = rows_of(scores)
    cells = {
        (row["scenario"], row["backbone"], row["language"], row["judge"]): float(row["score"])
        for row in found
    }
    return len(found) == len(cells) and cells == wanted


def run_killed(folder: Path, n_scenarios: int, languages: Sequence[str]) -> dict[str, Any]:
    """Kill a run half way and resume it; the server counts calls and connections."""
    items = folder / "items.jsonl"
    n = write_items(items, n_scenarios, languages) * len(SEVERITY)
    out = folder / "killed"
    started = time.perf_counter()
    with serving(rule(latency=0.02), folder) as server:
        run_until_killed(judge_words(items, out), server, n // 2)
        before = server.stats()["successes"]
        said = bayesjudge(judge_words(items, out, "--resume"), environment(server))
        stats = server.stats()
    return {
        "calls": n,
        "answered before the kill": before,
        "known when resumed": said["calls"]["known_before"],
        "answered in all": stats["successes"],
        "answered more than once": stats["successes"] - n,
        "limit of connections": CONNECTIONS,
        "peak of connections": stats["peak"],
        "table as the rule says": as_the_rule_says(items, out / "scores.csv"),
        "seconds": time.perf_counter() - started,
    }


def compared(folder: Path) -> dict[str, bool]:
    """Compare the killed and resumed run with the one that was not stopped."""
    tables = [folder / name / "scores.csv" for name in ("run", "killed")]
    boards = [bayesjudge(["rank", str(path)])["leaderboard"] for path in tables]
    return {
        "table identical": tables[0].read_bytes() == tables[1].read_bytes(),
        "leaderboard identical": boards[0] == boards[1],
    }


def study(n_scenarios: int, languages: Sequence[str]) -> dict[str, Any]:
    """Run the study in a folder of its own."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        killed = run_killed(folder, n_scenarios, languages)
        print(killed, file=sys.stderr, flush=True)
        intervals = recovered(folder / "killed" / "scores.csv", folder, languages)
    return {
        "design": f"{len(SEVERITY)} judges x {n_scenarios} scenarios x {len(BACKBONE)} backbones x "
        f"{len(languages)} languages",
        "intervals": [vars(one) | {"inside": one.inside} for one in intervals],
        "killed": killed,
    }


def markdown(result: Mapping[str, Any]) -> str:
    """Return the committed report."""
    lines = ["# A panel whose rule is known, asked by bayesjudge judge", ""]
    lines += [f"{k}: {v}  " for k, v in result["versions"].items()]
    inside = sum(one["inside"] for one in result["intervals"])
    lines += [
        "",
        f"{result['design']}, scores {SCALE[0]} to {SCALE[1]}, noise {NOISE}; one table, one seed.",
        "",
        f"{inside} of {len(result['intervals'])} intervals of 95 % hold the planted value.",
        "",
        "| what | level | planted | estimate | interval | inside |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    lines += [
        f"| {one['what']} | {one['level']} | {one['planted']:.3f} | {one['estimate']:.3f} | "
        f"{one['lower']:.3f} to {one['upper']:.3f} | {'yes' if one['inside'] else 'no'} |"
        for one in result["intervals"]
    ]
    lines += ["", "The run, killed half way and resumed:", "", "| | |", "| --- | --- |"]
    lines += [f"| {key} | {_shown(value)} |" for key, value in result["killed"].items()]
    return "\n".join(lines) + "\n"


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.0f}" if isinstance(value, float) else str(value)


def main() -> None:
    """Run from the command line and write the report beside this file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scenarios", type=int, default=60)
    parser.add_argument("--languages", nargs="+", default=list(LANGUAGE), choices=list(LANGUAGE))
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    parser.add_argument("--name", default="rule_judges")
    arguments = parser.parse_args()
    result = {
        "versions": versions("bayesjudge", "inspect-ai", "openai"),
        **study(arguments.scenarios, arguments.languages),
    }
    write(result, markdown(result), arguments.out, arguments.name)


if __name__ == "__main__":
    main()
