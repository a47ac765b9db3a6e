"""The commands and their options; what they do is imported when they are called."""

from __future__ import annotations

from typing import Annotated

import typer

from bayesjudge.cli import options as o
from bayesjudge.cli.messages import answering
from bayesjudge.cli.plan_commands import assign, plan

app = typer.Typer(
    name="bayesjudge",
    help="Leaderboards from LLM judges that say how sure they are.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


_PANEL = "The panel of judges"


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
    source: o.Sources,
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
            format,
        )
        run_validate(source, reading, by, model, json)


@app.command()
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
        float | None, typer.Option("--target-accept", help="Of NUTS (0.95).")
    ] = None,
    seed: o.Seed = None,
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
        sampling = o.SamplingOptions(model, prior, engine, draws, tune, chains, target_accept, seed)
        run_rank(
            source,
            reading,
            by,
            sampling,
            Question(ci_prob, rope, finite_scenarios, scenario_pool, latent, sensitivity),
            o.OutputOptions(json, out, quiet, allow_unconverged, log_likelihood, predictive),
        )


@app.command()
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


@app.command()
def anova(
    source: o.Sources,
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
        str, typer.Option("--model", help="A shipped model or a TOML file: its terms.")
    ] = "crossed",
    ci_prob: Annotated[
        float, typer.Option("--ci-prob", help="Probability of the intervals.")
    ] = 0.95,
    own: Annotated[
        list[str] | None,
        typer.Option(
            "--self",
            metavar="JUDGE=BACKBONE",
            help="A judge's own backbone (those of its name).",
            rich_help_panel=_PANEL,
        ),
    ] = None,
    panel_size: Annotated[
        int | None,
        typer.Option(
            "--panel-size",
            metavar="K",
            help="Judges in the whole panel (those of the table).",
            rich_help_panel=_PANEL,
        ),
    ] = None,
    design: Annotated[
        list[str] | None,
        typer.Option(
            "--design",
            metavar="n=N,m=M,k=K",
            help="Variance of a mean with K judges on each of M generations of N scenarios.",
            rich_help_panel=_PANEL,
        ),
    ] = None,
    strategies: Annotated[
        bool,
        typer.Option(
            "--strategies",
            help="All judges, a random one, or taking turns: their variances.",
            rich_help_panel=_PANEL,
        ),
    ] = False,
    budget: Annotated[
        list[int] | None,
        typer.Option(
            "--budget",
            metavar="B",
            help="Judge calls a scenario (whole turns of the panel).",
            rich_help_panel=_PANEL,
        ),
    ] = None,
    subsamples: Annotated[
        int | None,
        typer.Option(
            "--subsamples",
            metavar="R",
            help="Lay R subsamples of the table on what is predicted (none).",
            rich_help_panel=_PANEL,
        ),
    ] = None,
    seed: o.Seed = None,
    json: o.Json = False,
    out: Annotated[
        str | None, typer.Option("--out", metavar="DIR", help="A folder for tables and report.")
    ] = None,
    quiet: o.Quiet = False,
) -> None:
    """Decompose the variance of a balanced table, in closed form."""
    with answering():
        from bayesjudge.cli.decomposition import run_anova
        from bayesjudge.cli.panels import PanelOptions

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
        panel = PanelOptions(own, panel_size, design, strategies, budget, subsamples, seed)
        run_anova(source, reading, by, model, ci_prob, panel, o.OutputOptions(json, out, quiet))


@app.command()
def calibrate(
    source: o.Sources,
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
    between: Annotated[
        tuple[str, str] | None,
        typer.Option(
            "--between",
            metavar="FACET OBJECT",
            help="Interaction to take off: rankings over the first, of the second "
            "(language, or else judge, and backbone).",
            show_default=False,
        ),
    ] = None,
    rope: Annotated[
        float | None,
        typer.Option("--rope", help="Differences below this count as none.", show_default=False),
    ] = None,
    proxy_sd: Annotated[
        float | None,
        typer.Option(
            "--proxy-sd",
            help="Known root of the variance proxy of a task's score, for bound_proxy.",
            show_default=False,
        ),
    ] = None,
    ci_prob: Annotated[
        float, typer.Option("--ci-prob", help="Probability of intervals and bounds.")
    ] = 0.95,
    splits: Annotated[
        int, typer.Option("--splits", help="Halves of the tasks, for held-out figures.")
    ] = 200,
    resamples: Annotated[
        int, typer.Option("--resamples", help="Bootstrap samples of tasks, for reversals.")
    ] = 9999,
    closed_form: Annotated[
        bool, typer.Option("--closed-form", help="Leave the posterior out.")
    ] = False,
    model: Annotated[
        str | None,
        typer.Option("--model", help="Of the posterior (language_backbone), or a TOML file."),
    ] = None,
    prior: Annotated[
        list[str] | None,
        typer.Option("--prior", metavar="PRIOR", help="As language.scale=half_normal:0.5."),
    ] = None,
    engine: Annotated[
        str | None, typer.Option("--engine", help="auto, exact, numpyro or pymc (auto).")
    ] = None,
    draws: o.Draws = None,
    tune: o.Tune = None,
    chains: o.Chains = None,
    target_accept: Annotated[
        float | None, typer.Option("--target-accept", help="Of NUTS (0.95).")
    ] = None,
    seed: o.Seed = None,
    allow_unconverged: o.AllowUnconverged = False,
    json: o.Json = False,
    out: o.Out = None,
    quiet: o.Quiet = False,
) -> None:
    """Take the language x backbone interaction off, and say what that is worth."""
    with answering():
        from bayesjudge.calibration.asking import Asked
        from bayesjudge.cli.calibration import run_calibrate

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
        run_calibrate(
            source,
            reading,
            by,
            Asked(between, ci_prob, rope, proxy_sd, splits, resamples, seed or 0),
            closed_form,
            o.SamplingOptions(model, prior, engine, draws, tune, chains, target_accept, seed),
            o.OutputOptions(json, out, quiet, allow_unconverged),
        )


