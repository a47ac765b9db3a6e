"""Models as data: what parses, what is refused and how, what ``--prior`` does."""

from __future__ import annotations

import contextlib
import copy
import tomllib
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayesjudge.errors import ModelError
from bayesjudge.spec import (
    ModelSpec,
    Prior,
    Scale,
    Term,
    models_folder,
    override_prior,
    parse_model,
    read_model,
    shipped_models,
)
from bayesjudge.spec.model import FAMILIES, FLAT_SCALE, Covariate, Thresholds

GAUSSIAN = {
    "name": "mine",
    "summary": "A model of mine.",
    "family": "gaussian",
    "intercept": {"normal": 2.0},
    "term": [{"facets": ["backbone"], "scale": {"half_normal": 2.0}}],
    "residual": {"scale": {"half_normal": 1.0}},
}

SAMPLE = """
name = "like_cyclicjudge"
summary = "Offsets per backbone."
references = ["CyclicJudge, equation 1"]
family = "gaussian"
link = "identity"

[intercept]
normal = 2.0

[[term]]
facets = ["backbone"]
scale = { half_normal = 2 }

[[term]]                                  # cyclicjudge: offsets per backbone
facets = ["backbone", "judge"]
sum_to_zero = ["judge"]          # default: every panel facet of the term; [] = exchangeable
scale = { by = "backbone", center = { lognormal = [-1, 1] }, spread = { half_normal = 0.5 } }

[residual]
scale = { half_normal = 1.0 }
"""

ORDINAL = """
name = "my_ordinal"
summary = "Cutpoints that differ by judge."
family = "cumulative"

[[term]]
facets = ["backbone"]
scale = { half_normal = 1.5 }

[thresholds]                              # ordinal: no intercept
by = "judge"
deviation = { half_normal = 0.5 }         # per-judge deviations sum to zero
"""


def changed(path=(), value=None, drop=False, base=GAUSSIAN):
    """The gaussian model with one entry replaced, added or dropped."""
    data = copy.deepcopy(base)
    inner = data
    for key in path[:-1]:
        inner = inner[key]
    if drop:
        del inner[path[-1]]
    else:
        inner[path[-1]] = value
    return data


def prior(distribution, *numbers):
    return Prior(distribution, tuple(map(float, numbers)))


# Shipped models


def test_the_folder_of_models_is_found():
    assert models_folder().is_dir()
    assert shipped_models() == tuple(sorted(p.stem for p in models_folder().glob("*.toml")))
    assert {"crossed", "crossed_common"} <= set(shipped_models())


def test_the_folder_within_the_package_comes_first(tmp_path, monkeypatch):
    from bayesjudge.spec import files

    package = tmp_path / "bayesjudge"
    (package / "spec").mkdir(parents=True)
    (tmp_path / "models").mkdir()
    monkeypatch.setattr(files, "__file__", str(package / "spec" / "files.py"))
    assert files.models_folder() == tmp_path / "models"
    (package / "models").mkdir()
    assert files.models_folder() == package / "models"


@pytest.mark.parametrize("name", shipped_models())
def test_shipped_models_round_trip(name):
    spec = read_model(name)
    assert spec.name == name
    assert spec.title == name
    assert spec.summary
    assert spec.references
    assert parse_model(spec.to_data()) == spec
    assert hash(spec) == hash(read_model(models_folder() / f"{name}.toml"))


def test_the_terms_of_crossed_are_those_of_the_statistics():
    names = [frozenset(t.facets) for t in read_model("crossed").terms]
    expected = (
        "backbone judge language backbone:judge backbone:language judge:language scenario "
        "scenario:backbone scenario:judge scenario:language scenario:backbone:judge "
        "scenario:backbone:language generation"
    )
    assert len(names) == len(set(names))
    assert set(names) == {frozenset(n.split(":")) for n in expected.split()}


def expected_width(facets):
    if facets == {"backbone"}:
        return 2.0
    panel_only = facets <= {"backbone", "judge", "language"}
    return 0.5 if panel_only and len(facets) > 1 else 1.0


