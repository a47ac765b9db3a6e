"""A model laid on a table: codes, centring, unit, what is dropped and why."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayesjudge.errors import DataError, ModelError
from bayesjudge.resolution import (
    NOISE_FLOOR,
    Resolved,
    canonical_order,
    resolve,
    response_location,
    response_unit,
)
from bayesjudge.scores import Facet, Scores, read_scores
from bayesjudge.scores.identification import Pattern, gram
from bayesjudge.spec import Prior, Scale, Term, parse_model, read_model

CROSSED = read_model("crossed")
COMMON = read_model("crossed_common")


def half_normal(width):
    return Scale(Prior("half_normal", (width,)))


def frame_of(seed=0, drop=0, **sizes):
    """A crossing of facets with random scores, some rows left out."""
    rows = itertools.product(*([f"{name}{i}" for i in range(n)] for name, n in sizes.items()))
    frame = pd.DataFrame(rows, columns=list(sizes))
    rng = np.random.default_rng(seed)
    frame = frame.assign(score=rng.normal(5, 1, len(frame)).round(3))
    keep = np.sort(rng.permutation(len(frame))[: len(frame) - drop])
    return frame.iloc[keep].reset_index(drop=True)


def scores_of(seed=0, drop=0, sizes=None, **options):
    default = {"backbone": 3, "scenario": 6, "judge": 4}
    return read_scores(frame_of(seed, drop, **(sizes or default)), **options)


def names(resolved):
    return {t.name for t in resolved.terms}


BASE = {
    "backbone",
    "judge",
    "backbone:judge",
    "scenario",
    "backbone:scenario",
    "judge:scenario",
}


def test_a_balanced_table():
    scores = scores_of()
    found = resolve(CROSSED, scores)
    assert isinstance(found, Resolved)
    assert names(found) == BASE
    assert found.panel == ("backbone", "judge")
    assert found.random == ("scenario",)
    assert found.spec is CROSSED
    assert found.score is scores.score
    term = found.term("judge:backbone")
    assert (term.name, term.variable) == ("backbone:judge", "backbone_judge")
    assert term.dims == ("backbone", "judge")
    assert term.shape == (3, 4)
    assert term.n_levels == 12
    expected = scores.codes("backbone") * 4 + scores.codes("judge")
    np.testing.assert_array_equal(term.codes, expected)
    assert dict(found.labels) == {f.name: f.levels for f in scores.facets}
    by = found.term("backbone:scenario")
    assert by.by_labels == scores.levels("backbone")
    np.testing.assert_array_equal(by.by_codes, np.repeat(np.arange(3), 6))
    assert found.term("judge").by_codes is None
    assert found.term("judge").by_labels == ()
    np.testing.assert_array_equal(found.residual_by, scores.codes("backbone"))
    assert found.residual_labels == scores.levels("backbone")


def test_panel_terms_are_centred_and_others_are_not():
    sizes = {"backbone": 3, "scenario": 5, "judge": 3, "language": 3}
    found = resolve(CROSSED, scores_of(sizes=sizes))
    for term in found.terms:
        panel = set(term.dims) <= {"backbone", "judge", "language"}
        assert term.centred == (panel,) * len(term.dims)


def test_a_by_facet_is_never_centred():
    scale = Scale(Prior("half_normal", (1.0,)), "backbone", Prior("half_normal", (0.5,)))
    term = Term(("backbone", "judge"), scale)
    for spec_term in (term, replace(term, sum_to_zero=("judge",))):
        spec = replace(COMMON, terms=(Term(("backbone",), half_normal(2.0)), spec_term))
        found = resolve(spec, scores_of()).term("backbone:judge")
        assert found.centred == (False, True)
        np.testing.assert_array_equal(found.by_codes, np.repeat(np.arange(3), 4))


def test_sum_to_zero_is_taken_as_given():
    terms = (
        Term(("backbone",), half_normal(2.0), ()),
        Term(("judge", "backbone"), half_normal(0.5), ("judge",)),
        Term(("scenario", "judge"), half_normal(0.5), ("judge",)),
    )
    found = resolve(replace(COMMON, terms=terms), scores_of())
    assert found.term("backbone").centred == (False,)
    assert found.term("backbone:judge").centred == (False, True)
    assert found.term("judge:scenario").centred == (True, False)


def test_a_random_judge_is_exchangeable():
    found = resolve(CROSSED, scores_of(random=["judge"]))
    assert found.panel == ("backbone",)
    assert found.random == ("judge", "scenario")
    assert found.term("judge").centred == (False,)
    assert found.term("backbone:judge").centred == (False, False)
    assert found.term("backbone").centred == (True,)


@pytest.mark.parametrize("role", ["facets", "random"])
def test_facets_of_the_users_own(role):
    sizes = {"backbone": 3, "scenario": 4, "judge": 3, "criterion": 2}
    found = resolve(CROSSED, scores_of(sizes=sizes, **{role: ["criterion"]}))
    panel = role == "facets"
    main, interaction = found.term("criterion"), found.term("criterion:backbone")
    assert main.scale == half_normal(1.0)
    assert interaction.scale == half_normal(0.5 if panel else 1.0)
    assert interaction.dims == ("backbone", "criterion")
    assert main.centred == (panel,)
    assert interaction.centred == (panel, panel)
    assert ("criterion" in found.panel) is panel
    assert ("criterion" in found.random) is not panel


def test_a_model_that_names_a_users_facet_says_all_about_it():
    term = Term(("criterion",), half_normal(3.0))
    spec = replace(COMMON, terms=(*COMMON.terms, term))
    sizes = {"backbone": 3, "scenario": 4, "judge": 3, "criterion": 2}
    found = resolve(spec, scores_of(sizes=sizes, facets=["criterion"]))
    assert found.term("criterion").scale == half_normal(3.0)
    assert "backbone:criterion" not in names(found)


def test_canonical_order():
    facets = ("framework", "generation", "judge", "unknown", "criterion", "backbone", "scenario")
    expected = (
        "backbone",
        "judge",
        "scenario",
        "generation",
        "criterion",
        "framework",
        "unknown",
    )
    assert canonical_order(facets, ("criterion", "framework")) == expected


# Unit and location


@pytest.mark.parametrize(
    ("scale", "unit", "location"), [((1, 10), 2.25, 5.5), ((0, 1), 0.25, 0.5), ((-2, 2), 1.0, 0.0)]
)
def test_unit_and_location_from_a_scale(scale, unit, location):
    scores = np.array([0.2, 0.4])
    assert response_unit(scores, scale) == unit
    assert response_location(scores, scale, unit) == location


@pytest.mark.parametrize(
    ("scores", "unit", "location"),
    [
        ([1.0, 2.0, 3.0], 1.0, 2.0),
        ([10.0, 30.0, 51.0], 20.0, 30.0),
        ([1233.0, 1234.5, 1236.3], 2.0, 1235.0),
        ([0.0, 0.0147, 0.031], 0.02, 0.02),
        ([-0.95, 0.95, 0.0, 0.0], 0.8, 0.0),
        ([0.0, 1.35], 1.0, 1.0),
    ],
)
def test_unit_and_location_are_rounded(scores, unit, location):
    found = response_unit(np.array(scores), None)
    assert found == pytest.approx(unit, rel=1e-12)
    assert response_location(np.array(scores), None, found) == pytest.approx(location, rel=1e-12)


@pytest.mark.parametrize("value", [0.0, 7.0, 1e9, 1 / 3, -0.1])
def test_equal_scores_have_unit_one(value):
    assert response_unit(np.full(9, value), None) == 1.0
    assert response_unit(np.array([value]), None) == 1.0
    assert response_location(np.full(9, value), None, 1.0) == round(value)


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=30))
def test_the_unit_is_within_half_of_the_sd(values):
    scores = np.array(values)
    sd = float(np.std(scores, ddof=1))
    unit = response_unit(scores, None)
    assert unit > 0
    if sd > 1e-11 * max(1.0, np.abs(scores).max()):
        assert 0.66 <= unit / sd <= 1.51
        assert f"{unit:.0e}" == f"{unit:.14e}"[0] + f"{unit:.0e}"[1:]
    location = response_location(scores, None, unit)
    assert abs(location - scores.mean()) <= 0.51 * unit + 1e-9 * abs(location)


def test_unit_and_location_are_those_given():
    found = resolve(CROSSED, scores_of(), unit=3.0, location=-1.0)
    assert (found.unit, found.location) == (3.0, -1.0)
    assert found.noise_floor == NOISE_FLOOR * 3.0


@pytest.mark.parametrize("unit", [0.0, -1.0, float("nan"), float("inf")])
def test_a_unit_is_positive_and_finite(unit):
    with pytest.raises(ModelError, match=r"the unit is .*positive and finite"):
        resolve(CROSSED, scores_of(), unit=unit)


@pytest.mark.parametrize("location", [float("nan"), float("-inf")])
def test_a_location_is_finite(location):
    with pytest.raises(ModelError, match=r"the location is .*finite"):
        resolve(CROSSED, scores_of(), location=location)


def test_scores_too_large_for_a_unit_are_refused():
    frame = frame_of(backbone=2, scenario=3, judge=2)
    frame["score"] = np.tile([1e308, -1e308, 1e308], 4)
    with pytest.raises(ModelError, match="the unit is 1e"):
        resolve(CROSSED, read_scores(frame))


# What is dropped, and what is said


def reasons(resolved):
    return {d.name: d.reason for d in resolved.dropped}


def test_reasons():
    found = reasons(resolve(CROSSED, scores_of()))
    assert found["language"] == "the table has no language"
    assert found["backbone:language"] == "the table has no language"
    assert found["generation"] == "the table has no generation"
    assert found["backbone:judge:scenario"] == "the table cannot tell it from residual"
    one = resolve(CROSSED, scores_of(sizes={"backbone": 3, "scenario": 6, "judge": 1}))
    assert reasons(one)["judge"] == "judge has one level"
    assert reasons(one)["backbone:judge"] == "judge has one level"
    assert names(one) == {"backbone", "scenario"}
    assert set(reasons(one)) | names(one) == {
        ":".join(canonical_order(t.facets, ())) for t in CROSSED.terms
    }


def test_names_of_dropped_terms_are_in_canonical_order():
    terms = (*COMMON.terms[:1], Term(("language", "judge"), half_normal(1.0)))
    found = resolve(replace(COMMON, terms=terms), scores_of())
    assert [d.name for d in found.dropped] == ["judge:language"]


def test_a_term_that_does_not_vary_says_so():
    # Each judge speaks one language: of the four cells of judge:language only the
    # diagonal is there, and centred over both its effects are one and the same.
    frame = frame_of(backbone=3, scenario=6, judge=2)
    found = resolve(CROSSED, read_scores(frame.assign(language=frame["judge"].str.upper())))
    assert reasons(found)["judge:language"] == "it does not vary within the table"
    assert reasons(found)["language"] == "the table cannot tell it from judge"


def test_the_interaction_at_one_scenario_is_the_residual():
    found = resolve(CROSSED, scores_of(sizes={"backbone": 3, "scenario": 1, "judge": 4}))
    assert names(found) == {"backbone", "judge"}
    assert reasons(found)["backbone:judge"] == (
        "the table cannot tell it from backbone + judge + residual"
    )


def test_asking_for_a_term():
    found = resolve(CROSSED, scores_of())
    assert found.term("scenario:judge").name == "judge:scenario"
    with pytest.raises(ModelError, match=r"'language' was dropped.*has no language"):
        found.term("language")
    with pytest.raises(ModelError, match=r"no term 'criterion'.*backbone:judge"):
        found.term("criterion")


def test_one_score_a_backbone_is_refused():
    backbone = Facet("backbone", "panel", ("a", "b", "c"), np.arange(3))
    scores = Scores(np.array([1.0, 2.0, 3.0]), (backbone,), source="scores.csv")
    with pytest.raises(DataError, match="cannot be told from the residual") as caught:
        resolve(CROSSED, scores)
    assert "more scenarios" in caught.value.remedy
    assert caught.value.where == "scores.csv"


def test_facets_with_few_levels_are_named():
    found = resolve(CROSSED, scores_of(sizes={"backbone": 3, "scenario": 6, "judge": 4}))
    assert found.notes == ("the superpopulation sd is prior-dominated for judge (4 levels)",)
    few = resolve(CROSSED, scores_of(sizes={"backbone": 3, "scenario": 4, "judge": 4}))
    assert few.notes == (
        "the superpopulation sd is prior-dominated for judge (4 levels), scenario (4 levels)",
    )
    many = resolve(CROSSED, scores_of(sizes={"backbone": 3, "scenario": 5, "judge": 5}))
    assert many.notes == ()


def scaled(facets, by):
    scale = Scale(Prior("half_normal", (1.0,)), by, Prior("half_normal", (0.5,)))
    return Term(facets, scale)


def test_a_scale_by_a_facet_that_the_table_lacks():
    terms = (Term(("backbone",), half_normal(2.0)), scaled(("generation",), "scenario"))
    frame = frame_of(backbone=3, judge=3, generation=3).assign(score=lambda f: np.arange(len(f)))
    with pytest.raises(ModelError, match="by 'scenario', which the table does not have"):
        resolve(replace(COMMON, terms=terms), read_scores(frame))
    residual = scaled(("backbone",), "criterion").scale
    with pytest.raises(ModelError, match="residual scale is by 'criterion'"):
        resolve(replace(COMMON, residual=residual), scores_of())


def test_a_family_without_residual_scale():
    data = COMMON.to_data()
    del data["residual"]
    spec = parse_model({**data, "family": "bernoulli", "link": "logit"})
    scores = scores_of()
    verdicts = replace(scores, score=(scores.score > np.median(scores.score)).astype(float))
    resolved = resolve(spec, verdicts)
    assert resolved.residual is None
    assert resolved.residual_facet is None
    assert resolved.categories == (0, 1)
    with pytest.raises(ModelError, match="'bernoulli' has no residual scale"):
        _ = resolved.residual_scale


def test_facets_of_scales_have_labels():
    residual = scaled(("judge",), "judge").scale
    sizes = {"backbone": 3, "scenario": 6, "judge": 1}
    found = resolve(replace(COMMON, residual=residual), scores_of(sizes=sizes))
    assert dict(found.labels)["judge"] == found.residual_labels == ("judge0",)


# Generations


GENERATIONS = {"backbone": 3, "scenario": 4, "judge": 3, "generation": 2}


def test_generations_are_told_apart():
    scores = scores_of(sizes=GENERATIONS)
    found = resolve(CROSSED, scores)
    term = found.term("generation")
    assert term.shape == (24,)
    assert term.centred == (False,)
    cells = pd.DataFrame({f.name: f.codes for f in scores.facets}).assign(code=term.codes)
    codes_of = cells.groupby(["backbone", "scenario", "generation"])["code"].agg(set)
    assert {len(codes) for codes in codes_of} == {1}
    assert cells["code"].nunique() == 24
    owner = cells.drop_duplicates("code").sort_values("code")["backbone"].to_numpy()
    np.testing.assert_array_equal(term.by_codes, owner)
    assert term.by_labels == scores.levels("backbone")
    labels = dict(found.labels)["generation"]
    assert len(set(labels)) == 24
    assert labels[0] == "scenario0 | backbone0 | generation0"


def test_generations_by_language_have_names_of_their_own():
    sizes = {"backbone": 2, "scenario": 3, "judge": 2, "language": 2, "generation": 2}
    found = resolve(CROSSED, scores_of(sizes=sizes))
    labels = dict(found.labels)["generation"]
    assert len(labels) == len(set(labels)) == 24
    assert labels[0] == "scenario0 | backbone0 | language0 | generation0"


def test_explicit_generations():
    frame = frame_of(**GENERATIONS)
    frame["generation"] = frame["scenario"] + frame["backbone"] + frame["generation"]
    found = resolve(CROSSED, read_scores(frame))
    same = resolve(CROSSED, scores_of(sizes=GENERATIONS))
    assert names(found) == names(same)
    pairs = {*zip(found.term("generation").codes, same.term("generation").codes, strict=True)}
    assert len(pairs) == 24


def test_one_generation_an_answer_is_the_answer():
    found = resolve(CROSSED, scores_of(sizes={**GENERATIONS, "generation": 1}))
    assert "generation" not in names(found)
    assert reasons(found)["generation"] == "the table cannot tell it from backbone:scenario"


# Nothing depends on labels or the order of rows


def g_of(resolved):
    patterns = [
        Pattern(t.name, t.codes, t.shape, t.centred, len(t.dims))
        for t in sorted(resolved.terms, key=lambda t: t.name)
    ]
    n = resolved.score.size
    return gram((*patterns, Pattern("residual", np.arange(n), (n,), (False,), n)))


@given(st.integers(0, 2**32 - 1), st.integers(0, 20), st.booleans())
@settings(max_examples=30, deadline=None)
def test_labels_and_order_of_rows_do_not_matter(seed, drop, generations):
    sizes = GENERATIONS if generations else {"backbone": 3, "scenario": 6, "judge": 3}
    frame = frame_of(seed, drop, **sizes)
    rng = np.random.default_rng(seed)
    other = frame.iloc[rng.permutation(len(frame))].reset_index(drop=True)
    for name in ("backbone", "scenario", "judge"):
        labels = sorted(frame[name].unique())
        new = rng.permutation([f"é{i} |" for i in range(len(labels))])
        other[name] = other[name].map(dict(zip(labels, new, strict=True)))
    first, second = resolve(CROSSED, read_scores(frame)), resolve(CROSSED, read_scores(other))
    assert names(first) == names(second)
    assert first.dropped == second.dropped
    assert first.unit == second.unit
    assert first.location == second.location
    np.testing.assert_allclose(g_of(first), g_of(second), rtol=1e-9, atol=1e-7)
