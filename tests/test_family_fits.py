"""Fits of every family: recovery, the ends of the scale, what a fit answers."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import bayesjudge as bj
from bayesjudge.cli.app import app
from bayesjudge.errors import DataError, ModelError
from bayesjudge.expectations import expected_scores, panel_facets
from bayesjudge.report.answers import Question, answer
from bayesjudge.resolution import resolve
from bayesjudge.simulation import simulate
from bayesjudge.spec import Prior, Scale, Term, Thresholds, read_model

QUICK = {"draws": 400, "tune": 400, "chains": 2, "random_seed": 1}


def own(name, *terms, **changes):
    """Return a shipped model with few terms: quick to compile, the same families."""
    spec = read_model(name)
    kept = tuple(t for t in spec.terms if t.name in ("backbone", *terms))
    return replace(spec, name="own", terms=kept, **changes)


def frame_of(score, backbones=4, scenarios=10, judges=5):
    index = pd.MultiIndex.from_product(
        [
            [f"b{i}" for i in range(backbones)],
            [f"s{i}" for i in range(scenarios)],
            [f"j{i}" for i in range(judges)],
        ],
        names=["backbone", "scenario", "judge"],
    )
    return index.to_frame(index=False).assign(score=score)


@pytest.fixture(scope="module")
def verdicts():
    spec = own("verdict", "judge", "scenario")
    made = simulate(spec, backbones=4, scenarios=60, judges=3, random_seed=11, sd={"backbone": 1.0})
    # The intercept and the mean of the scenarios part slowly.
    longer = {**QUICK, "draws": 1500, "tune": 600}
    return bj.fit(bj.read_scores(made.table), spec, **longer), made.truth


@pytest.fixture(scope="module")
def categories():
    thresholds = Thresholds("judge", Prior("half_normal", (0.5,)))
    spec = own("ordinal", "judge", "scenario", thresholds=thresholds)
    made = simulate(
        spec,
        **{"backbones": 3, "scenarios": 80, "judges": 3, "scale": (1, 5), "random_seed": 4},
        sd={"backbone": 1.0, "judge": 0.5, "scenario": 0.5},
    )
    # 6 is a category that nobody gave.
    return bj.fit(bj.read_scores(made.table, scale=(1, 6)), spec, **QUICK), made.truth


def within(draws, truth, sds=4.5):
    """Whether a truth lies within some posterior sds of the posterior mean, everywhere."""
    flat = np.reshape(draws, (-1, *np.shape(truth)))
    return (np.abs(flat.mean(axis=0) - truth) < sds * flat.std(axis=0)).all()


def values(fit, name):
    return fit.posterior["posterior"][name].to_numpy()


def test_verdicts_recover_their_truth(verdicts):
    fit, truth = verdicts
    assert within(values(fit, "backbone_mean"), truth["backbone_mean"])
    assert within(values(fit, "backbone_latent"), truth["backbone_latent"])
    assert within(values(fit, "judge_effect"), truth["effects"]["judge"])
    # The data say more than the prior: else any truth would lie within.
    assert values(fit, "backbone_mean").std(axis=(0, 1)).max() < 0.1
    assert fit.convergence.divergences == 0
    assert fit.convergence.r_hat_max < 1.05


def test_an_acceptance_probability_is_marginal_over_new_scenarios(verdicts):
    fit, _ = verdicts
    posterior = fit.posterior["posterior"].isel(chain=0, draw=slice(3))
    rng = np.random.default_rng(0)
    n = 200_000
    for d in range(3):
        now = posterior.isel(draw=d)
        eta = (
            float(now["intercept"])
            + now["backbone_effect"].to_numpy()[:, None, None]
            + now["judge_effect"].to_numpy()[None, :, None]
            + float(now["scenario_sd"]) * rng.standard_normal(n)
        )
        p = 1 / (1 + np.exp(-eta))
        error = p.mean(axis=1).std(axis=1) / np.sqrt(n)
        gap = np.abs(p.mean(axis=(1, 2)) - now["backbone_mean"].to_numpy())
        assert (gap < 4.5 * error).all()


def test_a_leaderboard_of_verdicts_is_on_the_scale_asked_for(verdicts):
    fit, _ = verdicts
    board = fit.leaderboard()
    assert board["mean"].between(0, 1).all()
    latent = fit.leaderboard(latent=True).set_index("backbone")
    expected = dict(zip(fit.labels, values(fit, "backbone_latent").mean(axis=(0, 1)), strict=True))
    assert latent["mean"].to_dict() == pytest.approx(expected)
    assert (latent["mean"] < 0).any() or (latent["mean"] > 1).any()
    assert fit.means(latent=True).shape == fit.means().shape
    assert fit.differences(latent=True)["clustered_se"].isna().all()
    assert fit.differences()["clustered_se"].notna().all()
    assert fit.pairwise(latent=True).shape == (4, 4)
    assert set(fit.best_set(latent=True)) <= set(fit.labels)


def test_single_scenarios_have_no_expected_scores_but_a_latent_scale(verdicts):
    fit, _ = verdicts
    with pytest.raises(ModelError, match="those of the table's alone"):
        fit.leaderboard(scenario_pool=60)
    mean = values(fit, "backbone_latent") + values(fit, "scenario_effect").mean(axis=2)[..., None]
    np.testing.assert_allclose(
        fit.means(60, latent=True), mean.reshape(-1, 4), rtol=1e-10, atol=1e-12
    )


def test_shares_count_the_links_own_variance(verdicts):
    fit, _ = verdicts
    table = fit.variance_components().set_index("term")
    assert table.loc["residual", "variance"] == pytest.approx(np.pi**2 / 3)
    assert table.loc["residual", "ci_lower"] == table.loc["residual", "ci_upper"]
    assert table["share"].sum() == pytest.approx(1)


def test_a_saved_fit_of_verdicts_is_the_same(verdicts, tmp_path):
    fit, _ = verdicts
    again = bj.load(fit.save(tmp_path / "fit.nc"))
    assert again == fit
    pd.testing.assert_frame_equal(again.leaderboard(), fit.leaderboard())


def test_interactions_with_scenarios_are_stored_on_request_only():
    spec = own("verdict", "scenario", "backbone:scenario")
    scores = bj.read_scores(frame_of(np.tile([0.0, 1.0, 1.0, 0.0], 50)))
    few = {"draws": 10, "tune": 10, "chains": 2}
    fit, whole = (bj.fit(scores, spec, nested_effects=n, **few) for n in (False, True))
    assert "scenario_effect" in fit.posterior["posterior"]
    assert "backbone_scenario_effect" not in fit.posterior["posterior"]
    assert "backbone_scenario_sd" in fit.posterior["posterior"]
    with pytest.raises(ModelError, match=r"sampled and not kept.*nested_effects=True"):
        fit.effects("backbone:scenario")
    with pytest.raises(ModelError, match="sampled and not kept"):
        fit.means(10, latent=True)
    assert len(whole.effects("backbone:scenario")) == 40
    assert whole.means(10, latent=True).shape == fit.means().shape
    np.testing.assert_array_equal(whole.means(), fit.means())


def test_a_question_of_these_scenarios_keeps_what_it_needs(tmp_path):
    path = tmp_path / "verdicts.csv"
    frame_of(np.tile([0, 1, 1, 0], 10), 2, 5, 4).to_csv(path, index=False)
    words = ("rank", path, "--model", "verdict", "--latent", "--finite-scenarios", *FEW)
    done = run(*words)
    assert done.exit_code == 0, done.stderr
    assert "the table's 5 scenarios only" in done.stderr


def test_an_answer_says_on_which_scale_its_means_are(verdicts):
    fit, _ = verdicts
    plain = answer(fit, Question())
    assert plain.about["mean"] == "the probability of a 1"
    latent = answer(fit, Question(latent=True))
    assert latent.about["mean"] == "on the latent scale, in logits"
    assert not latent.leaderboard.equals(plain.leaderboard)


def test_categories_recover_their_truth(categories):
    fit, truth = categories
    # Expected scores do not know of the sixth category, which has next to no mass.
    assert within(values(fit, "backbone_mean"), truth["backbone_mean"])
    cuts = fit.posterior["posterior"]["cutpoints"]
    assert cuts.dims == ("chain", "draw", "judge", "threshold")
    assert list(cuts["threshold"].to_numpy()) == ["1|2", "2|3", "3|4", "4|5", "5|6"]
    known = cuts.to_numpy()[..., :4]
    # Where all cutpoints lie is confounded with the mean of the scenarios at hand.
    moved = values(fit, "judge_effect")[..., None] - known
    expected = truth["effects"]["judge"][:, None] - truth["parameters"]["cutpoints"]
    assert within(moved - moved.mean(axis=(2, 3), keepdims=True), expected - expected.mean())
    assert (np.diff(cuts.to_numpy(), axis=-1) > 0).all()


def test_categories_that_nobody_gave_have_little_mass(categories):
    fit, _ = categories
    assert fit.resolved.categories == (1, 2, 3, 4, 5, 6)
    eta = values(fit, "backbone_latent")[..., None, None]
    above = 1 / (1 + np.exp(values(fit, "cutpoints")[:, :, None, :, -1:] - eta))
    assert above.mean() < 0.02
    assert values(fit, "cutpoints_sd").min() > 0


def test_a_saved_fit_of_categories_is_the_same(categories, tmp_path):
    fit, _ = categories
    assert bj.load(fit.save(tmp_path / "fit.nc")) == fit


def chance_of(fit, category):
    """Return P(score = category) by draw and backbone, for a judge of the panel and a new score."""
    resolved = fit.resolved
    flat = {str(n): fit._flat(str(n)) for n in fit.posterior["posterior"].data_vars}
    effects = {t.variable: flat[f"{t.variable}_effect"] for t in resolved.terms}
    scales = {name: value for name, value in flat.items() if name.endswith("_sd")}
    intercept = flat.get("intercept", np.zeros(len(flat["backbone_mean"])))
    cuts = flat.get("cutpoints", np.zeros((len(intercept), 1)))
    binary = replace(resolved, categories=(0, 1))
    above = [
        expected_scores(binary, intercept, effects, scales, cuts[..., k : k + 1])
        for k in range(cuts.shape[-1])
    ]
    edges = [np.ones_like(above[0]), *above, np.zeros_like(above[0])]
    at = resolved.categories.index(category)
    return edges[at] - edges[at + 1]


@pytest.mark.parametrize(
    ("model", "value", "scale"),
    [
        ("verdict", 0, (0, 1)),
        ("verdict", 1, (0, 1)),
        ("ordinal", 0, (0, 3)),
        ("ordinal", 3, (0, 3)),
    ],
)
def test_one_answer_throughout_is_predicted_and_said_to_be_the_priors(model, value, scale):
    scores = bj.read_scores(frame_of(float(value)), scale=scale)
    assert len(scores) == 200
    fit = bj.fit(scores, own(model, "judge"), **QUICK)
    assert chance_of(fit, value).mean() > 0.98
    (finding,) = fit.prior_findings()
    assert finding.severity == "warning"
    assert "prior-dominated" in finding.what
    assert fit.convergence.divergences == 0


def test_one_category_alone_is_answered_with_certainty():
    fit = bj.fit(bj.read_scores(frame_of(3.0)), own("ordinal"), **QUICK)
    assert fit.resolved.categories == (3,)
    np.testing.assert_array_equal(fit.means(), 3.0)
    assert (fit.leaderboard()["tier"] == 1).all()
    assert "cutpoints" not in fit.posterior["posterior"]


def test_one_outlier_moves_robust_less_than_crossed():
    rng = np.random.default_rng(3)
    frame = frame_of(0.0, backbones=2, scenarios=40, judges=1)
    frame["score"] = rng.normal(5, 1, len(frame))
    spoilt = frame.copy()
    spoilt.loc[0, "score"] = 60.0
    moved = {}
    for name in ("robust", "crossed_common"):
        spec = own(name, residual=Scale(Prior("half_normal", (1.0,))))
        means = [
            bj.fit(bj.read_scores(f), spec, unit=1.0, location=5.0, **QUICK).means().mean(axis=0)
            for f in (frame, spoilt)
        ]
        moved[name] = abs(means[1][0] - means[0][0])
    assert moved["crossed_common"] > 0.5
    assert moved["robust"] < 0.2 * moved["crossed_common"]


def test_a_slope_is_recovered_and_said():
    spec = own("uncertainty", "language", "scenario")
    made = simulate(spec, backbones=2, scenarios=40, judges=1, languages=3, random_seed=6)
    made.table["nll"] = 100 + 20 * made.table["nll"]
    scores = bj.read_scores(made.table, covariates=["nll"])
    fit = bj.fit(scores, spec, unit=1.0, location=7.0, **QUICK)
    slope = values(fit, "nll_slope")
    assert within(slope, truth := made.truth["parameters"]["nll_slope"])
    assert slope.std() < 0.2 < abs(truth)
    assert "a difference of its sd" in answer(fit, Question()).about["nll"]
    with pytest.raises(ModelError, match="no latent scale"):
        fit.leaderboard(latent=True)


def test_a_table_read_without_its_covariate_is_refused():
    scores = bj.read_scores(frame_of(np.arange(200.0)))
    with pytest.raises(DataError, match="no covariate 'nll'"):
        bj.fit(scores, "uncertainty")
    flat = replace(scores, covariates=(("nll", np.full(200, 3.0)),))
    with pytest.raises(DataError, match="does not vary"):
        bj.fit(flat, "uncertainty")


def test_a_panel_of_judges_is_averaged_and_new_judges_are_integrated_out():
    made = simulate("verdict", backbones=3, scenarios=6, judges=4, random_seed=2)
    panel = resolve(read_model("verdict"), bj.read_scores(made.table))
    new = resolve(read_model("verdict"), bj.read_scores(made.table, random=["judge"]))
    assert panel_facets(panel) == ("backbone", "judge")
    assert panel_facets(new) == ("backbone",)
    rng = np.random.default_rng(0)
    effects = {t.variable: rng.normal(size=(1, *t.shape)) for t in panel.terms}
    scales = {
        f"{t.variable}_sd": np.full((1, *((3,) if t.scale.by else ())), 0.4) for t in new.terms
    }
    found = expected_scores(new, np.array([0.3]), effects, scales, None)[0]
    n = 400_000
    random = [t for t in new.terms if not set(t.dims) <= {"backbone"}]
    for b in range(3):
        noise = sum(0.4 * rng.standard_normal(n) for _ in random)
        p = 1 / (1 + np.exp(-(0.3 + effects["backbone"][0, b] + noise)))
        assert abs(found[b] - p.mean()) < 4.5 * p.std() / np.sqrt(n)
    assert len(random) == 5


def test_effects_that_sum_to_zero_add_their_own_variance():
    spec = replace(
        read_model("verdict"),
        name="own",
        terms=(
            Term(("backbone",), Scale(Prior("half_normal", (1.0,)))),
            Term(("backbone", "scenario"), Scale(Prior("half_normal", (1.0,))), ("backbone",)),
        ),
    )
    made = simulate(spec, backbones=4, scenarios=6, judges=2)
    resolved = resolve(spec, bj.read_scores(made.table))
    effects = {"backbone": np.zeros((1, 4))}
    scales = {"backbone_scenario_sd": np.array([2.0])}
    found = expected_scores(resolved, np.array([1.0]), effects, scales, None)
    z = np.random.default_rng(0).standard_normal((400_000, 4))
    z -= z.mean(axis=1, keepdims=True)
    p = 1 / (1 + np.exp(-(1.0 + 2.0 * z)))
    np.testing.assert_allclose(found[0], p.mean(axis=0), atol=4.5 * 0.35 / np.sqrt(400_000))


# The command line


def run(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


FEW = ("--draws", 20, "--tune", 20, "--chains", 2, "--allow-unconverged", "--json")


def test_verdicts_go_from_simulate_to_a_leaderboard(tmp_path):
    path = tmp_path / "verdicts.csv"
    made = run(
        "simulate", path, "--model", "verdict", "--backbones", 3, "--scenarios", 8, "--judges", 1
    )
    assert made.exit_code == 0
    done = run("rank", path, "--model", "verdict", "--latent", *FEW)
    assert done.exit_code == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["meta"]["family"] == "bernoulli"
    assert found["meta"]["engine"] == "numpyro"
    assert found["meta"]["mean_scale"] == "latent"
    assert found["meta"]["unit"] == 1.0
    assert len(found["leaderboard"]) == 3
    assert "mean: on the latent scale, in logits" in done.stderr


def test_the_covariate_of_a_model_is_read_for_it(tmp_path):
    path = tmp_path / "scores.csv"
    frame = frame_of(np.arange(12.0), backbones=2, scenarios=6, judges=1)
    frame["surprise"] = [*np.linspace(1, 9, 11), np.nan]
    frame.to_csv(path, index=False)
    words = ("rank", path, "--model", "uncertainty")
    refused = run(*words)
    assert refused.exit_code == 1
    assert "no column 'nll' to serve as nll" in refused.stderr
    done = run(*words, "--column", "nll=surprise", *FEW)
    assert done.exit_code == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["meta"]["n_excluded"] == 1
    assert found["meta"]["mapping"]["nll"] == "surprise"
    assert "1 value of the covariate nll is missing" in done.stderr


@pytest.mark.parametrize(
    ("model", "score", "message"),
    [
        ("verdict", [0, 1, 3], "1 score is not 0 or 1: 3"),
        ("ordinal", [1, 2, 2.5], "1 score is no whole number: 2.5"),
    ],
)
def test_scores_of_another_family_are_one_message(tmp_path, model, score, message):
    path = tmp_path / "scores.csv"
    frame = frame_of(0.0, backbones=3, scenarios=2, judges=1)
    frame.assign(score=[0, 1, 1, *score]).to_csv(path, index=False)
    done = run("rank", path, "--model", model)
    assert done.exit_code == 1
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    checked = run("validate", path, "--model", model)
    assert checked.exit_code == 1


def test_models_say_what_is_theirs():
    shown = run("models").stdout
    for name in ("verdict", "ordinal", "robust", "uncertainty"):
        assert name in shown
    assert "degrees of freedom gamma:2,0.1" in run("models", "robust").stdout
    assert "slope of nll, for one sd of it: normal:1" in run("models", "uncertainty").stdout
    assert "shared by all scores" in " ".join(run("models", "ordinal").stdout.split())
