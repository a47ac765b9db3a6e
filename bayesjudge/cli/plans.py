"""``plan``: which design to run, or which calls to make next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import typer

from bayesjudge.cli.answers import read_aloud
from bayesjudge.cli.messages import (
    print_json,
    print_tables,
    say,
    say_notes,
    working,
)
from bayesjudge.cli.options import (
    OutputOptions,
    ReadingOptions,
    SamplingOptions,
    arguments_of,
    command_line,
    number_pairs,
)
from bayesjudge.cli.ranks import is_saved_fit
from bayesjudge.cli.tallies import read_tallied, takes_moments
from bayesjudge.errors import UsageError
from bayesjudge.fitted import Fit, load
from bayesjudge.pairing import refuse_battles
from bayesjudge.planning.choosing import Plan, plan
from bayesjudge.planning.components import typed_components
from bayesjudge.planning.designs import Components
from bayesjudge.planning.reliabilities import reliability
from bayesjudge.planning.sequencing import plan_next
from bayesjudge.report.files import OutputFolder, checked_folder
from bayesjudge.report.plan_report import (
    NEXT_FILES,
    PLAN_FILES,
    next_files,
    next_object,
    next_sentences,
    plan_files,
    plan_object,
    shown_options,
)
from bayesjudge.spec import read_model

if TYPE_CHECKING:
    from rich.console import RenderableType


@dataclass(frozen=True)
class PlanOptions:
    """What to plan, as it was given."""

    budget: float | None = None
    cost: Sequence[str] | None = None
    generation_cost: float = 0.0
    latency: Sequence[str] | None = None
    max_seconds: float | None = None
    scenario_pool: int | None = None
    target: str | None = None
    pair: tuple[str, str] | None = None
    reach_sd: float | None = None
    reach_probability: float | None = None
    gap: float | None = None
    component: Sequence[str] | None = None
    backbones: int | None = None
    judges: int | None = None
    ci_prob: float = 0.95

    def keywords(self) -> dict[str, Any]:
        """Return the arguments of ``bayesjudge.plan``."""
        target = self.target
        if target is None:
            target = "order" if self.reach_probability is not None else "mean"
            target = "difference" if self.pair and target == "mean" else target
        return {
            "budget": self.budget,
            "costs": _numbers(self.cost, "--cost", "JUDGE=PRICE"),
            "generation_cost": self.generation_cost,
            "latencies": _numbers(self.latency, "--latency", "JUDGE=SECONDS"),
            "max_seconds": self.max_seconds,
            "pool": self.scenario_pool,
            "target": target,
            "pair": self.pair or (),
            "sd": self.reach_sd,
            "probability": self.reach_probability,
            "gap": self.gap,
            "ci_prob": self.ci_prob,
        }


@dataclass(frozen=True)
class NextOptions:
    """Which calls next, as it was given."""

    number: int | None = None
    top: int | None = None
    new_scenario: Sequence[str] | None = None
    no_self: bool = False


def run_plan(
    source: str | None,
    saved: str | None,
    reading: ReadingOptions,
    sampling: SamplingOptions,
    asked: PlanOptions,
    following: NextOptions,
    output: OutputOptions,
) -> None:
    """Plan from a table, a saved fit or typed components; or name the next calls."""
    if source is not None and saved is not None:
        raise UsageError("a table and a fit are given", "--fit", "Name one of them")
    source = saved if source is None else source
    typed = asked.component is not None
    if typed == (source is not None):
        raise UsageError(
            "a plan is made from a table, a fit or typed components"
            if typed
            else "there is nothing to plan from",
            "--component" if typed else "",
            "Give one: SOURCE, --fit FILE or --component TERM=VARIANCE",
        )
    words = [*reading.arguments(), *sampling.arguments(), *arguments_of(vars(asked))]
    words += arguments_of({"next": following.number, "top": following.top})
    command = command_line("plan", *words, *(["--", source] if source is not None else []))
    if following.number is not None:
        if source is None or asked.budget is not None:
            raise UsageError(
                "next calls are numbers of calls, from a table or a fit",
                "--next",
                "Leave --budget and --component out",
            )
        folder = checked_folder(output.out, NEXT_FILES)
        made = _fitted(source, reading, sampling, output, ("--next",))
        _run_next(made, asked, following, output, folder)
        _exit_unless_converged(made, output)
        return
    if following.top is not None or following.new_scenario or following.no_self:
        raise UsageError("--top, --new-scenario and --no-self go with --next", "--next")
    folder = checked_folder(output.out, PLAN_FILES)
    components: Fit | Components
    if source is None:
        components = _typed(asked, reading, sampling)
    else:
        if asked.backbones is not None or asked.judges is not None:
            raise UsageError("--backbones and --judges go with --component", "--component")
        components = _fitted(source, reading, sampling, output)
    with working("planning", output.shows_progress):
        found = plan(components, **asked.keywords())
    extra: dict[str, Any] = {"command": command}
    if isinstance(components, Fit):
        extra["reliability"] = reliability(
            components, pool=asked.scenario_pool, ci_prob=asked.ci_prob
        )
        extra["converged"] = components.convergence.converged
    _show(found, extra, command, output, folder)
    if isinstance(components, Fit):
        _exit_unless_converged(components, output)


def _show(
    found: Plan,
    extra: dict[str, Any],
    command: str,
    output: OutputOptions,
    folder: OutputFolder | None,
) -> None:
    say_notes(found.notes, output.quiet)
    if "reliability" in extra:
        for row in extra["reliability"].itertuples():
            said = (
                f"{row.coefficient} of the table as it is ({row.decision} decisions): "
                f"{row.estimate:.3f} [{row.ci_lower:.3f}, {row.ci_upper:.3f}]"
            )
            say_notes([said], output.quiet)
    if folder is not None:
        folder.write(plan_files(found, command, extra))
        say_notes([f"results written to {folder.path}"], output.quiet)
    if output.json:
        print_json(plan_object(found, extra))
        return
    from rich.text import Text

    from bayesjudge.report.terminal import frame_table
    from bayesjudge.text import visible

    shown: list[RenderableType] = [
        frame_table(table, heading) for heading, table in shown_options(found)
    ]
    print_tables(*shown, Text(visible(f"-> {found.reason}.")))


def _run_next(
    made: Fit,
    asked: PlanOptions,
    following: NextOptions,
    output: OutputOptions,
    folder: OutputFolder | None,
) -> None:
    with working("looking ahead", output.shows_progress):
        found = plan_next(
            made,
            following.number or 0,
            top=2 if following.top is None else following.top,
            costs=_numbers(asked.cost, "--cost", "JUDGE=PRICE"),
            scenarios=tuple(following.new_scenario or ()),
            no_self=following.no_self,
        )
    say_notes(next_sentences(found), output.quiet)
    extra = {"converged": made.convergence.converged}
    if folder is not None:
        folder.write(next_files(found, extra))
        say_notes([f"results written to {folder.path}"], output.quiet)
    if output.json:
        print_json(next_object(found, extra))
    elif folder is None:
        typer.echo(found.calls.to_csv(index=False, lineterminator="\n").encode(), nl=False)


def _typed(asked: PlanOptions, reading: ReadingOptions, sampling: SamplingOptions) -> Components:
    idle = [*replace(reading, random=None).arguments(), *replace(sampling, model=None).arguments()]
    if idle:
        raise UsageError(
            "typed components have no table to read or fit", " ".join(idle), "Leave these out"
        )
    given = number_pairs(asked.component, "--component", "TERM=VARIANCE")
    prices = _numbers(asked.cost, "--cost", "JUDGE=PRICE")
    judges: int | tuple[str, ...] = 1 if asked.judges is None else asked.judges
    if prices is not None:
        judges = tuple(prices)
        if asked.judges is not None and asked.judges != len(judges):
            raise UsageError(
                f"{len(judges)} judges have prices, and --judges says {asked.judges}", "--cost"
            )
    return typed_components(
        read_model(sampling.model or "crossed"),
        given,
        backbones=2 if asked.backbones is None else asked.backbones,
        judges=judges,
        random=tuple(reading.random or ()),
    )


def _fitted(
    source: str,
    reading: ReadingOptions,
    sampling: SamplingOptions,
    output: OutputOptions,
    needs: Sequence[str] = (),
) -> Fit:
    if is_saved_fit(source):
        if reading.arguments() or sampling.arguments():
            raise UsageError(
                "a saved fit has its table and its model already",
                " ".join([*reading.arguments(), *sampling.arguments()]),
                "Leave these options out, or name the table itself",
            )
        return load(source)
    from bayesjudge.fitting import fit

    spec = read_model(sampling.model or "crossed")
    keywords = reading.keywords(spec)
    moments = takes_moments([source], reading.moments, None, needs)
    found = (
        read_tallied([source], keywords, output, reading.moments is not None)
        if moments
        else read_aloud([source], keywords, output)
    )
    scores = found.require(source)
    refuse_battles(scores, "plan")
    with working("fitting", output.shows_progress):
        return fit(scores, spec, priors=sampling.prior or (), **sampling.settings())


def _numbers(texts: Sequence[str] | None, option: str, form: str) -> dict[str, float] | None:
    if not texts:
        return None
    found = number_pairs(texts, option, form)
    for name, values in found.items():
        if len(values) != 1:
            raise UsageError(f"{name!r} has {len(values)} numbers", option, "Give one")
    return {name: values[0] for name, values in found.items()}


def _exit_unless_converged(made: Fit, output: OutputOptions) -> None:
    if made.convergence.converged or output.allow_unconverged:
        return
    reasons = "; ".join(made.convergence.reasons)
    say(f"error: the fit did not converge, so the plan cannot be relied on: {reasons}")
    raise typer.Exit(1)
