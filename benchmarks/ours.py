"""bayesjudge in one process: ``python -m benchmarks.ours fit NAME TABLE.csv REPEATS``."""

from __future__ import annotations

import json
import sys
import time
from typing import Any

from benchmarks.workloads import Workload, workload

# What a `bayesjudge rank` has loaded when it begins to read.
RANK_IMPORTS = (
    "pandas",
    "xarray",
    "pyarrow.csv",
    "arviz_stats",
    "rich.table",
    "bayesjudge.cli.app",
    "bayesjudge.cli.ranks",
    "bayesjudge.engines.exact",
    "bayesjudge.report.terminal",
    "bayesjudge.scores.frames",
)


def import_only() -> None:
    """Load what ``rank`` loads, and nothing more."""
    import importlib

    for name in RANK_IMPORTS:
        importlib.import_module(name)


def read(which: Workload, source: Any) -> Any:
    """Return the workload's scores, from a path or a frame."""
    from bayesjudge.scores import read_scores

    return read_scores(
        source,
        facets=which.facets,
        random=which.random,
        ignore=which.ignored,
        scale=which.scale,
        replicates=which.replicates,
    )


def table_mb(scores: Any) -> float:
    """Return the size of the table in memory: one float and one code a facet for each score."""
    arrays = [scores.score, *(facet.codes for facet in scores.facets)]
    return float(sum(array.nbytes for array in arrays) / 1e6)


def effective_size(made: Any) -> dict[str, Any]:
    """Return the ESS of STATISTICS section 5 and what it is the least of.

    The package's own check takes the least bulk ESS over scales, panel effects
    and backbone means. Draws with weights carry the sizes that the weights
    leave as attributes that end in ``_ess`` (Kish's, and per quantity).
    """
    found = made.convergence
    stats = made.posterior["sample_stats"].attrs
    weighted = {name: float(value) for name, value in stats.items() if name.endswith("_ess")}
    return {
        "ess_min": min([found.ess_bulk_min, *weighted.values()]),
        "ess_tail_min": found.ess_tail_min,
        **weighted,
        "pareto_k": found.pareto_k,
        "r_hat_max": found.r_hat_max,
        "divergences": found.divergences,
        "converged": found.converged,
        "worst": found.worst,
    }


def fit_repeatedly(name: str, path: str, repeats: int) -> dict[str, Any]:
    """Fit once to compile, then time fits of the same shape: moments to DataTree."""
    from bayesjudge.fitting import fit

    which = workload(name)
    scores = read(which, path)
    seconds, engine = [], []
    made = None
    for seed in range(repeats + 1):
        started = time.perf_counter()
        made = fit(scores, which.model, "exact", random_seed=seed)
        seconds.append(time.perf_counter() - started)
        engine.append(float(made.metadata["seconds"]))
    assert made is not None
    size = effective_size(made)
    warm = sorted(seconds[1:])[(len(seconds) - 1) // 2]
    sizes = made.posterior["posterior"].sizes
    return {
        "rows": len(scores),
        "table_mb": table_mb(scores),
        "method": made.metadata["method"],
        "draws": int(sizes["chain"] * sizes["draw"]),
        "first_fit_s": seconds[0],
        "fit_s": seconds[1:],
        "fit_median_s": warm,
        "engine_s": engine[1:],
        **size,
        "ess_per_s": size["ess_min"] / warm,
    }


def time_by_rows(generations: list[int]) -> list[dict[str, Any]]:
    """Fit W1's model with more and more generations, each twice; report the second."""
    from bayesjudge.fitting import fit
    from bayesjudge.scores import read_scores
    from benchmarks.building import mt_bench_table

    rows = []
    for n in generations:
        scores = read_scores(mt_bench_table({"scenario": 80, "generation": n}))
        fit(scores, "crossed", "exact")
        made = fit(scores, "crossed", "exact", random_seed=1)
        total = float(made.metadata["seconds"])
        passed = float(made.metadata["pass_seconds"])
        rows.append(
            {
                "rows": len(scores),
                "generations": n,
                "method": made.metadata["method"],
                "pass_s": passed,
                "sampling_s": total - passed,
                "ess_min": effective_size(made)["ess_min"],
            }
        )
    return rows


def versions() -> dict[str, str]:
    """Return the versions that matter."""
    import platform
    from importlib.metadata import version

    names = ("bayesjudge", "numpy", "scipy", "jax", "numpyro", "arviz-stats", "xarray")
    return {"python": platform.python_version(), **{name: version(name) for name in names}}


def main() -> None:
    """Print one JSON value."""
    task, *words = sys.argv[1:]
    found: Any = None
    if task == "imports":
        import_only()
    elif task == "fit":
        found = fit_repeatedly(words[0], words[1], int(words[2]))
    elif task == "scaling":
        found = time_by_rows([int(word) for word in words])
    elif task == "versions":
        found = versions()
    else:
        raise SystemExit(f"there is no task {task!r}")
    print(json.dumps(found))


if __name__ == "__main__":
    main()
