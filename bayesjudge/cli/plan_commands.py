"""``plan`` and ``assign`` and their options; what they do is imported when they are called."""

from __future__ import annotations

from typing import Annotated

import typer

from bayesjudge.cli import options as o
from bayesjudge.cli.messages import answering

_GOAL = "The goal"
_PRICES = "Prices"
_TYPED = "Without a table"
_NEXT = "Next calls"


def plan(
    source: Annotated[
        str | None,
        typer.Argument(
            metavar="SOURCE",
            help="A table, or a saved fit (.nc); none with --component or --fit.",
            show_default=False,
        ),
    ] = None,
    fit: Annotated[str | None, typer.Option("--fit", metavar="FILE", help="A saved fit.")] = None,
    budget: Annotated[
        float | None,
        typer.Option(
            "--budget",
            help="For all backbones: calls, or money where --cost is given.",
            rich_help_panel=_GOAL,
        ),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option("--target", help="mean, difference or order (mean).", rich_help_panel=_GOAL),
    ] = None,
    pair: Annotated[
        tuple[str, str] | None,
        typer.Option(
            "--pair",
            metavar="A B",
            help="Whose difference or order counts.",
            rich_help_panel=_GOAL,
        ),
    ] = None,
    reach_sd: Annotated[
        float | None,
        typer.Option(
            "--reach-sd", help="Largest sd of a mean or difference.", rich_help_panel=_GOAL
        ),
    ] = None,
    reach_probability: Annotated[
        float | None,
        typer.Option(
            "--reach-probability",
            help="Of ordering the two best right.",
            rich_help_panel=_GOAL,
        ),
    ] = None,
    gap: Annotated[
        float | None,
        typer.Option("--gap", help="Between the two best, if known.", rich_help_panel=_GOAL),
    ] = None,
    scenario_pool: Annotated[
        int | None,
        typer.Option(
            "--scenario-pool",
            metavar="N",
            help="Scenarios there are; means are about these.",
            rich_help_panel=_GOAL,
        ),
    ] = None,
    cost: Annotated[
        list[str] | None,
        typer.Option("--cost", metavar="JUDGE=PRICE", help="Of a call.", rich_help_panel=_PRICES),
    ] = None,
    generation_cost: Annotated[
        float,
        typer.Option(
            "--generation-cost", help="Of an answer of a backbone.", rich_help_panel=_PRICES
        ),
    ] = 0.0,
    latency: Annotated[
        list[str] | None,
        typer.Option(
            "--latency", metavar="JUDGE=SECONDS", help="Of a call.", rich_help_panel=_PRICES
        ),
    ] = None,
    max_seconds: Annotated[
        float | None,
        typer.Option(
            "--max-seconds",
            help="Judges side by side, calls of each in a row.",
            rich_help_panel=_PRICES,
        ),
    ] = None,
    component: Annotated[
        list[str] | None,
        typer.Option(
            "--component",
            metavar="TERM=VARIANCE",
            help="As scenario=0.5 residual=1.2,0.8.",
            rich_help_panel=_TYPED,
        ),
    ] = None,
    backbones: Annotated[
        int | None, typer.Option("--backbones", help="(2)", rich_help_panel=_TYPED)
    ] = None,
    judges: Annotated[
        int | None,
        typer.Option("--judges", help="(1, or as priced)", rich_help_panel=_TYPED),
    ] = None,
    next_calls: Annotated[
        int | None,
        typer.Option(
            "--next", metavar="N", help="Name the N calls to make next.", rich_help_panel=_NEXT
        ),
    ] = None,
    top: Annotated[
        int | None,
        typer.Option("--top", help="How many's order counts (2).", rich_help_panel=_NEXT),
    ] = None,
    new_scenario: Annotated[
        list[str] | None,
        typer.Option(
            "--new-scenario", metavar="NAME", help="May be used too.", rich_help_panel=_NEXT
        ),
    ] = None,
    no_self: Annotated[
        bool,
        typer.Option("--no-self", help="No judge scores its namesake.", rich_help_panel=_NEXT),
    ] = False,
    format: o.FormatOption = None,  # noqa: A002
    moments: o.Moments = None,
    column: o.Column = None,
    where: o.Where = None,
    facet: o.FacetOption = None,
    random: o.RandomOption = None,
    ignore: o.Ignore = None,
    scale: o.ScaleOption = None,
    lower_is_better: o.LowerIsBetter = False,
    missing: o.Missing = None,
    strict: o.Strict = False,
    replicates: o.Replicates = False,
    model: Annotated[
        str | None, typer.Option("--model", help="A shipped model or a TOML file (crossed).")
    ] = None,
    prior: Annotated[
        list[str] | None,
        typer.Option("--prior", metavar="PRIOR", help="As judge.scale=half_normal:0.5."),
    ] = None,
    draws: o.Draws = None,
    tune: o.Tune = None,
    chains: o.Chains = None,
    seed: o.Seed = None,
    ci_prob: Annotated[
        float, typer.Option("--ci-prob", help="Probability of the intervals.")
    ] = 0.95,
    allow_unconverged: o.AllowUnconverged = False,
    json: o.Json = False,
    out: Annotated[
        str | None, typer.Option("--out", metavar="DIR", help="A folder for options and report.")
    ] = None,
    quiet: o.Quiet = False,
) -> None:
    """Say which design a budget is best spent on, or which calls to make next."""
    with answering():
        from bayesjudge.cli.plans import NextOptions, PlanOptions, run_plan

        reading = o.ReadingOptions(
            column, where, facet, random, ignore, scale, lower_is_better, missing, strict,
            replicates, format, moments,
        )  # fmt: skip
        asked = PlanOptions(
            budget, cost, generation_cost, latency, max_seconds, scenario_pool, target, pair,
            reach_sd, reach_probability, gap, component, backbones, judges, ci_prob,
        )  # fmt: skip
        run_plan(
            source,
            fit,
            reading,
            o.SamplingOptions(model, prior, None, draws, tune, chains, None, seed),
            asked,
            NextOptions(next_calls, top, new_scenario, no_self),
            o.OutputOptions(json, out, quiet, allow_unconverged),
        )


