"""Cutpoints and expected scores against integrals, sums and simulation."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.special import expit, ndtr
from scipy.stats import norm

from bayesjudge.errors import DataError, ModelError
from bayesjudge.response import (
    categories_of,
    chance_above,
    cutpoints_from_stops,
    cutpoints_of,
    expected_score,
    spaced_cutpoints,
)

LINKS = ("logit", "probit")
CDF = {"logit": expit, "probit": ndtr}


def probabilities(weights):
    return np.asarray(weights) / np.sum(weights)


simplexes = st.lists(st.floats(0.01, 10), min_size=2, max_size=8).map(probabilities)


@given(simplexes, st.sampled_from(LINKS))
def test_cutpoints_give_the_categories_their_probabilities(p, link):
    edges = np.concatenate([[0.0], CDF[link](cutpoints_of(p, link)), [1.0]])
    np.testing.assert_allclose(np.diff(edges), p, rtol=1e-9, atol=1e-14)


@given(simplexes, st.sampled_from(LINKS))
def test_log_odds_of_stopping_are_another_way_to_the_same_cutpoints(p, link):
    above = np.cumsum(p[::-1])[::-1]
    x = np.log(p[:-1]) - np.log(above[1:])
    np.testing.assert_allclose(
        cutpoints_from_stops(x, link), cutpoints_of(p, link), rtol=1e-9, atol=1e-9
    )


def test_stops_far_out_leave_finite_rising_cutpoints():
    x = np.array([[-600.0, 3.0, 2.0], [300.0, 0.0, 1.0], [-40.0, -40.0, 40.0]])
    for link in LINKS:
        cuts = cutpoints_from_stops(x, link)
        assert np.isfinite(cuts).all()
        assert (np.diff(cuts) > 0).all()
    # One in e^600 lies below the first: its log-odds are all there is to see.
    assert cutpoints_from_stops(x, "logit")[0, 0] == pytest.approx(-600.0)


@given(
    st.lists(st.floats(0.05, 3), min_size=2, max_size=5),
    st.integers(2, 4),
    st.integers(0, 2**32 - 1),
)
def test_spacing_keeps_the_mean_and_the_order(gaps, levels, seed):
    cuts = np.cumsum([-1.0, *gaps])
    log_spacing = np.random.default_rng(seed).normal(0, 1, (levels, len(gaps)))
    own = spaced_cutpoints(cuts, log_spacing)
    np.testing.assert_allclose(own.mean(axis=-1), cuts.mean(), atol=1e-9)
    np.testing.assert_allclose(np.diff(own), np.diff(cuts) * np.exp(log_spacing), rtol=1e-6)


def test_no_spacing_changes_nothing():
    cuts = np.array([[-2.0, 0.5, 0.7]])
    np.testing.assert_allclose(
        spaced_cutpoints(cuts, np.zeros((1, 3, 2))), np.repeat(cuts[:, None], 3, axis=1)
    )


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("sd", [0.0, 0.7, 2.4, 2.6, 6.0])
@pytest.mark.parametrize("distance", [-8.0, -0.4, 3.0])
def test_the_random_part_is_integrated_out(link, sd, distance):
    def integrand(z):
        return norm.pdf(z) * CDF[link](distance + sd * z)

    middle = [-distance / sd] if sd else [0.0]
    exact = (
        sum(
            quad(integrand, a, b, epsabs=1e-13, limit=300)[0]
            for a, b in zip([-9, *middle], [*middle, 9], strict=True)
            if abs(middle[0]) < 9
        )
        or quad(integrand, -9, 9, epsabs=1e-13, limit=300)[0]
    )
    found = chance_above(np.array([distance]), np.array([sd**2]), link)
    np.testing.assert_allclose(found, exact, atol=2e-8)


@pytest.mark.parametrize("link", LINKS)
def test_expected_scores_are_those_of_simulated_answers(link):
    rng = np.random.default_rng(4)
    categories = (2, 3, 4, 5)
    cuts = np.array([[-1.0, 0.3, 1.5]])
    latent, variance = np.array([[0.4, -1.1]]), np.array([[0.9, 2.0]])
    found = expected_score(latent, variance, link, categories, cuts[:, None, :])
    n = 400_000
    noise = rng.logistic(size=(n, 2)) if link == "logit" else rng.standard_normal((n, 2))
    y = latent + np.sqrt(variance) * rng.standard_normal((n, 2)) + noise
    scores = 2 + (y[..., None] > cuts[0]).sum(axis=-1)
    error = scores.std(axis=0) / np.sqrt(n)
    assert (np.abs(found[0] - scores.mean(axis=0)) < 4.5 * error).all()


@given(simplexes, st.floats(-5, 5), st.floats(0, 9), st.sampled_from(LINKS))
def test_expected_scores_stay_on_the_scale(p, latent, variance, link):
    categories = tuple(range(1, len(p) + 1))
    found = expected_score(
        np.array([[latent]]),
        np.array([[variance]]),
        link,
        categories,
        cutpoints_of(p, link)[None, None],
    )
    assert categories[0] <= found[0, 0] <= categories[-1]


def test_one_cell_a_time_is_the_same_as_all_at_once(monkeypatch):
    rng = np.random.default_rng(0)
    latent, cuts = rng.normal(size=(50, 3)), np.sort(rng.normal(size=(50, 1, 4)))
    whole = expected_score(latent, np.ones((50, 1)), "logit", (1, 2, 3, 4, 5), cuts)
    monkeypatch.setattr("bayesjudge.response._AT_ONCE", 7)
    parts = expected_score(latent, np.ones((50, 1)), "logit", (1, 2, 3, 4, 5), cuts)
    np.testing.assert_array_equal(parts, whole)


def test_categories_come_from_the_scale_unused_ones_too():
    score = np.array([2.0, 4.0])
    assert categories_of("cumulative", score, (1, 5)) == (1, 2, 3, 4, 5)
    assert categories_of("cumulative", score, None) == (2, 3, 4)
    assert categories_of("cumulative", np.array([-1.0, -1.0]), None) == (-1,)
    assert categories_of("bernoulli", np.zeros(3), None) == (0, 1)


@pytest.mark.parametrize(
    ("family", "score", "scale", "error", "message"),
    [
        ("bernoulli", [0, 1, 2], None, DataError, "1 score is not 0 or 1: 2"),
        ("bernoulli", [0.5, 0.25, 1], None, DataError, "2 scores are not 0 or 1: 0.25, 0.5"),
        ("cumulative", [1, 3.5], (1, 5), DataError, "1 score is no whole number: 3.5"),
        ("cumulative", [1, 7], (1, 5), DataError, "outside the scale: 7"),
        ("cumulative", [1, 2], (0.5, 5), ModelError, "does not end in whole numbers"),
        ("cumulative", [0, 101], None, ModelError, "102 categories"),
    ],
)
def test_scores_that_are_no_categories_are_refused(family, score, scale, error, message):
    with pytest.raises(error, match=message) as caught:
        categories_of(family, np.array(score, dtype=float), scale, "scores.csv")
    assert caught.value.remedy
