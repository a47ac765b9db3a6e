"""Gaussian models with discrimination: the density without effects, and effects given the rest."""

from dataclasses import replace

import jax
import numpy as np
import pytest
from scipy import stats

from bayesjudge.engines import Settings, numpyro
from bayesjudge.engines.effects import sd_offsets
from bayesjudge.engines.scaled import Coordinates, log_likelihood, potential_of, sample_scaled
from bayesjudge.engines.scaled_blocks import lay_blocks, stats_of
from bayesjudge.engines.scaled_effects import draw_effects
from bayesjudge.errors import ModelError
from bayesjudge.resolution import resolve
from bayesjudge.scores import read_scores
from bayesjudge.spec import Prior, Term, read_model
from tests.dense_twin import frame_of, half_normal

SPEC = read_model("judge_scale")
CENTRED = replace(
    SPEC,
    name="own",
    terms=(*SPEC.terms[:1], Term(("backbone", "scenario"), half_normal(1.0), ("backbone",))),
    discrimination=replace(SPEC.discrimination, spread=Prior("fixed", (0.3,))),
)
B3 = {"backbone": 3, "scenario": 5, "judge": 3}
TABLES = {
    "balanced": (SPEC, frame_of(**B3), {}),
    "generations, unbalanced": (SPEC, frame_of(drop=13, generation=2, **B3), {}),
    "languages": (SPEC, frame_of(backbone=3, scenario=3, judge=2, language=2, generation=2), {}),
    "one scenario": (SPEC, frame_of(drop=2, backbone=3, scenario=1, judge=3, generation=3), {}),
    "no scenario": (SPEC, frame_of(backbone=3, judge=3, language=3), {}),
    "centred in blocks, fixed spread": (CENTRED, frame_of(drop=3, **B3), {}),
    "random language": (SPEC, frame_of(language=2, **B3), {"random": ["language"]}),
}


def table(name):
    spec, frame, options = TABLES[name]
    return resolve(spec, read_scores(frame.reset_index(drop=True), **options))


def covariances(resolved, sd, noise, factors):
    """Of each term's effects, of scores, and between the two: all written out."""
    factor = factors[resolved.discrimination.codes]
    total = np.diag(noise[resolved.residual_by]) + sd[-1] ** 2
    found = {}
    for term, start in zip(resolved.terms, sd_offsets(resolved.terms), strict=False):
        own = np.ones((1, 1))
        for size, zero in zip(term.shape, term.centred, strict=True):
            own = np.kron(own, np.eye(size) - (1 / size if zero else 0))
        by = np.zeros(term.n_levels, int) if term.by_codes is None else term.by_codes
        scale = sd[start + by]
        own = own * np.outer(scale, scale)
        weight = factor if "judge" not in term.dims else np.ones_like(factor)
        across = own[:, term.codes] * weight
        total = total + weight[:, None] * across[term.codes]
        found[term.variable] = own, across
    return total, found


@pytest.mark.parametrize("name", TABLES)
def test_the_density_without_effects_is_that_of_one_normal_vector(name):
    resolved = table(name)
    blocks, coordinates = lay_blocks(resolved), Coordinates(resolved)
    seen = stats_of(blocks, resolved.score, resolved.location)
    rng = np.random.default_rng(0)
    with jax.enable_x64(True):
        for start in coordinates.start(rng, 2):
            at = coordinates.place(start + rng.normal(0, 0.5, start.size))
            total, _ = covariances(resolved, at.sd, at.noise, at.factors)
            middle = np.full(resolved.score.size, resolved.location)
            dense = stats.multivariate_normal(middle, total).logpdf(resolved.score)
            ours = log_likelihood(blocks, seen, at.sd, at.noise, at.factors)
            assert float(ours) == pytest.approx(dense, rel=1e-9)


