"""Inspect AI logs, ``.eval`` archives and ``.json`` files, of any number of scorers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bayesjudge.scores.formats.archives import UNKNOWN, Archive, open_archive
from bayesjudge.scores.formats.cells import (
    Unreadable,
    first_line,
    many,
    maybe,
    name_of,
    optional_text,
)
from bayesjudge.scores.formats.findings import Cell, Counted, Finding, Lost, Repeated, Row
from bayesjudge.scores.formats.inspect_own import read_with_inspect
from bayesjudge.scores.formats.inspect_samples import (
    PLACEHOLDER,
    Part,
    Sample,
    Scorer,
    judges_of,
    scorers_of,
    take_sample,
)
from bayesjudge.scores.formats.json_text import decode_json
from bayesjudge.scores.formats.records import read_document
from bayesjudge.scores.problems import Problem

NEWEST = 2
"""Version of the log's schema that this reader was made for."""

_SAMPLES = "samples/"


@dataclass(frozen=True)
class Found:
    """A log before it becomes rows: its header's parts, its samples, and what was lost."""

    header: Mapping[str, Any]
    status: str
    results: Mapping[str, Any]
    version: Any
    samples: list[Sample]
    asides: list[Finding]


def read_inspect(path: Path) -> Iterator[Finding]:
    """Read an Inspect log, of either kind.

    Raises
    ------
    DataError
        Where nothing of it can be read, or its version is newer than this reader.
    """
    with path.open("rb") as file:
        is_archive = file.read(2) == b"PK"
    found = _read_archive(path) if is_archive else _read_json(path)
    why = _why_inspect_itself(found)
    if why is not None:
        found = _from_log(read_with_inspect(path, why))
    yield from _rows(found)
    if isinstance(found.version, int) and found.version > NEWEST:
        yield Problem(
            "warning",
            f"the log is of version {found.version}, newer than {NEWEST}, the newest that is "
            "known here; it was read as if it were of that",
            remedy="Check the number of samples, or update bayesjudge",
        )


def _why_inspect_itself(found: Found) -> str | None:
    """Say what keeps this reader from a log of which it could read no sample."""
    if found.samples:
        return None
    packed = [lost.why for lost in found.asides if isinstance(lost, Lost) and UNKNOWN in lost.why]
    if packed:
        return packed[0]
    if isinstance(found.version, int) and found.version > NEWEST:
        return f"its version is {found.version}, newer than {NEWEST}"
    return None


def _from_log(log: Mapping[str, Any]) -> Found:
    samples, lost = [], []
    for place, value in enumerate(many(log.get("samples")), start=1):
        taken = _take(value)
        if isinstance(taken, Sample):
            samples.append(taken)
        else:
            lost.append(Lost(f"sample {place}", taken))
    return Found(
        maybe(log.get("eval")),
        name_of(log.get("status")) or "unknown",
        maybe(log.get("results")),
        log.get("version"),
        samples,
        [*lost],
    )


def _read_json(path: Path) -> Found:
    document = read_document(path, [("samples",)], _take)
    samples, lost = [], []
    for record in document.records:
        if isinstance(record.value, Sample):
            samples.append(record.value)
        else:
            lost.append(Lost(record.name, record.value))
    return Found(
        maybe(document.field("eval")),
        name_of(document.field("status")) or "unknown",
        maybe(document.field("results")),
        document.field("version"),
        samples,
        [*lost, *document.asides],
    )


def _take(value: Any) -> Sample | str:
    try:
        return take_sample(value)
    except Unreadable as error:
        return first_line(error)


def _read_archive(path: Path) -> Found:
    archive = open_archive(path)
    with archive.file:
        asides: list[Finding] = []
        head: Any = {}
        for name in ("header.json", "_journal/start.json"):
            if name in archive.members:
                try:
                    head = decode_json(_text(archive, name))
                    break
                except (Unreadable, ValueError, RecursionError) as error:
                    asides.append(Lost(f"the member {name}", first_line(error)))
        samples = []
        for name in archive.members:
            if not _is_sample(name):
                continue
            try:
                samples.append(take_sample(_sample(archive, name)))
            except (Unreadable, ValueError, RecursionError) as error:
                asides.append(Lost(f"the member {name}", first_line(error)))
    if archive.cut_short:
        asides.append(
            Problem(
                "warning",
                "the archive's list of members is damaged or missing; members were looked for "
                "one by one",
                str(path),
                remedy="Copy the log again, or mend it with `inspect log recover`",
            )
        )
    fields = maybe(head)
    status = name_of(fields.get("status")) or ("started" if fields else "unknown")
    version = fields.get("version")
    return Found(
        maybe(fields.get("eval")), status, maybe(fields.get("results")), version, samples, asides
    )


def _is_sample(name: str) -> bool:
    """Whether a member is a sample: one whole, or the shell of one in pieces."""
    if not name.startswith(_SAMPLES) or not name.endswith(".json"):
        return False
    return "/" not in name[len(_SAMPLES) :] or name.endswith("/sample.json")


def _text(archive: Archive, name: str) -> str:
    return archive.read(name).decode("utf-8", "surrogateescape")


def _sample(archive: Archive, name: str) -> Any:
    value = decode_json(_text(archive, name))
    beside = f"{name.removesuffix('/sample.json')}/metadata.json"
    if isinstance(value, dict) and beside in archive.members and not value.get("metadata"):
        value["metadata"] = decode_json(_text(archive, beside))
    return value


