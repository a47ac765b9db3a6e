"""A folder of results that never overwrites what bayesjudge did not write."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from bayesjudge.errors import DataError

MANIFEST = ".bayesjudge-files.json"
SCRATCH = ".bayesjudge-"

type Content = str | bytes | Callable[[Path], object]


class OutputFolder:
    """A folder to write results to.

    A manifest in the folder names every file that was written and its sha256. A
    file that is there but not in the manifest, or whose content has changed
    since, is refused, before anything is written.

    Parameters
    ----------
    path : path
        Created with its parents on the first `write`.

    Raises
    ------
    DataError
        Where the path is a file or lies inside one, or its manifest is not one.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        for place in (self.path, *self.path.parents):
            if place.exists() and not place.is_dir():
                raise DataError(
                    "the output folder is a file" if place == self.path else "a file is in the way",
                    str(place),
                    "Name a folder",
                )
        self._manifest()

    def check(self, names: Iterable[str]) -> None:
        """Refuse names that cannot be written; call it before long work.

        Parameters
        ----------
        names : iterable of str
            File names relative to the folder, ``/`` between subfolders.

        Raises
        ------
        DataError
            Where a name leaves the folder, or is taken by something that was not
            written here or was changed since. All such files are named.
        """
        written = self._manifest()
        taken = []
        for name in names:
            target = self._target(name)
            if not os.path.lexists(target):
                continue
            ours = target.is_file() and not target.is_symlink() and name in written
            if not ours or _sha256_or_none(target) not in written[name]:
                taken.append(name)
        if taken:
            raise DataError(
                "refusing to overwrite what bayesjudge did not write, or what was changed since",
                ", ".join(str(self.path / name) for name in taken),
                "Move it away or name another folder",
            )

    def seal(self) -> dict[str, Any]:
        """Return the seal of the last `write`; empty where none was made, or it was cut short."""
        content = self._content()
        seal = content.get("seal") if isinstance(content, dict) else None
        return seal if isinstance(seal, dict) else {}

    def is_whole(self) -> bool:
        """Whether every file that was written here is there, and as it was written."""
        return all(
            _sha256_or_none(self._target(name)) in hashes
            for name, hashes in self._manifest().items()
        )

    def write(
        self,
        files: Mapping[str, Content],
        command: str = "",
        seal: Mapping[str, Any] | None = None,
    ) -> tuple[Path, ...]:
        """Write files, each whole or not at all, after all were checked.

        What an earlier run of the same command wrote here and this one does not is
        taken away, unless it was changed since: it would stand beside a report that
        knows nothing of it.

        Parameters
        ----------
        files : mapping of str to str, bytes or callable
            Name relative to the folder -> text (UTF-8), bytes, or a function that
            writes to the path it is given, which ends in the same file name.
        command : str
            Whose results these are; without a name nothing is taken away.
        seal : mapping, optional
            What `seal` returns once every file is in its place; plain JSON.

        Returns
        -------
        tuple of Path
            What was written, in order.

        Raises
        ------
        DataError
            As `check`, and where the disk does not take the files.
        """
        self.check(files)
        try:
            return self._write_checked(files, command, seal)
        except OSError as error:
            raise DataError(
                f"cannot write the results: {error.strerror or error}", str(self.path)
            ) from error

    def _write_checked(
        self, files: Mapping[str, Content], command: str, seal: Mapping[str, Any] | None
    ) -> tuple[Path, ...]:
        self.path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=SCRATCH, dir=self.path) as scratch:
            staged = {}
            for number, (name, content) in enumerate(files.items()):
                # A folder a file: the name a function writes to keeps its suffix.
                folder = Path(scratch) / str(number)
                folder.mkdir()
                staged[name] = folder / PurePosixPath(name).name
                _put(staged[name], content)
            # Staging may have taken minutes in which others wrote here.
            self.check(files)
            before, owners = self._manifest(), self._owners()
            stale = [name for name in before if self._is_stale(name, before, owners, command)]
            after = before | {name: [_sha256(path)] for name, path in staged.items()}
            owners |= dict.fromkeys(staged, command)
            # Both contents while the files change places: cut short there, a later
            # run still knows old and new as its own.
            both = {name: before.get(name, []) + after[name] for name in after}
            self._record(both, owners, scratch)
            for name, path in staged.items():
                target = self._target(name)
                target.parent.mkdir(parents=True, exist_ok=True)
                path.replace(target)
            for name in set(stale) - set(staged):
                self._target(name).unlink()
                del after[name]
            self._record(after, owners, scratch, seal)
        return tuple(self._target(name) for name in files)

    def _is_stale(
        self, name: str, written: Mapping[str, list[str]], owners: Mapping[str, str], command: str
    ) -> bool:
        """Whether a file is this command's own, from before, and as it was written."""
        if not command or owners.get(name) != command:
            return False
        target = self._target(name)
        return not target.is_symlink() and _sha256_or_none(target) in written[name]

    def _record(
        self,
        written: Mapping[str, list[str]],
        owners: Mapping[str, str],
        scratch: str,
        seal: Mapping[str, Any] | None = None,
    ) -> None:
        content = {
            "format": 1,
            **({} if seal is None else {"seal": seal}),
            "files": dict(sorted(written.items())),
            "commands": {name: owners[name] for name in sorted(written) if owners.get(name)},
        }
        text = json.dumps(content, indent=2)
        _put(Path(scratch) / MANIFEST, text + "\n")
        (Path(scratch) / MANIFEST).replace(self.path / MANIFEST)

    def _target(self, name: str) -> Path:
        relative = PurePosixPath(name)
        parts = relative.parts
        if not parts or relative.is_absolute() or ".." in parts or "\\" in name or "\0" in name:
            raise DataError("not a file name inside the output folder", name)
        if parts[0] == MANIFEST or str(relative) != name:
            raise DataError("not a file name to write results to", name)
        target = self.path.joinpath(*parts)
        if not target.parent.resolve().is_relative_to(self.path.resolve()):
            raise DataError("a link leads out of the output folder", str(target.parent))
        return target

    def _owners(self) -> dict[str, str]:
        """Which command wrote each file, where that is known."""
        content = self._content()
        found = content.get("commands") if isinstance(content, dict) else None
        return {str(k): str(v) for k, v in found.items()} if isinstance(found, dict) else {}

    def _content(self) -> Any:
        try:
            return json.loads((self.path / MANIFEST).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None

    def _manifest(self) -> dict[str, list[str]]:
        path = self.path / MANIFEST
        if not os.path.lexists(path):
            return {}
        content = self._content()
        files = content.get("files") if isinstance(content, dict) else None
        if not isinstance(files, dict) or not all(
            isinstance(hashes, list) for hashes in files.values()
        ):
            raise DataError(
                "the list of files that bayesjudge wrote cannot be read",
                str(path),
                "Name another folder",
            )
        return files


def _put(path: Path, content: Content) -> None:
    if isinstance(content, str):
        path.write_bytes(content.encode("utf-8", errors="backslashreplace"))
    elif isinstance(content, bytes):
        path.write_bytes(content)
    else:
        content(path)


def _sha256_or_none(path: Path) -> str | None:
    try:
        return _sha256(path)
    except OSError:
        return None


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def checked_folder(path: str | None, names: Iterable[str]) -> OutputFolder | None:
    """Return the folder that results go to, its files free to be written; None without one.

    Raises
    ------
    DataError
        As :meth:`OutputFolder.check`.
    """
    if path is None:
        return None
    folder = OutputFolder(path)
    folder.check(names)
    return folder
