"""The gaussian likelihood with every effect integrated out, against dense matrices."""

from __future__ import annotations

import itertools
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpyro.infer.util import log_density
from scipy import stats

from bayesjudge.engines import Settings
from bayesjudge.engines.collapsed import collapse, finish
from bayesjudge.engines.cross_products import contrasts, cross_products, lay_out, sd_offsets
from bayesjudge.engines.marginal import draw_effects, log_likelihood, moments
from bayesjudge.engines.numpyro import effects_model
from bayesjudge.engines.scales import scale_sites
from bayesjudge.resolution import resolve
from bayesjudge.scores import read_scores
from bayesjudge.spec import Prior, Scale, Term, read_model

CROSSED, COMMON = read_model("crossed"), read_model("crossed_common")


def half_normal(width):
    return Scale(Prior("half_normal", (width,)))


def scale_by(facet):
    return Scale(Prior("lognormal", (-1.0, 1.0)), facet, Prior("half_normal", (0.5,)))


def with_terms(*terms, base=COMMON):
    return replace(base, terms=(Term(("backbone",), half_normal(2.0)), *terms))


CYCLICJUDGE = with_terms(
    Term(("backbone", "judge"), scale_by("backbone"), ("judge",)),
    Term(("scenario", "backbone"), scale_by("backbone")),
    Term(("generation",), scale_by("backbone")),
)
BY_SCENARIO_GENERATION = with_terms(Term(("generation",), scale_by("scenario")))
CENTRED_BLOCK = with_terms(
    Term(("scenario",), half_normal(1.0)),
    Term(("judge", "scenario"), scale_by("judge"), ()),
    Term(("backbone", "scenario"), half_normal(1.0), ("backbone",)),
)


def frame_of(seed=0, drop=0, **sizes):
    rows = itertools.product(*([f"{name}{i}" for i in range(n)] for name, n in sizes.items()))
    frame = pd.DataFrame(rows, columns=list(sizes))
    rng = np.random.default_rng(seed)
    frame = frame.assign(score=rng.normal(5, 1.3, len(frame)).round(3))
    return frame.iloc[np.sort(rng.permutation(len(frame))[: len(frame) - drop])]


def in_turn():
    frame = frame_of(backbone=3, scenario=7, judge=3, generation=2)
    index = frame["scenario"].str.removeprefix("scenario").astype(int)
    return frame[frame["judge"] == "judge" + (index % 3).astype(str)]


B3 = {"backbone": 3, "scenario": 5, "judge": 3}
G2 = {**B3, "generation": 2}
L2 = {"backbone": 3, "scenario": 4, "judge": 2, "language": 2}

DESIGNS = {
    "balanced": (CROSSED, frame_of(**B3), {}),
    "balanced, common scales": (COMMON, frame_of(**B3), {}),
    "unbalanced": (CROSSED, frame_of(drop=11, **B3), {}),
    "generations": (CROSSED, frame_of(**G2), {}),
    "generations, common scales": (COMMON, frame_of(**G2), {}),
    "generations, unbalanced": (CROSSED, frame_of(drop=23, **G2), {}),
    "languages": (CROSSED, frame_of(**L2), {}),
    "languages and generations, unbalanced": (
        CROSSED,
        frame_of(drop=15, generation=2, **L2),
        {},
    ),
    "one scenario": (CROSSED, frame_of(backbone=4, scenario=1, judge=3, generation=2), {}),
    "one judge": (CROSSED, frame_of(backbone=3, scenario=6, judge=1), {}),
    "two backbones": (CROSSED, frame_of(backbone=2, scenario=6, judge=2), {}),
    "a judge per scenario in turn": (CROSSED, in_turn(), {}),
    "random judge": (CROSSED, frame_of(drop=5, **B3), {"random": ["judge"]}),
    "more random judges than scenarios": (
        CROSSED,
        frame_of(backbone=3, scenario=3, judge=5),
        {"random": ["judge"]},
    ),
    "generations and more random judges than scenarios": (
        CROSSED,
        frame_of(backbone=2, scenario=3, judge=5, generation=2),
        {"random": ["judge"]},
    ),
    "a user's panel facet": (
        CROSSED,
        frame_of(drop=7, criterion=2, **B3),
        {"facets": ["criterion"]},
    ),
    "a user's random facet": (
        CROSSED,
        frame_of(drop=7, criterion=2, **B3),
        {"random": ["criterion"]},
    ),
    "residual by judge": (
        replace(COMMON, residual=scale_by("judge")),
        frame_of(drop=9, **G2),
        {},
    ),
    "offsets per backbone": (CYCLICJUDGE, frame_of(drop=9, **G2), {}),
    "centred within blocks": (CENTRED_BLOCK, frame_of(drop=4, **B3), {}),
    "generations without scenarios": (CROSSED, frame_of(backbone=3, judge=3, generation=4), {}),
    "generation scales by scenario": (
        BY_SCENARIO_GENERATION,
        frame_of(drop=9, backbone=3, scenario=3, judge=3, generation=2),
        {},
    ),
    "backbones alone": (CROSSED, pd.concat([frame_of(backbone=3)] * 3), {"replicates": True}),
}


