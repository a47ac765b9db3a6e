"""The audit as a whole: from a table to sections, flags and what is not there."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import bayesjudge as bj
from bayesjudge.auditing import labels as labels_module
from bayesjudge.auditing.answer import TITLES
from bayesjudge.errors import DataError, UsageError

CODES = ["en", "de", "hi", "he", "sw", "ja"]
QUICK = {"permutations": 99, "draws": 200}


def table(seed=0, items=60, judges=("a", "b"), shift=0.0, **columns):
    """Return scores in six languages; the first is lower by `shift`."""
    rng = np.random.default_rng(seed)
    item = rng.normal(size=items)
    rows = []
    for j, judge in enumerate(judges):
        for k, language in enumerate(CODES):
            score = item + 0.6 * rng.normal(size=items) - shift * (k == 0) + 10 * j
            rows.append(
                pd.DataFrame(
                    {"language": language, "evaluator": judge, "item": range(items), "score": score}
                )
            )
    out = pd.concat(rows, ignore_index=True).astype({"item": str})
    return out.assign(**{n: c(out, rng) if callable(c) else c for n, c in columns.items()})


def audited(frame, **keywords):
    read = {k: keywords.pop(k) for k in ("columns", "facets", "random", "lower_is_better")
            if k in keywords}  # fmt: skip
    return bj.audit(bj.read_languages(frame, **read), **(QUICK | keywords))


@pytest.fixture(scope="module")
def shifted():
    return audited(table(shift=1.0), posterior="items")


def test_every_analysis_is_made_or_said_to_be_missing(shifted):
    made = [s.key for s in shifted.sections]
    assert sorted([*made, *shifted.not_computed]) == sorted(TITLES)
    assert made == [key for key in TITLES if key in made]
    assert set(shifted.not_computed) == {
        "pairwise_accuracy",
        "uncertainty",
        "failures",
        "human_agreement",
    }
    assert "nll=COLUMN" in shifted.not_computed["uncertainty"]
    assert "6 languages" in repr(shifted)


def test_a_planted_offset_is_flagged_everywhere(shifted):
    where = {flag.where for flag in shifted.flags}
    assert {"offsets over all judges", "language means", "acceptance", "posterior"} <= where
    means = shifted["means"]["by_judge"].set_index(["judge", "language"])
    row = means.loc["a", "en"]
    assert row.ci_lower < -1.0 * 5 / 6 < row.ci_upper
    assert shifted["means"]["by_language"]["language"].iloc[-1] == "en"
    rates = shifted["posterior"]["rates"].set_index(["judge", "language"])
    assert rates.loc["b", "en"].p_disfavoured > 0.95
    assert rates.loc["b", "en"].p_lowest > 0.95
    fixed = shifted["offset_correction"]["corrections"].set_index(["judge", "sample"])
    assert fixed.loc["a", "in"].variance_removed == pytest.approx(1.0)
    assert 0.3 < fixed.loc["a", "out"].variance_removed < 1.0


def test_nothing_planted_raises_no_flag():
    found = audited(table(seed=3), posterior="items")
    assert not found.flags
    assert found["acceptance"]["gaps"]["gap"].min() > 0
    assert np.abs(found["acceptance"]["gaps"]["excess"]).max() < 0.15


def test_too_few_permutations_for_the_judges_are_said():
    found = audited(table(items=8), permutations=19, only="anova")
    assert any("give 80" in note for note in found.notes)


def test_the_same_seed_gives_the_same_and_another_does_not():
    frame = table()
    one, two = (audited(frame, random_seed=4, only="acceptance") for _ in range(2))
    other = audited(frame, random_seed=5, only="acceptance")
    pd.testing.assert_frame_equal(one["acceptance"]["gaps"], two["acceptance"]["gaps"])
    assert not one["acceptance"]["gaps"].equals(other["acceptance"]["gaps"])


def test_leaving_analyses_out_changes_no_other():
    frame = table(seed=2)
    whole = audited(frame, posterior="items")
    part = audited(frame, only=("dispersion",))
    assert [s.key for s in part.sections] == ["dispersion"]
    pd.testing.assert_frame_equal(whole["dispersion"]["tests"], part["dispersion"]["tests"])
    with pytest.raises(UsageError, match="--only"):
        part["means"]
    with pytest.raises(UsageError, match="no analysis"):
        part["mean"]


def test_lower_is_better_turns_acceptance_and_thresholds_round():
    frame = table(seed=6, judges=("a",), shift=1.0)
    up = audited(frame, posterior="items")
    down = audited(frame.assign(score=-frame["score"]), posterior="items", lower_is_better=True)
    a, b = (x["acceptance"]["rates"]["rate"] for x in (up, down))
    assert np.allclose(a, b)
    a, b = (x["posterior"]["thresholds"] for x in (up, down))
    assert np.allclose(a["threshold"], -b["threshold"])
    assert np.allclose(a["ci_lower"], -b["ci_upper"])
    a, b = (x["language_labels"]["bought"]["threshold"] for x in (up, down))
    assert np.allclose(a, -b)


# Posterior


@pytest.mark.parametrize("judges", [("a",), ("a", "b")])
def test_the_exact_engine_fits_language_by_item(judges):
    found = audited(table(shift=1.0, judges=judges), posterior="auto")
    rates = found["posterior"]["rates"]
    assert np.abs(rates["rate"] - rates["empirical"]).max() < 0.08
    notes = " ".join(next(s for s in found.sections if s.key == "posterior").notes)
    assert "crossed (exact" in notes
    assert ("crossed over judges" in notes) == (len(judges) > 1)
    low = rates[rates["language"] == "en"]
    assert (low["p_disfavoured"] > 0.95).all()
    limits = found["posterior"]["thresholds"]
    assert (limits["rate_lower"] < 0.5).all()
    assert (limits["rate_upper"] > 0.5).all()
    groups = found["posterior"]["shared"]
    assert sum(len(g.split(", ")) for g in groups["languages"]) == 6 * len(judges)


def test_scores_that_are_not_normal_are_said_so():
    frame = table(seed=1, judges=("a",))
    frame["score"] = np.exp(1.5 * frame["score"])
    found = audited(frame, posterior="model", only=("acceptance", "posterior"))
    assert any("normal scores do not describe" in f.what for f in found.flags)
    normal = audited(
        table(seed=1, judges=("a",)), posterior="model", only=("acceptance", "posterior")
    )
    assert not any("normal scores do not describe" in f.what for f in normal.flags)


def test_a_model_that_does_not_fit_is_left_for_items(monkeypatch):
    def refuse(*_, **__):
        raise bj.ModelError("no")

    monkeypatch.setattr("bayesjudge.auditing.believing.fit", refuse)
    found = audited(table(items=20), only="posterior")
    assert len(found["posterior"]["gaps"]) == 3
    assert "crossed (" not in " ".join(found.sections[0].notes[:2])
    with pytest.raises(bj.ModelError):
        audited(table(items=20), only="posterior", posterior="model")


def test_graded_scores_weigh_scenarios():
    frame = table(seed=1, judges=("a",))
    frame["score"] = np.clip(np.round(frame["score"] + 3), 1, 5)
    found = audited(frame, only=("acceptance", "posterior"))
    notes = " ".join(found.sections[-1].notes)
    assert "Bayesian bootstrap" in notes
    assert found["acceptance"]["gaps"]["threshold"].iloc[0] in {1.0, 2.0, 3.0, 4.0}


def test_no_posterior_if_none_is_wanted():
    found = audited(table(), posterior="none", only="posterior")
    assert "not asked for" in found.not_computed["posterior"]


def verdicts(**keywords):
    frame = table(seed=2, shift=1.5, **keywords)
    frame["score"] = (frame["score"] - 10 * (frame["evaluator"] == "b") > 0).astype(int)
    return frame


def test_verdicts_are_acceptance_themselves():
    found = audited(verdicts(items=24))
    gaps = found["acceptance"]["gaps"]
    assert (gaps["threshold"] == 0.5).all()
    assert (gaps["n"] == 24 * 6).all()
    for key in ("offset_correction", "dispersion", "language_labels"):
        assert "verdicts" in found.not_computed[key]
    assert set(found["posterior"]) == {"gaps", "rates"}
    rates = found["posterior"]["rates"]
    assert np.abs(rates["rate"] - rates["empirical"]).max() < 1e-12


def test_verdicts_have_a_model_where_it_is_asked_for(monkeypatch):
    """What NUTS makes of them is tests/test_family_fits.py's business: here, what is asked."""
    asked = []

    def fake(scores, model="crossed", **keywords):
        asked.append((model, scores.levels("backbone"), scores.levels("judge"), keywords))
        means = np.linspace(0.2, 0.7, 6) + np.zeros((50, 1))
        return SimpleNamespace(
            means=lambda: means,
            labels=scores.levels("backbone"),
            convergence=SimpleNamespace(converged=False),
        )

    monkeypatch.setattr("bayesjudge.auditing.believing.fit", fake)
    found = audited(verdicts(items=10), posterior="model", only="posterior", random_seed=7)
    assert asked == [("verdict", tuple(sorted(CODES)), ("a", "b"), {"random_seed": 7})]
    rates = found["posterior"]["rates"].set_index(["judge", "language"])["rate"]
    assert rates["(mean of all)", "de"] == pytest.approx(0.2)
    assert rates["(mean of all)", "sw"] == pytest.approx(0.7)
    assert "verdict (numpyro" in " ".join(found.sections[0].notes)
    assert any("did not converge" in flag.what for flag in found.flags)


