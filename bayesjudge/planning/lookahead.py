"""Which call next: the posterior of a gaussian model given its scales, call by call.

Effects that belong to a scenario are independent between scenarios given all others, so
the posterior is one small covariance of the others and one of each scenario's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

type Floats = NDArray[np.float64]
type Ints = NDArray[np.int64]

# A call is valued by what so many times all that are left, of its kind, would do.
_HORIZONS = 4.0 ** np.arange(7)
# Of each pair, how many calls that remove most of its variance are looked at.
_KEPT = 8
# No pair's variance falls below this part of what it was.
_FLOOR = 1e-12


@dataclass(frozen=True, eq=False)
class Prior:
    """A gaussian model given its scales, for calls on any scenario.

    Attributes
    ----------
    common_cov : (p, p) float array
        Prior covariance of the effects without a scenario, intercept first.
    own_cov : (q, q) float array
        Prior covariance of the effects of one scenario.
    common : (C, p) float array
        Which common effects each kind of call (backbone x judge) adds up.
    own : (C, q) float array
        Which of a scenario's effects it adds up.
    noise : (C,) float array
        Variance of one call beside these: residual, and generation where each call
        scores a new one.
    """

    common_cov: Floats
    own_cov: Floats
    common: Floats
    own: Floats
    noise: Floats


@dataclass(frozen=True, eq=False)
class Knowledge:
    """What is known: the posterior given the scales.

    Attributes
    ----------
    mean : (p,) float array
        Of the common effects, about the location.
    cov : (p, p) float array
    own_cov : (n, q, q) float array
        Of each scenario's effects given the common ones.
    own_slope : (n, q, p) float array
        How a scenario's effects fall when the common ones rise.
    """

    mean: Floats
    cov: Floats
    own_cov: Floats
    own_slope: Floats


@dataclass(frozen=True, eq=False)
class Seen:
    """Scores so far.

    Attributes
    ----------
    scenario, kind, generation : (N,) int arrays
        ``kind`` indexes calls as in :class:`Prior`; scores of one generation share it.
    score : (N,) float array
        About the location.
    residual, generation_variance : (N,) float arrays
    """

    scenario: Ints
    kind: Ints
    generation: Ints
    score: Floats
    residual: Floats
    generation_variance: Floats


def learn(prior: Prior, seen: Seen, n_scenarios: int) -> Knowledge:
    """Return the exact posterior given scores.

    Parameters
    ----------
    prior : Prior
    seen : Seen
    n_scenarios : int
        Scenarios that have scores, and new ones after them.
    """
    p, q = prior.common_cov.shape[0], prior.own_cov.shape[0]
    information, pull = np.zeros((p, p)), np.zeros(p)
    own_cov = np.broadcast_to(prior.own_cov, (n_scenarios, q, q)).copy()
    own_slope = np.zeros((n_scenarios, q, p))
    order = np.argsort(seen.scenario, kind="stable")
    starts = np.flatnonzero(np.diff(seen.scenario[order], prepend=-1))
    for rows in np.split(order, starts[1:]) if order.size else []:
        i = int(seen.scenario[rows[0]])
        design = np.column_stack(
            [prior.own[seen.kind[rows]], prior.common[seen.kind[rows]], seen.score[rows]]
        )
        cross = _whitened_cross(
            design, seen.generation[rows], seen.residual[rows], seen.generation_variance[rows]
        )
        own, mixed = cross[:q, :q], cross[:q, q:]
        cov = _shrink(prior.own_cov, own)
        rest = cross[q:, q:] - mixed.T @ cov @ mixed
        information += rest[:p, :p]
        pull += rest[:p, p]
        own_cov[i], own_slope[i] = cov, cov @ mixed[:, :p]
    cov = _shrink(prior.common_cov, information)
    return Knowledge(cov @ pull, cov, own_cov, own_slope)


def _whitened_cross(
    design: Floats, generation: Ints, residual: Floats, generation_variance: Floats
) -> Floats:
    """Return Z' R^-1 Z for residuals that scores of one generation share in part."""
    weighted = design / residual[:, None]
    total = design.T @ weighted
    group, first = np.unique(generation, return_index=True)
    code = np.searchsorted(group, generation)
    shared = generation_variance[first]
    if not shared.any():
        return np.asarray(total)
    sums = np.zeros((len(group), design.shape[1]))
    np.add.at(sums, code, weighted)
    precision = np.bincount(code, 1.0 / residual)
    return np.asarray(total - sums.T @ (sums * (shared / (1.0 + shared * precision))[:, None]))


