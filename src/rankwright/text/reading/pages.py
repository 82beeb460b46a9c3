"""Web pages, Markdown and TREC's SGML as text: title, headings and the rest, without what is not for readers.

lxml parses HTML, as events: no tree is built, so a page of a hundred thousand nested elements costs what its length
does. Left out are scripts, styles, templates, navigation, footers, comments and whatever is hidden. Markdown is parsed
by markdown-it-py; front matter gives the title and is left out.
"""

from __future__ import annotations

import codecs
import html
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from rankwright.errors import InputError
from rankwright.io.files import Progress, Source
from rankwright.io.frames import import_library
from rankwright.text.reading.records import Record, Tally

SUFFIXES = {".html": "html", ".htm": "html", ".xhtml": "html", ".md": "markdown", ".markdown": "markdown"}
"""Files that are pages, and their kind."""

_LEFT_OUT = frozenset(
    [
        "script",
        "style",
        "template",
        "noscript",
        "nav",
        "footer",
        "svg",
        "math",
        "iframe",
        "object",
        "embed",
        "canvas",
        "audio",
        "video",
        "select",
        "datalist",
        "button",
        "dialog",
    ]
)
_LEFT_OUT_ROLES = frozenset(("navigation", "banner", "contentinfo", "search", "menu", "menubar"))
_INLINE = frozenset(
    [
        "a",
        "abbr",
        "acronym",
        "b",
        "bdi",
        "bdo",
        "big",
        "cite",
        "code",
        "data",
        "del",
        "dfn",
        "em",
        "font",
        "i",
        "ins",
        "kbd",
        "label",
        "mark",
        "nobr",
        "q",
        "rp",
        "rt",
        "ruby",
        "s",
        "samp",
        "small",
        "span",
        "strike",
        "strong",
        "sub",
        "sup",
        "time",
        "tt",
        "u",
        "var",
        "wbr",
    ]
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
        """An element begins."""
        if self._skipped or tag in _LEFT_OUT or _is_hidden(attributes):
            self._skipped += 1
        elif tag == "title" or tag in _HEADINGS:
            self._break()
            self._inside.append(tag)
            self._break()
        elif tag not in _INLINE:
            self._break()

    def end(self, tag: str) -> None:
        """An element ends."""
        if self._skipped:
            self._skipped -= 1
            return
        if tag not in _INLINE:
            self._break()
        if self._inside and self._inside[-1] == tag:
            self._has_title |= tag == "title"
            self._inside.pop()

    def data(self, text: str) -> None:
        """Text, or a piece of it."""
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
        found = {}
        for name, blocks in self._blocks.items():
            lines = (" ".join("".join(parts).split()) for parts in blocks)
            text = "\n".join(line for line in lines if line)
            if text:
                found[name] = text
        if "title" not in found and "headings" in found:
            found = {"title": found["headings"].partition("\n")[0], **found}
        return found


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
    parts = {"title": name, "headings": "\n".join(filter(None, headings)), "text": "\n".join(filter(None, body))}
    return {field: found for field, found in parts.items() if found}


@cache
def _markdown() -> Any:
    return import_library("markdown_it").MarkdownIt("commonmark").enable("table")


def _inline(tokens: list[Any]) -> str:
    """The text of a paragraph; images count with their description."""
    breaks = ("softbreak", "hardbreak")
    words = (" " if token.type in breaks else token.content for token in tokens if token.type != "html_inline")
    return " ".join("".join(words).split())


# TREC's document files: any number of <DOC><DOCNO>id</DOCNO> … </DOC>, often with no other rule. Tags need not be
# closed or known. The content of <TITLE> or <HEADLINE> (also <HEAD>, <HL>) is the field "title"; all other text is the
# field "text". Text outside <DOC> is ignored.
# No pattern may run past the next "<" in vain: many unfinished tags would take quadratic time.
_DOC = re.compile(r"<(/?)DOC(?:\s[^<>]*)?>", re.IGNORECASE)
_NUMBER = re.compile(r"<DOCNO(?:\s[^<>]*)?>([^<]*)</DOCNO\s*>", re.IGNORECASE)
_TAG = re.compile(r"<!--(?:(?!<!--).)*?-->|<(/?)([A-Za-z][\w.:-]*)(?:\s[^<>]*)?/?>", re.DOTALL)
_TITLES = frozenset(("title", "headline", "head", "hl"))
_LONGEST_TAG = 1 << 10


def read_sgml(source: Source, tally: Tally, progress: Progress | None = None) -> Iterator[Record]:
    """Read the documents of a file."""
    path = tally.path
    rest, line = "", 1  # text not processed yet, and the number of its first line
    is_bad = False
    begun: int | None = None
    parts: list[str] = []
    for text, _, bad in tally.chunks(source, progress):
        is_bad |= bad
        text = rest + text
        at = counted = 0
        for tag in _DOC.finditer(text):
            line += text.count("\n", counted, tag.start())
            counted = tag.start()
            if not tag[1]:
                if begun is not None:
                    raise InputError("<DOC> inside a document; expected </DOC> before it", path, line)
                begun, at = line, tag.end()
            elif begun is None:
                raise InputError("</DOC> outside a document; expected <DOC> before it", path, line)
            else:
                parts.append(text[at : tag.start()])
                yield _record("".join(parts), path, begun, tally if is_bad else None)
                begun, parts, at = None, [], tag.end()
        # Hold back what may be the start of a tag.
        cut = text.rfind("<", max(at, len(text) - _LONGEST_TAG))
        cut = len(text) if cut < 0 or ">" in text[cut:] else cut
        if begun is not None:
            parts.append(text[at:cut])
        else:
            is_bad = False
        line += text.count("\n", counted, cut)
        rest = text[cut:]
    if begun is not None:
        raise InputError("unterminated document; expected </DOC>", path, begun)


def _record(text: str, path: Path, line: int, tally: Tally | None) -> Record:
    if tally is not None:
        text = tally.clean(text)
    number = _NUMBER.search(text)
    if number is None:
        raise InputError("document without an id; expected <DOCNO>…</DOCNO>", path, line)
    pieces: dict[str, list[str]] = {"title": [], "text": []}
    field, at = "text", 0
    body = text[: number.start()] + "\n" + text[number.end() :]
    for tag in _TAG.finditer(body):
        pieces[field].append(body[at : tag.start()])
        at = tag.end()
        name = (tag[2] or "").lower()
        if name in _TITLES:
            field = "text" if tag[1] else "title"
        elif name == "text":
            field = "text"
    pieces[field].append(body[at:])
    fields = {name: _tidy(parts) for name, parts in pieces.items()}
    if not fields["title"]:
        del fields["title"]
    return html.unescape(number[1]).strip(), fields, path, line


def _tidy(parts: list[str]) -> str:
    found = (html.unescape(part).strip() for part in parts)
    return "\n".join(part for part in found if part)
