"""Asking a schedule's calls: at most so many at once, none twice, none beyond the purse.

It knows no provider: whatever reaches models is handed in as an ``Ask`` a judge.
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import anyio

from bayesjudge.errors import BayesjudgeError
from bayesjudge.judges.calls import Ask, Call, Reply
from bayesjudge.judges.costs import Purse, PurseEmptyError, most_cost
from bayesjudge.judges.ledger import Ledger, call_digest
from bayesjudge.judges.panel import Judge
from bayesjudge.judges.pointwise import Turn
from bayesjudge.judges.records import Judged

type Strategy = Callable[[Turn, Ask], Awaitable[Judged]]
"""What one judge does with one answer: the calls it makes, and what comes of it."""

FAILURES_IN_ROW = 20
"""A judge whose calls fail so often without one success is asked no more."""


class NotAskedError(Exception):
    """A call that is not made: the run has been stopped, or only looks up what is known."""


@dataclass(frozen=True)
class Stop:
    """Why calls were not made: what is wrong, and whether it is an error or was wished."""

    error: BayesjudgeError
    wished: bool = False


class Desk:
    """Where judges are asked: what is known is looked up, what is new is written down.

    Parameters
    ----------
    asks : mapping of str to Ask
        By the judge's name; without one, a judge is only looked up.
    ledger : Ledger
    purse : Purse
    connections : int
        Calls in flight at once, all judges together.
    """

    def __init__(
        self, asks: Mapping[str, Ask], ledger: Ledger, purse: Purse, connections: int
    ) -> None:
        self.made = 0
        self.stop: Stop | None = None
        self.given_up: dict[str, str] = {}
        self._asks = dict(asks)
        self._ledger = ledger
        self._purse = purse
        self._connections = connections
        self._slots = anyio.Semaphore(connections)
        self._failures: dict[str, int] = {}

    def ask(self, judge: Judge) -> Ask:
        """Return how a judge is asked here.

        Raises, when it is called, `NotAskedError` for a call that is not made.
        """

        async def asked(call: Call) -> Reply:
            digest = call_digest(call, judge)
            known = self._ledger.find(digest)
            if known is not None:
                return known
            if judge.name not in self._asks:
                raise NotAskedError
            async with self._slots:
                return await self._make(call, judge, digest)

        return asked

    async def wait(self) -> None:
        """Return once no call is in flight: what was asked for is on disk."""
        for _ in range(self._connections):
            await self._slots.acquire()
        for _ in range(self._connections):
            self._slots.release()

    async def _make(self, call: Call, judge: Judge, digest: str) -> Reply:
        if self.stop is not None or judge.name in self.given_up:
            raise NotAskedError
        bound = most_cost(call, judge)
        cost: float | None = bound
        with self._stopping():
            await self._purse.reserve(bound)
            try:
                reply = await self._asks[judge.name](call)
                cost = reply.cost if reply.error is None else reply.cost or 0.0
                self._ledger.append(digest, call, judge, reply)
            finally:
                # An answer whose cost is not known counts as what it may cost at most.
                await self._purse.settle(bound, bound if cost is None else cost)
        self.made += 1
        self._watch(judge, reply)
        return reply

    @contextlib.contextmanager
    def _stopping(self) -> Iterator[None]:
        try:
            yield
        except BayesjudgeError as error:
            self.stop = self.stop or Stop(error, wished=isinstance(error, PurseEmptyError))
            raise NotAskedError from error

    def _watch(self, judge: Judge, reply: Reply) -> None:
        if reply.error is None:
            self._failures[judge.name] = 0
            return
        self._failures[judge.name] = self._failures.get(judge.name, 0) + 1
        if self._failures[judge.name] >= FAILURES_IN_ROW:
            self.given_up[judge.name] = reply.error


async def judge_turns(turns: Sequence[Turn], strategy: Strategy, desk: Desk) -> list[Judged | None]:
    """Take turns at once, as far as the desk has room.

    Returns
    -------
    list
        What came of each turn, in order; None for a turn of which a call was not made.

    Raises
    ------
    BayesjudgeError
        Of a strategy that cannot ask, the first where there are several.
    """
    found: list[Judged | None] = [None] * len(turns)
    errors: list[BayesjudgeError] = []

    async def take(at: int, turn: Turn) -> None:
        try:
            found[at] = await strategy(turn, desk.ask(turn.judge))
        except NotAskedError:
            return
        except BayesjudgeError as error:
            errors.append(error)

    async with anyio.create_task_group() as group:
        for at, turn in enumerate(turns):
            group.start_soon(take, at, turn)
    if errors:
        raise errors[0]
    return found


async def recall_turns(
    turns: Sequence[Turn], strategy: Strategy, ledger: Ledger
) -> list[Judged | None]:
    """Return the records of turns whose every call is in the ledger; None for others."""
    return await judge_turns(turns, strategy, Desk({}, ledger, Purse(None), 1))
