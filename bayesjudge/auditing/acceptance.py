"""Acceptance under one threshold for all languages, and what an offset a language mends."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bayesjudge.auditing.influence import Influence, influences
from bayesjudge.auditing.means import nan_mean
from bayesjudge.auditing.permuting import grid, p_value, permuted_totals
from bayesjudge.auditing.table import AuditTable

type Floats = NDArray[np.float64]
type Ints = NDArray[np.int64]
type Bools = NDArray[np.bool_]

FEW_VALUES = 20
"""A judge with no more distinct scores is taken to grade, not to measure."""


def held_out(table: AuditTable, share: float, rng: np.random.Generator) -> Bools:
    """Choose the rows that set thresholds and offsets: whole scenarios, by cell.

    Parameters
    ----------
    table : AuditTable
    share : float
        Of the scenarios of each cell, in (0, 1); at least one on either side
        where a cell has two or more.

    Returns
    -------
    (N,) bool array
    """
    clusters, first = np.unique(table.cluster, return_index=True)
    cell = table.cell[first]
    taken = np.zeros(clusters.size, dtype=bool)
    for code in np.unique(cell):
        members = np.flatnonzero(cell == code)
        n = min(max(round(share * members.size), 1), members.size - 1)
        taken[rng.permutation(members)[:n]] = True
    return np.asarray(np.isin(table.cluster, clusters[taken]))


def threshold_at(scores: Floats, quantile: float) -> float:
    """Return the threshold above which a share of 1 - quantile lies.

    Where scores have few distinct values it is the cut between two of them that comes
    nearest, so that not everything is refused when many share the highest.
    """
    values, counts = np.unique(scores, return_counts=True)
    if values.size > FEW_VALUES or values.size == 1:
        return float(np.quantile(scores, quantile))
    above = 1.0 - np.cumsum(counts)[:-1] / scores.size
    return float(values[int(np.argmin(np.abs(above - (1.0 - quantile))))])


def is_verdict(scores: Floats) -> bool:
    """Whether scores are verdicts of 0 and 1, which accept or refuse by themselves."""
    return bool(np.isin(scores, (0.0, 1.0)).all())


@dataclass(frozen=True, eq=False)
class Gap:
    """Acceptance by language and the gap between them, against chance.

    Attributes
    ----------
    threshold : float
        Scores above are accepted.
    rate, se : (L,) float array
        Share accepted, each cell counting alike, with its standard error.
    gap : float
        Highest less lowest rate.
    null : float
        Mean gap after permuting languages within scenarios.
    null_upper : float
        Its 95th percentile.
    p_value : float
    n : (L,) int array
    """

    threshold: float
    rate: Floats
    se: Floats
    gap: float
    null: float
    null_upper: float
    p_value: float
    n: Ints

    @property
    def excess(self) -> float:
        """The gap beyond what chance shows."""
        return self.gap - self.null


def acceptance_gap(
    table: AuditTable,
    threshold: float,
    n_permutations: int,
    rng: np.random.Generator,
    values: Floats | None = None,
) -> Gap:
    """Return acceptance by language of one judge's rows at a threshold set elsewhere.

    Parameters
    ----------
    table : AuditTable
        One judge's rows.
    threshold : float
    n_permutations : int
    rng : numpy.random.Generator
    values : (N,) float array or None
        Corrected scores in place of the table's.
    """
    y = table.score if values is None else values
    accepted = (y > threshold).astype(float)
    found = _one(influences(table, accepted), table)
    rate, se, n = found
    gap = float(spread(rate))
    null = permuted_statistic(table, accepted, n_permutations, rng)
    return Gap(
        threshold=threshold,
        rate=rate,
        se=se,
        gap=gap,
        null=float(null.mean()),
        null_upper=float(np.quantile(null, 0.95)),
        p_value=p_value(gap, null),
        n=n,
    )


def permuted_statistic(
    table: AuditTable, values: Floats, n_permutations: int, rng: np.random.Generator
) -> Floats:
    """Return the spread of language means under permutation, (n_permutations,)."""
    L = len(table.languages)
    weight = cell_weights(table)
    columns = np.stack([weight * values, weight])
    sums, count, _ = grid(table.cluster, table.language, L, columns)
    out = []
    with np.errstate(invalid="ignore"):
        for totals in permuted_totals(sums, count, n_permutations, rng):
            out.append(spread(totals[:, 0] / totals[:, 1]))
    return np.concatenate(out)


def cell_weights(table: AuditTable) -> Floats:
    """Return weights with which every cell of a judge and language counts alike."""
    S, L = len(table.cells), len(table.languages)
    place = (table.judge * L + table.language) * S + table.cell
    size = np.bincount(place)
    return np.asarray(1.0 / size[place])


def spread(values: Floats) -> Floats:
    """Return highest less lowest along the last axis, nan left out."""
    held = np.isfinite(values)
    high = np.where(held, values, -np.inf).max(axis=-1)
    low = np.where(held, values, np.inf).min(axis=-1)
    return np.asarray(high - low)


def _one(found: Influence, table: AuditTable) -> tuple[Floats, Floats, Ints]:
    j = int(table.judge[0])
    rate = found.mean[j]
    return rate, np.where(np.isfinite(rate), found.se(found.psi[j]), np.nan), found.n[j]


def language_offsets(table: AuditTable) -> Floats:
    """Return b(l), the language mean less the mean over languages (the paper's equation 7).

    Parameters
    ----------
    table : AuditTable
        One judge's rows. Cells count alike; (L,), nan without rows.
    """
    mean = influences(table).mean[int(table.judge[0])]
    return np.asarray(mean - nan_mean(mean[None], 1)[0])


@dataclass(frozen=True, eq=False)
class Correction:
    """What subtracting one offset a language does.

    Attributes
    ----------
    offset : (L,) float array
        Estimated on one part.
    variance_before, variance_after : float
        Of the language means of the other part (ddof 0).
    before, after : Gap
        Acceptance on that part, at one threshold before and one after.
    """

    offset: Floats
    variance_before: float
    variance_after: float
    before: Gap
    after: Gap

    @property
    def variance_removed(self) -> float:
        """Share of the variance of language means that is gone; may be negative."""
        if self.variance_before == 0:
            return float("nan")
        return 1.0 - self.variance_after / self.variance_before

    @property
    def gap_removed(self) -> float:
        """Share of the acceptance gap that is gone."""
        return float("nan") if self.before.gap == 0 else 1.0 - self.after.gap / self.before.gap


def correct_offsets(
    estimated_on: AuditTable,
    applied_to: AuditTable,
    quantile: float,
    n_permutations: int,
    rng: np.random.Generator,
) -> Correction:
    """Estimate offsets and threshold on one part and apply them to another.

    With both parts the same it is the paper's appendix D, where all of the variance of
    language means goes by construction (STATISTICS section 9).

    Parameters
    ----------
    estimated_on, applied_to : AuditTable
        One judge's rows each.
    quantile : float
    n_permutations : int
    rng : numpy.random.Generator
    """
    offset = language_offsets(estimated_on)
    known = np.nan_to_num(offset)
    corrected = applied_to.score - known[applied_to.language]
    reference = estimated_on.score - known[estimated_on.language]
    j = int(applied_to.judge[0])
    before, after = (
        acceptance_gap(applied_to, threshold_at(basis, quantile), n_permutations, rng, values)
        for basis, values in ((estimated_on.score, None), (reference, corrected))
    )
    return Correction(
        offset=offset,
        variance_before=_variance(influences(applied_to).mean[j]),
        variance_after=_variance(influences(applied_to, corrected).mean[j]),
        before=before,
        after=after,
    )


def _variance(values: Floats) -> float:
    return float(np.var(values[np.isfinite(values)]))


def pairwise_accuracy(table: AuditTable) -> tuple[Floats, Floats, Ints]:
    """Return how often the preferred answer scores at least as high, by judge and language.

    Parameters
    ----------
    table : AuditTable
        With both answers of pairs.

    Returns
    -------
    accuracy : (J, L, S) float array
        Ties count as right, as in the paper's table 7; nan without a pair.
    strict : (J, L, S) float array
        Ties count a half.
    n : (J, L, S) int array
        Pairs.
    """
    J, L, S = len(table.judges), len(table.languages), len(table.cells)
    items, item = np.unique(table.item, return_inverse=True)
    key = (table.judge * L + table.language) * items.size + item
    total = J * L * items.size
    good, bad = table.chosen == 1, table.chosen == 0
    sides = []
    for rows in (good, bad):
        n = np.bincount(key[rows], minlength=total)
        s = np.bincount(key[rows], weights=table.score[rows], minlength=total)
        with np.errstate(invalid="ignore"):
            sides.append(s / n)
    both = np.flatnonzero(np.isfinite(sides[0]) & np.isfinite(sides[1]))
    difference = sides[0][both] - sides[1][both]
    cell_of_item = np.zeros(items.size, dtype=np.int64)
    cell_of_item[item] = table.cell
    place = (both // items.size) * S + cell_of_item[both % items.size]
    n = np.bincount(place, minlength=J * L * S)
    with np.errstate(invalid="ignore"):
        right = np.bincount(place, weights=difference >= 0, minlength=n.size) / n
        ties = np.bincount(place, weights=difference == 0, minlength=n.size) / n
    shape = (J, L, S)
    return right.reshape(shape), (right - ties / 2).reshape(shape), n.reshape(shape)


def accuracy_summary(accuracy: Floats) -> tuple[float, float]:
    """Return mean and sd (ddof 0) of accuracies over languages and cells (the paper's table 7)."""
    held = accuracy[np.isfinite(accuracy)]
    return (float(held.mean()), float(held.std())) if held.size else (np.nan, np.nan)