@pytest.mark.parametrize("name", ["crossed", "crossed_common"])
def test_priors_are_those_of_the_statistics(name):
    spec = read_model(name)
    assert (spec.family, spec.link) == ("gaussian", "identity")
    assert spec.intercept == prior("normal", 2)
    for term in spec.terms:
        assert term.scale.center == prior("half_normal", expected_width(set(term.facets)))
        assert term.sum_to_zero is None
    assert spec.residual is not None
    assert spec.residual.center == prior("half_normal", 1)
    scales = {**{frozenset(t.facets): t.scale for t in spec.terms}, "residual": spec.residual}
    by = {name: scale for name, scale in scales.items() if scale.by is not None}
    if name == "crossed_common":
        assert by == {}
        return
    assert set(by) == {frozenset({"scenario", "backbone"}), frozenset({"generation"}), "residual"}
    for scale in by.values():
        assert (scale.by, scale.spread) == ("backbone", prior("half_normal", 0.5))


def test_crossed_common_is_crossed_without_by():
    crossed, common = read_model("crossed"), read_model("crossed_common")
    plain = tuple(replace(t, scale=Scale(t.scale.center)) for t in crossed.terms)
    assert crossed.residual is not None
    assert common == replace(
        crossed,
        name=common.name,
        summary=common.summary,
        terms=plain,
        residual=Scale(crossed.residual.center),
    )


# The samples of the design


def test_offsets_per_backbone_parse():
    spec = parse_model(tomllib.loads(SAMPLE))
    term = spec.term("judge:backbone")
    assert term.name == "backbone:judge"
    assert term.sum_to_zero == ("judge",)
    assert term.scale == Scale(
        prior("lognormal", -1, 1), by="backbone", spread=prior("half_normal", 0.5)
    )
    assert str(term.scale.center) == "lognormal:-1,1"
    assert parse_model(spec.to_data()) == spec


def test_ordinal_thresholds_parse():
    spec = parse_model(tomllib.loads(ORDINAL))
    assert spec.intercept is None
    assert spec.residual is None
    assert (spec.family, spec.link) == ("cumulative", "logit")
    assert spec.thresholds == Thresholds("judge", prior("half_normal", 0.5))
    assert parse_model(spec.to_data()) == spec
    plain = parse_model({**tomllib.loads(ORDINAL), "thresholds": {}})
    assert plain.thresholds == Thresholds()
    assert parse_model(plain.to_data()) == plain


def test_covariates_parse():
    data = changed(["covariate"], [{"column": "nll", "prior": {"normal": 1}}])
    spec = parse_model(data)
    assert spec.covariates == (Covariate("nll", prior("normal", 1)),)
    assert parse_model(spec.to_data()) == spec


def test_a_flat_scale_is_a_huge_fixed_one():
    spec = parse_model(changed(["term", 0, "scale"], "flat"))
    assert spec.terms[0].scale == Scale(prior("fixed", FLAT_SCALE))
    assert parse_model(spec.to_data()) == spec


def test_a_scale_may_be_fixed_at_zero():
    spec = parse_model(changed(["term", 0, "scale"], {"fixed": 0}))
    assert spec.terms[0].scale.center == prior("fixed", 0)


@pytest.mark.parametrize("by", ["backbone", "scenario"])
def test_generations_may_have_scales_by_what_they_are_nested_in(by):
    scale = {"by": by, "center": {"half_normal": 1}, "spread": {"fixed": 0.3}}
    terms = [*GAUSSIAN["term"], {"facets": ["generation"], "scale": scale}]
    assert parse_model(changed(["term"], terms)).term("generation").scale.by == by


numbers = st.floats(0.01, 100)
scales = st.one_of(
    st.builds(lambda w: {"half_normal": w}, numbers),
    st.builds(lambda m, w: {"lognormal": [m, w]}, st.floats(-5, 5), numbers),
    st.builds(lambda w: {"fixed": w}, st.floats(0, 100)),
)


