"""Serving rankers over HTTP: ``/rank``, ``/search``, ``/explain``, and a page that compares two rankers.

From inside out: ``requests`` (what a request may hold), ``rankers`` (models and retrieval functions, one interface),
``service`` (which files are served; reloading them), ``answers`` (from a request to JSON), ``http`` (what applications
share: threads and their limits, sockets and signals) and ``app`` (the paths of the service). Starlette and uvicorn are
imported by the last two only.
"""
