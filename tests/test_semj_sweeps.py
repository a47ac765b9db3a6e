"""Sweeps: what a recorded run replays is what a run would have been."""

from __future__ import annotations

import asyncio
import math
from dataclasses import replace

import numpy as np
import pytest

from bayesjudge.errors import DataError, UsageError
from bayesjudge.judges.baselines import judge_once, reflect_alone, vote_over_samples
from bayesjudge.judges.calls import Call, Reply
from bayesjudge.judges.items import Item
from bayesjudge.judges.semj import Settings, refine
from bayesjudge.judges.semj_simulator import SimulatedJudge, shown_last
from bayesjudge.judges.sweeps import (
    asked_once,
    bucketed,
    item_codes,
    own_verdicts,
    panel_verdicts,
    parallel_verdicts,
    replay,
    sweep_others,
    sweep_rounds,
    sweep_tau,
)

LANGUAGES = ("en", "tr", "he")
TRUTH = {f"s{n}": n % 2 == 0 for n in range(12)}
ITEMS = [
    Item(s, "options", f"Task {s}", "An answer.", language=one) for s in TRUTH for one in LANGUAGES
]
RIGHT = np.array([TRUTH[item.scenario] for item in ITEMS])
JUDGE = SimulatedJudge(TRUTH, unread=0.05, untranslated=0.05)
SETTINGS = Settings("simulated", others=3, tau=2.0, rounds=3)


async def run(settings, items=ITEMS, judge=JUDGE):
    return [await refine(item, settings, judge) for item in items]


RECORDED = asyncio.run(run(SETTINGS))


@pytest.mark.parametrize(("tau", "rounds"), [(0.5, 1), (0.8, 3), (0.8, 0), (2.0, 2)])
def test_a_replay_is_the_run_it_stands_for(tau, rounds):
    made = asyncio.run(run(replace(SETTINGS, tau=tau, rounds=rounds)))
    assert [replay(one, tau, rounds) for one in RECORDED] == made


def test_a_run_that_ended_early_replays_nothing_beyond():
    short = asyncio.run(run(replace(SETTINGS, tau=0.5), ITEMS[:6]))
    ended = next(one for one in short if one.agreed)
    assert replay(ended, 0.5, 3) == ended
    assert replay(ended, 0.3, 3).agreed
    with pytest.raises(DataError, match="ended after 0 rounds of reconsidering"):
        replay(ended, 1.5, 3)


def test_sweeps_over_s_and_tau():
    by_rounds = sweep_rounds(RECORDED, RIGHT, (0, 1, 3), 0.8)
    assert [point.setting for point in by_rounds] == [0, 1, 3]
    assert by_rounds[0].rounds == 0
    assert by_rounds[0].accuracy.value == np.mean(own_verdicts(asyncio.run(base())) == RIGHT)
    by_tau = sweep_tau(RECORDED, RIGHT, (0.3, 0.8, 2.0), 3)
    spent = [point.rounds for point in by_tau]
    assert spent == sorted(spent)
    assert spent[-1] == 3
    # The same setting reached from both sides.
    assert replace(by_tau[1], setting=3.0) == by_rounds[2]
    assert by_rounds[2].n_invalid == sum(replay(one, 0.8, 3).n_invalid for one in RECORDED) > 0


async def base():
    return [await judge_once(item, SETTINGS, JUDGE) for item in ITEMS]


def test_a_sweep_over_k_asks_each_call_once():
    asked: list[Call] = []

    async def counted(call: Call) -> Reply:
        asked.append(call)
        return await JUDGE(call)

    points = asyncio.run(
        sweep_others(ITEMS[:6], replace(SETTINGS, tau=0.8), (0, 2, 4), RIGHT[:6], counted)
    )
    assert [point.setting for point in points] == [0, 2, 4]
    assert len(asked) == len({(call.key, call.user) for call in asked})
    translations = [call for call in asked if call.purpose == "translate"]
    assert len(translations) == 6 * 4
    # Own verdicts and those in four others, though three panels wanted them.
    assert sum(call.purpose == "judge" for call in asked) <= 6 * 5


def test_kappa_is_over_own_languages_or_else_over_variants():
    table = parallel_verdicts(ITEMS, own_verdicts(RECORDED))
    assert table.shape == (12, 3)
    assert np.array_equal(item_codes(ITEMS), np.repeat(np.arange(12), 3))
    assert sweep_rounds(RECORDED, RIGHT, (3,), 2.0)[0].kappa.n_items == 12
    english = [one for one in RECORDED if one.item.language == "en"]
    alone = sweep_rounds(english, RIGHT[::3], (0,), 2.0)[0]
    assert alone.kappa.n_items == 12
    some = parallel_verdicts(ITEMS[:-1], own_verdicts(RECORDED[:-1]))
    assert math.isnan(some[-1, -1])


def test_panels_vote():
    votes = panel_verdicts(RECORDED)
    assert [None if math.isnan(v) else bool(v) for v in votes] == [
        one.panel_verdict for one in RECORDED
    ]


