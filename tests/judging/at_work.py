"""A judge's session over the small index of the tests."""

from rankwright.judging.app import Texts
from rankwright.judging.needs import read_needs
from rankwright.judging.pool import make_pool
from rankwright.judging.session import Plan, Session
from rankwright.serving.service import Service
from rankwright.text.reading.queries import read_queries

TOKEN = "a-token-of-the-tests"
FUNCTIONS = ("bm25", "dirichlet", "tfidf")


def make_session(made, folder, *, judge="ann", order="depth", compare=None, depth=4, functions=FUNCTIONS):
    """A session, and what its page shows."""
    service = Service(made / "docs.index", [], functions)
    queries = read_queries(made / "queries.jsonl")
    pool = make_pool(service.state.index, queries, service.state.rankers, {}, depth)
    pool = pool if compare is None else pool.only(compare)
    session = Session(folder, judge, Plan(pool, order, 0, compare, depth))
    return session, Texts(service.state, dict(queries), read_needs(made / "queries.jsonl"))
