"""Balanced tables: the model as its strata, without JAX."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bayesjudge.engines.conditional import draw_effects
from bayesjudge.engines.effects import INTERCEPT, Integrated, is_kept
from bayesjudge.engines.strata import Balanced, balance, log_likelihood, slope
from bayesjudge.engines.streams import Streams
from bayesjudge.resolution import Resolved, ResolvedTerm

type Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class BalancedModel(Integrated):
    """A model on a balanced table (:class:`effects.Integrated`)."""

    resolved: Resolved
    strata: Balanced

    @property
    def in_bulk(self) -> bool:
        """Whether some hundred densities take little longer than one."""
        return True

    def values(self, sd: Floats, noise: Floats) -> Floats:
        """Return log densities (n,) of scales (n, n_sd) and residual variances (n, V)."""
        return log_likelihood(sd, noise, self.strata)

    def slope(self, sd: Floats, noise: Floats) -> tuple[float, Floats, Floats]:
        """Return the log density and its derivatives, in closed form."""
        return slope(sd, noise, self.strata)

    def kept_effects(self, sd: Floats, noise: Floats, streams: Streams) -> dict[str, Floats]:
        """Draw the effects that are kept, (n, *shape) by variable, and the intercept."""
        wanted = [t.variable for t in self._terms() if is_kept(t, self.resolved.panel)]
        rng = np.random.default_rng([streams.seed, 1])
        drawn = draw_effects(rng, sd, noise, self.strata, (INTERCEPT, *wanted))
        return self._by_level(drawn)

    def other_effects(
        self, sd: Floats, noise: Floats, streams: Streams, kept: dict[str, Floats]
    ) -> dict[str, Floats]:
        """Draw the others but generations, given those that are kept."""
        wanted = tuple(t.variable for t in self._terms() if t.variable not in kept)
        if not wanted:
            return {}
        rng = np.random.default_rng([streams.seed, 2])
        shape = self.strata.means.shape
        given = {}
        for part in self.strata.parts:
            if part.variable in kept:
                flat = kept[part.variable].reshape(len(sd), -1)[:, part.levels]
                along = () if part.along == "none" else shape[:1]
                axes = (shape[1 + a] for a in part.others)
                given[part.variable] = flat.reshape(len(sd), *along, *axes)
        return self._by_level(draw_effects(rng, sd, noise, self.strata, wanted, given))

    def _terms(self) -> list[ResolvedTerm]:
        own = {p.variable for p in self.strata.parts}
        return [t for t in self.resolved.terms if t.variable in own]

    def _by_level(self, effects: dict[str, Floats]) -> dict[str, Floats]:
        """Put the cells of each term's axes in the order of its levels, (n, *shape)."""
        shapes = {t.variable: t.shape for t in self.resolved.terms} | {INTERCEPT: ()}
        out = {}
        for part in self.strata.parts:
            if part.variable in effects:
                levels = effects[part.variable].reshape(len(effects[part.variable]), -1)
                if not np.array_equal(part.levels, np.arange(part.levels.size)):
                    flat, levels = levels, np.empty_like(levels)
                    levels[:, part.levels] = flat
                out[part.variable] = levels.reshape(len(levels), *shapes[part.variable])
        return out


def balanced_model(resolved: Resolved) -> BalancedModel | None:
    """Return the model by strata; None where the table is not balanced."""
    strata = balance(resolved)
    return None if strata is None else BalancedModel(resolved, strata)
