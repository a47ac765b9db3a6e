"""``uv run python -m benchmarks``: measure, and write ``results/benchmarks.json`` and ``.md``."""

from __future__ import annotations

import argparse
import datetime
import json
import math
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.processes import Ran, run
from benchmarks.report import markdown
from benchmarks.workloads import WORKLOADS, Workload, workload

HERE = Path(__file__).parent
PEERS = ("numpyro", "lme4")
PARAMETERIZATIONS = ("centred", "non-centred")
# Rows of W1's table for each generation of an answer, at full size.
ROWS_OF_A_GENERATION = 2000
SCALING_ROWS = (10_000, 100_000, 1_000_000)
# Memory above imports that the issue allows: a part of the table and a constant.
LIMIT_OF_TABLE, LIMIT_MB = 1.5, 100.0


@dataclass(frozen=True)
class Plan:
    """What was asked for."""

    workloads: tuple[str, ...]
    peers: tuple[str, ...]
    repeats: int
    numpyro_draws: int
    numpyro_tune: int
    numpyro_chains: int
    threads: int
    timeout: float
    quick: bool
    scaling: tuple[int, ...]
    out: Path
    rscript: str | None

    def child(self, module: str, *words: object) -> Ran:
        """Run a module of this folder in a process of its own."""
        command = [sys.executable, "-m", f"benchmarks.{module}", *map(str, words)]
        return run(command, self.threads, self.timeout)


def say(text: str) -> None:
    """Tell the person who waits."""
    print(text, file=sys.stderr, flush=True)


def parse(words: list[str] | None = None) -> Plan:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    names = [w.name for w in WORKLOADS]
    parser.add_argument("--workloads", nargs="*", default=names, choices=names)
    parser.add_argument("--peers", nargs="+", default=list(PEERS), choices=[*PEERS, "none"])
    parser.add_argument("--repeats", type=int, default=5, help="of whole processes")
    parser.add_argument("--numpyro-draws", type=int, default=500, help="of each chain")
    parser.add_argument("--numpyro-tune", type=int, default=500)
    parser.add_argument("--numpyro-chains", type=int, default=2)
    parser.add_argument("--threads", type=int, default=_cpus(), help="CPUs of each process")
    parser.add_argument("--timeout", type=float, default=3600, help="seconds of each process")
    parser.add_argument("--quick", action="store_true", help="scaled down, to see that it runs")
    parser.add_argument(
        "--scaling", type=int, nargs="*", metavar="ROWS", help="of W1's model; none: leave it out"
    )
    parser.add_argument("--out", type=Path, default=HERE / "results")
    asked = parser.parse_args(words)
    for name in ("repeats", "numpyro_draws", "numpyro_tune", "numpyro_chains", "threads"):
        if getattr(asked, name) < 1:
            parser.error(f"--{name.replace('_', '-')} must be at least 1")
    scaling = asked.scaling
    if scaling is None:
        scaling = () if asked.quick else SCALING_ROWS
    return Plan(
        workloads=tuple(asked.workloads),
        peers=tuple(peer for peer in PEERS if peer in asked.peers and "none" not in asked.peers),
        repeats=asked.repeats,
        numpyro_draws=asked.numpyro_draws,
        numpyro_tune=asked.numpyro_tune,
        numpyro_chains=asked.numpyro_chains,
        threads=asked.threads,
        timeout=asked.timeout,
        quick=asked.quick,
        scaling=tuple(scaling),
        out=asked.out,
        rscript=_rscript(),
    )


def _cpus() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _rscript() -> str | None:
    """Return Rscript's path where it has lme4."""
    found = shutil.which("Rscript")
    if found is None:
        return None
    asked = subprocess.run([found, "-e", "library(lme4)"], capture_output=True, check=False)
    return found if asked.returncode == 0 else None


def measure(plan: Plan) -> dict[str, Any]:
    """Run everything that was asked for."""
    imports = plan.child("ours", "imports")
    measured = []
    with tempfile.TemporaryDirectory() as folder:
        for name in plan.workloads:
            say(f"{name}: {workload(name).title}")
            measured.append(_measure_workload(plan, workload(name), Path(folder), imports))
    return {
        "made": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "quick": plan.quick,
        "machine": _machine(),
        "settings": {
            "threads": plan.threads,
            "repeats": plan.repeats,
            "numpyro_draws": plan.numpyro_draws,
            "numpyro_tune": plan.numpyro_tune,
            "numpyro_chains": plan.numpyro_chains,
            "peers": list(plan.peers),
        },
        "versions": _versions(plan, measured),
        "workloads": measured,
        "scaling": _scaling(plan),
    }


