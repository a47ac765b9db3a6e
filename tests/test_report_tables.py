"""Tables for the terminal and for Markdown."""

from __future__ import annotations

import math
import subprocess
import sys
from io import StringIO

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from bayesjudge import comparing, ranking
from bayesjudge.report import cells, markdown, numbers, terminal
from bayesjudge.scores.problems import Problem

LABELS = ("gpt-4.1", "[red]claude[/red]", "مرحبا نموذج", "模型", ":smile: \x1b[31m|weak|")


def show(renderable, width=80):
    console = Console(width=width, file=StringIO(), force_terminal=True, color_system=None)
    console.print(renderable)
    return console.file.getvalue()


@pytest.fixture(scope="module")
def board():
    draws = np.random.default_rng(0).normal([7.3, 7.32, 7.1, 7.05, 6.0], 0.05, size=(4000, 5))
    table = ranking.leaderboard(draws, LABELS)
    best = ranking.best_set(ranking.rank_probabilities(draws)[:, 0], LABELS)
    pairwise = pd.DataFrame(comparing.pairwise_beats(draws), index=LABELS, columns=LABELS)
    return {"table": table, "best_set": best, "pairwise": pairwise}


@pytest.mark.parametrize("width", [80, 109, 110, 160])
def test_leaderboard_fits_and_shows_every_label(board, width):
    out = show(terminal.leaderboard_table(**board, title="[b]Coherence[/b]"), width)
    assert max(len(line) for line in out.splitlines()) <= width
    for label in ("gpt-4.1", "[red]claude[/red]", "مرحبا نموذج", "模型", ":smile: \\x1b[31m|weak|"):
        assert label in out
    assert "[b]Coherence[/b]" in out
    assert "\x1b[31m" not in out
    assert ("SUCRA" in out) == (width >= terminal.WIDE)


def test_leaderboard_says_which_neighbours_cannot_be_told_apart(board):
    out = " ".join(show(terminal.leaderboard_table(**board), 200).split())
    assert "(P(beats) below 0.95): [red]claude[/red] ~ gpt-4.1 (0." in out
    assert "مرحبا نموذج ~ 模型 (0." in out
    assert "模型 ~" not in out
    assert "* best set: holds the best backbone with probability 0.95 or more" in out


def test_leaderboard_parts_tiers_and_marks_the_best_set(board):
    drawn = cells.leaderboard_cells(**board)
    assert drawn.breaks == (2, 4)
    p_best = [row[drawn.headers.index("P(best)")] for row in drawn.rows]
    assert [cell.endswith("*") for cell in p_best] == [True, True, False, False, False]
    out = show(terminal.leaderboard_table(**board))
    assert "*" in out


def test_leaderboard_without_extras(board):
    drawn = cells.leaderboard_cells(board["table"], ci_prob=0.9)
    assert drawn.notes == ("rank: 90 % credible interval of the rank",)
    assert "90 % interval" in drawn.headers


def test_leaderboard_with_clear_neighbours_and_with_one_backbone():
    draws = np.random.default_rng(0).normal([2.0, 1.0], 0.01, size=(100, 2))
    pairwise = pd.DataFrame(comparing.pairwise_beats(draws), index=["a", "b"], columns=["a", "b"])
    table = ranking.leaderboard(draws, ["a", "b"])
    notes = cells.leaderboard_cells(table, pairwise=pairwise).notes
    assert notes[-1] == "Every backbone beats the next with probability 0.95 or more."
    one = ranking.leaderboard(draws[:, :1], ["a"])
    drawn = cells.leaderboard_cells(one, pairwise=pairwise.iloc[:1, :1], wide=True)
    assert len(drawn.notes) == 1
    assert drawn.rows[0][drawn.headers.index("SUCRA")] == numbers.NULL
    assert drawn.rows[0][0] == "1"


def test_many_close_neighbours_are_counted():
    draws = np.random.default_rng(0).normal(size=(200, 20))
    labels = [f"b{at:02}" for at in range(20)]
    pairwise = pd.DataFrame(comparing.pairwise_beats(draws), index=labels, columns=labels)
    notes = cells.leaderboard_cells(ranking.leaderboard(draws, labels), pairwise=pairwise).notes
    assert notes[-1].endswith(", and 7 more")


def test_narrow_windows_cut_no_digit(board):
    pairs = comparing.pairwise_differences(
        np.random.default_rng(1).normal(size=(50, 3)) * 0.01, ("a" * 40, "b", "c"), rope=0.1
    )
    for width in (40, 80):
        out = show(terminal.frame_table(pairs, "Pairs"), width)
        assert "…" not in out
        joined = "".join(character for character in out if not character.isspace())
        assert joined.count("a") >= 80


def test_frame_cells_choose_digits_by_what_a_column_is():
    frame = pd.DataFrame(
        {
            "term": ["judge", "NA", None],
            "estimate": [1.23456, -0.0001, math.nan],
            "se": [0.0312, 0.05, math.nan],
            "ci_lower": [1.1, -1.0, math.nan],
            "ci_upper": [1.3, 1.0, 2.0],
            "p_value": [0.00001, 1.0, math.nan],
            "share": [0.123456, 1e-9, math.inf],
            "df": [1, 2, 3],
            "flag": [True, False, True],
            "when": [pd.Timestamp("2026-01-01")] * 3,
        }
    )
    drawn = cells.frame_cells(frame)
    assert drawn.rows[0] == (
        "judge",
        "1.235",
        "0.031",
        "[1.100, 1.300]",
        "<0.001",
        "0.1235",
        "1",
        "yes",
        "2026-01-01 00:00:00",
    )
    assert drawn.rows[1][1:6] == ("0.000", "0.050", "[-1.000, 1.000]", "1", "1e-09")
    assert drawn.rows[2][:6] == ("–", "–", "–", "–", "–", "∞")
    assert drawn.headers[3] == "interval"
    assert drawn.numeric == (False, True, True, True, True, True, True, False, False)


