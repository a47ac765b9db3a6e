"""Moments by group-by through Narwhals: eager frames, lazy ones, databases, clusters.

Only row-wise columns followed by plain sums, lengths, minima and maxima are asked
of a back end: windows, sums of expressions and counts of distinct values fail or
are wrong on some (Dask's ``n_unique``). Rows never leave it; groups do.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayesjudge.errors import DataError, UsageError
from bayesjudge.scores.frames import library_errors, part_of
from bayesjudge.scores.moments import Generations, Moments, owners_of_generation, split_facets
from bayesjudge.scores.raw import Column, is_valid_text, text_of

type Floats = NDArray[np.float64]
type Ints = NDArray[np.int64]

_GENERATION = "generation"

ROWS_AT_ONCE = 20_000_000
"""Rows among which generations are summed in one pass: as many groups at most, 1 GB of them."""


class NoUsableRowError(DataError):
    """No row has a usable score and all its labels, of as many as were looked at."""

    def __init__(self, n_rows: int) -> None:
        super().__init__("no row has a usable score and all its labels")
        self.n_rows = n_rows


def take_moments(
    source: Any,
    columns: Mapping[str, str],
    blocks: Sequence[str] | None = None,
    cells: Sequence[str] | None = None,
    location: float | None = None,
) -> Moments:
    """Take the moments of a frame where it is: the mean, the cells, the generations.

    Generations are groups almost as many as rows, so that more than ``ROWS_AT_ONCE``
    rows are gone through in several passes, each over a range of blocks.

    Parameters
    ----------
    source : frame
        Any that Narwhals knows, eager or lazy: pandas, Polars, PyArrow, a DuckDB
        relation, Dask, PySpark.
    columns : mapping of str to str
        Role to column: ``score`` and every facet of the table, ``generation``
        among them where there is one.
    blocks, cells : sequence of str, optional
        As in ``moments.split_facets``. Facets in neither are summed over.
    location : float, optional
        Taken off every score before it is summed. Default: the mean.

    Returns
    -------
    Moments
        Equal to those of the table in memory. Rows without a finite score or
        without one of their labels are left out and counted.

    Raises
    ------
    DataError
        Where a column is missing, the scores are no numbers or their squares
        overflow, labels are no text or a list, no row is left, or the query fails.
    UsageError
        Where the source is no frame, or facets are named wrongly.
    """
    if "score" not in columns:
        raise UsageError("no column was named for the score", "", "Give columns['score']")
    facets = tuple(name for name in columns if name != "score")
    blocks, cells = split_facets(facets, blocks, cells)
    return _take(_prepare(source, columns), facets, blocks, cells, location)


def distinct_levels(source: Any, column: str) -> tuple[tuple[str, ...], Ints]:
    """Find the labels of a column, and how many rows bear each.

    Parameters
    ----------
    source : frame
        As in ``take_moments``.
    column : str

    Returns
    -------
    tuple of L str
        Sorted by code point.
    (L,) int array

    Raises
    ------
    DataError
        Where the column is missing or holds no labels.
    """
    import narwhals as nw

    frame = _prepare(source, {"facet": column}).filter(nw.col("usable_facet"))
    found = collect(frame.group_by("facet").agg(nw.len().alias("n")))
    levels, (codes,) = _code(found, ("facet",))
    return levels[0], np.bincount(codes, _numbers(found, "n"), len(levels[0])).astype(np.int64)


def count_distinct(source: Any, columns: Sequence[str]) -> int:
    """Count the combinations of labels that occur, by a group-by and the length of it.

    Parameters
    ----------
    source : frame
        As in ``take_moments``.
    columns : sequence of str
        Rows that lack one of their labels do not count.

    Raises
    ------
    DataError
        Where a column is missing or holds no labels.
    """
    import narwhals as nw

    names = {f"facet{i}": column for i, column in enumerate(columns)}
    frame = _prepare(source, names)
    for name in names:
        frame = frame.filter(nw.col(f"usable_{name}"))
    groups = frame.group_by(*names).agg(nw.len().alias("n"))
    return int(_numbers(collect(groups.select(nw.len().alias("n"))), "n")[0])


def usable_rows(source: Any, columns: Mapping[str, str], *, usable: bool) -> Any:
    """Keep the rows that moments are taken of, or the others, with all their columns.

    Parameters
    ----------
    source, columns
        As in ``take_moments``.
    usable : bool

    Returns
    -------
    Narwhals frame
    """
    import narwhals as nw

    frame: Any = nw.from_native(source)
    schema = frame.collect_schema()
    test = nw.lit(True)
    for role, column in columns.items():
        value = nw.col(column).cast(nw.Float64) if role == "score" else nw.col(column)
        test = test & _is_usable(role, value, schema[column])
    return frame.filter(test if usable else ~test)


def _prepare(source: Any, columns: Mapping[str, str]) -> Any:
    """Select the columns under the names of their roles, and say which values are usable."""
    import narwhals as nw

    try:
        frame: Any = nw.from_native(source)
    except TypeError as error:
        raise UsageError(
            f"a {type(source).__name__} is no frame that moments can be taken of",
            "",
            "Give a pandas, Polars, PyArrow, DuckDB, Dask or PySpark frame",
        ) from error
    schema = frame.collect_schema()
    missing = [column for column in columns.values() if column not in schema]
    if missing:
        raise DataError(
            f"there is no column {missing[0]!r}", "", f"Columns are {', '.join(schema.names())}"
        )
    frame = _spell_objects(frame, [c for c in columns.values() if schema[c] == nw.Object])
    schema = frame.collect_schema()
    frame = frame.select(
        *(_typed(role, column, schema[column]) for role, column in columns.items())
    )
    schema = frame.collect_schema()
    return frame.with_columns(
        *(_is_usable(role, nw.col(role), schema[role]).alias(f"usable_{role}") for role in columns)
    )


def _spell_objects(frame: Any, columns: Sequence[str]) -> Any:
    """Write columns of anything as text, label by label, as reading a table does.

    Equal keys of two types (1, 1.0 and True) would otherwise fall together.
    """
    import narwhals as nw

    for column in columns:
        if isinstance(frame, nw.LazyFrame):
            raise _no_labels(column)
        labels = Column((frame.get_column(column).to_list(),)).labels
        if labels.nested or not all(map(is_valid_text, labels.levels)):
            raise _no_labels(column)
        texts = [None if code < 0 else labels.levels[code] for code in labels.codes]
        spelt = nw.new_series(column, texts, nw.String, backend=frame.implementation)
        frame = frame.with_columns(spelt)
    return frame


def _typed(role: str, column: str, dtype: Any) -> Any:
    """Give a column its role's name, and a type that every back end can work on."""
    import narwhals as nw

    value = nw.col(column)
    if role == "score":
        if not (dtype.is_numeric() or dtype == nw.Boolean):
            raise DataError(
                f"the score column holds {dtype}, not numbers",
                f"column {column!r}",
                "Cast it, or read the table with read_scores",
            )
        value = value.cast(nw.Float64)
    elif dtype.is_nested() or dtype == nw.Object:
        raise _no_labels(column)
    elif dtype in (nw.Categorical, nw.Enum):
        value = value.cast(nw.String)
    return value.alias(role)


