"""What languages do to decisions: acceptance, corrections and what they leave, as tables."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bayesjudge.auditing.acceptance import (
    Correction,
    Gap,
    acceptance_gap,
    accuracy_summary,
    correct_offsets,
    held_out,
    is_verdict,
    pairwise_accuracy,
    threshold_at,
)
from bayesjudge.auditing.answer import Section, Settings
from bayesjudge.auditing.describing import LEVEL, frame
from bayesjudge.auditing.means import nan_mean
from bayesjudge.auditing.structure import dispersion, interaction
from bayesjudge.auditing.table import AuditTable, least_scenarios
from bayesjudge.closed_form.intervals import t_interval
from bayesjudge.closed_form.multiplicity import holm
from bayesjudge.scores.problems import Problem

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

type Floats = NDArray[np.float64]

NEEDS_ITEMS = (
    "the table holds cell means, which say nothing of single scores: give one row a judge call, "
    "with a column of items (--column scenario=COLUMN)"
)
VERDICT_THRESHOLD = 0.5
FEW_FOR_SPREAD = 10
"""Below, distances from means of so few scenarios are not exchangeable: without any
effect, spreads of 23 languages were told apart at 0.05 in all tables of 2 scenarios,
31 % of 3, 12 % of 5 and 7 % of 10 (150 tables each)."""


@dataclass(frozen=True, eq=False)
class Judged:
    """One judge's scores, highest best, and the parts that set and meet a threshold.

    Attributes
    ----------
    whole, setting, meeting : AuditTable
        All rows; those that set thresholds and offsets; the others. The same
        three times where scores are verdicts.
    threshold : float
        Set on one part.
    verdicts : bool
    sign : float
        -1 where lower scores are better: thresholds are turned back with it.
    """

    whole: AuditTable
    setting: AuditTable
    meeting: AuditTable
    threshold: float
    verdicts: bool
    sign: float


def judged(
    table: AuditTable, settings: Settings, lower_is_better: bool, rng: np.random.Generator
) -> dict[str, Judged]:
    """Split each judge's scenarios and set its threshold.

    All judges are split alike, so that their scenarios stay the same.
    """
    sign = -1.0 if lower_is_better else 1.0
    sets = held_out(table, settings.held_out, rng)
    out = {}
    for j, name in enumerate(table.judges):
        rows = table.judge == j
        whole = table.keep(rows)
        verdicts = is_verdict(whole.score)
        whole = replace(whole, score=sign * whole.score)
        setting, meeting = whole.keep(sets[rows]), whole.keep(~sets[rows])
        if verdicts or not len(setting) or not len(meeting):
            setting = meeting = whole
        threshold = (
            sign * VERDICT_THRESHOLD if verdicts else threshold_at(setting.score, settings.quantile)
        )
        out[name] = Judged(whole, setting, meeting, threshold, verdicts, sign)
    return out


def describe_pairs(table: AuditTable, acceptance: Section | str) -> Section | str:
    """Return pairwise accuracy by judge and language, with acceptance beside it."""
    if not (table.chosen == 1).any() or not (table.chosen == 0).any():
        return (
            "the table has no pairs: name the column that tells the preferred answer from the "
            "other with --column pair=COLUMN (chosen and rejected, or true and false)"
        )
    L, J = len(table.languages), len(table.judges)
    if not table.has_items:
        difference = np.full((J, L), np.nan)
        for j in range(J):
            for code in range(L):
                here = (table.judge == j) & (table.language == code)
                sides = [table.score[here & (table.chosen == side)] for side in (1, 0)]
                if all(side.size for side in sides):
                    difference[j, code] = sides[0].mean() - sides[1].mean()
        columns = {
            "judge": np.repeat(table.judges, L),
            "language": np.tile(table.languages, J),
            "difference": difference.reshape(-1),
        }
        note = (
            "cell means carry the mean difference of preferred and other answers only; how often "
            "the preferred one scores higher needs pairs of single scores"
        )
        return Section(
            "pairwise_accuracy", {"differences": frame(columns)}, (note,), (), ("differences",)
        )
    right, strict, n = pairwise_accuracy(table)
    accuracy, half = nan_mean(right, 2), nan_mean(strict, 2)
    columns = {
        "judge": np.repeat(table.judges, L),
        "language": np.tile(table.languages, J),
        "accuracy": accuracy.reshape(-1),
        "accuracy_ties_half": half.reshape(-1),
        "n": n.sum(axis=2).reshape(-1),
    }
    beside = None
    if isinstance(acceptance, Section):
        rates = acceptance.tables["rates"]
        known = {
            (a, b): r
            for a, b, r in zip(rates["judge"], rates["language"], rates["rate"], strict=True)
        }
        beside = np.array(
            [[known.get((a, b), np.nan) for b in table.languages] for a in table.judges], float
        )
        columns["acceptance"] = beside.reshape(-1)
    summary: dict[str, list[Any]] = {
        k: [] for k in ("judge", "mean", "sd", "lowest", "accuracy_range", "acceptance_gap")
    }
    for j, name in enumerate(table.judges):
        mean, sd = accuracy_summary(right[j])
        held = accuracy[j][np.isfinite(accuracy[j])]
        summary["judge"].append(name)
        summary["mean"].append(mean)
        summary["sd"].append(sd)
        summary["lowest"].append(held.min() if held.size else np.nan)
        summary["accuracy_range"].append(np.ptp(held) if held.size else np.nan)
        rate = np.full(1, np.nan) if beside is None else beside[j]
        rate = rate[np.isfinite(rate)]
        summary["acceptance_gap"].append(np.ptp(rate) if rate.size else np.nan)
    notes = (
        "ties count as right, as in the paper's table 7; accuracy_ties_half counts them half",
        "the range over languages is biased upward by chance, as the gap is: see acceptance",
    )
    return Section(
        "pairwise_accuracy",
        {"summary": frame(summary), "by_language": frame(columns)},
        notes,
        (),
        ("summary",),
    )


def describe_acceptance(
    by_judge: Mapping[str, Judged], settings: Settings, rng: np.random.Generator
) -> Section:
    """Return acceptance by language under each judge's global threshold, against chance."""
    found: dict[str, Gap] = {
        name: acceptance_gap(one.meeting, one.threshold, settings.permutations, rng)
        for name, one in by_judge.items()
    }
    signs = [one.sign for one in by_judge.values()]
    p = np.array([g.p_value for g in found.values()])
    gaps = {
        "judge": list(found),
        "threshold": [s * g.threshold for s, g in zip(signs, found.values(), strict=True)],
        "gap": [g.gap for g in found.values()],
        "null": [g.null for g in found.values()],
        "null_95": [g.null_upper for g in found.values()],
        "excess": [g.excess for g in found.values()],
        "p_value": p,
        "n": [int(g.n.sum()) for g in found.values()],
    }
    languages = next(iter(by_judge.values())).whole.languages
    rates = {
        "judge": np.repeat(list(found), len(languages)),
        "language": np.tile(languages, len(found)),
        "rate": np.concatenate([g.rate for g in found.values()]),
        "se": np.concatenate([g.se for g in found.values()]),
        "n": np.concatenate([g.n for g in found.values()]),
    }
    sure = [name for name, q in zip(found, holm(p), strict=True) if q < LEVEL]
    flags = (
        (
            Problem(
                "warning",
                f"one threshold accepts languages at different rates beyond chance for {len(sure)} "
                f"of {len(found)} judges (permutation, Holm at {LEVEL:g}): "
                + ", ".join(
                    f"{name} gap {100 * found[name].gap:.0f} points, chance "
                    f"{100 * found[name].null:.0f}"
                    for name in sure
                ),
                "acceptance",
            ),
        )
        if sure
        else ()
    )
    better = "lower" if signs[0] < 0 else "higher"
    notes = [
        "the gap is the highest less the lowest rate; with no bias at all it is not zero but "
        "about null (languages permuted within scenarios): read the excess",
        f"accepted: a score {better} than the threshold, the quantile "
        f"{settings.quantile:g} of the scores of {settings.held_out:.0%} of the scenarios "
        "(chosen by the seed); rates are of the others. Graded scores take the cut nearest to it",
    ]
    if any(one.verdicts for one in by_judge.values()):
        notes.append("verdicts of 0 and 1 are acceptance themselves: all rows, no threshold set")
    return Section(
        "acceptance",
        {"gaps": frame(gaps), "rates": frame(rates)},
        tuple(notes),
        flags,
        ("gaps",),
    )


