"""A small model of Lucene: reads the index settings that an export writes, and scores its queries on real texts.

It is written from Lucene's definitions, not from Rankwright's: words, stop words and stems by the analyser, lengths in
a byte, BM25 and scripted similarities, sums over the words of a match query.
"""

import math
import re
import unicodedata
from collections import Counter
from types import SimpleNamespace

import Stemmer

WORDS = r"[\p{L}\p{N}][\p{L}\p{N}\p{M}]*"


def words(text):
    """Return the matches of WORDS, which Python's re cannot read."""
    found, word = [], ""
    for char in text:
        kind = unicodedata.category(char)[0]
        if kind in "LN" or (kind == "M" and word):
            word += char
        elif word:
            found.append(word)
            word = ""
    return [*found, word] if word else found


def kept_length(length):
    """Return a length after a byte of Lucene held it: 24 plus a number of four significant bits."""
    rest = length - 24
    if rest < 16:
        return length
    shift = rest.bit_length() - 4
    return 24 + ((rest >> shift) << shift)


class Engine:
    """Documents in an index with given settings and mappings."""

    def __init__(self, definition, documents, *, legacy):
        self.settings, self.legacy = definition["settings"]["index"], legacy
        self.properties = definition["mappings"]["properties"]
        self.documents = documents

    def analyze(self, name, text):
        analysis = self.settings["analysis"]
        own = analysis["analyzer"][name]
        assert analysis["tokenizer"][own["tokenizer"]] == {"type": "pattern", "pattern": WORDS, "group": 0}
        found = words(text)
        for step in own["filter"]:
            kind = "lowercase" if step == "lowercase" else analysis["filter"][step]["type"]
            if kind == "lowercase":
                found = [word.lower() for word in found]
            elif kind == "stop":
                found = [word for word in found if word not in analysis["filter"][step]["stopwords"]]
            elif kind == "length":
                found = [word for word in found if len(word) >= analysis["filter"][step]["min"]]
            else:
                assert analysis["filter"][step] == {"type": "snowball", "language": "Porter"}
                found = Stemmer.Stemmer("porter").stemWords(found)
        return found

    def texts(self, field):
        """Return the texts of a field; copied ones are joined."""
        if any(field in own.get("copy_to", []) for own in self.properties.values()):
            return [" ".join(fields.values()) for fields in self.documents]
        return [fields.get(field, "") for fields in self.documents]

    def score(self, query, parameters):
        """Return the score of every document; None where the query does not match."""
        ((kind, body),) = query.items()
        if kind == "bool":
            assert body["filter"] == [{"match_all": {}}]
            parts = [self.score(part, parameters) for part in body["should"]]
            return [sum(own or 0.0 for own in scores) for scores in zip(*parts, strict=True)]
        if kind == "match":
            ((field, own),) = body.items()
            text = re.sub(r"\{\{(\w+)\}\}", lambda found: parameters[found[1]], own["query"])
            return self.match(*field.rsplit(".", 1), text, own.get("boost", 1.0))
        assert kind == "function_score"
        assert body["boost_mode"] == "replace"
        factor = body["field_value_factor"]
        field, fill = factor["field"], factor.get("missing")
        assert body["query"] == ({"exists": {"field": field}} if fill is None else {"match_all": {}})
        return [fields.get(field, fill) for fields in self.documents]

    def match(self, field, sub_field, text, boost):
        mapping = self.properties[field]["fields"][sub_field]
        similarity = self.settings["similarity"][mapping["similarity"]]
        counts = [Counter(self.analyze(mapping["analyzer"], own)) for own in self.texts(field)]
        asked = Counter(self.analyze(mapping["analyzer"], text))
        whole = SimpleNamespace(docCount=sum(map(bool, counts)), sumTotalTermFreq=sum(c.total() for c in counts))
        scores = []
        for own in counts:
            shared = [word for word in asked if own[word]]
            scores.append(None if not shared else 0.0)
            for word in shared:
                term = SimpleNamespace(
                    docFreq=sum(word in c for c in counts), totalTermFreq=sum(c[word] for c in counts)
                )
                doc = SimpleNamespace(freq=float(own[word]), length=kept_length(own.total()))
                query = SimpleNamespace(boost=boost * asked[word])
                scores[-1] += self.similarity(similarity, query, whole, term, doc)
        return scores

    def similarity(self, own, query, field, term, doc):
        if own["type"] == "scripted":
            source = own["script"]["source"]
            assert source.startswith("return ")
            assert source.endswith(";")
            return eval(source[7:-1], {"Math": math}, {"query": query, "field": field, "term": term, "doc": doc})
        assert own["type"] == "BM25"
        idf = math.log(1 + (field.docCount - term.docFreq + 0.5) / (term.docFreq + 0.5))
        k1, b = own.get("k1", 1.2), own.get("b", 0.75)
        norm = k1 * (1 - b + b * doc.length / (field.sumTotalTermFreq / field.docCount))
        return query.boost * idf * doc.freq / (doc.freq + norm) * (k1 + 1 if self.legacy else 1)
