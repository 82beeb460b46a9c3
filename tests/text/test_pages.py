"""Web pages and Markdown: what is kept, what is left out, encodings, damage."""

import sys

import pytest

from rankwright import InputError
from rankwright.errors import InputWarning
from rankwright.text.documents import read_documents
from rankwright.text.pages import decoded, html_fields, html_text, markdown_fields


@pytest.mark.parametrize(
    ("page", "fields"),
    [
        ("<title>T &amp; x</title><p>a<p>b", {"title": "T & x", "text": "a\nb"}),
        ("<p>a <b>b</b>c<i> d</i>", {"text": "a bc d"}),
        ("<h1>One</h1><p>x<h2>Two</h2>y", {"title": "One", "headings": "One\nTwo", "text": "x\ny"}),
        ("<script>var a='</p>'</script><style>p{}</style><p>x", {"text": "x"}),
        ("<nav>a<nav>b</nav>c<p>d</nav>e", {"text": "e"}),
        ("<template><p>t</template><noscript>n</noscript>x", {"text": "x"}),
        ("<p hidden>h<p>v<input hidden><span aria-hidden=true>i</span>w", {"text": "vw"}),
        ("<div style='color: red; DISPLAY : none'>h<div>h</div></div>v", {"text": "v"}),
        ("<div role=navigation>h</div><div role=main>v</div>", {"text": "v"}),
        ("<!-- c --><p>x<!-- d -->y", {"text": "xy"}),
        ("&eacute;&#8217;&nbsp;&lt;b&gt;&unknown;", {"text": "é’ <b>&unknown;"}),
        ("<ul><li>a<li>b</ul><table><tr><td>c<td>d</table>", {"text": "a\nb\nc\nd"}),
        ("<svg><title>s</title></svg><title>T</title>", {"title": "T"}),
        ("plain", {"text": "plain"}),
        ("", {}),
        ("<", {"text": "<"}),
        ("<p>a\0b", {"text": "ab"}),
        ("<script>never closed <p>x", {}),
        ("<?xml version='1.0' encoding='latin-1'?><html><body>é", {"text": "é"}),
        ("<meta charset=koi8-r><p>é", {"text": "é"}),
        ("<p>\ud800x", {"text": "?x"}),
    ],
)
def test_html(page, fields):
    assert html_fields(page) == fields


def test_deep_and_long_pages():
    assert html_fields("<div>" * 50_000 + "x") == {"text": "x"}
    assert html_fields("<nav>" * 50_000 + "x" + "</nav>" * 50_000 + "y") == {"text": "y"}
    assert len(html_text("<p>word " * 50_000).split()) == 50_000


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ("é".encode(), "é"),
        ("\ufeffé".encode(), "é"),
        ("\ufeffé".encode("utf-16-le"), "é"),
        ("\ufeffé".encode("utf-16-be"), "é"),
        (b"caf\xe9 \x80", "café €"),
        (b"<meta charset='iso-8859-1'>\xe9", "<meta charset='iso-8859-1'>é"),
        (b'<meta http-equiv=x content="text/html; charset=koi8-r">\xed', "М"),
        (b"<meta charset=shift_jis>\x83n", "ハ"),
        (b"<meta charset=nonsense>\xe9", "é"),
        (b"<meta charset=base64>\xe9", "é"),
        (b"<meta charset=utf-8>\xe9", "\ufffd"),
    ],
)
def test_encodings(data, text):
    assert decoded(data).endswith(text)


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("# One\n\nx *y* `z`\n\nTwo\n===\n", {"title": "One", "headings": "One\nTwo", "text": "x y z"}),
        ("---\ntitle: 'T'\ntags: [a]\n---\n# One\nx", {"title": "T", "headings": "One", "text": "x"}),
        ('+++\ntitle = "T"\n+++\nx', {"title": "T", "text": "x"}),
        ("---\r\nlayout: a\r\n---\r\nx", {"text": "x"}),
        ("---\nnot closed", {"text": "not closed"}),
        ("[a](https://b.c) ![d](e.png) <https://f.g>", {"text": "a d https://f.g"}),
        ("```sh\nls -l\n```\n\n    code", {"text": "ls -l\ncode"}),
        ("<!-- c -->\n\n<div>raw <b>x</b></div>\n", {"text": "raw x"}),
        ("a\nb  \nc", {"text": "a b c"}),
        ("- a\n- b\n\n| c | d |\n|---|---|\n| e | f |\n", {"text": "a\nb\nc\nd\ne\nf"}),
        ("", {}),
    ],
)
def test_markdown(text, fields):
    assert markdown_fields(text) == fields


def test_a_folder_of_pages(tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "a b.HTML").write_bytes(b"<title>A</title><p>caf\xe9")
    (tmp_path / "sub" / "b.md").write_text("# B\ntext")
    (tmp_path / "c.txt").write_text("plain")
    (tmp_path / "d.css").write_text("p {}")
    (tmp_path / "e.png").write_bytes(b"\x89PNG\xff\0")
    with pytest.warns(InputWarning, match=r"skipped 2 files that are not pages \(1 .css, 1 .png\)"):
        found = dict(read_documents(tmp_path))
    assert found == {
        "a_b.HTML": {"title": "A", "text": "café"},
        "c.txt": {"text": "plain"},
        "sub/b.md": {"title": "B", "headings": "B", "text": "text"},
    }
    assert dict(read_documents(tmp_path / "a b.HTML")) == {"a_b.HTML": {"title": "A", "text": "café"}}


def test_a_page_by_its_first_bytes(tmp_path):
    (tmp_path / "page").write_text("<!DOCTYPE html><title>A</title>")
    assert dict(read_documents(tmp_path / "page")) == {"page": {"title": "A"}}


def test_without_the_parser(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "lxml.etree", None)
    (tmp_path / "a.html").write_text("x")
    with pytest.raises(InputError, match=r"this needs lxml; install it with: pip install 'rankwright\[html\]'"):
        list(read_documents(tmp_path))