# Pairs, uncertainty, labels, failures


def paired():
    good = table(seed=1, items=40).assign(answer="chosen")
    good["score"] += 2.0
    bad = table(seed=2, items=40, shift=1.0).assign(answer="rejected")
    return pd.concat([good, bad], ignore_index=True)


def test_pairs_are_compared_and_one_answer_judged():
    found = audited(paired(), columns={"pair": "answer"}, posterior="items")
    summary = found["pairwise_accuracy"]["summary"]
    assert (summary["mean"] > 0.6).all()
    by = found["pairwise_accuracy"]["by_language"]
    assert (by["n"] == 40).all()
    assert by["acceptance"].notna().all()
    assert summary["acceptance_gap"].gt(0.1).all()
    assert found["means"]["by_judge"]["n"].eq(40).all()
    assert any("rejected answer" in note for note in found.notes)
    both = audited(paired(), columns={"pair": "answer"}, answers="both", only="means")
    assert both["means"]["by_judge"]["n"].eq(80).all()
    chosen = audited(paired(), columns={"pair": "answer"}, answers="chosen", only="means")
    assert chosen["means"]["by_language"]["mean"].mean() > 6.0
    only = audited(paired(), columns={"pair": "answer"}, only="pairwise_accuracy")
    assert "acceptance" not in only["pairwise_accuracy"]["by_language"]


