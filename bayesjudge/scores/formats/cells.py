"""Values of a log read as cells of the score table."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping

from bayesjudge.scores.checking import parse_number
from bayesjudge.scores.formats.findings import Cell
from bayesjudge.scores.raw import is_valid_text

MOST_OF_LABEL = 200
"""Longer texts are labelled by their beginning and a hash of the whole."""

MOST_OF_FAILURE = 120
SHORT = 64
"""Longer texts among a record's own fields are content, no labels, and are not carried along."""


class Unreadable(ValueError):  # noqa: N818
    """A record, or a part of one, that is not what its format says."""


def label(value: object, what: str) -> str:
    """Write a scalar as a label.

    Raises
    ------
    Unreadable
        Where it is missing, no scalar, or no valid text.
    """
    found = optional_label(value, what)
    if found is None:
        raise Unreadable(f"no {what}")
    return found


def optional_label(value: object, what: str) -> str | None:
    """Write a scalar as a label, None where there is none.

    Raises
    ------
    Unreadable
        Where it is no scalar, or no valid text.
    """
    if value is None or value != value:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return _digits(value)
    if not isinstance(value, str):
        raise Unreadable(f"{what} is {kind_of(value)}")
    if not is_valid_text(value):
        raise Unreadable(f"{what} holds a NUL or is not valid Unicode text")
    return value


def text_label(value: object, what: str) -> str | None:
    """Label a text that may be long, or a nested value, so that equal ones share a label.

    Raises
    ------
    Unreadable
        Where it is no valid text.
    """
    if isinstance(value, Mapping) and len(value) == 1:
        (only,) = value.values()
        value = only if isinstance(only, str) else value
    if isinstance(value, Mapping | list):
        value = json.dumps(value, ensure_ascii=False, sort_keys=True)
    found = optional_label(value, what)
    if found is None or len(found) <= MOST_OF_LABEL:
        return found
    digest = hashlib.sha256(found.encode()).hexdigest()[:12]
    return f"{found[:MOST_OF_LABEL]}… #{digest}"


def mapping(value: object, what: str) -> Mapping[str, object]:
    """Return a JSON object.

    Raises
    ------
    Unreadable
        Where it is none.
    """
    if isinstance(value, Mapping):
        return value
    raise Unreadable(f"no {what}" if value is None else f"{what} is {kind_of(value)}")


def maybe(value: object) -> Mapping[str, object]:
    """Return a JSON object, or an empty one in place of anything else."""
    return value if isinstance(value, Mapping) else {}


def many(value: object) -> list[object]:
    """Return a JSON array, or an empty one in place of anything else."""
    return value if isinstance(value, list) else []


def name_of(value: object) -> str | None:
    """Return a non-empty text that can be a label, or None in place of anything else."""
    return value if isinstance(value, str) and value and is_valid_text(value) else None


def number(value: object) -> float | None:
    """Read a finite number, or a truth value as 1 and 0; None in place of anything else."""
    if isinstance(value, str | bool | int | float):
        found = parse_number(value)
        return found if math.isfinite(found) else None
    return None


def scored(value: object, unread: str = "no value") -> dict[str, Cell]:
    """Return the cells of a numeric score: ``score``, or ``failure`` and no score."""
    found = number(value)
    if found is not None:
        return {"score": found}
    return failed(unread if value is None else f"no number: {shown(value)}")


def failed(why: str) -> dict[str, Cell]:
    """Return the cells of a score that is not there."""
    return {"score": None, "failure": first_line(why)}


def first_line(text: object) -> str:
    """Return the first line of a message, cut and made valid text."""
    lines = str(text).replace("\0", " ").strip().splitlines() or ["no reason given"]
    line = lines[0].encode(errors="replace").decode()
    return line if len(line) <= MOST_OF_FAILURE else line[: MOST_OF_FAILURE - 1] + "…"


def shown(value: object) -> str:
    """Return a value for a message, cut short."""
    if isinstance(value, Mapping | list):
        return kind_of(value)
    text = _digits(value) if isinstance(value, int | float) else ascii(value)
    return text if len(text) <= 40 else text[:39] + "…"


def kind_of(value: object) -> str:
    """Name the JSON type of a value."""
    if isinstance(value, bool):
        return "a truth value"
    names = {str: "text", int: "a number", float: "a number", list: "a list", dict: "a mapping"}
    return names.get(type(value), "missing" if value is None else type(value).__name__)


def own_fields(fields: object, prefix: str, own: tuple[str, ...] = ()) -> dict[str, Cell]:
    """Carry a record's own short scalar fields along, as columns of their own.

    Parameters
    ----------
    fields : object
        A JSON object; anything else carries nothing.
    prefix : str
        Put before the names, so that none is taken for a role unasked.
    own : tuple of str
        Names that keep their meaning without the prefix.
    """
    found: dict[str, Cell] = {}
    for name, value in maybe(fields).items():
        if not isinstance(value, str | int | float) or name_of(name) is None:
            continue
        text = optional_text(value)
        if text is not None and len(text) <= SHORT and "\n" not in text:
            found[name if name in own else f"{prefix}.{name}"] = text
    return found


def optional_text(value: object) -> str | None:
    """Write a scalar as text, None where that is no valid label."""
    try:
        return optional_label(value, "")
    except Unreadable:
        return None


def _digits(value: float) -> str:
    try:
        return str(value)
    except ValueError:
        # Python writes no whole number of more than some 4,300 digits in base ten.
        return hex(int(value))
