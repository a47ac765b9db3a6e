"""An engine's draws as a labelled posterior that knows its table, model and settings."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

from bayesjudge.engines import Settings, load_engine
from bayesjudge.engines.posterior import posterior_tree
from bayesjudge.resolution import Resolved
from bayesjudge.scores.lines import Table
from bayesjudge.spec import ModelSpec
from bayesjudge.storing import scores_to_dataset
from bayesjudge.version import version

if TYPE_CHECKING:
    import xarray as xr


def sampled_tree(
    resolved: Resolved,
    scores: Table,
    engine: str,
    settings: Settings,
    spec: ModelSpec | None = None,
) -> xr.DataTree:
    """Sample a model on a table and label what comes.

    Parameters
    ----------
    resolved : Resolved
        The model on ``scores``.
    engine : str
        Its name; ``auto`` is none.
    settings : Settings
    spec : ModelSpec, optional
        What is kept as the model: as it was given, before the table took anything out
        of it. By default that of ``resolved``.

    Returns
    -------
    DataTree
        Groups ``posterior``, ``sample_stats`` and ``constant_data``; metadata are one
        JSON string in the attribute ``bayesjudge``.
    """
    drawn = load_engine(engine)(resolved, settings)
    if settings.platform != "cpu" and engine != "numpyro":
        note = (
            f"the {engine} engine computes on the CPU: platform {settings.platform!r} "
            "changes nothing"
        )
        drawn = replace(drawn, notes=(*drawn.notes, note))
    tree = posterior_tree(resolved, drawn)
    scores_to_dataset(tree, spec or resolved.spec, scores)
    tree.attrs["bayesjudge"] = json.dumps(
        {
            "version": version(),
            "engine": engine,
            "method": drawn.method,
            "settings": asdict(settings),
            "unit": resolved.unit,
            "location": resolved.location,
            "seconds": drawn.seconds,
            "pass_seconds": drawn.pass_seconds,
            "notes": list(drawn.notes),
        }
    )
    return tree
