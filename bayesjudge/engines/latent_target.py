"""The posterior of a latent family's scales and cutpoints, and where it lies."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_expit

from bayesjudge.engines.cell_likelihoods import Categories, Verdicts
from bayesjudge.engines.coordinates import (
    Constants,
    Frame,
    ScaleSite,
    coordinates_of,
    scale_sites,
    scales_at,
    size,
    slots,
)
from bayesjudge.engines.effects import Integrated, forward_slope
from bayesjudge.engines.latent_blocks import LatentBlocks
from bayesjudge.engines.modes import (
    Target,
    carried,
    find_mode,
    lay_out,
    measure,
    moved,
)
from bayesjudge.engines.nested import NEAR, Approximation, Nested, Point, parts_of
from bayesjudge.engines.sampled import starting_values
from bayesjudge.engines.streams import Streams
from bayesjudge.engines.surrogate import Surrogate, concave, floor_of, natural
from bayesjudge.engines.unbiased import Estimate, SharedDraws, as_approximated, estimate
from bayesjudge.errors import ModelError
from bayesjudge.resolution import Resolved
from bayesjudge.spec import Prior, Scale

type Floats = NDArray[np.float64]
type Ints = NDArray[np.int64]

# Numbers of one set of scales' arrays, all together, that are worked on at once.
_AT_ONCE = 400_000

# Steps of expectation and maximization: they come near, Newton's go on from there.
_EM_STEPS = 7

# Newton's steps from there, the longest, and what a step must gain for each coordinate.
_MOST_STEPS, _LONGEST, _SMALL_GAIN = 7, 0.7, 0.02

# Step of differences, and a prior's width that keeps Newton's steps within reason.
_STEP, _TYPICAL = 0.1, 1.5

# Newton's last step to the mode of effects gains less than this, where the mean is next.
_SETTLED = 0.3


@dataclass(frozen=True, eq=False)
class Cheap(Integrated):
    """The surrogate as a function of the scales alone, at some cutpoints."""

    surrogate: Surrogate
    stops: Floats | None

    def values(self, sd: Floats, noise: Floats) -> Floats:  # noqa: ARG002
        """Return log-likelihoods (n,) of scales (n, n_sd)."""
        stops = None if self.stops is None else np.repeat(self.stops, len(sd), axis=0)
        return self.surrogate.values(sd, stops)

    def slope(self, sd: Floats, noise: Floats) -> tuple[float, Floats, Floats]:
        """Return the log-likelihood and its derivatives for one set, (n_sd,) and (V,)."""
        return forward_slope(self.values, sd, noise)

    def kept_effects(self, sd: Floats, noise: Floats, streams: Streams) -> dict[str, Floats]:  # noqa: ARG002
        """Return no effects: they come with the likelihood's estimates."""
        return {}

    def other_effects(
        self,
        sd: Floats,  # noqa: ARG002
        noise: Floats,  # noqa: ARG002
        streams: Streams,  # noqa: ARG002
        kept: dict[str, Floats],  # noqa: ARG002
    ) -> dict[str, Floats]:
        """Return no effects."""
        return {}


@dataclass(frozen=True, eq=False)
class LatentTarget(Target):
    """The posterior density of scales, and of log-odds of stopping behind them in x.

    ``log_density`` is the surrogate's; ``estimate`` gives the true one's estimates.

    Attributes
    ----------
    n_stops : int
    nested : Nested
    surrogate : Surrogate
    guide : Guide
    shared : SharedDraws
    """

    n_stops: int
    nested: Nested
    surrogate: Surrogate
    guide: Guide
    shared: SharedDraws

    def log_density(self, x: Floats) -> Floats:
        """Return the log density of rows of x, by the surrogate."""
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            prior, sd, stops = self.parts(x)
            value = prior + self.surrogate.values(sd, stops)
        return np.where(np.isfinite(value), value, -np.inf)

    def slope(self, x: Floats) -> tuple[float, Floats]:
        """Return the surrogate's log density at x (D,) and its gradient."""
        move = 1e-5 * np.eye(x.size)
        value = self.log_density(np.vstack([x, x + move, x - move]))
        d = x.size
        return float(value[0]), (value[1 : d + 1] - value[d + 1 :]) / 2e-5

    def parts(self, x: Floats) -> tuple[Floats, Floats, Floats | None]:
        """Return log priors (n,), scales (n, n_sd) and log-odds of stopping (n, T) of x."""
        scales = scales_at(x, self.sites, self.frame, self.fixed)
        if not self.n_stops:
            return scales.log_prior, scales.sd, None
        stops = x[:, -self.n_stops :]
        return scales.log_prior + log_prior_of_stops(stops), scales.sd, stops

    def estimate(
        self,
        x: Floats,
        rng: np.random.Generator,
        n_draws: int,
        still: bool = False,
        sloped: bool = False,
    ) -> Estimated:
        """Estimate the density at x (n, D) without bias, by M draws of scenarios' effects."""
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            prior, sd, stops = self.parts(x)
            natural = self.surrogate.natural(sd, stops)
            start = self.guide.starting(natural)
            # Where a surrogate learns from it, Laplace's value must have settled too.
            near = NEAR if sloped else _SETTLED
            at = self.nested.approximate(sd, stops, start, near, to_mean=True)
            mean, factor = self.shared.means(natural), self.shared.factor
            drawn = estimate(self.nested, at, stops, rng, n_draws, mean, factor, still, sloped)
        value, laplace = (
            np.where(np.isfinite(v), v, -np.inf)
            for v in (prior + drawn.log_likelihood, prior + at.value)
        )
        return Estimated(value, laplace, sd, natural, drawn)


