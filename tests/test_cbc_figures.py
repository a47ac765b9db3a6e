"""The CBC paper's figures: on a simulated table of its shape, and on its public data.

The public data lie beside the project or where BAYESJUDGE_DATA says, never in it.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import bayesjudge as bj
from bayesjudge.closed_form.double_centering import interaction
from tests.cbc_tables import agent_runs
from tests.golden.reml.cases import Absent, shared_data

# Abstract of arXiv:2608.22432, and STATISTICS section 8.
RAW_TAU, RAW_ORACLE = 0.650, 0.685
N_REVERSED_UNADJUSTED, N_REVERSED_HOLM, N_PAIRS = 7, 3, 15


def read(frame):
    return bj.read_scores(frame, facets=["framework"])


def framework_effects(frame):
    """Posterior effects of the framework and its share of the variance."""
    fit = bj.fit(read(frame), "language_backbone")
    assert fit.convergence.converged
    shares = fit.variance_components().set_index("term")["share"]
    return fit.effects("framework"), fit.effects("backbone:framework"), shares


@pytest.fixture(scope="module")
def simulated():
    table, gamma = agent_runs()
    return bj.calibrate(read(table), rope=0.02, splits=50), gamma


def test_simulated_runs_are_made_consistent(simulated):
    found, gamma = simulated
    halves = found.held_out
    assert halves.adjusted_tau > halves.raw_tau + 0.1
    assert halves.adjusted_oracle_agreement >= 0.99 > halves.raw_oracle_agreement
    assert halves.raw_tau_between_halves > halves.raw_tau
    assert halves.rmse_with_interaction < halves.rmse_without_interaction
    error = np.abs(found.closed.estimate - gamma)
    # All 48 at once at 95 %: a fixed seed of a table that does.
    assert (error < found.interaction["bound"].to_numpy().reshape(8, 6)).all()
    unadjusted = found.reversals["reversed_t"].sum()
    assert 0 < found.reversals["reversed_holm"].sum() <= unadjusted <= N_PAIRS


def test_simulated_reversals_are_true_ones(simulated):
    found, gamma = simulated
    skill = np.array([0.15, 0.12, 0.43, 0.33, 0.17, 0.04])
    means = skill + gamma
    first, second = np.triu_indices(6, 1)
    d = means[:, first] - means[:, second]
    truly = (d.max(axis=0) > 0) & (d.min(axis=0) < 0)
    assert not found.reversals["reversed_holm"][~truly].any()
    assert (found.reversals["p_posterior"][found.reversals["reversed_holm"]] > 0.95).all()


def test_the_posterior_of_simulated_runs_covers_the_truth(simulated):
    found, gamma = simulated
    table = found.interaction
    inside = (table["posterior_lower"] < gamma.ravel()) & (gamma.ravel() < table["posterior_upper"])
    # 48 intervals at 95 %: fewer than 40 has probability 2e-4 were they independent.
    assert inside.sum() >= 40


def test_a_framework_without_effect_shows_none_and_one_with_shows_it():
    main, by_backbone, shares = framework_effects(agent_runs(seed=1)[0])
    assert shares["framework"] < 1e-3
    assert shares["backbone:framework"] < 1e-3
    assert main[["ci_lower", "ci_upper"]].abs().max().max() < 0.01
    # 18 intervals at 95 %; three or more without zero have probability 0.06 under
    # independence, and shrinkage makes it less.
    outside = (by_backbone["ci_lower"] > 0) | (by_backbone["ci_upper"] < 0)
    assert outside.sum() <= 2
    main, _, _ = framework_effects(agent_runs(framework=0.02, seed=1)[0])
    assert main["ci_lower"][0] > 0
    assert main["ci_upper"][2] < 0


# On the paper's public data.


@pytest.fixture(scope="module")
def devai():
    try:
        path = shared_data("devai_multilingual", "verdicts.parquet")
    except Absent as why:
        pytest.skip(str(why))
    verdicts = pd.read_parquet(path)
    runs = verdicts.groupby(["scenario", "language", "judge", "model"], as_index=False)["score"]
    return runs.mean().rename(columns={"judge": "backbone", "model": "framework"})


@pytest.fixture(scope="module")
def paper(devai):
    return bj.calibrate(read(devai), rope=0.02)


def test_the_papers_cells(paper):
    means = paper.adjusted.set_index(["backbone", "language"])["mean"] * 100
    assert means["gpt-4o", "English"] == pytest.approx(44.72, abs=0.005)
    assert means["gemini-3-flash-preview", "Arabic"] == pytest.approx(51.72, abs=0.005)
    assert means["gemini-3-flash-preview", "Hindi"] == pytest.approx(53.22, abs=0.005)
    assert paper.cells.n_tasks == 55
    assert len(paper.scores) == 7920


def test_the_papers_consistency(paper):
    halves = paper.held_out
    assert halves.raw_tau == pytest.approx(RAW_TAU, abs=0.01)
    assert halves.adjusted_tau >= 0.89
    assert halves.raw_oracle_agreement == pytest.approx(RAW_ORACLE, abs=0.02)
    assert halves.adjusted_oracle_agreement >= 0.99
    assert halves.raw_tau_between_halves == pytest.approx(0.946, abs=0.01)
    assert halves.rmse_with_interaction == pytest.approx(0.042, abs=0.002)
    assert halves.rmse_without_interaction == pytest.approx(0.069, abs=0.002)
    assert halves.is_reproducible


def test_the_papers_reversals(paper):
    table = paper.reversals
    assert len(table) == N_PAIRS
    assert table["reversed_t"].sum() == N_REVERSED_UNADJUSTED
    # One of three lies at an adjusted p of 0.04 and moves with the resamples: 3 measured.
    assert 2 <= table["reversed_holm"].sum() <= N_REVERSED_HOLM + 1 < N_REVERSED_UNADJUSTED
    assert (table["p_posterior"] >= table["p_posterior_rope"]).all()


def test_the_papers_posterior_is_near_the_closed_form(paper):
    assert paper.converged
    assert paper.interaction["difference_in_se"].abs().max() < 1.5
    assert paper.interaction["difference"].abs().max() < 0.02


def test_the_papers_frameworks_are_the_same(devai):
    """Identical workspaces; means differ by up to 0.7 points even so, one batch of runs each."""
    main, by_backbone, shares = framework_effects(devai)
    assert shares["framework"] < 1e-3
    assert shares["backbone:framework"] < 1e-3
    assert main[["ci_lower", "ci_upper"]].abs().max().max() < 0.01
    outside = (by_backbone["ci_lower"] > 0) | (by_backbone["ci_upper"] < 0)
    assert not outside.any()


def test_one_backbone_without_one_of_the_papers_languages(devai):
    lost = (devai["backbone"] == "qwen3.5-9b") & (devai["language"] == "Swahili")
    found = bj.calibrate(read(devai[~lost]), model=None, splits=20, resamples=999)
    hole = found.adjusted[found.adjusted["extrapolated"]].iloc[0]
    assert (hole["backbone"], hole["language"]) == ("qwen3.5-9b", "Swahili")
    whole = read(devai)
    other = bj.calibrate(whole, model=None, splits=1, resamples=99)
    gap = np.abs(found.closed.estimate - other.closed.estimate)
    assert np.nanmax(gap) < 0.02
    assert found.held_out.adjusted_oracle_agreement >= 0.99


@pytest.fixture(scope="module")
def hanna():
    try:
        path = shared_data("hanna", "llm_judges.csv")
    except Absent as why:
        pytest.skip(str(why))
    table = pd.read_csv(path)
    return table[table["criterion"] == "coherence"].drop(columns=["criterion", "prompt"])


def test_hanna_as_judge_by_backbone(hanna):
    found = bj.calibrate(bj.read_scores(hanna), splits=20, resamples=999)
    assert (found.cells.conditions, found.cells.objects) == ("judge", "backbone")
    assert found.cells.tasks.shape == (96, 5, 11)
    assert found.converged
    means = hanna.pivot_table(index="judge", columns="model", values="score").to_numpy()
    by_hand = means - means.mean(0) - means.mean(1)[:, None] + means.mean()
    np.testing.assert_allclose(found.closed.estimate, by_hand, atol=1e-12)
    assert found.held_out.adjusted_tau > found.held_out.raw_tau


def test_hanna_without_three_cells(hanna):
    judges, backbones = sorted(set(hanna["judge"])), sorted(set(hanna["model"]))
    gone = {(judges[0], backbones[0]), (judges[1], backbones[3]), (judges[4], backbones[10])}
    lost = [pair in gone for pair in zip(hanna["judge"], hanna["model"], strict=True)]
    scores = bj.read_scores(hanna[~np.array(lost)])
    found = bj.calibrate(scores, model=None, splits=20, resamples=999)
    assert found.adjusted["extrapolated"].sum() == 3
    np.testing.assert_allclose(found.closed.additive, interaction(found.cells.tasks).additive)
    assert found.held_out.rmse_with_interaction < found.held_out.rmse_without_interaction
