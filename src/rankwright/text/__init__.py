"""From documents and queries to features and results.

From inside out: ``analysis`` (from a text to its terms; ``tokenizer`` does so for many texts at once), ``records``,
``documents`` and ``queries`` (files), ``contents`` (the arrays of an index, and its views), ``numbers``, ``postings``,
``writer`` and ``index``; then ``functions`` (retrieval functions), ``search``, ``features`` and ``learned``.
"""
