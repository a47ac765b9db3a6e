"""Acceptance of verdicts by judge and language, from rows or from counts and sums alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bayesjudge.auditing.influence import Influence, influences_of
from bayesjudge.auditing.table import ALL_SCORES, KNOWN, key_of_facets
from bayesjudge.closed_form.intervals import t_interval
from bayesjudge.errors import DataError, UsageError
from bayesjudge.pairing import refuse_battles
from bayesjudge.ranking import check_probability
from bayesjudge.scores.lines import CellMeans, Table, cells_of_table
from bayesjudge.scores.table import Scores
from bayesjudge.scores.tallying import Tally

if TYPE_CHECKING:
    import pandas as pd

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
    found = _influences(cells_of_table(table), len(judges), len(languages))
    se = np.where(found.n > 0, [found.se(psi) for psi in found.psi], np.nan)
    low, high = t_interval(found.mean, se, max(found.df, 1), ci_prob)
    return pd.DataFrame(
        {
            "judge": pd.Series(np.repeat(np.asarray(judges, object), len(languages)), dtype=object),
            "language": pd.Series(list(languages) * len(judges), dtype=object),
            "rate": found.mean.ravel(),
            "se": se.ravel(),
            "ci_lower": low.ravel(),
            "ci_upper": high.ravel(),
            "n": found.n.ravel(),
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


def _influences(cells: CellMeans, n_judges: int, n_languages: int) -> Influence:
    facets, n = cells.facets, cells.mean.size
    count = np.ones(n) if cells.weight is None else cells.weight.astype(float)
    own = [f for f in facets.values() if f.name not in KNOWN and f.role == "panel"]
    cell = key_of_facets(own, n)
    return influences_of(
        cells.mean,
        count,
        facets["judge"].codes if "judge" in facets else np.zeros(n, np.int64),
        facets["language"].codes,
        cell,
        key_of_facets([facets["scenario"], *own], n),
        (n_judges, n_languages, int(cell.max()) + 1),
    )
