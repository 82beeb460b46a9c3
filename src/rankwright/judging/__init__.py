"""Judging documents by hand: what to judge, a page to judge with, and files that hold every judgement.

From inside out: ``records`` (the files of judges, and their qrels), ``pool`` (which documents, from which rankers),
``order`` (which of them next), ``stopping`` (when two rankers are told apart), ``session`` (one judge at work) and
``app`` (HTTP, with the pieces of :mod:`rankwright.serving`).
"""
