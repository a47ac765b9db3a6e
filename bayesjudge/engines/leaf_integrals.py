"""Leaves' integrals: the finest random effects, in one dimension each.

Gauss-Hermite nodes lie about where each leaf is, as wide as it is: the error of seven
falls far below that of draws. Slopes and curvatures of the logarithm in the leaf's
predictors are moments over its nodes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bayesjudge.engines.cell_likelihoods import Categories, Verdicts

type Floats = NDArray[np.float64]

# Least variance of a leaf's nodes, as a share of what the curvature says.
_LEAST_SPREAD = 0.4

# Share of the curvature of a leaf's scores that integrating the leaf takes away.
_MOST_TAKEN = 0.9999


def gauss_hermite(n: int) -> tuple[Floats, Floats]:
    """Return nodes x, and log weights of f(x) where the integral is that of f."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(n)
    return nodes, np.log(weights / weights.sum()) + 0.5 * nodes**2


# Nodes while the mode is looked for, and of a likelihood.
_FEW, _FEW_WEIGHTS = gauss_hermite(5)
N_NODES = 7
_NODES, _WEIGHTS = gauss_hermite(N_NODES)


@dataclass(frozen=True, eq=False)
class Leaves:
    """T sets of L leaves with J observations, integrated by Q nodes.

    Attributes
    ----------
    log_value : (T,)
        Sum of the logarithms of the integrals.
    slope, curved : (T, L, J)
        Of each in its predictors; ``curved`` before what they have in common is taken off.
    off : (T, L, J, Q)
        Slopes at the nodes less their mean.
    share : (T, L, Q)
        What each node holds of the integral.
    second, third : (T, L, J, Q)
        Minus second, and third derivatives at the nodes.
    center, spread : (T, L)
        Mean and sd of the leaf's effect, in units of its prior sd.
    follow : (T, L, J)
        How the center moves with the predictors.
    strayed : (T,)
        How far the nodes lay from their leaf, in its sds, at most.
    """

    log_value: Floats
    slope: Floats
    curved: Floats
    off: Floats
    share: Floats
    second: Floats
    third: Floats
    center: Floats
    spread: Floats
    follow: Floats
    strayed: Floats


def log_integrals(
    likelihood: Verdicts | Categories,
    cell: Floats,
    leaf_sd: Floats,
    center: Floats,
    spread: Floats,
    stops: Floats | None,
) -> Floats:
    """Return logarithms of leaves' integrals, (T, L), of predictors (T, L, J)."""
    nodes = center[..., None] + spread[..., None] * _NODES
    log_f = likelihood.values(cell, leaf_sd[..., None] * nodes, stops)
    log_f = log_f - 0.5 * nodes**2 + _WEIGHTS
    top = log_f.max(axis=-1)
    return np.asarray(np.log(np.exp(log_f - top[..., None]).sum(axis=-1)) + top + np.log(spread))


class _Weighed(NamedTuple):
    """Nodes (T, L, K), their shares of leaves' integrals, and derivatives at them."""

    nodes: Floats
    share: Floats
    log_value: Floats
    first: Floats
    second: Floats
    third: Floats


def _weigh(
    likelihood: Verdicts | Categories,
    cell: Floats,
    leaf_sd: Floats,
    center: Floats,
    spread: Floats,
    stops: Floats | None,
) -> _Weighed:
    nodes = center[..., None] + spread[..., None] * _FEW
    value, first, second, third = likelihood.slopes(cell, leaf_sd[..., None] * nodes, stops)
    log_f = value - 0.5 * nodes**2 + _FEW_WEIGHTS
    top = log_f.max(axis=-1, keepdims=True)
    share = np.exp(log_f - top)
    total = share.sum(axis=-1, keepdims=True)
    share /= total
    log_value = np.log(total[..., 0]) + top[..., 0] + np.log(spread)
    return _Weighed(nodes, share, log_value, first, second, third)


def mean_slopes(
    likelihood: Verdicts | Categories,
    cell: Floats,
    leaf_sd: Floats,
    center: Floats,
    spread: Floats,
    stops: Floats | None,
) -> Floats:
    """Return slopes of the logarithms of leaves' integrals, (T, L, J), in their predictors."""
    found = _weigh(likelihood, cell, leaf_sd, center, spread, stops)
    return np.asarray((found.first @ found.share[..., None])[..., 0])


def integrate_leaves(
    likelihood: Verdicts | Categories,
    cell: Floats,
    leaf_sd: Floats,
    center: Floats,
    spread: Floats,
    stops: Floats | None,
) -> Leaves:
    """Integrate leaves out, with slopes and curvatures in their predictors (T, L, J)."""
    found = _weigh(likelihood, cell, leaf_sd, center, spread, stops)
    nodes, share, each, first, second, third = found
    log_value = each.sum(axis=1)
    slope = (first @ share[..., None])[..., 0]
    before = center
    center = (share * nodes).sum(axis=-1)
    away = nodes - center[..., None]
    curved = (second @ share[..., None])[..., 0]
    # A normal prior and a log-concave likelihood: no wider than the prior, nor much
    # narrower than the curvature says, or nodes off their leaf would close up.
    least = _LEAST_SPREAD / (1.0 + leaf_sd**2 * curved.sum(axis=-1))
    spread = np.sqrt(np.clip((share * away**2).sum(axis=-1), least, 1.0))
    strayed = (np.abs(center - before) / spread).max(axis=1)
    follow = (first @ (share * away)[..., None])[..., 0]
    off = first - slope[..., None]
    # What a leaf's scores have in common takes from their curvature, and never all
    # of it: where it seems to, the nodes have missed the leaf.
    joint = (share[:, :, None, :] * off**2).sum(axis=-1)
    taken = (joint / np.maximum(curved, 1e-300)).sum(axis=-1)
    off *= np.sqrt(np.where(taken > _MOST_TAKEN, 0.9 / np.maximum(taken, 0.9), 1.0))[
        :, :, None, None
    ]
    return Leaves(
        log_value, slope, curved, off, share, second, third, center, spread, follow, strayed
    )


def third_cumulants(found: Leaves, v: Floats) -> Floats:
    """Return third derivatives' products with covariances v (T, L, J, J) of the predictors.

    (T, L, J): of slopes the third cumulants, of slopes and curvatures the covariances,
    and the mean third derivatives.
    """
    first, share = found.off, found.share[:, :, None, :]
    turned = v @ first
    own = np.diagonal(v, axis1=-2, axis2=-1)[..., None]
    square = (first * turned).sum(axis=2, keepdims=True)
    total = (own * found.second).sum(axis=2, keepdims=True)
    each = own * found.third - total * first - 2.0 * found.second * turned + first * square
    return np.asarray((each * share).sum(axis=-1))
