"""The tables on which REML is compared, each with its terms; no data but one formula's."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

HERE = Path(__file__).parent
FIT_R = HERE / "fit.R"
VALUES = HERE / "golden.json"
ROOT = HERE.parents[2]


class Absent(Exception):  # noqa: N818
    """The data of a case are not on this machine; the message says which and why."""


@dataclass(frozen=True)
class Case:
    """One table and an all-random model of crossed intercepts.

    Attributes
    ----------
    name : str
    table : function
        Returns a data frame with a column for each facet and the response.
    response : str
    facets : dict
        bayesjudge's facet of each column of the table.
    terms : tuple of tuple of str
        Columns of each random intercept. Interactions that the table cannot tell
        from the residual (one score a cell) are not among them.
    """

    name: str
    table: Callable[[], pd.DataFrame]
    response: str
    facets: dict[str, str]
    terms: tuple[tuple[str, ...], ...]

    @property
    def formula(self) -> str:
        """The model as lme4 takes it."""
        parts = [f"(1 | {':'.join(term)})" for term in self.terms]
        return f"{self.response} ~ 1 + {' + '.join(parts)}"


def rscript(package: str = "lme4") -> str:
    """Return the path of Rscript where a package is installed too."""
    found = shutil.which("Rscript")
    if found is None:
        raise Absent("R is not installed (Rscript is not on the path)")
    asked = subprocess.run([found, "-e", f"library({package})"], capture_output=True, check=False)
    if asked.returncode:
        raise Absent(f"R is installed, but {package} is not")
    return found


def shared_data(*parts: str) -> Path:
    """Return a file of the judge tables that lie beside the project, never in it."""
    named = os.environ.get("BAYESJUDGE_DATA")
    folders = (
        [Path(named)] if named else [ROOT / "shared" / "data", ROOT.parent / "shared" / "data"]
    )
    for folder in folders:
        if folder.joinpath(*parts).exists():
            return folder.joinpath(*parts)
    raise Absent(
        f"{'/'.join(parts)} is in none of {', '.join(map(str, folders))}: "
        "BAYESJUDGE_DATA names the folder of judge tables"
    )


def _of_lme4(name: str) -> Callable[[], pd.DataFrame]:
    @functools.cache
    def table() -> pd.DataFrame:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "table.csv"
            command = [rscript(), str(FIT_R), "export", name, str(path)]
            subprocess.run(command, check=True, capture_output=True)
            return pd.read_csv(path, dtype=str, keep_default_na=False)

    return table


def simulated() -> pd.DataFrame:
    """6 backbones x 24 scenarios x 4 judges, 15 % of the scores missing at random."""
    rng = np.random.Generator(np.random.PCG64(20240607))
    shape = (6, 24, 4)
    b, s, j = (axis.ravel() for axis in np.indices(shape))
    score = (
        6.0
        + 0.8 * rng.standard_normal(6)[b]
        + 0.6 * rng.standard_normal(24)[s]
        + 0.5 * rng.standard_normal(4)[j]
        + 0.4 * rng.standard_normal((6, 24))[b, s]
        + 0.3 * rng.standard_normal((6, 4))[b, j]
        + 0.2 * rng.standard_normal((24, 4))[s, j]
        + 0.7 * rng.standard_normal(b.size)
    )
    kept = np.sort(rng.permutation(b.size)[: b.size - round(0.15 * b.size)])
    columns = {"backbone": b, "scenario": s, "judge": j}
    frame = pd.DataFrame({n: np.char.mod(f"{n}-%02d", c) for n, c in columns.items()})
    return frame.assign(score=score).iloc[kept].reset_index(drop=True)


def _hanna_coherence() -> pd.DataFrame:
    table = pd.read_csv(shared_data("hanna", "llm_judges.csv"), dtype={"scenario": str})
    return table[table["criterion"] == "coherence"][["model", "scenario", "judge", "score"]]


def _devai() -> pd.DataFrame:
    """Fraction of a task's requirements that are met, over the three frameworks."""
    table = pd.read_parquet(shared_data("devai_multilingual", "verdicts.parquet"))
    cells = table.groupby(["judge", "language", "scenario"], as_index=False)["score"].mean()
    return cells.astype({"scenario": str})


def _mt_bench() -> pd.DataFrame:
    path = shared_data("mt_bench_forks", "scores.csv")
    table = pd.read_csv(path, dtype={"scenario": str})
    kept = (table["turn"] == 1) & (table["score_raw"] != -1)
    return table[kept][["model", "scenario", "score_raw"]]


CASES = (
    Case(
        "simulated",
        simulated,
        "score",
        {"backbone": "backbone", "scenario": "scenario", "judge": "judge"},
        (
            ("backbone",),
            ("scenario",),
            ("judge",),
            ("backbone", "scenario"),
            ("backbone", "judge"),
            ("scenario", "judge"),
        ),
    ),
    Case(
        "penicillin",
        _of_lme4("Penicillin"),
        "diameter",
        {"sample": "backbone", "plate": "scenario"},
        (("plate",), ("sample",)),
    ),
    Case(
        "pastes",
        _of_lme4("Pastes"),
        "strength",
        {"batch": "backbone", "sample": "scenario"},
        (("batch",), ("sample",)),
    ),
    Case("dyestuff2", _of_lme4("Dyestuff2"), "Yield", {"Batch": "backbone"}, (("Batch",),)),
    Case(
        "insteval",
        _of_lme4("InstEval"),
        "y",
        {"dept": "backbone", "s": "scenario", "d": "lecturer", "service": "service"},
        (("service",), ("s",), ("d",), ("dept",)),
    ),
    Case(
        "hanna_coherence",
        _hanna_coherence,
        "score",
        {"model": "backbone", "scenario": "scenario", "judge": "judge"},
        (
            ("model",),
            ("scenario",),
            ("judge",),
            ("model", "scenario"),
            ("model", "judge"),
            ("scenario", "judge"),
        ),
    ),
    Case(
        "devai_multilingual",
        _devai,
        "score",
        {"judge": "backbone", "language": "language", "scenario": "scenario"},
        (
            ("judge",),
            ("language",),
            ("scenario",),
            ("judge", "language"),
            ("judge", "scenario"),
            ("language", "scenario"),
        ),
    ),
    # Only the model that two forks judged has two scores a cell: they identify the interaction.
    Case(
        "mt_bench_forks",
        _mt_bench,
        "score_raw",
        {"model": "backbone", "scenario": "scenario"},
        (("model",), ("scenario",), ("model", "scenario")),
    ),
)
