"""SEMJ on a simulated judge whose errors in different languages are partly independent.

Beside it its baselines, the oracle of several languages, K, s and tau varied, flips and
repairs, and the offsets of languages before and after refinement; the paper's figures stand
beside the simulation's where it prints any. The judge is made up: its assumptions are in
the report, and no figure of it says anything about a language model.

Full size: ``uv run python -m tests.calibration.semj_simulation --items 150``; with
``--parts offsets`` that part alone, the other as it stands in the committed result.
"""

from __future__ import annotations

import argparse
import asyncio
import csv
import json
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayesjudge.judges.baselines import judge_once, reflect_alone, vote_over_samples
from bayesjudge.judges.calls import Call, Reply
from bayesjudge.judges.items import Item
from bayesjudge.judges.multiple_choice import RIGHT, Question, balanced_items, truth_of
from bayesjudge.judges.prompts import worded_languages
from bayesjudge.judges.semj import (
    OTHERS,
    ROUNDS,
    TAU,
    SemjResult,
    Settings,
    VariantVerdict,
    majority,
    refine,
)
from bayesjudge.judges.semj_metrics import (
    Kappa,
    Share,
    accuracy,
    accuracy_gain,
    fleiss_kappa,
    kappa_gain,
    oracle_curve,
)
from bayesjudge.judges.semj_simulator import SimulatedJudge
from bayesjudge.judges.sweeps import (
    Point,
    bucketed,
    item_codes,
    own_verdicts,
    panel_verdicts,
    parallel_verdicts,
    replay,
    sweep_others,
    sweep_rounds,
    sweep_tau,
)
from bayesjudge.judges.verdict_table import language_offsets
from tests.calibration.reporting import versions, write

type Floats = NDArray[np.float64]

# As many as XCOPA has, two with a large share of the web.
OWN = ("el", "he", "hi", "id", "it", "ko", "ro", "tr", "uk", "vi", "zh")
KS = (0, 1, 2, 3, 4, 5, 8, 10)
SS = (0, 1, 2, 3, 4, 5)
TAUS = (0.3, 0.6, 0.8, 2.0)
LENIENCY = {"hi": 0.6, "he": 0.4, "it": -0.5, "zh": -0.3}
PARTS = ("study", "offsets")
GOLDEN = Path(__file__).parents[1] / "golden" / "semj"


def items_of(n: int, languages: Sequence[str], answers: str = "one") -> tuple[Item, ...]:
    """Return n made-up questions in each language, right or wrong options of them."""
    questions = [
        Question(f"q{at:04d}", f"Question {at}", ("one", "other"), at % 2, language)
        for at in range(n)
        for language in languages
    ]
    return balanced_items(questions, answers=answers)  # type: ignore[arg-type]


async def refined(items: Sequence[Item], settings: Settings, ask: Any) -> list[SemjResult]:
    """Judge items one after the other."""
    return [await refine(item, settings, ask) for item in items]


