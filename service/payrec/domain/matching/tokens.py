"""What a remittance text quotes: words with a digit, runs of digits, ISO 11649 references, joins of neighbours."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import accumulate
from typing import Final

from payrec.constants import REMITTANCE_KEYS_MAX, REMITTANCE_LENGTH_MAX, REMITTANCE_WORDS_MAX
from payrec.domain.matching.days import without_days
from payrec.domain.references import is_creditor_reference

JOIN_LENGTH_MAX: Final = 35
"""Characters of a join of words: a reference has at most 35 on the wire (ISO 20022 ``Max35Text``)."""

DIGIT_RUN_LENGTH_MIN: Final = 5
"""Digits in a row that are looked up by themselves."""

GLUED_DIGITS_MIN: Final = 6
"""Digits of a number to which the next word may be glued, as where a bank cuts texts at a width (``RE20260042VOM``)."""

TOKEN_WORDS_MAX: Final = 4
"""Neighbouring words that are joined, as in ``INV 2024 0017 A``; of a text that says nothing else, all of them are."""

SPANS_WORDS_MAX: Final = 24
"""Words of a text whose shape is remembered, because others have it as well."""

SHAPES_CACHED_MAX: Final = 1024
"""Shapes of texts that are remembered."""

SHAPE_LENGTH_MAX: Final = 256
"""Characters of a shape that is remembered."""

NOT_REFERENCE: Final = re.compile(r"[^A-Z0-9]+", re.ASCII)
"""What a normalised reference leaves out of a folded text."""

_LISTING: Final = re.compile(r"[,;+&|]+", re.ASCII)
"""What stands between the numbers of a list: what is on either side is not of one number."""

_ALONE: Final = frozenset("/,;+&|")
"""Marks that do so where they stand alone: within a word a slash is part of many numbers (``2026/00141``)."""

_DIGIT_RUN: Final = re.compile(rf"[0-9]{{{DIGIT_RUN_LENGTH_MIN},}}", re.ASCII)
_GLUED: Final = re.compile(rf"[A-Z]{{1,6}}[0-9]{{{GLUED_DIGITS_MIN},}}(?=[A-Z]{{2}})", re.ASCII)
_SEPARATOR: Final = re.compile(r"[^A-Z0-9._\-]+", re.ASCII)
_CREDITOR_REFERENCE: Final = re.compile(r"RF[0-9]{2}[A-Z0-9]{0,21}", re.ASCII)
_LETTERS: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_CAPITALS: Final = bytes(range(256)).upper()
_SHAPE: Final = bytes.maketrans(_LETTERS + b"0123456789", b"A" * 26 + b"0" * 10)
"""Tables of ``bytes.translate``."""

_MARKS: Final = b"-._"
_BLANKS: Final = b" \t\n\r\x0b\x0c"
"""What a bytes object is split at."""


def fold(text: str) -> str:
    """Return the text in capitals, accents and compatibility forms split off."""
    if text.isascii():
        return text.upper()
    return unicodedata.normalize("NFKD", text).upper()


def _creditor_references(words: list[str], start: int) -> list[str]:
    """Return the ISO 11649 references that begin at a word, printed in groups of four, whose check digits hold.

    One in 97 of the words behind a reference keeps them right (``RF18 5390 0754 7034 THANKS``): which of them was
    meant is for the items to say.
    """
    joined = ""
    found = []
    for word in words[start : start + 7]:
        joined += word
        if _CREDITOR_REFERENCE.fullmatch(joined) is None:
            break
        if is_creditor_reference(joined):
            found.append(joined)
    return found


@dataclass(slots=True)
class _Words:
    """The normalised words of a text."""

    words: list[str] = field(default_factory=list)
    places: list[int] = field(default_factory=list)
    """Of those with a digit."""
    wholes: list[str] = field(default_factory=list)
    """Tokens of several words that nothing but marks stands between."""
    walls: list[int] = field(default_factory=list)
    """Of the words before which a list goes on: none is joined with one before."""

    def add(self, word: str) -> None:
        if not word.isalpha():
            self.places.append(len(self.words))
        self.words.append(word)

    def wall(self) -> None:
        if self.words and (not self.walls or self.walls[-1] != len(self.words)):
            self.walls.append(len(self.words))


def _words(text: str) -> _Words:
    """Return the words of a folded text."""
    found = _Words()
    is_ascii = text.isascii()
    for chunk in text.split(None, REMITTANCE_WORDS_MAX)[:REMITTANCE_WORDS_MAX]:
        # Nearly every one is a single word, with marks in it at the most: two patterns less for it.
        word = chunk if chunk.isalnum() else chunk.replace("-", "").replace(".", "").replace("_", "")
        if word.isalnum() and (is_ascii or word.isascii()):
            found.add(word)
            continue
        if chunk in _ALONE:
            found.wall()
            continue
        for listed, part_of_list in enumerate(_LISTING.split(chunk)):
            if listed:
                found.wall()
            first = len(found.words)
            for part in _SEPARATOR.split(part_of_list):
                word = NOT_REFERENCE.sub("", part)
                if word:
                    found.add(word)
            if len(found.words) > first + 1:
                found.wholes.append("".join(found.words[first:]))
    return found


def _plain_tokens(text: str) -> list[bytes] | None:
    """Return what ``_tokens`` does, for an ASCII text of a few words with no marks but in them; None for another one.

    Nearly every text is one of these. Where its tokens are depends on its shape alone, and a bank writes most of its
    texts in few shapes.
    """
    plain = text.encode().translate(_CAPITALS, _MARKS)
    joined = plain.translate(None, _BLANKS)
    if not joined.isalnum() or b"RF" in plain:
        return None
    shape = plain.translate(_SHAPE)
    spans = _token_spans(shape) if len(shape) <= SHAPE_LENGTH_MAX else _token_spans.__wrapped__(shape)
    return None if spans is None else [joined[span] for span in spans]


@lru_cache(maxsize=SHAPES_CACHED_MAX)
def _token_spans(shape: bytes) -> list[slice] | None:
    """Return where the tokens are in a text without its blanks: ``shape`` has A for its letters and 0 for its digits.

    None: it has too many words, or one with several runs of digits.
    """
    words = shape.split()
    if len(words) > SPANS_WORDS_MAX:
        return None
    begins = list(accumulate(map(len, words), initial=0))
    ends = begins[1:]
    places = [at for at, word in enumerate(words) if not word.isalpha()]
    spans = [slice(begins[at], ends[at]) for at in places]
    for at in places:
        word = words[at]
        if len(word) > DIGIT_RUN_LENGTH_MIN and not word.isdigit():
            run = word.strip(b"A")
            if not run.isdigit():
                return None
            if len(run) >= DIGIT_RUN_LENGTH_MIN:
                begin = begins[at] + word.index(run)
                spans.append(slice(begin, begin + len(run)))
            if glued := _GLUED.match(word.decode()):
                spans.append(slice(begins[at], begins[at] + glued.end()))
    for of_size in _spans(len(words), tuple(places)):
        joins = (slice(begins[span.start], ends[span.stop - 1]) for span in of_size)
        spans += [span for span in joins if span.stop - span.start <= JOIN_LENGTH_MAX]
    if places and len(words) > TOKEN_WORDS_MAX and ends[-1] <= JOIN_LENGTH_MAX:
        spans.append(slice(0, ends[-1]))
    return spans


def _tokens(text: str) -> list[str]:
    """Return the tokens of a remittance text: words, what is written together, digit runs, ISO 11649, joins."""
    folded = fold(text)
    found = _words(folded)
    words, places, wholes = found.words, found.places, found.wholes
    tokens = [words[at] for at in places]
    if wholes:
        tokens += [whole for whole in wholes if not whole.isalpha()]
    for at in places:
        word = words[at]
        if len(word) > DIGIT_RUN_LENGTH_MIN and not word.isdigit():
            tokens += _DIGIT_RUN.findall(word)
            if glued := _GLUED.match(word):
                tokens.append(glued.group())
    if "RF" in folded:
        tokens += [
            reference for at in places if words[at].startswith("RF") for reference in _creditor_references(words, at)
        ]
    count = len(words)
    if places:
        join = "".join
        spans = _spans if count <= SPANS_WORDS_MAX else _spans.__wrapped__
        for of_size in spans(count, tuple(places)):
            if len(tokens) >= 4 * REMITTANCE_KEYS_MAX:
                break
            joined = [span for span in of_size if not any(span.start < at < span.stop for at in found.walls)]
            tokens += [token for span in joined if len(token := join(words[span])) <= JOIN_LENGTH_MAX]
        if count > TOKEN_WORDS_MAX and not found.walls and len(token := join(words)) <= JOIN_LENGTH_MAX:
            tokens.append(token)
    return tokens


@lru_cache(maxsize=4096)
def _spans(count: int, places: tuple[int, ...]) -> list[list[slice]]:
    """Return which of so many words are neighbours to be joined, by size: one of each is at a place, none twice."""
    found = []
    for size in range(2, min(TOKEN_WORDS_MAX, count) + 1):
        of_size = []
        unseen = 0
        for at in places:
            for start in range(max(unseen, at - size + 1), min(at, count - size) + 1):
                of_size.append(slice(start, start + size))
                unseen = start + 1
        found.append(of_size)
    return found


def tokens_of(remittance: str) -> list[bytes]:
    """Return the tokens of a remittance text, best first: some of them twice, some too short."""
    text = without_days(remittance[:REMITTANCE_LENGTH_MAX])
    tokens = _plain_tokens(text) if text.isascii() else None
    return [token.encode() for token in _tokens(text)] if tokens is None else tokens
