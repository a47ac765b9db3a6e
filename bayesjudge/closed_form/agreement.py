"""Agreement of scores with a human or gold column, before and after an adjustment.

Where the gold differs between columns (backbones) of one task and row, pairs of columns
are compared: do the scores order them as the gold does? Where it is one of two values a
task and row, the same for all columns, it is a preference: does a score, or the majority
of a panel, fall on its side? Ties count half. Intervals resample whole tasks, and with
them the interaction that is taken off.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from bayesjudge.closed_form.double_centering import interaction
from bayesjudge.errors import DataError

type Floats = NDArray[np.float64]
type Measure = Literal["pairs", "scores", "panel"]


@dataclass(frozen=True)
class Agreement:
    """One measure of agreement.

    Attributes
    ----------
    measure : {"pairs", "scores", "panel"}
        Pairs of columns ordered as by the gold; scores on the gold's side; majorities
        of the columns on the gold's side.
    before, after : float
        Shares, of the scores and of the scores less their interaction.
    before_interval, after_interval, gain_interval : (float, float)
        Percentile bootstrap intervals.
    n_tasks, n_compared : int
        Tasks with something to compare, and comparisons.
    threshold : float or None
        Where a score changes sides; None for pairs.
    """

    measure: Measure
    before: float
    after: float
    before_interval: tuple[float, float]
    after_interval: tuple[float, float]
    gain_interval: tuple[float, float]
    n_tasks: int
    n_compared: int
    threshold: float | None


def gold_agreement(
    tasks: Floats, gold: Floats, n_resamples: int, rng: np.random.Generator, ci_prob: float = 0.95
) -> tuple[Agreement, ...]:
    """Return the agreement of scores with a gold column before and after CBC.

    Parameters
    ----------
    tasks : (n, m, k) float array
        Mean score of each task in each cell; nan where there is none.
    gold : (n, m, k) float array
        Mean gold there; nan where there is none.
    n_resamples : int
    rng : numpy.random.Generator
    ci_prob : float

    Returns
    -------
    tuple of Agreement
        ``pairs`` where the gold differs between columns of a task and row;
        else ``scores`` and ``panel``.

    Raises
    ------
    DataError
        Where the gold neither differs between columns nor has exactly two values,
        or the interaction cannot be estimated.
    """
    known = ~(np.isnan(gold) | np.isnan(tasks))
    held = np.where(known, gold, np.nan)
    low = np.where(known, gold, np.inf).min(axis=2)
    high = np.where(known, gold, -np.inf).max(axis=2)
    if (high > low).any():
        return _measured(tasks, ("pairs",), _Pairs(tasks, held), n_resamples, rng, ci_prob)
    values = np.unique(held[known])
    if values.size != 2:
        raise DataError(
            f"the gold column has {values.size} value{'s' if values.size != 1 else ''} and is "
            "the same for all that a task compares: it orders nothing and is no preference"
        )
    sides = _Sides(tasks, held, float(values.mean()))
    return _measured(tasks, ("scores", "panel"), sides, n_resamples, rng, ci_prob)


class _Pairs:
    """Counts, a task, of pairs of columns that scores less a shift order as the gold does."""

    threshold: float | None = None

    def __init__(self, tasks: Floats, gold: Floats) -> None:
        self.first, self.second = np.triu_indices(tasks.shape[2], 1)
        truth = np.sign(gold[:, :, self.first] - gold[:, :, self.second])
        self.truth = np.where(np.isnan(truth), 0.0, truth)
        self.counted = self.truth != 0
        d = tasks[:, :, self.first] - tasks[:, :, self.second]
        self.difference = np.where(self.counted, d, 0.0)
        self.totals = self.counted.sum(axis=(1, 2))[None].astype(float)

    def agreeing(self, shift: Floats) -> Floats:
        """Return (1, n) counts, ties half."""
        moved = self.difference - (shift[:, self.first] - shift[:, self.second])
        half = np.where(self.counted, (1 + _sign(moved) * self.truth) / 2, 0.0)
        return np.asarray(half.sum(axis=(1, 2))[None])


class _Sides:
    """Counts, a task, of scores and of majorities on the gold's side of a threshold."""

    def __init__(self, tasks: Floats, gold: Floats, threshold: float) -> None:
        self.threshold: float | None = threshold
        self.counted = ~np.isnan(gold)
        self.side = np.where(self.counted, np.sign(gold - threshold), 0.0)
        self.distance = np.where(self.counted, tasks - threshold, 0.0)
        voted = self.counted.any(axis=2)
        self.truth = np.where(voted, np.sign(self.side.sum(axis=2)), 0.0)
        self.totals = np.array([self.counted.sum(axis=(1, 2)), voted.sum(axis=1)], dtype=float)

    def agreeing(self, shift: Floats) -> Floats:
        """Return (2, n) counts: of scores, of majorities; ties half."""
        vote = np.where(self.counted, _sign(self.distance - shift), 0.0)
        own = np.where(self.counted, (1 + vote * self.side) / 2, 0.0).sum(axis=(1, 2))
        panel = np.sign(vote.sum(axis=2)) * self.truth
        return np.array([own, np.where(self.truth != 0, (1 + panel) / 2, 0.0).sum(axis=1)])


def _sign(values: Floats) -> Floats:
    """Return the sign, 0 for what rounding leaves of equal scores."""
    return np.asarray(np.where(np.abs(values) > 1e-12, np.sign(values), 0.0))


def _measured(
    tasks: Floats,
    measures: tuple[Measure, ...],
    counts: _Pairs | _Sides,
    n_resamples: int,
    rng: np.random.Generator,
    ci_prob: float,
) -> tuple[Agreement, ...]:
    n, m, k = tasks.shape
    raw = counts.agreeing(np.zeros((m, k)))
    ones = np.ones(n)
    before = _share(raw, counts.totals, ones)
    after = _share(counts.agreeing(_shift(tasks, ones)), counts.totals, ones)
    drawn = []
    for _ in range(n_resamples):
        weight = rng.multinomial(n, np.full(n, 1 / n)).astype(float)
        try:
            shift = _shift(tasks, weight)
        except DataError:
            continue
        adjusted = counts.agreeing(shift)
        drawn.append((_share(raw, counts.totals, weight), _share(adjusted, counts.totals, weight)))
    samples = np.array(drawn).reshape(-1, 2, len(measures))
    found = []
    for at, measure in enumerate(measures):
        own = samples[:, :, at]
        found.append(
            Agreement(
                measure=measure,
                before=float(before[at]),
                after=float(after[at]),
                before_interval=_interval(own[:, 0], ci_prob),
                after_interval=_interval(own[:, 1], ci_prob),
                gain_interval=_interval(own[:, 1] - own[:, 0], ci_prob),
                n_tasks=int(np.count_nonzero(counts.totals[at])),
                n_compared=int(counts.totals[at].sum()),
                threshold=counts.threshold,
            )
        )
    return tuple(found)


def _shift(tasks: Floats, weight: Floats) -> Floats:
    estimate = interaction(tasks, weight, errors=False).estimate
    return np.where(np.isnan(estimate), 0.0, estimate)


def _share(agreeing: Floats, totals: Floats, weight: Floats) -> Floats:
    with np.errstate(invalid="ignore"):
        return np.asarray((agreeing @ weight) / (totals @ weight))


def _interval(values: Floats, ci_prob: float) -> tuple[float, float]:
    known = values[~np.isnan(values)]
    if known.size < 2:
        return np.nan, np.nan
    lower, upper = np.quantile(known, [(1 - ci_prob) / 2, (1 + ci_prob) / 2])
    return float(lower), float(upper)
