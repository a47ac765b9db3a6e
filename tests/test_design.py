"""Designs: nesting, balance, missing cells, connectedness, and what they rule out."""

from __future__ import annotations

import itertools
import time

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayesjudge.scores import describe_design, nested_generation, read_scores, scan
from bayesjudge.scores.keys import cell_keys, combine_codes


def crossed(drop=(), **sizes):
    """A complete crossing of facets, as a frame."""
    rows = itertools.product(*([f"{name}{i}" for i in range(n)] for name, n in sizes.items()))
    frame = pd.DataFrame(rows, columns=list(sizes)).drop(index=list(drop)).reset_index(drop=True)
    return frame.assign(score=np.arange(len(frame)) % 7 + 0.5)


def design_of(frame, **options):
    reading = scan(frame, **options)
    assert reading.design is not None
    return reading.design


def said(frame, severity, **options):
    return [str(p) for p in scan(frame, **options).problems if p.severity == severity]


def test_a_balanced_table():
    frame = crossed(backbone=3, scenario=4, judge=2)
    design = design_of(frame)
    assert design.balanced
    assert design.crossed == ("backbone", "judge", "scenario")
    assert (design.n_cells, design.n_missing) == (24, 0)
    assert design.rows_per_cell == design.replicates == (1, 1)
    assert design.nested == design.aliased == ()
    assert design.generation is None
    assert design.scenarios_shared == 4
    assert design.components == (("judge", (("backbone0", "backbone1", "backbone2"),)),)
    counts = design.facet("scenario")
    assert (counts.n_levels, counts.min_rows, counts.max_rows, counts.role) == (4, 6, 6, "random")
    assert design.facet("language") is None
    assert scan(frame).problems == ()


def test_missing_cells_are_counted():
    frame = crossed(drop=[0, 5], backbone=3, scenario=4, judge=2)
    design = design_of(frame)
    assert (design.n_cells, design.n_missing, design.balanced) == (24, 2, False)
    assert any("2 of 24 cells" in note for note in said(frame, "note"))


def test_replicates():
    frame = pd.concat([crossed(backbone=2, scenario=3)] * 2)
    design = design_of(frame, replicates=True)
    assert design.replicates == (2, 2)
    assert design.balanced
    design = design_of(frame.iloc[1:], replicates=True)
    assert design.replicates == (1, 2)
    assert not design.balanced


def test_implicit_generations_are_nested():
    frame = crossed(backbone=2, scenario=3, generation=4, judge=2)
    design = design_of(frame)
    assert design.generation == "implicit"
    assert design.n_generations == 2 * 3 * 4
    assert design.balanced
    assert design.crossed == ("backbone", "judge", "scenario")
    assert design.rows_per_cell == (4, 4)
    scores = read_scores(frame)
    codes = nested_generation(scores)
    groups = frame.groupby(["backbone", "scenario", "generation"]).ngroup()
    assert len(set(zip(codes, groups, strict=True))) == 24


def test_explicit_generations_are_their_labels():
    frame = crossed(backbone=2, scenario=3, generation=4, judge=2)
    label = frame["backbone"] + frame["scenario"] + frame["generation"]
    frame = frame.assign(generation=label)
    design = design_of(frame)
    assert design.generation == "explicit"
    assert design.n_generations == 24
    assert design.balanced
    assert ("generation", "scenario") in design.nested
    assert ("generation", "backbone") in design.nested


def test_generations_within_languages():
    frame = crossed(backbone=2, scenario=3, language=2, generation=2)
    assert design_of(frame).n_generations == 24
    frame = frame.assign(generation=frame["backbone"] + frame["scenario"] + frame["generation"])
    assert design_of(frame).generation == "explicit"
    assert design_of(frame).n_generations == 24
    assert nested_generation(read_scores(crossed(backbone=2, scenario=2))) is None


def test_generations_without_scenarios():
    design = design_of(crossed(backbone=2, generation=5))
    assert (design.generation, design.n_generations) == ("implicit", 10)
    assert design.crossed == ("backbone",)


def test_generations_that_judges_do_not_share_are_unbalanced():
    frame = crossed(backbone=2, scenario=3, generation=4, judge=2)
    odd = frame["generation"].isin(["generation1", "generation3"])
    frame = frame[odd == (frame["judge"] == "judge1")]
    design = design_of(frame)
    assert design.rows_per_cell == (2, 2)
    assert design.n_missing == 0
    assert not design.balanced


