"""Judging documents by hand: what to judge, a page to judge with, and files that hold every judgement.

From inside out: ``records`` (the files of judges, and their qrels), ``pool`` (which documents, from which rankers,
and in which order), ``stopping`` (when two rankers differ), ``session`` (one judge at work) and ``app`` (HTTP, over
:mod:`rankwright.serving`).
"""
