"""What double-centering does to tasks that it has not seen (STATISTICS section 8).

Consistency of rankings over the rows (languages), and agreement of their winners with
the held-out additive oracle. Neither says that a ranking is right.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from bayesjudge.closed_form.double_centering import Interaction, interaction
from bayesjudge.errors import DataError

type Floats = NDArray[np.float64]


@dataclass(frozen=True)
class HeldOut:
    """Means over random splits of the tasks into two halves A and B.

    Attributes
    ----------
    raw_tau : float
        Kendall's tau of the columns' order between two rows, within B; mean over
        pairs of rows.
    adjusted_tau : float
        The same of B's cell means less A's interaction.
    raw_oracle_agreement : float
        Share of rows in which A's best column is that of B's column means.
    adjusted_oracle_agreement : float
        The same of A's means less A's interaction. These are additive: one
        decision, repeated in every row.
    raw_winners, adjusted_winners : float
        How many different columns win in some row of A; after adjustment one.
    raw_tau_between_halves : float
        Kendall's tau of the raw order of one row between A and B.
    rmse_with_interaction, rmse_without_interaction : float
        Root mean squared error of B's cell means predicted by A's cell means, and
        by A's without their interaction.
    n_splits : int
        Splits that could be answered.
    """

    raw_tau: float
    adjusted_tau: float
    raw_oracle_agreement: float
    adjusted_oracle_agreement: float
    raw_winners: float
    adjusted_winners: float
    raw_tau_between_halves: float
    rmse_with_interaction: float
    rmse_without_interaction: float
    n_splits: int

    @property
    def is_reproducible(self) -> bool:
        """Whether the interaction of one half predicts the other half."""
        return self.rmse_with_interaction < self.rmse_without_interaction


def held_out(
    tasks: Floats, n_splits: int, rng: np.random.Generator, lower_is_better: bool = False
) -> HeldOut:
    """Split tasks at random into halves, and ask each question of both.

    Parameters
    ----------
    tasks : (n, m, k) float array
        As for :func:`interaction`; rows are what rankings are compared over,
        columns what is ranked.
    n_splits : int
        Halves hold n // 2 tasks and the rest.
    rng : numpy.random.Generator
    lower_is_better : bool
        The best column is the lowest.

    Returns
    -------
    HeldOut
        Tied winners share; cells missing from a half are left out.

    Raises
    ------
    DataError
        Where there are fewer than four tasks, or no split could be answered.
    """
    n = len(tasks)
    if n < 4:
        raise DataError(f"halves of {n} tasks cannot be held against each other")
    sign = -1.0 if lower_is_better else 1.0
    found = []
    for _ in range(n_splits):
        order = rng.permutation(n)
        try:
            a = interaction(tasks[order[: n // 2]], errors=False)
            b = interaction(tasks[order[n // 2 :]], errors=False)
        except DataError:
            # A half of a table with missing cells may fall into parts.
            continue
        found.append(_one_split(a, b, sign))
    if not found:
        raise DataError("no half of the tasks holds enough cells")
    names = [f.name for f in fields(HeldOut)][:-1]
    figures = zip(names, zip(*found, strict=True), strict=True)
    return HeldOut(**{name: _mean(list(values)) for name, values in figures}, n_splits=len(found))


def kendall_tau(a: Floats, b: Floats) -> float:
    """Return Kendall's tau-b of two vectors where both are known; nan where one is all ties."""
    known = ~(np.isnan(a) | np.isnan(b))
    first, second = a[known], b[known]
    i, j = np.triu_indices(first.size, 1)
    s, t = np.sign(first[i] - first[j]), np.sign(second[i] - second[j])
    below = np.sqrt(np.sum(s**2) * np.sum(t**2))
    return float(np.sum(s * t) / below) if below > 0 else np.nan


def _one_split(a: Interaction, b: Interaction, sign: float) -> tuple[float, ...]:
    moved = b.mean - a.estimate
    oracle = _winners(sign * b.additive.mean(axis=0))
    raw = np.array([_winners(sign * row) for row in a.mean])
    adjusted = np.array([_winners(sign * row) for row in a.additive])
    return (
        _tau_over_rows(b.mean),
        _tau_over_rows(moved),
        _agreement(raw, oracle),
        _agreement(adjusted, oracle),
        _distinct(raw),
        _distinct(adjusted),
        _mean([kendall_tau(x, y) for x, y in zip(a.mean, b.mean, strict=True)]),
        _rmse(b.mean - a.mean),
        _rmse(b.mean - a.adjusted),
    )


def _tau_over_rows(matrix: Floats) -> float:
    i, j = np.triu_indices(len(matrix), 1)
    return _mean([kendall_tau(matrix[x], matrix[y]) for x, y in zip(i, j, strict=True)])


def _winners(values: Floats) -> Floats:
    """Return who is best, shares where several are: additive fits differ by roundings."""
    if np.isnan(values).all():
        return np.zeros(values.size)
    best = np.nanmax(values)
    tied = values >= best - 1e-9 * max(abs(best), 1.0)
    return np.asarray(tied / tied.sum())


def _agreement(winners: Floats, oracle: Floats) -> float:
    known = winners.sum(axis=1) > 0
    return float(np.mean(winners[known] @ oracle)) if known.any() else np.nan


def _distinct(winners: Floats) -> float:
    """Return how many columns win, a tie counting as its first."""
    known = winners[winners.sum(axis=1) > 0]
    return float(np.unique(known.argmax(axis=1)).size)


def _mean(values: list[float]) -> float:
    known = [v for v in values if not np.isnan(v)]
    return float(np.mean(known)) if known else np.nan


def _rmse(errors: Floats) -> float:
    known = errors[~np.isnan(errors)]
    return float(np.sqrt(np.mean(known**2))) if known.size else np.nan
