"""The audit's numbers: pure functions of arrays."""

from __future__ import annotations

import numpy as np
import pytest
import statsmodels.api as sm
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from bayesjudge.auditing import acceptance, failures, labels, means, permuting, posterior
from bayesjudge.auditing import regressions as reg
from bayesjudge.auditing.influence import cell_means, influences
from bayesjudge.auditing.languages import find_language, known_languages
from bayesjudge.auditing.structure import dispersion, interaction
from bayesjudge.auditing.table import AuditTable
from bayesjudge.closed_form.multiplicity import holm


def make(score, *, cells=1, chosen=None, drop=None):
    """Return a table of (J, L, n) scores; items in turn go to the cells."""
    score = np.asarray(score, float)
    J, L, _ = score.shape
    judge, language, item = np.indices(score.shape).reshape(3, -1).astype(np.int64)
    keep = np.ones(judge.size, bool) if drop is None else ~drop.reshape(-1)
    pair = np.full(judge.size, -1) if chosen is None else np.asarray(chosen).reshape(-1)
    return AuditTable(
        score=score.reshape(-1)[keep],
        language=language[keep],
        judge=judge[keep],
        item=item[keep],
        cluster=item[keep],
        unit=item[keep],
        cell=(item % cells)[keep],
        chosen=pair[keep],
        languages=tuple(f"l{i}" for i in range(L)),
        judges=tuple(f"j{i}" for i in range(J)),
        cells=tuple(f"c{i}" for i in range(cells)),
        has_items=True,
        cell_facets=() if cells == 1 else ("split",),
    )


def scores(seed, J=2, L=5, n=40):
    rng = np.random.default_rng(seed)
    return rng.normal(size=n) + rng.normal(size=(J, L, 1)) + rng.normal(size=(J, L, n))


def panel_offsets(table):
    squares = means.squared_distances(table.score, table.judge, len(table.judges))
    return means.offsets(influences(table), influences(table, squares))


seeds = st.integers(0, 2**32 - 1)


# Means and errors


@given(seeds)
def test_means_and_errors_of_a_complete_table_are_the_paired_ones(seed):
    values = scores(seed)
    found = influences(make(values))
    assert np.allclose(found.mean, values.mean(axis=2))
    told = panel_offsets(make(values))
    differences = values - values.mean(axis=1, keepdims=True)
    assert np.allclose(told.offset, differences.mean(axis=2))
    assert np.allclose(told.offset_se, differences.std(axis=2, ddof=1) / np.sqrt(40))
    assert np.allclose(told.mean_se, values.std(axis=2, ddof=1) / np.sqrt(40))
    assert told.df == 39
    sd = values.std(axis=(1, 2))
    assert np.allclose(told.panel, (differences.mean(axis=2) / sd[:, None]).mean(axis=0))
    # the error of the sd too: by the jackknife, which is no formula of ours
    left = np.stack([np.delete(values, i, axis=2) for i in range(40)])
    again = left - left.mean(axis=2, keepdims=True)
    scaled = again.mean(axis=3) / left.std(axis=(2, 3))[:, :, None]
    panel = scaled.mean(axis=1)
    jackknife = np.sqrt(39 / 40 * ((panel - panel.mean(axis=0)) ** 2).sum(axis=0))
    assert np.allclose(told.panel_se, jackknife, rtol=0.1)


@given(seeds)
def test_cells_count_alike_and_their_levels_are_no_error(seed):
    values = scores(seed, n=40)
    split = values.copy()
    split[:, :, 1::2] += 1000.0
    plain, moved = (influences(make(v, cells=2)) for v in (values, split))
    assert np.allclose(moved.mean, plain.mean + 500.0)
    assert np.allclose(moved.psi, plain.psi, atol=1e-8)
    assert plain.df == 38


def test_cells_of_unequal_size_count_alike():
    values = np.zeros((1, 2, 9))
    values[0, 0, ::3] = 3.0
    drop = np.zeros(values.shape, bool)
    drop[0, :, 3::3] = True
    table = make(values, cells=3, drop=drop)
    assert influences(table).mean[0, 0] == pytest.approx(1.0)
    assert cell_means(table)[0][0, 0].tolist() == [3.0, 0.0, 0.0]


