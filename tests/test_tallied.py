"""Answers from moments are those of the rows: same models, same draws, same tables."""

from __future__ import annotations

import json
from dataclasses import fields, replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import bayesjudge as bj
from bayesjudge.cli import tallies
from bayesjudge.cli.app import app
from bayesjudge.engines.cross_products import cross_products, lay_out
from bayesjudge.engines.integrating import integrate
from bayesjudge.engines.moment_products import products_of_moments
from bayesjudge.errors import BayesjudgeError, DataError, ModelError, UsageError
from bayesjudge.planning.components import components_of_fit
from bayesjudge.planning.reliabilities import table_multipliers
from bayesjudge.resolution import resolve
from bayesjudge.scores import (
    moments_of_scores,
    read_scores,
    read_tally,
    scan,
    tally_of_scores,
)
from bayesjudge.scores.identification import gram
from bayesjudge.scores.lines import lines_of, residual_pattern, term_pattern
from bayesjudge.scores.regrouping import keep_level, regroup
from bayesjudge.spec import Prior, Scale, Term
from tests.dense_twin import (
    B3,
    CROSSED,
    DESIGNS,
    G2,
    L2,
    frame_of,
    half_normal,
    random_scales,
    scale_by,
    with_terms,
)
from tests.test_integrated import MORE
from tests.test_moments import NESTED, check_equal

EVERY = {**DESIGNS, **MORE}

# Scores of one generation have scales of their own.
REFUSED = {"residual by judge"}


def table(name):
    spec, frame, options = EVERY[name]
    scores = read_scores(frame.reset_index(drop=True), **options)
    return spec, scores, tally_of_scores(scores)


@pytest.mark.parametrize("name", EVERY)
def test_a_model_lies_on_moments_as_on_rows(name):
    spec, scores, tally = table(name)
    rows, lines = resolve(spec, scores), resolve(spec, tally)
    for field in ("dropped", "unit", "location", "notes", "panel", "random", "residual"):
        assert getattr(rows, field) == getattr(lines, field), field
    assert [t.name for t in rows.terms] == [t.name for t in lines.terms]
    assert [t.centred for t in rows.terms] == [t.centred for t in lines.terms]
    assert lines.labels == tuple(pair for pair in rows.labels if pair[0] != "generation")
    if name in REFUSED:
        with pytest.raises(ModelError, match=r"do not carry this model.*Read the rows"):
            integrate(lines)
        return
    one, other = integrate(rows), integrate(lines)
    if name not in NESTED:
        assert type(one) is type(other)
    sd, noise = (
        np.array(values)
        for values in zip(*(random_scales(rows, seed) for seed in range(3)), strict=True)
    )
    np.testing.assert_allclose(other.values(sd, noise), one.values(sd, noise), rtol=1e-12)


TABLES = st.fixed_dictionaries(
    {
        "backbone": st.integers(2, 3),
        "scenario": st.integers(1, 4),
        "judge": st.integers(1, 3),
        "generation": st.integers(1, 3),
    }
)


@settings(max_examples=40, deadline=None)
@given(sizes=TABLES, keep=st.floats(0.3, 1.0), seed=st.integers(0, 999), generations=st.booleans())
def test_traces_of_weighted_lines_are_those_of_rows(sizes, keep, seed, generations):
    if not generations:
        sizes = {k: v for k, v in sizes.items() if k != "generation"}
    frame = frame_of(seed, **sizes)
    kept = np.random.default_rng(seed).random(len(frame)) < keep
    kept[[0, -1]] = True
    scores = scan(frame[kept]).scores
    if scores is None:
        return
    panel = ("backbone", "judge")

    def traces(table):
        lines = lines_of(table)
        patterns = []
        for dims in (panel[:1], panel[1:], panel, ("scenario", "judge"), ("generation",)):
            if not set(dims) <= set(lines.facets):
                continue
            shape = tuple(lines.facets[d].n_levels for d in dims)
            codes = np.ravel_multi_index(tuple(lines.facets[d].codes for d in dims), shape)
            for centred in (tuple(d in panel for d in dims), (False,) * len(dims)):
                patterns.append(term_pattern(lines, "", dims, codes, shape, centred))
        return gram((*patterns, residual_pattern(lines, "residual")))

    rows, lines = traces(scores), traces(tally_of_scores(scores))
    # Traces are differences of sums of at most N^2.
    np.testing.assert_allclose(lines, rows, rtol=1e-10, atol=1e-10 * len(scores) ** 2)


