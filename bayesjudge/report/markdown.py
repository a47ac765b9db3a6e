"""Tables as Markdown text, with GitHub's pipes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from bayesjudge import text
from bayesjudge.report.cells import Cells, frame_cells, leaderboard_cells, problems_cells
from bayesjudge.scores.problems import Problem

if TYPE_CHECKING:
    import pandas as pd


def leaderboard_table(
    table: pd.DataFrame,
    *,
    best_set: Sequence[str] = (),
    ci_prob: float = 0.95,
    level: float = 0.95,
    pairwise: pd.DataFrame | None = None,
    wide: bool = True,
    title: str = "",
) -> str:
    """Return a leaderboard as Markdown.

    Parameters
    ----------
    table : DataFrame
        As `bayesjudge.ranking.leaderboard` returns it.
    best_set, ci_prob, level, pairwise, wide
        As `bayesjudge.report.cells.leaderboard_cells`.
    title : str
        Set in bold above; empty for none.

    Returns
    -------
    str
        Ends in a newline; labels are escaped.
    """
    cells = leaderboard_cells(
        table, best_set=best_set, ci_prob=ci_prob, level=level, pairwise=pairwise, wide=wide
    )
    return _render(cells, title)


def frame_table(table: pd.DataFrame, title: str = "") -> str:
    """Return any table of results as Markdown.

    Parameters
    ----------
    table : DataFrame
        Shown without its index.
    title : str
        Set in bold above; empty for none.
    """
    return _render(frame_cells(table), title)


def problems_table(problems: Sequence[Problem], title: str = "") -> str:
    """Return findings as Markdown.

    Parameters
    ----------
    problems : sequence of Problem
        In the order given.
    title : str
        Set in bold above; empty for none.
    """
    return _render(problems_cells(problems), title)


def cells_table(cells: Cells, title: str = "") -> str:
    """Return cells as Markdown.

    Parameters
    ----------
    cells : Cells
    title : str
        Set in bold above; empty for none.
    """
    return _render(cells, title)


def _render(cells: Cells, title: str) -> str:
    lines = [_row(cells.headers), _row(["---:" if n else ":---" for n in cells.numeric], raw=True)]
    lines += [_row(row) for row in cells.rows]
    blocks = [f"**{text.markdown(title)}**"] if title else []
    blocks.append("\n".join(lines))
    blocks += [text.markdown(note) for note in cells.notes]
    return "\n\n".join(blocks) + "\n"


def _row(row: Sequence[str], raw: bool = False) -> str:
    return "| " + " | ".join(cell if raw else text.markdown(cell).strip() for cell in row) + " |"
