"""SEMJ: a judge that judges one answer in several languages and reconsiders where they differ.

An answer is translated by the judge itself into K other languages and judged in each, its
own included, independently. Where the verdicts agree too little, all of them with their
reasons are shown to every variant, which judges anew (When Languages Disagree, section 4).

>>> from bayesjudge.judges.items import Item
>>> from bayesjudge.judges.semj import Settings, refine
>>> item = Item("s1", "gpt", "What is 2 + 2?", "Four.", language="en")
>>> settings = Settings(model="openai/gpt-4.1")  # K = 4, tau = 0.8, s = 3
>>> result = asyncio.run(refine(item, settings, ask))  # doctest: +SKIP
>>> result.verdict, result.rounds[0].agreement  # doctest: +SKIP
(True, 0.6)

``ask`` is any :data:`bayesjudge.judges.calls.Ask`. :mod:`~bayesjudge.judges.verdict_table`
makes the score table of results, :mod:`~bayesjudge.judges.baselines` the methods that SEMJ
is compared with.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Coroutine, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from bayesjudge.errors import DataError, UsageError
from bayesjudge.judges.calls import Ask, Reply
from bayesjudge.judges.items import Item
from bayesjudge.judges.language_choice import CHOICES, Choice, choose_languages
from bayesjudge.judges.parsing import Verdict, read_translation, read_verdict
from bayesjudge.judges.prompts import (
    RememberedJudgment,
    RememberedRound,
    read_wording,
    translate_call,
    verdict_call,
    worded_languages,
)

OTHERS, TAU, ROUNDS = 4, 0.8, 3
"""K, the threshold of agreement, and s, as the paper has them (section 5.3)."""


@dataclass(frozen=True)
class Settings:
    """How answers are judged.

    Attributes
    ----------
    model : str
        The judge, by its provider's name.
    others : int
        K, the languages beside the item's own; 0 judges in its own only.
    tau : float
        Judging ends where the agreement is at least this. Five verdicts agree by 1, 0.6
        or 0.4, so 0.8 asks for unanimity; above 1 no agreement ends it.
    rounds : int
        s, the most rounds of reconsidering after the first judgment.
    choice : str
        Of the other languages; see `choose_languages`.
    candidates : tuple of str
        Languages that may be chosen.
    rubric : str, optional
        What counts; None takes each wording's own.
    instructions : str, optional
        The language in which the judge is told what to do; None takes each variant's own.
        Languages without wording can be judged in only where this is given.
    max_tokens : int, optional
    seed : int
        Of the random choice of languages.
    """

    model: str
    others: int = OTHERS
    tau: float = TAU
    rounds: int = ROUNDS
    choice: Choice = "random"
    candidates: tuple[str, ...] = worded_languages()
    rubric: str | None = None
    instructions: str | None = None
    max_tokens: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if self.others < 0 or self.rounds < 0:
            raise UsageError(
                f"{self.others} other languages and {self.rounds} rounds cannot be",
                remedy="Both are at least 0",
            )
        if math.isnan(self.tau) or self.tau < 0:
            raise UsageError(f"the agreement asked for is {self.tau}", remedy="Give 0 to 1")
        if self.choice not in CHOICES:
            raise UsageError(
                f"there is no choice of languages {self.choice!r}",
                remedy=f"There are {', '.join(CHOICES)}",
            )
        for language in self.candidates if self.instructions is None else (self.instructions,):
            read_wording(language)


@dataclass(frozen=True)
class Variant:
    """The task and the answer in one language, or why they are not there."""

    language: str
    prompt: str | None
    response: str | None
    reason: str | None = None
    reply: Reply | None = None


@dataclass(frozen=True)
class VariantVerdict:
    """What the judge said of one variant in one round.

    Attributes
    ----------
    language : str
    verdict : Verdict
        ``correct`` is None where there is no valid one.
    reply : Reply or None
        None where nothing was asked, because the variant was not translated.
    """

    language: str
    verdict: Verdict
    reply: Reply | None


@dataclass(frozen=True)
class Round:
    """One round: 0 is the first judgment, without memory.

    Attributes
    ----------
    number : int
    agreement : float or None
        Equation 1 over the valid verdicts; None where fewer than two are valid.
    verdicts : tuple of VariantVerdict
        The item's own language first.
    """

    number: int
    agreement: float | None
    verdicts: tuple[VariantVerdict, ...]


@dataclass(frozen=True)
class SemjResult:
    """Everything that was said of one answer.

    Attributes
    ----------
    item : Item
    settings : Settings
    variants : tuple of Variant
        The item's own language first.
    filled : int
        Languages chosen against the choice asked for, because there were too few.
    rounds : tuple of Round
    """

    item: Item
    settings: Settings
    variants: tuple[Variant, ...]
    filled: int
    rounds: tuple[Round, ...]

    @property
    def languages(self) -> tuple[str, ...]:
        """The item's own language, then the others."""
        return tuple(variant.language for variant in self.variants)

    @property
    def finals(self) -> tuple[bool | None, ...]:
        """Each variant's own last valid verdict; None where it never had one."""
        return final_verdicts(self.rounds)

    @property
    def verdict(self) -> bool | None:
        """The answer's verdict: the last valid one in its own language."""
        return self.finals[0]

    @property
    def panel_verdict(self) -> bool | None:
        """The majority of the variants' final verdicts, ties as of `majority`."""
        return majority(self.finals)

    @property
    def agreed(self) -> bool:
        """Whether judging ended because the verdicts agreed."""
        return reached(self.rounds[-1].agreement, self.settings.tau)

    @property
    def n_invalid(self) -> int:
        """How many verdicts were asked for and are missing, untranslated variants included."""
        return sum(one.verdict.correct is None for r in self.rounds for one in r.verdicts)


