"""Means, tests, agreement and resource level, as tables with names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bayesjudge.auditing.acceptance import permuted_statistic, spread
from bayesjudge.auditing.answer import Section, Settings
from bayesjudge.auditing.influence import cell_means, influences
from bayesjudge.auditing.languages import CLASS_SOURCE, WEB_SHARE_SOURCE, find_language
from bayesjudge.auditing.means import (
    NO_TEST,
    OneWay,
    average,
    correlation_p,
    correlations,
    extremes,
    normalize,
    offsets,
    one_way,
    pearson,
    spearman,
    squared_distances,
)
from bayesjudge.auditing.permuting import p_value
from bayesjudge.auditing.table import AuditTable
from bayesjudge.closed_form.intervals import t_interval
from bayesjudge.closed_form.multiplicity import holm
from bayesjudge.scores.problems import Problem

if TYPE_CHECKING:
    import pandas as pd

type Floats = NDArray[np.float64]

LEVEL = 0.05


@dataclass(frozen=True, eq=False)
class CellNumbers:
    """Sizes and standard deviations of cells given as means: (N,) each, or None."""

    n: Floats | None
    sd: Floats | None


def frame(columns: Mapping[str, Any]) -> pd.DataFrame:
    """Return a table whose text columns stay text."""
    import pandas as pd

    return pd.DataFrame(
        {
            name: pd.Series(
                list(values), dtype=object if any(isinstance(v, str) for v in values) else None
            )
            for name, values in columns.items()
        }
    )


def describe_means(table: AuditTable, given: CellNumbers, settings: Settings) -> Section:
    """Return means by language: raw, normalized within judge, and offsets with intervals."""
    means, _ = cell_means(table)
    raw, z = average(means), average(normalize(means))
    L, J, S = means.shape
    order = np.argsort(-z.overall, kind="stable")
    names = [table.languages[i] for i in order]
    by_language: dict[str, Any] = {
        "language": names,
        "mean": raw.overall[order],
        "z": z.overall[order],
    }
    notes = [
        "z is normalized within judge, over all of its cell means of language"
        + (f" and {' and '.join(table.cell_facets)}" if S > 1 else ""),
        "an offset is a language's mean less the mean over languages; judge-adjusted, not "
        "human-anchored: what the languages' scores ought to be is not known",
    ]
    flags: list[Problem] = []
    by_judge: dict[str, Any] = {
        "judge": np.repeat(table.judges, L),
        "language": np.tile(table.languages, J),
        "mean": raw.by_judge.T.reshape(-1),
        "z": z.by_judge.T.reshape(-1),
    }
    found, held = influences(table), table.has_items
    if held and found.df > 0:
        squares = influences(table, squared_distances(table.score, table.judge, J))
        what = offsets(found, squares)
        low, high = t_interval(what.offset, what.offset_se, what.df, settings.ci_prob)
        by_judge |= {
            "se": what.mean_se.reshape(-1),
            "offset": what.offset.reshape(-1),
            "offset_se": what.offset_se.reshape(-1),
            "ci_lower": low.reshape(-1),
            "ci_upper": high.reshape(-1),
            "n": found.n.reshape(-1),
        }
        low, high = t_interval(what.panel, what.panel_se, what.df, settings.ci_prob)
        by_language |= {
            "offset": what.panel[order],
            "offset_se": what.panel_se[order],
            "ci_lower": low[order],
            "ci_upper": high[order],
        }
        notes.append(
            "the offset over all judges is in units of each judge's own sd of scores; intervals "
            "take scenarios as drawn and these judges as all there are"
        )
        flags += _offset_flags(table, what.panel, what.panel_se, what.df)
    elif given.sd is not None and given.n is not None and not held:
        se = np.full((J, L), np.nan)
        for j in range(J):
            for code in range(L):
                rows = (table.judge == j) & (table.language == code)
                if rows.any():
                    parts = given.sd[rows] ** 2 / given.n[rows]
                    se[j, code] = np.sqrt(parts.sum()) / rows.sum()
        by_judge["se"] = se.reshape(-1)
        notes.append(
            "standard errors are sd / sqrt(n) of each cell: what languages share by having the "
            "same items cannot be seen in means, so differences are surer than these say"
        )
    tables = {"by_language": frame(by_language), "by_judge": frame(by_judge)}
    if S > 1:
        tables["by_cell"] = frame(
            {
                "cell": np.tile(table.cells, L),
                "language": np.repeat(table.languages, S),
                "mean": raw.by_cell.reshape(-1),
                "z": z.by_cell.reshape(-1),
            }
        )
    return Section("means", tables, tuple(notes), tuple(flags), ("by_language",))


def _offset_flags(table: AuditTable, panel: Floats, se: Floats, df: int) -> list[Problem]:
    """Name the languages whose panel offset is surely not zero, all of them at once."""
    from scipy.special import stdtr

    known = np.isfinite(panel) & (se > 0)
    p = np.full(panel.size, np.nan)
    p[known] = 2 * stdtr(df, -np.abs(panel[known] / se[known]))
    sure = holm(p) < LEVEL
    flags = []
    for sign, word in ((1, "higher"), (-1, "lower")):
        named = [
            f"{table.languages[i]} {panel[i]:+.2f}"
            for i in np.argsort(-sign * panel, kind="stable")
            if sure[i] and sign * panel[i] > 0
        ]
        if named:
            flags.append(
                Problem(
                    "warning",
                    f"{len(named)} of {panel.size} languages score {word} than the mean of all "
                    f"(sds, Holm at {LEVEL:g}): {', '.join(named)}",
                    "offsets over all judges",
                )
            )
    return flags


def describe_anova(
    table: AuditTable, given: CellNumbers, settings: Settings, rng: np.random.Generator
) -> Section | str:
    """Return one-way tests by judge; text where cell means lack n and sd."""
    J, L = len(table.judges), len(table.languages)
    if not table.has_items and (given.n is None or given.sd is None):
        return (
            "the table holds cell means: a one-way test needs their numbers of items and "
            "standard deviations (--column n=COLUMN --column sd=COLUMN), or item-level scores"
        )
    nothing = np.full(len(table), np.nan)
    sizes = nothing if given.n is None else given.n
    sds = nothing if given.sd is None else given.sd
    tests: list[OneWay] = []
    chance: list[float] = []
    for j in range(J):
        rows = table.judge == j
        if table.has_items:
            part = table.of_judge(j)
            n = np.bincount(part.language, minlength=L)
            total = np.bincount(part.language, weights=part.score, minlength=L)
            mean = total / np.maximum(n, 1)
            tests.append(one_way(mean, n, float(((part.score - mean[part.language]) ** 2).sum())))
            null = permuted_statistic(part, _out_of_cells(part), settings.permutations, rng)
            observed = spread(influences(part).mean[j])
            chance.append(p_value(float(observed), null))
        else:
            tests.append(_from_cells(table.keep(rows), sizes[rows], sds[rows], L))
            chance.append(np.nan)
    columns: dict[str, Any] = {
        "judge": table.judges,
        "f": [t.f for t in tests],
        "df1": [t.df1 for t in tests],
        "df2": [t.df2 for t in tests],
        "p_value": [t.p_value for t in tests],
        "p_permutation": chance,
    }
    notes = [
        "F takes all scores as independent, as the paper does; where languages share items "
        "that is too cautious: p_permutation permutes languages within scenarios and "
        "tests the range of the language means"
        if table.has_items
        else "F from the cells' means, n and sd; it takes items as unshared between languages"
    ]
    if len(table.cells) > 1 and not table.has_items:
        notes.append("cells of one language are pooled: what differs between cells counts as noise")
    sure = [
        judge for judge, p in zip(table.judges, holm(np.array(chance)), strict=True) if p < LEVEL
    ]
    flags = (
        (
            Problem(
                "warning",
                f"language changes the scores of {len(sure)} of {J} judges more than chance "
                f"would (permutation, Holm at {LEVEL:g}): {', '.join(sure)}",
                "language means",
            ),
        )
        if sure
        else ()
    )
    return Section("anova", {"tests": frame(columns)}, tuple(notes), flags, ("tests",))


def _out_of_cells(part: AuditTable) -> Floats:
    """Return scores less their cell's mean over languages: offsets stay, levels of cells go."""
    size = np.bincount(part.cell)
    mean = np.bincount(part.cell, weights=part.score) / np.maximum(size, 1)
    return np.asarray(part.score - mean[part.cell])


