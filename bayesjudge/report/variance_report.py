"""What the reader of an analysis of variance is told: JSON, tables, files."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from bayesjudge.decomposing import Anova
from bayesjudge.report import markdown
from bayesjudge.report.files import Content
from bayesjudge.report.json_text import to_json
from bayesjudge.report.panel_report import (
    PANEL_FILES,
    PanelReport,
    panel_csv,
    panel_object,
    panel_sections,
    panel_sentences,
)
from bayesjudge.report.results_folder import csv_text
from bayesjudge.report.sentences import dropped_sentences, reading_sentences
from bayesjudge.text import markdown as escaped
from bayesjudge.text import visible

if TYPE_CHECKING:
    import pandas as pd

ANOVA_FILES = (
    "variance_components.csv",
    "f_tests.csv",
    "offsets.csv",
    "coefficients.csv",
    "means.csv",
    "expected_mean_squares.csv",
    "backbone_components.csv",
    "backbone_f_tests.csv",
    "backbone_offsets.csv",
    "backbone_coefficients.csv",
    *PANEL_FILES,
    "result.json",
    "report.md",
)

CI_KIND = "confidence"


def anova_object(found: Anova, panel: PanelReport, extra: Mapping[str, Any]) -> dict[str, Any]:
    """Return what ``--json`` prints.

    Parameters
    ----------
    found : Anova
    panel : PanelReport
    extra : mapping
        More for ``meta``.

    Returns
    -------
    dict
        ``components``, ``f_tests``, ``offsets``, ``coefficients`` and ``meta``; means,
        expected mean squares, the analyses by backbone and CyclicJudge's of the panel
        are in ``meta``.
    """
    from bayesjudge.version import version

    resolved, scores = found.resolved, found.scores
    return {
        "components": found.components,
        "f_tests": found.f_tests,
        "offsets": found.offsets,
        "coefficients": found.coefficients,
        "meta": {
            "model": resolved.spec.name,
            "engine": "anova",
            "family": resolved.spec.family,
            "ci_prob": found.ci_prob,
            "ci_kind": CI_KIND,
            "n_scores": len(scores),
            "n_excluded": scores.n_excluded,
            "dropped_terms": [lost.name for lost in resolved.dropped],
            "dropped_reasons": {lost.name: lost.reason for lost in resolved.dropped},
            "terms": [term.name for term in resolved.terms],
            "panel": list(resolved.panel),
            "random": list(resolved.random),
            "seconds": found.seconds,
            "lower_is_better": scores.lower_is_better,
            "notes": list(found.notes),
            "problems": scores.problems,
            "source": scores.source,
            "mapping": dict(scores.mapping),
            "version": version(),
            "means": found.means,
            "expected_mean_squares": found.expected_mean_squares,
            "by_backbone": {
                "components": found.backbone_components,
                "f_tests": found.backbone_f_tests,
                "offsets": found.backbone_offsets,
                "coefficients": found.backbone_coefficients,
            },
            "cyclicjudge": panel_object(panel),
            **extra,
        },
    }


def anova_sentences(found: Anova, panel: PanelReport) -> list[str]:
    """Say what the numbers rest on: table, model, what was left out or pooled."""
    scores, resolved = found.scores, found.resolved
    excluded = f", {scores.n_excluded:,} rows excluded" if scores.n_excluded else ""
    said = [f"{len(scores):,} scores of {len(scores.levels('backbone'))} backbones{excluded}"]
    said.append(f"model {resolved.spec.name}; terms {', '.join(t.name for t in resolved.terms)}")
    said += dropped_sentences(resolved.dropped)
    said += found.notes
    facets = ", ".join(resolved.panel)
    said.append(
        f"variances of terms of {facets} are those of the panel itself; standard errors are for "
        "this panel and new draws of the others"
    )
    return [*said, *panel_sentences(panel)]


def anova_sections(found: Anova, panel: PanelReport) -> list[tuple[str, pd.DataFrame]]:
    """Return the tables for people, with their headings, in order."""
    return [
        ("Backbone means", found.means),
        ("Variance components", found.components),
        ("F-tests", found.f_tests),
        ("Offsets", found.offsets.drop(columns="df")),
        ("What each component adds to the variance of a backbone's mean", found.coefficients),
        ("Variance components by backbone", found.backbone_components),
        ("F-tests by backbone", found.backbone_f_tests),
        *panel_sections(panel),
    ]


def anova_files(
    found: Anova, panel: PanelReport, command: str, extra: Mapping[str, Any], title: str = ""
) -> dict[str, Content]:
    """Return the files of one analysis, by name (``ANOVA_FILES``).

    Parameters
    ----------
    found : Anova
    panel : PanelReport
    command : str
        How to get the same again, for the report.
    extra : mapping
        As for :func:`anova_object`.
    title : str
        Of the report.
    """
    return {
        "variance_components.csv": csv_text(found.components),
        "f_tests.csv": csv_text(found.f_tests),
        "offsets.csv": csv_text(found.offsets),
        "coefficients.csv": csv_text(found.coefficients),
        "means.csv": csv_text(found.means),
        "expected_mean_squares.csv": csv_text(found.expected_mean_squares),
        "backbone_components.csv": csv_text(found.backbone_components),
        "backbone_f_tests.csv": csv_text(found.backbone_f_tests),
        "backbone_offsets.csv": csv_text(found.backbone_offsets),
        "backbone_coefficients.csv": csv_text(found.backbone_coefficients),
        **panel_csv(panel),
        "result.json": to_json(anova_object(found, panel, extra), indent=2) + "\n",
        "report.md": _report(found, panel, command, extra.get("unused_columns") or (), title),
    }


def _report(
    found: Anova, panel: PanelReport, command: str, unused: Sequence[str], title: str
) -> str:
    heading = f"Analysis of variance: {title}" if title else "Analysis of variance"
    parts = [f"# {escaped(heading)}\n"]
    for name, table in (
        *anova_sections(found, panel),
        ("Expected mean squares", found.expected_mean_squares),
    ):
        parts += [f"## {escaped(name)}\n", markdown.frame_table(table)]
    said = [*reading_sentences(found.scores.mapping, unused), *anova_sentences(found, panel)]
    lines = "\n".join(f"- {escaped(line)}" for line in said)
    parts += ["## What was read, left out and assumed\n", f"{lines}\n"]
    if found.scores.problems:
        parts += ["## What was found in the table\n"]
        parts.append(markdown.problems_table(found.scores.problems))
    longest = max((len(run) for run in re.findall("`+", command)), default=0)
    fence = "`" * max(3, longest + 1)
    parts += ["## How to reproduce\n", f"{fence}\n{visible(command)}\n{fence}\n"]
    return "\n".join(parts)
