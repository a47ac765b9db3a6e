"""What a page shows is what the fit says, and no label gets out of its place."""

from __future__ import annotations

import html as html_module
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import bayesjudge as bj
from bayesjudge.errors import UsageError
from bayesjudge.planning.components import components_of_fit
from bayesjudge.planning.designs import Design, design_variance, pair_contrasts
from bayesjudge.report.page import beside, pictures, svg
from bayesjudge.report.page.contents import Absent
from bayesjudge.report.page.decisions import generations_of
from bayesjudge.report.page.decomposed import components_of, disagree
from bayesjudge.report.page.gathering import gather, neighbours
from bayesjudge.report.page.judging import own_pairs, self_preference
from bayesjudge.report.page.languages import languages_of
from bayesjudge.report.page.names import TABLE_FILES
from bayesjudge.report.page.predicted import bins_of, compare_scores
from bayesjudge.report.page.rendering import document, island
from bayesjudge.report.page.tables import matrix_cells, table
from bayesjudge.report.results_folder import report_text
from tests.golden.page.cases import HOSTILE
from tests.page_fits import LANGUAGES, SECTIONS, TITLE, answer_of, contents_of, fit_of, page_of

ALL = ("gaussian", "multilingual", "alone", "unpaired", "ordinal", "verdict")


