"""NumPyro and PyMC have one log density, for every model that is shipped and more.

Both are taken where their samplers walk, Jacobians included: each library's own
map carries a point there. Orthonormal maps of effects that sum to zero add
nothing, so the two may differ by one constant a table, and by no more.
"""

from __future__ import annotations

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytensor
import pytensor.tensor as pt
import pytest
from numpyro import handlers
from numpyro.distributions import biject_to, constraints
from numpyro.infer.util import constrain_fn, potential_energy

from bayesjudge.engines import numpyro as in_numpyro
from bayesjudge.engines import pymc as in_pymc
from bayesjudge.engines import pymc_likelihoods as likelihoods
from bayesjudge.engines.coordinates import scale_sites
from bayesjudge.resolution import resolve
from bayesjudge.scores import read_scores
from bayesjudge.spec import Covariate, Prior, Thresholds, models_folder, read_model
from tests.dense_twin import frame_of, resolved_of

MODELS = sorted(path.stem for path in models_folder().glob("*.toml"))
SIZES = {"backbone": 3, "scenario": 4, "judge": 3, "language": 2, "generation": 2}
TABLES = {
    "every term": (frame_of(**SIZES), {}),
    "missing cells": (frame_of(drop=41, **SIZES), {}),
    "user facets": (
        frame_of(drop=5, backbone=3, scenario=3, judge=2, criterion=2, rubric=3),
        {"facets": ["criterion"], "random": ["rubric"]},
    ),
}

BY_JUDGE = Thresholds("judge", Prior("half_normal", (0.5,)))
SLOPE = Prior("normal", (1.0,))
# Where a family counts scores together there is something to count.
AGAIN = pd.concat([frame_of(seed, drop=3, backbone=3, scenario=3, judge=2) for seed in range(4)])
VARIANTS = {
    "verdict by probit": ("verdict", {"link": "probit"}),
    "ordinal by probit": ("ordinal", {"link": "probit"}),
    "ordinal by judge": ("ordinal", {"thresholds": BY_JUDGE}),
    "ordinal by probit and judge": ("ordinal", {"link": "probit", "thresholds": BY_JUDGE}),
    "ordinal on a covariate": ("ordinal", {"covariates": (Covariate("length", SLOPE),)}),
    "crossed on covariates": (
        "crossed",
        {"covariates": (Covariate("nll", SLOPE), Covariate("length", Prior("normal", (0.3,))))},
    ),
    "robust, four degrees": ("robust", {"degrees_of_freedom": Prior("fixed", (4.0,))}),
}

# Of log densities that change by millions: rounding leaves 2e-15, and the smallest
# of the errors below makes 5e-4.
TOLERANCE = 1e-12
# JAX ends a series for the normal tail below -20 early: 4e-9 of each score's density.
PROBIT_TOLERANCE = 1e-9
N_POINTS = 10


@pytest.fixture(autouse=True)
def _double_precision():
    with jax.enable_x64(True):
        yield


def table_of(spec, name):
    """The named table with scores that the model's family takes, and its covariates."""
    frame, options = {**TABLES, "cells seen again": (AGAIN, {"replicates": True})}[name]
    frame = frame.reset_index(drop=True)
    rng = np.random.default_rng(1)
    for covariate in spec.covariates:
        frame[covariate.column] = rng.normal(size=len(frame))
    if spec.is_paired:
        frame = battles_of(frame)
    if spec.family == "bernoulli":
        frame["score"] = (frame["score"] > 5).astype(int)
    if spec.family == "cumulative":
        frame["score"] = frame["score"].round().clip(3, 7).astype(int)
        options = {**options, "scale": (3, 7)}
    columns = [covariate.column for covariate in spec.covariates]
    return resolve(spec, read_scores(frame, covariates=columns, **options))


