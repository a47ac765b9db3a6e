"""Pieces of SVG as text: users' text escaped, no styles but classes of the page.

Attributes named ``style`` would be refused by the page's own security policy.
"""

from __future__ import annotations

import base64
import math
import struct
import zlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from bayesjudge.text import html, visible

type Floats = NDArray[np.float64]

BLUE, ORANGE = (34, 119, 187), (217, 95, 2)
STRONGEST = 0.72


def num(value: float) -> str:
    """Return a coordinate with at most two decimals."""
    text = f"{value:.2f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def picture(width: float, height: float, body: Sequence[str], label: str, more: str = "") -> str:
    """Return an SVG with its text alternative.

    Parameters
    ----------
    width, height : float
        In pixels of its own.
    body : sequence of str
        What is drawn.
    label : str
        Read aloud in its place; raw text.
    more : str
        Further attributes.
    """
    return (
        f'<svg viewBox="0 0 {num(width)} {num(height)}" width="{num(width)}" '
        f'height="{num(height)}" role="img" aria-label="{html(label)}"{more}>'
        + "".join(body)
        + "</svg>"
    )


def text(x: float, y: float, said: str, kind: str = "", longest: int = 0, more: str = "") -> str:
    """Return text at a place; what is longer than `longest` ends in an ellipsis, whole in a tip."""
    shown = visible(said)
    tip = ""
    if longest and len(shown) > longest:
        tip = f"<title>{html(said)}</title>"
        shown = shown[: longest - 1] + "…"
    named = f' class="{kind}"' if kind else ""
    return f'<text x="{num(x)}" y="{num(y)}"{named}{more}>{tip}{html(shown)}</text>'


def line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    """Return a straight line of a class."""
    return f'<line x1="{num(x1)}" y1="{num(y1)}" x2="{num(x2)}" y2="{num(y2)}" class="{kind}"/>'


def rect(x: float, y: float, w: float, h: float, more: str) -> str:
    """Return a rectangle with further attributes."""
    return f'<rect x="{num(x)}" y="{num(y)}" width="{num(w)}" height="{num(h)}" {more}/>'


def path(points: Sequence[tuple[float, float]], kind: str, close: bool = False) -> str:
    """Return a line through points."""
    d = "M" + "L".join(f"{num(x)} {num(y)}" for x, y in points) + ("Z" if close else "")
    return f'<path d="{d}" class="{kind}"/>'


def ticks(low: float, high: float, wanted: int = 5) -> list[float]:
    """Return round numbers from `low` to `high`, about so many.

    Where the two are one there is one.
    """
    span = high - low
    if not math.isfinite(span) or span <= 0:
        return [low]
    step = 10 ** math.floor(math.log10(span / wanted))
    while span / step > wanted:
        for factor in (2, 2.5, 2):
            step *= factor
            if span / step <= wanted:
                break
    first = math.ceil(low / step - 1e-9)
    return [i * step for i in range(first, math.floor(high / step + 1e-9) + 1)]


def tick_text(value: float) -> str:
    """Return a tick's number, without the rounding of its making."""
    return f"{round(value, 10):g}"


def tint(values: Floats, kind: str) -> Floats:
    """Return red, green, blue and opacity (0 to 1) of each cell, (n, m, 4).

    Probabilities and ranks in one hue, stronger for more probable (the highest is
    strongest) and better; signed numbers in two, blue above 0 and orange below. Nothing
    (opacity 0) where null.
    """
    out = np.zeros((*values.shape, 4))
    known = np.isfinite(values)
    filled = np.where(known, values, 0.0)
    if kind == "signed":
        top = float(np.abs(filled).max()) or 1.0
        strength, positive = np.abs(filled) / top, filled >= 0
    elif kind == "rank":
        top = max(float(filled.max()), 2.0)
        strength, positive = 1 - (filled - 1) / (top - 1), np.ones(values.shape, bool)
    else:
        top = float(filled.max()) or 1.0
        strength, positive = filled / top, np.ones(values.shape, bool)
    out[..., :3] = np.where(positive[..., None], BLUE, ORANGE)
    out[..., 3] = np.where(known, STRONGEST * np.clip(strength, 0, 1), 0.0)
    return out


def png(pixels: Floats) -> str:
    """Return (n, m, 4) colours as the address of a PNG inside the page."""
    n, m = pixels.shape[:2]
    bytes_ = np.empty((n, m, 4), np.uint8)
    bytes_[..., :3] = pixels[..., :3].round()
    bytes_[..., 3] = (pixels[..., 3] * 255).round()
    lines = np.zeros((n, 1 + 4 * m), np.uint8)
    lines[:, 1:] = bytes_.reshape(n, -1)

    def chunk(name: bytes, data: bytes) -> bytes:
        whole = name + data
        return struct.pack(">I", len(data)) + whole + struct.pack(">I", zlib.crc32(whole))

    header = struct.pack(">IIBBBBB", m, n, 8, 6, 0, 0, 0)
    content = (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(lines.tobytes(), 9))
        + chunk(b"IEND", b"")
    )
    return "data:image/png;base64," + base64.b64encode(content).decode()
