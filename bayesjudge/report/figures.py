"""Figures on matplotlib, from what a page shows; pyplot and its global state are not touched.

Each function draws one figure on the axes it is given, or on a new figure, and returns
the axes. Labels are text: dollar signs and backslashes in them set no formulas.
"""

from __future__ import annotations

import io
import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bayesjudge.errors import UsageError
from bayesjudge.report import numbers
from bayesjudge.report.page.contents import (
    Absent,
    Components,
    Contents,
    Curve,
    DesignCurves,
    Languages,
    Matrix,
    Predictive,
    Standing,
)
from bayesjudge.report.page.pictures import cell_text
from bayesjudge.report.page.svg import BLUE, ORANGE, tint
from bayesjudge.text import visible

if TYPE_CHECKING:
    from matplotlib.axes import Axes

type Floats = NDArray[np.float64]

BLUE_HEX = "#{:02x}{:02x}{:02x}".format(*BLUE)
ORANGE_HEX = "#{:02x}{:02x}{:02x}".format(*ORANGE)
GREEN_HEX = "#00755a"
_LINES = ((BLUE_HEX, "-"), (ORANGE_HEX, "--"), (GREEN_HEX, ":"))
_NUMBERED = 12
_LONGEST = 28
_ACROSS = 4
_DPI = 150


def new_axes(width: float, height: float, axes: Axes | None = None) -> Axes:
    """Return the axes to draw on: those given, or of a new figure of so many inches.

    Raises
    ------
    UsageError
        Where matplotlib is not installed.
    """
    if axes is not None:
        return axes
    found: Axes = _figure(width, height).subplots()
    return found


def _figure(width: float, height: float) -> Any:
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise UsageError(
            "figures need matplotlib, which is not installed",
            "extra report",
            'Install it: uv sync --extra report, or pip install "bayesjudge[report]"',
        ) from error
    return Figure(figsize=(width, height), layout="constrained")


def _small_axes(count: int, height: float) -> list[Axes]:
    across = min(count, _ACROSS if count <= 4 * _ACROSS else 2 * _ACROSS)
    down = math.ceil(count / across)
    grid = _figure(2.6 * across, height * down + 0.2).subplots(
        down, across, sharex=True, sharey=True, squeeze=False
    )
    flat = list(grid.ravel())
    for unused in flat[count:]:
        unused.set_axis_off()
    return flat[:count]


def _name(label: str) -> str:
    shown = visible(label)
    return shown if len(shown) <= _LONGEST else shown[: _LONGEST - 1] + "…"


def _plainly(axes: Axes) -> None:
    """Take formulas out of everything that users named."""
    for text in (axes.title, *axes.get_xticklabels(), *axes.get_yticklabels()):
        text.set_parse_math(False)
    legend = axes.get_legend()
    for text in legend.get_texts() if legend is not None else ():
        text.set_parse_math(False)


def draw_forest(board: Standing, axes: Axes | None = None) -> Axes:
    """Draw means with intervals, best on top; filled diamonds are the best set."""
    table = board.table
    ax = new_axes(7, 1.2 + 0.28 * len(table), axes)
    y = np.arange(len(table))
    ax.hlines(y, table["ci_lower"], table["ci_upper"], color=BLUE_HEX, lw=2)
    best = table["backbone"].isin(board.best_set).to_numpy()
    means = table["mean"].to_numpy(float)
    ax.plot(means[best], y[best], "D", color=BLUE_HEX, ms=7)
    ax.plot(means[~best], y[~best], "o", color=BLUE_HEX, mfc="white", ms=6)
    tiers = table["tier"].to_numpy()
    for at in np.flatnonzero(np.diff(tiers)) + 0.5:
        ax.axhline(at, color="0.6", lw=0.8, ls="--")
    ax.set_yticks(y, [_name(label) for label in table["backbone"]])
    ax.set_ylim(len(table) - 0.5, -0.5)
    said = numbers.percent(board.ci_prob)
    ax.set_xlabel(f"{board.unit}, {said} interval (diamonds: the best set)")
    ax.set_ylabel("backbone")
    _plainly(ax)
    return ax


def draw_matrix(found: Matrix, axes: Axes | None = None) -> Axes:
    """Draw a matrix as tinted cells, numbered where there is room."""
    n, m = found.values.shape
    width = 2.2 + max(0.12, min(0.55, 8 / m)) * m
    height = 1.6 + max(0.1, min(0.32, 8 / n)) * n
    ax = new_axes(width, height, axes)
    tints = tint(found.values, found.kind)
    tints[..., :3] /= 255
    ax.imshow(tints, aspect="auto", interpolation="nearest")
    rows, columns = _some(n), _some(m)
    ax.set_yticks(rows, [_name(found.rows[i]) for i in rows])
    upright = found.column_name == "rank"
    ax.set_xticks(
        columns,
        [_name(found.columns[i]) for i in columns],
        rotation=0 if upright else 55,
        ha="center" if upright else "right",
        rotation_mode="anchor",
    )
    ax.set_xlabel(found.column_name)
    ax.set_ylabel(found.row_name)
    ax.set_title(f"{found.name}: {found.unit}", fontsize="medium")
    if m <= _NUMBERED and n <= 3 * _NUMBERED:
        known = found.values[np.isfinite(found.values)]
        decimals = numbers.decimals_for(np.abs(known) / 20)
        for i in range(n):
            for j in range(m):
                said = cell_text(found.values[i, j], found.kind, decimals)
                ax.text(j, i, said, ha="center", va="center", fontsize="small")
    for i, j in found.marked:
        ax.add_patch(_outline(j - 0.5, i - 0.5))
    _plainly(ax)
    return ax


