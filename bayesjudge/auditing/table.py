"""The audited table as arrays: judges, languages, items, and what stands beside the scores."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from bayesjudge.errors import DataError
from bayesjudge.scores.keys import cell_keys
from bayesjudge.scores.problems import Problem
from bayesjudge.scores.table import Facet, Scores

type Floats = NDArray[np.float64]
type Ints = NDArray[np.int64]
type Bools = NDArray[np.bool_]

NUMBERS = ("nll", "n_tokens", "web_share", "n", "sd")
TAGS = ("verdict_tag", "parse_ok", "lid_language", "text", "resource")
PAIR = "pair"
ALL_SCORES = "(all scores)"

CHOSEN = frozenset(
    ["true", "1", "1.0", "yes", "chosen", "accepted", "preferred", "better", "win", "good"]
)
REJECTED = frozenset(
    [
        "false",
        "0",
        "0.0",
        "no",
        "rejected",
        "unchosen",
        "dispreferred",
        "worse",
        "lose",
        "loss",
        "bad",
    ]
)


NOT_ONLY_OF_PAIRS = frozenset(["true", "1", "1.0", "yes", "false", "0", "0.0", "no"])
"""Labels that tell answers of pairs apart only where somebody says so."""


@dataclass(frozen=True, eq=False)
class AuditTable:
    """Scores of judges on items in languages.

    Attributes
    ----------
    score : (N,) float array
    language, judge : (N,) int array
        Codes into ``languages`` and ``judges``.
    item : (N,) int array
        What was scored, whatever the language and the judge: one answer. Without
        scenarios every row is its own.
    cluster : (N,) int array
        The scenario that an item belongs to, within its cell.
    unit : (N,) int array
        Scenario and backbone: what fractions are taken of where a scenario has
        several requirements.
    cell : (N,) int array
        Level of the user's panel facets (a split, a benchmark) taken together.
    chosen : (N,) int array
        1 for the preferred answer of a pair, 0 for the other, -1 without pairs.
    languages, judges, cells : tuple of str
    has_items : bool
        False where the table has no scenario: one mean a cell.
    cell_facets : tuple of str
    """

    score: Floats
    language: Ints
    judge: Ints
    item: Ints
    cluster: Ints
    unit: Ints
    cell: Ints
    chosen: Ints
    languages: tuple[str, ...]
    judges: tuple[str, ...]
    cells: tuple[str, ...]
    has_items: bool
    cell_facets: tuple[str, ...]

    def __len__(self) -> int:
        return int(self.score.size)

    def keep(self, rows: Bools) -> AuditTable:
        """Return the rows asked for; languages, judges and cells stay as they are."""
        return replace(self, **{name: getattr(self, name)[rows] for name in _COLUMNS})

    def of_judge(self, judge: int) -> AuditTable:
        """Return one judge's rows."""
        return self.keep(self.judge == judge)


_COLUMNS = ("score", "language", "judge", "item", "cluster", "unit", "cell", "chosen")


def audit_table(scores: Scores) -> AuditTable:
    """Lay a table of scores out for the audit.

    Raises
    ------
    DataError
        Where it has no languages, fewer than two, answers of pairs that cannot be
        told apart, or no scenario and several scores a cell.
    """
    language = scores.facet("language")
    if language.n_levels < 2:
        raise DataError(
            f"there is one language only, {language.levels[0]!r}, and nothing to compare",
            scores.source,
            "Give scores in two languages or more",
        )
    n = len(scores)
    judge = scores.facet("judge") if scores.has("judge") else None
    has_items = scores.has("scenario")
    own = [f for f in scores.facets if f.name not in (*KNOWN, PAIR)]
    cell_facets = [f for f in own if f.role == "panel"]
    content = [f for f in own if f.role == "random"]
    if not has_items:
        cell_facets = [*_facets(scores, "backbone"), *cell_facets, *content]
        content = []
    else:
        content = [*_facets(scores, "backbone", "generation"), *content]
    cell, cells = _combined(cell_facets, n)
    scenario = _facets(scores, "scenario")
    cluster = key_of_facets([*scenario, *cell_facets], n) if has_items else np.arange(n)
    found = AuditTable(
        score=scores.score,
        language=language.codes,
        judge=np.zeros(n, dtype=np.int64) if judge is None else judge.codes,
        item=key_of_facets([*scenario, *cell_facets, *content], n) if has_items else np.arange(n),
        cluster=cluster,
        unit=key_of_facets([*scenario, *cell_facets, *_facets(scores, "backbone")], n)
        if has_items
        else np.arange(n),
        cell=cell,
        chosen=_chosen(scores, n),
        languages=language.levels,
        judges=(ALL_SCORES,) if judge is None else judge.levels,
        cells=cells,
        has_items=has_items,
        cell_facets=tuple(f.name for f in cell_facets),
    )
    if not has_items:
        _check_one_score_a_cell(found, scores)
    return found


def tells_pairs(levels: Iterable[str]) -> bool | None:
    """Whether two labels tell the preferred answer of a pair from the other.

    Returns
    -------
    bool or None
        None where they may mean anything else as well, as true and false.
    """
    plain = [_plain(level) for level in levels]
    if len(plain) != 2 or len(CHOSEN.intersection(plain)) != 1 or not REJECTED.intersection(plain):
        return False
    return None if NOT_ONLY_OF_PAIRS.intersection(plain) else True


