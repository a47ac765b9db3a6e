"""Uncertainty and wrong labels: what may be behind, and around, the languages' scores."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayesjudge.auditing.answer import Section, Settings
from bayesjudge.auditing.deciding import Judged
from bayesjudge.auditing.describing import frame
from bayesjudge.auditing.labels import (
    acceptance_under,
    identify_languages,
    label_codes,
    language_thresholds,
    under_labels,
)
from bayesjudge.auditing.means import (
    correlation_p,
    midranks,
    nan_mean,
    pearson,
    spearman,
)
from bayesjudge.auditing.regressions import (
    count_signs,
    nested_regressions,
    within_language_slope,
)
from bayesjudge.auditing.table import AuditTable
from bayesjudge.errors import UsageError
from bayesjudge.scores.problems import Problem
from bayesjudge.scores.table import Tag

type Floats = NDArray[np.float64]

NESTED = (
    "judge", "cell", "r2_nll", "r2_language", "r2_full", "unique_language", "unique_nll",
    "shared", "f_language", "p_language", "f_language_clustered", "p_language_clustered",
    "f_nll", "p_nll", "f_nll_clustered", "p_nll_clustered", "df1", "df2", "slope", "slope_se",
    "n", "n_scenarios",
)  # fmt: skip


def describe_uncertainty(
    table: AuditTable, nll: Floats | None, tokens: Floats | None
) -> Section | str:
    """Return the regressions of scores on NLL and language, by judge and cell.

    Parameters
    ----------
    table : AuditTable
    nll, tokens : (N,) float array or None
        Summed negative log-likelihood and number of tokens; nan where there is none.
    """
    if nll is None:
        return (
            "the table has no uncertainty: name a column of summed negative log-likelihoods "
            "with --column nll=COLUMN (and of token counts with --column n_tokens=COLUMN)"
        )
    known = np.isfinite(nll)
    if not known.any():
        return "no row has a number in the column nll"
    correlated = _by_language_correlations(table, nll, known)
    tables = {"language_level": frame(correlated)}
    notes = [
        "summed NLL is a property of model and text; per token it is divided by a count that "
        "rises in languages which the tokenizer cuts finer",
    ]
    if (~known).any():
        notes.append(f"{int((~known).sum()):,} rows without an NLL are left out here")
    if tokens is not None:
        per_token = _per_token(table, nll, tokens)
        tables["per_token"] = frame(per_token)
        notes += _folds(per_token)
    else:
        notes.append("summed against per-token NLL: needs token counts (--column n_tokens=COLUMN)")
    if not table.has_items:
        notes.append("regressions: cell means have no single scores to regress")
        return Section("uncertainty", tables, tuple(notes), (), ("language_level",))
    nested, slopes, counts = _regress(table, nll, known)
    tables |= {
        "nested": frame(nested),
        "within_language": frame(slopes),
        "signs": frame(counts),
    }
    notes += [
        "unique: what a factor adds to the other; shared = R2(NLL) + R2(language) - R2(full), "
        "negative where one hides what the other explains",
        "F takes scores as independent, as the paper does; f_..._clustered and slope_se let "
        "errors be correlated within a scenario over its languages",
        "signs: significant at 0.05 by language, by plain and by clustered standard errors; "
        "of 23 languages without any slope about one is significant by chance",
    ]
    negative = sum(1 for value in nested["shared"] if value < 0)
    if negative:
        notes.append(
            f"the shared part is negative in {negative} of {len(nested['shared'])} regressions: "
            "shares there do not stack"
        )
    return Section("uncertainty", tables, tuple(notes), (), ("nested", "signs", "language_level"))


def _by_language_correlations(
    table: AuditTable, nll: Floats, known: NDArray[np.bool_]
) -> dict[str, list[Any]]:
    """Return correlations over languages of mean NLL and mean score (the paper's table 8)."""
    rows: dict[str, list[Any]] = {
        k: [] for k in ("judge", "cell", "spearman", "p_spearman", "pearson", "n")
    }
    for j, judge in enumerate(table.judges):
        for s, cell in enumerate(table.cells):
            part = known & (table.judge == j) & (table.cell == s)
            if not part.any():
                continue
            L = len(table.languages)
            x, y = (_means(table.language[part], v[part], L) for v in (nll, table.score))
            rho, n = spearman(x, y)
            values = (judge, cell, rho, correlation_p(rho, n), pearson(x, y)[0], n)
            for key, value in zip(rows, values, strict=True):
                rows[key].append(value)
    if len(rows["judge"]) > 1:
        mean = mean_correlations(np.array(rows["spearman"]), np.array(rows["pearson"]))
        for key, value in zip(rows, ("(mean)", "", mean[0], np.nan, mean[1], 0), strict=True):
            rows[key].append(value)
    return rows


def mean_correlations(rho: Floats, r: Floats) -> tuple[float, float]:
    """Return the unweighted means over runs, as the last row of the paper's table 8."""
    return float(nan_mean(rho, 0)), float(nan_mean(r, 0))


def _means(language: NDArray[np.int64], values: Floats, L: int) -> Floats:
    n = np.bincount(language, minlength=L)
    total = np.bincount(language, weights=values, minlength=L)
    return np.where(n > 0, total / np.maximum(n, 1), np.nan)


def _per_token(table: AuditTable, nll: Floats, tokens: Floats) -> dict[str, Any]:
    known = np.isfinite(nll) & (tokens > 0)
    J, L = len(table.judges), len(table.languages)
    rows: dict[str, Any] = {
        k: [] for k in ("judge", "language", "summed", "rank_summed", "per_token", "rank_per_token")
    }
    for j in range(J):
        part = known & (table.judge == j)
        if not part.any():
            continue
        summed = _means(table.language[part], nll[part], L)
        each = _means(table.language[part], nll[part] / tokens[part], L)
        held = np.flatnonzero(np.isfinite(summed))
        rows["judge"] += [table.judges[j]] * held.size
        rows["language"] += [table.languages[i] for i in held]
        rows["summed"] += summed[held].tolist()
        rows["rank_summed"] += midranks(-summed[held]).tolist()
        rows["per_token"] += each[held].tolist()
        rows["rank_per_token"] += midranks(-each[held]).tolist()
    return rows


def _folds(rows: Mapping[str, Any]) -> list[str]:
    """Say how far language means of NLL lie apart, summed and per token."""
    said = []
    for judge in dict.fromkeys(rows["judge"]):
        here = [name == judge for name in rows["judge"]]
        summed, each = (
            np.array([v for v, keep in zip(rows[key], here, strict=True) if keep])
            for key in ("summed", "per_token")
        )
        if min(summed.min(), each.min()) > 0:
            said.append(
                f"{judge}: mean NLL differs {summed.max() / summed.min():.2f}-fold between "
                f"languages summed, {each.max() / each.min():.2f}-fold per token; Spearman's rho "
                f"of the two {spearman(summed, each)[0]:.2f}"
            )
    return said


def _regress(
    table: AuditTable, nll: Floats, known: NDArray[np.bool_]
) -> tuple[dict[str, list[Any]], dict[str, list[Any]], dict[str, list[Any]]]:
    nested: dict[str, list[Any]] = {k: [] for k in NESTED}
    slopes: dict[str, list[Any]] = {
        k: []
        for k in (
            "judge", "cell", "language", "slope", "se", "standardized", "r2", "p_value",
            "p_clustered", "n",
        )
    }  # fmt: skip
    counts: dict[str, list[Any]] = {
        k: []
        for k in (
            "judge", "cell", "mean_standardized", "median_standardized", "mean_r2", "positive",
            "negative", "neither", "positive_clustered", "negative_clustered",
        )
    }  # fmt: skip
    for j, judge in enumerate(table.judges):
        for s, cell in enumerate(table.cells):
            part = known & (table.judge == j) & (table.cell == s)
            if part.sum() < 3:
                continue
            y, x = table.score[part], nll[part]
            language, cluster = table.language[part], table.cluster[part]
            found = nested_regressions(y, x, language, cluster)
            if found is not None:
                a, b = found.language, found.nll
                values = (
                    judge, cell, found.r_nll, found.r_language, found.r_full, a.r_squared,
                    b.r_squared, found.shared, a.f, a.p_value, a.f_clustered, a.p_clustered,
                    b.f, b.p_value, b.f_clustered, b.p_clustered, a.df1, a.df2, found.slope,
                    found.slope_se, found.n, found.n_clusters,
                )  # fmt: skip
                for key, value in zip(nested, values, strict=True):
                    nested[key].append(value)
            here = []
            for code in np.unique(language):
                rows = language == code
                one = within_language_slope(y[rows], x[rows], cluster[rows])
                if one is None:
                    continue
                here.append(one)
                line = (
                    judge, cell, table.languages[code], one.slope, one.se, one.standardized,
                    one.r_squared, one.p_value, one.p_clustered, one.n,
                )  # fmt: skip
                for key, value in zip(slopes, line, strict=True):
                    slopes[key].append(value)
            if here:
                beta = np.array([one.standardized for one in here])
                up, down, rest = count_signs(beta, np.array([one.p_value for one in here]))
                robust = count_signs(beta, np.array([one.p_clustered for one in here]))
                summary = (
                    judge, cell, float(beta.mean()), float(np.median(beta)),
                    float(np.mean([one.r_squared for one in here])), up, down, rest, *robust[:2],
                )  # fmt: skip
                for key, value in zip(counts, summary, strict=True):
                    counts[key].append(value)
    return nested, slopes, counts


def describe_labels(
    by_judge: Mapping[str, Judged],
    settings: Settings,
    label: Tag | None,
    text: Tag | None,
    meeting_rows: Mapping[str, NDArray[np.int64]],
) -> Section | str:
    """Return acceptance when thresholds follow language labels that may be wrong.

    Parameters
    ----------
    by_judge : mapping of str to Judged
    settings : Settings
    label, text : Tag or None
        Languages as some tool took them; else texts to be identified here.
    meeting_rows : mapping of str to (n,) int array
        Rows of the tags that each judge's ``meeting`` part is made of.
    """
    usable = {name: one for name, one in by_judge.items() if not one.verdicts}
    if not usable:
        return "verdicts of 0 and 1 meet no threshold of their language"
    notes = [
        f"each language's threshold accepts {1 - settings.quantile:.0%} of its scores in the part "
        "that sets thresholds; acceptance is of the other part",
        "if_labelled: acceptance of a language's scores under another's threshold; bought is the "
        "most that a wrong label can add to a language's own acceptance",
    ]
    matrix: dict[str, list[Any]] = {k: [] for k in ("judge", "language", "label", "acceptance")}
    worst: dict[str, list[Any]] = {
        k: [] for k in ("judge", "language", "threshold", "own", "best_label", "there", "bought")
    }
    for name, one in usable.items():
        thresholds = language_thresholds(one.setting, settings.quantile)
        shares = acceptance_under(one.meeting, thresholds)
        languages = one.whole.languages
        for a, language in enumerate(languages):
            matrix["judge"] += [name] * len(languages)
            matrix["language"] += [language] * len(languages)
            matrix["label"] += languages
            matrix["acceptance"] += shares[a].tolist()
            if not np.isfinite(shares[a]).any():
                continue
            best = int(np.nanargmax(shares[a]))
            values = (
                name, language, one.sign * thresholds[a], shares[a, a], languages[best],
                shares[a, best], shares[a, best] - shares[a, a],
            )  # fmt: skip
            for key, value in zip(worst, values, strict=True):
                worst[key].append(value)
    tables = {"bought": frame(worst), "if_labelled": frame(matrix)}
    flags: tuple[Problem, ...] = ()
    brief: tuple[str, ...] = ()
    if label is None and text is not None:
        try:
            label = _identified(text)
        except UsageError as error:
            # The other analyses do not wait for an extra.
            notes.append(str(error))
        else:
            notes.append("labels: py3langid on the column text")
    if label is None:
        notes.append(
            "acceptance under labels as found: needs a column of languages as identified "
            "(--column lid_language=COLUMN) or of texts (--column text=COLUMN)"
        )
    else:
        tables["labelled"], flags = _labelled(usable, settings, label, meeting_rows)
        brief = ("labelled",)
    return Section("language_labels", tables, tuple(notes), flags, brief)


def _identified(text: Tag) -> Tag:
    names = identify_languages(text.levels)
    levels = tuple(dict.fromkeys(names))
    lookup = np.array([*(levels.index(name) for name in names), -1], dtype=np.int64)
    return Tag("lid_language", levels, lookup[text.codes])


def _labelled(
    usable: Mapping[str, Judged],
    settings: Settings,
    label: Tag,
    meeting_rows: Mapping[str, NDArray[np.int64]],
) -> tuple[Any, tuple[Problem, ...]]:
    keys = (
        "judge", "language", "n", "mislabelled", "unknown_label", "own", "labelled", "bought",
        "own_mislabelled", "labelled_mislabelled",
    )  # fmt: skip
    rows: dict[str, list[Any]] = {k: [] for k in keys}
    said = []
    for name, one in usable.items():
        languages = one.whole.languages
        code = np.append(label_codes(languages, label.levels), -1)
        taken = label.codes[meeting_rows[name]]
        found = under_labels(
            one.meeting,
            code[taken],
            taken >= 0,
            language_thresholds(one.setting, settings.quantile),
            one.threshold,
        )
        columns: tuple[Any, ...] = (
            [name] * len(languages), languages, found.n, found.mislabelled, found.unknown,
            found.own, found.labelled, found.labelled - found.own, found.own_mislabelled,
            found.labelled_mislabelled,
        )  # fmt: skip
        for key, values in zip(keys, columns, strict=True):
            rows[key] += list(values)
        for i, language in enumerate(languages):
            gain = found.labelled_mislabelled[i] - found.own_mislabelled[i]
            if found.mislabelled[i] >= 5 and gain >= settings.margin:
                said.append(
                    f"{name}, {language}: {found.mislabelled[i]} mislabelled, "
                    f"{found.own_mislabelled[i]:.0%} -> {found.labelled_mislabelled[i]:.0%}"
                )
    flags = (
        (
            Problem(
                "warning",
                "wrong language labels raise acceptance under thresholds by language: "
                + "; ".join(said),
                "language labels",
            ),
        )
        if said
        else ()
    )
    return frame(rows), flags
