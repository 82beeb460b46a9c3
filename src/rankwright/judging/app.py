"""The judging page over HTTP: the address holds a token that every request is checked for.

A page of another site knows neither the token nor, by the names that are allowed, a way to this service.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from rankwright.errors import InputError, shown
from rankwright.judging.records import ACTIONS, GRADES, Action, Pair
from rankwright.judging.session import Session, Stale
from rankwright.serving.http import SHARED_STYLE, Http, Notify, as_json, encoded, page_of
from rankwright.serving.requests import Limits, RequestError, json_object
from rankwright.serving.service import State
from rankwright.text.search import query_words, shorten, snippet, title_and_snippet

_SNIPPET, _TITLE = 360, 100
_LONGEST = 200_000
_LONGEST_NOTE = 2_000
_SHARED, _OWN = "rankwright.serving", "rankwright.judging"
_FILES = (
    (_OWN, "judge.html"),
    SHARED_STYLE,
    (_SHARED, "page.css"),
    (_SHARED, "lists.css"),
    (_OWN, "judge.css"),
    (_SHARED, "elements.js"),
    (_OWN, "judge.js"),
)


@dataclass(frozen=True)
class Texts:
    """What the page shows beside the session.

    `state`: index, view and analyser, for titles, snippets and texts. `queries`: the texts of the queries. `needs`:
    what lies behind them, where that is known.
    """

    state: State
    queries: Mapping[str, str]
    needs: Mapping[str, str]


def make_judging_app(
    session: Session,
    texts: Texts,
    token: str,
    limits: Limits | None = None,
    *,
    notify: Notify = lambda event: None,
    hosts: Sequence[str] | None = None,
) -> Starlette:
    """The page of a session as an ASGI application.

    `token`: first part of every path. `limits`, `notify`, `hosts`: see :func:`rankwright.serving.app.make_app`.
    """
    return _Http(session, texts, token, limits or Limits(), notify, hosts).app()


class _Http(Http):
    addresses = "the address that `rankwright judge` printed"

    def __init__(
        self, session: Session, texts: Texts, token: str, limits: Limits, notify: Notify, hosts: Sequence[str] | None
    ) -> None:
        super().__init__(limits, notify, hosts)
        self._session, self._texts, self._token = session, texts, token.encode()

    def routes(self) -> list[Route]:
        return [
            Route("/{token}/", self.handled(self._page)),
            Route("/{token}/next", self.handled(self._next)),
            Route("/{token}/document", self.handled(self._document)),
            Route("/{token}/judge", self.handled(self._judge), methods=["POST"]),
            Route("/{token}/go-on", self.handled(self._go_on), methods=["POST"]),
        ]

    def admit(self, request: Request) -> None:
        """Check the name of this machine and the token, in a time that does not depend on where it is wrong."""
        super().admit(request)
        given = str(request.path_params.get("token", "")).encode("utf-8", "replace")
        if not hmac.compare_digest(given, self._token):
            raise RequestError(f"the address is not right; expected {self.addresses}", 403)

    def path_of(self, request: Request) -> str:
        """The path without the token, which the log must not have."""
        return "/" + request.url.path.lstrip("/").partition("/")[2]

    async def _page(self, request: Request) -> Response:
        return page_of(_FILES)

    async def _next(self, request: Request) -> Response:
        return await self._answered(self._session.state)

    async def _go_on(self, request: Request) -> Response:
        await self.body(request)
        return await self._answered(self._session.go_on)

    async def _judge(self, request: Request) -> Response:
        seen, action = _action_of(await self.body(request))
        return await self._answered(lambda: self._acted(seen, action))

    def _acted(self, seen: int, action: Action) -> dict[str, Any]:
        try:
            return self._session.act(seen, action)
        except Stale as error:
            raise RequestError(error.message, 409) from None
        except InputError as error:
            if error.path is None:
                raise
            raise RequestError(f"nothing was kept: the file of judgements {error.message}", 507) from None

    async def _document(self, request: Request) -> Response:
        given = request.query_params
        pair = given.get("query", ""), given.get("document", "")
        return as_json(await self.work.run(lambda: encoded(self._document_facts(pair))))

    async def _answered(self, state: Callable[[], dict[str, Any]]) -> Response:
        return as_json(await self.work.run(lambda: encoded(self._with_texts(state()))))

    def _with_texts(self, state: dict[str, Any]) -> dict[str, Any]:
        """A state of the session, with the query and the document to judge."""
        pair = state.pop("next")
        state["query"] = state["document"] = None
        if pair is not None:
            query, document = pair
            text, need = self._texts.queries[query], self._texts.needs.get(query, "")
            state["query"] = {"id": query, "text": text, "need": need}
            state["document"] = {"id": document, **self._result(text, document)}
        return state

    def _result(self, text: str, document: str) -> dict[str, Any]:
        state = self._texts.state
        assert state.index is not None
        assert state.view is not None
        doc = state.index.find(document)
        assert doc is not None, "documents that the index lacks are not in the pool"
        words = query_words(state.view, text)
        title, part = title_and_snippet(state.index, doc, words.weights, state.analyze, _SNIPPET)
        return {"title": shorten(title, _TITLE), "snippet": part.text, "marks": part.marks}

    def _document_facts(self, pair: Pair) -> dict[str, Any]:
        """All fields of a document, matches marked."""
        query, document = pair
        state = self._texts.state
        assert state.index is not None
        assert state.view is not None
        doc = state.index.find(document)
        if query not in self._texts.queries or doc is None:
            raise RequestError("there is no such query or document", 404)
        weights = query_words(state.view, self._texts.queries[query]).weights
        fields = []
        for name in state.index.fields if state.index.has_text else ():
            text = state.index.text(doc, name)
            part = snippet(text, weights, state.analyze, _LONGEST)
            if part.text:
                fields.append({"name": name, "text": part.text, "marks": part.marks})
        return {"id": document, "fields": fields}


def _action_of(body: bytes) -> tuple[int, Action]:
    """The number of actions that the page knows of, and the action to take."""
    given = json_object(body, ("seen", "action", "query", "document", "grade", "note"))
    seen, action, grade = given.get("seen"), given.get("action"), given.get("grade")
    note = given.get("note", "")
    if not isinstance(seen, int) or isinstance(seen, bool):
        raise RequestError(f"seen is {shown(seen)}; expected a whole number")
    if action not in ACTIONS:
        raise RequestError(f"action is {shown(action)}; expected one of {', '.join(ACTIONS)}")
    for name in ("query", "document"):
        if not isinstance(given.get(name), str):
            raise RequestError(f"{name} is {shown(given.get(name))}; expected a string")
    if (action == "grade") != (type(grade) is int and grade in GRADES):
        raise RequestError(f"grade is {shown(grade)}; expected 0, 1, 2 or 3, with the action grade")
    if not isinstance(note, str) or len(note) > _LONGEST_NOTE:
        raise RequestError(f"the note is too long; expected at most {_LONGEST_NOTE:,} characters", 413)
    clean = note.encode("utf-8", "replace").decode()
    return seen, Action(action, given["query"], given["document"], grade, clean)
