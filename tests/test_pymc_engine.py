"""The PyMC engine: its posterior, its names, its samplers, and where it is missing."""

from __future__ import annotations

import importlib
import sys
from dataclasses import replace
from importlib.metadata import PackageNotFoundError

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from arviz_stats.base import array_stats
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import bayesjudge as bj
from bayesjudge.engines import Settings, load_engine
from bayesjudge.engines import pymc as engine
from bayesjudge.engines.coordinates import scale_sites
from bayesjudge.errors import UsageError
from bayesjudge.resolution import resolve
from bayesjudge.scores import read_scores
from bayesjudge.spec import Prior, Scale, Term
from tests.dense_twin import COMMON, DESIGNS, frame_of, half_normal, resolved_of, scale_by

SAMPLERS = ("nutpie", "pymc")

# Every kind of term: two centred axes, scales by backbone, nested generations.
SPEC = replace(
    COMMON,
    name="every kind",
    terms=(
        Term(("backbone",), half_normal(2.0)),
        Term(("backbone", "judge"), half_normal(0.5)),
        Term(("backbone", "scenario"), scale_by("backbone")),
        Term(("generation",), half_normal(1.0)),
    ),
    residual=scale_by("backbone"),
)
FRAME = frame_of(seed=3, drop=7, backbone=3, scenario=5, judge=2, generation=2)
SCORES = read_scores(FRAME.reset_index(drop=True))

# Little to compile; a scale is fixed.
TINY = replace(
    COMMON,
    name="tiny",
    terms=(
        Term(("backbone",), half_normal(2.0)),
        Term(("judge",), Scale(Prior("fixed", (0.7,)))),
        Term(("generation",), half_normal(1.0)),
    ),
)


@pytest.fixture(scope="module", params=SAMPLERS)
def sampler(request):
    return request.param


@pytest.fixture(scope="module")
def sampled(sampler):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine, "choose_sampler", lambda: sampler)
        settings = {"draws": 1500, "tune": 1000, "chains": 2, "target_accept": 0.98}
        return bj.fit(SCORES, SPEC, "pymc", random_seed=5, nested_effects=True, **settings)


@pytest.fixture(scope="module")
def exact():
    return bj.fit(SCORES, SPEC, "exact", draws=4000, chains=4)


def test_what_ran_is_said(sampled, sampler):
    said = {"nutpie": "nuts by nutpie", "pymc": "nuts"}
    assert sampled.metadata["engine"] == "pymc"
    assert sampled.metadata["method"] == said[sampler]


def test_it_converges_without_divergences(sampled):
    found = sampled.convergence
    assert found.converged, found.reasons
    assert found.divergences == 0


def columns(fit, name):
    """Draws of one variable, (chain, draw, entries)."""
    values = fit.posterior["posterior"][name].to_numpy()
    return values.reshape(*values.shape[:2], -1)


def test_the_posterior_is_the_exact_engines(sampled, exact):
    weighted_ess = exact.posterior["sample_stats"].attrs["weighted_ess"]
    names = (
        *("backbone_mean", "backbone_judge_effect", "backbone_sd", "backbone_judge_sd"),
        *("backbone_scenario_sd", "backbone_scenario_sd_center", "backbone_scenario_sd_spread"),
        *("generation_sd", "sigma", "sigma_center", "sigma_spread"),
    )
    z = []
    for name in names:
        ours, theirs = columns(exact, name), columns(sampled, name)
        center = ours.mean(axis=(0, 1))
        # Means, and spreads about one center.
        for a, b in ((ours, theirs), ((ours - center) ** 2, (theirs - center) ** 2)):
            errors = [
                array_stats.mcse(b[..., i], chain_axis=0, draw_axis=1, method="mean")
                for i in range(b.shape[-1])
            ]
            own = a.std(axis=(0, 1)) / np.sqrt(weighted_ess)
            gap = a.mean(axis=(0, 1)) - b.mean(axis=(0, 1))
            z.extend(gap / np.hypot(errors, own))
    assert np.isfinite(z).all()
    assert stats.norm.sf(np.abs(z).max()) * 2 * len(z) > 1e-3


def test_effects_sum_to_zero_over_the_panel(sampled):
    posterior = sampled.posterior["posterior"]
    for name in ("backbone_effect", "backbone_judge_effect"):
        for dim in posterior[name].dims[2:]:
            np.testing.assert_allclose(posterior[name].sum(dim), 0, atol=1e-10)
    assert (posterior["backbone_scenario_effect"].sum("backbone").std() > 0.01).all()


def shapes(tree, group):
    return {str(k): (v.dims, v.dtype.kind) for k, v in tree[group].data_vars.items()}


