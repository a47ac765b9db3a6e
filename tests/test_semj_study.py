"""SEMJ on the simulated judge at reduced size; full size in tests/calibration."""

from __future__ import annotations

import asyncio

import numpy as np
import pandas as pd
import pytest

from tests.calibration.semj_simulation import markdown, offsets, study

LANGUAGES = ("en", "he", "it")
# Dissent convinces more than in the full study, so that a small one tells.
JUDGE = {"repairs": 0.35, "spoils": 0.05, "seed": 5}


@pytest.fixture(scope="module")
def found():
    return asyncio.run(
        study(80, LANGUAGES, (0, 2, 4), (0, 1, 2, 3), (*LANGUAGES, "zh", "el"), **JUDGE)
    )


def test_semj_beats_base_votes_and_reflection(found):
    # Gains of 10 points and more with errors of 3: a judge that dissent does not move fails.
    for row in found["gains"]:
        assert row["accuracy"] > 3 * row["se"], row["semj less"]


def test_without_correction_nothing_is_gained():
    deaf = asyncio.run(
        study(20, LANGUAGES, (0,), (0, 3), (*LANGUAGES, "tr", "zh"), repairs=0, spoils=0)
    )
    gain = deaf["gains"][0]
    assert abs(gain["accuracy"]) < 3 * gain["se"] + 1e-9


def test_the_oracle_rises_with_k_above_votes_and_above_samples(found):
    rows = found["oracle"]
    oracle = [row["oracle"] for row in rows]
    assert (np.diff(oracle) > 0).all()
    assert rows[0]["oracle"] == rows[0]["vote"] == rows[0]["samples"]
    for row in rows[1:]:
        assert row["oracle"] > row["samples"]
        assert row["oracle"] > row["vote"] + row["vote_se"]
    # It saturates: each further language tells less.
    assert (np.diff(oracle, 2) < 0).all()


def test_kappa_rises_with_rounds_and_accuracy_with_k(found):
    kappa = [row["kappa"] for row in found["s"]]
    assert kappa == sorted(kappa)
    last = found["kappa_rise"][-1]
    assert last["kappa"] > 2 * last["kappa_se"]
    accuracy = [row["accuracy"] for row in found["k"]]
    assert accuracy == sorted(accuracy)


def test_dissent_is_what_flips(found):
    high, middle, low = found["buckets"][:3]
    assert high["flip_rate"] < middle["flip_rate"] < low["flip_rate"]
    for bucket in (middle, low):
        assert bucket["repair_rate"] > bucket["spoil_rate"]


def test_the_report_prints_the_assumptions_and_the_papers_figures(found):
    told = {"items": 1, "assumptions": ["Assumed."], "rows": []}
    text = markdown({"versions": {"python": "3"}, "study": found, "offsets": told})
    for line in (*found["assumptions"], "Assumed."):
        assert f"- {line}" in text
    assert "No language model was asked" in text
    assert "| semj |" in text
    assert "63.36 | 0.4470 |" in text
    assert " nan " not in text


class Fitted:
    def effects(self, *_, **__):
        return pd.DataFrame({"language": ["en", "he", "hi", "it", "zh"], "estimate": 0.0})


def test_offsets_are_of_every_language_and_stage():
    made = offsets(3, fit=lambda *_: Fitted())
    assert [row["language"] for row in made["rows"]] == ["en", "he", "hi", "it", "zh"] * 2
    assert any("he +0.4" in line for line in made["assumptions"])
