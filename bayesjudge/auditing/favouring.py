"""Acceptance, favour and thresholds with their uncertainty, as tables with names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayesjudge.auditing.answer import Section, Settings
from bayesjudge.auditing.believing import (
    BOOTSTRAP,
    Panel,
    believe,
    panel_by_model,
    panel_of_verdicts,
    weighted,
)
from bayesjudge.auditing.deciding import Judged
from bayesjudge.auditing.describing import LEVEL, frame
from bayesjudge.auditing.posterior import (
    GaussianDraws,
    ScoreDraws,
    bootstrap_weights,
    favour,
    share_thresholds,
)
from bayesjudge.auditing.table import AuditTable, least_scenarios
from bayesjudge.scores.problems import Problem
from bayesjudge.summaries import summarize

type Floats = NDArray[np.float64]
type Row = dict[str, Any]

SURE = 0.95
FEW_SCENARIOS = 20
"""Below, weighing scenarios takes chance for an effect, and no probability is told.

Without any effect, some language of 4 was named favoured or disfavoured (at 0.05 each)
in 58 % of tables of 2 scenarios, 34 % of 5, 17 % of 10, 6 % of 20 and 2 % of 40; of 23
languages in 81, 81, 32, 5 and 2 % (200 tables each: tests/calibration/language_audit.py,
``--parts few``).
"""
MISFIT = 0.02
"""Difference of acceptance below which a model's misfit does not matter."""
MOST_NAMED = 8

ALL_JUDGES = "(mean of all)"


def describe_posterior(
    table: AuditTable,
    by_judge: Mapping[str, Judged],
    settings: Settings,
    rng: np.random.Generator,
) -> Section | str:
    """Return acceptance, gaps, favour and thresholds with their uncertainty, by judge."""
    if settings.posterior == "none":
        return "not asked for (--posterior none)"
    clusters, first = np.unique(table.cluster, return_index=True)
    if clusters.size < 2:
        return (
            "there is one scenario only: how far acceptance would differ for another cannot be "
            "known; give scores of more scenarios (--column scenario=COLUMN)"
        )
    weights = bootstrap_weights(settings.draws, table.cell[first], rng)
    languages = table.languages
    rates_rows: list[Row] = []
    gap_rows: list[Row] = []
    threshold_rows: list[Row] = []
    group_rows: list[Row] = []
    flags: list[Problem] = []
    methods: dict[str, list[str]] = {}
    by_items = []
    few: dict[str, int] = {}
    for name, one in by_judge.items():
        found = believe(one, settings, weights, clusters)
        methods.setdefault(found.method, []).append(name)
        at = np.full(len(languages), one.threshold)
        rates = found.draws.rates(at)
        items = weighted(one.whole, weights, clusters).rates(at)
        by_items.append(items)
        least = least_scenarios(one.whole)
        if least < FEW_SCENARIOS:
            few[name] = least
        unsure = found.method == BOOTSTRAP and name in few
        rates_rows += _told(_rates(name, languages, rates, items.mean(axis=0), settings), unsure)
        gap_rows += _told([_gap(name, rates, settings)], unsure)
        if isinstance(found.draws, GaussianDraws) and name not in few:
            flags += _misfit(name, rates, items)
        flags += _unconverged(found.converged, f"judge {name}")
        if not one.verdicts:
            threshold_rows += _told(_thresholds(name, one, found.draws, settings), unsure)
            group_rows += [] if unsure else _groups(name, one, found.draws, settings)
    if len(by_judge) > 1:
        panel = _panel(table, by_judge, by_items, settings)
        methods.setdefault(panel.method, []).append(ALL_JUDGES)
        empirical = _mean_of(by_items).mean(axis=0)
        unsure = panel.method == BOOTSTRAP and bool(few)
        if few:
            few[ALL_JUDGES] = min(few.values())
        rates_rows += _told(_rates(ALL_JUDGES, languages, panel.rates, empirical, settings), unsure)
        gap_rows += _told([_gap(ALL_JUDGES, panel.rates, settings)], unsure)
        flags += _unconverged(panel.converged, "all judges")
    tables = {"gaps": _table(gap_rows), "rates": _table(rates_rows)}
    if threshold_rows:
        tables["thresholds"] = _table(threshold_rows)
    if group_rows:
        tables["shared"] = _table(group_rows)
    flags += _favoured(rates_rows, settings)
    notes = [
        *(f"{method}: {', '.join(names)}" for method, names in methods.items()),
        "rates are of a new item like the table's, at the global threshold taken as given; "
        "empirical is the table's own rate, whatever the method",
        f"p_favoured: P(rate above the mean of all languages by more than {settings.margin:g}), "
        "one language at a time",
        "the gap of the draws is positive by construction: read the excess under acceptance, and "
        "p_above_margin, P(highest less lowest rate > margin), beside it",
    ]
    if settings.posterior == "auto":
        notes.append(
            "the model (crossed, of language x item) is taken where scores have many values, one "
            "cell, one score an item, and languages of equal spread; else scenarios are weighed"
        )
    blind = [name for name in methods.get(BOOTSTRAP, []) if name in few]
    if blind:
        notes.append(
            f"of {', '.join(blind)} some language has {_counted(min(few[name] for name in blind))} "
            f"only: weighing fewer than {FEW_SCENARIOS} (less one for each further cell) takes "
            "chance for an effect, so rates stand without intervals and probabilities, and no "
            "language is called favoured: see the permutation test under acceptance, or give "
            "more scenarios"
        )
    if threshold_rows:
        notes.append(
            f"thresholds aim at a rate of {settings.target_rate:g}; rate_lower and rate_upper say "
            "what the mean threshold reaches; languages of a group may share one: all of their "
            f"rates stay within {settings.margin:g} of the target with probability p_all"
        )
    else:
        notes.append("verdicts of 0 and 1 have no threshold to set")
    return Section("posterior", tables, tuple(notes), tuple(flags), ("gaps", "shared"))


