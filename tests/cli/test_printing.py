"""What is printed: nothing from a file reaches the terminal as a command to it."""

import io
import json
import sys
from contextlib import redirect_stderr, redirect_stdout
from html.parser import HTMLParser

import pytest
from tests.reports.results_folder import write_results

from rankwright import LinearModel, build_index
from rankwright.cli import main as program
from rankwright.cli.main import main
from rankwright.cli.printing import progress
from rankwright.errors import InputError
from rankwright.models.saving import save_model

EVIL = "e\x1b]0;title\x07\x9b31m\u202evil[/][red]\x7f"
WORD = "e\x9b31m\u202evil[/][red]\x7f"  # without what separates the columns of a TREC file


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self):
        return True


def printed(*args, terminal=True):
    """Exit code, stdout and stderr of a command."""
    out, err = (Terminal() if terminal else io.StringIO() for _ in range(2))
    with redirect_stdout(out), redirect_stderr(err):
        code = main([str(arg) for arg in args])
    return code, out.getvalue(), err.getvalue()


def harmless(text):
    """Whether there is nothing in a text but what the program itself writes."""
    for code in ("\x1b[0m", "\x1b[1m", "\x1b[2m", "\x1b[36m", "\x1b[35m"):
        text = text.replace(code, "")
    return not any(c in text for c in "\x1b\x07\x9b\u202e\x7f\r")


@pytest.fixture
def files(tmp_path):
    rows = (f"{at % 2} qid:{EVIL} 1:{at} # docid = {EVIL}{at}" for at in range(4))
    (tmp_path / "f.txt").write_text(f"# features:\t{EVIL}\n" + "\n".join(rows) + "\n")
    save_model(LinearModel([2.0], (EVIL,)), tmp_path / "m.rkw", method="svm-map", parameters={"loss": EVIL})
    (tmp_path / "q.txt").write_text(f"{WORD} 0 a 1\n{WORD} 0 b 0\n")
    (tmp_path / "r.txt").write_text(f"{WORD} Q0 a 1 0.5 x\n")
    build_index([(EVIL, {"title": f"wing {EVIL}", "text": f"a wing {EVIL} of"})], tmp_path / "d.index")
    return tmp_path


@pytest.mark.parametrize("terminal", [True, False])
@pytest.mark.parametrize(
    "command",
    [
        "info m.rkw",
        "info m.rkw --json",
        f"explain m.rkw f.txt --query {EVIL}",
        "explain m.rkw f.txt --query none",
        "search d.index wing",
        f"search d.index wing {EVIL}",
        "search d.index wing --json",
        "evaluate q.txt r.txt -q",
        "evaluate q.txt r.txt -q --json",
        f"info {EVIL}",
        f"{EVIL}",
    ],
    ids=lambda command: command.replace(EVIL, "EVIL"),
)
def test_nothing_in_a_file_reaches_the_terminal(files, monkeypatch, command, terminal):
    monkeypatch.chdir(files)
    code, out, err = printed(*command.split(" "), terminal=terminal)
    assert code in (0, 2)
    assert harmless(err)
    assert "9b31m" in out + err
    assert harmless(out)
    if "--json" in command:  # a program gets the very text
        assert json.dumps(WORD if "evaluate" in command else EVIL)[1:-1] in json.dumps(json.loads(out))


@pytest.mark.parametrize("command", ["rank m.rkw f.txt -o - --format trec", "evaluate q.txt r.txt -q --format csv"])
def test_data_for_programs_is_changed_on_a_terminal_only(files, monkeypatch, command):
    monkeypatch.chdir(files)
    code, out, _ = printed(*command.split(), terminal=False)
    assert code == 0
    assert WORD in out or EVIL in out
    assert harmless(printed(*command.split())[1])


def test_own_codes_are_for_terminals_only(files):
    for terminal in (True, False):
        _, out, _ = printed("info", files / "d.index", terminal=terminal)
        assert ("\x1b[1m" in out) == terminal
        assert not set(out) & set("\ufdd0\ufdd1\ufdd2\ufdd3\ufdd4")


def test_a_locale_without_a_character_is_no_error(files):
    raw = io.BytesIO()
    out = io.TextIOWrapper(raw, encoding="ascii")
    with redirect_stdout(out):
        assert main(["search", str(files / "d.index"), "wing"]) == 0
        out.flush()
    assert b"wing" in raw.getvalue()


def test_streams_are_as_before():
    before = sys.stdout, sys.stderr
    main(["--version"])
    assert (sys.stdout, sys.stderr) == before


def test_the_name_of_a_file_is_no_markup_in_a_bar(monkeypatch):
    from rankwright.cli import printing as module

    monkeypatch.setattr(module, "_PATIENCE", -1.0)
    err = Terminal()
    with redirect_stderr(err), progress(f"reading {EVIL}") as update:
        update(1, 2)
    assert "[/][red]" in err.getvalue()
    assert "\x07" not in err.getvalue()


def test_a_report_holds_names_as_text(tmp_path):
    evil = "</script><script>alert(1)</script><!--"
    folder = write_results(tmp_path / "results", n_queries=6, n_splits=2, data=(evil,), text=evil)
    text = (folder / "per_query.csv").read_text().replace("svm-map", evil)
    (folder / "per_query.csv").write_text(text)
    assert printed("experiment", "report", folder, "--title", evil)[0] == 0
    tags = []
    reader = HTMLParser()
    reader.handle_starttag = lambda tag, attrs: tags.append(tag)
    reader.feed((folder / "report.html").read_text())
    assert tags.count("script") == 2
    assert "alert(1)</script>" not in (folder / "report.html").read_text()


@pytest.mark.parametrize("debug", [False, True])
def test_a_bug_is_one_line_and_a_file(monkeypatch, tmp_path, debug):
    def broken(**_):
        raise KeyError("missing \x1b[31m")

    monkeypatch.setattr(program.cli, "main", broken)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setenv("RANKWRIGHT_DEBUG", "1" if debug else "")
    err = io.StringIO()
    with redirect_stderr(err):
        if debug:
            with pytest.raises(KeyError):
                program.program()
            return
        assert program.program() == 1
    (file,) = tmp_path.iterdir()
    assert err.getvalue().count("\n") == 1
    assert "bug in Rankwright" in err.getvalue()
    assert str(file) in err.getvalue()
    assert harmless(err.getvalue())
    assert "KeyError" in file.read_text()


@pytest.mark.parametrize("error", [MemoryError(), RecursionError(), InputError("bad")])
def test_what_users_can_cause_is_one_line(monkeypatch, error):
    def broken(**_):
        raise error

    monkeypatch.setattr(program.cli, "main", broken)
    code, out, err = printed()
    assert (code, out, err.count("\n")) == (2, "", 1)