@st.composite
def models(draw):
    family = draw(st.sampled_from(sorted(FAMILIES)))
    others = draw(
        st.lists(
            st.lists(
                st.sampled_from(["judge", "language", "scenario", "criterion"]),
                min_size=1,
                max_size=3,
                unique=True,
            ),
            max_size=4,
            unique_by=frozenset,
        )
    )
    terms = []
    for facets in [["backbone"], *others]:
        term = {"facets": facets, "scale": draw(scales)}
        if draw(st.booleans()):
            term["scale"] = {
                "by": facets[0],
                "center": draw(scales),
                "spread": {"half_normal": draw(numbers)},
            }
            term["sum_to_zero"] = facets[1:]
        terms.append(term)
    data = {
        "name": draw(st.text(min_size=1)),
        "summary": draw(st.text(min_size=1)),
        "references": draw(st.lists(st.text(min_size=1))),
        "family": family,
        "link": draw(st.sampled_from(FAMILIES[family])),
        "term": terms,
    }
    if family == "cumulative":
        data["thresholds"] = {}
    else:
        data["intercept"] = {"normal": draw(numbers)}
    if family in ("gaussian", "student_t"):
        data["residual"] = {"scale": draw(scales)}
    if family == "student_t":
        data["degrees_of_freedom"] = {"gamma": [draw(numbers), draw(numbers)]}
    if family == "davidson":
        data["ties"] = {"beta": [draw(numbers), draw(numbers)]}
    if family in ("gaussian", "student_t") and draw(st.booleans()):
        by = draw(st.sampled_from(["judge", "language"]))
        data["discrimination"] = {"by": by, "spread": {"half_normal": draw(numbers)}}
    return data


@given(models())
def test_every_model_round_trips(data):
    spec = parse_model(data)
    assert parse_model(spec.to_data()) == spec


# What is refused

BY = {"by": "backbone", "center": {"half_normal": 1}, "spread": {"half_normal": 0.5}}
JUDGE = {"facets": ["backbone", "judge"], "scale": BY}


def with_term(**entries):
    return changed(["term"], [*GAUSSIAN["term"], {**JUDGE, **entries}])


