"""Draws summed up: means, intervals, labelled squares. Pure functions of arrays."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bayesjudge.ranking import check_probability

if TYPE_CHECKING:
    import pandas as pd

type Floats = NDArray[np.float64]


def labelled_square(
    values: Floats, rows: Iterable[str], columns: Iterable[object], name: str
) -> pd.DataFrame:
    """Return a table of backbones by anything, its columns' index called `name`."""
    import pandas as pd

    return pd.DataFrame(
        values,
        index=pd.Index(list(rows), dtype=object, name="backbone"),
        columns=pd.Index(list(columns), dtype=object, name=name),
    )


def summarize(draws: Floats, ci_prob: float, name: str) -> dict[str, Floats]:
    """Return mean (called `name`), sd and equal-tailed interval of (n_draws, ...) draws.

    Raises
    ------
    UsageError
        Where `ci_prob` is not in (0, 1).
    """
    check_probability(ci_prob, "ci_prob")
    tail = (1 - ci_prob) / 2
    lower, upper = np.quantile(draws, [tail, 1 - tail], axis=0)
    return {
        name: draws.mean(axis=0),
        "sd": draws.std(axis=0, ddof=1),
        "ci_lower": lower,
        "ci_upper": upper,
    }


def mean_square(values: Floats) -> Floats:
    """Return the mean square of each draw's values, (n_draws,)."""
    return np.mean(values.reshape(len(values), -1) ** 2, axis=1)
