"""Limits and intervals of tenants: of those that belong to Tenant resources, and of what is left of dropped ones."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

TOMBSTONE_REST: Final = timedelta(minutes=5)
"""From the renaming of a dropped schema to its end: requests that are under way in it are over by then."""

TOMBSTONE_LEASE: Final = timedelta(minutes=10)
"""How long one who drops a schema has it for himself; large schemas take minutes."""

TOMBSTONE_RETRY_FIRST: Final = timedelta(minutes=5)
"""From a first failure to the next attempt; it doubles from there."""

TOMBSTONE_RETRY_MAX: Final = timedelta(hours=6)
"""Between two attempts at most."""

TOMBSTONE_ATTEMPTS_MAX: Final = 12
"""Attempts at one schema, over two days; then a person has to look."""

TOMBSTONES_AT_ONCE: Final = 100
"""Schemas that one look drops, one after the other."""

RESOURCE_USERS_MAX: Final = 200
"""Users that a Tenant resource may list."""

DISPLAY_NAME_LENGTH_MAX: Final = 200
"""Characters of the name of a Tenant resource's tenant; fewer than other names may have."""

KUBERNETES_TIMEOUT_SECONDS: Final = 10.0
"""For one request to the API server."""

KUBERNETES_RESPONSE_BYTES_MAX: Final = 1024 * 1024
"""Bytes of an answer of the API server; a Tenant resource has a tenth of it."""

RESOURCE_MADE_WITHIN: Final = timedelta(seconds=60)
"""After which a request that has registered a tenant is no longer about to make its resource: it asks three times."""

REGISTRATION_BYTES_MAX: Final = 16 * 1024 * 1024
"""Bytes of a document with a tenant's registration."""

REGISTRATION_USERS_MAX: Final = 10_000
"""Users in it."""

REGISTRATION_KEYS_MAX: Final = 2_000
"""API keys in it: of four environments all that may be active, and what is retiring beside them."""
