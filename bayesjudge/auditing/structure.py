"""What no offset can mend: languages of unequal spread, items that languages reorder."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bayesjudge.auditing.acceptance import cell_weights, spread
from bayesjudge.auditing.influence import influences
from bayesjudge.auditing.permuting import grid, p_value, permuted_totals
from bayesjudge.auditing.table import AuditTable

type Floats = NDArray[np.float64]
type Ints = NDArray[np.int64]


def centred(table: AuditTable) -> Floats:
    """Return scores less the mean of their language, judge and cell."""
    S, L = len(table.cells), len(table.languages)
    place = (table.judge * L + table.language) * S + table.cell
    size = np.bincount(place)
    mean = np.bincount(place, weights=table.score) / np.maximum(size, 1)
    return np.asarray(table.score - mean[place])


@dataclass(frozen=True, eq=False)
class Dispersion:
    """Spread of one judge's scores in each language.

    Attributes
    ----------
    sd : (L,) float array
        About the mean of language and cell.
    log_ratio, log_ratio_se : (L,) float array
        Log of sd over its geometric mean over languages, scenarios independent.
    p_value : float
        That the range of log sds is chance, by permuting languages within scenarios.
    df : int
    """

    sd: Floats
    log_ratio: Floats
    log_ratio_se: Floats
    p_value: float
    df: int


def dispersion(table: AuditTable, n_permutations: int, rng: np.random.Generator) -> Dispersion:
    """Return the spread of scores by language with errors and a test of equality.

    Parameters
    ----------
    table : AuditTable
        One judge's rows.
    """
    resid = centred(table)
    j = int(table.judge[0])
    found = influences(table, resid**2)
    cells = np.unique(table.cell).size
    clusters = np.unique(table.cluster).size
    correction = clusters / max(clusters - cells, 1)
    variance = found.mean[j] * correction
    good = np.isfinite(variance) & (variance > 0)
    L = len(table.languages)
    log_sd = np.full(L, np.nan)
    log_sd[good] = 0.5 * np.log(variance[good])
    psi = np.zeros_like(found.psi[j])
    psi[:, good] = 0.5 * found.psi[j][:, good] * correction / variance[good]
    ratio, ratio_se = np.full(L, np.nan), np.full(L, np.nan)
    if good.sum() > 1:
        ratio[good] = log_sd[good] - log_sd[good].mean()
        psi = psi - psi[:, good].mean(axis=1, keepdims=True)
        ratio_se[good] = found.se(psi)[good]
    p = np.nan
    if good.sum() > 1:
        weight = cell_weights(table)
        # Means are taken out before: exchangeable to order 1/n, and offsets do not count.
        sums, count, _ = grid(
            table.cluster, table.language, L, np.stack([weight * resid**2, weight])
        )
        null = []
        with np.errstate(invalid="ignore", divide="ignore"):
            for totals in permuted_totals(sums, count, n_permutations, rng):
                null.append(spread(0.5 * np.log(totals[:, 0] / totals[:, 1])))
        p = p_value(float(spread(log_sd)), np.concatenate(null))
    return Dispersion(np.sqrt(np.where(good, variance, np.nan)), ratio, ratio_se, p, found.df)


@dataclass(frozen=True)
class Interaction:
    """How the centred variance of one judge splits over shared items and language x item.

    Attributes
    ----------
    share : float
        Of language x item: variance about the item's mean over these languages, as
        the paper's table 14 (right). One score a cell leaves whatever noise a
        single score has in it.
    se_logit : float
        Standard error of its logit, scenarios independent.
    population_share : float
        Were the languages draws from many: share * L / (L - 1).
    item_variance, total_variance : float
    n_items, n_left_out : int
        Items scored in all of the judge's languages, and the others.
    df : int
    """

    share: float
    se_logit: float
    population_share: float
    item_variance: float
    total_variance: float
    n_items: int
    n_left_out: int
    df: int


def interaction(table: AuditTable) -> Interaction | None:
    """Split the centred variance of one judge's scores (the paper's appendix D).

    Returns
    -------
    Interaction or None
        None where fewer than three items are scored in all of the judge's languages,
        or none varies.
    """
    used = np.unique(table.language)
    items, item = np.unique(table.item, return_inverse=True)
    column = np.searchsorted(used, table.language)
    sums, count, _ = grid(item, column, used.size, table.score[None])
    whole = (count > 0).all(axis=1)
    n = int(whole.sum())
    if n < 3 or used.size < 2:
        return None
    first = np.unique(item, return_index=True)[1][whole]
    cell, cluster = table.cell[first], table.cluster[first]
    scores = sums[0][whole] / count[whole]
    for code in np.unique(cell):
        rows = cell == code
        scores[rows] -= scores[rows].mean(axis=0)
    total = (scores**2).mean(axis=1)
    shared = scores.mean(axis=1) ** 2
    if total.sum() <= 0:
        return None
    share = float(1.0 - shared.sum() / total.sum())
    clusters, at = np.unique(cluster, return_inverse=True)
    part = -(shared - (1.0 - share) * total) / total.sum()
    psi = np.bincount(at, weights=part)
    df = int(clusters.size - np.unique(cell).size)
    se = float(np.sqrt((psi**2).sum() * clusters.size / max(df, 1)))
    inside = 0.0 < share < 1.0
    degrees = max(n - np.unique(cell).size, 1)
    return Interaction(
        share=share,
        se_logit=se / (share * (1.0 - share)) if inside else np.nan,
        population_share=share * used.size / (used.size - 1),
        item_variance=float(shared.sum() / degrees),
        total_variance=float(total.sum() / degrees),
        n_items=n,
        n_left_out=int(items.size - n),
        df=df,
    )
