"""Human-anchored means: do their intervals cover, and those of the panel alone not?

Simulated panels whose judges share errors, and a human whose offset is known; labels on every
answer of 5, 20 and 100 % of the scenarios, drawn at random. The truth is the human's mean of
one backbone over new scenarios, the next one in each table. Beside it: the panel's own mean,
which no label has touched, and the prediction-powered mean. Two kinds of truths:

- ``fixed``: the human differs by the same amount in every table, by backbone with the same
  sd, and scores answers by a process of its own. Priors are those that users get.
- ``priors``: offsets, slopes and spreads of the human are drawn from the priors in use, for
  which a posterior's intervals must cover 95 % (STATISTICS section 6); the unit is a constant.

Full size: ``uv run python -m tests.calibration.anchoring --tables 1000``, ten minutes of one
core; with ``--keep FILE`` outcomes are appended there and a second call goes on from them.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binomtest

import bayesjudge as bj
from bayesjudge.families import response_unit
from bayesjudge.fitted import Fit
from bayesjudge.scores.table import Facet, Scores
from tests.calibration.reporting import versions, write

SHARES = (0.05, 0.2, 1.0)
MEANS = 7.0 + np.array([0.0, 0.2, 0.4, 0.6])
JUDGES = np.array([-0.3, -0.1, 0.1, 0.3])
N_SCENARIOS = 100
HUMAN, HUMAN_BY_BACKBONE = -0.8, 0.25
SD = {
    "scenario": 0.6,
    "answer": 0.4,
    "shared": 0.3,
    "judge": 0.7,
    "human": 0.5,
    "human:scenario": 0.3,
}
type Floats = NDArray[np.float64]

UNIT, LOCATION, CI_PROB, DRAWS = 1.0, 7.0, 0.95, 250
WAYS = ("anchored", "powered", "panel")
TRUTHS = ("priors", "fixed")


def simulated(rng: np.random.Generator, truths: str = "fixed") -> tuple[Scores, Floats, Floats]:
    """Return a table without labels, human scores (B, n) and the human's means (B,)."""
    b, n, k = MEANS.size, N_SCENARIOS, JUDGES.size
    worth = SD["scenario"] * rng.standard_normal(n) + SD["answer"] * rng.standard_normal((b, n))
    shared = SD["shared"] * rng.standard_normal((b, n))
    noise = SD["judge"] * rng.standard_normal((b, n, k))
    score = (MEANS[:, None] + worth + shared)[:, :, None] + JUDGES + noise
    if truths == "priors":
        human, truth = _from_priors(score.mean(axis=2), rng)
    else:
        truth = MEANS + HUMAN + HUMAN_BY_BACKBONE * rng.standard_normal(b)
        human = truth[:, None] + worth + SD["human:scenario"] * rng.standard_normal(n)
        human = human + SD["human"] * rng.standard_normal((b, n))
    backbone, scenario, judge = np.indices(score.shape).reshape(3, -1)

    def facet(name: str, role: str, size: int, codes: NDArray[np.int64]) -> Facet:
        return Facet(name, role, tuple(f"{name}{i:03d}" for i in range(size)), codes)  # type: ignore[arg-type]

    facets = (
        facet("backbone", "panel", b, backbone),
        facet("judge", "panel", k, judge),
        facet("scenario", "random", n, scenario),
    )
    return Scores(score.ravel(), facets), human, truth


