"""Coordinates of sampled effects: the arrow, its factor, and the density they leave alone."""

from __future__ import annotations

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayesjudge.engines import preconditioning
from bayesjudge.engines.families import Walk, flatten
from bayesjudge.engines.family_model import lay_out
from bayesjudge.engines.observations import information, information_per_score
from bayesjudge.engines.preconditioning import (
    Arrow,
    factor,
    find_arrow,
    find_map,
    find_mode,
    hessian,
)
from bayesjudge.engines.sampled import starting_values
from bayesjudge.resolution import resolve
from bayesjudge.scores import read_scores
from bayesjudge.spec import Prior, Scale, Term, read_model
from tests.dense_twin import frame_of


@pytest.fixture(autouse=True)
def _double_precision():
    with jax.enable_x64(True):
        yield


def verdicts(drop=0, **sizes):
    frame = frame_of(drop=drop, **sizes).reset_index(drop=True)
    return frame.assign(score=(frame["score"] > 5).astype(int))


def resolved_of(drop=0, model="verdict", terms=None, options=None, **sizes):
    spec = read_model(model)
    if terms is not None:
        spec = replace(spec, name="own", terms=terms)
    return resolve(spec, read_scores(verdicts(drop, **sizes), **(options or {})))


def program_of(resolved):
    program = flatten(resolved, lay_out(resolved))
    start = program.start(starting_values(resolved), 1, np.random.default_rng(0))[0]
    return program, start


UNEVEN = {"drop": 13, "backbone": 3, "scenario": 3, "judge": 2, "generation": 2}
MIXED = (
    Term(("backbone",), Scale(Prior("half_normal", (1.0,)))),
    Term(("scenario",), Scale(Prior("half_normal", (1.0,)))),
    Term(("backbone", "scenario"), Scale(Prior("half_normal", (1.0,))), ("backbone",)),
    Term(("judge", "scenario"), Scale(Prior("half_normal", (1.0,))), ("scenario",)),
)
DESIGNS = {
    "uneven, with generations": ({}, UNEVEN),
    "random judges": ({"options": {"random": ["judge"]}}, UNEVEN),
    "effects of scenarios that sum to zero": ({"terms": MIXED}, UNEVEN),
    "no scenarios": ({"options": {"replicates": True, "ignore": ["scenario"]}}, UNEVEN),
}


def dense(arrow, shared, own, border, size):
    """The whole matrix of an arrow, blanks left out."""
    whole = np.zeros((size + 1, size + 1))
    whole[np.ix_(arrow.shared, arrow.shared)] = shared
    for places, inside, edge in zip(arrow.own, own, border, strict=True):
        whole[np.ix_(places, places)] = inside
        whole[np.ix_(places, arrow.shared)] = edge
        whole[np.ix_(arrow.shared, places)] = edge.T
    return whole[:-1, :-1]


def map_of(resolved, program, start):
    slopes = jax.jit(jax.value_and_grad(program.potential))
    return find_map(resolved, program.shapes, slopes, start)


@pytest.mark.parametrize("design", DESIGNS)
def test_the_hessian_is_an_arrow_and_found_whole(design):
    changes, sizes = DESIGNS[design]
    resolved = resolved_of(**changes, **sizes)
    program, start = program_of(resolved)
    arrow = find_arrow(resolved, program.shapes)
    every = np.concatenate([arrow.shared, arrow.own[arrow.own < start.size]])
    assert sorted(every) == list(range(start.size))
    assert (arrow.own.size == 0) == (design == "no scenarios")
    slopes = jax.jit(jax.value_and_grad(program.potential))
    for widths in (np.ones(start.size), np.linspace(0.5, 2.0, start.size)):
        found = dense(arrow, *hessian(slopes, start, widths, arrow), start.size)
        expected = np.asarray(jax.jit(jax.hessian(program.potential))(start))
        # Differences are off by the square of the step, and by rounding over it.
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)
    if design != "uneven, with generations":
        return
    # The map at the mode: of full rank where scenarios have blanks.
    onto = map_of(resolved, program, start)
    assert onto.entries is not None
    slope = np.asarray(jax.jit(jax.jacfwd(onto))(start))
    assert np.linalg.matrix_rank(slope) == start.size


def test_scenarios_with_fewer_coordinates_have_blanks():
    resolved = resolved_of(**UNEVEN)
    program, start = program_of(resolved)
    arrow = find_arrow(resolved, program.shapes)
    frame = verdicts(UNEVEN["drop"], **{k: v for k, v in UNEVEN.items() if k != "drop"})
    answers = frame.groupby("scenario")[["backbone", "generation"]].apply(
        lambda part: len(part.drop_duplicates())
    )
    assert answers.nunique() > 1
    blanks = (arrow.own == start.size).sum(axis=1)
    np.testing.assert_array_equal(blanks - blanks.min(), answers.max() - answers.to_numpy())


arrows = st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(1, 3), st.integers(0, 99))


