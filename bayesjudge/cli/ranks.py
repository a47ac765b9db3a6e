"""``rank`` and ``demo``: read, fit, answer, print, write."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

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
    SamplingOptions,
    arguments_of,
    command_line,
    named_together,
    one_or_many,
)
from bayesjudge.engines import Settings, choose_engine
from bayesjudge.errors import BayesjudgeError, DataError, UsageError
from bayesjudge.fitted import Fit, load
from bayesjudge.fitting import fit
from bayesjudge.report.answers import Answer, Question, answer, result_object
from bayesjudge.report.beside import anchored_table, beside_sentences
from bayesjudge.report.files import Content, OutputFolder, checked_folder
from bayesjudge.report.results_folder import (
    BESIDE_FILES,
    INDEX_FILES,
    RESULT_FILES,
    SENSITIVITY_FILE,
    folder_name,
    index_files,
    result_files,
)
from bayesjudge.report.sentences import (
    assumption_sentences,
    group_sentences,
    question_sentences,
    reading_sentences,
)
from bayesjudge.scores import Problem, Reading, Scores, read_scores, scan, split_by
from bayesjudge.spec import ModelSpec, override_prior, read_model

if TYPE_CHECKING:
    from rich.console import RenderableType

HDF5 = b"\x89HDF\r\n\x1a\n"


@dataclass(frozen=True)
class Job:
    """What to fit, checked, and what to do with the answer."""

    spec: ModelSpec
    engine: str
    settings: dict[str, Any]
    question: Question
    output: OutputOptions
    command: str

    @property
    def files(self) -> tuple[str, ...]:
        """Names of the files that an answer is written to."""
        more = (SENSITIVITY_FILE,) if self.question.sensitivity else ()
        return (*RESULT_FILES, *BESIDE_FILES, *more)

    @property
    def quiet(self) -> bool:
        """Whether notes are kept back."""
        return self.output.quiet

    @property
    def shows_progress(self) -> bool:
        """Whether a terminal is told that work goes on."""
        return not (self.output.quiet or self.output.json)


def run_rank(
    sources: Sequence[str],
    reading: ReadingOptions,
    by: str | None,
    sampling: SamplingOptions,
    question: Question,
    output: OutputOptions,
) -> None:
    """Rank a table, or each part of it, or a saved fit."""
    asked = {
        "ci_prob": question.ci_prob,
        "rope": question.rope,
        "finite_scenarios": question.finite,
        "scenario_pool": question.pool,
        "latent": question.latent,
        "sensitivity": question.sensitivity,
        **output.groups(),
    }
    words = [*reading.arguments(), *arguments_of({"by": by}), *sampling.arguments()]
    command = command_line("rank", *words, *arguments_of(asked), "--", *sources)
    source = one_or_many(sources)
    if isinstance(source, str) and is_saved_fit(source):
        if words:
            given = ", ".join(word for word in words if word.startswith("--"))
            raise UsageError(
                "a saved fit has its table and its model already",
                given,
                "Leave these options out, or name the table itself",
            )
        _rank_saved(source, _job(SamplingOptions(), question, output, command))
        return
    fits = [name for name in sources if is_saved_fit(name)]
    if fits:
        raise UsageError("a saved fit is ranked by itself", fits[0], "Name no other source")
    job = _job(sampling, question, output, command)
    keywords = reading.keywords(job.spec)
    if by is None:
        _rank_table(sources, keywords, job)
    else:
        _rank_groups(split_by(source, by, **keywords), by, named_together(sources), job)


def run_demo(generations: int, sampling: SamplingOptions, output: OutputOptions) -> None:
    """Rank the simulated table."""
    from bayesjudge.examples import DEMO_SOURCE, demo_table

    words = [*arguments_of({"generations": generations}), *sampling.arguments()]
    job = _job(sampling, Question(), output, command_line("demo", *words))
    folder = checked_folder(job.output.out, job.files)
    table = demo_table(generations, sampling.seed or 0)
    say_notes([DEMO_SOURCE], quiet=False)
    scores = replace(read_scores(table), source="demo (simulated)")
    found = _fit_and_answer(scores, job, (), extra={"simulated": True, "source_note": DEMO_SOURCE})
    _finish(found, job, folder, title="simulated, in the shape of MT-Bench")


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


def _job(sampling: SamplingOptions, question: Question, output: OutputOptions, command: str) -> Job:
    """Check model, priors, engine and settings before anything is read."""
    spec = read_model(sampling.model or "crossed")
    for text in sampling.prior or ():
        spec = override_prior(spec, text)
    engine = choose_engine(sampling.engine or "auto", spec.family, covariates=bool(spec.covariates))
    settings = sampling.settings()
    Settings(**settings)
    return Job(spec, engine, settings, question, output, command)


def _rank_table(sources: Sequence[str], keywords: Mapping[str, Any], job: Job) -> None:
    folder = checked_folder(job.output.out, job.files)
    with working("reading", job.shows_progress):
        found = scan(one_or_many(sources), **keywords)
    _say_reading(found, job)
    scores = found.require(named_together(sources))
    answered = _fit_and_answer(scores, job, found.unused_columns)
    _finish(answered, job, folder)


def _rank_saved(source: str, job: Job) -> None:
    folder = checked_folder(job.output.out, job.files)
    saved = load(source)
    if any(job.output.groups().values()):
        saved = saved.extend(**job.output.groups())
    say_notes(reading_sentences(saved.scores.mapping, ()), job.quiet)
    say_problems(saved.scores.problems, job.quiet)
    answered = _answer_aloud(saved, job, {"unused_columns": None, "saved_fit": source})
    _finish(answered, job, folder)


def _finish(found: Answer, job: Job, folder: OutputFolder | None, title: str = "") -> None:
    """Write and print one answer, then exit 1 where it did not converge."""
    if folder is not None:
        folder.write(result_files(found, job.command, title))
        say_notes(group_sentences(found.fit), job.quiet)
        say_notes([f"results written to {folder.path}"], job.quiet)
    if job.output.json:
        print_json(result_object(found))
    else:
        print_tables(_leaderboard(found, title), *_anchored(found), *_sensitivity(found))
    _exit_unless_converged([""] if not found.converged else [], job)


def _rank_groups(readings: Mapping[str, Reading], by: str, source: str, job: Job) -> None:
    folders = {level: folder_name(level) for level in readings}
    names = [f"{folder}/{name}" for folder in folders.values() for name in job.files]
    folder = checked_folder(job.output.out, [*names, *INDEX_FILES])
    common = _common_problems(readings)
    first = next(iter(readings.values()))
    say_notes(reading_sentences(first.mapping, first.unused_columns), job.quiet)
    say_problems(common, job.quiet)
    groups: dict[str, object] = {}
    index, tables, unconverged = [], [], []
    files: dict[str, Content] = {}
    for number, (level, found) in enumerate(readings.items(), start=1):
        row = {"level": level, "folder": folders[level], "status": "done", "message": ""}
        try:
            own = [p for p in found.problems if p not in common and p.severity != "error"]
            say_problems(own, job.quiet, level)
            scores = found.require(f"{source}, {by} {level}")
            step = f"{level} ({number} of {len(readings)})"
            answered = _fit_and_answer(scores, job, found.unused_columns, level=level, step=step)
        except BayesjudgeError as error:
            say(f"[{level}] error: {error}")
            groups[level] = {
                "error": {"what": error.what, "where": error.where, "remedy": error.remedy}
            }
            index.append(row | {"folder": "", "status": "failed", "message": str(error)})
            continue
        title = f"{by} {level}"
        groups[level] = result_object(answered)
        tables += [_leaderboard(answered, title), *_anchored(answered), *_sensitivity(answered)]
        if not answered.converged:
            unconverged.append(level)
            row |= {"status": "not converged", "message": answered.alarm}
        index.append(row)
        for name, content in result_files(answered, job.command, title).items():
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
    _exit_unless_converged(unconverged, job)


def _fit_and_answer(
    scores: Scores,
    job: Job,
    unused: tuple[str, ...],
    *,
    level: str | None = None,
    step: str = "",
    extra: dict[str, Any] | None = None,
) -> Answer:
    with working(f"fitting {step}".rstrip(), job.shows_progress):
        made = fit(
            scores,
            job.spec,
            job.engine,
            **job.settings,
            log_likelihood=job.output.log_likelihood,
            predictive=job.output.predictive,
        )
    return _answer_aloud(made, job, {"unused_columns": list(unused), **(extra or {})}, level)


def _answer_aloud(made: Fit, job: Job, extra: dict[str, Any], level: str | None = None) -> Answer:
    again = "fitting again with other priors" if job.question.sensitivity else "answering"
    with working(again, job.shows_progress):
        found = answer(made, job.question, extra)
    lines = [
        *assumption_sentences(found),
        *question_sentences(found.about),
        *beside_sentences(found.beside),
    ]
    say_notes(lines, job.quiet, level)
    say_problems(found.findings, job.quiet, level)
    return found


def _leaderboard(found: Answer, title: str = "") -> RenderableType:
    from bayesjudge.report.terminal import leaderboard_table

    return leaderboard_table(
        found.leaderboard,
        best_set=found.best_set,
        ci_prob=found.question.ci_prob,
        pairwise=found.pairwise,
        title=". ".join(part for part in (title, found.alarm) if part),
    )


def _anchored(found: Answer) -> list[RenderableType]:
    own = found.beside.anchored
    if own is None or not own.labels:
        return []
    from bayesjudge.report.terminal import frame_table

    title = f"Human-anchored means, {found.question.ci_prob:.0%} intervals"
    return [frame_table(anchored_table(own), title)]


def _sensitivity(found: Answer) -> list[RenderableType]:
    if found.sensitivity is None:
        return []
    from bayesjudge.report.terminal import frame_table

    return [frame_table(found.sensitivity, "P(best) with the priors of all scales x 1/2 and x 2")]


def _say_reading(found: Reading, job: Job) -> None:
    say_notes(reading_sentences(found.mapping, found.unused_columns), job.quiet)
    say_problems([p for p in found.problems if p.severity != "error"], job.quiet)


def _common_problems(readings: Mapping[str, Reading]) -> tuple[Problem, ...]:
    """Return what is said of every level: of the whole table, then."""
    first, *others = readings.values()
    return tuple(
        p
        for p in first.problems
        if p.severity != "error" and all(p in other.problems for other in others)
    )


def _exit_unless_converged(levels: list[str], job: Job) -> None:
    if not levels or job.output.allow_unconverged:
        return
    about = f" ({', '.join(levels)})" if levels != [""] else ""
    say(
        f"error: the fit did not converge{about}, so the leaderboard cannot be relied on. "
        "Raise --draws and --tune, or say --allow-unconverged"
    )
    raise typer.Exit(1)
