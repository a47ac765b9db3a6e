"""Files of a source: finding them, opening them, and what is said where that fails."""

from __future__ import annotations

import glob
import os
import zlib
from os import PathLike
from pathlib import Path
from typing import IO, cast

from bayesjudge.errors import DataError

TEXT_SUFFIXES = (".csv", ".tsv", ".txt")
JSON_SUFFIXES = (".jsonl", ".ndjson", ".json")
PARQUET_SUFFIXES = (".parquet", ".pq")
ARROW_SUFFIXES = (".arrow", ".feather")
SUFFIXES = TEXT_SUFFIXES + JSON_SUFFIXES + PARQUET_SUFFIXES + ARROW_SUFFIXES
LOG_SUFFIXES = (".eval",)

GZIP = b"\x1f\x8b"
_GZIP_WINDOW = 31
_BLOCK = 1 << 16
READ_ERRORS = (OSError, EOFError, zlib.error)
"""What reading a file may raise, a damaged ``.gz`` included."""

MOST_RECORD = 1 << 30
"""Bytes that a record may have, packed or not."""

MOST_FILES = 100_000
"""More files than this in one folder are taken for a mistake."""


def find_paths(source: str | PathLike[str]) -> list[Path]:
    """List the files, or the folders, that a path or a glob stands for, sorted by name.

    A glob that matches files and folders stands for the files.

    Raises
    ------
    DataError
        Where there is none.
    """
    text = str(source)
    if "\0" in text:
        raise DataError("a file name cannot hold a NUL", ascii(text))
    try:
        if Path(text).exists():
            return [Path(text)]
        # Path.glob takes no absolute pattern
        found = sorted(glob.glob(text, recursive=True)) if glob.has_magic(text) else []  # noqa: PTH207
    except OSError as error:
        raise unreadable(text, error) from error
    files = [Path(name) for name in found if Path(name).is_file()]
    paths = files or [Path(name) for name in found if Path(name).is_dir()]
    if paths:
        return paths
    if glob.has_magic(text):
        raise DataError("no file matches the pattern", text, "Check the folder and the pattern")
    raise DataError("there is no such file", text, "Check the path")


def tables_of_folder(folder: Path) -> list[Path]:
    """List the tables right inside a folder, which must be of one kind.

    Raises
    ------
    DataError
        Where there is none, or of several kinds.
    """
    files = sorted(
        path
        for path in folder.iterdir()
        if path.is_file() and not path.name.startswith((".", "_")) and suffix(path) in SUFFIXES
    )
    if not files:
        raise DataError(
            "the folder holds no file that can be read",
            str(folder),
            f"Files must end in {', '.join(SUFFIXES)}, or these with .gz, "
            "or be logs that `bayesjudge convert --help` names",
        )
    kinds = sorted({suffix(path) for path in files})
    if len(kinds) > 1:
        raise DataError(
            f"the folder holds files of several kinds ({', '.join(kinds)})",
            str(folder),
            f"Name one kind with a pattern such as '{folder}/*{kinds[0]}'",
        )
    return files


def files_below(folder: Path) -> list[Path]:
    """List every file below a folder that may be a table or a log, sorted by path.

    Links to folders are not followed; hidden files and folders are passed over.

    Raises
    ------
    DataError
        Where the folder cannot be listed or holds too many files.
    """
    found: list[Path] = []
    wanted = SUFFIXES + LOG_SUFFIXES
    try:
        for place, folders, names in os.walk(folder):
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            paths = [Path(place, name) for name in names if not name.startswith(".")]
            found += [path for path in paths if suffix(path) in wanted and path.is_file()]
            if len(found) > MOST_FILES:
                raise DataError(
                    f"the folder holds more than {MOST_FILES:,} files",
                    str(folder),
                    "Name a folder further down, or a pattern",
                )
    except OSError as error:
        raise unreadable(str(folder), error) from error
    return sorted(found)


def suffix(path: Path) -> str:
    """Return a file's suffix in lower case, that of the content where it ends in ``.gz``."""
    return Path(path.name.lower().removesuffix(".gz")).suffix


class Unpacked:
    """The content of a ``.gz`` file, all of it that can be unpacked before the file is damaged.

    Python's own reader gives nothing of the block in which a file is cut short.
    """

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._unpack = zlib.decompressobj(_GZIP_WINDOW)
        self._held = b""
        self._damage: Exception | None = None
        self._ended = False

    def __enter__(self) -> Unpacked:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def read(self, size: int = -1) -> bytes:
        """Read bytes, as a file does; raises only where nothing is left before the damage."""
        while not self._ended and (size < 0 or len(self._held) < size):
            self._more()
        return self._take(len(self._held) if size < 0 else size)

    def readline(self, size: int = -1) -> bytes:
        """Read a line, as a file does."""
        at = 0
        while (end := self._held.find(b"\n", at)) < 0 and not self._ended:
            at = len(self._held)
            if 0 <= size <= at:
                break
            self._more()
        whole = len(self._held) if end < 0 else end + 1
        return self._take(whole if size < 0 else min(size, whole))

    def _more(self) -> None:
        try:
            block = self._file.read(_BLOCK)
            if not block:
                self._ended = True
                if not self._unpack.eof:
                    raise EOFError("the packed file is cut short")
            self._held += self._unpack.decompress(block)
            # A packed file may be followed by another, as pigz writes them.
            while self._unpack.eof and self._unpack.unused_data:
                rest = self._unpack.unused_data
                self._unpack = zlib.decompressobj(_GZIP_WINDOW)
                self._held += self._unpack.decompress(rest)
        except READ_ERRORS as error:
            self._damage, self._ended = error, True

    def _take(self, size: int) -> bytes:
        if not self._held and self._damage is not None:
            raise self._damage
        found, self._held = self._held[:size], self._held[size:]
        return found


def open_bytes(path: Path) -> IO[bytes]:
    """Open a file for reading, unpacked where it is gzip by its content.

    Raises
    ------
    DataError
        Where it cannot be opened. Reading on may raise ``READ_ERRORS``.
    """
    try:
        with path.open("rb") as file:
            packed = file.read(2) == GZIP
        opened = path.open("rb")
    except OSError as error:
        raise unreadable(str(path), error) from error
    return cast("IO[bytes]", Unpacked(opened)) if packed else opened


def unreadable(source: str, error: Exception) -> DataError:
    """Make the error that says why a file could not be read."""
    reason = getattr(error, "strerror", None) or str(error).splitlines()[0:1]
    text = reason if isinstance(reason, str) else "".join(reason)
    return DataError(f"the file cannot be read: {text.rstrip('.')}", source, "Check the file")
