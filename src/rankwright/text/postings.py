"""Compiled: texts become postings, which say which documents contain a word and how often; then these are merged.

All fields of an index share three arrays: field ``f`` and term ``t`` own the postings
``indptr[f, t]:indptr[f, t + 1]`` of ``docs`` and ``counts``, documents ascending.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from rankwright._types import Arguments, Array
from rankwright.text.analysis import START, character_classes, frozen

# The tokeniser, which counts the words of many texts at once.
#
# Texts come as UTF-8 bytes. One pass finds the words, lowercases ASCII letters on the way, looks up every word in a
# table with open addressing, gives new ones the next number, and counts: `last` says where the latest posting of a word
# was put, so a word seen again in the same text only increments a count. The tables are arrays of fixed size; when one
# is nearly full the pass stops, Python doubles it, and the pass resumes where it left off.

_ROW, _AT, _POSTINGS, _ROW_START, _BASE = range(5)  # the state of a pass
_PARTS = 4  # of a slot: bytes 1 to 8 of the word, bytes 9 to 16, its length and number + 1, its latest posting
_A, _Z, _LOWER_A, _LOWER_Z, _ZERO, _NINE, _NEWLINE = (ord(c) for c in "AZaz09\n")
_AT_ONCE, _N_MARKS = 256, 5  # words found before they are looked up, and what is kept of each
_SLOTS, _POOL = 1 << 15, 1 << 18
_NO_CLASSES = frozen(np.empty(0, np.uint8))

# Positions are unsigned: numba checks signed ones for counting from the end. (Mixed with signed numbers they would
# become floats, hence these constants.)
_U0, _U1, _U2, _U3, _U4, _U8, _U16, _U32 = (np.uint64(number) for number in (0, 1, 2, 3, 4, 8, 16, 32))
_LOW = np.uint64(0xFFFFFFFF)
_MIX, _MIX_2, _MIX_3 = (np.uint64(odd) for odd in (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9))


def _letters(separators: set[int], lower: bool) -> Array:
    """For every byte: what it becomes within a word, or -1 if it separates words."""
    letters = np.array([-1 if byte in separators else byte for byte in range(256)], np.int16)
    if lower:
        letters[_A : _Z + 1] += _LOWER_A - _A
    return letters


WORDS = _letters({byte for byte in range(128) if not chr(byte).isalnum()}, lower=True)
"""Words of text; bytes from 128 up are classified by their character."""
LINES = _letters({_NEWLINE}, lower=False)
"""Whole lines, unchanged."""


@njit(cache=True)
def _wide(data: Any, i: int, classes: Array) -> tuple[int, Any]:
    """The class of a character beyond ASCII, and its number of bytes."""
    first = np.uint64(data[i])
    second = np.uint64(data[i + _U1]) & np.uint64(0x3F)
    if first < np.uint64(0xE0):
        return classes[(first & np.uint64(0x1F)) << np.uint64(6) | second], _U2
    third = np.uint64(data[i + _U2]) & np.uint64(0x3F)
    if first < np.uint64(0xF0):
        return classes[(first & np.uint64(0x0F)) << np.uint64(12) | second << np.uint64(6) | third], _U3
    fourth = np.uint64(data[i + _U3]) & np.uint64(0x3F)
    code = (first & np.uint64(0x07)) << np.uint64(18) | second << np.uint64(12) | third << np.uint64(6) | fourth
    return classes[code], _U4


@njit(cache=True)
def _is_joint(before: int, byte: int, after: int) -> bool:
    """Whether a new word starts at ``byte``: a capital after a lower-case letter or digit, or the last of several."""
    if byte < _A or byte > _Z:
        return False
    if _LOWER_A <= before <= _LOWER_Z or _ZERO <= before <= _NINE:
        return True
    return _A <= before <= _Z and _LOWER_A <= after <= _LOWER_Z


@njit(cache=True)
def _word_start(data: Array, i: Any, stop: int, letters: Array, classes: Array) -> Any:
    """Where the next word starts, or ``stop``."""
    while i < stop:
        byte = data[i]
        if byte >= 128 and len(classes) > 0:
            kind, size = _wide(data, i, classes)
            if kind == START:
                break
            i += size
        elif letters[byte] >= 0:
            break
        else:
            i += _U1
    return i


@njit(cache=True)
def _word_end(data: Array, i: Any, stop: int, letters: Array, classes: Array, split: bool) -> Any:
    """Where the word that starts at ``i`` ends."""
    before = np.int64(0)
    while i < stop:
        byte = data[i]
        if byte >= 128 and len(classes) > 0:
            kind, size = _wide(data, i, classes)
            if kind == 0:
                break
            i += size
            before = np.int64(0)
            continue
        if letters[byte] < 0 or (split and _is_joint(before, byte, data[i + _U1] if i + _U1 < stop else 0)):
            break
        before = np.int64(byte)
        i += _U1
    return i


@njit(cache=True)
def _packed(data: Any, i: Any, end: int, letters: Any) -> tuple[Any, Any]:
    """Up to eight letters of a word from ``i`` on, packed into one number, and where they stop."""
    key = _U0
    stop = min(i + _U8, end)
    while i < stop:
        letter = letters[data[i]]
        if letter < 0:
            break
        key = key << _U8 | np.uint64(letter)
        i += _U1
    return key, i


@njit(cache=True)
def _hash(data: Array, start: int, end: int, key: int, key_2: int, letters: Array) -> Any:
    """A 32-bit hash of all letters of a word; the first sixteen are in the keys."""
    rest = _U0
    for i in range(start + _U16, end):
        rest = (rest ^ np.uint64(letters[data[i]])) * _MIX_3
    mixed = (key ^ key_2 * _MIX_2 ^ rest) * _MIX
    return ((mixed ^ mixed >> _U32 ^ (end - start)) * _MIX_2) >> _U32


@njit(cache=True)
def _scan(data: Array, i: Any, stop: Any, letters: Array, classes: Array, split: bool, words: Array) -> tuple[int, Any]:
    """Fill ``words`` with the bounds, keys and hashes of the next words; gives how many, and where they stop.

    Words are found first and looked up later so that the processor can fetch many slots at a time.
    """
    is_plain = not split and len(classes) == 0
    n = 0
    while n < len(words):
        start = i
        if is_plain:
            while start < stop and letters[data[start]] < 0:
                start += _U1
            if start == stop:
                return n, stop
            key, i = _packed(data, start, stop, letters)
            key_2, i = _packed(data, i, stop, letters)
            if i == start + _U16:
                i = _word_end(data, i, stop, letters, classes, split)
        else:
            start = _word_start(data, start, stop, letters, classes)
            if start == stop:
                return n, stop
            i = _word_end(data, start, stop, letters, classes, split)
            key, middle = _packed(data, start, i, letters)
            key_2, middle = _packed(data, middle, i, letters)
        words[n, 0], words[n, 1], words[n, 2], words[n, 3] = start, i, key, key_2
        words[n, 4] = _hash(data, start, i, key, key_2, letters)
        n += 1
    return n, i


@njit(cache=True)
def _find(data: Array, word: Array, letters: Array, slots: Array, offsets: Array, pool: Array) -> tuple[Any, bool]:
    """Where the slot of a word starts, and whether the word is in it."""
    start, size = word[0], word[1] - word[0]
    mask = (np.uint64(len(slots)) >> _U2) - _U1
    slot = word[4] & mask
    while True:
        at = slot << _U2
        term = slots[at + _U2]
        if term == _U0:
            return at, False
        if slots[at] == word[2] and slots[at + _U1] == word[3] and term >> _U32 == size:
            i = _U16
            if i < size:
                first = np.uint64(offsets[(term & _LOW) - _U1])
                while i < size and pool[first + i] == letters[data[start + i]]:
                    i += _U1
            if i >= size:
                return at, True
        slot = (slot + _U1) & mask


@njit(cache=True)
def _count(
    data: Array,
    ends: Array,
    letters: Array,
    classes: Array,
    split: bool,
    tables: tuple[Any, Any, Any],
    n_terms: int,
    state: Array,
    postings: tuple[Any, Any, Any, Any],
) -> int:
    """Process texts until all are done or a table is full; gives the number of terms known by then."""
    slots, offsets, pool = tables
    terms, counts, row_ends, lengths = postings
    words = np.empty((_AT_ONCE, _N_MARKS), np.uint64)
    row, i, n, base = state[_ROW], np.uint64(state[_AT]), np.uint64(state[_POSTINGS]), np.uint64(state[_BASE])
    row_start = np.uint64(state[_ROW_START])
    while row < len(ends):
        stop = np.uint64(ends[row])
        while i < stop:
            n_words, i = _scan(data, i, stop, letters, classes, split, words)
            for w in range(n_words):
                word = words[w]
                at, is_known = _find(data, word, letters, slots, offsets, pool)
                if not is_known:
                    first, size = np.uint64(offsets[n_terms]), word[1] - word[0]
                    if n_terms + 1 >= len(offsets) or first + size >= np.uint64(len(pool)):
                        lengths[row] += w
                        state[_ROW], state[_AT], state[_POSTINGS], state[_ROW_START] = row, word[0], n, row_start
                        return n_terms
                    for k in range(size):
                        pool[first + k] = letters[data[word[0] + k]]
                    pool[first + size] = _NEWLINE
                    n_terms += 1
                    offsets[n_terms] = first + size + _U1
                    slots[at], slots[at + _U1], slots[at + _U3] = word[2], word[3], _U0
                    slots[at + _U2] = size << _U32 | np.uint64(n_terms)
                last = slots[at + _U3]  # the number of the latest posting of this term, from 1
                if last > base + row_start:
                    counts[last - base - _U1] += 1
                else:
                    terms[n] = (slots[at + _U2] & _LOW) - _U1
                    counts[n] = 1
                    n += _U1
                    slots[at + _U3] = base + n
            lengths[row] += n_words
        row_ends[row] = row_start = n
        row += 1
    state[_ROW], state[_POSTINGS] = row, n
    return n_terms


@njit(cache=True)
def _refill(slots: Array, old: Array, offsets: Array, pool: Array, letters: Array) -> None:
    """Move the entries of a table to a larger, empty one."""
    mask = (np.uint64(len(slots)) >> _U2) - _U1
    for at in range(_U0, np.uint64(len(old)), _U4):
        term = old[at + _U2]
        if term != _U0:
            first = np.uint64(offsets[(term & _LOW) - _U1])
            slot = _hash(pool, first, first + (term >> _U32), old[at], old[at + _U1], letters) & mask
            while slots[(slot << _U2) + _U2] != _U0:
                slot = (slot + _U1) & mask
            for k in range(_U4):
                slots[(slot << _U2) + k] = old[at + k]


class Counted(NamedTuple):
    """The words of some texts: text ``r`` owns the postings ``row_ends[r-1]:row_ends[r]``."""

    terms: Array
    counts: Array
    row_ends: Array
    lengths: Array


class Lexicon:
    """All words seen so far, numbered in order of first appearance.

    `letters`: ``WORDS`` or ``LINES``. `split_identifiers`: split words at changes of case. `n_terms`: number of words.
    """

    def __init__(self, letters: Array = WORDS, split_identifiers: bool = False, slots: int = _SLOTS) -> None:
        self._letters = letters
        self._split = split_identifiers
        self._slots = np.zeros(_PARTS * slots, np.uint64)
        self._offsets = np.zeros(slots // 2 + 1, np.int64)
        self._pool = np.empty(_POOL, np.uint8)
        self._n_postings = 0
        self.n_terms = 0

    def count(self, data: bytes, ends: Array) -> Counted:
        """Count the words of texts stored back to back in ``data``, ending at ``ends``."""
        bound = self._most_words(data, len(ends))
        postings = Counted(
            np.empty(bound, np.int32),
            np.empty(bound, np.int32),
            np.empty(len(ends), np.int64),
            np.zeros(len(ends), np.int32),
        )
        letters = frozen(np.frombuffer(data, np.uint8))
        is_wide = self._letters is WORDS and not data.isascii()
        classes = character_classes() if is_wide else _NO_CLASSES
        state = np.array([0, 0, 0, 0, self._n_postings])
        while True:
            tables = (self._slots, self._offsets, self._pool)
            self.n_terms = _count(
                letters, ends, self._letters, classes, self._split, tables, self.n_terms, state, tuple(postings)
            )
            if state[_ROW] == len(ends):
                break
            self._grow(len(data))
        n = int(state[_POSTINGS])
        self._n_postings += n
        return Counted(postings.terms[:n].copy(), postings.counts[:n].copy(), postings.row_ends, postings.lengths)

    def add_lines(self, data: bytes) -> None:
        """Number the words, one per line, that have not been seen before."""
        letters, self._letters = self._letters, LINES
        self.count(data, np.array([len(data)]))
        self._letters = letters

    def lines(self) -> tuple[Array, Array]:
        """All words, each followed by a line end, and where each starts (and the last ends)."""
        offsets = self._offsets[: self.n_terms + 1]
        return self._pool[: offsets[-1]], offsets

    def words(self) -> list[str]:
        """All words, by number."""
        return self.lines()[0].tobytes().decode().split("\n")[:-1]

    def _most_words(self, data: bytes, n_texts: int) -> int:
        """An upper bound on the number of words; nothing separates two texts."""
        if self._letters is LINES:
            return n_texts + data.count(b"\n")
        return len(data) if self._split else (len(data) + n_texts) // 2

    def _grow(self, n_bytes: int) -> None:
        """Enlarge the tables that are nearly full."""
        used = int(self._offsets[self.n_terms])
        if used + n_bytes >= len(self._pool):
            self._pool = np.concatenate([self._pool[:used], np.empty(max(used, n_bytes) + n_bytes, np.uint8)])
        if self.n_terms + 1 >= len(self._offsets):
            old, self._slots = self._slots, np.zeros(2 * len(self._slots), np.uint64)
            _refill(self._slots, old, self._offsets, frozen(self._pool), LINES)
            self._offsets = np.concatenate([self._offsets, np.zeros(self.n_terms, np.int64)])


# Inverting, joining segments, merging terms

_BLOCK = 1 << 20  # postings in memory
Batch = tuple[int, int, Counted]
"""Number of the first document, number of fields, and the words: row ``d * n_fields + f`` is field f of document d."""


@dataclass(frozen=True, eq=False)
class Segment:
    """The postings of some documents.

    `terms`: the numbers of its terms, in byte order. `indptr`: field ``f`` of the term ``terms[t]`` owns the postings
    ``indptr[f, t]:indptr[f, t + 1]``. `docs`, `counts`: the postings.
    """

    terms: Array
    indptr: Array
    docs: Array
    counts: Array


@njit(cache=True)
def _sizes(terms: Array, row_ends: Array, n_fields: int, place: Array, sizes: Array) -> None:
    at = 0
    for row in range(len(row_ends)):
        field = row % n_fields
        while at < row_ends[row]:
            sizes[field, place[terms[at]]] += 1
            at += 1


@njit(cache=True)
def _scatter(
    terms: Array,
    counts: Array,
    row_ends: Array,
    n_fields: int,
    first_doc: int,
    place: Array,
    free: Array,
    out_docs: Array,
    out_counts: Array,
) -> None:
    """Put every posting into the first free slot of its field and term."""
    at = 0
    for row in range(len(row_ends)):
        doc, field = first_doc + row // n_fields, row % n_fields
        while at < row_ends[row]:
            term = place[terms[at]]
            to = free[field, term]
            free[field, term] = to + 1
            out_docs[to] = doc
            out_counts[to] = counts[at]
            at += 1


def inverted(batches: Sequence[Batch], n_fields: int, order: Array) -> Segment:
    """Invert batches; ``order`` lists the numbers of all terms known by then in byte order."""
    used = np.zeros(len(order), np.bool_)
    for _, _, words in batches:
        used[words.terms] = True
    terms = order[used[order]]
    place = np.empty(len(order), np.int64)
    place[terms] = np.arange(len(terms))
    sizes = np.zeros((n_fields, len(terms)), np.int64)
    for _, n_fields_then, words in batches:
        _sizes(words.terms, words.row_ends, n_fields_then, place, sizes)
    indptr = _indptr_of(sizes)
    n = int(indptr[-1, -1])
    docs, counts = np.empty(n, np.int32), np.empty(n, np.int32)
    free = indptr[:, :-1].copy()
    for first_doc, n_fields_then, words in batches:
        _scatter(words.terms, words.counts, words.row_ends, n_fields_then, first_doc, place, free, docs, counts)
    return Segment(terms, indptr, docs, counts)


def _indptr_of(sizes: Array) -> Array:
    """Boundaries of blocks of these sizes, row by row; each row starts where the last one ends."""
    indptr = np.zeros((sizes.shape[0], sizes.shape[1] + 1), np.int64)
    ends = np.cumsum(sizes).reshape(sizes.shape)
    indptr[:, 1:] = ends
    if sizes.shape[1]:
        indptr[1:, 0] = ends[:-1, -1]
    return indptr


@njit(cache=True)
def _place_rows(
    rows: Array, indptr: Array, docs: Array, counts: Array, free: Array, out_docs: Array, out_counts: Array
) -> None:
    """Append the postings of some terms; ``docs`` and ``counts`` hold only theirs."""
    for r in range(len(rows)):
        to = free[rows[r]]
        for at in range(indptr[r] - indptr[0], indptr[r + 1] - indptr[0]):
            out_docs[to] = docs[at]
            out_counts[to] = counts[at]
            to += 1
        free[rows[r]] = to


def joined(
    segments: Sequence[Segment], place: Array, n_fields: int, block: int = _BLOCK
) -> tuple[Array, Iterator[tuple[Array, Array]]]:
    """Join segments, each with later documents than the one before.

    `segments`: the segments. `place`: the position of every term in byte order. `n_fields`: number of fields; a segment
    may have fewer. `block`: approximate number of postings held in memory. Returns `indptr`: boundaries over all terms.
    `blocks`: the postings, block by block.
    """
    rows = [place[segment.terms] for segment in segments]
    sizes = np.zeros((n_fields, len(place)), np.int64)
    for segment, row in zip(segments, rows, strict=True):
        for field in range(len(segment.indptr)):
            sizes[field, row] += np.diff(segment.indptr[field])
    indptr = _indptr_of(sizes)
    return indptr, _joined_blocks(segments, rows, indptr, block)


def _joined_blocks(
    segments: Sequence[Segment], rows: Sequence[Array], indptr: Array, block: int
) -> Iterator[tuple[Array, Array]]:
    n_terms = indptr.shape[1] - 1
    for field in range(len(indptr)):
        first = 0
        while first < n_terms:
            limit = int(indptr[field, first]) + block
            last = max(first + 1, int(np.searchsorted(indptr[field], limit, side="right")) - 1)
            bounds = indptr[field, first : last + 1]
            n = int(bounds[-1] - bounds[0])
            docs, counts = np.empty(n, np.int32), np.empty(n, np.int32)
            free = bounds[:-1] - bounds[0]
            for segment, row in zip(segments, rows, strict=True):
                if field < len(segment.indptr):
                    a, b = np.searchsorted(row, (first, last)).tolist()
                    bounds_of_segment = np.array(segment.indptr[field, a : b + 1])
                    span = slice(int(bounds_of_segment[0]), int(bounds_of_segment[-1]))
                    arrays = np.array(segment.docs[span]), np.array(segment.counts[span])
                    _place_rows(row[a:b] - first, bounds_of_segment, *arrays, free, docs, counts)
            yield docs, counts
            first = last


def terms_by_group(groups: Array, n_groups: int) -> tuple[Array, Array]:
    """The terms of every group, ascending, and where each group starts; group -1 is left out."""
    sizes = np.bincount(groups[groups >= 0], minlength=n_groups)
    members = np.argsort(groups, kind="stable")[len(groups) - int(sizes.sum()) :]
    return members, np.concatenate([[0], np.cumsum(sizes)])


@njit(cache=True)
def _merge_runs(bounds: Array, n_runs: int, source: Array, target: Array) -> tuple[int, Any]:
    """Merge ascending runs of (document, count) pairwise until one is left; gives its length and its array."""
    while n_runs > 1:
        n = made = 0
        for run in range(0, n_runs, 2):
            a, a_stop = bounds[run], bounds[run + 1]
            b, b_stop = a_stop, bounds[min(run + 2, n_runs)]
            bounds[made] = n  # never overtakes what is still to be read
            made += 1
            while a < a_stop or b < b_stop:
                if b == b_stop or (a < a_stop and source[0, a] < source[0, b]):
                    target[0, n], target[1, n] = source[0, a], source[1, a]
                    a += 1
                elif a == a_stop or source[0, b] < source[0, a]:
                    target[0, n], target[1, n] = source[0, b], source[1, b]
                    b += 1
                else:
                    target[0, n], target[1, n] = source[0, a], source[1, a] + source[1, b]
                    a += 1
                    b += 1
                n += 1
        bounds[made] = n
        n_runs = made
        source, target = target, source
    return bounds[1], source


@njit(cache=True)
def _group_size(indptr: Array, fields: Array, members: Array) -> tuple[Any, Any]:
    """The number of postings of some terms, and of the (term, field) pairs that have any."""
    total = n_runs = np.int64(0)  # a plain 0 would make numba compile the callers twice
    for member in members:
        for field in fields:
            size = indptr[field, member + 1] - indptr[field, member]
            total += size
            n_runs += np.int64(size > 0)
    return total, n_runs


@njit(cache=True)
def _merge_dense(
    postings: Arguments, fields: Array, members: Array, sums: Array, out_docs: Array, out_counts: Array, n: int
) -> int:
    """Merge the postings of terms through a count for every document, all 0 before and after; gives the new end."""
    indptr, docs, counts = postings
    for member in members:
        for field in fields:
            for p in range(indptr[field, member], indptr[field, member + 1]):
                sums[docs[p]] += counts[p]
    for doc in range(len(sums)):
        if sums[doc] > 0:
            out_docs[n], out_counts[n] = doc, sums[doc]
            sums[doc] = 0
            n += 1
    return n


@njit(cache=True)
def _merge_sparse(
    postings: Arguments, fields: Array, members: Array, space: Arguments, out_docs: Array, out_counts: Array, n: int
) -> int:
    """Merge the postings of terms run by run; gives the new end."""
    indptr, docs, counts = postings
    bounds, source, target = space
    at = n_runs = np.int64(0)
    for member in members:
        for field in fields:
            first, stop = indptr[field, member], indptr[field, member + 1]
            if first < stop:
                bounds[n_runs] = at
                n_runs += 1
            for p in range(first, stop):
                source[0, at], source[1, at] = docs[p], counts[p]
                at += 1
    bounds[n_runs] = at
    n_merged, where = _merge_runs(bounds, n_runs, source, target)
    for p in range(n_merged):
        out_docs[n], out_counts[n] = where[0, p], where[1, p]
        n += 1
    return n


@njit(cache=True)
def _merge_groups(
    postings: Arguments,
    fields: Array,
    members: Array,
    starts: Array,
    group: int,
    space: Arguments,
    sums: Array,
    lengths: Array,
    out: Arguments,
) -> int:
    """Merge the postings of group after group, until all are done or room may run out; gives the next group."""
    indptr, docs, counts = postings
    out_docs, out_counts, sizes = out
    n = np.int64(0)
    while group < len(starts) - 1:
        of_group = members[starts[group] : starts[group + 1]]
        total, n_runs = _group_size(indptr, fields, of_group)
        room = len(out_docs) - n
        if total > room and len(lengths) > room:
            break
        begun = n
        if n_runs == 1:  # nothing to merge
            for member in of_group:
                for field in fields:
                    for p in range(indptr[field, member], indptr[field, member + 1]):
                        out_docs[n], out_counts[n] = docs[p], counts[p]
                        n += 1
        elif total > len(lengths) // 4:
            n = _merge_dense(postings, fields, of_group, sums, out_docs, out_counts, n)
        elif n_runs > 1:
            n = _merge_sparse(postings, fields, of_group, space, out_docs, out_counts, n)
        for p in range(begun, n):
            lengths[out_docs[p]] += out_counts[p]
        sizes[group] = n - begun
        group += 1
    return group


def merged(
    postings: tuple[Array, Array, Array],
    fields: Sequence[int],
    members: Array,
    starts: Array,
    lengths: Array,
    block: int = _BLOCK,
) -> Iterator[tuple[Array, Array, Array]]:
    """Merge the postings of words that share a term, and of fields.

    `postings`: ``indptr``, ``docs`` and ``counts`` of the index. `fields`: the fields to merge. `members`, `starts`:
    group ``g`` is the terms ``members[starts[g]:starts[g + 1]]``. `lengths`: one number per document, to which the
    counts are added. `block`: approximate number of postings held in memory. Yields `docs`, `counts`, `sizes`: postings
    of some groups, and how many each group has.
    """
    n_docs, n_groups = len(lengths), len(starts) - 1
    indptr, docs, counts = postings
    arrays = frozen(indptr), frozen(docs), frozen(counts)
    room = n_docs // 4 + 2
    space = (np.empty(room, np.int64), np.empty((2, room), np.int32), np.empty((2, room), np.int32))
    sums = np.zeros(n_docs, np.int32)
    sizes = np.zeros(n_groups, np.int64)
    out_docs, out_counts = (np.empty(max(block, n_docs), np.int32) for _ in range(2))
    chosen = np.array(fields, np.int64)
    group = 0
    while group < n_groups:
        out = (out_docs, out_counts, sizes)
        after = _merge_groups(arrays, chosen, members, starts, group, space, sums, lengths, out)
        merged_sizes = sizes[group:after]
        n = int(merged_sizes.sum())
        yield out_docs[:n].copy(), out_counts[:n].copy(), merged_sizes.copy()
        group = after


# No other compiled code sees postings that have not passed these checks.
_MAX = np.int64(2**31 - 1)


@njit(cache=True, nogil=True)
def first_unsound(terms: Array, indptr: Array, docs: Array, counts: Array, n_docs: int) -> int:
    """The position of the first term whose postings are not sound, or -1.

    Its documents must exist and ascend, and its counts must be at least 1. The boundaries have been checked. The loop
    has no branches, so that it is a small part of whatever is done with the postings.
    """
    for i in range(terms.size):
        start, stop = indptr[terms[i]], indptr[terms[i] + 1]
        term_docs, term_counts = docs[start:stop], counts[start:stop]
        size = term_docs.size
        if size == 0:
            continue
        if term_docs[0] < 0 or term_docs[size - 1] >= n_docs:
            return i
        wrong = np.int32(term_counts[0] < 1)
        for j in range(np.uint64(1), np.uint64(size)):
            wrong |= np.int32(term_docs[j] <= term_docs[j - np.uint64(1)]) | np.int32(term_counts[j] < 1)
        if wrong:
            return i
    return -1


@njit(cache=True, nogil=True)
def add_counts(docs: Array, counts: Array, sums: Array) -> bool:
    """Add the counts of sound postings to their documents; whether all sums stay within 32 bits."""
    for j in range(docs.size):
        total = sums[docs[j]] + np.int64(counts[j])
        if total > _MAX:
            return False
        sums[docs[j]] = total
    return True
