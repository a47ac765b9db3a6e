"""Which column of a table serves as what: named by the user, or told by its name."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from bayesjudge.errors import UsageError
from bayesjudge.scores.battles import OPPONENT, battle_columns
from bayesjudge.scores.problems import Problem
from bayesjudge.scores.raw import plain_name
from bayesjudge.scores.table import CANONICAL_FACETS, Role

ROLES = ("score", *CANONICAL_FACETS, "human_score")

SYNONYMS: dict[str, tuple[str, ...]] = {
    "score": ("judge_score", "value", "rating"),
    "backbone": ("model", "system", "llm", "policy"),
    "judge": ("grader", "rater", "evaluator", "annotator"),
    "scenario": ("item", "item_id", "sample_id", "prompt_id", "question_id", "task"),
    "generation": ("epoch", "replicate", "run", "repeat", "rep"),
}
"""Names that are understood; ``language`` and ``human_score`` have none on purpose."""

EITHER: dict[str, tuple[str, ...]] = {"sample": ("scenario", "generation")}
"""Names that could mean either of two facets, so that only the user can say."""

RESERVED = (
    *ROLES,
    *("chain", "draw", "intercept", "sigma", "cutpoints", "backbone_mean"),
    *("backbone_latent", "threshold", "degrees_of_freedom"),
    *("opponent", "tie_chance", "discrimination"),
)
"""Names that a facet of the user's cannot bear: the posterior uses them."""

_WEIGHT = re.compile(
    r"(.*_)?(weights?|strat(um|a)|strat(um|a)_id)|ipw|psu|fpc|stratification", re.ASCII
)
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


@dataclass(frozen=True)
class Wishes:
    """What the user said about columns, checked for contradictions.

    Attributes
    ----------
    columns : dict of str to str
        Role or user's facet to column.
    facets, random : tuple of str
        Panel facets that the user adds; facets that are to be random.
    ignore : tuple of str
        Columns taken out of consideration.
    covariates : tuple of str
        Numeric columns that the model takes.
    measured : {"backbone", "language"}
        The facet that every row must have; of the other nothing is asked.
    numbers, tags : tuple of str
        Columns of numbers and of text that are taken along where they are there.

    Raises
    ------
    UsageError
        Where a name is no role, is reserved, cannot name a variable, or where
        two wishes contradict one another.
    """

    columns: Mapping[str, str] = field(default_factory=dict)
    facets: tuple[str, ...] = ()
    random: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    covariates: tuple[str, ...] = ()
    measured: str = "backbone"
    numbers: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in self.facets:
            _check_panel_name(name)
        for name in self.random:
            _check_random_name(name)
        named = [*self.facets, *self.random]
        twice = sorted({name for name in named if named.count(name) > 1})
        if twice:
            raise UsageError(
                f"the facet {twice[0]!r} is named twice",
                "--facet, --random",
                "Say once whether it is a panel facet (--facet) or random (--random)",
            )
        for name in self.covariates:
            if name in RESERVED or name in named:
                raise UsageError(
                    f"a covariate cannot be called {name!r}, which has a meaning of its own",
                    "covariates",
                    "Give the model's covariate another name, and map its column to that",
                )
        for role in self.columns:
            own = (*self.covariates, *self.numbers, *self.tags, *named)
            if role not in (*ROLES, OPPONENT, *own):
                raise UsageError(
                    f"{role!r} is no role that a column can have",
                    f"--column {role}={self.columns[role]}",
                    f"Roles are {', '.join((*ROLES, *self.numbers, *self.tags))}; "
                    f"a facet of your own also needs --facet {role} or --random {role}",
                )
        targets = list(self.columns.values())
        for column in targets:
            if targets.count(column) > 1:
                roles = [role for role, target in self.columns.items() if target == column]
                raise UsageError(
                    f"the column {column!r} is to serve as {' and '.join(roles)}",
                    "--column",
                    "Give each role a column of its own",
                )
            if column in self.ignore:
                raise UsageError(
                    f"the column {column!r} is both used and ignored",
                    "--column, --ignore",
                    "Keep one of the two options",
                )

    @property
    def added(self) -> tuple[str, ...]:
        """The user's own facets, in the order given."""
        return (*self.facets, *(name for name in self.random if name not in CANONICAL_FACETS))

    def role_of(self, facet: str) -> Role:
        """Whether a facet is of the panel or random."""
        if facet in self.random or facet in ("scenario", "generation"):
            return "random"
        return "panel"


