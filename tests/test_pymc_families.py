"""Verdicts, categories, Student t and covariates by PyMC: posterior, names, ends of the scale."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from arviz_stats.base import array_stats
from scipy import stats
from scipy.special import expit, log_ndtr

import bayesjudge as bj
from bayesjudge.engines import Settings
from bayesjudge.engines import pymc as engine
from bayesjudge.engines.observations import Observations
from bayesjudge.engines.pymc_likelihoods import (
    Cutpoints,
    bernoulli_log_likelihood,
    cumulative_log_likelihood,
    draw_stop_logits,
)
from bayesjudge.engines.pymc_likelihoods import log_ndtr as our_log_ndtr
from bayesjudge.errors import ModelError
from bayesjudge.resolution import resolve
from bayesjudge.simulation import simulate
from bayesjudge.spec import Covariate, Prior, Thresholds, read_model

BY_JUDGE = Thresholds("judge", Prior("half_normal", (0.5,)))
SLOPE = (Covariate("nll", Prior("normal", (1.0,))),)
SIZES = {"backbones": 3, "scenarios": 6, "judges": 3, "random_seed": 8}


def own(name, *terms, **changes):
    """A shipped model with few terms: quick to compile, the same families."""
    spec = read_model(name)
    kept = tuple(t for t in spec.terms if t.name in ("backbone", *terms))
    return replace(spec, name="own", terms=kept, **changes)


def table(spec, score=None):
    scale = {"scale": (1, 5)} if spec.family == "cumulative" else {}
    made = simulate(spec, **SIZES, **scale).table
    if score is not None:
        made = made.assign(score=score)
    return bj.read_scores(made, covariates=[c.column for c in spec.covariates], **scale)


# The posterior


SPECS = {
    "verdicts": own("verdict", "judge", covariates=SLOPE),
    "categories": own("ordinal", "judge", thresholds=BY_JUDGE),
}


@pytest.fixture(scope="module", params=SPECS)
def both(request):
    spec = SPECS[request.param]
    scores = table(spec)
    settings = {"draws": 1500, "tune": 800, "chains": 4, "target_accept": 0.95}
    ours, theirs = (
        bj.fit(scores, spec, name, random_seed=3, **settings) for name in ("pymc", "numpyro")
    )
    return ours, theirs


def test_the_posterior_is_numpyros(both):
    ours, theirs = (fit.posterior["posterior"] for fit in both)
    z = []
    for name in ours.data_vars:
        pair = []
        for values in (ours[name], theirs[name]):
            draws = values.transpose("chain", "draw", ...).to_numpy()
            pair.append(draws.reshape(*draws.shape[:2], -1))
        for i in range(pair[0].shape[2]):
            one, other = (draws[..., i] for draws in pair)
            for kind, moment in (("mean", np.mean), ("sd", np.std)):
                errors = [
                    array_stats.mcse(d, chain_axis=0, draw_axis=1, method=kind)
                    for d in (one, other)
                ]
                z.append((moment(one) - moment(other)) / np.hypot(*errors))
    assert len(z) > 20
    assert np.isfinite(z).all()
    assert stats.norm.sf(np.abs(z).max()) * 2 * len(z) > 1e-3


def test_names_and_dims_are_numpyros(both):
    ours, theirs = (fit.posterior["posterior"] for fit in both)
    assert {n: v.dims for n, v in ours.items()} == {n: v.dims for n, v in theirs.items()}
    family = both[0].spec.family
    wanted = {"cutpoints", "cutpoints_sd"} if family == "cumulative" else {"nll_slope"}
    assert wanted <= set(ours.data_vars)
    assert "sigma" not in ours
    assert both[0].convergence.divergences <= 5
    assert both[0].leaderboard()["mean"].notna().all()


def test_log_likelihood_and_new_scores_are_numpyros(both):
    """Means over draws of both, within 5 standard errors of 400 effective draws."""
    for name in ("log_likelihood", "posterior_predictive"):
        one, other = (
            getattr(fit, name)()["score"].to_numpy().reshape(6000, -1).astype(float) for fit in both
        )
        error = np.hypot(one.std(axis=0), other.std(axis=0)) / np.sqrt(400)
        assert (np.abs(one.mean(axis=0) - other.mean(axis=0)) < 5 * error).all()
        assert (error > 0).all()


def test_a_student_t_has_its_degrees_of_freedom(monkeypatch):
    monkeypatch.setattr(engine, "choose_sampler", lambda: "nutpie")
    spec = own("robust", covariates=SLOPE)
    resolved = resolve(spec, table(spec))
    draws = engine.sample(resolved, Settings(draws=200, tune=300, chains=2))
    assert set(draws.parameters) == {"degrees_of_freedom", "nll_slope"}
    degrees = draws.parameters["degrees_of_freedom"]
    assert degrees.shape == (2, 200)
    assert (degrees > 0).all()
    assert (draws.scales["sigma"] >= resolved.noise_floor).all()


@pytest.mark.parametrize(("name", "score"), [("verdict", 0), ("ordinal", 5)])
def test_a_table_of_one_value_has_a_posterior_that_says_so(name, score):
    spec = own(name)
    scores = table(spec, score)
    fit = bj.fit(scores, spec, "pymc", draws=400, tune=600, chains=2, target_accept=0.95)
    posterior = fit.posterior["posterior"]
    assert all(np.isfinite(values).all() for values in posterior.data_vars.values())
    # 54 scores alike: Laplace's rule leaves 1 in 56 to one other.
    means = posterior["backbone_mean"].to_numpy().mean(axis=(0, 1))
    np.testing.assert_allclose(means, score, atol=0.2)


def test_a_single_category_is_certain():
    spec = own("ordinal")
    made = simulate(spec, **SIZES, scale=(1, 5)).table.assign(score=3)
    resolved = resolve(spec, bj.read_scores(made))
    assert resolved.categories == (3,)
    model = engine.effects_model(resolved)
    assert "cutpoints_x" not in model.named_vars
    assert not model.potentials
    assert not model.observed_RVs


# Likelihoods far out


def row(category, by=False):
    one = np.zeros(1, int)
    return Observations(
        **{"codes": (), "covariates": np.zeros((1, 0)), "residual_codes": one, "rows": one},
        threshold_codes=one if by else None,
        cell=one,
        category=np.array([category]),
        count=np.ones(1),
    )


FAR_X = [[0.0, 0.0, 0.0], [-600.0, 5.0, 5.0], [600.0, 0.0, 0.0], [-30.0, -30.0, 40.0]]
FAR_ETA = [-1e4, -40.0, 0.0, 40.0, 1e4]


@pytest.mark.parametrize("link", ["logit", "probit"])
@pytest.mark.parametrize("by", [False, True])
def test_no_slope_is_lost_far_out(link, by):
    x, eta, spacing = pt.dvector("x"), pt.dvector("eta"), pt.dmatrix("spacing")
    cutpoints = Cutpoints(x, link, spacing if by else None)
    each = [cumulative_log_likelihood(eta, cutpoints, 3, link, row(k, by)) for k in range(4)]
    inputs = [x, eta, *([spacing] if by else [])]
    slopes = [pytensor.grad(sum(each), v) for v in inputs]
    value = pytensor.function(inputs, [*each, *slopes], mode="FAST_COMPILE")
    wide = [np.array([[0.5, -0.5], [-40.0, 40.0]])] if by else []
    for at in FAR_X:
        for predictor in FAR_ETA:
            found = value(np.array(at), np.array([predictor]), *wide)
            assert all(np.isfinite(part).all() for part in found), (at, predictor)


def test_chances_of_categories_sum_to_one():
    x, eta = pt.dvector("x"), pt.dvector("eta")
    for link in ("logit", "probit"):
        cutpoints = Cutpoints(x, link)
        each = [cumulative_log_likelihood(eta, cutpoints, 3, link, row(k)) for k in range(4)]
        value = pytensor.function([x, eta], each, mode="FAST_COMPILE")
        for predictor in (-3.0, 0.0, 1.7):
            chances = np.exp(value(np.array([0.3, -1.0, 2.0]), np.array([predictor])))
            assert np.sum(chances) == pytest.approx(1.0, abs=1e-12)


def test_the_normal_tail_keeps_its_digits():
    z = pt.dvector("z")
    value = pytensor.function([z], [our_log_ndtr(z), pytensor.grad(our_log_ndtr(z).sum(), z)])
    at = np.array([-1e6, -300.0, -38.0, -5.0, -1.0, -0.5, 0.0, 2.0, 6.0])
    found, slope = value(at)
    np.testing.assert_allclose(found, log_ndtr(at), rtol=1e-13)
    expected = np.exp(stats.norm.logpdf(at[2:]) - log_ndtr(at[2:]))
    np.testing.assert_allclose(slope[2:], expected, rtol=1e-12)
    np.testing.assert_allclose(slope[:2], -at[:2], rtol=1e-4)


def test_stops_are_drawn_from_a_flat_simplex():
    x = draw_stop_logits(np.array([3.0, 2.0, 1.0]), np.random.default_rng(1), (4000,))
    assert x.shape == (4000, 3)
    for k in range(3):
        assert stats.kstest(expit(x[:, k]), stats.beta(1, 3 - k).cdf).pvalue > 1e-4


def test_a_likelihood_without_counts_is_refused():
    bare = replace(row(0), count=None)
    with pytest.raises(ModelError, match="no category counts"):
        cumulative_log_likelihood(pt.zeros(1), Cutpoints(pt.zeros(3), "logit"), 3, "logit", bare)
    with pytest.raises(ModelError, match="no counts"):
        bernoulli_log_likelihood(pt.zeros(1), "logit", bare)
