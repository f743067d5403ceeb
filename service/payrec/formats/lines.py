"""The pieces of a file through a reader, and lines out of them, bounded: what the formats share."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from typing import Protocol, TypeVar

from payrec.constants import LINE_BYTES_MAX
from payrec.domain.statements import Parsed
from payrec.errors import UnreadableFileError
from payrec.formats.base import Source
from payrec.formats.encoding import Decoder, decoded

Piece_contra = TypeVar("Piece_contra", contravariant=True)


class Reading(Protocol[Piece_contra]):
    """The state of a reader between two pieces of its file."""

    def feed(self, piece: Piece_contra, /) -> None:
        """Take the next piece."""
        ...

    def take(self) -> list[Parsed]:
        """Return what has become known since the last call."""
        ...

    def close(self) -> None:
        """End what is open: the file is over."""
        ...


def fed(pieces: Iterable[Piece_contra], reading: Reading[Piece_contra], decoder: Decoder) -> Iterator[Parsed]:
    """Yield what a reading makes of the pieces, and what the decoder has to tell."""
    for piece in pieces:
        reading.feed(piece)
        yield from reading.take()
    reading.close()
    yield from reading.take()
    yield from decoder.told()


def lines_of(source: Source, decoder: Decoder, *, length_max: int = LINE_BYTES_MAX) -> Iterator[list[str]]:
    """Yield the lines of one piece of the file after the other, without their ends (any of LF, CR LF and CR).

    Raises
    ------
    UnreadableFileError
        ``line_too_long``: an unfinished line has more than ``length_max`` characters. A finished one can only be
        longer by what one piece holds.

    """
    newlines = io.IncrementalNewlineDecoder(None, translate=True)
    pending = ""
    for piece in decoded(source, decoder):
        lines = (pending + newlines.decode(piece)).split("\n")
        pending = lines.pop()
        if len(pending) > length_max:
            raise UnreadableFileError("line_too_long", f"a line is longer than {length_max} characters")
        yield lines
    yield (pending + newlines.decode("", final=True)).split("\n")
