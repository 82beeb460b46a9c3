"""Serving rankers over HTTP: ``/rank``, ``/search``, ``/explain``, and a page that compares two rankers.

From inside out: ``requests`` (what a request may hold), ``rankers`` (models and retrieval functions, one interface),
``feature_labels`` (features in plain words), ``answers`` (from a request to JSON), ``service`` (which files are served;
reloading them), ``work`` (threads, with limits), ``http`` (what applications share), ``app`` (the paths of the service)
and ``server`` (sockets and signals). Starlette and uvicorn are imported by the last three only.
"""
