"""The coverage study at a reduced size; its arithmetic on engines that are wrong."""

import numpy as np

from tests.calibration.coverage import QUANTITIES, Table, design, rank_z, study, summarize


def test_intervals_cover_and_rank_probabilities_are_calibrated():
    found = study(52, ["3x8x3"])["3x8x3"]
    failing = [r["quantity"] for r in found["coverage"] if not r["ok"]]
    assert failing == []
    assert found["rank_ok"], found["rank_z"]


def test_intervals_that_are_too_narrow_are_caught():
    rng = np.random.default_rng(0)
    narrow = [
        Table(tuple(rng.random(len(QUANTITIES)) < 0.7), 0.0, 0.1, "made up", True)
        for _ in range(52)
    ]
    assert not all(r["ok"] for r in summarize(narrow, 2 * len(QUANTITIES))["coverage"])


def test_overconfident_ranks_are_caught():
    # P(best) of 0.95 for a backbone that is best half of the time.
    p = np.array([0.95, 0.05])
    variance = float(np.sum(p**3) - np.sum(p**2) ** 2)
    rng = np.random.default_rng(0)
    tables = []
    for _ in range(200):
        best = np.eye(2)[int(rng.random() < 0.5)]
        tables.append(Table((), float(np.sum(p * (best - p))), variance, "made up", True))
    assert abs(rank_z(tables)) > 3.3


def test_designs_are_complete():
    scores = design({"backbone": 3, "scenario": 4, "judge": 2, "generation": 2})
    assert len(scores) == 48
    assert scores.facet_names == ("backbone", "judge", "scenario", "generation")
