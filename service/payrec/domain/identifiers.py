"""Identifiers on the wire."""

from __future__ import annotations

import re
from typing import Final
from uuid import UUID

_UUID: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII | re.IGNORECASE)


def parse_uuid(text: str) -> UUID | None:
    """Return the UUID that the text spells in its usual form with hyphens, or None."""
    return UUID(text) if _UUID.fullmatch(text) else None