def test_answers_that_cannot_be_told_apart_are_refused():
    frame = paired().replace({"answer": {"chosen": "first"}})
    with pytest.raises(DataError, match="'first'"):
        audited(frame, columns={"pair": "answer"})
    half = paired()[lambda t: t["answer"] == "chosen"]
    with pytest.raises(DataError, match="--answers"):
        audited(half, columns={"pair": "answer"})


def nll(frame, rng):
    base = 100 + 10 * frame["language"].map(CODES.index) + 5 * rng.normal(size=len(frame))
    return base + 8 * frame["item"].astype(int) / 60


def test_uncertainty_is_regressed():
    frame = table(nll=nll, n_tokens=tokens)
    frame.loc[frame.index[:3], "nll"] = np.nan
    found = audited(frame, only="uncertainty")
    parts = found["uncertainty"]
    assert list(parts["nested"]["judge"]) == ["a", "b"]
    assert parts["nested"]["n"].tolist() == [357, 360]
    assert len(parts["within_language"]) == 12
    assert (parts["signs"][["positive", "negative", "neither"]].sum(axis=1) == 6).all()
    assert parts["language_level"]["judge"].tolist() == ["a", "b", "(mean)"]
    assert parts["language_level"]["n"].tolist() == [6, 6, 0]
    per = parts["per_token"]
    assert (per.groupby("judge")["rank_summed"].max() == 6).all()
    notes = " ".join(found.sections[0].notes)
    assert "3 rows without an NLL" in notes
    assert "a: mean NLL differs 1." in notes
    assert found.scores.n_excluded == 0
    without = audited(table(nll=nll), only="uncertainty")
    assert "n_tokens=COLUMN" in " ".join(without.sections[0].notes)
    empty = audited(table(nll=np.nan), only="uncertainty")
    assert "no row" in empty.not_computed["uncertainty"]


