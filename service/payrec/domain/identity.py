"""What makes an entry the same entry in another file: the bank's id, else a fingerprint of its content.

Both come with an occurrence: two real payments of the same content in one statement are two, and the same statement
uploaded again counts them the same way, so overlapping files collapse and true twins stay.
"""

from __future__ import annotations

from array import array
from hashlib import blake2b
from typing import Final

from payrec.domain.statements import Entry

FINGERPRINT_BYTES: Final = 16
OCCURRENCE_BYTES: Final = 4
"""Of ``content_key``: no file has as many records as they count."""

_EMPTY: Final = blake2b(digest_size=FINGERPRINT_BYTES)
"""The state before the first byte: copying it takes half the time of making one."""

_SEPARATOR: Final = "\x1f"
"""Unit separator; the readers take control characters out of every text, so it cannot be part of a value."""


def fingerprint(entry: Entry) -> bytes:
    """Return BLAKE2b-128 over what a bank repeats wherever it reports the entry.

    Account, currency, direction, amount, both dates, the bank's, the end-to-end and the structured reference, the
    counterparty's account, and the remittance text without blanks. Not status, line, counterparty's name or file:
    a pending entry has the fingerprint of its booking, in whatever format it comes.
    """
    booking_on, value_on, remittance = entry.booking_on, entry.value_on, entry.remittance
    booked = booking_on.isoformat() if booking_on else ""
    if remittance:
        # Nearly every text has no other blanks than spaces.
        plain = remittance.isascii() and remittance.isprintable()
        remittance = remittance.replace(" ", "") if plain else "".join(remittance.split())
    content = _SEPARATOR.join(
        (
            entry.account or "",
            entry.currency,
            entry.direction,
            str(entry.amount_minor),
            booked,
            booked if value_on is booking_on else value_on.isoformat() if value_on else "",
            entry.bank_reference or "",
            entry.end_to_end_id or "",
            entry.structured_reference or "",
            entry.counterparty_account or "",
            remittance or "",
        )
    )
    state = _EMPTY.copy()
    state.update(content.encode())
    return state.digest()


def bank_identity(entry: Entry) -> str | None:
    """Return the id by which the bank knows the entry, None when it has none.

    What the file itself declares (``external_id``), else the bank's reference; where details share the reference of
    their batch entry, with the detail's ordinal. Only for formats whose bank reference names one booking.
    """
    if entry.external_id is not None:
        return entry.external_id
    if entry.bank_reference is None or entry.ordinal_within_bank_reference is None:
        return entry.bank_reference
    return f"{entry.bank_reference}#{entry.ordinal_within_bank_reference}"


def bank_key(account: str | None, value: str, occurrence: int) -> bytes:
    """Return BLAKE2b-128 over a bank's id: what a database keeps unique in a tenant environment."""
    content = _SEPARATOR.join((account or "", "bank", value, str(occurrence)))
    return blake2b(content.encode(), digest_size=16).digest()


def content_key(digest: bytes, occurrence: int) -> bytes:
    """Return the same for an entry without such an id: its fingerprint, and in four bytes more which one it is.

    The first one has none, so whoever falls back on the content of an entry needs nothing but its fingerprint, and a
    database can tell the entries that are known by their content.
    """
    return digest + occurrence.to_bytes(OCCURRENCE_BYTES, "big") if occurrence else digest


_COUNT_MAX: Final = 255
"""What a slot counts; beyond it a dictionary does, which no file can make large."""
_MULTIPLIER: Final = 0x9E3779B97F4A7C15
"""Odd, from the golden ratio (Knuth, TAOCP 6.4): spreads the second hash."""
_MASK_64: Final = (1 << 64) - 1


_SLOTS_FEW: Final = 1 << 16
"""Up to here a full table becomes four times as large, which is done less often; larger ones double, for the memory."""


class OccurrenceCounter:
    """Counts how often each identity came in one statement, in 11 bytes a slot.

    A dictionary of the two million identities that a file may have takes 300 MB. This is an open-addressed table with
    double hashing over 64 bits of a BLAKE2b digest; that two identities of one file share them has a chance of 1e-7,
    and would cost an occurrence of 1 instead of 0.
    """

    __slots__ = ("_checks", "_counts", "_keys", "_mask", "_overflow", "_used")

    def __init__(self) -> None:
        self._allocate(64)
        self._overflow: dict[int, int] = {}

    def _allocate(self, slots: int) -> None:
        self._mask = slots - 1
        self._keys = array("Q", bytes(8 * slots))
        self._checks = array("H", bytes(2 * slots))
        self._counts = bytearray(slots)
        self._used = 0

    def _slot(self, key: int) -> int:
        """Return the slot that holds the key, else the free one where it belongs."""
        keys, mask = self._keys, self._mask
        slot = key & mask
        if keys[slot] in (key, 0):
            return slot
        # An odd step visits every slot of a table whose size is a power of two.
        step = ((key * _MULTIPLIER & _MASK_64) >> 40) | 1
        while True:
            slot = (slot + step) & mask
            if keys[slot] in (key, 0):
                return slot

    def count(self, digest: bytes, check: int = 0) -> int | None:
        """Return how often the identity came before, and count it.

        ``digest`` is a cryptographic hash of at least eight bytes. ``check`` is a number of 16 bits over what must not
        differ between occurrences; when it is not that of the first one, None is returned and nothing is counted.
        """
        key = int.from_bytes(digest[:8], "little") or 1
        keys = self._keys
        slot = key & self._mask
        # Four in five are where they belong at once.
        if keys[slot] and keys[slot] != key:
            slot = self._slot(key)
        if not keys[slot]:
            keys[slot] = key
            self._checks[slot] = check
            self._counts[slot] = 1
            self._used += 1
            if self._used * 5 > self._mask * 4:
                self._grow()
            return 0
        if self._checks[slot] != check:
            return None
        before = self._counts[slot]
        if before < _COUNT_MAX:
            self._counts[slot] = before + 1
            return before
        before = self._overflow.get(key, _COUNT_MAX)
        self._overflow[key] = before + 1
        return before

    def _grow(self) -> None:
        old = zip(self._keys, self._checks, self._counts, strict=True)
        used, slots = self._used, self._mask + 1
        self._allocate(slots * (4 if slots < _SLOTS_FEW else 2))
        keys, checks, counts, mask = self._keys, self._checks, self._counts, self._mask
        for key, check, count in old:
            if key:
                slot = key & mask
                if keys[slot]:
                    slot = self._slot(key)
                keys[slot] = key
                checks[slot] = check
                counts[slot] = count
        self._used = used
