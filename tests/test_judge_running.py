"""Asking: how many at once, what stops it, and a purse that is never overdrawn."""

from __future__ import annotations

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayesjudge.errors import DataError
from bayesjudge.judges.calls import Call, Reply
from bayesjudge.judges.costs import (
    ANSWER_TOKENS,
    Purse,
    PurseEmptyError,
    estimate,
    most_cost,
    tokens_of,
)
from bayesjudge.judges.items import Item
from bayesjudge.judges.ledger import Ledger
from bayesjudge.judges.panel import Judge, Price
from bayesjudge.judges.pointwise import Rubric, panel_schedule, pointwise
from bayesjudge.judges.records import (
    Record,
    negative_log_likelihood,
    record_fields,
    record_of,
    score_columns,
    tally,
)
from bayesjudge.judges.running import FAILURES_IN_ROW, Desk, judge_turns, recall_turns

GOOD = '{"score": 7, "rationale": "well"}'
PRICED = Judge("j1", "o/1", max_tokens=100, price=Price(1.0, 2.0))
FREE = Judge("j2", "o/2")
STRATEGY = pointwise(Rubric())


def items(n):
    return [Item(f"s{number}", "amber", "p", "r") for number in range(n)]


class Script:
    """A model that answers as it is told, and counts."""

    def __init__(self, answer=lambda _: Reply(GOOD, cost=0.01), seconds=0.0):
        self.answer, self.seconds = answer, seconds
        self.calls, self.now, self.peak = [], 0, 0

    async def __call__(self, call: Call) -> Reply:
        self.calls.append(call)
        self.now += 1
        self.peak = max(self.peak, self.now)
        try:
            await anyio.sleep(self.seconds)
            return self.answer(call)
        finally:
            self.now -= 1


def run(tmp_path, turns, asks, most=None, connections=4):
    async def main():
        with Ledger(tmp_path / "ledger.jsonl") as ledger:
            known = await recall_turns(turns, STRATEGY, ledger)
            desk = Desk(asks, ledger, Purse(most, ledger.spent), connections)
            got = await judge_turns(turns, STRATEGY, desk)
            await desk.wait()
            return known, got, desk

    return anyio.run(main)


def test_every_turn_is_asked_once_and_never_too_many_at_once(tmp_path):
    script = Script(seconds=0.001)
    turns = panel_schedule(items(10), [PRICED, FREE]).turns
    known, got, desk = run(tmp_path, turns, {"j1": script, "j2": script})
    assert known == [None] * 20
    assert [one.scores[0].judge for one in got] == [turn.judge.name for turn in turns]
    assert (len(script.calls), script.peak, desk.made) == (20, 4, 20)
    known, got_again, desk = run(tmp_path, turns, {"j1": script, "j2": script})
    assert known == got_again == got
    assert (len(script.calls), desk.made) == (20, 0)


def test_failed_calls_are_asked_again_and_answers_that_cannot_be_read_are_not(tmp_path):
    def answer(call):
        if call.key[0] == "s0":
            return Reply(None, error="gone")
        return Reply("I would rather not say." if call.key[0] == "s1" else GOOD)

    script = Script(answer)
    turns = panel_schedule(items(3), [FREE]).turns
    _, got, _ = run(tmp_path, turns, {"j2": script})
    failed, unread, good = (one.scores[0] for one in got)
    assert (failed.score, failed.failed, failed.parse_ok) == (None, True, False)
    assert "gone" in failed.reason
    assert (unread.score, unread.failed, unread.parse_ok) == (None, False, False)
    assert (good.score, good.reason, good.parse_ok) == (7.0, None, True)
    run(tmp_path, turns, {"j2": script})
    assert [call.key[0] for call in script.calls] == ["s0", "s1", "s2", "s0"]


def test_the_purse_stops_before_it_is_overdrawn_and_goes_on_with_more(tmp_path):
    turns = panel_schedule(items(10), [PRICED]).turns
    bound = 0.0005
    script = Script(lambda _: Reply(GOOD, cost=bound / 2), seconds=0.001)
    _, got, desk = run(tmp_path, turns, {"j1": script}, most=3 * bound)
    assert desk.stop is not None
    assert desk.stop.wished
    assert "--max-cost" in str(desk.stop.error)
    done = sum(one is not None for one in got)
    assert 1 <= done < 10
    with Ledger(tmp_path / "ledger.jsonl") as ledger:
        assert ledger.spent <= 3 * bound
    _, got, desk = run(tmp_path, turns, {"j1": script}, most=1.0)
    assert desk.stop is None
    assert all(one is not None for one in got)
    assert len(script.calls) == 10


def test_an_answer_of_unknown_cost_counts_as_the_most_it_can_cost(tmp_path):
    turns = panel_schedule(items(4), [PRICED]).turns
    script = Script(lambda _: Reply(GOOD, cost=None))
    _, got, desk = run(tmp_path, turns, {"j1": script}, most=0.0020, connections=1)
    assert 0 < sum(one is not None for one in got) < 4
    assert desk.stop is not None


