"""Which other languages an answer is also judged in: at random, by resource, by family."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from bayesjudge.auditing.languages import Language, find_language
from bayesjudge.errors import UsageError

type Choice = Literal["random", "high_resource", "low_resource", "same_family", "different_family"]

CHOICES: tuple[str, ...] = get_args(Choice.__value__)


@dataclass(frozen=True)
class Chosen:
    """Languages chosen beside an item's own.

    Attributes
    ----------
    languages : tuple of str
        In the order chosen.
    filled : int
        How many of them, the last ones, are there only because too few languages were
        of the family asked for.
    """

    languages: tuple[str, ...]
    filled: int = 0


def choose_languages(
    own: str,
    count: int,
    candidates: Sequence[str],
    choice: Choice = "random",
    *,
    seed: int = 0,
    name: Sequence[str] = (),
) -> Chosen:
    """Choose languages other than an item's own (SEMJ, table 6).

    Parameters
    ----------
    own : str
        The item's language, never chosen.
    count : int
        K, how many.
    candidates : sequence of str
        What may be chosen.
    choice : str
        ``random``; ``high_resource`` and ``low_resource``, those with the largest or the
        smallest share of the web; ``same_family`` and ``different_family``, at random among
        those, and filled up at random from the rest where they are too few.
    seed : int
    name : sequence of str
        The item's labels: the choice depends on seed and item, not on the order of items.

    Returns
    -------
    Chosen
        A choice of fewer languages is the beginning of a choice of more.

    Raises
    ------
    UsageError
        Where there are too few candidates, or families are asked for and a language's
        is not known.
    """
    others = [one for one in dict.fromkeys(candidates) if not _same(one, own)]
    if not 0 <= count <= len(others):
        raise UsageError(
            f"{count} languages beside {own!r} cannot be chosen from {len(others)}",
            remedy="Ask for fewer, or name more languages",
        )
    shuffled = [others[at] for at in _generator(seed, name).permutation(len(others))]
    match choice:
        case "random":
            return Chosen(tuple(shuffled[:count]))
        case "high_resource":
            return Chosen(tuple(sorted(shuffled, key=_share, reverse=True)[:count]))
        case "low_resource":
            return Chosen(tuple(sorted(shuffled, key=_share)[:count]))
        case "same_family" | "different_family":
            wanted = choice == "same_family"
            family = _known(own).family
            first = [one for one in shuffled if (_known(one).family == family) is wanted]
            rest = [one for one in shuffled if one not in first]
            return Chosen(tuple([*first, *rest][:count]), max(0, count - len(first)))
    raise UsageError(
        f"there is no choice of languages {choice!r}", remedy=f"There are {', '.join(CHOICES)}"
    )


def _generator(seed: int, name: Sequence[str]) -> np.random.Generator:
    digest = hashlib.sha256(json.dumps([seed, *name]).encode()).digest()
    return np.random.default_rng(int.from_bytes(digest[:16], "big"))


def _same(one: str, other: str) -> bool:
    known, beside = find_language(one), find_language(other)
    return one == other or (known is not None and known == beside)


def _share(label: str) -> float:
    """Return a language's share of the web; one too small to be counted is 0."""
    known = find_language(label)
    return (known.web_share if known else None) or 0.0


def _known(label: str) -> Language:
    known = find_language(label)
    if known is None or not known.family:
        raise UsageError(
            f"the family of the language {label!r} is not known",
            remedy="Choose languages at random or by resource",
        )
    return known
