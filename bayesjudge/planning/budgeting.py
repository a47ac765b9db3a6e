"""What designs cost, and which of them a budget buys."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import floor

import numpy as np
from numpy.typing import NDArray

from bayesjudge.errors import UsageError
from bayesjudge.planning.designs import RESIDUAL, Components, Design, lay_out

type Floats = NDArray[np.float64]
type Ints = NDArray[np.int64]

# Generations a scenario that are looked at beside 1 and whole numbers of rounds.
_GENERATIONS = (1, 2, 3, 5, 10)
_SLACK = 1e-9


@dataclass(frozen=True, eq=False)
class Prices:
    """What calls cost, in money or in calls.

    Attributes
    ----------
    call : (K,) float array
        Price of one call of each judge.
    generation : float
        Price of one answer of a backbone.
    seconds : (K,) float array or None
        Latency of one call.
    """

    call: Floats
    generation: float = 0.0
    seconds: Floats | None = None


def make_prices(
    judges: Sequence[str],
    costs: Mapping[str, float] | None = None,
    generation: float = 0.0,
    latencies: Mapping[str, float] | None = None,
) -> Prices:
    """Return prices in the order of the judges; a call costs 1 where there are none.

    Raises
    ------
    UsageError
        Where a judge is unknown or lacks its number, or a number is not above 0.
    """
    if not 0 <= generation < np.inf:
        raise UsageError(f"an answer costs {generation:g}", remedy="It must be at least 0")
    call = np.ones(len(judges)) if costs is None else _numbers(judges, costs, "price")
    seconds = None if latencies is None else _numbers(judges, latencies, "latency")
    return Prices(call, generation, seconds)


def _numbers(judges: Sequence[str], given: Mapping[str, float], what: str) -> Floats:
    unknown = [name for name in given if name not in judges]
    if unknown:
        raise UsageError(
            f"no judge is called {', '.join(unknown)}", what, f"They are {', '.join(judges)}"
        )
    lacking = [name for name in judges if name not in given]
    if lacking:
        raise UsageError(f"no {what} for {', '.join(lacking)}", what, "Give one for every judge")
    values = np.array([given[name] for name in judges], float)
    if not (np.isfinite(values) & (values > 0)).all():
        raise UsageError(f"a {what} must be a number above 0", what)
    return values


def calls_by_judge(design: Design, n_judges: int) -> Ints:
    """Return how often each judge of the panel is called for one backbone, (K,)."""
    if design.calls:
        counts = np.zeros(n_judges, np.int64)
        counts[list(design.judges)] = design.calls
        return counts
    return np.bincount(lay_out(design).judge, minlength=n_judges)


def design_cost(design: Design, prices: Prices, copies: int) -> float:
    """Return the price of a design; ``copies`` is backbones times other facets' levels."""
    calls = calls_by_judge(design, len(prices.call))
    return float(copies * (calls @ prices.call + design.slots * prices.generation))


def design_seconds(design: Design, prices: Prices, copies: int) -> float:
    """Return how long a design takes: judges side by side, each judge's calls in a row."""
    if prices.seconds is None:
        return float("nan")
    calls = calls_by_judge(design, len(prices.call))
    return float(copies * np.max(calls * prices.seconds))


def optimal_calls(variance: Floats, price: Floats, budget: float) -> Ints:
    """Return how often to call each judge, so that the mean of judge means errs least.

    Minimizes the sum of variance/N over whole numbers N >= 1 whose price is within the
    budget: N in proportion to sqrt(variance/price) (STATISTICS section 7), then rounded
    down, filled up call by call and improved by exchanges.

    Parameters
    ----------
    variance, price : (K,) float arrays
        Of one call of each judge; prices positive.
    budget : float

    Returns
    -------
    (K,) int array
        Zeros where the budget does not buy one call of each.
    """
    if price.sum() > budget * (1 + _SLACK):
        return np.zeros(len(price), np.int64)
    ideal = budget * np.sqrt(variance / price) / np.sqrt(variance * price).sum()
    calls = np.maximum(np.floor(ideal), 1).astype(np.int64)
    while calls @ price > budget * (1 + _SLACK):
        # Judges held at one call take what the others must give back.
        loss = np.where(calls > 1, variance / np.maximum(calls - 1, 1) - variance / calls, np.inf)
        calls[np.argmin(loss / price)] -= 1
    calls = _fill(calls, variance, price, budget)
    while True:
        better = _exchange(calls, variance, price, budget)
        if better is None:
            return calls
        calls = better


def _fill(calls: Ints, variance: Floats, price: Floats, budget: float) -> Ints:
    calls = calls.copy()
    left = budget * (1 + _SLACK) - float(calls @ price)
    while (price <= left).any():
        gain = np.where(price <= left, variance / (calls * (calls + 1)) / price, -1.0)
        best = int(np.argmax(gain))
        calls[best] += 1
        left -= float(price[best])
    return calls


