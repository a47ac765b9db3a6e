"""Where the posterior of the scales lies, and coordinates that suit it there."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from bayesjudge.engines.coordinates import (
    Constants,
    Frame,
    Scales,
    ScaleSite,
    coordinates_of,
    log_center_at,
    plain_frame,
    scales_at,
    size,
    slots,
)
from bayesjudge.engines.effects import Integrated

type Floats = NDArray[np.float64]

# A scale whose logarithm has a larger sd than this may be zero.
_CLEAR_OF_ZERO = 0.45

# The mode only starts the proposals: near it is good enough.
_NEAR_ENOUGH = {"maxiter": 60, "gtol": 5e-2, "ftol": 3e-7}

# Newton's steps: at most so many, none that moves a coordinate further, none that is
# expected to gain less; parts of one are tried where the whole of it gains nothing.
_STEPS, _REACH, _GAIN = 40, 2.0, 1e-2
_LENGTHS = np.array([0.5, 0.2, 0.05, 0.01, 0.001])

# The least curvature that is believed: all coordinates have prior sds near one.
_FLAT = 0.3

# Step of differences in log scales, in units of which densities bend.
_STEP = 1e-2


@dataclass(frozen=True, eq=False)
class Target:
    """The posterior density of the scales in some coordinates."""

    sites: tuple[ScaleSite, ...]
    fixed: Constants
    frame: Frame
    likelihood: Integrated

    @property
    def step(self) -> float:
        """Step of second differences: wider where values are known to fewer digits."""
        return _STEP

    def log_density(self, x: Floats) -> Floats:
        """Return the log density of rows of x, minus infinity where it is not finite."""
        return self.known_at(x)[0]

    def known_at(self, x: Floats) -> tuple[Floats, Scales]:
        """Return the log density of rows of x, and the scales there."""
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            scales = scales_at(x, self.sites, self.frame, self.fixed)
            value = scales.log_prior + self.likelihood.values(scales.sd, scales.noise)
        return np.where(np.isfinite(value), value, -np.inf), scales

    def slope(self, x: Floats) -> tuple[float, Floats]:
        """Return the log density at x (D,) and its gradient."""
        step = 1e-5
        around = np.vstack([x, x + step * np.eye(x.size), x - step * np.eye(x.size)])
        scales = scales_at(around, self.sites, self.frame, self.fixed)
        value, d_sd, d_noise = self.likelihood.slope(scales.sd[0], scales.noise[0])

        def change(values: Floats) -> Floats:
            return np.asarray((values[1 : x.size + 1] - values[x.size + 1 :]) / (2 * step))

        gradient = change(scales.log_prior) + change(scales.sd) @ d_sd
        gradient = gradient + change(scales.noise) @ d_noise
        return value + float(scales.log_prior[0]), gradient


@dataclass(frozen=True, eq=False)
class Start:
    """A target in coordinates that suit it, and a normal approximation.

    Attributes
    ----------
    target : Target
    mean : (D,) float array
    covariance : (D, D) float array
    """

    target: Target
    mean: Floats
    covariance: Floats


def settle(
    sites: tuple[ScaleSite, ...], fixed: Constants, likelihood: Integrated, signed: bool = False
) -> Start:
    """Find the mode and lay coordinates about it.

    Parameters
    ----------
    signed : bool
        Give scales that may be zero a sign: on the logarithm they have a long
        tail, which importance draws need not mind and Markov chains walk slowly.
    """
    target = Target(sites, fixed, plain_frame(sites), likelihood)
    places = slots(sites)
    spreads = np.zeros(size(sites), bool)
    for slot in places:
        spreads[slot.start : slot.stop] = slot.part == "spread"
    x = np.zeros(size(sites))
    by_level = {slot.site for slot in places if slot.part == "levels"}
    for slot in places:
        # Centers of levels are standardized about this already.
        if slot.part == "center" and slot.site in by_level:
            continue
        if slot.prior is not None and slot.prior.distribution == "half_normal":
            x[slot.start] = np.log(0.5 * slot.prior.parameters[0])
        elif slot.prior is not None:
            x[slot.start] = slot.prior.parameters[0]
    spread_mean, spread_sd = np.ones(x.size), np.ones(x.size)
    # The spreads' typical values move the mode and it moves them: twice is enough.
    for _ in range(2 if any(slot.part == "levels" for slot in places) else 0):
        x = find_mode(target, x, spreads)
        frame, spread_mean, spread_sd = measure(target, x)
        old, target = target, moved(target, frame)
        x = carried(x, sites, old, target, spread_mean)
    x = find_mode(target, x, spreads)
    return lay_out(target, x, spreads, spread_mean, spread_sd, signed)


def moved[T: Target](target: T, frame: Frame) -> T:
    """Return a target in other coordinates."""
    return replace(target, frame=frame)


def find_mode(target: Target, start: Floats, held: NDArray[np.bool_]) -> Floats:
    """Return where a density is highest, (D,), coordinates that are held as they were."""
    free = ~held
    if not free.any():
        return start
    if target.likelihood.in_bulk:
        found_at = _by_newton(target, start, free)
        if found_at is not None:
            return found_at

    def objective(x: Floats) -> tuple[float, Floats]:
        value, slope = target.slope(_with(start, free, x))
        if not np.isfinite(value):
            return 1e300, np.zeros(x.size)
        return -value, -slope[free]

    found = cast(Any, minimize)(
        objective, start[free], jac=True, method="L-BFGS-B", options=_NEAR_ENOUGH
    )
    return _with(start, free, found.x)


def _by_newton(target: Target, x: Floats, free: NDArray[np.bool_]) -> Floats | None:
    """Climb by Newton's steps: slope and curvature come of one batch of densities.

    None where densities about a point are not finite.
    """
    value, slope, curvature = _bent_at(target, x, free)
    for _ in range(_STEPS):
        if not np.isfinite(curvature).all():
            return None
        values, vectors = np.linalg.eigh(curvature)
        step = vectors @ ((vectors.T @ slope) / np.maximum(np.abs(values), _FLAT))
        step *= min(1.0, _REACH / max(np.abs(step).max(), 1e-300))
        if 0.5 * slope @ step < _GAIN:
            return x
        whole = _with(x, free, x[free] + step)
        found = _bent_at(target, whole, free)
        if not found[0] > value:
            parts = np.repeat(x[None], _LENGTHS.size, axis=0)
            parts[:, free] += _LENGTHS[:, None] * step
            tried = target.log_density(parts)
            if not tried.max() > value:
                return x
            whole = parts[np.argmax(tried)]
            found = _bent_at(target, whole, free)
        x, (value, slope, curvature) = whole, found
    return x


def _with(x: Floats, where: NDArray[np.bool_], values: Floats) -> Floats:
    out = x.copy()
    out[where] = values
    return out


def measure(target: Target, x: Floats) -> tuple[Frame, Floats, Floats]:
    """Measure what the likelihood alone says of each level's log scale.

    Returns
    -------
    frame : Frame
        With its information and target.
    spread_mean, spread_sd : (D,) float arrays
        Typical values of the spreads, at their coordinates.
    """
    places = slots(target.sites)
    scales = scales_at(x, target.sites, target.frame, target.fixed)
    log_sd = _log_scales(target, scales.sd, scales.noise)
    starts = _starts(target.sites)
    which = [
        np.arange(starts[s.site], starts[s.site] + target.sites[s.site].n_by)
        for s in places
        if s.part == "levels"
    ]
    information, goal = np.zeros(x.size), np.zeros(x.size)
    spread_mean, spread_sd = np.ones(x.size), np.ones(x.size)
    if not which:
        return Frame(target.frame.logged, information, goal), spread_mean, spread_sd
    index = np.concatenate(which)
    bent, sloped = _bends(target, log_sd, index)
    done = 0
    for slot in places:
        if slot.part != "levels":
            continue
        site = target.sites[slot.site]
        part = slice(done, done + site.n_by)
        done = part.stop
        # Coordinates are in units of u.
        own = log_sd[index[part]] - np.log(target.fixed.unit)
        h = np.maximum(bent[part], 0.0)
        shift = np.clip(sloped[part] / np.maximum(h, 1e-3), -2.0, 2.0)
        information[slot.start : slot.stop] = h
        goal[slot.start : slot.stop] = own + shift
        spread = next((s for s in places if s.site == slot.site and s.part == "spread"), None)
        if spread is not None and spread.prior is not None:
            spread_mean[spread.start], spread_sd[spread.start] = typical_spread(
                own + shift, h, spread.prior.parameters[0]
            )
    return Frame(target.frame.logged, information, goal), spread_mean, spread_sd


def _starts(sites: tuple[ScaleSite, ...]) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum([s.width for s in sites])]).astype(np.int64)


def _log_scales(target: Target, sd: Floats, noise: Floats) -> Floats:
    """Return all log scales, the residual's last, in the unit of the scores."""
    residual = np.sqrt(np.maximum(noise - target.fixed.floor**2, 0.0))
    return np.asarray(np.log(np.maximum(np.concatenate([sd[:-1], residual]), 1e-300)))


