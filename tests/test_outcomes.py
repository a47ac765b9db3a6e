"""Outcomes between two models, against hand computations and the formula written out."""

from math import exp, log

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import norm

from bayesjudge.engines import likelihoods, pymc_likelihoods
from bayesjudge.engines.observations import Observations
from bayesjudge.outcomes import (
    draw_outcomes,
    expected_outcome,
    log_outcomes,
    mean_outcome,
    tie_weight,
)

ALL = np.array([1.0, 0.5, 0.0])
strengths = st.floats(-30, 30)
weights = st.floats(1e-3, 50)


def counts(wins, ties, losses):
    """One pair's battles as an engine sees them."""
    n = np.array([float(wins + ties + losses)])
    zeros = np.zeros(1, int)
    return Observations(
        (zeros,), np.zeros((1, 0)), None, zeros, zeros,
        trials=n, successes=np.array([float(wins)]), ties=np.array([float(ties)]),
    )  # fmt: skip


def test_davidson_by_hand():
    # Strengths 4 and 1, nu = 1.25: a win, a tie and a loss are as 4, 1.25 x 2 and 1.
    chances = np.exp(log_outcomes(np.full(3, log(4)), ALL, np.array(1.25)))
    np.testing.assert_allclose(chances, [4 / 7.5, 2.5 / 7.5, 1 / 7.5], rtol=1e-12)
    assert expected_outcome(np.array(log(4)), np.array(1.25)) == pytest.approx(5.25 / 7.5)
    # Equals tie with the chance that the weight stands for: 1.25 / 3.25.
    assert tie_weight(np.array(1.25 / 3.25)) == pytest.approx(1.25)
    assert exp(log_outcomes(np.zeros(1), np.full(1, 0.5), np.array(1.25))[0]) == pytest.approx(
        1.25 / 3.25
    )


def test_the_likelihood_of_both_engines_is_highest_where_davidsons_is_by_hand():
    # Of 8 wins, 5 ties and 2 losses: strengths as 8 to 2, nu = 5 / sqrt(8 x 2).
    seen, eta, chance = counts(8, 5, 2), log(4), 1.25 / 3.25
    by_hand = 8 * log(8 / 15) + 5 * log(5 / 15) + 2 * log(2 / 15)
    with jax.enable_x64(True):

        def density(q):
            return likelihoods.davidson_log_likelihood(q[:1], q[1], seen)

        at = np.array([eta, chance])
        assert float(density(at)) == pytest.approx(by_hand, rel=1e-12)
        assert np.abs(np.asarray(jax.grad(density)(at))).max() < 1e-10
    found = pymc_likelihoods.davidson_log_likelihood(np.array([eta]), np.float64(chance), seen)
    assert float(found.eval()) == pytest.approx(by_hand, rel=1e-12)


def test_without_ties_it_is_bradley_terry():
    seen = counts(3, 0, 1)
    with jax.enable_x64(True):
        found = float(likelihoods.davidson_log_likelihood(np.array([0.7]), None, seen))
    wins = 1 / (1 + exp(-0.7))
    assert found == pytest.approx(3 * log(wins) + log(1 - wins), rel=1e-12)
    assert log_outcomes(np.array([0.7]), np.array([1.0]), None)[0] == pytest.approx(log(wins))
    assert np.isneginf(log_outcomes(np.array([0.7]), np.array([0.5]), None)[0])


@given(strengths, weights)
def test_chances_add_up_and_sides_mirror(eta, weight):
    at, nu = np.full(3, eta), np.array(weight)
    chances = np.exp(log_outcomes(at, ALL, nu))
    assert chances.sum() == pytest.approx(1.0)
    np.testing.assert_allclose(chances, np.exp(log_outcomes(-at, ALL[::-1], nu)), atol=1e-300)
    # Davidson's condition: a tie is as likely as the weight times the mean of the two, squared.
    log_chances = log_outcomes(at, ALL, nu)
    assert 2 * log_chances[1] == pytest.approx(
        2 * log(weight) + log_chances[0] + log_chances[2], abs=1e-9
    )
    expected = expected_outcome(np.array(eta), nu)
    assert expected == pytest.approx(chances @ ALL, abs=1e-12)
    assert expected == pytest.approx(1 - expected_outcome(np.array(-eta), nu), abs=1e-12)


@pytest.mark.parametrize("sd", [0.3, 1.0, 3.0, 9.0])
@pytest.mark.parametrize("weight", [None, 0.4, 6.0])
def test_the_mean_over_normal_deviations_is_the_integral(sd, weight):
    nu = None if weight is None else np.array(weight)
    for eta in (-2.0, 0.0, 5.0):
        exact = quad(
            lambda z, eta=eta: norm.pdf(z) * expected_outcome(np.array(eta + sd * z), nu),
            -9, 9, epsabs=1e-11, limit=400,
        )[0]  # fmt: skip
        assert mean_outcome(np.array(eta), np.array(sd**2), nu) == pytest.approx(exact, abs=2e-8)
    assert mean_outcome(np.array(0.3), np.array(0.0), nu) == expected_outcome(np.array(0.3), nu)


def test_outcomes_are_drawn_as_often_as_they_are_likely():
    n = 100_000
    drawn = draw_outcomes(np.full(n, 0.8), np.array(0.6), np.random.default_rng(0))
    chances = np.exp(log_outcomes(np.full(3, 0.8), ALL, np.array(0.6)))
    for outcome, chance in zip(ALL, chances, strict=True):
        # Four and a half standard errors.
        assert abs((drawn == outcome).mean() - chance) < 4.5 * np.sqrt(chance * (1 - chance) / n)
    assert set(draw_outcomes(np.zeros(100), None, np.random.default_rng(0))) == {0.0, 1.0}
