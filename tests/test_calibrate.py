"""``bj.calibrate``: tables with names, posterior beside closed form, what is refused."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import bayesjudge as bj
from bayesjudge.calibration.cells import cells_of_scores
from bayesjudge.calibration.posterior import table_of_cells
from bayesjudge.closed_form.double_centering import double_centre, interaction
from bayesjudge.report.calibration_report import adjusted_scores_table
from bayesjudge.spec import override_prior, read_model
from tests.cbc_tables import BACKBONES, GAMMA, LANGUAGES, cell_scores, frame

QUICK = {"splits": 20, "resamples": 499}


@pytest.fixture(scope="module")
def found():
    scores = bj.read_scores(frame(cell_scores()), scale=(0, 10))
    return bj.calibrate(scores, rope=0.1, proxy_sd=0.3, **QUICK)


SORTED = tuple(sorted(LANGUAGES)), tuple(sorted(BACKBONES))


def matrix(table, column, rows=SORTED[0], columns=SORTED[1]):
    wide = table.pivot_table(index=table.columns[0], columns=table.columns[1], values=column)
    return wide.reindex(index=list(rows), columns=list(columns)).to_numpy()


def in_order(values):
    """From the order of ``cell_scores`` to that of sorted labels."""
    order = [LANGUAGES.index(x) for x in sorted(LANGUAGES)]
    return values[..., order, :][..., [BACKBONES.index(x) for x in sorted(BACKBONES)]]


def test_the_interaction_is_that_of_the_cells(found):
    y = in_order(cell_scores())
    np.testing.assert_allclose(matrix(found.interaction, "estimate"), double_centre(y.mean(0)))
    per_task = double_centre(y)
    se = per_task.std(axis=0, ddof=1) / np.sqrt(len(y))
    np.testing.assert_allclose(matrix(found.interaction, "se"), se)
    # 12 cells with bounds that hold at once at 95 %: a fixed seed of a table that does.
    assert (
        np.abs(matrix(found.interaction, "estimate") - in_order(GAMMA))
        < matrix(found.interaction, "bound")
    ).all()
    assert (
        found.interaction["bound"] > found.interaction["ci_upper"] - found.interaction["estimate"]
    ).all()
    assert (found.interaction["bound_range"] > found.interaction["bound"]).all()
    assert found.interaction["bound_proxy"].notna().all()
    assert (found.interaction["n_tasks"] == 24).all()


def test_the_posterior_stands_beside_it_cell_by_cell(found):
    table = found.interaction
    assert found.converged
    assert found.posterior.spec.name == "language_backbone"
    assert found.posterior.resolved.term("language:scenario")
    np.testing.assert_allclose(table["difference"], table["posterior"] - table["estimate"])
    np.testing.assert_allclose(table["difference_in_se"], table["difference"] / table["se"])
    assert table["difference_in_se"].abs().max() < 1
    # Shrunken as a whole: the interaction's variance is smaller.
    assert np.var(table["posterior"]) < np.var(table["estimate"])
    assert (table["posterior_lower"] < table["posterior"]).all()
    assert (table["posterior"] < table["posterior_upper"]).all()


def test_adjusted_scores_are_scores_less_their_cell(found):
    lookup = found.interaction.set_index(["language", "backbone"])["estimate"]
    rows = adjusted_scores_table(found)
    off = [lookup[key] for key in zip(rows["language"], rows["backbone"], strict=True)]
    np.testing.assert_allclose(rows["interaction"], off)
    np.testing.assert_allclose(rows["adjusted_score"], rows["score"] - off)
    again = bj.read_scores(
        rows.assign(score=rows["adjusted_score"])[["scenario", "language", "backbone", "score"]]
    )
    np.testing.assert_allclose(
        bj.calibrate(again, model=None, **QUICK).interaction["estimate"], 0, atol=1e-12
    )
    np.testing.assert_allclose(matrix(found.adjusted, "adjusted"), found.closed.additive)


def test_rankings_differ_raw_and_agree_adjusted(found):
    raw, adjusted = matrix(found.adjusted, "rank"), matrix(found.adjusted, "adjusted_rank")
    assert len(np.unique(raw, axis=0)) > 1
    assert len(np.unique(adjusted, axis=0)) == 1
    assert not found.adjusted["extrapolated"].any()
    first = sorted(BACKBONES).index("[red]x[/red]")
    row = found.reversals.iloc[0]
    assert set(found.reversals["backbone"]) | set(found.reversals["other"]) == set(BACKBONES)
    turned = found.reversals.set_index(["backbone", "other"])
    pair = turned.loc[("[red]x[/red]", "gpt")]
    assert pair["most_in"] == "English"
    assert pair["least_in"] == "العربية"
    assert pair["reversed_holm"]
    assert pair["reversed_t"]
    assert pair["p_posterior"] >= pair["p_posterior_rope"] > 0.95
    assert turned["reversed_holm"].sum() == 1
    assert first == 0
    assert row["p_holm"] <= 1


def test_held_out_figures_and_what_is_said_of_them(found):
    halves = found.held_out
    assert halves.adjusted_tau > halves.raw_tau
    assert halves.adjusted_winners == 1
    assert halves.rmse_with_interaction < halves.rmse_without_interaction
    assert "label-free consistency is not correctness" in found.statements[0]
    assert "is reproducible, and CBC deletes it" in found.statements[1]
    assert "not correctness" in repr(found)


def test_nothing_but_noise_is_called_noise():
    y = cell_scores(gamma=np.zeros_like(GAMMA), seed=5)
    noise = bj.calibrate(bj.read_scores(frame(y)), model=None, **QUICK)
    assert "not shown to be reproducible" in noise.statements[1]


def flat_limit(y, seed=0):
    """Posterior mean of the interaction, every scale fixed and effects' 10^6 sigma.

    Draws are affine in the scores, given the seed: half the difference to a table of
    opposite sign is the conditional mean, without Monte Carlo error.
    """
    spec = read_model("language_backbone")
    for term in ("backbone", "language", "backbone:language", "scenario", "language:scenario"):
        spec = override_prior(spec, f"{term}.scale=flat")
    spec = override_prior(spec, "backbone:scenario.scale.center=fixed:0.7")
    spec = override_prior(spec, "backbone:scenario.scale.spread=fixed:0.001")
    spec = override_prior(spec, "residual.scale.center=fixed:0.5")
    spec = override_prior(spec, "residual.scale.spread=fixed:0.001")
    means = []
    for sign in (1, -1):
        scores = bj.read_scores(frame(sign * y))
        fit = bj.fit(scores, spec, unit=1.0, location=0.0, draws=4, chains=2, random_seed=seed)
        effect = fit.posterior["posterior"]["backbone_language_effect"]
        means.append(effect.mean(("chain", "draw")).transpose("language", "backbone").to_numpy())
    return (means[0] - means[1]) / 2


def test_the_flat_limit_is_double_centering():
    y = cell_scores(n=6)
    np.testing.assert_allclose(flat_limit(y), double_centre(in_order(y).mean(0)), atol=1e-6)


# Tables with holes, and other facets.


def test_three_missing_cells():
    y = cell_scores()
    y[:, 0, 0] = y[:, 1, 1] = y[:, 2, 2] = np.nan
    found = bj.calibrate(bj.read_scores(frame(y)), **QUICK)
    assert found.adjusted["extrapolated"].sum() == 3
    assert found.interaction["estimate"].isna().sum() == 3
    np.testing.assert_allclose(
        matrix(found.adjusted, "adjusted"), interaction(in_order(y)).additive
    )
    assert found.interaction["posterior"].notna().all()
    # Balanced over the cells there are, the posterior is nearly as near as on a whole table:
    # 0.99 to 1.01 of a standard error over seeds, 1.14 to 1.17 as it is.
    balanced = found.interaction["difference_in_se"].abs().max()
    raw = found.interaction["posterior"] - found.interaction["estimate"]
    assert balanced < 1.05
    assert balanced < 0.95 * (raw / found.interaction["se"]).abs().max()
    assert "3 of 12 cells have no score" in found.findings[0].what
    assert found.adjusted["mean"].isna().sum() == 3
    assert found.held_out.n_splits == 20


def test_a_missing_language_for_one_backbone():
    y = cell_scores(noise=0.05)
    y[:, 3, 2] = np.nan
    found = bj.calibrate(bj.read_scores(frame(y)), model=None, **QUICK)
    assert found.interaction["estimate"].isna().sum() == 1
    lost = found.adjusted[found.adjusted["extrapolated"]].iloc[0]
    assert (lost["language"], lost["backbone"]) == ("01", "नमस्ते")
    # The other cells are balanced against one another where they can be.
    known = ~np.isnan(y[0])
    estimate = interaction(y).estimate
    design = np.hstack([np.kron(np.eye(4), np.ones((3, 1))), np.kron(np.ones((4, 1)), np.eye(3))])
    np.testing.assert_allclose(design[known.ravel()].T @ estimate[known], 0, atol=1e-12)


def test_a_language_that_one_backbone_alone_has_is_left_as_it_is():
    y = cell_scores()
    y[:, 3, 1:] = np.nan
    found = bj.calibrate(bj.read_scores(frame(y)), model=None, **QUICK)
    assert any("left as they are" in note for note in found.notes)
    rows = adjusted_scores_table(found)
    alone = rows[rows["language"] == "01"]
    np.testing.assert_array_equal(alone["score"], alone["adjusted_score"])


def test_judges_take_the_place_of_languages():
    table = frame(cell_scores()).rename(columns={"language": "judge"})
    found = bj.calibrate(bj.read_scores(table), model=None, **QUICK)
    assert list(found.interaction.columns[:2]) == ["judge", "backbone"]
    assert "as --between was not given" in found.notes[0]
    same = bj.calibrate(bj.read_scores(table), ("judge", "backbone"), model=None, **QUICK)
    pd.testing.assert_frame_equal(found.interaction, same.interaction)
    turned = bj.calibrate(bj.read_scores(table), ("backbone", "judge"), model=None, **QUICK)
    assert list(turned.interaction.columns[:2]) == ["backbone", "judge"]
    np.testing.assert_allclose(
        matrix(turned.interaction, "estimate", sorted(BACKBONES), sorted(LANGUAGES)),
        matrix(found.interaction, "estimate").T,
    )


def test_other_facets_are_averaged_within_a_task():
    y = cell_scores()
    parts = [frame(y + d, judge=j) for d, j in ((0.5, "a"), (-0.5, "b"))]
    found = bj.calibrate(bj.read_scores(pd.concat(parts)), model=None, **QUICK)
    np.testing.assert_allclose(
        matrix(found.interaction, "estimate"), double_centre(in_order(y).mean(0))
    )
    assert found.cells.averaged == ("judge",)
    assert not found.findings
    lost = pd.concat([parts[0], parts[1].iloc[:-1]])
    uneven = bj.calibrate(bj.read_scores(lost), model=None, **QUICK)
    assert "unlike shares of judge" in uneven.findings[-1].what


def test_a_user_facet_with_another_users_facet():
    y = cell_scores()
    table = frame(y).rename(columns={"language": "criterion", "backbone": "format"})
    both = pd.concat([table.assign(backbone="p"), table.assign(backbone="q")])
    scores = bj.read_scores(both, facets=["criterion", "format"])
    found = bj.calibrate(scores, ("criterion", "format"), model=None, **QUICK)
    assert list(found.interaction.columns[:2]) == ["criterion", "format"]
    assert found.cells.averaged == ("backbone",)


def test_lower_is_better_turns_the_ranks():
    y = cell_scores()
    up = bj.calibrate(bj.read_scores(frame(y)), model=None, **QUICK)
    down = bj.calibrate(bj.read_scores(frame(-y), lower_is_better=True), model=None, **QUICK)
    np.testing.assert_array_equal(up.adjusted["rank"], down.adjusted["rank"])
    assert up.held_out == down.held_out


def test_gold_is_compared_and_never_used():
    y = cell_scores(noise=0.1)
    gold = cell_scores(noise=0.0, gamma=np.zeros_like(GAMMA), seed=0)
    table = frame(y, human_score=gold.ravel())
    table.loc[::5, "human_score"] = None
    found = bj.calibrate(bj.read_scores(table), model=None, **QUICK)
    row = found.agreement.iloc[0]
    assert row["measure"] == "pairs"
    assert row["gain"] == pytest.approx(row["after"] - row["before"])
    assert row["gain_lower"] > 0
    assert any("not human-anchored" in note for note in found.notes)
    plain = bj.calibrate(bj.read_scores(frame(y)), model=None, **QUICK)
    np.testing.assert_array_equal(plain.adjusted_scores, found.adjusted_scores)
    assert plain.agreement is None
    empty = bj.calibrate(bj.read_scores(frame(y, human_score=[None] * y.size)), model=None, **QUICK)
    assert empty.agreement is None
    constant = bj.calibrate(bj.read_scores(frame(y, human_score=3)), model=None, **QUICK)
    assert constant.agreement is None
    assert any("no agreement with human_score" in note for note in constant.notes)


def test_gold_that_is_a_preference():
    rng = np.random.default_rng(0)
    gold = np.repeat(rng.integers(0, 2, (24, 4, 1)), 3, axis=2)
    y = np.clip(gold + rng.normal(0, 0.6, gold.shape), 0, 1)
    table = frame(y, human_score=gold.ravel())
    found = bj.calibrate(bj.read_scores(table), model=None, **QUICK)
    assert found.agreement["measure"].tolist() == ["scores", "panel"]
    assert any("is a preference" in note and "0.5" in note for note in found.notes)


def test_without_tasks_there_is_an_estimate_and_nothing_more():
    y = cell_scores()
    means = frame(y.mean(axis=0)[None]).drop(columns="scenario")
    found = bj.calibrate(bj.read_scores(means), **QUICK)
    np.testing.assert_allclose(
        matrix(found.interaction, "estimate"), double_centre(in_order(y).mean(0))
    )
    assert found.interaction["se"].isna().all()
    assert found.posterior is None
    assert found.held_out is None
    assert not len(found.reversals)
    assert "was not measured" in found.statements[1]
    assert any("one task only" in note for note in found.notes)


def test_two_tasks_have_no_halves_and_a_table_too_small_has_no_posterior():
    found = bj.calibrate(bj.read_scores(frame(cell_scores(n=2))), model=None, **QUICK)
    assert found.held_out is None
    assert any("no held-out figures" in note for note in found.notes)
    assert len(found.reversals) == 3
    y = cell_scores(n=2)
    y[0, :2] = y[1, 2:] = np.nan
    lone = bj.calibrate(bj.read_scores(frame(y)), **QUICK)
    assert lone.posterior is None
    assert any("no posterior" in note for note in lone.notes)


def test_few_resamples_for_many_pairs_are_said():
    y = np.random.default_rng(0).normal(size=(6, 2, 12))
    table = frame(y, backbones=[f"b{i:02d}" for i in range(12)])
    found = bj.calibrate(bj.read_scores(table), model=None, splits=2, resamples=999)
    assert any("too few for 66 pairs" in note for note in found.notes)


def test_cells_are_fitted_under_the_models_names():
    table = frame(cell_scores()).rename(columns={"language": "judge"})
    scores = bj.read_scores(table)
    reduced = table_of_cells(cells_of_scores(scores, "judge", "backbone"), scores)
    assert reduced.facet_names == ("backbone", "language", "scenario")
    assert reduced.levels("language") == tuple(sorted(LANGUAGES))


def test_what_is_refused():
    scores = bj.read_scores(frame(cell_scores()))
    one = bj.read_scores(frame(cell_scores()).assign(judge="only"))
    for error, message, call in [
        (bj.UsageError, "takes Scores", lambda: bj.calibrate(frame(cell_scores()))),
        (
            bj.UsageError,
            "interact with itself",
            lambda: bj.calibrate(scores, ("language", "language")),
        ),
        (bj.UsageError, "averaged over", lambda: bj.calibrate(scores, ("scenario", "backbone"))),
        (bj.DataError, "no facet 'judge'", lambda: bj.calibrate(scores, ("judge", "backbone"))),
        (bj.DataError, "one level only", lambda: bj.calibrate(one, ("judge", "backbone"))),
        (bj.UsageError, "splits", lambda: bj.calibrate(scores, splits=0)),
        (bj.UsageError, "resamples", lambda: bj.calibrate(scores, resamples=9)),
        (bj.UsageError, "ci_prob", lambda: bj.calibrate(scores, ci_prob=1.0)),
        (bj.UsageError, "rope", lambda: bj.calibrate(scores, rope=-1.0)),
        (bj.UsageError, "proxy_sd", lambda: bj.calibrate(scores, proxy_sd=0.0)),
        (bj.ModelError, "gaussian", lambda: bj.calibrate(scores, model="verdict")),
        (bj.ModelError, "no term", lambda: bj.calibrate(scores, model="cyclicjudge")),
        (bj.UsageError, "no engine", lambda: bj.calibrate(scores, engine="none")),
    ]:
        with pytest.raises(error, match=message):
            call()
    plain = frame(cell_scores()).groupby(["scenario", "backbone"], as_index=False)["score"].mean()
    with pytest.raises(bj.UsageError, match="no language and no judge"):
        bj.calibrate(bj.read_scores(plain))
    named = frame(cell_scores()).rename(columns={"language": "estimate"})
    with pytest.raises(bj.UsageError, match="share its name"):
        bj.calibrate(bj.read_scores(named, facets=["estimate"]), ("estimate", "backbone"))


def test_parts_that_no_cell_joins_are_named():
    y = cell_scores()
    table = frame(y).rename(columns={"language": "judge", "backbone": "format"})
    joined = table["judge"].isin(LANGUAGES[:2]) == table["format"].eq("gpt")
    both = pd.concat([table[joined].assign(backbone=b) for b in "pq"])
    scores = bj.read_scores(both, facets=["format"])
    with pytest.raises(bj.DataError, match="fall into 2 parts that no cell joins") as caught:
        bj.calibrate(scores, ("judge", "format"), model=None)
    assert "'English', 'العربية' with 'gpt'" in str(caught.value)


def test_a_random_facet_is_taken_as_a_panel_and_said():
    scores = bj.read_scores(frame(cell_scores()), random=["language"])
    found = bj.calibrate(scores, model=None, **QUICK)
    assert any("taken as a panel" in note for note in found.notes)
