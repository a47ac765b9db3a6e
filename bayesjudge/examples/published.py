"""Published judge means and variance components, and tables simulated from them."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bayesjudge.closed_form.cyclic import judge_offsets
from bayesjudge.closed_form.panel_variance import PanelComponents, panel_components
from bayesjudge.errors import UsageError

type Floats = NDArray[np.float64]

BENCHMARKS = ("mt_bench", "mindeval")


@dataclass(frozen=True, eq=False)
class Published:
    """What CyclicJudge's tables 1 and 2 say of a benchmark.

    Attributes
    ----------
    source : str
    backbones, judges : tuple of str
    n_scenarios, n_generations : int
    means : (B, K) float array
        Mean score that a judge gave to a backbone.
    components : PanelComponents
        Arrays (B,), as printed.
    """

    source: str
    backbones: tuple[str, ...]
    judges: tuple[str, ...]
    n_scenarios: int
    n_generations: int
    means: Floats
    components: PanelComponents

    @property
    def offsets(self) -> Floats:
        """Offsets of judges by backbone, (B, K), their mean square that of table 2."""
        offset = judge_offsets(self.means)
        size = np.sqrt(self.components.judge / np.mean(offset**2, axis=1))
        return np.asarray(offset * size[:, None])


def published(benchmark: str) -> Published:
    """Return the figures of a benchmark.

    Parameters
    ----------
    benchmark : {"mt_bench", "mindeval"}

    Raises
    ------
    UsageError
        Where the benchmark is not known.
    """
    if benchmark not in BENCHMARKS:
        raise UsageError(f"no benchmark {benchmark!r}", remedy=f"One of {', '.join(BENCHMARKS)}")
    path = Path(__file__).with_name(f"{benchmark}.toml")
    found = tomllib.loads(path.read_text(encoding="utf-8"))
    backbones = tuple(found["means"])
    parts = {name: [part[b] for b in backbones] for name, part in found["variances"].items()}
    return Published(
        source=found["source"],
        backbones=backbones,
        judges=tuple(found["means"][backbones[0]]),
        n_scenarios=found["scenarios"],
        n_generations=found["generations"],
        means=np.array([list(row.values()) for row in found["means"].values()]),
        components=panel_components(**parts),
    )


def simulated_scores(figures: Published, rng: np.random.Generator) -> Floats:
    """Draw complete scores from equation 1, each backbone by itself.

    Returns
    -------
    (B, n, m, K) float array
        Gaussian, not clipped to the scale.
    """
    shape = (len(figures.backbones), figures.n_scenarios, figures.n_generations)
    parts = figures.components
    mean = figures.means.mean(axis=1)[:, None] + figures.offsets
    sds = {
        name: np.sqrt(getattr(parts, name))[:, None, None, None]
        for name in ("scenario", "generation", "residual")
    }
    return np.asarray(
        mean[:, None, None, :]
        + sds["scenario"] * rng.standard_normal((*shape[:2], 1, 1))
        + sds["generation"] * rng.standard_normal((*shape, 1))
        + sds["residual"] * rng.standard_normal((*shape, len(figures.judges)))
    )