FITTED = ("languages", "unbalanced", "generations", "languages and generations, unbalanced")


@pytest.mark.parametrize("name", FITTED)
def test_the_same_seed_gives_the_same_draws_and_answers(name):
    spec, scores, tally = table(name)
    one = bj.fit(scores, spec, draws=100, random_seed=3)
    other = bj.fit(tally, spec, draws=100, random_seed=3)
    # Sums differ in their last digits, and the search for the mode, which stops at a
    # gradient of 1e-6 or so, makes of that at most a hundred-thousandth of a unit. Resampling
    # steps along weights that lie 6e-5 apart: where a step lands within 1e-6 or so of the
    # next, one or two in a hundred, it takes the neighbour, and the draw is another.
    apart = np.zeros((4, 100), bool)
    for variable, values in one.posterior["posterior"].data_vars.items():
        same = np.isclose(other.posterior["posterior"][variable], values, rtol=1e-4, atol=1e-5)
        apart |= ~same.reshape(4, 100, -1).all(axis=2)
    assert apart.mean() <= 0.04
    for answer in (
        lambda fit: fit.leaderboard().drop(columns=["rank_lower_sim", "rank_upper_sim"]),
        lambda fit: fit.differences(rope=0.1),
        lambda fit: fit.pairwise(),
        lambda fit: fit.variance_components(),
        lambda fit: fit.leaderboard(scenario_pool=50)[["backbone", "mean", "sd", "p_best"]],
        lambda fit: fit.effects("scenario:backbone"),
    ):
        # What a few draws of 400 are worth, with effects of an sd of one or so: an interval
        # ends at the tenth of them, a tenth of an sd from the next.
        pd.testing.assert_frame_equal(answer(other), answer(one), rtol=0.1, atol=0.1)
    clustered = [fit.differences()["clustered_se"].to_numpy() for fit in (one, other)]
    np.testing.assert_allclose(clustered[1], clustered[0], rtol=1e-12)
    assert other.best_set() == one.best_set()
    assert other.convergence.converged == one.convergence.converged


@pytest.fixture(scope="module")
def fitted():
    _, scores, tally = table("generations, unbalanced")
    return bj.fit(scores, draws=50), bj.fit(tally, draws=50)


def test_a_saved_fit_holds_moments_and_no_rows(fitted, tmp_path):
    _, made = fitted
    held = bj.load(made.save(tmp_path / "fit.nc"))
    assert held == made
    assert "score" not in held.posterior["constant_data"]
    assert not [d for d in held.posterior["constant_data"].sizes if d == "observation"]
    check_equal(held.scores.moments, made.scores.moments)
    assert held.scores.facets == made.scores.facets
    assert held.scores.problems == made.scores.problems
    assert repr(held) == repr(made)
    pd.testing.assert_frame_equal(held.leaderboard(), made.leaderboard())
    # Not stored, and drawn from the moments anew.
    pd.testing.assert_frame_equal(
        held.effects("scenario:judge"), made.effects("scenario:judge"), rtol=1e-9
    )


@pytest.mark.parametrize(
    "asked",
    [
        lambda fit: fit.log_likelihood(),
        lambda fit: fit.posterior_predictive(),
        lambda fit: fit.prior_predictive(),
        lambda fit: fit.extend(predictive=True),
        lambda fit: fit.effects("generation"),
        lambda fit: bj.compare({"a": fit, "b": fit}),
        lambda fit: bj.human_anchored(fit),
        lambda fit: bj.audit(fit.scores),
        lambda fit: bj.plan_next(fit, 4),
        lambda fit: bj.fit(fit.scores, log_likelihood=True),
        lambda fit: bj.fit(fit.scores, engine="numpyro"),
        lambda fit: bj.fit(fit.scores, nested_effects=True, draws=10),
    ],
)
def test_what_needs_every_score_says_so(fitted, asked):
    with pytest.raises(BayesjudgeError, match="every score") as error:
        asked(fitted[1])
    assert "ead the rows themselves" in str(error.value)


def test_checks_that_were_not_made_are_named(fitted):
    (note,) = fitted[1].check_findings()
    assert (note.severity, len(fitted[1].checks())) == ("note", 0)
    assert "not checked" in note.what
    assert fitted[1].prior_findings() == ()


