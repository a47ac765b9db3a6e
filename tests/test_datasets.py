"""Dataset folders of Parquet and Arrow."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from pyarrow import parquet

from bayesjudge.errors import DataError
from bayesjudge.scores import read_scores
from bayesjudge.scores.reading import read_raw

TABLE = pa.table(
    {
        "item": ["1", "1", "2", "2"],
        "model": ["a", "b", "a", "b"],
        "judge": ["j", "j", "j", "j"],
        "score": [1.5, 2.0, 0.0, 4.0],
    }
)


def write_arrow(path, table):
    path.parent.mkdir(parents=True, exist_ok=True)
    with pa.ipc.new_stream(path, table.schema) as writer:
        writer.write_table(table)


def save(folder, table, n_shards=2):
    """Write a folder as ``Dataset.save_to_disk`` does."""
    names = [f"data-{i:05d}-of-{n_shards:05d}.arrow" for i in range(n_shards)]
    size = table.num_rows // n_shards
    for i, name in enumerate(names):
        write_arrow(folder / name, table.slice(i * size, size))
    state = {"_data_files": [{"filename": name} for name in names], "_split": None}
    folder.joinpath("state.json").write_text(json.dumps(state))
    folder.joinpath("dataset_info.json").write_text("{}")


def shard(folder, name, table=TABLE):
    folder.mkdir(parents=True, exist_ok=True)
    parquet.write_table(table, folder / name)


def test_a_saved_dataset(tmp_path):
    save(tmp_path / "d", TABLE)
    scores = read_scores(tmp_path / "d")
    assert list(scores.score) == [1.5, 2.0, 0.0, 4.0]
    assert scores.levels("backbone") == ("a", "b")


def test_a_saved_dictionary_of_splits(tmp_path):
    for split in ("train", "test"):
        save(tmp_path / "d" / split, TABLE)
    tmp_path.joinpath("d", "dataset_dict.json").write_text('{"splits": ["train", "test"]}')
    table = read_raw(tmp_path / "d")
    assert table.n_rows == 8
    assert table.columns["split"].labels.levels == ("test", "train")
    assert len(read_scores(tmp_path / "d", where={"split": "test"})) == 4


def test_a_folder_as_on_the_hub(tmp_path):
    shard(tmp_path / "d" / "data", "train-00000-of-00002.parquet", TABLE.slice(0, 2))
    shard(tmp_path / "d" / "data", "train-00001-of-00002.parquet", TABLE.slice(2, 2))
    tmp_path.joinpath("d", "README.md").write_text("about")
    table = read_raw(tmp_path / "d")
    assert table.n_rows == 4
    assert "split" not in table.columns


def test_configurations_are_asked_for(tmp_path):
    shard(tmp_path / "one", "test-00000-of-00001.parquet")
    assert read_raw(tmp_path).n_rows == 4
    shard(tmp_path / "two", "test-00000-of-00001.parquet")
    with pytest.raises(DataError, match="2 configurations of a dataset: one, two"):
        read_raw(tmp_path)


def test_rewards_in_a_dataset_are_made_long(tmp_path):
    pairs = pa.table({"id": [1, 2], "scores_chosen": [2.0, 1.0], "scores_rejected": [[1.0], [0.5]]})
    shard(tmp_path / "d", "train-00000-of-00001.parquet", pairs)
    table = read_raw(tmp_path / "d")
    assert table.n_rows == 4
    assert table.columns["response"].labels.levels == ("chosen", "rejected")


@pytest.mark.parametrize(
    ("state", "told"),
    [
        ('{"_data_files": [{"filename": "../data.arrow"}]}', "names a file that is not there"),
        ('{"_data_files": [{"filename": "gone.arrow"}]}', "names a file that is not there"),
        ('{"_data_files": [7]}', "names a file that is not there"),
        ('{"_data_files": []}', "names no files"),
        ("{}", "has no '_data_files'"),
        ("[1", "cannot be read"),
    ],
)
def test_a_dataset_that_names_what_is_not_there(tmp_path, state, told):
    save(tmp_path / "d", TABLE)
    write_arrow(tmp_path / "data.arrow", TABLE)
    tmp_path.joinpath("d", "state.json").write_text(state)
    with pytest.raises(DataError, match=told):
        read_raw(tmp_path / "d")


def test_a_split_column_of_its_own_is_not_overwritten(tmp_path):
    own = TABLE.append_column("split", pa.array(["x"] * 4))
    for split in ("train", "test"):
        shard(tmp_path / "d", f"{split}-00000-of-00001.parquet", own)
    with pytest.raises(DataError, match="a column 'split' of its own"):
        read_raw(tmp_path / "d")


def test_single_arrow_files(tmp_path):
    write_arrow(tmp_path / "a.arrow", TABLE)
    with pa.ipc.new_file(tmp_path / "b.arrow", TABLE.schema) as writer:
        writer.write_table(TABLE)
    assert len(read_scores(tmp_path / "a.arrow")) == len(read_scores(tmp_path / "b.arrow")) == 4
    data = (tmp_path / "a.arrow").read_bytes()
    for cut in range(8, len(data) - 9, 61):
        (tmp_path / "c.arrow").write_bytes(data[:cut])
        with pytest.raises(DataError):
            read_raw(tmp_path / "c.arrow")
