"""Designs of simulated tables, and their columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bayesjudge.errors import ModelError, UsageError
from bayesjudge.scores.table import Facet, Role, Scores
from bayesjudge.spec import ModelSpec

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


def design_of(
    spec: ModelSpec,
    labels: Mapping[str, tuple[str, ...]],
    one_judge: bool,
    missing: float,
    rng: np.random.Generator,
) -> tuple[dict[str, Ints], Ints | None]:
    """Return the codes of every row, and of battles the second model's."""
    if not spec.is_paired:
        return _design(labels, one_judge, missing, rng), None
    if len(labels["generation"]) > 1:
        raise ModelError(
            f"model {spec.name!r} knows no generations", "generations", "Leave them out"
        )
    n = len(labels["backbone"])
    pairs = np.array([(a, b) for a in range(n) for b in range(a + 1, n)])
    named = tuple(f"{a} {b}" for a, b in pairs)
    codes = _design({**labels, "backbone": named}, one_judge, missing, rng)
    side = rng.integers(0, 2, codes["backbone"].size)
    first, second = pairs[codes["backbone"], side], pairs[codes["backbone"], 1 - side]
    return {**codes, "backbone": first}, second


def of_one_order(scores: Scores, labels: tuple[str, ...]) -> Scores:
    """Return battles whose two models are numbered as the reading of tables numbers them."""
    if scores.opponent is None:
        return scores
    backbone = scores.facet("backbone")
    first = np.array([labels.index(label) for label in backbone.levels])[backbone.codes]
    position = np.argsort(np.argsort(labels))
    levels = tuple(sorted(labels))
    facets = tuple(
        Facet("backbone", f.role, levels, position[first]) if f is backbone else f
        for f in scores.facets
    )
    return replace(scores, facets=facets, opponent=position[scores.opponent])


def battle_frame(scores: Scores, score: Floats) -> pd.DataFrame:
    """Return battles as people write them: model_a, model_b, winner."""
    levels = np.array(scores.levels("backbone"), dtype=object)
    columns: dict[str, Any] = {
        "model_a": levels[scores.codes("backbone")],
        "model_b": levels[np.asarray(scores.opponent)],
    }
    columns |= {f.name: column_of(f) for f in scores.facets if f.name != "backbone"}
    winner = np.array(["model_b", "tie", "model_a"], dtype=object)
    return frame_of({**columns, "winner": winner[np.round(2 * score).astype(int)]}, set())


def labels_of(name: str, given: int | Sequence[str]) -> tuple[str, ...]:
    """Return labels as given, or numbered ones."""
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


def facet_of(name: str, labels: tuple[str, ...], codes: Ints) -> Facet:
    """Return a facet of the labels that occur, sorted as the reading of tables sorts them."""
    present = sorted({int(code) for code in np.unique(codes)}, key=lambda code: labels[code])
    position = np.zeros(len(labels), np.int64)
    position[present] = np.arange(len(present))
    return Facet(name, ROLES[name], tuple(labels[code] for code in present), position[codes])


def column_of(facet: Facet) -> NDArray[np.object_]:
    """Return the labels of every row."""
    return np.array(facet.levels, dtype=object)[facet.codes]


def frame_of(columns: Mapping[str, Any], numeric: set[str]) -> pd.DataFrame:
    """Return columns as a data frame, numbers as floats."""
    import pandas as pd

    return pd.DataFrame(
        {n: pd.Series(v, dtype=float if n in numeric else object) for n, v in columns.items()}
    )
