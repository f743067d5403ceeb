"""References to print on an invoice, so that the payment that quotes one is known by it.

Two kinds. ``iso11649`` is a creditor reference (ISO 11649): ``RF``, two check digits by ISO 7064 MOD 97-10, and 16
digits, which banks carry in a field of its own and check. ``short`` has ten characters, for people who type: nine of
Crockford's Base32 (https://www.crockford.com/base32.html: no I, L, O, U, which are taken for others) and one that
checks them, by ISO 7064 MOD 37,36. Both notice every single wrong character, so a mistyped one is never another one.

Neither says how many there were before it: it is made of a hash of the transaction's id.
"""

from __future__ import annotations

from hashlib import blake2b
from itertools import count
from typing import Final, Literal
from uuid import UUID

from payrec.domain.references import creditor_reference

ReferenceKind = Literal["iso11649", "short"]

ALPHABET: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
"""Crockford's Base32, 32 characters."""

SHORT_LENGTH: Final = 10
"""Characters of a short reference, the last of which checks the others."""

CREDITOR_DIGITS: Final = 16
"""Digits behind ``RF`` and its check digits: with them five groups of four when it is printed."""

_MODULUS: Final = 36


def issued_reference(kind: ReferenceKind, transaction_id: UUID) -> str:
    """Return the reference of a transaction, written together; the same id gives the same one.

    Two ids may give one reference, as rarely as 9 of 32 or 16 of 10 characters allow: what stores it must look.
    """
    for attempt in count():
        number = int.from_bytes(blake2b(transaction_id.bytes + attempt.to_bytes(4)).digest())
        if kind == "iso11649":
            return creditor_reference(f"{number % 10**CREDITOR_DIGITS:0{CREDITOR_DIGITS}}")
        found = _short(number)
        if found is not None:
            return found
    raise AssertionError("the attempts have no end")  # pragma: no cover


def is_short_reference(text: str) -> bool:
    """Tell whether a short reference, in any case and groups, has the right check character."""
    compact = "".join(c for c in text.upper() if c not in " -")
    if len(compact) != SHORT_LENGTH or not set(ALPHABET).issuperset(compact):
        return False
    return compact[-1] == check_character(compact[:-1])


def check_character(text: str) -> str:
    """Return the check character of digits and capitals by ISO 7064 MOD 37,36."""
    product = _MODULUS
    for character in text:
        product = ((product + int(character, 36)) % _MODULUS or _MODULUS) * 2 % (_MODULUS + 1)
    value = (1 - product) % _MODULUS
    return chr(ord("0") + value) if value < 10 else chr(ord("A") + value - 10)


def _short(number: int) -> str | None:
    """Return a short reference, or None where it would be hard to read, or be taken for something else."""
    body = ""
    for _ in range(SHORT_LENGTH - 1):
        number, digit = divmod(number, len(ALPHABET))
        body += ALPHABET[digit]
    found = body + check_character(body)
    # Without a digit it would be a word; with RF in front, half of another kind.
    has_digit = any(c.isdigit() for c in found)
    return found if found[-1] in ALPHABET and has_digit and not found.startswith("RF") else None
