"""Logs from files: layouts, names of columns, UBI, filters, and one clear line for what is wrong."""

import gzip
import json

import pytest
from simulated import position_users

from rankwright import ClickLog, InputError, Propensities, click_model, drop_sessions, read_clicks, read_propensities

ROWS = [("q1", "a", 1, 0, "s"), ("q1", "b", 2, 1, "s"), ("q2", "é b", 1, 1, "t")]
NAMES = ("query", "document", "position", "clicked", "session")


def as_rows(log):
    """Return the rows of a log, with ids."""
    pairs = zip(log.pair_query[log.pair], log.pair_doc[log.pair], strict=True)
    ids = [(log.query_ids[query], log.doc_ids[document]) for query, document in pairs]
    return [(*one, *rest) for one, *rest in zip(ids, log.position, log.clicks, log.shown, strict=True)]


def write(path, names, rows, mark=","):
    lines = [mark.join(map(str, row)) for row in (names, *rows)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


EXPECTED = [("q1", "a", 1, 0, 1), ("q1", "b", 2, 1, 1), ("q2", "é b", 1, 1, 1)]


@pytest.mark.parametrize("mark", [",", "\t", ";"])
def test_csv(tmp_path, mark):
    log = read_clicks(write(tmp_path / "log.csv", NAMES, ROWS, mark))
    assert as_rows(log) == EXPECTED
    assert log.page.tolist() == [0, 0, 1]


def test_gzip_quotes_and_windows_lines(tmp_path):
    text = '\ufeffquery,document,position,clicked\r\n"a, ""b""\nc",x,1,0\r\n\r\nq,y,2,1\r\n'
    (tmp_path / "log.csv.gz").write_bytes(gzip.compress(text.encode()))
    assert as_rows(read_clicks(tmp_path / "log.csv.gz")) == [('a, "b"\nc', "x", 1, 0, 1), ("q", "y", 2, 1, 1)]


def test_json_lines_and_parquet(tmp_path):
    objects = [dict(zip(NAMES, row, strict=True)) for row in ROWS]
    (tmp_path / "log.jsonl").write_text("".join(json.dumps(one) + "\n" for one in objects))
    assert as_rows(read_clicks(tmp_path / "log.jsonl")) == EXPECTED
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    parquet.write_table(arrow.Table.from_pylist(objects), tmp_path / "log.parquet")
    assert as_rows(read_clicks(tmp_path / "log.parquet")) == EXPECTED
    (tmp_path / "log.parquet").write_bytes((tmp_path / "log.parquet").read_bytes()[:100])
    with pytest.raises(InputError, match="not a complete parquet file"):
        read_clicks(tmp_path / "log.parquet")


def test_columns_by_other_names(tmp_path):
    path = write(tmp_path / "log.csv", ("Term", "URL", "Rank", "ok", "device"), [(*row[:4], "x") for row in ROWS])
    log = read_clicks(path, columns={"query": "Term", "clicked": "ok"})
    assert as_rows(log) == EXPECTED
    assert log.notes[1] == "ignored columns: device"
    with pytest.raises(
        InputError, match=r"expected one for query \(query, .*\) and clicked \(clicked, .*\), or --columns query=NAME"
    ):
        read_clicks(path)
    with pytest.raises(InputError, match="no column 'no', named for query; its columns: 'Term'"):
        read_clicks(path, columns={"query": "no"})
    with pytest.raises(InputError, match="a log has no column 'term'"):
        read_clicks(path, columns={"term": "Term"})


def test_counts_of_rows_alike_and_of_impressions(tmp_path):
    alike = write(tmp_path / "a.csv", ("query", "doc", "rank", "clicked", "count"), [("q", "d", 1, 1, 5)])
    assert as_rows(read_clicks(alike)) == [("q", "d", 1, 5, 5)]
    summed = write(tmp_path / "b.csv", ("query", "doc", "rank", "clicks", "impressions"), [("q", "d", 1, 2, 5)])
    assert as_rows(read_clicks(summed)) == [("q", "d", 1, 2, 5)]


def test_positions_from_zero(tmp_path):
    log = read_clicks(write(tmp_path / "log.csv", NAMES, [("q", "a", 0, 0, "s"), ("q", "b", 1, 1, "s")]))
    assert log.position.tolist() == [1, 2]
    assert "positions count from 0: 1 was added" in log.notes


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([("q", "a", 1, 2, "s")], "log.csv:2: clicked is 2; expected 0 or 1"),
        ([("q", "a", "x", 1, "s")], "log.csv:2: position is 'x'; expected a whole number from 1"),
        ([("q", "a", "nan", 1, "s")], "log.csv:2: position is 'nan'"),
        ([("q", "a", 1, 1, "s"), ("q", "b", 1.5, 1, "s")], "log.csv:3: position is '1.5'"),
        ([("q", "a", -1, 1, "s")], "log.csv:2: position is '-1'"),
        ([("", "a", 1, 1, "s")], "log.csv:2: query is empty"),
        ([("q", "", 1, 1, "s")], "log.csv:2: document is empty"),
        ([("q", "a", 1, 1)], "log.csv:2: 4 cells; expected 5, as in the header"),
        ([('"q', "a", 1, 1, "s")], "log.csv:2: a quotation mark is never closed"),
        ([], "log.csv: the log has no impressions"),
    ],
)
def test_what_is_wrong_has_a_line(tmp_path, rows, message):
    with pytest.raises(InputError) as error:
        read_clicks(write(tmp_path / "log.csv", NAMES, rows))
    assert message in str(error.value).replace(str(tmp_path) + "/", "")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"\xff\xfe\x00", "not valid UTF-8"),
        (b'{"query": 1\n', "invalid JSON"),
        (b'{"query": "q", "doc": "d", "rank": 1, "click": 0}\n[]\n', "expected one object per line"),
        (b"no header here\n", "expected one for query"),
        (b"a,a\n1,2\n", "2 columns are called 'a'"),
    ],
)
def test_files_that_are_no_logs(tmp_path, content, message):
    (tmp_path / "log").write_bytes(content)
    with pytest.raises(InputError, match=message):
        read_clicks(tmp_path / "log")


