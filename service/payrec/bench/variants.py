"""What becomes of a name or a reference on its way through forms, banks and fingers."""

from __future__ import annotations

import unicodedata
from typing import Final

from payrec.bench.maker import Maker, Payer
from payrec.bench.vocabularies import ABBREVIATIONS, LEGAL_FORMS

NAME_LENGTH_MAX: Final = 27
"""Characters that an old field for a name has."""

_SPELT_OUT: Final = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue", "ß": "ss", "Ä": "Ae", "Ö": "Oe", "Ü": "Ue"})
_KEYS: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def ordinary_name(make: Maker, payer: Payer) -> str:
    """Return the name as a bank writes it: capitals, letters spelt out, the legal form there or not."""
    name = payer.name
    chance = make.dice.random()
    if chance < 0.4:
        return name
    if chance < 0.6:
        return name.upper()
    if chance < 0.8:
        return name.translate(_SPELT_OUT).upper()
    return _without_legal_form(name)


def changed_name(make: Maker, payer: Payer) -> str:
    """Return the name turned round, shortened, cut, without accents or mistyped."""
    name = payer.name
    way = make.number(0, 5)
    if way == 0:
        words = name.split()
        return f"{words[-1]}, {' '.join(words[:-1])}" if payer.is_person else " ".join(reversed(words))
    if way == 1:
        return _shortened(name, is_person=payer.is_person)
    if way == 2:
        return name.upper()[:NAME_LENGTH_MAX].strip()
    if way == 3:
        return "".join(c for c in unicodedata.normalize("NFKD", name) if not unicodedata.combining(c)).upper()
    if way == 4:
        return mistyped_word(make, _without_legal_form(name))
    return name.translate(_SPELT_OUT)


def mistyped_word(make: Maker, text: str) -> str:
    """Return the text with one letter wrong, missing or swapped with the next."""
    at = make.number(1, max(len(text) - 2, 1))
    way = make.number(0, 2)
    if way == 0:
        return f"{text[:at]}{make.pick(_KEYS).lower()}{text[at + 1 :]}"
    if way == 1:
        return text[:at] + text[at + 1 :]
    return text[:at] + text[at + 1 : at + 2] + text[at] + text[at + 2 :]


def mistyped_reference(make: Maker, reference: str) -> str:
    """Return the reference with one digit wrong, missing, or swapped with another one beside it."""
    places = [at for at, c in enumerate(reference) if c.isdigit()]
    tail = places[-6:]
    way = make.number(0, 2)
    if way == 2:
        swappable = [at for at in tail if reference[at + 1 : at + 2].isdigit() and reference[at] != reference[at + 1]]
        if swappable:
            at = make.pick(swappable)
            return f"{reference[:at]}{reference[at + 1]}{reference[at]}{reference[at + 2 :]}"
    at = make.pick(tail)
    if way == 1:
        return reference[:at] + reference[at + 1 :]
    digit = (int(reference[at]) + make.number(1, 9)) % 10
    return f"{reference[:at]}{digit}{reference[at + 1 :]}"


def partial_reference(make: Maker, reference: str) -> str:
    """Return the end of the reference, as people write it, or all but its end, as a narrow field leaves it."""
    digits = "".join(c for c in reference if c.isdigit())
    way = make.number(0, 2)
    if way == 0:
        return digits[-6:]
    if way == 1:
        return digits[-5:].lstrip("0") or digits[-5:]
    return reference[:-1] if make.happens(0.6) else reference[:-2]


def _without_legal_form(name: str) -> str:
    for form in LEGAL_FORMS:
        if name.endswith(f" {form}"):
            return name[: -len(form) - 1]
    return name


def _shortened(name: str, *, is_person: bool) -> str:
    words = name.split()
    if is_person:
        return f"{words[0][0]}. {' '.join(words[1:])}"
    return " ".join(ABBREVIATIONS.get(word, word) for word in words)
