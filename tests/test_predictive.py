"""Densities and new scores given all effects; predictions of fits."""

from __future__ import annotations

from dataclasses import replace

import arviz_stats
import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpyro import handlers
from scipy import stats

import bayesjudge as bj
from bayesjudge.densities import Parameters, log_densities, predictors, replicated_scores
from bayesjudge.engines import numpyro as in_numpyro
from bayesjudge.engines.coordinates import scale_sites
from bayesjudge.errors import ModelError, UsageError
from bayesjudge.predicting import prior_predictive, usual_draws
from bayesjudge.resolution import resolve
from bayesjudge.response import cutpoints_from_stops, spaced_cutpoints
from bayesjudge.simulation import simulate, simulate_scores
from bayesjudge.spec import Covariate, Prior, Thresholds, read_model
from bayesjudge.stored import thinned
from tests.dense_twin import COMMON, dense_covariance, frame_of

BY_JUDGE = Thresholds("judge", Prior("half_normal", (0.5,)))
SLOPE = (Covariate("nll", Prior("normal", (1.0,))),)
SIZES = {"backbones": 3, "scenarios": 5, "judges": 3, "generations": 2, "random_seed": 2}
SPECS = {
    "gaussian": replace(read_model("crossed"), covariates=SLOPE),
    "gaussian, one scale": COMMON,
    "student t": read_model("robust"),
    "verdicts": read_model("verdict"),
    "verdicts by probit": replace(read_model("verdict"), link="probit", covariates=SLOPE),
    "categories": read_model("ordinal"),
    "categories by judge": replace(read_model("ordinal"), thresholds=BY_JUDGE),
    "categories by probit": replace(read_model("ordinal"), link="probit"),
}


def resolved_of(spec, **sizes):
    scale = {"scale": (2, 6)} if spec.family == "cumulative" else {}
    table = simulate(spec, **{**SIZES, **sizes}, **scale).table
    scores = bj.read_scores(table, covariates=[c.column for c in spec.covariates], **scale)
    return resolve(spec, scores)


def random_parameters(resolved, n, seed=0, width=1.0):
    rng = np.random.default_rng(seed)
    latent = resolved.spec.is_latent
    cutpoints = None
    if resolved.spec.family == "cumulative":
        levels = 1 if resolved.thresholds is None else len(resolved.thresholds.labels)
        shape = (n, levels, len(resolved.categories) - 1)
        cutpoints = np.sort(rng.normal(0, 1.5, shape), axis=-1)
    by = max(len(resolved.residual_labels), 1)
    return Parameters(
        intercept=rng.normal(0 if latent else 7, 1, n),
        effects={t.variable: rng.normal(0, width, (n, t.n_levels)) for t in resolved.terms},
        slopes={c.name: rng.normal(0, 1, n) for c in resolved.covariates},
        sigma=None if latent else rng.lognormal(0, 0.4, (n, by)),
        degrees=rng.gamma(4, 1, n) + 1 if resolved.spec.family == "student_t" else None,
        cutpoints=cutpoints,
    )


def by_hand(resolved, given, draw, row):
    """The log density of one score by scipy, term by term."""
    eta = given.intercept[draw]
    for term in resolved.terms:
        eta += given.effects[term.variable][draw, term.codes[row]]
    for covariate in resolved.covariates:
        eta += given.slopes[covariate.name][draw] * covariate.values[row]
    y, family = resolved.score[row], resolved.spec.family
    error = stats.logistic if resolved.spec.link == "logit" else stats.norm
    if family == "bernoulli":
        return error.logcdf(eta) if y == 1 else error.logsf(eta)
    if family == "cumulative":
        level = 0 if resolved.thresholds is None else resolved.thresholds.codes[row]
        cuts = np.concatenate([[-np.inf], given.cutpoints[draw, level], [np.inf]])
        k = int(y) - resolved.categories[0]
        lower, upper = cuts[k] - eta, cuts[k + 1] - eta
        if lower > 0:
            lower, upper = -upper, -lower
        return np.log(error.cdf(upper) - error.cdf(lower))
    by = 0 if resolved.residual_by is None else resolved.residual_by[row]
    sigma = given.sigma[draw, by]
    if family == "student_t":
        return stats.t.logpdf(y, given.degrees[draw], eta, sigma)
    return stats.norm.logpdf(y, eta, sigma)


