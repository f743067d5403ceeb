"""The chain over the audit log: what is committed to of a record, and what a seal is made of.

A commitment is a hash of a salt and of everything that the record says. A root is a hash of the root before it, and of
the place and commitment of every record of its batch. So whoever keeps a root can tell later whether anything up to it
was changed, added or taken away; and a record can go, its salt with it, without the chain losing anything.
"""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import UUID

SALT_BYTES: Final = 16
"""Bytes of a salt: more than anybody can try."""

FIRST_ROOT: Final = bytes(32)
"""What comes before the first seal."""

_ROOT_PURPOSE: Final = b"payrec audit root 1\0"
_RECORD_PURPOSE: Final = b"payrec audit record 1\0"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

RECORD_FIELDS: Final = ("actor", "action", "resource_id", "reason", "before", "after", "request_id")
"""What a record says, besides when and where it is; ``before`` and ``after`` as the database spells JSON."""


def commitment(record: dict[str, Any], salt: bytes) -> bytes:
    """Return the hash of a record: ``change_id``, ``ordinal``, ``at`` and ``RECORD_FIELDS``, as they are stored."""
    digest = hashlib.sha256(_RECORD_PURPOSE + salt)
    digest.update(_place(record["change_id"], record["ordinal"]))
    digest.update(_number((record["at"] - _EPOCH) // timedelta(microseconds=1)))
    for name in RECORD_FIELDS:
        value = record[name]
        text = b"" if value is None else str(value).encode()
        # Its length first, and another one for nothing: no two records are spelled alike.
        digest.update(_number(-1 if value is None else len(text)) + text)
    return digest.digest()


class SealHash:
    """The root of one seal, as its records come: in the order of their changes and ordinals."""

    def __init__(self, *, previous_root: bytes, sequence: int) -> None:
        self._digest = hashlib.sha256(_ROOT_PURPOSE + previous_root + _number(sequence))
        self.count = 0

    def add(self, change_id: UUID, ordinal: int, committed: bytes) -> None:
        """Take the next record."""
        self._digest.update(_place(change_id, ordinal) + committed)
        self.count += 1

    @property
    def root(self) -> bytes:
        """The root over what was added."""
        whole = self._digest.copy()
        whole.update(_number(self.count))
        return whole.digest()


def _place(change_id: UUID, ordinal: int) -> bytes:
    return change_id.bytes + _number(ordinal)


def _number(value: int) -> bytes:
    return value.to_bytes(8, "big", signed=True)
