"""What a judge is told: calls for scores, verdicts and translations, in the judge's language.

The wording of each language lies in ``wording/<code>.toml`` with its back-translation into
English. The text of a task or an answer stands between fences that it does not contain, so
that nothing inside it ends the material.
"""

from __future__ import annotations

import json
import string
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from bayesjudge.auditing.languages import find_language
from bayesjudge.errors import UsageError
from bayesjudge.judges.calls import Call

KEYS = (
    "role", "rubric", "standard", "task", "answer", "output", "score", "verdict", "rationale",
    "correct", "incorrect", "invalid", "earlier", "round", "agreement", "reconsider", "translate",
)  # fmt: skip
"""What each language says, in the order of its file."""

MOST_SCORES = 1001
"""Longest scale that is written out as an enumeration."""

_FOLDER = Path(__file__).parent / "wording"
_LISTED = 11


@dataclass(frozen=True)
class Wording:
    """What is said to a judge in one language.

    Attributes
    ----------
    code, name : str
        The language's code and its own name.
    text : mapping of str to str
        A template for each of `KEYS`.
    back_translation : mapping of str to str
        The same read back into English, for those who do not read the language; the
        text itself for English.
    """

    code: str
    name: str
    text: Mapping[str, str]
    back_translation: Mapping[str, str]


@dataclass(frozen=True)
class RememberedJudgment:
    """One earlier verdict as it is shown to a judge: None is no valid verdict."""

    language: str
    verdict: bool | None
    rationale: str | None


@dataclass(frozen=True)
class RememberedRound:
    """One earlier round as it is shown to a judge.

    Attributes
    ----------
    round : int
        From 0, the round without memory; shown as 1.
    agreement : float, optional
        Equation 1's; None is not shown.
    judgments : tuple of RememberedJudgment
    """

    round: int
    agreement: float | None
    judgments: tuple[RememberedJudgment, ...]


@cache
def worded_languages() -> tuple[str, ...]:
    """Return the codes of the languages in which a judge can be told what to do, sorted."""
    return tuple(sorted(path.stem for path in _FOLDER.glob("*.toml")))


@cache
def read_wording(code: str) -> Wording:
    """Return the wording of a language.

    Parameters
    ----------
    code : str
        A code of ISO 639, alone or with a region, or the English name.

    Raises
    ------
    UsageError
        Where there is no wording in that language.
    """
    known = find_language(code)
    stem = known.code if known else code
    if stem not in worded_languages():
        raise UsageError(
            f"there are no instructions in the language {code!r}",
            remedy=f"There are in {', '.join(worded_languages())}",
        )
    data = tomllib.loads((_FOLDER / f"{stem}.toml").read_text(encoding="utf-8"))
    text = data["text"]
    return Wording(stem, data["name"], text, data.get("back_translation", text))


@cache
def language_name(label: str) -> str:
    """Return a language's own name where there is wording in it, else its English name.

    A label that names no known language is returned as it is.
    """
    known = find_language(label)
    if known is None:
        return label
    return read_wording(known.code).name if known.code in worded_languages() else known.name


def pointwise_call(
    item: str,
    answer: str,
    *,
    model: str,
    rubric: str | None,
    scale: tuple[int, int],
    language: str,
    key: tuple[str, ...],
    max_tokens: int | None = None,
) -> Call:
    """Return the call that asks for a score of one answer.

    Parameters
    ----------
    item : str
        The text of the task.
    answer : str
        The answer to be judged.
    model : str
        The judge, by its provider's name.
    rubric : str or None
        What counts, in any language; None takes the wording's own.
    scale : (int, int)
        Lowest and highest score; every whole number between them is allowed.
    language : str
        In which the judge is told what to do and gives its reason.
    key : tuple of str
        What makes the call itself.
    max_tokens : int, optional

    Returns
    -------
    Call
        Its schema is an object of ``score``, an enumeration, and then ``rationale``.

    Raises
    ------
    UsageError
        Where there are no instructions in the language, or the scale is empty or too long.
    """
    wording = read_wording(language)
    values = allowed_scores(scale)
    shown = " | ".join(map(str, values)) if len(values) <= _LISTED else f"{values[0]}…{values[-1]}"
    form = f'{{"score": {shown}, "rationale": "…"}}'
    asked = wording.text["score"].format(lowest=values[0], highest=values[-1])
    return Call(
        model=model,
        system=_instructions(wording, rubric, asked, form),
        user=_material(wording, item, answer),
        purpose="judge",
        key=key,
        schema=_schema("score", {"type": "integer", "enum": list(values)}),
        max_tokens=max_tokens,
    )