REFUSED = {
    "unknown top key": (changed(["colour"], 1), "'colour' in the top level", "references"),
    "unknown key of a term": (with_term(width=1), "'width' in term 2", "sum_to_zero"),
    "unknown key of a residual": (
        changed(["residual", "by"], "x"),
        "'by' in residual",
        "Allowed are scale",
    ),
    "no name": (changed(["name"], drop=True), "'name' is missing", "top level"),
    "no summary": (changed(["summary"], drop=True), "'summary' is missing", ""),
    "no family": (changed(["family"], drop=True), "'family' is missing", ""),
    "no terms": (changed(["term"], drop=True), "'term' is missing", ""),
    "name is a number": (changed(["name"], 3), "name is 3", "text that is not empty"),
    "name is empty": (changed(["name"], ""), "name is ''", "text that is not empty"),
    "summary is a list": (changed(["summary"], ["x"]), "summary is ['x']", "text"),
    "references is text": (changed(["references"], "x"), "references is 'x'", "array"),
    "a reference is a number": (changed(["references"], [1]), "references is 1", "text"),
    "wrong family": (changed(["family"], "poisson"), "family is 'poisson'", "gaussian, student_t"),
    "family is a number": (changed(["family"], 1), "family is 1", "text"),
    "wrong link": (changed(["link"], "logit"), "link is 'logit'", "Allowed are identity"),
    "no intercept": (changed(["intercept"], drop=True), "'intercept' is missing", "gaussian"),
    "no residual": (changed(["residual"], drop=True), "'residual' is missing", "gaussian"),
    "thresholds of a gaussian": (changed(["thresholds"], {}), "has no thresholds", "out"),
    "intercept is a number": (changed(["intercept"], 2), "intercept is 2", "table"),
    "intercept is half-normal": (
        changed(["intercept"], {"half_normal": 1}),
        "intercept is 'half_normal'",
        "one distribution of normal",
    ),
    "intercept is empty": (changed(["intercept"], {}), "intercept is empty", "normal"),
    "residual without scale": (changed(["residual"], {}), "'scale' is missing in residual", ""),
    "residual is text": (changed(["residual"], "x"), "residual is 'x'", "table"),
    "terms are a table": (changed(["term"], {}), "term is {}", "array"),
    "a term is text": (changed(["term"], ["backbone"]), "term 1 is 'backbone'", "table"),
    "no backbone": (
        changed(["term"], [{"facets": ["judge"], "scale": {"fixed": 1}}]),
        "no term for backbone",
        'facets = ["backbone"]',
    ),
    "no terms at all": (changed(["term"], []), "no term for backbone", "[[term]]"),
    "a term twice": (
        changed(
            ["term"],
            [
                *GAUSSIAN["term"],
                {"facets": ["backbone", "judge"], "scale": {"fixed": 1}},
                {"facets": ["judge", "backbone"], "scale": {"fixed": 1}},
            ],
        ),
        "'judge:backbone' stands twice",
        "one of them",
    ),
    "a term without facets": (with_term(facets=[]), "term 2.facets", "at least one"),
    "a facet twice": (with_term(facets=["judge", "judge"]), "term 2.facets", "once"),
    "facets is text": (with_term(facets="judge"), "term 2.facets is 'judge'", "array"),
    "a facet is a number": (with_term(facets=[1]), "term 2.facets is 1", "text"),
    "no facets": (
        changed(["term"], [*GAUSSIAN["term"], {"scale": {"fixed": 1}}]),
        "'facets' is missing in term 2",
        "",
    ),
    "no scale": (
        changed(["term"], [*GAUSSIAN["term"], {"facets": ["judge"]}]),
        "'scale' is missing in term 2",
        "",
    ),
    "scale is a number": (with_term(scale=1.0), "term 2.scale is 1.0", "table"),
    "scale is other text": (with_term(scale="wide"), "term 2.scale is 'wide'", "table"),
    "unknown distribution": (
        with_term(scale={"half_cauchy": 1}),
        "term 2.scale is 'half_cauchy'",
        "half_normal, lognormal, fixed",
    ),
    "two distributions": (
        with_term(scale={"half_normal": 1, "fixed": 1}),
        "'half_normal', 'fixed'",
        "one distribution",
    ),
    "too many numbers": (
        with_term(scale={"half_normal": [1, 2]}),
        "term 2.scale.half_normal is [1, 2]",
        "1 number",
    ),
    "too few numbers": (with_term(scale={"lognormal": 1}), "lognormal is 1", "2 number"),
    "a number is text": (with_term(scale={"half_normal": "1"}), "half_normal is '1'", "number"),
    "a number is true": (with_term(scale={"half_normal": True}), "half_normal is True", "number"),
    "width of zero": (with_term(scale={"half_normal": 0}), "half_normal is 0", "positive"),
    "negative width": (with_term(scale={"half_normal": -1}), "is -1", "positive"),
    "negative fixed": (with_term(scale={"fixed": -1}), "fixed is -1", "positive"),
    "infinite width": (with_term(scale={"half_normal": float("inf")}), "is inf", "finite"),
    "nan width": (with_term(scale={"half_normal": float("nan")}), "is nan", "finite"),
    "infinite location": (with_term(scale={"lognormal": [float("inf"), 1]}), "inf", "finite"),
    "nan location": (with_term(scale={"lognormal": [float("nan"), 1]}), "nan", "finite"),
    "negative lognormal width": (with_term(scale={"lognormal": [0, -1]}), "-1", "positive"),
    "by without spread": (
        with_term(scale={"by": "backbone", "center": {"fixed": 1}}),
        "'spread' is missing in term 2.scale",
        "",
    ),
    "by with another key": (
        with_term(scale={**BY, "width": 1}),
        "'width' in term 2.scale",
        "by, center, spread",
    ),
    "spread is lognormal": (
        with_term(scale={**BY, "spread": {"lognormal": [0, 1]}}),
        "term 2.scale.spread is 'lognormal'",
        "half_normal, fixed",
    ),
    "center and spread without by": (
        with_term(scale={"center": {"fixed": 1}, "spread": {"fixed": 1}}),
        "'by' is missing in term 2.scale",
        "",
    ),
    "by is a number": (with_term(scale={**BY, "by": 1}), "term 2.scale.by is 1", "text"),
    "by another facet": (
        with_term(scale={**BY, "by": "language"}),
        "by is 'language', which is no facet of the term 'backbone:judge'",
        "Allowed are backbone, judge",
    ),
    "by a facet that is centred": (
        with_term(sum_to_zero=["backbone"]),
        "sum_to_zero names 'backbone'",
        "not its `by`: judge",
    ),
    "centred over another facet": (
        with_term(sum_to_zero=["language"]),
        "sum_to_zero names 'language'",
        "judge",
    ),
    "centred twice over one": (
        with_term(sum_to_zero=["judge", "judge"]),
        "sum_to_zero names 'judge' twice",
        "",
    ),
    "sum_to_zero is text": (with_term(sum_to_zero="judge"), "sum_to_zero is 'judge'", "array"),
    "sum_to_zero holds a number": (with_term(sum_to_zero=[1]), "sum_to_zero is 1", "text"),
    "covariates are a table": (changed(["covariate"], {}), "covariate is {}", "array"),
    "a covariate without prior": (
        changed(["covariate"], [{"column": "nll"}]),
        "'prior' is missing in covariate 1",
        "",
    ),
    "a covariate with another key": (
        changed(["covariate"], [{"column": "nll", "prior": {"normal": 1}, "sd": 1}]),
        "'sd' in covariate 1",
        "column, prior",
    ),
    "intercept of an ordinal model": (
        {**tomllib.loads(ORDINAL), "intercept": {"normal": 1}},
        "'cumulative' has no intercept",
        "out",
    ),
    "residual of an ordinal model": (
        {**tomllib.loads(ORDINAL), "residual": {}},
        "'cumulative' has no residual",
        "out",
    ),
    "no thresholds of an ordinal model": (
        changed(["thresholds"], drop=True, base=tomllib.loads(ORDINAL)),
        "'thresholds' is missing",
        "cumulative",
    ),
    "thresholds by without deviation": (
        {**tomllib.loads(ORDINAL), "thresholds": {"by": "judge"}},
        "'deviation' is missing in thresholds",
        "",
    ),
    "unknown key of thresholds": (
        {**tomllib.loads(ORDINAL), "thresholds": {"cut": 1}},
        "'cut' in thresholds",
        "by, deviation",
    ),
    "student t without degrees of freedom": (
        changed(["family"], "student_t"),
        "'degrees_of_freedom' is missing",
        "student_t",
    ),
    "degrees of freedom of a gaussian model": (
        {**GAUSSIAN, "degrees_of_freedom": {"gamma": [2, 0.1]}},
        "'gaussian' has no degrees_of_freedom",
        "out",
    ),
    "a gamma of one number": (
        {**GAUSSIAN, "family": "student_t", "degrees_of_freedom": {"gamma": 2}},
        "degrees_of_freedom.gamma is 2",
        "2 number(s)",
    ),
    "a gamma of a shape of zero": (
        {**GAUSSIAN, "family": "student_t", "degrees_of_freedom": {"gamma": [0, 1]}},
        "degrees_of_freedom.gamma is [0, 1]",
        "positive",
    ),
    "a covariate that cannot name a variable": (
        changed(["covariate"], [{"column": "total nll", "prior": {"normal": 1}}]),
        "covariate 1.column is 'total nll'",
        "--column NAME=COLUMN",
    ),
    "a covariate twice": (
        changed(["covariate"], [{"column": "nll", "prior": {"normal": 1}}] * 2),
        "'nll' stands twice",
        "one",
    ),
    "residual of a bernoulli model": (
        changed(["family"], "bernoulli"),
        "'bernoulli' has no residual",
        "out",
    ),
}