def describe_correction(
    by_judge: Mapping[str, Judged], settings: Settings, rng: np.random.Generator
) -> Section | str:
    """Return what subtracting an offset a language mends, in sample and on held-out items."""
    usable = {name: one for name, one in by_judge.items() if not one.verdicts}
    if not usable:
        return "verdicts of 0 and 1 cannot be moved by an offset"
    rows: dict[str, list[Any]] = {
        k: []
        for k in (
            "judge", "sample", "variance_removed", "gap_before", "gap_after", "gap_removed",
            "null_after", "excess_after", "p_after",
        )
    }  # fmt: skip
    offsets: dict[str, list[Any]] = {k: [] for k in ("judge", "language", "offset")}
    for name, one in usable.items():
        both: dict[str, Correction] = {
            "in": correct_offsets(
                one.whole, one.whole, settings.quantile, settings.permutations, rng
            ),
            "out": correct_offsets(
                one.setting, one.meeting, settings.quantile, settings.permutations, rng
            ),
        }
        for sample, found in both.items():
            after = found.after
            values = (
                name, sample, found.variance_removed, found.before.gap, after.gap,
                found.gap_removed, after.null, after.excess, after.p_value,
            )  # fmt: skip
            for key, value in zip(rows, values, strict=True):
                rows[key].append(value)
        offsets["judge"] += [name] * len(one.whole.languages)
        offsets["language"] += one.whole.languages
        offsets["offset"] += (one.sign * both["in"].offset).tolist()
    notes = (
        "in: offsets from the same scores that they are taken from, so all of the variance of "
        "language means goes whatever the scores are; out: from the part that sets the "
        "threshold, judged on the rest: the figure to rely on",
        "the same as a threshold of its own for each language, higher by its offset",
    )
    return Section(
        "offset_correction",
        {"corrections": frame(rows), "offsets": frame(offsets)},
        notes,
        (),
        ("corrections",),
    )