@pytest.mark.parametrize("model", ["verdict", "ordinal", "robust", "judge_scale", "uncertainty"])
def test_other_families_are_refused(model):
    tally = tally_of_scores(read_scores(frame_of(**B3)))
    with pytest.raises(ModelError, match=r"counts and sums.*gaussian"):
        bj.fit(tally, model)
    with pytest.raises(DataError, match="battles"):
        bj.fit(read_scores(frame_of(**B3)), "pairwise")


def test_where_neither_weights_nor_moves_fit_nuts_samples_the_scales_from_moments(monkeypatch):
    from bayesjudge.engines import exact, nuts

    monkeypatch.setattr(exact._Weighted, "fits", False)
    monkeypatch.setattr(exact, "move", lambda *_: type("Moved", (), {"mixed": False}))
    tally = tally_of_scores(read_scores(frame_of(**B3)))
    made = bj.fit(tally, "crossed_common", draws=20, tune=20, chains=1)
    assert made.metadata["method"] == "collapsed nuts"
    monkeypatch.setattr(nuts, "collapse", lambda _: None)
    with pytest.raises(ModelError, match="NUTS needs every score"):
        bj.fit(tally, draws=20)


MANY_CELLS = {
    "without generations": ({}, {}),
    "generations": ({"generation": 2}, {}),
    "random judge": ({}, {"random": ["judge"]}),
}


@pytest.mark.parametrize("name", MANY_CELLS)
def test_unbalanced_blocks_of_many_cells_go_by_cross_products(name):
    more, options = MANY_CELLS[name]
    frame = frame_of(drop=12, backbone=2, scenario=4, judge=6, language=3, **more)
    scores = read_scores(frame, **options)
    rows, lines = resolve(CROSSED, scores), resolve(CROSSED, tally_of_scores(scores))
    one, other = (cross_products(rows, lay_out(rows)), lay_out(lines))
    other = products_of_moments(lines, other, lines.moments)
    for field in fields(one):
        a, b = getattr(one, field.name), getattr(other, field.name)
        np.testing.assert_allclose(b, a, rtol=1e-9, atol=1e-8, err_msg=field.name)


def test_lines_of_one_residual_scale_each_go_by_cross_products():
    spec = replace(with_terms(Term(("judge",), half_normal(1.0))), residual=scale_by("judge"))
    scores = read_scores(frame_of(drop=4, **B3))
    rows, lines = resolve(spec, scores), resolve(spec, tally_of_scores(scores))
    one = cross_products(rows, lay_out(rows))
    other = products_of_moments(lines, lay_out(lines), lines.moments)
    for field in fields(one):
        a, b = getattr(one, field.name), getattr(other, field.name)
        np.testing.assert_allclose(b, a, rtol=1e-9, atol=1e-8, err_msg=field.name)


def test_unit_and_location_of_equal_scores():
    frame = frame_of(**B3).assign(score=7.3)
    for scores in (read_scores(frame), read_scores(frame.assign(score=0.0))):
        rows, lines = resolve(CROSSED, scores), resolve(CROSSED, tally_of_scores(scores))
        assert (rows.unit, rows.location) == (lines.unit, lines.location)


REGROUPINGS = [
    (("scenario", "backbone"), ("judge",)),
    (("scenario", "backbone"), ("language",)),
    (("scenario", "backbone"), ()),
    (("backbone",), ("judge", "language")),
    (("language", "backbone"), ("judge", "scenario")),
    (("backbone",), ("judge",)),
]


@pytest.mark.parametrize(("blocks", "cells"), REGROUPINGS)
@pytest.mark.parametrize("generation", [0, 2])
def test_regrouped_moments_are_those_taken_so(blocks, cells, generation):
    sizes = {**L2, **({"generation": generation} if generation else {})}
    scores = read_scores(frame_of(drop=9, **sizes), replicates=True)
    every = moments_of_scores(scores)
    found = regroup(every, blocks, cells)
    twin = moments_of_scores(scores, blocks, cells, every.location)
    merged = found.generations is not None and np.isnan(found.generations.cell_squares).any()
    if merged:
        assert "judge" not in (*blocks, *cells)
        lost = np.isnan(found.generations.cell_squares)
        found.generations.cell_squares[lost] = twin.generations.cell_squares[lost]
    check_equal(found, twin)


def test_generations_across_blocks_have_no_moments_by_them():
    every = moments_of_scores(read_scores(frame_of(**G2)))
    assert regroup(every, ("judge", "backbone"), ("scenario",)) is None
    assert regroup(every, ("scenario", "backbone"), ("judge",)) is every


