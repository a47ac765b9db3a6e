"""Parameters of every score from stored draws, effects that were not stored included.

Interactions with a random facet and generations are not part of a posterior
unless asked for. Where effects were integrated out they are drawn here from
their exact conditional given what is stored, so that all together are draws
from the posterior.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bayesjudge.densities import Parameters
from bayesjudge.errors import ModelError, UsageError
from bayesjudge.resolution import Resolved, ResolvedTerm

if TYPE_CHECKING:
    import xarray as xr

type Floats = NDArray[np.float64]
type Ints = NDArray[np.int64]


def arrays_of(posterior: xr.Dataset) -> dict[str, Floats]:
    """Return the variables of a posterior, (chain, draw, ...)."""
    return {str(name): array_of(posterior, str(name)) for name in posterior.data_vars}


def array_of(posterior: xr.Dataset, name: str) -> Floats:
    """Return a variable of a posterior, (chain, draw, ...)."""
    # Without its coordinates: with them each takes xarray longer than the array itself.
    variable = posterior.variables[name]
    return np.asarray(variable.transpose("chain", "draw", ...).to_numpy())


def check_draws(wanted: object, least: int = 1) -> int:
    """Return a number of draws.

    Raises
    ------
    UsageError
        Where it is no whole number, or below ``least``.
    """
    if isinstance(wanted, (int, np.integer)) and wanted >= least:
        return int(wanted)
    raise UsageError(f"draws is {wanted!r}", remedy=f"Ask for {least} at least")


def thinned(n_chains: int, n_draws: int, wanted: int | None) -> Ints:
    """Return which draws of each chain to take, evenly spaced, ``wanted`` in all or some more.

    Raises
    ------
    UsageError
        Where it is no whole number, or none are wanted.
    """
    if wanted is None or check_draws(wanted) >= n_chains * n_draws:
        return np.arange(n_draws)
    each = -(-wanted // n_chains)
    return np.linspace(0, n_draws - 1, each).round().astype(np.int64)


def not_stored(
    resolved: Resolved, posterior: xr.Dataset, made: dict[str, Any], generations: bool
) -> dict[str, Floats]:
    """Draw the effects that a posterior does not hold, (chain, draw, *shape) by variable.

    Parameters
    ----------
    resolved : Resolved
    posterior : Dataset
        Any part of the draws will do.
    made : dict
        Metadata of the fit: how it was sampled, and with which seed.
    generations : bool
        Go on to generations.

    Returns
    -------
    dict
        Empty where effects were sampled, and of latent families: none can be drawn then.
    """
    if made["method"] == "nuts" or resolved.spec.is_latent:
        return {}
    from bayesjudge.engines.integrating import other_effects
    from bayesjudge.engines.streams import Streams

    arrays = arrays_of(posterior)
    kept = {
        t.variable: arrays[f"{t.variable}_effect"]
        for t in resolved.terms
        if f"{t.variable}_effect" in arrays
    }
    chains, draws = (posterior.coords[dim].to_numpy() for dim in ("chain", "draw"))
    rows = chains[:, None] * made["settings"]["draws"] + draws
    streams = Streams(made["settings"]["random_seed"], rows.ravel())
    return other_effects(resolved, arrays, arrays["intercept"], kept, streams, generations)


def parameters_of(resolved: Resolved, posterior: xr.Dataset, made: dict[str, Any]) -> Parameters:
    """Return all parameters of the draws of a posterior, chains one after the other.

    Raises
    ------
    ModelError
        Where effects were sampled and those of a term not kept.
    """
    arrays = arrays_of(posterior)
    missing = [t for t in resolved.terms if f"{t.variable}_effect" not in arrays]
    others: dict[str, Floats] = {}
    if missing:
        others = not_stored(resolved, posterior, made, generations=True)
        lost = [t for t in missing if t.variable not in others]
        if lost:
            raise not_kept(lost[0])

    def flat(values: Floats) -> Floats:
        return values.reshape(-1, *values.shape[2:])

    def effect(term: ResolvedTerm) -> Floats:
        name = f"{term.variable}_effect"
        values = arrays[name] if name in arrays else others[term.variable]
        return flat(values).reshape(-1, term.n_levels)

    n = posterior.sizes["chain"] * posterior.sizes["draw"]
    cutpoints, discrimination = arrays.get("cutpoints"), arrays.get("discrimination")
    return Parameters(
        intercept=flat(arrays["intercept"]) if "intercept" in arrays else np.zeros(n),
        effects={term.variable: effect(term) for term in resolved.terms},
        slopes={c.name: flat(arrays[f"{c.name}_slope"]) for c in resolved.covariates},
        sigma=flat(arrays["sigma"]).reshape(n, -1) if "sigma" in arrays else None,
        degrees=flat(arrays["degrees_of_freedom"]) if "degrees_of_freedom" in arrays else None,
        cutpoints=None
        if cutpoints is None
        else flat(cutpoints).reshape(n, -1, cutpoints.shape[-1]),
        discrimination=None if discrimination is None else flat(discrimination),
        tie_chance=flat(arrays["tie_chance"]) if "tie_chance" in arrays else None,
    )


def not_kept(term: ResolvedTerm) -> ModelError:
    """Return the error of effects that were sampled and not kept."""
    return ModelError(
        f"the effects of {term.name} were sampled and not kept",
        remedy="Fit again with nested_effects=True, which stores all of them, or rank with "
        "--log-likelihood",
    )