def event(action, search, document, ordinal=None, **more):
    attributes = {"object": {"object_id": document, "object_id_field": "sku"}}
    if ordinal is not None:
        attributes["position"] = {"ordinal": ordinal}
    return {"action_name": action, "query_id": search, "event_attributes": attributes, "client_id": "c", **more}


def write_objects(path, objects):
    path.write_text("".join(json.dumps(one) + "\n" for one in objects), encoding="utf-8")
    return path


def test_ubi_events_with_impressions(tmp_path):
    events = [
        event("impression", "s1", "a", 1, user_query="red shoes"),
        event("impression", "s1", "b", 2),
        event("add_to_cart", "s1", "b"),
        {"_index": "ubi_events", "_source": event("click", "s1", "b", 2)},  # as an export of hits has it
        event("click", "s1", "c", 3),  # shown, though no event says so
        event("click", "s1", "d"),
    ]
    log = read_clicks(write_objects(tmp_path / "ubi_events.jsonl", events))
    assert as_rows(log) == [("red shoes", "a", 1, 0, 1), ("red shoes", "b", 2, 1, 1), ("red shoes", "c", 3, 1, 1)]
    assert log.notes == (
        "UBI: 6 events, 1 of them neither impressions nor clicks",
        "ignored 1 clicks on results that were not shown and have no position",
    )


