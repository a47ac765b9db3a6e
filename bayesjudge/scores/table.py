"""The table of scores, as every later layer sees it: codes, labels, numbers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from bayesjudge.errors import DataError
from bayesjudge.scores.problems import Problem

type Role = Literal["panel", "random"]

PANEL_FACETS = ("backbone", "judge", "language")
RANDOM_FACETS = ("scenario", "generation")
CANONICAL_FACETS = PANEL_FACETS + RANDOM_FACETS


@dataclass(frozen=True, eq=False)
class Facet:
    """One factor of the design.

    Attributes
    ----------
    name : str
        Canonical name (``backbone``, ``judge``, ...) or the user's own.
    role : {"panel", "random"}
        Panel: the levels are the whole population of interest and effects sum
        to zero. Random: the levels are draws and effects are exchangeable.
    levels : tuple of str
        Labels as given, sorted by code point.
    codes : (N,) int array
        Index into ``levels``, one a score.
    """

    name: str
    role: Role
    levels: tuple[str, ...]
    codes: NDArray[np.int64]

    @property
    def n_levels(self) -> int:
        """Number of levels."""
        return len(self.levels)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Facet):
            return NotImplemented
        return (
            (self.name, self.role, self.levels) == (other.name, other.role, other.levels)
        ) and np.array_equal(self.codes, other.codes)

    __hash__ = None  # type: ignore[assignment]


@dataclass(frozen=True, eq=False)
class Tag:
    """Text beside the scores that is no facet of the design.

    Attributes
    ----------
    name : str
    levels : tuple of str
        Labels, byte for byte.
    codes : (N,) int array
        Index into ``levels``, one a score; -1 where there is none.
    """

    name: str
    levels: tuple[str, ...]
    codes: NDArray[np.int64]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Tag):
            return NotImplemented
        return (self.name, self.levels) == (other.name, other.levels) and np.array_equal(
            self.codes, other.codes
        )

    __hash__ = None  # type: ignore[assignment]


@dataclass(frozen=True, eq=False)
class Failed:
    """Rows that have labels but no usable score.

    Attributes
    ----------
    names : tuple of str
        Facets, as the table has them.
    codes : (n, n_facets) int array
        Index into the levels of each; -1 where the row has no label, or one of which
        no score is left.
    """

    names: tuple[str, ...]
    codes: NDArray[np.int64]

    def __len__(self) -> int:
        return int(self.codes.shape[0])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Failed):
            return NotImplemented
        return self.names == other.names and np.array_equal(self.codes, other.codes)

    __hash__ = None  # type: ignore[assignment]

    def of(self, name: str) -> NDArray[np.int64]:
        """Return the (n,) codes of a facet."""
        return self.codes[:, self.names.index(name)]


class Named(Protocol):
    """A facet by its name and its labels."""

    @property
    def name(self) -> str:
        """Canonical, or the user's own."""

    @property
    def levels(self) -> tuple[str, ...]:
        """Labels, sorted by code point."""


class Faceted[F: Named]:
    """What is asked of a table's facets, whatever they hold: rows' codes, or labels alone."""

    facets: tuple[F, ...]
    source: str

    @property
    def facet_names(self) -> tuple[str, ...]:
        """Names of the facets, in order."""
        return tuple(facet.name for facet in self.facets)

    def has(self, name: str) -> bool:
        """Whether the table has this facet, with any number of levels."""
        return name in self.facet_names

    def facet(self, name: str) -> F:
        """Return the facet of this name.

        Raises
        ------
        DataError
            Where the table has no such facet.
        """
        for facet in self.facets:
            if facet.name == name:
                return facet
        raise DataError(
            f"the table has no facet {name!r}", self.source, f"It has {', '.join(self.facet_names)}"
        )

    def levels(self, name: str) -> tuple[str, ...]:
        """Return the labels of a facet, sorted by code point."""
        return self.facet(name).levels


