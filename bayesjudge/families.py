"""What a family needs of a table: its unit, its covariates, its thresholds."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bayesjudge.errors import DataError, ModelError
from bayesjudge.scores.lines import Table
from bayesjudge.scores.moments import Moments
from bayesjudge.scores.problems import Problem
from bayesjudge.scores.table import Facet, Scores
from bayesjudge.spec import ModelSpec, Prior

# Variances of smaller units, or of larger ones than its inverse, are no numbers.
_SMALLEST_UNIT = 1e-100


@dataclass(frozen=True, eq=False)
class ResolvedCovariate:
    """A covariate on this table.

    Attributes
    ----------
    name : str
    values : (N,) float array
        Centred at ``mean`` and divided by ``sd``.
    mean, sd : float
        Over the scores of the table, in the column's own unit.
    prior : Prior
        Of the slope, in units of u for one sd.
    """

    name: str
    values: NDArray[np.float64]
    mean: float
    sd: float
    prior: Prior


@dataclass(frozen=True, eq=False)
class ResolvedThresholds:
    """Cutpoints of a cumulative model that a facet's levels space in their own ways.

    Attributes
    ----------
    by : str
    labels : tuple of str
    codes : (N,) int array
        Level of each score.
    deviation : Prior
        Of the sd of the logs of distances.
    """

    by: str
    labels: tuple[str, ...]
    codes: NDArray[np.int64]
    deviation: Prior


@dataclass(frozen=True, eq=False)
class ResolvedDiscrimination:
    """Factors by which a facet's levels multiply what an answer is worth.

    Attributes
    ----------
    by : str
    labels : tuple of str
    codes : (N,) int array
        Level of each score.
    spread : Prior
        Of the sd of the logs of the factors, which sum to zero.
    """

    by: str
    labels: tuple[str, ...]
    codes: NDArray[np.int64]
    spread: Prior


@dataclass(frozen=True)
class Dropped:
    """A term of the model that this table cannot carry, and why."""

    name: str
    reason: str


def response_unit(score: NDArray[np.float64] | Moments, scale: tuple[float, float] | None) -> float:
    """Return u: a quarter of the scale, else the sd to one significant digit."""
    if scale is not None:
        return (scale[1] - scale[0]) / 4
    relative, largest = _relative_sd(score)
    if relative <= 1e-12:
        return 1.0
    sd = relative * largest
    return _round_to(sd, _leading_digit(sd))


def _relative_sd(score: NDArray[np.float64] | Moments) -> tuple[float, float]:
    """Return the sd as a share of the largest score's size, and that size."""
    if isinstance(score, Moments):
        n, largest = score.n_scores, float(np.abs([score.low, score.high]).max())
        if n < 2 or largest == 0.0:
            return 0.0, largest
        return math.sqrt(score.variance * n / (n - 1)) / largest, largest
    largest = float(np.max(np.abs(score)))
    if score.size < 2 or largest == 0.0:
        return 0.0, largest
    # Of scores near one, so that squares are numbers whatever their size.
    return float(np.std(score / largest, ddof=1)), largest


def response_location(
    score: NDArray[np.float64] | Moments, scale: tuple[float, float] | None, unit: float
) -> float:
    """Return c: the middle of the scale, else the mean rounded to the unit's digit.

    The digit is that of the unit and not of the mean itself: a mean of 1234.5
    with an sd of 1 would otherwise be rounded to 1000, 117 prior sds away.
    """
    if scale is not None:
        return (scale[0] + scale[1]) / 2
    mean = score.mean if isinstance(score, Moments) else float(np.mean(score))
    return _round_to(mean, _leading_digit(unit))


def unit_and_location(
    spec: ModelSpec, scores: Table, unit: float | None, location: float | None
) -> tuple[float, float]:
    """Return u and c as given, or from the table; 1 and 0 on a latent scale.

    Raises
    ------
    ModelError
        Where the unit is not positive and finite or the location not finite, or
        where either is given for a latent scale, which has its own.
    """
    if spec.is_latent:
        if unit not in (None, 1.0) or location not in (None, 0.0):
            raise ModelError(
                f"the effects of family {spec.family!r} are in units of its link",
                f"unit {unit}, location {location}",
                "Leave unit and location out; change priors with --prior",
            )
        return 1.0, 0.0
    known = scores.score if isinstance(scores, Scores) else scores.moments
    if unit is None:
        unit = response_unit(known, scores.scale)
    if not _SMALLEST_UNIT < unit < 1 / _SMALLEST_UNIT:
        raise ModelError(
            f"the unit is {unit!r}",
            remedy="It must be positive and finite, and so its square: rescale the scores",
        )
    if location is None:
        location = response_location(known, scores.scale, unit)
    if not math.isfinite(location):
        raise ModelError(f"the location is {location!r}", remedy="It must be finite")
    return unit, location


