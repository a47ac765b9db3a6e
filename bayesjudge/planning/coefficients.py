"""Generalizability and dependability: draws of coefficients for any design."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bayesjudge.planning.designs import Components, component_matrix, mean_contrasts, pair_contrasts

type Floats = NDArray[np.float64]


def coefficient_draws(components: Components, found: Floats) -> dict[str, Floats]:
    """Return draws of both coefficients of designs.

    Generalizability (relative decisions): U / (U + d), U the variance of the backbones'
    universe scores, d half the error variance of a difference, averaged over pairs.
    Dependability (absolute): U / (U + D), D the error variance of a mean (Brennan 2001;
    STATISTICS section 3). U is taken from the universe scores themselves, so that it
    holds what judges' interactions add to them exactly once.

    Parameters
    ----------
    components : Components
    found : (n_coefficients, n_designs) float array
        Columns of :func:`bayesjudge.planning.designs.coefficients`.

    Returns
    -------
    dict of (n_draws, n_designs) float arrays
        ``generalizability`` and ``dependability``; nan where the universe scores'
        variance is not known, or all variances are zero.
    """
    n = len(components.backbones)
    relative = component_matrix(components, pair_contrasts(n)) @ found / 2
    absolute = component_matrix(components, mean_contrasts(n)) @ found
    universe = components.universe_variance
    u = np.full((1, 1), np.nan) if universe is None else universe[:, None]
    with np.errstate(invalid="ignore"):
        return {
            "generalizability": u / (u + np.maximum(relative, 0.0)),
            "dependability": u / (u + np.maximum(absolute, 0.0)),
        }


def error_draws(
    components: Components, relative: list[Floats], absolute: list[Floats]
) -> dict[str, Floats]:
    """Return both coefficients where each component's multipliers are known by themselves.

    Parameters
    ----------
    components : Components
    relative, absolute : list of (1,) or (L,) float arrays
        A component: what multiplies its variances in half the error variance of a
        difference, and in the error variance of a mean.

    Returns
    -------
    dict of (n_draws,) float arrays
        As :func:`coefficient_draws`.
    """
    universe = components.universe_variance
    if universe is None:
        universe = np.full(1, np.nan)
    found = {}
    for name, multipliers in (("generalizability", relative), ("dependability", absolute)):
        parts = zip(components.parts, multipliers, strict=True)
        error = sum((part.variance @ times for part, times in parts), np.zeros(1))
        with np.errstate(invalid="ignore"):
            found[name] = universe / (universe + np.maximum(error, 0.0))
    return found
