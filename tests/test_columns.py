"""Roles of columns: named, told by their names, asked, refused."""

from __future__ import annotations

import pytest

from bayesjudge.errors import UsageError
from bayesjudge.scores.columns import ROLES, SYNONYMS, Wishes, resolve_columns


def resolve(names, **wishes):
    return resolve_columns(names.split() if isinstance(names, str) else names, Wishes(**wishes))


def errors(resolved):
    return [str(p) for p in resolved.problems if p.severity == "error"]


@pytest.mark.parametrize(
    ("role", "name"), [(role, name) for role, names in SYNONYMS.items() for name in names]
)
def test_each_synonym_is_understood(role, name):
    others = [other for other in ROLES if other != role]
    for written in (name, name.upper(), name.replace("_", "-"), f" {name.replace('_', ' ')} "):
        resolved = resolve([*others, written])
        assert resolved.column(role) == written
        assert not resolved.problems
        assert resolved.unused == ()


def test_roles_come_in_one_order_whatever_the_order_of_columns():
    names = ["language", "score", "extra", "human_score", "generation", "judge", "item", "model"]
    resolved = resolve(names)
    assert resolved.mapping == (
        ("score", "score"),
        ("backbone", "model"),
        ("judge", "judge"),
        ("language", "language"),
        ("scenario", "item"),
        ("generation", "generation"),
        ("human_score", "human_score"),
    )
    assert resolved.unused == ("extra",)
    assert resolve(names[::-1]).mapping == resolved.mapping
    assert resolved.facets == ("backbone", "judge", "language", "scenario", "generation")


@pytest.mark.parametrize("name", ["lang", "locale", "language_code", "gold", "human"])
def test_language_and_gold_are_never_guessed(name):
    resolved = resolve(f"score model {name}")
    assert resolved.facets == ("backbone",)
    assert resolved.unused == (name,)


def test_two_candidates_are_asked_about():
    (error,) = errors(resolve("score model system"))
    assert "'model', 'system'" in error
    assert "--column backbone=model or --column backbone=system" in error
    (error,) = errors(resolve("score judge_score model"))
    assert "--column score=score" in error
    assert errors(resolve("Score score model"))
    resolved = resolve("score judge_score model", columns={"score": "judge_score"})
    assert not resolved.problems
    assert resolved.unused == ("score",)
    assert not errors(resolve("score judge_score model", ignore=("score",)))


def test_an_explicit_column_serves_no_other_role():
    resolved = resolve("score model judge", columns={"backbone": "judge"})
    assert resolved.mapping == (("score", "score"), ("backbone", "judge"))
    assert resolved.unused == ("model",)


def test_an_explicit_column_may_be_written_otherwise():
    assert resolve("score My-Model", columns={"backbone": "my model"}).column("backbone") == (
        "My-Model"
    )
    assert errors(resolve("score MODEL Model", columns={"backbone": "model"}))


def test_absent_columns_are_named_with_what_there_is():
    (error,) = errors(resolve("score model", columns={"judge": "nobody"}))
    assert "'nobody'" in error
    assert "'score', 'model'" in error
    assert "--column judge=COLUMN" in error
    found = errors(resolve("a b"))
    assert [("score" in found[0]), ("backbone" in found[1])] == [True, True]
    (error,) = errors(resolve("score model", facets=("turn",)))
    assert "'turn'" in error
    (error,) = errors(resolve("score model", random=("judge",)))
    assert "judge" in error
    assert not errors(resolve("score model", random=("scenario",)))
    many = " ".join(f"c{i}" for i in range(30))
    assert "..." in errors(resolve(f"score {many}"))[0]


def test_sample_could_be_either():
    (error,) = errors(resolve("score model sample"))
    for option in ("--column scenario=sample", "--column generation=sample", "--ignore sample"):
        assert option in error
    (error,) = errors(resolve("score model item Sample"))
    assert "--column generation=Sample" in error
    assert not errors(resolve("score model item epoch sample"))
    assert not errors(resolve("score model sample", ignore=("sample",)))
    resolved = resolve("score model sample", columns={"scenario": "sample"})
    assert not errors(resolved)
    assert resolved.column("scenario") == "sample"
    assert not errors(resolve("score model sample", random=("sample",)))


@pytest.mark.parametrize(
    "name",
    [
        "weight",
        "Weights",
        "sample_weight",
        "sample weight",
        "stratum",
        "strata",
        "strata_id",
        "ipw",
    ],
)
def test_weights_and_strata_are_refused(name):
    (error,) = errors(resolve(["score", "model", name]))
    assert "not supported" in error
    assert f"--ignore {name}" in error
    assert not errors(resolve(["score", "model", name], ignore=(name,)))


@pytest.mark.parametrize("name", ["weighted", "overweight_y", "lightweight", "strategy", "height"])
def test_columns_that_only_sound_like_weights_pass(name):
    assert not errors(resolve(["score", "model", name]))


def test_facets_of_the_user():
    resolved = resolve(
        "score model turn Prompt judge",
        facets=("turn",),
        random=("prompt", "judge"),
    )
    assert resolved.facets == ("backbone", "judge", "turn", "prompt")
    assert resolved.column("prompt") == "Prompt"
    wishes = Wishes(facets=("turn",), random=("prompt", "judge"))
    assert [wishes.role_of(name) for name in resolved.facets] == [
        "panel",
        "random",
        "panel",
        "random",
    ]
    assert wishes.role_of("scenario") == "random"
    resolved = resolve(
        "score judge model", columns={"backbone": "judge", "kit": "model"}, facets=("kit",)
    )
    assert resolved.mapping == (("score", "score"), ("backbone", "judge"), ("kit", "model"))
    assert resolve("score model task", facets=("task",)).facets == ("backbone", "task")


def test_one_column_cannot_be_two_facets():
    found = errors(resolve("score model turn", columns={"judge": "turn"}, facets=("turn",)))
    assert any("judge and turn" in error for error in found)


def test_ignoring_what_is_not_there_is_said():
    (problem,) = resolve("score model", ignore=("x",)).problems
    assert problem.severity == "warning"


@pytest.mark.parametrize(
    ("wishes", "message"),
    [
        ({"facets": ("judge",)}, "facet already"),
        ({"facets": ("score",)}, "meaning of its own"),
        ({"facets": ("draw",)}, "meaning of its own"),
        ({"random": ("backbone_mean",)}, "meaning of its own"),
        ({"random": ("human_score",)}, "meaning of its own"),
        ({"random": ("backbone",)}, "cannot be random"),
        ({"facets": ("my turn",)}, "letters"),
        ({"facets": ("tür",)}, "letters"),
        ({"random": ("1st",)}, "letters"),
        ({"facets": ("",)}, "letters"),
        ({"facets": ("turn",), "random": ("turn",)}, "named twice"),
        ({"columns": {"framework": "model"}}, "no role"),
        ({"columns": {"judge": "a", "backbone": "a"}}, "backbone"),
        ({"columns": {"judge": "a"}, "ignore": ("a",)}, "used and ignored"),
    ],
)
def test_contradictions_are_usage_errors(wishes, message):
    with pytest.raises(UsageError, match=message):
        Wishes(**wishes)


def test_a_wished_facet_that_is_ignored_is_absent():
    assert errors(resolve("score model turn", facets=("turn",), ignore=("turn",)))
