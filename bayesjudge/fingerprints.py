"""What a result rests on, as one hash: the same only where nothing of it has changed."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterator, Mapping

import numpy as np


def fingerprint(*parts: object) -> str:
    """Return the sha256 of values, their types and shapes.

    Parameters
    ----------
    parts : object
        None, bool, int, float, str, numpy arrays of numbers, dataclasses, mappings
        (in their order), tuples and lists of these.

    Raises
    ------
    TypeError
        For anything else: what is not looked at could change unseen.
    """
    digest = hashlib.sha256()
    for piece in _pieces(parts):
        digest.update(len(piece).to_bytes(8, "little"))
        digest.update(piece)
    return digest.hexdigest()


def _pieces(value: object) -> Iterator[bytes]:
    """Yield a value as bytes of which each is preceded by its kind."""
    if isinstance(value, np.generic):
        # Before float, of which one of its kinds is.
        yield from _pieces(value.item())
    elif value is None or isinstance(value, bool | int | float):
        yield f"{type(value).__name__} {value!r}".encode()
    elif isinstance(value, str):
        yield b"str"
        yield value.encode("utf-8", "surrogatepass")
    elif isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        yield f"array {value.dtype.str} {value.shape}".encode()
        yield np.ascontiguousarray(value).tobytes()
    elif isinstance(value, tuple | list):
        yield f"sequence {len(value)}".encode()
        for item in value:
            yield from _pieces(item)
    elif isinstance(value, Mapping):
        yield b"mapping"
        yield from _pieces([(key, item) for key, item in value.items()])
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        yield type(value).__name__.encode()
        fields = dataclasses.fields(value)
        yield from _pieces([(field.name, getattr(value, field.name)) for field in fields])
    else:
        raise TypeError(f"a {type(value).__name__} has no fingerprint")
