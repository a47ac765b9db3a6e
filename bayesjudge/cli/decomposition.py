"""``anova``: read, decompose, print, write."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

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
from bayesjudge.cli.panels import PanelOptions
from bayesjudge.decomposing import Anova, anova
from bayesjudge.errors import BayesjudgeError, DataError
from bayesjudge.ranking import check_probability
from bayesjudge.report.files import Content, checked_folder
from bayesjudge.report.panel_report import PanelReport
from bayesjudge.report.results_folder import INDEX_FILES, folder_name, index_files
from bayesjudge.report.sentences import reading_sentences
from bayesjudge.report.variance_report import (
    ANOVA_FILES,
    anova_files,
    anova_object,
    anova_sections,
    anova_sentences,
)
from bayesjudge.scores import Reading, scan, split_by
from bayesjudge.spec import ModelSpec, read_model

if TYPE_CHECKING:
    from rich.console import RenderableType

# More rows by backbone than this are left to --json and --out.
_MAX_ROWS = 60


@dataclass(frozen=True)
class Job:
    """What to decompose, checked, and what to do with the answer."""

    spec: ModelSpec
    ci_prob: float
    panel: PanelOptions
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


def run_anova(
    sources: Sequence[str],
    reading: ReadingOptions,
    by: str | None,
    model: str,
    ci_prob: float,
    panel: PanelOptions,
    output: OutputOptions,
) -> None:
    """Decompose the variance of a table, or of each part of it."""
    check_probability(ci_prob, "ci_prob")
    panel.check()
    asked = [*arguments_of({"by": by, "model": model, "ci_prob": ci_prob}), *panel.arguments()]
    command = command_line("anova", *reading.arguments(), *asked, "--", *sources)
    job = Job(read_model(model), ci_prob, panel, output, command)
    if by is None:
        _run_table(sources, reading.keywords(), job)
    else:
        readings = split_by(one_or_many(sources), by, **reading.keywords())
        _run_groups(readings, by, named_together(sources), job)


def _run_table(sources: Sequence[str], keywords: Mapping[str, Any], job: Job) -> None:
    folder = checked_folder(job.output.out, ANOVA_FILES)
    with working("reading", job.shows_progress):
        reading = scan(one_or_many(sources), **keywords)
    say_notes(reading_sentences(reading.mapping, reading.unused_columns), job.quiet)
    say_problems([p for p in reading.problems if p.severity != "error"], job.quiet)
    found, panel = _decompose(reading, named_together(sources), job, None)
    extra = _extra(reading)
    if folder is not None:
        folder.write(anova_files(found, panel, job.command, extra))
        say_notes([f"results written to {folder.path}"], job.quiet)
    if job.output.json:
        print_json(anova_object(found, panel, extra))
    else:
        print_tables(*_tables(found, panel))


def _run_groups(readings: Mapping[str, Reading], by: str, source: str, job: Job) -> None:
    folders = {level: folder_name(level) for level in readings}
    names = [f"{folder}/{name}" for folder in folders.values() for name in ANOVA_FILES]
    folder = checked_folder(job.output.out, (*names, *INDEX_FILES))
    first, *others = readings.values()
    common = [p for p in first.problems if all(p in other.problems for other in others)]
    say_notes(reading_sentences(first.mapping, first.unused_columns), job.quiet)
    say_problems([p for p in common if p.severity != "error"], job.quiet)
    groups: dict[str, object] = {}
    index: list[dict[str, str]] = []
    tables: list[RenderableType] = []
    files: dict[str, Content] = {}
    for level, reading in readings.items():
        row = {"level": level, "folder": folders[level], "status": "done", "message": ""}
        own = [p for p in reading.problems if p not in common and p.severity != "error"]
        say_problems(own, job.quiet, level)
        try:
            found, panel = _decompose(reading, f"{source}, {by} {level}", job, level)
        except BayesjudgeError as error:
            say(f"[{level}] error: {error}")
            groups[level] = {
                "error": {"what": error.what, "where": error.where, "remedy": error.remedy}
            }
            index.append(row | {"folder": "", "status": "failed", "message": str(error)})
            continue
        title, extra = f"{by} {level}", _extra(reading)
        groups[level] = anova_object(found, panel, extra)
        tables += _tables(found, panel, title)
        index.append(row)
        for name, content in anova_files(found, panel, job.command, extra, title).items():
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


def _decompose(
    reading: Reading, source: str, job: Job, level: str | None
) -> tuple[Anova, PanelReport]:
    scores = reading.require(source)
    with working("decomposing", job.shows_progress):
        found = anova(scores, job.spec, ci_prob=job.ci_prob)
        panel = job.panel.analyse(found)
    say_notes(anova_sentences(found, panel), job.quiet, level)
    return found, panel


def _extra(reading: Reading) -> dict[str, Any]:
    return {"unused_columns": list(reading.unused_columns)}


# Columns for which eighty characters leave no room beside the names of terms.
_ELSEWHERE = ("sd", "df", "mean_square", "denominator", "coefficient_single")


def _tables(found: Anova, panel: PanelReport, title: str = "") -> list[RenderableType]:
    from bayesjudge.report.terminal import frame_table

    shown: list[RenderableType] = []
    left_out: dict[str, None] = {}
    for heading, table in anova_sections(found, panel):
        if "by backbone" in heading and len(table) > _MAX_ROWS:
            left_out[heading] = None
            continue
        narrow = table.drop(columns=[c for c in _ELSEWHERE if c in table])
        left_out.update({c: None for c in _ELSEWHERE if c in table})
        shown.append(frame_table(narrow, ". ".join(part for part in (title, heading) if part)))
    if left_out:
        shown.append(f"In --json and --out only: {', '.join(left_out)}")
    return shown
