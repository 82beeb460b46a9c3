"""Serving rankers over HTTP: ``/rank``, ``/search``, ``/explain``, and a page that compares two rankers.

From inside out: ``requests`` (what a request may hold), ``rankers`` (models and retrieval functions, one interface),
``answers`` (from a request to JSON), ``service`` (which files are served; reloading them), ``work`` (threads, with
limits), ``app`` (HTTP) and ``server`` (sockets and signals). Starlette and uvicorn are imported by the last two only.
"""
