"""Whether a posterior can be trusted: asked after every fit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import xarray as xr

R_HAT_LIMIT = 1.01
ESS_LIMIT = 400
PARETO_K_LIMIT = 0.7


@dataclass(frozen=True)
class Diagnostics:
    """Convergence of one fit, over all that is reported of it.

    Scales, panel effects, cutpoints, slopes and backbone means; where effects
    were sampled also those of a random facet by itself. Elsewhere these are drawn
    independently given the scales, and mix as well.

    Attributes
    ----------
    r_hat_max : float or None
        Largest rank-normalized split r_hat; None for weighted draws.
    ess_bulk_min, ess_tail_min : float
        Smallest effective sample sizes, in draws.
    divergences : int
    pareto_k : float or None
        Of importance weights; None for Markov chains.
    converged : bool
    worst : str
        Quantity with the smallest bulk ESS.
    reasons : tuple of str
        Why not converged; empty where it is.
    """

    r_hat_max: float | None
    ess_bulk_min: float
    ess_tail_min: float
    divergences: int
    pareto_k: float | None
    converged: bool
    worst: str
    reasons: tuple[str, ...]


def diagnose(tree: xr.DataTree, panel: tuple[str, ...], sampled: bool = False) -> Diagnostics:
    """Check r_hat < 1.01, bulk and tail ESS of 400 and no divergences.

    Parameters
    ----------
    tree : DataTree
        With groups ``posterior`` and ``sample_stats``; weighted draws carry
        ``pareto_k`` and ``weighted_ess`` as attributes of ``sample_stats``, and
        nothing else of them needs checking: they are independent.
    panel : tuple of str
        Panel facets; quantities over other dims are not checked one by one.
    sampled : bool
        Effects were sampled, so those of single random facets are checked too.
    """
    stats = tree["sample_stats"]
    if "pareto_k" in stats.attrs:
        return _diagnose_weighted(tree)
    allowed = {"chain", "draw", "backbone", "threshold", *panel}
    r_hat, bulk, tail = [], [], []
    names = []
    for name, variable in tree["posterior"].data_vars.items():
        others = set(variable.dims) - allowed
        alone = len(others) == 1 and len(variable.dims) == 3
        if others and not (sampled and alone):
            continue
        values = variable.transpose("chain", "draw", ...).to_numpy()
        flat = values.reshape(*values.shape[:2], -1)
        for column in range(flat.shape[-1]):
            series = flat[..., column]
            # A fixed scale does not vary: there is nothing to mix.
            if np.ptp(series) <= 1e-12 * max(1.0, float(np.abs(series).max())):
                continue
            names.append(str(name))
            bulk.append(effective_size(series))
            tail.append(tail_size(series))
            r_hat.append(split_r_hat(series))
    divergences = int(stats["diverging"].sum()) if "diverging" in stats else 0
    # NumPy's maximum of a nan is nan, Python's depends on the order.
    r_hat_max = float(np.max(r_hat)) if r_hat else None
    bulk_min, tail_min = float(np.min([np.inf, *bulk])), float(np.min([np.inf, *tail]))
    worst = names[int(np.argmin(bulk))] if bulk else ""
    reasons = _reasons(r_hat_max, bulk_min, tail_min, divergences, None, worst)
    return Diagnostics(
        r_hat_max, bulk_min, tail_min, divergences, None, not reasons, worst, reasons
    )


def _diagnose_weighted(tree: xr.DataTree) -> Diagnostics:
    """Check Pareto k and the effective size of importance draws (STATISTICS section 5)."""
    attributes = tree["sample_stats"].attrs
    sizes = tree["posterior"].sizes
    pareto_k = float(attributes["pareto_k"])
    ess = min(float(attributes["weighted_ess"]), float(sizes["chain"] * sizes["draw"]))
    reasons = _reasons(None, ess, ess, 0, pareto_k, "the weights")
    return Diagnostics(None, ess, ess, 0, pareto_k, not reasons, "the weights", reasons)


def effective_size(series: NDArray[np.float64]) -> float:
    """Return the bulk effective size of (chains, draws), in draws."""
    return _statistic("ess", series, method="bulk")


def tail_size(series: NDArray[np.float64]) -> float:
    """Return the effective size of the 5 and 95 % quantiles of (chains, draws), the smaller."""
    return _statistic("ess", series, method="tail", prob=(0.05, 0.95))


def split_r_hat(series: NDArray[np.float64]) -> float:
    """Return the rank-normalized split r_hat of (chains, draws)."""
    return _statistic("rhat", _two_chains(series))


def _two_chains(series: NDArray[np.float64]) -> NDArray[np.float64]:
    """Take one chain for two, its halves; arviz-stats gives it no r_hat otherwise."""
    if len(series) > 1:
        return series
    half = series.shape[1] // 2
    return series[0, : 2 * half].reshape(2, half)


def _statistic(name: str, series: NDArray[np.float64], **options: Any) -> float:
    from arviz_stats import base

    # arviz-stats has no types.
    array_stats: Any = vars(base)["array_stats"]
    return float(getattr(array_stats, name)(series, chain_axis=0, draw_axis=1, **options))


def _reasons(
    r_hat_max: float | None,
    bulk: float,
    tail: float,
    divergences: int,
    pareto_k: float | None,
    worst: str,
) -> tuple[str, ...]:
    reasons = []
    if r_hat_max is not None and not r_hat_max < R_HAT_LIMIT:
        reasons.append(f"r_hat is {r_hat_max:.3f}, at most {R_HAT_LIMIT} is asked")
    if not bulk >= ESS_LIMIT:
        reasons.append(f"bulk ESS is {bulk:.0f} (for {worst}), {ESS_LIMIT} is asked")
    if not tail >= ESS_LIMIT:
        reasons.append(f"tail ESS is {tail:.0f}, {ESS_LIMIT} is asked")
    if divergences:
        reasons.append(f"{divergences} divergent transitions")
    if pareto_k is not None and not pareto_k <= PARETO_K_LIMIT:
        reasons.append(f"Pareto k is {pareto_k:.2f}, at most {PARETO_K_LIMIT} is asked")
    return tuple(reasons)