class Outline(HTMLParser):
    """Collects what a parser finds: tags, attributes and texts."""

    def __init__(self):
        super().__init__()
        self.tags, self.attributes, self.texts = [], [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [name for name, _ in attrs]

    def handle_data(self, data):
        self.texts.append(data)


def outline(html):
    found = Outline()
    found.feed(html)
    return found


@pytest.mark.parametrize("name", ALL)
def test_every_section_is_there_and_says_something(name):
    html = page_of(name)
    for section in SECTIONS:
        body = re.search(f'<section id="{section}".*?</section>', html, re.DOTALL)[0]
        said = re.sub(r"<h2.*?</h2>", "", body, flags=re.DOTALL)
        assert len(re.sub(r"<[^>]+>", "", said).strip()) > 20, section


@pytest.mark.parametrize("name", ALL)
def test_labels_stay_text(name):
    found = outline(page_of(name))
    assert not {"img", "b", "i"} & set(found.tags)
    assert found.tags.count("script") == 2
    assert not [a for a in found.attributes if a.startswith("on") or a in ("src", "style")]
    for tag in ("link", "iframe", "object", "base", "form"):
        assert tag not in found.tags


def test_nothing_refers_to_elsewhere():
    html = page_of("multilingual")
    text = html_module.unescape(html)
    assert not re.search(r"(?:https?:)?//[a-z]", text.replace("http://www.w3.org/2000/svg", ""))
    assert "@import" not in html
    assert "url(" not in html


def test_the_policy_allows_what_is_there_and_no_more():
    import base64
    import hashlib

    html = page_of("gaussian")
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', html)[1]
    assert policy.startswith("default-src 'none';")
    assert "unsafe" not in policy
    for tag in ("style", "script"):
        text = re.search(f"<{tag}>(.*?)</{tag}>", html, re.DOTALL)[1]
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"sha256-{digest}" in policy


def test_the_same_fit_gives_the_same_page():
    fit = fit_of("gaussian")
    pages = []
    for _ in range(2):
        contents = gather(bj_answer(fit))
        from bayesjudge.report.page.rendering import page

        pages.append(page(contents))
    assert pages[0] == pages[1]


def bj_answer(fit):
    from bayesjudge.report.answers import Question, answer

    return answer(fit, Question())


@given(st.text(), st.text())
def test_data_never_leave_their_island(label, other):
    text = island({label: [other, None, 1.5]})
    assert not set("<>&\u2028\u2029") & set(text)
    if not re.search("[\ud800-\udfff]", label + other):
        assert json.loads(text) == {label: [other, None, 1.5]}
    whole = document(label, "<main></main>", {"x": other})
    assert outline(whole).tags.count("script") == 2


@given(st.text(), st.text())
def test_tables_show_any_text(label, other):
    from bayesjudge.report.cells import Cells

    cells = Cells((label, "n"), (False, True), ((other, label),), notes=(other,))
    found = outline(table(cells, label, keys=[other]))
    assert set(found.tags) <= {
        *("div", "table", "caption", "thead", "tr", "th", "tbody", "td", "bdi", "p"),
    }
    assert not [a for a in found.attributes if a.startswith("on")]


def test_the_island_holds_the_numbers():
    text = re.search(r'id="data">(.*?)</script>', page_of("gaussian"), re.DOTALL)[1]
    found = json.loads(text)["matrices"]
    assert set(found) == {"ranks", "pairwise", "offsets"}
    answer = answer_of("gaussian")
    order = list(answer.leaderboard["backbone"])
    assert found["ranks"]["rows"] == order
    wanted = answer.rank_probabilities.loc[order].to_numpy()
    np.testing.assert_allclose(found["ranks"]["values"], wanted, rtol=1e-3)
    pairs = np.array(found["pairwise"]["values"], float)
    np.testing.assert_allclose(pairs, answer.pairwise.loc[order, order].to_numpy(), rtol=1e-3)


def test_absent_sections_say_why():
    contents = contents_of("alone")
    assert "no panel" in contents.judges.why
    assert "no column for the language" in contents.languages.why
    unpaired = contents_of("unpaired")
    assert "compares no pairs" in unpaired.pairwise.why
    assert isinstance(unpaired.design, Absent)
    ordinal = contents_of("ordinal")
    assert "family cumulative" in ordinal.design.why
    assert "gaussian" in ordinal.components.closed
    assert ordinal.predictive.names == ("1", "2", "3", "4", "5")
    assert ordinal.standing.unit == "expected score"
    assert contents_of("verdict").standing.unit == "probability of a 1"


def test_neighbours_are_in_the_order_of_the_leaderboard():
    answer = answer_of("gaussian")
    order = tuple(answer.leaderboard["backbone"])
    found = neighbours(answer.differences, order)
    pairs = [{a, b} for a, b in zip(found["backbone"], found["other"], strict=True)]
    assert pairs == [{a, b} for a, b in pairwise(order)]


def test_judges_meet_their_own():
    contents, fit = contents_of("gaussian"), fit_of("gaussian")
    judges = contents.judges
    order, labels = judges.offsets.rows, judges.offsets.columns
    marked = {(order[r], labels[c]) for r, c in judges.offsets.marked}
    assert marked == {("gpt", "gpt"), (HOSTILE[0], "$j^2$")}
    effects = fit.effects("backbone:judge").set_index(["backbone", "judge"])["estimate"]
    for i, backbone in enumerate(order):
        for j, judge in enumerate(labels):
            assert judges.offsets.values[i, j] == pytest.approx(effects[backbone, judge])
    # The offsets of a judge sum to zero, so the others' mean is -1/(B - 1) of its own.
    own = judges.own.set_index("judge")["estimate"]
    assert own["gpt"] == pytest.approx(4 / 3 * effects["gpt", "gpt"])
    assert judges.own["judge"].iloc[-1] is None
    with pytest.raises(UsageError, match="no judge is called 'x'"):
        own_pairs(fit, [("x", "gpt")])
    with pytest.raises(UsageError, match="no backbone is called 'x'"):
        own_pairs(fit, [("gpt", "x")])


def test_judges_of_a_population_have_no_offsets_by_backbone():
    from bayesjudge.report.page.judging import judges_of

    table = bj.simulate(backbones=3, scenarios=6, judges=3, sd={"residual": 0.5}).table
    fit = bj.fit(bj.read_scores(table, random=("judge",)), draws=50)
    found = judges_of(fit, fit.labels, (), 0.95, "score")
    assert "not in the table" in found.offsets.why
    assert len(found.leniency) == 3


def test_human_labels_and_reliability_stand_beside():
    from bayesjudge.report.answers import Question, answer
    from bayesjudge.report.page.rendering import page

    table = bj.simulate(
        backbones=HOSTILE[:3], scenarios=20, judges=2, sd={"residual": 0.5}, random_seed=6
    ).table
    table = table.assign(human_score=table["score"] + 0.5)
    fit = bj.fit(bj.read_scores(table), draws=200)
    contents = gather(answer(fit, Question(reliability=True)))
    assert "Human-anchored means" in [heading for heading, _ in contents.beside]
    html = page(contents)
    for heading in ("Human-anchored means", "Prediction-powered means"):
        assert f"<h3>{heading}</h3>" in html
        assert f"<caption>{heading}" not in html  # says what the columns are instead
    assert "effective number of judges" in html
    assert not {"img", "b"} & set(outline(html).tags)
    assert "reliability was not asked" in page_of("gaussian")


def test_lower_is_better_is_said_of_self_preference():
    from bayesjudge.report.page.rendering import page

    contents = contents_of("gaussian")
    assert "favours its own where it is negative" not in page_of("gaussian")
    turned = replace(contents, standing=replace(contents.standing, lower_is_better=True))
    assert "favours its own where it is negative" in page(turned)


def test_self_preference_is_own_less_the_mean_of_others():
    draws = np.zeros((3, 3, 2))
    draws[:, :, 0] = [[3.0, 1.0, 2.0], [4.0, 1.0, 1.0], [5.0, 0.0, 2.0]]
    found = self_preference(draws, ("a", "b", "c"), ("j", "k"), [("j", "a")], 0.9)
    assert found["estimate"].tolist() == [pytest.approx(np.mean([1.5, 3.0, 4.0]))]
    assert len(found) == 1


def test_languages_rank_raw_and_adjusted():
    found = contents_of("multilingual").languages
    calibrated = bj.calibrate(fit_of("multilingual").scores, model=None, splits=2, resamples=99)
    pd.testing.assert_frame_equal(found.table, calibrated.adjusted)
    assert set(found.raw.columns) == set(LANGUAGES)
    # Taken off the interaction, every language ranks alike.
    assert (np.ptp(found.adjusted.values, axis=1) == 0).all()
    row = found.table.iloc[0]
    at = found.raw.rows.index(row["backbone"]), found.raw.columns.index(row["language"])
    assert found.raw.values[at] == row["rank"]
    assert "not correctness" in page_of("multilingual")


def test_languages_that_cannot_be_compared_say_why(monkeypatch):
    from bayesjudge.calibration import cells

    one = bj.simulate(
        backbones=3, scenarios=4, judges=2, languages=["a"], sd={"residual": 1.0}, random_seed=1
    ).table.assign(language="a")
    scores = bj.read_scores(one)
    assert "one language only" in languages_of(SimpleNamespace(scores=scores), ()).why
    monkeypatch.setattr(cells, "_MOST_CELLS", 1)
    found = languages_of(fit_of("multilingual"), HOSTILE)
    assert "too many cells" in found.why


def test_closed_form_and_posterior_side_by_side():
    found = contents_of("gaussian").components
    table = bj.anova(fit_of("gaussian").scores).components.set_index("term")
    shown = found.table.set_index("term")
    assert not found.closed
    for term in shown.index:
        assert shown.loc[term, "closed_variance"] == pytest.approx(table.loc[term, "variance"])
    made = bj.simulate(backbones=3, scenarios=5, judges=2, sd={"residual": 1.0}, missing=0.2)
    uneven = SimpleNamespace(spec=bj.read_model("crossed"), scores=bj.read_scores(made.table))
    shown = components_of(uneven, fit_of("gaussian").variance_components(), 0.95, "score")
    assert shown.closed.startswith("There is no closed form: ")
    assert not shown.table["differs"].any()


def test_where_components_disagree():
    columns = ["ci_lower", "ci_upper", "closed_variance", "closed_ci_lower", "closed_ci_upper"]
    rows = [
        (1.0, 2.0, 1.5, 1.0, 2.0, False),
        (1.0, 2.0, 2.5, 1.5, 3.0, True),
        (1.0, 2.0, 0.0, 0.0, 0.5, True),
        (0.1, 2.0, 0.0, 0.0, 0.5, False),
        (1.0, 2.0, np.nan, np.nan, np.nan, False),
    ]
    table = pd.DataFrame([row[:5] for row in rows], columns=columns)
    assert disagree(table) == [row[5] for row in rows]


def test_design_curves_are_the_planner_s():
    fit = fit_of("gaussian")
    found = contents_of("gaussian").design
    assert (found.now, found.generations, len(found.difference)) == (10, 2, 2)
    components = components_of_fit(fit)
    for curve, q in zip(found.difference, (1, 3), strict=True):
        n = int(curve.x[5])
        variance = design_variance(
            components, Design(n, 2 * n, (0, 1, 2), q), pair_contrasts(len(HOSTILE))
        )
        assert curve.y[5] == pytest.approx(np.sqrt(variance).mean(), rel=0.02)
        assert (np.diff(curve.y) < 0).all()
        assert (curve.lower <= curve.y).all()
        assert (curve.y <= curve.upper).all()
    for curve in (*found.generalizability, *found.dependability):
        assert ((curve.y > 0) & (curve.y < 1)).all()
    assert generations_of(fit_of("alone").scores) == 1


@given(
    hnp.arrays(float, st.integers(1, 30), elements=st.floats(-1e6, 1e6)),
    st.integers(0, 99),
)
def test_every_score_is_in_one_bin(seen, seed):
    drawn = np.random.default_rng(seed).normal(seen, 1.0, (5, seen.size))
    edges, names = bins_of(seen, drawn)
    assert (np.diff(edges) > 0).all()
    assert len(names) in (0, edges.size - 1)
    (found,) = compare_scores(seen, drawn, np.zeros(seen.size, int), ("all",), edges, 0.95)
    assert found.observed.sum() == pytest.approx(1)
    assert found.expected.sum() == pytest.approx(1)
    assert (found.lower <= found.expected + 1e-12).all() or seen.size < 3
    seen_mean, expected, lower, upper = found.numbers["mean"]
    assert seen_mean == pytest.approx(seen.mean(), abs=1e-6)
    assert lower <= expected <= upper or np.isclose(lower, upper)


def test_bins_of_categories_are_the_categories():
    seen = np.array([1.0, 2.0, 5.0])
    edges, names = bins_of(seen, seen[None], (1, 2, 3, 4, 5))
    assert names == ("1", "2", "3", "4", "5")
    assert edges.tolist() == [0.5, 1.5, 2.5, 3.5, 4.5, 5.5]
    assert bins_of(np.array([0.0, 1.0]), seen[None])[1] == ("0", "1")
    assert bins_of(np.arange(40.0), seen[None])[1] == ()


def test_predictions_cover_the_scores_they_were_fitted_to():
    found = contents_of("gaussian").predictive
    # 16 bins of 3 judges, nominal 95 %, bins not independent; 60 scores a judge.
    inside = [
        (judge.lower <= judge.observed) & (judge.observed <= judge.upper) for judge in found.judges
    ]
    assert np.mean(inside) > 0.85
    assert [judge.n_scores for judge in found.judges] == [80, 80, 80]


def test_predictions_that_cannot_be_drawn_say_so():
    from bayesjudge.errors import ModelError
    from bayesjudge.report.page.predicted import predictive_of

    class Refusing:
        scores = fit_of("gaussian").scores

        def posterior_predictive(self, draws):  # noqa: ARG002
            raise ModelError("effects were not kept")

    assert predictive_of(Refusing(), 0.95).why == "It cannot be drawn: effects were not kept."


@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6), st.integers(2, 8))
def test_ticks_are_round_and_few(low, span, wanted):
    found = svg.ticks(low, low + span, wanted)
    assert len(found) <= wanted + 1
    slack = 1e-6 * max(span, abs(low))
    assert all(low - slack <= tick <= low + span + slack for tick in found)
    steps = np.diff(found)
    if len(found) > 2:
        np.testing.assert_allclose(steps, steps[0], rtol=1e-6, atol=slack)


