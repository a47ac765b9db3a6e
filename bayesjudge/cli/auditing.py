"""``audit``: read, audit, print, write."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from bayesjudge.auditing.answer import Audit, Settings
from bayesjudge.auditing.auditor import audit
from bayesjudge.auditing.reading import explained, language_keywords
from bayesjudge.cli.answers import Answered, Part, Road
from bayesjudge.cli.groups import answer_tables
from bayesjudge.cli.messages import (
    say_notes,
    say_problems,
    working,
)
from bayesjudge.cli.options import (
    ByOptions,
    OutputOptions,
    ReadingOptions,
    arguments_of,
    command_line,
    one_or_many,
)
from bayesjudge.errors import UsageError
from bayesjudge.report.audit_report import (
    AUDIT_FILES,
    audit_files,
    audit_headline,
    audit_object,
    audit_sections,
    audit_sentences,
)

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import RenderableType

_MAX_ROWS = 60
_MAX_COLUMNS = 9
_MAX_LANGUAGES = 120
# Columns for which eighty characters leave no room.
_ELSEWHERE = (
    "null_95", "n", "df1", "df2", "sd", "f_nll", "p_nll", "f_nll_clustered", "p_nll_clustered",
    "p_language", "n_scenarios", "slope", "slope_se", "items_left_out", "population_share",
    "offset_se", "mean_r2", "median_standardized", "null_after", "f_language", "unique_language",
    "unique_nll", "f_language_clustered", "gap_removed", "p_after", "positive", "negative",
    "neither", "p_unequal", "rank_correlation",
)  # fmt: skip


@dataclass(frozen=True)
class Job:
    """What is asked, checked, and what to do with the answer."""

    settings: Settings
    output: OutputOptions
    command: str
    source: str | list[str]
    format: str | None


def run_audit(
    sources: Sequence[str],
    reading: ReadingOptions,
    groups: ByOptions,
    asked: Mapping[str, Any],
    failures: Sequence[str] | None,
    output: OutputOptions,
) -> None:
    """Audit a table, or each part of it.

    Parameters
    ----------
    asked : mapping
        Settings by name; None leaves the default.
    failures : sequence of str or None
        Verdict tags that mean failure.
    """
    if reading.moments:
        raise UsageError(
            "an audit holds every score against thresholds, and moments hold none",
            "--moments",
            "Leave it out; rates of verdicts alone: bayesjudge.acceptance_rates(read_tally(...))",
        )
    given = {name: value for name, value in asked.items() if value is not None}
    given["only"] = tuple(given.get("only", ()))
    settings = Settings(failures=tuple(failures or ()), **given)
    words = [
        *groups.arguments(),
        *arguments_of({"failure": list(failures or ()), **asked}),
    ]
    command = command_line("audit", *reading.arguments(), *words, "--", *sources)
    keywords = language_keywords(reading.keywords())
    job = Job(settings, output, command, one_or_many(sources), keywords.get("format"))
    road = Road("audit", partial(_audit, job=job), (command,), AUDIT_FILES, output)
    answer_tables(sources, keywords, groups, road)


def _audit(part: Part, job: Job) -> Answered:
    scores = explained(part.rows, job.source, job.format).require(part.source)
    asked, output = job.settings, job.output
    with working("auditing", output.shows_progress):
        found = audit(
            scores,
            quantile=asked.quantile,
            held_out=asked.held_out,
            permutations=asked.permutations,
            margin=asked.margin,
            target=asked.target,
            failures=asked.failures,
            answers=asked.answers,
            posterior=asked.posterior,
            draws=asked.draws,
            random_seed=asked.seed,
            ci_prob=asked.ci_prob,
            only=asked.only,
        )
    say_notes(audit_sentences(found), output.quiet, part.level)
    say_problems(found.flags, output.quiet, part.level)
    return Answered(
        lambda: audit_object(found, part.extra),
        lambda: _tables(found, part.title),
        lambda: audit_files(found, job.command, part.extra, part.title),
    )


def _tables(found: Audit, title: str = "") -> list[RenderableType]:
    from bayesjudge.report.terminal import frame_table

    shown: list[RenderableType] = [audit_headline(found)]
    left_out: dict[str, None] = {}
    for heading, tables, section in audit_sections(found):
        for name, table in tables.items():
            if name == "differences":
                wide = _by_language(table)
                if len(wide) <= _MAX_LANGUAGES and len(wide.columns) <= _MAX_COLUMNS:
                    shown.append(frame_table(wide, f"{heading}: preferred less other answer"))
                else:
                    left_out[f"{section.key}.{name}"] = None
                continue
            narrow = table[[c for c in table if c not in _ELSEWHERE]]
            if "cell" in narrow and len(set(narrow["cell"]) - {""}) < 2:
                narrow = narrow.drop(columns="cell")
            too_much = len(narrow) > _MAX_ROWS or len(narrow.columns) > _MAX_COLUMNS
            if name not in section.brief or too_much:
                left_out[f"{section.key}.{name}"] = None
                continue
            what = heading if len(section.brief) < 2 else f"{heading}: {name.replace('_', ' ')}"
            shown.append(frame_table(narrow, ". ".join(part for part in (title, what) if part)))
    if left_out:
        shown.append(f"More, and all columns, in --json and --out: {', '.join(left_out)}")
    return shown


def _by_language(table: pd.DataFrame) -> pd.DataFrame:
    """Return a row a language and a column a judge, the least difference first."""
    wide = table.pivot_table(
        index="language", columns="judge", values="difference", dropna=False, observed=False
    )
    wide = wide[list(dict.fromkeys(table["judge"]))].dropna(how="all")
    order = wide.mean(axis=1).sort_values(kind="stable").index
    return wide.loc[order].reset_index()
