"""Records of documents: id and fields, a tally of what had to be replaced, and pages and TREC's SGML as text."""

from __future__ import annotations

import codecs
import html
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any, Literal

from rankwright.errors import InputError, InputWarning, shown
from rankwright.io.fields import MAX_FIELD
from rankwright.io.files import OpenFile, Progress, Source, line_chunks
from rankwright.io.frames import import_library
from rankwright.io.roles import Columns, accepted, find, listed, named_in
from rankwright.io.tables import BOM

Errors = Literal["strict", "replace"]
Record = tuple[str, dict[str, Any], Path | None, int | None]
"""Id, fields, file and line; fields are text, those asked for as numbers anything."""

_BAD_BYTES = re.compile("[\udc80-\udcff]+")  # what Python's decoder leaves for bytes that are not UTF-8
_HALF_PAIRS = re.compile("[\ud800-\udfff]")
_REPLACEMENT = "\ufffd"
_RENAMED = ("title", "text")  # roles that give a column another name
_REMEMBERED = 1 << 10  # sets of names


def check_id(doc_id: str, path: Path | None = None, line: int | None = None) -> None:
    """Refuse ids that cannot be written to a TREC file."""
    if len(doc_id) > MAX_FIELD:
        raise InputError(f"a document id of {len(doc_id):,} characters; expected at most {MAX_FIELD}", path, line)
    if doc_id.split() != [doc_id]:
        if not doc_id:
            raise InputError("empty document id; expected a word", path, line)
        raise InputError(
            f"the document id {shown(doc_id)} contains whitespace; expected one word (for TREC files)", path, line
        )


class Tally:
    """Counts replaced bytes and keys that are not text, for one warning at the end."""

    def __init__(
        self, path: Path, errors: Errors, wanted: Sequence[str] | None = None, numbers: Sequence[str] = ()
    ) -> None:
        self.path = path
        self.numbers = frozenset(numbers)
        self._replace = errors == "replace"
        self._wanted = wanted
        self._replaced = 0
        self._keys: dict[str, None] = {}

    def chunks(self, source: Source, progress: Progress | None) -> Iterator[tuple[str, int, bool]]:
        """The text of a file in pieces of whole lines, the number of the first line, and whether bytes are invalid."""
        path = source.path if isinstance(source, OpenFile) else source
        line = 1
        for chunk in line_chunks(source, progress):
            try:
                text, is_bad = chunk.decode(), False
            except UnicodeDecodeError as error:
                if not self._replace:
                    where = line + chunk.count(b"\n", 0, error.start)
                    problem = f"the byte 0x{chunk[error.start]:02x} is not valid UTF-8"
                    raise InputError(f"{problem}; expected UTF-8, or errors='replace'", path, where) from None
                text, is_bad = chunk.decode(errors="surrogateescape"), True
            if line == 1:
                text = text.removeprefix(BOM)
            yield text, line, is_bad
            line += chunk.count(b"\n")

    def lines(self, source: Source, progress: Progress | None) -> Iterator[tuple[int, str]]:
        """The lines of a file, blank ones too, with their numbers."""
        for text, first, is_bad in self.chunks(source, progress):
            lines = text.split("\n")
            if not lines[-1]:
                lines.pop()
            for number, line in enumerate(lines, first):
                yield number, self.clean(line) if is_bad else line

    def clean(self, text: str) -> str:
        """The text of a document with invalid bytes replaced; the document is counted."""
        cleaned, n = _BAD_BYTES.subn(_REPLACEMENT, text)
        self._replaced += n > 0
        return cleaned

    def without_half_pairs(self, values: dict[str, Any], line: int) -> dict[str, Any]:
        """Values without lone surrogates, which JSON can encode and UTF-8 cannot."""
        texts = {name: text for name, text in values.items() if isinstance(text, str)}
        if not any(map(_HALF_PAIRS.search, texts.values())):
            return values
        if not self._replace:
            problem = "a lone surrogate, such as \\ud800, which is not a character"
            raise InputError(f"{problem}; expected text, or errors='replace'", self.path, line)
        self._replaced += 1
        return values | {name: _HALF_PAIRS.sub(_REPLACEMENT, text) for name, text in texts.items()}

    def note_key(self, key: str) -> None:
        """Remember a key whose value is not text."""
        if self._wanted is None or key in self._wanted:
            self._keys[key] = None

    def warn(self) -> None:
        """Warn about everything noted."""
        if self._keys:
            names = ", ".join(self._keys)
            warnings.warn(f"{self.path}: ignored keys that are not text: {names}", InputWarning, stacklevel=3)
        if self._replaced:
            documents = "document" if self._replaced == 1 else "documents"
            problem = f"replaced bytes that are not UTF-8 in {self._replaced:,} {documents}"
            warnings.warn(f"{self.path}: {problem}", InputWarning, stacklevel=3)


