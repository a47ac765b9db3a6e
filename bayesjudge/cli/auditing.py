"""``audit``: read, audit, print, write."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bayesjudge.auditing.answer import Audit, Settings
from bayesjudge.auditing.auditor import audit
from bayesjudge.auditing.reading import language_keywords
from bayesjudge.cli.messages import (
    print_json,
    print_tables,
    say,
    say_notes,
    say_problems,
    working,
)
from bayesjudge.cli.options import (
    OutputOptions,
    ReadingOptions,
    arguments_of,
    command_line,
    named_together,
    one_or_many,
)
from bayesjudge.errors import BayesjudgeError, DataError
from bayesjudge.report.audit_report import (
    AUDIT_FILES,
    audit_files,
    audit_object,
    audit_sections,
    audit_sentences,
)
from bayesjudge.report.files import Content, checked_folder
from bayesjudge.report.results_folder import INDEX_FILES, folder_name, index_files
from bayesjudge.report.sentences import reading_sentences
from bayesjudge.scores import Problem, Reading, scan, split_by

if TYPE_CHECKING:
    from rich.console import RenderableType

_MAX_ROWS = 60
_MAX_COLUMNS = 9
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

    @property
    def quiet(self) -> bool:
        """Whether notes are kept back."""
        return self.output.quiet

    @property
    def shows_progress(self) -> bool:
        """Whether a terminal is told that work goes on."""
        return not (self.output.quiet or self.output.json)


def run_audit(
    sources: Sequence[str],
    reading: ReadingOptions,
    by: str | None,
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
    given = {name: value for name, value in asked.items() if value is not None}
    given["only"] = tuple(given.get("only", ()))
    settings = Settings(failures=tuple(failures or ()), **given)
    words = arguments_of({"by": by, "failure": list(failures or ()), **asked})
    command = command_line("audit", *reading.arguments(), *words, "--", *sources)
    job = Job(settings, output, command)
    keywords = language_keywords(reading.keywords())
    if by is None:
        _run_table(sources, keywords, job)
    else:
        readings = split_by(one_or_many(sources), by, **keywords)
        _run_groups(readings, by, named_together(sources), job)


def _run_table(sources: Sequence[str], keywords: Mapping[str, Any], job: Job) -> None:
    folder = checked_folder(job.output.out, AUDIT_FILES)
    with working("reading", job.shows_progress):
        reading = scan(one_or_many(sources), **keywords)
    say_notes(reading_sentences(reading.mapping, reading.unused_columns), job.quiet)
    say_problems(_worth_saying(reading), job.quiet)
    found = _audit(reading, named_together(sources), job, None)
    extra = {"unused_columns": list(reading.unused_columns)}
    if folder is not None:
        folder.write(audit_files(found, job.command, extra))
        say_notes([f"results written to {folder.path}"], job.quiet)
    if job.output.json:
        print_json(audit_object(found, extra))
    else:
        print_tables(*_tables(found))


def _run_groups(readings: Mapping[str, Reading], by: str, source: str, job: Job) -> None:
    folders = {level: folder_name(level) for level in readings}
    names = [f"{folder}/{name}" for folder in folders.values() for name in AUDIT_FILES]
    folder = checked_folder(job.output.out, (*names, *INDEX_FILES))
    first = next(iter(readings.values()))
    say_notes(reading_sentences(first.mapping, first.unused_columns), job.quiet)
    groups: dict[str, object] = {}
    index: list[dict[str, str]] = []
    tables: list[RenderableType] = []
    files: dict[str, Content] = {}
    for level, reading in readings.items():
        row = {"level": level, "folder": folders[level], "status": "done", "message": ""}
        say_problems(_worth_saying(reading), job.quiet, level)
        try:
            found = _audit(reading, f"{source}, {by} {level}", job, level)
        except BayesjudgeError as error:
            say(f"[{level}] error: {error}")
            groups[level] = {
                "error": {"what": error.what, "where": error.where, "remedy": error.remedy}
            }
            index.append(row | {"folder": "", "status": "failed", "message": str(error)})
            continue
        title, extra = f"{by} {level}", {"unused_columns": list(reading.unused_columns)}
        groups[level] = audit_object(found, extra)
        tables += _tables(found, title)
        index.append(row)
        for name, content in audit_files(found, job.command, extra, title).items():
            files[f"{folders[level]}/{name}"] = content
    if folder is not None:
        folder.write({**files, **index_files(by, index, groups)})
        say_notes([f"results written to {folder.path}, listed in index.csv"], job.quiet)
    if job.output.json:
        print_json({"by": by, "groups": groups})
    else:
        print_tables(*tables)
    failed = [row["level"] for row in index if row["status"] == "failed"]
    if failed:
        raise DataError(f"{len(failed)} of {len(readings)} groups failed: {', '.join(failed)}")


def _worth_saying(reading: Reading) -> tuple[Problem, ...]:
    return tuple(p for p in reading.problems if p.severity != "error")


def _audit(reading: Reading, source: str, job: Job, level: str | None) -> Audit:
    scores = reading.require(source)
    asked = job.settings
    with working("auditing", job.shows_progress):
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
    say_notes(audit_sentences(found), job.quiet, level)
    say_problems(found.flags, job.quiet, level)
    return found


def _tables(found: Audit, title: str = "") -> list[RenderableType]:
    from bayesjudge.report.terminal import frame_table

    shown: list[RenderableType] = []
    left_out: dict[str, None] = {}
    for heading, tables, section in audit_sections(found):
        for name, table in tables.items():
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
