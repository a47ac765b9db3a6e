"""The interaction of two facets by double-centering, with what is sure about it.

The estimator of CBC (arXiv:2608.22432) and the bounds of STATISTICS section 8: of
an m x k matrix of cell means take off row and column means and add the grand mean.
Tasks are the replicates. Where cells are missing, or tasks lack some of them, the
same is least squares on two bipartite graphs: tasks with cells, to free the cell
means from which tasks they hold, and rows with columns, to free them from both
margins. Every cell then counts once, however many tasks it has.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bayesjudge.errors import DataError

type Floats = NDArray[np.float64]
type Ints = NDArray[np.int64]
type Bools = NDArray[np.bool_]

# Below it a number between 0 and 1 is rounding.
_ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class Interaction:
    """The double-centred interaction of m rows and k columns.

    Attributes
    ----------
    estimate : (m, k) float array
        Null (nan) where the cell is missing, or alone holds its row or column to
        the others and so fits any additive table.
    se : (m, k) float array
        Standard error over tasks; null where fewer than two tasks have the cell.
    df : (m, k) float array
        Of the standard error: tasks that have the cell, less one.
    mean : (m, k) float array
        Cell means, freed from which tasks each cell holds; null where missing.
    additive : (m, k) float array
        Row plus column, of missing cells too.
    n_tasks : (m, k) int array
        Tasks that have the cell.
    weight_squares : (m, k) float array
        Sum of squared weights of the scores in the estimate; complete: c / n, with
        c = (1 - 1/m) (1 - 1/k).
    task_ranges : (m, k) float array
        Root of the sum over tasks of their squared summed absolute weights;
        complete: 4 c / sqrt(n).
    """

    estimate: Floats
    se: Floats
    df: Floats
    mean: Floats
    additive: Floats
    n_tasks: Ints
    weight_squares: Floats
    task_ranges: Floats

    @property
    def adjusted(self) -> Floats:
        """Cell means less the interaction; the additive fit where there is no mean."""
        kept = np.where(np.isnan(self.estimate), 0.0, self.estimate)
        return np.where(np.isnan(self.mean), self.additive, self.mean - kept)


def double_centre(matrix: Floats) -> Floats:
    """Return complete matrices (..., m, k) less row and column means, plus grand means."""
    values = np.asarray(matrix, dtype=float)
    values = values - values.mean(axis=-1, keepdims=True)
    return np.asarray(values - values.mean(axis=-2, keepdims=True))


def bipartite_components(present: Bools) -> tuple[tuple[Ints, Ints], ...]:
    """Return the connected parts of rows and columns that are joined by cells.

    Parameters
    ----------
    present : (m, k) bool array
        Which cells there are.

    Returns
    -------
    tuple of (rows, columns)
        Codes, rising; parts in the order of their first row. A row or column
        without a cell is a part of its own.
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    m, k = present.shape
    row, column = np.nonzero(present)
    graph = coo_array((np.ones(row.size), (row, column + m)), shape=(m + k, m + k))
    n_parts, part = connected_components(graph, directed=False)
    found = [
        (np.flatnonzero(part[:m] == number), np.flatnonzero(part[m:] == number))
        for number in range(n_parts)
    ]
    return tuple(found)


def interaction(
    tasks: Floats, weights: Floats | None = None, *, errors: bool = True
) -> Interaction:
    """Return the interaction of rows and columns, estimated over tasks.

    Parameters
    ----------
    tasks : (n, m, k) float array
        Mean score of each task in each cell, replicates averaged; nan where there
        is none.
    weights : (n,) float array, optional
        How often each task counts, as in a bootstrap; ones by default. Standard
        errors are meant for ones.
    errors : bool
        False leaves standard errors and weights null where cells are missing, which
        saves most of the time.

    Returns
    -------
    Interaction
        On a complete table the mean over tasks of their double-centred matrices,
        with se = sd over tasks / sqrt(n) (CBC; STATISTICS section 8).

    Raises
    ------
    DataError
        Where there are fewer than two rows or columns, no task counts, rows and
        columns fall into parts that no cell joins, or which tasks a cell holds
        cannot be told from the interaction.
    """
    values = np.asarray(tasks, dtype=float)
    if values.ndim != 3 or min(values.shape[1:]) < 2:
        raise DataError("an interaction needs two rows and two columns or more")
    n, m, k = values.shape
    weight = np.ones(n) if weights is None else np.asarray(weights, dtype=float)
    y = values.reshape(n, m * k)
    seen = ~np.isnan(y)
    counted = (weight > 0) & seen.any(axis=1)
    y, seen, weight = y[counted], seen[counted], weight[counted]
    if not counted.any():
        raise DataError("no task has a score")
    if seen.all():
        return _complete(y.reshape(-1, m, k), weight)
    return _least_squares(y, seen, weight, (m, k), errors)