async def study(
    n: int,
    own: Sequence[str] = OWN,
    ks: Sequence[int] = KS,
    ss: Sequence[int] = SS,
    candidates: Sequence[str] | None = None,
    **judging: Any,
) -> dict[str, Any]:
    """Return everything but the offsets."""
    items = items_of(n, own)
    truth = np.array([truth_of(item) for item in items])
    code = item_codes(items)
    settings = Settings("simulated", candidates=tuple(candidates or worded_languages()))
    judge = SimulatedJudge({item.scenario: truth_of(item) for item in items}, **judging)

    recorded = await refined(items, replace(settings, tau=2.0, rounds=max(ss)), judge)
    first = [replay(one, TAU, 0) for one in recorded]
    semj = own_verdicts([replay(one, TAU, ROUNDS) for one in recorded])
    samples = [await vote_over_samples(item, settings, judge, max(ks) + 1) for item in items]
    heard = np.array(
        [[np.nan if (v := s.verdict.correct) is None else float(v) for s in one.verdicts]
         for one in samples]
    )  # fmt: skip
    reflected = [await reflect_alone(item, settings, judge) for item in items]
    methods = {
        "base": own_verdicts(first),
        "multilingual vote": panel_verdicts(first),
        "monolingual vote": np.array([_voted(one.verdicts) for one in samples]),
        "monolingual reflection": own_verdicts(reflected),
        "semj": semj,
    }
    rows = []
    for name, verdicts in methods.items():
        table = parallel_verdicts(items, verdicts)
        row = {
            "method": name,
            **_share(accuracy(verdicts, truth, code)),
            **_kappa(fleiss_kappa(table)),
        }
        # Votes over languages are the same in most of them: their kappa says nothing.
        if name == "multilingual vote":
            row |= {"kappa": None, "kappa_se": None}
        rows.append(row)
    gains = []
    for name in list(methods)[:-1]:
        gain = accuracy_gain(semj, methods[name], truth, code)
        more = kappa_gain(parallel_verdicts(items, semj), parallel_verdicts(items, methods[name]))
        gains.append({"semj less": name, **_share(gain), **_kappa(more)})
    by_k = await sweep_others(items, settings, ks, truth, judge)
    return {
        "items": n,
        "languages": list(own),
        "assumptions": list(judge.assumptions()),
        "methods": rows,
        "gains": gains,
        "k": _points(by_k),
        "s": _points(sweep_rounds(recorded, truth, ss, TAU)),
        "tau": _points(sweep_tau(recorded, truth, TAUS, ROUNDS)),
        "kappa_rise": _kappa_rise(recorded, items, ss),
        "oracle": await oracle(items, truth, settings, judge, heard, max(ks)),
        "buckets": [asdict(bucket) for bucket in bucketed(recorded, truth) if bucket.n],
    }


def _voted(verdicts: Sequence[VariantVerdict]) -> float:
    """Return the majority of as many samples as SEMJ has variants."""
    found = majority([one.verdict.correct for one in verdicts[: OTHERS + 1]])
    return np.nan if found is None else float(found)


def _kappa_rise(recorded: Sequence[SemjResult], items: Sequence[Item], ss: Sequence[int]) -> Any:
    """Return how far kappa is above the first judgment's after each s, paired by item."""
    tables = [
        parallel_verdicts(items, own_verdicts([replay(one, TAU, s) for one in recorded]))
        for s in ss
    ]
    return [
        {"s": s, **_kappa(kappa_gain(table, tables[0]))}
        for s, table in zip(ss[1:], tables[1:], strict=True)
    ]


async def oracle(
    items: Sequence[Item],
    truth: NDArray[np.bool_],
    settings: Settings,
    judge: SimulatedJudge,
    heard: Floats,
    most: int,
) -> list[dict[str, float]]:
    """Return oracle and vote over languages, and the oracle over samples of one, by K."""
    languages = settings.candidates
    own = np.array([languages.index(item.language or "") for item in items])
    known: dict[tuple[str, str], Floats] = {}
    for item in items:
        if (item.scenario, item.backbone) not in known:
            each = [
                await judge_once(replace(item, language=language), settings, judge)
                for language in languages
            ]
            known[item.scenario, item.backbone] = own_verdicts(each)
    table = np.array([known[item.scenario, item.backbone] for item in items])
    code = item_codes(items)
    several = oracle_curve(table, own, truth, code)
    one = oracle_curve(heard, np.zeros(len(items), dtype=np.int64), truth, code)
    return [
        {
            "k": k,
            "oracle": float(several.oracle[k]),
            "oracle_se": float(several.oracle_se[k]),
            "vote": float(several.vote[k]),
            "vote_se": float(several.vote_se[k]),
            "samples": float(one.oracle[k]),
            "samples_se": float(one.oracle_se[k]),
        }
        for k in range(most + 1)
    ]


