"""Assignments: balance, shuffling, extension, and that rank reads what comes of them."""

from __future__ import annotations

import time

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import bayesjudge as bj
from bayesjudge.assignment import COLUMNS, assign
from bayesjudge.errors import DataError, UsageError
from bayesjudge.planning.rotating import rotation, spread

BACKBONES = ["amber", "birch", "cedar"]
JUDGES = ["j1", "j2", "j3", "j4", "j5"]


def names(n):
    return [f"s{i}" for i in range(n)]


def counts_of(table, *by):
    return table.groupby(list(by)).size()


def cross(table, rows, columns):
    return pd.crosstab(table[rows], table[columns])


def test_single_generations_go_over_scenarios():
    table = assign(names(40), BACKBONES, JUDGES).table
    assert tuple(table.columns) == COLUMNS
    assert len(table) == 120
    assert set(counts_of(table, "backbone", "judge")) == {8}
    # The same judge scores a scenario for every backbone.
    assert table.groupby("scenario")["judge"].nunique().max() == 1
    assert set(table["score"]) == {""}


def test_rounds_of_generations_have_each_judge_once_and_in_no_fixed_place():
    table = assign(names(20), BACKBONES, JUDGES, generations=5).table
    assert set(counts_of(table, "scenario", "backbone", "judge")) == {1}
    assert set(counts_of(table, "generation", "judge")) == {12}


@pytest.mark.parametrize("generations", [2, 3, 4, 7])
def test_incomplete_rounds_start_elsewhere_in_each_scenario(generations):
    table = assign(names(25), BACKBONES, JUDGES, generations=generations).table
    by_judge = counts_of(table, "backbone", "judge")
    assert by_judge.max() - by_judge.min() <= 1
    one = table[table["backbone"] == "amber"]
    within = cross(one, "scenario", "judge")
    assert (within.max(axis=1) - within.min(axis=1) <= 1).all()
    first = one[one["generation"] == "1"]["judge"]
    assert first.nunique() == len(JUDGES)


def test_every_beginning_is_balanced():
    table = assign(names(33), ["amber", "birch"], JUDGES, generations=2).table
    for scenarios in (3, 8, 20, 33):
        part = table.iloc[: scenarios * 4]
        by_judge = cross(part, "backbone", "judge").to_numpy()
        assert by_judge.max() - by_judge.min() <= 1


