"""Makes the pictures of the README and of the site's first page: a ranking before and after, and a report.

    python benchmarks/pictures.py

Runs `rankwright demo` and the experiment that `rankwright experiment init` writes, in a folder that --work keeps, and
takes pictures of the search page and the report, light and dark. The query is the held-out one whose AP rises most from
BM25 to auto. Needs Chromium.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import numpy as np
from PIL import Image
from playwright.sync_api import sync_playwright

from rankwright import evaluate_run, read_queries
from rankwright.cli.main import main as rankwright

IMAGES = Path(__file__).parent.parent / "docs" / "images"
PROGRAM = "import sys; from rankwright.cli.main import program; sys.exit(program())"
WIDTH, HEIGHT, SCALE = 1000, 840, 1.5  # of the window, and device pixels for one of it
COLOURS = 64
MOST_BYTES = 150_000


def prepare(folder: Path) -> None:
    """Run the demo and the experiment, unless they are there."""
    if not (folder / "demo" / "auto.run").exists():
        call("demo", "-o", folder / "demo")
    if not (folder / "exp.toml").exists():
        call("experiment", "init", folder / "exp.toml")
    call("experiment", "run", folder / "exp.toml")
    call("experiment", "report", folder / "python-docs-results")


def call(*words: str | Path) -> None:
    """Run a command of Rankwright."""
    line = [str(word) for word in words]
    print("rankwright", *line, file=sys.stderr)
    if rankwright(line) != 0:
        raise SystemExit(1)


def largest_gain(demo: Path) -> str:
    """Return the text of the held-out query whose AP rises most; print its AP by BM25 and by auto."""
    found = [evaluate_run(demo / "qrels.txt", demo / f"{name}.run", measures=["AP"]) for name in ("bm25", "auto")]
    before, after = (one.values[:, 0] for one in found)
    at = int(np.argmax(after - before))
    queries = read_queries(demo / "collection" / "queries.jsonl")
    text = dict(zip(queries.ids, queries.texts, strict=True))[str(found[0].query_ids[at])]
    print(f"{text}: AP {before[at]:.2f} by BM25, {after[at]:.2f} by auto")
    print(f"{(after > before).sum()} of {len(after)} queries are better, {(after < before).sum()} worse")
    return text


@contextlib.contextmanager
def served(demo: Path) -> Iterator[str]:
    """Serve auto and BM25 in a process of its own; the value is the address."""
    words = ["serve", str(demo / "docs.index"), "--model", str(demo / "auto.rkw"), "--port", "0", "--quiet"]
    process = subprocess.Popen([sys.executable, "-c", PROGRAM, *words], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield process.stdout.readline().split()[-1]
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)


def take(browser: Any, address: str, wait_for: str, name: str) -> None:
    """Take a picture of the top of a page, light and dark."""
    for scheme, ending in (("light", ""), ("dark", "-dark")):
        size = {"width": WIDTH, "height": HEIGHT}
        page = browser.new_page(viewport=size, device_scale_factor=SCALE, color_scheme=scheme)
        page.goto(address)
        page.wait_for_selector(wait_for)
        picture = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
        page.close()
        path = IMAGES / f"{name}{ending}.png"
        picture.quantize(COLOURS, method=Image.Quantize.MAXCOVERAGE).save(path, optimize=True)
        print(f"{path.name}: {path.stat().st_size:,} bytes")
        if path.stat().st_size > MOST_BYTES:
            raise SystemExit(f"{path} has more than {MOST_BYTES:,} bytes")


def main() -> None:
    """Make all pictures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, help="folder for the demo and the experiment, kept for the next time")
    parser.add_argument("--chromium", help="the browser; Playwright's own if not given")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary, sync_playwright() as driver:
        folder = given.work or Path(temporary)
        prepare(folder)
        query = largest_gain(folder / "demo")
        browser = driver.chromium.launch(executable_path=given.chromium, args=["--no-sandbox"])
        with served(folder / "demo") as address:
            asked = urlencode({"q": query, "left": "bm25", "right": "auto"})
            take(browser, f"{address}?{asked}", "#lists li", "before-after")
        take(browser, (folder / "python-docs-results" / "report.html").absolute().as_uri(), "svg", "report")
        browser.close()


if __name__ == "__main__":
    main()