@pytest.fixture(autouse=True)
def _double_precision():
    with jax.enable_x64(True):
        yield


def resolved_of(name):
    spec, frame, options = DESIGNS[name]
    return resolve(spec, read_scores(frame.reset_index(drop=True), **options))


def pass_of(resolved):
    layout = lay_out(resolved)
    assert layout is not None
    return layout, moments(cross_products(resolved, layout), layout)


def random_scales(resolved, seed):
    rng = np.random.default_rng(seed)
    n_sd = int(sd_offsets(resolved.terms)[-1]) + 1
    n_noise = max(len(resolved.residual_labels), 1)
    return rng.lognormal(-0.5, 0.7, n_sd), rng.lognormal(-1, 0.5, n_noise)


def term_covariance(term, sd):
    """Prior covariance of a term's effects, (L, L)."""
    c = np.ones((1, 1))
    for size, centred in zip(term.shape, term.centred, strict=True):
        c = np.kron(c, np.eye(size) - centred / size)
    by = np.zeros(term.n_levels, int) if term.by_codes is None else term.by_codes
    return sd[by][:, None] * c * sd[by]


def scales_of_terms(resolved, sd):
    offsets = sd_offsets(resolved.terms)
    return [sd[a:b] for a, b in itertools.pairwise(offsets)]


def noise_of_rows(resolved, noise):
    by = resolved.residual_by
    return noise[np.zeros(resolved.score.size, int) if by is None else by]


def dense_covariance(resolved, sd, noise, leave_out=()):
    v = np.diag(noise_of_rows(resolved, noise))
    for term, own in zip(resolved.terms, scales_of_terms(resolved, sd), strict=True):
        if term.name not in leave_out:
            v = v + term_covariance(term, own)[np.ix_(term.codes, term.codes)]
    return v


def dense_log_likelihood(resolved, sd, noise):
    v = dense_covariance(resolved, sd, noise) + sd[-1] ** 2
    y = resolved.score - resolved.location
    return stats.multivariate_normal(np.zeros(y.size), v).logpdf(y)


draw_once = jax.jit(draw_effects)
evaluate = jax.jit(jax.value_and_grad(log_likelihood, argnums=(0, 1)))


@pytest.mark.parametrize("name", sorted(DESIGNS))
def test_value_and_gradient_equal_those_of_the_dense_density(name):
    resolved = resolved_of(name)
    m = pass_of(resolved)[1]
    for seed in range(3):
        sd, noise = random_scales(resolved, seed)
        found, slopes = evaluate(jnp.asarray(sd), jnp.asarray(noise), m)
        expected = dense_log_likelihood(resolved, sd, noise)
        assert float(found) == pytest.approx(expected, rel=1e-8, abs=1e-8)
    x, step = np.concatenate([sd, noise]), 1e-5

    def dense(x):
        return dense_log_likelihood(resolved, x[: sd.size], x[sd.size :])

    differences = [(dense(x + step * e) - dense(x - step * e)) / (2 * step) for e in np.eye(x.size)]
    np.testing.assert_allclose(np.concatenate(slopes), differences, rtol=1e-5, atol=1e-5)


def test_the_value_alone_is_that_beside_the_gradient():
    resolved = resolved_of("generations, unbalanced")
    m = pass_of(resolved)[1]
    sd, noise = map(jnp.asarray, random_scales(resolved, 4))
    alone = float(jax.jit(log_likelihood)(sd, noise, m))
    assert alone == pytest.approx(float(evaluate(sd, noise, m)[0]), rel=1e-12)


@pytest.mark.parametrize("name", ["generations, unbalanced", "offsets per backbone", "languages"])
@pytest.mark.parametrize("size", [0.0, 1e-9, 1e6])
def test_extreme_scales_are_finite(name, size):
    resolved = resolved_of(name)
    m = pass_of(resolved)[1]
    sd, noise = random_scales(resolved, 1)
    for extreme in (np.full(sd.size, size), np.where(np.arange(sd.size) % 2, size, sd)):
        value, slopes = evaluate(jnp.asarray(extreme), jnp.asarray(noise), m)
        assert np.isfinite(value)
        assert np.isfinite(np.concatenate(slopes)).all()
        if size < 1:
            expected = dense_log_likelihood(resolved, extreme, noise)
            assert float(value) == pytest.approx(expected, rel=1e-8, abs=1e-8)
        drawn = draw_once(jax.random.key(0), jnp.asarray(extreme), jnp.asarray(noise), m)
        assert all(np.isfinite(part).all() for part in drawn)


