"""Models compared by leave-one-out: densities, table, refusals, the command."""

from __future__ import annotations

import json
import warnings
from dataclasses import replace

import arviz_stats
import numpy as np
import pytest
import xarray as xr
from scipy import stats
from typer.testing import CliRunner

import bayesjudge as bj
from bayesjudge.cli.app import app
from bayesjudge.cross_validating import LeftOut, comparison_table, leave_one_out
from bayesjudge.errors import DataError, ModelError, UsageError
from bayesjudge.simulation import simulate
from bayesjudge.spec import Prior, read_model
from tests.dense_twin import COMMON, dense_covariance, frame_of


@pytest.fixture(scope="module")
def table():
    return simulate(
        "crossed", backbones=3, scenarios=15, judges=3, random_seed=1,
        sd={"backbone:scenario": [0.3, 0.3, 0.3], "residual": [0.3, 0.6, 2.4]},
    ).table  # fmt: skip


@pytest.fixture(scope="module")
def fits(table):
    scores = bj.read_scores(table)
    return {name: bj.fit(scores, name, draws=500) for name in ("crossed", "crossed_common")}


@pytest.fixture(scope="module")
def found(fits):
    return bj.compare(fits)


def test_the_model_that_made_the_table_is_first(found):
    assert found.table["model"].tolist() == ["crossed", "crossed_common"]
    row = found.table.iloc[1]
    assert row["elpd_diff"] < -2 * row["dse"]
    assert row["p_worse"] > 0.95
    assert found.table["elpd_diff"][0] == 0
    assert np.isnan(found.table["p_worse"][0])
    counts = found.table[["k_good", "k_bad", "k_very_bad"]].sum(axis=1)
    assert (counts == 135).all()
    assert "not new scenarios" in found.about
    assert "<table" in found._repr_html_()


def test_figures_are_arvizs(fits, found):
    extended = {n: f.extend(log_likelihood=True, draws=1000).posterior for n, f in fits.items()}
    with warnings.catch_warnings():
        # Of Pareto k, which we count.
        warnings.simplefilter("ignore")
        theirs = {
            name: arviz_stats.loo(tree, pointwise=True, reff=_reff(fits[name]))
            for name, tree in extended.items()
        }
    for row in found.table.itertuples():
        other = theirs[row.model]
        assert row.elpd == pytest.approx(other.elpd)
        assert row.p_loo == pytest.approx(other.p)
        np.testing.assert_allclose(found.left_out[row.model].pareto_k, other.pareto_k)
        assert row.k_limit == pytest.approx(other.good_k)
        # ArviZ divides by N, we by N - 1.
        assert row.se == pytest.approx(other.se, rel=0.01)
    whole = arviz_stats.compare(theirs, round_to="none")
    assert whole.loc["crossed_common", "dse"] == pytest.approx(found.table["dse"][1], rel=0.01)
    assert whole.loc["crossed_common", "elpd_diff"] == pytest.approx(found.table["elpd_diff"][1])


def _reff(fit):
    return min(1.0, fit.convergence.ess_bulk_min / 2000)


def test_leave_one_out_is_exact_in_a_conjugate_model():
    """Scales fixed: p(y_i | the others) is normal and known; PSIS is within 3 % of it."""
    fixed = replace(
        COMMON,
        terms=tuple(
            replace(t, scale=replace(t.scale, center=Prior("fixed", (0.4,)))) for t in COMMON.terms
        ),
        residual=replace(COMMON.residual, center=Prior("fixed", (1.0,))),
    )
    scores = bj.read_scores(frame_of(seed=2, backbone=3, scenario=5, judge=3))
    # Pareto k of the one score far off is 0.7 on average, and below it for this seed.
    fit = bj.fit(scores, fixed, unit=1.0, location=5.0, random_seed=3)
    own = leave_one_out(fit, 4000)
    resolved = fit.resolved
    sd = np.array([0.4] * len(resolved.terms) + [resolved.intercept_sd])
    v = dense_covariance(resolved, sd, np.array([1.0 + resolved.noise_floor**2])) + sd[-1] ** 2
    inverse = np.linalg.inv(v)
    y = scores.score - 5.0
    # The conditional of one of many normal variables: Sundararajan and Keerthi (2001).
    variance = 1 / np.diag(inverse)
    exact = stats.norm.logpdf(y, y - inverse @ y * variance, np.sqrt(variance))
    assert (own.pareto_k < 0.7).all()
    # 4,000 draws, a tenth of them in the tail: a few hundredths, more of scores far off.
    assert (np.abs(own.elpd - exact) < 0.03 + 0.03 * np.abs(exact)).all()
    assert np.median(np.abs(own.elpd - exact)) < 0.02
    assert abs(own.elpd.sum() - exact.sum()) < 0.5
    assert own.n_draws == 4000


def test_standard_errors_know_scenarios():
    rng = np.random.default_rng(0)
    scenario = np.repeat(np.arange(20), 5)
    shared = rng.normal(0.0, 1.0, 20)[scenario]
    ks = np.array([0.1, 0.8, 1.4, np.nan, *([0.2] * 96)])
    table = comparison_table(
        {
            "a": LeftOut(np.zeros(100), 3.0, ks, 0.7, 1000),
            "b": LeftOut(shared - 5.0, 4.0, ks, 0.7, 1000),
        },
        scenario,
    )
    row = table.iloc[1]
    assert row["dse"] == pytest.approx(10 * shared.std(ddof=1))
    assert row["dse_scenario"] == pytest.approx(
        np.sqrt(20) * np.bincount(scenario, shared).std(ddof=1)
    )
    assert row["dse_scenario"] > 2 * row["dse"]
    expected = stats.norm.cdf(-row["elpd_diff"] / row["dse_scenario"])
    assert row["p_worse"] == pytest.approx(expected)
    assert (row["k_good"], row["k_bad"], row["k_very_bad"]) == (97, 1, 2)
    alone = comparison_table({"a": LeftOut(np.zeros(1), 0.0, ks[:1], 0.7, 1000)}, None)
    assert np.isnan(alone["dse_scenario"][0])
    assert np.isnan(alone["se"][0])


