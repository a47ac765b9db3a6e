"""What every engine takes and gives."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from bayesjudge.errors import UsageError
from bayesjudge.resolution import Resolved

PLATFORMS = ("cpu", "gpu")


@dataclass(frozen=True)
class Settings:
    """How to sample.

    Attributes
    ----------
    draws, tune, chains : int
        Kept and discarded iterations of each chain, number of chains.
    target_accept : float
        Of NUTS.
    random_seed : int
    nested_effects : bool
        Also keep the effects of generations and of interactions with a random facet.
    integrate : bool
        Integrate the effects out where the family allows it and draw them
        afterwards; False samples every effect.
    progress : bool
        Show a progress bar on stderr.
    platform : {"cpu", "gpu"}
        Where JAX computes; the numpyro engine's alone.
    """

    draws: int = 1000
    tune: int = 1000
    chains: int = 4
    target_accept: float = 0.9
    random_seed: int = 0
    nested_effects: bool = False
    integrate: bool = True
    progress: bool = False
    platform: str = "cpu"

    def __post_init__(self) -> None:
        for name, least in (("draws", 4), ("tune", 1), ("chains", 1), ("random_seed", 0)):
            value = getattr(self, name)
            if not isinstance(value, (int, np.integer)) or value < least:
                raise UsageError(f"{name} is {value!r}", remedy=f"It must be at least {least}")
        if self.platform not in PLATFORMS:
            raise UsageError(
                f"there is no platform {self.platform!r}", remedy=f"Choose {' or '.join(PLATFORMS)}"
            )
        if not 0 < self.target_accept < 1:
            raise UsageError(
                f"target_accept is {self.target_accept!r}", remedy="It must lie between 0 and 1"
            )


@dataclass(frozen=True, eq=False)
class Draws:
    r"""Posterior draws as plain arrays, chain and draw first.

    Attributes
    ----------
    scales : dict of (chain, draw) or (chain, draw, by) arrays
        Standard deviations by variable name, ``sigma`` included.
    hyper : dict of arrays
        Centres, spreads and unit-scale deviations of scales by a facet.
    intercept : (chain, draw) array
        Zeros where the model has none.
    effects : dict of (chain, draw, *shape) arrays
        By the term's variable name.
    sample_stats : dict of (chain, draw) arrays
    seconds : float
        Wall time from scores to draws.
    pass_seconds : float
        Of them, for the pass over the scores; nothing after it depends on their number.
    method : str
        What ran: ``nuts`` or ``nuts by nutpie`` (effects sampled), ``collapsed nuts``,
        ``importance``, ``resample-move`` (short chains from importance draws)
        or ``conjugate`` (no scale to sample).
    pareto_k, weighted_ess : float or None
        Of importance weights; None for Markov chains.
    parameters : dict of (chain, draw, ...) arrays
        What only some families have: ``cutpoints`` (threshold, or the facet they
        are by and threshold), ``cutpoints_sd``, ``degrees_of_freedom``,
        ``discrimination`` (levels), ``discrimination_sd``, ``tie_chance`` and slopes
        of covariates, ``<covariate>_slope``, for one sd of the covariate.
    notes : tuple of str
        What the user has to know of how they were made.
    """

    scales: dict[str, NDArray[np.float64]]
    hyper: dict[str, NDArray[np.float64]]
    intercept: NDArray[np.float64]
    effects: dict[str, NDArray[np.float64]]
    sample_stats: dict[str, NDArray[np.float64]] = field(default_factory=dict)
    seconds: float = 0.0
    method: str = "nuts"
    pareto_k: float | None = None
    weighted_ess: float | None = None
    pass_seconds: float = 0.0
    parameters: dict[str, NDArray[np.float64]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


class Engine(Protocol):
    """A function from a model on a table to draws."""

    def __call__(self, resolved: Resolved, settings: Settings) -> Draws:
        """Sample the posterior."""
        ...