def verdict_call(
    item: str,
    answer: str,
    *,
    model: str,
    rubric: str | None,
    language: str,
    key: tuple[str, ...],
    memory: Sequence[RememberedRound] = (),
    max_tokens: int | None = None,
) -> Call:
    """Return the call that asks whether an answer is correct.

    Parameters
    ----------
    item, answer, model, rubric, language, key, max_tokens
        As of `pointwise_call`.
    memory : sequence of RememberedRound
        Earlier rounds, oldest first, which the judge is to weigh; none in the first.

    Returns
    -------
    Call
        Its schema is an object of ``correct``, true or false, and then ``rationale``.

    Raises
    ------
    UsageError
        Where there are no instructions in the language.
    """
    wording = read_wording(language)
    form = '{"correct": true | false, "rationale": "…"}'
    parts = [_material(wording, item, answer)]
    if memory:
        parts += [recollection(memory, language), wording.text["reconsider"]]
    return Call(
        model=model,
        system=_instructions(wording, rubric, wording.text["verdict"], form),
        user="\n\n".join(parts),
        purpose="reflect" if memory else "judge",
        key=key,
        schema=_schema("correct", {"type": "boolean"}),
        max_tokens=max_tokens,
    )


def translate_call(
    texts: Mapping[str, str],
    *,
    model: str,
    language: str,
    key: tuple[str, ...],
    instructions: str | None = None,
    max_tokens: int | None = None,
) -> Call:
    """Return the call that asks a judge to translate what it will judge.

    Parameters
    ----------
    texts : mapping of str to str
        What to translate, by name; the names come back.
    model, key, max_tokens
        As of `pointwise_call`.
    language : str
        Into which to translate.
    instructions : str, optional
        The language of the instructions; by default the one translated into.

    Raises
    ------
    UsageError
        Where there are no instructions in that language.
    """
    wording = read_wording(language if instructions is None else instructions)
    return Call(
        model=model,
        system=wording.text["translate"].format(language=language_name(language)),
        user=json.dumps(dict(texts), ensure_ascii=False, indent=1),
        purpose="translate",
        key=key,
        schema={
            "type": "object",
            "properties": {name: {"type": "string"} for name in texts},
            "required": list(texts),
            "additionalProperties": False,
        },
        max_tokens=max_tokens,
    )


def recollection(memory: Sequence[RememberedRound], language: str) -> str:
    """Return earlier rounds as a judge of this language reads them.

    A line a round, with the agreement where there is one, and under it a line a
    judgment: language, verdict, reason.
    """
    text = read_wording(language).text
    lines = [f"{text['earlier']}:"]
    for one in memory:
        head = text["round"].format(round=one.round + 1)
        if one.agreement is not None:
            head += "; " + text["agreement"].format(agreement=f"{one.agreement:.2f}")
        lines.append(f"* {head}")
        for judgment in one.judgments:
            word = {True: "correct", False: "incorrect", None: "invalid"}[judgment.verdict]
            line = f"  - {language_name(judgment.language)}: {text[word]}"
            if judgment.rationale:
                line += f" — {' '.join(judgment.rationale.split())}"
            lines.append(line)
    return "\n".join(lines)


def allowed_scores(scale: tuple[int, int]) -> range:
    """Return the whole numbers of a scale, both ends included.

    Raises
    ------
    UsageError
        Where the highest is not above the lowest, or there are more than `MOST_SCORES`.
    """
    lowest, highest = scale
    if not lowest < highest:
        raise UsageError(
            f"a scale from {lowest} to {highest} has no two scores",
            remedy="Give the lowest score first, then a higher one",
        )
    if highest - lowest >= MOST_SCORES:
        raise UsageError(
            f"a scale from {lowest} to {highest} has more than {MOST_SCORES} scores",
            remedy="Judges are shown every allowed score: choose a shorter scale",
        )
    return range(lowest, highest + 1)


def placeholders(template: str) -> frozenset[str]:
    """Return the names that a template leaves open."""
    return frozenset(name for _, name, _, _ in string.Formatter().parse(template) if name)


def _instructions(wording: Wording, rubric: str | None, asked: str, form: str) -> str:
    text = wording.text
    standard = text["standard"] if rubric is None else rubric
    return "\n\n".join(
        [
            text["role"],
            f"{text['rubric']}:\n{standard}",
            "\n".join([text["output"].format(format=form), asked, text["rationale"]]),
        ]
    )


def _material(wording: Wording, item: str, answer: str) -> str:
    parts = ((wording.text["task"], item), (wording.text["answer"], answer))
    return "\n\n".join(f"{name}:\n{_fenced(text)}" for name, text in parts)


def _fenced(text: str) -> str:
    fence = "~~~~"
    while fence in text:
        fence += "~"
    return f"{fence}\n{text}\n{fence}"


def _schema(name: str, kind: Mapping[str, object]) -> dict[str, object]:
    """Return the schema of a verdict that comes before its reason."""
    return {
        "type": "object",
        "properties": {name: dict(kind), "rationale": {"type": "string"}},
        "required": [name, "rationale"],
        "additionalProperties": False,
    }