def _rows(found: Found) -> Iterator[Finding]:
    yield from found.asides
    samples, repeated = _without_repeats(found.samples)
    yield from repeated
    scorers = scorers_of(found.header)
    judges = judges_of(samples, scorers)
    common: dict[str, Cell] = {
        "backbone": name_of(found.header.get("model")),
        "status": found.status,
    }
    task = name_of(found.header.get("task"))
    if task is not None:
        common["task_name"] = task
    seen = _seen(samples, scorers, judges, found)
    panels: set[str] = set()
    for sample in samples:
        own = {**common, "scenario": sample.id, "generation": sample.epoch, **sample.fields}
        for why in sample.lost:
            yield Lost(sample.name, why)
        if sample.unscored is not None:
            for cells in seen or [{}]:
                yield Row({**own, **cells, "score": None, "failure": sample.unscored})
            continue
        for scorer, parts in sample.scores:
            for part in parts:
                cells = _instrument(scorer, part, scorers, judges, found)
                if part.member is None and len(_models(scorer, scorers)) > 1:
                    panels.add(scorer)
                yield Row({**own, **cells, **part.cells})
    yield Counted(len(samples), "sample", "samples")
    yield from _remarks(found, samples, scorers, panels)


def _without_repeats(samples: Iterable[Sample]) -> tuple[list[Sample], list[Finding]]:
    """Leave out samples that say what an earlier one says, of the same id and epoch."""
    first: dict[tuple[str, str], list[Sample]] = {}
    kept: list[Sample] = []
    repeated: list[Finding] = []
    for sample in samples:
        others = first.setdefault((sample.id, sample.epoch), [])
        if sample in others:
            repeated.append(Repeated(sample.name))
            continue
        others.append(sample)
        kept.append(sample)
    return kept, repeated


def _models(scorer: str, scorers: Mapping[str, Scorer]) -> tuple[str, ...]:
    return scorers[scorer].models if scorer in scorers else ()


def _instrument(
    scorer: str,
    part: Part,
    scorers: Mapping[str, Scorer],
    judges: Mapping[str, str | None],
    found: Found,
) -> dict[str, Cell]:
    """Name the judge, the scorer and the criterion of one number."""
    models = _models(scorer, scorers)
    name = _plain_name(scorer, found)
    base = scorers[scorer].name if scorer in scorers else name
    if part.member is not None:
        judge = models[part.member] if part.member < len(models) else f"{name} {part.member + 1}"
    elif len(models) > 1:
        judge = f"vote of {', '.join(models)}"
    else:
        judge = part.judge or judges.get(scorer) or name
    cells: dict[str, Cell] = {"judge": judge, "scorer": name, "criterion": part.key or base}
    if part.element is not None:
        cells["element"] = part.element
    return cells


def _plain_name(scorer: str, found: Found) -> str:
    if scorer != PLACEHOLDER:
        return scorer
    named = maybe(next(iter(many(found.results.get("scores"))), None))
    return (
        name_of(named.get("name"))
        or name_of(maybe(found.results.get("scorer")).get("name"))
        or ("score")
    )


def _seen(
    samples: Iterable[Sample],
    scorers: Mapping[str, Scorer],
    judges: Mapping[str, str | None],
    found: Found,
) -> list[dict[str, Cell]]:
    """List the scores that a sample is expected to have: all that some sample has."""
    seen: dict[tuple[Cell, ...], dict[str, Cell]] = {}
    for sample in samples:
        for scorer, parts in sample.scores:
            for part in parts:
                cells = _instrument(scorer, part, scorers, judges, found)
                seen.setdefault(tuple(cells.values()), cells)
    return list(seen.values())


def _remarks(
    found: Found, samples: list[Sample], scorers: Mapping[str, Scorer], panels: set[str]
) -> Iterator[Finding]:
    if found.status not in ("success", "unknown"):
        yield Problem(
            "warning",
            f"the log's status is {found.status!r}: it may hold part of the samples only",
            remedy="Run the evaluation to its end, or keep whole ones with --where status=success",
        )
    for scorer in sorted(panels):
        yield Problem(
            "warning",
            f"the scorer {scorer!r} asked {len(_models(scorer, scorers))} models and the log "
            "keeps their vote only: it is taken as one judge",
            remedy="Give each model a scorer of its own, to tell the judges apart",
        )
    unanswered = sum(
        part.cells.get("verdict") == "N"
        for sample in samples
        for _, parts in sample.scores
        for part in parts
    )
    if unanswered:
        yield Problem(
            "note",
            f"{unanswered:,} verdicts are N (no answer), which count as 0 as in Inspect's metrics",
            "column 'verdict'",
            unanswered,
            "Leave them out with --where verdict=C --where verdict=P --where verdict=I",
        )
    absent = _absent(found, samples)
    if absent:
        shown = ", ".join(absent[:10]) + (f" and {len(absent) - 10:,} more" if absent[10:] else "")
        yield Problem(
            "warning",
            f"{len(absent):,} samples that the evaluation was of are not in the log: {shown}",
            "the log's list of samples",
        )


def _absent(found: Found, samples: list[Sample]) -> list[str]:
    """Name the samples that the header lists and the log does not hold."""
    ids = [optional_text(i) for i in many(maybe(found.header.get("dataset")).get("sample_ids"))]
    config = maybe(found.header.get("config"))
    limited = config.get("limit") is not None or config.get("sample_id") is not None
    epochs = config.get("epochs")
    n_epochs = epochs if isinstance(epochs, int) and 0 < epochs < 1000 else 1
    if limited or not ids or len(ids) * n_epochs > 10_000_000:
        return []
    there = {(sample.id, sample.epoch) for sample in samples}
    return [
        f"{sample!r} epoch {epoch}"
        for sample in dict.fromkeys(ids)
        if sample is not None
        for epoch in range(1, n_epochs + 1)
        if (sample, str(epoch)) not in there
    ]
