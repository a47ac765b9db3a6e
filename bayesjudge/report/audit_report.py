"""What the reader of a language audit is told: JSON, tables, files."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from bayesjudge.auditing.answer import TITLES, Audit, Section
from bayesjudge.report import markdown
from bayesjudge.report.files import Content
from bayesjudge.report.json_text import to_json
from bayesjudge.report.results_folder import csv_text
from bayesjudge.report.sentences import reading_sentences
from bayesjudge.text import markdown as escaped
from bayesjudge.text import visible

if TYPE_CHECKING:
    import pandas as pd

TABLES: dict[str, tuple[str, ...]] = {
    "means": ("by_language", "by_judge", "by_cell"),
    "anova": ("tests",),
    "agreement": ("pearson", "extremes"),
    "resource": ("correlations", "by_class", "by_script", "languages"),
    "pairwise_accuracy": ("summary", "by_language", "differences"),
    "acceptance": ("gaps", "rates"),
    "offset_correction": ("corrections", "offsets"),
    "dispersion": ("tests", "by_language"),
    "interaction": ("shares",),
    "uncertainty": ("nested", "signs", "language_level", "within_language", "per_token"),
    "language_labels": ("labelled", "bought", "if_labelled"),
    "posterior": ("gaps", "rates", "thresholds", "shared"),
    "failures": ("summary", "by_language"),
    "human_agreement": ("by_judge", "by_language"),
}
"""Tables of each analysis, in the order they are told."""

AUDIT_FILES = (
    *(f"{key}_{name}.csv" for key, names in TABLES.items() for name in names),
    "result.json",
    "report.md",
)
CI_KIND = "t and eti"


def audit_object(found: Audit, extra: Mapping[str, Any]) -> dict[str, Any]:
    """Return what ``--json`` prints: one key an analysis, null where there is none.

    Parameters
    ----------
    found : Audit
    extra : mapping
        More for ``meta``.
    """
    from bayesjudge.version import version

    scores, settings = found.scores, found.settings
    by_key = {section.key: section for section in found.sections}
    return {
        **{key: _section_object(by_key.get(key)) for key in TITLES},
        "flags": list(found.flags),
        "not_computed": found.not_computed,
        "meta": {
            **asdict(settings),
            "target": settings.target_rate,
            "ci_kind": CI_KIND,
            "n_scores": len(scores),
            "n_excluded": scores.n_excluded,
            "languages": list(scores.levels("language")),
            "judges": list(scores.levels("judge")) if scores.has("judge") else [],
            "notes": list(found.notes),
            "problems": scores.problems,
            "source": scores.source,
            "mapping": dict(scores.mapping),
            "lower_is_better": scores.lower_is_better,
            "scale": scores.scale,
            "version": version(),
            "seconds": found.seconds,
            **extra,
        },
    }


def _section_object(section: Section | None) -> dict[str, Any] | None:
    if section is None:
        return None
    return {**_ordered(section), "notes": list(section.notes)}


def _ordered(section: Section) -> dict[str, pd.DataFrame]:
    return {name: section.tables[name] for name in TABLES[section.key] if name in section.tables}


def audit_headline(found: Audit) -> str:
    """Say in one line what was audited: scores, judges, languages, items, which answers."""
    scores = found.scores
    judges = len(scores.levels("judge")) if scores.has("judge") else 1
    items = (
        f"on {len(scores.levels('scenario')):,} scenarios"
        if scores.has("scenario")
        else "as cell means"
    )
    single = [note for note in found.notes if note.startswith("single scores: ")]
    return "; ".join(
        [
            f"{len(scores):,} scores of {judges} judge{'' if judges == 1 else 's'} in "
            f"{len(scores.levels('language'))} languages {items}",
            *single,
        ]
    )


def audit_sentences(found: Audit) -> list[str]:
    """Say what the numbers rest on: table, settings, and what could not be computed."""
    scores, settings = found.scores, found.settings
    excluded = f", {scores.n_excluded:,} rows excluded" if scores.n_excluded else ""
    judges = len(scores.levels("judge")) if scores.has("judge") else 1
    said = [
        f"{len(scores):,} scores in {len(scores.levels('language'))} languages by {judges} "
        f"judge{'' if judges == 1 else 's'}{excluded}",
        f"threshold: quantile {settings.quantile:g}; scenarios that set it: "
        f"{settings.held_out:.0%}; permutations {settings.permutations:,}; margin "
        f"{settings.margin:g}; target rate {settings.target_rate:g}; posterior "
        f"{settings.posterior}; seed {settings.seed}; intervals {settings.ci_prob:.0%}",
    ]
    if scores.lower_is_better:
        said.append("lower scores are better")
    said += found.notes
    said += [f"not computed: {keys}: {reason}" for reason, keys in _by_reason(found)]
    return said


def _by_reason(found: Audit) -> list[tuple[str, str]]:
    """Return each reason once, with the analyses that it stands in the way of."""
    reasons = dict.fromkeys(found.not_computed.values())
    return [
        (reason, ", ".join(key for key, why in found.not_computed.items() if why == reason))
        for reason in reasons
    ]


def audit_sections(found: Audit) -> list[tuple[str, dict[str, pd.DataFrame], Section]]:
    """Return heading, tables in order and section of each analysis."""
    return [(section.title, _ordered(section), section) for section in found.sections]


def audit_files(
    found: Audit, command: str, extra: Mapping[str, Any], title: str = ""
) -> dict[str, Content]:
    """Return the files of one audit, by name (of ``AUDIT_FILES``).

    Parameters
    ----------
    found : Audit
    command : str
        How to get the same again, for the report.
    extra : mapping
        As for :func:`audit_object`.
    title : str
        Of the report.
    """
    tables: dict[str, Content] = {
        f"{section.key}_{name}.csv": csv_text(table)
        for section in found.sections
        for name, table in _ordered(section).items()
    }
    return {
        **tables,
        "result.json": to_json(audit_object(found, extra), indent=2) + "\n",
        "report.md": _report(found, command, extra.get("unused_columns") or (), title),
    }


def _report(found: Audit, command: str, unused: Sequence[str], title: str) -> str:
    heading = f"Language audit: {title}" if title else "Language audit"
    parts = [f"# {escaped(heading)}\n"]
    if found.flags:
        parts += ["## What stands out\n", markdown.problems_table(found.flags)]
    for name, tables, section in audit_sections(found):
        parts.append(f"## {escaped(name)}\n")
        parts += [
            markdown.frame_table(table, key.replace("_", " "))
            for key, table in tables.items()
            if key != "if_labelled"
        ]
        parts.append(_bullets(section.notes))
    if found.not_computed:
        lines = [f"{keys}: {reason}" for reason, keys in _by_reason(found)]
        parts += ["## What this table cannot answer\n", _bullets(lines)]
    said = [*reading_sentences(found.scores.mapping, unused), *audit_sentences(found)]
    said = [line for line in said if not line.startswith("not computed: ")]
    parts += ["## What was read, left out and assumed\n", _bullets(said)]
    if found.scores.problems:
        parts += ["## What was found in the table\n"]
        parts.append(markdown.problems_table(found.scores.problems))
    longest = max((len(run) for run in re.findall("`+", command)), default=0)
    fence = "`" * max(3, longest + 1)
    parts += ["## How to reproduce\n", f"{fence}\n{visible(command)}\n{fence}\n"]
    return "\n".join(parts)


def _bullets(lines: Sequence[str]) -> str:
    return "\n".join(f"- {escaped(line)}" for line in lines) + "\n"
