"""Many tables at once: none is lost with another, and what is done is kept."""

from __future__ import annotations

import contextlib
import csv
import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from bayesjudge.cli import decomposition, messages
from bayesjudge.cli.app import app
from bayesjudge.cli.workers import done_by, usual_workers
from bayesjudge.errors import DataError
from bayesjudge.fingerprints import fingerprint
from bayesjudge.report.files import MANIFEST, OutputFolder
from bayesjudge.report.group_folders import PARTIAL, GroupFolder, GroupFolders
from bayesjudge.scores import Scores, read_scores
from bayesjudge.simulation import simulate
from tests.by_work import doubled, lost

FAST = ["--draws", "40", "--tune", "40", "--chains", "2", "--allow-unconverged"]
POISONED = "t1"


def run(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


def tables(n, poisoned=POISONED):
    """Small balanced tables under one another; of one no score can be read."""
    parts = []
    for number in range(n):
        made = simulate(backbones=3, scenarios=4, judges=2, random_seed=number).table
        parts.append(made.assign(table=f"t{number}", score=made["score"].astype(object)))
        if f"t{number}" == poisoned:
            parts[-1]["score"] = "n/a"
    return pd.concat(parts)


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "scores.csv"
    tables(4).to_csv(path, index=False)
    return path


def index(out):
    with (out / "index.csv").open(newline="", encoding="utf-8") as file:
        return {row["level"]: row for row in csv.DictReader(file)}


def contents(out):
    """Files by name, those that a clock or HDF5 has a hand in made comparable."""
    found = {}
    for path in sorted(p for p in out.rglob("*") if p.is_file() and p.suffix != ".nc"):
        if path.name == MANIFEST:
            told = json.loads(path.read_text(encoding="utf-8"))
            found[str(path.relative_to(out))] = sorted(told["files"])
        elif path.suffix == ".json":
            told = json.loads(path.read_text(encoding="utf-8"))
            found[str(path.relative_to(out))] = timeless(told)
        else:
            # The page and the report say how long the fit took.
            lines = path.read_text(encoding="utf-8").splitlines()
            found[str(path.relative_to(out))] = [line for line in lines if " s" not in line]
    return found


def timeless(told):
    if isinstance(told, dict):
        return {key: timeless(value) for key, value in told.items() if key != "seconds"}
    return [timeless(value) for value in told] if isinstance(told, list) else told


def states(out):
    """When each group's files were written."""
    # Not of what is being made: processes of a killed run may still be at it.
    return {p: p.stat().st_mtime_ns for p in out.glob("t*/**/*") if p.is_file()}


def test_two_processes_answer_as_one_and_lose_one_table_only(table, tmp_path):
    words = ["rank", table, "--by", "table", *FAST, "--json", "--model", "crossed_common"]
    one = run(*words, "--workers", "1", "--out", tmp_path / "one")
    two = run(*words, "--workers", "2", "--out", tmp_path / "two")
    assert one.exit_code == two.exit_code == 1
    found = json.loads(two.stdout)
    assert timeless(found) == timeless(json.loads(one.stdout))
    assert list(found["groups"]) == ["t0", "t1", "t2", "t3"]
    assert "leaderboard" in found["groups"]["t0"]
    assert set(found["groups"][POISONED]["error"]) == {"what", "where", "remedy"}
    for result in (one, two):
        (line,) = [text for text in result.stderr.splitlines() if text.startswith("[t1] error")]
        assert "usable score" in line
        assert "--column score=COLUMN" in line
        assert "1 of 4 groups failed: t1" in result.stderr
        assert "Traceback" not in result.stderr
    assert contents(tmp_path / "one") == contents(tmp_path / "two")
    assert [row["status"] == "failed" for row in index(tmp_path / "two").values()] == [
        False, True, False, False,
    ]  # fmt: skip
    assert not (tmp_path / "two" / POISONED).exists()
    assert not (tmp_path / "two" / PARTIAL).exists()


def test_a_run_that_is_killed_is_gone_on_with(tmp_path):
    path, out = tmp_path / "scores.csv", tmp_path / "out"
    tables(24).to_csv(path, index=False)
    words = ["anova", str(path), "--by", "table", "--json", "--quiet"]
    program = [sys.executable, "-c", "from bayesjudge.cli import main; main()"]
    child = subprocess.Popen(
        [*program, *words, "--workers", "2", "--out", str(out)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    while child.poll() is None and len(list(out.glob("t*/result.json"))) < 3:
        time.sleep(0.002)
    child.kill()
    assert child.wait() == -signal.SIGKILL
    done = {p.parent.name for p in out.glob("t*/result.json")}
    assert 3 <= len(done) < 23
    assert not (out / "index.csv").exists()
    before = states(out)
    assert all(GroupFolder(out, name).seal() for name in done)
    assert run(*words, "--resume", "--out", out).exit_code == 1
    after = states(out)
    assert {path: after[path] for path in before} == before
    assert run(*words, "--out", tmp_path / "whole").exit_code == 1
    assert contents(out) == contents(tmp_path / "whole")


def test_resume_does_again_what_no_longer_holds(table, tmp_path):
    out = tmp_path / "out"
    words = ["anova", table, "--by", "table", "--out", out]
    assert run(*words).exit_code == 1
    before = states(out)
    kept = run(*words, "--resume", "--json")
    assert kept.exit_code == 1
    assert "3 of 4 groups kept" in kept.stderr
    assert states(out) == before
    assert json.loads(kept.stdout) == json.loads((out / "result.json").read_text())

    changed = pd.read_csv(table, dtype=str, keep_default_na=False)
    changed.loc[changed["table"] == "t2", "score"] = [str(i % 7) for i in range(24)]
    changed.loc[changed["table"] == POISONED, "score"] = [str(i % 5) for i in range(24)]
    changed.to_csv(table, index=False)
    (out / "t3" / "means.csv").unlink()
    again = run(*words, "--resume")
    assert again.exit_code == 0, again.stderr
    assert "t2: the table or an option is another" in again.stderr
    assert "1 of 4 groups kept" in again.stderr
    assert {path.parent.name for path, when in states(out).items() if before.get(path) == when} == {
        "t0"
    }
    assert (out / "t3" / "means.csv").is_file()

    other = run(*words, "--resume", "--ci-prob", "0.9")
    assert "0 of 4 groups kept" in other.stderr
    assert "t0, t1, t2, t3: the table or an option is another" in other.stderr


def test_what_failed_or_left_the_table_takes_its_earlier_results_along(table, tmp_path):
    out = tmp_path / "out"
    words = ["anova", table, "--by", "table", "--out", out]
    run(*words)
    (out / "t2" / "notes.md").write_text("mine")
    made = tables(4, poisoned="t2")
    made[made["table"] != "t3"].to_csv(table, index=False)
    assert run(*words).exit_code == 1
    assert sorted(p.name for p in out.iterdir() if p.is_dir()) == ["t0", "t1", "t2"]
    assert {p.name for p in (out / "t2").iterdir()} == {"notes.md", MANIFEST}


def test_a_strangers_file_is_refused_before_any_work(table, tmp_path):
    out = tmp_path / "out"
    (out / "t3").mkdir(parents=True)
    (out / "t3" / "means.csv").write_text("mine")
    result = run("anova", table, "--by", "table", "--out", out)
    assert result.exit_code == 1
    assert "refusing to overwrite" in result.stderr
    assert [p.name for p in out.rglob("*") if p.is_file()] == ["means.csv"]
    (tmp_path / "elsewhere").mkdir()
    (out / "t3" / "means.csv").unlink()
    (out / "t3").rmdir()
    (out / "t3").symlink_to(tmp_path / "elsewhere")
    assert "leads out" in run("anova", table, "--by", "table", "--out", out).stderr


def test_an_interrupt_leaves_an_index_of_what_is_done(table, tmp_path, monkeypatch):
    out, whole = tmp_path / "out", decomposition.anova
    seen = []

    def interrupted(scores, *words, **more):
        seen.append(scores)
        if len(seen) == 2:
            raise KeyboardInterrupt
        return whole(scores, *words, **more)

    monkeypatch.setattr(decomposition, "anova", interrupted)
    words = ["anova", table, "--by", "table", "--out", out]
    result = run(*words)
    assert result.exit_code == 130
    assert "interrupted: 2 of 4 groups" in result.stderr
    assert "--resume" in result.stderr
    assert not result.stdout
    assert [row["status"] for row in index(out).values()] == [
        "done", "failed", "not reached", "not reached",
    ]  # fmt: skip
    assert set(json.loads((out / "result.json").read_text())["groups"]) == {"t0", "t1"}
    assert run(*words, "--resume").exit_code == 1
    assert [row["status"] for row in index(out).values()] == ["done", "failed", "done", "done"]
    assert len(seen) == 4


def test_an_error_of_ours_costs_one_group(table, monkeypatch):
    def wrong(scores, *words, **more):
        raise np.linalg.LinAlgError("Singular\nmatrix")

    monkeypatch.setattr(decomposition, "anova", wrong)
    result = run("anova", table, "--by", "table", "--json")
    assert result.exit_code == 1
    assert "[t0] error: LinAlgError: Singular matrix" in result.stderr
    assert "report it" in result.stderr
    assert set(json.loads(result.stdout)["groups"]) == {"t0", "t1", "t2", "t3"}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--resume", "--out", "x"], "--by COL"),
        (["--workers", "2"], "--by COL"),
        (["--by", "table", "--resume"], "--out DIR"),
        (["--by", "table", "--workers", "0"], "at least 1"),
    ],
)
@pytest.mark.parametrize("command", ["rank", "anova", "calibrate", "audit", "report"])
def test_options_of_groups_need_groups(table, command, words, message):
    more = ["--out", "x"] if command == "report" and "--out" not in words else []
    if more and "--resume" in words:
        return
    result = run(command, table, *words, *more)
    assert result.exit_code == 2
    assert message in result.stderr


def test_a_process_that_dies_loses_its_thing_only():
    found = dict(done_by(doubled, range(6), 2, lost))
    assert found == {0: 0, 1: 2, 2: 4, 3: "3: exit code 7", 4: 8, 5: 10}


def test_things_are_done_in_their_order_by_one():
    assert list(done_by(doubled, [0, 1, 2], 1, lost)) == [(0, 0), (1, 2), (2, 4)]
    assert list(done_by(doubled, [], 1, lost)) == []
    with contextlib.closing(done_by(doubled, [0, 1, 2], 1, lost)) as some:
        assert next(some) == (0, 0)


def test_few_things_are_not_worth_a_process():
    assert usual_workers(1) == usual_workers(4) == 1
    assert usual_workers(1000) >= 1


def test_a_bar_counts_on_a_terminal_and_says_nothing_elsewhere(monkeypatch, capsys):
    with messages.counting("answering", 2, shown=True) as count:
        count.advance(False)
        count.say("a\x1b")
    assert capsys.readouterr().err == "a\\x1b\n"
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    with messages.counting("answering", 2, shown=True) as count:
        count.advance(True)
        count.say("[level] warning: [red]x")
    said = capsys.readouterr().err
    assert "1 failed" in said
    assert "[level] warning: [red]x" in said


PIECES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=40)
@given(PIECES, PIECES)
def test_a_fingerprint_tells_values_apart(one, other):
    assert fingerprint(one) == fingerprint(one)
    assert (fingerprint(one) == fingerprint(other)) == (repr(one) == repr(other))


