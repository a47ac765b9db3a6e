"""Fit every case with Bambi and write the moments that the tests compare with.

Bambi is no part of the project's environment; in one of its own, minutes:

``uv run --no-project --with bambi --with nutpie python -m tests.golden.bambi.make``
"""

from __future__ import annotations

import datetime
import json
from importlib.metadata import version

import arviz_stats.base
import bambi as bmb
import numpy as np

from tests.golden.bambi.cases import CASES, VALUES, Case

SAMPLING = {"draws": 4000, "tune": 1500, "chains": 4, "target_accept": 0.95, "random_seed": 3}


def model_of(case: Case) -> bmb.Model:
    """Return Bambi's model with the priors of the case, none of its own."""
    mean, sd = case.intercept
    priors = {"Intercept": bmb.Prior("Normal", mu=mean, sigma=sd)}
    for facet, width in case.scales.items():
        scale = bmb.Prior("HalfNormal", sigma=width)
        priors[f"1|{facet}"] = bmb.Prior("Normal", mu=0, sigma=scale)
    if case.residual is not None:
        priors["sigma"] = bmb.Prior("HalfNormal", sigma=case.residual)
    if case.slope is not None:
        priors["length"] = bmb.Prior("Normal", mu=0, sigma=case.slope)
    return bmb.Model(case.formula, case.table(), family=case.family, priors=priors)


def moments(draws: np.ndarray) -> dict[str, float]:
    """Return mean and sd of (chain, draw) draws with their Monte Carlo errors."""
    stats = arviz_stats.base.array_stats
    errors = {
        kind: float(stats.mcse(draws, chain_axis=0, draw_axis=1, method=kind))
        for kind in ("mean", "sd")
    }
    return {
        "mean": float(draws.mean()),
        "sd": float(draws.std()),
        "mean_error": errors["mean"],
        "sd_error": errors["sd"],
    }


def values_of(case: Case) -> dict[str, dict[str, float]]:
    """Return the moments of every parameter, by bayesjudge's name and the level's label."""
    fitted = model_of(case).fit(**SAMPLING, inference_method="nutpie")
    posterior = fitted["posterior"]
    named = {"intercept": posterior["Intercept"]}
    if case.residual is not None:
        named["sigma"] = posterior["sigma"]
    if case.slope is not None:
        named["length_slope"] = posterior["length"]
    for facet in case.scales:
        named[f"{facet}_sd"] = posterior[f"1|{facet}_sigma"]
        effects = posterior[f"1|{facet}"].transpose("chain", "draw", ...)
        for label in effects[effects.dims[2]].values:
            named[f"{facet}_effect[{label}]"] = effects.sel({effects.dims[2]: label})
    return {name: moments(draws.to_numpy()) for name, draws in named.items()}


def main() -> None:
    """Write golden.json."""
    versions = {name: version(name) for name in ("bambi", "pymc", "nutpie")}
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    values = {
        case.name: {
            "formula": case.formula,
            "moments": values_of(case),
            "sampling": SAMPLING,
            **versions,
            "date": today,
        }
        for case in CASES
    }
    VALUES.write_text(json.dumps(values, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
