"""The files of results that ``--out`` writes."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from bayesjudge.report import markdown
from bayesjudge.report.answers import Answer, result_object
from bayesjudge.report.beside import anchored_table, beside_sentences, beside_tables
from bayesjudge.report.files import Content
from bayesjudge.report.json_text import to_json
from bayesjudge.report.page.names import PAGE
from bayesjudge.report.sentences import (
    assumption_sentences,
    question_sentences,
    question_title,
    reading_sentences,
)
from bayesjudge.text import markdown as escaped
from bayesjudge.text import visible

if TYPE_CHECKING:
    import pandas as pd

    from bayesjudge.report.page.contents import Contents

RESULT_FILES = (
    "leaderboard.csv",
    "rank_probabilities.csv",
    "pairwise.csv",
    "differences.csv",
    "variance_components.csv",
    "offsets.csv",
    "result.json",
    "report.md",
    PAGE,
    "posterior.nc",
)
BESIDE_FILES = (
    "human_anchored.csv",
    "prediction_powered.csv",
    "human_agreement.csv",
    "failure_rates.csv",
    "missing_bounds.csv",
)
"""Written where there are human labels, or failed scores."""
OWN_TITLES = {
    "judge_worth": "What a judge's score is worth (relative to the panel's mean)",
    "position_bias": "What the first place is worth between equals (0.5: no bias)",
}
"""Tables that only some models have, by key."""
OWN_FILES = tuple(f"{name}.csv" for name in OWN_TITLES)
SENSITIVITY_FILE = "sensitivity.csv"
INDEX_FILES = ("index.csv", "result.json")

_PLAIN = re.compile(r"[a-z0-9][a-z0-9_-]{0,39}", re.ASCII)
_DEVICE = re.compile(r"con|nul|aux|prn|com\d|lpt\d", re.ASCII)
_HASHED = re.compile(r".*-[0-9a-f]{8}", re.ASCII)


def folder_name(label: str) -> str:
    """Return a name for a label's folder, safe on any file system.

    Plain lower-case labels name themselves; others get what is plain of them
    and a hash, so that no two labels share a folder even where case is ignored.
    """
    if _PLAIN.fullmatch(label) and not _DEVICE.fullmatch(label) and not _HASHED.fullmatch(label):
        return label
    digest = hashlib.sha256(label.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    stem = re.sub(r"[^a-z0-9]+", "-", label.lower(), flags=re.ASCII).strip("-")[:32]
    return f"{stem.strip('-') or 'level'}-{digest}"


def files_of(found: Answer, contents: Contents) -> dict[str, Content]:
    """Return the files of one answer, by name (``RESULT_FILES``, some of ``TABLE_FILES``).

    Parameters
    ----------
    found : Answer
    contents : Contents
        Of its page, as ``report.page.gathering.gather`` returns them.
    """
    from bayesjudge.report.page import beside
    from bayesjudge.report.page.rendering import page

    fit = found.fit
    pairs: dict[str, Content] = {}
    if found.pairwise is not None and found.differences is not None:
        pairs["pairwise.csv"] = csv_text(found.pairwise, "backbone")
        pairs["differences.csv"] = csv_text(found.differences)
    if found.sensitivity is not None:
        pairs[SENSITIVITY_FILE] = csv_text(found.sensitivity)
    others = found.beside
    if others.anchored is not None and others.anchored.labels:
        pairs["human_anchored.csv"] = csv_text(anchored_table(others.anchored))
    if others.anchored is not None:
        pairs["prediction_powered.csv"] = csv_text(others.anchored.powered)
    if others.agreement is not None:
        pairs["human_agreement.csv"] = csv_text(others.agreement)
    if others.missing is not None:
        pairs["failure_rates.csv"] = csv_text(others.missing.rates)
        pairs["missing_bounds.csv"] = csv_text(others.missing.bounds)
    pairs |= {name: csv_text(table) for name, table in beside.page_tables(contents).items()}
    pairs |= {f"{name}.csv": csv_text(table) for name, table in found.own.items()}
    return {
        "leaderboard.csv": csv_text(found.leaderboard),
        "rank_probabilities.csv": csv_text(found.rank_probabilities, "backbone"),
        **pairs,
        "variance_components.csv": csv_text(found.components),
        "offsets.csv": csv_text(found.offsets),
        "result.json": to_json(result_object(found), indent=2) + "\n",
        "report.md": report_text(found, contents),
        PAGE: page(contents),
        "posterior.nc": fit.save,
    }


def index_files(
    by: str, rows: Sequence[Mapping[str, Any]], groups: Mapping[str, Any]
) -> dict[str, Content]:
    """Return the index over levels: which folder holds which, and which failed.

    Parameters
    ----------
    by : str
        Column that the table was split by.
    rows : sequence of mappings
        ``level``, ``folder``, ``status``, ``message``; the folder of a level that
        failed is empty.
    groups : mapping of str to object
        Level to its result object.
    """
    import pandas as pd

    names = ("level", "folder", "status", "message")
    table = pd.DataFrame({n: pd.Series([row[n] for row in rows], dtype=object) for n in names})
    return {
        "index.csv": csv_text(table),
        "result.json": to_json({"by": by, "groups": groups}, indent=2) + "\n",
    }


def csv_text(table: pd.DataFrame, index: str = "") -> str:
    """Return a table as CSV, labels byte for byte, nulls empty.

    ``index`` is the heading of the index; without it the index is left out.
    """
    return str(table.to_csv(index=bool(index), index_label=index or None, lineterminator="\n"))


def report_text(found: Answer, contents: Contents) -> str:
    """Return the results as one Markdown page."""
    from bayesjudge.report.page.beside import page_markdown

    fit = found.fit
    named = ". ".join(part for part in (contents.title, question_title(fit)) if part)
    heading = f"Leaderboard: {named}" if named else "Leaderboard"
    parts = [f"# {escaped(heading)}\n"]
    if found.alarm:
        parts.append(f"> **{escaped(found.alarm)}**\n")
    parts.append(
        markdown.leaderboard_table(
            found.leaderboard,
            best_set=found.best_set,
            ci_prob=found.question.ci_prob,
            pairwise=found.pairwise,
        )
    )
    parts += ["## Which question this answers\n", _bullets(question_sentences(found.about))]
    if found.differences is not None:
        parts += ["## Differences\n", markdown.frame_table(found.differences)]
    if found.findings:
        parts.append(markdown.problems_table(found.findings))
    if found.sensitivity is not None:
        parts += ["## P(best) with other priors\n", markdown.frame_table(found.sensitivity)]
    for name, table in found.own.items():
        parts += [f"## {escaped(OWN_TITLES[name])}\n", markdown.frame_table(table)]
    parts += ["## Variance components\n", markdown.frame_table(found.components)]
    for name, table in beside_tables(found.beside):
        parts += [f"## {escaped(name)}\n", markdown.frame_table(table)]
    said = beside_sentences(found.beside)
    if said:
        parts += ["## Human labels, reliability, failed scores\n", _bullets(said)]
    parts.append(page_markdown(contents))
    parts.append("## What was read, left out and assumed\n")
    unused = found.extra.get("unused_columns") or ()
    said = [*reading_sentences(fit.scores.mapping, unused), *assumption_sentences(found)]
    parts.append(_bullets(said))
    if fit.scores.problems:
        parts += ["## What was found in the table\n", markdown.problems_table(fit.scores.problems)]
    parts += ["## How to reproduce\n", _fenced(contents.command)]
    parts.append(f"bayesjudge {escaped(fit.metadata['version'])}\n")
    return "\n".join(parts)


def _bullets(lines: Sequence[str]) -> str:
    return "\n".join(f"- {escaped(line)}" for line in lines) + "\n"


def _fenced(command: str) -> str:
    longest = max((len(run) for run in re.findall("`+", command)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{visible(command)}\n{fence}\n"
