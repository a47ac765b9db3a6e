"""The facets of a balanced table as axes, and its terms on them."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from bayesjudge.engines.effects import INTERCEPT
from bayesjudge.resolution import Resolved, ResolvedTerm

type Floats = NDArray[np.float64]
type Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Part:
    """A term as the strata see it.

    Attributes
    ----------
    variable : str
    others : tuple of int
        Axes it has among the facets other than ``along``, ascending.
    along : {"none", "centred", "free"}
        Whether it varies over ``along``, and sums to zero there.
    centred : tuple of int
        Axes among ``others`` over which it sums to zero.
    sd_index : (B,) int array
        Entry of the vector of scales at each level of ``along``.
    levels : int array
        Level of the term in each cell of its axes, ``along`` first, flat.
    repeats : int
        Independent copies behind each of its levels: generations of a cell.
    """

    variable: str
    others: tuple[int, ...]
    along: str
    centred: tuple[int, ...]
    sd_index: Ints
    levels: Ints
    repeats: int = 1

    def reaches(self, stratum: tuple[int, ...]) -> bool:
        """Whether the term has a component in a stratum."""
        rest = set(self.others) - set(stratum)
        return set(stratum) <= set(self.others) and not rest & set(self.centred)


def facet_along(resolved: Resolved) -> str | None:
    """Return the facet that is not rotated; None where scales vary by two."""
    by = {t.scale.by for t in resolved.terms} | {resolved.residual_facet}
    named = {b for b in by if b is not None}
    if len(named) > 1:
        return None
    return named.pop() if named else "backbone"


def generation_alone(resolved: Resolved) -> ResolvedTerm | None:
    """Return the term of generations, if it is the only one that has them."""
    involved = [t for t in resolved.terms if "generation" in t.dims]
    alone = len(involved) == 1 and involved[0].dims == ("generation",)
    return involved[0] if alone else None


type _Nested = dict[str, tuple[str, ...]]


def axes_of(
    terms: list[ResolvedTerm], along: str
) -> tuple[dict[str, Ints], dict[str, int], _Nested] | None:
    """Return codes and sizes of all facets, and which facets each lies within.

    A facet within others (items of a split) is counted off within each of their
    combinations: as an axis it then crosses them.
    """
    codes: dict[str, Ints] = {}
    for term in terms:
        if term.scale.by not in (None, *term.dims):
            return None
        parts = np.unravel_index(term.codes, term.shape)
        codes |= {n: c.astype(np.int64) for n, c in zip(term.dims, parts, strict=True)}
    if along not in codes:
        return None
    within = {
        n: tuple(m for m in codes if m != n and _determines(codes[n], codes[m])) for n in codes
    }
    if any(n in within[m] for n in codes for m in within[n]):
        # Two names of one facet.
        return None
    local: dict[str, Ints] = {}
    sizes: dict[str, int] = {}
    for name, code in codes.items():
        found = _count_off(code, [codes[m] for m in within[name]])
        if found is None:
            return None
        local[name], sizes[name] = found
    return local, sizes, within


def _determines(inner: Ints, outer: Ints) -> bool:
    if outer.max() == 0 or inner.max() < outer.max():
        return False
    seen = np.zeros(inner.max() + 1, np.int64)
    seen[inner] = outer
    return bool(np.array_equal(seen[inner], outer))


def _count_off(code: Ints, outer: list[Ints]) -> tuple[Ints, int] | None:
    """Count off levels within each combination of outer ones; None where they are unequal."""
    levels, first, code = np.unique(code, return_index=True, return_inverse=True)
    if not outer:
        return code.ravel(), levels.size
    groups = np.unique(np.stack([o[first] for o in outer]), axis=1, return_inverse=True)[1].ravel()
    counts = np.bincount(groups)
    if counts.min() != counts.max():
        return None
    number = np.empty(levels.size, np.int64)
    number[np.argsort(groups, kind="stable")] = np.tile(np.arange(counts[0]), counts.size)
    return number[code.ravel()], int(counts[0])


def sd_indices(resolved: Resolved, n_levels: int, along: str) -> dict[str, Ints]:
    """Return the entries of the vector of scales at each level of ``along``, by variable."""
    index: dict[str, Ints] = {}
    start = 0
    for term in resolved.terms:
        width = len(term.by_labels) if term.scale.by == along else 0
        index[term.variable] = start + (np.arange(n_levels) if width else np.zeros(n_levels, int))
        start += max(width, 1)
    index[INTERCEPT] = np.full(n_levels, start)
    return index


def part_of(
    term: ResolvedTerm,
    along: str,
    axis: dict[str, int],
    index: Ints,
    codes: dict[str, Ints],
    within: _Nested,
    flat: Ints | None = None,
) -> Part | None:
    """Lay a term on the axes; None where it is no product of them.

    Parameters
    ----------
    axis : dict of str to int
        Axis of each facet but ``along``.
    codes : dict of str to int arrays
        Level of every facet in some rows that hold every cell.
    within : dict of str to tuple of str
        Which facets each lies within.
    flat : int array, optional
        Level of the term in those rows, if they are not those of its scores.
    """
    outer = {m for d in term.dims for m in within[d]}
    zeros = {d for d, centred in zip(term.dims, term.centred, strict=True) if centred}
    if any(within[d] for d in zeros) or zeros & outer:
        # Effects that sum to zero over levels within others are no product of axes.
        return None
    names = sorted(({*term.dims} | outer) - {along}, key=lambda n: axis[n])
    kind = "none"
    if along in zeros:
        kind = "centred"
    elif along in term.dims or along in outer:
        kind = "free"
    front = [] if kind == "none" else [along]
    sizes = [int(codes[n].max()) + 1 for n in (*front, *names)]
    cell = np.ravel_multi_index(tuple(codes[n] for n in (*front, *names)), sizes)
    if prod(sizes) != term.n_levels:
        return None
    levels = np.zeros(term.n_levels, np.int64)
    levels[cell] = term.codes if flat is None else flat
    centred = tuple(axis[d] for d in zeros if d != along)
    return Part(term.variable, tuple(axis[n] for n in names), kind, centred, index, levels)
