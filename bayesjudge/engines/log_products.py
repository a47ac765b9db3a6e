"""The log of a product, which takes fewer logarithms than the sum of logs."""

from __future__ import annotations

from typing import Any

import numpy as np

type Array = Any

# Factors of which a product stays within floating point.
_FACTORS = 8


def log_of_product(factors: Array, axis: int, xp: Any = np) -> Array:
    """Return the log of the product of positive factors over an axis.

    A logarithm takes as long as ten products: some factors share one.

    Parameters
    ----------
    factors : (..., D, ...)
        Between 1e-38 and 1e38 each; a product beyond what floating point holds is not finite.
    axis : int
        The first or the last.
    xp : module
        NumPy, or ``jax.numpy`` inside a JAX function.
    """
    total = 0.0
    for i in range(0, factors.shape[axis], _FACTORS):
        some = slice(i, i + _FACTORS)
        total = total + xp.log(
            xp.prod(factors[some] if axis == 0 else factors[..., some], axis=axis)
        )
    return total