def describe_dispersion(
    by_judge: Mapping[str, Judged], settings: Settings, rng: np.random.Generator
) -> Section | str:
    """Return the spread of scores by language about the language's mean."""
    usable = {name: one for name, one in by_judge.items() if not one.verdicts}
    if not usable:
        return "the spread of verdicts of 0 and 1 is a matter of their mean"
    found = {
        name: dispersion(one.whole, settings.permutations, rng) for name, one in usable.items()
    }
    few = [k for k, one in usable.items() if least_scenarios(one.whole) < FEW_FOR_SPREAD]
    p = np.array([np.nan if k in few else d.p_value for k, d in found.items()])
    languages = next(iter(usable.values())).whole.languages
    rows: dict[str, list[Any]] = {
        k: [] for k in ("judge", "language", "sd", "ratio", "ci_lower", "ci_upper")
    }
    for name, one in found.items():
        low, high = t_interval(one.log_ratio, one.log_ratio_se, max(one.df, 1), settings.ci_prob)
        rows["judge"] += [name] * len(languages)
        rows["language"] += languages
        rows["sd"] += one.sd.tolist()
        rows["ratio"] += np.exp(one.log_ratio).tolist()
        rows["ci_lower"] += np.exp(low).tolist()
        rows["ci_upper"] += np.exp(high).tolist()
    tests = {
        "judge": list(found),
        "lowest_sd": [_extreme(d.sd, np.min) for d in found.values()],
        "highest_sd": [_extreme(d.sd, np.max) for d in found.values()],
        "p_value": p,
    }
    sure = [name for name, q in zip(found, holm(p), strict=True) if q < LEVEL]
    flags = (
        (
            Problem(
                "warning",
                f"languages differ in the spread of their scores for {len(sure)} of {len(found)} "
                f"judges (permutation, Holm at {LEVEL:g}), which no offset mends: "
                f"{', '.join(sure)}",
                "dispersion",
            ),
        )
        if sure
        else ()
    )
    notes = [
        "ratio: sd over its geometric mean over languages; intervals take scenarios as drawn, "
        "and are for one language at a time",
    ]
    if few:
        notes.append(
            f"no test for {', '.join(few)}: with fewer than {FEW_FOR_SPREAD} scenarios of some "
            "language it takes chance for an effect"
        )
    return Section(
        "dispersion",
        {"tests": frame(tests), "by_language": frame(rows)},
        tuple(notes),
        flags,
        ("tests",),
    )


def _extreme(values: Floats, of: Callable[[Floats], Any]) -> float:
    held = values[np.isfinite(values)]
    return float(of(held)) if held.size else np.nan


def describe_interaction(by_judge: Mapping[str, Judged], settings: Settings) -> Section | str:
    """Return the share of centred variance that belongs to language x item."""
    from scipy.special import expit, logit, stdtrit

    rows: dict[str, list[Any]] = {
        k: []
        for k in (
            "judge", "item_share", "interaction_share", "ci_lower", "ci_upper",
            "population_share", "n_items", "items_left_out",
        )
    }  # fmt: skip
    for name, one in by_judge.items():
        found = interaction(one.whole)
        if found is None:
            continue
        reach = float(stdtrit(max(found.df, 1), (1 + settings.ci_prob) / 2)) * found.se_logit
        centre = float(logit(found.share))
        values = (
            name, 1 - found.share, found.share, float(expit(centre - reach)),
            float(expit(centre + reach)), found.population_share, found.n_items, found.n_left_out,
        )  # fmt: skip
        for key, value in zip(rows, values, strict=True):
            rows[key].append(value)
    if not rows["judge"]:
        return (
            "fewer than three items are scored in all languages of any judge, or none varies: "
            "the split of variance needs the same items in every language"
        )
    notes = (
        "shares of the variance about language means: what items share over languages, and "
        "language x item, which no offset or threshold by language mends; with one score a cell "
        "the noise of a single call counts as language x item",
        "interaction_share is about these languages (the paper's table 14); population_share "
        "takes them as draws from many: times L / (L - 1)",
    )
    return Section("interaction", {"shares": frame(rows)}, notes, (), ("shares",))
