"""Which tool wrote a file, told by its content."""

from __future__ import annotations

import csv
import io
import re
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from bayesjudge.errors import DataError
from bayesjudge.scores.files import READ_ERRORS, open_bytes, suffix
from bayesjudge.scores.formats.mlflow import looks_like_mlflow
from bayesjudge.scores.formats.promptfoo_csv import blocks_of
from bayesjudge.scores.formats.reward_bench import pair_of

HEAD = 1 << 17
"""Bytes of a file's beginning that are looked at."""

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"?|[\[\]{}:,]', re.DOTALL)

_NEVER_A_TABLE = re.compile(
    r"results_\d{4}-\d\d-\d\dT.*\.json|run_spec\.json|scenario_state\.json|dataset_info\.json|"
    r"display_(predictions|requests)\.json"
)
_OFTEN_BESIDE = re.compile(r"(results|scenario|stats|instances)\.json")


def find_format(path: Path) -> str | None:
    """Name the format of a log, None where the file is a plain table or unknown.

    Parameters
    ----------
    path : Path
        An existing file. One that cannot be read has no format.
    """
    try:
        with open_bytes(path) as file:
            head = file.read(HEAD)
    except (DataError, *READ_ERRORS):
        return None
    if head.startswith(b"PK"):
        return "inspect" if suffix(path) == ".eval" or _is_eval(path) else None
    if suffix(path) == ".eval":
        return "inspect"
    if head.startswith((b"PAR1", b"ARROW1", b"\xff\xff\xff\xff")):
        return _of_columns(_columns_of(path))
    text = head.decode("utf-8", "replace").lstrip("\ufeff \t\r\n")
    if text.startswith(("{", "[")):
        return _of_json(text)
    try:
        header = next(csv.reader(io.StringIO(text, newline="")), [])
    except csv.Error:
        return None
    return "promptfoo-csv" if blocks_of(header) else _of_columns(header)


def is_beside_a_log(path: Path) -> bool:
    """Whether a file has the name of one that a tool writes beside its log."""
    return is_never_a_table(path) or _OFTEN_BESIDE.fullmatch(path.name) is not None


def is_never_a_table(path: Path) -> bool:
    """Whether a file has a name that tools give to what lies beside a log, and nobody else."""
    return _NEVER_A_TABLE.fullmatch(path.name) is not None


def _is_eval(path: Path) -> bool:
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError):
        return False
    return any(name in ("header.json", "_journal/start.json") for name in names)


def _columns_of(path: Path) -> Sequence[str]:
    import pyarrow as pa
    from pyarrow import parquet

    try:
        if suffix(path) not in (".arrow", ".feather"):
            return list(parquet.read_schema(path).names)
        with pa.memory_map(str(path)) as mapped:
            return list(pa.ipc.open_stream(mapped).schema.names)
    except (OSError, ValueError, pa.ArrowException):
        return []


def _of_columns(names: Sequence[str]) -> str | None:
    if pair_of(names) is not None:
        return "reward-bench"
    return "mlflow" if looks_like_mlflow(names) else None


def _of_json(text: str) -> str | None:
    """Tell by the keys of the outermost objects, whether or not they decode."""
    found: dict[int, list[str]] = {}
    for depth, key in _keys(text):
        found.setdefault(depth, []).append(key)
    in_array = text.startswith("[")
    top = set(found.get(2 if in_array else 1, ()))
    if not in_array:
        name = _of_document(top, set(found.get(2, ())))
        if name is not None:
            return name
    return _of_record(top, in_array)


def _of_document(top: set[str], second: set[str]) -> str | None:
    if "eval" in top and {"version", "status", "samples"} & top and {"task", "model"} & second:
        return "inspect"
    if {"testRunData"} & top or {"testCases", "test_cases"} & top:
        return "deepeval"
    if "results" in top and ({"evalId", "shareableUrl"} & top or {"promptIdx", "stats"} <= second):
        return "promptfoo"
    if "spec" in top and {"completion_fns", "eval_name", "run_id"} & second:
        return "openai-evals"
    if {"columns", "data"} <= top:
        return "mlflow"
    return "reward-bench" if {"text_chosen", "text_rejected"} & top else None


def _of_record(top: set[str], in_array: bool) -> str | None:
    if "instance_id" in top and "stats" in top:
        return "helm"
    if {"generator_1", "generator_2"} <= top and {"preference", "annotator"} & top:
        return "alpaca-eval"
    if {"promptIdx", "testIdx"} <= top:
        return "promptfoo"
    if {"doc_id", "doc"} <= top and {"resps", "filtered_resps"} & top:
        return "lm-eval"
    single = {"question_id", "model", "judge", "score"} <= top and {"judgment", "user_prompt"} & top
    if single or {"question_id", "g1_winner", "judge"} <= top:
        return "mt-bench"
    if {"sample_id", "event_id", "type", "data"} <= top and not in_array:
        return "openai-evals"
    if pair_of(sorted(top)) is not None:
        return "reward-bench"
    return "mlflow" if looks_like_mlflow(sorted(top)) else None


def _keys(text: str) -> Iterator[tuple[int, str]]:
    """Yield the keys of a JSON text with the depth of their object, 1 being outermost."""
    depth = 0
    last = ""
    for match in _TOKEN.finditer(text):
        mark = match.group()
        if mark[0] == '"':
            last = mark.strip('"')
        elif mark == ":":
            yield depth, last
        elif mark in "[{":
            depth += 1
        elif mark in "]}":
            depth -= 1
