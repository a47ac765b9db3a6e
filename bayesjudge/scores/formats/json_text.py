"""JSON read piece by piece, so that a damaged or very large file gives what is whole in it.

Python's own decoder reads each piece; this file only walks the outer brackets,
down to the arrays whose elements are records.
"""

from __future__ import annotations

import codecs
import hashlib
import json
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import IO, Any

from bayesjudge.scores.files import MOST_RECORD, READ_ERRORS

type Path = tuple[str, ...]

_BLOCK = 1 << 20
_SPACE = re.compile(r"[ \t\n\r]*")
_MARK = re.compile(r'["\[\]{}]')
_STRING_END = re.compile(r'["\\]')
_NUMBER_GOES_ON = re.compile(r"[-+.eE0-9]*")
_SCALAR_END = re.compile(r"[,\]}]")
MOST_DIGITS = 4000
"""Whole numbers of more digits than Python turns into text are kept as the text they are."""


@dataclass(frozen=True, slots=True)
class Field:
    """A key of an outer object that holds no records, with its value."""

    path: Path
    value: Any


@dataclass(frozen=True, slots=True)
class Element:
    """One record: its array, its place in it counted from 1, its first line, its value."""

    path: Path
    place: int
    line: int
    value: Any
    repeated: bool


@dataclass(frozen=True, slots=True)
class Damage:
    """A piece that could not be read; ``place`` is 0 where it is no record."""

    path: Path
    place: int
    line: int
    why: str


type Piece = Field | Element | Damage


class _End(Exception):  # noqa: N818
    """Nothing more can be read."""


