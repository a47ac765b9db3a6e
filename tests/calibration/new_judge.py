"""Means under a judge held out of the panel: does the interval for a new judge cover?

Simulated panels of eight judges drawn from a population, and what a ninth would give each
backbone on average. The scalar is prespecified: one backbone, the next one in each panel.
Beside it: the panel's own interval, which answers another question.

Full size: ``uv run python -m tests.calibration.new_judge --tables 200``, a minute
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binomtest

import bayesjudge as bj
from bayesjudge.panel_readings import new_level_means, panel_means
from bayesjudge.scores.table import Facet, Scores
from tests.calibration.reporting import versions, write

QUICK: dict[str, Any] = {"unit": 1.0, "location": 7.0}
CI_PROB = 0.95


def panel(seed: int, B: int, K: int, n: int, role: str) -> tuple[Scores, NDArray[np.float64]]:
    """Return K judges' scores, and the means (B,) under one judge more."""
    rng = np.random.default_rng([seed, 5])
    judge = 0.5 * rng.standard_normal(K + 1)
    own = 0.3 * rng.standard_normal((B, K + 1))
    mean = 7 + np.linspace(0, 0.6, B)
    worth = 0.5 * rng.standard_normal((1, n, 1)) + 0.3 * rng.standard_normal((B, n, 1))
    y = mean[:, None, None] + worth + (judge[:K] + own[:, :K])[:, None, :]
    y = y + 0.6 * rng.standard_normal((B, n, K))
    b, s, j = np.indices(y.shape).reshape(3, -1)

    def facet(name: str, kind: str, size: int, codes: NDArray[np.int64]) -> Facet:
        return Facet(name, kind, tuple(f"{name}{i:02d}" for i in range(size)), codes)  # type: ignore[arg-type]

    facets = (
        facet("backbone", "panel", B, b),
        facet("judge", role, K, j),
        facet("scenario", "random", n, s),
    )
    return Scores(y.ravel(), facets), mean + judge[K] + own[:, K]


def table(seed: int = 0, B: int = 3, K: int = 4, n: int = 30, role: str = "panel") -> Scores:
    """Return a simulated table."""
    return panel(seed, B, K, n, role)[0]


def study(n_panels: int) -> dict[str, Any]:
    """Run the study: coverage and mean width of both readings."""
    covered: list[tuple[bool, bool]] = []
    width: list[tuple[float, float]] = []
    for seed in range(n_panels):
        scores, truth = panel(seed, 3, 8, 20, "random")
        fit = bj.fit(scores, "crossed_common", draws=100, random_seed=seed, **QUICK)
        at = seed % truth.size
        ends = [
            np.quantile(draws[:, at], [(1 - CI_PROB) / 2, (1 + CI_PROB) / 2])
            for draws in (new_level_means(fit), panel_means(fit))
        ]
        covered.append(tuple(bool(low <= truth[at] <= high) for low, high in ends))  # type: ignore[arg-type]
        width.append(tuple(float(high - low) for low, high in ends))  # type: ignore[arg-type]
    rates, widths = np.mean(covered, axis=0), np.mean(width, axis=0)
    hits = sum(new for new, _ in covered)
    return {
        "panels": n_panels,
        "covered": float(rates[0]),
        "p_value": float(binomtest(hits, n_panels, CI_PROB).pvalue),
        "width": float(widths[0]),
        "panel_covered": float(rates[1]),
        "panel_width": float(widths[1]),
    }


def markdown(result: Mapping[str, Any]) -> str:
    """Return the committed report."""
    found = result["found"]
    lines = ["# Intervals of a mean under a judge held out of a panel of eight", ""]
    lines += [f"{k}: {v}  " for k, v in result["versions"].items()]
    lines += [
        "",
        f"Nominal 95 %; p of the exact binomial test {found['p_value']:.2g}.",
        "",
        "| interval for | panels | covered | width |",
        "| --- | --- | --- | --- |",
        f"| a new judge | {found['panels']} | {found['covered']:.3f} | {found['width']:.2f} |",
        f"| the panel | {found['panels']} | {found['panel_covered']:.3f} | "
        f"{found['panel_width']:.2f} |",
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Run from the command line and write the report beside this file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=int, default=200)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    arguments = parser.parse_args()
    result = {
        "versions": versions("bayesjudge", "numpy", "scipy"),
        "found": study(arguments.tables),
    }
    write(result, markdown(result), arguments.out, "new_judge")


if __name__ == "__main__":
    main()