def _is_usable(role: str, value: Any, dtype: Any) -> Any:
    if role == "score":
        # Null first: a comparison with it is neither true nor false.
        return ~value.is_null() & value.is_finite()
    if dtype.is_float():
        return ~value.is_null() & ~value.is_nan()
    return ~value.is_null()


def _no_labels(column: str) -> DataError:
    return DataError(
        f"the column {column!r} holds values of which no label can be made",
        "",
        "Give text, integers or categories",
    )


def _take(
    frame: Any,
    facets: tuple[str, ...],
    blocks: tuple[str, ...],
    cells: tuple[str, ...],
    location: float | None,
) -> Moments:
    import narwhals as nw

    usable = nw.col("usable_score")
    for name in facets:
        usable = usable & nw.col(f"usable_{name}")
    frame = frame.with_columns(usable.alias("usable"))
    kept = frame.filter(nw.col("usable")).select("score", *facets)
    n_rows = _numbers(collect(frame.select(nw.len().alias("n"))), "n")[0]
    if location is None:
        head = collect(kept.select(nw.col("score").sum().alias("sum"), nw.len().alias("n")))
        total, n_kept = (_numbers(head, name)[0] for name in ("sum", "n"))
        location = float(total / n_kept) if n_kept else 0.0
    if not math.isfinite(location):
        raise DataError("the sum of the scores overflows", "", "Give the scores in a larger unit")
    kept = kept.with_columns((nw.col("score") - location).alias("y"))
    kept = kept.with_columns((nw.col("y") * nw.col("y")).alias("yy"))
    names = (*blocks, *cells)
    found = collect(
        kept.group_by(*names).agg(
            nw.len().alias("n"),
            nw.col("y").sum().alias("total"),
            nw.col("yy").sum().alias("squares"),
            nw.col("score").min().alias("low"),
            nw.col("score").max().alias("high"),
        )
    )
    count = _numbers(found, "n").astype(np.int64)
    if not count.size:
        raise NoUsableRowError(int(n_rows))
    levels, codes = _code(found, names)
    order = np.lexsort(codes[::-1])
    sums = {n: _numbers(found, n)[order] for n in ("total", "squares", "low", "high")}
    if not np.isfinite(sums["squares"]).all():
        raise DataError("the squares of the scores overflow", "", "Give them in a larger unit")
    generations = None
    if _GENERATION in facets:
        values = {name: _typed_values(found, name) for name in cells}
        table = np.column_stack([codes[len(blocks) + i] for i in range(len(cells))] or [codes[0]])
        columns = np.unique(table, axis=0) if cells else np.zeros((1, 0), np.int64)
        parts = _ranges(_typed_values(found, blocks[0]), np.bincount(codes[0], count))
        taken = [
            _take_generations(
                _between(kept, blocks[0], part), facets, blocks, cells, columns, values
            )
            for part in parts
        ]
        generations = _put_together(taken, levels[: len(blocks)])
    return Moments(
        location=location,
        n_excluded=int(n_rows) - int(count.sum()),
        blocks=blocks,
        cells=cells,
        levels=levels,
        codes=np.column_stack(codes)[order],
        count=count[order],
        generations=generations,
        **sums,
    )


