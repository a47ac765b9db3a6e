"""How reliable a table, or a design yet to be run, is: generalizability and dependability."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bayesjudge.errors import UsageError
from bayesjudge.fitted import Fit
from bayesjudge.planning.coefficients import coefficient_draws, error_draws
from bayesjudge.planning.components import components_of_fit
from bayesjudge.planning.designs import (
    RESIDUAL,
    Component,
    Components,
    Design,
    coefficients,
    lay_out,
)
from bayesjudge.scores.keys import cell_keys
from bayesjudge.scores.lines import Lines, Table, lines_of
from bayesjudge.summaries import summarize

if TYPE_CHECKING:
    import pandas as pd

type Floats = NDArray[np.float64]
type Ints = NDArray[np.int64]

DECISIONS = {"generalizability": "relative", "dependability": "absolute"}


def reliability(
    fit: Fit, design: Design | None = None, *, pool: int | None = None, ci_prob: float = 0.95
) -> pd.DataFrame:
    """Return the generalizability coefficient and the dependability index with intervals.

    Parameters
    ----------
    fit : Fit
        Gaussian.
    design : Design or None
        A design to be run with the same backbones; None for the table as it is.
    pool : int or None
        Number of all scenarios that the means are about; None for new ones.
    ci_prob : float

    Returns
    -------
    DataFrame
        coefficient, decision (``relative`` for generalizability, ``absolute`` for
        dependability), estimate, sd, ci_lower, ci_upper; posterior. Of the mean of judge
        means (Brennan 2001; STATISTICS section 3).

    Raises
    ------
    ModelError
        Where the model is not gaussian.
    UsageError
        Where the pool is smaller than the number of scenarios.
    """
    import pandas as pd

    components = components_of_fit(fit)
    if design is None:
        draws = error_draws(components, *table_multipliers(fit, components, pool))
    else:
        column = coefficients(components, lay_out(design), pool)[:, None]
        found = coefficient_draws(components, column)
        draws = {name: values[:, 0] for name, values in found.items()}
    rows = [
        {
            "coefficient": name,
            "decision": DECISIONS[name],
            **{k: v[0] for k, v in summarize(values[:, None], ci_prob, "estimate").items()},
        }
        for name, values in draws.items()
    ]
    return pd.DataFrame(rows)


def panel_mean_weights(scores: Table) -> Floats:
    """Return the weight of each score in its backbone's mean of judge means, (N,).

    Every level of the panel that scored a backbone (judges, languages) counts alike in
    its mean, and every score of such a cell alike. Of a tally: of each score of a line.
    """
    lines = lines_of(scores)
    backbone = lines.facets["backbone"]
    panel = [f for f in lines.facets.values() if f.role == "panel" and f.name != "backbone"]
    facets = [backbone, *panel]
    cell, n_cells = cell_keys([f.codes for f in facets], [f.n_levels for f in facets])
    size = np.bincount(cell, lines.weight, n_cells)
    owner = np.zeros(n_cells, np.int64)
    owner[cell] = backbone.codes
    cells_of = np.bincount(owner, minlength=backbone.n_levels)
    return 1.0 / (size[cell] * cells_of[backbone.codes])


def table_multipliers(
    fit: Fit, components: Components, pool: int | None = None
) -> tuple[list[Floats], list[Floats]]:
    """Return what multiplies each component's variances in the errors of a table's means.

    Parameters
    ----------
    fit : Fit
    components : Components
        Of the fit.
    pool : int or None

    Returns
    -------
    relative, absolute : lists of (1,) or (L,) float arrays
        For half the error variance of a difference, averaged over pairs of backbones, and
        for the error variance of a mean, averaged over backbones.
    """
    scores = fit.scores
    lines = lines_of(scores)
    weight = panel_mean_weights(scores)
    if lines.weight is not None:
        weight = weight * lines.weight
    universe = {
        f.name: f.n_levels for f in scores.facets if f.role == "panel" and f.name != "backbone"
    }
    if pool is not None and scores.has("scenario"):
        n = scores.facet("scenario").n_levels
        if pool < n:
            raise UsageError(f"a pool of {pool} scenarios is smaller than the table's {n}")
        universe["scenario"] = pool
    backbone = lines.facets["backbone"].codes
    relative, absolute = [], []
    for part in components.parts:
        shape, centred, codes, by = _levels(fit, part, lines.size)
        copies = _copies(lines, part)
        n_by = part.variance.shape[1]
        squares, total = np.zeros(n_by), np.zeros(int(np.prod(shape)))
        for b in range(len(fit.labels)):
            rows = backbone == b
            own = np.bincount(codes[rows], weight[rows], minlength=total.size)
            own = _centre(own.reshape(shape), centred).ravel()
            squares += np.bincount(by, own**2 / copies, minlength=n_by)
            total += own
        n = len(fit.labels)
        target = _target(part, universe) / n_by
        shared = 0.0 if "backbone" not in part.facets else target
        common = np.bincount(by, total**2 / copies, minlength=n_by)
        absolute.append(squares / n - target)
        relative.append((n * squares - common) / (n * (n - 1)) - shared)
    return relative, absolute


def _levels(
    fit: Fit, part: Component, n_lines: int
) -> tuple[tuple[int, ...], tuple[int, ...], Ints, Ints]:
    """Return shape, centred axes, level of each score, and level of ``by`` of each level."""
    if part.name == RESIDUAL:
        by = fit.resolved.residual_by
        levels = np.zeros(n_lines, np.int64) if by is None else by
        return (n_lines,), (), np.arange(n_lines), levels
    term = fit.resolved.term(part.name)
    centred = tuple(i for i, zero in enumerate(term.centred) if zero)
    by = np.zeros(term.n_levels, np.int64) if term.by_codes is None else term.by_codes
    return term.shape, centred, term.codes, by


def _copies(lines: Lines, part: Component) -> Ints | float:
    """Return how many scores, or generations, each level stands for: one but for a tally's."""
    if part.name == RESIDUAL and lines.weight is not None:
        return lines.weight
    if part.name == "generation" and lines.generations is not None:
        return lines.generations
    return 1.0


def _centre(values: Floats, axes: tuple[int, ...]) -> Floats:
    for axis in axes:
        values = values - values.mean(axis=axis, keepdims=True)
    return values


def _target(part: Component, universe: dict[str, int]) -> float:
    facets = [f for f in part.facets if f != "backbone"]
    if any(f not in universe or f in part.centred for f in facets):
        return 0.0
    return 1.0 / prod(universe[f] for f in facets)
