"""The commands and their options; what they do is imported when they are called."""

from __future__ import annotations

from typing import Annotated

import typer

from bayesjudge.cli import options as o
from bayesjudge.cli.messages import answering

app = typer.Typer(
    name="bayesjudge",
    help="Leaderboards from LLM judges that say how sure they are.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from bayesjudge.version import version

        typer.echo(version())
        raise typer.Exit


@app.callback()
def common(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Leaderboards from LLM judges that say how sure they are."""


@app.command()
def validate(
    source: o.Source,
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
    model: Annotated[str, typer.Option("--model", help="Which terms to look for.")] = "crossed",
    json: o.Json = False,
) -> None:
    """Say what a table holds, what it can answer, and what is wrong with it."""
    with answering():
        from bayesjudge.cli.validating import run_validate

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
        )
        run_validate(source, reading, by, model, json)


@app.command()
def rank(
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE",
            help="A file (CSV, JSONL, Parquet), a glob, a folder, or a saved fit (.nc).",
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
        typer.Option("--latent", help="Means on the latent scale of verdicts and categories."),
    ] = False,
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
        )
        sampling = o.SamplingOptions(
            model, prior, engine, draws, tune, chains, target_accept, seed, platform
        )
        run_rank(
            source,
            reading,
            by,
            sampling,
            Question(ci_prob, rope, finite_scenarios, scenario_pool, latent),
            o.OutputOptions(json, out, quiet, allow_unconverged),
        )


@app.command()
def anova(
    source: o.Source,
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
    model: Annotated[
        str, typer.Option("--model", help="A shipped model or a TOML file: its terms.")
    ] = "crossed",
    ci_prob: Annotated[
        float, typer.Option("--ci-prob", help="Probability of the intervals.")
    ] = 0.95,
    json: o.Json = False,
    out: Annotated[
        str | None, typer.Option("--out", metavar="DIR", help="A folder for tables and report.")
    ] = None,
    quiet: o.Quiet = False,
) -> None:
    """Decompose the variance of a balanced table, in closed form."""
    with answering():
        from bayesjudge.cli.decomposition import run_anova

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
        )
        run_anova(source, reading, by, model, ci_prob, o.OutputOptions(json, out, quiet))


@app.command()
def models(
    name: Annotated[
        str | None, typer.Argument(help="A shipped model or a TOML file.", show_default=False)
    ] = None,
    toml: Annotated[bool, typer.Option("--toml", help="Print the model's file.")] = False,
    json: o.Json = False,
) -> None:
    """List the shipped models, or show the terms and priors of one."""
    with answering():
        from bayesjudge.cli.modelling import run_models

        run_models(name, toml, json)


@app.command()
def simulate(
    file: Annotated[str, typer.Argument(metavar="FILE", help="Ends in .csv, .jsonl or .parquet.")],
    model: Annotated[str, typer.Option("--model", help="A shipped model or file.")] = "crossed",
    backbones: Annotated[int, typer.Option("--backbones")] = 5,
    scenarios: Annotated[int, typer.Option("--scenarios")] = 80,
    judges: Annotated[int, typer.Option("--judges")] = 5,
    generations: Annotated[int, typer.Option("--generations")] = 1,
    languages: Annotated[int, typer.Option("--languages")] = 1,
    sd: Annotated[
        list[str] | None,
        typer.Option("--sd", metavar="TERM=SD", help="Fix a term's sd, as residual=0.9."),
    ] = None,
    mean: Annotated[
        list[str] | None,
        typer.Option("--mean", metavar="BACKBONE=MEAN", help="Fix the panel means: all of them."),
    ] = None,
    unit: Annotated[
        float | None, typer.Option("--unit", help="Of the priors (1).", show_default=False)
    ] = None,
    location: Annotated[
        float | None, typer.Option("--location", help="Of the priors (7).", show_default=False)
    ] = None,
    scale: Annotated[
        tuple[int, int] | None,
        typer.Option("--scale", metavar="LO HI", help="Categories of a cumulative model (1 5)."),
    ] = None,
    missing_fraction: Annotated[
        float, typer.Option("--missing-fraction", help="Scores left out at random.")
    ] = 0.0,
    one_judge: Annotated[
        bool, typer.Option("--one-judge", help="One judge an item, taking turns.")
    ] = False,
    seed: Annotated[int, typer.Option("--seed")] = 0,
    truth: Annotated[
        str | None, typer.Option("--truth", metavar="FILE", help="Write the truth, as JSON.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite files.")] = False,
    json: o.Json = False,
) -> None:
    """Draw a table of scores from a model whose truth is known."""
    with answering():
        from bayesjudge.cli.simulating import SimulateOptions, run_simulate

        given = SimulateOptions(
            model, backbones, scenarios, judges, generations, languages, sd, mean,
            unit, location, scale, missing_fraction, one_judge, seed,
        )  # fmt: skip
        run_simulate(file, given, truth, force, json)


@app.command()
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
