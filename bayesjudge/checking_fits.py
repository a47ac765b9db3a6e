"""The checks of :mod:`bayesjudge.residual_checks`, asked of a fit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bayesjudge.densities import predictors, residual_scales
from bayesjudge.errors import ModelError
from bayesjudge.residual_checks import (
    SPREAD_LEVEL,
    Check,
    beyond_ends,
    check_discrimination,
    check_ends,
    check_spread,
    check_tails,
    check_trend,
    check_values,
    even_spread,
)
from bayesjudge.resolution import Resolved
from bayesjudge.scores.keys import cell_keys
from bayesjudge.scores.table import Scores
from bayesjudge.stored import parameters_of, thinned

if TYPE_CHECKING:
    import xarray as xr

type Floats = NDArray[np.float64]

_JUDGE = "judge"
_JUDGE_SCALE = "Use --model judge_scale, in which judges differ in discrimination and noise"

# Posterior draws whose residuals are looked at, fewer of tables beyond a million scores.
_DRAWS = 8
_MOST_RESIDUALS = 8_000_000


def check_fit(
    resolved: Resolved, scores: Scores, posterior: xr.Dataset, made: dict[str, Any]
) -> tuple[Check, ...]:
    """Check values, ends and residuals; of Student's t values and ends.

    Parameters
    ----------
    resolved : Resolved
    scores : Scores
    posterior : Dataset
        As it is stored; eight draws of it are looked at, all effects included.
    made : dict
        Metadata of the fit.

    Returns
    -------
    tuple of Check
        None for verdicts and categories. Residuals are not looked at where the effects
        of generations were sampled and not kept.
    """
    if resolved.spec.is_latent:
        return ()
    values = check_values(scores.score)
    if values.value < 3:
        # Residuals of verdicts have nothing more to say.
        return (values,)
    found = _realized(resolved, posterior, made)
    backbone = scores.facet("backbone")
    beyond = None
    if found is not None:
        beyond = beyond_ends(*found, _ends(scores), backbone.codes, backbone.n_levels)
    ends = check_ends(scores.score, backbone.codes, backbone.levels, scores.scale, beyond)
    if found is None or resolved.spec.family != "gaussian":
        return (values, ends)
    eta, sigma = found
    checks = _residual_checks(resolved, scores, eta, (scores.score - eta) / sigma)
    judges = () if resolved.discrimination is not None else check_judges(scores)
    return (values, ends, *checks, *judges)


def _residual_checks(
    resolved: Resolved, scores: Scores, eta: Floats, residuals: Floats
) -> list[Check]:
    checks: list[Check] = []
    facets = [
        f
        for f in scores.facets
        if f.role == "panel" and f.n_levels > 1 and f.name != resolved.residual_facet
    ]
    for facet in facets:
        level = SPREAD_LEVEL / len(facets)
        remedy = _spread_remedy(facet.name)
        checks.append(check_spread(residuals, facet.codes, facet.levels, facet.name, remedy, level))
        if checks[-1].found:
            # What is left of wide tails is not the same finding twice.
            residuals = even_spread(residuals, facet.codes)
    whole = (scores.score == np.round(scores.score)).all()
    remedy = (
        "Use --model ordinal, in which scores move less near the ends of the scale"
        if whole
        else "Scores may be better on another scale, as their logarithm or log odds"
    )
    return [*checks, check_trend(residuals, eta, remedy), check_tails(residuals)]


def check_judges(scores: Scores) -> tuple[Check, ...]:
    """Ask whether a panel's judges respond alike to what answers are worth.

    Answers that all judges scored are looked at, generations averaged.

    Returns
    -------
    tuple of Check
        One, or none where there is no panel of judges or no such answer.
    """
    judge = next((f for f in scores.facets if f.name == _JUDGE and f.n_levels > 1), None)
    asked = judge is not None and judge.role == "panel" and scores.has("scenario")
    if judge is None or not asked:
        return ()
    scenario = scores.facet("scenario")
    others = [f for f in scores.facets if f.name not in (_JUDGE, "scenario", "generation")]
    cell, n_cells = cell_keys([f.codes for f in others], [f.n_levels for f in others])
    answer, n_answers = cell_keys([cell, scenario.codes], [n_cells, scenario.n_levels])
    at = answer * judge.n_levels + judge.codes
    size = n_answers * judge.n_levels
    count = np.bincount(at, minlength=size).reshape(n_answers, -1)
    total = np.bincount(at, scores.score, size).reshape(n_answers, -1)
    whole = (count > 0).all(axis=1)
    first = np.unique(answer, return_index=True)[1][whole]
    if not first.size:
        return ()
    rows = total[whole] / count[whole]
    kept = np.unique(scenario.codes[first], return_inverse=True)[1].ravel()
    return (check_discrimination(rows, cell[first], kept, judge.levels, _JUDGE, _JUDGE_SCALE),)


def _spread_remedy(facet: str) -> str:
    if facet == _JUDGE:
        return _JUDGE_SCALE
    if facet == "backbone":
        return "Use --model crossed, in which backbones have residual scales of their own"
    return (
        f'Give the residual a scale by "{facet}" in a model file of your own: '
        "bayesjudge models crossed --toml is one to start from"
    )


def _ends(scores: Scores) -> tuple[float, float]:
    """Return the ends of the scale, half a step out where scores are whole numbers."""
    low, high = scores.scale or (float(scores.score.min()), float(scores.score.max()))
    step = 0.5 if (scores.score == np.round(scores.score)).all() else 0.0
    return low - step, high + step


def _realized(
    resolved: Resolved, posterior: xr.Dataset, made: dict[str, Any]
) -> tuple[Floats, Floats] | None:
    """Return predictors (n, N) and residual scales of some draws; None where effects lack."""
    chains, length = posterior.sizes["chain"], posterior.sizes["draw"]
    wanted = min(_DRAWS, max(_MOST_RESIDUALS // resolved.score.size, 1))
    some = posterior.isel(draw=thinned(chains, length, wanted))
    try:
        given = parameters_of(resolved, some, made)
    except ModelError:
        return None
    return predictors(resolved, given), residual_scales(resolved, given)