class _Buffer:
    """Text of a file, of which what was read is thrown away."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        # Bytes that are no UTF-8 must not stop the reading of what comes after them.
        self._decode = codecs.getincrementaldecoder("utf-8")("surrogateescape").decode
        self._line, self._counted = 1, 0
        self.text = ""
        self.at = 0
        self.ended = False
        self.damage = ""
        self.fill()
        if self.text.startswith("\ufeff"):
            self.at = 1

    def fill(self) -> bool:
        """Read on, at least as much as is held already; False at the end."""
        if self.ended:
            return False
        if len(self.text) - self.at > MOST_RECORD:
            self.ended, self.damage = True, f"a record is larger than {MOST_RECORD >> 20} MiB"
            return False
        try:
            block = self._file.read(max(_BLOCK, len(self.text) - self.at))
        except READ_ERRORS as error:
            block, self.damage = b"", str(error) or type(error).__name__
        if self.at > _BLOCK:
            self.line()
            self.text, self.at, self._counted = self.text[self.at :], 0, 0
        self.text += self._decode(block, final=not block)
        self.ended = not block
        return not self.ended

    def line(self) -> int:
        """Return the line of the current position, counted from 1."""
        self._line += self.text.count("\n", self._counted, self.at)
        self._counted = self.at
        return self._line

    def peek(self) -> str:
        """Skip white space and return the next character, empty at the end."""
        while True:
            match = _SPACE.match(self.text, self.at)
            self.at = match.end() if match else self.at
            if self.at < len(self.text):
                return self.text[self.at]
            if not self.fill():
                return ""

    def value(self, decoder: json.JSONDecoder) -> tuple[Any, str]:
        """Decode the value that begins here, and return it with its text.

        Raises
        ------
        ValueError, RecursionError
            Where it is none; the position stays.
        """
        while True:
            try:
                found, end = decoder.raw_decode(self.text, self.at)
            except RecursionError:
                raise
            except ValueError:
                if self.fill():
                    continue
                raise
            # A number may go on in what was not read yet, as 0 in 0.5 or in 0e5.
            if _NUMBER_GOES_ON.fullmatch(self.text, end) and self.fill():
                continue
            text = self.text[self.at : end]
            self.at = end
            return found, text

    def skip(self) -> bool:
        """Go past the broken value that begins here; False where the end comes first."""
        opened = 0
        at = self.at
        if self.peek() not in "[{":
            return self._skip_scalar()
        while True:
            match = _MARK.search(self.text, at)
            if match is None:
                return False
            at = match.end()
            mark = match.group()
            if mark == '"':
                at = self._string_end(at)
                if at < 0:
                    return False
                continue
            opened += 1 if mark in "[{" else -1
            if opened == 0:
                self.at = at
                return True

    def _skip_scalar(self) -> bool:
        match = _SCALAR_END.search(self.text, self.at)
        if match is None:
            return False
        self.at = match.start()
        return True

    def _string_end(self, at: int) -> int:
        while match := _STRING_END.search(self.text, at):
            if match.group() == '"':
                return match.end()
            at = match.end() + 1
        return -1


def walk_json(file: IO[bytes], records: Collection[Path]) -> Iterator[Piece]:
    """Walk a JSON document.

    Parameters
    ----------
    file : binary file
        Read once, from where it stands; a damaged ``.gz`` counts as cut short.
    records : collection of tuple of str
        Keys that lead from the outermost value to arrays of records; ``()``
        where the document is such an array.

    Yields
    ------
    Field, Element or Damage
        In the document's order. What cannot be decoded is passed over where its
        brackets pair, and ends the walk where they do not.
    """
    buffer = _Buffer(file)
    try:
        yield from _walk_value(buffer, (), frozenset(records))
    except _End:
        return
    if buffer.peek():
        yield Damage((), 0, buffer.line(), "something follows the end of the document")
    elif buffer.damage:
        yield Damage((), 0, buffer.line(), _end_of(buffer))


def _walk_value(buffer: _Buffer, path: Path, records: frozenset[Path]) -> Iterator[Piece]:
    first = buffer.peek()
    if first == "[" and path in records:
        yield from _walk_array(buffer, path)
    elif first == "{" and any(len(r) > len(path) and r[: len(path)] == path for r in records):
        yield from _walk_object(buffer, path, records)
    else:
        line = buffer.line()
        try:
            yield Field(path, buffer.value(_DECODER)[0])
        except (ValueError, RecursionError) as error:
            yield from _pass_over(buffer, path, 0, line, error)


def _walk_object(buffer: _Buffer, path: Path, records: frozenset[Path]) -> Iterator[Piece]:
    buffer.at += 1
    while True:
        next_one = buffer.peek()
        if next_one == "}":
            buffer.at += 1
            return
        if next_one == ",":
            buffer.at += 1
            continue
        line = buffer.line()
        try:
            key = buffer.value(_DECODER)[0]
        except (ValueError, RecursionError):
            key = None
        if not isinstance(key, str) or buffer.peek() != ":":
            yield Damage(path, 0, line, _end_of(buffer))
            raise _End
        buffer.at += 1
        yield from _walk_value(buffer, (*path, key), records)


def _walk_array(buffer: _Buffer, path: Path) -> Iterator[Piece]:
    buffer.at += 1
    seen: set[bytes] = set()
    place = 0
    while True:
        next_one = buffer.peek()
        if next_one == "]":
            buffer.at += 1
            return
        if next_one == ",":
            buffer.at += 1
            continue
        line = buffer.line()
        if next_one in ("", "}", ":"):
            yield Damage(path, 0, line, _end_of(buffer))
            raise _End
        place += 1
        try:
            value, text = buffer.value(_DECODER)
        except (ValueError, RecursionError) as error:
            yield from _pass_over(buffer, path, place, line, error)
            continue
        yield Element(path, place, line, value, _is_repeated(text, seen))


def _pass_over(
    buffer: _Buffer, path: Path, place: int, line: int, error: Exception
) -> Iterator[Damage]:
    # A value that nests too deep for Python is passed over like a broken one.
    while buffer.fill():
        pass
    if buffer.skip():
        yield Damage(path, place, line, f"not valid JSON: {str(error).split(':')[0]}")
        return
    yield Damage(path, place, line, _end_of(buffer) if place else "the file ends inside it")
    raise _End


def _end_of(buffer: _Buffer) -> str:
    if buffer.damage:
        return f"the file ends early: {buffer.damage}"
    if not buffer.peek() or buffer.ended:
        return "the file ends early, or its brackets do not pair from here on"
    return "its brackets do not pair from here on"


def walk_json_lines(file: IO[bytes]) -> Iterator[Piece]:
    """Read a file of one JSON value a line, as ``walk_json`` reads an array."""
    seen: set[bytes] = set()
    line = place = 0
    while True:
        try:
            raw = file.readline(MOST_RECORD)
        except READ_ERRORS as error:
            yield Damage((), 0, line + 1, f"the file ends early: {error}")
            return
        if not raw:
            return
        line += 1
        text = raw.decode("utf-8", "surrogateescape").removeprefix("\ufeff").strip()
        if not text:
            continue
        place += 1
        try:
            value = decode_json(text)
        except (ValueError, RecursionError) as error:
            yield Damage((), place, line, f"not valid JSON: {str(error).split(':')[0]}")
            continue
        yield Element((), place, line, value, _is_repeated(text, seen))


def decode_json(text: str) -> Any:
    """Decode one JSON text, bare NaN and huge whole numbers included.

    Raises
    ------
    ValueError, RecursionError
        Where it is none.
    """
    text = text.strip()
    value, end = _DECODER.raw_decode(text)
    if end != len(text):
        raise ValueError("something follows the value")
    return value


def _is_repeated(text: str, seen: set[bytes]) -> bool:
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
    if digest in seen:
        return True
    seen.add(digest)
    return False


def _whole_number(digits: str) -> int | str:
    return int(digits) if len(digits) < MOST_DIGITS else digits


class _Decoder(json.JSONDecoder):
    """Python's decoder, which takes long whole numbers for text where it would refuse them."""

    def __init__(self) -> None:
        super().__init__(strict=False)
        self._lenient = json.JSONDecoder(strict=False, parse_int=_whole_number)

    def raw_decode(self, s: str, idx: int = 0) -> tuple[Any, int]:
        try:
            return super().raw_decode(s, idx)
        except json.JSONDecodeError:
            raise
        except ValueError:
            return self._lenient.raw_decode(s, idx)


_DECODER = _Decoder()
