"""The figures of a page as SVG, whole without a script."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from bayesjudge.report import numbers
from bayesjudge.report.page import svg
from bayesjudge.report.page.contents import (
    Components,
    Curve,
    Matrix,
    Predicted,
    Standing,
    records,
)
from bayesjudge.text import html

type Floats = NDArray[np.float64]

_LONGEST = 24
_LETTER = 7.3
# Widths of figures that there are two of, for desks and for hands.
WIDE, NARROW = 640.0, 350.0
# Cells up to which each is a rectangle of its own; more are one image.
_MOST_CELLS = 900
_MOST_NUMBERED = 12
# Dash patterns and marks that tell lines apart where colours do not.
LINES = ("line-a", "line-b", "line-c")


def label_width(labels: Sequence[str], longest: int = _LONGEST) -> float:
    """Return the room that labels need, cut off at so many letters."""
    return 14 + _LETTER * min(max((len(label) for label in labels), default=0), longest)


def forest(board: Standing, width: float = WIDE) -> str:
    """Return means with intervals, a row a backbone, a line between tiers."""
    table = board.table
    labels = list(table["backbone"])
    longest = _longest(width)
    left, row, top = label_width(labels, longest), 24.0, 10.0
    bottom = top + row * len(labels)
    low, high = float(table["ci_lower"].min()), float(table["ci_upper"].max())
    pad = 0.04 * (high - low) or 0.5
    low, high = low - pad, high + pad

    def x(value: float) -> float:
        return left + (value - low) / (high - low) * (width - left - 16)

    body = []
    for tick in svg.ticks(low, high, _ticks(width)):
        body.append(svg.line(x(tick), top, x(tick), bottom, "grid"))
        body.append(svg.text(x(tick), bottom + 16, svg.tick_text(tick), "tick mid"))
    decimals = numbers.decimals_for(table["sd"])
    tiers = list(table["tier"])
    for i, one in enumerate(records(table)):
        y = top + row * (i + 0.5)
        if i and tiers[i] != tiers[i - 1]:
            body.append(svg.line(0, y - row / 2, width, y - row / 2, "tier"))
        body.append(svg.text(left - 8, y + 4, one["backbone"], "label end", longest))
        tip = (
            f"{one['backbone']}: {numbers.number(one['mean'], decimals)} "
            f"{numbers.interval(one['ci_lower'], one['ci_upper'], decimals)}"
        )
        drawn = svg.line(x(one["ci_lower"]), y, x(one["ci_upper"]), y, "interval")
        best = one["backbone"] in board.best_set
        drawn += _mark(x(one["mean"]), y, best)
        body.append(f"<g><title>{html(tip)}</title>{drawn}</g>")
    body.append(svg.text((left + width) / 2, bottom + 36, board.unit, "axis mid"))
    said = (
        f"Forest plot of {len(labels)} backbones: {board.unit} with "
        f"{numbers.percent(board.ci_prob)} intervals; the numbers are in the leaderboard"
    )
    return svg.picture(width, bottom + 44, body, said)


def _longest(width: float) -> int:
    return _LONGEST if width >= WIDE else _LONGEST // 2 + 2


def _ticks(width: float) -> int:
    return 5 if width >= WIDE else 3


def _mark(x: float, y: float, best: bool) -> str:
    if best:
        points = [(x - 6, y), (x, y - 6), (x + 6, y), (x, y + 6)]
        return svg.path(points, "best", close=True)
    return f'<circle cx="{svg.num(x)}" cy="{svg.num(y)}" r="4" class="dot"/>'


def matrix(table: Matrix, key: str) -> str:
    """Return a matrix as tinted cells, with numbers where there is room.

    Attributes tell a script where the cells are; `key` names the numbers in the data.
    """
    n, m = table.values.shape
    square = table.columns == table.rows
    numbered = m <= _MOST_NUMBERED
    w = 46.0 if numbered else max(7.0, min(20.0, 720.0 / m))
    h = 26.0 if n <= 30 else max(7.0, min(20.0, 720.0 / n))
    left = label_width([*table.rows, table.row_name])
    upright = table.column_name == "rank"
    top = 34.0 if upright else 24 + 0.8 * label_width(table.columns)
    right = 12.0 if upright else 0.55 * label_width(table.columns)
    width, height = left + w * m + right, top + h * n + 8
    body = [
        svg.text(left - 8, top - 8, table.row_name, "axis end"),
        svg.text(left + w * m / 2, 12, table.column_name, "axis mid"),
    ]
    body += _row_labels(table.rows, left - 8, top, h)
    body += _column_labels(table.columns, left, top, w, upright)
    tints = svg.tint(table.values, table.kind)
    if n * m > _MOST_CELLS:
        body.append(
            f'<image x="{svg.num(left)}" y="{svg.num(top)}" width="{svg.num(w * m)}" '
            f'height="{svg.num(h * n)}" preserveAspectRatio="none" class="pixels" '
            f'href="{svg.png(tints)}"/>'
        )
    else:
        body += _cells(table, tints, left, top, w, h, numbered)
    body += [
        svg.rect(left + w * c + 1, top + h * r + 1, w - 2, h - 2, 'class="own"')
        for r, c in table.marked
    ]
    frame = svg.rect(left, top, w * m, h * n, 'class="frame"')
    places = (
        f' data-matrix="{key}" data-left="{svg.num(left)}" data-top="{svg.num(top)}" '
        f'data-w="{svg.num(w)}" data-h="{svg.num(h)}"'
    )
    said = f"{table.name}: {n} by {m}, {table.unit}; the numbers follow as a table"
    if square:
        said = f"{table.name}: {n} backbones against each other; the numbers follow as a table"
    return svg.picture(width, height, [*body, frame], said, places)


def _row_labels(labels: Sequence[str], x: float, top: float, h: float) -> list[str]:
    step = max(1, int(np.ceil(11 / h)))
    return [
        svg.text(x, top + h * (i + 0.5) + 4, label, "label end", _LONGEST)
        for i, label in enumerate(labels)
        if i % step == 0
    ]


def _column_labels(
    labels: Sequence[str], left: float, top: float, w: float, upright: bool
) -> list[str]:
    step = max(1, int(np.ceil((16 if upright else 12) / w)))
    said = []
    for i, label in enumerate(labels):
        if i % step:
            continue
        x, y = left + w * (i + 0.5), top - 6
        if upright:
            said.append(svg.text(x, y, label, "tick mid"))
        else:
            turn = f' transform="rotate(-55 {svg.num(x)} {svg.num(y)})"'
            said.append(svg.text(x, y, label, "label", _LONGEST, turn))
    return said


def _cells(
    table: Matrix, tints: Floats, left: float, top: float, w: float, h: float, numbered: bool
) -> list[str]:
    decimals = numbers.decimals_for(np.abs(table.values[np.isfinite(table.values)]) / 20)
    drawn = []
    for r in range(len(table.rows)):
        for c in range(len(table.columns)):
            value, (red, green, blue, alpha) = table.values[r, c], tints[r, c]
            x, y = left + w * c, top + h * r
            if alpha > 0.004:
                fill = f"rgb({red:.0f},{green:.0f},{blue:.0f})"
                drawn.append(svg.rect(x, y, w, h, f'fill="{fill}" fill-opacity="{svg.num(alpha)}"'))
            if numbered:
                said = cell_text(value, table.kind, decimals)
                drawn.append(svg.text(x + w / 2, y + h / 2 + 4, said, "cell mid"))
    return drawn


def cell_text(value: float, kind: str, decimals: int) -> str:
    """Return a number as a matrix shows it."""
    if kind == "probability":
        return numbers.probability(value, 2)
    if kind == "rank":
        return numbers.NULL if np.isnan(value) else f"{value:g}"
    return numbers.number(value, min(decimals, 2))


def rankogram(probabilities: Floats) -> str:
    """Return a small bar chart of P(rank), for one backbone."""
    k = probabilities.size
    w, left, top, bottom = 150.0, 26.0, 8.0, 84.0
    step = (w - left - 4) / k
    bars = "".join(
        f"M{svg.num(left + step * i)} {svg.num(bottom)}v{svg.num(-(bottom - top) * p)}"
        f"h{svg.num(max(step * 0.86, 0.6))}V{svg.num(bottom)}z"
        for i, p in enumerate(probabilities)
        if p >= 0.002
    )
    body = [*_small_axes(left, top, bottom, w, k, "P"), f'<path d="{bars}" class="bar"/>']
    best = int(np.argmax(probabilities))
    said = f"most probable rank {best + 1}, with {numbers.probability(probabilities[best], 2)}"
    return svg.picture(w, 112, body, said)


def cumulative(probabilities: Floats) -> str:
    """Return the curve of P(rank or better), for one backbone; the area beneath is SUCRA."""
    k = probabilities.size
    w, left, top, bottom = 150.0, 26.0, 8.0, 84.0
    step = (w - left - 4) / k
    total = np.clip(np.cumsum(probabilities), 0, 1)
    points = []
    for i, p in enumerate(total):
        y = bottom - (bottom - top) * p
        points += [(left + step * i, y), (left + step * (i + 1), y)]
    area = [(left, bottom), *points, (left + step * k, bottom)]
    body = [
        *_small_axes(left, top, bottom, w, k, "P"),
        svg.path(area, "area", close=True),
        svg.path(points, "line-a"),
    ]
    half = int(np.argmax(total >= 0.5)) + 1
    return svg.picture(w, 112, body, f"rank {half} or better with probability one half or more")


def _small_axes(left: float, top: float, bottom: float, w: float, k: int, name: str) -> list[str]:
    step = (w - left - 4) / k
    return [
        svg.line(left, top, left, bottom, "grid"),
        svg.line(left, bottom, w - 4, bottom, "grid"),
        svg.text(left - 4, top + 8, "1", "tick end"),
        svg.text(left - 4, (top + bottom) / 2 + 4, name, "tick end"),
        svg.text(left - 4, bottom, "0", "tick end"),
        svg.text(left + step / 2, bottom + 13, "1", "tick mid"),
        svg.text((left + w) / 2, bottom + 24, "rank", "tick mid"),
        svg.text(w - 4 - step / 2, bottom + 13, str(k), "tick mid" if step > 12 else "tick end"),
    ]


def curves(
    found: Sequence[Curve], x_name: str, y_name: str, now: float, unit_interval: bool = False
) -> str:
    """Return lines with bands, told apart by dashes as well as by colour."""
    w, h, left, top, right, bottom = 560.0, 300.0, 56.0, 12.0, 12.0, 46.0
    xs = np.concatenate([c.x for c in found])
    ys = np.concatenate([np.concatenate([c.lower, c.upper]) for c in found])
    ys = ys[np.isfinite(ys)]
    x0, x1 = 0.0, float(xs.max()) * 1.02
    y0 = float(min(ys.min(), 1.0)) if unit_interval else 0.0
    y0 = max(0.0, y0 - 0.03) if unit_interval else y0
    y1 = 1.0 if unit_interval else float(ys.max()) * 1.05 or 1.0

    def px(value: float) -> float:
        return left + (value - x0) / (x1 - x0) * (w - left - right)

    def py(value: float) -> float:
        return h - bottom - (value - y0) / (y1 - y0) * (h - top - bottom)

    body = []
    for tick in svg.ticks(y0, y1):
        body.append(svg.line(left, py(tick), w - right, py(tick), "grid"))
        body.append(svg.text(left - 6, py(tick) + 4, svg.tick_text(tick), "tick end"))
    for tick in svg.ticks(x0, x1):
        body.append(svg.text(px(tick), h - bottom + 16, svg.tick_text(tick), "tick mid"))
    body.append(svg.line(px(now), top, px(now), h - bottom, "now"))
    beside = h - bottom - 6 if unit_interval else top + 10
    body.append(svg.text(px(now) + 4, beside, "this table", "tick"))
    for curve, kind in zip(found, LINES, strict=False):
        upper = [(px(a), py(b)) for a, b in zip(curve.x, curve.upper, strict=True)]
        lower = [(px(a), py(b)) for a, b in zip(curve.x, curve.lower, strict=True)]
        body.append(svg.path([*upper, *reversed(lower)], f"band {kind}", close=True))
    for curve, kind in zip(found, LINES, strict=False):
        points = [(px(a), py(b)) for a, b in zip(curve.x, curve.y, strict=True)]
        body.append(svg.path(points, kind))
    body.append(svg.text((left + w) / 2, h - 10, x_name, "axis mid"))
    turn = f' transform="rotate(-90 14 {svg.num(h / 2)})"'
    body.append(svg.text(14, h / 2, y_name, "axis mid", 0, turn))
    return svg.picture(w, h, body, f"{y_name} against {x_name}; the numbers follow as a table")


def key(labels: Sequence[str]) -> str:
    """Return which line is which."""
    items = "".join(
        f'<li><svg width="40" height="10" aria-hidden="true">{svg.line(1, 5, 39, 5, kind)}</svg>'
        f" {html(label)}</li>"
        for label, kind in zip(labels, LINES, strict=False)
    )
    return f'<ul class="key">{items}</ul>'


def shares(found: Components, width: float = WIDE) -> str:
    """Return shares of the variance: bars of the posterior, outlines of the closed form."""
    table = found.table
    labels = list(table["term"])
    longest = _longest(width)
    left, row, top = label_width(labels, longest), 26.0, 6.0
    bottom = top + row * len(labels)
    highest = float(np.nanmax(table[["share", "closed_share"]].to_numpy(float))) or 1.0

    def x(value: float) -> float:
        return left + value / highest * (width - left - 60)

    body = []
    for tick in svg.ticks(0, highest, _ticks(width)):
        body.append(svg.line(x(tick), top, x(tick), bottom, "grid"))
        body.append(svg.text(x(tick), bottom + 16, f"{100 * tick:g}", "tick mid"))
    for i, one in enumerate(records(table)):
        y = top + row * i
        body.append(svg.text(left - 8, y + row / 2 + 4, one["term"], "label end", longest))
        body.append(svg.rect(left, y + 4, x(one["share"]) - left, row - 8, 'class="bar"'))
        end = x(one["share"])
        if np.isfinite(one["closed_share"]):
            wide = max(x(one["closed_share"]) - left, 0.5)
            body.append(svg.rect(left, y + 7, wide, row - 14, 'class="outline"'))
            end = max(end, x(one["closed_share"]))
        said = f"{100 * one['share']:.1f} %"
        body.append(svg.text(end + 6, y + row / 2 + 4, said, "tick"))
    body.append(svg.text((left + width) / 2, bottom + 34, "share of the variance (%)", "axis mid"))
    return svg.picture(
        width, bottom + 42, body, "Shares of the variance by term; the numbers follow as a table"
    )


def predicted(found: Predicted, edges: Floats, names: Sequence[str], highest: float) -> str:
    """Return shares of scores seen (bars) and predicted (points with intervals) of one judge."""
    w, left, top, bottom = 230.0, 34.0, 8.0, 116.0
    n = found.observed.size
    step = (w - left - 6) / n

    def y(value: float) -> float:
        return bottom - value / highest * (bottom - top)

    body = [
        svg.line(left, top, left, bottom, "grid"),
        svg.line(left, bottom, w - 6, bottom, "grid"),
        svg.text(left - 4, top + 8, f"{100 * highest:.0f}", "tick end"),
        svg.text(left - 4, (top + bottom) / 2 + 4, "%", "tick end"),
        svg.text(left - 4, bottom, "0", "tick end"),
        svg.text((left + w) / 2, bottom + 27, "score", "tick mid"),
    ]
    for i in range(n):
        x0 = left + step * i
        share = found.observed[i]
        if share > 0:
            body.append(svg.rect(x0 + 1, y(share), step - 2, bottom - y(share), 'class="seen"'))
        mid = x0 + step / 2
        body.append(svg.line(mid, y(found.lower[i]), mid, y(found.upper[i]), "foretold"))
        body.append(
            f'<circle cx="{svg.num(mid)}" cy="{svg.num(y(found.expected[i]))}" r="2.2" '
            'class="foretold-dot"/>'
        )
    if names:
        skip = max(1, int(np.ceil(20 / step)))
        for i, name in enumerate(names):
            if i % skip == 0:
                body.append(svg.text(left + step * (i + 0.5), bottom + 13, name, "tick mid"))
    else:
        low, high = edges[0], edges[-1]
        for tick in svg.ticks(low, high, 4):
            at = left + (tick - low) / (high - low) * (w - left - 6)
            body.append(svg.text(at, bottom + 13, svg.tick_text(tick), "tick mid"))
    seen, expected, lower, upper = found.numbers["mean"]
    said = (
        f"{found.label}: mean {numbers.significant(seen)}, predicted "
        f"{numbers.significant(expected)} [{numbers.significant(lower)}, "
        f"{numbers.significant(upper)}]"
    )
    return svg.picture(w, 148, body, said)
