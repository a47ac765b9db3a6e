"""How often the check of judges' discrimination cries wolf, and how often it sees one.

It asks the scores alone, so that no table is fitted: ten thousand take a minute. Tables drawn
from the model itself, truths from its priors, may warn in at most 5 %, other checks
included; then judges' discrimination, or their noise, is made to differ.

Full size: ``uv run python -m tests.calibration.discrimination --tables 2000``
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import binomtest

from bayesjudge.checking_fits import check_judges
from bayesjudge.resolution import resolve
from bayesjudge.scores.table import Scores
from bayesjudge.spec import read_model
from tests.calibration.checks import MOST_FALSE_ALARMS, from_priors, likert, moderate, rounded
from tests.calibration.coverage import LOCATION, SHAPES, UNIT, design
from tests.calibration.reporting import versions, write

LARGER = {
    "5x20x4": SHAPES["5x20x4"],
    "5x40x4": {"backbone": 5, "scenario": 40, "judge": 4},
    "5x80x5": {"backbone": 5, "scenario": 80, "judge": 5},
}
NULL = {
    **{f"crossed, {name}": ("crossed", shape, from_priors) for name, shape in SHAPES.items()},
    "crossed, 5x80x5": ("crossed", LARGER["5x80x5"], from_priors),
    "crossed_common, 5x20x4": ("crossed_common", LARGER["5x20x4"], from_priors),
    "whole scores of 1 to 10, 5x20x4": ("crossed", LARGER["5x20x4"], rounded),
    "whole scores of 1 to 5, 5x20x4": ("crossed", LARGER["5x20x4"], likert),
}
# The first judge's discrimination and noise, the others' being 1.
FAULTS = {
    f"{what}, {name}": (shape, factor, noise)
    for name, shape in LARGER.items()
    for what, factor, noise in (
        ("half as far again", 1.5, 1.0),
        ("twice as far", 2.0, 1.0),
        ("half as far", 0.5, 1.0),
        ("twice the noise", 1.0, 2.0),
    )
}


def false_alarms(name: str, n_tables: int) -> dict[str, float]:
    """Return how many tables with nothing wrong have a finding."""
    model, shape, make = NULL[name]
    bare = design(shape)
    resolved = resolve(read_model(model), bare, UNIT, LOCATION)
    found = [
        bool(check and check[0].found)
        for check in (
            check_judges(Scores(make(resolved, np.random.default_rng([23, seed])), bare.facets))
            for seed in range(n_tables)
        )
    ]
    return {"tables": n_tables, "warned": float(np.mean(found))}


def power(name: str, n_tables: int) -> dict[str, float]:
    """Return how many tables with one judge unlike the others have a finding."""
    shape, factor, noise = FAULTS[name]
    bare = design(shape)
    resolved = resolve(read_model("crossed"), bare, UNIT, LOCATION)
    judge = resolved.term("judge").codes
    found = []
    for seed in range(n_tables):
        score, truth = moderate(resolved, np.random.default_rng([24, seed]))
        parts = {t.name: truth["effects"][t.variable].ravel()[t.codes] for t in resolved.terms}
        worth = sum(part for term, part in parts.items() if "judge" not in term.split(":"))
        residual = score - truth["intercept"] - sum(parts.values())
        changed = (factor - 1.0) * worth + (noise - 1.0) * residual
        (check,) = check_judges(Scores(score + changed * (judge == 0), bare.facets))
        found.append(check.found)
    return {"tables": n_tables, "found": float(np.mean(found))}


def too_many(found: Mapping[str, float]) -> bool:
    """Whether so many false alarms are no chance: one-sided, level 0.001."""
    warned = round(found["warned"] * found["tables"])
    p_value = binomtest(warned, int(found["tables"]), MOST_FALSE_ALARMS, "greater").pvalue
    return bool(p_value < 0.001)


def markdown(result: Mapping[str, Any]) -> str:
    """Return the committed report."""
    lines = ["# The check of judges' discrimination: false alarms, and what is found", ""]
    lines += [f"{k}: {v}  " for k, v in result["versions"].items()]
    lines += ["", "| nothing wrong | tables | with a warning |", "| --- | --- | --- |"]
    lines += [f"| {n} | {f['tables']} | {f['warned']:.4f} |" for n, f in result["null"].items()]
    lines += ["", "Sds: backbone 0.7, judge 0.4, backbone:judge 0.2, scenario 0.6,"]
    lines += ["backbone:scenario 0.4, residual 1; backbones x scenarios x judges."]
    lines += ["", "| one judge's scores | tables | found |", "| --- | --- | --- |"]
    lines += [f"| {n} | {f['tables']} | {f['found']:.3f} |" for n, f in result["faults"].items()]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Run from the command line and write the report beside this file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=int, default=2000)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    arguments = parser.parse_args()
    result = {
        "versions": versions("bayesjudge", "numpy", "scipy"),
        "null": {name: false_alarms(name, arguments.tables) for name in NULL},
        "faults": {name: power(name, arguments.tables) for name in FAULTS},
    }
    write(result, markdown(result), arguments.out, "discrimination")


if __name__ == "__main__":
    main()