def tokens(frame, rng):
    return 10 + frame["language"].map(CODES.index)


def mislabelled(frame, rng):
    return frame["language"].where(~((frame["language"] == "hi") & (rng.random(len(frame)) < 0.5)),
                                   "en")  # fmt: skip


def test_wrong_labels_are_shown_with_what_they_buy():
    frame = table(shift=1.5, lid_language=mislabelled)
    found = audited(frame, only="language_labels")["language_labels"]
    row = found["labelled"].set_index(["judge", "language"]).loc["a", "hi"]
    assert 5 < row.mislabelled < 30
    assert row.bought > 0.05
    assert row.labelled_mislabelled > row.own_mislabelled
    rest = found["labelled"][found["labelled"]["language"] != "hi"]
    assert (rest["bought"] == 0).all()
    worst = found["bought"].set_index(["judge", "language"])
    assert worst.loc["a", "sw"].best_label == "en"
    flagged = audited(frame, only="language_labels").flags
    assert "a, hi" in flagged[0].what


def test_texts_are_identified_where_the_extra_is(monkeypatch):
    frame = table(shift=1.5, judges=("a",))
    frame["text"] = "text in " + frame["language"]
    monkeypatch.setattr(
        "bayesjudge.auditing.explaining.identify_languages",
        lambda texts: tuple("en" if t.endswith("hi") else t[-2:] for t in texts),
    )
    found = audited(frame, only="language_labels")["language_labels"]["labelled"]
    assert found.set_index("language").loc["hi", "mislabelled"] == 30


def test_texts_without_the_extra_are_a_clear_error(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "py3langid", None)
    found = audited(table(text="what"), only="language_labels")
    assert "bayesjudge[lid]" in " ".join(found.sections[0].notes)
    assert set(found["language_labels"]) == {"bought", "if_labelled"}
    with pytest.raises(UsageError, match=r"bayesjudge\[lid\]"):
        labels_module.identify_languages(("x",))

    class Stub:
        @staticmethod
        def classify(text):
            return ("de", len(text))

    monkeypatch.setitem(__import__("sys").modules, "py3langid", Stub)
    assert labels_module.identify_languages(("x", "y")) == ("de", "de")


def tagged(frame, rng):
    bad = (frame["language"] == "sw") & (frame["evaluator"] == "a") & (rng.random(len(frame)) < 0.5)
    return np.where(bad, "empty", "ok")


def test_failures_stand_beside_what_was_stored():
    frame = table(verdict_tag=tagged)
    frame.loc[frame["verdict_tag"] == "empty", "score"] = -3.0
    found = audited(frame, failures="empty", posterior="items")
    by = found["failures"]["by_language"].set_index(["judge", "language"])
    row = by.loc["a", "sw"]
    assert row.stored < -1.0
    assert row.missing > -0.6
    assert row.differs
    assert not by.loc["b"]["differs"].any()
    flags = " ".join(f.what for f in found.flags)
    assert "move language means" in flags
    assert "answers fail more often" in flags
    assert "answers of a failed" in flags
    mean = found["means"]["by_judge"].set_index(["judge", "language"]).loc["a", "sw"]
    assert mean["mean"] == pytest.approx(row.missing)
    unnamed = audited(frame, only=("means", "failures"))
    assert any("none is said to mean failure" in f.what for f in unnamed.flags)
    assert "verdict_tag" in unnamed.not_computed["failures"]


def test_parse_ok_says_what_failed():
    frame = table()
    frame["parse_ok"] = np.where(frame.index < 10, "False", "true")
    found = audited(frame, only="failures")
    assert found["failures"]["summary"]["failed"].tolist() == [10, 0]
    with pytest.raises(DataError, match="neither true nor false"):
        audited(table(parse_ok="maybe"))
    with pytest.raises(DataError, match="all answers failed"):
        audited(table(parse_ok="0"))


def test_failures_that_are_not_there_are_refused():
    with pytest.raises(DataError, match="no row has the tag 'bad'"):
        audited(table(verdict_tag=tagged), failures=["bad"])
    with pytest.raises(DataError, match="no column of tags"):
        audited(table(), failures=["bad"])


# Cells, incomplete tables, cell means


