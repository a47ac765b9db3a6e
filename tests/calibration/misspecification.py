"""Tables that are not as the model has them, and tables of equal backbones (STATISTICS section 6).

Truths are fixed and not drawn from priors, so that intervals need not cover at
their nominal rate: the figures are reported, differences between backbones are to
be covered at 92 % at least. What is covered is the difference of expected scores,
after rounding and cutting off where the table has them. Of equal backbones every
split into tiers is false: the rate over tables is reported.

Full size, resumable by case: ``uv run python -m tests.calibration.misspecification``
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

import bayesjudge as bj
from bayesjudge.resolution import Resolved, resolve
from bayesjudge.simulation import simulate_scores
from bayesjudge.spec import read_model
from tests.calibration.coverage import design, with_scores
from tests.calibration.reporting import versions, write

type Floats = NDArray[np.float64]

LEAST, CI_PROB = 0.92, 0.95
# As --scale 1 5 sets them.
UNIT, CENTRE, LOWEST, HIGHEST = 1.0, 3.0, 1, 5

_SD: dict[str, Any] = {
    "backbone": 0.5,
    "judge": 0.4,
    "backbone:judge": 0.2,
    "scenario": 0.5,
    "backbone:scenario": 0.4,
    "judge:scenario": 0.0,
    "residual": 0.6,
}
_SHAPE = {"backbone": 4, "scenario": 20, "judge": 3}
_REPLICATED = {"backbone": 4, "scenario": 10, "judge": 3, "generation": 2}
_NESTED = {"generation": 0.3, "backbone:judge:scenario": 0.0}
_EQUAL = {"backbone": 0.0, "backbone:judge": 0.0}
_SPREAD = (0.2, 0.5, 1.0, 2.0)


@dataclass(frozen=True)
class Case:
    """How tables of one kind are made, and which model is fitted.

    Attributes
    ----------
    sd : dict
        Other than the usual ones.
    shape : dict
    model : str
    centre : float
        Mean of the intercept.
    rounded : bool
        To whole numbers from 1 to 5.
    per_score : float
        Sd of an interaction of all facets that the model has no term for.
    """

    sd: Mapping[str, Any] = field(default_factory=dict)
    shape: Mapping[str, int] = field(default_factory=lambda: _SHAPE)
    model: str = "crossed"
    centre: float = CENTRE
    rounded: bool = False
    per_score: float = 0.0


_UNEQUAL = {"backbone:scenario": _SPREAD, "residual": _SPREAD}
PLANTED: dict[str, Case] = {
    "as the model has it": Case(),
    "scenario:judge, sd 0.6": Case({"judge:scenario": 0.6}),
    "scenario:backbone:judge, sd 0.6, not replicated": Case(per_score=0.6),
    "scenario:backbone:judge, sd 0.6, replicated": Case(
        {**_NESTED, "backbone:judge:scenario": 0.6}, _REPLICATED
    ),
    "sds 0.2, 0.5, 1, 2 by backbone": Case(_UNEQUAL),
    "sds 0.2, 0.5, 1, 2 by backbone, crossed_common": Case(_UNEQUAL, model="crossed_common"),
    "rounded to 1-5": Case(rounded=True),
    "rounded to 1-5, centre 4.6: ceiling": Case(centre=4.6, rounded=True),
    "rounded to 1-5, centre 5.5: hard ceiling": Case(centre=5.5, rounded=True),
}
NULL: dict[str, Case] = {
    "3 equal backbones": Case(_EQUAL, {**_SHAPE, "backbone": 3}),
    "6 equal backbones": Case(_EQUAL, {**_SHAPE, "backbone": 6}),
    "6 equal backbones that judges rank apart": Case({"backbone": 0.0}, {**_SHAPE, "backbone": 6}),
    "4 equal backbones, sds 0.2, 0.5, 1, 2": Case({**_EQUAL, **_UNEQUAL}),
}
CASES = {**PLANTED, **NULL}


@dataclass(frozen=True, eq=False)
class Table:
    """Outcome of one table: which differences were covered, and the number of tiers."""

    covered: NDArray[np.bool_]
    width: float
    n_tiers: int
    method: str


def expected_after_rounding(mean: Floats, sd: Floats) -> Floats:
    """Return the expected whole number from 1 to 5 of a normal score, elementwise."""
    edges = np.arange(LOWEST, HIGHEST) + 0.5
    above = ndtr((mean[..., None] - edges) / sd[..., None])
    return np.asarray(LOWEST + above.sum(axis=-1))


def true_means(case: Case, resolved: Resolved, truth: Mapping[str, Any]) -> Floats:
    """Return each backbone's expected score under the panel and a new scenario, (B,)."""
    if not case.rounded:
        return np.asarray(truth["backbone_mean"])
    effects, scales = truth["effects"], truth["scales"]
    n_backbones, n_judges = effects["backbone_judge"].shape
    mean = truth["intercept"] + effects["backbone_judge"]
    mean = mean + effects["backbone"][:, None] + effects["judge"][None, :]
    variance = np.zeros(n_backbones)
    for term in resolved.terms:
        if "scenario" in term.dims:
            variance = variance + np.asarray(scales[f"{term.variable}_sd"]) ** 2
    variance = variance + np.asarray(scales["sigma"]) ** 2 + case.per_score**2
    sd = np.broadcast_to(np.sqrt(variance)[:, None], (n_backbones, n_judges))
    return np.asarray(expected_after_rounding(mean, sd).mean(axis=1))


