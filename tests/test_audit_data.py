"""The audit on tables that others published; skipped where they are not on this machine."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import bayesjudge as bj
from bayesjudge.errors import DataError

ROOT = Path(__file__).parents[1]


def data(name):
    folder = Path(os.environ.get("BAYESJUDGE_DATA") or ROOT.parent / "shared" / "data")
    if not (folder / name).exists():
        pytest.skip(f"there is no {folder / name}; BAYESJUDGE_DATA names its folder")
    return folder / name


def test_empty_replies_imitate_a_language_effect():
    """Of 2,301 empty replies stored as "false", all are qwen3.5-9b's."""
    scores = bj.read_languages(data("devai_multilingual/verdicts.parquet"), random="requirement")
    found = bj.audit(scores, failures="empty", permutations=199, only="failures")
    by = found["failures"]["by_language"].set_index(["judge", "language"])
    row = by.loc["qwen3.5-9b", "Spanish"]
    assert (row.n, row.failed) == (1095, 680)
    assert round(100 * row.stored, 2) == 2.01
    assert round(100 * row.missing, 2) == 5.30
    assert round(100 * row.units_stored, 2) == 2.26
    assert round(100 * row.units_missing, 2) == 5.23
    assert row.differs
    flags = [f for f in found.flags if f.where == "judge qwen3.5-9b"]
    assert any("Spanish 0.02009 -> 0.05301" in f.what for f in flags)
    assert any("not missing at random" in f.what for f in flags)
    assert by["failed"].sum() == 2301
    # reproduced from the same files by whoever published them, in per cent
    assert round(100 * by.loc["gpt-4o", "English"].units_stored, 2) == 44.72
    assert round(100 * by.loc["gemini-3-flash-preview", "Hindi"].units_stored, 2) == 53.22


def test_means_of_87_languages_carry_what_means_can():
    source = data("mm_eval_language_means/language_means.csv")
    columns = {"pair": "response", "resource": "resource_level"}
    found = bj.audit(bj.read_languages(source, columns=columns))
    assert {s.key for s in found.sections} == {
        "means", "agreement", "resource", "pairwise_accuracy",
    }  # fmt: skip
    difference = found["pairwise_accuracy"]["differences"]
    classes = found["resource"]["languages"].set_index("language")["resource_class"]
    gpt = difference[difference["judge"] == "gpt-4"].set_index("language")["difference"]
    by = gpt.groupby(classes).mean().round(2)
    assert (by["high"], by["low"]) == (3.03, 2.53)
    rho = found["resource"]["correlations"].set_index("judge")["spearman"]
    assert (rho < -0.7).all()
    assert "n=COLUMN" in found.not_computed["anova"]


def test_a_table_without_languages_says_what_is_missing():
    source = data("judgemark_v2/cell_means.csv")
    with pytest.raises(DataError, match="--column language=COLUMN"):
        bj.read_languages(source)
    found = bj.audit(
        bj.read_languages(source, columns={"language": "model", "n": "n_items", "sd": "sd"})
    )
    assert {s.key for s in found.sections} == {"means", "anova", "agreement"}
    assert (found["anova"]["tests"]["df1"] == 16).all()
    assert "ISO 639" in found.not_computed["resource"]
