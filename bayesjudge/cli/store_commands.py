"""``append`` and ``store`` and their options.

What they do is imported when they are called.
"""

from __future__ import annotations

from typing import Annotated

import typer

from bayesjudge.cli import options as o
from bayesjudge.cli.messages import answering

Folder = Annotated[
    str, typer.Argument(metavar="STORE", help="The store's folder.", show_default=False)
]


def append(
    store: Folder,
    source: o.Sources,
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
    format: o.FormatOption = None,  # noqa: A002
    again: Annotated[
        bool,
        typer.Option("--again", help="Append what was appended before: repeated calls that agree."),
    ] = False,
    json: o.Json = False,
    quiet: o.Quiet = False,
) -> None:
    """Add a day's scores to a store, which rank then answers from.

    The first append makes the folder and says how sources are read: its options are
    kept. Later ones need none; --column, --ignore, --strict and --format may differ.
    All of a source is appended or, on an error or a crash, nothing.
    """
    with answering():
        from bayesjudge.cli.score_stores import run_append

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
        run_append(store, source, reading, again, json, quiet)


def store(
    store: Folder,
    json: o.Json = False,
) -> None:
    """Say what a store of scores holds, and what was appended to it when."""
    with answering():
        from bayesjudge.cli.score_stores import run_store

        run_store(store, json)
