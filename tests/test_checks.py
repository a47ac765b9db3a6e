"""Checks of a gaussian model: what they ask, when they stay silent, what they say."""

from __future__ import annotations

import json

import numpy as np
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from typer.testing import CliRunner

import bayesjudge as bj
from bayesjudge.checking_fits import check_fit
from bayesjudge.cli.app import app
from bayesjudge.residual_checks import (
    Check,
    beyond_ends,
    check_ends,
    check_spread,
    check_tails,
    check_trend,
    check_values,
    checks_table,
    even_spread,
)
from bayesjudge.resolution import resolve
from bayesjudge.simulation import simulate
from bayesjudge.spec import read_model
from tests.calibration import checks as study
from tests.dense_twin import frame_of

# Values


@pytest.mark.parametrize(
    ("values", "severity", "said", "model"),
    [
        ([0, 1, 1, 0], "warning", "all scores are 0 or 1", "verdict"),
        ([3, 4, 4, 3], "warning", "two values only (3, 4)", "ordinal"),
        ([1, 2, 3, 4, 5], "note", "5 whole values only (1, 2, 3, 4, 5)", "ordinal"),
        ([7, 7, 7], "warning", "all 3 scores are 7: the result is prior-dominated", "Collect"),
    ],
)
def test_few_values_are_named_with_the_model_to_try(values, severity, said, model):
    found = check_values(np.array(values, dtype=float))
    assert found.found
    assert (found.severity, said in found.what, model in found.remedy) == (severity, True, True)
    assert found.problem().severity == severity


@pytest.mark.parametrize("values", [[1, 2, 3, 4, 5, 6], [0.5, 1.5], [0.0, 0.25, 1.0]])
def test_more_values_and_fractions_are_left_alone(values):
    assert not check_values(np.array(values)).found


# Ends of the scale


def at_the_top(share, n=40):
    """Backbones a and b; ``share`` of b's whole scores are the highest."""
    rng = np.random.default_rng(0)
    score = rng.integers(3, 9, 2 * n).astype(float)
    backbone = np.repeat([0, 1], n)
    score[n : n + round(share * n)] = 10.0
    return score, backbone


@pytest.mark.parametrize(("share", "found"), [(0.25, False), (0.35, True), (1.0, True)])
def test_a_ceiling_is_found_in_the_backbone_that_has_it(share, found):
    score, backbone = at_the_top(share)
    check = check_ends(score, backbone, ("a", "b"), (1, 10))
    assert check.value == pytest.approx(share)
    assert check.found == found
    if found:
        assert check.where == "b"
        assert f"{share:.0%} of the scores are the highest there is, 10" in check.what
        assert "--model ordinal" in check.remedy


def test_a_floor_is_found_and_what_lies_beyond_is_said():
    score, backbone = at_the_top(0.5)
    beyond = np.array([[0.0, 0.17], [0.0, 0.0]])
    check = check_ends(11 - score, backbone, ("a", "b"), None, beyond)
    assert "the lowest there is, 1; the model puts 17% of new ones beyond it" in check.what


def test_fractions_at_an_end_get_no_model_that_does_not_take_them():
    score, backbone = at_the_top(0.5)
    check = check_ends(score / 4, backbone, ("a", "b"), None)
    assert check.found
    assert "No shipped model" in check.remedy


def test_ends_of_few_scores_and_of_a_scale_that_is_not_reached_say_nothing():
    score, backbone = at_the_top(0.5, n=8)
    assert not check_ends(score, backbone, ("a", "b"), (1, 10)).found
    score, backbone = at_the_top(0.5)
    assert check_ends(score, backbone, ("a", "b"), (1, 100)).value == 0.0


def test_shares_beyond_the_ends_are_normal_tails():
    eta = np.array([[4.0, 9.0, 9.0], [4.0, 9.0, 10.0]])
    found = beyond_ends(eta, np.full((2, 1), 2.0), (0.5, 10.5), np.array([0, 1, 1]), 3)
    assert found.shape == (2, 3)
    assert found[0, 0] == pytest.approx(stats.norm.cdf(-1.75))
    assert found[1, 1] == pytest.approx(np.mean(stats.norm.sf([0.75, 0.75, 0.75, 0.25])), rel=1e-12)
    assert (found[:, 2] == 0).all()


