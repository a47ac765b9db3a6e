"""Covariates are read, checked, kept with the table and laid on it."""

import numpy as np
import pandas as pd
import pytest

import bayesjudge as bj
from bayesjudge import sampling
from bayesjudge.errors import DataError, UsageError
from bayesjudge.resolution import resolve
from bayesjudge.spec import read_model


def frame(nll):
    return pd.DataFrame(
        {
            "backbone": ["a", "b"] * (len(nll) // 2),
            "scenario": [f"s{i // 2}" for i in range(len(nll))],
            "score": np.arange(len(nll), dtype=float),
            "nll": nll,
        }
    )


def test_a_covariate_is_kept_beside_the_scores():
    scores = bj.read_scores(frame([1.0, 2, 3, 10]), covariates="nll")
    assert scores.covariate_names == ("nll",)
    np.testing.assert_array_equal(scores.covariate("nll"), [1, 2, 3, 10])
    assert ("nll", "nll") in scores.mapping
    assert scores.facet_names == ("backbone", "scenario")
    assert scores == bj.read_scores(frame([1.0, 2, 3, 10]), covariates="nll")
    assert scores != bj.read_scores(frame([1.0, 2, 3, 11]), covariates="nll")
    assert scores != bj.read_scores(frame([1.0, 2, 3, 10]))


def test_rows_without_a_number_are_counted_and_left_out():
    table = frame(["1", "x", None, "4", "5", "6"])
    scores = bj.read_scores(table, covariates=["nll"])
    np.testing.assert_array_equal(scores.covariate("nll"), [1, 4, 5, 6])
    assert scores.n_excluded == 2
    (found,) = [p for p in scores.problems if "covariate" in p.what]
    assert (found.severity, found.rows) == ("warning", 2)
    with pytest.raises(DataError, match="2 values of the covariate nll are missing"):
        bj.read_scores(table, covariates=["nll"], strict=True)


def test_a_covariate_may_have_a_column_of_another_name():
    table = frame([1.0, 2, 3, 4]).rename(columns={"nll": "Total NLL"})
    with pytest.raises(DataError, match="no column 'nll' to serve as nll"):
        bj.read_scores(table, covariates=["nll"])
    scores = bj.read_scores(table, covariates=["nll"], columns={"nll": "total nll"})
    assert dict(scores.mapping)["nll"] == "Total NLL"


@pytest.mark.parametrize("name", ["score", "judge", "backbone_latent"])
def test_a_covariate_cannot_bear_a_name_with_a_meaning(name):
    with pytest.raises(UsageError, match=f"a covariate cannot be called '{name}'"):
        bj.read_scores(frame([1.0, 2, 3, 4]), covariates=[name])


def test_a_covariate_is_centred_and_scaled_by_its_own_sd():
    nll = np.array([1.0, 2, 3, 10, 4, 7, 7, 2])
    resolved = resolve(read_model("uncertainty"), bj.read_scores(frame(nll), covariates=["nll"]))
    (covariate,) = resolved.covariates
    assert (covariate.mean, covariate.sd) == (nll.mean(), nll.std())
    np.testing.assert_allclose(covariate.values * nll.std() + nll.mean(), nll)


@pytest.mark.parametrize(
    ("model", "expected"), [("crossed", (1000, 500)), ("verdict", (2000, 1000))]
)
def test_sampled_effects_take_more_draws_unless_told(monkeypatch, model, expected):
    asked = []

    class Enough(Exception):  # noqa: N818
        pass

    def engine(resolved, settings):
        asked.append((settings.draws, settings.tune))
        raise Enough

    monkeypatch.setattr(sampling, "load_engine", lambda _: engine)
    table = frame([0.0] * 8).assign(score=[0.0, 1] * 4)
    for given in ({}, {"draws": 7, "tune": 9}):
        with pytest.raises(Enough):
            bj.fit(bj.read_scores(table), model, **given)
    assert asked == [expected, (7, 9)]
