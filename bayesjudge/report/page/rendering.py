"""One HTML file that needs nothing else: text, tables, pictures, data, styles and script."""

from __future__ import annotations

import base64
import hashlib
from importlib.resources import files
from typing import Any

from bayesjudge.report.json_text import to_json
from bayesjudge.report.page.contents import Absent, Contents, Matrix
from bayesjudge.report.page.sections import SECTIONS
from bayesjudge.text import html

_DIGITS = 4


def page(contents: Contents) -> str:
    """Return the page.

    Parameters
    ----------
    contents : Contents

    Returns
    -------
    str
        HTML without any reference to elsewhere. All text of users is escaped; a security
        policy lets nothing run but the page's own script, known by its hash.
    """
    heading = f"Leaderboard: {contents.title}" if contents.title else "Leaderboard"
    parts = [
        f'<section id="{s.key}" aria-labelledby="{s.key}-title">'
        f'<h2 id="{s.key}-title">{html(s.title)}</h2>{s.body(contents)}</section>'
        for s in SECTIONS
    ]
    links = "".join(f'<li><a href="#{s.key}">{html(s.title)}</a></li>' for s in SECTIONS)
    body = (
        f'<nav aria-label="Sections"><ul>{links}</ul></nav>'
        f'<main id="content">{"".join(parts)}</main>'
        f"<footer><p>bayesjudge {html(contents.version)}, seed {contents.seed}"
        f"{_updated(contents.updated)}</p></footer>"
    )
    return document(heading, body, data_of(contents))


def document(heading: str, body: str, data: object) -> str:
    """Return a whole HTML file around a body, its data and its script.

    Parameters
    ----------
    heading : str
        Raw text.
    body : str
        HTML.
    data : object
        What the script reads.
    """
    style, script = _asset("page.css"), _asset("page.js")
    policy = (
        f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark"><meta name="referrer" '
        f'content="no-referrer"><title>{html(heading)}</title><style>{style}</style></head>'
        '<body><a class="skip" href="#content">To the content</a>'
        f'<header><h1><bdi dir="auto">{html(heading)}</bdi></h1>'
        '<button type="button" id="theme" hidden>Theme: automatic</button></header>'
        f'{body}<script type="application/json" id="data">{island(data)}</script>'
        f"<script>{script}</script></body></html>\n"
    )


def island(data: object) -> str:
    """Return data as JSON that no label can break out of."""
    text = to_json(data)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def data_of(contents: Contents) -> dict[str, Any]:
    """Return the numbers that the script shows, four digits each."""
    matrices: dict[str, Matrix] = {"ranks": contents.ranks}
    if isinstance(contents.pairwise, Matrix):
        matrices["pairwise"] = contents.pairwise
    if not isinstance(contents.judges, Absent) and isinstance(contents.judges.offsets, Matrix):
        matrices["offsets"] = contents.judges.offsets
    if not isinstance(contents.languages, Absent):
        matrices["raw"] = contents.languages.raw
        matrices["adjusted"] = contents.languages.adjusted
    return {
        "version": contents.version,
        "matrices": {
            key: {
                "rows": found.rows,
                "columns": found.columns if found.columns != found.rows else None,
                "row": found.row_name,
                "column": found.column_name,
                "unit": found.unit,
                "kind": found.kind,
                "values": [[_short(value) for value in row] for row in found.values],
            }
            for key, found in matrices.items()
        },
    }


def _short(value: float) -> float | int | None:
    if value != value:
        return None
    short = float(f"{value:.{_DIGITS}g}")
    return int(short) if short == int(short) else short


def _asset(name: str) -> str:
    return files("bayesjudge.report.page").joinpath(name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _updated(when: str) -> str:
    return f", made {html(when)}" if when else ""
