"""The scales on the real line: coordinates in which their posterior is nearly normal.

Half-normal scales are taken on the logarithm where the data keep them clear of
zero, and otherwise with a sign that the likelihood does not see: the size of a
normal variable, whose density is smooth through zero.

Scales by a facet, log s_b ~ N(log s, t^2), make a funnel in (t, s_b). Were the
likelihood of log s_b normal with precision h_b about l_b, then given s and t

    log s_b ~ N((h_b t^2 l_b + log s) / a_b, t^2 / a_b),    a_b = 1 + h_b t^2,

so w_b, its standardized value, is independent of both. With h_b = 0 that is the
non-centred parameterization, with h_b large the centred one. What the levels say
of log s, with them integrated out, has precision sum h_b / a_b: it is wide where t
is large and narrow where t is small, so log s is standardized given t as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bayesjudge.engines.log_products import log_of_product
from bayesjudge.resolution import Resolved
from bayesjudge.spec import Prior, Scale

type Array = Any

# Keeps logarithms finite where a signed scale passes through zero.
_TINY = 1e-12
_LOG_TINY = float(np.log(_TINY))


@dataclass(frozen=True)
class ScaleSite:
    """One term's scale; hashable, so that compiled kernels can be reused.

    Attributes
    ----------
    name : str
        As the posterior names it.
    scale : Scale
    n_by : int
        Levels of ``scale.by``; 0 for one common scale.
    """

    name: str
    scale: Scale
    n_by: int

    @property
    def spread(self) -> Prior:
        """Prior of the spread of a scale by levels; none at all is a spread of zero."""
        return self.scale.spread or Prior("fixed", (0.0,))

    @property
    def deviates(self) -> bool:
        """Whether the levels have scales of their own."""
        return bool(self.n_by) and self.spread != Prior("fixed", (0.0,))

    @property
    def width(self) -> int:
        """Number of scales."""
        return max(self.n_by, 1)


@dataclass(frozen=True)
class Slot:
    """One free parameter of a site, or its levels' deviations."""

    site: int
    part: str
    start: int
    stop: int
    prior: Prior | None


def scale_sites(resolved: Resolved) -> tuple[ScaleSite, ...]:
    """Return the scales of all terms, then the residual's if any, as the posterior names them."""
    terms = [ScaleSite(f"{t.variable}_sd", t.scale, len(t.by_labels)) for t in resolved.terms]
    if resolved.residual is None:
        return tuple(terms)
    return (*terms, ScaleSite("sigma", resolved.residual, len(resolved.residual_labels)))


@lru_cache(64)
def slots(sites: tuple[ScaleSite, ...]) -> tuple[Slot, ...]:
    """Return where each free parameter lies in the vector of coordinates."""
    out: list[Slot] = []
    start = 0
    for i, site in enumerate(sites):
        parts: list[tuple[str, Prior | None, int]] = [("center", site.scale.center, 1)]
        if site.n_by:
            parts.append(("spread", site.spread, 1))
        if site.deviates:
            parts.append(("levels", None, site.n_by))
        for part, prior, size in parts:
            if prior is None or prior.distribution != "fixed":
                out.append(Slot(i, part, start, start + size, prior))
                start += size
    return tuple(out)


@lru_cache(64)
def _slots_by_part(sites: tuple[ScaleSite, ...]) -> Mapping[tuple[int, str], Slot]:
    """Return the slots by the site's number and the part."""
    return {(s.site, s.part): s for s in slots(sites)}


def size(sites: tuple[ScaleSite, ...]) -> int:
    """Return the number of coordinates D."""
    return max((s.stop for s in slots(sites)), default=0)


def blocks(sites: tuple[ScaleSite, ...]) -> NDArray[np.int64]:
    """Return 1 + the level of scales by a facet that a coordinate belongs to, else 0.

    Given centres and spreads, the scales of one level tell little of another's.
    """
    out = np.zeros(size(sites), np.int64)
    for slot in slots(sites):
        if slot.part == "levels":
            out[slot.start : slot.stop] = 1 + np.arange(slot.stop - slot.start)
    return out


def groups(sites: tuple[ScaleSite, ...]) -> tuple[NDArray[np.int64], ...]:
    """Return coordinates that hang together: of one level, of one site's center and spread."""
    level = blocks(sites)
    out = [np.flatnonzero(level == i) for i in range(1, int(level.max(initial=0)) + 1)]
    for i in range(len(sites)):
        own = [s.start for s in slots(sites) if s.site == i and s.part != "levels"]
        out += [np.array(own, np.int64)] if own else []
    return tuple(out)


