"""The version that is installed."""

from __future__ import annotations

from importlib import metadata


def version() -> str:
    """Return the installed version of bayesjudge."""
    return metadata.version("bayesjudge")
