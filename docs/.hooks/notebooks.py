"""Puts notebooks into pages: `[[notebook NAME.ipynb]]` becomes its cells, run from top to bottom, with what they show.

Notebooks are stored without outputs, so none can be out of date. No Jupyter is needed: the last line of a cell is shown
as Jupyter would show it, as HTML, as a picture or as text.
"""

from __future__ import annotations

import ast
import base64
import contextlib
import html
import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_DIRECTIVE = re.compile(r"^\[\[notebook ([\w-]+\.ipynb)\]\]$", re.MULTILINE)
_DOCS = Path(__file__).parent.parent


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Called by mkdocs with the text of every page."""
    return _DIRECTIVE.sub(lambda found: "\n\n".join(page_of(_DOCS / "notebooks" / found[1])), markdown)


def page_of(notebook: Path) -> Iterator[str]:
    """Yield the cells of a notebook and what they show as Markdown; without its title, which the page has."""
    names: dict[str, Any] = {"__name__": "__main__"}
    for at, (kind, source) in enumerate(cells(notebook)):
        if kind == "markdown":
            yield source.partition("\n")[2].strip() if at == 0 and source.startswith("# ") else source
            continue
        yield f"```python\n{source}\n```"
        printed, value = run(source, names, f"{notebook.name}, cell {at + 1}")
        if printed:
            yield f"<pre><code>{html.escape(printed)}</code></pre>"
        if value is not None:
            yield shown(value)


def cells(notebook: Path) -> list[tuple[str, str]]:
    """Return kind and source of every cell."""
    found = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    return [(cell["cell_type"], "".join(cell["source"])) for cell in found]


def run(source: str, names: dict[str, Any], where: str) -> tuple[str, Any]:
    """Run a cell; return what it printed, and the value of its last line if that is an expression."""
    tree, value = ast.parse(source, where), None
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, where, "exec"), names)
        if last is not None:
            value = eval(compile(ast.Expression(last.value), where, "eval"), names)
    return printed.getvalue(), value


def shown(value: Any) -> str:
    """Return a value as Jupyter shows it, on one line of HTML."""
    if hasattr(value, "_repr_html_"):
        text = " ".join(value._repr_html_().split())
        text = re.sub(
            r'<style scoped>.*?</style>| border="1" class="dataframe"', "", text
        )  # pandas; the site has styles
        return f'<div style="overflow-x:auto">{text}</div>'
    if hasattr(value, "_repr_png_"):
        png, size = value._repr_png_()
        source = f"data:image/png;base64,{base64.b64encode(png).decode()}"
        return f'<p class="plot"><img alt="plot" width="{size["width"]}" src="{source}"></p>'
    return f"<pre><code>{html.escape(repr(value))}</code></pre>"
