"""From unit-scale coordinates of blocks and leaves to a model's effects."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bayesjudge.engines.effects import sd_offsets
from bayesjudge.engines.latent_blocks import LatentBlocks
from bayesjudge.engines.nested import Nested
from bayesjudge.engines.unbiased import Estimate
from bayesjudge.resolution import Resolved, ResolvedTerm

type Floats = NDArray[np.float64]

# A leaf's effect is drawn from its density on a grid about its center.
_GRID = np.linspace(-7.0, 7.0, 71)


def effects_of(
    resolved: Resolved,
    blocks: LatentBlocks,
    nested: Nested,
    sd: Floats,
    stops: Floats | None,
    drawn: Estimate,
    terms: tuple[ResolvedTerm, ...],
    rng: np.random.Generator,
) -> tuple[Floats, dict[str, Floats]]:
    """Return intercepts (n,) and effects (n, *shape) of some terms by variable.

    Parameters
    ----------
    sd : (n, n_sd)
    stops : (n, T) or None
    drawn : Estimate
        Of n sets of scales.
    """
    n, starts = len(sd), sd_offsets(resolved.terms)
    intercept = np.full(n, resolved.location)
    if blocks.has_intercept:
        intercept = intercept + sd[:, -1] * drawn.shared[:, 0]
    shared = {one.term.variable: one for one in blocks.shared_terms}
    effects = {}
    for term in terms:
        number = resolved.terms.index(term)
        by = np.zeros(term.n_levels, np.int64) if term.by_codes is None else term.by_codes
        width = sd[:, starts[number] + by]
        if term.variable in shared:
            one = shared[term.variable]
            unit = drawn.shared[:, one.columns] @ one.basis.T
        else:
            # Levels without a score have the prior.
            unit = rng.standard_normal((n, term.n_levels))
            if term is blocks.leaf:
                unit[:, blocks.leaf_level] = leaf_effects(nested, blocks, sd, stops, drawn, rng)
            else:
                here = blocks.own_term == number
                unit[:, blocks.own_level[here]] = drawn.own[:, here]
        effects[term.variable] = (width * unit).reshape(n, *term.shape)
    return intercept, effects


def leaf_effects(
    nested: Nested,
    blocks: LatentBlocks,
    sd: Floats,
    stops: Floats | None,
    drawn: Estimate,
    rng: np.random.Generator,
) -> Floats:
    """Draw unit-scale effects of leaves given all others, (n, L)."""
    out = np.empty((len(sd), len(blocks.leaf_level)))
    for i in range(len(sd)):
        row = slice(i, i + 1)
        nodes = drawn.center[row, :, None] + drawn.spread[row, :, None] * _GRID
        cell = drawn.predictor[row][:, blocks.predictor]
        g = sd[row][:, blocks.leaf_sd][..., None] * nodes
        own = None if stops is None else stops[row]
        log_density = nested.likelihood.values(cell, g, own) - 0.5 * nodes**2
        density = np.exp(log_density - log_density.max(axis=-1, keepdims=True))[0]
        # Linear between the grid's points: so is the inverse of what lies below, nearly.
        pieces = 0.5 * (density[:, 1:] + density[:, :-1])
        below = np.cumsum(pieces, axis=1)
        point = rng.random((len(below), 1)) * below[:, -1:]
        k = np.minimum((below < point).sum(axis=1), pieces.shape[1] - 1)
        rows = np.arange(len(below))
        share = (point[:, 0] - below[rows, k] + pieces[rows, k]) / pieces[rows, k]
        at = nodes[0]
        out[i] = at[rows, k] + share * (at[rows, k + 1] - at[rows, k])
    return out
