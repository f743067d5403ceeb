"""Torn and damaged variants of a file, the same in every run."""

from __future__ import annotations

import contextlib
import io
import random
from collections.abc import Iterator

from payrec.errors import PayloadTooLargeError, UnreadableFileError
from payrec.formats.base import ReadOptions
from payrec.formats.registry import parse


def attempt(data: bytes, options: ReadOptions) -> None:
    """Read to the end, or to a typed error; the counts add up."""
    result = parse(io.BytesIO(data), name="x", options=options, monotonic=lambda: 0.0)
    with contextlib.suppress(UnreadableFileError, PayloadTooLargeError):
        list(result)
        counts = result.file.counts
        assert counts.records == counts.accepted + counts.skipped + counts.rejected


def mutations(data: bytes, *, seed: str, count: int, pieces: list[bytes]) -> Iterator[bytes]:
    """Yield variants with bytes changed, left out, repeated, and ``pieces`` put in between."""
    generator = random.Random(seed)  # noqa: S311  # the same bytes in every run
    for _ in range(count):
        mutated = bytearray(data)
        for _ in range(generator.randint(1, 6)):
            at = generator.randrange(len(mutated))
            match generator.randrange(4):
                case 0:
                    mutated[at] = generator.randrange(256)
                case 1:
                    del mutated[at : at + generator.randint(1, 20)]
                case 2:
                    mutated[at:at] = generator.choice(pieces)
                case _:
                    mutated[at:at] = mutated[at : at + generator.randint(1, 200)]
            mutated = mutated or bytearray(b"x")
        yield bytes(mutated)


class Repeated:
    """A source of a start and then the same piece again and again; it counts what it gave."""

    def __init__(self, start: bytes, piece: bytes, *, count: int) -> None:
        self._start = start
        self._piece = piece
        self._count = count
        self.given = 0

    def read(self, _: int, /) -> bytes:
        data, self._start = self._start, b""
        if not data:
            self._count -= 1
            data = self._piece if self._count >= 0 else b""
        self.given += len(data)
        return data
