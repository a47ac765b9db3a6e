"""What is told of CyclicJudge's analysis, beside the analysis of variance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bayesjudge.judge_panels import PanelAnalysis
from bayesjudge.panel_tables import STRATEGIES
from bayesjudge.report.files import Content
from bayesjudge.report.results_folder import csv_text

if TYPE_CHECKING:
    import pandas as pd

_FRAMES = (
    "judges",
    "means",
    "components",
    "self_preference",
    "contributions",
    "strategies",
    "comparison",
)
PANEL_FILES = tuple(f"panel_{name}.csv" for name in _FRAMES)

_WORDS = (
    "strategies at one budget of judge calls a scenario, scenarios' own part left out: "
    "all_judges score few generations; random_judge, one drawn for each of many; cyclic, judges "
    "take turns"
)


@dataclass(frozen=True, eq=False)
class PanelReport:
    """An analysis and how much of it people are shown.

    Attributes
    ----------
    found : PanelAnalysis or None
    reason : str
        Why there is none.
    panel, designs, strategies : bool
        Whether means and components of the panel, contributions, and strategies are
        shown beside judges and self-preference.
    """

    found: PanelAnalysis | None
    reason: str = ""
    panel: bool = False
    designs: bool = False
    strategies: bool = False


def panel_object(report: PanelReport) -> dict[str, Any] | None:
    """Return what ``--json`` has under ``meta.cyclicjudge``; None where there is no analysis."""
    found = report.found
    if found is None:
        return None
    return {
        "panel_size": found.panel_size,
        "judge_scenario": found.judge_scenario,
        **{name: getattr(found, name) for name in _FRAMES},
        "notes": list(found.notes),
    }


def panel_sentences(report: PanelReport) -> list[str]:
    """Say what the analysis rests on, or why there is none."""
    if report.found is None:
        return [f"no analysis of the panel of judges: {report.reason}"] if report.reason else []
    words = [_WORDS] if report.strategies else []
    return [f"CyclicJudge: {note}" for note in (*report.found.notes, *words)]


def panel_sections(report: PanelReport) -> list[tuple[str, pd.DataFrame]]:
    """Return the tables for people, with their headings, in order."""
    found = report.found
    if found is None:
        return []
    shown = [("Judges by backbone", found.judges)]
    if len(found.self_preference):
        shown.append(("What a judge gives its own beyond others", found.self_preference))
    if report.panel:
        shown.append((f"Means over the panel of {found.panel_size}", found.means))
        shown.append((f"Components in the panel of {found.panel_size}", found.components))
    if report.designs:
        shown.append(
            ("What each component adds to the variance of a mean, x 1000", _designs(found))
        )
    if report.strategies:
        at = ["backbone", "budget"]
        shown.append(("Strategies", found.strategies[[*at, *STRATEGIES]]))
        for name in STRATEGIES:
            columns = {f"pool_{name}": "predicted", f"subsampled_{name}": "found"}
            if columns.keys() <= set(found.strategies):
                drawn = found.strategies[[*at, *columns]].rename(columns=columns)
                shown.append((f"Subsamples of this table, {name}", drawn))
        shown.append(("Which strategy", found.comparison))
    return shown


def panel_csv(report: PanelReport) -> dict[str, Content]:
    """Return the files, by name (``PANEL_FILES``); without rows where there is no analysis."""
    if report.found is None:
        return dict.fromkeys(PANEL_FILES, "backbone\n")
    return {f"panel_{name}.csv": csv_text(getattr(report.found, name)) for name in _FRAMES}


def _designs(found: PanelAnalysis) -> pd.DataFrame:
    table = found.contributions
    shown = table.drop(columns=["n", "m", "k", "sd"])
    for name in shown.columns.drop("backbone"):
        shown[name] = 1000 * shown[name]
    sizes = zip(table["n"], table["m"], table["k"], strict=True)
    shown.insert(1, "n/m/k", [f"{n}/{m}/{k}" for n, m, k in sizes])
    return shown
