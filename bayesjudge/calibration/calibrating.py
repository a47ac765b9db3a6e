"""From scores to their calibration: interaction, adjusted scores, and what they are worth."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bayesjudge.calibration import tables
from bayesjudge.calibration.asking import N_RESAMPLES, N_SPLITS, Asked
from bayesjudge.calibration.cells import Cells, cells_of_scores, usual_facets
from bayesjudge.calibration.posterior import MODEL, Shrunken, check_model, shrink
from bayesjudge.closed_form.agreement import Agreement, gold_agreement
from bayesjudge.closed_form.double_centering import Interaction, interaction
from bayesjudge.closed_form.held_out import HeldOut, held_out
from bayesjudge.closed_form.reversals import Reversals, rank_reversals
from bayesjudge.engines import Settings, choose_engine
from bayesjudge.errors import BayesjudgeError, DataError, ModelError, UsageError
from bayesjudge.fitted import CI_PROB, Fit
from bayesjudge.pairing import refuse_battles
from bayesjudge.scores.lines import Table
from bayesjudge.scores.problems import Problem
from bayesjudge.scores.table import Scores
from bayesjudge.scores.tallying import Tally
from bayesjudge.spec import ModelSpec

if TYPE_CHECKING:
    import pandas as pd

type Floats = NDArray[np.float64]

GOLD_RESAMPLES = 1000

LABEL_FREE = (
    "label-free consistency is not correctness: no human label enters the adjusted scores, and "
    "rankings made to agree can agree on the wrong order"
)


@dataclass(frozen=True, eq=False)
class Calibration:
    """The label-free calibration of a table, and what it is judged by.

    Attributes
    ----------
    scores : Scores
    cells : Cells
        Means of tasks by condition and object.
    asked : Asked
    closed : Interaction
        The estimator's arrays, (m, k).
    interaction : DataFrame
        Condition, object, estimate, se, df, ci_lower, ci_upper (t, a cell), bound (t,
        all cells at once), bound_range and bound_proxy (concentration, all cells at
        once; null without a scale or a proxy), n_tasks, posterior, posterior_sd,
        posterior_lower, posterior_upper, difference (posterior less estimate; where cells
        are missing, of the posterior balanced over the others too) and difference_in_se.
    adjusted : DataFrame
        Condition, object, mean, adjusted, rank, adjusted_rank, n_tasks, extrapolated.
    reversals : DataFrame
        Object, other, the conditions of the largest and smallest difference with the
        differences, p_t, reversed_t, p_bootstrap, p_holm, reversed_holm, p_posterior,
        p_posterior_rope.
    held_out : HeldOut or None
        None where the table has too few tasks; the reason is a note.
    agreement : DataFrame or None
        measure, before, after and gain with their intervals; None without gold.
    adjusted_scores : (N,) float array or None
        Every score less the interaction of its cell, in the table's order; None of a tally.
    posterior : Fit or None
        Of the cell means; None where it was not asked for or cannot be had.
    statements : tuple of str
        What every output says about the worth of the adjustment.
    notes : tuple of str
    findings : tuple of Problem
    seconds : float
    """

    scores: Table
    cells: Cells
    asked: Asked
    closed: Interaction
    interaction: pd.DataFrame
    adjusted: pd.DataFrame
    reversals: pd.DataFrame
    held_out: HeldOut | None
    agreement: pd.DataFrame | None
    adjusted_scores: Floats | None
    posterior: Fit | None
    statements: tuple[str, ...]
    notes: tuple[str, ...]
    findings: tuple[Problem, ...]
    seconds: float

    @property
    def converged(self) -> bool:
        """Whether the posterior, where there is one, can be trusted."""
        return self.posterior is None or self.posterior.convergence.converged

    def __repr__(self) -> str:
        cells = self.cells
        return (
            f"Calibration of {len(cells.condition_labels)} {cells.conditions} x "
            f"{len(cells.object_labels)} {cells.objects} on {cells.n_tasks} tasks; {LABEL_FREE}"
        )


def calibrate(
    scores: Table,
    between: tuple[str, str] | None = None,
    *,
    model: str | Path | ModelSpec | None = MODEL,
    engine: str = "auto",
    priors: Iterable[str] = (),
    ci_prob: float = CI_PROB,
    rope: float | None = None,
    proxy_sd: float | None = None,
    splits: int = N_SPLITS,
    resamples: int = N_RESAMPLES,
    random_seed: int = 0,
    **settings: Any,
) -> Calibration:
    """Estimate the interaction of two facets, take it off, and say what that is worth.

    Tasks (scenarios) are the replicates; what else varies within a task's cell is
    averaged first (STATISTICS section 8; CBC, arXiv:2608.22432).

    Parameters
    ----------
    scores : Scores or Tally
        From :func:`bayesjudge.read_scores`, or :func:`bayesjudge.read_tally`, whose means
        by task and cell are all that this needs; ``human_score`` is used where it is there,
        to measure agreement only.
    between : (str, str), optional
        Facets: what rankings are compared over (``"language"``), and what is ranked
        (``"backbone"``). By default language, or else judge, and backbone.
    model : str, path, ModelSpec or None
        Of the posterior; None leaves it out.
    engine : str
        As in :func:`bayesjudge.fit`.
    priors : iterable of str
        Overrides, as in :func:`bayesjudge.fit`.
    ci_prob : float
        Probability of intervals and bounds; tests are at 1 - ci_prob.
    rope : float, optional
        Difference of cell means, on the scale of scores, below which none counts.
    proxy_sd : float, optional
        Known root of the sub-Gaussian variance proxy of a task's score in a cell.
    splits, resamples : int
        Halves for held-out consistency; bootstrap samples for reversals.
    random_seed : int
    **settings
        ``draws``, ``tune``, ``chains``, ``target_accept``, as in :func:`bayesjudge.fit`.

    Returns
    -------
    Calibration

    Raises
    ------
    DataError
        Where a facet is absent or has one level, or the two fall into parts that no
        cell joins.
    ModelError
        Where the model is not gaussian or lacks the interaction.
    UsageError
        Where an argument is out of range.
    """
    if not isinstance(scores, (Scores, Tally)):
        raise UsageError(
            f"calibrate takes Scores, not {type(scores).__name__}",
            remedy="Read the table first: bayesjudge.read_scores(table)",
        )
    refuse_battles(scores, "calibrate")
    asked = Asked(between, ci_prob, rope, proxy_sd, splits, resamples, random_seed)
    spec = None
    if model is not None:
        spec = check_model(model, priors)
        choose_engine(engine, spec.is_linear)
        settings = {**settings, "random_seed": random_seed}
        Settings(**{name: value for name, value in settings.items() if value is not None})
    started = time.perf_counter()
    cells = cells_of_scores(scores, *(between or usual_facets(scores)))
    tables.check_names(cells)
    notes = _what_was_averaged(scores, cells, between)
    closed = interaction(cells.tasks)
    shrunken, why = _posterior(cells, scores, spec, engine, settings)
    halves, no_halves = _held_out(cells, asked, scores.lower_is_better)
    tested, no_tests = _reversals(cells, asked)
    agreed, no_gold = _agreement(cells, asked)
    notes += [*why, *no_halves, *no_tests, *no_gold]
    if np.isnan(closed.estimate[closed.n_tasks > 0]).any():
        notes.append(
            "a cell that alone joins its row or column to the others has no interaction that "
            "could be estimated: its scores are left as they are"
        )
    return Calibration(
        scores=scores,
        cells=cells,
        asked=asked,
        closed=closed,
        interaction=tables.interaction_table(cells, closed, shrunken, asked, scores.scale),
        adjusted=tables.adjusted_table(cells, closed, scores.lower_is_better),
        reversals=tables.reversals_table(cells, tested, shrunken, asked),
        held_out=halves,
        agreement=None if agreed is None else tables.agreement_table(agreed),
        adjusted_scores=scores.score - _shift_of_scores(cells, closed)
        if isinstance(scores, Scores)
        else None,
        posterior=None if shrunken is None else shrunken.fit,
        statements=(LABEL_FREE, reproducibility(halves, cells)),
        notes=tuple(notes),
        findings=cells.findings,
        seconds=time.perf_counter() - started,
    )


def reproducibility(halves: HeldOut | None, cells: Cells) -> str:
    """Say whether the interaction is found again on other tasks, and that it is deleted."""
    about = f"{cells.conditions} x {cells.objects} interaction"
    if halves is None:
        return (
            f"whether the {about} is reproducible was not measured; where it is, CBC deletes "
            "something real about these scores, right or wrong"
        )
    errors = (
        f"cell means of held-out tasks are predicted to {halves.rmse_with_interaction:.3g} with it "
        f"and {halves.rmse_without_interaction:.3g} without (root mean squared errors)"
    )
    if halves.is_reproducible:
        return (
            f"the {about} is reproducible, and CBC deletes it: {errors}; only labels can tell "
            "whether it was an error"
        )
    return (
        f"the {about} is not shown to be reproducible: {errors}; what CBC deletes here is mostly "
        "noise"
    )


def _what_was_averaged(scores: Table, cells: Cells, between: tuple[str, str] | None) -> list[str]:
    said = []
    if between is None:
        said.append(
            f"interaction of {cells.conditions} and {cells.objects}, as --between was not given"
        )
    for name in (cells.conditions, cells.objects):
        if scores.facet(name).role == "random":
            said.append(f"{name} is taken as a panel here: the interaction sums to zero over it")
    if not cells.has_tasks:
        said.append(
            "one task only (or no scenario column): nothing tells chance from interaction, and "
            "standard errors, tests and held-out figures are null"
        )
        return said
    others = f" over {', '.join(cells.averaged)}" if cells.averaged else ""
    if others or scores.replicates:
        said.append(f"scores of a task's cell are averaged{others}: n counts {cells.n_tasks} tasks")
    return said


def _posterior(
    cells: Cells, scores: Table, spec: ModelSpec | None, engine: str, settings: dict[str, Any]
) -> tuple[Shrunken | None, list[str]]:
    if spec is None:
        return None, []
    if not cells.has_tasks:
        return None, ["no posterior: one task cannot tell the interaction from the residual"]
    given = {name: value for name, value in settings.items() if value is not None}
    try:
        return shrink(cells, scores, spec, engine, given), []
    except (DataError, ModelError) as error:
        return None, [f"no posterior: {error}"]


def _held_out(
    cells: Cells, asked: Asked, lower_is_better: bool
) -> tuple[HeldOut | None, list[str]]:
    rng = np.random.default_rng([asked.random_seed, 1])
    try:
        found = held_out(cells.tasks, asked.splits, rng, lower_is_better)
    except DataError as error:
        return None, [f"no held-out figures: {error}"] if cells.has_tasks else []
    if found.n_splits < asked.splits:
        lost = asked.splits - found.n_splits
        return found, [f"{lost} of {asked.splits} splits left a half with too few cells"]
    return found, []


def _reversals(cells: Cells, asked: Asked) -> tuple[Reversals | None, list[str]]:
    if not cells.has_tasks:
        return None, []
    rng = np.random.default_rng([asked.random_seed, 2])
    found = rank_reversals(cells.tasks, asked.resamples, rng)
    tests = int(np.count_nonzero(~np.isnan(found.p_bootstrap)))
    if tests / (asked.resamples + 1) >= 1 - asked.ci_prob:
        return found, [
            f"{asked.resamples:,} resamples are too few for {tests:,} pairs: no Holm-adjusted "
            f"p value can be below {1 - asked.ci_prob:.3g}; raise --resamples"
        ]
    return found, []


def _agreement(cells: Cells, asked: Asked) -> tuple[tuple[Agreement, ...] | None, list[str]]:
    if cells.gold is None:
        return None, []
    rng = np.random.default_rng([asked.random_seed, 3])
    resamples = min(asked.resamples, GOLD_RESAMPLES)
    try:
        found = gold_agreement(cells.tasks, cells.gold, resamples, rng, asked.ci_prob)
    except BayesjudgeError as error:
        return None, [f"no agreement with human_score: {error}"]
    said = [
        "human_score measures agreement only: adjusted scores are judge-adjusted, not "
        f"human-anchored; {resamples:,} resamples of tasks"
    ]
    if found[0].threshold is not None:
        said.append(
            f"human_score is a preference: a score sides with the gold where both are on one "
            f"side of {found[0].threshold:.6g}, the middle of its two values"
        )
    return found, said


def _shift_of_scores(cells: Cells, closed: Interaction) -> Floats:
    kept = np.where(np.isnan(closed.estimate), 0.0, closed.estimate)
    return np.asarray(kept[cells.condition_codes, cells.object_codes])