def test_a_language_that_a_judge_lacks_is_null():
    drop = np.zeros((2, 3, 10), bool)
    drop[1, 2] = True
    table = make(scores(1, 2, 3, 10), drop=drop)
    told = panel_offsets(table)
    assert np.isnan(told.offset[1, 2])
    assert np.isnan(told.offset_se[1, 2])
    assert np.isfinite(told.panel).all()
    assert told.offset[1, :2].sum() == pytest.approx(0.0)


@given(seeds, st.integers(2, 4))
def test_normalizing_is_blind_to_each_judges_scale(seed, S):
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(6, 3, S))
    scaled = values * np.array([1.0, 7.0, 0.1])[:, None] + np.array([0.0, 5.0, -9.0])[:, None]
    assert np.allclose(means.normalize(values), means.normalize(scaled))
    z = np.moveaxis(means.normalize(values), 1, 0).reshape(3, -1)
    assert np.allclose(z.mean(axis=1), 0, atol=1e-12)
    assert np.allclose(z.std(axis=1, ddof=1), 1)


def test_a_judge_with_equal_means_has_no_z():
    assert np.isnan(means.normalize(np.ones((4, 1, 1)))).all()


@given(seeds)
def test_one_way_is_scipys(seed):
    rng = np.random.default_rng(seed)
    groups = [rng.normal(size=rng.integers(2, 9)) for _ in range(4)]
    mean, n = np.array([g.mean() for g in groups]), np.array([float(g.size) for g in groups])
    within = float(sum(((g - g.mean()) ** 2).sum() for g in groups))
    found, wanted = means.one_way(mean, n, within), stats.f_oneway(*groups)
    assert found.f == pytest.approx(wanted.statistic)
    assert found.p_value == pytest.approx(wanted.pvalue)


def test_one_way_without_a_test():
    one = means.one_way(np.array([1.0]), np.array([5.0]), 1.0)
    assert np.isnan(one.f)
    assert means.one_way(np.array([1.0, 2.0]), np.array([5.0, 5.0]), 0.0).f == np.inf
    assert np.isnan(means.one_way(np.array([1.0, 1.0]), np.array([5.0, 5.0]), 0.0).f)


@given(seeds)
def test_correlations_are_scipys(seed):
    rng = np.random.default_rng(seed)
    x, y = rng.integers(0, 6, 12).astype(float), rng.normal(size=12)
    x[0], x[1] = 0.0, 5.0
    y[3] = np.nan
    held = np.isfinite(y)
    rho, n = means.spearman(x, y)
    wanted = stats.spearmanr(x[held], y[held])
    assert n == 11
    if np.isfinite(wanted.statistic):
        assert rho == pytest.approx(wanted.statistic)
        assert means.correlation_p(rho, n) == pytest.approx(wanted.pvalue)


def test_correlations_that_are_none():
    assert np.isnan(means.pearson(np.ones(5), np.arange(5.0))[0])
    assert np.isnan(means.correlation_p(0.3, 2))
    assert means.correlation_p(1.0, 9) == 0.0


def test_extremes_count_judges():
    by_judge = np.array([[3.0, 9.0, np.nan], [2.0, 8.0, 1.0], [1.0, 1.0, 1.0], [0.0, 0.0, 1.0]])
    found = means.extremes(by_judge)
    assert found.size == 1
    assert found.top.tolist() == [2, 0, 0, 0]
    assert found.bottom.tolist() == [0, 0, 0, 2]


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_holm_is_statsmodels(p_values):
    from statsmodels.stats.multitest import multipletests

    p = np.array(p_values)
    assert np.allclose(holm(p), multipletests(p, method="holm")[1])
    assert np.isnan(holm(np.append(p, np.nan))[-1])


# Permutations


@given(seeds)
def test_permuting_keeps_what_a_scenario_holds(seed):
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(2, 7, 4))
    count = rng.integers(0, 3, (7, 4)).astype(float)
    count[:, 0] = 1.0
    values[:, count == 0] = 0.0
    (totals,) = list(permuting.permuted_totals(values, count, 20, rng))
    assert totals.shape == (20, 3, 4)
    assert np.allclose(totals[:, :2].sum(axis=2), values.sum(axis=(1, 2)))
    assert np.allclose(totals[:, 2].sum(axis=1), count.sum())


