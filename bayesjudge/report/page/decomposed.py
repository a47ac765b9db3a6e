"""Variance components: the posterior's and the closed form's, side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bayesjudge.decomposing import anova
from bayesjudge.errors import BayesjudgeError
from bayesjudge.fitted import Fit
from bayesjudge.report.page.contents import Components

if TYPE_CHECKING:
    import pandas as pd

_NUMBERS = ("variance", "sd", "ci_lower", "ci_upper", "share")


def components_of(fit: Fit, posterior: pd.DataFrame, ci_prob: float, unit: str) -> Components:
    """Lay the closed form beside a fit's components, where the table has one.

    Parameters
    ----------
    fit : Fit
    posterior : DataFrame
        As :meth:`bayesjudge.fitted.Fit.variance_components` returns it.
    ci_prob : float
    unit : str
        Of scores; variances are in its square.
    """
    import pandas as pd

    closed, why, notes = _closed(fit, ci_prob)
    table = posterior.copy()
    for name in _NUMBERS:
        values = np.full(len(table), np.nan)
        if closed is not None:
            found = dict(zip(closed["term"], closed[name].astype(float), strict=True))
            values = np.array([found.get(term, np.nan) for term in table["term"]])
        table[f"closed_{name}"] = values
    table["differs"] = pd.Series(disagree(table), index=table.index)
    return Components(table, why, unit, notes)


def disagree(table: pd.DataFrame) -> list[bool]:
    """Say of each component whether posterior and closed form disagree.

    They do where their intervals do not meet, or a closed estimate that was not cut off
    at zero lies outside the posterior's interval.
    """
    low, high, estimate = (
        table[name].to_numpy(float) for name in ("ci_lower", "ci_upper", "closed_variance")
    )
    closed_low, closed_high = (
        table[name].to_numpy(float) for name in ("closed_ci_lower", "closed_ci_upper")
    )
    apart = (closed_low > high) | (closed_high < low)
    outside = (estimate > 0) & ((estimate < low) | (estimate > high))
    return [bool(one) for one in apart | outside]


def _closed(fit: Fit, ci_prob: float) -> tuple[pd.DataFrame | None, str, tuple[str, ...]]:
    if fit.spec.family != "gaussian" or fit.spec.covariates:
        return None, "Closed forms are for gaussian models without covariates.", ()
    try:
        found = anova(fit.scores, fit.spec, ci_prob=ci_prob, by_backbone=False)
    except BayesjudgeError as error:
        return None, f"There is no closed form: {error.what}.", ()
    return found.components, "", found.notes
