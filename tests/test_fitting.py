"""From scores to a fit and from a fit to its answers, saved and read back."""

from __future__ import annotations

import importlib
import itertools
import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import bayesjudge as bj
from bayesjudge import sampling
from bayesjudge.engines import Draws, Settings, choose_engine, load_engine
from bayesjudge.engines.convergence import diagnose
from bayesjudge.engines.effects import is_kept
from bayesjudge.errors import DataError, ModelError, UsageError
from bayesjudge.spec import Prior, Scale, Term, read_model

CROSSED, COMMON = read_model("crossed"), read_model("crossed_common")
SMALL = {"backbone": 3, "scenario": 8, "judge": 3}


def frame_of(seed=0, labels=None, **sizes):
    """Scores of a crossing, with effects of backbone, judge and scenario in them."""
    sizes = sizes or SMALL
    names = {name: [f"{name}{i}" for i in range(n)] for name, n in sizes.items()}
    names.update(labels or {})
    rng = np.random.default_rng(seed)
    cells = pd.DataFrame(itertools.product(*map(range, sizes.values())), columns=list(sizes))
    score = 5 + rng.normal(0, 0.5, len(cells))
    for name, n in sizes.items():
        score = score + rng.normal(0, 0.7, n)[cells[name]]
    frame = pd.DataFrame({name: np.array(names[name], object)[cells[name]] for name in sizes})
    return frame.assign(score=score.round(3))


def scores_of(frame=None, **options):
    return bj.read_scores(frame_of() if frame is None else frame, **options)


# A made-up engine: the shape of an answer without the wait for it.


def made_up(resolved, settings):
    rng = np.random.default_rng(settings.random_seed)
    draws = (settings.chains, settings.draws)

    def sds(scale, labels):
        return rng.lognormal(-1, 0.2, (*draws, len(labels)) if scale.by else draws)

    scales = {f"{t.variable}_sd": sds(t.scale, t.by_labels) for t in resolved.terms}
    scales["sigma"] = sds(resolved.residual, resolved.residual_labels)
    hyper = {
        f"{name}_{part}": rng.lognormal(-1, 0.2, draws)
        for name, values in scales.items()
        if values.ndim > 2
        for part in ("center", "spread")
    }
    effects = {}
    for term in resolved.terms:
        values = rng.normal(size=(*draws, *term.shape))
        for axis, centred in enumerate(term.centred):
            if centred:
                values = values - values.mean(axis=2 + axis, keepdims=True)
        if settings.nested_effects or is_kept(term, resolved.panel):
            effects[term.variable] = values
    stats = {"diverging": np.zeros(draws, bool), "lp": rng.normal(size=draws)}
    intercept = resolved.location + rng.normal(size=draws)
    return Draws(scales, hyper, intercept, effects, stats, 0.1, "made up")


@pytest.fixture
def quick(monkeypatch):
    """Fit with the made-up engine."""
    monkeypatch.setattr(sampling, "load_engine", lambda _: made_up)

    def fit(frame=None, model="crossed", options=None, **settings):
        scores = scores_of(frame, **(options or {}))
        return bj.fit(scores, model, **{"draws": 150, "chains": 3, **settings})

    return fit


def words(text):
    return text.split()


SUMMARY = ["estimate", "sd", "ci_lower", "ci_upper"]


def test_columns_of_the_leaderboard(quick):
    table = quick().leaderboard()
    assert list(table.columns) == words(
        "backbone mean sd ci_lower ci_upper expected_rank rank_lower rank_upper rank_lower_sim "
        "rank_upper_sim p_best sucra sucra_lower sucra_upper tier"
    )
    assert table["expected_rank"].is_monotonic_increasing
    assert table["p_best"].sum() == pytest.approx(1)


def test_tables_of_ranks_and_pairs(quick):
    fit = quick()
    labels = ["backbone0", "backbone1", "backbone2"]
    ranks = fit.rank_probabilities()
    assert list(ranks.index) == labels
    assert list(ranks.columns) == [1, 2, 3]
    np.testing.assert_allclose(ranks.sum(axis=1), 1)
    pairs = fit.pairwise()
    assert list(pairs.index) == list(pairs.columns) == labels
    values = pairs.to_numpy()
    assert np.isnan(np.diag(values)).all()
    np.testing.assert_allclose((values + values.T)[~np.eye(3, dtype=bool)], 1)
    assert set(fit.best_set()) <= set(labels)
    table = fit.differences(rope=0.1)
    assert list(table.columns) == words(
        "backbone other difference sd ci_lower ci_upper p_beats p_within_rope clustered_se "
        "n_scenarios"
    )
    assert (table["n_scenarios"] == 8).all()
    assert table["clustered_se"].notna().all()
    assert fit.differences()["p_within_rope"].isna().all()


