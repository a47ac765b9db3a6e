"""``convert``: logs and wide tables to one score table, to a file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from bayesjudge.cli.messages import print_json, say, say_problems, working
from bayesjudge.cli.options import named_together, one_or_many, pairs_of
from bayesjudge.cli.table_files import checked_target, table_bytes, write_file
from bayesjudge.errors import DataError, UsageError
from bayesjudge.scores import CANONICAL_FACETS
from bayesjudge.scores.building import read_problems, read_source
from bayesjudge.scores.checking import parse_number
from bayesjudge.scores.columns import Wishes
from bayesjudge.scores.raw import RawTable, text_of

_NUMBERS = ("score", "human_score")


@dataclass(frozen=True)
class ConvertOptions:
    """How sources are converted, as it was given."""

    format: str | None = None
    constant: Sequence[str] | None = None
    ignore: Sequence[str] | None = None
    strict: bool = False
    force: bool = False


def run_convert(
    sources: Sequence[str], out: str, given: ConvertOptions, json: bool, quiet: bool
) -> None:
    """Read the sources, say what was lost and assumed, and write the table."""
    path = checked_target(out, given.force)
    constants = pairs_of(given.constant, "--constant", "COL=LABEL")
    with working("reading", not (json or quiet)):
        wishes = Wishes(ignore=tuple(given.ignore or ()))
        table = read_source(one_or_many(sources), given.format, wishes)
    problems = read_problems(table, given.strict)
    say_problems(problems, quiet)
    errors = [problem for problem in problems if problem.severity == "error"]
    if errors:
        raise DataError(
            f"nothing was written, as {len(errors)} findings are errors with --strict",
            named_together(sources),
        )
    columns = {name: column for name, column in _cells(table).items() if name not in wishes.ignore}
    columns = _with_constants(columns, constants, table)
    if path.suffix.lower() == ".csv":
        _check_labels(columns, table)
    write_file(path, table_bytes(columns, path.suffix.lower()))
    n_scores = sum(parse_number(value) == parse_number(value) for value in columns.get("score", ()))
    if json:
        print_json(
            {
                "file": out,
                "n_rows": table.n_rows,
                "n_scores": n_scores,
                "columns": list(columns),
                "sources": _sources(table),
                "problems": [asdict(problem) for problem in problems],
            }
        )
    say(f"{table.n_rows:,} rows, {n_scores:,} of them with a score, written to {out}")


def _sources(table: RawTable) -> list[dict[str, Any]]:
    """List what the rows are from: logs by the label they have in the table, or files."""
    if "log" not in table.columns:
        return [{"name": name, "n_rows": rows} for name, rows in table.parts]
    labels = table.columns["log"].labels
    return [
        {"name": level, "n_rows": int((labels.codes == code).sum())}
        for code, level in enumerate(labels.levels)
    ]


def _cells(table: RawTable) -> dict[str, list[Any]]:
    """Return columns of numbers or of labels: what a file of any kind can hold."""
    found: dict[str, list[Any]] = {}
    for name, column in table.columns.items():
        coded = column.coded
        if name in _NUMBERS:
            values: list[Any] = [_number(value) for value in coded.values]
        else:
            values = [text_of(value) for value in coded.values]
        whole = [*values, None]
        # True nulls have the code -1, the last.
        found[name] = [whole[code] for code in coded.codes]
    return found


def _number(value: object) -> float | None:
    found = parse_number(value)
    return found if found == found else None


def _with_constants(
    columns: dict[str, list[Any]], constants: Sequence[tuple[str, str]], table: RawTable
) -> dict[str, list[Any]]:
    """Add columns of one label, or fill such a column where some rows lack it."""
    for name, label in constants:
        if name == "score":
            raise UsageError("a score is no constant", "--constant score", "Leave it out")
        own = columns.get(name, [None] * table.n_rows)
        if name in columns and all(value is not None for value in own):
            raise UsageError(
                f"every row has a {name} already", f"--constant {name}={label}", "Leave it out"
            )
        columns = {name: [label if value is None else value for value in own]} | {
            other: column for other, column in columns.items() if other != name
        }
    return columns


def _check_labels(columns: dict[str, list[Any]], table: RawTable) -> None:
    """Refuse to write a missing label as an empty one, which would be a label of its own.

    Raises
    ------
    DataError
        Naming the column.
    """
    for name in CANONICAL_FACETS:
        lacking = [row for row, value in enumerate(columns.get(name, ())) if value is None]
        if lacking:
            raise DataError(
                f"{len(lacking):,} rows have no {name}, which CSV cannot tell from an empty label",
                f"column {name!r}, {table.name_rows(lacking)}",
                f"Write .parquet or .jsonl, or fill it in with --constant {name}=LABEL",
            )
