"""``rank`` and ``demo``: read, fit, answer, print, write."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bayesjudge.cli.answers import Answered, Part, Road, finish
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
    SamplingOptions,
    arguments_of,
    command_line,
    one_or_many,
)
from bayesjudge.cli.tallies import answer_tally, takes_moments
from bayesjudge.engines import Settings, choose_engine
from bayesjudge.errors import UsageError
from bayesjudge.fitted import Fit, load
from bayesjudge.fitting import fit
from bayesjudge.report.answers import Answer, Question, answer, result_object
from bayesjudge.report.beside import beside_sentences, shown_tables
from bayesjudge.report.files import Content, checked_folder
from bayesjudge.report.page.names import FEED, FIGURE_FILES, PAGE, TABLE_FILES
from bayesjudge.report.results_folder import (
    BESIDE_FILES,
    INDEX_FILES,
    OWN_FILES,
    OWN_TITLES,
    RESULT_FILES,
    SENSITIVITY_FILE,
    files_of,
    index_files,
)
from bayesjudge.report.sentences import (
    assumption_sentences,
    group_sentences,
    question_sentences,
    question_title,
    reading_sentences,
)
from bayesjudge.scores import read_scores
from bayesjudge.scores.lines import Table
from bayesjudge.spec import ModelSpec, override_prior, read_model

if TYPE_CHECKING:
    from rich.console import RenderableType

    from bayesjudge.report.page.gathering import Heading

HDF5 = b"\x89HDF\r\n\x1a\n"


@dataclass(frozen=True)
class Presentation:
    """How results are shown in the folder.

    Attributes
    ----------
    command : str
        ``rank`` or ``report``.
    title : str
    own : tuple of (judge, backbone)
    figures : bool
        Each figure as PNG and SVG too.
    live : bool
        A feed, and on the page when it was made.
    words : tuple of str
        The options that say so.
    """

    command: str = "rank"
    title: str = ""
    own: tuple[tuple[str, str], ...] = ()
    figures: bool = False
    live: bool = False
    words: tuple[str, ...] = ()

    @property
    def files(self) -> tuple[str, ...]:
        """Names of the files that there may be beyond the results."""
        named = (*TABLE_FILES, *FIGURE_FILES) if self.figures else TABLE_FILES
        return (*named, FEED) if self.live else named

    def heading(self, command: str, title: str = "") -> Heading:
        """Return what a page says of itself."""
        from bayesjudge.report.page.gathering import Heading

        whole = ", ".join(part for part in (self.title, title) if part)
        return Heading(whole, command, self.own, _now() if self.live else "")


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


@dataclass(frozen=True)
class Job:
    """What to fit, checked, and what to do with the answer."""

    spec: ModelSpec
    engine: str
    settings: dict[str, Any]
    question: Question
    output: OutputOptions
    command: str
    shown: Presentation

    @property
    def files(self) -> tuple[str, ...]:
        """Names of the files that an answer is written to."""
        more = (SENSITIVITY_FILE,) if self.question.sensitivity else ()
        own = (*RESULT_FILES, *BESIDE_FILES, *OWN_FILES)
        return (*own, *more, *self.shown.files)

    @property
    def road(self) -> Road:
        """What is done with each table."""
        other = ", use --engine numpyro" if self.engine == "pymc" else ""
        distrust = (
            "the fit did not converge{about}, so the leaderboard cannot be relied on. "
            f"Raise --draws and --tune{other}, or say --allow-unconverged"
        )
        return Road(
            self.shown.command,
            partial(_rank, job=self),
            (self.command, self.spec),
            self.files,
            self.output,
            distrust,
            self.index,
            (*INDEX_FILES, PAGE, FEED) if self.shown.live else (*INDEX_FILES, PAGE),
        )

    def index(
        self, by: str, rows: Sequence[Mapping[str, str]], groups: Mapping[str, Any]
    ) -> dict[str, Content]:
        """Return the files over the levels of a column: a list, an object, a page, a feed."""
        from bayesjudge.report.page.beside import groups_feed
        from bayesjudge.report.page.grouped import groups_page

        files = index_files(by, rows, groups)
        files[PAGE] = groups_page(by, rows, groups, self.shown.title)
        if self.shown.live:
            files[FEED] = groups_feed(by, rows, _now())
        return files


def run_rank(
    sources: Sequence[str],
    reading: ReadingOptions,
    groups: ByOptions,
    sampling: SamplingOptions,
    question: Question,
    output: OutputOptions,
    shown: Presentation | None = None,
) -> None:
    """Rank a table, or each part of it, or a saved fit."""
    shown = shown or Presentation()
    asked = {
        "ci_prob": question.ci_prob,
        "rope": question.rope,
        "finite_scenarios": question.finite,
        "scenario_pool": question.pool,
        "latent": question.latent,
        "sensitivity": question.sensitivity,
        "reliability": question.reliability,
        **output.groups(),
    }
    words = [*reading.arguments(), *groups.arguments(), *sampling.arguments()]
    asked_words = [*arguments_of(asked), *shown.words]
    command = command_line(shown.command, *words, *asked_words, "--", *sources)
    source = one_or_many(sources)
    if isinstance(source, str) and is_saved_fit(source):
        if words:
            given = ", ".join(word for word in words if word.startswith("--"))
            raise UsageError(
                "a saved fit has its table and its model already",
                given,
                "Leave these options out, or name the table itself",
            )
        _rank_saved(source, _job(SamplingOptions(), question, output, command, shown))
        return
    fits = [name for name in sources if is_saved_fit(name)]
    if fits:
        raise UsageError("a saved fit is ranked by itself", fits[0], "Name no other source")
    job = _job(sampling, question, output, command, shown)
    keywords = reading.keywords(job.spec)
    if takes_moments(sources, reading.moments, groups.by, _needs_rows(job)):
        answer_tally(sources, keywords, reading.moments is not None, job.road)
    else:
        answer_tables(sources, keywords, groups, job.road)


def run_demo(generations: int, sampling: SamplingOptions, output: OutputOptions) -> None:
    """Rank the simulated table."""
    from bayesjudge.examples import DEMO_SOURCE, demo_table

    words = [*arguments_of({"generations": generations}), *sampling.arguments()]
    job = _job(sampling, Question(), output, command_line("demo", *words), Presentation())
    folder = checked_folder(job.output.out, job.files)
    table = demo_table(generations, sampling.seed or 0)
    say_notes([DEMO_SOURCE], quiet=False)
    scores = replace(read_scores(table), source="demo (simulated)")
    extra = {"unused_columns": [], "simulated": True, "source_note": DEMO_SOURCE}
    found = _fit_and_answer(scores, job, extra)
    finish(_leaving(found, job, "simulated, in the shape of MT-Bench"), job.road, folder)


def is_saved_fit(source: str) -> bool:
    """Whether a source is a netCDF file rather than a table."""
    path = Path(source)
    if path.suffix.lower() == ".nc":
        return True
    try:
        with path.open("rb") as file:
            return file.read(len(HDF5)) == HDF5
    except (OSError, ValueError):
        return False


def _job(
    sampling: SamplingOptions,
    question: Question,
    output: OutputOptions,
    command: str,
    shown: Presentation,
) -> Job:
    """Check model, priors, engine and settings before anything is read."""
    spec = read_model(sampling.model or "crossed")
    for text in sampling.prior or ():
        spec = override_prior(spec, text)
    engine = choose_engine(sampling.engine or "auto", spec.is_linear)
    settings = sampling.settings()
    needed = question.finite or question.pool is not None or shown.live
    if engine != "exact" and needed:
        # What an engine samples cannot be drawn afterwards.
        settings["nested_effects"] = True
    Settings(**settings)
    return Job(spec, engine, settings, question, output, command, shown)


def _needs_rows(job: Job) -> list[str]:
    """Return the options in use that need every score."""
    given = [*arguments_of(job.output.groups())]
    if job.engine != "exact":
        given.append(f"--engine {job.engine}, which model {job.spec.name} takes,")
    return [*given, *(["--reliability"] if job.question.reliability else [])]


def _rank(part: Part, job: Job) -> Answered:
    scores = part.reading.require(part.source)
    found = _fit_and_answer(scores, job, part.extra, level=part.level, step=part.step)
    return _leaving(found, job, part.title)


def _rank_saved(source: str, job: Job) -> None:
    folder = checked_folder(job.output.out, job.files)
    saved = load(source)
    if any(job.output.groups().values()):
        saved = saved.extend(**job.output.groups())
    say_notes(reading_sentences(saved.scores.mapping, ()), job.output.quiet)
    say_problems(saved.scores.problems, job.output.quiet)
    answered = _answer_aloud(saved, job, {"unused_columns": None, "saved_fit": source})
    finish(_leaving(answered, job), job.road, folder)


def _leaving(found: Answer, job: Job, title: str = "") -> Answered:
    return Answered(
        lambda: result_object(found),
        lambda: [
            _leaderboard(found, title),
            *_own(found),
            *_beside(found),
            *_sensitivity(found),
        ],
        lambda: _files(found, job, title),
        "" if found.converged else found.alarm,
        group_sentences(found.fit),
    )


def _files(found: Answer, job: Job, title: str) -> dict[str, Content]:
    """Return the files of an answer, with figures and a feed where these are wanted."""
    from bayesjudge.report.page.beside import feed
    from bayesjudge.report.page.gathering import gather

    contents = gather(found, job.shown.heading(job.command, title))
    files = files_of(found, contents)
    if job.shown.live:
        files[FEED] = feed(found, contents)
    if job.shown.figures:
        from bayesjudge.report.figures import figure_files

        files |= figure_files(contents)
    return files


def _fit_and_answer(
    scores: Table,
    job: Job,
    extra: dict[str, Any],
    *,
    level: str | None = None,
    step: str = "",
) -> Answer:
    with working(f"fitting {step}".rstrip(), job.output.shows_progress):
        made = fit(
            scores,
            job.spec,
            job.engine,
            **job.settings,
            log_likelihood=job.output.log_likelihood,
            predictive=job.output.predictive,
        )
    return _answer_aloud(made, job, extra, level)


def _answer_aloud(made: Fit, job: Job, extra: dict[str, Any], level: str | None = None) -> Answer:
    again = "fitting again with other priors" if job.question.sensitivity else "answering"
    with working(again, job.output.shows_progress):
        found = answer(made, job.question, extra)
    lines = [
        *assumption_sentences(found),
        *question_sentences(found.about),
        *beside_sentences(found.beside),
    ]
    say_notes(lines, job.output.quiet, level)
    say_problems(found.findings, job.output.quiet, level)
    return found


def _leaderboard(found: Answer, title: str = "") -> RenderableType:
    from bayesjudge.report.terminal import leaderboard_table

    return leaderboard_table(
        found.leaderboard,
        best_set=found.best_set,
        ci_prob=found.question.ci_prob,
        pairwise=found.pairwise,
        title=". ".join(part for part in (title, question_title(found.fit), found.alarm) if part),
    )


def _beside(found: Answer) -> list[RenderableType]:
    from bayesjudge.report.terminal import frame_table

    ends = f", {found.question.ci_prob:.0%} intervals"
    return [
        frame_table(table, heading + (ends if "ci_lower" in table else ""))
        for heading, table in shown_tables(found.beside)
    ]


def _own(found: Answer) -> list[RenderableType]:
    from bayesjudge.report.terminal import frame_table

    ends = f"{found.question.ci_prob:.0%} intervals"
    return [frame_table(table, f"{OWN_TITLES[name]}, {ends}") for name, table in found.own.items()]


def _sensitivity(found: Answer) -> list[RenderableType]:
    if found.sensitivity is None:
        return []
    from bayesjudge.report.terminal import frame_table

    return [frame_table(found.sensitivity, "P(best) with the priors of all scales x 1/2 and x 2")]
