"""SEMJ's metrics against values worked out by hand, by brute force, and by statsmodels."""

from __future__ import annotations

import csv
import itertools
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from statsmodels.stats.inter_rater import aggregate_raters
from statsmodels.stats.inter_rater import fleiss_kappa as reference

from bayesjudge.judges.semj import OTHERS, ROUNDS, TAU, agreement, majority
from bayesjudge.judges.semj_metrics import (
    accuracy,
    accuracy_gain,
    clustered_mean,
    fleiss_kappa,
    flips_and_repairs,
    kappa_gain,
    oracle_curve,
)

T, F, N = 1.0, 0.0, math.nan
VERDICTS = st.sampled_from([T, F, N])


def test_accuracy_by_hand():
    found = accuracy(np.array([T, F, N, T]), np.array([True, True, True, False]))
    assert (found.value, found.n, found.n_missing) == (0.25, 4, 1)
    assert found.of_valid == pytest.approx(1 / 3)
    # Rows 1 0 0 0 about 0.25: sum of squares 0.75; sqrt(4/3 * 0.75) / 4 = 0.25.
    assert found.se == pytest.approx(0.25)


def test_accuracy_of_nothing_and_of_one_item():
    empty = accuracy(np.array([]), np.array([], dtype=bool))
    assert math.isnan(empty.value)
    assert math.isnan(empty.se)
    assert math.isnan(empty.of_valid)
    one = accuracy(np.array([T, T]), np.array([True, False]), np.array([7, 7]))
    assert one.value == 0.5
    assert math.isnan(one.se)


def test_standard_errors_are_clustered_by_item():
    values = np.array([1.0, 1, 0, 0, 1, 1])
    item = np.array([0, 0, 1, 1, 2, 2])
    # Item means 1 0 1: their standard error is sqrt(1/3 / 3) = 1/3.
    assert clustered_mean(values, item) == (pytest.approx(2 / 3), pytest.approx(1 / 3))
    assert clustered_mean(values)[1] < 1 / 3


def test_a_gain_is_paired():
    truth = np.array([True, True, False, False])
    found = accuracy_gain(np.array([T, T, F, N]), np.array([T, F, T, T]), truth)
    # Right 1 1 1 0 against 1 0 0 0: differences 0 1 1 0.
    assert found.value == 0.5
    assert found.se == pytest.approx(np.std([0, 1, 1, 0], ddof=1) / 2)
    assert found.n_missing == 1


def test_fleiss_kappa_by_hand():
    # Two items of three verdicts: 3 of 3, and 1 of 3. P = 1, 1/3; mean 2/3.
    # Positive share (1 + 1/3)/2 = 2/3; expected 4/9 + 1/9 = 5/9. kappa = (2/3 - 5/9)/(4/9) = 1/4.
    found = fleiss_kappa(np.array([[T, T, T], [T, F, F]]))
    assert found.value == pytest.approx(0.25)
    assert (found.n_items, found.n_left_out) == (2, 0)


def test_fleiss_kappa_with_missing_verdicts_by_hand():
    # Item 1: 2 of 2 (P = 1, share 1); item 2: 1 of 3 (P = 1/3, share 1/3); the others have
    # one verdict or none. As above.
    found = fleiss_kappa(np.array([[T, N, T], [T, F, F], [N, N, F], [N, N, N]]))
    assert found.value == pytest.approx(0.25)
    assert (found.n_items, found.n_left_out) == (2, 2)


@pytest.mark.parametrize(
    ("table", "reason"),
    [
        ([[T, T, T], [T, T, N]], "all verdicts are the same"),
        ([[F, F], [F, F]], "all verdicts are the same"),
        ([[T, N], [N, F]], "no item has two valid verdicts"),
        ([[N, N]], "no item has two valid verdicts"),
    ],
)
def test_kappa_is_undefined_where_nothing_can_disagree(table, reason):
    found = fleiss_kappa(np.array(table))
    assert math.isnan(found.value)
    assert found.reason == reason


