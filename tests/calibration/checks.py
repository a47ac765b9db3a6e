"""How often the checks of a gaussian model cry wolf, and how often they see one.

Tables drawn from the model that is fitted, truths from its priors: a warning is a
false alarm, and at most 5 % of tables may have one. Rounded scores of 1 to 10 with a
moderate spread are to be left alone as well. Then faults are planted one by one.

Full size, half an hour: ``uv run python -m tests.calibration.checks --tables 100``, or with
``--cases`` some of them; the report keeps what it has of the others.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import bayesjudge as bj
from bayesjudge.resolution import Resolved, resolve
from bayesjudge.scores.table import Scores
from bayesjudge.simulation import simulate_scores
from bayesjudge.spec import read_model
from tests.calibration.coverage import LOCATION, SHAPES, UNIT, design
from tests.calibration.reporting import versions, write

type Floats = NDArray[np.float64]
type Maker = Callable[[Resolved, np.random.Generator], Floats]

MOST_FALSE_ALARMS = 0.05

# Sds of tables with planted faults, in units of the residual's.
SD = {
    "backbone": 0.7,
    "judge": 0.4,
    "backbone:judge": 0.2,
    "scenario": 0.6,
    "backbone:scenario": 0.4,
    "residual": 1.0,
}


@dataclass(frozen=True)
class Case:
    """Tables of one kind.

    Attributes
    ----------
    make : function
        From a design and random numbers to scores.
    shape : str
        As the coverage study names it.
    wanted : str
        The check that is to find it; empty for tables with nothing wrong.
    model : str
    scale : (low, high) or None
    """

    make: Maker
    shape: str = "5x20x4"
    wanted: str = ""
    model: str = "crossed"
    scale: tuple[float, float] | None = None


def from_priors(resolved: Resolved, rng: np.random.Generator) -> Floats:
    """Draw truth and scores from the model itself."""
    return simulate_scores(resolved, rng)[0]


def moderate(resolved: Resolved, rng: np.random.Generator) -> tuple[Floats, dict[str, Any]]:
    """Draw scores of moderate effects, and their truth."""
    kept = {t.name for t in resolved.terms}
    sd = {name: value for name, value in SD.items() if name in kept or name == "residual"}
    others = {name: 0.0 for name in kept if name not in SD}
    return simulate_scores(resolved, rng, sd={**sd, **others})


def plain(
    resolved: Resolved, rng: np.random.Generator, center: float = 6.5, unit: float = 1.0
) -> tuple[Floats, Floats]:
    """Return predictors and residuals of moderate effects."""
    score, truth = moderate(resolved, rng)
    eta = np.zeros(score.size)
    for term in resolved.terms:
        eta += truth["effects"][term.variable].ravel()[term.codes]
    return center + unit * eta, unit * (score - truth["intercept"] - eta)


def rounded(resolved: Resolved, rng: np.random.Generator) -> Floats:
    """Whole scores of 1 to 10 in the middle of the scale."""
    eta, residual = plain(resolved, rng)
    return np.clip(np.round(eta + residual), 1, 10)


def likert(resolved: Resolved, rng: np.random.Generator) -> Floats:
    """Whole scores of 1 to 5."""
    eta, residual = plain(resolved, rng, center=3.0, unit=0.7)
    return np.clip(np.round(eta + residual), 1, 5)


def verdicts(resolved: Resolved, rng: np.random.Generator) -> Floats:
    """Pass or fail."""
    eta, residual = plain(resolved, rng, center=0.5)
    return (eta + residual > 0).astype(float)


def ceiling(resolved: Resolved, rng: np.random.Generator) -> Floats:
    """Whole scores of 1 to 10, the mean near the top."""
    eta, residual = plain(resolved, rng, center=9.0, unit=1.2)
    return np.clip(np.round(eta + residual), 1, 10)


def one_judge_wide(resolved: Resolved, rng: np.random.Generator) -> Floats:
    """The first judge's residuals twice as wide."""
    eta, residual = plain(resolved, rng)
    judge = resolved.term("judge").codes
    return eta + residual * np.where(judge == 0, 2.0, 1.0)


def one_judge_keen(resolved: Resolved, rng: np.random.Generator, factor: float = 2.0) -> Floats:
    """The first judge's scores move twice as far with what an answer is worth."""
    score, truth = moderate(resolved, rng)
    worth = np.zeros(score.size)
    for term in resolved.terms:
        if "judge" not in term.dims:
            worth += truth["effects"][term.variable].ravel()[term.codes]
    judge = resolved.term("judge").codes
    return 6.5 + score - truth["intercept"] + (factor - 1.0) * worth * (judge == 0)


def one_judge_keener(resolved: Resolved, rng: np.random.Generator) -> Floats:
    """The first judge's scores move half as far again with what an answer is worth."""
    return one_judge_keen(resolved, rng, 1.5)


def one_backbone_wide(resolved: Resolved, rng: np.random.Generator) -> Floats:
    """The first backbone's residuals twice as wide."""
    eta, residual = plain(resolved, rng)
    backbone = resolved.term("backbone").codes
    return eta + residual * np.where(backbone == 0, 2.0, 1.0)


def wide_below(resolved: Resolved, rng: np.random.Generator) -> Floats:
    """Residuals that narrow as predictors rise: a factor 2.3 from the 15 % to the 85 % point."""
    eta, residual = plain(resolved, rng)
    return eta + residual * np.exp(-0.4 * (eta - eta.mean()) / eta.std())


