"""What judges are told: every language whole, with its placeholders, scale and format."""

from __future__ import annotations

import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayesjudge.auditing.languages import find_language
from bayesjudge.errors import UsageError
from bayesjudge.judges import prompts
from bayesjudge.judges.prompts import (
    KEYS,
    RememberedJudgment,
    RememberedRound,
    pointwise_call,
    read_wording,
    recollection,
    translate_call,
    verdict_call,
    worded_languages,
)
from bayesjudge.text import visible

# The languages of the language-bias paper's table 3, with their scripts.
SCRIPTS = {
    "ar": "ARABIC", "cs": "LATIN", "de": "LATIN", "el": "GREEK", "en": "LATIN", "es": "LATIN",
    "fa": "ARABIC", "fr": "LATIN", "he": "HEBREW", "hi": "DEVANAGARI", "id": "LATIN",
    "it": "LATIN", "ja": ("CJK", "HIRAGANA", "KATAKANA"), "ko": "HANGUL", "nl": "LATIN",
    "pl": "LATIN", "pt": "LATIN", "ro": "LATIN", "ru": "CYRILLIC", "tr": "LATIN",
    "uk": "CYRILLIC", "vi": "LATIN", "zh": "CJK",
}  # fmt: skip
LANGUAGES = sorted(SCRIPTS)
RIGHT_TO_LEFT = ["ar", "fa", "he"]
# Words of English that stand in every wording: JSON, its keys and its values.
ENGLISH = {"JSON", "score", "correct", "rationale", "true", "false"}


def letters(text):
    return [c for c in text if unicodedata.category(c)[0] == "L"]


def told(language, **changes):
    settings = {"model": "m", "rubric": None, "scale": (1, 5), "key": ("s1",)} | changes
    return pointwise_call("What is 2 + 2?", "Four.", language=language, **settings)


def test_the_languages_are_the_papers():
    assert list(worded_languages()) == LANGUAGES


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_language_says_everything_with_the_placeholders_of_english(language):
    source, wording = read_wording("en"), read_wording(language)
    assert tuple(wording.text) == KEYS
    assert tuple(wording.back_translation) == KEYS
    for key in KEYS:
        expected = prompts.placeholders(source.text[key])
        assert prompts.placeholders(wording.text[key]) == expected, key
        assert prompts.placeholders(wording.back_translation[key]) == expected, key
        assert wording.text[key] == wording.text[key].strip() != ""


@pytest.mark.parametrize("language", [one for one in LANGUAGES if one != "en"])
def test_every_language_is_its_own_and_its_back_translation_is_english(language):
    wording, source = read_wording(language), read_wording("en")
    for key in KEYS:
        assert wording.back_translation[key].isascii(), key
    different = [key for key in KEYS if wording.text[key] != source.text[key]]
    # Short labels can be the same word; sentences cannot.
    assert {"role", "standard", "output", "score", "verdict", "rationale", "reconsider",
            "translate"} <= set(different)  # fmt: skip


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_language_is_written_in_its_script(language):
    scripts = SCRIPTS[language]
    wording = read_wording(language)
    for key in KEYS:
        text = wording.text[key]
        for name in prompts.placeholders(text):
            text = text.replace(f"{{{name}}}", "")
        for word in ENGLISH:
            text = text.replace(word, "")
        wrong = [c for c in letters(text) if not unicodedata.name(c).startswith(scripts)]
        # Arabic numerals and marks apart, no letter of another script.
        assert not wrong, (key, wrong)


@pytest.mark.parametrize("language", LANGUAGES)
def test_nothing_hidden_stands_in_a_wording(language):
    wording = read_wording(language)
    for key in KEYS:
        assert visible(wording.text[key]) == wording.text[key], key
        assert unicodedata.normalize("NFC", wording.text[key]) == wording.text[key], key


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("scale", [(1, 5), (0, 10), (1, 100)])
def test_scale_and_format_are_in_every_languages_instructions(language, scale):
    call = told(language, scale=scale)
    lowest, highest = scale
    wording = read_wording(language)
    assert wording.text["score"].format(lowest=lowest, highest=highest) in call.system
    assert wording.text["rationale"] in call.system
    shown = " | ".join(map(str, range(lowest, highest + 1))) if highest <= 10 else "1…100"
    assert f'{{"score": {shown}, "rationale": "…"}}' in call.system
    assert "{" not in call.system.replace(f'{{"score": {shown}', "")
    assert call.schema["properties"]["score"]["enum"] == list(range(lowest, highest + 1))
    assert list(call.schema["properties"]) == ["score", "rationale"]
    assert call.purpose == "judge"
    assert "What is 2 + 2?" in call.user
    assert "Four." in call.user


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_form_of_a_verdict_is_in_every_languages_instructions(language):
    call = verdict_call("t", "a", model="m", rubric=None, language=language, key=("s",))
    assert read_wording(language).text["verdict"] in call.system
    assert '{"correct": true | false, "rationale": "…"}' in call.system
    assert list(call.schema["properties"]) == ["correct", "rationale"]
    assert call.schema["properties"]["correct"] == {"type": "boolean"}
    assert (call.purpose, call.key) == ("judge", ("s",))


