"""What lies beside a page: its tables as Markdown and CSV, its figures, a feed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from bayesjudge.report import markdown
from bayesjudge.report.answers import Answer
from bayesjudge.report.json_text import to_json
from bayesjudge.report.page import tables
from bayesjudge.report.page.contents import Absent, Contents, Curve, DesignCurves, Predictive
from bayesjudge.report.page.names import PAGE
from bayesjudge.text import markdown as escaped

if TYPE_CHECKING:
    import pandas as pd


def page_tables(contents: Contents) -> dict[str, pd.DataFrame]:
    """Return the tables that only a page has, by name of file (of ``TABLE_FILES``)."""
    found: dict[str, pd.DataFrame] = {}
    if not isinstance(contents.languages, Absent):
        found["languages.csv"] = contents.languages.table
    judges = contents.judges
    if not isinstance(judges, Absent) and not isinstance(judges.own, Absent):
        found["self_preference.csv"] = judges.own
    if not contents.components.closed:
        found["components_compared.csv"] = contents.components.table
    if not isinstance(contents.design, Absent):
        found["decision_study.csv"] = design_frame(contents.design)
    if not isinstance(contents.predictive, Absent):
        found["predicted_scores.csv"] = predictive_frame(contents.predictive)
    return found


def design_frame(found: DesignCurves) -> pd.DataFrame:
    """Return a decision study, one row a design and quantity."""
    import pandas as pd

    kinds = {
        "sd_of_difference": found.difference,
        "generalizability": found.generalizability,
        "dependability": found.dependability,
    }
    frames = [
        _curve_frame(curve).assign(quantity=kind, judges=curve.label)
        for kind, curves in kinds.items()
        for curve in curves
    ]
    columns = ["quantity", "judges", "scenarios", "estimate", "ci_lower", "ci_upper"]
    return pd.concat(frames, ignore_index=True)[columns].assign(generations=found.generations)


def _curve_frame(curve: Curve) -> pd.DataFrame:
    import pandas as pd

    return pd.DataFrame(
        {
            "scenarios": curve.x.astype(int),
            "estimate": curve.y,
            "ci_lower": curve.lower,
            "ci_upper": curve.upper,
        }
    )


def predictive_frame(found: Predictive) -> pd.DataFrame:
    """Return shares of scores by bin, seen and predicted, one row a judge and bin."""
    import pandas as pd

    frames = [
        pd.DataFrame(
            {
                "from": found.edges[:-1],
                "to": found.edges[1:],
                "observed": judge.observed,
                "predicted": judge.expected,
                "ci_lower": judge.lower,
                "ci_upper": judge.upper,
            }
        ).assign(judge=judge.label)
        for judge in found.judges
    ]
    whole = pd.concat(frames, ignore_index=True)
    return whole[["judge", *(name for name in whole.columns if name != "judge")]]


def page_markdown(contents: Contents) -> str:
    """Return what the page says beyond the report, as Markdown; absent sections say why."""
    parts = ["## Judges\n"]
    judges = contents.judges
    if isinstance(judges, Absent):
        parts.append(_why(judges))
    else:
        parts += _frame_or_why(judges.leniency, "Leniency")
        parts += _frame_or_why(judges.own, "Self-preference")
    parts.append("## Languages\n")
    languages = contents.languages
    if isinstance(languages, Absent):
        parts.append(_why(languages))
    else:
        parts.append(f"> {escaped(languages.statement)}\n")
        for matrix in (languages.raw, languages.adjusted):
            parts.append(markdown.cells_table(tables.matrix_cells(matrix), matrix.name))
    parts.append("## Posterior and closed form\n")
    if contents.components.closed:
        parts.append(_why(Absent(contents.components.closed)))
    else:
        parts.append(markdown.cells_table(tables.component_cells(contents.components)))
    parts.append("## Decision study\n")
    if isinstance(contents.design, Absent):
        parts.append(_why(contents.design))
    else:
        parts.append(markdown.cells_table(tables.design_cells(contents.design)))
    parts.append("## Predicted scores\n")
    if isinstance(contents.predictive, Absent):
        parts.append(_why(contents.predictive))
    else:
        parts.append(markdown.cells_table(tables.predictive_cells(contents.predictive)))
    return "\n".join(parts)


def _frame_or_why(found: pd.DataFrame | Absent, title: str) -> list[str]:
    if isinstance(found, Absent):
        return [_why(found)]
    return [markdown.frame_table(found, title)]


def _why(found: Absent) -> str:
    return f"{escaped(found.why)}\n"


def feed(found: Answer, contents: Contents) -> str:
    """Return what a live leaderboard is polled for: a small JSON object.

    Keys: format, title, updated (UTC), page, version, model, engine, n_scores,
    n_excluded, converged, ci_prob, lower_is_better, best_set and leaderboard, whose rows
    are those of ``rank --json``.
    """
    fit = found.fit
    return _json(
        {
            "format": 1,
            "title": contents.title,
            "updated": contents.updated,
            "page": PAGE,
            "version": contents.version,
            "model": fit.spec.name,
            "engine": fit.metadata["engine"],
            "n_scores": len(fit.scores),
            "n_excluded": fit.scores.n_excluded,
            "converged": found.converged,
            "ci_prob": found.question.ci_prob,
            "lower_is_better": fit.scores.lower_is_better,
            "best_set": list(found.best_set),
            "leaderboard": found.leaderboard,
        }
    )


def groups_feed(by: str, rows: Sequence[Mapping[str, str]], updated: str) -> str:
    """Return the feed over levels: format, by, updated and groups (level, folder, status)."""
    groups = [{name: row[name] for name in ("level", "folder", "status")} for row in rows]
    return _json({"format": 1, "by": by, "updated": updated, "groups": groups})


def _json(obj: object) -> str:
    return to_json(obj, indent=1) + "\n"