def assign(
    file: Annotated[str, typer.Argument(metavar="FILE", help="Ends in .csv.")],
    scenarios: Annotated[
        str,
        typer.Option(
            "--scenarios",
            metavar="N|FILE",
            help="How many, or their labels: lines of a text, a column of a .csv.",
            show_default=False,
        ),
    ],
    backbone: Annotated[
        list[str], typer.Option("--backbone", metavar="NAME", help="Once for each.")
    ],
    judge: Annotated[list[str], typer.Option("--judge", metavar="NAME", help="Once for each.")],
    generations: Annotated[
        int, typer.Option("--generations", help="Answers a backbone and scenario.")
    ] = 1,
    per_generation: Annotated[
        int, typer.Option("--per-generation", help="Judges who score each answer.")
    ] = 1,
    all_judges: Annotated[
        bool, typer.Option("--all-judges", help="Every judge scores every answer.")
    ] = False,
    share: Annotated[
        list[str] | None,
        typer.Option("--share", metavar="JUDGE=NUMBER", help="Unequal shares, as 3 and 1."),
    ] = None,
    no_self: Annotated[
        bool, typer.Option("--no-self", help="No judge scores the backbone of its name.")
    ] = False,
    own: Annotated[
        list[str] | None,
        typer.Option("--self", metavar="JUDGE=BACKBONE", help="The same, where the names differ."),
    ] = None,
    extend: Annotated[
        str | None,
        typer.Option(
            "--extend", metavar="CSV", help="Add scenarios to an assignment; its rows stay."
        ),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="Of the shuffle.")] = 0,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the file.")] = False,
    json: o.Json = False,
    quiet: o.Quiet = False,
) -> None:
    """Write a balanced, shuffled list of judge calls to make, as a CSV to fill in."""
    with answering():
        from bayesjudge.cli.assigning import AssignOptions, run_assign

        given = AssignOptions(
            scenarios, backbone, judge, generations, per_generation, all_judges, share, no_self,
            own, extend, seed,
        )  # fmt: skip
        run_assign(file, given, force, json, quiet)
