"""Rows of features in JSON: flat, beside ids, and as Elasticsearch, OpenSearch and Solr log them."""

import json

import numpy as np
import pytest

from rankwright import InputError, read_data
from rankwright.io.detect import detect

ROWS = [("q1", "a", 2, 7.5, 3), ("q1", "b", 0, None, 1), ("q2", "a", 1, -1.0, 0)]


def flat(qid, docid, label, bm25, price):
    return {"qid": qid, "docid": docid, "label": label, "bm25": bm25, "price": price}


def nested(qid, docid, label, bm25, price):
    return {"qid": qid, "docid": docid, "label": label, "features": {"bm25": bm25, "price": price}}


def elastic(qid, docid, label, bm25, price):
    entries = [{"name": "bm25"} | ({} if bm25 is None else {"value": bm25}), {"name": "price", "value": price}]
    hit = {"_index": "shop", "_id": docid, "_score": 1.5, "_source": {"title": "a dress", "grade": label}}
    return {"qid": qid, **hit, "fields": {"_ltrlog": [{"main": entries}]}}


def solr(qid, docid, label, bm25, price):
    text = ",".join(f"{name}={value}" for name, value in (("bm25", bm25), ("price", price)) if value is not None)
    return {"qid": qid, "id": docid, "score": 3.2, "title": "a dress", "label": label, "[features]": text}


def lines(rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


def answers(form, wrap):
    """One answer for each query, the query beside it."""
    made = []
    for query in ("q1", "q2"):
        hits = [form(*row) for row in ROWS if row[0] == query]
        for hit in hits:
            del hit["qid"]
        made.append({"qid": query, "took": 3, **wrap(hits)})
    return made


def hits_of(hits):
    return {"hits": {"total": {"value": len(hits)}, "hits": hits}}


def docs_of(docs):
    return {"responseHeader": {"status": 0}, "response": {"numFound": len(docs), "docs": docs}}


FILES = {
    "flat lines": lines(flat(*row) for row in ROWS),
    "flat array": json.dumps([flat(*row) for row in ROWS], indent=1),
    "nested": lines(nested(*row) for row in ROWS),
    "hits on lines": lines(elastic(*row) for row in ROWS),
    "answers of Elasticsearch": lines(answers(elastic, hits_of)),
    "documents of Solr": lines(solr(*row) for row in ROWS),
    "answers of Solr": json.dumps(answers(solr, docs_of)),
}


@pytest.mark.parametrize("form", FILES)
def test_rows_are_the_same_in_every_form(tmp_path, form):
    path = tmp_path / "log"
    path.write_text(FILES[form])
    assert detect(path) == "csv"
    data = read_data(path)
    assert data.feature_names == ("bm25", "price")
    np.testing.assert_array_equal(data.X, [[7.5, 3], [np.nan, 1], [-1, 0]])
    assert data.labels.tolist() == [2, 0, 1]
    assert (data.qid.tolist(), data.doc_ids.tolist()) == (["q1", "q1", "q2"], ["a", "b", "a"])


def test_one_answer_on_several_lines_and_without_labels(tmp_path):
    answer = answers(elastic, hits_of)[0]
    for hit in answer["hits"]["hits"]:
        del hit["_source"]
    (tmp_path / "log").write_text(json.dumps(answer, indent=2))
    data = read_data(tmp_path / "log", labels="optional")
    assert (data.n_docs, data.is_labelled) == (2, False)
    with pytest.raises(InputError, match="no column for label"):
        read_data(tmp_path / "log")


def test_features_by_position(tmp_path):
    rows = [{"qid": 1, "label": 0, "features": [1.5, 2]}, {"qid": 1, "label": 1, "features": [0, 3]}]
    (tmp_path / "log").write_text(lines(rows))
    assert read_data(tmp_path / "log").X.tolist() == [[1.5, 2], [0, 3]]


def test_an_answer_does_not_say_its_query(tmp_path):
    (tmp_path / "log").write_text(lines([hits_of([elastic(*ROWS[0])])]).replace('"qid": "q1", ', ""))
    with pytest.raises(InputError, match=r'log:1: is an answer of a search engine without its query; .*"qid": 1'):
        read_data(tmp_path / "log")


def test_what_is_wrong_is_said_with_its_line(tmp_path):
    for text, message in (
        (FILES["flat lines"] + '{"qid": ', "log:4: invalid JSON"),
        (FILES["flat lines"].replace("-1.0", '"dear"'), "log:3: bm25 is 'dear', and '7.5' on line 1"),
        (FILES["flat lines"].replace('"label": 1', '"label": null'), "log:3: label is missing"),
        ('{"hits": {"hits": [3]}, "qid": 1}\n', "log:1: a hit is 3; expected an object"),
    ):
        (tmp_path / "log").write_text(text)
        with pytest.raises(InputError) as caught:
            read_data(tmp_path / "log")
        assert message in str(caught.value)


def test_features_that_only_later_rows_have(tmp_path):
    rows = [flat(*row) for row in ROWS]
    del rows[0]["price"]
    (tmp_path / "log").write_text(lines(rows))
    data = read_data(tmp_path / "log")
    np.testing.assert_array_equal(data.X, [[7.5, np.nan], [np.nan, 1], [-1, 0]])
