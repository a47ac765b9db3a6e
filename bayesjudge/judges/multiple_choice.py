"""Items to be called correct or not, half of them correct, from multiple-choice questions."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from bayesjudge.errors import DataError, UsageError
from bayesjudge.judges.items import Item, read_object
from bayesjudge.scores.files import unreadable

RIGHT, WRONG = "right option", "wrong option"
"""Backbones of the items: what the judged answer is."""

_NAMES: dict[str, tuple[str, ...]] = {
    "question": ("question", "prompt", "input"),
    "choices": ("choices", "options"),
    "answer": ("answer", "label", "correct"),
    "scenario": ("scenario", "id", "question_id"),
    "language": ("language",),
}


@dataclass(frozen=True)
class Question:
    """One question with its options.

    Attributes
    ----------
    scenario : str
        The same for a question in several languages.
    text : str
    options : tuple of str
    right : int
        Index of the right one, from 0.
    language : str or None
    """

    scenario: str
    text: str
    options: tuple[str, ...]
    right: int
    language: str | None = None


def read_questions(source: str, *, first: int = 0) -> tuple[Question, ...]:
    """Read multiple-choice questions from a ``.jsonl`` file.

    Parameters
    ----------
    source : str
        One object a line: ``question``, ``choices`` (a list of texts), ``answer``: the right
        option's number, letter or text; optionally ``scenario`` (else the line's number) and
        ``language``.
    first : int
        The number of the first option: 0 or 1.

    Raises
    ------
    DataError
        Where a line is no such object, an answer names no option or could name two, or a
        question is there twice; it names the line.
    UsageError
        Where ``first`` is neither 0 nor 1.
    """
    if first not in (0, 1):
        raise UsageError(f"options cannot be numbered from {first}", remedy="Give 0 or 1")
    try:
        lines = Path(source).read_bytes().decode("utf-8-sig").splitlines()
    except FileNotFoundError as error:
        raise DataError("there is no such file", source, "Check the path") from error
    except UnicodeDecodeError as error:
        raise DataError("the file is not UTF-8", source, "Save it as UTF-8") from error
    except OSError as error:
        raise unreadable(source, error) from error
    found: list[Question] = []
    places: dict[tuple[str, str | None], int] = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        question = _question(line, number, f"{source}, line {number}", first)
        key = (question.scenario, question.language)
        if key in places:
            raise DataError(
                f"the question {question.scenario} is there twice",
                f"{source}, lines {places[key]} and {number}",
                "Give each a scenario, or each translation a language, of its own",
            )
        places[key] = number
        found.append(question)
    if not found:
        raise DataError("the file holds no questions", source, "Write one JSON object a line")
    return tuple(found)


def balanced_items(
    questions: Sequence[Question], *, seed: int = 0, answers: Literal["one", "both"] = "one"
) -> tuple[Item, ...]:
    """Pair each question with its right option or a wrong one (SEMJ, section 5.1).

    Parameters
    ----------
    questions : sequence of Question
    seed : int
    answers : {"one", "both"}
        One of the two a question: the right one for a random half of the scenarios (of an
        odd number, one more or less by chance). Or both.

    Returns
    -------
    tuple of Item
        Backbones are `RIGHT` and `WRONG`. A scenario has the same kind of answer, and the
        same wrong option, in all its languages.

    Raises
    ------
    DataError
        Where a scenario's options differ in number or in the right one between languages.
    UsageError
        Where ``answers`` is neither.
    """
    if answers not in ("one", "both"):
        raise UsageError(f"answers cannot be {answers!r}", remedy="Give one or both")
    shapes: dict[str, tuple[int, int]] = {}
    for one in questions:
        shape = (len(one.options), one.right)
        if shapes.setdefault(one.scenario, shape) != shape:
            raise DataError(
                f"the question {one.scenario} has other options, or another right one, in "
                "another language",
                remedy="Parallel questions list the same options in the same order",
            )
    rng = np.random.default_rng([seed, 5])
    n = len(shapes)
    positives = n // 2 + (int(rng.integers(2)) if n % 2 else 0)
    right = np.zeros(n, dtype=bool)
    right[rng.permutation(n)[:positives]] = True
    drawn = {}
    for at, (scenario, (count, place)) in enumerate(shapes.items()):
        others = [option for option in range(count) if option != place]
        drawn[scenario] = (bool(right[at]), others[int(rng.integers(len(others)))])
    found = []
    for one in questions:
        positive, wrong = drawn[one.scenario]
        if answers == "both" or positive:
            found.append(_item(one, one.right, RIGHT))
        if answers == "both" or not positive:
            found.append(_item(one, wrong, WRONG))
    return tuple(found)


def truth_of(item: Item) -> bool:
    """Return whether the answer of an item made here is correct.

    Raises
    ------
    DataError
        Where the item's backbone says neither.
    """
    if item.backbone not in (RIGHT, WRONG):
        raise DataError(
            f"the backbone {item.backbone!r} does not say whether the answer is correct",
            item.name,
            f"It would be {RIGHT!r} or {WRONG!r}",
        )
    return item.backbone == RIGHT


def item_lines(items: Iterable[Item]) -> str:
    """Return items as ``bayesjudge judge`` reads them, a JSON object a line."""
    lines = []
    for item in items:
        fields: dict[str, object] = {
            name: getattr(item, name)
            for name in ("scenario", "backbone", "generation", "language", "prompt", "response")
            if getattr(item, name) is not None
        }
        lines.append(json.dumps(fields | dict(item.facets), ensure_ascii=False))
    return "".join(f"{line}\n" for line in lines)


def _item(question: Question, option: int, backbone: str) -> Item:
    return Item(
        question.scenario,
        backbone,
        question.text,
        question.options[option],
        language=question.language,
    )


def _question(line: str, number: int, where: str, first: int) -> Question:
    fields = read_object(line, where)
    text = _field(fields, "question", where)
    options = _field(fields, "choices", where)
    scenario = _field(fields, "scenario", where, number)
    language = _field(fields, "language", where, "")
    if not isinstance(text, str) or not text.strip():
        raise DataError("the question is no text", where)
    if (
        not isinstance(options, list)
        or not all(isinstance(option, str) and option.strip() for option in options)
        or len(set(options)) < max(2, len(options))
    ):
        raise DataError(
            "the choices are no list of two different texts or more", where, 'Write ["a", "b"]'
        )
    if not isinstance(scenario, str | int) or not isinstance(language, str):
        raise DataError("scenario and language are labels", where, "Write them as text")
    right = _right(_field(fields, "answer", where), options, first)
    if right is None:
        raise DataError(
            "the answer names none of the choices, or could name two of them",
            where,
            f"Give its number, counted from {first}, its letter, or its text",
        )
    return Question(str(scenario), text, tuple(options), right, language or None)


def _field(fields: Mapping[str, object], role: str, where: str, default: object = None) -> object:
    there = [name for name in _NAMES[role] if name in fields]
    if role in there:
        there = [role]
    if len(there) > 1:
        raise DataError(f"{' and '.join(there)} could both be the {role}", where)
    if there:
        return fields[there[0]]
    if default is None:
        raise DataError(f"there is no {role}", where, f"Add a field {role!r}")
    return default


def _right(answer: object, options: Sequence[str], first: int) -> int | None:
    """Return the index that an answer names; None where it names none, or two."""
    if isinstance(answer, bool):
        return None
    named: set[int] = set()
    if isinstance(answer, int):
        named.add(answer - first)
    elif isinstance(answer, str):
        plain = answer.strip()
        named.update(at for at, option in enumerate(options) if option == answer)
        if len(plain) == 1 and plain.isascii() and plain.isalpha():
            named.add(ord(plain.upper()) - ord("A"))
        elif plain.isascii() and plain.isdecimal() and len(plain) < 4:
            named.add(int(plain) - first)
    possible = {at for at in named if 0 <= at < len(options)}
    return possible.pop() if len(possible) == 1 else None
