"""Engines: one model description, several ways to its posterior. Loaded on demand."""

from __future__ import annotations

import importlib

from bayesjudge.engines.protocol import Draws, Engine, Settings
from bayesjudge.errors import UsageError

ENGINES = ("exact", "numpyro")

__all__ = ["ENGINES", "Draws", "Engine", "Settings", "choose_engine", "load_engine"]


def choose_engine(name: str, family: str) -> str:
    """Return the engine for ``auto`` (exact for gaussian models), else the one named.

    Raises
    ------
    UsageError
        For a name that is no engine.
    """
    if name == "auto":
        return "exact" if family == "gaussian" else "numpyro"
    if name not in ENGINES:
        raise UsageError(
            f"there is no engine {name!r}", remedy=f"Choose auto, {' or '.join(ENGINES)}"
        )
    return name


def load_engine(name: str) -> Engine:
    """Import an engine; JAX is loaded only here."""
    engine: Engine = importlib.import_module(f"bayesjudge.engines.{name}").sample
    return engine
