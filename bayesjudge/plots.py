"""Figures of a fit on matplotlib (``pip install "bayesjudge[report]"``).

Each function draws one figure and returns its axes, or an array of them; none touches
pyplot, so nothing is shown or kept but what is returned. ``axes.figure`` is the figure.

>>> import bayesjudge as bj
>>> from bayesjudge import plots
>>> plots.forest(bj.load("fit.nc")).figure.savefig("forest.svg")  # doctest: +SKIP
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bayesjudge.errors import ModelError
from bayesjudge.fitted import CI_PROB, Fit
from bayesjudge.report import figures
from bayesjudge.report.page import gathering
from bayesjudge.report.page.contents import Absent, Matrix, Standing
from bayesjudge.report.page.decisions import design_curves
from bayesjudge.report.page.decomposed import components_of
from bayesjudge.report.page.judging import judges_of, own_pairs
from bayesjudge.report.page.languages import languages_of
from bayesjudge.report.page.predicted import predictive_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "cumulative_ranks",
    "decision_study",
    "forest",
    "judge_offsets",
    "language_ranks",
    "pairwise",
    "predicted_scores",
    "rank_heatmap",
    "rankograms",
    "variance_components",
]


def forest(
    fit: Fit, *, ci_prob: float = CI_PROB, rope: float = 0.0, axes: Axes | None = None
) -> Axes:
    """Draw the backbones' means with intervals; diamonds are the best set, lines part tiers.

    Parameters
    ----------
    fit : Fit
    ci_prob : float
        Probability of the intervals.
    rope : float
        Difference, on the scale of the means, below which two count as equal (tiers).
    axes : matplotlib Axes, optional
        To draw on; a new figure's otherwise.
    """
    board = Standing(
        table=fit.leaderboard(ci_prob=ci_prob, rope=rope),
        best_set=fit.best_set(),
        ci_prob=ci_prob,
        unit=gathering.mean_unit(fit),
        lower_is_better=fit.scores.lower_is_better,
        pairwise=None,
    )
    return figures.draw_forest(board, axes)


def rank_heatmap(fit: Fit, *, axes: Axes | None = None) -> Axes:
    """Draw P(backbone has rank) as a tinted table, best backbone first."""
    return figures.draw_matrix(_ranks(fit), axes)


def rankograms(fit: Fit) -> NDArray[Any]:
    """Draw P(rank) of each backbone as bars, a panel each."""
    return figures.draw_rankograms(_ranks(fit))


def cumulative_ranks(fit: Fit) -> NDArray[Any]:
    """Draw P(rank or better) of each backbone, a panel each, with its SUCRA."""
    table = fit.leaderboard()
    sucra = dict(zip(table["backbone"], table["sucra"], strict=True))
    return figures.draw_cumulative(_ranks(fit), sucra)


def pairwise(fit: Fit, *, axes: Axes | None = None) -> Axes:
    """Draw P(row beats column) as a tinted table.

    Raises
    ------
    ModelError
        Where the model does not pair backbones by scenario.
    """
    return figures.draw_matrix(gathering.pair_matrix(fit.pairwise(), _order(fit)), axes)


def judge_offsets(
    fit: Fit, *, own: Sequence[tuple[str, str]] = (), axes: Axes | None = None
) -> Axes:
    """Draw what judges give backbones beyond their leniency; judges' own are outlined.

    Parameters
    ----------
    fit : Fit
    own : sequence of (judge, backbone)
        Judges that are a backbone, beside those of one name.
    axes : matplotlib Axes, optional

    Raises
    ------
    ModelError
        Where the fit has no effects of judges by backbone.
    UsageError
        Where a judge or backbone is not in the table.
    """
    unit = gathering.latent_unit(fit) if fit.spec.is_latent else "score"
    found = judges_of(fit, _order(fit), own_pairs(fit, own), CI_PROB, unit)
    offsets = found if isinstance(found, Absent) else found.offsets
    if not isinstance(offsets, Matrix):
        raise ModelError(offsets.why.rstrip("."))
    return figures.draw_matrix(offsets, axes)


def language_ranks(fit: Fit) -> NDArray[Any]:
    """Draw each language's ranking, raw and adjusted (CBC); adjusted ones agree by construction.

    Raises
    ------
    ModelError
        Where the table has no two languages that can be compared.
    """
    found = languages_of(fit, _order(fit))
    if isinstance(found, Absent):
        raise ModelError(found.why.rstrip("."))
    return figures.draw_languages(found)


def variance_components(fit: Fit, *, ci_prob: float = CI_PROB, axes: Axes | None = None) -> Axes:
    """Draw variance components with intervals, and the closed form's where there is one."""
    unit = gathering.latent_unit(fit) if fit.spec.is_latent else "score"
    table = fit.variance_components(ci_prob=ci_prob)
    return figures.draw_components(components_of(fit, table, ci_prob, unit), axes)


def decision_study(fit: Fit, *, ci_prob: float = CI_PROB) -> NDArray[Any]:
    """Draw what more scenarios, or fewer judges on each, would make of the answer.

    Raises
    ------
    ModelError
        Where the model is not gaussian, or the table has no scenarios.
    """
    found = design_curves(fit, ci_prob, "score")
    if isinstance(found, Absent):
        raise ModelError(found.why.rstrip("."))
    return figures.draw_design(found)


def predicted_scores(fit: Fit, *, ci_prob: float = CI_PROB) -> NDArray[Any]:
    """Draw the scores of each judge beside those that the model predicts.

    Raises
    ------
    ModelError
        Where predictions cannot be drawn.
    """
    found = predictive_of(fit, ci_prob)
    if isinstance(found, Absent):
        raise ModelError(found.why.rstrip("."))
    return figures.draw_predictive(found)


def _order(fit: Fit) -> tuple[str, ...]:
    """Return the backbones by expected rank."""
    table = fit.rank_probabilities()
    expected = table.to_numpy() @ np.arange(1, table.shape[1] + 1)
    return tuple(table.index[np.argsort(expected, kind="stable")])


def _ranks(fit: Fit) -> Matrix:
    return gathering.rank_matrix(fit.rank_probabilities(), _order(fit))
