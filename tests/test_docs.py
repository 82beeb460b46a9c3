"""The documents match the code: links, names, options, the menu of the site, examples in docstrings.

tests/test_shown.py runs the commands and the Python that they show.
"""

import doctest
import importlib
import pkgutil
import re
from functools import cache

import click
import pytest

import rankwright
from rankwright.cli.main import cli
from shown import DOCS, FILES, PAGES, ROOT, load_hook, name_of, text_of

DOCUMENTS = [*FILES, *PAGES]
MODULES = [module.name for module in pkgutil.walk_packages(rankwright.__path__, "rankwright.")]
BLOCK = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


def test_the_measure_in_the_docs_is_the_real_file():
    shown = re.search(r"```python\n(.*?)```", (DOCS / "adding-a-measure.md").read_text(), re.DOTALL)
    assert shown is not None
    assert shown[1] == (ROOT / "src" / "rankwright" / "measures" / "rbp.py").read_text()


def prose(text):
    """The text with its blocks emptied, so that lines keep their numbers."""
    return BLOCK.sub(lambda block: "\n" * block[0].count("\n"), text)


def matches(pattern, documents=DOCUMENTS, text=lambda document: document.read_text()):
    """Yield all that a pattern finds in the documents, each with its document and ``file:line``."""
    for document in documents:
        written = text(document)
        for match in re.finditer(pattern, written, re.MULTILINE | re.DOTALL):
            yield match, document, f"{name_of(document)}:{written.count(chr(10), 0, match.start()) + 1}"


def report(problems):
    """All offenders, one a line."""
    return "\n" + "\n".join(problems)


def test_links_lead_somewhere():
    problems = []
    links = matches(r"\]\(([^)#\s]*)#?([^)\s]*)\)", text=lambda document: prose(document.read_text()))
    for link, document, place in links:
        target, anchor = link.groups()
        if "://" not in target:
            path = document.parent / target if target else document
            if not path.exists() or (anchor and anchor not in anchors(path)):
                problems.append(f"{place}: {target}{anchor and '#'}{anchor}")
    assert not problems, report(problems)


@cache
def anchors(path):
    """Return the anchors of a page's headings."""
    headings = re.findall(r"^#+ (.+)$", prose(text_of(path)), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading).lower().replace(" ", "-") for heading in headings}


def test_names_in_the_documents_exist():
    names = matches(r"\brankwright\.([A-Za-z_]+)\(")
    problems = [f"{place}: {name[0]}" for name, _, place in names if not hasattr(rankwright, name[1])]
    paths = matches(r"`((?:benchmarks|experiments|src|tests|docs)/[\w./-]+)`")
    problems += [f"{place}: {path[1]}" for path, _, place in paths if not (ROOT / path[1]).exists()]
    assert not problems, report(problems)


def test_options_in_sentences_exist():
    known = known_options(cli) | {"--help"}
    spans = matches(r"`(--?[a-zA-Z][^`]*)`", text=lambda document: prose(document.read_text()))
    problems = [
        f"{place}: {option}"
        for span, _, place in spans
        for option in re.findall(r"(?<!\S)--[a-zA-Z][\w-]*", span[1])
        if option not in known
    ]
    assert not problems, report(problems)


