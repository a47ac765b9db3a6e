"""The NumPyro engine: NUTS, for any model and as a witness to the exact engine."""

from __future__ import annotations

from bayesjudge.engines.nuts import effects_model, sample, sample_unit_effects

__all__ = ["effects_model", "sample", "sample_unit_effects"]
