"""Prior sensitivity: the scaled model, the refits, the warning."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

import bayesjudge as bj
from bayesjudge.cli.app import app
from bayesjudge.errors import ModelError, UsageError
from bayesjudge.sensitivity import check_factors, sensitivity_findings, sensitivity_table
from bayesjudge.simulation import simulate
from bayesjudge.spec import Prior, Thresholds, override_prior, read_model, scale_priors
from bayesjudge.spec.model import Scale

MODELS = bj.shipped_models()


@pytest.mark.parametrize("name", MODELS)
def test_all_scales_are_scaled_and_nothing_else(name):
    spec = read_model(name)
    wide = scale_priors(spec, 2.0)
    for old, new in zip(spec.terms, wide.terms, strict=True):
        assert (new.facets, new.sum_to_zero, new.scale.spread) == (
            old.facets,
            old.sum_to_zero,
            old.scale.spread,
        )
        before, after = old.scale.center, new.scale.center
        if before.distribution == "lognormal":
            assert after.parameters == pytest.approx(
                (before.parameters[0] + np.log(2), before.parameters[1])
            )
        else:
            assert after.parameters == (2 * before.parameters[0],)
    assert wide.intercept == spec.intercept
    assert wide.covariates == spec.covariates
    assert wide.degrees_of_freedom == spec.degrees_of_freedom
    assert wide.title.endswith("with all scales x 2")
    assert wide != spec


@given(st.floats(0.01, 100.0))
def test_a_factor_and_its_inverse_give_the_model_back(factor):
    spec = read_model("cyclicjudge")
    again = scale_priors(scale_priors(spec, factor), 1 / factor)
    for old, new in zip(spec.terms, again.terms, strict=True):
        assert new.scale.center.parameters == pytest.approx(old.scale.center.parameters)


def test_thresholds_are_scaled_and_what_is_fixed_stays():
    deviation = Thresholds("judge", Prior("half_normal", (0.5,)))
    spec = override_prior(replace(read_model("ordinal"), thresholds=deviation), "judge.scale=flat")
    wide = scale_priors(spec, 0.5)
    assert wide.thresholds.deviation.parameters == (0.25,)
    assert wide.term("judge").scale == spec.term("judge").scale
    assert wide.residual is None


@pytest.mark.parametrize("factors", [(), (0.0,), (-1.0,), (1.0,), (np.inf,)])
def test_factors_that_ask_nothing_are_refused(factors):
    with pytest.raises(UsageError, match="factors"):
        check_factors(factors)


def test_the_table_says_how_far_p_best_moves():
    table = sensitivity_table(
        ["a", "b"],
        np.array([0.6, 0.4]),
        [np.array([0.64, 0.36]), np.array([0.53, 0.47])],
        (0.5, 2),
    )
    assert list(table.columns) == [
        "backbone", "p_best", "p_best_x0.5", "p_best_x2", "change", "sensitive"
    ]  # fmt: skip
    assert table["change"].tolist() == pytest.approx([0.07, 0.07])
    assert table["sensitive"].all()
    (found,) = sensitivity_findings(table)
    assert found.severity == "warning"
    assert "all scales x 0.5, 2" in found.what
    assert "a 0.600, 0.640, 0.530" in found.what
    assert sensitivity_findings(table.assign(sensitive=False)) == ()


@pytest.fixture(scope="module")
def small():
    return simulate(
        "crossed_common", backbones=3, scenarios=3, judges=2, random_seed=3,
        sd={"backbone": 0.5, "residual": 0.8},
    ).table  # fmt: skip


def test_refits_are_fits_with_those_priors(small):
    scores = bj.read_scores(small)
    fit = bj.fit(scores, "crossed_common", unit=1.0, location=7.0, draws=300)
    table = fit.prior_sensitivity((0.2, 3.0))
    made = fit.metadata
    for factor, column in ((0.2, "p_best_x0.2"), (3.0, "p_best_x3")):
        spec = scale_priors(fit.spec, factor)
        again = bj.fit(scores, spec, unit=made["unit"], location=made["location"], draws=300)
        expected = again.rank_probabilities().to_numpy()[:, 0]
        np.testing.assert_array_equal(table[column], expected)
    np.testing.assert_array_equal(table["p_best"], fit.rank_probabilities().to_numpy()[:, 0])
    # Three scenarios and two judges: scales five times as narrow pull the means together.
    assert table["sensitive"].any()
    wide = fit.prior_sensitivity((3.0,), scenario_pool=3)
    assert not np.allclose(wide["p_best"], table["p_best"])


def test_a_refit_that_does_not_converge_is_an_error(small, monkeypatch):
    fit = bj.fit(bj.read_scores(small), "crossed_common", draws=300)
    # Its own check is kept, that of other fits fails.
    assert fit.convergence.converged
    bad = replace(fit.convergence, converged=False, reasons=("too short",))
    monkeypatch.setattr("bayesjudge.fitted.diagnose", lambda *_: bad)
    with pytest.raises(ModelError, match="all scales x 2 did not converge: too short"):
        fit.prior_sensitivity((2.0,))


def test_the_command_line_shows_and_writes_it(small, tmp_path):
    path = tmp_path / "scores.csv"
    small.to_csv(path, index=False)
    common = ["--sensitivity", "--allow-unconverged", "--out", str(tmp_path / "out")]
    done = CliRunner().invoke(
        app, ["rank", str(path), "--model", "crossed_common", "--draws", "150", *common]
    )
    assert done.exit_code == 0, done.stderr
    assert "P(best) with the priors of all scales" in done.stdout
    text = (tmp_path / "out" / "sensitivity.csv").read_text()
    assert text.startswith("backbone,p_best,p_best_x0.5,p_best_x2,change,sensitive\n")
    meta = json.loads((tmp_path / "out" / "result.json").read_text())["meta"]
    assert [row["backbone"] for row in meta["sensitivity"]] == [f"backbone-{i}" for i in (1, 2, 3)]
    moved = max(row["change"] for row in meta["sensitivity"]) > 0.05
    assert moved == ("P(best) rests on the priors" in done.stderr)
    assert "P(best) with other priors" in (tmp_path / "out" / "report.md").read_text()
    # A saved fit is fitted again as it was.
    saved = str(tmp_path / "out" / "posterior.nc")
    again = CliRunner().invoke(app, ["rank", saved, "--sensitivity", "--allow-unconverged",
                                     "--json"])  # fmt: skip
    assert json.loads(again.stdout)["meta"]["sensitivity"] == meta["sensitivity"]


def test_scales_of_users_models_keep_their_facet():
    scale = Scale(Prior("lognormal", (-1.0, 1.0)), "judge", Prior("half_normal", (0.5,)))
    spec = replace(read_model("crossed_common"), residual=scale)
    assert scale_priors(spec, 2).residual.by == "judge"