class Fields:
    """Takes documents from values by name: the id, and the fields; numbers that are asked for come as they are.

    What names are taken for is remembered, as most rows have the same ones.

    `tally`: what is reported at the end. `columns`: columns by role, as the user names them.
    """

    def __init__(self, tally: Tally, columns: Columns | None = None) -> None:
        self._tally, self._columns = tally, columns or {}
        self._layouts: dict[tuple[str, ...], tuple[str, list[tuple[str, str]]]] = {}

    def __call__(self, values: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
        """The id and the fields of a document."""
        names = tuple(values)
        if names not in self._layouts:
            if len(self._layouts) == _REMEMBERED:
                self._layouts.clear()
            self._layouts[names] = self._found(names)
        return self._taken(*self._layouts[names], values)

    def of_cells(
        self, names: Sequence[str], *, all_text: bool
    ) -> Callable[[Sequence[Any]], tuple[str, dict[str, Any]]]:
        """A function that takes documents from rows with these columns; those without a name are left out."""
        key, kept = self._found(tuple(filter(None, names)))
        place_of = {name: place for place, name in enumerate(names)}
        at, places = place_of[key], [(place_of[name], field) for name, field in kept]
        if all_text:
            return lambda cells: (cells[at], {field: cells[place] for place, field in places})
        return partial(self._taken, at, places)

    def _taken(self, key: Any, kept: Sequence[tuple[Any, str]], values: Any) -> tuple[str, dict[str, Any]]:
        numbers, fields = self._tally.numbers, dict[str, Any]()
        for name, field in kept:
            value = values[name]
            if value is None:
                continue
            if isinstance(value, str) or field in numbers:
                fields[field] = value
            else:
                self._tally.note_key(field)
        return as_id(values[key]), fields

    def _found(self, names: tuple[str, ...]) -> tuple[str, list[tuple[str, str]]]:
        """The name of the id, and the others with their fields."""
        there = {role: name for role, name in self._columns.items() if role == "skip" or name in names}
        fields = field_names([name for name in names if isinstance(name, str)], there)
        if fields is None:
            expected = f"expected one of the keys {accepted('id')}"
            raise InputError(f"document without an id; {expected}; its keys: {listed(names)}")
        (key,) = [name for name, field in fields.items() if field is None]
        return key, [(name, field) for name, field in fields.items() if field is not None]


def field_names(names: Sequence[str], columns: Columns | None) -> dict[str, str | None] | None:
    """The field of each column that is used, None for the id; None if there is no id."""
    key = find(names, "id", columns)
    if key is None:
        return None
    skipped = named_in(columns, "skip")
    renamed = {name: role for role, name in (columns or {}).items() if role in _RENAMED}
    return {
        name: None if name == key else renamed.get(name, name) for name in names if name == key or name not in skipped
    }


def as_id(value: Any) -> str:
    """The id of a document; a whole number is one, too."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str):
        raise InputError(f"the document id is {shown(value)}; expected a string")
    return value


# Web pages and Markdown: title, headings and the rest. lxml parses HTML as events: no tree is built, so a page of a
# hundred thousand nested elements costs what its length does. Left out are scripts, styles, templates, navigation,
# footers, comments and whatever is hidden. markdown-it-py parses Markdown; front matter gives the title.

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
        fields = {}
        for name, blocks in self._blocks.items():
            lines = (" ".join("".join(parts).split()) for parts in blocks)
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
    parts = {"title": name, "headings": "\n".join(filter(None, headings)), "text": "\n".join(filter(None, body))}
    return {field: text_ for field, text_ in parts.items() if text_}


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
    texts = (html.unescape(part).strip() for part in parts)
    return "\n".join(part for part in texts if part)
