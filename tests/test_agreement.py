"""Agreement with a gold column, before and after the interaction is taken off."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayesjudge.closed_form.agreement import gold_agreement
from bayesjudge.closed_form.double_centering import interaction
from bayesjudge.errors import DataError


def rng(seed=0):
    return np.random.default_rng(seed)


def test_pairs_are_counted_by_hand():
    tasks = np.array([[[1.0, 2.0, 3.0], [3.0, 3.0, 0.0]]] * 2)
    gold = np.array([[[1.0, 2.0, 2.0], [1.0, 2.0, np.nan]]] * 2)
    (found,) = gold_agreement(tasks, gold, 50, rng())
    # Row 0: two pairs differ in the gold and both agree; row 1: one pair, tied scores.
    assert found.measure == "pairs"
    assert found.before == pytest.approx(2.5 / 3)
    assert (found.n_tasks, found.n_compared, found.threshold) == (2, 6, None)
    assert found.before_interval == pytest.approx((2.5 / 3, 2.5 / 3))
    shift = interaction(tasks).estimate
    moved = tasks[0] - shift
    right = sum(moved[0, 0] < moved[0, b] for b in (1, 2)) + (moved[1, 0] < moved[1, 1])
    assert found.after == pytest.approx(right / 3)


def test_an_error_of_two_backbones_in_two_rows_is_mended():
    r = rng(1)
    gold = r.normal(size=(80, 4, 3))
    gold -= gold.mean(axis=0)
    gamma = np.zeros((4, 3))
    gamma[:2] = [[2.0, -2.0, 0.0], [-2.0, 2.0, 0.0]]
    tasks = gold + gamma + 0.3 * r.normal(size=gold.shape)
    (found,) = gold_agreement(tasks, gold, 200, r)
    assert found.after > found.before
    assert found.gain_interval[0] > 0
    assert found.before_interval[0] < found.before < found.before_interval[1]
    assert found.after_interval[0] < found.after < found.after_interval[1]


def test_a_true_interaction_is_unmade():
    r = rng(2)
    gamma = 3 * np.array([[1.0, -1.0], [-1.0, 1.0]])
    gold = gamma + r.normal(size=(60, 2, 2))
    (found,) = gold_agreement(gold + 0.1 * r.normal(size=gold.shape), gold, 200, r)
    assert found.gain_interval[1] < 0


def test_a_preference_is_sided_with_by_scores_and_by_majorities():
    tasks = np.array([[[0.9, 0.8, 0.1], [0.2, 0.3, 0.4]], [[0.9, 0.5, 0.1], [0.9, 0.1, 0.1]]])
    gold = np.array([[[1.0] * 3, [0.0] * 3], [[1.0] * 3, [0.0, np.nan, np.nan]]])
    scores, panel = gold_agreement(tasks, gold, 20, rng())
    assert (scores.measure, panel.measure) == ("scores", "panel")
    assert scores.threshold == panel.threshold == 0.5
    assert scores.before == pytest.approx((2 + 3 + 1.5 + 0) / 10)
    assert panel.before == pytest.approx((1 + 1 + 0.5 + 0) / 4)
    assert (scores.n_compared, panel.n_compared) == (10, 4)


def test_a_preference_that_some_judge_reads_differently_by_row():
    r = rng(3)
    gold = np.repeat(r.integers(0, 2, (200, 4, 1)), 5, axis=2).astype(float)
    lean = np.zeros((4, 5))
    lean[0, :3] = [0.6, 0.6, -0.9]
    lean[1, 2:] = [0.6, 0.6, -0.9]
    tasks = gold + lean + 0.3 * r.normal(size=gold.shape)
    scores, panel = gold_agreement(tasks, gold, 100, r)
    assert scores.gain_interval[0] > 0
    assert panel.after > panel.before


@settings(max_examples=30)
@given(st.integers(0, 10**6), st.booleans())
def test_shares_are_shares(seed, preference):
    r = rng(seed)
    tasks = r.integers(0, 4, (5, 2, 3)).astype(float)
    gold = r.integers(0, 2, (5, 2, 1 if preference else 3)) * np.ones((1, 1, 3))
    gold[r.random(gold.shape) < 0.2] = np.nan
    try:
        found = gold_agreement(tasks, gold, 20, r)
    except DataError:
        return
    for one in found:
        assert 0 <= one.before <= 1
        assert 0 <= one.after <= 1
        low, high = one.gain_interval
        assert -1 <= low <= high <= 1


def test_tables_with_holes_have_an_interval():
    r = rng(4)
    tasks = r.normal(size=(30, 3, 3))
    tasks[r.random(tasks.shape) < 0.2] = np.nan
    gold = np.where(r.random(tasks.shape) < 0.5, r.normal(size=tasks.shape), np.nan)
    (found,) = gold_agreement(tasks, gold, 30, r)
    assert found.after_interval[0] < found.after_interval[1]


def test_a_table_that_resampling_breaks_has_no_interval():
    tasks, gold = np.full((2, 2, 2), np.nan), np.zeros((2, 2, 2))
    tasks[0, 0], tasks[1, 1] = [1.0, 2.0], [2.0, 1.0]
    gold[:, :, 1] = 1.0
    (found,) = gold_agreement(tasks, gold, 1, rng(1))
    assert np.isnan(found.gain_interval).all()


@pytest.mark.parametrize(
    "gold", [np.full((4, 2, 2), np.nan), np.ones((4, 2, 2)), np.arange(4.0)[:, None, None]]
)
def test_gold_that_says_nothing_is_refused(gold):
    tasks = rng().normal(size=(4, 2, 2))
    with pytest.raises(DataError, match="orders nothing"):
        gold_agreement(tasks, np.broadcast_to(gold, tasks.shape), 10, rng())