def known_options(command):
    """Return the options of a command and its subcommands."""
    options = {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            options |= known_options(command.get_command(context, name))
    return options


def test_the_menu_lists_exactly_the_pages():
    menu = (ROOT / "mkdocs.yml").read_text().partition("\nnav:\n")[2]
    listed = re.findall(r"^ +- [^#\n]*: ([\w/.-]+\.md)$", menu, re.MULTILINE)
    assert sorted(listed) == sorted(page.relative_to(DOCS).as_posix() for page in PAGES)


def test_every_public_name_is_in_the_reference():
    hook = load_hook()
    text = "\n".join(hook.on_page_markdown(page.read_text()) for page in sorted((DOCS / "reference").glob("*.md")))
    shown = {line.removeprefix("::: ").rpartition(".")[2] for line in text.splitlines() if line.startswith("::: ")}
    assert shown >= set(rankwright.__all__) - {"__version__", *rankwright._PACKAGES}
    assert "write_report" in shown
    assert "## rankwright train" in text
    assert "[[" not in BLOCK.sub("", text)


def test_the_reference_begins_with_auto_and_lists_every_command():
    hook = load_hook()
    rankers = hook.on_page_markdown((DOCS / "reference" / "rankers.md").read_text())
    assert re.findall(r"^::: .*\.(\w+)$", rankers, re.MULTILINE)[0] == "AutoRanker"
    page = DOCS / "reference" / "commands.md"
    listed = re.findall(r"\]\(#rankwright-(\w+)\)", page.read_text())
    assert sorted(listed) == sorted(cli.list_commands(click.Context(cli)))
    assert list(dict.fromkeys(re.findall(r"^## rankwright (\w+)", text_of(page), re.MULTILINE))) == listed


def test_the_first_page_shows_the_first_screen_of_the_readme():
    hook = load_hook("readme")
    page = hook.on_page_markdown((DOCS / "index.md").read_text())
    table = re.search(r"^\| what people use.*?\n\n", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    assert table is not None
    assert table[0].replace("](docs/", "](") in page
    assert "docs/" not in page
    assert "## Start" not in page
    assert "bench_lambda_mart.py" in hook.part("Speed")
    with pytest.raises(ValueError, match="no section 'Nothing'"):
        hook.part("Nothing")


def test_pictures_of_the_first_page_are_there_and_small():
    page = load_hook("readme").part(None)
    images = re.findall(r'<img src="(images/[\w-]+\.png)#only-(light|dark)"', page)
    assert [theme for _, theme in images] == ["light", "dark"] * 2
    assert all((DOCS / name).stat().st_size < 150_000 for name, _ in images)


@pytest.mark.parametrize("name", ["results-engineers.md", "results-research.md"])
def test_figures_of_results_are_those_of_the_studies(name):
    """Numbers of three or more digits stand on a page that their row, or one above it, links to."""
    sources, checked = "", 0
    for row in re.findall(r"^\| .*\|$", (DOCS / name).read_text(), re.MULTILINE):
        links = re.findall(r"\]\(([\w/-]+\.md)", row)
        if links:
            sources = "\n".join((DOCS / path).read_text() for path in links)
        elif "`benchmarks/" in row:  # no page but the script has them
            continue
        for number in re.findall(r"(?<![\w.])(?:\d[\d,]*)?\.?\d{3,}(?![\w])", re.sub(r"\]\([^)]*\)|`[^`]*`", "", row)):
            assert number in sources, f"{number}: {row}"
            checked += 1
    assert checked > 15


def test_the_caption_of_the_pictures_agrees_with_the_demo():
    (queries, better, worse) = re.search(
        r"of (\d+) queries, (\d+) become\s+better and (\d+) worse", (ROOT / "README.md").read_text()
    ).groups()
    wins, ties, losses = re.search(
        r"^ +auto .* (\d+)/(\d+)/(\d+) ", (DOCS / "demo.md").read_text(), re.MULTILINE
    ).groups()
    assert (better, worse, int(queries)) == (wins, losses, int(wins) + int(ties) + int(losses))


def test_formulas_get_indices_and_exponents():
    hook = load_hook("formulas")
    text = "H_q(w) of s_i, 2^label, `s_i`, trec_eval, [x](a_b.md), Σ_{z_i > z_j}\n\n    s_i = 1\n\n```sh\ns_i\n```\n"
    expected = (
        "H<sub>q</sub>(w) of s<sub>i</sub>, 2<sup>label</sup>, `s_i`, trec_eval, [x](a_b.md), "
        "Σ<sub>z<sub>i</sub> > z<sub>j</sub></sub>\n\n    s_i = 1\n\n```sh\ns_i\n```\n"
    )
    assert hook.on_page_markdown(text) == expected
    rows = hook.on_page_markdown("```formula\nr < k   e^{F_c}\n        a(n)\n```\n")
    assert re.findall("<td>(.*?)</td>", rows) == [
        *("<i>r</i> &lt; <i>k</i>", "<i>e</i><sup><i>F</i><sub><i>c</i></sub></sup>"),
        *("", "a(<i>n</i>)"),
    ]


def test_formulas_are_converted_whole():
    hook = load_hook("formulas")
    formulas = matches(r"^```formula\n(.*?)^```$", PAGES)
    problems = [f"{place}: {block[1]}" for block, _, place in formulas if re.search(r"[_^{}]", hook.table(block[1]))]
    assert not problems, report(problems)


@pytest.mark.parametrize("room", sorted({name.split(".")[1] for name in MODULES}))
def test_examples_in_docstrings(room):
    names = [name for name in MODULES if name.split(".")[1] == room]
    failed = {name: doctest.testmod(importlib.import_module(name)).failed for name in names}
    problems = [f"{name}: {count} failed, see above" for name, count in failed.items() if count]
    assert not problems, report(problems)
