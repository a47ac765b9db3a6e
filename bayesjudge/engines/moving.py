"""Many short Markov chains from importance draws whose weights do not fit.

Resample-move (Gilks and Berzuini 2001): rows kept by their weights start chains
that leave the target density as it is. A chain changes some coordinates at a
time, to draws from what the proposal says of them given the others. In fifty
dimensions, where a proposal's small misfits multiply up and one weight in
twenty counts, each part still fits: near half the changes are accepted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from bayesjudge.engines.convergence import (
    ESS_LIMIT,
    R_HAT_LIMIT,
    effective_size,
    split_r_hat,
    tail_size,
)
from bayesjudge.engines.importance import Floats, Ints, LogDensity, Proposal, refit

# Chains are short, and many: all are moved in one call of the density.
_CHAINS = 200

# Coordinates drawn afresh together, and coordinates of one step of a random walk.
_FRESH, _WALKING = 16, 6

# Fresh draws are a little wider than the proposal, and from a t density of these
# degrees of freedom.
_WIDER, _DEGREES_OF_FREEDOM = 1.05, 50.0

# Length of a step, times the root of its dimension, in standard deviations.
_STEP = 2.4

# Sweeps before each of the times that the proposal is fitted to the chains.
_WARM_UP = (20, 40)

# Sweeps whose draws are kept, at the least and at most.
_LEAST_SWEEPS, _MOST_SWEEPS = 20, 640

# Of draws as they are kept, so that what is reported passes.
_WANTED_ESS = 1.1 * ESS_LIMIT


@dataclass(frozen=True, eq=False)
class Moved:
    """Draws of chains laid end to end, and how they moved.

    Attributes
    ----------
    y : (chains, draws, D) float array
    log_density : (chains, draws) float array
    acceptance_rate : float
        Of changes since the proposal was last fitted.
    mixed : bool
        Whether r_hat and the effective sizes of every reported quantity pass.
    """

    y: Floats
    log_density: Floats
    acceptance_rate: float
    mixed: bool


def move(
    rng: np.random.Generator,
    target: LogDensity,
    reported: Callable[[Floats], Floats],
    proposal: Proposal,
    start: Floats,
    groups: tuple[Ints, ...],
    blocks: Ints,
    shape: tuple[int, int],
) -> Moved:
    """Move draws until their chains have mixed or the budget is spent.

    Parameters
    ----------
    reported : function of (n, D)
        Quantities by columns that must have mixed.
    start : (n, D) float array
        Equally weighted draws; some two hundred of them are taken.
    groups : tuple of int arrays
        Coordinates that are changed together, each in one group.
    blocks : (D,) int array
        As :func:`adapt` takes them.
    shape : (chains, draws)
        Of what is returned; each chain is several short ones laid end to end.
    """
    chains, draws = shape
    side = -(-_CHAINS // chains)
    length = max(_LEAST_SWEEPS, -(-draws // side))
    index = np.linspace(0, side * length - 1, draws).round().astype(np.int64)
    y = start[np.arange(side * chains) % len(start)]
    walkers = _Walkers(rng, target, proposal, y, target(y))
    for n_sweeps in _WARM_UP:
        seen = []
        for _ in range(n_sweeps):
            walkers.sweep(groups)
            seen.append(walkers.y)
        y = np.vstack(seen[len(seen) // 2 :])
        # Moved draws show the target better than the few weights that counted.
        proposal = refit(proposal, y, np.full(len(y), 1 / len(y)), blocks)
        walkers = _Walkers(rng, target, proposal, walkers.y, walkers.log_density)
    kept: list[tuple[Floats, Floats]] = []
    step = 1
    while True:
        while len(kept) < step * length:
            walkers.sweep(groups)
            kept.append((walkers.y, walkers.log_density))
        # Chains of the result, the short ones of each, sweeps: every step-th is kept.
        y, value = (
            np.stack(part, axis=1).reshape(chains, side * length, -1)[:, index]
            for part in zip(*kept[step - 1 :: step], strict=True)
        )
        rows = np.column_stack([reported(y.reshape(-1, y.shape[2])), value.ravel()])
        mixed = _mixed(rows.reshape(chains, draws, -1))
        if mixed or 2 * step * length > max(_MOST_SWEEPS, length):
            return Moved(y, value[:, :, 0], walkers.accepted / walkers.tried, mixed)
        step *= 2


def _mixed(series: Floats) -> bool:
    """Judge each quantity of (chains, draws, n) as it will be judged when it is reported."""
    size = 1.0 * series.shape[0] * series.shape[1]
    wanted = min(_WANTED_ESS, 0.5 * size)
    return all(
        effective_size(one) >= wanted
        and tail_size(one) >= wanted
        and split_r_hat(one) < R_HAT_LIMIT
        for one in np.moveaxis(series, 2, 0)
        if np.ptp(one) > 0
    )


class _Walkers:
    """Chains side by side, in the coordinates in which the proposal is not bent."""

    def __init__(
        self,
        rng: np.random.Generator,
        target: LogDensity,
        proposal: Proposal,
        y: Floats,
        log_density: Floats,
    ) -> None:
        self._rng, self._target, self._proposal = rng, target, proposal
        self._precision = np.linalg.inv(proposal.factor @ proposal.factor.T)
        self._z = proposal.curves.straighten(y)[0]
        self.y, self.log_density = y, log_density
        self._value = self.log_density + proposal.curves.bend(self._z)[1]
        self.tried = self.accepted = 0

    def sweep(self, groups: tuple[Ints, ...]) -> None:
        """Change all coordinates at once, then each again with some others, in two ways.

        Alone the common scales would wait for those of the levels, and they for
        them. Fresh draws go far; steps of a random walk lead out of tails where the
        proposal is so thin that a fresh draw is never accepted.
        """
        self._change(np.arange(self._z.shape[1]), fresh=True)
        for together in self._packed(groups, _FRESH):
            self._change(together, fresh=True)
        for together in self._packed(groups, _WALKING):
            self._change(together, fresh=False)

    def _packed(self, groups: tuple[Ints, ...], most: int) -> list[Ints]:
        """Put groups together at random, up to so many coordinates."""
        packs: list[list[Ints]] = [[]]
        for i in self._rng.permutation(len(groups)):
            if packs[-1] and sum(map(len, packs[-1])) + len(groups[i]) > most:
                packs.append([])
            packs[-1].append(groups[i])
        return [np.concatenate(pack) for pack in packs]

    def _change(self, which: Ints, fresh: bool) -> None:
        """Draw some coordinates given the others, and accept by Metropolis and Hastings."""
        n = len(self._z)
        off = self._z - self._proposal.mean
        own = np.linalg.inv(self._precision[np.ix_(which, which)])
        # Given the others, these have mean -own (precision[which, rest] @ rest).
        pull = (
            off @ self._precision[:, which] - off[:, which] @ self._precision[np.ix_(which, which)]
        )
        center = self._proposal.mean[which] - pull @ own
        factor = np.linalg.cholesky(_WIDER * own)
        old = np.linalg.solve(factor, (self._z[:, which] - center).T).T
        unit = self._rng.standard_normal(old.shape)
        if fresh:
            radius = self._rng.chisquare(_DEGREES_OF_FREEDOM, (n, 1)) / _DEGREES_OF_FREEDOM
            new = unit / np.sqrt(radius)
        else:
            new = old + _STEP / np.sqrt(which.size) * unit
        z = self._z.copy()
        z[:, which] = center + new @ factor.T
        y, log_slope = self._proposal.curves.bend(z)
        log_density = self._target(y)
        value = log_density + log_slope
        gain = value - self._value
        if fresh:
            gain += _log_t(old) - _log_t(new)
        taken = np.log(self._rng.random(n)) < gain
        self._z = np.where(taken[:, None], z, self._z)
        self.y = np.where(taken[:, None], y, self.y)
        self.log_density = np.where(taken, log_density, self.log_density)
        self._value = np.where(taken, value, self._value)
        self.tried += n
        self.accepted += int(taken.sum())


def _log_t(e: Floats) -> Floats:
    half = (_DEGREES_OF_FREEDOM + e.shape[1]) / 2
    return np.asarray(-half * np.log1p((e**2).sum(axis=1) / _DEGREES_OF_FREEDOM))