app.command()(plan)
app.command()(assign)


@app.command()
def audit(
    source: o.Sources,
    column: Annotated[
        list[str] | None,
        typer.Option(
            "--column",
            metavar="ROLE=COLUMN",
            help="Which column serves as what; also pair, nll, n_tokens, web_share, resource, "
            "verdict_tag, parse_ok, lid_language, text, and n and sd of cell means.",
            rich_help_panel="The table",
        ),
    ] = None,
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
    failure: Annotated[
        list[str] | None,
        typer.Option("--failure", metavar="TAG", help="A verdict tag that means failure."),
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option("--only", metavar="KEY", help="An analysis to make, by its JSON key (all)."),
    ] = None,
    answers: Annotated[
        str | None,
        typer.Option("--answers", help="Of pairs: rejected, chosen or both (rejected)."),
    ] = None,
    quantile: Annotated[
        float | None, typer.Option("--quantile", help="Of scores: the threshold (0.5).")
    ] = None,
    held_out: Annotated[
        float | None, typer.Option("--held-out", help="Scenarios that set it (0.5).")
    ] = None,
    margin: Annotated[
        float | None, typer.Option("--margin", help="Of acceptance; less counts as none (0.05).")
    ] = None,
    target: Annotated[
        float | None, typer.Option("--target", help="Rate of thresholds by language (1 - quantile)")
    ] = None,
    permutations: Annotated[
        int | None, typer.Option("--permutations", help="Of languages within scenarios (999).")
    ] = None,
    posterior: Annotated[
        str | None, typer.Option("--posterior", help="auto, model, items or none (auto).")
    ] = None,
    draws: o.Draws = None,
    seed: o.Seed = None,
    ci_prob: Annotated[
        float | None, typer.Option("--ci-prob", help="Probability of the intervals (0.95).")
    ] = None,
    json: o.Json = False,
    out: Annotated[
        str | None, typer.Option("--out", metavar="DIR", help="A folder for tables and report.")
    ] = None,
    quiet: o.Quiet = False,
) -> None:
    """Say what the language of an item does to its scores, and to decisions by them."""
    with answering():
        from bayesjudge.cli.auditing import run_audit

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
        asked = {
            "answers": answers,
            "quantile": quantile,
            "held_out": held_out,
            "margin": margin,
            "target": target,
            "permutations": permutations,
            "posterior": posterior,
            "draws": draws,
            "seed": seed,
            "ci_prob": ci_prob,
            "only": only,
        }
        run_audit(source, reading, by, asked, failure, o.OutputOptions(json, out, quiet))


@app.command()
def convert(
    source: o.Sources,
    out: Annotated[
        str,
        typer.Option("--out", metavar="FILE", help="Ends in .csv, .jsonl or .parquet."),
    ],
    format: o.FormatOption = None,  # noqa: A002
    constant: Annotated[
        list[str] | None,
        typer.Option(
            "--constant",
            metavar="COL=LABEL",
            help="A column of one label that the source lacks, as backbone=NAME.",
        ),
    ] = None,
    ignore: o.Ignore = None,
    strict: Annotated[bool, typer.Option("--strict", help="Records lost are errors.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the file.")] = False,
    json: o.Json = False,
    quiet: o.Quiet = False,
) -> None:
    """Write tools' logs, or wide tables, as one score table: a row a score.

    Formats, told by the content unless --format names one: inspect, lm-eval, helm,
    promptfoo, promptfoo-csv, deepeval, mlflow, openai-evals, alpaca-eval, mt-bench,
    reward-bench, table; and wide or wide:PATTERN, as wide:{judge}/{criterion}, for a
    column a judge. Dataset folders of Parquet or Arrow are tables.
    """
    with answering():
        from bayesjudge.cli.converting import ConvertOptions, run_convert

        run_convert(
            source, out, ConvertOptions(format, constant, ignore, strict, force), json, quiet
        )


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
