"""Facts about languages: script, family, resource class, share of the web."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from pathlib import Path

WEB_SHARE_SOURCE = (
    "Common Crawl CC-MAIN-2025-51, percent of pages by primary language (CLD2): "
    "github.com/commoncrawl/cc-crawl-statistics, plots/languages.csv at d838726"
)
CLASS_SOURCE = (
    "resource classes of 23 languages: Lower-Resource, Higher Scores, table 3 "
    "(from M-RewardBench); others have none here"
)


@dataclass(frozen=True)
class Language:
    """What is known of a language.

    Attributes
    ----------
    code : str
        ISO 639-1 where there is one, else 639-3.
    name, script, family : str
    resource_class : str
        "High" or "Mid"; empty where the source has none.
    web_share : float or None
        Percent of the pages of a Common Crawl; None where below 0.001 or not known.
    """

    code: str
    name: str
    script: str
    family: str
    resource_class: str
    web_share: float | None


def find_language(label: str) -> Language | None:
    """Return what is known of the language that a label names; None where nothing is.

    Parameters
    ----------
    label : str
        A code of ISO 639-1 or 639-3, alone or with a script or region as in
        ``zho_Hans`` or ``pt-BR``, or the English name; case does not matter.
    """
    known = _known()
    plain = label.strip().casefold()
    # A region or script comes after a code of two or three letters, never after a name.
    code = plain.replace("-", "_").split("_")[0]
    return known.get(plain) or (known.get(code) if len(code) in (2, 3) else None)


def known_languages() -> tuple[Language, ...]:
    """Return every language of the table, by name."""
    return tuple(sorted(set(_known().values()), key=lambda language: language.name))


@cache
def _known() -> dict[str, Language]:
    found: dict[str, Language] = {}
    with (Path(__file__).parent / "languages.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            share = float(row["web_share"]) if row["web_share"] else None
            code = row["code"] or row["code3"]
            one = Language(
                code, row["name"], row["script"], row["family"], row["resource_class"], share
            )
            for name in (row["code"], row["code3"], *row["also"].split(), row["name"].casefold()):
                if name:
                    found[name] = one
    return found
