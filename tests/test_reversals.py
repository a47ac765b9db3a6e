"""Rank reversals: both tests, and what they must and must not find."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from scipy import stats

from bayesjudge.closed_form.multiplicity import holm
from bayesjudge.closed_form.reversals import posterior_reversals, rank_reversals
from bayesjudge.errors import DataError
from tests.calibration.holm import holm as other_holm


def test_a_planted_reversal_is_found_and_no_other():
    rng = np.random.default_rng(0)
    y = rng.normal(size=(40, 1, 1)) + 0.3 * rng.normal(size=(40, 4, 3))
    y[:, :, 0] += 0.5
    y[:, 0, 0] -= 1.0
    y[:, :, 2] -= 3.0
    found = rank_reversals(y, 999, rng)
    assert found.pairs.tolist() == [[0, 1], [0, 2], [1, 2]]
    np.testing.assert_allclose(found.difference[:, 0], (y[:, :, 0] - y[:, :, 1]).mean(0))
    assert found.p_holm[0] == pytest.approx(3 / 1000)
    assert found.p_t[0] < 1e-3
    assert (found.p_holm[1:] > 0.9).all()
    assert (found.p_t[1:] > 0.9).all()


def test_unadjusted_tests_are_paired_t_tests_row_by_row():
    y = np.random.default_rng(1).normal(size=(9, 3, 2))
    d = y[:, :, 0] - y[:, :, 1]
    up = stats.ttest_1samp(d, 0, alternative="greater").pvalue.min()
    down = stats.ttest_1samp(d, 0, alternative="less").pvalue.min()
    found = rank_reversals(y, 99, np.random.default_rng(0))
    assert found.p_t[0] == pytest.approx(max(up, down))


@given(arrays.arrays(float, (6, 3, 3), elements=st.floats(-5, 5, width=16)), st.integers(0, 1000))
def test_order_and_units_do_not_matter(y, seed):
    found = rank_reversals(y, 99, np.random.default_rng(seed))
    turned = rank_reversals(-y[:, ::-1] * 4.0 + 8.0, 99, np.random.default_rng(seed))
    np.testing.assert_allclose(found.p_t, turned.p_t, atol=1e-9)
    np.testing.assert_allclose(found.p_bootstrap, turned.p_bootstrap)
    assert ((found.p_bootstrap > 0) & (found.p_bootstrap <= 1)).all()
    assert (found.p_holm >= found.p_bootstrap).all()


def test_tasks_that_all_say_the_same_decide_nothing_where_they_say_nothing():
    y = np.zeros((8, 2, 2))
    found = rank_reversals(y, 99, np.random.default_rng(0))
    assert found.p_bootstrap.tolist() == [1.0]
    y[:, 0, 0], y[:, 1, 1] = 1.0, 1.0
    found = rank_reversals(y, 99, np.random.default_rng(0))
    assert found.p_bootstrap[0] == pytest.approx(0.01)


def test_roundings_are_no_differences():
    y = np.full((8, 2, 2), 0.3)
    y[:, :, 1] = np.mean([[0.1, 0.2, 0.6]] * 16, axis=1).reshape(8, 2)
    y[::2, :, 1] += 5e-17
    y[:, 1, 1] = y[:, 1, 0] * (1 - 1e-15)
    found = rank_reversals(y, 99, np.random.default_rng(0))
    assert found.p_bootstrap.tolist() == [1.0]
    assert found.p_t[0] >= 0.5


def test_missing_cells_are_left_out():
    rng = np.random.default_rng(2)
    y = rng.normal(size=(30, 3, 3))
    y[:, 0, 0] = np.nan
    y[:10, 1, 1] = np.nan
    found = rank_reversals(y, 199, rng)
    assert np.isnan(found.difference[0, :2]).all()
    assert found.difference[1, 2] == pytest.approx(np.mean(y[10:, 1, 1] - y[10:, 1, 2]))
    assert np.isfinite(found.p_bootstrap).all()
    y[:, :, 0] = np.nan
    found = rank_reversals(y, 199, rng)
    assert np.isnan(found.p_bootstrap).tolist() == [True, True, False]
    assert np.isnan(found.p_t).tolist() == [True, True, False]
    assert found.p_holm[2] == found.p_bootstrap[2]


def test_one_task_is_refused():
    with pytest.raises(DataError, match="two tasks"):
        rank_reversals(np.zeros((1, 2, 2)), 99, np.random.default_rng(0))


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_holm_is_holm(p):
    np.testing.assert_allclose(holm(np.array(p)), other_holm(p))


def test_holm_passes_over_nulls():
    found = holm(np.array([0.04, np.nan, 0.01]))
    np.testing.assert_array_equal(found, [0.04, np.nan, 0.02])


def test_the_posterior_counts_draws_beyond_the_rope():
    draws = np.zeros((4, 2, 2))
    draws[:, :, 0] = [[1, -1], [1, 1], [0.2, -0.2], [3, -0.05]]
    assert posterior_reversals(draws, 0.0).tolist() == [0.75]
    assert posterior_reversals(draws, 0.1).tolist() == [0.5]
    assert posterior_reversals(draws, 1.5).tolist() == [0.0]


def test_false_reversals_are_held_to_their_level_where_it_is_hardest():
    """One row far up, the others equal: the null at its least favourable, one pair of columns.

    250 tables at level 0.05: exact binomial 0.999 limit is 25.
    """
    rng = np.random.default_rng(3)
    hits = 0
    for _ in range(250):
        sd = np.linspace(0.2, 2.0, 5)[:, None]
        y = sd * rng.normal(size=(40, 5, 2)) + rng.normal(size=(40, 5, 1))
        y[:, 0, 0] += 3.0
        hits += rank_reversals(y, 199, rng).p_holm[0] <= 0.05
    assert hits <= stats.binom.ppf(0.999, 250, 0.05)
    assert hits >= 2  # not a test that never rejects
