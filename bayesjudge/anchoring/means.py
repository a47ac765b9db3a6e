"""Human-anchored means: what humans would have said, from their labels and the panel."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bayesjudge.anchoring.answers import Answers, answers_of
from bayesjudge.anchoring.calibrating import Block, Calibrated, Labels, calibrate_to_labels
from bayesjudge.closed_form.prediction_powered import powered_mean
from bayesjudge.errors import DataError, UsageError
from bayesjudge.families import response_location, response_unit
from bayesjudge.fitted import CI_PROB, Fit
from bayesjudge.panel_readings import panel_means
from bayesjudge.ranking import check_probability
from bayesjudge.ranking import leaderboard as ranked
from bayesjudge.scores.lines import need_rows
from bayesjudge.scores.problems import Problem
from bayesjudge.summaries import summarize

if TYPE_CHECKING:
    import pandas as pd

type Floats = NDArray[np.float64]
type Ints = NDArray[np.int64]
type Bools = NDArray[np.bool_]

LEAST_LABELS = 3
SHARE_OUTSIDE = 0.2
"""Share of a backbone's answers beyond the labelled range above which it is said."""
BAD_K = 0.7


@dataclass(frozen=True, eq=False)
class Anchored:
    """Means that human labels anchor.

    Attributes
    ----------
    labels : tuple of str
        Backbones that have one, as ``draws`` has its columns.
    draws : (n_draws, B') float array
        Human-anchored means.
    refused : dict of str to str
        Backbone to the reason why it has none.
    answers : Answers
    calibrated : Calibrated
    ci_prob : float
    lower_is_better : bool
    powered : DataFrame
        backbone, estimate, se, ci_lower, ci_upper, power, n_labelled, n_others: the
        prediction-powered means.
    offsets : DataFrame
        backbone, estimate, sd, ci_lower, ci_upper: human mean less panel mean.
    notes : tuple of str
    findings : tuple of Problem
    """

    labels: tuple[str, ...]
    draws: Floats
    refused: dict[str, str]
    answers: Answers
    calibrated: Calibrated
    ci_prob: float
    lower_is_better: bool
    powered: pd.DataFrame
    offsets: pd.DataFrame
    notes: tuple[str, ...]
    findings: tuple[Problem, ...]

    def leaderboard(self, *, rope: float = 0.0) -> pd.DataFrame:
        """Return one row a backbone, best first, with the columns of ``Fit.leaderboard``.

        Raises
        ------
        DataError
            Where fewer than one backbone has a human-anchored mean.
        """
        if not self.labels:
            raise DataError("no backbone has a human-anchored mean", remedy=_told(self.refused))
        return ranked(
            self.draws,
            self.labels,
            ci_prob=self.ci_prob,
            rope=rope,
            lower_is_better=self.lower_is_better,
        )

    @property
    def n_labelled(self) -> int:
        """Answers with a human score."""
        return int(self.answers.labelled.sum())


