"""Sums by key as Parquet: labels in dictionaries, a checksum a page.

Columns of sums have a point in their names, which no facet's has.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bayesjudge.errors import DataError
from bayesjudge.score_store.durable import write_durably
from bayesjudge.scores.key_sums import KeySums

_SUMS = ("count", "mean", "spread", "low", "high")
SUFFIX = ".parquet"


def write_segment(path: Path, sums: KeySums) -> None:
    """Write sums as one file, whole or not at all.

    Raises
    ------
    OSError
        Where the disk does not take it.
    """
    import pyarrow as pa
    from pyarrow import parquet

    columns = {
        name: pa.DictionaryArray.from_arrays(
            pa.array(sums.codes[:, axis], pa.int32()), pa.array(sums.levels[axis], pa.string())
        )
        for axis, name in enumerate(sums.names)
    }
    columns |= {f"score.{name}": pa.array(getattr(sums, name)) for name in _SUMS}
    table = pa.table(columns)
    write_durably(
        path,
        lambda partial: parquet.write_table(
            table, partial, compression="zstd", write_page_checksum=True
        ),
    )


def read_segment(path: Path, names: tuple[str, ...], n_keys: int) -> KeySums:
    """Read back what :func:`write_segment` wrote.

    Parameters
    ----------
    path : Path
    names : tuple of str
        Facets that it has to have.
    n_keys : int
        Keys that it has to hold.

    Raises
    ------
    FileNotFoundError
        Where it is gone, as when others have put segments together meanwhile.
    DataError
        Where it is damaged, or another file than was written.
    """
    import pyarrow as pa
    from pyarrow import parquet

    try:
        table = parquet.read_table(
            path, page_checksum_verification=True, read_dictionary=list(names), partitioning=None
        )
        wanted = [*names, *(f"score.{name}" for name in _SUMS)]
        if table.column_names != wanted:
            held = ", ".join(
                name for name in table.column_names if name not in wanted[len(names) :]
            )
            raise _damaged(path, f"its facets are {held}, not {', '.join(names)}")
        if table.num_rows != n_keys:
            raise _damaged(path, f"it holds {table.num_rows:,} keys, not {n_keys:,}")
        levels, codes = zip(*(_labels(table.column(name)) for name in names), strict=True)
        sums = {
            name: table.column(f"score.{name}").combine_chunks().to_numpy(zero_copy_only=False)
            for name in _SUMS
        }
    except FileNotFoundError:
        raise
    except (OSError, pa.ArrowException) as error:
        raise _damaged(path, str(error).splitlines()[0]) from error
    return KeySums(names, tuple(levels), np.column_stack(codes), **sums)


def _labels(column: object) -> tuple[tuple[str, ...], NDArray[np.int64]]:
    import pyarrow as pa

    assert isinstance(column, pa.ChunkedArray)  # noqa: S101
    whole = column.unify_dictionaries().combine_chunks()
    return tuple(whole.dictionary.to_pylist()), whole.indices.to_numpy().astype(np.int64)


def _damaged(path: Path, why: str) -> DataError:
    return DataError(
        f"a file of the store is damaged: {why}",
        str(path),
        "Put it back from a copy, or append the sources to a new store",
    )