def run_table(case: Case, seed: int) -> Table:
    """Make a table, fit it with the exact engine, and compare."""
    rng = np.random.default_rng([31, seed])
    made = resolve(read_model("crossed"), design(case.shape), UNIT, case.centre)
    sd = {**_SD, **case.sd}
    score, truth = simulate_scores(made, rng, sd=sd)
    # The centre is fixed and not drawn.
    shift = case.centre - truth["intercept"]
    truth["intercept"], truth["backbone_mean"] = case.centre, truth["backbone_mean"] + shift
    score = score + shift + case.per_score * rng.standard_normal(score.size)
    if case.rounded:
        score = np.clip(np.round(score), LOWEST, HIGHEST)
    fit = bj.fit(
        with_scores(design(case.shape), score),
        case.model,
        unit=UNIT,
        location=CENTRE,
        draws=500,
        tune=300,
        random_seed=seed,
    )
    means, true = fit.means(), true_means(case, made, truth)
    first, second = np.triu_indices(len(true), 1)
    gaps = means[:, first] - means[:, second]
    lower, upper = np.quantile(gaps, ((1 - CI_PROB) / 2, (1 + CI_PROB) / 2), axis=0)
    gap = true[first] - true[second]
    return Table(
        (lower <= gap) & (gap <= upper),
        float(np.mean(upper - lower)),
        int(fit.leaderboard()["tier"].max()),
        str(fit.metadata["method"]),
    )


def tell(tables: list[Table]) -> dict[str, Any]:
    """Return coverage with its standard error over tables, and the rate of splits."""
    covered = np.array([t.covered for t in tables], float)
    by_table = covered.mean(axis=1)
    split = float(np.mean([t.n_tiers > 1 for t in tables]))
    n = len(tables)
    methods = [t.method for t in tables]
    return {
        "tables": n,
        "covered": float(covered.mean()),
        "standard_error": float(by_table.std(ddof=1) / np.sqrt(n)),
        "lowest_pair": float(covered.mean(axis=0).min()),
        "width": float(np.mean([t.width for t in tables])),
        "split": split,
        "split_error": float(np.sqrt(split * (1 - split) / n)),
        "methods": {m: methods.count(m) for m in sorted(set(methods))},
    }


def study(name: str, n_tables: int) -> dict[str, Any]:
    """Run one case; every table counts, converged or not."""
    started = time.perf_counter()
    found = tell([run_table(CASES[name], seed) for seed in range(n_tables)])
    return {**found, "seconds": round(time.perf_counter() - started, 1)}


def markdown(result: Mapping[str, Any]) -> str:
    """Return the committed report."""
    cases = result["cases"]
    lines = ["# Tables that are not as the model has them, and equal backbones", ""]
    lines += [f"{k}: {v}  " for k, v in result["versions"].items()]
    lines += [
        "",
        f"{_SHAPE['backbone']} backbones x {_SHAPE['scenario']} scenarios x {_SHAPE['judge']} "
        f"judges ({_REPLICATED['scenario']} scenarios x {_REPLICATED['generation']} generations "
        "where replicated), model crossed unless named, unit 1, location 3. Fixed sds: "
        + ", ".join(f"{k} {v:g}" for k, v in _SD.items())
        + f". Coverage of 95 % intervals of all differences, to be {LEAST:.0%} at least "
        "(s.e. over tables); the pair that fares worst; mean width.",
        "",
        "| planted | tables | covered (s.e.) | worst pair | width | |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    lines += [
        f"| {n} | {c['tables']} | {c['covered']:.3f} ({c['standard_error']:.3f}) | "
        f"{c['lowest_pair']:.3f} | {c['width']:.2f} | "
        f"{'ok' if c['covered'] >= LEAST else 'BELOW'} |"
        for n, c in cases.items()
        if n in PLANTED
    ]
    lines += [
        "",
        "Equal backbones: share of tables in which the leaderboard has more than one tier, "
        "each time falsely; ROPE 0, P > 0.95 for a split.",
        "",
        "| equal backbones | tables | split (s.e.) | differences covered |",
        "| --- | --- | --- | --- |",
    ]
    lines += [
        f"| {n} | {c['tables']} | {c['split']:.3f} ({c['split_error']:.3f}) | {c['covered']:.3f} |"
        for n, c in cases.items()
        if n in NULL
    ]
    missing = [name for name in CASES if name not in cases]
    if missing:
        lines += ["", f"Not run: {'; '.join(missing)}."]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Run from the command line; what other runs wrote of other cases is kept."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=int, default=200)
    parser.add_argument("--cases", nargs="+", default=list(CASES), choices=list(CASES))
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    parser.add_argument("--name", default="misspecification")
    arguments = parser.parse_args()
    path = arguments.out / f"{arguments.name}.json"
    known = json.loads(path.read_text(encoding="utf-8"))["cases"] if path.exists() else {}
    for name in arguments.cases:
        known[name] = study(name, arguments.tables)
        result = {
            "versions": versions("bayesjudge", "numpy", "scipy"),
            "cases": {n: known[n] for n in CASES if n in known},
        }
        write(result, markdown(result), arguments.out, arguments.name)
        print(f"{name}: {known[name]['seconds']} s", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
