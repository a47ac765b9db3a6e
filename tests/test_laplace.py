"""The Laplace engine: its parts against derivatives, brute force and quadrature."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.special import expit, logsumexp, ndtr

import bayesjudge as bj
from bayesjudge.engines import laplace, load_engine
from bayesjudge.engines.cell_likelihoods import Categories, Verdicts, category_ends
from bayesjudge.engines.latent_blocks import LatentBlocks, lay_blocks
from bayesjudge.engines.latent_effects import leaf_effects
from bayesjudge.engines.latent_target import likelihood_of
from bayesjudge.engines.leaf_integrals import (
    gauss_hermite,
    log_integrals,
    mean_slopes,
)
from bayesjudge.engines.nested import Nested
from bayesjudge.engines.protocol import Draws, Settings
from bayesjudge.engines.surrogate import Surrogate, concave
from bayesjudge.engines.unbiased import Estimate, estimate, sobol_points
from bayesjudge.errors import ModelError
from bayesjudge.resolution import Resolved, resolve
from bayesjudge.response import cutpoints_from_stops
from bayesjudge.simulation import simulate_scores
from bayesjudge.spec import Prior, Thresholds, read_model
from tests.calibration.coverage import design

type Floats = NDArray[np.float64]

LINKS = ("logit", "probit")
STOPS = np.array([[-1.0, 0.3, -0.4]])


def laid(
    model: str,
    shape: dict[str, int],
    seed: int = 0,
    keep: float = 1.0,
    scale: tuple[float, float] | None = None,
    **changes: Any,
) -> Resolved:
    """Return a model on a table that is drawn from it, some of its rows left out."""
    spec = replace(read_model(model), **changes)
    scores = design(shape)
    rng = np.random.default_rng(seed)
    rows = np.flatnonzero(rng.random(len(scores)) < keep)
    facets = tuple(replace(f, codes=f.codes[rows]) for f in scores.facets)
    lowest = 0.0 if scale is None else scale[0]
    scores = replace(scores, score=np.full(rows.size, lowest), facets=facets, scale=scale)
    base = resolve(spec, scores)
    return replace(base, score=simulate_scores(base, rng)[0])


def nested_of(resolved: Resolved) -> tuple[LatentBlocks, Nested]:
    blocks = lay_blocks(resolved)
    assert isinstance(blocks, LatentBlocks)
    return blocks, Nested(blocks, likelihood_of(resolved, blocks))


# Likelihoods


def likelihoods(link: str) -> list[tuple[Verdicts | Categories, Floats | None]]:
    trials, successes = np.array([[3.0, 1.0], [2.0, 0.0]]), np.array([[1.0, 1.0], [2.0, 0.0]])
    category, count = np.array([[0, 3], [1, 2]]), np.array([[1.0, 2.0], [3.0, 0.0]])
    return [(Verdicts(trials, successes, link), None), (Categories(category, count, link), STOPS)]


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("which", [0, 1])
def test_slopes_are_derivatives_of_values(link: str, which: int) -> None:
    likelihood, stops = likelihoods(link)[which]
    eta, leaf = np.array([[[0.3, -1.2], [2.0, 0.7]]]), np.array([[[-0.5, 1.1], [0.2, -2.0]]])
    value, first, second, third = likelihood.slopes(eta, leaf, stops)
    np.testing.assert_allclose(value, likelihood.values(eta, leaf, stops), rtol=1e-12)
    step = 1e-4
    for j in range(2):
        move = np.zeros_like(eta)
        move[..., j] = step
        up, down = (likelihood.slopes(eta + s * move, leaf, stops) for s in (1, -1))
        for k, sign in ((0, 1.0), (1, -1.0), (2, -1.0)):
            here = (up[k] - down[k]) / (2 * step)
            if k:
                here = here[:, :, j]
            wanted = (first, second, third)[k][:, :, j]
            np.testing.assert_allclose(sign * here, wanted, atol=2e-6)


@pytest.mark.parametrize("link", LINKS)
def test_categories_are_differences_of_distribution_functions(link: str) -> None:
    cuts = cutpoints_from_stops(STOPS, link)[0]
    x = 0.4
    cdf = expit if link == "logit" else ndtr
    wanted = np.diff(np.concatenate([[0.0], cdf(cuts - x), [1.0]]))
    likelihood = Categories(np.arange(4)[:, None], np.ones((4, 1)), link)
    found = likelihood.values(np.full((1, 4, 1), 0.1), np.full((1, 4, 1), 0.3), STOPS)
    np.testing.assert_allclose(np.exp(found[0, :, 0]), wanted, rtol=1e-10)


def test_the_scale_of_two_categories_has_no_middle() -> None:
    lower, upper, share = category_ends(np.array([[0.0]]), "logit")
    np.testing.assert_allclose(lower, [[-np.inf, 0.0]])
    np.testing.assert_allclose(upper, [[0.0, np.inf]])
    np.testing.assert_allclose(share, 0.0)


@pytest.mark.parametrize("link", LINKS)
@given(far=st.floats(-1e4, 1e4), seed=st.integers(0, 5))
@settings(max_examples=40, deadline=None)
def test_no_predictor_is_too_far_out(link: str, far: float, seed: int) -> None:
    """Values are finite and at most zero, however extreme scales make predictors."""
    leaf = np.random.default_rng(seed).standard_normal((1, 2, 3))
    for likelihood, stops in likelihoods(link):
        value = likelihood.values(np.full((1, 2, 2), far), leaf, stops)
        assert (value <= 1e-9).all()
        if link == "logit":
            assert np.isfinite(value).all()


# Blocks


SMALL = {"backbone": 2, "scenario": 3, "judge": 2}
DEEP = {"backbone": 2, "scenario": 2, "judge": 2, "generation": 2}


@pytest.mark.parametrize(
    ("changes", "reason"),
    [({"thresholds": Thresholds("judge", Prior("half_normal", (0.5,)))}, "thresholds by judge")],
)
def test_what_has_no_blocks_is_named(changes: dict[str, Any], reason: str) -> None:
    assert lay_blocks(laid("ordinal", SMALL, scale=(1, 4), **changes)) == reason


def test_gaussian_and_other_models_have_no_blocks() -> None:
    resolved = resolve(read_model("crossed"), design({"backbone": 2, "scenario": 6, "judge": 2}))
    assert lay_blocks(resolved) == "family 'gaussian'"
    with pytest.raises(ModelError, match="does not fit family 'gaussian'"):
        laplace.sample(resolved, Settings())
    single = laid("ordinal", SMALL, scale=(1, 4))
    assert lay_blocks(replace(single, categories=(1,))) == "a single category"
    covariate = laid("verdict", SMALL)
    assert lay_blocks(replace(covariate, covariates=(object(),))) == "covariates"  # type: ignore[arg-type]


def test_terms_that_break_the_blocks_are_named() -> None:
    whole = laid("verdict", SMALL)
    terms = {t.name: t for t in whole.terms}
    scenario = terms["scenario"]
    centred = replace(scenario, centred=(True,))
    rest = tuple(t for t in whole.terms if t is not scenario)
    assert "sum to zero" in str(lay_blocks(replace(whole, terms=(*rest, centred))))
    panel = tuple(t for t in whole.terms if "scenario" not in t.dims)
    assert lay_blocks(replace(whole, terms=panel)) == "no scenarios"


def test_tables_past_the_limits_are_left(monkeypatch: pytest.MonkeyPatch) -> None:
    from bayesjudge.engines import latent_blocks

    table = laid("verdict", SMALL)
    for name, words in (
        ("_MOST_SHARED", "effects that scenarios share"),
        ("_MOST_OWN", "effects of one scenario"),
        ("_MOST_NUMBERS", "a table of this size"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(latent_blocks, name, 0)
            assert words in str(lay_blocks(table))


@given(n=st.integers(1, 7))
@settings(max_examples=7, deadline=None)
def test_contrasts_have_the_covariance_of_effects_that_sum_to_zero(n: int) -> None:
    from bayesjudge.engines.latent_blocks import _contrasts

    basis = _contrasts(n)
    np.testing.assert_allclose(basis.T @ basis, np.eye(n - 1), atol=1e-12)
    np.testing.assert_allclose(basis @ basis.T, np.eye(n) - 1.0 / n, atol=1e-12)


# The likelihood


CASES: list[tuple[str, dict[str, int], dict[str, Any]]] = [
    ("verdict", SMALL, {}),
    ("verdict", {"backbone": 2, "scenario": 3, "judge": 2, "generation": 2}, {"keep": 0.8}),
    ("verdict", SMALL, {"link": "probit"}),
    ("ordinal", SMALL, {"scale": (1, 4)}),
    ("ordinal", DEEP, {"scale": (1, 3), "link": "probit"}),
]


def prior_monte_carlo(resolved: Resolved, sd: Floats, stops: Floats | None, n: int) -> Floats:
    """Return likelihoods (n,) at effects drawn from their prior: the slow, readable twin."""
    rng = np.random.default_rng(5)
    rows = np.zeros((n, resolved.score.size))
    if resolved.spec.intercept is not None:
        rows += sd[-1] * rng.standard_normal((n, 1))
    place = 0
    for term in resolved.terms:
        width = max(len(term.by_labels), 1)
        own = sd[place : place + width]
        place += width
        z = rng.standard_normal((n, *term.shape))
        for axis, centred in enumerate(term.centred):
            if centred:
                z -= z.mean(axis=1 + axis, keepdims=True)
        by = np.zeros(term.n_levels, int) if term.by_codes is None else term.by_codes
        rows += (own[by] * z.reshape(n, -1))[:, term.codes]
    cdf = expit if resolved.spec.link == "logit" else ndtr
    if stops is None:
        chance = np.where(resolved.score == 1.0, cdf(rows), cdf(-rows))
        return np.prod(chance, axis=1)
    cuts = cutpoints_from_stops(stops, resolved.spec.link)
    ends = np.concatenate([[-np.inf], cuts, [np.inf]])
    k = (resolved.score - resolved.categories[0]).astype(int)
    return np.prod(cdf(ends[k + 1] - rows) - cdf(ends[k] - rows), axis=1)


@pytest.mark.parametrize(("model", "shape", "options"), CASES)
def test_estimates_are_without_bias(
    model: str, shape: dict[str, int], options: dict[str, Any]
) -> None:
    """Means of 600 estimates and of 100,000 prior draws differ by at most 4 standard errors."""
    resolved = laid(model, shape, seed=3, **options)
    _, nested = nested_of(resolved)
    rng = np.random.default_rng(1)
    n_sd = sum(max(len(t.by_labels), 1) for t in resolved.terms)
    sd = np.concatenate([rng.uniform(0.4, 1.5, n_sd), [1.0]])
    stops = (
        None if model == "verdict" else np.array([-0.5, 0.4, 0.2])[: len(resolved.categories) - 1]
    )
    twin = prior_monte_carlo(resolved, sd, stops, 100_000)
    n = 600
    rows = None if stops is None else np.repeat(stops[None], n, axis=0)
    at = nested.approximate(np.repeat(sd[None], n, axis=0), rows, nested.origin(n), to_mean=True)
    factor = np.diag(np.linspace(0.9, 1.1, nested.n_shared))
    found = estimate(nested, at, rows, rng, 4, np.full(nested.n_shared, 0.2), factor)
    log_twin = float(np.log(twin.mean()))
    ratio = np.exp(found.log_likelihood - log_twin)
    error = np.hypot(ratio.std() / np.sqrt(n), twin.std() / twin.mean() / np.sqrt(twin.size))
    assert abs(ratio.mean() - 1.0) < 4 * error + 1e-3
    # The normal approximation is near: within half a unit on so little data.
    assert abs(at.value[0] - log_twin) < 0.5
    # And the estimate varies little about it.
    assert found.log_likelihood.std() < 1.0


def test_laplaces_value_alone_would_be_caught() -> None:
    """On 180 verdicts it misses by many standard errors of the estimates that mend it."""
    resolved = laid("verdict", {"backbone": 3, "scenario": 30, "judge": 2}, seed=6)
    _, nested = nested_of(resolved)
    n_sd = sum(max(len(t.by_labels), 1) for t in resolved.terms)
    sd = np.repeat(np.append(np.full(n_sd, 1.5), 2.5)[None], 300, axis=0)
    at = nested.approximate(sd, None, nested.origin(300), to_mean=True)
    found = estimate(nested, at, None, np.random.default_rng(2), 8).log_likelihood
    ratio = np.exp(found - found.max())
    error = ratio.std() / ratio.mean() / np.sqrt(300)
    gap = np.log(ratio.mean()) + found.max() - at.value[0]
    assert abs(gap) > 10 * error


def test_one_estimate_without_effects_of_their_own_is_a_leafs_integral() -> None:
    """Scenarios with one term, a leaf, leave nothing but quadrature and the shared draw."""
    resolved = laid("verdict", {"backbone": 2, "scenario": 4, "judge": 1}, seed=2)
    resolved = replace(
        resolved, terms=tuple(t for t in resolved.terms if t.name in ("backbone", "scenario"))
    )
    blocks, nested = nested_of(resolved)
    assert blocks.leaf.name == "scenario"
    assert (blocks.own_term == -1).all()
    sd = np.array([[0.0, 1.3, 1e-9]])
    at = nested.approximate(sd, None, nested.origin(1), to_mean=True)
    found = estimate(nested, at, None, np.random.default_rng(0), 4).log_likelihood[0]
    nodes, weights = gauss_hermite(60)
    wanted = 0.0
    for s in range(4):
        y = resolved.score[blocks_scenario(resolved) == s]
        each = np.prod(expit(1.3 * nodes[:, None] * (2 * y - 1)), axis=1)
        wanted += np.log(np.sum(np.exp(weights - 0.5 * nodes**2) * each))
    assert found == pytest.approx(wanted, abs=1e-4)


def blocks_scenario(resolved: Resolved) -> NDArray[np.int64]:
    return next(t for t in resolved.terms if t.name == "scenario").codes


def test_a_hessian_of_missed_leaves_is_made_definite() -> None:
    """Newton gets to the mode from nodes that lie nowhere near their leaves."""
    resolved = laid("ordinal", DEEP, seed=4, scale=(1, 3))
    _, nested = nested_of(resolved)
    n_sd = sum(max(len(t.by_labels), 1) for t in resolved.terms)
    sd, stops = np.full((1, n_sd + 1), 2.5), np.array([[-0.5, 0.4]])
    origin = nested.origin(1)
    far = replace(origin, center=origin.center + 6.0, spread=origin.spread * 0.1)
    one = nested.approximate(sd, stops, origin, near=1e-8)
    two = nested.approximate(sd, stops, far, near=1e-8)
    assert one.value[0] == pytest.approx(two.value[0], abs=0.02)


def test_mean_slopes_are_derivatives_of_integrals() -> None:
    """Differences of integrals about the same leaf, to the error of few nodes."""
    for likelihood, stops in likelihoods("logit"):
        cell, leaf_sd = np.array([[[0.3, -1.2], [2.0, 0.7]]]), np.array([[0.5, 0.8]])
        center, spread = np.zeros((1, 2)), np.full((1, 2), 0.9)
        slopes = mean_slopes(likelihood, cell, leaf_sd, center, spread, stops)
        step = 1e-4
        for j in range(2):
            move = np.zeros_like(cell)
            move[..., j] = step
            up, down = (
                log_integrals(likelihood, cell + s * move, leaf_sd, center, spread, stops)
                for s in (1, -1)
            )
            np.testing.assert_allclose(slopes[..., j], (up - down) / (2 * step), atol=5e-3)


@given(n=st.integers(1, 16), width=st.integers(1, 20))
@settings(max_examples=20, deadline=None)
def test_sobols_points_are_as_many_as_asked_for(n: int, width: int) -> None:
    points = sobol_points(n, width)
    assert points.shape == (n, width)
    assert ((points >= 0) & (points < 1)).all()


# Leaves' effects


def test_leaf_effects_have_their_conditional_density() -> None:
    resolved = laid("verdict", DEEP, seed=1)
    blocks, nested = nested_of(resolved)
    n, size = 4000, blocks.own.shape[0] * blocks.own.shape[1]
    n_sd = sum(max(len(t.by_labels), 1) for t in resolved.terms)
    sd = np.full((n, n_sd + 1), 1.5)
    leaves = (n, len(blocks.leaf_level))
    drawn = Estimate(
        np.zeros(n),
        np.zeros((n, blocks.shared.shape[1])),
        None,
        np.zeros((n, blocks.shared.shape[1])),
        np.zeros((n, *blocks.own.shape[::2])),
        np.zeros(leaves),
        np.ones(leaves),
        np.full((n, size), 0.5),
    )
    found = leaf_effects(nested, blocks, sd, None, drawn, np.random.default_rng(0))
    grid = np.linspace(-8, 8, 4001)
    for leaf in range(2):
        k, m = blocks.successes[leaf].sum(), blocks.count[leaf].sum()  # type: ignore[index]
        x = 0.5 + 1.5 * grid
        log_density = k * np.log(expit(x)) + (m - k) * np.log(expit(-x)) - 0.5 * grid**2
        density = np.exp(log_density - logsumexp(log_density))
        mean = density @ grid
        sd_of = np.sqrt(density @ (grid - mean) ** 2)
        # Four standard errors of 4,000 draws.
        assert abs(found[:, leaf].mean() - mean) < 4 * sd_of / np.sqrt(n)
        assert abs(found[:, leaf].std() / sd_of - 1) < 4 / np.sqrt(2 * n)


# The surrogate


@given(seed=st.integers(0, 20))
@settings(max_examples=10, deadline=None)
def test_a_surrogate_learns_what_it_lacks(seed: int) -> None:
    rng = np.random.default_rng(seed)
    d = 4
    surrogate = Surrogate(
        np.arange(d), np.full(d, 0.02), np.zeros(d), np.zeros(d), np.eye(d), np.ones(d), np.zeros(0)
    )
    slope, bend = rng.standard_normal(d), rng.uniform(0.1, 0.5, d)

    def truth(sd: Floats) -> Floats:
        t = surrogate.natural(sd, None)
        return np.asarray(surrogate.values(sd, None) + 5.0 + t @ slope - (t**2) @ bend)

    seen = np.exp(rng.standard_normal((200, d)))
    laplace = truth(seen) + 3.0 - 0.3 * surrogate.natural(seen, None)[:, 0]
    told = truth(seen) + 0.1 * rng.standard_normal(200)
    told[:4] -= 20.0
    taught = surrogate.taught(seen, None, laplace, told, np.zeros(200))
    new = np.exp(0.7 * rng.standard_normal((100, d)))
    before, after = (np.std(truth(new) - s.values(new, None)) for s in (surrogate, taught))
    assert after < 0.15 * before


def test_a_matrix_is_made_concave() -> None:
    values = np.linalg.eigvalsh(concave(np.array([[1.0, 2.0], [2.0, 1.0]])))
    np.testing.assert_allclose(values, [1e-2, 3.0])


# The engine


@pytest.fixture(scope="module")
def verdicts() -> Resolved:
    return laid("verdict", {"backbone": 3, "scenario": 6, "judge": 2}, seed=9)


def test_verdicts_are_drawn_by_weights(verdicts: Resolved) -> None:
    assert load_engine("laplace") is laplace.sample
    asked = Settings(draws=250, random_seed=1, nested_effects=True)
    draws = laplace.sample(verdicts, asked)
    assert draws.method == "importance"
    assert draws.pareto_k is not None
    assert draws.pareto_k <= 0.7
    assert draws.weighted_ess is not None
    assert draws.weighted_ess >= 400
    assert draws.notes == ()
    assert draws.intercept.shape == (4, 250)
    for term in verdicts.terms:
        effect = draws.effects[term.variable]
        assert effect.shape == (4, 250, *term.shape)
        for axis, centred in enumerate(term.centred):
            if centred:
                np.testing.assert_allclose(effect.sum(axis=2 + axis), 0.0, atol=1e-9)
    again = laplace.sample(verdicts, asked)
    np.testing.assert_array_equal(draws.intercept, again.intercept)


def test_categories_go_from_fit_to_a_leaderboard() -> None:
    resolved = laid("ordinal", DEEP | {"scenario": 5}, seed=3, scale=(1, 4))
    scores = replace(design(DEEP | {"scenario": 5}), score=resolved.score, scale=(1.0, 4.0))
    fit = bj.fit(scores, "ordinal", "laplace", draws=250, random_seed=2)
    assert fit.metadata["engine"] == "laplace"
    assert fit.convergence.converged
    assert fit.convergence.r_hat_max is None
    board = fit.leaderboard()
    assert board["mean"].between(1, 4).all()
    cuts = fit.posterior["posterior"]["cutpoints"].to_numpy()
    assert (np.diff(cuts, axis=-1) > 0).all()


def test_what_it_does_not_take_goes_to_nuts_with_a_note(
    verdicts: Resolved, monkeypatch: pytest.MonkeyPatch
) -> None:
    from bayesjudge.engines import families

    blank = Draws({}, {}, np.zeros((1, 1)), {})
    monkeypatch.setattr(families, "sample_family", lambda *_: blank)
    by_judge = laid(
        "ordinal", SMALL, scale=(1, 4), thresholds=Thresholds("judge", Prior("half_normal", (0.5,)))
    )
    note = laplace.sample(by_judge, Settings()).notes[0]
    assert note == "the laplace engine left this fit to NUTS: it does not take thresholds by judge"
    with monkeypatch.context() as patch:
        patch.setattr(laplace, "PARETO_K_LIMIT", -1.0)
        patch.setattr(laplace, "_MOST", 1)
        note = laplace.sample(verdicts, Settings(draws=4)).notes[0]
    assert "weights did not fit (Pareto k" in note

    def fail(*_: object) -> None:
        raise np.linalg.LinAlgError

    monkeypatch.setattr(laplace, "settle_latent", fail)
    assert "no normal density" in laplace.sample(verdicts, Settings()).notes[0]


@pytest.mark.parametrize("answer", [0.0, 1.0])
def test_one_answer_throughout_is_fitted(answer: float) -> None:
    """The prior's share of the posterior is large; weights still fit."""
    resolved = laid("verdict", {"backbone": 3, "scenario": 10, "judge": 2}, seed=9)
    resolved = replace(resolved, score=np.full(resolved.score.size, answer))
    draws = laplace.sample(resolved, Settings(draws=250, random_seed=0))
    assert draws.method == "importance"
    chance = expit(draws.intercept)
    assert (np.abs(chance - answer).mean()) < 0.1
