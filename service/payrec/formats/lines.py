"""Lines out of the pieces of a file, bounded: what the formats share in which a line means something."""

from __future__ import annotations

import io
from collections.abc import Iterator

from payrec.constants import LINE_BYTES_MAX
from payrec.errors import UnreadableFileError
from payrec.formats.base import Source
from payrec.formats.encoding import Decoder, decoded


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