def _exchange(calls: Ints, variance: Floats, price: Floats, budget: float) -> Ints | None:
    """Return a better plan with one call of one judge given back, or None."""
    now = (variance / calls).sum()
    for out in np.flatnonzero(calls > 1):
        fewer = calls.copy()
        fewer[out] -= 1
        for into in range(len(calls)):
            left = budget * (1 + _SLACK) - float(fewer @ price)
            if into == out or price[into] > left:
                continue
            more = fewer.copy()
            more[into] += int(left // price[into])
            more = _fill(more, variance, price, budget)
            if (variance / more).sum() < now * (1 - 1e-12):
                return more
    return None


def affordable_designs(
    components: Components, prices: Prices, budget: float, point: Floats, pool: int | None
) -> list[Design]:
    """Return the designs that use up a budget, of every kind worth a look.

    All of the panel, or its k cheapest judges; each generation scored by one judge in
    turn, by several, or by all; few scenarios with many generations or many with one;
    and where judges differ in price or noise, unequal shares.

    Parameters
    ----------
    components : Components
    prices : Prices
    budget : float
        For all backbones together.
    point : (n_coefficients,) float array
        A row of ``component_matrix``: what the shares are worked out for.
    pool : int or None
        Most scenarios; None for as many as one likes.

    Returns
    -------
    list of Design
        Each within the budget and different from the others; empty where it buys none.
    """
    copies = len(components.backbones) * components.n_others
    each = budget / copies
    order = np.argsort(prices.call, kind="stable")
    found: dict[Design, None] = {}
    n_judges = len(prices.call)
    for k in _some(n_judges):
        judges = tuple(sorted(int(j) for j in order[:k]))
        for q in _some(k):
            for design in _equal_turns(judges, q, prices, each, pool):
                found[design] = None
        for design in _unequal(judges, components, prices, each, point, pool):
            found[design] = None
    return [d for d in found if design_cost(d, prices, copies) <= budget * (1 + _SLACK)]


def _some(n: int) -> list[int]:
    """Return 1 to n, or a few of them where that were many."""
    return list(range(1, n + 1)) if n <= 6 else sorted({1, 2, 3, n // 2, n - 1, n})


def _equal_turns(
    judges: tuple[int, ...], q: int, prices: Prices, each: float, pool: int | None
) -> Iterator[Design]:
    k = len(judges)
    one = q * float(prices.call[list(judges)].mean()) + prices.generation
    slots = floor(each / one * (1 + _SLACK))
    most = slots if pool is None else min(pool, slots)
    for m in sorted({*_GENERATIONS, k, 2 * k, slots // most if most else 1}):
        n = min(slots // m, most)
        if n >= 1:
            yield from _within(judges, q, n, n * m, m, prices, each)
    if most and slots > most:
        yield from _within(judges, q, most, slots, 0, prices, each)


def _within(
    judges: tuple[int, ...], q: int, n: int, slots: int, m: int, prices: Prices, each: float
) -> Iterator[Design]:
    """Take scenarios (m > 0) or generations away until incomplete rounds are paid for."""
    for _ in range(2 * len(prices.call)):
        if n < 1 or slots < n:
            return
        if slots * q >= len(judges):
            design = Design(n, slots, judges, q)
            if design_cost(design, prices, 1) <= each * (1 + _SLACK):
                yield design
                return
        if m:
            n, slots = n - 1, slots - m
        else:
            slots -= 1


def _unequal(
    judges: tuple[int, ...],
    components: Components,
    prices: Prices,
    each: float,
    point: Floats,
    pool: int | None,
) -> Iterator[Design]:
    price = prices.call[list(judges)] + prices.generation
    with_scenarios, without = _per_call(components, point)
    if len(judges) == 1 or price.min() <= 0:
        return
    for variance in (with_scenarios[list(judges)], without[list(judges)]):
        if variance.min() <= 0 or np.ptp(price / variance) <= 1e-9 * (price / variance).max():
            continue
        calls = optimal_calls(variance, price, each)
        slots = int(calls.sum())
        if slots == 0 or np.ptp(calls) == 0:
            continue
        most = slots if pool is None else min(pool, slots)
        for n in sorted({most, *(max(1, slots // m) for m in _GENERATIONS[:4])}):
            if n <= most:
                yield Design(n, slots, judges, 1, tuple(int(c) for c in calls))


def _per_call(components: Components, point: Floats) -> tuple[Floats, Floats]:
    """Return the variance that one call brings of its own: on a new scenario, on a known one."""
    n_judges = len(components.judges)
    fresh, known = np.zeros(n_judges), np.zeros(n_judges)
    at = 0
    for part in components.parts:
        width = n_judges if part.by == "judge" else 1
        own = point[at : at + width]
        at += width
        if "scenario" in part.facets or part.name == RESIDUAL:
            fresh += own
        if "generation" in part.facets:
            known += own
    return fresh, known
