"""``append`` and ``store``: scores that arrive day by day."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from bayesjudge.cli.messages import print_json, print_tables, say_notes, say_problems, working
from bayesjudge.cli.options import ReadingOptions, one_or_many
from bayesjudge.report.sentences import reading_sentences
from bayesjudge.score_store import Append, Manifest, Store, create_store, is_store, open_store

if TYPE_CHECKING:
    from rich.console import RenderableType


def run_append(
    path: str,
    sources: Sequence[str],
    reading: ReadingOptions,
    again: bool,
    json: bool,
    quiet: bool,
) -> None:
    """Append sources, as one table, to a store that may have to be begun."""
    keywords = {name: value for name, value in reading.keywords().items() if name != "covariates"}
    begin = not is_store(path)
    kept = create_store(path, **keywords) if begin else open_store(path, **keywords)
    with kept.writing() as manifest:
        with working("reading", not (quiet or json)):
            found = kept.read(one_or_many(sources), manifest)
        say_notes(reading_sentences(found.mapping, found.unused_columns), quiet)
        say_problems([p for p in found.problems if p.severity != "error"], quiet)
        with working("appending", not (quiet or json)):
            made = kept.add(found, manifest, again=again)
    if begin:
        say_notes([f"store begun: {kept.path}; {_options_said(kept)}"], quiet)
    if json:
        print_json({"append": asdict(made), "store": _summary(kept)})
        return
    held = kept.manifest
    print_tables(
        _line(
            f"append {made.number}: {made.n_scores:,} scores from {made.source}; "
            f"the store holds {held.n_scores:,}"
        )
    )


def run_store(path: str, json: bool) -> None:
    """Print what a store holds."""
    kept = open_store(path)
    if json:
        print_json({**_summary(kept), "appends": [asdict(a) for a in kept.appends]})
        return
    print_tables(*_tables(kept))


def _options_said(kept: Store) -> str:
    given = ", ".join(f"{name} {value!r}" for name, value in kept.options.items())
    return f"all its sources are read with {given}" if given else "its sources are read by default"


def _summary(kept: Store) -> dict[str, Any]:
    manifest = kept.manifest
    return {
        "path": str(kept.path),
        "facets": _facets(kept, manifest),
        "mapping": dict(manifest.mapping),
        "options": manifest.options,
        "n_scores": manifest.n_scores,
        "n_excluded": manifest.n_excluded,
        "n_appends": len(manifest.appends),
    }


def _facets(kept: Store, manifest: Manifest) -> list[dict[str, object]]:
    levels = kept.sums().levels
    return [
        {"name": name, "role": role, "n_levels": len(own)}
        for (name, role), own in zip(manifest.facets, levels, strict=True)
    ]


def _line(text: str) -> RenderableType:
    from rich.text import Text

    from bayesjudge.text import visible

    return Text(visible(text))


def _tables(kept: Store) -> list[RenderableType]:
    import pandas as pd

    from bayesjudge.report.terminal import frame_table, problems_table

    manifest = kept.manifest
    facets = pd.DataFrame(_facets(kept, manifest)).rename(columns={"n_levels": "levels"})
    appends = pd.DataFrame([_row(append) for append in manifest.appends])
    shown = [
        _line(
            f"{manifest.n_scores:,} scores of {len(manifest.appends):,} appends, "
            f"{manifest.n_excluded:,} rows left out"
        ),
        _line(_options_said(Store(kept.path, _worth_saying(manifest)))),
        frame_table(facets, "Facets"),
        frame_table(appends, "Appends"),
    ]
    for append in manifest.appends:
        warned = [p for p in append.problems if p.severity == "warning"]
        if warned:
            shown.append(problems_table(warned, f"Append {append.number}"))
    return shown


def _worth_saying(manifest: Manifest) -> dict[str, Any]:
    return {n: v for n, v in manifest.options.items() if v not in ((), None, False)}


def _row(append: Append) -> dict[str, object]:
    return {
        "append": append.number,
        "time": append.time,
        "source": append.source,
        "scores": append.n_scores,
        "left out": append.n_excluded,
        "warnings": sum(p.severity == "warning" for p in append.problems),
        "sha256": append.digest[:12],
    }
