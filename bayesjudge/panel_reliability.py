"""How reliable a table's panel is: coefficients, effective judges, Krippendorff's alpha."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from bayesjudge.closed_form.judge_errors import ErrorCorrelations, error_correlations
from bayesjudge.errors import DataError
from bayesjudge.fitted import CI_PROB, Fit
from bayesjudge.planning.reliabilities import reliability
from bayesjudge.ranking import check_probability
from bayesjudge.scores.keys import cell_keys
from bayesjudge.scores.lines import need_rows
from bayesjudge.scores.table import Scores
from bayesjudge.summaries import summarize

if TYPE_CHECKING:
    import pandas as pd

type Floats = NDArray[np.float64]
type Ints = NDArray[np.int64]
type Level = Literal["nominal", "ordinal", "interval", "ratio"]

DRAWS = 1000
MOST_BACKBONES = 100
"""Of more the coefficients take long; ``reliability`` itself has no limit."""
MOST_VALUES = 2000
"""Of more distinct scores Krippendorff's alpha would need a matrix of too many cells."""
MOST_CELLS = 20_000_000
MOST_JUDGES = 60
"""Of more judges the pairs are too many to correlate."""

ASSUMES_OWN = (
    "judges are taken to make errors of their own, most pairs of them: what most of the panel "
    "shares looks like quality (judge-adjusted, not human-anchored)"
)
ANCHORED = "errors are about the human scores (human-anchored)"


@dataclass(frozen=True, eq=False)
class EffectiveJudges:
    """How many independent judges the panel is worth.

    Attributes
    ----------
    judges : tuple of str
    effective, correlation : dict of str to float
        estimate, sd, ci_lower, ci_upper; of K / (1 + (K - 1) r) and of r.
    pairs : DataFrame
        judge, other, estimate, sd, ci_lower, ci_upper: correlation of errors.
    human_anchored : bool
        Whether errors are about human scores.
    note : str
        What the number rests on.
    """

    judges: tuple[str, ...]
    effective: dict[str, float]
    correlation: dict[str, float]
    pairs: pd.DataFrame
    human_anchored: bool
    note: str


@dataclass(frozen=True, eq=False)
class PanelReliability:
    """Reliability of a table.

    Attributes
    ----------
    coefficients : DataFrame or None
        As :func:`bayesjudge.reliability`; None where the model has none.
    effective_judges : EffectiveJudges or None
    krippendorff_alpha : float or None
    alpha_level : str
        ``interval``, or ``nominal`` for verdicts; how alpha counts a disagreement.
    notes : tuple of str
        Why something is missing, and what the others rest on.
    """

    coefficients: pd.DataFrame | None
    effective_judges: EffectiveJudges | None
    krippendorff_alpha: float | None
    alpha_level: str
    notes: tuple[str, ...]


def effective_judges(
    scores: Scores, *, draws: int = DRAWS, random_seed: int = 0, ci_prob: float = CI_PROB
) -> EffectiveJudges:
    """Return K / (1 + (K - 1) r), r the mean correlation of the judges' errors, with intervals.

    Errors are about each answer's quality: about human scores where two scenarios and
    three answers have them, else about what judges share, on the assumption that most
    pairs of judges err independently (:mod:`bayesjudge.closed_form.judge_errors`).
    Intervals are of the Bayesian bootstrap of scenarios.

    Parameters
    ----------
    scores : Scores
    draws : int
    random_seed : int
    ci_prob : float

    Raises
    ------
    DataError
        Where there are too few judges, or they share no answers.
    UsageError
        Where ``ci_prob`` is not between 0 and 1.
    """
    check_probability(ci_prob, "ci_prob")
    if not scores.has("judge") or scores.facet("judge").n_levels < 2:
        raise DataError("the table has one judge only: its errors correlate with nothing")
    n_judges = scores.facet("judge").n_levels
    if n_judges > MOST_JUDGES:
        raise DataError(f"the errors of {n_judges:,} judges are too many to correlate")
    matrix, backbone, scenario, human = judge_matrix(scores)
    rng = np.random.default_rng([random_seed, 11])
    centred = _within(matrix, backbone)
    found: ErrorCorrelations | None = None
    anchored = False
    if human is not None and _enough(human, scenario):
        own = _within(human[:, None], backbone)[:, 0]
        found = error_correlations(centred, scenario, draws, rng, own)
        anchored = found is not None
    if found is None:
        found = error_correlations(centred, scenario, draws, rng)
    if found is None:
        raise DataError(
            "the errors of two judges cannot be told from quality without human scores"
            if matrix.shape[1] == 2
            else "the judges share too few answers, or differ in nothing, to correlate errors",
            scores.source,
            "Give three judges who score the same answers, or a column human_score",
        )
    names = scores.levels("judge")
    return EffectiveJudges(
        judges=names,
        effective=_summary(found.effective, ci_prob),
        correlation=_summary(found.mean, ci_prob),
        pairs=_pairs(found, names, ci_prob),
        human_anchored=anchored,
        note=ANCHORED if anchored else ASSUMES_OWN,
    )


