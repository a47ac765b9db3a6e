"""The Laplace engine beside NUTS, on verdicts and on categories:

    uv run python -m benchmarks.laplace

Writes ``benchmarks/results/laplace.json`` and ``.md``. Each fit is a process of its own, and
its seconds are all of ``fit``: compiling and warm-up too. NUTS may be run for fewer draws than
a user would take (``--draws``, ``--tune``): its effective size a second is that of what it did,
which compiling and warm-up weigh down the more the shorter it is. Processor seconds are
compared: by the clock a busy machine says little. ``--verdicts`` names the Parquet file of
devai_multilingual's 52,560 verdicts, which are fitted instead of the simulated ones.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pandas as pd

from benchmarks.building import build
from benchmarks.ours import effective_size, read
from benchmarks.processes import run
from benchmarks.report import circumstances, told, write
from benchmarks.workloads import workload

RESULTS = Path(__file__).parent / "results"
WANTED = 20.0
NAMES = ("W7", "verdicts")


def devai(path: Path) -> pd.DataFrame:
    """Return the verdicts as a table: judges are backbones, frameworks are replicates."""
    found = pd.read_parquet(path)
    scenario = found["scenario"].astype(str) + "/" + found["requirement"].astype(str)
    named = found.assign(scenario=scenario).rename(
        columns={"judge": "backbone", "model": "replicate"}
    )
    return named[["backbone", "language", "scenario", "replicate", "score"]]


def fit_once(name: str, path: str, engine: str, settings: dict[str, int]) -> dict[str, Any]:
    """Fit a table of a workload's shape; seconds, and the least effective size of all reported."""
    from bayesjudge.fitting import fit

    which = workload(name)
    scores = read(which, path)
    options: dict[str, Any] = {} if engine == "laplace" else settings
    clock, used = time.perf_counter(), time.process_time()
    made = fit(scores, which.model, engine, random_seed=1, **options)
    clock, used = time.perf_counter() - clock, time.process_time() - used
    sizes = made.posterior["posterior"].sizes
    size = effective_size(made)
    sizes_of_all = (size["ess_min"], size["ess_tail_min"])
    least = min(one for one in sizes_of_all if one is not None)
    return {
        "rows": len(scores),
        "method": made.metadata["method"],
        "chains": int(sizes["chain"]),
        "draws": int(sizes["draw"]),
        "tune": options.get("tune", 0),
        "clock_s": clock,
        "cpu_s": used,
        **size,
        "ess": least,
        "ess_per_cpu_s": least / used,
    }


def compare(name: str, path: Path, settings: dict[str, int], quick: bool) -> dict[str, Any]:
    """Fit by both engines, each in a process."""
    found: dict[str, Any] = {"name": name}
    for engine in ("laplace", "numpyro"):
        words = ["fit", name, str(path), engine, json.dumps(settings)]
        made = run([sys.executable, "-m", "benchmarks.laplace", *words], 1, 24 * 3600.0)
        if made.failure:
            raise SystemExit(f"{name} by {engine}: {made.failure}")
        found[engine] = json.loads(made.out)
        print(f"{name}, {engine}: {found[engine]}", file=sys.stderr, flush=True)
    found["ratio"] = found["laplace"]["ess_per_cpu_s"] / found["numpyro"]["ess_per_cpu_s"]
    return found | {"quick": quick}


def markdown(found: dict[str, Any]) -> str:
    """Return the page."""
    head = (
        "| | scores | engine | chains x draws (warm-up) | ESS | Pareto k | R-hat | CPU s "
        "| clock, s | ESS / CPU s | times |",
        "| --- | ---: | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    )
    rows = []
    for one in found["workloads"]:
        times = f"{one['ratio']:.1f}"
        for engine in ("laplace", "numpyro"):
            made = one[engine]
            k, r = made["pareto_k"], made["r_hat_max"]
            rows.append(
                f"| {one['name']} | {made['rows']:,} | {engine} ({made['method']}) | "
                f"{made['chains']} x {made['draws']} ({made['tune']}) | {made['ess']:.0f} | "
                f"{'–' if k is None else f'{k:.2f}'} | {'–' if r is None else f'{r:.3f}'} | "
                f"{made['cpu_s']:.0f} | {made['clock_s']:.0f} | {made['ess_per_cpu_s']:.3g} | "
                f"{times if engine == 'laplace' else ''} |"
            )
    scaled = any(one["quick"] for one in found["workloads"])
    note = "**Scaled down: these numbers say nothing but that it runs.**\n\n" if scaled else ""
    return (
        "# The Laplace engine beside NUTS\n\n"
        f"{told(found)} {found['table']}\n\n{note}"
        + "\n".join((*head, *rows))
        + "\n\nA process a fit, on one thread; seconds are all of `fit`: compiling and warm-up "
        "too. ESS is the least, bulk or tail, over scales, panel effects and backbone means; of "
        "weighted draws also Kish's and what is left of each quantity. NUTS runs for as many "
        "draws as the table says, and its ESS a second is that of those and their warm-up. Times: "
        f"the Laplace engine's ESS a processor second over NUTS's; {WANTED:g} is wanted.\n"
    )


def main() -> None:
    """Measure and write; or, in a child, fit and print."""
    if sys.argv[1:2] == ["fit"]:
        words = sys.argv[2:]
        print(json.dumps(fit_once(words[0], words[1], words[2], json.loads(words[3]))))
        return
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workloads", nargs="+", choices=NAMES, default=NAMES)
    parser.add_argument("--draws", type=int, default=250, help="NUTS's, of each chain")
    parser.add_argument("--tune", type=int, default=250)
    parser.add_argument("--chains", type=int, default=2)
    parser.add_argument("--verdicts", type=Path, help="Parquet of devai_multilingual's verdicts")
    parser.add_argument("--quick", action="store_true", help="scaled down, to see that it runs")
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    settings = {"draws": given.draws, "tune": given.tune, "chains": given.chains}
    made, load = [], os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder:
        for name in given.workloads:
            path = Path(folder) / f"{name}.csv"
            real = name == "verdicts" and given.verdicts is not None
            table = devai(given.verdicts) if real else build(workload(name), given.quick)
            table.to_csv(path, index=False)
            made.append(compare(name, path, settings, given.quick))
    table_told = "Verdicts: devai_multilingual's." if given.verdicts else "Verdicts: simulated."
    found = {
        **circumstances(load),
        "table": table_told,
        "workloads": made,
    }
    write(found, markdown(found), given.out, "laplace")


if __name__ == "__main__":
    main()