@pytest.fixture(scope="module")
def twin():
    settings = {"draws": 4, "tune": 4, "chains": 1, "integrate": False}
    return bj.fit(SCORES, SPEC, "numpyro", nested_effects=True, **settings)


def test_names_and_dims_are_numpyros(sampled, twin):
    for group in ("posterior", "sample_stats"):
        assert shapes(sampled.posterior, group) == shapes(twin.posterior, group)
    posterior, other = sampled.posterior["posterior"], twin.posterior["posterior"]
    for dim in set(posterior.dims) - {"chain", "draw"}:
        assert list(posterior.coords[dim].values) == list(other.coords[dim].values)
    assert all(np.isfinite(values).all() for values in posterior.data_vars.values())


def test_sample_stats_mean_what_their_names_say(sampled):
    found = sampled.posterior["sample_stats"]
    assert found["diverging"].dtype == bool
    assert (found["n_steps"] >= 1).all()
    assert ((found["acceptance_rate"] > 0) & (found["acceptance_rate"] <= 1)).all()
    # The energy is the potential's and a momentum's, so it is higher.
    assert (found["energy"] > -found["lp"] - 1e-6).all()


# Settings


@pytest.fixture(scope="module")
def tiny():
    return resolve(TINY, SCORES)


def test_settings_are_heeded_and_seeds_reproduce(tiny, sampler, monkeypatch, capfd):
    asked = []
    right = pm.sample

    def spy(**options):
        asked.append(options)
        return right(**options)

    monkeypatch.setattr(engine.pm, "sample", spy)
    monkeypatch.setattr(engine, "choose_sampler", lambda: sampler)
    settings = Settings(
        draws=30, tune=40, chains=3, target_accept=0.85, nested_effects=True, progress=True
    )
    first = engine.sample(tiny, settings)
    written = capfd.readouterr()
    assert written.out == ""
    assert written.err
    quiet = replace(settings, progress=False)
    again, other = (engine.sample(tiny, replace(quiet, random_seed=seed)) for seed in (0, 8))
    assert capfd.readouterr() == ("", "")
    assert asked[0]["tune"] == 40
    assert asked[0]["nuts"] == {"target_accept": 0.85}
    assert first.intercept.shape == (3, 30)
    assert first.effects["generation"].shape[2:] == tiny.term("generation").shape
    for name in first.effects:
        np.testing.assert_array_equal(first.effects[name], again.effects[name])
    np.testing.assert_array_equal(first.intercept, again.intercept)
    np.testing.assert_array_equal(first.scales["sigma"], again.scales["sigma"])
    assert not np.any(first.intercept == other.intercept)
    assert not np.any(first.intercept[0] == first.intercept[1])
    np.testing.assert_array_equal(first.scales["judge_sd"], 0.7 * tiny.unit)
    assert (first.scales["sigma"] >= tiny.noise_floor).all()


def test_a_trajectory_beyond_all_numbers_makes_no_noise(monkeypatch):
    flat = Term(("judge",), Scale(Prior("fixed", (1e6,))))
    resolved = resolve(replace(TINY, terms=(TINY.terms[0], flat)), SCORES)
    monkeypatch.setattr(engine, "choose_sampler", lambda: "pymc")
    # NumPy's overflow there would be an error here, as every warning is.
    draws = engine.sample(resolved, Settings(draws=50, tune=100, chains=2))
    assert np.isfinite(draws.effects["judge"]).all()


def version_or(found):
    def version(name):
        assert name == "nutpie"
        if found is None:
            raise PackageNotFoundError(name)
        return found

    return version


@given(st.tuples(*[st.integers(0, 30)] * 3), st.sampled_from(["", "rc1", ".post2"]))
def test_the_sampler_is_nutpie_where_pymc_takes_it(numbers, suffix):
    with pytest.MonkeyPatch.context() as patch:
        found = ".".join(map(str, numbers)) + suffix
        patch.setattr(engine, "version", version_or(found))
        assert engine.choose_sampler() == ("nutpie" if numbers >= (0, 16, 10) else "pymc")
        patch.setattr(engine, "version", version_or(None))
        assert engine.choose_sampler() == "pymc"


# The model


@pytest.mark.parametrize("design", sorted(DESIGNS))
def test_dims_are_facets_and_no_variable_bears_ones_name(design):
    resolved = resolved_of(design)
    model = engine.effects_model(resolved)
    labels = dict(resolved.labels)
    assert {name: tuple(values) for name, values in model.coords.items()} == labels
    assert set(model.named_vars).isdisjoint(model.coords)
    for term in resolved.terms:
        assert model.named_vars_to_dims[f"{term.variable}_effect"] == term.dims
        z = model.named_vars_to_dims[f"{term.variable}_z"]
        assert set(z) == set(term.dims)
        n_free = term.centred.count(False)
        assert set(z[:n_free]) == {d for d, c in zip(term.dims, term.centred, strict=True) if not c}


