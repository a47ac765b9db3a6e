"""Which variance components a table can tell apart (STATISTICS section 1).

Term u has covariance pattern V_u = Z C Z': Z the indicator of its levels, C a
projection that removes the mean over each facet the effects sum to zero over.
With M the projection that removes the intercept, the components are
identifiable where G_uv = tr(M V_u M V_v) is non-singular. G is computed from
counts, never from an N x N matrix.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

# Relative size of an eigenvalue of the scaled G that counts as zero, and the
# loading in its null space from which a term counts as involved.
_SINGULAR = 1e-9
_INVOLVED = 1e-4


@dataclass(frozen=True, eq=False)
class Pattern:
    """The covariance pattern of one term.

    Attributes
    ----------
    name : str
    codes : (N,) int array
        Flat level of each score, C order over ``shape``.
    shape : tuple of int
        Number of levels of each facet of the term.
    centred : tuple of bool
        Over which of these facets the effects sum to zero.
    order : int
        Number of facets, those a facet is nested in included.
    """

    name: str
    codes: NDArray[np.int64]
    shape: tuple[int, ...]
    centred: tuple[bool, ...]
    order: int


@dataclass(frozen=True)
class Unidentified:
    """A term that was dropped, and the terms it cannot be told from."""

    name: str
    confounded_with: tuple[str, ...]


def gram(patterns: tuple[Pattern, ...]) -> NDArray[np.float64]:
    """Return G_uv = tr(M V_u M V_v).

    Parameters
    ----------
    patterns : tuple of T Pattern
        The residual is a pattern too: every score its own level.

    Returns
    -------
    (T, T) float array
    """
    size = len(patterns)
    g = np.zeros((size, size))
    for i, u in enumerate(patterns):
        for j in range(i + 1):
            g[i, j] = g[j, i] = _trace(u, patterns[j])
    return g


def identify(
    patterns: tuple[Pattern, ...], protected: frozenset[str]
) -> tuple[tuple[str, ...], tuple[Unidentified, ...]]:
    """Drop terms until those left are identifiable.

    The term dropped is the one of the highest order in the null space of G;
    among several, the one listed last.

    Parameters
    ----------
    patterns : tuple of Pattern
    protected : frozenset of str
        Names never dropped (the residual, the object of measurement).

    Returns
    -------
    kept : tuple of str
    dropped : tuple of Unidentified
        In the order in which they were dropped. Where only protected terms
        are confounded with one another, the last entry names one of them.
    """
    names = [p.name for p in patterns]
    g = gram(patterns)
    alive = list(range(len(patterns)))
    dropped: list[Unidentified] = []
    while alive:
        null = _null_loadings(g[np.ix_(alive, alive)])
        involved = [alive[i] for i in np.flatnonzero(null > _INVOLVED)]
        if not involved:
            break
        free = [i for i in involved if names[i] not in protected] or involved
        worst = max(free, key=lambda i: (patterns[i].order, i))
        rivals = _rivals(g, worst, [i for i in involved if i != worst], patterns)
        dropped.append(Unidentified(names[worst], tuple(names[i] for i in rivals)))
        if names[worst] in protected:
            break
        alive.remove(worst)
    return tuple(names[i] for i in alive), tuple(dropped)


def _rivals(
    g: NDArray[np.float64], worst: int, others: list[int], patterns: tuple[Pattern, ...]
) -> list[int]:
    """Return a smallest set of terms that one term cannot be told from.

    Several confoundings share one null space: terms that this one does not
    need for its own are left out, those of the highest order first.
    """
    needed = list(others)
    for other in sorted(others, key=lambda i: (patterns[i].order, i), reverse=True):
        fewer = [i for i in needed if i != other]
        if _null_loadings(g[np.ix_([worst, *fewer], [worst, *fewer])])[0] > _INVOLVED:
            needed = fewer
    return needed


def _null_loadings(g: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the length of each unit vector's projection on the null space of scaled G."""
    diagonal = np.diag(g)
    vanishing = diagonal <= _SINGULAR * max(float(diagonal.max(initial=0.0)), 1e-300)
    if vanishing.any():
        return vanishing.astype(float)
    root = np.sqrt(diagonal)
    values, vectors = np.linalg.eigh(g / np.outer(root, root))
    null = vectors[:, values < _SINGULAR * max(float(values[-1]), 1.0)]
    return np.asarray(np.linalg.norm(null, axis=1))


def _trace(u: Pattern, v: Pattern) -> float:
    if any(v.centred) and not any(u.centred):
        u, v = v, u
    if not any(u.centred):
        return _trace_of_counts(u, v)
    if any(v.centred):
        cross = _cross_counts(u, v).toarray()
        n = float(u.codes.size)
        cross = cross - np.outer(cross.sum(axis=1), cross.sum(axis=0)) / n
        cross = _centre(_centre(cross, u).T, v)
        return float(np.sum(cross * cross))
    return _trace_centred_by_free(u, v)


def _trace_of_counts(u: Pattern, v: Pattern) -> float:
    n = float(u.codes.size)
    joint = np.unique(u.codes * np.int64(np.prod(v.shape)) + v.codes, return_counts=True)[1]
    n_u, n_v = _counts(u), _counts(v)
    together = float(np.sum(joint.astype(float) ** 2))
    both = float(np.sum(n_u[u.codes] * n_v[v.codes]))
    apart = float(n_u @ n_u) * float(n_v @ n_v)
    return together - 2 * both / n + apart / n**2


def _trace_centred_by_free(u: Pattern, v: Pattern) -> float:
    # u has few levels and v may have one a score: everything stays L_u x L_u.
    n = float(u.codes.size)
    cross = _cross_counts(u, v)
    n_u, n_v = _counts(u), _counts(v)
    cross_n = np.asarray(cross @ n_v)
    square = (
        (cross @ cross.T).toarray()
        - (np.outer(cross_n, n_u) + np.outer(n_u, cross_n)) / n
        + np.outer(n_u, n_u) * (n_v @ n_v) / n**2
    )
    return float(np.trace(_centre(square, u)))


def _counts(u: Pattern) -> NDArray[np.float64]:
    return np.bincount(u.codes, minlength=int(np.prod(u.shape))).astype(float)


def _cross_counts(u: Pattern, v: Pattern):  # type: ignore[no-untyped-def]
    from scipy.sparse import csr_array

    ones = np.ones(u.codes.size)
    shape = (int(np.prod(u.shape)), int(np.prod(v.shape)))
    return csr_array((ones, (u.codes, v.codes)), shape=shape)


def _centre(rows: NDArray[np.float64], u: Pattern) -> NDArray[np.float64]:
    """Remove, from the first axis (levels of u), the mean over each centred facet."""
    block = rows.reshape(*u.shape, -1)
    for axis, centred in enumerate(u.centred):
        if centred:
            block = block - block.mean(axis=axis, keepdims=True)
    return block.reshape(rows.shape)
