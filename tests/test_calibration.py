"""The calibration studies at reduced sizes; their arithmetic on engines that are wrong."""

import numpy as np
import pytest

from tests.calibration import agreement, sbc
from tests.calibration.broken import BROKEN
from tests.calibration.coverage import QUANTITIES, Table, design, rank_z, study, summarize
from tests.calibration.holm import holm


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


# Simulation-based calibration.


def test_ranks_of_the_truth_are_uniform():
    found = sbc.summarize(sbc.study(32, ["3x8x3"]))
    assert sbc.failing(found) == set()


def test_ranks_are_uniform_on_an_unbalanced_table():
    found = sbc.summarize(sbc.study(12, ["5x12x3, 20 % missing"]))
    assert sbc.failing(found) == set()


# Each with what must catch it, on the given number of tables.
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(
    ("engine", "n_tables", "catches"),
    [
        ("scales too wide", 16, {"log likelihood given scales"}),
        ("no jacobian", 30, {"judge sd"}),
        ("prior only", 16, set(sbc.OF_DATA)),
        ("effects unconditioned", 12, {"log likelihood given effects"}),
    ],
)
def test_an_engine_broken_on_purpose_is_caught(engine, n_tables, catches):
    found = sbc.summarize(sbc.study(n_tables, ["3x8x3"], BROKEN[engine]))
    assert catches <= sbc.failing(found)


def test_only_functions_of_the_data_tell_a_posterior_from_its_prior():
    found = sbc.summarize(sbc.study(100, ["3x8x3"], BROKEN["prior only"]))
    assert sbc.failing(found) == set(sbc.OF_DATA)


def test_uniform_ranks_pass_and_others_do_not():
    rng = np.random.default_rng(0)
    p = [sbc.p_value(rng.integers(0, sbc.N_RANKED + 1, 40)) for _ in range(400)]
    # Four standard errors of a share of 400.
    assert abs(np.mean(np.array(p) < 0.1) - 0.1) < 0.06
    assert sbc.p_value(np.full(40, 50)) < 1e-5


def test_holm_steps_down():
    assert holm([0.04, 0.01, 0.03]).tolist() == pytest.approx([0.06, 0.03, 0.06])
    assert holm([0.5, 0.9]).tolist() == [1.0, 1.0]


# Against NumPyro, and over seeds.


@pytest.mark.parametrize("name", ["3x10x3", "one judge a scenario"])
def test_exact_engine_agrees_with_numpyro_and_with_itself_over_seeds(name):
    effort = agreement.Effort(seeds=6, chains=16, draws=500, tune=300)
    found = agreement.summarize({name: agreement.compare(name, effort)})[name]
    assert found["disagree"] == []
    assert found["spread_out"] == []
    assert found["ranks_ok"]


def test_means_that_spread_more_than_claimed_are_caught():
    rng = np.random.default_rng(0)
    ess = np.full(20, 400.0)
    honest = rng.normal(0.0, 1 / 20, (200, 20))
    p = np.array([agreement.spread_p_value(means, 1.0, ess) for means in honest])
    assert 0.02 < np.mean(p < 0.1) < 0.18
    # Half the effective size that is claimed, and a quarter.
    assert agreement.spread_p_value(2 * honest[0], 1.0, ess) < 1e-4
    assert agreement.spread_p_value(honest[0], 1.0, ess / 4) > 0.5


def test_an_engine_that_is_off_by_little_disagrees():
    quantity = {"quantity": "judge_sd", "mean_z": 5.0, "sd_z": 0.3, "spread_p": 0.5}
    table = {"quantities": [quantity], "rank_beyond_z": -2.0}
    found = agreement.summarize({"made up": table})["made up"]
    assert found["disagree"] == ["judge_sd mean"]
    assert found["ranks_ok"]
