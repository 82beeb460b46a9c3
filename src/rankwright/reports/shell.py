"""What all pages of this package share: one self-contained HTML file, whose policy forbids network access.

Style, script and data are inside. The script draws the plots from the embedded JSON, to fit the window.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from html import escape
from importlib import resources
from pathlib import Path
from typing import Any

from rankwright.data.files import replace_file
from rankwright.errors import InputError
from rankwright.reports.words import glossary

__all__ = ["CHOOSER", "check_target", "document", "figure", "side_by_side", "write_page"]

CHOOSER = (
    '<div class="chooser" hidden><label>data <select id="choose-data"></select></label>'
    '<label>measure <select id="choose-measure"></select></label></div>'
)
"""The bar that selects data set and measure; it stands before the section ``differences``."""
_STYLES = ("page.css", "plots.css", "rankings.css", "media.css")
_SCRIPTS = ("svg.js", "plots.js", "lines.js", "queries.js", "rankings.js", "report.js")


def check_target(target: Path) -> None:
    """Refuse a file that cannot be written, before anything is computed."""
    if not target.parent.is_dir():
        raise InputError("cannot be written: No such file or directory", target)


def write_page(target: Path, text: str) -> Path:
    """Write a page, which appears when it is complete."""
    with replace_file(target) as out:
        out.write(text.encode("utf-8", "replace"))
    return target


def document(heading: str, facts: Sequence[str], sections: Sequence[tuple[str, str, str]], drawn: Any) -> str:
    """The page: a heading, facts below it, and sections of a key, a name and HTML; empty ones are left out.

    Parameters
    ----------
    heading, facts
        Plain text.
    sections : sequence of (str, str, str)
        The sections. The words that they link to are explained in one more.
    drawn : object
        What the script draws, as plain lists and numbers.
    """
    words = glossary("".join(content for _, _, content in sections))
    shown = [section for section in (*sections, ("words", "Words", words)) if section[2]]
    style = "\n".join([_asset("shared.css", "rankwright"), *map(_asset, _STYLES)])
    script = '"use strict";\n(() => {\n' + "\n".join(map(_asset, _SCRIPTS)) + "})();\n"
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'sha256-{digest}'"
    links = "".join(f'<li><a href="#{key}">{escape(name)}</a></li>' for key, name, _ in shown)
    body = "".join(
        (CHOOSER if key == "differences" else "") + f'<section id="{key}" aria-labelledby="{key}-title">'
        f'<h2 id="{key}-title">{escape(name)}</h2>{content}</section>'
        for key, name, content in shown
    )
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{escape(heading)}</title>
<style>{style}</style>
</head>
<body>
<header>
<div><h1>{escape(heading)}</h1><p class="facts">{" · ".join(map(escape, facts))}</p></div>
<button type="button" id="theme" hidden>Theme: auto</button>
</header>
<div class="layout">
<nav aria-label="Contents"><details open><summary>Contents</summary><ul>{links}</ul></details></nav>
<main>
<noscript><p class="note">The plots need JavaScript. Sentences and tables do not.</p></noscript>
{body}
</main>
</div>
<div id="tip" role="status" aria-live="polite" hidden></div>
<script type="application/json" id="data">{_json(drawn)}</script>
<script>{script}</script>
</body>
</html>
"""


def figure(plot: str, caption: str, *, choose: str = "", numbers: bool = True) -> str:
    """The frame of a plot, with its buttons and the table of its numbers; filled by the script."""
    save = "".join(f'<button type="button" data-save="{kind}">{kind.upper()}</button>' for kind in ("svg", "png"))
    choice = (
        f'<label class="choice" hidden>{_CHOICES[choose]} <select data-choose="{choose}"></select></label>'
        if choose
        else ""
    )
    table = '<details class="numbers"><summary>Numbers</summary><div></div></details>' if numbers else ""
    return (
        f'<figure data-plot="{plot}"><figcaption><span>{escape(caption)}<span class="of"></span></span>'
        f'<span class="save">{save}</span>'
        f'</figcaption>{choice}<div class="canvas"></div>{table}</figure>'
    )


def side_by_side() -> str:
    """The frame of two rankings of one query; filled by the script."""
    choices = "".join(
        f'<label class="choice">{name} <select data-choose="{key}"></select></label>'
        for key, name in (("query", "query"), ("left", "left"), ("right", "right"))
    )
    return (
        '<div data-rankings hidden><h3 id="rankings" tabindex="-1">Rankings side by side</h3>'
        f'<div class="choices">{choices}</div><div class="sides" aria-live="polite"></div><p class="note"></p></div>'
    )


_CHOICES = {"method": "method", "line": "show"}


def _json(value: Any) -> str:
    """JSON that cannot close the script element around it."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _asset(name: str, package: str = "rankwright.reports") -> str:
    return resources.files(package).joinpath(name).read_text(encoding="utf-8")