def _shrink(cov: Floats, information: Floats) -> Floats:
    """Return (cov^-1 + information)^-1 for a covariance that may be singular."""
    n = len(cov)
    found = np.linalg.solve((np.eye(n) + information @ cov).T, cov.T).T
    return np.asarray((found + found.T) / 2)


def wrong_order(delta: Floats, variance: Floats, reduction: Floats) -> Floats:
    r"""Return the probability that two are in the wrong order after more is learned.

    They are ordered by their posterior means. With a difference ~ N(delta, s^2) now, of
    which learning removes the variance t^2, the posterior mean to come and the truth
    are bivariate normal with correlation t/s, and disagree in sign with probability
    2 T(\|delta\|/s, sqrt(s^2 - t^2)/t), T Owen's function: Phi(-\|delta\|/s) at t = 0,
    arccos(t/s)/pi at delta = 0.

    Parameters
    ----------
    delta, variance, reduction : float arrays
        That broadcast; ``reduction`` at most ``variance``.
    """
    from scipy.special import ndtr, owens_t

    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        h = np.where(variance > 0, np.abs(delta) / np.sqrt(variance), np.inf)
        slope = np.sqrt(np.maximum(variance - reduction, 0.0) / reduction)
    found = np.where(reduction > 0, 2.0 * owens_t(h, np.where(reduction > 0, slope, 0.0)), ndtr(-h))
    return np.asarray(np.where(variance > 0, found, 0.0))


@dataclass(frozen=True, eq=False)
class NextCalls:
    """Calls in the order of their worth.

    Attributes
    ----------
    scenario, kind : (n_calls,) int arrays
    wrong_now, wrong_after : float
        Expected number of pairs in the wrong order: now, and once the calls are in.
    """

    scenario: Ints
    kind: Ints
    wrong_now: float
    wrong_after: float


def next_calls(
    prior: Prior,
    known: Knowledge,
    pairs: Floats,
    n_calls: int,
    price: Floats,
    open_calls: NDArray[np.bool_],
    repeatable: bool,
    blocks: Sequence[Ints] = (),
) -> NextCalls:
    """Choose calls greedily so that they put the fewest pairs in the wrong order.

    The posterior covariance does not depend on scores to come, so each call's effect is
    known before it is made, and a batch is chosen without waiting. A single call seldom
    turns an order: its worth alone is next to nothing for every call, however unlike
    they are. So a call is valued by the largest worth per price that any number of its
    kind would have, from all that are left upwards (the knowledge gradient's KG(*)
    remedy; Frazier and Powell 2010). For the same reason calls are looked at in blocks
    too: the first score of a new scenario says little, the second, of a rival by the same
    judge, takes the scenario and what the judge makes of it out of both.

    Parameters
    ----------
    prior : Prior
    known : Knowledge
    pairs : (P, p) float array
        Contrasts of common effects whose sign matters.
    n_calls : int
    price : (C,) float array
    open_calls : (n, C) bool array
        Calls that may be made.
    repeatable : bool
        Whether a call may be made again (it scores a new generation).
    blocks : sequence of (m, r) int arrays
        Kinds of call that may be made together on a scenario, beside single ones.

    Returns
    -------
    NextCalls
        Fewer than ``n_calls`` where no more are open.
    """
    n_kinds = open_calls.shape[1]
    cov = known.cov.copy()
    own_cov, own_slope = known.own_cov.copy(), known.own_slope.copy()
    still = open_calls.copy()
    noise = np.diag(prior.noise)
    delta = pairs @ known.mean
    start = np.einsum("ij,jk,ik->i", pairs, cov, pairs)
    left = start.copy()
    # w: what a call says of the common effects; cross: covariance of calls' scores.
    w = prior.common[None] - np.einsum("cq,iqp->icp", prior.own, own_slope)
    lean = w @ cov @ pairs.T
    cross = w @ cov @ w.transpose(0, 2, 1) + prior.own @ own_cov @ prior.own.T + noise
    together = (np.arange(n_kinds)[:, None], *blocks)
    chosen: list[tuple[int, int]] = []
    while len(chosen) < n_calls and still.any():
        remaining = n_calls - len(chosen)
        sets = [block for block in together if block.shape[1] <= remaining]
        i, kinds = _best_block(sets, lean, cross, still, price, (delta, start, left), remaining)
        for c in kinds:
            chosen.append((i, c))
            total = cross[i, c, c]
            direction = cov @ w[i, c]
            along, toward = w @ direction, pairs @ direction
            left = np.maximum(left - toward**2 / total, _FLOOR * start)
            lean -= along[:, :, None] * toward / total
            cross -= along[:, :, None] * along[:, None, :] / total
            cov -= np.outer(direction, direction) / total
            own_variance = prior.own[c] @ own_cov[i] @ prior.own[c] + prior.noise[c]
            pull = own_cov[i] @ prior.own[c] / own_variance
            own_slope[i] += np.outer(pull, w[i, c])
            own_cov[i] -= np.outer(pull, pull) * own_variance
            w[i] = prior.common - prior.own @ own_slope[i]
            lean[i] = w[i] @ cov @ pairs.T
            cross[i] = w[i] @ cov @ w[i].T + prior.own @ own_cov[i] @ prior.own.T + noise
            if not repeatable:
                still[i, c] = False
    codes = np.array(chosen, np.int64).reshape(-1, 2)
    return NextCalls(
        scenario=codes[:, 0],
        kind=codes[:, 1],
        wrong_now=float(wrong_order(delta, start, np.zeros_like(start)).sum()),
        wrong_after=float(wrong_order(delta, start, start - left).sum()),
    )


