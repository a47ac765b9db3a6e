"""Scales and effects: how they are packed, and which effects are kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from bayesjudge.engines.streams import Streams
from bayesjudge.resolution import Resolved, ResolvedTerm

type Floats = NDArray[np.float64]
type Ints = NDArray[np.int64]

INTERCEPT = "intercept"

_MOST_LEVELS_KEPT = 1000


class Integrated(Protocol):
    """A gaussian model on a table, its effects integrated out.

    What is fast everywhere says nothing of ``costly``, ``near`` and ``rough``.
    """

    @property
    def in_bulk(self) -> bool:
        """Whether some hundred densities take little longer than one."""
        return False

    @property
    def costly(self) -> bool:
        """Whether a density takes so long that draws are to be spared."""
        return False

    def values(self, sd: Floats, noise: Floats) -> Floats:
        """Return log densities (n,) of scales (n, n_sd) and residual variances (n, V)."""
        ...

    def slope(self, sd: Floats, noise: Floats) -> tuple[float, Floats, Floats]:
        """Return the log density and its derivatives for one set, (n_sd,) and (V,)."""
        ...

    def near(self, sd: Floats, noise: Floats) -> Integrated:  # noqa: ARG002
        """Return a model as good about these scales (n, ...) and perhaps faster."""
        return self

    def rough(self, sd: Floats, noise: Floats) -> Integrated:  # noqa: ARG002
        """Return a faster model, within a tenth there: proposals are adapted to it."""
        return self

    def kept_effects(self, sd: Floats, noise: Floats, streams: Streams) -> dict[str, Floats]:
        """Draw the effects that are kept, (n, *shape) by variable, and the intercept."""
        ...

    def other_effects(
        self, sd: Floats, noise: Floats, streams: Streams, kept: dict[str, Floats]
    ) -> dict[str, Floats]:
        """Draw the others but generations, given those that were kept of the same draws."""
        ...


def forward_slope(
    values: Callable[[Floats, Floats], Floats], sd: Floats, noise: Floats
) -> tuple[float, Floats, Floats]:
    """Return a log density and its derivatives in scales, by differences: all in one call.

    Parameters
    ----------
    values : function
        As :meth:`Integrated.values`.
    sd, noise : (n_sd,), (V,)
    """
    own = np.concatenate([sd, noise])
    step = 1e-6 * own
    rows = np.vstack([own, own + np.diag(step)])
    found = values(rows[:, : sd.size], rows[:, sd.size :])
    slope = np.divide(found[1:] - found[0], step, out=np.zeros(own.size), where=step > 0)
    return float(found[0]), slope[: sd.size], slope[sd.size :]


def sd_offsets(terms: tuple[ResolvedTerm, ...]) -> Ints:
    """Return where each term's scales start in the vector of scales, and its length."""
    sizes = [1 if t.by_codes is None else len(t.by_labels) for t in terms]
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def is_kept(term: ResolvedTerm, panel: tuple[str, ...]) -> bool:
    """Whether a term's effects are part of the posterior unless all are asked for.

    Those of panel terms are, and of random facets by themselves if not too many.
    """
    alone = len(term.dims) == 1 and "generation" not in term.dims
    alone = alone and term.n_levels <= _MOST_LEVELS_KEPT
    return alone or set(term.dims) <= set(panel)


def name_scales(
    resolved: Resolved, sd: Floats, noise: Floats | None, shape: tuple[int, int]
) -> dict[str, Floats]:
    """Return scales by variable, (chain, draw) or (chain, draw, by).

    Parameters
    ----------
    sd : (n, n_sd)
    noise : (n, V) or None
        Residual variances, the floor included; None for a model without.
    """
    scales: dict[str, Floats] = {}
    for term, start in zip(resolved.terms, sd_offsets(resolved.terms), strict=False):
        width = len(term.by_labels)
        own = sd[:, start : start + max(width, 1)]
        scales[f"{term.variable}_sd"] = own.reshape(*shape, width) if width else own.reshape(shape)
    if noise is None:
        return scales
    sigma = np.sqrt(noise)
    width = len(resolved.residual_labels)
    scales["sigma"] = sigma.reshape(*shape, width) if width else sigma.reshape(shape)
    return scales


def pack_scales(resolved: Resolved, scales: dict[str, Floats]) -> tuple[Floats, Floats]:
    """Return (n, n_sd) scales, the intercept's last, and (n, V) residual variances."""
    n = int(np.prod(scales["sigma"].shape[:2]))
    columns = [scales[f"{t.variable}_sd"].reshape(n, -1) for t in resolved.terms]
    columns.append(np.full((n, 1), resolved.intercept_sd))
    return np.hstack(columns), scales["sigma"].reshape(n, -1) ** 2