@pytest.mark.parametrize("case", sorted(REFUSED))
def test_refused_models_name_file_key_and_what_is_allowed(case):
    data, what, remedy = REFUSED[case]
    with pytest.raises(ModelError) as caught:
        parse_model(data, "folder/mine.toml")
    error = caught.value
    assert what in error.what
    assert remedy in error.remedy or remedy in error.what
    assert error.where == "folder/mine.toml"
    assert "folder/mine.toml" in str(error)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
        max_leaves=6,
    ),
    st.sampled_from(sorted([*GAUSSIAN, "references", "link", "covariate", "thresholds"])),
)
def test_any_value_of_any_key_parses_or_is_a_model_error(value, key):
    with contextlib.suppress(ModelError):
        assert isinstance(parse_model(changed([key], value)), ModelSpec)


# Files


def write(path, text):
    path.write_text(text, encoding="utf-8")
    return path


def test_a_file_of_the_users_own(tmp_path):
    path = write(tmp_path / "mine.toml", SAMPLE)
    assert read_model(path) == read_model(str(path)) == parse_model(tomllib.loads(SAMPLE))


def test_messages_name_the_file(tmp_path):
    path = write(tmp_path / "mine.toml", SAMPLE.replace("summary", "sumary"))
    with pytest.raises(ModelError, match="sumary") as caught:
        read_model(path)
    assert caught.value.where == str(path)


