"""From labelled answers to the human's offsets: a Bayesian regression on the panel's scores.

Of answer a by backbone b to scenario s, human score h and panel mean x,

    h = c_b + d_b + r X_s + w (x - c_b - X_s) + u_s + v_bs + e,

c_b a constant near the backbone's panel mean, X_s the scenario's mean of x - c_b;
d_b = d + z_b the human's offset there, z_b ~ N(0, tau^2); languages and other panel
facets add offsets as backbones do. Two slopes, between scenarios and within them: what
makes a scenario hard is seen by all judges, what sets answers apart less surely, and one
slope for both leaves errors that go with x (Mundlak 1978). Given x the likelihood holds
nothing of how panel scores arise, so its posterior and that of the panel means m_b are
independent, and the human's mean of a backbone is, draw by draw, the line at m_b: a
regression estimator whose slopes, offsets and spreads are all uncertain. Coefficients
are integrated out in closed form; scales are drawn by importance.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from bayesjudge.engines.importance import (
    Proposal,
    adapt,
    curves_through,
    kish_ess,
    pareto_smooth,
    resample,
)

type Floats = NDArray[np.float64]
type Ints = NDArray[np.int64]

_STEP = 1e-2
_FIRST_INFLATION = 1.5
_GRID = np.linspace(-9.0, 3.0, 161)
# Normal probabilities of -2.2, -1.4, -0.7, 0, ...: the knots of the proposal's curves.
KNOT_PROBABILITIES = np.array([0.0139, 0.0808, 0.2420, 0.5, 0.7580, 0.9192, 0.9861])
_ROUND, _ROUNDS = 400, (3, 8)
_CHUNK = 4_000_000
_WIDER = 2.0
# Scales below this fraction of their prior's width count as it.
_FLOOR = 1e-4


@dataclass(frozen=True, eq=False)
class Block:
    """Coefficients that share a scale.

    Attributes
    ----------
    codes : (N,) int array
        Which of them each answer has.
    n : int
    width : float
        Of the scale's half-normal prior, in the unit of the human scores.
    """

    codes: Ints
    n: int
    width: float


@dataclass(frozen=True, eq=False)
class Labels:
    """Labelled answers.

    Attributes
    ----------
    human : (N,) float array
        Human score less c.
    panel : (N, P) float array
        The scenario's X, and x - c less it; or x - c alone.
    blocks : tuple of Block
        Offsets by backbone, by other panel facets, and of both.
    scenario, group : (N,) int array
        Scenario; scenario and backbone.
    unit : float
        Of human scores: width of the half-normal priors of u, v and e; d has twice it.
    location : float
        Prior mean of d.
    slope : float
        Prior mean, and sd, of slopes: unit of human scores over that of the panel's.
    """

    human: Floats
    panel: Floats
    blocks: tuple[Block, ...]
    scenario: Ints
    group: Ints
    unit: float
    location: float = 0.0
    slope: float = 1.0


@dataclass(frozen=True, eq=False)
class Calibrated:
    """Draws of the calibration.

    Attributes
    ----------
    offset : (n_draws,) float array
        d.
    slope : (n_draws, P) float array
        Between scenarios and within them; or the only one.
    blocks : tuple of (n_draws, n) float arrays
        Offsets of each block.
    scales : dict of (n_draws,) float arrays
        ``residual``, and where they can be told from it ``scenario`` (u) and
        ``backbone:scenario`` (v).
    pareto_k, ess : float
        Of the importance weights.
    """

    offset: Floats
    slope: Floats
    blocks: tuple[Floats, ...]
    scales: dict[str, Floats]
    pareto_k: float
    ess: float


def calibrate_to_labels(labels: Labels, n_draws: int, rng: np.random.Generator) -> Calibrated:
    """Draw from the posterior of the human's offsets.

    Parameters
    ----------
    labels : Labels
    n_draws : int
    rng : numpy.random.Generator
    """
    model = _Marginal(labels)
    blocks = np.zeros(model.dim, np.int64)
    proposal = adapt(rng, model.log_density, _start(model), blocks, _ROUND, _ROUNDS)
    n_proposed = max(2000, n_draws)
    # A fifth of the draws come from further out: their tails bound the weights.
    wide = replace(proposal, factor=_WIDER * proposal.factor)
    n_wide = n_proposed // 5
    theta = np.vstack([proposal.draw(rng, n_proposed - n_wide), wide.draw(rng, n_wide)])
    log_proposal = np.logaddexp(
        np.log(0.8) + proposal.log_density(theta), np.log(0.2) + wide.log_density(theta)
    )
    log_ratio = model.log_density(theta) - log_proposal
    log_weight, k = pareto_smooth(log_ratio)
    kept = resample(rng, log_weight, n_draws)
    coefficients = model.draw_coefficients(theta[kept], rng)
    n_slopes = labels.panel.shape[1]
    edges = np.cumsum([1 + n_slopes, *(block.n for block in labels.blocks)])
    return Calibrated(
        offset=labels.location + coefficients[:, 0],
        slope=labels.slope + coefficients[:, 1 : 1 + n_slopes],
        blocks=tuple(coefficients[:, a:b] for a, b in pairwise(edges)),
        scales=dict(zip(model.names, model.scales(theta[kept]).T[: len(model.names)], strict=True)),
        pareto_k=k,
        ess=kish_ess(log_weight),
    )


class _Marginal:
    """Log density of the logarithms of scales, coefficients integrated out.

    Rows of a scenario are correlated by u, those of a scenario and backbone by v as well:
    V is inverted group by group, then scenario by scenario. Groups of one size and
    scenarios of one make-up have one factor each, so their cross-products are summed once.
    """

    def __init__(self, labels: Labels) -> None:
        blocks = labels.blocks
        n_slopes = labels.panel.shape[1]
        self.p = 1 + n_slopes + sum(block.n for block in blocks)
        N = labels.human.size
        X = np.zeros((N, self.p + 1))
        X[:, 0] = 1.0
        X[:, 1 : 1 + n_slopes] = labels.panel
        at = 1 + n_slopes
        for block in blocks:
            X[np.arange(N), at + block.codes] = 1.0
            at += block.n
        X[:, -1] = labels.human - labels.location
        X[:, -1] -= labels.slope * labels.panel.sum(axis=1)
        self.cross = X.T @ X
        group, first = np.unique(labels.group, return_index=True)
        at_group = np.searchsorted(group, labels.group)
        totals = np.zeros((group.size, self.p + 1))
        np.add.at(totals, at_group, X)
        m_of = np.bincount(at_group)
        self.sizes = np.unique(m_of)
        scenario, at_scenario = np.unique(labels.scenario[first], return_inverse=True)
        kind = np.searchsorted(self.sizes, m_of)
        by_size = np.zeros((scenario.size, self.sizes.size, self.p + 1))
        np.add.at(by_size, (at_scenario, kind), totals)
        counts = np.zeros((scenario.size, self.sizes.size))
        np.add.at(counts, (at_scenario, kind), 1.0)
        self.of_size = np.array(
            [totals[kind == i].T @ totals[kind == i] for i in range(kind.max() + 1)]
        )
        self.n_of_size = np.bincount(kind)
        self.make_up, which = np.unique(counts, axis=0, return_inverse=True)
        which = which.reshape(-1)
        self.n_of_make_up = np.bincount(which)
        self.pairs = np.array(
            [
                np.einsum("smi,snj->mnij", by_size[which == c], by_size[which == c])
                for c in range(len(self.make_up))
            ]
        )
        self.N, self.unit = N, labels.unit
        self.has_u = scenario.size < N
        self.has_v = bool(self.sizes[-1] > 1) and group.size > scenario.size
        self.names = (
            "residual",
            *(("scenario",) if self.has_u else ()),
            *(("backbone:scenario",) if self.has_v else ()),
        )
        self.widths = np.array([1.0] * len(self.names) + [block.width for block in blocks])
        self.lengths = [block.n for block in blocks]
        self.slope_sds = [abs(labels.slope)] * n_slopes

    @property
    def dim(self) -> int:
        return self.widths.size

    def scales(self, theta: Floats) -> Floats:
        """Return sds, (n, D), of their logarithms, in units of their prior's width."""
        return self.unit * self.widths * np.hypot(np.exp(theta), _FLOOR)

    def log_density(self, theta: Floats) -> Floats:
        """Return log densities (n,) of logarithms of scales (n, D), up to a constant."""
        step = max(1, _CHUNK // (self.p + 1) ** 2)
        parts = [self._log_density(theta[i : i + step]) for i in range(0, len(theta), step)]
        return np.concatenate(parts)

    def _log_density(self, theta: Floats) -> Floats:
        with np.errstate(over="ignore", invalid="ignore"):
            try:
                precision, right, square, log_det = self._normal(theta)
                factor = np.linalg.cholesky(precision)
            except np.linalg.LinAlgError:
                return np.full(len(theta), -np.inf)
            half = np.linalg.solve(factor, right[..., None])[..., 0]
            log_det += 2 * np.log(np.einsum("npp->np", factor)).sum(axis=1)
            value = -0.5 * (log_det + square - (half**2).sum(axis=1))
            value += (theta - 0.5 * np.exp(2 * theta)).sum(axis=1)
        return np.where(np.isfinite(value), value, -np.inf)

    def draw_coefficients(self, theta: Floats, rng: np.random.Generator) -> Floats:
        """Draw offset and slope, less their prior means, and the blocks, (n, p)."""
        step = max(1, _CHUNK // (self.p + 1) ** 2)
        out = np.empty((len(theta), self.p))
        for i in range(0, len(theta), step):
            precision, right, _, _ = self._normal(theta[i : i + step])
            factor = np.linalg.cholesky(precision)
            half = np.linalg.solve(factor, right[..., None])
            noise = rng.standard_normal(half.shape)
            out[i : i + step] = np.linalg.solve(factor.transpose(0, 2, 1), half + noise)[..., 0]
        return out

    def _normal(self, theta: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        """Return precision, right side, y'V^-1 y and log|V| + log|prior| of each row."""
        scales = self.scales(theta)
        s2 = scales[:, 0] ** 2
        at = 1
        u2 = v2 = np.zeros_like(s2)
        if self.has_u:
            u2, at = scales[:, at] ** 2, at + 1
        if self.has_v:
            v2, at = scales[:, at] ** 2, at + 1
        within = s2[:, None] + self.sizes * v2[:, None]
        weight = 1 / within
        shrink = v2[:, None] / within / s2[:, None]
        gram = self.cross / s2[:, None, None] - np.einsum("nm,mij->nij", shrink, self.of_size)
        q = (weight * self.sizes) @ self.make_up.T
        lost = u2[:, None] / (1 + u2[:, None] * q)
        gram = gram - np.einsum(
            "nc,nm,nk,cmkij->nij", lost, weight, weight, self.pairs, optimize=True
        )
        log_det: Floats = self.N * np.log(s2) + np.log(within / s2[:, None]) @ self.n_of_size
        log_det = log_det + np.log1p(u2[:, None] * q) @ self.n_of_make_up
        prior = [np.full_like(s2, sd**2) for sd in (2 * self.unit, *self.slope_sds)]
        for length, block in zip(self.lengths, scales[:, at:].T, strict=True):
            prior += [block**2] * length
        variance = np.array(prior).T
        log_det = log_det + np.log(variance).sum(axis=1)
        precision = gram[:, :-1, :-1] + np.einsum("np,pq->npq", 1 / variance, np.eye(self.p))
        return precision, gram[:, :-1, -1], gram[:, -1, -1], log_det


def _start(model: _Marginal) -> Proposal:
    """Return a proposal about the mode, bent as the density is along each coordinate.

    The logarithm of a scale that may be zero has a long tail to the left, which no
    curvature at the mode tells.
    """
    from scipy.optimize import minimize

    d = model.dim
    eye = _STEP * np.eye(d)

    def objective(theta: Floats) -> tuple[float, Floats]:
        rows = np.vstack([theta, theta + eye, theta - eye])
        value = -model.log_density(rows)
        return float(value[0]), (value[1 : d + 1] - value[d + 1 :]) / (2 * _STEP)

    mode = minimize(
        objective, np.full(d, -0.5), jac=True, method="L-BFGS-B", bounds=[(-6.0, 3.0)] * d,
        options={"maxiter": 60, "ftol": 1e-6, "gtol": 1e-2},
    ).x  # fmt: skip
    rows = np.repeat(mode[None], d * _GRID.size, axis=0)
    rows[np.arange(len(rows)), np.repeat(np.arange(d), _GRID.size)] = np.tile(_GRID, d)
    density = model.log_density(rows).reshape(d, -1)
    density = np.exp(density - density.max(axis=1, keepdims=True))
    heights = np.empty((KNOT_PROBABILITIES.size, d))
    for i in range(d):
        cumulative = np.concatenate([[0], np.cumsum((density[i, 1:] + density[i, :-1]) / 2)])
        heights[:, i] = np.interp(KNOT_PROBABILITIES, cumulative / cumulative[-1], _GRID)
    # A coordinate that all but one point of the grid rules out still needs a rising curve.
    steps = np.maximum(np.diff(heights, axis=0), _STEP)
    heights = np.vstack([heights[:1], heights[0] + np.cumsum(steps, axis=0)])
    return Proposal(np.zeros(d), np.sqrt(_FIRST_INFLATION) * np.eye(d), curves_through(heights))