def test_tables_of_effects_and_components(quick):
    fit = quick()
    table = fit.effects("judge:backbone")
    assert list(table.columns) == ["backbone", "judge", *SUMMARY]
    assert len(table) == 9
    assert list(table["judge"][:3]) == ["judge0", "judge1", "judge2"]
    np.testing.assert_allclose(table.groupby("backbone")["estimate"].sum(), 0, atol=1e-12)
    narrow = fit.effects("judge", ci_prob=0.5)
    wide = fit.effects("judge")
    assert (narrow["ci_upper"] - narrow["ci_lower"] < wide["ci_upper"] - wide["ci_lower"]).all()
    components = fit.variance_components()
    assert list(components.columns) == ["term", "variance", "sd", "ci_lower", "ci_upper", "share"]
    assert list(components["term"]) == [*(t.name for t in fit.resolved.terms), "residual"]
    assert components["share"].sum() == pytest.approx(1)
    posterior = fit.posterior["posterior"]
    rows = components.set_index("term")
    panel = (posterior["judge_effect"] ** 2).mean("judge")
    assert rows.loc["judge", "variance"] == pytest.approx(float(panel.mean()))
    common = (posterior["backbone_scenario_sd"] ** 2).mean()
    assert rows.loc["backbone:scenario", "variance"] == pytest.approx(float(common))


def test_asking_for_effects_that_are_not_there(quick):
    fit = quick(frame_of(backbone=3, scenario=4, judge=3, generation=2))
    with pytest.raises(ModelError, match="'language' was dropped"):
        fit.effects("language")
    with pytest.raises(ModelError, match="no term 'criterion'"):
        fit.effects("criterion")
    with pytest.raises(UsageError, match="ci_prob"):
        fit.effects("judge", ci_prob=1.5)


def dims_of(fit):
    return {str(k): v.dims[2:] for k, v in fit.posterior["posterior"].data_vars.items()}


def test_names_and_dims_of_the_posterior(quick):
    fit = quick()
    for variable in fit.posterior["posterior"].data_vars.values():
        assert variable.dims[:2] == ("chain", "draw")
    assert dims_of(fit) == {
        "intercept": (),
        "backbone_sd": (),
        "backbone_effect": ("backbone",),
        "backbone_sd_panel": (),
        "judge_sd": (),
        "judge_effect": ("judge",),
        "judge_sd_panel": (),
        "backbone_judge_sd": (),
        "backbone_judge_effect": ("backbone", "judge"),
        "backbone_judge_sd_panel": (),
        "scenario_sd": (),
        "scenario_effect": ("scenario",),
        "backbone_scenario_sd": ("backbone",),
        "backbone_scenario_sd_center": (),
        "backbone_scenario_sd_spread": (),
        "judge_scenario_sd": (),
        "sigma": ("backbone",),
        "sigma_center": (),
        "sigma_spread": (),
        "backbone_mean": ("backbone",),
    }
    posterior = fit.posterior["posterior"]
    assert set(posterior.data_vars).isdisjoint(posterior.dims)
    assert list(posterior.coords["judge"].values) == list(fit.scores.levels("judge"))
    assert set(fit.posterior.children) == {"posterior", "sample_stats", "constant_data"}


def test_effects_that_are_not_kept_are_drawn_when_asked_for():
    scores = scores_of(frame_of(backbone=3, scenario=4, judge=3, generation=2))
    fit, whole = (bj.fit(scores, draws=100, nested_effects=nested) for nested in (False, True))
    for name in ("backbone:scenario", "judge:scenario", "generation"):
        variable = f"{name.replace(':', '_')}_effect"
        assert variable not in fit.posterior["posterior"]
        assert variable in whole.posterior["posterior"]
        pd.testing.assert_frame_equal(fit.effects(name), whole.effects(name), rtol=1e-9)
    np.testing.assert_allclose(fit.means(4), whole.means(4), rtol=1e-9)


