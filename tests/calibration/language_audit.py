"""What the language audit finds where it is known: planted effects, and none at all.

Reward scores of 23 languages x 4 evaluators x 400 items. Evaluator j gives item i in
language l the score unit_j (b_jl + s_jl (a_i + u_ij + e_ijl)): an offset, a spread and
an item that languages reorder. Without planted effects b is 0 and s is 1, and languages
are exchangeable within an item.

Full size: ``uv run python -m tests.calibration.language_audit --tables 500``; with
``--parts planted`` that part alone, others as they stand in the committed result.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binomtest, norm

import bayesjudge as bj
from bayesjudge.auditing import favouring
from bayesjudge.scores.table import Facet, Scores
from tests.calibration.reporting import versions, write

type Floats = NDArray[np.float64]

LANGUAGES, EVALUATORS, ITEMS = 23, 4, 400
UNITS = np.array([1.0, 3.0, 8.0, 0.2])
SD_ITEM, SD_OWN, SD_LANGUAGE_ITEM = 0.9, 0.5, 0.55
PERMUTATIONS = 99
QUANTITIES = ("offset", "offset over evaluators", "spread", "language x item share")


@dataclass(frozen=True)
class Truth:
    """Planted offsets and spreads, (J, L) each; spreads have geometric mean 1."""

    offset: Floats
    spread: Floats


def planted(seed: int, spread: bool = True) -> Truth:
    """Draw offsets that evaluators partly share, and spreads."""
    rng = np.random.default_rng([17, seed])
    shared = 0.25 * rng.normal(size=LANGUAGES)
    offset = shared + 0.15 * rng.normal(size=(EVALUATORS, LANGUAGES))
    log = 0.12 * spread * rng.normal(size=(EVALUATORS, LANGUAGES))
    return Truth(offset, np.exp(log - log.mean(axis=1, keepdims=True)))


NOTHING = Truth(np.zeros((EVALUATORS, LANGUAGES)), np.ones((EVALUATORS, LANGUAGES)))


def draw(truth: Truth, seed: int, items: int = ITEMS) -> Scores:
    """Draw one table."""
    rng = np.random.default_rng([29, seed])
    item = SD_ITEM * rng.normal(size=items)
    own = SD_OWN * rng.normal(size=(EVALUATORS, 1, items))
    mixed = SD_LANGUAGE_ITEM * rng.normal(size=(EVALUATORS, LANGUAGES, items))
    latent = truth.offset[:, :, None] + truth.spread[:, :, None] * (item + own + mixed)
    score = UNITS[:, None, None] * latent
    codes = np.indices(score.shape).reshape(3, -1).astype(np.int64)
    names = (("judge", EVALUATORS), ("language", LANGUAGES), ("scenario", items))
    facets = tuple(
        Facet(
            name,
            "random" if name == "scenario" else "panel",
            tuple(f"{name}{i:03d}" for i in range(n)),
            code,
        )
        for (name, n), code in zip(names, codes, strict=True)
    )
    return Scores(score.reshape(-1), facets)


def shares(truth: Truth) -> Floats:
    """Return each evaluator's share of language x item about these languages' item means."""
    common = SD_ITEM**2 + SD_OWN**2
    s = truth.spread
    total = (s**2).mean(axis=1) * (common + SD_LANGUAGE_ITEM**2)
    # The item's mean over languages: mean(s) of what is common, and the rest over L.
    kept = s.mean(axis=1) ** 2 * common + (s**2).mean(axis=1) * SD_LANGUAGE_ITEM**2 / LANGUAGES
    return np.asarray(1 - kept / total)


def covered(truth: Truth, seed: int, items: int = ITEMS) -> dict[str, Floats]:
    """Return which intervals of one table hold the truth, by quantity."""
    found = bj.audit(
        draw(truth, seed, items),
        permutations=19,
        only=("means", "dispersion", "interaction"),
        random_seed=seed,
    )
    shape = (EVALUATORS, LANGUAGES)
    by_judge = found["means"]["by_judge"]
    low, high = (by_judge[k].to_numpy().reshape(shape) for k in ("ci_lower", "ci_upper"))
    offset = truth.offset - truth.offset.mean(axis=1, keepdims=True)
    true = UNITS[:, None] * offset
    panel = found["means"]["by_language"].sort_values("language")
    sd = np.sqrt(SD_ITEM**2 + SD_OWN**2 + SD_LANGUAGE_ITEM**2)
    # In units of an evaluator's sd over all its scores, languages' means included.
    unit = np.sqrt(truth.offset.var(axis=1) + (truth.spread**2).mean(axis=1) * sd**2)
    over = (offset / unit[:, None]).mean(axis=0)
    spread = found["dispersion"]["by_language"]
    a, b = (spread[k].to_numpy().reshape(shape) for k in ("ci_lower", "ci_upper"))
    share = found["interaction"]["shares"]
    return {
        "offset": (low <= true) & (true <= high),
        "offset over evaluators": (panel["ci_lower"].to_numpy() <= over)
        & (over <= panel["ci_upper"].to_numpy()),
        "spread": (a <= truth.spread) & (truth.spread <= b),
        "language x item share": (share["ci_lower"].to_numpy() <= shares(truth))
        & (shares(truth) <= share["ci_upper"].to_numpy()),
    }


NULL_FLAGS = ("language means", "offsets over all judges", "acceptance", "dispersion")


def nothing(seed: int, items: int = ITEMS) -> tuple[dict[str, bool], Floats, Floats]:
    """Audit a table without any effect of language.

    Returns
    -------
    dict of str to bool
        Which flags were raised, of all evaluators together.
    (J,) float array
        Excess gaps.
    (J,) float array
        Their p-values.
    """
    found = bj.audit(
        draw(NOTHING, seed, items),
        permutations=PERMUTATIONS,
        only=("means", "anova", "acceptance", "dispersion"),
        random_seed=seed,
    )
    raised = {flag.where for flag in found.flags}
    gaps = found["acceptance"]["gaps"]
    return (
        {name: name in raised for name in NULL_FLAGS},
        gaps["excess"].to_numpy(),
        gaps["p_value"].to_numpy(),
    )


def posterior_covered(truth: Truth, seed: int, posterior: str) -> dict[str, Floats]:
    """Return which intervals of one evaluator's acceptance and thresholds hold the truth."""
    scores = draw(truth, seed)
    rows = scores.codes("judge") == 0
    facets = tuple(
        Facet(f.name, f.role, f.levels, f.codes[rows]) for f in scores.facets if f.name != "judge"
    )
    found = bj.audit(
        Scores(scores.score[rows], facets),
        permutations=19,
        posterior=posterior,
        only=("acceptance", "posterior"),
        random_seed=seed,
    )
    sd = truth.spread[0] * np.sqrt(SD_ITEM**2 + SD_OWN**2 + SD_LANGUAGE_ITEM**2)
    threshold = float(found["acceptance"]["gaps"]["threshold"].iloc[0])
    rate = norm.cdf((truth.offset[0] - threshold) / sd)
    own = truth.offset[0]
    rates, limits = found["posterior"]["rates"], found["posterior"]["thresholds"]
    gap = found["posterior"]["gaps"]
    return {
        "rate": _inside(rates, rate),
        "gap": _inside(gap, np.array([np.ptp(rate)])),
        "threshold": _inside(limits, own),
    }


