"""Pointwise judging: who scores which answer, and one score of one answer."""

from __future__ import annotations

import csv
import io
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bayesjudge.errors import DataError, UsageError
from bayesjudge.judges.calls import Ask, Call
from bayesjudge.judges.items import Item
from bayesjudge.judges.panel import Judge
from bayesjudge.judges.parsing import read_judgment
from bayesjudge.judges.prompts import pointwise_call
from bayesjudge.judges.records import Judged, record_of

ITEM_LANGUAGE = "item"
"""Stands for: instructions in the language of each item."""


@dataclass(frozen=True)
class Turn:
    """One judge on one answer; ``call`` counts from 1 where it is asked several times."""

    item: Item
    judge: Judge
    call: int = 1


@dataclass(frozen=True)
class Schedule:
    """Who scores what, in the order to ask, and what is to be said of it."""

    turns: tuple[Turn, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Rubric:
    """What judges are told.

    Attributes
    ----------
    text : str or None
        What counts; None takes the standard one, in the language of the instructions.
    scale : (int, int)
    language : str
        Of the instructions, or `ITEM_LANGUAGE`.
    """

    text: str | None = None
    scale: tuple[int, int] = (1, 10)
    language: str = "en"

    def language_for(self, item: Item) -> str:
        """Return in which language judges are told what to do with an answer.

        Raises
        ------
        DataError
            Where the item's own is wanted and it has none.
        """
        if self.language != ITEM_LANGUAGE:
            return self.language
        if item.language is None:
            raise DataError(
                "instructions are to be in the item's language, and items name none",
                item.name,
                "Give items a field 'language', or name one with --language",
            )
        return item.language


def panel_schedule(items: Sequence[Item], judges: Sequence[Judge], repeats: int = 1) -> Schedule:
    """Let every judge score every answer, so often.

    Raises
    ------
    UsageError
        Where ``repeats`` is no number of at least 1.
    """
    if repeats < 1:
        raise UsageError(f"each answer is to be scored {repeats} times", "--repeats", "At least 1")
    return Schedule(
        tuple(
            Turn(item, judge, call)
            for item in items
            for judge in judges
            for call in range(1, repeats + 1)
        )
    )


def assigned_schedule(items: Sequence[Item], judges: Sequence[Judge], source: str) -> Schedule:
    """Let judges score what an assignment gives them, each row once.

    Parameters
    ----------
    items : sequence of Item
    judges : sequence of Judge
    source : str
        A CSV of ``bayesjudge assign``: scenario, generation, backbone, judge, and a score
        that is empty; a column language where items differ in it.

    Raises
    ------
    DataError
        Where the file is no such table, a row's judge or answer is not there, a row is
        there twice, or is scored already.
    """
    rows = _assigned(source)
    by_name = {judge.name: judge for judge in judges}
    answers: dict[tuple[str, ...], list[Item]] = defaultdict(list)
    with_language = bool(rows) and "language" in rows[0][1]
    for item in items:
        answers[_cell(item, with_language)].append(item)
    turns: list[Turn] = []
    seen: dict[tuple[str, ...], int] = {}
    used: set[tuple[str, ...]] = set()
    for line, row in rows:
        where = f"{source}, line {line}"
        if row["score"].strip():
            raise DataError(
                "the row has a score already", where, "Take rows that are scored out of the file"
            )
        if row["judge"] not in by_name:
            raise DataError(
                f"{row['judge']!r} is no judge of the panel",
                where,
                f"Judges are {', '.join(by_name)}: name it with --judge NAME=PROVIDER/MODEL",
            )
        cell = (row["scenario"], row["generation"], row["backbone"], row.get("language", ""))
        found = answers.get(cell) or answers.get(_without_generation(cell)) or []
        if not found:
            raise DataError(
                f"there is no answer to judge: {' '.join(filter(None, cell))}",
                where,
                "Add it to the items, or take the row out",
            )
        call = (*cell, row["judge"])
        if call in seen:
            raise DataError(
                "the same call is there twice",
                f"{source}, lines {seen[call]} and {line}",
                "Take one out",
            )
        seen[call] = line
        used.update(item.labels for item in found)
        turns += [Turn(item, by_name[row["judge"]]) for item in found]
    if not turns:
        raise DataError("the assignment has no rows", source, "Write one with bayesjudge assign")
    notes = []
    if len(turns) > len(rows):
        notes.append(
            f"{len(rows):,} rows are {len(turns):,} calls: a row stands for its answer in all "
            "languages and further labels"
        )
    if len(used) < len(items):
        notes.append(f"{len(items) - len(used):,} answers are in no row of the assignment")
    return Schedule(tuple(turns), tuple(notes))


def _cell(item: Item, with_language: bool) -> tuple[str, ...]:
    language = (item.language or "") if with_language else ""
    return (item.scenario, item.generation or "", item.backbone, language)


def _without_generation(cell: tuple[str, ...]) -> tuple[str, ...]:
    # assign numbers generations from 1; items with a single one need not.
    return (cell[0], "", *cell[2:]) if cell[1] == "1" else cell


def _assigned(source: str) -> list[tuple[int, Mapping[str, str]]]:
    try:
        text = Path(source).read_bytes().decode("utf-8-sig")
    except FileNotFoundError as error:
        raise DataError("there is no such file", source, "Check the path") from error
    except UnicodeDecodeError as error:
        raise DataError("the file is not UTF-8", source) from error
    except OSError as error:
        raise DataError(f"the file cannot be read: {error.strerror}", source) from error
    reader = csv.reader(io.StringIO(text, newline=""))
    rows: list[tuple[int, Mapping[str, str]]] = []
    header: list[str] = []
    needed = {"scenario", "generation", "backbone", "judge", "score"}
    for row in reader:
        if not header:
            header = row
            if not needed <= set(header) or len(set(header)) < len(header):
                raise DataError(
                    f"an assignment has the columns {', '.join(sorted(needed))}",
                    source,
                    "Name a file that bayesjudge assign wrote",
                )
        elif len(row) == len(header):
            rows.append((reader.line_num, dict(zip(header, row, strict=True))))
        elif row:
            raise DataError(
                f"{len(row)} fields where the header has {len(header)}",
                f"{source}, line {reader.line_num}",
            )
    return rows


def call_of(turn: Turn, rubric: Rubric) -> Call:
    """Return the call that one turn makes."""
    return pointwise_call(
        turn.item.prompt,
        turn.item.response,
        model=turn.judge.model,
        rubric=rubric.text,
        scale=rubric.scale,
        language=rubric.language_for(turn.item),
        key=(*turn.item.labels, str(turn.call)),
        max_tokens=turn.judge.max_tokens,
    )


def pointwise(rubric: Rubric) -> Callable[[Turn, Ask], Awaitable[Judged]]:
    """Return the strategy that asks once for a score."""

    async def judge(turn: Turn, ask: Ask) -> Judged:
        reply = await ask(call_of(turn, rubric))
        read = read_judgment(reply, rubric.scale)
        record = record_of(
            turn.item,
            turn.judge,
            rubric.language_for(turn.item),
            turn.call,
            reply,
            read.score,
            read.reason,
            read.rationale,
            read.truncated,
        )
        return Judged((record,), (record,))

    return judge
