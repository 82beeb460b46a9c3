"""Formats formulas for the site: plain text in the sources, subscripts and superscripts in the pages.

In text outside code, ``s_i`` becomes s with a subscript i. A block marked ``formula`` becomes a table with one row per
line; three or more spaces separate cells, so that a block also reads well as plain text.
"""

from __future__ import annotations

import re
from html import escape
from typing import Any

_BLOCK = re.compile(r"^```formula\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"(^```.*?^```$|^(?: {4}[^\n]*\n)+|`[^`]*`|\]\([^)]*\)|<[^>]*>)", re.MULTILINE | re.DOTALL)
_LOWERED = re.compile(r"(?<![\w.])((?:[a-z]{2,6}|\w)′?)_(\{[^}]+\}|\w′?)(?!\w|\.\w)")
_RAISED = re.compile(r"(?<=[\w>)])\^(\{[^}]+\}|−?\w+)")
_LETTER = re.compile(r"(?<![A-Za-z&'])(PN|[B-HJ-Zb-z]|a(?=[,)_<])|A(?=\())(?![A-Za-z;])(?![^<>]*>)")


def on_page_markdown(markdown: str, page: Any = None, **_: Any) -> str:
    """Called by mkdocs with the text of every page."""
    if page is not None and page.file.src_uri.startswith("reference/"):
        return markdown
    parts = _CODE.split(_BLOCK.sub(lambda found: table(found[1]), markdown))
    return "".join(part if number % 2 else shifted(part) for number, part in enumerate(parts))


def shifted(text: str) -> str:
    """Return text with indices and exponents as subscripts and superscripts."""
    text = _LOWERED.sub(lambda found: f"{found[1]}<sub>{shifted(found[2].strip('{}'))}</sub>", text)
    return _RAISED.sub(lambda found: f"<sup>{found[1].strip('{}')}</sup>", text)


def formula(text: str) -> str:
    """Format a formula as HTML."""
    return _LETTER.sub(r"<i>\1</i>", shifted(escape(text, quote=False)))


def table(text: str) -> str:
    """Format a block of formulas as HTML, one row per line."""
    rows = []
    for line in text.splitlines():
        cells = re.split(r" {3,}", line.rstrip())  # an indented line starts with an empty cell
        rows.append("<tr>" + "".join(f"<td>{formula(cell)}</td>" for cell in cells) + "</tr>")
    return f'<div class="formula"><table class="formula">{"".join(rows)}</table></div>'
