"""Rankings by language: of the means as they are, and of these less the interaction."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from bayesjudge.calibration.calibrating import LABEL_FREE
from bayesjudge.calibration.cells import cells_of_scores
from bayesjudge.calibration.tables import adjusted_table, check_names
from bayesjudge.closed_form.double_centering import interaction
from bayesjudge.errors import BayesjudgeError
from bayesjudge.fitted import Fit
from bayesjudge.report.page.contents import Absent, Languages, Matrix
from bayesjudge.scores.table import Scores

type Floats = NDArray[np.float64]


def languages_of(fit: Fit, order: Sequence[str]) -> Languages | Absent:
    """Return each language's ranking, raw and adjusted (CBC).

    Parameters
    ----------
    fit : Fit
    order : sequence of str
        Backbones, in the order to show them.
    """
    scores = fit.scores
    if not scores.has("language"):
        return Absent("The table has no column for the language.")
    if scores.facet("language").n_levels == 1:
        return Absent("The table has one language only.")
    if isinstance(scores, Scores) and scores.opponent is not None:
        return Absent("Battles are of two backbones, and have no mean of one in a language.")
    try:
        cells = cells_of_scores(scores, "language", "backbone")
        check_names(cells)
        closed = interaction(cells.tasks, errors=False)
    except BayesjudgeError as error:
        return Absent(f"Languages cannot be compared: {error.what}.")
    table = adjusted_table(cells, closed, scores.lower_is_better)
    at = {label: i for i, label in enumerate(order)}
    languages = cells.condition_labels
    codes = np.array([at[label] for label in table["backbone"]])
    row = np.array([languages.index(label) for label in table["language"]])

    def ranks(column: str, name: str) -> Matrix:
        values = np.full((len(order), len(languages)), np.nan)
        values[codes, row] = table[column].to_numpy(float)
        return Matrix(
            name=name,
            rows=tuple(order),
            columns=languages,
            row_name="backbone",
            column_name="language",
            values=values,
            unit="rank in the language",
            kind="rank",
            file="languages.csv",
        )

    return Languages(
        raw=ranks("rank", "Ranks by language, raw"),
        adjusted=ranks("adjusted_rank", "Ranks by language, adjusted"),
        table=table,
        statement=LABEL_FREE,
    )
