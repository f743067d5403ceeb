"""The fee that a bank includes in the amount of a return, told apart from what comes back."""

from __future__ import annotations

from payrec.domain.returns import takes_back
from payrec.domain.statements import Entry, Money


def tell_fee_apart(entry: Entry, *, original_minor: int | None = None, included: bool = False) -> None:
    """Make the amount of a return that of the payment which comes back, and ``net`` what the account moved.

    Only where the bank says it: that the amount includes all of its charges (``included``), or what the payment was
    (``original_minor``, in the entry's currency), which with the charges is the amount.
    """
    fee = sum(charge.amount_minor for charge in entry.charges)
    if entry.direction != "debit" or not 0 < fee < entry.amount_minor:
        return
    if not included and original_minor != entry.amount_minor - fee:
        return
    if any((charge.currency, charge.direction) != (entry.currency, "debit") for charge in entry.charges):
        return
    code, reason = entry.bank_transaction_code, entry.return_reason
    if takes_back(reversal=entry.reversal, bank_transaction_code=code, return_reason=reason):
        entry.net = Money(entry.amount_minor, entry.currency, "debit")
        entry.amount_minor -= fee
