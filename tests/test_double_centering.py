"""Double-centering against its formulas, and least squares against a dense twin."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from scipy import stats

from bayesjudge.closed_form import double_centering as dc
from bayesjudge.closed_form.double_centering import (
    bipartite_components,
    double_centre,
    interaction,
    proxy_bound,
    range_bound,
    simultaneous_t_bound,
    t_bound,
)
from bayesjudge.errors import DataError

FIELDS = ("estimate", "se", "df", "mean", "additive", "n_tasks", "weight_squares", "task_ranges")

numbers = st.floats(-10, 10, allow_nan=False, width=32)


@st.composite
def tables(draw, holes=False):
    n, m, k = draw(st.integers(2, 6)), draw(st.integers(2, 4)), draw(st.integers(2, 4))
    y = draw(arrays.arrays(float, (n, m, k), elements=numbers))
    if holes:
        lost = draw(arrays.arrays(bool, (n, m, k), elements=st.booleans()))
        keep = draw(st.integers(0, n - 1))
        lost[keep] = False
        y = np.where(lost, np.nan, y)
    return y


def dense(y):
    """Least squares on dummies of task and cell, then on dummies of row and column."""
    y = y[~np.isnan(y).all(axis=(1, 2))]
    n, m, k = y.shape
    task, cell = np.nonzero(~np.isnan(y.reshape(n, -1)))
    x = np.hstack([np.eye(n)[task], np.eye(m * k)[cell]])
    beta = np.linalg.lstsq(x, y.reshape(n, -1)[task, cell], rcond=None)[0]
    mean = beta[n:] + beta[:n].mean()
    there = np.unique(cell)
    row, column = np.unravel_index(there, (m, k))
    z = np.hstack([np.eye(m)[row], np.eye(k)[column]])
    fitted = z @ np.linalg.lstsq(z, mean[there], rcond=None)[0]
    out = np.full((2, m * k), np.nan)
    out[0, there], out[1, there] = mean[there], mean[there] - fitted
    return out.reshape(2, m, k)


@given(tables())
def test_a_complete_table_is_the_formula(y):
    found = interaction(y)
    mean = y.mean(axis=0)
    by_hand = mean - mean.mean(0) - mean.mean(1)[:, None] + mean.mean()
    np.testing.assert_allclose(found.estimate, by_hand, atol=1e-12)
    per_task = np.array([double_centre(t) for t in y])
    se = per_task.std(axis=0, ddof=1) / np.sqrt(len(y))
    np.testing.assert_allclose(found.se, se, atol=1e-12)
    assert (found.df == len(y) - 1).all()
    np.testing.assert_allclose(found.estimate.sum(0), 0, atol=1e-12)
    np.testing.assert_allclose(found.estimate.sum(1), 0, atol=1e-12)
    np.testing.assert_allclose(found.adjusted, found.additive, atol=1e-12)
    np.testing.assert_allclose(double_centre(found.adjusted), 0, atol=1e-12)


@given(tables())
def test_least_squares_of_a_complete_table_is_the_same(y):
    n, m, k = y.shape
    seen = np.ones((n, m * k), dtype=bool)
    other = dc._least_squares(y.reshape(n, -1), seen, np.ones(n), (m, k))
    for name in FIELDS:
        np.testing.assert_allclose(
            getattr(other, name), getattr(interaction(y), name), atol=1e-6, err_msg=name
        )


@given(tables(holes=True))
def test_holes_are_least_squares_on_dummies(y):
    found = interaction(y)
    mean, estimate = dense(y)
    np.testing.assert_allclose(found.mean, mean, atol=1e-7)
    np.testing.assert_allclose(found.estimate, estimate, atol=1e-7)
    np.testing.assert_allclose(found.adjusted, found.mean - found.estimate, atol=1e-9)
    assert (found.n_tasks == (~np.isnan(y)).sum(0)).all()


@settings(max_examples=20)
@given(tables(holes=True))
def test_without_errors_the_estimate_is_the_same(y):
    found, quick = interaction(y), interaction(y, errors=False)
    for name in ("estimate", "mean", "additive", "df"):
        np.testing.assert_array_equal(getattr(found, name), getattr(quick, name))


@given(tables(holes=True), st.integers(0, 2**32 - 1))
def test_additive_effects_of_tasks_rows_and_columns_change_nothing(y, seed):
    rng = np.random.default_rng(seed)
    n, m, k = y.shape
    moved = y + rng.normal(size=(n, 1, 1)) + rng.normal(size=(m, 1)) + rng.normal(size=k)
    before, after = interaction(y), interaction(moved)
    np.testing.assert_allclose(after.estimate, before.estimate, atol=1e-6)
    np.testing.assert_allclose(after.se, before.se, atol=1e-6)


@given(tables(), st.integers(0, 2**32 - 1))
def test_effects_of_task_by_row_and_task_by_column_change_nothing(y, seed):
    rng = np.random.default_rng(seed)
    n, m, k = y.shape
    # Over tasks they sum to zero here: otherwise they would be effects of rows and columns.
    moved = y + rng.normal(size=(n, m, 1)) + rng.normal(size=(n, 1, k))
    before, after = interaction(y), interaction(moved)
    np.testing.assert_allclose(after.estimate, before.estimate, atol=1e-6)
    np.testing.assert_allclose(after.se, before.se, atol=1e-6)


@given(tables(holes=True), st.data())
def test_a_weight_is_so_many_copies(y, data):
    times = np.array(data.draw(st.lists(st.integers(0, 3), min_size=len(y), max_size=len(y))))
    whole = ~np.isnan(y).any(axis=(1, 2))
    times[whole] = np.maximum(times[whole], 1)
    weighted, copied = interaction(y, times), interaction(np.repeat(y, times, axis=0))
    np.testing.assert_allclose(weighted.estimate, copied.estimate, atol=1e-7)
    np.testing.assert_allclose(weighted.mean, copied.mean, atol=1e-7)
    np.testing.assert_allclose(weighted.se, copied.se, atol=1e-6)


@settings(max_examples=12)
@given(tables(holes=True))
def test_weights_of_scores_are_those_of_the_estimate(y):
    """The sums behind the concentration bounds, from the estimate's own derivative."""
    assume(y.size < 60)
    found = interaction(y)
    base = np.where(np.isnan(y), np.nan, 0.0)
    slopes = np.full((*y.shape, *y.shape[1:]), 0.0)
    for at in np.argwhere(~np.isnan(y)):
        one = base.copy()
        one[tuple(at)] = 1.0
        slopes[tuple(at)] = np.nan_to_num(interaction(one).estimate)
    known = ~np.isnan(found.estimate)
    squares = np.sum(slopes**2, axis=(0, 1, 2))
    ranges = np.sqrt(np.sum(np.sum(np.abs(slopes), axis=(1, 2)) ** 2, axis=0))
    np.testing.assert_allclose(found.weight_squares[known], squares[known], atol=1e-7)
    np.testing.assert_allclose(found.task_ranges[known], ranges[known], atol=1e-7)