def test_kappa_of_perfect_and_of_contrary_verdicts():
    assert fleiss_kappa(np.array([[T, T], [F, F]])).value == 1
    assert fleiss_kappa(np.array([[T, F], [F, T]])).value == -1


@given(
    arrays(
        float, st.tuples(st.integers(2, 8), st.integers(2, 6)), elements=st.sampled_from([0.0, 1])
    )
)
def test_kappa_without_gaps_is_statsmodels(table):
    found = fleiss_kappa(table)
    if len(np.unique(table)) < 2:
        assert math.isnan(found.value)
        return
    counts, _ = aggregate_raters(table.astype(int))
    assert found.value == pytest.approx(reference(counts), abs=1e-9)


@given(arrays(float, st.tuples(st.integers(1, 8), st.integers(2, 6)), elements=VERDICTS))
def test_kappa_does_not_depend_on_order_or_on_names_of_verdicts(table):
    found = fleiss_kappa(table).value
    for other in (table[::-1], table[:, ::-1], 1 - table):
        assert fleiss_kappa(other).value == pytest.approx(found, nan_ok=True, abs=1e-9)
    assert math.isnan(found) or -1 - 1e-9 <= found <= 1 + 1e-9


def test_the_jackknife_error_of_kappa_is_that_of_many_tables():
    rng = np.random.default_rng(0)
    values, errors = [], []
    for _ in range(400):
        common = rng.normal(size=(80, 1))
        table = (common + rng.normal(size=(80, 5)) > 0.3).astype(float)
        table[rng.random(table.shape) < 0.1] = np.nan
        found = fleiss_kappa(table)
        values.append(found.value)
        errors.append(found.se)
    # The sd of 400 values is known to 1/sqrt(800) = 3.5 %; four of these.
    assert np.mean(errors) == pytest.approx(np.std(values, ddof=1), rel=0.14)


def test_a_gain_of_kappa_is_paired():
    rng = np.random.default_rng(1)
    table = (rng.normal(size=(60, 1)) + rng.normal(size=(60, 4)) > 0).astype(float)
    other = table.copy()
    other[:5, 0] = 1 - other[:5, 0]
    found = kappa_gain(table, other)
    assert found.value == pytest.approx(fleiss_kappa(table).value - fleiss_kappa(other).value)
    # Most items are the same in both and say nothing of the difference.
    assert found.se < 0.5 * fleiss_kappa(table).se
    same = kappa_gain(table, table)
    assert (same.value, same.se) == (0, 0)
    other[0] = np.nan
    assert (kappa_gain(table, other).n_items, kappa_gain(table, other).n_left_out) == (59, 1)


def test_the_oracle_by_hand():
    # Own wrong; of three others one is right: 1/3, 2/3, 1. Own right: 1 always.
    verdicts = np.array([[F, T, F, F], [T, F, F, F]])
    truth = np.array([True, True])
    found = oracle_curve(verdicts, np.array([0, 0]), truth)
    assert found.oracle == pytest.approx([1 / 2, (1 / 3 + 1) / 2, (2 / 3 + 1) / 2, 1])
    # Votes: row 1 is never a majority; row 2 wins alone and in a tie of two (own decides).
    assert found.vote == pytest.approx([1 / 2, 1 / 2, 0, 0])


@given(
    arrays(float, st.tuples(st.integers(1, 4), st.integers(1, 5)), elements=VERDICTS),
    st.data(),
)
def test_oracle_and_vote_are_means_over_all_panels(verdicts, data):
    n, languages = verdicts.shape
    own = np.array([data.draw(st.integers(0, languages - 1)) for _ in range(n)])
    truth = np.array([data.draw(st.booleans()) for _ in range(n)])
    found = oracle_curve(verdicts, own, truth)
    as_bool = [[None if math.isnan(v) else bool(v) for v in row] for row in verdicts]
    for k in range(languages):
        oracles, votes = [], []
        for row, mine, true in zip(as_bool, own, truth, strict=True):
            others = [at for at in range(languages) if at != mine]
            panels = [
                [row[mine], *(row[at] for at in chosen)]
                for chosen in itertools.combinations(others, k)
            ]
            oracles.append(np.mean([bool(true) in panel for panel in panels]))
            votes.append(np.mean([majority(panel) is bool(true) for panel in panels]))
        assert found.oracle[k] == pytest.approx(np.mean(oracles))
        assert found.vote[k] == pytest.approx(np.mean(votes))
    assert (np.diff(found.oracle) >= -1e-12).all()


