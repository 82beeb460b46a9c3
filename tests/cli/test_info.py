import json
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from rankwright import RankingData, write_data
from rankwright.cli import info
from rankwright.cli.main import main
from rankwright.data.summary import summarize

LETOR = "2 qid:b 1:0.5 2:0.5 3:5\n0 qid:b 1:1 2:1 3:5\n0 qid:a 3:5\n"


def show(tmp_path, capsys, text, *options):
    path = tmp_path / "a"
    path.write_text(text)
    assert main(["info", str(path), *options]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return out


def entries(out):
    """The entries by name, white space made single."""
    return {line[2:17].strip(): " ".join(line[17:].split()) for line in out.splitlines()[2:]}


def test_features(tmp_path, capsys):
    out = show(tmp_path, capsys, LETOR)
    assert out.startswith(f"{tmp_path / 'a'}  LETOR text\n\n")
    found = entries(out)
    assert found["queries"] == "2"
    assert found["documents"] == "3"
    assert found["per query"] == "mean 1.5, median 1.5, min 1, max 2"
    assert found["features"] == "3 dense, 77.8% of the values not 0"
    assert found["values"] == "0 to 5"
    assert found["constant"] == "1: f3"
    assert found["duplicates"] == "1: f1 = f2"
    assert found["labels"].startswith("0 2 66.7% █")
    assert found["no relevant"] == "1 of 2 queries (50.0%)"
    assert found["all relevant"] == "0 queries"


def test_json_of_features(tmp_path, capsys):
    found = json.loads(show(tmp_path, capsys, LETOR, "--json"))
    assert list(found)[:3] == ["path", "format", "queries"]
    assert (found["format"], found["queries"], found["documents"], found["features"]) == ("letor", 2, 3, 3)
    assert found["labels"] == [{"label": 0, "documents": 2}, {"label": 2, "documents": 1}]
    assert found["duplicate_features"] == [["f1", "f2"]]


@pytest.mark.parametrize("name", ["b.parquet", "b.rank"])
def test_stored_features_show_their_type(tmp_path, capsys, name):
    if name == "b.parquet":
        pytest.importorskip("pyarrow")
    data = RankingData.from_arrays(np.eye(3, dtype=np.float32), [0, 1, 0], [1, 1, 1], doc_ids=["a", "b", "c"])
    write_data(data, tmp_path / name)
    assert main(["info", str(tmp_path / name)]) == 0
    found = entries(capsys.readouterr().out)
    assert found["features"] == "3 dense float32, 33.3% of the values not 0"
    assert found["document ids"] == "yes"


def test_qrels(tmp_path, capsys):
    text = "1 0 a 0\n1 0 b 2\n2 0 a 0\n"
    found = entries(show(tmp_path, capsys, text))
    assert found["judgements"] == "3"
    assert found["no relevant"] == "1 of 2 queries (50.0%)"
    found = json.loads(show(tmp_path, capsys, text, "--json"))
    assert (found["format"], found["documents"]) == ("qrels", 3)


def test_run(tmp_path, capsys):
    text = "1 Q0 a 1 2.5 t\n1 Q0 b 2 2.5 t\n1 Q0 c 3 1 t\n2 Q0 a 1 1 t\n"
    found = entries(show(tmp_path, capsys, text))
    assert found["scores"] == "1 to 2.5"
    assert found["tied scores"].startswith("50.0%")
    assert json.loads(show(tmp_path, capsys, text, "--json"))["tied_share"] == 0.5


def test_scores(tmp_path, capsys):
    found = entries(show(tmp_path, capsys, "1\n2\n2\n"))
    assert found["scores"] == "3, 2 of them distinct"
    assert json.loads(show(tmp_path, capsys, "1\n2\n2\n", "--json"))["distinct"] == 2


def test_groups_and_negative_labels(tmp_path, capsys):
    (tmp_path / "sizes").write_text("1\n1\n")
    options = ("--group", str(tmp_path / "sizes"), "--negative-as-zero")
    assert entries(show(tmp_path, capsys, "1 1:1\n-1 1:2\n", *options))["queries"] == "2"


def test_many_names_are_cut_short_for_people_only(tmp_path, capsys):
    text = "1 qid:1 " + " ".join(f"{at}:1" for at in range(1, 31)) + "\n"
    assert entries(show(tmp_path, capsys, text))["constant"].endswith("f12 and 18 more (--json lists all)")
    assert len(json.loads(show(tmp_path, capsys, text, "--json"))["constant_features"]) == 30


def test_many_equal_features_are_counted(tmp_path, capsys):
    text = "1 qid:1 " + " ".join(f"{at}:1" for at in range(1, 9)) + "\n0 qid:1 1:0\n"
    assert entries(show(tmp_path, capsys, text))["duplicates"] == "1: f1 = f2 = f3 = 5 others"


def test_many_labels_are_put_into_ranges(tmp_path, capsys):
    out = show(tmp_path, capsys, "".join(f"1 0 d{at} {at}\n" for at in range(101)))
    assert entries(out)["labels"].startswith("0 to 10 10 9.9% █")
    assert len(out.splitlines()) == 2 + 3 + 10 + 2


def wide_console(**options):
    data = RankingData.from_arrays(
        np.ones((2, 12)), [0, 1], [1, 1], feature_names=[f"[b]name-{at}" for at in range(12)]
    )
    console = Console(file=StringIO(), highlight=False, soft_wrap=True, **options)
    info._show(console, Path("a"), "folder", summarize(data))
    return console.file.getvalue()


def test_long_lines_wrap_on_a_terminal_and_stay_whole_in_a_pipe():
    piped = wide_console(width=60)
    assert "\x1b" not in piped
    assert ", ".join(f"[b]name-{at}" for at in range(12)) in piped
    terminal = wide_console(width=60, force_terminal=True, color_system=None)
    assert max(len(line) for line in terminal.splitlines()) <= 60
    assert all(f"[b]name-{at}" in terminal for at in range(12))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty; expected LETOR lines"),
        ("hello\n", "a:1: a line of an unknown format"),
        ("1 0 d x\n", "a:1: a line of an unknown format"),
        ("1 qid:1 1:x\n", "a:1: "),
        ("1 Q0 d 1 2 t\n1 Q0 d\n", "a:2: 3 fields; expected 6"),
    ],
)
def test_bad_input_is_one_line(tmp_path, capsys, text, message):
    (tmp_path / "a").write_text(text)
    assert main(["info", str(tmp_path / "a")]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("rankwright: ")
    assert err.count("\n") == 1
    assert message in err


def test_a_missing_file(tmp_path, capsys):
    assert main(["info", str(tmp_path / "none")]) == 2
    assert capsys.readouterr().err == f"rankwright: {tmp_path / 'none'}: cannot be read: No such file or directory\n"


PAIRS = "".join(f"{label} qid:{q} 1:{label} # docid = {q}{n}\n" for q in "abc" for n, label in enumerate([2, 1, 0, 0]))


def test_pairs(tmp_path, capsys):
    found = entries(show(tmp_path, capsys, PAIRS, "--pairs"))
    assert found["pairs"] == "15 of documents of one query with different labels"
    assert found["pairs/query"] == "mean 5, median 5, min 5, max 5"
    assert found["most pairs"] == "the tenth of the queries with most pairs has 33.3% of them"
    assert found["by labels"].startswith("2 over 1 3 20.0% █")
    assert found["by query"].startswith("0 pairs 0 0.0%")
    record = json.loads(show(tmp_path, capsys, PAIRS, "--pairs", "--json"))["pairs"]
    assert record["pairs"] == 15
    assert record["rank_pairs"][1] == {"higher": 2.0, "lower": 0.0, "pairs": 6, "queries": 3}
    assert "pairs" not in json.loads(show(tmp_path, capsys, PAIRS, "--json"))


def test_pairs_of_qrels_and_of_one_label(tmp_path, capsys):
    assert entries(show(tmp_path, capsys, "1 0 a 0\n1 0 b 2\n2 0 a 0\n", "--pairs"))["pairs"].startswith("1 of")
    found = entries(show(tmp_path, capsys, "1 qid:1 1:1\n1 qid:1 1:2\n", "--pairs"))
    assert found["by labels"] == "none"


def test_the_plot_of_the_pairs(tmp_path, capsys):
    path, plots = tmp_path / "a", [tmp_path / "p.png", tmp_path / "p.svg"]
    path.write_text(PAIRS)
    assert main(["info", str(path), "--plot", str(plots[0]), "--plot", str(plots[1])]) == 0
    out, err = capsys.readouterr()
    assert "by labels" in out
    assert err == f"wrote {plots[0]}\nwrote {plots[1]}\n"
    assert all(plot.stat().st_size > 1000 for plot in plots)


@pytest.mark.parametrize(
    ("text", "plot", "message"),
    [
        (PAIRS, "p.pdf", "p.pdf: plots end in .png or .svg, not in '.pdf'"),
        (PAIRS, "no/p.png", "no/p.png: cannot be written: the folder "),
        ("1 Q0 a 1 2.5 t\n", "p.png", "a: is a run, without labels; expected features or judgements"),
        ("0.5\n1\n", "p.png", "a: is scores, without labels; expected features or judgements"),
        ("1 qid:1 1:1\nx qid:1 1:1\n", "p.png", "a:2: "),
    ],
)
def test_what_cannot_be_plotted(tmp_path, capsys, text, plot, message):
    (tmp_path / "a").write_text(text)
    assert main(["info", str(tmp_path / "a"), "--plot", str(tmp_path / plot)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert message in err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a"]