@pytest.mark.parametrize("language", RIGHT_TO_LEFT)
def test_right_to_left_calls_come_whole_through_json(language):
    call = told(language, rubric="دقّة ושלמות — accuracy 100 %")
    for text in (call.system, call.user):
        assert json.loads(json.dumps(text, ensure_ascii=False)) == text
        assert text.encode().decode() == text
        assert not [c for c in text if unicodedata.bidirectional(c) in {"LRE", "RLE", "LRO", "RLO"}]
    assert "دقّة ושלמות — accuracy 100 %" in call.system
    direction = [unicodedata.bidirectional(c) for c in read_wording(language).text["role"]]
    assert sum(d in {"R", "AL"} for d in direction) > 0.6 * len(direction)


def test_a_rubric_takes_the_place_of_the_standard():
    standard = read_wording("de").text["standard"]
    assert standard in told("de").system
    own = told("de", rubric="Only {this} counts.").system
    assert "Only {this} counts." in own
    assert standard not in own


@given(st.text(max_size=40), st.text(alphabet="~x\n", max_size=40))
def test_material_is_whole_and_inside_fences_that_it_does_not_hold(item, answer):
    user = pointwise_call(
        item, answer, model="m", rubric=None, scale=(1, 2), language="en", key=("k",)
    ).user
    for text in (item, answer):
        fence = "~~~~"
        while fence in text:
            fence += "~"
        assert f"\n{fence}\n{text}\n{fence}" in user


def test_memory_is_told_round_by_round_with_agreement_verdicts_and_reasons():
    memory = (
        RememberedRound(
            0,
            0.6,
            (
                RememberedJudgment("en", True, "It is\n  right."),
                RememberedJudgment("he", False, "לא נכון"),
                RememberedJudgment("sw", None, None),
            ),
        ),
        RememberedRound(1, None, (RememberedJudgment("en", False, ""),)),
    )
    text = recollection(memory, "en")
    assert text.splitlines() == [
        "Earlier judgments of the same answer:",
        "* Round 1; agreement between languages: 0.60",
        "  - English: correct — It is right.",
        "  - עברית: incorrect — לא נכון",
        "  - Swahili: no valid verdict",
        "* Round 2",
        "  - English: incorrect",
    ]
    call = verdict_call("t", "a", model="m", rubric=None, language="en", key=("k",), memory=memory)
    assert call.purpose == "reflect"
    assert text in call.user
    assert call.user.endswith(read_wording("en").text["reconsider"])


@pytest.mark.parametrize("language", LANGUAGES)
def test_memory_is_told_in_every_language(language):
    memory = (RememberedRound(0, 0.4, (RememberedJudgment("fr", True, "raison"),)),)
    text, words = recollection(memory, language), read_wording(language).text
    assert text.startswith(words["earlier"])
    assert words["round"].format(round=1) in text
    assert words["agreement"].format(agreement="0.40") in text
    assert f"français: {words['correct']} — raison" in text


def test_translation_goes_out_as_one_object_and_asks_for_the_same_keys():
    texts = {"task": 'Say "hi"', "answer": "שלום"}
    call = translate_call(texts, model="m", language="fa", key=("s", "fa", "translation"))
    assert json.loads(call.user) == texts
    assert "שלום" in call.user
    assert call.system == read_wording("fa").text["translate"].format(language="فارسی")
    assert call.schema["required"] == ["task", "answer"]
    assert call.purpose == "translate"
    english = translate_call(texts, model="m", language="sw", key=("s",), instructions="en")
    assert "into this language: Swahili." in english.system


def test_a_language_is_found_by_code_region_or_name():
    for label in ("pt", "pt-BR", "por", "Portuguese"):
        assert read_wording(label).code == "pt"
    assert prompts.language_name("zh_Hans") == "中文"
    assert prompts.language_name("Klingon") == "Klingon"


def test_a_language_without_wording_is_refused():
    with pytest.raises(UsageError, match=r"no instructions in the language 'sw'.*ar, cs, de"):
        told("sw")


@pytest.mark.parametrize(
    ("scale", "message"), [((5, 1), "no two scores"), ((1, 1), "no two"), ((0, 5000), "more than")]
)
def test_a_scale_that_cannot_be_listed_is_refused(scale, message):
    with pytest.raises(UsageError, match=message):
        told("en", scale=scale)


def test_families_and_classes_of_the_worded_languages_are_known():
    known = [find_language(one) for one in LANGUAGES]
    assert all(one.resource_class and one.family and one.web_share for one in known)
