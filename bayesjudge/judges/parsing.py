"""What a judge's reply says: a score, a verdict, a translation, or why there is none.

A reply that cannot be read is a missing score, never a zero and never a vote. The verdict
comes before the reason, so a reply that was cut off inside its reason is still read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from bayesjudge.judges.calls import Reply
from bayesjudge.judges.prompts import allowed_scores

_SHOWN = 60


@dataclass(frozen=True)
class Judgment:
    """A score that a reply gives.

    Attributes
    ----------
    score : float or None
        None where the reply gives none that is allowed.
    parse_ok : bool
        Whether there is a score.
    reason : str or None
        Why there is none.
    rationale : str or None
        The judge's reason, as far as it came.
    truncated : bool
        Whether the JSON of the reply was cut off.
    """

    score: float | None
    parse_ok: bool
    reason: str | None
    rationale: str | None
    truncated: bool


@dataclass(frozen=True)
class Verdict:
    """Whether a reply calls the answer correct; attributes as of `Judgment`."""

    correct: bool | None
    parse_ok: bool
    reason: str | None
    rationale: str | None
    truncated: bool


def read_judgment(reply: Reply, scale: tuple[int, int]) -> Judgment:
    """Return the score that a reply to `pointwise_call` gives.

    Parameters
    ----------
    reply : Reply
    scale : (int, int)
        Lowest and highest score allowed.

    Raises
    ------
    UsageError
        Where the scale has no two scores.
    """
    allowed = allowed_scores(scale)

    def read(value: object) -> float:
        number = _number(value)
        if number is None or number not in allowed:
            raise _UnreadError(
                f"the score {_short(value)} is no whole number from {allowed[0]} to {allowed[-1]}"
            )
        return float(number)

    value, reason, rationale, truncated = _read(reply, "score", read)
    return Judgment(value, value is not None, reason, rationale, truncated)


def read_verdict(reply: Reply) -> Verdict:
    """Return whether a reply to `verdict_call` calls the answer correct."""

    def read(value: object) -> bool:
        word = value.strip().casefold() if isinstance(value, str) else value
        if word is True or word == "true":
            return True
        if word is False or word == "false":
            return False
        raise _UnreadError(f"the verdict {_short(value)} is neither true nor false")

    value, reason, rationale, truncated = _read(reply, "correct", read)
    return Verdict(value, value is not None, reason, rationale, truncated)


def read_translation(reply: Reply, names: Iterable[str]) -> tuple[dict[str, str] | None, str]:
    """Return the translated texts by name, or None and why there are none.

    Parameters
    ----------
    reply : Reply
        To `translate_call`.
    names : iterable of str
        The names that were sent; each must come back with a text that is not blank.
    """
    wanted = tuple(names)
    try:
        found = _objects(_text(reply))
    except _UnreadError as error:
        return None, str(error)
    complete = [one for one in found if all(name in one for name in wanted)]
    if not complete:
        return None, "the translation is no JSON object with the keys that were sent"
    texts = complete[-1]
    for name in wanted:
        if not isinstance(texts[name], str) or not texts[name].strip():
            return None, f'the translation of "{name}" is no text'
    return {name: _clean(texts[name]) for name in wanted}, ""


class _UnreadError(Exception):
    """Why a reply gives nothing, and whether it was cut off."""

    def __init__(self, reason: str, truncated: bool = False) -> None:
        super().__init__(reason)
        self.truncated = truncated


def _read[T](
    reply: Reply, key: str, read: Callable[[object], T]
) -> tuple[T | None, str | None, str | None, bool]:
    """Return value, reason for none, rationale, and whether the JSON was cut off."""
    try:
        found, truncated = _located(reply, key)
    except _UnreadError as error:
        return None, str(error), None, error.truncated
    said = found[-1].get("rationale")
    rationale = _clean(said) if isinstance(said, str) else None
    try:
        values = {read(one[key]) for one in found}
    except _UnreadError as error:
        return None, str(error), rationale, truncated
    if len(values) > 1:
        return None, f'the reply gives different values of "{key}"', rationale, truncated
    return values.pop(), None, rationale, truncated


def _located(reply: Reply, key: str) -> tuple[list[dict[str, Any]], bool]:
    """Return the objects with the key, and whether all there is is a beginning of one."""
    text = _text(reply)
    whole = [one for one in _objects(text) if key in one]
    if whole:
        return whole, False
    begun = _beginning(text, key)
    if begun is not None:
        return [begun], True
    truncated = _unfinished(text)
    raise _UnreadError(_why_nothing(text, key, truncated), truncated)


def _text(reply: Reply) -> str:
    """Return what the reply says after any thinking aloud."""
    if reply.error is not None:
        raise _UnreadError(f"the call failed: {reply.error}")
    text = (reply.text or "").rpartition("</think>")[2].strip()
    if not text:
        cause = f" ({reply.stop_reason})" if reply.stop_reason not in (None, "stop") else ""
        raise _UnreadError(f"the reply is empty{cause}")
    return text


def _objects(text: str) -> list[dict[str, Any]]:
    """Return the whole JSON objects of a text, outermost only, keys in lower case."""
    decoder = json.JSONDecoder(object_pairs_hook=_pairs, strict=False)
    found = []
    at = text.find("{")
    while at >= 0:
        try:
            one, end = decoder.raw_decode(text, at)
        except RecursionError:
            break
        except json.JSONDecodeError as error:
            if error.pos >= len(text) or error.msg.startswith("Unterminated string"):
                # It runs to the end: nothing after its beginning is outermost.
                break
            end = at + 1
        else:
            found.append(one)
        at = text.find("{", end)
    return found


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a dict of pairs; one key with two values holds neither."""
    found: dict[str, Any] = {}
    for name, value in pairs:
        key = name.strip().casefold()
        found[key] = value if key not in found or found[key] == value else _Twice()
    return found


