"""Inspect logs: fixtures that Inspect wrote (``formats/make_inspect.py``), cell by cell."""

from __future__ import annotations

import io
import json
import math
import zipfile
from pathlib import Path

import pytest

from bayesjudge.errors import DataError
from bayesjudge.scores.formats.archives import UNKNOWN
from bayesjudge.scores.formats.cells import Unreadable
from bayesjudge.scores.formats.inspect_samples import (
    judges_of,
    scorers_of,
    take_sample,
    value_cells,
)
from bayesjudge.scores.reading import read_raw
from tests.formats.builders import HEADER, NAMES, archive, dump, inspect_sample, make
from tests.formats.make_inspect_grades import EPOCHS, GRADES, ITEMS
from tests.formats.reading import project, read_rows, rows_of, said

FOLDER = Path(__file__).parent / "formats" / "inspect"
WORTH = {"C": 1.0, "P": 0.5, "I": 0.0}
FAILED = ("سؤال-4", "2")


def expected_grade(judge, item):
    # N was not on offer and X is no grade: Inspect leaves both unscored.
    return WORTH.get(GRADES[judge][item])


def expected():
    """Yield every cell that the two models' logs hold."""
    for model in "xy":
        for epoch in EPOCHS:
            for item, name in enumerate(ITEMS):
                failed = (name, epoch) == FAILED

                at = (model, name, epoch)

                def cell(judge, scorer, criterion, element, score, at=at, failed=failed):
                    return (*at, judge, scorer, criterion, element, None if failed else score)

                for number, judge in enumerate("ab"):
                    scorer = f"model_graded_qa{number or ''}"
                    score = expected_grade(judge, item)
                    yield cell(f"judge-{judge}", scorer, "model_graded_qa", None, score)
                for judge in "abc":
                    score = expected_grade(judge, item)
                    yield cell(f"judge-{judge}", "model_graded_qa2", "model_graded_qa", None, score)
                yield cell("judge-d", "rubric", "clarity", None, item + 1.0)
                yield cell("judge-d", "rubric", "safety", None, None if item == 2 else 5.0)
                for element, score in enumerate((item, item + 0.5, float(epoch))):
                    yield cell("thrice", "thrice", "thrice", str(element), score)
                yield cell("bare", "bare", "bare", None, None if item == 3 else item * 2.5)


def by_text(found):
    return sorted(found, key=lambda cell: tuple(map(str, cell)))


@pytest.mark.parametrize("suffix", ["eval", "json"])
def test_a_log_of_inspect_cell_by_cell(suffix):
    rows = read_rows(FOLDER / f"model-x.{suffix}")
    found = [
        (
            row["backbone"].removeprefix("mockllm/model-"),
            *(row["scenario"], row["generation"], row["judge"].removeprefix("mockllm/")),
            *(row["scorer"], row["criterion"], row.get("element"), row.get("score")),
        )
        for row in rows
    ]
    assert by_text(found) == by_text(cell for cell in expected() if cell[0] == "x")
    assert {row["language"] for row in rows if row["scenario"] == "q-0"} == {"en"}
    assert {row["language"] for row in rows if row["scenario"] == "سؤال-4"} == {"ar"}
    assert all("score" in row or "failure" in row for row in rows)
    of_error = [row for row in rows if (row["scenario"], row["generation"]) == FAILED]
    assert {row["failure"] for row in of_error} == {
        "sample error: RuntimeError('the provider is gone')"
    }


def test_a_log_agrees_with_its_own_metrics():
    log = json.loads((FOLDER / "model-x.json").read_text())
    rows = read_rows(FOLDER / "model-x.json")
    checked = 0
    for result in log["results"]["scores"]:
        own = [
            row
            for row in rows
            if row["scorer"] == result["scorer"]
            and "element" not in row
            and (result["name"] in (row["criterion"], row["scorer"]))
        ]
        # A panel's rows are its votes, and its metric is of their majority.
        if not own or result["scorer"] == "model_graded_qa2":
            continue
        by_item: dict[str, list[float]] = {}
        for row in own:
            if "score" in row:
                by_item.setdefault(row["scenario"], []).append(row["score"])
            elif result["name"] == "safety" and row["failure"] == "judge: no value":
                # Inspect's own mean takes a null in a mapping for 0, which no judge said.
                by_item.setdefault(row["scenario"], []).append(0.0)
        means = [math.fsum(scores) / len(scores) for scores in by_item.values()]
        for metric in ("accuracy", "mean"):
            if metric in result["metrics"]:
                told = result["metrics"][metric]["value"]
                assert math.fsum(means) / len(means) == pytest.approx(told, rel=1e-12)
                checked += 1
    assert checked >= 4


