"""Which variance components a table can tell apart (STATISTICS section 1).

Term u has covariance pattern V_u = Z C Z': Z the indicator of its levels, C a
projection that removes the mean over each facet the effects sum to zero over.
With M the projection that removes the intercept, the components are
identifiable where G_uv = tr(M V_u M V_v) is non-singular. G is computed from
counts, never from an N x N matrix. Where a score is an outcome between two backbones, Z
has a 1 for the one and a -1 for the other.

Scores that are alike in every facet may be one line with a weight, and levels that
are alike one level of so many copies: generations of one pattern, residuals of one cell.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from hashlib import sha256

import numpy as np
from numpy.typing import NDArray

# Relative size of an eigenvalue of the scaled G that counts as zero, and the
# loading in its null space from which a term counts as involved.
_SINGULAR = 1e-9
_INVOLVED = 1e-4


# Answers about the designs seen last: one table is asked about again and again, and
# tables of one design follow one another. Nothing of a score is in it.
_MOST_KNOWN = 32
_KNOWN: OrderedDict[bytes, tuple[tuple[str, ...], tuple[Unidentified, ...]]] = OrderedDict()


@dataclass(frozen=True, eq=False)
class Pattern:
    """The covariance pattern of one term.

    Attributes
    ----------
    name : str
    codes : (N,) int array
        Flat level of each line, C order over ``shape``.
    shape : tuple of int
        Number of levels of each facet of the term.
    centred : tuple of bool
        Over which of these facets the effects sum to zero.
    order : int
        Number of facets, those a facet is nested in included.
    against : (N,) int array or None
        Where a score is the outcome between two backbones: the flat level whose
        effect is taken off.
    weight : (N,) int array or None
        Scores of each line; None for one each. The same of all patterns.
    copies : (L,) int array or None
        Levels that each stands for, which share its scores evenly; None for one each.
        Of two patterns with copies one lies within the other, and none is centred.
    """

    name: str
    codes: NDArray[np.int64]
    shape: tuple[int, ...]
    centred: tuple[bool, ...]
    order: int
    against: NDArray[np.int64] | None = None
    weight: NDArray[np.int64] | None = None
    copies: NDArray[np.int64] | None = None


@dataclass(frozen=True)
class Unidentified:
    """A term that was dropped, and the terms it cannot be told from."""

    name: str
    confounded_with: tuple[str, ...]


def gram(patterns: tuple[Pattern, ...], intercept: bool = True) -> NDArray[np.float64]:
    """Return G_uv = tr(M V_u M V_v).

    Parameters
    ----------
    patterns : tuple of T Pattern
        The residual is a pattern too: every score its own level, or its own copy.
    intercept : bool
        False leaves M out, for a model without intercept.

    Returns
    -------
    (T, T) float array
    """
    size = len(patterns)
    g = np.zeros((size, size))
    for i, u in enumerate(patterns):
        for j in range(i + 1):
            g[i, j] = g[j, i] = _trace(u, patterns[j], intercept)
    return g


def identify(
    patterns: tuple[Pattern, ...], protected: frozenset[str], intercept: bool = True
) -> tuple[tuple[str, ...], tuple[Unidentified, ...]]:
    """Drop terms until those left are identifiable.

    The term dropped is the one of the highest order in the null space of G;
    among several, the one listed last.

    Parameters
    ----------
    patterns : tuple of Pattern
    protected : frozenset of str
        Names never dropped (the residual, the object of measurement).
    intercept : bool
        Whether the model has one.

    Returns
    -------
    kept : tuple of str
    dropped : tuple of Unidentified
        In the order in which they were dropped. Where only protected terms
        are confounded with one another, the last entry names one of them.
    """
    key = _key(patterns, protected, intercept)
    if key not in _KNOWN:
        if len(_KNOWN) >= _MOST_KNOWN:
            _KNOWN.popitem(last=False)
        _KNOWN[key] = _identified(patterns, protected, intercept)
    return _KNOWN[key]


def _key(patterns: tuple[Pattern, ...], protected: frozenset[str], intercept: bool) -> bytes:
    """Return a hash of everything that the answer depends on."""
    digest = sha256(repr((sorted(protected), intercept)).encode())
    for p in patterns:
        digest.update(repr((p.name, p.shape, p.centred, p.order, p.codes.size)).encode())
        for codes in (p.codes, p.against, p.weight, p.copies):
            digest.update(b"-" if codes is None else np.ascontiguousarray(codes, np.int64).data)
    return digest.digest()


def _identified(
    patterns: tuple[Pattern, ...], protected: frozenset[str], intercept: bool
) -> tuple[tuple[str, ...], tuple[Unidentified, ...]]:
    names = [p.name for p in patterns]
    g = gram(patterns, intercept)
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


def _trace(u: Pattern, v: Pattern, intercept: bool) -> float:
    if any(v.centred) and not any(u.centred):
        u, v = v, u
    # Without an intercept nothing is projected away.
    n = float(u.codes.size if u.weight is None else u.weight.sum()) if intercept else np.inf
    if not any(u.centred):
        return _trace_of_counts(u, v, n)
    if any(v.centred):
        cross = _cross_counts(u, v).toarray() - np.outer(_counts(u), _counts(v)) / n
        cross = _centre(_centre(cross, u).T, v)
        return float(np.sum(cross * cross))
    return _trace_centred_by_free(u, v, n)


def _trace_of_counts(u: Pattern, v: Pattern, n: float) -> float:
    n_u, n_v = _counts(u), _counts(v)
    copies_u, copies_v = _copies(u), _copies(v)
    apart = float(copies_u @ n_u**2) * float(copies_v @ n_v**2)
    if u.against is not None or v.against is not None:
        cross = _cross_counts(u, v)
        both = float(n_u @ (cross @ n_v))
        return float((cross.data**2).sum()) - 2 * both / n + apart / n**2
    key = u.codes * np.int64(np.prod(v.shape)) + v.codes
    sizes = n_u[u.codes] * n_v[v.codes]
    if u.weight is None:
        together = float(np.sum(np.unique(key, return_counts=True)[1].astype(float) ** 2))
    else:
        found, first, line = np.unique(key, return_index=True, return_inverse=True)
        joint = np.bincount(line.ravel(), u.weight, found.size)
        # Of two levels with copies the finer lie within the coarser.
        copies = np.maximum(copies_u[u.codes[first]], copies_v[v.codes[first]])
        together, sizes = float(np.sum(joint**2 / copies)), u.weight * sizes
    return together - 2 * float(np.sum(sizes)) / n + apart / n**2


def _trace_centred_by_free(u: Pattern, v: Pattern, n: float) -> float:
    # u has few levels and v may have one a score: everything stays L_u x L_u.
    cross = _cross_counts(u, v)
    n_u, n_v, copies = _counts(u), _counts(v), _copies(v)
    cross_n = np.asarray(cross @ n_v)
    own = cross if v.copies is None else cross.multiply(1.0 / copies).tocsr()
    square = (
        (own @ cross.T).toarray()
        - (np.outer(cross_n, n_u) + np.outer(n_u, cross_n)) / n
        + np.outer(n_u, n_u) * (copies @ n_v**2) / n**2
    )
    return float(np.trace(_centre(square, u)))


def _weight(u: Pattern) -> NDArray[np.float64]:
    return np.ones(u.codes.size) if u.weight is None else u.weight.astype(float)


def _copies(u: Pattern) -> NDArray[np.float64]:
    return np.ones(int(np.prod(u.shape))) if u.copies is None else u.copies.astype(float)


def _counts(u: Pattern) -> NDArray[np.float64]:
    """Return the scores behind one level, one of its copies where it has some."""
    size = int(np.prod(u.shape))
    count = np.bincount(u.codes, u.weight, size).astype(float)
    if u.against is not None:
        count -= np.bincount(u.against, minlength=size)
    return count if u.copies is None else count / u.copies


def _cross_counts(u: Pattern, v: Pattern):  # type: ignore[no-untyped-def]
    from scipy.sparse import csr_array

    if u.against is not None or v.against is not None:
        return (_indicator(u).T @ _indicator(v)).tocsr()
    shape = (int(np.prod(u.shape)), int(np.prod(v.shape)))
    return csr_array((_weight(u), (u.codes, v.codes)), shape=shape)


def _indicator(u: Pattern):  # type: ignore[no-untyped-def]
    from scipy.sparse import csr_array

    n, shape = u.codes.size, (u.codes.size, int(np.prod(u.shape)))
    levels, signs = u.codes[:, None], np.ones((n, 1))
    if u.against is not None:
        levels, signs = np.stack([u.codes, u.against], axis=1), np.tile([1.0, -1.0], (n, 1))
    rows = np.repeat(np.arange(n), levels.shape[1])
    return csr_array((signs.ravel(), (rows, levels.ravel())), shape=shape)


def _centre(rows: NDArray[np.float64], u: Pattern) -> NDArray[np.float64]:
    """Remove, from the first axis (levels of u), the mean over each centred facet."""
    block = rows.reshape(*u.shape, -1)
    for axis, centred in enumerate(u.centred):
        if centred:
            block = block - block.mean(axis=axis, keepdims=True)
    return block.reshape(rows.shape)