def offsets(n: int, **fitting: Any) -> dict[str, Any]:
    """Return the offsets of five languages before and after refinement, by `verdict`."""
    judging = {"leniency": LENIENCY, "resource": 0.0, "skill": 0.9}

    async def ask(call: Call) -> Reply:
        truth = {call.key[0]: call.key[2] == RIGHT}
        return await SimulatedJudge(truth, **judging)(call)

    items = items_of(n, ("en",), "both")
    results = asyncio.run(refined(items, Settings("m", candidates=tuple(LENIENCY)), ask))
    found = language_offsets(results, "simulated", **fitting)
    assumed = SimulatedJudge({}, **judging).assumptions()
    return {"items": n, "assumptions": list(assumed), "rows": found.to_dict("records")}


def _share(one: Share) -> dict[str, Any]:
    return {"accuracy": one.value, "se": one.se}


def _kappa(one: Kappa) -> dict[str, Any]:
    return {"kappa": one.value, "kappa_se": one.se}


def _points(points: Sequence[Point]) -> list[dict[str, Any]]:
    return [
        {"setting": p.setting, **_share(p.accuracy), **_kappa(p.kappa), "rounds": p.rounds}
        for p in points
    ]


def printed(name: str) -> list[dict[str, str]]:
    """Return a table of the paper."""
    with (GOLDEN / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def markdown(result: Mapping[str, Any]) -> str:
    """Return the committed report; `offsets` may not have been run."""
    found = result["study"]
    lines = ["# SEMJ on a simulated judge", ""]
    lines += [f"{k}: {v}  " for k, v in result["versions"].items()]
    lines += [
        "",
        "What is assumed:",
        "",
        *(f"- {line}" for line in found["assumptions"]),
        "",
        f"{found['items']} items, half of their answers correct, each judged in "
        f"{len(found['languages'])} own languages ({', '.join(found['languages'])}); K = {OTHERS} "
        f"others at random, tau = {TAU}, s = {ROUNDS}. Accuracies and rates in percent; standard "
        "errors are over items, of differences paired by item. The paper's columns are XCOPA with "
        "Qwen-2.5-7B: only the shape can be compared.",
        "",
        "## Methods (the paper's table 1)",
        "",
    ]
    xcopa = {
        row["method"].replace("_", " ").replace(" judge", ""): row
        for row in printed("table1_main")
        if row["dataset"] == "xcopa"
    }
    lines += _table(
        ("method", "accuracy", "se", "kappa", "se", "paper: accuracy", "kappa"),
        [
            (
                row["method"],
                *_percent(row["accuracy"], row["se"]),
                *_plain(row["kappa"], row["kappa_se"]),
                xcopa[row["method"]]["accuracy"],
                xcopa[row["method"]]["fleiss_kappa"],
            )
            for row in found["methods"]
        ],
    )
    lines += ["", "SEMJ less each of them, paired:", ""]
    lines += _table(
        ("semj less", "accuracy", "se", "kappa", "se"),
        [
            (
                row["semj less"],
                *_percent(row["accuracy"], row["se"]),
                *(
                    ("", "")
                    if row["semj less"] == "multilingual vote"
                    else _plain(row["kappa"], row["kappa_se"])
                ),
            )
            for row in found["gains"]
        ],
    )
    for key, title, name, column in (
        ("k", "Other languages, K (table 5)", "table5_k", "k"),
        ("s", "Rounds, s (table 7)", "table7_rounds", "rounds"),
        ("tau", "Threshold, tau (table 9)", "table9_tau", "tau"),
    ):
        paper = {float(row[column]): row for row in printed(name)}
        lines += ["", f"## {title}", ""]
        if key == "k":
            lines += [
                "K = 0 is monolingual reflection. Up to K = 8 tau = 0.8 asks for unanimity; of "
                "eleven verdicts one may dissent, and judging ends sooner.",
                "",
            ]
        if key == "tau":
            lines += [
                "Above 1 no agreement ends the judging. The paper tuned tau on ten variants of an "
                "item, not five.",
                "",
            ]
        lines += _table(
            (key, "accuracy", "se", "kappa", "se", "rounds", "paper: accuracy", "kappa"),
            [
                (
                    f"{row['setting']:g}",
                    *_percent(row["accuracy"], row["se"]),
                    *_plain(row["kappa"], row["kappa_se"]),
                    f"{row['rounds']:.2f}",
                    paper.get(row["setting"], {}).get("accuracy", ""),
                    paper.get(row["setting"], {}).get("fleiss_kappa", ""),
                )
                for row in found[key]
            ],
        )
        if key == "s":
            lines += ["", "Kappa less that of s = 0, paired:", ""]
            lines += _table(
                ("s", "kappa", "se"),
                [(row["s"], *_plain(row["kappa"], row["kappa_se"])) for row in found["kappa_rise"]],
            )
    lines += [
        "",
        "## What K further verdicts could tell (figure 2)",
        "",
        "oracle: own or one of K others right; vote: their majority; samples: the same oracle over "
        "samples of the own language.",
        "",
        *_table(
            ("K", "oracle", "se", "vote", "se", "samples", "se"),
            [
                (
                    row["k"],
                    *_percent(row["oracle"], row["oracle_se"]),
                    *_percent(row["vote"], row["vote_se"]),
                    *_percent(row["samples"], row["samples_se"]),
                )
                for row in found["oracle"]
            ],
        ),
        "",
        "## Flips and repairs from the first judgment to the next round (table 3)",
        "",
    ]
    paper3 = {float(row["consistency_to"]): row for row in printed("table3_flip_repair")}
    lines += _table(
        ("agreement", "verdicts", "flips", "repairs", "spoils", "repairs of wrong",
         "paper: flips", "repairs"),
        [
            (
                f"({b['above']:g}, {b['up_to']:g}]",
                b["n"],
                *_percent(b["flip_rate"], b["repair_rate"], b["spoil_rate"]),
                *_percent(b["repaired_of_wrong"]),
                paper3.get(b["above"], {}).get("flip_rate_pct", ""),
                paper3.get(b["above"], {}).get("repair_rate_pct", ""),
            )
            for b in found["buckets"]
        ],
    )  # fmt: skip
    if told := result.get("offsets"):
        lines += [
            "",
            "## Offsets of languages before and after refinement",
            "",
            f"{told['items']} questions in English, a right and a wrong option each, with panels "
            "of four other languages; model `verdict`, log odds of being called correct, 95 % "
            "equal-tailed intervals.",
            "",
            *(f"- {line}" for line in told["assumptions"]),
            "",
            *_table(
                ("stage", "language", "estimate", "sd", "lower", "upper"),
                [
                    (
                        row["stage"],
                        row["language"],
                        *(f"{row[k]:.2f}" for k in ("estimate", "sd", "ci_lower", "ci_upper")),
                    )
                    for row in told["rows"]
                ],
            ),
        ]
    return "\n".join(lines) + "\n"


def _percent(*values: float) -> tuple[str, ...]:
    return tuple("" if np.isnan(v) else f"{100 * v:.2f}" for v in values)


def _plain(*values: float | None) -> tuple[str, ...]:
    return tuple("" if v is None else f"{v:.4f}" for v in values)


def _table(names: Sequence[str], rows: Sequence[Sequence[object]]) -> list[str]:
    out = ["| " + " | ".join(names) + " |", "| " + " | ".join("---" for _ in names) + " |"]
    return out + ["| " + " | ".join(map(str, row)) + " |" for row in rows]


def main() -> None:
    """Run from the command line and write the report beside the others."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=150)
    parser.add_argument("--offset-items", type=int, default=100)
    parser.add_argument("--parts", nargs="+", default=PARTS, choices=PARTS)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    arguments = parser.parse_args()
    before = arguments.out / "semj_simulation.json"
    result: dict[str, Any] = json.loads(before.read_text()) if before.exists() else {}
    kept = {part: result[part] for part in PARTS if part in result}
    result = {"versions": versions("bayesjudge", "numpy"), **kept}
    for part in arguments.parts:
        started = time.perf_counter()
        if part == "study":
            result[part] = asyncio.run(study(arguments.items))
        else:
            result[part] = offsets(arguments.offset_items, random_seed=1)
        print(f"{part}: {time.perf_counter() - started:.1f} s", file=sys.stderr, flush=True)
        write(result, markdown(result), arguments.out, "semj_simulation")


if __name__ == "__main__":
    main()
