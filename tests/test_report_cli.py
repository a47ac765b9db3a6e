"""``report`` writes a page, its tables, figures and a feed, and again when scores come in."""

from __future__ import annotations

import json
import subprocess
import sys

import pandas as pd
import pytest
from typer.testing import CliRunner

import bayesjudge as bj
from bayesjudge.cli import reporting
from bayesjudge.cli.app import app
from tests.golden.page.cases import HOSTILE

FAST = ("--draws", "60", "--chains", "2", "--allow-unconverged")


def run(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("report")


@pytest.fixture(scope="module")
def table(folder):
    made = bj.simulate(
        backbones=HOSTILE, scenarios=5, judges=["gpt", "other"], sd={"residual": 0.5}, random_seed=1
    ).table
    path = folder / "scores.csv"
    made.assign(criterion="good").to_csv(path, index=False)
    return path


@pytest.fixture(scope="module")
def reported(folder, table):
    words = ("--title", "<b>Board", "--self", f"other={HOSTILE[1]}", *FAST, "--json")
    return run("report", table, "--out", folder / "out", *words), folder / "out"


def test_writes_the_page_its_tables_figures_and_a_feed(reported):
    result, out = reported
    assert result.exit_code == 0, result.stderr
    html = (out / "index.html").read_text(encoding="utf-8")
    assert "Leaderboard: &lt;b&gt;Board" in html
    assert "--self &#x27;other=&quot;&gt;&lt;script&gt;" in html
    feed = json.loads((out / "feed.json").read_text(encoding="utf-8"))
    assert feed["title"] == "<b>Board"
    assert feed["updated"].endswith("+00:00")
    assert feed["leaderboard"] == json.loads(result.stdout)["leaderboard"]
    assert (out / "figures" / "forest.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (out / "figures" / "forest.svg").read_text(encoding="utf-8")
    own = pd.read_csv(out / "self_preference.csv")
    assert set(own["judge"].dropna()) == {"gpt", "other"}


def test_no_label_acts_on_a_terminal_or_in_markdown(reported, folder, table):
    _, out = reported
    shown = run("report", out / "posterior.nc", "--out", folder / "again", "--no-figures")
    assert HOSTILE[0] in shown.stdout
    assert "نموذج عربي" in shown.stdout
    whole = (out / "report.md").read_text(encoding="utf-8")
    # The command stands in a fence, where Markdown shows everything as it is.
    text = "".join(whole.split("```")[::2])
    assert "<img" not in text
    assert "<script" not in text
    assert "نموذج عربي" in text
    assert not (folder / "again" / "figures").exists()
    assert (folder / "again" / "index.html").exists()


def test_by_writes_a_page_over_the_pages(folder, table):
    out = folder / "groups"
    result = run(
        "report", table, "--by", "criterion", "--out", out, "--no-figures", "--title", "T", *FAST
    )
    assert result.exit_code == 0, result.stderr
    assert 'href="good/index.html"' in (out / "index.html").read_text(encoding="utf-8")
    inner = (out / "good" / "index.html").read_text(encoding="utf-8")
    assert "Leaderboard: T, criterion good" in inner
    feed = json.loads((out / "feed.json").read_text(encoding="utf-8"))
    (group,) = feed["groups"]
    assert (group["level"], group["folder"]) == ("good", "good")


def test_rank_writes_the_page_without_figures_or_feed(folder, table):
    out = folder / "ranked"
    assert run("rank", table, "--out", out, *FAST).exit_code == 0
    names = {path.name for path in out.iterdir()}
    assert {"index.html", "decision_study.csv"} <= names
    assert not {"figures", "feed.json"} & names


def test_rank_without_a_folder_loads_nothing_of_the_page(table):
    code = (
        "import sys\nfrom bayesjudge.cli import main\n"
        f"sys.argv = ['bayesjudge', 'rank', {str(table)!r}, *{list(FAST)!r}]\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert not end.code\n"
        "page = [m for m in sys.modules if m.startswith('bayesjudge.report.page.')]\n"
        "print(page, 'matplotlib' in sys.modules, 'jax' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "['bayesjudge.report.page.names'] False False"


def test_never_over_a_strangers_file(folder, table):
    out = folder / "mine"
    out.mkdir()
    (out / "index.html").write_text("mine")
    result = run("report", table, "--out", out, *FAST)
    assert result.exit_code == 1
    assert "index.html" in result.stderr
    assert (out / "index.html").read_text() == "mine"


def test_without_matplotlib_the_folder_lacks_figures_and_says_so(folder, table, monkeypatch):
    monkeypatch.setattr(reporting, "has_matplotlib", lambda: False)
    out = folder / "plain"
    result = run("report", table, "--out", out, *FAST)
    assert result.exit_code == 0
    assert "matplotlib is not installed" in result.stderr
    assert (out / "index.html").exists()
    assert not (out / "figures").exists()


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        ((), 2, "--out"),
        (("--out", "{out}", "--every", "0"), 2, "--every"),
        (("--out", "{out}", "--every", "nan"), 2, "--every"),
        (("--out", "{out}", "--watch", "--json"), 2, "feed.json"),
        (("--out", "{out}", "--self", "nobody=gpt"), 2, "no judge is called 'nobody'"),
        (("--out", "{out}", "--self", "gpt"), 2, "JUDGE=BACKBONE"),
    ],
)
def test_what_goes_wrong_is_said_with_its_code(folder, table, words, code, message):
    out = folder / "wrong"
    words = [word.format(out=out) for word in words]
    result = run("report", table, *words, *FAST)
    assert result.exit_code == code, result.stderr
    assert message in result.stderr
    assert not out.exists()


def test_watch_renders_when_scores_are_appended(folder, table, monkeypatch):
    live = folder / "live.csv"
    lines = table.read_text(encoding="utf-8").splitlines(keepends=True)
    live.write_text("".join(lines[:-8]), encoding="utf-8")
    out = folder / "live"
    seen = []

    def feed():
        return json.loads((out / "feed.json").read_text(encoding="utf-8"))["n_scores"]

    def looked_at(seconds):
        """Time passes: scores are appended, then a broken line, then nothing more."""
        seen.append(feed())
        if len(seen) == 2:
            live.write_text("".join(lines), encoding="utf-8")
        if len(seen) == 6:
            live.write_text("nothing", encoding="utf-8")
        if len(seen) == 10:
            live.unlink()
        if len(seen) == 14:
            raise KeyboardInterrupt
        assert seconds == 0.5

    monkeypatch.setattr(reporting, "sleep", looked_at)
    result = run("report", live, "--out", out, "--watch", "--every", "0.5", "--no-figures", *FAST)
    assert result.exit_code == 130
    assert seen[0] == len(lines) - 1 - 8
    assert feed() == len(lines) - 1
    assert "error: " in result.stderr
    assert result.stderr.count("waiting for changes") >= 3


def test_a_first_answer_that_fails_ends_the_watch(folder):
    result = run("report", folder / "none.csv", "--out", folder / "none", "--watch")
    assert result.exit_code == 1
    assert "no such file" in result.stderr


def test_what_is_watched(tmp_path):
    assert reporting.signature([str(tmp_path / "none.csv")]) == ()
    (tmp_path / "a.csv").write_text("x")
    ((name, _, size),) = reporting.signature([str(tmp_path / "*.csv")])
    assert (name, size) == (str(tmp_path / "a.csv"), 1)
    assert len(reporting.signature([str(tmp_path)])) == 1
    assert reporting._state(tmp_path / "gone") == (str(tmp_path / "gone"), 0, -1)


def test_an_unconverged_fit_ends_no_watch(folder, table):
    words = ("--draws", "20", "--tune", "20", "--engine", "exact", "--no-figures")
    calls = []

    def make():
        calls.append(1)
        raise reporting.typer.Exit(1)

    reporting._make_even_if_distrusted(make)
    assert calls
    assert run("report", table, "--out", folder / "short", *words).exit_code in (0, 1)
