"""The program: its commands in the order of the user's day."""

from __future__ import annotations

from typing import Annotated

import typer

from bayesjudge.cli.analysis_commands import anova, audit, calibrate
from bayesjudge.cli.judge_commands import judge
from bayesjudge.cli.plan_commands import assign, plan
from bayesjudge.cli.rank_commands import compare, demo, rank
from bayesjudge.cli.report_commands import report
from bayesjudge.cli.store_commands import append, store
from bayesjudge.cli.table_commands import convert, models, simulate, validate

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


for _command in (
    demo,
    plan,
    assign,
    judge,
    convert,
    validate,
    append,
    store,
    rank,
    compare,
    anova,
    calibrate,
    audit,
    report,
    models,
    simulate,
):
    app.command()(_command)
