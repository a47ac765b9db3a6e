"""Scores drawn from a model: for planning, for teaching, and to see that fits are right."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bayesjudge.errors import ModelError, UsageError
from bayesjudge.resolution import RESIDUAL, Resolved, ResolvedTerm, resolve
from bayesjudge.scores.table import Facet, Role, Scores
from bayesjudge.spec import ModelSpec, Prior, Scale, read_model

if TYPE_CHECKING:
    import pandas as pd

type Floats = NDArray[np.float64]
type Ints = NDArray[np.int64]

ROLES: dict[str, Role] = {
    "backbone": "panel",
    "judge": "panel",
    "language": "panel",
    "scenario": "random",
    "generation": "random",
}


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
    unit: float = 1.0,
    location: float = 7.0,
    missing: float = 0.0,
    one_judge: bool = False,
    random_seed: int = 0,
) -> Simulation:
    """Draw a table of scores, and the truth behind it, from a gaussian model.

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
        Panel means to fix, by backbone: all of them or none.
    unit, location : float
        u and c of the priors.
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

    Raises
    ------
    ModelError
        Where the model is not gaussian, or a term named in ``sd`` is not in it.
    UsageError
        Where an argument is out of range.
    DataError
        Where so much is missing that no model fits what is left.
    """
    spec = model if isinstance(model, ModelSpec) else read_model(model)
    _require_gaussian(spec)
    if random_seed < 0:
        raise UsageError(f"random_seed is {random_seed}", remedy="It must be at least 0")
    given = {
        "backbone": backbones,
        "judge": judges,
        "language": languages,
        "scenario": scenarios,
        "generation": generations,
    }
    labels = {name: _labels(name, value) for name, value in given.items()}
    if len(labels["backbone"]) < 2:
        raise UsageError("there is one backbone only", "backbones", "Simulate two or more")
    rng = np.random.default_rng(random_seed)
    codes = _design(labels, one_judge, missing, rng)
    kept = {
        name: codes[name]
        for name in labels
        if name in ("backbone", "judge", "scenario") or len(labels[name]) > 1
    }
    facets = tuple(_facet(name, labels[name], column) for name, column in kept.items())
    blank = Scores(np.zeros(codes["backbone"].size), facets, source="the simulated table")
    resolved = resolve(spec, blank, unit, location)
    score, truth = simulate_scores(resolved, rng, sd=sd, means=means)
    truth["labels"] = {name: list(levels) for name, levels in resolved.labels}
    columns = {f.name: _column(f) for f in facets}
    order = ("backbone", "scenario", "language", "generation", "judge")
    return Simulation(
        _frame({**{n: columns[n] for n in order if n in columns}, "score": score}), truth
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
        term's variable, ``backbone_judge``); ``backbone_mean`` (B,).

    Raises
    ------
    ModelError
        Where the model is not gaussian, or a term named in ``sd`` is not in it.
    UsageError
        Where a value is out of range, or ``means`` names other backbones.
    """
    _require_gaussian(resolved.spec)
    fixed = _fixed_scales(resolved, sd or {})
    scales: dict[str, Any] = {}
    hyper: dict[str, float] = {}
    effects: dict[str, Floats] = {}
    intercept = resolved.location + resolved.intercept_sd * rng.standard_normal()
    for term in resolved.terms:
        name = f"{term.variable}_sd"
        values = _draw_scale(
            name, term.scale, len(term.by_labels), resolved.unit, rng, hyper, fixed.get(term.name)
        )
        scales[name] = values if term.by_labels else float(values[0])
        by = np.zeros(term.n_levels, np.int64) if term.by_codes is None else term.by_codes
        effects[term.variable] = values[by].reshape(term.shape) * _unit_effects(term, rng)
    floor = resolved.noise_floor
    sigma = _draw_scale(
        "sigma",
        resolved.residual,
        len(resolved.residual_labels),
        resolved.unit,
        rng,
        hyper,
        fixed.get(RESIDUAL),
    )
    if RESIDUAL not in fixed:
        sigma = np.sqrt(sigma**2 + floor**2)
    scales["sigma"] = sigma if resolved.residual_labels else float(sigma[0])
    if means is not None:
        intercept = _fix_means(resolved, effects, means)
    score = np.full(resolved.score.size, intercept)
    for term in resolved.terms:
        score += effects[term.variable].ravel()[term.codes]
    of_row = (
        np.zeros(score.size, np.int64) if resolved.residual_by is None else resolved.residual_by
    )
    score += sigma[of_row] * rng.standard_normal(score.size)
    truth = {
        "model": resolved.spec.title,
        "unit": resolved.unit,
        "location": resolved.location,
        "intercept": float(intercept),
        "scales": scales,
        "hyper": hyper,
        "effects": effects,
        "backbone_mean": intercept + _panel_part(resolved, effects),
    }
    return score, truth


def _require_gaussian(spec: ModelSpec) -> None:
    if spec.family != "gaussian":
        raise ModelError(
            f"family {spec.family!r} cannot be simulated yet",
            f"model {spec.name}",
            "Use a gaussian model",
        )


