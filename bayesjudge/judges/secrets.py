"""Keys of the environment, which are written nowhere."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping

_NAMES = re.compile(r"(?i)(key|token|secret|password|credentials?)s?$")
_SHORTEST = 8
HIDDEN = "[key]"


def keys_of(environment: Mapping[str, str] = os.environ) -> tuple[str, ...]:
    """Return values that must not be shown: of variables whose names end as keys' do.

    The longest come first, so that a key within a longer one leaves nothing of it.
    Values of fewer than eight characters are no keys, and would hide common words.
    """
    found = {v for n, v in environment.items() if _NAMES.search(n) and len(v) >= _SHORTEST}
    return tuple(sorted(found, key=lambda value: (-len(value), value)))


def hide(text: str, keys: Iterable[str]) -> str:
    """Return the text with every key in it replaced."""
    for key in keys:
        text = text.replace(key, HIDDEN)
    return text


def hide_within(value: object, keys: Iterable[str]) -> object:
    """Return lists and dicts with every key in their texts replaced; the value itself if none."""
    known = tuple(keys)
    if not any(key in repr(value) for key in known):
        return value
    match value:
        case str():
            return hide(value, known)
        case dict():
            return {hide_within(k, known): hide_within(v, known) for k, v in value.items()}
        case list():
            return [hide_within(part, known) for part in value]
        case tuple():
            return tuple(hide_within(part, known) for part in value)
    return value


def hide_in_error(error: BaseException, keys: Iterable[str]) -> None:
    """Replace keys in what an error and its causes say, in place."""
    known = tuple(keys)
    at: BaseException | None = error
    seen: set[int] = set()
    while at is not None and id(at) not in seen:
        seen.add(id(at))
        at.args = tuple(hide_within(part, known) for part in at.args)
        for name in ("message", "body"):
            if hasattr(at, name):
                setattr(at, name, hide_within(getattr(at, name), known))
        at = at.__cause__ or at.__context__
