"""From one judge's scores, or all judges', to draws of acceptance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayesjudge.auditing.acceptance import FEW_VALUES, cell_weights
from bayesjudge.auditing.answer import Settings
from bayesjudge.auditing.deciding import Judged
from bayesjudge.auditing.describing import LEVEL
from bayesjudge.auditing.posterior import (
    GaussianDraws,
    ScoreDraws,
    WeightedItems,
)
from bayesjudge.auditing.structure import dispersion
from bayesjudge.auditing.table import AuditTable
from bayesjudge.errors import BayesjudgeError
from bayesjudge.fitted import Fit
from bayesjudge.fitting import fit
from bayesjudge.scores.table import Facet, Scores

type Floats = NDArray[np.float64]
type Ints = NDArray[np.int64]

BOOTSTRAP = "Bayesian bootstrap of scenarios"
LEAST_ITEMS = 5
PERMUTATIONS = 199


@dataclass(frozen=True, eq=False)
class Believed:
    """Draws for one judge, how they were made, and whether they can be trusted."""

    draws: ScoreDraws
    method: str
    converged: bool = True


def reads_as_measure(one: Judged, seed: int) -> bool:
    """Whether a normal model of language x item can describe a judge's scores.

    It needs many distinct scores, one cell, one score an item and language, and
    languages whose spread does not differ beyond chance: what items share counts in
    each language alike, so a language of narrow scores is not in it.
    """
    table = one.whole
    if one.verdicts or np.unique(table.score).size <= FEW_VALUES:
        return False
    if np.unique(table.cell).size > 1 or np.unique(table.cluster).size < LEAST_ITEMS:
        return False
    key = table.cluster * len(table.languages) + table.language
    if np.unique(key).size < key.size:
        return False
    spread = dispersion(table, PERMUTATIONS, np.random.default_rng([seed, 2]))
    return bool(spread.p_value >= LEVEL)


def language_scores(table: AuditTable, with_judge: bool = False) -> Scores:
    """Return scores whose object of measurement, the ``backbone``, is the language.

    Residuals of the model ``crossed`` are then of each language's own scale.

    Parameters
    ----------
    table : AuditTable
    with_judge : bool
        Keep the judges as a facet, their scores standardized.
    """
    score = table.score
    if with_judge:
        score = score.copy()
        for code in np.unique(table.judge):
            rows = table.judge == code
            sd = score[rows].std()
            score[rows] = (score[rows] - score[rows].mean()) / (sd if sd > 0 else 1.0)
    facets = [_facet("backbone", "panel", table.language, table.languages)]
    if with_judge:
        facets.append(_facet("judge", "panel", table.judge, table.judges))
    labels = tuple(str(k) for k in range(int(table.item.max()) + 1))
    facets.append(_facet("scenario", "random", table.item, labels))
    return Scores(score, tuple(facets), source="the audited table")


def _facet(name: str, role: Any, codes: Ints, labels: tuple[str, ...]) -> Facet:
    present, compact = np.unique(codes, return_inverse=True)
    return Facet(name, role, tuple(labels[i] for i in present), compact.astype(np.int64))


def gaussian_draws(fitted: Fit, languages: tuple[str, ...]) -> GaussianDraws:
    """Return mean and sd of a new item's score in each language, of one judge's fit.

    Parameters
    ----------
    fitted : Fit
        Of ``crossed`` to :func:`language_scores`.
    languages : tuple of str
        In the order wanted; nan where the fit lacks one.
    """
    mean, variance = _moments(fitted)
    at = [languages.index(name) for name in fitted.labels]
    out = np.full((2, len(mean), len(languages)), np.nan)
    out[0][:, at], out[1][:, at] = mean, np.sqrt(variance)
    return GaussianDraws(out[0], out[1])


def _moments(fitted: Fit) -> tuple[Floats, Floats]:
    """Return backbone means and the variance of one score about them, (D, L) each."""
    posterior = fitted.posterior["posterior"]

    def flat(name: str) -> Floats:
        values = posterior[name].transpose("chain", "draw", ...).to_numpy()
        return np.asarray(values.reshape(-1, *values.shape[2:]))

    mean = flat("backbone_mean")
    variance = np.zeros_like(mean)
    for term in fitted.resolved.terms:
        if set(term.dims) <= set(fitted.resolved.panel):
            continue
        sd = flat(f"{term.variable}_sd")
        # One scale a language, or one for all.
        variance = variance + (sd if sd.ndim == 2 else sd[:, None]) ** 2
    sigma = flat("sigma")
    return mean, variance + (sigma if sigma.ndim == 2 else sigma[:, None]) ** 2


def believe(one: Judged, settings: Settings, weights: Floats, clusters: Ints) -> Believed:
    """Return draws of one judge's acceptance, by the model or by weighing scenarios.

    Parameters
    ----------
    one : Judged
    settings : Settings
    weights : (D, C) float array
        Of the scenarios in ``clusters``: the same for all judges.
    clusters : (C,) int array
    """
    wanted = settings.posterior
    # Verdicts have a model of their own, over all judges at once.
    asked = wanted == "model" and not one.verdicts
    if asked or (wanted == "auto" and reads_as_measure(one, settings.seed)):
        try:
            made = fit(language_scores(one.whole), draws=settings.draws, random_seed=settings.seed)
        except BayesjudgeError:
            if asked:
                raise
        else:
            method = f"crossed ({made.metadata['engine']}, {made.metadata['method']})"
            draws = gaussian_draws(made, one.whole.languages)
            if made.convergence.converged or asked:
                return Believed(draws, method, made.convergence.converged)
    return Believed(weighted(one.whole, weights, clusters), BOOTSTRAP)


def weighted(table: AuditTable, weights: Floats, clusters: Ints) -> WeightedItems:
    """Return one judge's rows with the random weights of their scenarios."""
    return WeightedItems(
        score=table.score,
        language=table.language,
        cluster=np.searchsorted(clusters, table.cluster),
        row_weight=cell_weights(table),
        weights=weights,
        n_languages=len(table.languages),
    )


