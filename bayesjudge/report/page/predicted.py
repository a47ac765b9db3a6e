"""Scores as a model would give them, beside those that were given, by judge."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from bayesjudge.errors import ModelError
from bayesjudge.fitted import Fit
from bayesjudge.report.page.contents import Absent, Predicted, Predictive
from bayesjudge.scores.table import Scores

type Floats = NDArray[np.float64]
type Ints = NDArray[np.int64]

_CATEGORIES = 12
_BINS = 16
_MOST_DRAWS = 200
_LEAST_DRAWS = 20
_MOST_VALUES = 4_000_000


def predictive_of(fit: Fit, ci_prob: float) -> Predictive | Absent:
    """Return shares of scores by height, seen and predicted, judge by judge.

    Predictions are new calls to the same judges on the same answers; of 200 draws, or
    of so many as take four million scores, at least 20.
    """
    scores = fit.scores
    if not isinstance(scores, Scores):
        return Absent("It needs every score, and only counts and sums by cell were kept.")
    n = len(scores)
    wanted = int(np.clip(_MOST_VALUES // n, _LEAST_DRAWS, _MOST_DRAWS))
    try:
        found = fit.posterior_predictive(wanted)["score"].to_numpy()
    except ModelError as error:
        remedy = f" {error.remedy}." if error.remedy else ""
        return Absent(f"It cannot be drawn: {error.what}.{remedy}")
    drawn = np.asarray(found.reshape(-1, n), float)
    if scores.has("judge"):
        labels, codes = scores.levels("judge"), scores.codes("judge")
    else:
        labels, codes = ("all scores",), np.zeros(n, np.int64)
    edges, names = bins_of(scores.score, drawn, fit.resolved.categories)
    return Predictive(
        edges=edges,
        names=names,
        judges=compare_scores(scores.score, drawn, codes, labels, edges, ci_prob),
        draws=len(drawn),
        ci_prob=ci_prob,
        facet="judge" if scores.has("judge") else "all scores",
    )


def bins_of(
    seen: Floats, drawn: Floats, categories: Sequence[int] = ()
) -> tuple[Floats, tuple[str, ...]]:
    """Return the edges of bins, (n + 1,), and their names where scores are categories.

    Parameters
    ----------
    seen : (N,) array
    drawn : (n_draws, N) array
    categories : sequence of int
        What scores can be, where the model says so.

    Returns
    -------
    edges : (n_bins + 1,) array
        What lies outside belongs to the first or last bin.
    names : tuple of str
        Empty where scores are continuous, or have more than twelve values.
    """
    values = np.array(categories, float) if categories else np.unique(seen)
    whole = bool((values == np.round(values)).all())
    if whole and values.size >= 2 and np.ptp(values) < _CATEGORIES:
        values = np.arange(values[0], values[-1] + 1)
        edges = np.append(values - 0.5, values[-1] + 0.5)
        return edges, tuple(f"{value:g}" for value in values)
    low, high = np.quantile(drawn, [0.005, 0.995])
    low, high = min(low, seen.min()), max(high, seen.max())
    if not low < high:
        low, high = low - 0.5, high + 0.5
    return np.linspace(low, high, _BINS + 1), ()


def compare_scores(
    seen: Floats,
    drawn: Floats,
    codes: Ints,
    labels: Sequence[str],
    edges: Floats,
    ci_prob: float,
) -> tuple[Predicted, ...]:
    """Return shares by bin, seen and predicted, one a label.

    Parameters
    ----------
    seen : (N,) array
    drawn : (n_draws, N) array
    codes : (N,) int array
        Into `labels`.
    edges : (n_bins + 1,) array
    ci_prob : float
        Of the equal-tailed intervals over draws.
    """
    n_bins = edges.size - 1
    levels = [(1 - ci_prob) / 2, (1 + ci_prob) / 2]
    found = []
    for code, label in enumerate(labels):
        rows = codes == code
        mine, others = seen[rows], drawn[:, rows]
        if not mine.size:
            continue
        observed = np.bincount(_bin(mine, edges), minlength=n_bins) / mine.size
        key = _bin(others, edges) + n_bins * np.arange(len(others))[:, None]
        counts = np.bincount(key.ravel(), minlength=n_bins * len(others))
        shares = counts.reshape(len(others), n_bins) / mine.size
        lower, upper = np.quantile(shares, levels, axis=0)
        numbers = {}
        for name, function in (("mean", np.mean), ("sd", np.std)):
            values = function(others, axis=1)
            ends = np.quantile(values, levels)
            numbers[name] = (
                float(function(mine)),
                float(values.mean()),
                float(ends[0]),
                float(ends[1]),
            )
        found.append(
            Predicted(label, int(mine.size), observed, shares.mean(axis=0), lower, upper, numbers)
        )
    return tuple(found)


def _bin(values: Floats, edges: Floats) -> Ints:
    """Return the bin of each value; what lies beyond the ends is in the last."""
    return np.asarray(np.searchsorted(edges[1:-1], values, side="right"), np.int64)
