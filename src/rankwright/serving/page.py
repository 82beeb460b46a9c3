"""The search page: one HTML file, its style and script inside; its policy lets it talk to this service only."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from importlib import resources

from starlette.responses import Response

__all__ = ["page"]

_STYLE, _SCRIPT = "/*STYLE*/", "/*SCRIPT*/"
_STYLES = ("page.css", "lists.css")
_SCRIPTS = ("state.js", "search.js", "why.js", "keys.js")


def page() -> Response:
    """The page as an answer, with its policy."""
    text, policy = _made()
    return Response(text, media_type="text/html", headers={"Content-Security-Policy": policy})


@cache
def _made() -> tuple[str, str]:
    """The text of the page and the policy that fits it."""
    style, script = ("\n".join(map(_asset, names)) for names in (_STYLES, _SCRIPTS))
    text = _asset("page.html").replace(_STYLE, style).replace(_SCRIPT, script)
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


def _asset(name: str) -> str:
    return resources.files("rankwright.serving").joinpath(name).read_text(encoding="utf-8")
