"""The Laplace engine's tables of leaves' integrals, and its draws of shared effects."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.special import logsumexp

from bayesjudge.engines.cell_likelihoods import Categories, Verdicts
from bayesjudge.engines.leaf_tables import LeafCurves, leaf_curves
from bayesjudge.engines.unbiased import estimate, learned_draws
from tests.test_laplace import DEEP, LINKS, SMALL, STOPS, laid, nested_of

type Floats = NDArray[np.float64]

# Tables of leaves' integrals


def curves_of(likelihood: Verdicts | Categories, n: int) -> LeafCurves:
    """Return curves of which each of n leaves has its own."""
    every = np.repeat(np.arange(n), GRID)
    if isinstance(likelihood, Verdicts):
        wide: Verdicts | Categories = Verdicts(
            likelihood.trials[every], likelihood.successes[every], likelihood.link
        )
    else:
        wide = Categories(likelihood.category[every], likelihood.count[every], likelihood.link)
    return LeafCurves(np.arange(n), np.arange(n), wide)


GRID = 241


def by_many_nodes(
    likelihood: Verdicts | Categories, cell: Floats, leaf_sd: Floats, stops: Floats | None
) -> Floats:
    """Return integrals' logarithms by a sum over 4,001 even nodes: the slow, readable twin."""
    nodes = np.linspace(-20.0, 20.0, 4001)
    g = leaf_sd[..., None] * nodes
    log_f = likelihood.values(cell[..., None], g, stops) - 0.5 * nodes**2
    return np.asarray(
        logsumexp(log_f, axis=-1) + np.log((nodes[1] - nodes[0]) / np.sqrt(2 * np.pi))
    )


@pytest.mark.parametrize("link", LINKS)
@given(sd=st.floats(0.0, 3.0), eta=st.floats(-12.0, 12.0), seed=st.integers(0, 9))
@settings(max_examples=12, deadline=None)
def test_tables_of_leaves_are_their_integrals(link: str, sd: float, eta: float, seed: int) -> None:
    """To 2e-5, slopes to 1e-4: far below what M draws of an estimate vary by."""
    counts = np.array([[3.0], [1.0], [2.0]]), np.array([[0.0], [1.0], [1.0]])
    categories = Categories(np.array([[0], [3], [1]]), np.array([[1.0], [2.0], [3.0]]), link)
    rng = np.random.default_rng(seed)
    cell = eta + rng.standard_normal((1, 3))
    leaf_sd = np.array([[sd, 0.5 * sd, 0.1]])
    for likelihood, stops in ((Verdicts(*counts, link), None), (categories, STOPS)):
        tables = curves_of(likelihood, 3).tables(leaf_sd, stops)
        twin = by_many_nodes(likelihood, cell, leaf_sd, stops)
        np.testing.assert_allclose(tables.log_integrals(0, cell), twin, atol=2e-5)
        found = tables.leaves(cell)
        np.testing.assert_allclose(found.log_value, twin.sum(axis=1), atol=6e-5)
        step = 1e-3
        up, down = (
            by_many_nodes(likelihood, cell + move, leaf_sd, stops) for move in (step, -step)
        )
        np.testing.assert_allclose(found.slope[..., 0], (up - down) / (2 * step), atol=1e-4)
        np.testing.assert_allclose(tables.slopes(0, cell), found.slope[..., 0], atol=1e-4)
        np.testing.assert_allclose(
            found.curved[..., 0], (2 * twin - up - down) / step**2, atol=2e-3
        )


def test_tables_go_straight_on_beyond_their_grid() -> None:
    likelihood = Verdicts(np.array([[3.0]]), np.array([[1.0]]), "logit")
    tables = curves_of(likelihood, 1).tables(np.array([[0.5]]), None)
    cell = np.array([[-60.0], [-55.0], [55.0], [60.0]])
    twin = np.array([by_many_nodes(likelihood, c[None], np.array([[0.5]]), None)[0] for c in cell])
    np.testing.assert_allclose(tables.log_integrals(0, cell), twin, atol=1e-6)
    assert tables.leaves(cell[:1]).log_value[0] == pytest.approx(twin[0, 0], abs=1e-6)


