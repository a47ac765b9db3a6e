"""``rank``, ``compare`` and ``demo`` and their options.

What they do is imported when they are called.
"""

from __future__ import annotations

from typing import Annotated

import typer

from bayesjudge.cli import options as o
from bayesjudge.cli.messages import answering


def rank(
    source: o.RankSource,
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
    moments: o.Moments = None,
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
    out: o.Out = None,
    quiet: o.Quiet = False,
) -> None:
    """Rank the backbones of a score table, and say how sure the ranks are.

    A column human_score, empty where there is no label, adds each judge's agreement with it
    and human-anchored means; --random judge (or language) asks about one not in the table.
    """
    with answering():
        from bayesjudge.cli.ranks import run_rank
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
            moments,
        )
        sampling = o.SamplingOptions(
            model, prior, engine, draws, tune, chains, target_accept, seed, platform
        )
        run_rank(
            source,
            reading,
            o.ByOptions(by, workers, resume),
            sampling,
            Question(
                ci_prob, rope, finite_scenarios, scenario_pool, latent, sensitivity, reliability
            ),
            o.OutputOptions(json, out, quiet, allow_unconverged, log_likelihood, predictive),
        )


def compare(
    fits: Annotated[
        list[str],
        typer.Argument(
            metavar="[NAME=]FIT...",
            help="Saved fits of one table, as rank --out and fit.save write them.",
            show_default=False,
        ),
    ],
    draws: Annotated[
        int, typer.Option("--draws", help="Of each posterior; more take longer.")
    ] = 1000,
    json: o.Json = False,
    quiet: o.Quiet = False,
) -> None:
    """Compare models of one table by leave-one-out cross-validation (PSIS-LOO)."""
    with answering():
        from bayesjudge.cli.comparisons import run_compare

        run_compare(fits, draws, json, quiet)


def demo(
    generations: Annotated[
        int, typer.Option("--generations", help="Answers a backbone and scenario.")
    ] = 10,
    draws: o.Draws = None,
    tune: o.Tune = None,
    chains: o.Chains = None,
    seed: o.Seed = None,
    allow_unconverged: o.AllowUnconverged = False,
    json: o.Json = False,
    out: o.Out = None,
    quiet: o.Quiet = False,
) -> None:
    """Rank five backbones on a simulated table of MT-Bench's shape."""
    with answering():
        from bayesjudge.cli.ranks import run_demo

        run_demo(
            generations,
            o.SamplingOptions(draws=draws, tune=tune, chains=chains, seed=seed),
            o.OutputOptions(json, out, quiet, allow_unconverged),
        )