@pytest.mark.parametrize("name", SPECS)
def test_log_densities_are_scipys(name):
    resolved = resolved_of(SPECS[name])
    given = random_parameters(resolved, 4)
    found = log_densities(resolved, given)
    assert found.shape == (4, resolved.score.size)
    expected = [[by_hand(resolved, given, d, i) for i in range(found.shape[1])] for d in range(4)]
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
    # Some rows, some draws: the same numbers.
    rows, some = slice(7, 29), slice(1, 3)
    np.testing.assert_array_equal(
        log_densities(resolved, given.some(some), rows), found[some, rows]
    )


@pytest.mark.parametrize("name", [n for n in SPECS if "by probit" in n or n == "categories"])
def test_far_out_in_the_tails_log_densities_are_numbers(name):
    resolved = resolved_of(SPECS[name])
    given = random_parameters(resolved, 3, width=15.0)
    found = log_densities(resolved, given)
    assert np.isfinite(found).all()
    assert found.min() < -50
    assert (found <= 0).all()


@pytest.mark.parametrize("link", ["logit", "probit"])
@settings(max_examples=25)
@given(st.integers(0, 2**32 - 1), st.floats(0.01, 12.0))
def test_probabilities_of_all_categories_sum_to_one(link, seed, width):
    spec = replace(read_model("ordinal"), link=link, thresholds=BY_JUDGE)
    resolved = ORDINAL[link]
    given = random_parameters(resolved, 2, seed, width)
    total = sum(
        np.exp(log_densities(replace(resolved, spec=spec, score=np.full(90, float(k))), given))
        for k in resolved.categories
    )
    np.testing.assert_allclose(total, 1.0, rtol=1e-8)


ORDINAL = {
    link: resolved_of(replace(read_model("ordinal"), link=link, thresholds=BY_JUDGE))
    for link in ("logit", "probit")
}


@pytest.mark.parametrize("name", ["gaussian, one scale", "categories by judge"])
def test_log_likelihood_is_what_numpyro_makes_of_the_same_draw(name):
    """The site of the scores in the engine's own program, at parameters that it drew."""
    spec = SPECS[name]
    kept = ("backbone", "judge", "backbone:scenario")
    spec = replace(spec, terms=tuple(t for t in spec.terms if t.name in kept))
    resolved = resolved_of(spec, generations=1)
    if spec.family == "gaussian":
        model = in_numpyro.effects_model
        arguments = (scale_sites(resolved), resolved.terms, resolved)
    else:
        model = in_numpyro.family_model
        arguments = (resolved, in_numpyro.lay_out(resolved))
    with jax.enable_x64(True):
        trace = handlers.trace(handlers.seed(model, 5)).get_trace(*arguments)
        scores = trace["scores"]
        theirs = float(np.sum(scores["fn"].log_prob(scores["value"])))
    drawn = {n: np.asarray(site["value"])[None] for n, site in trace.items()}
    cutpoints = None
    if "cutpoints_x" in drawn:
        shared = cutpoints_from_stops(drawn["cutpoints_x"], spec.link)
        cutpoints = spaced_cutpoints(shared, drawn["log_spacing"])
    given = Parameters(
        intercept=drawn.get("intercept", np.zeros(1)),
        effects={t.variable: drawn[f"{t.variable}_effect"].reshape(1, -1) for t in resolved.terms},
        slopes={},
        sigma=np.sqrt(drawn["noise_variance"]) if "noise_variance" in drawn else None,
        degrees=drawn.get("degrees_of_freedom"),
        cutpoints=cutpoints,
    )
    assert log_densities(resolved, given).sum() == pytest.approx(theirs, rel=1e-9)


