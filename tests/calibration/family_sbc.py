"""Simulation-based calibration and coverage of every shipped model (STATISTICS section 6).

Truths are drawn from the priors in use, with fixed unit and location, and a
table from each. The rank of the truth among 199 thinned draws must be uniform,
for every function of parameters and data; the interval from the fifth lowest
draw to the fifth highest must cover 95 % of the truths, and P(best) must be
calibrated. Every table counts for all three.

Full size, resumable by study: ``uv run python -m tests.calibration.family_sbc``
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binomtest

from bayesjudge.engines import Engine, Settings, exact, laplace
from bayesjudge.engines.posterior import backbone_means
from bayesjudge.engines.protocol import Draws
from bayesjudge.resolution import Resolved, resolve
from bayesjudge.scores.table import Facet, Scores
from bayesjudge.simulation import simulate_scores
from bayesjudge.spec import Prior, Thresholds, read_model
from tests.calibration import pymc_tables, side_by_side
from tests.calibration.coverage import LOCATION, UNIT, design
from tests.calibration.holm import holm
from tests.calibration.ranked import OF_MANY, ranked_quantities, truths_as_draws
from tests.calibration.reporting import versions, write
from tests.calibration.side_by_side import Effort

type Floats = NDArray[np.float64]
type Ints = NDArray[np.int64]
type Sampler = Callable[[Sequence[Resolved], Effort], list[Draws]]

N_BINS, SBC_LEVEL, COVERAGE_LEVEL, CI_PROB = 20, 0.001, 0.001, 0.95
_NULL_SIZE = 200_000
FULL = Effort()


@dataclass(frozen=True)
class Study:
    """One model on one design, sampled by one engine.

    Attributes
    ----------
    model : str
    engine : {"numpyro", "exact", "laplace", "pymc"}
    shape : dict
        Levels by facet.
    changes : dict
        To the model, a variant of it.
    scale : (low, high) or None
    thin : int, optional
        Of the full size, where draws of the usual one hang together: an intercept with the
        means of scenarios and generations, which no map of the table's own unties here.
    """

    model: str
    engine: str = "numpyro"
    shape: Mapping[str, int] = field(
        default_factory=lambda: {"backbone": 3, "scenario": 6, "judge": 2}
    )
    changes: Mapping[str, Any] = field(default_factory=dict)
    scale: tuple[float, float] | None = None
    thin: int = FULL.thin


_BY_JUDGE = {"link": "probit", "thresholds": Thresholds("judge", Prior("half_normal", (0.5,)))}
_LANGUAGES = {"backbone": 3, "language": 3, "scenario": 4, "judge": 2}
STUDIES: dict[str, Study] = {
    "crossed": Study("crossed"),
    "crossed_common": Study("crossed_common"),
    "crossed_common, exact": Study("crossed_common", "exact"),
    "crossed_common, pymc": Study("crossed_common", "pymc"),
    "cyclicjudge": Study("cyclicjudge"),
    "cyclicjudge, exact": Study("cyclicjudge", "exact"),
    "verdict": Study("verdict"),
    "verdict, laplace": Study("verdict", "laplace"),
    "verdict, pymc": Study("verdict", "pymc"),
    "ordinal": Study("ordinal", scale=(1, 4)),
    "ordinal, laplace": Study("ordinal", "laplace", scale=(1, 4)),
    "ordinal, probit, thresholds by judge": Study("ordinal", changes=_BY_JUDGE, scale=(1, 4)),
    "robust": Study("robust", thin=10),
    "uncertainty": Study("uncertainty", shape=_LANGUAGES, thin=10),
    "judge_scale": Study("judge_scale", shape={"backbone": 3, "scenario": 6, "judge": 3}),
    "pairwise": Study("pairwise"),
}


@dataclass(frozen=True, eq=False)
class Outcome:
    """Ranks of the truths, and how P(best) fared.

    Attributes
    ----------
    ranks : dict of (tables,) int arrays
        Draws below the truth, by quantity.
    n_ranked : int
        Draws that it was ranked among.
    residual, variance : (tables,) arrays
        The sums of STATISTICS section 6, for Z.
    divergent : float
        Share of the draws.
    seconds : float
    """

    ranks: dict[str, Ints]
    n_ranked: int
    residual: Floats
    variance: Floats
    divergent: float
    seconds: float


def resolved_design(study: Study) -> Resolved:
    """Return the model on its design."""
    spec = replace(read_model(study.model), **study.changes)
    if spec.is_paired:
        return resolve(spec, battles(study.shape))
    scores = design(study.shape)
    n = len(scores)
    covariates = tuple(
        (c.column, np.random.default_rng(1).standard_normal(n)) for c in spec.covariates
    )
    blank = replace(scores, scale=study.scale, covariates=covariates)
    if not spec.is_latent:
        return resolve(spec, blank, UNIT, LOCATION)
    lowest = 0.0 if study.scale is None else study.scale[0]
    return resolve(spec, replace(blank, score=np.full(n, lowest)))


def battles(shape: Mapping[str, int]) -> Scores:
    """Return a design of battles: every pair in every cell, either order in turn."""
    n_backbones = shape["backbone"]
    pairs = np.array([(a, b) for a in range(n_backbones) for b in range(a)])
    others = design({name: n for name, n in shape.items() if name != "backbone"})
    cell, pair = np.indices((len(others), len(pairs))).reshape(2, -1)
    # Whole cells go round, or the order would be that of the pair or of the judge.
    side = (cell + cell // 2 + pair) % 2
    backbone = Facet(
        "backbone",
        "panel",
        tuple(f"backbone {i}" for i in range(n_backbones)),
        pairs[pair, side].astype(np.int64),
    )
    facets = tuple(replace(f, codes=f.codes[cell]) for f in others.facets)
    # Every outcome occurs, or the table would have no ties to model.
    score = np.arange(cell.size) % 3 / 2
    return Scores(score, (backbone, *facets), opponent=pairs[pair, 1 - side].astype(np.int64))


def run_study(
    name: str,
    n_tables: int,
    effort: Effort | None = None,
    sampler: Sampler | None = None,
    first: int = 0,
) -> Outcome:
    """Draw truths and tables from seed ``first`` on, sample all, and rank the truths.

    Without an effort the study is of full size.
    """
    study, started = STUDIES[name], time.perf_counter()
    effort = effort or replace(FULL, thin=study.thin)
    base = resolved_design(study)
    tables, truths = [], []
    for seed in range(first, first + n_tables):
        score, truth = simulate_scores(base, np.random.default_rng([21, seed]))
        tables.append(replace(base, score=score))
        truths.append(truth)
    draws = (sampler or SAMPLERS[study.engine])(tables, effort)
    rng = np.random.default_rng(22 if not first else [22, first])
    ranks: dict[str, list[int]] = {}
    sums = []
    for table, truth, drawn in zip(tables, truths, draws, strict=True):
        true = ranked_quantities(table, truths_as_draws(table, [truth]))
        found = ranked_quantities(table, drawn)
        assert set(true) == set(found)
        for quantity, value in found.items():
            ties = int((value == true[quantity]).sum())
            below = int((value < true[quantity]).sum())
            ranks.setdefault(quantity, []).append(below + int(rng.integers(0, ties + 1)))
        sums.append(_p_best_sums(backbone_means(table, drawn), truth["backbone_mean"]))
    residual, variance = np.transpose(sums)
    diverging = [np.mean(d.sample_stats.get("diverging", 0.0)) for d in draws]
    return Outcome(
        {q: np.array(r) for q, r in ranks.items()},
        draws[0].intercept.size,
        residual,
        variance,
        float(np.mean(diverging)),
        time.perf_counter() - started,
    )


def joined(outcomes: Sequence[Outcome]) -> Outcome:
    """Return the outcome of a study whose tables were drawn in pieces."""
    one, sizes = outcomes[0], [o.residual.size for o in outcomes]
    return Outcome(
        {name: np.concatenate([o.ranks[name] for o in outcomes]) for name in one.ranks},
        one.n_ranked,
        np.concatenate([o.residual for o in outcomes]),
        np.concatenate([o.variance for o in outcomes]),
        float(np.average([o.divergent for o in outcomes], weights=sizes)),
        sum(o.seconds for o in outcomes),
    )


def in_pieces(folder: Path, name: str, n_tables: int, first: int) -> Outcome:
    """Run a piece of a study, keep it in a folder, and return all that is there of the study."""
    folder.mkdir(parents=True, exist_ok=True)
    own = run_study(name, n_tables, first=first)
    kept = {f"rank {q}": r for q, r in own.ranks.items()}
    numbers = np.array([own.n_ranked, own.divergent, own.seconds])
    np.savez(
        folder / f"{name}-{first:05d}.npz",
        residual=own.residual, variance=own.variance, numbers=numbers, **kept,
    )  # fmt: skip
    found = []
    for path in sorted(folder.glob(f"{name}-*.npz")):
        with np.load(path) as data:
            ranks = {k.removeprefix("rank "): data[k] for k in data if k.startswith("rank ")}
            n_ranked, divergent, seconds = data["numbers"].tolist()
            sums = data["residual"], data["variance"]
        found.append(Outcome(ranks, int(n_ranked), *sums, divergent, seconds))
    return joined(found)


def _p_best_sums(means: Floats, truth: Floats) -> tuple[float, float]:
    """Return one table's terms of Z.

    P(best) comes from two halves of the draws, so that its Monte Carlo error,
    which is the same in p and in y - p otherwise, does not count against it.
    """
    flat = means.reshape(-1, means.shape[-1])
    n_backbones, half = flat.shape[1], len(flat) // 2
    best = np.bincount(flat[:half].argmax(1), minlength=n_backbones) / half
    other = np.bincount(flat[half:].argmax(1), minlength=n_backbones) / (len(flat) - half)
    y = np.eye(n_backbones)[int(np.argmax(truth))]
    p = 0.5 * (best + other)
    return float(np.sum(best * (y - other))), float(np.sum(p**3) - np.sum(p**2) ** 2)


def _by_exact(tables: Sequence[Resolved], effort: Effort) -> list[Draws]:
    return _one_by_one(exact.sample, tables, effort)


def _by_laplace(tables: Sequence[Resolved], effort: Effort) -> list[Draws]:
    return _one_by_one(laplace.sample, tables, effort)


def _one_by_one(engine: Engine, tables: Sequence[Resolved], effort: Effort) -> list[Draws]:
    # Four draws to one that is ranked: a fall-back to Markov chains is then nearly independent.
    thin = 4
    settings = Settings(draws=effort.draws, chains=thin, tune=300, nested_effects=True)
    return [
        every(engine(table, replace(settings, random_seed=seed)), thin)
        for seed, table in enumerate(tables)
    ]


def every(draws: Draws, thin: int) -> Draws:
    """Return every so many draws of all chains, in one chain."""

    def thinned(values: Mapping[str, Floats]) -> dict[str, Floats]:
        return {k: v.reshape(1, -1, *v.shape[2:])[:, ::thin] for k, v in values.items()}

    return replace(
        draws,
        scales=thinned(draws.scales),
        hyper=thinned(draws.hyper),
        effects=thinned(draws.effects),
        parameters=thinned(draws.parameters),
        intercept=draws.intercept.reshape(1, -1)[:, ::thin],
        sample_stats={},
    )


SAMPLERS: dict[str, Sampler] = {
    "numpyro": side_by_side.sample_tables,
    "exact": _by_exact,
    "laplace": _by_laplace,
    "pymc": pymc_tables.sample_tables,
}


# What ranks say


@lru_cache(maxsize=8)
def _null(n_tables: int) -> Floats:
    """Return the statistic under uniformity, simulated: few tables fill few bins."""
    counts = np.random.default_rng(0).multinomial(n_tables, np.full(N_BINS, 1 / N_BINS), _NULL_SIZE)
    return np.sort(((counts - n_tables / N_BINS) ** 2).sum(axis=1) / (n_tables / N_BINS))


def uniformity_p_value(ranks: Ints, n_ranked: int) -> float:
    """Return the p value of uniform ranks, 20 bins; the smallest possible is 5e-6."""
    counts = np.bincount(ranks * N_BINS // (n_ranked + 1), minlength=N_BINS)
    expected = ranks.size / N_BINS
    statistic = float(np.sum((counts - expected) ** 2) / expected)
    null = _null(ranks.size)
    # A hair less: statistics that tie with the observed one must count.
    above = null.size - np.searchsorted(null, statistic * (1 - 1e-12))
    return float((1 + above) / (1 + null.size))


def n_outside(n_ranked: int) -> int:
    """Return how many ranks, of n_ranked + 1, lie in each tail: 5 of 200 leave 95 %."""
    return round((1 - CI_PROB) / 2 * (n_ranked + 1))


def in_interval(ranks: Ints, n_ranked: int) -> NDArray[np.bool_]:
    """Whether truths lie in the central interval, which holds exactly 95 % of 199 draws."""
    outside = n_outside(n_ranked)
    return (ranks >= outside) & (ranks < n_ranked + 1 - outside)


def tell(outcome: Outcome) -> dict[str, Any]:
    """Return what one study found, before other studies' tests are counted."""
    nominal = 1 - 2 * n_outside(outcome.n_ranked) / (outcome.n_ranked + 1)
    rows = []
    for quantity, ranks in outcome.ranks.items():
        row: dict[str, Any] = {
            "quantity": quantity,
            "mean_rank": round(float(ranks.mean()), 2),
            "p_value": uniformity_p_value(ranks, outcome.n_ranked),
        }
        if quantity not in OF_MANY:
            covered = in_interval(ranks, outcome.n_ranked)
            row["covered"] = float(covered.mean())
            row["coverage_p"] = float(binomtest(int(covered.sum()), covered.size, nominal).pvalue)
        rows.append(row)
    return {
        "tables": int(outcome.residual.size),
        "n_ranked": outcome.n_ranked,
        "divergent": outcome.divergent,
        "seconds": round(outcome.seconds, 1),
        "rank_z": float(outcome.residual.sum() / np.sqrt(outcome.variance.sum())),
        "quantities": rows,
    }


