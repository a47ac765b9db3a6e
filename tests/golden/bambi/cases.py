"""The tables and priors on which Bambi is compared: two that a formula makes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

HERE = Path(__file__).parent
VALUES = HERE / "golden.json"


@dataclass(frozen=True)
class Case:
    """One table and a model of random intercepts, their priors the same in both packages.

    Attributes
    ----------
    name, family : str
    table : function
        Returns a data frame of the facets, ``score`` and the covariate, which is
        centred and scaled.
    intercept : (mean, sd)
        Of its normal prior.
    scales : dict of float
        Width of the half-normal prior of each facet's sd.
    residual : float or None
        The same of the residual sd.
    slope : float or None
        Sd of the normal prior of the covariate ``length``'s slope.
    """

    name: str
    family: str
    table: Callable[[], pd.DataFrame]
    intercept: tuple[float, float]
    scales: dict[str, float]
    residual: float | None = None
    slope: float | None = None

    @property
    def formula(self) -> str:
        """The model as Bambi takes it."""
        slope = " + length" if self.slope else ""
        return f"score ~ 1{slope} + " + " + ".join(f"(1|{facet})" for facet in self.scales)


def crossed(seed: int, **sizes: int) -> tuple[pd.DataFrame, np.ndarray, np.random.Generator]:
    """Return every crossing of the facets, and the sum of effects of standard deviation 0.8."""
    rng = np.random.Generator(np.random.PCG64(seed))
    codes = [axis.ravel() for axis in np.indices(tuple(sizes.values()))]
    frame = pd.DataFrame(
        {n: np.char.mod(f"{n}-%02d", c) for n, c in zip(sizes, codes, strict=True)}
    )
    effects = [0.8 * rng.standard_normal(n)[c] for n, c in zip(sizes.values(), codes, strict=True)]
    return frame, np.sum(effects, axis=0), rng


def scores() -> pd.DataFrame:
    """5 backbones x 12 scenarios x 6 judges, a tenth of the scores missing."""
    frame, mean, rng = crossed(20240612, backbone=5, scenario=12, judge=6)
    frame["score"] = (5.0 + mean + 0.7 * rng.standard_normal(len(frame))).round(3)
    return frame.sample(frac=0.9, random_state=1).sort_index().reset_index(drop=True)


def verdicts() -> pd.DataFrame:
    """5 backbones x 20 scenarios x 5 judges, on a covariate."""
    frame, mean, rng = crossed(20240613, backbone=5, scenario=20, judge=5)
    length = rng.standard_normal(len(frame))
    length = (length - length.mean()) / length.std()
    latent = 0.4 + mean + 0.6 * length
    frame["length"] = length
    return frame.assign(
        score=(rng.uniform(size=len(frame)) < 1 / (1 + np.exp(-latent))).astype(int)
    )


CASES = (
    Case(
        "scores",
        "gaussian",
        scores,
        (5.0, 2.0),
        {"backbone": 2.0, "scenario": 1.0, "judge": 1.0},
        residual=1.0,
    ),
    Case(
        "verdicts",
        "bernoulli",
        verdicts,
        (0.0, 2.5),
        {"backbone": 1.5, "scenario": 1.5, "judge": 1.5},
        slope=1.0,
    ),
)
