"""Many sequences of bytes in one temporary file: written in any order, read back one after the other."""

from __future__ import annotations

import tempfile
from array import array
from collections.abc import Iterator
from typing import IO, Final

_NONE: Final = -1
"""Stands for no piece."""


class SegmentedSpool:
    """Appends to numbered sequences and reads each back whole; what it holds in memory does not grow with them.

    Pieces lie in the file in the order of writing; each knows the next one of its sequence. Sequences are numbered
    densely from 0: a number costs 16 bytes, a piece 24.
    """

    def __init__(self, *, memory_bytes: int) -> None:
        self._memory_bytes = memory_bytes
        self._file: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed by __exit__
        self._end = 0
        self._waiting: dict[int, bytearray] = {}
        self._waiting_bytes = 0
        self._first = array("q")
        self._last = array("q")
        self._offsets = array("q")
        self._lengths = array("q")
        self._next = array("q")

    def __enter__(self) -> SegmentedSpool:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def append(self, sequence: int, data: bytes) -> None:
        """Add bytes to the end of a sequence."""
        waiting = self._waiting.get(sequence)
        if waiting is None:
            self._waiting[sequence] = bytearray(data)
        else:
            waiting += data
        self._waiting_bytes += len(data)
        if self._waiting_bytes > self._memory_bytes:
            self._write()

    def read(self, sequence: int) -> Iterator[bytes]:
        """Yield the bytes of a sequence, piece by piece."""
        piece = self._first[sequence] if sequence < len(self._first) else _NONE
        while piece != _NONE:
            self._file.seek(self._offsets[piece])
            yield self._file.read(self._lengths[piece])
            piece = self._next[piece]
        yield bytes(self._waiting.get(sequence, b""))

    def _write(self) -> None:
        """Move what waits in memory to the file."""
        self._file.seek(self._end)
        missing = max(self._waiting) + 1 - len(self._first)
        if missing > 0:
            nothing = array("q", [_NONE])
            self._first.extend(nothing * missing)
            self._last.extend(nothing * missing)
        for sequence, data in self._waiting.items():
            self._file.write(data)
            piece = len(self._offsets)
            self._offsets.append(self._end)
            self._lengths.append(len(data))
            self._next.append(_NONE)
            self._end += len(data)
            if self._first[sequence] == _NONE:
                self._first[sequence] = piece
            else:
                self._next[self._last[sequence]] = piece
            self._last[sequence] = piece
        self._waiting.clear()
        self._waiting_bytes = 0