def test_buckets_need_items_that_were_reconsidered():
    assert sum(bucket.n + bucket.n_missing for bucket in bucketed(RECORDED, RIGHT)) == 36 * 4
    with pytest.raises(DataError, match="no item was reconsidered"):
        bucketed(asyncio.run(run(replace(SETTINGS, rounds=0), ITEMS[:2])), RIGHT[:2])


def test_asking_once_keeps_calls_of_one_key_and_other_words_apart():
    seen = []

    async def ask(call: Call) -> Reply:
        seen.append(call)
        return Reply(str(len(seen)))

    once = asked_once(ask)
    call = Call("m", "s", "u", "judge", ("k",))
    texts = [asyncio.run(once(c)).text for c in (call, call, replace(call, user="v"))]
    assert texts == ["1", "1", "2"]


# The simulated judge.


def test_the_simulator_answers_the_same_in_any_order():
    backwards = asyncio.run(run(SETTINGS, ITEMS[::-1]))
    assert backwards[::-1] == RECORDED
    other = asyncio.run(run(SETTINGS, ITEMS[:6], replace(JUDGE, seed=1)))
    assert other != RECORDED[:6]


def test_the_simulator_reads_the_memory_it_is_shown():
    certain = SimulatedJudge(TRUTH, repairs=1.0, spoils=0.0, rethinks=0.0)
    for result in asyncio.run(run(SETTINGS, judge=certain)):
        first, second = (
            [said.verdict.correct for said in one.verdicts] for one in result.rounds[:2]
        )
        truth = TRUTH[result.item.scenario]
        # Whoever sees a right verdict beside a wrong one turns right; no other verdict moves.
        assert second == ([truth] * 4 if truth in first else first)


def test_the_simulator_draws_again_what_nobody_contradicts():
    restless = SimulatedJudge(TRUTH, rethinks=1.0, noise=3.0)
    stubborn = replace(restless, rethinks=0.0)
    for judge, moved in ((restless, True), (stubborn, False)):
        results = [asyncio.run(reflect_alone(item, SETTINGS, judge)) for item in ITEMS]
        kinds = [{r.verdicts[0].verdict.correct for r in one.rounds} for one in results]
        assert (max(map(len, kinds)) == 2) is moved


def test_samples_differ_by_noise_alone():
    silent = SimulatedJudge(TRUTH, noise=0.0)
    for item in ITEMS[:12]:
        found = asyncio.run(vote_over_samples(item, SETTINGS, silent))
        assert len({one.verdict.correct for one in found.verdicts}) == 1


def test_planted_accuracy_and_leniency_are_found():
    truth = {f"s{n}": n % 2 == 0 for n in range(800)}
    judge = SimulatedJudge(truth, skill=0.5, resource=0.0, noise=0.0, leniency={"he": 0.8})

    async def shares(language):
        items = [Item(s, "o", "p", "r", language=language) for s in truth]
        results = [await judge_once(item, SETTINGS, judge) for item in items]
        verdicts = own_verdicts(results)
        right = np.array(list(truth.values()))
        return np.mean(verdicts == right), np.mean(verdicts)

    # Phi(0.5) = 0.691; called correct: half. Errors sqrt(.25/800) = 0.018; four of them.
    assert asyncio.run(shares("en")) == (
        pytest.approx(0.691, abs=0.07),
        pytest.approx(0.5, abs=0.07),
    )
    # Leniency 0.8: (Phi(1.3) + 1 - Phi(-0.3)) / 2 = (0.903 + 0.618) / 2 are called correct.
    # A right answer: y m + 0.8 > 0 has Phi(1.3); a wrong one: -m + 0.8 > 0 has Phi(0.3).
    assert asyncio.run(shares("he"))[1] == pytest.approx((0.903 + 0.618) / 2, abs=0.07)


def test_memory_is_read_back_from_any_language():
    text = "\n".join(
        [
            "* Round 1",
            "  - English: correct — yes",
            "* Runde 2; Übereinstimmung zwischen den Sprachen: 0.60",
            "  - English: richtig — weil: es stimmt",
            "  - עברית: falsch",
            "  - Deutsch: kein gültiges Urteil",
        ]
    )
    assert shown_last(text) == {"English": True, "עברית": False}


def test_assumptions_name_every_number():
    judge = SimulatedJudge(TRUTH, leniency={"he": 0.3, "it": -0.2}, unread=0.02)
    text = "\n".join(judge.assumptions())
    for part in ("0.45", "75 %", "0.35", "0.15", "0.06", "0.2", "he +0.3, it -0.2", "2 %"):
        assert part in text
    assert "No language model was asked" in text


@pytest.mark.parametrize("changes", [{"shared": 1.5}, {"repairs": -0.1}, {"noise": -1.0}])
def test_a_judge_that_cannot_be_is_refused(changes):
    with pytest.raises(UsageError):
        SimulatedJudge(TRUTH, **changes)
