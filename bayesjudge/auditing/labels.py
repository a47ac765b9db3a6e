"""Thresholds by language under wrong language labels: what code-switching buys."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bayesjudge.auditing.acceptance import threshold_at
from bayesjudge.auditing.languages import find_language
from bayesjudge.auditing.table import AuditTable
from bayesjudge.errors import UsageError

type Floats = NDArray[np.float64]
type Ints = NDArray[np.int64]


def language_thresholds(table: AuditTable, quantile: float) -> Floats:
    """Return one judge's threshold in each language, (L,); nan without scores."""
    found = np.full(len(table.languages), np.nan)
    for code in np.unique(table.language):
        found[code] = threshold_at(table.score[table.language == code], quantile)
    return found


def acceptance_under(table: AuditTable, thresholds: Floats) -> Floats:
    """Return the share of each language's scores above each language's threshold.

    Parameters
    ----------
    table : AuditTable
        One judge's rows.
    thresholds : (L,) float array

    Returns
    -------
    (L, L) float array
        Rows: the language it is in; columns: the language it is taken for.
    """
    L = len(table.languages)
    out = np.full((L, L), np.nan)
    for code in np.unique(table.language):
        scores = np.sort(table.score[table.language == code])
        above = scores.size - np.searchsorted(scores, thresholds, side="right")
        out[code] = np.where(np.isfinite(thresholds), above / scores.size, np.nan)
    return out


@dataclass(frozen=True, eq=False)
class Labelled:
    """Acceptance by true language when thresholds follow the labels.

    Attributes
    ----------
    n, mislabelled : (L,) int array
        Rows with a label, and those whose label is another language.
    unknown : (L,) int array
        Mislabelled rows whose label has no threshold: they meet the global one.
    own, labelled : (L,) float array
        Acceptance of all rows with a label under the true language's threshold, and
        under the label's.
    own_mislabelled, labelled_mislabelled : (L,) float array
        The same of mislabelled rows alone.
    """

    n: Ints
    mislabelled: Ints
    unknown: Ints
    own: Floats
    labelled: Floats
    own_mislabelled: Floats
    labelled_mislabelled: Floats


def label_codes(languages: tuple[str, ...], labels: tuple[str, ...]) -> Ints:
    """Return which language each label names, (len(labels),); -1 for none of the table's.

    A label is the language's own or another name of it (``en`` for ``English``).
    """
    position = {name: code for code, name in enumerate(languages)}
    by_code: dict[str, int] = {}
    for code, name in enumerate(languages):
        known = find_language(name)
        if known is not None:
            by_code.setdefault(known.code, code)
    found = []
    for label in labels:
        known = find_language(label)
        other = -1 if known is None else by_code.get(known.code, -1)
        found.append(position.get(label, other))
    return np.array(found, dtype=np.int64)


def under_labels(
    table: AuditTable, label: Ints, has_label: NDArray[np.bool_], thresholds: Floats, other: float
) -> Labelled:
    """Compare acceptance under true and under labelled languages' thresholds.

    Parameters
    ----------
    table : AuditTable
        One judge's rows.
    label : (N,) int array
        Code of the language that each row is taken for; -1 for another language.
    has_label : (N,) bool array
        Rows without are left out.
    thresholds : (L,) float array
    other : float
        Threshold for a label that has none of its own.
    """
    L = len(table.languages)
    known = has_label & np.isfinite(thresholds)[table.language]
    y, true, taken = table.score[known], table.language[known], label[known]
    with_own = np.append(thresholds, np.nan)[taken]
    unknown = ~np.isfinite(with_own)
    own = (y > thresholds[true]).astype(float)
    labelled = (y > np.where(unknown, other, with_own)).astype(float)
    wrong = taken != true
    n = np.bincount(true, minlength=L)
    m = np.bincount(true[wrong], minlength=L)

    def share(values: Floats, rows: NDArray[np.bool_], size: Ints) -> Floats:
        total = np.bincount(true[rows], weights=values[rows], minlength=L)
        return np.where(size > 0, total / np.maximum(size, 1), np.nan)

    every = np.ones(y.size, dtype=bool)
    return Labelled(
        n=n,
        mislabelled=m,
        unknown=np.bincount(true[wrong & unknown], minlength=L),
        own=share(own, every, n),
        labelled=share(labelled, every, n),
        own_mislabelled=share(own, wrong, m),
        labelled_mislabelled=share(labelled, wrong, m),
    )


def identify_languages(texts: tuple[str, ...]) -> tuple[str, ...]:
    """Return the language that py3langid takes each text to be in.

    Raises
    ------
    UsageError
        Where the extra ``lid`` is not installed.
    """
    try:
        import py3langid
    except ImportError as error:
        raise UsageError(
            "a text column is there, but nothing to identify its language with",
            "column text",
            "Install the extra: pip install 'bayesjudge[lid]'; or give a column lid_language, "
            "or say --ignore text",
        ) from error
    return tuple(str(py3langid.classify(text)[0]) for text in texts)
