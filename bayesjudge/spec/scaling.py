"""The model with every prior of a standard deviation made wider or narrower."""

from __future__ import annotations

import math
from dataclasses import replace

from bayesjudge.spec.model import ModelSpec, Prior, Scale


def scale_priors(spec: ModelSpec, factor: float) -> ModelSpec:
    """Return the model with the priors of all scales times a factor (STATISTICS section 2).

    Those of terms, of the residual and of judges' thresholds. What a scale is
    fixed at, ``flat`` included, stays: that is no prior. So do the spread of scales
    by a facet and of discrimination, which are ratios, and the priors of intercept,
    slopes, ties and degrees of freedom, which are of no scale.
    """
    told = f"all scales x {factor:g}"
    residual, thresholds = spec.residual, spec.thresholds
    if thresholds is not None and thresholds.deviation is not None:
        thresholds = replace(thresholds, deviation=_times(thresholds.deviation, factor))
    return replace(
        spec,
        terms=tuple(replace(term, scale=_wider(term.scale, factor)) for term in spec.terms),
        residual=None if residual is None else _wider(residual, factor),
        thresholds=thresholds,
        overrides=(*spec.overrides, told),
    )


def _wider(scale: Scale, factor: float) -> Scale:
    return replace(scale, center=_times(scale.center, factor))


def _times(prior: Prior, factor: float) -> Prior:
    numbers = prior.parameters
    if prior.distribution == "half_normal":
        return replace(prior, parameters=(numbers[0] * factor,))
    if prior.distribution == "lognormal":
        return replace(prior, parameters=(numbers[0] + math.log(factor), *numbers[1:]))
    return prior
