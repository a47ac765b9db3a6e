"""Tables that are drawn piece by piece."""

from __future__ import annotations

import json

import numpy as np
import pytest
from pyarrow import parquet
from typer.testing import CliRunner

from bayesjudge.cli.app import app
from bayesjudge.errors import ModelError, UsageError
from bayesjudge.simulated_streams import COLUMNS, simulate_stream


def rows_of(made, size):
    pieces = list(made.pieces(size))
    codes = {n: np.concatenate([p[n] for p, _ in pieces]) for n in COLUMNS}
    return codes, np.concatenate([score for _, score in pieces])


@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_rows_do_not_depend_on_the_size_of_pieces(missing):
    made = simulate_stream(scenarios=3, generations=7, judges=2, missing=missing, random_seed=4)
    codes, score = rows_of(made, 10**6)
    for size in (1, 5, 64):
        others, other = rows_of(made, size)
        np.testing.assert_array_equal(other, score)
        for name in COLUMNS:
            np.testing.assert_array_equal(others[name], codes[name])
    n = 5 * 3 * 7 * 2
    # Bernoulli(0.3) of 210 scores: four standard errors are 0.13.
    assert abs(score.size / n - (1 - missing)) < 0.13
    if not missing:
        assert len({*zip(*codes.values(), strict=True)}) == n == score.size


def test_scores_without_noise_are_the_sums_of_effects():
    given = {"scenarios": 3, "judges": 4, "languages": 2, "generations": 2}
    made = simulate_stream(**given, sd={"residual": 0, "generation": 0}, random_seed=2)
    codes, score = rows_of(made, 13)
    expected = np.full(score.size, made.truth["intercept"])
    facets = ("backbone", "judge", "language", "scenario")
    for name, effects in made.truth["effects"].items():
        dims = [f for f in facets if f in name.split("_")]
        expected += np.asarray(effects)[tuple(codes[d] for d in dims)]
    np.testing.assert_allclose(score, expected, rtol=1e-12)
    assert "generation" not in made.truth["effects"]


def test_noise_has_the_scales_of_the_truth():
    made = simulate_stream(scenarios=4, generations=400, judges=3, random_seed=1)
    codes, score = rows_of(made, 10**6)
    answer = (
        np.ravel_multi_index(tuple(codes[n] for n in ("backbone", "scenario")), (5, 4)) * 400
        + codes["generation"]
    )
    order = np.lexsort((codes["judge"], answer))
    y = score[order].reshape(20, 400, 3)
    y = y - y.mean(axis=1, keepdims=True)
    within = y - y.mean(axis=2, keepdims=True)
    sigma = np.sqrt((within**2).sum() / (20 * 399 * 2))
    # 16,000 degrees of freedom: the relative standard error is 0.6 %.
    wanted = np.sqrt(np.mean(np.square(made.truth["scales"]["sigma"])))
    assert sigma == pytest.approx(wanted, rel=0.03)
    between = (y.mean(axis=2) ** 2).sum() / (20 * 399) - sigma**2 / 3
    wanted = np.mean(np.square(made.truth["scales"]["generation_sd"]))
    assert between == pytest.approx(wanted, rel=0.1, abs=0.02 * sigma**2)


def test_the_command_writes_row_groups_of_coded_labels(tmp_path):
    path, truth = tmp_path / "s.parquet", tmp_path / "t.json"
    words = ["simulate", str(path), "--stream", "--scenarios", "4", "--generations", "3", "--json"]
    ran = CliRunner().invoke(app, [*words, "--truth", str(truth)])
    assert ran.exit_code == 0, ran.output
    said = json.loads(ran.stdout)
    file = parquet.ParquetFile(path)
    assert file.metadata.num_rows == said["n_rows"] == 5 * 4 * 3 * 5
    assert file.metadata.row_group(0).column(0).compression == "ZSTD"
    assert file.schema_arrow.names == said["columns"]
    assert str(file.schema_arrow.field("judge").type).startswith("dictionary")
    assert json.loads(truth.read_text())["scales"] == said["truth"]["scales"]
    for wrong in (["--one-judge"], ["--scale", "1", "5"]):
        assert CliRunner().invoke(app, [*words, "--force", *wrong]).exit_code == 2
    words[1] = str(tmp_path / "s.csv")
    assert CliRunner().invoke(app, words).exit_code == 2


@pytest.mark.parametrize(
    ("given", "error", "match"),
    [
        ({"model": "ordinal"}, ModelError, "only scores of gaussian models"),
        ({"backbones": 1}, UsageError, "one backbone only"),
        ({"random_seed": -1}, UsageError, "at least 0"),
        ({"missing": 1.0}, UsageError, "below 1"),
    ],
)
def test_what_cannot_be_streamed_is_refused(given, error, match):
    with pytest.raises(error, match=match):
        simulate_stream(**given)
