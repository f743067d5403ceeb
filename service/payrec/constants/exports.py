"""Limits of exports, each with its unit."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

EXPORT_KEPT: Final = timedelta(hours=24)
"""How long the file of an export can be read."""

EXPORTS_KEPT_BYTES_MAX: Final = 10 * 1024 * 1024 * 1024
"""Bytes of the files of exports of one tenant environment that can be read; beyond, there is none until the oldest of
them is over. A list of the most rows makes some 3 GiB."""

EXPORT_ROWS_MAX: Final = 10_000_000
"""Lines of one export."""

EXPORT_PAGE_ROWS: Final = 2_000
"""Rows of a list that are read, and held, at once while it is exported."""