def test_splits_are_cells_and_count_alike():
    one, two = table(seed=1, items=30), table(seed=2, items=60)
    frame = pd.concat([one.assign(split="x"), two.assign(split="y")], ignore_index=True)
    found = audited(frame, facets="split", posterior="items")
    cells = found["means"]["by_cell"].set_index(["language", "cell"])["mean"]
    by = found["means"]["by_judge"].set_index(["judge", "language"])["mean"]
    assert by.groupby("language").mean()["de"] == pytest.approx(
        (cells["de", "x"] + cells["de", "y"]) / 2
    )
    assert found["interaction"]["shares"]["n_items"].tolist() == [90, 90]


def test_missing_cells_are_taken_as_they_are():
    frame = table(seed=4).sample(frac=0.8, random_state=1)
    found = audited(frame, posterior="items")
    shares = found["interaction"]["shares"]
    assert (shares["n_items"] + shares["items_left_out"] == 60).all()
    assert found["posterior"]["rates"]["rate"].between(0, 1).all()


def test_scores_that_are_missing_in_one_language_are_said():
    frame = table(seed=4)
    lost = (frame["language"] == "sw") & (frame["evaluator"] == "b") & (frame.index % 3 == 0)
    frame.loc[lost, "score"] = np.nan
    found = audited(frame, only="means")
    (flag,) = [f for f in found.flags if "not missing at random" in f.what]
    assert flag.where == "judge b"
    assert "66.7% of the items in sw" in flag.what


def test_evaluators_taken_for_backbones_are_said():
    frame = table(items=10).rename(columns={"evaluator": "model"})
    found = audited(frame, only="means")
    assert "judge=model" in found.flags[0].remedy
    named = audited(frame, columns={"judge": "model"}, only="means")
    assert not any("one judge's" in f.what for f in named.flags)


def test_a_judge_without_a_language_is_answered():
    frame = table(seed=4)
    frame = frame[~((frame["evaluator"] == "b") & (frame["language"] == "ja"))]
    found = audited(frame)
    by = found["means"]["by_judge"].set_index(["judge", "language"])
    assert np.isnan(by.loc["b", "ja"]["mean"])
    assert len(found["posterior"]["thresholds"]) == 11


def test_languages_with_items_of_their_own_are_said():
    frame = table(judges=("a",))
    frame["item"] += frame["language"]
    found = audited(frame, posterior="items")
    assert any("differences between their items" in note for note in found.notes)
    assert "interaction" in found.not_computed


def cell_means_of(frame):
    by = frame.groupby(["language", "evaluator"], as_index=False)["score"]
    return by.agg(score="mean", sd="std", n="count")


def test_cell_means_carry_what_they_can():
    frame = table(shift=1.0)
    found = audited(cell_means_of(frame))
    assert {"means", "anova", "agreement", "resource"} == {s.key for s in found.sections}
    full = audited(frame, only=("means", "anova"))
    for name in ("f", "df1", "df2", "p_value"):
        assert np.allclose(found["anova"]["tests"][name], full["anova"]["tests"][name])
    a, b = (x["means"]["by_language"].set_index("language")["z"] for x in (found, full))
    assert np.allclose(a.sort_index(), b.sort_index())
    assert found["means"]["by_judge"]["se"].between(0.1, 0.2).all()
    for key in ("acceptance", "interaction", "posterior"):
        assert "scenario=COLUMN" in found.not_computed[key]
    assert any("cell means" in note for note in found.notes)


def test_cell_means_without_n_and_sd_say_so():
    found = audited(cell_means_of(table())[["language", "evaluator", "score"]])
    assert "sd=COLUMN" in found.not_computed["anova"]
    gap = cell_means_of(table())
    gap.loc[0, "n"] = np.nan
    tests = audited(gap)["anova"]["tests"]
    assert np.isnan(tests["f"].iloc[0])
    assert np.isfinite(tests["f"].iloc[1])


def test_cell_means_of_pairs_carry_differences():
    frame = paired()
    by = frame.groupby(["language", "evaluator", "answer"], as_index=False)["score"].mean()
    found = audited(by, columns={"pair": "answer"})
    table_ = found["pairwise_accuracy"]["differences"]
    assert (table_["difference"] > 1.0).all()


