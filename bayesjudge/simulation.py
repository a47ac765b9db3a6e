"""Scores drawn from a model: for planning, for teaching, and to see that fits are right."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bayesjudge.densities import Parameters, predictors
from bayesjudge.drawing import (
    answer_scores,
    continuous_scores,
    draw_cutpoints,
    draw_discrimination,
    draw_prior,
    draw_scale,
    unit_effects,
)
from bayesjudge.errors import ModelError, UsageError
from bayesjudge.expectations import expected_means
from bayesjudge.outcomes import draw_outcomes, tie_weight
from bayesjudge.resolution import RESIDUAL, Resolved, resolve
from bayesjudge.scores.table import Scores
from bayesjudge.simulated_tables import (
    battle_frame,
    column_of,
    design_of,
    facet_of,
    frame_of,
    labels_of,
    of_one_order,
)
from bayesjudge.spec import ModelSpec, read_model

if TYPE_CHECKING:
    import pandas as pd

type Floats = NDArray[np.float64]
type Ints = NDArray[np.int64]

DEFAULT_SCALE = (1, 5)


@dataclass(frozen=True, eq=False)
class Simulation:
    """A table and the truth it was drawn from.

    Attributes
    ----------
    table : pandas.DataFrame
        One score a row; no column for a facet of one level other than
        backbone, judge and scenario.
    truth : dict
        As :func:`simulate_scores` returns it, with ``labels`` of every dim.
    """

    table: pd.DataFrame
    truth: dict[str, Any]


def simulate(
    model: str | Path | ModelSpec = "crossed",
    *,
    backbones: int | Sequence[str] = 5,
    scenarios: int | Sequence[str] = 80,
    judges: int | Sequence[str] = 5,
    generations: int | Sequence[str] = 1,
    languages: int | Sequence[str] = 1,
    sd: Mapping[str, float | Sequence[float]] | None = None,
    means: Mapping[str, float] | None = None,
    unit: float | None = None,
    location: float | None = None,
    scale: tuple[int, int] | None = None,
    missing: float = 0.0,
    one_judge: bool = False,
    random_seed: int = 0,
) -> Simulation:
    """Draw a table of scores, and the truth behind it, from a model of any family.

    Parameters
    ----------
    model : str, path or ModelSpec
        A shipped model's name, a TOML file, or a spec.
    backbones, scenarios, judges, generations, languages : int or sequence of str
        How many, or their labels. Generations are those of each answer.
    sd : mapping of str to float or sequence, optional
        Standard deviations to fix, by term (``"judge"``, ``"residual"``); for a
        scale by backbone one number for all levels or one a level. Others are
        drawn from the model's priors.
    means : mapping of str to float, optional
        Panel means to fix, by backbone: all of them or none. Not for verdicts
        and categories.
    unit, location : float, optional
        u and c of the priors, 1 and 7 by default; verdicts and categories have
        a latent scale of their own.
    scale : (low, high), optional
        Categories of a cumulative model, whole numbers; 1 to 5 by default.
    missing : float
        Fraction of the scores left out, at random.
    one_judge : bool
        Each item (scenario, language, generation) goes to one judge, the same
        for all backbones, taking turns in a random order.
    random_seed : int
        The same seed gives the same table.

    Returns
    -------
    Simulation
        Of a model of battles one row for each pair, scenario, language and judge, either
        model first: ``model_a``, ``model_b``, ``winner``. Covariates of the model are
        columns of independent standard normal numbers.

    Raises
    ------
    ModelError
        Where a term named in ``sd`` is not in the model, or the model has no such
        unit, location or scale.
    UsageError
        Where an argument is out of range.
    DataError
        Where so much is missing that no model fits what is left.
    """
    spec = model if isinstance(model, ModelSpec) else read_model(model)
    if not spec.is_latent:
        unit = 1.0 if unit is None else unit
        location = 7.0 if location is None else location
    if spec.family == "cumulative":
        scale = DEFAULT_SCALE if scale is None else scale
    elif scale is not None:
        raise ModelError(
            f"family {spec.family!r} has no categories",
            f"scale {scale[0]:g} {scale[1]:g}",
            "Leave the scale out",
        )
    if random_seed < 0:
        raise UsageError(f"random_seed is {random_seed}", remedy="It must be at least 0")
    given = {
        "backbone": backbones,
        "judge": judges,
        "language": languages,
        "scenario": scenarios,
        "generation": generations,
    }
    labels = {name: labels_of(name, value) for name, value in given.items()}
    if len(labels["backbone"]) < 2:
        raise UsageError("there is one backbone only", "backbones", "Simulate two or more")
    rng = np.random.default_rng(random_seed)
    codes, opponent = design_of(spec, labels, one_judge, missing, rng)
    kept = {
        name: codes[name]
        for name in labels
        if name in ("backbone", "judge", "scenario") or len(labels[name]) > 1
    }
    facets = tuple(facet_of(name, labels[name], column) for name, column in kept.items())
    n = codes["backbone"].size
    covariates = tuple((c.column, rng.standard_normal(n)) for c in spec.covariates)
    blank = Scores(
        np.full(n, 0.0 if scale is None else float(scale[0])),
        facets,
        scale=scale,
        source="the simulated table",
        covariates=covariates,
        opponent=opponent,
    )
    if opponent is not None:
        # Every outcome occurs, or the model would have no ties.
        blank = replace(of_one_order(blank, labels["backbone"]), score=np.arange(n) % 3 / 2)
    resolved = resolve(spec, blank, unit, location)
    score, truth = simulate_scores(resolved, rng, sd=sd, means=means)
    truth["labels"] = {name: list(levels) for name, levels in resolved.labels}
    columns = {f.name: column_of(f) for f in facets}
    if blank.opponent is not None:
        return Simulation(battle_frame(blank, score), truth)
    order = ("backbone", "scenario", "language", "generation", "judge")
    return Simulation(
        frame_of(
            {**{n: columns[n] for n in order if n in columns}, **dict(covariates), "score": score},
            {"score", *blank.covariate_names},
        ),
        truth,
    )


def simulate_scores(
    resolved: Resolved,
    rng: np.random.Generator,
    *,
    sd: Mapping[str, float | Sequence[float]] | None = None,
    means: Mapping[str, float] | None = None,
) -> tuple[Floats, dict[str, Any]]:
    """Draw truth and scores for a model that lies on a design.

    Calibration studies resolve a design once and call this many times.

    Parameters
    ----------
    resolved : Resolved
        Its scores are not looked at.
    rng : numpy.random.Generator
    sd, means
        As in :func:`simulate`; what they leave open is drawn from the priors.

    Returns
    -------
    score : (N,) float array
    truth : dict
        ``model``, ``unit``, ``location``; ``intercept``; ``scales``
        (``judge_sd``, ..., ``sigma``: floats, or arrays over levels); ``hyper``
        (centre and spread of scales by levels); ``effects`` (arrays by the
        term's variable, ``backbone_judge``); ``parameters`` (``cutpoints``,
        ``cutpoints_sd``, ``degrees_of_freedom``, slopes of covariates);
        ``backbone_mean`` (B,), on the score scale, and of verdicts and categories
        ``backbone_latent`` (B,). No intercept and no ``sigma`` where the model
        has none.

    Raises
    ------
    ModelError
        Where a term named in ``sd`` is not in the model, or means are given for
        verdicts or categories.
    UsageError
        Where a value is out of range, or ``means`` names other backbones.
    """
    if means is not None and resolved.spec.is_latent:
        raise ModelError(
            f"means cannot be fixed for family {resolved.spec.family!r}",
            f"model {resolved.spec.name}",
            "Fix sds, or take another seed",
        )
    fixed = _fixed_scales(resolved, sd or {})
    scales: dict[str, Any] = {}
    hyper: dict[str, float] = {}
    effects: dict[str, Floats] = {}
    intercept = 0.0
    if resolved.spec.intercept is not None:
        intercept = resolved.location + resolved.intercept_sd * rng.standard_normal()
    for term in resolved.terms:
        name = f"{term.variable}_sd"
        values = draw_scale(
            name, term.scale, len(term.by_labels), resolved.unit, rng, hyper, fixed.get(term.name)
        )
        scales[name] = values if term.by_labels else float(values[0])
        by = np.zeros(term.n_levels, np.int64) if term.by_codes is None else term.by_codes
        effects[term.variable] = values[by].reshape(term.shape) * unit_effects(term, rng)
    parameters: dict[str, Any] = {
        f"{c.name}_slope": c.prior.parameters[0] * resolved.unit * rng.standard_normal()
        for c in resolved.covariates
    }
    parameters |= draw_discrimination(resolved, rng)
    if means is not None:
        intercept = _fix_means(resolved, effects, means, parameters.get("discrimination"))
    given = _as_one_draw(resolved, intercept, effects, parameters)
    eta = predictors(resolved, given)[0]
    worth = given.discrimination
    latent = _panel_part(resolved, effects, worth)
    if not resolved.spec.is_paired:
        latent = intercept + latent
    truth = {
        "model": resolved.spec.title,
        "unit": resolved.unit,
        "location": resolved.location,
        "intercept": float(intercept),
        "scales": scales,
        "hyper": hyper,
        "effects": effects,
        "parameters": parameters,
        "backbone_mean": latent,
    }
    if resolved.spec.intercept is None:
        del truth["intercept"]
    if not resolved.spec.is_latent:
        return continuous_scores(resolved, eta, truth, rng, fixed.get(RESIDUAL)), truth
    parameters |= draw_cutpoints(resolved, rng)
    if resolved.ties is not None:
        parameters["tie_chance"] = draw_prior(resolved.ties, rng)
    truth["backbone_latent"] = latent
    truth["backbone_mean"] = _expected(resolved, truth)
    if resolved.spec.is_paired:
        chance = parameters.get("tie_chance")
        weight = None if chance is None else tie_weight(np.asarray(chance))
        return draw_outcomes(eta, weight, rng), truth
    return answer_scores(resolved, eta, parameters.get("cutpoints"), rng), truth


def _as_one_draw(
    resolved: Resolved,
    intercept: float,
    effects: Mapping[str, Floats],
    parameters: Mapping[str, Any],
) -> Parameters:
    discrimination = parameters.get("discrimination")
    return Parameters(
        intercept=np.array([intercept], dtype=float),
        effects={name: value.reshape(1, -1) for name, value in effects.items()},
        slopes={c.name: np.array([parameters[f"{c.name}_slope"]]) for c in resolved.covariates},
        discrimination=None if discrimination is None else discrimination[None],
    )


def _expected(resolved: Resolved, truth: Mapping[str, Any]) -> Floats:
    found: Floats = expected_means(
        resolved,
        np.array([truth.get("intercept", 0.0)]),
        {name: np.asarray(value)[None] for name, value in truth["effects"].items()},
        {name: np.asarray(value, dtype=float)[None] for name, value in truth["scales"].items()},
        {n: np.asarray(v, dtype=float)[None] for n, v in truth["parameters"].items()},
    )
    return np.asarray(found[0])


def _fixed_scales(
    resolved: Resolved, sd: Mapping[str, float | Sequence[float]]
) -> dict[str, Floats]:
    """Return the scales that the caller fixes, by the term's canonical name."""
    fixed: dict[str, Floats] = {}
    for name, value in sd.items():
        if name == RESIDUAL:
            # Raises for a model without a residual scale.
            _ = resolved.residual_scale
            key, n_by = RESIDUAL, len(resolved.residual_labels)
        else:
            term = resolved.term(name)
            key, n_by = term.name, len(term.by_labels)
        values = np.atleast_1d(np.asarray(value, dtype=float))
        if not (np.isfinite(values).all() and (values >= 0).all()):
            raise UsageError(f"the sd of {name} is {value!r}", remedy="It must be 0 or positive")
        if values.shape not in ((1,), (max(n_by, 1),)):
            raise UsageError(
                f"{values.size} sds are given for {name}",
                remedy=f"Give one number or {n_by}, one a level" if n_by else "Give one number",
            )
        fixed[key] = np.broadcast_to(values, (max(n_by, 1),)).copy()
    return fixed


