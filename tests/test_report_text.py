"""No label acts: not in a terminal, not in Markdown, not in HTML."""

from __future__ import annotations

import html.parser
import re
import unicodedata

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from rich.text import Text

from bayesjudge import text

NASTY = [
    "<img src=x onerror=alert(1)>",
    '"><script>alert(1)</script>',
    "' onmouseover='x",
    "\x1b[31mred\x1b[0m",
    "\x1b]8;;http://evil\x07link\x1b]8;;\x07",
    "\x9b31m",
    "\u202egnp.exe",
    "\u2066a\u2069",
    "a\nb\r\tc",
    "a\u200bb\ufeff\x00",
    "[red]x[/red]",
    "[link=http://evil]x[/link]",
    "|a|b|",
    "`code` **bold** _it_ ~~s~~",
    "[text](http://evil)",
    "![i](http://evil/x.png)",
    "# heading",
    "- item",
    "1. item",
    "---",
    "&lt;b&gt;",
    "www.evil.com",
    "https://evil.com",
    "a\\|b\\",
    "\ud800",
    "مرحبا",
    "हिन्दी मॉडल",
    "模型",
    "\u3164",
    "",
    "   ",
]
# Every code point, surrogates included: labels come from files of all kinds.
anything = st.text(st.characters()) | st.sampled_from(NASTY)
BIDI = {*"\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"}


@settings(deadline=None)
@given(anything)
def test_visible_text_holds_nothing_that_acts(label):
    shown = text.visible(label)
    assert not BIDI & set(shown)
    assert not any(
        unicodedata.category(character) in {"Cc", "Cs", "Zl", "Zp"} for character in shown
    )
    assert not set("\u200b\u2060\ufeff\u00ad") & set(shown)
    assert len(shown.splitlines()) <= 1
    shown.encode()
    assert text.visible(shown) == shown


@pytest.mark.parametrize(
    ("label", "shown"),
    [
        ("\x1b[31m", "\\x1b[31m"),
        ("\u202eabc", "\\u202eabc"),
        ("a\nb\r\t", "a\\nb\\r\\t"),
        ("\x00", "\\x00"),
        ("\x9b", "\\x9b"),
        ("\u200b", "\\u200b"),
        ("\u2028", "\\u2028"),
        ("\U000e0041", "\\U000e0041"),
        ("\ud800", "\\ud800"),
        ("\u3164", "\\u3164"),
        ("a\u200db", "a\\u200db"),
        ("\u200c", "\\u200c"),
        ("م\u200c", "م\\u200c"),
    ],
)
def test_what_hides_is_escaped(label, shown):
    assert text.visible(label) == shown


@pytest.mark.parametrize(
    "label",
    [
        "gpt-4.1 mini",
        "مرحبا بالعالم",
        "עברית",
        "हिन्दी क्ष",
        "ক্\u200dষ",
        "می\u200cخواهم",
        "模型 モデル 모델",
        "👩\u200d🔬",
        "❤\ufe0f",
        "\u06dd١٢",
        "é e\u0301",
        "01",
        "NA",
        " a\u00a0b ",
    ],
)
def test_printable_text_of_any_script_stays(label):
    assert text.visible(label) == label
    assert Text.from_markup(text.terminal(label), emoji=False).plain == label


@settings(deadline=None)
@given(st.text(st.characters(exclude_characters="\\")))
@example("[red]x[/red]")
@example("[[bold]]")
@example("[/]")
@example("[@click=app.bell]x[/]")
def test_rich_markup_is_shown_literally(label):
    shown = text.visible(label)
    if "\\" not in shown:
        rendered = Text.from_markup(text.terminal(label), emoji=False)
        assert rendered.plain == shown
        assert not rendered.spans


class _Collector(html.parser.HTMLParser):
    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.tags, self.attributes, self.content = [], [], ""

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes.append(attrs)

    def handle_data(self, data):
        self.content += data


@settings(deadline=None)
@given(anything)
def test_html_holds_no_tag_and_gives_the_text_back(label):
    page = _Collector()
    page.feed(f'<p title="{text.html(label)}">{text.html(label)}</p>')
    page.close()
    assert page.tags == ["p"]
    assert page.attributes == [[("title", text.visible(label))]]
    assert page.content == text.visible(label)
    assert not set("<>\"'") & set(text.html(label))


@settings(deadline=None)
@given(anything)
def test_markdown_leaves_no_special_character_bare(label):
    shown = text.markdown(label)
    assert "<" not in shown
    assert ">" not in shown
    assert "\n" not in shown
    bare = re.sub(r"\\[!-/:-@\[-`{-~]", "", shown)
    assert not set("\\`*_[]#|~!$@{}") & set(bare)
    assert "://" not in bare
    assert not re.search(r"(?i)\bwww\.", bare)


@settings(deadline=None)
@given(anything)
def test_markdown_gives_the_text_back(label):
    """What CommonMark does to text: backslash escapes off, entities decoded."""
    plain = re.sub(r"\\([!-/:-@\[-`{-~])", r"\1", text.markdown(label))
    for entity, character in (("&lt;", "<"), ("&gt;", ">"), ("&amp;", "&")):
        plain = plain.replace(entity, character)
    assert plain == text.visible(label)


@pytest.mark.parametrize(
    ("label", "shown"),
    [
        ("gpt-4.1", "gpt-4.1"),
        ("7.319", "7.319"),
        ("-3.2", "-3.2"),
        ("- item", "\\- item"),
        ("+", "\\+"),
        ("---", "\\---"),
        ("===", "\\==="),
        ("1. item", "1\\. item"),
        ("2)", "2\\)"),
        ("a|b", "a\\|b"),
        ("<b>&", "&lt;b&gt;&amp;"),
        ("a_b*c`d", "a\\_b\\*c\\`d"),
        ("[t](u)", "\\[t\\](u)"),
        ("https://x", "https\\://x"),
        ("WWW.x", "WWW\\.x"),
        ("a\nb", "a\\\\nb"),
    ],
)
def test_markdown_examples(label, shown):
    assert text.markdown(label) == shown
