"""Answers, panels and assignments: what is read, and what is refused with its line."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayesjudge.errors import BayesjudgeError, DataError, UsageError
from bayesjudge.judges.items import Item, read_items
from bayesjudge.judges.panel import Judge, Price, check_panel, judges_of, price_of, read_panel
from bayesjudge.judges.pointwise import Rubric, assigned_schedule, call_of, panel_schedule

WHOLE = {"scenario": "s1", "backbone": "amber", "prompt": "What?", "response": "That."}
DEFAULTS = Judge(name="", model="")


def lines(tmp_path, *rows):
    path = tmp_path / "items.jsonl"
    texts = [row if isinstance(row, str) else json.dumps(row, ensure_ascii=False) for row in rows]
    path.write_bytes(("\n".join(texts) + "\n").encode("utf-8"))
    return str(path)


def test_an_item_with_everything(tmp_path):
    row = WHOLE | {"generation": 2, "language": "hi", "length": "long", "turn": 1}
    found = read_items(lines(tmp_path, "", row))
    assert found.items == (
        Item("s1", "amber", "What?", "That.", "2", "hi", (("length", "long"), ("turn", "1"))),
    )
    assert found.items[0].labels == ("s1", "2", "amber", "hi", "length=long", "turn=1")
    assert found.languages == ("hi",)
    assert not found.notes


def test_synonyms_are_understood_and_said(tmp_path):
    row = {"question_id": "01", "model": "NA", "question": "q", "answer": "", "epoch": 1}
    found = read_items(lines(tmp_path, row))
    assert found.items == (Item("01", "NA", "q", "", "1"),)
    assert found.notes == (
        "taken as scenario: question_id, generation: epoch, backbone: model, "
        "prompt: question, response: answer",
    )


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([], "holds no answers"),
        (["{"], "not valid JSON"),
        (["[1]"], "no JSON object"),
        (['{"scenario": "a", "scenario": "b"}'], "named twice"),
        (["[" * 100_000], "nested too deep"),
        ([{"scenario": "s", "backbone": "b", "prompt": "p"}], "there is no response"),
        ([WHOLE | {"scenario": ""}], "the scenario is empty"),
        ([WHOLE | {"scenario": None}], "'scenario' is null"),
        ([WHOLE | {"scenario": True}], "is true or false"),
        ([WHOLE | {"prompt": ["x"]}], "is a list"),
        ([WHOLE | {"prompt": {"x": 1}}], "is an object"),
        ([WHOLE | {"length": 1.5}], "is a fraction"),
        ([WHOLE | {"response": "a\0"}], "holds a NUL"),
        ([WHOLE | {"score": 3}], "a column 'score' of its own"),
        ([WHOLE, WHOLE], "lines 1 and 2"),
        ([WHOLE, WHOLE | {"backbone": "b", "language": "de"}], "1 of 2 answers lack a language"),
        ([WHOLE, WHOLE | {"backbone": "b", "epoch": 1}], "lack a generation"),
        ([WHOLE, WHOLE | {"backbone": "b", "turn": 1}], "lack 'turn'"),
        (
            [{"model": "a", "system": "b", "scenario": "s", "prompt": "p", "response": "r"}],
            "model and system could both be the backbone",
        ),
    ],
)
def test_what_is_wrong_is_named(tmp_path, rows, message):
    with pytest.raises(DataError, match=message):
        read_items(lines(tmp_path, *rows))


def test_files_that_are_not_there_or_not_text(tmp_path):
    with pytest.raises(DataError, match="no such file"):
        read_items(str(tmp_path / "none.jsonl"))
    (tmp_path / "latin.jsonl").write_bytes(b"\xff")
    with pytest.raises(DataError, match="not UTF-8"):
        read_items(str(tmp_path / "latin.jsonl"))
    with pytest.raises(DataError):
        read_items(str(tmp_path))


@given(text=st.text())
def test_any_text_is_read_or_refused(tmp_path_factory, text):
    path = tmp_path_factory.mktemp("any") / "items.jsonl"
    path.write_text(text, encoding="utf-8", errors="replace")
    with pytest.raises(DataError):
        read_items(str(path))


label = st.text(min_size=1).filter(lambda s: "\0" not in s and s.isprintable())


@given(scenario=label, backbone=label, prompt=st.text(), response=st.text())
def test_labels_and_texts_come_through_unchanged(
    tmp_path_factory, scenario, backbone, prompt, response
):
    row = {"scenario": scenario, "backbone": backbone, "prompt": prompt, "response": response}
    if "\0" in prompt + response:
        return
    (item,) = read_items(lines(tmp_path_factory.mktemp("any"), row)).items
    assert (item.scenario, item.backbone) == (scenario, backbone)
    assert (item.prompt, item.response) == (prompt, response)


def toml(tmp_path, text):
    path = tmp_path / "panel.toml"
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_a_panel_of_a_file(tmp_path):
    path = toml(
        tmp_path,
        """
        [[judge]]
        model = "openai/gpt-5-mini"
        [[judge]]
        name = "warm"
        model = "openai/gpt-5-mini"
        temperature = 1
        max_tokens = 200
        seed = 3
        top_p = 0.9
        base_url = "http://localhost:1/v1"
        logprobs = true
        price = [0.25, 2]
        """,
    )
    first, second = read_panel(path, DEFAULTS)
    assert first == Judge("openai/gpt-5-mini", "openai/gpt-5-mini")
    assert second == Judge(
        "warm", "openai/gpt-5-mini", 1.0, 200, 0.9, 3, "http://localhost:1/v1", True,
        Price(0.25, 2.0),
    )  # fmt: skip
    assert second.price is not None
    assert second.price.of(1_000_000, 500_000) == 1.25


def test_a_digest_is_of_settings_alone():
    judge = Judge("a", "openai/x")
    assert judge.digest == Judge("b", "openai/x", base_url="http://x", price=Price(1, 2)).digest
    assert judge.digest != Judge("a", "openai/x", temperature=1.0).digest
    assert judge.digest != Judge("a", "openai/y").digest


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = ", "not TOML"),
        ("x = 1", r"made of \[\[judge\]\] tables"),
        ("judge = 1", r"made of \[\[judge\]\] tables"),
        ("[[judge]]\nname = 'a'", "needs its model"),
        ("[[judge]]\nmodel = 'a/b'\napi_key = 'sk-1'", "environment only"),
        ("[[judge]]\nmodel = 'a/b'\ntoken = 'sk-1'", "environment only"),
        ("[[judge]]\nmodel = 'a/b'\ncolour = 'red'", "'colour' is not known"),
        ("[[judge]]\nmodel = 'a/b'\nname = ''", "Give text"),
        ("[[judge]]\nmodel = 'a/b'\ntemperature = 3", "a number of 0 to 2"),
        ("[[judge]]\nmodel = 'a/b'\nmax_tokens = 0", "at least 1"),
        ("[[judge]]\nmodel = 'a/b'\nmax_tokens = 1.5", "a whole number"),
        ("[[judge]]\nmodel = 'a/b'\nlogprobs = 1", "true or false"),
        ("[[judge]]\nmodel = 'a/b'\nprice = 3", "a price is 3"),
        ("[[judge]]\nmodel = 'a/b'\nprice = [1, -1]", "two numbers"),
        ("[[judge]]\nmodel = 'a/b'\nprice = [1, nan]", "two numbers"),
    ],
)
def test_a_panel_that_is_wrong(tmp_path, text, message):
    with pytest.raises(DataError, match=message) as raised:
        read_panel(toml(tmp_path, text), DEFAULTS)
    assert "sk-1" not in str(raised.value)


def test_a_panel_that_is_not_there(tmp_path):
    with pytest.raises(DataError, match="no such file"):
        read_panel(str(tmp_path / "none.toml"), DEFAULTS)
    with pytest.raises(DataError, match="cannot be read"):
        read_panel(str(tmp_path), DEFAULTS)


def test_judges_of_options():
    named, bare = judges_of(["gpt=openai/x", "openai/x=y"[:8]], DEFAULTS)
    assert (named.name, named.model, bare.name, bare.model) == (
        "gpt", "openai/x", "openai/x", "openai/x",
    )  # fmt: skip
    for text in ("=openai/x", "gpt="):
        with pytest.raises(UsageError, match="names no judge"):
            judges_of([text], DEFAULTS)


@pytest.mark.parametrize(
    ("texts", "message"),
    [([], "no judges"), (["a=o/x", "a=o/y"], "called 'a'"), (["a=gpt"], "has no provider")],
)
def test_panels_that_cannot_be_asked(texts, message):
    with pytest.raises(UsageError, match=message):
        check_panel(judges_of(texts, DEFAULTS))


@given(given=st.one_of(st.none(), st.text(), st.lists(st.floats() | st.text() | st.booleans())))
def test_prices_are_two_numbers_or_refused(given):
    try:
        price = price_of(given, "x")
    except DataError:
        return
    assert price.input >= 0
    assert price.output >= 0


JUDGES = judges_of(["j1=o/1", "j2=o/2"], DEFAULTS)
ITEMS = [
    Item(f"s{s}", b, "p", "r", str(g), language)
    for s in (1, 2)
    for b in ("amber", "birch")
    for g in (1, 2)
    for language in ("de", "en")
]


def test_a_panel_scores_everything_so_often():
    turns = panel_schedule(ITEMS, JUDGES, 3).turns
    assert len(turns) == len(set(turns)) == len(ITEMS) * 2 * 3
    keys = {(turn.judge.name, call_of(turn, Rubric()).key) for turn in turns}
    assert len(keys) == len(turns)
    with pytest.raises(UsageError, match="0 times"):
        panel_schedule(ITEMS, JUDGES, 0)


def assignment(tmp_path, *rows, header="scenario,generation,backbone,judge,score"):
    path = tmp_path / "calls.csv"
    path.write_text("\n".join([header, *rows]) + "\n", encoding="utf-8")
    return str(path)


def test_an_assignment_is_taken_row_by_row(tmp_path):
    path = assignment(tmp_path, "s2,1,birch,j2,", "s1,2,amber,j1,")
    found = assigned_schedule(ITEMS, JUDGES, path)
    asked = [(t.item.scenario, t.item.backbone, t.item.language, t.judge.name) for t in found.turns]
    assert asked == [
        ("s2", "birch", "de", "j2"), ("s2", "birch", "en", "j2"),
        ("s1", "amber", "de", "j1"), ("s1", "amber", "en", "j1"),
    ]  # fmt: skip
    assert "2 rows are 4 calls" in found.notes[0]
    assert "12 answers are in no row" in found.notes[1]


def test_an_assignment_with_languages_and_one_without_generations(tmp_path):
    header = "scenario,generation,backbone,judge,language,score"
    path = assignment(tmp_path, "s1,1,amber,j1,en,", header=header)
    (turn,) = assigned_schedule(ITEMS, JUDGES, path).turns
    assert turn.item.language == "en"
    single = [Item("s1", "amber", "p", "r")]
    path = assignment(tmp_path, "s1,1,amber,j1,")
    assert assigned_schedule(single, JUDGES, path).turns[0].item == single[0]
    with pytest.raises(DataError, match="no answer to judge: s1 2 amber"):
        assigned_schedule(single, JUDGES, assignment(tmp_path, "s1,2,amber,j1,"))


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([], "no rows"),
        (["s1,1,amber,j1,7"], "line 2.*scored out|a score already"),
        (["s1,1,amber,j9,"], "'j9' is no judge.*j1, j2"),
        (["s9,1,amber,j1,"], "no answer to judge: s9 1 amber"),
        (["s1,1,amber,j1,", "s1,1,amber,j1,"], "lines 2 and 3"),
        (["s1,1,amber"], "3 fields where the header has 5"),
    ],
)
def test_an_assignment_that_is_wrong(tmp_path, rows, message):
    with pytest.raises(DataError, match=message):
        assigned_schedule(ITEMS, JUDGES, assignment(tmp_path, *rows))


def test_a_file_that_is_no_assignment(tmp_path):
    with pytest.raises(DataError, match="has the columns"):
        assigned_schedule(ITEMS, JUDGES, assignment(tmp_path, header="a,b"))
    for path in (tmp_path / "none.csv", tmp_path):
        with pytest.raises(DataError):
            assigned_schedule(ITEMS, JUDGES, str(path))
    (tmp_path / "latin.csv").write_bytes(b"\xff")
    with pytest.raises(DataError, match="not UTF-8"):
        assigned_schedule(ITEMS, JUDGES, str(tmp_path / "latin.csv"))


def test_the_language_of_instructions():
    item = Item("s", "b", "p", "r", language="de")
    assert Rubric(language="item").language_for(item) == "de"
    assert Rubric(language="fr").language_for(item) == "fr"
    with pytest.raises(BayesjudgeError, match="items name none"):
        Rubric(language="item").language_for(Item("s", "b", "p", "r"))