def test_zero_scales_draw_zero_effects():
    resolved = resolved_of("generations")
    layout, m = pass_of(resolved)
    sd, noise = random_scales(resolved, 1)
    dense, block = draw_once(jax.random.key(0), jnp.zeros(sd.size), jnp.asarray(noise), m)
    assert not np.any(dense)
    assert not np.any(block)
    assert layout.leaf is not None


# Draws of the effects


def matrix_of_coordinates(resolved, layout):
    """Map (dense, block) coordinates to the intercept and all effects, leaves left out."""
    p, q = layout.dense_sd_index.size, layout.block_sd_index.size
    rows = [np.eye(1, p + layout.n_blocks * q)]
    start = 1
    for columns in layout.dense:
        width = columns.basis.shape[1]
        part = np.zeros((columns.term.n_levels, p + layout.n_blocks * q))
        part[:, start : start + width] = columns.basis
        rows.append(part)
        start += width
    start = 0
    for columns in layout.block:
        term, width = columns.term, columns.basis.shape[1]
        axis = term.dims.index(layout.block_facet)
        levels = np.moveaxis(np.arange(term.n_levels).reshape(term.shape), axis, 0)
        part = np.zeros((term.n_levels, p + layout.n_blocks * q))
        for s in range(layout.n_blocks):
            at = p + s * q + start
            part[levels[s].ravel(), at : at + width] = columns.basis
        rows.append(part)
        start += width
    return np.vstack(rows)


def dense_posterior(resolved, layout, sd, noise):
    """Mean and covariance of intercept and effects given the scales."""
    terms = [*layout.dense, *layout.block]
    own = dict(zip((t.name for t in resolved.terms), scales_of_terms(resolved, sd), strict=True))
    blocks = [np.full((1, 1), sd[-1] ** 2)]
    blocks += [term_covariance(c.term, own[c.term.name]) for c in terms]
    size = sum(b.shape[0] for b in blocks)
    prior = np.zeros((size, size))
    design = np.zeros((resolved.score.size, size))
    design[:, 0] = 1.0
    start = 0
    for block, columns in zip(blocks, [None, *terms], strict=True):
        stop = start + block.shape[0]
        prior[start:stop, start:stop] = block
        if columns is not None:
            design[np.arange(len(design)), start + columns.term.codes] = 1.0
        start = stop
    error = dense_covariance(resolved, sd, noise, [c.term.name for c in terms])
    v = design @ prior @ design.T + error
    gain = np.linalg.solve(v, design @ prior).T
    y = resolved.score - resolved.location
    return gain @ y, prior - gain @ design @ prior


@pytest.mark.parametrize(
    "name", ["balanced", "generations, unbalanced", "offsets per backbone", "random judge"]
)
def test_draws_have_the_mean_and_covariance_of_the_dense_conditional(name):
    resolved = resolved_of(name)
    layout, m = pass_of(resolved)
    sd, noise = random_scales(resolved, 5)
    n_draws = 20_000
    keys = jax.random.split(jax.random.key(11), n_draws)
    draw = jax.jit(jax.vmap(lambda key: draw_effects(key, jnp.asarray(sd), jnp.asarray(noise), m)))
    dense, block = (np.asarray(part) for part in draw(keys))
    coordinates = np.hstack([dense, block.reshape(n_draws, -1)])
    effects = coordinates @ matrix_of_coordinates(resolved, layout).T
    mean, covariance = dense_posterior(resolved, layout, sd, noise)
    width = np.sqrt(np.diag(covariance))
    z_mean = (effects.mean(axis=0) - mean) / (width / np.sqrt(n_draws))
    found = np.cov(effects.T)
    # The standard error of a covariance of gaussian draws.
    error = np.sqrt((np.outer(width, width) ** 2 + covariance**2) / n_draws)
    z_covariance = ((found - covariance) / error)[np.tril_indices(width.size)]
    for z in (z_mean, z_covariance):
        p_smallest = 2 * stats.norm.sf(np.abs(z).max())
        assert p_smallest * z.size > 1e-4


# The pass