@dataclass(frozen=True, eq=False)
class Scores(Faceted[Facet]):
    """A validated table: one score a row, integer codes a facet.

    Attributes
    ----------
    score : (N,) float array
        Finite, on the user's scale.
    facets : tuple of Facet
        In the order backbone, judge, language, scenario, generation, then the
        user's in the order given. Holds ``backbone``, unless it was read to
        compare languages.
    human_score : (N,) float array or None
        Gold labels; nan where unlabelled.
    scale : (low, high) or None
        What ``--scale`` said; None where the user said nothing.
    lower_is_better : bool
        Rank 1 is the lowest mean.
    replicates : bool
        Rows that share a cell were declared to be repeated calls.
    n_excluded : int
        Rows left out, each accounted for in ``problems``.
    mapping : tuple of (role, column)
        Which column of the source serves as what.
    problems : tuple of Problem
        Warnings and notes; a table with errors never becomes ``Scores``.
    source : str
        Where the table came from, for messages.
    covariates : tuple of (name, (N,) float array)
        Numeric columns that a model takes, as they were read; finite.
    numbers : tuple of (name, (N,) float array)
        Numbers beside the scores, nan where there is none.
    tags : tuple of Tag
        Text beside the scores.
    failed : Failed or None
        Rows left out for want of a score; None where that was not looked at.
    opponent : (N,) int array or None
        Of battles: the second backbone, an index into the levels of ``backbone``,
        which holds the first. Scores are then 1 where the first won, 0 where the
        second did and 0.5 for a tie.
    """

    score: NDArray[np.float64]
    facets: tuple[Facet, ...]
    human_score: NDArray[np.float64] | None = None
    scale: tuple[float, float] | None = None
    lower_is_better: bool = False
    replicates: bool = False
    n_excluded: int = 0
    mapping: tuple[tuple[str, str], ...] = ()
    problems: tuple[Problem, ...] = field(default=())
    source: str = "table"
    covariates: tuple[tuple[str, NDArray[np.float64]], ...] = ()
    numbers: tuple[tuple[str, NDArray[np.float64]], ...] = ()
    tags: tuple[Tag, ...] = ()
    failed: Failed | None = None
    opponent: NDArray[np.int64] | None = None

    def __post_init__(self) -> None:
        for name, values in self.covariates:
            if values.shape != self.score.shape:
                raise DataError(
                    f"covariate {name!r} has {values.size} values for {self.score.size} scores"
                )
        for facet in self.facets:
            if facet.codes.shape != self.score.shape:
                raise DataError(
                    f"facet {facet.name!r} has {facet.codes.size} codes "
                    f"for {self.score.size} scores"
                )

    def __len__(self) -> int:
        return int(self.score.size)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Scores):
            return NotImplemented
        plain = ("facets", "scale", "lower_is_better", "replicates", "n_excluded", "mapping")
        return (
            all(getattr(self, name) == getattr(other, name) for name in plain)
            and self.problems == other.problems
            and self.source == other.source
            and np.array_equal(self.score, other.score)
            and _equal_or_both_none(self.human_score, other.human_score)
            and self.covariate_names == other.covariate_names
            and all(
                np.array_equal(own, theirs)
                for (_, own), (_, theirs) in zip(self.covariates, other.covariates, strict=True)
            )
            and [name for name, _ in self.numbers] == [name for name, _ in other.numbers]
            and all(
                np.array_equal(own, theirs, equal_nan=True)
                for (_, own), (_, theirs) in zip(self.numbers, other.numbers, strict=True)
            )
            and self.tags == other.tags
            and self.failed == other.failed
            and _equal_or_both_none(self.opponent, other.opponent)
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        facets = ", ".join(f"{f.name} {f.n_levels:,}" for f in self.facets)
        excluded = f", {self.n_excluded:,} rows excluded" if self.n_excluded else ""
        return f"Scores: {len(self):,} scores; {facets}{excluded}"

    @property
    def covariate_names(self) -> tuple[str, ...]:
        """Names of the covariates, in the order asked for."""
        return tuple(name for name, _ in self.covariates)

    def covariate(self, name: str) -> NDArray[np.float64]:
        """Return the (N,) values of a covariate.

        Raises
        ------
        DataError
            Where the table was read without it.
        """
        for known, values in self.covariates:
            if known == name:
                return values
        raise DataError(
            f"the table has no covariate {name!r}",
            self.source,
            f"Read it with covariates=[{name!r}]; map its column with --column {name}=COLUMN",
        )

    def number(self, name: str) -> NDArray[np.float64] | None:
        """Return the (N,) numbers of a column that was taken along; None where it was not."""
        return next((values for known, values in self.numbers if known == name), None)

    def tag(self, name: str) -> Tag | None:
        """Return the text of a column that was taken along; None where it was not."""
        return next((tag for tag in self.tags if tag.name == name), None)

    def codes(self, name: str) -> NDArray[np.int64]:
        """Return the (N,) codes of a facet, indexes into its levels."""
        return self.facet(name).codes


def _equal_or_both_none(
    a: NDArray[np.float64] | NDArray[np.int64] | None,
    b: NDArray[np.float64] | NDArray[np.int64] | None,
) -> bool:
    if a is None or b is None:
        return a is b
    return np.array_equal(a, b, equal_nan=True)
