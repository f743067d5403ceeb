"""What a transaction did, for the audit and for events."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One thing done to one resource. ``action`` is ``noun.verb``, and the event's type where there is one."""

    action: str
    resource_id: UUID | None = None
    reason: str | None = None
    before: dict[str, Any] | None = None
    after: dict[str, Any] | None = None
    data: dict[str, Any] | None = None
    """What the event tells besides which resource it is about; as it goes over the wire."""