def test_labels_of_any_kind_and_facets_of_awkward_names():
    frame = frame_of(backbone=3, scenario=3, judge=2, scores=2, observation=2, score_z=2)
    frame["backbone"] = frame["backbone"].map(
        {"backbone0": "nan", "backbone1": "模型 ‮", "backbone2": "01"}
    )
    scores = read_scores(frame, facets=["scores", "observation"], random=["score_z"])
    resolved = resolve(COMMON, scores)
    model = engine.effects_model(resolved)
    assert set(model.coords["backbone"]) == {"nan", "模型 ‮", "01"}
    assert {"scores", "observation", "score_z"} <= set(model.coords)
    assert np.isfinite(model.compile_logp(sum=False, mode="FAST_COMPILE")(model.initial_point())[0])


# From PyMC's draws to ours: draws of the prior stand in for the sampler's


STATS = {
    "nutpie": ("diverging", "n_steps", "mean_tree_accept", "logp", "energy"),
    "pymc": ("diverging", "n_steps", "acceptance_rate", "lp", "energy"),
}


@pytest.mark.parametrize("named_by", SAMPLERS)
@pytest.mark.parametrize(
    "design", ["centred within blocks", "generation scales by scenario", "residual by judge"]
)
def test_draws_are_labelled_as_the_model_means_them(design, named_by, monkeypatch):
    resolved = resolved_of(design)
    settings = Settings(draws=6, tune=1, chains=1, nested_effects=True)
    raw = {}

    def prior_draws(*, model, **_):
        with model:
            tree = pm.sample_prior_predictive(
                6, random_seed=1, compile_kwargs={"mode": "FAST_COMPILE"}
            )
        raw.update(tree["prior"].data_vars)
        columns = enumerate(STATS[named_by])
        stats = {k: (("chain", "draw"), np.full((1, 6), i)) for i, k in columns}
        return xr.DataTree.from_dict(
            {"posterior": tree["prior"].to_dataset(), "sample_stats": xr.Dataset(stats)}
        )

    monkeypatch.setattr(engine.pm, "sample", prior_draws)
    draws = engine.sample(resolved, settings)
    for term in resolved.terms:
        sd = raw[f"{term.variable}_sd"].to_numpy()
        np.testing.assert_array_equal(draws.scales[f"{term.variable}_sd"], sd)
        by = np.zeros(term.n_levels, int) if term.by_codes is None else term.by_codes
        own = sd.reshape(1, 6, -1)[..., by].reshape(1, 6, *term.shape)
        z = raw[f"{term.variable}_z"].transpose("chain", "draw", *term.dims).to_numpy()
        np.testing.assert_allclose(draws.effects[term.variable], own * z, rtol=1e-12)
    expected = raw["sigma"] ** 2 + resolved.noise_floor**2
    np.testing.assert_allclose(draws.scales["sigma"] ** 2, expected, rtol=1e-12)
    np.testing.assert_array_equal(draws.intercept, raw["intercept"])
    parts = {f"{s.name}_{p}" for s in scale_sites(resolved) if s.n_by for p in ("center", "spread")}
    assert set(draws.hyper) == parts
    assert all(draws.hyper[name].shape == (1, 6) for name in parts)
    assert [int(draws.sample_stats[name][0, 0]) for name in STATS["pymc"]] == [0, 1, 2, 3, 4]


# Where PyMC is missing


@pytest.fixture
def without_pymc(monkeypatch):
    monkeypatch.setitem(sys.modules, "pymc", None)
    monkeypatch.delitem(sys.modules, "bayesjudge.engines.pymc")
    yield
    # The package remembers its module; the import that failed must not leave another.
    importlib.import_module("bayesjudge.engines").pymc = engine


def test_a_missing_extra_is_named(without_pymc):
    message = r"pymc engine needs a package that is not installed: pymc.*Install bayesjudge\[pymc\]"
    with pytest.raises(UsageError, match=message):
        load_engine("pymc")
    with pytest.raises(UsageError, match=message):
        bj.fit(SCORES, SPEC, "pymc")


def test_a_missing_extra_on_the_command_line(without_pymc, tmp_path, capsys, monkeypatch):
    table = tmp_path / "scores.csv"
    FRAME.to_csv(table, index=False)
    monkeypatch.setattr(sys, "argv", ["bayesjudge", "rank", str(table), "--engine", "pymc"])
    from bayesjudge.cli import main

    with pytest.raises(SystemExit) as end:
        main()
    written = capsys.readouterr()
    assert end.value.code == 2
    assert written.out == ""
    assert "bayesjudge[pymc]" in " ".join(written.err.split())
    assert "Traceback" not in written.err


def test_the_engine_is_found_by_name():
    assert load_engine("pymc") is engine.sample