def _bends(
    target: Target, log_sd: Floats, index: NDArray[np.int64], step: float = 0.05
) -> tuple[Floats, Floats]:
    """Return minus the second, and the first derivative of the likelihood in log scales."""
    n = index.size
    rows = np.repeat(log_sd[None], 2 * n + 1, axis=0)
    rows[1 + np.arange(n), index] += step
    rows[1 + n + np.arange(n), index] -= step
    every = np.exp(rows)
    n_sd = log_sd.size - target.sites[-1].width
    sd = np.column_stack([every[:, :n_sd], np.full(len(rows), target.fixed.intercept_sd)])
    value = target.likelihood.values(sd, every[:, n_sd:] ** 2 + target.fixed.floor**2)
    up, down = value[1 : n + 1], value[n + 1 :]
    return (2 * value[0] - up - down) / step**2, (up - down) / (2 * step)


def carried(
    x: Floats,
    sites: tuple[ScaleSite, ...],
    old: Target,
    new: Target,
    spread_mean: Floats,
) -> Floats:
    """Move a point to the new coordinates, its scales kept and its spreads replaced."""
    scales = scales_at(x, sites, old.frame, old.fixed)
    unit = old.fixed.unit
    own = np.exp(_log_scales(old, scales.sd, scales.noise)) / unit
    hyper = {
        name: value / unit if name.endswith("_center") else value
        for name, value in scales.hyper.items()
    }
    for slot in slots(sites):
        if slot.part == "spread":
            hyper[f"{sites[slot.site].name}_spread"] = spread_mean[slot.start]
    out = x.copy()
    out[: size(sites)] = coordinates_of(own, hyper, sites, new.frame)[: size(sites)]
    return out


