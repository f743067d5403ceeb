"""How many records of one file are there twice, by the identity under which they would be stored."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

from payrec.domain.identity import FINGERPRINT_BYTES, OCCURRENCE_BYTES
from payrec.domain.incoming_transactions import identity_of
from payrec.domain.statements import Entry
from payrec.services.spool import SegmentedSpool

SPOOL_MEMORY_BYTES: Final = 1024 * 1024
"""Bytes of identities that stay in memory; more goes to a temporary file."""
_BUCKETS: Final = 256
"""Parts in which identities are compared: two million of them at once would take hundreds of megabytes."""
_RECORD: Final = struct.Struct(f"<{FINGERPRINT_BYTES + OCCURRENCE_BYTES}s{FINGERPRINT_BYTES}s?qi4s")
"""Identity, fingerprint, whether it is pending, amount, booking day, and direction with currency."""

_Record = tuple[bytes, bytes, bool, int, int, bytes]


class DuplicateCounter:
    """Counts as an upload into an empty environment would.

    An identity that was there is a duplicate, unless the bank used its id again: a booked entry of other content and
    another amount, direction, currency or date is known by its content then.
    """

    def __init__(self) -> None:
        self._spool = SegmentedSpool(memory_bytes=SPOOL_MEMORY_BYTES)

    def __enter__(self) -> DuplicateCounter:
        return self

    def __exit__(self, *_: object) -> None:
        self._spool.__exit__()

    def add(self, entry: Entry) -> None:
        """Note an entry."""
        identity = identity_of(entry)
        on = entry.booking_on
        record = _RECORD.pack(
            identity,
            entry.fingerprint,
            entry.status != "booked",
            entry.amount_minor,
            on.toordinal() if on is not None else 0,
            (entry.direction[0] + entry.currency).encode(),
        )
        self._spool.append(identity[0], record)

    def count(self) -> int:
        """Return how many entries would not be stored, because they are there."""
        found = 0
        reused = SegmentedSpool(memory_bytes=SPOOL_MEMORY_BYTES)
        with reused:
            for bucket in range(_BUCKETS):
                found += self._compare(bucket, reused)
            for bucket in range(_BUCKETS):
                known: set[bytes] | None = None
                for fingerprint in _pieces(reused, bucket, FINGERPRINT_BYTES):
                    if known is None:
                        known = {record[0] for record in self._records(bucket)}
                    identity = fingerprint.ljust(FINGERPRINT_BYTES + OCCURRENCE_BYTES, b"\0")
                    found += identity in known
                    known.add(identity)
        return found

    def _compare(self, bucket: int, reused: SegmentedSpool) -> int:
        """Return the duplicates of one bucket; put aside what is known by its content."""
        found = 0
        first: dict[bytes, _Record] = {}
        pending: list[_Record] = []
        for record in self._records(bucket):
            if record[2]:
                pending.append(record)
                continue
            before = first.setdefault(record[0], record)
            if before is record:
                continue
            if before[1] != record[1] and before[3:] != record[3:]:
                reused.append(record[1][0], record[1])
            else:
                found += 1
        # What is booked takes the place of what was announced, wherever in the file it stands.
        for record in pending:
            found += first.setdefault(record[0], record) is not record
        return found

    def _records(self, bucket: int) -> Iterator[_Record]:
        for piece in _pieces(self._spool, bucket, _RECORD.size):
            yield _RECORD.unpack(piece)


def _pieces(spool: SegmentedSpool, sequence: int, size: int) -> Iterator[bytes]:
    """Yield records of one size; they are written whole, so none is on a border."""
    for data in spool.read(sequence):
        for at in range(0, len(data), size):
            yield data[at : at + size]