def test_tables_of_patterns_that_would_be_too_large_are_not_made(monkeypatch):
    from bayesjudge.scores import regrouping

    monkeypatch.setattr(regrouping, "_MOST_ENTRIES", 10)
    every = moments_of_scores(read_scores(frame_of(**G2)))
    assert regroup(every, ("backbone",), ("judge", "scenario")) is None


def test_a_judge_that_no_term_has_is_summed_over():
    spec = with_terms(Term(("scenario",), Scale(Prior("half_normal", (1.0,)))))
    for sizes in (B3, G2):
        scores = read_scores(frame_of(**sizes))
        rows, lines = resolve(spec, scores), resolve(spec, tally_of_scores(scores))
        sd, noise = (x[None] for x in random_scales(rows, 1))
        np.testing.assert_allclose(
            integrate(lines).values(sd, noise), integrate(rows).values(sd, noise), rtol=1e-12
        )


def test_plans_and_reliability_from_moments(fitted):
    one, other = fitted
    a, b = (bj.reliability(fit) for fit in fitted)
    pd.testing.assert_frame_equal(b, a, rtol=0.02, atol=0.02)
    multipliers = [table_multipliers(one, components_of_fit(one))]
    multipliers.append(table_multipliers(other, components_of_fit(other)))
    for rows, lines in zip(*multipliers, strict=True):
        for x, y in zip(rows, lines, strict=True):
            np.testing.assert_allclose(y, x, rtol=1e-12, atol=1e-15)
    a, b = (components_of_fit(fit) for fit in fitted)
    assert [(p.name, p.facets, p.centred, p.by) for p in a.parts] == [
        (p.name, p.facets, p.centred, p.by) for p in b.parts
    ]
    assert (a.panel, a.others, a.judges, a.backbones) == (b.panel, b.others, b.judges, b.backbones)


def calibrated(scores, **options):
    return bj.calibrate(scores, splits=20, resamples=99, random_seed=1, **options)


@pytest.mark.parametrize("drop", [0, 7])
def test_calibration_from_moments(drop):
    frame = frame_of(drop=drop, backbone=3, scenario=5, judge=2, language=3, generation=2)
    scores = read_scores(frame)
    one, other = (calibrated(s, model=None) for s in (scores, tally_of_scores(scores)))
    np.testing.assert_allclose(other.cells.tasks, one.cells.tasks, rtol=1e-12)
    for name in ("interaction", "adjusted", "reversals"):
        pd.testing.assert_frame_equal(getattr(other, name), getattr(one, name), rtol=1e-9)
    assert other.held_out.adjusted_tau == pytest.approx(one.held_out.adjusted_tau, rel=1e-9)
    assert (other.findings, other.statements, set(other.notes)) == (
        one.findings,
        one.statements,
        set(one.notes),
    )
    assert other.adjusted_scores is None


def test_calibrations_posterior_from_moments():
    scores = read_scores(frame_of(backbone=3, scenario=5, judge=2, language=3))
    one, other = (calibrated(s, draws=50) for s in (scores, tally_of_scores(scores)))
    pd.testing.assert_frame_equal(other.interaction, one.interaction, rtol=0.02, atol=0.02)


# Scales of the table as a whole: from moments nothing is exact beyond rounding of that.
BALANCED = {
    "balanced": (B3, {}),
    "generations": (G2, {}),
    "languages": (L2, {}),
    "languages and generations": ({**L2, "generation": 2}, {}),
    "three judges, two criteria and generations": (
        {**G2, "criterion": 2},
        {"facets": ["criterion"]},
    ),
    "replicates": (B3, {"replicates": True}),
    "replicates of generations": (G2, {"replicates": True}),
    "without scenarios": ({"backbone": 3, "judge": 3, "generation": 4}, {}),
    "random judge": (G2, {"random": ["judge"]}),
    "one backbone": ({"backbone": 1, "scenario": 4, "judge": 3, "generation": 2}, {}),
}
FRAMES = (
    "components", "f_tests", "offsets", "coefficients", "means", "expected_mean_squares",
    "backbone_components", "backbone_f_tests", "backbone_offsets", "backbone_coefficients",
)  # fmt: skip


