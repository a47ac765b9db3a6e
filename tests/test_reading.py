"""Sources: every kind of file and frame gives the same labels; bad ones one clear error."""

from __future__ import annotations

import contextlib
import csv
import gzip
import io
import json
import tempfile
import time
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bayesjudge.errors import BayesjudgeError, DataError, UsageError
from bayesjudge.scores import read_scores, scan
from bayesjudge.scores.reading import read_raw

SHARED = Path(__file__).parents[1].parent / "shared" / "data"
SLOW = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)

odd_labels = ["01", "1", "NA", "None", "nan", "", " x ", "null", "true", "١٢", "العربية", "हिन्दी"]
odd_labels += ["中文 模型", "a,b", 'say "hi"', "two\nlines", "cr\r\nlf", "\r", "x;y", "t\tt", "﻿b"]
odd_labels += [
    "\u2028",
    "\x0b",
    "1e5",
    "1.0",
    "-0",
    "<b>",
    "[red]x[/]",
    "ﷺ",
    "👩‍🔬",
    "é",
    "e\u0301",
]
labels = st.one_of(
    st.sampled_from(odd_labels),
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8),
)


def write_csv(path: Path, rows: list[list[str]], delimiter: str = ",") -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, delimiter=delimiter).writerows(rows)
    return path


def label_list(source, name="label"):
    found = read_raw(source).columns[name].labels
    return [None if code < 0 else found.levels[code] for code in found.codes]


@SLOW
@given(st.lists(labels, min_size=1, max_size=12))
def test_labels_come_back_byte_for_byte_from_every_source(values):
    scores = [float(i) for i in range(len(values))]
    data = {"label": values, "score": scores}
    frame = pl.DataFrame(data, schema={"label": pl.String, "score": pl.Float64})
    table = pa.table(data)
    relation = duckdb.from_arrow(table)
    sources: list[object] = [
        pd.DataFrame({"label": pd.Series(values, dtype=object), "score": scores}),
        pd.DataFrame(data),
        pd.DataFrame({"label": pd.Categorical(values), "score": scores}),
        frame,
        frame.lazy(),
        frame.with_columns(pl.col("label").cast(pl.Categorical)),
        table,
        pa.table({"label": pa.array(values).dictionary_encode(), "score": scores}),
        pa.table({"label": pa.array(values, pa.string_view()), "score": scores}),
        relation,
    ]
    for source in sources:
        assert label_list(source) == values
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        rows = [["label", "score"], *([v, str(s)] for v, s in zip(values, scores, strict=True))]
        for delimiter in ",;\t":
            assert label_list(write_csv(home / "a.csv", rows, delimiter)) == values
        lines = [json.dumps({"label": v, "score": 1}, ensure_ascii=False) for v in values]
        (home / "a.jsonl").write_text("\n".join(lines), encoding="utf-8", newline="")
        assert label_list(home / "a.jsonl") == values
        pq.write_table(table, home / "a.parquet")
        assert label_list(str(home / "a.parquet")) == values
        (home / "b.csv.gz").write_bytes(gzip.compress((home / "a.csv").read_bytes()))
        assert label_list(home / "b.csv.gz") == values
        (home / "b.parquet.gz").write_bytes(gzip.compress((home / "a.parquet").read_bytes()))
        assert label_list(home / "b.parquet.gz") == values


@SLOW
@given(st.binary(max_size=200), st.sampled_from(["csv", "tsv", "jsonl", "parquet", "csv.gz", "x"]))
def test_garbage_gives_one_of_our_errors_or_an_answer(data, suffix):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"garbage.{suffix}"
        path.write_bytes(data)
        with contextlib.suppress(BayesjudgeError):
            scan(path)


cells = st.text(st.sampled_from('ab1,;\t"\n\r.-eNA '), max_size=6)


@SLOW
@given(st.lists(st.lists(cells, min_size=1, max_size=4), max_size=6), st.sampled_from(",;\n"))
def test_near_tables_give_one_of_our_errors_or_an_answer(rows, delimiter):
    text = "model,score,item\n" + "\n".join(delimiter.join(row) for row in rows)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "near.csv"
        path.write_bytes(text.encode())
        with contextlib.suppress(BayesjudgeError):
            scan(path)


@SLOW
@given(st.data())
def test_damaged_parquet_gives_one_of_our_errors_or_an_answer(data):
    sink = io.BytesIO()
    pq.write_table(pa.table({"model": ["a", "b"] * 20, "score": [1.0, 2.0] * 20}), sink)
    content = bytearray(sink.getvalue())
    for _ in range(data.draw(st.integers(1, 6))):
        content[data.draw(st.integers(4, len(content) - 1))] = data.draw(st.integers(0, 255))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "damaged.parquet"
        path.write_bytes(content)
        with contextlib.suppress(BayesjudgeError):
            scan(path)


