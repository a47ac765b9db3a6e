"""Acceptance of verdicts by judge and language, from rows or from counts and sums alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bayesjudge.auditing.table import ALL_SCORES
from bayesjudge.closed_form.intervals import t_interval
from bayesjudge.errors import DataError, UsageError
from bayesjudge.pairing import refuse_battles
from bayesjudge.ranking import check_probability
from bayesjudge.scores.keys import cell_keys
from bayesjudge.scores.lines import CellMeans, Table, cells_of_table
from bayesjudge.scores.table import Facet, Scores
from bayesjudge.scores.tallying import Tally

if TYPE_CHECKING:
    import pandas as pd

type Floats = NDArray[np.float64]
type Ints = NDArray[np.int64]

_KNOWN = ("language", "judge", "scenario", "backbone", "generation")

# Of a sum of 0s and 1s, what rounding leaves between it and the sum of their squares.
_ROUNDING = 1e-9


def acceptance_rates(table: Table, *, ci_prob: float = 0.95) -> pd.DataFrame:
    """Return the share of verdicts that accept, by judge and language.

    The rates of :func:`bayesjudge.audit`: every level of the user's panel facets (a split, a
    benchmark) counts alike, and scenarios are what is drawn anew. Counts and sums by cell are
    enough, so that the table may be larger than memory.

    Parameters
    ----------
    table : Scores or Tally
        Verdicts of 0 and 1 with facets ``language`` and ``scenario``. For another threshold
        take the moments of a column that says whether a score is above it.
    ci_prob : float
        Of the t-intervals, whose degrees of freedom are scenarios less levels of the panel
        facets. They may pass 0 or 1 where few scenarios accept or refuse.

    Returns
    -------
    DataFrame
        Columns judge, language, rate, se, ci_lower, ci_upper and n, the number of verdicts;
        null where a judge has none in a language.

    Raises
    ------
    DataError
        Where scores are no verdicts, the table holds battles, or lacks languages or scenarios.
    UsageError
        Where ``ci_prob`` is no probability, or ``table`` neither Scores nor a Tally.
    """
    import pandas as pd

    if not isinstance(table, (Scores, Tally)):
        raise UsageError(
            f"acceptance_rates takes Scores or a Tally, not {type(table).__name__}",
            remedy="Read the table first: bayesjudge.read_tally(table)",
        )
    check_probability(ci_prob, "ci_prob")
    if isinstance(table, Scores):
        refuse_battles(table, "acceptance_rates")
    languages = table.levels("language")
    table.facet("scenario")
    if not _are_verdicts(table):
        raise DataError(
            "acceptance rates are of verdicts of 0 and 1, and there are other scores",
            table.source,
            "Give a column that says whether a score is above the threshold",
        )
    judges = table.levels("judge") if table.has("judge") else (ALL_SCORES,)
    cells = cells_of_table(table)
    rate, se, df, n = _rates(cells, len(judges), len(languages))
    low, high = t_interval(rate, se, max(df, 1), ci_prob)
    return pd.DataFrame(
        {
            "judge": pd.Series(np.repeat(np.asarray(judges, object), len(languages)), dtype=object),
            "language": pd.Series(list(languages) * len(judges), dtype=object),
            "rate": rate.ravel(),
            "se": se.ravel(),
            "ci_lower": low.ravel(),
            "ci_upper": high.ravel(),
            "n": n.ravel(),
        }
    )


def _are_verdicts(table: Table) -> bool:
    if isinstance(table, Scores):
        return bool(np.isin(table.score, (0.0, 1.0)).all())
    moments, c = table.moments, table.moments.location
    if moments.low.min() < 0 or moments.high.max() > 1:
        return False
    # Between 0 and 1 a square is smaller than its root, but at the ends.
    total = moments.total + c * moments.count
    squares = moments.squares + c * (2 * moments.total + c * moments.count)
    return bool((np.abs(total - squares) <= _ROUNDING * moments.count).all())


def _rates(cells: CellMeans, n_judges: int, n_languages: int) -> tuple[Floats, Floats, int, Ints]:
    """Return rates and standard errors (J, L), degrees of freedom, and verdicts (J, L)."""
    facets = cells.facets
    count = np.ones(cells.mean.size) if cells.weight is None else cells.weight.astype(float)
    own = [f for f in facets.values() if f.name not in _KNOWN and f.role == "panel"]
    cell, n_cells = _key(own, count.size)
    cluster, n_clusters = _key([facets["scenario"], *own], count.size)
    judge = facets["judge"].codes if "judge" in facets else np.zeros(count.size, np.int64)
    group = judge * n_languages + facets["language"].codes
    shape, n_groups = (n_judges, n_languages), n_judges * n_languages
    place = group * n_cells + cell
    size = np.bincount(place, count, n_groups * n_cells)
    sums = np.bincount(place, count * cells.mean, n_groups * n_cells)
    means = np.divide(sums, size, out=np.zeros_like(sums), where=size > 0)
    held = (size > 0).reshape(n_groups, n_cells).sum(axis=1)
    rate = np.full(n_groups, np.nan)
    there = held > 0
    rate[there] = means.reshape(n_groups, n_cells).sum(axis=1)[there] / held[there]
    residual = count * (cells.mean - means[place]) / (size[place] * held[group])
    psi = np.bincount(group * n_clusters + cluster, residual, n_groups * n_clusters)
    in_cell = np.zeros(n_clusters, np.int64)
    in_cell[cluster] = cell
    clusters = np.bincount(in_cell, minlength=n_cells)
    factor = (clusters / np.maximum(clusters - 1, 1))[in_cell]
    se = np.sqrt((factor * psi.reshape(n_groups, n_clusters) ** 2).sum(axis=1))
    se[~there] = np.nan
    n = np.bincount(group, count, n_groups).astype(np.int64)
    df = n_clusters - int(np.count_nonzero(clusters))
    return rate.reshape(shape), se.reshape(shape), df, n.reshape(shape)


def _key(facets: list[Facet], n: int) -> tuple[Ints, int]:
    if not facets:
        return np.zeros(n, np.int64), 1
    return cell_keys([f.codes for f in facets], [f.n_levels for f in facets])
