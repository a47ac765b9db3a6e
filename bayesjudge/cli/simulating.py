"""``simulate``: a table from a model, to a file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bayesjudge.cli.messages import print_json, say
from bayesjudge.cli.options import number_pairs
from bayesjudge.cli.table_files import (
    check_free,
    checked_target,
    table_bytes,
    write_file,
    write_pieces,
)
from bayesjudge.errors import UsageError
from bayesjudge.report.json_text import to_json
from bayesjudge.simulation import Simulation, simulate


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
    stream: bool


def run_simulate(
    file: str, given: SimulateOptions, truth: str | None, force: bool, json: bool
) -> None:
    """Write the table and, where asked, the truth."""
    if truth is not None and Path(truth).resolve() == Path(file).resolve():
        raise UsageError("table and truth would be one file", "--truth", "Name another file")
    path = checked_target(file, force)
    if truth is not None:
        check_free(Path(truth), force)
    if given.stream:
        _write_stream(path, given, truth, json)
        return
    made = _simulate(given)
    truth_text = to_json(made.truth, indent=2) + "\n"
    columns = {str(name): made.table[name].tolist() for name in made.table.columns}
    write_file(path, table_bytes(columns, path.suffix.lower()))
    if truth is not None:
        write_file(Path(truth), truth_text.encode())
    _tell(file, len(made.table), list(made.table.columns), given, made.truth, json)


def _tell(
    file: str,
    n_rows: int,
    columns: list[str],
    given: SimulateOptions,
    truth: dict[str, Any],
    json: bool,
) -> None:
    if json:
        said = {"file": file, "n_rows": n_rows, "columns": columns, "seed": given.seed}
        print_json({**said, "truth": truth})
    say(f"{n_rows:,} simulated scores written to {file}, seed {given.seed}")


def _write_stream(path: Path, given: SimulateOptions, truth: str | None, json: bool) -> None:
    """Write a table that never is in memory whole."""
    for no, option in ((given.one_judge, "--one-judge"), (given.scale is not None, "--scale")):
        if no:
            raise UsageError(f"{option} is not for streams", "--stream", "Leave one of them out")
    if path.suffix.lower() != ".parquet":
        raise UsageError(
            "only Parquet files are written in pieces", "--stream", "End the name in .parquet"
        )
    from bayesjudge.simulated_streams import COLUMNS, simulate_stream

    made = simulate_stream(given.model, **_asked(given))
    always = ("backbone", "judge", "scenario")
    labels = {n: made.labels[n] for n in COLUMNS if n in always or len(made.labels[n]) > 1}
    n_rows = write_pieces(path, labels, made.pieces())
    if truth is not None:
        write_file(Path(truth), (to_json(made.truth, indent=2) + "\n").encode())
    _tell(str(path), n_rows, [*labels, "score"], given, made.truth, json)


def _asked(given: SimulateOptions) -> dict[str, Any]:
    """Return what tables in memory and streams are asked alike."""
    sd = number_pairs(given.sd, "--sd", "TERM=SD")
    means = number_pairs(given.mean, "--mean", "BACKBONE=MEAN")
    for name, values in means.items():
        if len(values) != 1:
            raise UsageError(f"{name!r} has {len(values)} means", "--mean", "Give one number")
    return {
        "backbones": given.backbones,
        "scenarios": given.scenarios,
        "judges": given.judges,
        "generations": given.generations,
        "languages": given.languages,
        "sd": sd,
        "means": {name: values[0] for name, values in means.items()} or None,
        "unit": given.unit,
        "location": given.location,
        "missing": given.missing_fraction,
        "random_seed": given.seed,
    }


def _simulate(given: SimulateOptions) -> Simulation:
    return simulate(given.model, **_asked(given), scale=given.scale, one_judge=given.one_judge)
