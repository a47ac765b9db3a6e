"""What the reader of a plan, of next calls or of an assignment is told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from bayesjudge.planning.choosing import Plan
from bayesjudge.planning.sequencing import NextSteps
from bayesjudge.report import markdown
from bayesjudge.report.files import Content
from bayesjudge.report.json_text import to_json
from bayesjudge.report.results_folder import csv_text
from bayesjudge.text import markdown as escaped
from bayesjudge.text import visible

if TYPE_CHECKING:
    import pandas as pd

PLAN_FILES = ("options.csv", "result.json", "report.md")
NEXT_FILES = ("next_calls.csv", "result.json")

# What a table for people shows; the rest is in --json and --out.
_MOST_SHOWN = 8
_SHOWN = ("n", "m", "k", "assignment", "calls", "cost", "seconds", "expected_sd", "p_order")


def plan_object(found: Plan, extra: Mapping[str, Any]) -> dict[str, Any]:
    """Return what ``plan --json`` prints: ``options``, ``recommended`` and ``meta``.

    Parameters
    ----------
    found : Plan
    extra : mapping
        More for ``meta``.
    """
    rows = _rows(found.options)
    goal = found.goal
    return {
        "options": rows,
        "recommended": rows[found.recommended],
        "meta": {
            "reason": found.reason,
            "reached": found.reached,
            "target": goal.target,
            "pair": list(goal.pair),
            "sd": goal.sd,
            "probability": goal.probability,
            "gap": goal.gap,
            "budget": found.budget,
            "unit": found.unit,
            "scenario_pool": found.pool,
            "ci_prob": found.ci_prob,
            "ci_kind": "eti",
            "backbones": list(found.components.backbones),
            "judges": list(found.components.judges),
            "panel": list(found.components.panel),
            "components": {
                part.name: {"variance": part.variance.mean(axis=0), "by": part.by}
                for part in found.components.parts
            },
            "notes": list(found.notes),
            **_version(),
            **extra,
        },
    }


def next_object(found: NextSteps, extra: Mapping[str, Any]) -> dict[str, Any]:
    """Return what ``plan --next --json`` prints: the keys of a plan, and ``next_calls``."""
    return {
        "options": [],
        "recommended": None,
        "next_calls": _rows(found.calls),
        "meta": {
            "top": list(found.top),
            "n_pairs": found.n_pairs,
            "wrong_pairs_now": found.wrong_now,
            "wrong_pairs_after": found.wrong_after,
            "notes": list(found.notes),
            **_version(),
            **extra,
        },
    }


def _version() -> dict[str, str]:
    from bayesjudge.version import version

    return {"version": version()}


def _rows(table: pd.DataFrame) -> list[dict[str, Any]]:
    names = [str(name) for name in table.columns]
    columns = [table.iloc[:, at].tolist() for at in range(len(names))]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def shown_options(found: Plan) -> list[tuple[str, pd.DataFrame]]:
    """Return the tables for people, with their headings: the best options, and the frontier."""
    table = found.options
    names = [n for n in _SHOWN if not table[n].isna().all() and (n != "cost" or _priced(found))]
    best = table.iloc[: max(_MOST_SHOWN, found.recommended + 1)]
    frontier = table[table["frontier"]].sort_values("cost", kind="stable")
    coefficients = [n for n in ("generalizability", "dependability") if not table[n].isna().all()]
    shown = [("Options", _marked(best, names))]
    if len(frontier) > 1:
        heading = "Frontier: no design of this cost or less has a smaller error"
        shown.append((heading, frontier[[*names, *coefficients]].reset_index(drop=True)))
    return shown


def _marked(table: pd.DataFrame, names: Sequence[str]) -> pd.DataFrame:
    import pandas as pd

    mark = ["->" if chosen else "" for chosen in table["recommended"]]
    marked = pd.DataFrame({"": pd.Series(mark, dtype=object)})
    part = table[[*names]].reset_index(drop=True)
    if not table["ci_lower"].isna().all():
        at = list(part.columns).index("expected_sd")
        part.insert(at + 1, "ci_lower", table["ci_lower"].to_numpy())
        part.insert(at + 2, "ci_upper", table["ci_upper"].to_numpy())
    return pd.concat([marked, part], axis=1)


def _priced(found: Plan) -> bool:
    return found.unit == "money" or bool((found.options["cost"] != found.options["calls"]).any())


def plan_files(found: Plan, command: str, extra: Mapping[str, Any]) -> dict[str, Content]:
    """Return the files of a plan, by name (``PLAN_FILES``)."""
    flat = found.options.copy()
    for name in ("judges", "calls_per_judge"):
        flat[name] = [to_json(value) for value in flat[name]]
    parts = ["# Plan\n", f"{escaped(found.reason)}.\n"]
    for heading, table in shown_options(found):
        parts += [f"## {escaped(heading)}\n", markdown.frame_table(table)]
    parts += ["## What the numbers rest on\n"]
    parts.append("\n".join(f"- {escaped(note)}" for note in found.notes) + "\n")
    parts += ["## How to reproduce\n", f"    {visible(command)}\n"]
    return {
        "options.csv": csv_text(flat),
        "result.json": to_json(plan_object(found, extra), indent=2) + "\n",
        "report.md": "\n".join(parts),
    }


def next_files(found: NextSteps, extra: Mapping[str, Any]) -> dict[str, Content]:
    """Return the files of next calls, by name (``NEXT_FILES``)."""
    return {
        "next_calls.csv": csv_text(found.calls),
        "result.json": to_json(next_object(found, extra), indent=2) + "\n",
    }


def next_sentences(found: NextSteps) -> list[str]:
    """Say what the next calls are for, and what they are expected to bring."""
    return [
        f"order that counts: {', '.join(found.top)} among themselves and against all others",
        f"expected pairs in the wrong order: {found.wrong_now:.3f} of {found.n_pairs} now, "
        f"{found.wrong_after:.3f} after these {len(found.calls)} calls",
        *found.notes,
    ]
