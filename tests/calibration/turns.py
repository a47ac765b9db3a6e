"""Judges that take turns: does the exact engine's interval cover the panel mean?

Fresh tables in which one judge scores each answer; judges take turns over shuffled scenarios
(one generation each), or over generations in incomplete turns. The truth is fixed and the
scalar prespecified: the mean over the panel of one backbone, the next one in each table.
Beside it, at the same number of calls, a single judge scores everything.

Full size: ``uv run python -m tests.calibration.turns --tables 1000``
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
from bayesjudge.closed_form.intervals import t_interval
from bayesjudge.scores.table import Facet, Scores
from tests.calibration.reporting import versions, write

# Scenarios, generations a scenario.
DESIGNS = {"over 32 scenarios": (32, 1), "over 16 scenarios x 3 generations": (16, 3)}
MEANS = np.array([6.6, 7.0, 7.2])
JUDGES = np.array([-0.8, -0.1, 0.3, 0.6])
# What a judge gives a backbone beside; over judges and over backbones they sum to zero.
OWN = np.array([[0.3, -0.1, -0.1, -0.1], [-0.1, 0.3, -0.1, -0.1], [-0.2, -0.2, 0.2, 0.2]])
SD = {"scenario": 0.6, "backbone:scenario": 0.4, "generation": 0.4, "residual": 0.7}
UNIT, LOCATION, CI_PROB, DRAWS = 1.0, 7.0, 0.95, 250


@dataclass(frozen=True)
class Outcome:
    """One table: by turns, and by one judge."""

    covered: bool
    width: float
    ordered: bool
    single_covered: bool
    single_width: float
    single_ordered: bool
    converged: bool


def answers(rng: np.random.Generator, n: int, m: int) -> NDArray[np.float64]:
    """Return the worth of each answer, (B, n, m), before a judge scores it."""
    b = MEANS.size
    return (
        MEANS[:, None, None]
        + SD["scenario"] * rng.standard_normal((1, n, 1))
        + SD["backbone:scenario"] * rng.standard_normal((b, n, 1))
        + SD["generation"] * rng.standard_normal((b, n, m))
    )


def judged(
    rng: np.random.Generator, worth: NDArray[np.float64], judge: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return scores (B, n, m) by the judges (B, n, m)."""
    backbone = np.arange(MEANS.size)[:, None, None]
    noise = SD["residual"] * rng.standard_normal(worth.shape)
    return worth + JUDGES[judge] + OWN[backbone, judge] + noise


def taking_turns(rng: np.random.Generator, n: int, m: int) -> NDArray[np.int64]:
    """Return judges in turn over shuffled scenarios, each backbone from its own start."""
    order = rng.permutation(n)
    start = rng.integers(0, JUDGES.size, (MEANS.size, 1, 1))
    return (start + order[None, :, None] * m + np.arange(m)) % JUDGES.size


def table(score: NDArray[np.float64], judge: NDArray[np.int64]) -> Scores:
    """Return the scores (B, n, m) as a table."""
    b, n, m = score.shape
    backbone, scenario, generation = np.indices(score.shape).reshape(3, -1)

    def facet(name: str, role: str, size: int, codes: NDArray[np.int64]) -> Facet:
        return Facet(name, role, tuple(f"{name}{i:03d}" for i in range(size)), codes)  # type: ignore[arg-type]

    facets = [
        facet("backbone", "panel", b, backbone),
        facet("judge", "panel", JUDGES.size, judge.ravel()),
        facet("scenario", "random", n, scenario),
    ]
    if m > 1:
        facets.append(facet("generation", "random", m, generation))
    return Scores(score.ravel(), tuple(facets))


def run_table(design: str, seed: int) -> Outcome:
    """Draw a table and its twin by a single judge, and answer both."""
    n, m = DESIGNS[design]
    rng = np.random.default_rng([seed, n, m])
    at = seed % MEANS.size
    truth = MEANS[at]
    judge = taking_turns(rng, n, m)
    fit = bj.fit(
        table(judged(rng, answers(rng, n, m), judge), judge),
        unit=UNIT,
        location=LOCATION,
        draws=DRAWS,
        random_seed=seed,
    )
    board = fit.leaderboard(ci_prob=CI_PROB)
    row = board.set_index("backbone").loc[f"backbone{at:03d}"]
    best_first = [f"backbone{i:03d}" for i in np.argsort(-MEANS)]
    one = np.full((MEANS.size, n, m), rng.integers(JUDGES.size))
    by_scenario = judged(rng, answers(rng, n, m), one).mean(axis=2)
    means = by_scenario.mean(axis=1)
    se = by_scenario[at : at + 1].std(axis=1, ddof=1) / np.sqrt(n)
    lower, upper = t_interval(means[at : at + 1], se, n - 1, CI_PROB)
    return Outcome(
        covered=bool(row["ci_lower"] <= truth <= row["ci_upper"]),
        width=float(row["ci_upper"] - row["ci_lower"]),
        ordered=board.sort_values("mean", ascending=False)["backbone"].tolist() == best_first,
        single_covered=bool(lower[0] <= truth <= upper[0]),
        single_width=float(upper[0] - lower[0]),
        single_ordered=bool((np.argsort(-means) == np.argsort(-MEANS)).all()),
        converged=fit.convergence.converged,
    )


def summarize(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Return the rates over tables; every table counts, converged or not."""
    n = len(outcomes)
    covered = sum(o.covered for o in outcomes)
    names = ("width", "ordered", "single_covered", "single_width", "single_ordered")
    return {
        "tables": n,
        "covered": covered / n,
        "p_value": float(binomtest(covered, n, CI_PROB).pvalue),
        **{name: float(np.mean([getattr(o, name) for o in outcomes])) for name in names},
        "converged": sum(o.converged for o in outcomes),
    }


def study(n_tables: int, designs: Sequence[str]) -> dict[str, Any]:
    """Run the study."""
    found: dict[str, Any] = {}
    for design in designs:
        started = time.perf_counter()
        found[design] = summarize([run_table(design, seed) for seed in range(n_tables)])
        print(f"{design}: {time.perf_counter() - started:.0f} s", file=sys.stderr, flush=True)
    return found


def markdown(result: Mapping[str, Any]) -> str:
    """Return the committed report."""
    lines = ["# Intervals of the panel mean where judges take turns", ""]
    lines += [f"{k}: {v}  " for k, v in result["versions"].items()]
    lines += [
        "",
        "Nominal 95 %; a single judge makes as many calls. Right order: all three backbones.",
        "",
        "| design | tables | converged | judging | covered | width | right order |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for design, row in result["designs"].items():
        for prefix, judging in (
            ("", "in turn, exact engine"),
            ("single_", "one judge, t-interval"),
        ):
            converged = row["converged"] if not prefix else ""
            lines.append(
                f"| {design} | {row['tables']} | {converged} | {judging} | "
                f"{row[f'{prefix}covered']:.3f} | {row[f'{prefix}width']:.2f} | "
                f"{row[f'{prefix}ordered']:.3f} |"
            )
    return "\n".join(lines) + "\n"


def main() -> None:
    """Run from the command line and write the report beside this file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=int, default=1000, help="tables of each design")
    parser.add_argument("--designs", nargs="+", default=list(DESIGNS), choices=list(DESIGNS))
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    parser.add_argument("--name", default="turns")
    arguments = parser.parse_args()
    result = {
        "versions": versions("bayesjudge", "numpy", "scipy"),
        "designs": study(arguments.tables, arguments.designs),
    }
    write(result, markdown(result), arguments.out, arguments.name)


if __name__ == "__main__":
    main()
