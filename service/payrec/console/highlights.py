"""Which words of both sides a match rests on: what the evidence says, found again in the texts.

Nothing is decided here. A feature of the evidence has the place that it has in the list as its label; where several
items are quoted, each has a number of its own behind it (``1.2``), so that a mark in a bank's text leads to its item.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol
from uuid import UUID

from payrec.constants import REMITTANCE_LENGTH_MAX
from payrec.domain.matching.digits import SHORT_DIGITS_MIN, reference_digits, series_digits
from payrec.domain.matching.keys import REFERENCE_LENGTH_MIN, normalise_name, normalise_reference

_WORD: Final = re.compile(r"[^\W_]+")
_DIGITS: Final = re.compile("[0-9]+")
_SHORTENED_MIN: Final = 3
"""Letters that an abbreviated word and the whole one begin with."""

_LINE_TEXTS: Final = ("remittance", "structured_reference", "end_to_end_id", "group_key")
_NAMES: Final = {"reference": ("reference", "group"), "end_to_end_id": ("end_to_end",), "group_key": ("group",)}
"""Texts by which an item is quoted, each with the features that tell of it."""
_COMPARED: Final = {"ultimate": "ultimate_counterparty_name", "text": "remittance"}
"""What was compared with an item's name by the level of it, where it was not the line's own name."""


class Weighed(Protocol):
    """A feature of the evidence."""

    feature: str
    level: str
    weight: float


class Said(Protocol):
    """What both sides say of whom the money comes from or goes to."""

    id: UUID
    counterparty_name: str | None
    counterparty_account: str | None
    end_to_end_id: str | None
    group_key: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """Why a word is marked."""

    label: str
    """The number of the evidence, with that of the item where there are several."""
    feature: str
    speaks_for: bool
    """False where the two sides say different things."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A piece of a text; all of them, one after the other, are the text."""

    text: str
    mark: Mark | None = None


@dataclass(frozen=True, slots=True)
class _Span:
    begin: int
    end: int
    mark: Mark


class Highlights:
    """The marks of one match."""

    def __init__(self, evidence: Sequence[Weighed], *, items: Sequence[Said], lines: Sequence[Said]) -> None:
        self._marks = {
            found.feature: Mark(label=str(number), feature=found.feature, speaks_for=found.weight >= 0)
            for number, found in enumerate(evidence, start=1)
        }
        level = next((found.level for found in evidence if found.feature == "name"), "")
        self._line_name = _COMPARED.get(level, "counterparty_name")
        """Where a line's name was read."""
        self._spans: dict[tuple[UUID, str], list[_Span]] = {}
        self._quotes(items, lines)
        self._words(items, lines)
        self._accounts(items, lines)

    def mark(self, feature: str) -> Mark | None:
        """Return the mark of what is no text: an amount, a day."""
        return self._marks.get(feature)

    def parts(self, row: Said, field: str) -> list[Part]:
        """Return a text of a transaction in pieces; nothing where it has none."""
        text = getattr(row, field)
        return parted(text, self._spans.get((row.id, field), ())) if text else []

    def _add(self, row: Said, field: str, begin: int, end: int, mark: Mark) -> None:
        self._spans.setdefault((row.id, field), []).append(_Span(begin, end, mark))

    def _quotes(self, items: Sequence[Said], lines: Sequence[Said]) -> None:
        """Mark what lines quote of items: each item's own texts, wherever in a line they stand."""
        texts = {
            (line.id, where): _letters(getattr(line, where, None) or "") for line in lines for where in _LINE_TEXTS
        }
        for number, item in enumerate(items, start=1):
            for field, features in _NAMES.items():
                text = getattr(item, field, None)
                found = next((self._marks[name] for name in features if name in self._marks), None)
                if not text or found is None:
                    continue
                label = f"{found.label}.{number}" if len(items) > 1 else found.label
                mark = Mark(label=label, feature=found.feature, speaks_for=found.speaks_for)
                is_quoted = False
                for line in lines:
                    for where in _LINE_TEXTS:
                        spans = _found(texts[line.id, where], normalise_reference(text))
                        if not spans and (field, where) == ("reference", "remittance"):
                            spans = in_series(getattr(line, where, None) or "", text)
                        for begin, end in spans:
                            self._add(line, where, begin, end, mark)
                            is_quoted = True
                if is_quoted:
                    self._add(item, field, 0, len(text), mark)

    def _words(self, items: Sequence[Said], lines: Sequence[Said]) -> None:
        """Mark the words that names have in common; where they differ, those that only one side has."""
        mark = self._marks.get("name")
        if mark is None:
            return
        shared, apart, words = [], [], []
        sides = (items, "counterparty_name"), (lines, self._line_name)
        for (own, field), (others, its_field) in (sides, sides[::-1]):
            known = _words_of(getattr(other, its_field) for other in others)
            for row in own:
                text = getattr(row, field)
                # A legal form is no word of a name as names are compared.
                compared = _words_of([text])
                for word in _WORD.finditer((text or "")[:REMITTANCE_LENGTH_MAX]):
                    words.append((row, field, word))
                    if _is_of(word[0], known):
                        shared.append((row, field, word))
                    elif _is_of(word[0], compared):
                        apart.append((row, field, word))
        # Names may differ in nothing but what is no word.
        for row, field, word in shared if mark.speaks_for else apart or words:
            self._add(row, field, word.start(), word.end(), mark)

    def _accounts(self, items: Sequence[Said], lines: Sequence[Said]) -> None:
        mark = self._marks.get("account")
        if mark is None:
            return
        for own, others in ((items, lines), (lines, items)):
            known = {normalise_reference(other.counterparty_account or "") for other in others} - {""}
            for row in own:
                text = row.counterparty_account or ""
                if text and known and (normalise_reference(text) in known) is mark.speaks_for:
                    self._add(row, "counterparty_account", 0, len(text), mark)


