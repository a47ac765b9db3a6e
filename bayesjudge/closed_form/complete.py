"""Scores of every judge on every generation, as one array."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bayesjudge.closed_form.strata import EXACT_ENGINE
from bayesjudge.errors import DataError
from bayesjudge.scores.table import Scores

type Floats = NDArray[np.float64]
type Ints = NDArray[np.int64]

_USED = ("backbone", "scenario", "generation", "judge")


@dataclass(frozen=True, eq=False)
class CompleteScores:
    """Scores without a gap.

    Attributes
    ----------
    values : (B, n, m, K) float array
        Backbones, scenarios, generations, judges, in the order of their labels.
    shared : bool
        Whether all backbones have the same scenarios.
    """

    values: Floats
    shared: bool


def complete_array(scores: ArrayLike) -> Floats:
    """Return scores as an array (..., n, m, K).

    Raises
    ------
    DataError
        Where there are fewer than three axes, or one is empty.
    """
    x = np.asarray(scores, dtype=float)
    if x.ndim < 3 or 0 in x.shape[-3:]:
        raise DataError(f"scores of shape {x.shape} have no scenarios, generations and judges")
    return x


def complete_scores(scores: Scores) -> CompleteScores:
    """Arrange a table whose judges all scored every generation.

    Raises
    ------
    DataError
        Where the table has no scenarios or judges, judges are a population, there are
        other facets, or gaps; the message names what takes such a table.
    """
    for name in ("scenario", "judge"):
        if not scores.has(name):
            raise DataError(
                f"CyclicJudge's analysis needs a {name}, which the table does not have",
                scores.source,
                f"Map its column: --column {name}=COLUMN",
            )
    others = [f.name for f in scores.facets if f.name not in _USED and f.n_levels > 1]
    if others:
        raise DataError(
            "CyclicJudge's analysis knows scenarios, generations and judges; the table also has "
            + ", ".join(others),
            scores.source,
            f"Take one of its levels at a time: --where {others[0]}=LABEL, or "
            f"--by {others[0]} --ignore {others[0]}",
        )
    if scores.facet("judge").role == "random":
        raise DataError(
            "judges are said to be draws from a population, and CyclicJudge's are a panel",
            "facet judge",
            "Leave out --random judge; --panel-size says how many judges there are in all",
        )
    n_judges = scores.facet("judge").n_levels
    codes = scores.codes("backbone")
    n_generations = 0
    found: list[Floats] = []
    scenarios: list[Ints] = []
    for code, label in enumerate(scores.levels("backbone")):
        at = np.flatnonzero(codes == code)
        block = _arranged(scores, at, n_judges, label)
        found.append(block)
        scenarios.append(np.unique(scores.codes("scenario")[at]))
        n_generations = n_generations or block.shape[1]
    if len({block.shape for block in found}) > 1:
        sizes = sorted({f"{block.shape[0]} x {block.shape[1]}" for block in found})
        raise DataError(
            "the table is not balanced: backbones have " + ", ".join(sizes)
            + " scenarios x generations",
            "backbone x scenario x generation",
            EXACT_ENGINE,
        )  # fmt: skip
    shared = all(np.array_equal(scenarios[0], other) for other in scenarios)
    return CompleteScores(np.stack(found), shared)


def _arranged(scores: Scores, at: Ints, n_judges: int, label: str) -> Floats:
    """Return one backbone's scores as (n, m, K), each generation's judges side by side."""
    scenario, judge = scores.codes("scenario")[at], scores.codes("judge")[at]
    generation = (
        scores.codes("generation")[at] if scores.has("generation") else np.zeros_like(scenario)
    )
    n = np.unique(scenario).size
    m, gap = divmod(at.size, n * n_judges)
    order = np.lexsort((judge, generation, scenario))
    if not gap and m:
        s, g, j = (codes[order].reshape(n, m, n_judges) for codes in (scenario, generation, judge))
        full = (
            (s == s[:, :1, :1]).all()
            and (g == g[..., :1]).all()
            and (g[:, 1:] > g[:, :-1]).all()
            and (j == np.arange(n_judges)).all()
        )
        if full:
            return scores.score[at][order].reshape(n, m, n_judges)
    raise DataError(
        f"not every generation of backbone {label!r} has one score of each of {n_judges} judges",
        "scenario x generation x judge",
        EXACT_ENGINE,
    )
