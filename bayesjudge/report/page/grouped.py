"""The page over several leaderboards, one a level of a column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bayesjudge.report import numbers
from bayesjudge.report.cells import Cells
from bayesjudge.report.page import tables
from bayesjudge.report.page.names import PAGE
from bayesjudge.report.page.rendering import document
from bayesjudge.text import html


def groups_page(
    by: str, rows: Sequence[Mapping[str, str]], groups: Mapping[str, Any], title: str = ""
) -> str:
    """Return a page that leads to the page of each level.

    Parameters
    ----------
    by : str
        Column that the table was split by.
    rows : sequence of mappings
        ``level``, ``folder``, ``status``, ``message``; the folder of a level that failed
        is empty.
    groups : mapping of str to object
        Level to its result object.
    title : str
    """
    heading = f"Leaderboards by {by}" + (f": {title}" if title else "")
    links = []
    for row in rows:
        label = f'<bdi dir="auto">{html(row["level"])}</bdi>'
        if row["folder"]:
            label = f'<a href="{html(row["folder"])}/{PAGE}">{label}</a>'
        said = html(row["message"] or row["status"])
        links.append(f'<li>{label}: <bdi dir="auto">{said}</bdi></li>')
    cells = Cells(
        (by, "backbones", "scores", "best set", "mean of the first", "status"),
        (False, True, True, False, True, False),
        tuple(_row(row, groups[row["level"]]) for row in rows),
    )
    laid = tables.table(cells, f"One leaderboard for each level of {by}")
    body = (
        f'<main id="content"><section aria-labelledby="pages"><h2 id="pages">Pages</h2>'
        f"<ul>{''.join(links)}</ul></section>"
        '<section aria-labelledby="all"><h2 id="all">At a glance</h2>'
        f"{laid}</section></main>"
    )
    return document(heading, body, {"matrices": {}})


def _row(row: Mapping[str, str], found: Mapping[str, Any]) -> tuple[str, ...]:
    if "leaderboard" not in found:
        return (row["level"], *[numbers.NULL] * 4, row["status"])
    import pandas as pd

    board = pd.DataFrame(found["leaderboard"])
    first = board.iloc[0]
    return (
        row["level"],
        str(len(board)),
        f"{found['meta']['n_scores']:,}",
        ", ".join(found["best_set"]),
        numbers.number(float(first["mean"]), numbers.decimals_for(board["sd"])),
        row["status"],
    )
