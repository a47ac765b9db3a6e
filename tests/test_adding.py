"""Moments of two tables together are those of the one table."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayesjudge.errors import DataError
from bayesjudge.scores import (
    add_moments,
    key_sums_of_scores,
    moments_of_key_sums,
    moments_of_scores,
    relocate,
)
from bayesjudge.scores.key_sums import digest, merge_key_sums, shared_keys
from bayesjudge.scores.parts import scan_part
from tests.test_moments import check_equal

LABELS = st.sampled_from(["a", "b", "01", "NA", "é", "z"])
NAMES = ("backbone", "judge", "scenario", "generation")


@st.composite
def rows_of(draw, names=NAMES, offset=0.0, least=1):
    """Rows of several tables: levels come and go, labels and scores may lack."""
    row = st.tuples(
        *(LABELS for _ in names),
        st.one_of(st.integers(1, 10), st.floats(-50, 50), st.none()),
    )
    rows = draw(st.lists(row, min_size=least, max_size=25))
    frame = pd.DataFrame(rows, columns=[*names, "score"])
    # One row at least stands, and one label may lack.
    frame.loc[0, "score"] = 3.0
    if draw(st.booleans()) and len(frame) > 1:
        frame.loc[1, "judge"] = None
    return frame.assign(score=frame["score"].astype(float) + offset)


def table_of(frame):
    return scan_part(frame, replicates=True, columns={n: n for n in NAMES if n in frame}).require()


def apart(frames):
    """Give each table generations of its own."""
    return [
        frame.assign(generation=f"{k} " + frame["generation"]) for k, frame in enumerate(frames)
    ]


@pytest.mark.parametrize("names", [NAMES, NAMES[:3], NAMES[:2]])
@given(data=st.data())
@settings(max_examples=25, deadline=None)
def test_moments_add_up_to_those_of_the_whole_table(names, data):
    frames = [data.draw(rows_of(names)) for _ in range(3)]
    if "generation" in names:
        frames = apart(frames)
    whole = moments_of_scores(table_of(pd.concat(frames, ignore_index=True)))
    a, b, c = (moments_of_scores(table_of(frame)) for frame in frames)
    size = float(whole.squares.sum()) + 1
    one, other = add_moments(add_moments(a, b), c), add_moments(c, add_moments(b, a))
    assert one.location == pytest.approx(whole.location, rel=1e-12, abs=1e-12)
    for found in (one, other):
        check_equal(relocate(found, whole.location), whole, size)
    nothing = replace(
        a,
        n_excluded=0,
        levels=tuple(() for _ in a.levels),
        **{n: getattr(a, n)[:0] for n in ("codes", "count", "total", "squares", "low", "high")},
        generations=None,
    )
    for found in (add_moments(a, nothing), add_moments(nothing, a)):
        check_equal(found, a, size)
    assert add_moments(nothing, nothing).n_scores == 0


def test_moments_of_other_facets_are_not_added():
    frame = pd.DataFrame(
        {"backbone": ["a"], "judge": ["j"], "scenario": ["s"], "generation": ["g"], "score": [1.0]}
    )
    whole = moments_of_scores(table_of(frame))
    with pytest.raises(DataError, match="cannot be added to moments by"):
        add_moments(whole, moments_of_scores(table_of(frame.drop(columns="judge"))))
    with pytest.raises(DataError, match="one table has generations"):
        add_moments(whole, moments_of_scores(table_of(frame.drop(columns="generation"))))


@pytest.mark.parametrize("offset", [0.0, 1e6])
@given(data=st.data())
@settings(max_examples=40, deadline=None)
def test_sums_of_generations_scored_on_several_days_are_those_of_the_whole_table(offset, data):
    frames = [data.draw(rows_of(offset=offset)) for _ in range(3)]
    whole = table_of(pd.concat(frames, ignore_index=True))
    tables = [table_of(frame) for frame in frames]
    sums = merge_key_sums([key_sums_of_scores(table) for table in tables])
    assert sums.n_scores == len(whole)
    excluded = sum(table.n_excluded for table in tables)
    for options in ({}, {"cells": ()}, {"blocks": ("backbone",), "cells": ("judge",)}):
        twin = moments_of_scores(whole, location=offset + 5, **options)
        found = moments_of_key_sums(sums, location=offset + 5, n_excluded=excluded, **options)
        # Rounding of means is of the scores' size, not of their spread.
        check_equal(found, twin, float(twin.squares.sum()) + 1 + 1e-4 * abs(offset))
    default = moments_of_key_sums(sums)
    assert default.location == pytest.approx(whole.score.mean(), rel=1e-14, abs=1e-12)


def test_a_score_that_is_alone_in_its_cell_is_kept_to_the_last_digit():
    frame = pd.DataFrame({"backbone": ["a", "b", "c"], "score": [0.1, 1e17, -3.3]})
    sums = merge_key_sums([key_sums_of_scores(table_of(frame[k : k + 1])) for k in range(3)])
    np.testing.assert_array_equal(sums.mean, frame["score"])
    assert not sums.spread.any()


def test_keys_that_come_again_are_found():
    one = pd.DataFrame({"backbone": ["a", "b"], "judge": ["j", "j"], "score": [1.0, 2.0]})
    two = pd.DataFrame({"backbone": ["c", "b"], "judge": ["j", "j"], "score": [1.0, 2.0]})
    sums = [key_sums_of_scores(table_of(frame)) for frame in (one, two)]
    found = shared_keys(*sums)
    assert [sums[1].label(key) for key in found] == ["backbone='b', judge='j'"]
    with pytest.raises(DataError, match="cannot be put together"):
        merge_key_sums([sums[0], key_sums_of_scores(table_of(one[["backbone", "score"]]))])


def test_a_digest_is_of_labels_and_scores_in_whatever_order():
    frame = pd.DataFrame(
        {"backbone": ["a", "b", "b"], "judge": ["j", "i", "i"], "score": [0.0, 2.0, 3.0]}
    )
    own = digest(table_of(frame))
    assert digest(table_of(frame[::-1].assign(score=[3.0, 2.0, -0.0]))) == own
    for other in (
        frame.assign(score=[0.0, 2.0, 4.0]),
        frame.assign(judge=["j", "i", "j"]),
        frame.assign(backbone=["a", "c", "c"]),
        frame.rename(columns={"judge": "language"}),
        frame[:2],
    ):
        assert digest(table_of(other)) != own
