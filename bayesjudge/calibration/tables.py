"""Arrays of a calibration as tables with names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bayesjudge.calibration.asking import Asked
from bayesjudge.calibration.cells import Cells
from bayesjudge.calibration.posterior import Shrunken
from bayesjudge.closed_form.agreement import Agreement
from bayesjudge.closed_form.double_centering import (
    Interaction,
    interaction,
    proxy_bound,
    range_bound,
    simultaneous_t_bound,
    t_bound,
)
from bayesjudge.closed_form.reversals import Reversals, posterior_reversals
from bayesjudge.errors import UsageError
from bayesjudge.ranking import midranks
from bayesjudge.summaries import summarize

if TYPE_CHECKING:
    import pandas as pd

type Floats = NDArray[np.float64]

INTERACTION = (
    "estimate", "se", "df", "ci_lower", "ci_upper", "bound", "bound_range", "bound_proxy",
    "n_tasks", "posterior", "posterior_sd", "posterior_lower", "posterior_upper", "difference",
    "difference_in_se",
)  # fmt: skip
ADJUSTED = ("mean", "adjusted", "rank", "adjusted_rank", "n_tasks", "extrapolated")
REVERSALS = (
    "other", "most_in", "difference_most", "least_in", "difference_least", "p_t", "reversed_t",
    "p_bootstrap", "p_holm", "reversed_holm", "p_posterior", "p_posterior_rope",
)  # fmt: skip
SCORES = ("row", "score", "human_score", "interaction", "adjusted_score")


def check_names(cells: Cells) -> None:
    """Refuse facets whose names the tables use for something else.

    Raises
    ------
    UsageError
    """
    taken = {*INTERACTION, *ADJUSTED, *REVERSALS, *SCORES}
    for name in (cells.conditions, cells.objects):
        if name in taken:
            raise UsageError(
                f"a facet called {name!r} would share its name with a column of the answer",
                f"--between {name}",
                f"Call it something else: --facet NAME --column NAME={name}",
            )


def interaction_table(
    cells: Cells,
    closed: Interaction,
    shrunken: Shrunken | None,
    asked: Asked,
    scale: tuple[float, float] | None,
) -> pd.DataFrame:
    """Return one row a cell: closed form and posterior side by side."""
    delta = 1 - asked.ci_prob
    half = t_bound(closed, delta)
    null = np.full(closed.estimate.shape, np.nan)
    columns: dict[str, Any] = {
        "estimate": closed.estimate,
        "se": closed.se,
        "df": closed.df,
        "ci_lower": closed.estimate - half,
        "ci_upper": closed.estimate + half,
        "bound": simultaneous_t_bound(closed, delta),
        "bound_range": null
        if scale is None
        else range_bound(closed, scale[1] - scale[0], delta, simultaneous=True),
        "bound_proxy": null
        if asked.proxy_sd is None
        else proxy_bound(closed, asked.proxy_sd, delta, simultaneous=True),
        "n_tasks": closed.n_tasks if cells.has_tasks else np.zeros_like(closed.n_tasks),
        **dict.fromkeys(("posterior", "posterior_sd", "posterior_lower", "posterior_upper"), null),
    }
    if shrunken is not None:
        found = summarize(shrunken.interaction, asked.ci_prob, "posterior")
        columns["posterior"] = found["posterior"]
        columns["posterior_sd"] = found["sd"]
        columns["posterior_lower"] = found["ci_lower"]
        columns["posterior_upper"] = found["ci_upper"]
    columns["difference"] = _alike(columns["posterior"], closed) - closed.estimate
    some = np.where(closed.se > 0, closed.se, np.nan)
    columns["difference_in_se"] = columns["difference"] / some
    return _by_cell(cells, columns)


def _alike(posterior: Floats, closed: Interaction) -> Floats:
    """Return posterior means balanced over the cells there are, as the estimates are.

    The posterior sums to zero over all cells; with some missing the closed form cannot.
    """
    missing = np.isnan(closed.mean)
    if not missing.any() or np.isnan(posterior).any():
        return posterior
    return interaction(np.where(missing, np.nan, posterior)[None], errors=False).estimate


def adjusted_table(cells: Cells, closed: Interaction, lower_is_better: bool) -> pd.DataFrame:
    """Return one row a cell: mean and rank among its condition's, raw and adjusted."""
    missing = np.isnan(closed.mean)
    adjusted = closed.adjusted
    return _by_cell(
        cells,
        {
            "mean": closed.mean,
            "adjusted": adjusted,
            "rank": _ranks(closed.mean, lower_is_better),
            "adjusted_rank": _ranks(adjusted, lower_is_better),
            "n_tasks": closed.n_tasks if cells.has_tasks else np.zeros_like(closed.n_tasks),
            "extrapolated": missing,
        },
    )