@dataclass(frozen=True, eq=False)
class Estimated:
    """Log densities of n sets of scales, up to a constant.

    Attributes
    ----------
    value : (n,)
        Estimates without bias of the density, on the logarithm.
    laplace : (n,)
        By Laplace's likelihoods.
    sd : (n, n_sd)
    natural : (n, D)
        The scales' natural coordinates.
    drawn : Estimate
    """

    value: Floats
    laplace: Floats
    sd: Floats
    natural: Floats
    drawn: Estimate


@dataclass(frozen=True, eq=False)
class Guide:
    """Where modes lie, to first order in natural coordinates.

    Attributes
    ----------
    center : (D,) float array
    at_center : Point
        One row.
    slopes : Point
        D rows.
    """

    center: Floats
    at_center: Point
    slopes: Point

    def starting(self, natural_coordinates: Floats) -> Point:
        """Return where Newton begins, for rows of natural coordinates."""
        away = np.clip(natural_coordinates - self.center, -_REACH, _REACH)
        parts = [
            b + (away @ s.reshape(len(s), -1)).reshape(len(away), *b.shape[1:])
            for b, s in zip(parts_of(self.at_center), parts_of(self.slopes), strict=True)
        ]
        shared, own, center, spread = parts
        return Point(shared, own, center, np.clip(spread, 0.05, 1.0))


# How far modes are followed along their slopes.
_REACH = 1.5


@dataclass(frozen=True, eq=False)
class LatentStart:
    """A target in coordinates that suit it, with mean (D,) and covariance (D, D) there."""

    target: LatentTarget
    mean: Floats
    covariance: Floats


def log_prior_of_stops(stops: Floats) -> Floats:
    """Return the log density of rows of log-odds of stopping, a Dirichlet(1)'s."""
    passes = np.arange(stops.shape[1], 0.0, -1.0)
    return np.asarray((log_expit(stops) + passes * log_expit(-stops) + np.log(passes)).sum(axis=1))