def test_scenarios_of_one_language_stay_where_they_are():
    count = np.array([[1.0, 0.0, 0.0], [0.0, 0.0, 2.0]])
    sums = np.array([[[5.0, 0.0, 0.0], [0.0, 0.0, 7.0]]])
    (totals,) = list(permuting.permuted_totals(sums, count, 9, np.random.default_rng(0)))
    assert (totals == np.array([[5.0, 0.0, 7.0], [1.0, 0.0, 2.0]])).all()


def test_every_relabelling_is_as_likely():
    sums, count = np.array([[[1.0, 2.0, 3.0]]]), np.ones((1, 3))
    rng = np.random.default_rng(3)
    drawn = np.concatenate([t[:, 0] for t in permuting.permuted_totals(sums, count, 6000, rng)])
    _, counts = np.unique(drawn, axis=0, return_counts=True)
    # chi-squared with 5 degrees of freedom exceeds 20.5 once in a thousand
    assert ((counts - 1000) ** 2 / 1000).sum() < 20.5


def test_p_counts_the_observed_in():
    assert permuting.p_value(3.0, np.array([1.0, 2.0, 3.0, 4.0])) == pytest.approx(3 / 5)
    assert permuting.p_value(9.0, np.zeros(99)) == pytest.approx(0.01)


# Acceptance


def test_the_gap_without_bias_is_what_statistics_section_9_says():
    """19 points at 23 languages x 100 items; 12 where items correlate 0.8. Mean of 40 tables.

    One table's null mean varies by some 0.3 points, the mean of 40 by 0.05; the figures
    are rounded to a point.
    """
    rng = np.random.default_rng(5)
    for share, wanted in ((0.0, 0.19), (0.8, 0.12)):
        nulls, gaps = [], []
        for _ in range(40):
            values = np.sqrt(share) * rng.normal(size=100) + np.sqrt(1 - share) * rng.normal(
                size=(1, 23, 100)
            )
            found = acceptance.acceptance_gap(make(values), 0.0, 99, rng)
            nulls.append(found.null)
            gaps.append(found.gap)
        assert np.mean(nulls) == pytest.approx(wanted, abs=0.007)
        # the observed gap is one draw of the null: sd some 3 points a table
        assert np.mean(gaps) == pytest.approx(np.mean(nulls), abs=0.02)


def test_an_offset_shows_in_the_gap():
    values = scores(4, 1, 6, 200)
    values -= values.mean(axis=2, keepdims=True)
    values[0, 2] += 2.0
    found = acceptance.acceptance_gap(make(values), 0.0, 199, np.random.default_rng(1))
    assert found.p_value == pytest.approx(1 / 200)
    assert int(np.argmax(found.rate)) == 2
    assert found.excess > 0.2
    assert found.null_upper > found.null
    assert np.allclose(found.rate, (values[0] > 0).mean(axis=1))


@given(seeds, st.floats(0.1, 0.9))
def test_held_out_takes_whole_scenarios_of_every_cell(seed, share):
    table = make(scores(seed, 2, 3, 12), cells=3)
    taken = acceptance.held_out(table, share, np.random.default_rng(seed))
    for c in np.unique(table.cluster):
        assert np.unique(taken[table.cluster == c]).size == 1
    for cell in range(3):
        n = np.unique(table.cluster[taken & (table.cell == cell)]).size
        assert 1 <= n <= 3


def test_a_threshold_of_graded_scores_is_the_nearest_cut():
    grades = np.array([1, 1, 1, 2, 3, 4, 5, 5, 5, 5], float)
    assert acceptance.threshold_at(grades, 0.5) == 3.0
    assert acceptance.threshold_at(np.array([1.0, 5, 5, 5, 5]), 0.5) == 1.0
    many = np.arange(101.0)
    assert acceptance.threshold_at(many, 0.25) == 25.0
    assert acceptance.threshold_at(np.full(5, 2.0), 0.5) == 2.0


@given(seeds)
def test_in_sample_all_variance_of_means_goes_by_construction(seed):
    table = make(scores(seed, 1, 5, 30))
    rng = np.random.default_rng(seed)
    found = acceptance.correct_offsets(table, table, 0.5, 19, rng)
    assert found.variance_removed == pytest.approx(1.0, abs=1e-9)
    assert np.allclose(found.offset.sum(), 0.0)