def _inside(table: Any, true: Floats) -> Floats:
    low, high = table["ci_lower"].to_numpy(), table["ci_upper"].to_numpy()
    return np.asarray((low <= true) & (true <= high))


def recovery(n: int, items: int = ITEMS) -> dict[str, Any]:
    """Return coverage over tables with planted effects."""
    parts = [covered(planted(seed), seed, items) for seed in range(n)]
    rows = [
        {
            "quantity": name,
            "first": float(np.mean([bool(np.ravel(part[name])[0]) for part in parts])),
            "mean": float(np.mean([part[name] for part in parts])),
            "worst": float(np.min(np.mean([part[name] for part in parts], axis=0))),
        }
        for name in QUANTITIES
    ]
    return {"tables": n, "items": items, "rows": rows}


def no_effect(n: int, items: int = ITEMS) -> dict[str, Any]:
    """Return how often flags are raised, and the excess gap, on tables without effects."""
    empty = [nothing(10_000 + seed, items) for seed in range(n)]
    excess = np.array([part[1].mean() for part in empty])
    rows = []
    for name in NULL_FLAGS:
        hits = sum(part[0][name] for part in empty)
        above = float(binomtest(hits, n, 0.05, "greater").pvalue)
        rows.append({"flag": name, "rate": hits / n, "p_above_nominal": above})
    return {
        "tables": n,
        "items": items,
        "permutations": PERMUTATIONS,
        "rows": rows,
        "excess": float(excess.mean()),
        "excess_se": float(excess.std(ddof=1) / np.sqrt(n)),
        "p_below_0.05": float(np.mean([part[2] < 0.05 for part in empty])),
    }


def posteriors(n: int) -> dict[str, Any]:
    """Return coverage of one evaluator's acceptance, gap and thresholds."""
    rows = []
    for kind in ("model", "items"):
        truths = [planted(seed, spread=kind == "items") for seed in range(n)]
        got = [posterior_covered(truth, seed, kind) for seed, truth in enumerate(truths)]
        rows += [
            {"draws": kind, "quantity": key, "mean": float(np.mean([g[key] for g in got]))}
            for key in ("rate", "gap", "threshold")
        ]
    return {"tables": n, "rows": rows}


FEW = (2, 5, 10, 20, 40)


