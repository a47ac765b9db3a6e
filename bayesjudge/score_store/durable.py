"""Files that are whole or not there, and one writer at a time."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from bayesjudge.errors import DataError

PARTIAL = ".partial"
LOCK = "lock"


def write_durably(path: Path, write: Callable[[Path], object]) -> None:
    """Write a file under another name, and rename it once the disk has it.

    A crash at any moment leaves the file that was there before, or the new one whole.

    Parameters
    ----------
    path : Path
        In a folder that exists.
    write : function of Path
        Writes to the path it is given.

    Raises
    ------
    OSError
        Where the disk does not take it.
    """
    partial = path.with_name(path.name + PARTIAL)
    write(partial)
    _flush(partial)
    partial.replace(path)
    flush_folder(path.parent)


def flush_folder(folder: Path) -> None:
    """Have the disk take the names in a folder, where the system can say so of folders."""
    if os.name != "nt":
        _flush(folder)


def _flush(path: Path) -> None:
    # Windows flushes only what was opened for writing; folders open for reading alone.
    handle = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def only_writer(folder: Path) -> Iterator[None]:
    """Hold a folder against other writers.

    The lock belongs to the process: the system takes it back when that ends, killed or
    not, so that none is left behind.

    Parameters
    ----------
    folder : Path
        Exists.

    Raises
    ------
    DataError
        Where another process writes.
    """
    with (folder / LOCK).open("a+b") as file:
        if not _lock(file):
            file.seek(0)
            holder = file.read(20).decode("ascii", "replace").strip()
            raise DataError(
                f"another process{f' ({holder})' if holder else ''} is writing to the store",
                str(folder),
                "Wait until it has ended, then append again: nothing was changed",
            )
        file.truncate(0)
        file.write(str(os.getpid()).encode())
        file.flush()
        yield


if sys.platform == "win32":
    import msvcrt

    _FAR = 2**30
    """Beyond what the file holds: a locked byte cannot be read by others."""

    def _lock(file: IO[bytes]) -> bool:
        file.seek(_FAR)
        try:
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        file.seek(0)
        return True

else:
    import fcntl

    def _lock(file: IO[bytes]) -> bool:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        return True
