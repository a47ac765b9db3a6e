"""Means by language and how items carry them: the base of every standard error here.

A mean over rows is a sum over scenarios, which are drawn independently; what each
adds to the error is its influence. Rows are weighted so that every cell (split) of a
language and judge counts alike, as the language-bias paper averages its splits.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bayesjudge.auditing.table import AuditTable

type Floats = NDArray[np.float64]
type Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Influence:
    """Means and the influence of each scenario on them.

    Attributes
    ----------
    mean : (J, L) float array
        Mean over cells of the cell means; nan where a judge lacks the language.
    psi : (J, C, L) float array
        Influence of cluster c, scaled so that the variance of the mean is
        ``sum_c factor_c psi_c^2``; 0 where the cluster lacks the language.
    factor : (C,) float array
        n / (n - 1) of the clusters of its cell.
    df : int
        Clusters less cells.
    n : (J, L) int array
        Rows.
    """

    mean: Floats
    psi: Floats
    factor: Floats
    df: int
    n: Ints

    def se(self, psi: Floats) -> Floats:
        """Return standard errors of quantities from their influences, (C, ...) or (J, C, ...)."""
        factor = self.factor.reshape(-1, *(1,) * (psi.ndim - 1))
        return np.sqrt((factor * psi**2).sum(axis=0))


def influences(table: AuditTable, values: Floats | None = None) -> Influence:
    """Return means by judge and language, and what each scenario adds to their error.

    Parameters
    ----------
    table : AuditTable
    values : (N,) float array or None
        What is averaged; None takes the scores.

    Returns
    -------
    Influence
    """
    y = table.score if values is None else values
    shape = len(table.judges), len(table.languages), len(table.cells)
    return influences_of(
        y, np.ones(y.size), table.judge, table.language, table.cell, table.cluster, shape
    )


def influences_of(
    y: Floats,
    count: Floats,
    judge: Ints,
    language: Ints,
    cell: Ints,
    cluster: Ints,
    shape: tuple[int, int, int],
) -> Influence:
    """Do as :func:`influences`, with rows or with means of several.

    Parameters
    ----------
    y, count : (N,) float arrays
        Scores, or means and how many scores each is of.
    judge, language, cell, cluster : (N,) int arrays
        Codes; each cluster lies in one cell.
    shape : (J, L, S)
        Numbers of judges, languages and cells.
    """
    J, L, S = shape
    clusters, first, cluster = np.unique(cluster, return_index=True, return_inverse=True)
    in_cell = cell[first]
    counts = np.bincount(in_cell, minlength=S)
    factor = (counts / np.maximum(counts - 1, 1))[in_cell]
    place = (judge * L + language) * S + cell
    size = np.bincount(place, weights=count, minlength=J * L * S)
    total = np.bincount(place, weights=count * y, minlength=J * L * S)
    with np.errstate(invalid="ignore"):
        cell_mean = total / size
    held = (size > 0).reshape(J, L, S).sum(axis=2)
    with np.errstate(invalid="ignore"):
        mean = np.where(size > 0, cell_mean, 0.0).reshape(J, L, S).sum(axis=2) / held
    group = judge * L + language
    weight = count / (size[place] * held.reshape(-1)[group])
    resid = weight * (y - cell_mean[place])
    at = (judge * clusters.size + cluster) * L + language
    psi = np.bincount(at, weights=resid, minlength=J * clusters.size * L)
    return Influence(
        mean=np.where(held > 0, mean, np.nan),
        psi=psi.reshape(J, clusters.size, L),
        factor=factor,
        df=int(clusters.size - np.count_nonzero(counts)),
        n=np.bincount(group, weights=count, minlength=J * L).astype(np.int64).reshape(J, L),
    )


def cell_means(table: AuditTable) -> tuple[Floats, Ints]:
    """Return means and numbers of rows, (L, J, S); nan where there is no row."""
    J, L, S = len(table.judges), len(table.languages), len(table.cells)
    place = (table.language * J + table.judge) * S + table.cell
    size = np.bincount(place, minlength=L * J * S)
    total = np.bincount(place, weights=table.score, minlength=L * J * S)
    with np.errstate(invalid="ignore"):
        mean = total / size
    return mean.reshape(L, J, S), size.reshape(L, J, S)
