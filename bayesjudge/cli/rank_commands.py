"""``rank``, ``compare`` and ``demo`` and their options.

What they do is imported when they are called.
"""

from __future__ import annotations

from typing import Annotated

import typer

from bayesjudge.cli import options as o
from bayesjudge.cli.messages import answering


def rank(
    source: Annotated[
        list[str],
        typer.Argument(
            metavar="SOURCE",
            help="Files (CSV, JSONL, Parquet, or a tool's logs), globs, folders; "
            "or a saved fit (.nc).",
            show_default=False,
        ),
    ],
    column: o.Column = None,
    where: o.Where = None,
    by: o.By = None,
    facet: o.FacetOption = None,
    random: o.RandomOption = None,
    ignore: o.Ignore = None,
    scale: o.ScaleOption = None,
    lower_is_better: o.LowerIsBetter = False,
    missing: o.Missing = None,
    strict: o.Strict = False,
    replicates: o.Replicates = False,
    format: o.FormatOption = None,  # noqa: A002
    model: Annotated[
        str | None, typer.Option("--model", help="A shipped model or a TOML file (crossed).")
    ] = None,
    prior: Annotated[
        list[str] | None,
        typer.Option("--prior", metavar="PRIOR", help="As judge.scale=half_normal:0.5."),
    ] = None,
    engine: Annotated[
        str | None, typer.Option("--engine", help="auto, exact, numpyro or pymc (auto).")
    ] = None,
    draws: o.Draws = None,
    tune: o.Tune = None,
    chains: o.Chains = None,
    target_accept: Annotated[
        float | None, typer.Option("--target-accept", help="Of NUTS (0.95, or 0.85).")
    ] = None,
    seed: o.Seed = None,
    platform: o.Platform = None,
    rope: Annotated[
        float | None,
        typer.Option("--rope", help="Differences below this count as none.", show_default=False),
    ] = None,
    ci_prob: Annotated[
        float, typer.Option("--ci-prob", help="Probability of the intervals.")
    ] = 0.95,
    finite_scenarios: Annotated[
        bool, typer.Option("--finite-scenarios", help="Speak of the table's scenarios only.")
    ] = False,
    scenario_pool: Annotated[
        int | None,
        typer.Option("--scenario-pool", metavar="N", help="Speak of a pool of N scenarios."),
    ] = None,
    latent: Annotated[
        bool,
        typer.Option(
            "--latent", help="Means on the latent scale of verdicts, categories, battles."
        ),
    ] = False,
    sensitivity: o.Sensitivity = False,
    log_likelihood: o.LogLikelihood = False,
    predictive: o.Predictive = False,
    allow_unconverged: o.AllowUnconverged = False,
    json: o.Json = False,
    out: o.Out = None,
    quiet: o.Quiet = False,
) -> None:
    """Rank the backbones of a score table, and say how sure the ranks are."""
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
        )
        sampling = o.SamplingOptions(
            model, prior, engine, draws, tune, chains, target_accept, seed, platform
        )
        run_rank(
            source,
            reading,
            by,
            sampling,
            Question(ci_prob, rope, finite_scenarios, scenario_pool, latent, sensitivity),
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