def _best_block(
    sets: Sequence[Ints],
    lean: Floats,
    cross: Floats,
    still: NDArray[np.bool_],
    price: Floats,
    state: tuple[Floats, Floats, Floats],
    n_left: int,
) -> tuple[int, list[int]]:
    """Return the scenario and the kinds of the calls worth most for their price.

    Parameters
    ----------
    sets : sequence of (m, r) int arrays
    lean : (n, C, P) float array
        Covariance of each call's score with each pair's difference.
    cross : (n, C, C) float array
        Covariance of the scores of calls on a scenario.
    still : (n, C) bool array
    price : (C,) float array
    state : three (P,) float arrays
        Of each pair: posterior mean, variance now, variance after the calls chosen so far.
    n_left : int
    """
    delta, start, left = state
    removed, cost, calls = [], [], []
    for number, block in enumerate(sets):
        scores = cross[:, block[:, :, None], block[:, None, :]]
        toward = lean[:, block]
        gain = (toward * np.linalg.solve(scores, toward)).sum(axis=2)
        ready = still[:, block].all(axis=2)
        removed.append(gain[ready])
        cost.append(np.broadcast_to(price[block].sum(axis=1), ready.shape)[ready])
        at = np.argwhere(ready)
        calls.append(np.column_stack([np.full(len(at), number), at]))
    flat, prices, where = np.concatenate(removed), np.concatenate(cost), np.concatenate(calls)
    # Worth rises with what is removed of each pair's variance, so few others than the
    # best for some pair can be best for all.
    n_kept = min(_KEPT, len(flat))
    kept = np.unique(np.argpartition(-flat / prices[:, None], n_kept - 1, axis=0)[:n_kept])
    remaining = np.maximum(left - flat[kept], _FLOOR * start)
    gain = 1.0 / remaining - 1.0 / left
    now = wrong_order(delta, start, start - left).sum()
    per_price = np.full(len(kept), -np.inf)
    for horizon in _HORIZONS:
        # So many blocks as the calls that are left would make, or more.
        times = horizon * n_left * price.mean() / prices[kept]
        after = start - 1.0 / (1.0 / left + times[:, None] * gain)
        worth = now - wrong_order(delta, start, after).sum(axis=1)
        per_price = np.maximum(per_price, worth / horizon)
    number, i, row = where[kept[int(np.argmax(per_price))]]
    return int(i), sets[number][row].tolist()
