"""Balanced tables: cross-products between levels of one facet are all the data there is.

Every facet but one (``along``, by which scales may differ: the backbone) is
rotated into its mean and its contrasts. Each combination T of them, a stratum,
then holds independent vectors over the levels of ``along`` with covariance

    V_T = diag(d) + a 11' + c (I - 11'/B),

d from terms with their own scale a level, a from terms without the facet, c
from terms that sum to zero over it (STATISTICS section 1). Its inverse and
determinant are written down (Sherman and Morrison), so ten thousand sets of
scales take milliseconds. Nothing here needs JAX.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, combinations
from math import prod

import numpy as np
from numpy.typing import NDArray

from bayesjudge.engines.axes import (
    Part,
    axes_of,
    facet_along,
    generation_alone,
    part_of,
    sd_indices,
)
from bayesjudge.engines.effects import INTERCEPT
from bayesjudge.engines.log_products import log_of_product
from bayesjudge.resolution import Resolved, ResolvedTerm

type Floats = NDArray[np.float64]
type Ints = NDArray[np.int64]

# Sets of scales handled at once: what is made of them fits the processor's cache.
_ROWS = 2000


@dataclass(frozen=True, eq=False)
class Groups:
    """Strata with equal covariance, put together. G groups, B levels.

    Attributes
    ----------
    df : (G,) floats
        Number of vectors.
    products : (G, B, B) floats
        Their sum of outer products.
    free : (G, B, n_sd), common, centred : (G, n_sd) floats
        Coefficients of the squared scales in d, a and c.
    noise : (B,) ints
        Residual variance of each level.
    """

    df: Floats
    products: Floats
    free: Floats
    common: Floats
    centred: Floats
    noise: Ints


@dataclass(frozen=True, eq=False)
class Balanced:
    """A balanced table: its cell means about the location, and its strata.

    Attributes
    ----------
    means : (B, *shape) float array
        Over generations and replicates, the location taken off.
    per_cell : int
        Scores behind each.
    parts : tuple of Part
        The terms but the generations, the intercept last.
    generations : Part or None
    groups : Groups
    n_scores, n_sd : int
    along : str
        The facet that is not rotated.
    """

    means: Floats
    per_cell: int
    parts: tuple[Part, ...]
    generations: Part | None
    groups: Groups
    n_scores: int
    n_sd: int
    along: str


def balance(resolved: Resolved) -> Balanced | None:
    """Rotate a balanced table; None where it is not, or scales vary by two facets."""
    along = facet_along(resolved)
    leaf = generation_alone(resolved)
    if along is None or (leaf is None and any("generation" in t.dims for t in resolved.terms)):
        return None
    terms = [t for t in resolved.terms if t is not leaf]
    facets = axes_of(terms, along)
    if facets is None:
        return None
    codes, sizes, nested = facets
    names = [n for n in sizes if n != along]
    shape = tuple(sizes[n] for n in (along, *names))
    cell = np.ravel_multi_index(tuple(codes[n] for n in (along, *names)), shape)
    counts = np.bincount(cell, minlength=prod(shape))
    if counts.min() != counts.max():
        return None
    y = resolved.score - resolved.location
    per_cell = int(counts[0])
    means = np.bincount(cell, y, counts.size).reshape(shape) / per_cell
    index = sd_indices(resolved, shape[0], along)
    axis = {n: i for i, n in enumerate(names)}
    parts: tuple[Part, ...] = ()
    for term in terms:
        part = part_of(term, along, axis, index[term.variable], codes, nested)
        if part is None:
            return None
        parts += (part,)
    if leaf is not None:
        found = _split_generations(leaf, codes, (along, *names), shape, y)
        if found is None:
            return None
        owners, m, strata = found
        return assemble(
            resolved, leaf, (along, *names), means, per_cell, parts, strata, (owners, m)
        )
    within = _within(y, cell, means, codes[along], shape[0])
    strata = [StratumSums(float(y.size / shape[0] - prod(shape[1:])), np.diag(within), ())]
    return assemble(resolved, None, (along, *names), means, per_cell, parts, strata)


def assemble(
    resolved: Resolved,
    leaf: ResolvedTerm | None,
    facets: tuple[str, ...],
    means: Floats,
    per_cell: int,
    parts: tuple[Part, ...],
    within: list[StratumSums],
    owners: tuple[tuple[str, ...], int] = ((), 1),
) -> Balanced:
    """Lay the terms on a balanced table's cell means and on what lies within its cells.

    Parameters
    ----------
    resolved : Resolved
        Of which no score is looked at.
    leaf : ResolvedTerm or None
        The generations.
    facets : tuple of str
        One an axis of ``means``, the one that is not rotated first.
    means : (B, *shape) float array
        About the location.
    per_cell : int
    parts : tuple of Part
        The terms but the generations.
    within : list of StratumSums
        Strata within cells.
    owners : (tuple of str, int)
        Facets but the first within which generations lie, and how many in each.
    """
    along, *names = facets
    shape = means.shape
    index = sd_indices(resolved, shape[0], along)
    axis = {n: i for i, n in enumerate(names)}
    n_sd = index[INTERCEPT][0] + 1
    parts += (Part(INTERCEPT, (), "none", (), index[INTERCEPT], np.zeros(1, np.int64)),)
    noise = np.zeros(shape[0], np.int64)
    if resolved.residual_by is not None:
        noise = np.arange(shape[0])
    generations: Part | None = None
    if leaf is not None:
        own, none = tuple(sorted(axis[n] for n in owners[0])), np.zeros(0, np.int64)
        generations = Part(leaf.variable, own, "free", (), index[leaf.variable], none, owners[1])
    every = parts if generations is None else (*parts, generations)
    strata = [*within, *(_cell_stratum(means, s, per_cell, every) for s in subsets(len(names)))]
    groups = _group(strata, generations, shape, noise, n_sd)
    return Balanced(means, per_cell, parts, generations, groups, means.size * per_cell, n_sd, along)


def log_likelihood(sd: Floats, noise: Floats, balanced: Balanced) -> Floats:
    """Log density of the scores given the scales, every effect integrated out.

    Parameters
    ----------
    sd : (n, n_sd)
        Scales in the unit of the scores, the intercept's last.
    noise : (n, V)
        Residual variances.
    balanced : Balanced

    Returns
    -------
    (n,) float array
    """
    parts = [
        _log_likelihood(sd[i : i + _ROWS], noise[i : i + _ROWS], balanced)
        for i in range(0, len(sd), _ROWS)
    ]
    return np.concatenate(parts) if parts else np.empty(0)


def _log_likelihood(sd: Floats, noise: Floats, balanced: Balanced) -> Floats:
    """Log densities of some sets of scales: these come last, so that they lie together."""
    g = balanced.groups
    d, inverse, pivot, e = _covariances(sd, noise, balanced)
    log_det = log_of_product(np.moveaxis(d, 1, 0), 0) + np.log(pivot)
    diagonal = np.einsum("gbb->gb", g.products)
    quadratic = np.einsum("gbn,gb->n", inverse, diagonal)
    # Strata with a diagonal covariance have no products off it that count.
    joint = g.common.any(axis=1) | g.centred.any(axis=1)
    own = inverse[joint]
    cross = (np.matmul(g.products[joint], own) * own).sum(axis=1)
    quadratic -= (e[joint] / pivot[joint] * cross).sum(axis=0)
    constant = balanced.n_scores * np.log(2 * np.pi)
    return np.asarray(-0.5 * (g.df @ log_det + quadratic + constant))


def _covariances(
    sd: Floats, noise: Floats, balanced: Balanced
) -> tuple[Floats, Floats, Floats, Floats]:
    """Return d (G, B, n) and its inverse, 1 + e sum 1/d and e (G, n): V = diag(d) + e 11'."""
    g = balanced.groups
    n_levels = g.products.shape[-1]
    variance = sd.T**2
    free = (g.free.reshape(-1, balanced.n_sd) @ variance).reshape(-1, n_levels, len(sd))
    free += noise.T[g.noise]
    common, centred = g.common @ variance, g.centred @ variance
    d = free + centred[:, None]
    inverse = 1.0 / d
    # e = a - c/B may be negative; in this form 1 + e sum(1/d) keeps its digits.
    pivot = common * inverse.sum(axis=1) + (free * inverse).mean(axis=1)
    return d, inverse, pivot, common - centred / n_levels


