"""A point in the middle of a posterior of sampled effects.

The mode of scales and effects together lies where small scales are nearly zero,
and the density there says nothing of how they go with all else. Scales that
effects, at their mode given them and as uncertain as there, agree with lie in
the middle: a few rounds of expectation and maximization, the expectation by
Laplace's approximation.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bayesjudge.engines.coordinates import ScaleSite, scale_sites
from bayesjudge.engines.family_model import Layout
from bayesjudge.engines.preconditioning import (
    Arrow,
    Slopes,
    coordinate_order,
    factor,
    find_mode,
    hessian,
)
from bayesjudge.resolution import Resolved, ResolvedTerm

type Floats = NDArray[np.float64]
type Ints = NDArray[np.int64]

# Small scales go on falling, slowly: where they stand by then is typical of them.
_ROUNDS = 12

# Steps of logs are short where the scores say little; below 2 longer ones still settle.
_STRIDE = 1.8

# One effect more, as large as this share of the unit, keeps scales from zero.
_SMALL = 0.1

# Of levels' scales about their centre.
_LEAST_SPREAD = 0.2


@dataclass(frozen=True, eq=False)
class TermPlace:
    """Where a term's effects and scale stand in a vector (D,).

    Attributes
    ----------
    effects : slice
    information : array that broadcasts to the effects
        That their coordinates were chosen with; zero at unit scale.
    by : (n,) int array
        Scale of each effect.
    site : ScaleSite
    places : dict of slice
        Of the scale's own parts, those that are not fixed.
    """

    effects: slice
    information: Floats
    by: Ints
    site: ScaleSite
    places: dict[str, slice]

    @property
    def part_names(self) -> tuple[str, str, str]:
        """Sites of the centre, the spread and the levels."""
        name = self.site.name
        center = f"{name}_center" if self.site.n_by else name
        return center, f"{name}_spread", f"{name}_z"

    def scales(self, q: Floats, unit: float) -> Floats:
        """Return the sds at a point, one or one a level, in the unit of the scores."""
        center, spread, levels = self.part_names
        sd = _positive(q, self.places.get(center), self.site.scale.center.parameters[0] * unit)
        if not self.site.n_by:
            return np.array([sd])
        wide = _positive(q, self.places.get(spread), self.site.spread.parameters[0])
        return np.asarray(sd * np.exp(wide * q[self.places[levels]]))

    def move(self, q: Floats, sds: Floats, unit: float) -> None:
        """Put sds into a point, in place, as far as they are not fixed."""
        center, spread, levels = self.part_names
        logs = np.log(sds)
        if center in self.places:
            q[self.places[center]] = logs.mean()
        if not self.site.n_by:
            return
        if spread in self.places:
            q[self.places[spread]] = np.log(max(float(logs.std()), _LEAST_SPREAD))
        fixed = self.site.scale.center.parameters[0] * unit
        middle = np.log(_positive(q, self.places.get(center), fixed))
        wide = _positive(q, self.places.get(spread), self.site.spread.parameters[0])
        if wide > 0:
            q[self.places[levels]] = (logs - middle) / wide


def _positive(q: Floats, place: slice | None, fixed: float) -> float:
    return fixed if place is None else float(np.exp(q[place][0]))


def place_terms(
    resolved: Resolved, layout: Layout, shapes: dict[str, tuple[int, ...]]
) -> list[TermPlace]:
    """Find terms in the vector that holds sites of these shapes in a row."""
    ends = np.cumsum([int(np.prod(shape)) for shape in shapes.values()])
    at = {
        name: slice(int(end) - int(np.prod(shape)), int(end))
        for (name, shape), end in zip(shapes.items(), ends, strict=True)
    }
    found = []
    for site, term in zip(scale_sites(resolved), resolved.terms, strict=False):
        known = layout.information.get(term.variable)
        kind = "z" if known is None else "w"
        name = f"{term.variable}_{kind}"
        parts = (site.name, f"{site.name}_center", f"{site.name}_spread", f"{site.name}_z")
        found.append(
            TermPlace(
                effects=at[name],
                information=np.ravel(0.0 if known is None else known),
                by=_levels(term, shapes[name]),
                site=site,
                places={part: at[part] for part in parts if part in at},
            )
        )
    return found


def _levels(term: ResolvedTerm, shape: tuple[int, ...]) -> Ints:
    """Return which scale each coordinate of a term has."""
    if term.by_codes is None:
        return np.zeros(int(np.prod(shape)), np.int64)
    order = coordinate_order(term)
    if term.scale.by in order:
        return np.asarray(np.indices(shape)[order.index(term.scale.by)].ravel())
    return term.by_codes


def typical_point(
    slopes: Slopes,
    start: Floats,
    arrow: Arrow,
    widths: Floats,
    terms: list[TermPlace],
    unit: float,
) -> Floats:
    """Return effects at their mode given scales that they agree with, (D,).

    Parameters
    ----------
    slopes, widths, arrow
        As :func:`bayesjudge.engines.preconditioning.hessian` takes them.
    start : (D,)
    terms : list of TermPlace
    unit : float
    """
    fixed = np.zeros(start.size, bool)
    for term in terms:
        for place in term.places.values():
            fixed[place] = True
    inner = Arrow(arrow.shared[~fixed[arrow.shared]], arrow.own)
    q = start.copy()
    for _ in range(_ROUNDS):
        q = find_mode(slopes, q, ~fixed)
        spread = factor(q, inner, *hessian(slopes, q, widths, inner)).variances()
        for term in terms:
            now = term.scales(q, unit)
            each = now[term.by] ** 2
            ratio = each / (1.0 + term.information * each)
            squares = ratio * (q[term.effects] ** 2 + spread[term.effects])
            total = np.bincount(term.by, squares, minlength=term.site.width)
            number = np.bincount(term.by, minlength=term.site.width)
            best = np.sqrt((total + (_SMALL * unit) ** 2) / (number + 1.0))
            term.move(q, now * (best / now) ** _STRIDE, unit)
    return find_mode(slopes, q, ~fixed)