def test_out_of_sample_offsets_of_noise_mend_nothing():
    """Without effects the correction adds the noise of both halves: variance doubles."""
    rng = np.random.default_rng(8)
    removed = []
    for _ in range(200):
        table = make(rng.normal(size=(1, 12, 60)))
        half = table.cluster < 30
        found = acceptance.correct_offsets(table.keep(half), table.keep(~half), 0.5, 1, rng)
        removed.append(found.variance_after / found.variance_before)
    # a ratio of two variances with 11 df each, correlated; the median is near 2
    assert np.median(removed) == pytest.approx(2.0, abs=0.3)


def test_equal_scores_have_no_share_removed():
    table = make(np.ones((1, 3, 8)))
    found = acceptance.correct_offsets(table, table, 0.5, 19, np.random.default_rng(0))
    assert np.isnan(found.variance_removed)
    assert np.isnan(found.gap_removed)


def test_pairwise_accuracy_counts_ties_as_right():
    good = np.array([[[3.0, 2.0, 1.0, 5.0], [1.0, 1.0, 1.0, 1.0]]])
    bad = np.array([[[1.0, 2.0, 3.0, 1.0], [2.0, 2.0, 0.0, 0.0]]])
    values = np.concatenate([good, bad], axis=2)
    table = make(values, chosen=np.broadcast_to(np.repeat([1, 0], 4), values.shape))
    item = table.item % 4
    table = AuditTable(**{**vars(table), "item": item, "cluster": item, "unit": item})
    right, strict, n = acceptance.pairwise_accuracy(table)
    assert right[0, :, 0].tolist() == [0.75, 0.5]
    assert strict[0, :, 0].tolist() == [0.625, 0.5]
    assert n[0, :, 0].tolist() == [4, 4]
    assert np.isnan(acceptance.accuracy_summary(np.array([np.nan]))[0])


# What no offset mends


def test_spread_is_found_and_equal_spread_is_not():
    rng = np.random.default_rng(2)
    values = scores(7, 1, 6, 300)
    equal = dispersion(make(values), 199, rng)
    assert equal.p_value > 0.05
    values[0, 3] = values[0, 3].mean() + 1.6 * (values[0, 3] - values[0, 3].mean())
    wide = dispersion(make(values), 199, rng)
    assert wide.p_value == pytest.approx(1 / 200)
    assert np.allclose(wide.sd, values[0].std(axis=1, ddof=1))
    assert np.nansum(wide.log_ratio) == pytest.approx(0.0, abs=1e-12)
    assert int(np.argmax(wide.log_ratio)) == 3


def test_a_language_without_spread_is_null():
    values = scores(7, 1, 3, 30)
    values[0, 1] = 4.0
    found = dispersion(make(values), 19, np.random.default_rng(0))
    assert np.isnan(found.sd[1])
    assert np.isfinite(found.log_ratio[[0, 2]]).all()
    flat = dispersion(make(np.ones((1, 3, 9))), 19, np.random.default_rng(0))
    assert np.isnan(flat.p_value)


@given(seeds)
def test_interaction_is_the_papers_split(seed):
    values = scores(seed, 1, 5, 25)
    found = interaction(make(values))
    centred = values[0] - values[0].mean(axis=1, keepdims=True)
    item = centred.mean(axis=0)
    assert found.share == pytest.approx(1 - (item**2).mean() / (centred**2).mean())
    assert found.population_share == pytest.approx(found.share * 5 / 4)
    assert (found.n_items, found.n_left_out) == (25, 0)
    rest = centred - item
    assert (item**2).mean() + (rest**2).mean() == pytest.approx((centred**2).mean())


def test_interaction_needs_items_in_all_languages():
    drop = np.zeros((1, 3, 8), bool)
    drop[0, 1, 2:] = True
    assert interaction(make(scores(1, 1, 3, 8), drop=drop)) is None
    drop[0, 1, 2:5] = False
    found = interaction(make(scores(1, 1, 3, 8), drop=drop))
    assert (found.n_items, found.n_left_out) == (5, 3)
    assert interaction(make(np.ones((1, 3, 8)))) is None


# Regressions


