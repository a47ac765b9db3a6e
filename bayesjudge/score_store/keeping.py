"""A folder of scores to which a day's are added, and which answers as one table would.

Sums by key (``scores.key_sums``) lie in immutable Parquet files; a manifest says which of
them count. An append writes its file and then replaces the manifest: before that it has
not happened, from then on it has, and a crash leaves no third state. Each file holds
more than twice as many keys as the next: files that would not are put together by the
append that finds them so, hence few files, each key rewritten a logarithm of times.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bayesjudge.errors import DataError, UsageError
from bayesjudge.score_store.answering import tally_of_store
from bayesjudge.score_store.durable import LOCK, PARTIAL, flush_folder, only_writer
from bayesjudge.score_store.manifest import (
    NAME,
    Append,
    Manifest,
    Segment,
    read_manifest,
    write_manifest,
)
from bayesjudge.score_store.segments import SUFFIX, read_segment, write_segment
from bayesjudge.scores.assembling import Reading
from bayesjudge.scores.key_sums import (
    KeySums,
    digest,
    key_sums_of_scores,
    merge_key_sums,
    shared_keys,
)
from bayesjudge.scores.parts import scan_part
from bayesjudge.scores.table import Scores
from bayesjudge.scores.tallying import Tally

SEGMENTS = "sums"

OF_THE_TABLE = ("where", "facets", "random", "scale", "lower_is_better", "missing", "replicates")
"""Options that say what the scores are: the same for all appends."""

_NONE: dict[str, Any] = {
    "columns": (),
    "where": (),
    "facets": (),
    "random": (),
    "ignore": (),
    "scale": None,
    "lower_is_better": False,
    "missing": (),
    "strict": False,
    "replicates": False,
    "format": None,
}

_TRIES = 5


@dataclass(frozen=True)
class Store:
    """Scores that arrive day by day.

    Attributes
    ----------
    path : Path
        The folder. It is made by the first append.
    options : mapping
        How sources are to be read, where this was said: arguments of ``read_scores``.
    """

    path: Path
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def manifest(self) -> Manifest:
        """What the folder holds now.

        Raises
        ------
        DataError
            Where nothing has been appended yet, or the manifest is damaged.
        """
        return read_manifest(self.path)

    @property
    def appends(self) -> tuple[Append, ...]:
        """What was appended, in order; nothing where there is no folder yet."""
        return self.manifest.appends if is_store(self.path) else ()

    def append(self, source: Any, *, again: bool = False) -> Append:
        """Add the scores of a source: all of them, or on an error or a crash none.

        Parameters
        ----------
        source : path, glob, folder, list of paths, or data frame
            As in ``read_scores``; read with the options of the first append. It may
            hold one backbone only.
        again : bool
            Append it though the same scores were appended before, as calls that were
            repeated and agreed; takes ``replicates``.

        Returns
        -------
        Append

        Raises
        ------
        DataError
            Listing every error of the source; also where its facets are not the
            store's, a cell has a score already and repeated calls were not declared,
            the same scores were appended before, another process is writing, or the
            disk does not take them.
        UsageError
            Where options contradict those of the first append.
        """
        with self.writing() as manifest:
            return self.add(self.read(source, manifest), manifest, again=again)

    @contextmanager
    def writing(self) -> Iterator[Manifest | None]:
        """Hold the folder against other writers; gives what it holds, None before the first append.

        Raises
        ------
        DataError
            Where another process is writing, the manifest of what was appended is gone, or
            the disk does not take what is written.
        """
        try:
            (self.path / SEGMENTS).mkdir(parents=True, exist_ok=True)
            with only_writer(self.path):
                manifest = self.manifest if is_store(self.path) else None
                if manifest is None:
                    self._check_nothing_lost()
                self._sweep(() if manifest is None else manifest.segments)
                yield manifest
        except OSError as error:
            raise DataError(
                f"the store cannot be written: {error.strerror or error}",
                str(self.path),
                "What was appended before is kept",
            ) from error

    def read(self, source: Any, manifest: Manifest | None) -> Reading:
        """Read a source as the store reads it.

        Raises
        ------
        DataError
            Where the source cannot be read at all.
        UsageError
            Where options contradict those of the first append.
        """
        return scan_part(source, **_options(self.options, manifest))

    def add(self, reading: Reading, manifest: Manifest | None, *, again: bool = False) -> Append:
        """Append what :meth:`read` found, while :meth:`writing`; else as :meth:`append`."""
        scores = reading.require()
        old = manifest or Manifest(
            _options(self.options, None),
            tuple((facet.name, facet.role) for facet in scores.facets),
            scores.mapping,
        )
        _check_facets(scores, old)
        fresh = Append(
            number=len(old.appends) + 1,
            time=datetime.now(UTC).isoformat(timespec="seconds"),
            source=scores.source,
            digest=digest(scores),
            n_scores=len(scores),
            n_excluded=scores.n_excluded,
            problems=scores.problems,
        )
        _check_digest(fresh, old, again)
        new = key_sums_of_scores(scores)
        if not old.options["replicates"]:
            _check_cells(self._segments(old), new, fresh)
        kept = list(old.segments)
        while kept and kept[-1].n_keys <= 2 * len(new):
            new = merge_key_sums([self._segment(old, kept.pop()), new])
        segments = (*kept, Segment(f"{fresh.number:06d}{SUFFIX}", len(new)))
        write_segment(self._place(segments[-1].name), new)
        if manifest is None:
            flush_folder(self.path)
            flush_folder(self.path.absolute().parent)
        write_manifest(self.path, replace(old, segments=segments, appends=(*old.appends, fresh)))
        self._sweep(segments)
        return fresh

    def sums(self) -> KeySums:
        """Return all scores, summed by all their facets.

        Raises
        ------
        DataError
            Where nothing has been appended yet, or a file is damaged.
        """
        return self._sums()[0]

    def tally(self, random: Sequence[str] = ()) -> Tally:
        """Return all scores as one table's moments, which ``fit`` takes.

        Parameters
        ----------
        random : sequence of str
            Facets to be taken as random, as ``judge`` to ask about new judges; those
            that were when the store was begun are anyway.

        Returns
        -------
        Tally
            Equal, to rounding, to that of all sources read as one table.

        Raises
        ------
        DataError
            Where nothing has been appended yet, a file is damaged, or the scores
            cannot be answered: one backbone only, or backbones that nothing connects.
        UsageError
            Where there is no such facet, or it is ranked.
        """
        return tally_of_store(*self._sums(), self.path, random)

    def _sums(self) -> tuple[KeySums, Manifest]:
        manifest = self.manifest
        for _ in range(_TRIES):
            try:
                return merge_key_sums(self._segments(manifest)), manifest
            except FileNotFoundError:
                # Put together with others since the manifest was read.
                manifest = self.manifest
        missing = [s.name for s in manifest.segments if not self._place(s.name).exists()]
        raise DataError(
            f"a file of the store is missing: {', '.join(missing)}",
            str(self.path / SEGMENTS),
            "Put it back from a copy, or append the sources to a new store",
        )

    def _segments(self, manifest: Manifest) -> list[KeySums]:
        return [self._segment(manifest, segment) for segment in manifest.segments]

    def _segment(self, manifest: Manifest, segment: Segment) -> KeySums:
        names = tuple(name for name, _ in manifest.facets)
        return read_segment(self._place(segment.name), names, segment.n_keys)

    def _place(self, name: str) -> Path:
        return self.path / SEGMENTS / name

    def _check_nothing_lost(self) -> None:
        """Refuse to begin on top of sums whose manifest is gone.

        Raises
        ------
        DataError
            Where there are sums of a later append than the first, which a crash of the
            first may leave behind.
        """
        first = f"{1:06d}{SUFFIX}"
        names = {path.name for path in (self.path / SEGMENTS).iterdir()}
        if any(name.endswith(SUFFIX) and name != first for name in names):
            raise DataError(
                f"the folder holds sums of earlier appends, and {NAME}, which names them, is gone",
                str(self.path),
                "Put it back from a copy, or append the sources to a new folder",
            )

    def _sweep(self, segments: Sequence[Segment]) -> None:
        """Take away what no manifest names: what a crash left, what was put together."""
        named = {segment.name for segment in segments}
        for path in (self.path / SEGMENTS).iterdir():
            if path.name not in named and path.name.endswith((SUFFIX, PARTIAL)):
                path.unlink()
        (self.path / (NAME + PARTIAL)).unlink(missing_ok=True)


def is_store(path: str | Path) -> bool:
    """Whether a folder is a store to which something was appended."""
    try:
        return (Path(path) / NAME).is_file()
    except (OSError, ValueError):
        return False


def create_store(path: str | Path, **options: Any) -> Store:
    """Say where scores are to be kept, and how their sources are to be read.

    Parameters
    ----------
    path : path
        A folder that does not exist or is empty; the first append makes it.
    **options
        ``columns``, ``where``, ``facets``, ``random``, ``ignore``, ``scale``,
        ``lower_is_better``, ``missing``, ``strict``, ``replicates``, ``format``, as in
        ``read_scores``. They are kept and hold for all appends.

    Returns
    -------
    Store

    Raises
    ------
    DataError
        Where the path is a store already, a file, or a folder of something else.
    UsageError
        Where there is no such option.
    """
    path = Path(path)
    if is_store(path):
        raise DataError("the store exists already", str(path), "Open it with open_store")
    ours = {SEGMENTS, LOCK, NAME + PARTIAL}
    if path.exists() and (not path.is_dir() or {p.name for p in path.iterdir()} - ours):
        raise DataError(
            "a store cannot be made of what is there already", str(path), "Name a new folder"
        )
    return Store(path, _given(options))


def open_store(path: str | Path, **options: Any) -> Store:
    """Open a store of scores.

    Parameters
    ----------
    path : path
        Its folder.
    **options
        As in ``create_store``. ``columns``, ``ignore``, ``strict`` and ``format`` may
        differ from source to source; the others must be those of the first append.

    Returns
    -------
    Store

    Raises
    ------
    DataError
        Where there is no store, or its manifest is damaged or of another version.
    UsageError
        Where options contradict those of the first append.
    """
    store = Store(Path(path), _given(options))
    _options(store.options, store.manifest)
    return store


def _given(options: Mapping[str, Any]) -> dict[str, Any]:
    """Bring options into one form; those that say nothing are left out."""
    given: dict[str, Any] = {}
    for name, value in options.items():
        if name not in _NONE:
            raise UsageError(f"a store has no option {name!r}", remedy=f"It has {', '.join(_NONE)}")
        if name in ("columns", "where"):
            pairs = value.items() if isinstance(value, Mapping) else value or ()
            value = tuple((str(key), str(label)) for key, label in pairs)
        elif name in ("facets", "random", "ignore", "missing"):
            several = value if isinstance(value, (tuple, list)) else (value,)
            value = tuple(str(one) for one in several)
        elif name == "scale" and value is not None:
            value = (float(value[0]), float(value[1]))
        if value != _NONE[name]:
            given[name] = value
    return given


def _options(given: Mapping[str, Any], manifest: Manifest | None) -> dict[str, Any]:
    """Return how a source is read: as was said, or else as the first one was."""
    if manifest is None:
        return {**_NONE, **given}
    kept = manifest.options
    for name in OF_THE_TABLE:
        if name in given and given[name] != kept[name]:
            raise UsageError(
                f"{name} is {_told(given[name])}, and the store was begun with {_told(kept[name])}",
                "",
                "Leave it out, or begin another store: all its scores mean the same",
            )
    return {**kept, **given}


def _told(value: object) -> str:
    return "none" if value in ((), None, False) else repr(value)


def _check_facets(scores: Scores, manifest: Manifest) -> None:
    wanted = [name for name, _ in manifest.facets]
    lacking = [name for name in wanted if not scores.has(name)]
    more = [name for name in scores.facet_names if name not in wanted]
    if lacking:
        raise DataError(
            f"the source has no {' and no '.join(lacking)}, and the store's scores have",
            scores.source,
            "Say which column it is with --column, or add it",
        )
    if more:
        raise DataError(
            f"the source has {', '.join(more)}, and the store's scores have none",
            scores.source,
            f"Leave it out with {' '.join(f'--ignore {name}' for name in more)}, if it does not "
            "tell scores apart, or append all sources to a new store",
        )


def _check_digest(fresh: Append, manifest: Manifest, again: bool) -> None:
    before = [append for append in manifest.appends if append.digest == fresh.digest]
    if before and not again:
        raise DataError(
            f"the same {fresh.n_scores:,} scores were appended on {before[-1].time}, from "
            f"{before[-1].source} (append {before[-1].number})",
            fresh.source,
            "There is nothing to do; if these are other calls that agree say --again",
        )


def _check_cells(stored: Sequence[KeySums], new: KeySums, fresh: Append) -> None:
    """Refuse a second score of a cell, as reading both as one table would.

    Raises
    ------
    DataError
        Naming the first such cells.
    """
    shared = sorted({int(key) for held in stored for key in shared_keys(held, new)})
    if not shared:
        return
    n = len(shared)
    cells = f"{n:,} cell has" if n == 1 else f"{n:,} cells have"
    raise DataError(
        f"{cells} a score from an earlier append already, first "
        f"{'; '.join(new.label(key) for key in shared[:2])}",
        fresh.source,
        "Leave these rows out; if they are repeated calls begin a store with --replicates, "
        "if another answer was scored give it a generation of its own",
    )
