"""Scores that arrive day by day, drawn from the day's number alone."""

from __future__ import annotations

from functools import cache

import numpy as np
import pandas as pd


@cache
def day(number):
    """Draw some scores of answers of which other days may hold others; each at most once.

    Levels appear over time; a generation's judges score it on different days.
    """
    rng = np.random.default_rng(number)
    cells = 3 + int(rng.integers(40))
    frame = pd.DataFrame(
        {
            "backbone": [f"b{rng.integers(2 + number % 5)}" for _ in range(cells)],
            "scenario": [f"s{rng.integers(4 + number % 7)}" for _ in range(cells)],
            # The day is the judge: no cell is scored twice.
            "judge": f"j{number}",
            "generation": [f"g{rng.integers(3)}" for _ in range(cells)],
            "score": rng.normal(5, 1, cells).round(3),
        }
    )
    return frame.drop_duplicates(["backbone", "scenario", "judge", "generation"])


def days(number):
    """Return the scores of days 1 to a number as one table."""
    return pd.concat([day(k) for k in range(1, number + 1)], ignore_index=True)
