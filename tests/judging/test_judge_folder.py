"""Several judges in a folder, and the qrels that they make together."""

import pytest
from tests.judging.at_work import make_session

from rankwright.errors import InputError
from rankwright.io.trec import read_qrels
from rankwright.judging.records import Action, JudgeState, check_judge, grades_of, judge_path, merged, read_folder


def of(**grades):
    return JudgeState(grades={("q", document): grade for document, grade in grades.items()})


def test_the_median_of_several_judges():
    judges = {"ann": of(a=3, b=0, c=2), "bob": of(a=1, b=0), "cyd": of(a=2)}
    assert merged(judges) == {"q": {"a": 2, "b": 0, "c": 2}}
    assert merged({"ann": of(a=3), "bob": of(a=1)}) == {"q": {"a": 1}}  # the lower one in the middle of two
    assert merged({}) == {}


def graded(qrels):
    table = read_qrels(qrels)
    bounds = table.indptr.tolist()
    return {
        (query, document.decode()): int(label)
        for query, start, stop in zip(table.query_ids.tolist(), bounds, bounds[1:], strict=False)
        for document, label in zip(table.documents[start:stop], table.values[start:stop].tolist(), strict=True)
    }


def test_two_judges_at_work(made, tmp_path):
    ann, _ = make_session(made, tmp_path, judge="ann")
    bob, _ = make_session(made, tmp_path, judge="bob b.")
    first, second, third = ann.pairs[:3]
    ann.act(0, Action("grade", *first, 3))
    bob.act(0, Action("grade", *first, 1))
    bob.act(1, Action("grade", *second, 2))
    ann.act(1, Action("cannot tell", *third))
    assert graded(tmp_path / "qrels.txt") == {first: 1, second: 2}
    bob.act(2, Action("undo", *second))
    assert graded(tmp_path / "qrels.txt") == {first: 1}
    ann.close()
    bob.close()
    assert set(read_folder(tmp_path)) == {"ann", "bob b."}
    assert grades_of(tmp_path) == {"ann": {first: 3}, "bob b.": {first: 1}}
    assert grades_of(tmp_path / "ann.jsonl") == {"ann": {first: 3}}
    assert grades_of(tmp_path / "qrels.txt") == {"qrels": {first: 1.0}}


def test_nothing_left_is_nothing_in_the_qrels(made, tmp_path):
    session, _ = make_session(made, tmp_path)
    first = session.pairs[0]
    session.act(0, Action("grade", *first, 3))
    session.act(1, Action("undo", *first))
    assert (tmp_path / "qrels.txt").read_bytes() == b""
    session.close()


def test_a_broken_file_of_another_judge_is_found_at_the_start(made, tmp_path):
    (tmp_path / "bob.jsonl").write_text("nonsense\n")
    with pytest.raises(InputError, match=r"bob.jsonl:1: not a line of JSON"):
        make_session(made, tmp_path)
    (tmp_path / "bob.jsonl").unlink()
    session, _ = make_session(made, tmp_path)  # the file of the first attempt is free again
    session.close()


def test_qrels_of_somebody_else_are_left_alone(made, tmp_path):
    (tmp_path / "qrels.txt").write_text("q 0 d 1\n")
    with pytest.raises(InputError, match="no file of a judge belongs to it"):
        make_session(made, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["qrels.txt"]
    assert (tmp_path / "qrels.txt").read_text() == "q 0 d 1\n"


@pytest.mark.parametrize("name", ["", " ann", "a/b", "../ann", ".hidden", "a\nb", "x" * 65, "a\0b"])
def test_names_that_are_no_names_of_files(name, tmp_path):
    with pytest.raises(InputError, match="--judge is"):
        judge_path(tmp_path, name)


@pytest.mark.parametrize("name", ["ann", "Ann B.", "ann@example.org", "Zoë", "42"])
def test_names_of_judges(name):
    assert check_judge(name) == name


def test_an_empty_folder(tmp_path):
    with pytest.raises(InputError, match="contains no judgements"):
        grades_of(tmp_path)
