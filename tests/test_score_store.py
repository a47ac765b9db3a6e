"""A store equals the table it was appended from, whatever happens on the way."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import bayesjudge as bj
from bayesjudge.errors import DataError, UsageError
from bayesjudge.score_store import create_store, durable, is_store, keeping, open_store
from bayesjudge.score_store.manifest import NAME, read_manifest, write_manifest
from bayesjudge.scores import relocate, tally_of_scores
from bayesjudge.simulation import simulate
from tests.score_days import day, days
from tests.store_crashes import kill_writers, same
from tests.test_moments import check_equal


@pytest.fixture
def unflushed(monkeypatch):
    """Do not wait for the disk: what is tested is not a loss of power."""
    monkeypatch.setattr(durable, "_flush", lambda _: None)


def in_order_of_time(frame, n_days, seed):
    """Give rows a day at random, but none before the days from which its labels are there."""
    rng = np.random.default_rng(seed)
    first = np.zeros(len(frame), int)
    for facet in ("backbone", "scenario", "judge"):
        labels = sorted(frame[facet].unique())
        from_day = rng.integers(0, n_days, len(labels))
        from_day[: len(labels) // 2] = 0
        first = np.maximum(first, frame[facet].map(dict(zip(labels, from_day, strict=True))))
    return rng.integers(first, n_days)


@pytest.mark.usefixtures("unflushed")
def test_fifty_appends_equal_the_table_they_are_parts_of(tmp_path):
    frame = simulate(
        backbones=4, scenarios=12, judges=3, generations=3, sd={"residual": 0.8}, random_seed=5
    ).table
    number = in_order_of_time(frame, 50, seed=1)
    store = create_store(tmp_path / "store")
    appended = []
    for k in range(50):
        part = frame[number == k]
        if part.empty:
            continue
        appended.append(part)
        store.append(part)
        if k % 10 == 9:
            so_far = pd.concat(appended)
            whole = tally_of_scores(bj.scan(so_far).require())
            found = open_store(store.path).tally()
            check_equal(relocate(found.moments, whole.moments.location), whole.moments)
            assert found.facets == whole.facets
            assert found.problems == whole.problems
    # Each generation was scored on several days, and levels appeared as days went by.
    split = frame.assign(day=number).groupby(["backbone", "scenario", "generation"])["day"]
    assert (split.max() > split.min()).mean() > 0.9
    assert len(appended) > 40
    # In the order of its keys a table is summed as the store is, to the last digit. In any
    # other moments differ by rounding, which may tip the resampling of a few draws.
    ordered = frame.sort_values(["backbone", "judge", "scenario", "generation"])
    whole, found = tally_of_scores(bj.read_scores(ordered)), store.tally()
    for name in ("codes", "count", "total", "squares"):
        np.testing.assert_array_equal(getattr(found.moments, name), getattr(whole.moments, name))
    one, other = (bj.fit(tally, random_seed=3) for tally in (found, whole))
    np.testing.assert_allclose(one.means(), other.means(), rtol=1e-10)
    pd.testing.assert_frame_equal(one.leaderboard(), other.leaderboard(), rtol=1e-10)


@pytest.mark.usefixtures("unflushed")
def test_order_and_size_of_appends_do_not_matter_to_the_last_digit(tmp_path):
    one, other = create_store(tmp_path / "one"), create_store(tmp_path / "other")
    for k in range(1, 16):
        one.append(day(k))
        sizes = [segment.n_keys for segment in one.manifest.segments]
        assert all(a > 2 * b for a, b in pairwise(sizes))
    other.append(days(15)[::-1])
    assert same(one.sums(), 15)
    a, b = one.tally().moments, other.tally().moments
    assert a.location == b.location
    for name in ("codes", "count", "total", "squares"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name))
    np.testing.assert_array_equal(a.generations.cell_squares, b.generations.cell_squares)


@pytest.mark.usefixtures("unflushed")
def test_repeated_calls_are_put_together(tmp_path):
    frame = day(7)
    store = create_store(tmp_path / "store", replicates=True, scale=(0, 12))
    store.append(frame)
    with pytest.raises(DataError, match=r"same \d+ scores were appended on .*append 1.*--again"):
        store.append(frame[::-1])
    store.append(frame, again=True)
    store.append(day(8))
    store.append(frame.assign(score=frame["score"] + 1))
    frames = [frame, frame, day(8), frame.assign(score=frame["score"] + 1)]
    whole = bj.read_scores(pd.concat(frames), replicates=True, scale=(0, 12))
    twin, found = tally_of_scores(whole), store.tally()
    check_equal(relocate(found.moments, twin.moments.location), twin.moments)
    assert (found.n_repeated, found.scale) == (twin.n_repeated, (0, 12))
    assert found.replicates


@pytest.mark.usefixtures("unflushed")
def test_a_cell_is_scored_once_unless_calls_are_repeated(tmp_path):
    store = create_store(tmp_path / "store")
    store.append(day(1))
    more = pd.concat([day(2), day(1).iloc[:1].assign(score=9.0)])
    with pytest.raises(DataError, match="1 cell has a score from an earlier append already"):
        store.append(more)
    with pytest.raises(DataError, match="cells have a score from an earlier append"):
        store.append(day(1), again=True)
    assert len(store.appends) == 1
    assert store.append(day(2)).number == 2


@pytest.mark.usefixtures("unflushed")
def test_days_are_read_by_the_options_of_the_first(tmp_path):
    first = day(1).rename(columns={"backbone": "who"}).assign(region="r", note=1)
    options = {"columns": {"backbone": "who"}, "random": "region", "ignore": "note"}
    create_store(tmp_path / "store", **options, missing=[-1]).append(first)
    store = open_store(tmp_path / "store")
    with pytest.raises(DataError, match="no column 'region' to serve as region"):
        store.append(day(2).rename(columns={"backbone": "who"}))
    with pytest.raises(DataError, match="has no judge and no generation, and the store's scores"):
        store.append(first[["who", "scenario", "region", "score"]].drop_duplicates("scenario"))
    other = open_store(tmp_path / "store", columns={"backbone": "llm"})
    named = day(2).rename(columns={"backbone": "llm"}).assign(region="q", note=2)
    named.loc[named.index[0], "score"] = -1
    made = other.append(named)
    assert (made.n_scores, made.n_excluded) == (len(named) - 1, 1)
    assert dict(store.manifest.facets)["region"] == "random"
    assert store.tally().moments.n_excluded == 1
    for wrong in ({"scale": (1, 10)}, {"lower_is_better": True}, {"where": {"region": "r"}}):
        with pytest.raises(
            UsageError, match=f"{next(iter(wrong))} is .* store was begun with none"
        ):
            open_store(tmp_path / "store", **wrong)
    with pytest.raises(DataError, match="has language, and the store's scores have none"):
        store.append(first.assign(language="de", judge="new"))
    with pytest.raises(UsageError, match="no option 'by'"):
        open_store(tmp_path / "store", by="judge")


@pytest.mark.usefixtures("unflushed")
def test_what_is_wrong_with_a_day_or_with_all_of_them_is_said(tmp_path):
    alone = day(1).assign(backbone="x", human_score=1.0)
    alone = alone.drop_duplicates(["scenario", "generation"])
    alone.loc[alone.index[0], "score"] = np.nan
    store = create_store(tmp_path / "store")
    made = store.append(alone)
    assert made.problems[0].severity == "warning"
    assert "human scores in 'human_score' are not kept" in made.problems[-1].what
    with pytest.raises(DataError, match="one backbone only, 'x', and nothing to rank"):
        store.tally()
    store.append(alone.assign(backbone="y").drop(columns="human_score"))
    (said, *_) = store.tally().problems
    assert said.what.startswith("2 appends have warnings, with 2 rows left out; the first: 1 score")
    bad = alone.assign(score="N/A")
    with pytest.raises(DataError, match="none of the"):
        store.append(bad)
    with pytest.raises(UsageError, match="battles"):
        store.append(pd.DataFrame({"model_a": ["x"], "model_b": ["y"], "winner": ["model_a"]}))


def test_a_store_is_begun_where_nothing_is(tmp_path):
    with pytest.raises(DataError, match="no store of scores here"):
        open_store(tmp_path / "none")
    (tmp_path / "file").write_text("x")
    with pytest.raises(DataError, match="cannot be made of what is there"):
        create_store(tmp_path / "file")
    with pytest.raises(DataError, match="cannot be made of what is there"):
        create_store(tmp_path)
    with pytest.raises(DataError, match=r"cannot be written: (File exists|Not a directory)"):
        keeping.Store(tmp_path / "file").append(day(1))
    store = create_store(tmp_path / "new")
    assert not store.appends
    assert not is_store("\0")
    store.append(day(1))
    with pytest.raises(DataError, match="exists already"):
        create_store(tmp_path / "new")


class Crash(BaseException):
    """The process ends here."""


def crash_at(monkeypatch, step):
    """End the process at its n-th change of the folder; some leave half of what they do."""
    count = 0

    def counted(act, half=None):
        def crashing(*words, **named):
            nonlocal count
            count += 1
            if count == step:
                if half is not None:
                    half(*words)
                raise Crash
            return act(*words, **named)

        return crashing

    def half(path):
        path.write_bytes(path.read_bytes()[:40])

    monkeypatch.setattr(durable, "_flush", counted(lambda _: None, half_of_a_file(half)))
    monkeypatch.setattr(Path, "replace", counted(Path.replace))
    monkeypatch.setattr(Path, "unlink", counted(Path.unlink))


def half_of_a_file(half):
    return lambda path: half(path) if path.is_file() else None


@pytest.mark.parametrize("before", [0, 6])
def test_a_crash_at_any_step_leaves_the_old_or_the_new_store(tmp_path, monkeypatch, before):
    seen = set()
    for step in range(1, 40):
        path = tmp_path / str(step)
        with monkeypatch.context() as patched:
            patched.setattr(durable, "_flush", lambda _: None)
            store = create_store(path)
            for k in range(1, before + 1):
                store.append(day(k))
        with monkeypatch.context() as patched:
            crash_at(patched, step)
            try:
                store.append(day(before + 1))
                ended = True
            except Crash:
                ended = False
        if ended:
            break
        n = len(store.appends)
        seen.add(n - before)
        assert n in (before, before + 1)
        if n:
            assert same(open_store(path).sums(), n)
        # The user asks, and goes on from there.
        again = open_store(path) if is_store(path) else create_store(path)
        assert again.append(day(n + 1)).number == n + 1
        assert same(again.sums(), n + 1)
        named = {segment.name for segment in again.manifest.segments}
        assert {file.name for file in (path / "sums").iterdir()} == named
        assert {file.name for file in path.iterdir()} == {"sums", "lock", NAME}
    assert ended
    assert step > 5
    assert seen == {0, 1}


def test_writers_killed_at_random_moments_lose_nothing(tmp_path):
    found = kill_writers(tmp_path, 8)
    assert not found.wrong
    assert found.kills == 8
    assert len(open_store(tmp_path / "store").appends) >= 3


def test_one_process_writes_at_a_time(tmp_path):
    store = create_store(tmp_path / "store")
    code = (
        "import sys; from pathlib import Path\n"
        "from bayesjudge.score_store.durable import only_writer\n"
        "with only_writer(Path(sys.argv[1])): print('held', flush=True); sys.stdin.read()"
    )
    (tmp_path / "store").mkdir()
    with subprocess.Popen(
        [sys.executable, "-c", code, str(store.path)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as holder:  # fmt: skip
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(DataError, match=rf"another process \({holder.pid}\) is writing"):
            store.append(day(1))
        holder.kill()
        holder.wait()
        # A lock ends with its process, however that ended.
        assert store.append(day(1)).number == 1


@pytest.mark.usefixtures("unflushed")
def test_readers_go_on_while_files_are_put_together(tmp_path, monkeypatch):
    store = create_store(tmp_path / "store")
    store.append(day(1))
    old = store.manifest
    store.append(day(1).assign(judge="other"))
    assert not (store.path / "sums" / old.segments[0].name).exists()
    answers = iter([old, store.manifest])
    monkeypatch.setattr(keeping, "read_manifest", lambda _: next(answers))
    assert store.sums().n_scores == 2 * len(day(1))
    monkeypatch.setattr(keeping, "read_manifest", lambda _: old)
    with pytest.raises(DataError, match=r"is missing: 000001\.parquet"):
        store.sums()


@pytest.mark.usefixtures("unflushed")
def test_sums_whose_manifest_is_gone_are_not_swept_away(tmp_path):
    store = create_store(tmp_path / "store")
    store.append(day(1))
    store.append(day(2))
    kept = (store.path / NAME).read_bytes()
    before = store.sums().n_scores
    (store.path / NAME).unlink()
    with pytest.raises(DataError, match="which names them, is gone"):
        create_store(store.path).append(day(3))
    (store.path / NAME).write_bytes(kept)
    assert open_store(store.path).sums().n_scores == before


@pytest.mark.usefixtures("unflushed")
def test_damage_is_found(tmp_path):
    store = create_store(tmp_path / "store")
    store.append(day(1))
    manifest = store.manifest
    assert manifest == read_manifest(store.path)
    (file,) = (store.path / "sums").iterdir()
    whole = file.read_bytes()
    at = whole.index(b"PAR1") + 30
    file.write_bytes(whole[:at] + bytes([whole[at] ^ 255]) + whole[at + 1 :])
    with pytest.raises(DataError, match="a file of the store is damaged"):
        store.tally()
    file.write_bytes(whole)
    wrong = replace(manifest, segments=(replace(manifest.segments[0], n_keys=3),))
    write_manifest(store.path, wrong)
    with pytest.raises(DataError, match=r"it holds .* keys, not 3"):
        store.tally()
    other = tuple((name.replace("judge", "grader"), role) for name, role in manifest.facets)
    write_manifest(store.path, replace(manifest, facets=other))
    with pytest.raises(DataError, match=r"its facets are .*judge.*, not .*grader"):
        store.tally()
    write_manifest(store.path, wrong)
    place = store.path / NAME
    held = json.loads(place.read_text())
    for text, message in (
        (json.dumps(held | {"format": 9}), "format 9, and this version reads 1"),
        (json.dumps({"format": 1}), "manifest of the store is damaged"),
        (json.dumps([1]), "manifest of the store is damaged"),
        ("{", "manifest of the store is damaged"),
    ):
        place.write_text(text)
        with pytest.raises(DataError, match=message):
            open_store(store.path)
    place.unlink()
    place.mkdir()
    with pytest.raises(DataError, match="cannot be read"):
        read_manifest(store.path)


@pytest.mark.usefixtures("unflushed")
def test_labels_of_any_script_are_kept(tmp_path):
    labels = ["NA", "01", " a ", "नमस्ते", "\u202ex", "[red]", ""]
    frame = pd.concat([day(1).assign(backbone=label) for label in labels])
    frame = frame.drop_duplicates(["backbone", "scenario", "generation"])
    store = create_store(tmp_path / "st\u00f6re")
    for label in labels:
        store.append(frame[frame["backbone"] == label])
    assert store.tally().levels("backbone") == bj.read_scores(frame).levels("backbone")
