"""The study of double-centering's bounds at reduced size; what it must find wrong."""

from __future__ import annotations

import numpy as np
import pytest

from tests.calibration.double_centering import (
    DESIGNS,
    K,
    M,
    draw,
    expected,
    false_reversals,
    markdown,
    study,
    summarize,
)

WITHOUT_TASK_HOLES = [name for name in DESIGNS if "20 %" not in name]


@pytest.fixture(scope="module")
def found():
    return {**study(300, WITHOUT_TASK_HOLES), **study(60, [n for n in DESIGNS if "20 %" in n])}


@pytest.mark.parametrize("name", DESIGNS)
def test_bounds_cover_and_nothing_is_biased(found, name):
    # One-sided exact binomial, level 0.001 over all of the study's tests.
    failing = [r["bound"] for r in found[name]["coverage"] if r["ok"] is False]
    assert failing == []
    assert found[name]["bias_ok"], found[name]["largest_bias_z"]
    assert all(row["width"] > 0 for row in found[name]["coverage"])


def test_the_variance_is_sigma_squared_over_n_times_both_contrasts(found):
    # 300 tables x 35 degrees of freedom: sd 1.4 %; the full study's 2,000 hold to 3 %.
    assert found["equal variances"]["variance_ratio"] == pytest.approx(1, abs=0.05)


def test_one_variance_for_all_cells_does_not_cover(found):
    assert found["unequal variances"]["pooled_simultaneous_coverage"] < 0.8


def test_bounds_that_are_too_narrow_and_estimates_that_are_off_are_caught():
    design = DESIGNS["equal variances"]
    rng = np.random.default_rng(0)
    errors = rng.normal(0.02, 0.06, (300, M, K))
    hits = {"t": list(rng.random(300) < 0.85)}
    result = summarize(errors, hits, {"t": [0.1]}, design)
    assert not result["coverage"][0]["ok"]
    assert not result["bias_ok"]


def test_task_by_language_effects_are_not_felt():
    design = DESIGNS["equal variances"]
    y = draw(design, np.random.default_rng(1))
    assert np.std(y.mean(axis=2) - y.mean(axis=(1, 2))[:, None]) > 0.5
    np.testing.assert_allclose(expected(design, y).sum(axis=0), 0, atol=1e-12)


def test_false_reversals_are_rare_and_the_report_says_all():
    result = false_reversals(40, 199)
    assert all(f["ok"] for f in result.values())
    assert result["one language apart"]["unadjusted"] > result["one language apart"]["holm"]
    text = markdown({"versions": {}, "designs": study(5, ["verdicts"]), "false_reversals": result})
    assert "range, all cells" in text
