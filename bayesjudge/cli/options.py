"""Options that several commands share, and what they come to."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from bayesjudge.errors import UsageError
from bayesjudge.spec import ModelSpec

_TABLE = "The table"
_FIT = "The fit"

Sources = Annotated[
    list[str],
    typer.Argument(
        metavar="SOURCE",
        help="Files (CSV, JSONL, Parquet, or a tool's logs), globs, or folders.",
        show_default=False,
    ),
]
FormatOption = Annotated[
    str | None,
    typer.Option(
        "--format",
        metavar="NAME",
        help="inspect, promptfoo, wide:{judge}_score, ...; else told by the content.",
        rich_help_panel=_TABLE,
    ),
]
Column = Annotated[
    list[str] | None,
    typer.Option(
        "--column",
        metavar="ROLE=COLUMN",
        help="Which column serves as what.",
        rich_help_panel=_TABLE,
    ),
]
Where = Annotated[
    list[str] | None,
    typer.Option("--where", metavar="COL=LABEL", help="Rows to keep.", rich_help_panel=_TABLE),
]
By = Annotated[
    str | None,
    typer.Option(
        "--by",
        metavar="COL",
        help="Answer once for each label of a column.",
        rich_help_panel=_TABLE,
    ),
]
Workers = Annotated[
    int | None,
    typer.Option(
        "--workers",
        metavar="N",
        help="With --by: processes that share the groups (one a core, where there are enough).",
        rich_help_panel=_TABLE,
        show_default=False,
    ),
]
Resume = Annotated[
    bool,
    typer.Option(
        "--resume",
        help="With --by and --out: keep the groups whose results are there and still hold.",
        rich_help_panel=_TABLE,
    ),
]
FacetOption = Annotated[
    list[str] | None,
    typer.Option("--facet", metavar="NAME", help="A panel facet to add.", rich_help_panel=_TABLE),
]
RandomOption = Annotated[
    list[str] | None,
    typer.Option(
        "--random",
        metavar="NAME",
        help="A random facet to add; or judge or language, to ask about new ones.",
        rich_help_panel=_TABLE,
    ),
]
Ignore = Annotated[
    list[str] | None,
    typer.Option("--ignore", metavar="COL", help="A column to disregard.", rich_help_panel=_TABLE),
]
ScaleOption = Annotated[
    tuple[float, float] | None,
    typer.Option("--scale", metavar="LO HI", help="What scores can be.", rich_help_panel=_TABLE),
]
LowerIsBetter = Annotated[
    bool, typer.Option("--lower-is-better", help="Rank 1 is the lowest.", rich_help_panel=_TABLE)
]
Missing = Annotated[
    list[str] | None,
    typer.Option(
        "--missing", metavar="VALUE", help="Stands for no score, as -1.", rich_help_panel=_TABLE
    ),
]
Strict = Annotated[
    bool, typer.Option("--strict", help="Rows left out are errors.", rich_help_panel=_TABLE)
]
Replicates = Annotated[
    bool,
    typer.Option(
        "--replicates", help="Rows of one cell are repeated calls.", rich_help_panel=_TABLE
    ),
]
Moments = Annotated[
    bool | None,
    typer.Option(
        "--moments/--no-moments",
        help="Keep counts and sums by cell, not rows (where files as rows take over half of the "
        "memory).",
        rich_help_panel=_TABLE,
        show_default=False,
    ),
]
Draws = Annotated[
    int | None,
    typer.Option("--draws", help="Draws a chain (1000, or 2000).", rich_help_panel=_FIT),
]
Tune = Annotated[
    int | None,
    typer.Option("--tune", help="Draws discarded first (500, or 1000).", rich_help_panel=_FIT),
]
Chains = Annotated[int | None, typer.Option("--chains", help="(4)", rich_help_panel=_FIT)]
Seed = Annotated[
    int | None, typer.Option("--seed", help="Of random numbers (0).", rich_help_panel=_FIT)
]
Platform = Annotated[
    str | None,
    typer.Option(
        "--platform", help="cpu or gpu, for the numpyro engine (cpu).", rich_help_panel=_FIT
    ),
]
AllowUnconverged = Annotated[
    bool,
    typer.Option("--allow-unconverged", help="Exit 0 even so; the leaderboard still says it."),
]
Json = Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")]
Out = Annotated[
    str | None,
    typer.Option("--out", metavar="DIR", help="A folder for tables, report and posterior."),
]
LogLikelihood = Annotated[
    bool,
    typer.Option(
        "--log-likelihood",
        help="With --out: put the log density of every score into posterior.nc.",
        rich_help_panel=_FIT,
    ),
]
Predictive = Annotated[
    bool,
    typer.Option(
        "--predictive",
        help="With --out: put scores drawn from posterior and prior into posterior.nc.",
        rich_help_panel=_FIT,
    ),
]
Sensitivity = Annotated[
    bool,
    typer.Option(
        "--sensitivity",
        help="Fit twice more, all scales' priors x 1/2 and x 2, and compare P(best).",
        rich_help_panel=_FIT,
    ),
]
Reliability = Annotated[
    bool,
    typer.Option(
        "--reliability",
        help="Also generalizability and dependability of the table (plan: of other designs), "
        "effective number of judges, Krippendorff's alpha.",
    ),
]
Model = Annotated[
    str | None, typer.Option("--model", help="A shipped model or a TOML file (crossed).")
]
PriorOption = Annotated[
    list[str] | None,
    typer.Option("--prior", metavar="PRIOR", help="As judge.scale=half_normal:0.5."),
]
Engine = Annotated[
    str | None, typer.Option("--engine", help="auto, exact, laplace, numpyro or pymc (auto).")
]
TargetAccept = Annotated[
    float | None, typer.Option("--target-accept", help="Of NUTS (0.95, 0.85 or 0.98).")
]
Rope = Annotated[
    float | None,
    typer.Option("--rope", help="Differences below this count as none.", show_default=False),
]
CiProb = Annotated[float, typer.Option("--ci-prob", help="Probability of the intervals.")]
FiniteScenarios = Annotated[
    bool, typer.Option("--finite-scenarios", help="Speak of the table's scenarios only.")
]
ScenarioPool = Annotated[
    int | None,
    typer.Option("--scenario-pool", metavar="N", help="Speak of a pool of N scenarios."),
]
Latent = Annotated[
    bool,
    typer.Option("--latent", help="Means on the latent scale of verdicts, categories, battles."),
]
RankSource = Annotated[
    list[str],
    typer.Argument(
        metavar="SOURCE",
        help="Files (CSV, JSONL, Parquet, or a tool's logs), globs, folders; or a saved fit (.nc).",
        show_default=False,
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", help="Only warnings and errors on stderr.")]


@dataclass(frozen=True)
class ReadingOptions:
    """How a table is to be read, as it was given."""

    column: Sequence[str] | None = None
    where: Sequence[str] | None = None
    facet: Sequence[str] | None = None
    random: Sequence[str] | None = None
    ignore: Sequence[str] | None = None
    scale: tuple[float, float] | None = None
    lower_is_better: bool = False
    missing: Sequence[str] | None = None
    strict: bool = False
    replicates: bool = False
    format: str | None = None
    moments: bool | None = None

    def keywords(self, spec: ModelSpec | None = None) -> dict[str, Any]:
        """Return the arguments of ``bayesjudge.read_scores``, with the model's covariates.

        Raises
        ------
        UsageError
            Where a pair lacks its ``=``.
        """
        return {
            "columns": pairs_of(self.column, "--column", "ROLE=COLUMN"),
            "where": pairs_of(self.where, "--where", "COL=LABEL"),
            "facets": tuple(self.facet or ()),
            "random": tuple(self.random or ()),
            "ignore": tuple(self.ignore or ()),
            "scale": self.scale,
            "lower_is_better": self.lower_is_better,
            "missing": tuple(self.missing or ()),
            "strict": self.strict,
            "replicates": self.replicates,
            "format": self.format,
            "covariates": () if spec is None else tuple(c.column for c in spec.covariates),
        }

    def arguments(self) -> list[str]:
        """Return the options as they are typed."""
        return [*arguments_of(vars(self)), *(["--no-moments"] if self.moments is False else [])]


@dataclass(frozen=True)
class ByOptions:
    """Whether a table is answered in parts, and how these are got through.

    Attributes
    ----------
    by : str or None
        Column whose labels part the table.
    workers : int or None
        Processes; None leaves it to the machine and the number of groups.
    resume : bool
        Keep results that are there already and still hold.

    Raises
    ------
    UsageError
        Where something is asked of groups, and there are none.
    """

    by: str | None = None
    workers: int | None = None
    resume: bool = False

    def __post_init__(self) -> None:
        if self.by is None and (self.resume or self.workers is not None):
            given = "--resume" if self.resume else "--workers"
            raise UsageError(
                "there are no groups, of which this speaks", given, "Say --by COL as well"
            )
        if self.workers is not None and self.workers < 1:
            raise UsageError(f"{self.workers} processes", "--workers", "Give at least 1")

    def arguments(self) -> list[str]:
        """Return the options as they are typed, those that change an answer."""
        return arguments_of({"by": self.by})


@dataclass(frozen=True)
class SamplingOptions:
    """How a model is fitted; None leaves the library's default."""

    model: str | None = None
    prior: Sequence[str] | None = None
    engine: str | None = None
    draws: int | None = None
    tune: int | None = None
    chains: int | None = None
    target_accept: float | None = None
    seed: int | None = None
    platform: str | None = None

    def settings(self) -> dict[str, Any]:
        """Return what was given of the engine's settings."""
        given = {
            "draws": self.draws,
            "tune": self.tune,
            "chains": self.chains,
            "target_accept": self.target_accept,
            "random_seed": self.seed,
            "platform": self.platform,
        }
        return {name: value for name, value in given.items() if value is not None}

    def arguments(self) -> list[str]:
        """Return the options as they are typed."""
        return arguments_of(vars(self))


