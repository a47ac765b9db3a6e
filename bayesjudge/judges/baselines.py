"""The methods that SEMJ is compared with (When Languages Disagree, section 5.2).

Base, multilingual vote and monolingual reflection are SEMJ with less of it: without other
languages, without rounds, or without either. Each answers with everything that was said.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from bayesjudge.errors import UsageError
from bayesjudge.judges.calls import Ask
from bayesjudge.judges.items import Item
from bayesjudge.judges.parsing import read_verdict
from bayesjudge.judges.prompts import verdict_call
from bayesjudge.judges.semj import (
    SemjResult,
    Settings,
    VariantVerdict,
    first_key,
    majority,
    own_language,
    refine,
    together,
)


@dataclass(frozen=True)
class SampleVote:
    """Several independent verdicts on one answer in its own language.

    Attributes
    ----------
    item : Item
    settings : Settings
    verdicts : tuple of VariantVerdict
        In the order asked for; the first is the base judge's.
    """

    item: Item
    settings: Settings
    verdicts: tuple[VariantVerdict, ...]

    @property
    def verdict(self) -> bool | None:
        """What most valid samples say; a tie is decided by the first."""
        return majority([one.verdict.correct for one in self.verdicts])

    @property
    def n_invalid(self) -> int:
        """How many samples gave no valid verdict."""
        return sum(one.verdict.correct is None for one in self.verdicts)


async def judge_once(item: Item, settings: Settings, ask: Ask) -> SemjResult:
    """Judge an answer once in its own language: the base judge, one call.

    Errors as of `refine`.
    """
    return await refine(item, replace(settings, others=0, rounds=0), ask)


async def vote_over_languages(item: Item, settings: Settings, ask: Ask) -> SemjResult:
    """Judge an answer once in its own and in K other languages; K translations, K + 1 verdicts.

    The vote is ``panel_verdict``; a tie is decided by the item's own language. Errors as of
    `refine`.
    """
    return await refine(item, replace(settings, rounds=0), ask)


async def vote_over_samples(
    item: Item, settings: Settings, ask: Ask, samples: int | None = None
) -> SampleVote:
    """Judge an answer several times in its own language; by default K + 1 calls.

    The judge's temperature has to be above zero, or the samples are one.

    Raises
    ------
    DataError
        Where the item names no language.
    UsageError
        Where there is to be less than one sample, or no instructions are in the language.
    """
    count = settings.others + 1 if samples is None else samples
    if count < 1:
        raise UsageError(f"{count} samples cannot be voted on", remedy="Ask for at least 1")
    own = own_language(item)
    told = own if settings.instructions is None else settings.instructions

    async def sample(number: int) -> VariantVerdict:
        reply = await ask(
            verdict_call(
                item.prompt,
                item.response,
                model=settings.model,
                rubric=settings.rubric,
                language=told,
                key=first_key(item, own, number),
                max_tokens=settings.max_tokens,
            )
        )
        return VariantVerdict(own, read_verdict(reply), reply)

    verdicts = await together(sample(number) for number in range(count))
    return SampleVote(item, settings, tuple(verdicts))


async def reflect_alone(item: Item, settings: Settings, ask: Ask) -> SemjResult:
    """Judge an answer and reconsider it s times in its own language; 1 + s calls.

    The memory holds the judge's own earlier verdicts and reasons. One verdict has no
    agreement, so no round is left out.
    """
    return await refine(item, replace(settings, others=0), ask)