class Frame(NamedTuple):
    """Which coordinates are used.

    Attributes
    ----------
    logged : (D,) bool array
        Half-normal parameters taken on the logarithm; the others have a sign.
    information, target : (D,) float arrays
        h and l of the levels of scales by a facet; zero elsewhere.
    """

    logged: Array
    information: Array
    target: Array


class Constants(NamedTuple):
    """What the scales are measured in.

    Attributes
    ----------
    unit : float
        u, in the unit of the scores.
    intercept_sd, floor : float
        Prior sd of the intercept and smallest residual sd, in the unit of the scores.
    """

    unit: Array
    intercept_sd: Array
    floor: Array


class Scales(NamedTuple):
    """Scales at some coordinates.

    Attributes
    ----------
    sd : (..., n_sd)
        Of all terms in the unit of the scores, the intercept's last.
    noise : (..., V)
        Residual variances.
    log_prior : (...)
        Density of the coordinates, up to a constant.
    hyper : dict of (...)
        ``<name>_center`` (in the unit of the scores) and ``<name>_spread``.
    """

    sd: Array
    noise: Array
    log_prior: Array
    hyper: dict[str, Array]


def constants(resolved: Resolved) -> Constants:
    """Return the constants of a model on a table."""
    return Constants(resolved.unit, resolved.intercept_sd, resolved.noise_floor)


def plain_frame(sites: tuple[ScaleSite, ...], logged: bool = True) -> Frame:
    """Return coordinates that know nothing of the data: non-centred levels."""
    n = size(sites)
    return Frame(np.full(n, logged), np.zeros(n), np.zeros(n))


def scales_at(
    x: Array, sites: tuple[ScaleSite, ...], frame: Frame, fixed: Constants, xp: Any = np
) -> Scales:
    """Map coordinates (..., D) to the scales, and give the prior's density there.

    Parameters
    ----------
    xp : module
        NumPy, or ``jax.numpy`` inside a JAX function.
    """
    free = _slots_by_part(sites)
    # Coordinates first: numbers of one of them lie together.
    column = xp.moveaxis(x, -1, 0)
    log_prior = xp.zeros(x.shape[:-1])
    hyper: dict[str, Array] = {}
    values: list[Array] = []
    for i, site in enumerate(sites):
        slot = free.get((i, "center"))
        if not site.n_by:
            center = _one(column, slot, site.scale.center, frame, xp)
            log_prior = log_prior + center.density
            values.append(center.value[None])
            continue
        spread = _one(column, free.get((i, "spread")), site.spread, frame, xp)
        t, levels = spread.value, free.get((i, "levels"))
        about = None if levels is None else _center_given(t, levels, site, frame, xp)
        center = _one(column, slot, site.scale.center, frame, xp, about)
        log_prior = log_prior + spread.density + center.density
        hyper[f"{site.name}_center"] = center.value * fixed.unit
        hyper[f"{site.name}_spread"] = t
        if levels is None:
            values.append(xp.broadcast_to(center.value, (site.n_by, *center.value.shape)))
            continue
        part = slice(levels.start, levels.stop)
        h, goal = (_upright(known[part], t) for known in (frame.information, frame.target))
        a = 1.0 + h * t**2
        z = h * t * (goal - center.log) / a + column[part] / xp.sqrt(a)
        values.append(center.value * xp.exp(t * z))
        log_prior = log_prior - 0.5 * (xp.sum(z**2, axis=0) + log_of_product(a, 0, xp))
    intercept = xp.broadcast_to(xp.asarray(fixed.intercept_sd), (1, *x.shape[:-1]))
    sd = xp.concatenate([*[v * fixed.unit for v in values[:-1]], intercept])
    noise = (values[-1] * fixed.unit) ** 2 + fixed.floor**2
    return Scales(xp.moveaxis(sd, 0, -1), xp.moveaxis(noise, 0, -1), log_prior, hyper)


def _upright(values: Array, beside: Array) -> Array:
    """Return numbers of levels (B,) as (B, 1, ...), to go with one number a draw (...)."""
    return values.reshape(-1, *(1,) * np.ndim(beside))


def _center_given(
    spread: Array, levels: Slot, site: ScaleSite, frame: Frame, xp: Any = np
) -> tuple[Array, Array]:
    """Return mean and precision of a log center given the spread, roughly: shapes of spread."""
    part = slice(levels.start, levels.stop)
    h, goal = (_upright(known[part], spread) for known in (frame.information, frame.target))
    weight = h / (1.0 + h * spread**2)
    prior = site.scale.center
    if prior.distribution == "lognormal":
        mean, precision = prior.parameters[0], prior.parameters[1] ** -2
    else:
        mean, precision = np.log(0.5 * prior.parameters[0]), 1.0
    total = precision + xp.sum(weight, axis=0)
    return (precision * mean + xp.sum(weight * goal, axis=0)) / total, total


