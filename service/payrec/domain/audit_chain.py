"""The chain over the audit log: what is committed to of a record, and what a seal is made of.

A record's content, why and what before and after, is hashed with a salt. A commitment is a hash of that and of all else
that the record says: who did what, when, to which. A root is a hash of the root before it, and of the place and
commitment of every record of its batch. So whoever keeps a root can tell later whether anything up to it was changed,
added or taken away. Content can go, its salt with it, and the rest of the record is proved all the same; where the
record goes, the hash of its content goes as well, and nobody finds out by trying what it said.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import UUID

SALT_BYTES: Final = 16
"""Bytes of a salt: more than anybody can try."""

FIRST_ROOT: Final = bytes(32)
"""What comes before the first seal."""

_ROOT_PURPOSE: Final = b"payrec audit root 1\0"
_RECORD_PURPOSE: Final = b"payrec audit record 2\0"
_CONTENT_PURPOSE: Final = b"payrec audit content 1\0"
_WHOLE_PURPOSE: Final = b"payrec audit record 1\0"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

DEED_FIELDS: Final = ("actor", "action", "resource_id", "request_id")
"""Who did what, besides when and where the record is."""

CONTENT_FIELDS: Final = ("reason", "before", "after")
"""What may be about a person; ``before`` and ``after`` as the database spells JSON."""

_WHOLE_FIELDS: Final = ("actor", "action", "resource_id", "reason", "before", "after", "request_id")


def content_hash(record: Mapping[str, Any], salt: bytes) -> bytes:
    """Return the hash of ``CONTENT_FIELDS`` of a record, as they are stored."""
    return _hash(_CONTENT_PURPOSE + salt, record, CONTENT_FIELDS)


def commitment(record: Mapping[str, Any], content: bytes) -> bytes:
    """Return the hash of a record: ``change_id``, ``ordinal``, ``at``, ``DEED_FIELDS``, and the hash of its content."""
    return _hash(_RECORD_PURPOSE + content + _when(record), record, DEED_FIELDS)


def is_committed(row: Mapping[str, Any]) -> bool:
    """Tell whether a record is what its ``commitment`` says, which has a ``salt``, or without one no content any more.

    A commitment without the hash of a ``content`` is of a time when both were hashed as one.
    """
    salt: bytes | None = row["salt"]
    content: bytes | None = row["content"]
    committed: bytes = row["commitment"]
    if salt is None:
        is_gone = all(row[name] is None for name in CONTENT_FIELDS)
        return is_gone and (content is None or commitment(row, content) == committed)
    if content is None:
        return _hash(_WHOLE_PURPOSE + salt + _when(row), row, _WHOLE_FIELDS) == committed
    return content_hash(row, salt) == content and commitment(row, content) == committed


def _when(record: Mapping[str, Any]) -> bytes:
    at = (record["at"] - _EPOCH) // timedelta(microseconds=1)
    return _place(record["change_id"], record["ordinal"]) + _number(at)


def _hash(begin: bytes, record: Mapping[str, Any], names: Sequence[str]) -> bytes:
    digest = hashlib.sha256(begin)
    for name in names:
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
