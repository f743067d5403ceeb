"""Adyen's settlement details report (docs.adyen.com/reporting): a journal row each for payments, refunds and fees.

The payer's side is in ``(GC)`` columns, gross currency; the merchant's side in ``(NC)`` columns, net currency, and is
not the same amount even where the currency is. A row without gross is a fee, a reserve or the payout of its batch.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from payrec.domain.statements import Entry, Problem
from payrec.formats.csv.cells import kept_cells, short_text
from payrec.formats.csv.values import AmountReader
from payrec.formats.psp.rows import Headings, Ledger, identify, remit
from payrec.formats.psp.tables import Report


class Adyen:
    """Turns the rows of one report into entries."""

    def __init__(self, report: Report, ledger: Ledger, profile: Mapping[str, Any], currency: str | None) -> None:
        self.headings = headings = Headings(report.headings, profile)
        self._ledger = ledger
        self._default_currency = currency or ""
        self._core = headings.picker(
            *("merchant account", "psp reference", "modification reference", "type", "batch number"),
            *("gross currency", "gross credit gc", "gross debit gc"),
            *("net currency", "net credit nc", "net debit nc"),
            *("booking date", "creation date", "merchant reference", "modification merchant reference"),
        )
        fees = ("commission nc", "markup nc", "scheme fees nc", "interchange nc")
        self._fees = [index for name in fees if (index := headings.index(name)) >= 0]
        self._rate = headings.index("exchange rate")

    def entry(self, line: int, row: list[str]) -> tuple[Entry, Problem | None]:
        """Return the entry of a row; raises ``RecordError``."""
        cells = self.headings.fit(row)
        ledger = self._ledger
        (
            account, psp, modification, kind, batch, gross_currency, gross_in, gross_out, net_currency, net_in, net_out,
            booked, created, reference, other_reference,
        ) = self._core(cells)  # fmt: skip
        currency, read = ledger.currencies[net_currency or self._default_currency]
        net = _difference(net_in, net_out, read)
        gross = (0, currency)
        if gross_in.strip() or gross_out.strip():
            payer_currency, read_gross = ledger.currencies[gross_currency or currency]
            gross = (_difference(gross_in, gross_out, read_gross), payer_currency)
        charges = [(read(cells[index]), currency) for index in self._fees if cells[index].strip()]
        on = ledger.dates[booked] or ledger.dates[created]
        entry = ledger.entry(line, ledger.texts[account], gross, (net, currency), charges, (on, None))
        # As its payout names it and the bank repeats it ("TX100 batch 7, AcmeDE"): by itself the number is that of
        # batches of other merchant accounts too, and tells no payout from another.
        group = f"batch {batch}, {account}" if batch.strip() and account.strip() else batch
        ledger.describe(entry, code=kind, bank_reference=modification or psp, end_to_end_id=reference, group=group)
        if psp:
            entry.transaction_id = short_text(psp)
        # Fees and payouts say what they are where a payment has the reference of its modification.
        remit(entry, (other_reference if other_reference != reference else "", modification if not psp else ""))
        if gross[1] != currency and self._rate >= 0:
            entry.exchange_rate = ledger.texts[cells[self._rate]] if cells[self._rate] else None
        if self.headings.metadata:
            entry.metadata = kept_cells(self.headings.metadata, cells)
        if psp:
            identify(entry, psp, modification, kind, batch)
        elif modification:
            # A row that is no payment's has words in its place ("Transaction Fees January"), and batches are counted
            # by each merchant account for itself, also where the reports of several are one account here.
            identify(entry, account, modification, kind, batch, of_account=True)
        return entry, None


def _difference(credit: str, debit: str, read: AmountReader) -> int:
    """Return credit less debit; a row has one of them, or both. Raises ``RecordError`` when it has none."""
    if not debit.strip():
        return read(credit)
    return (read(credit) if credit.strip() else 0) - read(debit)
