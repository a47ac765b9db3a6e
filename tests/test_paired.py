"""Paired differences, against a slow twin that reads like the definition."""

from __future__ import annotations

import math
from statistics import fmean, stdev

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayesjudge.closed_form.paired import PairedDifference, paired_differences, se_ratio_findings
from bayesjudge.errors import DataError


def slow_paired(score, backbone, scenario, cell, pair):
    a, b = pair
    rows = list(zip(score, backbone, scenario, cell, strict=True))
    per_scenario = []
    for s in sorted(set(scenario)):
        per_cell = []
        for c in sorted(set(cell)):
            mine = [y for y, who, where, which in rows if (who, where, which) == (a, s, c)]
            theirs = [y for y, who, where, which in rows if (who, where, which) == (b, s, c)]
            if mine and theirs:
                per_cell.append(fmean(mine) - fmean(theirs))
        if per_cell:
            per_scenario.append(fmean(per_cell))
    n = len(per_scenario)
    estimate = fmean(per_scenario) if n else math.nan
    return estimate, stdev(per_scenario) / math.sqrt(n) if n > 1 else math.nan, n


row = st.tuples(
    st.integers(0, 40).map(lambda n: n / 8), st.integers(0, 2), st.integers(0, 3), st.integers(0, 2)
)
PAIRS = [(0, 1), (1, 0), (1, 2), (2, 2)]


@settings(deadline=None)
@given(st.lists(row, min_size=1, max_size=60))
def test_is_that_of_the_definition(rows):
    score, backbone, scenario, cell = (list(column) for column in zip(*rows, strict=True))
    # Sparse and huge codes, as long as they are codes, make no difference.
    far = [s * 2**60 for s in scenario]
    for where in (scenario, far):
        fast = paired_differences(score, backbone, where, cell, 3, PAIRS)
        for at, pair in enumerate(PAIRS):
            estimate, se, n = slow_paired(score, backbone, scenario, cell, pair)
            np.testing.assert_allclose(fast.estimate[at], estimate, atol=1e-12)
            np.testing.assert_allclose(fast.se[at], se, atol=1e-12)
            assert fast.n_scenarios[at] == n


def test_without_scenarios_everything_is_null():
    result = paired_differences([1.0, 2.0], [0, 1], None, None, 2, [(0, 1)])
    assert np.isnan(result.estimate).all()
    assert np.isnan(result.se).all()
    assert list(result.n_scenarios) == [0]


def test_without_cells_a_scenario_is_one_cell():
    result = paired_differences([1.0, 2.0, 5.0, 3.0], [0, 1, 0, 1], [0, 0, 1, 1], None, 2, [(0, 1)])
    assert result.estimate[0] == 0.5
    assert result.se[0] == pytest.approx(1.5)


def test_one_shared_scenario_gives_an_estimate_without_a_standard_error():
    result = paired_differences([1.0, 2.0, 3.0], [0, 1, 0], [0, 0, 1], [0, 0, 0], 2, [(0, 1)])
    assert result.estimate[0] == -1
    assert np.isnan(result.se[0])


def test_the_standard_error_covers_scenarios_that_differ_between_backbones():
    """Only scenario:backbone effects: the se is their sd over the root of n."""
    rng = np.random.default_rng(6)
    ratios = []
    for _ in range(60):
        effect = rng.normal(0, 1, size=(50, 2))
        scenario, backbone, judge = (
            axis.ravel() for axis in np.meshgrid(range(50), range(2), range(4), indexing="ij")
        )
        result = paired_differences(
            effect[scenario, backbone], backbone, scenario, judge, 2, [(0, 1)]
        )
        ratios.append(result.se[0] / math.sqrt(2 / 50))
    assert fmean(ratios) == pytest.approx(1, abs=0.05)


def test_empty_tables_and_no_pairs():
    empty = np.empty(0, dtype=int)
    result = paired_differences(np.empty(0), empty, empty, empty, 2, [(0, 1)])
    assert np.isnan(result.estimate[0])
    assert paired_differences([1.0], [0], [0], [0], 1, []).se.size == 0


def test_a_million_rows_and_a_hundred_backbones():
    rng = np.random.default_rng(7)
    scenario, backbone, judge = (
        axis.ravel() for axis in np.meshgrid(range(2000), range(100), range(5), indexing="ij")
    )
    score = rng.normal(size=scenario.size)
    pairs = np.column_stack([np.arange(99), np.arange(1, 100)])
    result = paired_differences(score, backbone, scenario, judge, 100, pairs)
    assert list(result.n_scenarios) == [2000] * 99
    np.testing.assert_allclose(result.se, math.sqrt(2 / 5 / 2000), rtol=0.1)


@pytest.mark.parametrize(
    ("backbone", "scenario", "pairs", "message"),
    [
        ([0, 1], [0], [(0, 1)], "length"),
        ([0, -1], [0, 0], [(0, 1)], "negative"),
        ([0, 1], [0, -1], [(0, 1)], "scenario code is negative"),
        ([0, 2], [0, 0], [(0, 1)], "backbone code is outside"),
        ([0, 1], [0, 0], [(0, 2)], "pair code is outside"),
    ],
)
def test_refuses_codes_that_are_none(backbone, scenario, pairs, message):
    with pytest.raises(DataError, match=message):
        paired_differences([1.0, 2.0], backbone, scenario, [0] * len(scenario), 2, pairs)


def test_findings_name_what_is_out_of_line():
    se = np.array([1.0, 1.0, 1.0, np.nan, 0.0, 0.0])
    paired = PairedDifference(np.zeros(6), se, np.full(6, 400))
    pairs = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 6)]
    found = se_ratio_findings([0.5, 1.0, 1.3, 7.0, 0.0, 2.0], paired, pairs, "abcdefg")
    assert [(f.backbone, f.other) for f in found] == [("a", "b"), ("c", "d")]
    assert [f.ratio for f in found] == [0.5, 1.3]
    assert "more certain" in found[0].problem().what
    assert "less certain" in found[1].problem().what
    assert found[0].problem().severity == "warning"
    assert "400 scenarios" in str(found[0].problem())
    # Nine scenarios know a standard error to a quarter, three hardly at all.
    few = PairedDifference(np.zeros(6), se, np.full(6, 9))
    found = se_ratio_findings([0.5, 1.0, 1.3, 7.0, 0.0, 2.0], few, pairs, "abcdefg")
    assert [f.ratio for f in found] == [0.5]
    fewer = PairedDifference(np.zeros(6), se, np.full(6, 3))
    assert se_ratio_findings([0.5, 1.0, 1.3, 7.0, 0.0, 2.0], fewer, pairs, "abcdefg") == ()


def test_ratios_on_the_limits_are_not_findings():
    paired = PairedDifference(np.zeros(2), np.ones(2), np.full(2, 5))
    assert se_ratio_findings([0.8, 1.25], paired, [(0, 1), (0, 1)], ["a", "b"]) == ()
