"""SEMJ's control flow against a scripted judge: rounds, memory, early stop, ties, failures."""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayesjudge.errors import DataError, UsageError
from bayesjudge.judges.baselines import (
    judge_once,
    reflect_alone,
    vote_over_languages,
    vote_over_samples,
)
from bayesjudge.judges.calls import Reply
from bayesjudge.judges.items import Item
from bayesjudge.judges.language_choice import CHOICES, choose_languages
from bayesjudge.judges.prompts import worded_languages
from bayesjudge.judges.semj import Settings, agreement, majority, reached, refine
from tests.scripted_judge import FAILS, Scripted

ITEM = Item("s1", "gpt", "What is 2 + 2?", "Four.", language="en")
FIVE = ("de", "fr", "hi", "zh")
SETTINGS = Settings("m", candidates=FIVE)


def run(script, item=ITEM, how=refine, translations=None, **changes):
    judge = Scripted(script, translations or {})
    return asyncio.run(how(item, replace(SETTINGS, **changes), judge)), judge


def everywhere(verdicts, own=None):
    script = {language: list(verdicts) for language in FIVE}
    return script | {"en": list(verdicts if own is None else own)}


# The paper's equation and defaults.


def test_the_defaults_are_the_papers():
    settings = Settings("m")
    assert (settings.others, settings.tau, settings.rounds, settings.choice) == (
        4,
        0.8,
        3,
        "random",
    )
    assert settings.candidates == worded_languages()


@pytest.mark.parametrize(
    ("positive", "n", "expected"),
    [(5, 5, 1), (0, 5, 1), (4, 5, 0.6), (1, 5, 0.6), (3, 5, 0.4), (2, 5, 0.4), (2, 4, 1 / 3),
     (3, 4, 0.5), (2, 2, 1), (1, 2, 0)],
)  # fmt: skip
def test_agreement_by_hand(positive, n, expected):
    assert agreement([True] * positive + [False] * (n - positive)) == expected


def test_five_verdicts_agree_by_three_values_so_the_default_asks_for_unanimity():
    values = {agreement(v) for v in itertools.product([True, False], repeat=5)}
    assert values == {1, 0.6, 0.4}
    assert [reached(v, 0.8) for v in (1, 0.6, 0.4)] == [True, False, False]
    # Of four verdicts, as if K counted the own language too, table 3's middle bucket is empty.
    four = {agreement(v) for v in itertools.product([True, False], repeat=4)}
    assert not [v for v in four if 0.5 < v <= 0.75]


@given(st.lists(st.sampled_from([True, False, None]), max_size=12), st.randoms())
def test_agreement_is_the_share_of_equal_pairs(verdicts, random):
    found = agreement(verdicts)
    pairs = list(itertools.combinations([v for v in verdicts if v is not None], 2))
    if not pairs:
        assert found is None
    else:
        assert found == sum(a == b for a, b in pairs) / len(pairs)
        assert found == agreement([None if v is None else not v for v in verdicts])
    random.shuffle(verdicts)
    assert agreement(verdicts) == found


@pytest.mark.parametrize(
    ("verdicts", "expected"),
    [
        ([True, True, False], True),
        ([False, True, False, None], False),
        ([True, False], True),
        ([False, True], False),
        ([None, True, False], None),
        ([None, True], True),
        ([None, None], None),
        ([], None),
    ],
)
def test_a_tie_is_decided_by_the_first_verdict(verdicts, expected):
    assert majority(verdicts) is expected


# Rounds, memory, early stop.


def test_verdicts_that_agree_end_it_after_the_first_judgment():
    result, judge = run(everywhere([True]))
    assert (len(judge.asked("translate")), len(judge.asked("judge")), len(judge.calls)) == (4, 5, 9)
    assert [one.agreement for one in result.rounds] == [1]
    assert result.agreed
    assert result.verdict is True
    assert result.languages[0] == "en"
    assert set(result.languages[1:]) == set(FIVE)
    assert result.n_invalid == 0


def test_every_variant_is_judged_in_its_translation_and_told_so_in_its_language():
    _, judge = run(everywhere([True]))
    by_language = {call.key[4]: call for call in judge.asked("judge")}
    assert "\nFour.\n" in by_language["en"].user
    assert "\n[de] Four.\n" in by_language["de"].user
    assert "Aufgabe:" in by_language["de"].user
    _, judge = run(everywhere([True]), instructions="en")
    assert all("Task:" in call.user for call in judge.asked("judge"))
    assert "into this language: Deutsch" in judge.asked("translate")[0].system or any(
        "into this language: Deutsch" in call.system for call in judge.asked("translate")
    )


