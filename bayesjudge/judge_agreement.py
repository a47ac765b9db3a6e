"""How far each judge agrees with human scores, and in which language."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bayesjudge.closed_form.human_labels import MEASURES, GroupAgreement, group_agreement
from bayesjudge.errors import DataError
from bayesjudge.ranking import check_probability
from bayesjudge.scores.keys import cell_keys
from bayesjudge.scores.table import Scores

if TYPE_CHECKING:
    import pandas as pd

type Ints = NDArray[np.int64]

ALL = "(all)"

MEANINGS = (
    "equal: share of scores equal to the human's (accuracy, where both are verdicts)",
    "difference: score less human, on average",
    "correlation: Pearson's",
    "concordance: Lin's; between verdicts of 0 and 1 it is Cohen's kappa",
    "pairs: share of pairs of backbones of a scenario ordered as by the human, ties half",
)
"""What the measures are, for readers."""


def human_agreement(
    scores: Scores,
    *,
    ci_prob: float = 0.95,
    rows: NDArray[np.bool_] | None = None,
) -> pd.DataFrame:
    """Compare each judge's scores with the human's, over all and in each language.

    Parameters
    ----------
    scores : Scores
        With ``human_score``; rows without are left out.
    ci_prob : float
    rows : (N,) bool array, optional
        Which rows count.

    Returns
    -------
    DataFrame
        judge, language (``(all)``, and each one where there are several), measure,
        estimate, ci_lower, ci_upper, n, n_scenarios. Measures: ``equal``, the share of
        scores equal to the human's; ``difference``, score less human on average;
        ``correlation`` (Pearson); ``concordance`` (Lin's; Cohen's kappa where scores are 0
        and 1); ``pairs``, the share of pairs of backbones, of one
        scenario and generation, ordered as by the human (ties of the judge count half,
        pairs that the human ties are left out). Null where undefined. Limits take scenarios
        for independent and nothing else (:mod:`bayesjudge.closed_form.human_labels`).

    Raises
    ------
    DataError
        Where the table has no human scores.
    UsageError
        Where ``ci_prob`` is not between 0 and 1.
    """
    import pandas as pd

    check_probability(ci_prob, "ci_prob")
    known = np.zeros(len(scores), bool)
    if scores.human_score is not None:
        known = ~np.isnan(scores.human_score)
    if rows is not None:
        known = known & rows
    if not known.any() or scores.human_score is None:
        raise DataError("no score has a human score beside it", scores.source)
    facets = {f.name: f for f in scores.facets}
    n = int(known.sum())

    def codes(name: str) -> Ints:
        return facets[name].codes[known] if name in facets else np.zeros(n, np.int64)

    judges = facets["judge"].levels if "judge" in facets else (ALL,)
    languages = facets["language"].levels if "language" in facets else ()
    scenario = codes("scenario") if "scenario" in facets else np.arange(n)
    content = [f for f in scores.facets if f.name not in ("backbone", "judge")]
    block = np.arange(n)
    # A battle's score is of two backbones already.
    if "scenario" in facets and scores.opponent is None:
        block = cell_keys([f.codes[known] for f in content], [f.n_levels for f in content])[0]

    def compared(group: Ints, n_groups: int) -> GroupAgreement:
        return group_agreement(
            scores.score[known],
            np.asarray(scores.human_score)[known],
            group,
            scenario,
            codes("backbone"),
            block,
            n_groups,
            ci_prob,
        )

    parts = [(judges, [ALL] * len(judges), compared(codes("judge"), len(judges)))]
    if len(languages) > 1:
        group = codes("judge") * len(languages) + codes("language")
        parts.append(
            (
                tuple(np.repeat(np.array(judges, object), len(languages))),
                list(languages) * len(judges),
                compared(group, len(judges) * len(languages)),
            )
        )
    frames = []
    for names, tongues, found in parts:
        k = len(MEASURES)
        frames.append(
            pd.DataFrame(
                {
                    "judge": pd.Series([x for x in names for _ in range(k)], dtype=object),
                    "language": pd.Series([x for x in tongues for _ in range(k)], dtype=object),
                    "measure": pd.Series(list(MEASURES) * len(names), dtype=object),
                    "estimate": found.estimate.ravel(),
                    "ci_lower": found.ci_lower.ravel(),
                    "ci_upper": found.ci_upper.ravel(),
                    "n": found.n.ravel(),
                    "n_scenarios": np.repeat(found.n_scenarios, k),
                }
            )
        )
    table = pd.concat(frames, ignore_index=True)
    return table[table["n_scenarios"] > 0].reset_index(drop=True)
