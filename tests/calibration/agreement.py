"""The exact engine against long NumPyro runs, and against itself over seeds.

Means and sds of scales, backbone means, offsets and panel interactions must
agree within combined Monte Carlo error (Holm at 0.01 over all tables), rank
probabilities within 0.02, and posterior means over seeds must spread no more
than the effective sizes say that the engine claims.

Full size: ``uv run python -m tests.calibration.agreement``
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2, norm

import bayesjudge as bj
from bayesjudge.scores.table import Scores
from tests.calibration.coverage import LOCATION, UNIT
from tests.calibration.holm import holm
from tests.calibration.reporting import versions, write

type Floats = NDArray[np.float64]

RANK_LIMIT, LEVEL = 0.02, 0.01


@dataclass(frozen=True)
class Case:
    """One table, and how NumPyro samples it.

    Attributes
    ----------
    sizes : dict
        As ``bayesjudge.simulate`` takes them.
    more : dict
        Its other arguments.
    integrate : bool
        False samples every effect, with no code of the exact engine's but priors.
    """

    sizes: Mapping[str, int]
    more: Mapping[str, Any] = field(default_factory=dict)
    integrate: bool = True


_SHAPES: dict[str, dict[str, int]] = {
    "3x10x3": {"backbones": 3, "scenarios": 10, "judges": 3},
    "2x30x2": {"backbones": 2, "scenarios": 30, "judges": 2},
    "5x20x5": {"backbones": 5, "scenarios": 20, "judges": 5},
    "6x12x4x2 generations": {"backbones": 6, "scenarios": 12, "judges": 4, "generations": 2},
    "4x15x3x3 languages": {"backbones": 4, "scenarios": 15, "judges": 3, "languages": 3},
}
_LOST = {"missing": 0.15}
_SMALL = _SHAPES["3x10x3"]
_MIDDLE = {"backbones": 4, "scenarios": 15, "judges": 3}
_UNEQUAL = {"backbone:scenario": [0.1, 0.4, 1.2, 2.5], "residual": [0.1, 0.3, 1.0, 3.0]}
CASES: dict[str, Case] = {
    **{name: Case(shape) for name, shape in _SHAPES.items()},
    **{f"{name}, 15 % missing": Case(shape, _LOST) for name, shape in _SHAPES.items()},
    "judge:scenario zero": Case(_MIDDLE, {"sd": {"judge:scenario": 0.0}}),
    # NumPyro's collapsed density takes hours where every generation has a judge of its own.
    "one judge a generation": Case(
        {**_MIDDLE, "generations": 4}, {"one_judge": True}, integrate=False
    ),
    "one judge a scenario": Case({**_MIDDLE, "scenarios": 30}, {"one_judge": True}),
    "unequal backbone variances": Case(_MIDDLE, {"sd": _UNEQUAL}),
    "3x10x3, effects sampled": Case(_SMALL, integrate=False),
    "3x10x3, 15 % missing, effects sampled": Case(_SMALL, _LOST, integrate=False),
}


@dataclass(frozen=True)
class Effort:
    """How long to run.

    Attributes
    ----------
    seeds : int
        Fits by the exact engine; their draws are pooled.
    chains, draws, tune : int
        Of NumPyro. Its chains run side by side in one program: many cost little.
    """

    seeds: int = 20
    chains: int = 16
    draws: int = 1000
    tune: int = 400


def table_of(case: Case) -> Scores:
    """Return the scores of a case, drawn from the model with a fixed seed."""
    options: dict[str, Any] = {**case.sizes, **case.more}
    simulated = bj.simulate(random_seed=17, unit=UNIT, location=LOCATION, **options)
    return bj.read_scores(simulated.table)


def flat_draws(fit: bj.Fit) -> dict[str, Floats]:
    """Return scales, means, offsets and panel interactions, (chain, draw) each, by name."""
    allowed = {"chain", "draw", "backbone", *fit.resolved.panel}
    out = {}
    for name, variable in fit.posterior["posterior"].data_vars.items():
        if not set(variable.dims) <= allowed or str(name).endswith("_sd_panel"):
            continue
        values = variable.transpose("chain", "draw", ...).to_numpy()
        columns = values.reshape(*values.shape[:2], -1)
        for i in range(columns.shape[2]):
            # An interaction of two centred facets with two levels may not vary at all.
            if np.ptp(columns[..., i]) > 1e-9:
                out[f"{name}[{i}]" if columns.shape[2] > 1 else str(name)] = columns[..., i]
    return out


def of_seeds(fits: Sequence[bj.Fit]) -> dict[str, dict[str, float]]:
    """Return mean, sd, their Monte Carlo errors and the p value of the means' spread."""
    ess = np.array([f.convergence.ess_bulk_min for f in fits])
    every = [flat_draws(f) for f in fits]
    out = {}
    for name in every[0]:
        by_seed = np.array([e[name].ravel() for e in every])
        mean, sd = float(by_seed.mean()), float(by_seed.std())
        fourth = float(np.mean((by_seed - mean) ** 4))
        # Of the mean over seeds, one over its effective size.
        share = float(np.sum(1 / ess)) / len(fits) ** 2
        out[name] = {
            "mean": mean,
            "sd": sd,
            "mean_error": sd * np.sqrt(share),
            "sd_error": float(np.sqrt(max(fourth - sd**4, 0.0) * share) / (2 * sd)),
            "spread_p": spread_p_value(by_seed.mean(axis=1), sd, ess),
        }
    return out


