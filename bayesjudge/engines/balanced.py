"""Balanced tables: the model as its strata, without JAX."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bayesjudge.engines.conditional import draw_effects
from bayesjudge.engines.effects import INTERCEPT, is_kept
from bayesjudge.engines.strata import Balanced, balance, log_likelihood
from bayesjudge.resolution import Resolved, ResolvedTerm

type Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class BalancedModel:
    """A model on a balanced table (:class:`effects.Integrated`)."""

    resolved: Resolved
    strata: Balanced

    def values(self, sd: Floats, noise: Floats) -> Floats:
        """Return log densities (n,) of scales (n, n_sd) and residual variances (n, V)."""
        return log_likelihood(sd, noise, self.strata)

    def slope(self, sd: Floats, noise: Floats) -> tuple[float, Floats, Floats]:
        """Return the log density and its derivatives, by differences: all in one call."""
        own = np.concatenate([sd, noise])
        step = 1e-5 * own
        rows = np.vstack([own, own + np.diag(step), own - np.diag(step)])
        values = self.values(rows[:, : sd.size], rows[:, sd.size :])
        change = values[1 : own.size + 1] - values[own.size + 1 :]
        slope = np.divide(change, 2 * step, out=np.zeros(own.size), where=step > 0)
        return float(values[0]), slope[: sd.size], slope[sd.size :]

    def kept_effects(self, sd: Floats, noise: Floats, seed: int) -> dict[str, Floats]:
        """Draw the effects that are kept, (n, *shape) by variable, and the intercept."""
        wanted = [t.variable for t in self._terms() if is_kept(t, self.resolved.panel)]
        rng = np.random.default_rng([seed, 1])
        drawn = draw_effects(rng, sd, noise, self.strata, (INTERCEPT, *wanted))
        return self._in_order(drawn)

    def other_effects(
        self, sd: Floats, noise: Floats, seed: int, kept: dict[str, Floats]
    ) -> dict[str, Floats]:
        """Draw the others but generations, given those that are kept."""
        wanted = tuple(t.variable for t in self._terms() if t.variable not in kept)
        if not wanted:
            return {}
        rng = np.random.default_rng([seed, 2])
        given = {p.variable: kept[p.variable] for p in self.strata.parts if p.variable in kept}
        for term in self._terms():
            if term.variable in given and self.strata.along in term.dims:
                axis = 1 + term.dims.index(self.strata.along)
                given[term.variable] = np.moveaxis(given[term.variable], axis, 1)
        return self._in_order(draw_effects(rng, sd, noise, self.strata, wanted, given))

    def _terms(self) -> list[ResolvedTerm]:
        own = {p.variable for p in self.strata.parts}
        return [t for t in self.resolved.terms if t.variable in own]

    def _in_order(self, effects: dict[str, Floats]) -> dict[str, Floats]:
        """Move ``along`` from the front to its place among each term's facets."""
        for term in self._terms():
            if term.variable in effects and self.strata.along in term.dims:
                axis = 1 + term.dims.index(self.strata.along)
                effects[term.variable] = np.moveaxis(effects[term.variable], 1, axis)
        return effects


def balanced_model(resolved: Resolved) -> BalancedModel | None:
    """Return the model by strata; None where the table is not balanced."""
    strata = balance(resolved)
    return None if strata is None else BalancedModel(resolved, strata)
