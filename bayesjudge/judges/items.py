"""Answers to be judged, from a file of one JSON object a line."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from bayesjudge.errors import DataError
from bayesjudge.scores.columns import SYNONYMS
from bayesjudge.scores.files import unreadable

NAMES: dict[str, tuple[str, ...]] = {
    "scenario": ("scenario", *SYNONYMS["scenario"]),
    "generation": ("generation", *SYNONYMS["generation"]),
    "backbone": ("backbone", *SYNONYMS["backbone"]),
    "language": ("language",),
    "prompt": ("prompt", "question", "instruction", "input"),
    "response": ("response", "answer", "output", "completion"),
}
"""What a field may be called; the first name is the one to use."""

OPTIONAL = ("generation", "language")

TAKEN = (
    *("score", "judge", "failure", "nll", "parse_ok", "human_score"),
    *("judge_language", "call", *SYNONYMS["judge"], *SYNONYMS["score"]),
)
"""Names that the score table needs for itself."""


@dataclass(frozen=True)
class Item:
    """One answer to be judged, and what it answers.

    Attributes
    ----------
    scenario, backbone : str
    generation, language : str or None
    prompt, response : str
        The question, and the answer to it.
    facets : tuple of (str, str)
        Further labels, which come back as columns of the score table.
    """

    scenario: str
    backbone: str
    prompt: str
    response: str
    generation: str | None = None
    language: str | None = None
    facets: tuple[tuple[str, str], ...] = ()

    @property
    def labels(self) -> tuple[str, ...]:
        """What tells it from all others."""
        own = (self.scenario, self.generation or "", self.backbone, self.language or "")
        return (*own, *(f"{name}={label}" for name, label in self.facets))

    @property
    def name(self) -> str:
        """What messages call it."""
        return " ".join(label for label in self.labels if label)


@dataclass(frozen=True)
class Items:
    """The answers of a file, and what is to be said of how they were read."""

    items: tuple[Item, ...]
    notes: tuple[str, ...] = ()

    @property
    def languages(self) -> tuple[str, ...]:
        """The languages there are, in the order of the file."""
        found = (item.language for item in self.items)
        return tuple(dict.fromkeys(language for language in found if language is not None))


def read_items(source: str) -> Items:
    """Read answers from a ``.jsonl`` file.

    Parameters
    ----------
    source : str
        Path of a file with one object a line: ``scenario``, ``backbone``, ``prompt`` and
        ``response``, optionally ``generation`` and ``language``; every other field of
        text or whole numbers is a label. Names of the score table's synonyms will do.

    Returns
    -------
    Items
        In the order of the file.

    Raises
    ------
    DataError
        Where a line is no such object, lacks a field, names one twice, or where two
        lines are the same answer; it names the line.
    """
    path = Path(source)
    try:
        lines = path.read_bytes().decode("utf-8-sig").split("\n")
    except FileNotFoundError as error:
        raise DataError("there is no such file", source, "Check the path") from error
    except UnicodeDecodeError as error:
        raise DataError("the file is not UTF-8", source, "Save it as UTF-8") from error
    except OSError as error:
        raise unreadable(source, error) from error
    found: list[Item] = []
    places: dict[tuple[str, ...], int] = {}
    called: dict[str, str] = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        where = f"{source}, line {number}"
        item, used = _item(read_object(line, where), where)
        called |= used
        if item.labels in places:
            raise DataError(
                f"{item.name}: this answer is there twice",
                f"{source}, lines {places[item.labels]} and {number}",
                "Give each its own generation, or a further label",
            )
        places[item.labels] = number
        found.append(item)
    if not found:
        raise DataError("the file holds no answers", source, "Write one JSON object a line")
    _check_alike(found, source)
    renamed = [f"{role}: {name}" for role, name in called.items() if role != name]
    notes = (f"taken as {', '.join(renamed)}",) if renamed else ()
    return Items(tuple(found), notes)


def read_object(line: str, where: str) -> Mapping[str, object]:
    """Return the JSON object of one line.

    Raises
    ------
    DataError
        Where it is none, or names a field twice.
    """
    try:
        value = json.loads(line, object_pairs_hook=_without_repeats)
    except RecursionError as error:
        raise DataError("the line is nested too deep", where) from error
    except ValueError as error:
        raise DataError(
            f"the line is not valid JSON: {error}", where, "Write one JSON object a line"
        ) from error
    if not isinstance(value, dict):
        raise DataError("the line is no JSON object", where, "Write one JSON object a line")
    return value


def _without_repeats(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a field is named twice")
    return found


def _item(fields: Mapping[str, object], where: str) -> tuple[Item, dict[str, str]]:
    called: dict[str, str] = {}
    for role, names in NAMES.items():
        there = [name for name in names if name in fields]
        # A name that is exact wins; two that could be meant are the user's to settle.
        if role in there:
            there = [role]
        if len(there) > 1:
            raise DataError(
                f"{' and '.join(there)} could both be the {role}", where, f"Call one {role!r}"
            )
        if not there and role not in OPTIONAL:
            raise DataError(
                f"there is no {role}", where, f"Add a field {role!r} (or {', '.join(names[1:])})"
            )
        if there:
            called[role] = there[0]
    values = {role: _label(fields[name], name, where) for role, name in called.items()}
    for role in ("scenario", "backbone", "generation", "language"):
        if values.get(role) == "":
            raise DataError(f"the {role} is empty", where, "Give it a label")
    others = [name for name in fields if name not in called.values()]
    taken = [name for name in others if name in TAKEN]
    if taken:
        raise DataError(
            f"the score table has a column {taken[0]!r} of its own", where, "Rename the field"
        )
    item = Item(
        scenario=values["scenario"],
        backbone=values["backbone"],
        prompt=values["prompt"],
        response=values["response"],
        generation=values.get("generation"),
        language=values.get("language"),
        facets=tuple((name, _label(fields[name], name, where)) for name in others),
    )
    return item, called


def _label(value: object, name: str, where: str) -> str:
    if isinstance(value, str):
        if "\0" in value:
            raise DataError(f"{name!r} holds a NUL", where, "Take it out")
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    raise DataError(
        f"{name!r} is {_kind(value)}, not text", where, "Write text or a whole number, or leave out"
    )


def _kind(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true or false"
        case dict():
            return "an object"
        case list():
            return "a list"
    return "a fraction"


def _check_alike(items: list[Item], source: str) -> None:
    """Refuse a table whose rows would have different columns."""
    for what, labels in (
        ("a generation", [item.generation for item in items]),
        ("a language", [item.language for item in items]),
    ):
        without = labels.count(None)
        if 0 < without < len(items):
            raise DataError(
                f"{without} of {len(items)} answers lack {what}", source, "Give it to all or none"
            )
    names = {name for item in items for name, _ in item.facets}
    for name in sorted(names):
        without = sum(name not in dict(item.facets) for item in items)
        if without:
            raise DataError(
                f"{without} of {len(items)} answers lack {name!r}", source, "Give it to all or none"
            )