def spread_p_value(means: Floats, sd: float, ess: Floats) -> float:
    """Return the one-sided p value of means that spread as their effective sizes say.

    Small where they spread more; effective sizes that are conservative give large ones.
    """
    if means.size < 2:
        return 1.0
    centre = np.sum(means * ess) / np.sum(ess)
    statistic = float(np.sum((means - centre) ** 2 * ess)) / sd**2
    return float(chi2.sf(statistic, means.size - 1))


def of_chains(fit: bj.Fit) -> dict[str, dict[str, float]]:
    """Return mean, sd and ArviZ's Monte Carlo errors of Markov chains."""
    from arviz_stats import base

    # arviz-stats has no types.
    array_stats: Any = vars(base)["array_stats"]
    out = {}
    for name, draws in flat_draws(fit).items():
        errors = [array_stats.mcse(draws, method=m, chain_axis=0, draw_axis=1) for m in _MOMENTS]
        out[name] = {
            "mean": float(draws.mean()),
            "sd": float(draws.std()),
            "mean_error": float(errors[0]),
            "sd_error": float(errors[1]),
        }
    return out


_MOMENTS = ("mean", "sd")


_COMMON: dict[str, Any] = {"unit": UNIT, "location": LOCATION}


def compare(name: str, effort: Effort, known: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Fit one case by both engines.

    Parameters
    ----------
    known : mapping, optional
        The table's entry in an earlier report, of which NumPyro's side is taken.
    """
    started = time.perf_counter()
    scores = table_of(CASES[name])
    fits = [
        bj.fit(scores, engine="exact", random_seed=seed, **_COMMON) for seed in range(effort.seeds)
    ]
    exact_seconds = time.perf_counter() - started
    theirs = known or by_numpyro(CASES[name], scores, effort)
    methods = [str(f.metadata["method"]) for f in fits]
    return {
        "scores": len(scores),
        "exact_methods": {m: methods.count(m) for m in sorted(set(methods))},
        "exact_ess": [round(f.convergence.ess_bulk_min) for f in fits],
        "exact_seconds": round(exact_seconds, 1),
        **{k: v for k, v in theirs.items() if k.startswith("numpyro_")},
        "seconds": round(time.perf_counter() - started, 1),
        **_ranks(fits, theirs),
        "quantities": _quantities(of_seeds(fits), theirs["quantities"]),
    }


def by_numpyro(case: Case, scores: Scores, effort: Effort) -> dict[str, Any]:
    """Return what NumPyro says of a case, named as in the report."""
    chains = bj.fit(
        scores,
        engine="numpyro",
        integrate=case.integrate,
        chains=effort.chains,
        draws=effort.draws,
        tune=effort.tune,
        target_accept=0.9,
        random_seed=1,
        **_COMMON,
    )
    return {
        "numpyro_method": chains.metadata["method"],
        "numpyro_ess": round(chains.convergence.ess_bulk_min),
        "numpyro_r_hat": chains.convergence.r_hat_max,
        "numpyro_divergences": chains.convergence.divergences,
        "numpyro_ranks": chains.rank_probabilities().to_numpy().tolist(),
        "quantities": [{"quantity": q, "numpyro": v} for q, v in of_chains(chains).items()],
    }


def _quantities(
    ours: Mapping[str, dict[str, float]], rows: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Return both engines' moments of each quantity, and how far apart they are."""
    theirs = {row["quantity"]: row["numpyro"] for row in rows}
    assert set(ours) == set(theirs)
    return [
        {
            "quantity": q,
            "exact": {k: ours[q][k] for k in _MOMENTS},
            "numpyro": theirs[q],
            **{
                f"{k}_z": (ours[q][k] - theirs[q][k])
                / float(np.hypot(ours[q][f"{k}_error"], theirs[q][f"{k}_error"]))
                for k in _MOMENTS
            },
            "spread_p": ours[q]["spread_p"],
        }
        for q in ours
    ]


def _ranks(fits: Sequence[bj.Fit], numpyro: Mapping[str, Any]) -> dict[str, float]:
    """Return the largest difference of rank probabilities, and how far it is beyond the limit."""
    ours = np.mean([f.rank_probabilities().to_numpy() for f in fits], axis=0)
    theirs = np.array(numpyro["numpyro_ranks"])
    size = 1 / sum(f.convergence.ess_bulk_min for f in fits) + 1 / numpyro["numpyro_ess"]
    error = np.sqrt(np.maximum(ours * (1 - ours), 1e-4) * size)
    beyond = (np.abs(ours - theirs) - RANK_LIMIT) / error
    at = np.unravel_index(np.argmax(np.abs(ours - theirs)), ours.shape)
    return {
        "rank_difference": float(np.abs(ours - theirs).max()),
        "rank_difference_error": float(error[at]),
        "rank_beyond_z": float(beyond.max()),
    }


def summarize(tables: Mapping[str, Any]) -> dict[str, Any]:
    """Return what each table fails, Holm over all quantities of all tables.

    Rank probabilities fail where they differ by significantly more than 0.02:
    three of their standard errors, which one table's row reports.
    """
    agreed = _holm_by_table(
        tables, lambda q: [2 * norm.sf(abs(q["mean_z"])), 2 * norm.sf(abs(q["sd_z"]))]
    )
    spread = _holm_by_table(tables, lambda q: [q["spread_p"]])
    return {
        name: {
            "agreement": float(agreed[name].min()),
            "spread": float(spread[name].min()),
            "disagree": [
                f"{q['quantity']} {k}"
                for q, pair in zip(t["quantities"], agreed[name], strict=True)
                for k, p in zip(_MOMENTS, pair, strict=True)
                if p < LEVEL
            ],
            "spread_out": [
                q["quantity"]
                for q, p in zip(t["quantities"], spread[name][:, 0], strict=True)
                if p < LEVEL
            ],
            "ranks_ok": t["rank_beyond_z"] < 3,
        }
        for name, t in tables.items()
    }


def _holm_by_table(tables: Mapping[str, Any], p_values: Any) -> dict[str, Floats]:
    blocks = {n: np.array([p_values(q) for q in t["quantities"]]) for n, t in tables.items()}
    adjusted = holm(np.concatenate([b.ravel() for b in blocks.values()]))
    ends = np.cumsum([b.size for b in blocks.values()])[:-1]
    parts = np.split(adjusted, ends)
    return {n: p.reshape(b.shape) for (n, b), p in zip(blocks.items(), parts, strict=True)}


def markdown(result: Mapping[str, Any]) -> str:
    """Return the committed report."""
    found = summarize(result["tables"])
    effort = result["effort"]
    lines = ["# The exact engine against long NumPyro runs", ""]
    lines += [f"{k}: {v}  " for k, v in result["versions"].items()]
    lines += [
        "",
        f"Exact: {effort['seeds']} seeds at the default 4,000 draws, pooled. NumPyro: "
        f"{effort['chains']} chains of {effort['draws']} draws after {effort['tune']}. "
        f"z: difference over combined Monte Carlo error. Holm's p over all quantities of all "
        f"{len(found)} tables, means and sds; fails below {LEVEL}. Spread: of posterior means "
        "over seeds against the ESS claimed, one-sided, Holm likewise.",
        "",
        "| table | quantities | exact ESS a seed | NumPyro ESS | max z mean | max z sd | Holm | "
        "rank probabilities differ (s.e.) | spread, Holm | |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name, t in result["tables"].items():
        s = found[name]
        z = {k: max(abs(q[f"{k}_z"]) for q in t["quantities"]) for k in _MOMENTS}
        bad = bool(s["disagree"] or s["spread_out"] or not s["ranks_ok"])
        lines.append(
            f"| {name} | {len(t['quantities'])} | {np.mean(t['exact_ess']):.0f} | "
            f"{t['numpyro_ess']} | {z['mean']:.2f} | {z['sd']:.2f} | {s['agreement']:.3f} | "
            f"{t['rank_difference']:.3f} ({t['rank_difference_error']:.3f}) | {s['spread']:.3f} | "
            f"{'FAILS' if bad else 'ok'} |"
        )
    for name, s in found.items():
        if s["disagree"]:
            lines += ["", f"{name}: these disagree: {', '.join(s['disagree'])}"]
        if s["spread_out"]:
            lines += ["", f"{name}: these spread too much: {', '.join(s['spread_out'])}"]
    missing = [name for name in CASES if name not in result["tables"]]
    if missing:
        lines += ["", f"Not run: {'; '.join(missing)}."]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Run from the command line and write the report beside this file, table by table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", nargs="+", default=list(CASES), choices=list(CASES))
    parser.add_argument("--seeds", type=int, default=Effort.seeds)
    parser.add_argument("--chains", type=int, default=Effort.chains)
    parser.add_argument("--draws", type=int, default=Effort.draws)
    parser.add_argument("--tune", type=int, default=Effort.tune)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument(
        "--numpyro",
        type=Path,
        metavar="REPORT.json",
        help="take NumPyro's side from an earlier report, where it has the table",
    )
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    parser.add_argument("--name", default="agreement")
    arguments = parser.parse_args()
    effort = Effort(arguments.seeds, arguments.chains, arguments.draws, arguments.tune)
    packages = ("bayesjudge", "numpy", "scipy", "jax", "numpyro", "arviz-stats")
    result: dict[str, Any] = {
        "versions": versions(*packages),
        "effort": vars(effort),
        "tables": {},
    }
    known = json.loads(arguments.numpyro.read_text())["tables"] if arguments.numpyro else {}
    done: dict[str, Any] = {}
    with ProcessPoolExecutor(arguments.workers, mp_context=get_context("spawn")) as pool:
        jobs = {
            pool.submit(partial(compare, name, effort, known.get(name))): name
            for name in arguments.tables
        }
        for job in as_completed(jobs):
            done[jobs[job]] = job.result()
            result["tables"] = {name: done[name] for name in CASES if name in done}
            write(result, markdown(result), arguments.out, arguments.name)
            print(f"{jobs[job]}: {done[jobs[job]]['seconds']} s", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
