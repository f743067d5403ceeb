"""Folders for files that need a name while they are made; what a killed process has left is removed with the next one.

Files without a name go with their process. A folder stays when nobody is left to remove it, with files of millions of
lines: in a pod until it is evicted for that, with all that its worker does. So whoever has a folder holds its lock,
which ends with the process, and whoever makes one removes those beside it that nobody holds.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final

PREFIX: Final = "payrec-scratch-"
"""What the names of the folders begin with, in the system's folder for temporary files."""


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """Have a folder of one's own, which is removed at the end with what is in it. Blocking, but short.

    Raises
    ------
    OSError
        It cannot be made.
    """
    _remove_left()
    while True:
        folder = Path(tempfile.mkdtemp(prefix=PREFIX))
        with _held(folder) as is_ours:
            if is_ours:
                try:
                    yield folder
                finally:
                    shutil.rmtree(folder, ignore_errors=True)
                return
        # Somebody has taken it for left, between its making and its lock.


def _remove_left() -> None:
    """Remove the folders that nobody holds; those of other users stay."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with suppress(OSError), _held(folder) as is_left:
            if is_left:
                shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _held(folder: Path) -> Iterator[bool]:
    """Hold a folder; tell whether that is so, which it is not where it is gone, or somebody holds it."""
    with ExitStack() as stack:
        is_held = False
        with suppress(FileNotFoundError, BlockingIOError):
            opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            stack.callback(os.close, opened)
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
            is_held = folder.exists()
        yield is_held
