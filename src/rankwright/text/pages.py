"""Web pages and Markdown as documents: title, headings and the rest.

lxml parses HTML as events: no tree is built, so a page of a hundred thousand nested elements costs what its length
does. Left out are scripts, styles, templates, navigation, footers, comments and whatever is hidden. markdown-it-py
parses Markdown; front matter gives the title.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Mapping
from functools import cache
from typing import Any

from rankwright.io.frames import import_library

PAGES = {".html": "html", ".htm": "html", ".xhtml": "html", ".md": "markdown", ".markdown": "markdown"}
"""The suffixes of files that are pages, and their kind."""

_LEFT_OUT = frozenset(
    (
        *("script", "style", "template", "noscript", "nav", "footer", "svg", "math", "iframe", "object", "embed"),
        *("canvas", "audio", "video", "select", "datalist", "button", "dialog"),
    )
)
_LEFT_OUT_ROLES = frozenset(("navigation", "banner", "contentinfo", "search", "menu", "menubar"))
_INLINE = frozenset(
    (
        *("a", "abbr", "acronym", "b", "bdi", "bdo", "big", "cite", "code", "data", "del", "dfn", "em", "font", "i"),
        *("ins", "kbd", "label", "mark", "nobr", "q", "rp", "rt", "ruby", "s", "samp", "small", "span", "strike"),
        *("strong", "sub", "sup", "time", "tt", "u", "var", "wbr"),
    )
)
_HEADINGS = frozenset(("h1", "h2", "h3", "h4", "h5", "h6"))
_HIDING = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden", re.IGNORECASE)
_CHARSET = re.compile(
    rb"""<(?:meta|\?xml)[^>]{0,300}?(?:charset|encoding)\s*=\s*["']?\s*([A-Za-z0-9_.:-]{1,40})""", re.IGNORECASE
)
_LOOK_BYTES = 4096
_MARKS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_WINDOWS = "cp1252"
_AS_WINDOWS = ("iso-8859-1", "iso8859-1", "latin-1", "latin1", "us-ascii", "ascii")
_FRONT = re.compile(r"(---|\+\+\+)[ \t]*\n(.*?)^(?:\1|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE)
_TITLE = re.compile(r"^title\s*[:=]\s*(.+)$", re.MULTILINE | re.IGNORECASE)
_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)


def decoded(data: bytes) -> str:
    """The text of a page: by its byte order mark, UTF-8 if it is that, the charset it declares, or Windows-1252.

    Examples
    --------
    >>> decoded(b"<meta charset=koi8-r>\\xed\\xc9\\xd2")[-3:], decoded(b"caf\\xe9")
    ('Мир', 'café')
    """
    for mark, codec in _MARKS:
        if data.startswith(mark):
            return data[len(mark) :].decode(codec, "replace")
    try:
        return data.decode()
    except UnicodeDecodeError:
        declared = _CHARSET.search(data[:_LOOK_BYTES])
    name = declared[1].decode("ascii").lower() if declared else _WINDOWS
    try:
        return data.decode(_WINDOWS if name in _AS_WINDOWS else name, "replace")
    except (LookupError, ValueError):  # an unknown name, or one that is not of text
        return data.decode(_WINDOWS, "replace")


def html_fields(page: str) -> dict[str, str]:
    """Title, headings and text of a page; what it does not have is not among them.

    Examples
    --------
    >>> html_fields("<title>Tea</title><nav>Home</nav><h2>Green</h2><p>Pour &amp; wait<script>track()</script>")
    {'title': 'Tea', 'headings': 'Green', 'text': 'Pour & wait'}
    """
    parser = import_library("lxml.etree")
    reader = _Reader()
    # The text is UTF-8 now, whatever the page says of itself.
    events = parser.HTMLParser(target=reader, encoding="utf-8", huge_tree=True)
    if page.strip():
        events.feed(page.replace("\0", "").encode("utf-8", "replace"))
        events.close()
    return reader.fields()


def html_text(page: str) -> str:
    """Everything for readers in a piece of HTML, as one text."""
    return "\n".join(html_fields(page).values())


