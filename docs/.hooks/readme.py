"""Puts parts of the README into pages, so that there is one source of each.

`[[readme]]` is all before its section "Start", without the title; `[[readme Speed]]` is the section of that name.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

_DIRECTIVE = re.compile(r"^\[\[readme(?: (.+))?\]\]$", re.MULTILINE)
_PICTURE = re.compile(
    r'<picture><source media="\(prefers-color-scheme: dark\)" srcset="([^"]+)">'
    r'<img src="([^"]+)" width="[^"]+" alt="([^"]+)"></picture>'
)
_README = Path(__file__).parent.parent.parent / "README.md"


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Called by mkdocs with the text of every page."""
    return _DIRECTIVE.sub(lambda found: part(found[1]), markdown)


def part(heading: str | None) -> str:
    """Return the first screen of the README, or a section of it, with links for a page in docs/."""
    text = _README.read_text(encoding="utf-8")
    if heading is None:
        found = text.partition("\n## Start\n")[0].partition("\n")[2]
    else:
        found = re.split(r"^## ", text.partition(f"\n## {heading}\n")[2], maxsplit=1, flags=re.MULTILINE)[0]
    if not found.strip():
        raise ValueError(f"README.md has no section {heading!r}")
    found = _PICTURE.sub(_two_images, found.strip())
    return re.sub(r'(\]\(|")docs/', r"\1", found).replace("](#speed)", "](results-research.md#speed)")


def _two_images(found: re.Match[str]) -> str:
    """Return an image for each theme of the site, whose toggle a picture element does not know."""
    dark, light, text = found.groups()
    return "".join(f'<img src="{src}#only-{theme}" alt="{text}">' for src, theme in ((light, "light"), (dark, "dark")))
