"""Plain text for a terminal: lines, and tables that are as wide as what is in them."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Iterable, Sequence
from typing import Final

RIGHT: Final = ">"
"""Alignment of a column of numbers."""

GAP: Final = "  "
"""Between two columns."""

WIDTH_DEFAULT: Final = 120
"""Columns of a terminal that does not say, or of a file."""

WRAPPED_MIN: Final = 30
"""A wrapped column is at least so wide, whatever the terminal."""


def say(text: str = "") -> None:
    """Write a line to standard output, at once."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def complain(text: str) -> None:
    """Write a line to standard error."""
    sys.stderr.write(f"payrec: {text}\n")
    sys.stderr.flush()


def table(
    titles: Sequence[str], rows: Iterable[Sequence[str]], *, widths: Sequence[int | str] = (), wrapped: bool = False
) -> str:
    """Return a table with its titles underlined.

    ``widths`` says for each column, from the left, how many characters it may have at most (0: any number), or RIGHT
    for a column of numbers; a text that is cut ends with ``…``. With ``wrapped``, the last column goes on below itself
    where the terminal ends.
    """
    limits = [*widths, *([0] * (len(titles) - len(widths)))]
    cells = [[_cut(cell, limit) for cell, limit in zip(row, limits, strict=True)] for row in rows]
    sizes = [max(len(row[at]) for row in [list(titles), *cells]) for at in range(len(titles))]
    if wrapped:
        left = shutil.get_terminal_size((WIDTH_DEFAULT, 0)).columns - sum(sizes[:-1]) - len(GAP) * (len(sizes) - 1)
        sizes[-1] = min(sizes[-1], max(left, WRAPPED_MIN))
    lines = [list(titles), ["─" * size for size in sizes]]
    for row in cells:
        first, *more = textwrap.wrap(row[-1], sizes[-1]) or [""]
        lines.append([*row[:-1], first])
        lines.extend([*[""] * (len(row) - 1), text] for text in more)
    return "\n".join(
        GAP.join(
            cell.rjust(size) if limit == RIGHT else cell.ljust(size)
            for cell, size, limit in zip(line, sizes, limits, strict=True)
        ).rstrip()
        for line in lines
    )


def _cut(text: str, limit: int | str) -> str:
    text = " ".join(text.split())
    if isinstance(limit, int) and 0 < limit < len(text):
        return text[: limit - 1].rstrip() + "…"
    return text
