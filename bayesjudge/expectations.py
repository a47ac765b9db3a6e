"""The estimand of verdicts and categories: expected scores, from latent effects.

A backbone's mean is its expected score under a new scenario and generation,
averaged over the panel. The average is taken of expected scores, not of the
latent scale: a judge near the end of the scale moves scores less than one in
its middle.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

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


def _variance(term: ResolvedTerm, scales: Mapping[str, Floats], facets: tuple[str, ...]) -> Floats:
    """Return the variance that a random term adds to a score of each panel cell."""
    by = () if term.scale.by is None else (term.scale.by,)
    zeros = [n for n, centred in zip(term.shape, term.centred, strict=True) if centred]
    share = float(np.prod([1.0 - 1.0 / n for n in zeros]))
    return share * _aligned(scales[f"{term.variable}_sd"], by, facets) ** 2


def _aligned(values: Floats, dims: tuple[str, ...], facets: tuple[str, ...]) -> Floats:
    """Give (n, *dims) an axis for each facet, of length 1 where it has none."""
    order = sorted(range(len(dims)), key=lambda i: facets.index(dims[i]))
    values = np.transpose(values, (0, *(1 + i for i in order)))
    sizes = iter(values.shape[1:])
    present = [next(sizes) if name in dims else 1 for name in facets]
    return np.reshape(values, (len(values), *present))