def _ranges(values: Sequence[Any], rows: Floats) -> list[tuple[Any, Any] | None]:
    """Part the labels of a facet into ranges of at most ``ROWS_AT_ONCE`` rows, if they can be."""
    if rows.sum() <= ROWS_AT_ONCE:
        return [None]
    order = sorted(range(len(values)), key=lambda i: values[i])
    start = np.cumsum(rows[order]) - rows[order]
    ranges = []
    first = 0
    for i in range(1, len(order) + 1):
        over = i < len(order) and start[i] + rows[order[i]] - start[first] > ROWS_AT_ONCE
        if over or i == len(order):
            ranges.append((values[order[first]], values[order[i - 1]]))
            first = i
    return list(ranges)


def _between(kept: Any, name: str, ends: tuple[Any, Any] | None) -> Any:
    import narwhals as nw

    if ends is None:
        return kept
    return kept.filter((nw.col(name) >= ends[0]) & (nw.col(name) <= ends[1]))


type _Taken = tuple[tuple[tuple[str, ...], ...], Generations]


def _put_together(taken: Sequence[_Taken], levels: Sequence[tuple[str, ...]]) -> Generations:
    """Stack generations of different blocks, coding blocks by the labels of them all."""
    coded = []
    for own, part in taken:
        places = [
            np.array([{label: i for i, label in enumerate(every)}[label] for label in some])
            for some, every in zip(own, levels, strict=True)
        ]
        coded.append([place[part.blocks[:, i]] for i, place in enumerate(places)])
    blocks = np.concatenate([np.column_stack(own) for own in coded])
    parts = [part for _, part in taken]
    pattern = np.concatenate([part.pattern for part in parts])
    order = np.lexsort([*blocks.T, *pattern.T][::-1])
    return Generations(
        columns=parts[0].columns,
        blocks=blocks[order],
        pattern=pattern[order],
        number=np.concatenate([part.number for part in parts])[order],
        totals=np.concatenate([part.totals for part in parts])[order],
        cell_squares=np.concatenate([part.cell_squares for part in parts])[order],
        squares=np.concatenate([part.squares for part in parts])[order],
    )