def resolve_covariate(name: str, prior: Prior, scores: Scores) -> ResolvedCovariate:
    """Centre and scale a covariate of the table.

    Raises
    ------
    DataError
        Where the table was read without it, or it does not vary.
    """
    values = scores.covariate(name)
    mean, sd = float(np.mean(values)), float(np.std(values))
    # Of equal values nothing can be learnt; what rounding leaves of them is no sd.
    if sd <= 1e-12 * float(np.max(np.abs(values))) or not math.isfinite(sd):
        raise DataError(
            f"the covariate {name!r} does not vary",
            scores.source,
            "Use a model without it",
        )
    return ResolvedCovariate(name, (values - mean) / sd, mean, sd, prior)


def resolve_thresholds(
    spec: ModelSpec, facets: dict[str, Facet], categories: tuple[int, ...]
) -> tuple[ResolvedThresholds | None, list[Dropped]]:
    """Lay thresholds that are by a facet on the table, or say why they are not.

    Raises
    ------
    ModelError
        Where the facet is the backbone or random.
    """
    given = spec.thresholds
    if given is None or given.by is None or given.deviation is None:
        return None, []
    facet = facets.get(given.by)
    reason = ""
    if facet is None:
        reason = f"the table has no {given.by}"
    elif facet.n_levels == 1:
        reason = f"{given.by} has one level"
    elif len(categories) < 3:
        reason = "one cutpoint has no distance to another"
    if reason or facet is None:
        return None, [Dropped(f"thresholds by {given.by}", reason)]
    if facet.role == "random" or facet.name == "backbone":
        raise ModelError(
            f"thresholds are by {given.by!r}, which is {facet.role} here",
            f"model {spec.name}",
            "They can be by a panel facet other than backbone; use ordinal for shared thresholds",
        )
    return ResolvedThresholds(given.by, facet.levels, facet.codes, given.deviation), []


def resolve_discrimination(
    spec: ModelSpec, facets: dict[str, Facet]
) -> tuple[ResolvedDiscrimination | None, list[Dropped]]:
    """Lay discrimination by a facet on the table, or say why it is not.

    Raises
    ------
    ModelError
        Where the facet is random: a new level's factor has no panel mean yet.
    """
    given = spec.discrimination
    if given is None:
        return None, []
    facet = facets.get(given.by)
    if facet is None or facet.n_levels == 1:
        reason = f"{given.by} has one level" if facet else f"the table has no {given.by}"
        return None, [Dropped(f"discrimination by {given.by}", reason)]
    if facet.role == "random":
        raise ModelError(
            f"discrimination is by {given.by!r}, which is random here",
            f"model {spec.name}",
            f"It can be by a panel facet: leave --random {given.by} out, or use crossed",
        )
    return ResolvedDiscrimination(given.by, facet.levels, facet.codes, given.spread), []


def family_notes(spec: ModelSpec, scores: Table, categories: tuple[int, ...]) -> tuple[str, ...]:
    """Say on which scale effects are, and where categories come from."""
    if spec.is_paired:
        return ("effects are in log odds of winning, those without backbone of the first place",)
    if spec.discrimination is not None and scores.has(spec.discrimination.by):
        by = spec.discrimination.by
        return (
            f"effects and variance components without {by} are those of a {by} of average "
            "discrimination",
        )
    if spec.family == "student_t":
        return ("the residual of variance components is the squared scale of Student's t",)
    if not spec.is_latent:
        return ()
    lines = [f"effects and variance components are on the latent scale, in {spec.link}s"]
    if spec.family == "cumulative" and scores.scale is None:
        lines.append(
            f"categories are {categories[0]} to {categories[-1]}, the scores that occur: "
            "--scale says what they can be"
        )
    return tuple(lines)


def prior_findings(spec: ModelSpec, scores: Table) -> tuple[Problem, ...]:
    """Warn where all verdicts, or all categories, are one: the rest is the prior's."""
    if not spec.is_latent or not isinstance(scores, Scores):
        return ()
    seen = np.unique(scores.score)
    if seen.size > 1:
        return ()
    return (
        Problem(
            "warning",
            f"all {len(scores):,} scores are {seen[0]:g}: the result is prior-dominated, "
            "and how sure it is rests on the priors alone",
            f"model {spec.title}",
            len(scores),
            "Collect scores that differ, or look at how the answer moves with --prior",
        ),
    )


def _round_to(value: float, digit: int) -> float:
    return float(round(value, -digit))


def _leading_digit(value: float) -> int:
    return math.floor(math.log10(value))
