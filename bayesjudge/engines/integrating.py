"""A gaussian model with its effects integrated out, and back again.

Interactions with a random facet and generations are many and seldom asked for:
they are left out of the posterior and drawn when asked for, given what is kept.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bayesjudge.engines.balanced import balanced_model
from bayesjudge.engines.blocks import blocks_model
from bayesjudge.engines.coordinates import Scales, scales_at
from bayesjudge.engines.effects import (
    INTERCEPT,
    Integrated,
    name_scales,
    pack_scales,
    sd_offsets,
)
from bayesjudge.engines.large import large_model
from bayesjudge.engines.modes import Target
from bayesjudge.engines.protocol import Draws, Settings
from bayesjudge.engines.streams import Streams
from bayesjudge.engines.tallied import tallied_model
from bayesjudge.errors import ModelError
from bayesjudge.resolution import Resolved, ResolvedTerm
from bayesjudge.scores.lines import READ_ROWS

type Floats = NDArray[np.float64]

# Random numbers of generations: no engine uses those of this purpose.
_GENERATIONS = 100


def integrate(resolved: Resolved) -> Integrated | None:
    """Integrate the effects out; None where no path carries the model.

    Balanced tables go by strata, others by blocks of scenario and backbone or, with
    two large facets, by one of them; what falls into none of these takes JAX. From
    moments it is strata or blocks.

    Raises
    ------
    ModelError
        Where moments do not carry the model.
    """
    if resolved.moments is not None:
        return tallied_model(resolved, resolved.moments)
    balanced = balanced_model(resolved)
    if balanced is not None:
        return balanced
    blocks = blocks_model(resolved)
    if blocks is not None:
        return blocks
    large = large_model(resolved)
    if large is not None:
        return large
    from bayesjudge.engines.collapsed import collapse

    return collapse(resolved)


def finish(
    resolved: Resolved,
    integrated: Integrated,
    sd: Floats,
    noise: Floats,
    hyper: dict[str, Floats],
    shape: tuple[int, int],
    seed: int,
    nested: bool,
) -> Draws:
    """Name the scales and draw the effects given them.

    Parameters
    ----------
    sd, noise : (n, n_sd), (n, V)
    hyper : dict of (n,)
    shape : (chains, draws), n in all
    nested : bool
        Draw every effect and not only those that are kept.
    """
    streams = Streams(seed, np.arange(len(sd)))
    effects = integrated.kept_effects(sd, noise, streams)
    if nested:
        effects |= _all_others(resolved, integrated, sd, noise, streams, effects, generations=True)
    intercept = resolved.location + effects.pop(INTERCEPT)
    return Draws(
        scales=name_scales(resolved, sd, noise, shape),
        hyper={name: value.reshape(shape) for name, value in hyper.items()},
        intercept=intercept.reshape(shape),
        effects={name: value.reshape(*shape, *value.shape[1:]) for name, value in effects.items()},
    )


def finish_at(
    resolved: Resolved, integrated: Integrated, target: Target, x: Floats, settings: Settings
) -> Draws:
    """Finish from coordinates of the scales, (chains * draws, D)."""
    scales = scales_at(x, target.sites, target.frame, target.fixed)
    return finish_with(resolved, integrated, scales, settings)


def finish_with(
    resolved: Resolved, integrated: Integrated, scales: Scales, settings: Settings
) -> Draws:
    """Finish from the scales of chains * draws."""
    return finish(
        resolved,
        integrated,
        scales.sd,
        scales.noise,
        scales.hyper,
        (settings.chains, settings.draws),
        settings.random_seed,
        settings.nested_effects,
    )


def other_effects(
    resolved: Resolved,
    scales: dict[str, Floats],
    intercept: Floats,
    kept: dict[str, Floats],
    streams: Streams,
    generations: bool,
) -> dict[str, Floats]:
    """Draw the effects that a posterior does not hold, given those that it holds.

    Parameters
    ----------
    scales, kept : dict of (chain, draw, ...) arrays
    intercept : (chain, draw)
    streams : Streams
        With the seed of the fit, and which of its draws these are.
    generations : bool
        Go on to generations: one draw at a time, which takes a while.

    Returns
    -------
    dict of (chain, draw, *shape) arrays
        Joint draws: with those kept they are draws from the posterior.
    """
    shape = intercept.shape
    sd, noise = pack_scales(resolved, scales)
    integrated = integrate(resolved)
    if integrated is None:
        return {}
    known = {name: value.reshape(-1, *value.shape[2:]) for name, value in kept.items()}
    known[INTERCEPT] = intercept.ravel() - resolved.location
    drawn = _all_others(resolved, integrated, sd, noise, streams, known, generations)
    return {name: value.reshape(*shape, *value.shape[1:]) for name, value in drawn.items()}


def _all_others(
    resolved: Resolved,
    integrated: Integrated,
    sd: Floats,
    noise: Floats,
    streams: Streams,
    kept: dict[str, Floats],
    generations: bool,
) -> dict[str, Floats]:
    drawn = integrated.other_effects(sd, noise, streams, kept)
    leaf = next((t for t in resolved.terms if t.dims == ("generation",)), None)
    if generations and leaf is not None and leaf.variable not in kept:
        drawn[leaf.variable] = _leaf_effects(resolved, leaf, {**kept, **drawn}, sd, noise, streams)
    return drawn


def _leaf_effects(
    resolved: Resolved,
    leaf: ResolvedTerm,
    effects: dict[str, Floats],
    sd: Floats,
    noise: Floats,
    streams: Streams,
) -> Floats:
    """Draw the effects of generations given all others, one draw at a time."""
    if resolved.moments is not None:
        raise ModelError(
            "effects of single generations need every score, and only counts and sums by cell "
            "were kept",
            f"model {resolved.spec.name}",
            READ_ROWS,
        )
    by = resolved.residual_by if resolved.residual_by is not None else 0
    start = int(sd_offsets(resolved.terms)[resolved.terms.index(leaf)])
    own = start + (leaf.by_codes if leaf.by_codes is not None else np.zeros(leaf.n_levels, int))
    flat = {
        t.variable: effects[t.variable].reshape(len(sd), -1)
        for t in resolved.terms
        if t is not leaf
    }
    out = np.empty((len(sd), leaf.n_levels))
    for i in range(len(sd)):
        rest = resolved.score - resolved.location - effects[INTERCEPT][i]
        for term in resolved.terms:
            if term is not leaf:
                rest = rest - flat[term.variable][i, term.codes]
        precision = np.broadcast_to(1.0 / noise[i][by], rest.shape)
        weight = np.bincount(leaf.codes, precision, leaf.n_levels)
        total = np.bincount(leaf.codes, precision * rest, leaf.n_levels)
        width = sd[i, own]
        # Conditional of a unit-scale effect, so that a zero scale stays exact.
        shrink = 1.0 / (1.0 + width**2 * weight)
        unit = (
            width * total * shrink
            + np.sqrt(shrink)
            * streams.of(slice(i, i + 1)).normal(_GENERATIONS, (leaf.n_levels,))[0]
        )
        out[i] = width * unit
    return out
