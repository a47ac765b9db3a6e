"""The study of planted effects, small; at full size tests/calibration/language_audit.py."""

from __future__ import annotations

import numpy as np
import pytest

from tests.calibration import language_audit as study


def test_planted_effects_are_recovered_and_nothing_is_not_flagged():
    """24 tables of 120 items.

    Offsets of a table are correlated: the mean coverage of 24 tables varies by some 0.01.
    A flag of nominal rate 0.05 is raised in more than 6 of 24 tables once in 4,000.
    """
    planted, nothing = study.recovery(24, 120), study.no_effect(24, 120)
    for row in planted["rows"]:
        assert row["mean"] > 0.91, row
    for row in nothing["rows"]:
        assert row["rate"] <= 6 / 24, row
    assert abs(nothing["excess"]) < 4 * nothing["excess_se"]
    report = study.markdown({"versions": {}, "planted": planted, "nothing": nothing})
    assert "| offset |" in report
    assert "| acceptance |" in report


def test_the_study_can_fail():
    """With spreads that the truth does not have, intervals of the spread miss."""
    truth = study.planted(1)
    wrong = study.Truth(truth.offset, np.ones_like(truth.spread))
    drawn = study.draw(truth, 1, 400)
    assert len(drawn) == 23 * 4 * 400
    hits = study._inside(
        study.bj.audit(drawn, permutations=19, only="dispersion")["dispersion"]["by_language"],
        wrong.spread.reshape(-1),
    )
    assert hits.mean() < 0.7


@pytest.mark.parametrize("kind", ["model", "items"])
def test_acceptance_and_thresholds_of_one_table(kind):
    """Of 23 languages in three tables; each interval is right in 95 %, so 80 % are surely."""
    rates = [study.posterior_covered(study.planted(s, kind == "items"), s, kind) for s in (3, 4, 5)]
    for key in ("rate", "threshold"):
        assert np.mean([r[key] for r in rates]) > 0.8


def test_weighing_few_scenarios_takes_chance_for_an_effect():
    """Why fewer than FEW_SCENARIOS have no probabilities.

    Of 40 tables, a rate of 0.55 gives fewer than 11 once in 8,000; one of 0.1 (two flags
    at 0.05 each) more than 10 once in 700.
    """
    assert study.false_favours(40, 2) >= 11 / 40
    assert study.false_favours(40, study.favouring.FEW_SCENARIOS) <= 10 / 40
