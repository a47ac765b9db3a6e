"""A fit as one netCDF file: posterior, scores and model together."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bayesjudge.errors import DataError
from bayesjudge.scores.lines import Table
from bayesjudge.scores.problems import Problem
from bayesjudge.scores.table import Facet, Failed, Scores
from bayesjudge.spec import ModelSpec, parse_model
from bayesjudge.storing_tallies import tally_of, tally_text, tally_variables

if TYPE_CHECKING:
    import xarray as xr


def scores_to_dataset(tree: xr.DataTree, spec: ModelSpec, scores: Table) -> None:
    """Put the scores, or their moments, and the model into ``constant_data``, in place.

    Labels and settings are one JSON string in a variable: attributes of netCDF
    hold neither None nor more than 64 kB.
    """
    import xarray as xr

    model = {"model": spec.to_data(), "overrides": list(spec.overrides)}
    if isinstance(scores, Scores):
        variables, said = _scores_variables(scores), _scores_text(scores)
    else:
        variables, said = tally_variables(scores), tally_text(scores)
    text = json.dumps(model | said)
    variables["table"] = ((), np.array(text, dtype=object))
    merged = tree["constant_data"].to_dataset().assign(variables)
    tree["constant_data"] = xr.DataTree(merged)


def _scores_variables(scores: Scores) -> dict[str, Any]:
    variables: dict[str, Any] = {
        f"{facet.name}_code": (("observation",), facet.codes) for facet in scores.facets
    }
    if scores.human_score is not None:
        variables["human_score"] = (("observation",), scores.human_score)
    if scores.failed is not None and len(scores.failed):
        variables["failed_code"] = (("failed", "failed_facet"), scores.failed.codes)
    if scores.opponent is not None:
        variables["opponent_code"] = (("observation",), scores.opponent)
    for number, (_, values) in enumerate(scores.covariates):
        variables[f"covariate_{number}"] = (("observation",), values)
    return variables


def _scores_text(scores: Scores) -> dict[str, Any]:
    return {
        "facets": [[f.name, f.role, list(f.levels)] for f in scores.facets],
        "scale": scores.scale,
        "lower_is_better": scores.lower_is_better,
        "replicates": scores.replicates,
        "n_excluded": scores.n_excluded,
        "mapping": [list(pair) for pair in scores.mapping],
        "problems": [[p.severity, p.what, p.where, p.rows, p.remedy] for p in scores.problems],
        "source": scores.source,
        "covariates": list(scores.covariate_names),
        "failed": None if scores.failed is None else list(scores.failed.names),
    }


def scores_from_dataset(tree: xr.DataTree, where: str) -> tuple[ModelSpec, Table]:
    """Read back what :func:`scores_to_dataset` put there.

    Raises
    ------
    DataError
        Where the file holds no fit of bayesjudge.
    """
    if "constant_data" not in tree.children or "table" not in tree["constant_data"]:
        raise DataError("the file is no saved fit", where, "Save one with fit.save(path)")
    if "posterior" not in tree.children or "bayesjudge" not in tree.attrs:
        raise DataError("the saved fit lacks its posterior or its settings", where, "Fit again")
    try:
        return _scores_from_text(tree, where)
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(
            f"the saved fit is damaged, or of another version: {error!r}", where, "Fit again"
        ) from error


def _scores_from_text(tree: xr.DataTree, where: str) -> tuple[ModelSpec, Table]:
    data = tree["constant_data"].to_dataset()
    held = json.loads(str(data["table"].item()))
    spec = replace(parse_model(held["model"], where), overrides=tuple(held["overrides"]))
    if "moments" in held:
        return spec, tally_of(held, data)
    facets = tuple(
        Facet(name, role, tuple(levels), data[f"{name}_code"].to_numpy().astype(np.int64))
        for name, role, levels in held["facets"]
    )
    scores = Scores(
        score=data["score"].to_numpy(),
        facets=facets,
        human_score=data["human_score"].to_numpy() if "human_score" in data else None,
        scale=None if held["scale"] is None else tuple(held["scale"]),
        lower_is_better=held["lower_is_better"],
        replicates=held["replicates"],
        n_excluded=held["n_excluded"],
        mapping=tuple((role, column) for role, column in held["mapping"]),
        problems=tuple(Problem(*fields) for fields in held["problems"]),
        source=held["source"],
        covariates=tuple(
            (name, data[f"covariate_{number}"].to_numpy())
            for number, name in enumerate(held.get("covariates", ()))
        ),
        failed=_failed(
            held.get("failed"), data["failed_code"].to_numpy() if "failed_code" in data else None
        ),
        opponent=data["opponent_code"].to_numpy().astype(np.int64)
        if "opponent_code" in data
        else None,
    )
    return spec, scores


def _failed(names: list[str] | None, codes: NDArray[np.int64] | None) -> Failed | None:
    if names is None:
        return None
    held = np.zeros((0, len(names)), np.int64) if codes is None else codes.astype(np.int64)
    return Failed(tuple(names), held)


def write_tree(tree: xr.DataTree, path: Path) -> Path:
    """Write a DataTree as netCDF, whole or not at all.

    Raises
    ------
    DataError
        Where the folder does not exist or cannot be written to.
    """
    partial = path.with_name(f".{path.name}.partial")
    try:
        tree.to_netcdf(partial, engine="h5netcdf")
        partial.replace(path)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise DataError(f"the fit cannot be written: {error}", str(path)) from error
    return path


def read_tree(path: Path) -> xr.DataTree:
    """Read a netCDF file into memory.

    Raises
    ------
    DataError
        Where the file is missing or is no netCDF file of groups.
    """
    import xarray as xr

    if not path.is_file():
        raise DataError("the file does not exist", str(path))
    try:
        with xr.open_datatree(path, engine="h5netcdf") as tree:
            return tree.load()
    except (OSError, ValueError, KeyError) as error:
        raise DataError(f"the file cannot be read as a saved fit: {error}", str(path)) from error
