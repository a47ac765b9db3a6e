"""``validate``, ``convert``, ``models`` and ``simulate`` and their options.

What they do is imported when they are called.
"""

from __future__ import annotations

from typing import Annotated

import typer

from bayesjudge.cli import options as o
from bayesjudge.cli.messages import answering


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
    """Say what a table holds, what rank can answer of it, and what is wrong with it."""
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
    stream: Annotated[
        bool,
        typer.Option("--stream", help="Write Parquet in pieces: rows that memory does not hold."),
    ] = False,
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
            unit, location, scale, missing_fraction, one_judge, seed, stream,
        )  # fmt: skip
        run_simulate(file, given, truth, force, json)
