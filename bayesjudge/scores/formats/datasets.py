"""Hugging Face dataset folders: shards of Parquet or Arrow, in splits."""

from __future__ import annotations

import json
import re
from pathlib import Path

from bayesjudge.errors import DataError
from bayesjudge.scores.raw import Column, RawTable, concatenate
from bayesjudge.scores.tabular import read_table_file

_SHARD = re.compile(r"(?P<split>.+?)-\d{5}-of-\d{5}(?:-\w+)?\.(?:parquet|arrow)")
_SAVED = ("state.json", "dataset_info.json", "dataset_dict.json")

type Shard = tuple[str, Path]


def shards_of(folder: Path) -> list[Shard]:
    """List the shards of a dataset folder with their splits; empty where it is none.

    Understood are what ``Dataset.save_to_disk`` and ``DatasetDict.save_to_disk``
    write, and folders of ``<split>-00000-of-00001.parquet`` as on the Hub, also
    under ``data/``.

    Raises
    ------
    DataError
        Where shards that the folder itself lists are not there, or there are
        several configurations.
    """
    if (folder / "dataset_dict.json").is_file():
        splits = _listed(folder / "dataset_dict.json", "splits")
        return [(str(split), path) for split in splits for path in _saved(folder / str(split))]
    if (folder / "state.json").is_file():
        return [("", path) for path in _saved(folder)]
    places = [place for place in (folder, folder / "data") if place.is_dir()]
    found = [shard for place in places for shard in _hub_shards(place)]
    if found:
        return found
    configurations = [
        place for place in sorted(folder.iterdir()) if place.is_dir() and _hub_shards(place)
    ]
    if len(configurations) > 1:
        raise DataError(
            f"the folder holds {len(configurations)} configurations of a dataset: "
            f"{', '.join(place.name for place in configurations[:6])}",
            str(folder),
            "Name the folder of one",
        )
    return [shard for place in configurations for shard in _hub_shards(place)]


def read_shards(folder: Path, shards: list[Shard]) -> RawTable:
    """Read shards into one table, with a column ``split`` where there are several.

    Raises
    ------
    DataError
        Where a shard cannot be read, or shards differ in their columns.
    """
    tables = [read_table_file(path) for _, path in shards]
    splits = [split for split, _ in shards]
    if len(set(splits)) > 1:
        if "split" in tables[0].columns:
            raise DataError(
                "the dataset has several splits, and a column 'split' of its own",
                str(folder),
                "Name the files of one split",
            )
        tables = [
            RawTable(
                table.source,
                {**table.columns, "split": Column(([split] * table.n_rows,))},
                table.parts,
            )
            for split, table in zip(splits, tables, strict=True)
        ]
    return concatenate(str(folder), tables)


def _hub_shards(folder: Path) -> list[Shard]:
    found = []
    for path in sorted(folder.iterdir()):
        match = _SHARD.fullmatch(path.name)
        if match and path.is_file():
            found.append((match.group("split"), path))
    return found


def _saved(folder: Path) -> list[Path]:
    """List the files that a saved dataset's own state names, all of which must be there."""
    state = folder / "state.json"
    files = _listed(state, "_data_files")
    names = [file.get("filename") if isinstance(file, dict) else file for file in files]
    paths = []
    for name in names:
        # The state is a file like any other: no name in it may lead out of the folder.
        if not isinstance(name, str) or Path(name).name != name or not (folder / name).is_file():
            raise DataError(
                f"the dataset names a file that is not there: {name!a}", str(state), "Copy it again"
            )
        paths.append(folder / name)
    if not paths:
        raise DataError("the dataset names no files", str(state), "Save it again")
    return paths


def _listed(path: Path, key: str) -> list[object]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise DataError("the dataset's own list of files cannot be read", str(path)) from error
    found = content.get(key) if isinstance(content, dict) else None
    if not isinstance(found, list):
        raise DataError(f"the dataset's own list of files has no {key!r}", str(path))
    return found