@pytest.mark.parametrize("name", BALANCED)
def test_anova_from_moments(name):
    sizes, options = BALANCED[name]
    frame = frame_of(**sizes)
    if "replicates" in name:
        frame = pd.concat([frame, frame_of(seed=1, **sizes)])
    measured = "judge" if name == "one backbone" else "backbone"
    scores = (
        read_scores(frame.reset_index(drop=True), **options) if measured == "backbone" else None
    )
    if scores is None:
        # A table of one backbone is not read to be ranked: one is left of two.
        from bayesjudge.decomposing import _of_backbone

        two = read_scores(pd.concat([frame, frame.assign(backbone="other")]))
        scores, tally = (_of_backbone(t, 1) for t in (two, tally_of_scores(two)))
    else:
        tally = tally_of_scores(scores)
    one, other = bj.anova(scores), bj.anova(tally)
    for which in FRAMES:
        a, b = getattr(one, which), getattr(other, which)
        pd.testing.assert_frame_equal(b, a, rtol=1e-9, atol=1e-10, obj=which)
    assert other.notes == one.notes
    assert repr(other) == repr(one)


@pytest.mark.parametrize("drop", [0, 9])
def test_one_backbone_of_moments_is_that_of_its_rows(drop):
    from bayesjudge.decomposing import _of_backbone

    scores = read_scores(frame_of(drop=drop, **G2))
    kept = keep_level(tally_of_scores(scores), "backbone", 1)
    twin = moments_of_scores(_of_backbone(scores, 1), location=kept.moments.location)
    check_equal(kept.moments, twin)
    assert kept.levels("backbone") == ("backbone1",)


def test_anova_refuses_unbalanced_moments():
    every = {**G2, "generation": 3}
    frames = {
        "a cell": frame_of(drop=1, **B3),
        "a score of a generation": frame_of(drop=1, **every),
        "a generation": frame_of(**every)[lambda f: f.index != 0],
    }
    moved = frame_of(**G2).reset_index(drop=True)
    frames["as many scores"] = moved.assign(
        generation=moved["generation"].where(moved.index != 0, "generation1")
    )
    for what, frame in frames.items():
        scores = read_scores(frame, replicates=True)
        for given_table in (scores, tally_of_scores(scores)):
            with pytest.raises(DataError, match="not balanced"):
                bj.anova(given_table)
            assert what


def test_anova_of_moments_asks_for_rows_where_columns_were_put_together():
    spec = with_terms(
        Term(("scenario",), Scale(Prior("half_normal", (1.0,)))),
        Term(("generation",), Scale(Prior("half_normal", (1.0,)))),
    )
    scores = read_scores(frame_of(**G2))
    bj.anova(scores, spec)
    with pytest.raises(DataError, match=r"judge.*Read the rows"):
        bj.anova(tally_of_scores(scores), spec)
    crossed = with_terms(Term(("judge", "generation"), Scale(Prior("half_normal", (1.0,)))))
    replicated = read_scores(pd.concat([frame_of(**G2)] * 2), replicates=True)
    with pytest.raises(DataError, match="every score"):
        bj.anova(tally_of_scores(replicated), crossed)


def test_equal_replicates_have_no_sum_of_squares_within_cells():
    frame = pd.concat([frame_of(**B3)] * 2)
    scores = read_scores(frame, replicates=True)
    for given_table in (scores, tally_of_scores(scores)):
        last = bj.anova(given_table).expected_mean_squares.iloc[-1]
        assert last["mean_square"] == 0.0


def run(*arguments):
    return CliRunner().invoke(app, [str(a) for a in arguments])


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("tallied") / "scores.parquet"
    frame_of(drop=5, backbone=3, scenario=5, judge=2, language=2).to_parquet(path, index=False)
    return path


def test_rank_from_moments(file, tmp_path):
    found = {}
    for option in ("--moments", "--no-moments"):
        out = tmp_path / option
        done = run("rank", file, option, "--draws", 100, "--json", "--out", out)
        assert done.exit_code in (0, 1), done.output
        found[option] = json.loads(done.stdout)
        assert (out / "posterior.nc").exists()
        assert (out / "report.html").exists() or list(out.glob("*.html"))
    one, other = found["--no-moments"], found["--moments"]
    assert other["meta"]["moments"] is True
    assert other["meta"]["n_scores"] == one["meta"]["n_scores"] == 55
    for a, b in zip(one["leaderboard"], other["leaderboard"], strict=True):
        assert a["backbone"] == b["backbone"]
        assert b["mean"] == pytest.approx(a["mean"], rel=1e-3)
        assert b["p_best"] == pytest.approx(a["p_best"], abs=0.01)
    again = run("rank", tmp_path / "--moments" / "posterior.nc", "--json")
    assert json.loads(again.stdout)["leaderboard"] == other["leaderboard"]