def _plain(level: str) -> str:
    return re.sub(r"\s+", " ", level.strip()).casefold()


KNOWN = ("language", "judge", "scenario", "backbone", "generation")


def _facets(scores: Scores, *names: str) -> list[Facet]:
    return [scores.facet(name) for name in names if scores.has(name)]


def key_of_facets(facets: list[Facet], n: int) -> Ints:
    """Return the cell of each of n rows, counted from 0; all one where there is no facet."""
    if not facets:
        return np.zeros(n, dtype=np.int64)
    return cell_keys([f.codes for f in facets], [f.n_levels for f in facets])[0]


def _combined(facets: list[Facet], n: int) -> tuple[Ints, tuple[str, ...]]:
    key = key_of_facets(facets, n)
    first = np.unique(key, return_index=True)[1]
    return key, tuple(", ".join(f.levels[f.codes[i]] for f in facets) for i in first)


def _chosen(scores: Scores, n: int) -> Ints:
    if not scores.has(PAIR):
        return np.full(n, -1, dtype=np.int64)
    facet = scores.facet(PAIR)
    plain = [_plain(level) for level in facet.levels]
    unknown = [
        level
        for level, text in zip(facet.levels, plain, strict=True)
        if text not in CHOSEN | REJECTED
    ]
    if unknown:
        raise DataError(
            f"cannot tell whether {unknown[0]!r} is the preferred answer of a pair",
            f"column {dict(scores.mapping).get(PAIR, PAIR)!r}",
            "Write chosen and rejected, or true and false",
        )
    return np.array([1 if text in CHOSEN else 0 for text in plain], dtype=np.int64)[facet.codes]


def _check_one_score_a_cell(table: AuditTable, scores: Scores) -> None:
    sizes = [len(table.languages), len(table.judges), len(table.cells), 2]
    codes = [table.language, table.judge, table.cell, np.maximum(table.chosen, 0)]
    if cell_keys(codes, sizes)[1] < len(table):
        raise DataError(
            "the table has several scores of a language and judge, and no scenario to tell which "
            "were given to the same item",
            scores.source,
            "Name the column of items with --column scenario=COLUMN",
        )


def least_scenarios(table: AuditTable) -> int:
    """Return the scenarios of the language that has fewest, each cell beyond the first less one.

    Weights of scenarios sum to their number within a cell, so that a cell of one
    scenario says nothing of how scenarios differ.
    """
    least = []
    for code in np.unique(table.language):
        rows = table.language == code
        cells = np.unique(table.cell[rows]).size
        least.append(np.unique(table.cluster[rows]).size - cells + 1)
    return min(least)


def failed_rows(
    scores: Scores, failures: tuple[str, ...]
) -> tuple[Bools | None, tuple[Problem, ...]]:
    """Tell which scores stand for a judge's answer that failed.

    Parameters
    ----------
    scores : Scores
    failures : tuple of str
        Labels of ``verdict_tag`` that mean failure, byte for byte.

    Returns
    -------
    (N,) bool array or None
        None where the table says nothing of failures, or no tag was named.
    tuple of Problem
        What was not understood.

    Raises
    ------
    DataError
        Where a named tag does not occur, or ``parse_ok`` is neither yes nor no.
    """
    tag, ok = scores.tag("verdict_tag"), scores.tag("parse_ok")
    failed: Bools | None = None
    if failures and tag is None:
        raise DataError(
            "failures are named, but there is no column of tags",
            f"--failure {failures[0]}",
            "Name it with --column verdict_tag=COLUMN",
        )
    problems: list[Problem] = []
    if tag is not None:
        unknown = [name for name in failures if name not in tag.levels]
        if unknown:
            raise DataError(
                f"no row has the tag {unknown[0]!r}",
                f"--failure {unknown[0]}",
                f"Tags are {', '.join(map(repr, tag.levels[:20]))}",
            )
        if failures:
            wanted = [tag.levels.index(name) for name in failures]
            failed = np.isin(tag.codes, wanted)
        else:
            counts = np.bincount(tag.codes[tag.codes >= 0], minlength=len(tag.levels))
            listed = ", ".join(
                f"{name!r} {n:,}" for name, n in zip(tag.levels, counts, strict=True) if n
            )
            problems.append(
                Problem(
                    "warning",
                    "there are verdict tags and none is said to mean failure, so all scores "
                    f"count as given: {listed}",
                    "column verdict_tag",
                    remedy="Name those that mean failure with --failure TAG",
                )
            )
    if ok is not None:
        plain = [level.strip().casefold() for level in ok.levels]
        yes, no = {"true", "1", "1.0", "yes"}, {"false", "0", "0.0", "no"}
        wrong = [a for a, text in zip(ok.levels, plain, strict=True) if text not in yes | no]
        if wrong:
            raise DataError(
                f"parse_ok holds {wrong[0]!r}, which is neither true nor false",
                "column parse_ok",
                "Write true and false, or take it away with --ignore parse_ok",
            )
        bad = np.array([text in no for text in plain] + [False], dtype=bool)[ok.codes]
        failed = bad if failed is None else failed | bad
    return failed, tuple(problems)
