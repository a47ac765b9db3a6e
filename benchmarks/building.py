"""Writes a workload's table as CSV: ``python -m benchmarks.building NAME SIZE TABLE.csv``."""

from __future__ import annotations

import argparse
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from bayesjudge.examples import demo_table
from bayesjudge.resolution import resolve
from bayesjudge.simulation import simulate_scores
from bayesjudge.spec import Prior, read_model
from benchmarks.ours import read as read_table
from benchmarks.workloads import Workload, workload

SEED = 20240607
MISSING = 0.1


def build(which: Workload, quick: bool = False) -> pd.DataFrame:
    """Return the table of a workload; InstEval's comes out of R."""
    sizes = which.quick_sizes if quick else which.sizes
    if which.name == "W1":
        return mt_bench_table(sizes)
    if which.name == "W2":
        return without(mt_bench_table(sizes), MISSING)
    if which.name == "W7":
        table = mt_bench_table(sizes)
        return table.assign(score=table["score"].round().clip(1, 10).astype(int))
    if which.name == "W4":
        return with_items_in_splits(crossed_table(which, _joined_items(sizes)), sizes)
    if which.name == "W5":
        raise ValueError("InstEval is exported by R: call export_insteval")
    return crossed_table(which, sizes)


def mt_bench_table(sizes: Mapping[str, int]) -> pd.DataFrame:
    """Simulate MT-Bench's shape, its first scenarios only where fewer are asked for."""
    table = demo_table(sizes["generation"], SEED)
    wanted = sorted(table["scenario"].unique())[: sizes["scenario"]]
    return table[table["scenario"].isin(wanted)].reset_index(drop=True)


def without(table: pd.DataFrame, fraction: float) -> pd.DataFrame:
    """Leave scores out at random."""
    rng = np.random.default_rng(SEED)
    kept = rng.permutation(len(table))[: len(table) - round(fraction * len(table))]
    return table.iloc[np.sort(kept)].reset_index(drop=True)


def crossed_table(which: Workload, sizes: Mapping[str, int]) -> pd.DataFrame:
    """Simulate a complete crossing of any facets from the workload's own model."""
    codes = np.indices(tuple(sizes.values())).reshape(len(sizes), -1)
    columns = {
        name: np.char.mod(f"{name}-%0{len(str(sizes[name]))}d", column + 1)
        for name, column in zip(sizes, codes, strict=True)
    }
    table = pd.DataFrame(columns).assign(score=0.0)
    scores = read_table(which, table)
    spec = read_model(which.model)
    if which.is_sampled:
        # The latent scale has a unit and a location of its own.
        fixed = Prior("normal", (1e-9,))
        resolved = resolve(replace(spec, name="fixed", intercept=fixed), scores)
        resolved = replace(resolved, location=which.intercept or 0.0)
    else:
        resolved = resolve(spec, scores, 1.0, 5.0)
    score, _ = simulate_scores(resolved, np.random.default_rng(SEED), sd=which.sd)
    return table.assign(score=score)


def _joined_items(sizes: Mapping[str, int]) -> dict[str, int]:
    kept = {name: n for name, n in sizes.items() if name not in ("split", "item")}
    return {**kept, "scenario": sizes["split"] * sizes["item"]}


def with_items_in_splits(table: pd.DataFrame, sizes: Mapping[str, int]) -> pd.DataFrame:
    """Name scenarios after the split that their item lies in: items recur by number only."""
    code = np.unique(table["scenario"], return_inverse=True)[1]
    split, item = np.divmod(code, sizes["item"])
    labels = np.char.add(np.char.mod("split-%d/", split + 1), np.char.mod("item-%03d", item + 1))
    return table.assign(scenario=labels)


def export_insteval(rscript: str, path: Path, sizes: Mapping[str, int]) -> None:
    """Let R write InstEval; scaled down, keep the first students and frequent lecturers."""
    script = Path(__file__).with_name("lme4.R")
    subprocess.run([rscript, str(script), "insteval", str(path)], check=True)
    table = pd.read_csv(path)
    number = table["scenario"].str.removeprefix("student-").astype(int)
    table = table[number <= sizes["scenario"]]
    frequent = table["lecturer"].map(table["lecturer"].value_counts())
    table[frequent >= sizes["rows_of_lecturer"]].to_csv(path, index=False)


def main() -> None:
    """Write one table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("name")
    parser.add_argument("size", choices=["full", "quick"])
    parser.add_argument("path", type=Path)
    parser.add_argument("--rscript", default="")
    asked = parser.parse_args()
    which, quick = workload(asked.name), asked.size == "quick"
    if which.name == "W5":
        export_insteval(asked.rscript, asked.path, which.quick_sizes if quick else which.sizes)
    else:
        build(which, quick).to_csv(asked.path, index=False)


if __name__ == "__main__":
    main()
