"""From the latent scale to scores: categories, cutpoints, and expected scores.

A verdict is 1 where eta + e > 0, and a score of a cumulative model is the
category between whose cutpoints eta + e falls; e is standard logistic (logit)
or standard normal (probit). Everything here is a pure function of arrays.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_expit, ndtr, ndtri, ndtri_exp

from bayesjudge.errors import DataError, ModelError

type Floats = NDArray[np.float64]

LINK_VARIANCE = {"logit": np.pi**2 / 3, "probit": 1.0}
"""Variance of the latent residual e."""

MOST_CATEGORIES = 101
"""A scale of 0 to 100; finer ones are for gaussian models."""

# Step of the trapezoid on the standard normal, and where it ends. The integrand
# is analytic within pi/sd of the real axis, so the error falls as
# exp(-2 pi^2 / (step sd)): below 1e-8 up to a random sd of 10 logits.
_STEP, _END = 0.1, 7.0
# Below this random sd a coarser rule has the same error.
_COARSE_STEP, _COARSE_SD = 0.4, 2.5
_AT_ONCE = 2_000_000


def categories_of(
    family: str,
    score: NDArray[np.float64],
    scale: tuple[float, float] | None,
    where: str = "",
) -> tuple[int, ...]:
    """Return the values that a score can take, and check that scores take no others.

    Parameters
    ----------
    family : {"bernoulli", "cumulative"}
    score : (N,) array
    scale : (low, high) or None
        What ``--scale`` said: all whole numbers from low to high are
        categories of a cumulative model, used or not. Without it those from
        the lowest score to the highest.
    where : str
        Of the table, for messages.

    Raises
    ------
    DataError
        Where a score is no category.
    ModelError
        Where the scale does not end in whole numbers or has too many.
    """
    if family == "bernoulli":
        _refuse(score, (score != 0) & (score != 1), "not 0 or 1", where, _USE_ORDINAL)
        return (0, 1)
    _refuse(score, score != np.round(score), "no whole number", where, _USE_CROSSED)
    low, high = (float(score.min()), float(score.max())) if scale is None else scale
    if low != np.round(low) or high != np.round(high):
        raise ModelError(
            f"the scale {low:g} to {high:g} does not end in whole numbers",
            "--scale",
            "A cumulative model has one category a whole number; use crossed for other scores",
        )
    if high - low >= MOST_CATEGORIES:
        raise ModelError(
            f"scores from {low:g} to {high:g} are {high - low + 1:g} categories, "
            f"at most {MOST_CATEGORIES} are fitted",
            where,
            "Use crossed, which takes scores as numbers",
        )
    _refuse(score, (score < low) | (score > high), "outside the scale", where, "Correct --scale")
    return tuple(range(int(low), int(high) + 1))


_USE_ORDINAL = "A bernoulli model takes verdicts: use ordinal or crossed for other scores"
_USE_CROSSED = "A cumulative model takes categories: use crossed, or round the scores yourself"


def _refuse(score: Floats, wrong: NDArray[np.bool_], what: str, where: str, remedy: str) -> None:
    if wrong.any():
        values = np.unique(score[wrong])
        shown = ", ".join(f"{v:g}" for v in values[:5]) + (", ..." if values.size > 5 else "")
        n = int(wrong.sum())
        subject = "1 score is" if n == 1 else f"{n:,} scores are"
        raise DataError(f"{subject} {what}: {shown}", where, remedy)


def cutpoints_of(probabilities: Floats, link: str) -> Floats:
    """Return the cutpoints at which the categories have these probabilities at zero effects.

    Parameters
    ----------
    probabilities : (..., C) array
        Positive; sum to 1 over the last axis.

    Returns
    -------
    (..., C - 1) array
        Rising, in units of the link.
    """
    p = np.asarray(probabilities, dtype=float)
    # Either tail is summed from its own end, so that neither is a difference from 1.
    below = np.cumsum(p, axis=-1)[..., :-1]
    above = np.cumsum(p[..., ::-1], axis=-1)[..., ::-1][..., 1:]
    if link == "logit":
        return np.asarray(np.log(below) - np.log(above))
    return np.asarray(np.where(below < 0.5, ndtri(below), -ndtri(above)))


def cutpoints_from_stops(x: Floats, link: str) -> Floats:
    """Return the cutpoints of log-odds of stopping, however far out they are.

    Parameters
    ----------
    x : (..., C - 1) array
        Log-odds that a score which is not below a category is that category,
        at zero effects.

    Returns
    -------
    (..., C - 1) array
        As :func:`cutpoints_of` the probabilities that ``x`` stands for.
    """
    log_above = np.cumsum(log_expit(-np.asarray(x, dtype=float)), axis=-1)
    log_below = _log_one_minus(log_above)
    if link == "logit":
        return np.asarray(log_below - log_above)
    return np.asarray(np.where(log_below < log_above, ndtri_exp(log_below), -ndtri_exp(log_above)))


def _log_one_minus(log_p: Floats) -> Floats:
    """Return log(1 - p) of log p, exact for p near 0 and near 1."""
    near_one = log_p > -np.log(2)
    inner = np.where(near_one, log_p, -1.0)
    outer = np.where(near_one, -1.0, log_p)
    with np.errstate(divide="ignore"):
        return np.asarray(np.where(near_one, np.log(-np.expm1(inner)), np.log1p(-np.exp(outer))))


def spaced_cutpoints(cutpoints: Floats, log_spacing: Floats) -> Floats:
    """Return each level's own cutpoints: distances stretched, their mean kept.

    Parameters
    ----------
    cutpoints : (..., T) array
    log_spacing : (..., L, T - 1) array
        Added to the logs of the T - 1 distances between neighbours.

    Returns
    -------
    (..., L, T) array
        Rising over the last axis, with the mean of the shared ones.
    """
    gaps = np.diff(cutpoints, axis=-1)[..., None, :] * np.exp(log_spacing)
    steps = np.concatenate([np.zeros((*gaps.shape[:-1], 1)), np.cumsum(gaps, axis=-1)], axis=-1)
    centre = cutpoints.mean(axis=-1)[..., None, None]
    return np.asarray(centre + steps - steps.mean(axis=-1, keepdims=True))


def chance_above(distance: Floats, variance: Floats, link: str) -> Floats:
    """Return P(distance + sqrt(variance) z + e > 0), z standard normal and e the link's.

    Exact for probit. For logit an integral over z by the trapezoid, which on
    an analytic integrand beats Gauss-Hermite of as many nodes.

    Parameters
    ----------
    distance, variance : arrays that broadcast
        In units of the link, and their square.

    Returns
    -------
    array
        Within 1e-8 for random sds up to 10.
    """
    distance, variance = np.broadcast_arrays(
        np.asarray(distance, dtype=float), np.asarray(variance, dtype=float)
    )
    if link == "probit":
        return np.asarray(ndtr(distance / np.sqrt(1.0 + variance)))
    sd = np.sqrt(variance)
    step = _COARSE_STEP if float(sd.max(initial=0.0)) < _COARSE_SD else _STEP
    z = np.arange(-_END, _END + step / 2, step)
    weight = np.exp(-0.5 * z**2)
    weight /= weight.sum()
    total = np.zeros(distance.shape)
    for node, w in zip(z, weight, strict=True):
        total += w * expit(distance + sd * node)
    return total


def expected_score(
    latent: Floats,
    variance: Floats,
    link: str,
    categories: tuple[int, ...],
    cutpoints: Floats | None,
) -> Floats:
    """Return expected scores, random effects of this total variance integrated out.

    Parameters
    ----------
    latent, variance : (n, ...) arrays
        Draws by cells: the latent mean, and the variance of what is random.
    link : {"logit", "probit"}
    categories : tuple of int
        (0, 1) for verdicts, whose expected score is the acceptance probability.
    cutpoints : (n, ..., T) array or None
        Axes before the last broadcast against ``latent``; None stands for one
        cutpoint at zero.

    Returns
    -------
    (n, ...) array
        In the unit of the scores.
    """
    latent, variance = np.broadcast_arrays(latent, variance)
    if cutpoints is None:
        cutpoints = np.zeros((*(1,) * latent.ndim, len(categories) - 1))
    total = np.full(latent.shape, float(categories[0]))
    rows = max(_AT_ONCE // max(latent[0].size, 1), 1)
    for start in range(0, len(latent), rows):
        here = slice(start, start + rows)
        cuts = cutpoints if len(cutpoints) == 1 else cutpoints[here]
        # A score is the lowest category and one more for each cutpoint that it is above.
        for k in range(cuts.shape[-1]):
            total[here] += chance_above(latent[here] - cuts[..., k], variance[here], link)
    return total
