"""Many tables at once: ``bayesjudge rank --by`` beside a process a table:

    uv run python -m benchmarks.by

Writes ``benchmarks/results/by.json`` and ``.md``. One command ranks 300 tables of 2,000 scores;
before it and after it separate processes rank some of the same tables, one after another, and
their median stands for all 300. Without a folder both print JSON; with ``--out`` both also write
tables, page and posterior. On a busy machine the ratio of processor seconds is the one to read:
two processes side by side then gain nothing by the clock that others take.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pandas as pd

from bayesjudge.simulation import simulate
from benchmarks.report import circumstances, told, write

RESULTS = Path(__file__).parent / "results"
WANTED = 20.0
BACKBONES, SCENARIOS, JUDGES = 5, 80, 5
PROGRAM = str(Path(sys.executable).with_name("bayesjudge"))


def write_tables(folder: Path, n: int, scenarios: int) -> tuple[Path, list[Path]]:
    """Write n tables, as one file with a column ``table`` and as a file each."""
    tables, singles = [], []
    for number in range(n):
        made = simulate(
            backbones=BACKBONES, scenarios=scenarios, judges=JUDGES, random_seed=number
        ).table
        singles.append(folder / f"one{number}.csv")
        made.to_csv(singles[-1], index=False)
        tables.append(made.assign(table=f"t{number:04d}"))
    together = folder / "together.csv"
    pd.concat(tables).to_csv(together, index=False)
    return together, singles


def timed(words: list[str]) -> tuple[float, float, str]:
    """Run ``bayesjudge``; seconds by the clock, of all its processes, and what it said."""
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run([PROGRAM, *words], capture_output=True, text=True, check=False)
    seconds, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise SystemExit(f"bayesjudge {' '.join(words)}: {done.stderr.strip().splitlines()[-1]}")
    used = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return seconds, used, done.stdout


def compare(folder: Path, n: int, n_singles: int, scenarios: int, written: bool) -> dict[str, Any]:
    """Rank the tables together, and some of them by themselves before and after."""
    together, singles = write_tables(folder, n, scenarios)
    usual = ["--json", "--quiet", "--allow-unconverged"]

    def out(name: str) -> list[str]:
        return ["--out", str(folder / name)] if written else []

    def alone(numbers: range) -> list[tuple[float, float, str]]:
        return [timed(["rank", str(singles[i]), *usual, *out(f"o{i}")]) for i in numbers]

    half = n_singles // 2
    first = alone(range(half))
    clock, used, said = timed(["rank", str(together), "--by", "table", *usual, *out("together")])
    each = [*first, *alone(range(half, n_singles))]
    groups = json.loads(said)["groups"]
    same = all(
        groups[f"t{i:04d}"]["leaderboard"] == json.loads(text)["leaderboard"]
        for i, (*_, text) in enumerate(each)
    )
    one_clock = statistics.median(seconds for seconds, *_ in each)
    one_used = statistics.median(seconds for _, seconds, _ in each)
    return {
        "folder": written,
        "tables": n,
        "rows": scenarios * BACKBONES * JUDGES,
        "answered": sum("leaderboard" in group for group in groups.values()),
        "methods": sorted({group["meta"]["method"] for group in groups.values()}),
        "same_leaderboards": same,
        "together_s": clock,
        "together_cpu_s": used,
        "alone_s": [seconds for seconds, *_ in each],
        "alone_cpu_s": [seconds for _, seconds, _ in each],
        "ratio": one_clock * n / clock,
        "ratio_cpu": one_used * n / used,
    }


def markdown(found: dict[str, Any]) -> str:
    """Return the page."""
    head = (
        "| | tables | rows each | together, s | CPU s | alone, s | CPU s | throughput | by CPU |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    )
    rows = [
        f"| {'JSON and a folder' if r['folder'] else 'JSON'} | {r['tables']} | {r['rows']:,} | "
        f"{r['together_s']:.1f} | {r['together_cpu_s']:.1f} | "
        f"{statistics.median(r['alone_s']):.2f} | {statistics.median(r['alone_cpu_s']):.2f} | "
        f"{r['ratio']:.1f} | {r['ratio_cpu']:.1f} |"
        for r in found["runs"]
    ]
    same = all(r["same_leaderboards"] for r in found["runs"])
    said = "are the same to the last digit" if same else "**DIFFER**"
    return (
        "# Many tables at once\n\n"
        f"{told(found)}\n\n"
        + "\n".join((*head, *rows))
        + "\n\nTogether: one `bayesjudge rank --by table`. Alone: a `bayesjudge rank` a table, the "
        f"median of {found['singles']}, one after another. Throughput is that of the first over "
        f"that of the second, by the clock; {WANTED:g} is wanted. By CPU: processor seconds, in "
        f"which the second core counts for nothing. Leaderboards of both {said}.\n"
    )


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=int, default=300)
    parser.add_argument("--singles", type=int, default=10)
    parser.add_argument("--scenarios", type=int, default=SCENARIOS, help="of each table")
    parser.add_argument("--folders", nargs="+", choices=("without", "with"), default=["without"])
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    runs, load = [], os.getloadavg()[0]
    for which in given.folders:
        with tempfile.TemporaryDirectory() as folder:
            place, written = Path(folder), which == "with"
            runs.append(
                compare(place, given.tables, given.singles, given.scenarios, written=written)
            )
    found = {
        **circumstances(load),
        "singles": given.singles,
        "runs": runs,
    }
    write(found, markdown(found), given.out, "by")


if __name__ == "__main__":
    main()
