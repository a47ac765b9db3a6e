"""Engines: one model description, several ways to its posterior. Loaded on demand."""

from __future__ import annotations

import importlib

from bayesjudge.engines.protocol import Draws, Engine, Settings
from bayesjudge.errors import UsageError

ENGINES = ("exact", "laplace", "numpyro", "pymc")

# Engines that need an extra of the package.
_EXTRAS = ("pymc",)

__all__ = ["ENGINES", "Draws", "Engine", "Settings", "choose_engine", "load_engine"]


def choose_engine(name: str, linear: bool, integrate: bool = True) -> str:
    """Return the engine for ``auto``, else the one named.

    ``auto`` is exact for a linear gaussian model, unless every effect is to be sampled.

    Raises
    ------
    UsageError
        For a name that is no engine, or one that cannot sample every effect.
    """
    if name == "auto":
        return "exact" if linear and integrate else "numpyro"
    if name in ("exact", "laplace") and not integrate:
        raise UsageError(
            f"the {name} engine integrates effects out", "integrate=False", "Use engine='numpyro'"
        )
    if name not in ENGINES:
        raise UsageError(
            f"there is no engine {name!r}",
            remedy=f"Choose auto, {', '.join(ENGINES[:-1])} or {ENGINES[-1]}",
        )
    return name


def load_engine(name: str) -> Engine:
    """Import an engine; JAX or PyMC is loaded only here.

    Raises
    ------
    UsageError
        Where the engine's extra is not installed.
    """
    try:
        module = importlib.import_module(f"bayesjudge.engines.{name}")
    except ModuleNotFoundError as error:
        if name not in _EXTRAS:
            raise
        raise UsageError(
            f"the {name} engine needs a package that is not installed: {error.name}",
            f"engine {name}",
            f"Install bayesjudge[{name}], or use another engine",
        ) from error
    engine: Engine = module.sample
    return engine