def _measure_workload(plan: Plan, which: Workload, folder: Path, imports: Ran) -> dict[str, Any]:
    table = folder / f"{which.name}.csv"
    empty: dict[str, Any] = {
        "name": which.name,
        "title": which.title,
        "model": which.model if which.model == "crossed" else Path(which.model).name,
        "formula": which.formula,
        "rows": None,
        "ratios": {"whole_process": None, "ess_per_second": None},
    }
    if which.name == "W5" and plan.rscript is None:
        reason = "InstEval lies in lme4, and Rscript with lme4 is not here"
        say(f"  skipped: {reason}")
        return {**empty, **{who: {"skipped": reason} for who in ("ours", "lme4", "numpyro")}}
    size = "quick" if plan.quick else "full"
    built = plan.child("building", which.name, size, table, "--rscript", plan.rscript or "")
    if built.failure:
        raise SystemExit(f"{which.name}: the table cannot be built: {built.failure}")
    ours, lme4 = _whole_processes(plan, which, table, imports)
    inside = {}
    if not which.is_sampled:
        inside = _json_of(plan.child("ours", "fit", which.name, table, plan.repeats))
    if "skipped" in inside:
        say(f"  our fit in process: {inside['skipped']}")
    rows = inside.pop("rows", ours.pop("rows", None))
    ours = {**ours, **inside}
    if "table_mb" in ours:
        ours["limit_mb"] = LIMIT_OF_TABLE * ours["table_mb"] + LIMIT_MB
    numpyro = _numpyro(plan, which, table)
    return {
        **empty,
        "rows": rows,
        "ours": ours,
        "lme4": lme4,
        "numpyro": numpyro,
        "ratios": {
            "whole_process": _ratio(ours.get("whole_median_s"), lme4.get("whole_median_s")),
            "ess_per_second": _ratio(ours.get("ess_per_s"), numpyro.get("ess_per_s")),
        },
    }


