"""Tables that are in memory already, read through Narwhals."""

from __future__ import annotations

import sys
from typing import Any

from bayesjudge.errors import DataError, UsageError
from bayesjudge.scores.raw import Part, RawTable, check_names, make_table


def read_frame(native: Any) -> RawTable:
    """Read a pandas, Polars, PyArrow or DuckDB table, collecting it where lazy.

    Raises
    ------
    DataError
        Where a column name occurs twice, there are no rows, or a lazy query fails.
    UsageError
        Where the object is no table that Narwhals knows.
    """
    import narwhals as nw

    source = f"{type(native).__module__.split('.')[0]} {type(native).__name__}"
    # only these libraries allow a name twice, and Narwhals would refuse in words of its own
    attribute = {"pandas": "columns", "pyarrow": "column_names"}.get(source.split()[0], "")
    check_names(source, [str(name) for name in getattr(native, attribute, ())])
    try:
        frame = nw.from_native(native)
        eager = frame.collect() if isinstance(frame, nw.LazyFrame) else frame
        labels = [str(name) for name in eager.columns]
        parts = [part_of(eager.get_column(name)) for name in eager.columns]
    except TypeError as error:
        raise UsageError(
            f"a {type(native).__name__} is no table that can be read",
            "",
            "Give a path, or a pandas, Polars, PyArrow or DuckDB table",
        ) from error
    except library_errors() as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise DataError(
            f"the table cannot be collected: {reason.rstrip('.')}", source, "Check the query"
        ) from error
    return make_table(source, labels, parts, len(eager))


def part_of(series: Any) -> Part:
    """Turn an eager Narwhals series into a piece of a column, every value as it is."""
    import narwhals as nw

    arrow_safe = series.dtype.is_numeric() or series.dtype in {nw.Boolean, nw.String}
    if series.implementation.is_pandas_like():
        # an object column may hold anything, lone surrogates included
        arrow_safe = arrow_safe and str(series.to_native().dtype) != "object"
    if not arrow_safe:
        return series.to_list()
    import pyarrow as pa

    array = series.to_arrow()
    return array if isinstance(array, pa.ChunkedArray) else pa.chunked_array([array])


def library_errors() -> tuple[type[Exception], ...]:
    """Name the errors of those table libraries that are loaded already."""
    found: list[type[Exception]] = [OSError, ValueError]
    for module, name in (
        ("narwhals", "exceptions.NarwhalsError"),
        ("polars", "exceptions.PolarsError"),
        ("duckdb", "Error"),
        ("pyarrow", "ArrowException"),
        ("pyspark", "errors.PySparkException"),
    ):
        owner: Any = sys.modules.get(module)
        for attribute in name.split("."):
            owner = getattr(owner, attribute, None)
        if isinstance(owner, type) and issubclass(owner, Exception):
            found.append(owner)
    return tuple(found)