def test_numbers_and_nulls_as_labels():
    frame = pd.DataFrame(
        {
            "int": [1, 20, 3],
            "float": [1.0, float("nan"), 0.5],
            "null": ["x", None, "y"],
            "nullable": pd.array([1, None, 2], dtype="Int64"),
            "mixed": pd.Series([1, "1", None], dtype=object),
            "bool": [True, False, True],
            "day": pd.to_datetime(["2026-01-01", None, "2026-01-02"]),
            "numpy": pd.Series([np.int64(4), np.str_("s"), pd.NA], dtype=object),
        }
    )
    assert label_list(frame, "int") == ["1", "20", "3"]
    assert label_list(frame, "float") == ["1.0", None, "0.5"]
    assert label_list(frame, "null") == ["x", None, "y"]
    assert label_list(frame, "nullable") == ["1", None, "2"]
    assert label_list(frame, "mixed") == ["1", "1", None]
    assert label_list(frame, "bool") == ["True", "False", "True"]
    assert label_list(frame, "day") == ["2026-01-01 00:00:00", None, "2026-01-02 00:00:00"]
    assert label_list(frame, "numpy") == ["4", "s", None]
    table = pa.table({"b": pa.array([b"x", b"y"]), "t": pa.array([1, None], pa.timestamp("s"))})
    assert label_list(table, "b") == ["x", "y"]
    assert label_list(table, "t") == ["1970-01-01 00:00:01", None]
    odd = pd.DataFrame({"o": pd.Series([{1}, np.array([1]), bytearray(b"z"), 1], dtype=object)})
    assert label_list(odd, "o") == ["{1}", "[1]", "bytearray(b'z')", "1"]
    assert label_list(pa.table({"n": pa.nulls(2)}), "n") == [None, None]


def test_polars_objects_are_read():
    frame = pl.DataFrame({"o": pl.Series([1, "a"], dtype=pl.Object)})
    assert label_list(frame, "o") == ["1", "a"]


def test_several_files_are_stacked_in_any_column_order(tmp_path):
    write_csv(tmp_path / "1.csv", [["model", "score"], ["a", "1"], ["b", "2"]])
    write_csv(tmp_path / "2.csv", [["score", "model"], ["3", "a"], ["x", "b"]])
    for source in [
        tmp_path,
        str(tmp_path),
        str(tmp_path / "*.csv"),
        [tmp_path / "1.csv", str(tmp_path / "2.csv")],
    ]:
        reading = scan(source, replicates=True)
        assert reading.n_rows == 4
        assert reading.scores is not None
        assert reading.scores.score.tolist() == [1, 2, 3]
        warning = reading.problems[0]
        assert f"row 2 of {tmp_path / '2.csv'}" in warning.where


def test_parquet_files_of_different_types_meet_as_text(tmp_path):
    pq.write_table(pa.table({"model": [1, 2], "score": [1.0, 2.0]}), tmp_path / "1.parquet")
    pq.write_table(pa.table({"model": ["1", "x"], "score": [3, 4]}), tmp_path / "2.parquet")
    scores = read_scores(tmp_path, replicates=True)
    assert scores.levels("backbone") == ("1", "2", "x")
    assert scores.codes("backbone").tolist() == [0, 1, 0, 2]


def test_files_whose_columns_differ_are_refused(tmp_path):
    write_csv(tmp_path / "1.csv", [["model", "score"], ["a", "1"]])
    write_csv(tmp_path / "2.csv", [["model", "rating"], ["a", "1"]])
    with pytest.raises(DataError, match=r"lacks 'score' and adds 'rating'"):
        read_raw(tmp_path / "*.csv")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", b"", "is empty"),
        ("a.csv", b"\n \n", "is empty"),
        ("a.csv", b"model,score\n", "header but no rows"),
        ("a.csv", b"model,score", "header but no rows"),
        ("a.csv", b"model,score\na,1\nb,2,3\nc\n", "row 2 has 3, and 1 other rows"),
        ("a.csv", b"model,score\na,1\nb\n", "names 2 columns but row 2 has 1"),
        ("a.csv", b"model,score\n\xe9,1\n", r"not text in UTF-8 .*line 2"),
        ("a.csv", "model,score\na,1\n".encode("utf-16"), "UTF-16"),
        ("a.csv", b"model,model,score\na,a,1\n", "'model' occurs more than once"),
        ("a.csv", b"mo\0del,score\na,1\n", "NUL"),
        ("a.csv", b'model,score,x\na,1,"u\nb,2,v\n', "never closed .* line 2"),
        ("a.csv", b"model," + b"x" * 200_000 + b"\n1,2\n", "field larger"),
        ("a.csv.gz", b"\x1f\x8bnonsense", "cannot be read"),
        ("a.csv.gz", gzip.compress(b"model,score\na,1\n", mtime=0)[:-9], "cannot be read"),
        ("a.parquet", b"PAR1 nonsense PAR1", "cannot be read"),
        ("a.parquet", b"model,score\n", "not a Parquet file"),
        ("a.jsonl", b'{"model": "a"}\n{"model": }\n', "not valid JSON.*line 2"),
        ("a.jsonl", b'{"a": 1}\n\n[1]\n', "not a JSON object .*line 3"),
        ("a.jsonl", b'{"a": 1, "a": 2}\n', "a key occurs more than once"),
        ("a.jsonl", b'{"\\ud800": 1}\n', "not valid Unicode"),
        ("a.jsonl", b"[" * 100_000, "not valid JSON"),
        ("a", b'[{"a": 1}]', "not a JSON object"),
    ],
)
def test_unreadable_files_give_one_clear_error(tmp_path, name, content, message):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(DataError, match=message) as caught:
        read_raw(path)
    assert str(path) in str(caught.value)


