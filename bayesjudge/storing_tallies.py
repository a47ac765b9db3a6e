"""Moments as variables of a DataTree, and back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from bayesjudge.scores.moments import Generations, Moments
from bayesjudge.scores.problems import Problem
from bayesjudge.scores.tallying import FacetLabels, Tally

if TYPE_CHECKING:
    import xarray as xr

_CELLS = ("count", "total", "squares", "low", "high")
_PATTERNS = ("number", "squares")
_BY_COLUMN = ("pattern", "totals", "cell_squares")


def tally_variables(tally: Tally) -> dict[str, Any]:
    """Return the arrays of a tally as variables over ``cell``, ``pattern`` and ``column``."""
    moments = tally.moments
    variables: dict[str, Any] = {"cell_code": (("cell", "cell_facet"), moments.codes)}
    variables |= {f"cell_{n}": (("cell",), getattr(moments, n)) for n in _CELLS}
    found = moments.generations
    if found is None:
        return variables
    variables["column_code"] = (("column", "column_facet"), found.columns)
    variables["pattern_block"] = (("pattern", "block_facet"), found.blocks)
    variables |= {f"pattern_{n}": (("pattern",), getattr(found, n)) for n in _PATTERNS}
    by_column = {f"pattern_column_{n}": getattr(found, n) for n in _BY_COLUMN}
    return variables | {n: (("pattern", "column"), v) for n, v in by_column.items()}


def tally_text(tally: Tally) -> dict[str, Any]:
    """Return what a tally says beside its arrays, as JSON has it."""
    moments = tally.moments
    return {
        "facets": [[f.name, f.role, list(f.levels)] for f in tally.facets],
        "scale": tally.scale,
        "lower_is_better": tally.lower_is_better,
        "replicates": tally.replicates,
        "n_repeated": tally.n_repeated,
        "mapping": [list(pair) for pair in tally.mapping],
        "problems": [[p.severity, p.what, p.where, p.rows, p.remedy] for p in tally.problems],
        "source": tally.source,
        "moments": {
            "location": moments.location,
            "n_excluded": moments.n_excluded,
            "blocks": list(moments.blocks),
            "cells": list(moments.cells),
            "generations": moments.generations is not None,
        },
    }


def tally_of(held: dict[str, Any], data: xr.Dataset) -> Tally:
    """Read back what :func:`tally_variables` and :func:`tally_text` wrote.

    Raises
    ------
    KeyError, TypeError, ValueError
        Where something is missing or is not what it should be.
    """

    def array(name: str, kind: type) -> Any:
        return data[name].to_numpy().astype(kind)

    made = held["moments"]
    facets = tuple(FacetLabels(name, role, tuple(levels)) for name, role, levels in held["facets"])
    labels = {f.name: f.levels for f in facets}
    blocks, cells = tuple(made["blocks"]), tuple(made["cells"])
    codes = array("cell_code", np.int64)
    generations = None
    if made["generations"]:
        number = array("pattern_number", np.int64)
        shape = (number.size, *data["column_code"].shape[:1])
        generations = Generations(
            columns=array("column_code", np.int64).reshape(shape[1], len(cells)),
            blocks=array("pattern_block", np.int64).reshape(shape[0], len(blocks)),
            pattern=array("pattern_column_pattern", np.int64).reshape(shape),
            number=number,
            totals=array("pattern_column_totals", np.float64).reshape(shape),
            cell_squares=array("pattern_column_cell_squares", np.float64).reshape(shape),
            squares=array("pattern_squares", np.float64),
        )
    moments = Moments(
        location=float(made["location"]),
        n_excluded=int(made["n_excluded"]),
        blocks=blocks,
        cells=cells,
        levels=tuple(labels[n] for n in (*blocks, *cells)),
        codes=codes.reshape(-1, len(blocks) + len(cells)),
        count=array("cell_count", np.int64),
        total=array("cell_total", np.float64),
        squares=array("cell_squares", np.float64),
        low=array("cell_low", np.float64),
        high=array("cell_high", np.float64),
        generations=generations,
    )
    return Tally(
        moments=moments,
        facets=facets,
        scale=None if held["scale"] is None else tuple(held["scale"]),
        lower_is_better=held["lower_is_better"],
        replicates=held["replicates"],
        n_repeated=held["n_repeated"],
        mapping=tuple((role, column) for role, column in held["mapping"]),
        problems=tuple(Problem(*fields) for fields in held["problems"]),
        source=held["source"],
    )
