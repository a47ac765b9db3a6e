"""What is kept of a judgment: one frozen record a call, and the score table made of them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bayesjudge.judges.calls import Reply
from bayesjudge.judges.items import Item
from bayesjudge.judges.panel import Judge
from bayesjudge.judges.semj import SemjResult


@dataclass(frozen=True)
class Record:
    """One judgment of one answer.

    Attributes
    ----------
    scenario, backbone, judge : str
    generation, language : str or None
        Of the answer.
    facets : tuple of (str, str)
        Further labels of the answer.
    judge_language : str
        The rubric's.
    call : int
        Which of several calls on the same answer, from 1.
    score : float or None
        None where there is none: a failed parse or a failed call is missing, never zero.
    parse_ok : bool
        Whether the answer could be read.
    failed : bool
        Whether no answer came.
    reason : str or None
        Why there is no score.
    rationale : str or None
    truncated : bool
        Whether the answer was cut short; a score may be there even so.
    stop_reason : str or None
    input_tokens, output_tokens : int
    seconds : float
    cost : float or None
    cached : bool
    nll, nll_per_token : float or None
        Negative log-likelihood of the answer's tokens in nats, summed and per token;
        None where the provider gave no log probabilities.
    model, configuration : str
        The judge's model; digest of its settings.
    purpose : str
        What the call was for: ``judge``, ``reflect`` or ``translate``.
    round : int or None
        Of rounds of reconsidering, from 0; None where there are none.
    """

    scenario: str
    backbone: str
    judge: str
    generation: str | None
    language: str | None
    facets: tuple[tuple[str, str], ...]
    judge_language: str
    call: int
    score: float | None
    parse_ok: bool
    failed: bool
    reason: str | None
    rationale: str | None
    truncated: bool
    stop_reason: str | None
    input_tokens: int
    output_tokens: int
    seconds: float
    cost: float | None
    cached: bool
    nll: float | None
    nll_per_token: float | None
    model: str
    configuration: str
    purpose: str = "judge"
    round: int | None = None


@dataclass(frozen=True)
class Judged:
    """What came of one judge and one answer.

    Attributes
    ----------
    scores : tuple of Record
        What goes into the score table.
    calls : tuple of Record
        One a call that was made.
    refined : SemjResult or None
        All rounds, where verdicts were refined.
    """

    scores: tuple[Record, ...]
    calls: tuple[Record, ...]
    refined: SemjResult | None = None


def record_of(
    item: Item,
    judge: Judge,
    judge_language: str,
    call: int,
    reply: Reply,
    score: float | None,
    reason: str | None,
    rationale: str | None,
    truncated: bool,
) -> Record:
    """Make the record of a reply that was read, or could not be."""
    nll, nll_per_token = negative_log_likelihood(reply.token_log_probabilities)
    return Record(
        scenario=item.scenario,
        backbone=item.backbone,
        judge=judge.name,
        generation=item.generation,
        language=item.language,
        facets=item.facets,
        judge_language=judge_language,
        call=call,
        score=score,
        parse_ok=reply.error is None and score is not None,
        failed=reply.error is not None,
        reason=None if score is not None else reply.error or reason or "no score",
        rationale=rationale,
        truncated=truncated,
        stop_reason=reply.stop_reason,
        input_tokens=reply.input_tokens,
        output_tokens=reply.output_tokens,
        seconds=reply.seconds,
        cost=reply.cost,
        cached=reply.cached,
        nll=nll,
        nll_per_token=nll_per_token,
        model=judge.model,
        configuration=judge.digest,
    )


def negative_log_likelihood(
    token_log_probabilities: Sequence[float] | None,
) -> tuple[float | None, float | None]:
    """Return minus the sum and minus the mean of log probabilities, in nats.

    None where there are no tokens, or one of them has no finite log probability.
    """
    if not token_log_probabilities or not all(map(math.isfinite, token_log_probabilities)):
        return None, None
    total = -math.fsum(token_log_probabilities)
    return total, total / len(token_log_probabilities)


def score_columns(records: Sequence[Record]) -> dict[str, list[object]]:
    """Return the score table, a list a column, that ``bayesjudge rank`` reads as it is.

    A row without a score has None there, and says why in ``failure``. Columns that no
    record has are left out.
    """
    columns: dict[str, list[object]] = {"scenario": [r.scenario for r in records]}
    columns["generation"] = [r.generation for r in records]
    columns["backbone"] = [r.backbone for r in records]
    columns["judge"] = [r.judge for r in records]
    columns["language"] = [r.language for r in records]
    for name in dict.fromkeys(name for r in records for name, _ in r.facets):
        columns[name] = [dict(r.facets).get(name) for r in records]
    if any(r.call > 1 for r in records):
        columns["call"] = [r.call for r in records]
    columns["score"] = [r.score for r in records]
    columns["failure"] = [r.reason for r in records]
    columns["nll"] = [r.nll for r in records]
    return {
        name: values
        for name, values in columns.items()
        if name == "score" or any(value is not None for value in values)
    }


def record_fields(record: Record) -> dict[str, object]:
    """Return a record as one flat JSON object, in the order of its fields."""
    kept = {name: value for name, value in vars(record).items() if name != "facets"}
    return {**kept, "facets": dict(record.facets)}


@dataclass(frozen=True)
class Tally:
    """What became of one judge's calls.

    Attributes
    ----------
    calls : int
    scores, missing : int
        Rows of the score table with a score, and without one.
    failed : int
        Calls that no answer came of.
    truncated : int
        Answers that were cut short, with or without a score.
    input_tokens, output_tokens : int
    cost : float or None
        None where no call has a price.
    seconds : float
        Mean time of a call.
    mean : float or None
        Mean score.
    reasons : mapping of str to int
        Why scores are missing, the most frequent first.
    """

    calls: int
    scores: int
    missing: int
    failed: int
    truncated: int
    input_tokens: int
    output_tokens: int
    cost: float | None
    seconds: float
    mean: float | None
    reasons: Mapping[str, int]


def tally(scores: Sequence[Record], calls: Sequence[Record]) -> Tally:
    """Count what became of calls, and of the scores they were made for."""
    given = [r.score for r in scores if r.score is not None]
    reasons = Counter(r.reason or "" for r in scores if r.score is None)
    costs = [r.cost for r in calls if r.cost is not None]
    return Tally(
        calls=len(calls),
        scores=len(given),
        missing=len(scores) - len(given),
        failed=sum(r.failed for r in calls),
        truncated=sum(r.truncated for r in calls),
        input_tokens=sum(r.input_tokens for r in calls),
        output_tokens=sum(r.output_tokens for r in calls),
        cost=math.fsum(costs) if costs else None,
        seconds=math.fsum(r.seconds for r in calls) / len(calls) if calls else 0.0,
        mean=math.fsum(given) / len(given) if given else None,
        reasons=dict(reasons.most_common()),
    )
