"""What calls cost, before they are made and at most; and a purse that is not overdrawn.

Tokens are counted by the provider afterwards. Before, they are estimated from the text, and
bounded by its bytes: no tokenizer makes more tokens of a text than it has bytes.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass

import anyio

from bayesjudge.errors import BayesjudgeError
from bayesjudge.judges.calls import Call, Reply
from bayesjudge.judges.panel import Judge

ANSWER_TOKENS = 120
"""An answer is assumed to have so many tokens, where it may have more: a score and a reason."""

_TEMPLATE = 64
"""Tokens that a provider puts about the messages, at most."""

_LETTERS_A_TOKEN = 4


@dataclass(frozen=True)
class Estimate:
    """What calls of one judge take.

    Attributes
    ----------
    calls : int
    input_tokens, output_tokens : int
        About so many.
    most_output_tokens : int
        At most so many.
    cost, most_cost : float or None
        About, and at most; None where the judge has no price.
    """

    calls: int
    input_tokens: int
    output_tokens: int
    most_output_tokens: int
    cost: float | None
    most_cost: float | None


def tokens_of(text: str) -> int:
    """Return about how many tokens a text has: four ASCII characters each, others one each."""
    ascii_letters = sum(letter.isascii() for letter in text)
    return math.ceil(ascii_letters / _LETTERS_A_TOKEN) + len(text) - ascii_letters


def most_cost(call: Call, judge: Judge) -> float:
    """Return what one call costs at most; 0 where the judge has no price.

    Failed attempts that the provider charges for are not in it.
    """
    if judge.price is None:
        return 0.0
    sent = len((call.system + call.user).encode("utf-8", "replace"))
    return judge.price.of(sent + _TEMPLATE, _most_tokens(call, judge))


class Pretence:
    """An ``Ask`` that reaches no one and keeps what it was asked.

    Translations come back as they were sent; verdicts differ from one to the next, so that
    judges who go on until they agree go on as long as they may.
    """

    def __init__(self) -> None:
        self.calls: list[Call] = []

    async def __call__(self, call: Call) -> Reply:
        """Return an answer of usual length to any call."""
        self.calls.append(call)
        if call.purpose == "translate":
            return Reply(call.user)
        correct = len(self.calls) % 2 == 0
        said = {"score": 0, "correct": correct, "rationale": "why " * ANSWER_TOKENS}
        return Reply(json.dumps(said))


def estimate(calls: Iterable[Call], judge: Judge) -> Estimate:
    """Estimate what calls of one judge take, without making one."""
    made = list(calls)
    sent = sum(tokens_of(call.system) + tokens_of(call.user) for call in made)
    most = [_most_tokens(call, judge) for call in made]
    about = sum(min(ANSWER_TOKENS, tokens) for tokens in most)
    price = judge.price
    return Estimate(
        calls=len(made),
        input_tokens=sent,
        output_tokens=about,
        most_output_tokens=sum(most),
        cost=None if price is None else price.of(sent, about),
        most_cost=None if price is None else math.fsum(most_cost(call, judge) for call in made),
    )


def _most_tokens(call: Call, judge: Judge) -> int:
    return judge.max_tokens if call.max_tokens is None else call.max_tokens


class PurseEmptyError(BayesjudgeError):
    """The next call could take the cost above what was allowed."""


class Purse:
    """Money for calls: each is admitted only if it cannot overdraw, calls in flight counted.

    Parameters
    ----------
    most : float or None
        What all calls together may cost; None admits all.
    spent : float
        What was spent before.
    """

    def __init__(self, most: float | None, spent: float = 0.0) -> None:
        self.most = most
        self.spent = spent
        self._reserved: list[float] = []
        self._changed = anyio.Condition()

    async def reserve(self, cost: float) -> None:
        """Set money aside for a call, waiting for calls in flight where that may help.

        Raises
        ------
        PurseEmptyError
            Where nothing is in flight and the call could still cost too much.
        """
        if self.most is None:
            return
        async with self._changed:
            while self.spent + math.fsum(self._reserved) + cost > self.most:
                if not self._reserved:
                    raise PurseEmptyError(
                        f"the next call may cost {cost:.4g}, and {self.spent:.4g} of "
                        f"{self.most:.4g} are spent",
                        "--max-cost",
                        "Run again with --resume and a higher --max-cost",
                    )
                await self._changed.wait()
            self._reserved.append(cost)

    async def settle(self, reserved: float, cost: float | None) -> None:
        """Give back what was set aside, and pay what the call did cost."""
        self.spent += cost or 0.0
        if self.most is None:
            return
        async with self._changed:
            self._reserved.remove(reserved)
            self._changed.notify_all()