def _take_generations(
    kept: Any,
    facets: tuple[str, ...],
    blocks: tuple[str, ...],
    cells: tuple[str, ...],
    columns: Ints,
    values: Mapping[str, tuple[object, ...]],
) -> _Taken:
    """Sum within each generation, a column a cell, then over generations of one pattern."""
    import narwhals as nw

    at = range(len(columns))
    for c in at:
        here = nw.lit(True)
        for name, code in zip(cells, columns[c], strict=True):
            here = here & (nw.col(name) == values[name][code])
        kept = kept.with_columns(
            nw.when(here).then(nw.lit(1.0)).otherwise(nw.lit(0.0)).alias(f"i{c}")
        )
    kept = kept.with_columns(*((nw.col("y") * nw.col(f"i{c}")).alias(f"y{c}") for c in at))
    groups = kept.group_by(*owners_of_generation(facets, blocks), _GENERATION).agg(
        nw.col("y").sum().alias("sum"),
        *(nw.col(f"i{c}").sum().alias(f"n{c}") for c in at),
        *(nw.col(f"y{c}").sum().alias(f"sum{c}") for c in at),
    )
    groups = groups.with_columns(
        (nw.col("sum") * nw.col("sum")).alias("square"),
        *((nw.col(f"sum{c}") * nw.col(f"sum{c}")).alias(f"square{c}") for c in at),
        # Keys are integers: not every back end groups by floats.
        *(nw.col(f"n{c}").cast(nw.Int64).alias(f"n{c}") for c in at),
    )
    found = collect(
        groups.group_by(*blocks, *(f"n{c}" for c in at)).agg(
            nw.len().alias("number"),
            nw.col("square").sum().alias("squares"),
            *(nw.col(f"sum{c}").sum().alias(f"total{c}") for c in at),
            *(nw.col(f"square{c}").sum().alias(f"squares{c}") for c in at),
        )
    )
    levels, codes = _code(found, blocks)
    return levels, Generations(
        columns=columns,
        blocks=np.column_stack(codes),
        pattern=np.column_stack([_numbers(found, f"n{c}").astype(np.int64) for c in at]),
        number=_numbers(found, "number").astype(np.int64),
        totals=np.column_stack([_numbers(found, f"total{c}") for c in at]),
        cell_squares=np.column_stack([_numbers(found, f"squares{c}") for c in at]),
        squares=_numbers(found, "squares"),
    )


def collect(frame: Any) -> Any:
    """Bring groups into memory.

    Raises
    ------
    DataError
        Where the back end fails.
    """
    import narwhals as nw

    if not isinstance(frame, nw.LazyFrame):
        return frame
    try:
        return frame.collect()
    except library_errors() as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise DataError(
            f"the moments cannot be taken: {reason.rstrip('.')}", "", "Check the query"
        ) from error


def _numbers(found: Any, name: str) -> Floats:
    return np.asarray(found.get_column(name).to_numpy(), np.float64)


def _code(found: Any, names: Sequence[str]) -> tuple[tuple[tuple[str, ...], ...], tuple[Ints, ...]]:
    """Code columns of labels, each into its labels sorted by code point.

    Raises
    ------
    DataError
        Where one of the labels is no valid text.
    """
    read = [Column((part_of(found.get_column(name)),)).labels for name in names]
    for name, labels in zip(names, read, strict=True):
        wrong = [label for label in labels.levels if not is_valid_text(label)]
        if wrong:
            raise DataError(
                f"the label {wrong[0]!a} of {name} holds a NUL or is not valid Unicode text",
                "",
                "Write it again",
            )
    return tuple(labels.levels for labels in read), tuple(labels.codes for labels in read)


def _typed_values(found: Any, name: str) -> tuple[object, ...]:
    """Return the values of a column in the order of their labels, typed as they came."""
    values = Column((part_of(found.get_column(name)),)).coded.values
    return tuple(sorted(values, key=lambda value: text_of(value) or ""))
