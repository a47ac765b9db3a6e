"""The gaussian likelihood with every effect integrated out, against dense matrices."""

from __future__ import annotations

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

from bayesjudge.engines.coordinates import scale_sites
from bayesjudge.engines.cross_products import contrasts, cross_products, lay_out
from bayesjudge.engines.effects import sd_offsets
from bayesjudge.engines.marginal import draw_effects, log_likelihood, moments
from bayesjudge.engines.numpyro import effects_model
from bayesjudge.resolution import resolve
from bayesjudge.scores import read_scores
from bayesjudge.spec import Term
from tests.dense_twin import (
    B3,
    DESIGNS,
    G2,
    dense_covariance,
    dense_log_likelihood,
    frame_of,
    half_normal,
    noise_of_rows,
    random_scales,
    resolved_of,
    scale_by,
    scales_of_terms,
    term_covariance,
    with_terms,
)


@pytest.fixture(autouse=True)
def _double_precision():
    with jax.enable_x64(True):
        yield


def pass_of(resolved):
    layout = lay_out(resolved)
    assert layout is not None
    return layout, moments(cross_products(resolved, layout), layout)


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
