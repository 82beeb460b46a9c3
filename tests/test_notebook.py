"""The notebook of the documentation: stored without outputs, and every cell runs, from top to bottom."""

import json
import os
import subprocess
import sys

import pytest

from shown import DOCS, load_hook, text_of

NOTEBOOKS = sorted((DOCS / "notebooks").glob("*.ipynb"))
RUN = (
    "import sys; from pathlib import Path; from shown import load_hook\n"
    "print('\\n\\n'.join(load_hook('notebooks').page_of(Path(sys.argv[1]))))"
)


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_is_small_and_without_outputs(notebook):
    found = json.loads(notebook.read_text(encoding="utf-8"))
    assert (found["nbformat"], found["metadata"]["language_info"]["name"]) == (4, "python")
    assert len({cell["id"] for cell in found["cells"]}) == len(found["cells"])
    for cell in found["cells"]:
        assert "".join(cell["source"]).strip()
        assert cell["cell_type"] == "markdown" or (cell["outputs"], cell["execution_count"]) == ([], None)


def test_every_cell_runs_and_shows_something(tmp_path):
    folders = os.pathsep.join([str(DOCS.parent / "tests"), *sys.path])
    own = {"PYTHONPATH": folders, "TMPDIR": str(tmp_path), "MPLBACKEND": "agg"}
    notebook = DOCS / "notebooks" / "first_steps.ipynb"
    done = subprocess.run(
        [sys.executable, "-c", RUN, str(notebook)],
        cwd=tmp_path, env=os.environ | own, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    page = done.stdout
    assert page.count("data:image/png") == 3
    assert page.count("<table") >= 6
    assert "bm25 (baseline)" in page
    assert "fileinput" in page
    assert "\\end{tabular}" in page


def test_the_page_names_a_notebook_that_exists():
    page = text_of(DOCS / "notebooks" / "first-steps.md")
    (name,) = load_hook("notebooks")._DIRECTIVE.findall(page)
    assert DOCS / "notebooks" / name in NOTEBOOKS
    assert f"]({name})" in page


def test_cells_show_what_jupyter_would():
    hook = load_hook("notebooks")
    names = {}
    assert hook.run("a = 3\nprint(a)", names, "x") == ("3\n", None)
    assert hook.run("a + 1", names, "x") == ("", 4)
    assert hook.shown("<b>") == "<pre><code>&#x27;&lt;b&gt;&#x27;</code></pre>"
    with pytest.raises(ZeroDivisionError):
        hook.run("1 / 0", names, "x")
