"""Battles: two models a row and which of them won, read as scores of the first.

A battle's score is 1 where the first model won, 0 where the second did, and 0.5
for a tie. Whatever cannot be read as one of these stays as it is, for the reading
of scores to name.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from bayesjudge.scores.problems import Problem
from bayesjudge.scores.raw import Column, RawTable, plain_name
from bayesjudge.scores.table import Scores

type Ints = NDArray[np.int64]

OPPONENT = "opponent"
"""The role of the column that names the second model."""

_STEMS = ("model", "backbone", "system", "llm", "policy", "generator", "player")
_SPOKEN = (*_STEMS, "assistant", "response", "answer", "output", "option")
_SIDES = (("a", "b"), ("1", "2"), ("left", "right"), ("first", "second"))
_WINNERS = ("winner", "preference", "preferred", "outcome", "verdict", "winning_model", "score")
_FIRST = {first for first, _ in _SIDES} | {"1.0"}
_SECOND = {second for _, second in _SIDES} | {"2.0"}
_TIES = {
    *("tie", "tied", "ties", "draw", "equal", "both", "neither", "c", "1.5"),
    *("tie_(bothbad)", "tie(bothbad)", "tie_bothbad", "bothbad", "both_bad", "both_good"),
}
_POINTS = {"0": 0.0, "0.0": 0.0, "0.5": 0.5, "1": 1.0, "1.0": 1.0}


@dataclass(frozen=True)
class BattleColumns:
    """Which columns name the two models and the winner; None for a winner that is not found."""

    first: str
    second: str
    winner: str | None


def battle_columns(names: Sequence[str], named: Mapping[str, str]) -> BattleColumns | None:
    """Find the columns of battles by what the user named, or else by their names.

    Parameters
    ----------
    names : sequence of str
        The table's columns.
    named : mapping of str to str
        Role to column, as the user gave them.

    Returns
    -------
    BattleColumns or None
        None for a table of another kind.
    """
    plain = {plain_name(name): name for name in names}
    winner = named.get("score") or next((plain[w] for w in _WINNERS if w in plain), None)
    first, second = named.get("backbone"), named.get(OPPONENT)
    if first is not None and second is not None:
        return BattleColumns(first, second, winner)
    if winner is None and second is None:
        return None
    for one, other in _pairs():
        if one not in plain or other not in plain:
            continue
        pair = plain[one], plain[other]
        if first in (None, pair[0]) and second in (None, pair[1]):
            return BattleColumns(*pair, winner)
    return None


def _pairs() -> list[tuple[str, str]]:
    found = []
    for stem in _STEMS:
        for one, other in _SIDES:
            found += [(f"{stem}{gap}{one}", f"{stem}{gap}{other}") for gap in ("_", "")]
            found.append((f"{one}_{stem}", f"{other}_{stem}"))
    return found


def read_outcomes(table: RawTable, columns: BattleColumns, points: bool) -> RawTable:
    """Return the table with outcomes instead of its winners.

    Parameters
    ----------
    table : RawTable
    columns : BattleColumns
        All there; a table without one of them is returned as it is.
    points : bool
        Numbers 0, 0.5 and 1 are what the first model gained; otherwise 0 and 1 are
        asked about, as they could number the models too.
    """
    names = (columns.first, columns.second, columns.winner)
    if columns.winner is None or any(name not in table.columns for name in names):
        return table
    first, second = (table.columns[name].labels for name in (columns.first, columns.second))
    winner = table.columns[columns.winner]
    won = winner.labels
    words = {text: _word(text) for text in won.levels}
    models = {*first.levels, *second.levels}
    sides = (plain_name(columns.first), plain_name(columns.second))
    decided = [text for text in won.levels if words[text] not in _TIES]
    named = [text for text in decided if text in models]
    # Where every name would do as a side as well, sides are meant unless all are names.
    told = any(_outcome_of(words[text], sides) is None for text in named)
    by_name = bool(named) and (told or len(named) == len(decided))
    numbers = {words[text] for text in won.levels} <= set(_POINTS)
    if numbers and points and not by_name:
        outcome: dict[str, float | None] = {text: _POINTS[words[text]] for text in won.levels}
    elif numbers and not by_name and {"0", "0.0"} & set(words.values()):
        problem = Problem(
            "error",
            f"the winners in {columns.winner!r} are 0 and 1, which could be what the first model "
            "gained or the number of the model",
            f"column {columns.winner!r}",
            remedy=f"If 1 says that {columns.first!r} won say --column score={columns.winner}; "
            "otherwise write a, b and tie",
        )
        return replace(table, problems=(*table.problems, problem))
    else:
        outcome = {text: _outcome_of(words[text], sides) for text in won.levels}
    values = [None if code < 0 else winner.coded.values[code] for code in winner.coded.codes]
    rows = zip(first.codes.tolist(), second.codes.tolist(), won.codes.tolist(), strict=True)
    for i, (a, b, w) in enumerate(rows):
        if w < 0:
            continue
        text = won.levels[w]
        if by_name and text in models:
            winners = [
                side
                for side, code, labels in ((1.0, a, first), (0.0, b, second))
                if code >= 0 and labels.levels[code] == text
            ]
            # A model that did not fight in this battle cannot have won it.
            values[i] = winners[0] if winners else values[i]
        elif outcome[text] is not None:
            values[i] = outcome[text]
        elif _word(text) in _POINTS:
            # No score of a battle, though it would pass for one.
            values[i] = f"{text}?"
    return replace(table, columns={**table.columns, columns.winner: Column((values,))})


def _word(text: str) -> str:
    return plain_name(text.strip("[](){}'\" ")) if "(" not in text else plain_name(text)


def _outcome_of(word: str, sides: tuple[str, str]) -> float | None:
    if word in _TIES:
        return 0.5
    for score, bare, own in ((1.0, _FIRST, sides[0]), (0.0, _SECOND, sides[1])):
        if word in bare or word == own:
            return score
        if any(word in (f"{stem}_{side}", f"{stem}{side}") for stem in _SPOKEN for side in bare):
            return score
    return None


# What battles tell


def sides_of(scores: Scores) -> Scores:
    """Return one row for either model of each battle, (2N,): its own share of the outcome."""
    opponent = _opponent(scores)
    facets = tuple(
        replace(f, codes=np.concatenate([f.codes, opponent if f.name == "backbone" else f.codes]))
        for f in scores.facets
    )
    return Scores(
        np.concatenate([scores.score, 1.0 - scores.score]),
        facets,
        mapping=scores.mapping,
        replicates=True,
        source=scores.source,
    )


def problems_of_battles(scores: Scores) -> tuple[Problem, ...]:
    """Say what battles make impossible, and refuse those that leave no answer.

    Returns
    -------
    tuple of Problem
        An error where models fall into groups that never met, or where every outcome is
        of a model with itself; a warning where outcomes put no bound on a difference, so
        that priors alone do (Ford 1957); the tally as a note.
    """
    opponent = _opponent(scores)
    backbone = scores.facet("backbone")
    own = backbone.codes != opponent
    won = own & (scores.score > 0.0)
    lost = own & (scores.score < 1.0)
    # An arrow from the model that lost something to the one that gained it.
    gains = np.concatenate([backbone.codes[won], opponent[lost]])
    losses = np.concatenate([opponent[won], backbone.codes[lost]])
    problems = [_tally(scores, int((~own).sum()))]
    groups = _groups(losses, gains, backbone.n_levels, strong=False)
    if groups.max() > 0:
        problems.append(
            Problem(
                "error",
                f"the models fall into {groups.max() + 1} groups that never met, so they cannot "
                f"be compared: {_shown(groups, backbone.levels)}",
                "battles",
                remedy="Let a model of each group meet one of another, or rank one group "
                "with --where",
            )
        )
        return tuple(problems)
    strong = _groups(losses, gains, backbone.n_levels, strong=True)
    if strong.max() > 0:
        problems.append(
            Problem(
                "warning",
                "some models never lost to, or never won against, any of the others, so how far "
                f"apart they are is for the priors to say: {_shown(strong, backbone.levels)}",
                "battles",
                remedy="Collect battles that each side can win",
            )
        )
    return tuple(problems)


def _tally(scores: Scores, n_own: int) -> Problem:
    counts = [int((scores.score == value).sum()) for value in (1.0, 0.0, 0.5)]
    told = f"{counts[0]:,} won by the first, {counts[1]:,} by the second, {counts[2]:,} tied"
    if n_own:
        told += f"; {n_own:,} of a model with itself, which tell of position only"
    return Problem("note", f"{len(scores):,} battles: {told}", "battles", len(scores))


def _groups(losses: Ints, gains: Ints, n: int, strong: bool) -> Ints:
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    graph = coo_array((np.ones(losses.size), (losses, gains)), shape=(n, n))
    if strong:
        found = connected_components(graph, directed=True, connection="strong")[1]
    else:
        found = connected_components(graph, directed=True, connection="weak")[1]
    return np.asarray(found, dtype=np.int64)


def _shown(groups: Ints, labels: Collection[str]) -> str:
    members: dict[int, list[str]] = {}
    for group, label in zip(groups.tolist(), labels, strict=True):
        members.setdefault(group, []).append(label)
    parts = [
        ", ".join(map(repr, part[:4])) + (", ..." if len(part) > 4 else "")
        for part in members.values()
    ]
    return "; ".join(parts[:4]) + ("; ..." if len(parts) > 4 else "")


def _opponent(scores: Scores) -> Ints:
    if scores.opponent is None:
        raise ValueError("these scores are no battles")
    return scores.opponent