def test_ticks_of_nothing():
    assert svg.ticks(2.0, 2.0) == [2.0]
    assert svg.ticks(0.0, np.nan) == [0.0]
    assert svg.tick_text(0.1 + 0.2) == "0.3"
    assert svg.num(-0.0001) == "0"


@given(
    hnp.arrays(
        float, hnp.array_shapes(min_dims=2, max_dims=2), elements=st.floats(0, 1) | st.just(np.nan)
    ),
    st.sampled_from(["probability", "signed", "rank"]),
)
def test_tints_are_colours_and_null_is_none(values, kind):
    values = values + 1 if kind == "rank" else values
    found = svg.tint(values, kind)
    assert found.shape == (*values.shape, 4)
    assert ((found >= 0) & (found <= 255)).all()
    assert (found[..., 3] <= svg.STRONGEST).all()
    assert (found[np.isnan(values)][:, 3] == 0).all()


def test_a_png_is_one():
    import base64
    import struct
    import zlib

    pixels = np.zeros((2, 3, 4))
    pixels[1, 2] = (10, 20, 30, 1.0)
    data = base64.b64decode(svg.png(pixels).partition(",")[2])
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    assert struct.unpack(">II", data[16:24]) == (3, 2)
    length = struct.unpack(">I", data[33:37])[0]
    raw = zlib.decompress(data[41 : 41 + length])
    assert raw[-4:] == bytes([10, 20, 30, 255])
    assert len(raw) == 2 * (1 + 12)


