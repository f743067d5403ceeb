"""The disk that files are on for a while: when it is full, that is said, and the same may be done again later."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from payrec.errors import StorageFullError

NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""What the system calls it: the file system is full, the quota is used up, the process may not write that much."""


@contextmanager
def disk_room() -> Iterator[None]:
    """Write files within it.

    Raises
    ------
    StorageFullError
        There was no room for them.
    """
    try:
        yield
    except OSError as error:
        if error.errno in NO_ROOM:
            raise StorageFullError from error
        raise