# New scores


@pytest.mark.parametrize("name", SPECS)
def test_new_scores_have_the_distribution_that_the_density_says(name):
    """One set of parameters 4,000 times: means, sds and frequencies within 5 standard errors."""
    n = 4000
    resolved = resolved_of(SPECS[name])
    one = random_parameters(resolved, 1, 3, 0.5)
    if one.degrees is not None:
        one = replace(one, degrees=np.array([8.0]))
    scores = replicated_scores(resolved, one.some(np.zeros(n, np.int64)), np.random.default_rng(1))
    if resolved.spec.is_latent:
        for k in resolved.categories:
            p = np.exp(log_densities(replace(resolved, score=np.full(90, float(k))), one))[0]
            error = np.sqrt(p * (1 - p) / n) + 1 / n
            assert (np.abs((scores == k).mean(axis=0) - p) < 5 * error).all()
        assert set(np.unique(scores)) <= set(resolved.categories)
        return
    eta = predictors(resolved, one)[0]
    by = 0 if resolved.residual_by is None else resolved.residual_by
    sigma = np.broadcast_to(one.sigma[0][by], eta.shape)
    wide = 1.0 if one.degrees is None else np.sqrt(8 / 6)
    fourth = 3.0 if one.degrees is None else 3.0 + 6 / 4
    z = (scores.mean(axis=0) - eta) / (sigma * wide / np.sqrt(n))
    assert np.abs(z).max() < 5
    variance = scores.var(axis=0) / (sigma * wide) ** 2
    assert np.abs(variance - 1).max() < 5 * np.sqrt((fourth - 1) / n) * 1.3
    assert stats.chi2.sf((z**2).sum(), z.size) > 1e-3


@pytest.mark.parametrize("family", ["verdict", "ordinal"])
def test_one_category_is_certain(family):
    table = frame_of(backbone=3, scenario=4, judge=2).assign(score=1)
    resolved = resolve(read_model(family), bj.read_scores(table))
    if family == "ordinal":
        given = random_parameters(resolved, 2)
        given = replace(given, cutpoints=None)
        assert (log_densities(resolved, given) == 0).all()
        assert (replicated_scores(resolved, given, np.random.default_rng(0)) == 1).all()


# Fits

FIXED = replace(
    COMMON,
    terms=tuple(
        replace(t, scale=replace(t.scale, center=Prior("fixed", (0.3 + 0.1 * i,))))
        for i, t in enumerate(COMMON.terms)
    ),
    residual=replace(COMMON.residual, center=Prior("fixed", (0.8,))),
)


@pytest.mark.parametrize("drop", [0, 13])
def test_predictions_have_the_exact_moments_of_a_conjugate_model(drop):
    """Scales fixed, generations not stored: mean and covariance are those of the normal model."""
    frame = frame_of(seed=4, drop=drop, backbone=3, scenario=4, judge=3, generation=2)
    scores = bj.read_scores(frame.reset_index(drop=True))
    fit = bj.fit(scores, FIXED, unit=1.0, location=5.0, random_seed=9)
    assert fit.metadata["method"] == "conjugate"
    assert "generation_effect" not in fit.posterior["posterior"]
    found = fit.posterior_predictive()["score"].to_numpy().reshape(4000, -1)
    resolved = fit.resolved
    sd = np.array([t.scale.center.parameters[0] for t in resolved.terms] + [resolved.intercept_sd])
    noise = np.array([0.8**2 + resolved.noise_floor**2])
    prior = dense_covariance(resolved, sd, np.zeros(1)) + sd[-1] ** 2
    v = prior + noise * np.eye(len(prior))
    y = scores.score - 5.0
    mean = 5.0 + prior @ np.linalg.solve(v, y)
    covariance = prior - prior @ np.linalg.solve(v, prior) + noise * np.eye(len(prior))
    gap = found.mean(axis=0) - mean
    # Hotelling's: all rows at once, level 0.001.
    assert stats.chi2.sf(4000 * gap @ np.linalg.solve(covariance, gap), gap.size) > 1e-3
    # Whitened draws have unit variances within 5 standard errors, and no correlations.
    white = np.linalg.solve(np.linalg.cholesky(covariance), (found - mean).T)
    square = np.cov(white)
    assert np.abs(np.diag(square) - 1).max() < 5 * np.sqrt(2 / 4000)
    off = square[np.triu_indices(len(square), 1)]
    assert np.abs(off).max() < 5.5 / np.sqrt(4000)


