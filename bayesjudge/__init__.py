"""Leaderboards from LLM judges that say how sure they are.

>>> import bayesjudge as bj
>>> scores = bj.read_scores("scores.csv")  # doctest: +SKIP
>>> fit = bj.fit(scores)  # doctest: +SKIP
>>> fit.leaderboard()  # doctest: +SKIP
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bayesjudge.cross_validating import Comparison, compare
    from bayesjudge.decomposing import Anova, anova
    from bayesjudge.errors import BayesjudgeError, DataError, ModelError, UsageError
    from bayesjudge.fitted import Fit, load
    from bayesjudge.fitting import fit
    from bayesjudge.scores import Scores, read_scores, scan, split_by
    from bayesjudge.simulation import simulate
    from bayesjudge.spec import ModelSpec, read_model, shipped_models

_HOMES = {
    "Anova": "decomposing",
    "BayesjudgeError": "errors",
    "Comparison": "cross_validating",
    "DataError": "errors",
    "Fit": "fitted",
    "ModelError": "errors",
    "ModelSpec": "spec",
    "Scores": "scores",
    "UsageError": "errors",
    "anova": "decomposing",
    "compare": "cross_validating",
    "fit": "fitting",
    "load": "fitted",
    "read_model": "spec",
    "read_scores": "scores",
    "scan": "scores",
    "shipped_models": "spec",
    "simulate": "simulation",
    "split_by": "scores",
}

__all__ = [
    "Anova",
    "BayesjudgeError",
    "Comparison",
    "DataError",
    "Fit",
    "ModelError",
    "ModelSpec",
    "Scores",
    "UsageError",
    "anova",
    "compare",
    "fit",
    "load",
    "read_model",
    "read_scores",
    "scan",
    "shipped_models",
    "simulate",
    "split_by",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return importlib.import_module("bayesjudge.version").version()
    if name not in _HOMES:
        raise AttributeError(f"module 'bayesjudge' has no attribute {name!r}")
    return getattr(importlib.import_module(f"bayesjudge.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
