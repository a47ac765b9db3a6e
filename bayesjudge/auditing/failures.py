"""Failed answers that pass for scores: results with them and without."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bayesjudge.auditing.acceptance import permuted_statistic, spread
from bayesjudge.auditing.influence import influences
from bayesjudge.auditing.permuting import p_value
from bayesjudge.auditing.table import AuditTable

type Floats = NDArray[np.float64]
type Ints = NDArray[np.int64]
type Bools = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class SideBySide:
    """One judge's languages with failures as stored and as missing.

    Attributes
    ----------
    n, failed : (L,) int array
        Scores, and those that stand for a failed answer.
    stored, missing : (L,) float array
        Mean of all scores; mean of those that did not fail.
    units_stored, units_missing : (L,) float array
        Mean over units (scenario and backbone) of the units' own means: of per-task
        fractions where a task has several requirements.
    se : (L,) float array
        Standard error of the mean as stored, scenarios independent.
    p_unequal : float
        That failures are as frequent in all languages, by permutation.
    """

    n: Ints
    failed: Ints
    stored: Floats
    missing: Floats
    units_stored: Floats
    units_missing: Floats
    se: Floats
    p_unequal: float

    @property
    def differs(self) -> Bools:
        """Languages whose mean moves by more than its standard error."""
        moved = np.abs(self.missing - self.stored)
        # A language whose answers all failed has no mean left.
        gone = (self.failed == self.n) & (self.n > 0)
        return np.asarray((moved > self.se) | gone)


def side_by_side(
    table: AuditTable, failed: Bools, n_permutations: int, rng: np.random.Generator
) -> SideBySide:
    """Compare one judge's language means with failures as stored and as missing.

    Parameters
    ----------
    table : AuditTable
        One judge's rows.
    failed : (N,) bool array
    n_permutations : int
    rng : numpy.random.Generator
    """
    L, j = len(table.languages), int(table.judge[0])
    found = influences(table)
    p = 1.0
    if failed.any() and not failed.all():
        share = influences(table, failed.astype(float)).mean[j]
        null = permuted_statistic(table, failed.astype(float), n_permutations, rng)
        p = p_value(float(spread(share)), null)
    return SideBySide(
        n=np.bincount(table.language, minlength=L),
        failed=np.bincount(table.language[failed], minlength=L),
        stored=pooled_means(table),
        missing=pooled_means(table.keep(~failed)),
        units_stored=unit_means(table),
        units_missing=unit_means(table.keep(~failed)),
        se=np.where(np.isfinite(found.mean[j]), found.se(found.psi[j]), np.nan),
        p_unequal=p,
    )


def pooled_means(table: AuditTable) -> Floats:
    """Return the plain mean of each language's rows, (L,); nan without rows."""
    L = len(table.languages)
    n = np.bincount(table.language, minlength=L)
    total = np.bincount(table.language, weights=table.score, minlength=L)
    return np.where(n > 0, total / np.maximum(n, 1), np.nan)


def unit_means(table: AuditTable) -> Floats:
    """Return the mean over units of each unit's own mean, (L,); nan without rows."""
    L = len(table.languages)
    key, at = np.unique(table.unit * L + table.language, return_inverse=True)
    size = np.bincount(at, minlength=key.size)
    total = np.bincount(at, weights=table.score, minlength=key.size)
    n = np.bincount(key % L, minlength=L)
    summed = np.bincount(key % L, weights=total / size, minlength=L)
    return np.where(n > 0, summed / np.maximum(n, 1), np.nan)
