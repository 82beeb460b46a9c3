"""TREC's document files: any number of ``<DOC><DOCNO>id</DOCNO> … </DOC>``, often with no other rule.

Tags need not be closed or known. The content of ``<TITLE>`` or ``<HEADLINE>`` (also ``<HEAD>``, ``<HL>``) is the field
``title``; all other text is the field ``text``. Text outside ``<DOC>`` is ignored.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from pathlib import Path

from rankwright.data.files import Progress, Source
from rankwright.errors import InputError
from rankwright.text.reading.records import Record, Tally

__all__ = ["read_sgml"]

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
