"""``--by``: each part of a table takes the road by itself, and none is lost with another."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from contextlib import closing, redirect_stderr
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from bayesjudge.cli.answers import (
    Part,
    Road,
    answer_table,
    exit_if_distrusted,
    worth_saying,
)
from bayesjudge.cli.messages import (
    counting,
    print_json,
    print_tables,
    say,
    say_notes,
    say_problems,
    working,
)
from bayesjudge.cli.options import ByOptions, named_together, one_or_many
from bayesjudge.cli.store_sources import refuse_stores
from bayesjudge.cli.workers import done_by, usual_workers
from bayesjudge.errors import BayesjudgeError, DataError, UsageError
from bayesjudge.fingerprints import fingerprint
from bayesjudge.report.group_folders import GroupFolder, GroupFolders
from bayesjudge.report.json_text import plain
from bayesjudge.report.results_folder import folder_name
from bayesjudge.report.sentences import reading_sentences
from bayesjudge.scores import Problem, Reading, split_by
from bayesjudge.version import version

if TYPE_CHECKING:
    from rich.console import RenderableType

DONE, DISTRUSTED, FAILED, NOT_REACHED = "done", "not converged", "failed", "not reached"

# More levels than this are counted, not named.
_MOST_NAMED = 10


@dataclass(frozen=True, eq=False)
class _Task:
    """A part to answer.

    Attributes
    ----------
    part : Part
    own : sequence of Problem
        What is worth saying of this part alone.
    folder : GroupFolder or None
    rests_on : str
        Fingerprint of table and question.
    """

    part: Part
    own: Sequence[Problem]
    folder: GroupFolder | None
    rests_on: str

    @property
    def level(self) -> str:
        return self.part.level or ""


@dataclass(frozen=True, eq=False)
class _Outcome:
    """What became of a part: plain, as it comes from another process.

    Attributes
    ----------
    status : str
    found : object
        The result's object, or what was wrong.
    message : str
        Why it failed, or cannot be relied on.
    tables : sequence of renderables
    heard : str
        What was said of it, line by line.
    """

    status: str
    found: Any
    message: str = ""
    tables: Sequence[RenderableType] = ()
    heard: str = ""


@dataclass(frozen=True)
class _Run:
    """The parts of one table, and what became of those that were come to."""

    tasks: Sequence[_Task]
    by: str
    road: Road
    folders: GroupFolders | None
    outcomes: dict[int, _Outcome] = field(default_factory=dict)

    def rows(self) -> list[dict[str, str]]:
        """Return the index, a row a level."""
        rows = []
        for number, task in enumerate(self.tasks):
            found = self.outcomes.get(number)
            status = NOT_REACHED if found is None else found.status
            written = folder_name(task.level) if status in (DONE, DISTRUSTED) else ""
            message = "" if found is None else found.message
            rows.append(
                {"level": task.level, "folder": written, "status": status, "message": message}
            )
        return rows

    def groups(self) -> dict[str, Any]:
        """Return the objects of those that were come to, by level."""
        return {
            task.level: self.outcomes[number].found
            for number, task in enumerate(self.tasks)
            if number in self.outcomes
        }

    def levels(self, *statuses: str) -> list[str]:
        """Return the levels of these statuses."""
        return [row["level"] for row in self.rows() if row["status"] in statuses]

    def write_index(self) -> None:
        """Write what lies over the groups, in whatever state they are."""
        if self.folders is not None:
            index = self.road.index(self.by, self.rows(), self.groups())
            whole = len(self.outcomes) == len(self.tasks)
            self.folders.finish(index, self.levels(DONE, DISTRUSTED), whole)


def answer_tables(
    sources: Sequence[str], keywords: Mapping[str, Any], groups: ByOptions, road: Road
) -> None:
    """Read a table and answer it, or each part of it.

    Parameters
    ----------
    sources : sequence of str
    keywords : mapping
        Of ``bayesjudge.scan``.
    groups : ByOptions
    road : Road

    Raises
    ------
    DataError
        Where the table, or some parts of it, cannot be answered.
    UsageError
        Where results are to be kept, and no folder holds any.
    """
    if groups.by is None:
        answer_table(sources, keywords, road)
        return
    if groups.resume and road.output.out is None:
        raise UsageError(
            "there are no results to keep without a folder", "--resume", "Name it with --out DIR"
        )
    with working("reading", road.output.shows_progress):
        refuse_stores(sources)
        readings = split_by(one_or_many(sources), groups.by, **keywords)
    run = _prepared(readings, groups.by, named_together(sources), road)
    if run.folders is not None:
        run.folders.begin()
    if groups.resume:
        _keep(run)
    try:
        _answer(run, groups.workers)
    except KeyboardInterrupt:
        run.write_index()
        again = "" if run.folders is None else "; say --resume to go on"
        say(f"interrupted: {len(run.outcomes)} of {len(run.tasks)} groups were come to{again}")
        raise
    _finish(run)


def _prepared(readings: Mapping[str, Reading], by: str, source: str, road: Road) -> _Run:
    output = road.output
    names = {level: folder_name(level) for level in readings}
    folders = None
    if output.out is not None:
        folders = GroupFolders.checked(
            output.out, names, road.command, road.names, road.index_names
        )
    first, *others = readings.values()
    common = [p for p in first.problems if all(p in other.problems for other in others)]
    say_notes(reading_sentences(first.mapping, first.unused_columns), output.quiet)
    say_problems(worth_saying(common), output.quiet)
    tasks = []
    for number, (level, reading) in enumerate(readings.items(), start=1):
        step = f"{level} ({number} of {len(readings)})"
        part = Part(reading, f"{source}, {by} {level}", level, f"{by} {level}", step)
        own = worth_saying([p for p in reading.problems if p not in common])
        folder = None if folders is None else folders.folders[level]
        rests_on = "" if folder is None else _fingerprint(part, road)
        tasks.append(_Task(part, own, folder, rests_on))
    return _Run(tasks, by, road, folders)


def _fingerprint(part: Part, road: Road) -> str:
    read = part.rows
    rows = read.rows if road.by_row else None
    about = (part.source, part.title, read.scores, read.problems, read.unused_columns, rows)
    return fingerprint(version(), road.command, *road.asked, *about)


def _keep(run: _Run) -> None:
    """Take over the results that are there and hold still, and say which others were there."""
    changed = []
    for number, task in enumerate(run.tasks):
        if task.folder is None or not (seal := task.folder.seal()):
            continue
        found = task.folder.result()
        if seal.get("fingerprint") == task.rests_on and found is not None:
            run.outcomes[number] = _Outcome(seal["status"], found, seal["message"])
        else:
            changed.append(task.level)
    if changed:
        say(
            f"{_named(changed)}: the table or an option is another than that of the results "
            "there, so this is done again"
        )
    say_notes(
        [f"{len(run.outcomes)} of {len(run.tasks)} groups kept as they are in the folder"],
        run.road.output.quiet,
    )


def _answer(run: _Run, workers: int | None) -> None:
    output, left = run.road.output, [n for n in range(len(run.tasks)) if n not in run.outcomes]
    tasks = [run.tasks[n] for n in left]
    n_workers = usual_workers(len(tasks)) if workers is None else min(workers, len(tasks))
    work = partial(_outcome, road=run.road)
    said = 0
    with (
        counting("answering", len(tasks), output.shows_progress) as count,
        closing(done_by(work, tasks, max(1, n_workers), _lost)) as results,
    ):
        for place, found in results:
            run.outcomes[left[place]] = found
            count.advance(found.status == FAILED)
            # In the order of the groups, whichever was done first.
            while said < len(left) and (first := run.outcomes.get(left[said])) is not None:
                if first.heard:
                    count.say(first.heard.rstrip("\n"))
                said += 1


def _outcome(task: _Task, road: Road) -> _Outcome:
    """Answer a part and write its results; keep what is said to be repeated in turn."""
    heard = io.StringIO()
    with redirect_stderr(heard):
        say_problems(task.own, road.output.quiet, task.level)
        try:
            found = road.answer(task.part)
            plainly = plain(found.json())
            status = DISTRUSTED if found.alarm else DONE
            if task.folder is not None:
                seal = {"fingerprint": task.rests_on, "status": status, "message": found.alarm}
                task.folder.write(found.files(), road.command, seal)
            tables = () if road.output.json else found.tables()
        except BayesjudgeError as error:
            return _failed(task, error, heard)
        except (ArithmeticError, MemoryError, ValueError) as error:
            # Not one that a user can mend; the other groups are not to pay for it.
            told = DataError(
                f"{type(error).__name__}: {error}",
                task.part.source,
                "This is an error of bayesjudge: please report it with the table",
            )
            return _failed(task, told, heard)
    return _Outcome(status, plainly, found.alarm, tables, heard.getvalue())


def _failed(task: _Task, error: BayesjudgeError, heard: io.StringIO | None = None) -> _Outcome:
    told = " ".join(str(error).split("\n"))
    line = io.StringIO()
    with redirect_stderr(line):
        say(f"[{task.level}] error: {told}".replace("\n", "\\n"))
    what = {"what": error.what, "where": error.where, "remedy": error.remedy}
    before = "" if heard is None else heard.getvalue()
    return _Outcome(FAILED, {"error": what}, str(error), (), before + line.getvalue())


def _lost(task: _Task, how: str) -> _Outcome:
    error = DataError(
        f"the process that worked on it ended before it was done ({how})",
        task.part.source,
        "It may have run out of memory: say --workers 1, and --resume to keep the others",
    )
    return _failed(task, error)


def _finish(run: _Run) -> None:
    """Write the index, print everything, and exit 1 where something is missing."""
    output = run.road.output
    run.write_index()
    if run.folders is not None:
        path = run.folders.root.path
        say_notes([f"results written to {path}, listed in index.csv"], output.quiet)
    if output.json:
        print_json({"by": run.by, "groups": run.groups()})
    else:
        print_tables(*(t for n in sorted(run.outcomes) for t in run.outcomes[n].tables))
    failed = run.levels(FAILED)
    if failed:
        raise DataError(f"{len(failed)} of {len(run.tasks)} groups failed: {_named(failed)}")
    exit_if_distrusted(run.levels(DISTRUSTED), run.road)


def _named(levels: Sequence[str]) -> str:
    more = len(levels) - _MOST_NAMED
    return ", ".join(levels[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
