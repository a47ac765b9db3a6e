"""``report`` and its options.

What it does is imported when it is called.
"""

from __future__ import annotations

from typing import Annotated

import typer

from bayesjudge.cli import options as o
from bayesjudge.cli.messages import answering

_PAGE = "The page"


def report(
    source: o.RankSource,
    out: Annotated[
        str,
        typer.Option("--out", metavar="DIR", help="A folder for the page and what lies beside it."),
    ],
    title: Annotated[str, typer.Option("--title", help="Of the page.", rich_help_panel=_PAGE)] = "",
    own: Annotated[
        list[str] | None,
        typer.Option(
            "--self",
            metavar="JUDGE=BACKBONE",
            help="A judge's own backbone, beside those of one name.",
            rich_help_panel=_PAGE,
        ),
    ] = None,
    figures: Annotated[
        bool,
        typer.Option(
            "--figures/--no-figures",
            help="Each figure as PNG and SVG too (needs the extra report).",
            rich_help_panel=_PAGE,
        ),
    ] = True,
    watch: Annotated[
        bool,
        typer.Option(
            "--watch",
            help="Make the page again whenever the source changes, until interrupted.",
            rich_help_panel=_PAGE,
        ),
    ] = False,
    every: Annotated[
        float,
        typer.Option(
            "--every",
            metavar="SECONDS",
            help="With --watch: how often to look.",
            rich_help_panel=_PAGE,
        ),
    ] = 2.0,
    column: o.Column = None,
    where: o.Where = None,
    by: o.By = None,
    workers: o.Workers = None,
    resume: o.Resume = False,
    facet: o.FacetOption = None,
    random: o.RandomOption = None,
    ignore: o.Ignore = None,
    scale: o.ScaleOption = None,
    lower_is_better: o.LowerIsBetter = False,
    missing: o.Missing = None,
    strict: o.Strict = False,
    replicates: o.Replicates = False,
    format: o.FormatOption = None,  # noqa: A002
    model: o.Model = None,
    prior: o.PriorOption = None,
    engine: o.Engine = None,
    draws: o.Draws = None,
    tune: o.Tune = None,
    chains: o.Chains = None,
    target_accept: o.TargetAccept = None,
    seed: o.Seed = None,
    platform: o.Platform = None,
    rope: o.Rope = None,
    ci_prob: o.CiProb = 0.95,
    finite_scenarios: o.FiniteScenarios = False,
    scenario_pool: o.ScenarioPool = None,
    latent: o.Latent = False,
    reliability: o.Reliability = False,
    sensitivity: o.Sensitivity = False,
    log_likelihood: o.LogLikelihood = False,
    predictive: o.Predictive = False,
    allow_unconverged: o.AllowUnconverged = False,
    json: o.Json = False,
    quiet: o.Quiet = False,
) -> None:
    """Rank, and write a web page of it with its tables, figures and a feed."""
    with answering():
        from bayesjudge.cli.reporting import PageOptions, run_report
        from bayesjudge.report.answers import Question

        reading = o.ReadingOptions(
            column,
            where,
            facet,
            random,
            ignore,
            scale,
            lower_is_better,
            missing,
            strict,
            replicates,
            format,
        )
        sampling = o.SamplingOptions(
            model, prior, engine, draws, tune, chains, target_accept, seed, platform
        )
        run_report(
            source,
            reading,
            o.ByOptions(by, workers, resume),
            sampling,
            Question(
                ci_prob, rope, finite_scenarios, scenario_pool, latent, sensitivity, reliability
            ),
            o.OutputOptions(json, out, quiet, allow_unconverged, log_likelihood, predictive),
            PageOptions(title, tuple(own or ()), figures, watch, every),
        )