def _whole_processes(
    plan: Plan, which: Workload, table: Path, imports: Ran
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Run ``bayesjudge rank`` and lme4 in turn, so that both meet the same noise."""
    program = str(Path(sys.executable).with_name("bayesjudge"))
    rank = [program, "rank", str(table), *which.rank_options()]
    rank += ["--json", "--quiet", "--allow-unconverged"]
    reason = "" if "lme4" in plan.peers else "not asked for"
    if not reason and not which.formula:
        reason = "lme4 has no such model"
    if not reason and plan.rscript is None:
        reason = "Rscript with lme4 is not here"
        say(f"  lme4 skipped: {reason}")
    ours: list[Ran] = []
    theirs: list[Ran] = []
    fits: list[dict[str, Any]] = []
    failed = ""
    for _ in range(plan.repeats):
        if not failed:
            ours.append(run(rank, plan.threads, plan.timeout))
            failed = ours[-1].failure
        if not reason:
            out = table.with_suffix(".lme4.json")
            script = [str(plan.rscript), str(HERE / "lme4.R"), str(table), which.formula, str(out)]
            theirs.append(run(script, plan.threads, plan.timeout))
            reason = theirs[-1].failure
            if not reason:
                fits.append(json.loads(out.read_text(encoding="utf-8")))
    found: dict[str, Any] = {"skipped": failed} if failed else _whole(ours)
    if failed:
        say(f"  bayesjudge rank: {failed}")
    else:
        say(f"  bayesjudge rank: {found['whole_median_s']:.2f} s")
        found["imports_mb"] = imports.peak_mb
        found["above_imports_mb"] = found["peak_mb"] - imports.peak_mb
        if which.is_sampled:
            found |= _sampled(ours[-1], found["whole_median_s"])
    if reason:
        return found, {"skipped": reason}
    lme4 = {
        **_whole(theirs),
        "fit_s": [f["fit_s"] for f in fits],
        "fit_median_s": statistics.median(f["fit_s"] for f in fits),
        **{name: fits[-1][name] for name in ("singular", "reml_criterion", "variance")},
        **{name: fits[-1][name] for name in ("r", "lme4")},
    }
    say(f"  lme4: {lme4['whole_median_s']:.2f} s whole, {lme4['fit_median_s']:.2f} s the fit")
    return found, lme4


def _sampled(ran: Ran, seconds: float) -> dict[str, Any]:
    """Read what ``rank --json`` says of its chains; start-up and compiling count as time."""
    said = json.loads(ran.out)
    checks, meta = said["diagnostics"], said["meta"]
    return {
        "rows": meta["n_scores"],
        "method": meta["method"],
        "draws": meta["chains"] * meta["draws"],
        "ess_min": checks["ess_bulk_min"],
        "ess_tail_min": checks["ess_tail_min"],
        "r_hat_max": checks["r_hat_max"],
        "divergences": checks["divergences"],
        "converged": checks["converged"],
        "worst": checks["worst"],
        "ess_per_s": checks["ess_bulk_min"] / seconds,
    }


def _whole(runs: list[Ran]) -> dict[str, Any]:
    return {
        "whole_s": [r.seconds for r in runs],
        "whole_median_s": statistics.median(r.seconds for r in runs),
        "peak_mb": max(r.peak_mb for r in runs),
    }


def _numpyro(plan: Plan, which: Workload, table: Path) -> dict[str, Any]:
    """Sample every effect in both parameterizations; the better one counts."""
    if "numpyro" not in plan.peers:
        return {"skipped": "not asked for"}
    variants = {}
    for name in PARAMETERIZATIONS:
        words = ["--draws", plan.numpyro_draws, "--tune", plan.numpyro_tune]
        words += ["--chains", plan.numpyro_chains]
        made = _json_of(plan.child("every_effect", which.name, table, name, *words))
        variants[name] = made
        told = f"{made['ess_per_s']:.3g} ESS/s" if "ess_per_s" in made else made["skipped"]
        say(f"  NumPyro, {name}: {told}")
    done = {name: v for name, v in variants.items() if "ess_per_s" in v}
    if not done:
        return {"skipped": "neither parameterization gave a result", "variants": variants}
    best = max(done, key=lambda name: float(done[name]["ess_per_s"]))
    return {"variants": variants, "best": best, "ess_per_s": done[best]["ess_per_s"]}


def _scaling(plan: Plan) -> list[dict[str, Any]] | dict[str, Any]:
    if not plan.scaling:
        return []
    say(f"scaling: {', '.join(f'{n:,}' for n in plan.scaling)} rows")
    generations = [max(2, round(rows / ROWS_OF_A_GENERATION)) for rows in plan.scaling]
    made = plan.child("ours", "scaling", *generations)
    if made.failure:
        say(f"  {made.failure}")
        return {"skipped": made.failure}
    rows: list[dict[str, Any]] = json.loads(made.out)
    return rows


def _json_of(made: Ran) -> dict[str, Any]:
    """Return what a child printed, or why there is nothing."""
    if made.failure:
        return {"skipped": made.failure}
    found: dict[str, Any] = json.loads(made.out)
    return found


def _finite(value: Any) -> Any:
    """Return a value as JSON can hold it: NaN and infinity as null."""
    if isinstance(value, dict):
        return {name: _finite(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_finite(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _ratio(a: float | None, b: float | None) -> float | None:
    return None if a is None or not b else a / b


def _versions(plan: Plan, measured: list[dict[str, Any]]) -> dict[str, str]:
    found: dict[str, str] = json.loads(plan.child("ours", "versions").out)
    for w in measured:
        if "r" in w["lme4"]:
            return {**found, "R": w["lme4"]["r"], "lme4": w["lme4"]["lme4"]}
    return found


def _machine() -> dict[str, Any]:
    cpu = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        lines = info.read_text(encoding="utf-8").splitlines()
        cpu = next((s.partition(":")[2].strip() for s in lines if s.startswith("model name")), cpu)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    return {"cpu": cpu, "cpus": _cpus(), "memory_gb": memory, "platform": platform.platform()}


def main(words: list[str] | None = None) -> None:
    """Measure, then write both files."""
    plan = parse(words)
    plan.out.mkdir(parents=True, exist_ok=True)
    found = measure(plan)
    name = "quick" if plan.quick else "benchmarks"
    found = _finite(found)
    text = json.dumps(found, indent=2, allow_nan=False) + "\n"
    plan.out.joinpath(f"{name}.json").write_text(text, encoding="utf-8")
    plan.out.joinpath(f"{name}.md").write_text(markdown(found), encoding="utf-8")
    say(f"written to {plan.out}/{name}.json and .md")


if __name__ == "__main__":
    main()
