"""Moments are the same on every back end, and all that the likelihoods need."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from bayesjudge.engines.arranging import arrange
from bayesjudge.engines.blocks import BlocksModel
from bayesjudge.engines.from_moments import arrange_moments, balance_moments, moments_wanted
from bayesjudge.engines.strata import balance, log_likelihood
from bayesjudge.engines.streams import Streams
from bayesjudge.errors import DataError, UsageError
from bayesjudge.resolution import resolve
from bayesjudge.scores import (
    count_distinct,
    distinct_levels,
    moments_of_scores,
    read_scores,
    relocate,
    scan,
    take_moments,
)
from bayesjudge.spec import Term
from tests.back_ends import BACK_ENDS, LAZY, LOCAL, check_equal, make, names_of
from tests.dense_twin import (
    B3,
    CROSSED,
    DESIGNS,
    G2,
    frame_of,
    half_normal,
    random_scales,
    scale_by,
    with_terms,
)
from tests.test_integrated import MORE

EVERY = {**DESIGNS, **MORE}


@pytest.mark.parametrize("back_end", BACK_ENDS)
@pytest.mark.parametrize("drop", [0, 31])
def test_every_back_end_gives_the_moments_of_the_table_in_memory(back_end, drop):
    frame = frame_of(backbone=3, scenario=4, judge=2, language=2, generation=3, drop=drop)
    scores, columns = read_scores(frame), names_of(frame)
    source = make(back_end, frame)
    several = ({}, {"cells": ()}, {"blocks": ("backbone",), "cells": ("judge",)})
    # Each query takes Spark half a second.
    for options in several[: 1 if back_end == "pyspark" else 3]:
        twin = moments_of_scores(scores, location=5.0, **options)
        check_equal(take_moments(source, columns, location=5.0, **options), twin)
        default = take_moments(source, columns, **options)
        assert default.location == pytest.approx(scores.score.mean(), rel=1e-14)
        check_equal(relocate(default, 5.0), twin)


@pytest.mark.parametrize("back_end", LOCAL)
@pytest.mark.parametrize("rows", [1, 40, 70])
def test_generations_in_several_passes_are_those_of_one(back_end, rows, monkeypatch):
    from bayesjudge.scores import grouping

    monkeypatch.setattr(grouping, "ROWS_AT_ONCE", rows)
    frame = frame_of(backbone=3, scenario=4, judge=2, generation=3, drop=9)
    for change in (frame, frame.assign(scenario=frame["scenario"].str[-1].astype(int))):
        twin = moments_of_scores(read_scores(change), location=5.0)
        check_equal(take_moments(make(back_end, change), names_of(frame), location=5.0), twin)


@pytest.mark.parametrize("back_end", BACK_ENDS)
def test_missing_scores_and_labels_are_left_out_and_counted(back_end):
    frame = frame_of(**G2).reset_index(drop=True)
    frame.loc[[0, 9], "score"] = np.nan
    frame.loc[5, "score"] = np.inf
    frame.loc[7, "score"] = -np.inf
    frame["judge"] = frame["judge"].astype(object)
    frame.loc[11, "judge"] = None
    frame["generation"] = frame["generation"].astype(object)
    frame.loc[12, "generation"] = None
    columns = names_of(frame)
    found = take_moments(make(back_end, frame), columns, location=0.0)
    assert (found.n_excluded, found.n_scores) == (6, len(frame) - 6)
    twin = moments_of_scores(read_scores(frame), location=0.0)
    assert twin.n_excluded == 6
    check_equal(found, twin)


LABELS = [
    "01",
    "1",
    "NA",
    "None",
    "nan",
    " ",
    "",
    "é",
    "e\u0301",
    "שלום עולם",
    "모델",
    "😀 'q' \"",
    "a'b;--",
]


@pytest.mark.parametrize("back_end", BACK_ENDS)
def test_labels_are_kept_byte_for_byte(back_end):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        [(a, s, j, "g") for a in LABELS for s in (1, 10, 2) for j in LABELS[:8]],
        columns=["model", "scenario", "judge", "generation"],
    )
    frame["score"] = rng.normal(size=len(frame))
    if back_end == "pyspark" or back_end == "dask":
        frame["scenario"] = frame["scenario"].astype("int64")
    columns = {"score": "score", "backbone": "model", "scenario": "scenario", "judge": "judge"}
    columns["generation"] = "generation"
    source = make(back_end, frame)
    twin = moments_of_scores(read_scores(frame), location=0.5)
    check_equal(take_moments(source, columns, location=0.5), twin)
    levels, rows = distinct_levels(source, "model")
    assert levels == tuple(sorted(LABELS))
    assert (rows == 24).all()
    assert twin.levels[0] == ("1", "10", "2")
    assert count_distinct(source, ["model", "judge"]) == len(LABELS) * 8


@pytest.mark.parametrize("back_end", LOCAL)
@pytest.mark.parametrize("kind", ["implicit", "explicit"])
def test_generations_by_label_or_by_place(back_end, kind):
    frame = frame_of(drop=9, **G2)
    if kind == "explicit":
        frame["generation"] = frame["scenario"] + frame["backbone"] + frame["generation"]
    scores = read_scores(frame)
    found = take_moments(make(back_end, frame), names_of(frame), location=4.0)
    check_equal(found, moments_of_scores(scores, location=4.0))
    by_hand = frame.groupby(["scenario", "backbone", "generation"])["score"].agg(["sum", "size"])
    assert found.generations.n_generations == len(by_hand)
    about = (by_hand["sum"] - 4.0 * by_hand["size"]) ** 2
    assert found.generations.squares.sum() == pytest.approx(about.sum(), rel=1e-12)
    assert found.n_repeated == 0


@pytest.mark.parametrize("back_end", LOCAL)
def test_digits_are_kept_at_a_large_location(back_end):
    frame = frame_of(**G2)
    noise = frame["score"].to_numpy()
    large = frame.assign(score=1e8 + noise)
    scores = read_scores(large)
    exact = large["score"].to_numpy() - 1e8
    found = take_moments(make(back_end, large), names_of(large))
    # The scores themselves are stored to 1.5e-8; their moments lose nothing more.
    assert found.variance == pytest.approx(exact.var(), rel=1e-12)
    assert found.mean == pytest.approx(1e8 + exact.mean(), rel=1e-15)
    check_equal(found, moments_of_scores(scores, location=found.location))


@pytest.mark.parametrize("back_end", LOCAL)
def test_repeated_cells_are_counted_in_the_pass(back_end):
    frame = pd.concat([frame_of(**G2), frame_of(**G2).iloc[:4]])
    frame = frame.reset_index(drop=True)
    found = take_moments(make(back_end, frame), names_of(frame))
    assert found.n_repeated == 4
    plain = pd.concat([frame_of(**B3), frame_of(**B3).iloc[:3]]).reset_index(drop=True)
    assert take_moments(make(back_end, plain), names_of(plain)).n_repeated == 3


@pytest.mark.parametrize("back_end", LOCAL)
def test_ranges_by_judge(back_end):
    frame = frame_of(drop=5, **B3)
    low, high = take_moments(make(back_end, frame), names_of(frame)).ranges("judge")
    by_judge = frame.groupby("judge")["score"]
    np.testing.assert_array_equal(low, by_judge.min())
    np.testing.assert_array_equal(high, by_judge.max())


TABLES = st.fixed_dictionaries(
    {
        "backbone": st.integers(2, 4),
        "scenario": st.integers(1, 5),
        "judge": st.integers(1, 4),
        "generation": st.integers(1, 3),
    }
)


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    sizes=TABLES,
    keep=st.floats(0.3, 1.0),
    seed=st.integers(0, 1000),
    location=st.floats(-20, 20),
    power=st.integers(-6, 6),
    with_generations=st.booleans(),
)
def test_back_ends_equal_the_twin_on_any_table(
    sizes, keep, seed, location, power, with_generations
):
    if not with_generations:
        sizes = {k: v for k, v in sizes.items() if k != "generation"}
    frame = frame_of(seed, **sizes)
    kept = np.random.default_rng(seed).random(len(frame)) < keep
    kept[[0, -1]] = True
    frame = frame[kept].assign(score=frame["score"] * 10.0**power)
    at = location * 10.0**power
    scores = scan(frame).scores
    assume(scores is not None)
    twin = moments_of_scores(scores, location=at)
    for back_end in LOCAL:
        check_equal(take_moments(make(back_end, frame), names_of(frame), location=at), twin)


@settings(max_examples=30, deadline=None)
@given(a=st.floats(-50, 50), b=st.floats(-50, 50))
def test_relocating_is_taking_elsewhere(a, b):
    scores = read_scores(frame_of(drop=7, **G2))
    at = moments_of_scores(scores, location=a)
    to = moments_of_scores(scores, location=b)
    check_equal(relocate(at, b), to, rough=float(max(at.squares.sum(), to.squares.sum())))


def refuse_rows(monkeypatch, groups_at_most):
    """Fail where more comes into memory than groups."""
    from bayesjudge.scores import grouping

    collect = grouping.collect
    seen = []

    def counted(frame):
        found = collect(frame)
        seen.append(len(found))
        assert len(found) <= groups_at_most
        return found

    monkeypatch.setattr(grouping, "collect", counted)
    return seen


@pytest.mark.parametrize("back_end", LAZY)
def test_rows_of_lazy_frames_stay_where_they_are(back_end, monkeypatch):
    frame = frame_of(backbone=2, scenario=3, judge=3, generation=40)
    seen = refuse_rows(monkeypatch, 2 * 3 * 3)
    found = take_moments(make(back_end, frame), names_of(frame))
    assert found.n_scores == len(frame) == 720
    # rows, mean, cells, patterns
    assert seen == [1, 1, 18, 6]


def test_nothing_but_groups_is_collected_of_a_polars_query():
    frame = pl.from_pandas(frame_of(backbone=2, scenario=3, judge=3, generation=40)).lazy()
    seen = []

    def count(batch):
        seen.append(len(batch))
        return batch

    watched = frame.map_batches(count)
    found = take_moments(watched, {n: n for n in frame.collect_schema().names()})
    assert found.n_scores == 720
    assert len(seen) == 4


NESTED = {"items in splits", "scenarios of one backbone each"}


@pytest.mark.parametrize("name", EVERY)
def test_likelihoods_from_moments_of_a_lazy_frame_are_those_of_the_table(name):
    spec, frame, options = EVERY[name]
    frame = frame.reset_index(drop=True)
    resolved = resolve(spec, read_scores(frame, **options))
    blocks, cells = moments_wanted(resolved)
    if not blocks:
        pytest.skip("no facet to take moments by")
    found = take_moments(pl.from_pandas(frame).lazy(), names_of(frame), blocks, cells)
    sd, noise = (
        np.array(rows)
        for rows in zip(*(random_scales(resolved, seed) for seed in range(4)), strict=True)
    )
    strata, by_moments = balance(resolved), balance_moments(resolved, found)
    if name in NESTED:
        # Facets within others are counted off from the rows, which moments do not hold.
        assert by_moments is None
    else:
        assert (strata is None) == (by_moments is None)
    if strata is not None and by_moments is not None:
        assert by_moments.n_scores == strata.n_scores
        np.testing.assert_allclose(
            log_likelihood(sd, noise, by_moments), log_likelihood(sd, noise, strata), rtol=1e-10
        )
    in_blocks = arrange(resolved)
    if len(blocks) == 2:
        from_moments = arrange_moments(resolved, found)
        assert (in_blocks is None) == (from_moments is None)
    if in_blocks is not None and from_moments is not None:
        np.testing.assert_allclose(
            BlocksModel(resolved, from_moments).values(sd, noise),
            BlocksModel(resolved, in_blocks).values(sd, noise),
            rtol=1e-10,
        )


def test_effects_drawn_from_moments_are_those_of_the_table():
    from bayesjudge.engines.balanced import BalancedModel

    frame = frame_of(**G2)
    resolved = resolve(CROSSED, read_scores(frame))
    found = take_moments(pl.from_pandas(frame).lazy(), names_of(frame), *moments_wanted(resolved))
    sd, noise = (x[None] for x in random_scales(resolved, 1))
    for one, other in (
        (
            BalancedModel(resolved, balance_moments(resolved, found)),
            BalancedModel(resolved, balance(resolved)),
        ),
        (
            BlocksModel(resolved, arrange_moments(resolved, found)),
            BlocksModel(resolved, arrange(resolved)),
        ),
    ):
        streams = Streams(3, np.arange(len(sd)))
        a, b = (m.kept_effects(sd, noise, streams) for m in (one, other))
        assert a.keys() == b.keys()
        for name in a:
            np.testing.assert_allclose(a[name], b[name], rtol=1e-8, atol=1e-10)


def test_unfit_moments_give_no_likelihood():
    frame = frame_of(**G2)
    scores = read_scores(frame)
    resolved = resolve(CROSSED, scores)
    without = read_scores(frame[frame["generation"] == "generation0"].drop(columns="generation"))
    for found in (moments_of_scores(scores, cells=()), moments_of_scores(without)):
        assert balance_moments(resolved, found) is None
        assert arrange_moments(resolved, found) is None
    across = moments_of_scores(scores, blocks=("judge", "backbone"))
    assert arrange_moments(resolved, across) is None
    by_two = replace(
        CROSSED, residual=scale_by("judge"), terms=(Term(("backbone",), scale_by("backbone"), ()),)
    )
    for spec in (by_two, with_terms(Term(("scenario", "generation"), half_normal(1.0)))):
        other = resolve(spec, scores)
        assert balance_moments(other, moments_of_scores(scores)) is None
        assert arrange_moments(other, moments_of_scores(scores)) is None
    one = moments_of_scores(scores, blocks=("backbone",), cells=("scenario", "judge"))
    assert arrange_moments(resolved, one) is None
    # Patterns tell by themselves that a generation lies within one scenario.
    assert balance_moments(resolved, one) is not None


def test_blocks_of_many_cells_are_left_to_other_paths():
    scores = read_scores(frame_of(backbone=2, scenario=3, judge=17))
    resolved = resolve(CROSSED, scores)
    found = moments_of_scores(scores, ("scenario", "backbone"))
    assert balance_moments(resolved, found) is not None
    assert arrange_moments(resolved, found) is None


def test_generations_across_the_levels_of_scales_are_left_to_other_paths():
    spec = replace(with_terms(Term(("judge",), half_normal(1.0))), residual=scale_by("judge"))
    spec = replace(spec, terms=(*spec.terms, Term(("generation",), half_normal(1.0))))
    scores = read_scores(frame_of(**G2))
    resolved = resolve(spec, scores)
    found = moments_of_scores(scores, ("backbone",), ("judge",))
    assert balance(resolved) is None
    assert balance_moments(resolved, found) is None


def test_backbones_may_be_among_the_cells():
    scores = read_scores(frame_of(**G2))
    resolved = resolve(CROSSED, scores)
    found = moments_of_scores(scores, ("scenario",), ("judge", "backbone"))
    sd, noise = (x[None] for x in random_scales(resolved, 1))
    np.testing.assert_allclose(
        log_likelihood(sd, noise, balance_moments(resolved, found)),
        log_likelihood(sd, noise, balance(resolved)),
        rtol=1e-10,
    )
    assert arrange_moments(resolved, found) is None


@pytest.mark.parametrize(
    "change",
    [
        # one judge more of a generation and one less of another
        lambda f: f["generation"].where(f.index != 0, "generation1"),
        # three generations in one block, one in another
        lambda f: f["generation"].where(f["scenario"] != "scenario1", "generation0"),
    ],
)
def test_cells_may_be_balanced_where_generations_are_not(change):
    frame = frame_of(**G2).reset_index(drop=True)
    frame["generation"] = change(frame)
    scores = read_scores(frame, replicates=True)
    resolved = resolve(CROSSED, scores)
    found = moments_of_scores(scores, *moments_wanted(resolved))
    assert found.count.min() == found.count.max()
    assert balance(resolved) is None
    assert balance_moments(resolved, found) is None


def test_pandas_objects_of_several_types_stay_apart():
    frame = pd.DataFrame({"judge": pd.Series([1, 1.0, True, "1", None, 1], dtype=object)})
    frame = frame.assign(backbone=list("ababab"), score=range(6))
    frame.index = [5, 3, 9, 1, 0, 0]
    found = take_moments(frame, names_of(frame), blocks=["backbone"])
    twin = moments_of_scores(read_scores(frame, replicates=True), location=found.location)
    check_equal(found, twin)
    assert distinct_levels(frame, "judge")[0] == ("1", "1.0", "True")


@pytest.mark.parametrize("back_end", ["pandas", "polars", "polars lazy"])
def test_types_of_labels_and_scores(back_end):
    frame = pd.DataFrame(
        {
            "backbone": pd.Categorical(list("baba")),
            "scenario": [0.5, 0.5, 2.0, np.nan],
            "judge": [True, True, False, True],
            "score": [True, False, True, True],
        }
    )
    source = make(back_end, frame)
    found = take_moments(source, names_of(frame), location=0.0)
    assert found.levels == (("0.5", "2.0"), ("a", "b"), ("False", "True"))
    check_equal(found, moments_of_scores(read_scores(frame), location=0.0))
    assert found.n_excluded == 1


def small(**changes):
    return pl.DataFrame(
        {"backbone": ["a", "b"], "judge": ["x", "x"], "score": [1.0, 2.0]} | changes
    )


@pytest.mark.parametrize(
    ("source", "columns", "error", "match"),
    [
        (small(), {"backbone": "backbone"}, UsageError, "no column was named"),
        (small(), {"score": "score", "backbone": "model"}, DataError, "no column 'model'"),
        ("a path", {"score": "score", "backbone": "backbone"}, UsageError, "a str is no frame"),
        (small(score=["1", "2"]), names_of(small()), DataError, "not numbers"),
        (
            small(
                score=[None, None],
            ).cast({"score": pl.Float64}),
            names_of(small()),
            DataError,
            "no row",
        ),
        (small(score=[1e200, -1e200]), names_of(small()), DataError, "squares of the scores"),
        (small(score=[1.7e308, 1.7e308]), names_of(small()), DataError, "sum of the scores"),
        (small(judge=[["x"], ["y"]]), names_of(small()), DataError, "no label can be made"),
        (small(judge=["x\0", "y"]), names_of(small()), DataError, "NUL"),
        (
            small().to_pandas().assign(judge=pd.Series([[1], 2], dtype=object)),
            names_of(small()),
            DataError,
            "no label can be made",
        ),
        (
            small(judge=[object(), object()]).lazy(),
            names_of(small()),
            DataError,
            "no label can be made",
        ),
        (
            small().lazy().with_columns(pl.col("judge").cast(pl.Int64)),
            names_of(small()),
            DataError,
            "moments cannot be taken",
        ),
    ],
)
def test_what_cannot_be_summed_is_said(source, columns, error, match):
    with pytest.raises(error, match=match):
        take_moments(source, columns)


def test_facets_are_named_once():
    scores = read_scores(frame_of(**B3))
    for blocks, cells in (((), None), (("judge",), ("judge",)), (("nobody",), ())):
        with pytest.raises(UsageError, match="moments cannot be taken by"):
            moments_of_scores(scores, blocks, cells)
    with pytest.raises(DataError, match="not taken by 'language'"):
        moments_of_scores(scores).codes_of("language")
