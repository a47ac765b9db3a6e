"""Which design to run next: options within a budget, and the one to take."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from bayesjudge.errors import UsageError
from bayesjudge.fitted import Fit
from bayesjudge.planning.budgeting import make_prices
from bayesjudge.planning.components import components_of_fit
from bayesjudge.planning.designs import Components, Design
from bayesjudge.planning.goals import Goal
from bayesjudge.planning.options import choose, options_table, reason
from bayesjudge.planning.searching import (
    FRACTIONS,
    Held,
    Search,
    check_budget,
    make_search,
    options_within,
    smallest_budget,
)
from bayesjudge.planning.whole import check_whole
from bayesjudge.ranking import check_probability

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class Plan:
    """Designs that a budget buys, and the one to take.

    Attributes
    ----------
    options : DataFrame
        One row a design, smallest expected sd first: n, m, k, assignment, per_generation,
        generations, calls, cost, seconds, expected_sd, ci_lower, ci_upper, p_order,
        generalizability and dependability with their intervals, frontier, recommended,
        judges, calls_per_judge.
    designs : tuple of Design
        In the order of the rows.
    recommended : int
        Row of the design to take.
    reached : bool or None
        Whether it reaches what was asked for; None where nothing was.
    reason : str
    goal : Goal
    components : Components
    budget : float
    unit : {"calls", "money"}
    pool : int or None
    ci_prob : float
    notes : tuple of str
        What the numbers rest on.
    """

    options: pd.DataFrame
    designs: tuple[Design, ...]
    recommended: int
    reached: bool | None
    reason: str
    goal: Goal
    components: Components
    budget: float
    unit: str
    pool: int | None
    ci_prob: float
    notes: tuple[str, ...]

    @property
    def design(self) -> Design:
        """The recommended design."""
        return self.designs[self.recommended]


def plan(
    source: Fit | Components,
    budget: float | None = None,
    *,
    costs: Mapping[str, float] | None = None,
    generation_cost: float = 0.0,
    latencies: Mapping[str, float] | None = None,
    max_seconds: float | None = None,
    pool: int | None = None,
    target: str = "mean",
    pair: Sequence[str] = (),
    sd: float | None = None,
    probability: float | None = None,
    gap: float | None = None,
    ci_prob: float = 0.95,
) -> Plan:
    """Say which design to run: how many scenarios and generations, and which judge scores what.

    Parameters
    ----------
    source : Fit or Components
        Of a pilot, or typed in (:func:`bayesjudge.typed_components`).
    budget : float, optional
        For all backbones together: in calls, or in money where ``costs`` are given. None
        for the smallest that reaches ``sd`` or ``probability``.
    costs : mapping of str to float, optional
        Price of a call by judge; every judge or none.
    generation_cost : float
        Price of an answer of a backbone, in the unit of the budget.
    latencies : mapping of str to float, optional
        Seconds a call by judge; judges work side by side, each one call after the other.
    max_seconds : float, optional
        Designs that take longer are left out.
    pool : int, optional
        Number of all scenarios: the means are about these, and no design takes more.
        None for new scenarios, of which there are as many as one likes.
    target : {"mean", "difference", "order"}
    pair : sequence of str
        Two backbones, for a difference or an order.
    sd, probability : float, optional
        What is to be reached.
    gap : float, optional
        Difference between the two best, for an order.
    ci_prob : float
        Probability of the intervals, which are null for components without draws.

    Returns
    -------
    Plan
        Errors are those of the mean of judge means; a fitted model errs no more.

    Raises
    ------
    UsageError
        Where neither a budget nor a goal is given, or names and numbers do not fit.
    DataError
        Where the budget buys no design.
    """
    if isinstance(pair, str):
        raise UsageError(f"the pair is {pair!r}", "pair", "Give the labels of two backbones")
    goal = Goal(target, tuple(pair), sd, probability, gap)
    components = components_of_fit(source) if isinstance(source, Fit) else source
    check_probability(ci_prob, "ci_prob")
    prices = make_prices(components.judges, costs, generation_cost, latencies)
    if pool is not None:
        check_whole(pool, "the pool of scenarios")
    if budget is not None and not 0 < budget < np.inf:
        raise UsageError(f"the budget is {budget:g}", remedy="It must be a number above 0")
    if max_seconds is not None and prices.seconds is None:
        raise UsageError("a limit of time needs the latency of each judge", "max_seconds")
    search = make_search(components, prices, goal, pool, max_seconds)
    if budget is None:
        if sd is None and probability is None:
            raise UsageError(
                "there is nothing to plan for", remedy="Give a budget, or an sd or probability"
            )
        budget = smallest_budget(search)
    check_budget(search, budget)
    held = options_within(search, budget)
    table = options_table(search, held, ci_prob)
    full = held.cost > budget * FRACTIONS[0]
    keep = np.flatnonzero(table["frontier"].to_numpy() | full)
    held = _kept(held, keep.tolist())
    table = table.iloc[keep].reset_index(drop=True)
    chosen, reached = choose(search, held)
    table.insert(0, "recommended", np.arange(len(table)) == chosen)
    unit = "calls" if costs is None else "money"
    return Plan(
        options=table,
        designs=held.designs,
        recommended=chosen,
        reached=reached,
        reason=reason(search, held, table, chosen, reached, budget, unit),
        goal=goal,
        components=components,
        budget=budget,
        unit=unit,
        pool=pool,
        ci_prob=ci_prob,
        notes=tuple(_notes(search, held.designs[chosen], table.iloc[chosen], source)),
    )


def _kept(held: Held, rows: list[int]) -> Held:
    return Held(
        tuple(held.designs[i] for i in rows),
        held.coefficients[:, rows],
        held.sd[:, rows],
        held.cost[rows],
        held.seconds[rows],
    )


def _notes(
    search: Search, design: Design, row: pd.Series[Any], source: Fit | Components
) -> Iterator[str]:
    components = search.components
    calls = zip(row["judges"], row["calls_per_judge"], strict=True)
    told = ", ".join(f"{judge} {number:,}" for judge, number in calls)
    yield f"recommended calls by judge, all backbones together: {told}"
    yield (
        "errors are those of the mean of judge means, the same judge scoring a scenario for all "
        "backbones"
    )
    if "judge" in components.panel:
        yield f"judges: this panel of {len(components.judges)}"
        if design.k < len(components.judges):
            yield (
                "judges left out are taken for as different as the panel's are: which of them "
                "take part is a matter of price only"
            )
    else:
        yield "judges: a population of which these are draws"
    yield (
        "scenarios: new ones like these"
        if search.pool is None
        else f"scenarios: a pool of {search.pool:,}, finite-population correction applied"
    )
    if components.others:
        names = ", ".join(f"{name} ({n})" for name, n in components.others)
        yield f"every answer is given and scored at each level of {names}"
    if isinstance(source, Fit):
        if source.scores.has("scenario"):
            have = source.scores.facet("scenario").n_levels
            if design.n > have:
                yield f"the table has {have:,} scenarios; the plan needs {design.n:,}"
        yield from confounded_notes(source)


def confounded_notes(fit: Fit) -> Iterator[str]:
    """Say which interactions with scenarios the table could not tell from noise."""
    lost = [
        d.name
        for d in fit.resolved.dropped
        if "scenario" in d.name.split(":") and "cannot tell" in d.reason
    ]
    if lost:
        yield (
            f"the table cannot tell {', '.join(lost)} from noise: several judges or generations "
            "on a scenario may look better than they are"
        )