@pytest.mark.parametrize("name", sorted(DESIGNS))
def test_shapes_of_the_pass(name):
    resolved = resolved_of(name)
    layout = lay_out(resolved)
    assert layout is not None
    found = cross_products(resolved, layout)
    n_patterns, n_slices, q, p = found.zx.shape
    n_noise = max(len(resolved.residual_labels), 1)
    assert n_slices == n_noise + found.pair_key.size
    assert q == layout.block_sd_index.size
    assert p == layout.dense_sd_index.size
    assert found.zz.shape == (n_patterns, n_slices, q, q)
    assert found.zy.shape == (layout.n_blocks, n_slices, q)
    assert found.xx.shape == (n_slices, p, p)
    assert found.xy.shape == (n_slices, p)
    assert found.yy.shape == (n_slices,)
    assert found.pattern.shape == (layout.n_blocks,)
    assert found.pattern_count.sum() == layout.n_blocks
    assert found.n_rows.sum() == resolved.score.size
    assert found.n_rows.shape == (n_noise,)
    assert found.leaf_rows.shape == (found.leaf_count.size, n_noise)
    assert found.leaf_count.sum() == layout.leaf_sd_index.size
    assert layout.n_sd == int(sd_offsets(resolved.terms)[-1]) + 1
    assert isinstance(found.cost, float)
    assert found.cost > 0
    if layout.leaf is not None:
        assert found.leaf_count @ found.leaf_rows.sum(axis=1) == resolved.score.size


def test_a_balanced_table_has_one_pattern():
    for name in ("balanced", "generations", "languages"):
        resolved = resolved_of(name)
        layout = lay_out(resolved)
        assert layout is not None
        assert layout.block_facet == "scenario"
        assert cross_products(resolved, layout).zz.shape[0] == 1


def test_the_random_facet_with_most_levels_makes_the_blocks():
    layout = lay_out(resolved_of("more random judges than scenarios"))
    assert layout is not None
    assert layout.block_facet == "judge"
    assert layout.n_blocks == 5


def test_models_that_cannot_be_split():
    scores = read_scores(frame_of(**G2))
    by_block = with_terms(Term(("scenario",), scale_by("scenario")))
    leaf_by_block = with_terms(
        Term(("scenario",), half_normal(1.0)), Term(("generation",), scale_by("scenario"))
    )
    crossed_leaf = with_terms(Term(("generation", "judge"), half_normal(1.0)))
    crossed_leaf = replace(crossed_leaf, residual=half_normal(1.0))
    for spec in (by_block, leaf_by_block):
        assert lay_out(resolve(spec, scores)) is None
    doubled = read_scores(pd.concat([frame_of(**G2)] * 2), replicates=True)
    resolved = resolve(crossed_leaf, doubled)
    assert any(t.dims == ("judge", "generation") for t in resolved.terms)
    assert lay_out(resolved) is None


def test_a_facet_that_is_centred_makes_no_blocks():
    spec = with_terms(Term(("scenario",), half_normal(1.0), ("scenario",)))
    resolved = resolve(spec, read_scores(frame_of(**B3)))
    layout, m = pass_of(resolved)
    assert layout.block_facet is None
    sd, noise = random_scales(resolved, 3)
    found = float(log_likelihood(jnp.asarray(sd), jnp.asarray(noise), m))
    assert found == pytest.approx(dense_log_likelihood(resolved, sd, noise), rel=1e-8)