def parted(text: str, spans: Iterable[_Span]) -> list[Part]:
    """Return a text in pieces, the marked ones apart; of marks that overlap, the first and then the longest."""
    found: list[Part] = []
    at = 0
    for span in sorted(spans, key=lambda s: (s.begin, -s.end)):
        if span.begin < at:
            continue
        if span.begin > at:
            found.append(Part(text=text[at : span.begin]))
        found.append(Part(text=text[span.begin : span.end], mark=span.mark))
        at = span.end
    if at < len(text):
        found.append(Part(text=text[at:]))
    return found


def quotations(text: str, reference: str) -> list[tuple[int, int]]:
    """Return where a text quotes a reference: in whatever case, with whatever blanks and marks in it.

    It begins and ends with a word. A number alone may stand within one (``RE20260017``), but not in a longer number.
    """
    return _found(_letters(text), normalise_reference(reference))


def in_series(text: str, reference: str) -> list[tuple[int, int]]:
    """Return where a list that is written short has the last digits of a reference: nowhere if it is none of it."""
    number = reference_digits(reference)
    if number is None or number not in (series_digits(text) or ()):
        return []
    whole = str(number)[1:]
    ends = [run for run in _DIGITS.finditer(text[:REMITTANCE_LENGTH_MAX]) if whole.endswith(run[0])]
    longest = max(ends, key=lambda run: len(run[0]), default=None)
    return [] if longest is None or len(longest[0]) < SHORT_DIGITS_MIN else [longest.span()]


def _found(folded: tuple[str, list[int]], wanted: str) -> list[tuple[int, int]]:
    if len(wanted) < REFERENCE_LENGTH_MIN:
        return []
    letters, places = folded
    found: list[tuple[int, int]] = []
    at = letters.find(wanted)
    while at >= 0:
        begin, end = places[at], places[at + len(wanted) - 1] + 1
        joined_before = at > 0 and places[at - 1] == begin - 1
        joined_after = at + len(wanted) < len(letters) and places[at + len(wanted)] == end
        if wanted.isdigit():
            joined_before = joined_before and letters[at - 1].isdigit()
            joined_after = joined_after and letters[at + len(wanted)].isdigit()
        # A letter that folds to two (a ligature) is marked as a whole or not at all.
        is_cut = (at > 0 and places[at - 1] == begin) or (
            at + len(wanted) < len(letters) and places[at + len(wanted)] == end - 1
        )
        if not (joined_before or joined_after or is_cut):
            found.append((begin, end))
            at = letters.find(wanted, at + len(wanted))
        else:
            at = letters.find(wanted, at + 1)
    return found


def _letters(text: str) -> tuple[str, list[int]]:
    """Return the letters and digits of a text as references are compared, and where each of them stands."""
    letters: list[str] = []
    places: list[int] = []
    for place, character in enumerate(text[:REMITTANCE_LENGTH_MAX]):
        folded = character.upper() if character.isascii() else unicodedata.normalize("NFKD", character).upper()
        for letter in folded:
            if letter.isascii() and letter.isalnum():
                letters.append(letter)
                places.append(place)
    return "".join(letters), places


def _words_of(names: Iterable[str | None]) -> frozenset[str]:
    """Return the words of names as they are compared: without legal forms."""
    return frozenset(word for name in names if name for word in normalise_name(name).split())


def _is_of(word: str, known: frozenset[str]) -> bool:
    """Tell whether a word is one of others, abbreviated or not."""
    normal = normalise_name(word)
    return any(
        normal == other
        or (min(len(normal), len(other)) >= _SHORTENED_MIN and (normal.startswith(other) or other.startswith(normal)))
        for other in known
    )
