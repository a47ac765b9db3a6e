"""W6: tables larger than memory, against DuckDB's own query over the same keys.

    uv run python -m benchmarks.out_of_core --rows 1e6 1e7 1e8

Writes ``results/w6.json`` and ``.md``. Each table is W1's model (5 backbones x 80
scenarios x generations x 5 judges), written by ``simulate --stream``; every figure is
of a fresh process. DuckDB's query is left in the database and only its sums fetched,
which is the least it can be asked for. A table that is there already is not written again.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import resource
import statistics
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.processes import Ran, run

RESULTS = Path(__file__).parent / "results"
ROWS_OF_A_GENERATION = 2000
W1_ROWS = 20_000
LIMIT_RATIO, LIMIT_MB, LIMIT_RANK = 1.5, 2000.0, 1.3

PEER = """
SELECT count(*), sum(n), sum(total), sum(squares) FROM (
    SELECT scenario, backbone, judge, count(*) AS n, sum(score) AS total,
        sum(score * score) AS squares
    FROM read_parquet('{file}') GROUP BY scenario, backbone, generation, judge)
"""


def _timed(work: Any) -> None:
    """Print what a piece of work took, its imports left out, and what it found."""
    used, started = time.process_time(), time.perf_counter()
    found = work()
    wall, cpu = time.perf_counter() - started, time.process_time() - used
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6
    print(json.dumps({"seconds": wall, "cpu_s": cpu, "peak_mb": peak, **found}))


def take(file: str) -> None:
    """Take the moments of a file."""
    import duckdb  # noqa: F401
    import narwhals  # noqa: F401
    import pandas  # noqa: F401
    import pyarrow.compute
    import pyarrow.parquet  # noqa: F401
    import scipy.sparse.csgraph  # noqa: F401

    from bayesjudge.scores import read_tally

    def work() -> dict[str, Any]:
        found = read_tally(file).moments
        rough = float(found.squares.sum())
        squares = rough + found.n_scores * (found.mean**2 - (found.mean - found.location) ** 2)
        return {"rows": found.n_scores, "total": found.mean * found.n_scores, "squares": squares}

    _timed(work)


def ask_duckdb(file: str, memory: str) -> None:
    """Run DuckDB's own query, in the memory that it is given."""
    import duckdb

    def work() -> dict[str, Any]:
        connection = duckdb.connect()
        connection.execute("SET preserve_insertion_order = false")
        connection.execute(f"SET temp_directory = '{file}.spilled'")
        if memory:
            connection.execute(f"SET memory_limit = '{memory}'")
        ((groups, rows, total, squares),) = connection.sql(PEER.format(file=file)).fetchall()
        return {"rows": int(rows), "total": total, "squares": squares, "groups": groups}

    _timed(work)


