"""``uv run python -m benchmarks.sequential``: next calls against a round-robin, simulated.

Tables are drawn from the crossed model. Both strategies start from the same round-robin
over a third of the scenarios and then spend the same number of calls, batch by batch; after
each batch the backbones are ordered by their posterior means given the same scales. Writes
``results/sequential.json`` and ``.md``.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import bayesjudge as bj
from bayesjudge.planning.lookahead import Knowledge, Prior, Seen, learn, next_calls
from bayesjudge.planning.sequencing import estimand_of, prior_of, rival_blocks
from bayesjudge.resolution import resolve
from bayesjudge.spec import read_model

type Floats = NDArray[np.float64]
type Ints = NDArray[np.int64]

HERE = Path(__file__).parent
BACKBONES, SCENARIOS, JUDGES = 6, 60, 4
START, BATCH, BATCHES = 20, 24, 10
# Squared scales; backbones differ by about what their scenarios do not average out.
TRUTH = {
    "backbone_sd": 0.25**2,
    "judge_sd": 0.5**2,
    "backbone_judge_sd": 0.2**2,
    "scenario_sd": 0.7**2,
    "backbone_scenario_sd": 0.5**2,
    "judge_scenario_sd": 0.3**2,
    "sigma": 0.7**2,
}
# Scales that the strategies reckon with, over those of the truth.
SCALES = {"true scales": 1.0, "scales of what is shrunk halved": 0.5}
STRATEGIES = ("round-robin", "next calls")


@dataclass(frozen=True)
class World:
    """The model of the simulation, as the package lays it out."""

    prior: Prior
    believed: Prior
    estimand: Floats
    pattern: Ints


def build(factor: float) -> World:
    """Lay the model on a table of the right shape; its scores do not matter."""
    made = bj.simulate(
        "crossed_common", backbones=BACKBONES, scenarios=SCENARIOS, judges=JUDGES, random_seed=0
    )
    resolved = resolve(read_model("crossed_common"), bj.read_scores(made.table), 1.0, 0.0)
    wrong = {
        name: np.array([value if name == "sigma" else value * factor**2])
        for name, value in TRUTH.items()
    }
    right = {name: np.array([value]) for name, value in TRUTH.items()}
    turn = (np.arange(SCENARIOS) + np.arange(SCENARIOS) // JUDGES) % JUDGES
    return World(
        prior_of(resolved, right, JUDGES),
        prior_of(resolved, wrong, JUDGES),
        estimand_of(resolved),
        turn,
    )


def draw(world: World, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Return every score there could be, (n, C), and the backbones' panel means."""
    prior = world.prior
    common = _normal(prior.common_cov, rng)
    own = np.array([_normal(prior.own_cov, rng) for _ in range(SCENARIOS)])
    noise = np.sqrt(prior.noise) * rng.standard_normal((SCENARIOS, len(prior.noise)))
    return own @ prior.own.T + prior.common @ common + noise, world.estimand @ common


def _normal(cov: Floats, rng: np.random.Generator) -> Floats:
    values, vectors = np.linalg.eigh(cov)
    return np.asarray(vectors @ (np.sqrt(np.maximum(values, 0)) * rng.standard_normal(len(cov))))


def round_robin(world: World, made: list[tuple[int, int]], n_calls: int) -> list[tuple[int, int]]:
    """Go on with scenarios in turn, all backbones of one by the same judge."""
    calls = list(made)
    taken = set(made)
    for lap in range(JUDGES):
        for i in range(SCENARIOS):
            judge = (world.pattern[i] + lap) % JUDGES
            for b in range(BACKBONES):
                if len(calls) - len(made) == n_calls:
                    return calls
                call = (i, b * JUDGES + int(judge))
                if call not in taken:
                    calls.append(call)
                    taken.add(call)
    return calls


def know(prior: Prior, scores: Floats, calls: list[tuple[int, int]]) -> Knowledge:
    """Return the posterior given these calls' scores."""
    scenario, kind = np.array(calls).T
    n = len(calls)
    seen = Seen(
        scenario, kind, np.arange(n), scores[scenario, kind], prior.noise[kind], np.zeros(n)
    )
    return learn(prior, seen, SCENARIOS)


