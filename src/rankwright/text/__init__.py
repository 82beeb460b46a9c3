"""From documents and queries to features and results.

From inside out: ``analysis`` (from a text to its terms), ``pages`` (HTML and Markdown), ``documents`` and ``queries``
(files), ``contents`` (the arrays of an index, and its views), ``numbers``, ``postings`` (compiled: from texts to
postings), ``writer`` and ``index``; then ``functions`` (retrieval functions), ``search``, ``features`` and ``learned``.
"""