def test_cell_means_with_uncertainty_have_correlations_only():
    frame = table(nll=nll)
    by = frame.groupby(["language", "evaluator"], as_index=False)[["score", "nll"]].mean()
    found = audited(by)
    assert set(found["uncertainty"]) == {"language_level"}


# Resource


def test_own_shares_and_classes_are_taken():
    shares = dict(zip(CODES, [50, 6, 0.2, 0.3, 0.01, 5], strict=True))
    frame = table(shift=1.0)
    frame["web_share"] = frame["language"].map(shares)
    frame["resource"] = np.where(frame["language"] == "sw", "low", "much")
    found = audited(frame, only="resource")
    assert "the table's own column" in " ".join(found.sections[0].notes)
    facts = found["resource"]["languages"].set_index("language")
    assert facts.loc["en", "web_share"] == 50
    by_class = found["resource"]["by_class"].set_index("resource_class")
    assert by_class["languages"].to_dict() == {"much": 5, "low": 1}
    by_script = found["resource"]["by_script"].set_index("script")
    assert by_script["languages"].to_dict() == {
        "Latin": 3, "Devanagari": 1, "Hebrew": 1, "Japanese": 1,
    }  # fmt: skip
    mean = facts.loc[["en", "de", "sw"], "z"].mean()
    assert by_script.loc["Latin", "z"] == pytest.approx(mean)
    mixed = frame.copy()
    mixed.loc[0, "web_share"] = 1.0
    with pytest.raises(DataError, match="several values of web_share"):
        audited(mixed, only="resource")
    mixed = frame.copy()
    mixed.loc[0, "resource"] = "high"
    with pytest.raises(DataError, match="several resource classes"):
        audited(mixed, only="resource")


def test_languages_of_no_known_name_have_no_resource_level():
    frame = table().replace({"language": {c: f"L-{c}-x" for c in CODES}})
    found = audited(frame, only="resource")
    assert "ISO 639" in found.not_computed["resource"]


# Refusals


def test_what_cannot_be_audited_is_said():
    with pytest.raises(UsageError, match="read_languages"):
        bj.audit(table())
    with pytest.raises(DataError, match="no column of this table is known to be the language"):
        bj.read_languages(table().drop(columns="language"))
    with pytest.raises(DataError, match="one language only"):
        bj.read_languages(table()[lambda t: t["language"] == "en"])
    with pytest.raises(DataError, match="more than one score"):
        bj.read_languages(table().drop(columns="item"))
    repeated = bj.read_languages(table().drop(columns="item"), replicates=True)
    with pytest.raises(DataError, match="scenario=COLUMN"):
        bj.audit(repeated)
    ranked = table().rename(columns={"language": "model"})
    with pytest.raises(DataError, match="no facet 'language'"):
        bj.audit(bj.read_scores(ranked))
    with pytest.raises(DataError, match="one language only"):
        bj.audit(bj.read_scores(ranked.assign(language="en")))


def test_a_table_read_for_the_audit_is_not_ranked():
    scores = bj.read_languages(table())
    with pytest.raises(DataError, match="no facet 'backbone'"):
        bj.fit(scores)


@pytest.mark.parametrize(
    "wrong",
    [
        {"quantile": 0.0}, {"held_out": 1.5}, {"ci_prob": 2}, {"target": 1.0}, {"margin": -0.1},
        {"permutations": 3}, {"draws": 2.5}, {"random_seed": -1}, {"answers": "all"},
        {"posterior": "nuts"}, {"only": ("mean",)},
    ],
)  # fmt: skip
def test_settings_out_of_range_are_refused(wrong):
    scores = bj.read_languages(table(items=4))
    with pytest.raises(UsageError):
        bj.audit(scores, **wrong)


def test_columns_beside_the_scores_are_kept_with_their_gaps():
    frame = table(items=3, nll=1.0, verdict_tag="ok")
    frame.loc[0, "nll"] = np.nan
    frame.loc[1, "verdict_tag"] = None
    scores = bj.read_languages(frame)
    assert np.isnan(scores.number("nll")).sum() == 1
    assert (scores.tag("verdict_tag").codes == -1).sum() == 1
    assert scores.number("sd") is None
    assert scores.tag("text") is None
    assert scores == bj.read_languages(frame)
    assert scores != bj.read_languages(frame.assign(verdict_tag="ok"))
    assert scores != bj.read_languages(frame.drop(columns="nll"))
    assert len(scores) == len(frame)
    with pytest.raises(UsageError, match="measured"):
        bj.read_scores(frame, measured="judge")