class _Reader:
    """Takes the events of a page and keeps what is for readers."""

    def __init__(self) -> None:
        self._blocks: dict[str, list[list[str]]] = {"title": [[]], "headings": [[]], "text": [[]]}
        self._skipped = 0  # elements open within one that is left out
        self._inside: list[str] = []  # titles and headings that are open
        self._has_title = False

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        if self._skipped or tag in _LEFT_OUT or _is_hidden(attributes):
            self._skipped += 1
        elif tag == "title" or tag in _HEADINGS:
            self._break()
            self._inside.append(tag)
            self._break()
        elif tag not in _INLINE:
            self._break()

    def end(self, tag: str) -> None:
        if self._skipped:
            self._skipped -= 1
            return
        if tag not in _INLINE:
            self._break()
        if self._inside and self._inside[-1] == tag:
            self._has_title |= tag == "title"
            self._inside.pop()

    def data(self, text: str) -> None:
        if not self._skipped:
            self._blocks[self._field][-1].append(text)

    def comment(self, text: str) -> None:
        """A comment, which is left out."""

    def close(self) -> None:
        """The page ends."""

    @property
    def _field(self) -> str:
        if not self._inside:
            return "text"
        if self._inside[-1] != "title":
            return "headings"
        return "text" if self._has_title else "title"

    def _break(self) -> None:
        blocks = self._blocks[self._field]
        if blocks[-1]:
            blocks.append([])

    def fields(self) -> dict[str, str]:
        """The fields that have text."""
        fields = {}
        for name, blocks in self._blocks.items():
            lines = (" ".join("".join(pieces).split()) for pieces in blocks)
            text = "\n".join(line for line in lines if line)
            if text:
                fields[name] = text
        if "title" not in fields and "headings" in fields:
            fields = {"title": fields["headings"].partition("\n")[0], **fields}
        return fields


def _is_hidden(attributes: Mapping[str, str]) -> bool:
    if not attributes:
        return False
    return (
        "hidden" in attributes
        or attributes.get("aria-hidden", "").strip().lower() == "true"
        or attributes.get("role", "").strip().lower() in _LEFT_OUT_ROLES
        or _HIDING.search(attributes.get("style", "")) is not None
    )


def markdown_fields(text: str) -> dict[str, str]:
    """Title, headings and text of Markdown; the title is that of the front matter, or else the first heading.

    Examples
    --------
    >>> markdown_fields("---\\ntitle: Tea\\n---\\n## Green\\nPour *and* [wait](https://example.org).\\n")
    {'title': 'Tea', 'headings': 'Green', 'text': 'Pour and wait.'}
    """
    text = text.replace("\r\n", "\n")
    front = _FRONT.match(text)
    title = _TITLE.search(front[2]) if front else None
    headings: list[str] = []
    body: list[str] = []
    is_heading = False
    for token in _markdown().parse(text[front.end() :] if front else text):
        if token.type in ("heading_open", "heading_close"):
            is_heading = token.type == "heading_open"
        elif token.type == "inline":
            (headings if is_heading else body).append(_inline(token.children or []))
        elif token.type in ("fence", "code_block"):
            body.append(token.content.strip("\n"))
        elif token.type == "html_block":
            piece = _COMMENT.sub("", token.content).strip()
            body.append(html_text(piece) if piece else "")
    name = title[1].strip().strip("\"'") if title else next(iter(headings), "")
    fields = {"title": name, "headings": "\n".join(filter(None, headings)), "text": "\n".join(filter(None, body))}
    return {field: text for field, text in fields.items() if text}


@cache
def _markdown() -> Any:
    return import_library("markdown_it").MarkdownIt("commonmark").enable("table")


def _inline(tokens: list[Any]) -> str:
    """The text of a paragraph; images count with their description."""
    breaks = ("softbreak", "hardbreak")
    words = (" " if token.type in breaks else token.content for token in tokens if token.type != "html_inline")
    return " ".join("".join(words).split())