def main() -> None:
    """Write the tables, measure both in turn, rank, and write what it took."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.out_of_core", description=__doc__)
    parser.add_argument("--rows", type=float, nargs="+", default=[1e6, 1e7])
    parser.add_argument("--folder", type=Path, default=Path("w6"), help="of the tables")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--duckdb-memory", default="", help="of DuckDB's query; none: its own")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--timeout", type=float, default=3600)
    parser.add_argument("--no-rank", action="store_true")
    parser.add_argument("--out", type=Path, default=RESULTS)
    asked = parser.parse_args()
    asked.folder.mkdir(exist_ok=True)
    tables = [_measure(asked, round(rows)) for rows in asked.rows]
    result = {
        "made": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "cpus": os.cpu_count(),
        "threads": asked.threads,
        "load_average": round(os.getloadavg()[0], 1),
        "limits": {"ratio": LIMIT_RATIO, "peak_mb": LIMIT_MB, "rank": LIMIT_RANK},
        "w1_rank": None if asked.no_rank else _rank(asked, _table(asked, W1_ROWS)),
        "tables": tables,
    }
    (asked.out / "w6.json").write_text(json.dumps(result, indent=2) + "\n")
    (asked.out / "w6.md").write_text(markdown(result))
    print(markdown(result))


def _table(asked: argparse.Namespace, rows: int) -> Path:
    path: Path = asked.folder / f"w6_{rows}.parquet"
    if not path.exists():
        generations = max(2, round(rows / ROWS_OF_A_GENERATION))
        program = str(Path(sys.executable).with_name("bayesjudge"))
        words = ["simulate", str(path), "--stream", "--generations", str(generations)]
        _checked(run([program, *words], asked.threads, asked.timeout))
    return path


def _measure(asked: argparse.Namespace, rows: int) -> dict[str, Any]:
    started = time.perf_counter()
    path = _table(asked, rows)
    written = time.perf_counter() - started
    ours: list[dict[str, Any]] = []
    theirs: list[dict[str, Any]] = []
    for _ in range(asked.repeats):
        for name, found in (("take", ours), ("duckdb", theirs)):
            found.append(_child(asked, name, str(path), asked.duckdb_memory))
    for name in ("rows", "total", "squares"):
        a, b = ours[0][name], theirs[0][name]
        if abs(a - b) > 1e-9 * abs(b):
            raise SystemExit(f"{name} of {path}: {a} and not {b}")
    return {
        "rows": ours[0]["rows"],
        "file_mb": path.stat().st_size / 1e6,
        "write_s": written,
        "groups_of_duckdb": theirs[0]["groups"],
        "duckdb_memory": asked.duckdb_memory or None,
        "ours": _summary(ours),
        "duckdb": _summary(theirs),
        "ratio": _ratio(ours, theirs, "seconds"),
        "ratio_cpu": _ratio(ours, theirs, "cpu_s"),
        "rank": None if asked.no_rank else _rank(asked, path),
    }


def _child(asked: argparse.Namespace, *words: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.out_of_core", *words]
    found: dict[str, Any] = json.loads(_checked(run(command, asked.threads, asked.timeout)).out)
    return found


def _rank(asked: argparse.Namespace, path: Path) -> dict[str, Any]:
    """Rank from moments, in a process of its own."""
    program = str(Path(sys.executable).with_name("bayesjudge"))
    words = ["rank", str(path), "--moments", "--json", "--quiet", "--allow-unconverged"]
    made = run([program, *words], asked.threads, asked.timeout)
    if made.failure:
        return {"skipped": made.failure}
    seconds = json.loads(made.out)["meta"].get("seconds")
    return {"whole_s": made.seconds, "peak_mb": made.peak_mb, "sampling_s": seconds}


def _checked(made: Ran) -> Ran:
    if made.failure:
        raise SystemExit(made.failure)
    return made


def _summary(runs: list[dict[str, Any]]) -> dict[str, Any]:
    found = {name: statistics.median(r[name] for r in runs) for name in ("seconds", "cpu_s")}
    return {**found, "peak_mb": max(r["peak_mb"] for r in runs), "runs": runs}


def _ratio(ours: list[dict[str, Any]], theirs: list[dict[str, Any]], name: str) -> float:
    return float(_summary(ours)[name] / _summary(theirs)[name])


def markdown(result: dict[str, Any]) -> str:
    """Write the result for people."""
    lines = [
        "# W6: tables larger than memory",
        "",
        f"Made {result['made']} on {result['cpus']} processors, load {result['load_average']}, by "
        "`python -m benchmarks.out_of_core`. Seconds are medians, of the wall and, in brackets, of "
        "processors; memory is the most of a process. Asked for: a ratio of at most "
        f"{LIMIT_RATIO}, {LIMIT_MB:,.0f} MB.",
        "",
        "| rows | our pass, s | MB | DuckDB's query, s | MB | ratio | rank, s | MB |",
        "| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for t in result["tables"]:
        cells = [f"{t['rows']:,}"]
        for who in ("ours", "duckdb"):
            own = t[who]
            cells += [f"{own['seconds']:.2f} ({own['cpu_s']:.2f})", f"{own['peak_mb']:,.0f}"]
        cells.append(f"{t['ratio']:.2f} ({t['ratio_cpu']:.2f})")
        lines.append(f"| {' | '.join([*cells, *_rank_cells(t['rank'])])} |")
    for t in result["tables"]:
        if t["duckdb_memory"]:
            given = f"Of {t['rows']:,} rows DuckDB's query was given {t['duckdb_memory']} of memory"
            lines += ["", f"{given}, as our pass always is."]
    w1 = result["w1_rank"]
    if w1 and "whole_s" in w1:
        lines += ["", f"`rank` of W1 ({W1_ROWS:,} rows) from moments: {w1['whole_s']:.2f} s."]
    return "\n".join([*lines, ""])


def _rank_cells(rank: dict[str, Any] | None) -> list[str]:
    if rank is None or "skipped" in rank:
        return ["not measured", ""]
    return [f"{rank['whole_s']:.2f}", f"{rank['peak_mb']:,.0f}"]


if __name__ == "__main__":
    if sys.argv[1:2] == ["take"]:
        take(sys.argv[2])
    elif sys.argv[1:2] == ["duckdb"]:
        ask_duckdb(sys.argv[2], sys.argv[3])
    else:
        main()
