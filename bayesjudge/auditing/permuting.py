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

_BATCH_ENTRIES = 4_000_000


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
    K, C, L = sums.shape
    present = count > 0
    stacked = np.concatenate([sums, count[None]])
    full = bool(present.all())
    target = None if full else np.argsort(~present, axis=1, kind="stable")
    done = 0
    batch = max(1, min(n_permutations, _BATCH_ENTRIES // max(1, (K + 1) * C * L)))
    while done < n_permutations:
        size = min(batch, n_permutations - done)
        keys = rng.random((size, C, L))
        if full:
            order = np.argsort(keys, axis=2)
            moved = np.take_along_axis(stacked[None], order[:, None], axis=3)
        else:
            assert target is not None  # noqa: S101
            keys[:, ~present] = np.inf
            order = np.argsort(keys, axis=2)
            source = np.take_along_axis(stacked[None], order[:, None], axis=3)
            moved = np.empty_like(source)
            np.put_along_axis(moved, np.broadcast_to(target, (size, K + 1, C, L)), source, axis=3)
        yield moved.sum(axis=2)
        done += size


def p_value(observed: float, null: Floats) -> float:
    """Return the share of the null that reaches the observed value, itself counted in."""
    slack = 1e-12 * max(1.0, abs(observed))
    return float((1 + np.count_nonzero(null >= observed - slack)) / (1 + null.size))
