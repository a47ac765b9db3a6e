"""SEMJ's settings varied: s and tau from recorded runs, K by running again.

What a round shows depends only on the rounds before it, so a run recorded with more rounds
and a higher threshold holds every run with fewer rounds and a lower one, exactly. Another K
is another memory, and has to be asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from bayesjudge.errors import DataError
from bayesjudge.judges.calls import Ask, Call, Reply
from bayesjudge.judges.items import Item
from bayesjudge.judges.semj import SemjResult, Settings, reached, refine
from bayesjudge.judges.semj_metrics import (
    Bools,
    Bucket,
    Floats,
    Ints,
    Kappa,
    Share,
    accuracy,
    fleiss_kappa,
    flips_and_repairs,
)


@dataclass(frozen=True)
class Point:
    """One setting of a sweep.

    Attributes
    ----------
    setting : float
        K, s or tau.
    accuracy : Share
        Of the verdicts in the items' own languages.
    kappa : Kappa
        Over the own languages of parallel items where there are several, else over the
        variants of each item.
    rounds : float
        Mean number of rounds of reconsidering.
    n_invalid : int
        Verdicts missing in all rounds.
    """

    setting: float
    accuracy: Share
    kappa: Kappa
    rounds: float
    n_invalid: int


def replay(result: SemjResult, tau: float, rounds: int) -> SemjResult:
    """Return what a recorded run would have been with this threshold and so many rounds.

    Raises
    ------
    DataError
        Where the run ended before that.
    """
    for at, one in enumerate(result.rounds[: rounds + 1]):
        if reached(one.agreement, tau):
            kept = result.rounds[: at + 1]
            break
    else:
        kept = result.rounds[: rounds + 1]
        if len(kept) <= rounds:
            raise DataError(
                f"the run ended after {len(kept) - 1} rounds of reconsidering, before tau = "
                f"{tau:g} or s = {rounds} would have ended it",
                result.item.name,
                f"Record it with tau above 1 and at least {rounds} rounds",
            )
    return replace(result, settings=replace(result.settings, tau=tau, rounds=rounds), rounds=kept)


def sweep_rounds(
    results: Sequence[SemjResult], truth: Bools, rounds: Sequence[int], tau: float
) -> tuple[Point, ...]:
    """Return accuracy and kappa by s, from runs recorded with at least so many rounds.

    Raises
    ------
    DataError
        Where a run ended before that.
    """
    return tuple(_point(s, [replay(one, tau, s) for one in results], truth) for s in rounds)


def sweep_tau(
    results: Sequence[SemjResult], truth: Bools, taus: Sequence[float], rounds: int
) -> tuple[Point, ...]:
    """Return accuracy and kappa by tau, from runs recorded with a threshold as high.

    Raises
    ------
    DataError
        Where a run ended before that.
    """
    return tuple(_point(t, [replay(one, t, rounds) for one in results], truth) for t in taus)


async def sweep_others(
    items: Sequence[Item], settings: Settings, counts: Sequence[int], truth: Bools, ask: Ask
) -> tuple[Point, ...]:
    """Run SEMJ with each K; translations and first verdicts are asked once for all.

    Errors as of `refine`.
    """
    once = asked_once(ask)
    found = []
    for count in counts:
        chosen = replace(settings, others=count)
        results = [await refine(item, chosen, once) for item in items]
        found.append(_point(count, results, truth))
    return tuple(found)


def asked_once(ask: Ask) -> Ask:
    """Return an ``Ask`` that gives a call that it has answered before the same reply.

    Calls with memory go through: panels of different languages share none.
    """
    known: dict[tuple[str, ...], tuple[Call, Reply]] = {}

    async def remembered(call: Call) -> Reply:
        if call.purpose == "reflect":
            return await ask(call)
        found = known.get(call.key)
        if found is not None and found[0] == call:
            return found[1]
        reply = await ask(call)
        known[call.key] = (call, reply)
        return reply

    return remembered


def own_verdicts(results: Sequence[SemjResult]) -> Floats:
    """Return the results' verdicts, (N,): 1, 0, nan."""
    return _numbers([one.verdict for one in results])


def panel_verdicts(results: Sequence[SemjResult]) -> Floats:
    """Return the majorities of the results' panels, (N,): 1, 0, nan."""
    return _numbers([one.panel_verdict for one in results])


def item_codes(items: Sequence[Item]) -> Ints:
    """Return codes, (N,), the same for one item in several languages."""
    return _codes([_parallel(item) for item in items])


def parallel_verdicts(items: Sequence[Item], verdicts: Floats) -> Floats:
    """Return verdicts of parallel items, (S, L): a row an item, a column its own language.

    nan where an item is not there in a language.
    """
    languages = _codes([item.language or "" for item in items])
    rows = item_codes(items)
    table = np.full((rows.max() + 1, languages.max() + 1), np.nan)
    table[rows, languages] = verdicts
    return table


def bucketed(results: Sequence[SemjResult], truth: Bools) -> tuple[Bucket, ...]:
    """Return flips and repairs from the first judgment to the first round after it.

    Of every variant of the results that were reconsidered, all of one number of variants.

    Raises
    ------
    DataError
        Where no result was reconsidered.
    """
    chosen = [at for at, one in enumerate(results) if len(one.rounds) > 1]
    if not chosen:
        raise DataError(
            "no item was reconsidered", remedy="Record the run with tau above 1 and a round or more"
        )
    before, after = (
        np.array([_variants(results[at], number) for at in chosen]) for number in (0, 1)
    )
    agreed = [results[at].rounds[0].agreement for at in chosen]
    agreement = np.array([np.nan if a is None else a for a in agreed])
    return flips_and_repairs(before, after, agreement, truth[chosen])


def _point(setting: float, results: Sequence[SemjResult], truth: Bools) -> Point:
    items = [one.item for one in results]
    verdicts = own_verdicts(results)
    table = parallel_verdicts(items, verdicts)
    if table.shape[1] < 2:
        table = np.array([_numbers(list(one.finals)) for one in results])
    return Point(
        float(setting),
        accuracy(verdicts, truth, item_codes(items)),
        fleiss_kappa(table),
        float(np.mean([len(one.rounds) - 1 for one in results])),
        sum(one.n_invalid for one in results),
    )


def _variants(result: SemjResult, number: int) -> Floats:
    return _numbers([one.verdict.correct for one in result.rounds[number].verdicts])


def _numbers(verdicts: Sequence[bool | None]) -> Floats:
    return np.array([np.nan if one is None else float(one) for one in verdicts])


def _parallel(item: Item) -> tuple[object, ...]:
    return (item.scenario, item.backbone, item.generation, item.facets)


def _codes(keys: Sequence[object]) -> NDArray[np.int64]:
    places: dict[object, int] = {}
    return np.array([places.setdefault(key, len(places)) for key in keys], dtype=np.int64)