def test_an_unknown_name_lists_the_shipped_ones():
    with pytest.raises(ModelError, match="no model 'crosed'") as caught:
        read_model("crosed")
    assert "crossed, crossed_common" in caught.value.remedy


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(ModelError, match=r"does not exist.*none\.toml"):
        read_model(tmp_path / "none.toml")
    (tmp_path / "folder.toml").mkdir()
    with pytest.raises(ModelError, match="cannot be read"):
        read_model(tmp_path / "folder.toml")
    (tmp_path / "bytes.toml").write_bytes(b"name = '\xff'")
    with pytest.raises(ModelError, match="cannot be read"):
        read_model(tmp_path / "bytes.toml")
    with pytest.raises(ModelError, match="not valid TOML"):
        read_model(write(tmp_path / "broken.toml", "name = "))


def test_a_shipped_name_keeps_its_density(tmp_path):
    text = (models_folder() / "crossed.toml").read_text(encoding="utf-8")
    other = write(tmp_path / "other.toml", text.replace("half_normal = 2.0", "half_normal = 3.0"))
    with pytest.raises(ModelError, match="'crossed' belongs to a shipped model") as caught:
        read_model(other)
    assert caught.value.where == str(other)
    assert "name of its own" in caught.value.remedy
    described = write(tmp_path / "same.toml", text.replace("Crossed random", "My random"))
    assert read_model(described).terms == read_model("crossed").terms


def test_unknown_terms_are_listed():
    with pytest.raises(ModelError, match="no term 'criterion'") as caught:
        read_model("crossed").term("criterion")
    assert "backbone:judge" in str(caught.value)


# Overrides


@pytest.mark.parametrize(
    ("text", "read", "expected"),
    [
        (
            "judge.scale=half_normal:0.5",
            lambda s: s.term("judge").scale,
            Scale(prior("half_normal", 0.5)),
        ),
        (
            " judge.scale = lognormal:-1,0.5 ",
            lambda s: s.term("judge").scale.center,
            prior("lognormal", -1, 0.5),
        ),
        ("judge.scale=fixed:0", lambda s: s.term("judge").scale.center, prior("fixed", 0)),
        (
            "judge.scale.center=fixed:1",
            lambda s: s.term("judge").scale.center,
            prior("fixed", 1),
        ),
        (
            "judge.scale=flat",
            lambda s: s.term("judge").scale,
            Scale(prior("fixed", FLAT_SCALE)),
        ),
        (
            "scenario:judge.scale=half_normal:2",
            lambda s: s.term("judge:scenario").scale.center,
            prior("half_normal", 2),
        ),
        (
            "generation.scale.center=half_normal:2",
            lambda s: s.term("generation").scale,
            Scale(prior("half_normal", 2), "backbone", prior("half_normal", 0.5)),
        ),
        (
            "generation.scale.spread=fixed:0.1",
            lambda s: s.term("generation").scale,
            Scale(prior("half_normal", 1), "backbone", prior("fixed", 0.1)),
        ),
        (
            "generation.scale.center=flat",
            lambda s: s.term("generation").scale,
            Scale(prior("fixed", FLAT_SCALE)),
        ),
        (
            "residual.scale.center=half_normal:3",
            lambda s: s.residual.center,
            prior("half_normal", 3),
        ),
        (
            "residual.scale.spread=half_normal:1",
            lambda s: s.residual.spread,
            prior("half_normal", 1),
        ),
        ("intercept=normal:5", lambda s: s.intercept, prior("normal", 5)),
    ],
)
def test_overrides(text, read, expected):
    spec = read_model("crossed")
    changed_spec = override_prior(spec, text)
    assert read(changed_spec) == expected
    assert changed_spec.overrides == (text.strip(),)
    assert changed_spec.title == f"crossed with {text.strip()}"
    assert spec.overrides == ()
    assert parse_model(changed_spec.to_data()) == replace(changed_spec, overrides=())


