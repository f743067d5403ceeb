"""Which bank transaction codes say that a payment is taken back.

Sources: ISO 20022 external code set ExternalBankTransactionSubFamily1Code; the Geschäftsvorfallcodes (GVC) of the
German banking industry (DFÜ-Abkommen, annex 3, chapter 8); SWIFT Standards MT940, field 61, transaction type RTI.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

ISO_REVERSALS: Final = frozenset({"ARET", "AREV", "PRDD", "RCDD", "RPCR", "RRTN", "UPCQ", "UPCT", "UPDD"})
"""Sub-families: returns, reversals, cancellations and unpaid items, of transfers, debits, cheques and cards."""

GVC_REVERSALS: Final = frozenset({"009", "059", "108", "109", "159", "181", "184", "899"})
"""Returned debits (009, 108, 109), credited again (181, 184), returned transfers (059, 159), cancellations (899)."""

SWIFT_REVERSALS: Final = frozenset({"FRTI", "NRTI", "RTI", "SRTI"})
"""Returned item."""

_PART: Final = re.compile(r"[A-Z0-9]+", re.ASCII)
_ISO_LENGTH: Final = 4
_JOINED_LENGTH: Final = 3 * _ISO_LENGTH
_REVERSALS: Final = ISO_REVERSALS | GVC_REVERSALS | SWIFT_REVERSALS


@lru_cache(maxsize=4096)
def is_reversal(code: str | None) -> bool:
    """Tell whether a code such as ``PMNT-RCDT-RRTN``, ``PMNTIDDTUPDD``, ``109`` or ``NRTI+109`` names a reversal."""
    if not code:
        return False
    parts = _PART.findall(code.upper())
    return any(part in _REVERSALS or (len(part) == _JOINED_LENGTH and part[-4:] in ISO_REVERSALS) for part in parts)
