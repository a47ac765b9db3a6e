"""Logs put together to one raw table, with what is to be said of them."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from bayesjudge.errors import DataError
from bayesjudge.scores.checking import count
from bayesjudge.scores.formats.findings import Cell, Log
from bayesjudge.scores.problems import Problem
from bayesjudge.scores.raw import Column, RawTable

_FIRST = (
    *("scenario", "generation", "backbone", "judge", "language", "score", "verdict", "failure"),
    *(
        "criterion",
        "scorer",
        "element",
        "filter",
        "turn",
        "prompt",
        "response",
        "task_name",
        "status",
    ),
)
"""Order of the columns; others follow, and the log's own name is last."""

MOST_NAMED = 20
MOST_REASONS = 6


def merge_logs(source: str, logs: Sequence[Log]) -> RawTable:
    """Put logs together: every column that one has, empty where another lacks it.

    Parameters
    ----------
    source : str
        What messages call all of them.
    logs : sequence of Log
        At least one.

    Raises
    ------
    DataError
        Where none of them holds a row.
    """
    names = _names(logs)
    problems = _problems(logs, names)
    filled = [(name, log) for name, log in zip(names, logs, strict=True) if log.n_rows]
    if not filled:
        raise DataError(
            "no record of the log could be read" if _lost(logs) else "the log holds no scores",
            source if len(logs) > 1 else logs[0].source,
            " ".join(problem.what for problem in problems if problem.severity == "warning")
            or "Give one of an evaluation that was scored",
        )
    columns = _columns([log for _, log in filled])
    columns["log"] = [name for name, log in filled for _ in range(log.n_rows)]
    problems += _tell_tasks_apart(columns)
    problems += _remarks(columns, filled)
    ordered = sorted(
        columns, key=lambda name: _FIRST.index(name) if name in _FIRST else len(_FIRST)
    )
    ordered.sort(key=lambda name: name == "log")
    return RawTable(
        source,
        {name: Column((columns[name],)) for name in ordered},
        tuple((f"the table made of {log.source}", log.n_rows) for _, log in filled),
        tuple(problems),
    )


def _names(logs: Sequence[Log]) -> list[str]:
    """Name each log by its path below the folder that holds them all."""
    paths = [Path(log.source).resolve() for log in logs]
    if len(paths) == 1:
        return [paths[0].name]
    common = Path(os.path.commonpath([path.parent for path in paths]))
    return [path.relative_to(common).as_posix() for path in paths]


def _columns(logs: Sequence[Log]) -> dict[str, list[Cell]]:
    names = dict.fromkeys(name for log in logs for name in log.columns)
    columns: dict[str, list[Cell]] = {}
    for name in names:
        whole: list[Cell] = []
        for log in logs:
            whole += log.columns.get(name) or [None] * log.n_rows
        if name == "score" or any(cell is not None for cell in whole):
            columns[name] = whole
    return columns


def _tell_tasks_apart(columns: dict[str, list[Cell]]) -> list[Problem]:
    """Put the task before the scenario's label where two tasks use the same labels."""
    tasks, scenarios = columns.get("task_name"), columns.get("scenario")
    if tasks is None or scenarios is None:
        return []
    first: dict[Cell, Cell] = {}
    pairs = dict.fromkeys(zip(scenarios, tasks, strict=True))
    if all(first.setdefault(scenario, task) == task for scenario, task in pairs):
        return []
    columns["scenario"] = [
        scenario if scenario is None or task is None else f"{task}/{scenario}"
        for scenario, task in zip(scenarios, tasks, strict=True)
    ]
    told = f"{len(set(tasks)):,} tasks label other scenarios alike: labels are TASK/SCENARIO"
    return [Problem("note", told, "column 'scenario'")]


def _problems(logs: Sequence[Log], names: Sequence[str]) -> list[Problem]:
    """Say what was read, what was lost, and what each reader had to say."""
    problems = [Problem("note", told) for told in _counts(logs)]
    several = len(logs) > 1
    lost = [
        f"{lost} of {name}" if several else str(lost)
        for log, name in zip(logs, names, strict=True)
        for lost in log.lost
    ]
    if lost:
        problems.append(
            Problem(
                "warning",
                f"{count(len(lost), 'record or part of one was', 'records or parts of one were')} "
                f"lost: {_listed(lost)}",
                logs[0].source if not several else f"{len(logs)} logs",
                len(lost),
                "Copy or export the log again; --strict makes this an error",
            )
        )
    repeated = [
        f"{record.name} of {name}" if several else record.name
        for log, name in zip(logs, names, strict=True)
        for record in log.repeated
    ]
    if repeated:
        problems.append(
            Problem(
                "warning",
                f"{count(len(repeated), 'record says', 'records say')} what an earlier one says, "
                f"and {'counts' if len(repeated) == 1 else 'count'} once: {_listed(repeated)}",
                logs[0].source if not several else f"{len(logs)} logs",
                len(repeated),
            )
        )
    told: dict[Problem, list[str]] = {}
    for log, name in zip(logs, names, strict=True):
        for problem in log.problems:
            plain = Problem(problem.severity, problem.what, "", problem.rows, problem.remedy)
            told.setdefault(plain, []).append(name)
    for problem, where in told.items():
        place = f"{_listed(where, 3)}" if several else logs[0].source
        problems.append(
            Problem(problem.severity, problem.what, place, problem.rows, problem.remedy)
        )
    return problems


def _counts(logs: Sequence[Log]) -> list[str]:
    tools: dict[str, list[Log]] = {}
    for log in logs:
        tools.setdefault(log.tool, []).append(log)
    found = []
    for tool, own in tools.items():
        numbers: Counter[tuple[str, str]] = Counter()
        for log in own:
            if log.counted is not None:
                numbers[log.counted.one, log.counted.many] += log.counted.number
        said = ", ".join(count(n, one, several) for (one, several), n in numbers.items())
        rows = sum(log.n_rows for log in own)
        of = f"{count(len(own), 'log', 'logs')} of {tool}"
        found.append(f"{of}: {said} read, {count(rows, 'row', 'rows')}")
    return found


def _remarks(
    columns: Mapping[str, list[Cell]], filled: Sequence[tuple[str, Log]]
) -> Iterable[Problem]:
    failures = Counter(cell for cell in columns.get("failure", ()) if isinstance(cell, str))
    if failures:
        n_failed = sum(failures.values())
        reasons = ", ".join(f"{why} {n:,}" for why, n in failures.most_common(MOST_REASONS))
        more = ", ..." if len(failures) > MOST_REASONS else ""
        yield Problem(
            "note",
            f"{count(n_failed, 'row has', 'rows have')} no score, with a reason: {reasons}{more}",
            "column 'failure'",
            n_failed,
        )
    nameless = [
        name for name, log in filled if all(c is None for c in log.columns.get("backbone", ()))
    ]
    if nameless:
        yield Problem(
            "warning",
            f"{count(len(nameless), 'log does', 'logs do')} not name the model whose answers were "
            f"scored: {_listed(nameless, 3)}",
            "column 'backbone'",
            sum(log.n_rows for name, log in filled if name in nameless),
            "If each log is of one model say --column backbone=log, or name it: "
            "bayesjudge convert LOG --constant backbone=NAME",
        )


def _lost(logs: Sequence[Log]) -> bool:
    return any(log.lost for log in logs)


def _listed(names: Sequence[str], most: int = MOST_NAMED) -> str:
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