def test_effects_that_were_sampled_and_not_kept(quick, monkeypatch):
    fit = quick(frame_of(backbone=3, scenario=4, judge=3, generation=2))
    made = {**fit.metadata, "method": "nuts"}
    monkeypatch.setattr(type(fit), "metadata", made)
    with pytest.raises(
        ModelError, match=r"generation were sampled and not kept.*nested_effects=True"
    ):
        fit.effects("generation")


def test_generations_are_kept_on_request(quick):
    frame = frame_of(backbone=3, scenario=4, judge=3, generation=2)
    without = dims_of(quick(frame))
    assert without["generation_sd"] == ("backbone",)
    assert "generation_effect" not in without
    fit = quick(frame, nested_effects=True)
    assert dims_of(fit)["generation_effect"] == ("generation",)
    table = fit.effects("generation")
    assert len(table) == 24
    assert table["generation"].is_unique


def test_users_facets_come_last(quick):
    frame = frame_of(backbone=3, scenario=4, judge=2, area=2)
    dims = dims_of(quick(frame, options={"facets": ["area"]}))
    assert dims["backbone_area_effect"] == ("backbone", "area")
    assert dims["area_sd_panel"] == ()


def test_backbone_mean_averages_the_panel(quick):
    posterior = quick().posterior["posterior"]
    expected = posterior["intercept"] + posterior["backbone_effect"]
    np.testing.assert_allclose(posterior["backbone_mean"], expected, rtol=1e-12)
    exchangeable = replace(COMMON, terms=tuple(replace(t, sum_to_zero=()) for t in COMMON.terms))
    posterior = quick(model=exchangeable).posterior["posterior"]
    expected = (
        posterior["intercept"]
        + posterior["backbone_effect"]
        + posterior["judge_effect"].mean("judge")
        + posterior["backbone_judge_effect"].mean("judge")
    )
    np.testing.assert_allclose(posterior["backbone_mean"], expected, rtol=1e-12)


def test_a_random_judge_is_not_averaged_over(quick):
    fit = quick(options={"random": ["judge"]})
    posterior = fit.posterior["posterior"]
    expected = posterior["intercept"] + posterior["backbone_effect"]
    np.testing.assert_allclose(posterior["backbone_mean"], expected, rtol=1e-12)
    assert "judge_sd_panel" not in posterior


def test_finite_scenarios(quick):
    fit = quick(nested_effects=True)
    posterior = fit.posterior["posterior"]
    expected = (
        posterior["backbone_mean"]
        + posterior["scenario_effect"].mean("scenario")
        + posterior["backbone_scenario_effect"].mean("scenario")
        + posterior["judge_scenario_effect"].mean(["judge", "scenario"])
    ).to_numpy()
    np.testing.assert_allclose(fit.means(8), expected.reshape(-1, 3), rtol=1e-12)
    np.testing.assert_array_equal(fit.means(20), fit.means(20))
    np.testing.assert_allclose(fit.means(10**12), fit.means(), atol=1e-4)
    assert len(fit.leaderboard(scenario_pool=8)) == 3
    with pytest.raises(UsageError, match="pool of 7"):
        fit.means(7)


def test_finite_scenarios_of_judges_not_in_the_panel(quick):
    fit = quick(options={"random": ["judge"]}, nested_effects=True)
    posterior = fit.posterior["posterior"]
    expected = (
        posterior["backbone_mean"]
        + posterior["scenario_effect"].mean("scenario")
        + posterior["backbone_scenario_effect"].mean("scenario")
    ).to_numpy()
    np.testing.assert_allclose(fit.means(8), expected.reshape(-1, 3), rtol=1e-12)


def test_finite_scenarios_of_centred_terms(quick):
    half = Scale(Prior("half_normal", (1.0,)))
    by_judge = Scale(Prior("half_normal", (1.0,)), "judge", Prior("half_normal", (0.5,)))
    spec = replace(
        COMMON,
        terms=(
            Term(("backbone",), half),
            Term(("scenario", "backbone"), half, ("backbone",)),
            Term(("judge", "scenario"), by_judge),
        ),
    )
    fit = quick(model=spec)
    by_judge_sd = fit.posterior["posterior"]["judge_scenario_sd"]
    pooled = np.sqrt((by_judge_sd**2).mean("judge") / 3).to_numpy().ravel()
    term = fit._scenario_term(fit.resolved.term("judge:scenario"))
    np.testing.assert_allclose(term.sd[:, 0], pooled, rtol=1e-12)
    own = fit._scenario_term(fit.resolved.term("backbone:scenario"))
    assert own.centred
    assert (own.sd > 0).all()
    judges = replace(spec, terms=(spec.terms[0], Term(("judge", "scenario"), half, ("judge",))))
    fit = quick(model=judges)
    assert not fit._scenario_term(fit.resolved.term("judge:scenario")).sd.any()


