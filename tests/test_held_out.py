"""Held-out consistency: its arithmetic, and what it says of tables that are known."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from scipy import stats

from bayesjudge.closed_form.held_out import held_out, kendall_tau
from bayesjudge.errors import DataError

whole = st.integers(-3, 3).map(float)


@given(arrays.arrays(float, (2, 6), elements=st.one_of(whole, st.just(np.nan))))
def test_tau_is_scipys(pair):
    known = ~np.isnan(pair).any(axis=0)
    a, b = pair[:, known]
    if a.size < 2 or np.ptp(a) == 0 or np.ptp(b) == 0:
        assert np.isnan(kendall_tau(*pair))
    else:
        assert kendall_tau(*pair) == pytest.approx(stats.kendalltau(a, b).statistic)


def planted(size, noise, n=24, seed=0):
    rng = np.random.default_rng(seed)
    gamma = np.array([[1.0, -1.0, 0.0], [-1.0, 1.0, 0.0]]) * size
    skill = np.array([0.5, 0.0, -2.0])
    return noise * rng.normal(size=(n, 1, 1)) + skill + gamma + noise * rng.normal(size=(n, 2, 3))


def test_an_interaction_that_turns_the_order_is_deleted():
    found = held_out(planted(1.0, 0.01), 20, np.random.default_rng(0))
    # Row 0 ranks 0, 1, 2 and row 1 ranks 1, 0, 2: one of three pairs turned.
    assert found.raw_tau == pytest.approx(1 / 3)
    assert found.adjusted_tau == pytest.approx(1.0)
    assert found.raw_oracle_agreement == pytest.approx(0.5)
    assert found.adjusted_oracle_agreement == pytest.approx(1.0)
    assert (found.raw_winners, found.adjusted_winners) == (2.0, 1.0)
    assert found.raw_tau_between_halves == pytest.approx(1.0)
    assert found.rmse_without_interaction == pytest.approx(np.sqrt(2 / 3), rel=0.02)
    assert found.rmse_with_interaction < 0.02
    assert found.is_reproducible
    assert found.n_splits == 20


def test_noise_is_not_called_reproducible():
    found = held_out(planted(0.0, 1.0), 100, np.random.default_rng(0))
    assert not found.is_reproducible


def test_lower_is_better_turns_winners_only():
    y = planted(1.0, 0.5)
    up = held_out(y, 10, np.random.default_rng(0))
    down = held_out(-y, 10, np.random.default_rng(0), lower_is_better=True)
    assert up == down
    other = held_out(y, 10, np.random.default_rng(0), lower_is_better=True)
    assert other.raw_tau == up.raw_tau
    assert other.raw_oracle_agreement == 1.0


def test_equal_means_share_the_win():
    found = held_out(np.zeros((8, 3, 4)), 5, np.random.default_rng(0))
    assert found.raw_oracle_agreement == pytest.approx(0.25)
    assert found.adjusted_oracle_agreement == pytest.approx(0.25)
    assert np.isnan(found.raw_tau)


@pytest.mark.filterwarnings("error")
def test_missing_cells_are_left_out():
    y = planted(1.0, 0.05, n=40)
    y[:, 0, 2] = np.nan
    y[np.random.default_rng(1).random(y.shape) < 0.2] = np.nan
    found = held_out(y, 20, np.random.default_rng(0))
    assert found.n_splits == 20
    assert found.raw_winners == 2.0
    assert found.rmse_with_interaction < found.rmse_without_interaction


def test_what_cannot_be_split_is_refused():
    with pytest.raises(DataError, match="halves of 3 tasks"):
        held_out(np.zeros((3, 2, 2)), 5, np.random.default_rng(0))
    y = np.full((4, 2, 2), np.nan)
    y[0] = 1.0
    y[1:, 0, 0] = 1.0
    with pytest.raises(DataError, match="holds enough cells"):
        held_out(y, 5, np.random.default_rng(0))
