"""Several columns of codes as one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

BINCOUNT_FACTOR = 8


def combine_codes(codes: Sequence[NDArray[np.int64]], sizes: Sequence[int]) -> NDArray[np.int64]:
    """Give every cell of a crossing a number, present or not.

    Parameters
    ----------
    codes : sequence of (N,) int array
        Codes of each facet, at least one.
    sizes : sequence of int
        Number of levels of each.

    Returns
    -------
    (N,) int array
        Equal where all codes are equal. Cells are compressed to those present
        where the crossing would outgrow 64 bits, so that only then the number
        differs from the row-major position.
    """
    key = codes[0].astype(np.int64)
    total = sizes[0]
    for code, size in zip(codes[1:], sizes[1:], strict=True):
        if total * size >= 2**62:
            _, key = np.unique(key, return_inverse=True)
            total = int(key.max()) + 1
        key = key * size + code
        total *= size
    return key


def cell_keys(
    codes: Sequence[NDArray[np.int64]], sizes: Sequence[int]
) -> tuple[NDArray[np.int64], int]:
    """Count the cells that are present from 0, in row-major order.

    Returns
    -------
    (N,) int array
        The cell of each row.
    int
        Number of cells present.
    """
    key = combine_codes(codes, sizes)
    if not key.size:
        return key, 0
    top = int(key.max()) + 1
    if top <= BINCOUNT_FACTOR * key.size:
        # a table of flags is many times faster than sorting
        present = np.zeros(top, dtype=bool)
        present[key] = True
        number = np.cumsum(present) - 1
        return number[key].astype(np.int64), int(number[-1]) + 1
    found, inverse = np.unique(key, return_inverse=True)
    return inverse.astype(np.int64), int(found.size)


def row_of_each(key: NDArray[np.int64], n: int) -> NDArray[np.int64]:
    """Return one row of each of n keys, the last that has it, (n,); every key occurs."""
    row = np.zeros(n, np.int64)
    row[key] = np.arange(key.size)
    return row
