"""Importance draws from a density in up to a hundred dimensions.

The proposal is a multivariate t density whose coordinates are bent, one by one,
by monotone curves through the quantiles of the draws so far; it is fitted in
rounds to the weighted draws of the last ones (population Monte Carlo: Cappé,
Guillin, Marin and Robert 2004). Weighing every draw under all proposals so far
takes as long as twice as many draws and fits no better. Pareto-smoothed weights
(Vehtari, Simpson, Gelman, Yao and Gabry 2024) say how well it fits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, ndtr

from bayesjudge.engines.log_products import log_of_product

type Floats = NDArray[np.float64]
type Ints = NDArray[np.int64]
type Array = Any
type LogDensity = Callable[[Floats], Floats]

# Normal quantiles through which a coordinate's curve runs; straight beyond.
_KNOTS = np.array([-2.2, -1.4, -0.7, 0.0, 0.7, 1.4, 2.2])

# How much wider than the draws so far the proposal is made.
_INFLATION = 1.1

# Weights above that of the draw of this rank count no more than it.
_LARGEST_WEIGHTS = 20

# Effective draws at which a curve is half believed.
_CURVE_DRAWS = 60

# Effective draws a dimension at which correlations between blocks are half believed.
_CORRELATION_DRAWS = 8

# A fit uses the draws of so many rounds, and no more of them than a covariance matrix
# is known from: this many times the squared dimension.
_FEWEST_ROUNDS, _MOST_ROUNDS, _REMEMBERED = 3, 8, 8

# Rows bent or straightened at once: their temporaries fit the processor's cache.
_ROWS = 400

# Bins of the histograms in which quantiles are looked up.
_BINS = 2048

# Draws of less than this share of an even weight say nothing of a fit.
_NO_WEIGHT = 1e-2

# This many rounds that improve the effective size by less than this end them.
_PATIENCE = 2
_WORTHWHILE = 1.1


class Curves(NamedTuple):
    """Monotone curves y(z), one a coordinate (Gregory and Delbourgo 1982).

    Attributes
    ----------
    heights, slopes : (K, D) float arrays
        Of y at the knots, and of its derivative.
    """

    heights: Array
    slopes: Array

    def bend(self, z: Array, xp: Any = np) -> tuple[Array, Array]:
        """Return y (..., D) of z (..., D), and the log determinant of dy/dz (...).

        Parameters
        ----------
        xp : module
            NumPy, or ``jax.numpy`` inside a JAX function.
        """
        left, right, low, rise, start, width, secant, bent, _, _ = self._pieces(z, _KNOTS[1:-1], xp)
        t = (z - start) / width
        inside = xp.clip(t, 0.0, 1.0)
        square = inside * inside
        product = inside - square
        scale = secant + bent * product
        part = left * product
        y = low + rise * (secant * square + part) / scale
        # Straight on beyond the outer knots; elsewhere t is inside.
        y = y + (t - inside) * width * xp.where(t < 0.0, left, right)
        # left (1 - inside)^2 + 2 secant product + right inside^2, written out
        slope = left + (right - left) * square + 2 * (secant * product - part)
        ratio = secant / scale
        return y, log_of_product(ratio * ratio * slope, -1, xp)

    def straighten(self, y: Floats) -> tuple[Floats, Floats]:
        """Return z (n, D) of y (n, D), and the log determinant of dz/dy (n,)."""
        left, right, low, rise, start, width, secant, bent, steep, first = self._pieces(
            y, self.heights[1:-1], np
        )
        over = y - low
        inside = np.clip(over, 0.0, rise)
        more = inside * bent
        b = first - more
        c = secant * inside
        # The smaller root of a t^2 + b t - c, a = rise (secant - left) + more.
        t = 2 * c / (b + np.sqrt(np.maximum(b * b + 4 * (steep + more) * c, 0.0)))
        t = np.minimum(t, 1.0)
        square = t * t
        product = t - square
        slope = left + (right - left) * square + 2 * (secant - left) * product
        ratio = secant / (secant + bent * product)
        z = start + width * t + (over - inside) / np.where(over < 0.0, left, right)
        return z, -log_of_product(ratio * ratio * slope, -1)

    def _pieces(self, values: Array, inner: Array, xp: Any) -> Array:
        """Return what is known of the piece that each value lies in, (10, ..., D).

        Slopes l and r at its ends, lowest height, rise, first knot, width, s = rise / width,
        l + r - 2 s, rise (s - l) and rise l.

        Parameters
        ----------
        values : (..., D)
        inner : (K - 2,) or (K - 2, D)
            Where pieces end, on the values' side; the outer two go on for ever.
        """
        d = values.shape[-1]
        # Coordinates first, so that columns of the result lie together as those of draws do.
        column = xp.moveaxis(values, -1, 0)
        ends = xp.asarray(inner).reshape(len(inner), -1, *(1,) * (values.ndim - 1))
        piece = xp.sum(column > ends, axis=0)
        # One place in ten tables instead of two indices: gathering is most of the work.
        at = piece * d + xp.arange(d).reshape(-1, *(1,) * (values.ndim - 1))
        knots = xp.asarray(_KNOTS)[:, None] + xp.zeros((1, d))
        rise, width = self.heights[1:] - self.heights[:-1], knots[1:] - knots[:-1]
        left, right, secant = self.slopes[:-1], self.slopes[1:], rise / width
        known = (
            left, right, self.heights[:-1], rise, knots[:-1], width, secant,
            left + right - 2 * secant, rise * (secant - left), rise * left,
        )  # fmt: skip
        table = xp.stack(known).reshape(len(known), -1)
        return xp.moveaxis(xp.take(table, at, axis=1, mode="clip"), 1, -1)


def curves_through(heights: Floats) -> Curves:
    """Return curves through ascending heights (K, D), their tails a little wide."""
    secants = np.diff(heights, axis=0) / np.diff(_KNOTS)[:, None]
    inner = np.sqrt(secants[:-1] * secants[1:])
    first = secants[:1] ** 1.5 / np.sqrt(inner[:1])
    last = secants[-1:] ** 1.5 / np.sqrt(inner[-1:])
    return Curves(heights, np.vstack([first, inner, last]))


@dataclass(frozen=True, eq=False)
class Proposal:
    """A t density in bent coordinates.

    Attributes
    ----------
    mean : (D,) float array
    factor : (D, D) float array
        Lower Cholesky factor of the scale matrix, before bending.
    curves : Curves
    """

    mean: Floats
    factor: Floats
    curves: Curves

    @property
    def degrees_of_freedom(self) -> float:
        """Degrees of freedom: in many dimensions t densities of few miss the normal's shell."""
        return max(8.0, self.mean.size / 2)

    def draw(self, rng: np.random.Generator, n: int) -> Floats:
        """Return n draws, (n, D)."""
        return self.draw_known(rng, n)[0]

    def draw_known(self, rng: np.random.Generator, n: int) -> tuple[Floats, Floats]:
        """Return n draws, (n, D), and their log density, (n,), which costs next to nothing."""
        df, d = self.degrees_of_freedom, self.mean.size
        normal = rng.standard_normal((n, d)).T
        unit = normal / np.sqrt(rng.chisquare(df, n) / df)
        # A column lies together, here and in all that is made of it.
        z = (self.mean[:, None] + self.factor @ unit).T
        parts = [self.curves.bend(z[i : i + _ROWS]) for i in range(0, n, _ROWS)]
        y = np.concatenate([bent.T for bent, _ in parts], axis=1).T
        log_slope = np.concatenate([slope for _, slope in parts])
        return y, self._log_t(np.einsum("dn,dn->n", unit, unit)) - log_slope

    def log_density(self, y: Floats) -> Floats:
        """Return the log density of rows of y, (n,)."""
        inverse = np.linalg.inv(self.factor)
        out = np.empty(len(y))
        for i in range(0, len(y), _ROWS):
            rows = slice(i, i + _ROWS)
            z, log_slope = self.curves.straighten(y[rows])
            unit = inverse @ (z - self.mean).T
            out[rows] = self._log_t(np.einsum("dn,dn->n", unit, unit)) + log_slope
        return out

    def _log_t(self, square: Floats) -> Floats:
        """Return the log density before bending, where the squared distance is this."""
        df, d = self.degrees_of_freedom, self.mean.size
        constant = gammaln((df + d) / 2) - gammaln(df / 2) - 0.5 * d * np.log(df * np.pi)
        log_det = np.log(np.diag(self.factor)).sum()
        return np.asarray(constant - log_det - 0.5 * (df + d) * np.log1p(square / df))