@dataclass(frozen=True)
class Resolved:
    """The mapping that was found.

    Attributes
    ----------
    mapping : tuple of (role, column)
        ``score`` first, then facets in the canonical order and the user's, then
        ``human_score`` and covariates.
    unused : tuple of str
        Columns that serve nothing, in the source's order.
    problems : tuple of Problem
        What is missing, asked or refused.
    covariates, numbers, tags : tuple of str
        Which of the roles are covariates, and which columns are taken along.
    """

    mapping: tuple[tuple[str, str], ...]
    unused: tuple[str, ...]
    problems: tuple[Problem, ...]
    covariates: tuple[str, ...] = ()
    numbers: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()

    def column(self, role: str) -> str | None:
        """Column that serves a role, or None."""
        return dict(self.mapping).get(role)

    @property
    def facets(self) -> tuple[str, ...]:
        """Facets that have a column, in order."""
        beside = (*self.covariates, *self.numbers, *self.tags)
        others = ("score", OPPONENT, "human_score", *beside)
        return tuple(role for role, _ in self.mapping if role not in others)


def resolve_columns(names: Sequence[str], wishes: Wishes) -> Resolved:
    """Find the column of each role.

    What the user named wins; other roles take the one column that bears the
    role's name or a synonym, whatever its case, spaces or hyphens.

    Parameters
    ----------
    names : sequence of str
        The table's columns.
    wishes : Wishes
        What the user said.

    Returns
    -------
    Resolved
        With an error among its problems for each role that cannot be decided.
    """
    problems: list[Problem] = []
    found: dict[str, str] = {}
    for column in wishes.ignore:
        if column not in names:
            problems.append(
                Problem("warning", f"there is no column {column!r} to ignore", "--ignore")
            )
    named = dict(wishes.columns)
    battle = battle_columns(names, named)
    if battle is not None:
        found_roles = (("backbone", battle.first), (OPPONENT, battle.second))
        named = {**dict(found_roles), **named}
        if battle.winner is not None:
            named.setdefault("score", battle.winner)
    asked = (*wishes.added, *wishes.covariates)
    named.update({name: name for name in asked if name not in named})
    for role, wanted in named.items():
        match = _find(wanted, names)
        if match is None or match in wishes.ignore:
            problems.append(_absent(role, wanted, names))
        elif match in found.values():
            other = next(key for key, value in found.items() if value == match)
            problems.append(
                Problem(
                    "error",
                    f"the column {match!r} is to serve as {other} and {role}",
                    f"column {match!r}",
                    remedy=f"Name another column with --column {role}=COLUMN",
                )
            )
        else:
            found[role] = match
    taken = {*found.values(), *wishes.ignore}
    for role in ROLES:
        if role in named:
            continue
        known = {role, *SYNONYMS.get(role, ())}
        candidates = [name for name in names if name not in taken and plain_name(name) in known]
        if len(candidates) == 1:
            found[role] = candidates[0]
        elif candidates:
            problems.append(_ask_which(role, candidates))
            taken.update(candidates)
        elif role in ("score", wishes.measured):
            problems.append(_lacking(role, names))
        elif role in wishes.random and role not in ("scenario", "generation"):
            problems.append(_absent(role, role, names))
    taken.update(found.values())
    offered = [name for name in (*wishes.numbers, *wishes.tags) if name not in named]
    for name in offered:
        match = _find(name, [column for column in names if column not in taken])
        if match is not None:
            found[name] = match
            taken.add(match)
    free = [name for name in names if name not in taken]
    for name in free:
        problems.extend(_doubtful(name, found))
    beside = (*wishes.covariates, *wishes.numbers, *wishes.tags)
    order = ("score", *CANONICAL_FACETS, OPPONENT, *wishes.added, "human_score", *beside)
    mapping = tuple((role, found[role]) for role in order if role in found)
    unused = tuple(name for name in names if name not in found.values())
    return Resolved(
        mapping, unused, tuple(problems), wishes.covariates, wishes.numbers, wishes.tags
    )