class _Twice:
    """Stands for a key that was given twice with different values."""

    def __repr__(self) -> str:
        return "given twice"


def _beginning(text: str, key: str) -> dict[str, Any] | None:
    """Return value and rationale of an object that was cut off after its value.

    The value counts only with what follows it: of a bare 1 nobody knows whether it
    was to become 10.
    """
    start = re.compile(rf'\{{\s*"{key}"\s*:\s*(?=\S)', re.IGNORECASE)
    begun = [match.end() for match in start.finditer(text)]
    if not begun:
        return None
    try:
        value, end = json.JSONDecoder().raw_decode(text, begun[-1])
    except (ValueError, RecursionError):
        return None
    rest = re.match(r'\s*,(?:\s*"rationale"\s*:\s*"(?P<said>.*))?', text[end:], re.DOTALL)
    if rest is None:
        return None
    said = rest["said"]
    return {key: value, "rationale": None if said is None else _cut_string(said)}


def _cut_string(said: str) -> str:
    """Return a JSON string's text whose end is missing."""
    whole = re.match(r'(?:[^"\\]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*', said, re.DOTALL)
    text = whole[0] if whole else ""
    return str(json.JSONDecoder(strict=False).decode(f'"{text}"'))


def _unfinished(text: str) -> bool:
    """Whether a text begins an object that it does not end."""
    return "{" in text and text.count("{") > text.count("}")


def _why_nothing(text: str, key: str, truncated: bool) -> str:
    if truncated:
        return f'the reply was cut off before the value of "{key}" was whole'
    if "{" in text:
        return f'the reply has no JSON object with the key "{key}"'
    return f"the reply has no JSON object: {_short(text)}"


def _number(value: object) -> int | None:
    """Return a whole number given as one, as a float, or as text; booleans are none."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    if isinstance(value, float):
        return int(value) if value.is_integer() else None
    if isinstance(value, str) and re.fullmatch(r"\s*[-+]?\d{1,9}\s*", value):
        return int(value)
    return None


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def _clean(text: str) -> str:
    """Return text that can be written anywhere: no NUL, no halves of characters."""
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode("utf-8")
