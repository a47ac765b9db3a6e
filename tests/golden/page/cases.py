"""Small fits of families that take NUTS, made once: compiling them takes longer than all tests."""

from __future__ import annotations

from pathlib import Path

import bayesjudge as bj

FOLDER = Path(__file__).parent

HOSTILE = ("<img src=x onerror=alert(1)>", '"><script>alert(2)</script>', "نموذج عربي", "gpt")
JUDGES = ("gpt", "$j^2$", "</script><b>")


def ordinal() -> bj.Fit:
    """Return a fit of categories 1 to 5."""
    table = bj.simulate(
        "ordinal", backbones=HOSTILE, scenarios=8, judges=JUDGES, scale=(1, 5), random_seed=3
    ).table
    scores = bj.read_scores(table, scale=(1, 5))
    return bj.fit(scores, "ordinal", draws=60, tune=300, chains=2, nested_effects=True)


def verdict() -> bj.Fit:
    """Return a fit of verdicts."""
    table = bj.simulate(
        "verdict", backbones=HOSTILE, scenarios=8, judges=JUDGES, random_seed=4
    ).table
    return bj.fit(
        bj.read_scores(table), "verdict", draws=60, tune=300, chains=2, nested_effects=True
    )


CASES = {"ordinal": ordinal, "verdict": verdict}
