"""Results as JSON that any parser takes: no NaN, no infinity, no lone surrogate."""

from __future__ import annotations

import dataclasses
import json
import math
import re
import sys
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

import numpy as np

_SURROGATE = re.compile("[\ud800-\udfff]")


def to_json(obj: object, indent: int | None = None) -> str:
    r"""Return the object as one JSON text (RFC 8259).

    Parameters
    ----------
    obj : object
        None, bool, int, float, str, path, mapping, list or tuple, dataclass,
        numpy scalar or array, pandas frame (a list of rows without the index) or
        series (a list), nested as you like.
    indent : int or None
        Spaces a level; None gives one line.

    Returns
    -------
    str
        NaN and infinities, ``pandas.NA`` and ``NaT`` are null. Text is UTF-8
        as it is; lone surrogates are ``\udXXX`` escapes, so that it can be
        encoded.

    Raises
    ------
    TypeError
        Where the object holds something that has no form in JSON.
    """
    text = json.dumps(plain(obj), ensure_ascii=False, allow_nan=False, indent=indent)
    return _SURROGATE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def plain(obj: object) -> Any:
    """Return the object as dicts, lists, str, int, float, bool and None only.

    Parameters
    ----------
    obj : object
        As in `to_json`.

    Returns
    -------
    object
        Ready for `json.dumps`; keys are str.

    Raises
    ------
    TypeError
        As in `to_json`.
    """
    if obj is None or isinstance(obj, bool | str | int):
        return obj
    if isinstance(obj, float):
        return float(obj) if math.isfinite(obj) else None
    if isinstance(obj, np.generic):
        return plain(obj.item())
    if isinstance(obj, np.ndarray):
        return plain(obj.tolist())
    if isinstance(obj, Mapping):
        return {_key(key): plain(value) for key, value in obj.items()}
    if isinstance(obj, list | tuple):
        return [plain(value) for value in obj]
    if dataclasses.is_dataclass(obj) and not isinstance(obj, type):
        return {f.name: plain(getattr(obj, f.name)) for f in dataclasses.fields(obj)}
    if isinstance(obj, PurePath):
        return str(obj)
    return _plain_pandas(obj)


def _plain_pandas(obj: object) -> Any:
    # A pandas object cannot exist before pandas is loaded; so it is not loaded here.
    pandas = sys.modules.get("pandas")
    if pandas is not None:
        if obj is pandas.NA or obj is pandas.NaT:
            return None
        if isinstance(obj, pandas.DataFrame):
            names = [_key(name) for name in obj.columns]
            if len(set(names)) < len(names):
                raise TypeError("two columns of a frame have the same name")
            columns = [plain(obj.iloc[:, at].tolist()) for at in range(len(names))]
            return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
        if isinstance(obj, pandas.Series):
            return plain(obj.tolist())
    raise TypeError(f"{type(obj).__name__} has no form in JSON")


def _key(key: object) -> str:
    if isinstance(key, str):
        return key
    if isinstance(key, int | np.integer) and not isinstance(key, bool):
        return str(int(key))
    raise TypeError(f"a {type(key).__name__} cannot be a key in JSON")
