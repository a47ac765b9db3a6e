"""What the reader of a calibration is told: JSON, tables, files."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bayesjudge.calibration.calibrating import Calibration
from bayesjudge.fitted import CI_KIND
from bayesjudge.report import markdown
from bayesjudge.report.files import Content
from bayesjudge.report.json_text import to_json
from bayesjudge.report.numbers import percent
from bayesjudge.report.results_folder import csv_text
from bayesjudge.report.sentences import reading_sentences
from bayesjudge.scores.lines import need_rows
from bayesjudge.text import markdown as escaped
from bayesjudge.text import visible

if TYPE_CHECKING:
    import pandas as pd

CALIBRATION_FILES = (
    "interaction.csv",
    "adjusted.csv",
    "adjusted_scores.csv",
    "reversals.csv",
    "held_out.csv",
    "agreement.csv",
    "result.json",
    "report.md",
    "posterior.nc",
)

_HELD_OUT_MEANING = {
    "raw_tau": "two levels of {conditions}, one half's rankings: Kendall's tau",
    "adjusted_tau": "the same less the other half's interaction",
    "raw_oracle_agreement": "winners of a {conditions} that are the held-out oracle's, share",
    "adjusted_oracle_agreement": "the same after adjustment: one decision, repeated {m} times",
    "raw_winners": "different winners over the levels of {conditions}",
    "adjusted_winners": "different winners after adjustment: it leaves one",
    "raw_tau_between_halves": "raw ranking of one {conditions}, one half against the other",
    "rmse_with_interaction": "held-out cell means predicted with the interaction, error",
    "rmse_without_interaction": "predicted without it, error",
    "n_splits": "random halves of the tasks",
}


def calibration_object(found: Calibration, extra: Mapping[str, Any]) -> dict[str, Any]:
    """Return what ``--json`` prints.

    Parameters
    ----------
    found : Calibration
    extra : mapping
        More for ``meta``.

    Returns
    -------
    dict
        ``interaction``, ``adjusted``, ``reversals``, ``held_out``, ``agreement`` (null
        without gold) and ``meta``.
    """
    return {
        "interaction": found.interaction,
        "adjusted": found.adjusted,
        "reversals": found.reversals,
        "held_out": None if found.held_out is None else asdict(found.held_out),
        "agreement": found.agreement,
        "meta": {**_meta(found), **extra},
    }


def _meta(found: Calibration) -> dict[str, Any]:
    from bayesjudge.version import version

    cells, asked, scores = found.cells, found.asked, found.scores
    made = None if found.posterior is None else found.posterior.metadata
    return {
        "label_free": found.statements[0],
        "reproducible": found.statements[1],
        "conditions": cells.conditions,
        "objects": cells.objects,
        "model": None if found.posterior is None else found.posterior.spec.name,
        "engine": None if made is None else made["engine"],
        "ci_prob": asked.ci_prob,
        "ci_kind": {"closed form": "t", "posterior": CI_KIND},
        "n_scores": len(scores),
        "n_excluded": scores.n_excluded,
        "n_tasks": cells.n_tasks if cells.has_tasks else 0,
        "averaged_over": list(cells.averaged),
        "rope": asked.rope,
        "proxy_sd": asked.proxy_sd,
        "scale": scores.scale,
        "lower_is_better": scores.lower_is_better,
        "splits": asked.splits,
        "resamples": asked.resamples,
        "seed": asked.random_seed,
        "seconds": found.seconds,
        "posterior": None if made is None else _posterior_meta(found, made),
        "notes": list(found.notes),
        "warnings": [str(problem) for problem in found.findings],
        "problems": scores.problems,
        "source": scores.source,
        "mapping": dict(scores.mapping),
        "version": version(),
    }


def _posterior_meta(found: Calibration, made: Mapping[str, Any]) -> dict[str, Any]:
    fit = found.posterior
    if fit is None:
        return {}
    return {
        "converged": fit.convergence.converged,
        "reasons": list(fit.convergence.reasons),
        "method": made["method"],
        "unit": made["unit"],
        "location": made["location"],
        "terms": [term.name for term in fit.resolved.terms],
        "dropped_terms": [lost.name for lost in fit.resolved.dropped],
        "overrides": list(fit.spec.overrides),
        "largest_difference": _largest(found.interaction["difference"]),
        "largest_difference_in_se": _largest(found.interaction["difference_in_se"]),
    }


def _largest(values: pd.Series[Any]) -> float:
    known = np.abs(values.to_numpy(dtype=float))
    known = known[~np.isnan(known)]
    return float(known.max()) if known.size else float("nan")


def alarm(found: Calibration) -> str:
    """Return what stands on the tables of a posterior that did not converge; else empty."""
    fit = found.posterior
    if fit is None or fit.convergence.converged:
        return ""
    reasons = "; ".join(fit.convergence.reasons)
    return f"POSTERIOR NOT CONVERGED, do not rely on its columns: {reasons}"


def calibration_sentences(found: Calibration) -> list[str]:
    """Say what the numbers rest on: table, facets, model, and what was averaged."""
    cells, asked, scores = found.cells, found.asked, found.scores
    excluded = f", {scores.n_excluded:,} rows excluded" if scores.n_excluded else ""
    tasks = f" on {cells.n_tasks:,} tasks" if cells.has_tasks else ""
    said = [
        f"{len(scores):,} scores, {len(cells.condition_labels)} levels of {cells.conditions} by "
        f"{len(cells.object_labels)} of {cells.objects}{tasks}{excluded}"
    ]
    if scores.lower_is_better:
        said.append("lower scores are better")
    said += found.notes
    at = percent(asked.ci_prob)
    said.append(
        f"ci: t, {at} a cell; bound: t, {at} for all {found.closed.estimate.size} cells at once; "
        "bound_range, bound_proxy: concentration, all cells at once, from --scale and --proxy-sd"
    )
    if len(found.reversals):
        said.append(
            f"reversals at {1 - asked.ci_prob:.3g}: p_t from t-tests {cells.conditions} by "
            f"{cells.conditions}, not adjusted for anything; p_holm max-studentized over all of "
            f"them, {asked.resamples:,} resamples of tasks, Holm over pairs"
        )
    fit = found.posterior
    if fit is not None:
        made = fit.metadata
        said.append(
            f"posterior of task cells: model {fit.spec.title}, {cells.objects} as its backbone and "
            f"{cells.conditions} as its language; terms "
            f"{', '.join(term.name for term in fit.resolved.terms)}; priors in units of "
            f"{made['unit']:g} about {made['location']:g}; engine {made['engine']} "
            f"({made['method']}), seed {made['settings']['random_seed']}"
        )
        said += [f"prior overridden: {text}" for text in fit.spec.overrides]
        said += fit.resolved.notes
        state = "converged" if found.converged else "NOT CONVERGED"
        apart = _largest(found.interaction["difference_in_se"])
        said.append(
            f"posterior {state}"
            if np.isnan(apart)
            else f"posterior {state}; it differs from the closed form by at most {apart:.2f} "
            "standard errors"
        )
        said.append(
            "p_posterior is positive by construction"
            + (", for want of a --rope" if asked.rope is None else "; p_posterior_rope is not")
        )
    return said


def calibration_sections(found: Calibration) -> list[tuple[str, pd.DataFrame]]:
    """Return the tables for people, with their headings, in order."""
    cells = found.cells
    sections = [
        (
            f"Ranks of {cells.objects} within each {cells.conditions}, raw and adjusted",
            found.adjusted,
        ),
        (f"Interaction of {cells.conditions} and {cells.objects}", found.interaction),
    ]
    if len(found.reversals):
        table = found.reversals
        by_t, by_holm = int(table["reversed_t"].sum()), int(table["reversed_holm"].sum())
        heading = (
            f"Rank reversals: of {len(table)} pairs {by_t} by unadjusted t-tests, {by_holm} by the "
            "adjusted test"
        )
        sections.append((heading, table))
    if found.held_out is not None:
        sections.append(("Consistency on held-out tasks", held_out_table(found)))
    if found.agreement is not None:
        sections.append(("Agreement with human_score", found.agreement))
    return sections


def held_out_table(found: Calibration) -> pd.DataFrame:
    """Return one row a figure, with what it means; empty where there is none."""
    import pandas as pd

    values = {} if found.held_out is None else asdict(found.held_out)
    cells = found.cells
    meaning = [
        _HELD_OUT_MEANING[name].format(conditions=cells.conditions, m=len(cells.condition_labels))
        for name in values
    ]
    return pd.DataFrame(
        {
            "figure": pd.Series(list(values), dtype=object),
            "value": pd.Series(list(values.values()), dtype=float),
            "meaning": pd.Series(meaning, dtype=object),
        }
    )


def adjusted_scores_table(
    found: Calibration, rows: NDArray[np.int64] | None = None
) -> pd.DataFrame:
    """Return every score with its adjusted one, in the order of the table.

    Parameters
    ----------
    found : Calibration
    rows : (N,) int array, optional
        Row of the source, from 0; ``row`` counts from 1 as messages do. None counts
        the scores themselves.
    """
    import pandas as pd

    scores = need_rows(found.scores, "adjusted scores")
    adjusted = np.asarray(found.adjusted_scores)
    at = np.arange(len(scores)) if rows is None else rows
    columns: dict[str, Any] = {"row": at + 1}
    for facet in scores.facets:
        columns[facet.name] = np.asarray(facet.levels, dtype=object)[facet.codes]
    columns["score"] = scores.score
    if scores.human_score is not None:
        columns["human_score"] = scores.human_score
    columns["interaction"] = scores.score - adjusted
    columns["adjusted_score"] = adjusted
    return pd.DataFrame(columns)


def calibration_files(
    found: Calibration,
    command: str,
    extra: Mapping[str, Any],
    rows: NDArray[np.int64] | None = None,
    title: str = "",
) -> dict[str, Content]:
    """Return the files of one calibration, by name (of ``CALIBRATION_FILES``).

    Parameters
    ----------
    found : Calibration
    command : str
        How to get the same again, for the report.
    extra : mapping
        As for :func:`calibration_object`.
    rows : (N,) int array, optional
        As for :func:`adjusted_scores_table`.
    title : str
        Of the report.
    """
    files: dict[str, Content] = {
        "interaction.csv": csv_text(found.interaction),
        "adjusted.csv": csv_text(found.adjusted),
        "reversals.csv": csv_text(found.reversals),
        "held_out.csv": csv_text(held_out_table(found)),
    }
    if found.adjusted_scores is not None:
        files["adjusted_scores.csv"] = csv_text(adjusted_scores_table(found, rows))
    if found.agreement is not None:
        files["agreement.csv"] = csv_text(found.agreement)
    files["result.json"] = to_json(calibration_object(found, extra), indent=2) + "\n"
    files["report.md"] = _report(found, command, extra.get("unused_columns") or (), title)
    if found.posterior is not None:
        files["posterior.nc"] = found.posterior.save
    return files


def _report(found: Calibration, command: str, unused: Sequence[str], title: str) -> str:
    heading = f"Calibration: {title}" if title else "Calibration"
    parts = [f"# {escaped(heading)}\n"]
    if alarm(found):
        parts.append(f"> **{escaped(alarm(found))}**\n")
    parts += [f"> {escaped(statement)}\n" for statement in found.statements]
    for name, table in calibration_sections(found):
        parts += [f"## {escaped(name)}\n", markdown.frame_table(table)]
    said = [*reading_sentences(found.scores.mapping, unused), *calibration_sentences(found)]
    lines = "\n".join(f"- {escaped(line)}" for line in said)
    parts += ["## What was read, left out and assumed\n", f"{lines}\n"]
    problems = (*found.findings, *found.scores.problems)
    if problems:
        parts += ["## What was found in the table\n", markdown.problems_table(problems)]
    longest = max((len(run) for run in re.findall("`+", command)), default=0)
    fence = "`" * max(3, longest + 1)
    parts += ["## How to reproduce\n", f"{fence}\n{visible(command)}\n{fence}\n"]
    return "\n".join(parts)
