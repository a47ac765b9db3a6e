"""Scores that a model expects, and how well it expects those seen: ArviZ's groups.

``posterior_predictive`` and ``log_likelihood`` are given all effects: they speak
of new scores of the cells that the table holds, not of new scenarios.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bayesjudge.densities import Parameters, log_densities, replicated_scores
from bayesjudge.resolution import Resolved
from bayesjudge.simulation import simulate_scores
from bayesjudge.stored import check_draws, parameters_of, thinned

if TYPE_CHECKING:
    import xarray as xr

type Floats = NDArray[np.float64]

SCORE = "score"
OBSERVATION = "observation"

# Numbers of a group that is not asked for in full: 160 MB.
_MOST_VALUES = 20_000_000
_LEAST_DRAWS = 100
_PRIOR_DRAWS = 500
# Numbers that are worked on at once.
_AT_ONCE = 2_000_000


def usual_draws(n_scores: int, most: int) -> int:
    """Return how many draws a group holds by default: all, or what takes 160 MB."""
    return min(most, max(_MOST_VALUES // max(n_scores, 1), _LEAST_DRAWS))


def thin(posterior: xr.Dataset, n_scores: int, draws: int | None) -> xr.Dataset:
    """Return so many draws of a posterior, evenly spaced; by default :func:`usual_draws`."""
    chains, length = posterior.sizes["chain"], posterior.sizes["draw"]
    wanted = usual_draws(n_scores, chains * length) if draws is None else draws
    return posterior.isel(draw=thinned(chains, length, wanted))


def posterior_predictive(
    resolved: Resolved, posterior: xr.Dataset, made: dict[str, Any], seed: int
) -> xr.Dataset:
    """Draw every score of the table again, once a draw: ``score`` (chain, draw, observation).

    Parameters
    ----------
    resolved : Resolved
    posterior : Dataset
        The draws to take, as they are stored.
    made : dict
        Metadata of the fit.
    seed : int
    """
    given = parameters_of(resolved, posterior, made)
    rng = np.random.default_rng([seed, 11])
    values = _by_draws(
        resolved, given, lambda some: replicated_scores(resolved, some, rng), _kind(resolved)
    )
    return _labelled(values, posterior)


def pointwise_log_likelihood(
    resolved: Resolved, posterior: xr.Dataset, made: dict[str, Any]
) -> xr.Dataset:
    """Return log densities of the table's scores: ``score`` (chain, draw, observation)."""
    given = parameters_of(resolved, posterior, made)
    values = _by_draws(
        resolved, given, lambda some: log_densities(resolved, some), np.dtype(np.float64)
    )
    return _labelled(values, posterior)


def prior_predictive(resolved: Resolved, draws: int | None, seed: int) -> xr.Dataset:
    """Draw tables of scores from the priors: ``score`` (chain, draw, observation), one chain.

    Raises
    ------
    UsageError
        Where not one is asked for.
    """
    import xarray as xr

    n = usual_draws(resolved.score.size, _PRIOR_DRAWS) if draws is None else check_draws(draws)
    rng = np.random.default_rng([seed, 12])
    values = np.empty((1, n, resolved.score.size), _kind(resolved))
    for i in range(n):
        values[0, i] = simulate_scores(resolved, rng)[0]
    coords = {"chain": np.zeros(1, np.int64), "draw": np.arange(n)}
    return xr.Dataset({SCORE: (("chain", "draw", OBSERVATION), values)}, coords=coords)


def observed(resolved: Resolved) -> xr.Dataset:
    """Return the scores of the table as ArviZ's plots look for them."""
    import xarray as xr

    return xr.Dataset({SCORE: ((OBSERVATION,), resolved.score.astype(_kind(resolved)))})


def _kind(resolved: Resolved) -> np.dtype[Any]:
    """Return the type of scores: whole numbers where the model knows no others."""
    whole = resolved.spec.is_latent and not resolved.spec.is_paired
    return np.dtype(np.int32 if whole else np.float64)


def _by_draws(
    resolved: Resolved,
    given: Parameters,
    function: Callable[[Parameters], Floats],
    kind: np.dtype[Any],
) -> NDArray[Any]:
    """Apply a function to a few draws at a time, (n, N)."""
    n, size = given.n_draws, resolved.score.size
    out = np.empty((n, size), kind)
    step = max(_AT_ONCE // max(size, 1), 1)
    for start in range(0, n, step):
        here = slice(start, start + step)
        out[here] = function(given.some(here))
    return out


def _labelled(values: NDArray[Any], posterior: xr.Dataset) -> xr.Dataset:
    import xarray as xr

    shape = (posterior.sizes["chain"], posterior.sizes["draw"], -1)
    coords = {name: posterior[name].to_numpy() for name in ("chain", "draw")}
    return xr.Dataset(
        {SCORE: (("chain", "draw", OBSERVATION), values.reshape(shape))}, coords=coords
    )
