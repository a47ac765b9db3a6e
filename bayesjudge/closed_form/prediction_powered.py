"""Prediction-powered means: labels of some answers, panel scores of all.

PPI++ (Angelopoulos, Duchi and Zrnic 2023, arXiv 2311.01453, sections 3 and 6): the mean of
labels Y on n units and of predictions f on them and on N others,
theta = mean(Y) + lambda (mean_N(f) - mean_n(f)), lambda chosen for the least variance.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bayesjudge.closed_form.intervals import t_interval
from bayesjudge.errors import DataError

type Floats = NDArray[np.float64]


@dataclass(frozen=True)
class PoweredMean:
    """One estimate.

    Attributes
    ----------
    estimate, se : float
    ci_lower, ci_upper : float
        From t with n - 1 degrees of freedom (the paper: normal; few labels need t).
    power : float
        lambda, from 0 (labels alone) to 1.
    n_labelled, n_others : int
    """

    estimate: float
    se: float
    ci_lower: float
    ci_upper: float
    power: float
    n_labelled: int
    n_others: int


def powered_mean(
    labels: Floats, predictions: Floats, others: Floats, ci_prob: float = 0.95
) -> PoweredMean:
    """Return the PPI++ estimate of the mean label.

    Parameters
    ----------
    labels, predictions : (n,) float array
        Of labelled units, which must be drawn from the same population as the others.
    others : (N,) float array
        Predictions of unlabelled units; may be empty.
    ci_prob : float

    Raises
    ------
    DataError
        Where fewer than two units are labelled.
    """
    n, N = labels.size, others.size
    if n < 2:
        raise DataError(f"{n} labelled units give no standard error", remedy="Label two or more")
    power = 0.0
    if N >= 1:
        every = np.concatenate([predictions, others])
        spread = float(np.var(every, ddof=1))
        if spread > 0:
            shared = float(np.cov(labels, predictions)[0, 1])
            power = float(np.clip(shared / ((1 + n / N) * spread), 0.0, 1.0))
    estimate = labels.mean() - power * predictions.mean()
    variance = np.var(labels - power * predictions, ddof=1) / n
    if power:
        estimate += power * others.mean()
        variance += power**2 * (np.var(every, ddof=1) / N)
    se = float(np.sqrt(variance))
    lower, upper = t_interval(np.array([estimate]), np.array([se]), n - 1, ci_prob)
    return PoweredMean(float(estimate), se, float(lower[0]), float(upper[0]), power, n, N)
