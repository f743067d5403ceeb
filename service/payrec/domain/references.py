"""Account numbers and payment references with check digits.

Sources: ISO 13616 (IBAN) and ISO 11649 (creditor reference ``RF``), both by ISO 7064 MOD 97-10. Both may be written in
groups with blanks between, and in lower case.
"""

from __future__ import annotations

import re
import string
import unicodedata
from operator import itemgetter
from typing import Final

_IBAN: Final = re.compile(r"[A-Z]{2}[0-9]{2}[A-Z0-9]{11,30}")
_CREDITOR_REFERENCE: Final = re.compile(r"RF[0-9]{2}[A-Z0-9]{1,21}")
_CREDITOR_REFERENCE_START: Final = re.compile(r"(?<![A-Z0-9])RF[0-9]{2}")
_WORD: Final = re.compile(r"[A-Z0-9]+")
_NEXT_GROUP: Final = re.compile(r"\s([A-Z0-9]{1,4})(?![A-Z0-9])")
_CAPITALS: Final = str.maketrans(string.ascii_lowercase, string.ascii_uppercase)
_BLANKS: Final = re.compile(r"\s+")
_CONTROLS: Final = re.compile(r"[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\ud800-\udfff]")
_TEXT_LENGTH_MAX: Final = 64
"""Characters, blanks included, beyond which no number of this module can be."""


def _compact(text: str) -> str:
    """Return the text without blanks and in upper case; nothing for a text that is too long or not ASCII."""
    if len(text) > _TEXT_LENGTH_MAX or not text.isascii():
        return ""
    return "".join(text.split()).upper()


def _mod_97(text: str) -> int:
    """Return the remainder of ISO 7064 MOD 97-10, the first four characters moved to the end; valid is 1."""
    return int("".join(str(int(c, 36)) for c in text[4:] + text[:4])) % 97


def is_iban(text: str) -> bool:
    """Tell whether the check digits are right; a country's own length is not looked at."""
    compact = _compact(text)
    return _IBAN.fullmatch(compact) is not None and _mod_97(compact) == 1


def account_identifier(given: str) -> str:
    """Return what an own account is called, as readers of files store it, of what somebody has typed.

    An IBAN is without blanks and in upper case; any other is in NFC with single blanks, none of them at its ends.
    """
    clean = _BLANKS.sub(" ", unicodedata.normalize("NFC", _CONTROLS.sub("", given))).strip()
    return _compact(clean) if is_iban(clean) else clean or given


def is_creditor_reference(text: str) -> bool:
    """Tell whether it is an ISO 11649 reference (``RF18 5390 0754 7034``)."""
    compact = _compact(text)
    return _CREDITOR_REFERENCE.fullmatch(compact) is not None and _mod_97(compact) == 1


def creditor_reference(body: str) -> str:
    """Return the ISO 11649 reference of 1 to 21 digits and capitals, its check digits computed."""
    return f"RF{98 - _mod_97(f'RF00{body}'):02}{body}"


def find_creditor_reference(text: str) -> str | None:
    """Return the first valid ISO 11649 reference in free text, without blanks.

    It is a word of its own, or printed as the standard prints it: groups of four, the last may be shorter. The longest
    valid run of groups wins, but a group without a digit is rather the word after it (``RF18 5390 0754 7034 DUE``):
    one in 97 of them would keep the check digits right.
    """
    if "RF" not in text and "rf" not in text and "Rf" not in text and "rF" not in text:
        return None
    # Other letters are none of it, though their capitals were: ``ß`` is not two S.
    text = text.translate(_CAPITALS)
    for start in _CREDITOR_REFERENCE_START.finditer(text):
        word = _WORD.match(text, start.start())
        if word is None:  # pragma: no cover - the start is itself such a word
            continue
        candidates = [(word[0], False)]
        end = word.end()
        while len(candidates[-1][0]) % 4 == 0 and len(word[0]) == 4 and len(candidates) < 7:
            group = _NEXT_GROUP.match(text, end)
            if group is None:
                break
            candidates.append((candidates[-1][0] + group[1], group[1].isalpha()))
            end = group.end()
        valid = [candidate for candidate in reversed(candidates) if is_creditor_reference(candidate[0])]
        if valid:
            return min(valid, key=itemgetter(1))[0]
    return None
