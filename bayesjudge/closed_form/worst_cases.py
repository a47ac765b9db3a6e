"""Bounds of means where scores are missing not at random (Manski 1989, worst case)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

type Floats = NDArray[np.float64]
type Ints = NDArray[np.int64]

# Of the scale: bounds closer than this are equal but for rounding.
_ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class Bounds:
    """What means can be, whatever the missing scores would have been.

    Attributes
    ----------
    mean, lower, upper : (B,) float array
        Mean over panel cells (judges, languages) of the scores that there are, and with
        every missing score at the lowest, at the highest value; nan without scores.
    best_rank, worst_rank : (B,) int array
        Ranks that some values of the missing scores give.
    """

    mean: Floats
    lower: Floats
    upper: Floats
    best_rank: Ints
    worst_rank: Ints


def missing_score_bounds(
    total: Floats,
    n: Ints,
    n_missing: Ints,
    scale: tuple[float, float],
    lower_is_better: bool = False,
) -> Bounds:
    """Return the bounds of the backbones' means and ranks.

    Parameters
    ----------
    total : (B, C) float array
        Sum of the scores of a backbone in a cell of the panel.
    n, n_missing : (B, C) int array
        Scores that there are, and that failed. Cells with neither are left out.
    scale : (low, high)
        Of a score.
    lower_is_better : bool
    """
    here = n > 0
    any_ = (n + n_missing) > 0
    with np.errstate(invalid="ignore", divide="ignore"):
        observed = np.where(here, total / n, 0.0).sum(axis=1) / here.sum(axis=1)
        ends = [
            np.where(any_, (total + n_missing * end) / (n + n_missing), 0.0).sum(axis=1)
            / any_.sum(axis=1)
            for end in scale
        ]
    low, high = ends
    a, b = (-high, -low) if lower_is_better else (low, high)
    # Missing scores of two backbones are free of one another, so each bound is met.
    slack = _ROUNDING * (scale[1] - scale[0])
    surely_above = a[None, :] > b[:, None] + slack
    possibly_above = b[None, :] > a[:, None] + slack
    np.fill_diagonal(possibly_above, val=False)
    return Bounds(
        mean=observed,
        lower=low,
        upper=high,
        best_rank=1 + surely_above.sum(axis=1),
        worst_rank=1 + possibly_above.sum(axis=1),
    )
