"""Pages: one HTML file, its style and script inside; its policy lets it talk to this service only."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from importlib import resources

from starlette.responses import Response

__all__ = ["SHARED_STYLE", "page", "page_of"]

_STYLE, _SCRIPT = "/*STYLE*/", "/*SCRIPT*/"
_HERE = "rankwright.serving"
SHARED_STYLE = ("rankwright", "shared.css")
"""The styles of all pages."""

_FILES = ("page.html", "page.css", "lists.css", "elements.js", "state.js", "search.js", "why.js", "keys.js")


def page() -> Response:
    """The search page as an answer, with its policy."""
    return page_of((SHARED_STYLE, *((_HERE, name) for name in _FILES)))


def page_of(files: tuple[tuple[str, str], ...]) -> Response:
    """A page of several files, each a package and a name: HTML, styles and scripts, in this order."""
    text, policy = _made(files)
    return Response(text, media_type="text/html", headers={"Content-Security-Policy": policy})


@cache
def _made(files: tuple[tuple[str, str], ...]) -> tuple[str, str]:
    """The text of the page and the policy that fits it."""
    html, style, script = (
        "\n".join(_asset(*file) for file in files if file[1].endswith(ending)) for ending in (".html", ".css", ".js")
    )
    text = html.replace(_STYLE, style).replace(_SCRIPT, script)
    rules = {
        "default-src": "'none'",
        "style-src": _digest(style),
        "script-src": _digest(script),
        "connect-src": "'self'",
        "img-src": "data:",
        "base-uri": "'none'",
        "form-action": "'self'",
        "frame-ancestors": "'none'",
    }
    return text, "; ".join(f"{name} {value}" for name, value in rules.items())


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _asset(package: str, name: str) -> str:
    return resources.files(package).joinpath(name).read_text(encoding="utf-8")
