"""Acceptance with uncertainty: pure functions of posterior draws.

Draws come either from a fitted model, of which each language's scores are normal with
a mean and a sd, or from the Bayesian bootstrap (Rubin 1981), which weighs scenarios at
random and assumes no shape.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

type Floats = NDArray[np.float64]
type Ints = NDArray[np.int64]


class ScoreDraws(Protocol):
    """Draws of what scores of one judge look like in each language."""

    def rates(self, thresholds: Floats) -> Floats:
        """Return the share of new scores above each language's threshold, (D, L)."""
        ...

    def thresholds(self, rate: float) -> Floats:
        """Return the thresholds that a share ``rate`` of new scores exceeds, (D, L)."""
        ...


@dataclass(frozen=True, eq=False)
class GaussianDraws:
    """Normal scores: mean and sd of a new item's score, (D, L) each."""

    mean: Floats
    sd: Floats

    def rates(self, thresholds: Floats) -> Floats:
        """Return P(score > threshold) by draw, (D, L)."""
        from scipy.special import ndtr

        return np.asarray(ndtr((self.mean - thresholds) / self.sd))

    def thresholds(self, rate: float) -> Floats:
        """Return the thresholds that a share ``rate`` exceeds, (D, L)."""
        from scipy.special import ndtri

        return np.asarray(self.mean - self.sd * float(ndtri(rate)))


@dataclass(frozen=True, eq=False)
class WeightedItems:
    """Scores of items, and random weights of their scenarios.

    Attributes
    ----------
    score : (N,) float array
    language : (N,) int array
    cluster : (N,) int array
        Column of ``weights``.
    row_weight : (N,) float array
        Fixed weight of a row beside its scenario's.
    weights : (D, C) float array
    n_languages : int
    """

    score: Floats
    language: Ints
    cluster: Ints
    row_weight: Floats
    weights: Floats
    n_languages: int

    def rates(self, thresholds: Floats) -> Floats:
        """Return the weighted share above the thresholds, (D, L); nan without scores."""
        limit = np.broadcast_to(thresholds, (self.n_languages,))
        accepted = self.row_weight * (self.score > limit[self.language])
        return self._ratio(accepted)

    def _ratio(self, values: Floats) -> Floats:
        C, L = self.weights.shape[1], self.n_languages
        place = self.cluster * L + self.language
        top = np.bincount(place, weights=values, minlength=C * L).reshape(C, L)
        size = np.bincount(place, weights=self.row_weight, minlength=C * L).reshape(C, L)
        with np.errstate(invalid="ignore"):
            return np.asarray((self.weights @ top) / (self.weights @ size))

    def thresholds(self, rate: float) -> Floats:
        """Return weighted quantiles, (D, L): the least score that at most ``rate`` exceeds."""
        out = np.full((len(self.weights), self.n_languages), np.nan)
        for code in np.unique(self.language):
            rows = np.flatnonzero(self.language == code)
            rows = rows[np.argsort(self.score[rows], kind="stable")]
            mass = self.weights[:, self.cluster[rows]] * self.row_weight[rows]
            below = np.cumsum(mass, axis=1)
            below /= below[:, -1:]
            at = np.argmax(below >= 1.0 - rate - 1e-12, axis=1)
            out[:, code] = self.score[rows][at]
        return out


def bootstrap_weights(n_draws: int, cluster_cell: Ints, rng: np.random.Generator) -> Floats:
    """Return weights of scenarios by draw, summing to their number within each cell.

    Parameters
    ----------
    n_draws : int
    cluster_cell : (C,) int array
        The cell that each scenario belongs to: cells are not drawn, scenarios are.

    Returns
    -------
    (n_draws, C) float array
        Dirichlet(1, ..., 1) within cells.
    """
    weights = rng.exponential(size=(n_draws, cluster_cell.size))
    for code in np.unique(cluster_cell):
        inside = cluster_cell == code
        weights[:, inside] *= inside.sum() / weights[:, inside].sum(axis=1, keepdims=True)
    return weights


@dataclass(frozen=True, eq=False)
class Favour:
    """Which languages a common threshold favours.

    Attributes
    ----------
    favoured, disfavoured : (L,) float array
        P(rate - mean rate of all languages > margin), and < -margin.
    highest, lowest : (L,) float array
        P(its rate is the highest), (lowest), ties shared.
    """

    favoured: Floats
    disfavoured: Floats
    highest: Floats
    lowest: Floats


def favour(rates: Floats, margin: float) -> Favour:
    """Return the probabilities that a language is favoured by more than a margin.

    Parameters
    ----------
    rates : (D, L) float array
        Finite.
    margin : float
        Of the acceptance rate; 0 or more.
    """
    excess = rates - rates.mean(axis=1, keepdims=True)
    return Favour(
        favoured=(excess > margin).mean(axis=0),
        disfavoured=(excess < -margin).mean(axis=0),
        highest=_shared(rates == rates.max(axis=1, keepdims=True)),
        lowest=_shared(rates == rates.min(axis=1, keepdims=True)),
    )


def _shared(is_extreme: NDArray[np.bool_]) -> Floats:
    return np.asarray((is_extreme / is_extreme.sum(axis=1, keepdims=True)).mean(axis=0))


@dataclass(frozen=True)
class Group:
    """Languages that may share a threshold.

    Attributes
    ----------
    members : tuple of int
    threshold : float
    p_all : float
        P(every member's rate lies within the margin of the target).
    """

    members: tuple[int, ...]
    threshold: float
    p_all: float


def share_thresholds(
    draws: ScoreDraws, rate: float, margin: float, level: float = 0.95
) -> tuple[Group, ...]:
    """Group languages whose rates one threshold keeps within a margin of the target.

    Languages are taken in the order of their own thresholds; a language joins the
    group before it as long as, at the mean of the members' thresholds, all of their
    rates lie within the margin with probability ``level`` or more. A group of one
    whose ``p_all`` is below the level has too few items to hold the target.

    Parameters
    ----------
    draws : ScoreDraws
        Languages without scores (nan thresholds) are in no group.
    rate : float
        Target acceptance rate.
    margin : float
    level : float
    """
    own = draws.thresholds(rate).mean(axis=0)
    order = [int(i) for i in np.argsort(own, kind="stable") if np.isfinite(own[i])]
    groups: list[Group] = []
    members: list[int] = []
    for code in order:
        trial = [*members, code]
        group = _try(draws, own, trial, rate, margin)
        if members and group.p_all < level:
            groups.append(_try(draws, own, members, rate, margin))
            members = [code]
        else:
            members = trial
    if members:
        groups.append(_try(draws, own, members, rate, margin))
    return tuple(groups)


def _try(draws: ScoreDraws, own: Floats, members: list[int], rate: float, margin: float) -> Group:
    threshold = float(own[members].mean())
    rates = draws.rates(np.full(own.size, threshold))[:, members]
    inside = (np.abs(rates - rate) <= margin).all(axis=1)
    return Group(tuple(members), threshold, float(inside.mean()))