def test_missing_sources_give_one_clear_error(tmp_path):
    with pytest.raises(DataError, match="no such file"):
        read_raw(tmp_path / "none.csv")
    with pytest.raises(DataError, match="no file matches"):
        read_raw(str(tmp_path / "*.csv"))
    with pytest.raises(DataError, match="holds no file"):
        read_raw(tmp_path)
    with pytest.raises(DataError, match="NUL"):
        read_raw("a\0b")
    with pytest.raises(DataError, match="cannot be read"):
        read_raw("x" * 5000)
    write_csv(tmp_path / "1.csv", [["model", "score"], ["a", "1"]])
    (tmp_path / "2.jsonl").write_text('{"model": "a"}')
    with pytest.raises(DataError, match="several kinds"):
        read_raw(tmp_path)
    with pytest.raises(UsageError, match="no file"):
        read_raw([])
    for wrong in (3, {"a": [1]}, None, pd.Series([1])):
        with pytest.raises(UsageError, match="no table that can be read"):
            read_raw(wrong)


def test_a_file_that_vanishes_is_an_error_of_ours(tmp_path, monkeypatch):
    path = write_csv(tmp_path / "1.csv", [["model", "score"], ["a", "1"]])

    def refuse(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(DataError, match="Permission denied"):
        read_raw(path)


def test_frames_that_cannot_be_used_give_one_clear_error(tmp_path):
    with pytest.raises(DataError, match="more than once"):
        read_raw(pd.DataFrame([[1, 2]], columns=["a", "a"]))
    with pytest.raises(DataError, match="more than once"):
        read_raw(pa.table([[1], [2]], names=["a", "a"]))
    with pytest.raises(DataError, match="no rows"):
        read_raw(pl.DataFrame({"a": []}))
    with pytest.raises(DataError, match="cannot be collected"):
        read_raw(pl.scan_csv(tmp_path / "none.csv"))
    with pytest.raises(DataError, match="cannot be collected"):
        read_raw(pl.LazyFrame({"a": [1]}).select("b"))
    assert list(read_raw(pd.DataFrame({0: ["a"], 1: [2]})).columns) == ["0", "1"]


def test_bom_blank_lines_and_old_line_ends_are_harmless(tmp_path):
    path = tmp_path / "a.csv"
    for content in (
        "\ufeffmodel,score\r\na,1\r\n\r\nb,2",
        "\n\nmodel,score\n\na,1\nb,2\n\n",
        "model,score\ra,1\rb,2",
    ):
        path.write_bytes(content.encode())
        table = read_raw(path)
        assert list(table.columns) == ["model", "score"]
        assert label_list(path, "model") == ["a", "b"]
    path.write_bytes(b'model,score\n5" screen,1\n')
    assert label_list(path, "model") == ['5" screen']
    path = tmp_path / "a.jsonl"
    path.write_bytes('\ufeff{"model": "a"}\r\n\r\n{"model": "b", "z": [1]}'.encode())
    assert label_list(path, "model") == ["a", "b"]
    assert label_list(path, "z") == [None, "[1]"]


def test_a_file_without_a_known_suffix_is_told_by_its_content(tmp_path):
    path = tmp_path / "scores"
    path.write_text('{"model": "a", "score": 1}\n')
    assert list(read_raw(path).columns) == ["model", "score"]
    path.write_text("model\tscore\na\t1\n")
    assert list(read_raw(path).columns) == ["model", "score"]


def test_large_tables_are_read_and_checked_in_time(tmp_path):
    rng = np.random.default_rng(1)
    n = 20_000
    cells = np.unravel_index(np.arange(n), (5, 80, 10, 5))
    frame = pd.DataFrame(dict(zip(("model", "item", "run", "judge"), cells, strict=True)))
    frame["score"] = rng.normal(5, 1, n).round(3)
    frame.to_csv(tmp_path / "w1.csv", index=False)
    scan(tmp_path / "w1.csv")
    start = time.process_time()
    scores = read_scores(tmp_path / "w1.csv")
    assert time.process_time() - start < 0.5
    assert len(scores) == n
    assert scores.problems == ()


def test_importing_the_room_loads_no_table_library():
    import subprocess
    import sys

    code = (
        "import sys, bayesjudge.scores\n"
        "heavy = {'pandas', 'polars', 'pyarrow', 'narwhals', 'scipy', 'jax', 'duckdb'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.skipif(not SHARED.is_dir(), reason="the real tables are not here")
def test_real_tables_are_read_whole():
    assert read_raw(SHARED / "hanna" / "llm_judges.csv").n_rows == 31_680
    assert read_raw(SHARED / "mt_bench_forks" / "scores.csv").n_rows == 2_570
    assert read_raw(SHARED / "devai_multilingual" / "verdicts.parquet").n_rows == 52_560
