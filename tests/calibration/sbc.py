"""Simulation-based calibration of the exact engine (STATISTICS section 6).

Truths are drawn from the priors in use, with fixed unit and location, and a
table from each. Were the engine's draws from the posterior, the rank of the
truth among independent ones would be uniform, for every function of parameters
and data.

Full size: ``uv run python -m tests.calibration.sbc --tables 300``
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayesjudge.engines import Engine, Settings, exact
from bayesjudge.engines.effects import Integrated, pack_scales
from bayesjudge.engines.integrating import integrate
from bayesjudge.engines.posterior import backbone_means
from bayesjudge.engines.protocol import Draws
from bayesjudge.resolution import Resolved, resolve
from bayesjudge.scores.table import Facet, Scores
from bayesjudge.simulation import simulate_scores
from bayesjudge.spec import read_model
from tests.calibration.coverage import LOCATION, SHAPES, UNIT, design
from tests.calibration.holm import holm
from tests.calibration.reporting import versions, write

type Floats = NDArray[np.float64]

# Shape and the fraction of its scores that is missing.
DESIGNS: dict[str, tuple[dict[str, int], float]] = {
    **{n: (SHAPES[n], 0.0) for n in ("3x8x3", "5x20x4", "4x15x3x2 generations")},
    "5x12x3, 20 % missing": ({"backbone": 5, "scenario": 12, "judge": 3}, 0.2),
}
QUANTITIES = (
    "intercept",
    "first mean",
    "first difference",
    "top-two difference",
    "first judge offset",
    "backbone sd",
    "judge sd",
    "scenario sd",
    "first backbone:scenario sd",
    "first residual sd",
    "spread of residual sds",
    "log likelihood given scales",
    "log likelihood given effects",
)
# What the data enter: only these can tell a posterior from its prior.
OF_DATA = QUANTITIES[-2:]
N_RANKED, N_BINS, LEVEL = 99, 20, 0.001
_NULL_SIZE = 200_000

# Eight draws to one that is ranked: the chains of a fall-back to NUTS are then nearly independent.
SETTINGS = Settings(draws=198, tune=300, chains=4, target_accept=0.95)


@dataclass(frozen=True)
class Table:
    """Outcome of one table: the truth's rank, 0 to 99, by quantity, and what ran."""

    ranks: tuple[int, ...]
    method: str


def resolved_design(name: str) -> Resolved:
    """Return the model on a design; what is missing is the same in every table."""
    shape, missing = DESIGNS[name]
    return resolve(
        read_model("crossed"), thinned_out(design(shape), missing, seed=1), UNIT, LOCATION
    )


def thinned_out(scores: Scores, missing: float, seed: int) -> Scores:
    """Return the design with this fraction of its rows left out at random."""
    n = len(scores)
    keep = np.sort(np.random.default_rng(seed).permutation(n)[round(missing * n) :])
    facets = tuple(Facet(f.name, f.role, f.levels, f.codes[keep]) for f in scores.facets)
    return Scores(scores.score[keep], facets)


def truth_as_draws(truths: Sequence[Mapping[str, Any]]) -> Draws:
    """Return truths of ``simulate_scores`` as the draws of one chain."""

    def stack(values: list[Any]) -> Floats:
        return np.asarray(values, dtype=float)[None]

    def stack_all(key: str) -> dict[str, Floats]:
        return {name: stack([t[key][name] for t in truths]) for name in truths[0][key]}

    intercept = stack([t["intercept"] for t in truths])
    return Draws(stack_all("scales"), stack_all("hyper"), intercept, stack_all("effects"))