def _outline(x: float, y: float) -> Any:
    from matplotlib.patches import Rectangle

    return Rectangle((x, y), 1, 1, fill=False, lw=2, ec="black")


def _some(n: int) -> list[int]:
    return list(range(0, n, math.ceil(n / 60)))


def draw_rankograms(found: Matrix) -> NDArray[Any]:
    """Draw P(rank) of each backbone as bars, a panel each."""
    ranks = np.arange(1, found.values.shape[1] + 1)
    grid = _small_axes(len(found.rows), 1.7)
    for ax, label, row in zip(grid, found.rows, found.values, strict=True):
        ax.bar(ranks, row, color=BLUE_HEX, width=0.85)
        ax.set_title(_name(label), fontsize="small")
    grid[0].set_xticks(_few(ranks))
    return _labelled(grid, "rank", "P(rank)")


def draw_cumulative(found: Matrix, sucra: Mapping[str, float]) -> NDArray[Any]:
    """Draw P(rank or better) of each backbone, its SUCRA in the title, a panel each."""
    ranks = np.arange(1, found.values.shape[1] + 1)
    grid = _small_axes(len(found.rows), 1.7)
    for ax, label, row in zip(grid, found.rows, found.values, strict=True):
        total = np.cumsum(row)
        ax.fill_between(ranks, total, step="mid", color=BLUE_HEX, alpha=0.2)
        ax.step(ranks, total, where="mid", color=BLUE_HEX)
        ax.set_title(f"{_name(label)}, SUCRA {numbers.number(sucra[label], 2)}", fontsize="small")
    grid[0].set_xticks(_few(ranks))
    grid[0].set_ylim(0, 1.03)
    return _labelled(grid, "rank", "P(rank or better)")


def _few(ranks: NDArray[np.int64]) -> list[int]:
    """Return the ranks to name: all of a few, else the first, the middle one and the last."""
    k = int(ranks[-1])
    return list(range(1, k + 1)) if k <= 8 else [1, (k + 1) // 2, k]


def _labelled(grid: Sequence[Axes], x: str, y: str) -> NDArray[Any]:
    """Name the axes of panels, one name a figure, and return them as an array."""
    for ax in grid:
        _plainly(ax)
    figure = grid[0].figure
    figure.supxlabel(x, fontsize="medium")
    figure.supylabel(y, fontsize="medium")
    return np.array(grid, dtype=object)


def draw_languages(found: Languages) -> NDArray[Any]:
    """Draw ranks by language, raw and adjusted, side by side."""
    n, m = found.raw.values.shape
    figure = _figure(2 * (1.6 + 0.45 * min(m, 16)), 1.8 + 0.3 * min(n, 40))
    grid = figure.subplots(1, 2, sharey=True)
    draw_matrix(found.raw, grid[0])
    draw_matrix(found.adjusted, grid[1])
    grid[1].set_ylabel("")
    for ax, name in zip(grid, ("raw", "adjusted"), strict=True):
        ax.set_title(f"Rank in the language, {name}", fontsize="medium")
    return np.asarray(grid, dtype=object)


def draw_components(found: Components, axes: Axes | None = None) -> Axes:
    """Draw variances with intervals: the posterior's, and the closed form's beneath."""
    table = found.table
    ax = new_axes(7, 1.4 + 0.38 * len(table), axes)
    y = np.arange(len(table))
    ax.hlines(y - 0.12, table["ci_lower"], table["ci_upper"], color=BLUE_HEX, lw=2)
    ax.plot(table["variance"], y - 0.12, "o", color=BLUE_HEX, label="posterior")
    if not found.closed:
        ax.hlines(y + 0.18, table["closed_ci_lower"], table["closed_ci_upper"], color=ORANGE_HEX)
        ax.plot(table["closed_variance"], y + 0.18, "s", color=ORANGE_HEX, label="closed form")
    ax.set_xscale("symlog", linthresh=float(table["variance"].max()) / 1000 or 1.0)
    ax.set_xlim(left=0)
    ax.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    ax.set_yticks(y, [_name(term) for term in table["term"]])
    ax.set_ylim(len(table) - 0.5, -0.5)
    ax.set_xlabel(f"variance, in squares of the {found.unit} (logarithmic but near 0)")
    ax.set_ylabel("term")
    ax.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2, frameon=False)
    _plainly(ax)
    return ax


