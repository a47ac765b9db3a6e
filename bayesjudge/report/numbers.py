"""Numbers as people read them: digits that the uncertainty supports."""

from __future__ import annotations

import math
from collections.abc import Iterable

NULL = "–"
_MAX_DECIMALS = 12


def decimals_for(sds: Iterable[float]) -> int:
    """Return the decimals at which standard deviations show two digits.

    Parameters
    ----------
    sds : iterable of float
        Standard deviations of the numbers of one column; null and 0 are passed over.

    Returns
    -------
    int
        From 0 to 12. The smallest sd decides, but never below a tenth of the
        median, so that one near-certain row does not fill the column with
        digits; 3 where there is none.
    """
    known = sorted(sd for sd in sds if math.isfinite(sd) and sd > 0)
    if not known:
        return 3
    deciding = max(known[0], known[len(known) // 2] / 10)
    return min(max(1 - math.floor(math.log10(deciding)), 0), _MAX_DECIMALS)


def number(value: float, decimals: int) -> str:
    """Return the number with fixed decimals; an en dash for null.

    Parameters
    ----------
    value : float
        Anything; from 1e9 on, exponents.
    decimals : int
        Digits after the point.
    """
    if not math.isfinite(value):
        return NULL if math.isnan(value) else ("∞" if value > 0 else "-∞")
    if abs(value) >= 1e9:
        return f"{value:.6g}"
    text = f"{value:.{decimals}f}"
    return text.removeprefix("-") if float(text) == 0 else text


def significant(value: float, digits: int = 4) -> str:
    """Return the number with so many significant digits; an en dash for null."""
    if not math.isfinite(value):
        return number(value, 0)
    return f"{value:.{digits}g}"


def probability(p: float, decimals: int = 3) -> str:
    """Return a probability that never looks certain when it is not.

    Parameters
    ----------
    p : float
        In [0, 1], or null.
    decimals : int
        Digits after the point.

    Returns
    -------
    str
        ``0`` and ``1`` only for exactly these; ``<0.001`` and ``>0.999`` where
        rounding would give them; an en dash for null.
    """
    if math.isnan(p):
        return NULL
    if p in {0, 1}:
        return str(int(p))
    text = f"{p:.{decimals}f}"
    if float(text) <= 0:
        return f"<{10**-decimals:.{decimals}f}"
    if float(text) >= 1:
        return f">{1 - 10**-decimals:.{decimals}f}"
    return text


def percent(p: float) -> str:
    """Return a level such as 0.95 as ``95 %``."""
    return f"{100 * p:.6g} %"


def rank_range(lower: float, upper: float) -> str:
    """Return a rank interval as ``2`` or ``1–3``; midranks as ``1.5``; a dash for null."""
    if math.isnan(lower) or math.isnan(upper):
        return NULL
    return f"{lower:g}" if lower == upper else f"{lower:g}–{upper:g}"


def interval(lower: float, upper: float, decimals: int) -> str:
    """Return an interval as ``[lower, upper]``; an en dash for null."""
    if math.isnan(lower) or math.isnan(upper):
        return NULL
    return f"[{number(lower, decimals)}, {number(upper, decimals)}]"