def _panel_part(
    resolved: Resolved, effects: Mapping[str, Floats], discrimination: Floats | None
) -> Floats:
    """Return what the panel's effects add to each backbone's mean, (B,)."""
    factor = 1.0 if discrimination is None else float(np.mean(discrimination))
    total = np.zeros(resolved.term("backbone").n_levels)
    for term in resolved.terms:
        aside = resolved.spec.is_paired and "backbone" not in term.dims
        if set(term.dims) <= set(resolved.panel) and not aside:
            axes = tuple(i for i, dim in enumerate(term.dims) if dim != "backbone")
            mean = effects[term.variable].mean(axis=axes)
            total = total + (factor * mean if resolved.is_scaled(term) else mean)
    return total


def _fix_means(
    resolved: Resolved,
    effects: dict[str, Floats],
    means: Mapping[str, float],
    discrimination: Floats | None,
) -> float:
    """Set the backbone effects so that the panel means are those given; return the intercept."""
    labels = dict(resolved.labels)["backbone"]
    if set(means) != set(labels):
        raise UsageError(
            f"means are given for {', '.join(map(repr, means))}",
            remedy=f"Give one for each of {', '.join(map(repr, labels))}",
        )
    wanted = np.array([means[label] for label in labels], dtype=float)
    if not np.isfinite(wanted).all():
        raise UsageError("a mean is not a finite number", "means")
    factor = 1.0 if discrimination is None else float(np.mean(discrimination))
    panel = _panel_part(resolved, effects, discrimination)
    rest = wanted - (panel - factor * effects["backbone"])
    intercept = float(rest.mean())
    effects["backbone"] = (rest - intercept) / factor
    return intercept