def test_signed_tints_tell_more_from_less():
    found = svg.tint(np.array([[1.0, -1.0, 0.0]]), "signed")
    assert tuple(found[0, 0, :3]) == svg.BLUE
    assert tuple(found[0, 1, :3]) == svg.ORANGE
    assert found[0, 2, 3] == 0


def test_long_labels_are_cut_in_pictures_and_whole_in_tips():
    found = svg.text(0, 0, "x" * 50, "label", 10)
    assert "x" * 9 + "…" in found
    assert f"<title>{'x' * 50}</title>" in found


def test_short_labels_leave_room_for_what_they_are():
    found = replace(contents_of("gaussian").pairwise, rows=("a", "b", "c", "d"))
    left = float(re.search(r'data-left="([^"]*)"', pictures.matrix(found, "x"))[1])
    assert left >= pictures.label_width(["backbone"])


def test_markdown_and_csv_carry_the_tables():
    contents = contents_of("multilingual")
    text = report_text(answer_of("multilingual"), contents)
    for heading in ("Judges", "Languages", "Decision study", "Predicted scores"):
        assert f"\n## {heading}\n" in text
    assert "<img" not in text
    assert "<script" not in text
    assert "<b>" not in text
    assert "نموذج عربي" in text
    found = beside.page_tables(contents)
    assert set(found) == set(TABLE_FILES)
    assert set(found["self_preference.csv"]["judge"].dropna()) == {"gpt", "$j^2$"}
    design = found["decision_study.csv"]
    assert set(design["quantity"]) == {"sd_of_difference", "generalizability", "dependability"}
    shares = found["predicted_scores.csv"].groupby("judge")[["observed", "predicted"]].sum()
    np.testing.assert_allclose(shares, 1)
    few = beside.page_tables(contents_of("ordinal"))
    assert "components_compared.csv" not in few
    assert "no column for the language" in report_text(answer_of("ordinal"), contents_of("ordinal"))