def _counted(n: int) -> str:
    return f"{n} scenario{'' if n == 1 else 's'}"


def _told(rows: list[Row], unsure: bool) -> list[Row]:
    """Take away what scenarios too few to weigh cannot tell."""
    if not unsure:
        return rows
    return [
        {key: np.nan if key in _UNCERTAINTY else value for key, value in row.items()}
        for row in rows
    ]


_UNCERTAINTY = frozenset(
    [
        "sd", "ci_lower", "ci_upper", "p_favoured", "p_disfavoured", "p_highest", "p_lowest",
        "p_above_margin", "rate_lower", "rate_upper",
    ]
)  # fmt: skip


def _panel(
    table: AuditTable,
    by_judge: Mapping[str, Judged],
    by_items: Sequence[Floats],
    settings: Settings,
) -> Panel:
    if settings.posterior != "items":
        if settings.posterior == "model" and all(one.verdicts for one in by_judge.values()):
            return panel_of_verdicts(table, settings)
        found = panel_by_model(table, by_judge, settings)
        if found is not None:
            return found
    return Panel(_mean_of(by_items), BOOTSTRAP)


def _mean_of(parts: Sequence[Floats]) -> Floats:
    stacked = np.stack(list(parts))
    held = np.isfinite(stacked)
    with np.errstate(invalid="ignore"):
        return np.asarray(np.where(held, stacked, 0.0).sum(axis=0) / held.sum(axis=0))


def _held(rates: Floats) -> NDArray[np.int64]:
    return np.flatnonzero(np.isfinite(rates).all(axis=0))


def _rates(
    name: str, languages: Sequence[str], rates: Floats, empirical: Floats, settings: Settings
) -> list[Row]:
    at = _held(rates)
    told = summarize(rates[:, at], settings.ci_prob, "rate")
    who = favour(rates[:, at], settings.margin)
    return [
        {
            "judge": name,
            "language": languages[i],
            **{key: values[k] for key, values in told.items()},
            "empirical": empirical[i],
            "p_favoured": who.favoured[k],
            "p_disfavoured": who.disfavoured[k],
            "p_highest": who.highest[k],
            "p_lowest": who.lowest[k],
        }
        for k, i in enumerate(at)
    ]


