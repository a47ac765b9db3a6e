"""Answers that judges and humans scored: one row an answer, as arrays."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bayesjudge.fitted import Fit
from bayesjudge.scores.keys import cell_keys
from bayesjudge.scores.lines import need_rows
from bayesjudge.scores.table import Facet, Scores

type Floats = NDArray[np.float64]
type Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Answers:
    """What the panel and the human gave to each answer.

    Attributes
    ----------
    panel : (A,) float array
        Mean over judges of the scores, what judges differ by taken off where they
        are not the same for all answers.
    human : (A,) float array
        Mean human score; nan where there is none.
    backbone, scenario : (A,) int array
        Codes; without scenarios every answer is its own.
    cell : (A,) int array
        Backbone and the levels of the other panel facets (languages) as one code.
    others : tuple of Facet
        Those facets, their codes one an answer.
    n_judges : (A,) int array
        Judges that scored it.
    n_uneven : int
        Answers whose rows hold different human scores.
    """

    panel: Floats
    human: Floats
    backbone: Ints
    scenario: Ints
    cell: Ints
    others: tuple[Facet, ...]
    n_judges: Ints
    n_uneven: int

    @property
    def labelled(self) -> NDArray[np.bool_]:
        """Which answers have a human score, (A,)."""
        return ~np.isnan(self.human)


def answers_of(fit: Fit) -> Answers:
    """Gather the rows of each answer: all facets but the judge name it.

    Effects of judges (``judge``, ``backbone:judge``, ...) are taken off each score at
    their posterior mean, less their mean over the panel; a panel that scored every
    answer is so left as it is. Families with a link have no such effects on the score
    scale: their scores are averaged as they are.
    """
    scores = need_rows(fit.scores, "answers and their human scores")
    adjusted = scores.score - _judge_effects(fit)
    facets = [f for f in scores.facets if f.name != "judge"]
    key, n = cell_keys([f.codes for f in facets], [f.n_levels for f in facets])
    if not scores.has("scenario"):
        # Nothing tells one answer from another but its row.
        key, n = np.arange(len(scores)), len(scores)
    judge = scores.codes("judge") if scores.has("judge") else np.zeros(len(scores), np.int64)
    first = np.zeros(n, np.int64)
    first[key[::-1]] = np.arange(len(scores))[::-1]
    human, n_uneven = _human_of(scores, key, n)
    others = tuple(
        Facet(f.name, f.role, f.levels, f.codes[first])
        for f in scores.facets
        if f.role == "panel" and f.name not in ("backbone", "judge") and f.n_levels > 1
    )
    backbone = scores.codes("backbone")[first]
    levels = [backbone, *(f.codes for f in others)]
    cell = cell_keys(levels, [len(fit.labels), *(f.n_levels for f in others)])[0]
    scenario = scores.codes("scenario")[first] if scores.has("scenario") else np.arange(n)
    pairs, n_pairs = cell_keys([key, judge], [n, int(judge.max()) + 1])
    owner = np.zeros(n_pairs, np.int64)
    owner[pairs] = key
    of_judge = np.bincount(pairs, adjusted, n_pairs) / np.bincount(pairs, minlength=n_pairs)
    n_judges = np.bincount(owner, minlength=n)
    return Answers(
        panel=np.bincount(owner, of_judge, n) / n_judges,
        human=human,
        backbone=backbone,
        scenario=scenario,
        cell=cell,
        others=others,
        n_judges=n_judges,
        n_uneven=n_uneven,
    )


def _human_of(scores: Scores, key: Ints, n: int) -> tuple[Floats, int]:
    """Return each answer's mean human score, and how many answers hold different ones."""
    given = np.full(len(scores), np.nan) if scores.human_score is None else scores.human_score
    known = ~np.isnan(given)
    value, at = given[known], key[known]
    count = np.bincount(at, minlength=n)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.bincount(at, value, n) / count
    low, high = np.full(n, np.inf), np.full(n, -np.inf)
    np.minimum.at(low, at, value)
    np.maximum.at(high, at, value)
    return np.where(count > 0, mean, np.nan), int(np.count_nonzero(high > low))


def _judge_effects(fit: Fit) -> Floats:
    """Return what the judge of each score adds beyond the panel's mean, (N,)."""
    added = np.zeros(len(fit.scores))
    if fit.spec.family not in ("gaussian", "student_t"):
        return added
    levels = {f.name for f in fit.scores.facets if f.role == "panel"} | {"judge"}
    for term in fit.resolved.terms:
        if "judge" in term.dims and set(term.dims) <= levels:
            mean = fit.effects(term.name)["estimate"].to_numpy().reshape(term.shape)
            mean = mean - mean.mean(axis=term.dims.index("judge"), keepdims=True)
            added += mean.ravel()[term.codes]
    return added
