"""A folder of groups: each group's results in a folder of their own, whole or not at all."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bayesjudge.errors import DataError
from bayesjudge.report.files import MANIFEST, SCRATCH, Content, OutputFolder

PARTIAL = f"{SCRATCH}partial"
"""Where folders of groups are made before they are moved to their place."""

_RESULT = "result.json"
# As results_folder.folder_name makes them.
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]*", re.ASCII)


@dataclass(frozen=True)
class GroupFolder:
    """Where one group's results lie.

    Attributes
    ----------
    root : Path
        The folder of all groups.
    name : str
        Of the group's folder in it.
    """

    root: Path
    name: str

    @property
    def path(self) -> Path:
        """The group's folder."""
        return self.root / self.name

    def check(self, names: Iterable[str]) -> None:
        """Refuse files that cannot be written, as :meth:`OutputFolder.check` does."""
        if not self.path.resolve().is_relative_to(self.root.resolve()):
            raise DataError("a link leads out of the output folder", str(self.path))
        OutputFolder(self.path).check(names)

    def write(self, files: Mapping[str, Content], command: str, seal: Mapping[str, Any]) -> None:
        """Write a group's results; a folder that was not there appears with all of them.

        Raises
        ------
        DataError
            As :meth:`OutputFolder.write`.
        """
        if os.path.lexists(self.path):
            self._sweep()
            OutputFolder(self.path).write(files, command, seal)
            return
        # Another process may still be at this group: that of a run that was killed.
        made = OutputFolder(self.root / PARTIAL / str(os.getpid()) / self.name)
        made.write(files, command, seal)
        try:
            made.path.rename(self.path)
        except OSError as error:
            raise DataError(
                f"cannot write the results: {error.strerror or error}", str(self.path)
            ) from error

    def seal(self) -> dict[str, Any]:
        """Return what `write` sealed; empty where the folder is not whole."""
        folder = OutputFolder(self.path)
        return folder.seal() if folder.is_whole() else {}

    def result(self) -> Any:
        """Return the object that was written; None where it cannot be read."""
        try:
            return json.loads((self.path / _RESULT).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None

    def clear(self, command: str) -> None:
        """Take away what this command wrote here earlier, and the folder if nothing is left."""
        if not (self.path / MANIFEST).is_file() or self.path.is_symlink():
            return
        self._sweep()
        OutputFolder(self.path).write({}, command)
        if [path.name for path in self.path.iterdir()] == [MANIFEST]:
            if json.loads((self.path / MANIFEST).read_text(encoding="utf-8"))["files"]:
                return
            (self.path / MANIFEST).unlink()
            self.path.rmdir()

    def _sweep(self) -> None:
        """Take away what a run that was cut short had not moved to its place."""
        for path in self.path.glob(f"{SCRATCH}*/"):
            if not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)


@dataclass(frozen=True)
class GroupFolders:
    """The folders of all groups, and the index over them.

    Attributes
    ----------
    root : OutputFolder
    folders : mapping of str to GroupFolder
        By level.
    command : str
        Whose results they are.
    """

    root: OutputFolder
    folders: Mapping[str, GroupFolder]
    command: str

    @classmethod
    def checked(
        cls,
        path: str | os.PathLike[str],
        folders: Mapping[str, str],
        command: str,
        names: Iterable[str],
        index_names: Iterable[str],
    ) -> GroupFolders:
        """Return the folders, all their files free to be written.

        Parameters
        ----------
        path : path
        folders : mapping of str to str
            Name of each level's folder.
        command : str
        names, index_names : iterable of str
            Files that each of them, and the index, may come to hold.

        Raises
        ------
        DataError
            As :meth:`OutputFolder.check`.
        """
        root, names = OutputFolder(path), tuple(names)
        root.check(index_names)
        found = {level: GroupFolder(root.path, name) for level, name in folders.items()}
        for folder in found.values():
            folder.check(names)
        return cls(root, found, command)

    def begin(self) -> None:
        """Note which folders are to come, and take away what was never finished."""
        self._sweep()
        known = dict.fromkeys([*self._known(), *(f.name for f in self.folders.values())])
        self.root.write({}, seal={"folders": list(known)})

    def finish(self, index: Mapping[str, Content], levels: Iterable[str], known: bool) -> None:
        """Write the index, and take away earlier results that it does not name.

        Parameters
        ----------
        index : mapping of str to content
        levels : iterable of str
            Those with results, which stay.
        known : bool
            All groups were come to: whatever else the command wrote earlier is gone by.
        """
        kept = [self.folders[level].name for level in levels]
        before = self._known()
        if known:
            for name in before:
                if name not in kept:
                    GroupFolder(self.root.path, name).clear(self.command)
        self.root.write(index, self.command, {"folders": kept if known else before})
        self._sweep()

    def _known(self) -> list[str]:
        """Return the names of folders that a run into this folder has noted."""
        names = self.root.seal().get("folders")
        if not isinstance(names, list):
            return []
        return [n for n in names if isinstance(n, str) and _NAME.fullmatch(n)]

    def _sweep(self) -> None:
        partial = self.root.path / PARTIAL
        if partial.is_dir() and not partial.is_symlink():
            shutil.rmtree(partial, ignore_errors=True)
