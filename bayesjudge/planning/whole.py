"""Numbers that count something."""

from __future__ import annotations

import numpy as np

from bayesjudge.errors import UsageError


def is_whole(value: object, least: int = 1) -> bool:
    """Whether a value is a whole number of at least ``least``."""
    whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    return whole and bool(value >= least)  # type: ignore[operator]


def check_whole(value: object, name: str, least: int = 1) -> None:
    """Raise a UsageError unless a value is a whole number of at least ``least``."""
    if not is_whole(value, least):
        raise UsageError(f"{name} is {value!r}", remedy=f"Give a whole number of at least {least}")
