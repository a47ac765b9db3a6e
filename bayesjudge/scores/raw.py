"""Columns as they came from a source, before anybody says what they mean."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayesjudge.errors import DataError
from bayesjudge.scores.problems import Problem

type Part = Any
"""A piece of one column: a ``pyarrow.ChunkedArray`` or a list of Python values."""

MISSING_CODE = -1


@dataclass(frozen=True, eq=False)
class Coded:
    """A column as codes into its distinct values.

    Attributes
    ----------
    codes : (N,) int array
        Index into ``values``; -1 where the source holds a true null.
    values : tuple of object
        Distinct values as the source typed them, in order of appearance.
    """

    codes: NDArray[np.int64]
    values: tuple[object, ...]

    def of(self, rows: NDArray[np.int64]) -> Coded:
        """Return the column of these rows, with their own values only where rows are few."""
        codes, present = _narrowed(self.codes[rows], len(self.values))
        if present is None:
            return Coded(codes, self.values)
        return Coded(codes, tuple(self.values[code] for code in present))


@dataclass(frozen=True, eq=False)
class Labels:
    """A column read as text.

    Attributes
    ----------
    codes : (N,) int array
        Index into ``levels``; -1 where there is no label.
    levels : tuple of str
        Distinct labels, sorted by code point.
    nested : bool
        Some value is a list or a mapping, of which no label can be made.
    """

    codes: NDArray[np.int64]
    levels: tuple[str, ...]
    nested: bool

    def of(self, rows: NDArray[np.int64]) -> Labels:
        """Return the column of these rows, with their own levels only where rows are few."""
        codes, present = _narrowed(self.codes[rows], len(self.levels))
        if present is None:
            return Labels(codes, self.levels, self.nested)
        return Labels(codes, tuple(self.levels[code] for code in present), self.nested)


@dataclass(frozen=True, eq=False)
class Column:
    """One column of a source, in one piece a file; worked on only when asked for."""

    parts: tuple[Part, ...]

    @cached_property
    def coded(self) -> Coded:
        """Distinct values and codes, the same value in two parts sharing a code."""
        pieces = [_encode(part) for part in self.parts]
        if len(pieces) == 1:
            return pieces[0]
        values: list[object] = []
        index: dict[object, int] = {}
        codes: list[NDArray[np.int64]] = []
        for piece in pieces:
            lookup = _register(piece.values, index, values)
            codes.append(_look_up(piece.codes, lookup))
        return Coded(np.concatenate(codes), tuple(values))

    @cached_property
    def labels(self) -> Labels:
        """The column as text labels, byte for byte; integers as ``str`` writes them."""
        coded = self.coded
        texts = [text_of(value) for value in coded.values]
        levels = tuple(sorted({text for text in texts if text is not None}))
        position = {text: i for i, text in enumerate(levels)}
        lookup = np.array(
            [MISSING_CODE if text is None else position[text] for text in texts], dtype=np.int64
        )
        nested = any(is_nested(value) for value in coded.values)
        return Labels(_look_up(coded.codes, lookup), levels, nested)


@dataclass(frozen=True, eq=False)
class RawTable:
    """A source's columns.

    Attributes
    ----------
    source : str
        Name for messages: a path, or the kind of frame.
    columns : dict of str to Column
        In the source's order.
    parts : tuple of (str, int)
        Name and number of rows of each file, in order.
    problems : tuple of Problem
        What was lost or assumed on reading.
    """

    source: str
    columns: dict[str, Column]
    parts: tuple[tuple[str, int], ...]
    problems: tuple[Problem, ...] = ()

    @property
    def n_rows(self) -> int:
        """Number of rows over all parts."""
        return sum(rows for _, rows in self.parts)

    def row_name(self, row: int) -> str:
        """Name the data row at this 0-based position for a message, counting from 1."""
        if len(self.parts) == 1:
            return str(row + 1)
        for name, rows in self.parts:
            if row < rows:
                return f"{row + 1} of {name}"
            row -= rows
        raise IndexError(row)

    def name_rows(self, rows: Iterable[int], most: int = 5) -> str:
        """Name the first few rows: ``rows 3, 8, 9 and 4 more``."""
        listed = list(rows)
        shown = ", ".join(self.row_name(int(row)) for row in listed[:most])
        more = f" and {len(listed) - most} more" if len(listed) > most else ""
        return f"{'row' if len(listed) == 1 else 'rows'} {shown}{more}"


def make_table(source: str, names: Sequence[str], parts: Sequence[Part], n_rows: int) -> RawTable:
    """Build a table of one part.

    Raises
    ------
    DataError
        On a column name that occurs twice or is no valid text, and on no rows.
    """
    check_names(source, names)
    if n_rows == 0:
        raise DataError("the table has a header but no rows", source, "Give it one row per score")
    columns = {name: Column((part,)) for name, part in zip(names, parts, strict=True)}
    return RawTable(source, columns, ((source, n_rows),))


def check_names(source: str, names: Sequence[str]) -> None:
    """Refuse column names that cannot be told apart or cannot be printed.

    Raises
    ------
    DataError
        On the first such name.
    """
    seen: set[str] = set()
    for name in names:
        if not is_valid_text(name):
            raise DataError(
                f"the column name {name!a} holds a NUL or is not valid Unicode text",
                source,
                "Rename the column",
            )
        if name in seen:
            raise DataError(
                f"the column name {name!r} occurs more than once",
                source,
                "Rename or drop one of the two columns",
            )
        seen.add(name)


def concatenate(source: str, tables: Sequence[RawTable]) -> RawTable:
    """Stack tables whose columns are the same, in whatever order.

    Raises
    ------
    DataError
        Where a table lacks a column of the first or has another.
    """
    first = tables[0]
    if len(tables) == 1:
        return first
    for table in tables[1:]:
        lacking = [name for name in first.columns if name not in table.columns]
        extra = [name for name in table.columns if name not in first.columns]
        if lacking or extra:
            differences = [f"lacks {', '.join(map(repr, lacking))}"] if lacking else []
            differences += [f"adds {', '.join(map(repr, extra))}"] if extra else []
            raise DataError(
                f"the columns of {table.source} differ from those of {first.source}: "
                f"it {' and '.join(differences)}",
                source,
                "Give files of the same columns, or name fewer files",
            )
    columns = {
        name: Column(tuple(part for table in tables for part in table.columns[name].parts))
        for name in first.columns
    }
    return RawTable(
        source,
        columns,
        tuple(part for table in tables for part in table.parts),
        tuple(problem for table in tables for problem in table.problems),
    )


def plain_name(name: str) -> str:
    """Write a column's name as synonyms are: lower case, with underscores."""
    return re.sub(r"[\s\-]+", "_", name.strip()).lower()


