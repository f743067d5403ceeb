"""Limits of stored files that are kept in an object store, each with its unit."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

BLOB_URL_LENGTH_MAX: Final = 1_000
"""Characters of BLOB_URL."""

BLOB_PART_BYTES: Final = 8 * 1024 * 1024
"""Bytes of one part of a file that is written to an object store; two are in memory at a time."""

BLOB_PARTS_AT_ONCE: Final = 2
"""Parts of one file that are on their way at the same time."""

BLOB_RANGE_BYTES: Final = 4 * 1024 * 1024
"""Bytes that are asked for at once when a file is read; no connection waits for a slow client in between."""

BLOB_CONNECT_SECONDS: Final = 5.0
"""How long an object store may take to take a connection."""

BLOB_REQUEST_SECONDS: Final = 60.0
"""How long one request to an object store may take: one part, or one range."""

BLOB_RETRIES_MAX: Final = 3
"""How often a request to an object store is repeated that failed in a way that may pass."""

BLOB_RETRY_SECONDS: Final = 15.0
"""Seconds after the first try of a request behind which it is not repeated."""

BLOB_WRITE_SECONDS: Final = 600.0
"""How long writing one file may take; far less than ``BLOB_UNNAMED_FOR``."""

BLOB_DELETE_SECONDS: Final = 5.0
"""How long whoever deletes a file waits for that; what is left then is collected."""

BLOBS_LISTED_AT_ONCE: Final = 1_000
"""Objects of one page of a list."""

BLOB_UNNAMED_FOR: Final = timedelta(hours=6)
"""How old an object is that no row names, when it is taken for left behind: no upload takes that long."""

BLOB_REMNANTS_AT_ONCE: Final = 1_000
"""Dropped environments whose objects one run deletes."""