def _from_priors(panel: Floats, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Draw a human from the priors of the regression on the panel's means (B, n).

    Written down from the model in :mod:`bayesjudge.anchoring.calibrating`, not by its code.
    """
    b, n = panel.shape
    centre = panel.mean(axis=1, keepdims=True)
    beyond = panel - centre
    between = beyond.mean(axis=0)
    tau, of_scenario, residual = np.abs(rng.standard_normal(3)) * UNIT * (0.5, 1.0, 1.0)
    offset = 2 * UNIT * rng.standard_normal() + tau * rng.standard_normal(b)
    slope = UNIT / response_unit(panel.ravel(), None)
    r, w = slope * (1 + rng.standard_normal(2))
    human = centre + offset[:, None] + r * between + w * (beyond - between)
    human = human + of_scenario * rng.standard_normal(n) + residual * rng.standard_normal((b, n))
    # Over new scenarios, and the panel's judges, whose offsets sum to zero.
    left = MEANS - centre[:, 0]
    truth = centre[:, 0] + offset + r * left.mean() + w * (left - left.mean())
    return human, truth


def with_labels(scores: Scores, human: NDArray[np.float64], scenarios: NDArray[np.int64]) -> Scores:
    """Return the table with the human scores of some scenarios."""
    kept = np.isin(scores.codes("scenario"), scenarios)
    value = human[scores.codes("backbone"), scores.codes("scenario")]
    return replace(scores, human_score=np.where(kept, value, np.nan))


def run_table(seed: int, truths: str = "fixed", unit: float | None = None) -> list[dict[str, Any]]:
    """Answer one table at each share of labels: covered, and width, each way.

    ``unit`` replaces the one that fixed truths get by default, from the labels.
    """
    rng = np.random.default_rng([seed, 71] if truths == "fixed" else [seed, 72])
    scores, human, truth = simulated(rng, truths)
    given: dict[str, Any] = {"unit": unit}
    if truths == "priors":
        given = {"unit": UNIT, "location": 0.0}
    order = rng.permutation(N_SCENARIOS)
    at = seed % MEANS.size
    name = f"backbone{at:03d}"
    # What is labelled does not change the fit of the panel's scores.
    fit = bj.fit(
        scores, "crossed_common", unit=UNIT, location=LOCATION, draws=DRAWS, random_seed=seed
    )
    out = []
    for share in SHARES:
        labelled = with_labels(scores, human, order[: round(share * N_SCENARIOS)])
        own = Fit(fit.spec, labelled, fit.posterior)
        found = bj.human_anchored(own, ci_prob=CI_PROB, **given)
        tables = {
            "anchored": found.leaderboard(),
            "powered": found.powered,
            "panel": fit.leaderboard(ci_prob=CI_PROB),
        }
        row: dict[str, Any] = {"truths": truths, "seed": seed, "share": share}
        row["refused"] = name in found.refused
        for way, table in tables.items():
            mine = table[table["backbone"] == name]
            if len(mine) == 0:
                continue
            low, high = float(mine["ci_lower"].iloc[0]), float(mine["ci_upper"].iloc[0])
            row[f"{way}_covered"] = bool(low <= truth[at] <= high)
            row[f"{way}_width"] = high - low
        row["pareto_k"] = found.calibrated.pareto_k
        out.append(row)
    return out


def summarize(outcomes: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return one row of truths, share of labels and way: coverage, exact p-value, mean width."""
    rows = []
    for truths, share in product(TRUTHS, SHARES):
        own = [o for o in outcomes if o["share"] == share and o["truths"] == truths]
        for way in WAYS:
            answered = [o for o in own if f"{way}_covered" in o]
            if not answered:
                continue
            covered = sum(bool(o[f"{way}_covered"]) for o in answered)
            rows.append(
                {
                    "truths": truths,
                    "labelled": share,
                    "way": way,
                    "tables": len(answered),
                    "refused": len(own) - len(answered),
                    "covered": covered / len(answered),
                    "p_value": float(binomtest(covered, len(answered), CI_PROB).pvalue),
                    "width": float(np.mean([o[f"{way}_width"] for o in answered])),
                }
            )
    return rows


def markdown(result: Mapping[str, Any]) -> str:
    """Return the committed report."""
    said = {
        "anchored": "human-anchored",
        "powered": "prediction-powered",
        "panel": "panel alone, no label",
    }
    lines = ["# Intervals of the human's mean of a backbone", ""]
    lines += [f"{k}: {v}  " for k, v in result["versions"].items()]
    lines += [
        "",
        f"Nominal 95 %; {MEANS.size} backbones, {JUDGES.size} judges, {N_SCENARIOS} scenarios. "
        "p: exact binomial test of 0.95.",
    ]
    headings = {
        "priors": "The human's offsets, slopes and spreads drawn from the priors in use",
        "fixed": f"The human gives {HUMAN:+.1f} on average, by backbone with sd "
        f"{HUMAN_BY_BACKBONE}: fixed truths, far inside the priors",
    }
    if result.get("unit"):
        headings["fixed"] += f"; unit of the priors {result['unit']:g}"
    for truths, heading in headings.items():
        if not any(row["truths"] == truths for row in result["rows"]):
            continue
        lines += [
            "",
            f"## {heading}",
            "",
            "| labelled | way | tables | refused | covered | p | width |",
            "| --- | --- | --- | --- | --- | --- | --- |",
        ]
        lines += [
            f"| {row['labelled']:.0%} | {said[row['way']]} | {row['tables']} | {row['refused']} | "
            f"{row['covered']:.3f} | {row['p_value']:.2g} | {row['width']:.2f} |"
            for row in result["rows"]
            if row["truths"] == truths
        ]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Run from the command line and write the report beside this file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=int, default=1000)
    parser.add_argument("--keep", type=Path, help="a file of outcomes to go on from")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    parser.add_argument("--name", default="anchoring")
    parser.add_argument("--truths", choices=TRUTHS, nargs="+", default=list(TRUTHS))
    parser.add_argument("--unit", type=float, help="of the priors, for fixed truths")
    arguments = parser.parse_args()
    outcomes: list[dict[str, Any]] = []
    if arguments.keep is not None and arguments.keep.exists():
        lines = arguments.keep.read_text(encoding="utf-8").splitlines()
        outcomes = [json.loads(line) for line in lines]
    done = {(o["truths"], o["seed"]) for o in outcomes}
    for truths, seed in product(arguments.truths, range(arguments.tables)):
        if (truths, seed) in done:
            continue
        found = run_table(seed, truths, arguments.unit)
        outcomes += found
        if arguments.keep is not None:
            with arguments.keep.open("a", encoding="utf-8") as file:
                file.writelines(json.dumps(row) + "\n" for row in found)
    chosen = [o for o in outcomes if o["seed"] < arguments.tables]
    result = {
        "versions": versions("bayesjudge", "numpy", "scipy"),
        "unit": arguments.unit,
        "rows": summarize(chosen),
    }
    write(result, markdown(result), arguments.out, arguments.name)


if __name__ == "__main__":
    main()