def test_a_judge_that_only_fails_is_given_up_and_the_others_go_on(tmp_path):
    bad, good = Script(lambda _: Reply(None, error="503")), Script()
    turns = panel_schedule(items(FAILURES_IN_ROW + 30), [PRICED, FREE]).turns
    _, got, desk = run(tmp_path, turns, {"j1": bad, "j2": good})
    assert desk.given_up == {"j1": "503"}
    assert FAILURES_IN_ROW <= len(bad.calls) <= FAILURES_IN_ROW + 4
    assert len(good.calls) == FAILURES_IN_ROW + 30
    assert sum(one is None for one in got) == len(turns) - len(bad.calls) - len(good.calls)


def test_an_error_that_no_call_can_pass_stops_the_run(tmp_path):
    def refuse(call):
        raise DataError("the key is refused")

    script = Script(refuse)
    _, got, desk = run(tmp_path, panel_schedule(items(9), [FREE]).turns, {"j2": script})
    assert got == [None] * 9
    assert len(script.calls) <= 4
    assert desk.stop is not None
    assert not desk.stop.wished


def test_repeats_are_calls_of_their_own(tmp_path):
    script = Script()
    turns = panel_schedule(items(2), [FREE], repeats=3).turns
    _, got, _ = run(tmp_path, turns, {"j2": script})
    assert len(script.calls) == len({call.key for call in script.calls}) == 6
    assert [one.scores[0].call for one in got] == [1, 2, 3, 1, 2, 3]


costs = st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=12)


@settings(max_examples=50)
@given(costs=costs, most=st.floats(0, 3), spent=st.floats(0, 1))
def test_a_purse_is_never_overdrawn(costs, most, spent):
    async def main():
        purse = Purse(most, spent)

        async def pay(bound, share):
            try:
                await purse.reserve(bound)
            except PurseEmptyError:
                return
            await anyio.lowlevel.checkpoint()
            await purse.settle(bound, bound * share)
            assert purse.spent <= max(most, spent) + 1e-9

        async with anyio.create_task_group() as group:
            for bound, share in costs:
                group.start_soon(pay, bound, share)

    anyio.run(main)


def test_costs_are_estimated_and_bounded():
    call = Call("o/1", "a" * 8, "日本", "judge", ("k",), max_tokens=50)
    assert tokens_of("a" * 8 + "b") == 3
    assert tokens_of("日本a") == 3
    found = estimate([call, call], PRICED)
    assert (found.calls, found.input_tokens, found.output_tokens) == (2, 2 * 4, 2 * 50)
    assert found.cost == pytest.approx(2 * (4 + 2 * 50) / 1e6)
    assert found.most_cost == pytest.approx(2 * most_cost(call, PRICED))
    assert most_cost(call, PRICED) >= (8 + 6 + 2 * 50) / 1e6
    assert most_cost(call, FREE) == 0.0
    free = estimate([Call("o/2", "", "", "judge", ("k",))], FREE)
    assert (free.cost, free.most_cost, free.output_tokens) == (None, None, ANSWER_TOKENS)
    assert free.most_output_tokens == FREE.max_tokens


@given(text=st.text())
def test_no_estimate_of_tokens_is_above_the_bytes(text):
    assert tokens_of(text) <= len(text.encode("utf-8", "replace")) or not text


@given(logprobs=st.lists(st.floats(-50, 0), min_size=1))
def test_negative_log_likelihood_is_minus_the_sum_and_the_mean(logprobs):
    total, mean = negative_log_likelihood(logprobs)
    assert total == pytest.approx(-sum(logprobs))
    assert mean == pytest.approx(total / len(logprobs))


def test_log_probabilities_that_are_not_there_or_not_finite_have_no_likelihood():
    for given_ in (None, [], [float("-inf")], [float("nan")]):
        assert negative_log_likelihood(given_) == (None, None)


def record(score, reason=None, **more) -> Record:
    item = Item("s", "amber", "p", "r", **more)
    reply = Reply(GOOD, input_tokens=5, output_tokens=2, seconds=2.0, cost=0.5)
    return record_of(item, FREE, "en", 1, reply, score, reason, "why", False)


def test_the_score_table_has_what_there_is_and_missing_scores_with_their_reason():
    columns = score_columns([record(7.0), record(None, "no number")])
    assert columns == {
        "scenario": ["s", "s"], "backbone": ["amber", "amber"], "judge": ["j2", "j2"],
        "score": [7.0, None], "failure": [None, "no number"],
    }  # fmt: skip
    more = score_columns([record(1.0, generation="1", language="de", facets=(("turn", "2"),))])
    assert list(more) == [
        "scenario", "generation", "backbone", "judge", "language", "turn", "score",
    ]  # fmt: skip
    assert record_fields(record(1.0, facets=(("turn", "2"),)))["facets"] == {"turn": "2"}


def test_a_tally_counts():
    rows = [record(7.0), record(8.0), record(None, "no number"), record(None, "no number")]
    found = tally(rows, rows)
    assert (found.calls, found.scores, found.missing, found.failed) == (4, 2, 2, 0)
    assert (found.input_tokens, found.output_tokens, found.cost) == (20, 8, 2.0)
    assert (found.mean, found.seconds, found.reasons) == (7.5, 2.0, {"no number": 2})
    empty = tally([], [])
    assert (empty.mean, empty.cost, empty.seconds) == (None, None, 0.0)
