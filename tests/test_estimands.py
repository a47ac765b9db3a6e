"""Backbone means over a finite pool of scenarios."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayesjudge.errors import UsageError
from bayesjudge.estimands import ScenarioTerm, finite_scenario_means


def rng():
    return np.random.default_rng(1)


def terms_of(n_draws, n_backbones, sd):
    shared = ScenarioTerm(rng().normal(size=(n_draws, 1)), np.full((n_draws, 1), sd))
    own = ScenarioTerm(
        rng().normal(size=(n_draws, n_backbones)), np.full((n_draws, n_backbones), sd)
    )
    return shared, own


def test_the_scenarios_of_the_table_alone_leave_nothing_to_draw():
    means = rng().normal(size=(7, 3))
    terms = terms_of(7, 3, 100.0)
    found = finite_scenario_means(means, terms, 10, 10, rng())
    np.testing.assert_array_equal(found, means + terms[0].observed + terms[1].observed)


def test_without_terms_the_pool_does_not_matter():
    means = rng().normal(size=(7, 3))
    np.testing.assert_array_equal(finite_scenario_means(means, (), 4, 9, rng()), means)


@given(st.integers(1, 50), st.integers(0, 4))
def test_a_large_pool_is_the_population(n, seed):
    means = np.random.default_rng(seed).normal(size=(5, 3))
    found = finite_scenario_means(means, terms_of(5, 3, 1.0), n, 10**12, rng())
    np.testing.assert_allclose(found, means, atol=1e-4)


def test_observed_effects_count_by_their_share():
    means = np.zeros((2, 3))
    observed = np.arange(6.0).reshape(2, 3)
    term = ScenarioTerm(observed, np.zeros((2, 3)))
    found = finite_scenario_means(means, (term,), 3, 12, rng())
    np.testing.assert_allclose(found, observed / 4)


@pytest.mark.parametrize(("n", "pool"), [(5, 6), (5, 20), (30, 40)])
def test_the_variance_is_that_of_a_finite_population(n, pool):
    # The mean of n of N scenarios estimates that of all N with variance
    # sigma^2/n (1 - n/N): the error of a pool whose observed part is known.
    n_draws, sd = 40_000, 1.7
    generator = np.random.default_rng(3)
    observed = generator.normal(0, sd / np.sqrt(n), (n_draws, 1))
    term = ScenarioTerm(observed, np.full((n_draws, 1), sd))
    found = finite_scenario_means(np.zeros((n_draws, 1)), (term,), n, pool, generator)
    expected = sd**2 / n * (1 - n / pool)
    tolerance = 5 * np.sqrt(2 / n_draws)
    assert np.var(observed - found) == pytest.approx(expected, rel=tolerance)
    # And the mean of a pool has itself the variance of N scenarios.
    assert np.var(found) == pytest.approx(sd**2 / pool, rel=tolerance)


def test_backbones_have_scales_of_their_own():
    n_draws = 40_000
    sd = np.broadcast_to([0.5, 2.0], (n_draws, 2))
    term = ScenarioTerm(np.zeros((n_draws, 2)), sd)
    found = finite_scenario_means(np.zeros((n_draws, 2)), (term,), 4, 8, rng())
    expected = sd[0] ** 2 / 4 * 0.25
    np.testing.assert_allclose(found.var(axis=0), expected, rtol=5 * np.sqrt(2 / n_draws))
    assert abs(np.corrcoef(found.T)[0, 1]) < 0.03


def test_terms_shared_by_backbones_move_them_together():
    term = ScenarioTerm(np.zeros((50, 1)), np.ones((50, 1)))
    found = finite_scenario_means(np.zeros((50, 3)), (term,), 4, 8, rng())
    assert np.ptp(found, axis=1).max() == 0
    assert np.std(found[:, 0]) > 0


def test_centred_terms_leave_the_panel_mean_alone():
    n_draws = 40_000
    term = ScenarioTerm(np.zeros((n_draws, 3)), np.ones((n_draws, 3)), centred=True)
    found = finite_scenario_means(np.zeros((n_draws, 3)), (term,), 4, 8, rng())
    np.testing.assert_allclose(found.sum(axis=1), 0, atol=1e-12)
    expected = np.full(3, 2 / 3 / 4 * 0.25)
    np.testing.assert_allclose(found.var(axis=0), expected, rtol=5 * np.sqrt(2 / n_draws))


def test_a_pool_smaller_than_the_table_is_refused():
    with pytest.raises(UsageError, match="pool of 3 scenarios is smaller than the 4") as caught:
        finite_scenario_means(np.zeros((2, 2)), (), 4, 3, rng())
    assert "those in the table included" in caught.value.remedy


def test_a_seed_gives_the_same_draws():
    arguments = np.zeros((9, 3)), terms_of(9, 3, 1.0), 4, 8
    first, second = (finite_scenario_means(*arguments, rng()) for _ in range(2))
    np.testing.assert_array_equal(first, second)