def regression_table(seed, n=60, L=5):
    rng = np.random.default_rng(seed)
    language = np.tile(np.arange(L), n)
    cluster = np.repeat(np.arange(n), L)
    nll = 100 + 20 * rng.normal(size=n * L) + 15 * language + 10 * rng.normal(size=n)[cluster]
    score = 0.05 * nll + rng.normal(size=L)[language] + rng.normal(size=n)[cluster]
    score = score + rng.normal(size=n * L)
    keep = rng.random(n * L) > 0.1
    return score[keep], nll[keep], language[keep], cluster[keep]


@given(seeds)
@settings(max_examples=10)
def test_nested_regressions_are_statsmodels(seed):
    score, nll, language, cluster = regression_table(seed)
    found = reg.nested_regressions(score, nll, language, cluster)
    L = int(language.max()) + 1
    dummies = (language[:, None] == np.arange(1, L)).astype(float)
    only_nll = sm.OLS(score, sm.add_constant(nll)).fit()
    only_language = sm.OLS(score, sm.add_constant(dummies)).fit()
    X = sm.add_constant(np.column_stack([dummies, nll]))
    full = sm.OLS(score, X).fit()
    close = {"rel": 1e-8, "abs": 1e-8}
    assert found.r_nll == pytest.approx(only_nll.rsquared, **close)
    assert found.r_language == pytest.approx(only_language.rsquared, **close)
    assert found.r_full == pytest.approx(full.rsquared, **close)
    shared = only_nll.rsquared + only_language.rsquared - full.rsquared
    assert found.shared == pytest.approx(shared, **close)
    for part, small in ((found.language, only_nll), (found.nll, only_language)):
        f, p, q = full.compare_f_test(small)
        assert (part.df1, part.df2) == (int(q), int(full.df_resid))
        assert part.f == pytest.approx(f, **close)
        assert part.p_value == pytest.approx(p, **close)
        assert part.r_squared == pytest.approx(full.rsquared - small.rsquared, **close)
    robust = sm.OLS(score, X).fit(cov_type="cluster", cov_kwds={"groups": cluster}, use_t=True)
    R = np.eye(X.shape[1])
    for part, rows in ((found.language, R[1:L]), (found.nll, R[L:])):
        wald = robust.f_test(rows)
        assert part.f_clustered == pytest.approx(float(wald.fvalue), **close)
        assert part.p_clustered == pytest.approx(float(wald.pvalue), **close)
        assert part.df2_clustered == int(wald.df_denom)
    assert found.slope == pytest.approx(full.params[-1], **close)
    assert found.slope_se == pytest.approx(robust.bse[-1], **close)


@given(seeds)
@settings(max_examples=10)
def test_slopes_within_a_language_are_statsmodels(seed):
    score, nll, _, cluster = regression_table(seed)
    cluster = cluster // 2
    found = reg.within_language_slope(score, nll, cluster)
    X = sm.add_constant(nll)
    plain = sm.OLS(score, X).fit()
    robust = sm.OLS(score, X).fit(cov_type="cluster", cov_kwds={"groups": cluster}, use_t=True)
    assert found.slope == pytest.approx(plain.params[1], rel=1e-8)
    assert found.r_squared == pytest.approx(plain.rsquared, rel=1e-8, abs=1e-12)
    assert found.p_value == pytest.approx(plain.pvalues[1], rel=1e-6, abs=1e-12)
    assert found.se == pytest.approx(robust.bse[1], rel=1e-8)
    assert found.p_clustered == pytest.approx(robust.pvalues[1], rel=1e-6, abs=1e-12)
    assert found.standardized**2 == pytest.approx(found.r_squared, abs=1e-12)


def test_a_hidden_effect_makes_the_shared_part_negative():
    rng = np.random.default_rng(0)
    language = np.repeat([0, 1], 200)
    nll = rng.normal(size=400) + 3.0 * language
    score = nll - 3.0 * language + 0.1 * rng.normal(size=400)
    found = reg.nested_regressions(score, nll, language, np.tile(np.arange(200), 2))
    assert found.shared < -0.1