def test_nesting_is_found_and_only_links_are_listed():
    frame = crossed(backbone=2, scenario=8)
    number = frame["scenario"].str[-1].astype(int)
    frame = frame.assign(topic=number // 2, area=number // 4, twin=frame["backbone"] + "x")
    design = design_of(frame, facets=("topic", "area", "twin"))
    assert set(design.nested) == {("scenario", "topic"), ("topic", "area")}
    assert design.aliased == (("backbone", "twin"),)
    assert design.crossed == ("backbone", "scenario")
    assert design.balanced


def test_one_level_is_said_with_what_is_lost():
    frame = crossed(backbone=2, scenario=1, judge=1, language=1, generation=1, turn=1)
    frame = pd.concat([frame, frame])
    notes = said(frame, "note", facets=("turn",), replicates=True)
    for name in ("judge", "scenario", "language", "generation", "turn"):
        assert any(note.startswith(f"{name} has one level") for note in notes)
    assert not said(frame, "error", facets=("turn",), replicates=True)


def test_a_judge_of_one_backbone_is_named():
    frame = crossed(backbone=3, scenario=4, judge=3)
    frame = frame[(frame["judge"] != "judge2") | (frame["backbone"] == "backbone1")]
    (warning,) = said(frame, "warning")
    assert "'judge2' scored one backbone only" in warning
    frame = frame[(frame["judge"] != "judge1") | (frame["backbone"] == "backbone0")]
    assert "each of the judges 'judge1', 'judge2'" in said(frame, "warning")[0]


def test_scenarios_nobody_shares_are_said():
    frame = crossed(backbone=2, scenario=4)
    frame = frame.assign(scenario=frame["backbone"] + frame["scenario"])
    (warning,) = said(frame, "warning")
    assert "not paired" in warning
    frame = crossed(backbone=2, scenario=4).iloc[1:]
    assert any("1 of 4 scenarios" in note for note in said(frame, "note"))


def test_one_score_a_backbone_is_refused():
    frame = pd.DataFrame({"model": ["a", "b", "c"], "score": [1, 2, 3]})
    (error,) = said(frame, "error")
    assert "one score only" in error
    assert not said(pd.concat([frame, frame]), "error", replicates=True)


def test_backbones_that_no_judge_connects_are_refused():
    frame = crossed(backbone=4, scenario=3, judge=2)
    halves = frame["backbone"].isin(["backbone0", "backbone1"]) == (frame["judge"] == "judge0")
    (error,) = said(frame[halves], "error")
    assert "2 groups that share no judge" in error
    assert "'backbone0', 'backbone1'; 'backbone2', 'backbone3'" in error
    assert not said(frame[halves], "error", random=("judge",))
    bridged = frame[halves | (frame.index == 1)]
    assert not said(bridged, "error")


def test_a_users_panel_facet_must_connect_too():
    frame = crossed(backbone=12, scenario=3).assign(team=lambda f: f["backbone"].str[-1])
    (error,) = said(frame, "error", facets=("team",))
    assert "share no team" in error
    assert "; ..." in error
    assert not said(frame, "error", random=("team",))


SHAPES = [
    {"backbone": 2, "scenario": 1, "judge": 3},
    {"backbone": 2, "scenario": 5},
    {"backbone": 30, "scenario": 3},
    {"backbone": 2, "judge": 2},
    {"backbone": 2, "scenario": 5, "language": 2, "judge": 1},
]


@pytest.mark.parametrize("sizes", SHAPES)
@pytest.mark.parametrize("score", [0, 7.5])
def test_small_and_constant_tables_are_answered(sizes, score):
    reading = scan(crossed(**sizes).assign(score=score))
    assert reading.scores is not None
    assert not reading.errors


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 40))
def test_order_of_rows_columns_and_labels_changes_no_design(seed, n_dropped):
    rng = np.random.default_rng(seed)
    frame = crossed(backbone=3, scenario=4, judge=2, generation=2)
    frame = frame.drop(index=rng.choice(len(frame), n_dropped, replace=False))
    other = frame.sample(frac=1, random_state=seed % 1000)[list(rng.permutation(frame.columns))]
    for name in ("scenario", "judge", "generation"):
        levels = sorted(set(frame[name]))
        names = dict(zip(levels, rng.permutation(levels), strict=True))
        other = other.assign(**{name: other[name].map(names)})
    a, b = scan(frame), scan(other)
    assert a.design == b.design
    assert [(p.severity, p.rows) for p in a.problems] == [(p.severity, p.rows) for p in b.problems]


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4)), min_size=1, max_size=20),
    st.sampled_from([1, 10**9, 2**40]),
)
def test_cell_keys_number_the_cells_that_are_present(pairs, factor):
    codes = [np.array(column) * factor for column in zip(*pairs, strict=True)]
    key, n_cells = cell_keys(codes, [4 * factor, 5 * factor])
    rank = {pair: i for i, pair in enumerate(sorted(set(pairs)))}
    assert n_cells == len(rank)
    assert key.tolist() == [rank[pair] for pair in pairs]


def test_no_rows_have_no_cells():
    assert cell_keys([np.empty(0, dtype=np.int64)], [3])[1] == 0
    assert combine_codes([np.array([1]), np.array([2])], [3, 4]).tolist() == [6]


def test_a_million_rows_take_seconds():
    n = 1_000_000
    rng = np.random.default_rng(0)
    cells = np.unravel_index(np.arange(n), (10, 1000, 10, 10))
    names = ("backbone", "scenario", "generation", "judge")
    frame = pd.DataFrame(dict(zip(names, cells, strict=True))).assign(score=rng.normal(size=n))
    start = time.process_time()
    scores = read_scores(frame)
    assert time.process_time() - start < 10
    assert describe_design(scores).balanced