def test_one_dissenter_is_shown_to_all_and_agreement_ends_it():
    script = everywhere([True]) | {"de": [False, True]}
    result, judge = run(script)
    assert [one.agreement for one in result.rounds] == [0.6, 1]
    assert len(judge.asked("reflect")) == 5
    assert len(judge.calls) == 4 + 5 + 5
    assert result.agreed
    for call in judge.asked("reflect"):
        assert "0.60" in call.user
        assert "de round 0 False" in call.user
        assert "en round 0 True" in call.user
        assert call.user.count("round 0") == 5


def test_memory_accumulates_round_by_round_up_to_s():
    script = everywhere([True]) | {"de": [False]}
    result, judge = run(script)
    assert [one.agreement for one in result.rounds] == [0.6] * 4
    assert not result.agreed
    assert len(judge.calls) == 4 + 5 * 4
    assert judge.peak == 5
    for number in range(1, 4):
        calls = [c for c in judge.asked("reflect") if c.key[5] == f"round {number}"]
        assert len(calls) == 5
        for call in calls:
            for earlier in range(number):
                assert call.user.count(f"round {earlier} ") == 5
            assert f"round {number} " not in call.user
    # Each variant keeps its own last verdict; no majority overrules it.
    assert dict(zip(result.languages, result.finals, strict=True))["de"] is False
    assert result.panel_verdict is True


def test_an_own_language_that_dissents_keeps_its_verdict():
    result, _ = run(everywhere([True], own=[False]))
    assert result.verdict is False
    assert result.panel_verdict is True


@pytest.mark.parametrize(("rounds", "calls"), [(0, 9), (1, 14), (2, 19), (5, 34)])
def test_s_counts_the_rounds_after_the_first_judgment(rounds, calls):
    result, judge = run(everywhere([True], own=[False]), rounds=rounds)
    assert len(result.rounds) == rounds + 1
    assert len(judge.calls) == calls


@pytest.mark.parametrize(("tau", "rounds"), [(0.6, 1), (0.61, 4), (0.0, 1), (2.0, 4)])
def test_judging_ends_at_an_agreement_of_at_least_tau(tau, rounds):
    result, _ = run(everywhere([True], own=[False]), tau=tau)
    assert len(result.rounds) == rounds


def test_above_one_no_agreement_ends_it():
    result, judge = run(everywhere([True]), tau=2.0)
    assert len(result.rounds) == 4
    assert not result.agreed
    assert len(judge.calls) == 24


def test_calls_have_keys_of_their_own_that_depend_on_the_panel_once_there_is_memory():
    _, judge = run(everywhere([True], own=[False]))
    keys = [call.key for call in judge.calls]
    assert len(set(keys)) == len(keys)
    _, smaller = run(everywhere([True], own=[False]), others=2)
    shared = {c.key for c in smaller.calls} & set(keys)
    # Translations and first verdicts are the same calls; with memory none is.
    assert shared == {c.key for c in smaller.calls if c.purpose != "reflect"}
    assert len(shared) == 5


# Ties and failures.


def test_an_even_panel_that_ties_goes_by_the_own_language():
    script = everywhere([True]) | {"de": [False], "fr": [False], "hi": [False]}
    result, _ = run(script, others=3, candidates=("de", "fr", "zh"), rounds=0)
    assert result.rounds[0].agreement == 1 / 3
    assert result.panel_verdict is result.verdict is True


def test_invalid_verdicts_are_no_votes_and_counted():
    script = everywhere([True]) | {"de": ["I cannot say."], "fr": ['{"correct": "perhaps"}']}
    result, judge = run(script)
    # Three valid verdicts agree: nothing to reconsider.
    assert result.rounds[0].agreement == 1
    assert len(result.rounds) == 1
    assert result.n_invalid == 2
    assert len(judge.calls) == 9
    reasons = {one.language: one.verdict.reason for one in result.rounds[0].verdicts}
    assert "no JSON object" in reasons["de"]
    assert "neither true nor false" in reasons["fr"]


def test_an_invalid_verdict_is_shown_as_missing_and_may_be_valid_later():
    script = everywhere([True]) | {"de": ["?", True], "fr": [False, True]}
    result, judge = run(script)
    assert [one.agreement for one in result.rounds] == [0.5, 1]
    english = next(c for c in judge.asked("reflect") if c.key[4] == "en")
    assert "Deutsch: no valid verdict" in english.user
    assert result.n_invalid == 1


def test_a_verdict_that_becomes_invalid_leaves_the_last_valid_one():
    result, _ = run(everywhere([False], own=[True, "nonsense"]))
    assert result.verdict is True
    assert result.rounds[1].verdicts[0].verdict.correct is None
    # The four that are left agree, so round 1 was the last.
    assert len(result.rounds) == 2


