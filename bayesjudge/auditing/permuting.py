"""What chance alone shows: language labels permuted within scenarios.

With no effect of language at all, the labels of a scenario's languages could as well
be others. A scenario is permuted as a whole, so what its items share stays together.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

type Floats = NDArray[np.float64]
type Ints = NDArray[np.int64]

_BATCH_ENTRIES = 200_000


def grid(
    cluster: Ints, language: Ints, n_languages: int, columns: Floats
) -> tuple[Floats, Floats, Ints]:
    """Sum columns by scenario and language.

    Parameters
    ----------
    cluster, language : (N,) int array
    n_languages : int
    columns : (K, N) float array

    Returns
    -------
    (K, C, L) float array
        Sums.
    (C, L) float array
        Numbers of rows.
    (C,) int array
        The scenario of each row of the grid.
    """
    clusters, at = np.unique(cluster, return_inverse=True)
    place = at * n_languages + language
    size = clusters.size * n_languages
    count = np.bincount(place, minlength=size).astype(float)
    sums = np.stack([np.bincount(place, weights=c, minlength=size) for c in columns])
    shape = (clusters.size, n_languages)
    return sums.reshape(-1, *shape), count.reshape(shape), clusters


def permuted_totals(
    sums: Floats, count: Floats, n_permutations: int, rng: np.random.Generator
) -> Iterator[Floats]:
    """Yield totals by language after permuting labels within each scenario.

    Parameters
    ----------
    sums : (K, C, L) float array
    count : (C, L) float array
        0 where a scenario lacks a language: those stay where they are.
    n_permutations : int
    rng : numpy.random.Generator

    Yields
    ------
    (P, K + 1, L) float array
        Batches of totals of the K columns and, last, of the rows.
    """
    columns = np.concatenate([sums, count[None]])
    C, L = count.shape
    present = count > 0
    held = present.sum(axis=1, keepdims=True)
    # Where all languages of a scenario hold the same, no permutation changes anything.
    varies = [bool((present * (c - c.sum(axis=1, keepdims=True) / held)).any()) for c in columns]
    fixed = columns.sum(axis=1)
    # Places of the languages that a scenario has, in order, and then those it lacks.
    target = np.argsort(~present, axis=1, kind="stable")
    start = (np.arange(C) * L)[:, None]
    done = 0
    batch = max(1, _BATCH_ENTRIES // max(1, C * L))
    while done < n_permutations:
        size = min(batch, n_permutations - done)
        keys = rng.random((size, C, L), dtype=np.float32)
        keys[:, ~present] = 2.0
        source = np.argsort(keys, axis=2) + start
        totals = np.repeat(fixed[None], size, axis=0)
        for k, column in enumerate(columns):
            if varies[k]:
                moved = column.reshape(-1)[source]
                if present.all():
                    totals[:, k] = moved.sum(axis=1)
                else:
                    placed = np.empty_like(moved)
                    np.put_along_axis(placed, np.broadcast_to(target, moved.shape), moved, axis=2)
                    totals[:, k] = placed.sum(axis=1)
        yield totals
        done += size


def p_value(observed: float, null: Floats) -> float:
    """Return the share of the null that reaches the observed value, itself counted in."""
    slack = 1e-12 * max(1.0, abs(observed))
    return float((1 + np.count_nonzero(null >= observed - slack)) / (1 + null.size))
