"""The Markdown page of one run."""

from __future__ import annotations

import datetime
import json
import os
import platform
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

type Object = Mapping[str, Any]


def circumstances(load_before: float) -> dict[str, Any]:
    """Return when and where a side-by-side run was made, under what load."""
    return {
        "made": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "cpus": len(os.sched_getaffinity(0)),
        "load": [load_before, os.getloadavg()[0]],
        "version": version("bayesjudge"),
        "python": platform.python_version(),
    }


def told(found: Object) -> str:
    """Return :func:`circumstances` in a sentence."""
    return (
        f"{found['made']}; {found['cpus']} CPUs, load {found['load'][0]:.1f} to "
        f"{found['load'][1]:.1f} (of the machine, this included); bayesjudge {found['version']}, "
        f"Python {found['python']}."
    )


def write(found: Object, page: str, out: Path, name: str) -> None:
    """Write a run as JSON and its page, and print the page."""
    out.mkdir(parents=True, exist_ok=True)
    (out / f"{name}.json").write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    (out / f"{name}.md").write_text(page, encoding="utf-8")
    print(page)


def markdown(run: Object) -> str:
    """Return the page: what ran where, then a table a question."""
    machine, settings = run["machine"], run["settings"]
    parts = [
        "# Benchmarks",
        f"{run['made']}; {machine['cpu']}, {settings['threads']} of {machine['cpus']} CPUs, "
        f"{machine['memory_gb']:.0f} GB; "
        + ", ".join(f"{name} {value}" for name, value in run["versions"].items())
        + ".",
    ]
    if run["quick"]:
        parts.append("**Scaled down (`--quick`): these numbers say nothing but that it runs.**")
    parts += [
        f"Whole processes: median of {settings['repeats']}, in turn with lme4's. Effective sizes "
        "are the least over scales, panel effects and backbone means; for weighted draws also of "
        "what the weights leave. NumPyro samples every effect, in both parameterizations; the "
        "better one counts, XLA's compile time taken off. Of verdicts and categories (W7) NumPyro "
        "is plain, one likelihood term a score; our ESS/s is that of the whole `rank`, compiling "
        "included.",
        _table(_HEAD, [_workload_row(w) for w in run["workloads"]]),
    ]
    absolute = [row for w in run["workloads"] for row in _peer_rows(w)]
    if absolute:
        parts += ["## NumPyro, absolute", _table(_PEER_HEAD, absolute)]
    if run["workloads"]:
        parts += ["## Memory", _table(_MEMORY_HEAD, [_memory_row(w) for w in run["workloads"]])]
    if run["scaling"]:
        parts += ["## W1's model with more generations", _scaling(run["scaling"])]
    skipped = [line for w in run["workloads"] for line in _skips(w)]
    if skipped:
        parts += ["## Skipped", "\n".join(f"- {line}" for line in skipped)]
    return "\n\n".join(parts) + "\n"


_HEAD = (
    "",
    "rows",
    "method",
    "`rank`, s",
    "lme4 whole, s",
    "ratio",
    "lme4 fit, s",
    "our fit, s",
    "min ESS",
    "ESS/s",
    "NumPyro ESS/s",
    "times",
    "converged",
)
_PEER_HEAD = ("", "parameterization", "draws", "steps/draw", "warm, s", "min ESS", "ESS/s", "r_hat")
_MEMORY_HEAD = ("", "table, MB", "peak, MB", "imports, MB", "above imports, MB", "limit, MB")


def _workload_row(w: Object) -> tuple[str, ...]:
    ours, lme4, numpyro, ratios = w["ours"], w["lme4"], w["numpyro"], w["ratios"]
    return (
        w["name"],
        _number(w["rows"]),
        str(ours.get("method", "–")),
        _number(ours.get("whole_median_s")),
        _number(lme4.get("whole_median_s")),
        _number(ratios["whole_process"]),
        _number(lme4.get("fit_median_s")),
        _number(ours.get("fit_median_s")),
        _number(ours.get("ess_min")),
        _number(ours.get("ess_per_s")),
        _number(numpyro.get("ess_per_s")),
        _number(ratios["ess_per_second"]),
        {True: "yes", False: "no"}.get(ours.get("converged"), "–"),
    )


def _peer_rows(w: Object) -> list[tuple[str, ...]]:
    return [
        (
            w["name"],
            name,
            f"{v['chains']} x {v['draws']}",
            _number(v["steps_per_draw"]),
            _number(v["warm_s"]),
            _number(v["ess_min"]),
            _number(v["ess_per_s"]),
            _number(v["r_hat_max"]),
        )
        for name, v in w["numpyro"].get("variants", {}).items()
        if "ess_per_s" in v
    ]


def _memory_row(w: Object) -> tuple[str, ...]:
    names = ("table_mb", "peak_mb", "imports_mb", "above_imports_mb", "limit_mb")
    return (w["name"], *(_number(w["ours"].get(name)) for name in names))


def _scaling(rows: Sequence[Object] | Object) -> str:
    if isinstance(rows, Mapping):
        return f"Skipped: {rows['skipped']}"
    names = ("rows", "pass_s", "sampling_s", "ess_min")
    first = rows[0]["sampling_s"]
    return _table(
        ("rows", "the pass, s", "sampling, s", "min ESS", "sampling / first", "method"),
        [
            (*(_number(r[n]) for n in names), _number(r["sampling_s"] / first), r["method"])
            for r in rows
        ],
    )


def _skips(w: Object) -> list[str]:
    found = []
    for who in ("ours", "lme4", "numpyro"):
        if "skipped" in w[who]:
            found.append(f"{w['name']}, {who}: {w[who]['skipped']}")
    for name, variant in w["numpyro"].get("variants", {}).items():
        if "skipped" in variant:
            found.append(f"{w['name']}, NumPyro {name}: {variant['skipped']}")
    return found


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _number(value: float | None) -> str:
    if value is None:
        return "–"
    if isinstance(value, int) or abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}"