def test_finite_scenarios_need_scenarios(quick):
    frame = frame_of(backbone=3, judge=4, scenario=1)
    with pytest.raises(ModelError, match="no scenario effects"):
        quick(frame).means(5)


def test_metadata(quick):
    fit = quick(priors="judge.scale=half_normal:0.3", unit=2, location=4, random_seed=3)
    made = fit.metadata
    assert (made["engine"], made["method"]) == ("exact", "made up")
    assert (made["unit"], made["location"], made["version"]) == (2, 4, bj.__version__)
    assert made["settings"]["random_seed"] == 3
    assert fit.resolved.unit == 2
    assert fit.spec.title == "crossed with judge.scale=half_normal:0.3"
    constant = fit.posterior["constant_data"]
    assert float(constant["noise_floor"]) == fit.resolved.noise_floor
    np.testing.assert_array_equal(constant["score"], fit.scores.score)


# What is shown


def test_a_notebook_shows_the_leaderboard_and_no_script(quick):
    labels = {"backbone": ["<script>alert(1)</script>", "a & b", "x" * 80]}
    html = quick(frame_of(labels=labels))._repr_html_()
    assert "<script>" not in html
    assert "&lt;script&gt;" in html
    assert "a &amp; b" in html
    assert "x" * 80 in html
    assert "p_best" in html


def test_repr(quick):
    assert (
        repr(quick(draws=1000)) == "Fit of crossed by exact on 72 scores of 3 backbones (converged)"
    )
    assert "NOT converged" in repr(quick(draws=50))


# Saved and read back

STRANGE = {
    "backbone": ["نموذج", "NA", " a ", "a", "", "nan", "01", "1", "None", "é", "e\u0301"],
    "judge": ["قاضٍ", "\t", "न्यायाधीश"],
    "scenario": ["第一", "x\ny", "'", '"', "\\", "a | b"],
}


def test_a_saved_fit_is_read_back_equal(quick, tmp_path):
    frame = frame_of(labels=STRANGE, **{name: len(v) for name, v in STRANGE.items()})
    rng = np.random.default_rng(0)
    human = np.where(rng.random(len(frame)) < 0.5, np.nan, 3.0)
    # Labels that files or readers take for missing are kept in a table of codes.
    scores = replace(
        scores_of(frame_of(**{name: len(v) for name, v in STRANGE.items()})),
        human_score=human,
        scale=(0.0, 10.0),
        lower_is_better=True,
        n_excluded=3,
    )
    facets = tuple(replace(f, levels=tuple(sorted(STRANGE[f.name]))) for f in scores.facets)
    scores = replace(scores, facets=facets)
    fit = bj.fit(
        scores, priors=["judge.scale=flat", "intercept=normal:3"], draws=50, chains=2, unit=1.5
    )
    path = fit.save(tmp_path / "fit.nc")
    again = bj.load(path)
    assert again == fit
    assert again.scores == scores
    assert again.spec == fit.spec
    assert again.spec.overrides == ("judge.scale=flat", "intercept=normal:3")
    assert again.labels == fit.labels == tuple(sorted(STRANGE["backbone"]))
    pd.testing.assert_frame_equal(again.leaderboard(), fit.leaderboard())
    pd.testing.assert_frame_equal(again.effects("judge"), fit.effects("judge"))
    np.testing.assert_array_equal(again.scores.human_score, human)
    assert [p.name for p in tmp_path.iterdir()] == ["fit.nc"]
    assert bj.load(again.save(path)) == fit


def test_equality(quick):
    fit = quick()
    assert fit == quick()
    assert fit != quick(random_seed=1)
    assert fit != quick(priors=["judge.scale=half_normal:1"])
    assert fit != quick(frame_of(seed=1))
    assert fit != "fit"


def write_tree(path, **groups):
    attributes = groups.pop("attrs", {})
    tree = xr.DataTree.from_dict({name: xr.Dataset(values) for name, values in groups.items()})
    tree.attrs.update(attributes)
    tree.to_netcdf(path, engine="h5netcdf")
    return path


