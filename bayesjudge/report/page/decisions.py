"""Decision study: how sure other designs of the same kind would be."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bayesjudge.errors import ModelError
from bayesjudge.fitted import Fit
from bayesjudge.planning.coefficients import coefficient_draws
from bayesjudge.planning.components import components_of_fit
from bayesjudge.planning.designs import (
    Components,
    Design,
    coefficients,
    component_matrix,
    lay_out,
    pair_contrasts,
)
from bayesjudge.report.page.contents import Absent, Curve, DesignCurves
from bayesjudge.scores.keys import cell_keys
from bayesjudge.scores.lines import Table
from bayesjudge.scores.table import Scores

if TYPE_CHECKING:
    from bayesjudge.scores import Scores

type Floats = NDArray[np.float64]
type Ints = NDArray[np.int64]

_POINTS = 12
_MOST_DRAWS = 1000
_MOST_CALLS = 60_000


def design_curves(fit: Fit, ci_prob: float, unit: str) -> DesignCurves | Absent:
    """Return errors and coefficients against scenarios, by judges on each answer.

    Judges take turns where an answer has fewer than all of them. From an eighth to
    four times the table's scenarios, with as many generations as it has.
    """
    if not fit.scores.has("scenario"):
        return Absent("Without scenarios nothing tells what more of them would bring.")
    if fit.unpaired:
        return Absent("The model does not compare backbones scenario by scenario.")
    try:
        components = components_of_fit(fit)
    except ModelError:
        return Absent(
            f"Effects behind a link do not add up to means (family {fit.spec.family}); fit "
            "crossed to the same table to plan with it."
        )
    now = fit.scores.facet("scenario").n_levels
    generations = generations_of(fit.scores)
    k = len(components.judges)
    counts = sorted({1, min(max(k // 2, 1), 3), k})
    largest = max(now, _MOST_CALLS // (generations * k))
    ns = np.unique(np.geomspace(max(2, now / 8), min(4 * now, largest), _POINTS).round())
    found = [_curves(components, ns.astype(int), generations, q, ci_prob) for q in counts]
    return DesignCurves(
        difference=tuple(curves[0] for curves in found),
        generalizability=tuple(curves[1] for curves in found),
        dependability=tuple(curves[2] for curves in found),
        now=now,
        generations=generations,
        unit=unit,
    )


def generations_of(scores: Table) -> int:
    """Return how many answers a backbone gave to a scenario, on average, rounded."""
    if not scores.has("generation"):
        return 1
    if not isinstance(scores, Scores):
        found = scores.moments.generations
        answers = 1 if found is None else found.n_generations
        owners = [scores.moments.codes_of(name) for name in ("backbone", "scenario")]
        cells = cell_keys(owners, [scores.facet(n).n_levels for n in ("backbone", "scenario")])[1]
        return max(1, round(answers / cells))
    owner = [scores.facet(name) for name in ("backbone", "scenario")]
    whole = [*owner, scores.facet("generation")]
    cells = cell_keys([f.codes for f in owner], [f.n_levels for f in owner])[1]
    answers = cell_keys([f.codes for f in whole], [f.n_levels for f in whole])[1]
    return max(1, round(answers / cells))


def _curves(
    components: Components, ns: Ints, generations: int, per_generation: int, ci_prob: float
) -> tuple[Curve, Curve, Curve]:
    k = len(components.judges)
    columns = [
        coefficients(
            components,
            lay_out(Design(int(n), int(n) * generations, tuple(range(k)), per_generation)),
        )
        for n in ns
    ]
    stacked = np.stack(columns, axis=1)
    some = _thinned(components)
    pairs = pair_contrasts(len(components.backbones))
    error = np.sqrt(np.maximum(component_matrix(some, pairs) @ stacked, 0.0))
    found = coefficient_draws(some, stacked)
    if k == 1:
        label = "1 judge"
    elif per_generation == k:
        label = f"all {k} judges on each answer"
    else:
        label = f"{per_generation} of {k} judges in turn"
    x = ns.astype(float)
    return (
        _curve(label, x, error, ci_prob),
        _curve(label, x, found["generalizability"], ci_prob),
        _curve(label, x, found["dependability"], ci_prob),
    )


def _thinned(components: Components) -> Components:
    """Return the components with at most a thousand draws."""

    def some(values: Floats) -> Floats:
        step = -(-len(values) // _MOST_DRAWS)
        return values[::step]

    universe = components.universe_variance
    return replace(
        components,
        parts=tuple(replace(p, variance=some(p.variance)) for p in components.parts),
        universe_variance=None if universe is None else some(universe),
    )


def _curve(label: str, x: Floats, draws: Floats, ci_prob: float) -> Curve:
    lower, upper = np.quantile(draws, [(1 - ci_prob) / 2, (1 + ci_prob) / 2], axis=0)
    return Curve(label, x, draws.mean(axis=0), lower, upper)