def _from_cells(part: AuditTable, n: Floats, sd: Floats, L: int) -> OneWay:
    if not (np.isfinite(n).all() and np.isfinite(sd).all() and (n > 1).all()):
        return NO_TEST
    size = np.bincount(part.language, weights=n, minlength=L)
    mean = np.bincount(part.language, weights=n * part.score, minlength=L) / np.maximum(size, 1)
    within = float(((n - 1) * sd**2 + n * (part.score - mean[part.language]) ** 2).sum())
    return one_way(mean, size, within)


def describe_agreement(table: AuditTable) -> Section | str:
    """Return the correlation of judges' language means, and who is at the ends."""
    if len(table.judges) < 2:
        return "there is one judge only: agreement needs two or more"
    means = average(cell_means(table)[0]).by_judge
    matrix = correlations(means)
    ends = extremes(means)
    judges = list(table.judges)
    pearson_table = {"judge": judges, **{name: matrix[:, k] for k, name in enumerate(judges)}}
    return Section(
        "agreement",
        {
            "pearson": frame(pearson_table),
            "extremes": frame(
                {
                    "language": table.languages,
                    "judges_top": ends.top,
                    "judges_bottom": ends.bottom,
                }
            ),
        },
        (
            f"extremes: among the {ends.size} highest or lowest of {len(table.languages)} "
            "languages of a judge; Pearson's r is over languages, and carries their sampling "
            "error: few items a language pull it toward zero",
        ),
        (),
        ("pearson",),
    )