def test_files_that_are_no_fit(tmp_path):
    with pytest.raises(DataError, match=r"does not exist.*none\.nc"):
        bj.load(tmp_path / "none.nc")
    with pytest.raises(DataError, match="does not exist"):
        bj.load(tmp_path)
    for content in (b"", b"garbage" * 100, b"\x89HDF\r\n\x1a\n" + b"\0" * 200):
        (tmp_path / "garbage.nc").write_bytes(content)
        with pytest.raises(DataError, match="cannot be read as a saved fit"):
            bj.load(tmp_path / "garbage.nc")
    other = write_tree(tmp_path / "other.nc", posterior={"x": ("draw", [1.0])})
    with pytest.raises(DataError, match="no saved fit"):
        bj.load(other)
    constant = {"x": ("draw", [1.0])}
    with pytest.raises(DataError, match="no saved fit"):
        bj.load(write_tree(tmp_path / "c.nc", constant_data=constant))
    table = {"table": ((), np.array("{}", object))}
    with pytest.raises(DataError, match="lacks its posterior"):
        bj.load(write_tree(tmp_path / "d.nc", constant_data=table))
    for text in ("{}", "not json", "[]"):
        table = {"table": ((), np.array(text, object))}
        path = write_tree(
            tmp_path / "e.nc", constant_data=table, posterior=constant, attrs={"bayesjudge": "{}"}
        )
        with pytest.raises(DataError, match="damaged"):
            bj.load(path)


def test_a_fit_cut_short_is_refused(quick, tmp_path):
    path = quick().save(tmp_path / "fit.nc")
    path.write_bytes(path.read_bytes()[:-5000])
    with pytest.raises(DataError, match="cannot be read as a saved fit"):
        bj.load(path)


def test_places_that_cannot_be_written_to(quick, tmp_path):
    with pytest.raises(DataError, match=r"cannot be written.*none"):
        quick().save(tmp_path / "none" / "fit.nc")
    (tmp_path / "folder.nc").mkdir()
    with pytest.raises(DataError, match="cannot be written"):
        quick().save(tmp_path / "folder.nc")
    assert [p.name for p in tmp_path.iterdir()] == ["folder.nc"]


# Arguments


def test_arguments_that_are_refused(quick):
    scores = scores_of()
    with pytest.raises(UsageError, match=r"takes Scores, not DataFrame.*read_scores"):
        bj.fit(frame_of())
    with pytest.raises(UsageError, match=r"no engine 'stan'.*exact, laplace, numpyro or pymc"):
        bj.fit(scores, engine="stan")
    with pytest.raises(ModelError, match="no model 'wrong'"):
        bj.fit(scores, "wrong")
    with pytest.raises(ModelError, match="names no prior"):
        bj.fit(scores, priors=["judge=1"])
    for name, value in (("draws", 3), ("tune", 0), ("chains", 0), ("random_seed", -1)):
        with pytest.raises(UsageError, match=f"{name} is {value}.*at least"):
            bj.fit(scores, **{name: value})
    with pytest.raises(UsageError, match=r"draws is 2\.5"):
        Settings(draws=2.5)
    with pytest.raises(UsageError, match=r"target_accept is 1\.0.*between 0 and 1"):
        bj.fit(scores, target_accept=1.0)


def test_engines_by_name():
    assert choose_engine("auto", linear=True) == "exact"
    assert choose_engine("auto", linear=False) == "numpyro"
    assert choose_engine("auto", linear=True, integrate=False) == "numpyro"
    assert choose_engine("numpyro", linear=True) == "numpyro"
    assert choose_engine("laplace", linear=False) == "laplace"
    with pytest.raises(UsageError, match="the laplace engine integrates effects out"):
        choose_engine("laplace", linear=False, integrate=False)
    home = importlib.import_module("bayesjudge.engines.numpyro")
    assert load_engine("numpyro") is home.sample


# Convergence


def tree_of(values, diverging=0, attrs=None, **others):
    shape = values.shape[:2]
    flags = np.zeros(shape, bool)
    flags.flat[:diverging] = True
    stats = xr.Dataset({"diverging": (("chain", "draw"), flags)}, attrs=attrs or {})
    posterior = xr.Dataset({"x": (("chain", "draw"), values), **others})
    return xr.DataTree.from_dict({"posterior": posterior, "sample_stats": stats})


def normal(seed=0, shape=(4, 500)):
    return np.random.default_rng(seed).normal(size=shape)


def test_good_chains_converge():
    found = diagnose(tree_of(normal()), ())
    assert found.converged
    assert found.reasons == ()
    assert found.r_hat_max < 1.01
    assert found.ess_bulk_min > 400
    assert found.ess_tail_min > 400
    assert (found.divergences, found.pareto_k, found.worst) == (0, None, "x")