def _gap(name: str, rates: Floats, settings: Settings) -> Row:
    draws = np.ptp(rates[:, _held(rates)], axis=1)
    told = summarize(draws[:, None], settings.ci_prob, "gap")
    return {
        "judge": name,
        **{key: values[0] for key, values in told.items()},
        "p_above_margin": float((draws > settings.margin).mean()),
    }


def _thresholds(name: str, one: Judged, draws: ScoreDraws, settings: Settings) -> list[Row]:
    wanted = draws.thresholds(settings.target_rate)
    at = _held(wanted)
    told = summarize(one.sign * wanted[:, at], settings.ci_prob, "threshold")
    centre = np.full(wanted.shape[1], np.nan)
    centre[at] = wanted[:, at].mean(axis=0)
    reached = summarize(draws.rates(centre)[:, at], settings.ci_prob, "rate")
    return [
        {
            "judge": name,
            "language": one.whole.languages[i],
            **{key: values[k] for key, values in told.items()},
            "rate": reached["rate"][k],
            "rate_lower": reached["ci_lower"][k],
            "rate_upper": reached["ci_upper"][k],
        }
        for k, i in enumerate(at)
    ]


def _groups(name: str, one: Judged, draws: ScoreDraws, settings: Settings) -> list[Row]:
    found = share_thresholds(draws, settings.target_rate, settings.margin, SURE)
    return [
        {
            "judge": name,
            "group": number,
            "languages": ", ".join(one.whole.languages[i] for i in group.members),
            "threshold": one.sign * group.threshold,
            "p_all": group.p_all,
        }
        for number, group in enumerate(found, start=1)
    ]


def _misfit(name: str, rates: Floats, items: Floats) -> list[Problem]:
    """Say where normal scores miss the table's own acceptance by more than chance.

    Tested language by language, and for the mean of all, at a joint level of 0.05; the
    sd of the table's own rate is more than that of the difference, so rather late.
    """
    from scipy.special import ndtri

    at = _held(rates)
    model, own = rates[:, at].mean(axis=0), items[:, at]
    difference = np.append(model - own.mean(axis=0), model.mean() - own.mean())
    sd = np.append(own.std(axis=0), own.mean(axis=1).std())
    limit = np.maximum(MISFIT, -float(ndtri(0.025 / sd.size)) * sd)
    if (np.abs(difference) <= limit).all():
        return []
    return [
        Problem(
            "warning",
            "normal scores do not describe this judge: acceptance is off by up to "
            f"{100 * float(np.abs(difference).max()):.1f} points from the table's own",
            f"judge {name}",
            remedy="Weigh scenarios instead: --posterior items",
        )
    ]


def _unconverged(converged: bool, where: str) -> list[Problem]:
    if converged:
        return []
    return [Problem("warning", "the fit did not converge: do not rely on it", where)]


def _favoured(rows: Sequence[Row], settings: Settings) -> list[Problem]:
    """Name the languages that are surely favoured, of all languages and judges at once."""
    sure = 1.0 - LEVEL / max(len(rows), 1)
    flags = []
    for key, word in (("p_favoured", "favoured"), ("p_disfavoured", "disfavoured")):
        named: dict[str, list[str]] = {}
        for row in rows:
            if row[key] >= sure:
                named.setdefault(row["judge"], []).append(row["language"])
        if named:
            told = "; ".join(f"{judge}: {_some(names)}" for judge, names in named.items())
            flags.append(
                Problem(
                    "warning",
                    f"{word} by more than {100 * settings.margin:g} points of acceptance (P at "
                    f"least {sure:.4g}, so that all named are with {1 - LEVEL:g}): {told}",
                    "posterior",
                )
            )
    return flags


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return ", ".join(names[:MOST_NAMED]) + more


def _table(rows: Sequence[Row]) -> Any:
    keys = rows[0] if rows else {}
    return frame({key: [row[key] for row in rows] for key in keys})
