"""Rows that share a cell, and the columns in which they differ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from bayesjudge.scores.checking import count
from bayesjudge.scores.columns import RESERVED
from bayesjudge.scores.keys import cell_keys
from bayesjudge.scores.problems import Problem
from bayesjudge.scores.raw import RawTable

FEW_LEVELS = 50
"""A column of more levels hardly numbers the turns, criteria or repeats of an answer."""

MAX_TRIED = 8
"""Columns that are tried in pairs."""


def check_duplicates(
    table: RawTable,
    rows: NDArray[np.int64],
    facets: Sequence[tuple[str, tuple[str, ...], NDArray[np.int64]]],
    unused: Sequence[str],
    total: tuple[int, int] | None = None,
) -> tuple[Problem, ...]:
    """Find rows that share every facet, and the columns in which they differ.

    Parameters
    ----------
    rows : (N,) int array
        Rows of the table that are used.
    facets : sequence of (name, levels, (N,) codes)
        The facets that make up a cell.
    unused : sequence of str
        Columns that serve nothing.
    total : (number of cells, number of rows), optional
        Of more than one score, where the rows are but some of all.

    Returns
    -------
    tuple of Problem
        One error, or nothing.
    """
    key, n_cells = cell_keys([codes for _, _, codes in facets], [len(lv) for _, lv, _ in facets])
    counts = np.bincount(key, minlength=n_cells)
    if rows.size == n_cells:
        return ()
    shared = np.flatnonzero(counts[key] > 1)
    n_shared, n_rows = total or (int((counts > 1).sum()), int(shared.size))
    _, first = np.unique(key[shared], return_index=True)
    cells = []
    for at in shared[np.sort(first)[:2]]:
        cell = ", ".join(f"{name}={levels[codes[at]]!r}" for name, levels, codes in facets)
        cells.append(f"{cell} ({table.name_rows(rows[np.flatnonzero(key == key[at])])})")
    differing = _differing(table, rows[shared], key[shared], unused)
    if differing:
        best = _explain(differing)
        shown = ", ".join(repr(column.name) for column in differing[:6])
        difference = f"; the rows differ in {shown}{', ...' if len(differing) > 6 else ''}"
        names = " and ".join(repr(column.name) for column in best)
        one = len(best) == 1
        remedy = (
            f"If {names} {'is a facet' if one else 'are facets'} say "
            f"{' '.join(_facet_option(column.name) for column in best)}, "
            f"if {'it numbers' if one else 'one of them numbers'} repeated answers "
            f"--column generation={best[0].name}, to keep one level "
            f"--where {best[0].name}={best[0].label}; "
            "if these are repeated calls say --replicates"
        )
    else:
        difference = "; the rows differ in no other column"
        remedy = "If these are repeated calls say --replicates; otherwise remove the repeats"
    first_name = cells[0] if n_shared == 1 else f"first {'; '.join(cells)}"
    return (
        Problem(
            "error",
            f"{count(n_shared, 'cell has', 'cells have')} more than one score{difference}",
            first_name,
            n_rows,
            remedy,
        ),
    )


@dataclass(frozen=True, eq=False)
class _Differing:
    """A column in which rows of one cell differ.

    Attributes
    ----------
    n_levels : int
        Levels it has among these rows.
    n_left : int
        Rows that still share a cell if the column is made a facet.
    label : str
        One of its labels.
    cell, codes : (N,) int array
        The cell and the column's code of each row.
    """

    name: str
    n_levels: int
    n_left: int
    label: str
    cell: NDArray[np.int64]
    codes: NDArray[np.int64]


def _differing(
    table: RawTable, rows: NDArray[np.int64], key: NDArray[np.int64], unused: Sequence[str]
) -> list[_Differing]:
    """List the columns in which rows of one cell differ, the best explanation first.

    A column explains the better the more cells it resolves, and among equals
    the fewer levels it has: a turn before a timestamp.
    """
    found: list[_Differing] = []
    cell, n_cells = cell_keys([key], [int(key.max()) + 1])
    for name in unused:
        labels = table.columns[name].labels
        codes, n_levels = cell_keys([labels.codes[rows] + 1], [len(labels.levels) + 1])
        if n_levels > 1 and cell_keys([cell, codes], [n_cells, n_levels])[1] > n_cells:
            label = labels.levels[max(int(labels.codes[rows].min()), 0)]
            left = _left([cell, codes], [n_cells, n_levels])
            found.append(_Differing(name, n_levels, left, label, cell, codes))
    return sorted(found, key=lambda column: (column.n_left, column.n_levels, column.name))


def _left(codes: Sequence[NDArray[np.int64]], sizes: Sequence[int]) -> int:
    """Count the rows that share a cell of the crossing with another row."""
    key, n_cells = cell_keys(codes, sizes)
    return int((np.bincount(key, minlength=n_cells)[key] > 1).sum())


def _explain(differing: Sequence[_Differing]) -> list[_Differing]:
    """Choose the column, or the pair of columns, that best tells the rows apart.

    A column of many levels (a count of tokens, a timestamp) tells rows apart
    by chance, so a pair of columns of few levels goes before it.
    """
    few = [column for column in differing if column.n_levels <= FEW_LEVELS][:MAX_TRIED]
    if few and few[0].n_left == 0:
        return few[:1]
    pairs = sorted(
        combinations(few, 2), key=lambda pair: (pair[0].n_levels * pair[1].n_levels, pair[0].name)
    )
    for first, second in pairs:
        sizes = [int(first.cell.max()) + 1, first.n_levels, second.n_levels]
        if _left([first.cell, first.codes, second.codes], sizes) == 0:
            return sorted((first, second), key=lambda column: (column.n_levels, column.name))
    return list(few[:1] or differing[:1])


def _facet_option(column: str) -> str:
    if column.isidentifier() and column.isascii() and column not in RESERVED:
        return f"--facet {column}"
    return f"--facet NAME --column 'NAME={column}'"