def slope(sd: Floats, noise: Floats, balanced: Balanced) -> tuple[float, Floats, Floats]:
    """Return the log density and its derivatives in scales (n_sd,) and residual variances (V,).

    In a covariance V with sum of products P over m vectors the derivative is
    -(m V^-1 - V^-1 P V^-1) / 2, and V is linear in the squared scales.
    """
    g = balanced.groups
    value = float(_log_likelihood(sd[None], noise[None], balanced)[0])
    _, inverse, pivot, e = (part[..., 0] for part in _covariances(sd[None], noise[None], balanced))
    precision = -(e / pivot)[:, None, None] * (inverse[:, :, None] * inverse[:, None, :])
    np.einsum("gbb->gb", precision)[...] += inverse
    explained = precision @ g.products @ precision
    of_v = -0.5 * (g.df[:, None, None] * precision - explained)
    of_free = np.einsum("gbb->gb", of_v)
    total, trace = of_v.sum(axis=(1, 2)), of_free.sum(axis=1)
    of_variance = np.einsum("gb,gbs->s", of_free, g.free) + total @ g.common
    of_variance += (trace - total / g.products.shape[-1]) @ g.centred
    of_noise = np.bincount(g.noise, of_free.sum(axis=0), noise.size)
    return value, 2 * sd * of_variance, of_noise


