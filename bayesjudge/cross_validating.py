"""Models of one table compared by leave-one-out cross-validation (PSIS-LOO).

A score is predicted given the effects of its own scenario, judge and answer, which
the scores left in the table tell of: the comparison is about new scores of the
same cells, not about new scenarios. Vehtari, Gelman and Gabry (2017), "Practical
Bayesian model evaluation using leave-one-out cross-validation and WAIC".
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from bayesjudge.densities import Parameters, log_densities
from bayesjudge.errors import DataError, ModelError, UsageError
from bayesjudge.fitted import Fit
from bayesjudge.predicting import OBSERVATION, SCORE
from bayesjudge.resolution import Resolved
from bayesjudge.scores.lines import need_rows
from bayesjudge.scores.problems import Problem
from bayesjudge.scores.table import Scores
from bayesjudge.stored import check_draws, parameters_of, thinned

if TYPE_CHECKING:
    import pandas as pd

type Floats = NDArray[np.float64]

ABOUT = (
    "new scores of the cells that the table holds, not new scenarios: each score is predicted "
    "with the effects of its own scenario, judge and answer"
)

_USUAL_DRAWS = 1000
# Pareto k takes some draws of a tail.
_LEAST_DRAWS = 100
_AT_ONCE = 2_000_000
# Differences below this many standard errors tell no models apart.
_CLEAR = 2.0
_ALIKE = 4.0


@dataclass(frozen=True, eq=False)
class LeftOut:
    """Leave-one-out predictions of one model.

    Attributes
    ----------
    elpd : (N,) float array
        Log predictive density, or probability, of each score given the others.
    p_loo : float
        Effective number of parameters.
    pareto_k : (N,) float array
    k_limit : float
        Above it a score's elpd is not to be trusted: min(1 - 1 / log10(draws), 0.7).
    n_draws : int
    """

    elpd: Floats
    p_loo: float
    pareto_k: Floats
    k_limit: float
    n_draws: int


@dataclass(frozen=True, eq=False)
class Comparison:
    """What :func:`compare` found.

    Attributes
    ----------
    table : DataFrame
        One row a model, best first: model, elpd, se, p_loo, elpd_diff (to the best,
        at most 0), dse (its standard error, scores taken for independent),
        dse_scenario (the same, scenarios independent; null without scenarios),
        p_worse (by a normal approximation with the wider of the two), k_good, k_bad,
        k_very_bad (numbers of scores with Pareto k up to ``k_limit``, up to 1,
        above), k_limit, draws.
    left_out : dict of str to LeftOut
        By model.
    findings : tuple of Problem
        Fits that did not converge, Pareto k that are too high, models that cannot be
        told apart.
    about : str
        What is predicted.
    """

    table: pd.DataFrame
    left_out: dict[str, LeftOut]
    findings: tuple[Problem, ...]
    about: str = ABOUT

    def _repr_html_(self) -> str:
        from bayesjudge.text import visible

        shown = self.table.map(lambda v: visible(v) if isinstance(v, str) else v)
        return str(shown.to_html(index=False, float_format="{:.4g}".format))


def compare(fits: Mapping[str, Fit], *, draws: int = _USUAL_DRAWS) -> Comparison:
    """Compare fits of one table by PSIS-LOO, all effects given.

    Parameters
    ----------
    fits : mapping of str to Fit
        Two or more, by the name to show.
    draws : int
        Of each posterior, evenly spaced. More make Pareto k surer, and take longer:
        1,000 take about a second for 1,000 scores and a model.

    Returns
    -------
    Comparison

    Raises
    ------
    DataError
        Where the fits are of different tables, or of moments.
    ModelError
        Where one has a density of scores and another a probability, which do not
        compare; or where effects were sampled and those of generations not kept.
    UsageError
        Where there are fewer than two fits, or too few draws are asked for.
    """
    _refuse_no_fits(fits)
    check_draws(draws, _LEAST_DRAWS)
    _refuse_unlike(fits)
    found = {name: leave_one_out(fit, draws) for name, fit in fits.items()}
    scores = _rows(next(iter(fits.values())))
    table = comparison_table(found, scores.codes("scenario") if scores.has("scenario") else None)
    return Comparison(table, found, _findings(fits, found, table))


def leave_one_out(fit: Fit, draws: int = _USUAL_DRAWS) -> LeftOut:
    """Return the leave-one-out predictive densities of a fit's scores."""
    posterior = fit.posterior["posterior"].to_dataset()
    chains, length = posterior.sizes["chain"], posterior.sizes["draw"]
    some = posterior.isel(draw=thinned(chains, length, draws))
    given = parameters_of(fit.resolved, some, fit.metadata)
    state = fit.convergence
    # Weighted draws are independent, and effects drawn given the scales nearly so.
    efficiency = min(1.0, state.ess_bulk_min / (chains * length))
    return psis_loo(fit.resolved, given, chains, efficiency)