def human_anchored(
    fit: Fit,
    *,
    unit: float | None = None,
    location: float | None = None,
    ci_prob: float = CI_PROB,
    random_seed: int | None = None,
) -> Anchored:
    """Anchor the backbones' means to human scores of some answers.

    The human is a fixed reference outside the panel, with an offset of its own for each
    backbone: a human-anchored mean is the backbone's panel mean plus that offset. The
    offsets come from labelled answers by a regression on the panel's mean score
    (:mod:`bayesjudge.anchoring.calibrating`), whose uncertainty the intervals carry.
    Labels must be a random sample of the table's answers: what makes answers labelled
    must not depend on scores.

    Parameters
    ----------
    fit : Fit
        Of a table with ``human_score``, partly empty; of any family.
    unit : float, optional
        Of human scores, for the priors (STATISTICS section 2); by default a quarter of the
        table's scale, or the sd of the labels to one digit.
    location : float, optional
        Prior mean of the human's offset; by default 0 where labels lie in the range of the
        panel's scores, else the difference of both locations.
    ci_prob : float
    random_seed : int, optional
        By default the fit's.

    Returns
    -------
    Anchored
        Backbones or whole tables outside the labelled range are refused, saying why.

    Raises
    ------
    DataError
        Where there is no ``human_score``, or too few labels to say anything: fewer than
        three answers or two scenarios.
    UsageError
        Where ``ci_prob`` is not between 0 and 1, or the unit is not positive.
    """
    check_probability(ci_prob, "ci_prob")
    if unit is not None and not 0 < unit < np.inf:
        raise UsageError(f"unit is {unit!r}", "unit", "Give a positive number")
    scores = need_rows(fit.scores, "human-anchored means")
    if scores.human_score is None:
        raise DataError(
            "the table has no human scores",
            fit.scores.source,
            "Give a column human_score (empty where there is none), or map one with "
            "--column human_score=COLUMN",
        )
    if scores.opponent is not None:
        raise DataError(
            "human outcomes of battles anchor no mean: they are of two backbones at once",
            "column human_score",
            "Give the human as one more judge, or rank the human's battles alone",
        )
    answers = answers_of(fit)
    if fit.spec.is_latent:
        answers = _complete(answers)
    rows = answers.labelled
    n, units = int(rows.sum()), np.unique(answers.scenario[rows]).size
    if n < LEAST_LABELS or units < 2:
        raise DataError(
            f"{n} labelled answers of {units} scenarios anchor nothing",
            "column human_score",
            f"Label at least {LEAST_LABELS} answers of two scenarios, better 20",
        )
    refused = _refusals(fit, answers)
    means = panel_means(fit)
    seed = fit.metadata["settings"]["random_seed"] if random_seed is None else random_seed
    rng = np.random.default_rng([seed, 7])
    centre, cells = _centres(answers)
    predictors = _predictors(answers, answers.panel - centre[answers.cell])
    labels = _labels(fit, answers, centre[answers.cell], predictors, unit, location)
    calibrated = calibrate_to_labels(labels, len(means), rng)
    middle = _by_backbone(centre, cells, len(fit.labels))
    beyond = means - middle
    shared = beyond.mean(axis=1, keepdims=True) if predictors.shape[1] == 2 else 0.0
    between, within = calibrated.slope[:, :1], calibrated.slope[:, -1:]
    line = between * shared + within * (beyond - shared)
    anchored = middle + _offset_draws(fit, answers, calibrated) + line
    kept = np.array([name not in refused for name in fit.labels])
    names = tuple(name for name in fit.labels if name not in refused)
    return Anchored(
        labels=names,
        draws=anchored[:, kept],
        refused=refused,
        answers=answers,
        calibrated=calibrated,
        ci_prob=ci_prob,
        lower_is_better=fit.scores.lower_is_better,
        powered=_powered(fit.labels, answers, ci_prob),
        offsets=_offset_table(names, (anchored - means)[:, kept], ci_prob),
        notes=_notes(fit, answers, calibrated, labels),
        findings=_findings(fit, answers, calibrated, refused),
    )


def _complete(answers: Answers) -> Answers:
    """Forget labels of answers that not all judges scored: no effect of theirs is known."""
    whole = answers.n_judges == answers.n_judges.max()
    return replace(answers, human=np.where(whole, answers.human, np.nan))


def _predictors(answers: Answers, beyond: Floats) -> Floats:
    """Return each answer's scenario mean and what it is beyond it, (A, 2); or itself, (A, 1)."""
    n = np.bincount(answers.scenario)
    mean = np.bincount(answers.scenario, beyond) / np.maximum(n, 1)
    within = beyond - mean[answers.scenario]
    if not (np.abs(within) > 1e-9 * max(1.0, float(np.abs(beyond).max()))).any():
        return beyond[:, None]
    return np.column_stack([mean[answers.scenario], within])


