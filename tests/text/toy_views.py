"""Views of a few documents, made in the plainest way."""

from collections import Counter

import numpy as np

from rankwright.text.contents import View


def view_of(documents, vocabulary=()):
    """The view of lists of words; words of ``vocabulary`` have a number even where no document holds them."""
    words = sorted({word for document in documents for word in document} | set(vocabulary))
    postings = {word: [] for word in words}
    for d, document in enumerate(documents):
        for word, count in Counter(document).items():
            postings[word].append((d, count))
    flat = [posting for word in words for posting in postings[word]]
    return View(
        {word: number for number, word in enumerate(words)},
        np.cumsum([0, *(len(postings[word]) for word in words)]),
        np.array([d for d, _ in flat], np.int32),
        np.array([count for _, count in flat], np.int32),
        np.array([len(document) for document in documents], np.int32),
        str.split,
    )


def random_documents(rng, n_docs, n_words=30, longest=40):
    """Lists of words, frequent and rare, some of them empty."""
    share = 1 / np.arange(1, n_words + 1)
    lengths = rng.integers(0, longest + 1, n_docs)
    return [[f"w{i}" for i in rng.choice(n_words, length, p=share / share.sum())] for length in lengths]


def random_query(rng, n_words=34, longest=8):
    """Words with repetition, a few of them in no document."""
    return [f"w{i}" for i in rng.integers(0, n_words, rng.integers(1, longest + 1))]
