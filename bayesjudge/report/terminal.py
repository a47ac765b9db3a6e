"""Tables for people at a terminal, as Rich renderables.

Text goes in as `rich.text.Text`, never as markup, so that a label cannot style,
link or replace anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich import box
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from bayesjudge.report.cells import Cells, frame_cells, leaderboard_cells, problems_cells
from bayesjudge.scores.problems import Problem
from bayesjudge.text import visible

if TYPE_CHECKING:
    import pandas as pd

WIDE = 110
_TIER_STYLES = ("bold", "", "dim")
_SEVERITY_STYLES = {"error": "bold red", "warning": "yellow", "note": "cyan"}


def leaderboard_table(
    table: pd.DataFrame,
    *,
    best_set: Sequence[str] = (),
    ci_prob: float = 0.95,
    level: float = 0.95,
    pairwise: pd.DataFrame | None = None,
    title: str = "",
) -> RenderableType:
    """Return a leaderboard that fits 80 columns and shows more from 110 on.

    Parameters
    ----------
    table : DataFrame
        As `bayesjudge.ranking.leaderboard` returns it.
    best_set : sequence of str
        Marked with a star.
    ci_prob : float
        Probability of the intervals, for the heading.
    level : float
        Probability of the best set, and P(beats) from which neighbours are told
        apart.
    pairwise : DataFrame or None
        P(row beats column), labelled; without it nothing is said on neighbours.
    title : str
        Above the table; empty for none.

    Returns
    -------
    Rich renderable
        Tiers are parted by a line; notes stand beneath.
    """
    narrow, wide = (
        leaderboard_cells(
            table, best_set=best_set, ci_prob=ci_prob, level=level, pairwise=pairwise, wide=wide
        )
        for wide in (False, True)
    )
    return _ByWidth(_leaderboard(narrow, title), _leaderboard(wide, title))


def frame_table(table: pd.DataFrame, title: str = "") -> RenderableType:
    """Return any table of results, without its index.

    Parameters
    ----------
    table : DataFrame
        Digits as in `bayesjudge.report.cells.frame_cells`.
    title : str
        Above the table; empty for none.
    """
    return _draw(frame_cells(table), title)


def problems_table(problems: Sequence[Problem], title: str = "") -> RenderableType:
    """Return findings about a table, coloured by severity.

    Parameters
    ----------
    problems : sequence of Problem
        In the order given.
    title : str
        Above the table; empty for none.
    """
    styles = [_SEVERITY_STYLES[problem.severity] for problem in problems]
    return _draw(problems_cells(problems), title, first_styles=styles)


@dataclass(frozen=True)
class _ByWidth:
    """Shows one of two renderables, by the width there is."""

    narrow: RenderableType
    wide: RenderableType

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield self.wide if options.max_width >= WIDE else self.narrow


def _leaderboard(cells: Cells, title: str) -> RenderableType:
    group = 0
    styles = []
    for at in range(len(cells.rows)):
        group += at in cells.breaks
        styles.append(_TIER_STYLES[min(group, len(_TIER_STYLES) - 1)])
    return _draw(cells, title, row_styles=styles)


def _draw(
    cells: Cells,
    title: str,
    row_styles: Sequence[str] = (),
    first_styles: Sequence[str] = (),
) -> RenderableType:
    table = Table(
        box=box.SIMPLE_HEAD,
        title=Text(visible(title), style="bold") if title else None,
        title_justify="left",
        pad_edge=False,
        padding=(0, 1, 0, 0),
    )
    for name, numeric in zip(cells.headers, cells.numeric, strict=True):
        table.add_column(
            Text(visible(name)),
            justify="right" if numeric else "left",
            # Too narrow a window breaks numbers over lines; it never cuts them.
            overflow="fold",
        )
    for at, row in enumerate(cells.rows):
        if at in cells.breaks:
            table.add_section()
        shown = [Text(visible(cell)) for cell in row]
        if first_styles:
            shown[0].stylize(first_styles[at])
        table.add_row(*shown, style=row_styles[at] if row_styles else None)
    return Group(table, *(Text(visible(note), style="dim") for note in cells.notes))
