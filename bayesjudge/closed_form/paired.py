"""Paired differences of backbones with standard errors clustered by scenario.

The check that STATISTICS §1 asks for: beside the posterior sd of a difference
stands a standard error that assumes no model, only independent scenarios.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bayesjudge.errors import DataError
from bayesjudge.scores.keys import cell_keys
from bayesjudge.scores.lines import Table, cells_of_table
from bayesjudge.scores.problems import Problem
from bayesjudge.scores.table import Scores

if TYPE_CHECKING:
    from collections.abc import Sequence

type Floats = NDArray[np.float64]
type Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class PairedDifference:
    """Paired differences, one entry a pair.

    Attributes
    ----------
    estimate : (P,) float array
        Mean over scenarios of the difference first minus second, on the user's
        scale; null (nan) where no scenario has a shared cell.
    se : (P,) float array
        Its standard error, scenarios independent; null where fewer than two.
    n_scenarios : (P,) int array
        Scenarios in which both backbones have a cell in common.
    """

    estimate: Floats
    se: Floats
    n_scenarios: Ints


@dataclass(frozen=True)
class SeRatioFinding:
    """A difference whose posterior sd and clustered standard error disagree.

    Attributes
    ----------
    backbone, other : str
        The pair.
    posterior_sd, se : float
        Posterior sd of the difference and its paired, scenario-clustered
        standard error, on the user's scale.
    ratio : float
        ``posterior_sd / se``; infinite where `se` is 0.
    n_scenarios : int
        Scenarios behind `se`.
    """

    backbone: str
    other: str
    posterior_sd: float
    se: float
    ratio: float
    n_scenarios: int

    def problem(self) -> Problem:
        """Return the finding as a warning for the user."""
        believed = "more" if self.ratio < 1 else "less"
        return Problem(
            severity="warning",
            what=f"the model is {believed} certain of a difference than its scenarios are: "
            f"posterior sd {self.posterior_sd:.3g}, paired standard error {self.se:.3g} "
            f"over {self.n_scenarios} scenarios",
            where=f"{self.backbone} against {self.other}",
            remedy="Look for a term that the model lacks, or for backbones of unequal variance",
        )


def paired_differences(
    score: ArrayLike,
    backbone: ArrayLike,
    scenario: ArrayLike | None,
    cell: ArrayLike | None,
    n_backbones: int,
    pairs: ArrayLike,
    weight: ArrayLike | None = None,
) -> PairedDifference:
    """Return paired differences of backbones and their clustered standard errors.

    Within a scenario s, over the panel cells that both backbones have there, d_s
    is the mean of (mean score of the first - mean score of the second). The
    estimate is the mean of d_s, its standard error sd(d_s) / sqrt(n), with n the
    scenarios that have a shared cell.

    Parameters
    ----------
    score : (N,) float array
        Finite scores on the user's scale.
    backbone : (N,) int array
        Codes from 0 to `n_backbones` - 1.
    scenario : (N,) int array or None
        Non-negative codes. None: the table has no scenarios, every answer is null.
    cell : (N,) int array or None
        Non-negative code of the combination of judge, language and the user's
        panel facets. None: one cell a scenario.
    n_backbones : int
        K.
    pairs : (P, 2) int array
        Backbone codes, first minus second.
    weight : (N,) array, optional
        How many scores each is the mean of; 1 by default.

    Returns
    -------
    PairedDifference
        In the order of `pairs`.

    Raises
    ------
    DataError
        Where the arrays differ in length or a code is out of range.
    """
    pair = np.asarray(pairs, dtype=np.int64).reshape(-1, 2)
    estimate, se = np.full(len(pair), np.nan), np.full(len(pair), np.nan)
    count = np.zeros(len(pair), dtype=np.int64)
    if scenario is None:
        return PairedDifference(estimate, se, count)
    value = np.asarray(score, dtype=float)
    who = np.asarray(backbone, dtype=np.int64)
    where = np.asarray(scenario, dtype=np.int64)
    which = np.zeros_like(where) if cell is None else np.asarray(cell, dtype=np.int64)
    behind = np.ones_like(value) if weight is None else np.asarray(weight, dtype=float)
    _check_codes(value, who, where, which, n_backbones, pair)

    place, place_scenario = _places(where, which)
    places, means = _cell_means(value, behind, who, place, n_backbones)
    for row, (a, b) in enumerate(pair):
        shared, at_a, at_b = np.intersect1d(
            places[a], places[b], assume_unique=True, return_indices=True
        )
        if shared.size == 0:
            continue
        _, cluster, size = np.unique(
            place_scenario[shared], return_inverse=True, return_counts=True
        )
        d = np.bincount(cluster, weights=means[a][at_a] - means[b][at_b]) / size
        estimate[row], count[row] = d.mean(), d.size
        if d.size > 1:
            se[row] = d.std(ddof=1) / np.sqrt(d.size)
    return PairedDifference(estimate, se, count)


def paired_in_table(table: Table, pairs: ArrayLike) -> PairedDifference:
    """Return the paired differences of a table's backbones, null for battles.

    Parameters
    ----------
    table : Scores or Tally
        Of a tally the means of its cells are enough.
    pairs : (P, 2) int array
        Codes of backbones, first minus second.
    """
    if isinstance(table, Scores) and table.opponent is not None:
        n = len(np.asarray(pairs))
        return PairedDifference(np.full(n, np.nan), np.full(n, np.nan), np.zeros(n, np.int64))
    cells = cells_of_table(table)
    panel = [f for f in cells.facets.values() if f.role == "panel" and f.name != "backbone"]
    cell = cell_keys([f.codes for f in panel], [f.n_levels for f in panel])[0] if panel else None
    scenario, backbone = cells.facets.get("scenario"), cells.facets["backbone"]
    return paired_differences(
        cells.mean,
        backbone.codes,
        None if scenario is None else scenario.codes,
        cell,
        backbone.n_levels,
        pairs,
        cells.weight,
    )


def se_ratio_findings(
    posterior_sd: ArrayLike,
    paired: PairedDifference,
    pairs: ArrayLike,
    labels: Sequence[str],
    low: float = 0.8,
    high: float = 1.25,
) -> tuple[SeRatioFinding, ...]:
    """Return the differences whose posterior sd is out of line with their scenarios.

    Parameters
    ----------
    posterior_sd : (P,) float array
        Posterior sd of each difference, on the user's scale.
    paired : PairedDifference
        Of the same pairs.
    pairs : (P, 2) int array
        Backbone codes.
    labels : sequence of K str
        Names of the backbones.
    low, high : float
        Ratios of posterior sd to standard error within which nothing is said
        (STATISTICS §1).

    Returns
    -------
    tuple of SeRatioFinding
        In the order of `pairs`. Pairs whose standard error is missing or 0 are
        not judged, nor those in which it rests on so few scenarios that a ratio
        outside may be its own error: n scenarios give it to one part in
        sqrt(2 (n - 1)), and twice that is allowed for.
    """
    findings = []
    pair = np.asarray(pairs, dtype=np.int64).reshape(-1, 2)
    sds = np.asarray(posterior_sd, dtype=float)
    for (a, b), sd, se, n in zip(pair, sds, paired.se, paired.n_scenarios, strict=True):
        if np.isnan(se) or se == 0:
            continue
        ratio = float(sd / se)
        beyond_chance = abs(np.log(ratio)) > 2 / np.sqrt(2 * (n - 1)) if ratio > 0 else True
        if beyond_chance and not low <= ratio <= high:
            findings.append(
                SeRatioFinding(labels[a], labels[b], float(sd), float(se), ratio, int(n))
            )
    return tuple(findings)


def _check_codes(
    value: Floats, who: Ints, where: Ints, which: Ints, n_backbones: int, pair: Ints
) -> None:
    if not value.shape == who.shape == where.shape == which.shape:
        raise DataError("scores, backbones, scenarios and cells differ in length")
    for name, codes in (("backbone", who), ("scenario", where), ("cell", which)):
        if codes.size and codes.min() < 0:
            raise DataError(f"a {name} code is negative")
    for name, codes in (("backbone", who), ("pair", pair)):
        if codes.size and not 0 <= codes.min() <= codes.max() < n_backbones:
            raise DataError(f"a {name} code is outside 0 to {n_backbones - 1}")


def _places(where: Ints, which: Ints) -> tuple[Ints, Ints]:
    """Give numbers to the observed scenario x cell combinations.

    Returns
    -------
    place : (N,) int array
        Which combination each score belongs to.
    scenario : (n_places,) int array
        Its scenario.
    """
    # Dense codes first: the product of sparse user codes could overflow.
    scenarios, s = np.unique(where, return_inverse=True)
    cells, c = np.unique(which, return_inverse=True)
    distinct, place = np.unique(s * cells.size + c, return_inverse=True)
    return place.astype(np.int64), scenarios[distinct // max(cells.size, 1)]


def _cell_means(
    value: Floats, behind: Floats, who: Ints, place: Ints, n_backbones: int
) -> tuple[list[Ints], list[Floats]]:
    """Return, a backbone, the sorted places where it has scores and its means there."""
    n_places = int(place.max()) + 1 if place.size else 1
    groups, group = np.unique(who * n_places + place, return_inverse=True)
    mean = np.bincount(group, weights=value * behind, minlength=groups.size) / np.bincount(
        group, weights=behind, minlength=groups.size
    )
    bounds = np.searchsorted(groups, np.arange(1, n_backbones) * n_places)
    return np.split(groups % n_places, bounds), np.split(mean, bounds)
