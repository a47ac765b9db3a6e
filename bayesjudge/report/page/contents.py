"""Everything that a page or a figure shows, as numbers and labels; nothing is drawn here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from bayesjudge.scores.problems import Problem

if TYPE_CHECKING:
    import pandas as pd

type Floats = NDArray[np.float64]
type Row = dict[str, Any]
type Kind = Literal["probability", "signed", "rank"]


def records(table: pd.DataFrame) -> list[Row]:
    """Return the rows of a table, by column."""
    return [{str(k): v for k, v in row.items()} for row in table.to_dict("records")]


@dataclass(frozen=True)
class Absent:
    """A section that does not apply, and why, in one sentence."""

    why: str


@dataclass(frozen=True, eq=False)
class Matrix:
    """Labelled numbers.

    Attributes
    ----------
    name : str
        Of the table, and of the file that holds its numbers.
    rows, columns : tuple of str
    row_name, column_name : str
        What they are.
    values : (n_rows, n_columns) float array
        Null (nan) where there is none.
    unit : str
        What a value is.
    kind : {"probability", "signed", "rank"}
        From 0 to 1; about 0; from 1 (best) upwards.
    marked : tuple of (row, column)
        Cells to point out.
    mark : str
        What these are.
    file : str
        In which the numbers lie.
    """

    name: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    row_name: str
    column_name: str
    values: Floats
    unit: str
    kind: Kind
    marked: tuple[tuple[int, int], ...] = ()
    mark: str = ""
    file: str = ""


@dataclass(frozen=True, eq=False)
class Standing:
    """The leaderboard and what its numbers are.

    Attributes
    ----------
    table : DataFrame
        As :func:`bayesjudge.ranking.leaderboard` returns it.
    best_set : tuple of str
    ci_prob : float
    unit : str
        What a mean is, for axes.
    lower_is_better : bool
    pairwise : DataFrame or None
        P(row beats column).
    """

    table: pd.DataFrame
    best_set: tuple[str, ...]
    ci_prob: float
    unit: str
    lower_is_better: bool
    pairwise: pd.DataFrame | None


@dataclass(frozen=True, eq=False)
class Judges:
    """What judges add to scores.

    Attributes
    ----------
    leniency : DataFrame or Absent
        judge, estimate, sd, ci_lower, ci_upper.
    offsets : Matrix or Absent
        Of a judge on a backbone beyond the judge's leniency and the backbone's mean.
    own : DataFrame or Absent
        Self-preference: judge, backbone, estimate, sd, ci_lower, ci_upper.
    unit : str
    """

    leniency: pd.DataFrame | Absent
    offsets: Matrix | Absent
    own: pd.DataFrame | Absent
    unit: str


@dataclass(frozen=True, eq=False)
class Languages:
    """Rankings by language.

    Attributes
    ----------
    raw, adjusted : Matrix
        Ranks of backbones by language: of the cells' means, and of these less the
        interaction of language and backbone.
    table : DataFrame
        language, backbone, mean, adjusted, rank, adjusted_rank, n_tasks, extrapolated.
    statement : str
        What the adjustment is not.
    """

    raw: Matrix
    adjusted: Matrix
    table: pd.DataFrame
    statement: str


@dataclass(frozen=True, eq=False)
class Components:
    """Variance components, from the posterior and in closed form.

    Attributes
    ----------
    table : DataFrame
        term, variance, sd, ci_lower, ci_upper, share of the posterior; the same with
        ``closed_`` before (null without a closed form), and differs: whether they
        disagree.
    closed : str
        Why there is no closed form; empty where there is one.
    unit : str
    notes : tuple of str
    """

    table: pd.DataFrame
    closed: str
    unit: str
    notes: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Curve:
    """A line with its band.

    Attributes
    ----------
    label : str
    x, y, lower, upper : (n,) float arrays
    """

    label: str
    x: Floats
    y: Floats
    lower: Floats
    upper: Floats


@dataclass(frozen=True, eq=False)
class DesignCurves:
    """A decision study: what other designs of this kind would make of it.

    Attributes
    ----------
    difference : tuple of Curve
        Expected sd of a difference of two backbones against scenarios; a curve a
        number of judges on each answer.
    generalizability, dependability : tuple of Curve
        The coefficients of the same designs.
    now : int
        Scenarios of the table.
    generations : int
        Answers a scenario and backbone of each design.
    unit : str
        Of the sd.
    """

    difference: tuple[Curve, ...]
    generalizability: tuple[Curve, ...]
    dependability: tuple[Curve, ...]
    now: int
    generations: int
    unit: str


@dataclass(frozen=True, eq=False)
class Predicted:
    """Scores seen, and scores that the model would give, of one judge.

    Attributes
    ----------
    label : str
    n_scores : int
    observed : (n_bins,) float array
        Share of the scores in each bin.
    expected, lower, upper : (n_bins,) float arrays
        Mean and interval of the share over draws.
    numbers : dict of str to (observed, expected, lower, upper)
        Of ``mean`` and ``sd``.
    """

    label: str
    n_scores: int
    observed: Floats
    expected: Floats
    lower: Floats
    upper: Floats
    numbers: dict[str, tuple[float, float, float, float]]


@dataclass(frozen=True, eq=False)
class Predictive:
    """Posterior predictive, by judge.

    Attributes
    ----------
    edges : (n_bins + 1,) float array
        The first and last bin are open.
    names : tuple of str
        Of the bins where scores are categories; else empty.
    judges : tuple of Predicted
    draws : int
    ci_prob : float
    facet : str
        ``judge``, or ``all scores``.
    """

    edges: Floats
    names: tuple[str, ...]
    judges: tuple[Predicted, ...]
    draws: int
    ci_prob: float
    facet: str


@dataclass(frozen=True, eq=False)
class Contents:
    """Everything that a page shows of one fit; a section that does not apply says why.

    Attributes
    ----------
    title : str
    alarm : str
        Why the fit is not to be relied on; else empty.
    updated : str
        When the page was made, where that matters; else empty.
    standing : Standing
    ranks : Matrix
        P(backbone has rank), best backbone first.
    pairwise : Matrix or Absent
    differences : DataFrame or Absent
        Of neighbours on the leaderboard.
    judges : Judges or Absent
    languages : Languages or Absent
    components : Components
    design : DesignCurves or Absent
    predictive : Predictive or Absent
    beside : tuple of (heading, DataFrame)
        What stands beside the leaderboard: human-anchored means, agreement with human
        scores, failed scores.
    beside_said : tuple of str
        The same, and reliability, in sentences.
    diagnostics : tuple of (name, value, what it should be)
    checks : DataFrame
    findings, problems : tuple
        Of :class:`bayesjudge.scores.problems.Problem`: about the fit; about the table.
    question, said : tuple of str
        Which question was answered; what was read, left out and assumed.
    command : str
        That gives the same again; empty where there is none.
    references : tuple of str
    version : str
    seed : int
    """

    title: str
    alarm: str
    updated: str
    standing: Standing
    ranks: Matrix
    pairwise: Matrix | Absent
    differences: pd.DataFrame | Absent
    judges: Judges | Absent
    languages: Languages | Absent
    components: Components
    design: DesignCurves | Absent
    predictive: Predictive | Absent
    beside: tuple[tuple[str, pd.DataFrame], ...]
    beside_said: tuple[str, ...]
    diagnostics: tuple[tuple[str, str, str], ...]
    checks: pd.DataFrame
    findings: tuple[Problem, ...]
    problems: tuple[Problem, ...]
    question: tuple[str, ...]
    said: tuple[str, ...]
    command: str
    references: tuple[str, ...]
    version: str
    seed: int
