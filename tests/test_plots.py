"""Figures on matplotlib: labelled, of the numbers of the fit, without traces elsewhere."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import bayesjudge as bj
from bayesjudge import plots
from bayesjudge.errors import ModelError, UsageError
from bayesjudge.report import figures
from bayesjudge.report.page.names import FIGURE_FILES, FIGURES
from tests.golden.page.cases import HOSTILE
from tests.page_fits import contents_of, fit_of


def axes_of(found):
    return list(found.flat) if isinstance(found, np.ndarray) else [found]


@pytest.mark.parametrize("name", plots.__all__)
def test_every_figure_names_its_axes_and_leaves_no_trace(name):
    found = getattr(plots, name)(fit_of("multilingual"))
    axes = axes_of(found)
    figure = axes[0].figure
    for ax in axes:
        assert ax.get_xlabel() or figure._supxlabel.get_text()
        assert ax.get_ylabel() or figure._supylabel is not None or name == "language_ranks"
        for label in (*ax.get_yticklabels(), ax.title):
            if "$" in label.get_text():
                assert not label.get_parse_math()
    assert figures.image(figure, "png").startswith(b"\x89PNG")
    pyplot = sys.modules.get("matplotlib.pyplot")
    assert pyplot is None or not pyplot.get_fignums()


def test_no_figure_has_arviz_s_name():
    assert not [name for name in plots.__all__ if name.startswith("plot")]
    assert "plot_rank" not in dir(plots)
    assert bj.plots is plots


def test_the_forest_shows_the_leaderboard():
    fit = fit_of("gaussian")
    table = fit.leaderboard()
    ax = plots.forest(fit)
    shown = np.concatenate([line.get_xdata() for line in ax.get_lines()[:2]])
    np.testing.assert_allclose(np.sort(shown), np.sort(table["mean"]))
    segments = ax.collections[0].get_segments()
    np.testing.assert_allclose([s[0, 0] for s in segments], table["ci_lower"])
    labels = [text.get_text() for text in ax.get_yticklabels()]
    assert labels[0] == table["backbone"].iloc[0][:28].rstrip() or labels[0].endswith("…")
    assert "95 %" in ax.get_xlabel()
    assert plots.forest(fit, axes=ax) is ax


def test_ranks_sum_to_one_and_cumulate_to_one():
    fit = fit_of("gaussian")
    for ax in plots.rankograms(fit):
        assert sum(bar.get_height() for bar in ax.patches) == pytest.approx(1)
    for ax in plots.cumulative_ranks(fit):
        assert ax.get_lines()[0].get_ydata()[-1] == pytest.approx(1)
        assert "SUCRA" in ax.get_title()


def test_own_judges_are_outlined():
    ax = plots.judge_offsets(fit_of("gaussian"), own=[("$j^2$", HOSTILE[0])])
    assert len(ax.patches) == 2
    with pytest.raises(UsageError, match="no judge"):
        plots.judge_offsets(fit_of("gaussian"), own=[("x", "gpt")])


@pytest.mark.parametrize(
    ("name", "fit", "why"),
    [
        ("pairwise", "unpaired", "no scenario effects that backbones share"),
        ("judge_offsets", "alone", "no panel"),
        ("language_ranks", "alone", "no column for the language"),
        ("decision_study", "unpaired", "does not compare"),
    ],
)
def test_figures_of_what_a_fit_does_not_know_are_refused(name, fit, why):
    with pytest.raises(ModelError, match=why):
        getattr(plots, name)(fit_of(fit))


def test_predictions_that_cannot_be_drawn_are_refused(monkeypatch):
    from bayesjudge.report.page.contents import Absent

    monkeypatch.setattr(plots, "predictive_of", lambda *_: Absent("effects lack."))
    with pytest.raises(ModelError, match="effects lack"):
        plots.predicted_scores(fit_of("alone"))


def test_files_are_named_and_the_same_again():
    contents = contents_of("alone")
    files = figures.figure_files(contents)
    assert set(files) <= set(FIGURE_FILES)
    assert "figures/judge_offsets.png" not in files
    assert [name for name, _ in figures.drawn(contents_of("multilingual"))] == list(FIGURES)
    figure = plots.forest(fit_of("gaussian")).figure
    svg = figures.image(figure, "svg")
    again = figures.image(plots.forest(fit_of("gaussian")).figure, "svg")
    assert svg == again
    assert "نموذج عربي".encode() in svg
    assert b"<img" not in svg


def test_without_matplotlib_it_is_said(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(UsageError, match="matplotlib, which is not installed"):
        plots.forest(fit_of("alone"))


def test_importing_plots_loads_no_matplotlib():
    code = "import sys, bayesjudge.plots; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
