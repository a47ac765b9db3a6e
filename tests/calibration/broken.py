"""Engines broken on purpose, which simulation-based calibration must catch."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from unittest.mock import patch

import numpy as np

from bayesjudge.engines import Draws, Engine, Settings, coordinates, exact
from bayesjudge.resolution import RESIDUAL, Resolved
from bayesjudge.simulation import simulate_scores
from tests.calibration.sbc import N_RANKED, truth_as_draws

_one = coordinates._one


def scales_too_wide(resolved: Resolved, settings: Settings) -> Draws:
    """Return the exact engine's draws, every sd 1.3 times what it is."""
    draws = exact.sample(resolved, settings)
    return replace(draws, scales={name: 1.3 * sd for name, sd in draws.scales.items()})


def no_jacobian(resolved: Resolved, settings: Settings) -> Draws:
    """Sample logarithms of scales under the prior density of the scales themselves."""
    # That density need not have an integral: weights say so, and here must not be heard.
    with (
        patch.object(coordinates, "_one", _one_without_jacobian),
        patch.object(exact._Weighted, "fits", True),
    ):
        return exact.sample(resolved, settings)


def _one_without_jacobian(
    x: Any, slot: Any, prior: Any, frame: Any, xp: Any, about: Any = None
) -> Any:
    found = _one(x, slot, prior, frame, xp, about)
    if slot is None or prior.distribution != "half_normal":
        return found
    lost = xp.where(frame.logged[slot.start], xp.log(found.value), 0.0)
    return found._replace(density=found.density - lost)


def prior_only(resolved: Resolved, settings: Settings) -> Draws:
    """Return draws from the prior: every marginal rank is uniform."""
    rng = np.random.default_rng([5, settings.random_seed])
    drawn = truth_as_draws([simulate_scores(resolved, rng)[1] for _ in range(N_RANKED)])
    return replace(drawn, method="prior")


def effects_unconditioned(resolved: Resolved, settings: Settings) -> Draws:
    """Return the exact engine's scales, and effects drawn given them but not the scores."""
    draws = exact.sample(resolved, settings)
    step = draws.intercept.size // N_RANKED
    rng = np.random.default_rng([6, settings.random_seed])
    names = {f"{t.variable}_sd": t.name for t in resolved.terms} | {"sigma": RESIDUAL}
    flat = {key: sd.reshape(-1, *sd.shape[2:])[::step] for key, sd in draws.scales.items()}
    truths = [
        simulate_scores(resolved, rng, sd={names[key]: sd[i] for key, sd in flat.items()})[1]
        for i in range(N_RANKED)
    ]
    drawn = truth_as_draws(truths)
    hyper = {k: v.reshape(1, -1)[:, ::step][:, :N_RANKED] for k, v in draws.hyper.items()}
    return replace(drawn, hyper=hyper)


BROKEN: dict[str, Engine] = {
    "scales too wide": scales_too_wide,
    "no jacobian": no_jacobian,
    "prior only": prior_only,
    "effects unconditioned": effects_unconditioned,
}
