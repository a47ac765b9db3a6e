r"""Making users' text safe to show: in a terminal, in Markdown, in HTML.

Labels are kept byte for byte in data; only what is shown goes through here.
Printable text of any script stays as it is. What would act instead of being
read (control sequences, direction overrides, invisible characters) is shown as
a visible escape such as ``\x1b`` or ``\u202e``.
"""

from __future__ import annotations

import html as _html
import re
import unicodedata

_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
# Format characters that are drawn (signs that span Arabic, Syriac, Kaithi digits).
_DRAWN_FORMAT = frozenset(
    "\u0600\u0601\u0602\u0603\u0604\u0605\u06dd\u070f\u0890\u0891\u08e2\U000110bd\U000110cd"
)
# Letters and marks by category that nevertheless show nothing.
_BLANK = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u3164\uffa0")
_JOINERS = "\u200c\u200d"
_LATIN_END = 0x2FF

_MARKDOWN = re.compile(r"[\\`*_\[\]#|~!$@{}]")
_MARKDOWN_START = re.compile(r"^(\s*)([-+](?=\s|$)|[-=](?=[-=\s]*$)|\d+(?=[.)](?:\s|$)))")


def visible(label: str) -> str:
    """Return the text with everything that acts or hides shown as an escape.

    Parameters
    ----------
    label : str
        Any text, lone surrogates included.

    Returns
    -------
    str
        One line. Control, bidirectional and zero-width characters are escapes;
        joiners inside words of the scripts that spell with them, and inside
        emoji, stay.
    """
    return "".join(
        _escape(character) if _hides(label, at) else character for at, character in enumerate(label)
    )


def terminal(label: str) -> str:
    """Return the text safe inside Rich markup: ``[red]`` is shown, not obeyed.

    Parameters
    ----------
    label : str
        Any text.

    Returns
    -------
    str
        Print it with ``emoji=False``, or ``:smile:`` is replaced by Rich. A
        `rich.text.Text` needs `visible` only.
    """
    from rich.markup import escape

    return escape(visible(label))


def markdown(label: str) -> str:
    """Return the text safe inside Markdown, table cells included.

    Parameters
    ----------
    label : str
        Any text.

    Returns
    -------
    str
        Emphasis, code, links, automatic links, headings, lists, pipes and HTML
        are shown literally.
    """
    text = _MARKDOWN.sub(r"\\\g<0>", visible(label))
    text = _html.escape(text, quote=False)
    text = text.replace("://", "\\://")
    text = re.sub(r"(?i)\b(www)\.", r"\1\\.", text)
    return _MARKDOWN_START.sub(_break_list, text)


def html(label: str) -> str:
    """Return the text safe in HTML content and in quoted attributes.

    Parameters
    ----------
    label : str
        Any text.

    Returns
    -------
    str
        ``& < > " '`` are entities.
    """
    return _html.escape(visible(label), quote=True)


def _break_list(match: re.Match[str]) -> str:
    space, mark = match.groups()
    return f"{space}{mark}\\" if mark[0].isdigit() else f"{space}\\{mark}"


def _hides(text: str, at: int) -> bool:
    character = text[at]
    if character in _JOINERS:
        return not (
            0 < at < len(text) - 1 and _spells(text[at - 1], before=True) and _spells(text[at + 1])
        )
    if character in _BLANK:
        return True
    category = unicodedata.category(character)
    if category == "Cf":
        return character not in _DRAWN_FORMAT
    return category in {"Cc", "Cs", "Zl", "Zp"}


def _spells(character: str, before: bool = False) -> bool:
    """Whether a joiner beside this character is part of the spelling."""
    category = unicodedata.category(character)
    kinds = {"Lo", "Mn", "Mc", "So", "Sk"} if before else {"Lo", "So"}
    return ord(character) > _LATIN_END and category in kinds and character not in _BLANK


def _escape(character: str) -> str:
    point = ord(character)
    if character in _SHORT:
        return _SHORT[character]
    if point < 0x100:
        return f"\\x{point:02x}"
    return f"\\u{point:04x}" if point < 0x10000 else f"\\U{point:08x}"