@dataclass(frozen=True, eq=False)
class Panel:
    """Draws over all judges.

    Attributes
    ----------
    rates : (D, L) float array
        Acceptance averaged over judges, each at its own threshold.
    method : str
    converged : bool
    """

    rates: Floats
    method: str
    converged: bool = True


def panel_by_model(
    table: AuditTable, by_judge: Mapping[str, Judged], settings: Settings
) -> Panel | None:
    """Return acceptance over the panel from one crossed fit of language x judge x item.

    Scores are standardized within judge; None where a judge lacks a language, or, unless
    the model is asked for, where a judge's scores are no measure.
    """
    judges = list(by_judge.values())
    languages = judges[0].whole.languages
    everywhere = all(np.unique(j.whole.language).size == len(languages) for j in judges)
    if not everywhere or any(one.verdicts for one in judges):
        return None
    asked = settings.posterior == "model"
    if not asked and not all(reads_as_measure(one, settings.seed) for one in judges):
        return None
    whole = replace(table, score=judges[0].sign * table.score)
    scores = language_scores(whole, with_judge=True)
    try:
        made = fit(scores, draws=settings.draws, random_seed=settings.seed)
    except BayesjudgeError:
        if asked:
            raise
        return None
    if not (asked or made.convergence.converged):
        return None
    mean, variance = _moments(made)
    total = np.zeros_like(mean)
    for code, one in enumerate(judges):
        at = mean + _of_judge(made, code)
        threshold = (one.threshold - one.whole.score.mean()) / one.whole.score.std()
        total += GaussianDraws(at, np.sqrt(variance)).rates(np.full(len(languages), threshold))
    order = [made.labels.index(name) for name in languages]
    method = f"crossed over judges ({made.metadata['engine']}, {made.metadata['method']})"
    return Panel(total[:, order] / len(judges), method, made.convergence.converged)


def _of_judge(fitted: Fit, code: int) -> Floats:
    """Return what one judge adds to the backbone means, (D, L) or (D, 1)."""
    posterior = fitted.posterior["posterior"]
    added: Floats = np.zeros((1, 1))
    for name, dims in (("judge", 1), ("backbone_judge", 2)):
        if f"{name}_effect" in posterior:
            values = posterior[f"{name}_effect"].transpose("chain", "draw", ...).to_numpy()
            flat = values.reshape(-1, *values.shape[2:])
            added = added + (flat[:, None, code] if dims == 1 else flat[:, :, code])
    return added


def panel_of_verdicts(table: AuditTable, settings: Settings) -> Panel:
    """Return acceptance of 0/1 verdicts by language, from the model ``verdict`` (NUTS).

    Averaged over the panel of judges and marginal over items.
    """
    with_judge = len(table.judges) > 1
    scores = replace(language_scores(table, with_judge), score=table.score)
    made = fit(scores, "verdict", random_seed=settings.seed)
    at = [table.languages.index(name) for name in made.labels]
    rates = np.full((len(made.means()), len(table.languages)), np.nan)
    rates[:, at] = made.means()
    return Panel(rates, "verdict (numpyro, nuts)", made.convergence.converged)
