"""The NumPyro engine: NUTS, for any model and as a witness to the exact engine."""

from __future__ import annotations

from bayesjudge.engines import nuts
from bayesjudge.engines.families import sample_family
from bayesjudge.engines.family_model import family_model, lay_out
from bayesjudge.engines.nuts import effects_model, sample_unit_effects
from bayesjudge.engines.protocol import Draws, Settings
from bayesjudge.engines.scaled import sample_scaled
from bayesjudge.resolution import Resolved

__all__ = ["effects_model", "family_model", "lay_out", "sample", "sample_unit_effects"]


def sample(resolved: Resolved, settings: Settings) -> Draws:
    """Sample the posterior of any model; effects of gaussian ones are integrated out."""
    if resolved.spec.family != "gaussian" or resolved.covariates:
        return sample_family(resolved, settings)
    if resolved.discrimination is None:
        return nuts.sample(resolved, settings)
    draws = sample_scaled(resolved, settings) if settings.integrate else None
    return sample_family(resolved, settings) if draws is None else draws
