"""Whether an answer is the data's or the priors': P(best) under wider and narrower scales."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bayesjudge.errors import UsageError
from bayesjudge.scores.problems import Problem

if TYPE_CHECKING:
    import pandas as pd

type Floats = NDArray[np.float64]

FACTORS = (0.5, 2.0)
P_BEST_LIMIT = 0.05
"""A P(best) that moves by more is said to rest on the priors (STATISTICS section 2)."""


def check_factors(factors: Sequence[float]) -> tuple[float, ...]:
    """Return the factors, each once.

    Raises
    ------
    UsageError
        Where there are none, or one is not positive and finite, or changes nothing.
    """
    given = tuple(dict.fromkeys(float(factor) for factor in factors))
    if not given or any(not (np.isfinite(f) and f > 0) or f == 1 for f in given):
        raise UsageError(
            f"the factors are {list(factors)!r}",
            remedy="Give positive numbers other than 1, as 0.5 and 2",
        )
    return given


def column_of(factor: float) -> str:
    """Return what P(best) with scales times a factor is called."""
    return f"p_best_x{factor:g}"


def sensitivity_table(
    labels: Sequence[str], p_best: Floats, others: Sequence[Floats], factors: Sequence[float]
) -> pd.DataFrame:
    """Return one row a backbone: P(best), P(best) by factor, and how far it moves.

    Parameters
    ----------
    labels : sequence of B str
    p_best : (B,)
        With the priors in use.
    others : sequence of (B,)
        One a factor.
    factors : sequence of float

    Returns
    -------
    DataFrame
        Columns backbone, p_best, ``p_best_x0.5``, ``p_best_x2`` (one a factor),
        change (the largest absolute one) and sensitive (whether above 0.05).
    """
    import pandas as pd

    moved = np.max(np.abs(np.stack(others) - p_best), axis=0)
    return pd.DataFrame(
        {
            "backbone": pd.Series(list(labels), dtype=object),
            "p_best": p_best,
            **{column_of(f): other for f, other in zip(factors, others, strict=True)},
            "change": moved,
            "sensitive": moved > P_BEST_LIMIT,
        }
    )


def sensitivity_findings(table: pd.DataFrame) -> tuple[Problem, ...]:
    """Warn of backbones whose P(best) moves by more than 0.05."""
    moving = table[table["sensitive"]]
    if moving.empty:
        return ()
    columns = [name for name in table.columns if name.startswith("p_best")]
    told = "; ".join(
        f"{row['backbone']} " + ", ".join(f"{row[name]:.3f}" for name in columns)
        for _, row in moving.iterrows()
    )
    factors = ", ".join(name.removeprefix("p_best_x") for name in columns[1:])
    return (
        Problem(
            "warning",
            f"P(best) rests on the priors: with all scales x {factors} it moves by up to "
            f"{moving['change'].max():.2f} (as it is, and then in turn: {told})",
            "prior sensitivity",
            0,
            "Collect more scenarios or judges, or report the range",
        ),
    )
