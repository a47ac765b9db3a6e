"""From scores to their analysis of variance."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bayesjudge.closed_form.anova import (
    ComponentEstimate,
    Estimates,
    FTest,
    backbone_means,
    component_estimates,
    f_test,
    mean_coefficients,
    pooled_f_test,
    single_coefficients,
    term_effects,
)
from bayesjudge.closed_form.intervals import t_interval
from bayesjudge.closed_form.mean_squares import MeanSquares, mean_squares
from bayesjudge.closed_form.moments_grid import grid_of_moments
from bayesjudge.closed_form.strata import Component, make_grid, panel_factor
from bayesjudge.errors import ModelError, UsageError
from bayesjudge.pairing import refuse_battles
from bayesjudge.ranking import check_probability
from bayesjudge.resolution import Resolved, ResolvedTerm, resolve
from bayesjudge.scores.lines import Table, lines_of, need_rows
from bayesjudge.scores.regrouping import keep_level
from bayesjudge.scores.table import Facet, Scores
from bayesjudge.scores.tallying import Tally
from bayesjudge.spec import ModelSpec, Scale, Term, read_model

if TYPE_CHECKING:
    import pandas as pd

type Floats = NDArray[np.float64]
type Ints = NDArray[np.int64]
type Columns = dict[str, list[Any]]

POOLED = "assumes no scenario:judge"

_COMPONENTS = (
    "term", "variance", "sd", "ci_lower", "ci_upper", "share", "df", "mean_square", "untruncated",
)  # fmt: skip
_TESTS = ("term", "f", "df1", "df2", "p_value", "denominator")
_OFFSETS = ("estimate", "se", "df", "ci_lower", "ci_upper")
_COEFFICIENTS = (
    "term", "variance", "coefficient", "contribution", "coefficient_single", "contribution_single",
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Anova:
    """The analysis of variance of a balanced table.

    Attributes
    ----------
    resolved : Resolved
        The model as it lies on the table.
    scores : Scores or Tally
    ci_prob : float
        Probability of the intervals.
    components : DataFrame
        term, variance, sd, ci_lower, ci_upper (of the variance), share, df,
        mean_square, untruncated. For a term that sums to zero the variance is that of
        the panel's own effects, as in the variance components of a fit.
    f_tests : DataFrame
        term, f, df1, df2, p_value, denominator; CyclicJudge's pooled tests beside
        them, with "(assumes no scenario:judge)" in the term.
    offsets : DataFrame
        term, the panel's facets, estimate, se, df, ci_lower, ci_upper: the effects of
        every term of panel facets; facets that a term lacks are null.
    coefficients : DataFrame
        term, variance, coefficient, contribution: what a component adds to the
        variance of a backbone's mean on this design; the same with ``_single`` for one
        judge and one generation (CyclicJudge, proposition 1 and table 3).
    means : DataFrame
        backbone, mean, se, df, ci_lower, ci_upper, se_own; best first. ``se_own`` rests
        on the backbone's own scores, not on variances common to all.
    expected_mean_squares : DataFrame
        stratum, strata (all that the line pools), df, sum_of_squares, mean_square,
        then one column a component with its coefficient.
    backbone_components, backbone_f_tests, backbone_offsets, backbone_coefficients : DataFrame
        The same with a column ``backbone`` before, from each backbone's scores alone
        (CyclicJudge, equations 20 to 25 and appendix H).
    notes : tuple of str
        What was pooled, averaged or cut off at zero.
    seconds : float
    """

    resolved: Resolved
    scores: Table
    ci_prob: float
    components: pd.DataFrame
    f_tests: pd.DataFrame
    offsets: pd.DataFrame
    coefficients: pd.DataFrame
    means: pd.DataFrame
    expected_mean_squares: pd.DataFrame
    backbone_components: pd.DataFrame
    backbone_f_tests: pd.DataFrame
    backbone_offsets: pd.DataFrame
    backbone_coefficients: pd.DataFrame
    notes: tuple[str, ...]
    seconds: float

    def __repr__(self) -> str:
        return (
            f"Anova of {self.resolved.spec.name} on {len(self.scores)} scores "
            f"of {len(self.scores.levels('backbone'))} backbones"
        )


@dataclass(frozen=True, eq=False)
class _Laid:
    """One table with its model and its mean squares."""

    resolved: Resolved
    table: MeanSquares


def anova(
    scores: Table,
    model: str | Path | ModelSpec = "crossed",
    *,
    ci_prob: float = 0.95,
    by_backbone: bool = True,
) -> Anova:
    """Decompose the variance of a balanced table in closed form.

    Parameters
    ----------
    scores : Scores or Tally
        From :func:`bayesjudge.read_scores` or :func:`bayesjudge.read_tally`: balanced in
        the facets that the model uses.
    model : str, path or ModelSpec
        Says which terms there are and over which facets they sum to zero; its priors
        do not matter. Scales by a facet are replaced by one common scale.
    ci_prob : float
        Probability of the intervals.
    by_backbone : bool
        False leaves the analysis of each backbone by itself out: those frames have no
        rows, and ``se_own`` is null.

    Returns
    -------
    Anova

    Raises
    ------
    DataError
        Where the table is not balanced: the message names the exact engine; or holds battles;
        or where a tally does not carry the model.
    ModelError
        Where the model is not gaussian or has covariates.
    UsageError
        Where ``ci_prob`` is no probability, or ``scores`` are not Scores.
    """
    if not isinstance(scores, (Scores, Tally)):
        raise UsageError(
            f"anova takes Scores, not {type(scores).__name__}",
            remedy="Read the table first: bayesjudge.read_scores(table)",
        )
    refuse_battles(scores, "anova")
    check_probability(ci_prob, "ci_prob")
    started = time.perf_counter()
    spec = model if isinstance(model, ModelSpec) else read_model(model)
    _check_model(spec)
    if scores.facet("backbone").n_levels == 1:
        spec = _without_backbone(spec)
    whole = _lay(spec, scores)
    backbones = scores.levels("backbone")
    behind = _scores_by_backbone(scores)
    alone = {
        label: _lay(_without_backbone(spec), _of_backbone(scores, code))
        for code, label in enumerate(backbones)
        if by_backbone and behind[code] > 1
    }
    return Anova(
        resolved=whole.resolved,
        scores=scores,
        ci_prob=ci_prob,
        components=_frame(_component_columns(whole, ci_prob)),
        f_tests=_frame(_test_columns(whole)),
        offsets=_frame(_offset_columns(whole, ci_prob)),
        coefficients=_frame(_coefficient_columns(whole)),
        means=_means(whole, alone, scores, ci_prob),
        expected_mean_squares=_frame(_expected_columns(whole)),
        backbone_components=_by_backbone(
            {b: _component_columns(laid, ci_prob) for b, laid in alone.items()}, _COMPONENTS
        ),
        backbone_f_tests=_by_backbone({b: _test_columns(x) for b, x in alone.items()}, _TESTS),
        backbone_offsets=_by_backbone(
            {b: _offset_columns(laid, ci_prob) for b, laid in alone.items()}, ("term", *_OFFSETS)
        ),
        backbone_coefficients=_by_backbone(
            {b: _coefficient_columns(laid) for b, laid in alone.items()}, _COEFFICIENTS
        ),
        notes=_notes(whole, component_estimates(whole.table, ci_prob)),
        seconds=time.perf_counter() - started,
    )


def _check_model(spec: ModelSpec) -> None:
    where = f"model {spec.name}"
    if spec.family != "gaussian":
        raise ModelError(
            f"family {spec.family!r} has no analysis of variance", where, "Use a gaussian model"
        )
    if spec.covariates:
        raise ModelError(
            "the analysis of variance takes no covariates", where, "Use bayesjudge rank"
        )


def _lay(spec: ModelSpec, scores: Table) -> _Laid:
    # The unit scales priors only; a fixed one keeps tables of any size out of its checks.
    resolved = resolve(spec, scores, unit=1.0, location=0.0)
    if isinstance(scores, Scores):
        grid = make_grid(scores.score, _facet_codes(resolved))
    else:
        if any("generation" in t.dims and len(t.dims) > 1 for t in resolved.terms):
            need_rows(scores, "terms of generations with other facets")
        grid = grid_of_moments(scores.moments, _facet_codes(resolved), scores.facet_names)
    return _Laid(resolved, mean_squares(grid, tuple(_component(t) for t in resolved.terms)))


def _component(term: ResolvedTerm) -> Component:
    centred = tuple(d for d, zero in zip(term.dims, term.centred, strict=True) if zero)
    return Component(term.name, term.dims, centred)


def _facet_codes(resolved: Resolved) -> dict[str, Ints]:
    """Return the codes of every facet that a term uses, in the order of the labels."""
    codes: dict[str, Ints] = {}
    for term in resolved.terms:
        codes |= zip(term.dims, np.unravel_index(term.codes, term.shape), strict=True)
    named = dict.fromkeys([name for name, _ in resolved.labels if name in codes])
    return {name: codes[name] for name in (*named, *(n for n in codes if n not in named))}


def _without_backbone(spec: ModelSpec) -> ModelSpec:
    """Return the model of one backbone's scores: each term without the backbone, once."""
    terms: dict[frozenset[str], Term] = {}
    for term in sorted(spec.terms, key=lambda t: "backbone" in t.facets):
        facets = tuple(f for f in term.facets if f != "backbone")
        zeros = term.sum_to_zero and tuple(f for f in term.sum_to_zero if f != "backbone")
        if facets:
            terms.setdefault(frozenset(facets), Term(facets, Scale(term.scale.center), zeros))
    residual = None if spec.residual is None else Scale(spec.residual.center)
    return replace(spec, terms=tuple(terms.values()), residual=residual)


