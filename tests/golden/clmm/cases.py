"""The tables on which ordinal::clmm is compared: its own wine, and one that a formula makes."""

from __future__ import annotations

import functools
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from tests.golden.reml.cases import rscript

HERE = Path(__file__).parent
FIT_R = HERE / "fit.R"
VALUES = HERE / "golden.json"


@dataclass(frozen=True)
class Case:
    """One table and a cumulative model of a panel facet, a covariate and random judges.

    Attributes
    ----------
    name : str
    table : function
        Returns a data frame with the columns below, and ``judge``.
    response, system, covariate : str
        Columns of the categories, of the facet that bayesjudge calls backbone,
        and of a number.
    link : {"logit", "probit"}
    """

    name: str
    table: Callable[[], pd.DataFrame]
    response: str
    system: str
    covariate: str
    link: str

    @property
    def formula(self) -> str:
        """The model as clmm takes it."""
        return f"{self.response} ~ {self.system} + {self.covariate} + (1 | judge)"


@functools.cache
def wine() -> pd.DataFrame:
    """Randall's bitterness of wine: 72 ratings by nine judges, out of R's ordinal."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.csv"
        command = [rscript("ordinal"), str(FIT_R), "export", "wine", str(path)]
        subprocess.run(command, check=True, capture_output=True)
        table = pd.read_csv(path)
    return table.assign(touched=(table["contact"] == "yes").astype(float))


def simulated() -> pd.DataFrame:
    """Give 3 systems to 14 judges, 8 scores each on 4 steps; latent residuals are normal."""
    rng = np.random.Generator(np.random.PCG64(20240611))
    system, judge, _ = (axis.ravel() for axis in np.indices((3, 14, 8)))
    length = rng.standard_normal(system.size).round(3)
    latent = (
        np.array([0.0, 0.5, 1.2])[system]
        + 0.9 * rng.standard_normal(14)[judge]
        + 0.4 * length
        + rng.standard_normal(system.size)
    )
    score = 1 + (latent[:, None] > np.array([-0.6, 0.5, 1.7])).sum(axis=1)
    names = {"system": system, "judge": judge}
    frame = pd.DataFrame({n: np.char.mod(f"{n}-%02d", c) for n, c in names.items()})
    return frame.assign(length=length, score=score)


CASES = (
    Case("wine", wine, "rating", "temp", "touched", "logit"),
    Case("wine by probit", wine, "rating", "temp", "touched", "probit"),
    Case("simulated", simulated, "score", "system", "length", "probit"),
    Case("simulated by logit", simulated, "score", "system", "length", "logit"),
)
