"""Which facets determine which, and what a generation's label belongs to."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
from numpy.typing import NDArray

from bayesjudge.scores.keys import cell_keys
from bayesjudge.scores.table import Facet, Scores

type Ints = NDArray[np.int64]

GENERATION_OF = ("scenario", "backbone", "language")
"""Facets within which a generation was sampled."""


def nested_generation(scores: Scores) -> Ints | None:
    """Tell the true generations apart by number.

    A label that occurs in one scenario and backbone only is a generation by
    itself, within each language; otherwise labels recur, and each scenario,
    backbone and language has generations of its own.

    Parameters
    ----------
    scores : Scores

    Returns
    -------
    (N,) int array or None
        Codes 0 to G - 1; None where the table has no facet ``generation``.
    """
    if not scores.has("generation"):
        return None
    explicit = kind_of_generation(scores) == "explicit"
    within = ("language",) if explicit else GENERATION_OF
    names = [name for name in within if scores.has(name)]
    facets = [scores.facet(name) for name in (*names, "generation")]
    return cells_of(facets)[0]


def cells_of(facets: Sequence[Facet]) -> tuple[Ints, int]:
    """Count off the cells of a crossing that are present, giving each row its cell."""
    return cell_keys([facet.codes for facet in facets], [facet.n_levels for facet in facets])


def _is_nested(inner: Ints, n_inner: int, outer: Ints) -> bool:
    seen = np.zeros(n_inner, dtype=np.int64)
    seen[inner] = outer
    return bool((seen[inner] == outer).all())


def find_nesting(
    facets: Sequence[Facet],
) -> tuple[tuple[tuple[str, str], ...], tuple[tuple[str, str], ...]]:
    """Find which facets determine which, and which are two names of one."""
    real = [facet for facet in facets if facet.n_levels > 1]
    within = {
        (a.name, b.name)
        for a in real
        for b in real
        if a is not b and a.n_levels >= b.n_levels and _is_nested(a.codes, a.n_levels, b.codes)
    }
    order = [facet.name for facet in real]
    aliased = tuple(
        (a, b)
        for i, a in enumerate(order)
        for b in order[i + 1 :]
        if (a, b) in within and (b, a) in within
    )
    second = {b for _, b in aliased}
    # of facets that are one, only the first stands for them, and of chains only the links
    strict = {(a, b) for a, b in within if a not in second and b not in second}
    links = tuple(
        (a, b)
        for a in order
        for b in order
        if (a, b) in strict and not any((a, c) in strict and (c, b) in strict for c in order)
    )
    firsts = {b for b in second if any((a, b) in aliased for a in order if a not in second)}
    return links, tuple((a, b) for a, b in aliased if a not in second and b in firsts)


def kind_of_generation(scores: Scores) -> str:
    """Say whether a generation's label names it alone (explicit) or recurs (implicit)."""
    generation = scores.facet("generation")
    for name in ("scenario", "backbone"):
        if scores.has(name) and not _is_nested(
            generation.codes, generation.n_levels, scores.codes(name)
        ):
            return "implicit"
    return "explicit"


def is_generation_balanced(scores: Scores, generations: Ints, crossed: Sequence[Facet]) -> bool:
    """Whether each answer has as many generations, all scored by the same panel."""
    answer = [facet for facet in scores.facets if facet.name in GENERATION_OF]
    panel = [facet for facet in crossed if facet.name not in GENERATION_OF]
    n_generations = int(generations.max()) + 1
    first = np.zeros(n_generations, dtype=np.int64)
    first[generations] = cells_of(answer)[0]
    per_answer = np.bincount(first)
    sizes = [n_generations, *(facet.n_levels for facet in panel)]
    key, n_present = cell_keys([generations, *(facet.codes for facet in panel)], sizes)
    rows = np.bincount(key, minlength=n_present)
    return (
        bool(per_answer.min() == per_answer.max())
        and n_present == prod(sizes)
        and bool(rows.min() == rows.max())
    )