@dataclass(frozen=True)
class OutputOptions:
    """Where results go, and how much is said."""

    json: bool = False
    out: str | None = None
    quiet: bool = False
    allow_unconverged: bool = False
    log_likelihood: bool = False
    predictive: bool = False

    def __post_init__(self) -> None:
        groups = self.groups()
        if any(groups.values()) and self.out is None:
            named = ", ".join(arguments_of(groups))
            raise UsageError(
                "these go into the file posterior.nc, and no folder is named",
                named,
                "Name one with --out DIR",
            )

    @property
    def shows_progress(self) -> bool:
        """Whether a terminal is told that work goes on."""
        return not (self.quiet or self.json)

    def groups(self) -> dict[str, bool]:
        """Return which groups the posterior is to hold beyond the usual ones."""
        return {"log_likelihood": self.log_likelihood, "predictive": self.predictive}


def one_or_many(sources: Sequence[str]) -> str | list[str]:
    """Return a single source by itself, so that messages name it, or the list of them."""
    return sources[0] if len(sources) == 1 else list(sources)


def named_together(sources: Sequence[str]) -> str:
    """Name sources for a message."""
    return sources[0] if len(sources) == 1 else f"{len(sources)} sources"


def arguments_of(values: dict[str, Any]) -> list[str]:
    """Return options as they are typed; what was not given is left out."""
    typed: list[str] = []
    for name, value in values.items():
        option = f"--{name.replace('_', '-')}"
        if value is None or value is False:
            continue
        if value is True:
            typed.append(option)
        elif isinstance(value, tuple):
            typed += [option, *(repr(number) for number in value)]
        elif isinstance(value, list):
            typed += [part for item in value for part in (option, item)]
        else:
            typed += [option, str(value)]
    return typed


def command_line(*words: str) -> str:
    """Return a command as a shell takes it."""
    return shlex.join(("bayesjudge", *words))


def pairs_of(texts: Sequence[str] | None, option: str, form: str) -> list[tuple[str, str]]:
    """Read options of the form ``NAME=VALUE``.

    Raises
    ------
    UsageError
        Where one lacks its ``=``.
    """
    return [_pair(text, option, form) for text in texts or ()]


def _pair(text: str, option: str, form: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise UsageError(f"{text!r} is not of the form {form}", option, f"Write {option} {form}")
    return name, value


def number_pairs(texts: Sequence[str] | None, option: str, form: str) -> dict[str, list[float]]:
    """Read options such as ``judge=0.7`` or ``residual=0.5,0.9``.

    Raises
    ------
    UsageError
        Where one has another form, or a name occurs twice.
    """
    pairs: dict[str, list[float]] = {}
    for text in texts or ():
        name, value = _pair(text, option, form)
        if name in pairs:
            raise UsageError(f"{name!r} is given twice", option, "Give it once")
        try:
            pairs[name] = [float(number) for number in value.split(",")]
        except ValueError as error:
            raise UsageError(f"{value!r} is not a number", f"{option} {text}") from error
    return pairs
