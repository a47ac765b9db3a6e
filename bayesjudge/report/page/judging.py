"""What judges add to scores, and what they add to their own backbone's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bayesjudge.errors import UsageError
from bayesjudge.fitted import Fit
from bayesjudge.report.page.contents import Absent, Judges, Matrix
from bayesjudge.summaries import summarize

if TYPE_CHECKING:
    import pandas as pd

type Floats = NDArray[np.float64]
type Pairs = Sequence[tuple[str, str]]


def own_pairs(fit: Fit, given: Pairs = ()) -> tuple[tuple[str, str], ...]:
    """Return (judge, backbone) of judges that are one of the backbones.

    Parameters
    ----------
    fit : Fit
    given : sequence of (judge, backbone)
        Beside those of one name.

    Raises
    ------
    UsageError
        Where a label is not in the table.
    """
    judges = fit.scores.levels("judge") if fit.scores.has("judge") else ()
    for judge, backbone in given:
        for label, levels, what in ((judge, judges, "judge"), (backbone, fit.labels, "backbone")):
            if label not in levels:
                raise UsageError(
                    f"no {what} is called {label!r}", "--self", f"Name a {what} of the table"
                )
    same = [(label, label) for label in judges if label in fit.labels]
    return tuple(dict.fromkeys([*given, *same]))


def judges_of(
    fit: Fit, order: Sequence[str], own: Pairs, ci_prob: float, unit: str
) -> Judges | Absent:
    """Return judges' leniency, their offsets by backbone and self-preference.

    Parameters
    ----------
    fit : Fit
    order : sequence of str
        Backbones, in the order to show them.
    own : sequence of (judge, backbone)
        As :func:`own_pairs` returns it.
    ci_prob : float
    unit : str
        Of the offsets.
    """
    if not fit.scores.has("judge"):
        return Absent("The table has no judges.")
    judges = fit.scores.levels("judge")
    if len(judges) == 1:
        return Absent("One judge has no panel to be lenient beside.")
    names = {frozenset(term.dims): term for term in fit.resolved.terms}
    leniency: pd.DataFrame | Absent = Absent(
        "The model has no judge effects on this table; the section on assumptions says why."
    )
    if frozenset({"judge"}) in names:
        leniency = fit.effects("judge", ci_prob=ci_prob)
    offsets: Matrix | Absent = Absent(
        "The question is about judges that are not in the table; offsets of those that are, by "
        "backbone, are not kept. Ask about the panel to see them."
        if frozenset({"backbone", "judge"}) in names
        else "The model has no effects of judges by backbone on this table; the section on "
        "assumptions says why."
    )
    preference: pd.DataFrame | Absent = Absent("Without these self-preference is not known.")
    if "backbone_judge_effect" in fit.posterior["posterior"]:
        draws = interaction_draws(fit)
        at = [fit.labels.index(label) for label in order]
        position = {label: i for i, label in enumerate(order)}
        offsets = Matrix(
            name="Offsets of judges by backbone",
            rows=tuple(order),
            columns=judges,
            row_name="backbone",
            column_name="judge",
            values=draws.mean(axis=0)[at],
            unit=unit,
            kind="signed",
            marked=tuple((position[b], judges.index(j)) for j, b in own),
            mark="own" if own else "",
            file="offsets.csv",
        )
        preference = (
            self_preference(draws, fit.labels, judges, own, ci_prob)
            if own
            else Absent(
                "No judge has a backbone's name; --self JUDGE=BACKBONE of bayesjudge report says "
                "which is whose."
            )
        )
    return Judges(leniency, offsets, preference, unit)


def interaction_draws(fit: Fit) -> Floats:
    """Return draws of the offsets of judges by backbone, (n_draws, B, K)."""
    values = fit.posterior["posterior"]["backbone_judge_effect"]
    array = values.transpose("chain", "draw", "backbone", "judge").to_numpy()
    return np.asarray(array.reshape(-1, *array.shape[2:]), float)


def self_preference(
    draws: Floats, backbones: Sequence[str], judges: Sequence[str], own: Pairs, ci_prob: float
) -> pd.DataFrame:
    """Return by how much judges favour their own beyond how they meet the others.

    The judge's offset on its own backbone less the mean of its offsets on the others,
    so that leniency drops out (CyclicJudge, figure 2).

    Parameters
    ----------
    draws : (n_draws, B, K) array
        Offsets beyond the judge's leniency and the backbone's mean.
    backbones, judges : sequences of str
    own : sequence of (judge, backbone)
    ci_prob : float

    Returns
    -------
    DataFrame
        judge, backbone, estimate, sd, ci_lower, ci_upper; with two pairs or more a last
        row whose labels are null: the mean of all.
    """
    import pandas as pd

    n = len(backbones)
    columns = []
    for judge, backbone in own:
        offsets = draws[:, :, judges.index(judge)]
        at = backbones.index(backbone)
        mine = offsets[:, at]
        columns.append(mine - (offsets.sum(axis=1) - mine) / (n - 1))
    judge_column: list[str | None] = [judge for judge, _ in own]
    backbone_column: list[str | None] = [backbone for _, backbone in own]
    if len(own) > 1:
        columns.append(np.mean(columns, axis=0))
        judge_column.append(None)
        backbone_column.append(None)
    summary = summarize(np.stack(columns, axis=1), ci_prob, "estimate")
    return pd.DataFrame(
        {
            "judge": pd.Series(judge_column, dtype=object),
            "backbone": pd.Series(backbone_column, dtype=object),
            **summary,
        }
    )