@pytest.mark.parametrize(
    "reply", [FAILS, Reply("Viel Glück"), Reply('{"task": "x", "answer": ""}')]
)
def test_a_language_whose_translation_always_fails_is_never_judged(reply):
    script = everywhere([True], own=[False])
    result, judge = run(script, translations={"de": reply})
    assert len(judge.asked("translate")) == 4
    assert len(judge.calls) == 4 + 4 * 4
    assert not [c for c in judge.calls if c.key[4] == "de" and c.purpose != "translate"]
    assert result.n_invalid == 4
    at = result.languages.index("de")
    assert result.finals[at] is None
    assert result.rounds[0].verdicts[at].verdict.reason.startswith("not translated: ")
    assert not any("Deutsch" in c.user for c in judge.asked("reflect"))


def test_a_language_whose_verdicts_always_fail_is_asked_again_each_round():
    script = everywhere([True], own=[False]) | {"de": [FAILS]}
    result, judge = run(script)
    assert len(judge.calls) == 4 + 5 * 4
    assert result.n_invalid == 4
    assert [one.agreement for one in result.rounds] == [0.5] * 4


def test_without_two_valid_verdicts_there_is_no_agreement_and_judging_goes_on():
    result, _ = run(everywhere([FAILS], own=[True]))
    assert [one.agreement for one in result.rounds] == [None] * 4
    assert result.verdict is True
    result, _ = run(everywhere([FAILS]))
    assert result.verdict is None
    assert result.panel_verdict is None
    assert result.n_invalid == 20


def test_a_reply_cut_off_in_its_reason_counts_and_is_flagged():
    cut = Reply('{"correct": true, "rationale": "It is r', stop_reason="max_tokens")
    result, _ = run(everywhere([True], own=[cut]))
    own = result.rounds[0].verdicts[0]
    assert own.verdict.truncated
    assert result.verdict is True


def test_an_item_without_language_is_refused():
    with pytest.raises(DataError, match="names no language"):
        run(everywhere([True]), item=replace(ITEM, language=None))
    with pytest.raises(DataError, match="names no language"):
        run(everywhere([True]), item=replace(ITEM, language=None), how=vote_over_samples)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"others": -1}, "cannot be"),
        ({"rounds": -1}, "cannot be"),
        ({"tau": float("nan")}, "agreement asked for"),
        ({"tau": -0.1}, "agreement asked for"),
        ({"choice": "whim"}, "no choice of languages"),
        ({"candidates": ("de", "sw")}, "no instructions in the language 'sw'"),
        ({"instructions": "sw"}, "no instructions in the language 'sw'"),
        ({"others": 5}, "cannot be chosen from 4"),
    ],
)
def test_settings_that_cannot_be_are_refused(changes, message):
    with pytest.raises(UsageError, match=message):
        run(everywhere([True]), **changes)


def test_languages_without_wording_are_judged_in_with_instructions_in_another():
    script = {one: [True] for one in ("qu", "sw", "ht")}
    item = replace(ITEM, language="qu")
    result, judge = run(script, item=item, candidates=("sw", "ht"), others=2, instructions="en")
    assert result.verdict is True
    assert any("language: Swahili." in c.system for c in judge.asked("translate"))


@pytest.mark.parametrize("how", [refine, vote_over_languages, vote_over_samples])
def test_an_error_is_raised_as_it_is_and_nothing_more_is_asked(how):
    asked, answered = [], []

    async def ask(call):
        asked.append(call)
        if call.purpose == "translate":
            return await Scripted({})(call)
        if len([c for c in asked if c.purpose != "translate"]) == 2:
            raise DataError("the purse is empty")
        await asyncio.sleep(0.01)
        answered.append(call)
        return Reply('{"correct": true}')

    async def judged():
        with pytest.raises(DataError, match="the purse is empty"):
            await how(ITEM, SETTINGS, ask)
        await asyncio.sleep(0.05)

    asyncio.run(judged())
    assert not answered


# Baselines.


def test_the_base_judge_is_one_call():
    result, judge = run(everywhere([True]), how=judge_once)
    assert (result.verdict, len(judge.calls), judge.calls[0].purpose) == (True, 1, "judge")


def test_the_multilingual_vote_is_k_translations_and_k_plus_one_verdicts():
    result, judge = run(everywhere([True], own=[False]), how=vote_over_languages)
    assert (len(judge.asked("translate")), len(judge.asked("judge")), len(judge.calls)) == (4, 5, 9)
    assert result.panel_verdict is True
    assert result.verdict is False


