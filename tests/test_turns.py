"""The study of judges taking turns, at reduced size; its arithmetic."""

from __future__ import annotations

import numpy as np

from tests.calibration import turns


def test_intervals_of_turns_cover_and_those_of_one_judge_do_not():
    found = turns.study(16, ["over 32 scenarios"])["over 32 scenarios"]
    # With coverage of 0.95, fewer than 12 of 16 has probability 0.001.
    assert found["covered"] >= 12 / 16
    assert found["converged"] == 16
    # One judge in four is within half a width of the panel.
    assert found["single_covered"] < 0.75


def test_turns_are_balanced_and_offsets_centred():
    rng = np.random.default_rng(0)
    for n, m in turns.DESIGNS.values():
        judge = turns.taking_turns(rng, n, m)
        counts = [np.bincount(one.ravel(), minlength=4) for one in judge]
        np.testing.assert_array_equal(counts, n * m // 4)
    np.testing.assert_allclose(turns.JUDGES.sum(), 0, atol=1e-12)
    np.testing.assert_allclose(turns.OWN.sum(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(turns.OWN.sum(axis=1), 0, atol=1e-12)


def test_the_report_tells_both_ways():
    made = [turns.Outcome(i < 19, 0.8, True, i < 10, 0.8, i < 15, True) for i in range(20)]
    found = turns.summarize(made)
    assert (found["covered"], found["single_covered"], found["single_ordered"]) == (0.95, 0.5, 0.75)
    text = turns.markdown({"versions": {"python": "3"}, "designs": {"x": found}})
    assert "| x | 20 | 20 | in turn, exact engine | 0.950 | 0.80 | 1.000 |" in text
    assert "| x | 20 |  | one judge, t-interval | 0.500 | 0.80 | 0.750 |" in text