# Residuals


def noise(n=400, draws=8, seed=0):
    return np.random.default_rng(seed).standard_normal((draws, n))


def test_residuals_of_one_spread_are_left_alone_at_the_rate_that_is_promised():
    """300 sets of independent residuals: each check errs in 2 % at most, at level 0.001."""
    codes = np.tile(np.arange(4), 100)
    counts = np.zeros(3)
    for seed in range(300):
        # Draws that are one: the worst case, in which a median helps nothing.
        e = np.repeat(noise(seed=seed, draws=1), 8, axis=0)
        eta = np.random.default_rng(10_000 + seed).standard_normal(e.shape)
        p = [
            check_spread(e, codes, "abcd", "judge", "", 0.01).p_value,
            check_trend(e, eta, "").p_value,
            check_tails(e).p_value,
        ]
        counts += np.array(p) < [0.01, 0.01, 0.001]
    assert (stats.binom.sf(counts - 1, 300, 0.02) > 0.001).all()
    # The levels are reached, too: these are tests and not mere silence.
    assert counts[0] + counts[1] > 0


def test_a_wide_judge_is_named_with_the_narrow_one():
    codes = np.tile(np.arange(3), 100)
    e = noise(300) * np.array([1.0, 2.4, 1.1])[codes]
    found = check_spread(e, codes, ("x", "y", "z"), "judge", "do this", 0.01)
    assert found.found
    assert "residuals of y are 2." in found.what
    assert found.what.endswith("times as wide as those of x")
    assert (found.where, found.remedy) == ("judge", "do this")
    assert not check_spread(even_spread(e, codes), codes, "xyz", "judge", "", 0.01).found


def test_small_levels_and_slight_or_doubtful_differences_are_no_findings():
    codes = np.array([0] * 9 + [1] * 91)
    e = noise(100) * np.where(codes == 0, 9.0, 1.0)
    assert check_spread(e, codes, "ab", "judge", "", 0.01).value == 1.0
    codes = np.tile([0, 1], 10_000)
    e = noise(20_000) * np.where(codes == 0, 1.3, 1.0)
    slight = check_spread(e, codes, "ab", "judge", "", 0.01)
    assert slight.p_value < 1e-10
    assert not slight.found


def test_one_score_far_off_is_no_spread():
    codes = np.tile(np.arange(4), 100)
    e = noise()
    e[:, 0] = 30.0
    assert not check_spread(e, codes, "abcd", "judge", "", 0.01).found


@pytest.mark.parametrize(("sign", "wide"), [(1, "high"), (-1, "low")])
def test_residuals_that_widen_with_fitted_values_are_found(sign, wide):
    eta = noise(seed=1)
    found = check_trend(noise() * np.exp(0.4 * sign * eta), eta, "transform")
    assert found.found
    assert f"where fitted values are {wide} as" in found.what
    assert found.value > 1.6
    assert not check_trend(noise(), eta, "").found
    assert check_trend(noise(20), noise(20), "").value == 1.0


def test_heavy_tails_are_found_and_single_scores_are_not():
    e = noise(1000)
    assert not check_tails(e).found
    e[:, 0] = 9.0
    assert not check_tails(e).found
    e[:, :4] = [9.0, -8.0, 7.0, 6.0]
    found = check_tails(e)
    assert found.found
    assert found.what.startswith("4 of 1,000 scores")
    assert "robust" in found.remedy
    assert found.p_value == pytest.approx(stats.binom.sf(3, 1000, 2 * stats.norm.sf(4)))


@settings(max_examples=50)
@given(st.integers(0, 2**32 - 1), st.floats(1e-3, 1e3))
def test_ratios_and_trends_do_not_depend_on_the_unit(seed, unit):
    rng = np.random.default_rng(seed)
    e, eta = rng.standard_normal((2, 3, 60))
    codes = rng.integers(0, 3, 60)
    for function in (
        lambda x: check_spread(x, codes, "abc", "judge", "", 0.01),
        lambda x: check_trend(x, eta, ""),
    ):
        one, other = function(e), function(unit * e)
        assert other.value == pytest.approx(one.value)
        np.testing.assert_allclose(other.p_value, one.p_value)