def test_bounds_are_those_of_the_page():
    n, m, k, sd, delta = 20, 8, 6, 0.3, 0.1
    y = np.random.default_rng(0).normal(size=(n, m, k))
    found, c = interaction(y), (1 - 1 / 8) * (1 - 1 / 6)
    np.testing.assert_allclose(t_bound(found, delta), stats.t.ppf(1 - delta / 2, n - 1) * found.se)
    np.testing.assert_allclose(
        simultaneous_t_bound(found, delta), stats.t.ppf(1 - delta / (2 * m * k), n - 1) * found.se
    )
    np.testing.assert_allclose(
        proxy_bound(found, sd, delta), np.sqrt(2 * sd**2 * c * np.log(2 / delta) / n)
    )
    np.testing.assert_allclose(
        proxy_bound(found, sd, delta, simultaneous=True),
        np.sqrt(2 * sd**2 * c * np.log(2 * m * k / delta) / n),
    )
    np.testing.assert_allclose(
        range_bound(found, 9, delta), 4 * c * 9 * np.sqrt(np.log(2 / delta) / (2 * n))
    )
    np.testing.assert_allclose(
        range_bound(found, 9, delta, simultaneous=True),
        4 * c * 9 * np.sqrt(np.log(2 * m * k / delta) / (2 * n)),
    )