def test_the_feed_is_small_and_says_what_it_is():
    text = beside.feed(answer_of("gaussian"), contents_of("gaussian"))
    found = json.loads(text)
    assert (found["format"], found["page"], found["title"]) == (1, "index.html", TITLE)
    assert found["best_set"] == list(answer_of("gaussian").best_set)
    assert [row["backbone"] for row in found["leaderboard"]] == list(
        answer_of("gaussian").leaderboard["backbone"]
    )
    assert len(text) < 4000


def test_an_unconverged_fit_says_so_on_top():
    from bayesjudge.report.page.rendering import page

    html = page(replace(contents_of("gaussian"), alarm="NOT CONVERGED <b>"))
    at = html.index('role="alert"')
    assert "NOT CONVERGED &lt;b&gt;" in html[at : at + 80]
    assert at < html.index("<table")


def test_a_matrix_is_a_table():
    cells = matrix_cells(contents_of("gaussian").pairwise)
    assert cells.rows[0][1] == "–"
    assert len(cells.rows) == len(cells.headers) - 1 == 4


def test_save_page(tmp_path):
    path = bj.save_page(fit_of("alone"), tmp_path / "a.html", title="two", ci_prob=0.8, rope=0.1)
    html = path.read_text(encoding="utf-8")
    assert "80 % interval" in html
    assert "no command gives it again" in html
    with pytest.raises(UsageError, match="no judge"):
        bj.save_page(fit_of("alone"), tmp_path / "b.html", own=[("x", "y")])
    assert not (tmp_path / "b.html").exists()