def _scores_by_backbone(scores: Table) -> Ints:
    lines = lines_of(scores)
    facet = lines.facets["backbone"]
    return np.bincount(facet.codes, lines.weight, facet.n_levels).astype(np.int64)


def _of_backbone(scores: Table, code: int) -> Table:
    if not isinstance(scores, Scores):
        return keep_level(scores, "backbone", code)
    rows = scores.codes("backbone") == code
    facets = []
    for facet in scores.facets:
        present, codes = np.unique(facet.codes[rows], return_inverse=True)
        levels = tuple(facet.levels[i] for i in present)
        facets.append(Facet(facet.name, facet.role, levels, codes.astype(np.int64)))
    return replace(
        scores,
        score=scores.score[rows],
        facets=tuple(facets),
        human_score=None,
        problems=(),
        failed=None,
    )


def _component_columns(laid: _Laid, ci_prob: float) -> Columns:
    found = component_estimates(laid.table, ci_prob)
    total = sum(c.variance for c in found)
    columns: Columns = {name: [getattr(c, name, None) for c in found] for name in _COMPONENTS}
    columns["sd"] = [float(np.sqrt(c.variance)) for c in found]
    columns["share"] = [c.variance / total if total > 0 else np.nan for c in found]
    return columns


def _test_columns(laid: _Laid) -> Columns:
    tests = [f_test(laid.table, term.name) for term in laid.resolved.terms]
    for term in laid.resolved.terms:
        if "judge" in term.dims and set(term.dims) <= set(laid.resolved.panel):
            pooled = pooled_f_test(laid.table, term.name, laid.resolved.random)
            tests.append(_labelled(pooled))
    return {name: [getattr(test, name) for test in tests] for name in _TESTS}


