"""What an audit holds: one section an analysis, what stands out, what was not computed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bayesjudge.errors import UsageError
from bayesjudge.ranking import check_probability
from bayesjudge.scores.problems import Problem
from bayesjudge.scores.table import Scores

if TYPE_CHECKING:
    import pandas as pd

ANSWERS = ("rejected", "chosen", "both")
POSTERIORS = ("auto", "model", "items", "none")

TITLES = {
    "means": "Scores by language",
    "anova": "Does language matter to a judge's scores?",
    "agreement": "Do judges agree on which languages score high?",
    "resource": "Scores and resource level",
    "pairwise_accuracy": "Pairwise accuracy beside acceptance",
    "acceptance": "Acceptance under one threshold for all languages",
    "offset_correction": "What one offset a language mends",
    "dispersion": "Spread of scores by language",
    "interaction": "Items that languages reorder",
    "uncertainty": "Scores, uncertainty and language",
    "language_labels": "Thresholds by language under wrong labels",
    "posterior": "Acceptance and thresholds with their uncertainty",
    "failures": "Failed answers that pass for scores",
    "human_agreement": "Agreement with human scores",
}
"""Keys of the analyses, in order, with their headings."""


@dataclass(frozen=True)
class Settings:
    """What an audit is asked; every one changes an answer and is printed.

    Attributes
    ----------
    quantile : float
        Of the pooled scores: the global threshold.
    held_out : float
        Share of the scenarios that set thresholds and offsets; the rest is judged.
    permutations : int
        Relabellings of languages within scenarios.
    margin : float
        Of the acceptance rate: a language is favoured by more than this, and
        languages that share a threshold stay this close to the target.
    target : float or None
        Acceptance rate that per-language thresholds are to hit; None: 1 - quantile.
    failures : tuple of str
        Verdict tags that mean failure.
    answers : {"rejected", "chosen", "both"}
        Of pairs: whose scores are judged one by one.
    posterior : {"auto", "model", "items", "none"}
    draws : int
        Of the Bayesian bootstrap, and of each of four chains.
    seed : int
    ci_prob : float
    only : tuple of str
        Keys of the analyses to make; empty for all.

    Raises
    ------
    UsageError
        Where a number is out of range or a word not known.
    """

    quantile: float = 0.5
    held_out: float = 0.5
    permutations: int = 999
    margin: float = 0.05
    target: float | None = None
    failures: tuple[str, ...] = ()
    answers: str = "rejected"
    posterior: str = "auto"
    draws: int = 1000
    seed: int = 0
    ci_prob: float = 0.95
    only: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("quantile", "held_out", "ci_prob"):
            check_probability(getattr(self, name), name)
        if self.target is not None:
            check_probability(self.target, "target")
        if not 0 <= self.margin < 1:
            raise UsageError(f"the margin is {self.margin!r}", "margin", "Give 0 or more, below 1")
        for name, least in (("permutations", 19), ("draws", 100)):
            number: object = getattr(self, name)
            if not isinstance(number, int) or number < least:
                raise UsageError(
                    f"{name} is {number!r}", name, f"Give a whole number of {least} or more"
                )
        if self.seed < 0:
            raise UsageError(f"the seed is {self.seed!r}", "seed", "Give a whole number of 0 on")
        for name, known in (("answers", ANSWERS), ("posterior", POSTERIORS)):
            if getattr(self, name) not in known:
                raise UsageError(
                    f"{name} is {getattr(self, name)!r}", name, f"Give one of {', '.join(known)}"
                )

        unknown = [key for key in self.only if key not in TITLES]
        if unknown:
            raise UsageError(
                f"there is no analysis {unknown[0]!r}", "only", f"Name some of {', '.join(TITLES)}"
            )

    @property
    def target_rate(self) -> float:
        """The acceptance rate that per-language thresholds are to hit."""
        return 1.0 - self.quantile if self.target is None else self.target


@dataclass(frozen=True, eq=False)
class Section:
    """One analysis.

    Attributes
    ----------
    key : str
        Its key in the JSON object, one of ``TITLES``.
    tables : dict of str to DataFrame
    notes : tuple of str
        What the numbers rest on, and what they do not say.
    flags : tuple of Problem
        What stands out.
    brief : tuple of str
        Tables that a terminal shows; the others go to JSON and files.
    """

    key: str
    tables: Mapping[str, pd.DataFrame]
    notes: tuple[str, ...] = ()
    flags: tuple[Problem, ...] = ()
    brief: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """Heading for people."""
        return TITLES[self.key]


@dataclass(frozen=True, eq=False)
class Audit:
    """A language audit.

    Attributes
    ----------
    scores : Scores
    settings : Settings
    sections : tuple of Section
        Analyses that this table can carry, in the order of ``TITLES``.
    not_computed : dict of str to str
        Analysis to the reason why there is none, and what it would need.
    notes : tuple of str
        What holds for all analyses.
    seconds : float
    """

    scores: Scores
    settings: Settings
    sections: tuple[Section, ...]
    not_computed: dict[str, str]
    notes: tuple[str, ...] = ()
    seconds: float = 0.0

    def __getitem__(self, key: str) -> Mapping[str, pd.DataFrame]:
        """Return the tables of an analysis, as ``audit["acceptance"]["gaps"]``.

        Raises
        ------
        UsageError
            Where there is none: with the reason.
        """
        for section in self.sections:
            if section.key == key:
                return section.tables
        if key in self.not_computed:
            raise UsageError(f"{key} was not computed: {self.not_computed[key]}")
        raise UsageError(
            f"an audit has no analysis {key!r}",
            remedy=f"It has {', '.join(s.key for s in self.sections)}",
        )

    @property
    def flags(self) -> tuple[Problem, ...]:
        """What stands out, over all analyses."""
        return tuple(flag for section in self.sections for flag in section.flags)

    def __repr__(self) -> str:
        n = len(self.scores.levels("language"))
        return (
            f"Audit of {len(self.scores)} scores in {n} languages: "
            f"{len(self.sections)} analyses, {len(self.flags)} flags"
        )