def false_favours(n: int, items: int, languages: int = 4, posterior: str = "items") -> float:
    """Return the share of tables without effects in which a language is called favoured.

    Or disfavoured, each at 0.05 over languages, two judges and their mean; as it would be
    without the least number of scenarios.
    """
    hits = 0
    for seed in range(n):
        rng = np.random.default_rng([31, items, seed])
        noise = rng.normal(size=(2, languages, items)) + rng.normal(size=items)
        codes = np.indices(noise.shape).reshape(3, -1).astype(np.int64)
        names = (
            ("judge", "panel", 2),
            ("language", "panel", languages),
            ("scenario", "random", items),
        )
        facets = tuple(
            Facet(name, role, tuple(f"{name}{i:03d}" for i in range(size)), code)
            for (name, role, size), code in zip(names, codes, strict=True)
        )
        with patch.object(favouring, "FEW_SCENARIOS", 0):
            found = bj.audit(
                Scores(noise.reshape(-1), facets),
                permutations=19,
                posterior=posterior,
                only="posterior",
                random_seed=seed,
            )
        hits += any("favoured by" in flag.what for flag in found.flags)
    return hits / n


def few_scenarios(n: int) -> dict[str, Any]:
    """Return how often weighing few scenarios favours a language by chance alone."""
    rows = [
        {"languages": L, "scenarios": items, "rate": false_favours(n, items, L)}
        for L in (4, LANGUAGES)
        for items in FEW
    ]
    return {"tables": n, "rows": rows}


def markdown(result: Mapping[str, Any]) -> str:
    """Return the committed report, of the parts that were run."""
    lines = ["# The language audit where the truth is known", ""]
    lines += [f"{k}: {v}  " for k, v in result["versions"].items()]
    lines += [
        "",
        f"Reward scores of {LANGUAGES} languages x {EVALUATORS} evaluators x {ITEMS} items.",
    ]
    if found := result.get("planted"):
        lines += [
            "",
            f"## Planted offsets, spreads and interaction, {found['tables']} tables: share of 95 % "
            "intervals that hold the truth",
            "",
            "first: the first evaluator and language, one scalar a table; mean: over all of them; "
            "worst: the evaluator and language covered least.",
            "",
            *table(found["rows"], ("quantity", "first", "mean", "worst")),
        ]
    if found := result.get("nothing"):
        lines += [
            "",
            f"## Nothing planted, {found['tables']} tables: how often a flag is raised "
            "(nominal 0.05 a table)",
            "",
            *table(found["rows"], ("flag", "rate", "p_above_nominal")),
            "",
            f"{found['permutations']} permutations. Excess gap: mean {100 * found['excess']:.3f} "
            f"points (standard error {100 * found['excess_se']:.3f}); single evaluators with "
            f"p < 0.05: {found['p_below_0.05']:.4f}.{found.get('remark', '')}",
        ]
    if found := result.get("posterior"):
        lines += [
            "",
            f"## Posterior intervals of one evaluator, {found['tables']} tables",
            "",
            "model: offsets without unequal spreads, which it does not know; items: with them. The "
            "gap is of a maximum over languages, biased upward where languages differ little.",
            "",
            *table(found["rows"], ("draws", "quantity", "mean")),
        ]
    if found := result.get("few"):
        lines += [
            "",
            f"## Nothing planted, few scenarios weighed, {found['tables']} tables each: how often "
            "a language is called favoured or disfavoured (nominal 0.05 each a table)",
            "",
            *table(found["rows"], ("languages", "scenarios", "rate")),
        ]
    return "\n".join(lines) + "\n"


def table(rows: Sequence[Mapping[str, Any]], keys: Sequence[str]) -> list[str]:
    """Return rows as lines of Markdown."""
    out = ["| " + " | ".join(keys) + " |", "| " + " | ".join("---" for _ in keys) + " |"]
    for row in rows:
        cells = [f"{row[k]:.4f}" if isinstance(row[k], float) else str(row[k]) for k in keys]
        out.append("| " + " | ".join(cells) + " |")
    return out


PARTS: dict[str, Callable[[int], dict[str, Any]]] = {
    "planted": recovery,
    "nothing": no_effect,
    "posterior": posteriors,
    "few": few_scenarios,
}


def main() -> None:
    """Run from the command line and write the report beside the others."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=int, default=500)
    parser.add_argument("--posterior-tables", type=int, default=60)
    parser.add_argument("--parts", nargs="+", default=list(PARTS), choices=list(PARTS))
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    parser.add_argument("--name", default="language_audit")
    arguments = parser.parse_args()
    before = arguments.out / f"{arguments.name}.json"
    kept = json.loads(before.read_text(encoding="utf-8")) if before.exists() else {}
    result = {part: kept[part] for part in PARTS if part in kept}
    for part in arguments.parts:
        started = time.perf_counter()
        n = arguments.posterior_tables if part == "posterior" else arguments.tables
        result[part] = PARTS[part](n)
        result[part]["seconds"] = round(time.perf_counter() - started, 1)
        print(f"{part}: {result[part]['seconds']} s", file=sys.stderr, flush=True)
        told = {"versions": versions("bayesjudge", "numpy", "scipy"), **result}
        write(told, markdown(told), arguments.out, arguments.name)


if __name__ == "__main__":
    main()
