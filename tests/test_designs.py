"""What designs make of variance components: against simulation, and the papers' formulas."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayesjudge.errors import ModelError, UsageError
from bayesjudge.planning.components import typed_components
from bayesjudge.planning.designs import (
    Calls,
    Component,
    Components,
    Design,
    call_weights,
    coefficients,
    design_variance,
    lay_out,
    mean_contrasts,
    pair_contrasts,
)
from bayesjudge.spec import read_model

CROSSED = read_model("crossed")
VARIANCES = {
    "scenario": 0.5,
    "backbone:scenario": [0.2, 0.3, 0.25],
    "judge": 0.4,
    "backbone:judge": 0.15,
    "judge:scenario": 0.3,
    "backbone:judge:scenario": 0.1,
    "generation": [0.3, 0.1, 0.2],
    "residual": [0.6, 0.9, 0.7],
}


def components(judges=4, random=(), variances=VARIANCES):
    return typed_components(CROSSED, variances, backbones=3, judges=judges, random=random)


def with_languages(parts, n):
    """Add a language to the residual and generations, and two terms of its own."""
    facets = {"residual", "generation"}
    own = [
        Component(p.name, (*p.facets, "language"), p.centred, p.variance, p.by)
        if p.name in facets
        else p
        for p in parts.parts
    ]
    own.append(Component("language", ("language",), ("language",), np.array([[0.3]])))
    own.append(Component("language:scenario", ("language", "scenario"), (), np.array([[0.4]])))
    own.append(
        Component(
            "backbone:language",
            ("backbone", "language"),
            ("backbone", "language"),
            np.array([[0.2]]),
        )
    )
    return Components(
        tuple(own), parts.backbones, parts.judges, (*parts.panel, "language"), (("language", n),)
    )


def simulated_errors(parts, design, pool, reps, seed):
    """Draw effects, score the design, take means of judge means: errors, (reps, B).

    Nothing here knows of weights or coefficients; judges, scenarios and languages stand as
    axes of arrays, and the estimand is the average over all that there are.
    """
    rng = np.random.default_rng(seed)
    calls = lay_out(design)
    sizes = {
        "backbone": len(parts.backbones),
        "judge": len(parts.judges),
        "scenario": pool or design.n,
        "generation": design.slots,
        "language": dict(parts.others).get("language", 1),
    }
    order = ["backbone", "judge", "scenario", "generation", "language"]
    everyone = set(parts.panel) | ({"scenario"} if pool else set()) | {"backbone"}
    n_calls = len(calls.judge)
    shape = (reps, sizes["backbone"], n_calls, sizes["language"])
    score, truth = np.zeros(shape), np.zeros((reps, sizes["backbone"]))
    for part in parts.parts:
        variance = np.asarray(part.variance)[0]
        if part.name == "residual":
            sd = np.sqrt(variance) if part.by is None else np.sqrt(variance)[:, None, None]
            score += sd * rng.standard_normal(shape)
            continue
        dims = [f for f in order if f in part.facets]
        if "generation" in dims:
            dims = [f for f in dims if f != "scenario"]
        effect = rng.standard_normal((reps, *(sizes[f] for f in dims)))
        for facet in part.centred:
            effect -= effect.mean(axis=1 + dims.index(facet), keepdims=True)
        if part.by is None:
            effect *= np.sqrt(variance[0])
        else:
            along = [1] * effect.ndim
            along[1 + dims.index(part.by)] = -1
            effect *= np.sqrt(variance).reshape(along)
        full = effect
        for at, facet in enumerate(order):
            if facet not in dims:
                full = np.expand_dims(full, 1 + at)
        full = np.broadcast_to(full, (reps, *(sizes[f] for f in order)))
        # The calls of one backbone pick judge, scenario and generation together.
        score += full[:, :, calls.judge, calls.scenario, calls.slot, :]
        if set(dims) <= everyone:
            truth += full.mean(axis=(2, 3, 4, 5))
    by_judge = [score[:, :, calls.judge == j].mean(axis=(2, 3)) for j in np.unique(calls.judge)]
    return np.mean(by_judge, axis=0) - truth


CASES = {
    "crossed": (Design(5, 10, (0, 1, 2, 3), 4), None, ()),
    "crossed, some judges": (Design(5, 5, (0, 2), 2), None, ()),
    "one judge": (Design(6, 6, (1,), 1), None, ()),
    "round-robin over scenarios": (Design(8, 8, (0, 1, 2, 3), 1), None, ()),
    "incomplete rounds": (Design(7, 21, (0, 1, 2, 3), 1), None, ()),
    "two at a time": (Design(6, 12, (0, 1, 2, 3), 2), None, ()),
    "uneven generations": (Design(6, 10, (0, 1, 2), 1), None, ()),
    "unequal shares": (Design(6, 11, (0, 1, 2, 3), 1, (5, 3, 2, 1)), None, ()),
    "a pool": (Design(6, 12, (0, 1, 2, 3), 1), 9, ()),
    "the whole pool": (Design(6, 12, (0, 1, 2, 3), 2), 6, ()),
    "random judges": (Design(6, 12, (0, 1, 2), 1), None, ("judge",)),
    "random judges, a pool": (Design(6, 6, (0, 1, 2, 3), 4), 8, ("judge",)),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("languages", [1, 2])
def test_variance_is_that_of_simulated_tables(name, languages):
    """Variances of 4,000 tables: their relative standard error is sqrt(2/4000) = 0.022.

    24 cases with two contrasts each are held to 4.2 standard errors: chance of a false
    alarm in any, about 1e-3, with a fixed seed.
    """
    design, pool, random = CASES[name]
    parts = components(random=random)
    if languages > 1:
        parts = with_languages(parts, languages)
    reps = 4000
    errors = simulated_errors(parts, design, pool, reps, seed=11)
    for contrasts in (mean_contrasts(3)[:1], pair_contrasts(3)[:1]):
        seen = (errors @ contrasts[0]).var()
        told = design_variance(parts, design, contrasts, pool)[0]
        assert seen == pytest.approx(told, rel=4.2 * np.sqrt(2 / reps), abs=1e-12)


def single(alpha=0.0, beta=0.0, gamma=0.0, epsilon=1.0, interaction=None, judges=5):
    """One backbone of CyclicJudge's equation 1 (with a silent second)."""
    given = {"scenario": alpha, "generation": beta, "judge": gamma, "residual": epsilon}
    if interaction is not None:
        given["judge:scenario"] = interaction
    return typed_components(CROSSED, given, backbones=2, judges=judges)


