"""Analysis of variance of a balanced table: components, F-tests, effects, means.

Everything is read off the table of expected mean squares: components solve it, and
each test and each standard error takes the combination of mean squares that has the
expectation it needs.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bayesjudge.closed_form.intervals import (
    NO_INTERVAL,
    Interval,
    chi_squared_interval,
    large_sample_interval,
    panel_interval,
)
from bayesjudge.closed_form.mean_squares import (
    MeanSquares,
    combination,
    error_of,
    in_words,
    mean_squares,
)
from bayesjudge.closed_form.strata import (
    ems_coefficient,
    panel_factor,
    strata_within,
    stratum_df,
    stratum_effects,
)

type Floats = NDArray[np.float64]


@dataclass(frozen=True)
class ComponentEstimate:
    """A variance component.

    Attributes
    ----------
    term : str
    untruncated : float
        The unbiased estimate, which can be negative.
    variance : float
        The same, not below zero.
    ci_lower, ci_upper : float
        See :func:`component_estimates`.
    df, mean_square : float
        Of the term's own line; nan where it has none.
    """

    term: str
    untruncated: float
    variance: float
    ci_lower: float
    ci_upper: float
    df: float
    mean_square: float


@dataclass(frozen=True)
class FTest:
    """A test that a term's variance (or its panel's effects) is zero.

    Attributes
    ----------
    term : str
    f, df1, df2, p_value : float
        nan where nothing measures the error, or the error is zero.
    denominator : str
        What F divides by, in words.
    """

    term: str
    f: float
    df1: float
    df2: float
    p_value: float
    denominator: str


@dataclass(frozen=True, eq=False)
class Estimates:
    """Effects or means with one common standard error.

    Attributes
    ----------
    estimate : float array
    se : float
    df : float
        Degrees of freedom of the standard error; nan where it is zero or unknown.
    """

    estimate: Floats
    se: float
    df: float


def component_estimates(table: MeanSquares, ci_prob: float) -> tuple[ComponentEstimate, ...]:
    """Return the variance components, the residual's last.

    For a term whose effects sum to zero the variance is that of the effects of the
    levels at hand, sum(effect^2) / L, which is sigma^2 prod (1 - 1/L) over the facets
    they sum to zero over (CyclicJudge, equation 25).

    Parameters
    ----------
    table : MeanSquares
    ci_prob : float

    Returns
    -------
    tuple of ComponentEstimate
        Intervals: exact (chi-squared) where the component is one mean square; for a
        term that sums to zero and shows in one line only, those of fixed effects
        (:func:`bayesjudge.closed_form.intervals.panel_interval`); else modified
        large-sample. Like the variance they are cut off at zero.
    """
    found = []
    for at, name in enumerate(table.names):
        panel = at < len(table.components) and bool(table.components[at].centred)
        factor = panel_factor(table.grid, table.components[at]) if panel else 1.0
        weights = factor * table.solution[at]
        value = float(weights @ table.mean_square)
        own = table.line_of(name)
        lower, upper = _interval(table, at, weights, panel, ci_prob)
        found.append(
            ComponentEstimate(
                term=name,
                untruncated=value,
                variance=max(value, 0.0),
                ci_lower=lower,
                ci_upper=upper,
                df=float(table.df[own]) if own >= 0 else math.nan,
                mean_square=float(table.mean_square[own]) if own >= 0 else math.nan,
            )
        )
    return tuple(found)


def f_test(table: MeanSquares, name: str) -> FTest:
    """Test one term, against what its mean square expects without it.

    Where no single mean square has that expectation a sum of several is taken, with
    Satterthwaite's degrees of freedom; those it would subtract are added to the
    numerator instead, so that neither can be negative (Cochran 1951).
    """
    own = table.line_of(name)
    error = error_of(table, name)
    if error is None:
        df1 = float(table.df[own])
        return FTest(name, math.nan, df1, math.nan, math.nan, "none: no error is measured")
    above = np.where(error.weights < 0, -error.weights, 0.0)
    above[own] = 1.0
    top = combination(table, above)
    bottom = combination(table, np.where(error.weights > 0, error.weights, 0.0))
    words = in_words(table, bottom.weights)
    if np.count_nonzero(above) > 1:
        words = f"{words}; numerator {in_words(table, above)}"
    if not bottom.value > 0:
        return FTest(name, math.nan, top.df, bottom.df, math.nan, words)
    from scipy.special import fdtrc

    f = top.value / bottom.value
    # Too small for a number is not nought.
    tiny = float(np.finfo(float).tiny)
    p = max(float(fdtrc(top.df, bottom.df, f)), tiny) if top.value > 0 else 1.0
    return FTest(name, f, top.df, bottom.df, p, words)


def pooled_f_test(table: MeanSquares, name: str, random: Collection[str]) -> FTest:
    """Test a term as if no random facet interacted with its facets.

    Parameters
    ----------
    table : MeanSquares
    name : str
        A term of panel facets.
    random : collection of str
        Random facets; terms that hold one of them and a facet of ``name`` other than
        the backbone are left out, so that their strata join the residual.

    Returns
    -------
    FTest
        For a table of one backbone and the term ``judge`` the F of CyclicJudge,
        appendix H.
    """
    facets = set(table.components[table.names.index(name)].facets) - {"backbone"}
    kept = tuple(
        c for c in table.components if not (facets & set(c.facets) and set(random) & set(c.facets))
    )
    return f_test(mean_squares(table.grid, kept), name)


def term_effects(table: MeanSquares, name: str) -> Estimates:
    """Estimate the effects of a term in every cell of the grid.

    Returns
    -------
    Estimates
        ``estimate`` has one effect a cell, flat. The standard error is about the
        effects of these very levels: its variance is the error's mean square times
        (degrees of freedom of the term) / N.
    """
    at, own = table.names.index(name), table.line_of(name)
    component, grid = table.components[at], table.grid
    within = grid.closure(component.facets)
    strata = [s for s in table.strata[own] if within.issuperset(s.facets)]
    total = np.zeros(grid.mean.shape)
    for stratum in strata:
        total = total + stratum_effects(grid, stratum.facets)
    error = error_of(table, name)
    if error is None or error.value < 0:
        return Estimates(total.ravel(), math.nan, math.nan)
    variance = error.value * sum(s.df for s in strata) / grid.n_scores
    return Estimates(total.ravel(), math.sqrt(variance), error.df)


def mean_coefficients(table: MeanSquares) -> Floats:
    """Return the contribution of each component to the variance of a backbone's mean.

    Returns
    -------
    (T + 1,) float array
        Var(mean) = sum of these times the components, over new draws of the random
        facets and the same panel; 0 for the backbone's own term. CyclicJudge,
        proposition 1, derived for any design: a backbone's mean lies in the strata
        within the backbone's facets, the grand mean's among them, and the variance
        of its part in each is lambda times degrees of freedom / N.
    """
    grid = table.grid
    coefficients = np.zeros(len(table.names))
    for facets in strata_within(grid, _backbone(table)):
        df = stratum_df(grid, facets)
        for at, component in enumerate(table.components):
            if component.facets != ("backbone",):
                coefficients[at] += df * ems_coefficient(grid, component, facets)
        coefficients[-1] += df
    return coefficients / grid.n_scores


def single_coefficients(table: MeanSquares) -> Floats:
    """Return the same for one judge, one generation and one level of every other facet.

    The scenarios are all those of the table. CyclicJudge's default operating point, m =
    K = 1: 1/n for scenario, generation and residual, and for a judge drawn from the
    panel the whole variance of the panel's offsets (table 3).
    """
    grid = table.grid
    known = {*grid.names, *dict(grid.other_names)}
    averaged = grid.closure({"scenario"} & known)

    def shrunk(facets: Collection[str]) -> float:
        return 1 / math.prod(grid.sizes[grid.axis(f)] for f in averaged & set(facets))

    coefficients = [
        0.0
        if component.facets == ("backbone",) or averaged & set(component.centred)
        else panel_factor(grid, component) * shrunk(grid.closure(component.facets))
        for component in table.components
    ]
    return np.array([*coefficients, shrunk(grid.names)])


def backbone_means(table: MeanSquares) -> Estimates:
    """Estimate the panel mean of the backbone of every cell of the grid.

    Returns
    -------
    Estimates
        ``estimate`` has one mean a cell, flat. The variance is the combination of
        mean squares that expects ``mean_coefficients``. Where that is not positive
        although a component is, the truncated components take its place, with the
        fewest degrees of freedom of the mean squares involved.
    """
    grid = table.grid
    means = np.zeros(grid.mean.shape)
    for facets in strata_within(grid, _backbone(table)):
        means = means + stratum_effects(grid, facets)
    means = means.ravel()
    target = mean_coefficients(table)
    found = combination(table, target @ table.solution)
    if found.value > 0:
        return Estimates(means, math.sqrt(found.value), found.df)
    components = np.maximum(table.solution @ table.mean_square, 0.0)
    used = np.abs(target @ table.solution) > 0
    variance = float(target @ components)
    df = float(table.df[used].min()) if variance > 0 else math.nan
    return Estimates(means, math.sqrt(variance), df)


def _backbone(table: MeanSquares) -> frozenset[str]:
    """Return the facets that a backbone's label fixes; none where there is one backbone."""
    grid = table.grid
    return grid.closure({"backbone"} & {*grid.names, *dict(grid.other_names)})


def _interval(
    table: MeanSquares, at: int, weights: Floats, panel: bool, ci_prob: float
) -> Interval:
    used = np.flatnonzero(weights)
    if used.size == 1:
        line = used[0]
        value = float(weights[line] * table.mean_square[line])
        return chi_squared_interval(value, float(table.df[line]), ci_prob)
    own = table.line_of(table.names[at])
    if panel and np.count_nonzero(table.expected[:, at]) == 1 and table.expected[own, at]:
        error = error_of(table, table.names[at])
        if error is None:
            return NO_INTERVAL
        ss = float(table.mean_square[own] * table.df[own])
        lower, upper = panel_interval(ss, float(table.df[own]), error.value, error.df, ci_prob)
        return lower / table.grid.n_scores, upper / table.grid.n_scores
    return large_sample_interval(weights, table.mean_square, table.df, ci_prob)