@given(arrays.arrays(bool, st.tuples(st.integers(1, 5), st.integers(1, 5))))
def test_components_part_the_graph(present):
    parts = bipartite_components(present)
    rows = np.concatenate([own for own, _ in parts])
    columns = np.concatenate([others for _, others in parts])
    assert sorted(rows) == list(range(present.shape[0]))
    assert sorted(columns) == list(range(present.shape[1]))
    part_of_row = {int(r): at for at, (own, _) in enumerate(parts) for r in own}
    part_of_column = {int(c): at for at, (_, others) in enumerate(parts) for c in others}
    assert all(part_of_row[r] == part_of_column[c] for r, c in np.argwhere(present).tolist())


def test_what_cannot_be_answered_is_refused():
    y = np.random.default_rng(0).normal(size=(5, 4, 4))
    y[:, :2, 2:] = y[:, 2:, :2] = np.nan
    with pytest.raises(DataError, match="parts that no cell joins"):
        interaction(y)
    for shape in [(5, 1, 3), (5, 3, 1)]:
        with pytest.raises(DataError, match="two rows and two columns"):
            interaction(np.zeros(shape))
    with pytest.raises(DataError, match="no task has a score"):
        interaction(np.full((3, 2, 2), np.nan))
    with pytest.raises(DataError, match="no task has a score"):
        interaction(np.zeros((3, 2, 2)), np.zeros(3))
    # Each task in one cell only: a hard task looks like an interaction.
    lone = np.full((4, 2, 2), np.nan)
    lone[range(4), [0, 0, 1, 1], [0, 1, 0, 1]] = 1.0
    with pytest.raises(DataError, match="cannot be told from the interaction"):
        interaction(lone)


def test_tasks_of_one_row_each_tell_the_interaction():
    rng = np.random.default_rng(1)
    y = np.full((12, 3, 4), np.nan)
    y[range(12), np.arange(12) % 3] = rng.normal(size=(12, 4))
    found = interaction(y)
    np.testing.assert_allclose(found.mean, np.nanmean(y, axis=0))
    np.testing.assert_allclose(found.estimate, double_centre(np.nanmean(y, axis=0)), atol=1e-12)
    assert (found.df == 3).all()
    assert (found.se > 0).all()


def test_a_cell_that_alone_joins_its_row_has_no_interaction():
    y = np.random.default_rng(2).normal(size=(6, 3, 3))
    y[:, 2, 1:] = np.nan
    found = interaction(y)
    assert np.isnan(found.estimate[2]).all()
    assert np.isnan(found.se[2]).all()
    assert found.adjusted[2, 0] == pytest.approx(found.mean[2, 0])
    np.testing.assert_allclose(found.adjusted[2], found.additive[2])
    np.testing.assert_allclose(found.estimate[:2], double_centre(y[:, :2].mean(axis=0)), atol=1e-12)


def test_one_task_has_an_estimate_and_no_standard_error():
    y = np.random.default_rng(3).normal(size=(1, 3, 3))
    found = interaction(y)
    np.testing.assert_allclose(found.estimate, double_centre(y[0]))
    assert np.isnan(found.se).all()
    y[0, 0, 0] = np.nan
    assert np.isnan(interaction(y).se).all()


@settings(max_examples=20)
@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e3))
def test_units_carry_through(shift, scale):
    y = np.random.default_rng(4).normal(size=(7, 3, 4))
    before, after = interaction(y), interaction(shift + scale * y)
    np.testing.assert_allclose(after.estimate, scale * before.estimate, atol=1e-7 * scale + 1e-8)
    np.testing.assert_allclose(after.se, scale * before.se, atol=1e-7 * scale + 1e-8)
