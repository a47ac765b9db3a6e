"""Coverage and rank calibration on small tables (STATISTICS section 6).

Truths are drawn from the priors in use, with fixed unit and location, so that
nominal intervals must cover at their nominal rate. One prespecified scalar a
table and quantity; exact binomial tests at level 0.001 / number of quantities.

Full size: ``uv run python -m tests.calibration.coverage --tables 250``
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binomtest

import bayesjudge as bj
from bayesjudge.resolution import resolve
from bayesjudge.scores.table import Facet, Scores
from bayesjudge.simulation import simulate_scores
from bayesjudge.spec import read_model
from tests.calibration.reporting import versions, write

# backbones x scenarios x judges, generations, languages
SHAPES: dict[str, dict[str, int]] = {
    "3x8x3": {"backbone": 3, "scenario": 8, "judge": 3},
    "5x20x4": {"backbone": 5, "scenario": 20, "judge": 4},
    "4x15x3x2 generations": {"backbone": 4, "scenario": 15, "judge": 3, "generation": 2},
    "3x10x4x3 languages": {"backbone": 3, "scenario": 10, "judge": 4, "language": 3},
}
QUANTITIES = (
    "first mean",
    "first difference",
    "first judge offset",
    "backbone sd",
    "judge sd",
    "scenario sd",
    "residual sd",
)
UNIT, LOCATION, CI_PROB = 1.0, 7.0, 0.95
ROLES = {"backbone": "panel", "judge": "panel", "language": "panel"}


@dataclass(frozen=True)
class Table:
    """Outcome of one table: what was covered, and the rank calibration sums."""

    covered: tuple[bool, ...]
    rank_residual: float
    rank_variance: float
    method: str
    converged: bool


def design(shape: Mapping[str, int]) -> Scores:
    """Return a complete table of this shape, without scores worth looking at."""
    order = ("backbone", "judge", "language", "scenario", "generation")
    names = [n for n in order if n in shape]
    codes = np.indices([shape[n] for n in names]).reshape(len(names), -1)
    facets = tuple(
        Facet(
            n,
            ROLES.get(n, "random"),  # type: ignore[arg-type]
            tuple(f"{n}{i:03d}" for i in range(shape[n])),
            c.astype(np.int64),
        )
        for n, c in zip(names, codes, strict=True)
    )
    return Scores(np.arange(codes.shape[1], dtype=float), facets)


def with_scores(scores: Scores, values: NDArray[np.float64]) -> Scores:
    """Return the same design with other scores."""
    return Scores(values, scores.facets)


def run_table(scores: Scores, seed: int, engine: str = "auto") -> Table:
    """Draw a truth and a table, fit, and compare."""
    spec = read_model("crossed")
    resolved = resolve(spec, scores, UNIT, LOCATION)
    values, truth = simulate_scores(resolved, np.random.default_rng([7, seed]))
    fit = bj.fit(
        with_scores(scores, values),
        spec,
        engine,
        unit=UNIT,
        location=LOCATION,
        draws=500,
        tune=300,
        random_seed=seed,
    )
    posterior = {
        k: v.to_numpy().reshape(-1, *v.shape[2:])
        for k, v in fit.posterior["posterior"].data_vars.items()
    }
    means = posterior["backbone_mean"]
    true_means = np.asarray(truth["backbone_mean"])
    pairs = (
        (means[:, 0], true_means[0]),
        (means[:, 0] - means[:, 1], true_means[0] - true_means[1]),
        (posterior["judge_effect"][:, 0], np.asarray(truth["effects"]["judge"])[0]),
        (posterior["backbone_sd"], truth["scales"]["backbone_sd"]),
        (posterior["judge_sd"], truth["scales"]["judge_sd"]),
        (posterior["scenario_sd"], truth["scales"]["scenario_sd"]),
        (posterior["sigma"][:, 0], np.ravel(truth["scales"]["sigma"])[0]),
    )
    tails = ((1 - CI_PROB) / 2, (1 + CI_PROB) / 2)
    covered = []
    for draws, value in pairs:
        lower, upper = np.quantile(draws, tails)
        covered.append(bool(lower <= value <= upper))
    p_best = fit.rank_probabilities().to_numpy()[:, 0]
    best = np.zeros(len(p_best))
    best[np.argmax(true_means)] = 1.0
    return Table(
        tuple(covered),
        float(np.sum(p_best * (best - p_best))),
        float(np.sum(p_best**3) - np.sum(p_best**2) ** 2),
        str(fit.metadata["method"]),
        fit.convergence.converged,
    )


def rank_z(tables: Sequence[Table]) -> float:
    """Return Z of STATISTICS section 6; |Z| < 3.3 for calibrated P(best)."""
    variance = sum(t.rank_variance for t in tables)
    return sum(t.rank_residual for t in tables) / np.sqrt(variance)


def summarize(tables: Sequence[Table], n_tests: int) -> dict[str, Any]:
    """Return coverage with its exact test, and the rank calibration."""
    n = len(tables)
    rows = []
    for i, name in enumerate(QUANTITIES):
        hits = sum(t.covered[i] for t in tables)
        p = float(binomtest(hits, n, CI_PROB).pvalue)
        rows.append(
            {"quantity": name, "covered": hits / n, "p_value": p, "ok": p >= 0.001 / n_tests}
        )
    z = float(rank_z(tables))
    methods = sorted({t.method for t in tables})
    return {
        "tables": n,
        "coverage": rows,
        "rank_z": z,
        "rank_ok": abs(z) < 3.3,
        "converged": sum(t.converged for t in tables),
        "methods": {m: sum(t.method == m for t in tables) for m in methods},
    }


def study(n_tables: int, shapes: Sequence[str], engine: str = "auto") -> dict[str, Any]:
    """Run the study; every table counts, converged or not."""
    n_tests = len(QUANTITIES) * len(shapes)
    out = {}
    for shape in shapes:
        started = time.perf_counter()
        scores = design(SHAPES[shape])
        tables = [run_table(scores, seed, engine) for seed in range(n_tables)]
        out[shape] = {
            **summarize(tables, n_tests),
            "seconds": round(time.perf_counter() - started, 1),
        }
        print(f"{shape}: {out[shape]['seconds']} s", file=sys.stderr, flush=True)
    return out


def markdown(result: Mapping[str, Any]) -> str:
    """Return the committed report."""
    lines = ["# Coverage of 95 % intervals, truths drawn from the priors", ""]
    lines += [f"{k}: {v}  " for k, v in result["versions"].items()]
    for shape, found in result["shapes"].items():
        methods = ", ".join(f"{m} {n}" for m, n in found["methods"].items())
        lines += [
            "",
            f"## {shape} ({found['tables']} tables; {methods}; {found['converged']} converged)",
            "",
            "| quantity | covered | exact p | |",
            "| --- | --- | --- | --- |",
        ]
        lines += [
            f"| {r['quantity']} | {r['covered']:.3f} | {r['p_value']:.3f} | "
            f"{'ok' if r['ok'] else 'FAILS'} |"
            for r in found["coverage"]
        ]
        verdict = "ok" if found["rank_ok"] else "FAILS"
        lines += ["", f"P(best) calibration Z = {found['rank_z']:.2f} ({verdict}: |Z| < 3.3)"]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Run from the command line and write the report beside this file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=int, default=250, help="tables of each shape")
    parser.add_argument("--shapes", nargs="+", default=list(SHAPES), choices=list(SHAPES))
    parser.add_argument("--engine", default="auto")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    parser.add_argument("--name", default="coverage")
    arguments = parser.parse_args()
    packages = ("bayesjudge", "numpy", "scipy", "jax", "numpyro", "arviz-stats")
    result = {
        "versions": versions(*packages),
        "shapes": study(arguments.tables, arguments.shapes, arguments.engine),
    }
    write(result, markdown(result), arguments.out, arguments.name)


if __name__ == "__main__":
    main()