@given(st.integers(1, 30))
def test_contrasts_are_orthonormal_and_sum_to_zero(n):
    basis = contrasts(n)
    assert basis.shape == (n, n - 1)
    np.testing.assert_allclose(basis.T @ basis, np.eye(n - 1), atol=1e-12)
    np.testing.assert_allclose(basis.sum(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(basis @ basis.T, np.eye(n) - 1 / n, atol=1e-12)


# The model with every effect sampled


def random_point(resolved, rng):
    """A value for each sampled site of :func:`effects_model`."""
    values = {"intercept": np.array(resolved.location + rng.normal())}
    for site in scale_sites(resolved):
        if site.n_by:
            values[f"{site.name}_center"] = np.array(rng.lognormal())
            values[f"{site.name}_spread"] = np.array(rng.lognormal(-1))
            values[f"{site.name}_z"] = rng.normal(size=site.n_by)
        else:
            values[site.name] = np.array(rng.lognormal())
    for term in resolved.terms:
        zeros = [a for a, centred in enumerate(term.centred) if centred]
        free = [a for a, centred in enumerate(term.centred) if not centred]
        z = rng.normal(size=term.shape)
        for axis in zeros:
            z = z - z.mean(axis=axis, keepdims=True)
        values[f"{term.variable}_z"] = np.transpose(z, [*free, *zeros]) if zeros else z
    return values


def log_prior_of_scale(prior, value, unit):
    if prior.distribution == "lognormal":
        mu, width = prior.parameters
        return stats.lognorm(s=width, scale=unit * np.exp(mu)).logpdf(value)
    return stats.halfnorm(scale=unit * prior.parameters[0]).logpdf(value)


def log_joint(resolved, values):
    """The same log density in NumPy, up to a constant."""
    unit = resolved.unit
    width = resolved.spec.intercept.parameters[0] * unit
    total = stats.norm(resolved.location, width).logpdf(values["intercept"])
    scales = {}
    for site in scale_sites(resolved):
        if site.n_by:
            center, spread = values[f"{site.name}_center"], values[f"{site.name}_spread"]
            z = values[f"{site.name}_z"]
            total += log_prior_of_scale(site.scale.center, center, unit)
            total += log_prior_of_scale(site.scale.spread, spread, 1.0)
            total += stats.norm.logpdf(z).sum()
            scales[site.name] = center * np.exp(spread * z)
        else:
            total += log_prior_of_scale(site.scale.center, values[site.name], unit)
            scales[site.name] = values[site.name][None]
    mean = np.full(resolved.score.size, values["intercept"])
    for term in resolved.terms:
        z = values[f"{term.variable}_z"]
        total += -0.5 * np.sum(z**2)
        zeros = [a for a, centred in enumerate(term.centred) if centred]
        free = [a for a, centred in enumerate(term.centred) if not centred]
        effect = np.transpose(z, np.argsort([*free, *zeros])).ravel()
        by = np.zeros(term.n_levels, int) if term.by_codes is None else term.by_codes
        mean = mean + (scales[f"{term.variable}_sd"][by] * effect)[term.codes]
    noise = noise_of_rows(resolved, scales["sigma"] ** 2 + resolved.noise_floor**2)
    return total + stats.norm(mean, np.sqrt(noise)).logpdf(resolved.score).sum()


@pytest.mark.parametrize(
    "name",
    [
        "generations, common scales",
        "languages and generations, unbalanced",
        "offsets per backbone",
        "random judge",
        "residual by judge",
        "centred within blocks",
    ],
)
def test_the_model_with_every_effect_has_the_density_of_its_twin(name):
    resolved = resolved_of(name)
    rng = np.random.default_rng(2)
    sites = scale_sites(resolved)
    density = jax.jit(
        lambda p: log_density(effects_model, (sites, resolved.terms, resolved), {}, p)[0]
    )
    gaps = []
    for _ in range(3):
        values = random_point(resolved, rng)
        arrays = {key: jnp.asarray(value) for key, value in values.items()}
        gaps.append(float(density(arrays)) - log_joint(resolved, values))
    np.testing.assert_allclose(gaps, gaps[0], rtol=0, atol=1e-7)


def test_named_effects_are_drawn_from_the_dense_conditional():
    resolved = resolved_of("generations, unbalanced")
    collapsed = collapse(resolved)
    assert collapsed is not None
    n_draws = 6000
    # Coordinates of zero: the same scales for every draw.
    at_origin = np.zeros((1, n_draws, collapsed.size))
    drawn = finish(collapsed, at_origin, Settings(nested_effects=True), {})
    sd = [np.atleast_1d(drawn.scales[f"{t.variable}_sd"][0, 0]) for t in resolved.terms]
    width = resolved.spec.intercept.parameters[0] * resolved.unit
    sd = np.concatenate([*sd, [width]])
    noise = drawn.scales["sigma"][0, 0] ** 2
    v = dense_covariance(resolved, sd, noise) + width**2
    y = resolved.score - resolved.location
    owned = zip(resolved.terms, scales_of_terms(resolved, sd), strict=True)
    for term, own in owned:
        prior = term_covariance(term, own)
        cross = prior[:, term.codes]
        mean = cross @ np.linalg.solve(v, y)
        spread = np.sqrt(np.diag(prior - cross @ np.linalg.solve(v, cross.T)))
        found = drawn.effects[term.variable].reshape(n_draws, -1)
        z = (found.mean(axis=0) - mean) / (spread / np.sqrt(n_draws))
        assert np.abs(z).max() < 5
        np.testing.assert_allclose(found.std(axis=0), spread, rtol=5 / np.sqrt(2 * n_draws))
    z = (drawn.intercept.mean() - resolved.location - width**2 * np.linalg.solve(v, y).sum()) / (
        drawn.intercept.std() / np.sqrt(n_draws)
    )
    assert abs(z) < 5