def krippendorff_alpha(scores: Scores, level: Level | None = None) -> float:
    """Return Krippendorff's alpha of the judges over answers, by the package krippendorff.

    Parameters
    ----------
    scores : Scores
    level : {"interval", "nominal", "ordinal", "ratio"}, optional
        By default nominal for scores of two values, else interval.

    Raises
    ------
    DataError
        Where the package is not installed, there is one judge only, all scores are
        equal, or there are too many distinct scores or answers for it.
    """
    if not scores.has("judge") or scores.facet("judge").n_levels < 2:
        raise DataError("Krippendorff's alpha needs two judges")
    n_judges = scores.facet("judge").n_levels
    if n_judges * len(scores) > MOST_CELLS:
        raise DataError(
            f"Krippendorff's alpha is not worked out of {len(scores):,} scores by "
            f"{n_judges:,} judges"
        )
    matrix = judge_matrix(scores)[0]
    values = np.unique(matrix[~np.isnan(matrix)])
    if values.size < 2:
        raise DataError("Krippendorff's alpha is not defined where all scores are equal")
    if values.size > MOST_VALUES or values.size * len(matrix) > MOST_CELLS:
        raise DataError(
            f"Krippendorff's alpha is not worked out of {values.size:,} distinct scores of "
            f"{len(matrix):,} answers",
            remedy="Round the scores",
        )
    if not ((~np.isnan(matrix)).sum(axis=1) > 1).any():
        raise DataError("Krippendorff's alpha needs answers that two judges scored")
    try:
        import krippendorff
    except ImportError as error:
        raise DataError(
            "Krippendorff's alpha needs the package krippendorff",
            remedy="Install bayesjudge[agreement]",
        ) from error
    chosen = level or alpha_level(scores)
    return float(krippendorff.alpha(reliability_data=matrix.T, level_of_measurement=chosen))


def alpha_level(scores: Scores) -> Level:
    """Return how alpha counts disagreements by default: nominal for two values."""
    return "nominal" if np.unique(scores.score).size <= 2 else "interval"


def panel_reliability(fit: Fit, *, ci_prob: float = CI_PROB) -> PanelReliability:
    """Return what is known of a fitted table's reliability; what is not, with its reason.

    Parameters
    ----------
    fit : Fit
    ci_prob : float
    """
    scores = need_rows(fit.scores, "coefficients of reliability")
    notes: list[str] = []
    coefficients, judges, alpha = None, None, None
    if fit.spec.family != "gaussian":
        notes.append("generalizability and dependability are of gaussian models")
    elif len(fit.labels) > MOST_BACKBONES:
        notes.append(
            f"generalizability and dependability of more than {MOST_BACKBONES} backbones: ask "
            "bayesjudge.reliability(fit)"
        )
    else:
        coefficients = reliability(fit, ci_prob=ci_prob)
    seed = fit.metadata["settings"]["random_seed"]
    try:
        judges = effective_judges(scores, random_seed=seed, ci_prob=ci_prob)
        notes.append(f"effective number of judges: {judges.note}")
    except DataError as error:
        notes.append(f"no effective number of judges: {error.what}")
    try:
        alpha = krippendorff_alpha(scores)
    except DataError as error:
        notes.append(f"{error.what}{f' ({error.remedy})' if error.remedy else ''}")
    return PanelReliability(coefficients, judges, alpha, alpha_level(scores), tuple(notes))


def judge_matrix(scores: Scores) -> tuple[Floats, Ints, Ints, Floats | None]:
    """Return scores by answer and judge (A, K), and each answer's backbone, scenario, human score.

    Repeated calls are averaged; nan where a judge did not score an answer. Of battles an
    answer is a battle, and its backbone the two models in their order.
    """
    facets = [f for f in scores.facets if f.name != "judge"]
    codes, sizes = [f.codes for f in facets], [f.n_levels for f in facets]
    backbone, n_backbones = scores.codes("backbone"), scores.facet("backbone").n_levels
    if scores.opponent is not None:
        codes, sizes = [*codes, scores.opponent], [*sizes, n_backbones]
        backbone = backbone * n_backbones + scores.opponent
    key, n = cell_keys(codes, sizes)
    judge = scores.facet("judge")
    shape = (n, judge.n_levels)
    at = key * judge.n_levels + judge.codes
    size = shape[0] * shape[1]
    count = np.bincount(at, minlength=size)
    with np.errstate(invalid="ignore"):
        matrix = (np.bincount(at, scores.score, size) / count).reshape(shape)
    first = np.zeros(n, np.int64)
    first[key[::-1]] = np.arange(len(scores))[::-1]
    scenario = scores.codes("scenario")[first] if scores.has("scenario") else np.arange(n)
    human = None
    if scores.human_score is not None:
        known = ~np.isnan(scores.human_score)
        labels = np.bincount(key[known], minlength=n)
        with np.errstate(invalid="ignore"):
            human = np.bincount(key[known], scores.human_score[known], n) / labels
    return matrix, backbone[first], scenario, human


def _within(values: Floats, backbone: Ints) -> Floats:
    """Take off each column's mean of each backbone."""
    known = ~np.isnan(values)
    out = np.empty_like(values)
    for column in range(values.shape[1]):
        rows = known[:, column]
        n = np.bincount(backbone[rows], minlength=int(backbone.max()) + 1)
        with np.errstate(invalid="ignore"):
            mean = np.bincount(backbone[rows], values[rows, column], n.size) / n
        out[:, column] = values[:, column] - mean[backbone]
    return out


def _enough(human: Floats, scenario: Ints) -> bool:
    known = ~np.isnan(human)
    return int(known.sum()) >= 3 and np.unique(scenario[known]).size >= 2


def _summary(draws: Floats, ci_prob: float) -> dict[str, float]:
    found = summarize(draws[:, None], ci_prob, "estimate")
    return {name: float(values[0]) for name, values in found.items()}


def _pairs(found: ErrorCorrelations, names: tuple[str, ...], ci_prob: float) -> pd.DataFrame:
    import pandas as pd

    j, k = np.triu_indices(len(names), 1)
    columns: dict[str, Any] = {
        "judge": pd.Series([names[i] for i in j], dtype=object),
        "other": pd.Series([names[i] for i in k], dtype=object),
    }
    return pd.DataFrame({**columns, **summarize(found.by_pair[:, j, k], ci_prob, "estimate")})
