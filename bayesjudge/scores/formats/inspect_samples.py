"""Samples of an Inspect log, down to their scores: values, judges, and why a score is missing."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bayesjudge.scores.formats.cells import (
    Unreadable,
    failed,
    first_line,
    kind_of,
    label,
    many,
    mapping,
    maybe,
    name_of,
    number,
    own_fields,
    shown,
)
from bayesjudge.scores.formats.findings import Cell

GRADES = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}
"""What Inspect's own metrics make of correct, partial, incorrect, and no answer."""

WORDS = {"yes": 1.0, "no": 0.0, "true": 1.0, "false": 0.0}
_NO_GRADE = "grade not found in model output"
_JUDGE_KEYS = ("judge_model", "grader_model", "judge", "grader")
PLACEHOLDER = "88F74D2C"
"""The scorer's name in logs from before several scorers were possible."""


@dataclass(frozen=True, slots=True)
class Part:
    """One number of a score: what it is of, who gave it, and its cells.

    Attributes
    ----------
    key : str or None
        The key of a mapping of values.
    element : str or None
        The place in a list of values, from 0.
    judge : str or None
        The model that the score itself names.
    member : int or None
        The place in a panel whose votes the log holds.
    cells : dict
        ``score``, with ``verdict`` where it was a letter or word; or ``failure``.
    """

    key: str | None
    element: str | None
    judge: str | None
    member: int | None
    cells: dict[str, Cell]


@dataclass(frozen=True, slots=True)
class Sample:
    """One sample and epoch.

    Attributes
    ----------
    scores : tuple of (scorer, parts)
    lost : tuple of str
        What is wrong with scores that could not be read.
    unscored : str or None
        Why the sample as a whole has no score, if it has none.
    fields : dict
        Its short metadata.
    """

    id: str
    epoch: str
    scores: tuple[tuple[str, tuple[Part, ...]], ...]
    lost: tuple[str, ...]
    unscored: str | None
    fields: dict[str, Cell]

    @property
    def name(self) -> str:
        """What messages call it."""
        return f"sample {self.id!r} epoch {self.epoch}"


def take_sample(value: Any) -> Sample:
    """Take from a sample what the score table needs.

    Raises
    ------
    Unreadable
        Where it is no object, or has no usable id or epoch.
    """
    fields = mapping(value, "sample")
    sample_id = label(fields.get("id"), "id")
    epoch = label(fields.get("epoch"), "epoch")
    scores = fields.get("scores")
    if scores is None and fields.get("score") is not None:
        scores = {PLACEHOLDER: fields["score"]}
    lost: list[str] = []
    taken: list[tuple[str, tuple[Part, ...]]] = []
    if scores is not None and not isinstance(scores, Mapping):
        raise Unreadable(f"its scores are {kind_of(scores)}, not a mapping")
    for scorer, score in maybe(scores).items():
        try:
            taken.append((label(scorer, "scorer"), tuple(_parts(score))))
        except Unreadable as error:
            lost.append(f"scorer {shown(scorer)}: {error}")
    unscored = _why_unscored(fields, bool(taken), bool(lost))
    if fields.get("invalidation") is not None:
        taken, unscored = [], "sample invalidated"
    own = own_fields(fields.get("metadata"), "metadata", ("language",))
    return Sample(sample_id, epoch, tuple(taken), tuple(lost), unscored, own)


def _why_unscored(fields: Mapping[str, Any], any_score: bool, any_lost: bool) -> str | None:
    if any_score:
        return None
    error = fields.get("error")
    if error:
        message = maybe(error).get("message") or (error if isinstance(error, str) else "no message")
        return first_line(f"sample error: {first_line(message)}")
    return None if any_lost else "sample not scored"


