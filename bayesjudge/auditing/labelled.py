"""Agreement of judges with human scores, by language, as tables with names."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bayesjudge.auditing.answer import Section, Settings
from bayesjudge.judge_agreement import ALL, MEANINGS, human_agreement
from bayesjudge.scores.table import Scores


def describe_human_agreement(
    scores: Scores, rows: NDArray[np.bool_], settings: Settings
) -> Section | str:
    """Return how far each judge agrees with human scores, over all and by language.

    Parameters
    ----------
    scores : Scores
    rows : (N,) bool array
        Those that the other analyses see.
    settings : Settings
    """
    if scores.human_score is None:
        return "the table has no column human_score"
    if not (~np.isnan(scores.human_score) & rows).any():
        return "no score has a human score beside it"
    table = human_agreement(
        scores,
        ci_prob=settings.ci_prob,
        rows=rows,
    )
    whole = table["language"] == ALL
    return Section(
        "human_agreement",
        {
            "by_judge": table[whole].drop(columns="language").reset_index(drop=True),
            "by_language": table[~whole].reset_index(drop=True),
        },
        (
            "; ".join(MEANINGS),
            "intervals take scenarios for independent, and nothing within them",
        ),
        (),
        ("by_judge",),
    )