def battles_of(frame):
    """Every answer against that of the next backbone on the same scenario, ties included."""
    backbones = sorted(frame["backbone"].unique())
    opponent = dict(zip(backbones, [*backbones[1:], backbones[0]], strict=True))
    winner = pd.cut(frame["score"], [-9, 4.5, 5.5, 99], labels=["b", "tie", "a"]).astype(str)
    paired = frame.drop(columns="score").rename(columns={"backbone": "model_a"})
    paired = paired.assign(model_b=paired["model_a"].map(opponent), winner=winner)
    # In both orders, or no model would be second in some pairs.
    turned = paired.iloc[::2].rename(columns={"model_a": "model_b", "model_b": "model_a"})
    return pd.concat([paired, turned], ignore_index=True)


def variant(name):
    """A shipped model but for some of its keys."""
    base, changes = VARIANTS[name]
    return replace(read_model(base), name="own", **changes)


def latent_sites(model, arguments):
    """Return a NumPyro model's latent sites by name, for their supports and shapes."""
    found = {}

    def note():
        found.update(handlers.trace(handlers.seed(model, 0)).get_trace(*arguments))
        return 0

    # Nothing is computed: only what is traced is wanted.
    jax.eval_shape(note)
    return {k: s for k, s in found.items() if s["type"] == "sample" and not s["is_observed"]}


class Twins:
    """One model on one table in both libraries."""

    def __init__(self, resolved):
        self.resolved = resolved
        if resolved.spec.is_linear:
            self.model = in_numpyro.effects_model
            self.arguments = (scale_sites(resolved), resolved.terms, resolved)
        else:
            self.model = in_numpyro.family_model
            self.arguments = (resolved, in_numpyro.lay_out(resolved, adapt=False))
        self.latent = latent_sites(self.model, self.arguments)
        self.shapes = {
            name: biject_to(site["fn"].support).inverse_shape(np.shape(site["value"]))
            for name, site in self.latent.items()
        }
        self.density = jax.jit(
            lambda p: (
                constrain_fn(self.model, self.arguments, {}, p),
                -potential_energy(self.model, self.arguments, {}, p),
            )
        )
        self.compare_with(in_pymc.effects_model(resolved))

    def compare_with(self, model):
        """Take a PyMC model, with its map from values of variables to coordinates."""
        self.pymc = model
        inputs, outputs, names = [], [], []
        for rv in self.pymc.free_RVs:
            value = rv.type(f"{rv.name}_value")
            transform = self.pymc.rvs_to_transforms[rv]
            inputs.append(value)
            outputs.append(
                transform.forward(value, *rv.owner.inputs) if transform is not None else value
            )
            names.append((rv.name, self.pymc.rvs_to_values[rv].name))
        self.values_of = pytensor.function(inputs, outputs, mode="FAST_COMPILE")
        self.names = names

    def points(self, seed=0):
        """Ten points of NumPyro's sampler, scales over orders of magnitude."""
        rng = np.random.default_rng(seed)
        for _ in range(N_POINTS):
            point = {}
            for name, shape in self.shapes.items():
                z = rng.normal(size=shape)
                if self.latent[name]["fn"].support is constraints.positive:
                    # A spread of many would put scales by a facet beyond all numbers.
                    few = name.endswith("_spread") or name == "cutpoints_sd"
                    z = np.log(10.0) * rng.uniform(-2, 0 if few else 1, shape)
                elif name == "intercept":
                    z = self.resolved.location + 2 * self.resolved.unit * z
                point[name] = jnp.asarray(z)
            yield point

    def in_pymc(self, values):
        """Values of variables in the coordinates of PyMC's sampler."""
        found = self.values_of(*(np.asarray(values[name], float) for name, _ in self.names))
        return {value: x for (_, value), x in zip(self.names, found, strict=True)}

    def gaps(self, jacobian=True):
        """PyMC's log density less NumPyro's at each point, and NumPyro's, from the first."""
        # Not summed: the mode that compiles fast adds up no more than 32 terms.
        density = self.pymc.compile_logp(jacobian=jacobian, sum=False, mode="FAST_COMPILE")
        values, ours = zip(*map(self.density, self.points()), strict=True)
        theirs = np.array([sum(map(np.sum, density(self.in_pymc(v)))) for v in values])
        ours = np.array(ours)
        gap = theirs - ours
        return gap - gap[0], ours - ours[0]