def test_logs_of_several_models_are_one_table():
    table = read_raw(str(FOLDER / "*.eval"))
    rows = rows_of(table)
    assert {row["backbone"] for row in rows} == {"mockllm/model-x", "mockllm/model-y"}
    assert {row["log"] for row in rows} == {"model-x.eval", "model-y.eval"}
    assert len(rows) == len(list(expected()))
    assert "2 logs of Inspect: 20 samples read, 220 rows" in said(table)


@pytest.mark.parametrize(
    ("value", "cells"),
    [
        ("C", {"score": 1.0, "verdict": "C"}),
        ("P", {"score": 0.5, "verdict": "P"}),
        ("I", {"score": 0.0, "verdict": "I"}),
        ("N", {"score": 0.0, "verdict": "N"}),
        ("Yes", {"score": 1.0, "verdict": "Yes"}),
        (True, {"score": 1.0}),
        (3, {"score": 3.0}),
        ("7.5", {"score": 7.5}),
        (float("nan"), {"score": None, "failure": "judge: why"}),
        (None, {"score": None, "failure": "judge: why"}),
        (float("inf"), {"score": None, "failure": "value is no number: inf"}),
        ("maybe", {"score": None, "failure": "value is no number: 'maybe'"}),
        ({"a": 1}, {"score": None, "failure": "value is no number: a mapping"}),
    ],
)
def test_values_of_scorers(value, cells):
    assert value_cells(value, "why") == cells


def test_numbered_scorers_are_found_again():
    header = {
        "model_roles": {"grader": {"model": "r"}},
        "scorers": [
            {"name": "pkg/model_graded_qa", "options": {"model": "a"}},
            {"name": "model_graded_qa", "options": {"model": [{"model": "b"}, "c"]}},
            {"name": "model_graded_fact"},
            {"name": "model_graded_fact", "options": {"model_role": {"name": "other"}}},
            {"name": "match"},
            "nonsense",
        ],
    }
    found = scorers_of(header)
    assert {key: (s.name, s.models) for key, s in found.items()} == {
        "model_graded_qa": ("model_graded_qa", ("a",)),
        "model_graded_qa1": ("model_graded_qa", ("b", "c")),
        "model_graded_fact": ("model_graded_fact", ("r",)),
        "model_graded_fact1": ("model_graded_fact", ()),
        "match": ("match", ()),
    }


def test_a_judge_is_said_only_where_it_is_one():
    def sample(judge):
        score = {"value": 1, "metadata": {"judge_model": judge}}
        return take_sample({"id": 1, "epoch": 1, "scores": {"s": score}})

    assert judges_of([sample("a"), sample("a")], {}) == {"s": "a"}
    assert judges_of([sample("a"), sample("b")], {}) == {"s": None}


def test_a_vote_without_its_votes_is_one_judge(tmp_path):
    header = HEADER | {
        "eval": HEADER["eval"]
        | {"scorers": [{"name": "model_graded_qa", "options": {"model": ["a", "b"]}}]}
    }
    log = header | {
        "samples": [
            {"id": i, "epoch": 1, "scores": {"model_graded_qa": {"value": "C"}}} for i in (1, 2)
        ]
    }
    path = tmp_path / "log.json"
    path.write_text(json.dumps(log))
    table = read_raw(path)
    assert project(rows_of(table), "judge", "score") == [("vote of a, b", 1.0)] * 2
    assert "keeps their vote only" in said(table)


def test_old_logs(tmp_path):
    """One score a sample without a scorer's name, and 'I' where the judge gave no grade."""
    samples = [
        {"id": 1, "epoch": 1, "score": {"value": "C"}},
        {
            "id": 2,
            "epoch": 1,
            "score": {"value": "I", "explanation": "Grade not found in model output: hm"},
        },
        {"id": 3, "epoch": 1, "score": {"value": "I", "explanation": "wrong"}},
    ]
    log = {
        "version": 1,
        "status": "success",
        "eval": {"task": "t", "model": "m"},
        "results": {"scorer": {"name": "match"}},
        "samples": samples,
    }
    path = tmp_path / "log.json"
    path.write_text(json.dumps(log))
    rows = read_rows(path)
    assert project(rows, "scenario", "scorer", "score") == [
        ("1", "match", 1.0),
        ("2", "match", None),
        ("3", "match", 0.0),
    ]
    assert rows[1]["failure"] == "judge: no grade in its reply"