def test_regressions_that_cannot_be_made():
    one = np.zeros(9, dtype=np.int64)
    x = np.arange(9.0)
    assert reg.nested_regressions(x, x, one, one) is None
    two = np.repeat([0, 1], [4, 5])
    assert reg.nested_regressions(x, two.astype(float), two, np.arange(9)) is None
    assert reg.within_language_slope(x, np.ones(9), np.arange(9)) is None
    assert reg.within_language_slope(x[:2], x[:2], np.arange(2)) is None
    few = reg.nested_regressions(
        np.random.default_rng(0).normal(size=40),
        np.random.default_rng(1).normal(size=40),
        np.tile(np.arange(8), 5),
        np.repeat(np.arange(5), 8),
    )
    assert np.isnan(few.language.f_clustered)
    assert np.isfinite(few.language.f)
    lone = reg.within_language_slope(x + np.sin(x), x, np.zeros(9))
    assert np.isnan(lone.p_clustered)


def test_signs_are_counted():
    slopes, p = np.array([1.0, -1.0, 2.0, 0.1]), np.array([0.01, 0.04, 0.2, np.nan])
    assert reg.count_signs(slopes, p) == (1, 1, 2)


# Labels


def test_acceptance_under_other_thresholds():
    values = np.arange(10.0) + np.array([0.0, 5.0])[None, :, None]
    table = make(values)
    limits = labels.language_thresholds(table, 0.5)
    assert limits.tolist() == [4.0, 9.0]
    assert labels.acceptance_under(table, limits).tolist() == [[0.5, 0.0], [1.0, 0.5]]


def test_wrong_labels_buy_acceptance():
    values = np.arange(10.0) + np.array([0.0, 5.0])[None, :, None]
    table = make(values)
    label = table.language.copy()
    second = np.flatnonzero(table.language == 1)
    label[second[:5]] = 0
    label[second[9]] = -1
    has = np.ones(20, bool)
    has[0] = False
    found = labels.under_labels(table, label, has, np.array([4.0, 9.0]), 99.0)
    assert found.n.tolist() == [9, 10]
    assert found.mislabelled.tolist() == [0, 6]
    assert found.unknown.tolist() == [0, 1]
    assert found.own[1] == 0.5
    # five rows of 5 to 9 pass a threshold of 4; the row of an unknown language fails 99
    assert found.labelled[1] == pytest.approx((5 + 4) / 10)
    assert found.own_mislabelled[1] == pytest.approx(1 / 6)
    assert found.labelled_mislabelled[1] == pytest.approx(5 / 6)
    assert np.isnan(found.own_mislabelled[0])


def test_labels_meet_languages_by_any_of_their_names():
    codes = labels.label_codes(("English", "hi", "xx"), ("en", "hin_Deva", "xx", "fr", "zz"))
    assert codes.tolist() == [0, 1, 2, -1, -1]


@pytest.mark.parametrize(
    ("label", "code"),
    [("en", "en"), ("EN-us", "en"), ("zho_Hans", "zh"), ("Hebrew", "he"), ("cmn", "zh"),
     ("ceb_Latn", "ceb"), ("pt_BR", "pt"), (" Swahili ", "sw"), ("npi_Deva", "ne")],
)  # fmt: skip
def test_languages_are_found_by_code_and_name(label, code):
    assert find_language(label).code == code


def test_what_is_no_language_is_not_found():
    assert find_language("gpt-4o") is None
    assert find_language("") is None
    assert find_language("nan") is None
    codes = [one.code for one in known_languages()]
    assert len(codes) == len(set(codes)) > 100


# Posterior


def gaussian(seed=0, L=4, D=4000):
    rng = np.random.default_rng(seed)
    mean = np.linspace(0, 1, L) + 0.02 * rng.normal(size=(D, L))
    return posterior.GaussianDraws(mean, np.full((D, L), 1.0))


@given(st.floats(0.05, 0.95))
def test_gaussian_thresholds_are_met_at_the_target(rate):
    draws = gaussian(D=50)
    limits = draws.thresholds(rate)
    assert np.allclose(stats.norm.sf(limits, draws.mean, draws.sd), rate)
    assert draws.rates(np.zeros(4)).shape == (50, 4)


