"""Models for other programs: written in their formats, read back and checked against the model.

A model becomes an ``ensemble``; a ``target`` refuses it or writes it (one file per target, ``to_*``; ``targets`` has
their table); ``verify`` compares the scores of the bytes, by the package that reads them or by ``consumer_rules``, with
those of the model; ``export`` puts the folder in place. For search engines, ``targets`` also exports definitions of the
model's features, by their ``counterparts`` there.
"""