def test_models_that_predict_alike_are_said_to(fits):
    found = bj.compare({"one": fits["crossed"], "two": fits["crossed"]}, draws=200)
    assert any("two cannot be told from one" in f.what for f in found.findings)
    assert found.table["elpd_diff"].tolist() == [0.0, 0.0]


def test_a_fit_that_did_not_converge_is_named(fits):
    short = bj.fit(fits["crossed"].scores, draws=30)
    assert not short.convergence.converged
    found = bj.compare({"short": short, "long": fits["crossed"]}, draws=120)
    said = [f for f in found.findings if "did not converge" in f.what]
    assert [f.where for f in said] == ["short"]
    assert said[0].severity == "warning"


def test_high_pareto_k_is_a_warning(fits, monkeypatch):
    bad = LeftOut(np.zeros(135), 9.0, np.full(135, 0.9), 0.7, 1000)
    monkeypatch.setattr("bayesjudge.cross_validating.leave_one_out", lambda *_: bad)
    found = bj.compare(fits)
    assert (
        sum("135 of 135 scores have a Pareto k above 0.70" in f.what for f in found.findings) == 2
    )


def test_what_does_not_compare_is_refused(fits, table):
    one = fits["crossed"]
    other = bj.fit(bj.read_scores(table.assign(score=table["score"] * 2)), draws=30)
    with pytest.raises(DataError, match="different tables"):
        bj.compare({"one": one, "twice": other})
    moved = table.assign(judge=table["judge"].replace({"judge-1": "judge-2", "judge-2": "judge-1"}))
    with pytest.raises(DataError, match="different tables"):
        bj.compare({"one": one, "moved": bj.fit(bj.read_scores(moved), draws=30)})
    latent = replace(one, spec=read_model("ordinal"))
    with pytest.raises(ModelError, match="'latent' gives scores a probability and 'one' a density"):
        bj.compare({"one": one, "latent": latent})
    for wrong in ({}, {"one": one}):
        with pytest.raises(UsageError, match="fewer than two"):
            bj.compare(wrong)
    for wrong in ([one, one], {"one": 1, "two": one}):
        with pytest.raises(UsageError, match="takes fits by name"):
            bj.compare(wrong)
    with pytest.raises(UsageError, match="draws is 5"):
        bj.compare(fits, draws=5)


def test_fits_of_fewer_facets_and_other_roles_compare(table):
    whole = bj.fit(bj.read_scores(table), "crossed_common", draws=100)
    random = bj.fit(bj.read_scores(table, random=["judge"]), "crossed_common", draws=100)
    found = bj.compare({"panel": whole, "random": random}, draws=100)
    assert len(found.table) == 2


def test_the_command_prints_a_table_or_json(fits, tmp_path):
    paths = {name: str(fit.save(tmp_path / f"{name}.nc")) for name, fit in fits.items()}
    words = ["compare", f"best={paths['crossed']}", paths["crossed_common"], "--draws", "200"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.stderr
    assert "best" in done.stdout
    assert "not new scenarios" in done.stderr
    assert max(len(line) for line in done.stdout.splitlines()) <= 100
    found = json.loads(CliRunner().invoke(app, [*words, "--json", "--quiet"]).stdout)
    assert [row["model"] for row in found["models"]] == ["best", paths["crossed_common"]]
    assert found["models"][0]["p_worse"] is None
    assert found["meta"]["titles"]["best"] == "crossed"
    assert found["meta"]["n_scores"] == 135
    twice = CliRunner().invoke(app, ["compare", f"a={paths['crossed']}", f"a={paths['crossed']}"])
    assert twice.exit_code == 2
    missing = CliRunner().invoke(app, ["compare", "a=no.nc", "b=no.nc"])
    assert missing.exit_code == 1
    assert "does not exist" in missing.stderr


def test_groups_are_written_on_request(table, tmp_path):
    path, out = tmp_path / "scores.csv", tmp_path / "out"
    table.to_csv(path, index=False)
    common = ["--draws", "30", "--allow-unconverged"]
    words = ["rank", str(path), *common, "--log-likelihood", "--predictive"]
    refused = CliRunner().invoke(app, words)
    assert refused.exit_code == 2
    assert "--out DIR" in refused.stderr
    done = CliRunner().invoke(app, [*words, "--out", str(out)])
    assert done.exit_code == 0, done.stderr
    assert "log_likelihood: 120 draws of 135 scores" in done.stderr
    with xr.open_datatree(out / "posterior.nc", engine="h5netcdf") as tree:
        groups = {"log_likelihood", "posterior_predictive", "prior_predictive", "observed_data"}
        assert groups <= set(tree.children)
    # A saved fit without them is given them.
    plain = bj.fit(bj.read_scores(table), draws=30).save(tmp_path / "plain.nc")
    again = CliRunner().invoke(
        app, ["rank", str(plain), "--log-likelihood", "--out", str(tmp_path / "again"),
              "--allow-unconverged"]
    )  # fmt: skip
    assert again.exit_code == 0, again.stderr
    assert "log_likelihood" in bj.load(tmp_path / "again" / "posterior.nc").posterior.children