def largest_gap(twins, **options):
    """The largest difference of differences, relative to the densities' own."""
    gap, change = twins.gaps(**options)
    assert np.isfinite(gap).all()
    assert np.ptp(change) > 1
    return np.max(np.abs(gap) / np.maximum(np.abs(change), 1.0))


def assert_parity(twins):
    assert {name for name, _ in twins.names} == set(twins.latent)
    inside = twins.in_pymc(twins.density(next(twins.points()))[0])
    shapes = pytensor.function([], [rv.shape for rv in twins.pymc.free_RVs], mode="FAST_COMPILE")()
    for (name, value), shape in zip(twins.names, shapes, strict=True):
        assert np.shape(twins.latent[name]["value"]) == tuple(shape), name
        assert np.shape(inside[value]) == twins.shapes[name], name
    probit = twins.resolved.spec.link == "probit"
    assert largest_gap(twins) < (PROBIT_TOLERANCE if probit else TOLERANCE)


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("model", MODELS)
def test_both_libraries_have_one_density(model, table):
    spec = read_model(model)
    resolved = table_of(spec, table)
    if table == "every term":
        assert not resolved.dropped
    if table == "user facets":
        assert {"criterion", "rubric"} <= {t.name for t in resolved.terms}
    assert_parity(Twins(resolved))


@pytest.mark.parametrize("name", VARIANTS)
def test_one_density_for_keys_that_no_shipped_model_has(name):
    assert_parity(Twins(table_of(variant(name), "missing cells")))


@pytest.mark.parametrize("model", ["verdict", "ordinal"])
def test_one_density_where_scores_are_counted_together(model):
    twins = Twins(table_of(read_model(model), "cells seen again"))
    _, layout = twins.arguments
    counts = layout.seen.trials if model == "verdict" else layout.seen.count
    assert counts.max() > 1
    assert_parity(twins)


@pytest.mark.parametrize(
    "design",
    [
        "centred within blocks",
        "generation scales by scenario",
        "generations and more random judges than scenarios",
        "residual by judge",
    ],
)
def test_one_density_where_scales_and_centring_are_out_of_the_ordinary(design):
    assert_parity(Twins(resolved_of(design)))


def test_one_density_with_fixed_and_flat_scales():
    spec = read_model("crossed")
    prior = {
        "judge": Prior("fixed", (0.3,)),
        "scenario": Prior("lognormal", (-1.0, 0.7)),
        "backbone:judge": Prior("fixed", (3.0,)),
    }
    terms = tuple(
        replace(t, scale=replace(t.scale, center=prior.get(t.name, t.scale.center)))
        for t in spec.terms
    )
    residual = replace(spec.residual, spread=Prior("fixed", (0.4,)))
    resolved = table_of(replace(spec, name="fixed", terms=terms, residual=residual), "every term")
    twins = Twins(resolved)
    assert "judge_sd" not in twins.latent
    assert "sigma_spread" not in twins.latent
    assert_parity(twins)


# Wrong on purpose: what parity has to catch


@pytest.fixture(scope="module")
def crossed():
    with jax.enable_x64(True):
        return Twins(table_of(read_model("crossed"), "missing cells"))


def test_a_missing_jacobian_is_caught(crossed):
    crossed.compare_with(in_pymc.effects_model(crossed.resolved))
    assert largest_gap(crossed) < TOLERANCE
    assert largest_gap(crossed, jacobian=False) > 1e3 * TOLERANCE


def test_a_prior_of_another_width_is_caught(crossed, monkeypatch):
    right = in_pymc._sample_prior

    def wider(name, prior, unit):
        return right(name, prior, unit * 1.01 if name == "judge_sd" else unit)

    monkeypatch.setattr(in_pymc, "_sample_prior", wider)
    crossed.compare_with(in_pymc.effects_model(crossed.resolved))
    assert largest_gap(crossed) > 1e3 * TOLERANCE


