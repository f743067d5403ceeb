"""The worked examples of the page on matching: what is stored, and under which settings. What comes of it is asked."""

from __future__ import annotations

from typing import Any

from support.matching_example import BOLT, IBAN, Example, Row
from support.matching_examples_money import MONEY

DUE_ON = tuple(f"2026-03-{day:02}" for day in range(1, 29, 4))


def _in_a_row(*amounts: str) -> tuple[Row, ...]:
    """Return invoices of one counterparty, each due four days after the one before."""
    return tuple({**row, "dueDate": day} for row, day in zip(_invoices(*amounts, **BOLT), DUE_ON, strict=False))


def _invoices(*amounts: str, **fields: Any) -> tuple[Row, ...]:
    return tuple(
        {"amount": amount, "reference": f"INV-2026-{at}", "externalId": f"{at}", **fields}
        for at, amount in enumerate(amounts, 1)
    )


def _listed(*lines: tuple[int, int, str | None]) -> list[Row]:
    """Return lines of an advice on these invoices: what is paid of each, what is held back, and why."""
    return [
        {"reference": f"INV-2026-{at}", "amountMinor": paid, "deductionMinor": held, "reason": reason}
        for at, (paid, held, reason) in enumerate(lines, 1)
    ]


EXAMPLES = (
    # what names an item
    Example(
        key="reference",
        expected=({"amount": "1190.00", "reference": "INV-2026-0417", **BOLT},),
        incoming=({"amount": "1190.00", "remittance": "Invoice INV 2026 0417, thanks", "counterpartyName": "BOLT"},),
    ),
    Example(
        key="end_to_end_id",
        expected=({"amount": "480.00", "endToEndId": "ACME-20260310-7", **IBAN},),
        incoming=({"amount": "480.00", "endToEndId": "ACME-20260310-7", **IBAN},),
    ),
    Example(
        key="part",
        expected=({"amount": "1000.00", "reference": "INV-2026-0500"},),
        incoming=({"amount": "400.00", "remittance": "first part of INV-2026-0500"},),
    ),
    Example(
        key="too_much",
        expected=({"amount": "1000.00", "reference": "INV-2026-0501"},),
        incoming=({"amount": "1400.00", "remittance": "INV-2026-0501"},),
    ),
    Example(
        key="weak_reference",
        expected=({"amount": "75.00", "reference": "4711"},),
        incoming=({"amount": "75.00", "remittance": "for 4711"},),
    ),
    Example(
        key="near_reference",
        expected=(
            {"amount": "60.00", "reference": "INV-2026-0417"},
            {"amount": "60.00", "reference": "INV-2026-0522"},
        ),
        incoming=({"amount": "60.00", "remittance": "Invoice 2026-0471"},),
    ),
    Example(
        key="common_reference",
        expected=tuple({"amount": f"{600 + at}.00", "reference": "RENT2026", **BOLT} for at in range(13)),
        incoming=({"amount": "604.00", "remittance": "RENT2026", **BOLT},),
    ),
    # who pays
    Example(
        key="name",
        expected=({"amount": "321.09", "counterpartyName": "Ada Lovelace"},),
        incoming=({"amount": "321.09", "counterpartyName": "LOVELACE ADA"},),
    ),
    Example(
        key="similar_name",
        expected=({"amount": "321.09", "counterpartyName": "Hartmann Maschinenbau GmbH"},),
        incoming=({"amount": "321.09", "counterpartyName": "HARTMAN MASCHINENBAU"},),
    ),
    Example(
        key="text_name",
        expected=({"amount": "321.09", **BOLT},),
        incoming=({"amount": "321.09", "remittance": "ACH CREDIT BOLT PAYMENTS"},),
    ),
    Example(
        key="on_behalf",
        expected=({"amount": "321.09", **BOLT},),
        incoming=({"amount": "321.09", "counterpartyName": "Ada Lovelace", "ultimateCounterpartyName": "BOLT GMBH"},),
    ),
    Example(
        key="account",
        expected=({"amount": "250.00", **IBAN, "expectedFrom": "2026-03-01", "expectedTo": "2026-03-31"},),
        incoming=({"amount": "250.00", **IBAN, "counterpartyName": "Bolt GmbH"},),
    ),
    Example(
        key="other_name",
        expected=({"amount": "99.00", "reference": "INV-2026-0600", "counterpartyName": "Ada Lovelace"},),
        incoming=({"amount": "99.00", "remittance": "INV-2026-0600", "counterpartyName": "Charles Babbage"},),
    ),
    # the amount
    Example(
        key="tolerance",
        expected=({"amount": "100.00", "reference": "INV-2026-0700"},),
        incoming=({"amount": "99.97", "remittance": "INV-2026-0700"},),
        settings={"amountToleranceMinor": 5},
    ),
    Example(
        key="limits",
        expected=(
            {"amount": "100.00", "minAmountMinor": 9_000, "maxAmountMinor": 11_000, "reference": "POWER-2026-03"},
        ),
        incoming=({"amount": "104.20", "remittance": "POWER-2026-03"},),
    ),
    Example(
        key="terms",
        expected=(
            {
                "amount": "800.00",
                "terms": [{"amountMinor": 78_400, "until": "2026-03-14"}],
                "dueDate": "2026-03-31",
                "reference": "INV-2026-0520",
            },
        ),
        incoming=({"amount": "784.00", "remittance": "INV-2026-0520"},),
    ),
    Example(
        key="several_terms",
        expected=tuple(
            {
                "amount": amount,
                "terms": [{"amountMinor": asked, "until": "2026-03-14"}],
                "reference": reference,
                "counterpartyName": "Bolt GmbH",
            }
            for amount, asked, reference in (("100.00", 9_800, "INV-2026-0521"), ("120.00", 11_760, "INV-2026-0522"))
        ),
        incoming=({"amount": "215.60", "remittance": "INV-2026-0521, INV-2026-0522", "counterpartyName": "Bolt GmbH"},),
    ),
    Example(
        key="near_amount",
        expected=({"amount": "1500.00", **IBAN},),
        incoming=({"amount": "1488.00", **IBAN},),
    ),
    # differences that are settled without money
    Example(
        key="fee",
        expected=({"amount": "1500.00", "reference": "INV-2026-0510"},),
        incoming=({"amount": "1485.00", "remittance": "INV-2026-0510"},),
    ),
    Example(
        key="tolerated_fee",
        expected=({"amount": "1500.00", "reference": "INV-2026-0511"},),
        incoming=({"amount": "1485.00", "remittance": "INV-2026-0511"},),
        settings={"feeToleranceMinor": 2_000},
    ),
    Example(
        key="rounding",
        expected=({"amount": "99.97", "reference": "INV-2026-0512"},),
        incoming=({"amount": "100.00", "remittance": "INV-2026-0512"},),
    ),
    Example(
        key="over_payment",
        expected=({"amount": "1000.00", "reference": "INV-2026-0513"},),
        incoming=({"amount": "1010.00", "remittance": "INV-2026-0513"},),
    ),
    Example(
        key="another_currency",
        expected=({"amount": "100.00", "reference": "INV-2026-0514"},),
        incoming=({"amount": "108.56", "currency": "USD", "remittance": "INV-2026-0514"},),
        rates=(("EUR", "USD", "1.08"),),
    ),
    Example(key="amount_alone", expected=({"amount": "87.65"},), incoming=({"amount": "87.65"},)),
    # the others
    Example(
        key="alike",
        expected=({"amount": "50.00", **BOLT, "externalId": "A"}, {"amount": "50.00", **BOLT, "externalId": "B"}),
        incoming=({"amount": "50.00", **BOLT},),
    ),
    Example(
        key="quoted_twice",
        expected=({"amount": "300.00", "reference": "INV-2026-0800"},),
        incoming=(
            {"amount": "300.00", "remittance": "INV-2026-0800", "bookingDate": "2026-03-12"},
            {"amount": "300.00", "remittance": "once more INV-2026-0800", "bookingDate": "2026-03-19"},
        ),
    ),
    Example(
        key="not_all_compared",
        expected=(
            {"amount": "604.00", **BOLT},
            *({"amount": f"{700 + at}.00", "reference": "RENT2026"} for at in range(13)),
        ),
        incoming=({"amount": "604.00", "remittance": "RENT2026", **BOLT},),
    ),
    Example(
        key="not_booked",
        expected=({"amount": "640.00", "reference": "INV-2026-0900"},),
        incoming=({"amount": "640.00", "remittance": "INV-2026-0900", "status": "pending"},),
    ),
    # groups
    Example(
        key="by_key",
        expected=tuple(
            {"amount": amount, "groupKey": "PO-2026-7", "externalId": f"ORDER-{at}"}
            for at, amount in enumerate(("19.90", "34.50", "45.60"), 1)
        ),
        incoming=({"amount": "100.00", "remittance": "Payout PO-2026-7", "counterpartyName": "PSP"},),
    ),
    Example(
        key="by_references",
        expected=_invoices("100.00", "120.00", "80.00", **BOLT),
        incoming=({"amount": "300.00", "remittance": "INV-2026-1, INV-2026-2, INV-2026-3", **BOLT},),
    ),
    Example(
        key="by_advice",
        expected=_invoices("400.00", "250.00", **BOLT),
        incoming=({"amount": "650.00", **BOLT},),
        advices=({**BOLT, "totalMinor": 65_000, "lines": _listed((40_000, 0, None), (25_000, 0, None))},),
    ),
    Example(
        key="deduction",
        expected=_invoices("400.00", "250.00", **BOLT),
        incoming=({"amount": "600.00", **BOLT},),
        advices=(
            {
                **BOLT,
                "totalMinor": 60_000,
                "lines": _listed((36_000, 4_000, "one was broken"), (24_000, 1_000, "freight")),
            },
        ),
    ),
    Example(
        key="by_quotes",
        expected=(
            {"amount": "100.00", "reference": "INV-2026-1", **BOLT},
            {"amount": "120.00", "reference": "3675", **BOLT},
        ),
        incoming=({"amount": "220.00", "remittance": "INV-2026-1 + 3675", **BOLT},),
    ),
    Example(
        key="in_series",
        expected=(
            {"amount": "100.50", "reference": "INV-2026-1401", **BOLT},
            {"amount": "201.75", "reference": "INV-2026-1402", **BOLT},
            {"amount": "50.23", "reference": "INV-2026-1403", **BOLT},
        ),
        incoming=({"amount": "352.48", "remittance": "INV-2026-1401/02/03", **BOLT},),
    ),
    Example(
        key="by_references_and_one",
        expected=(
            {"amount": "100.00", "reference": "INV-2026-1401", **BOLT},
            {"amount": "120.00", "reference": "INV-2026-1402", **BOLT},
        ),
        incoming=({"amount": "220.00", "remittance": "INV-2026-1401", **BOLT},),
    ),
    Example(
        key="by_references_and_more",
        expected=(
            {"amount": "100.50", "reference": "INV-2026-1401", **BOLT},
            {"amount": "201.75", "reference": "INV-2026-1402", **BOLT},
            {"amount": "50.23", "reference": "INV-2026-1403", **BOLT},
        ),
        incoming=({"amount": "352.48", "remittance": "INV-2026-1401 and others", **BOLT},),
    ),
    Example(
        key="by_some_references",
        expected=_invoices("100.00", "120.00", "80.00", **BOLT),
        incoming=({"amount": "220.00", "remittance": "INV-2026-1, INV-2026-2, INV-2026-3", **BOLT},),
    ),
    Example(
        key="by_instalments",
        expected=({"amount": "100.00", "reference": "INV-2026-1000"},),
        incoming=(
            {"amount": "40.00", "remittance": "INV-2026-1000 first"},
            {"amount": "60.00", "remittance": "INV-2026-1000 rest"},
        ),
    ),
    Example(
        key="by_some_instalments",
        expected=({"amount": "100.00", "reference": "INV-2026-1000"},),
        incoming=(
            {"amount": "40.00", "remittance": "INV-2026-1000 a"},
            {"amount": "60.00", "remittance": "INV-2026-1000 b"},
            {"amount": "70.00", "remittance": "INV-2026-1000 c"},
        ),
    ),
    Example(
        key="by_run",
        expected=_in_a_row("110.10", "223.40", "87.35", "141.07"),
        incoming=({"amount": "310.75", "remittance": "as agreed", **BOLT},),
    ),
    Example(
        key="by_run_minus",
        expected=_in_a_row("110.10", "223.40", "87.35", "141.07", "312.09"),
        incoming=({"amount": "786.66", "remittance": "as agreed", **BOLT},),
    ),
    Example(
        key="by_few",
        expected=_in_a_row("110.10", "223.40", "87.35", "141.07", "312.09", "54.80"),
        incoming=({"amount": "422.19", "remittance": "as agreed", **BOLT},),
    ),
    Example(
        key="by_equal_parts",
        expected=({"amount": "300.00", "reference": "INV-2026-1050", **BOLT},),
        incoming=tuple(
            {"amount": "100.00", "bookingDate": day, "remittance": "as agreed", **BOLT}
            for day in ("2026-03-02", "2026-04-01", "2026-05-04")
        ),
    ),
    Example(
        key="by_proved_parts",
        expected=({"amount": "1000.07", "reference": "INV-2026-1052", **BOLT},),
        incoming=(
            {"amount": "500.03", "bookingDate": "2026-03-11", "remittance": "first half", **BOLT},
            {"amount": "500.04", "bookingDate": "2026-04-10", "remittance": "second half", **BOLT},
        ),
    ),
    Example(
        key="by_unnamed_parts",
        expected=({"amount": "300.10", "reference": "INV-2026-1051", **BOLT},),
        incoming=(
            {"amount": "100.03", "bookingDate": "2026-03-02", "remittance": "as agreed", **BOLT},
            {"amount": "100.03", "bookingDate": "2026-04-01", "remittance": "as agreed", **BOLT},
            {"amount": "100.04", "bookingDate": "2026-05-04", "remittance": "the rest"},
        ),
    ),
    # money against money
    *MONEY,
    # what stays open
    Example(
        key="no_candidate",
        expected=({"amount": "412.00", "reference": "INV-2026-1100", **BOLT},),
        incoming=({"amount": "95.00", "remittance": "membership", "counterpartyName": "Tennis Club"},),
    ),
    Example(
        key="reversal",
        expected=({"amount": "412.00", "reference": "INV-2026-1101"},),
        incoming=({"amount": "412.00", "remittance": "INV-2026-1101", "reversal": True},),
    ),
    Example(
        key="ambiguous",
        expected=tuple({"amount": "30.00", "externalId": f"T{at}"} for at in range(1, 5)),
        incoming=({"amount": "30.00"},),
    ),
    Example(
        key="amount_mismatch",
        expected=({"amount": "500.00", **BOLT},),
        incoming=({"amount": "90.00", **BOLT},),
    ),
    Example(
        key="date_out_of_window",
        expected=({"amount": "500.00", "reference": "INV-2025-0003", "dueDate": "2025-09-01"},),
        incoming=({"amount": "500.00", "remittance": "INV-2025-0003"},),
    ),
    Example(
        key="currency_mismatch",
        expected=({"amount": "300.00", "currency": "USD", "reference": "INV-2026-1200"},),
        incoming=({"amount": "276.00", "remittance": "INV-2026-1200"},),
    ),
    Example(
        key="duplicate",
        expected=({"amount": "155.00", "reference": "INV-2026-1300"},),
        incoming=tuple(
            {"amount": "155.00", "remittance": "INV-2026-1300", "externalId": name} for name in ("bank-1", "bank-2")
        ),
        uploaded=True,
    ),
    Example(
        key="missing_reference",
        expected=({"amount": "321.09", "counterpartyName": "Ada Lovelace", "reference": "INV-2026-1400"},),
        incoming=({"amount": "321.09", "counterpartyName": "Ada Lovelace", "remittance": "invoice of March"},),
        settings={"requireReference": True},
    ),
    Example(
        key="counterparty_mismatch",
        expected=({"amount": "87.65", "counterpartyName": "Ada Lovelace"},),
        incoming=({"amount": "87.65", "counterpartyName": "Charles Babbage"},),
    ),
    Example(
        key="pending_only",
        expected=({"amount": "500.00", **BOLT},),
        incoming=({"amount": "90.00", "status": "pending", **BOLT},),
    ),
    Example(
        key="budget_exhausted",
        expected=_invoices(*["100.00"] * 13),
        incoming=({"amount": "650.00", "remittance": " ".join(f"INV-2026-{at}" for at in range(1, 14))},),
    ),
)
