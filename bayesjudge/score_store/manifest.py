"""What a store holds, as one JSON file: replacing that file is what makes an append count."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bayesjudge.errors import DataError
from bayesjudge.score_store.durable import write_durably
from bayesjudge.scores.problems import Problem
from bayesjudge.scores.table import Role

FORMAT = 1
NAME = "bayesjudge-store.json"


@dataclass(frozen=True)
class Append:
    """One source that was appended.

    Attributes
    ----------
    number : int
        From 1.
    time : str
        When, in UTC, ISO 8601.
    source : str
    digest : str
        SHA-256 of its labels and scores.
    n_scores, n_excluded : int
        Scores that it brought, and rows that were left out.
    problems : tuple of Problem
        What was found in it.
    """

    number: int
    time: str
    source: str
    digest: str
    n_scores: int
    n_excluded: int
    problems: tuple[Problem, ...] = ()


@dataclass(frozen=True)
class Segment:
    """One file of sums: its name, and how many keys it holds."""

    name: str
    n_keys: int


@dataclass(frozen=True)
class Manifest:
    """A store at one moment.

    Attributes
    ----------
    options : mapping
        How sources are read: arguments of ``read_scores``.
    facets : tuple of (name, role)
    mapping : tuple of (role, column)
        Of the first source.
    segments : tuple of Segment
        The files that count.
    appends : tuple of Append
        In order.
    """

    options: Mapping[str, Any]
    facets: tuple[tuple[str, Role], ...]
    mapping: tuple[tuple[str, str], ...]
    segments: tuple[Segment, ...] = ()
    appends: tuple[Append, ...] = ()

    @property
    def n_scores(self) -> int:
        """Scores of all appends."""
        return sum(append.n_scores for append in self.appends)

    @property
    def n_excluded(self) -> int:
        """Rows that were left out of all appends."""
        return sum(append.n_excluded for append in self.appends)


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Replace the manifest of a store at one stroke.

    Raises
    ------
    OSError
        Where the disk does not take it.
    """
    text = json.dumps({"format": FORMAT, **asdict(manifest)}, indent=1)
    write_durably(folder / NAME, lambda path: path.write_text(text + "\n", encoding="ascii"))


def read_manifest(folder: Path) -> Manifest:
    """Read the manifest of a store.

    Raises
    ------
    DataError
        Where the folder holds none, or one that is damaged or of another version.
    """
    path = folder / NAME
    try:
        held = json.loads(path.read_text(encoding="utf-8"))
        if held["format"] != FORMAT:
            raise DataError(
                f"the store is of format {held['format']!r}, and this version reads {FORMAT}",
                str(path),
                "Use the version that wrote it, or append its sources to a new store",
            )
        return _from_data(held)
    except FileNotFoundError as error:
        raise DataError(
            "there is no store of scores here", str(folder), "Make one with `bayesjudge append`"
        ) from error
    except OSError as error:
        raise DataError(f"the store cannot be read: {error.strerror}", str(path)) from error
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DataError(
            f"the manifest of the store is damaged: {error!r}",
            str(path),
            "Append its sources to a new store",
        ) from error


def _from_data(held: Mapping[str, Any]) -> Manifest:
    options = dict(held["options"])
    for name in ("columns", "where"):
        options[name] = tuple((str(role), str(column)) for role, column in options[name])
    for name in ("facets", "random", "ignore", "missing"):
        options[name] = tuple(options[name])
    if options["scale"] is not None:
        low, high = options["scale"]
        options["scale"] = (float(low), float(high))
    return Manifest(
        options=options,
        facets=tuple((name, role) for name, role in held["facets"]),
        mapping=tuple((role, column) for role, column in held["mapping"]),
        segments=tuple(Segment(str(s["name"]), int(s["n_keys"])) for s in held["segments"]),
        appends=tuple(
            Append(**{**found, "problems": tuple(Problem(**p) for p in found["problems"])})
            for found in held["appends"]
        ),
    )
