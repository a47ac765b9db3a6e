"""``compare``: saved fits of one table side by side."""

from __future__ import annotations

from pathlib import Path

from bayesjudge.cli.messages import print_json, print_tables, say_notes, say_problems, working
from bayesjudge.cross_validating import Comparison, compare
from bayesjudge.errors import UsageError
from bayesjudge.fitted import Fit, load


def run_compare(given: list[str], draws: int, json: bool, quiet: bool) -> None:
    """Load the fits, compare them and print the table."""
    fits: dict[str, Fit] = {}
    for text in given:
        name, path = named(text)
        if name in fits:
            raise UsageError(f"two fits are called {name!r}", text, "Write NAME=FIT")
        fits[name] = load(path)
    with working("leaving out every score", not (json or quiet)):
        found = compare(fits, draws=draws)
    say_notes([f"about {found.about}"], quiet)
    say_problems(found.findings, quiet)
    if json:
        print_json(comparison_object(found, fits))
        return
    from bayesjudge.report.terminal import frame_table

    shown = found.table[["model", "elpd", "elpd_diff", "dse", "dse_scenario", "p_worse"]]
    high = found.table["k_bad"] + found.table["k_very_bad"]
    print_tables(frame_table(shown.assign(k_high=high)))


def named(text: str) -> tuple[str, str]:
    """Return the name and the path of ``NAME=FIT``, or of a path that names itself."""
    name, equals, path = text.partition("=")
    if Path(text).is_file() or not equals or not name:
        return text, text
    return name, path


def comparison_object(found: Comparison, fits: dict[str, Fit]) -> dict[str, object]:
    """Return the object that ``--json`` prints."""
    first = next(iter(fits.values()))
    return {
        "models": found.table,
        "meta": {
            "about": found.about,
            "n_scores": len(first.scores),
            "source": first.scores.source,
            "titles": {name: fit.spec.title for name, fit in fits.items()},
            "warnings": [str(finding) for finding in found.findings],
            "version": first.metadata["version"],
        },
    }