def test_checks_are_rows_of_a_table():
    table = checks_table([Check("a", 1.0, 2.0), Check("b", 3.0, 2.0, 0.01, "wrong", "here", "do")])
    assert table["check"].tolist() == ["a", "b"]
    assert table["severity"].tolist() == ["", "warning"]
    assert table["finding"].tolist() == ["", "wrong"]
    assert np.isnan(table["p_value"][0])
    assert len(checks_table([])) == 0


# Fits


def fit_of(frame, model="crossed_common", **options):
    return bj.fit(bj.read_scores(frame, **options), model, draws=50)


def test_a_fit_answers_every_question():
    frame = frame_of(backbone=3, scenario=12, judge=3)
    fit = fit_of(frame)
    table = fit.checks()
    assert table["check"].tolist() == [
        "values", "ends of the scale", "spread by backbone", "spread by judge",
        "spread by fitted value", "heavy tails", "discrimination by judge",
    ]  # fmt: skip
    assert (table["finding"] == "").all()
    assert fit.check_findings() == ()
    # Backbones have residual scales of their own in crossed.
    assert "spread by backbone" not in fit_of(frame, "crossed").checks()["check"].tolist()


@pytest.mark.parametrize("equal", [False, True])
def test_verdicts_and_equal_scores_are_told_once(equal):
    frame = frame_of(backbone=3, scenario=6, judge=3)
    fit = fit_of(frame.assign(score=4.0 if equal else 1.0 * (frame["score"] > 5)))
    assert len(fit.checks()) == 1
    (found,) = fit.check_findings()
    assert found.severity == "warning"


def test_an_answer_says_what_was_found_and_the_json_lists_it(tmp_path):
    made = simulate(
        "crossed_common", backbones=3, scenarios=30, judges=3, random_seed=2,
        sd={"backbone": 0.5, "judge": 0.3, "residual": 0.5},
    ).table  # fmt: skip
    wide = np.where(made["judge"] == "judge-1", 4.0, 1.0)
    rng = np.random.default_rng(0)
    made["score"] += wide * rng.standard_normal(len(made))
    path = tmp_path / "scores.csv"
    made.to_csv(path, index=False)
    words = ["rank", str(path), "--model", "crossed_common", "--draws", "50", "--json",
             "--allow-unconverged", "--out", str(tmp_path / "out")]  # fmt: skip
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.stderr
    assert "warning: residuals of judge-1 are" in done.stderr
    meta = json.loads(done.stdout)["meta"]
    found = {row["check"]: row for row in meta["checks"]}
    assert "residuals of judge-1" in found["spread by judge"]["finding"]
    assert any("residuals of judge-1" in text for text in meta["warnings"])
    assert found["values"]["p_value"] is None
    report = (tmp_path / "out" / "report.md").read_text()
    assert "residuals of judge-1" in report


def test_whole_scores_with_moderate_spread_are_not_shouted_at():
    frame = frame_of(seed=5, backbone=4, scenario=20, judge=3)
    frame["score"] = frame["score"].round().clip(1, 10)
    fit = fit_of(frame, "crossed", scale=(1, 10))
    assert fit.check_findings() == ()


def test_families_that_know_ends_are_not_asked():
    scores = bj.read_scores(frame_of(backbone=3, scenario=6, judge=3).assign(score=1))
    for model in ("verdict", "ordinal"):
        resolved = resolve(read_model(model), scores)
        assert check_fit(resolved, scores, xr.Dataset(), {}) == ()


# The study


def test_the_study_in_small_finds_faults_and_cries_no_wolf():
    """Four tables of each kind; the full study is committed in tests/calibration/results."""
    cases = {
        name: study.CASES[name]
        for name in ("drawn from crossed, 3x8x3", "ceiling", "one judge twice as wide")
    }
    found = study.study(4, cases)
    assert found["drawn from crossed, 3x8x3"]["warned"] <= 0.25
    assert found["ceiling"]["wanted"] == 1.0
    assert found["one judge twice as wide"]["wanted"] >= 0.5
    text = study.markdown({"versions": {}, "cases": found})
    assert "| ceiling | 4 | 1.000 |" in text
