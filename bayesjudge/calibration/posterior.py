"""The interaction as a posterior: shrunken, with intervals."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayesjudge.calibration.cells import Cells
from bayesjudge.errors import ModelError
from bayesjudge.families import response_location, response_unit
from bayesjudge.fitted import Fit
from bayesjudge.fitting import fit
from bayesjudge.scores.lines import Table
from bayesjudge.scores.table import Facet, Scores
from bayesjudge.spec import ModelSpec, override_prior, read_model

type Floats = NDArray[np.float64]

MODEL = "language_backbone"

_TERM = "backbone:language"


@dataclass(frozen=True, eq=False)
class Shrunken:
    """Draws of what double-centering estimates.

    Attributes
    ----------
    fit : Fit
        Of the table of cells; objects are its backbones, conditions its languages.
    interaction : (S, m, k) float array
    within : (S, m, k) float array
        Object plus interaction: cell means up to what objects of a condition share.
    """

    fit: Fit
    interaction: Floats
    within: Floats


def check_model(model: str | Path | ModelSpec, priors: Iterable[str] = ()) -> ModelSpec:
    """Return the model that cells are fitted with.

    Raises
    ------
    ModelError
        Where it is not gaussian, takes covariates, or lacks the interaction.
    """
    spec = model if isinstance(model, ModelSpec) else read_model(model)
    for text in (priors,) if isinstance(priors, str) else priors:
        spec = override_prior(spec, text)
    where = f"model {spec.name}"
    if not spec.is_linear:
        raise ModelError(
            "calibration fits means of a task's cells: it takes gaussian models without covariates",
            where,
            f"Use {MODEL}, or a model of your own",
        )
    spec.term(_TERM)
    return spec


def shrink(
    cells: Cells, scores: Table, spec: ModelSpec, engine: str, settings: dict[str, Any]
) -> Shrunken:
    """Fit the cell means of tasks.

    Parameters
    ----------
    cells : Cells
    scores : Scores or Tally
        Where the cells came from; unit and location of the priors are theirs.
    spec : ModelSpec
    engine : str
    settings : dict
        As :func:`bayesjudge.fitting.fit` takes them.

    Returns
    -------
    Shrunken

    Raises
    ------
    DataError
        Where backbones cannot be told from the residual, as with one task.
    ModelError
        Where the interaction cannot be told from the residual.
    """
    known = scores.score if isinstance(scores, Scores) else scores.moments
    unit = response_unit(known, scores.scale)
    location = response_location(known, scores.scale, unit)
    made = fit(
        table_of_cells(cells, scores), spec, engine, unit=unit, location=location, **settings
    )
    made.resolved.term(_TERM)
    posterior = made.posterior["posterior"]
    both = posterior["backbone_language_effect"].transpose("chain", "draw", "language", "backbone")
    main = posterior["backbone_effect"].transpose("chain", "draw", "backbone")
    interaction = both.to_numpy().reshape(-1, *both.shape[2:])
    within = interaction + main.to_numpy().reshape(-1, 1, main.shape[2])
    return Shrunken(made, interaction, within)


def table_of_cells(cells: Cells, scores: Table) -> Scores:
    """Return one score a task, condition and object, under the names the model knows."""
    task, row, column = np.nonzero(~np.isnan(cells.tasks))
    facets = [
        Facet("backbone", "panel", cells.object_labels, column),
        Facet("language", "panel", cells.condition_labels, row),
    ]
    if cells.has_tasks:
        facets.append(Facet("scenario", "random", cells.task_labels, task))
    return Scores(
        score=cells.tasks[task, row, column],
        facets=tuple(facets),
        scale=scores.scale,
        lower_is_better=scores.lower_is_better,
        n_excluded=scores.n_excluded,
        mapping=(("backbone", cells.objects), ("language", cells.conditions)),
        source=f"{scores.source} (means of task cells)",
    )