def test_reasons_for_not_converging():
    few = diagnose(tree_of(normal(shape=(4, 50))), ())
    assert not few.converged
    assert any("bulk ESS" in r and "for x" in r for r in few.reasons)
    assert any("tail ESS" in r for r in few.reasons)
    apart = diagnose(tree_of(normal() + np.arange(4)[:, None]), ())
    assert any("r_hat" in r for r in apart.reasons)
    divergent = diagnose(tree_of(normal(), diverging=2), ())
    assert divergent.divergences == 2
    assert divergent.reasons == ("2 divergent transitions",)


def test_one_chain_is_split_in_two():
    found = diagnose(tree_of(normal(shape=(1, 3000))), ())
    assert found.converged
    assert found.r_hat_max < 1.01
    drifting = normal(shape=(1, 3000)) + np.linspace(0, 3, 3000)
    assert not diagnose(tree_of(drifting), ()).converged


def test_a_nan_is_never_hidden():
    broken = normal(1)
    broken[0, 3] = np.nan
    for first, second in ((normal(), broken), (broken, normal())):
        with np.errstate(invalid="ignore"):
            found = diagnose(tree_of(first, y=(("chain", "draw"), second)), ())
        assert not found.converged
        assert np.isnan(found.r_hat_max)
        assert np.isnan(found.ess_bulk_min)


def test_what_does_not_vary_has_nothing_to_mix():
    fixed = np.full((4, 500), 1e6)
    found = diagnose(tree_of(normal(), y=(("chain", "draw"), fixed)), ())
    assert found.converged
    alone = diagnose(tree_of(fixed), ())
    assert alone.converged
    assert (alone.r_hat_max, alone.worst) == (None, "")


def test_only_panel_facets_are_checked():
    bad = np.arange(2000.0).reshape(4, 500, 1)
    of_scenarios = tree_of(normal(), y=(("chain", "draw", "scenario"), bad))
    assert diagnose(of_scenarios, ("backbone", "judge")).converged
    of_judges = tree_of(normal(), y=(("chain", "draw", "judge"), bad))
    found = diagnose(of_judges, ("backbone", "judge"))
    assert not found.converged
    assert found.worst == "y"


def test_weighted_draws():
    good = diagnose(tree_of(normal(), attrs={"pareto_k": 0.3, "weighted_ess": 900.0}), ())
    assert good.converged
    assert good.r_hat_max is None
    assert (good.ess_bulk_min, good.ess_tail_min, good.pareto_k) == (900, 900, 0.3)
    bad = diagnose(tree_of(normal(), attrs={"pareto_k": 0.8, "weighted_ess": 127.0}), ())
    assert not bad.converged
    assert any("Pareto k is 0.80" in r for r in bad.reasons)
    assert any("bulk ESS is 127" in r for r in bad.reasons)


def test_diagnostics_as_a_series(quick):
    found = quick().diagnostics()
    assert list(found.index) == words(
        "r_hat_max ess_bulk_min ess_tail_min divergences pareto_k converged worst reasons"
    )
    assert found["divergences"] == 0


def test_scales_of_judges_without_effects_are_checked(quick):
    residual = Scale(Prior("half_normal", (1.0,)), "judge", Prior("half_normal", (0.5,)))
    spec = replace(COMMON, terms=COMMON.terms[:1], residual=residual)
    fit = quick(model=spec)
    assert list(fit.posterior["posterior"].coords["judge"].values) == list(
        fit.scores.levels("judge")
    )
    assert "judge" in fit.resolved.panel


# Sampled


@pytest.fixture(scope="module")
def sampled():
    return bj.fit(scores_of(), engine="numpyro", draws=200, tune=200, chains=2)


def test_few_draws_are_flagged(sampled):
    found = sampled.convergence
    assert not found.converged
    assert any("ESS" in reason for reason in found.reasons)
    assert "NOT converged" in repr(sampled)


def test_sampled_effects_sum_to_zero(sampled):
    posterior = sampled.posterior["posterior"]
    for name in ("backbone_effect", "judge_effect", "backbone_judge_effect"):
        for dim in posterior[name].dims[2:]:
            np.testing.assert_allclose(posterior[name].sum(dim), 0, atol=1e-10)
    expected = posterior["intercept"] + posterior["backbone_effect"]
    np.testing.assert_allclose(posterior["backbone_mean"], expected, rtol=1e-10)