def _parts(score: Any) -> Iterator[Part]:
    """Split a score into its numbers.

    Raises
    ------
    Unreadable
        Where it holds no value.
    """
    fields = mapping(score, "score")
    if "value" not in fields:
        raise Unreadable("it has no value")
    metadata = maybe(fields.get("metadata"))
    reason = _reason(fields, metadata)
    votes = many(maybe(metadata.get("panel")).get("votes"))
    if votes and all(not isinstance(vote, list | Mapping) for vote in votes):
        why = {
            failure.get("index"): first_line(failure.get("reason") or "no vote")
            for failure in map(maybe, many(maybe(metadata.get("panel")).get("failures")))
            if isinstance(failure.get("index"), int)
        }
        for member, vote in enumerate(votes):
            cells = value_cells(vote, why.get(member, "no vote"))
            yield Part(None, None, None, member, cells)
        return
    judge = _judge(metadata)
    value = fields["value"]
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield Part(label(key, "key"), None, judge, None, value_cells(item, reason))
        return
    if isinstance(value, list):
        for place, item in enumerate(value):
            yield Part(None, str(place), judge, None, value_cells(item, reason))
        return
    explanation = fields.get("explanation")
    if isinstance(explanation, str) and explanation.lower().startswith(_NO_GRADE):
        # Older versions wrote "I", as for a wrong answer, where the judge gave no grade.
        yield Part(None, None, judge, None, failed("judge: no grade in its reply"))
        return
    yield Part(None, None, judge, None, value_cells(value, reason))


def value_cells(value: Any, reason: str) -> dict[str, Cell]:
    """Turn a scorer's value into cells, letters and words as Inspect's own metrics do."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return failed(f"judge: {reason}")
    if isinstance(value, str):
        word = GRADES.get(value, WORDS.get(value.lower()))
        if word is not None:
            return {"score": word, "verdict": value}
    found = number(value)
    if found is None:
        return failed(f"value is no number: {shown(value)}")
    return {"score": found}


def _reason(fields: Mapping[str, Any], metadata: Mapping[str, Any]) -> str:
    reason = fields.get("reason") or metadata.get("unscored_reason")
    return first_line(reason) if isinstance(reason, str) else "no value"


def _judge(metadata: Mapping[str, Any]) -> str | None:
    """Find the model that a score says it is from."""
    for message in reversed(many(metadata.get("grading"))):
        model = name_of(maybe(message).get("model"))
        if model is not None:
            return model
    return next((model for key in _JUDGE_KEYS if (model := name_of(metadata.get(key)))), None)


@dataclass(frozen=True)
class Scorer:
    """A scorer of the log's header: its own name, and the models it was given."""

    name: str
    models: tuple[str, ...]


def scorers_of(header: Mapping[str, Any]) -> dict[str, Scorer]:
    """Say which scorer stands behind each name that scores are kept under.

    Inspect numbers scorers that share a name: the second ``model_graded_qa`` is
    kept as ``model_graded_qa1``.
    """
    found: dict[str, Scorer] = {}
    roles = maybe(header.get("model_roles"))
    for item in many(header.get("scorers")):
        fields = maybe(item)
        name = name_of(fields.get("name"))
        if name is None:
            continue
        base = name.rsplit("/", 1)[-1]
        key, count = base, 1
        while key in found:
            key, count = f"{base}{count}", count + 1
        options = maybe(fields.get("options"))
        models = _models(options.get("model"))
        if not models and base.startswith("model_graded"):
            role = options.get("model_role", "grader")
            role = maybe(role).get("name", role) if isinstance(role, Mapping) else role
            models = _models(roles.get(role)) if isinstance(role, str) else ()
        found[key] = Scorer(base, models)
    return found


def _models(given: Any) -> tuple[str, ...]:
    if isinstance(given, list):
        return tuple(model for item in given for model in _models(item))
    if isinstance(given, Mapping):
        given = given.get("model")
    name = name_of(given)
    return () if name is None else (name,)


def judges_of(samples: Sequence[Sample], scorers: Mapping[str, Scorer]) -> dict[str, str | None]:
    """Say who stands behind the scores of each scorer that do not say it themselves.

    The one model that its other scores name, or that the header gives it; None
    where there are several, so that nobody can be said.
    """
    named: dict[str, set[str]] = {}
    for sample in samples:
        for scorer, parts in sample.scores:
            judges = named.setdefault(scorer, set())
            judges.update(part.judge for part in parts if part.judge is not None)
    found: dict[str, str | None] = {}
    for scorer, judges in named.items():
        models = scorers[scorer].models if scorer in scorers else ()
        candidates = judges or set(models)
        found[scorer] = next(iter(candidates)) if len(candidates) == 1 else None
    return found
