"""What is measured: tables by name, how bayesjudge reads them, and lme4's formula."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

MODELS = Path(__file__).parent / "models"


@dataclass(frozen=True)
class Workload:
    """One table and one model.

    Attributes
    ----------
    name, title : str
    model : str
        A shipped model's name, or the path of a TOML file.
    formula : str
        The same terms for lme4, every one of them random; empty where it has no
        such model.
    facets, random : tuple of str
        The user's panel and random facets.
    sizes, quick_sizes : dict
        Levels of each facet, at full size and scaled down.
    sd : dict
        Standard deviations that a simulated table is drawn with.
    intercept : float or None
        Log odds that verdicts are drawn with.
    scale : (low, high) or None
        What scores can be.
    ignored : tuple of str
        Columns that are read over.
    replicates : bool
        Whether a cell has several scores.
    """

    name: str
    title: str
    model: str
    formula: str
    facets: tuple[str, ...] = ()
    random: tuple[str, ...] = ()
    sizes: dict[str, int] = field(default_factory=dict)
    quick_sizes: dict[str, int] = field(default_factory=dict)
    sd: dict[str, float] = field(default_factory=dict)
    intercept: float | None = None
    scale: tuple[float, float] | None = None
    ignored: tuple[str, ...] = ()
    replicates: bool = False

    @property
    def is_sampled(self) -> bool:
        """Whether its scores are verdicts or categories: every effect is sampled."""
        return self.scale is not None

    def rank_options(self) -> list[str]:
        """Return what ``bayesjudge rank`` is told beside the table's name."""
        options = ["--model", self.model]
        named = (("--facet", self.facets), ("--random", self.random), ("--ignore", self.ignored))
        for option, names in named:
            for name in names:
                options += [option, name]
        if self.scale is not None:
            options += ["--scale", *(f"{end:g}" for end in self.scale)]
        return [*options, "--replicates"] if self.replicates else options


def _formula(*terms: str) -> str:
    return "score ~ 1 + " + " + ".join(f"(1 | {term})" for term in terms)


_MT_BENCH = _formula(
    "backbone",
    "judge",
    "scenario",
    "backbone:judge",
    "backbone:scenario",
    "judge:scenario",
    "backbone:judge:scenario",
    "backbone:scenario:generation",
)
_MT_BENCH_SIZES = {"scenario": 80, "generation": 10}
# Fewer scenarios would make the posterior harder, not easier.
_MT_BENCH_QUICK = {"scenario": 80, "generation": 2}

WORKLOADS = (
    Workload(
        "W1",
        "5 backbones x 80 scenarios x 10 generations x 5 judges",
        "crossed",
        _MT_BENCH,
        sizes=_MT_BENCH_SIZES,
        quick_sizes=_MT_BENCH_QUICK,
    ),
    Workload(
        "W2",
        "W1 with 10 % of the scores missing at random",
        "crossed",
        _MT_BENCH,
        sizes=_MT_BENCH_SIZES,
        quick_sizes=_MT_BENCH_QUICK,
    ),
    Workload(
        "W3",
        "8 languages x 6 backbones x 55 tasks x 3 frameworks",
        str(MODELS / "w3.toml"),
        _formula(
            "backbone",
            "language",
            "scenario",
            "framework",
            "backbone:language",
            "backbone:scenario",
            "backbone:framework",
            "language:scenario",
            "language:framework",
            "scenario:framework",
        ),
        facets=("framework",),
        sizes={"language": 8, "backbone": 6, "scenario": 55, "framework": 3},
        quick_sizes={"language": 3, "backbone": 3, "scenario": 8, "framework": 2},
        sd={
            "backbone": 0.6,
            "language": 0.3,
            "scenario": 0.7,
            "framework": 0.1,
            "backbone:language": 0.3,
            "backbone:scenario": 0.5,
            "backbone:framework": 0.1,
            "language:scenario": 0.2,
            "language:framework": 0.05,
            "scenario:framework": 0.1,
            "residual": 0.5,
        },
    ),
    Workload(
        "W4",
        "23 languages x 8 evaluators x 4 splits x 100 items",
        str(MODELS / "w4.toml"),
        _formula(
            "backbone",
            "language",
            "scenario",
            "backbone:language",
            "backbone:scenario",
            "language:scenario",
        ),
        sizes={"language": 23, "backbone": 8, "split": 4, "item": 100},
        quick_sizes={"language": 4, "backbone": 3, "split": 2, "item": 6},
        sd={
            "backbone": 0.5,
            "language": 0.3,
            "scenario": 0.8,
            "backbone:language": 0.2,
            "backbone:scenario": 0.5,
            "language:scenario": 0.4,
            "residual": 0.7,
        },
    ),
    Workload(
        "W5",
        "lme4's InstEval: y by service, student, lecturer and department",
        str(MODELS / "w5.toml"),
        _formula("backbone", "service", "scenario", "lecturer"),
        facets=("service",),
        random=("lecturer",),
        # Students, and how often a lecturer must occur: all and once at full size.
        sizes={"scenario": 2972, "rows_of_lecturer": 1},
        quick_sizes={"scenario": 80, "rows_of_lecturer": 5},
    ),
    Workload(
        "W7",
        "W1 rounded to whole scores 1-10, cumulative model",
        "ordinal",
        "",
        sizes=_MT_BENCH_SIZES,
        quick_sizes={"scenario": 6, "generation": 2},
        scale=(1, 10),
    ),
    Workload(
        "verdicts",
        "8 languages x 6 backbones x 365 requirements x 3 replicates, Bernoulli",
        "verdict",
        "",
        sizes={"language": 8, "backbone": 6, "scenario": 365, "replicate": 3},
        quick_sizes={"language": 2, "backbone": 3, "scenario": 6, "replicate": 2},
        # As fitted to devai_multilingual's 52,560 verdicts, whose shape this is.
        sd={
            "backbone": 0.6,
            "language": 0.3,
            "backbone:language": 0.3,
            "scenario": 1.5,
            "backbone:scenario": 1.0,
            "language:scenario": 0.3,
            "backbone:language:scenario": 0.8,
        },
        intercept=-2.2,
        scale=(0, 1),
        ignored=("replicate",),
        replicates=True,
    ),
)


def workload(name: str) -> Workload:
    """Return the workload of this name."""
    return next(w for w in WORKLOADS if w.name == name)
