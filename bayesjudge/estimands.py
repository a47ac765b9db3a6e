"""Which scenarios a leaderboard speaks of: new ones, or those of the table."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bayesjudge.errors import UsageError
from bayesjudge.resolution import ResolvedTerm

type Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class ScenarioTerm:
    """What one term with scenarios adds to a backbone's mean.

    Attributes
    ----------
    observed : (n_draws, B) or (n_draws, 1) float array
        Effects averaged over the table's scenarios and the panel.
    sd : (n_draws, B) or (n_draws, 1) float array
        Of that average for one scenario, over scenarios; zero for a term
        that sums to zero over another panel facet.
    centred : bool
        Whether the effects of a scenario sum to zero over backbones.
    """

    observed: Floats
    sd: Floats
    centred: bool = False


def finite_scenario_means(
    means: Floats,
    terms: tuple[ScenarioTerm, ...],
    n_scenarios: int,
    pool: int,
    rng: np.random.Generator,
) -> Floats:
    """Return backbone means over a finite pool of scenarios (STATISTICS section 3).

    With n of N scenarios observed their effects count n/N; the N - n others are
    drawn, which leaves a variance of sigma^2/n times 1 - n/N.

    Parameters
    ----------
    means : (n_draws, B) float array
        Means over the population of scenarios.
    terms : tuple of ScenarioTerm
    n_scenarios, pool : int
        n and N.
    rng : numpy.random.Generator

    Raises
    ------
    UsageError
        Where the pool is smaller than the number of observed scenarios.
    """
    if not isinstance(pool, (int, np.integer)):
        raise UsageError(f"the pool of scenarios is {pool!r}", remedy="It must be a whole number")
    if pool < n_scenarios:
        raise UsageError(
            f"a pool of {pool} scenarios is smaller than the {n_scenarios} in the table",
            remedy="Name the number of all scenarios, those in the table included",
        )
    rest = pool - n_scenarios
    total = means
    for term in terms:
        total = total + term.observed * (n_scenarios / pool)
        if rest:
            unit = rng.standard_normal(term.sd.shape)
            if term.centred:
                unit = unit - unit.mean(axis=1, keepdims=True)
            new = unit * term.sd / np.sqrt(rest)
            total = total + new * (rest / pool)
    return total


def scenario_term(term: ResolvedTerm, effect: Floats, sd: Floats, n_backbones: int) -> ScenarioTerm:
    """Return what a term with scenarios adds to the backbones' means.

    Parameters
    ----------
    term : ResolvedTerm
    effect : (n_draws, *shape)
    sd : (n_draws,) or (n_draws, by)
    n_backbones : int
    """
    axes = tuple(1 + i for i, dim in enumerate(term.dims) if dim != "backbone")
    observed = effect.mean(axis=axes).reshape(len(effect), -1)
    sd = sd[:, None] if term.scale.by is None else sd
    if term.scale.by not in (None, "backbone"):
        sd = np.sqrt(np.mean(sd**2, axis=1, keepdims=True))
    others = [
        n
        for dim, n in zip(term.dims, term.shape, strict=True)
        if dim not in ("backbone", "scenario")
    ]
    zeros = {dim for dim, centred in zip(term.dims, term.centred, strict=True) if centred}
    scale = 0.0 if zeros - {"backbone"} else 1.0 / np.sqrt(np.prod(others))
    width = n_backbones if "backbone" in term.dims else 1
    sds = np.broadcast_to(sd * scale, (len(effect), width))
    return ScenarioTerm(observed, sds, centred="backbone" in zeros)