def ranked_quantities(resolved: Resolved, integrated: Integrated, draws: Draws) -> Floats:
    """Return what is ranked, (quantities, draws); ``integrated`` holds the scores."""
    means = backbone_means(resolved, draws).reshape(draws.intercept.size, -1)
    best_first = -np.sort(-means, axis=1)
    sd, noise = pack_scales(resolved, draws.scales)

    def first(values: Floats) -> Floats:
        return values.reshape(len(sd), -1)[:, 0]

    return np.array(
        [
            draws.intercept.ravel(),
            means[:, 0],
            means[:, 0] - means[:, 1],
            best_first[:, 0] - best_first[:, 1],
            first(draws.effects["judge"]),
            first(draws.scales["backbone_sd"]),
            first(draws.scales["judge_sd"]),
            first(draws.scales["scenario_sd"]),
            first(draws.scales["backbone_scenario_sd"]),
            first(draws.scales["sigma"]),
            first(draws.hyper["sigma_spread"]),
            integrated.values(sd, noise),
            _log_likelihood(resolved, draws),
        ]
    )


def _log_likelihood(resolved: Resolved, draws: Draws) -> Floats:
    """Return the log density of the scores given the panel's and the scenarios' effects.

    Variances of the other terms are added to the residual's as if independent
    by score: not the model's density, but a function of parameters and data, and
    the only one here that ties the effects to the data.
    """
    n = draws.intercept.size
    mean = draws.intercept.reshape(n, 1)
    by = 0 if resolved.residual_by is None else resolved.residual_by
    variance = draws.scales["sigma"].reshape(n, -1)[:, by] ** 2
    for term in resolved.terms:
        if set(term.dims) <= {"backbone", "judge", "language"} or term.dims == ("scenario",):
            mean = mean + draws.effects[term.variable].reshape(n, -1)[:, term.codes]
        else:
            level = np.zeros(term.n_levels, int) if term.by_codes is None else term.by_codes
            sds = draws.scales[f"{term.variable}_sd"].reshape(n, -1)
            variance = variance + sds[:, level[term.codes]] ** 2
    return np.asarray(-0.5 * np.sum(np.log(variance) + (resolved.score - mean) ** 2 / variance, 1))


