"""Inspect logs that only Inspect itself can read, through ``inspect-ai`` where it is installed."""

from __future__ import annotations

import importlib.util
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bayesjudge.errors import DataError


def read_with_inspect(path: Path, why: str) -> Mapping[str, Any]:
    """Return a log as Inspect's own reader makes it: its header's fields and its samples.

    Parameters
    ----------
    why : str
        Why this reader could not do it, for the message.

    Raises
    ------
    DataError
        Where inspect-ai is not installed, or cannot read the log either.
    """
    if importlib.util.find_spec("inspect_ai") is None:
        raise DataError(
            f"the log can be read by Inspect itself only: {why}",
            str(path),
            "Install inspect-ai beside bayesjudge (pip install inspect-ai)",
        )
    from inspect_ai.log import read_eval_log

    try:
        log = read_eval_log(str(path))
    except (OSError, ValueError, TypeError, LookupError, RuntimeError, zipfile.BadZipFile) as error:
        raise DataError(
            f"Inspect's own reader cannot read the log either: {type(error).__name__}",
            str(path),
            f"Copy it again, or update inspect-ai; {why}",
        ) from error
    wanted = {"version", "status", "eval", "results", "samples"}
    return log.model_dump(mode="python", include=wanted)
