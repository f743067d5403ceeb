"""Which report a table is, told by its headings alone, and where its header stands."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from payrec.constants import CSV_COLUMNS_MAX, CSV_HEADER_SEARCHED_ROWS
from payrec.errors import UnreadableFileError
from payrec.formats.base import Head
from payrec.formats.csv.table import DELIMITERS, tables
from payrec.formats.csv.values import unwrap
from payrec.formats.csv.words import fold

FORMATS: Final = ("stripe", "adyen", "paypal_stl", "paypal_trr")

_STRIPE: Final = frozenset({"balance transaction id", "gross", "fee", "net"})
_STRIPE_HISTORY: Final = frozenset({"id", "source", "amount", "fee", "net", "customer facing amount", "transfer"})
_ADYEN: Final = frozenset({"psp reference", "net currency", "net credit nc"})
_PAYPAL: Final = frozenset({"ch", "transaction event code"})
"""The first cell of PayPal's header is the type of its line (Settlement Report Specification)."""
_PAYPAL_STATUS: Final = "transactional status"
"""Only the transaction report has it; what is in a settlement report is settled."""

_MAY_BE: Final = re.compile(
    r"balance[\W_]+transaction[\W_]+id|customer[\W_]+facing[\W_]+amount|psp[\W_]+reference|transaction[\W_]+event[\W_]+code",
    re.IGNORECASE,
)
"""What every one of the headers has: most files are told apart without being split."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """A report that was recognised."""

    format: str
    """One of FORMATS."""
    delimiter: str
    header: int
    """Index of the record with the headings."""
    line: int
    """Line where that record begins."""
    headings: list[str]


def find_report(head: Head, profile: Mapping[str, Any]) -> Report | None:
    """Return the report that the head begins, None when it is none.

    Raises
    ------
    UnreadableFileError
        ``csv_too_many_columns``.

    """
    if _MAY_BE.search(head.text) is None:
        return None
    delimiter = profile.get("delimiter")
    for table in tables(head, DELIMITERS if delimiter is None else [delimiter]):
        for index, row in enumerate(table.rows[:CSV_HEADER_SEARCHED_ROWS]):
            name = _format_of(row)
            if name is not None:
                if len(row) > CSV_COLUMNS_MAX:
                    raise UnreadableFileError("csv_too_many_columns", f"more than {CSV_COLUMNS_MAX} columns")
                headings = [unwrap(cell).strip() for cell in row]
                return Report(
                    format=name, delimiter=table.delimiter, header=index, line=table.lines[index], headings=headings
                )
    return None


def _format_of(row: Sequence[str]) -> str | None:
    if len(row) < len(_ADYEN):
        return None
    words = {fold(cell) for cell in row[:CSV_COLUMNS_MAX]}
    if words >= _STRIPE or words >= _STRIPE_HISTORY:
        return "stripe"
    if words >= _ADYEN:
        return "adyen"
    if words >= _PAYPAL and fold(row[0]) == "ch":
        return "paypal_trr" if _PAYPAL_STATUS in words else "paypal_stl"
    return None