def test_few_leaves_or_several_observations_have_no_tables() -> None:
    blocks, _ = nested_of(laid("verdict", SMALL))
    assert leaf_curves(blocks, "logit") is None
    deep, _ = nested_of(laid("verdict", DEEP))
    assert leaf_curves(deep, "logit") is None
    assert leaf_curves(replace(blocks, successes=None), "logit") is None


@pytest.mark.parametrize("link", LINKS)
def test_estimates_by_tables_are_those_by_nodes(link: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same draws: estimates, slopes and effects differ by the error of few nodes."""
    from bayesjudge.engines import leaf_tables

    resolved = laid("verdict", {"backbone": 3, "scenario": 8, "generation": 2}, seed=5, link=link)
    blocks, plain = nested_of(resolved)
    monkeypatch.setattr(leaf_tables, "_WORTH", 1e9)
    _, tabulated = nested_of(resolved)
    assert plain.curves is None
    assert tabulated.curves is not None
    assert tabulated.curves.curve.size == len(blocks.leaf_level)
    n_sd = sum(max(len(t.by_labels), 1) for t in resolved.terms)
    sd = np.append(np.linspace(0.4, 1.2, n_sd), 1.0)[None]
    found = []
    for nested in (plain, tabulated):
        at = nested.approximate(sd, None, nested.origin(1), near=1e-9, to_mean=True)
        one = estimate(nested, at, None, np.random.default_rng(3), 8, sloped=True)
        assert one.slope is not None
        parts = [at.value, one.log_likelihood, one.slope[0], one.shared[0], one.own.ravel()]
        found.append(np.concatenate(parts))
    np.testing.assert_allclose(found[0], found[1], atol=0.02)


# Shared effects


def test_slopes_of_shared_effects_are_those_of_exact_weights() -> None:
    """Scenarios of one term, a leaf: no draw is in the weights, and differences tell."""
    resolved = laid("verdict", {"backbone": 2, "scenario": 9, "judge": 1}, seed=2)
    resolved = replace(
        resolved, terms=tuple(t for t in resolved.terms if t.name in ("backbone", "scenario"))
    )
    _, nested = nested_of(resolved)
    sd = np.array([[0.8, 1.3, 1.0]])
    at = nested.approximate(sd, None, nested.origin(1), to_mean=True)
    step, mean = 1e-4, np.array([0.3, -0.5])

    def weight(unit: Floats) -> float:
        one = estimate(nested, at, None, np.random.default_rng(0), 2, unit, still=True)
        return float(one.log_likelihood[0] + 0.5 * unit @ unit)

    found = estimate(
        nested, at, None, np.random.default_rng(0), 2, mean, still=True, sloped=True
    ).slope
    assert found is not None
    for i, move in enumerate(step * np.eye(2)):
        difference = (weight(mean + move) - weight(mean - move)) / (2 * step)
        assert found[0, i] == pytest.approx(difference, abs=5e-3)


@given(seed=st.integers(0, 30))
@settings(max_examples=10, deadline=None)
def test_draws_of_shared_effects_are_learned_from_slopes(seed: int) -> None:
    """Of a normal density they have its mean at any scales, and its covariance."""
    rng = np.random.default_rng(seed)
    g, d, n = 3, 2, 400
    natural, unit = rng.standard_normal((n, d)) * 0.3 + 1.0, rng.standard_normal((n, g))
    precision = np.eye(g) + np.diag([0.5, 0.0, -0.2])
    rise, level = 0.4 * rng.standard_normal((d, g)), 0.5 * rng.standard_normal(g)
    # Of density N(mean, 1 / precision) over N(0, 1).
    mean = level + (natural - 1.0) @ rise
    slope = (mean - unit) @ precision + unit + 0.02 * rng.standard_normal((n, g))
    found = learned_draws(natural, unit, slope)
    at = np.array([[1.0, 1.0], [1.3, 0.8]])
    np.testing.assert_allclose(found.means(at), level + (at - 1.0) @ rise, atol=0.15)
    covariance = found.factor @ found.factor.T
    np.testing.assert_allclose(covariance, np.linalg.inv(precision), atol=0.15)
