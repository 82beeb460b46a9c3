"""From text to features, stage by stage: ``reading``, ``analysis``, ``index``, ``search``.

Imports go one way. ``reading`` (documents and queries from files) and ``analysis`` (from a text to its terms) import
neither each other nor the later stages; ``index`` imports both, and ``search`` imports ``index`` and what it builds on.
"""
