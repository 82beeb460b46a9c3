"""A test collection: documents with fields, queries of several kinds, and graded judgements."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

from rankwright.data.trec_table import TrecTable
from rankwright.errors import InputError
from rankwright.io.files import replace_file
from rankwright.io.trec import write_qrels

_SHARES = (0.5, 0.2)  # of the queries for training and validation; the rest are for testing


@dataclass(frozen=True, eq=False)
class Collection:
    """Documents, queries and judgements.

    Attributes
    ----------
    name : str
        Name of the collection.
    documents : list of (str, dict)
        Id and fields, text by name, of every document, sorted by id.
    queries : dict of str
        The text of every query by its id.
    kinds : dict of str
        The kind of every query by its id.
    qrels : TrecTable
        Grades of the relevant documents, at least 1; all others are not relevant.
    """

    name: str
    documents: list[tuple[str, dict[str, str]]]
    queries: dict[str, str]
    kinds: dict[str, str]
    qrels: TrecTable

    def split(self, random_state: int = 0) -> tuple[list[str], list[str], list[str]]:
        """Query ids for training (half of every kind), validation (a fifth) and testing.

        Queries are drawn by a hash of ``random_state`` and the id: the order is the same everywhere and for any other
        queries; only the boundaries of the parts depend on their number.
        """
        parts: tuple[list[str], list[str], list[str]] = ([], [], [])
        for kind in sorted(set(self.kinds.values())):
            drawn = by_hash([query for query in self.queries if self.kinds[query] == kind], str(random_state))
            train, valid = (round(sum(_SHARES[:last]) * len(drawn)) for last in (1, 2))
            for part, ids in zip(parts, (drawn[:train], drawn[train:valid], drawn[valid:]), strict=True):
                part.extend(ids)
        place = {query: at for at, query in enumerate(self.queries)}
        train_ids, valid_ids, test_ids = (sorted(part, key=place.__getitem__) for part in parts)
        return train_ids, valid_ids, test_ids

    def write(self, folder: str | Path) -> None:
        """Write ``docs.jsonl``, ``queries.jsonl`` and ``qrels.txt`` to a folder, which is created if necessary.

        Lines of ``docs.jsonl`` have the id and the fields of a document, lines of ``queries.jsonl`` the id, text and
        kind of a query. Other files in the folder are not touched.
        """
        folder = Path(folder)
        is_new = not folder.exists()
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"cannot be created: {error.strerror or error}", folder) from None
        try:
            with replace_file(folder / "docs.jsonl") as docs, replace_file(folder / "queries.jsonl") as queries:
                for document, fields in self.documents:
                    docs.write(_line({"id": document, **fields}))
                for query, text in self.queries.items():
                    queries.write(_line({"id": query, "text": text, "kind": self.kinds[query]}))
                write_qrels(self.qrels, folder / "qrels.txt")
        except BaseException:
            if is_new and not any(folder.iterdir()):
                folder.rmdir()
            raise

    def __repr__(self) -> str:
        counts = (f"{len(self.documents)} documents", f"{len(self.queries)} queries", f"{self.qrels.n_docs} judgements")
        return f"Collection({self.name}: {', '.join(counts)})"


def by_hash(ids: list[str], salt: str = "") -> list[str]:
    """Ids in an order that looks random but is the same everywhere; the order of two ids depends on them alone."""
    return sorted(ids, key=lambda text: (hashlib.blake2b(f"{salt}:{text}".encode(), digest_size=8).digest(), text))


def _line(entry: dict[str, str]) -> bytes:
    return (json.dumps(entry, ensure_ascii=False) + "\n").encode("utf-8", "backslashreplace")