def _find(wanted: str, names: Sequence[str]) -> str | None:
    """Find a column by its exact name, or else by the only one that reads alike."""
    if wanted in names:
        return wanted
    alike = [name for name in names if plain_name(name) == plain_name(wanted)]
    return alike[0] if len(alike) == 1 else None


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(map(repr, names[:20]))
    return f"{shown}, ..." if len(names) > 20 else shown


def _absent(role: str, wanted: str, names: Sequence[str]) -> Problem:
    return Problem(
        "error",
        f"there is no column {wanted!r} to serve as {role}",
        f"columns {_listed(names)}",
        remedy=f"Name one of these with --column {role}=COLUMN",
    )


def _lacking(role: str, names: Sequence[str]) -> Problem:
    return Problem(
        "error",
        f"no column is known to be the {role}",
        f"columns {_listed(names)}",
        remedy=f"Name one with --column {role}=COLUMN",
    )


def _ask_which(role: str, candidates: Sequence[str]) -> Problem:
    options = " or ".join(f"--column {role}={name}" for name in candidates)
    return Problem(
        "error",
        f"{len(candidates)} columns could be the {role}: {_listed(candidates)}",
        f"role {role}",
        remedy=f"Say which with {options}",
    )


def _doubtful(name: str, found: Mapping[str, str]) -> list[Problem]:
    """Ask about, or refuse, an unused column that might change the answer."""
    plain = plain_name(name)
    open_roles = [role for role in EITHER.get(plain, ()) if role not in found]
    if open_roles:
        options = ", ".join(f"--column {role}={name}" for role in open_roles)
        meanings = " or the ".join(EITHER[plain])
        return [
            Problem(
                "error",
                f"the column {name!r} could be the {meanings}",
                f"column {name!r}",
                remedy=f"Say which with {options} or --ignore {name}",
            )
        ]
    if _WEIGHT.fullmatch(plain):
        return [
            Problem(
                "error",
                f"the column {name!r} looks like weights or strata, which are not supported",
                f"column {name!r}",
                remedy=f"To rank as if it were not there, say --ignore {name}",
            )
        ]
    return []


def _check_panel_name(name: str) -> None:
    if name in CANONICAL_FACETS:
        raise UsageError(
            f"{name!r} is a facet already, without being asked for",
            f"--facet {name}",
            f"Name its column with --column {name}=COLUMN",
        )
    _check_own_name(name, "--facet")


def _check_random_name(name: str) -> None:
    if name == "backbone":
        raise UsageError(
            "the backbone is what is ranked and cannot be random",
            "--random backbone",
            "Make another facet random",
        )
    if name not in CANONICAL_FACETS:
        _check_own_name(name, "--random")


def _check_own_name(name: str, option: str) -> None:
    if name in RESERVED:
        raise UsageError(
            f"a facet cannot be called {name!r}, which has a meaning of its own",
            f"{option} {name}",
            f"Choose another name and map it: {option} NAME --column NAME={name}",
        )
    if not _IDENTIFIER.fullmatch(name):
        raise UsageError(
            f"a facet cannot be called {name!r}: names have letters a-z, digits and underscores",
            f"{option} {name}",
            f"Choose such a name and map it: {option} NAME --column 'NAME={name}'",
        )
