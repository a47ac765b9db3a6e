"""Printed tables of the language-bias paper, through the product's own functions.

Tolerances are what rounding of the printed inputs and of the printed result can do.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import bayesjudge as bj
from bayesjudge.auditing.acceptance import accuracy_summary
from bayesjudge.auditing.explaining import mean_correlations
from bayesjudge.auditing.influence import cell_means
from bayesjudge.auditing.languages import known_languages
from bayesjudge.auditing.means import correlation_p, normalize
from bayesjudge.auditing.table import audit_table

HERE = Path(__file__).parent / "golden" / "language_bias"
ROUNDING = 0.005 + 0.005 + 1e-9
TABLES = {"table4": ("table4_judge_means", "mean"), "table5": ("table5_reward_z", "z")}


def printed(name):
    return pd.read_csv(HERE / f"{name}.csv", keep_default_na=False)


def scores_of(table):
    name, value = TABLES[table]
    return bj.read_languages(
        printed(name), columns={"score": value, "judge": "evaluator"}, facets="split"
    )


@pytest.fixture(scope="module", params=TABLES)
def table(request):
    averages = printed(f"{request.param}_averages")
    return request.param, bj.audit(scores_of(request.param)), averages


def test_averages_of_splits_and_overall(table):
    """Identities 12 and 13."""
    _, found, averages = table
    cells = found["means"]["by_cell"].set_index(["language", "cell"])["mean"]
    overall = found["means"]["by_language"].set_index("language")["mean"]
    splits = 0
    for row in averages.itertuples():
        if row.split == "overall":
            assert overall[row.language] == pytest.approx(float(row.average), abs=ROUNDING)
        else:
            splits += 1
            here = cells[row.language, row.split]
            assert here == pytest.approx(float(row.average), abs=ROUNDING)
    assert (splits, len(overall)) == (92, 23)


def test_overall_is_the_mean_of_split_averages_and_sorts_the_table(table):
    """Identity 14."""
    _, found, averages = table
    overall = found["means"]["by_language"].set_index("language")["mean"]
    by_split = averages[averages["split"] != "overall"]
    means = by_split["average"].astype(float).groupby(by_split["language"]).mean()
    assert np.allclose(means[overall.index], overall, atol=0.01)
    rows = averages[averages["split"] == "overall"]["average"].astype(float).to_numpy()
    assert (np.diff(rows) <= 1e-9).all()


def test_rewards_are_normalized_over_cell_means_within_evaluator():
    """Identity 15: normalizing what is printed gives it back; with ddof 0 it would not."""
    means, _ = cell_means(audit_table(scores_of("table5")))
    again = normalize(means)
    assert means.shape == (23, 4, 4)
    sd = np.moveaxis(means, 1, 0).reshape(4, -1).std(axis=1, ddof=1)
    assert np.abs(sd - 1).max() <= 0.0045
    assert np.abs(means.mean(axis=(0, 2))).max() <= 0.005
    assert np.abs(again - means).max() <= 0.005 + 0.0045 * np.abs(means).max()
    assert np.abs(means.std(axis=(0, 2)) - 1).min() > 0.0045


def test_the_audit_normalizes_so_too():
    found = bj.audit(scores_of("table5"))["means"]["by_language"]
    assert np.abs(found["z"] - found["mean"]).max() < 0.005


def test_mean_and_sd_of_pairwise_accuracy():
    """Identity 17."""
    cells, summary = printed("table7_pairwise_accuracy"), printed("table7_summary")
    for row in summary.itertuples():
        values = cells[cells["evaluator"] == row.evaluator]["accuracy"].to_numpy(float)
        assert values.size == 46
        mean, sd = accuracy_summary(values)
        assert mean == pytest.approx(float(row.mean), abs=0.1)
        assert sd == pytest.approx(float(row.sd), abs=0.05 + 1e-9)


def test_nll_correlations_their_means_and_stars():
    """Identity 18."""
    rows, means = printed("table8_nll_correlation"), printed("table8_means")
    rho = rows["spearman_rho"].to_numpy(float)
    found = mean_correlations(rho, rows["pearson_r"].to_numpy(float))
    printed_means = means.set_index("statistic")["mean"].astype(float)
    assert found[0] == pytest.approx(printed_means["spearman_rho"], abs=0.001)
    assert found[1] == pytest.approx(printed_means["pearson_r"], abs=0.001)
    for value, stars in zip(rho, rows["spearman_p_less_than"], strict=True):
        p = correlation_p(float(value), 23)
        told = next((level for level in (0.001, 0.01, 0.05) if p < level), None)
        assert told == (float(stars) if stars else None)


def test_evaluators_that_share_a_backbone_correlate_as_printed():
    """Identity 26."""
    found = bj.audit(scores_of("table5"))["agreement"]["pearson"].set_index("judge")
    assert round(found.loc["urm_llama", "skywork_llama"], 2) == 0.59


def test_resource_level_correlates_as_the_paper_says():
    """Section 3.3.3, with the shares of the crawl that the paper names, of another source."""
    found = bj.audit(scores_of("table5"))["resource"]["correlations"].set_index("judge")
    assert found.loc["(mean of all)", "spearman"] == pytest.approx(-0.81, abs=0.005)
    assert found.loc["(mean of all)", "pearson"] == pytest.approx(-0.58, abs=0.005)


def test_resource_classes_of_the_paper():
    """Identity 25."""
    known = known_languages()
    classes = [one.resource_class for one in known]
    assert (classes.count("High"), classes.count("Mid")) == (17, 6)
    mid = {one.code for one in known if one.resource_class == "Mid"}
    assert mid == {"el", "he", "id", "ko", "ro", "uk"}
    assert set(printed("table7_pairwise_accuracy")["language"]) <= {one.code for one in known}


def test_cell_means_say_what_they_cannot_carry(table):
    _, found, _ = table
    assert "single scores" in found.not_computed["acceptance"]
    assert "n=COLUMN" in found.not_computed["anova"]
