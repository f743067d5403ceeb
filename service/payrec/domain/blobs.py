"""Stored files as their rows tell of them, and as an object store does."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class Blob:
    """A stored file, as its row says."""

    id: UUID
    """Of its chunks, when it is kept in the database."""
    object_id: UUID | None
    """Its object in the object store; None when it is kept in the database."""
    size: int
    """Bytes."""


@dataclass(frozen=True, slots=True)
class StoredObject:
    """An object, as it is listed."""

    name: str
    """Below the place of BLOB_URL."""
    modified_at: datetime