def variance(parts, design, pool=None):
    return design_variance(parts, design, mean_contrasts(2), pool)[0]


ALL = (0, 1, 2, 3, 4)
# Table 2 (a) of CyclicJudge: alpha, beta, gamma, epsilon of qwen and llama.
MT_BENCH = [(1.530, 0.266, 0.947, 1.486), (0.882, 0.238, 0.503, 1.130)]


@pytest.mark.parametrize("figures", MT_BENCH)
@pytest.mark.parametrize("budget", [5, 10, 20])
def test_strategies_of_equations_3_and_5(figures, budget):
    alpha, beta, gamma, epsilon = figures
    parts, n = single(alpha, beta, gamma, epsilon), 80
    all_judges = variance(parts, Design(n, n * budget // 5, ALL, 5)) - alpha / n
    cyclic = variance(parts, Design(n, n * budget, ALL, 1)) - alpha / n
    assert all_judges == pytest.approx((5 * beta + epsilon) / (n * budget))
    assert cyclic == pytest.approx((beta + epsilon) / (n * budget))


@pytest.mark.parametrize("k", [1, 2, 3, 5])
def test_equation_2_with_its_finite_population_correction(k):
    parts = single(1.5, 0.3, 0.9, 1.4)
    told = variance(parts, Design(80, 240, tuple(range(k)), k))
    bias = 0.9 / k * (5 - k) / (5 - 1)
    assert told == pytest.approx(1.5 / 80 + 0.3 / 240 + 1.4 / (240 * k) + bias)


def test_a_pool_of_scenarios_is_corrected_for():
    parts = single(1.5)
    assert variance(parts, Design(20, 20, ALL, 1), 80) == pytest.approx(
        1.5 / 20 * (1 - 20 / 80) + 1 / 20
    )
    assert variance(parts, Design(20, 20, ALL, 1), 20) == pytest.approx(1 / 20)


def test_judges_who_differ_by_scenario_count_once_or_in_full():
    """STATISTICS 7, there of effects that sum to zero over judges within a scenario."""
    n, sj = 30, 0.6
    parts = single(0.0, 0.2, 0.9, 1.0)
    own = Component("judge:scenario", ("judge", "scenario"), ("judge",), np.array([[sj * 5 / 4]]))
    parts = Components((*parts.parts, own), parts.backbones, parts.judges, parts.panel)
    noise = 0.2 + 1.0
    assert variance(parts, Design(n, n, ALL, 5)) == pytest.approx((0.2 + 1.0 / 5) / n)
    assert variance(parts, Design(n, n * 5, ALL, 1)) == pytest.approx(noise / (5 * n))
    assert variance(parts, Design(n, n, ALL, 1)) == pytest.approx((noise + sj) / n)


def test_more_scenarios_win_where_the_interaction_is_small_enough():
    """m = 1 beats m = K at equal calls where sigma2_sj < (K - 1) sigma2_alpha."""
    for sj, wins in ((3.9, True), (4.1, False)):
        parts = single(1.0, 0.2, 0.0, 1.0)
        own = Component(
            "judge:scenario", ("judge", "scenario"), ("judge",), np.array([[sj * 5 / 4]])
        )
        parts = Components((*parts.parts, own), parts.backbones, parts.judges, parts.panel)
        one, five = (
            variance(parts, Design(100, 100, ALL, 1)),
            variance(parts, Design(20, 100, ALL, 1)),
        )
        assert bool(one < five) is wins


def test_what_backbones_share_cancels_in_differences():
    only = {"scenario": 1.0, "judge": 2.0, "judge:scenario": 3.0, "residual": 0.0}
    parts = typed_components(CROSSED, only, backbones=3, judges=3)
    for design in (Design(4, 8, (0, 1, 2), 1), Design(4, 4, (0,), 1)):
        assert design_variance(parts, design, pair_contrasts(3))[0] == pytest.approx(0, abs=1e-15)
        assert design_variance(parts, design, mean_contrasts(3))[0] > 0.1


def test_scales_by_judge_are_each_judge_s_own():
    every = ("backbone", "judge", "scenario", "generation")
    own = Component("residual", every, (), np.array([[1.0, 4.0]]), "judge")
    parts = Components((own,), ("a", "b"), ("x", "y"), ("backbone", "judge"))
    design = Design(9, 9, (0, 1), 1, (6, 3))
    assert variance(parts, design) == pytest.approx((1.0 / 6 + 4.0 / 3) / 4)
    bias = Component("judge", ("judge",), (), np.array([[1.0, 4.0]]), "judge")
    parts = Components((bias,), ("a", "b"), ("x", "y"), ("backbone", "judge"))
    # Without the second judge the panel's mean is missed by half of what they differ.
    assert variance(parts, Design(3, 3, (0,), 1)) == pytest.approx(1.0 / 4 + 4.0 / 4)
    assert variance(parts, design) == pytest.approx(0)


def test_scales_by_another_facet_are_averaged_over_it():
    every = ("backbone", "judge", "scenario", "generation", "language")
    own = Component("residual", every, (), np.array([[1.0, 3.0]]), "language")
    parts = Components(
        (own,), ("a", "b"), ("x",), ("backbone", "judge", "language"), (("language", 2),)
    )
    assert variance(parts, Design(5, 5, (0,), 1)) == pytest.approx(2.0 / 2 / 5)


def test_raw_means_are_not_what_is_meant():
    weight = call_weights(np.array([0, 0, 0, 2]))
    assert weight.tolist() == pytest.approx([1 / 6, 1 / 6, 1 / 6, 1 / 2])


shapes = st.tuples(
    st.integers(1, 12), st.integers(1, 4), st.integers(0, 5), st.integers(1, 5), st.integers(1, 5)
)


@given(shapes)
def test_every_layout_has_the_calls_that_it_says(shape):
    n, m, more, k, q = shape
    slots, q = n * m + min(more, n - 1), min(q, k)
    design = Design(n, slots, tuple(range(k)), q)
    calls = lay_out(design)
    assert len(calls.judge) == slots * q
    assert np.array_equal(np.unique(calls.scenario), np.arange(n))
    pairs = set(zip(calls.slot.tolist(), calls.judge.tolist(), strict=True))
    assert len(pairs) == slots * q
    counts = np.bincount(calls.judge, minlength=k)
    if slots * q >= k:
        assert counts.max() - counts.min() <= 1
    per_scenario = np.bincount(calls.scenario)
    assert per_scenario.max() - per_scenario.min() <= q
    assert call_weights(calls.judge).sum() == pytest.approx(1.0)


@given(shapes, st.integers(1, 3))
def test_more_scenarios_of_the_same_kind_never_hurt(shape, factor):
    n, m, _, k, _ = shape
    n = n * k
    parts = components(judges=max(k, 2))
    judges = tuple(range(k))
    less = design_variance(parts, Design(n, n * m, judges, 1), mean_contrasts(3))[0]
    more = design_variance(parts, Design(n * factor, n * m * factor, judges, 1), mean_contrasts(3))[
        0
    ]
    assert more <= less * (1 + 1e-12)


@pytest.mark.parametrize(
    "arguments",
    [
        (0, 5, (0,), 1),
        (6, 5, (0,), 1),
        (5, 5, (0,), 2),
        (5, 5, (0, 1), 0),
        (5, 5, (0, 1), 1, (3, 3)),
        (5, 5, (0, 1), 1, (5, 0)),
        (5, 5, (0, 1), 2, (3, 2)),
    ],
)
def test_designs_that_are_none_are_refused(arguments):
    with pytest.raises(UsageError):
        Design(*arguments)


def test_a_pool_smaller_than_the_design_is_refused():
    with pytest.raises(UsageError, match="pool of 4"):
        coefficients(components(), lay_out(Design(5, 5, (0,), 1)), 4)


def test_assignments_are_named():
    assert Design(2, 4, (0, 1), 2).assignment == "crossed"
    assert Design(2, 4, (0, 1), 1).assignment == "round-robin"
    assert Design(2, 4, (0, 1, 2), 2).assignment == "2 at a time"
    assert Design(2, 4, (0, 1), 1, (3, 1)).assignment == "unequal shares"
    assert Calls(*[np.zeros(1, np.int64)] * 3).judge.size == 1


@pytest.mark.parametrize(
    ("variances", "message"),
    [
        ({"scenario": 1.0}, "residual variance is missing"),
        ({"residual": -1.0}, "at least 0"),
        ({"residual": [1.0, 2.0]}, "2 variances for 3 backbones"),
        ({"residual": 1.0, "scenario": [1.0, 2.0, 3.0]}, "backbones share"),
        ({"residual": 1.0, "language": 1.0}, "cannot be typed in"),
    ],
)
def test_typed_components_that_make_no_sense_are_refused(variances, message):
    with pytest.raises(UsageError, match=message):
        components(variances=variances)


def test_other_refusals_of_typed_components():
    with pytest.raises(ModelError, match="no term"):
        components(variances={"residual": 1.0, "weather": 1.0})
    with pytest.raises(ModelError, match="gaussian"):
        typed_components(read_model("verdict"), {"residual": 1.0})
    with pytest.raises(UsageError, match="cannot be random"):
        components(random=("scenario",))
    with pytest.raises(UsageError, match="too few"):
        typed_components(CROSSED, {"residual": 1.0}, backbones=["x"])
    with pytest.raises(UsageError, match="backbones is 1"):
        typed_components(CROSSED, {"residual": 1.0}, backbones=1)
    with pytest.raises(UsageError, match="judges is -2"):
        typed_components(CROSSED, {"residual": 1.0}, judges=-2)
    with pytest.raises(UsageError, match="twice"):
        typed_components(CROSSED, {"residual": 1.0}, judges=["x", "x"])


def test_a_single_judge_has_no_offsets():
    parts = typed_components(CROSSED, {"residual": 1.0, "judge": 9.0}, backbones=2, judges=1)
    assert variance(parts, Design(4, 4, (0,), 1)) == pytest.approx(1 / 4)
