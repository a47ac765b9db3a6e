"""Designs held against one goal, within budgets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bayesjudge.errors import DataError, UsageError
from bayesjudge.planning.budgeting import Prices, affordable_designs, design_cost, design_seconds
from bayesjudge.planning.designs import (
    Components,
    Design,
    coefficients,
    component_matrix,
    lay_out,
)
from bayesjudge.planning.goals import Goal, contrasts_of_goal, order_probability

type Floats = NDArray[np.float64]

# Smaller budgets whose best designs are on the frontier beside the whole one's.
FRACTIONS = tuple(2.0 ** (-j / 2) for j in range(1, 11))
# With a limit of time the best within it may leave much of the budget.
_FINE_FRACTIONS = tuple(2.0 ** (-j / 8) for j in range(1, 25))
# Halvings, on a log scale, of the gap between a budget that reaches the target and half of it.
_REFINEMENTS = 8
# Beyond so many answers of a backbone more calls are no plan.
_MOST_SLOTS = 20_000
# Designs are written out call by call.
_MOST_ANSWERS = 1_000_000


@dataclass(frozen=True, eq=False)
class Search:
    """What designs are held against.

    Attributes
    ----------
    components : Components
    prices : Prices
    goal : Goal
    pool : int or None
    max_seconds : float or None
    contrasts : (n, B) float array
        Whose error the goal is about.
    delta : (n_draws,) float array or None
        Draws of the difference between the two whose order counts.
    matrix : (n_draws, n_coefficients) float array
        Of these contrasts.
    """

    components: Components
    prices: Prices
    goal: Goal
    pool: int | None
    max_seconds: float | None
    contrasts: Floats
    delta: Floats | None
    matrix: Floats

    @property
    def copies(self) -> int:
        """How often one backbone's calls are made: for each backbone and other facet."""
        return len(self.components.backbones) * self.components.n_others


@dataclass(frozen=True, eq=False)
class Held:
    """Designs with what they cost and bring, best first.

    Attributes
    ----------
    designs : tuple of Design
    coefficients : (n_coefficients, D) float array
    sd : (n_draws, D) float array
        Of the goal.
    cost, seconds : (D,) float arrays
    """

    designs: tuple[Design, ...]
    coefficients: Floats
    sd: Floats
    cost: Floats
    seconds: Floats


def make_search(
    components: Components,
    prices: Prices,
    goal: Goal,
    pool: int | None = None,
    max_seconds: float | None = None,
) -> Search:
    """Lay out what does not change between designs."""
    contrasts, delta = contrasts_of_goal(components, goal)
    matrix = component_matrix(components, contrasts)
    return Search(components, prices, goal, pool, max_seconds, contrasts, delta, matrix)


def hold(search: Search, designs: Sequence[Design]) -> Held:
    """Hold designs against the goal: of equal ones the cheapest and quickest come first."""
    found = np.column_stack(
        [coefficients(search.components, lay_out(d), search.pool) for d in designs]
    )
    sd = error_sds(search.matrix, found)
    cost = np.array([design_cost(d, search.prices, search.copies) for d in designs])
    seconds = np.array([design_seconds(d, search.prices, search.copies) for d in designs])
    keys = [
        (float(f"{s:.9g}"), c, t, d.slots - d.n)
        for s, c, t, d in zip(sd.mean(axis=0), cost, np.nan_to_num(seconds), designs, strict=True)
    ]
    order = sorted(range(len(designs)), key=keys.__getitem__)
    return Held(
        tuple(designs[i] for i in order),
        found[:, order],
        sd[:, order],
        cost[order],
        seconds[order],
    )


def error_sds(matrix: Floats, found: Floats) -> Floats:
    """Return draws of sds of designs, (n_draws, D)."""
    # Differences of nearly equal sums may leave a zero a hair below it.
    return np.sqrt(np.maximum(matrix @ found, 0.0))


def designs_within(search: Search, budget: float) -> list[Design]:
    """Return the designs that a budget and the limit of time allow."""
    point = search.matrix.mean(axis=0)
    found = affordable_designs(search.components, search.prices, budget, point, search.pool)
    if search.max_seconds is None:
        return found
    return [
        d for d in found if design_seconds(d, search.prices, search.copies) <= search.max_seconds
    ]


def reaches(search: Search, sd: Floats) -> NDArray[np.bool_]:
    """Return which designs, by draws of their sds (n_draws, D), reach the goal."""
    if search.goal.sd is not None:
        return np.asarray(sd.mean(axis=0) <= search.goal.sd)
    return order_probability(search.delta, sd) >= (search.goal.probability or 0.0)


def largest_budget(search: Search) -> float:
    """Return the largest budget whose designs can be written out."""
    answer = float(search.prices.call.min()) + search.prices.generation
    return _MOST_ANSWERS * search.copies * answer


def check_budget(search: Search, budget: float) -> None:
    """Raise a UsageError where a budget buys too much to be written out."""
    most = largest_budget(search)
    if budget > most:
        raise UsageError(
            f"a budget of {budget:g} buys more than {_MOST_ANSWERS:,} answers of each backbone",
            "budget",
            f"Give {most:g} at most",
        )


def smallest_budget(search: Search) -> float:
    """Return a budget within half a per cent of the smallest that reaches the goal.

    Raises
    ------
    DataError
        Where none does.
    """
    each = search.copies * (search.prices.call + search.prices.generation)
    low = budget = float(each.min())
    best = _best(search, budget)
    while best is None or not reaches(search, best.sd)[0]:
        most = min(_MOST_SLOTS * float(each.max()), largest_budget(search) / 2)
        if budget > most:
            raise DataError(
                "the target is out of reach: too much of the error is such that more calls do "
                "not lessen it, or the limit of time is too short",
                remedy="Ask for less, name a larger pool, or take the judges as a panel",
            )
        low, budget = budget, 2 * budget
        best = _best(search, budget)
    high = budget
    for _ in range(_REFINEMENTS):
        middle = float(np.sqrt(low * high))
        best = _best(search, middle)
        if best is not None and reaches(search, best.sd)[0]:
            high = middle
        else:
            low = middle
    return high


def _best(search: Search, budget: float) -> Held | None:
    designs = designs_within(search, budget)
    return hold(search, designs) if designs else None


def options_within(search: Search, budget: float) -> Held:
    """Return the designs that use up a budget, and the best of smaller ones.

    Raises
    ------
    DataError
        Where the budget buys none.
    """
    designs = designs_within(search, budget)
    for fraction in FRACTIONS if search.max_seconds is None else _FINE_FRACTIONS:
        best = _best(search, budget * fraction)
        if best is not None:
            designs.append(best.designs[0])
    if not designs:
        least = search.copies * float(search.prices.call.min() + search.prices.generation)
        raise DataError(
            f"{budget:g} buys no design: one call for each backbone costs {least:g}",
            remedy="Raise the budget, or the limit of time",
        )
    return hold(search, list(dict.fromkeys(designs)))