def _labelled(test: FTest) -> FTest:
    return replace(test, term=f"{test.term} ({POOLED})")


def _offset_columns(laid: _Laid, ci_prob: float) -> Columns:
    resolved, panel = laid.resolved, laid.resolved.panel
    columns: Columns = {name: [] for name in ("term", *panel, *_OFFSETS)}
    labels = dict(resolved.labels)
    for term in resolved.terms:
        if not set(term.dims) <= set(panel):
            continue
        found = term_effects(laid.table, term.name)
        level, first = np.unique(term.codes, return_index=True)
        estimate = found.estimate[laid.table.grid.cell[first]]
        at = dict(zip(term.dims, np.unravel_index(level, term.shape), strict=True))
        for name in panel:
            named = [labels[name][i] for i in at[name]] if name in at else [None] * level.size
            columns[name] += named
        columns["term"] += [term.name] * level.size
        for name, values in _spread(found, estimate, ci_prob).items():
            columns[name] += values
    return columns


def _spread(found: Estimates, estimate: Floats, ci_prob: float) -> Columns:
    se = np.full(estimate.size, found.se)
    lower, upper = t_interval(estimate, se, found.df, ci_prob)
    return {
        "estimate": estimate.tolist(),
        "se": se.tolist(),
        "df": [found.df] * estimate.size,
        "ci_lower": lower.tolist(),
        "ci_upper": upper.tolist(),
    }


