"""Effects of a balanced table drawn from their exact conditional, stratum by stratum."""

from __future__ import annotations

from math import prod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bayesjudge.engines.axes import Part
from bayesjudge.engines.strata import (
    Balanced,
    centre,
    component,
    copies,
    repeats,
    subsets,
)

type Floats = NDArray[np.float64]

# Numbers held at once while effects are drawn.
_CHUNK = 500_000


def draw_effects(
    rng: np.random.Generator,
    sd: Floats,
    noise: Floats,
    balanced: Balanced,
    wanted: tuple[str, ...],
    given: dict[str, Floats] | None = None,
) -> dict[str, Floats]:
    """Draw effects from their exact conditional, one term after the other.

    Each is drawn given those before it with those after it integrated out, so
    that the terms not wanted cost nothing.

    Parameters
    ----------
    rng : numpy.random.Generator
    sd, noise : (n, n_sd), (n, V)
    balanced : Balanced
    wanted : tuple of str
        Variables of terms, generations excepted; ``intercept`` is about the location.
    given : dict, optional
        Effects that are known already.

    Returns
    -------
    dict of (n, B, *others) or (n, *others) arrays
        With the axes of ``Part.others`` in their order.
    """
    given = given or {}
    by_name = {p.variable: p for p in balanced.parts}
    order = [by_name[name] for name in wanted]
    reached = [t for t in subsets(balanced.means.ndim - 1) if any(p.reaches(t) for p in order)]
    n_levels = balanced.means.shape[0]
    per_draw = n_levels * sum(prod(balanced.means.shape[1 + a] for a in t) for t in reached)
    step = max(1, _CHUNK // per_draw)
    pieces: dict[str, list[Floats]] = {p.variable: [] for p in order}
    for start in range(0, len(sd), step):
        rows = slice(start, start + step)
        known = {k: v[rows] for k, v in given.items()}
        drawn = _draw_some(rng, sd[rows] ** 2, noise[rows], balanced, order, reached, known)
        for name, value in drawn.items():
            pieces[name].append(value)
    return {name: np.concatenate(values) for name, values in pieces.items()}


def _draw_some(
    rng: np.random.Generator,
    variance: Floats,
    noise: Floats,
    balanced: Balanced,
    order: list[Part],
    reached: list[tuple[int, ...]],
    given: dict[str, Floats],
) -> dict[str, Floats]:
    n = len(variance)
    shape = balanced.means.shape
    by_name = {p.variable: p for p in balanced.parts}
    rest: dict[tuple[int, ...], Floats] = {}
    for stratum in reached:
        # One for all draws, as long as nothing drawn is taken off.
        value = component(balanced.means, stratum, 1)[None]
        for name, effect in given.items():
            part = by_name[name]
            if part.reaches(stratum):
                value = value - _component_of_part(effect, part, stratum)
        rest[stratum] = value
    pending = [p for p in balanced.parts if p.variable not in given]
    if balanced.generations is not None:
        pending.append(balanced.generations)
    effects: dict[str, Floats] = {}
    for place, part in enumerate(order):
        pending = [p for p in pending if p is not part]
        total: Floats = np.zeros(())
        for stratum in sorted((t for t in reached if part.reaches(t)), key=len):
            known = _variances(variance, noise, balanced, part, pending, stratum)
            if part.along == "none":
                drawn = _draw_shared(rng, known, rest[stratum])
            else:
                drawn = _draw_component(rng, known, rest[stratum], part.along == "centred")
            # What is left of a stratum to which nothing more is drawn is not asked for.
            if any(later.reaches(stratum) for later in order[place + 1 :]):
                left = drawn[:, None] if part.along == "none" else drawn
                rest[stratum] = rest[stratum] - left
            spread = drawn.reshape(
                *drawn.shape[: 1 + (part.along != "none")],
                *(shape[1 + a] if a in stratum else 1 for a in part.others),
            )
            total = total + spread
        width = () if part.along == "none" else (shape[0],)
        full = (n, *width, *(shape[1 + a] for a in part.others))
        effects[part.variable] = np.ascontiguousarray(np.broadcast_to(total, full))
    return effects


class _Variances(NamedTuple):
    """Of a stratum's vectors: V = diag(free) + common 11' + centred (I - 11'/B), and a term's own.

    Shapes (n, B), (n,), (n,) and (n, B), or (n, 1) for one common scale.
    """

    free: Floats
    common: Floats
    centred: Floats
    own: Floats


def _variances(
    variance: Floats,
    noise: Floats,
    balanced: Balanced,
    part: Part,
    pending: list[Part],
    stratum: tuple[int, ...],
) -> _Variances:
    """Return what terms not drawn yet and noise leave a stratum to vary by."""
    shape, n = balanced.means.shape, len(variance)
    free = noise[:, balanced.groups.noise] / (balanced.per_cell * repeats(shape, stratum))
    common, centred = np.zeros(n), np.zeros(n)
    for other in pending:
        if not other.reaches(stratum):
            continue
        own = variance[:, other.sd_index] / copies(shape, stratum, other)
        if other.along == "free":
            free = free + own
        elif other.along == "centred":
            centred = centred + own[:, 0]
        else:
            common = common + own[:, 0]
    own = variance[:, part.sd_index] / copies(shape, stratum, part)
    return _Variances(free, common, centred, own)


def _draw_shared(rng: np.random.Generator, known: _Variances, rest: Floats) -> Floats:
    """Draw a component that all levels of the facet share: one number given their weighted mean.

    With V the covariance of everything else, its precision is 1' V^-1 1 + 1/own and its mean
    1' V^-1 rest over that. (n, *stratum), of what is left there, (n or 1, B, *stratum).
    """
    free, common, centred, own = known
    n, levels = len(free), rest.shape[2:]
    inverse = 1.0 / (free + centred[:, None])
    total = inverse.sum(axis=1)
    # 1' V^-1 1 = total / pivot, in which a large common keeps its digits.
    pivot = common * total + (free * inverse).mean(axis=1)
    shrink = own[:, 0] / (pivot + own[:, 0] * total)
    weight = inverse * shrink[:, None]
    flat = rest.reshape(*rest.shape[:2], -1)
    alike = len(flat) == 1
    mean = weight @ flat[0] if alike else np.einsum("nb,nbl->nl", weight, flat)
    sd = np.sqrt(shrink * pivot)
    drawn = centre(rng.standard_normal((n, *levels)), len(levels)).reshape(n, -1)
    drawn *= sd[:, None]
    drawn += mean
    return np.asarray(drawn.reshape(n, *levels))


def _draw_component(
    rng: np.random.Generator, known: _Variances, rest: Floats, is_centred: bool
) -> Floats:
    """Draw a term's component in a stratum given what is left there, (n, B, *stratum).

    By Matheron's rule: a draw from the prior is moved by what it fails to explain.
    """
    free, common, centred, own = known
    (n, n_levels), levels = free.shape, rest.shape[2:]
    extra = (1,) * len(levels)

    def noises(*size: int) -> Floats:
        return centre(rng.standard_normal((n, *size, *levels)), len(levels))

    def wide(values: Floats) -> Floats:
        return values.reshape(*values.shape, *extra)

    fake = wide(np.sqrt(free)) * noises(n_levels)
    if common.any():
        fake = fake + wide(np.sqrt(common))[:, None] * noises(1)
    if centred.any():
        deviation = noises(n_levels)
        fake += wide(np.sqrt(centred))[:, None] * (deviation - deviation.mean(1, keepdims=True))
    if is_centred:
        deviation = noises(n_levels)
        prior = np.sqrt(wide(own)) * (deviation - deviation.mean(axis=1, keepdims=True))
        centred = centred + own[:, 0]
    else:
        prior = np.sqrt(wide(own)) * noises(n_levels)
        free = free + own
    solved = _solve(rest - fake - prior, free, common, centred)
    if is_centred:
        solved = solved - solved.mean(axis=1, keepdims=True)
    return np.asarray(prior + wide(own) * solved)


def _solve(y: Floats, free: Floats, common: Floats, centred: Floats) -> Floats:
    """Return V^-1 y along axis 1, V = diag(free) + common 11' + centred (I - 11'/B)."""
    extra = (1,) * (y.ndim - 2)
    n_levels = free.shape[1]
    d = free + centred[:, None]
    inverse = 1.0 / d
    pivot = common * inverse.sum(axis=1) + (free * inverse).mean(axis=1)
    ratio = common - centred / n_levels
    wide = inverse.reshape(*inverse.shape, *extra)
    scaled = wide * y
    total = scaled.sum(axis=1, keepdims=True) / pivot.reshape(-1, 1, *extra)
    return np.asarray(scaled - wide * total * ratio.reshape(-1, 1, *extra))


def _component_of_part(effect: Floats, part: Part, stratum: tuple[int, ...]) -> Floats:
    """Project a term's effects (n, [B,] *others) on a stratum, shape (n, B or 1, *stratum)."""
    local = tuple(part.others.index(a) for a in stratum)
    if part.along == "none":
        effect = effect[:, None]
    return component(effect, local, 2)
