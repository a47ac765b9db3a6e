"""The Laplace engine beside long NumPyro runs, on tables of verdicts and of categories.

Of every parameter, backbone mean and ranked quantity the shares of draws below NumPyro's
10, 50 and 90 % quantiles are compared: scales by a backbone have tails so heavy that
their means settle in no run. Errors of both engines are combined, the Laplace engine's
from its seeds, at least those of its claimed effective size; Holm over all rows.

Full size: ``uv run python -m tests.calibration.laplace_agreement``
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from bayesjudge.engines import Settings, laplace
from bayesjudge.engines.convergence import effective_size
from bayesjudge.engines.families import sample_family
from bayesjudge.engines.posterior import backbone_means
from bayesjudge.engines.protocol import Draws
from bayesjudge.resolution import Resolved
from bayesjudge.simulation import simulate_scores
from tests.calibration.family_sbc import STUDIES, resolved_design
from tests.calibration.holm import holm
from tests.calibration.ranked import ranked_quantities
from tests.calibration.reporting import versions, write

type Floats = NDArray[np.float64]

# Drawn with seeds that nothing was tried on.
TABLES = (("verdict", 11), ("ordinal", 12))
SHARES = (0.1, 0.5, 0.9)
LEVEL = 0.001


def table(study: str, seed: int) -> Resolved:
    """Return a study's model on a table drawn from it."""
    base = resolved_design(STUDIES[study])
    return replace(base, score=simulate_scores(base, np.random.default_rng([21, seed]))[0])


def quantities(resolved: Resolved, draws: Draws) -> dict[str, Floats]:
    """Return what is compared, (chain, draw) by name."""
    shape = draws.intercept.shape
    effects = {f"{name}_effect": value for name, value in draws.effects.items()}
    out: dict[str, Floats] = {"intercept": draws.intercept}
    for name, value in {**draws.scales, **draws.hyper, **draws.parameters, **effects}.items():
        flat = value.reshape(*shape, -1)
        out |= {f"{name}[{i}]": flat[..., i] for i in range(flat.shape[-1])}
    means = backbone_means(resolved, draws)
    out |= {f"mean[{i}]": means[..., i] for i in range(means.shape[-1])}
    for name, value in ranked_quantities(resolved, replace(draws, sample_stats={})).items():
        if np.size(value) == draws.intercept.size:
            out[name] = np.asarray(value, dtype=float).reshape(shape)
    return {name: value for name, value in out.items() if np.ptp(value) > 0}


def compare(study: str, seed: int, n_seeds: int, draws: int) -> dict[str, Any]:
    """Return rows of z by quantity and share, of one table."""
    resolved = table(study, seed)
    settings = Settings(
        draws=draws, tune=draws // 2, target_accept=0.95, nested_effects=True, random_seed=1
    )
    theirs = quantities(resolved, sample_family(resolved, settings))
    ours, sizes = [], []
    for own in range(n_seeds):
        found = laplace.sample(resolved, Settings(nested_effects=True, random_seed=own))
        ours.append(quantities(resolved, found))
        sizes.append(found.weighted_ess or 0.0)
    rows = []
    for name, value in theirs.items():
        for share, cut in zip(SHARES, np.quantile(value, SHARES), strict=True):
            below = (value <= cut).astype(float)
            known = min(effective_size(below), effective_size(value))
            shares = np.array([(one[name] <= cut).mean() for one in ours])
            error = max(shares.var(ddof=1) / n_seeds, share * (1 - share) / sum(sizes))
            z = (shares.mean() - below.mean()) / np.sqrt(below.var() / known + error)
            rows.append({"quantity": name, "share": share, "laplace": shares.mean(), "z": float(z)})
    return {"study": study, "seed": seed, "ess": sizes, "rows": rows}


def markdown(result: Mapping[str, Any]) -> str:
    """Return the committed report."""
    lines = ["# The Laplace engine beside NumPyro", "", __doc__.split("\n\n")[1], ""]
    lines += [f"NumPyro: 4 chains of {result['draws']} draws after half as many.", ""]
    lines += ["| table | rows | largest abs z | rms z | smallest Holm p | |", "|" + " --- |" * 6]
    for found in result["tables"]:
        z = np.array([row["z"] for row in found["rows"]])
        p = float(np.min(holm((2 * norm.sf(np.abs(z))).tolist())))
        lines.append(
            f"| {found['study']}, seed {found['seed']} | {z.size} | {np.abs(z).max():.2f} | "
            f"{np.sqrt((z**2).mean()):.2f} | {p:.3f} | {'ok' if p >= LEVEL else 'FAILS'} |"
        )
    return "\n".join(lines) + "\n"


def main(words: Iterable[str] | None = None) -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=6)
    parser.add_argument("--draws", type=int, default=3000, help="NumPyro's, of each of 4 chains")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    arguments = parser.parse_args(None if words is None else list(words))
    result = {
        "versions": versions("bayesjudge", "numpy", "scipy", "jax", "numpyro"),
        "draws": arguments.draws,
        "tables": [
            compare(study, seed, arguments.seeds, arguments.draws) for study, seed in TABLES
        ],
    }
    write(result, markdown(result), arguments.out, "laplace_agreement")


if __name__ == "__main__":
    main()
