"""Returns: which lines take money back, and from what of a payment an amount is taken back.

Sources of the codes: ISO 20022 external code sets ExternalBankTransactionSubFamily1Code and ExternalReturnReason1Code;
the Geschäftsvorfallcodes (GVC) of the German banking industry (DFÜ-Abkommen, annex 3, chapter 8); SWIFT Standards
MT940, field 61, transaction type RTI; the transaction types of Adyen's settlement details report, Stripe's balance
transactions and PayPal's event codes (T-codes).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal
from uuid import UUID

from payrec.constants import KEYS_CACHED_MAX

ReturnKind = Literal["return", "refund", "chargeback", "chargeback_won", "recall"]

_ISO: Final[dict[str, ReturnKind]] = {
    **dict.fromkeys(("ARET", "AREV", "PRDD", "RRTN", "UPCQ", "UPDD"), "return"),
    **dict.fromkeys(("RCDD", "RPCR"), "recall"),
    "UPCT": "chargeback",
}
"""Sub-families: returned, reversed and unpaid transfers, debits and cheques; cancellations; unpaid cards."""

_GVC: Final[dict[str, ReturnKind]] = dict.fromkeys(("009", "059", "108", "109", "159", "181", "184", "899"), "return")
"""Returned debits (009, 108, 109), credited again (181, 184), returned transfers (059, 159), cancellations (899)."""

_SWIFT: Final[dict[str, ReturnKind]] = dict.fromkeys(("FRTI", "NRTI", "RTI", "SRTI"), "return")
"""Returned item."""

_PROVIDERS: Final[dict[str, ReturnKind]] = {
    **dict.fromkeys(("REFUND", "REFUNDED", "PAYMENTREFUND", "PARTIALCAPTUREREVERSAL", "T1107"), "refund"),
    **dict.fromkeys(("CHARGEBACK", "SECONDCHARGEBACK", "DISPUTE", "T1201"), "chargeback"),
    **dict.fromkeys(("CHARGEBACKREVERSED", "DISPUTEREVERSAL", "T1202"), "chargeback_won"),
    **dict.fromkeys(("CHARGEFAILURE", "PAYMENTFAILUREREFUND", "SETTLEDREVERSED", "T1106"), "return"),
    **dict.fromkeys(("PAYOUTFAILURE", "PAYOUTREVERSAL"), "return"),
}
"""What payment service providers call it, written together.

A debit that fails after it was paid is taken back, as is what was authorized and not captured; a payout that fails
comes back to the provider.
"""

_REASONS: Final[dict[str, ReturnKind]] = {"FOCR": "recall", "MD06": "refund"}
"""Return reasons that say more than that it is a return: a followed cancellation, a debtor's refund."""

_CODES: Final = _ISO | _GVC | _SWIFT | _PROVIDERS
_PART: Final = re.compile(r"[A-Z0-9]+", re.ASCII)
_ISO_LENGTH: Final = 4
_JOINED_LENGTH: Final = 3 * _ISO_LENGTH


@lru_cache(maxsize=KEYS_CACHED_MAX)
def return_kind(bank_transaction_code: str | None, return_reason: str | None = None) -> ReturnKind | None:
    """Return what kind of return a line is by its codes; None where they name none.

    A bank transaction code may be written as ``PMNT-RCDT-RRTN``, ``PMNTIDDTUPDD``, ``109`` or ``NRTI+109``.
    """
    parts = _PART.findall((bank_transaction_code or "").upper())
    found = _CODES.get("".join(parts))
    for part in parts:
        found = found or _CODES.get(part)
        if found is None and len(part) == _JOINED_LENGTH:
            found = _ISO.get(part[-_ISO_LENGTH:])
    reason = (return_reason or "").strip().upper()
    if reason and found in {None, "return"}:
        return _REASONS.get(reason, "return")
    return found


def takes_back(*, reversal: bool, bank_transaction_code: str | None, return_reason: str | None) -> bool:
    """Tell whether a line takes money of an earlier one back, so that it pays nothing.

    A chargeback that was won is money that comes again: it pays like any other.
    """
    kind = return_kind(bank_transaction_code, return_reason)
    return kind != "chargeback_won" and (reversal or kind is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """What of a payment may still be taken back from one place: what it settled of one item, or what is open of it."""

    amount_minor: int
    settled_minor: int = 0
    """The same in the item's currency."""
    match_id: UUID | None = None
    """None for what is open."""
    expected_id: UUID | None = None


def taken_from(amount_minor: int, parts: Sequence[Part]) -> list[Part] | None:
    """Return what an amount takes of each part of a payment, or None where it could be more than one way.

    All of the payment takes all of each part, and less than all takes of the only part, or is one part exactly.
    """
    if amount_minor == sum(part.amount_minor for part in parts):
        return list(parts)
    chosen = list(parts) if len(parts) == 1 else [part for part in parts if part.amount_minor == amount_minor]
    if len(chosen) != 1 or chosen[0].amount_minor < amount_minor:
        return None
    [part] = chosen
    # Rounded down, so that what is left of the item's amount never runs out before the payment's does.
    settled = part.settled_minor * amount_minor // part.amount_minor
    return [
        Part(amount_minor=amount_minor, settled_minor=settled, match_id=part.match_id, expected_id=part.expected_id)
    ]