def random_arrow(width, blocks, size, seed):
    """An arrow of a definite matrix; the last block has a blank where it can."""
    rng = np.random.default_rng(seed)
    n = width + blocks * size
    order = rng.permutation(n)
    own = order[width:].reshape(blocks, size).copy()
    if blocks and size > 1:
        gone = own[-1, -1]
        own[-1, -1] = n
        own, shared = np.where(own > gone, own - 1, own), order[:width]
        n, shared = n - 1, np.where(shared > gone, shared - 1, shared)
    else:
        shared = order[:width]
    arrow = Arrow(shared, own)
    inside = rng.normal(size=(blocks, size, size))
    inside = inside @ inside.transpose(0, 2, 1) + np.eye(size)
    border = rng.normal(size=(blocks, size, width))
    blank = own == n
    inside = np.where(blank[:, :, None] | blank[:, None, :], 0.0, inside)
    inside = inside + blank[:, :, None] * np.eye(size)
    border = np.where(blank[:, :, None], 0.0, border)
    solved = np.linalg.solve(inside, border) if blocks else border
    shared_part = np.tensordot(border, solved, axes=([0, 1], [0, 1])) + np.eye(width)
    return arrow, n, (shared_part, inside, border)


@settings(deadline=None, max_examples=40)
@given(arrows)
def test_a_factor_is_the_root_of_the_inverse(case):
    arrow, n, parts = random_arrow(*case)
    if not n:
        return
    onto = factor(np.arange(n, dtype=float), arrow, *parts)
    root = np.stack([np.asarray(onto(one)) - onto.origin for one in np.eye(n)], axis=1)
    whole = dense(arrow, *parts, n)
    np.testing.assert_allclose(root @ root.T @ whole, np.eye(n), atol=1e-7)
    np.testing.assert_allclose(onto(np.zeros(n)), np.arange(n))


def test_directions_curved_the_wrong_way_are_taken_for_flat():
    arrow = Arrow(np.arange(2), np.zeros((0, 0), np.int64))
    bent = np.array([[1.0, 2.0], [2.0, 1.0]])
    onto = factor(np.zeros(2), arrow, bent, np.zeros((0, 0, 0)), np.zeros((0, 0, 2)))
    spread = np.linalg.eigvalsh(onto.shared @ onto.shared.T)
    np.testing.assert_allclose(spread, [1 / 3, 1.0])
    none = factor(np.zeros(2), arrow, 0 * bent, np.zeros((0, 0, 0)), np.zeros((0, 0, 2)))
    assert np.isfinite(none.shared).all()


@pytest.fixture(scope="module")
def mapped():
    with jax.enable_x64(True):
        resolved = resolved_of(backbone=3, scenario=6, judge=3)
        program, start = program_of(resolved)
        return program, map_of(resolved, program, start)


def test_what_is_walked_in_has_the_models_density(mapped):
    program, onto = mapped
    walk = Walk(program, onto)
    z = np.random.default_rng(2).standard_normal(onto.origin.size)
    found = jax.jit(lambda one: walk.potential(walk.part(one)))(z)
    assert float(found) == pytest.approx(float(program.potential(onto(z))), rel=1e-10)


def test_the_posterior_is_round_about_its_mode(mapped):
    program, onto = mapped
    assert np.abs(jax.jit(jax.grad(program.potential))(onto.origin)).max() < 0.05
    plain = np.asarray(jax.jit(jax.hessian(program.potential))(onto.origin))
    root = np.stack([np.asarray(onto(one)) - onto.origin for one in np.eye(len(plain))], axis=1)
    curvature, before = np.linalg.eigvalsh(root.T @ plain @ root), np.linalg.eigvalsh(plain)
    assert curvature.min() > 0.1
    assert curvature.max() < 1.01
    assert before.max() / before.min() > 10 * curvature.max() / curvature.min()


def test_the_lowest_point_is_found():
    target = np.linspace(-3, 3, 7)
    slopes = jax.value_and_grad(lambda q: jnp.sum((q - target) ** 4 + (q - target) ** 2))
    found = find_mode(slopes, np.zeros(7))
    np.testing.assert_allclose(found, target, atol=1e-2)


@pytest.mark.parametrize("limit", ["_WIDEST", "_MOST_NUMBERS"])
def test_a_map_that_costs_too_much_is_left_out(limit, monkeypatch):
    resolved = resolved_of(**UNEVEN)
    program, start = program_of(resolved)
    monkeypatch.setattr(preconditioning, limit, 3)
    assert map_of(resolved, program, start) is None
    walk = Walk(program, None)
    assert walk.width == 0
    assert set(walk.part(start)) == {"own"}
    expected = float(program.potential(start))
    assert float(walk.potential(walk.part(start))) == pytest.approx(expected)


def test_information_is_less_where_finer_effects_come_between():
    resolved = resolved_of(backbone=3, scenario=4, judge=3)
    found = information(resolved)
    each = information_per_score(resolved)
    by_name = {t.variable: t for t in resolved.terms}
    finest = by_name["judge_scenario"]
    counts = np.bincount(finest.codes)
    np.testing.assert_allclose(found["judge_scenario"], counts * each)
    # Nine scores, three effects of backbone:scenario and three of judge:scenario.
    expected = 1 / (1 / (9 * each) + 2 * 0.25 / 3)
    np.testing.assert_allclose(found["scenario"], expected)
    assert (found["scenario"] < 9 * each).all()