def far_off(resolved: Resolved, rng: np.random.Generator) -> Floats:
    """One score in fifty lost: seven residual sds below where it should be."""
    eta, residual = plain(resolved, rng)
    lost = rng.random(eta.size) < 0.02
    return eta + residual - 7.0 * lost


def student(resolved: Resolved, rng: np.random.Generator) -> Floats:
    """Student t residuals with three degrees of freedom."""
    eta, residual = plain(resolved, rng)
    return eta + residual / np.sqrt(rng.chisquare(3, eta.size) / 3)


NULL = {
    **{f"drawn from crossed, {name}": Case(from_priors, name) for name in SHAPES},
    "drawn from crossed_common, 5x20x4": Case(from_priors, model="crossed_common"),
    "whole scores of 1 to 10": Case(rounded, scale=(1.0, 10.0)),
}
FAULTS = {
    "verdicts": Case(verdicts, wanted="values"),
    "whole scores of 1 to 5 (a note)": Case(likert, wanted="values", scale=(1.0, 5.0)),
    "ceiling": Case(ceiling, wanted="ends of the scale", scale=(1.0, 10.0)),
    "one judge twice as wide": Case(one_judge_wide, wanted="spread by judge"),
    "one judge moves twice as far": Case(one_judge_keen, wanted="discrimination by judge"),
    "one judge moves half as far again": Case(one_judge_keener, wanted="discrimination by judge"),
    "one backbone twice as wide": Case(
        one_backbone_wide, wanted="spread by backbone", model="crossed_common"
    ),
    "wider below": Case(wide_below, wanted="spread by fitted value"),
    "one score in fifty far off": Case(far_off, wanted="heavy tails"),
    "Student t, three degrees": Case(student, wanted="heavy tails"),
}
CASES = {**NULL, **FAULTS}


def findings(case: Case, seed: int) -> list[str]:
    """Return the names of the checks that found something in one table, notes marked."""
    spec = read_model(case.model)
    bare = design(SHAPES[case.shape])
    resolved = resolve(spec, bare, UNIT, LOCATION)
    values = case.make(resolved, np.random.default_rng([17, seed]))
    scores = Scores(values, bare.facets, scale=case.scale)
    priors = {"unit": UNIT, "location": LOCATION} if case.make is from_priors else {}
    fit = bj.fit(scores, spec, draws=250, random_seed=seed, **priors)
    table = fit.checks()
    found = table[table["finding"] != ""]
    return [
        name if severity == "warning" else f"{name} (note)"
        for name, severity in zip(found["check"], found["severity"], strict=True)
    ]


def summarize(case: Case, found: list[list[str]]) -> dict[str, Any]:
    """Return how many tables had a warning, and how many the finding that is wanted."""
    counts = Counter(name for names in found for name in set(names))
    warned = sum(any(not name.endswith("(note)") for name in names) for names in found)
    wanted = sum(
        any(name.removesuffix(" (note)") == case.wanted for name in names) for names in found
    )
    return {
        "tables": len(found),
        "warned": warned / len(found),
        "wanted": wanted / len(found) if case.wanted else None,
        "found": dict(counts.most_common()),
    }


def study(n_tables: int, cases: Mapping[str, Case]) -> dict[str, Any]:
    """Run the study."""
    out = {}
    for name, case in cases.items():
        started = time.perf_counter()
        out[name] = summarize(case, [findings(case, seed) for seed in range(n_tables)])
        out[name]["seconds"] = round(time.perf_counter() - started, 1)
        print(f"{name}: {out[name]}", file=sys.stderr, flush=True)
    return out


def markdown(result: Mapping[str, Any]) -> str:
    """Return the committed report."""
    lines = ["# Checks of a gaussian model: false alarms, and faults found", ""]
    lines += [f"{k}: {v}  " for k, v in result["versions"].items()]
    lines += ["", "| nothing wrong | tables | with a warning | what it said |"]
    lines += ["| --- | --- | --- | --- |"]
    for name in NULL:
        if name in result["cases"]:
            found = result["cases"][name]
            lines.append(f"| {name} | {found['tables']} | {found['warned']:.3f} | {_told(found)} |")
    lines += ["", "| fault | tables | found | everything said |", "| --- | --- | --- | --- |"]
    for name in FAULTS:
        if name in result["cases"]:
            found = result["cases"][name]
            lines.append(f"| {name} | {found['tables']} | {found['wanted']:.3f} | {_told(found)} |")
    return "\n".join(lines) + "\n"


def _told(found: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {count}" for name, count in found["found"].items())


def main() -> None:
    """Run from the command line and write the report beside this file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=int, default=100, help="tables of each kind")
    parser.add_argument("--cases", nargs="+", default=list(CASES), choices=list(CASES))
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    parser.add_argument("--name", default="checks")
    arguments = parser.parse_args()
    path = arguments.out / f"{arguments.name}.json"
    cases = json.loads(path.read_text())["cases"] if path.is_file() else {}
    for name in arguments.cases:
        cases |= study(arguments.tables, {name: CASES[name]})
        result = {"versions": versions("bayesjudge", "numpy", "scipy"), "cases": cases}
        write(result, markdown(result), arguments.out, arguments.name)


if __name__ == "__main__":
    main()