class _One(NamedTuple):
    """A scale in units of u, its logarithm and its log density, one number a draw."""

    value: Array
    log: Array
    density: Array


def _one(
    column: Array,
    slot: Slot | None,
    prior: Prior,
    frame: Frame,
    xp: Any,
    about: tuple[Array, Array] | None = None,
) -> _One:
    """Return a scale of coordinates (D, ...).

    Logarithms are standardized by the mean and precision ``about``.
    """
    if slot is None:
        value = xp.full(column.shape[1:], prior.parameters[0])
        return _One(value, xp.log(xp.maximum(value, _TINY)), xp.zeros(column.shape[1:]))
    raw, jacobian = column[slot.start], 0.0
    logged = frame.logged[slot.start]
    log_value = raw
    if about is not None:
        log_value = about[0] + raw / xp.sqrt(about[1])
        jacobian = -0.5 * xp.log(about[1])
    if prior.distribution == "lognormal":
        mu, sd = prior.parameters
        density = -0.5 * ((log_value - mu) / sd) ** 2 + jacobian
        return _One(xp.exp(log_value), xp.maximum(log_value, _LOG_TINY), density)
    if xp is np and logged:
        value = np.exp(log_value)
        density = log_value + jacobian - 0.5 / prior.parameters[0] ** 2 * value**2
        return _One(value, np.maximum(log_value, _LOG_TINY), density)
    # Where the sign is kept the exponential is not used and must not overflow.
    log_value = xp.where(logged, log_value, 0.0)
    value = xp.where(logged, xp.exp(log_value), xp.abs(raw))
    jacobian = xp.where(logged, log_value + jacobian, 0.0)
    density = jacobian - 0.5 * (value / prior.parameters[0]) ** 2
    return _One(value, xp.log(xp.maximum(value, _TINY)), density)


def log_center_at(
    x: NDArray[np.float64], site: int, sites: tuple[ScaleSite, ...], frame: Frame
) -> tuple[float, float]:
    """Return a log center at coordinates (D,), and how fast it moves with its coordinate."""
    free = _slots_by_part(sites)
    raw = float(x[free[site, "center"].start])
    levels = free.get((site, "levels"))
    if levels is None:
        return raw, 1.0
    spread = _one(x, free.get((site, "spread")), sites[site].spread, frame, np).value
    mean, precision = _center_given(np.asarray(spread), levels, sites[site], frame)
    return float(mean + raw / np.sqrt(precision)), float(precision**-0.5)


def coordinates_of(
    sd: NDArray[np.float64],
    hyper: dict[str, NDArray[np.float64]],
    sites: tuple[ScaleSite, ...],
    frame: Frame,
) -> NDArray[np.float64]:
    """Return the coordinates (D,) of scales in units of u: the inverse of :func:`scales_at`.

    Parameters
    ----------
    sd : (n,) array
        All scales, those of the residual last; no intercept.
    hyper : dict of floats
        Centres (in units of u) and spreads by name.
    """
    x = np.zeros(size(sites))
    starts = np.concatenate([[0], np.cumsum([s.width for s in sites])])
    free = _slots_by_part(sites)
    for slot in slots(sites):
        site = sites[slot.site]
        own = sd[starts[slot.site] : starts[slot.site + 1]]
        center = hyper.get(f"{site.name}_center", site.scale.center.parameters[0])
        spread = hyper.get(f"{site.name}_spread", site.spread.parameters[0])
        if slot.part == "levels":
            part = slice(slot.start, slot.stop)
            h, goal = frame.information[part], frame.target[part]
            log_center = np.log(np.maximum(center, _TINY))
            a = 1.0 + h * spread**2
            z = (np.log(np.maximum(own, _TINY)) - log_center) / spread
            x[part] = np.sqrt(a) * (z - h * spread * (goal - log_center) / a)
            continue
        value = spread if slot.part == "spread" else (center if site.n_by else own[0])
        on_log = slot.prior is not None and (
            slot.prior.distribution == "lognormal" or bool(frame.logged[slot.start])
        )
        x[slot.start] = np.log(np.maximum(value, _TINY)) if on_log else value
        levels = free.get((slot.site, "levels"))
        if on_log and slot.part == "center" and levels is not None:
            mean, precision = _center_given(np.asarray(spread), levels, site, frame)
            x[slot.start] = (x[slot.start] - mean) * np.sqrt(precision)
    return x
