"""Worked examples of sums nearly paid, of the tenant's own money, of what is given back, and of credit notes."""

from __future__ import annotations

from support.matching_example import BOLT, Example

MONEY = (
    Example(
        key="near_sum",
        expected=tuple(
            {"amount": amount, "reference": reference, "counterpartyName": "Bolt GmbH"}
            for amount, reference in (
                ("100.00", "INV-2026-0515"),
                ("120.00", "INV-2026-0516"),
                ("80.00", "INV-2026-0517"),
            )
        ),
        incoming=(
            {
                "amount": "285.00",
                "remittance": "INV-2026-0515 INV-2026-0516 INV-2026-0517",
                "counterpartyName": "Bolt GmbH",
            },
        ),
    ),
    Example(
        key="transfer",
        expected=(),
        incoming=(
            {"amount": "2500.00", "direction": "debit", "account": "GIRO", "counterpartyAccount": "SAVINGS"},
            {"amount": "2500.00", "account": "SAVINGS", "counterpartyAccount": "GIRO"},
        ),
    ),
    Example(
        key="payout",
        expected=({"amount": "99.00", "reference": "INV-2026-1070"},),
        incoming=(
            {"amount": "99.00", "remittance": "INV-2026-1070", "account": "PSP", "groupKey": "PO-2026-8"},
            {"amount": "96.50", "direction": "debit", "account": "PSP", "groupKey": "PO-2026-8"},
            {"amount": "96.50", "remittance": "Payout PO-2026-8", "account": "GIRO", "bookingDate": "2026-03-14"},
        ),
    ),
    Example(
        key="unnamed_payout",
        expected=(),
        incoming=(
            {"amount": "96.50", "direction": "debit", "account": "PSP", "groupKey": "PO-2026-9"},
            {"amount": "96.50", "remittance": "card payments", "account": "GIRO", "bookingDate": "2026-03-14"},
        ),
    ),
    Example(
        key="refund",
        expected=(),
        incoming=(
            {"amount": "75.00", "remittance": "ORDER-2026-31", **BOLT},
            {
                "amount": "75.00",
                "direction": "debit",
                "remittance": "refund of ORDER-2026-31",
                "bookingDate": "2026-03-20",
                **BOLT,
            },
        ),
    ),
    Example(
        key="credit_note",
        expected=(
            {"amount": "100.00", "reference": "INV-2026-1080", **BOLT},
            {
                "amount": "20.00",
                "direction": "debit",
                "reference": "CN-2026-3",
                "groupKey": "INV-2026-1080",
                **BOLT,
            },
        ),
        incoming=(),
    ),
    Example(
        key="by_references_less",
        expected=(
            {"amount": "100.00", "reference": "INV-2026-1081", **BOLT},
            {"amount": "20.00", "direction": "debit", "reference": "CN-2026-41", **BOLT},
        ),
        incoming=({"amount": "80.00", "remittance": "INV-2026-1081 less CN-2026-41", **BOLT},),
    ),
    Example(
        key="by_key_less",
        expected=tuple(
            {"amount": amount, "direction": way, "groupKey": "PO-2026-9", "externalId": f"SOLD-{at}", **told}
            for at, (amount, way, told) in enumerate(
                (
                    ("60.00", "credit", {"reference": "ORDER-2026-91"}),
                    ("45.00", "credit", {"reference": "ORDER-2026-92"}),
                    ("15.00", "debit", {"reference": "CREDIT-2026-17"}),
                )
            )
        ),
        incoming=({"amount": "90.00", "remittance": "Payout PO-2026-9", "counterpartyName": "PSP"},),
    ),
    Example(
        key="by_key_net",
        expected=tuple(
            {"amount": amount, "groupKey": "PO-2026-10", "reference": reference, "externalId": reference}
            for amount, reference in (("60.00", "ORDER-2026-93"), ("45.00", "ORDER-2026-94"))
        ),
        incoming=({"amount": "102.40", "remittance": "Payout PO-2026-10", "counterpartyName": "PSP"},),
    ),
    Example(
        key="by_credit_notes",
        expected=(
            {"amount": "100.00", "reference": "INV-2026-1082", **BOLT},
            {"amount": "20.00", "direction": "debit", "reference": "CN-2026-42", **BOLT},
        ),
        incoming=({"amount": "80.00", "remittance": "INV-2026-1082", **BOLT},),
    ),
)