def describe_resource(
    table: AuditTable, share: Floats | None, resource: Sequence[str] | None
) -> Section | str:
    """Return correlations of language means with the web share, and means by class.

    Parameters
    ----------
    share : (L,) float array or None
        The user's own web shares.
    resource : sequence of L str or None
        The user's own classes, empty where there is none.
    """
    known = [find_language(name) for name in table.languages]
    own = share is not None
    shares = (
        share
        if share is not None
        else np.array([np.nan if k is None or k.web_share is None else k.web_share for k in known])
    )
    classes = (
        list(resource)
        if resource is not None
        else ["" if k is None else k.resource_class for k in known]
    )
    z = average(normalize(cell_means(table)[0]))
    with np.errstate(divide="ignore", invalid="ignore"):
        log = np.where(shares > 0, np.log10(shares), np.nan)
    if np.isfinite(log).sum() < 3 and len(set(classes) - {""}) < 2:
        return (
            "fewer than three languages have a known web share and all known classes are one: "
            "name languages by ISO 639 code or English name, or give --column web_share=COLUMN "
            "or --column resource=COLUMN"
        )
    rows: dict[str, list[Any]] = {
        k: [] for k in ("judge", "spearman", "p_spearman", "pearson", "pearson_log", "n")
    }
    named = [("(mean of all)", z.overall)] if len(table.judges) > 1 else []
    named += [(name, z.by_judge[:, j]) for j, name in enumerate(table.judges)]
    for name, values in named:
        rho, n = spearman(log, values)
        rows["judge"].append(name)
        rows["spearman"].append(rho)
        rows["p_spearman"].append(correlation_p(rho, n))
        rows["pearson"].append(pearson(np.where(shares > 0, shares, np.nan), values)[0])
        rows["pearson_log"].append(pearson(log, values)[0])
        rows["n"].append(n)
    scripts = ["" if k is None else k.script for k in known]
    facts = frame(
        {
            "language": table.languages,
            "name": ["" if k is None else k.name for k in known],
            "script": scripts,
            "family": ["" if k is None else k.family for k in known],
            "resource_class": classes,
            "web_share": shares,
            "z": z.overall,
        }
    )
    groups = {
        "by_class": _by_group("resource_class", classes, z.overall),
        "by_script": _by_group("script", scripts, z.overall),
    }
    lost = [
        name for name, value in zip(table.languages, log, strict=True) if not np.isfinite(value)
    ]
    notes = [
        "negative: the less of a language is on the web, the higher its scores",
        "web shares: the table's own column" if own else f"web shares: {WEB_SHARE_SOURCE}",
        "classes: the table's own column" if resource is not None else CLASS_SOURCE,
    ]
    if lost:
        notes.append(f"without a web share, left out of correlations: {', '.join(lost)}")
    return Section(
        "resource",
        {"correlations": frame(rows), **groups, "languages": facts},
        tuple(notes),
        (),
        ("correlations", "by_class"),
    )


def _by_group(name: str, labels: Sequence[str], values: Floats) -> pd.DataFrame:
    """Return the mean z of each class or script, the most frequent first."""
    found = sorted({c for c in labels if c}, key=lambda c: (-list(labels).count(c), c))
    rows = [np.array([c == label for label in labels]) & np.isfinite(values) for c in found]
    return frame(
        {
            name: found,
            "languages": [list(labels).count(c) for c in found],
            "z": [float(values[r].mean()) if r.any() else np.nan for r in rows],
        }
    )
