"""What a plan is to make small: a mean's error, a difference's, or a wrong order."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bayesjudge.errors import UsageError
from bayesjudge.planning.designs import Components, mean_contrasts, pair_contrasts
from bayesjudge.ranking import check_probability

type Floats = NDArray[np.float64]

TARGETS = ("mean", "difference", "order")


@dataclass(frozen=True)
class Goal:
    """What a plan is to make small, and how small.

    Attributes
    ----------
    target : {"mean", "difference", "order"}
        The sd of a backbone's mean (root mean square over backbones), of the difference
        of two, or the probability of ordering the two best right.
    pair : tuple of str
        The two backbones; empty for all pairs on average, and for order for the two with
        the highest means.
    sd, probability : float or None
        What is to be reached; None for the best that the budget buys.
    gap : float or None
        Difference between the two best where it is known otherwise than from draws.
    """

    target: str = "mean"
    pair: tuple[str, ...] = ()
    sd: float | None = None
    probability: float | None = None
    gap: float | None = None

    def __post_init__(self) -> None:
        if self.target not in TARGETS:
            raise UsageError(
                f"the target is {self.target!r}", remedy=f"It is one of {', '.join(TARGETS)}"
            )
        if self.pair and (self.target == "mean" or len(set(self.pair)) != 2):
            raise UsageError(
                "a pair is two backbones, of a difference or an order", ", ".join(self.pair)
            )
        if self.sd is not None and (self.target == "order" or not 0 < self.sd < np.inf):
            raise UsageError(
                f"the sd to reach is {self.sd:g}",
                remedy="It is a number above 0, of a mean or a difference",
            )
        if self.gap is not None and not 0 < self.gap < np.inf:
            raise UsageError(f"the gap is {self.gap:g}", "gap", "The gap must be a number above 0")
        if self.probability is not None:
            if self.target != "order":
                raise UsageError("a probability is reached by an order", remedy="Ask for order")
            check_probability(self.probability, "probability")


def contrasts_of_goal(components: Components, goal: Goal) -> tuple[Floats, Floats | None]:
    """Return the contrasts whose error counts, and draws of the difference to be ordered.

    Raises
    ------
    UsageError
        Where a backbone of the pair is unknown, or nothing is known of the order.
    """
    labels = components.backbones
    unknown = [name for name in goal.pair if name not in labels]
    if unknown:
        raise UsageError(
            f"no backbone is called {', '.join(unknown)}", "pair", f"They are {', '.join(labels)}"
        )
    delta: Floats | None = None
    pair = tuple(labels.index(name) for name in goal.pair)
    if components.means is not None:
        two = pair or tuple(np.argsort(-components.means.mean(axis=0), kind="stable")[:2])
        delta = components.means[:, two[0]] - components.means[:, two[1]]
        pair = pair if goal.target == "difference" else two
    if goal.gap is not None:
        delta = np.array([goal.gap], float)
    if goal.target == "mean":
        return mean_contrasts(len(labels)), delta
    if goal.target == "order" and delta is None:
        raise UsageError(
            "nothing is known of the difference between the two best",
            remedy="Give a gap, or plan from a fit or a table",
        )
    if not pair:
        return pair_contrasts(len(labels)), delta
    contrast = np.zeros((1, len(labels)))
    contrast[0, list(pair)] = (1.0, -1.0)
    return contrast, delta


def order_probability(delta: Floats | None, sd: Floats) -> Floats:
    """Return the probability that estimates order two backbones as they truly are.

    Parameters
    ----------
    delta : (n_draws,) float array or None
        Draws of the true difference.
    sd : (n_draws, ...) float array
        Of the estimated difference.

    Returns
    -------
    float array
        Averaged over draws; nan where nothing is known of the difference.
    """
    from scipy.special import ndtr

    if delta is None:
        return np.full(sd.shape[1:], np.nan)
    size = np.abs(delta).reshape(-1, *([1] * (sd.ndim - 1)))
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(sd > 0, size / sd, np.where(size > 0, np.inf, 0.0))
    return np.asarray(ndtr(ratio).mean(axis=0))