def chunks(nested: Nested, n: int) -> list[slice]:
    """Part n rows so that what they need fits the processor's cache, or nearly."""
    each = nested.n_leaves * nested.n_seen * 7
    each = max(each, nested.n_scenarios * nested.n_places * (nested.n_own + nested.n_shared))
    some = max(1, _AT_ONCE // each)
    return [slice(i, i + some) for i in range(0, n, some)]


def likelihood_of(resolved: Resolved, blocks: LatentBlocks) -> Verdicts | Categories:
    """Return the likelihood of the counts."""
    if blocks.successes is not None:
        return Verdicts(blocks.count, blocks.successes, resolved.spec.link)
    if blocks.category is None:
        raise ModelError(f"family {resolved.spec.family!r} has no counts", "", "Use another engine")
    return Categories(blocks.category, blocks.count, resolved.spec.link)


def settle_latent(resolved: Resolved, blocks: LatentBlocks) -> LatentStart:
    """Find where the posterior lies, and coordinates that suit it there.

    Expectation and maximization come near, Newton's steps by differences go on; from
    there all is done with the surrogate.
    """
    nested = Nested(blocks, likelihood_of(resolved, blocks))
    # These families have no residual scale: one that is fixed stands in its place.
    sites = (*scale_sites(resolved), ScaleSite("sigma", Scale(Prior("fixed", (1.0,))), 0))
    width = 1.0 if resolved.spec.intercept is None else resolved.intercept_sd
    known = starting_values(resolved)
    stops = known["cutpoints_x"][None] if "cutpoints_x" in known else None
    sd = _first_sd(resolved, known, width)
    free = _free_scales(sites)
    sd, stops, point = _maximize(nested, blocks, sd, stops, free)
    surrogate, guide, sd, stops = _explore(nested, sd, stops, point, free)
    return settle_surrogate(
        sites, Constants(resolved.unit, width, 0.0), nested, surrogate, guide, sd, stops
    )


def settle_surrogate(
    sites: tuple[ScaleSite, ...],
    fixed: Constants,
    nested: Nested,
    surrogate: Surrogate,
    guide: Guide,
    sd: Floats,
    stops: Floats | None,
) -> LatentStart:
    """Lay coordinates about the surrogate's posterior, from scales near its mode (1, n_sd)."""
    n_stops = 0 if stops is None else stops.shape[1]
    d = size(sites) + n_stops
    # Coordinates of cutpoints stand behind those of scales, which know nothing of them.
    frame = Frame(np.arange(d) < size(sites), np.zeros(d), np.zeros(d))
    target = LatentTarget(
        sites,
        fixed,
        frame,
        Cheap(surrogate, stops),
        n_stops,
        nested,
        surrogate,
        guide,
        as_approximated(nested.n_shared, surrogate.center.size),
    )
    x = np.zeros(d)
    own = sd[0, :-1] / fixed.unit
    x[: size(sites)] = coordinates_of(own, _hyper(sites, own), sites, frame)
    if stops is not None:
        x[-n_stops:] = stops[0]
    spreads = np.zeros(d, bool)
    for slot in slots(sites):
        spreads[slot.start : slot.stop] = slot.part == "spread"
    for _ in range(2):
        x = find_mode(target, x, spreads)
        new, spread_mean, spread_sd = measure(target, x)
        old, target = target, moved(target, new)
        x = carried(x, sites, old, target, spread_mean)
    x = find_mode(target, x, spreads)
    found = lay_out(target, x, spreads, spread_mean, spread_sd, signed=False)
    return LatentStart(moved(target, found.target.frame), found.mean, found.covariance)


def _free_scales(sites: tuple[ScaleSite, ...]) -> Ints:
    """Return places of scales that vary, the residual's left out."""
    vary = [
        np.full(s.width, s.deviates or s.scale.center.distribution != "fixed") for s in sites[:-1]
    ]
    return np.flatnonzero(np.concatenate(vary)).astype(np.int64)


def _first_sd(resolved: Resolved, known: dict[str, Floats], width: float) -> Floats:
    columns = []
    for site in scale_sites(resolved):
        value = known[f"{site.name}_center" if site.n_by else site.name]
        columns += [float(value)] * site.width
    return np.array([[*columns, width]])


def _hyper(sites: tuple[ScaleSite, ...], sd: Floats) -> dict[str, Floats]:
    """Return centres and spreads of scales by a facet, as the scales themselves have them."""
    starts = np.concatenate([[0], np.cumsum([s.width for s in sites])])
    found = {}
    for site, start in zip(sites, starts, strict=False):
        if site.n_by:
            logs = np.log(np.maximum(sd[start : start + site.n_by], 1e-6))
            found[f"{site.name}_center"] = np.exp(logs.mean())
            found[f"{site.name}_spread"] = np.clip(logs.std(), 0.1, 2.0)
    return found


def _maximize(
    nested: Nested, blocks: LatentBlocks, sd: Floats, stops: Floats | None, free: Ints
) -> tuple[Floats, Floats | None, Point]:
    """Return scales (1, n_sd) about where they are most likely, cutpoints, and effects."""
    point = nested.origin(1)
    for _ in range(_EM_STEPS):
        at = nested.approximate(sd, stops, point, _SETTLED)
        point = at.mode
        ratio = np.log(np.maximum(mean_squares(blocks, at, sd.shape[1]), 1e-4)) / 2
        change = np.clip(ratio, -1.0, 1.0)
        if stops is not None:
            stops = _better_stops(nested, at, stops)
        sd = sd.copy()
        sd[:, free] *= np.exp(change[:, free])
    return sd, stops, point


def mean_squares(blocks: LatentBlocks, at: Approximation, n_sd: int) -> Floats:
    """Return the posterior mean square of unit-scale effects by scale, (1, n_sd); fixed ones 1."""
    inverse = np.linalg.inv(at.system.shared_factor[0])
    of_shared = at.mode.shared[0] ** 2 + (inverse**2).sum(axis=0)
    through = at.system.pull[0] @ inverse.T
    of_own = at.mode.own[0] ** 2 + (at.system.root[0] ** 2).sum(axis=1) + (through**2).sum(axis=2)
    real = blocks.own_term >= 0
    of_leaf = at.mode.center[0] ** 2 + at.mode.spread[0] ** 2
    place = np.concatenate([blocks.shared_sd, blocks.own_sd[real], blocks.leaf_sd])
    square = np.concatenate([of_shared, of_own[real], of_leaf])
    number = np.bincount(place, minlength=n_sd)
    mean = np.bincount(place, square, n_sd) / np.maximum(number, 1)
    mean[number == 0] = 1.0
    if blocks.has_intercept:
        mean[blocks.shared_sd[0]] = 1.0
    return mean[None]


def _better_stops(nested: Nested, at: Approximation, stops: Floats) -> Floats:
    """Return log-odds of stopping after a Newton step, effects but leaves' held."""
    step, n = 0.05, stops.shape[1]
    moves = np.concatenate([np.zeros((1, n)), step * np.eye(n), -step * np.eye(n)])
    i, j = np.triu_indices(n, 1)
    moves = np.concatenate([moves, moves[1 + i] + moves[1 + j]])
    rows = stops + moves
    value = nested.leaves_value(at, rows) + log_prior_of_stops(rows)
    up, down = value[1 : n + 1], value[n + 1 : 2 * n + 1]
    slope = (up - down) / (2 * step)
    bent = np.zeros((n, n))
    bent[np.arange(n), np.arange(n)] = (2 * value[0] - up - down) / step**2
    bent[i, j] = bent[j, i] = (up[i] + up[j] - value[0] - value[2 * n + 1 :]) / step**2
    values, vectors = np.linalg.eigh(bent)
    move = vectors @ ((vectors.T @ slope) / np.maximum(values, 0.3))
    return stops + np.clip(move, -1.0, 1.0)


def _explore(
    nested: Nested, sd: Floats, stops: Floats | None, point: Point, free: Ints
) -> tuple[Surrogate, Guide, Floats, Floats | None]:
    """Take Newton's steps in natural coordinates; the likelihood's bends where they end."""
    n_scales = free.size
    floor = floor_of(sd[0, free])
    center = natural(sd, stops, free, floor)[0]
    d = center.size

    def scales(rows: Floats) -> tuple[Floats, Floats | None]:
        square = np.exp(2 * rows[:, :n_scales]) - floor**2
        every = np.repeat(sd, len(rows), axis=0)
        every[:, free] = np.sqrt(np.maximum(square, 1e-8))
        return every, rows[:, n_scales:] if stops is not None else None

    def look(rows: Floats, guide: Guide) -> tuple[Floats, Point]:
        every, cuts = scales(rows)
        found = [
            nested.approximate(
                every[part], None if cuts is None else cuts[part], guide.starting(rows[part])
            )
            for part in chunks(nested, len(rows))
        ]
        modes = (np.concatenate(p) for p in zip(*(parts_of(f.mode) for f in found), strict=True))
        return np.concatenate([f.value for f in found]), Point(*modes)

    def weak_prior(rows: Floats) -> Floats:
        every, cuts = scales(rows)
        value = -0.5 * (every[:, free] ** 2).sum(axis=1) / _TYPICAL**2
        return value if cuts is None else value + log_prior_of_stops(cuts)

    flat = Point(*(np.zeros((d, *p.shape[1:])) for p in parts_of(point)))
    guide = Guide(center, point, flat)
    i, j = np.triu_indices(d, 1)
    step = _STEP * np.eye(d)
    around = np.vstack([np.zeros((1, d)), step, -step])
    curvature = np.zeros((d, d))
    for round_ in range(_MOST_STEPS):
        value, modes = look(center + around, guide)
        slopes = Point(*((p[1 : d + 1] - p[d + 1 :]) / (2 * _STEP) for p in parts_of(modes)))
        guide = Guide(center, Point(*(p[:1] for p in parts_of(modes))), slopes)
        up, down = value[1 : d + 1], value[d + 1 :]
        slope = (up - down) / (2 * _STEP)
        curvature[np.arange(d), np.arange(d)] = (2 * value[0] - up - down) / _STEP**2
        if round_ % 3 == 0:
            both, _ = look(center + step[i] + step[j], guide)
            cross = -(both - up[i] - up[j] + value[0]) / _STEP**2
            curvature[i, j] = curvature[j, i] = cross
        prior = weak_prior(center + around)
        pull = (prior[1 : d + 1] - prior[d + 1 :]) / (2 * _STEP)
        bent = concave(curvature) + np.diag(
            np.maximum(2 * prior[0] - prior[1 : d + 1] - prior[d + 1 :], 0.0) / _STEP**2
        )
        move = np.linalg.solve(bent, slope + pull)
        if move @ bent @ move < _SMALL_GAIN * d or round_ == _MOST_STEPS - 1:
            break
        center = center + move * min(1.0, _LONGEST / np.abs(move).max())
        center[:n_scales] = np.maximum(center[:n_scales], np.log(floor) + 0.01)
    sd, stops = scales(center[None])
    surrogate = Surrogate(free, floor, center, slope, concave(curvature), np.ones(d), np.zeros(0))
    return surrogate, guide, sd, stops
