"""Tables as HTML, from the cells that terminal and Markdown draw from too."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from bayesjudge.report import numbers
from bayesjudge.report.cells import Cells
from bayesjudge.report.page.contents import (
    Components,
    Curve,
    DesignCurves,
    Matrix,
    Predictive,
    records,
)
from bayesjudge.report.page.pictures import cell_text
from bayesjudge.text import html

# Letters from which a cell may break inside words.
_LONG = 30


def table(
    cells: Cells,
    caption: str,
    *,
    name: str = "",
    heads: str = "",
    wide: Collection[str] = (),
    marked: Collection[int] = (),
    keys: Sequence[str] = (),
) -> str:
    """Return a table that a script can sort.

    Parameters
    ----------
    cells : Cells
    caption : str
        Read aloud, and shown.
    name : str
        Its id.
    heads : str
        Heading of the column that names the row; the first by default.
    wide : collection of str
        Headings of columns that a phone does without.
    marked : collection of int
        Rows to point out.
    keys : sequence of str
        Text by which rows are found, one a row.
    """
    head = heads or cells.headers[0]
    kinds = [
        " ".join(kind for kind, here in (("n", numeric), ("wide", header in wide)) if here)
        for header, numeric in zip(cells.headers, cells.numeric, strict=True)
    ]
    said = [f'<div class="scroll" tabindex="0" role="region" aria-label="{html(caption)}">']
    said.append(f'<table class="sortable"{_id(name)}><caption>{html(caption)}</caption><thead><tr>')
    said += [
        f'<th{_class(kind)} scope="col"><bdi dir="auto">{html(header)}</bdi></th>'
        for header, kind in zip(cells.headers, kinds, strict=True)
    ]
    said.append("</tr></thead><tbody>")
    for at, row in enumerate(cells.rows):
        state = " ".join(
            kind for kind, here in (("break", at in cells.breaks), ("marked", at in marked)) if here
        )
        key = f' data-key="{html(keys[at])}"' if keys else ""
        said.append(f"<tr{_class(state)}{key}>")
        for header, kind, cell in zip(cells.headers, kinds, row, strict=True):
            shown = html(cell) if "n" in kind.split() else f'<bdi dir="auto">{html(cell)}</bdi>'
            if len(cell) > _LONG:
                kind = f"{kind} long".strip()
            if header == head:
                said.append(f'<th{_class(kind)} scope="row">{shown}</th>')
            else:
                said.append(f"<td{_class(kind)}>{shown}</td>")
        said.append("</tr>")
    said.append("</tbody></table></div>")
    said += [f'<p class="note">{html(note)}</p>' for note in cells.notes]
    return "".join(said)


def _class(kind: str) -> str:
    return f' class="{kind}"' if kind else ""


def _id(name: str) -> str:
    return f' id="{name}"' if name else ""


def matrix_cells(found: Matrix) -> Cells:
    """Return a matrix as a table."""
    known = found.values[np.isfinite(found.values)]
    decimals = numbers.decimals_for(np.abs(known) / 20)
    rows = tuple(
        (label, *(cell_text(value, found.kind, decimals) for value in row))
        for label, row in zip(found.rows, found.values, strict=True)
    )
    return Cells(
        headers=(found.row_name, *found.columns),
        numeric=(False, *(True for _ in found.columns)),
        rows=rows,
    )


def component_cells(found: Components) -> Cells:
    """Return variance components, posterior and closed form side by side."""
    table = found.table
    closed = not found.closed
    headers = ["term", "variance", "interval", "share"]
    if closed:
        headers += ["closed form", "its interval", "its share", "they"]
    rows = []
    for one in records(table):
        row = [
            one["term"],
            numbers.significant(one["variance"], 3),
            _range(one["ci_lower"], one["ci_upper"]),
            _share(one["share"]),
        ]
        if closed:
            row += [
                numbers.significant(one["closed_variance"], 3),
                _range(one["closed_ci_lower"], one["closed_ci_upper"]),
                _share(one["closed_share"]),
                _agreement(one["differs"], one["closed_variance"]),
            ]
        rows.append(tuple(row))
    numeric = [name not in ("term", "they") for name in headers]
    return Cells(tuple(headers), tuple(numeric), tuple(rows))


def _agreement(differs: bool, closed: float) -> str:
    if np.isnan(closed):
        return numbers.NULL
    return "disagree" if differs else "agree"


def _share(value: float) -> str:
    return numbers.NULL if np.isnan(value) else f"{100 * value:.1f} %"


def _range(lower: float, upper: float) -> str:
    if np.isnan(lower) or np.isnan(upper):
        return numbers.NULL
    return f"[{numbers.significant(lower, 3)}, {numbers.significant(upper, 3)}]"


def design_cells(found: DesignCurves) -> Cells:
    """Return the curves of a decision study as a table."""
    rows = []
    parts = zip(found.difference, found.generalizability, found.dependability, strict=True)
    for error, relative, absolute in parts:
        for i, n in enumerate(error.x):
            rows.append(
                (
                    error.label,
                    f"{n:.0f}",
                    _with_range(error, i),
                    _with_range(relative, i),
                    _with_range(absolute, i),
                )
            )
    return Cells(
        (
            "judges",
            "scenarios",
            "sd of a difference",
            "generalizability (relative)",
            "dependability (absolute)",
        ),
        (False, True, True, True, True),
        tuple(rows),
    )


def _with_range(curve: Curve, i: int) -> str:
    return f"{numbers.significant(curve.y[i], 3)} {_range(curve.lower[i], curve.upper[i])}"


def predictive_cells(found: Predictive) -> Cells:
    """Return observed and predicted means and sds by judge."""
    rows = []
    for judge in found.judges:
        row = [judge.label, f"{judge.n_scores:,}"]
        outside = []
        for name in ("mean", "sd"):
            seen, expected, lower, upper = judge.numbers[name]
            row += [
                numbers.significant(seen),
                f"{numbers.significant(expected)} {_range(lower, upper)}",
            ]
            if not lower <= seen <= upper:
                outside.append(name)
        row.append(" and ".join(outside) or "nothing")
        rows.append(tuple(row))
    return Cells(
        (found.facet, "scores", "mean", "predicted mean", "sd", "predicted sd", "outside"),
        (False, True, True, True, True, True, False),
        tuple(rows),
    )
