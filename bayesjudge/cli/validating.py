"""``validate``: what a table holds, and what is wrong with it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import typer

from bayesjudge.cli.messages import print_json, print_tables, say_notes
from bayesjudge.cli.options import ReadingOptions, one_or_many
from bayesjudge.cli.store_sources import refuse_stores
from bayesjudge.errors import BayesjudgeError
from bayesjudge.report.sentences import dropped_sentences, reading_sentences
from bayesjudge.resolution import Resolved, resolve
from bayesjudge.scores import Design, Problem, Reading, scan, split_by
from bayesjudge.spec import ModelSpec, read_model

if TYPE_CHECKING:
    from rich.console import RenderableType


def run_validate(
    sources: Sequence[str], reading: ReadingOptions, by: str | None, model: str, json: bool
) -> None:
    """Print what was found; exit 1 where there is an error."""
    refuse_stores(sources)
    source = one_or_many(sources)
    spec = read_model(model)
    if by is None:
        readings = {"": scan(source, **reading.keywords(spec))}
    else:
        readings = dict(split_by(source, by, **reading.keywords(spec)))
    checked = {level: _lay_model(spec, found) for level, found in readings.items()}
    if json:
        objects = {level: _object(readings[level], *checked[level]) for level in readings}
        print_json(objects[""] if by is None else {"by": by, "groups": objects})
    else:
        for level, found in readings.items():
            title = f"{by} {level}" if by is not None else ""
            about = level if by is not None else None
            say_notes(reading_sentences(found.mapping, found.unused_columns), False, about)
            print_tables(*_tables(found, *checked[level], title))
    if any(p.severity == "error" for problems, _ in checked.values() for p in problems):
        raise typer.Exit(1)


def _lay_model(spec: ModelSpec, found: Reading) -> tuple[tuple[Problem, ...], Resolved | None]:
    """Lay the model on the table, as ``rank`` would, and add what it finds.

    Battles are laid on the model of battles where no other than the usual one is asked for.
    """
    if found.scores is None:
        return found.problems, None
    try:
        if found.scores.opponent is not None and spec.name == "crossed":
            spec = read_model("pairwise")
        return found.problems, resolve(spec, found.scores)
    except BayesjudgeError as error:
        problem = Problem("error", error.what, error.where, 0, error.remedy)
        return (problem, *found.problems), None


def _object(
    found: Reading, problems: tuple[Problem, ...], resolved: Resolved | None
) -> dict[str, Any]:
    columns = dict(found.mapping)
    return {
        "facets": [
            {**asdict(facet), "column": columns.get(facet.name)}
            for facet in (found.design.facets if found.design else ())
        ],
        "design": _design_object(found.design) if found.design else None,
        "problems": [
            {key: getattr(p, key) for key in ("severity", "what", "where", "rows", "remedy")}
            for p in problems
        ],
        "mapping": columns,
        "unused_columns": list(found.unused_columns),
        "n_rows": found.n_rows,
        "n_scores": None if found.scores is None else len(found.scores),
        "n_excluded": None if found.scores is None else found.scores.n_excluded,
        "model": None
        if resolved is None
        else {
            "name": resolved.spec.name,
            "terms": [term.name for term in resolved.terms],
            "dropped_terms": [lost.name for lost in resolved.dropped],
            "dropped_reasons": {lost.name: lost.reason for lost in resolved.dropped},
        },
    }


def _design_object(design: Design) -> dict[str, Any]:
    plain = asdict(design)
    plain.pop("facets")
    plain["components"] = {name: list(groups) for name, groups in design.components}
    return plain


def _tables(
    found: Reading, problems: tuple[Problem, ...], resolved: Resolved | None, title: str
) -> list[RenderableType]:
    import pandas as pd
    from rich.text import Text

    from bayesjudge.report.terminal import frame_table, problems_table
    from bayesjudge.text import visible

    shown: list[RenderableType] = []
    if found.design is not None:
        facets = pd.DataFrame([asdict(facet) for facet in found.design.facets])
        names = {"n_levels": "levels", "min_rows": "fewest rows", "max_rows": "most rows"}
        shown.append(frame_table(facets.rename(columns=names), title or "Facets"))
        shown += [Text(visible(line)) for line in _design_lines(found, found.design)]
    if resolved is not None:
        kept = ", ".join(term.name for term in resolved.terms)
        lines = [f"model {resolved.spec.name} can use {kept}"]
        lines += dropped_sentences(resolved.dropped)
        shown += [Text(visible(line)) for line in lines]
    if problems:
        shown.append(problems_table(problems, "Findings"))
    else:
        shown.append(Text("No problem was found."))
    return shown


def _design_lines(found: Reading, design: Design) -> list[str]:
    excluded = 0 if found.scores is None else found.scores.n_excluded
    low, high = design.rows_per_cell
    lines = [
        f"{found.n_rows:,} rows, {excluded:,} of them excluded",
        f"{design.n_cells:,} cells of {' x '.join(design.crossed)}, {design.n_missing:,} of them "
        f"empty, the others with {_range(low, high)} score{'' if high == 1 else 's'} each; "
        f"{'balanced' if design.balanced else 'not balanced'}",
    ]
    if design.generation is not None:
        lines.append(f"generations: {design.n_generations:,} ({design.generation} labels)")
    if design.nested:
        lines.append("nested: " + ", ".join(f"{a} within {b}" for a, b in design.nested))
    if design.aliased:
        lines.append(
            "cannot be told apart: " + ", ".join(f"{a} and {b}" for a, b in design.aliased)
        )
    return lines + [line for name, groups in design.components for line in _groups(name, groups)]


def _groups(name: str, groups: tuple[tuple[str, ...], ...]) -> list[str]:
    if len(groups) == 1:
        return [f"all backbones are connected by {name}"]
    return [f"{name} leaves {len(groups)} groups of backbones unconnected"]


def _range(low: int, high: int) -> str:
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"
