"""NumPyro's family engine broken on purpose, which simulation-based calibration must catch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import numpy as np
from numpyro.infer.util import log_density

from bayesjudge.engines.families import Program
from bayesjudge.engines.protocol import Draws
from bayesjudge.resolution import Resolved
from bayesjudge.simulation import simulate_scores
from tests.calibration import side_by_side
from tests.calibration.family_sbc import Sampler
from tests.calibration.ranked import truths_as_draws
from tests.calibration.side_by_side import Effort, sample_tables


def scales_too_wide(tables: Sequence[Resolved], effort: Effort) -> list[Draws]:
    """Return the engine's draws, every sd 1.3 times what it is."""
    return widened(sample_tables(tables, effort))


def widened(draws: Sequence[Draws]) -> list[Draws]:
    """Return draws of which every sd is 1.3 times what it was, the effects as they were."""
    return [
        replace(one, scales={name: 1.3 * sd for name, sd in one.scales.items()}) for one in draws
    ]


def no_jacobian(tables: Sequence[Resolved], effort: Effort) -> list[Draws]:
    """Sample logarithms of scales under the density of the scales themselves."""
    with patch.object(side_by_side, "potential_of", _without_jacobian):
        return sample_tables(tables, effort)


def _without_jacobian(program: Program, q: Any) -> Any:
    values = {n: program.transforms[n](value) for n, value in program.unpack(q).items()}
    return -log_density(program.model, (), {}, values)[0]


def prior_only(tables: Sequence[Resolved], effort: Effort) -> list[Draws]:
    """Return draws from the prior: every marginal rank is uniform."""
    rng = np.random.default_rng(5)
    return [
        truths_as_draws(table, [simulate_scores(table, rng)[1] for _ in range(effort.draws)])
        for table in tables
    ]


BROKEN: dict[str, tuple[str, Sampler]] = {
    "scales too wide": ("verdict", scales_too_wide),
    "no jacobian": ("verdict", no_jacobian),
    "prior only": ("verdict", prior_only),
}
