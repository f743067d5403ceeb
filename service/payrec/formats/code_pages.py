"""Which Windows code page a file without declaration is: that of western Europe, or that of central Europe.

Both give every letter a meaning, so bytes that cannot be decoded are rare. What tells them apart is what they make of
words: Polish, Czech and Hungarian letters of the one are signs of the other (``Tytu³``, ``¯abka``), and a heading is a
known word in one of them alone.
"""

from __future__ import annotations

import re
from typing import Final

from payrec.constants import CSV_HEADER_SEARCHED_ROWS
from payrec.formats.csv.columns import known_heading

WESTERN: Final = "cp1252"
CENTRAL: Final = "cp1250"

_LINE_LENGTH_MAX: Final = 20_000
"""Characters of a line in which headings are looked for; a longer one has none."""

_CELLS: Final = re.compile(r"[;,\t|]")
_SIGN_IN_WORD: Final = re.compile(r"[^\W\d_][¹³¿£¯¥][^\W\d_]|[^\W\d_]{3}[¹³£¯¥]+(?!\w)|(?<!\w)[£¯¥][^\W\d_]{2}")
"""Signs where letters stand: within a word, at its end (but not ``m³``), at its start (but not ``£5``)."""

_WORDS_PER_SIGN: Final = 50
"""One word in so many that would be misspelt is a typing error."""


def code_page(data: bytes) -> str:
    """Return ``cp1252`` or ``cp1250``; western where nothing speaks for the other."""
    western, central = data.decode(WESTERN, "replace"), data.decode(CENTRAL, "replace")
    if western.count("\ufffd") != central.count("\ufffd"):
        return min((western.count("\ufffd"), WESTERN), (central.count("\ufffd"), CENTRAL))[1]
    headings = _headings(western), _headings(central)
    if headings[0] != headings[1]:
        return WESTERN if headings[0] > headings[1] else CENTRAL
    signs = len(_SIGN_IN_WORD.findall(western))
    letters = sum(1 for character in western if character > "\x7f" and character.isalpha())
    return CENTRAL if signs * _WORDS_PER_SIGN > letters and signs else WESTERN


def _headings(text: str) -> int:
    """Count known headings among the first lines, where they differ at all."""
    lines = text.split("\n", CSV_HEADER_SEARCHED_ROWS)[:CSV_HEADER_SEARCHED_ROWS]
    return sum(
        known_heading(cell.strip().strip('"')) is not None
        for line in lines
        if not line.isascii() and len(line) <= _LINE_LENGTH_MAX
        for cell in _CELLS.split(line)
    )
