"""Both paths to the integrated likelihood, and the effects drawn given the scales."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import bayesjudge as bj
from bayesjudge.engines import exact
from bayesjudge.engines.balanced import balanced_model
from bayesjudge.engines.block_draws import _parts
from bayesjudge.engines.blocks import blocks_model
from bayesjudge.engines.cells import (
    CommonAndOwn,
    Coordinates,
    coordinates_of_level,
    downdate,
    eliminate,
    log_density_of,
)
from bayesjudge.engines.collapsed import collapse
from bayesjudge.engines.effects import is_kept, name_scales, pack_scales
from bayesjudge.engines.integrating import finish, integrate, other_effects
from bayesjudge.engines.large import LargeModel, large_model
from bayesjudge.engines.strata import balance
from bayesjudge.engines.streams import Streams
from bayesjudge.resolution import resolve
from bayesjudge.scores import read_scores
from bayesjudge.spec import Term
from tests.dense_twin import (
    B3,
    COMMON,
    CROSSED,
    DESIGNS,
    G2,
    L2,
    dense_conditional,
    dense_log_likelihood,
    frame_of,
    half_normal,
    random_scales,
    resolved_of,
    scale_by,
    with_terms,
)

# Designs that the strata carry: complete, scales by one facet at most.
BALANCED = {
    name
    for name in DESIGNS
    if name
    in (
        "balanced",
        "balanced, common scales",
        "generations",
        "generations, common scales",
        "languages",
        "one scenario",
        "one judge",
        "two backbones",
        "more random judges than scenarios",
        "generations and more random judges than scenarios",
        "generations without scenarios",
        "backbones alone",
    )
}
OFFSETS = with_terms(
    Term(("backbone", "judge"), scale_by("backbone"), ("judge",)),
    Term(("scenario", "backbone"), scale_by("backbone")),
    Term(("generation",), scale_by("backbone")),
    Term(("scenario", "judge"), half_normal(1.0), ("judge",)),
)
BY_JUDGE = with_terms(
    Term(("scenario",), half_normal(1.0)),
    Term(("judge", "scenario"), scale_by("judge"), ()),
    Term(("backbone", "scenario"), half_normal(1.0), ("backbone",)),
)


def items_in_splits():
    frame = frame_of(backbone=3, judge=2, scenario=6)
    split = frame["scenario"].str.removeprefix("scenario").astype(int) % 2
    return frame.assign(split="split" + split.astype(str))


def scenarios_of_backbones():
    frame = frame_of(backbone=3, judge=3, scenario=4)
    return frame.assign(scenario=frame["backbone"] + frame["scenario"])


# Axes of terms in another order than that of their facets.
TURNED = with_terms(
    Term(("scenario",), half_normal(1.0)),
    Term(("judge", "scenario"), half_normal(1.0)),
    Term(("judge",), half_normal(1.0)),
    Term(("scenario", "backbone"), scale_by("backbone")),
)
MORE = {
    "items in splits": (CROSSED, items_in_splits(), {"facets": ["split"]}),
    "scenarios of one backbone each": (COMMON, scenarios_of_backbones(), {}),
    "axes in another order": (TURNED, frame_of(**B3), {}),
    "offsets per backbone, complete": (OFFSETS, frame_of(**G2), {}),
    "by judge": (BY_JUDGE, frame_of(**B3), {}),
    "languages and generations": (CROSSED, frame_of(generation=2, **L2), {}),
    "replicates": (CROSSED, pd.concat([frame_of(**B3)] * 2), {"replicates": True}),
    "replicates of generations": (COMMON, pd.concat([frame_of(**G2)] * 2), {"replicates": True}),
    "random judge, complete": (CROSSED, frame_of(**B3), {"random": ["judge"]}),
}


def complete(name):
    if name in MORE:
        spec, frame, options = MORE[name]
        frame = frame.assign(score=frame["score"] + np.arange(len(frame)) % 7 / 5)
        return resolve(spec, read_scores(frame.reset_index(drop=True), **options))
    return resolved_of(name)


def assert_slope_is_dense(model, resolved, sd, noise, tolerance):
    """Hold value and derivatives to the dense density and its differences."""
    value, d_sd, d_noise = model.slope(sd, noise)
    x = np.concatenate([sd, noise])

    def dense(x):
        return dense_log_likelihood(resolved, x[: sd.size], x[sd.size :])

    assert value == pytest.approx(dense(x), rel=1e-9)
    step = 1e-5
    differences = [(dense(x + step * e) - dense(x - step * e)) / (2 * step) for e in np.eye(x.size)]
    found = np.concatenate([d_sd, d_noise])
    np.testing.assert_allclose(found, differences, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", sorted(DESIGNS))
def test_which_tables_are_balanced(name):
    assert (balance(resolved_of(name)) is not None) == (name in BALANCED)


@pytest.mark.parametrize("name", sorted(BALANCED | set(MORE)))
def test_strata_give_the_dense_density_and_its_slope(name):
    resolved = complete(name)
    model = balanced_model(resolved)
    assert model is not None
    sets = [random_scales(resolved, seed) for seed in range(4)]
    sd, noise = (np.array(part) for part in zip(*sets, strict=True))
    expected = [dense_log_likelihood(resolved, *one) for one in sets]
    np.testing.assert_allclose(model.values(sd, noise), expected, rtol=1e-9, atol=1e-9)
    assert_slope_is_dense(model, resolved, *sets[0], 1e-4)


@pytest.mark.parametrize("name", ["generations", "languages", "offsets per backbone, complete"])
@pytest.mark.parametrize("size", [0.0, 1e-9, 100.0, 1e6])
def test_strata_at_extreme_scales(name, size):
    resolved = complete(name)
    model = balanced_model(resolved)
    assert model is not None
    sd, noise = random_scales(resolved, 1)
    for extreme in (np.full(sd.size, size), np.where(np.arange(sd.size) % 2, size, sd)):
        found = model.values(extreme[None], noise[None])[0]
        assert np.isfinite(found)
        if size <= 100:
            expected = dense_log_likelihood(resolved, extreme, noise)
            assert found == pytest.approx(expected, rel=1e-7, abs=1e-7)
        kept = model.kept_effects(extreme[None], noise[None], Streams(0, np.arange(1)))
        others = model.other_effects(extreme[None], noise[None], Streams(0, np.arange(1)), kept)
        assert all(np.isfinite(v).all() for v in {**kept, **others}.values())
    at_zero = model.kept_effects(np.zeros((1, sd.size)), noise[None], Streams(0, np.arange(1)))
    assert not any(np.any(v) for v in at_zero.values())


# Designs that do not fall into blocks of a scenario and a backbone.
UNBLOCKED = {
    "backbones alone",
    "centred within blocks",
    "generation scales by scenario",
    "generations without scenarios",
    "one scenario",
    "residual by judge",
    "by judge",
}
HOLES = {
    "scales by judge": (
        with_terms(
            Term(("scenario",), half_normal(1.0)),
            Term(("judge", "scenario"), scale_by("judge"), ()),
            Term(("backbone", "judge", "scenario"), half_normal(1.0), ("judge",)),
            Term(("backbone", "scenario"), scale_by("backbone")),
        ),
        frame_of(drop=9, **G2),
        {},
    ),
    "two large facets": (
        with_terms(
            Term(("scenario",), half_normal(1.0)),
            Term(("rater",), half_normal(1.0)),
            Term(("judge",), half_normal(1.0)),
        ),
        frame_of(drop=2300, backbone=3, judge=2, scenario=24, rater=18),
        {"random": ["rater"]},
    ),
    "whole blocks missing": (
        CROSSED,
        frame_of(**G2).query(
            "~(backbone == 'backbone1' and scenario in ['scenario0', 'scenario3'])"
        ),
        {},
    ),
}


def of_any(name):
    if name in HOLES:
        spec, frame, options = HOLES[name]
        return resolve(spec, read_scores(frame.reset_index(drop=True), **options))
    return complete(name)


@pytest.mark.parametrize(
    "name", sorted({*DESIGNS, *MORE, *HOLES} - UNBLOCKED - {"two large facets"})
)
def test_blocks_give_the_dense_density_and_its_slope(name):
    resolved = of_any(name)
    model = blocks_model(resolved)
    assert model is not None
    sets = [random_scales(resolved, seed) for seed in range(4)]
    sd, noise = (np.array(part) for part in zip(*sets, strict=True))
    expected = [dense_log_likelihood(resolved, *one) for one in sets]
    np.testing.assert_allclose(model.values(sd, noise), expected, rtol=1e-9, atol=1e-9)
    assert_slope_is_dense(model, resolved, *sets[0], 2e-4)


@given(
    n_cells=st.integers(2, 5),
    common=st.floats(0, 1e3),
    own=st.floats(0, 1e3),
    seed=st.integers(0, 99),
)
def test_fewer_coordinates_leave_the_same(n_cells, common, own, seed):
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(n_cells, n_cells + 1))
    known = root @ root.T
    matrix = [[np.full((1, 1), known[i, j]) for j in range(i + 1)] for i in range(n_cells)]
    vector = [np.full((1, 1), v) for v in rng.normal(size=n_cells)]
    basis = np.hstack([np.ones((n_cells, 1)), np.eye(n_cells)])
    alike = np.full((1, 1), own)
    sd = [np.full((1, 1), common), *([alike] * n_cells)]
    every = Coordinates(basis, sd)
    fewer = coordinates_of_level(basis, sd)
    assert (every.size, fewer.size) == (n_cells + 1, n_cells)
    found = [eliminate(matrix, vector, one) for one in (every, fewer)]
    one, other = (log_density_of(f)[0] for f in found)
    assert other == pytest.approx(one, rel=1e-7, abs=1e-7)
    # What is left is at most what was known: errors are of its size.
    for left, right in zip(*(downdate(matrix, vector, f) for f in found), strict=True):
        np.testing.assert_allclose(
            np.ravel(np.concatenate([np.ravel(r) for r in left])),
            np.ravel(np.concatenate([np.ravel(r) for r in right])),
            atol=1e-7 * (1 + np.abs(known).max()),
        )


@pytest.mark.parametrize(("common", "own"), [(2.0, 0.5), (0.0, 1.0), (1.0, 0.0), (0.0, 0.0)])
def test_fewer_coordinates_give_every_part(common, own):
    """Of unit coordinates that no score informs each part has its prior, by itself."""
    rng = np.random.default_rng(1)
    n, n_cells = 100_000, 3
    basis = np.hstack([np.ones((n_cells, 1)), np.eye(n_cells)])
    alike = np.full((n, 1), own)
    fewer = coordinates_of_level(basis, [np.full((n, 1), common), *([alike] * n_cells)])
    assert isinstance(fewer, CommonAndOwn)
    streams = Streams(2, np.arange(n))
    parts = _parts(streams, 0, list(rng.standard_normal((n_cells, n, 1))), fewer)[:, 0]
    expected = np.diag([common**2, *([own**2] * n_cells)])
    # Five standard errors of a covariance of n draws.
    allowed = 5 * np.sqrt(2 / n) * max(common, own, 1e-9) ** 2
    np.testing.assert_allclose(np.cov(parts.T), expected, atol=allowed)


def test_single_precision_is_refused_where_it_does_not_do():
    resolved = of_any("generations, unbalanced")
    model = blocks_model(resolved)
    assert model is not None
    sets = [random_scales(resolved, seed) for seed in range(5)]
    sd, noise = (np.array(part) for part in zip(*sets, strict=True))
    fast = model.rough(sd, noise)
    assert fast is not model
    np.testing.assert_allclose(fast.values(sd, noise), model.values(sd, noise), atol=0.1)
    assert model.rough(sd * 1e7, noise * 1e-6) is model


@pytest.mark.parametrize("name", sorted(UNBLOCKED))
def test_what_does_not_fall_into_blocks(name):
    assert blocks_model(complete(name)) is None


def test_two_large_facets_have_the_dense_density():
    resolved = of_any("two large facets")
    model = integrate(resolved)
    assert isinstance(model, LargeModel)
    sets = [random_scales(resolved, seed) for seed in range(5)]
    sd, noise = (np.array(part) for part in zip(*sets, strict=True))
    expected = [dense_log_likelihood(resolved, *one) for one in sets]
    np.testing.assert_allclose(model.values(sd, noise), expected, rtol=1e-9, atol=1e-9)
    assert_slope_is_dense(model, resolved, *sets[0], 2e-4)
    with np.errstate(all="ignore"):
        assert np.isfinite(model.values(np.zeros((1, sd.shape[1])), noise[:1])).all()


def test_a_polynomial_stands_for_the_factors_where_it_is_good():
    resolved = of_any("two large facets")
    model = integrate(resolved)
    assert isinstance(model, LargeModel)
    rng = np.random.default_rng(0)
    base, noise = random_scales(resolved, 0)
    narrow = base * np.exp(0.05 * rng.standard_normal((200, base.size)))
    noises = noise * np.exp(0.05 * rng.standard_normal((200, 1)))
    fast = model.near(narrow, noises)
    assert fast.polynomial is not None
    np.testing.assert_allclose(fast.values(narrow, noises), model.values(narrow, noises), atol=1e-3)
    far = narrow[:1] * 3
    assert fast.values(far, noises[:1])[0] == -np.inf
    wide = base * np.exp(1.5 * rng.standard_normal((200, base.size)))
    assert model.near(wide, noises).polynomial is None


def test_a_model_with_two_large_facets_is_fitted():
    spec, frame, options = HOLES["two large facets"]
    fit = bj.fit(read_scores(frame.reset_index(drop=True), **options), spec, draws=300)
    assert fit.metadata["method"] == "importance"
    assert fit.convergence.converged
    raters = fit.effects("rater")
    assert len(raters) == 18


def test_what_does_not_have_two_large_facets():
    assert large_model(resolved_of("unbalanced")) is None
    assert large_model(resolved_of("generations, common scales")) is None
    assert large_model(resolved_of("one scenario")) is None
    spec, frame, options = HOLES["two large facets"]
    crossed = replace(spec, terms=(*spec.terms, Term(("judge", "scenario"), half_normal(1.0))))
    scores = read_scores(frame.reset_index(drop=True), **options)
    assert large_model(resolve(crossed, scores)) is None


def test_too_many_cells_to_write_out():
    frame = frame_of(drop=10, backbone=2, scenario=3, judge=17)
    assert blocks_model(resolve(COMMON, read_scores(frame))) is None


@pytest.mark.parametrize("name", ["generations, unbalanced", "whole blocks missing"])
@pytest.mark.parametrize("size", [0.0, 1e-9, 100.0, 1e6])
def test_blocks_at_extreme_scales(name, size):
    resolved = of_any(name)
    model = blocks_model(resolved)
    assert model is not None
    sd, noise = random_scales(resolved, 1)
    for extreme in (np.full(sd.size, size), np.where(np.arange(sd.size) % 2, size, sd)):
        found = model.values(extreme[None], noise[None])[0]
        assert np.isfinite(found)
        if size <= 100:
            expected = dense_log_likelihood(resolved, extreme, noise)
            assert found == pytest.approx(expected, rel=1e-7, abs=1e-7)
    at_zero = model.kept_effects(np.zeros((1, sd.size)), noise[None], Streams(0, np.arange(1)))
    assert not any(np.any(v) for v in at_zero.values())


def test_sets_of_scales_without_a_density_do_not_spoil_the_others():
    resolved = resolved_of("generations, unbalanced")
    model = blocks_model(resolved)
    assert model is not None
    sets = [random_scales(resolved, seed) for seed in range(5)]
    sd, noise = (np.array(part) for part in zip(*sets, strict=True))
    expected = model.values(sd, noise)
    sd[2] = 1e200
    found = model.values(sd, noise)
    assert not np.isfinite(found[2])
    np.testing.assert_array_equal(np.delete(found, 2), np.delete(expected, 2))


def test_both_paths_have_one_density():
    for name in sorted(BALANCED):
        resolved = resolved_of(name)
        model, collapsed = balanced_model(resolved), collapse(resolved)
        assert model is not None
        assert collapsed is not None
        sd, noise = (np.atleast_2d(part) for part in random_scales(resolved, 9))
        np.testing.assert_allclose(
            model.values(sd, noise), collapsed.values(sd, noise), rtol=1e-9, atol=1e-9
        )
        ours, theirs = model.slope(sd[0], noise[0]), collapsed.slope(sd[0], noise[0])
        for a, b in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)


DRAWN = [
    "balanced",
    "generations",
    "languages and generations",
    "offsets per backbone, complete",
    "by judge",
    "random judge, complete",
    "generations, unbalanced",
    "random judge",
    "residual by judge",
    "scales by judge",
    "whole blocks missing",
    "two large facets",
    "languages and generations, unbalanced",
    "items in splits",
    "scenarios of one backbone each",
    "axes in another order",
]


@pytest.mark.parametrize("name", DRAWN)
def test_effects_are_drawn_from_the_dense_conditional(name):
    resolved = of_any(name)
    integrated = integrate(resolved)
    assert integrated is not None
    n = 6000
    sd, noise = random_scales(resolved, 5)
    many = np.repeat(sd[None], n, axis=0), np.repeat(noise[None], n, axis=0)
    drawn = finish(resolved, integrated, *many, {}, (1, n), seed=3, nested=True)
    assert set(drawn.effects) == {t.variable for t in resolved.terms}
    smallest = []
    columns = {None: drawn.intercept - resolved.location}
    columns |= {t.name: drawn.effects[t.variable] for t in resolved.terms}
    everything = []
    means, widths = [], []
    for term in (None, *resolved.terms):
        mean, covariance = dense_conditional(resolved, sd, noise, term)
        found = columns[None if term is None else term.name].reshape(n, -1)
        width = np.sqrt(np.diag(covariance))
        z = (found.mean(axis=0) - mean) / (width / np.sqrt(n))
        error = np.sqrt((np.outer(width, width) ** 2 + covariance**2) / n)
        z_covariance = (np.atleast_2d(np.cov(found.T)) - covariance) / error
        smallest += [*np.abs(z), *np.abs(z_covariance[np.tril_indices(width.size)])]
        everything.append(found)
        means.append(mean)
        widths.append(width)
    assert 2 * stats.norm.sf(max(smallest)) * len(smallest) > 1e-4
    # Jointly: what a score is expected to be has the conditional's variance too.
    total = everything[0][:, [0] * resolved.score.size]
    for term, found in zip(resolved.terms, everything[1:], strict=True):
        total = total + found[:, term.codes]
    v = np.linalg.inv(dense_inverse_parts(resolved, sd, noise))
    z = (total.std(axis=0) / np.sqrt(np.diag(v)) - 1) * np.sqrt(2 * n)
    assert np.abs(z).max() < 5


def dense_inverse_parts(resolved, sd, noise):
    """Precision of the expected scores given the scores: prior's plus the residual's."""
    from tests.dense_twin import dense_covariance, noise_of_rows

    rows = noise_of_rows(resolved, noise)
    prior = dense_covariance(resolved, sd, noise) - np.diag(rows) + sd[-1] ** 2
    # Expected scores may be tied: a hair's breadth makes the prior invertible.
    prior += 1e-9 * np.trace(prior) / len(prior) * np.eye(len(prior))
    return np.linalg.inv(prior) + np.diag(1 / rows)


@pytest.mark.parametrize("name", ["generations", "generations, unbalanced"])
def test_effects_left_out_are_drawn_later_given_the_others(name):
    resolved = resolved_of(name)
    integrated = integrate(resolved)
    assert integrated is not None
    sets = [random_scales(resolved, seed) for seed in range(6)]
    sd, noise = (np.array(part) for part in zip(*sets, strict=True))
    # The intercept's scale is a constant of the model.
    sd[:, -1] = resolved.intercept_sd
    whole = finish(resolved, integrated, sd, noise, {}, (2, 3), seed=1, nested=True)
    part = finish(resolved, integrated, sd, noise, {}, (2, 3), seed=1, nested=False)
    kept = {t.variable for t in resolved.terms if is_kept(t, resolved.panel)}
    assert set(part.effects) == kept < set(whole.effects)
    for variable in kept:
        np.testing.assert_array_equal(part.effects[variable], whole.effects[variable])
    streams = Streams(1, np.arange(6))
    for generations in (False, True):
        later = other_effects(
            resolved, part.scales, part.intercept, part.effects, streams, generations=generations
        )
        expected = set(whole.effects) - kept
        assert set(later) == (expected if generations else expected - {"generation"})
        for variable, value in later.items():
            np.testing.assert_allclose(value, whole.effects[variable], rtol=1e-6, atol=1e-8)


LATER = ["generations, unbalanced", "two large facets", "residual by judge"]


@pytest.mark.parametrize("name", LATER)
def test_some_draws_give_the_effects_that_all_of_them_give(name):
    """Those that are kept tell of the others only if random numbers belong to a draw."""
    resolved = of_any(name)
    integrated = integrate(resolved)
    assert integrated is not None
    sets = [random_scales(resolved, seed) for seed in (0, 1, 1, 2, 3, 3)]
    sd, noise = (np.array(part) for part in zip(*sets, strict=True))
    sd[:, -1] = resolved.intercept_sd
    whole = finish(resolved, integrated, sd, noise, {}, (2, 3), seed=1, nested=True)
    part = finish(resolved, integrated, sd, noise, {}, (2, 3), seed=1, nested=False)
    some = np.ix_([0, 1], [0, 2])
    later = other_effects(
        resolved,
        {name: value[some] for name, value in part.scales.items()},
        part.intercept[some],
        {name: value[some] for name, value in part.effects.items() if name != "scenario"},
        Streams(1, np.array([0, 2, 3, 5])),
        generations=True,
    )
    assert "scenario" in later
    for variable, value in later.items():
        np.testing.assert_allclose(value, whole.effects[variable][some], rtol=1e-6, atol=1e-8)


def test_scales_are_packed_as_they_were_named():
    resolved = resolved_of("generations")
    sets = [random_scales(resolved, seed) for seed in range(6)]
    sd, noise = (np.array(part) for part in zip(*sets, strict=True))
    sd[:, -1] = resolved.intercept_sd
    scales = name_scales(resolved, sd, noise, (2, 3))
    assert scales["judge_sd"].shape == (2, 3)
    assert scales["sigma"].shape == (2, 3, 3)
    again = pack_scales(resolved, scales)
    np.testing.assert_allclose(again[0], sd)
    np.testing.assert_allclose(again[1], noise)


def test_nothing_integrates_a_model_whose_generations_interact():
    crossed_leaf = with_terms(Term(("generation", "judge"), half_normal(1.0)))
    doubled = read_scores(pd.concat([frame_of(**G2)] * 2), replicates=True)
    resolved = resolve(crossed_leaf, doubled)
    assert integrate(resolved) is None
    assert (
        other_effects(
            resolved,
            {
                "sigma": np.ones((1, 4)),
                **{f"{t.variable}_sd": np.ones((1, 4)) for t in resolved.terms},
            },
            np.zeros((1, 4)),
            {},
            Streams(0, np.arange(4)),
            generations=True,
        )
        == {}
    )


def test_scales_by_two_facets_are_not_balanced():
    spec = with_terms(
        Term(("scenario", "backbone"), scale_by("backbone")),
        Term(("scenario", "judge"), scale_by("judge")),
    )
    resolved = resolve(spec, read_scores(frame_of(**B3)))
    assert balance(resolved) is None


def test_nuts_takes_over_in_the_proposals_coordinates(monkeypatch):
    scores = read_scores(frame_of(**B3))
    usual = bj.fit(scores, COMMON)
    monkeypatch.setattr(exact, "PARETO_K_LIMIT", -10.0)
    monkeypatch.setattr(exact, "_ATTEMPTS", 1)
    monkeypatch.setattr("bayesjudge.engines.moving._MOST_SWEEPS", 1)
    monkeypatch.setattr("bayesjudge.engines.moving._mixed", lambda _: False)
    fit = bj.fit(scores, COMMON, draws=300, tune=300, chains=4)
    assert usual.metadata["method"] == "importance"
    assert fit.metadata["method"] == "collapsed nuts"
    sd = usual.means().std(axis=0)
    assert (np.abs(fit.means().mean(axis=0) - usual.means().mean(axis=0)) < 0.3 * sd).all()
    assert fit.convergence.r_hat_max is not None


@pytest.mark.parametrize("drop", [0, 20])
@pytest.mark.parametrize(
    "term", ["backbone", "judge", "backbone:judge", "judge:language", "scenario", "judge:scenario"]
)
def test_a_flat_scale_is_the_limit_of_wide_ones(term, drop):
    scores = read_scores(frame_of(drop=drop, backbone=3, scenario=12, judge=3, language=2))
    wide, flat = (
        bj.fit(scores, "crossed_common", priors=[f"{term}.scale={scale}"], draws=500)
        for scale in ("fixed:1000", "flat")
    )
    for name, effect in wide.posterior["posterior"].data_vars.items():
        if not name.endswith("_effect"):
            continue
        one = effect.to_numpy().reshape(2000, -1)
        other = flat.posterior["posterior"][name].to_numpy().reshape(2000, -1)
        error = np.hypot(one.std(0), other.std(0)) / np.sqrt(400)
        assert (np.abs(one.mean(0) - other.mean(0)) < 4 * error).all(), name
        assert (np.abs(np.log(one.std(0) / other.std(0))) < 0.2).all(), name


def test_what_nothing_integrates_is_sampled_whole():
    crossed_leaf = with_terms(Term(("generation", "judge"), half_normal(1.0)))
    doubled = read_scores(
        pd.concat([frame_of(backbone=2, scenario=3, judge=2, generation=2)] * 2), replicates=True
    )
    for engine in ("exact", "numpyro"):
        fit = bj.fit(doubled, crossed_leaf, engine, draws=20, tune=20, chains=1)
        assert fit.metadata["method"] == "nuts"
        assert np.isfinite(fit.means()).all()


def test_facets_that_are_no_axes():
    frame = items_in_splits()
    scores = read_scores(frame, facets=["split"])
    centred = with_terms(
        Term(("split",), half_normal(1.0)), Term(("scenario",), half_normal(1.0), ("scenario",))
    )
    assert balance(resolve(centred, scores)) is None
    both = with_terms(
        Term(("split",), half_normal(1.0)), Term(("scenario", "split"), half_normal(1.0))
    )
    assert balance(resolve(both, scores)) is None
    uneven = frame[~frame["scenario"].isin(["scenario0"])]
    alone = with_terms(Term(("split",), half_normal(1.0)), Term(("scenario",), half_normal(1.0)))
    assert balance(resolve(alone, read_scores(uneven, facets=["split"]))) is None
    assert balance(resolve(alone, scores)) is not None