def test_turns_follow_no_order_of_the_list():
    """A list sorted by category with a period of the panel's size: the worst for a rotation.

    Chi-squared of judge by category over 40 seeds; the p-values of independent assignments
    are at least uniform (balance makes them larger). The smallest of 40 is below 1e-4 with
    probability 0.004 at most.
    """
    scenarios = names(200)
    periodic = {s: i % 5 for i, s in enumerate(scenarios)}
    blocks = {s: i // 40 for i, s in enumerate(scenarios)}
    smallest = 1.0
    for seed in range(40):
        table = assign(scenarios, ["amber", "birch"], JUDGES, random_seed=seed).table
        one = table[table["backbone"] == "amber"]
        for latent in (periodic, blocks):
            cells = pd.crosstab(one["judge"], one["scenario"].map(latent))
            smallest = min(smallest, stats.chi2_contingency(cells).pvalue)
    assert smallest > 1e-4


def test_a_seed_fixes_everything():
    first, again = (assign(names(9), BACKBONES, JUDGES, random_seed=4).table for _ in range(2))
    assert first.equals(again)
    assert not first.equals(assign(names(9), BACKBONES, JUDGES, random_seed=5).table)


settings_drawn = st.fixed_dictionaries(
    {
        "generations": st.integers(1, 6),
        "per_generation": st.integers(1, 4),
        "random_seed": st.integers(0, 3),
        "no_self": st.booleans(),
    }
)


@settings(max_examples=40)
@given(settings_drawn, st.integers(1, 13), st.integers(1, 9))
def test_scenarios_are_added_without_changing_a_row(given_, n_old, n_new):
    judges = ["amber", "j2", "j3", "j4"]
    first = assign(names(n_old), BACKBONES, judges, **given_)
    more = [f"t{i}" for i in range(n_new)]
    longer = assign(more, BACKBONES, judges, **given_, existing=first.table)
    assert set(longer.table["scenario"]) == set(more)
    both = pd.concat([first.table, longer.table], ignore_index=True)
    assert not both.duplicated(["scenario", "generation", "backbone", "judge"]).any()
    whole = assign(names(n_old + n_new), BACKBONES, judges, **given_)
    assert longer.counts.equals(whole.counts)
    counts = cross(both, "backbone", "judge").reindex(columns=judges, fill_value=0)
    for backbone, row in counts.iterrows():
        own = given_["no_self"] and backbone == "amber"
        used = row.drop("amber") if own else row
        if own:
            assert row["amber"] == 0
        # Turns are the same for all backbones: with two judges a generation and an odd number
        # of those, who is free when amber's own turn comes may have scored more already.
        assert used.max() - used.min() <= (3 if given_["no_self"] else 1)
    assert longer.counts.set_index("backbone").to_numpy().sum() == len(both)


def test_shares_are_kept_and_extended():
    shares = {"j1": 6, "j2": 2, "j3": 4}
    first = assign(names(12), BACKBONES, ["j1", "j2", "j3"], shares=shares)
    found = cross(first.table, "backbone", "judge").loc["amber"]
    assert found.to_dict() == {"j1": 6, "j2": 2, "j3": 4}
    longer = assign(
        [f"t{i}" for i in range(6)], BACKBONES, ["j1", "j2", "j3"], shares=shares,
        existing=first.table,
    )  # fmt: skip
    assert longer.counts.iloc[0, 1:].tolist() == [9, 3, 6]


def test_no_judge_scores_its_own():
    judges = ["amber", "own-of-birch", "j3", "j4"]
    found = assign(names(60), BACKBONES, judges, no_self=True, own={"own-of-birch": "birch"})
    assert found.self_cells == (("amber", "amber"), ("birch", "own-of-birch"))
    counts = found.counts.set_index("backbone")
    assert counts.loc["amber"].tolist() == [0, 20, 20, 20]
    assert counts.loc["birch"].tolist() == [20, 0, 20, 20]
    assert counts.loc["cedar"].tolist() == [15, 15, 15, 15]
    assert found.connected
    # Where it is nobody's own turn, all backbones share the judge.
    shared = found.table.groupby("scenario")["judge"].nunique()
    assert (shared == 1).mean() == pytest.approx(0.5)


def test_what_is_said_of_balance_is_about_judges_who_score_the_backbone():
    found = assign(names(60), BACKBONES, ["amber", "j2", "j3", "j4"], no_self=True)
    assert found.counts.set_index("backbone").loc["amber", "amber"] == 0
    assert "judges who score a backbone differ by 0 calls for it at most" in found.notes


def test_shares_of_large_numbers_are_those_of_their_ratio():
    large = assign(names(8), BACKBONES, ["j1", "j2"], shares={"j1": 3 * 10**30, "j2": 10**30})
    small = assign(names(8), BACKBONES, ["j1", "j2"], shares={"j1": 3, "j2": 1})
    assert large.table.equals(small.table)


def test_all_judges_but_its_own():
    found = assign(names(5), BACKBONES, ["amber", "j2", "j3"], per_generation=3, no_self=True)
    assert found.counts.set_index("backbone").loc["amber"].tolist() == [0, 5, 5]
    assert len(found.table) == 5 * (3 + 3 + 2)


def test_judges_who_score_nothing_in_common_are_said():
    found = assign(names(6), ["amber", "birch"], ["amber", "birch"], no_self=True)
    assert not found.connected
    assert assign(names(6), ["amber", "birch"], ["amber", "birch"]).connected


def test_half_a_million_assignments_take_under_two_seconds():
    """Of processor time, the CSV's text included."""
    start = time.process_time()
    found = assign(names(20_000), ["a", "b", "c", "d", "e"], JUDGES, generations=5)
    text = found.table.to_csv(index=False)
    assert time.process_time() - start < 2.0
    assert len(found.table) == 500_000
    assert text.count("\n") == 500_001


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"generations": 0}, "generations"),
        ({"generations": 1.5}, "generations is 1.5"),
        ({"generations": 10**9}, "calls are too many"),
        ({"random_seed": 1.5}, "seed is 1.5"),
        ({"per_generation": 1.5}, "1.5 judges a generation"),
        ({"scenarios": "abc"}, "the scenarios are 'abc'"),
        ({"scenarios": 3}, "the scenarios are 3"),
        ({"judges": "j1"}, "the judges are 'j1'"),
        ({"shares": dict.fromkeys(JUDGES, 1) | {"j1": 1.0}}, "whole number"),
        ({"shares": dict.fromkeys(JUDGES, 1) | {"j1": 10**30}}, "too long a round"),
        ({"random_seed": -1}, "seed"),
        ({"per_generation": 6}, "6 judges a generation"),
        ({"shares": {"j1": 1}}, "one share for each"),
        ({"shares": dict.fromkeys(JUDGES, 0)}, "whole number"),
        ({"shares": dict.fromkeys(JUDGES, 1), "per_generation": 2}, "one judge a generation"),
        ({"no_self": True}, "no judge bears the name"),
        ({"own": {"nobody": "amber"}}, "not there"),
        ({"own": {"j1": "amber"}, "judges": ["j1"]}, "without a judge"),
        ({"own": {"j1": "amber", "j2": "amber"}}, "two judges"),
        ({"judges": ["j1", "j1"]}, "named twice"),
        ({"backbones": []}, "no backbones"),
    ],
)
def test_what_cannot_be_assigned_is_refused(changes, message):
    given_ = {"scenarios": names(3), "backbones": BACKBONES, "judges": JUDGES} | changes
    with pytest.raises(UsageError, match=message):
        assign(**given_)


