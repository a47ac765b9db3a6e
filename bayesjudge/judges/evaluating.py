"""A run as an Inspect evaluation, one sample a scenario: its log, its progress, its viewer."""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from inspect_ai import Task
from inspect_ai import eval as evaluate
from inspect_ai._util.error import PrerequisiteError
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.log import EvalLog
from inspect_ai.solver import Generate, Solver, TaskState, solver

from bayesjudge.errors import DataError

_SAFE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}")


@dataclass(frozen=True)
class Case:
    """What is judged under one sample of the log.

    Attributes
    ----------
    name : str
        The scenario.
    text : str
        What the log shows as its input.
    work : coroutine function without arguments
        Makes the calls; returns what the log shows as metadata.
    """

    name: str
    text: str
    work: Callable[[], Awaitable[Mapping[str, Any]]]


def run_logged(
    cases: list[Case],
    folder: Path,
    settings: Mapping[str, Any],
    *,
    at_once: int,
    shown: bool,
    quiet: bool,
) -> str:
    """Work on all cases under Inspect, and return the path of the log.

    Parameters
    ----------
    cases : list of Case
    folder : Path
        Where the log goes.
    settings : mapping
        What the log says of the run.
    at_once : int
        Cases in progress at once.
    shown : bool
        Whether a terminal's stderr shows progress.
    quiet : bool
        Whether Inspect's warnings are kept from stderr.

    Raises
    ------
    DataError
        Where Inspect cannot start, or the work raised.
    """
    names = _sample_names([case.name for case in cases])
    by_name = dict(zip(names, cases, strict=True))
    samples = [
        Sample(id=name, input=case.text, metadata={"scenario": case.name})
        for name, case in by_name.items()
    ]
    task = Task(
        dataset=MemoryDataset(samples, name="items"),
        solver=_working(by_name),
        name="bayesjudge",
        metadata=dict(settings),
    )
    try:
        # Inspect draws on stdout, which is for results.
        with contextlib.redirect_stdout(sys.stderr):
            logs = evaluate(
                task,
                model=None,
                display="rich" if shown else "none",
                log_dir=str(folder),
                log_format="eval",
                log_level="error" if quiet else "warning",
                log_realtime=False,
                max_samples=at_once,
                fail_on_error=False,
                score=False,
                acp_server=False,
                ctl_server=False,
            )
    except PrerequisiteError as error:
        raise DataError(f"Inspect cannot start: {error.message}", str(folder)) from error
    if not logs or logs[0].status == "cancelled":
        # Inspect answers an interrupt itself.
        raise KeyboardInterrupt
    _check(logs[0])
    return _path(logs[0].location)


def _working(cases: Mapping[str, Case]) -> Solver:
    @solver(name="judging")
    def judging() -> Solver:
        async def solve(state: TaskState, generate: Generate) -> TaskState:  # noqa: ARG001
            state.metadata |= await cases[str(state.sample_id)].work()
            return state

        return solve

    return judging()


def _check(log: EvalLog) -> None:
    errors = [sample.error for sample in log.samples or () if sample.error is not None]
    told = errors[0].message if errors else log.error.message if log.error else ""
    if told:
        raise DataError(
            f"the run broke off: {' '.join(told.split())[:300]}",
            _path(log.location),
            "Replies are kept: run again with --resume",
        )


def _path(location: str) -> str:
    return location.removeprefix("file://")


def _sample_names(names: list[str]) -> list[str]:
    """Return names that a log can have for its files: scenarios' own, where all are plain."""
    if all(_SAFE.fullmatch(name) for name in names):
        return names
    return [f"scenario-{number}" for number in range(1, len(names) + 1)]