def test_what_a_log_says_of_itself_is_said(tmp_path):
    samples = make(inspect_sample)[:-2]
    samples[0]["invalidation"] = {"author": "me"}
    samples[1]["scores"] = {}
    samples[2]["scores"]["rubric"] = 7
    log = HEADER | {"status": "cancelled", "samples": samples}
    path = tmp_path / "log.json"
    path.write_text(json.dumps(log))
    table = read_raw(path)
    assert "status is 'cancelled'" in said(table)
    assert "2 samples that the evaluation was of are not in the log: 'q,8' epoch 1, 'q-9'" in said(
        table
    )
    assert "sample '题目 2' epoch 1 (scorer 'rubric': score is a number)" in said(table)
    failures = {r["scenario"]: r["failure"] for r in rows_of(table) if "failure" in r}
    assert failures == {NAMES[0]: "sample invalidated", NAMES[1]: "sample not scored"}
    # Three scores each that the others have.
    assert sum("failure" in row for row in rows_of(table)) == 6


def test_later_members_supersede_and_samples_in_pieces_are_read(tmp_path):
    out = io.BytesIO()
    first, second = inspect_sample(0), inspect_sample(1)
    better = dict(first, scores={"rubric": {"value": 9}})
    with zipfile.ZipFile(out, "w") as zipped:
        zipped.writestr("samples/a_epoch_1.json", dump(first))
        with pytest.warns(UserWarning, match="Duplicate name"):
            zipped.writestr("samples/a_epoch_1.json", dump(better))
        zipped.writestr("header.json", json.dumps(HEADER))
        topic = second.pop("metadata")
        zipped.writestr("samples/b_epoch_1/sample.json", dump(second))
        zipped.writestr("samples/b_epoch_1/metadata.json", dump(topic))
        zipped.writestr("samples/b_epoch_1/events/0.json", "[]")
    path = tmp_path / "log.eval"
    path.write_bytes(out.getvalue())
    rows = read_rows(path)
    assert [row["score"] for row in rows if row["scenario"] == NAMES[0]] == [9.0]
    assert {row["metadata.topic"] for row in rows if row["scenario"] == NAMES[1]} == {"t1"}


def test_a_newer_version_is_read_and_told(tmp_path):
    log = HEADER | {"version": 9, "samples": make(inspect_sample)}
    path = tmp_path / "log.json"
    path.write_text(json.dumps(log))
    assert "version 9, newer than" in said(read_raw(path))


def test_what_only_inspect_can_read(tmp_path, monkeypatch):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_BZIP2) as zipped:
        zipped.writestr("header.json", json.dumps(HEADER))
        zipped.writestr("samples/a_epoch_1.json", dump(inspect_sample(0)))
    path = tmp_path / "log.eval"
    path.write_bytes(out.getvalue())
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(
        DataError, match=r"Inspect itself only.*packed by a method.*Install inspect-ai"
    ):
        read_raw(path)


def test_inspect_reads_what_it_alone_can(monkeypatch):
    pytest.importorskip("inspect_ai")
    path = FOLDER / "model-x.eval"
    names = ("scenario", "generation", "judge", "scorer", "criterion", "score", "failure")
    own = by_text(project(read_rows(path), *names))

    def refuse(packed, size):
        raise Unreadable(f"it is {UNKNOWN} zstd in this build of pyarrow")

    monkeypatch.setattr("bayesjudge.scores.formats.archives._unpack_zstd", refuse)
    assert by_text(project(read_rows(path), *names)) == own


def test_an_archive_cut_short_gives_what_is_whole(tmp_path):
    data, ends = archive(make(inspect_sample))
    path = tmp_path / "log.eval"
    path.write_bytes(data[: ends[6] + 10])
    table = read_raw(path)
    assert {row["scenario"] for row in rows_of(table)} == set(NAMES[:7])
    assert "list of members is damaged or missing" in said(table)
    # The header was written first as well, and says which samples there were.
    assert "3 samples that the evaluation was of are not in the log" in said(table)