def _labels(
    fit: Fit,
    answers: Answers,
    centre: Floats,
    predictors: Floats,
    unit: float | None,
    location: float | None,
) -> Labels:
    rows = answers.labelled
    human = answers.human[rows]
    scale = fit.scores.scale
    if scale is not None and (human.min() < scale[0] or human.max() > scale[1]):
        scale = None
    unit = response_unit(human, scale) if unit is None else float(unit)
    own = response_unit(answers.panel, fit.scores.scale)
    if location is None:
        inside = answers.panel.min() - unit <= human.mean() <= answers.panel.max() + unit
        location = 0.0
        if not inside:
            location = response_location(human, scale, unit) - response_location(
                answers.panel, fit.scores.scale, own
            )
    b = len(fit.labels)
    backbone = answers.backbone[rows]
    blocks = [Block(backbone, b, 0.5)]
    for facet in answers.others:
        codes = facet.codes[rows]
        blocks.append(Block(codes, facet.n_levels, 1.0))
        blocks.append(Block(backbone * facet.n_levels + codes, b * facet.n_levels, 0.5))
    return Labels(
        human=human - centre[rows],
        panel=predictors[rows],
        blocks=tuple(blocks),
        scenario=answers.scenario[rows],
        group=answers.scenario[rows] * b + backbone,
        unit=unit,
        location=float(location),
        slope=unit / own,
    )


def _centres(answers: Answers) -> tuple[Floats, Ints]:
    """Return each cell's mean panel score, and the backbone of each cell."""
    n = int(answers.cell.max()) + 1
    size = np.bincount(answers.cell, minlength=n)
    backbone = np.zeros(n, np.int64)
    backbone[answers.cell] = answers.backbone
    return np.bincount(answers.cell, answers.panel, n) / np.maximum(size, 1), backbone


def _by_backbone(values: Floats, owner: Ints, n: int) -> Floats:
    return np.bincount(owner, values, n) / np.bincount(owner, minlength=n)


def _offset_draws(fit: Fit, answers: Answers, calibrated: Calibrated) -> Floats:
    """Return the human's offset of each backbone over the panel's cells, (n_draws, B)."""
    b = len(fit.labels)
    offset = calibrated.offset[:, None] + calibrated.blocks[0]
    for facet, (own, both) in zip(
        answers.others,
        zip(calibrated.blocks[1::2], calibrated.blocks[2::2], strict=True),
        strict=True,
    ):
        offset = offset + own.mean(axis=1, keepdims=True)
        offset = offset + both.reshape(len(both), b, facet.n_levels).mean(axis=2)
    return np.asarray(offset)


def _offset_table(names: tuple[str, ...], draws: Floats, ci_prob: float) -> pd.DataFrame:
    import pandas as pd

    numbers = summarize(draws, ci_prob, "estimate")
    return pd.DataFrame({"backbone": pd.Series(list(names), dtype=object), **numbers})


def _refusals(fit: Fit, answers: Answers) -> dict[str, str]:
    """Return which backbones lie outside what labels reach, and why."""
    rows = answers.labelled
    for facet in answers.others:
        bare = sorted(set(range(facet.n_levels)) - set(facet.codes[rows].tolist()))
        if bare:
            names = ", ".join(facet.levels[i] for i in bare)
            why = f"no answer in {facet.name} {names} is labelled, and the mean is over all"
            return dict.fromkeys(fit.labels, why)
    low, high = answers.panel[rows].min(), answers.panel[rows].max()
    out = {}
    for b, name in enumerate(fit.labels):
        own = answers.backbone == b
        if not (own & rows).any():
            out[name] = "none of its answers is labelled"
        elif not low <= np.median(answers.panel[own]) <= high:
            out[name] = (
                f"half of its answers and more have panel scores outside {low:.4g} to {high:.4g}, "
                "the range of the labelled ones"
            )
    return out


def _powered(names: tuple[str, ...], answers: Answers, ci_prob: float) -> pd.DataFrame:
    import pandas as pd

    rows: list[dict[str, Any]] = []
    for b, name in enumerate(names):
        own = answers.backbone == b
        labelled, y, f, rest = _by_scenario(answers, own)
        row: dict[str, Any] = {"backbone": name, "n_labelled": labelled, "n_others": rest.size}
        if labelled >= 2:
            found = powered_mean(y, f, rest, ci_prob)
            row |= {
                k: getattr(found, k) for k in ("estimate", "se", "ci_lower", "ci_upper", "power")
            }
        rows.append(row)
    columns = ("estimate", "se", "ci_lower", "ci_upper", "power")
    return pd.DataFrame(
        {
            "backbone": pd.Series([row["backbone"] for row in rows], dtype=object),
            **{k: pd.Series([row.get(k, np.nan) for row in rows], dtype=float) for k in columns},
            **{k: [int(row[k]) for row in rows] for k in ("n_labelled", "n_others")},
        }
    )