def test_flips_and_repairs_by_hand():
    before = np.array([[T, T, T, T, F], [T, T, F, F, F], [T, T, T, T, T]])
    after = np.array([[T, T, T, T, T], [T, F, T, F, N], [T, T, T, T, T]])
    agreed = np.array([agreement([bool(v) for v in row]) for row in before])
    truth = np.array([True, True, False])
    high, middle, low, lowest = flips_and_repairs(before, after, agreed, truth)
    assert [(b.above, b.up_to) for b in (high, low)] == [(0.75, 1), (0.25, 0.5)]
    assert (high.n, high.flip_rate, high.repaired_of_wrong) == (5, 0, 0)
    assert (middle.n, middle.flip_rate, middle.repair_rate, middle.spoil_rate) == (5, 0.2, 0.2, 0)
    assert middle.repaired_of_wrong == 1
    assert (low.n, low.n_missing) == (4, 1)
    assert (low.flip_rate, low.repair_rate, low.spoil_rate) == (0.5, 0.25, 0.25)
    assert low.repaired_of_wrong == 0.5
    assert lowest.n == 0
    assert math.isnan(lowest.flip_rate)


def test_buckets_hold_every_agreement_once():
    values = np.array([0, 0.25, 1 / 3, 0.4, 0.5, 0.6, 0.75, 1, math.nan])
    ones = np.ones((len(values), 2))
    found = flips_and_repairs(ones, ones, values, np.ones(len(values), dtype=bool))
    assert [bucket.n // 2 for bucket in found] == [1, 2, 3, 2]


def test_the_papers_buckets_hold_one_value_each_of_five_verdicts_and_none_of_four():
    rows = golden("table3_flip_repair")
    buckets = [(float(row["consistency_to"]), float(row["consistency_from"])) for row in rows]
    assert buckets == [(0.75, 1), (0.5, 0.75), (0.25, 0.5)]
    for n, expected in ((5, [1, 1, 1]), (4, [1, 0, 2])):
        values = {agreement(v) for v in itertools.product([True, False], repeat=n)}
        assert [sum(low < v <= high for v in values) for low, high in buckets] == expected


def golden(name):
    path = Path(__file__).parent / "golden" / "semj" / f"{name}.csv"
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_the_defaults_are_the_setting_that_the_papers_tables_share():
    (semj,) = [
        row["accuracy"]
        for row in golden("table1_main")
        if (row["dataset"], row["method"]) == ("xcopa", "semj")
    ]
    by_k = {int(row["k"]): row["accuracy"] for row in golden("table5_k")}
    by_rounds = {int(row["rounds"]): row["accuracy"] for row in golden("table7_rounds")}
    assert by_k[OTHERS] == by_rounds[ROUNDS] == semj
    by_tau = {float(row["tau"]): float(row["accuracy"]) for row in golden("table9_tau")}
    assert max(by_tau, key=by_tau.__getitem__) == TAU
    # One round is better than none: s counts the rounds after the first judgment.
    (base,) = [
        row["accuracy"]
        for row in golden("table1_main")
        if (row["dataset"], row["method"]) == ("xcopa", "base_judge")
    ]
    assert float(by_rounds[1]) > float(base) + 3


@given(
    arrays(float, (4, 3), elements=VERDICTS),
    arrays(float, (4, 3), elements=VERDICTS),
    arrays(bool, 4),
)
def test_repairs_and_spoils_are_all_flips(before, after, truth):
    agreed = np.array([0.2, 0.4, 0.6, 1.0])
    for bucket in flips_and_repairs(before, after, agreed, truth):
        if bucket.n:
            assert bucket.flip_rate == pytest.approx(bucket.repair_rate + bucket.spoil_rate)
        assert bucket.n + bucket.n_missing == 3