def test_new_scores_of_the_same_cells_are_as_likely_as_predicted():
    """PIT of one new score a table, truths from the model: uniform at level 0.001."""
    frame = frame_of(backbone=3, scenario=4, judge=2, generation=2)
    base = bj.read_scores(frame)
    resolved = resolve(FIXED, base, 1.0, 5.0)
    rng = np.random.default_rng(12)
    pit = []
    for seed in range(60):
        score, truth = simulate_scores(resolved, rng)
        row = seed % score.size
        eta = truth["intercept"] + sum(
            truth["effects"][t.variable].ravel()[t.codes[row]] for t in resolved.terms
        )
        new = eta + truth["scales"]["sigma"] * rng.standard_normal()
        fit = bj.fit(replace(base, score=score), FIXED, unit=1.0, location=5.0, draws=100)
        drawn = fit.posterior_predictive(random_seed=seed)["score"].to_numpy().reshape(400, -1)
        pit.append((drawn[:, row] < new).mean())
    assert stats.kstest(pit, "uniform").pvalue > 1e-3
    # A model that is twice as sure would fail: its PITs lie at the ends.
    assert stats.kstest(0.5 + 2 * (np.array(pit) - 0.5), "uniform").pvalue < 1e-3


def test_prior_predictions_have_the_moments_of_the_priors():
    frame = frame_of(backbone=3, scenario=4, judge=3)
    resolved = resolve(COMMON, bj.read_scores(frame), 1.5, 4.0)
    drawn = prior_predictive(resolved, 3000, 1)["score"].to_numpy()[0]
    # E sd^2 of a half-normal is its width squared; centred facets lose their share.
    variance = resolved.intercept_sd**2 + 1.5**2
    for term in resolved.terms:
        share = np.prod([1 - 1 / n for n, c in zip(term.shape, term.centred, strict=True) if c])
        variance += share * (1.5 * term.scale.center.parameters[0]) ** 2
    column = drawn[:, 5]
    assert abs(column.mean() - 4.0) < 5 * column.std() / np.sqrt(3000)
    squares = (column - 4.0) ** 2
    assert abs(squares.mean() - variance) < 5 * squares.std() / np.sqrt(3000)


@pytest.fixture(scope="module")
def fit():
    table = simulate(backbones=3, scenarios=6, judges=2, generations=2, random_seed=1).table
    return bj.fit(bj.read_scores(table), draws=60)


def test_predictions_are_thinned_and_named(fit):
    whole = fit.posterior_predictive()
    assert dict(whole.sizes) == {"chain": 4, "draw": 60, "observation": 72}
    some = fit.posterior_predictive(50)
    assert dict(some.sizes) == {"chain": 4, "draw": 13, "observation": 72}
    assert some["draw"].to_numpy()[[0, -1]].tolist() == [0, 59]
    assert fit.posterior_predictive(50, random_seed=4).equals(
        fit.posterior_predictive(50, random_seed=4)
    )
    assert not fit.posterior_predictive(50, random_seed=5).equals(some)
    assert dict(fit.prior_predictive(7).sizes) == {"chain": 1, "draw": 7, "observation": 72}
    assert fit.prior_predictive().sizes["draw"] == 500
    assert dict(fit.log_likelihood(40).sizes) == {"chain": 4, "draw": 10, "observation": 72}