def test_a_missing_floor_of_the_residual_is_caught(crossed, monkeypatch):
    monkeypatch.setattr(in_pymc, "floored", lambda sigma, _: sigma**2)
    crossed.compare_with(in_pymc.effects_model(crossed.resolved))
    assert largest_gap(crossed) > 1e3 * TOLERANCE


def test_effects_on_the_wrong_scores_are_caught(crossed):
    first, *others = crossed.resolved.terms
    moved = replace(first, codes=(first.codes + 1) % first.n_levels)
    wrong = replace(crossed.resolved, terms=(moved, *others))
    crossed.compare_with(in_pymc.effects_model(wrong))
    assert largest_gap(crossed) > 1e3 * TOLERANCE


def test_effects_that_are_not_centred_are_caught(crossed):
    first, *others = crossed.resolved.terms
    free = replace(first, centred=(False,) * len(first.shape))
    crossed.compare_with(in_pymc.effects_model(replace(crossed.resolved, terms=(free, *others))))
    # Where the effects do sum to zero the densities differ by a constant even so.
    assert largest_gap(crossed) < TOLERANCE
    with pytest.raises(AssertionError, match=f"{first.variable}_z"):
        assert_parity(crossed)


@pytest.fixture(scope="module")
def by_judge():
    with jax.enable_x64(True):
        return Twins(table_of(variant("ordinal by judge"), "cells seen again"))


# Each the name of what the engine uses, and another in its stead.
WRONG = {
    "no density of the cutpoints": ("stop_logits_density", lambda x, _: pt.zeros_like(x).sum()),
    "no Jacobian of the cutpoints": (
        "stop_logits_density",
        lambda x, passes: pt.sum((passes - 1.0) * likelihoods.log_sigmoid(-x)),
    ),
    "a simplex that is not flat": (
        "stop_logits_density",
        lambda x, passes: likelihoods.stop_logits_density(x, passes + 1.0),
    ),
    "cutpoints that judges share": (
        "Cutpoints",
        lambda x, link, spacing: likelihoods.Cutpoints(x, link, 0.0 * spacing),
    ),
    "categories in the wrong place": (
        "cumulative_log_likelihood",
        lambda mean, cutpoints, last, link, seen: likelihoods.cumulative_log_likelihood(
            mean, cutpoints, last, link, replace(seen, category=(seen.category + 1) % (last + 1))
        ),
    ),
    "scores counted once": (
        "cumulative_log_likelihood",
        lambda mean, cutpoints, last, link, seen: likelihoods.cumulative_log_likelihood(
            mean, cutpoints, last, link, replace(seen, count=np.minimum(seen.count, 1.0))
        ),
    ),
}


@pytest.mark.parametrize("error", WRONG)
def test_an_error_in_categories_is_caught(by_judge, error, monkeypatch):
    name, wrong = WRONG[error]
    monkeypatch.setattr(in_pymc, name, wrong)
    by_judge.compare_with(in_pymc.effects_model(by_judge.resolved))
    assert largest_gap(by_judge) > 1e3 * TOLERANCE


def test_the_model_that_errors_are_put_into_has_none(by_judge):
    by_judge.compare_with(in_pymc.effects_model(by_judge.resolved))
    assert_parity(by_judge)


def test_other_degrees_of_freedom_are_caught():
    twins = Twins(table_of(read_model("robust"), "user facets"))
    prior = Prior("gamma", (2.0, 0.2))
    spec = replace(twins.resolved.spec, name="own", degrees_of_freedom=prior)
    twins.compare_with(in_pymc.effects_model(replace(twins.resolved, spec=spec)))
    assert largest_gap(twins) > 1e3 * TOLERANCE


def test_a_slope_of_the_wrong_column_is_caught():
    twins = Twins(table_of(variant("crossed on covariates"), "user facets"))
    first, second = twins.resolved.covariates
    swapped = (replace(first, values=second.values), replace(second, values=first.values))
    twins.compare_with(in_pymc.effects_model(replace(twins.resolved, covariates=swapped)))
    assert largest_gap(twins) > 1e3 * TOLERANCE
