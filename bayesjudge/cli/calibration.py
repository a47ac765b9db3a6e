"""``calibrate``: read, adjust, say what that is worth, print, write."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from bayesjudge.calibration.asking import Asked
from bayesjudge.calibration.calibrating import Calibration, calibrate
from bayesjudge.calibration.posterior import MODEL, check_model
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
    SamplingOptions,
    arguments_of,
    command_line,
)
from bayesjudge.cli.tallies import answer_tally, takes_moments
from bayesjudge.engines import Settings, choose_engine
from bayesjudge.errors import UsageError
from bayesjudge.report.calibration_report import (
    CALIBRATION_FILES,
    alarm,
    calibration_files,
    calibration_object,
    calibration_sections,
    calibration_sentences,
)
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


_DISTRUST = (
    "the posterior did not converge{about}; its columns cannot be relied on. Raise --draws and "
    "--tune, say --closed-form to leave it out, or --allow-unconverged"
)


@dataclass(frozen=True)
class Job:
    """What to calibrate, checked, and what to do with the answer."""

    asked: Asked
    spec: ModelSpec | None
    engine: str
    settings: Mapping[str, Any]
    output: OutputOptions
    command: str


def run_calibrate(
    sources: Sequence[str],
    reading: ReadingOptions,
    groups: ByOptions,
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
    engine = choose_engine(sampling.engine or "auto", linear=True)
    settings = sampling.settings()
    Settings(**settings)
    words = {
        "between": asked.between,
        "ci_prob": asked.ci_prob,
        "rope": asked.rope,
        "proxy_sd": asked.proxy_sd,
        "splits": asked.splits,
        "resamples": asked.resamples,
        "closed_form": closed_form,
    }
    between = [] if asked.between is None else ["--between", *asked.between]
    others = arguments_of({name: value for name, value in words.items() if name != "between"})
    typed = [*groups.arguments(), *others]
    command = command_line(
        "calibrate", *reading.arguments(), *between, *typed, *given, "--", *sources
    )
    settings.pop("random_seed", None)
    job = Job(asked, spec, engine, settings, output, command)
    road = Road(
        "calibrate",
        partial(_calibrate, job=job),
        (command, spec),
        CALIBRATION_FILES,
        output,
        _DISTRUST,
        by_row=True,
    )
    if takes_moments(sources, reading.moments, groups.by):
        answer_tally(sources, reading.keywords(), reading.moments is not None, road)
    else:
        answer_tables(sources, reading.keywords(), groups, road)


def _calibrate(part: Part, job: Job) -> Answered:
    scores = part.reading.require(part.source)
    asked, output = job.asked, job.output
    with working("calibrating", output.shows_progress):
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
    say_notes(calibration_sentences(found), output.quiet, part.level)
    say_problems(found.findings, output.quiet, part.level)
    return Answered(
        lambda: calibration_object(found, part.extra),
        lambda: _tables(found, part.title),
        lambda: calibration_files(found, job.command, part.extra, part.reading.rows, part.title),
        "" if found.converged else alarm(found),
    )


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