def first_proposal(mean: Floats, covariance: Floats) -> Proposal:
    """Return a t density with this centre and shape, its curves straight."""
    sd = np.sqrt(np.diag(covariance))
    factor = np.linalg.cholesky(_INFLATION * covariance / np.outer(sd, sd))
    return Proposal(np.zeros(mean.size), factor, curves_through(mean + np.outer(_KNOTS, sd)))


def adapt(
    rng: np.random.Generator,
    target: LogDensity,
    proposal: Proposal,
    blocks: Ints,
    n_draws: int,
    n_rounds: tuple[int, int],
    enough: float = 1.0,
) -> Proposal:
    """Fit the proposal to the weighted draws of the last rounds, round by round.

    A round's weights are those under the proposal it was drawn from, whose density a draw
    brings along; rounds count by their effective sizes.

    Parameters
    ----------
    blocks : (D,) int array
        Coordinates of different blocks are taken as uncorrelated where few
        effective draws would measure their correlation.
    n_draws : int
        Of each round.
    n_rounds : (least, most)
        Between them rounds go on while they improve the fit.
    enough : float
        Effective share of a round's draws that ends the rounds, however few: more would
        mend little.
    """
    kept = -(-_REMEMBERED * proposal.mean.size**2 // n_draws)
    kept = min(max(kept, _FEWEST_ROUNDS), _MOST_ROUNDS)
    rounds: list[tuple[Floats, Floats]] = []
    best, idle = 0.0, 0
    for done in range(n_rounds[1]):
        y, own = proposal.draw_known(rng, n_draws)
        log_ratio = target(y) - own
        log_weight = log_ratio - log_sum(log_ratio)
        size = kish_ess(log_weight)
        idle = 0 if size >= _WORTHWHILE * best else idle + 1
        if done >= n_rounds[0] and idle >= _PATIENCE:
            break
        best = max(best, size)
        rounds = [*rounds, (y, size * np.exp(log_weight))][-kept:]
        draws, weight = zip(*rounds, strict=True)
        together = np.concatenate([one.T for one in draws], axis=1).T
        proposal = refit(proposal, together, np.concatenate(weight), blocks)
        if done and size >= enough * n_draws:
            break
    return proposal


def refit(proposal: Proposal, y: Floats, weight: Floats, blocks: Ints) -> Proposal:
    """Fit curves to weighted quantiles, then mean and scale matrix to what they straighten."""
    weight = np.minimum(weight, np.partition(weight, -_LARGEST_WEIGHTS)[-_LARGEST_WEIGHTS])
    some = weight * len(weight) > _NO_WEIGHT * weight.sum()
    y, weight = y.T[:, some].T, weight[some]
    weight = weight / weight.sum()
    ess = 1.0 / np.sum(weight**2)
    trust = ess / (ess + _CURVE_DRAWS)
    heights = trust * _quantiles(y, weight) + (1 - trust) * proposal.curves.heights
    # Ties of few heavy draws would make a curve flat.
    gaps = np.maximum(np.diff(heights, axis=0), 1e-3 * (heights[-1] - heights[0]))
    curves = curves_through(np.vstack([heights[:1], heights[0] + np.cumsum(gaps, axis=0)]))
    z = np.concatenate(
        [curves.straighten(y[i : i + _ROWS])[0].T for i in range(0, len(y), _ROWS)], axis=1
    )
    mean = z @ weight
    centred = z - mean[:, None]
    covariance = (centred * weight) @ centred.T
    trust = ess / (ess + _CORRELATION_DRAWS * y.shape[1])
    covariance *= np.where(blocks[:, None] == blocks, 1.0, trust)
    # Within a block no more than its own size is at stake.
    trust = ess / (ess + 2 * np.bincount(blocks).max(initial=1))
    old = proposal.factor @ proposal.factor.T
    covariance = trust * _INFLATION * covariance + (1 - trust) * old
    return Proposal(trust * mean, np.linalg.cholesky(covariance), curves)


def _quantiles(y: Floats, weight: Floats) -> Floats:
    """Return weighted quantiles at the knots' normal probabilities, (K, D).

    To within a bin of fine histograms: sorting every column takes ten times as long. Each
    draw's weight is shared by the edges beside it, so that what rounding does to draws
    moves no quantile further.

    Parameters
    ----------
    y : (n, D) float array
    weight : (n,) float array
        Sums to one.
    """
    d = y.shape[1]
    low, high = y.min(axis=0), y.max(axis=0)
    width = np.maximum((high - low) / _BINS, np.finfo(float).tiny)
    place = ((y - low) / width).T
    below = np.minimum(place.astype(np.int64), _BINS - 1)
    share = (place - below) * weight
    edges, size = below + (_BINS + 1) * np.arange(d)[:, None], d * (_BINS + 1)
    at_edges = np.bincount(edges.ravel(), (weight - share).ravel(), size)
    at_edges += np.bincount(edges.ravel() + 1, share.ravel(), size)
    held = at_edges.reshape(d, _BINS + 1)
    cumulative = np.cumsum(held, axis=1) - 0.5 * held
    numbers, p = np.arange(_BINS + 1.0), ndtr(_KNOTS)
    places = np.array([np.interp(p, column, numbers) for column in cumulative])
    return np.asarray(low + width * places.T)


def pareto_smooth(log_ratio: Floats) -> tuple[Floats, float]:
    """Return Pareto-smoothed, normalized log weights and the Pareto k.

    The largest weights are replaced by quantiles of a generalized Pareto
    distribution fitted to them.

    Parameters
    ----------
    log_ratio : (n,) float array
        Minus infinity for draws of weight zero.

    Returns
    -------
    log_weight : (n,) float array
    pareto_k : float
        Infinite where fewer than five weights are in the tail.
    """
    log_weight = log_ratio - np.max(log_ratio)
    n = log_weight.size
    n_tail = int(min(0.2 * n, 3 * np.sqrt(n)))
    order = np.argsort(log_weight)
    tail = order[-n_tail:]
    cutoff = max(float(log_weight[order[-n_tail - 1]]), float(np.log(np.finfo(float).tiny)))
    tail = tail[log_weight[tail] > cutoff]
    if tail.size < 5:
        return log_weight - log_sum(log_weight), np.inf
    excess = np.exp(log_weight[tail]) - np.exp(cutoff)
    k, sigma = fit_generalized_pareto(excess)
    if np.isfinite(k):
        p = (np.arange(tail.size) + 0.5) / tail.size
        stretch = -np.log1p(-p) if abs(k) < 1e-12 else np.expm1(-k * np.log1p(-p)) / k
        log_weight = log_weight.copy()
        log_weight[tail] = np.minimum(np.log(np.exp(cutoff) + sigma * stretch), 0.0)
    return log_weight - log_sum(log_weight), float(k)


def fit_generalized_pareto(excess: Floats) -> tuple[float, float]:
    """Return shape k and scale of ascending excesses (Zhang and Stephens 2009).

    The shape is shrunk a little towards one half, as PSIS has it.
    """
    n = excess.size
    grid = 30 + int(np.sqrt(n))
    quarter = excess[int(n / 4 + 0.5) - 1]
    b = (1 - np.sqrt(grid / (np.arange(1, grid + 1) - 0.5))) / (3 * quarter) + 1 / excess[-1]
    k = np.log1p(-b[:, None] * excess).mean(axis=1)
    profile = n * (np.log(-b / k) - k - 1)
    weight = np.exp(profile - log_sum(profile))
    mean = float(b @ weight)
    shape = float(np.log1p(-mean * excess).mean())
    scale = -shape / mean
    return (n * shape + 5.0) / (n + 10), float(scale)


def log_sum(values: Floats) -> float:
    """Return the log of the sum of exponentials (n,): SciPy's takes ten times as long for few."""
    largest = float(values.max())
    if not np.isfinite(largest):
        return largest
    return largest + float(np.log(np.exp(values - largest).sum()))


def kish_ess(log_weight: Floats) -> float:
    """Return the effective size of normalized log weights, 1 / sum of squares."""
    return float(np.exp(-log_sum(2 * log_weight)))


def weighted_ess(log_weight: Floats, values: Floats, n_kept: int | None = None) -> float:
    """Return the smallest effective size, over columns (n, D), of draws kept by their weights.

    Without ``n_kept`` it is that of the weighted draws themselves.

    A weighted mean has variance sum w^2 (v - mean)^2. Keeping ``n_kept`` rows by
    systematic resampling rounds each row's count n_kept w up or down, by chance
    f, its fraction, which adds sum f (1 - f) (v - mean)^2 / n_kept^2. The size is
    that of as many independent draws as have the same variance, at most Kish's.
    It is taken of each column's mean and of its mean square about it: the weights
    of a tail that is hardly reached show in the second long before the first.
    """
    return weighted_sizes(log_weight, values, (n_kept,))[0]


def weighted_sizes(
    log_weight: Floats, values: Floats, kept: tuple[int | None, ...]
) -> tuple[float, ...]:
    """Return what :func:`weighted_ess` returns, of several numbers that are kept."""
    weight = np.exp(log_weight)
    # Draws far out, of no weight at all, may be too large to be squared twice.
    some = weight > 0
    column = values.T
    if not some.all():
        weight, column = weight[some], column[:, some]
    squares = column - (column @ weight)[:, None]
    np.square(squares, out=squares)
    shares = [weight]
    for n_kept in kept:
        of_weights = weight**2
        if n_kept is not None:
            fraction = np.modf(n_kept * weight)[0]
            of_weights = of_weights + fraction * (1 - fraction) / n_kept**2
        shares.append(of_weights)
    every = np.stack(shares).T
    of_squares = squares @ every
    squares -= of_squares[:, :1]
    np.square(squares, out=squares)
    of_one, *of_means = np.vstack([of_squares, squares @ every]).T
    sizes = [kish_ess(log_weight)] * len(kept)
    for place, of_mean in enumerate(of_means):
        size = np.divide(of_one, of_mean, out=np.full(of_one.shape, np.inf), where=of_mean > 0)
        sizes[place] = min(sizes[place], float(size.min(initial=np.inf)))
    return tuple(sizes)


def resample(rng: np.random.Generator, log_weight: Floats, n: int) -> NDArray[np.int64]:
    """Draw n rows by their weights, evenly spread (systematic), in random order."""
    cumulative = np.cumsum(np.exp(log_weight))
    points = (np.arange(n) + rng.random()) / n * cumulative[-1]
    return rng.permutation(np.searchsorted(cumulative, points)).astype(np.int64)