def test_sampled_names_are_those_of_the_made_up_engine(sampled, quick):
    assert dims_of(sampled) == dims_of(quick())
    for variable in sampled.posterior["posterior"].data_vars.values():
        assert np.isfinite(variable).all()


def test_sampled_means_are_near_the_cell_means(sampled):
    cells = frame_of().groupby("backbone")["score"].mean().to_numpy()
    np.testing.assert_allclose(sampled.means().mean(axis=0), cells, atol=0.25)


def test_one_seed_gives_the_same_draws(sampled):
    again = bj.fit(scores_of(), engine="numpyro", draws=200, tune=200, chains=2)
    assert again.posterior["posterior"].equals(sampled.posterior["posterior"])
    other = bj.fit(scores_of(), engine="numpyro", draws=200, tune=200, chains=2, random_seed=9)
    assert not other.posterior["posterior"].equals(sampled.posterior["posterior"])


def test_a_sampled_fit_is_read_back_equal(sampled, tmp_path):
    assert bj.load(sampled.save(tmp_path / "fit.nc")) == sampled


def test_arviz_takes_the_tree(sampled):
    from arviz_stats import summary

    table = summary(
        sampled.posterior, var_names=["backbone_mean", "sigma"], ci_kind="eti", ci_prob=0.95
    )
    assert len(table) == 6
    assert "backbone_mean[backbone0]" in table.index
    import arviz_base

    extracted = arviz_base.extract(sampled.posterior, var_names="backbone_mean")
    assert extracted.sizes == {"backbone": 3, "sample": 400}


def test_equal_scores_are_answered():
    frame = frame_of().assign(score=7.0)
    fit = bj.fit(scores_of(frame), engine="numpyro", draws=200, tune=200, chains=2)
    for name, variable in fit.posterior["posterior"].data_vars.items():
        assert np.isfinite(variable).all(), name
    board = fit.leaderboard()
    assert board.drop(columns="backbone").notna().all(axis=None)
    np.testing.assert_allclose(board["mean"], 7, atol=0.05)
    np.testing.assert_allclose(board["expected_rank"], 2, atol=0.3)
    assert fit.standard_error_findings() is not None


def test_sampling_every_effect_agrees_with_integrating_them_out():
    from arviz_stats.base import array_stats

    scores = scores_of(frame_of(backbone=3, scenario=5, judge=2))
    kept = [("backbone",), ("judge",), ("scenario",)]
    spec = replace(COMMON, name="plain", terms=tuple(t for t in COMMON.terms if t.facets in kept))
    settings = {"engine": "numpyro", "draws": 500, "tune": 300, "chains": 2}
    fits = [bj.fit(scores, spec, integrate=integrate, **settings) for integrate in (True, False)]
    assert [f.metadata["method"] for f in fits] == ["collapsed nuts", "nuts"]
    z = []
    for name in ("backbone_mean", "judge_effect", "scenario_effect", "scenario_sd", "sigma"):
        values = [f.posterior["posterior"][name].to_numpy() for f in fits]
        means, errors = [], []
        for value in values:
            flat = value.reshape(*value.shape[:2], -1)
            means.append(flat.mean(axis=(0, 1)))
            errors.append(
                [
                    array_stats.mcse(flat[..., i], chain_axis=0, draw_axis=1, method="mean")
                    for i in range(flat.shape[-1])
                ]
            )
        z.extend((means[0] - means[1]) / np.hypot(*errors))
    assert np.abs(z).max() < 4.5


def test_the_exact_engine_says_what_it_does_not_fit():
    scores = scores_of()
    with pytest.raises(ModelError, match="does not fit family 'student_t'"):
        bj.fit(scores, "robust", engine="exact")
    with_nll = replace(scores, covariates=(("nll", np.arange(float(len(scores)))),))
    with pytest.raises(ModelError, match="takes no covariates"):
        bj.fit(with_nll, "uncertainty", engine="exact")


def test_settings_are_one_json_string(sampled):
    assert set(sampled.posterior.attrs) == {"bayesjudge"}
    assert json.loads(sampled.posterior.attrs["bayesjudge"]) == sampled.metadata


def test_the_exact_engine_answers_in_the_same_shape(sampled):
    exact = bj.fit(scores_of(), draws=200, chains=2)
    assert exact.metadata["engine"] == "exact"
    assert dims_of(exact) == dims_of(sampled)
    first, second = exact.means(), sampled.means()
    np.testing.assert_allclose(first.mean(axis=0), second.mean(axis=0), atol=0.2)
    np.testing.assert_allclose(first.std(axis=0), second.std(axis=0), rtol=0.4)


