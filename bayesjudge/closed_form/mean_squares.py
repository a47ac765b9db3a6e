"""Mean squares, what they expect, and what can be made of them.

Mean squares are independent, and their expectations are linear in the variance
components with coefficients derived from the design
(:func:`bayesjudge.closed_form.strata.ems_coefficient`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bayesjudge.closed_form.intervals import satterthwaite_df
from bayesjudge.closed_form.strata import Component, Grid, Stratum, ems_coefficient, strata_of
from bayesjudge.errors import ModelError

type Floats = NDArray[np.float64]

RESIDUAL = "residual"

# Weights of mean squares are ratios of small whole numbers.
_TINY = 1e-9


@dataclass(frozen=True, eq=False)
class MeanSquares:
    """The table of mean squares and their expectations.

    Strata whose expectations are the same under the model are one line: no term
    tells them apart, so their sums of squares and degrees of freedom are pooled.
    What no term claims is pooled into the residual in this way.

    Attributes
    ----------
    grid : Grid
    components : tuple of T Component
        Without the residual.
    strata : tuple of G tuple of Stratum
        What each line pools.
    df, mean_square : (G,) float array
    expected : (G, T + 1) float array
        Coefficients of the components, the residual's last.
    solution : (T + 1, G) float array
        Components as weighted sums of mean squares: the inverse of ``expected``.
        With more lines than components, least squares with degrees of freedom as
        weights, which stays unbiased as the weights are fixed.
    """

    grid: Grid
    components: tuple[Component, ...]
    strata: tuple[tuple[Stratum, ...], ...]
    df: Floats
    mean_square: Floats
    expected: Floats
    solution: Floats

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the T + 1 components."""
        return (*(c.name for c in self.components), RESIDUAL)

    @property
    def overdetermined(self) -> bool:
        """Whether there are more lines than components."""
        return len(self.df) > len(self.names)

    def line_of(self, name: str) -> int:
        """Return the line whose strata hold the term's own; the residual's for it."""
        if name == RESIDUAL:
            alone = np.flatnonzero(~self.expected[:, :-1].any(axis=1))
            return int(alone[0]) if alone.size else -1
        own = self.grid.closure(self.components[self.names.index(name)].facets)
        return next(
            at
            for at, pooled in enumerate(self.strata)
            if any(frozenset(stratum.facets) == own for stratum in pooled)
        )

    def line_name(self, at: int) -> str:
        """Return what a line is called: its residual, its term, or its strata."""
        if at == self.line_of(RESIDUAL):
            return RESIDUAL
        terms = [c.name for c in self.components if self.line_of(c.name) == at]
        return terms[0] if terms else " + ".join(stratum.name for stratum in self.strata[at])


@dataclass(frozen=True, eq=False)
class Combination:
    """A weighted sum of mean squares.

    Attributes
    ----------
    weights : (G,) float array
    value : float
    df : float
        Exact for one mean square, else Satterthwaite's.
    """

    weights: Floats
    value: float
    df: float


def mean_squares(grid: Grid, components: tuple[Component, ...]) -> MeanSquares:
    """Lay a model on a grid.

    Parameters
    ----------
    grid : Grid
    components : tuple of Component
        Without the residual; facets may be other names of the grid's.

    Returns
    -------
    MeanSquares

    Raises
    ------
    ModelError
        Where the mean squares cannot tell the components apart.
    """
    lines: dict[tuple[float, ...], list[Stratum]] = {}
    for stratum in strata_of(grid):
        row = tuple(ems_coefficient(grid, c, stratum.facets) for c in components)
        lines.setdefault((*row, 1.0), []).append(stratum)
    expected = np.array(list(lines), dtype=float)
    df = np.array([sum(s.df for s in pooled) for pooled in lines.values()], dtype=float)
    ss = np.array([sum(s.sum_of_squares for s in pooled) for pooled in lines.values()])
    scale = expected.max(axis=0)
    if np.any(scale == 0) or np.linalg.matrix_rank(expected / scale) < expected.shape[1]:
        raise ModelError(
            f"{expected.shape[0]} mean squares cannot tell {expected.shape[1]} components apart",
            ", ".join((*(c.name for c in components), RESIDUAL)),
            "Leave a term out of the model, or add a facet or replicates to the table",
        )
    root = np.sqrt(df)[:, None]
    solution = np.linalg.pinv(root * expected / scale) * root.T / scale[:, None]
    size = np.abs(solution).max(axis=1, keepdims=True)
    solution[np.abs(solution) < _TINY * size] = 0.0
    return MeanSquares(
        grid=grid,
        components=components,
        strata=tuple(tuple(pooled) for pooled in lines.values()),
        df=df,
        mean_square=ss / df,
        expected=expected,
        solution=solution,
    )


def combination(table: MeanSquares, weights: Floats) -> Combination:
    """Return a weighted sum of mean squares with its degrees of freedom."""
    used = np.flatnonzero(weights)
    value = float(weights @ table.mean_square)
    df = (
        float(table.df[used[0]])
        if used.size == 1
        else satterthwaite_df(weights, table.mean_square, table.df)
    )
    return Combination(weights, value, df)


def with_expectation(
    table: MeanSquares, target: Floats, without: int | None = None
) -> Combination | None:
    """Return mean squares that expect ``target``, a single one where there is one.

    Parameters
    ----------
    table : MeanSquares
    target : (T + 1,) float array
        Coefficients of the components.
    without : int, optional
        A line not to be used.

    Returns
    -------
    Combination or None
        None where no combination has this expectation.
    """
    lines = np.array([at for at in range(len(table.df)) if at != without], dtype=int)
    weights = np.zeros(len(table.df))
    same = [at for at in lines if np.allclose(table.expected[at], target, rtol=_TINY, atol=0)]
    if same:
        weights[same[0]] = 1.0
        return combination(table, weights)
    if not lines.size:
        return None
    scale = table.expected.max(axis=0)
    system = (table.expected[lines] / scale).T
    found = np.linalg.lstsq(system, target / scale)[0]
    if not np.allclose(system @ found, target / scale, rtol=0, atol=_TINY * len(scale)):
        return None
    weights[lines] = np.where(np.abs(found) < _TINY, 0.0, found)
    return combination(table, weights)


def error_of(table: MeanSquares, name: str) -> Combination | None:
    """Return what the mean square of a term's line expects without the term."""
    own = table.line_of(name)
    target = table.expected[own].copy()
    target[table.names.index(name)] = 0.0
    return with_expectation(table, target, without=own)


def in_words(table: MeanSquares, weights: Floats) -> str:
    """Return a weighted sum of mean squares as text, by the names of its lines."""
    parts = [
        table.line_name(int(at))
        if math.isclose(weights[at], 1)
        else f"{weights[at]:.4g} {table.line_name(int(at))}"
        for at in np.flatnonzero(weights)
    ]
    return " + ".join(parts)