def follow(world: World, strategy: str, scores: Floats, top: int) -> list[Floats]:
    """Return the posterior means of the backbones at the start and after each batch."""
    calls = round_robin(world, [], START * BACKBONES)
    found = []
    for batch in range(BATCHES + 1):
        known = know(world.believed, scores, calls)
        means = world.estimand @ known.mean
        found.append(means)
        if batch == BATCHES:
            break
        if strategy == "round-robin":
            calls = round_robin(world, calls, BATCH)
            continue
        order = np.argsort(-means)
        pairs = [(a, b) for at, a in enumerate(order[:top]) for b in order[at + 1 :]]
        first, second = np.array(pairs).T
        still = np.ones((SCENARIOS, BACKBONES * JUDGES), bool)
        still[tuple(np.array(calls).T)] = False
        chosen = next_calls(
            world.believed,
            known,
            world.estimand[first] - world.estimand[second],
            BATCH,
            np.ones(BACKBONES * JUDGES),
            still,
            repeatable=False,
            blocks=rival_blocks(order, np.array(pairs), JUDGES),
        )
        calls = [*calls, *zip(chosen.scenario.tolist(), chosen.kind.tolist(), strict=True)]
    return found


def losses(means: Floats, truth: Floats, top: int) -> tuple[float, float, float]:
    """Return whether the top is out of order, its wrong pairs, and what the first falls short."""
    order, right = np.argsort(-means), np.argsort(-truth)
    wrong = [
        (means[a] - means[b]) <= 0 for at, a in enumerate(right[:top]) for b in right[at + 1 :]
    ]
    shortfall = truth[right[0]] - truth[order[0]]
    return float((order[:top] != right[:top]).any()), float(np.sum(wrong)), float(shortfall)


def study(n_tables: int, seed: int, top: int) -> dict[str, dict[str, Floats]]:
    """Return losses by scales and strategy, (tables, batches + 1, 3)."""
    found: dict[str, dict[str, Floats]] = {}
    for label, factor in SCALES.items():
        world = build(factor)
        found[label] = {s: np.zeros((n_tables, BATCHES + 1, 3)) for s in STRATEGIES}
        for t in range(n_tables):
            scores, truth = draw(world, np.random.default_rng([seed, t]))
            for strategy in STRATEGIES:
                for at, means in enumerate(follow(world, strategy, scores, top)):
                    found[label][strategy][t, at] = losses(means, truth, top)
    return found


def report(found: dict[str, dict[str, Floats]], n_tables: int, seed: int, top: int) -> str:
    """Return the study as Markdown."""
    lines = [
        "# Next calls against a round-robin",
        "",
        f"`uv run python -m benchmarks.sequential --tables {n_tables} --seed {seed} --top {top}`",
        "",
        f"{n_tables} simulated tables of {BACKBONES} backbones, {JUDGES} judges and up to "
        f"{SCENARIOS} scenarios; both strategies start from the same round-robin of "
        f"{START * BACKBONES} calls. Squared scales of the truth: "
        + ", ".join(f"{k.removesuffix('_sd')} {v:.3g}" for k, v in TRUTH.items())
        + ". Differences are paired by table, with their standard errors.",
    ]
    named = (f"top {top} not in the right order", "wrong pairs with one of the top", "shortfall")
    for label, by in found.items():
        lines += ["", f"## Reckoning with {label}", ""]
        lines.append(
            "| calls | " + " | ".join(f"{x}: round-robin, next, difference" for x in named) + " |"
        )
        lines.append("|---:|" + "---|" * len(named))
        for at in range(BATCHES + 1):
            cells = []
            for kind in range(len(named)):
                a, b = (by[s][:, at, kind] for s in STRATEGIES)
                se = (b - a).std(ddof=1) / np.sqrt(n_tables)
                cells.append(f"{a.mean():.3f}, {b.mean():.3f}, {(b - a).mean():+.3f} ± {se:.3f}")
            lines.append(f"| {START * BACKBONES + at * BATCH} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Run the study and write its results."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sequential", description=__doc__)
    parser.add_argument("--tables", type=int, default=400)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--top", type=int, default=2)
    parser.add_argument("--out", type=Path, default=HERE / "results")
    asked = parser.parse_args()
    found = study(asked.tables, asked.seed, asked.top)
    text = report(found, asked.tables, asked.seed, asked.top)
    asked.out.mkdir(parents=True, exist_ok=True)
    (asked.out / "sequential.md").write_text(text, encoding="utf-8")
    data = {
        "tables": asked.tables,
        "seed": asked.seed,
        "top": asked.top,
        "calls": [START * BACKBONES + at * BATCH for at in range(BATCHES + 1)],
        "losses": ["top in the wrong order", "wrong pairs with one of the top", "shortfall"],
        "means": {
            k: {s: v.mean(axis=0).tolist() for s, v in by.items()} for k, by in found.items()
        },
    }
    (asked.out / "sequential.json").write_text(json.dumps(data, indent=2) + "\n", encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