def _labels(name: str, given: int | Sequence[str]) -> tuple[str, ...]:
    if isinstance(given, (int, np.integer)):
        if given < 1:
            raise UsageError(f"{name}s is {given}", remedy="There must be at least one")
        width = len(str(given))
        stem = "" if name == "generation" else f"{name}-"
        return tuple(f"{stem}{i:0{width}d}" for i in range(1, given + 1))
    labels = (given,) if isinstance(given, str) else tuple(given)
    if not labels or len(set(labels)) < len(labels):
        raise UsageError(f"the labels of {name} are empty or repeat", remedy="Name each once")
    return labels


def _design(
    labels: Mapping[str, tuple[str, ...]], one_judge: bool, missing: float, rng: np.random.Generator
) -> dict[str, Ints]:
    """Return the codes of every row, sorted by backbone, scenario, language, generation, judge."""
    if not 0 <= missing < 1:
        raise UsageError(f"missing is {missing}", remedy="It must be at least 0 and below 1")
    order = ("backbone", "scenario", "language", "generation", "judge")
    shape = tuple(len(labels[name]) for name in order)
    grid = np.indices(shape).reshape(len(order), -1)
    codes: dict[str, Ints] = dict(zip(order, grid, strict=True))
    keep = np.ones(grid.shape[1], dtype=bool)
    if one_judge:
        items = shape[1:4]
        turn = rng.permutation(int(np.prod(items))) % shape[4]
        item = np.ravel_multi_index(
            (codes["scenario"], codes["language"], codes["generation"]), items
        )
        keep &= turn[item] == codes["judge"]
    if missing:
        present = np.flatnonzero(keep)
        lost = rng.choice(present, size=round(missing * present.size), replace=False)
        keep[lost] = False
    codes = {name: column[keep] for name, column in codes.items()}
    lost_backbones = shape[0] - np.unique(codes["backbone"]).size
    if lost_backbones:
        raise UsageError(
            f"{lost_backbones} backbones are left without a score",
            f"missing {missing:g}",
            "Leave out fewer scores",
        )
    return codes


def _facet(name: str, labels: tuple[str, ...], codes: Ints) -> Facet:
    """Return a facet of the labels that occur, sorted as the reading of tables sorts them."""
    present = sorted({int(code) for code in np.unique(codes)}, key=lambda code: labels[code])
    position = np.zeros(len(labels), np.int64)
    position[present] = np.arange(len(present))
    return Facet(name, ROLES[name], tuple(labels[code] for code in present), position[codes])


def _column(facet: Facet) -> NDArray[np.object_]:
    return np.array(facet.levels, dtype=object)[facet.codes]


def _frame(columns: Mapping[str, Any]) -> pd.DataFrame:
    import pandas as pd

    return pd.DataFrame(
        {n: pd.Series(v, dtype=float if n == "score" else object) for n, v in columns.items()}
    )


def _fixed_scales(
    resolved: Resolved, sd: Mapping[str, float | Sequence[float]]
) -> dict[str, Floats]:
    """Return the scales that the caller fixes, by the term's canonical name."""
    fixed: dict[str, Floats] = {}
    for name, value in sd.items():
        if name == RESIDUAL:
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


def _draw_scale(
    name: str,
    scale: Scale,
    n_by: int,
    unit: float,
    rng: np.random.Generator,
    hyper: dict[str, float],
    fixed: Floats | None,
) -> Floats:
    """Draw one sd, or one a level, and note the hyperparameters."""
    if fixed is not None:
        return fixed
    center = _draw_prior(scale.center, rng) * unit
    if not n_by:
        return np.array([center])
    spread = 0.0 if scale.spread is None else _draw_prior(scale.spread, rng)
    hyper[f"{name}_center"], hyper[f"{name}_spread"] = center, spread
    return np.asarray(center * np.exp(spread * rng.standard_normal(n_by)))


def _draw_prior(prior: Prior, rng: np.random.Generator) -> float:
    numbers = prior.parameters
    if prior.distribution == "half_normal":
        return float(abs(rng.standard_normal()) * numbers[0])
    if prior.distribution == "lognormal":
        return float(np.exp(numbers[0] + numbers[1] * rng.standard_normal()))
    return numbers[0]


def _unit_effects(term: ResolvedTerm, rng: np.random.Generator) -> Floats:
    """Draw with covariance I, or I - J/L over every facet that is centred."""
    effect = rng.standard_normal(term.shape)
    for axis, centred in enumerate(term.centred):
        if centred:
            effect -= effect.mean(axis=axis, keepdims=True)
    return effect


def _panel_part(resolved: Resolved, effects: Mapping[str, Floats]) -> Floats:
    """Return what the panel's effects add to each backbone's mean, (B,)."""
    total = np.zeros(resolved.term("backbone").n_levels)
    for term in resolved.terms:
        if set(term.dims) <= set(resolved.panel):
            axes = tuple(i for i, dim in enumerate(term.dims) if dim != "backbone")
            total = total + effects[term.variable].mean(axis=axes)
    return total


def _fix_means(resolved: Resolved, effects: dict[str, Floats], means: Mapping[str, float]) -> float:
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
    rest = wanted - (_panel_part(resolved, effects) - effects["backbone"])
    intercept = float(rest.mean())
    effects["backbone"] = rest - intercept
    return intercept
