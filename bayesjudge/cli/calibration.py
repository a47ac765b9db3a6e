"""``calibrate``: read, adjust, say what that is worth, print, write."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import typer

from bayesjudge.calibration.asking import Asked
from bayesjudge.calibration.calibrating import Calibration, calibrate
from bayesjudge.calibration.posterior import MODEL, check_model
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
from bayesjudge.report.calibration_report import (
    CALIBRATION_FILES,
    alarm,
    calibration_files,
    calibration_object,
    calibration_sections,
    calibration_sentences,
)
from bayesjudge.report.files import Content, checked_folder
from bayesjudge.report.results_folder import INDEX_FILES, folder_name, index_files
from bayesjudge.report.sentences import reading_sentences
from bayesjudge.scores import Reading, scan, split_by
from bayesjudge.spec import ModelSpec

if TYPE_CHECKING:
    from rich.console import RenderableType

# Longer tables are left to --json and --out.
_MAX_ROWS = 60
# Columns for which eighty characters leave no room.
_ELSEWHERE = (
    "df", "bound_range", "bound_proxy", "posterior_sd", "difference", "n_tasks", "extrapolated",
    "difference_most", "difference_least", "reversed_t", "p_bootstrap", "reversed_holm",
    "before_lower", "before_upper", "after_lower", "after_upper",
)  # fmt: skip
_SHORT = {
    "posterior_lower": "ci_lower",
    "posterior_upper": "ci_upper",
    "difference_in_se": "apart in se",
    "p_posterior_rope": "beyond rope",
}


@dataclass(frozen=True)
class Job:
    """What to calibrate, checked, and what to do with the answer."""

    asked: Asked
    spec: ModelSpec | None
    engine: str
    settings: Mapping[str, Any]
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


def run_calibrate(
    sources: Sequence[str],
    reading: ReadingOptions,
    by: str | None,
    asked: Asked,
    closed_form: bool,
    sampling: SamplingOptions,
    output: OutputOptions,
) -> None:
    """Calibrate a table, or each part of it."""
    given = sampling.arguments()
    if closed_form and [word for word in given if word.startswith("--") and word != "--seed"]:
        raise UsageError(
            "--closed-form leaves the posterior out, and options of its fit are given",
            " ".join(given),
            "Keep one or the other",
        )
    spec = None if closed_form else check_model(sampling.model or MODEL, sampling.prior or ())
    engine = choose_engine(sampling.engine or "auto", "gaussian")
    settings = sampling.settings()
    Settings(**settings)
    words = {
        "by": by,
        "between": asked.between,
        "ci_prob": asked.ci_prob,
        "rope": asked.rope,
        "proxy_sd": asked.proxy_sd,
        "splits": asked.splits,
        "resamples": asked.resamples,
        "closed_form": closed_form,
    }
    between = [] if asked.between is None else ["--between", *asked.between]
    typed = arguments_of({name: value for name, value in words.items() if name != "between"})
    command = command_line(
        "calibrate", *reading.arguments(), *between, *typed, *given, "--", *sources
    )
    settings.pop("random_seed", None)
    job = Job(asked, spec, engine, settings, output, command)
    if by is None:
        _run_table(sources, reading.keywords(), job)
    else:
        readings = split_by(one_or_many(sources), by, **reading.keywords())
        _run_groups(readings, by, named_together(sources), job)


def _run_table(sources: Sequence[str], keywords: Mapping[str, Any], job: Job) -> None:
    folder = checked_folder(job.output.out, CALIBRATION_FILES)
    with working("reading", job.shows_progress):
        reading = scan(one_or_many(sources), **keywords)
    say_notes(reading_sentences(reading.mapping, reading.unused_columns), job.quiet)
    say_problems([p for p in reading.problems if p.severity != "error"], job.quiet)
    found = _calibrate(reading, named_together(sources), job, None)
    extra = _extra(reading)
    if folder is not None:
        folder.write(calibration_files(found, job.command, extra, reading.rows))
        say_notes([f"results written to {folder.path}"], job.quiet)
    if job.output.json:
        print_json(calibration_object(found, extra))
    else:
        print_tables(*_tables(found))
    _exit_unless_converged([] if found.converged else [""], job)


def _run_groups(readings: Mapping[str, Reading], by: str, source: str, job: Job) -> None:
    folders = {level: folder_name(level) for level in readings}
    names = [f"{folder}/{name}" for folder in folders.values() for name in CALIBRATION_FILES]
    folder = checked_folder(job.output.out, (*names, *INDEX_FILES))
    first, *others = readings.values()
    common = [p for p in first.problems if all(p in other.problems for other in others)]
    say_notes(reading_sentences(first.mapping, first.unused_columns), job.quiet)
    say_problems([p for p in common if p.severity != "error"], job.quiet)
    groups: dict[str, object] = {}
    index: list[dict[str, str]] = []
    tables: list[RenderableType] = []
    files: dict[str, Content] = {}
    unconverged: list[str] = []
    for level, reading in readings.items():
        row = {"level": level, "folder": folders[level], "status": "done", "message": ""}
        own = [p for p in reading.problems if p not in common and p.severity != "error"]
        say_problems(own, job.quiet, level)
        try:
            found = _calibrate(reading, f"{source}, {by} {level}", job, level)
        except BayesjudgeError as error:
            say(f"[{level}] error: {error}")
            groups[level] = {
                "error": {"what": error.what, "where": error.where, "remedy": error.remedy}
            }
            index.append(row | {"folder": "", "status": "failed", "message": str(error)})
            continue
        title, extra = f"{by} {level}", _extra(reading)
        groups[level] = calibration_object(found, extra)
        tables += _tables(found, title)
        if not found.converged:
            unconverged.append(level)
            row |= {"status": "not converged", "message": alarm(found)}
        index.append(row)
        made = calibration_files(found, job.command, extra, reading.rows, title)
        files |= {f"{folders[level]}/{name}": content for name, content in made.items()}
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


def _calibrate(reading: Reading, source: str, job: Job, level: str | None) -> Calibration:
    scores = reading.require(source)
    asked = job.asked
    with working("calibrating", job.shows_progress):
        found = calibrate(
            scores,
            asked.between,
            model=job.spec,
            engine=job.engine,
            ci_prob=asked.ci_prob,
            rope=asked.rope,
            proxy_sd=asked.proxy_sd,
            splits=asked.splits,
            resamples=asked.resamples,
            random_seed=asked.random_seed,
            **job.settings,
        )
    say_notes(calibration_sentences(found), job.quiet, level)
    say_problems(found.findings, job.quiet, level)
    return found


def _extra(reading: Reading) -> dict[str, Any]:
    return {"unused_columns": list(reading.unused_columns)}


def _tables(found: Calibration, title: str = "") -> list[RenderableType]:
    from rich.text import Text

    from bayesjudge.report.terminal import frame_table
    from bayesjudge.text import visible

    shown: list[RenderableType] = []
    left_out: dict[str, None] = {}
    for heading, table in calibration_sections(found):
        if len(table) > _MAX_ROWS:
            left_out[heading] = None
            continue
        away = [c for c in _ELSEWHERE if c in table]
        if "posterior_lower" in table and found.posterior is not None:
            # One interval: the posterior's; the bound says how sure the estimate is.
            away += ["ci_lower", "ci_upper"]
        left_out |= dict.fromkeys(away)
        empty = [c for c in table if c not in away and table[c].isna().all()]
        table = table.drop(columns=[*away, *empty]).rename(columns=_SHORT)
        parts = (title, heading, alarm(found) if "posterior" in table else "")
        shown.append(frame_table(table, ". ".join(part for part in parts if part)))
    shown.append(Text(visible(f"In --json and --out only: {', '.join(left_out)}")))
    shown += [Text(visible(f"{statement}."), style="bold") for statement in found.statements]
    return shown


def _exit_unless_converged(levels: list[str], job: Job) -> None:
    if not levels or job.output.allow_unconverged:
        return
    about = f" ({', '.join(levels)})" if levels != [""] else ""
    say(
        f"error: the posterior did not converge{about}; its columns cannot be relied on. Raise "
        "--draws and --tune, say --closed-form to leave it out, or --allow-unconverged"
    )
    raise typer.Exit(1)
