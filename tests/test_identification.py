"""Which variance components a table can tell apart, against dense matrices."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayesjudge.scores.identification import Pattern, gram, identify

SAFE = frozenset({"backbone", "residual"})


def dense_gram(patterns):
    """tr(M V_u M V_v) with every matrix written out."""
    n = patterns[0].codes.size
    m = np.eye(n) - 1.0 / n
    covariances = []
    for p in patterns:
        z = np.eye(int(np.prod(p.shape)))[p.codes]
        c = np.ones((1, 1))
        for size, centred in zip(p.shape, p.centred, strict=True):
            c = np.kron(c, np.eye(size) - centred / size)
        covariances.append(z @ c @ z.T)
    return np.array([[np.trace(m @ u @ m @ v) for v in covariances] for u in covariances])


def residual(n):
    return Pattern("residual", np.arange(n), (n,), (False,), n)


@st.composite
def designs(draw):
    """An unbalanced table of three facets and terms with every centring pattern."""
    n = draw(st.integers(2, 25))
    sizes = draw(st.tuples(*[st.integers(1, 4)] * 3))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    codes = [rng.integers(size, size=n) for size in sizes]
    patterns = []
    for order in (1, 2, 3):
        for facets in itertools.combinations(range(3), order):
            shape = tuple(sizes[f] for f in facets)
            flat = np.ravel_multi_index(tuple(codes[f] for f in facets), shape)
            centred = tuple(draw(st.booleans()) for _ in facets)
            name = ":".join("abc"[f] for f in facets)
            patterns.append(Pattern(name, flat, shape, centred, order))
    return (*patterns, residual(n))


@given(designs())
@settings(max_examples=150, deadline=None)
def test_gram_equals_the_dense_traces(patterns):
    found, expected = gram(patterns), dense_gram(patterns)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9 * (1 + expected.max()))
    np.testing.assert_array_equal(found, found.T)


@pytest.mark.parametrize("centred", list(itertools.product([False, True], repeat=2)))
@pytest.mark.parametrize("other", list(itertools.product([False, True], repeat=2)))
def test_gram_for_every_pair_of_centrings(centred, other):
    rng = np.random.default_rng(7)
    a, b, c = rng.integers(3, size=20), rng.integers(4, size=20), rng.integers(2, size=20)
    patterns = (
        Pattern("a:b", a * 4 + b, (3, 4), centred, 2),
        Pattern("b:c", b * 2 + c, (4, 2), other, 2),
        residual(20),
    )
    np.testing.assert_allclose(gram(patterns), dense_gram(patterns), rtol=1e-10, atol=1e-8)


@given(designs())
@settings(max_examples=100, deadline=None)
def test_what_is_kept_has_full_rank_and_what_is_dropped_was_in_its_null_space(patterns):
    kept, dropped = identify(patterns, SAFE)
    by_name = {p.name: p for p in patterns}
    lost = [d.name for d in dropped]
    if "residual" in lost:
        # Only where all scores share one mean is there nothing to estimate.
        assert lost[-1] == "residual"
        return
    assert sorted([*kept, *lost]) == sorted(by_name)
    remaining = tuple(by_name[name] for name in kept)
    g = dense_gram(remaining)
    root = np.sqrt(np.diag(g))
    assert np.linalg.matrix_rank(g / np.outer(root, root), tol=1e-8) == len(remaining)
    alive = list(by_name)
    for step in dropped:
        g = dense_gram(tuple(by_name[name] for name in alive))
        without = [name for name in alive if name != step.name]
        smaller = dense_gram(tuple(by_name[name] for name in without))
        scale = 1e-9 * max(g.max(), 1.0)
        assert np.linalg.matrix_rank(g, tol=scale) == np.linalg.matrix_rank(smaller, tol=scale)
        if step.confounded_with:
            small = dense_gram(tuple(by_name[n] for n in (step.name, *step.confounded_with)))
            assert np.linalg.eigvalsh(small)[0] < scale
        rivals = [by_name[n] for n in step.confounded_with if n not in SAFE]
        assert all(by_name[step.name].order >= rival.order for rival in rivals)
        alive = without


FACETS = "backbone judge scenario generation"
TERMS = (
    "backbone",
    "judge",
    "backbone:judge",
    "scenario",
    "backbone:scenario",
    "judge:scenario",
    "backbone:judge:scenario",
    "generation",
)


def crossed_patterns(codes):
    """The patterns of ``crossed`` on columns of codes, residual last."""
    codes = {name: np.unique(c, return_inverse=True)[1] for name, c in codes.items()}
    patterns = []
    for term in TERMS:
        facets = term.split(":")
        if not set(facets) <= set(codes) or any(codes[f].max() == 0 for f in facets):
            continue
        shape = tuple(int(codes[f].max()) + 1 for f in facets)
        flat = np.ravel_multi_index(tuple(codes[f] for f in facets), shape)
        panel = set(facets) <= {"backbone", "judge"}
        order = 3 if term == "generation" else len(facets)
        patterns.append(Pattern(term, flat, shape, (panel,) * len(facets), order))
    return (*patterns, residual(next(iter(codes.values())).size))


def balanced(n_backbones, n_scenarios, n_judges, n_generations=0):
    sizes = (n_backbones, n_scenarios, n_judges, max(n_generations, 1))
    b, s, j, g = (axis.ravel() for axis in np.indices(sizes))
    codes = {"backbone": b, "scenario": s, "judge": j}
    if n_generations:
        codes["generation"] = np.ravel_multi_index((s, b, g), (sizes[1], sizes[0], sizes[3]))
    return codes


def outcome(codes):
    kept, dropped = identify(crossed_patterns(codes), SAFE)
    return set(kept), {d.name: set(d.confounded_with) for d in dropped}


TWO_WAY = {"backbone", "scenario", "backbone:scenario", "residual"}
THREE_WAY = {*TWO_WAY, "judge", "backbone:judge", "judge:scenario"}


def test_balanced_without_generations():
    kept, dropped = outcome(balanced(3, 5, 4))
    assert kept == THREE_WAY
    assert dropped == {"backbone:judge:scenario": {"residual"}}


def test_balanced_with_generations():
    kept, dropped = outcome(balanced(3, 5, 4, 2))
    assert kept == {*THREE_WAY, "backbone:judge:scenario", "generation"}
    assert dropped == {}


def test_one_judge():
    kept, dropped = outcome(balanced(3, 5, 1))
    assert kept == {"backbone", "scenario", "residual"}
    assert dropped == {"backbone:scenario": {"residual"}}


def test_one_judge_with_generations():
    kept, dropped = outcome(balanced(3, 5, 1, 2))
    assert kept == TWO_WAY
    assert dropped == {"generation": {"residual"}}


def test_one_scenario():
    kept, dropped = outcome(balanced(3, 1, 4))
    assert kept == {"backbone", "judge", "residual"}
    # The three together are the residual.
    assert dropped == {"backbone:judge": {"backbone", "judge", "residual"}}


def test_one_scenario_with_generations():
    kept, dropped = outcome(balanced(3, 1, 4, 2))
    assert kept == {"backbone", "judge", "backbone:judge", "generation", "residual"}
    assert dropped == {}


def test_generation_with_one_row_each():
    codes = balanced(3, 5, 4)
    codes["generation"] = np.arange(60)
    kept, dropped = outcome(codes)
    assert kept == THREE_WAY
    assert "generation" in dropped
    assert "backbone:judge:scenario" in dropped


def test_one_generation_an_answer():
    kept, dropped = outcome(balanced(3, 5, 4, 1))
    assert kept == THREE_WAY
    assert dropped["generation"] == {"backbone:scenario"}


def test_the_judges_name_is_the_generations_label():
    codes = balanced(3, 5, 4)
    shape = (5, 3, 4)
    labels = (codes["scenario"], codes["backbone"], codes["judge"])
    codes["generation"] = np.ravel_multi_index(labels, shape)
    kept, dropped = outcome(codes)
    assert kept == THREE_WAY
    assert set(dropped) == {"generation", "backbone:judge:scenario"}


def test_scenarios_within_backbones():
    codes = balanced(3, 5, 4, 2)
    codes["scenario"] = codes["scenario"] * 3 + codes["backbone"]
    kept, dropped = outcome(codes)
    assert kept == {
        "backbone",
        "judge",
        "backbone:judge",
        "scenario",
        "judge:scenario",
        "generation",
        "residual",
    }
    assert dropped["backbone:scenario"] == {"scenario"}
    assert dropped["backbone:judge:scenario"] == {"judge:scenario"}


def test_unbalanced_keeps_what_is_replicated():
    codes = balanced(3, 6, 4, 2)
    rows = np.random.default_rng(3).permutation(144)[:100]
    kept, dropped = outcome({name: c[rows] for name, c in codes.items()})
    assert kept == {*THREE_WAY, "backbone:judge:scenario", "generation"}
    assert dropped == {}


def test_one_judge_per_item_in_turn():
    codes = balanced(4, 12, 1, 2)
    codes["judge"] = codes["scenario"] % 3
    kept, dropped = outcome(codes)
    # Each scenario has one judge: their interaction is the scenario itself.
    assert "judge:scenario" in dropped
    assert {"backbone", "judge", "scenario", "backbone:judge"} <= kept


def test_one_score_a_backbone():
    kept, dropped = identify(crossed_patterns({"backbone": np.arange(4)}), SAFE)
    assert [d.name for d in dropped] == ["residual"]
    assert dropped[0].confounded_with == ("backbone",)
    assert "backbone" in kept


def test_a_term_that_does_not_vary():
    codes = np.array([0, 0, 1, 1])
    patterns = (
        Pattern("backbone", codes, (2,), (True,), 1),
        Pattern("constant", np.zeros(4, int), (3,), (False,), 1),
        residual(4),
    )
    kept, dropped = identify(patterns, SAFE)
    assert kept == ("backbone", "residual")
    assert [d.name for d in dropped] == ["constant"]
    assert dropped[0].confounded_with == ()


def test_nothing_to_identify():
    assert identify((), SAFE) == ((), ())


def test_of_two_terms_of_one_order_the_later_goes():
    codes = np.array([0, 0, 1, 1, 2, 2])
    first = Pattern("first", codes, (3,), (False,), 1)
    second = Pattern("second", codes, (3,), (False,), 1)
    kept, dropped = identify((first, second, residual(6)), SAFE)
    assert kept == ("first", "residual")
    assert dropped[0].name == "second"
    assert dropped[0].confounded_with == ("first",)
