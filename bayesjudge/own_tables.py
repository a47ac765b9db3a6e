"""What only some models say of a fit: what a judge's score is worth, and position bias."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bayesjudge.errors import ModelError
from bayesjudge.fitted import CI_PROB, Fit
from bayesjudge.outcomes import expected_outcome, tie_weight
from bayesjudge.score_precision import precision_of_scores, relative_to_panel
from bayesjudge.summaries import summarize

if TYPE_CHECKING:
    import pandas as pd

type Floats = NDArray[np.float64]


def judge_worth(fit: Fit, *, ci_prob: float = CI_PROB) -> pd.DataFrame:
    """Return one row a judge: discrimination, noise, and what one of its scores is worth.

    Returns
    -------
    DataFrame
        The facet that discrimination is by (``judge``); ``discrimination`` with its
        interval (geometric mean over the panel 1); ``noise``, the residual sd, with its
        interval; ``precision``, lambda^2 / (sigma^2 + variance of the random interactions
        with the judge), the inverse variance with which one score measures what an answer
        is worth; ``worth`` with its interval, the precision relative to the panel's mean.

    Raises
    ------
    ModelError
        Where the model has no discrimination.
    """
    import pandas as pd

    given = fit.resolved.discrimination
    if given is None:
        raise ModelError(
            f"model {fit.spec.name!r} takes all judges to discriminate alike",
            remedy="Use --model judge_scale",
        )
    factors = _draws(fit, "discrimination")
    sigma = _draws(fit, "sigma").reshape(len(factors), -1)
    if fit.resolved.residual_facet not in (None, given.by):
        sigma = np.sqrt(np.mean(sigma**2, axis=1, keepdims=True))
    interactions = np.zeros((len(factors), 1))
    for term in fit.resolved.terms:
        if given.by in term.dims and not set(term.dims) <= set(fit.resolved.panel):
            sd = _draws(fit, f"{term.variable}_sd").reshape(len(factors), -1)
            by_judge = term.scale.by == given.by
            square = sd**2 if by_judge else np.mean(sd**2, axis=1, keepdims=True)
            interactions = interactions + square
    precision = precision_of_scores(factors, sigma, interactions)
    columns: dict[str, Any] = {given.by: pd.Series(list(given.labels), dtype=object)}
    shown = {
        "discrimination": factors,
        "noise": np.broadcast_to(sigma, factors.shape),
        "worth": relative_to_panel(precision),
    }
    for name, draws in shown.items():
        found = summarize(draws, ci_prob, name)
        if name == "worth":
            columns["precision"] = precision.mean(axis=0)
        columns[name] = found[name]
        columns[f"{name}_lower"], columns[f"{name}_upper"] = found["ci_lower"], found["ci_upper"]
    return pd.DataFrame(columns)


def position_bias(fit: Fit, *, ci_prob: float = CI_PROB) -> pd.DataFrame:
    """Return what the first place is worth in a battle of equals, overall and by level.

    Returns
    -------
    DataFrame
        ``facet`` (``panel`` for the mean over all, else judge, language, ...) and
        ``level``; ``bias``, the chance to win and half the chance to tie of the model
        shown first, 0.5 without bias, with sd, ci_lower and ci_upper; ``log_odds`` with
        log_odds_lower and log_odds_upper.

    Raises
    ------
    ModelError
        Where the fit is not of battles, or these do not tell position from strength.
    """
    import pandas as pd

    if not fit.spec.is_paired:
        raise ModelError(
            f"family {fit.spec.family!r} knows no position: its scores are of single answers",
            remedy="Fit battles with --model pairwise",
        )
    lost = next((d.reason for d in fit.resolved.dropped if d.name == "position"), "")
    if lost:
        raise ModelError(f"position was left out: {lost}", remedy="Show each pair in both orders")
    middle = _draws(fit, "intercept")
    rows = [("panel", "", middle)]
    for facet in fit.resolved.panel:
        if facet != "backbone" and any(t.dims == (facet,) for t in fit.resolved.terms):
            effect = _draws(fit, f"{facet}_effect")
            labels = enumerate(fit.resolved_labels(facet))
            rows += [(facet, label, middle + effect[:, i]) for i, label in labels]
    odds = np.stack([draws for _, _, draws in rows], axis=1)
    weight = None
    if fit.resolved.ties is not None:
        weight = tie_weight(_draws(fit, "tie_chance"))[:, None]
    found = summarize(expected_outcome(odds, weight), ci_prob, "bias")
    logs = summarize(odds, ci_prob, "log_odds")
    return pd.DataFrame(
        {
            "facet": pd.Series([facet for facet, _, _ in rows], dtype=object),
            "level": pd.Series([level for _, level, _ in rows], dtype=object),
            **{name: found[name] for name in ("bias", "sd", "ci_lower", "ci_upper")},
            "log_odds": logs["log_odds"],
            "log_odds_lower": logs["ci_lower"],
            "log_odds_upper": logs["ci_upper"],
        }
    )


def own_tables(fit: Fit, ci_prob: float = CI_PROB) -> dict[str, pd.DataFrame]:
    """Return the tables that a fit has beside its leaderboard, by the name of their key."""
    found = {}
    if fit.resolved.discrimination is not None:
        found["judge_worth"] = judge_worth(fit, ci_prob=ci_prob)
    if fit.spec.is_paired and fit.resolved.spec.intercept is not None:
        found["position_bias"] = position_bias(fit, ci_prob=ci_prob)
    return found


def _draws(fit: Fit, name: str) -> Floats:
    """Return draws of a variable of the posterior, chains in a row: (n_draws, ...)."""
    values = fit.posterior["posterior"][name].transpose("chain", "draw", ...).to_numpy()
    return np.asarray(values.reshape(-1, *values.shape[2:]))
