"""The model as data: TOML files in, frozen :class:`ModelSpec` out."""

from bayesjudge.spec.files import models_folder, read_model, shipped_models
from bayesjudge.spec.model import (
    Covariate,
    Discrimination,
    ModelSpec,
    Prior,
    Scale,
    Term,
    Thresholds,
)
from bayesjudge.spec.overriding import override_prior
from bayesjudge.spec.parsing import parse_model
from bayesjudge.spec.scaling import scale_priors

__all__ = [
    "Covariate",
    "Discrimination",
    "ModelSpec",
    "Prior",
    "Scale",
    "Term",
    "Thresholds",
    "models_folder",
    "override_prior",
    "parse_model",
    "read_model",
    "scale_priors",
    "shipped_models",
]