def test_plan_and_anova_from_moments(file, tmp_path):
    planned = run("plan", file, "--moments", "--budget", 500, "--draws", 100, "--json")
    assert planned.exit_code in (0, 1), planned.output
    assert json.loads(planned.stdout)["options"]
    whole = tmp_path / "whole.csv"
    frame_of(**B3).to_csv(whole, index=False)
    found = [
        json.loads(run("anova", whole, option, "--json").stdout)["components"]
        for option in ("--moments", "--no-moments")
    ]
    for a, b in zip(*found, strict=True):
        assert a["term"] == b["term"]
        assert a["variance"] == pytest.approx(b["variance"], rel=1e-9, abs=1e-12)


def test_calibrate_from_moments(file, tmp_path):
    out = tmp_path / "cbc"
    done = run("calibrate", file, "--moments", "--closed-form", "--json", "--out", out)
    assert done.exit_code == 0, done.output
    assert not (out / "adjusted_scores.csv").exists()
    rows = run("calibrate", file, "--closed-form", "--json")
    a, b = (json.loads(x.stdout)["interaction"] for x in (done, rows))
    assert [x["estimate"] for x in a] == pytest.approx([x["estimate"] for x in b], rel=1e-9)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("rank", "--by", "language"), "--by needs every score"),
        (("rank", "--predictive", "--out", "OUT"), "--predictive needs every score"),
        (("rank", "--engine", "numpyro"), "--engine numpyro"),
        (("rank", "--model", "verdict"), "model verdict"),
        (("rank", "--reliability"), "--reliability needs every score"),
        (("rank", "--format", "promptfoo"), "not of other tools' logs"),
        (("calibrate", "--by", "judge"), "--by needs every score"),
        (("anova", "--strategies"), "--strategies needs every score"),
        (("plan", "--next", "4"), "--next needs every score"),
        (("audit",), "an audit holds every score"),
    ],
)
def test_what_needs_rows_is_refused_with_moments(file, tmp_path, arguments, message):
    command, *options = (str(tmp_path / "out") if a == "OUT" else a for a in arguments)
    done = run(command, file, "--moments", *options)
    assert done.exit_code == 2
    assert message in " ".join(done.stderr.split())


def test_files_that_memory_would_not_hold_as_rows_are_passed_over(file, tmp_path, monkeypatch):
    csv = tmp_path / "scores.csv"
    pd.read_parquet(file).to_csv(csv, index=False)
    sizes = [tallies.size_as_rows([str(path)]) for path in (file, csv)]
    assert sizes == [20 * file.stat().st_size, 5 * csv.stat().st_size]
    assert tallies.size_as_rows([str(tmp_path)]) == sizes[1]
    assert tallies.size_as_rows([str(tmp_path / "none.csv")]) is None
    assert tallies.size_as_rows([str(tmp_path / "posterior.nc")]) is None
    for memory, taken in ((2 * sizes[1], False), (2 * sizes[1] - 1, True), (None, False)):
        monkeypatch.setattr(tallies, "memory_of_machine", lambda memory=memory: memory)
        assert tallies.takes_moments([str(csv)], None, None) is taken
    monkeypatch.setattr(tallies, "memory_of_machine", lambda: 1)
    assert not tallies.takes_moments([str(csv)], False, None)
    assert not tallies.takes_moments([str(csv)], None, "judge")
    assert not tallies.takes_moments([str(csv)], None, None, ["--predictive"])
    done = run("calibrate", csv, "--closed-form", "--json")
    assert done.exit_code == 0, done.output
    assert "read as counts and sums by cell" in " ".join(done.stderr.split())
    assert json.loads(done.stdout)["meta"]["moments"] is True


def test_memory_is_that_of_the_machine(monkeypatch):
    assert tallies.memory_of_machine() > 1 << 20

    def unknown(_):
        raise ValueError

    monkeypatch.setattr(tallies.os, "sysconf", unknown)
    assert tallies.memory_of_machine() is None


def test_fit_takes_no_frames():
    with pytest.raises(UsageError, match="fit takes Scores"):
        bj.fit(frame_of(**B3))


def test_a_tally_read_from_a_file_is_fitted(file):
    found = bj.fit(read_tally(file), draws=50)
    twin = bj.fit(read_scores(file), draws=50)
    pd.testing.assert_frame_equal(found.leaderboard(), twin.leaderboard(), rtol=0.02, atol=0.02)
