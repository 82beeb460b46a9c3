"""A judge's session over the small index of the tests."""

from rankwright.judging.app import Texts
from rankwright.judging.pool import JudgingPool, make_pool, read_needs
from rankwright.judging.session import JudgingPlan, Session
from rankwright.serving.service import Service
from rankwright.text.queries import read_queries

TOKEN = "a-token-of-the-tests"
FUNCTIONS = ("bm25", "dirichlet", "tfidf")


def make_session(made, folder, *, judge="ann", order="depth", compare=None, depth=4, functions=FUNCTIONS):
    """A session, and what its page shows."""
    service = Service(made / "docs.index", [], functions)
    queries = read_queries(made / "queries.jsonl")
    pool = make_pool(service.state.index, queries, service.state.rankers, {}, depth)
    pool = pool if compare is None else pool.only(compare)
    session = Session(folder, judge, JudgingPlan(pool, order, 0, compare, depth))
    return session, Texts(service.state, dict(queries), read_needs(made / "queries.jsonl"))


def compared_session(made, folder, n_queries):
    """A session that compares two rankers of one document each, what its page shows, and the document of ``good``."""
    service = Service(made / "docs.index", [], FUNCTIONS)
    texts = {f"q{number}": f"lift of wing {number}" for number in range(n_queries)}
    good = {query: f"d{number:02}" for number, query in enumerate(texts)}
    bad = {query: f"d{number + n_queries:02}" for number, query in enumerate(texts)}
    tops = {name: {query: [one] for query, one in top.items()} for name, top in (("good", good), ("bad", bad))}
    session = Session(folder, "ann", JudgingPlan(JudgingPool(1, tops), "depth", 0, ("good", "bad"), 1))
    return session, Texts(service.state, texts, {}), good
