"""Fits, and what their pages show, that the tests of pages, figures and browsers share."""

from __future__ import annotations

from functools import cache

import bayesjudge as bj
from bayesjudge.report.answers import Question, answer
from bayesjudge.report.page.gathering import Heading, gather
from bayesjudge.report.page.rendering import page
from tests.golden.page.cases import FOLDER, HOSTILE, JUDGES

SECTIONS = (
    "leaderboard",
    "forest",
    "ranks",
    "pairs",
    "judges",
    "languages",
    "components",
    "design",
    "predictive",
    "beside",
    "diagnostics",
    "question",
    "cite",
)
LANGUAGES = ("de", "<b>fr", "عربي")
TITLE = 'Board </title><script>alert(3)</script> "q" & عربي'


@cache
def fit_of(name):
    """Return one of the fits: gaussian, multilingual, alone, unpaired, ordinal, verdict."""
    if name in ("ordinal", "verdict"):
        return bj.load(FOLDER / f"{name}.nc")
    sd = {"residual": 0.9, "scenario": 0.5}
    if name == "alone":
        table = bj.simulate(backbones=2, scenarios=6, judges=1, sd=sd, random_seed=1).table
        return bj.fit(bj.read_scores(table), draws=100)
    languages = LANGUAGES if name == "multilingual" else 1
    table = bj.simulate(
        backbones=HOSTILE,
        scenarios=10,
        judges=JUDGES,
        languages=languages,
        generations=2 if name == "gaussian" else 1,
        sd=sd,
        random_seed=2,
    ).table
    model = "cyclicjudge" if name == "unpaired" else "crossed"
    return bj.fit(bj.read_scores(table), model, draws=200)


@cache
def answer_of(name):
    return answer(fit_of(name), Question())


@cache
def contents_of(name):
    heading = Heading(TITLE, "bayesjudge report '<x>.csv' --out y", (("$j^2$", HOSTILE[0]),))
    if name in ("alone",):
        heading = Heading(TITLE)
    return gather(answer_of(name), heading)


@cache
def page_of(name):
    return page(contents_of(name))
