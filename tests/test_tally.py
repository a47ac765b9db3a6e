"""A table that is passed over gives what the same table gives when it is read."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import polars as pl
import pytest

from bayesjudge import BayesjudgeError, DataError, UsageError
from bayesjudge.scores import read_scores, read_tally, tally_of_scores
from tests.back_ends import LOCAL, check_equal, make
from tests.dense_twin import B3, G2, frame_of

UNSEEN = "no second scale among the scores was looked for"


def said(problems):
    """Leave out row numbers, which only rows have."""
    return [(p.severity, p.what, p.rows, p.remedy) for p in problems if UNSEEN not in p.what]


def check_same(source, read_from=None, **options):
    """Both roads give one tally; or one refusal."""
    scores = tally_of_scores(
        read_scores(source if read_from is None else read_from, **options), location=3.0
    )
    found = read_tally(source, location=3.0, **options)
    check_equal(found.moments, scores.moments)
    for name in ("facets", "scale", "lower_is_better", "replicates", "n_repeated", "mapping"):
        assert getattr(found, name) == getattr(scores, name), name
    assert sorted(said(found.problems)) == sorted(said(scores.problems))
    return found


@pytest.mark.parametrize("back_end", LOCAL)
def test_frames_give_the_tally_of_their_scores(back_end):
    frame = frame_of(drop=9, **G2).rename(columns={"backbone": "model", "judge": "Rater"})
    found = check_same(make(back_end, frame), frame)
    assert found.facet_names == ("backbone", "judge", "scenario", "generation")
    assert found.levels("generation") == ()
    assert len(found) == len(frame)


def written(tmp_path, frame, kind):
    path = tmp_path / f"scores.{kind}"
    if kind == "parquet":
        frame.to_parquet(path)
    elif kind == "csv":
        frame.to_csv(path, index=False)
    else:
        frame.to_json(path, orient="records", lines=True)
    return path


@pytest.mark.parametrize("kind", ["parquet", "csv", "jsonl"])
def test_files_give_the_tally_of_their_scores(tmp_path, kind):
    frame = frame_of(drop=9, **G2)
    frame["turn"] = 1
    path = written(tmp_path, frame, kind)
    found = check_same(path)
    assert found.source == str(path)


def awkward():
    frame = frame_of(**G2).reset_index(drop=True)
    frame["score"] = np.abs(frame["score"].round(1))
    return frame


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_rows_left_out_are_told_in_the_same_words(tmp_path, kind):
    frame = awkward()
    frame["score"] = frame["score"].astype(str)
    frame.loc[[0, 9, 10], "score"] = ["N/A", "", "inf"]
    frame.loc[[2, 3], "score"] = [" 1e0 ", "True"]
    frame.loc[[4, 5], "score"] = ["-1", "1_0"]
    frame.loc[frame["scenario"] == "scenario1", "score"] = "lost"
    for options in ({}, {"missing": ["lost", -1, "5"]}, {"missing": ["never"]}):
        check_same(written(tmp_path, frame, kind), **options)


@pytest.mark.parametrize("back_end", LOCAL)
def test_missing_numbers_and_labels(back_end):
    frame = awkward()
    frame.loc[[0, 9], "score"] = np.nan
    frame.loc[[1, 2], "score"] = -9.0
    frame["judge"] = frame["judge"].astype(object)
    frame.loc[[11, 12], "judge"] = None
    source = make(back_end, frame)
    found = check_same(source, frame)
    assert any("perhaps a mark" in p.what for p in found.problems)
    check_same(source, frame, missing=-9)


@pytest.mark.parametrize("back_end", LOCAL)
def test_rows_are_kept_by_label(back_end):
    frame = frame_of(**G2).assign(split=lambda f: f["score"] > 0, turn=1.5)
    frame["number"] = np.arange(len(frame)) % 2
    source = make(back_end, frame)
    where = [("split", "True"), ("turn", "1.5"), ("number", "1"), ("model", "backbone0")]
    frame = frame.rename(columns={"backbone": "model"})
    source = make(back_end, frame)
    where = [*where, ("model", "backbone1")]
    check_same(source, frame, where=where, replicates=True)


@pytest.mark.parametrize("back_end", LOCAL)
@pytest.mark.parametrize("scale", [(1, 5), (-20, 30)])
def test_scores_outside_the_scale_are_refused_in_the_same_words(back_end, scale):
    frame = awkward()
    check_refused(make(back_end, frame), frame, scale=scale)


def check_refused(source, read_from=None, **options):
    """Both roads refuse in the same words, or neither; columns are refused before rows."""

    def refusal(read, table):
        try:
            return read(table, **options) and None
        except BayesjudgeError as error:
            return error

    expected = refusal(read_scores, source if read_from is None else read_from)
    found = refusal(read_tally, source)
    assert type(found) is type(expected)
    if found is not None:
        # Sources have other names: "2 things are wrong with pandas DataFrame".
        assert found.what.splitlines()[0].split(" with ")[0] in str(expected)
        assert found.remedy in str(expected)


@pytest.mark.parametrize(
    ("change", "options"),
    [
        # cells of several scores: they differ in a column, in two, in none
        (lambda f: pd.concat([f.assign(turn=1), f.assign(turn=2)]), {}),
        (lambda f: pd.concat([f, f.iloc[:3]]), {}),
        (lambda f: f.drop(columns="generation").assign(turn=f["generation"]), {}),
        (lambda f: pd.concat([f, f.iloc[:3]]), {"replicates": True}),
        # columns
        (lambda f: f.rename(columns={"score": "points"}), {}),
        (lambda f: f.assign(model=f["backbone"]), {}),
        (lambda f: f.assign(weight=1.0), {}),
        (lambda f: f.assign(sample="1"), {"columns": {"judge": "sample", "scenario": "sample"}}),
        (lambda f: f, {"columns": {"judge": "nobody"}}),
        (lambda f: f, {"columns": {"judge": "judge", "language": "judge"}}),
        (lambda f: f.assign(generation=1), {"random": "backbone"}),
        # rows
        (lambda f: f, {"where": [("nobody", "1")]}),
        (lambda f: f, {"where": [("judge", "nobody")]}),
        (lambda f: f, {"where": [("backbone", "backbone0")]}),
        (lambda f: f.assign(score=np.nan), {}),
        (lambda f: f.assign(judge=f["judge"].where(f.index > 2)), {"strict": True}),
        # designs
        (lambda f: f[(f["backbone"] == "backbone0") == (f["judge"] == "judge0")], {}),
        (lambda f: f.groupby("backbone").head(1), {}),
    ],
)
def test_refusals_are_those_of_reading(change, options):
    frame = change(frame_of(**G2).reset_index(drop=True)).reset_index(drop=True)
    check_refused(pl.from_pandas(frame).lazy(), frame, **options)


def test_what_moments_do_not_hold_is_refused():
    frame = frame_of(**G2)
    with pytest.raises(UsageError, match="covariates are numbers of each row"):
        read_tally(frame, covariates="length")
    with pytest.raises(UsageError, match="human scores are compared row by row"):
        read_tally(frame, columns={"human_score": "score2"})
    with pytest.raises(UsageError, match="of battles no moments"):
        read_tally(pd.DataFrame({"model_a": ["a"], "model_b": ["b"], "winner": ["model_a"]}))
    with pytest.raises(UsageError, match="is no frame"):
        read_tally(3)
    with pytest.raises(UsageError, match="no file was named"):
        read_tally([])
    with pytest.raises(UsageError, match="covariates are numbers of each row"):
        tally_of_scores(read_scores(frame.assign(length=1.0), covariates="length"))
    gold = read_tally(frame.assign(human_score=1.0))
    assert any("human scores" in p.what for p in gold.problems)
    assert "human_score" not in dict(gold.mapping)


def test_one_generation_an_answer_is_told():
    frame = frame_of(**G2)
    check_same(frame[frame["generation"] == "generation0"])
    kept = frame["generation"] == "generation0"
    kept = np.where(frame["scenario"] == "scenario0", ~kept, kept)
    check_same(frame[kept.astype(bool)])


def test_facets_of_the_moments_may_be_fewer_than_the_table_s(tmp_path):
    frame = pd.concat([frame_of(**G2), frame_of(**G2).iloc[:3]])
    path = written(tmp_path, frame, "parquet")
    found = read_tally(path, blocks=["scenario", "backbone"], cells=(), replicates=True)
    assert found.moments.facets == ("scenario", "backbone")
    assert found.n_repeated == 3
    twin = tally_of_scores(
        read_scores(path, replicates=True), blocks=["scenario", "backbone"], cells=()
    )
    assert (found.n_repeated, found.facets) == (twin.n_repeated, twin.facets)
    with pytest.raises(DataError, match="3 cells have more than one score"):
        read_tally(path, blocks=["scenario", "backbone"], cells=())


def test_tables_of_languages_need_no_backbone():
    frame = frame_of(language=3, scenario=4, judge=2)
    found = check_same(frame, measured="language")
    assert found.moments.blocks == ("scenario",)
    check_same(frame.drop(columns="scenario"), measured="language", replicates=True)


def test_files_that_are_no_tables_are_refused(tmp_path):
    frame = frame_of(**G2)
    csv, parquet = (written(tmp_path, frame, kind) for kind in ("csv", "parquet"))
    for source, match in (
        (tmp_path / "none.csv", "no such file"),
        (tmp_path / "*.tsv", "no file matches"),
        ([csv, parquet], "several kinds"),
        (tmp_path, "several kinds"),
    ):
        with pytest.raises(DataError, match=match):
            read_tally(source)
    (tmp_path / "empty.csv").write_text("")
    (tmp_path / "other.csv").write_text("judge,score\na,1\n")
    (tmp_path / "ragged.csv").write_text("backbone,judge,score\na,b,1\na,b\n")
    (tmp_path / "twice.csv").write_text("backbone,score,score\na,1,1\n")
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 and nothing")
    for name, match in (
        ("empty.csv", "empty"),
        ("ragged.csv", "cannot be"),
        ("twice.csv", "more than once"),
        ("broken.parquet", "cannot be read"),
    ):
        with pytest.raises(DataError, match=match):
            read_tally(tmp_path / name)
    with pytest.raises(DataError, match="columns or delimiters of the files differ"):
        read_tally([csv, tmp_path / "other.csv"])
    with pytest.raises(DataError, match="CSV files elsewhere"):
        read_tally("https://nowhere.invalid/scores.csv")


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_table_without_rows_is_refused_in_the_same_words(tmp_path, kind):
    path = tmp_path / f"t.{kind}"
    frame = pd.DataFrame({name: pd.Series(dtype=str) for name in ("model", "item", "score")})
    frame.to_csv(path, index=False) if kind == "csv" else frame.to_parquet(path)
    with pytest.raises(DataError, match="a header but no rows") as rows:
        read_scores(path)
    with pytest.raises(DataError) as passed:
        read_tally(path)
    assert str(passed.value) == str(rows.value)


def test_globs_and_lists_are_one_table(tmp_path):
    frame = frame_of(**G2).reset_index(drop=True)
    paths = []
    for i in range(3):
        paths.append(tmp_path / f"part{i}.parquet")
        frame[i::3].to_parquet(paths[-1], index=False)
    twin = tally_of_scores(read_scores(frame), location=3.0)
    for source in (tmp_path / "part*.parquet", paths, tmp_path):
        check_equal(read_tally(source, location=3.0).moments, twin.moments)


def test_labels_of_json_lines_are_those_that_reading_makes(tmp_path):
    path = tmp_path / "scores.jsonl"
    frame = frame_of(**B3).reset_index(drop=True)
    rows = [
        {"backbone": i % 2, "judge": i % 3 == 0, "scenario": 0.5 * (i // 6), "score": i, "t": None}
        for i in range(len(frame))
    ]
    path.write_text("\n".join(map(json.dumps, rows)))
    check_same(path, replicates=True)
    rows[0]["backbone"] = "0"
    path.write_text("\n".join(map(json.dumps, rows)))
    with pytest.raises(DataError, match="no label can be made"):
        read_tally(path, replicates=True)


def test_csv_is_text_byte_for_byte(tmp_path):
    path = tmp_path / "scores.csv"
    labels = [("01", ""), ("1", "NULL"), ("01", '"a\nb"'), ("1", ""), ("01", "NULL")]
    lines = ["backbone;judge;score", *(f"{b};{j};{s}" for s, (b, j) in enumerate(labels))]
    path.write_text("\ufeff" + "\n".join(lines) + "\n", encoding="utf-8")
    found = check_same(path, replicates=True)
    assert found.levels("judge") == ("", "NULL", "a\nb")


def test_numbers_in_other_scripts_are_refused(tmp_path):
    path = tmp_path / "scores.csv"
    path.write_text("backbone,score\na,1\nb,\uff11\na,2\nb,3\n", encoding="utf-8")
    with pytest.raises(DataError, match="number to Python but none to DuckDB"):
        read_tally(path, replicates=True)


def test_rows_left_out_are_fetched_up_to_a_number(monkeypatch):
    from bayesjudge.scores import tally_findings

    monkeypatch.setattr(tally_findings, "MOST_ROWS", 2)
    frame = frame_of(**G2).reset_index(drop=True)
    frame.loc[:4, "score"] = np.nan
    found = read_tally(frame)
    assert found.n_excluded == 5
    assert any("of 5 rows left out, the first 2 were told apart" in p.what for p in found.problems)