def judge(studies: Mapping[str, Any]) -> dict[str, Any]:
    """Return studies with Holm's p over all their quantities, and what fails."""
    p = [row["p_value"] for found in studies.values() for row in found["quantities"]]
    adjusted = iter(holm(p).tolist())
    intervals = sum("coverage_p" in r for s in studies.values() for r in s["quantities"])
    out = {}
    for name, found in studies.items():
        rows = [{**row, "holm": next(adjusted)} for row in found["quantities"]]
        for row in rows:
            row["ok"] = row["holm"] >= SBC_LEVEL
            if "coverage_p" in row:
                row["covers"] = row["coverage_p"] >= COVERAGE_LEVEL / intervals
        out[name] = {**found, "quantities": rows, "rank_ok": abs(found["rank_z"]) < 3.3}
    return out


def failing(name: str, outcome: Outcome) -> set[str]:
    """Return the quantities of one study whose ranks are not uniform."""
    return {r["quantity"] for r in judge({name: tell(outcome)})[name]["quantities"] if not r["ok"]}


# The report


def markdown(result: Mapping[str, Any]) -> str:
    """Return the committed report."""
    studies = judge(result["studies"])
    lines = ["# Every shipped model: simulation-based calibration and coverage", ""]
    lines += [f"{k}: {v}  " for k, v in result["versions"].items()]
    lines += [
        "",
        "Truths drawn from the priors. Ranks among 199 draws: 20 bins, simulated chi-square test, "
        f"fails where Holm's p over all rows of all studies is below {SBC_LEVEL}. Interval: from "
        "the fifth lowest draw to the fifth highest, which covers 0.95 if ranks are uniform; exact "
        f"binomial test, fails below {COVERAGE_LEVEL} / number of intervals. P(best): |Z| < 3.3.",
        "",
        "| study | engine | tables | smallest Holm | lowest coverage | highest | Z | divergent | |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name, found in studies.items():
        rows = found["quantities"]
        covered = [r["covered"] for r in rows if "covered" in r]
        fine = found["rank_ok"] and all(r["ok"] and r.get("covers", True) for r in rows)
        lines.append(
            f"| {name} | {STUDIES[name].engine} | {found['tables']} | "
            f"{min(r['holm'] for r in rows):.3f} | {min(covered):.3f} | {max(covered):.3f} | "
            f"{found['rank_z']:.2f} | {found['divergent']:.4f} | {'ok' if fine else 'FAILS'} |"
        )
    for name, found in studies.items():
        lines += [
            "",
            f"## {name}",
            "",
            "| quantity | mean rank | p | Holm | covered | exact p | |",
            "| --- | --- | --- | --- | --- | --- | --- |",
        ]
        for r in found["quantities"]:
            covered = f"{r['covered']:.3f} | {r['coverage_p']:.3f}" if "covered" in r else " | "
            fine = r["ok"] and r.get("covers", True)
            lines.append(
                f"| {r['quantity']} | {r['mean_rank']:.1f} | {r['p_value']:.4f} | "
                f"{r['holm']:.3f} | {covered} | {'ok' if fine else 'FAILS'} |"
            )
    missing = [name for name in STUDIES if name not in studies]
    if missing:
        lines += ["", f"Not run: {'; '.join(missing)}."]
    if result["broken"]:
        lines += ["", "## Engines broken on purpose", ""]
        for key, caught in result["broken"].items():
            by = ", ".join(caught["by"])
            lines.append(
                f"- {key} ({caught['tables']} tables): {'caught by ' + by if by else 'NOT CAUGHT'}"
            )
    return "\n".join(lines) + "\n"


def main(words: Iterable[str] | None = None) -> None:
    """Run from the command line; what other runs wrote of other studies is kept."""
    from tests.calibration.broken_families import BROKEN

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--studies", nargs="*", default=list(STUDIES), choices=list(STUDIES))
    parser.add_argument("--tables", type=int, default=300)
    parser.add_argument("--broken", nargs="*", default=list(BROKEN), choices=list(BROKEN))
    parser.add_argument("--first", type=int, default=0, help="seed of the first table")
    parser.add_argument("--pieces", type=Path, help="folder that keeps pieces, told together")
    parser.add_argument("--broken-tables", type=int, default=100)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    parser.add_argument("--name", default="family_sbc")
    arguments = parser.parse_args(None if words is None else list(words))
    path = arguments.out / f"{arguments.name}.json"
    before = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    packages = ("bayesjudge", "numpy", "scipy", "jax", "numpyro", "pymc", "nutpie")
    result: dict[str, Any] = {
        "versions": versions(*packages),
        "studies": before.get("studies", {}),
        "broken": before.get("broken", {}),
    }

    def save() -> None:
        known = result["studies"]
        result["studies"] = {name: known[name] for name in STUDIES if name in known}
        write(result, markdown(result), arguments.out, arguments.name)

    for name in arguments.studies:
        if arguments.pieces is None:
            outcome = run_study(name, arguments.tables, first=arguments.first)
        else:
            outcome = in_pieces(arguments.pieces, name, arguments.tables, arguments.first)
        found = tell(outcome)
        result["studies"][name] = found
        save()
        print(f"{name}: {found['seconds']} s", file=sys.stderr, flush=True)
    for name in arguments.broken:
        study, sampler = BROKEN[name]
        outcome = run_study(study, arguments.broken_tables, FULL, sampler)
        by = sorted(failing(study, outcome))
        result["broken"][f"{name}, {study}"] = {"tables": arguments.broken_tables, "by": by}
        save()
        print(f"{name}: {', '.join(by)}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