def few(n, languages=4):
    """Return noise: `n` scenarios in languages without any effect, by two judges."""
    rng = np.random.default_rng([n, 5])
    at = np.indices((n, languages, 2)).reshape(3, -1)
    score = rng.normal(size=n)[at[0]] + rng.normal(size=at.shape[1])
    names = ("item", "language", "evaluator")
    return pd.DataFrame(
        {name: [f"{name[0]}{k}" for k in codes] for name, codes in zip(names, at, strict=True)}
    ).assign(score=score)


@pytest.mark.parametrize("n", [2, 3, 5, 19])
def test_few_scenarios_have_rates_and_no_probabilities(n):
    found = audited(few(n), posterior="items", only="posterior")
    assert not found.flags
    told = found["posterior"]
    assert "shared" not in told
    assert told["rates"]["rate"].between(0, 1).all()
    unsure = ["sd", "ci_lower", "ci_upper", "p_favoured", "p_disfavoured", "p_highest", "p_lowest"]
    assert told["rates"][unsure].isna().all(axis=None)
    assert told["gaps"]["p_above_margin"].isna().all()
    assert told["thresholds"]["threshold"].notna().all()
    assert told["thresholds"][["ci_lower", "rate_upper"]].isna().all(axis=None)
    notes = " ".join(found.sections[0].notes)
    assert f"has {n} scenarios only" in notes
    assert "fewer than 20" in notes


def test_enough_scenarios_have_probabilities():
    told = audited(few(20), posterior="items", only="posterior")["posterior"]
    assert told["rates"].notna().all(axis=None)
    assert told["gaps"]["p_above_margin"].notna().all()


@pytest.mark.parametrize("posterior", ["auto", "items", "model"])
def test_one_scenario_has_no_posterior(posterior):
    found = audited(few(1), posterior=posterior)
    assert "one scenario only" in found.not_computed["posterior"]
    assert not any(flag.where == "posterior" for flag in found.flags)


def test_a_language_of_few_scenarios_and_cells_of_one_are_few():
    frame = few(30)
    short = frame[(frame["language"] != "l3") | frame["item"].isin(["i0", "i1", "i2"])]
    told = audited(short, posterior="items", only="posterior")
    assert "has 3 scenarios only" in " ".join(told.sections[0].notes)
    cells = audited(frame.assign(split=frame["item"]), facets="split", posterior="items",
                    only="posterior")  # fmt: skip
    assert "has 1 scenario only" in " ".join(cells.sections[0].notes)
    assert not cells.flags


def test_both_answers_of_pairs_are_not_to_be_pooled():
    with pytest.raises(DataError, match="--column pair=answer") as error:
        audited(paired())
    assert "--facet" not in str(error.value)
    found = audited(paired(), facets="answer", only="means")
    pooled = [flag for flag in found.flags if "both answers" in flag.what]
    assert pooled
    assert "--column pair=answer" in pooled[0].remedy
    yes = paired().replace({"answer": {"chosen": "yes", "rejected": "no"}})
    with pytest.raises(DataError, match=r"--column pair=answer.*--facet answer"):
        audited(yes)


def test_equal_and_huge_scores_are_null_in_silence():
    """Warnings are errors here."""
    frame = table(items=8)
    for score in (1.0, np.where(frame["evaluator"] == "a", 1.0, frame["score"])):
        found = audited(frame.assign(score=score), posterior="items")
        assert not any(flag.where == "scores" for flag in found.flags)
    found = audited(frame.assign(score=1e300 * frame["score"]), posterior="items")
    assert any("too large" in flag.what for flag in found.flags)


def test_few_scenarios_do_not_tell_spreads_apart():
    found = audited(few(2, languages=23), only="dispersion")
    assert not found.flags
    assert found["dispersion"]["tests"]["p_value"].isna().all()
    assert "fewer than 10" in found.sections[0].notes[-1]
    enough = audited(few(10), only="dispersion")
    assert enough["dispersion"]["tests"]["p_value"].notna().all()
