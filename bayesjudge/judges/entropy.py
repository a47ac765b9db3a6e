"""Semantic entropy of repeated verdicts: how unsure a judge is, without token probabilities.

Several answers to one call are grouped by what they mean, and the entropy is of the groups
(Kuhn et al. 2023; Lower-Resource, Higher Scores, table 2 and appendix C.3, which samples
five). Here the meaning of a judgment is its score or verdict: two judgments of one score
are one group, whatever their reasons say.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence

from bayesjudge.errors import DataError

SAMPLES = 5
"""How often the paper samples a judgment."""


def semantic_entropy(values: Iterable[Hashable | None]) -> float:
    """Return the Shannon entropy, in nats, of how samples divide over values.

    Missing values (None) are left out.

    Returns
    -------
    float
        0 where all are the same, at most ln(n); nan of fewer than two values.
    """
    counts = Counter(value for value in values if value is not None)
    n = counts.total()
    if n < 2:
        return math.nan
    return math.fsum(c / n * math.log(n / c) for c in counts.values())


def entropy_columns(
    columns: Mapping[str, Sequence[object]],
    *,
    sample: str = "call",
    dropped: Sequence[str] = ("nll", "failure"),
) -> dict[str, list[object]]:
    """Return one row a cell of a score table with several samples a cell.

    Parameters
    ----------
    columns : mapping of str to sequence
        With ``score`` (None where it is missing) and the column of samples; all other
        columns, the dropped apart, tell cells apart.
    sample : str
        The column that numbers the samples.
    dropped : sequence of str
        Columns that are of single samples and not kept.

    Returns
    -------
    dict of str to list
        The labels; ``score``, the mean of the valid samples, None where there is none;
        ``n_samples``, how many are valid; ``semantic_entropy``, None of fewer than two.
        `bayesjudge audit` takes it with ``--column nll=semantic_entropy``.

    Raises
    ------
    DataError
        Where a column is missing, or no cell has two valid samples.
    """
    for name in ("score", sample):
        if name not in columns:
            raise DataError(
                f"there is no column {name!r}",
                remedy="Score each answer several times, as with --repeats 5",
            )
    labels = [name for name in columns if name not in ("score", sample, *dropped)]
    cells: dict[tuple[object, ...], list[object]] = {}
    rows = zip(*(columns[name] for name in labels), columns["score"], strict=True)
    for *label, score in rows:
        cells.setdefault(tuple(label), []).append(score)
    scores = [[float(str(s)) for s in found if s is not None] for found in cells.values()]
    if not any(len(valid) > 1 for valid in scores):
        raise DataError(
            "no answer has two valid scores of one judge",
            remedy="Score each answer several times, as with --repeats 5",
        )
    entropies = [semantic_entropy(valid) for valid in scores]
    found: dict[str, list[object]] = {
        name: [cell[at] for cell in cells] for at, name in enumerate(labels)
    }
    found["score"] = [math.fsum(v) / len(v) if v else None for v in scores]
    found["n_samples"] = [len(valid) for valid in scores]
    found["semantic_entropy"] = [None if math.isnan(e) else e for e in entropies]
    return found