def test_the_monolingual_vote_is_k_plus_one_samples_of_one_language():
    script = {"en": [False, True, True, "?", False]}
    result, judge = run(script, how=vote_over_samples)
    assert len(judge.calls) == 5
    assert {call.key[4] for call in judge.calls} == {"en"}
    assert len({call.key for call in judge.calls}) == 5
    # Two against two: the first sample decides.
    assert result.verdict is False
    assert result.n_invalid == 1
    _, once = run(script, how=judge_once)
    assert once.calls[0] == judge.calls[0]
    three = asyncio.run(vote_over_samples(ITEM, SETTINGS, Scripted(script), 3))
    assert three.verdict is True
    with pytest.raises(UsageError, match="cannot be voted on"):
        asyncio.run(vote_over_samples(ITEM, SETTINGS, Scripted(script), 0))


def test_monolingual_reflection_shows_its_own_verdicts_and_takes_every_round():
    result, judge = run({"en": [False, True, True, True]}, how=reflect_alone)
    assert len(judge.calls) == 4
    assert not judge.asked("translate")
    last = judge.calls[-1].user
    assert [f"en round {n} {v}" in last for n, v in ((0, False), (1, True), (2, True))] == [
        True
    ] * 3
    assert "agreement" not in last
    assert result.verdict is True


@given(
    st.lists(
        st.lists(st.sampled_from([True, False, "?"]), min_size=4, max_size=4),
        min_size=5,
        max_size=5,
    ),
    st.integers(0, 3),
    st.sampled_from([0.4, 0.6, 0.8, 2.0]),
)
def test_calls_and_verdicts_follow_from_the_script(table, rounds, tau):
    script = dict(zip(("en", *FIVE), table, strict=True))
    result, judge = run(script, rounds=rounds, tau=tau)
    n = len(result.rounds)
    assert 1 <= n <= rounds + 1
    assert len(judge.calls) == 4 + 5 * n
    ended = [reached(one.agreement, tau) for one in result.rounds]
    assert not any(ended[:-1])
    assert ended[-1] or n == rounds + 1
    for language, final in zip(result.languages, result.finals, strict=True):
        valid = [v for v in script[language][:n] if v != "?"]
        assert final is (valid[-1] if valid else None)


# Which languages.


@pytest.mark.parametrize("choice", CHOICES)
def test_a_choice_has_k_others_and_begins_with_smaller_ones(choice):
    languages = worded_languages()
    for name in ("s1", "s2"):
        four = choose_languages("he", 4, languages, choice, seed=3, name=(name,))
        two = choose_languages("he", 2, languages, choice, seed=3, name=(name,))
        assert len(set(four.languages)) == 4
        assert "he" not in four.languages
        assert four.languages[:2] == two.languages


def test_choices_by_resource_and_family():
    languages = worded_languages()
    choose = lambda own, choice: choose_languages(own, 4, languages, choice)  # noqa: E731
    assert choose("fr", "high_resource").languages == ("en", "ru", "zh", "de")
    assert choose("ja", "high_resource").languages[0] == "en"
    assert choose("fr", "low_resource").languages == ("hi", "he", "ro", "el")
    germanic = choose("fr", "same_family")
    assert germanic.filled == 0
    assert not {"ar", "he", "id", "ja", "ko", "tr", "vi", "zh"} & set(germanic.languages)
    different = choose("fr", "different_family")
    assert set(different.languages) <= {"ar", "he", "id", "ja", "ko", "tr", "vi", "zh"}
    semitic = choose("ar", "same_family")
    assert semitic.languages[0] == "he"
    assert semitic.filled == 3
    assert choose("ja", "same_family").filled == 4


def test_random_languages_differ_by_item_and_seed_and_are_even():
    languages = worded_languages()
    first = [choose_languages("en", 4, languages, name=(f"s{i}",)) for i in range(1100)]
    assert first[:5] == [choose_languages("en", 4, languages, name=(f"s{i}",)) for i in range(5)]
    counts = [sum(one in c.languages for c in first) for one in languages if one != "en"]
    # 22 languages, each in 4 of 22 choices: sd of a count sqrt(1100 * 2/11 * 9/11) = 12.8.
    assert max(abs(c - 200) for c in counts) < 4 * 12.8
    assert choose_languages("en", 4, languages, seed=1, name=("s0",)) != first[0]


def test_choices_that_cannot_be_made_are_refused():
    with pytest.raises(UsageError, match="3 languages beside 'en' cannot be chosen from 2"):
        choose_languages("en", 3, ("en-GB", "de", "fr"))
    with pytest.raises(UsageError, match="family of the language 'xx' is not known"):
        choose_languages("en", 1, ("xx",), "same_family")
    assert choose_languages("en", 1, ("xx", "en"), "low_resource").languages == ("xx",)
    with pytest.raises(UsageError, match="no choice of languages"):
        choose_languages("en", 1, ("de",), "whim")
