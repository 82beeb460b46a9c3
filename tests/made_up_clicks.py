"""Made-up logs of impressions and clicks on the results of a small collection, by users who look at the top first."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np

N_SHOWN = 8


def write_log(path: Path, labels: Mapping[str, Mapping[str, int]], n_pages: int = 3000) -> None:
    """Write a log as CSV, or UBI events or queries, by the name of the file; the CSV ends with a bot's session."""
    pages = list(_pages(labels, n_pages))
    if path.name == "ubi_queries.jsonl":
        searches = [{"query_id": f"s{at}", "user_query": query} for at, (query, _, _) in enumerate(pages)]
        hits = [{"query_response_hit_ids": documents} for _, documents, _ in pages]
        _write_json(path, [one | other for one, other in zip(searches, hits, strict=True)])
    elif path.name == "ubi_events.jsonl":
        _write_json(path, [event for at, page in enumerate(pages) for event in _events(f"s{at}", *page)])
    else:
        with path.open("w", encoding="utf-8", newline="") as file:
            table = csv.writer(file)
            table.writerow(["session_id", "query_id", "doc_id", "rank", "clicked", "device"])
            for at, (query, documents, clicked) in enumerate(pages):
                rows = enumerate(zip(documents, clicked, strict=True), 1)
                table.writerows(
                    [f"s{at}", query, document, rank, int(click), "phone"] for rank, (document, click) in rows
                )
            query, documents, _ = pages[0]
            table.writerows(["bot", query, documents[at % N_SHOWN], at % N_SHOWN + 1, 1, "none"] for at in range(80))


def _pages(labels, n_pages):
    """Yield the query, the results and the clicks of every page."""
    rng = np.random.default_rng(0)
    names = sorted({document for row in labels.values() for document in row})
    queries = list(labels)
    shown = {}
    for query in queries:
        relevant = list(labels[query])[:4]
        others = [names[at] for at in rng.permutation(len(names))[:12] if names[at] not in relevant][:8]
        shown[query] = [*relevant, *others]
    for at in rng.integers(0, len(queries), n_pages):
        documents = shown[queries[at]]
        grades = np.array([labels[queries[at]].get(document, 0) for document in documents])
        order = np.argsort(-(grades + rng.normal(0, 1.5, len(grades))))[:N_SHOWN]
        chance = (0.1 + 0.3 * grades[order]) / np.arange(1, len(order) + 1)
        yield queries[at], [documents[place] for place in order], rng.random(len(order)) < chance


def _events(search, query, documents, clicked):
    for rank, (document, click) in enumerate(zip(documents, clicked, strict=True), 1):
        inside = {"object": {"object_id": document}, "position": {"ordinal": rank}}
        for action in ("impression", "click") if click else ("impression",):
            yield {"action_name": action, "query_id": search, "client_id": search, "event_attributes": inside}


def _write_json(path: Path, objects: list[dict[str, object]]) -> None:
    path.write_text("".join(json.dumps(one) + "\n" for one in objects), encoding="utf-8")
