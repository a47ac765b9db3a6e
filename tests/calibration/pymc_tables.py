"""The PyMC engine on many tables of one shape: its model compiled once, other scores put in.

The model, its transforms and what becomes of its samples are the engine's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import numpy as np

from bayesjudge.engines import pymc
from bayesjudge.engines.observations import Observations, observe
from bayesjudge.engines.protocol import Draws
from bayesjudge.engines.sampled import draws_of_samples
from bayesjudge.resolution import Resolved
from tests.calibration.side_by_side import TARGET_ACCEPT, Effort

_DATA = "scores_seen"


def sample_tables(tables: Sequence[Resolved], effort: Effort, seed: int = 0) -> list[Draws]:
    """Sample the posterior of each table as the PyMC engine does with nutpie, one chain each."""
    import nutpie

    model, names = shared_model(tables[0])
    compiled = nutpie.compile_pymc_model(model, var_names=names)
    draws = []
    for i, table in enumerate(tables):
        tree = nutpie.sample(
            compiled.with_data(**{_DATA: data_of(observe(table))}),
            draws=effort.draws * effort.thin,
            tune=effort.tune,
            chains=1,
            cores=1,
            seed=seed + i,
            target_accept=TARGET_ACCEPT,
            progress_bar=False,
        )
        found = tree["posterior"]
        samples = {
            n: np.asarray(found[n].transpose("chain", "draw", ...))[:, :: effort.thin]
            for n in names
        }
        samples |= pymc._packed(table, samples)
        stats = {"diverging": np.asarray(tree["sample_stats"]["diverging"])[:, :: effort.thin]}
        draws.append(draws_of_samples(table, samples, stats))
    return draws


def shared_model(base: Resolved) -> tuple[Any, list[str]]:
    """Return the engine's model on scores that can be replaced, and its sites of draws."""
    import pytensor

    seen = observe(base)
    shared = pytensor.shared(data_of(seen), name=_DATA)
    field = "successes" if base.spec.family == "bernoulli" else "score"
    with patch.object(pymc, "observe", lambda _: replace(seen, **{field: shared})):
        model = pymc.effects_model(base)
    left_out = (pymc._SCORES, _DATA)
    return model, [n for n in model.named_vars if not n.endswith("_z") and n not in left_out]


def data_of(seen: Observations) -> Any:
    """Return what differs between tables: verdicts that are 1, or scores."""
    return seen.score if seen.successes is None else seen.successes
