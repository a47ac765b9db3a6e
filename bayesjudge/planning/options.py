"""Options as a table, and the reason for the one that is recommended."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bayesjudge.planning.budgeting import calls_by_judge
from bayesjudge.planning.coefficients import coefficient_draws
from bayesjudge.planning.designs import Design, component_matrix
from bayesjudge.planning.goals import Goal, contrasts_of_goal, order_probability
from bayesjudge.planning.searching import FRACTIONS, Held, Search, error_sds, reaches

if TYPE_CHECKING:
    import pandas as pd

type Floats = NDArray[np.float64]


def options_table(search: Search, held: Held, ci_prob: float) -> pd.DataFrame:
    """Return one row a design: its shape, its cost, and what it is expected to bring."""
    import pandas as pd

    components, designs = search.components, held.designs
    counts = [calls_by_judge(d, len(components.judges)) for d in designs]
    expected = held.sd.mean(axis=0)
    columns: dict[str, Any] = {
        "n": [d.n for d in designs],
        "m": [d.m for d in designs],
        "k": [d.k for d in designs],
        "assignment": pd.Series([d.assignment for d in designs], dtype=object),
        "per_generation": [d.per_generation for d in designs],
        "generations": [d.slots * search.copies for d in designs],
        "calls": [int(c.sum()) * search.copies for c in counts],
        "cost": held.cost,
        "seconds": held.seconds,
        "expected_sd": expected,
        **_interval(held.sd, ci_prob, ""),
        "p_order": order_probability(search.delta, _order_sds(search, held)),
    }
    for name, draws in coefficient_draws(components, held.coefficients).items():
        columns[name] = draws.mean(axis=0)
        columns |= _interval(draws, ci_prob, f"{name}_")
    columns["frontier"] = on_frontier(held.cost, expected)
    names = components.judges
    columns["judges"] = pd.Series([[names[j] for j in d.judges] for d in designs], dtype=object)
    columns["calls_per_judge"] = pd.Series(
        [
            [int(c[j]) * search.copies for j in d.judges]
            for c, d in zip(counts, designs, strict=True)
        ],
        dtype=object,
    )
    return pd.DataFrame(columns)


def _order_sds(search: Search, held: Held) -> Floats:
    """Return draws of the sd of the difference that ``p_order`` is about."""
    goal = search.goal
    if search.delta is None or goal.target == "order":
        return held.sd
    about = Goal("order", goal.pair, gap=goal.gap)
    contrasts, _ = contrasts_of_goal(search.components, about)
    return error_sds(component_matrix(search.components, contrasts), held.coefficients)


def _interval(draws: Floats, ci_prob: float, prefix: str) -> dict[str, Floats]:
    tails = [(1 - ci_prob) / 2, (1 + ci_prob) / 2]
    lower, upper = (
        np.quantile(draws, tails, axis=0)
        if len(draws) > 1
        else np.full((2, draws.shape[1]), np.nan)
    )
    return {f"{prefix}ci_lower": lower, f"{prefix}ci_upper": upper}


def on_frontier(cost: Floats, sd: Floats) -> NDArray[np.bool_]:
    """Return which designs have a smaller sd than every other of the same cost or less."""
    order = np.lexsort((sd, cost))
    best = np.minimum.accumulate(sd[order])
    on = np.empty(len(cost), bool)
    on[order] = np.concatenate([[True], sd[order][1:] < best[:-1] * (1 - 1e-9)])
    return on


def choose(search: Search, held: Held) -> tuple[int, bool | None]:
    """Return the cheapest option that reaches the goal, else the best, and whether it does."""
    if search.goal.sd is None and search.goal.probability is None:
        return 0, None
    reached = reaches(search, held.sd)
    if not reached.any():
        return 0, False
    return int(np.argmin(np.where(reached, held.cost, np.inf))), True


_SAID = {"mean": "a backbone's mean", "difference": "a difference", "order": "the difference"}


def describe(design: Design) -> str:
    """Say what a design is, in words."""
    if design.calls:
        turns = f"scored by one of {design.k} judges, in unequal shares"
    elif design.k == 1:
        turns = "scored by one and the same judge"
    elif design.per_generation == design.k:
        turns = f"scored by all {design.k} judges"
    else:
        some = "one" if design.per_generation == 1 else str(design.per_generation)
        turns = f"scored by {some} of {design.k} judges in turn"
    return f"{design.n:,} scenarios, {_generations(design)} each, {turns}"


def _generations(design: Design) -> str:
    if design.slots == design.n:
        return "one generation"
    least = design.slots // design.n
    if least * design.n == design.slots:
        return f"{least} generations"
    return f"{least} or {least + 1} generations ({design.m:.3g} on average)"


def reason(
    search: Search,
    held: Held,
    table: pd.DataFrame,
    chosen: int,
    reached: bool | None,
    budget: float,
    unit: str,
) -> str:
    """Say why an option is recommended, and what others would bring."""
    row = table.iloc[chosen]
    value = f"expected sd of {_SAID[search.goal.target]} {row['expected_sd']:.3g}"
    if search.goal.target == "order":
        value = f"probability {row['p_order']:.3f} of ordering the two best right"
    limit = f"{budget:,.6g}{' calls' if unit == 'calls' else ''}"
    if reached:
        what = f"cheapest that reaches the target ({value}, cost {row['cost']:,.6g})"
    elif reached is False:
        what = f"the target is not reached within {limit}; this comes closest ({value})"
    else:
        what = f"smallest error within {limit} ({value})"
    n_judges = len(search.components.judges)
    beside = [
        f"{label}: sd {table['expected_sd'][i]:.3g}"
        for label, wanted in (
            ("all judges on every generation", lambda d: 1 < n_judges == d.per_generation),
            ("one judge for everything", lambda d: d.k == 1 < n_judges),
        )
        if (i := _first(held, wanted, chosen, budget * FRACTIONS[0])) is not None
    ]
    text = f"{describe(held.designs[chosen])}: {what}"
    return f"{text}. For comparison, {'; '.join(beside)}" if beside else text


def _first(held: Held, wanted: Callable[[Design], bool], chosen: int, cost: float) -> int | None:
    at = (
        i
        for i, design in enumerate(held.designs)
        if i != chosen and held.cost[i] > cost and wanted(design)
    )
    return next(at, None)
