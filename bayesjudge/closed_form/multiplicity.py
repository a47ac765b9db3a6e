"""P values of many tests."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

type Floats = NDArray[np.float64]


def holm(p_values: Floats) -> Floats:
    """Return Holm's adjusted p values, in the order given; nulls stay and count for nothing."""
    p = np.asarray(p_values, dtype=float)
    known = np.flatnonzero(~np.isnan(p))
    order = known[np.argsort(p[known], kind="stable")]
    stepped = np.maximum.accumulate(p[order] * np.arange(order.size, 0, -1))
    adjusted = np.full(p.size, np.nan)
    adjusted[order] = np.minimum(stepped, 1.0)
    return adjusted
