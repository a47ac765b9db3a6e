"""Tables of battles: which columns they are told by, and what winners mean."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from bayesjudge.cli.app import app
from bayesjudge.errors import DataError, UsageError
from bayesjudge.scores import read_scores, scan, split_by
from bayesjudge.scores.battles import battle_columns, sides_of

A, B, T = 1.0, 0.0, 0.5


def battles(winners, first=("x", "y", "x", "z"), second=("y", "x", "z", "x"), **more):
    return pd.DataFrame({"model_a": first, "model_b": second, "winner": winners, **more})


@pytest.mark.parametrize(
    "winners",
    [
        ("model_a", "model_b", "tie", "model_a"),
        ("a", "b", "tie", "A"),
        ("A", "B", "C", "A"),
        ("[[A]]", "[[B]]", "[[C]]", "[[A]]"),
        ("1", "2", "tie", "1"),
        (1, 2, 1.5, 1),
        ("model_1", "model_2", "draw", "model_1"),
        ("Model A", "model-b", "tie (bothbad)", "model_a"),
        ("first", "second", "both", "first"),
        ("Assistant A", "Assistant B", "tie", "assistant_a"),
        ("left", "right", "bothbad", "left"),
        ("x", "x", "tie", "z"),
    ],
)
def test_winners_are_read_as_people_write_them(winners):
    scores = read_scores(battles(winners))
    assert scores.score.tolist() == [A, B, T, A]
    assert scores.levels("backbone") == ("x", "y", "z")
    assert scores.codes("backbone").tolist() == [0, 1, 0, 2]
    assert scores.opponent.tolist() == [1, 0, 2, 0]
    assert dict(scores.mapping)["opponent"] == "model_b"


@pytest.mark.parametrize(
    ("first", "second", "winner"),
    [
        ("model_a", "model_b", "winner"),
        ("generator_1", "generator_2", "preference"),
        ("Model 1", "Model 2", "Winner"),
        ("model1", "model2", "outcome"),
        ("system_left", "system_right", "preferred"),
        ("first_model", "second_model", "verdict"),
        ("player_a", "player_b", "score"),
    ],
)
def test_columns_are_told_by_their_names(first, second, winner):
    found = battle_columns(("id", first, second, winner), {})
    assert (found.first, found.second, found.winner) == (first, second, winner)
    assert battle_columns(("id", first, winner), {}) is None
    assert battle_columns((first, second), {}) is None


def test_columns_that_the_user_names_win():
    frame = battles(("a", "b", "tie", "a")).rename(
        columns={"model_a": "one", "model_b": "two", "winner": "who"}
    )
    named = {"backbone": "one", "opponent": "two", "score": "who"}
    assert read_scores(frame, columns=named).score.tolist() == [A, B, T, A]
    with pytest.raises(UsageError, match="no role"):
        read_scores(frame, columns={**named, "rival": "two"})
    # An ordinary table that happens to have such a column.
    ordinary = pd.DataFrame({"model": ["x", "y"] * 4, "score": range(8), "opponent": ["y"] * 8})
    assert read_scores(ordinary, replicates=True).opponent is None


def test_convert_leaves_winners_as_they_are(tmp_path):
    path, out = tmp_path / "battles.csv", tmp_path / "out.csv"
    frame = battles(("a", "b", "tie", "a"))
    frame.to_csv(path, index=False)
    assert CliRunner().invoke(app, ["convert", str(path), "--out", str(out)]).exit_code == 0
    pd.testing.assert_frame_equal(pd.read_csv(out), frame)


def test_scores_beside_the_winner_are_left_alone():
    frame = battles(("a", "b", "tie", "a"), score_a=[7, 3, 5, 9], score_b=[5, 4, 5, 2])
    scores = read_scores(frame)
    assert scores.score.tolist() == [A, B, T, A]


def test_numbers_of_nought_and_one_are_asked_about():
    frame = battles((1, 0, 1, 0))
    with pytest.raises(DataError, match="could be what the first model gained"):
        read_scores(frame)
    found = read_scores(frame, columns={"score": "winner"})
    assert found.score.tolist() == [A, B, A, B]
    points = battles((1, 0, 0.5, 1)).rename(columns={"winner": "score"})
    assert read_scores(points).score.tolist() == [A, B, T, A]


def test_what_is_no_outcome_is_counted_and_named():
    frame = battles(("a", "b", "w", "0"), question_id=[1, 2, 3, 4])
    found = scan(frame)
    assert len(found.scores) == 2
    assert found.scores.n_excluded == 2
    assert any("'w'" in p.what and p.rows == 2 for p in found.problems)
    # A model that was not in the battle did not win it.
    named = scan(battles(("x", "x", "x", "y")))
    assert named.scores.score.tolist() == [A, B, A]
    with pytest.raises(DataError):
        read_scores(frame, strict=True)


def test_one_odd_winner_does_not_spoil_the_names():
    found = scan(battles(("x", "x", "tie", "error")))
    assert found.scores.score.tolist() == [A, B, T]
    assert found.scores.n_excluded == 1


def test_names_of_models_go_before_sides():
    frame = battles(("A", "A", "tie", "B"), ("A", "B", "A", "B"), ("B", "A", "B", "A"))
    assert read_scores(frame).score.tolist() == [A, B, T, A]


def test_battles_are_tallied_and_models_that_never_met_are_refused():
    found = scan(battles(("a", "b", "tie", "a"), ("x", "y", "x", "x"), ("y", "x", "z", "x")))
    assert any(
        "4 battles: 2 won by the first, 1 by the second, 1 tied; 1 of a model with itself" in p.what
        for p in found.problems
    )
    warned = [p for p in found.problems if p.severity == "warning"]
    assert any("for the priors to say: 'x', 'z'; 'y'" in p.what for p in warned)
    apart = battles(("a", "b", "tie", "a"), ("x", "y", "v", "w"), ("y", "x", "w", "v"))
    with pytest.raises(DataError, match="2 groups that never met"):
        read_scores(apart)


def test_the_same_battle_twice_needs_replicates_where_scenarios_are_told_apart():
    frame = battles(
        ("a", "a", "b", "b"), ("x",) * 4, ("y", "z") * 2, question_id=[1, 1, 1, 1], judge=["j"] * 4
    )
    with pytest.raises(DataError, match="more than one score"):
        read_scores(frame)
    assert len(read_scores(frame, replicates=True)) == 4
    # Turned round it is another battle.
    turned = battles(("a", "a"), ("x", "y"), ("y", "x"), question_id=[1, 1])
    assert len(read_scores(turned)) == 2
    assert len(read_scores(frame.drop(columns="question_id"))) == 4


def test_either_side_has_its_share():
    scores = read_scores(battles(("a", "b", "tie", "a"), judge=["j", "k", "j", "k"]))
    both = sides_of(scores)
    assert len(both) == 8
    assert both.codes("backbone").tolist() == [0, 1, 0, 2, 1, 0, 2, 0]
    np.testing.assert_array_equal(both.score, [A, B, T, A, B, A, T, B])
    assert both.codes("judge").tolist() == [0, 1, 0, 1] * 2
    with pytest.raises(ValueError, match="no battles"):
        sides_of(both)


def test_one_table_a_label():
    frame = battles(
        ("a", "b", "tie", "a") * 2,
        ("x", "y", "x", "z") * 2,
        ("y", "x", "z", "x") * 2,
        task=["t"] * 4 + ["u"] * 4,
    )
    found = split_by(frame.rename(columns={"task": "topic"}), "topic")
    assert [r.require().score.tolist() for r in found.values()] == [[A, B, T, A]] * 2


def test_battles_survive_filters_files_and_rows_without_a_model(tmp_path):
    frame = battles(("a", "b", "tie", "a"), second=("y", "x", None, "x"), judge=list("jkjk"))
    path = tmp_path / "battles.csv"
    frame.to_csv(path, index=False)
    assert read_scores(path, where={"judge": "k"}).score.tolist() == [B, A]
    kept = read_scores(frame)
    assert kept.score.tolist() == [A, B, A]
    assert kept.n_excluded == 1


@given(st.lists(st.sampled_from(["a", "b", "tie"]), min_size=4, max_size=4), st.booleans())
def test_turning_every_battle_round_turns_scores_round(winners, swap):
    frame = battles(winners)
    turned = frame.rename(columns={"model_a": "model_b", "model_b": "model_a"})
    turned["winner"] = frame["winner"].map({"a": "b", "b": "a", "tie": "tie"})
    one, other = scan(frame), scan(turned)
    assert (one.scores is None) == (other.scores is None)
    if one.scores is not None:
        np.testing.assert_array_equal(one.scores.score, 1 - other.scores.score)
        np.testing.assert_array_equal(one.scores.opponent, other.scores.codes("backbone"))
