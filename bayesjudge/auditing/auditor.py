"""From scores to a language audit."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from bayesjudge.auditing.answer import TITLES, Audit, Section, Settings
from bayesjudge.auditing.deciding import (
    NEEDS_ITEMS,
    describe_acceptance,
    describe_correction,
    describe_dispersion,
    describe_interaction,
    describe_pairs,
    judged,
)
from bayesjudge.auditing.describing import (
    LEVEL,
    CellNumbers,
    describe_agreement,
    describe_anova,
    describe_means,
    describe_resource,
)
from bayesjudge.auditing.explaining import describe_labels, describe_uncertainty
from bayesjudge.auditing.failing import describe_failures
from bayesjudge.auditing.favouring import describe_posterior
from bayesjudge.auditing.labelled import describe_human_agreement
from bayesjudge.auditing.table import PAIR, AuditTable, audit_table, failed_rows, tells_pairs
from bayesjudge.errors import DataError, UsageError
from bayesjudge.pairing import refuse_battles
from bayesjudge.scores.lines import need_rows
from bayesjudge.scores.problems import Problem
from bayesjudge.scores.table import Scores, Tag
from bayesjudge.scores.tallying import Tally

type Floats = NDArray[np.float64]
type Bools = NDArray[np.bool_]

UNEVEN = 0.05
"""Difference in the share of items scored from which languages are said to lack scores."""


def audit(
    scores: Scores,
    *,
    quantile: float = 0.5,
    held_out: float = 0.5,
    permutations: int = 999,
    margin: float = 0.05,
    target: float | None = None,
    failures: Iterable[str] = (),
    answers: str = "rejected",
    posterior: str = "auto",
    draws: int = 1000,
    random_seed: int = 0,
    ci_prob: float = 0.95,
    only: Iterable[str] = (),
) -> Audit:
    """Audit what the language of an item does to its scores and to decisions.

    Parameters
    ----------
    scores : Scores
        With a facet ``language``; judge, scenario and backbone where there are.
        Read them with ``read_scores(table, measured="language", numbers=AUDIT_NUMBERS,
        tags=AUDIT_TAGS)`` or take :func:`bayesjudge.read_languages`.
    quantile : float
        Of the pooled scores: the global threshold.
    held_out : float
        Share of the scenarios that set thresholds and offsets; the others meet them.
    permutations : int
        Relabellings of languages within scenarios.
    margin : float
        Of the acceptance rate, beyond which a language counts as favoured.
    target : float, optional
        Acceptance rate for thresholds by language; by default 1 - quantile.
    failures : iterable of str
        Labels of ``verdict_tag`` that mean that the judge's answer failed.
    answers : {"rejected", "chosen", "both"}
        Of pairs: whose scores are judged one by one (the paper: the rejected).
    posterior : {"auto", "model", "items", "none"}
        ``model``: the exact engine's ``crossed`` of language x item for each judge (and
        over judges), and ``verdict`` for 0/1 scores, by NUTS; ``items``: the
        Bayesian bootstrap of scenarios; ``auto``: the model where scores have many
        values and languages are of equal spread, which it assumes; else items.
    draws : int
    random_seed : int
    ci_prob : float
    only : iterable of str
        Keys of the analyses to make; by default all.

    Returns
    -------
    Audit

    Raises
    ------
    DataError
        Where there are no two languages, or a named failure does not occur; or where the
        table is there as moments.
    ModelError
        Where ``posterior="model"`` is asked of scores that it does not fit.
    UsageError
        Where an argument is out of range, or ``scores`` are not Scores.
    """
    if isinstance(scores, Tally):
        need_rows(scores, "thresholds, and permutations within scenarios,")
    if not isinstance(scores, Scores):
        raise UsageError(
            f"audit takes Scores, not {type(scores).__name__}",
            remedy="Read the table first: bayesjudge.read_languages(table)",
        )
    refuse_battles(scores, "audit")
    tags = (failures,) if isinstance(failures, str) else tuple(failures)
    settings = Settings(
        quantile, held_out, permutations, margin, target, tags, answers, posterior, draws,
        random_seed, ci_prob, (only,) if isinstance(only, str) else tuple(only),
    )  # fmt: skip
    started = time.perf_counter()
    failed, problems = failed_rows(scores, tags)
    everything = audit_table(scores)
    kept = np.ones(len(scores), dtype=bool) if failed is None else ~failed
    if not kept.any():
        raise DataError("all answers failed: no score is left", scores.source)
    both = everything.keep(kept)
    rows, notes = _answers_asked(both, settings)
    rows = _among(kept, rows)
    table = everything.keep(rows)
    numbers = {name: values[rows] for name, values in scores.numbers}
    # Squares of the largest scores overflow: what needs them is null, and said to be.
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        found = _run(scores, everything, failed, both, table, rows, numbers, settings)
    sections = tuple(s for s in found.values() if isinstance(s, Section))
    missing = {key: text for key, text in found.items() if isinstance(text, str)}
    if failed is not None:
        notes.append(f"{int(failed.sum()):,} failed answers are left out of all but 'failures'")
    if not table.has_items:
        notes.append("the table holds cell means: no scenario tells items apart")
    elif _unshared(table):
        notes.append(
            "few scenarios are scored in several languages: differences between languages are "
            "also differences between their items"
        )
    if len(table.judges) > LEVEL * (settings.permutations + 1):
        notes.append(
            f"{settings.permutations:,} permutations cannot tell any of {len(table.judges)} judges "
            f"from chance after Holm's correction: give {len(table.judges) * 40:,} (--permutations)"
        )
    problems = (*problems, *_no_judge(scores), *_pooled_pairs(scores), *_overflowing(table))
    if table.has_items and not _unshared(everything):
        problems = (*problems, *_uneven(everything))
    if problems:
        sections = _with_flags(sections, problems)
    return Audit(scores, settings, sections, missing, tuple(notes), time.perf_counter() - started)


def _run(
    scores: Scores,
    everything: AuditTable,
    failed: Bools | None,
    both: AuditTable,
    table: AuditTable,
    rows: Bools,
    numbers: dict[str, Floats],
    settings: Settings,
) -> dict[str, Section | str]:
    given = CellNumbers(numbers.get("n"), numbers.get("sd"))
    # Each analysis draws from its own stream: leaving one out changes no other.
    spawned = np.random.default_rng(settings.seed).spawn(len(TITLES))
    streams = dict(zip(TITLES, spawned, strict=True))
    make: dict[str, Callable[[], Section | str]] = {
        "means": lambda: describe_means(table, given, settings),
        "anova": lambda: describe_anova(table, given, settings, streams["anova"]),
        "agreement": lambda: describe_agreement(table),
        "resource": lambda: describe_resource(
            table,
            _by_language(table, numbers.get("web_share"), "web_share"),
            _classes(table, scores.tag("resource"), rows),
        ),
        "uncertainty": lambda: describe_uncertainty(
            table, numbers.get("nll"), numbers.get("n_tokens")
        ),
        "failures": lambda: describe_failures(everything, failed, settings, streams["failures"]),
        "human_agreement": lambda: describe_human_agreement(scores, rows, settings),
    }
    if table.has_items:
        make |= _of_items(scores, table, rows, settings, streams)
    found: dict[str, Section | str] = {}
    for key in TITLES:
        if settings.only and key not in settings.only:
            found[key] = "not asked for (--only)"
        elif key != "pairwise_accuracy":
            found[key] = make[key]() if key in make else NEEDS_ITEMS
    if "pairwise_accuracy" not in found:
        found["pairwise_accuracy"] = describe_pairs(_oriented(both, scores), found["acceptance"])
    return {key: found[key] for key in TITLES}


def _of_items(
    scores: Scores,
    table: AuditTable,
    rows: Bools,
    settings: Settings,
    streams: Mapping[str, np.random.Generator],
) -> dict[str, Callable[[], Section | str]]:
    """Return the analyses that need single scores, not yet made."""
    split = judged(
        table, settings, scores.lower_is_better, np.random.default_rng([settings.seed, 1])
    )
    at = np.flatnonzero(rows)
    meeting = {
        name: at[table.judge == j][_rows_of(one.whole, one.meeting)]
        for j, (name, one) in enumerate(split.items())
    }
    return {
        "acceptance": lambda: describe_acceptance(split, settings, streams["acceptance"]),
        "offset_correction": lambda: describe_correction(
            split, settings, streams["offset_correction"]
        ),
        "dispersion": lambda: describe_dispersion(split, settings, streams["dispersion"]),
        "interaction": lambda: describe_interaction(split, settings),
        "language_labels": lambda: describe_labels(
            split, settings, scores.tag("lid_language"), scores.tag("text"), meeting
        ),
        "posterior": lambda: describe_posterior(table, split, settings, streams["posterior"]),
    }


def _oriented(table: AuditTable, scores: Scores) -> AuditTable:
    return replace(table, score=-table.score) if scores.lower_is_better else table


def _answers_asked(table: AuditTable, settings: Settings) -> tuple[Bools, list[str]]:
    """Return which rows are judged one by one, and say so."""
    every = np.ones(len(table), dtype=bool)
    if not (table.chosen >= 0).any():
        return every, []
    if settings.answers == "both":
        return every, ["single scores: of both answers of a pair"]
    rows = table.chosen == (1 if settings.answers == "chosen" else 0)
    if not rows.any():
        raise DataError(
            f"no answer of a pair is the {settings.answers} one",
            "column pair",
            "Say with --answers whose scores are to be judged",
        )
    return rows, [f"single scores: of the {settings.answers} answer of each pair (--answers)"]


def _among(kept: Bools, rows: Bools) -> Bools:
    out = np.zeros(kept.size, dtype=bool)
    out[np.flatnonzero(kept)[rows]] = True
    return out


def _rows_of(whole: AuditTable, part: AuditTable) -> NDArray[np.int64]:
    """Return where the scenarios of a part lie in the whole, in its order."""
    return np.flatnonzero(np.isin(whole.cluster, part.cluster))


def _unshared(table: AuditTable) -> bool:
    key = np.unique(table.cluster * len(table.languages) + table.language)
    counts = np.bincount(key // len(table.languages))
    return bool((counts > 1).sum() < 0.5 * (counts > 0).sum())


def _no_judge(scores: Scores) -> tuple[Problem, ...]:
    """Say that what might be a judge counts as what was judged."""
    if scores.has("judge") or not scores.has("backbone"):
        return ()
    column = dict(scores.mapping).get("backbone", "backbone")
    return (
        Problem(
            "warning",
            f"no column is known to be the judge, so all scores count as one judge's, and "
            f"{column!r} as what was judged",
            f"column {column!r}",
            remedy=f"If it names what gave the scores say --column judge={column}",
        ),
    )


def _pooled_pairs(scores: Scores) -> tuple[Problem, ...]:
    """Say where both answers of pairs are taken for levels of a facet, and pooled."""
    columns = dict(scores.mapping)
    return tuple(
        Problem(
            "warning",
            f"the facet {facet.name!r} holds {facet.levels[0]!r} and {facet.levels[1]!r}: both "
            "answers of each pair count alike in every number here",
            f"column {columns.get(facet.name, facet.name)!r}",
            remedy=f"Say --column {PAIR}={columns.get(facet.name, facet.name)} in its place",
        )
        for facet in scores.facets
        if facet.name != PAIR and tells_pairs(facet.levels)
    )


def _overflowing(table: AuditTable) -> tuple[Problem, ...]:
    """Say where scores are too large to be squared and summed."""
    largest = float(np.abs(table.score).max())
    if largest < np.sqrt(np.finfo(float).max / len(table)) / 4:
        return ()
    return (
        Problem(
            "warning",
            f"scores are as large as {largest:.3g}, and their squares too large to compute: "
            "what needs them is null or missing",
            "scores",
            remedy="Give them in a larger unit",
        ),
    )


def _uneven(table: AuditTable) -> tuple[Problem, ...]:
    """Say where a judge lacks scores in some languages more than in others."""
    L = len(table.languages)
    found = []
    for j, judge in enumerate(table.judges):
        part = table.of_judge(j)
        item = np.unique(part.item, return_inverse=True)[1]
        pairs = np.unique(item * L + part.language)
        share = np.bincount(pairs % L, minlength=L) / (item.max() + 1)
        low, high = int(np.argmin(share)), int(np.argmax(share))
        if 0 < share[low] < share[high] - UNEVEN:
            found.append(
                Problem(
                    "warning",
                    f"scores are there for {share[low]:.1%} of the items in {table.languages[low]} "
                    f"and for {share[high]:.1%} in {table.languages[high]}: perhaps not missing at "
                    "random, and means are of different items",
                    f"judge {judge}",
                    remedy="Find out which answers failed; a column parse_ok tells them",
                )
            )
    return tuple(found)


def _by_language(table: AuditTable, values: Floats | None, name: str) -> Floats | None:
    """Return the one value that each language has in a column; nan where it has none."""
    if values is None:
        return None
    out = np.full(len(table.languages), np.nan)
    for code, language in enumerate(table.languages):
        held = values[(table.language == code) & np.isfinite(values)]
        if held.size and np.ptp(held) > 0:
            raise DataError(
                f"{language!r} has several values of {name}",
                f"column {name}",
                "Give each language one",
            )
        if held.size:
            out[code] = held[0]
    return out


def _classes(table: AuditTable, tag: Tag | None, rows: Bools) -> list[str] | None:
    if tag is None:
        return None
    codes, out = tag.codes[rows], []
    for code, language in enumerate(table.languages):
        held = np.unique(codes[(table.language == code) & (codes >= 0)])
        if held.size > 1:
            raise DataError(
                f"{language!r} has several resource classes",
                "column resource",
                "Give each language one",
            )
        out.append(tag.levels[held[0]] if held.size else "")
    return out


def _with_flags(sections: tuple[Section, ...], problems: Iterable[Problem]) -> tuple[Section, ...]:
    first, *rest = sections
    return (replace(first, flags=(*problems, *first.flags)), *rest)
