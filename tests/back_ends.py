"""Frames of every back end, and when two moments are the same."""

from __future__ import annotations

import importlib.util
import shutil
import warnings
from functools import cache

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pytest


def dask_frame(frame):
    import dask.dataframe as dd

    return dd.from_pandas(frame.reset_index(drop=True), npartitions=3)


@cache
def spark():
    from pyspark.sql import SparkSession

    options = {
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.host": "127.0.0.1",
    }
    return SparkSession.builder.master("local[1]").config(map=options).getOrCreate()


BACK_ENDS = {
    "pandas": lambda frame: frame,
    "polars": pl.from_pandas,
    "polars lazy": lambda frame: pl.from_pandas(frame).lazy(),
    "pyarrow": lambda frame: pa.Table.from_pandas(frame, preserve_index=False),
    "duckdb": duckdb.from_df,
    "dask": dask_frame,
    "pyspark": lambda frame: spark().createDataFrame(frame),
}
LAZY = ("polars lazy", "duckdb")
LOCAL = [name for name in BACK_ENDS if name not in ("dask", "pyspark")]


def make(back_end, frame):
    if back_end in ("dask", "pyspark"):
        if importlib.util.find_spec(back_end) is None:
            pytest.skip(f"{back_end} is not installed: uv run --group cluster pytest ...")
        if back_end == "pyspark" and shutil.which("java") is None:
            pytest.skip("pyspark needs Java")
        # Both warn of their own future, and leave sockets to the end of the process.
        warnings.simplefilter("ignore")
    return BACK_ENDS[back_end](frame)


def names_of(frame):
    return {name: name for name in frame.columns}


def close(a, b, size):
    """Equal to 1e-12 of what was summed: sums about a mean may cancel to nothing."""
    np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12 * size)


def check_equal(a, b, rough=None):
    assert (a.blocks, a.cells, a.levels) == (b.blocks, b.cells, b.levels)
    assert a.n_excluded == b.n_excluded
    np.testing.assert_array_equal(a.codes, b.codes)
    np.testing.assert_array_equal(a.count, b.count)
    np.testing.assert_array_equal(a.low, b.low)
    np.testing.assert_array_equal(a.high, b.high)
    size = float(a.squares.sum()) if rough is None else rough
    length = np.sqrt(size * a.n_scores)
    close(a.total, b.total, length)
    close(a.squares, b.squares, size)
    assert (a.generations is None) == (b.generations is None)
    if a.generations is None:
        return
    for name in ("columns", "blocks", "pattern", "number"):
        np.testing.assert_array_equal(getattr(a.generations, name), getattr(b.generations, name))
    close(a.generations.totals, b.generations.totals, length)
    close(a.generations.cell_squares, b.generations.cell_squares, a.n_scores * size)
    close(a.generations.squares, b.generations.squares, a.n_scores * size)
