"""200 scores all at one end of the scale: what the shipped models predict then.

By "seen" is meant the posterior predictive chance that an answer that was scored
would be given the same score again, the mean over the 200; by "new" that of a new
scenario. At zero effects the prior of STATISTICS section 2, Dirichlet(1) on C
categories, leaves exactly 201 / (200 + C) of the mass on the one that was seen.

``uv run python -m tests.calibration.ends``
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayesjudge.engines.protocol import Draws
from bayesjudge.expectations import expected_scores
from bayesjudge.resolution import Resolved, resolve
from bayesjudge.scores.table import Scores
from bayesjudge.spec import read_model
from tests.calibration.coverage import design
from tests.calibration.ranked import log_chances
from tests.calibration.reporting import versions, write
from tests.calibration.side_by_side import Effort, sample_tables

type Floats = NDArray[np.float64]

SHAPE = {"backbone": 4, "scenario": 10, "judge": 5}
LEAST, N_CHAINS = 0.98, 4
CASES: dict[str, tuple[str, tuple[float, float]]] = {
    "verdict": ("verdict", (0, 1)),
    "ordinal, 1 to 5": ("ordinal", (1, 5)),
    "ordinal, 1 to 10": ("ordinal", (1, 10)),
}
EFFORT = Effort(tune=500, draws=500, thin=1, depth=8, at_once=2 * N_CHAINS)


def table(name: str, score: float) -> Resolved:
    """Return the shipped model on 200 scores that are all this one."""
    model, scale = CASES[name]
    scores: Scores = replace(
        design(SHAPE), scale=None if model == "verdict" else scale, score=np.full(200, score)
    )
    return resolve(read_model(model), scores)


def seen_again(resolved: Resolved, draws: Draws) -> Floats:
    """Return the mean chance over the scores that each would be what it was, (draws,)."""
    return np.asarray(np.exp(log_chances(resolved, draws)).mean(axis=1))


def seen_anew(resolved: Resolved, draws: Draws) -> Floats:
    """Return the chance of what was seen in a new scenario, the mean over the panel, (draws,)."""
    n = draws.intercept.size

    def flat(values: Floats) -> Floats:
        return np.reshape(values, (n, *np.shape(values)[2:]))

    cuts = draws.parameters.get("cutpoints", np.zeros((1, n, 1)))
    at_top = resolved.score[0] == resolved.categories[-1]
    cut = flat(cuts)[:, -1:] if at_top else flat(cuts)[:, :1]
    above = expected_scores(
        replace(resolved, categories=(0, 1)),
        draws.intercept.ravel(),
        {name: flat(value) for name, value in draws.effects.items()},
        {name: flat(value) for name, value in draws.scales.items()},
        cut,
    ).mean(axis=1)
    return np.asarray(above if at_top else 1 - above)


def study(name: str, effort: Effort = EFFORT) -> dict[str, Any]:
    """Sample the tables of both ends, four chains each, in one program."""
    started, ends = time.perf_counter(), CASES[name][1]
    tables = [table(name, end) for end in ends for _ in range(N_CHAINS)]
    draws = sample_tables(tables, effort)
    rows = []
    for i, end in enumerate(ends):
        own = range(i * N_CHAINS, (i + 1) * N_CHAINS)
        again = [float(seen_again(tables[j], draws[j]).mean()) for j in own]
        anew = [float(seen_anew(tables[j], draws[j]).mean()) for j in own]
        rows.append(
            {
                "score": float(end),
                "seen": float(np.mean(again)),
                "seen_error": float(np.std(again, ddof=1) / np.sqrt(N_CHAINS)),
                "new": float(np.mean(anew)),
                "new_error": float(np.std(anew, ddof=1) / np.sqrt(N_CHAINS)),
                "divergent": float(np.mean([draws[j].sample_stats["diverging"] for j in own])),
            }
        )
    return {"ends": rows, "seconds": round(time.perf_counter() - started, 1)}


def markdown(result: Mapping[str, Any]) -> str:
    """Return the committed report."""
    lines = ["# 200 scores all at one end", ""]
    lines += [f"{k}: {v}  " for k, v in result["versions"].items()]
    lines += [
        "",
        "Shipped models, 4 backbones x 10 scenarios x 5 judges. Posterior predictive mass on what "
        f"was seen, of the answers that were scored (to be above {LEAST}) and of a new scenario "
        "(s.e. over chains); and 201 / (200 + C), what a Dirichlet(1) on C categories leaves with "
        "no effects at all.",
        "",
        "| model | all scores | seen (s.e.) | new scenario (s.e.) | no effects | |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for name, found in result["cases"].items():
        model, (low, high) = CASES[name]
        bare = "" if model == "verdict" else f"{201 / (201 + high - low):.4f}"
        lines += [
            f"| {name} | {r['score']:g} | {r['seen']:.4f} ({r['seen_error']:.4f}) | "
            f"{r['new']:.3f} ({r['new_error']:.3f}) | {bare} | "
            f"{'ok' if r['seen'] > LEAST else 'BELOW'} |"
            for r in found["ends"]
        ]
    lines += ["", *NOTE]
    return "\n".join(lines) + "\n"


NOTE = (
    "With ten categories a Dirichlet(1) holds a first category of 0.98 for less likely",
    "(its density there is 9 x 0.02^8) than ten scenarios that all lie on one side: the",
    "posterior explains the table by its scenarios, and a new one may well be answered",
    "otherwise. The warning that a result is prior-dominated is due to that.",
)


def main() -> None:
    """Run from the command line and write the report beside this file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", nargs="+", default=list(CASES), choices=list(CASES))
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    arguments = parser.parse_args()
    result = {
        "versions": versions("bayesjudge", "numpy", "scipy", "jax", "numpyro"),
        "cases": {name: study(name) for name in arguments.cases},
    }
    write(result, markdown(result), arguments.out, "ends")


if __name__ == "__main__":
    main()
