"""``assign``: who scores what, to a CSV file."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bayesjudge.assignment import COLUMNS, Assignment, assign
from bayesjudge.cli.messages import print_json, print_tables, say, say_notes
from bayesjudge.cli.options import number_pairs, pairs_of
from bayesjudge.cli.table_files import check_free, write_file
from bayesjudge.errors import DataError, UsageError
from bayesjudge.scores.columns import SYNONYMS

if TYPE_CHECKING:
    import pandas as pd

_MOST_SCENARIOS = 10_000_000


@dataclass(frozen=True)
class AssignOptions:
    """What to assign, as it was given."""

    scenarios: str
    backbone: Sequence[str]
    judge: Sequence[str]
    generations: int = 1
    per_generation: int = 1
    all_judges: bool = False
    share: Sequence[str] | None = None
    no_self: bool = False
    own: Sequence[str] | None = None
    extend: str | None = None
    seed: int = 0


def run_assign(file: str, given: AssignOptions, force: bool, json: bool, quiet: bool) -> None:
    """Write the calls to make, and say how balanced they are."""
    path = Path(file)
    if path.suffix.lower() != ".csv":
        raise UsageError(f"no assignment is written to {path.name!r}", file, "End it in .csv")
    check_free(path, force)
    if given.all_judges and given.per_generation != 1:
        raise UsageError("all judges, or some of them", "--all-judges", "Give one of the two")
    old, existing = (b"", None) if given.extend is None else _read_existing(given.extend)
    found = assign(
        _scenarios(given.scenarios),
        list(given.backbone),
        list(given.judge),
        generations=given.generations,
        per_generation=len(given.judge) if given.all_judges else given.per_generation,
        shares=_shares(given.share),
        no_self=given.no_self,
        own=dict(pairs_of(given.own, "--self", "JUDGE=BACKBONE")) or None,
        random_seed=given.seed,
        existing=existing,
    )
    write_file(path, old + _csv(found.table, heading=existing is None))
    say_notes(_sentences(found, given, file), quiet)
    if not found.connected:
        say("warning: no chain of judges connects all backbones: rank will refuse the table")
    if len(given.backbone) == 1:
        say("warning: there is one backbone: rank needs two")
    if json:
        print_json(
            {
                "file": file,
                "n_calls": len(found.table),
                "n_existing": 0 if existing is None else len(existing),
                "columns": list(COLUMNS),
                "counts": _counts(found.counts),
                "connected": found.connected,
                "self_cells": [{"backbone": b, "judge": j} for b, j in found.self_cells],
                "seed": given.seed,
                "notes": list(found.notes),
            }
        )
        return
    from bayesjudge.report.terminal import frame_table

    print_tables(frame_table(found.counts, "Calls of each judge for each backbone"))


def _counts(table: pd.DataFrame) -> dict[str, dict[str, int]]:
    """Return how many calls, by backbone and judge; a judge may be called "backbone"."""
    judges = [str(name) for name in table.columns[1:]]
    rows = zip(*(table.iloc[:, at].tolist() for at in range(table.shape[1])), strict=True)
    return {backbone: dict(zip(judges, row, strict=True)) for backbone, *row in rows}


def _sentences(found: Assignment, given: AssignOptions, file: str) -> list[str]:
    said = [*found.notes, f"connected: {'yes' if found.connected else 'NO'}"]
    if found.self_cells:
        cells = ", ".join(f"{judge} for {backbone}" for backbone, judge in found.self_cells)
        said.append(
            f"never scored, as the judge's own: {cells}; rank extrapolates these cells additively, "
            "and plain means would be unfair to a backbone whose own judge is lenient"
        )
    said.append(f"written to {file}, seed {given.seed}: fill in the scores, then rank it")
    return said


def _shares(texts: Sequence[str] | None) -> dict[str, int] | None:
    if not texts:
        return None
    shares: dict[str, int] = {}
    for name, values in number_pairs(texts, "--share", "JUDGE=NUMBER").items():
        if len(values) != 1 or not math.isfinite(values[0]) or values[0] != int(values[0]):
            raise UsageError(
                f"the share of {name!r} is no whole number",
                "--share",
                "Give one, as 3",
            )
        shares[name] = int(values[0])
    return shares


def _scenarios(given: str) -> list[str]:
    """Return labels: of so many scenarios, of the lines of a text, of a column of a CSV file."""
    if given.isascii() and given.isdigit():
        if len(given) > len(str(_MOST_SCENARIOS)) or int(given) > _MOST_SCENARIOS:
            raise UsageError(
                f"{given[:30]} scenarios are too many",
                "--scenarios",
                f"Give a number of 1 to {_MOST_SCENARIOS:,}, or a file of labels",
            )
        n = int(given)
        return [f"scenario-{i:0{len(given)}d}" for i in range(1, n + 1)]
    path = Path(given)
    if _is_number(given) and not path.exists():
        raise UsageError(
            f"the number of scenarios is {given}",
            "--scenarios",
            "Give a number of at least 1, or a file of labels",
        )
    labels = _labels(path, _read(path).decode("utf-8-sig", errors="surrogateescape"))
    if not labels:
        raise DataError("the file has no scenarios", given, "Write one label a line")
    return labels


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _labels(path: Path, text: str) -> list[str]:
    if not text.strip():
        raise DataError("the file is empty", str(path), "Write one label of a scenario a line")
    if path.suffix.lower() != ".csv":
        lines = [line for line in text.replace("\r\n", "\n").split("\n") if line]
        return list(dict.fromkeys(lines))
    rows = csv.reader(io.StringIO(text, newline=""))
    header = next(rows, [])
    known = [name for name in ("scenario", *SYNONYMS["scenario"]) if name in header]
    if not known:
        raise DataError(
            "the file has no column of scenarios", str(path), "Call the column scenario"
        )
    at = header.index(known[0])
    return list(dict.fromkeys(row[at] for row in rows if len(row) > at))


def _read_existing(given: str) -> tuple[bytes, pd.DataFrame]:
    import pandas as pd

    content = _read(Path(given))
    text = content.decode("utf-8-sig", errors="surrogateescape")
    header, *rows = list(csv.reader(io.StringIO(text, newline=""))) or [[]]
    if tuple(header) != COLUMNS or any(len(row) != len(COLUMNS) for row in rows):
        raise DataError(
            f"an assignment has the columns {', '.join(COLUMNS)}", given, "Name one of assign's"
        )
    columns = zip(*rows, strict=True) if rows else ([] for _ in COLUMNS)
    table = {n: pd.Series(list(c), dtype=object) for n, c in zip(COLUMNS, columns, strict=True)}
    return content if content.endswith(b"\n") else content + b"\n", pd.DataFrame(table)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise DataError(f"the file cannot be read: {error.strerror}", str(path)) from error


def _csv(table: pd.DataFrame, heading: bool) -> bytes:
    text = str(table.to_csv(index=False, header=heading, lineterminator="\n"))
    return text.encode("utf-8", errors="surrogateescape")
