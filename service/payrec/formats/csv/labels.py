"""Rows that are no transactions: told by a label such as ``Opening balance``, in one of their cells."""

from __future__ import annotations

from typing import Final, Literal

from payrec.formats.csv.words import CLOSING_WORDS, OPENING_WORDS, STOP_WORDS, TOTAL_WORDS, TURNOVER_WORDS, fold

Label = Literal["opening", "closing", "turnover"]

_LABEL_LENGTH_MAX: Final = 60
"""Characters of a label, a date behind it included."""

_LABELS: Final[dict[str, Label]] = {
    **dict.fromkeys(TURNOVER_WORDS, "turnover"),
    **dict.fromkeys(OPENING_WORDS, "opening"),
    **dict.fromkeys(CLOSING_WORDS, "closing"),
}
LABEL_START_LENGTH: Final = 5
"""Characters of a cell that ``may_be_label`` looks at."""

_STARTS: Final = frozenset(label[:LABEL_START_LENGTH] for label in _LABELS)
"""First letters of all labels; where they have accents they are looked up folded."""


def _plain(cell: str) -> str:
    """Return the folded label without dates, numbers and stop words."""
    return " ".join(word for word in fold(cell).split() if word not in STOP_WORDS and not word[0].isdigit())


def may_be_label(start: str) -> bool:
    """Tell whether a cell that begins so can be a label, for the many that say nothing of the kind."""
    return bool(start) and (start.lower() in _STARTS or not (start.isascii() and start[0].isalnum()))


def balance_label(cell: str) -> Label | None:
    """Return what the cell says the row is; None: nothing of the kind."""
    if len(cell) > _LABEL_LENGTH_MAX or not may_be_label(cell[:LABEL_START_LENGTH]):
        return None
    return _LABELS.get(fold(cell)) or _LABELS.get(_plain(cell))


def total_label(cell: str) -> Label | None:
    """Return the same, also for words too general for a row that is a good transaction (``Total``)."""
    label = balance_label(cell)
    if label is not None or len(cell) > _LABEL_LENGTH_MAX or not cell:
        return label
    plain = _plain(cell)
    first = plain.partition(" ")[0]
    return "turnover" if plain in TOTAL_WORDS or (first in TOTAL_WORDS and cell.rstrip().endswith(":")) else None
