"""One all-random fit, two questions: means over the panel at hand, and under a new judge."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bayesjudge.errors import ModelError, UsageError
from bayesjudge.fitted import CI_PROB, Fit
from bayesjudge.summaries import summarize

if TYPE_CHECKING:
    import pandas as pd

    from bayesjudge.resolution import ResolvedTerm

type Floats = NDArray[np.float64]

ABOUT_PEOPLE = ("judge", "language")


def panel_means(fit: Fit) -> Floats:
    """Return draws of the means over the levels in the table, (n_draws, B).

    Where judges or languages are random, the effects of those in the table (``judge``,
    ``backbone:judge``) are averaged and added; where they are the panel this is what the
    leaderboard shows.

    Raises
    ------
    ModelError
        Where a random judge or language stands behind a link.
    """
    means = fit.means()
    random = set(fit.resolved.random) & set(ABOUT_PEOPLE)
    if not random:
        return means
    _refuse_links(fit)
    known = {*fit.resolved.panel, *random}
    for term in fit.resolved.terms:
        if random & set(term.dims) and set(term.dims) <= known:
            draws = _counted(fit, term, fit.effect_draws(term.name))
            axes = tuple(1 + i for i, dim in enumerate(term.dims) if dim != "backbone")
            means = means + draws.mean(axis=axes).reshape(len(means), -1)
    return means


def new_level_means(fit: Fit, facet: str = "judge") -> Floats:
    """Return draws of each backbone's mean under one level not in the table, (n_draws, B).

    The means over the population, plus new effects of ``facet`` and of ``backbone:facet``
    drawn from their scales; a new judge is shared by all backbones within a draw. What a
    new judge does in each language of the panel is averaged over them.

    Raises
    ------
    ModelError
        Where the facet is not random in this fit, or stands behind a link.
    """
    if facet not in fit.resolved.random:
        raise ModelError(
            f"{facet} is not random in this fit",
            remedy=f"Read the table with random=[{facet!r}] (--random {facet}) and fit again",
        )
    _refuse_links(fit)
    means = fit.means()
    rng = np.random.default_rng([fit.metadata["settings"]["random_seed"], 5])
    for term in fit.resolved.terms:
        if facet in term.dims:
            means = means + _new_effects(fit, term, facet, means.shape, rng)
    return means


def _new_effects(
    fit: Fit, term: ResolvedTerm, facet: str, shape: tuple[int, int], rng: np.random.Generator
) -> Floats:
    """Draw what a term adds under a new level of a facet, averaged over the rest of the panel."""
    others = [i for i, dim in enumerate(term.dims) if dim not in ("backbone", facet)]
    if any(term.dims[i] not in fit.resolved.panel or term.centred[i] for i in others):
        # Over a population, or levels whose effects sum to zero, it averages out.
        return np.zeros((shape[0], 1))
    if term.by_labels and len(term.by_labels) != shape[1]:
        raise ModelError(
            f"the term {term.name} has a scale for each level of the panel",
            remedy="Give it one scale to ask about a new level",
        )
    sd = _counted(fit, term, _scale_draws(fit, f"{term.variable}_sd"))
    sd = sd / np.sqrt(np.prod([term.shape[i] for i in others]))
    width = shape[1] if "backbone" in term.dims else 1
    return np.asarray(sd * rng.standard_normal((shape[0], width)))


def panel_or_new(fit: Fit, facet: str = "judge", *, ci_prob: float = CI_PROB) -> pd.DataFrame:
    """Return each backbone's mean as two questions see it, from one all-random fit.

    Parameters
    ----------
    fit : Fit
        Of a table read with ``random=[facet]``, gaussian.
    facet : {"judge", "language"}
    ci_prob : float

    Returns
    -------
    DataFrame
        question, backbone, mean, sd, ci_lower, ci_upper, sorted as the backbones are.
        ``panel``: over the levels in the table; ``population``: over all levels that
        there could be, which the leaderboard of such a fit shows; ``new``: under one
        level not in the table.

    Raises
    ------
    ModelError
        Where the facet is not random in this fit, or stands behind a link.
    UsageError
        Where the facet is neither.
    """
    import pandas as pd

    if facet not in ABOUT_PEOPLE:
        raise UsageError(f"{facet!r} is no facet of this question", "facet", "judge or language")
    new = new_level_means(fit, facet)
    found = {"panel": panel_means(fit), "population": fit.means(), "new": new}
    frames = [
        pd.DataFrame(
            {
                "question": pd.Series([name] * len(fit.labels), dtype=object),
                "backbone": pd.Series(list(fit.labels), dtype=object),
                **summarize(draws, ci_prob, "mean"),
            }
        )
        for name, draws in found.items()
    ]
    return pd.concat(frames, ignore_index=True)


def _counted(fit: Fit, term: ResolvedTerm, draws: Floats) -> Floats:
    """Return effects or sds, (n_draws, ...), times what the term counts by over the panel."""
    if not fit.resolved.is_scaled(term):
        return draws
    factor = _scale_draws(fit, "discrimination").mean(axis=1)
    return draws * factor.reshape(-1, *(1,) * (draws.ndim - 1))


def _scale_draws(fit: Fit, name: str) -> Floats:
    """Return draws of a sd, (n_draws, 1) or one column a level."""
    values = fit.posterior["posterior"][name].transpose("chain", "draw", ...).to_numpy()
    return np.asarray(values.reshape(values.shape[0] * values.shape[1], -1))


def _refuse_links(fit: Fit) -> None:
    if fit.spec.is_latent:
        raise ModelError(
            f"family {fit.spec.family!r} averages random facets behind its link",
            remedy="Ask this of a gaussian fit",
        )
