"""``anova``, ``calibrate`` and ``audit`` and their options.

What they do is imported when they are called.
"""

from __future__ import annotations

from typing import Annotated

import typer

from bayesjudge.cli import options as o
from bayesjudge.cli.messages import answering

_PANEL = "The panel of judges"


def anova(
    source: o.Sources,
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
            moments,
        )
        panel = PanelOptions(own, panel_size, design, strategies, budget, subsamples, seed)
        groups = o.ByOptions(by, workers, resume)
        run_anova(source, reading, groups, model, ci_prob, panel, o.OutputOptions(json, out, quiet))


def calibrate(
    source: o.Sources,
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
        str | None, typer.Option("--engine", help="auto, exact, laplace, numpyro or pymc (auto).")
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
            moments,
        )
        run_calibrate(
            source,
            reading,
            o.ByOptions(by, workers, resume),
            Asked(between, ci_prob, rope, proxy_sd, splits, resamples, seed or 0),
            closed_form,
            o.SamplingOptions(model, prior, engine, draws, tune, chains, target_accept, seed),
            o.OutputOptions(json, out, quiet, allow_unconverged),
        )


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
            moments,
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
        groups = o.ByOptions(by, workers, resume)
        run_audit(source, reading, groups, asked, failure, o.OutputOptions(json, out, quiet))