def test_groups_hold_no_more_than_160_mb_unless_asked():
    assert usual_draws(72, 4000) == 4000
    assert usual_draws(20_000, 4000) == 1000
    assert usual_draws(10**8, 4000) == 100
    assert thinned(4, 1000, 1000).size == 250
    assert thinned(4, 1000, None).size == 1000
    assert thinned(3, 10, 1).tolist() == [0]


@pytest.mark.parametrize("wanted", [0, -1, 2.5, "many"])
def test_no_draws_are_refused(fit, wanted):
    with pytest.raises(UsageError, match="draws is"):
        fit.posterior_predictive(wanted)
    with pytest.raises(UsageError, match="draws is"):
        fit.prior_predictive(wanted)


@pytest.mark.filterwarnings("ignore:Estimated shape parameter")
def test_an_extended_fit_is_saved_and_taken_by_arviz(fit, tmp_path):
    more = fit.extend(log_likelihood=True, predictive=True)
    groups = {"log_likelihood", "posterior_predictive", "prior_predictive", "observed_data"}
    assert set(more.posterior.children) - set(fit.posterior.children) == groups
    assert more.metadata == fit.metadata
    assert more != fit
    again = bj.load(more.save(tmp_path / "fit.nc"))
    assert again == more
    found = arviz_stats.loo(again.posterior, reff=1.0, pointwise=True)
    assert found.n_data_points == 72
    assert (more.posterior["observed_data"]["score"].to_numpy() == fit.scores.score).all()
    assert fit.extend() == fit


def test_asking_while_fitting_is_asking_afterwards(fit):
    asked = bj.fit(fit.scores, draws=60, log_likelihood=True, predictive=True)
    assert asked.posterior.equals(fit.extend(log_likelihood=True, predictive=True).posterior)


def test_stored_effects_and_drawn_ones_give_one_log_likelihood(fit):
    """Nested effects are drawn again: means over draws agree within Monte Carlo error."""
    stored = bj.fit(fit.scores, draws=500, nested_effects=True)
    drawn = bj.fit(fit.scores, draws=500)
    one, other = (f.log_likelihood()["score"].to_numpy().reshape(2000, -1) for f in (stored, drawn))
    # Draws are resampled, with an effective size of 1,000 or more here.
    error = np.hypot(one.std(axis=0), other.std(axis=0)) / np.sqrt(1000)
    assert (np.abs(one.mean(axis=0) - other.mean(axis=0)) < 5 * error).all()


def test_sampled_generations_are_kept_where_they_are_needed():
    spec = read_model("robust")
    spec = replace(spec, terms=tuple(t for t in spec.terms if t.name in ("backbone", "generation")))
    table = simulate(spec, backbones=2, scenarios=6, judges=2, generations=2).table
    scores = bj.read_scores(table)
    quick = {"draws": 30, "tune": 30, "chains": 1}
    plain = bj.fit(scores, spec, **quick)
    with pytest.raises(ModelError, match="effects of generation were sampled and not kept"):
        plain.log_likelihood()
    assert len(plain.checks()) == 2
    more = bj.fit(scores, spec, log_likelihood=True, **quick)
    assert np.isfinite(more.posterior["log_likelihood"]["score"].to_numpy()).all()
    assert more.posterior_predictive()["score"].shape == (1, 30, 48)


def test_some_draws_have_the_log_likelihood_that_they_have_among_all():
    """Unbalanced: effects that are not stored must fit those of their own draw."""
    made = simulate(**SIZES).table.drop(index=[3, 8, 20]).reset_index(drop=True)
    fit = bj.fit(bj.read_scores(made), draws=60, chains=2)
    whole = fit.log_likelihood(120)["score"]
    some = fit.log_likelihood(10)["score"]
    np.testing.assert_allclose(some, whole.sel(draw=some.draw), rtol=1e-6)
