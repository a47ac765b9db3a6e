"""Tables too large for memory, drawn from a model piece by piece."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayesjudge.errors import ModelError, UsageError
from bayesjudge.resolution import Resolved, resolve
from bayesjudge.scores.table import Scores
from bayesjudge.simulated_tables import design_of, facet_of, labels_of
from bayesjudge.simulation import simulate_scores
from bayesjudge.spec import ModelSpec, read_model

type Floats = NDArray[np.float64]
type Ints = NDArray[np.int64]

ANSWER = ("backbone", "scenario", "language")
COLUMNS = (*ANSWER, "generation", "judge")
ROWS = 1 << 20


@dataclass(frozen=True, eq=False)
class Stream:
    """A table that is drawn while it is written, and the truth it is drawn from.

    Attributes
    ----------
    labels : dict of str to tuple of str
        Labels of each column, in the order of ``COLUMNS``.
    truth : dict
        As ``Simulation.truth``, without the effects of generations.
    predictor : (answers, judges) float array
        Of each scenario, backbone and language; without the generation's part.
    sigma : (answers, judges) float array
        Standard deviation of the residual.
    generation_sd : (answers,) float array
    missing : float
        Chance of a score to be left out.
    random_seed : int
    """

    labels: dict[str, tuple[str, ...]]
    truth: dict[str, Any]
    predictor: Floats
    sigma: Floats
    generation_sd: Floats
    missing: float
    random_seed: int

    def pieces(self, rows: int = ROWS) -> Iterator[tuple[dict[str, Ints], Floats]]:
        """Draw the rows in order; how many at a time makes no difference to them.

        Parameters
        ----------
        rows : int
            Of a piece, about.

        Yields
        ------
        codes : dict of str to (n,) int array
            Into ``labels``.
        score : (n,) float array
        """
        n_answers, n_judges = self.predictor.shape
        n_generations = len(self.labels["generation"])
        shape = tuple(len(self.labels[name]) for name in ANSWER)
        # A stream of its own for each kind of draw: each is used up in the rows' order.
        for_generations, for_residuals, for_losses = (
            np.random.default_rng([self.random_seed, kind]) for kind in (1, 2, 3)
        )
        step = max(1, rows // n_judges)
        for start in range(0, n_answers * n_generations, step):
            end = min(start + step, n_answers * n_generations)
            number: Ints = np.arange(start, end, dtype=np.int64)
            answer = number // n_generations
            own = self.generation_sd[answer] * for_generations.standard_normal(number.size)
            noise = for_residuals.standard_normal((number.size, n_judges))
            score = self.predictor[answer] + own[:, None] + self.sigma[answer] * noise
            places = (*np.unravel_index(answer, shape), number % n_generations)
            columns: dict[str, Ints] = {
                name: np.repeat(place, n_judges).astype(np.int64)
                for name, place in zip((*ANSWER, "generation"), places, strict=True)
            }
            columns["judge"] = np.tile(np.arange(n_judges, dtype=np.int64), number.size)
            score = score.ravel()
            if self.missing:
                kept = for_losses.random(score.size) >= self.missing
                columns = {name: code[kept] for name, code in columns.items()}
                score = score[kept]
            yield columns, score


def simulate_stream(
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
    missing: float = 0.0,
    random_seed: int = 0,
) -> Stream:
    """Draw the truth of a table whose rows are then drawn piece by piece.

    Parameters
    ----------
    model, backbones, scenarios, judges, generations, languages, sd, means, unit, location
        As in :func:`bayesjudge.simulate`. Effects of all facets but the
        generation are held in memory.
    missing : float
        Chance of each score to be left out.
    random_seed : int
        The same seed gives the same rows, other ones than ``simulate`` does.

    Returns
    -------
    Stream

    Raises
    ------
    ModelError
        Where the model is not gaussian, takes covariates, or has generations in
        a term with other facets; and as ``simulate``.
    UsageError
        Where an argument is out of range.
    """
    spec = model if isinstance(model, ModelSpec) else read_model(model)
    if spec.family != "gaussian" or spec.is_paired or spec.covariates:
        raise ModelError(
            "only scores of gaussian models without covariates are drawn piece by piece",
            f"model {spec.name}",
            "Simulate them at once",
        )
    if random_seed < 0:
        raise UsageError(f"random_seed is {random_seed}", remedy="It must be at least 0")
    if not 0 <= missing < 1:
        raise UsageError(f"missing is {missing}", remedy="It must be at least 0 and below 1")
    given = {
        "backbone": backbones,
        "scenario": scenarios,
        "language": languages,
        "generation": generations,
        "judge": judges,
    }
    labels = {name: tuple(sorted(labels_of(name, value))) for name, value in given.items()}
    if len(labels["backbone"]) < 2:
        raise UsageError("there is one backbone only", "backbones", "Simulate two or more")
    rng = np.random.default_rng([random_seed, 0])
    resolved = _lay(spec, labels, unit, location, rng)
    truth = simulate_scores(resolved, rng, sd=sd, means=means)[1]
    predictor, sigma, generation_sd = _parts(resolved, labels, truth)
    truth["labels"] = {name: list(levels) for name, levels in resolved.labels}
    truth["labels"].pop("generation", None)
    truth["effects"].pop("generation", None)
    return Stream(labels, truth, predictor, sigma, generation_sd, missing, random_seed)


def _lay(
    spec: ModelSpec,
    labels: Mapping[str, tuple[str, ...]],
    unit: float | None,
    location: float | None,
    rng: np.random.Generator,
) -> Resolved:
    """Lay the model on two generations of each answer: more of them have the same terms."""
    few = {**labels, "generation": labels["generation"][:2]}
    codes, _ = design_of(spec, few, False, 0.0, rng)
    facets = tuple(
        facet_of(name, few[name], code)
        for name, code in codes.items()
        if name in ("backbone", "judge", "scenario") or len(few[name]) > 1
    )
    blank = Scores(np.zeros(codes["backbone"].size), facets, source="the simulated table")
    resolved = resolve(
        spec, blank, 1.0 if unit is None else unit, 7.0 if location is None else location
    )
    for term in resolved.terms:
        if "generation" in term.dims and term.dims != ("generation",):
            raise ModelError(
                f"the term {term.name!r} cannot be drawn piece by piece",
                f"model {spec.name}",
                "Simulate at once",
            )
    return resolved


def _parts(
    resolved: Resolved, labels: Mapping[str, tuple[str, ...]], truth: Mapping[str, Any]
) -> tuple[Floats, Floats, Floats]:
    """Sum the effects of each answer and judge, and lay out the scales."""
    names = (*ANSWER, "judge")
    shape = tuple(len(labels[name]) for name in names)
    predictor = np.full(shape, float(truth.get("intercept", 0.0)))
    generation_sd = np.zeros(shape[:-1])
    for term in resolved.terms:
        scale = np.asarray(truth["scales"][f"{term.variable}_sd"], dtype=float)
        if term.dims == ("generation",):
            generation_sd += _spread(scale, (term.scale.by,), names)[..., 0]
            continue
        effects = np.asarray(truth["effects"][term.variable])
        predictor += _spread(effects, term.dims, names)
    sigma = np.asarray(truth["scales"]["sigma"], dtype=float)
    sigma = np.broadcast_to(_spread(sigma, (resolved.residual_facet,), names), shape)
    width = shape[-1]
    return predictor.reshape(-1, width), sigma.reshape(-1, width), generation_sd.ravel()


def _spread(values: Floats, dims: Sequence[str | None], names: Sequence[str]) -> Floats:
    """Lay an array over some facets along the axes of all of them."""
    own = [dim for dim in dims if dim is not None]
    if not own:
        return values.reshape((1,) * len(names))
    order = sorted(range(len(own)), key=lambda i: names.index(own[i]))
    sizes = dict(zip(own, values.shape, strict=True))
    return values.transpose(order).reshape([sizes.get(name, 1) for name in names])
