"""What ``--prior`` does: a model with one prior replaced."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from bayesjudge.errors import ModelError
from bayesjudge.spec.model import (
    CHANCE_PRIORS,
    DEGREES_PRIORS,
    FLAT_SCALE,
    LOCATION_PRIORS,
    SCALE_PRIORS,
    SPREAD_PRIORS,
    ModelSpec,
    Prior,
    Scale,
)
from bayesjudge.spec.parsing import parse_prior


def override_prior(spec: ModelSpec, text: str) -> ModelSpec:
    """Return the model with one prior replaced, as ``--prior`` writes it.

    ``judge.scale=half_normal:0.5`` replaces a term's scale; a by-scale's parts
    are ``generation.scale.center`` and ``generation.scale.spread``;
    ``residual.scale...`` and ``intercept=normal:2`` likewise, and where the model
    has them ``degrees_of_freedom=gamma:2,0.1``, ``thresholds.deviation=half_normal:1``
    and the slope of a covariate, ``nll.slope=normal:0.5``.

    Raises
    ------
    ModelError
        Where the text has another form or names no prior of the model.
    """
    target, _, value = text.partition("=")
    parts = target.strip().split(".")
    where = f"--prior {text}"
    prior_text = value.strip()
    if not prior_text:
        raise ModelError(
            "a prior override needs the form TERM.scale=DISTRIBUTION:NUMBER",
            where,
            "For example --prior judge.scale=half_normal:0.5",
        )
    overrides = (*spec.overrides, text.strip())
    if parts == ["intercept"] and spec.intercept is not None:
        prior = _prior_from_text(prior_text, LOCATION_PRIORS, where)
        return replace(spec, intercept=prior, overrides=overrides)
    other = _override_other(spec, parts, prior_text, where)
    if other is not None:
        return replace(other, overrides=overrides)
    if len(parts) < 2 or parts[1] != "scale" or parts[2:] not in ([], ["center"], ["spread"]):
        raise ModelError(
            f"{target.strip()!r} names no prior of model {spec.name!r}",
            where,
            "Write TERM.scale, TERM.scale.center, TERM.scale.spread, residual.scale or intercept",
        )
    if parts[0] == "residual":
        if spec.residual is None:
            raise ModelError(f"family {spec.family!r} has no residual scale", where)
        residual = _override_scale(spec.residual, parts[2:], prior_text, where)
        return replace(spec, residual=residual, overrides=overrides)
    try:
        term = spec.term(parts[0])
    except ModelError as error:
        raise ModelError(error.what, where, error.remedy) from error
    changed = replace(term, scale=_override_scale(term.scale, parts[2:], prior_text, where))
    terms = tuple(changed if t is term else t for t in spec.terms)
    return replace(spec, terms=terms, overrides=overrides)


def _override_other(spec: ModelSpec, parts: list[str], text: str, where: str) -> ModelSpec | None:
    """Replace a prior that only some models have; None where the name is not one of those."""
    if parts == ["degrees_of_freedom"] and spec.degrees_of_freedom is not None:
        prior = _prior_from_text(text, DEGREES_PRIORS, where)
        return replace(spec, degrees_of_freedom=prior)
    thresholds = spec.thresholds
    if parts == ["thresholds", "deviation"] and thresholds is not None and thresholds.by:
        prior = _prior_from_text(text, SPREAD_PRIORS, where)
        return replace(spec, thresholds=replace(thresholds, deviation=prior))
    if parts == ["discrimination", "spread"] and spec.discrimination is not None:
        prior = _prior_from_text(text, SPREAD_PRIORS, where)
        return replace(spec, discrimination=replace(spec.discrimination, spread=prior))
    if parts == ["ties"] and spec.ties is not None:
        return replace(spec, ties=_prior_from_text(text, CHANCE_PRIORS, where))
    if len(parts) == 2 and parts[1] == "slope":
        named = [c for c in spec.covariates if c.column == parts[0]]
        if named:
            prior = _prior_from_text(text, LOCATION_PRIORS, where)
            changed = tuple(replace(c, prior=prior) if c in named else c for c in spec.covariates)
            return replace(spec, covariates=changed)
    return None


def _override_scale(scale: Scale, part: list[str], text: str, where: str) -> Scale:
    if part == ["spread"]:
        if scale.by is None:
            raise ModelError("this scale has no spread: it has one value for all levels", where)
        return replace(scale, spread=_prior_from_text(text, SPREAD_PRIORS, where))
    if part == [] and scale.by is not None:
        raise ModelError(
            f"this scale has a value for every {scale.by}",
            where,
            "Write .scale.center or .scale.spread",
        )
    if text == "flat":
        return Scale(Prior("fixed", (FLAT_SCALE,)))
    return replace(scale, center=_prior_from_text(text, SCALE_PRIORS, where))


def _prior_from_text(text: str, allowed: Mapping[str, int], where: str) -> Prior:
    name, _, numbers = text.partition(":")
    try:
        values = [float(n) for n in numbers.split(",")] if numbers else []
    except ValueError as error:
        raise ModelError(f"{numbers!r} is not a list of numbers", where) from error
    return parse_prior(
        {name: values[0] if len(values) == 1 else values}, allowed, where, "the prior"
    )
