"""One file that a command writes where it is told to."""

from __future__ import annotations

from pathlib import Path

from bayesjudge.errors import DataError


def check_target(path: Path, force: bool) -> None:
    """Refuse a file that cannot be written, or is there already and not to be replaced.

    Raises
    ------
    DataError
    """
    if path.is_dir() or not path.parent.is_dir():
        raise DataError("the file cannot be written there", str(path), "Name a file in a folder")
    if path.exists() and not force:
        raise DataError("the file is there already", str(path), "Name another, or say --force")


def write_whole(path: Path, content: bytes) -> None:
    """Write a file, whole or not at all.

    Raises
    ------
    DataError
        Where the disk does not take it.
    """
    partial = path.with_name(f".{path.name}.partial")
    try:
        partial.write_bytes(content)
        partial.replace(path)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise DataError(f"the file cannot be written: {error.strerror}", str(path)) from error
