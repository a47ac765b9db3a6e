"""A table that is passed over gives what the same table gives when it is read."""

from __future__ import annotations

import numpy as np
import pytest

from bayesjudge.scores import read_scores, read_tally, tally_of_scores
from tests.dense_twin import G2, frame_of
from tests.test_moments import LOCAL, check_equal, make

UNSEEN = "no second scale among the scores was looked for"


def said(problems):
    """Leave out row numbers, which only rows have."""
    return [(p.severity, p.what, p.rows, p.remedy) for p in problems if UNSEEN not in p.what]


def check_same(source, read_from=None, **options):
    """Both roads give one tally; or one refusal."""
    scores = tally_of_scores(
        read_scores(source if read_from is None else read_from, **options), location=3.0
    )
    found = read_tally(source, location=3.0, **options)
    check_equal(found.moments, scores.moments)
    for name in ("facets", "scale", "lower_is_better", "replicates", "n_repeated", "mapping"):
        assert getattr(found, name) == getattr(scores, name), name
    assert sorted(said(found.problems)) == sorted(said(scores.problems))
    return found


@pytest.mark.parametrize("back_end", LOCAL)
def test_frames_give_the_tally_of_their_scores(back_end):
    frame = frame_of(drop=9, **G2).rename(columns={"backbone": "model", "judge": "Rater"})
    found = check_same(make(back_end, frame), frame)
    assert found.facet_names == ("backbone", "judge", "scenario", "generation")
    assert found.levels("generation") == ()
    assert len(found) == len(frame)


def written(tmp_path, frame, kind):
    path = tmp_path / f"scores.{kind}"
    if kind == "parquet":
        frame.to_parquet(path)
    elif kind == "csv":
        frame.to_csv(path, index=False)
    else:
        frame.to_json(path, orient="records", lines=True)
    return path


@pytest.mark.parametrize("kind", ["parquet", "csv", "jsonl"])
def test_files_give_the_tally_of_their_scores(tmp_path, kind):
    frame = frame_of(drop=9, **G2)
    frame["turn"] = 1
    path = written(tmp_path, frame, kind)
    found = check_same(path)
    assert found.source == str(path)


def awkward():
    frame = frame_of(**G2).reset_index(drop=True)
    frame["score"] = np.abs(frame["score"].round(1))
    return frame


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_rows_left_out_are_told_in_the_same_words(tmp_path, kind):
    frame = awkward()
    frame["score"] = frame["score"].astype(str)
    frame.loc[[0, 9, 10], "score"] = ["N/A", "", "inf"]
    frame.loc[[2, 3], "score"] = [" 1e0 ", "True"]
    frame.loc[[4, 5], "score"] = ["-1", "1_0"]
    frame.loc[frame["scenario"] == "scenario1", "score"] = "lost"
    for options in ({}, {"missing": ["lost", -1, "5"]}, {"missing": ["never"]}):
        check_same(written(tmp_path, frame, kind), **options)


@pytest.mark.parametrize("back_end", LOCAL)
def test_missing_numbers_and_labels(back_end):
    frame = awkward()
    frame.loc[[0, 9], "score"] = np.nan
    frame.loc[[1, 2], "score"] = -9.0
    frame["judge"] = frame["judge"].astype(object)
    frame.loc[[11, 12], "judge"] = None
    source = make(back_end, frame)
    found = check_same(source, frame)
    assert any("perhaps a mark" in p.what for p in found.problems)
    check_same(source, frame, missing=-9)


@pytest.mark.parametrize("back_end", LOCAL)
def test_rows_are_kept_by_label(back_end):
    frame = frame_of(**G2).assign(split=lambda f: f["score"] > 0, turn=1.5)
    frame["number"] = np.arange(len(frame)) % 2
    source = make(back_end, frame)
    where = [("split", "True"), ("turn", "1.5"), ("number", "1"), ("model", "backbone0")]
    frame = frame.rename(columns={"backbone": "model"})
    source = make(back_end, frame)
    where = [*where, ("model", "backbone1")]
    check_same(source, frame, where=where, replicates=True)
