"""Importance draws: proposals, Pareto smoothing, effective sizes."""

from __future__ import annotations

import numpy as np
import pytest
from arviz_stats import base
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from bayesjudge.engines.importance import (
    _KNOTS,
    _quantiles,
    adapt,
    curves_through,
    first_proposal,
    fit_generalized_pareto,
    kish_ess,
    pareto_smooth,
    resample,
    weighted_ess,
)
from bayesjudge.engines.log_products import log_of_product


def some_proposal(seed, d=3):
    rng = np.random.default_rng(seed)
    root = rng.standard_normal((d, d))
    proposal = first_proposal(rng.standard_normal(d), root @ root.T + np.eye(d))
    heights = np.sort(rng.standard_normal((7, d)) * 2, axis=0)
    heights += np.arange(7)[:, None] * 0.05
    return type(proposal)(rng.normal(0, 0.3, d), proposal.factor, curves_through(heights))


@given(st.integers(0, 500))
def test_curves_are_monotone_and_straightened_again(seed):
    curves = some_proposal(seed).curves
    z = np.random.default_rng(seed).normal(0, 2.5, (40, 3))
    y, rising = curves.bend(z)
    again, log_slope = curves.straighten(y)
    np.testing.assert_allclose(rising, -log_slope, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(again, z, rtol=1e-6, atol=1e-6)
    step = 1e-6
    up, down = curves.straighten(y + step)[0], curves.straighten(y - step)[0]
    slopes = np.log((up - down) / (2 * step)).sum(axis=1)
    # The derivative jumps where curves meet, and differences straddle it there.
    assert np.median(np.abs(slopes - log_slope)) < 1e-5
    grid = np.linspace(-6, 6, 200)[:, None] * np.ones((1, 3))
    assert (np.diff(curves.bend(grid)[0], axis=0) > 0).all()


def test_a_proposal_has_the_density_of_its_draws():
    proposal = some_proposal(1, d=2)
    y = proposal.draw(np.random.default_rng(0), 200_000)
    edges = np.quantile(y[:, 0], [0.1, 0.3, 0.5, 0.7, 0.9])
    grid = np.array(
        np.meshgrid(
            *[np.linspace(*np.quantile(y[:, i], [1e-4, 1 - 1e-4]), 400) for i in range(2)],
            indexing="ij",
        )
    )
    cell = np.prod([g[1] - g[0] for g in (grid[0][:, 0], grid[1][0])])
    density = np.exp(proposal.log_density(grid.reshape(2, -1).T)).reshape(400, 400) * cell
    assert density.sum() == pytest.approx(1.0, abs=0.02)
    mass = density.sum(axis=1)
    for edge, share in zip(edges, [0.1, 0.3, 0.5, 0.7, 0.9], strict=True):
        assert mass[grid[0][:, 0] < edge].sum() == pytest.approx(share, abs=0.02)


def test_draws_bring_their_log_density_along():
    proposal = some_proposal(3, d=11)
    y, known = proposal.draw_known(np.random.default_rng(1), 900)
    np.testing.assert_allclose(known, proposal.log_density(y), rtol=1e-8, atol=1e-8)
    np.testing.assert_array_equal(y, proposal.draw(np.random.default_rng(1), 900))


def test_few_logarithms_give_the_log_of_a_product():
    factors = np.exp(np.random.default_rng(0).normal(0, 20, (5, 21)))
    expected = np.log(factors).sum(axis=1)
    np.testing.assert_allclose(log_of_product(factors, -1), expected, rtol=1e-12)
    np.testing.assert_allclose(log_of_product(factors.T, 0), expected, rtol=1e-12)


def test_quantiles_are_those_of_sorted_draws():
    rng = np.random.default_rng(5)
    y = np.column_stack([rng.standard_normal(3000), rng.standard_t(3, 3000)])
    weight = rng.dirichlet(np.full(3000, 0.5))
    found = _quantiles(y, weight)
    for column, ours in zip(y.T, found.T, strict=True):
        order = np.argsort(column)
        cumulative = np.cumsum(weight[order]) - 0.5 * weight[order]
        sorted_ones = np.interp(stats.norm.cdf(_KNOTS), cumulative, column[order])
        # A bin is a two thousandth of the range; heavy draws lie apart from their neighbours.
        np.testing.assert_allclose(ours, sorted_ones, atol=np.ptp(column) / 400)


def test_adapting_finds_a_bent_and_shifted_density():
    mean, sd = np.array([1.0, -2.0, 0.5, 0.0]), np.array([0.3, 2.0, 1.0, 1.0])

    def target(y):
        # Skewed first coordinate, long tail of an exponential in the last, one correlation.
        first = stats.gumbel_l.logpdf((y[:, 0] - mean[0]) / sd[0])
        second = stats.norm.logpdf((y[:, 1] - mean[1] - 1.5 * y[:, 0]) / sd[1])
        third = stats.norm.logpdf((y[:, 2] - mean[2]) / sd[2])
        return first + second + third + y[:, 3] - np.exp(2 * y[:, 3]) / 2

    rng = np.random.default_rng(0)
    start = first_proposal(np.zeros(4), np.eye(4))
    found = adapt(rng, target, start, np.zeros(4, int), 2000, (3, 10))
    y = found.draw(rng, 20_000)
    log_weight, k = pareto_smooth(target(y) - found.log_density(y))
    assert k < 0.5
    assert kish_ess(log_weight) > 8000
    weight = np.exp(log_weight)
    center = mean[0] - np.euler_gamma * sd[0]
    assert weight @ y[:, 0] == pytest.approx(center, abs=0.02)
    assert weight @ np.exp(y[:, 3]) == pytest.approx(np.sqrt(2 / np.pi), abs=0.02)
    begun = start.draw(rng, 20_000)
    poor, _ = pareto_smooth(target(begun) - start.log_density(begun))
    assert kish_ess(log_weight) > 3 * kish_ess(poor)


def test_adapting_stops_when_nothing_is_gained():
    calls = []

    def target(y):
        calls.append(len(y))
        return stats.norm.logpdf(y).sum(axis=1)

    start = first_proposal(np.zeros(2), np.eye(2))
    adapt(np.random.default_rng(0), target, start, np.zeros(2, int), 1000, (3, 10))
    assert 4 <= len(calls) < 10
    calls.clear()
    adapt(np.random.default_rng(0), target, start, np.zeros(2, int), 1000, (3, 10), enough=0.5)
    assert calls == [1000, 1000]


# Pareto smoothing, against ArviZ


@pytest.mark.parametrize("tail", [0.1, 0.5, 0.9])
def test_smoothed_weights_are_those_of_arviz(tail):
    rng = np.random.default_rng(4)
    log_ratio = np.log1p(stats.genpareto(tail).rvs(5000, random_state=rng))
    ours, k = pareto_smooth(log_ratio)
    theirs, expected = vars(base)["array_stats"].psislw(-log_ratio)
    assert k == pytest.approx(float(expected), rel=1e-6)
    theirs = theirs - np.logaddexp.reduce(theirs)
    np.testing.assert_allclose(ours, theirs, atol=1e-6)


def test_weights_without_a_tail():
    log_weight, k = pareto_smooth(np.zeros(1000))
    np.testing.assert_allclose(np.exp(log_weight), 1 / 1000)
    assert k == np.inf
    dead = np.full(1000, -np.inf)
    dead[:300] = np.random.default_rng(0).normal(size=300)
    log_weight, k = pareto_smooth(dead)
    assert np.isfinite(k)
    assert (np.exp(log_weight[300:]) == 0).all()
    assert np.exp(log_weight).sum() == pytest.approx(1)


@pytest.mark.parametrize("k", [-0.3, 0.2, 0.8])
def test_the_shape_of_a_tail_is_found(k):
    draws = np.sort(stats.genpareto(k, scale=2.0).rvs(20_000, random_state=1))
    shape, scale = fit_generalized_pareto(draws)
    assert shape == pytest.approx(k, abs=0.05)
    assert scale == pytest.approx(2.0, rel=0.1)


def test_effective_sizes():
    equal = np.full(100, -np.log(100))
    assert kish_ess(equal) == pytest.approx(100)
    values = np.random.default_rng(0).standard_normal((100, 2))
    assert weighted_ess(equal, values, 100) == pytest.approx(100)
    # A column that is large where the weights are is known less well.
    rng = np.random.default_rng(1)
    y = rng.standard_normal((5000, 1)) * 0.6
    log_weight = stats.norm.logpdf(y[:, 0]) - stats.norm(0, 0.6).logpdf(y[:, 0])
    log_weight -= np.logaddexp.reduce(log_weight)
    assert weighted_ess(log_weight, y, 10**7) < 0.7 * kish_ess(log_weight)
    assert weighted_ess(equal, np.ones((100, 1)), 100) == pytest.approx(100)


def test_the_effective_size_counts_what_resampling_adds():
    rng = np.random.default_rng(2)
    y = rng.standard_normal((3000, 1)) * 1.4
    log_weight = stats.norm.logpdf(y[:, 0]) - stats.norm(0, 1.4).logpdf(y[:, 0])
    log_weight -= np.logaddexp.reduce(log_weight)
    mean = np.exp(log_weight) @ y[:, 0]
    spread = np.exp(log_weight) @ (y[:, 0] - mean) ** 2
    for n in (500, 2000):
        means = [y[resample(rng, log_weight, n), 0].mean() for _ in range(3000)]
        added = spread / weighted_ess(log_weight, y, n) - spread / weighted_ess(
            log_weight, y, 10**9
        )
        # Neighbours in the systematic order share their rounding, which can only help.
        assert np.var(means) < 1.1 * added
        assert weighted_ess(log_weight, y, n) < weighted_ess(log_weight, y, 10**9)


def test_the_effective_size_bears_draws_of_no_weight_that_cannot_be_squared():
    rng = np.random.default_rng(4)
    y = rng.standard_normal((100, 1))
    log_weight = np.full(101, -np.log(100))
    log_weight[-1] = -np.inf
    found = weighted_ess(log_weight, np.vstack([y, [[1e300]]]), 50)
    assert found == weighted_ess(log_weight[:-1], y, 50)


def test_the_effective_size_is_that_of_spreads_too():
    """A proposal that is short of a tail: means over repetitions spread less than spreads do."""
    rng = np.random.default_rng(3)
    n, means, spreads, claimed = 4000, [], [], []
    for _ in range(1500):
        y = rng.standard_normal((n, 1)) * 0.9
        log_weight = stats.norm.logpdf(y[:, 0]) - stats.norm(0, 0.9).logpdf(y[:, 0])
        log_weight -= np.logaddexp.reduce(log_weight)
        weight = np.exp(log_weight)
        means.append(weight @ y[:, 0])
        spreads.append(weight @ (y[:, 0] - means[-1]) ** 2)
        claimed.append(weighted_ess(log_weight, y, 10**9))
    of_mean, of_spread = 1 / np.var(means), 2 / np.var(spreads)
    assert of_spread < 0.8 * of_mean
    # Heavy weights that were not drawn are not counted: what is claimed is somewhat large.
    assert 0.9 * of_spread < np.median(claimed) < 1.2 * of_spread
    assert np.median(claimed) < 0.9 * of_mean


@given(st.integers(0, 200), st.integers(1, 500))
def test_rows_are_drawn_by_their_weights(seed, n):
    rng = np.random.default_rng(seed)
    weight = rng.dirichlet(np.ones(20))
    rows = resample(rng, np.log(weight), n)
    counts = np.bincount(rows, minlength=20)
    assert counts.sum() == n
    # Systematic: each count is its expectation rounded up or down.
    assert (np.abs(counts - n * weight) <= 1 + 1e-9).all()