def run_table(design_of: Resolved, seed: int, engine: Engine) -> Table:
    """Draw a truth and a table, sample, and rank the truth; ties are broken at random."""
    rng = np.random.default_rng([11, seed])
    scores, truth = simulate_scores(design_of, rng)
    resolved = replace(design_of, score=scores)
    draws = engine(resolved, replace(SETTINGS, random_seed=seed))
    integrated = integrate(resolved)
    assert integrated is not None
    true = ranked_quantities(resolved, integrated, truth_as_draws([truth]))
    ranked = ranked_quantities(resolved, integrated, draws)
    ranked = ranked[:, :: ranked.shape[1] // N_RANKED][:, :N_RANKED]
    below, ties = (ranked < true).sum(1), (ranked == true).sum(1)
    return Table(tuple((below + rng.integers(0, ties + 1)).tolist()), draws.method)


def chi_square(ranks: NDArray[np.int64]) -> float:
    """Return Pearson's statistic of ranks 0 to 99 in bins of equal probability."""
    counts = np.bincount(ranks * N_BINS // (N_RANKED + 1), minlength=N_BINS)
    expected = ranks.size / N_BINS
    return float(np.sum((counts - expected) ** 2) / expected)


@lru_cache(maxsize=8)
def _null(n_tables: int) -> Floats:
    """Return the statistic under uniformity, simulated: few tables fill few bins."""
    rng = np.random.default_rng(0)
    counts = rng.multinomial(n_tables, np.full(N_BINS, 1 / N_BINS), _NULL_SIZE)
    expected = n_tables / N_BINS
    return np.sort(np.sum((counts - expected) ** 2, axis=1) / expected)


def p_value(ranks: NDArray[np.int64]) -> float:
    """Return the p value of uniform ranks; the smallest possible is 5e-6."""
    null = _null(ranks.size)
    # A hair less: statistics that tie with the observed one must count.
    above = null.size - np.searchsorted(null, chi_square(ranks) * (1 - 1e-12))
    return float((1 + above) / (1 + null.size))


def summarize(tables: Mapping[str, Sequence[Table]]) -> dict[str, Any]:
    """Return uniformity tests by design and quantity, Holm over all of them."""
    ranks = {name: np.array([t.ranks for t in found]) for name, found in tables.items()}
    p = np.array([[p_value(column) for column in r.T] for r in ranks.values()])
    adjusted = holm(p.ravel()).reshape(p.shape)
    out = {}
    for i, (name, found) in enumerate(tables.items()):
        methods = [t.method for t in found]
        out[name] = {
            "tables": len(found),
            "methods": {m: methods.count(m) for m in sorted(set(methods))},
            "quantities": [
                {
                    "quantity": quantity,
                    "mean_rank": float(ranks[name][:, j].mean()),
                    "p_value": float(p[i, j]),
                    "holm": float(adjusted[i, j]),
                    "ok": bool(adjusted[i, j] >= LEVEL),
                }
                for j, quantity in enumerate(QUANTITIES)
            ],
        }
    return out


def study(
    n_tables: int, designs: Sequence[str], engine: Engine = exact.sample
) -> dict[str, list[Table]]:
    """Run the study; every table counts, converged or not."""
    out = {}
    for name in designs:
        started = time.perf_counter()
        resolved = resolved_design(name)
        out[name] = [run_table(resolved, seed, engine) for seed in range(n_tables)]
        print(f"{name}: {time.perf_counter() - started:.0f} s", file=sys.stderr, flush=True)
    return out


def failing(summary: Mapping[str, Any]) -> set[str]:
    """Return the quantities whose ranks are not uniform, on any design."""
    return {r["quantity"] for s in summary.values() for r in s["quantities"] if not r["ok"]}


def markdown(result: Mapping[str, Any]) -> str:
    """Return the committed report."""
    lines = ["# Simulation-based calibration, truths drawn from the priors", ""]
    lines += [f"{k}: {v}  " for k, v in result["versions"].items()]
    lines += [
        "",
        f"Rank of the truth among {N_RANKED} draws, {N_BINS} bins, simulated chi-square test; "
        f"fails where Holm's p over all rows is below {LEVEL}. The mean rank should be "
        f"{N_RANKED / 2}.",
    ]
    for name, found in result["designs"].items():
        methods = ", ".join(f"{m} {n}" for m, n in found["methods"].items())
        lines += [
            "",
            f"## {name} ({found['tables']} tables; {methods})",
            "",
            "| quantity | mean rank | p | Holm | |",
            "| --- | --- | --- | --- | --- |",
        ]
        lines += [
            f"| {r['quantity']} | {r['mean_rank']:.1f} | {r['p_value']:.4f} | {r['holm']:.3f} | "
            f"{'ok' if r['ok'] else 'FAILS'} |"
            for r in found["quantities"]
        ]
    if "broken" in result:
        lines += [
            "",
            f"## Engines broken on purpose ({result['broken_tables']} tables, "
            f"{result['broken_design']})",
            "",
        ]
        lines += [
            f"- {name}: {'caught by ' + ', '.join(by) if by else 'NOT CAUGHT'}"
            for name, by in result["broken"].items()
        ]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Run from the command line and write the report beside this file."""
    from tests.calibration.broken import BROKEN

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=int, default=400, help="tables of each design")
    parser.add_argument("--designs", nargs="+", default=list(DESIGNS), choices=list(DESIGNS))
    parser.add_argument("--broken-tables", type=int, default=60, help="of each broken engine")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    parser.add_argument("--name", default="sbc")
    arguments = parser.parse_args()
    packages = ("bayesjudge", "numpy", "scipy", "jax", "numpyro")
    small = "3x8x3"
    broken = {
        name: sorted(failing(summarize(study(arguments.broken_tables, [small], engine))))
        for name, engine in BROKEN.items()
    }
    result = {
        "versions": versions(*packages),
        "designs": summarize(study(arguments.tables, arguments.designs)),
        "broken": broken,
        "broken_tables": arguments.broken_tables,
        "broken_design": small,
    }
    write(result, markdown(result), arguments.out, arguments.name)


if __name__ == "__main__":
    main()