@pytest.mark.parametrize("name", ["balanced", "generations, unbalanced", "no scenario"])
def test_effects_are_drawn_from_their_conditional(name):
    resolved = table(name)
    blocks, coordinates = lay_blocks(resolved), Coordinates(resolved)
    rng = np.random.default_rng(1)
    at = coordinates.place(coordinates.start(rng, 1)[0])
    n = 4000
    every = [np.repeat(part[None], n, axis=0) for part in (at.sd, at.noise, at.factors)]
    drawn, intercept = draw_effects(resolved, blocks, *every, rng)
    total, parts = covariances(resolved, at.sd, at.noise, at.factors)
    gap = np.linalg.solve(total, resolved.score - resolved.location)
    checked = {name: (drawn[name], own, across) for name, (own, across) in parts.items()}
    flat = np.full((1, resolved.score.size), at.sd[-1] ** 2)
    checked["intercept"] = ((intercept - resolved.location)[:, None], flat[:, :1], flat)
    for found, own, across in checked.values():
        mean = across @ gap
        cover = own - across @ np.linalg.solve(total, across.T)
        sd = np.sqrt(np.diag(cover))
        # Five standard errors of some hundred means and variances: one in 10,000 tests fails.
        assert (np.abs(found.mean(axis=0) - mean) < 5 * sd / np.sqrt(n) + 1e-12).all()
        ratio = found.var(axis=0) / np.maximum(np.diag(cover), 1e-12)
        assert (np.abs(ratio - 1) < 5 * np.sqrt(2 / n)).all()


def test_coordinates_have_the_priors_density():
    # log density of w and log spread against that of the factors' logs, written out.
    resolved = table("balanced")
    coordinates = Coordinates(resolved)
    rng = np.random.default_rng(2)
    values = []
    for _ in range(4):
        q = coordinates.start(rng, 1)[0]
        q[coordinates.n_scales + 1 :] = rng.normal(0, 1, 2)
        at = coordinates.place(q)
        assert np.log(at.factors).sum() == pytest.approx(0.0, abs=1e-12)
        scales = coordinates.place(np.r_[q[: coordinates.n_scales + 1], 0.0, 0.0]).log_prior
        own = at.log_prior - scales
        wide = np.sqrt(1 + coordinates.information * at.spread**2)
        logs = np.log(at.factors)
        # Density of the logs, with the Jacobian of w in them.
        normal = -0.5 * np.sum(logs**2) / at.spread**2
        values.append(own - normal)
        assert normal == pytest.approx(-0.5 * np.sum((q[-2:] / wide) ** 2))
    assert np.ptp(values) < 1e-12


def test_tables_too_large_for_blocks_are_sampled_effect_by_effect(monkeypatch):
    from bayesjudge.engines import scaled_blocks

    resolved = table("balanced")
    monkeypatch.setattr(scaled_blocks, "_MOST_NUMBERS", 100)
    assert lay_blocks(resolved) is None
    assert sample_scaled(resolved, Settings()) is None
    called = []
    monkeypatch.setattr(numpyro, "sample_family", lambda *given: called.append(given))
    numpyro.sample(resolved, Settings())
    assert len(called) == 1


def test_models_without_discrimination_have_no_blocks():
    plain = resolve(read_model("crossed"), read_scores(frame_of(**B3).reset_index(drop=True)))
    assert lay_blocks(plain) is None
    with pytest.raises(ModelError, match="no discrimination"):
        Coordinates(plain)


def test_the_potential_is_finite_where_chains_start():
    resolved = table("generations, unbalanced")
    blocks, coordinates = lay_blocks(resolved), Coordinates(resolved)
    seen = stats_of(blocks, resolved.score, resolved.location)
    with jax.enable_x64(True):
        value, slope = jax.value_and_grad(potential_of(coordinates, blocks))(
            coordinates.start(np.random.default_rng(0), 1)[0], seen
        )
    assert np.isfinite(value)
    assert np.isfinite(np.asarray(slope)).all()