def is_valid_text(text: str) -> bool:
    """Whether text can be a label: it holds no NUL and no lone surrogate."""
    if "\0" in text:
        return False
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def is_nested(value: object) -> bool:
    """Whether a value is a list, a mapping or an array, of which no label can be made."""
    return isinstance(value, list | tuple | dict | set | np.ndarray)


def text_of(value: object) -> str | None:
    """Write a value as a label; None where it is a float's nan, which labels nothing."""
    if isinstance(value, str):
        return value
    if isinstance(value, float):
        return repr(value) if value == value else None
    if isinstance(value, bytes):
        # surrogates mark the undecodable bytes, and labels that hold them are refused
        return value.decode(errors="surrogateescape")
    return str(value)


def _narrowed(
    codes: NDArray[np.int64], n_values: int
) -> tuple[NDArray[np.int64], NDArray[np.int64] | None]:
    """Return codes into the values that occur, and which these are; None for all of them.

    One of many parts of a table must not cost what the table holds.
    """
    if codes.size >= n_values:
        return codes, None
    present, among = np.unique(codes, return_inverse=True)
    if present.size and present[0] == MISSING_CODE:
        present, among = present[1:], among - 1
    return among.astype(np.int64), present


def _look_up(codes: NDArray[np.int64], lookup: NDArray[np.int64]) -> NDArray[np.int64]:
    """Translate codes, where -1 stays -1."""
    return np.append(lookup, MISSING_CODE)[codes]


def _register(
    new: Iterable[object], index: dict[object, int], values: list[object]
) -> NDArray[np.int64]:
    """Give each new value its code, adding to ``index`` and ``values`` where unseen."""
    codes: list[int] = []
    for value in new:
        key = _key(value)
        code = index.setdefault(key, len(values))
        if code == len(values):
            values.append(value)
        codes.append(code)
    return np.array(codes, dtype=np.int64)


def _key(value: object) -> object:
    """Key under which equal values meet, though 1, 1.0 and True do not."""
    if isinstance(value, float) and value != value:
        return (float, "nan")
    if is_nested(value) or not _is_hashable(value):
        return (type(value), repr(value))
    return (type(value), value)


def _is_hashable(value: object) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


def _encode(part: Part) -> Coded:
    return _encode_objects(part) if isinstance(part, list) else _encode_arrow(part)


def _encode_objects(items: list[object]) -> Coded:
    items = [_plain(item) for item in items]
    kinds = set(map(type, items))
    if kinds <= {str, type(None)}:
        distinct = tuple(item for item in dict.fromkeys(items) if item is not None)
        index: dict[object, int] = {item: code for code, item in enumerate(distinct)}
        index[None] = MISSING_CODE
        return Coded(np.fromiter(map(index.__getitem__, items), np.int64, len(items)), distinct)
    values: list[object] = []
    present = np.array([item is not None for item in items], dtype=bool)
    codes = np.full(len(items), MISSING_CODE, dtype=np.int64)
    codes[present] = _register((item for item in items if item is not None), {}, values)
    return Coded(codes, tuple(values))


def _plain(item: object) -> object:
    """Turn NumPy scalars and the nulls of data frames into plain Python."""
    if isinstance(item, np.str_):
        return str(item)
    if isinstance(item, np.generic):
        return item.item()
    # by name, so that pandas need not be imported to recognise its nulls
    return None if type(item).__name__ in {"NAType", "NaTType"} else item


def _encode_arrow(array: Any) -> Coded:
    import pyarrow as pa
    from pyarrow import types

    kind = array.type
    if types.is_dictionary(kind):
        array = array.cast(kind.value_type)
        kind = array.type
    if types.is_string_view(kind):
        array = array.cast(pa.large_string())
        kind = array.type
    fast = (
        types.is_integer(kind)
        or types.is_float32(kind)
        or types.is_float64(kind)
        or types.is_boolean(kind)
        or types.is_string(kind)
        or types.is_large_string(kind)
    )
    if not fast:
        return _encode_objects(array.to_pylist())
    array = array.dictionary_encode().unify_dictionaries()
    if array.num_chunks == 0:
        return Coded(np.empty(0, dtype=np.int64), ())
    codes = np.concatenate(
        [chunk.indices.fill_null(MISSING_CODE).to_numpy() for chunk in array.chunks]
    )
    return Coded(codes.astype(np.int64), tuple(array.chunk(0).dictionary.to_pylist()))