def test_columns_of_mixed_kinds():
    values = pd.Series([None, np.float64(1.5), np.int64(2), np.bool_(False), "x"], dtype=object)
    drawn = cells.frame_cells(pd.DataFrame({"value": values, "p_odd": [2.0] * 5}))
    assert [row[0] for row in drawn.rows] == ["–", "1.5", "2", "no", "x"]
    assert drawn.rows[0][1] == "2"


def test_frame_without_rows_or_sd():
    assert cells.frame_cells(pd.DataFrame({"a": []})).rows == ()
    assert cells.frame_cells(pd.DataFrame({"mean": [1.23456]})).rows == (("1.235",),)
    assert "a" in show(terminal.frame_table(pd.DataFrame({"a": []})))


def test_problems_tables():
    problems = (
        Problem("error", "two rows for one cell", "a|b [x]", 3, "Name the column"),
        Problem("note", "judge 2 scored one backbone"),
    )
    out = show(terminal.problems_table(problems, "Found"))
    assert "a|b [x]" in out
    assert "Found" in out
    text = markdown.problems_table(problems)
    assert text.splitlines()[2] == (
        "| error | two rows for one cell | a\\|b \\[x\\] | 3 | Name the column |"
    )
    only = cells.problems_cells(problems[1:])
    assert only.headers == ("severity", "what")
    assert cells.problems_cells(()).rows == ()


def test_markdown_leaderboard(board):
    text = markdown.leaderboard_table(**board, title="A *b*")
    lines = text.splitlines()
    assert lines[0] == "**A \\*b\\***"
    assert lines[2].startswith("| rank | joint rank | backbone | mean | sd |")
    assert "\\[red\\]claude" in text
    table = [line for line in lines if line.startswith("|")]
    assert len(table) == 7
    assert {line.replace("\\|", "").count("|") for line in table} == {11}
    assert "\n\nNeighbours that cannot be told apart" in text


@settings(deadline=None)
@given(st.text(st.characters()), st.text(st.characters()))
def test_markdown_tables_keep_their_shape(label, title):
    frame = pd.DataFrame({"backbone": [label], "mean": [1.0]}, dtype=object)
    lines = markdown.frame_table(frame, title).splitlines()
    assert lines[-1].replace("\\|", "").count("|") == 3
    assert len(lines) == (5 if title else 3)


@settings(deadline=None)
@given(st.text(st.characters()))
def test_terminal_tables_show_any_label(label):
    out = show(terminal.frame_table(pd.DataFrame({"backbone": [label]}, dtype=object), label), 200)
    assert "\x1b" not in out.replace("\x1b[1m", "").replace("\x1b[0m", "")


@pytest.mark.parametrize(
    ("p", "shown"),
    [
        (0, "0"),
        (1.0, "1"),
        (1e-9, "<0.001"),
        (0.0004, "<0.001"),
        (0.001, "0.001"),
        (0.5, "0.500"),
        (0.9994, "0.999"),
        (0.9996, ">0.999"),
        (1 - 1e-12, ">0.999"),
        (math.nan, "–"),
    ],
)
def test_probabilities_never_look_certain(p, shown):
    assert numbers.probability(p) == shown


@settings(deadline=None)
@given(st.floats(0, 1, exclude_min=True, exclude_max=True))
def test_no_probability_between_rounds_to_0_or_1(p):
    shown = numbers.probability(p)
    assert float(shown.lstrip("<>")) not in {0, 1}


def test_numbers():
    assert numbers.decimals_for([0.05, 0.06]) == 3
    assert numbers.decimals_for([12.0]) == 0
    assert numbers.decimals_for([0.0, math.nan]) == 3
    assert numbers.decimals_for([1e-9, 0.5, 0.5]) == 3
    assert numbers.decimals_for([1e-300]) == 12
    assert numbers.number(-0.0001, 2) == "0.00"
    assert numbers.number(-1.5, 1) == "-1.5"
    assert numbers.number(1e12, 2) == "1e+12"
    assert numbers.number(-math.inf, 2) == "-∞"
    assert numbers.significant(0.000123456) == "0.0001235"
    assert numbers.percent(0.95) == "95 %"
    assert numbers.percent(0.999) == "99.9 %"
    assert numbers.rank_range(1, 3) == "1–3"
    assert numbers.rank_range(1.5, 1.5) == "1.5"
    assert numbers.rank_range(math.nan, 2) == "–"
    assert numbers.interval(1, 2, 1) == "[1.0, 2.0]"
    assert numbers.interval(math.nan, 2, 1) == "–"


def test_nothing_heavy_is_imported():
    code = (
        "import sys; import bayesjudge.ranking, bayesjudge.comparing;"
        "import bayesjudge.closed_form.paired;"
        "import bayesjudge.report.files, bayesjudge.report.json_text, bayesjudge.report.markdown;"
        "import bayesjudge.text; assert 'rich' not in sys.modules;"
        "import bayesjudge.report.terminal;"
        "heavy = {'jax', 'arviz_base', 'arviz_stats', 'xarray', 'pandas', 'matplotlib'};"
        "sys.exit(', '.join(heavy & set(sys.modules)) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