def test_ubi_queries_say_what_was_shown(tmp_path):
    events = write_objects(tmp_path / "events.jsonl", [event("click", "s1", "b")])
    queries = [
        {"query_id": "s1", "user_query": "hat", "query_response_hit_ids": ["a", "b"], "client_id": "c"},
        {"query_id": "s2", "user_query": "hat", "query_response_hit_ids": ["b", "a"], "client_id": "c"},
    ]
    log = read_clicks(events, queries=write_objects(tmp_path / "queries.jsonl", queries))
    expected = [("hat", "a", 1, 0, 1), ("hat", "b", 2, 1, 1), ("hat", "b", 1, 0, 1), ("hat", "a", 2, 0, 1)]
    assert as_rows(log) == expected
    assert log.page.tolist() == [0, 0, 1, 1]
    with pytest.raises(InputError, match="no impressions among 1 events"):
        read_clicks(events)


@pytest.mark.parametrize(
    ("objects", "message"),
    [
        ([event("click", None, "a", 1)], "events.jsonl:1: query_id is None"),
        ([event("click", "s", None, 1)], r"events.jsonl:1: the event has no event_attributes.object.object_id"),
        ([event("impression", "s", "a", 1), event("impression", "s", "b", "x")], "events.jsonl:2: position is 'x'"),
    ],
)
def test_ubi_events_that_are_wrong(tmp_path, objects, message):
    with pytest.raises(InputError, match=message):
        read_clicks(write_objects(tmp_path / "events.jsonl", objects))


def test_sessions_of_programs_are_dropped_and_said():
    people = position_users(n_pages=300).log
    assert drop_sessions(people) is people
    session = ["crawler"] * 60 + ["eager"] * 12 + ["person"] * 12
    clicked = [1] * 60 + [1] * 12 + [1] + [0] * 11
    log = ClickLog.from_columns(["q"] * 84, list(range(84)), [*range(1, 61), *range(1, 13), *range(1, 13)], clicked,
                                session=session)  # fmt: skip
    kept = drop_sessions(log)
    assert kept.n_impressions == 12
    assert kept.notes == (
        "dropped 2 of 3 sessions (72 of 84 impressions): 1 with more than 50 clicks, "
        "1 that clicked more than 90% of 10 or more results",
    )
    assert drop_sessions(log, max_clicks=100, max_share=1.0) is log
    assert drop_sessions(log, max_impressions=11).n_impressions == 0


def test_bots_bias_what_filters_leave_out():
    users = position_users(n_pages=2000)
    log = users.log
    n = 4000
    bot = ClickLog.from_columns(
        [*log.query_ids[log.pair_query[log.pair]], *["0"] * n],
        [*log.doc_ids[log.pair_doc[log.pair]], *[str(at % 8) for at in range(n)]],
        [*log.position, *[at % 5 + 1 for at in range(n)]],
        [*log.clicks, *[1] * n],
        session=[*log.session, *["bot"] * n],
    )
    biased = abs(click_model(bot).propensities.value - users.theta).max()
    cleaned = abs(click_model(drop_sessions(bot)).propensities.value - users.theta).max()
    assert cleaned < 0.08 < biased


def test_propensities_come_back(tmp_path):
    found = click_model(position_users(n_pages=2000).log).propensities
    found.write(tmp_path / "p.csv")
    again = read_propensities(tmp_path / "p.csv")
    assert again.value.tolist() == found.value.tolist()
    assert isinstance(again, Propensities)
    for text, message in [
        ("", "expected CSV with the columns position and propensity"),
        ("position,propensity\n1,2\n", "p.csv:2: propensity is '2'"),
        ("position,propensity\n1,1\n1,1\n", "p.csv:3: position is '1'"),
        ("position,propensity\nx,1\n", "p.csv:2: position is 'x'"),
    ]:
        (tmp_path / "p.csv").write_text(text)
        with pytest.raises(InputError, match=message):
            read_propensities(tmp_path / "p.csv")


def test_columns_of_different_lengths():
    with pytest.raises(InputError, match="expected one value per row"):
        ClickLog.from_columns(["q"] * 2, ["a"], [1, 2], [0, 1])
