"""``models``: what is shipped, and what a model says."""

from __future__ import annotations

from pathlib import Path

import typer

from bayesjudge.cli.messages import print_json, print_tables
from bayesjudge.errors import UsageError
from bayesjudge.scores import PANEL_FACETS
from bayesjudge.spec import (
    ModelSpec,
    Scale,
    Term,
    Thresholds,
    models_folder,
    read_model,
    shipped_models,
)


def run_models(name: str | None, toml: bool, json: bool) -> None:
    """List the models, or show one as a table, as its file or as JSON."""
    if toml and (name is None or json):
        raise UsageError("--toml prints one model's file", "--toml", "Name a model, without --json")
    if name is None:
        _list_models(json)
        return
    spec = read_model(name)
    if toml:
        shipped = name in shipped_models()
        path = models_folder() / f"{name}.toml" if shipped else Path(name)
        typer.echo(path.read_bytes(), nl=False)
    elif json:
        print_json(spec.to_data())
    else:
        _show(spec)


def _list_models(json: bool) -> None:
    specs = [read_model(name) for name in shipped_models()]
    rows = [{"name": s.name, "family": s.family, "summary": s.summary} for s in specs]
    if json:
        print_json({"models": rows})
        return
    import pandas as pd

    from bayesjudge.report.terminal import frame_table

    print_tables(frame_table(pd.DataFrame(rows)))


def _show(spec: ModelSpec) -> None:
    import pandas as pd
    from rich.text import Text

    from bayesjudge.report.terminal import frame_table
    from bayesjudge.text import visible

    rows = [
        {"term": t.name, "sums to zero over": _zeros(t), "prior of the sd": _scale(t.scale)}
        for t in spec.terms
    ]
    if spec.residual is not None:
        rows.append(
            {"term": "residual", "sums to zero over": "", "prior of the sd": _scale(spec.residual)}
        )
    lines = [spec.summary, f"family {spec.family}, link {spec.link}"]
    if spec.intercept is not None:
        what = "the first place is worth" if spec.is_paired else "intercept"
        lines.append(f"{what} {spec.intercept} about the location")
    if spec.degrees_of_freedom is not None:
        lines.append(f"degrees of freedom {spec.degrees_of_freedom}")
    lines += [f"slope of {c.column}, for one sd of it: {c.prior}" for c in spec.covariates]
    if spec.discrimination is not None:
        given = spec.discrimination
        lines.append(
            f"terms without {given.by} count by its discrimination, the logs of which deviate "
            f"with a sd of prior {given.spread} and sum to zero"
        )
    if spec.ties is not None:
        lines.append(f"chance of a tie between equals {spec.ties}")
    if spec.thresholds is not None:
        lines.append(_thresholds(spec.thresholds))
    lines += [f"after {reference}" for reference in spec.references]
    unit = f"{spec.link}s" if spec.is_latent else "the response unit"
    lines.append(f"Priors of sds are in {unit}; terms without their facets are dropped.")
    print_tables(
        frame_table(pd.DataFrame(rows), spec.name), *(Text(visible(line)) for line in lines)
    )


def _zeros(term: Term) -> str:
    facets = term.sum_to_zero
    if facets is None:
        panel = all(facet in PANEL_FACETS for facet in term.facets)
        facets = tuple(f for f in term.facets if f != term.scale.by) if panel else ()
    return ", ".join(facets) or "none"


def _thresholds(thresholds: Thresholds) -> str:
    said = "cutpoints from a flat prior on the probabilities of categories at zero effects"
    if thresholds.by is None:
        return f"{said}, shared by all scores"
    return f"{said}; their distances deviate by {thresholds.by}, sd {thresholds.deviation}"


def _scale(scale: Scale) -> str:
    if scale.by is None:
        return str(scale.center)
    return f"by {scale.by}: center {scale.center}, spread {scale.spread}"