def subsets(n: int) -> Iterator[tuple[int, ...]]:
    """Yield the strata of n axes, the smallest first."""
    return chain.from_iterable(combinations(range(n), size) for size in range(n + 1))


def centre(values: Floats, n_axes: int) -> Floats:
    """Take the mean off over each of the last axes."""
    for axis in range(values.ndim - n_axes, values.ndim):
        values = values - values.mean(axis=axis, keepdims=True)
    return values


def component(values: Floats, stratum: tuple[int, ...], first: int) -> Floats:
    """Project on a stratum: centred over its axes, averaged over the others."""
    others = tuple(first + a for a in range(values.ndim - first) if a not in stratum)
    return centre(values.mean(axis=others) if others else values, len(stratum))


def repeats(shape: tuple[int, ...], stratum: tuple[int, ...]) -> int:
    """Return the number of cells behind a level of a stratum."""
    return prod(shape[1 + a] for a in range(len(shape) - 1) if a not in stratum)


def copies(shape: tuple[int, ...], stratum: tuple[int, ...], part: Part) -> int:
    """Return the number of a term's levels that average into one level of a stratum."""
    return part.repeats * prod(shape[1 + a] for a in part.others if a not in stratum)


@dataclass(frozen=True, eq=False)
class StratumSums:
    """Vectors with one covariance: how many, their products, and which scales count how much."""

    df: float
    products: Floats
    weights: tuple[tuple[Part, float], ...]


def _cell_stratum(
    means: Floats, stratum: tuple[int, ...], per_cell: int, parts: tuple[Part, ...]
) -> StratumSums:
    shape = means.shape
    n = per_cell * repeats(shape, stratum)
    rows = component(means, stratum, 1).reshape(shape[0], -1)
    df = prod(shape[1 + a] - 1 for a in stratum)
    weights = tuple((p, n / copies(shape, stratum, p)) for p in parts if p.reaches(stratum))
    return StratumSums(float(df), n * (rows @ rows.T), weights)


def _within(y: Floats, cell: Ints, means: Floats, along: Ints, n_levels: int) -> Floats:
    return np.bincount(along, (y - means.ravel()[cell]) ** 2, n_levels)


