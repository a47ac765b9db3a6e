"""SEMJ as a strategy of the runner: its calls' records, its verdict as a score of 1 or 0."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

from bayesjudge.judges.calls import Ask, Reply
from bayesjudge.judges.items import Item
from bayesjudge.judges.pointwise import Turn
from bayesjudge.judges.prompts import read_wording
from bayesjudge.judges.records import Judged, Record, record_of
from bayesjudge.judges.semj import (
    SemjResult,
    Settings,
    Variant,
    VariantVerdict,
    own_language,
    refine,
)
from bayesjudge.judges.verdict_table import round_columns, stage_columns


def refining(settings: Settings) -> Callable[[Turn, Ask], Awaitable[Judged]]:
    """Return the strategy that judges in several languages until verdicts agree.

    Parameters
    ----------
    settings : Settings
        Its model and tokens are each judge's own.
    """

    async def judge(turn: Turn, ask: Ask) -> Judged:
        own = replace(settings, model=turn.judge.model, max_tokens=turn.judge.max_tokens)
        result = await refine(turn.item, own, ask)
        calls = [_translated(turn, one, settings) for one in result.variants if one.reply]
        calls += [
            _judged(turn, one.number, said, settings)
            for one in result.rounds
            for said in one.verdicts
            if said.reply is not None
        ]
        return Judged((_final(turn, result, settings),), tuple(calls), result)

    return judge


def check_refinable(items: Sequence[Item], settings: Settings) -> None:
    """Refuse items that SEMJ cannot judge, before anything is asked.

    Raises
    ------
    DataError
        Where an item names no language.
    UsageError
        Where there are no instructions in an item's language, and none are named for all.
    """
    for item in items:
        language = own_language(item)
        if settings.instructions is None:
            read_wording(language)


def verdict_columns(judged: Sequence[Judged]) -> dict[str, dict[str, list[object]]]:
    """Return the tables of all verdicts by file: of every round; before and after refinement."""
    by_judge: dict[str, list[SemjResult]] = {}
    for one in judged:
        if one.refined is not None:
            by_judge.setdefault(one.scores[0].judge, []).append(one.refined)
    rounds = [round_columns(results, judge) for judge, results in by_judge.items()]
    stages = [stage_columns(results, judge) for judge, results in by_judge.items()]
    return {"rounds.csv": _joined(rounds), "stages.csv": _joined(stages)}


def _joined(tables: Sequence[dict[str, list[object]]]) -> dict[str, list[object]]:
    """Put tables under one another; a column that one lacks is empty there."""
    names = dict.fromkeys(name for table in tables for name in table)
    return {
        name: [value for table in tables for value in table.get(name, [None] * len(table["score"]))]
        for name in names
    }


def _told_in(language: str, settings: Settings) -> str:
    return language if settings.instructions is None else settings.instructions


def _record(
    turn: Turn,
    language: str,
    settings: Settings,
    reply: Reply,
    score: float | None,
    reason: str | None,
    rationale: str | None,
    truncated: bool,
) -> Record:
    item = replace(turn.item, language=language)
    told = _told_in(language, settings)
    return record_of(item, turn.judge, told, turn.call, reply, score, reason, rationale, truncated)


def _translated(turn: Turn, variant: Variant, settings: Settings) -> Record:
    reply = variant.reply or Reply(None, error="not asked")
    made = _record(turn, variant.language, settings, reply, None, variant.reason, None, False)
    return replace(
        made, purpose="translate", parse_ok=variant.reason is None, reason=variant.reason
    )


def _judged(turn: Turn, one_round: int, said: VariantVerdict, settings: Settings) -> Record:
    reply = said.reply or Reply(None, error="not asked")
    verdict = said.verdict
    score = None if verdict.correct is None else float(verdict.correct)
    made = _record(
        turn, said.language, settings, reply, score, verdict.reason, verdict.rationale,
        verdict.truncated,
    )  # fmt: skip
    return replace(made, purpose="reflect" if one_round else "judge", round=one_round)


def _final(turn: Turn, result: SemjResult, settings: Settings) -> Record:
    """Return the answer's own last verdict, with the reason it was last given."""
    own = [one.verdicts[0] for one in result.rounds]
    valid = [said for said in own if said.verdict.correct is not None]
    said = (valid or own)[-1]
    made = _judged(turn, result.rounds[-1].number, said, settings)
    return replace(made, purpose="judge")