def t_bound(found: Interaction, delta: float) -> Floats:
    """Return half-widths that each hold with probability 1 - delta: t with its df."""
    from scipy.special import stdtrit

    return np.asarray(stdtrit(found.df, 1 - delta / 2) * found.se)


def simultaneous_t_bound(found: Interaction, delta: float) -> Floats:
    """Return half-widths that all hold at once: t at delta / (2 m k) (Bonferroni)."""
    return t_bound(found, delta / found.estimate.size)


def proxy_bound(found: Interaction, sd: float, delta: float, simultaneous: bool = False) -> Floats:
    """Return concentration bounds for independent sub-Gaussian noise of known proxy.

    sqrt(2 sd^2 c log(2 / delta) / n) on a complete table, log(2 m k / delta) for
    all cells at once (STATISTICS section 8).

    Parameters
    ----------
    found : Interaction
    sd : float
        Root of the variance proxy of a task's score in a cell, on the scale of scores.
    delta : float
        Probability of an error.
    simultaneous : bool
        For all cells at once.
    """
    cells = found.estimate.size if simultaneous else 1
    return np.asarray(sd * np.sqrt(2 * found.weight_squares * np.log(2 * cells / delta)))


def range_bound(
    found: Interaction, width: float, delta: float, simultaneous: bool = False
) -> Floats:
    """Return concentration bounds for independent tasks with scores in [a, b].

    4 c (b - a) sqrt(log(2 / delta) / (2 n)) on a complete table (Hoeffding on what a
    task adds; STATISTICS section 8), log(2 m k / delta) for all cells at once.

    Parameters
    ----------
    found : Interaction
    width : float
        b - a, on the scale of scores.
    delta : float
        Probability of an error.
    simultaneous : bool
        For all cells at once.
    """
    cells = found.estimate.size if simultaneous else 1
    return np.asarray(width * found.task_ranges * np.sqrt(np.log(2 * cells / delta) / 2))


def _complete(y: Floats, weight: Floats) -> Interaction:
    n, m, k = y.shape
    total = weight.sum()
    mean = np.tensordot(weight, y, 1) / total
    centred = double_centre(y)
    estimate = double_centre(mean)
    ss = np.tensordot(weight, (centred - estimate) ** 2, 1)
    se = np.sqrt(ss / (total * (total - 1))) if total > 1 else np.full((m, k), np.nan)
    c = (1 - 1 / m) * (1 - 1 / k)
    squares = c * np.sum(weight**2) / total**2
    return Interaction(
        estimate=estimate,
        se=se,
        df=np.full((m, k), float(total - 1) if total > 1 else np.nan),
        mean=mean,
        additive=mean - estimate,
        n_tasks=np.full((m, k), n, dtype=np.int64),
        weight_squares=np.full((m, k), squares),
        task_ranges=np.full((m, k), 4 * c * np.sqrt(np.sum(weight**2)) / total),
    )