def _split_generations(
    leaf: ResolvedTerm,
    codes: dict[str, Ints],
    names: tuple[str, ...],
    shape: tuple[int, ...],
    y: Floats,
) -> tuple[tuple[str, ...], int, list[StratumSums]] | None:
    """Split the sum of squares within cells between generations and the rest.

    Generations lie within the levels of their owners and cross the other facets.

    Returns None where they do not, or differ in number.
    """
    first = np.unique(leaf.codes, return_index=True)[1]
    own = [n for n in names if np.array_equal(codes[n][first][leaf.codes], codes[n])]
    if names[0] not in own or first.size != leaf.n_levels:
        return None
    others = [n for n in names if n not in own]
    sizes = dict(zip(names, shape, strict=True))
    owner = np.ravel_multi_index(tuple(codes[n][first] for n in own), [sizes[n] for n in own])
    per_owner = np.bincount(owner, minlength=prod(sizes[n] for n in own))
    key = leaf.codes
    for name in others:
        key = key * sizes[name] + codes[name]
    n_others = prod(sizes[n] for n in others)
    counts = np.bincount(key, minlength=leaf.n_levels * n_others)
    if per_owner.min() != per_owner.max() or counts.min() != counts.max():
        return None
    m, each = int(per_owner[0]), int(counts[0])
    order = np.argsort(owner, kind="stable")
    per_level = prod(sizes[n] for n in own[1:]) * (m - 1)
    table = (np.bincount(key, y, counts.size) / each).reshape(
        leaf.n_levels, *(sizes[n] for n in others)
    )
    table = table[order].reshape(sizes[names[0]], -1, m, *(sizes[n] for n in others))
    contrasts = table - table.mean(axis=2, keepdims=True)
    flat = (1,) * len(others)
    within = _sum_by_level(
        y - (np.bincount(key, y, counts.size) / each)[key], codes[names[0]], shape[0]
    )
    strata = [
        StratumSums(float(leaf.n_levels / shape[0] * n_others * (each - 1)), np.diag(within), ())
    ]
    mean = contrasts.mean(axis=tuple(range(3, contrasts.ndim))) if others else contrasts
    squares = n_others * each * (mean**2).sum(axis=(1, 2))
    strata.append(between_generations(leaf, float(per_level), squares, n_others * each))
    rest = contrasts - mean.reshape(*mean.shape, *flat)
    squares = each * (rest**2).sum(axis=tuple(range(1, rest.ndim)))
    strata.append(StratumSums(float(per_level * (n_others - 1)), np.diag(squares), ()))
    return tuple(n for n in own if n != names[0]), m, strata


def between_generations(
    leaf: ResolvedTerm, df: float, squares: Floats, per_generation: int
) -> StratumSums:
    """Return the stratum of contrasts between the generations of one owner."""
    none = np.zeros(0, np.int64)
    marker = Part(leaf.variable, (), "free", (), none, none)
    return StratumSums(df, np.diag(squares), ((marker, float(per_generation)),))


def _sum_by_level(values: Floats, along: Ints, n_levels: int) -> Floats:
    return np.bincount(along, values**2, n_levels)


def _group(
    strata: list[StratumSums],
    generations: Part | None,
    shape: tuple[int, ...],
    noise: Ints,
    n_sd: int,
) -> Groups:
    """Put strata with equal covariance together."""
    n_levels = shape[0]
    found: dict[bytes, list[tuple[StratumSums, Floats, Floats, Floats]]] = {}
    for stratum in strata:
        if stratum.df == 0:
            continue
        free = np.zeros((n_levels, n_sd))
        common, centred = np.zeros(n_sd), np.zeros(n_sd)
        for part, weight in stratum.weights:
            # The contrasts between generations name their term only.
            index = (
                generations.sd_index if generations and not part.sd_index.size else part.sd_index
            )
            if part.along == "free":
                free[np.arange(n_levels), index] += weight
            elif part.along == "centred":
                centred[index[0]] += weight
            else:
                common[index[0]] += weight
        key = free.tobytes() + common.tobytes() + centred.tobytes()
        found.setdefault(key, []).append((stratum, free, common, centred))
    same = list(found.values())
    return Groups(
        df=np.array([sum(s.df for s, *_ in group) for group in same]),
        products=np.stack([np.sum([s.products for s, *_ in group], axis=0) for group in same]),
        free=np.stack([group[0][1] for group in same]),
        common=np.stack([group[0][2] for group in same]),
        centred=np.stack([group[0][3] for group in same]),
        noise=noise,
    )
