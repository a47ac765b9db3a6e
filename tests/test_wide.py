"""Wide tables: a column a judge, or a judge and criterion."""

from __future__ import annotations

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayesjudge.errors import DataError, UsageError
from bayesjudge.scores import read_scores, scan
from bayesjudge.scores.formats.wide import guess_pattern, lengthen
from bayesjudge.scores.frames import read_frame
from bayesjudge.scores.reading import read_raw

BY_JUDGE = """question_id,model,category,score_gpt-4,score_claude,tokens
q1,amber,math,7,6,120
q2,amber,math,N/A,5,130
q1,birch,chat,8,0,110
q2,birch,chat,4,3,90
"""
BY_BOTH = """item,model,gpt/fluency,gpt/truth,claude/fluency,claude/truth
1,a,1,2,3,4
1,b,5,6,7,8
"""


@pytest.fixture
def by_judge(tmp_path):
    path = tmp_path / "wide.csv"
    path.write_text(BY_JUDGE)
    return path


def scores_of(scores):
    judge, backbone, scenario = (scores.facet(n) for n in ("judge", "backbone", "scenario"))
    return {
        (judge.levels[j], backbone.levels[b], scenario.levels[s]): x
        for j, b, s, x in zip(
            judge.codes, backbone.codes, scenario.codes, scores.score, strict=True
        )
    }


def test_columns_of_scores_are_asked_about_and_not_guessed(by_judge):
    with pytest.raises(
        DataError, match=r"by judges or by criteria.*--format 'wide:score_\{judge\}'"
    ):
        read_scores(by_judge)
    reading = scan(by_judge, format="wide:score_{judge}")
    found = scores_of(reading.require())
    assert found == {
        ("gpt-4", "amber", "q1"): 7,
        ("claude", "amber", "q1"): 6,
        ("claude", "amber", "q2"): 5,
        ("gpt-4", "birch", "q1"): 8,
        ("claude", "birch", "q1"): 0,
        ("gpt-4", "birch", "q2"): 4,
        ("claude", "birch", "q2"): 3,
    }
    told = [str(problem) for problem in reading.problems]
    assert any("a wide table: 2 columns" in text for text in told)
    # The row that is left out is named by file and column.
    assert any("'N/A' 1" in text and "column 'score_gpt-4'" in text for text in told)


def test_every_column_of_numbers_where_wide_is_said(tmp_path):
    path = tmp_path / "wide.csv"
    path.write_text(BY_JUDGE.replace("score_", ""))
    with pytest.raises(DataError, match="no column is known to be the score"):
        read_scores(path)
    assert set(read_scores(path, format="wide").levels("judge")) == {"gpt-4", "claude", "tokens"}
    scores = read_scores(path, format="wide", ignore=["tokens"])
    assert scores.levels("judge") == ("claude", "gpt-4")
    assert len(scores) == 7


def test_a_pattern_parts_judge_and_criterion(tmp_path):
    path = tmp_path / "wide.csv"
    path.write_text(BY_BOTH)
    scores = read_scores(path, format="wide:{judge}/{criterion}", facets=["criterion"])
    assert scores.levels("judge") == ("claude", "gpt")
    assert scores.levels("criterion") == ("fluency", "truth")
    assert sorted(scores.score) == [1, 2, 3, 4, 5, 6, 7, 8]
    one = read_scores(
        path, format="wide:{criterion}/{judge}", where={"criterion": "gpt"}, facets=["criterion"]
    )
    assert one.levels("judge") == ("fluency", "truth")


def test_patterns_that_are_none(by_judge):
    table = read_raw(by_judge)
    for pattern in ("x", "{judge}{judge}", "{judge}_{other}", "{criterion}"):
        with pytest.raises(UsageError, match=r"needs \{judge\} once"):
            lengthen(table, f"wide:{pattern}")
    with pytest.raises(UsageError, match="no column fits"):
        lengthen(table, "wide:rated_{judge}")
    named = read_frame(
        pd.DataFrame({"model": ["a"], "judge": ["j"], "x_score": [1], "y_score": [2]})
    )
    with pytest.raises(UsageError, match="a column 'judge' of its own"):
        lengthen(named, "wide:{judge}_score")
    texts = read_frame(pd.DataFrame({"model": ["a"], "note": ["good"]}))
    with pytest.raises(UsageError, match="no column of numbers"):
        lengthen(texts, "wide")


def test_tables_that_only_look_wide():
    assert guess_pattern(["model", "score", "score_a", "score_b"]) is None
    assert guess_pattern(["model", "rating", "score_a", "score_b"]) is None
    assert guess_pattern(["model", "score_a"]) is None
    assert guess_pattern(["model", "score_a", "score_b", "c_score", "d_score"]) is None
    assert guess_pattern(["model", "human_score", "score_b"]) is None
    assert guess_pattern(["model", "a score", "b score"]) == "wide:{judge} score"


@given(
    st.lists(
        st.tuples(st.integers(0, 9), st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=6
    )
)
def test_no_score_is_lost_or_made(rows):
    frame = pd.DataFrame(
        [(f"q{i}", *row) for i, row in enumerate(rows)],
        columns=["item", "a_score", "b_score", "c_score"],
    )
    table = lengthen(read_frame(frame), "wide:{judge}_score")
    assert table.n_rows == 3 * len(rows)
    coded = {name: table.columns[name].coded for name in ("item", "judge", "score")}
    found = {tuple(c.values[c.codes[row]] for c in coded.values()) for row in range(table.n_rows)}
    assert found == {
        (f"q{i}", judge, row[j]) for i, row in enumerate(rows) for j, judge in enumerate("abc")
    }


def test_rows_are_named_by_file_and_column(by_judge):
    table = lengthen(read_raw(by_judge), "wide:score_{judge}")
    assert table.row_name(5).endswith("wide.csv column 'score_claude'")
