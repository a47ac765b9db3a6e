"""The estimand of verdicts, categories and battles: expected scores, from latent effects.

A backbone's mean is its expected score under a new scenario and generation,
averaged over the panel, and in battles over the other models. The average is taken
of expected scores, not of the latent scale: a judge near the end of the scale moves
scores less than one in its middle.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from bayesjudge.outcomes import mean_outcome, tie_weight
from bayesjudge.resolution import Resolved, ResolvedTerm
from bayesjudge.response import expected_score

type Floats = NDArray[np.float64]


def panel_facets(resolved: Resolved) -> tuple[str, ...]:
    """Return the panel facets over which expected scores differ, backbone first."""
    used = {"backbone"}
    for term in resolved.terms:
        if set(term.dims) <= set(resolved.panel):
            used |= set(term.dims)
        elif term.scale.by is not None:
            used.add(term.scale.by)
    if resolved.thresholds is not None:
        used.add(resolved.thresholds.by)
    return ("backbone", *(n for n, _ in resolved.labels if n in used and n != "backbone"))


def expected_means(
    resolved: Resolved,
    intercept: Floats,
    effects: Mapping[str, Floats],
    scales: Mapping[str, Floats],
    parameters: Mapping[str, Floats],
) -> Floats:
    """Return each backbone's mean on the score scale by draw, (n, B).

    Of verdicts and categories as :func:`expected_scores`, of battles as
    :func:`expected_wins`; ``parameters`` holds ``cutpoints`` or ``tie_chance`` where
    the model has them.
    """
    if resolved.spec.is_paired:
        chance = parameters.get("tie_chance")
        return expected_wins(resolved, intercept, effects, scales, chance)
    return expected_scores(resolved, intercept, effects, scales, parameters.get("cutpoints"))


def expected_wins(
    resolved: Resolved,
    intercept: Floats,
    effects: Mapping[str, Floats],
    scales: Mapping[str, Floats],
    tie_chance: Floats | None,
) -> Floats:
    """Return each model's expected outcome against the others by draw, (n, B).

    The chance to win and half the chance to tie, in a battle with each other model on
    a new scenario, shown first as often as second: the average over the other models,
    the panel and both places.

    Parameters
    ----------
    resolved : Resolved
        Of battles.
    intercept : (n,)
        What the first place is worth.
    effects, scales
        As of :func:`expected_scores`.
    tie_chance : (n,) or None
    """
    facets = panel_facets(resolved)
    labels = dict(resolved.labels)
    shape = tuple(len(labels[name]) for name in facets)
    n, n_backbones = len(intercept), shape[0]
    ones = (1,) * len(shape)
    strength: Floats = np.zeros((n, *ones))
    place: Floats = intercept.reshape(n, *ones)
    own: Floats = np.zeros((n, *ones))
    shared: Floats = np.zeros((n, *ones))
    for term in resolved.terms:
        fights = "backbone" in term.dims
        if set(term.dims) <= set(resolved.panel):
            effect = _aligned(effects[term.variable], term.dims, facets)
            strength, place = (strength + effect, place) if fights else (strength, place + effect)
        elif fights:
            own = own + _variance(term, scales, facets, apart=True)
        else:
            shared = shared + _variance(term, scales, facets)
    weight = None if tie_chance is None else tie_weight(tie_chance).reshape(n, *ones)
    strength = np.broadcast_to(strength, (n, n_backbones, *strength.shape[2:]))
    own = np.broadcast_to(own, (n, n_backbones, *own.shape[2:]))
    gained = np.zeros((n, n_backbones))
    for first in range(n_backbones - 1):
        # Against all that follow at once; what one side gains the other loses.
        here, rest = slice(first, first + 1), slice(first + 1, None)
        ahead = strength[:, here] - strength[:, rest]
        variance = own[:, here] + own[:, rest] + shared
        outcome = 0.5 * (
            mean_outcome(ahead + place, variance, weight)
            + mean_outcome(ahead - place, variance, weight)
        )
        share = outcome.mean(axis=tuple(range(2, outcome.ndim)))
        gained[:, first] += share.sum(axis=1)
        gained[:, first + 1 :] += 1.0 - share
    return gained / (n_backbones - 1)


def expected_scores(
    resolved: Resolved,
    intercept: Floats,
    effects: Mapping[str, Floats],
    scales: Mapping[str, Floats],
    cutpoints: Floats | None,
) -> Floats:
    """Return each backbone's expected score by draw, (n, B).

    Parameters
    ----------
    resolved : Resolved
        Of a latent family.
    intercept : (n,)
    effects : mapping of (n, *shape)
        Of panel terms at least, by the term's variable.
    scales : mapping of (n,) or (n, by)
        Of terms with a random facet at least, ``<variable>_sd``.
    cutpoints : (n, T), (n, levels, T) or None
    """
    facets = panel_facets(resolved)
    labels = dict(resolved.labels)
    shape = tuple(len(labels[name]) for name in facets)
    n = len(intercept)
    latent: Floats = intercept.reshape(n, *(1,) * len(shape))
    variance: Floats = np.zeros((n, *(1,) * len(shape)))
    for term in resolved.terms:
        if set(term.dims) <= set(resolved.panel):
            latent = latent + _aligned(effects[term.variable], term.dims, facets)
        else:
            variance = variance + _variance(term, scales, facets)
    latent = np.broadcast_to(latent, (n, *shape))
    if cutpoints is not None:
        by = () if resolved.thresholds is None else (resolved.thresholds.by,)
        # The thresholds' own axis stays last.
        cutpoints = np.moveaxis(
            np.stack([_aligned(cutpoints[..., k], by, facets) for k in range(cutpoints.shape[-1])]),
            0,
            -1,
        )
    found = expected_score(latent, variance, resolved.spec.link, resolved.categories, cutpoints)
    return np.asarray(found.mean(axis=tuple(range(2, 1 + len(shape)))))


def _variance(
    term: ResolvedTerm,
    scales: Mapping[str, Floats],
    facets: tuple[str, ...],
    apart: bool = False,
) -> Floats:
    """Return the variance that a random term adds to a score of each panel cell.

    ``apart`` is of one of two backbones whose difference counts: what they share by
    summing to zero is no part of that.
    """
    by = () if term.scale.by is None else (term.scale.by,)
    zeros = [
        n
        for n, dim, centred in zip(term.shape, term.dims, term.centred, strict=True)
        if centred and not (apart and dim == "backbone")
    ]
    share = float(np.prod([1.0 - 1.0 / n for n in zeros]))
    return share * _aligned(scales[f"{term.variable}_sd"], by, facets) ** 2


def _aligned(values: Floats, dims: tuple[str, ...], facets: tuple[str, ...]) -> Floats:
    """Give (n, *dims) an axis for each facet, of length 1 where it has none."""
    order = sorted(range(len(dims)), key=lambda i: facets.index(dims[i]))
    values = np.transpose(values, (0, *(1 + i for i in order)))
    sizes = iter(values.shape[1:])
    present = [next(sizes) if name in dims else 1 for name in facets]
    return np.reshape(values, (len(values), *present))