def _by_scenario(answers: Answers, own: Bools) -> tuple[int, Floats, Floats, Floats]:
    """Average a backbone's answers by scenario: labels and panel there; panel elsewhere."""
    scenario = answers.scenario[own]
    known = answers.labelled[own]
    unit, at = np.unique(scenario, return_inverse=True)
    n = np.bincount(at, known, unit.size)
    has = n > 0
    y = np.bincount(at[known], answers.human[own][known], unit.size)[has] / n[has]
    f = np.bincount(at[known], answers.panel[own][known], unit.size)[has] / n[has]
    every = np.bincount(at, answers.panel[own], unit.size) / np.bincount(at)
    return int(has.sum()), y, f, every[~has]


def _notes(fit: Fit, answers: Answers, calibrated: Calibrated, labels: Labels) -> tuple[str, ...]:
    n, total = int(answers.labelled.sum()), answers.human.size
    said = [
        f"human-anchored: {n:,} of {total:,} answers have a human score ({n / total:.0%}); the "
        "human is a reference outside the panel, with an offset for each backbone",
        "the labelled answers are taken for a random sample of all; the means are of new "
        "scenarios, whatever scenarios the leaderboard is about",
        "human scores rise with one point of the panel's mean by "
        + " and ".join(
            f"{slope.mean():.2f} (sd {slope.std():.2f}){where}"
            for slope, where in zip(calibrated.slope.T, _where(calibrated), strict=True)
        ),
        f"priors of the human's offsets in units of {labels.unit:g}, about {labels.location:+g}",
        "prediction-powered means: PPI++ with scenarios as units and t-intervals, implemented "
        "here; no prior and no pooling of backbones",
    ]
    if answers.others:
        names = " and ".join(f.name for f in answers.others)
        said.append(
            f"prediction-powered means average each scenario's answers as they are labelled, not "
            f"over {names} alike"
        )
    if answers.n_uneven:
        said.append(
            f"{answers.n_uneven:,} answers have several human scores that differ: their mean counts"
        )
    if fit.spec.is_latent and answers.n_judges.min() < answers.n_judges.max():
        said.append("labels of answers that not every judge scored are not used")
    return tuple(said)


def _where(calibrated: Calibrated) -> tuple[str, ...]:
    two = calibrated.slope.shape[1] == 2
    return (" between scenarios", " within them") if two else ("",)


def _findings(
    fit: Fit, answers: Answers, calibrated: Calibrated, refused: dict[str, str]
) -> tuple[Problem, ...]:
    found = []
    if refused:
        found.append(
            Problem(
                "warning",
                f"no human-anchored mean, that would be extrapolation: {_told(refused)}",
                "column human_score",
                remedy="Label a random sample of all answers",
            )
        )
    rows = answers.labelled
    low, high = answers.panel[rows].min(), answers.panel[rows].max()
    for b, name in enumerate(fit.labels):
        own = answers.panel[answers.backbone == b]
        share = float(np.mean((own < low) | (own > high)))
        if name not in refused and share > SHARE_OUTSIDE:
            found.append(
                Problem(
                    "warning",
                    f"{share:.0%} of the answers of {name} have panel scores outside {low:.4g} to "
                    f"{high:.4g}, the range of the labelled ones",
                    "column human_score",
                )
            )
    if not calibrated.pareto_k <= BAD_K:
        found.append(
            Problem(
                "warning",
                f"the draws of the human's offsets cannot be relied on (Pareto k "
                f"{calibrated.pareto_k:.2f})",
                "human-anchored means",
            )
        )
    return tuple(found)


def _told(refused: dict[str, str]) -> str:
    reasons: dict[str, list[str]] = {}
    for name, why in refused.items():
        reasons.setdefault(why, []).append(name)
    return "; ".join(f"{', '.join(names)}: {why}" for why, names in reasons.items())
