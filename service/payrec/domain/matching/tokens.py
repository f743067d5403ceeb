"""What a remittance text quotes: words with a digit, runs of digits, ISO 11649 references, joins of neighbours."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from typing import Final

from payrec.constants import REMITTANCE_KEYS_MAX, REMITTANCE_LENGTH_MAX, REMITTANCE_WORDS_MAX

JOIN_LENGTH_MAX: Final = 35
"""Characters of a join of words: a reference has at most 35 on the wire (ISO 20022 ``Max35Text``)."""

DIGIT_RUN_LENGTH_MIN: Final = 5
"""Digits in a row that are looked up by themselves."""

TOKEN_WORDS_MAX: Final = 4
"""Neighbouring words that are joined, as in ``INV 2024 0017 A``."""

SPANS_WORDS_MAX: Final = 24
"""Words of a text whose shape is remembered, because others have it as well."""

NOT_REFERENCE: Final = re.compile(r"[^A-Z0-9]+", re.ASCII)
"""What a normalised reference leaves out of a folded text."""

_DIGIT_RUN: Final = re.compile(rf"[0-9]{{{DIGIT_RUN_LENGTH_MIN},}}", re.ASCII)
_SEPARATOR: Final = re.compile(r"[^A-Z0-9._\-]+", re.ASCII)
_CREDITOR_REFERENCE: Final = re.compile(r"RF[0-9]{2}[A-Z0-9]{0,21}", re.ASCII)
_LETTERS: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_CAPITALS: Final = bytes(range(256)).upper()
"""Table of ``bytes.translate``."""


def fold(text: str) -> str:
    """Return the text in capitals, accents and compatibility forms split off."""
    if text.isascii():
        return text.upper()
    return unicodedata.normalize("NFKD", text).upper()


def _creditor_reference(words: list[str], start: int) -> str | None:
    """Return the ISO 11649 reference that begins at a word, printed in groups of four, if its check digits hold."""
    joined = ""
    found = None
    for word in words[start : start + 7]:
        joined += word
        if _CREDITOR_REFERENCE.fullmatch(joined) is None:
            break
        digits = "".join(str(int(c, 36)) for c in joined[4:] + joined[:4])
        if len(joined) > 4 and int(digits) % 97 == 1:
            found = joined
    return found


def _words(text: str) -> tuple[list[str], list[int], list[str]]:
    """Return the normalised words of a folded text, the places of those with a digit, and tokens of several words."""
    words: list[str] = []
    places: list[int] = []
    wholes: list[str] = []
    is_ascii = text.isascii()
    for chunk in text.split(None, REMITTANCE_WORDS_MAX)[:REMITTANCE_WORDS_MAX]:
        # Nearly every one is a single word, with marks in it at the most: two patterns less for it.
        word = chunk if chunk.isalnum() else chunk.replace("-", "").replace(".", "").replace("_", "")
        if word.isalnum() and (is_ascii or word.isascii()):
            if not word.isalpha():
                places.append(len(words))
            words.append(word)
            continue
        first = len(words)
        for part in _SEPARATOR.split(chunk):
            word = NOT_REFERENCE.sub("", part)
            if word:
                if not word.isalpha():
                    places.append(len(words))
                words.append(word)
        if len(words) > first + 1:
            wholes.append("".join(words[first:]))
    return words, places, wholes


def _plain_tokens(text: str) -> list[bytes] | None:
    """Return what ``_tokens`` does, for an ASCII text of a few words with no marks but in them; None for another one.

    Nearly every text is one of these, and it takes half the time.
    """
    plain = text.encode().translate(_CAPITALS, b"-._")
    words = plain.split()
    count = len(words)
    join = b"".join
    if count > SPANS_WORDS_MAX or b"RF" in plain or not join(words).isalnum():
        return None
    places = [at for at, word in enumerate(words) if not word.isalpha()]
    if not places:
        return []
    tokens = [words[at] for at in places]
    for at in places:
        word = words[at]
        if len(word) > DIGIT_RUN_LENGTH_MIN and not word.isdigit():
            run = word.strip(_LETTERS)
            if not run.isdigit():
                return None
            if len(run) >= DIGIT_RUN_LENGTH_MIN:
                tokens.append(run)
    joined = [join(words[span]) for span in _flat_spans(count, tuple(places))]
    tokens += joined if len(plain) <= JOIN_LENGTH_MAX else [t for t in joined if len(t) <= JOIN_LENGTH_MAX]
    return tokens


def _tokens(text: str) -> list[str]:
    """Return the tokens of a remittance text: words, written-together words, digit runs, ISO 11649, then joins."""
    folded = fold(text)
    words, places, wholes = _words(folded)
    tokens = [words[at] for at in places]
    if wholes:
        tokens += [whole for whole in wholes if not whole.isalpha()]
    for at in places:
        word = words[at]
        if len(word) > DIGIT_RUN_LENGTH_MIN and not word.isdigit():
            tokens += _DIGIT_RUN.findall(word)
    if "RF" in (folded if text.isascii() else text.upper()):
        tokens += [
            reference
            for at in places
            if words[at].startswith("RF") and (reference := _creditor_reference(words, at)) is not None
        ]
    count = len(words)
    if places:
        join = "".join
        spans = _spans if count <= SPANS_WORDS_MAX else _spans.__wrapped__
        for of_size in spans(count, tuple(places)):
            if len(tokens) >= 4 * REMITTANCE_KEYS_MAX:
                break
            tokens += [token for span in of_size if len(token := join(words[span])) <= JOIN_LENGTH_MAX]
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


@lru_cache(maxsize=4096)
def _flat_spans(count: int, places: tuple[int, ...]) -> list[slice]:
    return [span for of_size in _spans(count, places) for span in of_size]


def tokens_of(remittance: str) -> list[bytes]:
    """Return the tokens of a remittance text, best first: some of them twice, some too short."""
    text = remittance[:REMITTANCE_LENGTH_MAX]
    tokens = _plain_tokens(text) if text.isascii() else None
    return [token.encode() for token in _tokens(text)] if tokens is None else tokens
