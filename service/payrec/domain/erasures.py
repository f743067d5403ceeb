"""What an erasure looks for in a text, and what it leaves of it.

A name is looked for as a sequence of words, however it is written: capitals, accents, ``UE`` for ``Ü``, marks between
words, and a surname before what comes first elsewhere. An account number is looked for without its blanks and marks.
Legal forms count: what matching takes for one counterparty may be two, and what is erased does not come back.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from functools import cached_property
from typing import Any, Final, Literal

from payrec.domain.matching.tokens import fold

ErasureSubject = Literal["counterparty_name", "counterparty_account", "user"]
"""By what is told whose texts go."""

ERASED: Final = "[erased]"
"""What stands in a text in the place of what was erased."""

_NAME_LENGTH_MIN: Final = 3
"""Letters and digits of a name in ASCII: fewer stand in many texts by accident."""
_SHORT_LENGTH_MIN: Final = 2
"""The same in scripts in which a letter may be a syllable or a word."""
_ACCOUNT_LENGTH_MIN: Final = 4
_LONG_NUMBER: Final = 10
"""Characters from which on a number is the one that is meant, whatever stands beside it."""
_METADATA: Final = "metadata"
_WORD: Final = re.compile(r"[^\W_]+")
_NO_LETTER_BEFORE: Final = r"(?<![^\W_])"
_NO_LETTER_AFTER: Final = r"(?![^\W_])"
_AFTER_VOWEL: Final = re.compile(r"(?<=[aou])")
"""Where a text may have an ``e`` that the folded name has not."""


@dataclass(frozen=True, slots=True)
class _Folded:
    """A text as it is compared, and where in the text each of its letters comes from."""

    text: str
    origins: list[int]
    length: int
    """Characters of the text."""


def _folded(text: str) -> _Folded:
    letters: list[str] = []
    origins: list[int] = []
    for place, char in enumerate(text):
        for letter in fold(char):
            if not unicodedata.combining(letter) and not (letter == "E" and letters and letters[-1] in "AOU"):
                letters.append(letter)
                origins.append(place)
    return _Folded("".join(letters), origins, len(text))


@dataclass(frozen=True)
class Wanted:
    """What is looked for: a name, or an account number."""

    given: str
    is_account: bool = False

    @cached_property
    def _words(self) -> tuple[str, ...]:
        return tuple(_WORD.findall(_folded(self.given).text))

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        if self.is_account:
            number = "".join(self._words)
            pattern = r"[\s.\-/]*".join(map(re.escape, number))
            return re.compile(
                pattern if len(number) >= _LONG_NUMBER else _NO_LETTER_BEFORE + pattern + _NO_LETTER_AFTER
            )
        parts = [part for part in map(_WORD.findall, _folded(self.given).text.split()) if part]
        turned = (parts[place:] + parts[:place] for place in range(len(parts)))
        orders = dict.fromkeys(r"[\W_]+".join(re.escape(word) for part in order for word in part) for order in turned)
        return re.compile(f"{_NO_LETTER_BEFORE}(?:{'|'.join(orders)}){_NO_LETTER_AFTER}")

    @property
    def is_too_short(self) -> bool:
        """Tell whether it would be found in texts that mean something else."""
        length = sum(map(len, self._words))
        if self.is_account:
            return length < _ACCOUNT_LENGTH_MIN
        return length < (_NAME_LENGTH_MIN if self.given.isascii() else _SHORT_LENGTH_MIN)

    @property
    def is_telling(self) -> bool:
        """Tell whether it is several words, as an address or a full name is."""
        return not self.is_too_short and len(self._words) > 1

    @property
    def probes(self) -> tuple[str, ...]:
        """Texts that stand in every text in which it stands, in small letters without accents; maybe none.

        Of an account number: in the text without blanks and marks.
        """
        words = ("".join(self._words),) if self.is_account else self._words
        parts = [part for word in words for part in _AFTER_VOWEL.split(word.lower()) if part and part.isascii()]
        # Single letters stand nearly everywhere, and are looked for only where there is nothing else.
        return tuple(dict.fromkeys([part for part in parts if len(part) > 1] or parts))

    def is_meant(self, text: str | None) -> bool:
        """Tell whether a text is it and nothing else."""
        if not text:
            return False
        words = _WORD.findall(_folded(text).text)
        if self.is_account:
            return "".join(words) == "".join(self._words)
        return sorted(words) == sorted(self._words)

    def is_in(self, text: str | None) -> bool:
        """Tell whether it stands in a text."""
        return bool(text) and (self._pattern.search(_folded(text or "").text) is not None or self.is_meant(text))

    def redacted(self, text: str) -> str:
        """Return a text without it."""
        folded = _folded(text)
        parts, end = [], 0
        for begin, last in self._found(folded):
            parts += [text[end:begin], ERASED]
            end = last + 1
        if parts:
            return "".join([*parts, text[end:]])
        # The words of a name in another order are the name where nothing else is there.
        return ERASED if self.is_meant(text) else text

    def _found(self, folded: _Folded) -> Iterator[tuple[int, int]]:
        """Return the first and the last place in the text of each that is found, beginning where the last one ended."""
        end = -1
        for match in self._pattern.finditer(folded.text):
            begin = folded.origins[match.start()]
            if begin > end:
                # What was left out behind the last letter is part of it: an accent, the E of UE.
                following = folded.origins[match.end()] if match.end() < len(folded.origins) else folded.length
                yield begin, following - 1
                end = following - 1

    def without(self, value: Any) -> Any:
        """Return a value of JSON without it: every text that a list or an object has.

        Names of members stay, but for those of ``metadata``, which whoever stored them has chosen.
        """
        if isinstance(value, str):
            return self.redacted(value)
        if isinstance(value, list):
            return [self.without(item) for item in value]
        if isinstance(value, dict):
            return {
                name: self._without(item) if name == _METADATA else self.without(item) for name, item in value.items()
            }
        return value

    def _without(self, metadata: Any) -> Any:
        if not isinstance(metadata, dict):
            return self.without(metadata)
        left: dict[str, Any] = {}
        for name, item in metadata.items():
            named = self.redacted(name)
            left[f"{named} {len(left) + 1}" if named in left else named] = self.without(item)
        return left


def wanted(subject: ErasureSubject, given: str) -> Wanted:
    """Return what is looked for."""
    return Wanted(given, is_account=subject == "counterparty_account")


STATED_TEXTS: Final[dict[int, tuple[str, ...]]] = {
    1: ("external_id", "reference", "end_to_end_id", "group_key"),
    2: (
        "external_id",
        "structured_reference",
        "end_to_end_id",
        "bank_reference",
        "group_key",
        "mandate_id",
        "instruction_id",
        "transaction_id",
        "uetr",
    ),
}
"""What a transaction of a side (1 expected, 2 incoming) is named by: it goes where what is wanted stands in it."""

STATED_WORDS: Final[dict[int, tuple[str, ...]]] = {
    1: ("counterparty_name", "counterparty_account", "description"),
    2: ("counterparty_name", "counterparty_account", "ultimate_counterparty_name", "remittance"),
}
"""What it says of whom it is about: all of it goes where this is who is wanted."""

STATED_CODES: Final[dict[int, tuple[str, ...]]] = {1: (), 2: ("bank_transaction_code", "purpose_code", "return_reason")}
"""Codes of banks, in which whoever stores a line may have written more: the mention goes, and a return stays one."""

_BATCH: Final = "batch"
"""A line's group once more, as it came."""