def test_overrides_add_up():
    spec = override_prior(read_model("crossed_common"), "residual.scale=half_normal:2")
    spec = override_prior(spec, "judge.scale=flat")
    assert spec.residual == Scale(prior("half_normal", 2))
    assert spec.title == "crossed_common with residual.scale=half_normal:2 judge.scale=flat"
    untouched = [t for t in spec.terms if t.facets != ("judge",)]
    assert untouched == [t for t in read_model("crossed_common").terms if t.facets != ("judge",)]


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "needs the form"),
        ("judge.scale", "needs the form"),
        ("judge.scale=", "needs the form"),
        ("judge=half_normal:1", "'judge' names no prior"),
        ("judge.width=half_normal:1", "'judge.width' names no prior"),
        ("judge.scale.middle=half_normal:1", "'judge.scale.middle' names no prior"),
        ("judge.scale.center.x=half_normal:1", "names no prior"),
        ("criterion.scale=half_normal:1", "no term 'criterion'"),
        ("judge.scale.spread=half_normal:1", "has no spread"),
        ("generation.scale=half_normal:1", "a value for every backbone"),
        ("residual.scale=flat", "a value for every backbone"),
        ("judge.scale=half_cauchy:1", "'half_cauchy'"),
        ("judge.scale=half_normal", "half_normal is []"),
        ("judge.scale=half_normal:", "half_normal is []"),
        ("judge.scale=half_normal:a", "'a' is not a list of numbers"),
        ("judge.scale=half_normal:1,2", "[1.0, 2.0]"),
        ("judge.scale=half_normal:-1", "-1.0"),
        ("judge.scale=half_normal:nan", "nan"),
        ("intercept=half_normal:1", "'half_normal'"),
        ("intercept=flat", "'flat'"),
    ],
)
def test_refused_overrides(text, what):
    with pytest.raises(ModelError) as caught:
        override_prior(read_model("crossed"), text)
    assert what in caught.value.what
    assert "--prior" in caught.value.where
    assert text.strip() in caught.value.where


def test_a_common_residual_may_be_flat():
    spec = override_prior(read_model("crossed_common"), "residual.scale=flat")
    assert spec.residual == Scale(prior("fixed", FLAT_SCALE))


@pytest.mark.parametrize(
    ("model", "text", "value"),
    [
        ("robust", "degrees_of_freedom=gamma:3,0.2", lambda s: s.degrees_of_freedom),
        ("robust", "degrees_of_freedom=fixed:4", lambda s: s.degrees_of_freedom),
        ("uncertainty", "nll.slope=normal:0.5", lambda s: s.covariates[0].prior),
    ],
)
def test_priors_that_only_some_models_have_are_overridden(model, text, value):
    changed_spec = override_prior(read_model(model), text)
    assert str(value(changed_spec)) == text.partition("=")[2]
    assert changed_spec.overrides == (text,)


def test_the_deviation_of_thresholds_is_overridden_where_there_is_one():
    text = "thresholds.deviation=half_normal:2"
    spec = override_prior(parse_model(tomllib.loads(ORDINAL)), text)
    assert spec.thresholds == Thresholds("judge", prior("half_normal", 2))
    with pytest.raises(ModelError, match="names no prior"):
        override_prior(read_model("ordinal"), text)


def test_the_widths_of_latent_models_are_those_of_logits():
    for name in ("verdict", "ordinal"):
        spec = read_model(name)
        assert {t.scale.center for t in spec.terms} == {prior("half_normal", 1.5)}
        assert [frozenset(t.facets) for t in spec.terms] == [
            frozenset(t.facets) for t in read_model("crossed").terms
        ]
    assert read_model("verdict").intercept == prior("normal", 2.5)


def test_robust_is_crossed_with_another_residual():
    robust, crossed = read_model("robust"), read_model("crossed")
    assert (robust.terms, robust.residual) == (crossed.terms, crossed.residual)
    assert robust.degrees_of_freedom == prior("gamma", 2, 0.1)


def test_an_ordinal_model_has_neither_residual_nor_intercept():
    spec = parse_model(tomllib.loads(ORDINAL))
    with pytest.raises(ModelError, match="'cumulative' has no residual scale"):
        override_prior(spec, "residual.scale=half_normal:1")
    with pytest.raises(ModelError, match="'intercept' names no prior"):
        override_prior(spec, "intercept=normal:1")


def test_terms_name_themselves():
    assert Term(("backbone", "judge"), Scale(prior("fixed", 1))).name == "backbone:judge"