def reversals_table(
    cells: Cells, tested: Reversals | None, shrunken: Shrunken | None, asked: Asked
) -> pd.DataFrame:
    """Return one row a pair of objects; empty without tasks."""
    import pandas as pd

    names = (cells.objects, *REVERSALS)
    if tested is None:
        return pd.DataFrame({name: pd.Series(dtype=object) for name in names})
    alpha = 1 - asked.ci_prob
    first, second = tested.pairs.T
    known = ~np.isnan(tested.difference).all(axis=0)
    most = np.where(np.isnan(tested.difference), -np.inf, tested.difference).argmax(axis=0)
    least = np.where(np.isnan(tested.difference), np.inf, tested.difference).argmin(axis=0)
    pair = np.arange(len(first))
    null = np.full(len(first), np.nan)
    p_posterior = null if shrunken is None else posterior_reversals(shrunken.within, 0.0)
    p_rope = null
    if shrunken is not None and asked.rope is not None:
        p_rope = posterior_reversals(shrunken.within, asked.rope)
    columns = {
        cells.objects: _named(cells.object_labels, first),
        "other": _named(cells.object_labels, second),
        "most_in": _named(cells.condition_labels, most, known),
        "difference_most": tested.difference[most, pair],
        "least_in": _named(cells.condition_labels, least, known),
        "difference_least": tested.difference[least, pair],
        "p_t": tested.p_t,
        "reversed_t": tested.p_t < alpha / 2,
        "p_bootstrap": tested.p_bootstrap,
        "p_holm": tested.p_holm,
        "reversed_holm": tested.p_holm < alpha,
        "p_posterior": p_posterior,
        "p_posterior_rope": p_rope,
    }
    return pd.DataFrame(columns)


def agreement_table(found: tuple[Agreement, ...]) -> pd.DataFrame:
    """Return one row a measure of agreement with the gold."""
    import pandas as pd

    rows = [
        {
            "measure": one.measure,
            "before": one.before,
            "before_lower": one.before_interval[0],
            "before_upper": one.before_interval[1],
            "after": one.after,
            "after_lower": one.after_interval[0],
            "after_upper": one.after_interval[1],
            "gain": one.after - one.before,
            "gain_lower": one.gain_interval[0],
            "gain_upper": one.gain_interval[1],
            "n_tasks": one.n_tasks,
            "n_compared": one.n_compared,
        }
        for one in found
    ]
    return pd.DataFrame(rows)


def _by_cell(cells: Cells, columns: dict[str, Any]) -> pd.DataFrame:
    import pandas as pd

    m, k = len(cells.condition_labels), len(cells.object_labels)
    row, column = (codes.ravel() for codes in np.indices((m, k)))
    return pd.DataFrame(
        {
            cells.conditions: _named(cells.condition_labels, row),
            cells.objects: _named(cells.object_labels, column),
            **{name: values.ravel() for name, values in columns.items()},
        }
    )


def _named(
    labels: tuple[str, ...], codes: NDArray[np.int64], known: NDArray[np.bool_] | None = None
) -> pd.Series[Any]:
    import pandas as pd

    kept = np.ones(len(codes), bool) if known is None else known
    named = [labels[i] if there else None for i, there in zip(codes, kept, strict=True)]
    return pd.Series(named, dtype=object)


def _ranks(matrix: Floats, lower_is_better: bool) -> Floats:
    """Return midranks within each row, 1 the best; nan where there is no mean."""
    ranks = np.full(matrix.shape, np.nan)
    for i, row in enumerate(matrix):
        known = ~np.isnan(row)
        if known.any():
            # What rounding parts is tied.
            rounded = np.round(row[known] / (np.abs(row[known]).max() or 1.0), 12)
            ranks[i, known] = midranks(rounded[None], lower_is_better)[0]
    return ranks
