"""Identifiers on the wire."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

_UUID: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII | re.IGNORECASE)


def parse_uuid(text: str) -> UUID | None:
    """Return the UUID that the text spells in its usual form with hyphens, or None."""
    return UUID(text) if _UUID.fullmatch(text) else None


def id_at(instant: datetime, slack: timedelta = timedelta()) -> UUID:
    """Return the id before all that a UUIDv7 (RFC 9562, section 5.7) made so much after the instant can be."""
    milliseconds = int((instant.timestamp() + slack.total_seconds()) * 1000)
    return UUID(int=min(max(milliseconds, 0), 2**48 - 1) << 80)
