"""Stripe's itemised balance and payout reports (docs.stripe.com/reports): a balance transaction a row.

``gross`` is signed and in the account's currency, ``fee`` is what Stripe keeps, ``net`` is their difference. Columns
vary with the report and the merchant's choice; metadata columns are ``payment_metadata[order_id]`` and the like. The
balance history of the dashboard has the same rows under other headings: ``id``, ``Amount``, ``order_id (metadata)``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from payrec.constants import METADATA_ENTRIES_MAX
from payrec.domain.statements import Entry, Money, Problem
from payrec.formats.base import RecordError
from payrec.formats.csv.cells import kept_cells
from payrec.formats.psp.rows import Headings, Ledger, identify, remit
from payrec.formats.psp.tables import Report

_METADATA: Final = re.compile(r"[a-z_]*metadata\[.+\]|.+ \(metadata\)", re.IGNORECASE)


class Stripe:
    """Turns the rows of one report into entries."""

    def __init__(self, report: Report, ledger: Ledger, profile: Mapping[str, Any], currency: str | None) -> None:
        self.headings = headings = Headings(report.headings, profile)
        self._ledger = ledger
        self._default_currency = currency or ""
        self._core = headings.picker(
            ("balance transaction id", "id"),
            "currency",
            ("gross", "amount"),
            *("fee", "net"),
            ("created utc", "created"),
            ("available on utc", "available on"),
            ("reporting category", "type"),
            ("source id", "source"),
            ("payment intent id", "payment intent"),
            ("automatic payout id", "payout id", "transfer"),
        )
        self._rest = headings.picker(
            *("description", "customer name", "charge id", "customer facing amount", "customer facing currency"),
        )
        found = [(headings.key(i), i) for i, name in enumerate(report.headings) if _METADATA.fullmatch(name)]
        self._searched = [index for _, index in found]
        """Columns with the merchant's own references."""
        self._kept = (headings.metadata or found)[:METADATA_ENTRIES_MAX]

    def entry(self, line: int, row: list[str]) -> tuple[Entry, Problem | None]:
        """Return the entry of a row, and what is wrong with its sums; raises ``RecordError``."""
        cells = self.headings.fit(row)
        ledger = self._ledger
        identity, currency_cell, gross_cell, fee_cell, net_cell, created, available, code, source, intent, group = (
            self._core(cells)
        )
        text, name, charge, facing, facing_currency = self._rest(cells)
        currency, read = ledger.currencies[currency_cell or self._default_currency]
        gross, fee, net = read(gross_cell), read(fee_cell) if fee_cell else 0, read(net_cell)
        entry = ledger.entry(
            line, None, (gross, currency), (net, currency), ((fee, currency),), (
                ledger.dates[created], ledger.dates[available],
            )
        )  # fmt: skip
        ledger.describe(entry, code=code, bank_reference=source, end_to_end_id=intent or source, group=group)
        if text or self._searched:
            remit(entry, [text, *[cells[index] for index in self._searched]])
        if name:
            entry.counterparty_name = ledger.texts[name]
        if charge:
            entry.transaction_id = ledger.texts[charge]
        if facing and facing_currency != currency_cell:
            entry.original = self._original(facing, facing_currency, currency)
        if self._kept:
            entry.metadata = kept_cells(self._kept, cells)
        identify(entry, identity)
        problem = None
        if gross - fee != net:
            problem = Problem(
                "control_total_mismatch", statement=entry.statement, line=line, detail="gross less fee is not net"
            )
        return entry, problem

    def _original(self, amount: str, currency_cell: str, currency: str) -> Money | None:
        """Return what the customer saw, where it is in another currency; a malformed one is not worth a rejection."""
        try:
            code, read = self._ledger.currencies[currency_cell]
            return Money(abs(read(amount)), code) if code != currency else None
        except RecordError:
            return None
