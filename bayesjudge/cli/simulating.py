"""``simulate``: a table from a model, to a file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bayesjudge.cli.messages import print_json, say
from bayesjudge.cli.options import number_pairs
from bayesjudge.cli.writing import check_target, write_whole
from bayesjudge.errors import UsageError
from bayesjudge.report.json_text import to_json
from bayesjudge.simulation import Simulation, simulate

if TYPE_CHECKING:
    import pandas as pd

SUFFIXES = (".csv", ".jsonl", ".parquet")


@dataclass(frozen=True)
class SimulateOptions:
    """What to simulate, as it was given."""

    model: str
    backbones: int
    scenarios: int
    judges: int
    generations: int
    languages: int
    sd: Sequence[str] | None
    mean: Sequence[str] | None
    unit: float | None
    location: float | None
    scale: tuple[int, int] | None
    missing_fraction: float
    one_judge: bool
    seed: int


def run_simulate(
    file: str, given: SimulateOptions, truth: str | None, force: bool, json: bool
) -> None:
    """Write the table and, where asked, the truth."""
    path = Path(file)
    if path.suffix.lower() not in SUFFIXES:
        raise UsageError(
            f"no table is written to {path.name!r}", file, f"End the name in {', '.join(SUFFIXES)}"
        )
    if truth is not None and Path(truth).resolve() == path.resolve():
        raise UsageError("table and truth would be one file", "--truth", "Name another file")
    for target in (file, *([truth] if truth is not None else [])):
        check_target(Path(target), force)
    made = _simulate(given)
    truth_text = to_json(made.truth, indent=2) + "\n"
    write_whole(path, _table_bytes(made.table, path.suffix.lower()))
    if truth is not None:
        write_whole(Path(truth), truth_text.encode())
    if json:
        print_json(
            {
                "file": file,
                "n_rows": len(made.table),
                "columns": list(made.table.columns),
                "seed": given.seed,
                "truth": made.truth,
            }
        )
    say(f"{len(made.table):,} simulated scores written to {file}, seed {given.seed}")


def _simulate(given: SimulateOptions) -> Simulation:
    sd = number_pairs(given.sd, "--sd", "TERM=SD")
    means = number_pairs(given.mean, "--mean", "BACKBONE=MEAN")
    for name, values in means.items():
        if len(values) != 1:
            raise UsageError(f"{name!r} has {len(values)} means", "--mean", "Give one number")
    return simulate(
        given.model,
        backbones=given.backbones,
        scenarios=given.scenarios,
        judges=given.judges,
        generations=given.generations,
        languages=given.languages,
        sd=sd,
        means={name: values[0] for name, values in means.items()} or None,
        unit=given.unit,
        location=given.location,
        scale=given.scale,
        missing=given.missing_fraction,
        one_judge=given.one_judge,
        random_seed=given.seed,
    )


def _table_bytes(table: pd.DataFrame, suffix: str) -> bytes:
    if suffix == ".csv":
        return str(table.to_csv(index=False, lineterminator="\n")).encode()
    if suffix == ".jsonl":
        columns: dict[str, Any] = {str(n): table[n].tolist() for n in table.columns}
        rows = zip(*columns.values(), strict=True)
        return "".join(
            to_json(dict(zip(columns, row, strict=True))) + "\n" for row in rows
        ).encode()
    return _parquet(table)


def _parquet(table: pd.DataFrame) -> bytes:
    import pyarrow as pa
    from pyarrow import parquet

    arrays = {
        str(name): np.asarray(table[name]) if table[name].dtype.kind == "f" else list(table[name])
        for name in table.columns
    }
    sink = pa.BufferOutputStream()
    parquet.write_table(pa.table(arrays), sink)
    return bytes(sink.getvalue().to_pybytes())