def agreement(verdicts: Iterable[bool | None]) -> float | None:
    """Return the share of pairs of verdicts that are the same (SEMJ, equation 1).

    Missing verdicts make no pairs; fewer than two valid verdicts have no agreement.
    """
    valid = [verdict for verdict in verdicts if verdict is not None]
    n, positive = len(valid), sum(valid)
    if n < 2:
        return None
    return (math.comb(positive, 2) + math.comb(n - positive, 2)) / math.comb(n, 2)


def reached(agreed: float | None, tau: float) -> bool:
    """Whether an agreement ends the judging: at least tau, and there is one."""
    return agreed is not None and agreed >= tau


def majority(verdicts: Sequence[bool | None]) -> bool | None:
    """Return what more than half of the valid verdicts say.

    A tie is decided by the first verdict, the item's own language's (or first sample's);
    where that one is missing there is no verdict.
    """
    valid = [verdict for verdict in verdicts if verdict is not None]
    balance = 2 * sum(valid) - len(valid)
    if balance:
        return balance > 0
    return verdicts[0] if verdicts else None


def final_verdicts(rounds: Sequence[Round]) -> tuple[bool | None, ...]:
    """Return each variant's last valid verdict over these rounds; None where it had none."""
    finals: list[bool | None] = [None] * len(rounds[0].verdicts)
    for one in rounds:
        for at, said in enumerate(one.verdicts):
            if said.verdict.correct is not None:
                finals[at] = said.verdict.correct
    return tuple(finals)


async def refine(item: Item, settings: Settings, ask: Ask) -> SemjResult:
    """Judge one answer by SEMJ.

    Asks for K translations, then in round 0 for K + 1 independent verdicts, and again in
    each further round with the memory of all rounds before, until the agreement is at
    least tau or s rounds of reconsidering are over.

    A variant whose translation fails is never judged; an invalid verdict is no vote, makes
    no pair in the agreement, is shown to the others as missing, and may be valid in a later
    round. Without two valid verdicts there is no agreement, and judging goes on.

    Parameters
    ----------
    item : Item
        With a language.
    settings : Settings
    ask : Ask
        Reaches the judge.

    Raises
    ------
    DataError
        Where the item names no language.
    UsageError
        Where languages are too few, or there are no instructions in one.
    """
    own = own_language(item)
    chosen = choose_languages(
        own,
        settings.others,
        settings.candidates,
        settings.choice,
        seed=settings.seed,
        name=item.labels,
    )
    translated = await together(
        _translate(item, language, settings, ask) for language in chosen.languages
    )
    variants = (Variant(own, item.prompt, item.response), *translated)
    rounds: list[Round] = []
    for number in range(settings.rounds + 1):
        memory = remembered(rounds)
        verdicts = await together(
            _judge(item, one, variants, memory, settings, ask) for one in variants
        )
        agreed = agreement(one.verdict.correct for one in verdicts)
        rounds.append(Round(number, agreed, tuple(verdicts)))
        if reached(agreed, settings.tau):
            break
    return SemjResult(item, settings, variants, chosen.filled, tuple(rounds))


async def together[T](asked: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Return what coroutines running side by side return, in their order.

    The first error ends them all and is raised: nothing more is asked, or paid for.
    """
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one) for one in asked]
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from None
    return [task.result() for task in tasks]


def remembered(rounds: Sequence[Round]) -> tuple[RememberedRound, ...]:
    """Return rounds as judges are shown them: what was asked, in the order of the variants."""
    return tuple(
        RememberedRound(
            one.number,
            one.agreement,
            tuple(
                RememberedJudgment(said.language, said.verdict.correct, said.verdict.rationale)
                for said in one.verdicts
                if said.reply is not None
            ),
        )
        for one in rounds
    )


def own_language(item: Item) -> str:
    """Return an item's language.

    Raises
    ------
    DataError
        Where it names none.
    """
    if item.language is None:
        raise DataError(
            "the item names no language", item.name, "Give it a field 'language', such as en"
        )
    return item.language


def first_key(item: Item, language: str, sample: int) -> tuple[str, ...]:
    """Return the key of a verdict without memory; samples count from 0."""
    return (*item.labels, language, "round 0", f"sample {sample}")


async def _translate(item: Item, language: str, settings: Settings, ask: Ask) -> Variant:
    texts = {"task": item.prompt, "answer": item.response}
    reply = await ask(
        translate_call(
            texts,
            model=settings.model,
            language=language,
            key=(*item.labels, language, "translation"),
            instructions=settings.instructions,
            max_tokens=settings.max_tokens,
        )
    )
    found, reason = read_translation(reply, texts)
    if found is None:
        return Variant(language, None, None, reason, reply)
    return Variant(language, found["task"], found["answer"], None, reply)


async def _judge(
    item: Item,
    variant: Variant,
    variants: Sequence[Variant],
    memory: Sequence[RememberedRound],
    settings: Settings,
    ask: Ask,
) -> VariantVerdict:
    language = variant.language
    if variant.prompt is None or variant.response is None:
        missing = Verdict(None, False, f"not translated: {variant.reason}", None, False)
        return VariantVerdict(language, missing, None)
    if memory:
        # What a later round shows depends on the panel, so its calls are other calls.
        panel = "+".join(one.language for one in variants)
        key = (*item.labels, language, f"round {len(memory)}", panel)
    else:
        key = first_key(item, language, 0)
    reply = await ask(
        verdict_call(
            variant.prompt,
            variant.response,
            model=settings.model,
            rubric=settings.rubric,
            language=language if settings.instructions is None else settings.instructions,
            key=key,
            memory=memory,
            max_tokens=settings.max_tokens,
        )
    )
    return VariantVerdict(language, read_verdict(reply), reply)