def test_a_fingerprint_sees_each_field_of_a_table():
    scores = read_scores(simulate(backbones=2, scenarios=3, judges=2, random_seed=1).table)
    assert fingerprint(scores) == fingerprint(Scores(**vars(scores)))
    later = scores.score.copy()
    later[3] = np.nextafter(later[3], 9)
    for change in ({"score": later}, {"scale": (0.0, 9.0)}, {"facets": scores.facets[:-1]}):
        assert fingerprint(scores) != fingerprint(Scores(**{**vars(scores), **change}))
    assert fingerprint(np.zeros(2)) != fingerprint(np.zeros((2, 1)))
    assert fingerprint(np.float64(1)) == fingerprint(1.0)
    with pytest.raises(TypeError, match="no fingerprint"):
        fingerprint({1, 2})


def test_a_groups_folder_is_there_whole_or_not_at_all(tmp_path):
    folder = GroupFolder(tmp_path, "one")
    seen = []

    def look(path):
        seen.append(folder.path.exists())
        path.write_text("b", encoding="utf-8")

    folder.write({"result.json": "{}", "b.csv": look}, "rank", {"fingerprint": "1"})
    assert seen == [False]
    assert folder.seal() == {"fingerprint": "1"}
    assert folder.result() == {}
    # Again, in its place: until the last file is there it is not sealed.
    (folder.path / ".bayesjudge-left").mkdir()
    folder.write({"result.json": "1"}, "rank", {"fingerprint": "2"})
    assert sorted(p.name for p in folder.path.iterdir()) == [MANIFEST, "result.json"]

    def broken(path):
        raise OSError(28, "No space left on device")

    with pytest.raises(DataError, match="No space"):
        GroupFolder(tmp_path, "two").write({"a.csv": broken}, "rank", {})
    assert not (tmp_path / "two").exists()
    (folder.path / "result.json").write_text("2")
    assert folder.seal() == {}
    with pytest.raises(DataError, match="changed since"):
        folder.check(["result.json"])
    assert GroupFolder(tmp_path, "none").seal() == {}
    assert GroupFolder(tmp_path, "none").result() is None


def test_folders_outside_are_never_cleared(tmp_path):
    outside = tmp_path / "outside"
    OutputFolder(outside).write({"a.csv": "1"}, "rank")
    out = tmp_path / "out"
    named = {"folders": ["../outside", "/etc", 3, "gone"]}
    OutputFolder(out).write({}, seal=named)
    folders = GroupFolders.checked(out, {"x": "x"}, "rank", ["a.csv"], ["index.csv"])
    folders.begin()
    folders.finish({"index.csv": ""}, [], known=True)
    assert (outside / "a.csv").read_text() == "1"
    assert Path(out / "index.csv").is_file()
    assert OutputFolder(out).seal() == {"folders": []}