def psis_loo(
    resolved: Resolved, given: Parameters, chains: int, efficiency: float = 1.0
) -> LeftOut:
    """Leave out each score in turn, a few thousand at a time.

    Parameters
    ----------
    resolved : Resolved
    given : Parameters
        Chains one after the other, of one length.
    chains : int
    efficiency : float
        Effective draws a draw; it sets the length of the tail that is smoothed.
    """
    import arviz_stats
    import xarray as xr

    # arviz-stats has no types.
    loo: Any = vars(arviz_stats)["loo"]
    n, size = given.n_draws, resolved.score.size
    elpd, pareto_k, p_loo = np.empty(size), np.empty(size), 0.0
    step = max(_AT_ONCE // n, 1)
    for start in range(0, size, step):
        rows = slice(start, start + step)
        values = log_densities(resolved, given, rows).reshape(chains, n // chains, -1)
        tree = xr.DataTree.from_dict(
            {"log_likelihood": xr.Dataset({SCORE: (("chain", "draw", OBSERVATION), values)})}
        )
        with warnings.catch_warnings():
            # Counted and said by us.
            warnings.simplefilter("ignore")
            part = loo(tree, pointwise=True, reff=efficiency)
        elpd[rows], pareto_k[rows] = part.elpd_i.to_numpy(), part.pareto_k.to_numpy()
        p_loo += float(part.p)
    return LeftOut(elpd, p_loo, pareto_k, min(1 - 1 / math.log10(n), 0.7), n)


def comparison_table(
    found: Mapping[str, LeftOut], scenario: NDArray[np.int64] | None
) -> pd.DataFrame:
    """Return the table of a :class:`Comparison`.

    Parameters
    ----------
    found : mapping of str to LeftOut
    scenario : (N,) int array or None
    """
    import pandas as pd

    order = sorted(found, key=lambda name: -float(found[name].elpd.sum()))
    best = found[order[0]].elpd
    rows = []
    for name in order:
        own = found[name]
        difference = own.elpd - best
        dse = _standard_error(difference)
        clustered = np.nan
        if scenario is not None and scenario.max() > 0:
            clustered = _standard_error(np.bincount(scenario, difference))
        wider = _wider(dse, clustered)
        k = own.pareto_k
        rows.append(
            {
                "model": name,
                "elpd": own.elpd.sum(),
                "se": _standard_error(own.elpd),
                "p_loo": own.p_loo,
                "elpd_diff": difference.sum(),
                "dse": dse,
                "dse_scenario": clustered,
                "p_worse": float(ndtr(-difference.sum() / wider)) if wider > 0 else np.nan,
                "k_good": int((k <= own.k_limit).sum()),
                "k_bad": int(((k > own.k_limit) & (k <= 1)).sum()),
                # A k that is no number is none that can be trusted.
                "k_very_bad": int((~(k <= 1)).sum()),
                "k_limit": own.k_limit,
                "draws": own.n_draws,
            }
        )
    return pd.DataFrame(rows)


def _wider(one: float, other: float) -> float:
    """Return the larger of two standard errors; nan where neither is known."""
    return float(np.fmax(one, other))


def _standard_error(parts: Floats) -> float:
    """Return the standard error of a sum of independent parts."""
    if parts.size < 2:
        return float("nan")
    return float(np.sqrt(parts.size * np.var(parts, ddof=1)))


def _refuse_no_fits(fits: object) -> None:
    named = isinstance(fits, Mapping) and all(isinstance(f, Fit) for f in fits.values())
    if not named:
        raise UsageError("compare takes fits by name", remedy='Write compare({"a": fit, "b": fit})')
    if isinstance(fits, Mapping) and len(fits) < 2:
        raise UsageError("there are fewer than two fits to compare", remedy="Name two or more")


def _refuse_unlike(fits: Mapping[str, Fit]) -> None:
    (first, one), *others = fits.items()
    for name, other in others:
        if not _same_table(_rows(one), _rows(other)):
            raise DataError(
                f"{first!r} and {name!r} are fits of different tables",
                other.scores.source,
                "Fit both models to the same rows, in the same order and unit",
            )
    latent = [name for name, fit in fits.items() if fit.spec.is_latent]
    if 0 < len(latent) < len(fits):
        dense = next(name for name in fits if name not in latent)
        raise ModelError(
            f"{latent[0]!r} gives scores a probability and {dense!r} a density: their logarithms "
            "do not compare",
            f"families {fits[latent[0]].spec.family} and {fits[dense].spec.family}",
            "Compare verdict and ordinal models among themselves, and gaussian with student_t; "
            "fit.checks() asks whether a gaussian model fits",
        )


def _rows(fit: Fit) -> Scores:
    return need_rows(fit.scores, "comparisons of predictions")


def _same_table(one: Scores, other: Scores) -> bool:
    if not np.array_equal(one.score, other.score):
        return False
    for facet in one.facets:
        if other.has(facet.name):
            theirs = other.facet(facet.name)
            if facet.levels != theirs.levels or not np.array_equal(facet.codes, theirs.codes):
                return False
    return True


def _findings(
    fits: Mapping[str, Fit], found: Mapping[str, LeftOut], table: pd.DataFrame
) -> tuple[Problem, ...]:
    said = [
        Problem("warning", f"the fit did not converge: {'; '.join(fit.convergence.reasons)}", name)
        for name, fit in fits.items()
        if not fit.convergence.converged
    ]
    for name, own in found.items():
        high = int((~(own.pareto_k <= own.k_limit)).sum())
        if high:
            said.append(
                Problem(
                    "warning",
                    f"{high:,} of {own.elpd.size:,} scores have a Pareto k above "
                    f"{own.k_limit:.2f}: the elpd is likely too high",
                    name,
                    high,
                    "An effect that few scores tell of does that; trust no difference that rests "
                    "on them",
                )
            )
    best = str(table["model"].iloc[0])
    columns = (table[name].iloc[1:] for name in ("model", "elpd_diff", "dse", "dse_scenario"))
    for name, difference, dse, clustered in zip(*columns, strict=True):
        wider = _wider(dse, clustered)
        # Where models predict nearly the same their difference is not normal.
        if abs(difference) < max(_CLEAR * wider, _ALIKE):
            said.append(
                Problem(
                    "note",
                    f"{name} cannot be told from {best}: elpd differs by "
                    f"{difference:.1f} (standard error {wider:.1f})",
                )
            )
    return tuple(said)