def _least_squares(
    y: Floats, seen: Bools, weight: Floats, shape: tuple[int, int], errors: bool = True
) -> Interaction:
    n_tasks = seen.sum(axis=0)
    there = n_tasks > 0
    if len(bipartite_components(there.reshape(shape))) > 1:
        raise DataError("rows and columns fall into parts that no cell joins")
    at = np.flatnonzero(there)
    y, seen = np.where(seen, y, 0.0)[:, at], seen[:, at]
    design = _additive_design(shape)
    residual, coefficients = _projections(design[at])
    solve, null = _solver(seen, weight)
    if np.abs(residual @ null).max(initial=0.0) > 1e-6:
        raise DataError(
            "which tasks a cell holds cannot be told from the interaction: "
            "too few tasks are in cells of several rows and columns"
        )
    size = seen.sum(axis=1)
    centred = np.where(seen, y - (y.sum(axis=1) / size)[:, None], 0.0)
    mean = solve @ (weight @ centred)
    task = np.where(seen, y - mean, 0.0).sum(axis=1) / size
    mean = mean + _levels(seen, weight, task)
    estimable = np.diag(residual) > _ROUNDING
    counts = weight @ seen
    null = np.full(at.size, np.nan)
    variance, squares, ranges = null, null, null
    if errors:
        by_task = residual @ solve
        task = np.where(seen, y - mean, 0.0).sum(axis=1) / size
        left = np.where(seen, y - mean - task[:, None], 0.0)
        correction = np.where(counts > 1, counts / np.maximum(counts - 1, 1e-300), np.nan)
        variance = correction * (weight @ (left @ by_task.T) ** 2)
        squares, ranges = _weights_of_scores(by_task, seen, weight)

    def whole(values: Floats, estimable_only: bool = True) -> Floats:
        out = np.full(there.size, np.nan)
        out[at] = np.where(estimable, values, np.nan) if estimable_only else values
        return out.reshape(shape)

    return Interaction(
        estimate=whole(residual @ mean),
        se=whole(np.sqrt(variance)),
        df=whole(np.where(counts > 1, counts - 1, np.nan)),
        mean=whole(mean, estimable_only=False),
        additive=(design @ (coefficients @ mean)).reshape(shape),
        n_tasks=n_tasks.reshape(shape).astype(np.int64),
        weight_squares=whole(squares),
        task_ranges=whole(ranges),
    )


def _additive_design(shape: tuple[int, int]) -> Floats:
    """Return the (m k, m + k) indicators of rows and columns."""
    m, k = shape
    return np.hstack([np.kron(np.eye(m), np.ones((k, 1))), np.kron(np.ones((m, 1)), np.eye(k))])


def _projections(design: Floats) -> tuple[Floats, Floats]:
    """Return what takes cell means to additive residuals, and to row and column effects."""
    coefficients = np.linalg.pinv(design)
    return np.eye(len(design)) - design @ coefficients, coefficients


def _solver(seen: Bools, weight: Floats) -> tuple[Floats, Floats]:
    """Return the pseudo-inverse of the tasks' Laplacian on cells, and its null space."""
    share = weight / seen.sum(axis=1)
    laplacian = np.diag(weight @ seen) - (seen * share[:, None]).T @ seen
    value, vector = np.linalg.eigh(laplacian)
    null = value <= _ROUNDING * max(float(value[-1]), _ROUNDING)
    inverse = np.where(null, 0.0, 1 / np.where(null, 1.0, value))
    return (vector * inverse) @ vector.T, vector[:, null]


def _levels(seen: Bools, weight: Floats, task: Floats) -> Floats:
    """Return the mean task effect of each cell's part of the graph of tasks and cells."""
    level = np.zeros(seen.shape[1])
    for rows, cells in bipartite_components(seen):
        level[cells] = np.average(task[rows], weights=weight[rows]) if rows.size else 0.0
    return level


def _weights_of_scores(by_task: Floats, seen: Bools, weight: Floats) -> tuple[Floats, Floats]:
    """Return the sum of squared weights of scores, and the root of squared task ranges."""
    patterns, which = np.unique(seen, axis=0, return_inverse=True)
    times = np.bincount(which.ravel(), weights=weight**2, minlength=len(patterns))
    squares, ranges = np.zeros(len(by_task)), np.zeros(len(by_task))
    for pattern, count in zip(patterns, times, strict=True):
        own = by_task[:, pattern]
        own = own - own.mean(axis=1, keepdims=True)
        squares += count * np.sum(own**2, axis=1)
        ranges += count * np.sum(np.abs(own), axis=1) ** 2
    return squares, np.sqrt(ranges)
