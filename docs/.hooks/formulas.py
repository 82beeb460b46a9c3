"""Formulas of the site: plain text in the sources, raised and lowered letters in the pages.

In the text, outside code, ``s_i`` becomes s with a lowered i. A block marked ``formula`` becomes a table with a row for
each line; what stands three spaces apart is in cells of their own, so that a block reads well as plain text too.
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
    """Text with indices and exponents as lowered and raised letters."""
    text = _LOWERED.sub(lambda found: f"{found[1]}<sub>{shifted(found[2].strip('{}'))}</sub>", text)
    return _RAISED.sub(lambda found: f"<sup>{found[1].strip('{}')}</sup>", text)


def formula(text: str) -> str:
    """A formula as HTML."""
    return _LETTER.sub(r"<i>\1</i>", shifted(escape(text, quote=False)))


def table(text: str) -> str:
    """A block of formulas as HTML, one row for each line."""
    rows = []
    for line in text.splitlines():
        cells = re.split(r" {3,}", line.rstrip())  # an indented line begins with an empty one
        rows.append("<tr>" + "".join(f"<td>{formula(cell)}</td>" for cell in cells) + "</tr>")
    return f'<div class="formula"><table class="formula">{"".join(rows)}</table></div>'