def _coefficient_columns(laid: _Laid) -> Columns:
    table = laid.table
    factors = np.array([*(panel_factor(table.grid, c) for c in table.components), 1.0])
    variances = [max(v, 0.0) for v in factors * (table.solution @ table.mean_square)]
    columns: Columns = {name: [] for name in _COEFFICIENTS}
    here, single = mean_coefficients(table) / factors, single_coefficients(table) / factors
    for name, variance, a, b in zip(table.names, variances, here, single, strict=True):
        if name != "backbone":
            row = (name, variance, a, a * variance, b, b * variance)
            for column, value in zip(_COEFFICIENTS, row, strict=True):
                columns[column].append(value)
    return columns


def _means(whole: _Laid, alone: Mapping[str, _Laid], scores: Table, ci_prob: float) -> pd.DataFrame:
    found = backbone_means(whole.table)
    codes, labels = lines_of(scores).facets["backbone"].codes, scores.levels("backbone")
    first = np.unique(codes, return_index=True)[1]
    mean = found.estimate[whole.table.grid.cell[first]]
    spread = _spread(found, mean, ci_prob)
    own = {label: backbone_means(laid.table).se for label, laid in alone.items()}
    columns: Columns = {
        "backbone": list(labels),
        "mean": spread.pop("estimate"),
        **spread,
        "se_own": [own.get(label, np.nan) for label in labels],
    }
    order = np.argsort(mean if scores.lower_is_better else -mean, kind="stable")
    return _frame({name: [values[i] for i in order] for name, values in columns.items()})


def _expected_columns(laid: _Laid) -> Columns:
    table = laid.table
    lines = range(len(table.df))
    columns: Columns = {
        "stratum": [table.line_name(at) for at in lines],
        "strata": [", ".join(s.name for s in pooled) for pooled in table.strata],
        "df": table.df.tolist(),
        "sum_of_squares": (table.df * table.mean_square).tolist(),
        "mean_square": table.mean_square.tolist(),
    }
    return columns | dict(zip(table.names, table.expected.T.tolist(), strict=True))


def _notes(laid: _Laid, found: Sequence[ComponentEstimate]) -> tuple[str, ...]:
    table, resolved = laid.table, laid.resolved
    said = []
    scaled = [t.name for t in resolved.terms if t.scale.by is not None]
    scaled += ["residual"] if resolved.residual_facet is not None else []
    if scaled:
        said.append(
            f"one common (average) variance each for {', '.join(scaled)}, which the model has by "
            "level: tests and intervals are approximate; see the analysis by backbone"
        )
    for at, pooled in enumerate(table.strata):
        if len(pooled) > 1:
            names = ", ".join(stratum.name for stratum in pooled)
            said.append(f"pooled into one mean square, {table.line_name(at)}: {names}")
    if table.overdetermined:
        said.append(
            f"{len(table.df)} mean squares for {len(table.names)} components: least squares "
            "with degrees of freedom as weights"
        )
    below = [f"{c.term} ({c.untruncated:.3g})" for c in found if c.untruncated < 0]
    if below:
        said.append(f"negative estimates, shown as zero: {', '.join(below)}")
    return tuple(said)


def _by_backbone(parts: Mapping[str, Columns], columns: Sequence[str]) -> pd.DataFrame:
    """Stack tables under one another, their backbone first; facets some lack are null."""
    names = list(dict.fromkeys(name for part in parts.values() for name in part)) or list(columns)
    sizes = {b: len(part["term"]) for b, part in parts.items()}
    stacked: Columns = {"backbone": [b for b in parts for _ in range(sizes[b])]}
    for name in names:
        stacked[name] = [v for b, part in parts.items() for v in part.get(name, [None] * sizes[b])]
    return _frame(stacked)


def _frame(columns: Mapping[str, Iterable[Any]]) -> pd.DataFrame:
    import pandas as pd

    return pd.DataFrame({name: _series(list(values)) for name, values in columns.items()})


def _series(values: list[Any]) -> pd.Series[Any]:
    import pandas as pd

    numeric = bool(values) and all(isinstance(value, float) for value in values)
    return pd.Series(values, dtype=float if numeric else object)