def draw_design(found: DesignCurves) -> NDArray[Any]:
    """Draw the sd of a difference and both coefficients against scenarios."""
    grid = _figure(11, 3.6).subplots(1, 3)
    named: tuple[tuple[Sequence[Curve], str], ...] = (
        (found.difference, f"sd of a difference ({found.unit})"),
        (found.generalizability, "generalizability (relative)"),
        (found.dependability, "dependability (absolute)"),
    )
    for ax, (curves, name) in zip(grid, named, strict=True):
        for curve, (colour, dashes) in zip(curves, _LINES, strict=False):
            ax.fill_between(curve.x, curve.lower, curve.upper, color=colour, alpha=0.13, lw=0)
            ax.plot(curve.x, curve.y, color=colour, ls=dashes, label=curve.label)
        ax.axvline(found.now, color="0.5", ls=":", lw=1)
        ax.set_xlabel("scenarios (dotted: this table)")
        ax.set_ylabel(name)
    grid[0].set_ylim(bottom=0)
    grid[0].legend(frameon=False, fontsize="small")
    return np.asarray(grid, dtype=object)


def draw_predictive(found: Predictive) -> NDArray[Any]:
    """Draw shares of scores, seen (bars) and predicted (points), a panel a judge."""
    grid = _small_axes(len(found.judges), 2.0)
    middle = (found.edges[:-1] + found.edges[1:]) / 2
    width = 0.9 * np.diff(found.edges)
    for ax, judge in zip(grid, found.judges, strict=True):
        ax.bar(middle, judge.observed, width, color="0.75", label="seen")
        ax.vlines(middle, judge.lower, judge.upper, color=BLUE_HEX)
        ax.plot(middle, judge.expected, "o", color=BLUE_HEX, ms=3, label="predicted")
        ax.set_title(_name(judge.label), fontsize="small")
    grid[0].legend(frameon=False, fontsize="x-small")
    return _labelled(grid, "score", "share of the scores")


def drawn(contents: Contents) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield the name of each figure that there is, and what draws it."""
    board = contents.standing
    sucra = dict(zip(board.table["backbone"], board.table["sucra"], strict=True))
    judges, languages = contents.judges, contents.languages
    design, predictive = contents.design, contents.predictive
    yield "forest", lambda: draw_forest(board)
    yield "rank_heatmap", lambda: draw_matrix(contents.ranks)
    yield "rankograms", lambda: draw_rankograms(contents.ranks)
    yield "cumulative_ranks", lambda: draw_cumulative(contents.ranks, sucra)
    if isinstance(contents.pairwise, Matrix):
        pairs = contents.pairwise
        yield "pairwise", lambda: draw_matrix(pairs)
    if not isinstance(judges, Absent) and isinstance(judges.offsets, Matrix):
        offsets = judges.offsets
        yield "judge_offsets", lambda: draw_matrix(offsets)
    if not isinstance(languages, Absent):
        yield "language_ranks", lambda: draw_languages(languages)
    yield "variance_components", lambda: draw_components(contents.components)
    if not isinstance(design, Absent):
        yield "decision_study", lambda: draw_design(design)
    if not isinstance(predictive, Absent):
        yield "predicted_scores", lambda: draw_predictive(predictive)


def figure_files(contents: Contents) -> dict[str, bytes]:
    """Return each figure as PNG and as SVG, by name of file (of ``FIGURE_FILES``).

    The same contents give the same bytes. Letters stay text in SVG.

    Raises
    ------
    UsageError
        Where matplotlib is not installed.
    """
    files: dict[str, bytes] = {}
    for name, draw in drawn(contents):
        found = draw()
        first = found.flat[0] if isinstance(found, np.ndarray) else found
        files[f"figures/{name}.png"] = image(first.figure, "png")
        files[f"figures/{name}.svg"] = image(first.figure, "svg")
    return files


def image(figure: Any, kind: str) -> bytes:
    """Return a figure as ``png`` or ``svg``."""
    import matplotlib as mpl

    out = io.BytesIO()
    fixed: Any = {"svg.hashsalt": "bayesjudge", "svg.fonttype": "none"}
    metadata = {"Date": None} if kind == "svg" else {"Software": None}
    with mpl.rc_context(fixed), warnings.catch_warnings():
        # Letters that matplotlib's font lacks are boxes in a PNG; the page has them.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        warnings.filterwarnings("ignore", message="Matplotlib currently does not support")
        figure.savefig(out, format=kind, dpi=_DPI, metadata=metadata)
    return out.getvalue()


def has_matplotlib() -> bool:
    """Whether figures can be drawn."""
    from importlib.util import find_spec

    return find_spec("matplotlib") is not None