@given(seeds, st.floats(0.05, 0.95))
@settings(max_examples=30)
def test_weighted_thresholds_are_weighted_quantiles(seed, rate):
    rng = np.random.default_rng(seed)
    table = make(scores(seed, 1, 3, 25))
    weights = posterior.bootstrap_weights(6, np.zeros(25, dtype=np.int64), rng)
    draws = posterior.WeightedItems(
        table.score, table.language, table.cluster, np.ones(len(table)), weights, 3
    )
    for k in range(3):
        limits = draws.thresholds(rate)[:, k]
        for d in range(6):
            at = draws.rates(np.full(3, limits[d]))[d, k]
            before = draws.rates(np.full(3, np.nextafter(limits[d], -np.inf)))[d, k]
            assert at <= rate + 1e-9
            assert before >= rate - 1e-9


def test_bootstrap_weights_keep_each_cells_size():
    cell = np.repeat([0, 1], [5, 10])
    weights = posterior.bootstrap_weights(200, cell, np.random.default_rng(0))
    assert np.allclose(weights[:, :5].sum(axis=1), 5)
    assert np.allclose(weights[:, 5:].sum(axis=1), 10)


def test_equal_weights_give_plain_shares():
    table = make(scores(3, 1, 3, 25))
    draws = posterior.WeightedItems(
        table.score, table.language, table.cluster, np.ones(75), np.ones((1, 25)), 3
    )
    values = table.score.reshape(3, 25)
    assert np.allclose(draws.rates(np.zeros(3))[0], (values > 0).mean(axis=1))


def test_favour_counts_draws_beyond_the_margin():
    rates = np.array([[0.5, 0.5, 0.5], [0.8, 0.5, 0.2], [0.6, 0.5, 0.4], [0.5, 0.6, 0.4]])
    found = posterior.favour(rates, 0.05)
    assert found.favoured.tolist() == [0.5, 0.25, 0.0]
    assert found.disfavoured.tolist() == [0.0, 0.0, 0.75]
    assert found.highest == pytest.approx([1 / 12 + 0.5, 1 / 12 + 0.25, 1 / 12])
    assert found.highest.sum() == pytest.approx(1.0)
    assert found.lowest.sum() == pytest.approx(1.0)


def test_languages_that_are_alike_share_a_threshold():
    mean = np.array([0.0, 0.02, 1.0, 1.01, np.nan]) + np.zeros((500, 5))
    draws = posterior.GaussianDraws(mean, np.where(np.isfinite(mean), 1.0, np.nan))
    groups = posterior.share_thresholds(draws, 0.5, 0.05)
    assert [g.members for g in groups] == [(0, 1), (2, 3)]
    assert all(g.p_all == 1.0 for g in groups)
    assert groups[1].threshold == pytest.approx(1.005)
    apart = posterior.share_thresholds(draws, 0.5, 0.0)
    assert len(apart) == 4
    unsure = posterior.GaussianDraws(
        np.random.default_rng(0).normal(size=(500, 2)), np.ones((500, 2))
    )
    alone = posterior.share_thresholds(unsure, 0.5, 0.05)
    assert len(alone) == 2
    assert alone[0].p_all < 0.95


# Failures


def test_failures_side_by_side():
    values = np.zeros((1, 2, 40))
    values[0, :, ::2] = 1.0
    table = make(values)
    failed = (table.language == 1) & (table.score == 0) & (table.item < 30)
    found = failures.side_by_side(table, failed, 99, np.random.default_rng(0))
    assert found.stored.tolist() == [0.5, 0.5]
    assert found.missing.tolist() == [0.5, 20 / 25]
    assert found.failed.tolist() == [0, 15]
    assert found.differs.tolist() == [False, True]
    assert found.p_unequal == pytest.approx(0.01)
    none = failures.side_by_side(table, np.zeros(80, bool), 99, np.random.default_rng(0))
    assert none.p_unequal == 1.0
    assert not none.differs.any()
    gone = failures.side_by_side(table, table.language == 0, 19, np.random.default_rng(0))
    assert gone.differs[0]
    assert np.isnan(gone.missing[0])


def test_units_count_alike():
    table = make(np.array([[[1.0, 1.0, 1.0, 0.0], [0.0, 0.0, 0.0, 1.0]]]))
    unit = np.minimum(table.item // 3, 1)
    table = AuditTable(**{**vars(table), "unit": unit})
    assert failures.unit_means(table).tolist() == [0.5, 0.5]
    assert failures.pooled_means(table).tolist() == [0.75, 0.25]