def _bent_at(target: Target, x: Floats, free: NDArray[np.bool_]) -> tuple[float, Floats, Floats]:
    """Return the log density at x (D,), its slope, and minus its second derivatives.

    Of the coordinates that are free, by differences of values alone, all in one call.
    """
    step = target.step * np.eye(x.size)[free]
    d = len(step)
    i, j = np.triu_indices(d)
    value = target.log_density(np.vstack([x, x + step, x + step[i] + step[j]]))
    at, one, two = value[0], value[1 : d + 1], value[d + 1 :]
    curvature = np.zeros((d, d))
    with np.errstate(invalid="ignore"):
        curvature[i, j] = curvature[j, i] = (one[i] + one[j] - at - two) / target.step**2
        slope = (one - at) / target.step + 0.5 * target.step * np.diag(curvature)
    return float(at), slope, curvature


def lay_out(
    target: Target,
    x: Floats,
    spreads: NDArray[np.bool_],
    spread_mean: Floats,
    spread_sd: Floats,
    signed: bool,
) -> Start:
    """Choose logarithm or sign for each scale, and approximate the density there."""
    free = ~spreads
    values, vectors = np.linalg.eigh(_bent_at(target, x, free)[2])
    inverse = (vectors / np.maximum(values, _FLAT)) @ vectors.T
    covariance = np.zeros((x.size, x.size))
    covariance[np.ix_(free, free)] = inverse
    mean, logged = x.copy(), np.ones(x.size, bool)
    for slot in slots(target.sites):
        i = slot.start
        if slot.prior is None or slot.prior.distribution != "half_normal":
            continue
        if slot.part == "spread":
            covariance[i, i] = np.log1p((spread_sd[i] / spread_mean[i]) ** 2)
            mean[i] = np.log(spread_mean[i]) - 0.5 * covariance[i, i]
        log_value, pace = mean[i], 1.0
        if slot.part == "center":
            log_value, pace = log_center_at(mean, slot.site, target.sites, target.frame)
        if signed and covariance[i, i] * pace**2 > _CLEAR_OF_ZERO**2:
            logged[i] = False
            mean[i] = np.exp(log_value)
            covariance[i, :] = covariance[:, i] = 0.0
            covariance[i, i] = mean[i] ** 2
    frame = Frame(logged, target.frame.information, target.frame.target)
    return Start(moved(target, frame), mean, covariance)


def typical_spread(deviations: Floats, information: Floats, width: float) -> tuple[float, float]:
    """Posterior mean and sd of a spread from estimates of log scales.

    Parameters
    ----------
    deviations : (B,) float array
        Estimates of log s_b about a common value.
    information : (B,) float array
        One over the variance of each; zero where the data say nothing.
    width : float
        Of the spread's half-normal prior.
    """
    spread = width * np.geomspace(1e-3, 4.0, 400)[:, None]
    weight = information / (1.0 + spread**2 * information)
    total = weight.sum(axis=1, keepdims=True) + 1e-12
    center = (weight * deviations).sum(axis=1, keepdims=True) / total
    log_density = (
        -0.5 * (spread[:, 0] / width) ** 2
        - 0.5 * np.log1p(spread**2 * information).sum(axis=1)
        - 0.5 * (weight * (deviations - center) ** 2).sum(axis=1)
        - 0.5 * np.log(total[:, 0])
        + np.log(spread[:, 0])
    )
    density = np.exp(log_density - log_density.max())
    density /= density.sum()
    mean = float(spread[:, 0] @ density)
    return mean, float(np.sqrt((spread[:, 0] - mean) ** 2 @ density))
