"""Serving rankers over HTTP: ``/rank``, ``/search``, ``/explain``, and a page that compares two rankers.

From inside out: ``requests`` (what a request may hold), ``rankers`` (models and retrieval functions, one interface),
``service`` (which files are served; reloading them), ``http`` (what applications share: threads and their limits,
sockets and signals) and ``app`` (the paths of the service, and what they answer). Starlette and uvicorn are imported by
the last two only.
"""
