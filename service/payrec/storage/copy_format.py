"""What PostgreSQL's binary COPY is made of."""

from __future__ import annotations

from typing import Final

HEADER: Final = b"PGCOPY\n\xff\r\n\0" + bytes(8)
"""The signature, and neither flags nor an extension."""

TRAILER: Final = b"\xff\xff"
"""In place of a number of columns."""

ROW_BYTES: Final = 2
"""The number of columns."""

LENGTH_BYTES: Final = 4
ID_BYTES: Final = 16
NULL: Final = -1
