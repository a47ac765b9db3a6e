"""A simulated table of MT-Bench's shape, from published judge means and components."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from bayesjudge.errors import UsageError

if TYPE_CHECKING:
    import pandas as pd

DEMO_SOURCE = (
    "Simulated, not measured: gaussian scores (not clipped to 1-10) with the judge means of "
    "CyclicJudge's Table 1 and the variance components of its Table 2 (MT-Bench). The published "
    "scenario variances are per backbone; half the smallest is taken as shared by all backbones"
)


def demo_table(generations: int = 10, random_seed: int = 0) -> pd.DataFrame:
    """Simulate 5 backbones x 80 scenarios x 5 judges.

    Each cell of backbone and judge has its published mean. The paper gives one
    scenario variance a backbone and not how much of it backbones share: half
    the smallest is taken as shared, the rest as the backbone's own. Generation
    and residual variances are each backbone's published ones. Scores are
    gaussian and not clipped to the scale.

    Parameters
    ----------
    generations : int
        Answers sampled for each backbone and scenario; the paper has 10.
    random_seed : int

    Returns
    -------
    pandas.DataFrame
        Columns backbone, scenario, generation (where there are several), judge,
        score.

    Raises
    ------
    UsageError
        Where there is not at least one generation, or the seed is negative.
    """
    import pandas as pd

    if generations < 1:
        raise UsageError(f"generations is {generations}", remedy="There must be at least one")
    if random_seed < 0:
        raise UsageError(f"random_seed is {random_seed}", remedy="It must be at least 0")
    text = Path(__file__).with_name("mt_bench.toml").read_text(encoding="utf-8")
    published = tomllib.loads(text)
    backbones = tuple(published["means"])
    means = np.array([list(row.values()) for row in published["means"].values()])
    scenario, generation, residual = (
        np.array([published["variances"][part][b] for b in backbones])[:, None, None, None]
        for part in ("scenario", "generation", "residual")
    )
    n = published["scenarios"]
    shape = (len(backbones), n, generations, means.shape[1])
    shared = scenario.min() / 2
    rng = np.random.default_rng(random_seed)
    score = (
        means[:, None, None, :]
        + np.sqrt(shared) * rng.standard_normal((1, n, 1, 1))
        + np.sqrt(scenario - shared) * rng.standard_normal((shape[0], n, 1, 1))
        + np.sqrt(generation) * rng.standard_normal((*shape[:3], 1))
        + np.sqrt(residual) * rng.standard_normal(shape)
    )
    labels = {
        "backbone": list(backbones),
        "scenario": [f"question-{i:02d}" for i in range(1, n + 1)],
        "generation": [f"{i:0{len(str(generations))}d}" for i in range(1, generations + 1)],
        "judge": list(published["means"][backbones[0]]),
    }
    columns = {
        name: pd.Series(np.array(names, dtype=object)[codes], dtype=object)
        for (name, names), codes in zip(
            labels.items(), np.indices(shape).reshape(4, -1), strict=True
        )
        if name != "generation" or generations > 1
    }
    return pd.DataFrame({**columns, "score": score.ravel()})
