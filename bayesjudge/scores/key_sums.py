"""Scores summed by all their facets, generations among them.

Moments put generations of one pattern together, after which a score that comes later
for one of them has nowhere to go. These sums keep each generation apart: sums of tables
that share generations are put together exactly, and moments are folded from them.
Where no cell is scored twice a sum is a score.

A sum is a count, a mean and a spread (sum of squared deviations from the own mean), put
together as Chan, Golub and LeVeque (1983, eq. 2.1) have it. It is about no location,
so none is lost where later scores lie elsewhere.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bayesjudge.errors import DataError
from bayesjudge.scores.adding import unite_levels
from bayesjudge.scores.keys import cell_keys, row_of_each
from bayesjudge.scores.moments import Moments, owners_of_generation, split_facets, sum_by_pattern
from bayesjudge.scores.table import Scores

type Floats = NDArray[np.float64]
type Ints = NDArray[np.int64]

_GENERATION = "generation"


@dataclass(frozen=True, eq=False)
class KeySums:
    """Counts, means and spreads by key. K keys that occur, F facets.

    Attributes
    ----------
    names : tuple of F str
        Facets, ``generation`` among them where there is one.
    levels : tuple of F tuples of str
        Labels of each, sorted by code point.
    codes : (K, F) int array
        Codes of each key, in row-major order.
    count : (K,) int array
    mean, spread : (K,) float arrays
        Mean of the scores, and sum of their squared deviations from it.
    low, high : (K,) float arrays
        Lowest and highest score.
    """

    names: tuple[str, ...]
    levels: tuple[tuple[str, ...], ...]
    codes: Ints
    count: Ints
    mean: Floats
    spread: Floats
    low: Floats
    high: Floats

    def __len__(self) -> int:
        return int(self.count.size)

    @property
    def n_scores(self) -> int:
        """Number of scores."""
        return int(self.count.sum())

    def label(self, key: int) -> str:
        """Name a key for a message, as ``backbone='a', judge='b'``."""
        codes = zip(self.names, self.levels, self.codes[key], strict=True)
        return ", ".join(f"{name}={levels[code]!r}" for name, levels, code in codes)


def key_sums_of_scores(scores: Scores) -> KeySums:
    """Sum a table in memory by all its facets.

    Parameters
    ----------
    scores : Scores

    Returns
    -------
    KeySums
    """
    codes = np.column_stack([facet.codes for facet in scores.facets])
    ones, zeros = np.ones(len(scores), np.int64), np.zeros(len(scores))
    return _sum_up(
        scores.facet_names,
        tuple(facet.levels for facet in scores.facets),
        codes,
        ones,
        (scores.score, zeros, scores.score, scores.score),
    )


def merge_key_sums(several: Sequence[KeySums]) -> KeySums:
    """Put sums of tables together, whatever keys they share.

    Parameters
    ----------
    several : sequence of KeySums
        At least one; of the same facets.

    Returns
    -------
    KeySums

    Raises
    ------
    DataError
        Where facets differ.
    """
    first = several[0]
    for other in several:
        if other.names != first.names:
            raise DataError(
                f"sums by {', '.join(first.names)} and by {', '.join(other.names)} "
                "cannot be put together"
            )
    if len(several) == 1:
        return first
    levels, moved = unite_levels(*(sums.levels for sums in several))
    codes = [
        np.column_stack([own[sums.codes[:, f]] for f, own in enumerate(places)])
        for sums, places in zip(several, moved, strict=True)
    ]
    count = np.concatenate([sums.count for sums in several])
    columns = [
        np.concatenate([getattr(sums, name) for sums in several])
        for name in ("mean", "spread", "low", "high")
    ]
    return _sum_up(first.names, levels, np.concatenate(codes), count, columns)


def shared_keys(stored: KeySums, new: KeySums) -> Ints:
    """Return the keys of new sums that stored ones have as well, as indices into the new.

    Parameters
    ----------
    stored, new : KeySums
        Of the same facets.

    Returns
    -------
    (n,) int array
    """
    levels, moved = unite_levels(stored.levels, new.levels)
    sizes = [len(own) for own in levels]
    codes = [
        np.concatenate([moved[0][f][stored.codes[:, f]], moved[1][f][new.codes[:, f]]])
        for f in range(len(sizes))
    ]
    key, n = cell_keys(codes, sizes)
    known = np.zeros(n, dtype=bool)
    known[key[: len(stored)]] = True
    return np.flatnonzero(known[key[len(stored) :]]).astype(np.int64)


def moments_of_key_sums(
    sums: KeySums,
    blocks: Sequence[str] | None = None,
    cells: Sequence[str] | None = None,
    location: float | None = None,
    n_excluded: int = 0,
) -> Moments:
    """Fold sums by key into moments.

    Parameters
    ----------
    sums : KeySums
    blocks, cells : sequence of str, optional
        As in ``moments.split_facets``. Facets in neither are summed over.
    location : float, optional
        Default: the mean of all scores.
    n_excluded : int
        Rows that were left out before they were summed.

    Returns
    -------
    Moments
        Those of the table that was summed, to rounding.

    Raises
    ------
    UsageError
        Where a facet is named twice or is not one of the sums'.
    """
    blocks, cells = split_facets(sums.names, blocks, cells)
    if location is None:
        location = float((sums.count * sums.mean).sum() / sums.n_scores)
    names = (*blocks, *cells)
    codes = {name: sums.codes[:, axis] for axis, name in enumerate(sums.names)}
    size = {name: len(levels) for name, levels in zip(sums.names, sums.levels, strict=True)}
    levels = dict(zip(sums.names, sums.levels, strict=True))
    off = sums.mean - location
    total = sums.count * off
    key, n = cell_keys([codes[name] for name in names], [size[name] for name in names])
    first = row_of_each(key, n)
    low, high = np.full((2, n), [[np.inf], [-np.inf]])
    np.minimum.at(low, key, sums.low)
    np.maximum.at(high, key, sums.high)
    generations = None
    if _GENERATION in sums.names:
        own = [*owners_of_generation(sums.names, blocks), _GENERATION]
        generation, _ = cell_keys([codes[name] for name in own], [size[name] for name in own])
        generations = sum_by_pattern(
            generation,
            [codes[name] for name in blocks],
            [(codes[name], size[name]) for name in cells],
            total,
            sums.count,
        )
    return Moments(
        location=location,
        n_excluded=n_excluded,
        blocks=blocks,
        cells=cells,
        levels=tuple(levels[name] for name in names),
        codes=np.column_stack([codes[name][first] for name in names]),
        count=np.bincount(key, sums.count, n).astype(np.int64),
        total=np.bincount(key, total, n),
        squares=np.bincount(key, sums.spread + total * off, n),
        low=low,
        high=high,
        generations=generations,
    )


def digest(scores: Scores) -> str:
    """Return a SHA-256 of what a table says: labels and scores, in whatever order and file.

    Parameters
    ----------
    scores : Scores

    Returns
    -------
    str
        64 hexadecimal digits.
    """
    codes = [facet.codes for facet in scores.facets]
    key, _ = cell_keys(codes, [facet.n_levels for facet in scores.facets])
    order = np.lexsort([scores.score, key])
    text = json.dumps([[facet.name, facet.levels] for facet in scores.facets])
    made = hashlib.sha256(text.encode())
    for column in codes:
        made.update(column[order].astype("<i8").tobytes())
    # Zero has two signs and one meaning.
    made.update((scores.score[order] + 0.0).astype("<f8").tobytes())
    return made.hexdigest()


def _sum_up(
    names: tuple[str, ...],
    levels: tuple[tuple[str, ...], ...],
    codes: Ints,
    count: Ints,
    columns: Sequence[Floats],
) -> KeySums:
    """Put rows of one key together; a key of one row keeps it to the last digit."""
    mean, spread, low, high = columns
    key, n = cell_keys(list(codes.T), [len(own) for own in levels])
    first = row_of_each(key, n)
    together = np.bincount(key, count, n).astype(np.int64)
    shift = np.bincount(key, count * (mean - mean[first][key]), n) / together
    mean_of = mean[first] + shift
    apart = mean - mean_of[key]
    lows, highs = np.full((2, n), [[np.inf], [-np.inf]])
    np.minimum.at(lows, key, low)
    np.maximum.at(highs, key, high)
    return KeySums(
        names=names,
        levels=levels,
        codes=codes[first],
        count=together,
        mean=mean_of,
        spread=np.bincount(key, spread + count * apart**2, n),
        low=lows,
        high=highs,
    )