def test_an_assignment_made_otherwise_is_not_extended():
    first = assign(names(5), BACKBONES, JUDGES).table
    with pytest.raises(DataError, match="other settings"):
        assign(["new"], BACKBONES, JUDGES, random_seed=9, existing=first)
    with pytest.raises(DataError, match="other settings"):
        assign(["new"], BACKBONES, JUDGES, existing=first.iloc[:-1])
    with pytest.raises(UsageError, match="there already"):
        assign(["s1"], BACKBONES, JUDGES, existing=first)


@given(st.lists(st.integers(1, 9), min_size=1, max_size=6))
def test_a_spread_has_what_was_asked_for_evenly(counts):
    sequence = spread(np.array(counts))
    assert np.bincount(sequence, minlength=len(counts)).tolist() == counts
    total = sum(counts)
    for code, count in enumerate(counts):
        seen = np.cumsum(sequence == code)
        even = count * np.arange(1, total + 1) / total
        assert np.abs(seen - even).max() <= len(counts) / 2 + 0.5


@given(st.integers(1, 30), st.integers(1, 6), st.integers(1, 6), st.integers(1, 6))
def test_a_rotation_never_repeats_a_judge_on_one_generation(n, m, q, k):
    q = min(q, k)
    turns = rotation(n, m, q, k)
    assert turns.shape == (n, m, q)
    ordered = np.sort(turns, axis=2)
    assert (np.diff(ordered, axis=2) > 0).all()
    assert np.array_equal(rotation(n, m, q, k, first=3), rotation(n + 3, m, q, k)[3:])


# CyclicJudge's Table 1 (a): MT-Bench, backbones by judges.
TABLE_1 = pd.DataFrame(
    [
        [8.02, 8.98, 8.20, 9.88, 8.68],
        [7.91, 8.81, 8.67, 9.71, 8.49],
        [7.96, 9.06, 7.91, 9.62, 8.52],
        [7.87, 8.71, 6.90, 8.58, 7.26],
        [8.02, 8.39, 6.09, 7.16, 5.99],
    ],
    index=["gemini", "gpt", "claude", "llama", "qwen"],
    columns=["qwen", "llama", "gpt", "gemini", "claude"],
)


@pytest.fixture(scope="module")
def followed():
    """A table made by following an assignment without self-judging, on Table 1's means."""
    order = list(TABLE_1.index)
    table = assign(names(60), order, list(TABLE_1.columns), generations=2, no_self=True).table
    rng = np.random.default_rng(3)
    difficulty = dict(zip(names(60), 0.3 * rng.standard_normal(60), strict=True))
    table["score"] = (
        [TABLE_1.loc[b, j] for b, j in zip(table["backbone"], table["judge"], strict=True)]
        + table["scenario"].map(difficulty)
        + 0.05 * rng.standard_normal(len(table))
    )
    return table


def test_means_without_self_scores_reverse_ranks_and_additive_ones_do_not(followed):
    """STATISTICS 7: left out of plain means, a lenient judge's own backbone loses by it."""
    naive = followed.groupby(["backbone", "judge"])["score"].mean().groupby("backbone").mean()
    assert TABLE_1.mean(axis=1).idxmax() == "gemini"
    assert naive["gpt"] > naive["gemini"] + 0.2
    fit = bj.fit(bj.read_scores(followed), "crossed_common", draws=250, tune=250)
    board = fit.leaderboard().set_index("backbone")["mean"]
    assert board.idxmax() == "gemini"
    # Additive least squares of the means without the diagonal, in closed form.
    seen = np.array([[b != j for j in TABLE_1.columns] for b in TABLE_1.index])
    rows, columns = np.nonzero(seen)
    design = np.zeros((len(rows), 10))
    design[np.arange(len(rows)), rows] = 1
    design[np.arange(len(rows)), 5 + columns] = 1
    found = np.linalg.lstsq(design, TABLE_1.to_numpy()[seen], rcond=None)[0]
    additive = pd.Series(found[:5] + found[5:].mean(), TABLE_1.index)
    assert additive.idxmax() == "gemini"
    # Shrinkage and noise move the posterior means by less than judges differ.
    assert np.abs(board[additive.index] - additive).max() < 0.15


def test_self_cells_are_said_to_be_extrapolated(followed):
    said = [p for p in bj.read_scores(followed).problems if "extrapolate" in p.what]
    assert len(said) == 1
    assert "5 of 25" in said[0].what
    assert "'gemini' for 'gemini'" in said[0].what
    whole = assign(names(5), BACKBONES, JUDGES).table.assign(score=1.0)
    assert not [p for p in bj.read_scores(whole).problems if "extrapolate" in p.what]