def test_sampling_every_effect_is_numpyros(quick):
    assert quick(integrate=False).metadata["engine"] == "numpyro"
    with pytest.raises(UsageError, match="integrates effects out"):
        quick(engine="exact", integrate=False)


def test_a_pool_is_a_whole_number(quick):
    with pytest.raises(UsageError, match="whole number"):
        quick(nested_effects=True).means(float("nan"))


def test_tables_of_two_shapes_in_one_process():
    frame = frame_of(backbone=3, scenario=6, judge=2)
    for some in (frame, frame.iloc[:-5], frame):
        fit = bj.fit(scores_of(some), engine="numpyro", draws=50, tune=50, chains=2)
        assert np.isfinite(fit.means()).all()


def test_a_fit_that_did_not_converge_says_so_in_a_notebook(quick):
    fit = quick()
    good = replace(fit.convergence, converged=True, reasons=())
    vars(fit)["convergence"] = good
    assert "NOT CONVERGED" not in fit._repr_html_()
    bad = replace(fit.convergence, converged=False, reasons=("bulk ESS is 3 <b>",))
    vars(fit)["convergence"] = bad
    html = fit._repr_html_()
    assert "NOT CONVERGED" in html
    assert "<b>NOT" in html
    assert "3 &lt;b&gt;" in html


def test_control_characters_of_labels_are_visible_in_a_notebook(quick):
    names = {"backbone": ["a\x1b[31m", "b\u202e", "<script>"]}
    html = quick(frame_of(labels=names))._repr_html_()
    assert "\x1b" not in html
    assert "\u202e" not in html
    assert "<script>" not in html


def test_standard_errors_are_not_asked_about_judges_elsewhere(quick):
    assert quick(options={"random": ["judge"]}).standard_error_findings() == ()


def test_scores_are_shown_in_a_line():
    assert repr(scores_of()).startswith("Scores: ")
    assert "backbone 3" in repr(scores_of())


def test_tiny_scores_are_told_apart():
    frame = frame_of()
    small = bj.fit(scores_of(frame.assign(score=frame["score"] * 1e-30)), draws=100)
    usual = bj.fit(scores_of(frame), draws=100)
    assert list(small.leaderboard()["backbone"]) == list(usual.leaderboard()["backbone"])
    with pytest.raises(ModelError, match="unit"):
        bj.fit(scores_of(frame.assign(score=frame["score"] * 1e-300)))


def test_a_facet_that_is_another_is_said_to_be_out_of_the_answer():
    from bayesjudge.report.answers import what_is_answered

    frame = frame_of().assign(twin=lambda f: "x" + f["judge"])
    fit = bj.fit(scores_of(frame, random=["twin"]), draws=100)
    assert "not in the answer" in what_is_answered(fit, None)["twin"]


def test_a_model_of_backbones_by_themselves_compares_no_pairs():
    from bayesjudge.report.answers import Question, answer, result_object
    from bayesjudge.report.page.gathering import Heading, gather
    from bayesjudge.report.results_folder import files_of

    scores = scores_of(frame_of(backbone=3, scenario=6, judge=3, generation=2))
    fit = bj.fit(scores, "cyclicjudge", draws=200)
    assert [t.name for t in fit.resolved.terms] == [
        "backbone",
        "backbone:judge",
        "backbone:scenario",
        "generation",
    ]
    assert fit.unpaired
    for ask in (fit.pairwise, fit.differences):
        with pytest.raises(ModelError, match="no scenario effects that backbones share"):
            ask()
    assert fit.standard_error_findings() == ()
    found = answer(fit, Question())
    assert "own" in found.about["pairs"]
    assert result_object(found)["pairwise"] is None
    files = files_of(found, gather(found, Heading(command="bayesjudge rank")))
    assert "differences.csv" not in files
    assert "## Differences" not in files["report.md"]
    offsets = fit.effects("backbone:judge")
    by_backbone = offsets.groupby("backbone")["estimate"].sum()
    np.testing.assert_allclose(by_backbone, 0, atol=1e-9)
    assert not bj.fit(scores, draws=200).unpaired
    alone = scores_of(frame_of(backbone=3, judge=4))
    assert not bj.fit(alone, "cyclicjudge", draws=200).unpaired
