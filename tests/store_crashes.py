"""Writers of a store that are killed at random moments: nothing acknowledged may be lost.

    uv run python -m tests.store_crashes --kills 300

A process that has everything loaded forks one writer after another. Each appends day
after day and acknowledges it in a file; after up to two acknowledgements and a random
part of the time that an append takes it gets SIGKILL. The store must then open, hold
exactly the days acknowledged or one more, whole, and take the next.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from bayesjudge.score_store import create_store, is_store, open_store
from bayesjudge.scores import key_sums_of_scores
from bayesjudge.scores.parts import scan_part
from tests.score_days import day, days

RESULTS = Path(__file__).parent / "calibration" / "results"


def write_days(path, acknowledged):
    """Append day after day, for ever."""
    store = open_store(path) if is_store(path) else create_store(path)
    handle = os.open(acknowledged, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    while True:
        made = store.append(day(len(store.appends) + 1))
        os.write(handle, b"%d\n" % made.number)


def fork_writers(path, acknowledged):
    """Fork a writer for each line on stdin, say its process, and wait for its end."""
    for _ in sys.stdin:
        child = os.fork()
        if not child:
            write_days(path, acknowledged)
        print(child, flush=True)
        os.waitpid(child, 0)
        print("ended", flush=True)


@dataclass
class Found:
    """What a run of kills has seen."""

    kills: int = 0
    in_flight_arrived: int = 0
    leftovers: int = 0
    wrong: list[str] = field(default_factory=list)


def same(sums, number):
    """Whether sums by key are to the last digit those of the first days."""
    whole = key_sums_of_scores(scan_part(days(number)).require())
    names = ("codes", "count", "mean", "spread", "low", "high")
    return (sums.names, sums.levels) == (whole.names, whole.levels) and all(
        np.array_equal(getattr(sums, name), getattr(whole, name)) for name in names
    )


def n_lines(path):
    """Count the days acknowledged."""
    return len(path.read_text().split()) if path.exists() else 0


def wait_for(path, more, patience=120.0):
    """Wait for acknowledgements; return the seconds that one took."""
    started, wanted = time.monotonic(), n_lines(path) + more
    while n_lines(path) < wanted:
        assert time.monotonic() - started < patience, "the writer appends nothing"
        time.sleep(0.002)
    return (time.monotonic() - started) / max(more, 1)


def kill_writers(folder, kills, seed=0):
    """Kill writers at random moments of an append, looking after each kill."""
    rng = np.random.default_rng(seed)
    typical = 0.1
    path, acknowledged = folder / "store", folder / "acknowledged"
    found = Found()
    words = [sys.executable, "-m", "tests.store_crashes", "--fork", str(path), str(acknowledged)]
    root = Path(__file__).parents[1]
    with subprocess.Popen(
        words, cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        for _ in range(kills):
            parent.stdin.write("\n")
            parent.stdin.flush()
            child = int(parent.stdout.readline())
            more = int(rng.integers(3))
            took = wait_for(acknowledged, more)
            typical = took if more else typical
            time.sleep(rng.uniform(0, 1.2 * typical))
            os.kill(child, signal.SIGKILL)
            assert parent.stdout.readline() == "ended\n"
            found.kills += 1
            look(path, acknowledged, found)
        parent.stdin.close()
    return found


def look(path, acknowledged, found):
    """Compare the store with what was acknowledged."""
    said = acknowledged.read_text().split() if acknowledged.exists() else []
    if not is_store(path):
        if said:
            found.wrong.append(f"{said[-1]} appends acknowledged, and no store")
        return
    store = open_store(path)
    n = len(store.appends)
    named = {segment.name for segment in store.manifest.segments}
    there = {file.name for file in (path / "sums").iterdir()}
    found.leftovers += len(there - named)
    least = int(said[-1]) if said else 0
    found.in_flight_arrived += n == least + 1
    if n not in (least, least + 1):
        found.wrong.append(f"{n} appends after {least} were acknowledged")
    if said and said != sorted(set(said), key=int):
        found.wrong.append("an append was acknowledged twice")
    if n and not same(store.sums(), n):
        found.wrong.append(f"not the scores of {n} days")
    # What arrived unsaid is known to whoever asks: the next writer goes on from there.
    if n == least + 1:
        with acknowledged.open("a") as file:
            file.write(f"{n}\n")


def main():
    """Kill writers and write what was found."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--fork", nargs=2)
    parser.add_argument("--kills", type=int, default=300)
    given = parser.parse_args()
    if given.fork:
        fork_writers(*map(Path, given.fork))
        return
    with tempfile.TemporaryDirectory() as folder:
        found = kill_writers(Path(folder), given.kills)
        n = len(open_store(Path(folder) / "store").appends)
    result = {
        "kills": found.kills,
        "appends_in_the_end": n,
        "arrived_without_being_acknowledged": found.in_flight_arrived,
        "files_left_by_crashes": found.leftovers,
        "wrong": found.wrong,
    }
    RESULTS.mkdir(parents=True, exist_ok=True)
    text = json.dumps(result, indent=1)
    (RESULTS / "store_crashes.json").write_text(text + "\n")
    print(text)


if __name__ == "__main__":
    main()