OF_PERSON: Final = frozenset({"mandate_id"})
"""What goes with these besides, as ``metadata`` does."""


def is_about(stated: Mapping[str, Any], what: Wanted) -> bool:
    """Tell whether a transaction's counterparty is who is wanted."""
    names = ["counterparty_account"] if what.is_account else ["counterparty_name", "ultimate_counterparty_name"]
    # Nobody pays on behalf of an item, and what a line was before may not have a word for it.
    return any(what.is_meant(stated.get(name)) for name in names)


def redacted_row(stated: Mapping[str, Any], side: int, what: Wanted, *, whole: bool) -> dict[str, Any]:
    """Return what changes of a transaction, or of what it was, by its columns; ``whole``: it is about who is wanted."""
    after: dict[str, Any] = {}
    for name in STATED_TEXTS[side]:
        after[name] = None if what.is_in(stated[name]) or (whole and name in OF_PERSON) else stated[name]
    for name in STATED_WORDS[side]:
        text = stated.get(name)
        after[name] = None if whole or text is None else what.redacted(text)
    for name in STATED_CODES[side]:
        text = stated.get(name)
        after[name] = None if text is None else what.redacted(text)
    if batch := stated.get(_BATCH):
        after[_BATCH] = {name: None if what.without(value) != value else value for name, value in batch.items()}
    after |= {_METADATA: {}} if whole else what.without({_METADATA: stated[_METADATA]})
    changed = {name: value for name, value in after.items() if value != stated.get(name)}
    return {**changed, "reference_key": None} if "reference" in changed else changed


def kept_until(on: date, duty_days: int) -> date:
    """Return the first day on which a record of a day need not be kept any more."""
    return on + timedelta(days=min(duty_days, (date.max - on).days))
