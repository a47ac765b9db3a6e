"""Variance components of a panel of judges, and what they make of a mean's variance.

Variances of judges are those of a panel of ``panel_size`` judges, of whom K are at
hand: the mean square of the offsets, not that of a population (STATISTICS section 7).
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bayesjudge.errors import UsageError

type Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class PanelComponents:
    """Variance components of a backbone's scores; numbers or arrays of one shape.

    Attributes
    ----------
    scenario : float array
        Of a scenario's mean over the panel.
    generation : float array
        Nan where it cannot be told from the scenario.
    judge : float array
        Mean square of the panel's offsets.
    residual : float array
        Without ``judge_scenario``, unless that is left in it.
    judge_scenario : float array
        Mean square over the panel of how far a judge's offset in a scenario is from
        the judge's offset; 0 in the paper, which leaves it to the residual.
    """

    scenario: Floats
    generation: Floats
    judge: Floats
    residual: Floats
    judge_scenario: Floats

    @property
    def truncated(self) -> PanelComponents:
        """The same, nothing below zero."""
        return PanelComponents(
            *(np.maximum(getattr(self, field.name), 0.0) for field in fields(self))
        )


def panel_components(
    scenario: ArrayLike,
    generation: ArrayLike,
    judge: ArrayLike,
    residual: ArrayLike,
    judge_scenario: ArrayLike = 0.0,
) -> PanelComponents:
    """Return components as they are typed in.

    Raises
    ------
    UsageError
        Where one is negative, infinite or nan (``generation`` may be nan).
    """
    given = [np.asarray(v, float) for v in (scenario, generation, judge, residual, judge_scenario)]
    for field, values in zip(fields(PanelComponents), given, strict=True):
        known = values[~np.isnan(values)] if field.name == "generation" else values
        if not (np.isfinite(known).all() and (known >= 0).all()):
            raise UsageError(
                f"the {field.name} variance is {values}", remedy="Variances are at least 0"
            )
    return PanelComponents(*np.broadcast_arrays(*given))


def finite_correction(k: int, panel_size: int) -> float:
    """Return (K_tot - K) / (K_tot - 1), the correction of equation 2; 0 for one judge."""
    return (panel_size - k) / (panel_size - 1) if panel_size > 1 else 0.0


def mean_contributions(
    parts: PanelComponents,
    n: int,
    m: int,
    k: int,
    panel_size: int,
    scenario_pool: int | None = None,
) -> PanelComponents:
    """Return what each component adds to the variance of a backbone's mean (equation 2).

    Parameters
    ----------
    parts : PanelComponents
    n, m, k : int
        Scenarios, generations a scenario, and judges, drawn from the panel, each of
        whom scores every generation.
    panel_size : int
        K_tot, the panel whose mean is estimated.
    scenario_pool : int, optional
        N, where the question is about these scenarios only: their variance is then
        times 1 - n/N. Otherwise about scenarios like them.

    Returns
    -------
    PanelComponents
        Contributions, whose sum is the variance of the mean.

    Raises
    ------
    UsageError
        Where the design is not possible.
    """
    checked_panel_size(panel_size, k)
    if min(n, m, k) < 1:
        raise UsageError(f"a design of n={n}, m={m}, k={k}", remedy="Each is at least 1")
    if scenario_pool is not None and n > scenario_pool:
        raise UsageError(f"{n} scenarios out of a pool of {scenario_pool}")
    finite = 1.0 if scenario_pool is None else 1 - n / scenario_pool
    correction = finite_correction(k, panel_size)
    return PanelComponents(
        scenario=parts.scenario * finite / n,
        generation=parts.generation / (n * m),
        judge=parts.judge * correction / k,
        residual=parts.residual / (n * m * k),
        judge_scenario=parts.judge_scenario * finite * correction / (n * k),
    )


def mean_variance(
    parts: PanelComponents,
    n: int,
    m: int,
    k: int,
    panel_size: int,
    scenario_pool: int | None = None,
) -> Floats:
    """Return the variance of a backbone's mean (equation 2), the sum of its contributions.

    Where ``generation`` is nan, as its variance is in ``scenario``, it is known for the
    one generation a scenario on which that was measured, and nan for others.
    """
    known = replace(parts, generation=np.nan_to_num(parts.generation)) if m == 1 else parts
    added = mean_contributions(known, n, m, k, panel_size, scenario_pool)
    return np.asarray(sum(getattr(added, field.name) for field in fields(added)))


def checked_panel_size(panel_size: int | None, k: int) -> int:
    """Return the size of the panel, K where none is given.

    Raises
    ------
    UsageError
        Where it is smaller than the number of judges.
    """
    if panel_size is None:
        return k
    if panel_size < k:
        raise UsageError(
            f"a panel of {panel_size} cannot hold {k} judges",
            "panel_size",
            f"It is the number of judges in the whole panel: at least {k}",
        )
    return panel_size
