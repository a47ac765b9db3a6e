"""Who scores what: seeded round-robins whose earlier rows stay when scenarios are added."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import gcd
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bayesjudge.errors import DataError, UsageError
from bayesjudge.planning.rotating import rotation, spread
from bayesjudge.planning.whole import check_whole, is_whole

if TYPE_CHECKING:
    import pandas as pd

type Ints = NDArray[np.int64]

COLUMNS = ("scenario", "generation", "backbone", "judge", "score")

_NOBODY = -1
# Turns of one round by unequal shares, and calls of a table.
_MOST_TURNS = 10_000
_MOST_CALLS = 20_000_000


@dataclass(frozen=True, eq=False)
class Assignment:
    """Calls to make, and how balanced they are.

    Attributes
    ----------
    table : DataFrame
        scenario, generation, backbone, judge and an empty score; one row a call, in the
        order to make them: every beginning of it is as balanced as it can be. Rows of
        an assignment that was extended are left out.
    counts : DataFrame
        Backbones by judges: how many calls, extended ones included.
    connected : bool
        Whether a chain of judges leads from every backbone to every other.
    self_cells : tuple of (backbone, judge)
        Left out as the judge's own: estimates of their scores are extrapolated.
    notes : tuple of str
    """

    table: pd.DataFrame
    counts: pd.DataFrame
    connected: bool
    self_cells: tuple[tuple[str, str], ...]
    notes: tuple[str, ...]


def assign(
    scenarios: Sequence[str],
    backbones: Sequence[str],
    judges: Sequence[str],
    *,
    generations: int = 1,
    per_generation: int = 1,
    shares: Mapping[str, int] | None = None,
    no_self: bool = False,
    own: Mapping[str, str] | None = None,
    random_seed: int = 0,
    existing: pd.DataFrame | None = None,
) -> Assignment:
    """Assign judges to the generations of scenarios, in turn.

    Scenarios are shuffled first, so that turns follow no order that the list has (by
    category, by difficulty); then judges take turns, from one scenario on to the next,
    the same judge scoring the same generation of every backbone: what a judge makes of
    a scenario cancels in differences (CyclicJudge, section 3.3; STATISTICS section 7).

    Parameters
    ----------
    scenarios, backbones, judges : sequence of str
        Labels; with ``existing``, the scenarios to add.
    generations : int
        Answers of each backbone on each scenario.
    per_generation : int
        How many judges score each; all of them for a crossed design.
    shares : mapping of str to int, optional
        Whole numbers by judge, as 3 and 1; needs ``per_generation`` 1.
    no_self : bool
        No judge scores the backbone of the same name: another takes its turn.
    own : mapping of str to str, optional
        Judge to the backbone that is its own, where names differ; implies ``no_self``.
    random_seed : int
    existing : DataFrame, optional
        Table of an earlier assignment with the same backbones, judges, settings and seed.

    Returns
    -------
    Assignment

    Raises
    ------
    UsageError
        Where a number is out of range, a label is repeated or unknown, or a backbone is
        left without a judge.
    DataError
        Where the earlier assignment was made with other settings.
    """
    _check_labels(scenarios=scenarios, backbones=backbones, judges=judges)
    n_judges = len(judges)
    check_whole(generations, "the number of generations")
    check_whole(random_seed, "the seed", 0)
    if not is_whole(per_generation) or per_generation > n_judges:
        raise UsageError(
            f"{per_generation} judges a generation of {n_judges} judges",
            remedy=f"It is 1 to {n_judges}",
        )
    n_calls = len(scenarios) * generations * len(backbones) * per_generation
    if n_calls > _MOST_CALLS:
        raise UsageError(
            f"{n_calls:,} calls are too many", remedy=f"Ask for {_MOST_CALLS:,} at most"
        )
    avoided = _own_judges(backbones, judges, no_self, own)
    # Judges first and by themselves: their order must not depend on the scenarios.
    order = np.random.default_rng(random_seed).permutation(n_judges)
    seats = _seats(judges, shares, per_generation)
    place = order if shares is None else np.arange(n_judges)
    old = [] if existing is None else list(dict.fromkeys(existing["scenario"]))
    twice = set(old) & set(scenarios)
    if twice:
        raise UsageError("a scenario to be added is there already", ", ".join(sorted(twice)[:3]))
    shuffled = np.random.default_rng([random_seed, len(old)]).permutation(len(scenarios))
    names = [*old, *(scenarios[i] for i in shuffled)]
    judge = assign_codes(len(names), generations, per_generation, place[seats], n_judges, avoided)
    labels = (names, backbones, judges)
    if existing is not None:
        _check_same(existing, _rows(judge[: len(old)], labels, 0))
    counts = _counts(judge, len(backbones), n_judges)
    table = _rows(judge[len(old) :], labels, len(old))
    return Assignment(
        table=table,
        counts=_labelled(counts, backbones, judges),
        connected=_is_connected(counts),
        self_cells=tuple(
            (backbones[b], judges[j]) for b, j in enumerate(avoided.tolist()) if j != _NOBODY
        ),
        notes=tuple(
            _notes(
                counts,
                len(table),
                (len(names), len(scenarios)),
                generations,
                per_generation,
                shares is None,
            )
        ),
    )


def assign_codes(
    n_scenarios: int,
    generations: int,
    per_generation: int,
    seats: Ints,
    n_judges: int,
    avoided: Ints,
) -> Ints:
    """Return the judges of each call.

    Parameters
    ----------
    n_scenarios, generations, per_generation : int
    seats : (P,) int array
        Judges of one round of turns: each once, or by their shares.
    n_judges : int
    avoided : (B,) int array
        The judge who does not score a backbone; -1 for none.

    Returns
    -------
    (n_scenarios, generations, B, per_generation) int array
        -1 where a call falls away, as the judge's own and no other is free.
    """
    turns = seats[rotation(n_scenarios, generations, per_generation, len(seats))]
    turns = turns.reshape(-1, per_generation)
    judge = np.repeat(turns[:, None, :], len(avoided), axis=1)
    weight = np.bincount(seats, minlength=n_judges)
    for b, self_judge in enumerate(avoided.tolist()):
        if self_judge == _NOBODY:
            continue
        slot, at = np.nonzero(turns == self_judge)
        judge[slot, b, at] = _stand_ins(turns[slot], self_judge, weight)
    return judge.reshape(n_scenarios, generations, len(avoided), per_generation)


def _stand_ins(turns: Ints, self_judge: int, weight: Ints) -> Ints:
    """Return who takes each turn of a judge, from those who do not score it already."""
    n_judges, per_generation = len(weight), turns.shape[1]
    others = np.array([j for j in range(n_judges) if j != self_judge])
    if per_generation == 1:
        turn = spread(weight[others] // np.gcd.reduce(weight[others]))
        return others[turn[np.arange(len(turns)) % len(turn)]]
    if per_generation == n_judges:
        return np.full(len(turns), _NOBODY)
    # Some are free more often than others, so each turn goes to whoever stood in least.
    stood_in = [0] * n_judges
    found = []
    for taken in turns.tolist():
        best = min((j for j in others.tolist() if j not in taken), key=stood_in.__getitem__)
        stood_in[best] += 1
        found.append(best)
    return np.array(found, np.int64)


def _seats(judges: Sequence[str], shares: Mapping[str, int] | None, per_generation: int) -> Ints:
    if shares is None:
        return np.arange(len(judges))
    unknown = [name for name in shares if name not in judges]
    lacking = [name for name in judges if name not in shares]
    if unknown or lacking:
        raise UsageError(
            f"shares are for {', '.join(shares)}, judges are {', '.join(judges)}",
            remedy="Give one share for each judge",
        )
    if not all(is_whole(share) for share in shares.values()):
        raise UsageError("a share must be a whole number of at least 1", "shares")
    if per_generation != 1:
        raise UsageError("unequal shares need one judge a generation", "shares")
    common = gcd(*shares.values())
    counts = [shares[name] // common for name in judges]
    if sum(counts) > _MOST_TURNS:
        raise UsageError(
            f"shares of {', '.join(str(count) for count in counts)} make too long a round",
            "shares",
            f"Their sum is {_MOST_TURNS:,} at most: give smaller numbers",
        )
    return spread(np.array(counts))


def _own_judges(
    backbones: Sequence[str],
    judges: Sequence[str],
    no_self: bool,
    own: Mapping[str, str] | None,
) -> Ints:
    """Return the judge code that each backbone is to be spared, (B,), or nobody."""
    avoided = np.full(len(backbones), _NOBODY)
    pairs = {b: b for b in backbones if b in judges} if no_self or own else {}
    pairs |= dict(own or {})
    for judge, backbone in pairs.items():
        if backbone not in backbones or judge not in judges:
            raise UsageError(
                f"the judge {judge!r} with {backbone!r}: one of them is not there",
                "own",
                "Name a judge and the backbone that is its own",
            )
        at = list(backbones).index(backbone)
        if avoided[at] != _NOBODY:
            raise UsageError(
                f"two judges are called {backbone!r}'s own",
                "own",
                "One judge can be kept from a backbone; leave the other out of the panel",
            )
        avoided[at] = list(judges).index(judge)
    if pairs and len(judges) == 1:
        raise UsageError("a backbone would be left without a judge", remedy="Add a judge")
    if no_self and not pairs:
        raise UsageError(
            "no judge bears the name of a backbone",
            "no_self",
            "Say which judge is which backbone's own",
        )
    return avoided


def _rows(
    judge: Ints, labels: tuple[Sequence[str], Sequence[str], Sequence[str]], first: int
) -> pd.DataFrame:
    import pandas as pd

    names, backbones, judges = (np.array([*x, ""], dtype=object)[:-1] for x in labels)
    shape = judge.shape
    kept = judge.ravel() != _NOBODY
    number = np.array([str(g) for g in range(1, shape[1] + 1)], dtype=object)
    of_generation, of_backbone = shape[2] * shape[3], shape[3]
    scenario = np.repeat(names[first : first + shape[0]], shape[1] * of_generation)
    columns = {
        "scenario": scenario,
        "generation": np.tile(np.repeat(number, of_generation), shape[0]),
        "backbone": np.tile(np.repeat(backbones, of_backbone), shape[0] * shape[1]),
        "judge": judges[judge.ravel()],
        "score": np.full(judge.size, "", dtype=object),
    }
    return pd.DataFrame({name: pd.Series(v[kept], dtype=object) for name, v in columns.items()})


def _check_same(existing: pd.DataFrame, made: pd.DataFrame) -> None:
    """Refuse to extend what the same settings would not have made."""
    facets = list(COLUMNS[:-1])
    if len(existing) == len(made) and all(
        (existing[name].to_numpy() == made[name].to_numpy()).all() for name in facets
    ):
        return
    raise DataError(
        "the earlier assignment was made with other settings, or its rows were changed",
        remedy="Give the same backbones, judges, generations, shares and seed, and all of its rows",
    )


def _counts(judge: Ints, n_backbones: int, n_judges: int) -> Ints:
    by_backbone = np.moveaxis(judge, 2, 0).reshape(n_backbones, -1)
    return np.stack([np.bincount(row[row != _NOBODY], minlength=n_judges) for row in by_backbone])


def _labelled(counts: Ints, backbones: Sequence[str], judges: Sequence[str]) -> pd.DataFrame:
    import pandas as pd

    columns: dict[str, object] = {"backbone": pd.Series(list(backbones), dtype=object)}
    frame = pd.DataFrame(columns)
    # A judge may be called "backbone": columns are put side by side, not by name.
    numbers = pd.DataFrame(counts, columns=pd.Index(list(judges), dtype=object))
    return pd.concat([frame, numbers], axis=1)


def _is_connected(counts: Ints) -> bool:
    reached = np.zeros(len(counts), bool)
    reached[0] = True
    for _ in range(len(counts)):
        judges = (counts[reached] > 0).any(axis=0)
        reached |= (counts[:, judges] > 0).any(axis=1)
    return bool(reached.all())


def _notes(
    counts: Ints,
    n_rows: int,
    n_scenarios: tuple[int, int],
    generations: int,
    per_generation: int,
    equal: bool,
) -> Sequence[str]:
    all_of_them, new = n_scenarios
    total = counts.sum(axis=0)
    used = np.where(counts > 0, counts, np.iinfo(np.int64).max).min(axis=1)
    said = [
        f"{n_rows:,} calls{'' if new == all_of_them else ' more'}: {new:,} scenarios, generations "
        f"of each backbone on each: {generations}, judges of each: {per_generation}",
        f"calls a judge: {total.min():,} to {total.max():,}",
    ]
    if equal:
        wide = int((counts.max(axis=1) - used).max())
        said.append(f"judges who score a backbone differ by {wide} calls for it at most")
    return said


def _check_labels(**labels: Sequence[str]) -> None:
    for what, names in labels.items():
        if isinstance(names, str) or not isinstance(names, Sequence):
            raise UsageError(f"the {what} are {names!r}", what, f"Give a list of the {what}")
        if not names:
            raise UsageError(f"there are no {what}", remedy=f"Name the {what}")
        if len(set(names)) < len(names):
            twice = next(name for name, count in Counter(names).items() if count > 1)
            raise UsageError(f"{twice!r} is named twice", what, "Name each once")
