"""What is wrong with a table is counted and named; what is not, is left alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayesjudge.errors import BayesjudgeError, DataError, UsageError
from bayesjudge.scores import read_scores, scan, split_by
from bayesjudge.scores.checking import parse_number
from bayesjudge.scores.scales import (
    EM_STEPS,
    MIN_VARIANCE,
    _log_density_of_mixture,
    has_ceiling,
)

SHARED = Path(__file__).parents[1].parent / "shared" / "data"
real = pytest.mark.skipif(not SHARED.is_dir(), reason="the real tables are not here")


def table(scores, **columns):
    """Rows over two backbones, and scenarios that make each cell unique."""
    n = len(scores)
    data = {
        "model": ["ab"[i % 2] for i in range(n)],
        "item": [str(i // 2) for i in range(n)],
        "score": pd.Series(scores, dtype=object),
    }
    return pd.DataFrame(data | columns)


def said(source, severity=None, **options):
    problems = scan(source, **options).problems
    return [str(p) for p in problems if severity in (None, p.severity)]


def test_a_good_table_says_nothing():
    scores = read_scores(table(["1", 2, 3.5, "4e0", " 5 ", "-0"]))
    assert scores.score.tolist() == [1, 2, 3.5, 4, 5, 0]
    assert scores.problems == ()
    assert scores.n_excluded == 0
    assert scores.mapping == (("score", "score"), ("backbone", "model"), ("scenario", "item"))


@pytest.mark.parametrize(
    ("value", "number"),
    [
        ("1_000", None),
        ("0x10", None),
        ("1,5", None),
        ("", None),
        ("inf", np.inf),
        ("TRUE", 1),
        ("false ", 0),
        (True, 1),
        (10**400, np.inf),
        ([1], None),
        ("1e400", np.inf),
        ("٣", 3),
    ],
)
def test_numbers_are_read_as_python_does(value, number):
    got = parse_number(value)
    assert np.isnan(got) if number is None else got == number


def test_unusable_scores_are_counted_named_and_left_out():
    frame = table([1, "N/A", "", None, float("nan"), "inf", "N/A", 2, 3, 1])
    reading = scan(frame)
    problem, note = reading.problems[0], reading.problems[-1]
    assert (problem.severity, problem.rows) == ("warning", 6)
    assert "'N/A' 2, '' 1, 'inf' 1, (null) 1, NaN 1" in problem.what
    assert "rows 2, 3, 4, 5, 6 and 1 more" in problem.where
    assert reading.scores is not None
    assert reading.scores.score.tolist() == [1, 2, 3, 1]
    assert reading.scores.n_excluded == 6
    assert reading.n_rows == 10
    assert note.severity == "note"
    with pytest.raises(DataError, match=r"6 scores are missing.*--missing"):
        read_scores(frame, strict=True)
    assert "decimals with a point" in said(table([1, "2,5", 3, 4]))[0]
    assert ", ..." in said(table([1, 2, *"abcdefgh", 3, 4]))[0]
    assert "…" in said(table([1, 2, "x" * 100, 3]))[0]


def test_a_table_without_a_usable_score_is_refused():
    (error,) = said(table(["a", "b", "c", "d"]), "error")
    assert "none of the 4 rows" in error


def test_named_missing_values_are_left_out_even_under_strict():
    frame = table([-1, "-1.0", "N/A", 1, 2, 3, "n/a", 4])
    reading = scan(frame, missing=("-1", "N/A", "n/a"), strict=True)
    assert reading.scores is not None
    assert reading.scores.score.tolist() == [1, 2, 3, 4]
    note = reading.problems[0]
    assert (note.severity, note.rows) == ("note", 4)
    assert "'-1' 1, '-1.0' 1" in note.what
    assert (
        scan(frame, missing=[-1, "N/A", "n/a"]).scores
        == scan(frame, missing=("-1", "N/A", "n/a")).scores
    )
    assert scan(table([-1, 1, 2, 3]), missing=-1).scores is not None
    assert "no score is '7'" in said(table([1, 2, 3, 4]), missing="7")[0]
    frame = table([float("nan"), True, 1, 2, 3, 3])
    assert scan(frame, missing="1").scores.score.tolist() == [1, 2, 3, 3]
    assert scan(frame, missing="True").scores.score.tolist() == [1, 2, 3, 3]


def test_truth_values_are_ones_and_zeros():
    reading = scan(table([True, False, "true", "FALSE", 1, 0]))
    assert reading.scores is not None
    assert reading.scores.score.tolist() == [1, 0, 1, 0, 1, 0]
    assert "4 scores are true or false" in said(table([True, False, "true", "FALSE"]), "note")[0]


@pytest.mark.parametrize("value", [-1, -9, -99, -999, -1.0, "-1"])
def test_sentinels_are_reported_and_kept(value):
    frame = table([1, 2, value, 4, 5, 3])
    (warning,) = said(frame, "warning")
    assert f"is {float(value):g} while all others are 0 or more" in warning
    assert f"--missing {float(value):g}" in warning
    assert "row 3" in warning
    assert len(read_scores(frame)) == 6
    assert not said(frame, "warning", scale=(-1000, 10))
    assert not said(frame, "warning", missing=str(value))


@pytest.mark.parametrize(
    "scores", [[-1, -0.5, 1, 2], [-1, -1, -1, -1], [-2, 1, 1, 2], [0, 0, 0, 0]]
)
def test_signed_scales_are_no_sentinels(scores):
    assert not said(table(scores), "warning")


def test_scores_outside_the_scale_are_an_error():
    frame = table([1, 2, 11, 0, 11, 5])
    (error,) = said(frame, "error", scale=(1, 10))
    assert "3 scores are outside the scale 1 to 10: 0 1, 11 2" in error
    assert "rows 3, 4, 5" in error
    assert read_scores(frame, scale=(0, 11)).scale == (0, 11)
    for scale in ((1, 1), (2, 1), (0, float("inf")), (float("nan"), 1)):
        with pytest.raises(UsageError, match="no scale"):
            scan(frame, scale=scale)


def test_missing_labels_are_counted_and_left_out():
    frame = table([1, 2, 3, 4, 5, 6], item=["x", None, "y", "y", "z", "z"])
    (warning,) = said(frame, "warning")
    assert "1 row has no scenario and was left out" in warning
    assert "row 2" in warning
    assert read_scores(frame).n_excluded == 1
    with pytest.raises(DataError, match="no scenario"):
        read_scores(frame, strict=True)


@pytest.mark.parametrize("label", ["a\0b", "\ud800", b"\xff"])
def test_labels_that_are_no_text_are_refused(label):
    frame = table([1, 2, 3, 4], item=pd.Series(["x", "x", label, "y"], dtype=object))
    (error,) = said(frame, "error")
    assert "row 3" in error
    assert "NUL" in error
    error.encode()


def test_lists_cannot_be_labels():
    frame = table([1, 2, 3, 4], item=pd.Series([["x"], {"y": 1}, (1,), "z"], dtype=object))
    assert "lists or mappings" in said(frame, "error")[0]
    frame = frame.rename(columns={"item": "notes"}).assign(item=["1", "1", "2", "2"])
    assert not said(frame, "error")


def test_levels_that_vanish_are_named():
    frame = table([1, 2, "x", "x", 3, 4], judge=["j", "j", "k", "k", "j", "j"])
    warnings = said(frame, "warning")
    assert any("1 judge has no usable score left: 'k'" in text for text in warnings)
    assert any("1 scenario has no usable" in text for text in said(frame, "note"))
    assert read_scores(frame).levels("judge") == ("j",)


def test_duplicates_name_the_cell_and_the_column_that_tells_rows_apart():
    frame = table([1, 2, 3, 4])
    frame = pd.concat([frame.assign(turn=turn, stamp=range(turn, turn + 4)) for turn in (1, 2)])
    (error,) = said(frame, "error")
    assert "4 cells have more than one score" in error
    assert "differ in 'turn', 'stamp'" in error
    assert "backbone='a', scenario='0' (rows 1, 5)" in error
    for option in ("--facet turn", "--column generation=turn", "--where turn=1", "--replicates"):
        assert option in error
    assert read_scores(frame, facets="turn").has("turn")
    assert read_scores(frame, columns={"generation": "turn"}).has("generation")
    assert len(read_scores(frame, where={"turn": "2"})) == 4
    assert read_scores(frame, replicates=True).replicates


def test_duplicates_that_two_columns_explain():
    frame = pd.concat(
        [table([1, 2]).assign(**{"a b": i // 2, "judge_": i % 2, "n": i}) for i in range(4)]
    )
    (error,) = said(frame.drop(columns="n"), "error")
    assert "'a b' and 'judge_' are facets" in error
    assert "--facet NAME --column 'NAME=a b' --facet judge_" in error
    (error,) = said(frame, "error")
    assert "If 'n' is a facet" in error
    frame = pd.concat([frame] * 2)
    (error,) = said(frame.drop(columns="n"), "error")
    assert "If 'a b' is a facet" in error
    stamped = pd.concat([table([1, 2])] * 60).assign(stamp=range(120))
    assert "'stamp'" in said(stamped, "error")[0]


def test_plain_repeats():
    frame = pd.concat([table([1, 2, 3]), table([1])])
    (error,) = said(frame, "error")
    assert "1 cell has more than one score; the rows differ in no other column" in error
    assert not said(pd.concat([table([1, 2, 3, 4]), table(["x", ""])]), "error")


def test_human_scores():
    frame = table([1, 2, 3, 4], human_score=["1", "", None, " 2.5 "])
    scores = read_scores(frame)
    assert scores.human_score is not None
    np.testing.assert_array_equal(scores.human_score, [1, np.nan, np.nan, 2.5])
    (error,) = said(frame.assign(human_score=["1", "good", "nan", "inf"]), "error")
    assert "2 human scores are no number: 'good' 1, 'inf' 1" in error
    assert "--ignore human_score" in error


def test_one_backbone_is_refused():
    (error,) = said(table([1, 2, 3, 4], model="a"), "error", replicates=True)
    assert "one backbone only, 'a'" in error


def test_one_role_has_one_column():
    frame = table([1, 2, 3, 4], judge="j", grader="g")
    with pytest.raises(UsageError, match="both 'judge' and 'grader'"):
        scan(frame, columns=[("judge", "judge"), ("judge", "grader")])
    reading = scan(frame, columns=[("judge", "grader"), ("judge", "grader")])
    assert dict(reading.mapping)["judge"] == "grader"


def test_every_error_is_listed():
    frame = table([1, 2, 3, 40], weight=1, human_score="x")
    with pytest.raises(DataError) as caught:
        read_scores(frame, scale=(1, 10))
    text = str(caught.value)
    assert text.startswith("3 things are wrong with pandas DataFrame")
    for what in ("weights or strata", "outside the scale", "human scores"):
        assert what in text
    reading = scan(frame.drop(columns=["score", "model"]))
    assert len(reading.errors) == 3
    assert reading.scores is None
    assert reading.design is None


def test_where_keeps_rows_by_exact_label():
    frame = table([1, 2, 3, 4, 5, 6], kind=["x", "x", "x ", "x ", "01", "01"])
    twice = pd.concat([frame, frame])
    kept = read_scores(twice, where=(("kind", "01"),), replicates=True)
    assert kept.score.tolist() == [5, 6, 5, 6]
    assert read_scores(frame, where=[("kind", "x"), ("kind", "01")]).score.tolist() == [1, 2, 5, 6]
    both = [("kind", "x "), ("item", "1")]
    assert scan(frame, where=both).n_rows == 2
    (error,) = said(frame, "error", where={"kind": "1"})
    assert "Its labels are '01', 'x', 'x '" in error
    (error,) = said(frame, "error", where={"none": "1"})
    assert "no column 'none'" in error
    assert "one backbone" in said(frame, "error", where={"backbone": "a"})[0]
    assert "no row has 'x'" in said(frame, "error", where=[("kind", "01"), ("item", "x")])[0]


def test_row_numbers_are_those_of_the_source_after_filtering():
    frame = table([1, 2, 3, 4, "x", 6], kind=["a", "a", "b", "b", "b", "b"])
    assert "row 5" in said(frame, "warning", where={"kind": "b"})[0]


def test_split_by_answers_each_level():
    frame = table(
        [1, 2, 3, 4, 5, 6, 7, 8, 1, 2],
        kind=["q", "q", "p", "p", "p", "p", None, None, "r", "r"],
        model=["a", "b", "a", "b", "a", "b", "a", "b", "a", "a"],
    )
    readings = split_by(frame, "kind", replicates=True)
    assert list(readings) == ["p", "q", "r"]
    assert readings["p"].scores.score.tolist() == [3, 4, 5, 6]
    assert readings["p"].n_rows == 4
    assert readings["p"].unused_columns == ()
    assert readings["r"].scores is None
    assert "one backbone" in str(readings["r"].errors[0])
    warning = next(p for p in readings["p"].problems if p.severity == "warning")
    assert "2 rows have no 'kind'" in warning.what
    assert split_by(frame, "kind", strict=True)["p"].scores is None
    assert list(split_by(frame, "kind", where={"kind": "q"})) == ["q"]
    with pytest.raises(UsageError, match="serves as scenario"):
        split_by(frame, "item")
    assert len(split_by(frame, "item", ignore="item")) == 5
    with pytest.raises(UsageError, match="serves as backbone"):
        split_by(frame, "backbone")
    with pytest.raises(DataError, match="no column 'none' to split"):
        split_by(frame, "none")
    with pytest.raises(DataError, match="no row has 'z'"):
        split_by(frame, "kind", where={"kind": "z"})
    with pytest.raises(DataError, match="no row has a label"):
        split_by(frame.assign(kind=None), "kind")


def test_split_column_is_no_explanation_of_duplicates():
    frame = pd.concat([table([1, 2, 3, 4]).assign(kind=k) for k in "pq"])
    assert all(reading.scores is not None for reading in split_by(frame, "kind").values())


# --- two scales ---------------------------------------------------------------


def panel(
    rng, n_scenarios=40, n_backbones=5, judges=("j0", "j1", "j2"), spread=1.0, sd=1.0, top=10
):
    """Rounded gaussian scores of a crossed panel."""
    b, s, j = (index.ravel() for index in np.indices((n_backbones, n_scenarios, len(judges))))
    mean = 6.5 + spread * rng.normal(size=n_backbones)[b] + 0.7 * rng.normal(size=n_scenarios)[s]
    score = mean + 0.5 * rng.normal(size=len(judges))[j] + sd * rng.normal(size=b.size)
    return pd.DataFrame(
        {
            "backbone": b.astype(str),
            "scenario": s.astype(str),
            "judge": np.array(judges)[j],
            "score": np.clip(np.rint(score), 1, top),
        }
    )


def scale_warnings(frame, **options):
    found = scan(frame, **options).problems
    return [str(p) for p in found if p.severity == "warning" and "scale" in p.what]


@pytest.mark.parametrize("spread", [0.3, 1, 2, 4])
@pytest.mark.parametrize("seed", range(25))
def test_one_scale_is_no_alarm(spread, seed):
    rng = np.random.default_rng(seed)
    frame = panel(rng, spread=spread, sd=rng.uniform(0.3, 2))
    assert not scale_warnings(frame.assign(passed=frame["score"] > 5))
    assert not scale_warnings(frame.drop(columns="judge"), replicates=True)
    assert not scale_warnings(frame.assign(score=frame["score"] > 6))
    assert not scale_warnings(frame.assign(score=np.clip(np.rint(frame["score"] / 2), 1, 5)))
    assert not scale_warnings(frame.assign(score=frame["score"] * 10 - rng.integers(0, 9)))
    assert not scale_warnings(frame.assign(score=(frame["score"] - 6.5) / 3))


@pytest.mark.parametrize("by", ["random", "scenario", "column", "half"])
def test_a_judge_of_two_scales_is_named(by):
    found = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        frame = panel(rng, n_scenarios=80)
        criterion = np.where(rng.random(len(frame)) < 0.5, "style", "facts")
        scenario = frame["scenario"].astype(int)
        on_five = {
            "random": rng.random(len(frame)) < 0.5,
            "scenario": scenario % 2 == 0,
            "column": criterion == "style",
            "half": scenario < 40,
        }[by] & (frame["judge"] == "j1")
        small = np.clip(np.rint(frame["score"] / 2), 1, 5)
        frame = frame.assign(criterion=criterion, score=np.where(on_five, small, frame["score"]))
        warnings = scale_warnings(frame)
        assert all("judge 'j1' seems to use two scales" in warning for warning in warnings)
        found += len(warnings)
    assert found >= 18


@pytest.mark.parametrize("by", ["scenario", "criterion"])
@pytest.mark.parametrize("n_judges", [1, 2])
def test_groups_that_stop_at_five_are_told_without_other_judges(by, n_judges):
    found = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        frame = panel(rng, n_scenarios=40, judges=[f"j{i}" for i in range(n_judges)])
        frame["criterion"] = np.where(frame["scenario"].astype(int) < 20, "style", "facts")
        frame["score"] = rng.integers(1, 11, len(frame))
        assert not scale_warnings(frame)
        on_five = (frame["judge"] == "j0") & {
            "scenario": frame["scenario"].astype(int) % 2 == 0,
            "criterion": frame["criterion"] == "style",
        }[by]
        frame["score"] = np.where(on_five, rng.integers(1, 6, len(frame)), frame["score"])
        found += len(scale_warnings(frame))
    assert found >= 18


@pytest.mark.parametrize("by", ["random", "scenario"])
def test_one_to_ten_among_one_to_a_hundred_is_told(by):
    for seed in range(10):
        rng = np.random.default_rng(seed)
        frame = panel(rng)
        frame["score"] = np.clip(frame["score"] * 10 + rng.integers(-9, 10, len(frame)), 1, 100)
        assert not scale_warnings(frame)
        part = {
            "random": rng.random(len(frame)) < 0.5,
            "scenario": frame["scenario"].astype(int) % 2 == 0,
        }[by] & (frame["judge"] == "j1")
        tenth = np.clip(np.rint(frame["score"] / 10), 1, 10)
        (warning,) = scale_warnings(frame.assign(score=np.where(part, tenth, frame["score"])))
        assert "judge 'j1' seems to use two scales" in warning


def test_failures_of_whole_scenarios_are_no_scale():
    rng = np.random.default_rng(3)
    frame = panel(rng)
    failed = frame["scenario"].astype(int) % 3 == 0
    for factor in (1, 10):
        assert not scale_warnings(frame.assign(score=np.where(failed, 0, frame["score"] * factor)))


def test_a_lone_judge_of_two_scales_is_told_by_a_column():
    rng = np.random.default_rng(0)
    frame = panel(rng, judges=("j0",), n_scenarios=80).drop(columns="judge")
    frame["criterion"] = np.where(frame["scenario"].astype(int) < 40, "style", "facts")
    small = frame["criterion"] == "style"
    frame["score"] = np.where(small, np.clip(np.rint(frame["score"] / 2), 1, 5), frame["score"])
    (warning,) = scale_warnings(frame)
    assert "the scores seem to use two scales" in warning
    assert "by " in warning


@pytest.mark.parametrize(("factor", "first"), [(10, 1), (1, 0.1)])
def test_scales_a_magnitude_apart_are_told(factor, first):
    rng = np.random.default_rng(0)
    frame = panel(rng)
    large = rng.random(len(frame)) < 0.5
    judge = frame["judge"] == "j1"
    frame["score"] = np.where(large | ~judge, frame["score"] * factor, frame["score"] * first)
    (warning,) = scale_warnings(frame)
    assert "judge 'j1' seems to use two scales" in warning


def test_a_judge_on_another_scale_than_the_others_is_named():
    found = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        frame = panel(rng, n_scenarios=80, spread=1.5)
        odd = frame["judge"] == "j2"
        small = np.clip(np.rint(frame["score"] / 2), 1, 5)
        for score, message in (
            (np.where(odd, frame["score"], small), "judge 'j2' scores up to"),
            (np.where(odd, small, frame["score"]), "judge 'j2' never scores above 5"),
            (np.where(odd, frame["score"] > 6, frame["score"]), "judge 'j2' never scores above 1"),
            (np.where(odd, 10, 1) * frame["score"], "the others stop at 10"),
        ):
            warnings = scale_warnings(frame.assign(score=score))
            assert all(message in warning for warning in warnings)
            found += len(warnings)
    assert found >= 70


def test_two_judges_on_one_scale_each_beside_two_on_another():
    frame = panel(np.random.default_rng(1), judges=("a", "b", "c", "d"))
    odd = frame["judge"].isin(["c", "d"])
    small = np.clip(np.rint(frame["score"] / 2), 1, 5)
    (warning,) = scale_warnings(frame.assign(score=np.where(odd, small, frame["score"])))
    assert "each of the judges 'c', 'd'" in warning


@pytest.mark.parametrize("seed", range(20))
def test_a_severe_judge_or_a_poor_backbone_is_no_scale(seed):
    rng = np.random.default_rng(seed)
    frame = panel(rng, spread=0.5)
    severe = np.where(frame["judge"] == "j1", 3, 0)
    assert not scale_warnings(frame.assign(score=np.maximum(frame["score"] - severe, 1)))
    poor = np.where(frame["backbone"] == "1", 4, 0)
    assert not scale_warnings(frame.assign(score=np.maximum(frame["score"] - poor, 1)))


def test_ceilings():
    assert has_ceiling(np.repeat([2, 3, 4, 5], [5, 10, 15, 15]), 5)
    assert not has_ceiling(np.repeat([2, 3, 4, 5], [10, 20, 10, 2]), 5)
    assert not has_ceiling(np.array([1.0, 2.0]), 5)


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_order_of_rows_and_columns_changes_no_problem(data):
    values = st.sampled_from([1, 2, 5, -1, "N/A", "", None, "True", "12"])
    n = data.draw(st.integers(2, 14))
    frame = table(data.draw(st.lists(values, min_size=n, max_size=n)))
    frame["judge"] = data.draw(st.lists(st.sampled_from(["x", "y", None]), min_size=n, max_size=n))
    frame["turn"] = data.draw(st.lists(st.integers(0, 2), min_size=n, max_size=n))
    order = data.draw(st.permutations(range(n)))
    columns = data.draw(st.permutations(list(frame.columns)))
    other = frame.iloc[order][columns]
    relabelled = other.assign(model=other["model"].map({"a": "z", "b": "y"}))

    def summary(source):
        reading = scan(source)
        size = None if reading.scores is None else len(reading.scores)
        return size, sorted((p.severity, p.rows) for p in reading.problems)

    assert summary(frame) == summary(other) == summary(relabelled)


anything = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**20), 10**20),
    st.floats(),
    st.text(max_size=4),
    st.binary(max_size=3),
    st.lists(st.integers(), max_size=2),
    st.sampled_from([1, 2, 5, "a", "b", -1, pd.NA, pd.NaT, np.float64(2), 1e308, -1e308, 10**400]),
)


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_frames_of_anything_are_scanned_or_refused_in_our_words(data):
    n = data.draw(st.integers(1, 12))
    names = ["score", "model", "judge", "item", "epoch", "language", "human_score", "turn"]
    chosen = data.draw(st.lists(st.sampled_from(names), unique=True, min_size=2))
    few = data.draw(st.lists(anything, min_size=1, max_size=3))
    frame = pd.DataFrame(
        {
            name: pd.Series(
                data.draw(st.lists(st.sampled_from(few) | anything, min_size=n, max_size=n)),
                dtype=object,
            )
            for name in {*chosen, "score", "model"}
        }
    )
    try:
        reading = scan(frame, replicates=data.draw(st.booleans()), missing=("-1", "a"))
    except BayesjudgeError as error:
        assert str(error)  # noqa: PT017
        return
    for problem in reading.problems:
        assert str(problem).encode()
    if reading.scores is not None:
        assert np.isfinite(reading.scores.score).all()
        assert len(reading.scores) + reading.scores.n_excluded == n
        for facet in reading.scores.facets:
            assert sorted(set(facet.codes)) == list(range(facet.n_levels))
            assert list(facet.levels) == sorted(facet.levels)
            assert all(type(level) is str for level in facet.levels)


@pytest.mark.parametrize("size", [1e308, 1e-308])
def test_extreme_scores_are_answered(size):
    rng = np.random.default_rng(0)
    frame = panel(rng).assign(score=rng.uniform(0, size, 600))
    assert read_scores(frame).problems == ()


@real
def test_mt_bench_forks():
    path = SHARED / "mt_bench_forks" / "scores.csv"
    (error,) = said(path, "error")
    assert "'turn'" in error
    assert "--facet turn" in error
    assert "5 scores are missing" in said(path, "warning")[0]
    raw = {"score": "score_raw"}
    assert "5 scores are -1" in said(path, "warning", columns=raw)[0]
    scores = read_scores(path, columns=raw, facets="turn", missing="-1")
    assert len(scores) == 2565
    assert scores.n_excluded == 5
    assert dict(scores.mapping)["generation"] == "rep"
    assert scores.facet_names == ("backbone", "judge", "scenario", "generation", "turn")


@real
def test_hanna():
    readings = split_by(SHARED / "hanna" / "llm_judges.csv", "criterion")
    assert len(readings) == 6
    for reading in readings.values():
        assert len(reading.scores) == 5280
        # Failures of parsing leaked into a few scores, some averaged with others.
        assert all("are -1 while all others" in p.what for p in reading.problems)


@real
def test_devai_multilingual():
    path = SHARED / "devai_multilingual" / "verdicts.parquet"
    (error,) = said(path, "error", columns={"backbone": "judge"})
    assert "--facet model --facet requirement" in error
    scores = read_scores(
        path,
        columns={"backbone": "judge", "framework": "model"},
        facets="framework",
        random="requirement",
    )
    assert len(scores) == 52_560


def two_lines_in_words(score, reference, ratio):
    """The two lines of :mod:`bayesjudge.scores.scales`, by EM as it is written in books."""
    residuals = np.stack([score - reference, score - ratio * reference])
    weight = (np.abs(residuals[1]) < np.abs(residuals[0])).astype(float)
    for _ in range(EM_STEPS):
        share = np.array([1 - weight.mean(), weight.mean()])
        each = np.stack([1 - weight, weight])
        offset = (each * residuals).sum(axis=1) / each.sum(axis=1)
        squares = (residuals - offset[:, None]) ** 2
        variance = max(float((each * squares).sum() / score.size), MIN_VARIANCE)
        logs = np.log(share)[:, None] - 0.5 * (squares / variance + np.log(variance))
        total = np.logaddexp(*logs)
        weight = np.exp(logs[1] - total)
    return total.sum(), weight > 0.5


@pytest.mark.parametrize("ratio", [0.5, 0.1])
@pytest.mark.parametrize("halved", [0.3, 0.7])
def test_two_lines_are_found_as_in_words(ratio, halved):
    rng = np.random.default_rng(2)
    reference = rng.normal(7, 1.5, 300)
    score = reference * np.where(rng.random(300) < halved, 0.5, 1.0) + rng.normal(0, 0.4, 300)
    expected, lower = two_lines_in_words(score, reference, ratio)
    found, half = _log_density_of_mixture(score, reference, ratio)
    assert found == pytest.approx(expected, rel=1e-9)
    np.testing.assert_array_equal(half, lower)
