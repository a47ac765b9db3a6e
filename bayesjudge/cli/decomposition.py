"""``anova``: read, decompose, print, write."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from bayesjudge.cli.answers import Answered, Part, Road
from bayesjudge.cli.groups import answer_tables
from bayesjudge.cli.messages import (
    say_notes,
    working,
)
from bayesjudge.cli.options import (
    ByOptions,
    OutputOptions,
    ReadingOptions,
    arguments_of,
    command_line,
)
from bayesjudge.cli.panels import PanelOptions
from bayesjudge.cli.tallies import answer_tally, takes_moments
from bayesjudge.decomposing import Anova, anova
from bayesjudge.ranking import check_probability
from bayesjudge.report.panel_report import PanelReport
from bayesjudge.report.variance_report import (
    ANOVA_FILES,
    anova_files,
    anova_object,
    anova_sections,
    anova_sentences,
)
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


def run_anova(
    sources: Sequence[str],
    reading: ReadingOptions,
    groups: ByOptions,
    model: str,
    ci_prob: float,
    panel: PanelOptions,
    output: OutputOptions,
) -> None:
    """Decompose the variance of a table, or of each part of it."""
    check_probability(ci_prob, "ci_prob")
    panel.check()
    words = [*reading.arguments(), *groups.arguments()]
    asked = [*arguments_of({"model": model, "ci_prob": ci_prob}), *panel.arguments()]
    command = command_line("anova", *words, *asked, "--", *sources)
    job = Job(read_model(model), ci_prob, panel, output, command)
    road = Road("anova", partial(_decompose, job=job), (command, job.spec), ANOVA_FILES, output)
    if takes_moments(sources, reading.moments, groups.by, panel.needs_rows()):
        answer_tally(sources, reading.keywords(), reading.moments is not None, road)
    else:
        answer_tables(sources, reading.keywords(), groups, road)


def _decompose(part: Part, job: Job) -> Answered:
    scores = part.reading.require(part.source)
    output = job.output
    with working("decomposing", output.shows_progress):
        found = anova(scores, job.spec, ci_prob=job.ci_prob)
        panel = job.panel.analyse(found)
    say_notes(anova_sentences(found, panel), output.quiet, part.level)
    return Answered(
        lambda: anova_object(found, panel, part.extra),
        lambda: _tables(found, panel, part.title),
        lambda: anova_files(found, panel, job.command, part.extra, part.title),
    )


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
