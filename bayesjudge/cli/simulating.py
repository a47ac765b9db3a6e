"""``simulate``: a table from a model, to a file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bayesjudge.cli.messages import print_json, say
from bayesjudge.cli.options import number_pairs
from bayesjudge.cli.table_files import check_free, checked_target, table_bytes, write_file
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


def run_simulate(
    file: str, given: SimulateOptions, truth: str | None, force: bool, json: bool
) -> None:
    """Write the table and, where asked, the truth."""
    if truth is not None and Path(truth).resolve() == Path(file).resolve():
        raise UsageError("table and truth would be one file", "--truth", "Name another file")
    path = checked_target(file, force)
    if truth is not None:
        check_free(Path(truth), force)
    made = _simulate(given)
    truth_text = to_json(made.truth, indent=2) + "\n"
    columns = {str(name): made.table[name].tolist() for name in made.table.columns}
    write_file(path, table_bytes(columns, path.suffix.lower()))
    if truth is not None:
        write_file(Path(truth), truth_text.encode())
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
